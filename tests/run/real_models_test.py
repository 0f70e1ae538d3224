# SPDX-License-Identifier: Apache-2.0
"""Models as people have them, each against eager: on one thread and two, in float32 and where sensible in other dtypes."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
from straightline.testing.models.cases import WHOLE, ids, settled
from straightline.testing.models.decoder import Decoder
from policy import check, check_call, launches, reference_of
from statements import families_of
from torch import Tensor

import straightline as sl


def ops_of_torch(compiled: Any) -> set[str]:
    """The names of the ops that run through `aten`, in either phase."""
    rows = compiled.explain().statements
    return {row["op"].split(".")[1] for row in rows if row["backend"] == "aten"}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", WHOLE)
def test_float32(name: str, threads: int) -> None:
    make, inputs, tail = WHOLE[name]
    compiled = check(settled(make()), inputs(), calls=[inputs()], threads=threads)
    assert ops_of_torch(compiled) == set(tail), compiled.explain()


@pytest.mark.parametrize("name", ["mobilenet", "lstm", "bert", "gpt2", "audio", "graph", "detection"])
def test_float64(name: str) -> None:
    make, inputs, _ = WHOLE[name]
    converted = tuple(x.double() if x.is_floating_point() else x for x in inputs())
    check(settled(make()).double(), converted)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["vit", "decoder, 16 tokens", "gpt2", "mobilenet", "mixture"])
def test_half(name: str, dtype: torch.dtype) -> None:
    """All native: arithmetic is done in float32."""
    make, inputs, _ = WHOLE[name]
    converted = tuple(x.to(dtype) if x.is_floating_point() else x for x in inputs())
    compiled = check(settled(make()).to(dtype), converted)
    assert not ops_of_torch(compiled), compiled.explain()


# Decoding -------------------------------------------------------------------------------------------------------------


@torch.no_grad()
def generate(prompt_step: Callable[..., Tensor], step: Callable[..., Tensor], prompt: Tensor, count: int) -> list[int]:
    """Greedy: the prompt at once, then a token a call."""
    words = [int(prompt_step(prompt, torch.arange(prompt.shape[1])).argmax(-1))]
    while len(words) < count:
        at = torch.tensor([prompt.shape[1] + len(words) - 1])
        words.append(int(step(torch.tensor([[words[-1]]]), at).argmax(-1)))
    return words


def test_greedy_generation() -> None:
    """Twenty tokens as eager gives them, from a program for the prompt and one for a token over one module's cache."""
    model = Decoder().eval()
    eager = copy.deepcopy(model)
    prompt = ids(96, 1, 16)
    caches = {name: buffer.data_ptr() for name, buffer in model.named_buffers()}
    prefill = sl.compile(model, (prompt, torch.arange(16)))
    step = sl.compile(model, (prompt[:, :1], torch.tensor([16])))
    for layer in model.layers:
        layer.attention.keys.zero_()
        layer.attention.values.zero_()
    assert generate(prefill, step, prompt, 20) == generate(eager, eager, prompt, 20)
    for (name, ours), theirs in zip(model.named_buffers(), eager.buffers(), strict=True):
        assert ours.data_ptr() == caches[name]
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("tokens", [16, 1])
def test_the_cache_is_updated_in_place(tokens: int) -> None:
    """Of all statements only the writes of new rows and attention touch anything of a cache's size."""
    model = Decoder(longest=1024).eval()
    compiled = sl.compile(model, (ids(96, 1, tokens), torch.arange(tokens)))
    size = model.layers[0].attention.keys.nbytes
    large = [families_of([row]) for row in launches(compiled) if row["bytes"] >= size]
    if os.environ.get(
        "STRAIGHTLINE_TEST_DEVICE"
    ):  # where kernels that write rows are launched with others, or write more
        tables = [families for families in large if set(families) == {"gather_rows"}]  # of positions
        writes = [families for families in large if "scatter_rows" in families]
        assert large.count(["attention"]) == 2 and len(writes) >= 2, large
        assert len(tables) + len(writes) + 2 == len(large), large
    else:
        assert sorted(large) == [["attention"]] * 2 + [["scatter_rows"]] * 4, large
    assert "kernel.copy" not in compiled.ir("kernel")


def test_an_index_outside_the_cache() -> None:
    model = Decoder(longest=8).eval()
    compiled = sl.compile(model, (ids(96, 1, 1), torch.tensor([3])))
    with pytest.raises(IndexError, match=r"index 8 is out of range \[0, 8\)"):
        compiled(ids(96, 1, 1), torch.tensor([8]))
    check_call(compiled, copy.deepcopy(model), reference_of(model), (ids(96, 1, 1), torch.tensor([5])))
