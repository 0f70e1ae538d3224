# SPDX-License-Identifier: Apache-2.0
"""Encoder layers: one written out as BERT has it, and torch's own."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class BertLayer(nn.Module):
    """Self-attention and feed-forward with a norm after each; x [n, tokens, dim], mask [n, tokens] of 0 and 1."""

    def __init__(self, dim: int = 64, heads: int = 4, ffn: int = 128) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(dim, dim) for _ in range(3))
        self.out = nn.Linear(dim, dim)
        self.norm1, self.norm2 = nn.LayerNorm(dim, eps=1e-12), nn.LayerNorm(dim, eps=1e-12)
        self.up, self.down = nn.Linear(dim, ffn), nn.Linear(ffn, dim)
        self.dropout = nn.Dropout(0.1)

    def _split(self, x: Tensor) -> Tensor:
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = self._split(self.query(x)), self._split(self.key(x)), self._split(self.value(x))
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        scores = scores.masked_fill(mask[:, None, None, :] == 0, float("-inf"))
        attention = self.dropout(torch.softmax(scores, -1)) @ v
        attention = attention.transpose(1, 2).reshape(x.shape)
        x = self.norm1(x + self.dropout(self.out(attention)))
        return self.norm2(x + self.dropout(self.down(F.gelu(self.up(x)))))


class EncoderLayer(nn.Module):
    """torch's encoder layer; x [n, tokens, dim]."""

    def __init__(self, dim: int = 256, heads: int = 4, ffn: int = 1024) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(
            dim, heads, ffn, dropout=0.0, batch_first=True, norm_first=True, activation="gelu"
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)
