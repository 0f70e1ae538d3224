# SPDX-License-Identifier: Apache-2.0
"""Complex tensors at the border of a program, which has real ones: their last dimension holds both parts."""

from __future__ import annotations

import functools
import sys
from typing import Any

from straightline._frameworks import imported_torch
from straightline.errors import GuardTypeError


def is_complex(value: object) -> bool:
    """Whether a value is a complex tensor of torch."""
    torch = imported_torch()
    return torch is not None and isinstance(value, torch.Tensor) and value.is_complex()


def real(tensor: Any) -> Any:
    """The memory of a complex tensor or numpy array as a tensor of real numbers; any other value as it is."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(tensor, numpy.ndarray) and tensor.dtype.kind == "c":
        tensor = sys.modules["torch"].from_numpy(tensor)
    return sys.modules["torch"].view_as_real(tensor) if is_complex(tensor) else tensor


def whole(tensor: Any) -> Any:
    """The complex tensor of which `real` gave the memory."""
    return sys.modules["torch"].view_as_complex(tensor)


def node(name: str, index: int) -> tuple[Any, ...]:
    """The node (`_signature`) of a complex tensor that is the real input or result number `index` of a program."""
    torch = sys.modules["torch"]
    leaf = ("tensor", name, index)
    return ("custom", name, torch.Tensor, functools.partial(_flatten, name), _unflatten, None, (leaf,))


def _flatten(name: str, value: Any) -> tuple[list[Any], None]:
    if not value.is_complex():
        given = str(value.dtype).removeprefix("torch.")
        raise GuardTypeError(f"input '{name}': dtype is {given} but this program was compiled for complex numbers")
    if value.is_conj() or value.is_neg():
        raise GuardTypeError(f"input '{name}' is a conj or neg view: pass x.resolve_conj().resolve_neg()")
    return [real(value)], None


def _unflatten(children: Any, context: None) -> Any:
    return whole(children[0])
