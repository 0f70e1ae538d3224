# SPDX-License-Identifier: Apache-2.0
"""StableHLO's gather and scatter by any dimension numbers: places along some dims, windows along the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from straightline.capture.builder import Dim, Dims, TensorType
from straightline.capture.extents import product_of
from straightline.capture.graph_builder import FLOATS, Reject, Tensor, known
from straightline.capture.jax import values as v
from straightline.capture.jax.elementwise import combined
from straightline.capture.jax.importer import Importer, Op, converter
from straightline.capture.jax.reduction import combination
from straightline.capture.jax.shape import iota, sliced
from straightline.capture.jax.values import Known, Value


@dataclass
class Places:
    """Where windows of an operand begin, one for each position of the batch."""

    #: Sizes of the batch.
    batch: tuple[Dim, ...]
    #: Operand's dims that an index moves along, ascending, and the index of each: i64 over the batch.
    dims: list[int]
    starts: list[Tensor]


def _places(ctx: Importer, indices: Value, vector_dim: int, index_map: Sequence[int], own: Sequence[int],
            theirs: Sequence[int]) -> Places:  # fmt: skip
    """`own`: dims of the operand that go with dims `theirs` of the indices."""
    tensor = ctx.tensor(indices)
    if vector_dim == tensor.rank:
        tensor = ctx.reshape(tensor, (*tensor.extents, 1))
    elif vector_dim != tensor.rank - 1:
        tensor = ctx.permute(tensor, [d for d in range(tensor.rank) if d != vector_dim] + [vector_dim])
    batch = tensor.extents[:-1]
    found: dict[int, Tensor] = {}
    for place, dim in enumerate(index_map):
        found[dim] = ctx.cast(ctx.select(tensor, tensor.rank - 1, place), "i64")
    for dim, other in zip(own, theirs):
        along = other - (1 if other > vector_dim else 0)
        found[dim] = iota(ctx, batch, along, "i64")
    dims = sorted(found)
    return Places(batch, dims, [found[d] for d in dims])


def _window_indices(ctx: Importer, places: Places, sizes: Sequence[int]) -> list[Tensor]:
    """Indices over the batch and a dim for each indexed dim: each start and the `sizes` elements behind it."""
    extents = (*places.batch, *sizes)
    rank, lead = len(extents), len(places.batch)
    found = []
    for place, (start, size) in enumerate(zip(places.starts, sizes)):
        index = ctx.reshape(start, (*places.batch, *(1 for _ in sizes)))
        if size > 1:
            offsets = ctx.reshape(ctx.iota(size), [size if d == lead + place else 1 for d in range(rank)])
            both = tuple(size if d == lead + place else e for d, e in enumerate(index.extents))
            index = ctx.binary("add", ctx.expand(index, both), ctx.expand(offsets, both))
        found.append(ctx.expand(index, extents))
    return found


def _first_index_dim(dims: Sequence[int]) -> int:
    """Where op.index puts the dims of its indices: in place of the indexed ones where these follow each other, else first."""
    return dims[0] if list(dims) == list(range(dims[0], dims[0] + len(dims))) else 0


def _one_window(ctx: Importer, op: Op, x: Tensor, n: Any, sizes: Sequence[Dim]) -> Tensor | None:
    """A gather of one window whose place is known, which JAX makes of a slice of a named size, as that slice."""
    given = op.inputs[1]
    if op.kind == "gather" or not isinstance(given, Known) or list(n.operand_batching_dims):
        return None
    batch = [e for d, e in enumerate(given.array.shape) if d != n.index_vector_dim]
    if any(e != 1 for e in batch):
        return None
    starts: dict[int, Dim] = dict(zip(list(n.start_index_map), v.dims(given)))
    parts: list[tuple[Dim, Dim, int]] = []
    for dim, (size, extent) in enumerate(zip(sizes, x.extents)):
        start = starts.get(dim, 0)
        if ctx.bounds(start)[0] < 0 or ctx.bounds(extent - size - start)[0] < 0:
            return None
        parts.append((start, start + size, 1))
    found = sliced(ctx, x, parts)
    kept = iter([e for d, e in enumerate(found.extents) if d not in list(n.collapsed_slice_dims)])
    offsets = list(n.offset_dims)
    return ctx.reshape(found, [next(kept) if d in offsets else 1 for d in range(len(batch) + len(offsets))])


@converter("gather", "dynamic_gather")
def _gather(ctx: Importer, op: Op) -> Tensor:
    n = stablehlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    x = ctx.tensor(op.inputs[0])
    sizes: list[Dim] = (
        list(op.numbers("slice_sizes")) if op.kind == "gather" else ctx.sizes(op.inputs[2], "the sizes of a gather")
    )
    own = list(n.operand_batching_dims)
    collapsed = [*n.collapsed_slice_dims, *own]
    window = _one_window(ctx, op, x, n, sizes)
    if window is not None:
        return window
    places = _places(
        ctx, op.inputs[1], n.index_vector_dim, list(n.start_index_map), own, list(n.start_indices_batching_dims)
    )
    x, places = _whole_dims(ctx, x, places, sizes)
    offset_dims = list(n.offset_dims)
    kept = [d for d in range(x.rank) if d not in collapsed]
    if not places.dims:
        return _spread_over(ctx, x, collapsed, places.batch, offset_dims, sizes)
    within = []
    for dim, start in zip(places.dims, places.starts):
        within.append(start if dim in own else _clamped(ctx, start, x.extents[dim], sizes[dim]))
    places = Places(places.batch, places.dims, within)
    widths = [sizes[d] for d in places.dims]
    if not all(isinstance(w, int) for w in widths):
        raise Reject("a gather of windows of a named size along an indexed dim", "constant sizes, or all of the dim")
    indices = _window_indices(ctx, places, [int(w) for w in widths])  # type: ignore[arg-type]
    return _read(ctx, x, places, indices, kept, offset_dims)


def _whole_dims(ctx: Importer, x: Tensor, places: Places, sizes: Sequence[Dim]) -> tuple[Tensor, Places]:
    """Without indices of dims of which all is read (they begin at 0), and without what no index reaches."""
    dims, starts = [], []
    for dim, start in zip(places.dims, places.starts):
        if sizes[dim] == x.extents[dim]:
            continue
        dims.append(dim)
        starts.append(start)
    if not dims and places.dims and places.batch:  # one stays, so that the batch does
        dims, starts = places.dims[:1], places.starts[:1]
    for dim in range(x.rank):
        if dim not in places.dims:
            x = ctx.slice_to(x, dim, 0, sizes[dim])
    return x, Places(places.batch, dims, starts)


def _clamped(ctx: Importer, start: Tensor, size: Dim, count: Dim) -> Tensor:
    most = size - count
    if isinstance(most, int):
        return ctx.unary("clamp", start, min=0, max=most)
    low = ctx.unary("clamp", start, min=0)
    return ctx.binary("minimum", low, ctx.expand(ctx.scalar(most, "i64"), low.extents))


def _read(
    ctx: Importer, x: Tensor, places: Places, indices: list[Tensor], kept: list[int], offset_dims: list[int]
) -> Tensor:
    """Elements at the places, in the order of the result: the batch, with the kept dims at `offset_dims`."""
    lead, first = len(places.batch), _first_index_dim(places.dims)
    extents = indices[0].extents
    others = [d for d in range(x.rank) if d not in places.dims]
    shape = (*(x.extents[d] for d in others[:first]), *extents, *(x.extents[d] for d in others[first:]))
    if len(indices) == 1 and indices[0].rank == 1:
        type = TensorType(x.dtype, shape)
        found = ctx.emit_one("index_select", [x, indices[0]], type, {"dim": places.dims[0]})
    else:
        found = ctx.emit_one("index", [x, *indices], TensorType(x.dtype, shape), {"dims": places.dims})
    # Where the batch's dims, and each dim of x, stand now.
    batch = [first + i for i in range(lead)]
    at = {d: first + lead + i for i, d in enumerate(places.dims)}
    at |= {d: i if i < first else i + len(extents) for i, d in enumerate(others)}
    gone = [at[d] for d in range(x.rank) if d not in kept]
    order: list[int] = []
    rest, offsets = iter(batch), iter([at[d] for d in kept])
    for place in range(lead + len(kept)):
        order.append(next(offsets) if place in offset_dims else next(rest))
    found = ctx.permute(found, [*order, *gone]) if [*order, *gone] != list(range(found.rank)) else found
    return ctx.reshape(found, found.extents[: len(order)])


def _spread_over(ctx: Importer, x: Tensor, collapsed: list[int], batch: Sequence[Dim], offset_dims: list[int],
                 sizes: Sequence[Dim]) -> Tensor:  # fmt: skip
    """A gather that reads all of the operand at each position."""
    kept = ctx.reshape(x, [e for d, e in enumerate(x.extents) if d not in collapsed])
    rank = len(batch) + kept.rank
    rest, own = iter(batch), iter(kept.extents)
    extents = [next(own) if d in offset_dims else next(rest) for d in range(rank)]
    wide = ctx.reshape(kept, [e if d in offset_dims else 1 for d, e in enumerate(extents)])
    return ctx.expand(wide, extents)


# Scatter --------------------------------------------------------------------------------------------------------------


def is_replacing(block: ir.Block) -> bool:
    """Whether a scatter's function gives the update as it is."""
    operations = [view.operation for view in block.operations]
    return len(operations) == 1 and list(operations[0].operands) == [block.arguments[1]]


