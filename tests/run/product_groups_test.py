# SPDX-License-Identifier: Apache-2.0
"""Random models with several linears of one x compile for a device (tests/device/product_groups_test.py runs others there)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from tests.device.product_groups import program

import straightline as sl

_PROGRAMS = 12


@pytest.fixture
def tf32() -> Iterator[None]:
    """Products of float32 may round their factors."""
    before, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, True
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


def test_linears_of_one_x(tf32: None) -> None:
    first = torch.seed() % 2**31
    for seed in range(first, first + _PROGRAMS):
        print(f"program({seed})")
        model, inputs, routes = program(seed)
        sl.compile(model, inputs, target="cuda:sm_90", routes=routes)


def test_a_result_that_another_product_reads() -> None:
    """Of few rows and of many it was put beside that product, in whose launch it is not ready."""

    class Both(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y = self.a(x)
            return y, y * self.b(x)

    for rows, dtype in ((1, torch.float32), (4, torch.bfloat16), (128, torch.bfloat16)):
        compiled = sl.compile(Both().to(dtype), (torch.randn(rows, 64).to(dtype),), target="cuda:sm_90")
        launched = [row for row in compiled.explain().statements if row["phase"] == "run" and row["family"]]
        assert not {row["family"] for row in launched} & {"gemv_group", "matmul_group"}
