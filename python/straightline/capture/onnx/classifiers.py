# SPDX-License-Identifier: Apache-2.0
"""Forests, boosted trees and linear classifiers of ai.onnx.ml; labels and scores.

Where the standard is silent on two classes, scores are those of ONNX Runtime (tests/onnx_models/trees_test.py, ml_test.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from onnx import TensorProto

from straightline.capture.builder import TensorType
from straightline.capture.graph_builder import Reject, Tensor
from straightline.capture.onnx.importer import Importer, Node, converter
from straightline.capture.onnx.linear import matmul
from straightline.capture.onnx.shape import gathered
from straightline.capture.onnx.trees import (
    Checked,
    Trees,
    ensemble,
    numbers,
    trees_of_lists,
    trees_of_splits,
)
from straightline.capture.onnx.values import Text, Value

_POST = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


def features(ctx: Importer, node: Node) -> Tensor:
    """The first input as floats [n, f]: doubles as they are, a row of its own as one of a batch."""
    x = ctx.tensor(node.inputs[0])
    x = x if x.dtype in ("f32", "f64") else ctx.cast(x, "f32")
    return ctx.reshape(x, (1, *x.extents)) if x.rank == 1 else x


def transform_of(node: Node, read: Checked) -> str:
    """The post_transform by its name, which versions before 5 write and 5 numbers."""
    given = node.attribute("post_transform", "NONE")
    if isinstance(given, int) and 0 <= given < len(_POST):
        given = _POST[given]
    if given not in _POST:
        raise read.error(f"post_transform is {given!r} but one of {', '.join(_POST)} is needed")
    return given


def _probit(ctx: Importer, x: Tensor) -> Tensor:
    """sqrt(2) * erfinv(2 x - 1), by the formula that ONNX Runtime takes for erfinv."""
    y = ctx.binary("sub", ctx.binary("mul", x, 2.0), 1.0)
    log = ctx.unary("log", ctx.binary("mul", ctx.binary("sub", 1.0, y, x.dtype), ctx.binary("add", y, 1.0)))
    v = ctx.binary("add", ctx.binary("mul", log, 0.5), 2 / (3.14159 * 0.147))
    root = ctx.unary("sqrt", ctx.binary("sub", ctx.binary("mul", v, v), ctx.binary("mul", log, 1 / 0.147)))
    size = ctx.unary("sqrt", ctx.binary("sub", root, v))
    signed = ctx.where(ctx.compare("lt", y, 0.0), ctx.unary("neg", size), size)
    return ctx.binary("mul", signed, 1.41421356)


def _softmax_zero(ctx: Importer, x: Tensor) -> Tensor:
    """Softmax over what is not zero; zeros stay."""
    most = ctx.reduce("amax", x, [1], True)
    some = ctx.compare("gt", ctx.unary("abs", x), 1e-7)
    powers = ctx.where(some, ctx.unary("exp", ctx.binary("sub", x, most)), 0.0)
    other = ctx.where(some, 0.0, ctx.binary("mul", x, ctx.unary("exp", ctx.unary("neg", most))))
    return ctx.binary("div", ctx.binary("add", powers, other), ctx.reduce("sum", powers, [1], True))


def transformed(ctx: Importer, scores: Tensor, kind: str) -> Tensor:
    """Scores [n, c] behind a post_transform."""
    if kind == "LOGISTIC":
        return ctx.unary("sigmoid", scores)
    if kind == "SOFTMAX":
        return ctx.unary("softmax", scores, dim=1)
    if kind == "SOFTMAX_ZERO":
        return _softmax_zero(ctx, scores)
    return _probit(ctx, scores) if kind == "PROBIT" else scores


def columns(ctx: Importer, *parts: Tensor) -> Tensor:
    """Vectors [n, 1] side by side."""
    rows, dtype = parts[0].extents[0], parts[0].dtype
    return ctx.cat(list(parts), 1, TensorType(dtype, (rows, len(parts))))


def labels_of(read: Checked) -> list[Any]:
    """The labels of a classifier, numbers or strings."""
    node = read.node
    names = ("classlabels_int64s", "classlabels_ints", "classlabels_strings")
    given = [node.attribute(name) for name in names if node.attribute(name)]
    if len(given) != 1:
        raise read.error(f"{len(given)} of {', '.join(names)} are given but one is needed")
    return given[0]


def chosen_label(ctx: Importer, index: Tensor, labels: list[Any]) -> Value:
    """The label that each row's number in `index` [n] stands for."""
    if isinstance(labels[0], str):
        return Text(tuple(labels), index)
    if list(labels) == list(range(len(labels))):
        return index
    return gathered(ctx, ctx.literal(np.asarray(labels, dtype=np.int64)), index, 0)


