# SPDX-License-Identifier: Apache-2.0
"""Sums of few elements along one dim, at places and with weights that are known while capturing: interpolation and pools.

Knows no framework.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from straightline.capture.builder import Dense, Dim, TensorType
from straightline.capture.graph_builder import FLOATS, GraphBuilder, Tensor, known

Array = np.ndarray[Any, Any]

_NUMPY = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64}

#: Up to this many elements a result are summed as one expression of slices; more of them are a reduction.
MAX_TERMS = 8


@dataclass(frozen=True)
class Resampling:
    """Element j of the result is made of the elements places[:, j] of a dim, with weights[:, j]."""

    #: [taps, count], int64
    places: Array
    #: [taps, count]; None: each element counts once, as it is
    weights: Array | None = None

    @property
    def taps(self) -> int:
        """Elements that make one of the result."""
        return self.places.shape[0]

    @property
    def count(self) -> int:
        """Elements of the result."""
        return self.places.shape[1]

    def is_identity(self, size: int) -> bool:
        """Whether the result is the dim of `size` elements itself."""
        same = self.taps == 1 and np.array_equal(self.places[0], np.arange(size))
        return same and (self.weights is None or bool((self.weights == 1).all()))


def resampling_of(matrix: Array) -> Resampling:
    """The places and weights of a linear map, [size, count], whose columns have their nonzero elements side by side."""
    used = matrix != 0
    size = matrix.shape[0]
    first = used.argmax(0)
    last = size - 1 - used[::-1].argmax(0)
    taps = int((last - first).max(initial=0)) + 1
    places = np.minimum(first + np.arange(taps)[:, None], last)
    return Resampling(places, halving_weights(places, np.take_along_axis(matrix, places, 0)))


def halving_weights(places: Array, weights: Array) -> Array:
    """Returns `weights`, [taps, count], for columns of `places` that repeat their last place because they need fewer taps.

    The repeats share the weight of that place as its half, quarter and so on, the last two equally: these add up to it
    without rounding. Weights of 0 for the repeats would make NaN of an infinity.
    """
    taps = places.shape[0]
    first = (places == places[-1]).argmax(0)
    tap = np.arange(taps)[:, None]
    halvings = np.maximum(np.minimum(tap - first + 1, taps - 1 - first), 0)
    return weights * np.where(tap >= first, 0.5**halvings, 1.0).astype(weights.dtype)


def whole_factor(places: Array, size: int) -> int:
    """Returns how many times `places` repeats each of `size` elements in succession; 0 if not all equally often."""
    factor, rest = divmod(places.shape[0], size) if size else (0, 1)
    return factor if not rest and np.array_equal(places, np.arange(size).repeat(factor)) else 0


def literal(ctx: GraphBuilder, array: Array, dtype: str) -> Tensor:
    """A literal with these elements; one that is expanded where all elements are equal."""
    array = np.ascontiguousarray(array, _NUMPY[dtype])
    first = array.reshape(-1)[:1]
    if array.size > 1 and (array == first).all():
        return ctx.expand(ctx.constant(Dense(TensorType(dtype, ()), first.tobytes())), array.shape)
    return ctx.constant(Dense(TensorType(dtype, array.shape), array.tobytes()))


def along(ctx: GraphBuilder, vector: Array, dtype: str, dim: int, extents: Sequence[Dim]) -> Tensor:
    """A literal vector along one dim of a shape, the same for all places of the others."""
    sides = tuple(vector.shape[0] if d == dim else 1 for d in range(len(extents)))
    return ctx.expand(ctx.reshape(literal(ctx, vector, dtype), sides), extents)


def picked(ctx: GraphBuilder, x: Tensor, dim: int, places: Array) -> Tensor:
    """The elements of a dim at constant places, by a slice where they lie at equal distances."""
    count = places.shape[0]
    extents = (*x.extents[:dim], count, *x.extents[dim + 1 :])
    start, step = int(places[0]), int(places[1] - places[0]) if count > 1 else 1
    if step > 0 and bool((places == start + step * np.arange(count)).all()):
        return ctx.slice(x, dim, start, start + step * (count - 1) + 1, count, step)
    type = TensorType(x.dtype, extents)
    if dim == x.rank - 1:  # one index a place, which the kernel reads along the row
        return ctx.emit_one("gather", [x, along(ctx, places, "i64", dim, extents)], type, {"dim": dim})
    return ctx.emit_one("index_select", [x, literal(ctx, places, "i64")], type, {"dim": dim})


def terms(ctx: GraphBuilder, x: Tensor, dim: int, places: Array) -> list[Tensor]:
    """For each row of `places` the elements of a dim there."""
    taps, count = places.shape
    steps = np.diff(places, axis=1)
    if count == 1 or bool((steps[:, :1] == steps).all() and (steps > 0).all()):
        return [picked(ctx, x, dim, row) for row in places]
    together = picked(ctx, x, dim, places.reshape(-1))
    return [ctx.slice(together, dim, tap * count, (tap + 1) * count, count) for tap in range(taps)]


def weighted_sum(ctx: GraphBuilder, x: Tensor, dim: int, by: Resampling) -> Tensor:
    """The weighted sum along one dim of a tensor of floats."""
    if by.weights is None or by.taps == 1 and bool((by.weights == 1).all()):
        return picked(ctx, x, dim, by.places[0])
    extents = (*x.extents[:dim], by.count, *x.extents[dim + 1 :])
    type = TensorType(x.dtype, extents)
    if by.taps > MAX_TERMS:
        apart = (*x.extents[:dim], by.taps, by.count, *x.extents[dim + 1 :])
        rows = ctx.reshape(picked(ctx, x, dim, by.places.reshape(-1)), apart)
        sides = (*(1 for _ in x.extents[:dim]), by.taps, by.count, *(1 for _ in x.extents[dim + 1 :]))
        weights = ctx.expand(ctx.reshape(literal(ctx, by.weights, x.dtype), sides), apart)
        return ctx.reduce("sum", ctx.emit_one("mul", [rows, weights], rows.type), [dim], False)
    total = None
    for term, weights in zip(terms(ctx, x, dim, by.places), by.weights):
        term = ctx.emit_one("mul", [term, along(ctx, weights, x.dtype, dim, extents)], type)
        total = term if total is None else ctx.emit_one("add", [total, term], type)
    assert total is not None
    return total


def largest(ctx: GraphBuilder, x: Tensor, dim: int, places: Array) -> Tensor:
    """The largest of the elements at places[:, j] of one dim."""
    taps, count = places.shape
    if taps > MAX_TERMS:
        apart = (*x.extents[:dim], taps, count, *x.extents[dim + 1 :])
        return ctx.reduce("amax", ctx.reshape(picked(ctx, x, dim, places.reshape(-1)), apart), [dim], False)
    most, *others = terms(ctx, x, dim, places)
    for other in others:
        most = ctx.emit_one("maximum", [most, other], most.type)
    return most


def resampled(
    ctx: GraphBuilder, x: Tensor, by: dict[int, Resampling], combine: Literal["sum", "max"] = "sum"
) -> Tensor:
    """A tensor resampled along several dims; halves are summed in float32."""
    dtype = x.dtype
    moves_only = all(r.weights is None for r in by.values())
    if combine == "sum" and not moves_only and dtype in FLOATS and dtype != "f64":
        x = ctx.cast(x, "f32")
    sizes = {dim: known(x.extents[dim]) for dim in by}
    for dim in sorted(by, key=lambda d: _order(d, by[d].count / sizes[d])):
        if by[dim].is_identity(sizes[dim]):
            continue
        x = largest(ctx, x, dim, by[dim].places) if combine == "max" else weighted_sum(ctx, x, dim, by[dim])
    return ctx.cast(x, dtype)


def nearest(ctx: GraphBuilder, x: Tensor, places: dict[int, Array]) -> Tensor:
    """The elements of several dims at places; a dim whose elements are all repeated equally often is one of a larger shape."""
    factors = {dim: whole_factor(p, known(x.extents[dim])) for dim, p in places.items()}
    smaller = resampled(ctx, x, {dim: Resampling(p[None]) for dim, p in places.items() if not factors[dim]})
    return spread(ctx, smaller, {dim: factor for dim, factor in factors.items() if factor})


def spread(ctx: GraphBuilder, x: Tensor, factors: dict[int, int]) -> Tensor:
    """Each element of some dims, by number, so many times in succession."""
    split: list[Dim] = []
    spread: list[Dim] = []
    for dim, size in enumerate(x.extents):
        split.append(size)
        spread.append(size)
        if factors.get(dim, 1) != 1:
            split.append(1)
            spread.append(factors[dim])
    extents = tuple(size * factors.get(dim, 1) for dim, size in enumerate(x.extents))
    return ctx.reshape(ctx.expand(ctx.reshape(x, split), spread), extents)


def _order(dim: int, ratio: float) -> tuple[float, int]:
    """The sort key of a dim: dims that shrink come first.

    A pass over an inner dim costs more than one over an outer dim, so of equal ratios the inner dim is resampled while
    there are the fewest rows.
    """
    return ratio, dim if ratio < 1 else -dim
