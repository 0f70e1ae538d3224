# SPDX-License-Identifier: Apache-2.0
"""Graph convolutions: messages gathered along edges, added up at their targets."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class GraphConvolution(nn.Module):
    """x [nodes, features], edges int64 [2, count], weights [count]: D^-1/2 A D^-1/2 x W."""

    def __init__(self, inside: int, out: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inside, out)

    def forward(self, x: Tensor, edges: Tensor, weights: Tensor) -> Tensor:
        source, target = edges[0], edges[1]
        degree = torch.zeros(x.shape[0], dtype=x.dtype).index_add(0, target, weights) + 1
        scale = degree.rsqrt()
        x = self.linear(x)
        messages = x[source] * (weights * scale[source] * scale[target])[:, None]
        return torch.zeros_like(x).index_add(0, target, messages) + x / degree[:, None]


class MeanOfNeighbours(nn.Module):
    """As GraphSAGE: a node and the mean of its neighbours, by scatter_add along an expanded index."""

    def __init__(self, inside: int, out: int) -> None:
        super().__init__()
        self.own, self.others = nn.Linear(inside, out), nn.Linear(inside, out, bias=False)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        target = edges[1][:, None].expand(-1, x.shape[1])
        total = torch.zeros_like(x).scatter_add(0, target, x.gather(0, edges[0][:, None].expand(-1, x.shape[1])))
        count = torch.zeros(x.shape[0], dtype=x.dtype).scatter_add(
            0, edges[1], torch.ones_like(edges[1], dtype=x.dtype)
        )
        return self.own(x) + self.others(total / count.clamp(min=1)[:, None])


class GraphNet(nn.Module):
    """Two convolutions and a mean of neighbours, then a mean over all nodes."""

    def __init__(self, features: int = 6, hidden: int = 16, classes: int = 3) -> None:
        super().__init__()
        self.first, self.second = GraphConvolution(features, hidden), GraphConvolution(hidden, hidden)
        self.sage = MeanOfNeighbours(hidden, hidden)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: Tensor, edges: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        x = F.relu(self.first(x, edges, weights))
        x = F.relu(self.second(x, edges, weights))
        x = self.sage(x, edges)
        return x, self.head(x.mean(0))
