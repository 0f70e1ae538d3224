# SPDX-License-Identifier: Apache-2.0
"""Examples of size 0 or 1 in a named dim: other sizes are compiled for, all the same."""

from __future__ import annotations

from typing import Any

import pytest
import straightline as sl
import torch
from straightline.capture.torch.wider_examples import wider
from torch import Tensor, nn
from torch.export import Dim


def _rows(most: int = 8, least: int = 0) -> Any:
    return Dim("rows", min=least, max=most)


@pytest.mark.parametrize("example", [0, 1])
def test_a_batch_of_one(example: int) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU()).eval()
    compiled = sl.compile(model, (torch.randn(example, 4),), dynamic_shapes=({0: _rows()},))
    for n in (0, 1, 2, 8):
        x = torch.randn(n, 4)
        torch.testing.assert_close(compiled(x), model(x))
    with pytest.raises(sl.GuardError):
        compiled(torch.randn(9, 4))


def test_an_image_by_name_and_in_channels_last() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1)).eval()
    x = torch.randn(1, 3, 8, 8).to(memory_format=torch.channels_last)
    compiled = sl.compile(model, (), {"input": x}, dynamic_shapes={"input": {0: _rows()}})
    for n in (1, 5):
        given = torch.randn(n, 3, 8, 8).to(memory_format=torch.channels_last)
        torch.testing.assert_close(compiled(input=given), model(given), atol=1e-5, rtol=1e-5)


def test_a_dim_of_several_inputs_and_one_derived_from_it() -> None:
    rows = _rows()

    def model(pair: tuple[Tensor, Tensor], other: dict[str, Tensor], scale: float) -> Tensor:
        return (pair[0] + pair[1]) * scale + other["x"].view(2, -1, 3).sum(0)

    shapes = (({0: rows}, {0: rows}), {"x": {0: 2 * rows}}, None)
    given = lambda n: ((torch.randn(n, 3), torch.randn(n, 3)), {"x": torch.randn(2 * n, 3)}, 2.0)  # noqa: E731
    compiled = sl.compile(model, given(1), dynamic_shapes=shapes)
    for n in (1, 3, 8):
        args = given(n)
        torch.testing.assert_close(compiled(*args), model(*args))


def test_what_is_not_widened() -> None:
    x = {"x": torch.randn(1, 1)}
    assert wider(x, None) is None
    assert wider(x, ({0: Dim("a", max=1)},)) is None  # no other size is within its bounds
    assert wider(x, ({0: Dim.AUTO},)) is None
    assert wider({"x": torch.randn(2, 3)}, ({0: _rows()},)) is None
    found = wider(x, ({0: _rows(least=5), 1: None},))
    assert found is not None and found["x"].shape == (5, 1)


def test_a_size_that_the_model_fixes_is_still_said() -> None:
    with pytest.raises(sl.UserError, match="rows"):
        sl.compile(lambda x: x + torch.ones(2, 3), (torch.randn(1, 3),), dynamic_shapes=({0: _rows()},))
