# SPDX-License-Identifier: Apache-2.0
"""ONNX ops over images and volumes: pools, resizing, sampling."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np

from straightline.capture.builder import Dim, TensorType
from straightline.capture.extents import product_of
from straightline.capture.graph_builder import FLOATS, SLICE_END, Reject, Tensor, known
from straightline.capture.onnx.importer import Importer, Node, converter, shape_text
from straightline.capture.onnx.linear import padding, windows
from straightline.capture.onnx.shape import gathered
from straightline.capture.patches import columns_to_image
from straightline.capture.resampling import nearest, resampled, resampling_of, spread

#: Up to this denominator a scale of a named size is a fraction of whole numbers.
_MOST_DENOMINATOR = 64
_BY_MIDDLES = ("half_pixel", "pytorch_half_pixel")


def _counts(sizes: Sequence[Dim], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int],
            pads: Sequence[tuple[int, int]], ceil: bool) -> list[Dim]:  # fmt: skip
    """Windows along each dim; with `ceil` also those that end outside, but that begin within the image or its first pad."""
    found: list[Dim] = []
    for size, k, stride, dilation, (before, after) in zip(sizes, kernel, strides, dilations, pads):
        span = size + before + after - ((k - 1) * dilation + 1)
        count = span // stride + 1
        if ceil and isinstance(size, int):
            count = -(-int(span) // stride) + 1
            if (count - 1) * stride >= size + before:
                count -= 1
        elif ceil:
            count = (span - after + _behind(k, stride, dilation, after, ceil)) // stride + 1
        found.append(count)
    return found


def _behind(kernel: int, stride: int, dilation: int, after: int, ceil: bool) -> int:
    """The pad behind an image with which the windows that end in it are those that `ceil` counts."""
    return min(after + stride - 1, (kernel - 1) * dilation) if ceil else after


def _wide_pads(x: Tensor, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int],
               pads: Sequence[tuple[int, int]], ceil: bool) -> list[tuple[int, int]] | None:  # fmt: skip
    """Pads in front of a pool of one or two dims without any; None where slices make it."""
    if len(kernel) > 2 or x.dtype not in FLOATS or all(isinstance(e, int) for e in x.extents[2:]):
        return None
    return [
        (before, _behind(k, s, d, after, ceil)) for (before, after), k, s, d in zip(pads, kernel, strides, dilations)
    ]


def _pool_of(
    ctx: Importer,
    op: str,
    x: Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    counts: Sequence[Dim],
    more: dict[str, Any],
) -> Tensor:
    """A pool without pads over one or two dims."""
    attributes = {
        "kernel_size": _as_2d(kernel, 1), "stride": _as_2d(strides, 1), "padding": [0, 0], "ceil_mode": False, **more,
    }  # fmt: skip
    extents = (*x.extents[:2], *counts)
    image = x if len(kernel) == 2 else ctx.reshape(x, (*x.extents[:2], 1, x.extents[2]))
    shape = extents if len(kernel) == 2 else (*x.extents[:2], 1, counts[0])
    return ctx.reshape(ctx.emit_one(op, [image], TensorType(x.dtype, shape), attributes), extents)


def _parts(ctx: Importer, x: Tensor, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int],
           pads: Sequence[tuple[int, int]], counts: Sequence[Dim], filler: float) -> list[Tensor]:  # fmt: skip
    """The elements that each place of the kernel sees, as tensors with the result's shape."""
    rank = len(kernel)
    lead = x.rank - rank
    reach = [
        (
            max(before, 0),
            max(_end(n, s, k, d) - before - _static(e), 0)
            if isinstance(n, int) and isinstance(e, int)
            else max(after, 0),
        )
        for (before, after), n, s, k, d, e in zip(pads, counts, strides, kernel, dilations, x.extents[lead:])
    ]
    wide = ctx.padded(x, reach, filler)
    found = []
    for place in itertools.product(*(range(k) for k in kernel)):
        part = wide
        for i, offset in enumerate(place):
            start, count, step = offset * dilations[i], counts[i], strides[i]
            if isinstance(count, int):
                part = ctx.slice(part, lead + i, start, start + (count - 1) * step + 1, count, step)
            else:
                left = (kernel[i] - 1) * dilations[i] - start  # elements behind the last window's
                count = (part.extents[lead + i] - left - start + step - 1) // step  # the same number, as a slice has it
                part = ctx.slice(part, lead + i, start, -left if left else SLICE_END, count, step)
        found.append(part)
    return found


def _static(e: Dim) -> int:
    return e if isinstance(e, int) else 0


def _end(count: int, stride: int, kernel: int, dilation: int) -> int:
    return (count - 1) * stride + (kernel - 1) * dilation + 1


def _setting(
    ctx: Importer, node: Node, x: Tensor
) -> tuple[list[int], list[int], list[int], list[tuple[int, int]], list[Dim]]:
    kernel = node.attribute("kernel_shape")
    strides, dilations = windows(node, len(kernel), kernel)
    pads = padding(node, x.extents[2:], kernel, strides, dilations)
    counts = _counts(x.extents[2:], kernel, strides, dilations, pads, _counts_ceil(node))
    ctx.need_places(counts, "a pool")
    return kernel, strides, dilations, pads, counts


