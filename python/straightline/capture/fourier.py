# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms of rows of a known size as products with matrices. Knows no framework.

A complex number is two tensors. A transform of n = n1 * n2 numbers is n2 transforms of n1, a factor for each number, and n1
transforms of n2 (Cooley and Tukey, 1965); one of at most `_MOST` numbers, or of a prime size, is a product.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from straightline.capture.builder import Dim, TensorType
from straightline.capture.extents import product_of
from straightline.capture.graph_builder import GraphBuilder, Reject, Tensor, known

#: Numbers of one product, unless a size has no factors; then at most `_LARGEST`.
_MOST, _LARGEST = 64, 1024

Pair = tuple[Tensor, Tensor]
#: Makes a constant of an array in float64, of an element type.
Literal = Callable[[np.ndarray, str], Tensor]


def angles(rows: int, columns: int, size: int, sign: int) -> np.ndarray:
    """Sign * 2 pi * row * column / size, the product modulo size first, which is exact."""
    return (np.outer(np.arange(rows), np.arange(columns)) % size) * (sign * 2 * math.pi / size)


def _split(size: int) -> int:
    """The largest factor of a size that one product takes; 1 where there is none."""
    return next((f for f in range(min(_MOST, math.isqrt(size)), 1, -1) if size % f == 0), 1)


def _times(ctx: GraphBuilder, literal: Literal, x: Tensor, matrix: np.ndarray) -> Tensor:
    """Rows of numbers times a matrix [results, numbers]."""
    rows = (*x.extents[:-1], matrix.shape[0])
    flat = ctx.reshape(x, (product_of(tuple(x.extents[:-1])), x.extents[-1]))
    weight = literal(matrix, x.dtype)
    type = TensorType(x.dtype, (flat.extents[0], matrix.shape[0]))
    return ctx.reshape(ctx.emit_one("linear", [flat, weight], type), rows)


def _halves(ctx: GraphBuilder, x: Tensor) -> Pair:
    """The first and the second half of the last dim."""
    count = known(x.extents[-1]) // 2
    first, second = (ctx.slice(x, x.rank - 1, i * count, (i + 1) * count, count) for i in (0, 1))
    return first, second


def _on(ctx: GraphBuilder, name: str, x: Tensor, y: Tensor) -> Tensor:
    return ctx.emit_one(name, [x, y], x.type)


def multiplied(ctx: GraphBuilder, x: Pair, y: Pair) -> Pair:
    """A product of complex numbers."""
    (a, b), (c, d) = x, y
    re = _on(ctx, "sub", _on(ctx, "mul", a, c), _on(ctx, "mul", b, d))
    return re, _on(ctx, "add", _on(ctx, "mul", a, d), _on(ctx, "mul", b, c))


def rows(ctx: GraphBuilder, literal: Literal, re: Tensor, im: Tensor | None, sign: int) -> Pair:
    """Transforms along the last dim, of real numbers where there are no imaginary parts."""
    size = known(re.extents[-1])
    first = _split(size) if size > _MOST else 1
    if first == 1:
        if size > _LARGEST:
            raise Reject(f"a Fourier transform of {size} numbers", f"a size that is at most {_LARGEST}, or has factors")
        turns = angles(size, size, size, sign)
        c, s = np.cos(turns), np.sin(turns)
        if im is None:
            return _halves(ctx, _times(ctx, literal, re, np.concatenate([c, s])))
        both = ctx.cat([re, im], re.rank - 1, TensorType(re.dtype, (*re.extents[:-1], 2 * size)))
        return _halves(ctx, _times(ctx, literal, both, np.block([[c, -s], [s, c]])))
    lead, second = tuple(re.extents[:-1]), size // first
    count = len(lead)
    swap = [*range(count), count + 1, count]

    def turned(x: Tensor, n: int, m: int) -> Tensor:
        return ctx.permute(ctx.reshape(x, (*lead, n, m)), swap)

    inner = rows(ctx, literal, turned(re, first, second), None if im is None else turned(im, first, second), sign)
    turns = angles(second, first, size, sign)
    shape: tuple[Dim, ...] = (*lead, second, first)
    factors = tuple(ctx.expand(literal(f(turns), re.dtype), shape) for f in (np.cos, np.sin))
    a, b = (turned(x, second, first) for x in multiplied(ctx, inner, (factors[0], factors[1])))
    c, d = (turned(x, first, second) for x in rows(ctx, literal, a, b, sign))
    return ctx.reshape(c, (*lead, size)), ctx.reshape(d, (*lead, size))


def along(
    ctx: GraphBuilder,
    literal: Literal,
    moved: Callable[[Tensor, list[int]], Tensor],
    pair: Pair,
    dims: Sequence[int],
    sign: int,
) -> Pair:
    """Transforms along dims; `moved` gives a tensor with its dims in another order."""
    for dim in reversed(dims):
        rank = pair[0].rank
        order = [*(d for d in range(rank) if d != dim), dim]
        back = [order.index(d) for d in range(rank)]
        a, b = rows(ctx, literal, moved(pair[0], order), moved(pair[1], order), sign)
        pair = moved(a, back), moved(b, back)
    return pair


def rows_to_real(ctx: GraphBuilder, literal: Literal, re: Tensor, im: Tensor, size: int) -> Tensor:
    """The real numbers whose transform begins with these; imaginary parts of those that are their own conjugates are left out."""
    count, dim = known(re.extents[-1]), re.rank - 1
    if size <= _MOST:
        turns = angles(size, count, size, 1)
        weights = np.where((np.arange(count) == 0) | (2 * np.arange(count) == size), 1.0, 2.0)
        both = ctx.cat([re, im], dim, TensorType(re.dtype, (*re.extents[:-1], 2 * count)))
        own = np.where(weights == 1, 0.0, -np.sin(turns) * weights)
        return _times(ctx, literal, both, np.concatenate([np.cos(turns) * weights, own], 1))
    kept = np.where((np.arange(count) == 0) | (2 * np.arange(count) == size), 0.0, 1.0)
    im = _on(ctx, "mul", im, ctx.expand(literal(kept, im.dtype), im.extents))
    others = size - count
    whole = []
    for part in (re, im):
        tail = ctx.slice(part, dim, 1, 1 + others, others)
        tail = ctx.emit_one("flip", [tail], tail.type, {"dims": [dim]})
        tail = tail if part is re else ctx.emit_one("neg", [tail], tail.type)
        whole.append(ctx.cat([part, tail], dim, TensorType(part.dtype, (*part.extents[:-1], size))))
    return rows(ctx, literal, whole[0], whole[1], 1)[0]
