# SPDX-License-Identifier: Apache-2.0
"""Random models with several linears of one x (product_groups.py), against float64."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import straightline as sl
import torch

from .driver_calls_test import check
from .product_groups import program

_PROGRAMS = 25


@pytest.fixture
def tf32() -> Iterator[None]:
    """Products of float32 may round their factors."""
    before, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, True
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


@pytest.mark.parametrize("part", range(4))
def test_linears_of_one_x(part: int, tf32: None) -> None:
    first = torch.seed() % 2**31
    for seed in range(first, first + _PROGRAMS):
        model, inputs, routes = program(seed)
        given = tuple(x.cuda() for x in inputs)
        compiled = sl.compile(model.cuda(), given, routes=routes)
        for _ in range(2):
            check(model, given, compiled(*given), f"part {part}, program({seed})")
