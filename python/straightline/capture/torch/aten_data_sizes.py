# SPDX-License-Identifier: Apache-2.0
"""ATen ops whose results have sizes that depend on data, and numbers that are elements of tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from straightline.capture.builder import Dim, Extent, TensorType
from straightline.capture.extents import broadcast, product_of
from straightline.capture.graph_builder import FLOATS, SLICE_END_BY_TYPE, Reject, Tensor, wrap
from straightline.capture.torch.data_sizes import scalar_of, scalar_of_parts
from straightline.capture.torch.importer import Arguments, Importer, converter, dtype_name

_SCALAR = TensorType("i64", ())


def _first(ctx: Importer, x: Tensor, count: Dim) -> Tensor:
    """The first `count` rows."""
    return from_place(ctx, x, 0, ctx.scalar(0, "i64"), count)


def from_place(ctx: Importer, x: Tensor, dim: int, start: Tensor, count: Dim) -> Tensor:
    """`count` elements of a dim from a place on that only a call knows; both are within the dim."""
    extents = (*x.extents[:dim], count, *x.extents[dim + 1 :])
    attributes = {"dim": dim, "length": count if isinstance(count, int) else -1}
    return ctx.emit_one("dynamic_slice", [x, start], TensorType(x.dtype, extents), attributes)


def _binary(ctx: Importer, name: str, x: Tensor, y: Tensor | int) -> Tensor:
    return ctx.emit_one(name, [x, ctx.operand(y, x.type)], x.type)


def _iota(ctx: Importer, count: Dim) -> Tensor:
    return ctx.emit_one("iota", [], TensorType("i64", (count,)), {"start": 0, "step": 1})


def _ones(ctx: Importer, mask: Tensor) -> Tensor:
    """A mask of rank 1 as numbers."""
    if mask.dtype != "i1":
        mask = ctx.emit_one("ne", [mask, ctx.operand(0, mask.type)], TensorType("i1", mask.extents))
    return ctx.cast(mask, "i64")


def _total(ctx: Importer, numbers: Tensor) -> Tensor:
    return ctx.reduce("sum", numbers, [0], False)


def true_places(ctx: Importer, mask: Tensor, size: int | torch.SymInt) -> Tensor:
    """Where a mask, read as if it had rank 1, is true: [size] numbers in their order.

    The i-th true element is written to place i of memory that has a place for each element, and one more for all that are false.
    """
    count = product_of(mask.extents)
    ones = _ones(ctx, ctx.reshape(mask, (count,)))
    found = ctx.data_sizes.give(ctx, size, _total(ctx, ones), count)
    if count == 0:
        return ctx.full(0, "i64", (0,))
    before = _binary(ctx, "sub", ctx.emit_one("cumsum", [ones], ones.type, {"dim": 0}), 1)
    is_true = ctx.emit_one("ne", [ones, ctx.operand(0, ones.type)], TensorType("i1", ones.extents))
    place = ctx.emit_one("where", [is_true, before, ctx.operand(count, ones.type)], ones.type)
    memory = ctx.full(0, "i64", (count + 1,))
    written = ctx.emit_one("scatter", [memory, place, _iota(ctx, count)], memory.type, {"dim": 0, "reduce": "none"})
    return _first(ctx, written, found)


def coordinates(ctx: Importer, mask: Tensor, size: int | torch.SymInt) -> list[Tensor]:
    """For each dim of a mask the indices of its true elements."""
    flat = true_places(ctx, mask, size)
    found: list[Tensor] = []
    below: Dim = 1
    for dim in reversed(range(mask.rank)):
        index = flat if below == 1 else _binary(ctx, "floor_divide", flat, below)
        if dim > 0:
            index = _binary(ctx, "remainder", index, mask.extents[dim])
        below = below * mask.extents[dim]
        found.insert(0, index)
    return found


def _rows(node: torch.fx.Node) -> int | torch.SymInt:
    return node.meta["val"].shape[0]


@converter("aten.nonzero.default")
def _nonzero(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    mask = ctx.reshape(a.self, (1,)) if a.self.rank == 0 else a.self
    indices = coordinates(ctx, mask, _rows(node))[: a.self.rank]
    type = ctx.result_type(node)
    if not indices:
        return ctx.full(0, "i64", type.extents)
    columns = [ctx.reshape(index, (type.extents[0], 1)) for index in indices]
    return columns[0] if len(columns) == 1 else ctx.cat(columns, 1, type)


def picked(ctx: Importer, x: Tensor, dim: int, mask: Tensor, size: int | torch.SymInt) -> Tensor:
    """The parts of x where a mask over its dims from `dim` on is true: one dim in place of those."""
    before, after = x.extents[:dim], x.extents[dim + mask.rank :]
    flat = ctx.reshape(x, (*before, product_of(x.extents[dim : dim + mask.rank]), *after))
    places = true_places(ctx, mask, size)
    type = TensorType(x.dtype, (*before, places.extents[0], *after))
    if flat.extents[dim] == 0:
        return ctx.full(0, x.dtype, type.extents)
    return ctx.emit_one("index_select", [flat, places], type, {"dim": dim})


@converter("aten.masked_select.default")
def _masked_select(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    extents = broadcast(a.self.extents, a.mask.extents) or (1,)
    x, mask = ctx.expand(a.self, extents), ctx.expand(a.mask, extents)
    return picked(ctx, x, 0, mask, _rows(node))


# Numbers --------------------------------------------------------------------------------------------------------------


@converter("aten.item.default", "aten._local_scalar_dense.default")
def _item(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor | Dim:
    """An integer is a size, or a number that no size uses; a float stays a 0-d tensor."""
    element = ctx.reshape(a.self, ())
    value = node.meta["val"]
    if isinstance(value, torch.SymInt) and element.dtype not in (*FLOATS, "i1"):
        return ctx.data_sizes.number(ctx, value, ctx.cast(element, "i64"))
    if isinstance(value, torch.SymFloat) and element.dtype in FLOATS:
        return element
    raise Reject(f"item of {element.dtype}", "the tensor itself in place of the number")


def sliced(ctx: Importer, x: Tensor, dim: int, start: Dim | None, end: Dim | None, size: int | torch.SymInt) -> Tensor:
    """A slice whose bounds are numbers that depend on data, as Python has it; `size` is torch's size of the result."""
    extent = x.extents[dim]
    limit = ctx.scalar(extent, "i64")

    first = _slice_bound(ctx, 0 if start is None else start, limit)
    last = limit if end is None else _slice_bound(ctx, end, limit)
    count = _binary(ctx, "maximum", _binary(ctx, "sub", last, first), 0)
    return from_place(ctx, x, dim, first, ctx.data_sizes.give(ctx, size, count, extent))