@converter("scatter")
def _scatter(ctx: Importer, op: Op) -> Tensor:
    if len(op.inputs) != 3:
        raise Reject(f"a scatter into {len(op.inputs) // 3} arrays", "one array")
    n = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    kind = "replace" if is_replacing(op.body()) else combination(op.body())
    x, updates = ctx.tensor(op.inputs[0]), ctx.tensor(op.inputs[2])
    if _is_subtracting(op.body()):
        is_float = x.dtype in FLOATS
        zero = ctx.full(0, x.dtype, updates.extents)
        kind, updates = "add", ctx.unary("neg", updates) if is_float else ctx.binary("sub", zero, updates)
    own = list(n.input_batching_dims)
    inserted = [*n.inserted_window_dims, *own]
    places = _places(ctx, op.inputs[1], n.index_vector_dim, list(n.scattered_dims_to_operand_dims), own,
                     list(n.scatter_indices_batching_dims))  # fmt: skip
    window = list(n.update_window_dims)
    batch = [d for d in range(updates.rank) if d not in window]
    kept = [d for d in range(x.rank) if d not in inserted]
    # The updates as the batch, then a dim for each of x's.
    moved = ctx.permute(updates, batch + window) if batch + window != list(range(updates.rank)) else updates
    widths = dict(zip(kept, moved.extents[len(batch) :]))
    moved = ctx.reshape(moved, (*places.batch, *(widths.get(d, 1) for d in range(x.rank))))
    if not places.dims:
        return _whole(ctx, op, kind, x, moved)
    for dim in kept:
        if dim not in places.dims and widths[dim] != x.extents[dim]:  # a window that is not the whole dim begins at 0
            places = Places(places.batch, [*places.dims, dim], [*places.starts, ctx.full(0, "i64", places.batch)])
    order = sorted(range(len(places.dims)), key=lambda i: places.dims[i])
    places = Places(places.batch, [places.dims[i] for i in order], [places.starts[i] for i in order])
    sizes = [widths.get(d, 1) for d in range(x.rank)]
    if kind in ("replace", "add", *_COMBINES):
        return _written(ctx, kind, x, places, moved, sizes)
    if _are_distinct(op, places):
        old = _old(ctx, x, places, moved.rank, sizes)
        return _written(ctx, "replace", x, places, ctx.applied(op.body(), [old, moved])[0], sizes)
    return _one_by_one(ctx, op, x, places, moved, sizes)


