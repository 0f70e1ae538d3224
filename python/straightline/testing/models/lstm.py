# SPDX-License-Identifier: Apache-2.0
"""A recurrent model: nn.LSTM kept whole, then a linear layer."""

from __future__ import annotations

from torch import Tensor, nn


class LstmTagger(nn.Module):
    """x [n, steps, features] -> (scores [n, steps, tags], last hidden state)."""

    def __init__(
        self,
        features: int = 8,
        hidden: int = 16,
        tags: int = 5,
        layers: int = 1,
        bidirectional: bool = False,
    ) -> None:
        super().__init__()
        self.lstm = nn.LSTM(features, hidden, layers, batch_first=True, bidirectional=bidirectional)
        self.fc = nn.Linear(hidden * (2 if bidirectional else 1), tags)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, (h, _) = self.lstm(x)
        return self.fc(y), h
