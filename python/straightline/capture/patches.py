# SPDX-License-Identifier: Apache-2.0
"""Windows of an image as columns, and columns added up to an image. Knows no framework."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from straightline.capture.builder import Dense, TensorType
from straightline.capture.graph_builder import GraphBuilder, Tensor, known

#: (before, after) of each spatial dim.
Borders = Sequence[tuple[int, int]]


def counts_of(
    sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], pads: Borders
) -> list[int]:
    """How many windows lie along each spatial dim."""
    every = zip(sizes, kernel, strides, dilations, pads)
    return [(size + a + b - (k - 1) * d - 1) // s + 1 for size, k, s, d, (a, b) in every]


def image_to_columns(
    ctx: GraphBuilder,
    x: Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Borders,
) -> Tensor:
    """Windows of x [n, c, *sizes] as [n, c * elements of a window, windows]."""
    counts = counts_of([known(e) for e in x.extents[2:]], kernel, strides, dilations, pads)
    n, c = x.extents[:2]
    wide, parts = ctx.padded(x, pads), []
    for offset in itertools.product(*(range(k) for k in kernel)):
        part = wide
        for dim, (o, d, count, s) in enumerate(zip(offset, dilations, counts, strides), 2):
            part = ctx.slice(part, dim, o * d, o * d + (count - 1) * s + 1, count, s)
        parts.append(ctx.reshape(part, (n, c, 1, math.prod(counts))))
    joined = ctx.cat(parts, 2, TensorType(x.dtype, (n, c, len(parts), math.prod(counts))))
    return ctx.reshape(joined, (n, c * len(parts), math.prod(counts)))


def columns_to_image(
    ctx: GraphBuilder,
    x: Tensor,
    image: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Borders,
) -> Tensor:
    """Each column's elements added to the places of the image [n, c, *image] that its window covers."""
    sizes = [size + a + b for size, (a, b) in zip(image, pads)]
    counts = counts_of(sizes, kernel, strides, dilations, [(0, 0)] * len(sizes))
    n, whole, length = x.extents
    c = known(whole) // math.prod(kernel)
    numbers = np.arange(math.prod(sizes), dtype=np.int64).reshape(sizes)
    columns = []
    for offset in itertools.product(*(range(k) for k in kernel)):
        steps = zip(offset, dilations, counts, strides)
        columns.append(numbers[tuple(slice(o * d, o * d + (m - 1) * t + 1, t) for o, d, m, t in steps)].reshape(-1))
    places = np.stack(columns).reshape(-1)
    flat = ctx.reshape(x, (n, c, math.prod(kernel) * known(length)))
    index = ctx.constant(Dense(TensorType("i64", (places.size,)), places.tobytes()))
    index = ctx.expand(ctx.reshape(index, (1, 1, places.size)), flat.extents)
    zeros = ctx.full(0, x.dtype, (n, c, math.prod(sizes)))
    found = ctx.emit_one("scatter", [zeros, index, flat], zeros.type, {"dim": 2, "reduce": "sum"})
    return ctx.padded(ctx.reshape(found, (n, c, *sizes)), [(-a, -b) for a, b in pads])
