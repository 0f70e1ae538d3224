# SPDX-License-Identifier: Apache-2.0
"""Paddle's `rnn` op: LSTM, GRU and plain layers in one or both directions.

Its gates have the order of our ops (LSTM i, f, g, o; GRU r, z, c) and its cells their equations; its list of weights has those of
all layers first and the biases of all behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from straightline.capture.builder import TensorType
from straightline.capture.graph_builder import Reject, Tensor, known
from straightline.capture.paddle.importer import Importer, Node, converter
from straightline.capture.paddle.values import Value
from straightline.capture.recurrent import over_lengths

_OPS = {"LSTM": "lstm", "GRU": "gru", "RNN_TANH": "rnn", "RNN_RELU": "rnn"}


@converter(
    "rnn",
    takes="LSTM, GRU, tanh and relu; layers, both directions, sequence_length",
    refuses="dropout in training",
)
def _rnn(ctx: Importer, node: Node) -> list[Any]:
    x = ctx.tensor(node.inputs[0])
    states, weights = ctx.tensors(node.inputs[1]), ctx.tensors(node.inputs[2])
    mode, layers = str(node.attribute("mode")), int(node.attribute("num_layers"))
    both = bool(node.attribute("is_bidirec"))
    if node.attribute("dropout_prob", 0.0) and not node.attribute("is_test"):
        raise Reject("dropout between layers: the program is in training mode", "layer.eval()")
    if mode not in _OPS:
        raise Reject(f"a recurrent layer of mode {mode}", ", ".join(_OPS))
    count = layers * (2 if both else 1)
    if mode == "LSTM" and count == 1 and len(weights) in (3, 5):
        return _projected(ctx, x, states, weights, node.input(3))
    if len(weights) not in (2 * count, 4 * count):
        raise Reject(f"{len(weights)} weights of {count} layers and directions")
    biases = len(weights) == 4 * count
    cells = [
        [*weights[2 * i : 2 * i + 2], *(weights[2 * (count + i) : 2 * (count + i) + 2] if biases else ())]
        for i in range(count)
    ]
    own: dict[str, Any] = {}
    if _OPS[mode] == "rnn":
        own["nonlinearity"] = "tanh" if mode == "RNN_TANH" else "relu"
    if node.input(3) is not None:
        lengths = ctx.tensor(node.inputs[3], "i64")
        y, *last = _over_lengths(ctx, _OPS[mode], x, lengths, states, cells, layers, own)
        return [y, None, last, None]
    hidden = states[0].extents[2]
    wide = TensorType(x.dtype, (*x.extents[:2], hidden * (2 if both else 1)))
    attributes: dict[str, Any] = {
        "num_layers": layers, "bidirectional": both, "batch_first": False, "has_biases": biases,
    }  # fmt: skip
    types = [wide, *(s.type for s in states)]
    ordered = [tensor for cell in cells for tensor in cell]
    found: list[Tensor] = ctx.emit(_OPS[mode], [x, *states, *ordered], types, attributes | own)
    return [found[0], None, list(found[1:]), None]


def _projected(
    ctx: Importer, x: Tensor, states: Sequence[Tensor], weights: Sequence[Tensor], lengths: Value | None
) -> list[Any]:
    """One direction with a projection, as `cells` writes it: h is padded to the width of c."""
    h, c = states
    width, output = h.extents[2], weights[-1].extents[0]
    h = ctx.slice(h, 2, 0, known(output), output)
    if lengths is not None:
        y, *last = over_lengths(ctx, "lstm", x, ctx.tensor(lengths, "i64"), [h, c], [weights])
    else:
        wide = TensorType(x.dtype, (*x.extents[:2], output))
        attributes = {"num_layers": 1, "bidirectional": False, "batch_first": False, "has_biases": len(weights) == 5}
        y, *last = ctx.emit("lstm", [x, h, c, *weights], [wide, h.type, c.type], attributes)
    missing = [(0, known(width) - known(output))]
    return [ctx.padded(y, missing), None, [ctx.padded(last[0], missing), last[1]], None]


def _over_lengths(
    ctx: Importer,
    op: str,
    x: Tensor,
    lengths: Tensor,
    states: Sequence[Tensor],
    cells: Sequence[Sequence[Tensor]],
    layers: int,
    own: dict[str, Any],
) -> list[Tensor]:
    """Layers one by one, each over what the one before gives within the lengths: y and the last states."""
    directions = len(cells) // layers
    lasts: list[list[Tensor]] = []
    for layer in range(layers):
        here = slice(layer * directions, (layer + 1) * directions)
        starts = [ctx.slice(t, 0, here.start, here.stop, directions) for t in states]
        x, *last = over_lengths(ctx, op, x, lengths, starts, cells[here], **own)
        lasts.append(last)
    return [x, *(ctx.cat(parts, 0, state.type) for parts, state in zip(zip(*lasts), states))]
