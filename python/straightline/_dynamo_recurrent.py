# SPDX-License-Identifier: Apache-2.0
"""Lets Dynamo trace `nn.LSTM`, `nn.GRU` and `nn.RNN` where it compiles for this backend.

By default Dynamo breaks the graph at such a layer (`torch._dynamo.config.allow_rnn` is False), because most backends unroll its
steps; here a layer is one op with a kernel of its own. The flag is one of the process, so it is set while Dynamo compiles a frame
for this backend and no longer: other backends keep the default, and calls cost nothing more.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any

import torch

#: The flag before the compilation that set it; None: it is as it was.
_before: list[bool] = []


def install(backend: Any) -> None:
    """Watches compilations of Dynamo from now on. Where this torch has no such flag or callbacks, layers break graphs."""
    handler = getattr(torch._dynamo, "callback_handler", None)
    has_callbacks = isinstance(getattr(handler, "start_callbacks", None), list) and hasattr(handler, "end_callbacks")
    if handler is None or not has_callbacks or not hasattr(torch._dynamo.config, "allow_rnn"):
        return

    def begins(*_: Any) -> None:
        if _compiled_for(sys._getframe(1), backend) and not torch._dynamo.config.allow_rnn:
            _before.append(torch._dynamo.config.allow_rnn)
            torch._dynamo.config.allow_rnn = True

    def ends(*_: Any) -> None:
        if _before:
            torch._dynamo.config.allow_rnn = _before.pop()

    handler.start_callbacks = _Kept(begins, handler.start_callbacks)
    handler.end_callbacks = _Kept(ends, handler.end_callbacks)


class _Kept(list[Any]):
    """Callbacks of which the first outlives `torch._dynamo.reset`, which drops callbacks and keeps backends."""

    def __init__(self, first: Any, others: Iterable[Any]) -> None:
        super().__init__([first, *others])

    def clear(self) -> None:
        del self[1:]


def _compiled_for(frame: FrameType | None, backend: Any) -> bool:
    """Whether the compilation that the frame is part of is for a backend, and of a function without packed sequences.

    torch 2.11 traces a layer over those and fails behind it, where breaking the graph works. They come from a function that
    Dynamo never traces, so they are among a frame's variables.
    """
    while frame is not None:
        if frame.f_code.co_name == "_compile" and "compiler_fn" in frame.f_locals:
            variables = frame.f_locals.get("locals")
            if isinstance(variables, dict) and any(_is_packed(value) for value in variables.values()):
                return False
            return _innermost(frame.f_locals["compiler_fn"]) is backend
        frame = frame.f_back
    return False


def _is_packed(value: Any) -> bool:
    if isinstance(value, torch.nn.utils.rnn.PackedSequence):
        return True
    return isinstance(value, (tuple, list)) and any(
        isinstance(item, torch.nn.utils.rnn.PackedSequence) for item in value
    )


def _innermost(function: Any) -> Any:
    """The backend that wrappers of torch's are around."""
    for _ in range(16):
        inner = getattr(function, "_torchdynamo_orig_backend", None) or getattr(
            function, "_torchdynamo_orig_callable", None
        )
        inner = inner or getattr(function, "compiler_fn", None)
        if inner is None:
            return function
        function = inner
    return function
