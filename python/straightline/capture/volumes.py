# SPDX-License-Identifier: Apache-2.0
"""Convolutions over three dims, as ones over two. Knows no framework."""

from __future__ import annotations

from typing import Any

from straightline.capture.builder import Dim, TensorType
from straightline.capture.graph_builder import GraphBuilder, Reject, Tensor, known

#: Up to this many channels all places of the depth are channels of one convolution; above, the sum of one each is faster.
_FEW_CHANNELS = 16


def convolution3d(
    ctx: GraphBuilder, x: Tensor, weight: Tensor, bias: Tensor | None, how: dict[str, Any], type: TensorType
) -> Tensor:
    """A convolution of x [n, c, d, h, w] with weight [o, c / groups, kd, kh, kw], or a transposed one.

    Args:
        ctx: gets the ops.
        x: what is convolved.
        weight: a transposed one has [c, o / groups, kd, kh, kw].
        bias: one number an output channel.
        how: the attributes of `op.convolution`, with three numbers each.
        type: that of the result.
    """
    if how["transposed"]:
        return _transposed(ctx, x, weight, bias, how, type)
    kernel = weight.extents[2:]
    if list(kernel) == how["stride"] and how["groups"] == 1 and not any(how["padding"]):
        if how["dilation"] == [1, 1, 1]:
            return _patches(ctx, x, weight, bias, type)
    c, (kd, kh, kw) = known(x.extents[1]), map(known, kernel)
    is_half = x.dtype in ("f16", "bf16")
    if is_half and how["groups"] != 1 and kd != 1:
        raise Reject(
            "convolution over 3 dims of halves in groups, which would round each place of the depth", "float32"
        )
    shifted = _along_depth(ctx, x, weight, how, type)
    flat = {name: value[1:] if isinstance(value, list) else value for name, value in how.items()}
    images = TensorType(x.dtype, (type.extents[0] * type.extents[2], type.extents[1], *type.extents[3:]))
    few = how["groups"] == 1 and (is_half or c <= _FEW_CHANNELS)
    if few and len(shifted) > 1:
        joined = ctx.cat(shifted, 1, TensorType(x.dtype, (shifted[0].extents[0], *_times(shifted[0], len(shifted)))))
        o = weight.extents[0]
        planes = ctx.reshape(ctx.permute(weight, [0, 2, 1, 3, 4]), (o, c * kd, kh, kw))
        total = ctx.emit_one("convolution", [joined, planes, bias], images, flat)
    else:
        total = None
        for place, part in enumerate(shifted):
            term = ctx.emit_one(
                "convolution", [part, ctx.select(weight, 2, place), bias if place == 0 else None], images, flat
            )
            total = term if total is None else ctx.emit_one("add", [total, term], images)
    assert total is not None
    apart = ctx.reshape(total, (type.extents[0], type.extents[2], type.extents[1], *type.extents[3:]))
    return ctx.permute(apart, [0, 2, 1, 3, 4])


def _times(x: Tensor, count: int) -> tuple[Dim, ...]:
    return (x.extents[1] * count, *x.extents[2:])


def _along_depth(ctx: GraphBuilder, x: Tensor, weight: Tensor, how: dict[str, Any], type: TensorType) -> list[Tensor]:
    """For each place of the kernel's depth, the images that it is applied to: [n * depth of the result, c, h, w]."""
    before, (n, c, d, h, w) = how["padding"][0], x.extents
    if before:
        pads = {"pad": [0, 0, 0, 0, before, before], "value": 0.0}
        x = ctx.emit_one("constant_pad_nd", [x], TensorType(x.dtype, (n, c, d + 2 * before, h, w)), pads)
    images = ctx.permute(x, [0, 2, 1, 3, 4])
    depth, step = known(type.extents[2]), how["stride"][0]
    shifted = []
    for place in range(known(weight.extents[2])):
        start = place * how["dilation"][0]
        part = ctx.slice(images, 1, start, start + (depth - 1) * step + 1, depth, step)
        shifted.append(ctx.reshape(part, (n * depth, c, h, w)))
    return shifted


def _patches(ctx: GraphBuilder, x: Tensor, weight: Tensor, bias: Tensor | None, type: TensorType) -> Tensor:
    """Non-overlapping windows as the rows of a product."""
    (n, c), (o, _, *kernel), counts = x.extents[:2], weight.extents, type.extents[2:]
    for dim, (count, length) in enumerate(zip(counts, kernel), 2):
        x = ctx.slice(x, dim, 0, known(count * length), count * length)
    apart = ctx.reshape(x, (n, c, *(size for pair in zip(counts, kernel) for size in pair)))
    places = n * counts[0] * counts[1] * counts[2]
    width = c * kernel[0] * kernel[1] * kernel[2]
    rows = ctx.reshape(ctx.permute(apart, [0, 2, 4, 6, 1, 3, 5, 7]), (places, width))
    product = ctx.emit_one("linear", [rows, ctx.reshape(weight, (o, width)), bias], TensorType(x.dtype, (places, o)))
    return ctx.permute(ctx.reshape(product, (n, *counts, o)), [0, 4, 1, 2, 3])


