# SPDX-License-Identifier: Apache-2.0
"""Calls of `jax.ffi.ffi_call`: of a user's own kernel where one is registered under the target's name."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from straightline import own_kernels
from straightline.capture import own_calls
from straightline.capture.builder import TensorType
from straightline.capture.graph_builder import Reject, Tensor
from straightline.capture.jax import values as v
from straightline.capture.jax.importer import Importer, Op
from straightline.capture.jax.values import Value
from straightline.own_kernels import OwnKernel


def call_target(ctx: Importer, op: Op, target: str) -> list[Value]:
    """A custom call that is none of StableHLO's.

    Raises:
        Reject: No kernel is registered under its name (the nearest form is the registration), or it does not fit the schema.
    """
    name = target if "::" in target else f"jax::{target}"
    kernel = own_kernels.find(name)
    count = len(op.inputs) - len(op.numbers("indices_of_shape_operands"))
    operands = [ctx.tensor(x) for x in op.inputs[:count]]
    constants = _constants(op)
    if kernel is None:
        made = own_calls.registration(name, operands, constants, len(op.operation.results))
        raise Reject(f"a call of '{target}', a function of JAX or of jax.ffi that is not registered here", made)
    _check_layouts(op, count)
    values, names = own_calls.bound(kernel, operands, constants)
    renewed = _renewed(op, kernel, names)
    fresh = [place for place in range(len(op.operation.results)) if place not in renewed]
    if len(fresh) != kernel.results:
        raise Reject(
            f"{len(fresh)} results for {kernel.name}, which is registered as {kernel.schema}",
            f"{kernel.results} results and input_output_aliases for each argument that it updates",
        )
    updated = [renewed[place] for place in sorted(renewed)]
    made_fresh, made_updated = own_calls.emit_call(
        ctx, kernel, values, [_type(ctx, op, place, count) for place in fresh], updated,
        op.has("has_side_effect") and bool(ir.BoolAttr(op.attributes["has_side_effect"]).value),
        dtype=lambda name: v.numpy_dtype(name).name,
    )  # fmt: skip
    found: dict[int, Tensor] = dict(zip(fresh, made_fresh)) | dict(zip(sorted(renewed), made_updated))
    return [found[place] for place in range(len(op.operation.results))]


def _type(ctx: Importer, op: Op, place: int, count: int) -> TensorType:
    """The type of a result, whose sizes may be given by operands behind those of the call."""
    type = op.type(place)
    if type is not None:
        return type
    shapes = op.inputs[count:]
    if place >= len(shapes):
        raise Reject("a result whose sizes the module does not say", "sizes of arguments and their sums and products")
    return TensorType(op.dtype(place), tuple(ctx.sizes(shapes[place], "sizes of a result")))


def _renewed(op: Op, kernel: OwnKernel, names: dict[int, str]) -> dict[int, str]:
    """What results are new values of: the name of an argument that the kernel updates."""
    written = {p.name for p in kernel.parameters if p.is_updated}
    found: dict[int, str] = {}
    for attribute in op.attributes["output_operand_aliases"] if op.has("output_operand_aliases") else ():
        alias = stablehlo.OutputOperandAlias(attribute)
        name = names.get(int(alias.operand_index), "")
        if name.partition(".")[0] in written:
            found[int((list(alias.output_tuple_indices) or [0])[0])] = name
    for name in names.values():
        if name.partition(".")[0] in written and name not in found.values():
            place = next(place for place, own in names.items() if own == name)
            raise Reject(
                f"{kernel.name} updates '{name}', which the call does not say",
                f"jax.ffi.ffi_call(..., input_output_aliases={{{place}: RESULT}})",
            )
    return found


def _check_layouts(op: Op, count: int) -> None:
    for name, most in (("operand_layouts", count), ("result_layouts", None)):
        for attribute in list(op.attributes[name])[:most] if op.has(name) else ():
            order = [int(n) for n in np.asarray(attribute).reshape(-1)]
            if order != list(range(len(order)))[::-1]:
                raise Reject(f"an array of the layout {order}", "row-major arrays")


def _constants(op: Op) -> dict[str, Any]:
    """The call's attributes."""
    for name in ("mhlo.backend_config", "backend_config"):
        if not op.has(name):
            continue
        attribute = op.attributes[name]
        if isinstance(attribute, ir.DictAttr):
            return {named.name: _constant(named.name, named.attr) for named in attribute}
        if isinstance(attribute, ir.StringAttr) and attribute.value:
            raise Reject("a call with an opaque text", "attributes by name, custom_call_api_version=4")
    return {}


def _constant(name: str, attribute: ir.Attribute) -> Any:
    if isinstance(attribute, (ir.BoolAttr, ir.IntegerAttr, ir.FloatAttr, ir.StringAttr)):
        return attribute.value
    if isinstance(attribute, ir.DenseElementsAttr):
        return [x.item() for x in np.asarray(attribute).reshape(-1)]
    if isinstance(attribute, (ir.DenseI64ArrayAttr, ir.DenseI32ArrayAttr, ir.DenseF64ArrayAttr, ir.DenseF32ArrayAttr)):
        return list(attribute)
    raise Reject(f"the attribute '{name}', {attribute}", "numbers, texts and one-dimensional arrays of numbers")
