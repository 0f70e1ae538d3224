# SPDX-License-Identifier: Apache-2.0
"""U-Net: down by pooling, up by nearest or bilinear interpolation or a transposed convolution, skips by concatenation."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def double(inside: int, out: int) -> nn.Sequential:
    """Two 3x3 convolutions with batch norms and relus."""
    return nn.Sequential(
        nn.Conv2d(inside, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU(),
        nn.Conv2d(out, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU(),
    )  # fmt: skip


class UNet(nn.Module):
    """x [n, 3, h, w] -> [n, classes, h, w]; h and w are multiples of 4."""

    def __init__(self, width: int = 8, classes: int = 2, up: str = "nearest") -> None:
        super().__init__()
        self.mode = up
        self.down1, self.down2, self.bottom = double(3, width), double(width, 2 * width), double(2 * width, 4 * width)
        self.grow2 = nn.ConvTranspose2d(4 * width, 4 * width, 2, 2) if up == "transposed" else None
        self.grow1 = nn.ConvTranspose2d(2 * width, 2 * width, 2, 2) if up == "transposed" else None
        self.up2, self.up1 = double(6 * width, 2 * width), double(3 * width, width)
        self.head = nn.Conv2d(width, classes, 1)

    def _grow(self, x: Tensor, layer: nn.Module | None) -> Tensor:
        if layer is not None:
            return layer(x)
        return F.interpolate(x, scale_factor=2, mode=self.mode)

    def forward(self, x: Tensor) -> Tensor:
        skip1 = self.down1(x)
        skip2 = self.down2(F.max_pool2d(skip1, 2))
        x = self.bottom(F.max_pool2d(skip2, 2))
        x = self.up2(torch.cat([self._grow(x, self.grow2), skip2], 1))
        return self.head(self.up1(torch.cat([self._grow(x, self.grow1), skip1], 1)))
