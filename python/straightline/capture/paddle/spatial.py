# SPDX-License-Identifier: Apache-2.0
"""Paddle's ops over images: pools, windows, shuffles, sampling."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from straightline.capture.builder import Dim, TensorType
from straightline.capture.extents import product_of
from straightline.capture.graph_builder import FLOATS, Reject, Tensor, known
from straightline.capture.paddle.importer import Importer, Node, converter
from straightline.capture.paddle.linear import channels_first, channels_last, product, windows_padding
from straightline.capture.patches import columns_to_image, counts_of, image_to_columns
from straightline.errors import UserError


def _kernel(ctx: Importer, node: Node, rank: int) -> list[int]:
    given = node.input(1)
    sizes = (
        ctx.numbers(given, "a kernel size") if given is not None else [int(k) for k in node.attribute("kernel_size")]
    )
    return sizes * rank if len(sizes) == 1 else sizes


def _borders(
    ctx: Importer, node: Node, x: Tensor, kernel: Sequence[int], strides: Sequence[int]
) -> list[tuple[int, int]]:
    """(before, after) of each dim that windows move over."""
    for what, sizes in (("windows", kernel), ("strides", strides)):
        if min(sizes) < 1:
            raise UserError(f"{ctx.location}: {node.op.short} by {what} of {list(sizes)}: at least 1 is needed")
    pads = windows_padding(node, x.extents[2:], kernel, strides, [1] * len(kernel))
    if any(border < 0 for pair in pads for border in pair):
        raise Reject(f"{node.op.short} with the paddings {pads}", "paddings of 0 or more")
    return pads


def _below(dtype: str) -> float:
    """What Paddle's largest of a window begins with: the result where the window lies in the border alone."""
    return float(np.finfo(np.float32).min) if dtype in ("f32", "f64") else float("-inf")


@converter("pool2d", takes="max and avg, adaptive, global, ceil_mode, exclusive; NCHW and NHWC",
           refuses="ceil_mode with a window that lies in the border alone")  # fmt: skip
def _pool2d(ctx: Importer, node: Node) -> Tensor:
    x, last = channels_first(ctx, node, ctx.tensor(node.inputs[0]))
    if x.rank != 4:
        raise Reject(f"pool2d of rank {x.rank}", "rank 4")
    found = _pooled(ctx, node, x, node.attribute("pooling_type") == "max")
    return channels_last(ctx, found) if last else found


def _pooled(ctx: Importer, node: Node, x: Tensor, largest: bool) -> Tensor:
    kernel = _kernel(ctx, node, 2)
    if node.attribute("global_pooling", False):
        return ctx.reduce("amax" if largest else "mean", x, [2, 3], True)
    if node.attribute("adaptive", False):
        return _adaptive(ctx, x, kernel, largest)
    strides = [int(s) for s in node.attribute("strides")]
    pads = _borders(ctx, node, x, kernel, strides)
    ceil = bool(node.attribute("ceil_mode", False)) and node.attribute("padding_algorithm", "EXPLICIT") == "EXPLICIT"
    exclusive, parts = bool(node.attribute("exclusive", True)), None
    if any(a != b for a, b in pads) or any(2 * a > k for (a, _), k in zip(pads, kernel)):
        if not largest:
            parts = _counted(x, kernel, strides, pads, exclusive, ceil)
            exclusive = False
        x = ctx.padded(x, pads, _below(x.dtype) if largest else 0.0)
        pads = [(0, 0)] * 2
    counts = [_count(size, k, s, p, ceil) for size, k, s, (p, _) in zip(x.extents[2:], kernel, strides, pads)]
    for count in counts:
        ctx.at_least(count, 1, f"a pool by windows of {kernel} with a result")
    attributes: dict[str, object] = {
        "kernel_size": kernel, "stride": strides, "padding": [p for p, _ in pads], "ceil_mode": ceil,
    }  # fmt: skip
    type = TensorType(x.dtype, (*x.extents[:2], *counts))
    if largest:
        return ctx.emit_one("max_pool2d", [x], type, {**attributes, "dilation": [1, 1]})
    attributes["count_include_pad"] = not exclusive
    if not exclusive:
        attributes["divisor_override"] = kernel[0] * kernel[1]
    found = ctx.emit_one("avg_pool2d", [x], type, attributes)
    return found if parts is None else ctx.binary("div", found, ctx.cast(ctx.literal(parts, "f32"), x.dtype))


