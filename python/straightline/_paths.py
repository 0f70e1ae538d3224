# SPDX-License-Identifier: Apache-2.0
"""Which path a call takes: the straight line, or the interpreter. One setting per thread, one per function, one default."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

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
    return _overridden(enabled)


@contextmanager
def _overridden(enabled: bool) -> Iterator[None]:
    before = _call.override_fast_path(enabled)
    try:
        yield
    finally:
        _call.override_fast_path(before)


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
    """What `chosen` gave, or what a `with fast_path(...)` around the caller makes of it."""
    override = _call.override_fast_path(None)
    _call.override_fast_path(override)
    return function if override is None else (override, f"fast_path({override}) around the call")
