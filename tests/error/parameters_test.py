# SPDX-License-Identifier: Apache-2.0
"""State dicts that do not fit, and parameters that change behind a program's back."""

from __future__ import annotations

import contextlib

from typing import Any

import pytest
import straightline as sl
import torch
from torch import nn

X = torch.randn(3, 6)


def pair(**options: Any) -> tuple[nn.Module, Any]:
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4)).eval()
    return model, sl.compile(model, (X,), **options)


class Weight(torch.Tensor):
    pass


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a size": ({"0.weight": torch.zeros(7, 6)}, r"'0\.weight' is float32\[7, 6\] but float32\[5, 6\] was compiled"),
    "a rank": ({"0.bias": torch.zeros(5, 1)}, r"'0\.bias' is float32\[5, 1\] but float32\[5\] was compiled"),
    "a dtype": ({"0.bias": torch.zeros(5).double()}, r"'0\.bias' is float64\[5\] but float32\[5\] was compiled"),
    "a memory format": ({"0.weight": torch.zeros(6, 5).t()}, r"'0\.weight' has strides \(1, 5\) but \(6, 1\) was compiled"),
    "no data": ({"0.bias": torch.zeros(5, device="meta")}, r"'0\.bias' is on device 'meta'"),
    "sparse": ({"0.weight": torch.zeros(5, 6).to_sparse()}, r"'0\.weight' has the sparse layout"),
    "a subclass": ({"0.bias": torch.zeros(5).as_subclass(Weight)}, r"'0\.bias' is a Weight, a subclass of torch\.Tensor"),
    "a list": ({"0.bias": [0.0] * 5}, r"'0\.bias' must be a tensor but is a list"),
    "None": ({"0.bias": None}, r"'0\.bias' must be a tensor but is a NoneType"),
    "a number": ({"0.bias": 1.0}, r"'0\.bias' must be a tensor but is a float"),
    "unknown": ({"0.wieght": torch.zeros(5, 6)}, r"unknown: '0\.wieght' \(the module has '0\.weight'\)"),
    "a name that is none": ({3: torch.zeros(5, 6)}, r"unknown: 3"),
}  # fmt: skip


@pytest.mark.parametrize("freeze", [True, False])
@pytest.mark.parametrize("name", WRONG)
def test_an_entry_that_does_not_fit(name: str, freeze: bool) -> None:
    model, compiled = pair(freeze=freeze)
    before, parameters = compiled(X), compiled.parameters()
    changed, words = WRONG[name]
    other = {key: torch.zeros_like(tensor) for key, tensor in model.state_dict().items()}
    for load in (compiled.load_parameters, compiled.with_parameters):
        with pytest.raises(sl.UserError, match=words):
            load({**other, **changed})
    assert torch.equal(compiled(X), before)
    assert all(t.data_ptr() == parameters[n].data_ptr() for n, t in compiled.parameters().items())
    compiled.load_parameters(other)
    assert torch.equal(compiled(X), torch.zeros(3, 4))


def test_everything_is_named_at_once() -> None:
    model, compiled = pair()
    state = dict(model.state_dict())
    del state["0.bias"]
    state["2.weight"] = torch.zeros(9, 9)
    state["extra"] = torch.zeros(1)
    state["2.bias"] = "nothing"  # type: ignore[assignment]
    with pytest.raises(sl.UserError) as caught:
        compiled.load_parameters(state)
    lines = str(caught.value).splitlines()
    assert len(lines) == 5 and "stay as they were" in lines[0]
    for part in (
        "unknown: 'extra'",
        "missing: '0.bias' (float32[5])",
        "'2.weight' is float32[9, 9]",
        "'2.bias' must be a tensor",
    ):
        assert any(part in line for line in lines[1:]), part


def test_what_is_no_state_dict() -> None:
    model, compiled = pair()
    for given in (model, list(model.state_dict().items()), None, torch.zeros(3)):
        with pytest.raises(sl.UserError, match="expected a mapping of names to tensors but got a"):
            compiled.load_parameters(given)
    with pytest.raises(sl.UserError, match=r"give module\.state_dict\(\)"):
        compiled.load_parameters(model)


def test_tied_parameters_that_differ() -> None:
    model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6))
    model[1].weight = model[0].weight
    compiled = sl.compile(model, (X,))
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state["1.weight"] += 1
    with pytest.raises(sl.UserError, match=r"'0\.weight' and '1\.weight' are one tensor in the module but differ"):
        compiled.load_parameters(state)
    del state["0.weight"], state["1.weight"]
    with pytest.raises(sl.UserError, match=r"missing: '0\.weight' \(float32\[6, 6\], tied to '1\.weight'\)"):
        compiled.load_parameters(state)


@pytest.mark.parametrize("freeze", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_storage_cannot_be_resized_behind_our_back(freeze: bool, dtype: torch.dtype) -> None:
    """It would free what a live program reads, so torch refuses, at the place that tries; a frozen one has copies."""
    model = nn.LayerNorm(6).to(dtype)
    x = X.to(dtype)
    compiled = sl.compile(model, (x,), freeze=freeze)
    before = compiled(x)
    for resize in (
        lambda: model.weight.untyped_storage().resize_(0),
        lambda: model.weight.untyped_storage().resize_(1 << 20),
        lambda: model.weight.data.resize_(1000),
    ):
        with contextlib.suppress(RuntimeError) if freeze else pytest.raises(RuntimeError, match="not resizable"):
            resize()
        assert torch.equal(compiled(x), before)


def test_a_live_parameter_of_another_size() -> None:
    model, compiled = pair(freeze=False)
    own = model[0].weight.data
    before = compiled(X)
    for data, words in (
        (torch.zeros(50, 6), r"parameter '0\.weight' has size 50 in dim 0 but 5 was compiled"),
        (torch.zeros(5), r"parameter '0\.weight' has rank 1 but 2 was compiled"),
        (torch.zeros(6, 5).t(), r"parameter '0\.weight' has stride 5 in dim 1 but 1 was compiled"),
        (own.double(), r"parameter '0\.weight' has dtype float64 but float32 was compiled"),
        (own[:3], r"parameter '0\.weight' has size 3 in dim 0 but 5 was compiled"),
    ):
        model[0].weight.data = data
        for _ in range(2):
            with pytest.raises(sl.UserError, match=words):
                compiled(X)
        model[0].weight.data = own
        assert torch.equal(compiled(X), before)


def test_a_frozen_parameter_of_another_size() -> None:
    """The program keeps what it was given, whatever the module's parameter becomes."""
    model, compiled = pair()
    before = compiled(X)
    model[0].weight.data = torch.zeros(50, 6)
    assert torch.equal(compiled(X), before)
    with pytest.raises(sl.UserError, match=r"'0\.weight' is float32\[50, 6\]"):
        compiled.load_parameters(model.state_dict())
    assert torch.equal(compiled(X), before)
