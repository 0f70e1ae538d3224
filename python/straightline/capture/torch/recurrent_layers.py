# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers while torch traces them: sizes without the steps, and what comes of packed sequences."""

from __future__ import annotations

import threading
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


class _Patch:
    """Functions of torch's decompositions: the first thread that traces replaces them, the last one puts them back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._own: tuple[Any, Any] = (None, None)

    def enter(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._own = select, rnn = decompositions.select_one_layer_lstm_function, decompositions.one_layer_rnn
                decompositions.select_one_layer_lstm_function = lambda *arguments: _without_steps(select(*arguments))
                decompositions.one_layer_rnn = _without_steps(rnn)

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                decompositions.select_one_layer_lstm_function, decompositions.one_layer_rnn = self._own


_patch = _Patch()


@contextmanager
def sized_recurrent_layers() -> Iterator[None]:
    """While tracing, by any number of threads: recurrent layers have their sizes, whatever the number of steps."""
    _patch.enter()
    try:
        yield
    finally:
        _patch.leave()


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
