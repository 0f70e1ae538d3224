# SPDX-License-Identifier: Apache-2.0
"""torch's backward ops of pools as ops of a program (capture/torch/backward_ops.py)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from policy import check, launches
from torch import Tensor, nn

_aten = torch.ops.aten


class _Of(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: Tensor) -> Tensor:
        return self.function(*tensors)


def _is_native(compiled: Any) -> bool:
    return "aten" not in {row["backend"] for row in launches(compiled)}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "ceil_mode", "counts_padding", "divisor"),
    [
        ([3, 2], [2, 2], [1, 0], False, True, None),
        ([3, 3], [2, 2], [1, 1], True, False, None),
        ([3, 3], [2, 2], [1, 1], True, True, None),
        ([2, 2], [], [0, 0], False, True, 5),
        ([3], [2], [1], True, False, None),
        ([2, 3], [3, 4], [0, 1], False, False, None),
    ],
)
def test_average_pools(
    kernel: list[int], stride: list[int], padding: list[int], ceil_mode: bool, counts_padding: bool, divisor: int | None,
    dtype: torch.dtype,
) -> None:  # fmt: skip
    x = torch.randn(2, 3, 9, 8).to(dtype)
    how = (kernel, stride, padding, ceil_mode, counts_padding, divisor)
    grad = torch.randn_like(_aten.avg_pool2d(x, *how))
    model = _Of(lambda g, x: _aten.avg_pool2d_backward(g, x, *how))
    assert _is_native(check(model, (grad, x)))


@pytest.mark.parametrize("rank", [3, 4])
def test_equal_windows(rank: int) -> None:
    x, grad = (torch.randn(2, 3, *size)[0 if rank == 3 else slice(None)] for size in ((8, 6), (4, 3)))
    assert _is_native(check(_Of(_aten._adaptive_avg_pool2d_backward), (grad, x)))


def test_windows_that_overlap_are_torchs() -> None:
    x, grad = torch.randn(2, 3, 8, 6), torch.randn(2, 3, 3, 5)
    assert not _is_native(check(_Of(_aten._adaptive_avg_pool2d_backward), (grad, x)))
