# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers on a CUDA device: group "recurrent", beside eager (cuDNN) and its CUDA graph."""

from __future__ import annotations

from functools import partial
from typing import Any

from straightline.bench.case import Case, Input
from torch import Tensor, nn

#: features, hidden, batch, steps, type, options of nn.LSTM, nn.GRU or nn.RNN
_LAYERS: tuple[tuple[int, int, int, int, str, dict[str, Any]], ...] = (
    (64, 128, 1, 20, "float32", {}),
    (64, 128, 1, 100, "float32", {}),
    (64, 64, 1, 100, "float32", {}),
    (64, 256, 1, 100, "float32", {}),
    (64, 256, 32, 100, "float32", {}),
    (64, 256, 1, 100, "float16", {}),
    (64, 128, 1, 20, "float32", {"bidirectional": True}),
    (64, 128, 1, 20, "float32", {"num_layers": 2}),
    (64, 512, 1, 20, "float32", {}),
)


class Layers(nn.Module):
    """x [steps, batch, features] -> all h, and the last h (and c); from zeros, or from a given start."""

    def __init__(self, cell: type[nn.RNNBase], features: int, hidden: int, **options: Any) -> None:
        super().__init__()
        self.layers = cell(features, hidden, **options)

    def forward(self, x: Tensor, *start: Tensor) -> tuple[Tensor, ...]:
        """All h, and the last h (and c)."""
        y, last = self.layers(x, start if len(start) > 1 else start[0] if start else None)
        return (y, *last) if isinstance(last, tuple) else (y, last)


def _case(
    cell: type[nn.RNNBase], features: int, hidden: int, batch: int, steps: int, dtype: str, options: dict[str, Any]
) -> Case:
    word = {"bidirectional": "_both_ways", "num_layers": "_two_layers"}.get(next(iter(options), ""), "")
    half = dtype == "float16"
    return Case(
        f"{cell.__name__.lower()}_{features}x{hidden}_b{batch}_{steps}{word}{'_fp16' if half else ''}",
        f"nn.{cell.__name__}({features}, {hidden}), {steps} steps, batch {batch}, {dtype}?",
        partial(Layers, cell, features, hidden, **options),
        (Input((steps, batch, features), dtype),),
        device="cuda",
        dtype=dtype,
        group="recurrent",
        tolerance=2e-2 if half else 1e-4,
        bars=(),
    )


CASES = tuple(_case(cell, *layer) for cell in (nn.LSTM, nn.GRU, nn.RNN) for layer in _LAYERS)