def _slice_bound(ctx: Importer, bound: Dim, limit: Tensor) -> Tensor:
    """A bound of a slice as a place in 0 .. limit, as Python has it."""
    wrapped = _wrapped(ctx, scalar_of(ctx, bound), limit)
    return _binary(ctx, "minimum", _binary(ctx, "maximum", wrapped, 0), limit)


def _wrapped(ctx: Importer, number: Tensor, limit: Tensor) -> Tensor:
    """A place counted from the end, where it is negative, as one from the beginning."""
    negative = ctx.emit_one("lt", [number, ctx.operand(0, _SCALAR)], TensorType("i1", ()))
    return ctx.emit_one("where", [negative, _binary(ctx, "add", number, limit), number], _SCALAR)


def _check_within(ctx: Importer, place: Tensor, last: Tensor, words: str) -> None:
    """Ends a call whose place is not in 0 .. last: a device's own kernels would end the process' use of it."""
    flag = TensorType("i1", ())
    begins = ctx.emit_one("ge", [place, ctx.operand(0, _SCALAR)], flag)
    fits = ctx.emit_one("logical_and", [begins, ctx.emit_one("le", [place, last], flag)], flag)
    ctx.emit("check", [fits], [], {"message": words})


def _place(ctx: Importer, x: Tensor, dim: int, index: Dim) -> Tensor:
    """[1]: an index that only a call knows, from the beginning; one that is out of range ends a call."""
    size = x.extents[dim]
    limit = ctx.scalar(size, "i64")
    place = _wrapped(ctx, scalar_of(ctx, index), limit)
    if ctx.data_sizes.bounds(index)[0] < 0 or ctx.data_sizes.bounds(index - size)[1] >= 0:
        words = f"index {index} is out of range for dimension {dim} of size {size}"
        _check_within(ctx, place, _binary(ctx, "sub", limit, 1), words)
    return ctx.reshape(place, (1,))


