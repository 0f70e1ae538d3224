# SPDX-License-Identifier: Apache-2.0
"""`winograd=False`, and what `explain` says of Winograd's error."""

from __future__ import annotations

import re

import pytest
import straightline as sl
import torch
from torch import nn


def errors(channels: int, size: int, *, winograd: bool) -> tuple[str, float]:
    """Why the kernel was chosen, and the largest error over the largest result, against float64."""
    model = nn.Conv2d(channels, channels, 3, padding=1).eval()
    x = torch.randn(1, channels, size, size)
    compiled = sl.compile(model, (x,), winograd=winograd, threads=1)
    with torch.no_grad():
        want = model.double()(x.double())
        error = ((compiled(x).double() - want).abs().max() / want.abs().max()).item()
    return next(row["why"] for row in compiled.explain().statements if row["op"].startswith("convolution")), error


@pytest.mark.parametrize("channels,size", [(64, 56), (256, 14), (512, 7)])
def test_the_error_is_what_explain_says(channels: int, size: int) -> None:
    why, error = errors(channels, size, winograd=True)
    said = re.match(
        r"native\.winograd: estimated [\d.]+ us, F\((\d)x\1\), error about ([\d.e-]+) of the largest result", why
    )
    assert said, why
    assert error < 3 * float(said[2]), (error, why)


def test_without() -> None:
    why, error = errors(64, 28, winograd=False)
    assert why.startswith("native.convolution: ") and "native.winograd: not wanted" in why
    assert error < 2e-6


def test_a_value_that_is_no_bool() -> None:
    with pytest.raises(sl.UserError, match="winograd is 'F4' but must be True or False"):
        sl.compile(nn.ReLU(), (torch.zeros(3),), winograd="F4")
