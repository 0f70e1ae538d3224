# SPDX-License-Identifier: Apache-2.0
"""Paddle's ops that read and write by indices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from straightline.capture import linalg
from straightline.capture.builder import Dim, TensorType
from straightline.capture.extents import product_of
from straightline.capture.graph_builder import FLOATS, Reject, Tensor, known
from straightline.capture.paddle.importer import Importer, Node, converter
from straightline.capture.paddle.values import numpy_dtype


def _wrapped(ctx: Importer, index: Tensor, size: Dim) -> Tensor:
    """Indices from the beginning, where negative ones count from the end."""
    index = ctx.cast(index, "i64")
    negative = ctx.compare("lt", index, ctx.full(0, "i64"))
    moved = ctx.binary("add", index, ctx.scalar(size, "i64"))
    return ctx.emit_one("where", [negative, moved, index], index.type)


def _rows(ctx: Importer, x: Tensor, index: Tensor, dim: int) -> Tensor:
    """Entries of a dim, in whose place the dims of the index come."""
    count = product_of(list(index.extents))
    type = TensorType(x.dtype, (*x.extents[:dim], count, *x.extents[dim + 1 :]))
    found = ctx.emit_one("index_select", [x, ctx.reshape(index, (count,))], type, {"dim": dim})
    return ctx.reshape(found, (*x.extents[:dim], *index.extents, *x.extents[dim + 1 :]))


@converter("embedding", takes="int32 and int64 indices, padding_idx")
def _embedding(ctx: Importer, node: Node) -> Tensor:
    index, weight = ctx.tensor(node.inputs[0], "i64"), ctx.tensor(node.inputs[1])
    type = TensorType(weight.dtype, (*index.extents, weight.extents[1]))
    found = ctx.emit_one("embedding", [weight, index], type)
    padding = int(node.attribute("padding_idx", -1))
    if padding == -1:
        return found
    kept = ctx.reshape(ctx.compare("ne", index, ctx.full(padding, "i64")), (*index.extents, 1))
    zeros = ctx.full(0, found.dtype, found.extents)
    return ctx.emit_one("where", [ctx.expand(kept, found.extents), found, zeros], found.type)


@converter("gather", takes="a constant axis")
def _gather(ctx: Importer, node: Node) -> Tensor:
    x, index = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1], "i64")
    axis = ctx.numbers(node.input(2), "an axis")[0] if node.input(2) is not None else int(node.attribute("axis", 0))
    if index.rank == 2 and index.extents[1] == 1:
        index = ctx.reshape(index, (index.extents[0],))
    dim = ctx.axis(axis, x.rank)
    return _rows(ctx, x, _wrapped(ctx, index, x.extents[dim]), dim)


@converter("index_select")
def _index_select(ctx: Importer, node: Node) -> Tensor:
    x, index = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1], "i64")
    index = ctx.reshape(index, (product_of(index.extents),))
    dim = ctx.axis(node.attribute("axis", 0), x.rank)
    return _rows(ctx, x, _wrapped(ctx, index, x.extents[dim]), dim)


def _columns(ctx: Importer, index: Tensor) -> list[Tensor]:
    depth = known(index.extents[-1])
    return [ctx.select(index, index.rank - 1, i) for i in range(depth)]


@converter("gather_nd", takes="any depth; negative indices count from the end")
def _gather_nd(ctx: Importer, node: Node) -> Tensor:
    x, index = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1], "i64")
    columns = _columns(ctx, index)
    if not columns:
        return ctx.expand(x, (*index.extents[:-1], *x.extents))
    if len(columns) == 1:
        return _rows(ctx, x, _wrapped(ctx, columns[0], x.extents[0]), 0)
    extents = (*columns[0].extents, *x.extents[len(columns) :])
    return ctx.emit_one("index", [x, *columns], TensorType(x.dtype, extents), {"dims": list(range(len(columns)))})


@converter("take_along_axis", takes="indices broadcast by Paddle's Python")
def _take_along_axis(ctx: Importer, node: Node) -> Tensor:
    x, index = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1], "i64")
    dim = ctx.axis(node.attribute("axis"), x.rank)
    index = _wrapped(ctx, index, x.extents[dim])
    return ctx.emit_one("gather", [x, index], TensorType(x.dtype, index.extents), {"dim": dim})


@converter("index_sample")
def _index_sample(ctx: Importer, node: Node) -> Tensor:
    x, index = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1], "i64")
    return ctx.emit_one("gather", [x, index], TensorType(x.dtype, index.extents), {"dim": 1})


_REDUCE = {"assign": "none", "add": "sum", "mul": "prod", "multiply": "prod", "amax": "amax", "amin": "amin"}


def _beginning(how: str, dtype: str) -> float | int:
    """What a reduction begins with where it leaves out what is there."""
    if how not in ("amax", "amin"):
        return 1 if how in ("mul", "multiply") else 0
    if dtype in FLOATS:
        return float("-inf" if how == "amax" else "inf")
    limits = np.iinfo(numpy_dtype(dtype))
    return int(limits.min if how == "amax" else limits.max)


@converter("put_along_axis", takes="assign, add, mul, mean, amax, amin; with and without what is there")
def _put_along_axis(ctx: Importer, node: Node) -> Tensor:
    x, index, values = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1], "i64"), ctx.tensor(node.inputs[2])
    how = str(node.attribute("reduce", "assign"))
    if how not in _REDUCE and how != "mean":
        raise Reject(f"put_along_axis with reduce {how!r}", ", ".join([*_REDUCE, "mean"]))
    dim = ctx.axis(node.attribute("axis"), x.rank)
    values = ctx.expand(ctx.cast(values, x.dtype), index.extents)
    index = _wrapped(ctx, index, x.extents[dim])

    def written(into: Tensor, given: Tensor, reduce: str) -> Tensor:
        return ctx.emit_one("scatter", [into, index, given], into.type, {"dim": dim, "reduce": reduce})

    own = node.attribute("include_self", True) or how == "assign"
    if not own:
        x = written(x, ctx.full(_beginning(how, x.dtype), x.dtype, index.extents), "none")
    if how != "mean":
        return written(x, values, _REDUCE[how])
    ones, counts = ctx.full(1, x.dtype, index.extents), ctx.full(1, x.dtype, x.extents)
    counts = counts if own else written(counts, ctx.full(0, x.dtype, index.extents), "none")
    sums = [written(x, values, _REDUCE["add"]), written(counts, ones, _REDUCE["add"])]
    return ctx.binary("div" if x.dtype in FLOATS else "trunc_divide", *sums)


@converter("scatter", takes="overwrite or sums")
def _scatter(ctx: Importer, node: Node) -> Tensor:
    x, index, updates = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1], "i64"), ctx.tensor(node.inputs[2])
    index = ctx.reshape(index, (product_of(list(index.extents)),))
    index = _wrapped(ctx, index, x.extents[0])
    updates = ctx.slice(updates, 0, 0, known(index.extents[0]), known(index.extents[0]))  # further rows are not read
    if node.attribute("overwrite", True):
        return ctx.emit_one("index_copy", [x, index, updates], x.type, {"dim": 0})
    zeroed = ctx.emit_one("index_copy", [x, index, ctx.full(0, x.dtype, updates.extents)], x.type, {"dim": 0})
    return _summed(ctx, zeroed, [0], [index], updates)


def _summed(ctx: Importer, x: Tensor, dims: Sequence[int], index: Sequence[Tensor], values: Tensor) -> Tensor:
    """Values added at places; several at one place are all added. Halves in f32."""
    if x.dtype in ("f16", "bf16"):
        return ctx.cast(_summed(ctx, ctx.cast(x, "f32"), dims, index, ctx.cast(values, "f32")), x.dtype)
    attributes = {"dims": list(dims), "accumulate": True}
    return ctx.emit_one("index_put", [x, *index, values], x.type, attributes)


@converter("index_add", takes="a constant axis")
def _index_add(ctx: Importer, node: Node) -> Tensor:
    x, index, values = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1], "i64"), ctx.tensor(node.inputs[2])
    dim = ctx.axis(node.attribute("axis", 0), x.rank)
    index = _wrapped(ctx, ctx.reshape(index, (product_of(list(index.extents)),)), x.extents[dim])
    lead = [dim, *(d for d in range(x.rank) if d != dim)]
    found = _summed(ctx, ctx.permute(x, lead), [0], [index], ctx.permute(values, lead))
    return ctx.permute(found, [lead.index(d) for d in range(x.rank)])


@converter("index_put", takes="integer indices of the first dims, written or added; a mask of all dims and one value",
           refuses="masks of some dims, or with a value for each element")  # fmt: skip
def _index_put(ctx: Importer, node: Node) -> Tensor:
    x, given, values = ctx.tensor(node.inputs[0]), ctx.tensors(node.inputs[1]), ctx.tensor(node.inputs[2])
    if len(given) == 1 and given[0].dtype == "i1" and given[0].rank == x.rank and product_of(values.extents) == 1:
        value = ctx.expand(ctx.reshape(ctx.cast(values, x.dtype), ()), x.extents)
        value = ctx.binary("add", x, value) if node.attribute("accumulate", False) else value
        return ctx.where(given[0], value, x)
    if any(t.dtype == "i1" for t in given):
        raise Reject("index_put by a mask", "a mask of all dims and one value, where, or integer indices")
    extents: tuple[Dim, ...] = ()
    for t in given:
        extents = ctx.common(extents, t.extents)
    index = [ctx.expand(_wrapped(ctx, t, size), extents) for t, size in zip(given, x.extents)]
    values = ctx.expand(ctx.cast(values, x.dtype), (*extents, *x.extents[len(given) :]))
    dims = list(range(len(given)))
    if node.attribute("accumulate", False):
        return _summed(ctx, x, dims, index, values)
    return ctx.emit_one("index_put", [x, *index, values], x.type, {"dims": dims, "accumulate": False})


@converter("scatter_nd_add")
def _scatter_nd_add(ctx: Importer, node: Node) -> Tensor:
    x, index, updates = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1], "i64"), ctx.tensor(node.inputs[2])
    columns = _columns(ctx, index)
    if not columns:
        raise Reject("scatter_nd_add with no indices", "one index or more")
    attributes = {"dims": list(range(len(columns))), "accumulate": True}
    return ctx.emit_one("index_put", [x, *columns, updates], x.type, attributes)


@converter("repeat_interleave", takes="a constant count")
def _repeat_interleave(ctx: Importer, node: Node) -> Tensor:
    x, count = ctx.tensor(node.inputs[0]), ctx.parts(int(node.attribute("repeats")), "repetitions")
    dim = ctx.axis(node.attribute("axis", 0), x.rank)
    before, after = x.extents[: dim + 1], x.extents[dim + 1 :]
    wide = ctx.expand(ctx.reshape(x, (*before, 1, *after)), (*before, count, *after))
    return ctx.reshape(wide, (*x.extents[:dim], x.extents[dim] * count, *after))


@converter("one_hot", takes="a constant number of classes")
def _one_hot(ctx: Importer, node: Node) -> Tensor:
    index = ctx.tensor(node.inputs[0], "i64")
    (classes,) = ctx.numbers(node.inputs[1], "a number of classes")
    numbers = ctx.emit_one("iota", [], TensorType("i64", (classes,)), {"start": 0, "step": 1})
    wide = ctx.reshape(index, (*index.extents, 1))
    return ctx.cast(ctx.compare("eq", wide, numbers), "f32")


@converter("tril", "triu", takes="any diagonal, named sizes")
def _triangle(ctx: Importer, node: Node) -> Tensor:
    x, diagonal = ctx.tensor(node.inputs[0]), int(node.attribute("diagonal", 0))
    if x.rank < 2:
        raise Reject(f"a triangle of rank {x.rank}", "2 dims or more")
    return linalg.triangle(ctx, x, upper=node.op.short == "triu", diagonal=diagonal)


@converter("set_value_", "set_value_with_tensor_",
           takes="constant bounds and positive steps, a tensor or numbers", refuses="negative steps")  # fmt: skip
def _set_value(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    from_tensor = "with_tensor" in node.op.short
    first = 2 if from_tensor else 1
    starts, ends, steps = (ctx.numbers(t, "a bound of a slice") for t in node.inputs[first : first + 3])
    axes = [ctx.axis(a, x.rank) for a in node.attribute("axes")]
    drops = {ctx.axis(a, x.rank) for a in node.attribute("decrease_axes") or []}
    bounds = []
    for axis, start, end, step in zip(axes, starts, ends, steps):
        if step < 1:
            raise Reject(f"a write with a step of {step}", "steps of 1 or more")
        size = known(x.extents[axis])
        if axis in drops and start == -1:
            end = size
        low, high, _ = slice(start, end, step).indices(size)
        bounds.append((axis, low, max(low, high), step))
    counts = {axis: -(-(high - low) // step) for axis, low, high, step in bounds}
    extents = [counts.get(d, e) for d, e in enumerate(x.extents)]
    value = _value_of(ctx, node, x, from_tensor, [e for d, e in enumerate(extents) if d not in drops])
    return _written(ctx, x, bounds, ctx.reshape(value, extents))


def _value_of(ctx: Importer, node: Node, x: Tensor, from_tensor: bool, extents: Sequence[Dim]) -> Tensor:
    if from_tensor:
        value = ctx.tensor(node.inputs[1], x.dtype)
        lead = value.rank - len(extents)
        if lead > 0 and all(e == 1 for e in value.extents[:lead]):
            value = ctx.reshape(value, value.extents[lead:])
    else:
        numbers, shape = node.attribute("values"), node.attribute("shape")
        scalars = [float(n) if x.dtype in FLOATS else int(n) for n in numbers]
        value = ctx.literal(np.asarray(scalars).reshape(shape or [len(scalars)]), x.dtype)
        if value.extents == (1,):
            value = ctx.reshape(value, ())
    return ctx.expand(value, extents)


def _written(ctx: Importer, x: Tensor, bounds: Sequence[tuple[int, int, int, int]], value: Tensor) -> Tensor:
    if not bounds:
        return value
    (axis, low, high, step), *rest = bounds
    count = -(-(high - low) // step)
    if count == 0:
        return x
    if rest:
        inner = ctx.slice(x, axis, low, high, count, step)
        value = _written(ctx, inner, rest, value)
    return ctx.emit_one("slice_scatter", [x, value], x.type, {"dim": axis, "start": low, "end": high, "step": step})
