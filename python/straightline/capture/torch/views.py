# SPDX-License-Identifier: Apache-2.0
"""Views of memory as values: how the whole takes over what was written to a view of it, op by op."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from straightline.capture.graph_builder import Reject

Op = torch._ops.OpOverload
#: An op, its arguments and its keyword arguments.
OpCall = tuple[Op, tuple[Any, ...], dict[str, Any]]

_aten = torch.ops.aten
#: Ops whose view has the elements of the whole in their order, with the same sizes and with others.
SAME = frozenset(("alias", "detach", "lift", "lift_fresh"))
SHAPES = frozenset(("view", "_reshape_alias", "reshape", "unsqueeze", "squeeze", "flatten", "unflatten"))


def op_name(op: Op) -> str:
    """`select` for aten::select.int; the full name for ops that are not ATen's."""
    return op._schema.name.removeprefix("aten::")


def named_arguments(op: Op, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by the names of its schema, defaults filled in."""
    values: dict[str, Any] = {}
    for place, declared in enumerate(op._schema.arguments):
        if not declared.kwarg_only and place < len(args):
            values[declared.name] = args[place]
        else:
            values[declared.name] = kwargs.get(declared.name, declared.default_value)
    return values


def same_sizes(x: Sequence[Any], y: Sequence[Any]) -> bool:
    """Whether two shapes are known to be equal."""
    return len(x) == len(y) and all(statically_known_true(i == j) for i, j in zip(x, y))


def written_through(
    op: Op, rest: Sequence[Any], kwargs: Mapping[str, Any], whole: torch.Tensor, view: torch.Tensor
) -> Any:
    """Returns how a value written to `view`, which is op(whole, *rest, **kwargs), gets into `whole`.

    Args:
        op: makes the view.
        rest: its arguments behind the first.
        kwargs: its keyword arguments.
        whole: a fake tensor of what is viewed.
        view: a fake tensor of the view.

    Returns:
        A function of both values (of the whole, and the new one of the view) that gives the call of the new whole; None where
        the new value of the view is that of the whole.

    Raises:
        Reject: the op has no such form.
    """
    name, a = op_name(op), named_arguments(op, (None, *rest), kwargs)
    if name in SAME:
        return None
    if name == "view" and "dtype" in a:
        return lambda _, new: (_aten.view.dtype, (new, whole.dtype), {})
    if name in SHAPES or (name == "expand" and same_sizes(whole.shape, view.shape)):
        return lambda _, new: (_aten.reshape.default, (new, list(whole.shape)), {})
    if name == "permute":
        dims = [dim % whole.dim() for dim in a["dims"]]
        return lambda _, new: (_aten.permute.default, (new, [dims.index(dim) for dim in range(len(dims))]), {})
    if name == "transpose":
        return lambda _, new: (op, (new, a["dim0"], a["dim1"]), {})
    if name == "t":
        return lambda _, new: (op, (new,), {})
    if name == "select":
        return lambda old, new: (_aten.select_scatter.default, (old, new, a["dim"], a["index"]), {})
    if name == "slice":
        bounds = (a["dim"], a["start"], a["end"], a["step"])
        return lambda old, new: (_aten.slice_scatter.default, (old, new, *bounds), {})
    if name == "diagonal":
        return lambda old, new: (_aten.diagonal_scatter.default, (old, new, a["offset"], a["dim1"], a["dim2"]), {})
    if name == "view_as_real":
        return lambda _, new: (_aten.view_as_complex.default, (new,), {})
    if name == "view_as_complex":
        return lambda _, new: (_aten.view_as_real.default, (new,), {})
    if name == "as_strided":  # of a contiguous vector
        if not _are_distinct(a["size"], a["stride"]):
            raise Reject("a write to a view by as_strided whose elements share memory", "a write to each element once")
        places = (a["size"], a["stride"], a["storage_offset"])
        return lambda old, new: (_aten.as_strided_scatter.default, (old, new, *places), {})
    raise Reject(f"a write to a view that {op} made", "a write to a slice, a selection, a reshape or a permutation")


def _are_distinct(size: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether no two elements of a view by strides are one, as far as each dim steps over all that smaller strides reach."""
    reach = 0
    for step, n in sorted((step, n) for step, n in zip(stride, size) if n != 1):
        if step <= reach:
            return False
        reach += (n - 1) * step
    return True


def parts_of_view(
    op: Op, args: Sequence[Any], kwargs: Mapping[str, Any], parts: Sequence[torch.Tensor]
) -> list[OpCall] | None:
    """The view that each result of an op with several is of the first argument, as a call with that argument left out.

    Args:
        op: gives several views of one tensor.
        args: its arguments.
        kwargs: its keyword arguments.
        parts: fake tensors of its results.

    Returns:
        A call for each of them; None for an op that is not known.
    """
    name, a = op_name(op), named_arguments(op, args, kwargs)
    if name == "unbind":
        return [(_aten.select.int, (a["dim"], place), {}) for place in range(len(parts))]
    if name in ("split", "split_with_sizes"):
        calls, start = [], 0
        for part in parts:
            end = start + part.shape[a["dim"]]
            calls.append((_aten.slice.Tensor, (a["dim"], start, end), {}))
            start = end
        return calls
    return None
