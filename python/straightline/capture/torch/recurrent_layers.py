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

from straightline.capture.torch.importer import TORCH_FOLDER

Layer = Callable[..., tuple[torch.Tensor, Any]]


def _without_steps(own: Layer) -> Layer:
    """A layer of recurrent cells over fake tensors: sizes and types without going through the steps.

    torch goes through them for the sizes alone, which makes a constant of a named number of steps.
    """

    def layer(inp: torch.Tensor, hidden: Any, params: Sequence[torch.Tensor], *rest: Any, **named: Any) -> Any:
        if get_proxy_mode() is not None:  # where the steps become nodes
            return own(inp, hidden, params, *rest, **named)
        states = (hidden,) if isinstance(hidden, torch.Tensor) else hidden
        h = states[0]
        x, recurrent = (
            torch.nn.functional.linear(value, weight)[..., : h.shape[-1]] for value, weight in zip((inp, h), params)
        )
        ends = tuple(recurrent + h if state is h else torch.empty_like(state) for state in states)
        return x + h, ends[0] if isinstance(hidden, torch.Tensor) else ends

    return layer


@contextmanager
def sized_recurrent_layers() -> Iterator[None]:
    """While exporting, by one thread at a time: recurrent layers have their sizes, whatever the number of steps."""
    select, rnn = decompositions.select_one_layer_lstm_function, decompositions.one_layer_rnn
    decompositions.select_one_layer_lstm_function = lambda *arguments: _without_steps(select(*arguments))
    decompositions.one_layer_rnn = _without_steps(rnn)
    try:
        yield
    finally:
        decompositions.select_one_layer_lstm_function, decompositions.one_layer_rnn = select, rnn


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
