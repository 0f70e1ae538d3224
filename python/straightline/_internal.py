# SPDX-License-Identifier: Apache-2.0
"""`straightline.compile` as tests and measurements call it: with internal options (`_internal_options.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from straightline import compile as _compile
from straightline._internal_options import InternalOptions, current, internal_options

__all__ = ["InternalOptions", "compile", "current", "internal_options"]


def compile(*args: Any, internal: Mapping[str, Any] | None = None, **options: Any) -> Any:
    """`straightline.compile` with internal options by name."""
    with internal_options(**(internal or {})):
        return _compile(*args, **options)
