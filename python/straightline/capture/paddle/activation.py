# SPDX-License-Identifier: Apache-2.0
"""Paddle's rarer functions of one element, and losses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from straightline.capture import elementary
from straightline.capture.builder import TensorType
from straightline.capture.graph_builder import FLOATS, Reject, Tensor, known
from straightline.capture.paddle.importer import Importer, Node, converter

# Functions ------------------------------------------------------------------------------------------------------------

_HALVES = ("f16", "bf16")
#: Functions of `op.special`, by Paddle's names.
_SPECIAL = {
    "erfinv": "erfinv", "lgamma": "lgamma", "gammaln": "lgamma", "digamma": "digamma", "i0": "i0", "i0e": "i0e",
    "i1": "i1", "i1e": "i1e",
}  # fmt: skip


def _floats(node: Node, x: Tensor) -> Tensor:
    if x.dtype not in FLOATS:
        raise Reject(f"{node.op.short} of {x.dtype}", "floats")
    return x


def _elementary(name: str, function: Callable[[elementary.Forms, Tensor], Tensor]) -> None:
    @converter(name, takes="floats")
    def convert(ctx: Importer, node: Node) -> Tensor:
        x = _floats(node, ctx.tensor(node.inputs[0]))
        return ctx.cast(function(ctx, ctx.cast(x, "f32" if x.dtype in _HALVES else x.dtype)), x.dtype)


for _name, _function in elementary.FUNCTIONS.items():
    _elementary(_name, _function)


@converter(*_SPECIAL, takes="floats")
def _special(ctx: Importer, node: Node) -> Tensor:
    x = _floats(node, ctx.tensor(node.inputs[0]))
    return ctx.unary("special", x, function=_SPECIAL[node.op.short])


@converter("polygamma", takes="floats, orders from 1 on")
def _polygamma(ctx: Importer, node: Node) -> Tensor:
    x = _floats(node, ctx.tensor(node.inputs[0]))
    wide = ctx.cast(x, "f32" if x.dtype in _HALVES else x.dtype)
    order = ctx.full(float(node.attribute("n")), wide.dtype, wide.extents)
    return ctx.cast(ctx.emit_one("special", [order, wide], wide.type, {"function": "polygamma"}), x.dtype)


@converter("softshrink", "hardshrink", takes="floats")
def _shrink(ctx: Importer, node: Node) -> Tensor:
    x, threshold = ctx.tensor(node.inputs[0]), float(node.attribute("threshold"))
    inside = ctx.binary("logical_and", ctx.compare("le", x, threshold), ctx.compare("ge", x, -threshold))
    if node.op.short == "hardshrink":
        return ctx.where(inside, 0, x)
    raised = ctx.binary("add", x, threshold)  # also what a NaN gives
    shrunk = ctx.where(ctx.compare("gt", x, threshold), ctx.binary("sub", x, threshold), raised)
    return ctx.where(inside, 0, shrunk)


@converter("thresholded_relu", takes="floats")
def _thresholded_relu(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    return ctx.where(ctx.compare("le", x, float(node.attribute("threshold"))), float(node.attribute("value", 0.0)), x)


@converter("rrelu", takes="inference, with the mean of both slopes", refuses="training")
def _rrelu(ctx: Importer, node: Node) -> list[Tensor | None]:
    if not node.attribute("is_test"):
        raise Reject("rrelu with random slopes: the program is in training mode", "layer.eval()")
    x, slope = ctx.tensor(node.inputs[0]), (float(node.attribute("lower")) + float(node.attribute("upper"))) / 2
    return [ctx.where(ctx.compare("ge", x, 0), x, ctx.binary("mul", x, slope)), None]


@converter("maxout", takes="any axis")
def _maxout(ctx: Importer, node: Node) -> Tensor:
    x, groups = ctx.tensor(node.inputs[0]), int(node.attribute("groups"))
    axis = ctx.axis(node.attribute("axis", 1), x.rank)
    shape = (*x.extents[:axis], known(x.extents[axis]) // groups, groups, *x.extents[axis + 1 :])
    return ctx.reduce("amax", ctx.reshape(x, shape), [axis + 1], False)


@converter("swiglu", takes="one operand of two halves, or two")
def _swiglu(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    if node.input(1) is not None:
        return ctx.binary("mul", ctx.unary("silu", x), ctx.tensor(node.input(1)))
    last, half = x.rank - 1, x.extents[-1] // 2
    gate, up = (ctx.slice(x, last, known(start), known(start + half), half) for start in (0, half))
    return ctx.binary("mul", ctx.unary("silu", gate), up)


@converter("logit", takes="floats, any eps")
def _logit(ctx: Importer, node: Node) -> Tensor:
    x, eps = ctx.tensor(node.inputs[0]), float(node.attribute("eps", 0.0))
    x = ctx.unary("clamp", x, min=eps, max=1.0 - eps) if eps else x
    rest = ctx.binary("sub", ctx.full(1, x.dtype), x)
    return ctx.unary("log", ctx.binary("div", x, rest))


@converter("heaviside", takes="operands of one element type, broadcast")
def _heaviside(ctx: Importer, node: Node) -> Tensor:
    x, y = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1])
    if x.dtype != y.dtype:
        raise Reject(f"heaviside of {x.dtype} and {y.dtype}", "operands of one element type")
    return ctx.where(ctx.compare("eq", x, 0), y, ctx.cast(ctx.compare("gt", x, 0), x.dtype))


@converter("isclose", "allclose", takes="constant tolerances, with and without equal_nan; integers as float64")
def _isclose(ctx: Importer, node: Node) -> Tensor:
    x, y = (ctx.tensor(t) if ctx.type_of(t).dtype in FLOATS else ctx.tensor(t, "f64") for t in node.inputs[:2])
    relative, absolute = (float(ctx.number(t, "a tolerance")) for t in node.inputs[2:4])
    distance = ctx.unary("abs", ctx.binary("sub", x, y))
    bound = ctx.binary("add", ctx.binary("mul", ctx.unary("abs", y), relative), absolute)
    near = ctx.compare("le", distance, bound)
    found = ctx.emit_one("logical_or", [near, ctx.compare("eq", x, y)], near.type)
    if node.attribute("equal_nan", False):
        nans = [ctx.expand(ctx.emit_one("isnan", [t], TensorType("i1", t.extents)), near.extents) for t in (x, y)]
        both = ctx.emit_one("logical_and", nans, near.type)
        found = ctx.emit_one("logical_or", [found, both], near.type)
    return found if node.op.short == "isclose" else ctx.reduce("all", found, list(range(found.rank)), False)


# Losses ---------------------------------------------------------------------------------------------------------------


def _reduced(ctx: Importer, x: Tensor, how: str) -> Tensor:
    """A loss as its attribute `reduction` says."""
    if how == "none":
        return x
    if how == "batchmean":
        batch = ctx.scalar(x.extents[0], x.dtype)
        return ctx.binary("div", ctx.reduce("sum", x, list(range(x.rank)), False), batch)
    return ctx.reduce(how, x, list(range(x.rank)), False)


@converter("mean_all", takes="floats")
def _mean_all(ctx: Importer, node: Node) -> Tensor:
    x = _floats(node, ctx.tensor(node.inputs[0]))
    return ctx.reduce("mean", x, list(range(x.rank)), False)


@converter("huber_loss", takes="floats")
def _huber_loss(ctx: Importer, node: Node) -> list[Tensor]:
    x, y, delta = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1]), float(node.attribute("delta"))
    residual = ctx.binary("sub", y, x)
    size = ctx.unary("abs", residual)
    near = ctx.binary("mul", ctx.binary("mul", residual, residual), 0.5)
    far = ctx.binary("mul", ctx.binary("sub", size, 0.5 * delta), delta)
    return [ctx.where(ctx.compare("le", size, delta), near, far), residual]


@converter("kldiv_loss", takes="every reduction, targets and their logarithms")
def _kldiv_loss(ctx: Importer, node: Node) -> Tensor:
    x, y = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1])
    if node.attribute("log_target", False):
        loss = ctx.binary("mul", ctx.unary("exp", y), ctx.binary("sub", y, x))
    else:
        loss = ctx.where(ctx.compare("gt", y, 0), ctx.binary("mul", y, ctx.binary("sub", ctx.unary("log", y), x)), 0)
    return _reduced(ctx, loss, str(node.attribute("reduction", "none")))


@converter("bce_loss", takes="floats")
def _bce_loss(ctx: Importer, node: Node) -> Tensor:
    x, y = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1])
    one = ctx.full(1, x.dtype)
    hit, miss = (ctx.unary("clamp", ctx.unary("log", t), min=-100.0) for t in (x, ctx.binary("sub", one, x)))
    rest = ctx.binary("sub", y, one)
    return ctx.binary("sub", ctx.binary("mul", rest, miss), ctx.binary("mul", y, hit))


@converter("sigmoid_cross_entropy_with_logits", takes="ignore_index, weights of positive ones", refuses="normalize")
def _sigmoid_cross_entropy(ctx: Importer, node: Node) -> Tensor:
    x, y = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1])
    if node.attribute("normalize", False):
        raise Reject("sigmoid_cross_entropy_with_logits that is normalised", "a plain mean or sum of it")
    tail = ctx.unary("log1p", ctx.unary("exp", ctx.unary("neg", ctx.unary("abs", x))))
    if node.input(2) is None:
        loss = ctx.binary("add", ctx.binary("sub", ctx.unary("relu", x), ctx.binary("mul", x, y)), tail)
    else:  # (1 - y) x + w (log(1 + exp(-|x|)) + relu(-x)); the weight of each element has y in it
        factor = ctx.expand(ctx.tensor(node.inputs[2]), x.extents)
        rest = ctx.binary("add", tail, ctx.unary("relu", ctx.unary("neg", x)))
        loss = ctx.binary("add", ctx.binary("sub", x, ctx.binary("mul", x, y)), ctx.binary("mul", factor, rest))
    return ctx.where(ctx.compare("eq", y, float(node.attribute("ignore_index", -100))), 0, loss)


def _picked(ctx: Importer, x: Tensor, labels: Tensor, axis: int, ignored: int) -> tuple[Tensor, Tensor]:
    """What x has at each label along an axis (labels have one element there), and whether the label counts."""
    counts = ctx.compare("ne", labels, ignored)
    place = ctx.where(counts, labels, 0)
    return ctx.emit_one("gather", [x, place], TensorType(x.dtype, labels.extents), {"dim": axis}), counts


@converter("cross_entropy_with_softmax", takes="labels that are numbers or soft, ignore_index, any axis")
def _cross_entropy(ctx: Importer, node: Node) -> list[Tensor]:
    x, axis = ctx.tensor(node.inputs[0]), int(node.attribute("axis", -1))
    axis = ctx.axis(axis, x.rank)
    if node.attribute("use_softmax", True):
        softmax, logs = (ctx.unary(name, x, dim=axis) for name in ("softmax", "log_softmax"))
    else:
        softmax, logs = x, ctx.unary("log", x)
    if node.attribute("soft_label", False):
        each = ctx.binary("mul", ctx.tensor(node.inputs[1], x.dtype), logs)
        return [softmax, ctx.unary("neg", ctx.reduce("sum", each, [axis], True))]
    labels = ctx.tensor(node.inputs[1], "i64")
    found, counts = _picked(ctx, logs, labels, axis, int(node.attribute("ignore_index", -100)))
    return [softmax, ctx.where(counts, ctx.unary("neg", found), 0)]


def _listed(sizes: Sequence[Any]) -> str:
    return f"[{', '.join(map(str, sizes))}]"


@converter("nll_loss", takes="weights of classes, ignore_index, every reduction")
def _nll_loss(ctx: Importer, node: Node) -> list[Tensor]:
    x, labels = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1], "i64")
    wanted = (x.extents[0], *x.extents[2:])
    if labels.extents == (x.extents[0], 1) and x.rank == 2:
        labels = ctx.reshape(labels, wanted)
    if labels.extents != wanted:
        raise Reject(f"labels of sizes {_listed(labels.extents)} for scores of {_listed(x.extents)}", _listed(wanted))
    one = (labels.extents[0], 1, *labels.extents[1:])
    found, counts = _picked(ctx, x, ctx.reshape(labels, one), 1, int(node.attribute("ignore_index", -100)))
    weight = ctx.full(1, x.dtype, one)
    if node.input(2) is not None:
        classes = ctx.tensor(node.input(2), x.dtype)
        shape = tuple(e if d == 1 else 1 for d, e in enumerate(x.extents))
        wide = ctx.expand(ctx.reshape(classes, shape), x.extents)
        weight, _ = _picked(ctx, wide, ctx.reshape(labels, one), 1, int(node.attribute("ignore_index", -100)))
    weight = ctx.where(counts, weight, 0)
    loss = ctx.reshape(ctx.where(counts, ctx.unary("neg", ctx.binary("mul", found, weight)), 0), labels.extents)
    everything = list(range(labels.rank))
    total = ctx.reduce("sum", ctx.reshape(weight, labels.extents), everything, False)
    how = str(node.attribute("reduction", "mean"))
    if how == "none":
        return [loss, ctx.full(0, x.dtype)]
    summed = ctx.reduce("sum", loss, everything, False)
    return [ctx.binary("div", summed, total) if how == "mean" else summed, total]


@converter("label_smooth", takes="with and without a prior distribution")
def _label_smooth(ctx: Importer, node: Node) -> Tensor:
    x, eps = ctx.tensor(node.inputs[0]), float(node.attribute("epsilon"))
    if node.input(1) is not None:
        prior = ctx.tensor(node.input(1), x.dtype)
        return ctx.binary("add", ctx.binary("mul", x, 1.0 - eps), ctx.binary("mul", prior, eps))
    return ctx.binary("add", ctx.binary("mul", x, 1.0 - eps), eps / known(x.extents[-1]))


@converter("log_loss", takes="floats")
def _log_loss(ctx: Importer, node: Node) -> Tensor:
    x, label = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1])
    if x.rank != 2 or x.extents[1] != 1 or label.extents != x.extents:
        raise Reject(f"log_loss of sizes {_listed(x.extents)} and {_listed(label.extents)}", "one column each")
    eps, one = float(node.attribute("epsilon", 1e-4)), ctx.full(1.0, x.dtype, x.extents)
    hit = ctx.binary("mul", label, ctx.unary("log", ctx.binary("add", x, eps)))
    rest = ctx.unary("log", ctx.binary("add", ctx.binary("sub", one, x), eps))
    missed = ctx.binary("mul", ctx.binary("sub", one, label), rest)
    return ctx.unary("neg", ctx.binary("add", hit, missed))


@converter("fused_softmax_mask", takes="floats, a mask that is added")
def _fused_softmax_mask(ctx: Importer, node: Node) -> Tensor:
    x, mask = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1])
    scores = ctx.binary("add", x, ctx.cast(mask, x.dtype))
    return ctx.emit_one("softmax", [scores], scores.type, {"dim": scores.rank - 1})
