# SPDX-License-Identifier: Apache-2.0
"""What the tests of the explorer's page share: a model, and how its data is read."""

from __future__ import annotations

import json
import re
from typing import Any

import torch
from torch import Tensor, nn


class Model(nn.Module):
    """Layers that fold, fuse and die."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.fc = nn.Linear(8 * 36, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Images of 3 x 6 x 6."""
        y = self.norm(self.conv(x)).relu()
        return self.fc(y.flatten(1)) + torch.ones(10) * 0


def facts_of(page: str) -> dict[str, Any]:
    """The data of a page."""
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])