def _counted(
    x: Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[tuple[int, int]],
    exclusive: bool,
    ceil: bool = False,
) -> np.ndarray:
    """What part of each window a mean divides by, by place of the result.

    That is what lies in the image, or also in the border, of which Paddle's kernel counts behind the image as much as it has
    before it.
    """
    if ceil:
        raise Reject(f"paddings {list(pads)} of a mean with ceil_mode", "equal ones at both ends")
    found = np.ones(())
    for size, k, s, (before, after) in zip((known(e) for e in x.extents[2:]), kernel, strides, pads):
        first = np.arange(0, size + before + after - k + 1, s) - before
        low, high = (np.maximum(first, 0), size) if exclusive else (first, size + before)
        found = found[..., None] * (np.minimum(first + k, high) - low) / k
    return found


def _count(size: Dim, k: int, s: int, p: int, ceil: bool) -> Dim:
    if not ceil or s == 1:
        return (size + 2 * p - k) // s + 1
    whole = known(size)
    count = -(-(whole + 2 * p - k) // s) + 1
    if (count - 1) * s >= whole + p:
        raise Reject("ceil_mode with a window that lies in the border alone", "ceil_mode=False")
    return count


def _adaptive(ctx: Importer, x: Tensor, sizes: Sequence[int], largest: bool) -> Tensor:
    wanted = [e if size < 0 else size for size, e in zip(sizes, x.extents[2:])]
    if 0 in wanted:
        return ctx.full(0, x.dtype, (*x.extents[:2], *wanted))
    type = TensorType(x.dtype, (*x.extents[:2], *wanted))
    if list(wanted) == [1, 1]:
        return ctx.reduce("amax" if largest else "mean", x, [2, 3], True)
    steps = [known(e) // known(w) if known(e) % known(w) == 0 else 0 for e, w in zip(x.extents[2:], wanted)]
    if 0 in steps:
        for dim, count in zip((2, 3), wanted):
            x = _windows(ctx, x, dim, known(count), "amax" if largest else "mean")
        return x
    if not largest:
        return ctx.emit_one("adaptive_avg_pool2d", [x], type, {"output_size": [known(w) for w in wanted]})
    attributes = {"kernel_size": steps, "stride": steps, "padding": [0, 0], "dilation": [1, 1], "ceil_mode": False}
    return ctx.emit_one("max_pool2d", [x], type, attributes)


def _windows(ctx: Importer, x: Tensor, dim: int, count: int, reduction: str) -> Tensor:
    """One dim in windows of unequal sizes, each reduced."""
    size, parts = known(x.extents[dim]), []
    for i in range(ctx.parts(count, "windows")):
        first, end = i * size // count, -(-(i + 1) * size // count)
        parts.append(ctx.reduce(reduction, ctx.slice(x, dim, first, end, end - first), [dim], True))
    extents = tuple(count if d == dim else e for d, e in enumerate(x.extents))
    return ctx.cat(parts, dim, TensorType(x.dtype, extents))


@converter("pool3d", takes="max and avg, adaptive, global, exclusive; NCDHW and NDHWC", refuses="ceil_mode")
def _pool3d(ctx: Importer, node: Node) -> Tensor:
    x, last = channels_first(ctx, node, ctx.tensor(node.inputs[0]))
    found = _pooled3d(ctx, node, x, node.attribute("pooling_type") == "max")
    return channels_last(ctx, found) if last else found


def _pooled3d(ctx: Importer, node: Node, x: Tensor, largest: bool) -> Tensor:
    kernel, reduction = _kernel(ctx, node, 3), "amax" if largest else "mean"
    if node.attribute("global_pooling", False):
        return ctx.reduce(reduction, x, [2, 3, 4], True)
    if node.attribute("adaptive", False):
        for dim, count in zip((2, 3, 4), kernel):
            x = _windows(ctx, x, dim, count, reduction) if count > 0 else x
        return x
    return _volumes(ctx, node, x, kernel, largest)


def _volumes(ctx: Importer, node: Node, x: Tensor, kernel: list[int], largest: bool) -> Tensor:
    """Over the last two dims, then over the first of the three."""
    strides = [int(s) for s in node.attribute("strides")]
    sizes = [known(e) for e in x.extents[2:]]
    pads = _borders(ctx, node, x, kernel, strides)
    if node.attribute("ceil_mode", False):
        raise Reject("pool3d with ceil_mode", "ceil_mode=False")
    counted, parts = not largest and not node.attribute("exclusive", True), None
    if any(a != b or 2 * a > k for (a, b), k in zip(pads, kernel)):
        if not largest:
            parts = _counted(x, kernel, strides, pads, not counted)
            counted = True
        x, pads = ctx.padded(x, pads, _below(x.dtype) if largest else 0.0), [(0, 0)] * 3
        sizes = [known(e) for e in x.extents[2:]]
    counts = counts_of(sizes, kernel, strides, [1] * 3, pads)
    for count in counts:
        ctx.at_least(count, 1, f"a pool by windows of {kernel} with a result")
    n, c = x.extents[:2]
    flat = ctx.reshape(x, (n, known(c) * sizes[0], *sizes[1:]))
    planes = _plain(ctx, flat, kernel[1:], strides[1:], pads[1:], counts[1:], largest, counted)
    columns = ctx.reshape(planes, (n, c, sizes[0], counts[1] * counts[2]))
    places = [counts[0], counts[1] * counts[2]]
    found = _plain(ctx, columns, [kernel[0], 1], [strides[0], 1], [pads[0], (0, 0)], places, largest, counted)
    found = ctx.reshape(found, (n, c, *counts))
    return found if parts is None else ctx.binary("div", found, ctx.cast(ctx.literal(parts, "f32"), x.dtype))


def _plain(
    ctx: Importer,
    x: Tensor,
    kernel: list[int],
    strides: list[int],
    pads: Sequence[tuple[int, int]],
    counts: Sequence[int],
    largest: bool,
    counted: bool,
) -> Tensor:
    """A pool over the last two dims with equal borders; `counted`: a mean whose border counts as zeros."""
    attributes: dict[str, object] = {
        "kernel_size": kernel, "stride": strides, "padding": [p for p, _ in pads], "ceil_mode": False,
    }  # fmt: skip
    type = TensorType(x.dtype, (*x.extents[:2], *counts))
    if largest:
        return ctx.emit_one("max_pool2d", [x], type, {**attributes, "dilation": [1, 1]})
    return ctx.emit_one("avg_pool2d", [x], type, {**attributes, "count_include_pad": counted})


@converter("max_pool2d_with_index", "max_pool3d_with_index", takes="the pool and its indices, adaptive, global, ceil_mode",
           refuses="indices of images of named sizes; ceil_mode of volumes")  # fmt: skip
def _max_pool_with_index(ctx: Importer, node: Node) -> list[Tensor | None]:
    x, rank = ctx.tensor(node.inputs[0]), 2 if "2d" in node.op.short else 3
    found = (_pooled if rank == 2 else _pooled3d)(ctx, node, x, True)
    if len(node.op.results) < 2 or not ctx.uses.get(node.op.results[1]):
        return [found, None]
    sizes, counts = [known(e) for e in x.extents[2:]], [known(e) for e in found.extents[2:]]
    if node.attribute("global_pooling", False):
        kernel, strides, pads = sizes, [1] * rank, [(0, 0)] * rank
    elif node.attribute("adaptive", False):
        if any(size % count for size, count in zip(sizes, counts)):
            return [found, _places_of_unequal(ctx, x, counts)]
        kernel = strides = [size // count for size, count in zip(sizes, counts)]
        pads = [(0, 0)] * rank
    else:
        kernel, strides = _kernel(ctx, node, rank), [int(s) for s in node.attribute("strides")]
        pads = _borders(ctx, node, x, kernel, strides)
        if any(border >= k for pair, k in zip(pads, kernel) for border in pair):
            raise Reject(f"places of the largest in windows of {kernel} with the paddings {pads}", "smaller paddings")
    return [found, _places_of_largest(ctx, x, kernel, strides, [before for before, _ in pads], counts)]


def _places_of_largest(
    ctx: Importer,
    x: Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    before: Sequence[int],
    counts: Sequence[int],
) -> Tensor:
    """For each window the number of its first largest element within the image, i32; `before`: borders in front."""
    sizes = [known(e) for e in x.extents[2:]]
    ctx.parts(math.prod(kernel), "elements of a window")
    ends = [(m - 1) * s + k - size - b for m, s, k, size, b in zip(counts, strides, kernel, sizes, before)]
    wide = ctx.padded(x, [(b, max(end, 0)) for b, end in zip(before, ends)], float("-inf"))
    columns = image_to_columns(ctx, wide, kernel, strides, [1] * len(kernel), [(0, 0)] * len(kernel))
    n, c = x.extents[:2]
    columns = ctx.reshape(columns, (n, c, math.prod(kernel), math.prod(counts)))
    within = _first_largest(ctx, columns, 2)
    firsts = np.meshgrid(*(np.arange(m) * s - b for m, s, b in zip(counts, strides, before)), indexing="ij")
    corners = sum(first * step for first, step in zip(firsts, _steps(sizes)))
    inside = np.meshgrid(*(np.arange(k) for k in kernel), indexing="ij")
    offsets = sum(place * step for place, step in zip(inside, _steps(sizes)))
    flat = ctx.reshape(within, (product_of(within.extents),))
    moved = ctx.emit_one(
        "index_select",
        [ctx.literal(np.asarray(offsets).reshape(-1), "i32"), flat],
        TensorType("i32", flat.extents),
        {"dim": 0},
    )
    found = ctx.binary("add", ctx.reshape(moved, within.extents), ctx.literal(np.asarray(corners).reshape(-1), "i32"))
    return ctx.reshape(found, (n, c, *counts))


def _places_of_unequal(ctx: Importer, x: Tensor, counts: Sequence[int]) -> Tensor:
    """As `_places_of_largest`, of adaptive windows whose sizes differ: window by window."""
    sizes, (n, c) = [known(e) for e in x.extents[2:]], x.extents[:2]
    ctx.parts(math.prod(counts), "windows")
    parts = []
    for window in itertools.product(*(range(m) for m in counts)):
        part, numbers = x, np.arange(math.prod(sizes)).reshape(sizes)
        for d, (i, size, m) in enumerate(zip(window, sizes, counts)):
            first, end = i * size // m, -(-(i + 1) * size // m)
            part = ctx.slice(part, d + 2, first, end, end - first)
            numbers = numbers.take(range(first, end), d)
        within = _first_largest(ctx, ctx.reshape(part, (n, c, numbers.size)), 2)
        flat = ctx.reshape(within, (product_of(within.extents),))
        type = TensorType("i32", flat.extents)
        place = ctx.emit_one("index_select", [ctx.literal(numbers.reshape(-1), "i32"), flat], type, {"dim": 0})
        parts.append(ctx.reshape(place, (n, c, 1)))
    return ctx.reshape(ctx.cat(parts, 2, TensorType("i32", (n, c, len(parts)))), (n, c, *counts))


def _first_largest(ctx: Importer, x: Tensor, dim: int) -> Tensor:
    """The place of the first largest element of a dim, i64."""
    extents = (*x.extents[:dim], *x.extents[dim + 1 :])
    return ctx.emit_one("argmax", [x], TensorType("i64", extents), {"dim": dim, "keepdim": False})


def _steps(sizes: Sequence[int]) -> list[int]:
    """How far apart neighbours of each dim are in a row-major image."""
    return [math.prod(sizes[d + 1 :]) for d in range(len(sizes))]


@converter("unpool", "unpool3d", takes="NCHW and NCDHW", refuses="a named output size")
def _unpool(ctx: Importer, node: Node) -> Tensor:
    x, index = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1], "i64")
    given = node.input(2)
    sizes = (
        ctx.numbers(given, "an output size") if given is not None else [int(s) for s in node.attribute("output_size")]
    )
    (n, c), places = x.extents[:2], product_of(x.extents[2:])
    sizes = sizes[-(x.rank - 2) :]
    zeros = ctx.full(0, x.dtype, (n, c, math.prod(sizes)))
    flat = [zeros, ctx.reshape(index, (n, c, places)), ctx.reshape(x, (n, c, places))]
    found = ctx.emit_one("scatter", flat, zeros.type, {"dim": 2, "reduce": "none"})
    return ctx.reshape(found, (n, c, *sizes))


@converter("lp_pool2d", takes="any order, ceil_mode; NCHW and NHWC", refuses="adaptive")
def _lp_pool2d(ctx: Importer, node: Node) -> Tensor:
    """Roots of the sums of powers; as Paddle's kernel, without the magnitudes that the formula has."""
    x, last = channels_first(ctx, node, ctx.tensor(node.inputs[0]))
    order = float(node.attribute("norm_type"))
    kernel, strides = _kernel(ctx, node, 2), [int(s) for s in node.attribute("strides")]
    if node.attribute("adaptive", False) or node.attribute("global_pooling", False) or not 0 < order < float("inf"):
        raise Reject(
            f"an adaptive lp pool, or one of order {order}", "lp_pool2d with a kernel size and an order above 0"
        )
    pads = _borders(ctx, node, x, kernel, strides)
    ceil = bool(node.attribute("ceil_mode", False)) and node.attribute("padding_algorithm", "EXPLICIT") == "EXPLICIT"
    powers = ctx.padded(ctx.binary("pow", x, ctx.operand(order, x.type)), pads)
    counts = [_count(size, k, s, 0, ceil) for size, k, s in zip(powers.extents[2:], kernel, strides)]
    for count in counts:
        ctx.at_least(count, 1, f"a pool by windows of {kernel} with a result")
    attributes = {
        "kernel_size": kernel, "stride": strides, "padding": [0, 0], "ceil_mode": ceil, "count_include_pad": True,
        "divisor_override": 1,
    }  # fmt: skip
    summed = ctx.emit_one("avg_pool2d", [powers], TensorType(x.dtype, (*x.extents[:2], *counts)), attributes)
    found = ctx.binary("pow", summed, ctx.operand(1.0 / order, summed.type))
    return channels_last(ctx, found) if last else found


# Shuffles and sampling ------------------------------------------------------------------------------------------------


@converter("pixel_shuffle", takes="NCHW and NHWC")
def _pixel_shuffle(ctx: Importer, node: Node) -> Tensor:
    x, last = channels_first(ctx, node, ctx.tensor(node.inputs[0]))
    r = int(node.attribute("upscale_factor"))
    n, c, h, w = x.extents
    rest = known(c) // (r * r)
    wide = ctx.permute(ctx.reshape(x, (n, rest, r, r, h, w)), [0, 1, 4, 2, 5, 3])
    found = ctx.reshape(wide, (n, rest, h * r, w * r))
    return channels_last(ctx, found) if last else found


@converter("pixel_unshuffle", takes="NCHW and NHWC")
def _pixel_unshuffle(ctx: Importer, node: Node) -> Tensor:
    x, last = channels_first(ctx, node, ctx.tensor(node.inputs[0]))
    r = int(node.attribute("downscale_factor"))
    n, c, h, w = x.extents
    rows, columns = known(h) // r, known(w) // r
    wide = ctx.permute(ctx.reshape(x, (n, c, rows, r, columns, r)), [0, 1, 3, 5, 2, 4])
    found = ctx.reshape(wide, (n, known(c) * r * r, rows, columns))
    return channels_last(ctx, found) if last else found


@converter("temporal_shift", takes="NCHW and NHWC")
def _temporal_shift(ctx: Importer, node: Node) -> Tensor:
    """Some channels come from the image before, some from the one after; zeros at the ends."""
    x, last = channels_first(ctx, node, ctx.tensor(node.inputs[0]))
    count, ratio = int(node.attribute("seg_num")), float(node.attribute("shift_ratio"))
    nt, c, h, w = (known(e) for e in x.extents)
    images = ctx.reshape(x, (nt // count, count, c, h, w))
    bounds = [0, int(c * ratio), int(c * 2 * ratio), c]
    parts = []
    for (low, high), move in zip(zip(bounds, bounds[1:]), (1, -1, 0)):
        if high > low:
            part = ctx.slice(images, 2, low, high, high - low)
            parts.append(ctx.padded(part, [(move, -move), (0, 0), (0, 0), (0, 0)]))
    found = ctx.reshape(ctx.cat(parts, 2, images.type), x.extents)
    return channels_last(ctx, found) if last else found


@converter("unfold", takes="constant sizes", refuses="named sizes of the image")
def _unfold(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    kernel, strides, dilations = (list(node.attribute(name)) for name in ("kernel_sizes", "strides", "dilations"))
    top, left, bottom, right = node.attribute("paddings")
    ctx.parts(kernel[0] * kernel[1], "elements of a window")
    return image_to_columns(ctx, x, kernel, strides, dilations, [(top, bottom), (left, right)])


@converter("fold", takes="constant sizes")
def _fold(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    image, kernel, strides, dilations = (
        list(node.attribute(name)) for name in ("output_sizes", "kernel_sizes", "strides", "dilations")
    )
    top, left, bottom, right = node.attribute("paddings")
    ctx.places(known(x.extents[-1]) * kernel[0] * kernel[1], "places of a fold")
    return columns_to_image(ctx, x, image, kernel, strides, dilations, [(top, bottom), (left, right)])


@converter("affine_grid", takes="images, both align modes, a constant shape", refuses="volumes")
def _affine_grid(ctx: Importer, node: Node) -> Tensor:
    theta = ctx.tensor(node.inputs[0])
    given = node.input(1)
    shape = ctx.numbers(given, "a shape") if given is not None else [int(n) for n in node.attribute("output_shape")]
    if len(shape) != 4:
        raise Reject(f"affine_grid of a shape of {len(shape)} dims", "images")
    h, w = shape[2:]
    ctx.places(h * w, "places of a grid")
    align = bool(node.attribute("align_corners", True))
    x, y = (np.linspace(-1, 1, n) * (1.0 if align else (n - 1) / n) for n in (w, h))
    places = np.stack([*np.meshgrid(x, y), np.ones((h, w))], -1).reshape(h * w, 3)
    base = ctx.expand(ctx.literal(places, theta.dtype), (theta.extents[0], h * w, 3))
    return ctx.reshape(product(ctx, base, ctx.permute(theta, [0, 2, 1])), (theta.extents[0], h, w, 2))


@converter("channel_shuffle", takes="NCHW and NHWC")
def _channel_shuffle(ctx: Importer, node: Node) -> Tensor:
    x, last = channels_first(ctx, node, ctx.tensor(node.inputs[0]))
    groups = int(node.attribute("groups"))
    n, c, h, w = x.extents
    wide = ctx.permute(ctx.reshape(x, (n, groups, known(c) // groups, h, w)), [0, 2, 1, 3, 4])
    found = ctx.reshape(wide, x.extents)
    return channels_last(ctx, found) if last else found


@converter("grid_sample", takes="images; bilinear and nearest; zeros, border, reflection")
def _grid_sample(ctx: Importer, node: Node) -> Tensor:
    x, grid = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1])
    if x.rank != 4:
        raise Reject(f"grid_sample of rank {x.rank}", "rank 4")
    modes = {"bilinear": "bilinear", "nearest": "nearest"}
    if node.attribute("mode") not in modes or x.dtype not in FLOATS:
        raise Reject(f"grid_sample by {node.attribute('mode')}", "bilinear or nearest")
    attributes = {
        "interpolation_mode": node.attribute("mode"), "padding_mode": node.attribute("padding_mode"),
        "align_corners": bool(node.attribute("align_corners")),
    }  # fmt: skip
    type = TensorType(x.dtype, (*x.extents[:2], *grid.extents[1:3]))
    return ctx.emit_one("grid_sampler_2d", [x, grid], type, attributes)
