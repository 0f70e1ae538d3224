# SPDX-License-Identifier: Apache-2.0
"""SVMRegressor and SVMClassifier of ai.onnx.ml, with the votes and probabilities that ONNX Runtime gives."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper

from straightline.capture.builder import TensorType
from straightline.capture.graph_builder import Reject, Tensor
from straightline.capture.onnx.classifiers import (
    best,
    chosen_label,
    columns,
    features,
    labels_of,
    transform_of,
    transformed,
    two_scores,
)
from straightline.capture.onnx.importer import Importer, Node, converter
from straightline.capture.onnx.linear import matmul
from straightline.capture.onnx.trees import Checked
from straightline.capture.onnx.values import Known, Value


def _distances(ctx: Importer, x: Tensor, vectors: np.ndarray) -> Tensor:
    """Squares of the distances of rows of x and of vectors, |x|^2 - 2 x v + |v|^2: in doubles, which lose no digit of a float."""
    wide, own = ctx.cast(x, "f64"), vectors.astype(np.float64)
    type = TensorType("f64", (x.extents[0], len(vectors)))
    found = ctx.emit_one("linear", [wide, ctx.literal(-2 * own), ctx.literal((own * own).sum(1))], type)
    found = ctx.binary("add", found, ctx.reduce("sum", ctx.binary("mul", wide, wide), [1], True))
    return ctx.cast(ctx.binary("maximum", found, 0.0), "f32")


def _kernel(ctx: Importer, read: Checked, x: Tensor, vectors: np.ndarray) -> Tensor:
    """The kernel of rows of x and of vectors [v, f]: [n, v]."""
    kind = read.node.attribute("kernel_type", "LINEAR")
    given = read.node.attribute("kernel_params") or [0.0, 0.0, 3.0]
    if len(given) != 3:
        raise read.error(f"kernel_params has {len(given)} elements but gamma, coef0 and degree are needed")
    gamma, coef0, degree = (float(np.float32(p)) for p in given)
    if x.extents[1] != vectors.shape[1]:
        raise read.error(f"support_vectors have {vectors.shape[1]} features but x has {x.extents[1]}")
    if kind == "RBF":
        return ctx.unary("exp", ctx.binary("mul", _distances(ctx, x, vectors), -gamma))
    product = matmul(ctx, x, ctx.literal(np.ascontiguousarray(vectors.T)))
    if kind == "LINEAR":
        return product
    moved = ctx.binary("add", ctx.binary("mul", product, gamma), coef0)
    if kind == "POLY":
        return ctx.binary("pow", moved, degree)
    if kind == "SIGMOID":
        return ctx.unary("tanh", moved)
    raise read.error(f"kernel_type is {kind!r} but LINEAR, POLY, RBF or SIGMOID is needed")


@converter("ai.onnx.ml.SVMRegressor")
def _svm_regressor(ctx: Importer, node: Node) -> Tensor:
    read = Checked(node, ctx)
    weights = read.list("coefficients").astype(np.float32)
    x, count = ctx.cast(features(ctx, node), "f32"), int(node.attribute("n_supports", 0))
    if (kind := transform_of(node, read)) != "NONE":
        raise Reject(f"the post_transform {kind}, which ONNX Runtime leaves out", "NONE, and an op behind it")
    rho = float((node.attribute("rho") or [0.0])[0])
    if count > 0:
        vectors = np.asarray(node.attribute("support_vectors") or [], dtype=np.float32)
        if weights.size != count or not vectors.size or vectors.size % count:
            raise read.error(
                f"coefficients has {weights.size} and support_vectors {vectors.size} elements but n_supports is {count}"
            )
        found = matmul(ctx, _kernel(ctx, read, x, vectors.reshape(count, -1)), ctx.literal(weights[:, None]))
    else:
        if weights.size != x.extents[1]:
            raise read.error(f"coefficients has {weights.size} elements but x has {x.extents[1]} features")
        found = matmul(ctx, x, ctx.literal(weights[:, None]))
    found = ctx.binary("add", found, rho)
    if node.attribute("one_class", 0):
        return ctx.where(ctx.compare("gt", found, 0.0), ctx.full(1.0, "f32", found.extents), -1.0)
    return found


@converter("ai.onnx.ml.SVMClassifier")
def _svm_classifier(ctx: Importer, node: Node) -> list[Value]:
    read = Checked(node, ctx)
    labels, kind = labels_of(read), transform_of(node, read)
    classes = len(labels)
    x = ctx.cast(features(ctx, node), "f32")
    counts = [int(c) for c in node.attribute("vectors_per_class") or []]
    if classes < 2:
        raise Reject("a classifier of one label", "two")
    if not sum(counts):
        return _svm_of_planes(ctx, read, x, labels, kind)
    first, second, sums = _pairs_of(ctx, read, x, counts, classes)
    is_first = ctx.cast(ctx.compare("gt", sums, 0.0), "f32")
    other = ctx.binary("sub", 1.0, is_first, "f32")
    votes = ctx.binary("add", matmul(ctx, is_first, ctx.literal(first)), matmul(ctx, other, ctx.literal(second)))
    label = chosen_label(ctx, best(ctx, votes), labels)
    a, b = (np.asarray(node.attribute(name) or [], dtype=np.float32) for name in ("prob_a", "prob_b"))
    pairs = first.shape[0]
    if a.size != b.size or a.size not in (0, pairs):
        raise read.error(f"prob_a has {a.size} and prob_b {b.size} elements but there are {pairs} pairs of classes")
    if a.size:
        value = ctx.binary("add", ctx.binary("mul", sums, ctx.literal(a)), ctx.literal(b))
        value = ctx.unary("sigmoid", ctx.unary("neg", value))
        value = ctx.binary("minimum", ctx.binary("maximum", value, 1e-7), 1 - 1e-7)
        return [label, transformed(ctx, _coupled(ctx, value, classes), kind)]
    if classes > 2:
        return [label, transformed(ctx, sums, kind)]
    return [label, two_scores(ctx, sums, "NONE", kind != "NONE")]


def _pairs_of(
    ctx: Importer, read: Checked, x: Tensor, counts: list[int], classes: int
) -> tuple[np.ndarray, np.ndarray, Tensor]:
    """Sums [n, pairs] of the pairs of classes; and which class of c each pair votes for where its sum is above 0, or not."""
    total, pairs = sum(counts), classes * (classes - 1) // 2
    weights = np.asarray(read.node.attribute("coefficients") or [], dtype=np.float32)
    vectors = np.asarray(read.node.attribute("support_vectors") or [], dtype=np.float32)
    rho = np.asarray(read.node.attribute("rho") or [], dtype=np.float32)
    if len(counts) != classes:
        raise read.error(f"vectors_per_class has {len(counts)} elements but there are {classes} labels")
    if weights.size != (classes - 1) * total or not vectors.size or vectors.size % total:
        raise read.error(
            f"coefficients has {weights.size} and support_vectors {vectors.size} elements"
            f" but there are {total} vectors and {classes} labels"
        )
    if rho.size != pairs:
        raise read.error(f"rho has {rho.size} elements but there are {pairs} pairs of classes")
    weights, start = weights.reshape(classes - 1, total), np.r_[0, np.cumsum(counts)]
    taken, first, second = np.zeros((total, pairs), np.float32), *np.zeros((2, pairs, classes), np.float32)
    for pair, (i, j) in enumerate((i, j) for i in range(classes) for j in range(i + 1, classes)):
        of_i, of_j = slice(start[i], start[i + 1]), slice(start[j], start[j + 1])
        taken[of_i, pair] = weights[j - 1, of_i]
        taken[of_j, pair] += weights[i, of_j]
        first[pair, i] = second[pair, j] = 1
    # in doubles, as ONNX Runtime adds: coefficients may be thousands of which little is left
    kernel = ctx.cast(_kernel(ctx, read, x, vectors.reshape(total, -1)), "f64")
    found = matmul(ctx, kernel, ctx.literal(taken, "f64"))
    return first, second, ctx.cast(ctx.binary("add", found, ctx.literal(rho, "f64")), "f32")


def _svm_of_planes(ctx: Importer, read: Checked, x: Tensor, labels: list[Any], kind: str) -> list[Value]:
    """Without vectors: a row of coefficients for each class."""
    weights = np.asarray(read.node.attribute("coefficients") or [], dtype=np.float32)
    if weights.size != len(labels) * x.extents[1]:
        raise read.error(
            f"coefficients has {weights.size} elements but there are {len(labels)} labels and {x.extents[1]} features"
        )
    scores = matmul(ctx, x, ctx.literal(np.ascontiguousarray(weights.reshape(len(labels), -1).T)))
    scores = ctx.binary("add", scores, float((read.node.attribute("rho") or [0.0])[0]))
    index = best(ctx, scores)
    if len(labels) == 2:
        most = ctx.reduce("amax", scores, [1], False)
        above = ctx.compare("ge", most, 0.5) if (weights >= 0).all() else ctx.compare("gt", most, 0.0)
        index = ctx.where(above, ctx.full(1, "i64", index.extents), index)
    return [chosen_label(ctx, index, labels), transformed(ctx, scores, kind)]


def _coupled(ctx: Importer, pairs: Tensor, classes: int) -> Tensor:
    """Probabilities of classes of those of their pairs [n, pairs], as libsvm and ONNX Runtime find them, step by step."""
    rows = pairs.extents[0]
    one = lambda t, i: ctx.slice(t, 1, i, i + 1, 1)  # noqa: E731
    ratio: dict[tuple[int, int], Tensor] = {}
    for pair, (i, j) in enumerate((i, j) for i in range(classes) for j in range(i + 1, classes)):
        ratio[i, j] = one(pairs, pair)
        ratio[j, i] = ctx.binary("sub", 1.0, ratio[i, j], "f32")
    entries = []
    for i in range(classes):
        for j in range(classes):
            if i != j:
                entries.append(ctx.unary("neg", ctx.binary("mul", ratio[j, i], ratio[i, j])))
                continue
            squares = [ctx.binary("mul", ratio[k, i], ratio[k, i]) for k in range(classes) if k != i]
            total = squares[0]
            for square in squares[1:]:
                total = ctx.binary("add", total, square)
            entries.append(total)
    q = ctx.reshape(columns(ctx, *entries), (rows, classes, classes))
    start = ctx.full(1 / classes, "f32", (rows, classes))
    return _looped(ctx, q, start, classes)


def _looped(ctx: Importer, q: Tensor, start: Tensor, classes: int) -> Tensor:
    """At most 100 rounds; a row whose error is below 0.005 / classes stays as it is. Written as a loop of ONNX."""
    nodes: list[Any] = []
    constants: dict[str, np.ndarray] = {}

    def op(kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def constant(name: str, array: Any) -> str:
        constants[name] = np.asarray(array)
        return name

    last, middle = constant("last", [1]), constant("middle", [2])
    column = op("Unsqueeze", ["p", middle], "column")
    qp = op("Squeeze", [op("MatMul", ["q", column], "qp3"), middle], "qp")
    total = op("ReduceSum", [op("Mul", ["p", qp], "pqp_terms"), last], "pqp", keepdims=1)
    error = op("ReduceMax", [op("Abs", [op("Sub", [qp, total], "off")], "size"), last], "error", keepdims=1)
    goes_on = op("GreaterOrEqual", [error, constant("limit", np.float32(0.005 / classes))], "goes_on")
    p = "p"
    for i in range(classes):
        at = constant(f"at{i}", [i])
        unit = constant(f"unit{i}", np.eye(classes, dtype=np.float32)[i : i + 1])
        row = op("Gather", ["q", constant(f"row{i}", i)], f"q{i}", axis=1)
        diagonal = op("Gather", [row, at], f"d{i}", axis=1)
        own = op("Gather", [qp, at], f"own{i}", axis=1)
        diff = op("Div", [op("Sub", [total, own], f"top{i}"), diagonal], f"diff{i}")
        scale = op("Add", [diff, constant("one", np.float32(1))], f"scale{i}")
        twice = op("Mul", [own, constant("two", np.float32(2))], f"twice{i}")
        change = op("Mul", [diff, op("Add", [op("Mul", [diff, diagonal], f"dd{i}"), twice], f"in{i}")], f"change{i}")
        total = op("Div", [op("Div", [op("Add", [total, change], f"sum{i}"), scale], f"half{i}"), scale], f"pqp{i}")
        qp = op("Div", [op("Add", [qp, op("Mul", [diff, row], f"step{i}")], f"qsum{i}"), scale], f"qp{i}")
        p = op("Div", [op("Add", [p, op("Mul", [diff, unit], f"put{i}")], f"psum{i}"), scale], f"p{i}")
    op("Where", [goes_on, p, "p"], "next")
    op(
        "Cast",
        [op("ReduceMax", [op("Cast", [goes_on], "flags", to=TensorProto.INT32)], "some", keepdims=0)],
        "more",
        to=TensorProto.BOOL,
    )
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        nodes, "coupling",
        [value("round", TensorProto.INT64, []), value("cond", TensorProto.BOOL, []), value("p", TensorProto.FLOAT, None)],
        [value("more", TensorProto.BOOL, []), value("next", TensorProto.FLOAT, None)],
    )  # fmt: skip
    named: dict[str, Value] = {"q": q, "start": start}
    named |= {name: Known(array) for name, array in constants.items()}
    named |= {"rounds": Known(np.asarray(100)), "yes": Known(np.asarray(True))}
    loop = helper.make_node("Loop", ["rounds", "yes", "start"], ["found"], body=body)
    (found,) = ctx.nested([loop], named, ["found"])
    return ctx.tensor(found)
