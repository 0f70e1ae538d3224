# SPDX-License-Identifier: Apache-2.0
"""ONNX ops of detectors: NonMaxSuppression and DeformConv."""

from __future__ import annotations

import itertools

import numpy as np

from straightline.capture.builder import Dim, TensorType
from straightline.capture.extents import product_of
from straightline.capture.graph_builder import Reject, Tensor, known
from straightline.capture.onnx.data import true_places
from straightline.capture.onnx.importer import Importer, Node, converter
from straightline.capture.onnx.linear import matmul, padding, windows
from straightline.capture.onnx.spatial import corners

#: Boxes of an image are compared in pairs.
_MOST_BOXES = 4096


def _corners(ctx: Importer, boxes: Tensor, centres: bool) -> list[Tensor]:
    """Low and high y, low and high x of boxes [.., 4]."""
    parts = [ctx.select(boxes, boxes.rank - 1, i) for i in range(4)]
    if centres:  # x, y, width, height
        x, y, w, h = parts
        half_w, half_h = ctx.binary("mul", w, 0.5), ctx.binary("mul", h, 0.5)
        return [ctx.binary(op, c, half) for c, half in ((y, half_h), (x, half_w)) for op in ("sub", "add")]
    y1, x1, y2, x2 = parts
    return [ctx.binary(op, a, b) for a, b in ((y1, y2), (x1, x2)) for op in ("minimum", "maximum")]


def _overlaps(ctx: Importer, corners: list[Tensor], threshold: Tensor) -> Tensor:
    """[.., n, n]: whether two boxes share more than `threshold` of what they cover together."""
    extents = corners[0].extents
    rows = [ctx.reshape(t, (*extents, 1)) for t in corners]
    columns = [ctx.reshape(t, (*extents[:-1], 1, extents[-1])) for t in corners]

    def along(low: int, high: int) -> Tensor:
        end = ctx.binary("minimum", rows[high], columns[high])
        return ctx.binary("maximum", ctx.binary("sub", end, ctx.binary("maximum", rows[low], columns[low])), 0.0)

    def area(t: list[Tensor]) -> Tensor:
        return ctx.binary("mul", ctx.binary("sub", t[1], t[0]), ctx.binary("sub", t[3], t[2]))

    both = ctx.binary("mul", along(0, 1), along(2, 3))
    whole = ctx.binary("sub", ctx.binary("add", area(rows), area(columns)), both)
    share = ctx.binary("div", both, ctx.where(ctx.compare("gt", whole, 0), whole, 1.0))
    return ctx.compare("gt", share, threshold)


@converter("NonMaxSuppression")
def _non_max_suppression(ctx: Importer, node: Node) -> Tensor:
    """By falling score, each box that is still there ends those behind it that overlap it too much."""
    boxes, scores = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1])
    batches, classes, count = known(scores.extents[0]), known(scores.extents[1]), scores.extents[2]
    most = count if isinstance(count, int) or not ctx.is_found(count) else ctx.bounds(count)[1]
    if isinstance(most, int) and most > _MOST_BOXES:
        raise Reject(f"{most} boxes", f"at most {_MOST_BOXES}")
    ctx.same_size(boxes.extents[1], count)
    boxes = ctx.fitted(boxes, (batches, count, 4))
    shape = (batches, classes, count)

    def scalar(place: int, dtype: str) -> Tensor:
        return (
            ctx.full(0, dtype) if node.input(place) is None else ctx.reshape(ctx.tensor(node.inputs[place], dtype), ())
        )

    ordered, order = ctx.ordered(scores, 2, count, True)
    corners = []
    for t in _corners(ctx, boxes, bool(node.attribute("center_point_box", 0))):
        wide = ctx.expand(ctx.reshape(t, (batches, 1, count)), shape)
        corners.append(ctx.emit_one("gather", [wide, order], TensorType(t.dtype, shape), {"dim": 2}))
    overlaps = _overlaps(ctx, corners, scalar(3, boxes.dtype))
    alive = ctx.full(True, "i1", shape)
    if node.input(4) is not None:
        alive = ctx.compare("gt", ordered, scalar(4, scores.dtype))
    alive = _survivors(ctx, alive, overlaps)
    rank = ctx.unary("cumsum", ctx.cast(alive, "i64"), dim=2)
    chosen = ctx.emit_one("logical_and", [alive, ctx.compare("le", rank, scalar(2, "i64"))], alive.type)
    flat = product_of(shape)
    places = true_places(ctx, ctx.reshape(chosen, (flat,)))
    box = ctx.emit_one("index_select", [ctx.reshape(order, (flat,)), places], places.type, {"dim": 0})
    batch = ctx.binary("floor_divide", places, ctx.scalar(classes * count, "i64"))
    label = ctx.binary("remainder", ctx.binary("floor_divide", places, ctx.scalar(count, "i64")), classes)
    columns = [ctx.reshape(t, (places.extents[0], 1)) for t in (batch, label, box)]
    return ctx.cat(columns, 1, TensorType("i64", (places.extents[0], 3)))


