# SPDX-License-Identifier: Apache-2.0
"""One compilation: of any front end's module, and of programs for single sizes."""

from __future__ import annotations

import warnings
from typing import Any

from straightline import _compiler, _ending, backend_plugins
from straightline._progress import CompileProgress
from straightline._slots import Sharing
from straightline._tuning import Tuning
from straightline.errors import CacheWarning


def progress_of(name: str, place: str) -> CompileProgress:
    """The display of a compilation for a place."""
    return CompileProgress(name, "clang" if place == "cpu" else "NVRTC and clang")


def compile_module(
    module: _compiler.Module,
    progress: CompileProgress,
    tuning: Tuning | None,
    sharing: Sharing | None = None,
    **options: Any,
) -> _compiler.Compilation:
    """Compiles, and hands on what the disk cache had to say (a damaged entry, a folder that cannot be written).

    `sharing`: the program is the next of it.
    """
    backend_plugins.open_all()
    with _ending.allowed():
        options = options if tuning is None else tuning.options(module, options)
        progress.compilation = _compiler.Progress()
        shared = sharing.options() if sharing is not None else {}
        compilation = _compiler.compile(module, progress=progress.compilation, **options, **shared)
    if sharing is not None:
        sharing.add(compilation)
    for note in compilation.notes.splitlines():
        warnings.warn(note, CacheWarning, stacklevel=3)
    return compilation
