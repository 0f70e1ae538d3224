# SPDX-License-Identifier: Apache-2.0
"""Small models that are one kernel on a GPU."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bench.cases import Add, Case, ReshapeAdd


class ReshapeMix(nn.Module):
    """Five small ops over rows."""

    def forward(self, x: Tensor, b: Tensor) -> Tensor:
        """Returns [n, elements of a row]."""
        flat = x.reshape(x.shape[0], -1)
        return F.relu(flat + b) * 2.0 + flat.mean(1, keepdim=True)


class NormGelu(nn.Module):
    """Layer norm, GELU, residual."""

    def __init__(self, dim: int = 1024) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        with torch.no_grad():
            self.norm.weight.copy_(1 + 0.1 * torch.randn(dim))
            self.norm.bias.copy_(torch.randn(dim))

    def forward(self, x: Tensor) -> Tensor:
        """Returns what has the shape of x."""
        return x + F.gelu(self.norm(x))


CUDA_CASES = (
    Case("single_add", lambda: (Add().eval(), (torch.randn(2, 3), torch.randn(2, 3)))),
    Case("reshape_add", lambda: (ReshapeAdd().eval(), (torch.randn(8, 16, 8, 8), torch.randn(1024)))),
    Case("reshape_mix", lambda: (ReshapeMix().eval(), (torch.randn(8, 16, 16), torch.randn(256)))),
    Case("norm_gelu", lambda: (NormGelu().eval(), (torch.randn(16, 1024),))),
)
