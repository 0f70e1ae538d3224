# SPDX-License-Identifier: Apache-2.0
"""Whole models through torch.compile, with live and with frozen parameters, at a second batch size."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import straightline as sl
import torch
from against_eager import tensors
from straightline.testing.models.cases import ALL, settled

_HEAVY = ("resnet-18 10",)


@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize("name", [name for name in ALL if name not in _HEAVY])
def test_model(name: str, freeze: bool) -> None:
    if freeze and name == "resnet-18 1":
        pytest.skip("its kernels are those of tests/run/models_test.py then")
    make, inputs, _ = ALL[name]
    model = settled(make())
    compiled = torch.compile(copy.deepcopy(model), backend="straightline", options={"freeze": freeze})
    with torch.no_grad():
        for args in (inputs(), inputs()):
            same(compiled, model, args)
    assert sl.programs(compiled) or name in ("lstm", "gru")  # Dynamo leaves recurrent layers of torch out
    assert all(program.specialized == "" for program in sl.programs(compiled))


def same(compiled: Any, model: Any, args: tuple[Any, ...]) -> None:
    got, want = compiled(*copy.deepcopy(args)), model(*args)
    for ours, theirs in zip(tensors(got), tensors(want), strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        scale = max(theirs.abs().max().item(), 1.0) if theirs.is_floating_point() and theirs.numel() else 1.0
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=2e-5 * scale)


#: Models whose first input has a batch dim alone.
_BATCHES = ("mlp 32", "digits cnn 16", "mobilenet", "vit", "unet, bilinear", "convnext", "audio", "detection")


@pytest.mark.parametrize("name", _BATCHES)
def test_other_batches(name: str) -> None:
    make, inputs, _ = ALL[name]
    model = settled(make())
    compiled = torch.compile(copy.deepcopy(model), backend="straightline")
    with torch.no_grad():
        for rows in (2, 3, 5, 4, 1):
            (x,) = inputs()
            same(compiled, model, (torch.randn(rows, *x.shape[1:]),))
    assert 2 <= len(sl.programs(compiled)) <= 3
