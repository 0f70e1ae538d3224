# SPDX-License-Identifier: Apache-2.0
"""The policy itself: it takes what rounding explains, and refuses what it does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from policy import check_tree, in_float64, torch_errors
from torch import Tensor


def _judge(function: Callable[[Tensor], Tensor], x: Tensor, got: Tensor) -> None:
    given = ((x,), {})
    (wide,), _ = in_float64(given)
    check_tree(
        (got, given), (function(x), given), (function(wide), given), errors=lambda: torch_errors(function, given)
    )


def _cancelling(dtype: torch.dtype) -> Tensor:
    """Terms around one whose sum is a tenth."""
    x = torch.randn(64, dtype=dtype)
    x[-1] = 0.1 - x[:-1].double().sum()
    return x


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_another_order_of_a_sum_that_cancels(dtype: torch.dtype) -> None:
    for _ in range(200):
        x = _cancelling(dtype)
        _judge(lambda v: v.sum().reshape(1), x, x[torch.randperm(64)].reshape(8, 8).cumsum(0)[-1].cumsum(0)[-1:])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_lost_term_is_refused(dtype: torch.dtype) -> None:
    x = _cancelling(dtype)
    x[7] = 1e3 * torch.finfo(dtype).eps
    with pytest.raises(AssertionError, match="output 0 is off by"):
        _judge(lambda v: v.sum().reshape(1), x, torch.cat([x[:7], x[8:]]).sum().reshape(1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_moved_inputs_do_not_excuse_a_jump(dtype: torch.dtype) -> None:
    x = torch.arange(-8, 8, dtype=dtype)
    with pytest.raises(AssertionError, match="output 0 is off by 1"):
        _judge(torch.floor, x, torch.floor(x) - (x == 3).to(dtype))
