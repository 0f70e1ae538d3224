# SPDX-License-Identifier: Apache-2.0
"""Sizes computed from named ones by division and remainder: rounded down where what is divided is negative, and 0 by a size of 0."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import straightline as sl


class _Of(torch.nn.Module):
    def __init__(self, number: Callable[[int], int]) -> None:
        super().__init__()
        self.number = number

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.arange(3) + self.number(x.size(0))


@pytest.mark.parametrize(
    "number",
    [
        lambda s: (s - 7) % s,
        lambda s: (3 - 2 * s) % 5,
        lambda s: (s - 7) // s,
        lambda s: (3 - 2 * s) // 4,
        lambda s: 20 + (s - 9) // 2 % s,
    ],
    ids=["rest_by_size", "rest", "division_by_size", "division", "both"],
)
@pytest.mark.parametrize("emit", ["cpp", "python"])
def test_what_is_divided_may_be_negative(number: Callable[[int], int], emit: str) -> None:
    model = _Of(number)
    compiled = sl.compile(
        model, (torch.randn(5),), dynamic_shapes=({0: torch.export.Dim("s", min=1, max=40)},), emit=emit, cache=False
    )
    for size in (5, 1, 2, 3, 6, 7, 8, 39):
        x = torch.randn(size)
        assert compiled(x).tolist() == model(x).tolist(), size


def test_a_size_of_zero_divides() -> None:
    """Eager raises ZeroDivisionError; a program, which has no number to divide, does not end the process."""
    compiled = sl.compile(
        _Of(lambda s: (s + 7) % s), (torch.randn(5),), dynamic_shapes=({0: torch.export.Dim("s", min=0)},), cache=False
    )
    assert compiled(torch.randn(4)).tolist() == [3, 4, 5]
    assert compiled(torch.randn(0)).tolist() == [0, 1, 2]


@pytest.mark.parametrize("shift", [10000, 10003, -7])
def test_a_roll_further_than_its_dim_by_indices(shift: int) -> None:
    """As torch decomposes it. The planner's verifier took a size of 0 for a divisor and ended the process."""

    class Roll(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            size = x.size(1)
            return x.index_select(1, torch.fmod((size - shift) % size + torch.arange(size), size))

    print("seed", torch.seed())
    compiled = sl.compile(Roll(), (torch.randn(5, 5),), dynamic_shapes=({1: torch.export.Dim("s")},), cache=False)
    for size in (5, 2, 7):
        x = torch.randn(5, size)
        assert torch.equal(compiled(x), x.roll(shift, 1))
