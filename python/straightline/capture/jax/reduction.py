# SPDX-License-Identifier: Apache-2.0
"""StableHLO's reductions, windows and sorts, by the shape of their regions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from straightline.capture.builder import Dim, TensorType
from straightline.capture.extents import product_of
from straightline.capture.graph_builder import FLOATS, Reject, Tensor, known
from straightline.capture.jax import values as v
from straightline.capture.jax.elementwise import combined, direction_of
from straightline.capture.jax.importer import Importer, Op, converter
from straightline.capture.jax.shape import _spread
from straightline.capture.jax.values import Known, Value

#: Reductions by the op that combines two elements.
_REDUCTIONS = {"add": "sum", "multiply": "prod", "maximum": "amax", "minimum": "amin"}
_OF_BOOLS = {"or": "any", "and": "all", "maximum": "any", "minimum": "all", "add": "any", "multiply": "all"}
#: A window of other than sums and maxima is combined of at most so many slices.
_MOST_SLICES = 256


def combination(block: ir.Block) -> str | None:
    """The op that a region applies to its two arguments, in whatever order; None where it does more than that."""
    operations = [view.operation for view in block.operations]
    if len(block.arguments) != 2 or len(operations) != 2:
        return None
    first, end = operations
    arguments = list(block.arguments)
    read = list(first.operands)
    both = read == arguments or read == arguments[::-1]
    if len(read) != 2 or not both or list(end.operands) != list(first.results):
        return None
    kind = first.name.removeprefix("stablehlo.")
    return kind if kind in (*_REDUCTIONS, "and", "or", "xor") else None


def _is_neutral(kind: str, value: Value, dtype: str) -> bool:
    """Whether combining with a value changes nothing."""
    number = value.splat if isinstance(value, Known) else None
    if number is None:
        return False
    if dtype == "i1":
        return bool(number) == (_OF_BOOLS.get(kind) == "all")
    if kind in ("add", "or", "xor"):
        return number == 0
    if kind == "multiply":
        return number == 1
    if kind == "and":
        return number == (-1 if not dtype.startswith("u") else (1 << v.BITS[dtype]) - 1)
    if dtype in FLOATS:
        return number == (-math.inf if kind == "maximum" else math.inf)
    info = np.iinfo(v.numpy_dtype(dtype))
    return number == (info.min if kind == "maximum" else info.max)


@converter("reduce")
def _reduce(ctx: Importer, op: Op) -> list[Tensor]:
    dims, count = sorted(op.numbers("dimensions")), len(op.inputs) // 2
    tensors = [ctx.tensor(x) for x in op.inputs[:count]]
    if count == 1:
        kind = combination(op.body())
        if kind is None or _is_of_bits(kind, tensors[0].dtype):
            return _folded(ctx, op, tensors, dims)
        return [reduced(ctx, kind, tensors[0], dims, op.inputs[1])]
    if count == 2 and (name := _is_arg(op.body())) is not None and len(dims) == 1:
        return _arg(ctx, op, name, tensors, dims[0])
    parts = [_own_combination(op.body(), i) for i in range(count)]
    if any(kind is None or _is_of_bits(kind, x.dtype) for kind, x in zip(parts, tensors)):
        return _folded(ctx, op, tensors, dims)
    return [reduced(ctx, str(kind), x, dims, start) for kind, x, start in zip(parts, tensors, op.inputs[count:])]


def _is_of_bits(kind: str, dtype: str) -> bool:
    """Whether a reduction is one of bits, which no op is."""
    return kind == "xor" or (kind in ("and", "or") and dtype != "i1")


def _folded(ctx: Importer, op: Op, tensors: list[Tensor], dims: list[int]) -> list[Tensor]:
    """A reduction by any function, which is associative: of neighbours, then of neighbours of these, in their order."""
    starts = [ctx.tensor(x) for x in op.inputs[len(tensors) :]]
    for dim in reversed(dims):
        size = known(tensors[0].extents[dim])
        while size > 1:
            half = size // 2
            pairs = [ctx.slice_to(t, dim, place, half, 2) for place in (0, 1) for t in tensors]
            joined = ctx.applied(op.body(), pairs)
            if size % 2:
                types = [TensorType(t.dtype, (*t.extents[:dim], half + 1, *t.extents[dim + 1 :])) for t in tensors]
                tails = [ctx.slice_to(t, dim, size - 1, 1) for t in tensors]
                joined = [ctx.cat([a, b], dim, type) for a, b, type in zip(joined, tails, types)]
            tensors, size = joined, half + size % 2
        extents = [e for d, e in enumerate(tensors[0].extents) if d != dim]
        if size == 0:
            tensors = [ctx.expand(start, extents) for start in starts]
        else:
            tensors = [ctx.reshape(t, extents) for t in tensors]
    return ctx.applied(op.body(), [*(ctx.expand(start, tensors[0].extents) for start in starts), *tensors])


def _own_combination(block: ir.Block, place: int) -> str | None:
    """The op that combines the elements of array number `place` alone, in a region of several."""
    arguments = list(block.arguments)
    end = list(block.operations)[-1].operation
    made = end.operands[place].owner
    own = [arguments[place], arguments[place + len(arguments) // 2]]
    if isinstance(made, ir.Block) or list(made.operands) not in (own, own[::-1]):
        return None
    kind = made.name.removeprefix("stablehlo.")
    return kind if kind in (*_REDUCTIONS, "and", "or") else None


def reduced(ctx: Importer, kind: str, x: Tensor, dims: list[int], start: Value) -> Tensor:
    """Elements along some dims, combined, and a start."""
    if not dims:
        found = x
    elif any(x.extents[d] == 0 for d in dims):
        kept = [e for d, e in enumerate(x.extents) if d not in dims]
        return ctx.expand(ctx.tensor(start), kept)
    elif x.dtype == "i1":
        name = _OF_BOOLS.get(kind)
        if name is None:
            raise Reject(f"a reduction of bools by {kind}", "and, or")
        found = ctx.reduce(name, x, dims, False)
    elif kind not in _REDUCTIONS:
        raise Reject(f"a reduction of integers by {kind}", "add, mul, max, min; and, or of bools")
    else:
        found = ctx.reduce(_REDUCTIONS[kind], x, dims, False)
    if _is_neutral(kind, start, x.dtype):
        return found
    return combined(ctx, kind, found, ctx.expand(ctx.tensor(start), found.extents))


def _is_arg(block: ir.Block) -> str | None:
    """The name "argmax" or "argmin" where a region of two arrays is that of jnp: values compared, then places, a NaN first."""
    kinds = [view.operation.name.removeprefix("stablehlo.") for view in block.operations]
    arguments = list(block.arguments)
    if kinds.count("select") != 2 or kinds.count("compare") < 2 or len(kinds) > 10:
        return None
    if set(kinds) - {"select", "compare", "or", "and", "return"}:
        return None
    first = next(view.operation for view in block.operations if view.operation.name == "stablehlo.compare")
    if list(first.operands) != [arguments[0], arguments[2]]:
        return None
    return {"gt": "argmax", "ge": "argmax", "lt": "argmin", "le": "argmin"}.get(direction_of(Op(first, [])))


def _arg(ctx: Importer, op: Op, name: str, tensors: list[Tensor], dim: int) -> list[Tensor]:
    """Both results of an argmax whose second array has places along the dim."""
    x, places = tensors
    wide = ctx.made(places, "expand")
    source = ctx.before_views(places)
    if (cast := ctx.made(source, "to_dtype")) is not None:
        source = ctx.before_views(cast.operands[0])  # type: ignore[arg-type]
    is_iota = ctx.made(source, "iota") is not None and (wide is None or wide.operands[0].extents[dim] == x.extents[dim])  # type: ignore[union-attr]
    if not is_iota or product_of(list(source.extents)) != x.extents[dim]:
        raise Reject("a reduction of values together with an array that is no iota of them", "jnp.argmax, jnp.argmin")
    extents = tuple(e for d, e in enumerate(x.extents) if d != dim)
    wide_x = ctx.cast(x, "i32") if x.dtype == "i1" else x
    found = ctx.emit_one(name, [wide_x], TensorType("i64", extents), {"dim": dim, "keepdim": False})
    best = ctx.reduce("amax" if name == "argmax" else "amin", wide_x, [dim], False)
    return [ctx.cast(best, x.dtype), ctx.cast(found, places.dtype)]


# Windows --------------------------------------------------------------------------------------------------------------


@converter("reduce_window")
def _reduce_window(ctx: Importer, op: Op) -> Tensor | list[Tensor]:
    kind = combination(op.body())
    if len(op.inputs) != 2 or kind not in _REDUCTIONS:
        return _windows_of_function(ctx, op)
    x, start = ctx.tensor(op.inputs[0]), op.inputs[1]
    ones = [1] * x.rank
    window, stride = op.numbers("window_dimensions"), op.numbers("window_strides", ones)
    spread, dilation = op.numbers("base_dilations", ones), op.numbers("window_dilations", ones)
    flat = op.numbers("padding", [0] * (2 * x.rank))
    pads = list(zip(flat[::2], flat[1::2]))
    if not _is_neutral(kind, start, x.dtype):
        raise Reject("windows that begin with a value that is not neutral", "0 for sums, the lowest value for maxima")
    for dim, n in enumerate(spread):
        if n > 1:
            x = _spread(ctx, x, start, dim, n - 1)
    plain = stride == ones and dilation == ones
    found = _running(ctx, kind, x, window, pads) if plain else None
    if found is None and kind in ("add", "maximum") and x.dtype in FLOATS:
        found = _pooled(ctx, kind, x, window, stride, dilation, pads)
    return found if found is not None else _by_slices(ctx, kind, x, start, window, stride, dilation, pads)


def _windows_of_function(ctx: Importer, op: Op) -> list[Tensor]:
    """Windows of one array or several, combined by any function; what is outside of the array is the start."""
    count = len(op.inputs) // 2
    tensors, starts = [ctx.tensor(x) for x in op.inputs[:count]], op.inputs[count:]
    ones = [1] * tensors[0].rank
    window, stride = op.numbers("window_dimensions"), op.numbers("window_strides", ones)
    spread, dilation = op.numbers("base_dilations", ones), op.numbers("window_dilations", ones)
    flat = op.numbers("padding", [0] * (2 * len(ones)))
    pads = list(zip(flat[::2], flat[1::2]))
    if spread != ones:
        raise Reject("windows over a dilated array combined by a function that is no single op", "add, mul, max, min")
    wide = [d for d, n in enumerate(window) if n != 1]
    if (
        stride == ones
        and dilation == ones
        and len(wide) == 1
        and all(p == (0, 0) for d, p in enumerate(pads) if d not in wide)
    ):
        size = tensors[0].extents[wide[0]]
        if window[wide[0]] == size and pads[wide[0]] in ((size - 1, 0), (0, size - 1)):
            return _running_function(ctx, op, tensors, starts, wide[0], pads[wide[0]][0] == 0)
    if math.prod(window) > _MOST_SLICES:
        raise Reject(f"windows of {math.prod(window)} elements combined by a function", f"at most {_MOST_SLICES}")
    tensors = [_bordered(ctx, t, start, pads) for t, start in zip(tensors, starts)]
    counts = [(e - ((k - 1) * d + 1)) // s + 1 for e, k, d, s in zip(tensors[0].extents, window, dilation, stride)]
    found = [ctx.expand(ctx.tensor(start), counts) for start in starts]
    for place in itertools.product(*(range(k) for k in window)):
        parts = list(tensors)
        for dim, offset in enumerate(place):
            parts = [ctx.slice_to(t, dim, offset * dilation[dim], counts[dim], stride[dim]) for t in parts]
        found = ctx.applied(op.body(), [*found, *parts])
    return found


def _running_function(ctx: Importer, op: Op, tensors: list[Tensor], starts: Sequence[Value], dim: int,
                      turned: bool) -> list[Tensor]:  # fmt: skip
    """Running combinations by an associative function: of 1, 2, 4, ... elements up to each one (from it on, if turned)."""
    size, step = known(tensors[0].extents[dim]), 1
    while step < size:
        parts = []
        for t, start in zip(tensors, starts):
            widths = [(0, 0)] * t.rank
            widths[dim] = (0, step) if turned else (step, 0)
            kept = ctx.slice_to(t, dim, step if turned else 0, size - step)
            parts.append(_bordered(ctx, kept, start, widths))
        operands = [*tensors, *parts] if turned else [*parts, *tensors]
        tensors, step = ctx.applied(op.body(), operands), 2 * step
    return tensors


def _bordered(ctx: Importer, x: Tensor, start: Value, pads: Sequence[tuple[int, int]]) -> Tensor:
    """An array with borders of a number."""
    if not isinstance(start, Known) or start.splat is None or x.dtype == "i1":
        raise Reject("windows that begin with a value that only a call knows", "a constant")
    return ctx.padded(x, pads, start.splat)


def dynamic_window(ctx: Importer, op: Op) -> Tensor:
    """Windows of named sizes, as exported modules have them (a custom call): those of running combinations."""
    names = [ir.FlatSymbolRefAttr(a).value for a in op.attributes["called_computations"]]
    kind = combination(ctx.functions[names[0]].regions[0].blocks[0])
    x = ctx.tensor(op.inputs[0])
    window, stride, spread, dilation, flat = (ctx.sizes(t, "a window") for t in op.inputs[2:])
    pads = list(zip(flat[::2], flat[1::2]))
    ones: list[Dim] = [1] * x.rank
    found = None
    if kind in _REDUCTIONS and [stride, spread, dilation] == [ones] * 3 and _is_neutral(kind, op.inputs[1], x.dtype):
        found = _running(ctx, kind, x, window, pads)
    if found is None:
        raise Reject(
            "windows of named sizes", "cumsum, cumprod, cummax and cummin along a named size; constant windows"
        )
    return found


def _running(
    ctx: Importer, kind: str, x: Tensor, window: Sequence[Dim], pads: Sequence[tuple[Dim, Dim]]
) -> Tensor | None:
    """A running combination: a window as long as the only dim that it covers, which begins (or ends) at its element."""
    dims = [d for d, n in enumerate(window) if n != 1]
    if len(dims) != 1 or any(pair != (0, 0) for d, pair in enumerate(pads) if d not in dims):
        return None
    (dim,) = dims
    size = window[dim]
    if x.extents[dim] != size or pads[dim] not in ((size - 1, 0), (0, size - 1)) or x.dtype == "i1":
        return None
    turned = pads[dim] == (0, size - 1)

    def flipped(t: Tensor) -> Tensor:
        return ctx.emit_one("flip", [t], t.type, {"dims": [dim]}) if turned else t

    x = flipped(x)
    if kind == "add":
        found = ctx.unary("cumsum", x, dim=dim)
    else:
        found = ctx.unary("scan", x, dim=dim, combine={"multiply": "prod", "maximum": "max", "minimum": "min"}[kind])
    return flipped(found)


def _pooled(ctx: Importer, kind: str, x: Tensor, window: list[int], stride: list[int], dilation: list[int],
            pads: list[tuple[int, int]]) -> Tensor | None:  # fmt: skip
    """A pool over two dims: of maxima, or of sums, which are averages that are divided by 1."""
    dims = [d for d in range(x.rank) if window[d] > 1 or stride[d] > 1 or pads[d] != (0, 0)]
    if not dims or len(dims) > 2 or (kind == "add" and any(dilation[d] != 1 for d in dims)):
        return None
    if len(dims) == 1:
        rest = [d for d in range(x.rank) if d not in dims and window[d] == 1]
        if not rest:
            return None
        dims = sorted([dims[0], rest[-1]])
    others = [d for d in range(x.rank) if d not in dims]
    order = [*others, *dims]
    moved = x if order == list(range(x.rank)) else ctx.permute(x, order)
    lead = moved.extents[:-2]
    if len(lead) != 2:
        moved = ctx.reshape(moved, (1, product_of(list(lead)), *moved.extents[-2:]))
    kernel, own = [window[d] for d in dims], [pads[d] for d in dims]
    if any(a != b or a < 0 or 2 * a > k for (a, b), k in zip(own, kernel)):
        filler = -math.inf if kind == "maximum" else 0.0
        moved, own = ctx.padded(moved, [(0, 0), (0, 0), *own], filler), [(0, 0), (0, 0)]
    how: dict[str, Any] = {
        "kernel_size": kernel, "stride": [stride[d] for d in dims], "padding": [a for a, _ in own], "ceil_mode": False,
    }  # fmt: skip
    steps = [dilation[d] for d in dims]
    sizes = [
        (e + 2 * p - ((k - 1) * d + 1)) // s + 1
        for e, p, k, d, s in zip(moved.extents[-2:], how["padding"], kernel, steps, how["stride"])
    ]
    type = TensorType(x.dtype, (*moved.extents[:2], *sizes))
    if kind == "maximum":
        found = ctx.emit_one("max_pool2d", [moved], type, {**how, "dilation": steps})
    else:
        found = ctx.emit_one("avg_pool2d", [moved], type, {**how, "count_include_pad": True, "divisor_override": 1})
    found = ctx.reshape(found, (*lead, *sizes))
    return found if order == list(range(x.rank)) else ctx.permute(found, [order.index(d) for d in range(x.rank)])


def _by_slices(ctx: Importer, kind: str, x: Tensor, start: Value, window: list[int], stride: list[int],
               dilation: list[int], pads: list[tuple[int, int]]) -> Tensor:  # fmt: skip
    """What each place of the window sees, combined."""
    if math.prod(window) > _MOST_SLICES:
        raise Reject(
            f"windows of {math.prod(window)} elements combined by {kind} of {x.dtype}",
            f"at most {_MOST_SLICES}; sums and maxima of floats over two dims",
        )
    assert isinstance(start, Known)
    x = ctx.padded(x, pads, start.splat)
    counts: list[Dim] = [(e - ((k - 1) * d + 1)) // s + 1 for e, k, d, s in zip(x.extents, window, dilation, stride)]
    found: Tensor | None = None
    for place in itertools.product(*(range(k) for k in window)):
        part = x
        for dim, offset in enumerate(place):
            part = ctx.slice_to(part, dim, offset * dilation[dim], counts[dim], stride[dim])
        found = part if found is None else combined(ctx, kind, found, part)
    assert found is not None
    return found


@converter("select_and_scatter")
def _select_and_scatter(ctx: Importer, op: Op) -> Tensor:
    """The gradient of a pool of maxima: each number of the second operand goes to the place that its window selects."""
    x, source, start = ctx.tensor(op.inputs[0]), ctx.tensor(op.inputs[1]), op.inputs[2]
    chosen = _selection(op.body(0))
    if chosen is None or combination(op.body(1)) != "add" or not _is_neutral("add", start, x.dtype):
        raise Reject(
            "a select_and_scatter of other functions", "the gradient of a pool of maxima (select GE, add, from 0)"
        )
    ones = [1] * x.rank
    window, stride = op.numbers("window_dimensions", ones), op.numbers("window_strides", ones)
    flat = op.numbers("padding", [0] * (2 * x.rank))
    pads = list(zip(flat[::2], flat[1::2]))
    dims = [d for d in range(x.rank) if window[d] > 1 or stride[d] > 1 or pads[d] != (0, 0)]
    if math.prod(window) > _MOST_SLICES:
        raise Reject(f"windows of {math.prod(window)} elements", f"at most {_MOST_SLICES}")
    if not dims:
        return source
    others = [d for d in range(x.rank) if d not in dims]
    order = [*others, *dims]
    lead = product_of([x.extents[d] for d in others])

    def rows(t: Tensor) -> Tensor:
        moved = ctx.moved(t, order)
        return ctx.reshape(moved, (lead, *moved.extents[len(others) :]))

    wide = ctx.padded(rows(x), [pads[d] for d in dims], _least(x.dtype, chosen == "LE"))
    given, space = rows(source), [known(e) for e in wide.extents[1:]]
    places = _selected(ctx, wide, chosen, [window[d] for d in dims], [stride[d] for d in dims], given.extents)
    dtype = "f32" if x.dtype in ("f16", "bf16") else x.dtype
    count = product_of(list(given.extents[1:]))
    zeros = ctx.full(0, dtype, (lead, math.prod(space)))
    operands = [zeros, ctx.reshape(places, (lead, count)), ctx.cast(ctx.reshape(given, (lead, count)), dtype)]
    found = ctx.reshape(ctx.emit_one("scatter", operands, zeros.type, {"dim": 1, "reduce": "sum"}), (lead, *space))
    found = ctx.padded(found, [(-a, -b) for a, b in (pads[d] for d in dims)], 0)
    back = ctx.reshape(ctx.cast(found, x.dtype), [x.extents[d] for d in order])
    return ctx.moved(back, [order.index(d) for d in range(x.rank)])


def _least(dtype: str, turned: bool) -> float | int:
    """The smallest number of an element type, or the largest."""
    if dtype in FLOATS:
        return math.inf if turned else -math.inf
    info = np.iinfo(v.numpy_dtype(dtype))
    return int(info.max if turned else info.min)


def _selection(block: ir.Block) -> str | None:
    """The names "GE" or "LE" where a region says whether its first argument stays the selected one by this comparison alone."""
    first, *rest = (view.operation for view in block.operations)
    if len(rest) != 1 or first.name != "stablehlo.compare" or list(first.operands) != list(block.arguments):
        return None
    direction = direction_of(Op(first, [])).upper()
    return direction if direction in ("GE", "LE") else None


def _selected(ctx: Importer, x: Tensor, chosen: str, window: list[int], stride: list[int],
              extents: Sequence[Dim]) -> Tensor:  # fmt: skip
    """Of rows [n, ..] of dims that windows cover: of each window the selected element's place in the row, as if it had rank 1."""
    space, counts = [known(e) for e in x.extents[1:]], [known(e) for e in extents[1:]]
    steps = [math.prod(space[d + 1 :]) for d in range(len(space))]
    best, place = None, None
    for offsets in itertools.product(*(range(k) for k in window)):
        part = x
        for dim, offset in enumerate(offsets):
            part = ctx.slice_to(part, dim + 1, offset, counts[dim], stride[dim])
        offset = sum(o * step for o, step in zip(offsets, steps))
        if best is None or place is None:
            best, place = part, ctx.full(offset, "i64", part.extents)
            continue
        stays = ctx.compare(chosen.lower(), best, part)
        best, place = ctx.where(stays, best, part), ctx.where(stays, place, offset)
    assert place is not None
    grid = np.zeros(counts, np.int64)
    for dim, (count, by, step) in enumerate(zip(counts, stride, steps)):
        shape = [count if d == dim else 1 for d in range(len(counts))]
        grid = grid + (np.arange(count, dtype=np.int64) * by * step).reshape(shape)
    return ctx.binary("add", place, ctx.expand(ctx.literal(grid, "i64"), place.extents))


