# SPDX-License-Identifier: Apache-2.0
"""Examples of size 0 or 1 in a dim that is to differ between calls.

torch.export takes such a size as fixed, whatever the model does. An export needs no data of an example, so a larger one does
as well: each `Dim` that has 0 or 1 in the examples gets another size within its bounds, everywhere it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.export import Dim

#: The least size that torch takes to stand for others.
_LEAST = 2


def wider(named: Mapping[str, Any], shapes: Any) -> dict[str, Any] | None:
    """Examples by argument name whose `Dim`s are 2 or more; None where there is nothing to widen, or a bound forbids it.

    Args:
        named: example inputs by argument name.
        shapes: as in `torch.export.export`.
    """
    if shapes is None:
        return None
    by_name = shapes if isinstance(shapes, Mapping) else dict(zip(named, shapes, strict=False))
    sizes: dict[str, int] = {}
    for tensor, dim, spec in _dims(dict(named), by_name):
        if _is_named(spec) and tensor.shape[dim] < _LEAST:
            sizes[spec.__name__] = max(_LEAST, spec.min)
            if sizes[spec.__name__] > spec.max:
                return None
    return _mapped(dict(named), by_name, lambda x, spec: _widened(x, spec, sizes)) if sizes else None


def _is_named(spec: Any) -> bool:
    """Whether it is a `Dim` with a name of its own, neither derived from another nor a hint."""
    return isinstance(spec, Dim) and not hasattr(spec, "root")


def _entries(spec: Any) -> Iterator[tuple[int, Any]]:
    """What `dynamic_shapes` says of a tensor, by dim."""
    if isinstance(spec, Mapping):
        yield from spec.items()
    elif isinstance(spec, (tuple, list)):
        yield from enumerate(spec)


def _parts(value: Any, spec: Any) -> Iterator[tuple[Any, Any, Any]]:
    """The parts of a container by key, each with what is said of it."""
    if isinstance(value, Mapping) and isinstance(spec, Mapping):
        yield from ((key, part, spec.get(key)) for key, part in value.items())
    elif isinstance(value, (tuple, list)) and isinstance(spec, (tuple, list)):
        yield from ((key, part, said) for key, (part, said) in enumerate(zip(value, spec, strict=False)))


def _dims(value: Any, spec: Any) -> Iterator[tuple[torch.Tensor, int, Any]]:
    """Each tensor's dims of which something is said."""
    if isinstance(value, torch.Tensor):
        yield from ((value, dim, said) for dim, said in _entries(spec))
    for _, part, said in _parts(value, spec):
        yield from _dims(part, said)


def _mapped(value: Any, spec: Any, convert: Callable[[torch.Tensor, Any], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return convert(value, spec)
    parts = {key: _mapped(part, said, convert) for key, part, said in _parts(value, spec)}
    if not parts:
        return value
    if isinstance(value, Mapping):
        return {**value, **parts}
    items = [parts.get(place, item) for place, item in enumerate(value)]
    return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)


def _widened(x: torch.Tensor, spec: Any, sizes: Mapping[str, int]) -> torch.Tensor:
    for dim, said in _entries(spec):
        root = getattr(said, "root", said)
        if not isinstance(root, Dim) or root.__name__ not in sizes:
            continue
        size = sizes[root.__name__]
        size = said.fn(size) if root is not said else size
        if x.shape[dim] == 0:
            x = x.new_zeros((*x.shape[:dim], 1, *x.shape[dim + 1 :]))
        x = torch.cat([x.narrow(dim, 0, 1)] * size, dim)
    return x