def selected(ctx: Importer, x: Tensor, dim: int, index: Dim) -> Tensor:
    """The part at an index that only a call knows, which ends a call where it is out of range."""
    before, after = x.extents[:dim], x.extents[dim + 1 :]
    type = TensorType(x.dtype, (*before, 1, *after))
    part = ctx.emit_one("index_select", [x, _place(ctx, x, dim, index)], type, {"dim": dim})
    return ctx.reshape(part, (*before, *after))


def with_selected(ctx: Importer, x: Tensor, dim: int, index: Dim, part: Tensor) -> Tensor:
    """`x` with another part at an index that only a call knows, which ends a call where it is out of range."""
    source = ctx.reshape(part, (*x.extents[:dim], 1, *x.extents[dim + 1 :]))
    return ctx.emit_one("index_copy", [x, _place(ctx, x, dim, index), source], x.type, {"dim": dim})


def narrowed(ctx: Importer, x: Tensor, dim: int, start: Dim, length: Dim) -> Tensor:
    """`length` elements from a place on that only a call knows, where sizes or the place are named."""
    limit = ctx.scalar(x.extents[dim], "i64")
    first = _wrapped(ctx, scalar_of(ctx, start), limit)
    words = f"narrow: {length} elements from {start} on are not within dimension {dim}"
    _check_within(ctx, first, _binary(ctx, "sub", limit, scalar_of(ctx, length)), words)
    return from_place(ctx, x, dim, first, length)


def from_named_place(ctx: Importer, x: Tensor, dim: int, start: Extent, count: Dim) -> Tensor:
    """A slice that begins at a named size; the guards of a call imply that its `count` elements are within the dim."""
    return from_place(ctx, x, dim, _named_place(ctx, start, x.extents[dim]), count)


def _named_place(ctx: Importer, place: Extent, size: Dim) -> Tensor:
    """A place that sizes name, from the beginning and at most `size`, as Python's slices have it."""
    low, high = ctx.data_sizes.bounds(place)
    first = ctx.scalar(place, "i64") if low >= 0 else scalar_of_parts(ctx, place)
    limit = ctx.scalar(size, "i64")
    if high < 0:
        first = _binary(ctx, "add", first, limit)
    elif low < 0:
        first = _wrapped(ctx, first, limit)
    if ctx.data_sizes.bounds(size - place)[0] < 0 or low < 0:
        first = _binary(ctx, "minimum", _binary(ctx, "maximum", first, 0), limit)
    return first


def placed_at(ctx: Importer, x: Tensor, dim: int, start: Extent, source: Tensor) -> Tensor:
    """`x` with the source in it from a named place on.

    Where the source is within the dim for certain: what is before, the source, and what is behind. Else it is written row by row.
    """
    size, count = x.extents[dim], source.extents[dim]
    if ctx.data_sizes.bounds(start)[0] < 0 or ctx.data_sizes.bounds(size - count - start)[0] < 0:
        return with_rows(ctx, x, dim, start, source)
    before = ctx.slice(x, dim, 0, SLICE_END_BY_TYPE, start)
    end, rest = start + count, size - start - count
    behind = from_place(ctx, x, dim, scalar_of(ctx, end), rest)
    return ctx.emit_one("cat", [before, source, behind], x.type, {"dim": dim})


def with_rows(ctx: Importer, x: Tensor, dim: int, start: Dim, source: Tensor) -> Tensor:
    """`x` with the source in it from a place on that Python's slices would begin at; the source is as long as the slice is."""
    first = _slice_bound(ctx, start, ctx.scalar(x.extents[dim], "i64"))
    places = _iota(ctx, source.extents[dim])
    places = ctx.emit_one("add", [places, ctx.operand(first, places.type)], places.type)
    return ctx.emit_one("index_copy", [x, places, source], x.type, {"dim": dim})


