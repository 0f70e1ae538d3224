# SPDX-License-Identifier: Apache-2.0
"""Every model that the issue names, in float32, against eager."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import nn
from straightline.testing.models.bert_layer import EncoderLayer
from straightline.testing.models.cases import NAMED, settled
from straightline.testing.models.small import SingleAdd
from policy import OWN_BACKEND, check, launches
from straightline.demo_models import ResNet18


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", NAMED)
def test_model(name: str, threads: int) -> None:
    make, inputs, _ = NAMED[name]
    compiled = check(settled(make()), inputs(), calls=[inputs()], threads=threads)
    assert compiled.explain()["threads"] == threads


def test_default_threads() -> None:
    """Without `threads` a small model keeps to the caller's thread."""
    assert check(SingleAdd(), (torch.randn(2, 3), torch.randn(2, 3))).explain()["threads"] == 1


def test_resnet_has_nothing_between_its_layers() -> None:
    """20 convolutions, pool, mean and linear, the input's reorder, and zeros around what convolutions read; no more.

    On a CPU the first convolution and the pool come band by band of rows.
    """
    compiled = check(settled(ResNet18()), (torch.randn(1, 3, 224, 224),), threads=1)
    rows = launches(compiled)
    ops = Counter(row["op"].split(", ")[0] for row in rows)
    reorders = [row for row in rows if row["op"] in ("copy", "reorder") or row["kernel"].startswith("copy")]
    more = ops.pop("rows of the band before", 0)
    assert ops.pop("convolution") == 20 + more
    ops.pop("zero border", None)
    assert len(reorders) <= 1, [row["why"] for row in reorders]
    assert ops.pop("reorder", 0) == len(reorders)
    assert ops in ({"max_pool2d": 1 + more, mean: 1, "linear": 1} for mean in ("sum", "mean")), ops
    # Each addition and each relu stands in a convolution's epilogue.
    assert sum("relu" in row["op"] for row in rows if row["op"].startswith("convolution")) == 17 + more
    assert sum("add" in row["op"] for row in rows if row["op"].startswith("convolution")) >= 8
    text = compiled.ir("kernel")
    assert "kernel.copy" not in text and "batch_norm" not in text


def test_encoder_layers_are_few_kernels() -> None:
    """Norms, softmax, gelu and residuals stand in the kernels around them or in one pass of their own.

    Linear layers are our own kernels here: those of oneDNN and cuBLASLt have no such epilogue.
    """
    compiled = check(EncoderLayer().eval(), (torch.randn(1, 32, 256),), threads=1, routes={"linear": OWN_BACKEND})
    rows: list[Any] = launches(compiled)
    assert sum("linear" in row["op"] for row in rows) == 4, [row["op"] for row in rows]
    assert len(rows) <= 16, [(row["op"], row["why"]) for row in rows]


@pytest.mark.parametrize("masks", ["mask", "both", "causal"])
def test_layers_of_torch_transformers(masks: str) -> None:
    """A mask whose values nn.Transformer looks at, to find out whether it is the causal one."""
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2).eval()
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    padding = torch.zeros(2, 5, dtype=torch.bool)
    padding[0, 3:] = True
    given: dict[str, dict[str, Any]] = {
        "mask": {"mask": causal.flip(0).flip(1)}, "both": {"mask": causal, "src_key_padding_mask": padding},
        "causal": {"mask": causal, "is_causal": True},
    }  # fmt: skip
    check(encoder, (torch.randn(2, 5, 16),), given[masks])
    whole = nn.Transformer(16, 2, 1, 1, 32, batch_first=True).eval()
    check(whole, (torch.randn(2, 4, 16), torch.randn(2, 5, 16)), {"tgt_mask": causal})
