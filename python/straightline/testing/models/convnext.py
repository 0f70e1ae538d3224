# SPDX-License-Identifier: Apache-2.0
"""ConvNeXt-like: 7x7 depthwise convolutions, layer norms over channels last, inverted bottlenecks, layer scale."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ChannelNorm(nn.LayerNorm):
    """A layer norm over the channels of [n, c, h, w]."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Block(nn.Module):
    """Depthwise, norm, wide in the middle, scaled, with a residual."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(dim, dim, 7, padding=3, groups=dim)
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.scale = nn.Parameter(torch.rand(dim))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.scale * self.down(F.gelu(self.up(y)))
        return x + y.permute(0, 3, 1, 2)


class ConvNext(nn.Module):
    """x [n, 3, h, w] -> scores [n, classes]."""

    def __init__(self, dims: tuple[int, int] = (16, 32), classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, dims[0], 4, 4), ChannelNorm(dims[0], eps=1e-6))
        self.stage1 = nn.Sequential(Block(dims[0]), Block(dims[0]))
        self.between = nn.Sequential(ChannelNorm(dims[0], eps=1e-6), nn.Conv2d(dims[0], dims[1], 2, 2))
        self.stage2 = Block(dims[1])
        self.norm, self.head = nn.LayerNorm(dims[1], eps=1e-6), nn.Linear(dims[1], classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stage2(self.between(self.stage1(self.stem(x))))
        return self.head(self.norm(x.mean((2, 3))))
