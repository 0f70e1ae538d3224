# SPDX-License-Identifier: Apache-2.0
"""Programs for a simulated accelerator that has no compiler (SIM_DEVICE_COMPILES=0): its own kernels, and the host's by a rule."""

from __future__ import annotations

import pytest
import straightline as sl
import torch
from torch import Tensor, nn


class Model(nn.Module):
    """A linear and a softmax, which the device has, around ops that it lacks."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 8)
        self.norm = nn.BatchNorm1d(32)

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.second(torch.tanh(self.norm(self.first(x)))), -1)


def test_all_that_has_no_kernel_is_listed() -> None:
    with pytest.raises(sl.UnsupportedError) as error:
        sl.compile(Model().eval(), (torch.randn(4, 16),), target="sim")
    assert "no compiler for a kernel of ours (pointwise)" in str(error.value)


def test_its_own_kernels_need_no_compiler() -> None:
    model, x = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)).eval(), torch.randn(4, 16)
    function = sl.compile(model, (x,), target="sim")
    torch.testing.assert_close(function(x), model(x))
    assert {row["backend"] for row in function.explain()["statements"]} == {"sim", "runtime"}


@pytest.mark.parametrize("freeze", [True, False])
def test_the_host_has_the_rest_by_a_rule(freeze: bool) -> None:
    model, x = Model().eval(), torch.randn(4, 16)
    function = sl.compile(model, (x,), target="sim", routes={"*": "auto, cpu"}, freeze=freeze)
    torch.testing.assert_close(function(x), model(x))
    backends = [row["backend"] for row in function.explain()["statements"] if row["phase"] == "run"]
    assert {"sim", "native", "runtime"} == set(backends)
    assert backends.count("sim") == (3 if freeze else 1), "both linears, whose plan reads weights, and the softmax"
    with sl.fast_path(False):
        torch.testing.assert_close(function(x), model(x))


def test_a_convolution_of_the_host() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.Flatten(), nn.Linear(128, 4)
    )
    model, x = model.eval(), torch.randn(2, 3, 4, 4)
    function = sl.compile(model, (x,), target="sim", routes={"*": "auto, cpu"})
    torch.testing.assert_close(function(x), model(x), rtol=1e-4, atol=1e-5)
