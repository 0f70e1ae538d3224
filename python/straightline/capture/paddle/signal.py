# SPDX-License-Identifier: Apache-2.0
"""Paddle's frames of signals, and sums of overlapping ones (paddle.signal)."""

from __future__ import annotations

import numpy as np

from straightline.capture.builder import TensorType
from straightline.capture.graph_builder import Reject, Tensor, known
from straightline.capture.paddle.importer import Importer, Node, converter


def _places(length: int, count: int, hop: int, is_last: bool) -> np.ndarray:
    """[length, count] (of the last axis), or [count, length]: where each frame's elements are."""
    within, begin = np.arange(length), np.arange(count) * hop
    return np.add.outer(within, begin) if is_last else np.add.outer(begin, within)


@converter("frame", takes="static sizes along the axis, the first or the last one")
def _frame(ctx: Importer, node: Node) -> Tensor:
    x, length, hop = ctx.tensor(node.inputs[0]), int(node.attribute("frame_length")), int(node.attribute("hop_length"))
    axis = ctx.axis(int(node.attribute("axis", -1)), x.rank)
    is_last = int(node.attribute("axis", -1)) != 0
    size = known(x.extents[axis])
    if not 0 < length <= size or hop < 1:
        raise Reject(f"frames of {length} elements, {hop} apart, of {size}", f"a length of 1 to {size}")
    at = _places(length, ctx.places((size - length) // hop + 1, "frames"), hop, is_last)
    ctx.places(at.size, "elements of frames")
    index = ctx.literal(at.reshape(-1), "i64")
    flat = TensorType(x.dtype, tuple(at.size if d == axis else e for d, e in enumerate(x.extents)))
    found = ctx.emit_one("index_select", [x, index], flat, {"dim": axis})
    return ctx.reshape(found, (*x.extents[:axis], *at.shape, *x.extents[axis + 1 :]))


@converter("overlap_add", takes="static sizes of the frames, along the first or the last axis")
def _overlap_add(ctx: Importer, node: Node) -> Tensor:
    x, hop = ctx.tensor(node.inputs[0]), int(node.attribute("hop_length"))
    is_last = int(node.attribute("axis", -1)) != 0
    axis = x.rank - 2 if is_last else 0
    length, count = (known(e) for e in x.extents[axis : axis + 2])
    if not is_last:
        length, count = count, length
    if min(length, count, hop) < 1:
        raise Reject(f"sums of {count} frames of {length} elements, {hop} apart", "1 or more")
    at = _places(length, count, hop, is_last)
    size = ctx.places((count - 1) * hop + length, "elements of a signal")
    values = ctx.reshape(x, (*x.extents[:axis], at.size, *x.extents[axis + 2 :]))
    index = ctx.reshape(ctx.literal(at.reshape(-1), "i64"), [at.size if d == axis else 1 for d in range(values.rank)])
    into = ctx.full(0, x.dtype, tuple(size if d == axis else e for d, e in enumerate(values.extents)))
    operands = [into, ctx.expand(index, values.extents), values]
    return ctx.emit_one("scatter", operands, into.type, {"dim": axis, "reduce": "sum"})
