# SPDX-License-Identifier: Apache-2.0
"""BERT-like: embeddings of words, places and segments, four encoder layers, a pooler."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from straightline.testing.models.bert_layer import BertLayer


class Bert(nn.Module):
    """ids, segments and mask, each int64 [n, tokens] -> (hidden [n, tokens, dim], pooled [n, dim])."""

    def __init__(self, words: int = 100, dim: int = 64, layers: int = 4, longest: int = 32) -> None:
        super().__init__()
        self.words, self.places, self.segments = (
            nn.Embedding(words, dim),
            nn.Embedding(longest, dim),
            nn.Embedding(2, dim),
        )
        self.norm = nn.LayerNorm(dim, eps=1e-12)
        self.layers = nn.ModuleList(BertLayer(dim) for _ in range(layers))
        self.pool = nn.Linear(dim, dim)
        self.register_buffer("numbers", torch.arange(longest)[None], persistent=False)

    def forward(self, ids: Tensor, segments: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        places = self.places(self.numbers[:, : ids.shape[1]])
        x = self.norm(self.words(ids) + places + self.segments(segments))
        for layer in self.layers:
            x = layer(x, mask)
        return x, torch.tanh(self.pool(x[:, 0]))
