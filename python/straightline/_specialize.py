# SPDX-License-Identifier: Apache-2.0
"""`specialize`: programs for single combinations of a compiled function's named sizes, made in the background.

One daemon thread of the process compiles; it holds no function that waits for it. A call counts its sizes in C
(python/call_path/hot_sizes.c), and goes to the program of its very sizes once there is one.
"""

from __future__ import annotations

import os
import queue
import threading
import warnings
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from straightline import _call, _ending
from straightline._frameworks import imported_torch
from straightline._stored import Stored
from straightline.errors import SpecializeWarning, StraightlineError, UserError

#: Calls of one combination of sizes after which it gets a program.
HOT_CALLS = 16


def version(tensor: Any) -> int | None:
    """How often a tensor was written in place; None: that cannot be told of it."""
    if isinstance(tensor, Stored):
        return 0
    torch = imported_torch()
    if torch is None or not isinstance(tensor, torch.Tensor) or tensor.is_inference():
        return None
    return int(tensor._version)


class Special:
    """A program for single sizes: waited for, there, or failed.

    Attributes:
        sizes: By name.
        state: "waiting", "ready" or "failed".
        reason: Why it failed.
        done: Set when it waits no longer.
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = dict(sizes)
        self.state, self.reason = "waiting", ""
        self.done = threading.Event()

    def end(self, state: str, reason: str = "") -> None:
        """Says what became of it."""
        self.state, self.reason = state, reason
        self.done.set()

    def facts(self) -> dict[str, Any]:
        """Returns the entry of `explain`."""
        return {"sizes": self.sizes, "state": self.state, "reason": self.reason}


class Specializer:
    """The special programs of one compiled function.

    Args:
        function: The function, which is not kept alive.
        names: Its named sizes, but those that depend on data.
        most: So many combinations of sizes get a program because calls have them often.
        make: Makes the program of a function for sizes, and has the function take it; told whether it is in the background.

    Attributes:
        lock: Held while weights are made and published: by a new special program, and by `load_parameters`.
        entries: By sizes, in the order in which they were asked for.
    """

    def __init__(
        self, function: Any, names: list[str], most: int, make: Callable[[Any, Mapping[str, int], bool], None]
    ) -> None:
        self.lock = threading.Lock()
        self.entries: dict[tuple[int, ...], Special] = {}
        self._function = weakref.ref(function)
        self._names, self._most, self._make = names, most, make
        _live.add(self)
        if names and most > 0:
            _call.count_sizes(function, HOT_CALLS, self._hot)

    def _hot(self, sizes: dict[str, int]) -> None:
        """Called within a call whose sizes came often."""
        key = tuple(sizes[name] for name in self._names)
        if key in self.entries:
            return
        self.entries[key] = special = Special(sizes)
        self._most -= 1
        if self._most == 0:
            _call.count_sizes(self._function(), 0, self._hot)
        _worker.put(self, special)

    def now(self, sizes: object) -> None:
        """Makes the program for these sizes unless it is there.

        Raises:
            UserError: These are not the function's sizes.
        """
        key = self._key(sizes)
        special = self.entries.get(key)
        if special is not None and special.state != "failed":
            special.done.wait()
            if special.state == "ready":
                return
        self.entries[key] = special = Special(dict(zip(self._names, key, strict=True)))
        try:
            self._make(self._function(), special.sizes, False)
        except BaseException as error:
            special.end("failed", str(error))
            raise
        special.end("ready")

    def _key(self, sizes: object) -> tuple[int, ...]:
        if not self._names:
            raise UserError("no size of this program has a name: it is for its example's sizes already")
        needed = f"a dict with the size of {', '.join(self._names)}"
        if not isinstance(sizes, Mapping) or set(sizes) != set(self._names):
            given = f"has {', '.join(map(repr, sizes)) or 'nothing'}" if isinstance(sizes, Mapping) else f"is {sizes!r}"
            raise UserError(f"sizes {given} but must be {needed}")
        for name, size in sizes.items():
            if isinstance(size, bool) or not hasattr(size, "__index__"):
                raise UserError(f"size {name} is {size!r} but must be a whole number")
        return tuple(int(sizes[name]) for name in self._names)

    def work(self, special: Special) -> None:
        """Makes a program, in the background; what fails is said by a warning and by `explain`."""
        function = self._function()
        if function is None:
            return special.end("failed", "its function is gone")
        try:
            self._make(function, special.sizes, True)
        except Exception as error:
            reason = str(error) if isinstance(error, StraightlineError) else f"{type(error).__name__}: {error}"
            special.end("failed", reason)
            at = ", ".join(f"{name} = {size}" for name, size in special.sizes.items())
            warnings.warn(f"no program of its own for {at}: {reason}", SpecializeWarning, stacklevel=1)
        else:
            special.end("ready")

    def wait(self, timeout: float | None) -> bool:
        """Waits for what is compiled now; whether it is done in so many seconds."""
        return all(special.done.wait(timeout) for special in [*self.entries.values()])


_live: weakref.WeakSet[Specializer] = weakref.WeakSet()


class _Worker:
    """The thread, begun when there is something to do, and what waits for it."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[tuple[Specializer, Special]] = queue.SimpleQueue()
        self._begun = threading.Lock()
        self._thread: threading.Thread | None = None
        self.pending: weakref.WeakSet[Special] = weakref.WeakSet()

    def put(self, specializer: Specializer, special: Special) -> None:
        self.pending.add(special)
        self._waiting.put((specializer, special))
        with self._begun:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="straightline-specialize", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            specializer, special = self._waiting.get()
            with _ending.held_off():
                specializer.work(special)
            del specializer, special


_worker = _Worker()


def _forget() -> None:
    """In a forked child, which has no such thread."""
    global _worker
    before, _worker = _worker, _Worker()
    for specializer in _live:
        specializer.lock = threading.Lock()
    for special in before.pending:
        if not special.done.is_set():
            special.end("failed", "the process was forked")


os.register_at_fork(after_in_child=_forget)
