# SPDX-License-Identifier: Apache-2.0
"""Small models that are one kernel on a GPU."""

from __future__ import annotations

from straightline.bench.case import Case, Input

from bench.cases.models import NormGelu, ReshapeAdd, ReshapeMix, SingleAdd

CUDA_CASES = (
    Case("single_add", "one add", SingleAdd, (Input((2, 3)), Input((2, 3)))),
    Case("reshape_add", "an add over rows", ReshapeAdd, (Input((8, 16, 8, 8)), Input((1024,)))),
    Case("reshape_mix", "five small ops over rows", ReshapeMix, (Input((8, 16, 16)), Input((256,)))),
    Case("norm_gelu", "layer norm, GELU, residual", NormGelu, (Input((16, 1024)),)),
)
