# SPDX-License-Identifier: Apache-2.0
"""Paddle's ops of detectors: boxes of YOLO, convolutions at places that are computed."""

from __future__ import annotations

import numpy as np

from straightline.capture.builder import TensorType
from straightline.capture.graph_builder import FLOATS, Reject, Tensor, known
from straightline.capture.paddle.importer import Importer, Node, converter
from straightline.errors import UserError


@converter("yolo_box", takes="floats, with and without scores of overlap; static sizes of the grid")
def _yolo_box(ctx: Importer, node: Node) -> list[Tensor]:
    x, image = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1], "f32")
    anchors, classes = np.array(node.attribute("anchors")).reshape(-1, 2), int(node.attribute("class_num"))
    n, (h, w), count = x.extents[0], (known(e) for e in x.extents[2:]), len(anchors)
    aware, least = bool(node.attribute("iou_aware", False)), float(node.attribute("conf_thresh"))
    rest = ctx.slice(x, 1, count, known(x.extents[1]), known(x.extents[1]) - count) if aware else x
    boxes = ctx.reshape(rest, (n, count, 5 + classes, h, w))

    def part(first: int, end: int) -> Tensor:
        found = ctx.slice(boxes, 2, first, end, end - first)
        return found if end - first > 1 else ctx.reshape(found, (n, count, h, w))

    sure = ctx.unary("sigmoid", part(4, 5))
    if aware:
        factor = float(node.attribute("iou_aware_factor", 0.5))
        overlap = ctx.unary("sigmoid", ctx.slice(x, 1, 0, count, count))
        sure = ctx.binary("mul", ctx.binary("pow", sure, 1.0 - factor), ctx.binary("pow", overlap, factor))
    kept = ctx.compare("ge", sure, least)
    scale, step = float(node.attribute("scale_x_y", 1.0)), int(node.attribute("downsample_ratio"))
    places = (np.arange(w).reshape(1, w), np.arange(h).reshape(h, 1))
    ends: list[list[Tensor]] = [[], []]
    for axis, (size, place) in enumerate(zip((w, h), places)):
        extent = ctx.cast(ctx.reshape(ctx.slice(image, 1, 1 - axis, 2 - axis, 1), (n, 1, 1, 1)), x.dtype)
        corner = ctx.literal(place - 0.5 * (scale - 1.0), x.dtype)
        moved = ctx.binary("mul", ctx.unary("sigmoid", part(axis, axis + 1)), scale)
        middle = ctx.binary("div", ctx.binary("mul", ctx.binary("add", moved, corner), extent), float(size))
        lengths = ctx.literal(anchors[:, axis].reshape(count, 1, 1) / (2.0 * step * size), x.dtype)
        grown = ctx.binary("mul", ctx.unary("exp", part(2 + axis, 3 + axis)), lengths)
        half = ctx.binary("mul", grown, extent)
        low, high = ctx.binary("sub", middle, half), ctx.binary("add", middle, half)
        if node.attribute("clip_bbox", True):
            low = ctx.unary("clamp", low, min=0.0)
            high = ctx.binary("minimum", high, ctx.binary("sub", extent, 1.0))
        for into, end in zip(ends, (low, high)):
            into.append(ctx.where(kept, end, 0.0))
    cells = count * h * w
    joined = [ctx.reshape(end, (n, cells, 1)) for pair in ends for end in pair]
    found = ctx.cat(joined, 2, TensorType(x.dtype, (n, cells, 4)))
    scores = ctx.permute(ctx.unary("sigmoid", ctx.slice(boxes, 2, 5, 5 + classes, classes)), [0, 1, 3, 4, 2])
    weight = ctx.reshape(ctx.where(kept, sure, 0.0), (n, count, h, w, 1))
    return [found, ctx.reshape(ctx.binary("mul", scores, weight), (n, cells, classes))]


@converter("deformable_conv", takes="both versions, groups, deformable groups, dilations; static sizes of the image")
def _deformable_conv(ctx: Importer, node: Node) -> Tensor:
    """A 1 x 1 convolution over samples: the image at (place of the window + offset), each a channel, times the mask."""
    x, offset, weight = (ctx.tensor(t) for t in node.inputs[:3])
    if x.dtype not in FLOATS:
        raise Reject(f"deformable_conv of {x.dtype}", "floats")
    (n, c, *sizes), (outputs, depth, *kernel) = x.extents, (known(e) for e in weight.extents)
    parts, taps, counts = int(node.attribute("deformable_groups", 1)), kernel[0] * kernel[1], offset.extents[2:]
    rows = [known(e) for e in counts]
    stride, pad, dilation = (list(node.attribute(name)) for name in ("strides", "paddings", "dilations"))
    wanted = [
        (known(e) + 2 * p - d * (k - 1) - 1) // s + 1 for e, p, d, k, s in zip(sizes, pad, dilation, kernel, stride)
    ]
    groups = int(node.attribute("groups", 1))
    if rows != wanted or known(offset.extents[1]) != 2 * parts * taps or known(c) != depth * groups:
        raise UserError(
            f"{ctx.location}: deform_conv2d of {c} channels by a weight of {depth * groups}, with offsets of sizes "
            f"{[known(e) for e in offset.extents[1:]]}: {[2 * parts * taps, *wanted]} are needed"
        )
    shift = ctx.permute(ctx.reshape(offset, (n, parts, taps, 2, *rows)), [3, 0, 1, 2, 4, 5])
    grid = []
    for axis in (1, 0):  # the grid says x, then y
        along = np.arange(kernel[axis]) * dilation[axis]
        tap = np.repeat(along, kernel[1]) if axis == 0 else np.tile(along, kernel[0])
        cell = (np.arange(rows[axis]) * stride[axis] - pad[axis]).reshape((-1, 1) if axis == 0 else (1, -1))
        start = ctx.literal(np.broadcast_to(tap.reshape(-1, 1, 1) + cell, (taps, *rows)), x.dtype)
        one = ctx.reshape(ctx.slice(shift, 0, axis, axis + 1, 1), (n, parts, taps, *rows))
        size = float(known(sizes[axis]))
        place = ctx.binary("add", one, start)
        unit = ctx.binary("sub", ctx.binary("div", ctx.binary("add", ctx.binary("mul", place, 2.0), 1.0), size), 1.0)
        grid.append(ctx.reshape(unit, (n * parts, taps * rows[0], rows[1], 1)))
    images = ctx.reshape(x, (n * parts, known(c) // parts, *sizes))
    type = TensorType(x.dtype, (*images.extents[:2], taps * rows[0], rows[1]))
    attributes = {"interpolation_mode": "bilinear", "padding_mode": "zeros", "align_corners": False}
    pairs = ctx.cat(grid, 3, TensorType(x.dtype, (n * parts, taps * rows[0], rows[1], 2)))
    samples = ctx.emit_one("grid_sampler_2d", [images, pairs], type, attributes)
    if node.input(3) is not None:
        mask = ctx.reshape(ctx.tensor(node.input(3), x.dtype), (n * parts, 1, *type.extents[2:]))
        samples = ctx.binary("mul", samples, mask)
    flat = ctx.reshape(samples, (n, known(c) * taps, *rows))
    columns = ctx.reshape(weight, (outputs, depth * taps, 1, 1))
    plain = {
        "stride": [1, 1], "padding": [0, 0], "dilation": [1, 1], "transposed": False, "output_padding": [0, 0],
        "groups": groups,
    }  # fmt: skip
    return ctx.emit_one("convolution", [flat, columns, None], TensorType(x.dtype, (n, outputs, *rows)), plain)
