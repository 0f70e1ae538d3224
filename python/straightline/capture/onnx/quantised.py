# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime's ops of quantised tensors (com.microsoft): an op of floats between a dequantisation and a quantisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx

from straightline.capture.graph_builder import Reject, Tensor
from straightline.capture.onnx.importer import CONVERTERS, Importer, Node, converter
from straightline.capture.onnx.linear import byte_product, bytes_of, dequantised, literal, requantised, scale_of
from straightline.capture.onnx.values import Value

_DOMAIN = "com.microsoft."


def _as(ctx: Importer, node: Node, kind: str, inputs: Sequence[Value | None], **attributes: Any) -> Tensor:
    """What the standard's op of that name gives for these inputs, with the node's attributes and others."""
    proto = onnx.NodeProto()
    proto.CopyFrom(node.proto)
    proto.op_type, proto.domain = kind, ""
    found = CONVERTERS[kind](ctx, Node(proto, list(inputs), node.attributes | attributes, node.version))
    return ctx.tensor(found[0] if isinstance(found, list) else found)


def _quantised(ctx: Importer, x: Tensor, scale: Value | None, zero: Value | None, like: Value | None) -> Tensor:
    """By one scale; without a zero point it is 0 of the type of `like`."""
    dtype = ctx.type_of(zero if zero is not None else like).dtype
    return requantised(ctx, x, literal(ctx, scale), zero, dtype)


@converter(_DOMAIN + "QLinearAdd", _DOMAIN + "QLinearMul")
def _two(ctx: Importer, node: Node) -> Tensor:
    a, b = (dequantised(ctx, *(node.input(i + j) for j in range(3))) for i in (0, 3))
    found = ctx.binary("add" if node.kind.endswith("Add") else "mul", a, b)
    return _quantised(ctx, found, node.inputs[6], node.input(7), node.inputs[0])


@converter(*(_DOMAIN + name for name in ("QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax")))
def _one(ctx: Importer, node: Node) -> Tensor:
    x = dequantised(ctx, *(node.input(i) for i in range(3)))
    kind = node.kind.removeprefix(_DOMAIN + "QLinear")
    if kind == "Softmax" and node.attribute("opset", 13) < 13:
        axis = node.attribute("axis", 1) % max(x.rank, 1)
        if axis != x.rank - 1:
            raise Reject(
                f"a softmax of op set {node.attribute('opset')} over axis {axis} and those behind it", "the last axis"
            )
    attributes = {"alpha": node.attribute("alpha", 0.01)} if kind == "LeakyRelu" else {}
    return _quantised(ctx, _as(ctx, node, kind, [x], **attributes), node.inputs[3], node.input(4), node.inputs[0])


@converter(_DOMAIN + "QLinearAveragePool", _DOMAIN + "QLinearGlobalAveragePool")
def _pool(ctx: Importer, node: Node) -> Tensor:
    x = dequantised(ctx, *(node.input(i) for i in range(3)))
    last = bool(node.attribute("channels_last", 0))
    if last:
        x = ctx.permute(x, [0, x.rank - 1, *range(1, x.rank - 1)])
    found = _as(ctx, node, node.kind.removeprefix(_DOMAIN + "QLinear"), [x])
    if last:
        found = ctx.permute(found, [0, *range(2, found.rank), 1])
    return _quantised(ctx, found, node.inputs[3], node.input(4), node.inputs[0])


@converter(_DOMAIN + "QLinearConcat")
def _concat(ctx: Importer, node: Node) -> Tensor:
    parts = [dequantised(ctx, *node.inputs[i : i + 3]) for i in range(2, len(node.inputs), 3)]
    return _quantised(ctx, _as(ctx, node, "Concat", parts), node.inputs[0], node.input(1), node.inputs[2])


def _with_bias(ctx: Importer, x: Tensor, bias: Value | None) -> Tensor:
    return x if bias is None else ctx.binary("add", x, ctx.tensor(bias, "f32"))


@converter(_DOMAIN + "MatMulIntegerToFloat")
def _matmul_to_float(ctx: Importer, node: Node) -> Tensor:
    a, b, a_scale, b_scale = node.inputs[:4]
    sums = ctx.cast(byte_product(ctx, a, node.input(4), b, node.input(5)), "f32")
    scale = ctx.binary("mul", scale_of(ctx, a_scale), scale_of(ctx, b_scale))
    return _with_bias(ctx, ctx.binary("mul", sums, scale), node.input(6))


@converter(_DOMAIN + "DynamicQuantizeMatMul")
def _dynamic_matmul(ctx: Importer, node: Node) -> Tensor:
    a, b, b_scale = node.inputs[:3]
    places, scale, zero = bytes_of(ctx, ctx.tensor(a, "f32"))
    sums = ctx.cast(byte_product(ctx, places, zero, b, node.input(3)), "f32")
    found = ctx.binary("mul", sums, ctx.binary("mul", scale_of(ctx, b_scale), scale))
    return _with_bias(ctx, found, node.input(4))


@converter(_DOMAIN + "QGemm")
def _gemm(ctx: Importer, node: Node) -> Tensor:
    a, a_scale, a_zero, b, b_scale, b_zero = node.inputs[:6]
    if node.attribute("transA", 0):
        a = ctx.permute(ctx.tensor(a), [1, 0])
    if node.attribute("transB", 0):
        b = ctx.permute(ctx.tensor(b), [1, 0])
    sums = byte_product(ctx, a, a_zero, b, b_zero)
    if node.input(6) is not None:
        sums = ctx.binary("add", sums, ctx.tensor(node.inputs[6], sums.dtype))
    scale = ctx.binary("mul", scale_of(ctx, a_scale), scale_of(ctx, b_scale))
    scale = ctx.binary("mul", scale, float(node.attribute("alpha", 1.0)))
    found = ctx.binary("mul", ctx.cast(sums, "f32"), scale)
    if node.input(7) is None:
        return found
    return _quantised(ctx, found, node.inputs[7], node.input(8), a)
