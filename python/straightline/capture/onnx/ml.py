# SPDX-License-Identifier: Apache-2.0
"""Ops of ai.onnx.ml on numbers: scalers, normalisers, linear regression."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from straightline.capture.builder import TensorType
from straightline.capture.extents import product_of
from straightline.capture.graph_builder import FLOATS, Reject, Tensor
from straightline.capture.onnx.importer import Importer, Node, converter
from straightline.capture.onnx.linear import matmul
from straightline.capture.onnx.shape import gathered
from straightline.capture.onnx.values import Text, Value


def _row(ctx: Importer, values: Any, dtype: str = "f32") -> Tensor:
    """Numbers of an attribute along the last dim."""
    return ctx.literal(np.asarray(values, dtype=np.float32), dtype)


def _floats(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    return x if x.dtype == "f32" else ctx.cast(x, "f32")


@converter("ai.onnx.ml.Scaler")
def _scaler(ctx: Importer, node: Node) -> Tensor:
    x = _floats(ctx, node)
    for name, op in (("offset", "sub"), ("scale", "mul")):
        if node.attribute(name):
            x = ctx.binary(op, x, _row(ctx, node.attribute(name)))
    return x


@converter("ai.onnx.ml.Binarizer")
def _binarizer(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    return ctx.cast(ctx.compare("gt", x, float(node.attribute("threshold", 0.0))), x.dtype)


@converter("ai.onnx.ml.Normalizer")
def _normalizer(ctx: Importer, node: Node) -> Tensor:
    x, norm = _floats(ctx, node), node.attribute("norm", "MAX")
    last = [x.rank - 1]
    if norm == "L2":
        size = ctx.unary("sqrt", ctx.reduce("sum", ctx.binary("mul", x, x), last, True))
    else:
        size = ctx.reduce("sum" if norm == "L1" else "amax", ctx.unary("abs", x) if norm == "L1" else x, last, True)
    return ctx.where(ctx.compare("eq", size, 0), x, ctx.binary("div", x, size))


@converter("ai.onnx.ml.Imputer")
def _imputer(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    floats = x.dtype in FLOATS
    values = node.attribute("imputed_value_floats" if floats else "imputed_value_int64s")
    missing = node.attribute("replaced_value_float" if floats else "replaced_value_int64", 0)
    if not values:
        raise Reject("no values to put in", "imputed_value_floats or imputed_value_int64s")
    filler = ctx.literal(np.asarray(values), x.dtype)
    filler = ctx.reshape(filler, ()) if len(values) == 1 else filler
    if floats and math.isnan(missing):
        return ctx.where(ctx.emit_one("isnan", [x], TensorType("i1", x.extents)), filler, x)
    return ctx.where(ctx.compare("eq", x, missing), filler, x)


@converter("ai.onnx.ml.FeatureVectorizer")
def _feature_vectorizer(ctx: Importer, node: Node) -> Tensor:
    parts = [ctx.tensor(x, "f32") for x in node.inputs]
    flat = [ctx.reshape(p, (1, *p.extents)) if p.rank == 1 else p for p in parts]
    total = flat[0].extents[1]
    for part in flat[1:]:
        total = total + part.extents[1]
    return ctx.cat(flat, 1, TensorType("f32", (flat[0].extents[0], total)))


@converter("ai.onnx.ml.ArrayFeatureExtractor")
def _array_feature_extractor(ctx: Importer, node: Node) -> Value:
    x, index = node.inputs[0], ctx.tensor(node.inputs[1], "i64")
    if isinstance(x, Text):
        if not isinstance(x.index, np.ndarray):
            raise Reject("strings that are not known before a call", "numbers")
        table = ctx.literal(x.index.reshape(1, -1))
        return Text(x.table, gathered(ctx, table, ctx.reshape(index, (product_of(index.extents),)), 1))
    x = ctx.tensor(x)
    x = ctx.reshape(x, (1, *x.extents)) if x.rank == 1 else x
    return gathered(ctx, x, ctx.reshape(index, (product_of(index.extents),)), x.rank - 1)


@converter("ai.onnx.ml.LinearRegressor")
def _linear_regressor(ctx: Importer, node: Node) -> Tensor:
    x, targets = _floats(ctx, node), node.attribute("targets", 1)
    if node.attribute("post_transform", "NONE") != "NONE":
        raise Reject(f"the post_transform {node.attribute('post_transform')}", "NONE")
    weights = np.asarray(node.attribute("coefficients"), dtype=np.float32).reshape(targets, -1)
    found = matmul(ctx, x, ctx.literal(np.ascontiguousarray(weights.T)))
    bias = node.attribute("intercepts")
    return ctx.binary("add", found, _row(ctx, bias)) if bias else found
