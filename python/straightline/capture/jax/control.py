# SPDX-License-Identifier: Apache-2.0
"""StableHLO's calls, branches and loops, and custom calls."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir

from straightline.capture.builder import Dims, TensorType
from straightline.capture.graph_builder import Reject, Tensor
from straightline.capture.jax import linalg
from straightline.capture.jax import values as v
from straightline.capture.jax.elementwise import direction_of
from straightline.capture.jax.importer import CONVERTERS, Importer, Op, converter
from straightline.capture.jax.own import call_target
from straightline.capture.jax.reduction import approximate_top_k, dynamic_window
from straightline.capture.jax.values import Known, Value

#: A loop is written out where that makes at most so many ops.
_MOST_UNROLLED = 320


def _reference(attribute: ir.Attribute) -> str:
    return ir.FlatSymbolRefAttr(attribute).value


@converter("func.call", "call")
def _call(ctx: Importer, op: Op) -> list[Value]:
    return ctx.call(_reference(op.attributes["callee"]), op.inputs)


@converter("composite")
def _composite(ctx: Importer, op: Op) -> list[Value]:
    """A named op with the function that defines it: that of CHLO's own form, where there is a converter, else the function."""
    convert = CONVERTERS.get(op.text("name"))
    if convert is not None:
        found = convert(ctx, _Renamed(op, op.text("name"), "composite_attributes"))
        return found if isinstance(found, list) else [found]
    return ctx.call(_reference(op.attributes["decomposition"]), op.inputs)


# Carried values -------------------------------------------------------------------------------------------------------


def _tensors(ctx: Importer, values: Sequence[Value]) -> list[Tensor]:
    """Values as tensors; complex numbers as their two parts."""
    parts = [part for x in values for part in ((x.re, x.im) if isinstance(x, v.Complex) else (x,))]
    return [ctx.tensor(part) for part in parts]


def _values(like: Sequence[Value], tensors: Sequence[Tensor]) -> list[Value]:
    """Tensors as the values that `_tensors` made them of."""
    rest = iter(tensors)
    return [v.Complex(next(rest), next(rest)) if isinstance(x, v.Complex) else next(rest) for x in like]


# Branches -------------------------------------------------------------------------------------------------------------


@converter("if")
def _if(ctx: Importer, op: Op) -> list[Value]:
    condition = op.inputs[0]
    if isinstance(condition, Known):
        return ctx.run_block(op.body(0 if condition.splat else 1), [])
    return _either(ctx, op, ctx.reshape(ctx.tensor(condition), ()), [op.body(0), op.body(1)])


@converter("case")
def _case(ctx: Importer, op: Op) -> list[Value]:
    index, blocks = op.inputs[0], [region.blocks[0] for region in op.operation.regions]
    if isinstance(index, Known):
        place = int(index.splat)
        return ctx.run_block(blocks[place if 0 <= place < len(blocks) else -1], [])
    return _cases(ctx, op, ctx.tensor(index), blocks, 0)


def _cases(ctx: Importer, op: Op, index: Tensor, blocks: list[ir.Block], first: int) -> list[Value]:
    """The branch that an index says, the last one for any other number."""
    if len(blocks) == 1:
        return ctx.run_block(blocks[0], [])
    here = ctx.compare("eq", index, first)
    if len(blocks) == 2:
        return _either(ctx, op, here, blocks)
    return _either(ctx, op, here, blocks[:1], lambda: _cases(ctx, op, index, blocks[1:], first + 1))


def _either(ctx: Importer, op: Op, flag: Tensor, blocks: list[ir.Block], otherwise: Any = None) -> list[Value]:
    found: list[list[Tensor]] = []
    like: list[Value] = []
    for block in (blocks[0], blocks[-1]):
        with ctx.inner_region() as (_, yields):
            is_last = len(found) == 1 and otherwise is not None
            like = otherwise() if is_last else ctx.run_block(block, [])
            yields.extend(_tensors(ctx, like))
        found.append(list(yields))
    types = [t.type for t in found[0]]
    for a, b in zip(*found, strict=True):
        if a.type != b.type:
            raise Reject(f"branches that give {a.type} and {b.type}", "branches with results of one type and shape")
    return _values(like, ctx.emit("if", [flag], types, regions=2))


# Loops ----------------------------------------------------------------------------------------------------------------


