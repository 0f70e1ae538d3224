# SPDX-License-Identifier: Apache-2.0
"""Bounds of slices that a named size never reaches, and sizes that are the larger or smaller one of two."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import straightline as sl
import torch
from torch import Tensor

_N = torch.export.Dim("n", min=2, max=14)

_SLICES: dict[str, Callable[[Tensor], Tensor]] = {
    "from before the first": lambda x: x[:, -20:] * 2,
    "to behind the last": lambda x: x[:, :20] * 2,
    "from behind the last": lambda x: x[:, 20:] * 2,
    "to before the first": lambda x: x[:, :-20] * 2,
    "every second": lambda x: x[:, -20::2] * 2,
    "window of a cache": lambda x: torch.cat([x, x[:, :1]], 1)[:, -16:] + 1,
    "written from before the first": lambda x: x.slice_scatter(torch.ones_like(x), 1, -20, None),
}


@pytest.mark.parametrize("name", list(_SLICES))
def test_bounds_beyond_a_named_size(name: str) -> None:
    function = _SLICES[name]
    # torch itself refuses steps of this range: their number of elements has a size that may be 1.
    size = torch.export.Dim("n", min=6, max=14) if name == "every second" else _N
    compiled = sl.compile(function, (torch.randn(3, 7),), dynamic_shapes=({1: size},))
    for columns in (6, 7, 9, 14) if size is not _N else (2, 5, 9, 14):
        x = torch.randn(3, columns)
        got, want = compiled(x), function(x)
        assert got.shape == want.shape and torch.equal(got, want), columns


def _numbers(x: Tensor) -> Tensor:
    rows = x.shape[0]
    return x.sum() + torch.sym_max(rows - 5, 0) * 10 + torch.sym_min(rows, 6)


def _sizes(x: Tensor) -> Tensor:
    rows = x.shape[0]
    wide = torch.ones(torch.sym_max(rows - 5, 2), torch.sym_min(rows, 6)) * x.sum()
    return wide.cumsum(0).relu() + wide.sum(1, keepdim=True)


@pytest.mark.parametrize("function", [_numbers, _sizes])
@pytest.mark.parametrize("by_dynamo", [False, True])
def test_larger_and_smaller_sizes(function: Callable[[Tensor], Tensor], by_dynamo: bool) -> None:
    if by_dynamo:
        torch._dynamo.reset()
        compiled = torch.compile(function, backend="straightline", dynamic=True)
    else:
        size = torch.export.Dim("n", min=2, max=4000)
        compiled = sl.compile(function, (torch.randn(9, 3),), dynamic_shapes=({0: size},))
    for rows in (9, 2, 4, 5, 6, 7, 8, 30, 4000):
        x = torch.randn(rows, 3)
        got, want = compiled(x), function(x)
        assert got.shape == want.shape
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-3)
    if by_dynamo:
        assert not any(program.specialized for program in sl.programs(function))
