# SPDX-License-Identifier: Apache-2.0
"""Attention: Paddle's ops of it, and what its Python writes as scale, product, mask, softmax and product, as one op.

The ops in between are converted too; nothing reads them then, and the compiler leaves them out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from straightline.capture.builder import TensorType, Unit
from straightline.capture.graph_builder import FLOATS, Reject, Tensor
from straightline.capture.paddle import pir
from straightline.capture.paddle.importer import Importer, Node, converter
from straightline.capture.paddle.values import Known


@dataclass
class _Scores:
    """What the scores of attention are made of, by numbers of values; 0: no mask."""

    query: int
    key: int
    scale: float
    mask: int = 0


def _through(ctx: Importer, number: int) -> pir.Op | None:
    """The op that makes a value, past dropout in inference; None where anything else reads it."""
    while ctx.uses.get(number) == 1:
        op = ctx.makers.get(number)
        if op is None or op.short != "dropout" or op.attributes.get("mode") == "downgrade_in_infer":
            return op
        if not op.attributes.get("is_test"):
            return None
        number = op.operands[0]
    return None


def _scale_of(ctx: Importer, op: pir.Op) -> float | None:
    factor = ctx.values.get(op.operands[1]) if len(op.operands) > 1 else None
    if op.attributes.get("bias") or not isinstance(factor, Known) or factor.array.size != 1 or factor.is_sizes:
        return None
    return float(factor.array.reshape(-1)[0])


def _scores(ctx: Importer, number: int) -> _Scores | None:
    """The form of what the softmax reads."""
    op, mask, scale = _through(ctx, number), 0, 1.0
    if op is not None and op.short == "add":
        mask, op = op.operands[1], _through(ctx, op.operands[0])
    if op is not None and op.short == "scale":
        factor = _scale_of(ctx, op)
        if factor is None:
            return None
        scale, op = factor, _through(ctx, op.operands[0])
    if op is None or op.short != "matmul" or op.attributes.get("transpose_x") or not op.attributes.get("transpose_y"):
        return None
    query, key = op.operands[:2]
    inner = ctx.makers.get(query)
    if inner is not None and inner.short == "scale" and (factor := _scale_of(ctx, inner)) is not None:
        scale, query = scale * factor, inner.operands[0]
    return _Scores(query, key, scale, mask)


def of_product(ctx: Importer, node: Node, value: Tensor) -> Tensor | None:
    """Attention whose last product this is; None where it is another product."""
    if ctx.memory:
        return None  # what the first product read may be another value by now
    softmax = _through(ctx, node.op.operands[0])
    if (
        softmax is None
        or softmax.short != "softmax"
        or value.rank != 4
        or softmax.attributes.get("axis") not in (-1, 3)
    ):
        return None
    if node.attribute("transpose_x") or node.attribute("transpose_y"):
        return None
    found = _scores(ctx, softmax.operands[0])
    if found is None:
        return None
    query, key = ctx.values.get(found.query), ctx.values.get(found.key)
    mask = ctx.values.get(found.mask) if found.mask else None
    if not isinstance(query, Tensor) or not isinstance(key, Tensor) or query.dtype not in FLOATS:
        return None
    return _attention(ctx, query, key, value, None if mask is None else ctx.tensor(mask), found.scale)


def _attention(
    ctx: Importer, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float
) -> Tensor | None:
    """The one op of [b, h, s, d] tensors; None where these have no such form."""
    same = query.extents[:2] == key.extents[:2] == value.extents[:2] and query.dtype == key.dtype == value.dtype
    if not same or query.extents[3] != key.extents[3] or key.extents[2] != value.extents[2]:
        return None
    if not isinstance(query.extents[3], int) or query.extents[3] != value.extents[3]:
        return None
    attributes: dict[str, Any] = {"is_causal": False, "scale": float(scale)}
    if mask is not None:
        wanted = (*query.extents[:3], key.extents[2])
        if mask.rank > 4 or mask.dtype != query.dtype:
            return None
        try:
            if ctx.common(mask.extents, wanted) != wanted:
                return None
        except Reject:
            return None
        mask = ctx.expand(mask, wanted)
        attributes["empty_is_nan"] = Unit()
    type = TensorType(query.dtype, (*query.extents[:3], value.extents[3]))
    return ctx.emit_one("scaled_dot_product_attention", [query, key, value, mask], type, attributes)


@converter("flash_attn", takes="[b, s, h, d] of floats, an additive mask, causal",
           refuses="dropout in training")  # fmt: skip
def _flash(ctx: Importer, node: Node) -> list[Tensor | None]:
    query, key, value = (ctx.permute(ctx.tensor(t), [0, 2, 1, 3]) for t in node.inputs[:3])
    if node.attribute("dropout", 0.0) and not node.attribute("is_test", True):
        raise Reject("attention with dropout: the program is in training mode", "layer.eval()")
    width = query.extents[3]
    if not isinstance(width, int):
        raise Reject("attention over heads of a named size", "a constant size")
    mask = ctx.tensor(node.input(4), query.dtype) if node.input(4) is not None else None
    if mask is not None:
        mask = ctx.expand(mask, ctx.common(mask.extents, (*query.extents[:3], key.extents[2])))
    scale = float(node.attribute("scale") or 0.0)
    scale = scale if scale > 0 else 1.0 / math.sqrt(width)
    type = TensorType(query.dtype, (*query.extents[:3], value.extents[3]))
    attributes = {"is_causal": bool(node.attribute("causal", False)), "scale": scale}
    found = ctx.emit_one("scaled_dot_product_attention", [query, key, value, mask], type, attributes)
    return [ctx.permute(found, [0, 2, 1, 3]), None, None, None]
