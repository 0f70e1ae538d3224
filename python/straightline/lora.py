# SPDX-License-Identifier: Apache-2.0
"""Low-rank deltas of parameters (Hu et al., LoRA, 2021): W + scale * (B @ A)."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from straightline._frameworks import imported_torch
from straightline._stored import Stored
from straightline.errors import UserError
from straightline.parameters import ParameterTable

_NARROW = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")


def merged(tensors: Mapping[str, Any], adapters: object, table: ParameterTable) -> dict[str, Any]:
    """The parameters that adapters change, with the change.

    Args:
        tensors: The present ones, by name.
        adapters: As `CompiledFunction.with_lora` takes them.
        table: The parameters that a state dict may have.

    Raises:
        UserError: Names every entry that is unknown or does not fit.
    """
    if not isinstance(adapters, Mapping):
        raise UserError(f"adapters is a {type(adapters).__name__} but must be a dict of (A, B, scale) by parameter")
    problems, found = [], {}
    for name, given in adapters.items():
        known = next((alias for alias in table.names_of(str(name)) if alias in tensors), None)
        if known is None:
            near = difflib.get_close_matches(str(name), tensors, 1)
            problems.append(f"{name!r} is no parameter of the model" + (f" (it has {near[0]!r})" if near else ""))
            continue
        if (
            not isinstance(given, (tuple, list))
            or len(given) != 3
            or not all(hasattr(part, "shape") for part in given[:2])
        ):
            problems.append(f"{name!r} has {_parts(given)} but must have (A, B, scale)")
            continue
        a, b, scale = given
        try:
            scale = float(scale)
        except (TypeError, ValueError, RuntimeError):  # RuntimeError: a tensor of several numbers
            problems.append(f"{name!r} has the scale {_parts(scale)} but it must be a number")
            continue
        words = _differs(tensors[known], a, b)
        if words:
            problems.append(f"{name!r}: {words}")
        else:
            found[known] = _added(tensors[known], a, b, scale)
    if problems:
        raise UserError("the adapters do not fit the compiled module:\n  " + "\n  ".join(problems))
    return found


def _parts(given: Any) -> str:
    """A value in an error: tensors by their shapes, not their elements."""
    if isinstance(given, (tuple, list)):
        return f"({', '.join(map(_parts, given))})"
    if hasattr(given, "shape"):
        return f"{type(given).__name__}{list(given.shape)}"
    return repr(given)


def _differs(weight: Any, a: Any, b: Any) -> str:
    shape = tuple(weight.shape)
    if "float" not in str(weight.dtype):
        return f"it is {weight.dtype}, no number with a fraction"
    columns = 1
    for size in shape[1:]:
        columns *= size
    wanted = f"A [r, {columns}] and B [{shape[0] if shape else '?'}, r]"
    if len(shape) < 2:
        return f"it has shape {list(shape)}, which is no matrix"
    if (
        len(a.shape) != 2
        or len(b.shape) != 2
        or (b.shape[0], a.shape[1], a.shape[0]) != (shape[0], columns, b.shape[1])
    ):
        return f"A is {list(a.shape)} and B is {list(b.shape)} but the parameter {list(shape)} needs {wanted}"
    return ""


def _added(weight: Any, a: Any, b: Any, scale: float) -> Any:
    """A new tensor of the weight's dtype and memory order."""
    torch = imported_torch()
    if torch is not None and (isinstance(weight, (torch.Tensor, Stored)) or isinstance(a, torch.Tensor)):
        own = weight.torch() if isinstance(weight, Stored) else torch.as_tensor(weight)
        wide = torch.float32 if str(own.dtype).removeprefix("torch.") in _NARROW else own.dtype
        with torch.no_grad():
            delta = torch.as_tensor(b, device=own.device).to(wide) @ torch.as_tensor(a, device=own.device).to(wide)
            result = torch.empty_strided(tuple(own.shape), own.stride(), dtype=own.dtype, device=own.device)
            return result.copy_(own.to(wide) + scale * delta.reshape(own.shape))
    import numpy

    own = weight.numpy() if isinstance(weight, Stored) else weight
    wide = numpy.float64 if own.dtype == numpy.float64 else numpy.float32
    delta = numpy.asarray(b).astype(wide) @ numpy.asarray(a).astype(wide)
    result = numpy.empty_like(own)  # keeps the order of the memory
    result[...] = (own.astype(wide) + scale * delta.reshape(own.shape)).astype(own.dtype)
    return result
