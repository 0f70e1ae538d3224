# SPDX-License-Identifier: Apache-2.0
"""Forests and boosted trees of ai.onnx.ml, random ones against ONNX Runtime, and attributes that are no trees."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import onnx
import pytest
import straightline as sl
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.onnx_models.forests import FEATURES, grown, model_of, values_of

ort = pytest.importorskip("onnxruntime")

MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
POST = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"]


def compared(
    model: onnx.ModelProto, rng: np.random.Generator, dtype: Any = np.float32, nan: bool = False, atol: float = 2e-6
) -> None:
    """Rows of one call, of a few, and of many."""
    session = ort.InferenceSession(model.SerializeToString())
    function = sl.compile(model)
    for rows in (1, 5, 16, 77):
        x = values_of(rng, rows, dtype, nan)
        wanted, found = session.run(None, {"x": x}), function(x)
        found = found if isinstance(found, tuple) else (found,)
        for place, (mine, theirs) in enumerate(zip(found, wanted, strict=True)):
            assert mine.shape == theirs.shape and mine.dtype == theirs.dtype
            if mine.dtype == np.int64:
                labels_are_equal(mine, theirs, wanted[place + 1])
            else:
                np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=atol, err_msg=model.graph.output[place].name)


def labels_are_equal(mine: Any, theirs: Any, scores: Any) -> None:
    """But where the best two scores are equal within rounding."""
    best = np.sort(scores, axis=1)
    clear = best[:, -1] - best[:, -2] > 1e-5
    np.testing.assert_array_equal(mine[clear], theirs[clear])


@pytest.mark.parametrize("missing", [False, True])
def test_decisions(missing: bool, rng: np.random.Generator) -> None:
    """Each alone, and all in one ensemble; some features are NaN, 0 or -0, and equal to thresholds."""
    made = []
    for modes in (*([m] for m in MODES), MODES):
        nodes, weights = grown(
            rng, 7, 5, modes, missing=missing, weights=lambda tree: [(0, float(np.float32(rng.standard_normal())))]
        )
        made.append(nodes | {f"target_{k}": v for k, v in weights.items()} | {"n_targets": 1})
    compared(model_of("TreeEnsembleRegressor", *made), rng, nan=True)


@pytest.mark.parametrize("depth", [0, 2, 10])
def test_regressors(depth: int, rng: np.random.Generator) -> None:
    made = []
    for aggregate in ("SUM", "AVERAGE", "MIN", "MAX"):
        for targets in (1, 3):

            def weights(tree: int, targets: int = targets) -> list[tuple[int, float]]:
                some = [t for t in range(targets) if targets == 1 or rng.random() < 0.7]
                return [(t, float(np.float32(rng.standard_normal()))) for t in some]

            nodes, leaves = grown(rng, 21, depth, ["BRANCH_LEQ"], weights=weights)
            base = [] if rng.random() < 0.3 else [float(np.float32(b)) for b in rng.standard_normal(targets)]
            made.append(nodes | {f"target_{k}": v for k, v in leaves.items()} | ({"base_values": base} if base else {}))
            made[-1] |= {"n_targets": targets, "aggregate_function": aggregate}
    compared(model_of("TreeEnsembleRegressor", *made), rng)


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.int32])
def test_inputs_of_other_types(dtype: Any, rng: np.random.Generator) -> None:
    """Thresholds between two floats count for doubles."""
    nodes, weights = grown(
        rng, 9, 6, ["BRANCH_LEQ"], weights=lambda tree: [(0, float(np.float32(rng.standard_normal())))]
    )
    attributes = nodes | {f"target_{k}": v for k, v in weights.items()} | {"n_targets": 1}
    element = {np.float64: TensorProto.DOUBLE, np.int64: TensorProto.INT64, np.int32: TensorProto.INT32}[dtype]
    if dtype is np.float64:
        values = np.asarray(attributes.pop("nodes_values")) + 1e-12
        attributes["nodes_values_as_tensor"] = numpy_helper.from_array(values, "v")
        attributes["target_weights_as_tensor"] = numpy_helper.from_array(
            np.asarray(attributes.pop("target_weights")), "w"
        )
    model = model_of("TreeEnsembleRegressor", attributes, element=element)
    if dtype is np.float64:
        compared(model, rng, dtype)
        return
    x = values_of(rng, 9, dtype)  # ONNX Runtime has no such regressor: they are floats
    session = ort.InferenceSession(model_of("TreeEnsembleRegressor", attributes).SerializeToString())
    (wanted,) = session.run(None, {"x": x.astype(np.float32)})
    np.testing.assert_allclose(sl.compile(model)(x), wanted, rtol=2e-5, atol=2e-6)


def test_two_classes_by_one_score(rng: np.random.Generator) -> None:
    made = []
    for sign in ("positive", "mixed"):
        for named, base in ((0, 0), (0, 1), (1, 0)):

            def weights(tree: int, named: int = named, sign: str = sign) -> list[tuple[int, float]]:
                return [(named, float(np.float32(rng.random() / 8 if sign == "positive" else rng.standard_normal())))]

            nodes, leaves = grown(rng, 5, 4, ["BRANCH_LEQ"], weights=weights)
            attributes = nodes | {f"class_{k}": v for k, v in leaves.items()} | {"classlabels_int64s": [3, 8]}
            attributes |= {"base_values": [float(np.float32(rng.random()))]} if base else {}
            made += [attributes | {"post_transform": post} for post in POST]
    compared(model_of("TreeEnsembleClassifier", *made), rng)


def test_several_classes(rng: np.random.Generator) -> None:
    made = []
    for per_tree in (False, True):
        for base in (False, True):

            def weights(tree: int, per_tree: bool = per_tree) -> list[tuple[int, float]]:
                return [(t, float(np.float32(rng.standard_normal()))) for t in ([tree % 4] if per_tree else range(4))]

            nodes, leaves = grown(rng, 12, 4, ["BRANCH_LEQ"], weights=weights)
            attributes = nodes | {f"class_{k}": v for k, v in leaves.items()} | {"classlabels_int64s": [5, 1, 9, 2]}
            attributes |= {"base_values": [0.5, -0.25, 0.125, 1.0]} if base else {}
            made += [attributes | {"post_transform": post} for post in POST]
    model = model_of("TreeEnsembleClassifier", *made)
    compared(model, rng)
    assert ".perTree = 1" in sl.compile(model).code


def test_a_class_without_weights_is_never_chosen(rng: np.random.Generator) -> None:
    nodes, leaves = grown(
        rng, 6, 3, ["BRANCH_LEQ"], weights=lambda tree: [(t, -1.0 - float(rng.random())) for t in (0, 2)]
    )
    attributes = nodes | {f"class_{k}": [np.float32(x) if k == "weights" else x for x in v] for k, v in leaves.items()}
    compared(model_of("TreeEnsembleClassifier", attributes | {"classlabels_int64s": [0, 1, 2]}), rng)


def test_probit(rng: np.random.Generator) -> None:
    nodes, leaves = grown(rng, 3, 3, ["BRANCH_LEQ"], weights=lambda tree: [(0, float(np.float32(rng.random() / 16)))])
    attributes = nodes | {f"target_{k}": v for k, v in leaves.items()}
    attributes |= {
        "n_targets": 1,
        "post_transform": "PROBIT",
        "base_values": [0.0625],
    }  # below 0.25: the formula is ill-conditioned near 0.5
    compared(model_of("TreeEnsembleRegressor", attributes), rng, atol=5e-5)


# The op of version 5 ---------------------------------------------------------------------------------------------------


def of_version_5(
    rng: np.random.Generator, trees: int, depth: int, modes: list[int], targets: int, dtype: Any, **others: Any
) -> onnx.ModelProto:
    """Random trees by the attributes of TreeEnsemble."""
    names = ("featureids", "modes", "truenodeids", "trueleafs", "falsenodeids", "falseleafs")
    n: dict[str, list[int]] = {name: [] for name in names}
    splits: list[float] = []
    members: list[float] = []
    leaves: list[tuple[int, float]] = []
    roots = []

    def child(level: int) -> tuple[int, int]:
        if level == depth or (level and rng.random() < 0.2):
            leaves.append((int(rng.integers(targets)), float(rng.standard_normal())))
            return len(leaves) - 1, 1
        at = len(splits)
        for name in names:
            n[name].append(0)
        n["featureids"][at], n["modes"][at] = int(rng.integers(FEATURES)), int(rng.choice(modes))
        splits.append(float(rng.integers(-4, 5) / 4))
        for side in ("true", "false"):
            n[f"{side}nodeids"][at], n[f"{side}leafs"][at] = child(level + 1)
        return at, 0

    for _ in range(trees):
        roots.append(child(0)[0])
    for mode in n["modes"]:
        if mode == 6:
            # not 0, which ends a set of onnx's reference
            members += [*(float(m) for m in rng.choice([-1.0, -0.5, 0.25, 0.5, 1.0], rng.integers(1, 4))), np.nan]
    tensors = {"nodes_splits": splits, "leaf_weights": [w for _, w in leaves]} | (
        {"membership_values": members} if members else {}
    )
    attributes = {f"nodes_{name}": values for name, values in n.items() if name != "modes"}
    attributes |= {name: numpy_helper.from_array(np.asarray(v, dtype), name) for name, v in tensors.items()}
    attributes |= {"nodes_modes": numpy_helper.from_array(np.asarray(n["modes"], np.uint8), "m"), "tree_roots": roots}
    attributes |= {"leaf_targetids": [t for t, _ in leaves], "n_targets": targets}
    return model_of(
        "TreeEnsemble", attributes | others, element=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), version=5
    )


@pytest.mark.parametrize("modes", [[0], [6], [0, 1, 2, 3, 4, 5, 6]], ids=["leq", "member", "all"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_version_5(modes: list[int], dtype: Any, rng: np.random.Generator) -> None:
    model = of_version_5(rng, 8, 4, modes, 2, dtype, aggregate_function=1, post_transform=0)
    if 6 not in modes:
        compared(model, rng, dtype)
    # ONNX Runtime's sets are of the integers from 1 on
    function, x = sl.compile(model), values_of(rng, 40, dtype)
    (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(function(x), wanted, rtol=2e-5, atol=2e-6)


def test_a_half(rng: np.random.Generator) -> None:
    """ONNX Runtime has no such form: that of floats, of the same numbers."""
    model = of_version_5(rng, 4, 4, [0], 1, np.float16, aggregate_function=1)
    x = values_of(rng, 9, np.float16)
    wide = onnx.ModelProto.FromString(model.SerializeToString())
    for attribute in wide.graph.node[0].attribute:
        if attribute.name in ("nodes_splits", "leaf_weights"):
            attribute.t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(attribute.t).astype(np.float32)))
    for value in (*wide.graph.input, *wide.graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT
    (wanted,) = ort.InferenceSession(wide.SerializeToString()).run(None, {"x": x.astype(np.float32)})
    found = sl.compile(model)(x)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, wanted.astype(np.float16), rtol=2e-3)


# Attributes that are no trees -------------------------------------------------------------------------------------------


def stump(**changes: Any) -> onnx.ModelProto:
    """One decision, two leaves."""
    attributes: dict[str, Any] = {
        "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [1, 0, 0], "nodes_values": [0.5, 0.0, 0.0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0],
        "target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0], "target_weights": [1.0, 2.0], "n_targets": 1,
    }  # fmt: skip
    return model_of("TreeEnsembleRegressor", attributes | changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"nodes_values": [0.5, 0.0]}, "nodes_values has 2 elements but nodes_treeids has 3"),
        ({"nodes_modes": ["BRANCH_LEQ", "LEAF"]}, "nodes_modes has 2 elements but nodes_treeids has 3"),
        ({"nodes_modes": ["BRANCH", "LEAF", "LEAF"]}, "nodes_modes has 'BRANCH' but LEAF or one of BRANCH_LEQ,"),
        ({"nodes_truenodeids": [7, 0, 0]}, r"nodes_truenodeids\[0\] is node 7 of tree 0, which has no such node"),
        ({"nodes_truenodeids": [0, 0, 0]}, "lead back to the inner node 0"),
        ({"nodes_values": [float("nan"), 0.0, 0.0]}, r"nodes_values\[0\] is NaN"),
        ({"nodes_featureids": [5, 0, 0]}, "nodes_featureids has the feature 5 .*but x has 5 features"),
        ({"nodes_featureids": [-1, 0, 0]}, "nodes_featureids has the feature -1"),
        ({"nodes_nodeids": [0, 1, 1]}, "tree 0 has two nodes 1"),
        ({"nodes_treeids": [0, 1, 0]}, "the nodes of a tree do not stand side by side"),
        ({"target_weights": [1.0]}, "target_weights has 1 elements but target_ids has 2"),
        ({"target_ids": [0, 3]}, r"target_ids\[1\] is 3 but there are 1"),
        ({"target_nodeids": [1, 9]}, r"target_nodeids\[1\] is node 9 of tree 0"),
        ({"base_values": [1.0, 2.0]}, "base_values has 2 elements but there are 1 targets"),
        (
            {"aggregate_function": "PRODUCT"},
            "aggregate_function is 'PRODUCT' but one of AVERAGE, SUM, MIN, MAX is needed",
        ),
        ({"post_transform": "ODD"}, "post_transform is 'ODD' but one of NONE"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_no_trees(changes: dict[str, Any], words: str, tmp_path: Any) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(stump(**changes).SerializeToString())
    with pytest.raises(sl.UserError, match=f"^bad.onnx: node 'trees0' .ai.onnx.ml.TreeEnsembleRegressor.: .*{words}"):
        sl.compile(path)


def test_a_cycle_below_the_root() -> None:
    """Of nodes that two others lead to."""
    nodes = {
        "nodes_treeids": [0] * 5, "nodes_nodeids": [0, 1, 2, 3, 4], "nodes_featureids": [0] * 5, "nodes_values": [0.0] * 5,
        "nodes_modes": ["BRANCH_LEQ"] * 3 + ["LEAF"] * 2, "nodes_truenodeids": [1, 2, 1, 0, 0], "nodes_falsenodeids": [3, 4, 3, 0, 0],
        "target_nodeids": [3, 4],
    }  # fmt: skip
    with pytest.raises(sl.UserError, match="the nodes have a cycle"):
        sl.compile(stump(**nodes))


def test_one_target_behind_a_transform_is_refused() -> None:
    with pytest.raises(
        sl.UnsupportedError, match="the post_transform LOGISTIC of one target, which ONNX Runtime leaves out"
    ):
        sl.compile(stump(post_transform="LOGISTIC"))


def test_base_values_that_no_one_agrees_on() -> None:
    changes = {
        f"class_{k}": v
        for k, v in (("treeids", [0, 0]), ("nodeids", [1, 2]), ("ids", [0, 0]), ("weights", [1.0, -1.0]))
    }
    kept = {
        a.name: helper.get_attribute_value(a) for a in stump().graph.node[0].attribute if a.name.startswith("nodes_")
    }
    model = model_of(
        "TreeEnsembleClassifier", kept | changes | {"classlabels_int64s": [0, 1], "base_values": [0.5, 0.5]}
    )
    with pytest.raises(sl.UnsupportedError, match="two base_values where one of two classes has weights"):
        sl.compile(model)
    changes |= {"class_ids": [1, 1], "base_values": [0.5]}
    model = model_of("TreeEnsembleClassifier", kept | changes | {"classlabels_int64s": [0, 1]})
    with pytest.raises(sl.UnsupportedError, match="a base value where the second of two classes alone has weights"):
        sl.compile(model)


def test_a_million_nodes(rng: np.random.Generator) -> None:
    """The import is of arrays: seconds, most of them onnx's own."""
    depth, count = 19, 2**20 - 1
    inner = 2**depth - 1
    at = np.arange(count)
    leaf = at >= inner
    attributes: dict[str, Any] = {
        "nodes_treeids": np.zeros(count, int).tolist(), "nodes_nodeids": at.tolist(),
        "nodes_featureids": np.where(leaf, 0, rng.integers(0, FEATURES, count)).tolist(),
        "nodes_values": np.where(leaf, 0, rng.integers(-5, 6, count) / 4).astype(np.float32).tolist(),
        "nodes_modes": np.where(leaf, "LEAF", "BRANCH_LEQ").tolist(),
        "nodes_truenodeids": np.where(leaf, 0, 2 * at + 1).tolist(), "nodes_falsenodeids": np.where(leaf, 0, 2 * at + 2).tolist(),
        "target_treeids": np.zeros(inner + 1, int).tolist(), "target_nodeids": at[leaf].tolist(),
        "target_ids": np.zeros(inner + 1, int).tolist(), "target_weights": rng.standard_normal(inner + 1).astype(np.float32).tolist(),
        "n_targets": 1,
    }  # fmt: skip
    model = model_of("TreeEnsembleRegressor", attributes)
    begin = time.perf_counter()
    function = sl.compile(model)
    print(f"{time.perf_counter() - begin:.1f} s")
    x = values_of(rng, 20)
    place = np.zeros(20, int)
    arrays = {
        k: np.asarray(attributes[k])
        for k in ("nodes_featureids", "nodes_values", "nodes_truenodeids", "nodes_falsenodeids")
    }
    for _ in range(depth):
        holds = x[np.arange(20), arrays["nodes_featureids"][place]] <= arrays["nodes_values"][place]
        place = np.where(holds, arrays["nodes_truenodeids"][place], arrays["nodes_falsenodeids"][place])
    np.testing.assert_array_equal(
        function(x)[:, 0], np.asarray(attributes["target_weights"], np.float32)[place - inner]
    )
