# SPDX-License-Identifier: Apache-2.0
"""Weights of 16-bit floats: read as they are stored by gemv, packed without being widened by gemm, multiplied as pairs of bfloat16."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import straightline as sl
import torch
from policy import check, check_close
from torch import Tensor, nn


class TwoHeads(nn.Module):
    """A weight that a single row and many rows read."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.shared = nn.Linear(1024, 1023).to(dtype)

    def forward(self, row: Tensor, rows: Tensor) -> list[Tensor]:
        return [self.shared(row).relu(), self.shared(rows)]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("rows", [1, 3])
def test_no_widened_copy(dtype: torch.dtype, rows: int) -> None:
    model = nn.Linear(1024, 1023).to(dtype).eval()
    routes = {"linear": "native.gemv"}  # packed panels win where there is memory for them
    compiled = check(
        model, (torch.randn(rows, 1024, dtype=dtype),), calls=[(torch.randn(rows, 1024, dtype=dtype),)], routes=routes
    )
    statements = compiled.explain().statements
    assert [row["kernel"].split("_")[0] for row in statements if "gemv" in row["kernel"]] == ["gemv"], statements
    large = [row for row in statements if row["phase"] == "prepare" and row["bytes"] > 2**20]
    assert not large, "the weight is copied"
    compiled.load_parameters({name: value * 2 for name, value in model.state_dict().items()})
    x = torch.randn(rows, 1024, dtype=dtype)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x) * 2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_one_row_and_many(dtype: torch.dtype) -> None:
    compiled = check(TwoHeads(dtype).eval(), (torch.randn(1, 1024, dtype=dtype), torch.randn(40, 1024, dtype=dtype)))
    wide = [row for row in compiled.explain().statements if row["op"] == "to_dtype" and row["bytes"] > 2**20]
    assert not wide, "the weight is widened"


def _kernels(compiled: Any) -> list[str]:
    return [row["why"].split(":")[0] for row in compiled.explain().statements if row["phase"] == "run"]


@pytest.mark.parametrize("rows", [2, 5, 16, 70])
def test_bfloat16_in_and_out(rows: int) -> None:
    """Two linears with an activation between: on a CPU with products of pairs nothing but them runs."""
    model = nn.Sequential(nn.Linear(96, 130), nn.GELU(), nn.Linear(130, 50)).bfloat16().eval()
    x = torch.randn(rows, 96).bfloat16()
    compiled = check(model, (x,), calls=[(torch.randn(rows, 96).bfloat16(),)])
    pairs = "dot_bf16 = 1" in compiled.ir("kernel")
    assert not pairs or _kernels(compiled) == ["native.gemm_bf16"] * 2, _kernels(compiled)


def test_who_else_reads_the_input() -> None:
    """The residual reads the numbers that the linear takes; they are rounded to bfloat16 either way."""

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(64, 64).bfloat16(), nn.Linear(64, 64).bfloat16()

        def forward(self, x: Tensor) -> Tensor:
            y = torch.nn.functional.layer_norm(self.first(x), (64,))
            return y + self.second(y) * y.float().sum(-1, keepdim=True)

    check(Residual().eval(), (torch.randn(9, 64).bfloat16(),), calls=[(torch.randn(9, 64).bfloat16(),)])


def test_weights_that_are_computed_while_running() -> None:
    """freeze=False: the parameter may change before any call."""
    model = nn.Linear(256, 255).bfloat16().eval()
    compiled = sl.compile(model, (torch.randn(1, 256).bfloat16(),), freeze=False)
    x = torch.randn(1, 256).bfloat16()
    with torch.no_grad():
        model.weight.mul_(2)
        check_close(compiled(x), model(x), copy.deepcopy(model).double()(x.double()))
