# SPDX-License-Identifier: Apache-2.0
"""`torch.inference_mode()`: models, examples and calls from inside and from outside of it, in every combination."""

from __future__ import annotations

import itertools

import pytest
import torch
from straightline.testing.models.counter import Counter
from straightline.testing.models.small import Mlp

import straightline as sl


@pytest.mark.parametrize("model_inside, compile_inside, call_inside", list(itertools.product((False, True), repeat=3)))
def test_inside_and_outside(model_inside: bool, compile_inside: bool, call_inside: bool) -> None:
    with torch.inference_mode(model_inside):
        model = Mlp((8, 16, 4)).eval()
    with torch.inference_mode(compile_inside):
        compiled = sl.compile(model, (torch.randn(2, 8),))
    with torch.inference_mode(call_inside), torch.no_grad():
        x = torch.randn(2, 8)
        torch.testing.assert_close(compiled(x), model(x))


@pytest.mark.parametrize("inside", [False, True])
def test_a_buffer_made_inside_is_updated(inside: bool) -> None:
    with torch.inference_mode():
        model = Counter().eval()
        x = torch.randn(4)
    with torch.inference_mode(inside):
        compiled = sl.compile(model, (x,))
    compiled(x)
    assert model.calls.item() == 1
    torch.testing.assert_close(model.mean, 0.1 * x)
