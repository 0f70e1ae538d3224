# SPDX-License-Identifier: Apache-2.0
"""Plug-ins: shared libraries with a backend, and how they are found (docs/guides/plugin.md).

A compilation opens all of them, and so does `load` of a model that calls one that is not open; no call does.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from straightline import _call
from straightline._frameworks import keep_for_paddle
from straightline.errors import UserError

#: Of entry points: each gives the path of a plug-in, or a function without arguments that returns it.
GROUP = "straightline.backends"

_opened_entry_points = False
keep_for_paddle()  # before anything opens the backends


@dataclass(frozen=True)
class LoadedBackend:
    """A plug-in's backend, in this process for as long as that lives."""

    #: What `routes` and `allow` call it.
    name: str
    #: The shared library.
    file: str
    #: Name and op of each of its kernels.
    kernels: tuple[tuple[str, str], ...]

    def __repr__(self) -> str:
        return f"<backend {self.name!r} of {self.file}: {', '.join(name for name, _ in self.kernels)}>"


def load_backend(path: str | os.PathLike[str]) -> LoadedBackend:
    """Opens a plug-in: a shared library with kernels of a vendor, for the ops of later compilations.

    It is opened once and stays open. A plug-in runs in this process: open what you would run.

    Args:
        path: The shared library. It exports `straightline_backend_v1` (runtime/abi/kernel.h).

    Returns:
        Its name, file and kernels.

    Raises:
        UserError: The file is missing, is no library, is of another version of the ABI, or describes something wrongly; the
            message names the file and what to do.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise UserError(f"path is a {type(path).__name__}, expected the path of a shared library")
    name, file, kernels = _call.backend_load(path)
    return LoadedBackend(name, file or os.path.realpath(path), kernels)


def open_all() -> None:
    """Opens what the entry points of installed packages and STRAIGHTLINE_BACKEND_PATH name; those that are open stay as they are.

    Raises:
        UserError: One of them cannot be opened.
    """
    global _opened_entry_points
    if not _opened_entry_points:
        for entry in metadata.entry_points(group=GROUP):
            _open(entry)
        _opened_entry_points = True
    _call.backend_search()


def _open(entry: Any) -> None:
    package = f" of {entry.dist.name}" if entry.dist is not None else ""
    said = f"the entry point {entry.name!r}{package} (group {GROUP}, {entry.value})"
    try:
        found: str | os.PathLike[str] | Callable[[], Any] = entry.load()
        path = found() if callable(found) else found
    except Exception as error:
        raise UserError(f"{said} fails: {type(error).__name__}: {error}; repair or uninstall the package") from error
    if not isinstance(path, (str, os.PathLike)):
        raise UserError(f"{said} gives a {type(path).__name__}, expected the path of a shared library")
    try:
        load_backend(path)
    except UserError as error:
        raise UserError(f"{error}; it is named by {said}") from error
