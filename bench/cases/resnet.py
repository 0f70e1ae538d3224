# SPDX-License-Identifier: Apache-2.0
"""ResNet-18, where arithmetic decides."""

from __future__ import annotations

import torch
from straightline.bench.case import Bar, Case, Floor, Input
from straightline.demo_models import ResNet18
from torch import Tensor, nn


def resnet18() -> nn.Module:
    """Random weights, and batch norms that have seen something."""
    model = ResNet18()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.uniform_(-0.2, 0.2)
            module.running_var.uniform_(0.8, 1.2)
            with torch.no_grad():
                module.weight.uniform_(0.5, 1.0)
                module.bias.uniform_(-0.1, 0.1)
    return model


def _folded(model: ResNet18) -> list[Tensor]:
    """Weight and bias of each convolution with its batch norm in it, and of the last layer, as the floor takes them."""
    found: list[Tensor] = []

    def fold(conv: nn.Conv2d, norm: nn.BatchNorm2d) -> None:
        scale = norm.weight.double() / (norm.running_var.double() + norm.eps).sqrt()
        found.append((conv.weight.double() * scale[:, None, None, None]).float())
        found.append((norm.bias.double() - norm.running_mean.double() * scale).float())

    fold(model.conv1, model.bn1)
    for stage in (model.layer1, model.layer2, model.layer3, model.layer4):
        for block in stage:
            fold(block.conv1, block.bn1)
            fold(block.conv2, block.bn2)
            if isinstance(block.shortcut, nn.Sequential):
                fold(block.shortcut[0], block.shortcut[1])
    return [*found, model.fc.weight, model.fc.bias]


def _case(batch: int) -> Case:
    return Case(
        f"resnet18_b{batch}",
        f"ResNet-18, {batch} image{'s' if batch > 1 else ''} of 224 x 224?",
        resnet18,
        (Input((batch, 3, 224, 224)),),
        bars=(Bar("straightline", "peers", 0.55),),
        floor=Floor("resnet18.cpp", {"FLOOR_BATCH": batch}, parameters=_folded),
    )


CASES = (_case(1), _case(10))
