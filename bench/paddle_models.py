# SPDX-License-Identifier: Apache-2.0
"""Models of Paddle's tests and of bench/paddle_cases.py."""

from __future__ import annotations

from typing import Any

import paddle
from paddle import nn


class Recurrent(nn.Layer):
    """A recurrent layer over embedded words, and a linear one over its last state."""

    def __init__(
        self, kind: str, width: int = 64, hidden: int = 48, layers: int = 2, direction: str = "bidirect"
    ) -> None:
        super().__init__()
        made = {"LSTM": nn.LSTM, "GRU": nn.GRU, "RNN": nn.SimpleRNN}[kind]
        self.words = nn.Embedding(100, width)
        self.layers = made(width, hidden, layers, direction)
        self.head = nn.Linear(hidden * (2 if direction == "bidirect" else 1), 10)

    def forward(self, words: Any) -> Any:
        """Logits [b, 10] of words [b, s], and the states."""
        found, states = self.layers(self.words(words))
        return self.head(found[:, -1]), states


class Bert(nn.Layer):
    """Embeddings, transformer layers behind a mask of padding, and a pooled head."""

    def __init__(
        self, layers: int = 2, width: int = 64, heads: int = 4, vocabulary: int = 200, length: int = 64
    ) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.norm = nn.LayerNorm(width)
        layer = nn.TransformerEncoderLayer(width, heads, width * 4, dropout=0.1, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.pooler = nn.Linear(width, width)

    def forward(self, words: Any, mask: Any = None) -> Any:
        """States [b, s, width] of words [b, s], and the pooled one."""
        places = paddle.arange(words.shape[1])
        x = self.norm(self.words(words) + self.places(places))
        if mask is not None:
            mask = (1.0 - mask.unsqueeze([1, 2])) * -1e4
        x = self.encoder(x, mask)
        return x, paddle.tanh(self.pooler(x[:, 0]))


class Branches(nn.Layer):
    """A branch and a loop whose number of rounds depends on data."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        """Two rows of numbers: y and the rounds, of x [b, 8]."""
        if paddle.mean(x) > 0:
            y = self.left(x)
        else:
            y = paddle.tanh(self.right(x))
        rounds = paddle.zeros([], "int64")
        while paddle.max(paddle.abs(y)) < 50.0:
            y = y * 1.5 + 0.1
            rounds = rounds + 1
        return y, rounds
