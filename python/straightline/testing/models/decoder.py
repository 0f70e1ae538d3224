# SPDX-License-Identifier: Apache-2.0
"""Qwen3-like decoder: RMS norm, rotary embedding, grouped-query attention with norms on q and k, SwiGLU.

Its cache of keys and values is updated in place.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class RmsNorm(nn.Module):
    """Scales by the root mean square of the last dim, computed in float32."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(dim) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(x.dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding of x [n, heads, tokens, d] by angles [tokens, d]."""
    half = x.shape[-1] // 2
    turned = torch.cat([-x[..., half:], x[..., :half]], -1)
    return x * cos + turned * sin


class Attention(nn.Module):
    """Attention of `tokens` new places over a cache of `longest`; [n, tokens, dim] in and out."""

    def __init__(self, dim: int, heads: int, shared: int, d: int, longest: int, batch: int) -> None:
        super().__init__()
        self.heads, self.shared, self.d = heads, shared, d
        self.q, self.out = nn.Linear(dim, heads * d, bias=False), nn.Linear(heads * d, dim, bias=False)
        self.k, self.v = nn.Linear(dim, shared * d, bias=False), nn.Linear(dim, shared * d, bias=False)
        self.q_norm, self.k_norm = RmsNorm(d), RmsNorm(d)
        self.register_buffer("keys", torch.zeros(batch, shared, longest, d))
        self.register_buffer("values", torch.zeros(batch, shared, longest, d))

    def _split(self, x: Tensor, heads: int) -> Tensor:
        return x.view(*x.shape[:2], heads, self.d)

    def forward(self, x: Tensor, at: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        q = self.q_norm(self._split(self.q(x), self.heads)).transpose(1, 2)
        k = self.k_norm(self._split(self.k(x), self.shared)).transpose(1, 2)
        v = self._split(self.v(x), self.shared).transpose(1, 2)
        self.keys.index_copy_(2, at, rotate(k, cos, sin))
        self.values.index_copy_(2, at, v)
        y = F.scaled_dot_product_attention(rotate(q, cos, sin), self.keys, self.values, attn_mask=mask, enable_gqa=True)
        return self.out(y.transpose(1, 2).reshape(*x.shape[:2], -1))


class Layer(nn.Module):
    """Attention and SwiGLU, each after a norm and with a residual."""

    def __init__(self, dim: int, heads: int, shared: int, d: int, ffn: int, longest: int, batch: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = RmsNorm(dim), RmsNorm(dim)
        self.attention = Attention(dim, heads, shared, d, longest, batch)
        self.gate, self.up = nn.Linear(dim, ffn, bias=False), nn.Linear(dim, ffn, bias=False)
        self.down = nn.Linear(ffn, dim, bias=False)

    def forward(self, x: Tensor, at: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x), at, cos, sin, mask)
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """ids int64 [n, tokens] at places `at` int64 [tokens] -> scores of the last token [n, words]."""

    def __init__(
        self, words: int = 96, dim: int = 64, layers: int = 2, heads: int = 4, shared: int = 2, d: int = 16, ffn: int = 128,
        longest: int = 48, batch: int = 1,
    ) -> None:  # fmt: skip
        super().__init__()
        self.embed = nn.Embedding(words, dim)
        self.layers = nn.ModuleList(Layer(dim, heads, shared, d, ffn, longest, batch) for _ in range(layers))
        self.norm, self.head = RmsNorm(dim), nn.Linear(dim, words, bias=False)
        angles = torch.arange(longest)[:, None] * 10000.0 ** (-torch.arange(0, d, 2) / d)
        self.register_buffer("cos", torch.cat([angles, angles], -1).cos(), persistent=False)
        self.register_buffer("sin", torch.cat([angles, angles], -1).sin(), persistent=False)
        self.register_buffer("places", torch.arange(longest), persistent=False)

    def forward(self, ids: Tensor, at: Tensor) -> Tensor:
        x = self.embed(ids)
        cos, sin = self.cos[at], self.sin[at]
        mask = self.places[None, :] <= at[:, None]
        for layer in self.layers:
            x = layer(x, at, cos, sin, mask)
        return self.head(self.norm(x)[:, -1])
