# SPDX-License-Identifier: Apache-2.0
"""ONNX ops whose results have sizes that depend on data: NonZero, Compress, Unique."""

from __future__ import annotations

from straightline.capture.builder import Dim, TensorType
from straightline.capture.extents import product_of
from straightline.capture.graph_builder import Tensor
from straightline.capture.onnx.importer import Importer, Node, converter
from straightline.capture.uniques import order_of, order_of_rows, parts_along, unique_rows


def true_places(ctx: Importer, mask: Tensor) -> Tensor:
    """The numbers of the true elements of a mask of rank 1, in order: the i-th is written to place i."""
    count = mask.extents[0]
    ones = ctx.cast(mask if mask.dtype == "i1" else ctx.compare("ne", mask, 0), "i64")
    total = ctx.reduce("sum", ones, [0], False)
    found = ctx.found_size(total, count)
    if count == 0:
        return ctx.full(0, "i64", (0,))
    before = ctx.binary("sub", ctx.unary("cumsum", ones, dim=0), 1)
    last = ctx.scalar(count, "i64")
    place = ctx.where(ctx.compare("ne", ones, 0), before, last)
    memory = ctx.full(0, "i64", (count + 1,))
    written = ctx.emit_one("scatter", [memory, place, ctx.iota(count)], memory.type, {"dim": 0, "reduce": "none"})
    return ctx.from_place(written, 0, ctx.full(0, "i64"), found)


@converter("NonZero")
def _non_zero(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    flat = true_places(ctx, ctx.reshape(x, (product_of(x.extents),)))
    columns: list[Tensor] = []
    below: Dim = 1
    for dim in reversed(range(x.rank)):
        index = flat if below == 1 else ctx.binary("floor_divide", flat, _scalar(ctx, below))
        if dim:
            index = ctx.binary("remainder", index, _scalar(ctx, x.extents[dim]))
        below = below * x.extents[dim]
        columns.insert(0, ctx.reshape(index, (1, *index.extents)))
    if not columns:
        return ctx.full(0, "i64", (0, flat.extents[0]))
    return ctx.cat(columns, 0, TensorType("i64", (len(columns), flat.extents[0])))


def _scalar(ctx: Importer, value: Dim) -> Tensor:
    return ctx.scalar(value, "i64")


@converter("Compress")
def _compress(ctx: Importer, node: Node) -> Tensor:
    x, mask = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1])
    axis = node.attribute("axis")
    if axis is None:
        x, axis = ctx.reshape(x, (product_of(x.extents),)), 0
    axis = ctx.axis(axis, x.rank)
    places = true_places(ctx, mask)
    type = TensorType(x.dtype, (*x.extents[:axis], places.extents[0], *x.extents[axis + 1 :]))
    return ctx.emit_one("index_select", [x, places], type, {"dim": axis})


@converter("Unique")
def _unique(ctx: Importer, node: Node) -> list[Tensor]:
    """Elements in order (or in that of their first places), or entries of a dim."""
    x, axis = ctx.tensor(node.inputs[0]), node.attribute("axis")
    by_value = bool(node.attribute("sorted", 1))
    if axis is None or x.rank < 2:
        flat = ctx.reshape(x, (product_of(x.extents),))
        return list(unique_rows(ctx, flat, order_of(ctx, flat), ctx.found_size, by_value))
    rows, back = parts_along(ctx, x, ctx.axis(axis, x.rank))
    values, *found = unique_rows(ctx, rows, order_of_rows(ctx, rows), ctx.found_size, by_value)
    return [back(values), *found]
