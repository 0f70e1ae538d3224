# SPDX-License-Identifier: Apache-2.0
"""DLRM-like: dense features through a net, categories through tables, all pairs of products, a net on top."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def net(sizes: tuple[int, ...]) -> nn.Sequential:
    """Linear layers, each with a relu."""
    return nn.Sequential(*(part for i, o in zip(sizes, sizes[1:]) for part in (nn.Linear(i, o), nn.ReLU())))


class Dlrm(nn.Module):
    """dense [n, 13], categories int64 [n, tables], bags int64 [n, 4] -> probability [n]."""

    def __init__(self, dim: int = 16, rows: int = 50, tables: int = 5) -> None:
        super().__init__()
        self.bottom = net((13, 32, dim))
        self.tables = nn.ModuleList(nn.Embedding(rows, dim) for _ in range(tables))
        self.bag = nn.EmbeddingBag(rows, dim, mode="sum")
        count = tables + 2
        first, second = torch.tril_indices(count, count, -1)
        self.register_buffer("pairs", first * count + second, persistent=False)
        self.top = nn.Sequential(*net((dim + count * (count - 1) // 2, 32)), nn.Linear(32, 1))

    def forward(self, dense: Tensor, categories: Tensor, bags: Tensor) -> Tensor:
        x = self.bottom(dense)
        looked = [table(categories[:, i]) for i, table in enumerate(self.tables)]
        all_of = torch.stack([x, *looked, self.bag(bags)], 1)
        products = torch.bmm(all_of, all_of.transpose(1, 2)).flatten(1)
        return torch.sigmoid(self.top(torch.cat([x, products[:, self.pairs]], 1))).squeeze(1)
