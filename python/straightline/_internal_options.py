# SPDX-License-Identifier: Apache-2.0
"""What tests and measurements ask of a compilation, and nobody else: nothing here is promised from one version to the next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class InternalOptions:
    """Attributes are those of `sl_internal_options`.

    Attributes:
        prefer: Backend whose kernels are taken wherever they accept.
        device_backend: Backend on whose device everything runs.
        every_branch: Every independent chain of a device's graph becomes a branch, whatever the estimates say.
        kernels_per_unit: So many kernels are compiled together: clang is faster with what nobody asks for again.
    """

    prefer: str = ""
    device_backend: str = ""
    every_branch: bool = False
    kernels_per_unit: int = 1

    def for_compiler(self) -> dict[str, Any]:
        """Options of `_compiler.compile`."""
        return asdict(self)


_current: ContextVar[InternalOptions] = ContextVar("internal options", default=InternalOptions())


def current() -> InternalOptions:
    """Returns the internal options of compilations that begin now."""
    return _current.get()


@contextmanager
def internal_options(**named: Any) -> Iterator[None]:
    """Compilations inside are asked for these."""
    token = _current.set(InternalOptions(**named))
    try:
        yield
    finally:
        _current.reset(token)
