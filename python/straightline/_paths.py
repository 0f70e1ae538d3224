# SPDX-License-Identifier: Apache-2.0
"""Which path a call takes: the straight line, or the interpreter. One setting per thread, one per function, one default."""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager
from types import TracebackType

from straightline import _call
from straightline.errors import UserError

_VARIABLE = "STRAIGHTLINE_FAST_PATH"


def fast_path(enabled: bool) -> AbstractContextManager[None]:
    """Decides for calls of this thread which path they take; the innermost `with` wins.

    Args:
        enabled: True: the straight line. False: the same kernels one by one through the interpreter, with the look-ups, checks
            and allocations of a framework; the same bits, only slower.

    Raises:
        UserError: `enabled` is no bool.
    """
    if not isinstance(enabled, bool):
        raise UserError(f"fast_path is {enabled!r} but must be True or False")
    return _Override(enabled)


class _Override(AbstractContextManager[None]):
    """One setting; may be entered again, also within itself and on several threads."""

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled
        self._before = threading.local()

    def __enter__(self) -> None:
        stack = self._before.__dict__.setdefault("stack", [])
        stack.append(_call.override_fast_path(self._enabled))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, place: TracebackType | None
    ) -> None:
        _call.override_fast_path(self._before.stack.pop())


def chosen(argument: bool | None) -> tuple[bool, str]:
    """Whether a function takes the straight line, and who said so: the argument of `compile`, the environment or nobody.

    Raises:
        UserError: The environment variable has another value than 0 or 1.
    """
    if argument is not None:
        return argument, f"fast_path={argument} of compile"
    value = os.environ.get(_VARIABLE, "")
    if value not in ("", "0", "1"):
        raise UserError(f"{_VARIABLE} is {value!r} but must be '0' or '1'")
    return value != "0", f"{_VARIABLE}={value}" if value else "the default"


def here(function: tuple[bool, str]) -> tuple[bool, str]:
    """Returns `function`, which `chosen` gave, unless a `with fast_path(...)` around the caller overrides it."""
    override = _call.override_fast_path(None)
    _call.override_fast_path(override)
    return function if override is None else (override, f"fast_path({override}) around the call")
