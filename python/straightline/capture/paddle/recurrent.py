# SPDX-License-Identifier: Apache-2.0
"""Paddle's `rnn` op: LSTM, GRU and plain layers in one or both directions.

Its gates have the order of our ops (LSTM i, f, g, o; GRU r, z, c) and its cells their equations; its list of weights has those of
all layers first and the biases of all behind.
"""

from __future__ import annotations

from typing import Any

from straightline.capture.builder import TensorType
from straightline.capture.graph_builder import Reject, Tensor
from straightline.capture.paddle.importer import Importer, Node, converter

_OPS = {"LSTM": "lstm", "GRU": "gru", "RNN_TANH": "rnn", "RNN_RELU": "rnn"}


@converter(
    "rnn", takes="LSTM, GRU, tanh and relu; layers, both directions", refuses="sequence_length, dropout in training"
)
def _rnn(ctx: Importer, node: Node) -> list[Any]:
    x = ctx.tensor(node.inputs[0])
    states, weights = ctx.tensors(node.inputs[1]), ctx.tensors(node.inputs[2])
    mode, layers = str(node.attribute("mode")), int(node.attribute("num_layers"))
    both = bool(node.attribute("is_bidirec"))
    if node.input(3) is not None:
        raise Reject("sequences of several lengths (sequence_length)", "sequences of one length")
    if node.attribute("dropout_prob", 0.0) and not node.attribute("is_test"):
        raise Reject("dropout between layers: the program is in training mode", "layer.eval()")
    if mode not in _OPS:
        raise Reject(f"a recurrent layer of mode {mode}", ", ".join(_OPS))
    count = layers * (2 if both else 1)
    if len(weights) not in (2 * count, 4 * count):
        raise Reject(f"{len(weights)} weights of {count} layers and directions")
    biases = len(weights) == 4 * count
    ordered = [
        tensor
        for i in range(count)
        for tensor in (*weights[2 * i : 2 * i + 2], *(weights[2 * (count + i) : 2 * (count + i) + 2] if biases else ()))
    ]
    hidden = states[0].extents[2]
    y = TensorType(x.dtype, (*x.extents[:2], hidden * (2 if both else 1)))
    attributes: dict[str, Any] = {
        "num_layers": layers, "bidirectional": both, "batch_first": False, "has_biases": biases,
    }  # fmt: skip
    if _OPS[mode] == "rnn":
        attributes["nonlinearity"] = "tanh" if mode == "RNN_TANH" else "relu"
    types = [y, *(s.type for s in states)]
    found: list[Tensor] = ctx.emit(_OPS[mode], [x, *states, *ordered], types, attributes)
    return [found[0], None, list(found[1:]), None]
