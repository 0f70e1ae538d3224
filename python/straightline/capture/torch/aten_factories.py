# SPDX-License-Identifier: Apache-2.0
"""ATen ops that make a tensor of numbers alone: they are evaluated while capturing and become literals."""

from __future__ import annotations

import torch

from straightline.capture.builder import Extent
from straightline.capture.graph_builder import Reject, Tensor
from straightline.capture.torch.importer import Arguments, Importer, converter
from straightline.capture.torch.literals import evaluated, literal

#: Larger ones are made by torch, once.
_MAX_ELEMENTS = 1 << 20

_WINDOWS = {
    "hann": ("default", "periodic"),
    "hamming": ("default", "periodic", "periodic_alpha", "periodic_alpha_beta"),
    "blackman": ("default", "periodic"),
    "bartlett": ("default", "periodic"),
    "kaiser": ("default", "periodic", "beta"),
}


@converter(
    "aten.tril_indices.default", "aten.triu_indices.default", "aten.fft_fftfreq.default", "aten.fft_rfftfreq.default",
    "aten.range.default", "aten.range.step",
    *(f"aten.{name}_window.{overload}" for name, overloads in _WINDOWS.items() for overload in overloads),
)  # fmt: skip
def _factory(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    fake = node.meta["val"]
    if any(isinstance(x, Extent) for x in a.values.values()) or not all(isinstance(n, int) for n in fake.shape):
        raise Reject("a factory of dynamic size", "constant sizes")
    if fake.numel() > _MAX_ELEMENTS:
        raise Reject(f"a literal of {fake.numel()} elements", f"at most {_MAX_ELEMENTS}")
    given = {name: x for name, x in a.values.items() if name not in ("dtype", "layout", "device", "pin_memory")}
    return literal(ctx, evaluated(lambda: node.target(**given, dtype=fake.dtype, device="cpu")))
