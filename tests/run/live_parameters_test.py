# SPDX-License-Identifier: Apache-2.0
"""`freeze=False`: parameters are read on each call, so nothing that was made from them may be kept."""

from __future__ import annotations

import copy

import pytest
import torch
from policy import check_call
from torch import nn

import straightline as sl
from straightline import _internal


def _models() -> dict[str, tuple[nn.Module, tuple[int, ...]]]:
    return {
        "gemm": (nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 48)), (4, 64)),
        "gemv": (nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 48)), (1, 64)),
        "convolution": (nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU()), (1, 8, 12, 12)),
        "batch norm": (nn.Sequential(nn.Conv2d(4, 16, 3), nn.BatchNorm2d(16)), (1, 4, 9, 9)),
    }


@pytest.mark.parametrize("name", list(_models()))
@pytest.mark.parametrize("prefer", ["", "onednn"])
def test_a_changed_parameter_is_seen(name: str, prefer: str) -> None:
    model, sizes = _models()[name]
    model.eval()
    x = torch.randn(sizes)
    compiled = _internal.compile(model, (x,), freeze=False, internal={"prefer": prefer})
    for factor in (1.0, 1.5, -0.5):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(factor)
        check_call(compiled, model, copy.deepcopy(model).double(), (x,))


def test_a_frozen_program_keeps_its_weights() -> None:
    model, x = nn.Linear(64, 48).eval(), torch.randn(8, 64)
    with torch.no_grad():
        before = model(x)
        compiled = sl.compile(model, (x,))
        model.weight.mul_(2.0)
        torch.testing.assert_close(compiled(x), before)
