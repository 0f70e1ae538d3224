# SPDX-License-Identifier: Apache-2.0
"""scan and map: one graph over the rows of tensors, as a loop that writes rows of its results; short ones step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from straightline.capture.builder import Dim, TensorType
from straightline.capture.graph_builder import Reject, Tensor
from straightline.capture.torch.importer import Arguments, Complex, Importer, converter

if TYPE_CHECKING:
    from straightline.capture.torch.functional import ValueGraph

#: Up to this many steps stand one after the other, without a loop.
_MOST_STEPS = 4


def _checked(values: Sequence[Any], what: str) -> list[Tensor]:
    for value in values:
        if isinstance(value, Complex):
            raise Reject(f"{what} is complex", "a loop over both parts")
        if not isinstance(value, Tensor):
            raise Reject(f"{what} is {value!r}, not a tensor", "tensors only")
    return list(values)


def _step(
    ctx: Importer, graph: ValueGraph, carried: Sequence[Tensor], rows: Sequence[Tensor], others: Sequence[Any]
) -> Any:
    """What a step gives: the new carried values, and its rows of the results."""
    found = _checked(ctx.inline(graph, [*carried, *rows, *others]), "what a step gives")
    return found[: len(carried)], found[len(carried) :]


def _unrolled(
    ctx: Importer,
    graph: ValueGraph,
    carried: list[Tensor],
    xs: list[Tensor],
    others: Sequence[Any],
    types: Sequence[TensorType],
) -> list[Tensor]:
    columns: list[list[Tensor]] = [[] for _ in types]
    for place in range(int(xs[0].extents[0])):  # type: ignore[call-overload]
        carried, rows = _step(ctx, graph, carried, [ctx.select(x, 0, place) for x in xs], others)
        for column, row in zip(columns, rows, strict=True):
            column.append(ctx.reshape(row, (1, *row.extents)))
    return [*carried, *(ctx.cat(column, 0, type) for column, type in zip(columns, types, strict=True))]


def _loop(
    ctx: Importer,
    graph: ValueGraph,
    carried: list[Tensor],
    xs: list[Tensor],
    others: Sequence[Any],
    types: Sequence[TensorType],
) -> list[Tensor]:
    """A `while` that carries the number of the step, the carried values, and the results as far as they are written."""
    count: Dim = xs[0].extents[0]
    number = TensorType("i64", ())
    initial = [ctx.full(0, "i64"), *carried, *(ctx.full(0, type.dtype, type.extents) for type in types)]
    carried_types = [x.type for x in initial]
    with ctx.region(carried_types) as (values, yields):
        yields.append(ctx.emit_one("lt", [values[0], ctx.scalar(count, "i64")], TensorType("i1", ())))
    with ctx.region(carried_types) as (values, yields):
        step, old = values[0], values[1 : 1 + len(carried)]
        new, rows = _step(ctx, graph, old, [_row(ctx, x, step) for x in xs], others)
        yields.append(ctx.emit_one("add", [step, ctx.full(1, "i64")], number))
        yields.extend(ctx.cast(x, y.dtype) for x, y in zip(new, carried, strict=True))
        for whole, row in zip(values[1 + len(carried) :], rows, strict=True):
            part = ctx.reshape(row, (1, *row.extents))
            yields.append(ctx.emit_one("dynamic_update_slice", [whole, part, step], whole.type, {"dim": 0}))
    return ctx.emit("while", initial, carried_types, regions=2)[1:]


def _row(ctx: Importer, x: Tensor, step: Tensor) -> Tensor:
    type = TensorType(x.dtype, (1, *x.extents[1:]))
    return ctx.reshape(ctx.emit_one("dynamic_slice", [x, step], type, {"dim": 0, "length": 1}), x.extents[1:])


def _over_rows(
    ctx: Importer, node: torch.fx.Node, graph: Any, carried: Sequence[Any], xs: Sequence[Any], others: Sequence[Any]
) -> list[Tensor]:
    first, rows = _checked(carried, "a carried value"), _checked(xs, "what a loop goes over")
    types = [ctx.result_type(node, place) for place in range(len(first), len(node.meta["val"]))]
    count = rows[0].extents[0]
    is_short = isinstance(count, int) and 0 < count <= _MOST_STEPS
    return (_unrolled if is_short else _loop)(ctx, ctx.argument(graph), first, rows, others, types)


@converter("scan")
def _scan(ctx: Importer, a: Arguments, node: torch.fx.Node) -> list[Tensor]:
    graph, carried, xs, *others = node.args
    return _over_rows(
        ctx, node, graph, ctx.argument(carried), ctx.argument(xs), ctx.argument(others[0]) if others else []
    )


@converter("map_impl")
def _map(ctx: Importer, a: Arguments, node: torch.fx.Node) -> list[Tensor]:
    graph, xs, *others = node.args
    return _over_rows(ctx, node, graph, [], ctx.argument(xs), ctx.argument(others[0]) if others else [])
