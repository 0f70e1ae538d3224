# SPDX-License-Identifier: Apache-2.0
"""A 1-D convolutional net over waveforms: strided and dilated convolutions with gates, and a transposed one back."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class GatedBlock(nn.Module):
    """A dilated convolution with a tanh and a sigmoid half, a residual and a skip."""

    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(channels, 2 * channels, 3, padding=dilation, dilation=dilation)
        self.out = nn.Conv1d(channels, 2 * channels, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a, b = self.conv(x).chunk(2, 1)
        residual, skip = self.out(torch.tanh(a) * torch.sigmoid(b)).chunk(2, 1)
        return x + residual, skip


class AudioNet(nn.Module):
    """wave [n, 1, samples] -> [n, 1, samples]; samples are a multiple of 4."""

    def __init__(self, channels: int = 16, blocks: int = 3) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv1d(1, channels, 8, 4, padding=2), nn.BatchNorm1d(channels), nn.PReLU())
        self.blocks = nn.ModuleList(GatedBlock(channels, 2**i) for i in range(blocks))
        self.norm = nn.GroupNorm(4, channels)
        self.back = nn.ConvTranspose1d(channels, 1, 8, 4, padding=2)

    def forward(self, wave: Tensor) -> Tensor:
        x = self.stem(wave)
        total = torch.zeros_like(x)
        for block in self.blocks:
            x, skip = block(x)
            total = total + skip
        return torch.tanh(self.back(self.norm(torch.relu(total))))