def best(ctx: Importer, scores: Tensor) -> Tensor:
    """The place of the largest of each row, [n]."""
    return ctx.emit_one("argmax", [scores], TensorType("i64", scores.extents[:1]), {"dim": 1, "keepdim": False})


def is_above(ctx: Importer, score: Tensor, limit: float) -> Tensor:
    """1 or 0 for scores [n, 1] above a number, [n]."""
    return ctx.reshape(ctx.cast(ctx.compare("gt", score, limit), "i64"), score.extents[:1])


# Trees ----------------------------------------------------------------------------------------------------------------


def _is_wide(node: Node, x: Tensor) -> bool:
    names = ("nodes_values", "base_values", "target_weights", "class_weights")
    given = (node.attribute(f"{name}_as_tensor") for name in names)
    return x.dtype == "f64" or any(t is not None and t.data_type == TensorProto.DOUBLE and t.dims for t in given)


@converter("ai.onnx.ml.TreeEnsembleRegressor")
def _tree_regressor(ctx: Importer, node: Node) -> Tensor:
    read = Checked(node, ctx)
    x, targets = features(ctx, node), int(node.attribute("n_targets", 1))
    trees = trees_of_lists(ctx, node, "target", targets)
    aggregate = node.attribute("aggregate_function", "SUM")
    return ctx.cast(_regressed(ctx, read, x, trees, aggregate, _is_wide(node, x)), "f32")


@converter("ai.onnx.ml.TreeEnsemble")
def _tree_ensemble(ctx: Importer, node: Node) -> Tensor:
    read, x = Checked(node, ctx), features(ctx, node)
    dtype = ctx.type_of(node.inputs[0]).dtype  # type: ignore[arg-type]
    number = int(node.attribute("aggregate_function", 1))
    aggregate = _AGGREGATES[number] if 0 <= number < len(_AGGREGATES) else str(number)
    return ctx.cast(_regressed(ctx, read, x, trees_of_splits(ctx, node), aggregate, x.dtype == "f64"), dtype)


def _regressed(ctx: Importer, read: Checked, x: Tensor, trees: Trees, aggregate: str, wide: bool) -> Tensor:
    if aggregate not in _AGGREGATES:
        raise read.error(f"aggregate_function is {aggregate!r} but one of {', '.join(_AGGREGATES)} is needed")
    kind = transform_of(read.node, read)
    if trees.targets == 1 and kind in ("LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"):
        raise Reject(
            f"the post_transform {kind} of one target, which ONNX Runtime leaves out", "NONE, and an op behind it"
        )
    found = ensemble(ctx, read, x, trees, {"MIN": "min", "MAX": "max"}.get(aggregate, "sum"), wide)
    if aggregate == "AVERAGE":
        found = ctx.binary("div", found, float(trees.roots.size))
    elif aggregate != "SUM" and not _reaches_all(trees):
        size = ctx.unary("abs", found)
        found = ctx.where(ctx.compare("eq", size, float("inf")), 0.0, found)  # no tree has a weight for it
    base = numbers(read.node, "base_values")
    if base is not None and base.size:
        if base.size != trees.targets:
            raise read.error(f"base_values has {base.size} elements but there are {trees.targets} targets")
        found = _with_base(ctx, found, base)
    return transformed(ctx, found, kind)


def _reaches_all(trees: Trees) -> bool:
    """Whether each leaf has a weight for each target."""
    pairs = np.unique(trees.weight_leaf * trees.targets + trees.weight_target)
    return bool(pairs.size == trees.leaves * trees.targets)


def _with_base(ctx: Importer, scores: Tensor, base: np.ndarray) -> Tensor:
    if not base.any():
        return scores
    if base.size == 1:
        return ctx.binary("add", scores, float(base.reshape(-1)[0]))
    return ctx.binary("add", scores, ctx.literal(base.reshape(-1), scores.dtype))


