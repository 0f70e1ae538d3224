# SPDX-License-Identifier: Apache-2.0
"""Attention that `torch.onnx.export` takes apart: torch's own op again, so that both have the same kernels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from straightline.capture.builder import Dim, TensorType
from straightline.capture.graph_builder import FLOATS, Tensor
from straightline.capture.onnx.importer import Importer, Node
from straightline.capture.onnx.values import Known, Value

#: Fixed sizes for which products and a softmax take less time than one kernel on a CPU: causal ones of so few scores a head (the
#: kernel's time over theirs: 32 queries 1.16 to 1.29, 64 0.95 to 1.10, 128 0.90, 512 0.42 to 0.55), and without a mask unless
#: there are so many keys a query (1 query: 16 keys 0.83, 128 keys 0.57; 16: 512 keys 0.85; 64 of each 1.05, 197 of each 1.39).
#: Devices have a pass that makes one kernel of products.
_MOST_CAUSAL = 1 << 11
_KEYS_A_QUERY = 16
#: Numbers below this one are what scores get that a mask drops.
_DROPPED = {"f64": -1e38, "f32": -1e38, "bf16": -1e38, "f16": -6e4}


def attention(ctx: Importer, product: Node) -> Tensor | None:
    """The result of a product of a softmax and values, where the exporter made it of scaled_dot_product_attention.

    It scales queries and keys alike, by the root of the scale: (q * r) @ (k^T * r), perhaps plus a mask, softmax, perhaps 0 where
    that is NaN. What a model writes by itself stays what it is.
    """
    weights, values = product.inputs
    only_once = [product.proto.input[0]]
    softmax = ctx.made(weights, "Softmax")
    no_nan = None if softmax is not None else ctx.made(weights, "Where")
    if no_nan is not None:
        softmax = _without_nan(ctx, no_nan)
        if ctx.reads.get(no_nan.proto.input[2]) != 2:
            return None
    if softmax is None or not isinstance(values, Tensor):
        return None
    only_once.append(softmax.proto.input[0])
    scores, mask = ctx.made(softmax.inputs[0], "MatMul"), None
    if scores is None and (sum_ := ctx.made(softmax.inputs[0], "Add")) is not None:
        for place in (0, 1):
            if scores is None and (scores := ctx.made(sum_.inputs[place], "MatMul")) is not None:
                mask = sum_.inputs[1 - place]
                only_once.append(sum_.proto.input[place])
    if scores is None or any(ctx.reads.get(name) != 1 for name in only_once):
        return None
    q, turned = (_scaled(ctx, value) for value in scores.inputs)
    if q is None or turned is None or q[1] != turned[1]:
        return None
    if softmax.attribute("axis", -1) not in (-1, q[0].rank - 1):
        return None
    return _attention(ctx, q[0], turned[0], values, mask, q[1] ** 2, no_nan is None)


def _without_nan(ctx: Importer, choice: Node) -> Node | None:
    """The softmax of where(isnan(softmax), 0, softmax)."""
    condition, zero, other = choice.inputs
    asked = ctx.made(condition, "IsNaN")
    if asked is None or asked.inputs[0] is not other or not (isinstance(zero, Known) and not zero.array.any()):
        return None
    return ctx.made(other, "Softmax")


def _scaled(ctx: Importer, value: Value | None) -> tuple[Tensor, float] | None:
    """What a value is a literal times."""
    product = ctx.made(value, "Mul")
    for x, factor in (product.inputs, product.inputs[::-1]) if product is not None else ():
        number = _number(factor)
        if number is not None and not factor.is_sizes and isinstance(x, Tensor):
            return x, float(number)
    return None


def _number(value: Value | None) -> Any:
    """The only element of a constant; None: the value is none, or has several."""
    return value.array.item() if isinstance(value, Known) and value.array.size == 1 else None


def _attention(
    ctx: Importer, q: Tensor, turned: Tensor, v: Tensor, mask: Value | None, scale: float, empty_is_nan: bool
) -> Tensor | None:
    """The op, if it takes operands of these types."""
    if q.rank not in (3, 4) or not q.rank == turned.rank == v.rank or q.dtype not in FLOATS:
        return None
    width, keys = q.extents[-1], turned.extents[-1]
    fits = q.extents[:-2] == turned.extents[:-2] == v.extents[:-2] and v.extents[-2] == keys
    fits = fits and isinstance(width, int) and width == turned.extents[-2] == v.extents[-1]
    if not fits or not q.dtype == turned.dtype == v.dtype or not (scale > 0 and math.isfinite(scale)):
        return None
    scores = TensorType(q.dtype, (*q.extents[:-1], keys))
    is_causal = mask is not None and _is_causal(ctx, mask, scores)
    if _is_faster_in_parts(scores.extents[-2], keys, is_causal, mask is not None):
        return None
    added = None
    if mask is not None and not is_causal:
        kept = _kept(ctx, mask)
        added = ctx.tensor(mask) if kept is None else kept
        if added.rank > q.rank or any(
            own not in (1, all_) for own, all_ in zip(added.extents[::-1], scores.extents[::-1])
        ):
            return None
        added = ctx.expand(added, scores.extents)
    k = ctx.permute(turned, [*range(q.rank - 2), q.rank - 1, q.rank - 2])
    how = {"is_causal": is_causal, "scale": scale} | (
        {"empty_is_nan": True} if empty_is_nan and added is not None else {}
    )
    return ctx.emit_one("scaled_dot_product_attention", [q, k, v, added], q.type, how)


def _is_faster_in_parts(queries: Dim, keys: Dim, is_causal: bool, has_mask: bool) -> bool:
    """Whether products and a softmax take less time; of sizes that only a call knows they do not."""
    if not isinstance(queries, int) or not isinstance(keys, int):
        return False
    if is_causal:
        return queries * keys <= _MOST_CAUSAL
    return not has_mask and _KEYS_A_QUERY * queries > keys


def _kept(ctx: Importer, mask: Value) -> Tensor | None:
    """The condition of where(condition, 0, -infinity); the largest negative number would leave a row of it as it is."""
    choice = ctx.made(mask, "Where")
    if choice is None:
        return None
    condition, kept, dropped = choice.inputs
    return condition if [_number(kept), _number(dropped)] == [0, -math.inf] and isinstance(condition, Tensor) else None


def _is_causal(ctx: Importer, mask: Value, scores: TensorType) -> bool:
    """Whether a mask drops the keys behind each query: a constant, or where(trilu(1s) == 0, -infinity, 0) of named sizes.

    A query sees the first key at least, so the largest negative number is as good as -infinity.
    """
    low = _DROPPED[scores.dtype]
    if isinstance(mask, Known) and not mask.is_sizes:
        array = mask.array
        if array.shape[-2:] != scores.extents[-2:] or array.size != math.prod(array.shape[-2:]):
            return False
        seen = np.tri(*array.shape[-2:], dtype=bool)
        flat = array.reshape(seen.shape)
        return bool((flat[seen] == 0).all() and (flat[~seen] < low).all())
    choice = ctx.made(mask, "Where")
    asked = ctx.made(choice.inputs[0], "Equal") if choice is not None else None
    if choice is None or asked is None or ctx.type_of(mask).extents != scores.extents[-2:]:
        return False
    numbers = [_number(x) for x in (*choice.inputs[1:], *asked.inputs)]
    triangle = ctx.made(asked.inputs[0], "Trilu")
    if triangle is None or triangle.attribute("upper", 1) or triangle.input(1) is not None or numbers[3] != 0:
        return False
    ones = ctx.made(triangle.inputs[0], "Expand")
    every = isinstance(one := ones.inputs[0], Known) and bool((one.array == 1).all()) if ones is not None else False
    return every and numbers[1] == 0 and numbers[0] is not None and numbers[0] < low
