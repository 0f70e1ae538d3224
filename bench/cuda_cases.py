# SPDX-License-Identifier: Apache-2.0
"""Small models for a GPU, with the number of kernels that they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from straightline.bench.case import Case, Input
from straightline.testing.models.small import ReshapeAdd, SingleAdd
from torch import nn

from bench.cases.models import (
    Chain,
    DecodeStep,
    EncoderLayer,
    Mlp,
    NormGelu,
    ReshapeMix,
)


def _half(model: Callable[[], nn.Module]) -> nn.Module:
    return model().to(torch.bfloat16)


_MLP = partial(Mlp, (256,) * 9, True)

#: One kernel each.

CUDA_CASES = (
    Case("single_add", "one add", SingleAdd, (Input((2, 3)), Input((2, 3)))),
    Case("reshape_add", "an add over rows", ReshapeAdd, (Input((8, 16, 8, 8)), Input((1024,)))),
    Case("reshape_mix", "five small ops over rows", ReshapeMix, (Input((8, 16, 16)), Input((256,)))),
    Case("norm_gelu", "layer norm, GELU, residual", NormGelu, (Input((16, 1024)),)),
)

#: Sequences of kernels, with how many kernels there are; None: the number that `explain` shows.
CUDA_CHAINS: tuple[tuple[Case, int | None], ...] = (
    (Case("mlp_8x256", "8 x (linear 256, relu), one row", _MLP, (Input((1, 256)),)), 8),
    (Case("mlp_8x256_bf16", "the same in bfloat16", partial(_half, _MLP), (Input((1, 256), "bfloat16"),)), 8),
    *((Case(f"chain_{n}", f"{n} x (linear 16, relu), 4 rows", partial(Chain, n), (Input((4, 16)),)), n) for n in (1, 20, 100)),
    (Case("encoder", "a transformer encoder layer", partial(EncoderLayer, 512, 8, 2048), (Input((1, 128, 512)),)), None),
    (
        Case("encoder_bf16", "the same in bfloat16", partial(_half, partial(EncoderLayer, 512, 8, 2048)),
             (Input((1, 128, 512), "bfloat16"),)),
        None,
    ),
    (
        Case("decode_layer_bf16", "a layer of a language model at one token", partial(_half, DecodeStep),
             (Input((1, 1, 1024), "bfloat16"),)),
        None,
    ),
)  # fmt: skip
