# SPDX-License-Identifier: Apache-2.0
"""Named sizes on a CUDA device, the least among them: programs whose text runs on the host (cuda_on_host.py) against eager."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from cuda_on_host import run_on_host
from policy import torch_errors
from statements import launches_of
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F

import straightline as sl

_OWN = {"linear": "cuda", "matmul": "cuda", "convolution": "cuda"}


class _Of(nn.Module):
    def __init__(self, function: Callable[..., Any], **layers: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(self, *inputs)


def _attention_by_hand(self: Any, x: Tensor, mask: Tensor) -> tuple[Tensor]:
    """Two heads whose keys, queries and values lie in one product, and a mask of keys."""
    rows, length, width = x.shape
    q, k, v = self.qkv(x).view(rows, length, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
    scores = (q @ k.transpose(-1, -2) / (width // 2) ** 0.5).masked_fill(~mask[:, None, None, :], float("-inf"))
    return (self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(rows, length, width)),)


def _r(*sizes: int) -> Tensor:
    return torch.randn(sizes)


def _rows(least: int = 0) -> Dim:
    return Dim("n", min=least, max=200)


#: Model, inputs for a size, which dims of them have the name, the least size.
_CASES: dict[str, tuple[nn.Module, Callable[[int], tuple[Tensor, ...]], Sequence[dict[int, None]], int]] = {
    "elements": (
        _Of(lambda s, x, y: (x * 2 + y, torch.where(x > 0, x, y).exp(), torch.cat([x, y, x[:, :3]], 1), x.t().contiguous(), F.pad(y, (1, 2)))),
        lambda n: (_r(n, 9), _r(n, 9)), ({0: None}, {0: None}), 1,
    ),
    "nothing but elements": (
        _Of(lambda s, x, y: (x * 2 + y, torch.cat([x, y], 0), torch.full_like(x, 2.0), x.to(torch.float64), x.expand(3, *x.shape) + y)),
        lambda n: (_r(n, 9), _r(n, 9)), ({0: None}, {0: None}), 0,
    ),
    "reductions along rows": (
        _Of(lambda s, x, r: (x.sum(1) + r, x.amax(1), x.argmin(1), torch.softmax(x, 1), F.layer_norm(x, (70,)), x.var(1), (x > 0).any(1), x.cumsum(1))),
        lambda n: (_r(n, 70), _r(n)), ({0: None}, {0: None}), 0,
    ),
    "reductions of rows": (
        _Of(lambda s, x, r: (x.sum(1) + r, x.sum(0), x.sum(), (x * x).sum((0, 1)), x.prod(1), (x > 0).any(1), x.cumsum(0))),
        lambda n: (_r(5, n), _r(5)), ({1: None}, {}), 0,
    ),
    "reductions of some": (
        _Of(lambda s, x: (x.amax(1), x.argmax(1), torch.softmax(x, 1), x.mean(1, keepdim=True) * x, x.logsumexp(1), torch.softmax(x.t(), 0))),
        lambda n: (_r(5, n),), ({1: None},), 1,
    ),
    "linears": (
        _Of(lambda s, x: (s.b(F.gelu(s.a(x))) + x, s.c(x)), a=nn.Linear(33, 70), b=nn.Linear(70, 33), c=nn.Linear(33, 1, bias=False)),
        lambda n: (_r(n, 33),), ({0: None},), 0,
    ),
    "products": (
        _Of(lambda s, x, y: (x @ y, torch.bmm(x.expand(2, *x.shape), y.expand(2, *y.shape)))),
        lambda n: (_r(n, 20), _r(20, n)), ({0: None}, {1: None}), 0,
    ),
    "products over rows": (
        _Of(lambda s, x, y, z: (x @ y, torch.relu(x @ y + 1), y.t() @ y, x @ y[:, 0], y[:, 0] @ y[:, 1], z @ y.expand(2, 3, *y.shape).permute(0, 1, 2, 3))),
        lambda n: (_r(3, n), _r(n, 20), _r(2, 3, n, n)), ({1: None}, {0: None}, {2: None, 3: None}), 0,
    ),
    "attention by hand": (
        _Of(_attention_by_hand, qkv=nn.Linear(24, 72), out=nn.Linear(24, 24)),
        lambda n: (_r(2, n, 24), torch.arange(n).expand(2, n) < torch.tensor([[n], [n // 2 + 1]])), ({1: None}, {1: None}), 1,
    ),
    "attention": (
        _Of(lambda s, q, k, v: (F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(k, k, v, is_causal=True))),
        lambda n: (_r(2, 3, 1, 16), _r(2, 3, n, 16), _r(2, 3, n, 16)), ({}, {2: None}, {2: None}), 1,
    ),
    "rows by index": (
        _Of(lambda s, i, x: (s.a(i), x[i], torch.gather(x, 0, i.unsqueeze(1).expand(i.shape[0], 6)), x.index_add(0, i, s.a(i)[:, :6])), a=nn.Embedding(40, 12)),
        lambda n: (torch.randint(0, 30, (n,)), _r(30, 6)), ({0: None}, {}), 0,
    ),
    "images": (
        _Of(lambda s, x: (F.max_pool2d(F.relu(s.a(x)), 2), s.b(x).mean((2, 3))), a=nn.Conv2d(3, 8, 3, padding=1), b=nn.Conv2d(3, 5, 1)),
        lambda n: (_r(n, 3, 10, 8),), ({0: None},), 0,
    ),
    "signals": (
        _Of(lambda s, x: (F.avg_pool1d(x, 2), s.a(x), s.b(x)), a=nn.GroupNorm(1, 3), b=nn.BatchNorm1d(3)),
        lambda n: (_r(1, 3, n),), ({2: None},), 4,
    ),
    "a cache": (
        _Of(lambda s, q, new, k: (F.scaled_dot_product_attention(q, torch.cat([k, new], 2), torch.cat([k, new], 2), enable_gqa=True), torch.cat([k, new], 2))),
        lambda n: (_r(1, 6, 1, 32), _r(1, 2, 1, 32), _r(1, 2, n, 32)), ({}, {}, {2: None}), 0,
    ),
    "long rows": (
        _Of(lambda s, x: (x.sum(1), x.amax(1), torch.softmax(x, 1), x.sum(0))),
        lambda n: (_r(n, 9001),), ({0: None},), 0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _CASES)
def test_sizes(name: str, tmp_path: Path) -> None:
    """Within four times eager's largest distance from float64 and a millionth of the scale."""
    model, inputs, named, least = _CASES[name]
    model.eval()
    rows = _rows(least)
    shapes = tuple({dim: rows for dim in dims} for dims in named)
    with torch.backends.cudnn.flags(allow_tf32=False):
        compiled = sl.compile(model, inputs(7), target="cuda:sm_90", routes=_OWN, dynamic_shapes=(shapes,))
    assert {row["backend"] for row in launches_of(compiled)} <= {"cuda", "runtime"}
    most = 5 if name == "long rows" else 200  # a row takes the host a second there
    for n in sorted(
        {
            least,
            least + 1,
            min(17, most),
            min(130, most),
            random.Random(torch.initial_seed()).randrange(least, most + 1),
        }
    ):
        given = inputs(n)
        with torch.no_grad():
            rights = model(*given)
            exacts = model.double()(*(x.double() if x.is_floating_point() else x for x in given))
            model.float()
        got = tuple(torch.empty_like(y, memory_format=torch.contiguous_format) for y in rights)
        run_on_host(compiled, model, given, got, tmp_path)
        errors = torch_errors(model, (given, {}))[: len(got)]
        for i, (mine, right, exact, error) in enumerate(zip(got, rights, exacts, errors, strict=True)):
            if right.dtype.is_floating_point and right.numel():
                off = (mine.double() - exact.double()).abs().max()
                allowed = 4 * error + 1e-6 * exact.abs().max() + torch.finfo(mine.dtype).tiny
                assert off <= allowed, f"{n}: result {i} is off by {off}, {allowed} is allowed"
            else:
                assert torch.equal(mine, right), f"{n}: result {i}"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_products_over_rows(dtype: torch.dtype, tmp_path: Path) -> None:
    """Of other types: no farther from the product in float64 than four times eager, and a rounding of the largest value (some in float64)."""
    model = _Of(lambda s, x, y: (torch.bmm(x, y), torch.bmm(x, y[:, :, 3:]), torch.bmm(x[:, :1], y)))
    rows = _rows(0)

    def inputs(n: int) -> tuple[Tensor, ...]:
        return _r(3, 20, n).to(dtype), _r(3, n, 24).to(dtype)

    compiled = sl.compile(model, inputs(7), target="cuda:sm_90", routes=_OWN, dynamic_shapes=(({2: rows}, {1: rows}),))
    assert {row["backend"] for row in launches_of(compiled)} == {"cuda"}
    for n in (0, 1, 8, 16, 33, random.Random(torch.initial_seed()).randrange(2, 201)):
        given = inputs(n)
        rights, exacts = model(*given), model(*(x.double() for x in given))
        got = tuple(torch.full_like(y, 5, memory_format=torch.contiguous_format) for y in rights)
        run_on_host(compiled, model, given, got, tmp_path)
        for mine, right, exact in zip(got, rights, exacts, strict=True):
            roundings = 16 if dtype == torch.float64 else 1
            allowed = 4 * (right.double() - exact).abs().max() + roundings * torch.finfo(dtype).eps * exact.abs().max()
            assert (mine.double() - exact).abs().max() <= allowed, n
