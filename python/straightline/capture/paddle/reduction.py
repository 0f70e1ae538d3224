# SPDX-License-Identifier: Apache-2.0
"""Paddle's reductions, normalisations, order and sums along a dim."""

from __future__ import annotations

from typing import Any

from straightline.capture.builder import Dim, TensorType
from straightline.capture.extents import product_of
from straightline.capture.graph_builder import FLOATS, Reject, Tensor, known
from straightline.capture.paddle import pir
from straightline.capture.paddle.importer import Importer, Node, converter
from straightline.capture.paddle.linear import channels_first, channels_last

_REDUCTIONS = {
    "sum": "sum", "mean": "mean", "max": "amax", "min": "amin", "amax": "amax", "amin": "amin", "prod": "prod",
    "any": "any", "all": "all",
}  # fmt: skip

#: Most elements along an axis that are compared in pairs.
_MOST_IN_PAIRS = 1024


def _dims(ctx: Importer, node: Node, rank: int) -> list[int]:
    given = node.input(1)
    axes: Any = ctx.numbers(given, "an axis") if given is not None else node.attribute("axis")
    axes = [axes] if isinstance(axes, int) else list(axes or [])
    if not axes or node.attribute("reduce_all", False):
        return list(range(rank))
    return sorted({ctx.axis(a, rank) for a in axes})


def _declared(node: Node, place: int = 0) -> str:
    type = node.op.types[place]
    if not isinstance(type, pir.Type):
        raise Reject("a result that is no tensor")
    return type.dtype


def _declared_rank(node: Node, place: int = 0) -> int:
    type = node.op.types[place]
    return len(type.shape) if isinstance(type, pir.Type) else 0


@converter(*_REDUCTIONS, takes="constant axes, with and without keepdim")
def _reduction(ctx: Importer, node: Node) -> Tensor:
    x, name = ctx.tensor(node.inputs[0]), _REDUCTIONS[node.op.short]
    dims, keep = _dims(ctx, node, x.rank), bool(node.attribute("keepdim", False))
    if name in ("any", "all"):
        x = x if x.dtype == "i1" else ctx.compare("ne", x, ctx.full(0, x.dtype))
    elif name in ("sum", "mean", "prod"):
        x = ctx.cast(x, _declared(node))
        if name == "mean" and x.dtype not in FLOATS:
            return _mean_of_integers(ctx, x, dims, keep)
    elif x.dtype == "i1":
        raise Reject(f"{node.op.short} of bool", "any or all")
    return ctx.reduce(name, x, dims, keep)


def _mean_of_integers(ctx: Importer, x: Tensor, dims: list[int], keep: bool) -> Tensor:
    count = known(product_of([x.extents[d] for d in dims]))
    if count == 0:
        raise Reject("mean of no integers", "one or more")
    return ctx.binary("trunc_divide", ctx.reduce("sum", x, dims, keep), count)


