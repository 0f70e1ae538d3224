# SPDX-License-Identifier: Apache-2.0
"""Equal elements or rows found by sorts: the different ones, where they are first, and how many of each. Knows no framework."""

from __future__ import annotations

from collections.abc import Callable

from straightline.capture.builder import Dim, TensorType
from straightline.capture.extents import DEFAULT_MAX, product_of
from straightline.capture.graph_builder import GraphBuilder, Reject, Tensor, known

#: Declares a size that the program computes: of (the number, the most that it can be).
FoundSize = Callable[[Tensor, Dim], Dim]
#: Most elements of a row, of which each is a sort.
_MOST_SORTS = 32


def parts_along(ctx: GraphBuilder, x: Tensor, axis: int) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """The entries of a dim as rows [count, elements], and what makes rows such entries again.

    Raises:
        Reject: How many elements an entry has is named.
    """
    order = [axis, *(d for d in range(x.rank) if d != axis)]
    moved = ctx.permute(x, order)
    rows = ctx.reshape(moved, (x.extents[axis], known(product_of(moved.extents[1:]))))

    def back(found: Tensor) -> Tensor:
        shaped = ctx.reshape(found, (found.extents[0], *moved.extents[1:]))
        return ctx.permute(shaped, [order.index(d) for d in range(x.rank)])

    return rows, back


def order_of_rows(ctx: GraphBuilder, rows: Tensor) -> Tensor:
    """Where the rows [count, elements] are in their order: stable sorts by the last column first."""
    count, width = rows.extents[0], known(rows.extents[1])
    if width > _MOST_SORTS:
        raise Reject(f"unique entries of {width} elements", f"at most {_MOST_SORTS}")
    places = _iota(ctx, count)
    for column in reversed(range(width)):
        key = TensorType(rows.dtype, (count,))
        keys = ctx.emit_one("index_select", [ctx.select(rows, 1, column), places], key, {"dim": 0})
        places = ctx.emit_one("index_select", [places, order_of(ctx, keys)], places.type, {"dim": 0})
    return places


def order_of(ctx: GraphBuilder, x: Tensor) -> Tensor:
    """Where the elements of a vector are in their order; equal ones stay as they are."""
    return ctx.ordered(x, 0, x.extents[0], False)[1]


def unique_rows(
    ctx: GraphBuilder, x: Tensor, places: Tensor, found_size: FoundSize, by_value: bool = True
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Runs of equal neighbours of a vector, or of rows, that are read in the order of `places`.

    Args:
        ctx: Where the ops go.
        x: [count] or [count, elements]; a count that is a number is at least 1.
        places: [count], numbers of elements or rows.
        found_size: Declares how many runs there are.
        by_value: Whether the runs stay in that order, or are given by where they are first.

    Returns:
        An element or row of each run, where each run is first within x, for each row of x the number of its run, and how
        long the runs are; indices are i64.
    """
    count = x.extents[0]
    numbers = TensorType("i64", (count,))

    def moved(values: Tensor, by: Tensor) -> Tensor:
        return ctx.emit_one("index_select", [values, by], values.type, {"dim": 0})

    def put(into: Tensor, at: Tensor, values: Tensor, reduce: str) -> Tensor:
        return ctx.emit_one("scatter", [into, at, values], into.type, {"dim": 0, "reduce": reduce})

    first = _begins(ctx, moved(x, places))
    ones = ctx.cast(first, "i64")
    passed = ctx.emit_one("cumsum", [ones], numbers, {"dim": 0})
    group = ctx.emit_one("sub", [passed, ctx.full(1, "i64", (count,))], numbers)  # of each place in the order
    behind = count if isinstance(count, int) else DEFAULT_MAX
    firsts = put(ctx.full(behind, "i64", (count,)), group, places, "amin")
    counts = put(ctx.full(0, "i64", (count,)), group, ctx.full(1, "i64", (count,)), "sum")
    rank = _iota(ctx, count)
    if not by_value:
        by_place = order_of(ctx, firsts)
        firsts, counts = moved(firsts, by_place), moved(counts, by_place)
        rank = put(ctx.full(0, "i64", (count,)), by_place, rank, "none")
    inverse = put(ctx.full(0, "i64", (count,)), places, moved(rank, group), "none")
    found = found_size(ctx.reduce("sum", ones, [0], False), count)
    length = {"dim": 0, "length": found if isinstance(found, int) else -1}
    firsts, counts = (
        ctx.emit_one("dynamic_slice", [t, ctx.full(0, "i64")], TensorType("i64", (found,)), dict(length))
        for t in (firsts, counts)
    )
    values = ctx.emit_one("index_select", [x, firsts], TensorType(x.dtype, (found, *x.extents[1:])), {"dim": 0})
    return values, firsts, inverse, counts


def _begins(ctx: GraphBuilder, ordered: Tensor) -> Tensor:
    """Whether each element or row differs from the one before it; the first one does."""
    count = ordered.extents[0]
    if count == 1:
        return ctx.full(True, "i1", (1,))
    if not isinstance(count, int):
        return _begins_of_named(ctx, ordered)
    rest = count - 1
    left, right = ctx.slice(ordered, 0, 0, rest, rest), ctx.slice(ordered, 0, 1, count, rest)
    differs = ctx.emit_one("ne", [left, right], TensorType("i1", (rest, *ordered.extents[1:])))
    if ordered.rank == 2:
        differs = ctx.reduce("any", differs, [1], False)
    return ctx.cat([ctx.full(True, "i1", (1,)), differs], 0, TensorType("i1", (count,)))


def _begins_of_named(ctx: GraphBuilder, ordered: Tensor) -> Tensor:
    """The same where only a call knows how many there are, perhaps none."""
    places = _iota(ctx, ordered.extents[0])
    zero = ctx.full(0, "i64", places.extents)
    one = ctx.full(1, "i64", places.extents)
    before = ctx.emit_one("maximum", [ctx.emit_one("sub", [places, one], places.type), zero], places.type)
    earlier = ctx.emit_one("index_select", [ordered, before], ordered.type, {"dim": 0})
    differs = ctx.emit_one("ne", [earlier, ordered], TensorType("i1", ordered.extents))
    if ordered.rank == 2:
        differs = ctx.reduce("any", differs, [1], False)
    first = ctx.emit_one("eq", [places, zero], TensorType("i1", places.extents))
    return ctx.emit_one("logical_or", [first, differs], first.type)


def _iota(ctx: GraphBuilder, count: Dim) -> Tensor:
    return ctx.emit_one("iota", [], TensorType("i64", (count,)), {"start": 0, "step": 1})
