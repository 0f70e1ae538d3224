# SPDX-License-Identifier: Apache-2.0
"""What a call costs, and what one more op costs."""

from __future__ import annotations

from functools import partial

from straightline.bench.case import Bar, Case, Floor, Input
from straightline.testing.models.small import ReshapeAdd, SingleAdd

from .models import Chain, ReshapeMix

_PEERS = Bar("straightline", "peers", 0.8)
_CHAIN_BARS = {
    100: (
        _PEERS,
        Bar("straightline_c", "floor", 1.0),
        Bar("straightline_c", "aoti_boxed_c", 0.6),
        Bar("straightline", "aoti", 0.3),
    )
}


def _chain(n: int) -> Case:
    return Case(
        f"chain_{n}",
        f"what do {n} x (linear 16 + relu) cost, x [4, 16]?",
        partial(Chain, n),
        (Input((4, 16)),),
        links=n,
        series="chain",
        bars=_CHAIN_BARS.get(n, (_PEERS,)),
        floor=Floor("chain.cpp", {"FLOOR_LAYERS": n}),
    )


CASES = (
    Case(
        "single_add",
        "what does a call cost that does next to nothing, a + b of [2, 3]?",
        SingleAdd,
        (Input((2, 3)), Input((2, 3))),
        bars=(
            Bar("straightline", "eager", 0.35),
            Bar("straightline_out", "eager", 0.25),
            Bar("straightline", "compile", 0.03),
        ),
        floor=Floor("single_add.cpp"),
    ),
    Case(
        "reshape_add",
        "and with a reshape before the add, x [8, 16, 8, 8]?",
        ReshapeAdd,
        (Input((8, 16, 8, 8)), Input((1024,))),
        bars=(
            Bar("straightline", "eager", 0.4),
            Bar("straightline", "onnxruntime", 0.4),
            Bar("straightline_out", "eager", 0.25),
        ),
        floor=Floor("reshape_add.cpp"),
    ),
    Case(
        "reshape_mix",
        "what do five small ops cost that fuse into one kernel, x [8, 16, 16]?",
        ReshapeMix,
        (Input((8, 16, 16)), Input((256,))),
        floor=Floor("reshape_mix.cpp"),
    ),
    _chain(1),
    _chain(20),
    _chain(100),
)