def _is_subtracting(block: ir.Block) -> bool:
    operations = [view.operation for view in block.operations]
    is_one = len(operations) == 2 and operations[0].name == "stablehlo.subtract"
    return (
        is_one
        and list(operations[0].operands) == list(block.arguments)
        and list(operations[1].operands) == list(operations[0].results)
    )


def _whole(ctx: Importer, op: Op, kind: str | None, x: Tensor, moved: Tensor) -> Tensor:
    part = ctx.reshape(moved, x.extents)
    if kind in ("replace", "add", *_COMBINES):
        return part if kind == "replace" else combined(ctx, kind, x, part)
    return ctx.applied(op.body(), [x, part])[0]


# Functions of their own -----------------------------------------------------------------------------------------------


def _are_distinct(op: Op, places: Places) -> bool:
    """Whether no two windows are at one place, as far as the program knows."""
    if all(e == 1 for e in places.batch) or ir.BoolAttr(op.attributes["unique_indices"]).value:
        return True
    n = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    given = op.inputs[1]
    if not isinstance(given, Known) or given.is_sizes or n.input_batching_dims:
        return False
    if len(n.inserted_window_dims) < len(n.scattered_dims_to_operand_dims):
        return False  # windows of several places of a dim, which may lie over each other
    whole = given.array[..., None] if n.index_vector_dim == given.array.ndim else given.array
    rows = np.moveaxis(whole, n.index_vector_dim, -1).reshape(-1, whole.shape[n.index_vector_dim])
    return len(np.unique(rows, axis=0)) == len(rows)


