# SPDX-License-Identifier: Apache-2.0
"""Straightline: a captured tensor graph becomes straight-line code that calls kernels directly."""

from straightline.compile import CompiledFunction, compile
from straightline.errors import (
    GuardError,
    InternalError,
    StraightlineError,
    UnsupportedError,
    UserError,
)

__all__ = [
    "CompiledFunction",
    "GuardError",
    "InternalError",
    "StraightlineError",
    "UnsupportedError",
    "UserError",
    "compile",
]