def _counts_ceil(node: Node) -> bool:
    return bool(node.attribute("ceil_mode", 0)) and node.attribute("auto_pad", "NOTSET") in ("NOTSET", "")


def _as_2d(values: Sequence[int], fill: int) -> list[int]:
    return [*([fill] * (2 - len(values))), *values]


def _least(dtype: str) -> float:
    if dtype in FLOATS:
        return -math.inf
    return _whole_bounds(dtype)[0]


def _whole_bounds(dtype: str) -> tuple[int, int]:
    bits = int(dtype.lstrip("ui"))
    return (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


@converter("MaxPool")
def _max_pool(ctx: Importer, node: Node) -> list[Tensor]:
    x = ctx.tensor(node.inputs[0])
    kernel, strides, dilations, pads, counts = _setting(ctx, node, x)
    type = TensorType(x.dtype, (*x.extents[:2], *counts))
    if node.reads(1):
        return _largest_and_places(ctx, x, node, type)
    plain = all(a == b and 2 * a <= k for (a, b), k in zip(pads, kernel)) and len(kernel) <= 2
    exact = counts == _counts(x.extents[2:], kernel, strides, dilations, pads, False)
    if plain and exact and x.dtype in FLOATS:
        attributes = {
            "kernel_size": _as_2d(kernel, 1), "stride": _as_2d(strides, 1), "padding": _as_2d([a for a, _ in pads], 0),
            "dilation": _as_2d(dilations, 1), "ceil_mode": False,
        }  # fmt: skip
        image = x if len(kernel) == 2 else ctx.reshape(x, (*x.extents[:2], 1, x.extents[2]))
        shape = type.extents if len(kernel) == 2 else (*x.extents[:2], 1, counts[0])
        return [ctx.reshape(ctx.emit_one("max_pool2d", [image], TensorType(x.dtype, shape), attributes), type.extents)]
    ceil = _counts_ceil(node)
    wide = _wide_pads(x, kernel, strides, dilations, pads, ceil)
    if wide is not None:
        image = ctx.padded(x, wide, -math.inf)
        return [_pool_of(ctx, "max_pool2d", image, kernel, strides, counts, {"dilation": _as_2d(dilations, 1)})]
    if ceil and not all(isinstance(e, int) for e in x.extents[2:]):
        raise Reject("ceil_mode of a named size over whole numbers or volumes", "floats of one or two dims")
    return [
        reduce(
            lambda a, b: ctx.binary("maximum", a, b),
            _parts(ctx, x, kernel, strides, dilations, pads, counts, _least(x.dtype)),
        )
    ]


def _largest_and_places(ctx: Importer, x: Tensor, node: Node, type: TensorType) -> list[Tensor]:
    """A max pool with the number of each largest element within the whole tensor."""
    kernel, strides, dilations, pads, counts = _setting(ctx, node, x)
    total = known(product_of(x.extents))
    shape = [known(e) for e in x.extents]
    numbers = np.arange(total, dtype=np.int64).reshape(shape)
    if node.attribute("storage_order", 0):  # columns first within an image
        inner = [np.arange(s) for s in shape[2:]]
        grid = np.meshgrid(*inner, indexing="ij")
        flat, step = np.zeros(shape[2:], dtype=np.int64), 1
        for place, size in zip(grid, shape[2:]):
            flat, step = flat + place * step, step * size
        lead = np.arange(shape[0] * shape[1], dtype=np.int64).reshape(shape[0], shape[1], *([1] * len(inner))) * step
        numbers = lead + flat
    places = _parts(ctx, ctx.literal(numbers), kernel, strides, dilations, pads, counts, -1)
    values = _parts(ctx, x, kernel, strides, dilations, pads, counts, _least(x.dtype))
    best, where = values[0], places[0]
    for value, place in zip(values[1:], places[1:]):
        # An element in the padding is as small as one can be, but none of the image's.
        inside = ctx.compare("ge", place, 0)
        larger = ctx.emit_one(
            "logical_or", [ctx.compare("gt", value, best), ctx.compare("lt", where, 0)], TensorType("i1", type.extents)
        )
        taken = ctx.emit_one("logical_and", [larger, inside], TensorType("i1", type.extents))
        best, where = ctx.where(taken, value, best), ctx.where(taken, place, where)
    return [best, where]


@converter("AveragePool")
def _average_pool(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    kernel, strides, dilations, pads, counts = _setting(ctx, node, x)
    include = bool(node.attribute("count_include_pad", 0))
    plain = all(a == b and 2 * a <= k for (a, b), k in zip(pads, kernel)) and len(kernel) <= 2
    exact = counts == _counts(x.extents[2:], kernel, strides, dilations, pads, False)
    extents = (*x.extents[:2], *counts)
    if plain and exact and all(d == 1 for d in dilations):
        attributes = {
            "kernel_size": _as_2d(kernel, 1), "stride": _as_2d(strides, 1), "padding": _as_2d([a for a, _ in pads], 0),
            "ceil_mode": False, "count_include_pad": include,
        }  # fmt: skip
        image = x if len(kernel) == 2 else ctx.reshape(x, (*x.extents[:2], 1, x.extents[2]))
        shape = extents if len(kernel) == 2 else (*x.extents[:2], 1, counts[0])
        return ctx.reshape(ctx.emit_one("avg_pool2d", [image], TensorType(x.dtype, shape), attributes), extents)

    ceil = _counts_ceil(node)
    wide = _wide_pads(x, kernel, strides, dilations, pads, ceil)
    if wide is not None and all(d == 1 for d in dilations):
        return ctx.wide(x, lambda t: _named_average(ctx, t, kernel, strides, counts, pads, wide, include))

    def computed(t: Tensor) -> Tensor:
        total = reduce(
            lambda a, b: ctx.binary("add", a, b), _parts(ctx, t, kernel, strides, dilations, pads, counts, 0.0)
        )
        how_many = np.ones(1, np.float32)
        for size, n, k, s, d, (before, after) in zip(x.extents[2:], counts, kernel, strides, dilations, pads):
            first, last = (-before, known(size) + after) if include else (0, known(size))
            taps = np.arange(known(n))[:, None] * s - before + np.arange(k) * d
            along = ((taps >= first) & (taps < last)).sum(1).astype(np.float32)
            how_many = how_many[..., None] * along
        return ctx.binary("div", total, ctx.literal(how_many.reshape([known(n) for n in counts]), t.dtype))

    return ctx.wide(x, computed)


def _named_average(ctx: Importer, x: Tensor, kernel: Sequence[int], strides: Sequence[int], counts: Sequence[Dim],
                   pads: Sequence[tuple[int, int]], wide: Sequence[tuple[int, int]], include: bool) -> Tensor:  # fmt: skip
    """Sums of windows over the sums of an image of ones, whose pads count with `include`."""
    sums = {"count_include_pad": True, "divisor_override": 1}
    total = _pool_of(ctx, "avg_pool2d", ctx.padded(x, wide), kernel, strides, counts, sums)
    counted = [pair if include else (0, 0) for pair in pads]
    ones = ctx.full(1, x.dtype, (1, 1, *(e + a + b for e, (a, b) in zip(x.extents[2:], counted))))
    beyond = [(a - c, b - d) for (a, b), (c, d) in zip(wide, counted)]
    many = _pool_of(ctx, "avg_pool2d", ctx.padded(ones, beyond), kernel, strides, counts, sums)
    return ctx.binary("div", total, many)


def _floats(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    if x.dtype not in FLOATS:
        raise Reject(f"a pool of powers of {x.dtype}", "floats")
    return x


@converter("LpPool")
def _lp_pool(ctx: Importer, node: Node) -> Tensor:
    x, p = _floats(ctx, node), float(node.attribute("p", 2))
    kernel, strides, dilations, pads, counts = _setting(ctx, node, x)

    def computed(t: Tensor) -> Tensor:
        powers = ctx.binary("pow", ctx.unary("abs", t), p)
        total = reduce(
            lambda a, b: ctx.binary("add", a, b), _parts(ctx, powers, kernel, strides, dilations, pads, counts, 0.0)
        )
        return ctx.binary("pow", total, 1 / p)

    return ctx.wide(x, computed)


@converter("GlobalAveragePool", "GlobalMaxPool")
def _global_pool(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    return ctx.reduce("mean" if "Average" in node.kind else "amax", x, list(range(2, x.rank)), True)


@converter("GlobalLpPool")
def _global_lp_pool(ctx: Importer, node: Node) -> Tensor:
    x, p = _floats(ctx, node), float(node.attribute("p", 2))
    powers = ctx.binary("pow", ctx.unary("abs", x), p)
    return ctx.binary("pow", ctx.reduce("sum", powers, list(range(2, x.rank)), True), 1 / p)


@converter("MaxUnpool")
def _max_unpool(ctx: Importer, node: Node) -> Tensor:
    x, index = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1], "i64")
    kernel = node.attribute("kernel_shape")
    rank = len(kernel)
    strides, pads = node.attribute("strides") or [1] * rank, node.attribute("pads") or [0] * (2 * rank)
    inner = [(e - 1) * s - a - b + k for e, s, a, b, k in zip(x.extents[2:], strides, pads[:rank], pads[rank:], kernel)]
    shape = (*x.extents[:2], *inner)
    wanted = tuple(ctx.sizes(node.inputs[2], "the output_shape of MaxUnpool")) if node.input(2) is not None else shape
    total, count = known(product_of(wanted)), product_of(x.extents)
    if wanted != shape:  # places are of the smaller tensor
        numbers = np.arange(known(product_of(shape))).reshape([known(e) for e in shape])
        grid = np.unravel_index(numbers.reshape(-1), numbers.shape)
        places = np.ravel_multi_index(grid, [known(e) for e in wanted])
        index = gathered(ctx, ctx.literal(places.astype(np.int64)), index, 0)
    zeros = ctx.full(0, x.dtype, (total,))
    put = [zeros, ctx.reshape(index, (count,)), ctx.reshape(x, (count,))]
    return ctx.reshape(ctx.emit_one("scatter", put, zeros.type, {"dim": 0, "reduce": "none"}), wanted)


# Resizing -------------------------------------------------------------------------------------------------------------


def _cubic(t: np.ndarray, a: float) -> np.ndarray:
    t = np.abs(t)
    near = (a + 2) * t**3 - (a + 3) * t**2 + 1
    far = a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a
    return np.where(t <= 1, near, np.where(t < 2, far, 0.0))


def _coordinates(node: Node, dim: _Resized) -> np.ndarray:
    """The places of x that the elements of the result come from."""
    size, count, scale = known(dim.size), known(dim.count), dim.scale
    assert scale is not None
    mode = node.attribute("coordinate_transformation_mode", "half_pixel")
    j = np.arange(count, dtype=np.float64)
    if mode == "asymmetric":
        return j / scale
    if mode == "align_corners":
        length = size * scale  # not rounded
        return j * 0 if length == 1 else j * (size - 1) / (length - 1)
    if mode == "tf_crop_and_resize":
        start, end = dim.roi
        if count == 1:
            return j * 0 + 0.5 * (start + end) * (size - 1)
        return start * (size - 1) + j * (end - start) * (size - 1) / (count - 1)
    if mode == "pytorch_half_pixel" and count == 1:
        return j * 0
    if mode == "half_pixel_symmetric":
        adjusted = count / (scale * size)
        centre = size / 2
        return centre * (1 - adjusted) + (j + 0.5) / scale - 0.5
    if mode not in ("half_pixel", "pytorch_half_pixel"):
        raise Reject(f"coordinates by {mode}", "half_pixel")
    return (j + 0.5) / scale - 0.5


def _nearest_places(node: Node, dim: _Resized) -> np.ndarray:
    """The place of the one element of a dim that each of the result's is."""
    how = node.attribute("nearest_mode", "round_prefer_floor")
    rounded = {
        "round_prefer_floor": lambda t: np.ceil(t - 0.5), "round_prefer_ceil": lambda t: np.floor(t + 0.5),
        "floor": np.floor, "ceil": np.ceil,
    }[how](_coordinates(node, dim))  # fmt: skip
    return np.clip(rounded, 0, known(dim.size) - 1).astype(np.int64)


def _matrix(node: Node, dim: _Resized) -> np.ndarray:
    """The weights of a dim's elements for each of the result's, [count, size]."""
    places = _coordinates(node, dim)
    size, count, scale = known(dim.size), known(dim.count), dim.scale
    assert scale is not None
    mode = node.attribute("mode", "nearest")
    matrix = np.zeros((count, size))
    shrink = scale if node.attribute("antialias", 0) and scale < 1 else 1.0
    reach = 1 if mode == "linear" else 2
    half = math.ceil(reach / shrink)
    a, exclude = float(node.attribute("cubic_coeff_a", -0.75)), node.attribute("exclude_outside", 0)
    base = np.floor(places).astype(int)
    taps = base[:, None] + np.arange(-half + 1, half + 1)
    distance = (taps - places[:, None]) * shrink
    weights = np.maximum(1 - np.abs(distance), 0) if mode == "linear" else _cubic(distance, a)
    if exclude:
        weights = np.where((taps >= 0) & (taps < size), weights, 0.0)
    weights = weights / weights.sum(1, keepdims=True)
    np.add.at(matrix, (np.arange(count)[:, None].repeat(taps.shape[1], 1), np.clip(taps, 0, size - 1)), weights)
    return matrix


@dataclass(frozen=True)
class _Resized:
    """A dim that is resized."""

    size: Dim
    count: Dim
    #: None: as the sizes, which are named ones, say.
    scale: float | None
    #: Where in the dim the result begins and ends, of 0 to 1.
    roi: tuple[float, float] = (0.0, 1.0)

    @property
    def is_static(self) -> bool:
        """Whether both sizes are numbers."""
        return isinstance(self.size, int) and isinstance(self.count, int)

    def stays(self) -> bool:
        """Whether the result is the dim itself, if all of it is resized."""
        return self.size == self.count and self.scale in (None, 1)


@converter("Resize")
def _resize(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    axes = node.attribute("axes") or list(range(x.rank))
    axes = [a + x.rank if a < 0 else a for a in axes]
    dims = _resized_dims(ctx, node, x, axes)
    is_cut = node.attribute("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
    if is_cut:
        roi = [float(n) for n in ctx.known(node.input(1), "the roi of Resize").array.reshape(-1)]
        dims = {a: replace(d, roi=(roi[i], roi[i + len(axes)])) for i, (a, d) in enumerate(dims.items())}
    dims = {a: d for a, d in dims.items() if not d.stays() or is_cut and d.roi != (0.0, 1.0)}
    if empty := [a for a, d in dims.items() if d.size == 0]:
        raise Reject(
            f"dim {empty[0]} of {shape_text(x.extents)}, which has no elements, resized", "one element or more"
        )
    sizes = tuple(dims[i].count if i in dims else size for i, size in enumerate(x.extents))
    if any(isinstance(size, int) and size < 1 for size in sizes):
        return ctx.full(0, x.dtype, sizes)  # without elements; sizes below 0 are refused
    if node.attribute("mode", "nearest") == "nearest":
        return _without_outside(ctx, node, _nearest(ctx, node, x, dims), dims)
    wide = x if x.dtype == "f64" else ctx.cast(x, "f32")
    by = {a: resampling_of(_matrix(node, d).T) for a, d in dims.items() if d.is_static}
    found = resampled(ctx, wide, by)
    for axis, dim in dims.items():
        if not dim.is_static:
            found = _mixed(ctx, found, axis, _named_taps(ctx, node, dim), dim.count)
    found = _without_outside(ctx, node, found, dims)
    if x.dtype in FLOATS:
        return ctx.cast(found, x.dtype)
    low, high = _whole_bounds(x.dtype)  # cubic weights reach beyond
    return ctx.cast(ctx.unary("clamp", ctx.unary("round", found), min=float(low), max=float(high)), x.dtype)


def _nearest(ctx: Importer, node: Node, x: Tensor, dims: Mapping[int, _Resized]) -> Tensor:
    found = nearest(ctx, x, {a: _nearest_places(node, d) for a, d in dims.items() if d.is_static})
    named = {a: d for a, d in dims.items() if not d.is_static}
    repeated = {a: int(d.scale) for a, d in named.items() if d.scale is not None and _repeats(node, d.scale)}
    found = spread(ctx, found, repeated)
    for axis, dim in named.items():
        if axis not in repeated:
            found = _mixed(ctx, found, axis, [(_named_nearest(ctx, node, dim), None)], dim.count)
    return found


def _without_outside(ctx: Importer, node: Node, x: Tensor, dims: Mapping[int, _Resized]) -> Tensor:
    """The result with a number where its elements come from outside of the image."""
    if node.attribute("coordinate_transformation_mode", "half_pixel") != "tf_crop_and_resize":
        return x
    for axis, dim in dims.items():
        places = _coordinates(node, dim)
        outside = (places < 0) | (places > known(dim.size) - 1)
        if outside.any():
            mask = ctx.literal(outside.reshape([-1 if d == axis else 1 for d in range(x.rank)]))
            x = ctx.where(mask, ctx.full(float(node.attribute("extrapolation_value", 0.0)), x.dtype), x)
    return x


def _resized_dims(ctx: Importer, node: Node, x: Tensor, axes: Sequence[int]) -> dict[int, _Resized]:
    own = [x.extents[a] for a in axes]
    given = node.input(3)
    if given is not None:
        sizes = ctx.sizes(given, "the sizes of Resize")
        policy = node.attribute("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            ratios = [known(n) / known(e) for n, e in zip(sizes, own)]
            scale = min(ratios) if policy == "not_larger" else max(ratios)
            return {a: _Resized(e, math.floor(scale * known(e) + 0.5), scale) for a, e in zip(axes, own)}
        return {a: _Resized(e, n, _ratio(e, n)) for a, e, n in zip(axes, own, sizes)}
    scales = [float(s) for s in ctx.known(node.input(2), "the scales of Resize").array.reshape(-1)]
    return {a: _Resized(e, _scaled_size(e, s), s) for a, e, s in zip(axes, own, scales)}


def _ratio(size: Dim, count: Dim) -> float | None:
    """The scale between two sizes, if it is a number."""
    if size == count:
        return 1.0
    if isinstance(size, int) and isinstance(count, int):
        return count / size if size else 1.0
    factor = count // size
    return float(factor) if isinstance(factor, int) and factor > 0 and factor * size == count else None


def _scaled_size(size: Dim, scale: float) -> Dim:
    """A size times a scale, rounded down, as a product of float32."""
    if isinstance(size, int):
        return math.floor(np.float32(size) * np.float32(scale))
    share = Fraction(scale).limit_denominator(_MOST_DENOMINATOR)
    if np.float32(share.numerator) / np.float32(share.denominator) != np.float32(scale):
        raise Reject(f"a named size resized by {scale}", f"a scale of a denominator of at most {_MOST_DENOMINATOR}")
    return size * share.numerator // share.denominator


# Named sizes: places and weights are computed by each call, those along a dim of 64 bits.


def _repeats(node: Node, scale: float) -> bool:
    """Whether nearest neighbours by a scale are each element so many times."""
    mode = node.attribute("coordinate_transformation_mode", "half_pixel")
    how = node.attribute("nearest_mode", "round_prefer_floor")
    if scale < 1 or scale != int(scale):
        return False
    # By the middles of elements, every place is less than a half away from the element that it is in.
    return how == "floor" if mode == "asymmetric" else mode in _BY_MIDDLES and how.startswith("round")


def _named_places(ctx: Importer, node: Node, dim: _Resized) -> Tensor:
    """As `_coordinates`, of a dim of which a size has a name."""
    mode = node.attribute("coordinate_transformation_mode", "half_pixel")
    j = ctx.iota(dim.count, "f64")
    size, count = (ctx.scalar(e, "f64") for e in (dim.size, dim.count))
    if mode == "align_corners":
        if dim.scale is not None:
            count = ctx.binary("mul", size, dim.scale)  # not rounded
        gaps = ctx.binary("maximum", ctx.binary("sub", count, 1.0), 1.0)
        return ctx.binary("div", ctx.binary("mul", j, ctx.binary("sub", size, 1.0)), gaps)
    if mode != "asymmetric" and mode not in _BY_MIDDLES:
        raise Reject(f"a named size resized with coordinates by {mode}", "half_pixel, asymmetric or align_corners")
    half = 0.0 if mode == "asymmetric" else 0.5
    middle = ctx.binary("add", j, half)
    if dim.scale is None:
        places = ctx.binary("div", ctx.binary("mul", middle, size), count)
    else:
        places = ctx.binary("div", middle, dim.scale)
    places = ctx.binary("sub", places, half)
    if mode != "pytorch_half_pixel":
        return places
    return ctx.where(ctx.compare("gt", count, 1.0), places, 0.0)


def _named_index(ctx: Importer, place: Tensor, size: Dim) -> Tensor:
    last = ctx.binary("sub", ctx.scalar(size, "i64"), 1)
    return ctx.binary("minimum", ctx.binary("maximum", ctx.cast(place, "i64"), 0), last)


def _named_nearest(ctx: Importer, node: Node, dim: _Resized) -> Tensor:
    places = _named_places(ctx, node, dim)
    how = node.attribute("nearest_mode", "round_prefer_floor")
    if how == "round_prefer_floor":
        places = ctx.unary("ceil", ctx.binary("sub", places, 0.5))
    elif how == "round_prefer_ceil":
        places = ctx.unary("floor", ctx.binary("add", places, 0.5))
    else:
        places = ctx.unary(how, places)
    return _named_index(ctx, places, dim.size)


def _named_taps(ctx: Importer, node: Node, dim: _Resized) -> list[tuple[Tensor, Tensor | None]]:
    """The elements that each one of the result is made of, with their weights."""
    if node.attribute("antialias", 0):
        raise Reject("a named size resized with antialiasing", "static sizes, or antialias 0")
    places = _named_places(ctx, node, dim)
    base = ctx.unary("floor", places)
    t = ctx.binary("sub", places, base)
    if node.attribute("mode", "nearest") == "linear":
        shares = [(0, ctx.binary("sub", ctx.full(1, "f64"), t)), (1, t)]
    else:
        a = float(node.attribute("cubic_coeff_a", -0.75))
        shares = [(tap, _named_cubic(ctx, t, tap, a)) for tap in (-1, 0, 1, 2)]
    taps = [(ctx.binary("add", base, float(tap)), share) for tap, share in shares]
    if node.attribute("exclude_outside", 0):
        last = ctx.binary("sub", ctx.scalar(dim.size, "f64"), 1.0)
        for i, (place, share) in enumerate(taps):
            beyond = [ctx.compare("lt", place, 0.0), ctx.compare("gt", place, last)]
            outside = ctx.emit_one("logical_or", beyond, beyond[0].type)
            taps[i] = place, ctx.where(outside, 0.0, share)
        total = reduce(lambda x, y: ctx.binary("add", x, y), (share for _, share in taps))
        taps = [(place, ctx.binary("div", share, total)) for place, share in taps]
    return [(_named_index(ctx, place, dim.size), share) for place, share in taps]


def _named_cubic(ctx: Importer, t: Tensor, tap: int, a: float) -> Tensor:
    """The weight of the element `tap` places behind the one below, from which the place is t away: Keys's convolution."""
    distance = ctx.unary("abs", ctx.binary("sub", t, float(tap)))
    near = (1.0, 0.0, -(a + 3), a + 2)
    far = (-4 * a, 8 * a, -5 * a, a)
    terms = near if tap in (0, 1) else far
    total: Tensor = ctx.full(terms[3], "f64", t.extents)
    for term in reversed(terms[:3]):
        total = ctx.binary("add", ctx.binary("mul", total, distance), term)
    return total


def _mixed(ctx: Importer, x: Tensor, axis: int, taps: Sequence[tuple[Tensor, Tensor | None]], count: Dim) -> Tensor:
    """Sums of elements of a dim at places that a call computes, times weights; one without a weight is taken as it is."""
    total: Tensor | None = None
    for places, share in taps:
        part = gathered(ctx, x, places, axis)
        if share is not None:
            sides = [count if d == axis else 1 for d in range(x.rank)]
            part = ctx.binary("mul", part, ctx.reshape(ctx.cast(share, x.dtype), sides))
        total = part if total is None else ctx.binary("add", total, part)
    assert total is not None
    return total


@converter("Col2Im")
def _col2im(ctx: Importer, node: Node) -> Tensor:
    """Each column's elements added to the places of the image that its window covers."""
    x = ctx.tensor(node.inputs[0])
    image, block = (
        ctx.numbers(node.inputs[1], "image_shape of Col2Im"),
        ctx.numbers(node.inputs[2], "block_shape of Col2Im"),
    )
    rank = len(image)
    strides, dilations = node.attribute("strides") or [1] * rank, node.attribute("dilations") or [1] * rank
    pads = node.attribute("pads") or [0] * (2 * rank)
    return columns_to_image(ctx, x, image, block, strides, dilations, list(zip(pads[:rank], pads[rank:])))


@converter("RoiAlign")
def _roi_align(ctx: Importer, node: Node) -> Tensor:
    """Means (or largest ones) of bilinear samples at even places of each bin."""
    x, rois, batch = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1]), ctx.tensor(node.inputs[2], "i64")
    oh, ow = node.attribute("output_height", 1), node.attribute("output_width", 1)
    ratio, scale = node.attribute("sampling_ratio", 0), float(node.attribute("spatial_scale", 1.0))
    if ratio <= 0:
        raise Reject("as many samples a bin as each region's size says", "sampling_ratio")
    shift = 0.5 if node.attribute("coordinate_transformation_mode", "half_pixel") == "half_pixel" else 0.0
    corners = [ctx.binary("sub", ctx.binary("mul", ctx.select(rois, 1, i), scale), shift) for i in range(4)]
    h, w = (known(e) for e in x.extents[2:])
    along = []
    for low, high, count, size in ((corners[1], corners[3], oh, h), (corners[0], corners[2], ow, w)):
        span = ctx.binary("sub", high, low)
        span = span if shift else ctx.binary("maximum", span, 1.0)
        steps = np.asarray([p + (i + 0.5) / ratio for p in range(count) for i in range(ratio)], np.float32) / count
        r = rois.extents[0]
        place = ctx.binary("mul", ctx.reshape(span, (r, 1)), ctx.reshape(ctx.literal(steps, x.dtype), (1, len(steps))))
        along.append(_linear_taps(ctx, ctx.binary("add", place, ctx.reshape(low, (r, 1))), size))
    images = ctx.emit_one(
        "index_select", [x, batch], TensorType(x.dtype, (batch.extents[0], *x.extents[1:])), {"dim": 0}
    )
    terms = []
    for (row, row_weight), (column, column_weight) in itertools.product(*along):
        part = _along(ctx, _along(ctx, images, row, 2), column, 3)
        weight = ctx.binary(
            "mul",
            ctx.reshape(row_weight, (*row_weight.extents, 1)),
            ctx.reshape(column_weight, (column_weight.extents[0], 1, column_weight.extents[1])),
        )
        terms.append(ctx.binary("mul", part, ctx.reshape(weight, (weight.extents[0], 1, *weight.extents[1:]))))
    mode = node.attribute("mode", "avg")
    total = reduce(lambda a, b: ctx.binary("maximum" if mode == "max" else "add", a, b), terms)
    r, c = total.extents[:2]
    apart = ctx.reshape(total, (r, c, oh, ratio, ow, ratio))
    return ctx.reduce("amax" if mode == "max" else "mean", apart, [3, 5], False)


def _along(ctx: Importer, x: Tensor, index: Tensor, dim: int) -> Tensor:
    """Entries of a dim at places of its own for each entry of dim 0."""
    count = index.extents[1]
    sides = [1] * x.rank
    wide: list[Dim] = list(sides)
    wide[0], wide[dim] = index.extents[0], count
    extents = [count if d == dim else e for d, e in enumerate(x.extents)]
    spread = ctx.expand(ctx.reshape(index, wide), extents)
    return ctx.emit_one("gather", [x, spread], TensorType(x.dtype, tuple(extents)), {"dim": dim})


def _linear_taps(ctx: Importer, place: Tensor, size: int) -> list[tuple[Tensor, Tensor]]:
    """Two indices and their weights for each place; 0 for places more than 1 outside."""
    inside = ctx.emit_one(
        "logical_and",
        [ctx.compare("ge", place, -1.0), ctx.compare("le", place, float(size))],
        TensorType("i1", place.extents),
    )
    at = ctx.unary("clamp", place, min=0.0, max=float(size - 1))
    low = ctx.unary("floor", at)
    share = ctx.binary("sub", at, low)
    zero = ctx.full(0, place.dtype)
    weights = [ctx.where(inside, w, zero) for w in (ctx.binary("sub", ctx.full(1, place.dtype), share), share)]
    indices = [
        ctx.cast(low, "i64"),
        ctx.cast(ctx.unary("clamp", ctx.binary("add", low, 1.0), min=0.0, max=float(size - 1)), "i64"),
    ]
    return list(zip(indices, weights))


# Sampling -------------------------------------------------------------------------------------------------------------


@converter("GridSample")
def _grid_sample(ctx: Importer, node: Node) -> Tensor:
    x, grid = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1])
    if 0 in x.extents[2:]:
        raise Reject(f"places in images of the shape {shape_text(x.extents)}", "images with elements")
    ctx.same_size(x.extents[0], grid.extents[0])
    grid = ctx.fitted(grid, (x.extents[0], *grid.extents[1:]))
    mode = {
        "linear": "bilinear",
        "cubic": "bicubic",
        "bilinear": "bilinear",
        "bicubic": "bicubic",
        "nearest": "nearest",
    }[node.attribute("mode", "linear")]
    border = {"zeros": "zeros", "border": "border", "reflection": "reflection"}[node.attribute("padding_mode", "zeros")]
    align = bool(node.attribute("align_corners", 0))
    if x.rank == 4:
        attributes = {"interpolation_mode": mode, "padding_mode": border, "align_corners": align}
        type = TensorType(x.dtype, (*x.extents[:2], *grid.extents[1:3]))
        return ctx.emit_one("grid_sampler_2d", [x, ctx.cast(grid, x.dtype)], type, attributes)
    return _sample_volume(ctx, x, ctx.cast(grid, x.dtype), mode, border, align)


def corners(ctx: Importer, at: Sequence[Tensor]) -> Iterator[tuple[list[Tensor], list[Tensor]]]:
    """The whole places around fractional ones, a tensor a dim, and the share that each dim gives them."""
    low = [ctx.unary("floor", t) for t in at]
    share = [ctx.binary("sub", t, f) for t, f in zip(at, low)]
    for corner in itertools.product((0, 1), repeat=len(low)):
        cells = [ctx.binary("add", f, float(o)) if o else f for f, o in zip(low, corner)]
        yield cells, [s if o else ctx.binary("sub", ctx.full(1, s.dtype), s) for s, o in zip(share, corner)]


def _sample_volume(ctx: Importer, x: Tensor, grid: Tensor, mode: str, border: str, align: bool) -> Tensor:
    """Elements of volumes at places, or means of the 8 around."""
    if mode == "bicubic":
        raise Reject("bicubic sampling of volumes", "linear or nearest")
    n, c = x.extents[:2]
    sizes = [known(e) for e in x.extents[2:]]
    places = [ctx.select(grid, 4, 2 - d) for d in range(3)]  # z, y, x
    at = []
    for place, size in zip(places, sizes):
        if align:
            t = ctx.binary("mul", ctx.binary("add", place, 1.0), (size - 1) / 2)
        else:
            t = ctx.binary(
                "div", ctx.binary("sub", ctx.binary("mul", ctx.binary("add", place, 1.0), float(size)), 1.0), 2.0
            )
        at.append(_bordered(ctx, t, size, border, align))
    rest = grid.extents[1:4]
    flat = ctx.reshape(x, (n, c, product_of(sizes)))

    def element(cells: Sequence[Tensor]) -> Tensor:
        inside: Tensor | None = None
        number: Tensor | None = None
        for cell, size in zip(cells, sizes):
            ok = ctx.emit_one(
                "logical_and",
                [ctx.compare("ge", cell, 0), ctx.compare("le", cell, size - 1)],
                TensorType("i1", cell.extents),
            )
            inside = ok if inside is None else ctx.emit_one("logical_and", [inside, ok], ok.type)
            index = ctx.cast(ctx.unary("clamp", cell, min=0.0, max=float(size - 1)), "i64")
            number = index if number is None else ctx.binary("add", ctx.binary("mul", number, size), index)
        assert inside is not None and number is not None
        count = product_of(rest)
        index = ctx.expand(ctx.reshape(number, (n, 1, count)), (n, c, count))
        found = ctx.emit_one("gather", [flat, index], TensorType(x.dtype, (n, c, count)), {"dim": 2})
        found = ctx.reshape(found, (n, c, *rest))
        return ctx.where(ctx.expand(ctx.reshape(inside, (n, 1, *rest)), found.extents), found, ctx.full(0, x.dtype))

    if mode == "nearest":
        return element([ctx.unary("round", t) for t in at])
    total: Tensor | None = None
    for cells, shares in corners(ctx, at):
        weight = reduce(lambda a, b: ctx.binary("mul", a, b), shares)
        term = ctx.binary("mul", element(cells), ctx.reshape(weight, (n, 1, *rest)))
        total = term if total is None else ctx.binary("add", total, term)
    assert total is not None
    return total


def _bordered(ctx: Importer, t: Tensor, size: int, border: str, align: bool) -> Tensor:
    if border == "zeros":
        return t
    if border == "border":
        return ctx.unary("clamp", t, min=0.0, max=float(size - 1))
    low, high = (0.0, float(size - 1)) if align else (-0.5, size - 0.5)
    span = high - low
    if span == 0:
        return ctx.full(0, t.dtype, t.extents)
    away = ctx.binary("fmod", ctx.unary("abs", ctx.binary("sub", t, low)), 2 * span)
    mirrored = ctx.where(ctx.compare("gt", away, span), ctx.binary("sub", ctx.full(2 * span, t.dtype), away), away)
    return ctx.unary("clamp", ctx.binary("add", mirrored, low), min=0.0, max=float(size - 1))
