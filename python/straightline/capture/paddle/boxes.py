# SPDX-License-Identifier: Apache-2.0
"""Paddle's ops over boxes: priors, codes of boxes by priors, those without a better neighbour, samples of regions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from straightline.capture.builder import Dim, TensorType
from straightline.capture.extents import product_of
from straightline.capture.graph_builder import FLOATS, Reject, Tensor, known
from straightline.capture.paddle.data_sizes import true_places
from straightline.capture.paddle.importer import Importer, Node, converter

#: Most boxes that are compared in pairs.
_MOST_BOXES = 4096
#: Most samples along a side of a bin, where the size of a region says how many.
_MOST_SAMPLES = 64


@converter("prior_box", takes="static sizes of the images")
def _prior_box(ctx: Importer, node: Node) -> list[Tensor]:
    (rows, columns), (height, width) = (_sides(ctx, node, place) for place in (0, 1))
    ratios = [1.0]
    for ratio in node.attribute("aspect_ratios"):
        if all(abs(ratio - other) >= 1e-6 for other in ratios):
            ratios += [ratio, 1.0 / ratio] if node.attribute("flip", False) else [ratio]
    largest, sides = list(node.attribute("max_sizes") or []), []
    for i, least in enumerate(node.attribute("min_sizes")):
        of_ratios = [(least * r**0.5, least / r**0.5) for r in ratios]
        square = [((least * largest[i]) ** 0.5,) * 2] if largest else []
        first = node.attribute("min_max_aspect_ratios_order", False)
        sides += [of_ratios[0], *square, *of_ratios[1:]] if first else [*of_ratios, *square]
    half = np.array(sides) / 2
    step_x = node.attribute("step_w") or width / columns
    step_y = node.attribute("step_h") or height / rows
    offset = node.attribute("offset", 0.5)
    x, y = (np.arange(columns) + offset) * step_x, (np.arange(rows) + offset) * step_y
    middle = np.stack(np.broadcast_arrays(x[None, :, None], y[:, None, None]), -1)
    found = np.concatenate([middle - half, middle + half], -1) / np.array([width, height] * 2)
    if node.attribute("clip", False):
        found = found.clip(0, 1)
    variances = np.broadcast_to(np.array(node.attribute("variances")), found.shape)
    return [ctx.literal(found, "f32"), ctx.literal(variances, "f32")]


def _sides(ctx: Importer, node: Node, place: int) -> tuple[int, int]:
    type = ctx.type_of(node.inputs[place])
    return known(type.extents[2]), known(type.extents[3])


@converter("box_coder", takes="both codes and axes; variances as a tensor, as four numbers, or none")
def _box_coder(ctx: Importer, node: Node) -> Tensor:
    prior, target = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[2])
    encodes = node.attribute("code_type") == "encode_center_size"
    axis = 0 if encodes else int(node.attribute("axis", 0))
    edge = 0.0 if node.attribute("box_normalized", True) else 1.0
    lead = (1, prior.extents[0]) if axis == 0 else (prior.extents[0], 1)

    def column(x: Tensor, index: int) -> Tensor:
        one = ctx.select(x, x.rank - 1, index)
        if x.rank == 3:
            return one
        return ctx.reshape(one, lead if x is not target else (x.extents[0], 1))

    def middles(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
        low, high = column(x, axis), column(x, axis + 2)
        length = ctx.binary("add", ctx.binary("sub", high, low), edge)
        middle = ctx.binary("mul", ctx.binary("add", low, high), 0.5)
        return (middle, length) if x is target else (ctx.binary("add", low, ctx.binary("mul", length, 0.5)), length)

    given = node.attribute("variance") or []
    scales: list[Tensor | float] = [float(v) for v in given] or [1.0] * 4
    if node.input(1) is not None:
        varied = ctx.tensor(node.input(1), prior.dtype)
        scales = [column(varied, i) for i in range(4)]
    parts: list[list[Tensor]] = [[], []]
    for axis_of in (0, 1):
        center, length = middles(prior, axis_of)
        if encodes:
            other, extent = middles(target, axis_of)
            shift = ctx.binary("div", ctx.binary("sub", other, center), length)
            growth = ctx.unary("log", ctx.unary("abs", ctx.binary("div", extent, length)))
            parts[0].append(ctx.binary("div", shift, scales[axis_of]))
            parts[1].append(ctx.binary("div", growth, scales[axis_of + 2]))
            continue
        shift = ctx.binary("mul", ctx.binary("mul", column(target, axis_of), scales[axis_of]), length)
        middle = ctx.binary("add", shift, center)
        grown = ctx.unary("exp", ctx.binary("mul", column(target, axis_of + 2), scales[axis_of + 2]))
        half = ctx.binary("mul", ctx.binary("mul", grown, length), 0.5)
        parts[0].append(ctx.binary("sub", middle, half))
        parts[1].append(ctx.binary("sub", ctx.binary("add", middle, half), edge))
    whole = (target.extents[0], prior.extents[0]) if encodes else target.extents[:2]
    columns = [ctx.reshape(ctx.expand(one, whole), (*whole, 1)) for pair in parts for one in pair]
    return ctx.cat(columns, 2, TensorType(prior.dtype, (*whole, 4)))


@converter("nms", takes="a static number of boxes, best first; not in a branch or loop", refuses="categories")
def _nms(ctx: Importer, node: Node) -> Tensor:
    boxes = ctx.tensor(node.inputs[0])
    count = boxes.extents[0]
    if not isinstance(count, int):
        raise Reject(f"nms of {count} boxes", "a static number of boxes, without categories")
    if count > _MOST_BOXES:
        raise Reject(f"nms of {count} boxes", f"at most {_MOST_BOXES}")
    if count == 0:
        return ctx.full(0, "i64", (0,))
    covers = _covers(ctx, boxes, count, float(node.attribute("threshold", 1.0)))
    flag, keep, place = ctx.full(1, "i1"), ctx.full(1, "i1", (count,)), ctx.full(0, "i64")
    types = [x.type for x in (flag, keep, place)]
    with ctx.inner_region(types) as (given, yields):
        yields.append(given[0])
    with ctx.inner_region(types) as (given, yields):
        _, kept, at = given
        index = ctx.reshape(at, (1,))
        row = ctx.emit_one("index_select", [covers, index], TensorType("i1", (1, count)), {"dim": 0})
        own = ctx.emit_one("index_select", [kept, index], TensorType("i1", (1,)), {"dim": 0})
        gone = ctx.binary("logical_and", ctx.reshape(row, (count,)), own)
        after = ctx.binary("add", at, 1)
        left = ctx.binary("logical_and", kept, ctx.unary("logical_not", gone))
        yields.extend([ctx.compare("lt", after, count), left, after])
    return true_places(ctx, ctx.emit("while", [flag, keep, place], types, regions=2)[1])


def _covers(ctx: Importer, boxes: Tensor, count: int, threshold: float) -> Tensor:
    """[count, count]: whether box i, which is before box j, overlaps it by more than the threshold."""
    low, high = (ctx.slice(boxes, 1, first, first + 2, 2) for first in (0, 2))
    sides = ctx.binary("sub", high, low)
    area = ctx.binary("mul", ctx.select(sides, 1, 0), ctx.select(sides, 1, 1))

    def pair(x: Tensor, is_row: bool) -> Tensor:
        return ctx.reshape(x, (count, 1, *x.extents[1:]) if is_row else (1, count, *x.extents[1:]))

    begin = ctx.binary("maximum", pair(low, True), pair(low, False))
    end = ctx.binary("minimum", pair(high, True), pair(high, False))
    shared = ctx.unary("clamp", ctx.binary("sub", end, begin), min=0.0)
    inner = ctx.binary("mul", ctx.select(shared, 2, 0), ctx.select(shared, 2, 1))
    union = ctx.binary("sub", ctx.binary("add", pair(area, True), pair(area, False)), inner)
    over = ctx.compare("gt", ctx.binary("div", inner, union), threshold)
    later = ctx.literal(np.triu(np.ones((count, count), bool), 1), "i1")
    return ctx.binary("logical_and", over, later)


# Regions --------------------------------------------------------------------------------------------------------------


@converter("roi_align", takes="floats; static sizes of the image; regions at most as large as the image where "
           "sampling_ratio is not given")  # fmt: skip
def _roi_align(ctx: Importer, node: Node) -> Tensor:
    """Two products: bilinear samples and their means are weights of rows and columns of the image."""
    x, boxes, counts = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1]), node.input(2)
    if x.dtype not in FLOATS or boxes.dtype != x.dtype:
        raise Reject(f"roi_align of {x.dtype} and {boxes.dtype}", "floats of one type")
    images, channels, (height, width) = known(x.extents[0]), x.extents[1], (known(e) for e in x.extents[2:])
    count, bins = boxes.extents[0], [int(node.attribute(f"pooled_{side}")) for side in ("height", "width")]
    rows = _region_weights(ctx, node, boxes, 1, height, bins[0])
    columns = _region_weights(ctx, node, boxes, 0, width, bins[1])
    if images > 1:
        # The columns of all images stand side by side; those of other images have the weight 0.
        if counts is None:
            raise Reject("roi_align of several images without boxes_num", "boxes_num=")
        own = ctx.cast(_is_of(ctx, ctx.tensor(counts, "i64"), count, images), x.dtype)
        wide = ctx.binary(
            "mul", ctx.reshape(columns, (count, bins[1], 1, width)), ctx.reshape(own, (count, 1, images, 1))
        )
        columns = ctx.reshape(wide, (count, bins[1], images * width))
    across = ctx.reshape(columns, (product_of((count, bins[1])), images * width))
    flat = ctx.reshape(ctx.permute(x, [0, 3, 2, 1]), (images * width, product_of((height, channels))))
    first = ctx.emit_one("matmul", [across, flat], TensorType(x.dtype, (across.extents[0], flat.extents[1])))
    first = ctx.permute(ctx.reshape(first, (count, bins[1], height, channels)), [0, 2, 1, 3])
    first = ctx.reshape(first, (count, height, product_of((bins[1], channels))))
    found = ctx.emit_one("matmul", [rows, first], TensorType(x.dtype, (count, bins[0], first.extents[2])))
    return ctx.permute(ctx.reshape(found, (count, *bins, channels)), [0, 3, 1, 2])


def _is_of(ctx: Importer, counts: Tensor, count: Dim, images: int) -> Tensor:
    """[count, images]: whether a region is of an image, by how many each image has."""
    ends = ctx.reshape(ctx.unary("cumsum", counts, dim=0), (1, images))
    starts = ctx.binary("sub", ends, ctx.reshape(counts, (1, images)))
    numbers = ctx.emit_one("iota", [], TensorType("i64", (count,)), {"start": 0, "step": 1})
    number = ctx.reshape(numbers, (*numbers.extents, 1))
    return ctx.binary("logical_and", ctx.compare("ge", number, starts), ctx.compare("lt", number, ends))


def image_of_regions(ctx: Importer, node: Node, x: Tensor, count: Dim) -> Tensor:
    """[count]: the number of the image that each region is of."""
    images = known(x.extents[0])
    if images == 1:
        return ctx.full(0, "i64", (count,))
    if node.input(2) is None:
        raise Reject(f"{node.op.short} of several images without boxes_num", "boxes_num=")
    own = ctx.cast(_is_of(ctx, ctx.tensor(node.inputs[2], "i64"), count, images), "i64")
    numbers = ctx.literal(np.arange(images).reshape(1, images), "i64")
    return ctx.reduce("sum", ctx.binary("mul", own, numbers), [1], False)


def _region_weights(ctx: Importer, node: Node, boxes: Tensor, axis: int, size: int, bins: int) -> Tensor:
    """[boxes, bins, size]: how much a row (column) of the image counts in a bin of a box."""
    scale, is_aligned = float(node.attribute("spatial_scale", 1.0)), bool(node.attribute("aligned", False))
    shift = 0.5 if is_aligned else 0.0
    count, dtype = boxes.extents[0], boxes.dtype
    low, high = (ctx.binary("mul", ctx.select(boxes, 1, place), scale) for place in (axis, axis + 2))
    length = ctx.binary("sub", high, low)
    if not is_aligned:
        length = ctx.unary("clamp", length, min=1.0)
    bin_size = ctx.binary("div", length, float(bins))
    given = int(node.attribute("sampling_ratio", -1))
    most = given if given > 0 else -(-(size + 2) // bins)
    if most > _MOST_SAMPLES:
        raise Reject(f"roi_align with up to {most} samples along a side of a bin", "sampling_ratio=2, or more bins")
    if given > 0:
        samples: Tensor = ctx.full(float(given), dtype, (count,))
    else:
        samples = ctx.unary("ceil", bin_size)
        fits = ctx.reduce("all", ctx.compare("le", samples, float(most)), [0], False)
        words = f"roi_align: a region is longer than {most * bins} of {size} places, and sampling_ratio is not given"
        ctx.emit("check", [fits], [], {"message": words})
    deep = (count, 1, 1)
    number = ctx.literal(np.arange(most).reshape(1, 1, most), dtype)
    divisor = ctx.reshape(ctx.unary("clamp", samples, min=1.0), deep)
    inner = ctx.binary("div", ctx.binary("add", number, 0.5), divisor)
    place = ctx.binary("add", ctx.literal(np.arange(bins).reshape(1, bins, 1), dtype), inner)
    start = ctx.reshape(ctx.binary("sub", low, shift), deep)
    at = ctx.binary("add", ctx.binary("mul", place, ctx.reshape(bin_size, deep)), start)
    inside = ctx.binary("logical_and", ctx.compare("ge", at, -1.0), ctx.compare("le", at, float(size)))
    used = ctx.binary("logical_and", inside, ctx.compare("lt", number, ctx.reshape(samples, deep)))
    at = ctx.unary("clamp", at, min=0.0, max=float(size - 1))
    share = ctx.where(used, ctx.binary("div", ctx.full(1.0, dtype, deep), divisor), 0.0)
    whole = (count, bins, most, size)
    distance = ctx.binary("sub", _deeper(ctx, at), ctx.literal(np.arange(size), dtype))
    near = ctx.unary("clamp", ctx.binary("sub", ctx.full(1.0, dtype), ctx.unary("abs", distance)), min=0.0)
    weights = ctx.expand(ctx.binary("mul", near, _deeper(ctx, share)), whole)
    return ctx.reduce("sum", weights, [2], False)


def _deeper(ctx: Importer, x: Tensor, ones: Sequence[int] = (1,)) -> Tensor:
    return ctx.reshape(x, (*x.extents, *ones))
