# SPDX-License-Identifier: Apache-2.0
"""Quantization ops (`quantized_decomposed`, `aten._weight_int8pack_mm`) as the arithmetic that eager does, op by op.

Each function follows the type promotion of torch's definition, so that results agree bit for bit. Products of dequantized
tensors are found again by the pass quantized-linears.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from straightline.capture.builder import Dim, TensorType
from straightline.capture.extents import broadcast
from straightline.capture.graph_builder import FLOATS, Reject, Tensor, known
from straightline.capture.torch.aten_linear import needs_native_floats
from straightline.capture.torch.importer import Arguments, Importer, converter, dtype_name

_HALF = ("f16", "bf16")
_STORED = ("i8", "ui8", "i16", "i32")


def _stored(dtype: torch.dtype) -> str:
    """The IR's name of a type that quantized numbers are kept in."""
    try:
        name = dtype_name(dtype)
    except Reject as refusal:
        raise Reject(f"quantized numbers of {dtype}", "int8, uint8, int16 or int32") from refusal
    if name not in _STORED:
        raise Reject(f"quantized numbers of {dtype}", "int8, uint8, int16 or int32")
    return name


def _apply(ctx: Importer, op: str, x: Any, y: Any) -> Tensor:
    """A binary op of tensors and numbers with torch's promotion."""
    dtype = ctx.promoted(x, y, int_to_float=op == "div")
    extents = [operand.extents for operand in (x, y) if isinstance(operand, Tensor)]
    type = TensorType(dtype, broadcast(extents[0], extents[-1]))
    number = next((operand for operand in (x, y) if isinstance(operand, float)), None)
    if dtype in _HALF and op in ("mul", "div") and number is not None:  # eager rounds the result alone
        wide = TensorType("f32", type.extents)
        return ctx.cast(ctx.emit_one(op, [ctx.operand(x, wide), ctx.operand(y, wide)], wide), dtype)
    return ctx.emit_one(op, [ctx.operand(x, type), ctx.operand(y, type)], type)


def _clamp(ctx: Importer, x: Tensor, low: Any, high: Any) -> Tensor:
    """Limits by numbers, or by tensors of one element."""
    if isinstance(low, Tensor) or isinstance(high, Tensor):
        x = ctx.emit_one("maximum", [x, ctx.operand(low, x.type)], x.type)
        return ctx.emit_one("minimum", [x, ctx.operand(high, x.type)], x.type)
    number = float if x.dtype in FLOATS else int
    limits = {name: number(limit) for name, limit in (("min", low), ("max", high)) if limit is not None}
    return ctx.emit_one("clamp", [x], x.type, limits)


def _one(ctx: Importer, x: Any, dtype: str) -> Any:
    """`.item()` of a tensor of one element, as a tensor of no dimension; numbers as they are."""
    return ctx.cast(ctx.reshape(x, ()), dtype) if isinstance(x, Tensor) else x


def _in_float32(ctx: Importer, x: Tensor) -> Tensor:
    if x.dtype in _HALF:
        return ctx.cast(x, "f32")
    if x.dtype != "f32":
        raise Reject(f"quantization of {x.dtype}", "float32, bfloat16 or float16")
    return x


def _along(ctx: Importer, vector: Tensor, axis: int, rank: int) -> Tensor:
    """[n] as dim `axis` of a tensor of that rank."""
    extents: list[Dim] = [1] * rank
    extents[axis] = vector.extents[0]
    return ctx.reshape(vector, extents)


# Per tensor ---------------------------------------------------------------------------------------------------------


