# SPDX-License-Identifier: Apache-2.0
"""A small detection head: heat map of centres, sizes and offsets; decoded by a max pool, topk and gather, without nms."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Detector(nn.Module):
    """x [n, 3, h, w] -> (boxes [n, count, 4], scores [n, count], classes int64 [n, count])."""

    def __init__(self, classes: int = 4, width: int = 16, count: int = 8) -> None:
        super().__init__()
        self.classes, self.count = classes, count
        self.body = nn.Sequential(nn.Conv2d(3, width, 3, 2, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 2, 1), nn.ReLU())
        self.heat, self.boxes = nn.Conv2d(width, classes, 1), nn.Conv2d(width, 4, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        features = self.body(x)
        heat = torch.sigmoid(self.heat(features))
        heat = heat * (heat == F.max_pool2d(heat, 3, 1, 1))
        n, _, h, w = heat.shape
        scores, places = heat.flatten(1).topk(self.count)
        cells = places % (h * w)
        values = self.boxes(features).flatten(2).transpose(1, 2)
        values = values.gather(1, cells[..., None].expand(-1, -1, 4))
        centre = torch.stack([cells % w, cells // w], -1).to(x.dtype) + values[..., :2].sigmoid()
        size = values[..., 2:].exp()
        return torch.cat([centre - size / 2, centre + size / 2], -1) * 4, scores, places // (h * w)
