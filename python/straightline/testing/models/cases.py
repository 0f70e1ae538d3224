# SPDX-License-Identifier: Apache-2.0
"""The models that programs are held against eager with: those that the issues name, and models as people have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from straightline.demo_models import DigitsCnn, ResNet18
from straightline.testing.models.audio import AudioNet
from straightline.testing.models.bert import Bert
from straightline.testing.models.bert_layer import BertLayer, EncoderLayer
from straightline.testing.models.convnext import ConvNext
from straightline.testing.models.decoder import Decoder
from straightline.testing.models.detection import Detector
from straightline.testing.models.dlrm import Dlrm
from straightline.testing.models.gpt2 import Gpt2
from straightline.testing.models.graph import GraphNet
from straightline.testing.models.mixture import Mixture
from straightline.testing.models.mobilenet import MobileNet
from straightline.testing.models.recurrent import TwoLayerGru, TwoLayerLstm
from straightline.testing.models.small import Mlp, ReshapeAdd, RmsNorm, SingleAdd
from straightline.testing.models.unet import UNet
from straightline.testing.models.vit import VisionTransformer

Inputs = Callable[[], tuple[Tensor, ...]]


class ModelCase(NamedTuple):
    """How to make the model and its inputs, and which ops of torch it needs."""

    make: Callable[[], nn.Module]
    inputs: Inputs
    ops_of_torch: tuple[str, ...] = ()


def ids(words: int, *shape: int) -> Tensor:
    """Random numbers of words."""
    return torch.randint(0, words, shape)


def segments_and_mask() -> tuple[Tensor, Tensor]:
    """For two sentences of 12 and 9 words."""
    mask = torch.ones(2, 12, dtype=torch.int64)
    mask[1, 9:] = 0
    return ids(2, 2, 12), mask


def bert_inputs() -> tuple[Tensor, Tensor]:
    mask = torch.ones(2, 24, dtype=torch.int64)
    mask[1, 17:] = 0
    return torch.randn(2, 24, 64), mask


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


#: By the name of the issue's list.
NAMED: dict[str, ModelCase] = {
    "single add": ModelCase(SingleAdd, lambda: (torch.randn(2, 3), torch.randn(2, 3))),
    "reshape and add": ModelCase(ReshapeAdd, lambda: (torch.randn(8, 16, 8, 8), torch.randn(1024))),
    "mlp 1": ModelCase(Mlp, lambda: (torch.randn(1, 64),)),
    "mlp 32": ModelCase(Mlp, lambda: (torch.randn(32, 64),)),
    "wide mlp 1": ModelCase(lambda: Mlp((512, 1024, 512, 10)), lambda: (torch.randn(1, 512),)),
    "rms norm": ModelCase(RmsNorm, lambda: (torch.randn(5, 32),)),
    "digits cnn": ModelCase(DigitsCnn, lambda: (torch.randn(1, 1, 8, 8),)),
    "digits cnn 16": ModelCase(DigitsCnn, lambda: (torch.randn(16, 1, 8, 8),)),
    "bert layer": ModelCase(BertLayer, bert_inputs),
    "encoder layer": ModelCase(EncoderLayer, lambda: (torch.randn(1, 32, 256),)),
    "resnet-18 1": ModelCase(ResNet18, lambda: (torch.randn(1, 3, 224, 224),)),
    "resnet-18 10": ModelCase(ResNet18, lambda: (torch.randn(10, 3, 224, 224),)),
}  # fmt: skip

#: Whole ones, small.
WHOLE: dict[str, ModelCase] = {
    "mobilenet": ModelCase(MobileNet, lambda: (torch.randn(1, 3, 64, 64),)),
    "lstm": ModelCase(TwoLayerLstm, lambda: (torch.randn(2, 7, 12),)),
    "gru": ModelCase(TwoLayerGru, lambda: (torch.randn(2, 7, 12), torch.randn(2, 2, 24))),
    "bert": ModelCase(Bert, lambda: (ids(100, 2, 12), *segments_and_mask())),
    "vit": ModelCase(VisionTransformer, lambda: (torch.randn(2, 3, 32, 32),)),
    "decoder, 16 tokens": ModelCase(Decoder, lambda: (ids(96, 1, 16), torch.arange(16))),
    "decoder, 1 token": ModelCase(Decoder, lambda: (ids(96, 1, 1), torch.randint(1, 48, (1,)))),
    "gpt2": ModelCase(Gpt2, lambda: (ids(96, 2, 14),)),
    "unet, nearest": ModelCase(UNet, lambda: (torch.randn(1, 3, 32, 32),)),
    "unet, bilinear": ModelCase(lambda: UNet(up="bilinear"), lambda: (torch.randn(1, 3, 32, 32),)),
    "unet, transposed": ModelCase(lambda: UNet(up="transposed"), lambda: (torch.randn(1, 3, 32, 32),)),
    "dlrm": ModelCase(Dlrm, lambda: (torch.randn(4, 13), ids(50, 4, 5), ids(50, 4, 4)), ("_embedding_bag",)),
    "graph": ModelCase(GraphNet, lambda: (torch.randn(9, 6), ids(9, 2, 20), torch.rand(20))),
    "audio": ModelCase(AudioNet, lambda: (torch.randn(1, 1, 256),)),
    "convnext": ModelCase(ConvNext, lambda: (torch.randn(1, 3, 32, 32),)),
    "mixture": ModelCase(Mixture, lambda: (torch.randn(5, 24),)),
    "mixture, best two": ModelCase(lambda: Mixture(best=2), lambda: (torch.randn(5, 24),)),
    "detection": ModelCase(Detector, lambda: (torch.randn(2, 3, 32, 32),)),
}  # fmt: skip

ALL = {**NAMED, **WHOLE}
