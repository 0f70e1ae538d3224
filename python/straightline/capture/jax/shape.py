# SPDX-License-Identifier: Apache-2.0
"""StableHLO's ops that move elements: views, broadcasts, slices, pads, and the same over named sizes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
from jaxlib.mlir import ir

from straightline.capture.builder import Dim, TensorType
from straightline.capture.extents import Extent, product_of
from straightline.capture.graph_builder import FLOATS, Reject, Tensor, cuts_more
from straightline.capture.jax import values as v
from straightline.capture.jax.importer import FOLDS, Importer, Op, converter
from straightline.capture.jax.values import Known, Value


@converter("constant")
def _constant(ctx: Importer, op: Op) -> Value:
    return ctx.constant_of(op.operation)


@converter("optimization_barrier", "sdy.sharding_constraint")
def _as_it_is(ctx: Importer, op: Op) -> list[Value]:
    if op.kind.startswith("sdy"):
        ctx.check_sharding(op)
    return list(op.inputs)


@converter("broadcast_in_dim")
def _broadcast_in_dim(ctx: Importer, op: Op) -> Value:
    type = op.type()
    if type is None:
        raise Reject("a broadcast to a size that the module does not say", "dynamic_broadcast_in_dim")
    return broadcast(ctx, op.inputs[0], op.numbers("broadcast_dimensions"), type.extents)


@converter("dynamic_broadcast_in_dim")
def _dynamic_broadcast_in_dim(ctx: Importer, op: Op) -> Value:
    extents = ctx.sizes(op.inputs[1], "a shape")
    return broadcast(ctx, op.inputs[0], op.numbers("broadcast_dimensions"), extents)


def broadcast(ctx: Importer, x: Value, dims: Sequence[int], extents: Sequence[Dim]) -> Value:
    """Dim i of x is dim `dims[i]` of the result."""
    if isinstance(x, Known):
        folded = _known_broadcast(x, dims, extents)
        if folded is not None:
            return folded
        if x.splat is not None:
            return ctx.splat(x.splat, x.dtype, extents)
    tensor = ctx.tensor(x)
    order = sorted(range(tensor.rank), key=lambda i: dims[i])
    if order != list(range(tensor.rank)):
        tensor, dims = ctx.permute(tensor, order), [dims[i] for i in order]
    places = dict(zip(dims, tensor.extents))
    wide = ctx.reshape(tensor, [places.get(d, 1) for d in range(len(extents))])
    return ctx.expand(wide, extents)


def _known_broadcast(x: Known, dims: Sequence[int], extents: Sequence[Dim]) -> Known | None:
    if any(isinstance(e, Extent) for e in extents):
        return None
    places = dict(zip(dims, x.array.shape))
    if list(dims) != sorted(dims) or (x.splat is None and not x.is_sizes and product_of(list(extents)) > 4096):  # type: ignore[operator]
        return None
    wide = x.array.reshape([places.get(d, 1) for d in range(len(extents))])
    return Known(np.broadcast_to(wide, tuple(extents)), x.dtype)


@converter("reshape")
def _reshape(ctx: Importer, op: Op) -> Tensor:
    type = op.type()
    if type is None:
        raise Reject("a reshape to a size that the module does not say", "dynamic_reshape")
    return ctx.reshape(ctx.tensor(op.inputs[0]), type.extents)


@converter("dynamic_reshape")
def _dynamic_reshape(ctx: Importer, op: Op) -> Tensor:
    return ctx.reshape(ctx.tensor(op.inputs[0]), tuple(ctx.sizes(op.inputs[1], "a shape")))


@converter("transpose")
def _transpose(ctx: Importer, op: Op) -> Tensor:
    dims = op.numbers("permutation")
    x = ctx.tensor(op.inputs[0])
    return ctx.moved(x, dims)


@converter("reverse")
def _reverse(ctx: Importer, op: Op) -> Tensor:
    x = ctx.tensor(op.inputs[0])
    return ctx.emit_one("flip", [x], x.type, {"dims": op.numbers("dimensions")})


@converter("concatenate")
def _concatenate(ctx: Importer, op: Op) -> Tensor:
    tensors, dim = ctx.tensors(op), op.number("dimension")
    if len(tensors) == 1:
        return tensors[0]
    total: Dim = reduce(lambda n, t: n + t.extents[dim], tensors, 0)
    first = tensors[0]
    return ctx.cat(tensors, dim, TensorType(first.dtype, (*first.extents[:dim], total, *first.extents[dim + 1 :])))


@converter("slice")
def _slice(ctx: Importer, op: Op) -> Tensor:
    bounds = zip(op.numbers("start_indices"), op.numbers("limit_indices"), op.numbers("strides"))
    return sliced(ctx, ctx.tensor(op.inputs[0]), list(bounds))


def sliced(ctx: Importer, x: Tensor, bounds: Sequence[tuple[Dim, Dim, int]]) -> Tensor:
    """(start, limit, stride) of each dim."""
    for dim, (start, limit, step) in enumerate(bounds):
        if step != 1 and any(isinstance(n, Extent) for n in (start, limit)):
            x = sliced(ctx, x, [(0, e, 1) if d != dim else (start, limit, 1) for d, e in enumerate(x.extents)])
            start, limit = 0, x.extents[dim]
        if isinstance(start, Extent):
            count = limit - start
            type = TensorType(x.dtype, (*x.extents[:dim], count, *x.extents[dim + 1 :]))
            attributes = {"dim": dim, "length": count if isinstance(count, int) else -1}
            x = ctx.emit_one("dynamic_slice", [x, ctx.scalar(start, "i64")], type, attributes)
            continue
        count = limit - start if step == 1 else (limit - start + (step - 1)) // step
        x = ctx.slice_to(x, dim, start, count, step)
    return x


@converter("real_dynamic_slice")
def _real_dynamic_slice(ctx: Importer, op: Op) -> Tensor:
    if isinstance(op.inputs[1], Tensor):
        return _slice_from_places(ctx, op)
    start, limit, step = (ctx.sizes(x, "a bound of a slice") for x in op.inputs[1:])
    if not all(isinstance(n, int) for n in step):
        raise Reject("a slice whose stride is a named size", "a constant stride")
    return sliced(ctx, ctx.tensor(op.inputs[0]), list(zip(start, limit, step)))  # type: ignore[arg-type]


def _slice_from_places(ctx: Importer, op: Op) -> Tensor:
    """A slice whose places a call knows and whose sizes are known: its limit is its start and these sizes, as JAX writes it."""
    _, start, limit, _ = op.operation.operands
    made = limit.owner
    is_sum = not isinstance(made, ir.Block) and made.name == "stablehlo.add" and made.operands[0] == start
    sizes = ctx._env.get(made.operands[1]) if is_sum else None
    if not isinstance(sizes, Known):
        raise Reject(
            "a slice whose sizes only a call knows", "lax.dynamic_slice, with constant sizes or those of arguments"
        )
    x, places = ctx.tensor(op.inputs[0]), op.inputs[1]
    assert isinstance(places, Tensor)
    for dim, count in enumerate(v.dims(sizes)):
        if count == x.extents[dim]:
            continue
        if not isinstance(count, int):
            raise Reject(f"a slice of the named size {count} from a place that only a call knows", "a constant size")
        x = _from_place(ctx, x, dim, _element(ctx, places, dim), count)
    return x


def _element(ctx: Importer, vector: Tensor, place: int) -> Tensor:
    """An element of a vector of integers: the scalar that it was joined from, if it was. Clamps are left to the reader."""
    source = vector
    while (clamp := ctx.made(source, "minimum", "maximum")) is not None:
        source = clamp.operands[0]  # type: ignore[assignment]
    joined = ctx.made(source, "cat")
    if joined is not None and len(joined.operands) == vector.extents[0]:
        return ctx.before_views(joined.operands[place])  # type: ignore[arg-type]
    return ctx.select(vector, 0, place)


@converter("pad")
def _pad(ctx: Importer, op: Op) -> Tensor:
    low, high, between = (op.numbers(n) for n in ("edge_padding_low", "edge_padding_high", "interior_padding"))
    return padded(ctx, ctx.tensor(op.inputs[0]), op.inputs[1], low, high, between)


@converter("dynamic_pad")
def _dynamic_pad(ctx: Importer, op: Op) -> Tensor:
    widths = [ctx.sizes(x, "a padding") for x in op.inputs[2:]]
    if not all(isinstance(n, int) for listed in widths for n in listed):
        raise Reject("a padding of a named size", "constant paddings")
    return padded(ctx, ctx.tensor(op.inputs[0]), op.inputs[1], *widths)  # type: ignore[arg-type]


def padded(
    ctx: Importer, x: Tensor, value: Value, low: Sequence[int], high: Sequence[int], between: Sequence[int]
) -> Tensor:
    """Borders, and `between` elements behind each but the last."""
    filler = value.splat if isinstance(value, Known) else None
    for dim, count in enumerate(between):
        if count:
            x = _spread(ctx, x, value, dim, count)
    if filler is not None and (x.dtype in FLOATS or abs(filler) < 2**63):
        return ctx.padded(x, list(zip(low, high)), filler)
    number = ctx.tensor(value)
    for dim, (before, after) in enumerate(zip(low, high)):
        size = x.extents[dim]
        if before < 0 or after < 0:
            count = size + min(before, 0) + min(after, 0)
            if cuts_more(size, before, after):
                x = ctx.expand(number, (*x.extents[:dim], size + before + after, *x.extents[dim + 1 :]))
                continue
            x = ctx.slice_to(x, dim, max(-before, 0), count)
        borders = [
            ctx.expand(number, (*x.extents[:dim], width, *x.extents[dim + 1 :])) if width > 0 else None
            for width in (before, after)
        ]
        parts = [t for t in (borders[0], x, borders[1]) if t is not None]
        if len(parts) > 1:
            total: Dim = reduce(lambda n, t: n + t.extents[dim], parts, 0)
            x = ctx.cat(parts, dim, TensorType(x.dtype, (*x.extents[:dim], total, *x.extents[dim + 1 :])))
    return x


def _spread(ctx: Importer, x: Tensor, value: Value, dim: int, count: int) -> Tensor:
    """`count` times a value behind each element of a dim but the last."""
    size = x.extents[dim]
    lead, rest = x.extents[:dim], x.extents[dim + 1 :]
    if size == 0:
        return x
    single = ctx.reshape(x, (*lead, size, 1, *rest))
    gaps = ctx.tensor(broadcast(ctx, value, [], (*lead, size, count, *rest)))
    wide = ctx.cat([single, gaps], dim + 1, TensorType(x.dtype, (*lead, size, count + 1, *rest)))
    flat = ctx.reshape(wide, (*lead, size * (count + 1), *rest))
    return ctx.slice_to(flat, dim, 0, size * (count + 1) - count)


@converter("iota")
def _iota(ctx: Importer, op: Op) -> Tensor:
    type = op.type()
    if type is None:
        raise Reject("an iota of a size that the module does not say", "dynamic_iota")
    return iota(ctx, type.extents, op.number("iota_dimension"), type.dtype)


@converter("dynamic_iota")
def _dynamic_iota(ctx: Importer, op: Op) -> Tensor:
    return iota(ctx, ctx.sizes(op.inputs[0], "a shape"), op.number("iota_dimension"), op.dtype())


def iota(ctx: Importer, extents: Sequence[Dim], dim: int, dtype: str) -> Tensor:
    """Places along a dim."""
    places = ctx.iota(extents[dim], dtype)
    return ctx.expand(ctx.reshape(places, [e if d == dim else 1 for d, e in enumerate(extents)]), extents)


# Places that a call knows ---------------------------------------------------------------------------------------------


@converter("dynamic_slice")
def _dynamic_slice(ctx: Importer, op: Op) -> Tensor:
    x = ctx.tensor(op.inputs[0])
    for dim, (start, count) in enumerate(zip(op.inputs[1:], op.numbers("slice_sizes"))):
        if x.extents[dim] == count:
            continue
        x = _from_place(ctx, x, dim, start, count)
    return x


def _from_place(ctx: Importer, x: Tensor, dim: int, start: Value, count: int) -> Tensor:
    """`count` elements of a dim from a place on."""
    place = _place_within(ctx, start, x.extents[dim], count)
    if isinstance(place, int):
        return ctx.slice_to(x, dim, place, count)
    type = TensorType(x.dtype, (*x.extents[:dim], count, *x.extents[dim + 1 :]))
    return ctx.emit_one("dynamic_slice", [x, place], type, {"dim": dim, "length": count})


def _place_within(ctx: Importer, start: Value, size: Dim, count: int) -> int | Tensor:
    """A start, not below 0 and not so large that the slice ends outside."""
    most = size - count
    interval = ctx.interval(start)
    if isinstance(start, Known) and isinstance(most, int):
        (place,) = v.dims(start)
        if isinstance(place, int):
            return min(max(place, 0), most)
    index = ctx.index(start)
    if interval is not None and interval[0] >= 0 and interval[1] <= ctx.bounds(most)[0]:
        return index
    if isinstance(most, int):
        return ctx.unary("clamp", index, min=0, max=most)
    return ctx.binary("minimum", ctx.unary("clamp", index, min=0), ctx.scalar(most, "i64"))


@converter("dynamic_update_slice")
def _dynamic_update_slice(ctx: Importer, op: Op) -> Tensor:
    x, part = ctx.tensor(op.inputs[0]), ctx.tensor(op.inputs[1])
    moved = [d for d in range(x.rank) if x.extents[d] != part.extents[d]]
    return _updated(ctx, x, part, op.inputs[2:], moved)


def _updated(ctx: Importer, x: Tensor, part: Tensor, starts: Sequence[Value], moved: list[int]) -> Tensor:
    """X with a part at places along the dims `moved`; all but one of these are written into a slice of x first."""
    if not moved:
        return part
    dim, rest = moved[0], moved[1:]
    count = part.extents[dim]
    if not isinstance(count, int):
        raise Reject(f"an update of the named size {count}", "a constant size")
    place = _place_within(ctx, starts[dim], x.extents[dim], count)
    if rest:
        part = _updated(ctx, _from_place(ctx, x, dim, starts[dim], count), part, starts, rest)
    if isinstance(place, int):
        attributes = {"dim": dim, "start": place, "end": place + count, "step": 1}
        return ctx.emit_one("slice_scatter", [x, part], x.type, attributes)
    return ctx.emit_one("dynamic_update_slice", [x, part, place], x.type, {"dim": dim})


# Sizes ----------------------------------------------------------------------------------------------------------------


@converter("get_dimension_size")
def _get_dimension_size(ctx: Importer, op: Op) -> Value:
    return v.sizes([op.inputs[0].type.extents[op.number("dimension")]], (), op.dtype())


# Folding --------------------------------------------------------------------------------------------------------------


def _fold_reshape(op: Op, inputs: list[Known]) -> Known | None:
    type = op.type()
    x = inputs[0]
    if type is None:
        return None
    if x.splat is not None:
        return Known(np.broadcast_to(x.array[(0,) * x.array.ndim], type.extents), x.dtype)
    return Known(x.array.reshape(type.extents), x.dtype)


def _fold_slice(op: Op, inputs: list[Known]) -> Known | None:
    bounds = zip(op.numbers("start_indices"), op.numbers("limit_indices"), op.numbers("strides"))
    return Known(inputs[0].array[tuple(slice(*b) for b in bounds)], inputs[0].dtype)


def _fold_concatenate(op: Op, inputs: list[Known]) -> Known | None:
    if not any(x.is_sizes for x in inputs):
        return Known(np.concatenate([x.array for x in inputs], op.number("dimension")), inputs[0].dtype)
    joined = np.concatenate([x.array.astype(object) for x in inputs], op.number("dimension"))
    return v.sizes(v.dims(Known(joined, inputs[0].dtype)), joined.shape, inputs[0].dtype)


def _fold_transpose(op: Op, inputs: list[Known]) -> Known | None:
    return Known(inputs[0].array.transpose(op.numbers("permutation")), inputs[0].dtype)


def _fold_dynamic_slice(op: Op, inputs: list[Known]) -> Known | None:
    x, *starts = inputs
    if any(t.is_sizes for t in inputs):
        return None
    sizes = op.numbers("slice_sizes")
    places = [min(max(int(s.array), 0), n - c) for s, n, c in zip(starts, x.array.shape, sizes)]
    return Known(x.array[tuple(slice(p, p + c) for p, c in zip(places, sizes))], x.dtype)


FOLDS.update({
    "reshape": _fold_reshape, "slice": _fold_slice, "concatenate": _fold_concatenate, "transpose": _fold_transpose,
    "dynamic_slice": _fold_dynamic_slice,
})  # fmt: skip
