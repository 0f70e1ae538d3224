# SPDX-License-Identifier: Apache-2.0
"""Elementwise ATen ops: promotion and broadcasting made explicit."""

from __future__ import annotations

from typing import Any

import torch

from straightline.capture.builder import Extent, TensorType
from straightline.capture.graph_builder import FLOATS, Reject, Tensor
from straightline.capture.torch.importer import Arguments, Importer, converter, dtype_name, torch_dtype

# Ops whose integer inputs become float first.
_FLOAT_UNARY = ("exp expm1 log log1p log2 log10 sqrt rsqrt reciprocal sin cos tan tanh sigmoid erf").split()
# Ops that keep their dtype.
_SAME_UNARY = "neg abs relu silu floor ceil round trunc sign bitwise_not hardsigmoid hardswish".split()
# Rounding does nothing to integers.
_ROUNDING = ("floor", "ceil", "round", "trunc")


def _float_unary(op: str) -> None:
    @converter(f"aten.{op}.default")
    def convert(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
        type = ctx.result_type(node)
        return ctx.emit_one(op, [ctx.cast(a.self, type.dtype)], type)


def _same_unary(op: str) -> None:
    @converter(f"aten.{op}.default")
    def convert(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
        if op in _ROUNDING and a.self.dtype not in FLOATS:
            return ctx.emit_one("clone", [a.self], a.self.type)
        return ctx.emit_one(op, [a.self], ctx.result_type(node))


for _op in _FLOAT_UNARY:
    _float_unary(_op)
for _op in _SAME_UNARY:
    _same_unary(_op)


@converter("aten.gelu.default")
def _gelu(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    return ctx.emit_one("gelu", [a.self], a.self.type, {"approximate": a.approximate})


@converter("aten.leaky_relu.default")
def _leaky_relu(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    slope = float(a.negative_slope)
    return ctx.emit_one("leaky_relu", [a.self], a.self.type, {"negative_slope": slope})


@converter("aten.elu.default")
def _elu(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    if a.input_scale != 1:
        raise Reject(f"elu with input_scale={a.input_scale}", "input_scale=1")
    result = ctx.emit_one("elu", [a.self], a.self.type, {"alpha": float(a.alpha)})
    if a.scale == 1:
        return result
    return ctx.emit_one("mul", [result, ctx.operand(a.scale, result.type)], result.type)


@converter("aten.atan.default")
def _atan(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    type = ctx.result_type(node)
    return ctx.emit_one("atan2", [ctx.cast(a.self, type.dtype), ctx.operand(1.0, type)], type)


@converter("aten.softplus.default")
def _softplus(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    attributes = {"beta": float(a.beta), "threshold": float(a.threshold)}
    return ctx.emit_one("softplus", [a.self], a.self.type, attributes)


@converter("aten.logical_not.default")
def _logical_not(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    return ctx.emit_one("logical_not", [ctx.cast(a.self, "i1")], ctx.result_type(node))


@converter("aten.isnan.default", "aten.isinf.default")
def _is_special(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    type = ctx.result_type(node)
    if a.self.dtype not in FLOATS:
        return ctx.full(False, "i1", type.extents)
    return ctx.emit_one("isnan" if "isnan" in str(node.target) else "isinf", [a.self], type)


# Binary ops -----------------------------------------------------------------------------------------------------------

_HALF = ("f16", "bf16")


def _binary(ctx: Importer, op: str, node: torch.fx.Node, x: Any, y: Any, compute: str) -> Tensor:
    """Emits a binary op computed in `compute`, with the shape and dtype of the node's result."""
    type = ctx.result_type(node)
    inner = TensorType(compute, type.extents)
    result = ctx.emit_one(op, [ctx.operand(x, inner), ctx.operand(y, inner)], inner)
    return ctx.cast(result, type.dtype)


def _scale(ctx: Importer, op: str, node: torch.fx.Node, x: Any, y: Any, compute: str) -> Tensor:
    """A product or quotient: eager computes it in float32 where the tensor is half and the second operand a number.

    The number may be Python's or, on the CPU, a tensor of no dimension and another type. (In sums, and as the first operand, it
    is rounded to half first, as `_binary` does; on a device `_is_kept` says when not.)
    """
    number = x if not isinstance(x, Tensor) else y
    is_rounded = isinstance(number, Tensor) and ctx.target.supports("computes_halves_wide")
    inexact = compute in _HALF and _is_wider(number, compute) and not is_rounded
    return _binary(ctx, op, node, x, y, "f32" if inexact else compute)


def _is_kept(ctx: Importer, number: Any, alpha: float) -> bool:
    """Whether eager keeps a number beside half tensors, or alpha, as float32 in a sum or difference: on a device.

    Source: TensorIterator and `opmath_symmetric_gpu_kernel_with_scalars` of ATen's CUDA kernels.
    """
    return ctx.target.supports("computes_halves_wide") and (alpha != 1 or not isinstance(number, Tensor))


def _is_wider(number: Any, half: str) -> bool:
    """Whether rounding to half may change a number."""
    if isinstance(number, Tensor):
        return number.rank == 0 and number.dtype not in (half, "i1")
    return isinstance(number, float) or (isinstance(number, int) and _rounded(number, half) != number)


def _rounded(number: float, half: str) -> float:
    """A number in a half type; infinite beyond its range."""
    return float(torch.tensor(float(number), dtype=torch.float64).to(torch_dtype(half)))


def _scaled(ctx: Importer, x: Any, alpha: Any, dtype: str) -> Any:
    if alpha == 1:
        return x
    if not isinstance(x, Tensor):
        return x * alpha
    scaled = TensorType(dtype, x.extents)
    return ctx.emit_one("mul", [ctx.cast(x, dtype), ctx.operand(alpha, scaled)], scaled)


@converter("aten.add.Tensor", "aten.add.Scalar", "aten.sub.Tensor", "aten.sub.Scalar")
def _add_sub(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    dtype = ctx.promoted(a.self, a.other)
    op = "add" if ".add." in str(node.target) else "sub"
    if dtype == "i1" and op == "add":  # torch adds booleans as a logical or
        return _binary(ctx, "logical_or", node, a.self, a.other if a.alpha else False, "i1")
    if dtype in _HALF and (a.alpha != 1 or _is_kept(ctx, a.other, a.alpha)):
        # Eager rounds alpha on the CPU, and the result once.
        alpha = a.alpha if ctx.target.supports("computes_halves_wide") else _rounded(a.alpha, dtype)
        other = ctx.cast(a.other, dtype) if isinstance(a.other, Tensor) else a.other
        return _binary(ctx, op, node, ctx.cast(a.self, dtype), _scaled(ctx, other, alpha, "f32"), "f32")
    return _binary(ctx, op, node, a.self, _scaled(ctx, a.other, a.alpha, dtype), dtype)


@converter("aten.rsub.Tensor", "aten.rsub.Scalar")
def _rsub(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    dtype = ctx.promoted(a.self, a.other)
    compute = "f32" if dtype in _HALF and _is_kept(ctx, a.other, a.alpha) else dtype
    return _binary(ctx, "sub", node, a.other, _scaled(ctx, a.self, a.alpha, compute), compute)


@converter("aten.mul.Tensor", "aten.mul.Scalar")
def _mul(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    dtype = ctx.promoted(a.self, a.other)
    if dtype == "i1":
        return _binary(ctx, "logical_and", node, a.self, a.other, "i1")
    return _scale(ctx, "mul", node, a.self, a.other, dtype)


@converter("aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor")
def _div(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    dtype = ctx.promoted(a.self, a.other, int_to_float=True)
    return _scale(ctx, "div", node, a.self, a.other, dtype)


_ROUNDED = {"floor": "floor_divide", "trunc": "trunc_divide"}


@converter("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def _div_mode(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    if a.rounding_mode is None:
        return _div(ctx, a, node)
    return _rounded_quotient(ctx, _ROUNDED[a.rounding_mode], node, a.self, a.other)


def _rounded_quotient(ctx: Importer, op: str, node: torch.fx.Node, x: Any, y: Any) -> Tensor:
    """A quotient that is rounded to an integer, of halves as eager's kernels make it.

    On the CPU each step is rounded to half, but a divisor of one element counts as a number, by which it divides in float32. On
    a device the floor is that of the quotient in float32, and the quotient by a tensor is rounded to half before it is truncated.
    """
    dtype = ctx.promoted(x, y)
    if dtype not in _HALF or not isinstance(y, Tensor):
        return _scale(ctx, op, node, x, y, dtype)
    is_number = all(extent == 1 for extent in y.extents)
    if op == "floor_divide" if ctx.target.supports("computes_halves_wide") else is_number:
        return _scale(ctx, op, node, x, y, dtype)
    type = ctx.result_type(node)
    x, y = ctx.operand(x, type), ctx.operand(y, type)
    quotient = ctx.emit_one("div", [x, y], type)
    return ctx.emit_one("trunc", [quotient], type) if op == "trunc_divide" else _floored(ctx, x, y, quotient)


def _floored(ctx: Importer, x: Tensor, y: Tensor, quotient: Tensor) -> Tensor:
    """floor(x / y) by the remainder: (x - x % y) / y is an integer but for what rounding adds (c10::div_floor_floating)."""
    type, flags = x.type, TensorType("i1", x.extents)
    zero, one = ctx.operand(0, type), ctx.operand(1, type)

    def step(name: str, *operands: Tensor) -> Tensor:
        return ctx.emit_one(name, operands, flags if name in (*_COMPARISONS, *_LOGICAL) else type)

    rest = step("fmod", x, y)
    whole = step("div", step("sub", x, rest), y)
    opposite = step(
        "logical_and", step("ne", rest, zero), step("logical_xor", step("lt", rest, zero), step("lt", y, zero))
    )
    whole = step("where", opposite, step("sub", whole, one), whole)
    floor = step("floor", whole)
    above = step("gt", step("sub", whole, floor), ctx.operand(0.5, type))
    floor = step("where", above, step("add", floor, one), floor)
    return step("where", step("eq", y, zero), quotient, floor)


# ATen overload -> (op, result is boolean)
_PLAIN_BINARY = {
    "floor_divide": ("default", "Scalar"),
    "remainder": ("Tensor", "Scalar", "Scalar_Tensor"),
    "fmod": ("Tensor", "Scalar"),
    "maximum": ("default",),
    "minimum": ("default",),
    "bitwise_and": ("Tensor", "Scalar", "Scalar_Tensor"),
    "bitwise_or": ("Tensor", "Scalar", "Scalar_Tensor"),
    "bitwise_xor": ("Tensor", "Scalar", "Scalar_Tensor"),
    "eq": ("Tensor", "Scalar"),
    "ne": ("Tensor", "Scalar"),
    "lt": ("Tensor", "Scalar"),
    "le": ("Tensor", "Scalar"),
    "gt": ("Tensor", "Scalar"),
    "ge": ("Tensor", "Scalar"),
}
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_LOGICAL = ("logical_and", "logical_or", "logical_xor")


def _plain_binary(op: str, overloads: tuple[str, ...]) -> None:
    @converter(*(f"aten.{op}.{overload}" for overload in overloads))
    def convert(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
        dtype = ctx.promoted(a.self, a.other)
        if op == "floor_divide":
            return _rounded_quotient(ctx, op, node, a.self, a.other)
        if op not in _COMPARISONS:
            return _binary(ctx, op, node, a.self, a.other, dtype)
        type = ctx.result_type(node)
        inner = TensorType(dtype, type.extents)
        return ctx.emit_one(op, [ctx.operand(a.self, inner), ctx.operand(a.other, inner)], type)


for _op, _overloads in _PLAIN_BINARY.items():
    _plain_binary(_op, _overloads)


@converter("aten.max.other", "aten.min.other")
def _max_other(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    op = "maximum" if ".max." in str(node.target) else "minimum"
    return _binary(ctx, op, node, a.self, a.other, ctx.promoted(a.self, a.other))


@converter("aten.atan2.default")
def _atan2(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    dtype = ctx.promoted(a.self, a.other, int_to_float=True)
    return _binary(ctx, "atan2", node, a.self, a.other, dtype)


@converter("aten.logical_and.default", "aten.logical_or.default", "aten.logical_xor.default")
def _logical(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    return _binary(ctx, str(node.target).split(".")[1], node, a.self, a.other, "i1")


@converter("aten.pow.Tensor_Scalar")
def _pow_scalar(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    type = ctx.result_type(node)
    x = ctx.cast(a.self, type.dtype)
    # The exponents that eager computes without pow, so that results agree bit for bit.
    if a.exponent == 2:
        return ctx.emit_one("mul", [x, x], type)
    if a.exponent == 3:
        return ctx.emit_one("mul", [ctx.emit_one("mul", [x, x], type), x], type)
    if type.dtype in FLOATS:
        special = {0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}.get(a.exponent)
        if special:
            return ctx.emit_one(special, [x], type)
    if isinstance(a.exponent, float) and type.dtype in _HALF:
        return _binary(ctx, "pow", node, x, a.exponent, "f32")
    return ctx.emit_one("pow", [x, ctx.operand(a.exponent, type)], type)


@converter("aten.pow.Tensor_Tensor", "aten.pow.Scalar")
def _pow(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    return _binary(ctx, "pow", node, a.self, a.exponent, ctx.promoted(a.self, a.exponent))


# Clamp, where, conversions --------------------------------------------------------------------------------------------


def _clamp(ctx: Importer, node: torch.fx.Node, x: Tensor, low: Any, high: Any) -> Tensor:
    if isinstance(low, Extent) or isinstance(high, Extent):
        return _clamp_between(ctx, node, x, low, high)
    type = ctx.result_type(node)
    attributes: dict[str, Any] = {}
    for name, bound in (("min", low), ("max", high)):
        if bound is None:
            continue
        attributes[name] = float(bound) if type.dtype in FLOATS else int(bound)
    return ctx.emit_one("clamp", [ctx.cast(x, type.dtype)], type, attributes)


@converter("aten.clamp.default")
def _clamp_default(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    return _clamp(ctx, node, a.self, a.min, a.max)


@converter("aten.hardtanh.default")
def _hardtanh(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    return _clamp(ctx, node, a.self, a.min_val, a.max_val)


@converter("aten.relu6.default")
def _relu6(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    return _clamp(ctx, node, a.self, 0, 6)


@converter("aten.clamp_min.default", "aten.clamp_max.default")
def _clamp_one(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    return _clamp(ctx, node, a.self, a.get("min"), a.get("max"))


@converter("aten.clamp.Tensor", "aten.clamp_min.Tensor", "aten.clamp_max.Tensor")
def _clamp_tensor(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    return _clamp_between(ctx, node, a.self, a.get("min"), a.get("max"))


def _clamp_between(ctx: Importer, node: torch.fx.Node, x: Any, low: Any, high: Any) -> Tensor:
    type = ctx.result_type(node)
    result = ctx.operand(x, type)
    for op, bound in (("maximum", low), ("minimum", high)):
        if bound is not None:
            result = ctx.emit_one(op, [result, ctx.operand(bound, type)], type)
    return result


@converter("aten.where.self", "aten.where.ScalarSelf", "aten.where.ScalarOther", "aten.where.Scalar")
def _where(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    type = ctx.result_type(node)
    condition = ctx.expand(ctx.cast(a.condition, "i1"), type.extents)
    operands = [condition, ctx.operand(a.self, type), ctx.operand(a.other, type)]
    return ctx.emit_one("where", operands, type)


@converter("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def _masked_fill(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    type = ctx.result_type(node)
    mask = ctx.expand(ctx.cast(a.mask, "i1"), type.extents)
    return ctx.emit_one("where", [mask, ctx.operand(a.value, type), ctx.operand(a.self, type)], type)


@converter("aten._to_copy.default", "prims.convert_element_type.default")
def _to_copy(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    x = a.get("self", a.get("a"))
    type = ctx.result_type(node)
    if not isinstance(x, Tensor):  # a number, as vmap leaves it
        return ctx.operand(x, type)
    return ctx.cast(x, type.dtype) if x.dtype != type.dtype else ctx.emit_one("clone", [x], type)


@converter("aten.to.dtype", "aten.to.dtype_layout", "aten.to.device", "aten.type_as.default")
def _to(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    if not isinstance(a.self, Tensor):  # a number, as vmap leaves it
        return ctx.operand(a.self, ctx.result_type(node))
    moved = ctx.cast(a.self, dtype_name(node.meta["val"].dtype))
    return ctx.emit_one("clone", [moved], moved.type) if a.get("copy") and moved is a.self else moved
