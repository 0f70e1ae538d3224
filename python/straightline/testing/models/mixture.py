# SPDX-License-Identifier: Apache-2.0
"""A mixture of experts with dense gating: every expert sees every token; the gate keeps the best two by weight."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Mixture(nn.Module):
    """x [tokens, dim] -> (y [tokens, dim], load of each expert)."""

    def __init__(self, dim: int = 24, hidden: int = 48, experts: int = 6, best: int = 0) -> None:
        super().__init__()
        self.best = best
        self.gate = nn.Linear(dim, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, dim, hidden) * dim**-0.5)
        self.down = nn.Parameter(torch.randn(experts, hidden, dim) * hidden**-0.5)

    def _weights(self, x: Tensor) -> Tensor:
        scores = F.softmax(self.gate(x), -1)
        if not self.best:
            return scores
        values, places = scores.topk(self.best, -1)
        return torch.zeros_like(scores).scatter(-1, places, values / values.sum(-1, keepdim=True))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        weights = self._weights(x)
        hidden = F.gelu(torch.einsum("td,edh->eth", x, self.up))
        each = torch.einsum("eth,ehd->etd", hidden, self.down)
        return torch.einsum("te,etd->td", weights, each), weights.mean(0)
