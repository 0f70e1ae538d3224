# SPDX-License-Identifier: Apache-2.0
"""ONNX ops whose results have sizes that depend on data: NonZero, Compress, Unique."""

from __future__ import annotations

from straightline.capture.builder import Dim, TensorType
from straightline.capture.extents import product_of
from straightline.capture.graph_builder import Reject, Tensor, known
from straightline.capture.onnx.importer import Importer, Node, converter


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
    """Elements in order (or in that of their first places): a sort, the firsts of equal neighbours, and their numbers."""
    x, axis = ctx.tensor(node.inputs[0]), node.attribute("axis")
    if axis is not None and x.rank > 1:
        return _unique_parts(ctx, node, x, ctx.axis(axis, x.rank))
    return _unique_rows(ctx, node, ctx.reshape(x, (product_of(x.extents),)), None)


def _unique_parts(ctx: Importer, node: Node, x: Tensor, axis: int) -> list[Tensor]:
    """Along a dim: its entries are rows, which are sorted by their elements, the last first."""
    count = known(x.extents[axis])
    order = [axis, *(d for d in range(x.rank) if d != axis)]
    moved = ctx.permute(x, order)
    width = known(product_of(moved.extents[1:]))
    if width > 32:
        raise Reject(f"unique entries of {width} elements", "at most 32")
    rows = ctx.reshape(moved, (count, width))
    places = ctx.iota(count)
    for column in reversed(range(width)):
        keys = ctx.emit_one(
            "index_select", [ctx.select(rows, 1, column), places], TensorType(x.dtype, (count,)), {"dim": 0}
        )
        _, sorts = ctx.emit("topk", [keys], [keys.type, places.type], {"dim": 0, "k": count, "largest": False})
        places = ctx.emit_one("index_select", [places, sorts], places.type, {"dim": 0})
    found = _unique_rows(ctx, node, rows, places)
    values = found[0]
    back = ctx.reshape(values, (values.extents[0], *moved.extents[1:]))
    inverse = [order.index(d) for d in range(x.rank)]
    return [ctx.permute(back, inverse), *found[1:]]


def _unique_rows(ctx: Importer, node: Node, x: Tensor, places: Tensor | None) -> list[Tensor]:
    count = known(x.extents[0])
    numbers = TensorType("i64", (count,))
    if places is None:
        _, places = ctx.emit("topk", [x], [x.type, numbers], {"dim": 0, "k": count, "largest": False})
    ordered = ctx.emit_one("index_select", [x, places], x.type, {"dim": 0})
    if count > 1:
        rest = (count - 1, *x.extents[1:])
        left, right = ctx.slice(ordered, 0, 0, count - 1, count - 1), ctx.slice(ordered, 0, 1, count, count - 1)
        differs = ctx.emit_one("ne", [left, right], TensorType("i1", rest))
        if x.rank == 2:
            differs = ctx.reduce("any", differs, [1], False)
        first = ctx.cat([ctx.full(True, "i1", (1,)), differs], 0, TensorType("i1", (count,)))
    else:
        first = ctx.full(True, "i1", (1,))
    group = ctx.binary("sub", ctx.unary("cumsum", ctx.cast(first, "i64"), dim=0), 1)  # of each place in the order
    # The first place of each group within x, since the sort keeps equal elements in order.
    large = ctx.full(count, "i64", (count,))
    firsts = ctx.emit_one("scatter", [large, group, places], numbers, {"dim": 0, "reduce": "amin"})
    counts = ctx.emit_one(
        "scatter",
        [ctx.full(0, "i64", (count,)), group, ctx.full(1, "i64", (count,))],
        numbers,
        {"dim": 0, "reduce": "sum"},
    )
    rank = ctx.iota(count)
    if not node.attribute("sorted", 1):
        _, by_place = ctx.emit("topk", [firsts], [numbers, numbers], {"dim": 0, "k": count, "largest": False})
        firsts, counts = (ctx.emit_one("index_select", [t, by_place], numbers, {"dim": 0}) for t in (firsts, counts))
        rank = ctx.emit_one(
            "scatter", [ctx.full(0, "i64", (count,)), by_place, rank], numbers, {"dim": 0, "reduce": "none"}
        )
    renamed = ctx.emit_one("index_select", [rank, group], numbers, {"dim": 0})
    inverse = ctx.emit_one(
        "scatter", [ctx.full(0, "i64", (count,)), places, renamed], numbers, {"dim": 0, "reduce": "none"}
    )
    found = ctx.found_size(ctx.reduce("sum", ctx.cast(first, "i64"), [0], False), count)
    firsts, counts = (ctx.from_place(t, 0, ctx.full(0, "i64"), found) for t in (firsts, counts))
    values = ctx.emit_one("index_select", [x, firsts], TensorType(x.dtype, (found, *x.extents[1:])), {"dim": 0})
    return [values, firsts, inverse, counts]
