# SPDX-License-Identifier: Apache-2.0
"""ATen ops that count or read at places which other tensors say: grid_sampler_2d, histc."""

from __future__ import annotations

import math
from typing import Any

import torch

from straightline.capture.builder import Dim, TensorType
from straightline.capture.graph_builder import FLOATS, Reject, Tensor, known
from straightline.capture.torch.importer import Arguments, Importer, converter

_BILINEAR, _NEAREST, _BICUBIC = 0, 1, 2
_ZEROS, _BORDER, _REFLECTION = 0, 1, 2


def _of(ctx: Importer, op: str, x: Tensor, y: Any, dtype: str = "") -> Tensor:
    """A binary op of a tensor with one of its type or a number."""
    return ctx.emit_one(op, [x, ctx.operand(y, x.type)], TensorType(dtype or x.dtype, x.extents))


def _apply(ctx: Importer, op: str, x: Tensor) -> Tensor:
    return ctx.emit_one(op, [x], x.type)


def _clamped(ctx: Importer, x: Tensor, last: int) -> Tensor:
    return ctx.emit_one("clamp", [x], x.type, {"min": 0.0, "max": float(last)})


def _reflected(ctx: Importer, x: Tensor, size: int, align: bool) -> Tensor:
    """Coordinates beyond the borders, or the middles of the outermost elements, mirrored there."""
    low, span = (0.0, float(size - 1)) if align else (-0.5, float(size))
    if span == 0:
        return ctx.operand(0.0, x.type)
    away = _apply(ctx, "abs", _of(ctx, "sub", x, low))
    over = _of(ctx, "fmod", away, span)
    flips = _apply(ctx, "floor", _of(ctx, "div", away, span))
    even = _of(ctx, "eq", _of(ctx, "fmod", flips, 2.0), 0.0, "i1")
    back = _of(ctx, "sub", ctx.operand(span, x.type), over)
    return _of(ctx, "add", ctx.emit_one("where", [even, over, back], x.type), low)


def _coordinates(ctx: Importer, grid: Tensor, axis: int, size: int, padding: int, align: bool) -> Tensor:
    """Returns the position of each result along one dim of the image, [n, results]."""
    g = ctx.select(grid, 3, axis)
    g = ctx.reshape(g, (g.extents[0], g.extents[1] * g.extents[2]))
    up = _of(ctx, "add", g, 1.0)
    if align:
        at = _of(ctx, "mul", _of(ctx, "div", up, 2.0), float(size - 1))
    else:
        at = _of(ctx, "div", _of(ctx, "sub", _of(ctx, "mul", up, float(size)), 1.0), 2.0)
    if padding == _REFLECTION:
        at = _reflected(ctx, at, size, align)
    return at if padding == _ZEROS else _clamped(ctx, at, size - 1)


def _inside(ctx: Importer, at: Tensor, size: int) -> Tensor:
    above, below = _of(ctx, "ge", at, 0.0, "i1"), _of(ctx, "le", at, float(size - 1), "i1")
    return ctx.emit_one("logical_and", [above, below], above.type)


def _read(ctx: Importer, x: Tensor, y: Tensor, columns: Tensor, sizes: tuple[int, int], zeros: bool) -> Tensor:
    """The elements of x [n, c, h * w] at whole coordinates [n, results], 0 outside."""
    h, w = sizes
    safe = []
    for at, size in ((y, h), (columns, w)):
        number = _of(ctx, "eq", at, at, "i1")  # what is none is read at 0
        kept = ctx.emit_one("where", [number, at, ctx.operand(0.0, at.type)], at.type)
        safe.append(ctx.cast(_clamped(ctx, kept, size - 1), "i64"))
    flat = _of(ctx, "add", _of(ctx, "mul", safe[0], w), safe[1])
    type = TensorType(x.dtype, (*x.extents[:2], y.extents[1]))
    wide = ctx.expand(ctx.reshape(flat, (y.extents[0], 1, y.extents[1])), type.extents)
    values = ctx.emit_one("gather", [x, wide], type, {"dim": 2})
    if not zeros:
        return values
    inside = ctx.emit_one("logical_and", [_inside(ctx, y, h), _inside(ctx, columns, w)], TensorType("i1", y.extents))
    inside = ctx.expand(ctx.reshape(inside, (y.extents[0], 1, y.extents[1])), type.extents)
    return ctx.emit_one("where", [inside, values, ctx.operand(0, type)], type)


