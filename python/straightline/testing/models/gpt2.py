# SPDX-License-Identifier: Apache-2.0
"""GPT-2-like: learned places, causal attention through one projection, tanh GELU, weights shared between both ends."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class CausalAttention(nn.Module):
    """Self-attention with a triangular mask, written out; x [n, tokens, dim]."""

    def __init__(self, dim: int, heads: int, longest: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.register_buffer("allowed", torch.ones(longest, longest, dtype=torch.bool).tril(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        n, tokens, dim = x.shape
        q, k, v = (part.view(n, tokens, self.heads, -1).transpose(1, 2) for part in self.qkv(x).split(dim, -1))
        scores = q @ k.transpose(-1, -2) * (dim // self.heads) ** -0.5
        scores = torch.where(self.allowed[:tokens, :tokens], scores, torch.finfo(x.dtype).min)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, tokens, dim))


class Block(nn.Module):
    """Attention and a feed-forward net, each after a norm and with a residual."""

    def __init__(self, dim: int, heads: int, longest: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention = CausalAttention(dim, heads, longest)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    """ids int64 [n, tokens] -> scores [n, tokens, words]."""

    def __init__(self, words: int = 96, dim: int = 48, layers: int = 2, heads: int = 4, longest: int = 32) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, dim), nn.Embedding(longest, dim)
        self.blocks = nn.ModuleList(Block(dim, heads, longest) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))
