# SPDX-License-Identifier: Apache-2.0
"""Each family of emitted CUDA kernels once or more, on small odd shapes, against float64 on the CPU: what compute-sanitizer looks at.

    compute-sanitizer --tool memcheck python -m tests.device.families
    compute-sanitizer --tool racecheck python -m tests.device.families

Answers are checked too, and that no family is missing (words behind the command: cases whose names contain one of them, alone). The sanitizer is
slow, so there is little of everything. tests/run/cuda_architectures_test.py compiles the same cases for devices that are not here.
"""

from __future__ import annotations

import copy
import math
import sys

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import straightline as sl
from straightline.testing.groups import grouped

#: All that passes/targets/cuda/schedule.cpp knows but fill, whose work elementwise kernels do, tree_ensemble, which torch has no op for, and
#: matmul_group, which sm_90 alone has.
_FAMILIES = {
    "pointwise", "row_reduction", "iota", "gemv", "gemv_group", "matmul", "grouped_matmul", "attention", "convolution_direct", "gather_rows",
    "gather_elements", "gather_nd", "scatter_rows", "scatter_nd", "scan", "linalg", "pool", "grid_sample", "topk", "transpose",
    "recurrent_sequence",
}  # fmt: skip
#: Routes to our own kernels throughout.
OWN = {"linear": "cuda", "matmul": "cuda", "convolution": "cuda"}