def _survivors(ctx: Importer, alive: Tensor, overlaps: Tensor) -> Tensor:
    """The boxes, by falling score, that no survivor before them overlaps."""
    shape = alive.extents
    count = shape[2]
    number = TensorType("i64", ())
    flag = TensorType("i1", ())
    numbers = ctx.expand(ctx.reshape(ctx.iota(count), (1, 1, count)), shape)
    initial = [ctx.full(0, "i64"), alive]
    types = [t.type for t in initial]
    with ctx.inner_region(types) as (values, yields):
        yields.append(ctx.emit_one("lt", [values[0], ctx.scalar(count, "i64")], flag))
    with ctx.inner_region(types) as (values, yields):
        at, old = values
        row = ctx.reshape(ctx.from_place(overlaps, 2, at, 1), shape)
        own = ctx.expand(ctx.from_place(old, 2, at, 1), shape)
        behind = ctx.compare("gt", numbers, at)
        ends = ctx.emit_one("logical_and", [ctx.emit_one("logical_and", [row, own], row.type), behind], row.type)
        stays = ctx.emit_one("logical_not", [ends], ends.type)
        yields.append(ctx.emit_one("add", [at, ctx.full(1, "i64")], number))
        yields.append(ctx.emit_one("logical_and", [old, stays], old.type))
    return ctx.emit("while", initial, types, regions=2)[1]


@converter("DeformConv")
def _deform_conv(ctx: Importer, node: Node) -> Tensor:
    """A convolution whose kernel's places are moved: bilinear samples of the image, then a product for each group."""
    x, weight, offset = (ctx.tensor(t) for t in node.inputs[:3])
    bias = ctx.tensor(node.inputs[3]) if node.input(3) is not None else None
    mask = ctx.tensor(node.inputs[4]) if node.input(4) is not None else None
    n, c, h, w = (known(e) for e in x.extents)
    kernel = [known(e) for e in weight.extents[2:]]
    strides, dilations = windows(node, 2, kernel)
    pads = padding(node, (h, w), kernel, strides, dilations)
    groups, parts = node.attribute("group", 1), node.attribute("offset_group", 1)
    oh, ow = (known(e) for e in offset.extents[2:])
    taps = kernel[0] * kernel[1]
    moved = ctx.reshape(offset, (n, parts, taps, 2, oh, ow))
    at = []
    for d, (count, stride) in enumerate(zip((oh, ow), strides)):
        steps = np.arange(count) * stride - pads[d][0]
        of_tap = np.asarray([place[d] * dilations[d] for place in itertools.product(*(range(k) for k in kernel))])
        side = (1, count, 1) if d == 0 else (1, 1, count)
        base = of_tap[:, None, None] + steps.reshape(side)
        at.append(ctx.binary("add", ctx.select(moved, 3, d), ctx.literal(base.astype(np.float32), x.dtype)))
    sampled = _sampled(
        ctx, ctx.reshape(x, (n, parts, c // parts, h * w)), at, (h, w)
    )  # [n, parts, c / parts, taps, oh, ow]
    if mask is not None:
        sampled = ctx.binary("mul", sampled, ctx.reshape(mask, (n, parts, 1, taps, oh, ow)))
    columns = ctx.reshape(sampled, (n, groups, c // groups * taps, oh * ow))
    outputs = known(weight.extents[0])
    rows = ctx.reshape(weight, (1, groups, outputs // groups, c // groups * taps))
    found = ctx.reshape(matmul(ctx, rows, columns), (n, outputs, oh, ow))
    return found if bias is None else ctx.binary("add", found, ctx.reshape(bias, (outputs, 1, 1)))


def _sampled(ctx: Importer, flat: Tensor, at: list[Tensor], sizes: tuple[int, int]) -> Tensor:
    """Bilinear samples of images [n, p, c, h * w] at places [n, p, taps, oh, ow]; elements outside are 0."""
    n, p, c = flat.extents[:3]
    rest: tuple[Dim, ...] = at[0].extents[2:]
    count = product_of(rest)
    total: Tensor | None = None
    for cells, shares in corners(ctx, at):
        weight: Tensor | None = None
        for cell, part, size in zip(cells, shares, sizes):
            low_end, high_end = ctx.compare("ge", cell, 0), ctx.compare("le", cell, size - 1)
            inside = ctx.emit_one("logical_and", [low_end, high_end], low_end.type)
            part = ctx.where(inside, part, 0.0)
            weight = part if weight is None else ctx.binary("mul", weight, part)
        assert weight is not None
        row, column = (ctx.cast(ctx.unary("clamp", t, min=0.0, max=float(s - 1)), "i64") for t, s in zip(cells, sizes))
        index = ctx.binary("add", ctx.binary("mul", row, sizes[1]), column)
        spread = ctx.expand(ctx.reshape(index, (n, p, 1, count)), (n, p, c, count))
        element = ctx.emit_one("gather", [flat, spread], TensorType(flat.dtype, (n, p, c, count)), {"dim": 3})
        term = ctx.binary("mul", ctx.reshape(element, (n, p, c, *rest)), ctx.reshape(weight, (n, p, 1, *rest)))
        total = term if total is None else ctx.binary("add", total, term)
    assert total is not None
    return total
