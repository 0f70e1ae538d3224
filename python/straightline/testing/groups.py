# SPDX-License-Identifier: Apache-2.0
"""Products of groups as `transformers` calls them, which need not be installed."""

from __future__ import annotations

import torch
from torch import Tensor

_NAME = "transformers::grouped_mm_fallback"


def _product(input: Tensor, weight: Tensor, offs: Tensor) -> Tensor:
    y, first = input.new_zeros(input.shape[0], weight.shape[2]), 0
    for matrix, end in zip(weight, offs.tolist(), strict=True):
        torch.mm(input[first:end], matrix, out=y[first:end])
        first = end
    return y


def _shape(input: Tensor, weight: Tensor, offs: Tensor) -> Tensor:
    return input.new_empty(input.shape[0], weight.shape[2])


if not hasattr(torch.ops.transformers, "grouped_mm_fallback"):
    torch.library.custom_op(_NAME, _product, mutates_args=()).register_fake(_shape)


def grouped(x: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
    """Rows of x up to each end times the matrix of their group; torch exports its own op for bfloat16 only."""
    if x.dtype == torch.bfloat16:
        return torch._grouped_mm(x, weight, offs=ends.int())
    result: Tensor = torch.ops.transformers.grouped_mm_fallback(x, weight, ends.int())
    return result
