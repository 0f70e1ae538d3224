# SPDX-License-Identifier: Apache-2.0
"""ONNX ops over rows and windows: reductions, softmax, norms, scans, sorting."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from straightline.capture import linalg
from straightline.capture.builder import Dim, TensorType
from straightline.capture.extents import Extent, product_of
from straightline.capture.graph_builder import FLOATS, SLICE_END_BY_TYPE, Reject, Tensor, known
from straightline.capture.onnx.importer import Importer, Node, converter
from straightline.capture.onnx.values import Known, Value, dims, sizes


def _axes_of(ctx: Importer, node: Node, rank: int) -> list[int] | None:
    """The dims that are reduced; None: none of them."""
    if node.input(1) is not None:
        axes = ctx.numbers(node.inputs[1], f"the axes of {node.kind}")
    else:
        axes = node.attribute("axes") or []
    if not axes:
        return None if node.attribute("noop_with_empty_axes", 0) else list(range(rank))
    return ctx.axes(axes, rank)


def _reduction(name: str, of: Callable[[Importer, Tensor, Sequence[int], bool], Tensor]) -> None:
    @converter(name)
    def convert(ctx: Importer, node: Node) -> Value:
        x = node.inputs[0]
        if isinstance(x, Known) and x.is_sizes and name == "ReduceProd":
            product = product_of(dims(x))
            return sizes([product] if node.attribute("keepdims", 1) else product)
        tensor = ctx.tensor(x)
        axes = _axes_of(ctx, node, tensor.rank)
        if axes is None:
            return _of_none(ctx, name, tensor)
        return of(ctx, tensor, axes, bool(node.attribute("keepdims", 1)))


def _of_none(ctx: Importer, name: str, x: Tensor) -> Tensor:
    """What a reduction over no dims does to each element."""
    if name == "ReduceLogSum":
        return ctx.unary("log", x)
    if name in ("ReduceL1", "ReduceL2"):
        return ctx.unary("abs", x)
    return ctx.binary("mul", x, x) if name == "ReduceSumSquare" else x


def _plain(op: str) -> Callable[[Importer, Tensor, Sequence[int], bool], Tensor]:
    def reduce(ctx: Importer, x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
        empty = _over_nothing(ctx, op, x, axes, keep)
        if empty is not None:
            return empty
        if x.dtype == "i1" and op in ("amax", "amin"):
            return ctx.reduce("any" if op == "amax" else "all", x, axes, keep)
        if op == "mean" and x.dtype not in FLOATS:
            total = ctx.reduce("sum", x, axes, keep)
            count = ctx.scalar(product_of([x.extents[a] for a in axes]), "i64")
            return ctx.binary("trunc_divide", total, ctx.cast(count, x.dtype))
        return ctx.reduce(op, x, axes, keep)

    return reduce


def _over_nothing(ctx: Importer, op: str, x: Tensor, axes: Sequence[int], keep: bool) -> Tensor | None:
    """The result of a reduction of rows that have no elements, which the ops do not take."""
    if all(x.extents[a] != 0 for a in axes) if x.rank else True:
        return None
    extents = [1 if d in axes else e for d, e in enumerate(x.extents) if keep or d not in axes]
    if op in ("sum", "prod"):
        return ctx.full(0 if op == "sum" else 1, x.dtype, extents)
    if op in ("amax", "amin") and x.dtype in FLOATS:
        return ctx.full(-math.inf if op == "amax" else math.inf, x.dtype, extents)
    if op in ("amax", "amin") and x.dtype != "i1":
        info = np.iinfo({"i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "ui8": "uint8", "ui16": "uint16",
                         "ui32": "uint32", "ui64": "uint64"}[x.dtype])  # fmt: skip
        return ctx.full(int(info.min if op == "amax" else info.max), x.dtype, extents)
    return ctx.full(op == "amin", "i1", extents) if x.dtype == "i1" else None


def _log_sum_exp(ctx: Importer, x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
    def computed(t: Tensor) -> Tensor:
        empty = _over_nothing(ctx, "sum", t, axes, keep)
        if empty is not None:
            return ctx.full(-math.inf, t.dtype, empty.extents)
        most = ctx.reduce("amax", t, axes, True)
        finite = ctx.where(ctx.compare("eq", ctx.unary("abs", most), math.inf), ctx.full(0, t.dtype), most)
        total = ctx.reduce("sum", ctx.unary("exp", ctx.binary("sub", t, finite)), axes, True)
        found = ctx.binary("add", ctx.unary("log", total), finite)
        return found if keep else ctx.reshape(found, [e for d, e in enumerate(t.extents) if d not in axes])

    return ctx.wide(x, computed)


def _root_of_squares(ctx: Importer, x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
    if x.dtype not in FLOATS:
        return ctx.cast(_root_of_squares(ctx, ctx.cast(x, "f64"), axes, keep), x.dtype)
    return ctx.wide(x, lambda t: ctx.unary("sqrt", _plain("sum")(ctx, ctx.binary("mul", t, t), axes, keep)))


def _log_sum(ctx: Importer, x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
    return ctx.wide(x, lambda t: ctx.unary("log", _plain("sum")(ctx, t, axes, keep)))


for _name, _op in {
    "ReduceSum": "sum", "ReduceMean": "mean", "ReduceMax": "amax", "ReduceMin": "amin", "ReduceProd": "prod",
}.items():  # fmt: skip
    _reduction(_name, _plain(_op))
_reduction("ReduceL1", lambda ctx, x, axes, keep: _plain("sum")(ctx, ctx.unary("abs", x), axes, keep))
_reduction("ReduceL2", _root_of_squares)
_reduction("ReduceSumSquare", lambda ctx, x, axes, keep: _plain("sum")(ctx, ctx.binary("mul", x, x), axes, keep))
_reduction("ReduceLogSum", _log_sum)
_reduction("ReduceLogSumExp", _log_sum_exp)


@converter("ArgMax", "ArgMin")
def _arg(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    dim, keep = ctx.axis(node.attribute("axis", 0), x.rank), bool(node.attribute("keepdims", 1))
    last = node.attribute("select_last_index", 0)
    if last:
        x = ctx.emit_one("flip", [x], x.type, {"dims": [dim]})
    extents = tuple(1 if d == dim else e for d, e in enumerate(x.extents) if keep or d != dim)
    found = ctx.emit_one(node.kind.lower(), [x], TensorType("i64", extents), {"dim": dim, "keepdim": keep})
    if not last:
        return found
    return ctx.binary("sub", ctx.scalar(x.extents[dim] - 1, "i64"), found)


def _first_of_named(ctx: Importer, x: Tensor, dim: int, k: Dim, largest: bool) -> list[Tensor]:
    """As many as a named size says: of all in their order."""
    count = x.extents[dim]
    found = ctx.ordered(x, dim, count, largest)
    if k == count:
        return found
    if ctx.bounds(count - k)[0] < 0:
        enough = ctx.emit_one("ge", [ctx.signed(count), ctx.signed(k)], TensorType("i1", ()))
        ctx.emit("check", [enough], [], {"message": f"{ctx.location.module}: TopK takes {k} of {count} elements"})
    return [ctx.slice(t, dim, 0, SLICE_END_BY_TYPE, k) for t in found]


@converter("TopK")
def _topk(ctx: Importer, node: Node) -> list[Tensor]:
    x = ctx.tensor(node.inputs[0])
    (k,) = ctx.sizes(node.inputs[1], "the k of TopK")
    dim = ctx.axis(node.attribute("axis", -1), x.rank)
    if isinstance(k, Extent):
        return _first_of_named(ctx, x, dim, k, bool(node.attribute("largest", 1)))
    if k == 0:
        extents = tuple(k if d == dim else e for d, e in enumerate(x.extents))
        return [ctx.full(0, dtype, extents) for dtype in (x.dtype, "i64")]
    ctx.need_elements(x.extents[dim], k, "TopK")
    return ctx.ordered(x, dim, k, bool(node.attribute("largest", 1)))


@converter("Softmax", "LogSoftmax")
def _softmax(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    op = "softmax" if node.kind == "Softmax" else "log_softmax"
    return ctx.unary(op, x, dim=ctx.axis(node.attribute("axis", -1), x.rank))


@converter("Hardmax")
def _hardmax(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    dim = ctx.axis(node.attribute("axis", -1), x.rank)
    extents = tuple(1 if d == dim else e for d, e in enumerate(x.extents))
    best = ctx.emit_one("argmax", [x], TensorType("i64", extents), {"dim": dim, "keepdim": True})
    places = ctx.reshape(ctx.iota(x.extents[dim]), tuple(x.extents[dim] if d == dim else 1 for d in range(x.rank)))
    return ctx.cast(ctx.compare("eq", places, best), x.dtype)


@converter("CumSum", "CumProd")
def _cumulative(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    dim = ctx.axis(ctx.numbers(node.inputs[1], f"the axis of {node.kind}")[0], x.rank)
    start = 0 if node.kind == "CumSum" else 1

    def flipped(t: Tensor) -> Tensor:
        return ctx.emit_one("flip", [t], t.type, {"dims": [dim]}) if node.attribute("reverse", 0) else t

    x = flipped(x)
    found = (
        ctx.unary("cumsum", x, dim=dim)
        if start == 0
        else ctx.emit_one("scan", [x], x.type, {"dim": dim, "combine": "prod"})
    )
    if node.attribute("exclusive", 0):
        size = x.extents[dim]
        first = ctx.full(start, x.dtype, tuple(1 if d == dim else e for d, e in enumerate(x.extents)))
        rest = (
            ctx.slice(found, dim, 0, -1, size - 1)
            if not isinstance(size, int)
            else ctx.slice(found, dim, 0, size - 1, size - 1)
        )
        found = ctx.cat([first, rest], dim, x.type)
    return flipped(found)


# Norms ----------------------------------------------------------------------------------------------------------------


@converter("BatchNormalization")
def _batch_norm(ctx: Importer, node: Node) -> list[Tensor | None]:
    x, *vectors = (ctx.tensor(t) for t in node.inputs[:5])
    weight, bias, mean, var = (ctx.need_vector(t, x.extents[1], "numbers of channels") for t in vectors)
    eps = float(node.attribute("epsilon", 1e-5))
    if not node.attribute("training_mode", 0):
        return [
            ctx.emit_one(
                "batch_norm", [x, *(ctx.cast(t, mean.dtype) for t in (weight, bias)), mean, var], x.type, {"eps": eps}
            )
        ]
    axes = [d for d in range(x.rank) if d != 1]
    own_mean = ctx.reduce("mean", x, axes, False)
    own_var = ctx.emit_one("var", [x], own_mean.type, {"dims": axes, "correction": 0.0, "keepdim": False})
    momentum = float(node.attribute("momentum", 0.9))

    def moved(old: Tensor, new: Tensor) -> Tensor:
        kept = ctx.binary("mul", old, momentum)
        return ctx.binary("add", kept, ctx.binary("mul", ctx.cast(new, old.dtype), 1 - momentum))

    found = ctx.emit_one("batch_norm", [x, weight, bias, own_mean, own_var], x.type, {"eps": eps})
    return [found, moved(mean, own_mean), moved(var, own_var)]


@converter("InstanceNormalization")
def _instance_norm(ctx: Importer, node: Node) -> Tensor:
    x, *vectors = (ctx.tensor(t) for t in node.inputs)
    groups = known(x.extents[1])
    weight, bias = (ctx.need_vector(t, x.extents[1], "a scale or bias of channels") for t in vectors)
    return ctx.emit_one(
        "group_norm", [x, weight, bias], x.type, {"groups": groups, "eps": float(node.attribute("epsilon", 1e-5))}
    )


@converter("GroupNormalization")
def _group_norm(ctx: Importer, node: Node) -> Tensor:
    x, *vectors = (ctx.tensor(t) for t in node.inputs)
    weight, bias = (ctx.need_vector(t, x.extents[1], "a scale or bias of channels") for t in vectors)
    attributes = {"groups": node.attribute("num_groups"), "eps": float(node.attribute("epsilon", 1e-5))}
    return ctx.emit_one("group_norm", [x, weight, bias], x.type, attributes)


def _last_dims(t: Tensor, rank: int, ctx: Importer) -> Tensor:
    """A scale or bias without the dims of one element before its last `rank` ones, where those are all that it has."""
    lead = t.extents[: max(t.rank - rank, 0)]
    return ctx.reshape(t, t.extents[len(lead) :]) if lead and all(e == 1 for e in lead) else t


@converter("LayerNormalization")
def _layer_norm(ctx: Importer, node: Node) -> list[Tensor | None]:
    x, weight = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1])
    bias = ctx.tensor(node.inputs[2]) if node.input(2) is not None else None
    axis = ctx.axis(node.attribute("axis", -1), x.rank)
    last, eps = x.extents[axis:], float(node.attribute("epsilon", 1e-5))
    attributes = {"normalized_rank": x.rank - axis, "eps": eps}
    weights = [None if t is None else _last_dims(t, x.rank - axis, ctx) for t in (weight, bias)]
    found: list[Tensor | None]
    if all(t is None or t.rank <= len(last) for t in weights):
        weight, bias = (None if t is None else ctx.expand(t, last) for t in weights)
        found = [ctx.emit_one("layer_norm", [x, weight, bias], x.type, attributes)]
    else:  # of other numbers in each row
        y = ctx.emit_one("layer_norm", [x, None, None], x.type, attributes)
        for op, t in zip(("mul", "add"), weights):
            y = y if t is None else ctx.binary(op, y, ctx.expand(t, x.extents))
        found = [y]
    if node.reads(1) or node.reads(2):
        axes = list(range(axis, x.rank))
        wide = ctx.cast(x, "f32") if x.dtype in ("f16", "bf16") else x
        mean = ctx.reduce("mean", wide, axes, True)
        var = ctx.emit_one("var", [wide], mean.type, {"dims": axes, "correction": 0.0, "keepdim": True})
        found += [mean, ctx.unary("rsqrt", ctx.binary("add", var, eps))]
    return found


@converter("RMSNormalization")
def _rms_norm(ctx: Importer, node: Node) -> Tensor:
    x, weight = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1])
    axis = ctx.axis(node.attribute("axis", -1), x.rank)
    attributes = {"normalized_rank": x.rank - axis, "eps": float(node.attribute("epsilon", 1e-5))}
    return ctx.emit_one("rms_norm", [x, ctx.expand(ctx.cast(weight, x.dtype), x.extents[axis:])], x.type, attributes)


@converter("LpNormalization")
def _lp_norm(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    axis, p = ctx.axis(node.attribute("axis", -1), x.rank), node.attribute("p", 2)
    norm = _root_of_squares(ctx, x, [axis], True) if p == 2 else ctx.reduce("sum", ctx.unary("abs", x), [axis], True)
    quotient = ctx.binary("div", x, norm)
    return ctx.where(ctx.compare("eq", norm, 0), ctx.full(0, x.dtype), quotient)


@converter("LRN")
def _lrn(ctx: Importer, node: Node) -> Tensor:
    x, size = ctx.tensor(node.inputs[0]), node.attribute("size")
    if size < 1:
        raise Reject(f"a window of {size} channels", "1 or more")
    alpha, beta, bias = (float(node.attribute(n, d)) for n, d in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)))
    n, channels = x.extents[0], known(x.extents[1])
    inner = product_of(x.extents[2:])
    furthest = max(channels - 1, 0)  # windows may reach over all channels, and then see no more
    before, after = min((size - 1) // 2, furthest), min(size // 2, furthest)
    squares = ctx.reshape(ctx.binary("mul", x, x), (n, 1, channels, inner))
    wide = ctx.padded(squares, [(before, after), (0, 0)])
    total = _sums_of_windows(ctx, wide, before + 1 + after, channels)
    power = ctx.binary("pow", ctx.binary("add", ctx.binary("mul", total, alpha / size), bias), beta)
    return ctx.binary("div", x, ctx.reshape(power, x.extents))


#: Shifted tensors that are added up; sums of larger windows are a pool's.
_MOST_SHIFTS = 16


def _sums_of_windows(ctx: Importer, x: Tensor, window: int, count: int) -> Tensor:
    """Sums of `count` windows of step 1 along the last but one dim of images."""
    if window > _MOST_SHIFTS:
        attributes = {
            "kernel_size": [window, 1], "stride": [1, 1], "padding": [0, 0],
            "ceil_mode": False, "count_include_pad": True, "divisor_override": 1,
        }  # fmt: skip
        type = TensorType(x.dtype, (*x.extents[:2], count, x.extents[3]))
        return ctx.emit_one("avg_pool2d", [x], type, attributes)
    shifted = (ctx.slice(x, 2, i, i + count, count) for i in range(window))
    return reduce(lambda a, b: ctx.binary("add", a, b), shifted)


@converter("Det")
def _det(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    known(x.extents[-1])

    def determinant(wide: Tensor) -> Tensor:
        factors, pivots, _, _ = linalg.lu(ctx, wide)
        return linalg.determinant(ctx, factors, pivots)

    return ctx.wide(x, determinant)
