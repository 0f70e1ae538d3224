# SPDX-License-Identifier: Apache-2.0
"""Shows what a long compilation does: to standard error, on a terminal or where the environment says so, after two seconds."""

from __future__ import annotations

import os
import sys
import threading
from types import TracebackType

from straightline import _compiler
from straightline.errors import UserError

_VARIABLE = "STRAIGHTLINE_PROGRESS"

#: Compilations that are shorter stay silent.
_SILENT_SECONDS = 2.0
_REFRESH_SECONDS = 0.1


def _is_wanted() -> bool:
    value = os.environ.get(_VARIABLE, "")
    if value not in ("", "0", "1"):
        raise UserError(f"{_VARIABLE} is {value!r} but must be '0' or '1'")
    if sys.stderr is None or value == "0":
        return False
    return value == "1" or sys.stderr.isatty()


class CompileProgress:
    """A context that says what a compilation does, in a line that goes when it is over.

    Args:
        name: What is compiled.
        compiler: What compiles the emitted code.

    Attributes:
        step: What is done before and between compilations, such as "capturing".
        compilation: Where the compilation that is running reports, or None.
        measuring: What `tune` measures, how many contractions are done and how many there are; None while it measures nothing.
    """

    def __init__(self, name: str = "", compiler: str = "clang") -> None:
        self.step = "capturing"
        self._name, self._compiler = name, compiler
        self.compilation: _compiler.Progress | None = None
        self.measuring: tuple[str, int, int] | None = None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> CompileProgress:
        if _is_wanted():
            self._thread = threading.Thread(target=self._show, name="straightline-progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def text(self) -> tuple[str, int, int]:
        """The current step, and how many of its units are compiled or measured."""
        if self.measuring is not None:
            return self.measuring
        now = self.compilation
        if now is None or now.stage == 0:
            return self.step, 0, 0
        if now.stage == 1:
            return "choosing kernels and planning memory", 0, 0
        return f"compiling kernels with {self._compiler}", now.units_done, now.units

    def _show(self) -> None:
        if self._over.wait(_SILENT_SECONDS):
            return
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
        )

        head = " ".join(filter(None, ("straightline", self._name)))
        columns = (SpinnerColumn(), TextColumn(head + ": {task.description}"), BarColumn(), MofNCompleteColumn())
        console = Console(stderr=True, force_terminal=True)
        with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
            task = bar.add_task("")
            while True:
                step, done, total = self.text()
                bar.update(task, description=step, completed=done, total=total or None)
                if self._over.wait(_REFRESH_SECONDS):
                    return