@dataclass
class _Count:
    """A loop's counter: which carried value, its first value, its limit (exclusive) and its step."""

    place: int
    first: int
    limit: int
    step: int

    @property
    def rounds(self) -> int:
        return max(-(-(self.limit - self.first) // self.step), 0)


def _constant(ctx: Importer, value: Any, block: ir.Block) -> int | None:
    """The integer that a value of the module is, where it is known before the loop."""
    owner = value.owner
    if not isinstance(owner, ir.Block) and owner.name == "stablehlo.constant":
        found = ctx.constant_of(owner)
        return int(found.splat) if found.splat is not None and found.array.ndim == 0 else None
    if isinstance(owner, ir.Block) and owner == block:
        return None
    outer = ctx._env.get(value)
    return int(outer.splat) if isinstance(outer, Known) and outer.splat is not None else None


def _counted(ctx: Importer, op: Op, fixed: set[int]) -> _Count | None:
    """Whether the condition compares a counter, which starts at a number and grows by one, with a number."""
    condition, body = op.body(0), op.body(1)
    end = list(condition.operations)[-1].operation
    test = end.operands[0].owner
    if isinstance(test, ir.Block) or test.name != "stablehlo.compare":
        return None
    arguments, inner = list(condition.arguments), list(body.arguments)
    x, y = test.operands
    if x not in arguments or direction_of(Op(test, [])) not in ("lt", "le"):
        return None
    place = arguments.index(x)
    if y in arguments:
        other = arguments.index(y)
        given = op.inputs[other]
        limit = int(given.splat) if other in fixed and isinstance(given, Known) and given.splat is not None else None
    else:
        limit = _constant(ctx, y, condition)
    first = op.inputs[place]
    grown = list(body.operations)[-1].operation.operands[place].owner
    if limit is None or not isinstance(first, Known) or first.is_sizes or isinstance(grown, ir.Block):
        return None
    step = _step(ctx, grown, inner[place], body)
    if step is None or step <= 0:
        return None
    return _Count(place, int(first.splat), limit + (direction_of(Op(test, [])) == "le"), step)


def _step(ctx: Importer, grown: ir.Operation, counter: Any, body: ir.Block) -> int | None:
    if grown.name != "stablehlo.add":
        return None
    a, b = grown.operands
    if counter not in (a, b):
        return None
    return _constant(ctx, b if a == counter else a, body)


def _ops_of(ctx: Importer, block: ir.Block, depth: int = 0) -> int:
    """How many ops a block makes, calls and inner loops counted."""
    total = 0
    for view in block.operations:
        operation = view.operation
        total += 1
        if operation.name == "func.call" and depth < 50:
            called = ctx.functions[_reference(operation.attributes["callee"])]
            total += _ops_of(ctx, called.regions[0].blocks[0], depth + 1)
        elif operation.name in ("stablehlo.while", "stablehlo.case", "stablehlo.if"):
            total += sum(_ops_of(ctx, region.blocks[0], depth + 1) for region in operation.regions)
    return total


@converter("while")
def _while(ctx: Importer, op: Op) -> list[Value]:
    body = op.body(1)
    carried, returned = list(body.arguments), list(list(body.operations)[-1].operation.operands)
    fixed = {i for i, (a, b) in enumerate(zip(carried, returned)) if a == b}
    count = _counted(ctx, op, fixed)
    if count is not None and ctx.copies * count.rounds * _ops_of(ctx, body) <= _MOST_UNROLLED:
        return _written_out(ctx, op, count)
    if count is not None:
        return _for(ctx, op, count, fixed)
    return _open(ctx, op, fixed)


def _written_out(ctx: Importer, op: Op, count: _Count) -> list[Value]:
    """Each round by itself; loops within it know how often they stand."""
    values, before = list(op.inputs), ctx.copies
    ctx.copies = before * max(count.rounds, 1)
    try:
        for _ in range(count.rounds):
            values = ctx.run_block(op.body(1), values)
    finally:
        ctx.copies = before
    return values


def _for(ctx: Importer, op: Op, count: _Count, fixed: set[int]) -> list[Value]:
    """A counted loop. Values that no round changes are not carried."""
    if count.rounds == 0:
        return list(op.inputs)
    moving = [i for i in range(len(op.inputs)) if i not in fixed and i != count.place]
    initial = _tensors(ctx, [op.inputs[i] for i in moving])
    types = [t.type for t in initial]
    last = count.first + (count.rounds - 1) * count.step
    dtype = op.inputs[count.place].type.dtype
    with ctx.inner_region([TensorType("i64", ()), *types]) as (given, yields):
        index = ctx.bound(given[0], count.first, last)
        counter = index if dtype == "i64" else ctx.narrowed(index, dtype, (count.first, last))
        values = list(op.inputs)
        values[count.place] = counter
        for i, value in zip(moving, _values([op.inputs[i] for i in moving], given[1:])):
            values[i] = value
        results = ctx.run_block(op.body(1), values)
        yields.extend(_tensors(ctx, [results[i] for i in moving]))
        _check_types(types, yields)
    bounds = Dims((count.first, count.first + count.rounds * count.step, count.step))
    found = ctx.emit("for", initial, types, {"bounds": bounds}, regions=1)
    values = list(op.inputs)
    values[count.place] = v.number(count.first + count.rounds * count.step, dtype)
    for i, value in zip(moving, _values([op.inputs[i] for i in moving], found)):
        values[i] = value
    return values


def _open(ctx: Importer, op: Op, fixed: set[int]) -> list[Value]:
    """A loop while a condition holds."""
    moving = [i for i in range(len(op.inputs)) if i not in fixed]
    initial = _tensors(ctx, [op.inputs[i] for i in moving])
    types = [t.type for t in initial]

    def round_of(block: ir.Block, given: list[Tensor]) -> list[Value]:
        values = list(op.inputs)
        for i, value in zip(moving, _values([op.inputs[i] for i in moving], given)):
            values[i] = value
        return ctx.run_block(block, values)

    with ctx.inner_region(types) as (given, yields):
        yields.append(ctx.reshape(ctx.tensor(round_of(op.body(0), given)[0]), ()))
    with ctx.inner_region(types) as (given, yields):
        results = round_of(op.body(1), given)
        yields.extend(_tensors(ctx, [results[i] for i in moving]))
        _check_types(types, yields)
    found = ctx.emit("while", initial, types, regions=2)
    values = list(op.inputs)
    for i, value in zip(moving, _values([op.inputs[i] for i in moving], found)):
        values[i] = value
    return values


def _check_types(types: list[TensorType], yields: list[Tensor]) -> None:
    for before, after in zip(types, yields, strict=True):
        if before != after.type:
            raise Reject(
                f"a carried value of {before} that a round makes {after.type}", "one of the same type and shape"
            )


# Custom calls ---------------------------------------------------------------------------------------------------------


@converter("custom_call")
def _custom_call(ctx: Importer, op: Op) -> list[Value]:
    target = op.text("call_target_name")
    if target == "shape_assertion":
        return _shape_assertion(ctx, op)
    if target in ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement"):
        ctx.check_sharding(op)
        return list(op.inputs)
    if target == "ApproxTopK":
        return approximate_top_k(ctx, op)
    if target == "stablehlo.dynamic_reduce_window":
        return [dynamic_window(ctx, op)]
    if "callback" in target:
        raise Reject(
            f"a callback into Python ({target}), which programs do not make",
            "a function without io_callback, pure_callback and debug.print",
        )
    if target.startswith("mhlo.") or target.startswith("chlo."):
        return _of_dialect(ctx, op, target)
    if target in linalg.CALLS:
        return linalg.CALLS[target](ctx, op)
    return call_target(ctx, op, target)


def _of_dialect(ctx: Importer, op: Op, target: str) -> list[Value]:
    """An op of another dialect, as exported modules have it: its name in the target, its attributes beside it."""
    name = f"chlo.{target.partition('.')[2]}"
    name = {"chlo.topk": "chlo.top_k"}.get(name, name)
    convert = CONVERTERS.get(name)
    if convert is None:
        raise Reject(f"there is no form of {target} here")
    found = convert(ctx, _Renamed(op, name, "mhlo.attributes"))
    return found if isinstance(found, list) else [found]


class _Renamed(Op):
    """An op under another name, with the attributes that one of its own has."""

    def __init__(self, op: Op, name: str, attributes: str) -> None:
        super().__init__(op.operation, op.inputs)
        self._name, self._attributes = name, attributes

    @property
    def kind(self) -> str:
        """Its name."""
        return self._name

    @property
    def attributes(self) -> Any:
        """Its own attributes."""
        own = self.operation.attributes
        return own[self._attributes] if self._attributes in own else {}

    def has(self, name: str) -> bool:
        """Whether it has an attribute."""
        return name in self.attributes

    def number(self, name: str, default: int = 0) -> int:
        """An integer attribute."""
        return int(ir.IntegerAttr(self.attributes[name]).value) if self.has(name) else default


def _shape_assertion(ctx: Importer, op: Op) -> list[Value]:
    """A relation of sizes that JAX asserts: decided by the types of arguments, else checked in each call."""
    holds = op.inputs[0]
    words = op.text("error_message").split(" Using the following")[0].split(". ")
    message = ". ".join(w for w in words if w).rstrip(".")
    if isinstance(holds, Known):
        if not holds.splat:
            raise Reject(f"sizes that never fit: {message}")
        return []
    ctx.emit("check", [ctx.reshape(ctx.tensor(holds), ())], [], {"message": json.dumps(message)[1:-1][:400]})
    return []


@converter("create_token", "after_all", "send", "recv", "infeed", "outfeed")
def _effects(ctx: Importer, op: Op) -> list[Value]:
    raise Reject(f"{op.kind}: a program with effects", "a function that computes its results from its arguments")


@converter("all_reduce", "all_gather", "all_to_all", "reduce_scatter", "collective_permute", "collective_broadcast",
           "partition_id", "replica_id")  # fmt: skip
def _collectives(ctx: Importer, op: Op) -> list[Value]:
    """Of one device the group is the device: what each gives is what it has."""
    if ctx.is_of_one_device and op.kind in ("partition_id", "replica_id"):
        return [v.number(0, op.dtype())]
    if ctx.is_of_one_device and op.kind in ("all_reduce", "all_gather", "all_to_all", "reduce_scatter"):
        return list(op.inputs)
    raise Reject(f"{op.kind}, which several devices do together", "a program of one device")


@converter("rng", "rng_bit_generator")
def _rng(ctx: Importer, op: Op) -> list[Value]:
    raise Reject(f"{op.kind}, whose numbers XLA makes", "jax.random with threefry keys")
