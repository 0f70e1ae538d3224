# SPDX-License-Identifier: Apache-2.0
"""Paddle's shape ops: views, slices, joins, lists of tensors, constants, and folds of sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from straightline.capture.builder import DTYPES, Dim, TensorType
from straightline.capture.extents import Extent, exact_quotient, product_of
from straightline.capture.graph_builder import FLOATS, Reject, Tensor, known, slice_bounds, wrap
from straightline.capture.paddle import pir
from straightline.capture.paddle import values as v
from straightline.capture.paddle.importer import Importer, Node, converter, fold
from straightline.capture.paddle.values import Known, Value
from straightline.errors import UserError

#: `full_int_array` says "to the end" by a large number.
_END = 2**31 - 1

# Constants and lists --------------------------------------------------------------------------------------------------


def _dtype(name: str) -> str:
    if name not in DTYPES:
        raise Reject(f"elements of {name}", "floats of 16 bits or more, integers or bool")
    return name


@converter("full_int_array")
def _full_int_array(ctx: Importer, node: Node) -> Known:
    return v.known([int(x) for x in node.attribute("value")], _dtype(node.attribute("dtype", "i64")))


@converter("full", takes="numbers of any element type", refuses="complex numbers")
def _full(ctx: Importer, node: Node) -> Value:
    dtype, shape, value = _dtype(node.attribute("dtype")), node.attribute("shape"), node.attribute("value")
    if any(size < 0 for size in shape):
        raise Reject(f"a constant of shape {list(shape)}", "sizes of 0 or more")
    declared = node.op.types[0]
    if not shape and isinstance(declared, pir.Type) and all(size >= 0 for size in declared.shape):
        shape = declared.shape  # a number for a variable that a loop's rounds write first, which has their type
    number = float(value) if dtype in FLOATS else bool(value) if dtype == "i1" else int(value)
    if int(np.prod(shape, dtype=object)) <= 64:
        return Known(np.full(shape, number).astype(v.numpy_dtype(dtype)), dtype)
    return ctx.full(number, dtype, tuple(shape))


@converter("full_like")
def _full_like(ctx: Importer, node: Node) -> Tensor:
    like = ctx.type_of(node.inputs[0])
    dtype = node.attribute("dtype", "undefined")
    dtype = like.dtype if dtype == "undefined" else _dtype(dtype)
    return ctx.expand(ctx.reshape(ctx.tensor(node.inputs[1], dtype), ()), like.extents)


@converter("empty", takes="sizes of constants and of inputs' sizes; zeros")
def _empty(ctx: Importer, node: Node) -> Tensor:
    return ctx.full(0, _dtype(node.attribute("dtype")), tuple(ctx.sizes(node.inputs[0], "a shape")))


@converter("full_with_tensor", takes="sizes of constants and of inputs' sizes")
def _full_with_tensor(ctx: Importer, node: Node) -> Tensor:
    sizes = ctx.sizes(node.inputs[1], "a shape")
    return ctx.expand(ctx.reshape(ctx.tensor(node.inputs[0], _dtype(node.attribute("dtype"))), ()), sizes)


@converter("assign_value_", takes="numbers of any element type")
def _assign_value(ctx: Importer, node: Node) -> Known:
    dtype = _dtype(node.attribute("dtype"))
    array = np.asarray(node.attribute("values"), dtype=object).reshape(node.attribute("shape"))
    return Known(array.astype(v.numpy_dtype(dtype)), dtype)


@converter("arange", takes="constant bounds, and a named size as the end")
def _arange(ctx: Importer, node: Node) -> Value:
    dtype = _dtype(node.attribute("dtype"))
    start, end, step = node.inputs[:3]
    if isinstance(end, Known) and end.is_sizes:
        if ctx.number(start, "start") != 0 or ctx.number(step, "step") != 1:
            raise Reject("a range to a named size that begins elsewhere than 0, or has a step", "0 and 1")
        return ctx.emit_one("iota", [], TensorType(dtype, (end.dims[0],)), {"start": 0, "step": 1})
    first, last, by = (ctx.number(x, "bound of a range") for x in (start, end, step))
    if by == 0 or not all(math.isfinite(n) for n in (first, last, by)):
        raise Reject(f"a range from {first} to {last} by {by}", "a step other than 0")
    count = max(math.ceil((last - first) / by), 0)
    if count <= 64:
        return Known(np.arange(first, last, by).astype(v.numpy_dtype(dtype)), dtype)
    if dtype not in FLOATS:
        return ctx.emit_one("iota", [], TensorType(dtype, (count,)), {"start": int(first), "step": int(by)})
    numbers = ctx.cast(ctx.emit_one("iota", [], TensorType("i64", (count,)), {"start": 0, "step": 1}), dtype)
    return ctx.binary(
        "add", ctx.binary("mul", numbers, ctx.operand(by, numbers.type)), ctx.operand(first, numbers.type)
    )


@converter("linspace", takes="constant bounds")
def _linspace(ctx: Importer, node: Node) -> Known:
    start, end, count = (ctx.number(x, "bound of a range") for x in node.inputs[:3])
    dtype = _dtype(node.attribute("dtype"))
    ctx.places(int(count), "numbers of linspace")
    return Known(np.linspace(start, end, int(count)).astype(v.numpy_dtype(dtype)), dtype)


@converter("eye", takes="constant sizes")
def _eye(ctx: Importer, node: Node) -> Known:
    rows, columns = (int(ctx.number(x, "size")) for x in node.inputs[:2])
    dtype = _dtype(node.attribute("dtype"))
    ctx.places(rows * max(columns, 1), "numbers of eye")
    return Known(np.eye(rows, columns if columns > 0 else rows).astype(v.numpy_dtype(dtype)), dtype)


@converter("builtin.combine")
def _combine(ctx: Importer, node: Node) -> list[Any]:
    return [list(node.inputs)]


@converter("builtin.split")
def _split_list(ctx: Importer, node: Node) -> list[Any]:
    (items,) = node.inputs
    if not isinstance(items, list):
        raise Reject("builtin.split of a tensor")
    return list(items)


@converter("builtin.slice")
def _slice_list(ctx: Importer, node: Node) -> list[Any]:
    (items,) = node.inputs
    if not isinstance(items, list):
        raise Reject("builtin.slice of a tensor")
    return [items[int(node.attribute("index"))]]


@converter("assign", "assign_out_", "memcpy_d2h", "memcpy_h2d", "memcpy")
def _assign(ctx: Importer, node: Node) -> list[Any]:
    return [node.inputs[0]]


@converter("dropout", takes="inference, both modes", refuses="training")
def _dropout(ctx: Importer, node: Node) -> list[Tensor | None]:
    x = ctx.tensor(node.inputs[0])
    p = ctx.number(node.input(2), "a probability of dropout") if node.input(2) is not None else node.attribute("p", 0.0)
    if not node.attribute("is_test") and p:
        raise Reject(f"dropout of {p}: the program is in training mode", "layer.eval()")
    if node.attribute("mode") == "downgrade_in_infer" and p:
        x = ctx.binary("mul", x, ctx.operand(1.0 - float(p), x.type))
    return [x, None]


# Views ----------------------------------------------------------------------------------------------------------------


@converter("reshape", takes="0 and -1 in the shape, sizes of inputs", refuses="shapes that a call computes")
def _reshape(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    wanted = ctx.sizes(node.input(1), "a shape") if node.input(1) is not None else list(node.attribute("shape"))
    return ctx.reshape(x, resolved(x.extents, wanted))


def resolved(extents: Sequence[Dim], wanted: Sequence[Dim]) -> list[Dim]:
    """A shape with 0 as the size of x there and one -1 as what is left."""
    found: list[Dim] = []
    for d, size in enumerate(wanted):
        if size == 0 and 0 not in extents:
            if d >= len(extents):
                raise Reject(f"a shape {list(wanted)} that copies a size that is not there")
            size = extents[d]
        found.append(size)
    free = [d for d, size in enumerate(found) if size == -1]
    whole, rest = product_of(list(extents)), product_of([size for size in found if size != -1])
    if free:
        quotient: Dim | None
        if isinstance(whole, int) and isinstance(rest, int):
            quotient = whole // rest if rest and whole % rest == 0 else None
        else:
            quotient = exact_quotient(whole, rest)
        if quotient is None:
            raise Reject(f"a reshape of {list(extents)} to {list(wanted)}", "sizes whose product is the same")
        found[free[0]] = quotient
    elif whole != rest:
        raise Reject(f"a reshape of {list(extents)} to {list(wanted)}", "sizes whose product is the same")
    return found


@converter("flatten", takes="any range of dims")
def _flatten(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    first, last = (ctx.axis(node.attribute(name), x.rank) for name in ("start_axis", "stop_axis"))
    if x.rank == 0:
        return ctx.reshape(x, (1,))
    return ctx.reshape(x, (*x.extents[:first], product_of(list(x.extents[first : last + 1])), *x.extents[last + 1 :]))


def _axes(ctx: Importer, node: Node, name: str = "axis") -> list[int]:
    return ctx.numbers(node.input(1), "an axis") if node.input(1) is not None else list(node.attribute(name) or [])


@converter("squeeze")
def _squeeze(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    axes = [ctx.axis(a, x.rank) for a in _axes(ctx, node)]
    if not axes and not all(isinstance(e, int) for e in x.extents):
        raise Reject("a squeeze of named sizes", "an axis")
    gone = {a for a in axes if x.extents[a] == 1} if axes else {d for d, e in enumerate(x.extents) if e == 1}
    return ctx.reshape(x, [e for d, e in enumerate(x.extents) if d not in gone])


@converter("unsqueeze")
def _unsqueeze(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    return ctx.reshape(x, _unsqueezed(x.extents, _axes(ctx, node)))


def _unsqueezed(extents: Sequence[Any], axes: Sequence[int]) -> list[Any]:
    found = list(extents)
    for axis in axes:  # one after the other, each counted in what the ones before gave
        found.insert(axis + len(found) + 1 if axis < 0 else axis, 1)
    return found


@converter("transpose")
def _transpose(ctx: Importer, node: Node) -> Tensor:
    x, given = ctx.tensor(node.inputs[0]), list(node.attribute("perm"))
    order = [ctx.axis(d, x.rank) for d in given]
    if sorted(order) != list(range(x.rank)):
        raise UserError(f"{ctx.location}: transpose by {given} of a tensor of rank {x.rank}: each dim is needed once")
    return ctx.permute(x, order)


@converter("expand", "expand_as", takes="constant shapes and sizes of inputs; -1 for the size that is there")
def _expand(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    if node.op.short == "expand_as":
        wanted = (
            list(ctx.type_of(node.input(1)).extents)
            if node.input(1) is not None
            else list(node.attribute("target_shape"))
        )
    else:
        wanted = ctx.sizes(node.inputs[1], "a shape")
    lead = len(wanted) - x.rank
    if lead < 0:
        raise Reject(f"an expansion of rank {x.rank} to {len(wanted)} sizes")
    extents = [x.extents[d - lead] if size == -1 and d >= lead else size for d, size in enumerate(wanted)]
    extents = [x.extents[d - lead] if d >= lead and size == 1 else size for d, size in enumerate(extents)]
    if ctx.common(x.extents, extents) != tuple(extents):
        raise Reject(f"an expansion of {list(x.extents)} to {wanted}")
    return ctx.expand(x, extents)


@converter("broadcast_tensors")
def _broadcast_tensors(ctx: Importer, node: Node) -> list[Any]:
    items = ctx.tensors(node.inputs[0])
    extents: tuple[Dim, ...] = ()
    for item in items:
        extents = ctx.common(extents, item.extents)
    return [[ctx.expand(item, extents) for item in items]]


@converter("meshgrid")
def _meshgrid(ctx: Importer, node: Node) -> list[Any]:
    items = ctx.tensors(node.inputs[0])
    extents = tuple(item.extents[0] if item.rank else 1 for item in items)
    return [
        [
            ctx.expand(ctx.reshape(t, [extents[i] if d == i else 1 for d in range(len(items))]), extents)
            for i, t in enumerate(items)
        ]
    ]


@converter("tile", takes="constant repetitions")
def _tile(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    times = ctx.sizes(node.inputs[1], "repetitions")
    times = [1] * (x.rank - len(times)) + times
    x = ctx.reshape(x, (*[1] * (len(times) - x.rank), *x.extents))
    pairs = [part for n, e in zip(times, x.extents) for part in (n, e)]
    wide = ctx.expand(ctx.reshape(x, [part for e in x.extents for part in (1, e)]), pairs) if len(times) <= 4 else None
    if wide is None:
        for d, n in enumerate(times):
            parts = [x] * ctx.parts(known(n), "repetitions")
            x = x if n == 1 else joined(ctx, parts, d)
        return x
    return ctx.reshape(wide, [n * e for n, e in zip(times, x.extents)])


@converter("flip")
def _flip(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    return ctx.emit_one("flip", [x], x.type, {"dims": sorted(ctx.axis(d, x.rank) for d in node.attribute("axis"))})


@converter("roll", takes="constant shifts")
def _roll(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    shifts, axes = ctx.numbers(node.inputs[1], "a shift"), node.attribute("axis") or []
    flat = None if axes else x.extents
    x = ctx.reshape(x, (product_of(list(x.extents)),)) if flat is not None else x
    for shift, axis in zip(shifts, axes or [0]):
        d = ctx.axis(axis, x.rank)
        size = known(x.extents[d])
        shift = shift % size if size else 0
        if shift:
            tail = ctx.slice(x, d, size - shift, size, shift)
            x = joined(ctx, [tail, ctx.slice(x, d, 0, size - shift, size - shift)], d)
    return x if flat is None else ctx.reshape(x, flat)


# Parts and joins ------------------------------------------------------------------------------------------------------


def part(ctx: Importer, x: Tensor, dim: int, start: Any, end: Any, step: int = 1) -> Tensor:
    """A slice as Python's, with a positive step."""
    size = x.extents[dim]
    if isinstance(end, int) and end >= _END:
        end = None
    if isinstance(size, int):
        first, last = slice_bounds(size, start, end, step)
        return ctx.slice(x, dim, first, last, -(-(last - first) // step), step)
    if end is not None and isinstance(end, int) and end >= 0 or not isinstance(start, int) or step != 1 and start < 0:
        raise Reject(
            f"a slice [{start}:{end}] of a named size {size}, which may be less", "a part that counts from the end"
        )
    first = size + start if start < 0 else start
    last = size if end is None else end if isinstance(end, Extent) else size + end
    ctx.at_least(first, 0, "the begin of a slice")
    ctx.at_least(last - first, 0, "the length of a slice")
    extent: Dim = last - first if step == 1 else (last - first + (step - 1)) // step
    low, high = slice_bounds(size, start, end, step)
    return ctx.slice(x, dim, low, high, extent, step)


def _slices(ctx: Importer, x: Tensor, axes: Sequence[int], bounds: Sequence[tuple[Dim, Dim, int]]) -> Tensor:
    for axis, (start, end, step) in zip(axes, bounds):
        dim = ctx.axis(axis, x.rank)
        if step < 0:
            x = _reversed_part(ctx, x, dim, start, end, step)
            continue
        x = part(ctx, x, dim, start, end, step)
    return x


def _reversed_part(ctx: Importer, x: Tensor, dim: int, start: Any, end: Any, step: int) -> Tensor:
    size = known(x.extents[dim])
    start, end = (int(b) for b in (start, end))
    places = range(*slice(start, None if end < -size else end, step).indices(size))
    if not places:
        return ctx.slice(x, dim, 0, 0, 0)
    turned = ctx.emit_one("flip", [x], x.type, {"dims": [dim]})
    first = size - 1 - places[0]
    last = size - places[-1]
    return ctx.slice(turned, dim, first, last, len(places), -step)


def _without(ctx: Importer, x: Tensor, axes: Sequence[int], rank: int) -> Tensor:
    gone = {wrap(a, rank) for a in axes}
    return ctx.reshape(x, [e for d, e in enumerate(x.extents) if d not in gone]) if gone else x


@converter("slice", takes="constant bounds, bounds of sizes; parts of named sizes that count from the end")
def _slice(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    axes = node.attribute("axes")
    starts, ends = (ctx.sizes(t, "a bound of a slice") for t in node.inputs[1:3])
    drops = node.attribute("decrease_axis") or []
    bounds: list[tuple[Dim, Dim, int]] = []
    for axis, start, end in zip(axes, starts, ends):
        if axis in drops and start == -1:
            end = _END
        bounds.append((start, end, 1))
    picked = _picked(ctx, x, axes, bounds, drops)
    return picked if picked is not None else _without(ctx, _slices(ctx, x, axes, bounds), drops, x.rank)


def _picked(
    ctx: Importer, x: Tensor, axes: Sequence[int], bounds: Sequence[tuple[Dim, Dim, int]], drops: Sequence[int]
) -> Tensor | None:
    """One entry of a dim."""
    if len(axes) != 1 or list(drops) != list(axes) or not isinstance(bounds[0][0], int):
        return None
    dim, start = ctx.axis(axes[0], x.rank), bounds[0][0]
    size = x.extents[dim]
    if isinstance(size, int) and not -size <= start < size or not isinstance(size, int) and start not in (0, -1):
        raise Reject(f"entry {start} of a dim of size {size}", "an entry that is there")
    ctx.at_least(size, 1, "a dim that is read")
    return ctx.select(x, dim, start)


@converter("strided_slice", takes="constant bounds; steps of either sign")
def _strided_slice(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    starts, ends = (ctx.sizes(t, "a bound of a slice") for t in node.inputs[1:3])
    steps = ctx.numbers(node.inputs[3], "a step")
    return _slices(ctx, x, node.attribute("axes"), list(zip(starts, ends, steps)))


@converter("crop", takes="constant shape and offsets")
def _crop(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    shape, offsets = (ctx.numbers(t, "a crop") for t in node.inputs[1:3])
    for d, (size, offset) in enumerate(zip(shape, offsets)):
        length = known(x.extents[d]) - offset if size == -1 else size
        x = ctx.slice(x, d, offset, offset + length, length)
    return x


@converter("split", "split_with_num", takes="constant sections, one of -1")
def _split(ctx: Importer, node: Node) -> list[Any]:
    x = ctx.tensor(node.inputs[0])
    whole = node.op.short == "split_with_num"
    dim = ctx.axis(ctx.numbers(node.inputs[1 if whole else 2], "an axis")[0], x.rank)
    size = known(x.extents[dim])
    if whole:
        count = ctx.parts(int(node.attribute("num")), "parts")
        if count < 1 or size % count:
            raise Reject(f"a size of {size} in {count} equal parts")
        sections = [size // count] * count
    else:
        sections = ctx.numbers(node.inputs[1], "sections")
        rest = size - sum(s for s in sections if s >= 0)
        sections = [rest if s < 0 else s for s in sections]
    if sum(sections) != size or min(sections, default=0) < 0:
        raise Reject(f"sections {sections} of a size of {size}")
    parts, start = [], 0
    for section in sections:
        parts.append(ctx.slice(x, dim, start, start + section, section))
        start += section
    return [parts]


@converter("unbind", "unstack", takes="constant sizes")
def _unbind(ctx: Importer, node: Node) -> list[Any]:
    x = ctx.tensor(node.inputs[0])
    dim = ctx.axis(node.attribute("axis"), x.rank)
    return [[ctx.select(x, dim, i) for i in range(ctx.parts(known(x.extents[dim]), "parts"))]]


def joined(ctx: Importer, parts: Sequence[Tensor], dim: int) -> Tensor:
    """Tensors of one element type along a dim."""
    if any(p.dtype != parts[0].dtype or p.rank != parts[0].rank for p in parts):
        raise Reject("a join of tensors of several types", "one element type and rank")
    for p in parts[1:]:
        for d, (a, b) in enumerate(zip(parts[0].extents, p.extents)):
            if d != dim:
                ctx.equal(a, b, "sizes of joined tensors")
    size: Dim = 0
    for p in parts:
        size = size + p.extents[dim]
    extents = tuple(size if d == dim else e for d, e in enumerate(parts[0].extents))
    return ctx.cat(list(parts), dim, TensorType(parts[0].dtype, extents))


@converter("concat", takes="a constant axis")
def _concat(ctx: Importer, node: Node) -> Tensor:
    parts = ctx.tensors(node.inputs[0])
    dim = ctx.axis(ctx.numbers(node.inputs[1], "an axis")[0], parts[0].rank)
    kept = [p for p in parts if p.extents[dim] != 0]
    return joined(ctx, kept or parts[:1], dim)


@converter("stack")
def _stack(ctx: Importer, node: Node) -> Tensor:
    parts = ctx.tensors(node.inputs[0])
    axis = int(node.attribute("axis"))
    axis = axis + parts[0].rank + 1 if axis < 0 else axis
    return joined(ctx, [ctx.reshape(p, (*p.extents[:axis], 1, *p.extents[axis:])) for p in parts], axis)


# Sizes ----------------------------------------------------------------------------------------------------------------


@converter("shape64", takes="named sizes, which stay sizes")
def _shape(ctx: Importer, node: Node) -> Known:
    sizes = v.sizes_of(ctx.type_of(node.inputs[0]).extents)
    return Known(sizes.array, "i64" if node.op.short == "shape64" else "i32")


@converter("numel")
def _numel(ctx: Importer, node: Node) -> Known:
    return v.known(product_of(list(ctx.type_of(node.inputs[0]).extents)))


@fold("slice")
def _fold_slice(node: Node) -> Known | None:
    x, starts, ends = node.inputs[:3]
    assert isinstance(x, Known)
    if not (isinstance(starts, Known) and isinstance(ends, Known)) or starts.is_sizes or ends.is_sizes:
        return None
    array = x.array
    for axis, start, end in zip(node.attribute("axes"), starts.array.tolist(), ends.array.tolist()):
        start, end = int(start), None if int(start) == -1 and int(end) == 0 else int(end)
        array = array[(slice(None),) * axis + (slice(start, end),)]
    gone = tuple(node.attribute("decrease_axis") or ())
    return Known(np.squeeze(array, gone) if gone else array, x.dtype)


@fold("reshape")
def _fold_reshape(node: Node) -> Known | None:
    x, shape = node.inputs[:2]
    if not isinstance(x, Known) or not isinstance(shape, Known) or shape.is_sizes:
        return None
    return Known(x.array.reshape(resolved(x.array.shape, shape.dims)), x.dtype)  # type: ignore[arg-type]


@fold("squeeze", "unsqueeze")
def _fold_squeeze(node: Node) -> Known | None:
    x, axes = node.inputs[:2]
    if not isinstance(x, Known) or not isinstance(axes, Known) or axes.is_sizes:
        return None
    places = [int(a) for a in axes.dims]  # type: ignore[arg-type]
    if node.op.short == "unsqueeze":
        return Known(x.array.reshape(_unsqueezed(x.array.shape, places)), x.dtype)
    gone = tuple(a for a in places if x.array.shape[a] == 1) if places else None
    return Known(np.squeeze(x.array, gone), x.dtype)


@fold("concat")
def _fold_concat(node: Node) -> Known | None:
    items, axis = node.inputs[:2]
    if not isinstance(items, list) or not isinstance(axis, Known) or len({i.dtype for i in items}) != 1:
        return None
    arrays = [i.array.astype(object) for i in items]
    return v.known(np.concatenate(arrays, int(axis.array.reshape(-1)[0])), items[0].dtype)


@fold("stack")
def _fold_stack(node: Node) -> Known | None:
    (items,) = node.inputs[:1]
    if not isinstance(items, list) or len({i.dtype for i in items}) != 1:
        return None
    return v.known(np.stack([i.array.astype(object) for i in items], int(node.attribute("axis"))), items[0].dtype)


@fold("sum", "prod")
def _fold_sum(node: Node) -> Known | None:
    x = node.inputs[0]
    if not isinstance(x, Known) or x.dtype == "i1" or x.array.ndim > 1 or node.attribute("keepdim"):
        return None
    values = [d for d in x.dims]
    found: Any = 0 if node.op.short == "sum" else 1
    for value in values:
        found = found + value if node.op.short == "sum" else found * value
    return v.known(found, "i64" if x.dtype == "i32" else x.dtype)


# Padding --------------------------------------------------------------------------------------------------------------


@converter("pad", takes="constant borders", refuses="negative borders")
def _pad(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    numbers = [int(n) for n in node.attribute("paddings")]
    value = ctx.number(node.input(1), "a value of a border") if node.input(1) is not None else 0.0
    return ctx.padded(x, list(zip(numbers[::2], numbers[1::2])), float(value))


@converter("pad3d", takes="constant borders; modes constant, reflect, replicate, circular")
def _pad3d(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    numbers = ctx.numbers(node.inputs[1], "borders")
    pads = [(numbers[4], numbers[5]), (numbers[2], numbers[3]), (numbers[0], numbers[1])]
    last = node.attribute("data_format") == "NDHWC"
    if last:
        x = ctx.permute(x, [0, 4, 1, 2, 3])
    mode = node.attribute("mode")
    if mode == "constant":
        x = ctx.padded(x, pads, float(node.attribute("pad_value", 0.0)))
    elif mode in ("reflect", "replicate", "circular"):
        for d, (before, after) in enumerate(pads, 2):
            x = _bordered(ctx, x, d, before, after, mode)
    else:
        raise Reject(f"padding by {mode}", "constant, reflect, replicate or circular")
    return ctx.permute(x, [0, 2, 3, 4, 1]) if last else x


def _bordered(ctx: Importer, x: Tensor, dim: int, before: int, after: int, mode: str) -> Tensor:
    if not before and not after:
        return x
    size = known(x.extents[dim])
    ctx.places(size + max(before, 0) + max(after, 0), "places with their border")
    places = np.arange(-before, size + after)
    if mode == "circular":
        places %= size
    elif mode == "replicate":
        places = np.clip(places, 0, size - 1)
    else:
        places = np.abs(places)
        places = np.where(places >= size, 2 * (size - 1) - places, places)
    index = ctx.literal(places, "i64")
    extents = tuple(len(places) if d == dim else e for d, e in enumerate(x.extents))
    return ctx.emit_one("index_select", [x, index], TensorType(x.dtype, extents), {"dim": dim})
