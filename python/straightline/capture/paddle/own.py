# SPDX-License-Identifier: Apache-2.0
"""Custom ops of Paddle (`PD_BUILD_OP`): a user's own kernel where one is registered under the op's name."""

from __future__ import annotations

from typing import Any

from straightline import own_kernels
from straightline.capture import own_calls
from straightline.capture.builder import DTYPES, Dim, TensorType
from straightline.capture.graph_builder import Reject, Tensor
from straightline.capture.paddle import pir
from straightline.own_kernels import OwnKernel

#: Dialects of ops that C++ and that Python define.
OF_CPP, OF_PYTHON = "custom_op.", "py_op."


def name_of(op: pir.Op) -> str:
    """The name that a kernel for a custom op is registered under; the form that updates an argument has the op's own."""
    return "paddle::" + op.name.removeprefix(OF_CPP).removesuffix("_")


def kernel_of(op: pir.Op) -> OwnKernel | None:
    """What is registered for a custom op; None for others."""
    return own_kernels.find(name_of(op)) if op.name.startswith(OF_CPP) else None


def written_place(op: pir.Op) -> int | None:
    """The place of the operand that a custom op updates: what the schema says, of one that is not registered the first."""
    kernel = kernel_of(op)
    if kernel is None:
        return 0 if op.name.endswith("_") and op.operands else None
    tensors = [p for p in kernel.parameters if p.kind == "tensor"]
    return next((place for place, parameter in enumerate(tensors) if parameter.is_updated), None)


def call_custom(ctx: Any, node: Any) -> list[Any]:
    """The results of a custom op, those first that are arguments which the kernel updates.

    Raises:
        Reject: No kernel is registered under its name (the nearest form is the registration), or it does not fit the schema.
    """
    op: pir.Op = node.op
    if op.name.startswith(OF_PYTHON):
        raise Reject(
            f"{op.name.removeprefix(OF_PYTHON)}, an op that Python computes",
            "a custom op of C++ with a kernel of its name: sl.c_kernel",
        )
    operands = [None if x is None else ctx.tensors(x) if isinstance(x, list) else ctx.tensor(x) for x in node.inputs]
    constants = {name: value for name, value in op.attributes.items() if value is not None}
    kernel = kernel_of(op)
    if kernel is None:
        made = own_calls.registration(name_of(op), operands, constants, len(op.results))
        raise Reject(f"the custom op {name_of(op).removeprefix('paddle::')}, for which no kernel is registered", made)
    updated = [p for p in kernel.parameters if p.is_updated]
    if len(updated) > 1 or any(p.is_list for p in updated):
        raise Reject(f"{kernel.name}, which updates several tensors", "an op that updates one")
    values, names = own_calls.bound(kernel, operands, constants)
    if len(op.results) != kernel.results + len(updated):
        raise Reject(
            f"{len(op.results)} results for {kernel.name}, which is registered as {kernel.schema}",
            f"{kernel.results + len(updated)} results, that of the updated argument first",
        )
    types = [_type(op, place, operands) for place in range(len(updated), len(op.results))]
    fresh, renewed = own_calls.emit_call(
        ctx, kernel, values, types, [p.name for p in updated if p.name in names.values()], False, dtype=_dtype_name
    )
    return [*renewed, *fresh]


def _dtype_name(dtype: str) -> str:
    return pir.NAMES[dtype]


def _type(op: pir.Op, place: int, operands: list[Any]) -> TensorType:
    """The type of a result; sizes that Paddle does not say are those of an argument with the same type."""
    type = op.types[place]
    if not isinstance(type, pir.Type) or type.dtype not in DTYPES:
        raise Reject(f"a result of {type}", "a dense tensor of floats, integers or bools")
    if all(size >= 0 for size in type.shape):
        return TensorType(type.dtype, type.shape)
    found: set[tuple[Dim, ...]] = set()
    for operand in operands:
        if isinstance(operand, Tensor) and operand.rank == len(type.shape):
            pairs = list(zip(operand.extents, type.shape))
            if all(a == b or (b < 0 and not isinstance(a, int)) for a, b in pairs):
                found.add(operand.extents)
    if len(found) != 1:
        raise Reject(f"a result of {type}, whose sizes no argument has", "a result of the sizes of a tensor argument")
    return TensorType(type.dtype, found.pop())
