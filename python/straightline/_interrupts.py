# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C during a compilation is not lost.

Python drops what is raised in a destructor or a callback of a weak reference, and capture runs so many of them that one
Ctrl-C in fifty was lost there.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def kept_interrupts() -> Iterator[Callable[[], None]]:
    """A block that ends with KeyboardInterrupt when Ctrl-C came in it, though one was dropped or became another exception.

    Yields:
        A function that raises KeyboardInterrupt when one was dropped, to be called between the block's steps.

    Off the main thread, and with a handler that is not Python's own, the block is as without this.
    """
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield lambda: None
        return
    came = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True
        raise KeyboardInterrupt

    def check() -> None:
        if came:
            raise KeyboardInterrupt

    try:
        signal.signal(signal.SIGINT, note)
        yield check
    except Exception as error:
        if came:
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    check()