def _transposed(
    ctx: GraphBuilder, x: Tensor, weight: Tensor, bias: Tensor | None, how: dict[str, Any], type: TensorType
) -> Tensor:
    """A transposed convolution; where windows do not overlap along the depth each place of it is one over two dims."""
    depth = known(weight.extents[2])
    first = [how[name][0] for name in ("stride", "padding", "dilation", "output_padding")]
    if first != [depth, 0, 1, 0]:
        return _overlapping(ctx, x, weight, bias, how, type)
    n, c, d, h, w = x.extents
    images = ctx.reshape(ctx.permute(x, [0, 2, 1, 3, 4]), (n * d, c, h, w))
    flat = {name: value[1:] if isinstance(value, list) else value for name, value in how.items()}
    o, sizes = type.extents[1], type.extents[3:]
    inner = TensorType(x.dtype, (n * d, o, *sizes))
    planes = []
    for place in range(depth):
        plane = ctx.emit_one("convolution", [images, ctx.select(weight, 2, place), bias], inner, flat)
        planes.append(ctx.reshape(plane, (n, d, 1, o, *sizes)))
    stacked = ctx.cat(planes, 2, TensorType(x.dtype, (n, d, depth, o, *sizes)))
    return ctx.permute(ctx.reshape(stacked, (n, d * depth, o, *sizes)), [0, 2, 1, 3, 4])


def _overlapping(
    ctx: GraphBuilder, x: Tensor, weight: Tensor, bias: Tensor | None, how: dict[str, Any], type: TensorType
) -> Tensor:
    """Planes of the result whose depths are equal modulo the stride use the same places of the kernel's depth.

    These places are channels of one transposed convolution over two dims, of images that are shifted along the depth.
    """
    (stride, padding, dilation), (n, c, d, h, w) = (
        (how[name][0] for name in ("stride", "padding", "dilation")),
        x.extents,
    )
    o, depth, *sizes = type.extents[1:]
    groups, each = how["groups"], known(c) // how["groups"]
    count = -(-known(depth) // stride)  # planes of a remainder; the last one of some is dropped
    met = [
        [(k, (rest + padding - k * dilation) // stride) for k in range(known(weight.extents[2]))
         if (rest + padding - k * dilation) % stride == 0]
        for rest in range(stride)
    ]  # fmt: skip
    shifts = [shift for pairs in met for _, shift in pairs]
    before, after = max(0, -min(shifts)), max(0, max(shifts) + count - known(d))
    if before or after:
        pads = {"pad": [0, 0, 0, 0, before, after], "value": 0.0}
        x = ctx.emit_one("constant_pad_nd", [x], TensorType(x.dtype, (n, c, known(d) + before + after, h, w)), pads)
    images = ctx.permute(x, [0, 2, 1, 3, 4])
    flat = {name: value[1:] if isinstance(value, list) else value for name, value in how.items()}
    kernel = weight.extents[3:]
    inner = TensorType(x.dtype, (n * count, o, *sizes))
    planes = []
    for pairs in met:
        if not pairs:
            empty = ctx.full(0.0, x.dtype, (1, 1, 1, 1)) if bias is None else ctx.reshape(bias, (1, o, 1, 1))
            planes.append(ctx.reshape(ctx.expand(empty, inner.extents), (n, count, 1, o, *sizes)))
            continue
        parts, weights = [], []
        for k, shift in pairs:
            part = ctx.slice(images, 1, before + shift, before + shift + count, count)
            parts.append(ctx.reshape(part, (n * count, groups, each, h, w)))
            weights.append(ctx.reshape(ctx.select(weight, 2, k), (groups, each, weight.extents[1], *kernel)))
        width = groups * each * len(pairs)
        joined = ctx.reshape(_joined(ctx, parts, 2), (n * count, width, h, w))
        taps = ctx.reshape(_joined(ctx, weights, 1), (width, weight.extents[1], *kernel))
        plane = ctx.emit_one("convolution", [joined, taps, bias], inner, flat)
        planes.append(ctx.reshape(plane, (n, count, 1, o, *sizes)))
    whole = ctx.reshape(_joined(ctx, planes, 2), (n, count * stride, o, *sizes))
    return ctx.permute(ctx.slice(whole, 1, 0, depth, depth), [0, 2, 1, 3, 4])


def _joined(ctx: GraphBuilder, parts: list[Tensor], dim: int) -> Tensor:
    """A concatenation of tensors of one type."""
    if len(parts) == 1:
        return parts[0]
    extents = parts[0].extents
    length = sum(known(part.extents[dim]) for part in parts)
    return ctx.cat(parts, dim, TensorType(parts[0].dtype, (*extents[:dim], length, *extents[dim + 1 :])))


# Pools ----------------------------------------------------------------------------------------------------------------
