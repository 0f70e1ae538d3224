# SPDX-License-Identifier: Apache-2.0
"""Linear and cubic interpolation of uint8, as ATen's CPU kernels compute it: sums of integers, one dim after the other.

Weights are rounded to integers of 16 bits, scaled by the power of two that the largest one allows. Each dim, the last one
first, is a sum of int32 that is rounded and clamped to a byte. A dim whose size stays is left as it is, whatever its scale.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from straightline.capture.builder import TensorType
from straightline.capture.graph_builder import Tensor
from straightline.capture.resampling import MAX_TERMS, Array, along, literal, picked, terms
from straightline.capture.torch.importer import Importer

#: Scaled weights are below 2**15, by a power of two of at most 2**22.
_WEIGHT_BITS, _MOST_BITS = 15, 22


@dataclass(frozen=True)
class ByteResampling:
    """Element j of the result is the sum of weights[:, j] * x[places[:, j]], times 2**-bits, to nearest."""

    #: [taps, count], int64 and int32
    places: Array
    weights: Array
    bits: int


def _triangle(x: float) -> float:
    return max(1.0 - abs(x), 0.0)


def _cubic(x: float, a: float) -> float:
    x = abs(x)
    if x < 1.0:
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    return (((x - 5.0) * x + 8.0) * x - 4.0) * a if x < 2.0 else 0.0


@functools.lru_cache(maxsize=256)
def byte_resampling(
    size: int, target: int, scale: float | None, *, cubic: bool, antialias: bool, align_corners: bool
) -> ByteResampling:
    """Places and weights of one dim.

    Args:
        size: elements of the dim.
        target: elements of the result.
        scale: the factor that the caller gave, which counts in place of the ratio of sizes.
        cubic: whether four neighbours count, not two.
        antialias: whether more neighbours count where the dim shrinks.
        align_corners: whether the outermost elements lie on each other; no factor counts then.
    """
    if align_corners:
        step = (size - 1) / (target - 1) if target > 1 else 0.0
    else:
        step = 1.0 / scale if scale else size / target
    width = (4 if cubic else 2) * 0.5
    stretch = step if antialias and step >= 1.0 else 1.0
    a = -0.5 if antialias else -0.75
    curve: Callable[[float], float] = (lambda x: _cubic(x, a)) if cubic else _triangle
    shift = 0.5 if align_corners and not antialias else 0.0
    columns: list[dict[int, float]] = []
    largest = 0.0
    for i in range(target):
        center = step * (i + 0.5 - shift)
        first = math.floor(center - width * stretch + 0.5 + shift)
        last = math.floor(center + width * stretch + 0.5 + shift) if antialias else first + int(2 * width)
        column: dict[int, float] = {}
        # Antialiasing leaves out what is beyond the dim, the others count the outermost element instead.
        for j in range(max(first, 0), min(last, size)) if antialias else range(first, last):
            place = min(max(j, 0), size - 1)
            column[place] = column.get(place, 0.0) + curve((j - center + 0.5 - shift) * (1.0 / stretch))
            largest = largest if antialias else max(largest, column[place])
        total = sum(column.values())
        columns.append({place: weight / total for place, weight in column.items()})
        largest = max(largest, *columns[-1].values())
    return _rounded(columns, largest)


def _rounded(columns: list[dict[int, float]], largest: float) -> ByteResampling:
    bits = 0
    while bits < _MOST_BITS and int(0.5 + largest * 2.0 ** (bits + 1)) < 1 << _WEIGHT_BITS:
        bits += 1
    taps = max(len(column) for column in columns)
    places = np.empty((taps, len(columns)), np.int64)
    weights = np.zeros((taps, len(columns)), np.int32)
    for i, column in enumerate(columns):
        spread = [*column, *[max(column)] * (taps - len(column))]  # the rest count nothing
        places[:, i] = spread
        scaled = [weight * 2.0**bits for weight in column.values()]
        rounded = [int(w + 0.5) if w >= 0.0 else int(w - 0.5) for w in scaled]
        weights[: len(column), i] = rounded
    return ByteResampling(places, weights, bits)


def resampled_bytes(ctx: Importer, x: Tensor, by: dict[int, ByteResampling]) -> Tensor:
    """A tensor of uint8 resampled along several dims, the last one first."""
    for dim in sorted(by, reverse=True):
        x = _along_one_dim(ctx, x, dim, by[dim])
    return x


def _along_one_dim(ctx: Importer, x: Tensor, dim: int, by: ByteResampling) -> Tensor:
    taps, count = by.places.shape
    extents = (*x.extents[:dim], count, *x.extents[dim + 1 :])
    type = TensorType("i32", extents)
    if taps > MAX_TERMS:
        apart = (*x.extents[:dim], taps, count, *x.extents[dim + 1 :])
        rows = ctx.cast(ctx.reshape(picked(ctx, x, dim, by.places.reshape(-1)), apart), "i32")
        sides = (*(1 for _ in x.extents[:dim]), taps, count, *(1 for _ in x.extents[dim + 1 :]))
        weights = ctx.expand(ctx.reshape(literal(ctx, by.weights, "i32"), sides), apart)
        total = ctx.reduce("sum", ctx.emit_one("mul", [rows, weights], rows.type), [dim], False)
        total = ctx.emit_one("add", [total, ctx.full(1 << by.bits >> 1, "i32", extents)], type)
    else:
        total = ctx.full(1 << by.bits >> 1, "i32", extents)
        for term, weight in zip(terms(ctx, x, dim, by.places), by.weights):
            product = ctx.emit_one("mul", [ctx.cast(term, "i32"), along(ctx, weight, "i32", dim, extents)], type)
            total = ctx.emit_one("add", [total, product], type)
    # Below 0 a quotient would be rounded towards 0.
    positive = ctx.emit_one("clamp", [total], type, {"min": 0})
    quotient = ctx.emit_one("trunc_divide", [positive, ctx.full(1 << by.bits, "i32", extents)], type)
    return ctx.cast(ctx.emit_one("clamp", [quotient], type, {"max": 255}), "ui8")