class _Of(nn.Module):
    def __init__(self, function: object, **layers: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        return self.function(self, *inputs)  # type: ignore[operator]


def _r(*sizes: int) -> Tensor:
    return torch.randn(sizes)


def _distinct(*sizes: int) -> Tensor:
    """What is equal may come in any order from torch."""
    count = math.prod(sizes)
    return torch.randperm(count).reshape(sizes).float() / count - 0.5


class _Rows(nn.Module):
    """Rows of states that what makes them finds: halves of a rotary embedding behind a norm, and by a number below 0 an elementwise op's."""

    def __init__(self) -> None:
        super().__init__()
        for name in ("keys", "values"):
            self.register_buffer(name, _r(1, 3, 9, 20))
        self.register_buffer("cos", _r(20))
        self.register_buffer("sin", _r(20))

    def forward(self, x: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
        back = at - 9
        k = F.layer_norm(x, (20,)).transpose(1, 2)
        low, high = k.chunk(2, -1)
        self.keys.index_copy_(2, at, k * self.cos + torch.cat((-high, low), -1) * self.sin)
        self.values[:, :, back] = x.transpose(1, 2).tanh()
        return self.keys + 1, self.values * 2


def _several_in_a_launch() -> dict[str, tuple[nn.Module, tuple[Tensor, ...]]]:
    """Small kernels, which group-launches puts into one launch."""
    return {
        "parts of a launch": (
            _Of(lambda s, x, y: (x * 2, y.t().exp(), x[0] + 1, torch.arange(5, device=x.device) + 1, torch.arange(300, device=x.device) - 1)),
            (_r(33, 17), _r(5, 700)),
        ),
        "rows of a launch": (
            _Of(lambda s, x, y, z, w: (x.softmax(-1), F.layer_norm(y, (100,)), x.argmax(0), z.softmax(-1), F.layer_norm(w, (300,)))),
            (_r(33, 17), _r(5, 100), _r(7, 300), _r(4, 300)),
        ),
        "written rows of a launch": (
            _Of(lambda s, x, y, i, a, b: (x.index_copy(1, i, a.relu()), y.index_copy(0, i, b), x.index_select(1, i), y.index_select(0, i + 1))),
            (_r(3, 9, 20), _r(9, 300), torch.tensor([4, 7]), _r(3, 2, 20), _r(2, 300)),
        ),
        "families of a launch": (
            _Of(lambda s, x, y, i, a: (x * 2, F.layer_norm(y, (100,)), x.index_copy(0, i, a), y.index_select(0, i))),
            (_r(33, 17), _r(5, 100), torch.tensor([4, 2]), _r(2, 17)),
        ),
        "places of a launch": (
            _Of(lambda s, x, i, j, y: (
                x.index_put((i, j), y[:, 0], accumulate=True), x.scatter_add(0, i[:, None], y), x[i, j], (x * 2)[j, i[:3, None]],
                torch.gather(x, 1, j[:, None]), torch.gather(x + 1, 0, i[None]),
            )),
            (_r(9, 9), torch.randint(9, (7,)), torch.randint(7, (7,)), _r(7, 1)),
        ),
    }  # fmt: skip


def _matrices() -> dict[str, tuple[nn.Module, tuple[Tensor, ...]]]:
    """Factors and triangular systems."""
    return {
        "systems": (
            _Of(lambda s, a, b: (torch.linalg.solve(a, b), torch.cholesky_solve(b, torch.linalg.cholesky(a @ a.mT + a.new_ones(1))), torch.linalg.det(a), *torch.linalg.qr(a + b[..., :1]))),
            (_r(3, 23, 23) / 6 + 3 * torch.eye(23).flip(0), _r(3, 23, 5)),
        ),
    }  # fmt: skip


def _many_rows() -> dict[str, tuple[nn.Module, tuple[Tensor, ...]]]:
    """Groups of products of 16 bits, on elements whose sums bfloat16 has."""

    def some(*sizes: int) -> Tensor:
        return torch.randint(-1, 2, sizes).float()

    return {
        "gated, many rows": (
            _Of(lambda s, x, a, b: F.linear(x.bfloat16(), a.bfloat16()).relu() + F.linear(x.bfloat16(), b.bfloat16())),
            (some(70, 72), some(133, 72), some(133, 72)),
        ),
        "a group of products of many rows": (
            _Of(lambda s, x, a, b, c: tuple(F.linear(x.bfloat16(), w.bfloat16()) + 1 for w in (a, b, c))),
            (some(200, 72), some(24, 72), some(133, 72), some(7, 72)),
        ),
    }


def cases() -> dict[str, tuple[nn.Module, tuple[Tensor, ...]]]:
    """Models with inputs, by what they show."""
    keep = torch.rand(5, 77) < 0.6
    attend = F.scaled_dot_product_attention
    return {
        "pointwise": (_Of(lambda s, x, y: (x * y.t() + 1).tanh()), (_r(33, 17), _r(17, 33))),
        "rows": (_Of(lambda s, x: (x.softmax(-1), x.sum(-1), x.argmax(-1))), (_r(5, 1003),)),
        "rows of a cluster": (_Of(lambda s, x: (x.softmax(-1), x.argmax(-1), (x > 9).any(-1))), (_r(3, 150001),)),
        "rows of a cluster, norm": (_Of(lambda s, x: F.layer_norm(x, (100002,))), (_r(2, 100002),)),
        "parts of rows": (_Of(lambda s, x: (x.sum(), x.argmax(), x.softmax(0))), (_r(300000),)),
        "rows beside each other": (_Of(lambda s, x: (x.softmax(1), x.argmax(1), x.mean(1))), (_r(3, 50, 37),)),
        "rows beside each other, 16 bits": (_Of(lambda s, x: x.half().amax(1).float()), (_r(2, 70, 33),)),
        "rows beside each other, of a cluster": (_Of(lambda s, x: (x.mean((2, 3)), x.amax((2, 3)), x.argmin(2).sum())), (_r(1, 17, 90, 63).to(memory_format=torch.channels_last),)),
        "parts of columns": (_Of(lambda s, x: (x.mean(0), x.argmin(0))), (_r(40000, 7),)),
        "few rows": (_Of(lambda s, x: s.a(x), a=nn.Linear(70, 33)), (_r(3, 70),)),
        "a group of products": (
            _Of(lambda s, x: (lambda y: (s.a(y), s.b(y).relu()))(s.n(x)), a=nn.Linear(70, 33), b=nn.Linear(70, 9), n=nn.LayerNorm(70)),
            (_r(2, 70),),
        ),
        "gated": (_Of(lambda s, x: F.silu(s.a(x)) * s.b(x), a=nn.Linear(64, 40), b=nn.Linear(64, 40)), (_r(1, 64),)),
        "tiles": (_Of(lambda s, a, b: (a @ b).relu()), (_r(2, 65, 33), _r(2, 33, 70))),
        "tiles, a long sum": (_Of(lambda s, x: s.a(x), a=nn.Linear(2050, 48)), (_r(33, 2050),)),
        "groups": (
            _Of(lambda s, x, w, ends: grouped(x, w.transpose(1, 2), ends)),
            (_r(75, 36), _r(5, 68, 36), torch.tensor([20, 20, 53, 54, 71])),
        ),
        "groups of terms": (
            # torch exports it for bfloat16 only: sums that this type has
            _Of(lambda s, x, y, ends: torch._grouped_mm(x.bfloat16(), y.bfloat16(), offs=ends.int())),
            (torch.randint(-1, 2, (40, 72)).float(), torch.randint(-1, 2, (72, 48)).float(), torch.tensor([20, 20, 53, 72])),
        ),
        "attention": (_Of(lambda s, q, k, v, m: attend(q, k, v, m)), (_r(1, 2, 5, 40), _r(1, 2, 77, 40), _r(1, 2, 77, 40), keep)),
        "attention of a token": (
            _Of(lambda s, q, k, v: attend(q, k, v, enable_gqa=True)), (_r(1, 4, 1, 64), _r(1, 2, 300, 64), _r(1, 2, 300, 64)),
        ),
        "convolution": (_Of(lambda s, x: s.a(x).relu(), a=nn.Conv2d(5, 18, 3, padding=1)), (_r(2, 5, 9, 11),)),
        "products of pixels": (
            _Of(lambda s, x: (F.silu(s.a(x)), F.hardswish(s.a(x)) + x[:, :1]), a=nn.Conv2d(12, 40, 1)),
            (_r(2, 12, 9, 7).to(memory_format=torch.channels_last),),
        ),
        "depthwise": (_Of(lambda s, x: s.a(x), a=nn.Conv2d(12, 12, 3, groups=12, stride=2)), (_r(1, 12, 9, 9),)),
        "pool": (_Of(lambda s, x: (F.max_pool2d(x, 3, 2), F.avg_pool2d(x, 2))), (_r(1, 3, 9, 9),)),
        "samples": (
            _Of(lambda s, x, g: tuple(F.grid_sample(x, g, *how) for how in (("nearest", "border", True), ("bilinear", "zeros", False), ("bicubic", "zeros", False)))),
            (_r(2, 5, 9, 7), _r(2, 6, 11, 2)),
        ),
        "samples of rows of channels": (
            _Of(lambda s, x, g: tuple(F.grid_sample(x, g, *how) for how in (("bilinear", "reflection", True), ("bicubic", "reflection", False)))),
            (_r(1, 19, 9, 7).to(memory_format=torch.channels_last), _r(1, 6, 11, 2)),
        ),
        "embedding": (_Of(lambda s, i: s.a(i), a=nn.Embedding(50, 20)), (torch.randint(50, (3, 7)),)),
        "gather": (_Of(lambda s, x, i: torch.gather(x, 1, i)), (_r(5, 9), torch.randint(9, (5, 4)))),
        "scatter": (_Of(lambda s, x, i, y: x.index_add(0, i, y)), (_r(9, 5), torch.randint(9, (4,)), _r(4, 5))),
        "rows of states": (_Rows(), (_r(1, 1, 3, 20), torch.tensor([4]))),
        "several indices": (_Of(lambda s, x, i, j: (x[i[:, None], :, j], x[:, i, j] * 2)), (_r(6, 9, 7), torch.randint(-6, 6, (5,)), torch.randint(-7, 7, (5,)))),
        "put at several indices": (
            _Of(lambda s, x, i, j, y, m: (x.index_put((i, j), y, accumulate=True), (x * 2).index_put((m,), y[0, 0]))),
            (_r(6, 6, 9), torch.randint(-6, 6, (40,)), torch.randint(-6, 6, (40,)), _r(40, 9), torch.rand(6, 6) < 0.5),
        ),
        "put at distinct places": (_Of(lambda s, x, i, y: x.index_put((i[:, None], i), y)), (_r(9, 9, 2), torch.randperm(9)[:5], _r(5, 5, 2))),
        "scatter elements": (
            _Of(lambda s, x, i, y: (x.scatter_add(0, i, y), x.scatter_reduce(0, i, y, "amax"), x.scatter_reduce(0, i, y, "prod"))),
            (_r(9, 5), torch.randint(9, (14, 5)), _r(14, 5)),
        ),
        "scan": (_Of(lambda s, x: (x.cumsum(1), x.cumsum(0), x.flatten().cumsum(0))), (_r(17, 133),)),
        "experts": (_Of(lambda s, x: x.topk(3)), (_distinct(5, 60),)),
        "sorted": (_Of(lambda s, x: (*x.sort(1, descending=True), x.argsort(0))), (_distinct(3, 1003),)),
        "merged": (_Of(lambda s, x: x.sort()), (_distinct(2, 5003),)),
        "selected": (_Of(lambda s, x: x.topk(20, largest=False)), (_distinct(2, 2501),)),
        "selected from parts": (_Of(lambda s, x: x.topk(40)), (_distinct(2, 30011),)),
        "lstm, one block": (_Of(lambda s, x: s.a(x)[0], a=nn.LSTM(5, 20, bidirectional=True)), (_r(9, 3, 5),)),
        "lstm, a cluster": (_Of(lambda s, x: s.a(x)[0], a=nn.LSTM(7, 131, batch_first=True)), (_r(5, 9, 7),)),
        "gru, one block": (_Of(lambda s, x: s.a(x)[0], a=nn.GRU(5, 20, bidirectional=True)), (_r(9, 3, 5),)),
        "rnn, one block": (_Of(lambda s, x: s.a(x)[0], a=nn.RNN(5, 20, bidirectional=True)), (_r(9, 3, 5),)),
        "rnn, a cluster": (_Of(lambda s, x, h: s.a(x, h)[0], a=nn.RNN(7, 390, nonlinearity="relu")), (_r(5, 9, 7), _r(1, 9, 390))),
        "gru, a cluster": (_Of(lambda s, x, h: s.a(x, h)[0], a=nn.GRU(7, 131, batch_first=True)), (_r(5, 9, 7), _r(1, 5, 131))),
        "transpose": (_Of(lambda s, x: x.transpose(1, 2).contiguous()), (_r(2, 65, 37),)),
        "lanes": (_Of(lambda s, x: s.a(x)[0], a=nn.LSTM(16, 24, bidirectional=True)), (_r(12, 2, 16),)),
        **_several_in_a_launch(), **_matrices(), **_many_rows(),
        "range and fill": (_Of(lambda s, x: (torch.arange(x.shape[0], device=x.device), torch.full((9,), 2.0, device=x.device), x + 1)), (_r(9),)),
    }  # fmt: skip


def main() -> int:
    torch.backends.cudnn.allow_tf32 = False
    seen: set[str] = set()
    wrong = 0
    words = sys.argv[1:]
    for name, (model, inputs) in cases().items():
        if words and not any(word in name for word in words):
            continue
        model.eval()
        with torch.no_grad():
            # A copy: a call may write rows of buffers.
            right = copy.deepcopy(model).double()(*(x.double() if x.is_floating_point() else x for x in inputs))
        model.cuda()
        given = tuple(x.cuda() for x in inputs)
        compiled = sl.compile(model, given, routes=OWN)
        rows = [row for row in compiled.explain().statements if row["phase"] == "run" and row["family"]]
        seen |= {str(part["family"]) for row in rows for part in row.get("parts", [row])}
        got = compiled(*given)
        for mine, best in zip(*((y,) if isinstance(y, Tensor) else y for y in (got, right)), strict=True):
            error = float(
                (mine.cpu().double() - best.double()).abs().max() / best.double().abs().max().clamp_min(1e-30)
            )
            if not error < 1e-4:
                wrong += 1
                print(f"{name}: {error}")
    wanted = _FAMILIES | ({"matmul_group"} if torch.cuda.get_device_capability() == (9, 0) else set())
    print(f"{len(cases())} programs, {wrong} wrong; families without one: {sorted(wanted - seen)}")
    return int(wrong > 0 or not (words or wanted <= seen))


if __name__ == "__main__":
    sys.exit(main())
