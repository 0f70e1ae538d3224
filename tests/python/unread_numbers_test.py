# SPDX-License-Identifier: Apache-2.0
"""Random numbers that nothing reads: whether a program draws them."""

from __future__ import annotations

import pytest
import torch
from straightline.capture.torch.functional import has_effect


@pytest.mark.parametrize(("home", "drawn"), [("cpu", True), ("meta", False)])
def test_only_those_of_the_models_device(home: str, drawn: bool) -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.empty(2, device=home)
    numbers = graph.call_function(torch.ops.aten.rand.default, ([],), {"device": torch.device("cpu")})
    numbers.meta["val"] = torch.empty([])
    assert has_effect(numbers) == drawn


def test_a_check_elsewhere_stays() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.empty(2, device="meta")
    check = graph.call_function(torch.ops.aten._assert_async.msg, (x, "no"))
    assert has_effect(check)
