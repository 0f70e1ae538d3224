# SPDX-License-Identifier: Apache-2.0
"""Paddle's ops whose results have sizes that depend on data: nonzero, masked_select (indices that are masks)."""

from __future__ import annotations

from straightline.capture.builder import Dim, Dims, TensorType
from straightline.capture.extents import DEFAULT_MAX, Extent, bounds, product_of
from straightline.capture.graph_builder import Reject, Tensor
from straightline.capture.paddle.importer import Importer, Node, converter

_FOUND = "found_"


def _found_size(ctx: Importer, count: Tensor, limit: Dim) -> Dim:
    """A size that the program computes, at most `limit`: a named extent of its own."""
    if ctx.is_nested:
        raise Reject("a result whose size a call computes, in a branch or loop", "the same outside of it")
    name = f"{_FOUND}{len(ctx.ranges)}"
    most = min(max(bounds(limit, ctx.ranges)[1], 0), DEFAULT_MAX)
    if isinstance(limit, Extent) and any(symbol.startswith(_FOUND) for symbol in limit.symbols):
        limit = most  # a bound is over the sizes of inputs alone
    ctx.builder.symbol(name, 0, most)
    ctx.ranges = {**ctx.ranges, name: (0, most)}
    ctx.emit("set_extent", [count], [], {"extent": name, "bound": Dims((limit,))})
    return Extent(name)


def true_places(ctx: Importer, mask: Tensor) -> Tensor:
    """The numbers of the true elements of a mask, read as if it had rank 1, in order: the i-th is written to place i."""
    count = product_of(mask.extents)
    flat = ctx.reshape(mask, (count,))
    ones = ctx.cast(flat if flat.dtype == "i1" else ctx.compare("ne", flat, 0), "i64")
    found = _found_size(ctx, ctx.reduce("sum", ones, [0], False), count)
    if count == 0:
        return ctx.full(0, "i64", (0,))
    before = ctx.binary("sub", ctx.unary("cumsum", ones, dim=0), 1)
    place = ctx.where(ctx.compare("ne", ones, 0), before, ctx.scalar(count, "i64"))
    memory = ctx.full(0, "i64", (count + 1,))
    numbers = ctx.emit_one("iota", [], TensorType("i64", (count,)), {"start": 0, "step": 1})
    written = ctx.emit_one("scatter", [memory, place, numbers], memory.type, {"dim": 0, "reduce": "none"})
    attributes = {"dim": 0, "length": found if isinstance(found, int) else -1}
    return ctx.emit_one("dynamic_slice", [written, ctx.full(0, "i64")], TensorType("i64", (found,)), attributes)


@converter("nonzero", takes="all; not in a branch or loop")
def _nonzero(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    flat = true_places(ctx, x)
    columns: list[Tensor] = []
    below: Dim = 1
    for dim in reversed(range(x.rank)):
        index = flat if below == 1 else ctx.binary("floor_divide", flat, ctx.scalar(below, "i64"))
        if dim:
            index = ctx.binary("remainder", index, ctx.scalar(x.extents[dim], "i64"))
        below = below * x.extents[dim]
        columns.insert(0, ctx.reshape(index, (*index.extents, 1)))
    if not columns:
        return ctx.full(0, "i64", (flat.extents[0], 0))
    return ctx.cat(columns, 1, TensorType("i64", (flat.extents[0], len(columns))))


@converter("masked_select", takes="all; not in a branch or loop")
def _masked_select(ctx: Importer, node: Node) -> Tensor:
    x, mask = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1])
    extents = ctx.common(x.extents, mask.extents)
    flat = ctx.reshape(ctx.expand(x, extents), (product_of(extents),))
    places = true_places(ctx, ctx.expand(mask, extents))
    if flat.extents[0] == 0:
        return ctx.full(0, x.dtype, places.extents)
    return ctx.emit_one("index_select", [flat, places], TensorType(x.dtype, places.extents), {"dim": 0})