@converter("argmax", "argmin", takes="a constant axis, or all elements")
def _argmax(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    if x.dtype in FLOATS:  # Paddle's comparisons leave NaN out
        least = float("-inf") if node.op.short == "argmax" else float("inf")
        x = ctx.where(ctx.compare("eq", x, x), x, least)
    keep = bool(node.attribute("keepdims", False))
    rank = x.rank
    if node.attribute("flatten", False) or rank == 0:
        flat = ctx.reshape(x, (product_of(list(x.extents)),))
        found = ctx.emit_one(node.op.short, [flat], TensorType("i64", ()), {"dim": 0, "keepdim": False})
        found = ctx.reshape(found, [1] * _declared_rank(node))
    else:
        dim = ctx.axis(ctx.numbers(node.inputs[1], "an axis")[0], rank)
        extents = tuple(1 if d == dim else e for d, e in enumerate(x.extents) if keep or d != dim)
        found = ctx.emit_one(node.op.short, [x], TensorType("i64", extents), {"dim": dim, "keepdim": keep})
    return ctx.cast(found, _declared(node))


def _count(x: Tensor, dim: int) -> Dim:
    """Elements along a dim; the one of a 0-d tensor."""
    return x.extents[dim] if x.rank else 1


def _check_k(ctx: Importer, x: Tensor, dim: int, k: int, what: str) -> None:
    if k < 1:
        raise Reject(f"{what} of {_count(x, dim)}", "1 or more")
    ctx.at_least(_count(x, dim), k, f"{what}, along a dim")


def _ordered(ctx: Importer, x: Tensor, dim: int, k: Dim, largest: bool) -> list[Tensor]:
    if x.rank == 0:
        return [x, ctx.full(0, "i64")]
    if k == 0:
        extents = tuple(k if d == dim else e for d, e in enumerate(x.extents))
        return [ctx.full(0, dtype, extents) for dtype in (x.dtype, "i64")]
    return ctx.ordered(x, dim, k, largest)


@converter("topk", takes="a constant k, of named sizes too that have so many; results are sorted")
def _topk(ctx: Importer, node: Node) -> list[Tensor]:
    x = ctx.tensor(node.inputs[0])
    dim, (k,) = ctx.axis(node.attribute("axis", -1), x.rank), ctx.numbers(node.inputs[1], "k")
    _check_k(ctx, x, dim, k, f"the {k} {'largest' if node.attribute('largest', True) else 'smallest'}")
    return _ordered(ctx, x, dim, k, bool(node.attribute("largest", True)))


@converter("argsort", takes="both orders, named sizes too")
def _argsort(ctx: Importer, node: Node) -> list[Tensor]:
    x = ctx.tensor(node.inputs[0])
    dim = ctx.axis(node.attribute("axis", -1), x.rank)
    return _ordered(ctx, x, dim, _count(x, dim), bool(node.attribute("descending", False)))


@converter("kthvalue", takes="a constant k and axis, of named sizes too that have so many")
def _kthvalue(ctx: Importer, node: Node) -> list[Tensor]:
    x, k = ctx.tensor(node.inputs[0]), int(node.attribute("k"))
    dim = ctx.axis(node.attribute("axis", -1), x.rank)
    _check_k(ctx, x, dim, k, f"element {k} in order")
    if x.rank == 0:
        return _ordered(ctx, x, dim, k, False)
    found = [ctx.slice(t, dim, k - 1, k, 1) for t in _ordered(ctx, x, dim, k, False)]
    if node.attribute("keepdim", False):
        return found
    return [ctx.reshape(t, [e for d, e in enumerate(t.extents) if d != dim]) for t in found]


@converter("mode", takes="a constant axis of at most 1,024", refuses="named sizes along the axis")
def _mode(ctx: Importer, node: Node) -> list[Tensor]:
    """The first longest run of equal neighbours in order, and the last place of it."""
    x, keep = ctx.tensor(node.inputs[0]), bool(node.attribute("keepdim", False))
    if x.rank == 0:
        return [x, ctx.full(0, "i64")]
    dim = ctx.axis(node.attribute("axis", -1), x.rank)
    count = known(x.extents[dim])
    if not 0 < count <= _MOST_IN_PAIRS:
        raise Reject(f"mode of {count} elements", f"1 to {_MOST_IN_PAIRS}")
    order = [*(d for d in range(x.rank) if d != dim), dim]
    moved = ctx.permute(x, order)
    values, places = _ordered(ctx, moved, x.rank - 1, count, False)
    lead = moved.extents[:-1]
    same = ctx.compare("eq", ctx.reshape(values, (*lead, count, 1)), ctx.reshape(values, (*lead, 1, count)))
    lengths = ctx.reduce("sum", ctx.cast(same, "i64"), [x.rank], False)
    one = TensorType("i64", (*lead, 1))
    first = ctx.emit_one("argmax", [lengths], one, {"dim": x.rank - 1, "keepdim": True})
    length = ctx.emit_one("gather", [lengths, first], one, {"dim": x.rank - 1})
    last = ctx.binary("sub", ctx.binary("add", first, length), 1)
    found = [
        ctx.emit_one("gather", [t, last], TensorType(t.dtype, one.extents), {"dim": x.rank - 1})
        for t in (values, places)
    ]
    back = [order.index(d) for d in range(x.rank)]
    return [ctx.permute(t, back) if keep else ctx.reshape(t, lead) for t in found]


@converter("histogram", takes="constant or computed ends, weights, density", refuses="float16 and bfloat16")
def _histogram(ctx: Importer, node: Node) -> Tensor:
    x, bins = ctx.tensor(node.inputs[0]), int(node.attribute("bins"))
    if x.dtype in ("f16", "bf16"):
        raise Reject(f"histogram of {x.dtype}", "float32 or float64")
    low, high = float(node.attribute("min", 0)), float(node.attribute("max", 0))
    if low > high:
        raise Reject(f"histogram from {low:g} to {high:g}", "a smallest number that is not larger than the largest")
    x = ctx.reshape(x, (product_of(x.extents),))
    kind = x.dtype
    if low == high:
        if x.extents[0] == 0:
            raise Reject("histogram of no elements between its own ends", "min= and max=")
        begin, end = (ctx.reduce(name, x, [0], False) for name in ("amin", "amax"))
        is_flat = ctx.compare("eq", begin, end)
        begin, end = (ctx.where(is_flat, ctx.binary(name, t, 1), t) for name, t in (("sub", begin), ("add", end)))
    else:
        begin, end = (ctx.full(value, kind) for value in (low, high))
    inside = ctx.binary("logical_and", ctx.compare("ge", x, begin), ctx.compare("le", x, end))
    above = ctx.binary("mul", ctx.binary("sub", ctx.where(inside, x, begin), begin), bins)
    width = ctx.binary("sub", end, begin)
    if kind in FLOATS:
        place = ctx.cast(ctx.binary("div", above, width), "i64")
    else:
        place = ctx.cast(ctx.binary("trunc_divide", above, width), "i64")
    place = ctx.where(inside, ctx.unary("clamp", place, min=0, max=bins - 1), ctx.full(bins, "i64"))
    weight = node.input(1)
    counts = ctx.full(1, "i64", x.extents) if weight is None else ctx.reshape(ctx.tensor(weight), x.extents)
    into = ctx.full(0, counts.dtype, (bins + 1,))
    found = ctx.emit_one("scatter", [into, place, counts], into.type, {"dim": 0, "reduce": "sum"})
    found = ctx.slice(found, 0, 0, bins, bins)
    if node.attribute("density", False):
        found = ctx.cast(found, "f32")
        whole = ctx.binary("mul", ctx.reduce("sum", found, [0], False), ctx.cast(width, "f32"))
        found = ctx.binary("div", ctx.binary("mul", found, float(bins)), whole)
    return ctx.cast(found, _declared(node))


@converter("median", takes="means of the two in the middle, one axis or all elements", refuses="mode min, the places")
def _median(ctx: Importer, node: Node) -> list[Tensor | None]:
    x, keep = ctx.tensor(node.inputs[0]), bool(node.attribute("keepdim", False))
    axes = node.attribute("axis")
    axes = [axes] if isinstance(axes, int) else list(axes or [])
    if node.attribute("mode", "avg") != "avg" or x.dtype not in FLOATS or len(axes) > 1:
        raise Reject(f"median of {x.dtype} by {node.attribute('mode')} along {axes}", "floats, mode avg, one axis")
    shape = [1] * x.rank if keep else []
    if axes and x.rank:
        dim = ctx.axis(axes[0], x.rank)
        shape = [1 if d == dim else e for d, e in enumerate(x.extents) if keep or d != dim]
    else:
        x, dim = ctx.reshape(x, (product_of(list(x.extents)),)), 0
    count = known(x.extents[dim])
    if count == 0:
        raise Reject("median of no elements", "one or more")
    values, _ = _ordered(ctx, x, dim, count // 2 + 1, False)
    middle = [ctx.slice(values, dim, i, i + 1, 1) for i in sorted({(count - 1) // 2, count // 2})]
    found = middle[0]
    if len(middle) == 2:
        found = ctx.binary("mul", ctx.binary("add", *middle), 0.5)
    nans = ctx.reduce("any", ctx.emit_one("isnan", [x], TensorType("i1", x.extents)), [dim], True)
    return [ctx.reshape(ctx.where(nans, float("nan"), found), shape), None]


@converter(
    "nanmedian", takes="means of the two in the middle or the lower one, one axis or all elements", refuses="the places"
)
def _nanmedian(ctx: Importer, node: Node) -> list[Tensor | None]:
    x, keep = ctx.tensor(node.inputs[0]), bool(node.attribute("keepdim", False))
    axes = _dims(ctx, node, x.rank) if x.rank else []
    if x.dtype not in FLOATS or len(axes) not in (1, x.rank):
        raise Reject(f"nanmedian of {x.dtype} along {axes}", "floats, one axis or all elements")
    shape = [1 if d in axes else e for d, e in enumerate(x.extents) if keep or d not in axes]
    dim = axes[0] if axes else 0
    if len(axes) == x.rank:
        x, dim = ctx.reshape(x, (product_of(list(x.extents)),)), 0
    if known(x.extents[dim]) == 0:
        raise Reject("nanmedian of no elements", "one or more")
    nans = ctx.emit_one("isnan", [x], TensorType("i1", x.extents))
    values, _ = _ordered(ctx, ctx.where(nans, float("inf"), x), dim, known(x.extents[dim]), False)
    count = ctx.reduce("sum", ctx.cast(ctx.unary("logical_not", nans), "i64"), [dim], True)
    last = ctx.unary("clamp", ctx.binary("sub", count, 1), min=0)
    type = TensorType(x.dtype, last.extents)
    low = ctx.emit_one("gather", [values, ctx.binary("floor_divide", last, 2)], type, {"dim": dim})
    found = low
    if node.attribute("mode", "avg") == "avg":
        high = ctx.unary("clamp", ctx.binary("floor_divide", count, 2), max=known(x.extents[dim]) - 1)
        found = ctx.emit_one("gather", [values, high], type, {"dim": dim})
        found = ctx.binary("mul", ctx.binary("add", low, found), 0.5)
    return [ctx.reshape(ctx.where(ctx.compare("eq", count, 0), float("nan"), found), shape), None]


_SCANS = {"cumprod": "prod", "logcumsumexp": "logcumsumexp", "cummax": "max", "cummin": "min"}


@converter(*_SCANS, takes="a constant axis", refuses="exclusive and reversed ones")
def _scan(ctx: Importer, node: Node) -> Tensor | list[Tensor]:
    x, combine = ctx.cast(ctx.tensor(node.inputs[0]), _declared(node)), _SCANS[node.op.short]
    if node.attribute("exclusive", False) or node.attribute("reverse", False):
        raise Reject(f"an exclusive or reversed {node.op.short}", "cumsum, or the plain one")
    if node.attribute("flatten", False):
        x = ctx.reshape(x, (product_of(list(x.extents)),))
    dim = 0 if node.attribute("flatten", False) else ctx.axis(node.attribute("axis", node.attribute("dim", -1)), x.rank)
    found = x if x.rank == 0 else ctx.emit_one("scan", [x], x.type, {"combine": combine, "dim": dim})
    if combine not in ("max", "min"):
        return found
    type = TensorType("i64", x.extents)
    place = ctx.full(0, "i64")
    if x.rank:
        place = ctx.emit_one("scan", [x], type, {"combine": f"arg{combine}", "dim": dim})
    return [found, ctx.cast(place, _declared(node, 1))]


@converter("softmax", "log_softmax", takes="any axis")
def _softmax(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    if x.rank == 0:
        return ctx.full(1 if node.op.short == "softmax" else 0, x.dtype)
    return ctx.unary(node.op.short, x, dim=ctx.axis(node.attribute("axis", -1), x.rank))


@converter("logsumexp")
def _logsumexp(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    dims, keep = _dims(ctx, node, x.rank), bool(node.attribute("keepdim", False))
    top = ctx.reduce("amax", x, dims, True)
    infinite = ctx.emit_one("isinf", [top], TensorType("i1", top.extents))
    top = ctx.emit_one("where", [infinite, ctx.full(0, x.dtype, top.extents), top], top.type)
    summed = ctx.reduce("sum", ctx.unary("exp", ctx.binary("sub", x, top)), dims, keep)
    return ctx.binary("add", ctx.unary("log", summed), ctx.reshape(top, summed.extents))


@converter("reduce_as")
def _reduce_as(ctx: Importer, node: Node) -> Tensor:
    """Sums to the shape of another tensor, which is broadcast to x's."""
    x, like = ctx.tensor(node.inputs[0], _declared(node)), ctx.type_of(node.inputs[1])
    lead = x.rank - len(like.extents)
    wide = (1,) * lead + tuple(like.extents)
    dims = [d for d, (a, b) in enumerate(zip(x.extents, wide)) if d < lead or a != b]
    return ctx.reshape(ctx.reduce("sum", x, dims, True) if dims else x, like.extents)


@converter("frobenius_norm", takes="constant axes")
def _frobenius_norm(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    return _norm(ctx, x, 2.0, _dims(ctx, node, x.rank), bool(node.attribute("keep_dim", False)))


@converter("renorm", takes="any order above 0")
def _renorm(ctx: Importer, node: Node) -> Tensor:
    """Entries of a dim whose norm is above a number are scaled to it."""
    x, most = ctx.tensor(node.inputs[0]), float(node.attribute("max_norm"))
    dim = ctx.axis(node.attribute("axis"), x.rank)
    norm = _norm(ctx, x, float(node.attribute("p")), [d for d in range(x.rank) if d != dim], True)
    scale = ctx.binary("div", ctx.full(most, x.dtype), ctx.binary("add", norm, 1e-7))
    return ctx.binary("mul", x, ctx.where(ctx.compare("gt", norm, most), scale, 1.0))


@converter("p_norm", takes="any order")
def _p_norm(ctx: Importer, node: Node) -> Tensor:
    x, order = ctx.tensor(node.inputs[0]), float(node.attribute("porder", 2.0))
    keep = bool(node.attribute("keepdim", False))
    dims = list(range(x.rank)) if node.attribute("asvector") else [ctx.axis(node.attribute("axis", -1), x.rank)]
    return _norm(ctx, x, order, dims, keep)


@converter("dist", takes="any order")
def _dist(ctx: Importer, node: Node) -> Tensor:
    difference = ctx.binary("sub", ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1]))
    return _norm(ctx, difference, float(node.attribute("p", 2.0)), list(range(difference.rank)), False)


def _norm(ctx: Importer, x: Tensor, order: float, dims: list[int], keep: bool) -> Tensor:
    if order == 2.0:
        return ctx.unary("sqrt", ctx.reduce("sum", ctx.binary("mul", x, x), dims, keep))
    size = ctx.unary("abs", x)
    if order == float("inf"):
        return ctx.reduce("amax", size, dims, keep)
    if order == 1.0:
        return ctx.reduce("sum", size, dims, keep)
    if order == float("-inf"):
        return ctx.reduce("amin", size, dims, keep)
    if order == 0.0:
        return ctx.reduce("sum", ctx.cast(ctx.compare("ne", x, 0.0), x.dtype), dims, keep)
    summed = ctx.reduce("sum", ctx.binary("pow", size, ctx.operand(order, size.type)), dims, keep)
    return ctx.binary("pow", summed, ctx.operand(1.0 / order, summed.type))


@converter("cumsum", takes="both directions, exclusive, a constant axis")
def _cumsum(ctx: Importer, node: Node) -> Tensor:
    x = ctx.cast(ctx.tensor(node.inputs[0]), _declared(node))
    if node.attribute("flatten", False):
        x = ctx.reshape(x, (product_of(list(x.extents)),))
        dim = 0
    else:
        dim = ctx.axis(ctx.numbers(node.inputs[1], "an axis")[0], x.rank)
    turned = node.attribute("reverse", False)
    if x.rank == 0:
        return x
    x = ctx.emit_one("flip", [x], x.type, {"dims": [dim]}) if turned else x
    found = ctx.emit_one("cumsum", [x], x.type, {"dim": dim})
    if node.attribute("exclusive", False):
        found = ctx.binary("sub", found, x)
    return ctx.emit_one("flip", [found], found.type, {"dims": [dim]}) if turned else found


# Normalisations -------------------------------------------------------------------------------------------------------


def _affine(ctx: Importer, node: Node, x: Tensor, shape: tuple[Any, ...], first: int) -> list[Tensor | None]:
    """Scale and bias, by place, as the element type of x and in a shape."""
    found: list[Tensor | None] = []
    for place in (first, first + 1):
        given = node.input(place)
        found.append(None if given is None else ctx.reshape(ctx.tensor(given, x.dtype), shape))
    return found


@converter("batch_norm_", takes="inference, NCHW and NHWC", refuses="training")
def _batch_norm(ctx: Importer, node: Node) -> list[Tensor | None]:
    if not (node.attribute("is_test") or node.attribute("use_global_stats")) or node.attribute("trainable_statistics"):
        raise Reject("batch norm with statistics of the batch: the program is in training mode", "layer.eval()")
    x, last = channels_first(ctx, node, ctx.tensor(node.inputs[0]))
    mean, variance = (ctx.tensor(t, x.dtype) for t in node.inputs[1:3])
    weight, bias = _affine(ctx, node, x, (x.extents[1],), 3)
    attributes = {"eps": float(node.attribute("epsilon", 1e-5))}
    found = ctx.emit_one("batch_norm", [x, weight, bias, mean, variance], x.type, attributes)
    statistics = [ctx.tensor(t) for t in node.inputs[1:3]]
    return [channels_last(ctx, found) if last else found, *statistics, None, None, None]


@converter("layer_norm", takes="any first axis, with and without scale and bias")
def _layer_norm(ctx: Importer, node: Node) -> list[Tensor | None]:
    x, axis = ctx.tensor(node.inputs[0]), int(node.attribute("begin_norm_axis", 1))
    weight, bias = _affine(ctx, node, x, x.extents[axis:], 1)
    attributes = {"normalized_rank": x.rank - axis, "eps": float(node.attribute("epsilon", 1e-5))}
    if weight is None and bias is not None:
        weight = ctx.full(1, x.dtype, x.extents[axis:])
    return [ctx.emit_one("layer_norm", [x, weight, bias], x.type, attributes), None, None]


@converter("group_norm", takes="NCHW and NHWC")
def _group_norm(ctx: Importer, node: Node) -> list[Tensor | None]:
    x, last = channels_first(ctx, node, ctx.tensor(node.inputs[0]))
    return [_grouped(ctx, node, x, int(node.attribute("groups")), last), None, None]


def _grouped(ctx: Importer, node: Node, x: Tensor, groups: int, last: bool) -> Tensor:
    weight, bias = _affine(ctx, node, x, (x.extents[1],), 1)
    attributes = {"groups": groups, "eps": float(node.attribute("epsilon", 1e-5))}
    if weight is None and bias is not None:
        weight = ctx.full(1, x.dtype, (x.extents[1],))
    found = ctx.emit_one("group_norm", [x, weight, bias], x.type, attributes)
    return channels_last(ctx, found) if last else found


@converter("instance_norm")
def _instance_norm(ctx: Importer, node: Node) -> list[Tensor | None]:
    x = ctx.tensor(node.inputs[0])
    return [_grouped(ctx, node, x, known(x.extents[1]), False), None, None]


@converter("fused_rms_norm_quant", "fused_bias_residual_layernorm",
           takes="a residual and a bias that are added before, scale and bias", refuses="quantised results")  # fmt: skip
def _fused_norm(ctx: Importer, node: Node) -> list[Tensor | None]:
    if float(node.attribute("quant_scale", -1.0)) > 0:
        raise Reject(f"{node.op.short} with a quantised result", "floats")
    x, rms = ctx.tensor(node.inputs[0]), node.op.short == "fused_rms_norm_quant"
    residual = node.input(2)
    if node.input(1) is not None and residual is not None:
        x = ctx.binary("add", x, ctx.tensor(node.input(1), x.dtype))
    elif node.input(1) is not None:
        raise Reject(f"{node.op.short} with a bias but no residual", "x + bias")
    if residual is not None:
        added, alpha = ctx.tensor(residual, x.dtype), float(node.attribute("residual_alpha", 1.0))
        x = ctx.binary("add", x, added if alpha == 1.0 else ctx.binary("mul", added, alpha))
    axis = int(node.attribute("begin_norm_axis", 1)) % max(x.rank, 1)
    weight, bias = _affine(ctx, node, x, x.extents[axis:], 3)
    attributes = {"normalized_rank": x.rank - axis, "eps": float(node.attribute("epsilon", 1e-5))}
    if rms:
        found = ctx.emit_one("rms_norm", [x, weight], x.type, attributes)
        found = found if bias is None else ctx.binary("add", found, bias)
    elif weight is None and bias is None:
        found = x  # the sum alone, as in Paddle
    else:
        weight = ctx.full(1, x.dtype, x.extents[axis:]) if weight is None else weight
        found = ctx.emit_one("layer_norm", [x, weight, bias], x.type, attributes)
    return [found, x if residual is not None else None, None, None][: len(node.op.results)]