@converter(
    "quantized_decomposed.quantize_per_tensor.default",
    "quantized_decomposed.quantize_per_tensor.tensor",
    "quantized_decomposed.quantize_per_tensor.tensor2",
)
def _quantize_per_tensor(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    stored = _stored(a.dtype)
    x = _in_float32(ctx, a.input)
    if isinstance(a.scale, Tensor):  # a Python number: its inverse is of double precision, rounded once
        inverse = ctx.cast(_apply(ctx, "div", 1.0, _one(ctx, a.scale, "f64")), "f32")
    else:
        inverse = ctx.full(1.0 / a.scale, "f32")
    x = ctx.emit_one("mul", [x, ctx.expand(inverse, x.extents)], x.type)
    x = ctx.emit_one("round", [x], x.type)
    if isinstance(a.zero_point, Tensor) or a.zero_point != 0:
        x = ctx.emit_one("add", [x, ctx.operand(_one(ctx, a.zero_point, "f32"), x.type)], x.type)
    return ctx.cast(_clamp(ctx, x, _one(ctx, a.quant_min, "f32"), _one(ctx, a.quant_max, "f32")), stored)


@converter(
    "quantized_decomposed.dequantize_per_tensor.default",
    "quantized_decomposed.dequantize_per_tensor.tensor",
    "quantized_decomposed.dequantize_per_tensor.tensor2",
)
def _dequantize_per_tensor(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    _stored(a.dtype)
    out = "f32" if a.out_dtype is None else dtype_name(a.out_dtype)
    needs_native_floats("dequantize_per_tensor to", Tensor(a.input.value, TensorType(out, a.input.extents)))
    x = ctx.cast(a.input, out)
    work = "f32" if out in _HALF else out
    wide = TensorType(work, x.extents)
    if isinstance(a.zero_point, Tensor) or a.zero_point != 0:
        zero = _one(ctx, a.zero_point, out)
        zero = ctx.cast(zero if isinstance(zero, Tensor) else ctx.full(zero, out), work)
        shifted = ctx.emit_one("sub", [ctx.cast(x, work), ctx.expand(zero, x.extents)], wide)
        x = ctx.cast(shifted, out)
    scale = ctx.cast(_one(ctx, a.scale, "f64"), work) if isinstance(a.scale, Tensor) else ctx.full(a.scale, work)
    return ctx.cast(ctx.emit_one("mul", [ctx.cast(x, work), ctx.expand(scale, x.extents)], wide), out)


# Per channel, token and group ---------------------------------------------------------------------------------------


@converter("quantized_decomposed.quantize_per_channel.default")
def _quantize_per_channel(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    stored = _stored(a.dtype)
    x = _in_float32(ctx, a.input)
    scales, zeros = (_along(ctx, vector, a.axis, x.rank) for vector in (a.scales, a.zero_points))
    x = _apply(ctx, "mul", x, _apply(ctx, "div", 1.0, scales))
    x = _apply(ctx, "add", ctx.emit_one("round", [x], x.type), zeros)
    return ctx.cast(_clamp(ctx, x, a.quant_min, a.quant_max), stored)


@converter("quantized_decomposed.dequantize_per_channel.default")
def _dequantize_per_channel(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    _stored(a.dtype)
    x = a.input
    if a.zero_points is not None:
        x = _apply(ctx, "sub", x, _along(ctx, a.zero_points, a.axis, x.rank))
    x = _apply(ctx, "mul", x, _along(ctx, a.scales, a.axis, a.input.rank))
    return ctx.cast(x, "f32" if a.out_dtype is None else dtype_name(a.out_dtype))


def _quantize_rows(ctx: Importer, x: Tensor, scales: Tensor, zeros: Tensor, a: Arguments) -> Tensor:
    stored = _stored(a.dtype)
    needs_native_floats("quantization", x)
    x = _apply(ctx, "add", _apply(ctx, "mul", x, _apply(ctx, "div", 1.0, scales)), zeros)
    return ctx.cast(_clamp(ctx, ctx.emit_one("round", [x], x.type), a.quant_min, a.quant_max), stored)


@converter("quantized_decomposed.quantize_per_token.default")
def _quantize_per_token(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    return _quantize_rows(ctx, a.input, a.scales, a.zero_points, a)


@converter("quantized_decomposed.dequantize_per_token.default")
def _dequantize_per_token(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    _stored(a.dtype)
    x = _apply(ctx, "mul", _apply(ctx, "sub", a.input, a.zero_points), a.scales)
    return ctx.cast(x, dtype_name(a.output_dtype))


def _groups(ctx: Importer, x: Tensor, scales: Tensor, a: Arguments) -> Tensor:
    """[n, k] as rows of one group each."""
    n, k = x.extents
    size = k if a.group_size > k and scales.extents[-1] == 1 else a.group_size
    if not isinstance(n, int) or not isinstance(k, int) or k % size != 0:
        raise Reject(f"groups of {size} in [{n}, {k}]", "static sizes that groups divide")
    return ctx.reshape(x, (n * k // size, size))


def _column(ctx: Importer, x: Tensor) -> Tensor:
    return ctx.reshape(x, (math.prod(map(known, x.extents)), 1))


@converter("quantized_decomposed.quantize_per_channel_group.default")
def _quantize_per_channel_group(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    rows = _groups(ctx, a.input, a.scales, a)
    result = _quantize_rows(ctx, rows, _column(ctx, a.scales), _column(ctx, a.zero_points), a)
    return ctx.reshape(result, a.input.extents)


@converter("quantized_decomposed.dequantize_per_channel_group.default")
def _dequantize_per_channel_group(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    _stored(a.dtype)
    x = _groups(ctx, a.w_int8, a.scales, a) if "w_int8" in a.values else _groups(ctx, a.input, a.scales, a)
    if a.zero_points is not None:
        x = _apply(ctx, "sub", x, _column(ctx, a.zero_points))
    x = _apply(ctx, "mul", x, _column(ctx, a.scales))
    return ctx.cast(ctx.reshape(x, a.get("w_int8", a.get("input")).extents), dtype_name(a.output_dtype))


# Parameters of quantization from the numbers themselves -------------------------------------------------------------


def _least_and_largest(ctx: Importer, x: Tensor, dims: list[int], keepdim: bool) -> tuple[Tensor, Tensor]:
    """The least element, at most 0, and the largest, at least 0."""
    if any(x.extents[dim] == 0 for dim in dims):
        raise Reject("quantization parameters of no elements", "one element or more")
    kept = (
        tuple(1 if i in dims else e for i, e in enumerate(x.extents))
        if keepdim
        else tuple(e for i, e in enumerate(x.extents) if i not in dims)
    )
    type = TensorType(x.dtype, kept)
    found = [ctx.emit_one(op, [x], type, {"dims": dims, "keepdim": keepdim}) for op in ("amin", "amax")]
    nothing = ctx.full(0, x.dtype, kept)
    return (
        ctx.emit_one("minimum", [found[0], nothing], type),
        ctx.emit_one("maximum", [found[1], nothing], type),
    )


@converter("quantized_decomposed.choose_qparams.tensor", "quantized_decomposed.choose_qparams_symmetric.tensor")
def _choose_qparams(ctx: Importer, a: Arguments, node: torch.fx.Node) -> list[Tensor]:
    needs_native_floats("quantization parameters", a.input)
    qmin, qmax = a.get("quant_min", a.get("qmin")), a.get("quant_max", a.get("qmax"))
    least, largest = _least_and_largest(ctx, a.input, list(range(a.input.rank)), False)
    symmetric = "symmetric" in str(node.target)
    if symmetric:
        negated = ctx.emit_one("neg", [least], least.type)
        largest = ctx.emit_one("maximum", [negated, largest], largest.type)
        scale = _apply(ctx, "div", largest, float(qmax - qmin) / 2)
    else:
        scale = _apply(ctx, "div", _apply(ctx, "sub", largest, least), float(qmax - qmin))
    one = TensorType("f32", (1,))
    scale = ctx.emit_one("maximum", [ctx.operand(scale, one), ctx.full(a.eps, "f32", (1,))], one)
    if symmetric:
        zero = ctx.full(128 if a.dtype == torch.uint8 else 0, "i64", (1,))
    else:
        steps = ctx.emit_one("div", [ctx.operand(least, one), scale], one)
        whole = ctx.cast(ctx.emit_one("round", [steps], one), "i32")
        zero = ctx.cast(_clamp(ctx, _apply(ctx, "sub", ctx.full(qmin, "i32", (1,)), whole), qmin, qmax), "i64")
    return [ctx.cast(scale, "f64"), zero]


@converter("quantized_decomposed.choose_qparams_per_token.default")
def _choose_qparams_per_token(ctx: Importer, a: Arguments, node: torch.fx.Node) -> list[Tensor]:
    if a.dtype != torch.int8:
        raise Reject(f"choose_qparams_per_token for {a.dtype}", "int8")
    needs_native_floats("quantization parameters", a.input)
    x = ctx.emit_one("abs", [a.input], a.input.type)
    type = TensorType(x.dtype, (*x.extents[:-1], 1))
    scales = ctx.emit_one("amax", [x], type, {"dims": [x.rank - 1], "keepdim": True})
    scales = ctx.cast(scales, "f32") if scales.dtype == "f16" else scales
    scales = _apply(ctx, "div", _clamp(ctx, scales, 1e-5, None), 127.0)
    return [scales, ctx.full(0, scales.dtype, scales.extents)]


@converter("quantized_decomposed.choose_qparams_per_token_asymmetric.default")
def _choose_qparams_per_token_asymmetric(ctx: Importer, a: Arguments, node: torch.fx.Node) -> list[Tensor]:
    needs_native_floats("quantization parameters", a.input)
    qmin, qmax = -128, 127
    least, largest = _least_and_largest(ctx, a.input, [a.input.rank - 1], True)
    scale = _apply(ctx, "div", _apply(ctx, "sub", largest, least), float(qmax - qmin))
    scale = _clamp(ctx, scale, torch.finfo(torch.float32).eps, None)
    lower, upper = _apply(ctx, "div", least, scale), _apply(ctx, "div", largest, scale)
    error = _apply(ctx, "add", _apply(ctx, "add", lower, qmin), _apply(ctx, "add", upper, qmax))
    positive = ctx.emit_one("gt", [error, ctx.full(0, error.dtype, error.extents)], TensorType("i1", error.extents))
    low, high = _apply(ctx, "sub", qmin, lower), _apply(ctx, "sub", qmax, upper)
    zero = _clamp(ctx, ctx.emit_one("where", [positive, low, high], low.type), qmin, qmax)
    return [ctx.cast(scale, "f64"), ctx.cast(ctx.emit_one("round", [zero], zero.type), "i64")]


# Weights of 8 bits ----------------------------------------------------------------------------------------------------


@converter("aten._weight_int8pack_mm.default")
def _weight_int8pack_mm(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    needs_native_floats("a product with a weight of int8", a.self)
    x, weight = ctx.cast(a.self, "f32"), ctx.cast(a.mat2, "f32")
    type = TensorType("f32", (x.extents[0], weight.extents[0]))
    sums = ctx.emit_one("linear", [x, weight], type)
    scaled = ctx.emit_one("mul", [sums, ctx.operand(a.scales, type)], type)
    return ctx.cast(scaled, a.self.dtype)


@converter("quantized_decomposed.convert_element_type.no_fuse")
def _convert_element_type(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    return ctx.cast(a.input, dtype_name(a.dtype))