# Order ----------------------------------------------------------------------------------------------------------------


@converter("sort")
def _sort(ctx: Importer, op: Op) -> list[Tensor]:
    keys, descending = _keys(op.body())
    tensors, dim = ctx.tensors(op), op.number("dimension", -1) % max(ctx.tensor(op.inputs[0]).rank, 1)
    size = tensors[0].extents[dim]
    if isinstance(size, int) and size < 2:
        return tensors
    order: Tensor | None = None
    for key in reversed(keys):  # stable sorts, the last key first
        x = tensors[key] if order is None else _taken(ctx, tensors[key], order, dim)
        x = ctx.cast(x, "i32") if x.dtype == "i1" else x
        sorted_x, places = ctx.ordered(x, dim, size, descending)
        if len(tensors) == 1:
            return [ctx.cast(sorted_x, tensors[0].dtype)]
        order = places if order is None else _taken(ctx, order, places, dim)
        if len(keys) == 1:
            first = ctx.cast(sorted_x, tensors[key].dtype)
            return [first if i == key else _taken(ctx, t, order, dim) for i, t in enumerate(tensors)]
    assert order is not None
    return [_taken(ctx, t, order, dim) for t in tensors]


def _taken(ctx: Importer, x: Tensor, order: Tensor, dim: int) -> Tensor:
    return ctx.emit_one("gather", [x, order], x.type, {"dim": dim})


