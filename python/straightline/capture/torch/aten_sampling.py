# SPDX-License-Identifier: Apache-2.0
"""ATen ops that read or count at places which tensors name: grid_sampler_2d, histc."""

from __future__ import annotations

import math
from typing import Any

import torch

from straightline.capture.builder import TensorType
from straightline.capture.graph_builder import FLOATS, Reject, Tensor, known
from straightline.capture.torch.importer import Arguments, Importer, converter

#: Names of the op for ATen's numbers.
_INTERPOLATIONS = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")


def _of(ctx: Importer, op: str, x: Tensor, y: Any, dtype: str = "") -> Tensor:
    """A binary op of a tensor with one of its type or a number."""
    return ctx.emit_one(op, [x, ctx.operand(y, x.type)], TensorType(dtype or x.dtype, x.extents))


def _apply(ctx: Importer, op: str, x: Tensor) -> Tensor:
    return ctx.emit_one(op, [x], x.type)


@converter("aten.grid_sampler_2d.default")
def _grid_sampler(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    type = ctx.result_type(node)
    return _sampled(ctx, a.input, a.grid, type, a.interpolation_mode, a.padding_mode, bool(a.align_corners))


def _sampled(ctx: Importer, x: Tensor, grid: Tensor, type: TensorType, mode: int, padding: int, align: bool) -> Tensor:
    if type.dtype not in FLOATS:
        raise Reject(f"grid_sampler_2d of {type.dtype}", "floats")
    attributes = {
        "interpolation_mode": _INTERPOLATIONS[mode],
        "padding_mode": _PADDINGS[padding],
        "align_corners": align,
    }
    return ctx.emit_one("grid_sampler_2d", [x, grid], type, attributes)


@converter("aten.histc.default")
def _histc(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    """Each bin counts the elements whose number is its own; elements outside have none."""
    x, type, low, high = a.self, ctx.result_type(node), float(a.min), float(a.max)
    if not low < high or not all(map(math.isfinite, (low, high))):
        raise Reject(f"histc between {low} and {high}", "constant bounds")
    if x.dtype not in ("f32", "f64", "i64", "i32"):
        raise Reject(f"histc of {x.dtype}", "float32")
    if not x.type.is_static:
        raise Reject("histc of a dynamic size", "static sizes")
    count = math.prod(map(known, x.extents))
    most = ctx.target.limit("most_compared_pairs")
    if count * a.bins > most:  # takes longer than torch's one pass over the elements
        raise Reject(f"histc of {count} elements into {a.bins} bins", f"at most {most} pairs")
    flat = ctx.cast(ctx.reshape(x, (count,)), "f64" if x.dtype == "f64" else "f32")
    scaled = _of(ctx, "div", _of(ctx, "mul", _of(ctx, "sub", flat, low), float(a.bins)), high - low)
    number = _of(ctx, "minimum", _apply(ctx, "floor", scaled), float(a.bins - 1))
    above, below = _of(ctx, "ge", flat, low, "i1"), _of(ctx, "le", flat, high, "i1")
    inside = ctx.emit_one("logical_and", [above, below], above.type)
    number = ctx.emit_one("where", [inside, number, ctx.operand(-1.0, number.type)], number.type)
    bins = ctx.emit_one("iota", [], TensorType(number.dtype, (a.bins,)), {"start": 0.0, "step": 1.0})
    pairs = (a.bins, count)
    sides = [ctx.expand(ctx.reshape(bins, (a.bins, 1)), pairs), ctx.expand(number, pairs)]
    hits = ctx.cast(ctx.emit_one("eq", sides, TensorType("i1", pairs)), "f32")
    return ctx.cast(ctx.reduce("sum", hits, [1], False), type.dtype)
