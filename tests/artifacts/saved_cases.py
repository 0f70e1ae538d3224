# SPDX-License-Identifier: Apache-2.0
"""Models that are saved: each kind of argument, result, weight and option."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn


class Pair(NamedTuple):
    """A result of two."""

    total: Tensor
    rest: list[Tensor]


@dataclasses.dataclass
class Point:
    """An argument of two."""

    x: Tensor
    y: Tensor


torch.export.register_dataclass(Point)


class _Counter(nn.Module):
    """A model that updates buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("sum", torch.zeros(3, dtype=torch.float64))
        self.weight = nn.Parameter(torch.randn(4, 3))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        self.count.add_(1)
        self.sum.add_((x @ self.weight).sum(0).double())
        return x @ self.weight, self.count * 2, self.sum


class _ChannelsLast(nn.Module):
    """Filters whose memory has another order."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x).relu()


class _Tied(nn.Module):
    """One tensor under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 5)
        self.head = nn.Linear(5, 7, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, i: Tensor) -> Tensor:
        return self.head(self.embed(i))


class Structures(nn.Module):
    """Nested arguments with constants, nested results."""

    def forward(self, point: Point, options: dict[str, Any], *, scale: float = 2.0) -> Any:
        total = point.x + point.y * scale * options["factor"]
        return OrderedDict(
            a=Pair(total, [point.x * 2, point.y]), n=None, d={3: total.sum(), "k": total.shape[0]}, f=1.5
        )


class _View(nn.Module):
    """Results that are views: of an input and of a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(6, 4))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.transpose(0, 1), self.table[2:]


def mlp() -> nn.Module:
    """Two linear layers."""
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))


#: Model, inputs and options by name.
CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple[Any, ...]], dict[str, Any]]] = {
    "mlp": (mlp, lambda: (torch.randn(2, 16),), {}),
    "numpy": (mlp, lambda: (np.random.randn(2, 16).astype("float32"),), {}),
    "bfloat16": (lambda: mlp().bfloat16(), lambda: (torch.randn(2, 16).bfloat16(),), {}),
    "half": (lambda: mlp().half(), lambda: (torch.randn(2, 16).half(),), {}),
    "double": (lambda: mlp().double(), lambda: (torch.randn(2, 16).double(),), {}),
    "live": (mlp, lambda: (torch.randn(2, 16),), {"freeze": False}),
    "emitted_python": (mlp, lambda: (torch.randn(2, 16),), {"emit": "python"}),
    "interpreted": (mlp, lambda: (torch.randn(2, 16),), {"fast_path": False}),
    "reused_outputs": (mlp, lambda: (torch.randn(2, 16),), {"reuse_outputs": True}),
    "states": (_Counter, lambda: (torch.randn(2, 4),), {}),
    "channels_last": (_ChannelsLast, lambda: (torch.randn(1, 3, 8, 8),), {}),
    "tied": (_Tied, lambda: (torch.tensor([[1, 2, 6]]),), {}),
    "views": (_View, lambda: (torch.randn(3, 2),), {}),
    "structures": (Structures, lambda: (Point(torch.randn(3), torch.randn(3)), {"factor": 3.0}), {}),
    "no_weights": (nn.Tanh, lambda: (torch.randn(5),), {}),
    "complex": (lambda: nn.Identity(), lambda: (torch.randn(3, dtype=torch.complex64),), {}),
    "gru": (lambda: nn.GRU(4, 8, batch_first=True), lambda: (torch.randn(2, 5, 4),), {}),
    "convolutions": (
        lambda: nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1)),
        lambda: (torch.randn(1, 3, 16, 16),),
        {},
    ),
    "attention": (
        lambda: nn.TransformerEncoderLayer(16, 2, 32, batch_first=True),
        lambda: (torch.randn(1, 6, 16),),
        {},
    ),
}


def copy_of(value: Any) -> Any:
    """Arguments whose tensors are fresh."""
    return torch.utils._pytree.tree_map(lambda leaf: leaf.clone() if isinstance(leaf, Tensor) else leaf, value)