def _keys(block: ir.Block) -> tuple[list[int], bool]:
    """Which operands a comparator compares, in their order, and whether the largest come first.

    It is that of lax.sort: `x0 < y0`, or `x0 < y0 or (x0 == y0 and ...)`, of floats with zeros and NaNs made equal before.
    """
    arguments = list(block.arguments)
    keys: list[int] = []
    names: set[str] = set()
    value = list(block.operations)[-1].operation.operands[0]
    while True:
        made = v.made_by(value, "or")
        less, rest = (made.operands[0], made.operands[1]) if made is not None else (value, None)
        name, key = _compared(less, arguments)
        keys.append(key)
        names.add(name)
        if rest is None:
            break
        both = v.made_by(rest, "and")
        if both is None or _compared(both.operands[0], arguments) != ("eq", key):
            raise _OwnOrder
        value = both.operands[1]
    if names not in ({"lt"}, {"gt"}):
        raise _OwnOrder
    return keys, names == {"gt"}


_OwnOrder = Reject("a sort by a comparator of its own", "jnp.sort, jnp.argsort, jnp.lexsort, lax.sort")


def _compared(value: Any, arguments: list[Any]) -> tuple[str, int]:
    """How a comparator's value compares the two elements of an operand, and the operand's number."""
    made = v.made_by(value, "compare")
    if made is None:
        raise _OwnOrder
    sides = [_argument_of(operand, arguments) for operand in made.operands]
    if sides[0] is None or sides[1] != sides[0] + 1 or sides[0] % 2:
        raise _OwnOrder
    return direction_of(Op(made, [])), sides[0] // 2


