# SPDX-License-Identifier: Apache-2.0
"""`with_lora`: W + scale * (B @ A), over the same program."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import pytest
import straightline as sl
import torch
from torch import nn


def _merged(model: nn.Module, adapters: dict) -> nn.Module:
    other = copy.deepcopy(model)
    with torch.no_grad():
        for name, (a, b, scale) in adapters.items():
            weight = other.get_parameter(name)
            wide = torch.float64 if weight.dtype == torch.float64 else torch.float32
            weight.copy_(weight.to(wide) + scale * (b.to(wide) @ a.to(wide)).reshape(weight.shape))
    return other


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("saved", [False, True])
def test_adapters(dtype: torch.dtype, saved: bool, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).eval().to(dtype)
    x = torch.randn(2, 16, dtype=dtype)
    fn = sl.compile(model, (x,))
    if saved:
        fn.save(tmp_path / "m.sl", ("host",))
        fn = sl.load(tmp_path / "m.sl")
    before = fn(x)
    adapters = {
        "0.weight": (torch.randn(4, 16), torch.randn(32, 4), 0.25),
        "2.weight": (torch.randn(2, 32), torch.randn(4, 2), -1),
    }
    adapted = fn.with_lora(adapters)
    expected = fn.with_parameters(_merged(model, adapters).state_dict())(x)
    assert torch.equal(adapted(x), expected)
    assert torch.equal(fn(x), before)
    twice = adapted.with_lora({"0.weight": (adapters["0.weight"][0], adapters["0.weight"][1], -0.25)})
    only = fn.with_lora({"2.weight": adapters["2.weight"]})
    if dtype != torch.bfloat16:  # each of its deltas is rounded
        torch.testing.assert_close(twice(x), only(x), rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_convolutions_and_numpy() -> None:
    model = nn.Conv2d(3, 8, 3).eval().to(memory_format=torch.channels_last)
    x = torch.randn(1, 3, 6, 6)
    fn = sl.compile(model, (x,))
    adapters = {"weight": (torch.randn(2, 27), torch.randn(8, 2), 0.5)}
    torch.testing.assert_close(fn.with_lora(adapters)(x), _merged(model, adapters)(x), rtol=1e-4, atol=1e-4)
    arrays = {
        "weight": tuple(part.cpu().numpy() if isinstance(part, torch.Tensor) else part for part in adapters["weight"])
    }
    torch.testing.assert_close(fn.with_lora(arrays)(x), _merged(model, adapters)(x), rtol=1e-4, atol=1e-4)


def test_tied_names() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(7, 5)
            self.head = nn.Linear(5, 7, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, i: torch.Tensor) -> torch.Tensor:
            return self.head(self.embed(i))

    model, i = Tied().eval(), torch.tensor([1, 4])
    fn = sl.compile(model, (i,))
    delta = (torch.randn(2, 5), torch.randn(7, 2), 1.0)
    with torch.no_grad():
        expected = _merged(model, {"embed.weight": delta})(i)
    for name in ("embed.weight", "head.weight"):
        torch.testing.assert_close(fn.with_lora({name: delta})(i), expected, rtol=1e-4, atol=1e-4)


def test_bad_adapters() -> None:
    x = torch.randn(2, 16)
    fn = sl.compile(nn.Linear(16, 32).eval(), (x,))
    a, b = torch.randn(4, 16), torch.randn(32, 4)
    with pytest.raises(sl.UserError) as caught:
        fn.with_lora({"weigth": (a, b, 1), "weight": (b, a, 1), "bias": (a, b, 1)})
    for words in (
        "'weigth' is no parameter of the model (it has 'weight')",
        "A [r, 16] and B [32, r]",
        "'bias': it has shape [32]",
    ):
        assert words in str(caught.value)
    for given, words in (
        ([1], "adapters is a list but must be a dict"),
        ({"weight": (a, b)}, "'weight' has (Tensor[4, 16], Tensor[32, 4]) but must have (A, B, scale)"),
        ({"weight": 3}, "'weight' has 3 but must have (A, B, scale)"),
        ({"weight": (a, b, "half")}, "'weight' has the scale 'half' but it must be a number"),
        ({"weight": (a, b, torch.ones(2))}, "'weight' has the scale Tensor[2] but it must be a number"),
    ):
        with pytest.raises(sl.UserError, match=re.escape(words)):
            fn.with_lora(given)
    assert torch.isfinite(fn(x)).all()
