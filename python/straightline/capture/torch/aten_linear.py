# SPDX-License-Identifier: Apache-2.0
"""ATen matrix products, attention and recurrent layers."""

from __future__ import annotations

import math
from typing import Any

import torch

from straightline.capture.builder import Dim, Extent, TensorType
from straightline.capture.extents import broadcast, product_of
from straightline.capture.graph_builder import FLOATS, Reject, Tensor, known
from straightline.capture.torch.fixed_values import CAUSAL, kept_by_mask
from straightline.capture.torch.importer import NEAREST, Arguments, Importer, converter, training_error
from straightline.errors import UserError

NEAREST.update(
    {
        f"aten.{op}": f"nn.{layer} over a padded tensor, not over a packed sequence"
        for op, layer in (("gru", "GRU"), ("lstm", "LSTM"), ("rnn_tanh", "RNN"), ("rnn_relu", "RNN"))
    }
)


def needs_native_floats(what: str, x: Tensor) -> None:
    """Rejects operands that no native kernel multiplies."""
    if x.dtype not in FLOATS:
        raise Reject(f"{what} of {x.dtype}, native kernels have floats", "float32")


def _linear(ctx: Importer, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    needs_native_floats("linear", x)
    x = ctx.same(x, (*x.extents[:-1], weight.extents[-1]))
    type = TensorType(x.dtype, (*x.extents[:-1], weight.extents[0]))
    if bias is not None:  # torch broadcasts it
        bias = ctx.expand(bias, weight.extents[:1])
    return ctx.emit_one("linear", [x, weight, bias], type)


@converter("aten.linear.default")
def _linear_default(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    if a.weight.rank != 2:
        raise Reject(f"linear with a weight of rank {a.weight.rank}", "a weight of rank 2")
    return _linear(ctx, a.input, a.weight, a.bias)


def matmul(ctx: Importer, x: Tensor, y: Tensor) -> Tensor:
    """torch.matmul of any ranks as an `op.matmul` whose operands have equal batch dimensions."""
    lead_x, lead_y = x.rank == 1, y.rank == 1
    x = ctx.reshape(x, (1, *x.extents)) if lead_x else x
    y = ctx.reshape(y, (*y.extents, 1)) if lead_y else y
    if y.rank == 2 and x.rank > 2:  # one product of all rows, as torch does it
        rows = _rows(x.extents[:-1])
        if rows is not None:
            flat = _matmul(ctx, ctx.reshape(x, (rows, x.extents[-1])), y)
            result = ctx.reshape(flat, (*x.extents[:-1], y.extents[-1]))
            return _drop_vector_dims(ctx, result, lead_x, lead_y)
    batch = broadcast(x.extents[:-2], y.extents[:-2])
    x = ctx.expand(x, (*batch, *x.extents[-2:]))
    y = ctx.expand(y, (*batch, *y.extents[-2:]))
    return _drop_vector_dims(ctx, _matmul(ctx, x, y), lead_x, lead_y)


def _matmul(ctx: Importer, x: Tensor, y: Tensor) -> Tensor:
    needs_native_floats("matmul", x)
    if x.rank > 5:
        raise Reject(f"matmul of rank {x.rank}, native kernels have up to 5", "three batch dims")
    if not ctx.target.supports("sums_named_extents") and not isinstance(x.extents[-1], int):
        raise Reject(
            f"matmul over the named extent {x.extents[-1]}, which this target has no kernel for",
            "products over a static dim",
        )
    if x.extents[-1] != y.extents[-2]:  # sizes that depend on data, of which torch says that they are equal
        y = ctx.same(y, (*y.extents[:-2], x.extents[-1], y.extents[-1]))
    return ctx.emit_one("matmul", [x, y], TensorType(x.dtype, (*x.extents[:-1], y.extents[-1])))


def _drop_vector_dims(ctx: Importer, x: Tensor, row: bool, column: bool) -> Tensor:
    extents = list(x.extents)
    if column:
        del extents[-1]
    if row:
        del extents[-1 if column else -2]
    return ctx.reshape(x, extents)


def _rows(extents: tuple[Dim, ...]) -> Dim | None:
    """The product of static sizes and at most one named symbol; None for more."""
    named = [e for e in extents if isinstance(e, Extent)]
    if len(named) > 1 or (named and not named[0].text.isidentifier()):
        return None
    return product_of(extents)


@converter("aten.matmul.default")
def _matmul_default(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    return matmul(ctx, a.self, a.other)


@converter("aten.mm.default", "aten.bmm.default")
def _mm(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    return _matmul(ctx, a.self, a.get("mat2"))


@converter("aten._grouped_mm.default")
def _grouped_mm(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    if a.bias is not None:  # torch refuses it, too
        raise Reject("_grouped_mm with a bias", "a bias that is added to the result")
    x, y, type = a.self, a.get("mat2"), ctx.result_type(node)
    if type.dtype != x.dtype:
        raise Reject(f"_grouped_mm of {x.dtype} with a result of {type.dtype}", "a result of the operands' type")
    return _grouped(ctx, x, y, a.offs)


@converter("transformers.grouped_mm_fallback.default")
def _grouped_mm_of_transformers(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    """Converts the op that `transformers` uses where torch lacks `_grouped_mm`, or has it for bfloat16 only."""
    return _grouped(ctx, a.input, a.weight, a.offs)


def _grouped(ctx: Importer, x: Tensor, y: Tensor, ends: Tensor | None) -> Tensor:
    """Products of groups: of rows of x, of columns of y, of the terms of their sums, or of the matrices of both."""
    if ends is None:
        return _matmul(ctx, x, y)
    if x.dtype not in FLOATS or x.dtype == "f64":
        raise Reject(f"grouped_mm of {x.dtype}", "float32 or 16-bit floats")
    if x.rank == 3 and y.rank == 2:  # groups of columns are groups of rows of the transposed product
        turned = _grouped(ctx, ctx.permute(y, [1, 0]), ctx.permute(x, [0, 2, 1]), ends)
        return ctx.permute(turned, [1, 0])
    if x.rank != 2 or y.rank not in (2, 3):
        raise Reject(f"grouped_mm of rank {x.rank} and {y.rank} with ends", "rank 2 and 3, 3 and 2, or 2 and 2")
    if y.rank == 2:  # groups of terms
        if not isinstance(ends.extents[0], int):
            raise Reject(f"grouped_mm with {ends.extents[0]} groups", "a static number of groups")
        if not isinstance(y.extents[0], int) and not ctx.target.supports("sums_named_groups"):
            raise Reject(
                f"grouped_mm over the named extent {y.extents[0]}, which this target has no kernel for", "a static size"
            )
        type = TensorType(x.dtype, (ends.extents[0], x.extents[0], y.extents[1]))
        return ctx.emit_one("grouped_matmul", [x, y, ends], type)
    if not all(isinstance(extent, int) for extent in y.extents):
        raise Reject(f"grouped_mm by {list(y.extents)}", "matrices of static sizes")
    type = TensorType(x.dtype, (x.extents[0], y.extents[2]))
    return ctx.emit_one("grouped_matmul", [x, y, ends], type)


@converter("aten.mv.default", "aten.dot.default")
def _mv(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    return matmul(ctx, a.self, a.get("vec", a.get("tensor")))


@converter("aten._int_mm.default")
def _int_mm(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    return int8_linear(ctx, a.self, ctx.permute(a.mat2, [1, 0]), node)


def int8_linear(ctx: Importer, x: Tensor, weight: Tensor, node: torch.fx.Node) -> Tensor:
    """The product of x [m, k] of int8 or uint8 and weight [n, k] of int8, summed in int32."""
    if x.dtype not in ("i8", "ui8") or weight.dtype != "i8":
        raise Reject(f"a product of {x.dtype} and {weight.dtype}, native kernels have i8 and i8", "int8 and int8")
    if not ctx.target.supports("multiplies_bytes"):
        raise Reject("a product of int8, for which the target has no kernels", "bfloat16 or float16")
    if not all(isinstance(extent, int) and extent > 0 for extent in weight.extents):
        n, k = weight.extents
        raise Reject(f"a product of int8 with n={n} and k={k}", "static sizes of at least 1")
    type = TensorType("i32", (x.extents[0], weight.extents[0]))
    if x.dtype == "i8":
        return ctx.emit_one("linear", [x, weight], type)
    # Flipping the highest bit of an unsigned byte gives the signed byte that is 128 less, so 128 times the sums of the
    # weight's rows are added.
    flipped = ctx.emit_one("bitwise_xor", [x, ctx.full(128, "ui8", x.extents)], x.type)
    product = ctx.emit_one("linear", [ctx.cast(flipped, "i8"), weight], type)
    rows = ctx.emit_one(
        "sum", [ctx.cast(weight, "i64")], TensorType("i64", weight.extents[:1]), {"dims": [1], "keepdim": False}
    )
    scaled = ctx.emit_one("mul", [rows, ctx.full(128, "i64", rows.extents)], rows.type)
    return ctx.emit_one("add", [product, ctx.expand(ctx.cast(scaled, "i32"), type.extents)], type)


def _transposed(node: Any) -> torch.fx.Node | None:
    """The matrix that an FX node transposes, if that is what it does."""
    if not isinstance(node, torch.fx.Node):
        return None
    name = str(node.target)
    if name == "aten.t.default":
        return node.args[0]
    if name == "aten.permute.default" and list(node.args[1]) == [1, 0]:
        return node.args[0]
    if name == "aten.transpose.int" and set(node.args[1:]) in ({0, 1}, {-1, -2}):
        return node.args[0]
    return None


@converter("aten.addmm.default")
def _addmm(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    weight = _transposed(node.args[2])
    if weight is not None and a.self.rank == 1 and a.alpha == 1 and a.beta == 1:
        return _linear(ctx, a.mat1, ctx.environment[weight], a.self)
    return _scaled_sum(ctx, a, _matmul(ctx, a.mat1, a.mat2))


@converter("aten.baddbmm.default")
def _baddbmm(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    return _scaled_sum(ctx, a, _matmul(ctx, a.batch1, a.batch2))


def _scaled_sum(ctx: Importer, a: Arguments, product: Tensor) -> Tensor:
    """Computes beta * self + alpha * product."""
    type = product.type
    if a.alpha != 1:
        product = ctx.emit_one("mul", [product, ctx.operand(a.alpha, type)], type)
    if a.beta == 0:
        return product
    term = ctx.operand(a.self, type)
    if a.beta != 1:
        term = ctx.emit_one("mul", [term, ctx.operand(a.beta, type)], type)
    return ctx.emit_one("add", [term, product], type)


# Attention ------------------------------------------------------------------------------------------------------------


@converter("aten.scaled_dot_product_attention.default")
def _attention(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    if a.dropout_p:
        raise training_error(f"attention dropout of {a.dropout_p}", ctx.location)
    q, k, v = a.query, a.key, a.value
    width = q.extents[-1]
    if a.scale is None and not isinstance(width, int):
        raise Reject("attention over a dynamic head size", "a constant head size")
    # With grouped queries, k and v keep their smaller number of heads (dimension -3), if it is one.
    lead = -3 if a.enable_gqa else -2
    if a.enable_gqa and k.extents[-3] != v.extents[-3]:
        k, v = (_repeated_heads(ctx, x, q.extents[-3]) for x in (k, v))
    batch = broadcast(broadcast(q.extents[:lead], k.extents[:lead]), v.extents[:lead])
    q, k, v = (ctx.expand(x, (*batch, *x.extents[lead:])) for x in (q, k, v))
    v = ctx.same(v, (*v.extents[:-2], k.extents[-2], v.extents[-1]))
    if not isinstance(width, int) or not isinstance(v.extents[-1], int):
        raise Reject("attention over a dynamic head size", "a constant head size")
    mask, is_causal = a.attn_mask, bool(a.is_causal)
    if mask is not None and mask.rank >= 2 and mask.extents[-2:] == (q.extents[-2], k.extents[-2]):
        kept = _kept(ctx, node)
        mask = mask if kept is None else None
        is_causal |= kept == CAUSAL
    if q.rank > 4:
        q, k, v, mask = _of_rank_4(ctx, q, k, v, mask)
    if q.rank == 4 and not (isinstance(q.extents[1], int) and isinstance(k.extents[1], int)):
        q, k, v, mask = _of_one_head(ctx, q, k, v, mask)
    if mask is not None:  # boolean (True attends) or added to the scores
        mask = ctx.expand(mask, (*q.extents[:-1], k.extents[-2]))
    scale = float(a.scale) if a.scale is not None else 1.0 / math.sqrt(width) if width else 1.0
    if width == v.extents[-1]:
        result = _attend(ctx, q, k, v, mask, is_causal, scale)
    else:
        result = _of_two_widths(ctx, q, k, v, mask, is_causal, scale)
    return ctx.reshape(result, ctx.result_type(node).extents)


def _repeated_heads(ctx: Importer, x: Tensor, heads: Dim) -> Tensor:
    """Each head as often as so many heads of queries have it."""
    *batch, own, rows, width = x.extents
    if own == heads:
        return x
    if not isinstance(own, int) or not isinstance(heads, int):
        raise Reject(f"attention of {heads} heads over {own}", "constant numbers of heads")
    apart = ctx.expand(ctx.reshape(x, (*batch, own, 1, rows, width)), (*batch, own, heads // own, rows, width))
    return ctx.reshape(apart, (*batch, heads, rows, width))


def _kept(ctx: Importer, node: torch.fx.Node) -> str | None:
    """Which scores an attention's mask keeps, where it depends on no input. All layers of a model may have the same mask."""
    mask = node.args[3] if len(node.args) > 3 else node.kwargs["attn_mask"]
    if mask not in ctx.kept_by_mask:
        ctx.kept_by_mask[mask] = kept_by_mask(mask)
    return ctx.kept_by_mask[mask]


def _attend(
    ctx: Importer, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, is_causal: bool, scale: float
) -> Tensor:
    type = TensorType(q.dtype, (*q.extents[:-1], v.extents[-1]))
    attributes = {"is_causal": is_causal, "scale": scale}
    return ctx.emit_one("scaled_dot_product_attention", [q, k, v, mask], type, attributes)


def _of_two_widths(
    ctx: Importer, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, is_causal: bool, scale: float
) -> Tensor:
    """Attention whose values and keys differ in width: as matrix products, or with the narrower ones padded by zeros.

    Products round scores to the element type, leave rows that see nothing to softmax, and sum over the keys.
    """
    is_counted = isinstance(k.extents[-2], int) or ctx.target.supports("sums_named_extents")
    if mask is None and q.dtype in ("f32", "f64") and is_counted and q.rank >= 3:
        return _products(ctx, q, k, v, is_causal, scale)
    width = max(known(q.extents[-1]), known(v.extents[-1]))
    wide = [_widened(ctx, x, width) for x in (q, k, v)]
    result = _attend(ctx, wide[0], wide[1], wide[2], mask, is_causal, scale)
    return ctx.slice(result, result.rank - 1, 0, known(v.extents[-1]), v.extents[-1])


def _products(ctx: Importer, q: Tensor, k: Tensor, v: Tensor, is_causal: bool, scale: float) -> Tensor:
    (queries, width), keys = q.extents[-2:], k.extents[-2]
    outer = k.extents[:-2]
    # The queries of all heads that share keys are the rows of one product.
    rows = queries if q.extents[-3] == outer[-1] else queries * (known(q.extents[-3]) // known(outer[-1]))
    scaled = ctx.emit_one("mul", [q, ctx.operand(scale, q.type)], q.type)
    turned = ctx.permute(k, [*range(k.rank - 2), k.rank - 1, k.rank - 2])
    scores = _matmul(ctx, ctx.reshape(scaled, (*outer, rows, width)), turned)
    scores = ctx.reshape(scores, (*q.extents[:-1], keys))
    if is_causal:
        place = [ctx.emit_one("iota", [], TensorType("i64", (n,)), {"start": 0, "step": 1}) for n in (queries, keys)]
        row, column = ctx.reshape(place[0], (queries, 1)), ctx.reshape(place[1], (1, keys))
        sides = [ctx.expand(x, (queries, keys)) for x in (row, column)]
        seen = ctx.expand(ctx.emit_one("ge", sides, TensorType("i1", (queries, keys))), scores.extents)
        scores = ctx.emit_one("where", [seen, scores, ctx.operand(-math.inf, scores.type)], scores.type)
    weights = ctx.emit_one("softmax", [scores], scores.type, {"dim": scores.rank - 1})
    result = _matmul(ctx, ctx.reshape(weights, (*outer, rows, keys)), v)
    return ctx.reshape(result, (*q.extents[:-1], v.extents[-1]))


def _widened(ctx: Importer, x: Tensor, width: int) -> Tensor:
    missing = width - known(x.extents[-1])
    if not missing:
        return x
    type = TensorType(x.dtype, (*x.extents[:-1], width))
    return ctx.emit_one("constant_pad_nd", [x], type, {"pad": [0, missing], "value": 0.0})


def _of_rank_4(
    ctx: Importer, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Queries, keys, values and mask with all dims but the last three as one."""
    outer = q.extents[:-3]
    count = _rows(outer)
    if count is None:
        raise Reject(f"attention of rank {q.rank} with two named extents outside", "rank 4")
    q, k, v = (ctx.reshape(x, (count, *x.extents[-3:])) for x in (q, k, v))
    if mask is not None and any(extent != 1 for extent in mask.extents[:-3]):
        mask = ctx.expand(mask, (*outer, *mask.extents[-3:]))
        mask = ctx.reshape(mask, (count, *mask.extents[-3:]))
    elif mask is not None:
        mask = ctx.reshape(mask, mask.extents[-3:])
    return q, k, v, mask


def _of_one_head(
    ctx: Importer, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Queries, keys, values and mask with a named number of heads, as more rows of one head: kernels need a constant number."""
    (batch, heads), others = q.extents[:2], k.extents[1]
    count = _rows((batch, heads))
    if heads != others:
        raise Reject(f"attention of {heads} heads over {others}", "constant numbers of heads")
    if count is None:
        raise Reject("attention with a named batch size and a named number of heads", "one of them constant")
    q, k, v = (ctx.reshape(x, (count, 1, *x.extents[2:])) for x in (q, k, v))
    if mask is not None and mask.rank > 2:
        rest = mask.extents[-2:]
        if any(extent != 1 for extent in mask.extents[:-2]):
            mask = ctx.reshape(ctx.expand(mask, (batch, heads, *rest)), (count, 1, *rest))
        else:
            mask = ctx.reshape(mask, rest)
    return q, k, v, mask


# Recurrent ------------------------------------------------------------------------------------------------------------


def _layers(ctx: Importer, a: Arguments, what: str, state: Tensor) -> dict[str, Any]:
    """The attributes of lstm, gru and rnn, after the checks that all of them need."""
    if a.train and a.dropout:
        raise training_error(f"{what.upper()} dropout of {a.dropout}", ctx.location)
    needs_native_floats(what, a.input)
    if not isinstance(state.extents[-1], int):
        raise Reject(f"{what} with a dynamic hidden size", "a static hidden size")
    return {
        "num_layers": a.num_layers,
        "bidirectional": bool(a.bidirectional),
        "batch_first": bool(a.batch_first),
        "has_biases": bool(a.has_biases),
    }


@converter("aten.lstm.input")
def _lstm(ctx: Importer, a: Arguments, node: torch.fx.Node) -> list[Tensor]:
    attributes = _layers(ctx, a, "lstm", a.hx[0])
    types = [ctx.result_type(node, index) for index in range(3)]
    if types[1].extents != a.hx[0].extents:
        raise UserError(
            f"the exported program says that the states of an LSTM are {list(types[1].extents)} but they are "
            f"{list(a.hx[0].extents)}, a mistake of torch before 2.13: give the module, at {ctx.location}"
        )
    return ctx.emit("lstm", [a.input, *a.hx, *a.params], types, attributes)


def _layers_of_h(ctx: Importer, a: Arguments, node: torch.fx.Node, what: str, **more: Any) -> list[Tensor]:
    """Layers of a cell whose state is h alone."""
    attributes = _layers(ctx, a, what, a.hx) | more
    batch = a.input.extents[0 if a.batch_first else 1] if a.input.rank == 3 else None
    if a.hx.rank != 3 or a.hx.extents[1] != batch:
        raise Reject(
            f"{what} over x {list(a.input.extents)} and h {list(a.hx.extents)}", "3 dims each and equal batches"
        )
    types = [ctx.result_type(node, index) for index in range(2)]
    return ctx.emit(what, [a.input, a.hx, *a.params], types, attributes)


@converter("aten.gru.input")
def _gru(ctx: Importer, a: Arguments, node: torch.fx.Node) -> list[Tensor]:
    return _layers_of_h(ctx, a, node, "gru")


@converter("aten.rnn_tanh.input")
def _rnn_tanh(ctx: Importer, a: Arguments, node: torch.fx.Node) -> list[Tensor]:
    return _layers_of_h(ctx, a, node, "rnn", nonlinearity="tanh")


@converter("aten.rnn_relu.input")
def _rnn_relu(ctx: Importer, a: Arguments, node: torch.fx.Node) -> list[Tensor]:
    return _layers_of_h(ctx, a, node, "rnn", nonlinearity="relu")
