# SPDX-License-Identifier: Apache-2.0
"""Whether eager takes a call at all, for those that no op of ours takes: what eager refuses too is the user's error.

Export does not ask kernels which element types and numbers they take; fake tensors pass where real ones fail.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils import _pytree as pytree

from straightline.capture.builder import Attr
from straightline.capture.graph_builder import FLOATS

#: The largest tensor that is made to ask eager.
_MOST_ELEMENTS = 1 << 22


def holds(dtype: torch.dtype, value: bool | int | float) -> bool:
    """Whether an element type holds a number."""
    if isinstance(value, bool) or dtype == torch.bool:
        return True
    if dtype.is_floating_point:
        return not math.isfinite(value) or abs(value) <= torch.finfo(dtype).max
    return math.isfinite(value) and torch.iinfo(dtype).min <= value <= torch.iinfo(dtype).max


def is_beyond_all(dtype: str, value: Attr) -> bool:
    """Whether no attribute holds the number: it has more than 64 bits."""
    return dtype not in FLOATS and isinstance(value, int) and not -(1 << 63) <= value < 1 << 63


class _TooLarge(Exception):
    """A call whose operands would take too much memory."""


def _real(leaf: Any) -> Any:
    """An argument of a node as eager takes it: zeros of the same type and size for a tensor."""
    leaf = leaf.meta.get("val") if isinstance(leaf, torch.fx.Node) else leaf
    if isinstance(leaf, torch.Tensor):
        sizes = [_real(size) for size in leaf.shape]
        if math.prod(sizes) > _MOST_ELEMENTS:
            raise _TooLarge
        return torch.zeros(sizes, dtype=leaf.dtype)
    if isinstance(leaf, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return leaf.node.hint
    return torch.device("cpu") if isinstance(leaf, torch.device) else leaf


def refusal_of_eager(node: torch.fx.Node) -> str:
    """Calls the op of a node on zeros of the types and sizes of its arguments; returns why eager refuses, or ""."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return ""
    try:
        with unset_fake_temporarily(), torch.no_grad():
            args, kwargs = pytree.tree_map(_real, (tuple(node.args), dict(node.kwargs)))
            node.target(*args, **kwargs)
    except (RuntimeError, TypeError, ValueError, IndexError) as error:  # NotImplementedError is a RuntimeError
        return str(error).splitlines()[0]
    except _TooLarge:
        pass
    return ""
