# SPDX-License-Identifier: Apache-2.0
"""Weights of 16-bit floats stay as they are stored where one row at a time reads them."""

from __future__ import annotations

import pytest
import straightline as sl
import torch
from policy import check
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
    rival = {"routes": {"linear": "native.gemv"}} if rows > 1 else {}  # packed panels win for three rows of this size
    compiled = check(model, (torch.randn(rows, 1024, dtype=dtype),), calls=[(torch.randn(rows, 1024, dtype=dtype),)], **rival)
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
    assert len([row for row in compiled.explain().statements if row["kernel"].startswith("gemv")]) == 1


def test_weights_that_are_computed_while_running() -> None:
    """freeze=False: the parameter may change before any call."""
    model = nn.Linear(256, 255).bfloat16().eval()
    compiled = sl.compile(model, (torch.randn(1, 256).bfloat16(),), freeze=False)
    x = torch.randn(1, 256).bfloat16()
    with torch.no_grad():
        model.weight.mul_(2)
        torch.testing.assert_close(compiled(x), model(x))
