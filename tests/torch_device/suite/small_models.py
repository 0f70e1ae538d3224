# SPDX-License-Identifier: Apache-2.0
"""Models of the tests: a decoder in Qwen3's shape, and ResNet-18."""

from __future__ import annotations

import torch
from torch import nn


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


class Attention(nn.Module):
    """Grouped queries: `heads` of them over `groups` of keys and values, each normed."""

    def __init__(self, width: int, heads: int, groups: int, size: int) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, size
        self.q = nn.Linear(width, heads * size, bias=False)
        self.k = nn.Linear(width, groups * size, bias=False)
        self.v = nn.Linear(width, groups * size, bias=False)
        self.o = nn.Linear(heads * size, width, bias=False)
        self.q_norm, self.k_norm = nn.RMSNorm(size, eps=1e-6), nn.RMSNorm(size, eps=1e-6)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q = self.q_norm(self.q(x).view(batch, length, self.heads, self.size)).transpose(1, 2)
        k = self.k_norm(self.k(x).view(batch, length, self.groups, self.size)).transpose(1, 2)
        v = self.v(x).view(batch, length, self.groups, self.size).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k, v = (t.repeat_interleave(self.heads // self.groups, 1) for t in (k, v))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(batch, length, -1))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, groups: int, size: int, hidden: int) -> None:
        super().__init__()
        self.before, self.after = nn.RMSNorm(width, eps=1e-6), nn.RMSNorm(width, eps=1e-6)
        self.attention = Attention(width, heads, groups, size)
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.before(x), cos, sin)
        y = self.after(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """Two layers."""

    def __init__(self, words: int = 96, width: int = 32, heads: int = 4, groups: int = 2, size: int = 8) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width, heads, groups, size, 64) for _ in range(2))
        self.norm = nn.RMSNorm(width, eps=1e-6)
        self.head = nn.Linear(width, words, bias=False)
        self.size = size

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        at = torch.arange(tokens.shape[1], device=tokens.device, dtype=torch.float32)
        speeds = 1 / 10000 ** (torch.arange(0, self.size, 2, device=tokens.device, dtype=torch.float32) / self.size)
        angles = at[:, None] * speeds
        angles = torch.cat([angles, angles], -1)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.head(self.norm(x))


class Residual(nn.Module):
    def __init__(self, channels: int, to: int, stride: int) -> None:
        super().__init__()
        self.a = nn.Conv2d(channels, to, 3, stride, 1, bias=False)
        self.a_norm = nn.BatchNorm2d(to)
        self.b = nn.Conv2d(to, to, 3, 1, 1, bias=False)
        self.b_norm = nn.BatchNorm2d(to)
        self.skip = None
        if stride != 1 or channels != to:
            self.skip = nn.Sequential(nn.Conv2d(channels, to, 1, stride, bias=False), nn.BatchNorm2d(to))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.b_norm(self.b(self.a_norm(self.a(x)).relu()))
        return (y + (x if self.skip is None else self.skip(x))).relu()


class ResNet18(nn.Module):
    """`width` 64 is the usual one."""

    def __init__(self, width: int = 64, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.pool = nn.MaxPool2d(3, 2, 1)
        blocks, channels = [], width
        for i, to in enumerate((width, 2 * width, 4 * width, 8 * width)):
            blocks += [Residual(channels, to, 1 if i == 0 else 2), Residual(to, to, 1)]
            channels = to
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.blocks(self.pool(self.norm(self.stem(x)).relu()))
        return self.fc(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))
