# SPDX-License-Identifier: Apache-2.0
"""A small convolutional network for scikit-learn's scanned digits (8 x 8, one channel)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class DigitsCnn(nn.Module):
    """x [n, 1, 8, 8] -> scores [n, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(32)
        self.dropout = nn.Dropout(0.2)
        self.fc = nn.Linear(32 * 2 * 2, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.norm1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.norm2(self.conv2(x))), 2)
        return self.fc(self.dropout(x.flatten(1)))
