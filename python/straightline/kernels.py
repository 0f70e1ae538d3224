# SPDX-License-Identifier: Apache-2.0
"""Compiled kernels as Python objects: `straightline.kernels.<backend>.<kernel>`.

`fn.kernels` holds those of one compiled function; this module holds those of all compiled functions that are alive. A kernel
says what it takes (`arguments`, `scalars`, `can_fail`, `cost_us`). It is called by emitted Python, with a queue and buffers of
a call that is under way.

Emitted Python begins with `from straightline.kernels import native`: while a program is loaded that gives its own kernels.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from straightline import _call
from straightline._alone import Kernel
from straightline.errors import UserError


class Backend:
    """The kernels of one backend, as attributes."""

    def __init__(self, name: str, entries: list[Any]) -> None:
        self.__name__ = name
        for entry in entries:
            self.__dict__[entry.name] = entry

    def __iter__(self) -> Iterator[Any]:
        return (entry for name, entry in vars(self).items() if name != "__name__")

    def __repr__(self) -> str:
        return f"<kernels of {self.__name__}: {', '.join(entry.name for entry in self)}>"


class Kernels:
    """All that a program's statements call, by backend; `kernels["name"]` is one that can be called by itself."""

    def __init__(self, program: Any, compilation: Any = None) -> None:
        # Not an attribute that `vars` shows: those are the backends.
        object.__setattr__(self, "_compilation", compilation)
        entries = _call.entries(program)
        for name in sorted({entry.backend for entry in entries}):
            self.__dict__[name] = Backend(name, [entry for entry in entries if entry.backend == name])

    def __iter__(self) -> Iterator[Backend]:
        return (value for name, value in vars(self).items() if name != "_compilation")

    def _alone(self) -> dict[str, Any]:
        return {entry.name: entry for backend in self for entry in backend if entry.kind in ("kernel", "external")}

    def keys(self) -> list[str]:
        """Names of what can be called by itself, as `self[name]`; iteration gives the backends."""
        return list(self._alone())

    def __contains__(self, name: object) -> bool:
        return name in self._alone()

    def __getitem__(self, name: str) -> Kernel:
        entries = self._alone()
        if not isinstance(name, str):
            raise UserError(f"a kernel is named by a text but {name!r} is given; `fn.kernels.keys()` gives the names")
        if name not in entries:
            raise KeyError(f"the program has no kernel {name!r}; it has {', '.join(entries)}")
        return Kernel(entries[name], self._compilation)

    def __repr__(self) -> str:
        return "\n".join(map(repr, self))


_functions: weakref.WeakSet[Any] = weakref.WeakSet()
_loading = threading.local()


def register(function: Any) -> None:
    """Makes a compiled function's kernels known here for as long as it lives."""
    _functions.add(function)


@contextmanager
def loading(kernels: Kernels) -> Iterator[None]:
    """While a program's text is executed its imports give its own kernels."""
    before = getattr(_loading, "kernels", None)
    _loading.kernels = kernels
    try:
        yield
    finally:
        _loading.kernels = before


class _Everything:
    """The kernels of one backend in all compiled functions that are alive."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def _backends(self) -> list[Backend]:
        found = (getattr(function.kernels, self.__name__, None) for function in list(_functions))
        return [backend for backend in found if backend is not None]

    def __getattr__(self, kernel: str) -> Any:
        found = [vars(backend)[kernel] for backend in self._backends() if kernel in vars(backend)]
        if not found:
            raise AttributeError(f"no compiled function has a kernel {self.__name__}.{kernel}")
        if any(entry.arguments != found[0].arguments for entry in found):
            raise AttributeError(
                f"{len(found)} compiled functions have a kernel {self.__name__}.{kernel}, and they differ: take fn.kernels"
            )
        return found[0]

    def __dir__(self) -> list[str]:
        return sorted({entry.name for backend in self._backends() for entry in backend})

    def __repr__(self) -> str:
        return f"<kernels of {self.__name__}: {', '.join(dir(self))}>"


def __getattr__(backend: str) -> Any:
    if backend.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {backend!r}")
    kernels = getattr(_loading, "kernels", None)
    return _Everything(backend) if kernels is None else getattr(kernels, backend)
