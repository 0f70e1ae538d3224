# SPDX-License-Identifier: Apache-2.0
"""ATen's diagonals: views by slices, and writes of one as a select."""

from __future__ import annotations

import torch

from straightline.capture.builder import Dim, TensorType
from straightline.capture.graph_builder import FLOATS, Reject, Tensor, wrap
from straightline.capture.torch.importer import Arguments, Importer, converter


def _matrices(ctx: Importer, a: Arguments) -> tuple[Tensor, list[int], int, int]:
    """The tensor with the two dims of the diagonal last, the order of dims that gives it, and the sizes of both."""
    x = a.self
    last = [wrap(a.dim1, x.rank), wrap(a.dim2, x.rank)]
    order = [*(d for d in range(x.rank) if d not in last), *last]
    height, width = (x.extents[d] for d in last)
    if not isinstance(height, int) or not isinstance(width, int):
        raise Reject(f"a diagonal of {height} by {width}", "static sizes")
    return ctx.permute(x, order), order, height, width


def _length(offset: int, height: int, width: int) -> int:
    return max(min(height + min(offset, 0), width - max(offset, 0)), 0)


@converter("aten.diagonal.default", "aten.diagonal_copy.default")
def _diagonal(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    """Rows that have an element of the diagonal, one after the other: each such element is a row and one element apart."""
    x, _, height, width = _matrices(ctx, a)
    length, outer = _length(a.offset, height, width), x.extents[:-2]
    first = max(-a.offset, 0) if length else 0
    rows = ctx.slice(x, x.rank - 2, first, first + length, length)
    flat = ctx.reshape(rows, (*outer, length * width))
    if not length:
        return flat
    column = max(a.offset, 0)
    end = column + (length - 1) * (width + 1) + 1
    return ctx.slice(flat, x.rank - 2, column, end, length, width + 1)


def _numbers(ctx: Importer, start: int, dim: int, extents: tuple[Dim, ...]) -> Tensor:
    """`start` and the numbers that follow, along one dim."""
    count = extents[dim]
    sides = tuple(e if d == dim else 1 for d, e in enumerate(extents))
    numbers = ctx.emit_one("iota", [], TensorType("i64", (count,)), {"start": start, "step": 1})
    return ctx.expand(ctx.reshape(numbers, sides), extents)


@converter("aten.diagonal_scatter.default")
def _diagonal_scatter(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    x, order, height, width = _matrices(ctx, a)
    length = _length(a.offset, height, width)
    if not length:
        return ctx.emit_one("clone", [a.self], a.self.type)
    source, first = ctx.cast(a.src, x.dtype), max(-a.offset, 0)
    if length < height:  # an element for each row
        type = TensorType(x.dtype, (*x.extents[:-2], height))
        pads = [first, height - first - length]
        zero: float | int = 0.0 if x.dtype in FLOATS else 0
        source = ctx.emit_one("constant_pad_nd", [source], type, {"pad": pads, "value": zero})
    values = ctx.expand(ctx.reshape(source, (*x.extents[:-1], 1)), x.extents)
    plane = (height, width)
    sides = [_numbers(ctx, a.offset, 0, plane), _numbers(ctx, 0, 1, plane)]
    chosen = ctx.emit_one("eq", sides, TensorType("i1", plane))
    written = ctx.emit_one("where", [ctx.expand(chosen, x.extents), values, x], x.type)
    return ctx.permute(written, [order.index(d) for d in range(x.rank)])
