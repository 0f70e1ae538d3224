# SPDX-License-Identifier: Apache-2.0
"""`python -m bench.named_sizes`: what does a named batch cost, beside a program of the same size?

    python -m bench.named_sizes --only softmax conv --rounds 9 --markdown table.md
    python -m bench.named_sizes --models

Small models of one or a few kernels, each compiled for its example's sizes (`fixed`) and with the first dim named (`named`), on
one thread. With `--models` a transformer, a CNN and an LSTM: one program of named batch and tokens, lines and columns, or steps,
beside one for each of eight sizes. Results are compared first. In each round both take the same calls in turn: a row of the
table has the least of all rounds. A ratio far above 1 is a kernel that knows less of its loops than it could.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import straightline as sl
import torch
import torch.nn.functional as F
from straightline.bench import machine
from straightline.demo_models import ResNet18
from torch import Tensor, nn

#: Microseconds that the calls of one side take in a round, and calls before them that bring its weights back into the caches.
_ROUND_US = 3000
_MODEL_ROUND_US = 30_000
_CALLS_BEFORE = 5


class Row(NamedTuple):
    """Microseconds of a call."""

    case: str
    fixed: float
    named: float


class Sizes(NamedTuple):
    """A model, which dims of its input have names, and sizes of these dims at which it is called."""

    model: nn.Module
    shape: tuple[int, ...]
    dtype: torch.dtype
    dims: tuple[int, ...]
    at: tuple[tuple[int, ...], ...]

    def input(self, sizes: tuple[int, ...]) -> Tensor:
        """An input of these sizes."""
        shape = list(self.shape)
        for dim, size in zip(self.dims, sizes):
            shape[dim] = size
        return torch.randint(0, 96, shape) if self.dtype == torch.int64 else torch.randn(shape)


class _Of(nn.Module):
    """A function of modules and tensors as a model."""

    def __init__(self, function: Callable[..., Any], *modules: nn.Module) -> None:
        super().__init__()
        self.function, self.parts = function, nn.ModuleList(modules)

    def forward(self, *tensors: Tensor) -> Any:
        return self.function(*self.parts, *tensors)


def cases() -> dict[str, tuple[nn.Module, tuple[Tensor, ...]]]:
    """Models with inputs, by what they show."""
    r = torch.randn
    return {
        "bias of channels": (_Of(lambda m, x: F.relu(x + m.weight.reshape(1, -1, 1, 1)), nn.Linear(64, 1)), (r(16, 64, 14, 14),)),
        "gelu": (_Of(F.gelu), (r(64, 256),)),
        "layer norm": (nn.LayerNorm(256), (r(64, 256),)),
        "softmax": (nn.Softmax(-1), (r(64, 8, 50),)),
        "sums of rows": (_Of(lambda x: x.sum(-1)), (r(256, 33),)),
        "means of columns": (_Of(lambda x: x.mean(1)), (r(16, 50, 64),)),
        "max pool": (nn.MaxPool2d(2), (r(16, 32, 28, 28),)),
        "global average": (nn.AdaptiveAvgPool2d(1), (r(16, 64, 14, 14),)),
        "transpose": (_Of(lambda x: x.permute(0, 2, 1).contiguous()), (r(64, 30, 40),)),
        "cat": (_Of(lambda x: torch.cat([x, x * 2], -1)), (r(64, 3, 40),)),
        "linear": (nn.Linear(256, 256), (r(64, 256),)),
        "mlp": (nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)), (r(16, 64),)),
        "convolution": (nn.Sequential(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU()), (r(8, 32, 28, 28),)),
        "depthwise": (nn.Sequential(nn.Conv2d(64, 64, 3, padding=1, groups=64), nn.ReLU()), (r(8, 64, 28, 28),)),
        "convolution 1-d": (nn.Sequential(nn.Conv1d(32, 64, 3), nn.ReLU()), (r(8, 32, 100),)),
        "batch norm": (nn.BatchNorm2d(64), (r(8, 64, 28, 28),)),
        "group norm": (nn.GroupNorm(4, 32), (r(8, 32, 14, 14),)),
        "attention": (_Of(lambda q: F.scaled_dot_product_attention(q, q, q)), (r(8, 4, 32, 16),)),
        "products": (_Of(torch.matmul), (r(32, 20, 30), r(32, 30, 20))),
        "embedding": (nn.Embedding(1000, 64), (torch.randint(0, 1000, (64, 20)),)),
        "rotary": (_Of(lambda x: torch.cat([-x[..., 16:], x[..., :16]], -1) * x), (r(64, 8, 32),)),
        "cumulative sum": (_Of(lambda x: x.cumsum(-1)), (r(64, 128),)),
        "outer difference": (_Of(lambda x, y: (x[:, :, None] - y[:, None, :]).abs()), (r(64, 20), r(64, 20))),
        "upsample": (nn.Upsample(scale_factor=2.0), (r(8, 32, 14, 14),)),
        "topk": (_Of(lambda x: x.topk(5)[0]), (r(64, 100),)),
        "argmax": (_Of(lambda x: x.argmax(-1)), (r(64, 100),)),
        "encoder layer": (nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), (r(8, 16, 64),)),
        "GRU": (_Of(lambda m, x: m(x)[0], nn.GRU(32, 64, batch_first=True)), (r(8, 16, 32),)),
    }  # fmt: skip


class _Transformer(nn.Module):
    """Words to scores of words: x [batch, tokens] -> [batch, tokens, 96]."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(96, 128)
        layer = nn.TransformerEncoderLayer(128, 4, 512, activation="gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.scores = nn.Linear(128, 96)

    def forward(self, x: Tensor) -> Tensor:
        return self.scores(self.layers(self.words(x)))


class _Lstm(nn.Module):
    """x [batch, steps, 32] -> [batch, steps, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.LSTM(32, 128, num_layers=2, batch_first=True)
        self.scores = nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.scores(self.layers(x)[0])


def models() -> dict[str, Sizes]:
    """Whole models, each with eight sizes."""
    images = (
        (1, 64, 64),
        (1, 96, 160),
        (1, 128, 128),
        (1, 224, 224),
        (2, 64, 96),
        (4, 64, 64),
        (3, 90, 70),
        (8, 40, 40),
    )
    rows = ((1, 1), (1, 16), (1, 50), (1, 128), (1, 300), (4, 32), (8, 64), (3, 37))
    return {
        "transformer": Sizes(_Transformer(), (1, 16), torch.int64, (0, 1), rows),
        "CNN": Sizes(ResNet18(), (1, 3, 64, 64), torch.float32, (0, 2, 3), images),
        "LSTM": Sizes(_Lstm(), (1, 16, 32), torch.float32, (0, 1), rows),
    }


def _round(call: Callable[..., Any], inputs: tuple[Tensor, ...], calls: int) -> float:
    for _ in range(_CALLS_BEFORE):
        call(*inputs)
    begin = time.perf_counter()
    for _ in range(calls):
        call(*inputs)
    return (time.perf_counter() - begin) / calls * 1e6


def measured(case: str, rounds: int) -> Row:
    """One row."""
    model, inputs = cases()[case]
    model.eval()
    batch = torch.export.Dim("batch", min=2, max=100_000)
    dims: Any = tuple({0: batch} for _ in inputs)
    dims = (dims,) if isinstance(model, _Of) else dims
    fixed = sl.compile(model, inputs, threads=1)
    named = sl.compile(model, inputs, threads=1, dynamic_shapes=dims)
    torch.testing.assert_close(named(*inputs), fixed(*inputs), rtol=1e-5, atol=1e-5)
    return _compared(case, fixed, named, inputs, rounds)


def _compared(case: str, fixed: Any, named: Any, inputs: tuple[Tensor, ...], rounds: int, us: float = _ROUND_US) -> Row:
    calls = max(3, int(us / max(_round(fixed, inputs, 5), 1.0)))
    times = [(_round(fixed, inputs, calls), _round(named, inputs, calls)) for _ in range(rounds)]
    return Row(case, min(a for a, _ in times), min(b for _, b in times))


def measured_sizes(case: str, rounds: int) -> list[Row]:
    """A row for each size of a whole model."""
    torch.manual_seed(0)
    sizes = models()[case]
    sizes.model.eval()
    most = {0: 16, 1: 512} if len(sizes.dims) == 2 else {0: 16, 2: 512, 3: 512}
    least = {0: 1, 1: 1, 2: 33, 3: 33}
    names = {dim: torch.export.Dim(f"n{dim}", min=least[dim], max=most[dim]) for dim in sizes.dims}
    named = sl.compile(sizes.model, (sizes.input(sizes.at[-1]),), threads=1, dynamic_shapes=(names,))
    rows = []
    for at in sizes.at:
        inputs = (sizes.input(at),)
        fixed = sl.compile(sizes.model, inputs, threads=1)
        torch.testing.assert_close(named(*inputs), fixed(*inputs), rtol=1e-4, atol=1e-4)
        rows.append(
            _compared(f"{case} {' x '.join(str(size) for size in at)}", fixed, named, inputs, rounds, _MODEL_ROUND_US)
        )
    return rows


def table(rows: list[Row]) -> str:
    """Markdown."""
    lines = ["| model | fixed, us | named, us | ratio |", "|---|---|---|---|"]
    lines += [f"| {r.case} | {r.fixed:.2f} | {r.named:.2f} | {r.named / r.fixed:.2f} |" for r in rows]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", action="store_true", help="whole models, each at eight sizes")
    parser.add_argument("--only", nargs="+", choices=[*cases(), *models()], metavar="MODEL")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--markdown", type=Path, help="where to write the table, too")
    options = parser.parse_args()
    print(machine.description(), machine.versions(), *machine.warnings_before(), sep="\n", flush=True)
    with torch.no_grad():
        if options.models:
            found = [measured_sizes(case, options.rounds) for case in options.only or models()]
            text = table([row for rows in found for row in rows])
        else:
            text = table([measured(case, options.rounds) for case in options.only or cases()])
    print(text)
    if options.markdown:
        options.markdown.write_text(text)


if __name__ == "__main__":
    main()
