# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers while torch traces them: sizes without the steps, and what comes of packed sequences."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._decomp import decompositions
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from straightline.capture.importer import TORCH_FOLDER

Layer = Callable[..., tuple[torch.Tensor, Any]]


def _with_states_of_lstm(choose: Callable[..., Layer]) -> Callable[..., Layer]:
    """What torch chooses for a layer of an LSTM over fake tensors, with the right sizes of its states.

    Before 2.13 they have a dim too many.
    """

    def chosen(*arguments: Any) -> Layer:
        own = choose(*arguments)

        def layer(inp: torch.Tensor, hidden: Sequence[torch.Tensor], *rest: Any, **named: Any) -> Any:
            y, states = own(inp, hidden, *rest, **named)
            return y, tuple(state.reshape(before.shape) for state, before in zip(states, hidden))

        return layer

    return chosen


def _without_steps(own: Layer) -> Layer:
    """A layer of recurrent cells over fake tensors; of GRUs, sizes and types without going through the steps.

    torch goes through them for the sizes alone, which makes a constant of a named number of steps.
    """

    def layer(inp: torch.Tensor, hidden: torch.Tensor, params: Any, has_biases: bool, hidden_fn: Any, **named: Any) -> Any:
        if hidden_fn is not decompositions.gru_cell or get_proxy_mode() is not None:  # where the steps become nodes
            return own(inp, hidden, params, has_biases, hidden_fn, **named)
        size = hidden.shape[-1]
        x, h = (torch.nn.functional.linear(value, weight)[..., :size] for value, weight in zip((inp, hidden), params))
        return x + h, h + hidden

    return layer


@contextmanager
def sized_recurrent_layers() -> Iterator[None]:
    """While exporting, by one thread at a time: layers of LSTMs and GRUs have their sizes, whatever the number of steps."""
    own = decompositions.select_one_layer_lstm_function, decompositions.one_layer_rnn
    decompositions.select_one_layer_lstm_function = _with_states_of_lstm(own[0])
    decompositions.one_layer_rnn = _without_steps(own[1])
    try:
        yield
    finally:
        decompositions.select_one_layer_lstm_function, decompositions.one_layer_rnn = own


def is_of_packed_sequences(error: BaseException) -> bool:
    """Whether packing a sequence raised it, or a layer over a packed one."""
    return any(
        frame.f_code.co_filename.startswith(TORCH_FOLDER)
        and (
            frame.f_code.co_name in ("pack_padded_sequence", "pad_packed_sequence")
            or (frame.f_code.co_name == "forward" and isinstance(frame.f_locals.get("batch_sizes"), torch.Tensor))
        )
        for frame, _ in traceback.walk_tb(error.__traceback__)
    )
