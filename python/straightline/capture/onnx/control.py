# SPDX-License-Identifier: Apache-2.0
"""ONNX's If, Loop and Scan, and its sequences and optionals, which exist while importing alone."""

from __future__ import annotations

from collections.abc import Sequence as Many
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from straightline.capture.builder import Dim, Dims, TensorType
from straightline.capture.extents import DEFAULT_MAX, Extent
from straightline.capture.graph_builder import Reject, Tensor, known
from straightline.capture.onnx.importer import Importer, Node, TakenBranch, branch_name, converter, shape_text
from straightline.capture.onnx.shape import _joined
from straightline.capture.onnx.values import Known, Optional, Rows, Sequence, Value, sizes
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


def _trips(ctx: Importer, value: Value | None) -> Dim | None:
    """How often a Loop runs, as a size, where that is known before it begins."""
    if value is None:
        return None
    try:
        (trips,) = ctx.sizes(value, "the trip count of Loop")
    except Reject:
        return None
    return trips if isinstance(trips, Extent) else max(trips, 0)


def _nodes(graph: onnx.GraphProto) -> int:
    return sum(1 + sum(_nodes(a.g) for a in n.attribute if a.HasField("g")) for n in graph.node)


@converter("Loop")
def _loop(ctx: Importer, node: Node) -> list[Value]:
    body, carried = node.attribute("body"), list(node.inputs[2:])
    trips, going = _trips(ctx, node.inputs[0]), node.input(1)
    rows: list[list[Value]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    values = [x for x in carried if x is not None]
    if len(values) != len(carried):
        raise Reject("a carried value that is left out")
    if isinstance(going, Known) and not bool(going.array.reshape(-1)[0]):
        trips = 0
    if going is not None and not isinstance(going, Known) or isinstance(trips, Extent):
        return _while(ctx, node, body, trips, going, values, len(rows))
    most = trips if trips is not None else DEFAULT_MAX
    if most * max(_nodes(body), 1) > _MOST_UNROLLED and not _stops_at_once(body):
        return _while(ctx, node, body, trips, going, values, len(rows))
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
            return _while(ctx, node, body, trips, going, [x for x in carried if x is not None], len(rows))
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


class _Round:
    """A round of a loop in the program: its body over carried tensors, and sequences that it lengthens by one element."""

    def __init__(self, ctx: Importer, body: onnx.GraphProto, values: list[Value]) -> None:
        self.ctx, self.body = ctx, body
        self.grows = [isinstance(x, Sequence) for x in values]
        if any(isinstance(x, Sequence) and x.items for x in values):
            raise Reject("a sequence with elements that a loop lengthens", "an empty one")
        self.carried = [ctx.tensor(x) for x, grows in zip(values, self.grows) if not grows]

    def results(self, at: Tensor, going: Value, carried: Many[Tensor]) -> tuple[Value, list[Tensor], list[Tensor]]:
        """What the body gives: the condition, carried tensors, and rows: elements of sequences first."""
        ctx, tensors = self.ctx, iter(carried)
        given = [_Growing(()) if grows else next(tensors) for grows in self.grows]
        found = ctx.graph(self.body, [at, going, *given])
        kept, rows = found[1 : 1 + len(given)], found[1 + len(given) :]
        elements: list[Tensor] = []
        for value, grows in zip(kept, self.grows):
            if not grows:
                continue
            if not isinstance(value, _Growing) or len(value.added) != 1:
                raise Reject(
                    "a sequence that a round of a loop does not lengthen by one element", "SequenceInsert at its end"
                )
            elements.append(ctx.tensor(value.added[0]))
        after = [ctx.tensor(x) for x, grows in zip(kept, self.grows) if not grows]
        for old, new in zip(self.carried, after):
            if old.type != new.type:
                words = f"a carried value of {old.type} that a round makes {new.type}"
                raise Reject(words, "one of the same type and shape")
        return found[0], after, [*elements, *(ctx.tensor(x) for x in rows)]

    def ordered(self, carried: Many[Tensor], wholes: Many[Tensor]) -> list[Value]:
        """A Loop's results: carried values and sequences in their places, then rows."""
        tensors, rows = iter(carried), iter(wholes)
        kept: list[Value] = [Rows(next(rows)) if grows else next(tensors) for grows in self.grows]
        return [*kept, *rows]


def _while(
    ctx: Importer,
    node: Node,
    body: onnx.GraphProto,
    trips: Dim | None,
    going: Value | None,
    values: list[Value],
    rows: int,
) -> list[Value]:
    """A loop in the program: its carried values keep their types, its rows have a place each up to the trip count."""
    ctx.load_outer(body)
    round_ = _Round(ctx, body, values)
    yes = Known(np.asarray(True))
    always = going is None or isinstance(going, Known) and bool(going.array.reshape(-1)[0])
    types: list[TensorType] = []
    if rows or any(round_.grows):
        # By a round that is written out and that nothing reads.
        first = ctx.full(True, "i1") if not always else yes
        condition, _, parts = round_.results(ctx.full(0, "i64"), first, round_.carried)
        always = always and isinstance(condition, Known) and bool(condition.array.reshape(-1)[0])
        types = [t.type for t in parts]
        if trips is None:
            trips = _bounded(ctx, node, always)
        if always:
            return _counted(ctx, round_, trips, types)
    elif isinstance(trips, Extent) and always and _never_stops(body):
        return _counted(ctx, round_, trips, types)
    limit = None if node.inputs[0] is None else _single(ctx, node.inputs[0], "i64", "the count of a Loop")
    start = ctx.full(True, "i1") if going is None else _single(ctx, going, "i1", "the condition of a Loop")
    wholes = [ctx.full(0, t.dtype, (trips or 0, *t.extents)) for t in types]
    number = TensorType("i64", ())
    initial = [ctx.full(0, "i64"), start, *round_.carried, *wholes]
    types, carried = [t.type for t in initial], len(round_.carried)
    with ctx.inner_region(types) as (given, yields):
        flag = given[1]
        if limit is not None:
            below = ctx.emit_one("lt", [given[0], limit], TensorType("i1", ()))
            flag = ctx.emit_one("logical_and", [flag, below], TensorType("i1", ()))
        yields.append(flag)
    with ctx.inner_region(types) as (given, yields):
        at, old, memory = given[0], given[2 : 2 + carried], given[2 + carried :]
        condition, after, parts = round_.results(at, given[1], old)
        yields.append(ctx.emit_one("add", [at, ctx.full(1, "i64")], number))
        yields.append(_single(ctx, condition, "i1", "the condition that a Loop's body gives"))
        yields.extend([*after, *_written(ctx, memory, parts, at)])
    found = ctx.emit("while", initial, types, regions=2)
    if wholes:
        count = ctx.found_size(found[0], trips or 0)
        wholes = [ctx.from_place(t, 0, ctx.full(0, "i64"), count) for t in found[2 + carried :]]
    return round_.ordered(found[2 : 2 + carried], wholes)


def _never_stops(body: onnx.GraphProto) -> bool:
    """Whether the condition that the body gives is the one that it is given."""
    name, made = body.output[0].name, {output: n for n in body.node for output in n.output}
    while name in made and made[name].op_type in ("Identity", "Cast"):
        name = made[name].input[0]
    return len(body.input) > 1 and name == body.input[1].name


def _written(ctx: Importer, memory: Many[Tensor], parts: Many[Tensor], at: Tensor) -> list[Tensor]:
    """Rows put to their place in what holds all of them."""
    return [
        ctx.emit_one("dynamic_update_slice", [whole, ctx.reshape(row, (1, *row.extents)), at], whole.type, {"dim": 0})
        for whole, row in zip(memory, parts)
    ]


def _bounded(ctx: Importer, node: Node, is_exact: bool) -> Dim:
    """How many rows a loop has at most whose trip count only a call knows, by what `sizes` says of the count.

    `is_exact`: it is the number of rounds as well, and becomes a size.
    """
    name = node.proto.input[0] or node.proto.name
    if name not in ctx.counts:
        hint = f"sizes={{{name!r}: (0, 100)}}, which bounds it, or a constant trip count"
        raise Reject(f"rows of a loop whose trip count '{name}' is not known before a call", hint)
    least, most = ctx.counts[name]
    if not is_exact:
        return most
    count = _single(ctx, node.inputs[0], "i64", "the count of a Loop")
    return ctx.found_size(ctx.binary("maximum", count, 0), most, least)


def _counted(ctx: Importer, round_: _Round, trips: Dim, rows: Many[TensorType]) -> list[Value]:
    """A loop of as many rounds as a size says. What the body reads of its number is carried: the loop's own one is a place."""
    wholes = [ctx.full(0, t.dtype, (trips, *t.extents)) for t in rows]
    initial = [ctx.full(0, "i64"), *round_.carried, *wholes]
    types, carried = [t.type for t in initial], len(round_.carried)
    with ctx.inner_region([TensorType("i64", ()), *types]) as ((place, at, *given), yields):
        old, memory = given[:carried], given[carried:]
        _, after, parts = round_.results(at, Known(np.asarray(True)), old)
        yields.append(ctx.emit_one("add", [at, ctx.full(1, "i64")], at.type))
        yields.extend([*after, *_written(ctx, memory, parts, place)])
    found = ctx.emit("for", initial, types, {"bounds": Dims((0, trips, 1))}, regions=1)[1:]
    return round_.ordered(found[:carried], found[carried:])


@dataclass(frozen=True)
class _Scanned:
    """What a Scan reads and gives: how many states it has, and of each scanned tensor and result the dim and the direction."""

    body: onnx.GraphProto
    states: list[Tensor]
    inputs: list[tuple[Tensor, int, bool]]
    outputs: list[tuple[int, bool]]
    steps: Dim


def _scanned(ctx: Importer, node: Node) -> _Scanned:
    body, count = node.attribute("body"), node.attribute("num_scan_inputs")
    states = [ctx.tensor(x) for x in node.inputs[: len(node.inputs) - count]]
    tensors = [ctx.tensor(x) for x in node.inputs[len(node.inputs) - count :]]
    axes = node.attribute("scan_input_axes") or [0] * count
    ways = node.attribute("scan_input_directions") or [0] * count
    rows = len(body.output) - len(states)
    out_axes = node.attribute("scan_output_axes") or [0] * rows
    out_ways = node.attribute("scan_output_directions") or [0] * rows
    inputs = [(x, ctx.axis(axis, x.rank), bool(way)) for x, axis, way in zip(tensors, axes, ways, strict=True)]
    steps = tensors[0].extents[inputs[0][1]]
    for x, axis, _ in inputs[1:]:
        ctx.same_size(x.extents[axis], steps)
    outputs = [(axis, bool(way)) for axis, way in zip(out_axes, out_ways, strict=True)]
    return _Scanned(body, states, inputs, outputs, steps)


@converter("Scan")
def _scan(ctx: Importer, node: Node) -> list[Value]:
    """Written out where that makes few nodes, else a loop."""
    scan = _scanned(ctx, node)
    steps = scan.steps
    if not isinstance(steps, int) or steps * max(_nodes(scan.body), 1) > _MOST_UNROLLED:
        return _scan_loop(ctx, scan)
    found: list[list[Tensor]] = [[] for _ in scan.outputs]
    values: list[Any] = list(scan.states)
    for step in range(steps):
        parts = [ctx.select(x, axis, steps - 1 - step if way else step) for x, axis, way in scan.inputs]
        results = ctx.graph(scan.body, [*values, *parts])
        values = results[: len(scan.states)]
        for row, result in zip(found, results[len(scan.states) :]):
            row.append(ctx.tensor(result))
    joined = []
    for row, (axis, way) in zip(found, scan.outputs):
        if not row:
            raise Reject("a scan of no steps", "one step or more")
        place = _place_of(axis, row[0])
        wide = [ctx.reshape(t, (*t.extents[:place], 1, *t.extents[place:])) for t in row]
        joined.append(_joined(ctx, wide[::-1] if way else wide, place))
    return [*values, *joined]


def _place_of(axis: int, row: Tensor) -> int:
    """The dim of a scan's result along which rows are joined."""
    if not -row.rank - 1 <= axis <= row.rank:
        raise Reject(f"axis {axis} of a tensor of rank {row.rank + 1}")
    return axis + row.rank + 1 if axis < 0 else axis


def _scan_loop(ctx: Importer, scan: _Scanned) -> list[Value]:
    """A scan whose steps are rounds of a loop in the program."""
    ctx.load_outer(scan.body)

    def step(at: Tensor, back: Tensor, states: Many[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        parts = []
        for x, axis, way in scan.inputs:
            part = ctx.from_place(x, axis, back if way else at, 1)
            parts.append(ctx.reshape(part, (*x.extents[:axis], *x.extents[axis + 1 :])))
        results = [ctx.tensor(x) for x in ctx.graph(scan.body, [*states, *parts])]
        after, rows = results[: len(scan.states)], results[len(scan.states) :]
        for old, new in zip(scan.states, after):
            if old.type != new.type:
                raise Reject(f"a state of {old.type} that a step makes {new.type}", "one of the same type and shape")
        return after, rows

    zero, last = ctx.full(0, "i64"), ctx.signed(scan.steps - 1)
    _, samples = step(zero, last, scan.states)  # for their types alone
    places = [_place_of(axis, row) for (axis, _), row in zip(scan.outputs, samples)]
    wholes = [
        ctx.full(0, row.dtype, (*row.extents[:place], scan.steps, *row.extents[place:]))
        for row, place in zip(samples, places)
    ]
    initial, count = [last, *scan.states, *wholes], len(scan.states)
    types = [t.type for t in initial]
    with ctx.inner_region([TensorType("i64", ()), *types]) as ((at, back, *given), yields):
        after, rows = step(at, back, given[:count])
        yields.append(ctx.emit_one("sub", [back, ctx.full(1, "i64")], back.type))
        yields.extend(after)
        for whole, row, place, (_, way) in zip(given[count:], rows, places, scan.outputs):
            part = ctx.reshape(row, (*row.extents[:place], 1, *row.extents[place:]))
            to = back if way else at
            yields.append(ctx.emit_one("dynamic_update_slice", [whole, part, to], whole.type, {"dim": place}))
    return list(ctx.emit("for", initial, types, {"bounds": Dims((0, scan.steps, 1))}, regions=1)[1:])


# Sequences and optionals ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Growing(Sequence):
    """A sequence of a loop's round: it had elements that the round may not look at, and got these."""

    items: tuple[Value, ...] = ()
    added: tuple[Value, ...] = ()


def _sequence(value: Value | None) -> Sequence:
    if not isinstance(value, Sequence) or isinstance(value, _Growing):
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
    given, element = node.inputs[:2]
    if element is None:
        raise Reject("a missing element")
    if isinstance(given, _Growing) and node.input(2) is None:
        return _Growing((), (*given.added, element))
    items = list(_sequence(given).items)
    items.insert(_place(ctx, node, 2, len(items), len(items)), element)
    return Sequence(tuple(items))


@converter("SequenceErase")
def _sequence_erase(ctx: Importer, node: Node) -> Value:
    items = list(_sequence(node.inputs[0]).items)
    del items[_place(ctx, node, 1, len(items), len(items) - 1)]
    return Sequence(tuple(items))


@converter("SequenceAt")
def _sequence_at(ctx: Importer, node: Node) -> Value:
    if isinstance(node.inputs[0], Rows):
        return _row(ctx, node.inputs[0].whole, node.inputs[1])
    items = _sequence(node.inputs[0]).items
    index = node.inputs[1]
    if isinstance(index, Tensor) and not isinstance(ctx.decided(index), Known):
        tensors = [ctx.tensor(x) for x in items]
        if not tensors or any(t.type != tensors[0].type for t in tensors):
            raise Reject(
                "an element that only a call knows of a sequence of several types", "elements of one type and shape"
            )
        return _row(ctx, _joined(ctx, [ctx.reshape(t, (1, *t.extents)) for t in tensors], 0), index)
    place = _place(ctx, node, 1, len(items), 0)
    if not 0 <= place < len(items):
        raise Reject(f"element {place} of a sequence of {len(items)}")
    return items[place]


def _row(ctx: Importer, whole: Tensor, index: Value | None) -> Tensor:
    """A row at a place that may count from the end; a call in which there is none ends."""
    count = ctx.signed(whole.extents[0])
    at = _single(ctx, index, "i64", "the position of SequenceAt")
    at = ctx.where(ctx.compare("lt", at, 0), ctx.binary("add", at, count), at)
    within = ctx.binary("logical_and", ctx.compare("ge", at, 0), ctx.compare("lt", at, count))
    words = f"{ctx.location.module}: the position is outside of a sequence of {whole.extents[0]} elements"
    ctx.emit("check", [within], [], {"message": words})
    return ctx.reshape(ctx.from_place(whole, 0, at, 1), whole.extents[1:])


@converter("SequenceLength")
def _sequence_length(ctx: Importer, node: Node) -> Value:
    if isinstance(node.inputs[0], Rows):
        return sizes(node.inputs[0].whole.extents[0])
    return Known(np.asarray(len(_sequence(node.inputs[0]).items), dtype=np.int64))


def _split_rows(ctx: Importer, node: Node, x: Tensor, axis: int) -> Rows | None:
    """Parts of one element each along a named size; None where they are longer."""
    keep = bool(node.attribute("keepdims", 1))
    if node.input(1) is not None:
        split = ctx.decided(node.inputs[1])
        if not isinstance(split, Known) or split.array.ndim or int(split.array) != 1:
            return None
        keep = True
    order = [axis, *(d for d in range(x.rank) if d != axis)]
    whole = ctx.permute(x, order)
    if keep:
        whole = ctx.reshape(whole, (x.extents[axis], *x.extents[:axis], 1, *x.extents[axis + 1 :]))
    return Rows(whole)


@converter("SplitToSequence")
def _split_to_sequence(ctx: Importer, node: Node) -> Value:
    x = ctx.tensor(node.inputs[0])
    axis = ctx.axis(node.attribute("axis", 0), x.rank)
    if isinstance(x.extents[axis], Extent) and (rows := _split_rows(ctx, node, x, axis)) is not None:
        return rows
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


def _joined_rows(ctx: Importer, whole: Tensor, axis: int, is_new: bool) -> Tensor:
    """Rows beside each other along a dim of theirs, or along a new one."""
    axis = ctx.axis(axis, whole.rank if is_new else whole.rank - 1)
    order = [*range(1, axis + 1), 0, *range(axis + 1, whole.rank)]
    moved = ctx.permute(whole, order) if axis else whole
    if is_new:
        return moved
    count = whole.extents[0] * moved.extents[axis + 1]
    return ctx.reshape(moved, (*moved.extents[:axis], count, *moved.extents[axis + 2 :]))


@converter("ConcatFromSequence")
def _concat_from_sequence(ctx: Importer, node: Node) -> Value:
    axis = node.attribute("axis")
    if isinstance(node.inputs[0], Rows):
        return _joined_rows(ctx, node.inputs[0].whole, axis, bool(node.attribute("new_axis", 0)))
    tensors = [ctx.tensor(x) for x in _sequence(node.inputs[0]).items]
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
