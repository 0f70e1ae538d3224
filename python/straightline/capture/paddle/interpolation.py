# SPDX-License-Identifier: Apache-2.0
"""Paddle's interpolation of images, signals and volumes: each dim by itself, as a weighted sum of elements at known places."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from straightline.capture.builder import TensorType
from straightline.capture.graph_builder import Reject, Tensor, known
from straightline.capture.paddle.importer import Importer, Node, converter
from straightline.capture.paddle.linear import channels_first, channels_last

#: The parameter of cubic convolution that Paddle has.
_CUBIC = -0.75


def _target(ctx: Importer, node: Node, sizes: Sequence[int]) -> tuple[list[int], list[float]]:
    """Sizes of the result, and the scales that were given (0: none)."""
    rank = len(sizes)
    names = ("out_d", "out_h", "out_w")[3 - rank :]
    for place in (1, 2):
        if node.input(place) is not None:
            return ctx.numbers(node.input(place), "a size"), [0.0] * rank
    if node.input(3) is not None:
        raise Reject("a scale that a call computes", "a constant scale")
    scale = [float(s) for s in node.attribute("scale") or []]
    if scale:
        scale = scale * rank if len(scale) == 1 else scale
        return [int(size * s) for size, s in zip(sizes, scale)], scale
    return [int(node.attribute(name)) for name in names], [0.0] * rank


def _positions(size: int, count: int, scale: float, align: bool, mode: int) -> np.ndarray:
    """Where each element of the result is in the image; mode 0: by the middle of elements."""
    places = np.arange(count, dtype=np.float32)
    if align:
        return places * np.float32((size - 1) / (count - 1) if count > 1 else 0.0)
    ratio = np.float32(1.0 / scale if scale > 0 else size / count)
    return ratio * (places + np.float32(0.5)) - np.float32(0.5) if mode == 0 else ratio * places


def _each_dim(ctx: Importer, node: Node) -> tuple[Tensor, bool, list[tuple[int, int, int, float]]]:
    """The operand with its channels as dim 1, whether they were last, and (dim, size, size of the result, scale)."""
    x, last = channels_first(ctx, node, ctx.tensor(node.inputs[0]))
    sizes = [known(e) for e in x.extents[2:]]
    counts, scales = _target(ctx, node, sizes)
    for count in counts:
        ctx.places(count, "places of an interpolation")
    return x, last, list(zip(range(2, x.rank), sizes, counts, scales))


@converter("linear_interp", "bilinear_interp", "trilinear_interp", takes="constant sizes or scales, both align modes")
def _linear(ctx: Importer, node: Node) -> Tensor:
    x, last, dims = _each_dim(ctx, node)
    align, mode = bool(node.attribute("align_corners")), int(node.attribute("align_mode", 1))
    for dim, size, count, scale in dims:
        where = np.maximum(_positions(size, count, scale, align, mode), np.float32(0.0))
        low = np.minimum(np.floor(where).astype(np.int64), size - 1)
        weight = (where - low).astype(np.float32)
        x = _weighted(ctx, x, dim, [low, np.minimum(low + 1, size - 1)], [None, weight])
    return channels_last(ctx, x) if last else x


@converter("bicubic_interp", takes="constant sizes or scales")
def _bicubic(ctx: Importer, node: Node) -> Tensor:
    """Source: R. Keys, Cubic convolution interpolation for digital image processing, 1981."""
    x, last, dims = _each_dim(ctx, node)
    for dim, size, count, scale in dims:
        where = _positions(size, count, scale, bool(node.attribute("align_corners")), 0)
        low = np.floor(where)
        t = (where - low).astype(np.float64)
        places = [np.clip(low.astype(np.int64) + tap, 0, size - 1) for tap in (-1, 0, 1, 2)]
        weights = [_cubic(distance) for distance in (t + 1, t, 1 - t, 2 - t)]
        x = _weighted(ctx, x, dim, places, [w.astype(np.float32) for w in weights])
    return channels_last(ctx, x) if last else x


def _cubic(distance: np.ndarray) -> np.ndarray:
    near = ((_CUBIC + 2) * distance - (_CUBIC + 3)) * distance * distance + 1
    far = ((_CUBIC * distance - 5 * _CUBIC) * distance + 8 * _CUBIC) * distance - 4 * _CUBIC
    return np.where(distance <= 1, near, far)


def _weighted(
    ctx: Importer, x: Tensor, dim: int, places: Sequence[np.ndarray], weights: Sequence[np.ndarray | None]
) -> Tensor:
    """The sum of elements of a dim at places times weights; a weight of None is what the other leaves of 1."""
    shape = tuple(len(places[0]) if d == dim else 1 for d in range(x.rank))

    def share(weight: np.ndarray | None) -> Tensor:
        if weight is None:
            (other,) = (w for w in weights if w is not None)
            return ctx.binary("sub", ctx.full(1, x.dtype), share(other))
        return ctx.reshape(ctx.cast(ctx.literal(weight, "f32"), x.dtype), shape)

    terms = [ctx.binary("mul", at(ctx, x, dim, place), share(weight)) for place, weight in zip(places, weights)]
    total = terms[0]
    for term in terms[1:]:
        total = ctx.binary("add", total, term)
    return total


@converter("nearest_interp", takes="constant sizes or scales")
def _nearest(ctx: Importer, node: Node) -> Tensor:
    x, last, dims = _each_dim(ctx, node)
    for dim, size, count, scale in dims:
        align = bool(node.attribute("align_corners"))
        where = _positions(size, count, scale, align, 1)
        where = np.floor(where + np.float32(0.5)) if align else np.floor(where)
        x = at(ctx, x, dim, np.minimum(where.astype(np.int64), size - 1))
    return channels_last(ctx, x) if last else x


def at(ctx: Importer, x: Tensor, dim: int, places: np.ndarray) -> Tensor:
    """Entries of a dim at known places."""
    size, count = known(x.extents[dim]), len(places)
    if count == size and (places == np.arange(size)).all():
        return x
    factor = count // size if size and count % size == 0 else 0
    extents = tuple(count if d == dim else e for d, e in enumerate(x.extents))
    if factor and (places == np.repeat(np.arange(size), factor)).all():
        wide = ctx.reshape(x, (*x.extents[: dim + 1], 1, *x.extents[dim + 1 :]))
        wide = ctx.expand(wide, (*x.extents[: dim + 1], factor, *x.extents[dim + 1 :]))
        return ctx.reshape(wide, extents)
    index = ctx.literal(places, "i64")
    return ctx.emit_one("index_select", [x, index], TensorType(x.dtype, extents), {"dim": dim})
