# SPDX-License-Identifier: Apache-2.0
"""What is compared: the models that the first version promises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from straightline.demo_models import DigitsCnn, ResNet18
from torch import Tensor, nn


@dataclass(frozen=True)
class Case:
    """A model and its inputs.

    Attributes:
        name: As in the table.
        make: Makes the model (in eval mode) and its inputs from torch's seed.
        images: Its input is an image, for which eager may prefer channels last.
    """

    name: str
    make: Callable[[], tuple[nn.Module, tuple[Tensor, ...]]]
    images: bool = False


class Add(nn.Module):
    """a + b."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Returns the sum."""
        return a + b


class ReshapeAdd(nn.Module):
    """x as rows, plus b."""

    def forward(self, x: Tensor, b: Tensor) -> Tensor:
        """Returns [n, elements of a row]."""
        return x.reshape(x.shape[0], -1) + b


def _mlp() -> nn.Module:
    return nn.Sequential(
        nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)
    )


def _encoder() -> nn.Module:
    return nn.TransformerEncoderLayer(
        256, 4, 1024, dropout=0.0, batch_first=True, norm_first=True, activation="gelu"
    )


def _case(name: str, model: Callable[[], nn.Module], *shapes: tuple[int, ...], **options: Any) -> Case:
    return Case(name, lambda: (model().eval(), tuple(torch.randn(shape) for shape in shapes)), **options)


CASES = (
    _case("add [2, 3]", Add, (2, 3), (2, 3)),
    _case("reshape + add [8, 16, 8, 8]", ReshapeAdd, (8, 16, 8, 8), (1024,)),
    _case("mlp 64-64-64-10, batch 1", _mlp, (1, 64)),
    _case("mlp 64-64-64-10, batch 32", _mlp, (32, 64)),
    _case("digits cnn, batch 1", DigitsCnn, (1, 1, 8, 8), images=True),
    _case("digits cnn, batch 32", DigitsCnn, (32, 1, 8, 8), images=True),
    _case("resnet18, batch 1", ResNet18, (1, 3, 224, 224), images=True),
    _case("resnet18, batch 10", ResNet18, (10, 3, 224, 224), images=True),
    _case("encoder layer 256, 16 tokens", _encoder, (1, 16, 256)),
)
