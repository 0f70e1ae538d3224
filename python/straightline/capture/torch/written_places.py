# SPDX-License-Identifier: Apache-2.0
"""Assignments to places that are elements of tensors (`ring[position] = x`), in a form that torch.export can trace.

Eager reads an integer tensor of rank 0 as a Python number; so does ATen's assignment while it is traced, where the number is not
known. torch.export itself sees to this where places are read, but not where they are written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

#: What eager takes for a mask, also of rank 0.
_MASKS = (torch.bool, torch.uint8)


class WrittenPlaces(TorchFunctionMode):
    """While exporting: an assignment to a number that only a call knows writes through a select at it."""

    def __torch_function__(
        self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if function is Tensor.__setitem__ and len(args) == 3 and isinstance(args[0], Tensor):
            items = args[1] if isinstance(args[1], tuple) else (args[1],)
            if any(_is_number(item) for item in items) and not any(_is_advanced(item) for item in items):
                _assign(args[0], items, args[2])
                return None
        return function(*args, **(kwargs or {}))


def _is_number(item: Any) -> bool:
    """Whether an item of an index is a number that depends on data."""
    if isinstance(item, slice):
        return any(_is_number(bound) for bound in (item.start, item.stop))
    if isinstance(item, Tensor):
        whole = not item.dtype.is_floating_point and not item.dtype.is_complex
        return item.dim() == 0 and whole and item.dtype not in _MASKS
    return isinstance(item, torch.SymInt)


def _is_advanced(item: Any) -> bool:
    """Whether an item picks elements by a tensor, a mask or a list, or is none that eager takes."""
    return not (item is None or item is Ellipsis or _is_number(item) or isinstance(item, slice)) and (
        isinstance(item, bool) or not isinstance(item, int)
    )


def _number(item: Any) -> Any:
    return item.item() if isinstance(item, Tensor) else item


def _assign(target: Tensor, items: Sequence[Any], value: Any) -> None:
    """`target[items] = value`, by views: an item selects from a dim, slices it, or is a new one."""
    dims = sum(item is not None and item is not Ellipsis for item in items)
    if dims > target.dim():
        raise IndexError(f"too many indices for tensor of dimension {target.dim()}")
    view, dim = target, 0
    for item in items:
        if item is None:
            view, dim = view.unsqueeze(dim), dim + 1
        elif item is Ellipsis:
            dim += target.dim() - dims
        elif isinstance(item, slice):
            bounds = (_number(item.start), _number(item.stop), _number(item.step))
            view, dim = torch.ops.aten.slice(view, dim, *bounds[:2], 1 if bounds[2] is None else bounds[2]), dim + 1
        else:
            view = view.select(dim, _number(item))
    if not isinstance(value, Tensor):
        view.fill_(value)
        return
    while value.dim() > view.dim() and value.shape[0] == 1:  # as eager's assignment does
        value = value.squeeze(0)
    view.copy_(value)
