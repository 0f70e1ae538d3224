# SPDX-License-Identifier: Apache-2.0
"""Complex tensors at the border of a program, which has real ones: their last dimension holds both parts."""

from __future__ import annotations

import contextlib
import functools
import sys
from typing import Any

from straightline import _complex_arrays
from straightline._frameworks import imported_torch, is_paddle
from straightline.errors import GuardTypeError, UserError
from straightline.parameters import is_row_major


def is_complex(value: object) -> bool:
    """Whether a value is a complex tensor of torch."""
    torch = imported_torch()
    return torch is not None and isinstance(value, torch.Tensor) and value.is_complex()


def real(tensor: Any) -> Any:
    """The memory of a complex tensor of torch or Paddle or of a numpy array as one of real numbers; others as they are."""
    if is_complex(tensor):
        return sys.modules["torch"].view_as_real(tensor)
    if is_paddle(tensor):
        return _real_of_paddle(tensor)
    numpy = sys.modules.get("numpy")
    is_array = numpy is not None and isinstance(tensor, numpy.ndarray) and tensor.dtype.kind == "c"
    return _complex_arrays.view(tensor) if is_array else tensor


def whole(tensor: Any, in_torch: bool = False) -> Any:
    """The complex tensor of which `real` gave the memory; of Paddle's and of numpy's that is not row-major a copy.

    With `in_torch` numpy's is torch's.
    """
    found = _complex_arrays.whole(tensor)
    return sys.modules["torch"].as_tensor(found) if in_torch else found


def _real_of_paddle(tensor: Any) -> Any:
    """Paddle's view of other elements is one of row-major memory that has a dimension and elements."""
    kind = {"complex64": "float32", "complex128": "float64"}.get(str(tensor.dtype).removeprefix("paddle."))
    if kind is None:
        return tensor
    paddle = sys.modules["paddle"]
    with contextlib.nullcontext() if paddle.in_dynamic_mode() else paddle.base.dygraph.guard():
        tensor, shape = tensor.detach(), list(tensor.shape)
        if 0 in shape:
            return paddle.zeros([*shape, 2], kind)
        if not is_row_major(shape, tensor.strides):
            raise UserError(f"a complex parameter has the strides {tuple(tensor.strides)}: give a contiguous copy")
        return paddle.as_strided(tensor, [*shape, 1], [*tensor.strides, 1]).view(kind)


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