def padded_by_sizes(ctx: Importer, x: Tensor, pads: Sequence[Dim], value: float | int) -> Tensor:
    """`x` between constants, of which as many as named sizes say; none of them crops."""
    for pad in pads:
        if ctx.data_sizes.bounds(pad)[0] < 0:
            raise Reject(f"padding by {pad}, which may be negative", "a size with a bound, so that it is not")
    for i in range(len(pads) // 2):
        dim = x.rank - 1 - i
        before, after = x.extents[:dim], x.extents[dim + 1 :]
        parts = [
            x if pad is None else ctx.full(value, x.dtype, (*before, pad, *after))
            for pad in (pads[2 * i], None, pads[2 * i + 1])
            if pad != 0
        ]
        if len(parts) > 1:
            size = x.extents[dim] + pads[2 * i] + pads[2 * i + 1]
            x = ctx.emit_one("cat", parts, TensorType(x.dtype, (*before, size, *after)), {"dim": dim})
    return x


def rolled_by_number(ctx: Importer, x: Tensor, dim: int, shift: Dim) -> Tensor:
    """A dim rolled by a number that only a call knows: element i comes from place i - shift, modulo the size."""
    count = x.extents[dim]
    if count == 0:
        return x
    places = _iota(ctx, count)
    moved = _binary(ctx, "sub", places, scalar_of(ctx, shift))
    moved = ctx.emit_one("remainder", [moved, ctx.operand(ctx.scalar(count, "i64"), places.type)], places.type)
    return ctx.emit_one("index_select", [x, moved], x.type, {"dim": dim})


# Repetitions and sets -------------------------------------------------------------------------------------------------


def _repeats(ctx: Importer, counts: Tensor, size: int | torch.SymInt) -> Tensor:
    """[size] numbers: i as often as counts[i] says. The number at a place is how many repetitions end before or at it."""
    counts = ctx.cast(ctx.reshape(counts, (product_of(counts.extents),)), "i64")
    found = ctx.data_sizes.give(ctx, size, _total(ctx, counts))
    if counts.extents == (0,):
        return ctx.full(0, "i64", (0,))
    ends = ctx.emit_one("cumsum", [counts], counts.type, {"dim": 0})
    marks = ctx.full(0, "i64", (found + 1,))
    ones = ctx.full(1, "i64", counts.extents)
    marked = ctx.emit_one("scatter", [marks, ends, ones], marks.type, {"dim": 0, "reduce": "sum"})
    passed = ctx.emit_one("cumsum", [marked], marked.type, {"dim": 0})
    return _first(ctx, passed, found)


@converter("aten.repeat_interleave.Tensor")
def _repeat_numbers(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    return ctx.cast(_repeats(ctx, a.repeats, _rows(node)), a.repeats.dtype)


@converter("aten.repeat_interleave.self_Tensor")
def _repeat_rows(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    x = a.self
    if a.dim is None or x.rank == 0:
        x, dim = ctx.reshape(x, (product_of(x.extents),)), 0
    else:
        dim = wrap(a.dim, x.rank)
    counts = ctx.reshape(a.repeats, (product_of(a.repeats.extents),))
    if counts.extents != (x.extents[dim],):
        counts = ctx.expand(counts, (x.extents[dim],))
    rows = _repeats(ctx, counts, node.meta["val"].shape[dim])
    type = TensorType(x.dtype, (*x.extents[:dim], rows.extents[0], *x.extents[dim + 1 :]))
    return ctx.emit_one("index_select", [x, rows], type, {"dim": dim})


#: Above the largest number of an element type that a bincount may have as many places as.
_ABOVE = {"i1": 2, "ui8": 256, "i8": 128}


@converter("aten.bincount.default")
def _bincount(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    """How often each number is there, or the sum of its weights: as many places as the largest needs, `minlength` at least."""
    x, least = a.self, a.get("minlength") or 0
    if x.rank != 1:  # of none eager asks no rank
        raise Reject(f"bincount of {x.rank} dims", "one dim")
    size, dtype = _rows(node), "i64"
    if a.get("weights") is not None:
        dtype = "f32" if a.weights.dtype == "f32" else "f64"
    if (traced := dtype_name(node.meta["val"].dtype)) != dtype:  # so are torch's traces up to 2.11 at least
        raise Reject(
            f"bincount with a result of {dtype} that torch {torch.__version__} traces as {traced}", "a newer torch"
        )
    places = ctx.cast(x, "i64")
    count = x.extents[0]
    if count == 0:
        return ctx.full(0, dtype, (ctx.data_sizes.give(ctx, size, ctx.full(least, "i64"), least),))
    if x.dtype not in ("i1", "ui8"):
        signs = ctx.emit_one("ge", [places, ctx.operand(0, places.type)], TensorType("i1", (count,)))
        holds = ctx.emit_one("all", [signs], TensorType("i1", ()), {"dims": [0], "keepdim": False})
        ctx.emit("check", [holds], [], {"message": "bincount: a number is below 0"})
    last = ctx.full(least - 1, "i64", (1,))  # of no element, which a named count may be, there is no largest
    largest = ctx.reduce("amax", ctx.cat([places, last], 0, TensorType("i64", (count + 1,))), [0], False)
    limit = max(_ABOVE[x.dtype], least) if x.dtype in _ABOVE else None
    found = ctx.data_sizes.give(ctx, size, _binary(ctx, "add", largest, 1), limit)
    each = ctx.full(1, dtype, (count,)) if a.get("weights") is None else ctx.cast(a.weights, dtype)
    memory = ctx.full(0, dtype, (found,))
    return ctx.emit_one("scatter", [memory, places, each], memory.type, {"dim": 0, "reduce": "sum"})


def _runs(ctx: Importer, x: Tensor, size: int | torch.SymInt, order: Tensor | None) -> Sequence[Tensor]:
    """The first of equal neighbours (`size` of them), the number of each element's run, and how long runs are.

    Of rank 2: rows are compared. `order`: where the elements were before they were sorted.
    """
    count = x.extents[0]
    flag = TensorType("i1", (count,))
    if count == 1:
        begins = ctx.full(True, "i1", (1,))
    else:
        rest = count - 1
        before, after = ctx.slice(x, 0, 0, rest, rest), ctx.slice(x, 0, 1, count, rest)
        differs = ctx.emit_one("ne", [after, before], TensorType("i1", (rest, *x.extents[1:])))
        if x.rank == 2:
            differs = ctx.emit_one("any", [differs], TensorType("i1", (rest,)), {"dims": [1], "keepdim": False})
        begins = ctx.cat([ctx.full(True, "i1", (1,)), differs], 0, flag)
    firsts = true_places(ctx, begins, size)
    type = TensorType(x.dtype, (*firsts.extents, *x.extents[1:]))
    values = ctx.emit_one("index_select", [x, firsts], type, {"dim": 0})
    ones = _ones(ctx, begins)
    run = _binary(ctx, "sub", ctx.emit_one("cumsum", [ones], ones.type, {"dim": 0}), 1)
    zeros = ctx.full(0, "i64", (count,))
    each = ctx.full(1, "i64", (count,))
    lengths = ctx.emit_one("scatter", [zeros, run, each], zeros.type, {"dim": 0, "reduce": "sum"})
    if order is not None:
        run = ctx.emit_one("scatter", [zeros, order, run], zeros.type, {"dim": 0, "reduce": "none"})
    return values, run, _first(ctx, lengths, firsts.extents[0])


def _asked_for(ctx: Importer, a: Arguments, results: list[Tensor]) -> list[Tensor]:
    """Values, places and counts; as in ATen one that is not asked for has no elements."""
    values, inverse, lengths = results
    inverse = ctx.reshape(inverse, a.self.extents) if a.return_inverse else ctx.full(0, "i64", (0,))
    return [values, inverse, lengths if a.get("return_counts") else ctx.full(0, "i64", (0,))]


@converter("aten._unique2.default", "aten._unique.default")
def _unique(ctx: Importer, a: Arguments, node: torch.fx.Node) -> list[Tensor]:
    """In order, also where any order would do."""
    x = ctx.reshape(a.self, (product_of(a.self.extents),))
    count = x.extents[0]
    if not isinstance(count, int) or count == 0:
        raise Reject(f"unique of {count} elements", "a static size")
    types = [x.type, TensorType("i64", x.extents)]
    ordered, order = ctx.emit("topk", [x], types, {"dim": 0, "k": count, "largest": False})
    values, inverse, lengths = _runs(ctx, ordered, node.meta["val"][0].shape[0], order)
    return _asked_for(ctx, a, [values, inverse, lengths])[: len(node.meta["val"])]


@converter("aten.unique_consecutive.default")
def _unique_consecutive(ctx: Importer, a: Arguments, node: torch.fx.Node) -> list[Tensor]:
    if a.dim is not None:
        return _unique_rows(ctx, a, node, is_sorted=True)
    x = ctx.reshape(a.self, (product_of(a.self.extents),))
    if not isinstance(x.extents[0], int) or x.extents[0] == 0:
        raise Reject(f"unique_consecutive of {x.extents[0]} elements", "a static size")
    values, inverse, lengths = _runs(ctx, x, node.meta["val"][0].shape[0], None)
    return _asked_for(ctx, a, [values, inverse, lengths])


#: Most elements of a row, of which each is a sort.
_MOST_SORTS = 32


@converter("aten.unique_dim.default")
def _unique_dim(ctx: Importer, a: Arguments, node: torch.fx.Node) -> list[Tensor]:
    return _unique_rows(ctx, a, node, is_sorted=False)


@converter("aten.unique_dim_consecutive.default")
def _unique_dim_consecutive(ctx: Importer, a: Arguments, node: torch.fx.Node) -> list[Tensor]:
    return _unique_rows(ctx, a, node, is_sorted=True)


def _unique_rows(ctx: Importer, a: Arguments, node: torch.fx.Node, is_sorted: bool) -> list[Tensor]:
    """The parts along a dim that differ, in the order of their first elements, then of their second ones, and so on.

    `is_sorted`: only neighbours are compared. ATen gives places and counts whether they are asked for or not.
    """
    dim = wrap(a.dim, a.self.rank)
    sizes = a.self.extents
    if not a.self.type.is_static or 0 in sizes:
        raise Reject(f"unique along dim {dim} of {list(sizes)}", "static sizes, none of them 0")
    order = [dim, *(d for d in range(a.self.rank) if d != dim)]
    count, width = sizes[dim], math.prod(size for d, size in enumerate(sizes) if d != dim)
    rows = ctx.reshape(ctx.permute(a.self, order), (count, width))
    found = node.meta["val"][0].shape[dim]
    if is_sorted:
        values, inverse, lengths = _runs(ctx, rows, found, None)
    elif width > _MOST_SORTS:
        raise Reject(f"unique along dim {dim} of parts of {width} elements", f"{_MOST_SORTS} elements")
    else:
        places = _order_of_rows(ctx, rows)
        ordered = ctx.emit_one("index_select", [rows, places], rows.type, {"dim": 0})
        values, inverse, lengths = _runs(ctx, ordered, found, places)
    shaped = ctx.reshape(values, (values.extents[0], *(sizes[d] for d in order[1:])))
    return [ctx.permute(shaped, [order.index(d) for d in range(a.self.rank)]), inverse, lengths]


def _order_of_rows(ctx: Importer, rows: Tensor) -> Tensor:
    """Where the rows are in their order: stable sorts by the last column first."""
    count, width = rows.extents
    keys = ctx.cast(rows, "ui8") if rows.dtype == "i1" else rows
    type = TensorType("i64", (count,))
    places: Tensor | None = None
    for column in reversed(range(width)):
        key = ctx.reshape(ctx.slice(keys, 1, column, column + 1, 1), (count,))
        if places is not None:
            key = ctx.emit_one("index_select", [key, places], key.type, {"dim": 0})
        _, order = ctx.emit("topk", [key], [key.type, type], {"dim": 0, "k": count, "largest": False})
        places = order if places is None else ctx.emit_one("index_select", [places, order], type, {"dim": 0})
    return places
