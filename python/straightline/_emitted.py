# SPDX-License-Identifier: Apache-2.0
"""Emitted Python becomes functions whose text debuggers, tracebacks and `inspect` can show."""

from __future__ import annotations

import itertools
import linecache
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from straightline import kernels
from straightline.errors import UserError

_numbers = itertools.count(1)


class Emitted(NamedTuple):
    """One emitted module: its text and its functions."""

    text: str
    run: Callable[[Any], None]
    prepare: Callable[[Any], None] | None


def load(text: str, name: str, own: kernels.Kernels) -> Emitted:
    """Executes emitted text.

    Args:
        text: A module that defines `run(io)` and perhaps `prepare(io)`.
        name: The program's, for the file name that tracebacks show.
        own: The kernels that the text's imports give.

    Raises:
        UserError: The text is no Python, or defines no function `run`.
    """
    file = f"<straightline {name} {next(_numbers)}>"
    try:
        code = compile(text, file, "exec")
    except SyntaxError as error:
        raise UserError(f"the text is no python: {error}") from None
    lines = text.splitlines(keepends=True)
    linecache.cache[file] = (len(text), None, lines, file)
    scope: dict[str, Any] = {"__name__": f"straightline.emitted.{name}", "__file__": file}
    with kernels.loading(own):
        exec(code, scope)
    # The functions leave the scope: as long as it held them, they would hold themselves and their kernels.
    run, prepare = scope.pop("run", None), scope.pop("prepare", None)
    if not callable(run):
        linecache.cache.pop(file, None)
        raise UserError("the text defines no function 'run'")
    weakref.finalize(run, linecache.cache.pop, file, None)
    return Emitted(text, run, prepare)
