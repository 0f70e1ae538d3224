# SPDX-License-Identifier: Apache-2.0
"""Every model that the issue names, in float32, against eager."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from models.bert_layer import BertLayer, EncoderLayer
from straightline.demo_models import DigitsCnn
from straightline.demo_models import ResNet18
from models.small import Mlp, ReshapeAdd, RmsNorm, SingleAdd
from policy import check, launches
from torch import Tensor, nn

Case = tuple[nn.Module, Callable[[], tuple[Tensor, ...]]]


def settled(model: nn.Module) -> nn.Module:
    """The model in eval mode, its batch norms with statistics that are not the identity."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            with torch.no_grad():
                module.running_mean.normal_(0, 0.1)
                module.running_var.uniform_(0.5, 1.5)
                module.weight.uniform_(0.5, 1.5)
                module.bias.normal_(0, 0.1)
    return model.eval()


def bert_inputs() -> tuple[Tensor, Tensor]:
    mask = torch.ones(2, 24, dtype=torch.int64)
    mask[1, 17:] = 0
    return torch.randn(2, 24, 64), mask


CASES: dict[str, Callable[[], Case]] = {
    "single add": lambda: (SingleAdd(), lambda: (torch.randn(2, 3), torch.randn(2, 3))),
    "reshape and add": lambda: (ReshapeAdd(), lambda: (torch.randn(8, 16, 8, 8), torch.randn(1024))),
    "mlp 1": lambda: (Mlp(), lambda: (torch.randn(1, 64),)),
    "mlp 32": lambda: (Mlp(), lambda: (torch.randn(32, 64),)),
    "wide mlp 1": lambda: (Mlp((512, 1024, 512, 10)), lambda: (torch.randn(1, 512),)),
    "rms norm": lambda: (RmsNorm(), lambda: (torch.randn(5, 32),)),
    "digits cnn": lambda: (DigitsCnn(), lambda: (torch.randn(1, 1, 8, 8),)),
    "digits cnn 16": lambda: (DigitsCnn(), lambda: (torch.randn(16, 1, 8, 8),)),
    "bert layer": lambda: (BertLayer(), bert_inputs),
    "encoder layer": lambda: (EncoderLayer(), lambda: (torch.randn(1, 32, 256),)),
    "resnet-18 1": lambda: (ResNet18(), lambda: (torch.randn(1, 3, 224, 224),)),
    "resnet-18 10": lambda: (ResNet18(), lambda: (torch.randn(10, 3, 224, 224),)),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_model(name: str, threads: int) -> None:
    model, inputs = CASES[name]()
    compiled = check(settled(model), inputs(), calls=[inputs()], threads=threads)
    assert compiled.explain()["threads"] == threads


def test_default_threads() -> None:
    """Without `threads` a small model keeps to the caller's thread."""
    assert check(SingleAdd(), (torch.randn(2, 3), torch.randn(2, 3))).explain()["threads"] == 1


def test_resnet_has_nothing_between_its_layers() -> None:
    """20 convolutions, pool, mean and linear, the input's reorder, and zeros around what convolutions read; no more."""
    compiled = check(settled(ResNet18()), (torch.randn(1, 3, 224, 224),), threads=1)
    rows = launches(compiled)
    ops = Counter(row["op"].split(", ")[0] for row in rows)
    reorders = [row for row in rows if row["op"] in ("copy", "reorder") or row["kernel"].startswith("copy")]
    assert ops.pop("convolution") == 20
    ops.pop("zero border", None)
    assert len(reorders) <= 1, [row["why"] for row in reorders]
    assert ops.pop("reorder", 0) == len(reorders)
    assert ops == {"max_pool2d": 1, "sum": 1, "linear": 1} or ops == {"max_pool2d": 1, "mean": 1, "linear": 1}, ops
    # Each addition and each relu stands in a convolution's epilogue.
    assert sum("relu" in row["op"] for row in rows if row["op"].startswith("convolution")) == 17
    assert sum("add" in row["op"] for row in rows if row["op"].startswith("convolution")) >= 8
    text = compiled.ir("kernel")
    assert "kernel.copy" not in text and "batch_norm" not in text


def test_encoder_layers_are_few_kernels() -> None:
    """Norms, softmax, gelu and residuals stand in the kernels around them or in one pass of their own."""
    compiled = check(EncoderLayer().eval(), (torch.randn(1, 32, 256),), threads=1)
    rows: list[Any] = launches(compiled)
    assert sum("linear" in row["op"] for row in rows) == 4, [row["op"] for row in rows]
    assert len(rows) <= 16, [(row["op"], row["why"]) for row in rows]
