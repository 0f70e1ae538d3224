# SPDX-License-Identifier: Apache-2.0
"""Paddle's ops of attention. What its Python writes as products and a softmax, the compiler makes one op (fuse-attention)."""

from __future__ import annotations

import math

from straightline.capture.builder import TensorType
from straightline.capture.graph_builder import Reject, Tensor
from straightline.capture.paddle.importer import Importer, Node, converter

#: Places of the mask and names of the causal flag.
_FORMS = {"flash_attn": (4, "causal"), "memory_efficient_attention": (3, "causal")}


@converter("flash_attn", "memory_efficient_attention", takes="[b, s, h, d] of floats, an additive mask, causal",
           refuses="dropout in training")  # fmt: skip
def _flash(ctx: Importer, node: Node) -> list[Tensor | None]:
    query, key, value = (ctx.permute(ctx.tensor(t), [0, 2, 1, 3]) for t in node.inputs[:3])
    place, flag = _FORMS[node.op.short]
    if node.attribute("dropout", node.attribute("dropout_p", 0.0)) and not node.attribute("is_test", True):
        raise Reject("attention with dropout: the program is in training mode", "layer.eval()")
    width = query.extents[3]
    if not isinstance(width, int):
        raise Reject("attention over heads of a named size", "a constant size")
    mask = ctx.tensor(node.input(place), query.dtype) if node.input(place) is not None else None
    if mask is not None:
        mask = ctx.expand(mask, ctx.common(mask.extents, (*query.extents[:3], key.extents[2])))
    scale = float(node.attribute("scale") or 0.0)
    scale = scale if scale > 0 else 1.0 / math.sqrt(width)
    type = TensorType(query.dtype, (*query.extents[:3], value.extents[3]))
    attributes = {"is_causal": bool(node.attribute(flag, False)), "scale": scale}
    found = ctx.emit_one("scaled_dot_product_attention", [query, key, value, mask], type, attributes)
    return [ctx.permute(found, [0, 2, 1, 3]), None, None, None]
