# SPDX-License-Identifier: Apache-2.0
"""Single linear layers over a grid of sizes: `--group linears`."""

from __future__ import annotations

from functools import partial

from straightline.bench.case import Bar, Case, Input
from torch import nn

_SIZES = (64, 256, 1024, 4096)


def _linear(m: int, k: int, n: int) -> Case:
    return Case(
        f"linear_{m}x{k}x{n}",
        f"a linear layer {k} -> {n} for {m} row{'s' if m > 1 else ''}?",
        partial(nn.Linear, k, n),
        (Input((m, k)),),
        group="linears",
        bars=(Bar("straightline", "peers", 1.05, by_interval=True),),
    )


CASES = tuple(_linear(m, k, n) for m in (1, 4, 16, 64) for k in _SIZES for n in _SIZES)
