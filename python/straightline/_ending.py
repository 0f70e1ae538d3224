# SPDX-License-Identifier: Apache-2.0
"""The end of the process while a daemon thread compiles.

Python before 3.14 ends a daemon thread that comes back for the GIL by unwinding it, and torch's C++ does not allow that in many
places: the process aborts. So an exit handler waits until no thread is in such code.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

#: A capture takes seconds at most; what takes longer is taken to hang, and is not waited for.
_PATIENCE_S = 30.0


class _Threads:
    """The threads that may not be ended now."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.inside: set[int] = set()
        self.ending = False


_threads = _Threads()


def _enter() -> None:
    with _threads.changed:
        while _threads.ending and threading.current_thread() is not threading.main_thread():
            _threads.changed.wait()  # for good: it ends with the process
        _threads.inside.add(threading.get_ident())


def _leave() -> None:
    with _threads.changed:
        _threads.inside.discard(threading.get_ident())
        _threads.changed.notify_all()


@contextmanager
def held_off() -> Iterator[None]:
    """A block in which the interpreter does not end. A thread that comes to one later stops there."""
    if threading.get_ident() in _threads.inside:
        yield
        return
    _enter()
    try:
        yield
    finally:
        _leave()


@contextmanager
def allowed() -> Iterator[None]:
    """A block in which it may, also within one of `held_off`: what is done there sees to it itself."""
    if threading.get_ident() not in _threads.inside:
        yield
        return
    _leave()
    try:
        yield
    finally:
        _enter()


@atexit.register
def _end() -> None:
    own = {threading.get_ident()}
    with _threads.changed:
        _threads.ending = True
        _threads.changed.wait_for(lambda: _threads.inside <= own, _PATIENCE_S)


def _forget() -> None:
    global _threads
    _threads = _Threads()


os.register_at_fork(after_in_child=_forget)
