# SPDX-License-Identifier: Apache-2.0
"""Recurrent models: two layers of nn.LSTM, and of nn.GRU, each with a linear layer on top."""

from __future__ import annotations

from torch import Tensor, nn


class TwoLayerLstm(nn.Module):
    """x [n, steps, features] -> scores of the last step, final states."""

    def __init__(self, features: int = 12, hidden: int = 24) -> None:
        super().__init__()
        self.lstm = nn.LSTM(features, hidden, 2, batch_first=True)
        self.fc = nn.Linear(hidden, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        y, state = self.lstm(x)
        return self.fc(y[:, -1]), state


class TwoLayerGru(nn.Module):
    """x [n, steps, features], h [2, n, hidden] -> scores of every step, final states."""

    def __init__(self, features: int = 12, hidden: int = 24) -> None:
        super().__init__()
        self.gru = nn.GRU(features, hidden, 2, batch_first=True)
        self.fc = nn.Linear(hidden, 5)

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        y, h = self.gru(x, h)
        return self.fc(y), h
