# SPDX-License-Identifier: Apache-2.0
"""ResNet-18, where arithmetic decides."""

from __future__ import annotations

import torch
from straightline.bench.case import Bar, Case, Input
from straightline.demo_models import ResNet18
from torch import nn


def _model() -> nn.Module:
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


def _case(batch: int) -> Case:
    return Case(
        f"resnet18_b{batch}",
        f"ResNet-18, {batch} image{'s' if batch > 1 else ''} of 224 x 224?",
        _model,
        (Input((batch, 3, 224, 224)),),
        bars=(Bar("straightline", "peers", 0.55),),
    )


CASES = (_case(1), _case(10))
