# SPDX-License-Identifier: Apache-2.0
"""Shows that a long compilation is under way: on a terminal only, to standard error, after a second."""

from __future__ import annotations

import sys
import threading
from types import TracebackType

from straightline import _compiler

#: Compilations that are shorter stay silent.
_SILENT_SECONDS = 1.0
_REFRESH_SECONDS = 0.1


class CompileProgress:
    """A context that says what a compilation does, in a line that goes when it is over.

    Attributes:
        step: What is done before and between compilations, such as "capturing".
        compilation: Where the compilation that is running reports, or None.
        measuring: What `tune` measures, how many contractions are done and how many there are; None while it measures nothing.
    """

    def __init__(self) -> None:
        self.step = "capturing"
        self.compilation: _compiler.Progress | None = None
        self.measuring: tuple[str, int, int] | None = None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> CompileProgress:
        if sys.stderr is not None and sys.stderr.isatty():
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
        """What is being done, and how many units of how many are compiled or measured."""
        if self.measuring is not None:
            return self.measuring
        now = self.compilation
        if now is None or now.stage == 0:
            return self.step, 0, 0
        if now.stage == 1:
            return "choosing kernels and planning memory", 0, 0
        return "compiling emitted code", now.units_done, now.units

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

        columns = (SpinnerColumn(), TextColumn("straightline: {task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("")
            while True:
                step, done, total = self.text()
                bar.update(task, description=step, completed=done, total=total or None)
                if self._over.wait(_REFRESH_SECONDS):
                    return