def _old(ctx: Importer, x: Tensor, places: Places, rank: int, sizes: list[Dim]) -> Tensor:
    """What x has in the windows [batch, a dim for each of x's]; of one that does not fit, of the nearest that does."""
    widths = [sizes[d] for d in places.dims]
    if not all(isinstance(w, int) for w in widths):
        raise Reject("a scatter of windows of a named size along an indexed dim", "constant sizes, or all of the dim")
    starts = [_clamped(ctx, s, x.extents[d], w) for d, s, w in zip(places.dims, places.starts, widths)]
    within = Places(places.batch, places.dims, starts)
    indices = _window_indices(ctx, within, [int(w) for w in widths])  # type: ignore[arg-type]
    return _read(ctx, x, within, indices, list(range(x.rank)), list(range(rank - x.rank, rank)))


def _one_by_one(ctx: Importer, op: Op, x: Tensor, places: Places, moved: Tensor, sizes: list[Dim]) -> Tensor:
    """Windows that may lie over each other, in their order: a loop, in which each is read, changed and written."""
    count = known(product_of(places.batch))
    starts = [ctx.reshape(s, (count,)) for s in places.starts]
    rows = ctx.reshape(moved, (count, *sizes))
    first = ctx.full(0, "i64", (1,))  # the place once more, as an array: the loop's own is a number
    with ctx.inner_region([TensorType("i64", ()), first.type, x.type]) as (given, yields):
        _, place, now = given

        def at(t: Tensor) -> Tensor:
            return ctx.emit_one("index_select", [t, place], TensorType(t.dtype, (1, *t.extents[1:])), {"dim": 0})

        here = Places((1,), places.dims, [at(s) for s in starts])
        old = _old(ctx, now, here, rows.rank, sizes)
        new = ctx.applied(op.body(), [old, at(rows)])[0]
        widths = [sizes[d] for d in places.dims]
        fits = _fits(ctx, now, here, widths)
        if fits is not None:
            wide = ctx.expand(ctx.reshape(fits, (1,) * new.rank), new.extents)
            new = ctx.where(wide, new, old)
        inside = [_clamped(ctx, s, x.extents[d], w) for d, s, w in zip(here.dims, here.starts, widths)]
        yields.append(ctx.binary("add", place, 1))
        yields.append(_written(ctx, "replace", now, Places((1,), here.dims, inside), new, sizes, fit=True))
    types = [first.type, x.type]
    return ctx.emit("for", [first, x], types, {"bounds": Dims((0, count, 1))}, regions=1)[1]


# Writing --------------------------------------------------------------------------------------------------------------


