# SPDX-License-Identifier: Apache-2.0
"""Names and bounds of sizes, as callers give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from straightline.capture.paddle.graph import symbol_name
from straightline.errors import UserError


def size_names(dynamic_shapes: Mapping[str, Any] | None, sizes: Mapping[str, Any]) -> dict[str, dict[int, str | int]]:
    """Names of sizes by input and dim."""
    found: dict[str, dict[int, str | int]] = {}
    if dynamic_shapes is not None and not isinstance(dynamic_shapes, Mapping):
        raise UserError(
            f"dynamic_shapes is a {type(dynamic_shapes).__name__} but must be names by input and dim: {{'x': {{0: 'batch'}}}}"
        )
    for name, dims in (dynamic_shapes or {}).items():
        items = dims.items() if isinstance(dims, Mapping) else enumerate(dims or ())
        for dim, said in items:
            if said is None:
                continue
            said = getattr(said, "__name__", said)
            if not isinstance(said, (str, int)) or isinstance(said, str) and not said.isidentifier():
                raise UserError(f"dynamic_shapes says {said!r} of size {dim} of '{name}' but a name is needed")
            given = sizes.get(said) if isinstance(said, str) else None
            found.setdefault(name, {})[int(dim)] = given if isinstance(given, int) else said
    return found


def bounds_of(sizes: Mapping[str, Any], names: set[str]) -> dict[str, tuple[int, int]]:
    """Bounds of named sizes, checked."""
    found = {}
    for name, said in sizes.items():
        if isinstance(said, int):
            continue
        try:
            low, high = (int(n) for n in said)
        except (TypeError, ValueError):
            raise UserError(
                f"sizes says {said!r} of '{name}' but a number, or a smallest and a largest, is needed"
            ) from None
        if not 0 <= low <= high:
            raise UserError(f"sizes says {low} to {high} of '{name}', which holds no size")
        found[name] = (low, high)
    unknown = sorted(set(found) - names)
    if unknown:
        raise UserError(
            f"sizes says bounds of '{unknown[0]}' but the program has {', '.join(sorted(names)) or 'no names'}"
        )
    return found


def symbols_of(inputs: Sequence[Any], names: Mapping[str, Mapping[int, str | int]]) -> set[str]:
    """Names of the sizes that a program has."""
    found = set()
    for one in inputs:
        for dim, size in enumerate(one.type.shape):
            if size < 0:
                said = names.get(one.name, {}).get(dim, symbol_name(f"{one.name}_{dim}"))
                if isinstance(said, str):
                    found.add(said)
    return found