def _argument_of(value: Any, arguments: list[Any]) -> int | None:
    """The argument that a value is, with zeros and NaNs made equal."""
    for _ in range(4):
        for place, argument in enumerate(arguments):
            if value == argument:
                return place
        owner = value.owner
        if isinstance(owner, ir.Block) or owner.name != "stablehlo.select":
            return None
        value = owner.operands[2]
    return None


@converter("chlo.top_k")
def _top_k(ctx: Importer, op: Op) -> list[Tensor]:
    x, k = ctx.tensor(op.inputs[0]), op.number("k")
    extents = (*x.extents[:-1], k)
    if k == 0:
        return [ctx.full(0, x.dtype, extents), ctx.full(0, "i32", extents)]
    values, places = ctx.ordered(x, x.rank - 1, k, True)
    return [values, ctx.cast(places, "i32")]


def approximate_top_k(ctx: Importer, op: Op) -> list[Value]:
    """The largest or smallest elements of a dim, and what a second operand has there: the exact ones, as XLA's on a CPU."""
    x, others = ctx.tensors(op)[:2]
    config = ir.DictAttr(op.attributes["mhlo.backend_config"])
    dim = int(ir.IntegerAttr(config["reduction_dim"]).value)
    called = ir.ArrayAttr(op.attributes["called_computations"])[0]
    block = ctx.functions[ir.FlatSymbolRefAttr(called).value].regions[0].blocks[0]
    name, key = _compared(list(block.operations)[-1].operation.operands[0], list(block.arguments))
    if key != 0 or name not in ("lt", "gt"):
        raise _OwnOrder
    type = op.type()
    assert type is not None
    values, places = ctx.ordered(x, dim, known(type.extents[dim]), name == "gt")
    return [values, ctx.emit_one("gather", [others, places], TensorType(others.dtype, type.extents), {"dim": dim})]
