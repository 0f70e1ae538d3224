# SPDX-License-Identifier: Apache-2.0
"""MobileNetV3-like: inverted residuals with depthwise convolutions, squeeze and excitation, hard swish."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ConvNorm(nn.Sequential):
    """A convolution without bias, its batch norm, and an activation."""

    def __init__(
        self, inside: int, out: int, kernel: int, stride: int = 1, groups: int = 1, act: nn.Module | None = None
    ) -> None:
        conv = nn.Conv2d(inside, out, kernel, stride, kernel // 2, groups=groups, bias=False)
        super().__init__(conv, nn.BatchNorm2d(out), act or nn.Identity())


class SqueezeExcite(nn.Module):
    """Scales channels by what their means say."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, channels // 4, 1), nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * F.hardsigmoid(self.up(F.relu(self.down(F.adaptive_avg_pool2d(x, 1)))))


class InvertedResidual(nn.Module):
    """Wide in the middle: 1x1 up, depthwise, 1x1 down; a residual where shapes agree."""

    def __init__(self, inside: int, middle: int, out: int, kernel: int, stride: int, excite: bool) -> None:
        super().__init__()
        self.residual = stride == 1 and inside == out
        self.up = ConvNorm(inside, middle, 1, act=nn.Hardswish())
        self.depthwise = ConvNorm(middle, middle, kernel, stride, middle, nn.Hardswish())
        self.excite = SqueezeExcite(middle) if excite else nn.Identity()
        self.down = ConvNorm(middle, out, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.down(self.excite(self.depthwise(self.up(x))))
        return x + y if self.residual else y


class MobileNet(nn.Module):
    """x [n, 3, h, w] -> scores [n, classes]."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.stem = ConvNorm(3, 16, 3, 2, act=nn.Hardswish())
        self.blocks = nn.Sequential(
            InvertedResidual(16, 32, 16, 3, 1, False),
            InvertedResidual(16, 48, 24, 3, 2, True),
            InvertedResidual(24, 72, 24, 5, 1, True),
            InvertedResidual(24, 96, 40, 5, 2, True),
        )
        self.head = ConvNorm(40, 80, 1, act=nn.Hardswish())
        self.fc = nn.Sequential(nn.Linear(80, 64), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(64, classes))

    def forward(self, x: Tensor) -> Tensor:
        x = self.head(self.blocks(self.stem(x)))
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))
