# SPDX-License-Identifier: Apache-2.0
"""Random models with several linears of one x: what group-products may join, and what it must leave apart."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_EPILOGUES: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    lambda y, o: y,
    lambda y, o: F.silu(y),
    lambda y, o: F.gelu(y),
    lambda y, o: torch.relu(y),
    lambda y, o: torch.tanh(y) * 0.5,
    lambda y, o: y + o,
    lambda y, o: torch.sigmoid(y) * o,
)
_ROWS = ((1,), (1, 1), (2,), (16,), (2, 3), (17,), (64,), (65,), (2, 64), (1, 130), (197,), (3, 70), (300,), (1000,))
_DEPTHS = (8, 16, 24, 64, 72, 128, 200, 256, 512, 768)
_WIDTHS = (1, 7, 8, 40, 64, 72, 129, 256, 520)
_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


class Linears(nn.Module):
    """Two to six products of one x: results of their own, or of two or more; residuals of x; one reads what another made."""

    def __init__(self, draw: random.Random) -> None:
        super().__init__()
        self.depth = draw.choice(_DEPTHS)
        count, width = draw.randint(2, 6), draw.choice((*_WIDTHS, self.depth))
        widths = [width if draw.random() < 0.6 else draw.choice((*_WIDTHS, self.depth)) for _ in range(count)]
        self.linears = nn.ModuleList(nn.Linear(self.depth, n, bias=draw.random() < 0.5) for n in widths)
        if widths[0] == widths[1] and draw.random() < 0.2:
            self.linears[1].weight = self.linears[0].weight
        self.epilogues = [draw.randrange(len(_EPILOGUES)) for _ in widths]
        self.multiplied = [draw.random() < 0.5 for _ in widths]
        self.residual = [draw.random() < 0.4 for _ in widths]
        self.norm = nn.LayerNorm(self.depth) if draw.random() < 0.4 else nn.Identity()
        self.is_turned, self.is_chained, self.is_wide = (draw.random() < part for part in (0.15, 0.3, 0.2))
        self.behind = nn.Linear(widths[0], self.depth) if draw.random() < 0.4 else None

    def forward(self, x: Tensor, other: Tensor) -> tuple[Tensor, ...]:
        x = self.norm(x)
        if self.is_turned:
            x = x.transpose(-1, -2).contiguous().transpose(-1, -2)
        found: list[Tensor] = []
        for linear, epilogue, multiplied, residual in zip(
            self.linears, self.epilogues, self.multiplied, self.residual, strict=True
        ):
            y = _EPILOGUES[epilogue](linear(x), other)
            if multiplied and found and found[-1].shape == y.shape:
                y = found[-1] * y
            if residual and y.shape == x.shape:
                y = x + y
            if self.is_chained and found and found[0].shape == y.shape:
                y = y + found[0].amax(-1, keepdim=True)
            found.append(y)
        if self.behind is not None:
            found.append(x + self.behind(found[0]))
        wanted = found[1:] if self.is_chained else found
        return tuple(y.float() if self.is_wide else y for y in wanted)


class Program(NamedTuple):
    """A model on the CPU, with inputs and routes."""

    model: nn.Module
    inputs: tuple[Tensor, Tensor]
    routes: dict[str, str] | None


def program(seed: int) -> Program:
    """The program of a seed."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    dtype, rows = draw.choice(_DTYPES), draw.choice(_ROWS)
    model = Linears(draw).to(dtype).eval()
    more = draw.choice((0, 0, 0, 1, 8))  # rows of x lie apart
    x = torch.randn(*rows, model.depth + more).to(dtype)[..., : model.depth]
    return Program(model, (x, torch.randn(*rows, 1).to(dtype)), draw.choice((None, {"linear": "cuda"})))
