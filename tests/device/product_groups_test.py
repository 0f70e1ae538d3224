# SPDX-License-Identifier: Apache-2.0
"""Random models with several linears of one x (product_groups.py), against float64."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import straightline as sl
import torch
from straightline.testing import policy
from straightline.testing.device import check

from .product_groups import program

_PROGRAMS = 12


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
        given, is_float32 = tuple(x.cuda() for x in inputs), inputs[0].dtype == torch.float32
        compiled = sl.compile(model.cuda(), given, routes=routes)
        for _ in range(2):
            try:
                check(compiled, model, policy.reference_of(model), given, is_float32)
            except AssertionError as failure:
                raise AssertionError(f"part {part}, program({seed}): {failure}") from None
