# SPDX-License-Identifier: Apache-2.0
"""Paddle's message passing over graphs (paddle.geometric): rows along edges, reduced by where they go."""

from __future__ import annotations

from straightline.capture.builder import Dim, TensorType
from straightline.capture.extents import DEFAULT_MAX, product_of
from straightline.capture.graph_builder import Reject, Tensor
from straightline.capture.paddle.data_sizes import found_size
from straightline.capture.paddle.importer import Importer, Node, converter

_MESSAGES = {"ADD": "add", "MUL": "mul"}
_REDUCTIONS = {"SUM": "sum", "MEAN": "sum", "MIN": "amin", "MAX": "amax"}


def _rows(ctx: Importer, x: Tensor, index: Tensor) -> Tensor:
    type = TensorType(x.dtype, (index.extents[0], *x.extents[1:]))
    return ctx.emit_one("index_select", [x, index], type, {"dim": 0})


def _index(ctx: Importer, node: Node, place: int) -> Tensor:
    index = ctx.tensor(node.inputs[place], "i64")
    return ctx.reshape(index, (product_of(index.extents),))


def _joined(ctx: Importer, node: Node, x: Tensor, y: Tensor) -> Tensor:
    """Messages of two operands; ranks are made equal behind the rows."""
    name = str(node.attribute("message_op"))
    if name not in _MESSAGES:
        raise Reject(f"messages by {name}", ", ".join(_MESSAGES))
    rank = max(x.rank, y.rank)
    x, y = (ctx.reshape(t, (t.extents[0], *(1,) * (rank - t.rank), *t.extents[1:])) for t in (x, y))
    return ctx.binary(_MESSAGES[name], x, y)


def _received(ctx: Importer, node: Node, messages: Tensor, to: Tensor, rows: Dim, size: int) -> list[Tensor | None]:
    """Messages reduced by the row that they go to; rows without one are zeros. `size`: the operand with their number."""
    given = ctx.numbers(node.input(size), "an output size") if node.input(size) is not None else []
    rows = given[0] if given and given[0] > 0 else rows
    return [_reduced(ctx, str(node.attribute("reduce_op")), messages, to, rows), None]


def _reduced(ctx: Importer, how: str, messages: Tensor, to: Tensor, rows: Dim) -> Tensor:
    lead = (rows, *messages.extents[1:])
    start = {"MIN": float("inf"), "MAX": float("-inf")}.get(how, 0.0)
    wide = ctx.expand(ctx.reshape(to, (to.extents[0], *(1,) * (messages.rank - 1))), messages.extents)
    into = ctx.full(start, messages.dtype, lead)
    found = ctx.emit_one("scatter", [into, wide, messages], into.type, {"dim": 0, "reduce": _REDUCTIONS[how]})
    if how == "SUM":
        return found
    none, ones = ctx.full(0, "i64", (rows,)), ctx.full(1, "i64", to.extents)
    counts = ctx.emit_one("scatter", [none, to, ones], none.type, {"dim": 0, "reduce": "sum"})
    counts = ctx.reshape(counts, (rows, *(1,) * (messages.rank - 1)))
    if how == "MEAN":
        return ctx.binary("div", found, ctx.cast(ctx.binary("maximum", counts, 1), found.dtype))
    return ctx.where(ctx.compare("gt", counts, 0), found, 0.0)


@converter(
    "segment_pool", takes="floats; sum, mean, min, max; a last id below the number of rows; not in a branch or loop"
)
def _segment_pool(ctx: Importer, node: Node) -> list[Tensor | None]:
    """As messages to the segments, of which there are at most as many as rows; then those that there are."""
    x, to = ctx.tensor(node.inputs[0]), _index(ctx, node, 1)
    count, how = x.extents[0], str(node.attribute("pooltype"))
    if count != to.extents[0]:
        raise Reject(f"segment_{how.lower()} of {count} rows by {to.extents[0]} ids", "one for each row")
    if count == 0:
        return [ctx.full(0, x.dtype, x.extents), None]
    segments = ctx.binary("add", ctx.reshape(ctx.slice(to, 0, -1, DEFAULT_MAX, 1), ()), 1)
    found = found_size(ctx, segments, count)
    pooled = _reduced(ctx, how, x, to, count)
    type = TensorType(x.dtype, (found, *x.extents[1:]))
    attributes = {"dim": 0, "length": found if isinstance(found, int) else -1}
    return [ctx.emit_one("dynamic_slice", [pooled, ctx.full(0, "i64")], type, attributes), None]


@converter("send_u_recv", takes="floats; sum, mean, min, max; a constant out_size", refuses="counts of messages")
def _send_u_recv(ctx: Importer, node: Node) -> list[Tensor | None]:
    x = ctx.tensor(node.inputs[0])
    return _received(ctx, node, _rows(ctx, x, _index(ctx, node, 1)), _index(ctx, node, 2), x.extents[0], 3)


@converter("send_ue_recv", takes="floats; sum, mean, min, max; a constant out_size", refuses="counts of messages")
def _send_ue_recv(ctx: Importer, node: Node) -> list[Tensor | None]:
    x, edges = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1])
    messages = _joined(ctx, node, _rows(ctx, x, _index(ctx, node, 2)), edges)
    return _received(ctx, node, messages, _index(ctx, node, 3), x.extents[0], 4)


@converter("send_uv", takes="floats; add, sub, mul, div")
def _send_uv(ctx: Importer, node: Node) -> Tensor:
    x, y = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1])
    return _joined(ctx, node, _rows(ctx, x, _index(ctx, node, 2)), _rows(ctx, y, _index(ctx, node, 3)))
