# SPDX-License-Identifier: Apache-2.0
"""Float arguments of a function, which Dynamo gives as 0-d tensors once they have changed: ops that take them as tensors."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import sympy
import torch
from torch.utils._sympy.functions import FloatPow, FloatTrueDiv

_ARITHMETIC = {sympy.Add: operator.add, sympy.Mul: operator.mul, FloatTrueDiv: operator.truediv, FloatPow: operator.pow}


def tensor_form(
    op: torch._ops.OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> torch._ops.OpOverload | None:
    """The overload that takes tensors for the named floats of a call, with all arguments in place; None if there is none."""
    declared = op._schema.arguments
    if kwargs or len(args) > len(declared):
        return None
    floats = {i for i, value in enumerate(args) if isinstance(value, torch.SymFloat)}
    wanted = [_kind(argument, i in floats) for i, argument in enumerate(declared)]
    for name in op._overloadpacket.overloads():
        form = getattr(op._overloadpacket, name)
        if form._schema.is_mutable != op._schema.is_mutable or len(form._schema.arguments) != len(declared):
            continue
        given = [_kind(argument, False) for argument in form._schema.arguments]
        if all(kind == other or (kind == "Scalar" and other == "Tensor") for kind, other in zip(wanted, given)):
            return form
    return None


def _kind(argument: torch.Argument, is_float: bool) -> str:
    kind = str(argument.type).removeprefix("Optional[").removesuffix("]")
    return "Tensor" if is_float else "Scalar" if kind in ("number", "Scalar") else kind


def computed(expression: Any, floats: Mapping[Any, torch.Tensor]) -> Any:
    """A number or 0-d tensor with the value of an expression over named floats; None where it is of other functions."""
    if expression.is_Symbol:
        return floats.get(expression)
    if expression.is_number:
        return float(expression)
    function = _ARITHMETIC.get(type(expression))
    parts = [computed(part, floats) for part in expression.args]
    return None if function is None or any(part is None for part in parts) else functools.reduce(function, parts)


def dtype_of_number(op: torch._ops.OpOverload, first: torch.Tensor, result: torch.Tensor) -> torch.dtype:
    """The type that a float has in an op over a tensor: promotion takes it for less than a 0-d tensor of its own."""
    dtype = result.dtype if result.is_floating_point() else first.dtype
    return dtype if dtype in (torch.float32, torch.float64) else torch.float32


def is_alike(result: Any, wanted: Any) -> bool:
    """Whether two fake results have the same type and sizes."""
    return isinstance(result, torch.Tensor) and (result.dtype, result.shape) == (wanted.dtype, wanted.shape)