def _written(ctx: Importer, kind: str, x: Tensor, places: Places, moved: Tensor, widths: list[Dim],
             fit: bool = False) -> Tensor:  # fmt: skip
    """X with the windows of `moved` [batch, a dim for each of x's] at the places. Windows that do not fit are left out.

    `fit` says that all do.
    """
    sizes = [widths[d] for d in places.dims]
    if not all(isinstance(w, int) for w in sizes):
        raise Reject("a scatter of windows of a named size along an indexed dim", "constant sizes, or all of the dim")
    starts, fits = places.starts, None if fit else _fits(ctx, x, places, sizes)
    first, old = places.dims[0], x.extents
    if fits is not None:  # a row more, which takes what does not fit, and is left out at the end
        spare = int(sizes[0])  # type: ignore[arg-type]
        x = ctx.padded(x, [(0, spare if d == first else 0) for d in range(x.rank)], 0)
        last = ctx.expand(ctx.scalar(old[first], "i64"), places.batch)
        starts = [ctx.where(fits, starts[0], last), *(ctx.where(fits, s, 0) for s in starts[1:])]
    indices = _window_indices(ctx, Places(places.batch, places.dims, starts), [int(w) for w in sizes])  # type: ignore[arg-type]
    lead, rank = len(places.batch), x.rank
    others = [d for d in range(rank) if d not in places.dims]
    if kind in ("replace", "add"):
        at = _first_index_dim(places.dims)
        order = [*(lead + d for d in others[:at]), *range(lead), *(lead + d for d in places.dims),
                 *(lead + d for d in others[at:])]  # fmt: skip
        values = ctx.permute(moved, order) if order != list(range(moved.rank)) else moved
        found = ctx.emit_one(
            "index_put", [x, *indices, values], x.type, {"dims": places.dims, "accumulate": kind == "add"}
        )
    else:
        found = _combined_at(ctx, kind, x, places, indices, moved, others)
    return ctx.slice_to(found, first, 0, old[first]) if fits is not None else found


def _fits(ctx: Importer, x: Tensor, places: Places, sizes: list[Dim]) -> Tensor | None:
    """Whether each window lies within x; None where all do."""
    found: Tensor | None = None
    for dim, start, size in zip(places.dims, places.starts, sizes):
        if ctx.made(ctx.before_views(start), "iota") or ctx.literal_of(start) == 0:
            continue  # a batching dim, or a window that begins at 0
        most = x.extents[dim] - size
        limit = most if isinstance(most, int) else ctx.expand(ctx.scalar(most, "i64"), start.extents)
        both = ctx.emit_one(
            "logical_and",
            [ctx.compare("ge", start, 0), ctx.compare("le", start, limit)],
            TensorType("i1", start.extents),
        )
        found = both if found is None else ctx.emit_one("logical_and", [found, both], both.type)
    return found


_COMBINES = {"multiply": "prod", "maximum": "amax", "minimum": "amin"}


def _combined_at(ctx: Importer, kind: str, x: Tensor, places: Places, indices: list[Tensor], moved: Tensor,
                 others: list[int]) -> Tensor:  # fmt: skip
    """Products and extremes at the places, by the number of each element in x."""
    lead = len(places.batch)
    order = [*range(lead), *(lead + d for d in places.dims), *(lead + d for d in others)]
    values = ctx.permute(moved, order) if order != list(range(moved.rank)) else moved
    strides: list[Dim] = [product_of(list(x.extents[d + 1 :])) for d in range(x.rank)]
    total: Tensor | None = None

    def add(t: Tensor) -> None:
        nonlocal total
        wide = ctx.expand(t, values.extents)
        total = wide if total is None else ctx.binary("add", total, wide)

    for index, dim in zip(indices, places.dims):
        wide = ctx.reshape(index, (*index.extents, *(1 for _ in others)))
        add(ctx.binary("mul", wide, ctx.expand(ctx.scalar(strides[dim], "i64"), wide.extents)))
    for place, dim in enumerate(others):
        own = ctx.reshape(
            ctx.iota(x.extents[dim]),
            [x.extents[dim] if d == len(indices[0].extents) + place else 1 for d in range(values.rank)],
        )
        add(ctx.binary("mul", own, ctx.expand(ctx.scalar(strides[dim], "i64"), own.extents)))
    assert total is not None
    count = product_of(list(values.extents))
    flat = ctx.reshape(x, (product_of(list(x.extents)),))
    operands = [flat, ctx.reshape(total, (count,)), ctx.reshape(values, (count,))]
    found = ctx.emit_one("scatter", operands, flat.type, {"dim": 0, "reduce": _COMBINES[kind]})
    return ctx.reshape(found, x.extents)
