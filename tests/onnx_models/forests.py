# SPDX-License-Identifier: Apache-2.0
"""Random forests as attributes of ai.onnx.ml's ops, models of them, and rows for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

FEATURES = 5


def grown(
    rng: np.random.Generator, trees: int, depth: int, modes: list[str], *, missing: bool = False, weights: Any
) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Attributes of nodes, and of weights without their prefix; `weights(tree)` gives the (id, weight) pairs of a leaf."""
    n: dict[str, list[Any]] = {
        name: [] for name in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    }
    n["missing_value_tracks_true"] = []
    w: dict[str, list[Any]] = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(trees):
        waiting, ids = [(0, 0)], 1
        while waiting:
            at, level = waiting.pop(0)
            leaf = level == depth or (level > 0 and rng.random() < 0.15)
            row = (tree, at, int(rng.integers(FEATURES)), float(np.float32(rng.integers(-4, 5) / 4)))
            for name, value in zip(("treeids", "nodeids", "featureids", "values"), row):
                n[name].append(0 if leaf and name in ("featureids", "values") else value)
            n["modes"].append("LEAF" if leaf else str(rng.choice(modes)))
            n["truenodeids"].append(0 if leaf else ids)
            n["falsenodeids"].append(0 if leaf else ids + 1)
            n["missing_value_tracks_true"].append(int(missing and not leaf and rng.random() < 0.5))
            if leaf:
                for target, weight in weights(tree):
                    for name, value in zip(("treeids", "nodeids", "ids", "weights"), (tree, at, target, weight)):
                        w[name].append(value)
            else:
                waiting += [(ids, level + 1), (ids + 1, level + 1)]
                ids += 2
    n["values"] = [float(v) for v in n["values"]]
    return {f"nodes_{name}": values for name, values in n.items()}, w


def model_of(op: str, *nodes: dict[str, Any], element: int = TensorProto.FLOAT, version: int = 3) -> onnx.ModelProto:
    """Nodes of one op, by their attributes, that read one input [n, FEATURES]."""
    made, infos = [], []
    for i, attributes in enumerate(nodes):
        outputs = [f"label{i}", f"scores{i}"] if op == "TreeEnsembleClassifier" else [f"y{i}"]
        made.append(helper.make_node(op, ["x"], outputs, domain="ai.onnx.ml", name=f"trees{i}", **attributes))
        kinds = (
            [TensorProto.INT64, TensorProto.FLOAT]
            if len(outputs) == 2
            else [element if version == 5 else TensorProto.FLOAT]
        )
        infos += [helper.make_tensor_value_info(name, kind, None) for name, kind in zip(outputs, kinds)]
    graph = helper.make_graph(made, "g", [helper.make_tensor_value_info("x", element, ["n", FEATURES])], infos)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def values_of(rng: np.random.Generator, rows: int, dtype: Any = np.float32, nan: bool = False) -> np.ndarray:
    x = rng.integers(-5, 6, (rows, FEATURES)).astype(dtype)
    if np.issubdtype(dtype, np.floating):
        x /= 4
        x[rng.random(x.shape) < 0.1] = -0.0
        if nan:
            x[rng.random(x.shape) < 0.2] = np.nan
    return x
