# SPDX-License-Identifier: Apache-2.0
"""Paddle's own recurrent cells while it traces `nn.RNN`, `nn.BiRNN` and layers made of these: as its op `rnn`.

Paddle traces a layer as that op where every cell has both biases and no projection. Of others, and of `nn.RNN(cell)`, it writes a
loop over arrays of tensors, which has no form here. While it traces for us, a cell of Paddle's own (LSTMCell, GRUCell,
SimpleRNNCell) becomes the op, one direction of one layer; a projection is a fifth weight, and h, narrower than c then, is padded
to c's width, for Paddle wants equal ones. Such an op is of this trace alone: no file has it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import paddle
from paddle import nn
from paddle.nn.layer import rnn as own

_MODES = {nn.LSTMCell: "LSTM", nn.GRUCell: "GRU", nn.SimpleRNNCell: "RNN_TANH"}


def _mode(cell: Any) -> str | None:
    """The op's mode, None where a cell is another one than Paddle's, or does more."""
    mode = _MODES.get(type(cell))
    changed = "forward" in vars(cell) or cell._forward_pre_hooks or cell._forward_post_hooks if mode else True
    if changed:
        return None
    if mode == "RNN_TANH":
        return {"tanh": "RNN_TANH", "relu": "RNN_RELU"}.get(cell.activation)
    return mode


def _whole(loop: Callable[..., Any]) -> Callable[..., Any]:
    """What runs a cell over all steps, in the place of Paddle's loop."""

    def rnn(
        cell: Any,
        inputs: Any,
        initial_states: Any = None,
        sequence_length: Any = None,
        time_major: bool = False,
        is_reverse: bool = False,
        **kwargs: Any,
    ) -> tuple[Any, Any]:
        mode = None if kwargs or not isinstance(inputs, paddle.pir.Value) or len(inputs.shape) != 3 else _mode(cell)
        if mode is None:
            return loop(cell, inputs, initial_states, sequence_length, time_major, is_reverse, **kwargs)
        if initial_states is None:
            initial_states = cell.get_initial_states(batch_ref=inputs, batch_dim_idx=1 if time_major else 0)
        x = inputs if time_major else paddle.transpose(inputs, [1, 0, 2])
        if sequence_length is None:
            x = paddle.flip(x, [0]) if is_reverse else x
            y, last = _steps(cell, mode, x, initial_states, None)
            y = paddle.flip(y, [0]) if is_reverse else y
        else:
            y, last = _padded_steps(cell, mode, x, initial_states, paddle.cast(sequence_length, "int64"), is_reverse)
        return (y if time_major else paddle.transpose(y, [1, 0, 2])), last

    return rnn


def _steps(cell: Any, mode: str, x: Any, states: Any, lengths: Any) -> tuple[Any, Any]:
    """Gives y [s, b, h] of x [s, b, i], and the last states in the structure of the first."""
    flat = paddle.utils.flatten(states)
    width, output = cell.hidden_size, flat[0].shape[-1]
    padded = [_widened(paddle.unsqueeze(state, 0), width) for state in flat]
    weights = [cell.weight_ih, cell.weight_hh]
    if cell.bias_ih is not None or cell.bias_hh is not None:
        given = cell.bias_ih if cell.bias_ih is not None else cell.bias_hh
        weights += [paddle.zeros_like(given) if bias is None else bias for bias in (cell.bias_ih, cell.bias_hh)]
    if output != width:
        weights.append(paddle.transpose(cell.weight_ho, [1, 0]))
    none = paddle.zeros([1], "uint8")
    y, _, last = paddle._C_ops.rnn(
        x, padded, weights, lengths, none, 0.0, False, cell.input_size, width, 1, mode, 0, True
    )  # fmt: skip
    ends = [paddle.squeeze(state, 0)[:, : first.shape[-1]] for state, first in zip(last, flat)]
    return y[:, :, :output], paddle.utils.pack_sequence_as(states, ends)


def _widened(state: Any, width: int) -> Any:
    """A state of h with zeros up to the width of c."""
    missing = width - state.shape[-1]
    if not missing:
        return state
    return paddle.concat([state, paddle.zeros_like(state[:, :, :1]).tile([1, 1, missing])], -1)


def _padded_steps(cell: Any, mode: str, x: Any, states: Any, lengths: Any, reverse: bool) -> tuple[Any, Any]:
    """Rows that end at their lengths, as Paddle's loop runs them.

    Where a row does not run its state stays, and y is what the cell makes of it: behind the end of the last state, and backwards,
    where these steps come first, of the given one.
    """
    steps = x.shape[0] if x.shape[0] >= 0 else paddle.shape(x)[0]
    places = paddle.unsqueeze(paddle.arange(0, steps, dtype="int64"), 1)
    ends = paddle.unsqueeze(lengths, 0)
    runs = places < ends
    given = x
    if reverse:
        mirrored = ends - 1 - places
        mirrored = paddle.unsqueeze(paddle.where(runs, mirrored, paddle.expand_as(places, mirrored)), 2)
        x = paddle.take_along_axis(x, mirrored, 0)
    y, last = _steps(cell, mode, x, states, lengths)
    if reverse:
        y = paddle.take_along_axis(y, mirrored, 0)
    rows = [
        _rows(paddle.expand(paddle.unsqueeze(t, 0), [steps, -1, -1]))
        for t in paddle.utils.flatten(states if reverse else last)
    ]
    still, _ = cell(_rows(given), paddle.utils.pack_sequence_as(states, rows))  # a GRU's takes rows alone
    still = paddle.reshape(still, paddle.shape(y))
    return paddle.where(paddle.expand_as(paddle.unsqueeze(runs, 2), y), y, still), last


def _rows(x: Any) -> Any:
    """[s, b, n] as [s * b, n]."""
    return paddle.reshape(x, [-1, x.shape[2]])


class _Patch:
    """Paddle's loop over a cell: the first thread that traces replaces it, the last one puts it back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._own: Any = None

    def enter(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._own = own._rnn_static_graph
                own._rnn_static_graph = _whole(self._own)

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                own._rnn_static_graph = self._own


_patch = _Patch()


@contextmanager
def whole_cells() -> Iterator[None]:
    """While Paddle traces, by any number of threads: its own cells over all steps are its op."""
    _patch.enter()
    try:
        yield
    finally:
        _patch.leave()
