# SPDX-License-Identifier: Apache-2.0
"""Control flow that depends on data."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Cond(nn.Module):
    """Either branch of torch.cond; x [n]."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        def positive(x: Tensor) -> Tensor:
            return self.fc(x).relu()

        def negative(x: Tensor) -> Tensor:
            return x.cos() - 1

        return torch.cond(x.sum() > 0, positive, negative, (x,)) * 2


class Double(nn.Module):
    """Doubles x until its sum reaches a bound; counts the steps."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        from torch._higher_order_ops.while_loop import while_loop

        def small(steps: Tensor, x: Tensor) -> Tensor:
            return (x.sum() < 100) & (steps < 50)

        def double(steps: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
            return steps + 1, x * 2

        return while_loop(small, double, (torch.tensor(0), x))
