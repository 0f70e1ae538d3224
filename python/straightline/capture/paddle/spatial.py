# SPDX-License-Identifier: Apache-2.0
"""Paddle's ops over images: pools, interpolation, shuffles, sampling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from straightline.capture.builder import Dim, TensorType
from straightline.capture.graph_builder import FLOATS, Reject, Tensor, known
from straightline.capture.paddle.importer import Importer, Node, converter
from straightline.capture.paddle.linear import channels_first, channels_last, padded, windows_padding


def _kernel(ctx: Importer, node: Node, rank: int) -> list[int]:
    given = node.input(1)
    sizes = (
        ctx.numbers(given, "a kernel size") if given is not None else [int(k) for k in node.attribute("kernel_size")]
    )
    return sizes * rank if len(sizes) == 1 else sizes


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
    pads = windows_padding(node, x.extents[2:], kernel, strides, [1, 1])
    ceil = bool(node.attribute("ceil_mode", False)) and node.attribute("padding_algorithm", "EXPLICIT") == "EXPLICIT"
    exclusive = bool(node.attribute("exclusive", True))
    if any(a != b for a, b in pads) or any(2 * a > k for (a, _), k in zip(pads, kernel)):
        if not largest and exclusive:
            raise Reject(f"paddings {pads} of a mean without its border", "equal ones at both ends")
        x = padded(ctx, x, pads, float("-inf") if largest else 0.0)
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
    return ctx.emit_one("avg_pool2d", [x], type, attributes)


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


@converter("max_pool2d_with_index", takes="the pool itself", refuses="reading the indices")
def _max_pool_with_index(ctx: Importer, node: Node) -> list[Tensor | None]:
    if len(node.op.results) > 1 and ctx.uses.get(node.op.results[1]):
        raise Reject("the indices of a max pool", "return_mask=False")
    return [_pooled(ctx, node, ctx.tensor(node.inputs[0]), True), None]


# Interpolation --------------------------------------------------------------------------------------------------------


def _target(ctx: Importer, node: Node, sizes: Sequence[int]) -> tuple[list[int], list[float]]:
    """Sizes of the result, and the scales that were given (0: none)."""
    names = ("out_h", "out_w")
    if node.input(1) is not None:
        return ctx.numbers(node.input(1), "a size"), [0.0, 0.0]
    if node.input(2) is not None:
        return ctx.numbers(node.input(2), "a size"), [0.0, 0.0]
    if node.input(3) is not None:
        raise Reject("a scale that a call computes", "a constant scale")
    scale = [float(s) for s in node.attribute("scale") or []]
    if scale:
        scale = scale * 2 if len(scale) == 1 else scale
        return [int(size * s) for size, s in zip(sizes, scale)], scale
    return [int(node.attribute(name)) for name in names], [0.0, 0.0]


def _positions(size: int, count: int, scale: float, align: bool, mode: int) -> np.ndarray:
    """Where each element of the result is in the image."""
    places = np.arange(count, dtype=np.float32)
    if align:
        return places * np.float32((size - 1) / (count - 1) if count > 1 else 0.0)
    ratio = np.float32(1.0 / scale if scale > 0 else size / count)
    if mode == 0:
        return np.maximum(ratio * (places + np.float32(0.5)) - np.float32(0.5), np.float32(0.0))
    return ratio * places


@converter("bilinear_interp", takes="constant sizes or scales, both align modes")
def _bilinear(ctx: Importer, node: Node) -> Tensor:
    x, last = channels_first(ctx, node, ctx.tensor(node.inputs[0]))
    sizes = [known(e) for e in x.extents[2:]]
    counts, scales = _target(ctx, node, sizes)
    for count in counts:
        ctx.places(count, "places of an interpolation")
    align, mode = bool(node.attribute("align_corners")), int(node.attribute("align_mode", 1))
    for dim, size, count, scale in zip((2, 3), sizes, counts, scales):
        where = _positions(size, count, scale, align, 0 if mode == 0 and not align else 1)
        low = np.minimum(np.floor(where).astype(np.int64), size - 1)
        high = np.minimum(low + 1, size - 1)
        weight = (where - low).astype(np.float32)
        shape = tuple(count if d == dim else 1 for d in range(4))
        a, b = (_at(ctx, x, dim, places) for places in (low, high))
        share = ctx.reshape(ctx.cast(ctx.literal(weight, "f32"), x.dtype), shape)
        x = ctx.binary("add", ctx.binary("mul", a, ctx.binary("sub", ctx.full(1, x.dtype), share)),
                       ctx.binary("mul", b, share))  # fmt: skip
    return channels_last(ctx, x) if last else x


@converter("nearest_interp", takes="constant sizes or scales")
def _nearest(ctx: Importer, node: Node) -> Tensor:
    x, last = channels_first(ctx, node, ctx.tensor(node.inputs[0]))
    sizes = [known(e) for e in x.extents[2:]]
    counts, scales = _target(ctx, node, sizes)
    for count in counts:
        ctx.places(count, "places of an interpolation")
    for dim, size, count, scale in zip((2, 3), sizes, counts, scales):
        places = np.arange(count, dtype=np.float32)
        if node.attribute("align_corners"):
            ratio = np.float32((size - 1) / (count - 1) if count > 1 else 0.0)
            where = np.floor(places * ratio + np.float32(0.5))
        else:
            where = np.floor(places * np.float32(1.0 / scale if scale > 0 else size / count))
        x = _at(ctx, x, dim, np.minimum(where.astype(np.int64), size - 1))
    return channels_last(ctx, x) if last else x


def _at(ctx: Importer, x: Tensor, dim: int, places: np.ndarray) -> Tensor:
    """Entries of a dim at known places."""
    size, count = known(x.extents[dim]), len(places)
    if count == size and (places == np.arange(size)).all():
        return x
    factor = count // size if size and count % size == 0 else 0
    extents = tuple(count if d == dim else e for d, e in enumerate(x.extents))
    if factor and (places == np.repeat(np.arange(size), factor)).all():
        wide = ctx.reshape(x, (*x.extents[: dim + 1], 1, *x.extents[dim + 1 :]))
        wide = ctx.expand(wide, (*x.extents[: dim + 1], factor, *x.extents[dim + 1 :]))
        return ctx.reshape(wide, extents)
    index = ctx.literal(places, "i64")
    return ctx.emit_one("index_select", [x, index], TensorType(x.dtype, extents), {"dim": dim})


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
