# SPDX-License-Identifier: Apache-2.0
"""ONNX's If, Loop and Scan, and its sequences and optionals, which exist while importing alone."""

from __future__ import annotations

from collections.abc import Sequence as Many
from typing import Any

import numpy as np
import onnx

from straightline.capture.builder import TensorType
from straightline.capture.extents import DEFAULT_MAX
from straightline.capture.graph_builder import Reject, Tensor, known
from straightline.capture.onnx.importer import Importer, Node, TakenBranch, branch_name, converter, shape_text
from straightline.capture.onnx.shape import _joined
from straightline.capture.onnx.values import Known, Optional, Sequence, Value
from straightline.errors import UserError

#: A loop is written out where that makes at most so many nodes.
_MOST_UNROLLED = 1024


def _single(ctx: Importer, value: Value | None, dtype: str, what: str) -> Tensor:
    """The one element of a tensor."""
    tensor = ctx.tensor(value, dtype)
    if any(size != 1 for size in tensor.extents):
        raise UserError(
            f"{ctx.model}: {what} at '{ctx.location.module}' has the shape {shape_text(tensor.extents)}, not one element"
        )
    return ctx.reshape(tensor, ())


@converter("If")
def _if(ctx: Importer, node: Node) -> list[Value]:
    branches = node.attribute("then_branch"), node.attribute("else_branch")
    condition = ctx.decided(node.inputs[0])
    if isinstance(condition, Known):
        return ctx.graph(branches[0 if bool(condition.array.reshape(-1)[0]) else 1], [])
    flag = _single(ctx, condition, "i1", "the condition of If")
    name = branch_name(node)
    if name in ctx.taken:
        return _one_branch(ctx, flag, name, branches)
    for branch in branches:
        ctx.load_outer(branch)
    found: list[list[Tensor]] = []
    for branch in branches:
        try:
            with ctx.inner_region() as (_, yields):
                yields.extend(ctx.tensor(value) for value in ctx.graph(branch, []))
        except Reject as refusal:
            raise TakenBranch(name, bool(found) or branch is not branches[0], refusal.reason, True) from refusal
        found.append(list(yields))
    types = [t.type for t in found[0]]
    for a, b in zip(*found, strict=True):
        if a.type != b.type:
            raise TakenBranch(name, True, f"branches give {a.type} and {b.type}", False)
    return list(ctx.emit("if", [flag], types, regions=2))


def _one_branch(ctx: Importer, flag: Tensor, name: str, branches: Many[onnx.GraphProto]) -> list[Value]:
    """The branch that the program is made for; a call in which the other one would be taken ends.

    Raises:
        TakenBranch: This one cannot be converted either.
    """
    taken, why = ctx.taken[name]
    holds = flag if taken else ctx.unary("logical_not", flag)
    words = f"If '{name}' takes its {'else' if taken else 'then'} branch, which the program is not made for: {why}"
    ctx.emit("check", [holds], [], {"message": words})
    try:
        return ctx.graph(branches[0 if taken else 1], [])
    except Reject as refusal:
        raise TakenBranch(name, not taken, refusal.reason, True) from refusal


def _count(ctx: Importer, value: Value | None) -> int | None:
    if value is None:
        return None
    try:
        return ctx.numbers(value, "the trip count of Loop")[0]
    except Reject:
        return None


def _nodes(graph: onnx.GraphProto) -> int:
    return sum(1 + sum(_nodes(a.g) for a in n.attribute if a.HasField("g")) for n in graph.node)


