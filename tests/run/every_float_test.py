# SPDX-License-Identifier: Apache-2.0
"""One-argument functions as they are compiled, over all binades of float32, beside torch's own, against float64.

`codegen/kernels/every_float_test.cpp` does this for the functions that the templates are made of; here stand those that are
made of these. Of each binade 4096 random inputs; `STRAIGHTLINE_EVERY_FLOAT=1` takes all, minutes a function.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import straightline as sl

_EVERY = os.environ.get("STRAIGHTLINE_EVERY_FLOAT") == "1"
#: Inputs of one call: all binades of one or several draws, or a part of one binade.
_COUNT = 1 << 20

Function = Callable[[Tensor], Tensor]


def _gelu64(x: Tensor) -> Tensor:
    """Without the cancellation of 1 + erf."""
    return 0.5 * x * torch.special.erfc(-x * 0.70710678118654752440)


def _gelu_tanh64(x: Tensor) -> Tensor:
    """0.5 (1 + tanh u) is 1 / (1 + exp(-2 u))."""
    return x * torch.sigmoid(2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x))


def _at_infinity(exact: Function) -> Function:
    """X times a weight from 0 to 1: what torch's formulas leave at the infinities (inf * 0 and inf - inf) is not judged."""
    return lambda x: torch.where(x.isinf(), torch.nan, exact(x))


#: Each with its meaning in float64, where that is not torch's own function of it.
FUNCTIONS: dict[str, tuple[Function, Function | None]] = {
    "sigmoid": (torch.sigmoid, None),
    "silu": (F.silu, _at_infinity(F.silu)),
    "gelu": (F.gelu, _at_infinity(_gelu64)),
    "gelu tanh": (lambda x: F.gelu(x, approximate="tanh"), _at_infinity(_gelu_tanh64)),
    "softplus": (F.softplus, lambda x: torch.where(x > 20, x, torch.log1p(torch.exp(x)))),
    "elu": (F.elu, None),
    "log10": (torch.log10, None),
    "reciprocal": (torch.reciprocal, None),
    "hardsigmoid": (F.hardsigmoid, None),
    "hardswish": (F.hardswish, _at_infinity(F.hardswish)),
    "leaky_relu": (F.leaky_relu, None),
    "relu": (F.relu, None),
    "mish": (F.mish, _at_infinity(lambda x: x * torch.tanh(torch.where(x > 20, x, torch.log1p(torch.exp(x)))))),
    "tanhshrink": (F.tanhshrink, _at_infinity(lambda x: x - torch.tanh(x))),
    "logsigmoid": (F.logsigmoid, lambda x: torch.where(x < 0, x, 0) - torch.log1p(torch.exp(-x.abs()))),
}  # fmt: skip


def _inputs() -> Iterator[tuple[Tensor, Tensor]]:
    """Inputs with the number of the binade of each."""
    if _EVERY:
        for begin in range(0, 1 << 32, _COUNT):
            bits = torch.arange(begin, begin + _COUNT, dtype=torch.int64)
            yield bits.to(torch.uint32).view(torch.float32), bits >> 23
        return
    seed = torch.seed()
    print(f"seed {seed}")
    for _ in range(2):
        binades = torch.arange(512).repeat_interleave(_COUNT // 512)
        mantissas = torch.randint(0, 1 << 23, (_COUNT,))
        ends = torch.arange(512) * (_COUNT // 512)
        mantissas[ends], mantissas[ends + 1] = 0, (1 << 23) - 1  # also what is at both ends
        bits = binades << 23 | mantissas
        yield bits.to(torch.uint32).view(torch.float32), binades


def _ulps(got: Tensor, exact: Tensor) -> Tensor:
    """In units of the last place of float32 at `exact`; infinite for another NaN or infinity than the exact one."""
    rounded = exact.float()
    exponent = torch.frexp(exact.abs().clamp_min(2.0**-126)).exponent
    error = torch.ldexp((got.double() - exact).abs(), 24 - exponent)
    same = (got == rounded) | (got.isnan() & exact.isnan())
    return torch.where(got.isfinite() & rounded.isfinite(), error, torch.where(same, 0.0, torch.inf))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_binade_is_worse_than_torchs_by_more_than_three_ulps(name: str) -> None:
    function, exact = FUNCTIONS[name]
    compiled = sl.compile(lambda x: function(x), (torch.empty(_COUNT),), threads=1)
    assert all(row["backend"] in ("native", "cuda") for row in compiled.explain().statements)
    ours, torchs = torch.zeros(512, dtype=torch.float64), torch.zeros(512, dtype=torch.float64)
    with torch.inference_mode():
        for x, binades in _inputs():
            want = (exact or function)(x.double())
            judged = torch.ones_like(x, dtype=torch.bool) if exact is None else ~(x.isinf() & want.isnan())
            for worst, got in ((ours, compiled(x)), (torchs, function(x))):
                worst.scatter_reduce_(0, binades, torch.where(judged, _ulps(got, want), 0.0), "amax")
    worse = torch.where(torchs.isinf(), False, ours > 1.5 * torchs + 3)
    print(
        f"{name}: {ours.max():.2f} ulp at binade {ours.argmax().item()}, torch {torchs.max():.2f} at {torchs.argmax().item()}"
    )
    lines = [f"binade {i}: {ours[i]:.2f} ulp, torch {torchs[i]:.2f}" for i in worse.nonzero().flatten().tolist()]
    assert not lines, "\n".join(lines)
