# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers over sequences of several lengths, made of layers over whole sequences. Knows no framework.

A layer runs over all steps, which is one op with a kernel of its own, and what lies behind a row's length is taken out: a step's
h depends on steps before it alone, so the last h of a row is that of its last step. Backwards, the steps within each row's length
are mirrored first. LSTM's c, of which only the last one is given, is held where a row has ended: one more feature of x is 1
there, and its weights close the input gate and open the forget gate, which leaves c as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from straightline.capture.builder import TensorType
from straightline.capture.graph_builder import GraphBuilder, Tensor

#: What added to a gate's sum leaves its sigmoid 0 or 1, by element type; of others 1e30.
_CLOSED = {"f16": 6e4}


def over_lengths(
    ctx: GraphBuilder,
    cell: str,
    x: Tensor,
    lengths: Tensor,
    states: Sequence[Tensor],
    weights: Sequence[Sequence[Tensor]],
    **attributes: Any,
) -> list[Tensor]:
    """One layer, in as many directions as there are lists of weights.

    Args:
        ctx: Where the ops go.
        cell: The op: lstm, gru or rnn.
        x: [s, b, i].
        lengths: [b] of i64: how many steps a row has; below 0 none, beyond s all.
        states: [directions, b, h] each: h, and of lstm c.
        weights: Of each direction, as the op has them: without biases, or with two.
        attributes: The op's own (nonlinearity).

    Returns:
        y [s, b, directions * h], zeros behind each row's length, and the last states, each of its row's last step.
    """
    steps, batch = x.extents[:2]
    number = lengths.type
    lengths = ctx.emit_one("maximum", [lengths, ctx.full(0, "i64", (batch,))], number)
    lengths = ctx.emit_one("minimum", [lengths, ctx.expand(ctx.scalar(steps, "i64"), (batch,))], number)
    along = ctx.emit_one("iota", [], TensorType("i64", (steps,)), {"start": 0, "step": 1})
    along = ctx.expand(ctx.reshape(along, (steps, 1)), (steps, batch))
    ends = ctx.expand(ctx.reshape(lengths, (1, batch)), (steps, batch))
    runs = ctx.emit_one("lt", [along, ends], TensorType("i1", (steps, batch)))
    x = _chosen(ctx, runs, x)
    if cell == "lstm":
        over = ctx.reshape(ctx.cast(ctx.emit_one("logical_not", [runs], runs.type), x.dtype), (steps, batch, 1))
        features = TensorType(x.dtype, (steps, batch, x.extents[2] + 1))
        x = ctx.cat([x, over], 2, features)
        weights = [[_holding(ctx, own[0]), *own[1:]] for own in weights]
    found = []
    for direction, own in enumerate(weights):
        first = [_of_one(ctx, t, direction) for t in states]
        places = None if direction == 0 else _mirrored(ctx, along, ends)
        found.append(_direction(ctx, cell, x, lengths, runs, first, own, places, attributes))
    if len(found) == 1:
        return found[0]
    joined = []
    for i, parts in enumerate(zip(*found)):
        dim = 2 if i == 0 else 0
        extents = list(parts[0].extents)
        extents[dim] = sum(p.extents[dim] for p in parts)
        joined.append(ctx.cat(parts, dim, TensorType(x.dtype, tuple(extents))))
    return joined


def _direction(
    ctx: GraphBuilder,
    cell: str,
    x: Tensor,
    lengths: Tensor,
    runs: Tensor,
    states: Sequence[Tensor],
    weights: Sequence[Tensor],
    places: Tensor | None,
    attributes: dict[str, Any],
) -> list[Tensor]:
    """Gives y and the last states of one direction; `places` [s, b]: which step of a row comes when, None: each in its place."""
    steps, batch = x.extents[:2]
    if places is not None:
        x = _taken(ctx, x, places)
    wide = TensorType(x.dtype, (steps, batch, states[0].extents[2]))
    own = {"num_layers": 1, "bidirectional": False, "batch_first": False, "has_biases": len(weights) >= 4} | attributes
    y, _, *cells = ctx.emit(cell, [x, *states, *weights], [wide, *(t.type for t in states)], own)
    # Behind no step is the given h.
    all_h = ctx.cat([states[0], y], 0, TensorType(x.dtype, (steps + 1, *wide.extents[1:])))
    last = _taken(ctx, all_h, ctx.reshape(lengths, (1, batch)))
    y = _chosen(ctx, runs, y if places is None else _taken(ctx, y, places))
    return [y, last, *cells]


def _of_one(ctx: GraphBuilder, states: Tensor, direction: int) -> Tensor:
    """[directions, b, h] as [1, b, h]."""
    return ctx.slice(states, 0, direction, direction + 1, 1)


def _chosen(ctx: GraphBuilder, runs: Tensor, x: Tensor) -> Tensor:
    """Of x [s, b, n] zeros where a row [s, b] does not run."""
    condition = ctx.expand(ctx.reshape(runs, (*runs.extents, 1)), x.extents)
    return ctx.emit_one("where", [condition, x, ctx.full(0, x.dtype, x.extents)], x.type)


def _taken(ctx: GraphBuilder, x: Tensor, places: Tensor) -> Tensor:
    """Of x [s, b, n] for each row of the batch the steps `places` [t, b]."""
    type = TensorType(x.dtype, (*places.extents, x.extents[2]))
    index = ctx.expand(ctx.reshape(places, (*places.extents, 1)), type.extents)
    return ctx.emit_one("gather", [x, index], type, {"dim": 0})


def _mirrored(ctx: GraphBuilder, along: Tensor, ends: Tensor) -> Tensor:
    """Places [s, b]: those within a row's length in reverse, the others as they are."""
    one = ctx.full(1, "i64", along.extents)
    last = ctx.emit_one("sub", [ends, one], along.type)
    back = ctx.emit_one("sub", [last, along], along.type)
    inside = ctx.emit_one("lt", [along, ends], TensorType("i1", along.extents))
    return ctx.emit_one("where", [inside, back, along], along.type)


def _holding(ctx: GraphBuilder, weight: Tensor) -> Tensor:
    """LSTM's weight of x [4h, i] with a column [4h, 1] that closes the input gate and opens the forget gate."""
    rows, features = weight.extents
    hidden = rows // 4
    big = _CLOSED.get(weight.dtype, 1e30)
    gates = [ctx.full(value, weight.dtype, (hidden, 1)) for value in (-big, big, 0.0, 0.0)]
    column = ctx.cat(gates, 0, TensorType(weight.dtype, (rows, 1)))
    return ctx.cat([weight, column], 1, TensorType(weight.dtype, (rows, features + 1)))
