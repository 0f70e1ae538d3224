# SPDX-License-Identifier: Apache-2.0
"""Models as people have them, each against eager: on one thread and two, in float32 and where sensible in other dtypes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from models.audio import AudioNet
from models.bert import Bert
from models.convnext import ConvNext
from models.decoder import Decoder
from models.detection import Detector
from models.dlrm import Dlrm
from models.gpt2 import Gpt2
from models.graph import GraphNet
from models.mixture import Mixture
from models.mobilenet import MobileNet
from models.recurrent import TwoLayerGru, TwoLayerLstm
from models.unet import UNet
from models.vit import VisionTransformer
from policy import check, check_call, launches, reference_of
from torch import Tensor, nn

import straightline as sl

Inputs = Callable[[], tuple[Tensor, ...]]


def ids(words: int, *shape: int) -> Tensor:
    """Random numbers of words."""
    return torch.randint(0, words, shape)


def segments_and_mask() -> tuple[Tensor, Tensor]:
    """For two sentences of 12 and 9 words."""
    mask = torch.ones(2, 12, dtype=torch.int64)
    mask[1, 9:] = 0
    return ids(2, 2, 12), mask


#: Name -> how to make the model, its inputs, and which ops of torch it needs.
CASES: dict[str, tuple[Callable[[], nn.Module], Inputs, tuple[str, ...]]] = {
    "mobilenet": (MobileNet, lambda: (torch.randn(1, 3, 64, 64),), ()),
    "lstm": (TwoLayerLstm, lambda: (torch.randn(2, 7, 12),), ()),
    "gru": (TwoLayerGru, lambda: (torch.randn(2, 7, 12), torch.randn(2, 2, 24)), ()),
    "bert": (Bert, lambda: (ids(100, 2, 12), *segments_and_mask()), ()),
    "vit": (VisionTransformer, lambda: (torch.randn(2, 3, 32, 32),), ()),
    "decoder, 16 tokens": (Decoder, lambda: (ids(96, 1, 16), torch.arange(16)), ()),
    "decoder, 1 token": (Decoder, lambda: (ids(96, 1, 1), torch.randint(1, 48, (1,))), ()),
    "gpt2": (Gpt2, lambda: (ids(96, 2, 14),), ()),
    "unet, nearest": (UNet, lambda: (torch.randn(1, 3, 32, 32),), ()),
    "unet, bilinear": (lambda: UNet(up="bilinear"), lambda: (torch.randn(1, 3, 32, 32),), ("upsample_bilinear2d",)),
    "unet, transposed": (lambda: UNet(up="transposed"), lambda: (torch.randn(1, 3, 32, 32),), ()),
    "dlrm": (Dlrm, lambda: (torch.randn(4, 13), ids(50, 4, 5), ids(50, 4, 4)), ("_embedding_bag",)),
    "graph": (GraphNet, lambda: (torch.randn(9, 6), ids(9, 2, 20), torch.rand(20)), ("scatter_add",)),
    "audio": (AudioNet, lambda: (torch.randn(1, 1, 256),), ()),
    "convnext": (ConvNext, lambda: (torch.randn(1, 3, 32, 32),), ()),
    "mixture": (Mixture, lambda: (torch.randn(5, 24),), ()),
    "mixture, best two": (lambda: Mixture(best=2), lambda: (torch.randn(5, 24),), ("topk", "scatter")),
    "detection": (Detector, lambda: (torch.randn(2, 3, 32, 32),), ("topk",)),
}  # fmt: skip


def settled(model: nn.Module) -> nn.Module:
    """The model in eval mode, its batch norms with statistics that are not the identity."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            with torch.no_grad():
                module.running_mean.normal_(0, 0.1)
                module.running_var.uniform_(0.5, 1.5)
                module.weight.uniform_(0.5, 1.5)
                module.bias.normal_(0, 0.1)
    return model.eval()


def ops_of_torch(compiled: Any) -> set[str]:
    """The names of the ops that run through `aten`, in either phase."""
    rows = compiled.explain().statements
    return {row["op"].split(".")[1] for row in rows if row["backend"] == "aten"}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_float32(name: str, threads: int) -> None:
    make, inputs, tail = CASES[name]
    compiled = check(settled(make()), inputs(), calls=[inputs()], threads=threads)
    assert ops_of_torch(compiled) == set(tail), compiled.explain()


@pytest.mark.parametrize("name", ["mobilenet", "lstm", "bert", "gpt2", "audio", "graph", "detection"])
def test_float64(name: str) -> None:
    make, inputs, _ = CASES[name]
    converted = tuple(x.double() if x.is_floating_point() else x for x in inputs())
    check(settled(make()).double(), converted)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["vit", "decoder, 16 tokens", "gpt2", "mobilenet", "mixture"])
def test_half(name: str, dtype: torch.dtype) -> None:
    """All native: arithmetic is done in float32."""
    make, inputs, _ = CASES[name]
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
    large = [row for row in launches(compiled) if row["bytes"] >= size]
    assert sorted(row["family"] for row in large) == ["attention"] * 2 + ["scatter_rows"] * 4, large
    assert "kernel.copy" not in compiled.ir("kernel")


def test_an_index_outside_the_cache() -> None:
    model = Decoder(longest=8).eval()
    compiled = sl.compile(model, (ids(96, 1, 1), torch.tensor([3])))
    with pytest.raises(IndexError, match=r"index 8 is out of range \[0, 8\)"):
        compiled(ids(96, 1, 1), torch.tensor([8]))
    check_call(compiled, copy.deepcopy(model), reference_of(model), (ids(96, 1, 1), torch.tensor([5])))
