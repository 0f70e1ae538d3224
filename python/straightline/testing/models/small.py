# SPDX-License-Identifier: Apache-2.0
"""One or a few ops: the smallest programs worth compiling."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SingleAdd(nn.Module):
    """a + b, both [2, 3]."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a + b


class ReshapeAdd(nn.Module):
    """x [8, 16, 8, 8] as [8, 1024], plus b [1024]."""

    def forward(self, x: Tensor, b: Tensor) -> Tensor:
        return x.reshape(x.shape[0], -1) + b


class Mlp(nn.Module):
    """Linear layers with relu between them; x [n, sizes[0]]."""

    def __init__(self, sizes: tuple[int, ...] = (64, 64, 64, 10)) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(i, o) for i, o in zip(sizes, sizes[1:]))

    def forward(self, x: Tensor) -> Tensor:
        for index, layer in enumerate(self.layers):
            x = layer(x)
            if index + 1 < len(self.layers):
                x = F.relu(x)
        return x


class RmsNorm(nn.Module):
    """RMS norm written out, as language models have it."""

    def __init__(self, dim: int = 32) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(dim) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
        return x * scale.to(x.dtype) * self.weight