@converter("Loop")
def _loop(ctx: Importer, node: Node) -> list[Value]:
    body, carried = node.attribute("body"), list(node.inputs[2:])
    trips, going = _count(ctx, node.inputs[0]), node.input(1)
    rows: list[list[Value]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    values = [x for x in carried if x is not None]
    if len(values) != len(carried):
        raise Reject("a carried value that is left out")
    most = trips if trips is not None else DEFAULT_MAX
    if going is not None and not isinstance(going, Known):
        return _while(ctx, body, node.inputs[0], going, values, len(rows))
    if isinstance(going, Known) and not bool(going.array.reshape(-1)[0]):
        most = 0
    if most * max(_nodes(body), 1) > _MOST_UNROLLED and not _stops_at_once(body):
        return _while(ctx, body, node.inputs[0], going, values, len(rows))
    for number in range(most):
        results = ctx.graph(
            body, [Known(np.asarray(number)), going if going is not None else Known(np.asarray(True)), *values]
        )
        values = results[1 : 1 + len(values)]
        for row, result in zip(rows, results[1 + len(values) :]):
            row.append(result)
        if not isinstance(results[0], Known):
            if number:
                raise Reject("a loop whose condition is computed in some rounds", "one that is computed in all")
            return _while(ctx, body, node.inputs[0], going, [x for x in carried if x is not None], len(rows))
        going = results[0]
        if not bool(results[0].array.reshape(-1)[0]):
            break
        if number * _nodes(body) > 8 * _MOST_UNROLLED:
            raise Reject(f"a loop of more than {number} rounds that is written out", "a trip count")
    return [*values, *(_stacked(ctx, row, body.output[1 + len(carried) + i]) for i, row in enumerate(rows))]


def _stops_at_once(body: onnx.GraphProto) -> bool:
    """Whether the condition does not depend on what the body reads: an initialiser or constant."""
    name = body.output[0].name
    return any(name in n.output and n.op_type == "Constant" for n in body.node)


def _stacked(ctx: Importer, rows: Many[Value], given: onnx.ValueInfoProto) -> Value:
    if not rows:
        from straightline.capture.onnx.values import dtype_of

        type = given.type.tensor_type
        shape = [d.dim_value for d in type.shape.dim]
        return ctx.full(0, dtype_of(type.elem_type), (0, *shape))
    tensors = [ctx.tensor(row) for row in rows]
    wide = [ctx.reshape(t, (1, *t.extents)) for t in tensors]
    return _joined(ctx, wide, 0)


def _while(
    ctx: Importer, body: onnx.GraphProto, trips: Value | None, going: Value | None, values: list[Value], rows: int
) -> list[Value]:
    """A loop in the program: its carried values keep their types, its rows have a place each up to the trip count."""
    ctx.load_outer(body)
    limit = None if trips is None else _single(ctx, trips, "i64", "the count of a Loop")
    start = ctx.full(True, "i1") if going is None else _single(ctx, going, "i1", "the condition of a Loop")
    carried = [ctx.tensor(x) for x in values]
    most = _count(ctx, trips)
    wholes: list[Tensor] = []
    if rows:
        if most is None:
            raise Reject("rows of a loop whose trip count is not known before a call", "a constant trip count")
        wholes = [ctx.full(0, t.dtype, (most, *t.extents)) for t in _row_types(ctx, body, carried)]
    number = TensorType("i64", ())
    initial = [ctx.full(0, "i64"), start, *carried, *wholes]
    types = [t.type for t in initial]
    with ctx.inner_region(types) as (given, yields):
        flag = given[1]
        if limit is not None:
            below = ctx.emit_one("lt", [given[0], limit], TensorType("i1", ()))
            flag = ctx.emit_one("logical_and", [flag, below], TensorType("i1", ()))
        yields.append(flag)
    with ctx.inner_region(types) as (given, yields):
        at, old, memory = given[0], given[2 : 2 + len(carried)], given[2 + len(carried) :]
        results = [ctx.tensor(x) for x in ctx.graph(body, [at, given[1], *old])]
        for before, after in zip(carried, results[1:]):
            if before.type != after.type:
                raise Reject(
                    f"a carried value of {before.type} that a round makes {after.type}",
                    "one of the same type and shape",
                )
        yields.append(ctx.emit_one("add", [at, ctx.full(1, "i64")], number))
        yields.append(_single(ctx, results[0], "i1", "the condition that a Loop's body gives"))
        yields.extend(results[1 : 1 + len(carried)])
        for whole, row in zip(memory, results[1 + len(carried) :]):
            part = ctx.reshape(row, (1, *row.extents))
            yields.append(ctx.emit_one("dynamic_update_slice", [whole, part, at], whole.type, {"dim": 0}))
    found = ctx.emit("while", initial, types, regions=2)
    results = list(found[2 : 2 + len(carried)])
    if rows:
        count = ctx.found_size(found[0], most or 0)
        results += [ctx.from_place(t, 0, ctx.full(0, "i64"), count) for t in found[2 + len(carried) :]]
    return list(results)


def _row_types(ctx: Importer, body: onnx.GraphProto, carried: list[Tensor]) -> list[TensorType]:
    """Types of the rows, by a round that is written out and that nothing reads."""
    results = ctx.graph(body, [ctx.full(0, "i64"), ctx.full(True, "i1"), *carried])
    return [ctx.tensor(x).type for x in results[1 + len(carried) :]]


@converter("Scan")
def _scan(ctx: Importer, node: Node) -> list[Value]:
    body, count = node.attribute("body"), node.attribute("num_scan_inputs")
    states = [ctx.tensor(x) for x in node.inputs[: len(node.inputs) - count]]
    scanned = [ctx.tensor(x) for x in node.inputs[len(node.inputs) - count :]]
    axes = node.attribute("scan_input_axes") or [0] * count
    ways = node.attribute("scan_input_directions") or [0] * count
    rows = len(body.output) - len(states)
    out_axes = node.attribute("scan_output_axes") or [0] * rows
    out_ways = node.attribute("scan_output_directions") or [0] * rows
    steps = known(scanned[0].extents[ctx.axis(axes[0], scanned[0].rank)])
    if steps * max(_nodes(body), 1) > 4 * _MOST_UNROLLED:
        raise Reject(f"a scan of {steps} steps of {_nodes(body)} nodes", f"at most {4 * _MOST_UNROLLED} nodes in all")
    found: list[list[Tensor]] = [[] for _ in range(rows)]
    values: list[Any] = list(states)
    for step in range(steps):
        parts = [
            ctx.select(x, ctx.axis(axis, x.rank), steps - 1 - step if way else step)
            for x, axis, way in zip(scanned, axes, ways)
        ]
        results = ctx.graph(body, [*values, *parts])
        values = results[: len(states)]
        for row, result in zip(found, results[len(states) :]):
            row.append(ctx.tensor(result))
    joined = []
    for row, axis, way in zip(found, out_axes, out_ways):
        if not row:
            raise Reject("a scan of no steps", "one step or more")
        place = axis + row[0].rank + 1 if axis < 0 else axis
        wide = [ctx.reshape(t, (*t.extents[:place], 1, *t.extents[place:])) for t in row]
        joined.append(_joined(ctx, wide[::-1] if way else wide, place))
    return [*values, *joined]


# Sequences and optionals ----------------------------------------------------------------------------------------------


def _sequence(value: Value | None) -> Sequence:
    if not isinstance(value, Sequence):
        raise Reject("a sequence that a call makes", "one that is built in the graph")
    return value


def _place(ctx: Importer, node: Node, place: int, count: int, default: int) -> int:
    if node.input(place) is None:
        return default
    (index,) = ctx.numbers(node.inputs[place], f"the position of {node.kind}")
    return index + count if index < 0 else index


@converter("SequenceConstruct")
def _sequence_construct(ctx: Importer, node: Node) -> Value:
    return Sequence(tuple(x for x in node.inputs if x is not None))


@converter("SequenceEmpty")
def _sequence_empty(ctx: Importer, node: Node) -> Value:
    return Sequence(())


@converter("SequenceInsert")
def _sequence_insert(ctx: Importer, node: Node) -> Value:
    items = list(_sequence(node.inputs[0]).items)
    element = node.inputs[1]
    if element is None:
        raise Reject("a missing element")
    items.insert(_place(ctx, node, 2, len(items), len(items)), element)
    return Sequence(tuple(items))


@converter("SequenceErase")
def _sequence_erase(ctx: Importer, node: Node) -> Value:
    items = list(_sequence(node.inputs[0]).items)
    del items[_place(ctx, node, 1, len(items), len(items) - 1)]
    return Sequence(tuple(items))


@converter("SequenceAt")
def _sequence_at(ctx: Importer, node: Node) -> Value:
    items = _sequence(node.inputs[0]).items
    place = _place(ctx, node, 1, len(items), 0)
    if not 0 <= place < len(items):
        raise Reject(f"element {place} of a sequence of {len(items)}")
    return items[place]


@converter("SequenceLength")
def _sequence_length(ctx: Importer, node: Node) -> Value:
    return Known(np.asarray(len(_sequence(node.inputs[0]).items), dtype=np.int64))


@converter("SplitToSequence")
def _split_to_sequence(ctx: Importer, node: Node) -> Value:
    x = ctx.tensor(node.inputs[0])
    axis = ctx.axis(node.attribute("axis", 0), x.rank)
    size, keep = known(x.extents[axis]), True
    if node.input(1) is None:
        parts, keep = [1] * size, bool(node.attribute("keepdims", 1))
    else:
        given = ctx.known(node.inputs[1], "the split of SplitToSequence")
        numbers = [int(n) for n in given.array.reshape(-1)]
        parts = numbers if given.array.ndim else [min(numbers[0], size - i) for i in range(0, size, numbers[0])]
    items: list[Value] = []
    start = 0
    for count in parts:
        part = ctx.slice(x, axis, start, start + count, count)
        items.append(part if keep else ctx.reshape(part, [e for d, e in enumerate(part.extents) if d != axis]))
        start += count
    return Sequence(tuple(items))


@converter("ConcatFromSequence")
def _concat_from_sequence(ctx: Importer, node: Node) -> Value:
    tensors = [ctx.tensor(x) for x in _sequence(node.inputs[0]).items]
    axis = node.attribute("axis")
    if node.attribute("new_axis", 0):
        axis = axis + tensors[0].rank + 1 if axis < 0 else axis
        tensors = [ctx.reshape(t, (*t.extents[:axis], 1, *t.extents[axis:])) for t in tensors]
    return _joined(ctx, tensors, axis)


@converter("SequenceMap")
def _sequence_map(ctx: Importer, node: Node) -> list[Value]:
    body = node.attribute("body")
    first = _sequence(node.inputs[0])
    columns: list[list[Value]] = [[] for _ in body.output]
    for place in range(len(first.items)):
        given = [x.items[place] if isinstance(x, Sequence) else x for x in node.inputs if x is not None]
        for column, result in zip(columns, ctx.graph(body, given)):
            column.append(result)
    return [Sequence(tuple(column)) for column in columns]


@converter("Optional")
def _optional(ctx: Importer, node: Node) -> Value:
    return Optional(node.input(0))


@converter("OptionalHasElement")
def _optional_has_element(ctx: Importer, node: Node) -> Value:
    x = node.input(0)
    return Known(np.asarray(x is not None and not (isinstance(x, Optional) and x.value is None)))


@converter("OptionalGetElement")
def _optional_get_element(ctx: Importer, node: Node) -> Value:
    x = node.inputs[0]
    found = x.value if isinstance(x, Optional) else x
    if found is None:
        raise Reject("the element of an empty optional")
    return found
