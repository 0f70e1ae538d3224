# SPDX-License-Identifier: Apache-2.0
"""A module that updates its buffers in place."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Counter(nn.Module):
    """Counts calls and keeps a running mean of x [4]; returns x minus the mean before this call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        y = x - self.mean
        self.calls.add_(1)
        self.mean.mul_(0.9).add_(x, alpha=0.1)
        return y


class RowCache(nn.Module):
    """Writes x [d] as the last row of a cache [rows, d], as decoders do; returns the mean row."""

    def __init__(self, rows: int = 6, dim: int = 4) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(rows, dim))

    def forward(self, x: Tensor) -> Tensor:
        self.cache[-1:] = x
        return self.cache.mean(0)
