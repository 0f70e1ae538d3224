# SPDX-License-Identifier: Apache-2.0
"""Paddle's ops whose results have sizes that depend on data: nonzero, masked_select (masks as indices), unique, repetitions."""

from __future__ import annotations

import numpy as np

from straightline.capture.builder import Dim, Dims, TensorType
from straightline.capture.extents import DEFAULT_MAX, Extent, bounds, product_of
from straightline.capture.graph_builder import Reject, Tensor
from straightline.capture.paddle.importer import Importer, Node, converter
from straightline.capture.paddle.values import Known
from straightline.capture.uniques import order_of, order_of_rows, parts_along, unique_rows

_FOUND = "found_"


def found_size(ctx: Importer, count: Tensor, limit: Dim) -> Dim:
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
    found = found_size(ctx, ctx.reduce("sum", ones, [0], False), count)
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


# Sets -----------------------------------------------------------------------------------------------------------------


def _numbers(ctx: Importer, count: Dim) -> Tensor:
    return ctx.emit_one("iota", [], TensorType("i64", (count,)), {"start": 0, "step": 1})


@converter("unique", takes="static sizes, all elements or a dim, every result; not in a branch or loop",
           refuses="named sizes, entries of more than 32 elements")  # fmt: skip
def _unique(ctx: Importer, node: Node) -> list[Tensor | None]:
    return _different(ctx, node, is_sorted=False)


@converter("unique_consecutive", takes="static sizes, all elements or a dim, every result; not in a branch or loop",
           refuses="named sizes")  # fmt: skip
def _unique_consecutive(ctx: Importer, node: Node) -> list[Tensor | None]:
    values, _, inverse, counts = _different(ctx, node, is_sorted=True)
    return [values, inverse, counts]


def _different(ctx: Importer, node: Node, is_sorted: bool) -> list[Tensor | None]:
    """Values, first places, numbers and counts; `is_sorted`: only neighbours are compared."""
    x, axes = ctx.tensor(node.inputs[0]), list(node.attribute("axis") or [])
    if not x.type.is_static:
        raise Reject(f"{node.op.short} of the sizes {list(x.extents)}", "static sizes")
    dtype = str(node.attribute("dtype", "i64"))
    if 0 in x.extents and axes:
        raise Reject(f"{node.op.short} along a dim of {list(x.extents)}", "sizes of at least 1")
    if 0 in x.extents:
        empty = ctx.full(0, dtype, (0,))
        return [ctx.reshape(x, (0,)), empty, empty, empty]
    rows = ctx.reshape(x, (product_of(x.extents),))
    back = None
    if axes and x.rank > 1:
        rows, back = parts_along(ctx, x, ctx.axis(axes[0], x.rank))
    if is_sorted:
        places = _numbers(ctx, rows.extents[0])
    else:
        places = order_of(ctx, rows) if back is None else order_of_rows(ctx, rows)
    values, *found = unique_rows(ctx, rows, places, lambda count, most: found_size(ctx, count, most))
    return [values if back is None else back(values), *(ctx.cast(t, dtype) for t in found)]


@converter("repeat_interleave_with_tensor_index", takes="constant counts, or an output_size that calls are checked for",
           refuses="computed counts without an output_size")  # fmt: skip
def _repeat_interleave_by_tensor(ctx: Importer, node: Node) -> Tensor:
    x, given = ctx.tensor(node.inputs[0]), node.inputs[1]
    dim = ctx.axis(node.attribute("axis", 0), x.rank)
    if isinstance(given, Known) and not given.is_sizes:
        counts = given.array.reshape(-1).astype(np.int64)
        ctx.equal(x.extents[dim], counts.size, "the counts of a repetition")
        if (counts < 0).any():
            raise Reject("a count of repetitions below 0", "counts of at least 0")
        ctx.places(int(counts.sum()), "repetitions")
        rows = ctx.literal(np.repeat(np.arange(counts.size), counts), "i64")
    else:
        size = int(node.attribute("output_size", -1))
        if size < 0:
            raise Reject("counts of repetitions that a call computes, whose sum has no bound", "output_size=")
        rows = _repeats(ctx, ctx.tensor(given, "i64"), size)
        ctx.equal(x.extents[dim], ctx.type_of(given).extents[0], "the counts of a repetition")
    type = TensorType(x.dtype, (*x.extents[:dim], rows.extents[0], *x.extents[dim + 1 :]))
    if rows.extents[0] == 0:
        return ctx.full(0, x.dtype, type.extents)
    return ctx.emit_one("index_select", [x, rows], type, {"dim": dim})


def _repeats(ctx: Importer, counts: Tensor, size: int) -> Tensor:
    """[size] numbers: i as often as counts[i] says. The number at a place is how many repetitions end before or at it."""
    total = ctx.reduce("sum", counts, [0], False)
    least = ctx.reduce("amin", ctx.cat([counts, ctx.full(0, "i64", (1,))], 0, _longer(counts)), [0], False)
    right = ctx.binary("logical_and", ctx.compare("eq", total, size), ctx.compare("ge", least, 0))
    ctx.emit("check", [right], [], {"message": f"repeat_interleave: the counts are not of {size} repetitions"})
    ends = ctx.unary("cumsum", counts, dim=0)
    inside = ctx.unary("clamp", ends, min=0, max=size)  # what the check refuses must not be written elsewhere
    marks, ones = ctx.full(0, "i64", (size + 1,)), ctx.full(1, "i64", counts.extents)
    marked = ctx.emit_one("scatter", [marks, inside, ones], marks.type, {"dim": 0, "reduce": "sum"})
    return ctx.slice(ctx.unary("cumsum", marked, dim=0), 0, 0, size, size)


def _longer(x: Tensor) -> TensorType:
    return TensorType(x.dtype, (x.extents[0] + 1,))


@converter("bincount", takes="none", refuses="all: its largest number, which has no bound, is the size of the result")
def _bincount(ctx: Importer, node: Node) -> Tensor:
    raise Reject(
        "bincount, whose result is as long as its largest number, which has no bound",
        "one_hot(x, n).sum(0)",
    )