@converter("ai.onnx.ml.TreeEnsembleClassifier")
def _tree_classifier(ctx: Importer, node: Node) -> list[Value]:
    read, x = Checked(node, ctx), features(ctx, node)
    labels, kind = labels_of(read), transform_of(node, read)
    if len(labels) < 2:
        raise Reject("a classifier of one label", "two")
    trees = trees_of_lists(ctx, node, "class", len(labels))
    base = numbers(node, "base_values")
    base = np.zeros(0) if base is None else base.reshape(-1)
    if base.size not in (0, len(labels)) and (len(labels), base.size) != (2, 1):
        raise read.error(f"base_values has {base.size} elements but there are {len(labels)} labels")
    wide = _is_wide(node, x)
    named = np.unique(trees.weight_target)
    if len(labels) == 2 and named.size == 1:
        index, scores = _two_by_one(ctx, read, x, trees, int(named[0]), base, kind, wide)
    else:
        scores = ensemble(ctx, read, x, trees, "sum", wide)
        if base.size == 1:
            base = np.asarray([base[0], 0.0])
        scores = _with_base(ctx, scores, base) if base.size else scores
        counted = scores
        if named.size < len(labels) and not base.size:  # a class without any weight is never chosen
            never = np.full(len(labels), -np.inf)
            never[named] = 0
            counted = ctx.binary("add", scores, ctx.literal(never, scores.dtype))
        index, scores = best(ctx, counted), transformed(ctx, scores, kind)
    return [chosen_label(ctx, index, labels), ctx.cast(scores, "f32")]


def _two_by_one(
    ctx: Importer, read: Checked, x: Tensor, trees: Trees, named: int, base: np.ndarray, kind: str, wide: bool
) -> tuple[Tensor, Tensor]:
    """Two classes, of which one has weights: the chosen place and scores [n, 2]."""
    positive = bool((trees.weight >= 0).all())
    limit = 0.5 if positive else 0.0
    only = replace(trees, weight_target=np.zeros_like(trees.weight_target), targets=1)
    score = ensemble(ctx, read, x, only, "sum", wide)
    if base.size == 2:
        raise Reject(
            "two base_values where one of two classes has weights", "one of base_values, or weights of both classes"
        )
    if named == 1 and base.size:
        raise Reject(
            "a base value where the second of two classes alone has weights", "weights of the first one (class_ids 0)"
        )
    if named == 1:
        nothing = ctx.full(0.0, score.dtype, score.extents)
        return is_above(ctx, score, limit), transformed(ctx, columns(ctx, nothing, score), kind)
    score = _with_base(ctx, score, base) if base.size else score
    return is_above(ctx, score, limit), two_scores(ctx, score, kind, positive)


def two_scores(ctx: Importer, score: Tensor, kind: str, positive: bool) -> Tensor:
    """Scores of both classes of that of the second, [n, 1]."""
    if kind == "PROBIT":
        raise Reject("the post_transform PROBIT of one score for two classes", "a score for each class")
    if kind == "LOGISTIC":
        return columns(ctx, ctx.unary("sigmoid", ctx.unary("neg", score)), ctx.unary("sigmoid", score))
    if positive:
        return columns(ctx, ctx.binary("sub", 1.0, score, score.dtype), score)
    return columns(ctx, ctx.unary("neg", score), score)


# Linear models --------------------------------------------------------------------------------------------------------


@converter("ai.onnx.ml.LinearClassifier")
def _linear_classifier(ctx: Importer, node: Node) -> list[Value]:
    read = Checked(node, ctx)
    labels, kind = labels_of(read), transform_of(node, read)
    weights = read.list("coefficients").astype(np.float32)
    bias = np.asarray(node.attribute("intercepts") or [0.0] * len(labels), dtype=np.float32)
    x = ctx.cast(features(ctx, node), "f32")
    width = x.extents[1]
    if weights.size % bias.size or (isinstance(width, int) and weights.size != bias.size * width):
        raise read.error(
            f"coefficients has {weights.size} elements"
            f" but {bias.size} intercepts and {width} features need {bias.size} * {width}"
        )
    if bias.size != len(labels) and (bias.size, len(labels)) != (1, 2):
        raise read.error(f"intercepts has {bias.size} elements but there are {len(labels)} labels")
    scores = matmul(ctx, x, ctx.literal(np.ascontiguousarray(weights.reshape(bias.size, -1).T)))
    scores = ctx.binary("add", scores, ctx.literal(bias))
    if bias.size > 1:
        return [chosen_label(ctx, best(ctx, scores), labels), transformed(ctx, scores, kind)]
    if len(labels) == 1:
        raise Reject("a classifier of one label", "two")
    if kind == "LOGISTIC":
        second = ctx.unary("sigmoid", scores)
        both = columns(ctx, ctx.binary("sub", 1.0, second, "f32"), second)
    else:
        both = two_scores(ctx, scores, kind, True)
    return [chosen_label(ctx, is_above(ctx, scores, 0.0), labels), both]
