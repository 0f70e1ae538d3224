# SPDX-License-Identifier: Apache-2.0
"""ONNX ops that move, view, join or make data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import numpy_helper

from straightline.capture import linalg
from straightline.capture.builder import Dim, TensorType
from straightline.capture.extents import Extent, exact_quotient, minimum, product_of
from straightline.capture.graph_builder import FLOATS, SLICE_END, Reject, Tensor, cuts_more
from straightline.capture.onnx.importer import Importer, Node, converter, known_of, shape_text
from straightline.capture.onnx.values import Known, Value, dims, dtype_of, ir_dtype, sizes
from straightline.errors import UserError


def _moved(node: Node) -> Known | None:
    """The first input, where it is sizes with named extents, which these ops then move as numpy does."""
    x = node.inputs[0]
    return x if isinstance(x, Known) and x.is_sizes else None


@converter("Shape")
def _shape(ctx: Importer, node: Node) -> Known:
    extents = ctx.type_of(_given(node)).extents
    return sizes(list(extents[slice(node.attribute("start", 0), node.attribute("end"))]))


def _given(node: Node) -> Value:
    x = node.inputs[0]
    if x is None:
        raise Reject("a missing input")
    return x


@converter("Size")
def _size(ctx: Importer, node: Node) -> Known:
    return sizes(product_of(ctx.type_of(_given(node)).extents))


@converter("Reshape")
def _reshape(ctx: Importer, node: Node) -> Value:
    x = _given(node)
    own = ctx.type_of(x).extents
    wanted = ctx.sizes(node.inputs[1], "the shape of Reshape")
    extents: list[Dim] = []
    for place, size in enumerate(wanted):
        if size == 0 and not node.attribute("allowzero", 0):
            if place >= len(own):
                raise Reject(f"a 0 at place {place} of the shape of a tensor of rank {len(own)}")
            size = own[place]
        extents.append(size)
    if -1 in extents:
        place = extents.index(-1)
        rest = product_of([e for i, e in enumerate(extents) if i != place])
        total = product_of(own)
        if rest == 0:
            raise Reject("a -1 beside a 0 in the shape of Reshape")
        exact = exact_quotient(total, rest)
        extents[place] = total // rest if exact is None else exact
    if isinstance(x, Known) and x.is_sizes and all(isinstance(e, int) for e in extents):
        return Known(x.array.reshape(extents))
    count = product_of(own)
    wanted_count = product_of(extents)
    if count == wanted_count:
        rows = ctx.before_swap(x)
        if rows is not None and len(extents) > 2 and tuple(extents[-2:]) == own[-2:]:
            # Keys of attention, as torch.onnx.export turns them: the rows of each image and head, then turned.
            apart = ctx.reshape(rows, (*extents[:-2], *rows.extents[-2:]))
            return ctx.permute(apart, [*range(len(extents) - 2), len(extents) - 1, len(extents) - 2])
        return ctx.reshape(ctx.tensor(x), extents)
    low, high = ctx.bounds(count - wanted_count)
    if low > 0 or high < 0 or isinstance(count, int) and isinstance(wanted_count, int):
        raise Reject(f"{count} elements do not fit the shape [{', '.join(map(str, extents))}]")
    # Only a call knows.
    ctx.same_size(count, wanted_count)
    flat = ctx.fitted(ctx.reshape(ctx.tensor(x), (count,)), (wanted_count,))
    return ctx.reshape(flat, extents)


@converter("Flatten")
def _flatten(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    axis = node.attribute("axis", 1)
    axis = axis + x.rank if axis < 0 else axis
    return ctx.reshape(x, (product_of(x.extents[:axis]), product_of(x.extents[axis:])))


@converter("Squeeze")
def _squeeze(ctx: Importer, node: Node) -> Value:
    x = _given(node)
    own = ctx.type_of(x).extents
    if node.input(1) is None:
        axes = [d for d, e in enumerate(own) if e == 1]
    else:
        axes = ctx.axes(ctx.numbers(node.inputs[1], "the axes of Squeeze"), len(own))
    if any(isinstance(own[axis], int) and own[axis] != 1 for axis in axes):
        raise Reject(f"squeezed axes {axes} of {list(own)}, which are not of size 1")
    if isinstance(x, Known) and x.is_sizes:
        return Known(x.array.reshape([e for d, e in enumerate(x.array.shape) if d not in axes]))
    for axis in axes:  # a named size is 1 in each call
        ctx.same_size(own[axis], 1)
    whole = ctx.fitted(ctx.tensor(x), [1 if d in axes else e for d, e in enumerate(own)])
    return ctx.reshape(whole, [e for d, e in enumerate(own) if d not in axes])


@converter("Unsqueeze")
def _unsqueeze(ctx: Importer, node: Node) -> Value:
    x = _given(node)
    own = list(ctx.type_of(x).extents)
    axes = ctx.numbers(node.inputs[1], "the axes of Unsqueeze")
    for axis in ctx.axes(axes, len(own) + len(axes)):
        own.insert(axis, 1)
    if isinstance(x, Known) and x.is_sizes:
        return Known(x.array.reshape(own))
    return ctx.reshape(ctx.tensor(x), own)


@converter("Transpose")
def _transpose(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    order = node.attribute("perm", list(reversed(range(x.rank))))
    if sorted(order) != list(range(x.rank)):
        raise UserError(
            f"{ctx.model}: perm of Transpose at '{ctx.location.module}' is {order} but the tensor has rank {x.rank}"
        )
    return ctx.permute(x, order) if x.rank else x


@converter("Concat")
def _concat(ctx: Importer, node: Node) -> Value:
    values = [x for x in node.inputs if x is not None]
    known = [x for x in values if isinstance(x, Known)]
    if len(known) == len(values) and any(x.is_sizes for x in known):
        return sizes(np.concatenate([x.array.astype(object) for x in known], axis=node.attribute("axis")))
    return _joined(ctx, [ctx.tensor(x) for x in values], node.attribute("axis"))


def _joined(ctx: Importer, parts: Sequence[Tensor], axis: int) -> Tensor:
    axis = ctx.axis(axis, parts[0].rank)
    for part in parts[1:]:
        if part.rank != parts[0].rank:
            raise Reject(f"parts of ranks {parts[0].rank} and {part.rank}")
        for d in range(part.rank):
            if d != axis:
                ctx.same_size(parts[0].extents[d], part.extents[d])
    total: Dim = 0
    for part in parts:
        total = part.extents[axis] + total
    first = parts[0]
    parts = [
        ctx.fitted(part, [part.extents[d] if d == axis else e for d, e in enumerate(first.extents)]) for part in parts
    ]
    return ctx.cat(parts, axis, TensorType(first.dtype, (*first.extents[:axis], total, *first.extents[axis + 1 :])))


@converter("Split")
def _split(ctx: Importer, node: Node) -> list[Value | None]:
    x = _given(node)
    type = ctx.type_of(x)
    axis = ctx.axis(node.attribute("axis", 0), type.rank)
    size, count = type.extents[axis], node.attribute("num_outputs", len(node.proto.output))
    if node.input(1) is not None:
        parts = ctx.sizes(node.inputs[1], "the split of Split")
    elif isinstance(size, int):
        each = -(-size // count)
        parts = [max(min(each, size - i * each), 0) for i in range(count)]
    else:
        raise Reject("an even split of a named size", "the sizes of the parts")
    results: list[Value | None] = []
    start: Dim = 0
    for part in parts:
        if isinstance(x, Known) and x.is_sizes:
            results.append(sizes(x.array.take(range(int(start), int(start + part)), axis)))
        else:
            results.append(_slice_of(ctx, ctx.tensor(x), axis, start, start + part))
        start = start + part
    return results


def _slice_of(ctx: Importer, x: Tensor, dim: int, start: Dim, end: Dim) -> Tensor:
    """Elements start .. end of a dim, both within it."""
    count = end - start
    if not isinstance(start, int):
        attributes = {"dim": dim, "length": count if isinstance(count, int) else -1}
        type = TensorType(x.dtype, (*x.extents[:dim], count, *x.extents[dim + 1 :]))
        return ctx.emit_one("dynamic_slice", [x, ctx.scalar(start, "i64")], type, attributes)
    if not isinstance(end, int):
        from straightline.capture.graph_builder import SLICE_END_BY_TYPE

        return ctx.slice(x, dim, start, SLICE_END if end == x.extents[dim] else SLICE_END_BY_TYPE, count)
    return ctx.slice(x, dim, start, end, count)


@converter("Slice")
def _slice(ctx: Importer, node: Node) -> Value:
    x = _given(node)
    type = ctx.type_of(x)
    starts, ends = (ctx.sizes(node.inputs[i], f"the {what} of Slice") for i, what in ((1, "starts"), (2, "ends")))
    axes = list(range(len(starts))) if node.input(3) is None else ctx.numbers(node.inputs[3], "the axes of Slice")
    steps = [1] * len(starts) if node.input(4) is None else ctx.numbers(node.inputs[4], "the steps of Slice")
    if isinstance(x, Known) and x.is_sizes:
        (start,), (end,), (step,) = starts, ends, steps
        return sizes(x.array[slice(*(n if isinstance(n, int) else None for n in (start, end, step)))])
    tensor = ctx.tensor(x)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        tensor = _sliced(ctx, tensor, ctx.axis(axis, type.rank), start, end, step)
    return tensor


def _sliced(ctx: Importer, x: Tensor, dim: int, start: Dim, end: Dim, step: int) -> Tensor:
    size = x.extents[dim]
    if isinstance(size, int) and isinstance(start, int) and isinstance(end, int):
        first, last, step = slice(start, end if end >= -size or step > 0 else None, step).indices(size)
        count = len(range(first, last, step))
        if count == 0:
            return ctx.slice(x, dim, 0, 0, 0)
        if step > 0:
            return ctx.slice(x, dim, first, last, count, step)
        low = first + step * (count - 1)
        part = ctx.slice(x, dim, low, first + 1, count, -step)
        return ctx.emit_one("flip", [part], part.type, {"dims": [dim]})
    if step == -1 and isinstance(start, int) and isinstance(end, int) and start in (-1, 2**63 - 1) and end <= -(2**31):
        return ctx.emit_one("flip", [x], x.type, {"dims": [dim]})
    if step < 1:
        raise Reject(f"a slice of a named size with step {step}", "steps of 1 or more")
    first, last = _within(ctx, start, size, True), _within(ctx, end, size)
    count = last - first if step == 1 else (last - first + step - 1) // step
    if ctx.bounds(last - first)[0] < 0:
        ctx.need_not_negative(last - first)
        raise Reject(
            f"a slice from {start} to {end} of {size} elements, which may be empty", "bounds that a size tells apart"
        )
    if step == 1:
        return _slice_of(ctx, x, dim, first, last)
    if not isinstance(first, int):
        raise Reject(f"a slice from {start} on with step {step}", "a start that is a number")
    if isinstance(last, Extent) and last != size:  # a step has no end that only a call knows
        x, size = _slice_of(ctx, x, dim, 0, last), last
    return ctx.slice(
        x, dim, first, SLICE_END if last == size else int(last) if isinstance(last, int) else SLICE_END, count, step
    )


def _within(ctx: Importer, bound: Dim, size: Dim, begins: bool = False) -> Dim:
    """A bound of a slice as a place from the beginning, within the dim; a size must have the place that a slice begins at."""
    if bound == 0:
        return 0
    low, high = ctx.bounds(bound)
    if high < 0:
        bound = size + bound
        if ctx.bounds(bound)[0] >= 0:
            return bound
        if ctx.bounds(bound)[1] < 0:
            return 0
        ctx.need_not_negative(bound)
        raise Reject(
            f"a slice's bound {bound}, which may be before the beginning of {size} elements", "a larger smallest size"
        )
    if low < 0:
        raise Reject(f"a slice's bound {bound}, which may be negative", "a bound with a sign")
    if ctx.bounds(size - bound)[0] >= 0:
        return bound
    if ctx.bounds(size - bound)[1] <= 0:
        return size
    if not begins:
        return minimum(size, bound, ctx.ranges)
    ctx.need_not_negative(size - bound)
    raise Reject(f"a slice from {bound} on of {size} elements, where a call decides which is less", "sizes with bounds")


@converter("Gather")
def _gather(ctx: Importer, node: Node) -> Value:
    x, index = _given(node), node.inputs[1]
    axis = ctx.axis(node.attribute("axis", 0), ctx.type_of(x).rank)
    if isinstance(x, Known) and x.is_sizes and isinstance(index, Known) and not index.is_sizes:
        return sizes(np.take(x.array, index.array, axis=axis))
    size = ctx.type_of(x).extents[axis]
    if isinstance(index, Known) and not index.is_sizes and index.array.ndim == 0 and index.array.dtype.kind in "iu":
        place = int(index.array)
        if -ctx.bounds(size)[0] <= place < ctx.bounds(size)[0]:
            return ctx.select(ctx.tensor(x), axis, place)  # a view
    return gathered(ctx, ctx.tensor(x), _wrapped(ctx, index, size), axis)


def _wrapped(ctx: Importer, index: Value | None, size: Dim) -> Tensor:
    """Indices from the beginning, where negative ones count from the end."""
    if isinstance(index, Known) and not index.is_sizes and isinstance(size, int):
        array = index.array.astype(np.int64)
        return ctx.literal(np.where(array < 0, array + size, array))
    tensor = ctx.tensor(index, "i64")
    if isinstance(index, Known):
        return tensor
    moved = ctx.binary("add", tensor, ctx.scalar(size, "i64"))
    return ctx.where(ctx.compare("lt", tensor, 0), moved, tensor)


def gathered(ctx: Importer, x: Tensor, index: Tensor, axis: int) -> Tensor:
    """Entries of a dim, in whose place the dims of the index come."""
    count = product_of(index.extents)
    flat = ctx.reshape(index, (count,))
    type = TensorType(x.dtype, (*x.extents[:axis], count, *x.extents[axis + 1 :]))
    found = ctx.emit_one("index_select", [x, flat], type, {"dim": axis})
    return ctx.reshape(found, (*x.extents[:axis], *index.extents, *x.extents[axis + 1 :]))


@converter("GatherElements")
def _gather_elements(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    axis = ctx.axis(node.attribute("axis", 0), x.rank)
    index = _wrapped(ctx, node.inputs[1], x.extents[axis])
    return ctx.emit_one("gather", [x, index], TensorType(x.dtype, index.extents), {"dim": axis})


def _index_columns(ctx: Importer, indices: Tensor, depth: int) -> list[Tensor]:
    """The last dim of indices taken apart."""
    return [ctx.select(indices, indices.rank - 1, i) for i in range(depth)]


@converter("GatherND")
def _gather_nd(ctx: Importer, node: Node) -> Tensor:
    x, indices = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1], "i64")
    batch = node.attribute("batch_dims", 0)
    depth = indices.extents[-1]
    if not isinstance(depth, int):
        raise Reject("a depth of indices that is a named size", "a constant one")
    if depth > x.rank:
        raise Reject(f"{depth} places of {shape_text(x.extents)}", "an index a dim, or fewer")
    columns = _index_columns(ctx, indices, depth)
    if batch:
        # Dims of the batch are indices of their own.
        lead = columns[0].extents
        for d in reversed(range(batch)):
            sides = tuple(lead[d] if i == d else 1 for i in range(len(lead)))
            columns.insert(0, ctx.expand(ctx.reshape(ctx.iota(lead[d]), sides), lead))
    extents = (*columns[0].extents, *x.extents[len(columns) :])
    return ctx.emit_one("index", [x, *columns], TensorType(x.dtype, extents), {"dims": list(range(len(columns)))})


@converter("ScatterND")
def _scatter_nd(ctx: Importer, node: Node) -> Tensor:
    x, indices = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1], "i64")
    updates = ctx.tensor(node.inputs[2])
    depth, reduction = indices.extents[-1], node.attribute("reduction", "none")
    if not isinstance(depth, int):
        raise Reject("a depth of indices that is a named size", "a constant one")
    wanted = (*indices.extents[:-1], *x.extents[depth:])
    if depth > x.rank or updates.rank != len(wanted):
        raise Reject(
            f"updates of {shape_text(updates.extents)} at {depth} places of {shape_text(x.extents)}", shape_text(wanted)
        )
    for own, size in zip(updates.extents, wanted):
        ctx.same_size(own, size)
    updates = ctx.fitted(updates, wanted)
    columns = _index_columns(ctx, indices, depth)
    if reduction in ("none", "add"):
        attributes = {"dims": list(range(depth)), "accumulate": reduction == "add"}
        return ctx.emit_one("index_put", [x, *columns, updates], x.type, attributes)
    # As one dim of rows, whose numbers the columns make.
    rows, inner = product_of(x.extents[:depth]), product_of(x.extents[depth:])
    number = columns[0]
    for d, column in enumerate(columns):
        size = ctx.scalar(x.extents[d], "i64")
        column = ctx.where(ctx.compare("lt", column, 0), ctx.binary("add", column, size), column)
        number = column if d == 0 else ctx.binary("add", ctx.binary("mul", number, size), column)
    count = product_of(number.extents)
    index = ctx.expand(ctx.reshape(number, (count, 1)), (count, inner))
    how = {"mul": "prod", "max": "amax", "min": "amin"}[reduction]
    put = [ctx.reshape(x, (rows, inner)), index, ctx.reshape(updates, (count, inner))]
    found = ctx.emit_one("scatter", put, put[0].type, {"dim": 0, "reduce": how})
    return ctx.reshape(found, x.extents)


@converter("ScatterElements")
def _scatter_elements(ctx: Importer, node: Node) -> Tensor:
    x, updates = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[2])
    axis = ctx.axis(node.attribute("axis", 0), x.rank)
    index = _wrapped(ctx, node.inputs[1], x.extents[axis])
    how = {"none": "none", "add": "sum", "mul": "prod", "max": "amax", "min": "amin"}[
        node.attribute("reduction", "none")
    ]
    return ctx.emit_one("scatter", [x, index, updates], x.type, {"dim": axis, "reduce": how})


@converter("Expand")
def _expand(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    wanted = ctx.sizes(node.inputs[1], "the shape of Expand")
    if any(isinstance(size, int) and size < 0 for size in wanted):
        raise Reject(f"the shape {shape_text(wanted)}", "sizes that are not negative")
    return ctx.expand(x, ctx.broadcast(x.extents, wanted))


@converter("Tile")
def _tile(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    counts = ctx.sizes(node.inputs[1], "the repeats of Tile")
    if len(counts) == x.rank and all(size == 1 or count == 1 for size, count in zip(x.extents, counts)):
        return ctx.expand(x, [size * count for size, count in zip(x.extents, counts)])  # a view
    apart: list[Dim] = []
    wide: list[Dim] = []
    for size, count in zip(x.extents, counts, strict=True):
        apart += [1, size]
        wide += [count, size]
    if len(apart) > 8:  # dim by dim, since a tensor has at most 8
        for dim, count in enumerate(counts):
            if count != 1:
                x = _joined(ctx, [x] * _number(count), dim)
        return x
    tiled = ctx.expand(ctx.reshape(x, apart), wide)
    return ctx.reshape(tiled, [size * count for size, count in zip(x.extents, counts, strict=True)])


def _number(count: Dim) -> int:
    if not isinstance(count, int):
        raise Reject(f"{count} repeats of a tensor of rank above 4", "a constant number")
    return count


@converter("Pad")
def _pad(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    pads = ctx.sizes(node.inputs[1], "the pads of Pad")
    axes = list(range(x.rank)) if node.input(3) is None else ctx.numbers(node.inputs[3], "the axes of Pad")
    half, mode = len(pads) // 2, node.attribute("mode", "constant")
    each = {ctx.axis(axis, x.rank): (pads[i], pads[i + half]) for i, axis in enumerate(axes)}
    if all(n == 0 for pair in each.values() for n in pair):
        return x
    if mode == "constant":
        return _constant_pad(ctx, x, each, node.input(2))
    for dim, (before, after) in each.items():
        size = x.extents[dim]
        if before == 0 and after == 0:
            continue
        if isinstance(before, int) and isinstance(after, int) and isinstance(size, int):
            places = ctx.literal(_pad_places(mode, before, after, size))
        else:
            places = _named_pad_places(ctx, mode, before, after, size)
        x = gathered(ctx, x, places, dim)
    return x


def _pad_places(mode: str, before: int, after: int, size: int) -> np.ndarray:
    """The places of a dim that the elements of the padded one come from."""
    places = np.arange(-before, size + after)
    if mode == "reflect":
        period = max(2 * (size - 1), 1)
        places = np.abs(places) % period if size > 1 else places * 0
        return np.where(places >= size, period - places, places)
    return np.clip(places, 0, size - 1) if mode == "edge" else places % size


def _named_pad_places(ctx: Importer, mode: str, before: Dim, after: Dim, size: Dim) -> Tensor:
    """The same for a named size, which is larger than what is reflected of it."""

    def scalar(number: Dim) -> Tensor:
        return ctx.scalar(number, "i64")

    places = ctx.iota(size + before + after)
    places = places if before == 0 else ctx.binary("sub", places, scalar(before))
    last = scalar(size - 1)
    if mode == "reflect":
        places = ctx.unary("abs", places)
        mirrored = ctx.binary("sub", ctx.binary("add", last, last), places)
        return ctx.where(ctx.compare("gt", places, last), mirrored, places)
    if mode == "edge":
        return ctx.binary("minimum", ctx.binary("maximum", places, 0), last)
    return ctx.binary("remainder", places, scalar(size))


def _constant_pad(ctx: Importer, x: Tensor, each: dict[int, tuple[Dim, Dim]], value: Value | None) -> Tensor:
    if value is not None and product_of(ctx.type_of(value).extents) != 1:
        raise Reject(f"a value of the shape {shape_text(ctx.type_of(value).extents)}", "one number")
    number = value.array.reshape(-1)[0].item() if isinstance(value, Known) else 0
    extents = list(x.extents)
    for dim, (before, after) in each.items():
        if cuts_more(x.extents[dim], before, after):
            raise Reject(f"pads of {before} and {after} for a dim of {x.extents[dim]}", "crops of at most the dim")
        extents[dim] = extents[dim] + before + after
    plain = all(isinstance(n, int) for pair in each.values() for n in pair)
    if plain and (value is None or isinstance(value, Known)):
        pad = [n for dim in reversed(range(x.rank)) for n in each.get(dim, (0, 0))]
        typed = float(number) if x.dtype in FLOATS else int(number)
        return ctx.emit_one("constant_pad_nd", [x], TensorType(x.dtype, tuple(extents)), {"pad": pad, "value": typed})
    filler = ctx.full(0, x.dtype) if value is None else ctx.reshape(ctx.tensor(value), ())
    for dim, pair in each.items():
        if any(ctx.bounds(n)[0] < 0 for n in pair):
            raise Reject(f"a pad of {pair}, which may crop", "pads that are not negative")
        sides = [ctx.expand(filler, (*x.extents[:dim], n, *x.extents[dim + 1 :])) if n != 0 else None for n in pair]
        x = _joined(ctx, [part for part in (sides[0], x, sides[1]) if part is not None], dim)
    return x


# Data that is made ----------------------------------------------------------------------------------------------------


@converter("Constant")
def _constant(ctx: Importer, node: Node) -> Value:
    attributes = node.attributes
    if "value" in attributes:
        return known_of(attributes["value"])
    for name, dtype in (
        ("value_float", np.float32),
        ("value_floats", np.float32),
        ("value_int", np.int64),
        ("value_ints", np.int64),
    ):
        if name in attributes:
            return Known(np.asarray(attributes[name], dtype=dtype))
    raise Reject(f"a constant by {', '.join(attributes)}", "value")


@converter("ConstantOfShape")
def _constant_of_shape(ctx: Importer, node: Node) -> Value:
    extents = ctx.sizes(node.inputs[0], "the shape of ConstantOfShape")
    value = node.attribute("value")
    array = np.zeros(1, np.float32) if value is None else numpy_helper.to_array(value)
    if all(isinstance(e, int) for e in extents) and product_of(extents) <= 64:
        return Known(np.full([int(e) for e in extents], array.reshape(-1)[0], dtype=array.dtype))
    return ctx.full(array.reshape(-1)[0].item(), ir_dtype(array.dtype), extents)


@converter("Range")
def _range(ctx: Importer, node: Node) -> Tensor:
    start, limit, step = (
        ctx.known(x, f"the {what} of Range") for x, what in zip(node.inputs, ("start", "limit", "delta"))
    )
    if start.array.dtype.kind == "f":
        a, b, c = (float(x.array) for x in (start, limit, step))
        return ctx.literal(np.arange(a, b, c, dtype=start.array.dtype))
    (a,), (b,), (c,) = (dims(x) for x in (start, limit, step))
    if not isinstance(c, int):
        raise Reject("a range by a named step", "a constant step")
    count = (b - a) // c if c == 1 else -((a - b) // c) if c > 0 else -((b - a) // -c)
    numbers = ctx.iota(count)
    dtype = start.type.dtype
    scaled = numbers if c == 1 else ctx.binary("mul", numbers, c)
    shifted = scaled if a == 0 else ctx.binary("add", scaled, a if isinstance(a, int) else ctx.scalar(a, "i64"))
    return ctx.cast(shifted, dtype)


@converter("EyeLike")
def _eye_like(ctx: Importer, node: Node) -> Tensor:
    type = ctx.type_of(_given(node))
    element = node.attribute("dtype")
    dtype = type.dtype if element is None else dtype_of(element)
    rows, columns = (
        ctx.reshape(ctx.iota(n), side) for n, side in zip(type.extents, ((type.extents[0], 1), (1, type.extents[1])))
    )
    return ctx.cast(ctx.compare("eq", ctx.binary("add", rows, node.attribute("k", 0)), columns), dtype)


@converter("OneHot")
def _one_hot(ctx: Importer, node: Node) -> Tensor:
    index = ctx.tensor(node.inputs[0])
    (depth,) = ctx.sizes(node.inputs[1], "the depth of OneHot")
    values = ctx.tensor(node.inputs[2])
    axis = node.attribute("axis", -1)
    axis = axis + index.rank + 1 if axis < 0 else axis
    size = ctx.scalar(depth, "i64")
    index = ctx.cast(index, "i64")
    index = ctx.where(ctx.compare("lt", index, 0), ctx.binary("add", index, size), index)
    wide = ctx.reshape(index, (*index.extents[:axis], 1, *index.extents[axis:]))
    places = ctx.reshape(ctx.iota(depth), tuple(depth if d == axis else 1 for d in range(wide.rank)))
    return ctx.where(ctx.compare("eq", wide, places), ctx.select(values, 0, 1), ctx.select(values, 0, 0))


@converter("Trilu")
def _trilu(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    k = 0 if node.input(1) is None else ctx.numbers(node.inputs[1], "the k of Trilu")[0]
    return linalg.triangle(ctx, x, upper=bool(node.attribute("upper", 1)), diagonal=k)


@converter("DepthToSpace")
def _depth_to_space(ctx: Importer, node: Node) -> Tensor:
    x, b = ctx.tensor(node.inputs[0]), node.attribute("blocksize")
    n, c, h, w = x.extents
    if node.attribute("mode", "DCR") == "DCR":
        apart = ctx.permute(ctx.reshape(x, (n, b, b, c // (b * b), h, w)), [0, 3, 4, 1, 5, 2])
    else:
        apart = ctx.permute(ctx.reshape(x, (n, c // (b * b), b, b, h, w)), [0, 1, 4, 2, 5, 3])
    return ctx.reshape(apart, (n, c // (b * b), h * b, w * b))


@converter("SpaceToDepth")
def _space_to_depth(ctx: Importer, node: Node) -> Tensor:
    x, b = ctx.tensor(node.inputs[0]), node.attribute("blocksize")
    n, c, h, w = x.extents
    order = [0, 3, 5, 1, 2, 4] if node.attribute("mode", "DCR") == "DCR" else [0, 1, 3, 5, 2, 4]
    apart = ctx.permute(ctx.reshape(x, (n, c, h // b, b, w // b, b)), order)
    return ctx.reshape(apart, (n, c * b * b, h // b, w // b))


@converter("ReverseSequence")
def _reverse_sequence(ctx: Importer, node: Node) -> Tensor:
    x, lengths = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1], "i64")
    time, batch = (ctx.axis(node.attribute(f"{name}_axis", i), x.rank) for i, name in enumerate(("time", "batch")))
    lengths = ctx.need_vector(lengths, x.extents[batch], "lengths of the batch")
    size, given = x.extents[time], node.inputs[1]
    if isinstance(given, Known) and not given.is_sizes and isinstance(size, int):
        wrong = [n for n in given.array.tolist() if not 0 <= n <= size]
        if wrong:
            raise Reject(f"a length of {wrong[0]} where dim {time} has {size} elements", f"0 to {size}")
    return reversed_prefixes(ctx, x, lengths, time, batch)


def reversed_prefixes(ctx: Importer, x: Tensor, lengths: Tensor, time: int, batch: int) -> Tensor:
    """Along `time` the first lengths[i] elements in reverse, the others as they are, for each i of `batch`.

    A length below 0 or above the size ends the call: its places are none of the dim.
    """
    along = ctx.reshape(ctx.iota(x.extents[time]), tuple(x.extents[time] if d == time else 1 for d in range(x.rank)))
    of_batch = ctx.reshape(lengths, tuple(x.extents[batch] if d == batch else 1 for d in range(x.rank)))
    mirrored = ctx.binary("sub", ctx.binary("sub", of_batch, 1), along)
    index = ctx.where(ctx.compare("lt", along, ctx.unary("abs", of_batch)), mirrored, along)
    return ctx.emit_one("gather", [x, ctx.expand(index, x.extents)], x.type, {"dim": time})


@converter("TensorScatter")
def _tensor_scatter(ctx: Importer, node: Node) -> Tensor:
    """A cache with the update written along an axis, from places[i] on for row i of the batch."""
    cache, update = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1])
    axis = ctx.axis(node.attribute("axis", -2), cache.rank)
    count, size = update.extents[axis], cache.extents[axis]
    steps = ctx.reshape(ctx.iota(count), tuple(count if d == axis else 1 for d in range(cache.rank)))
    if node.input(2) is not None:
        starts = ctx.tensor(node.inputs[2], "i64")
        steps = ctx.binary("add", steps, ctx.reshape(starts, (starts.extents[0], *(1 for _ in range(cache.rank - 1)))))
    if node.attribute("mode", "linear") == "circular":
        steps = ctx.binary("remainder", steps, ctx.scalar(size, "i64"))
    index = ctx.expand(steps, update.extents)
    return ctx.emit_one("scatter", [cache, index, update], cache.type, {"dim": axis, "reduce": "none"})
