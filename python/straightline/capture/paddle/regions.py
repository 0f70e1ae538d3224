# SPDX-License-Identifier: Apache-2.0
"""Paddle's pools over regions of images whose bins are whole rows and columns: the largest of a bin, or its mean."""

from __future__ import annotations

import numpy as np

from straightline.capture.builder import TensorType
from straightline.capture.graph_builder import FLOATS, Reject, Tensor, known
from straightline.capture.paddle.boxes import image_of_regions
from straightline.capture.paddle.importer import Importer, Node, converter


def _nearest(ctx: Importer, x: Tensor) -> Tensor:
    """The nearest whole number; halves away from 0."""
    away = ctx.unary("floor", ctx.binary("add", ctx.unary("abs", x), 0.5))
    return ctx.where(ctx.compare("lt", x, 0), ctx.unary("neg", away), away)


class _Bins:
    """Of each region and bin along an axis: [begin, end) within the image."""

    def __init__(self, ctx: Importer, begin: Tensor, length: Tensor, bins: int, size: int, rounds_last: bool) -> None:
        """`rounds_last`: places are made whole behind the sum with `begin`, else before it."""
        one = (*length.extents, 1)
        step = ctx.reshape(ctx.binary("div", length, float(bins)), one)
        self._ctx, self.size = ctx, size

        def limit(name: str, bin: int) -> Tensor:
            number = ctx.literal(np.arange(bin, bin + bins), length.dtype)
            place = ctx.binary("mul", step, ctx.reshape(number, (1, bins)))
            first = ctx.reshape(begin, one)
            if rounds_last:
                place = ctx.unary(name, ctx.binary("add", place, first))
            else:
                place = ctx.binary("add", ctx.unary(name, place), first)
            return ctx.unary("clamp", place, min=0.0, max=float(size))

        self.begin, self.end = limit("floor", 0), limit("ceil", 1)

    @property
    def lengths(self) -> Tensor:
        """[regions, bins]; of empty ones 0 or less."""
        return self._ctx.binary("sub", self.end, self.begin)

    @property
    def inside(self) -> Tensor:
        """[regions, bins, size]: whether a place of the image is in a bin."""
        ctx = self._ctx
        place = ctx.reshape(ctx.literal(np.arange(self.size), self.begin.dtype), (1, 1, self.size))
        begin, end = (ctx.reshape(t, (*t.extents, 1)) for t in (self.begin, self.end))
        return ctx.binary("logical_and", ctx.compare("ge", place, begin), ctx.compare("lt", place, end))


def _operands(ctx: Importer, node: Node) -> tuple[Tensor, Tensor, list[int]]:
    """Each region's image, the regions, and the bins of both sides."""
    x, boxes = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1])
    if x.dtype not in FLOATS or boxes.dtype != x.dtype:
        raise Reject(f"{node.op.short} of {x.dtype} and {boxes.dtype}", "floats of one type")
    bins = [int(node.attribute(f"pooled_{side}")) for side in ("height", "width")]
    if min(bins) < 1:
        raise Reject(f"{node.op.short} to {bins} bins", "1 or more")
    own = image_of_regions(ctx, node, x, boxes.extents[0])
    type = TensorType(x.dtype, (boxes.extents[0], *x.extents[1:]))
    return ctx.emit_one("index_select", [x, own], type, {"dim": 0}), boxes, bins


@converter("roi_pool", takes="floats; static sizes of the image; the largest of each bin", refuses="the places")
def _roi_pool(ctx: Importer, node: Node) -> list[Tensor | None]:
    x, boxes, bins = _operands(ctx, node)
    scale = float(node.attribute("spatial_scale", 1.0))
    sides = []
    for axis in (1, 0):
        low, high = (_nearest(ctx, ctx.binary("mul", ctx.select(boxes, 1, place), scale)) for place in (axis, axis + 2))
        length = ctx.unary("clamp", ctx.binary("add", ctx.binary("sub", high, low), 1.0), min=1.0)
        sides.append(_Bins(ctx, low, length, bins[1 - axis], known(x.extents[3 - axis]), False))
    rows, columns = sides
    count, channels, height, width = x.extents
    least = float("-inf")
    mask = ctx.reshape(columns.inside, (count, 1, 1, bins[1], width))
    found = ctx.where(mask, ctx.reshape(x, (count, channels, height, 1, width)), least)
    found = ctx.reduce("amax", found, [4], False)
    mask = ctx.reshape(rows.inside, (count, 1, bins[0], height, 1))
    found = ctx.where(mask, ctx.reshape(found, (count, channels, 1, height, bins[1])), least)
    found = ctx.reduce("amax", found, [3], False)
    some = ctx.binary(
        "logical_and",
        ctx.reshape(ctx.compare("gt", rows.lengths, 0.0), (count, 1, bins[0], 1)),
        ctx.reshape(ctx.compare("gt", columns.lengths, 0.0), (count, 1, 1, bins[1])),
    )
    return [ctx.where(some, found, 0.0), None]


@converter("psroi_pool", takes="floats; static sizes of the image; means of a channel for each bin")
def _psroi_pool(ctx: Importer, node: Node) -> Tensor:
    x, boxes, bins = _operands(ctx, node)
    scale = float(node.attribute("spatial_scale", 1.0))
    count, given, height, width = x.extents
    channels = int(node.attribute("output_channels"))
    if given != channels * bins[0] * bins[1]:
        raise Reject(f"psroi_pool of {given} channels", f"{channels * bins[0] * bins[1]}")
    sides = []
    for axis in (1, 0):
        low, high = (_nearest(ctx, ctx.select(boxes, 1, place)) for place in (axis, axis + 2))
        low = ctx.binary("mul", low, scale)
        high = ctx.binary("mul", ctx.binary("add", high, 1.0), scale)
        length = ctx.unary("clamp", ctx.binary("sub", high, low), min=0.1)
        sides.append(_Bins(ctx, low, length, bins[1 - axis], known(x.extents[3 - axis]), True))
    rows, columns = sides
    mask = ctx.reshape(columns.inside, (count, 1, 1, bins[1], 1, width))
    found = ctx.where(mask, ctx.reshape(x, (count, channels, *bins, height, width)), 0.0)
    found = ctx.reduce("sum", found, [5], False)
    mask = ctx.reshape(rows.inside, (count, 1, bins[0], 1, height))
    found = ctx.reduce("sum", ctx.where(mask, found, 0.0), [4], False)
    area = ctx.binary(
        "mul",
        ctx.reshape(rows.lengths, (count, 1, bins[0], 1)),
        ctx.reshape(columns.lengths, (count, 1, 1, bins[1])),
    )
    some = ctx.binary(
        "logical_and",
        ctx.reshape(ctx.compare("gt", rows.lengths, 0.0), (count, 1, bins[0], 1)),
        ctx.reshape(ctx.compare("gt", columns.lengths, 0.0), (count, 1, 1, bins[1])),
    )
    return ctx.where(some, ctx.binary("div", found, area), 0.0)