@converter("aten.grid_sampler_2d.default")
def _grid_sampler(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    type = ctx.result_type(node)
    if type.dtype not in FLOATS:
        raise Reject(f"grid_sampler_2d of {type.dtype}", "floats")
    if not ctx.target.supports("gathers_samples") and a.interpolation_mode != _NEAREST:
        name, passes = ("bilinear", 4) if a.interpolation_mode == _BILINEAR else ("bicubic", 16)
        raise Reject(f"{name} grid_sampler_2d, which torch does in one pass and native kernels in {passes}", "nearest")
    return _sampled(ctx, a.input, a.grid, type, a.interpolation_mode, a.padding_mode, bool(a.align_corners))


@converter("aten.cudnn_grid_sampler.default")
def _cudnn_grid_sampler(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    """Converts the op that torch's grid_sample becomes on a device where cuDNN has a kernel for it."""
    return _sampled(ctx, a.self, a.grid, ctx.result_type(node), _BILINEAR, _ZEROS, True)


def _sampled(ctx: Importer, x: Tensor, grid: Tensor, type: TensorType, mode: int, padding: int, align: bool) -> Tensor:
    n, c, *image = x.extents
    h, w = _image(image)
    compute = "f64" if x.dtype == "f64" else "f32"
    grid = ctx.cast(grid, compute)
    # Cubic ones are bounded one by one, beside the place between them.
    bounded = _ZEROS if mode == _BICUBIC else padding
    across, down = (_coordinates(ctx, grid, axis, size, bounded, align) for axis, size in ((0, w), (1, h)))
    flat = ctx.reshape(x, (n, c, h * w))
    zeros = padding == _ZEROS
    if mode == _BICUBIC:
        total = _cubic(ctx, flat, (across, down), (h, w), padding, align)
        return ctx.reshape(ctx.cast(total, type.dtype), type.extents)
    if mode == _NEAREST:
        values = _read(ctx, flat, _apply(ctx, "round", down), _apply(ctx, "round", across), (h, w), zeros)
        return ctx.reshape(values, type.extents)
    left, top = _apply(ctx, "floor", across), _apply(ctx, "floor", down)
    total = None
    for below in (0, 1):
        row = _of(ctx, "add", top, float(below))
        for beside in (0, 1):
            column = _of(ctx, "add", left, float(beside))
            values = ctx.cast(_read(ctx, flat, row, column, (h, w), zeros), compute)
            weight = _of(ctx, "mul", _share(ctx, down, top, below), _share(ctx, across, left, beside))
            weight = ctx.expand(ctx.reshape(weight, (weight.extents[0], 1, weight.extents[1])), values.extents)
            term = _of(ctx, "mul", values, weight)
            total = term if total is None else _of(ctx, "add", total, term)
    assert total is not None
    return ctx.reshape(ctx.cast(total, type.dtype), type.extents)


def _cubic_weights(ctx: Importer, beyond: Tensor) -> list[Tensor]:
    """Returns the weights of the four neighbours of a place that lies `beyond`, in [0, 1), after the second one."""
    a = -0.75
    before = _of(ctx, "sub", ctx.operand(1.0, beyond.type), beyond)

    def polynomial(x: Tensor, *factors: float) -> Tensor:
        total = _of(ctx, "mul", x, factors[0])
        for factor in factors[1:-1]:
            total = _of(ctx, "mul", _of(ctx, "add", total, factor), x)
        return _of(ctx, "add", total, factors[-1])

    near, far = (a + 2, -(a + 3), 0.0, 1.0), (a, -5 * a, 8 * a, -4 * a)
    return [
        polynomial(_of(ctx, "add", beyond, 1.0), *far), polynomial(beyond, *near), polynomial(before, *near),
        polynomial(_of(ctx, "add", before, 1.0), *far),
    ]  # fmt: skip


def _cubic(
    ctx: Importer, x: Tensor, at: tuple[Tensor, Tensor], sizes: tuple[int, int], padding: int, align: bool
) -> Tensor:
    """Weighted sums of 4 x 4 neighbours of x [n, c, h * w] at (across, down)."""
    (h, w), compute = sizes, at[0].dtype
    neighbours, weights = [], []
    for place, size in zip(at, (w, h), strict=True):
        first = _apply(ctx, "floor", place)
        beside = [_of(ctx, "add", first, float(step)) for step in (-1, 0, 1, 2)]
        if padding == _REFLECTION:
            beside = [_reflected(ctx, one, size, align) for one in beside]
        neighbours.append(beside if padding == _ZEROS else [_clamped(ctx, one, size - 1) for one in beside])
        weights.append(_cubic_weights(ctx, _of(ctx, "sub", place, first)))
    total = None
    for row, below in zip(neighbours[1], weights[1], strict=True):
        for column, beside_it in zip(neighbours[0], weights[0], strict=True):
            values = ctx.cast(_read(ctx, x, row, column, (h, w), padding == _ZEROS), compute)
            weight = _of(ctx, "mul", below, beside_it)
            weight = ctx.expand(ctx.reshape(weight, (weight.extents[0], 1, weight.extents[1])), values.extents)
            term = _of(ctx, "mul", values, weight)
            total = term if total is None else _of(ctx, "add", total, term)
    assert total is not None
    return total


def _share(ctx: Importer, at: Tensor, first: Tensor, which: int) -> Tensor:
    """Returns the weight, for linear interpolation at `at`, of neighbour `first` (`which` 0) or of the next one (1)."""
    beyond = _of(ctx, "sub", at, first)
    return beyond if which else _of(ctx, "sub", ctx.operand(1.0, at.type), beyond)


def _image(extents: list[Dim]) -> tuple[int, int]:
    h, w = extents
    if not isinstance(h, int) or not isinstance(w, int) or h * w == 0:
        raise Reject(f"grid_sampler_2d of an image of {h} x {w}", "static sizes of at least 1")
    return h, w


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
