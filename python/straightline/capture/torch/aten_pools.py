# SPDX-License-Identifier: Apache-2.0
"""Max pools of which the places of the largest elements are read, and what puts elements back at such places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from straightline.capture.builder import TensorType
from straightline.capture.extents import product_of
from straightline.capture.graph_builder import FLOATS, Reject, Tensor, known
from straightline.capture.resampling import Array, along, terms
from straightline.capture.torch.importer import Arguments, Importer, converter

#: Places of a window along one dim that are compared in one expression.
_MOST_PLACES = 16


def _places(size: int, count: int, kernel: int, stride: int, padding: int, dilation: int) -> Array:
    """[kernel, count]: the places that each window reads along a dim; for one in the padding, its nearest place inside."""
    starts = np.arange(count) * stride - padding
    taps = np.arange(kernel)[:, None]
    places = starts + dilation * taps
    inside = (places >= 0) & (places < size)
    if not bool(inside.any(0).all()):
        raise Reject("a window that lies in the padding", "windows with an element each")
    first, last = inside.argmax(0), kernel - 1 - inside[::-1].argmax(0)
    return starts + dilation * np.clip(taps, first, last)


def _adaptive_places(size: int, target: int) -> Array:
    """The same for windows of an adaptive pool."""
    number = np.arange(target)
    first, end = number * size // target, ((number + 1) * size + target - 1) // target
    taps = int((end - first).max())
    return np.minimum(first + np.arange(taps)[:, None], end - 1)


def _later_is_taken(ctx: Importer, later: Tensor, best: Tensor) -> Tensor:
    """Whether `later` replaces `best`: the first of equal elements stays, and the last of several NaN is taken."""
    type = TensorType("i1", best.extents)
    larger = ctx.emit_one("gt", [later, best], type)
    if later.dtype not in FLOATS:
        return larger
    return ctx.emit_one("logical_or", [larger, ctx.emit_one("isnan", [later], type)], type)


def _largest(ctx: Importer, x: Tensor, places: Sequence[Array]) -> list[Tensor]:
    """The largest elements of windows over the last dims of x, and their numbers within those dims."""
    if any(window.shape[0] > _MOST_PLACES for window in places):
        raise Reject(f"places in windows of {[w.shape[0] for w in places]}", f"at most {_MOST_PLACES} along a dim")
    values, numbers, step = x, None, 1
    for dim in range(x.rank - 1, x.rank - 1 - len(places), -1):
        window = places[dim - x.rank]
        parts = terms(ctx, values, dim, window)
        own = [along(ctx, row * step, "i64", dim, parts[0].extents) for row in window]
        if numbers is not None:
            inner = terms(ctx, numbers, dim, window)
            own = [ctx.emit_one("add", pair, pair[0].type) for pair in zip(own, inner, strict=True)]
        step *= known(values.extents[dim])
        values, numbers = parts[0], own[0]
        for part, number in zip(parts[1:], own[1:], strict=True):
            taken = _later_is_taken(ctx, part, values)
            values = ctx.emit_one("where", [taken, part, values], values.type)
            numbers = ctx.emit_one("where", [taken, number, numbers], numbers.type)
    assert numbers is not None
    return [values, numbers]


def largest_and_places(ctx: Importer, x: Tensor, windows: dict[str, Sequence[int]], type: TensorType) -> list[Tensor]:
    """A max pool over the last dims of x, with the places that it takes elements from.

    Args:
        ctx: the import.
        x: what is pooled.
        windows: kernel_size, stride, padding and dilation, one number a dim.
        type: that of the result.
    """
    each = zip(*(windows[name] for name in ("kernel_size", "stride", "padding", "dilation")), strict=True)
    rank = len(windows["kernel_size"])
    places = []
    for size, count, window in zip(x.extents[-rank:], type.extents[-rank:], each, strict=True):
        if not isinstance(size, int) or not isinstance(count, int):
            raise Reject(f"places of a pool from {size} to {count}", "static sizes of the image")
        if count == 0:
            raise Reject("places of an empty pool", "sizes of at least 1")
        places.append(_places(size, count, *window))
    return _largest(ctx, x, places)


def largest_and_adaptive_places(ctx: Importer, x: Tensor, sizes: Sequence[tuple[int, int]]) -> list[Tensor]:
    """The same for an adaptive pool; `sizes`: before and after, of the last dims."""
    return _largest(ctx, x, [_adaptive_places(*pair) for pair in sizes])


@converter("aten.max_unpool2d.default", "aten.max_unpool3d.default")
def _max_unpool(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Any:
    """Zeros, but for the elements at their places."""
    type = ctx.result_type(node)
    rank = 3 if "3d" in str(node.target) else 2
    x, lead = a.self, type.extents[:-rank]
    extents = (product_of(lead), product_of(type.extents[-rank:]))
    flat = (extents[0], product_of(x.extents[-rank:]))
    zeros = ctx.expand(ctx.full(0, x.dtype, (1, 1)), extents)
    put = [zeros, ctx.reshape(a.indices, flat), ctx.reshape(x, flat)]
    return ctx.reshape(ctx.emit_one("scatter", put, zeros.type, {"dim": 1, "reduce": "none"}), type.extents)
