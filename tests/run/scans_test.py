# SPDX-License-Identifier: Apache-2.0
"""cumprod, cummax, cummin and logcumsumexp against eager: all dims, types, ties and NaN, no elements, named sizes."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from policy import check, is_native
from torch import Tensor

import straightline as sl

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
OTHERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]


def _seed() -> None:
    seed = torch.seed() % 2**31
    print(f"seed {seed}")
    torch.manual_seed(seed)


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("dtype", FLOATS)
def test_floats(dtype: torch.dtype, dim: int) -> None:
    _seed()
    x = (torch.rand(7, 9, 37) + 0.5).to(dtype)
    check(lambda x: (x.cumprod(dim), x.logcumsumexp(dim), x.logcumsumexp(dim) * 2), (x,))
    check(lambda x: x.t().cumprod(dim), (x[0],))
    check(lambda x: x[:, ::2].logcumsumexp(dim), (x,))
    assert is_native(lambda x: (x.cumprod(dim), x.logcumsumexp(dim), *x.cummax(dim), *x.cummin(dim)), x)


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("dtype", FLOATS + OTHERS)
def test_extrema(dtype: torch.dtype, dim: int) -> None:
    """Many ties: of equal elements the last one's place."""
    _seed()
    x = torch.randint(0, 5, (7, 9, 37)).to(dtype) if dtype != torch.bool else torch.rand(7, 9, 37) > 0.5
    check(lambda x: (*x.cummax(dim), *x.cummin(dim)), (x,))
    check(lambda x: (x.cummax(dim).values, x.cummin(dim).indices), (x,))


@pytest.mark.parametrize("dtype", OTHERS)
def test_products_of_integers(dtype: torch.dtype) -> None:
    x = torch.randint(0, 4, (6, 20)).to(dtype)
    check(lambda x: (x.cumprod(0), x.cumprod(1), x.cumprod(1, dtype=torch.float32)), (x,))


@pytest.mark.parametrize("dtype", FLOATS)
def test_special_values(dtype: torch.dtype) -> None:
    """NaN stays; infinities of both signs; both zeros."""
    _seed()
    edges = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -2.0, 90.0, -200.0])
    x = edges[torch.randint(0, len(edges), (60, 12))].to(dtype)
    x[:20] = x[:20].nan_to_num(3.0)
    x[20:30] = -math.inf
    for x in (x, x.t().contiguous()):
        for dim in (0, 1):
            compiled = sl.compile(
                lambda x, dim=dim: (*x.cummax(dim), *x.cummin(dim), x.logcumsumexp(dim), x.cumprod(dim)), (x,)
            )
            got = compiled(x)
            eager = (*x.cummax(dim), *x.cummin(dim), x.logcumsumexp(dim), x.cumprod(dim))
            for one, other in zip(got[:4], eager[:4]):
                torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)
            for one, other in zip(got[4:], eager[4:]):
                torch.testing.assert_close(one, other, equal_nan=True)


def test_no_dims_and_no_elements() -> None:
    def all_of(x: Tensor) -> Any:
        return (x.cumprod(0), x.logcumsumexp(0), *x.cummax(0), *x.cummin(0))

    check(all_of, (torch.tensor(2.5),))
    check(all_of, (torch.empty(0, 3),))
    check(all_of, (torch.empty(3, 0),))


def test_of_named_sizes() -> None:
    n = torch.export.Dim("n", max=64)
    compiled = sl.compile(lambda x: (x.cumprod(0), *x.cummax(0)), (torch.rand(9, 5),), dynamic_shapes=({0: n},))
    for size in (1, 9, 33):
        x = torch.rand(size, 5) + 0.5
        for got, eager in zip(compiled(x), (x.cumprod(0), *x.cummax(0))):
            torch.testing.assert_close(got, eager)
