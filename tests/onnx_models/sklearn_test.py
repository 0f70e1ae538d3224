# SPDX-License-Identifier: Apache-2.0
"""Estimators and pipelines of scikit-learn as skl2onnx writes them, against ONNX Runtime and against scikit-learn itself."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
import straightline as sl
from onnx import TensorProto, helper

ort = pytest.importorskip("onnxruntime")
skl2onnx = pytest.importorskip("skl2onnx")
sklearn = pytest.importorskip("sklearn")

from sklearn import (  # noqa: E402
    cluster,
    cross_decomposition,
    decomposition,
    ensemble,
    gaussian_process,
    impute,
    linear_model,
    naive_bayes,
    neighbors,
    neural_network,
    pipeline,
    preprocessing,
    svm,
    tree,
)

#: Op sets of skl2onnx 1.20: IsolationForest is written for version 3 of ai.onnx.ml alone.
OPSETS = {"": 21, "ai.onnx.ml": 3}
FEATURES = 6


def data(rng: np.random.Generator, dtype: Any = np.float32) -> tuple[np.ndarray, np.ndarray]:
    """Features, and a number for each row that follows them."""
    x = rng.standard_normal((150, FEATURES)).astype(dtype)
    return x, x[:, 0] * 2 + np.sin(3 * x[:, 1]) - x[:, 2] * x[:, 3] + 0.1 * rng.standard_normal(150)


def classes(y: np.ndarray, count: int) -> np.ndarray:
    """As many classes of like numbers."""
    return np.digitize(y, np.quantile(y, np.arange(1, count) / count))


def converted(estimator: Any, x: np.ndarray, **options: Any) -> onnx.ModelProto:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return skl2onnx.to_onnx(
            estimator, x[:1], target_opset=OPSETS, options={id(estimator): options} if options else None
        )


def compared(model: onnx.ModelProto, x: np.ndarray, *, rtol: float = 1e-4, labels: int = -1) -> list[np.ndarray]:
    """The results for all rows; those of one, of a few and of all are ONNX Runtime's. `labels`: the output that has such."""
    session, function = ort.InferenceSession(model.SerializeToString()), sl.compile(model)
    # What rounding can do is a share of the terms that a value sums: the largest value of all rows tells their size.
    every = session.run(None, {model.graph.input[0].name: x})
    sizes = [1e-6 if t.dtype.kind not in "f" else max(1e-6, float(np.abs(t).max())) for t in every]
    for rows in (1, 7, len(x)):
        found = function(x[:rows])
        found = list(found) if isinstance(found, tuple) else [found]
        wanted = session.run(None, {model.graph.input[0].name: x[:rows]})
        clear = np.ones(rows, bool)
        if labels >= 0 and wanted[-1].ndim == 2 and wanted[-1].shape[1] > 1:
            best = np.sort(wanted[-1], axis=1)
            clear = best[:, -1] - best[:, -2] > 1e-4 * np.abs(best[:, -1])
        for place, (mine, theirs) in enumerate(zip(found, wanted, strict=True)):
            assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
            if place == labels:
                np.testing.assert_array_equal(mine[clear], theirs[clear])
            else:
                np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=rtol * sizes[place])
    return found


REGRESSORS: dict[str, Callable[[], Any]] = {
    "GradientBoosting": lambda: ensemble.GradientBoostingRegressor(n_estimators=8),
    "RandomForest": lambda: ensemble.RandomForestRegressor(8),
    "ExtraTrees": lambda: ensemble.ExtraTreesRegressor(8),
    "DecisionTree": tree.DecisionTreeRegressor,
    "AdaBoost": lambda: ensemble.AdaBoostRegressor(n_estimators=3),
    "Voting": lambda: ensemble.VotingRegressor([("a", linear_model.Ridge()), ("b", tree.DecisionTreeRegressor(max_depth=3))]),
    "SVR": svm.SVR,
    "NuSVR, poly": lambda: svm.NuSVR(kernel="poly"),
    "Ridge": linear_model.Ridge,
    "PLS": cross_decomposition.PLSRegression,
    "KNeighbors": neighbors.KNeighborsRegressor,
    "MLP": lambda: neural_network.MLPRegressor(hidden_layer_sizes=(5,), max_iter=20),
    "GaussianProcess": lambda: gaussian_process.GaussianProcessRegressor(alpha=0.1),
    "scaled, boosted": lambda: pipeline.make_pipeline(
        impute.SimpleImputer(), preprocessing.StandardScaler(), decomposition.PCA(4), ensemble.GradientBoostingRegressor(n_estimators=4)
    ),
    "polynomial": lambda: pipeline.make_pipeline(preprocessing.PolynomialFeatures(), linear_model.Ridge()),
}  # fmt: skip


@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors(name: str, rng: np.random.Generator) -> None:
    x, y = data(rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        few = 25 if name in ("GaussianProcess", "KNeighbors") else len(x)  # each row is a part of the model
        estimator = REGRESSORS[name]().fit(x[:few], y[:few])
    (found,) = compared(converted(estimator, x), x)
    wanted = estimator.predict(x)
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=1e-2, atol=2e-3 * np.abs(wanted).max())


CLASSIFIERS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "GradientBoosting": (lambda: ensemble.GradientBoostingClassifier(n_estimators=4), (2, 3)),
    "RandomForest": (lambda: ensemble.RandomForestClassifier(8), (2, 4)),
    "AdaBoost": (lambda: ensemble.AdaBoostClassifier(n_estimators=3), (3,)),
    "SVC": (svm.SVC, (3,)),
    "SVC, sigmoid": (lambda: svm.SVC(kernel="sigmoid"), (2,)),
    "SVC with probabilities": (lambda: svm.SVC(probability=True), (3,)),
    "SVC, linear": (lambda: svm.SVC(kernel="linear"), (2,)),
    "NuSVC": (svm.NuSVC, (2,)),
    "LinearSVC": (svm.LinearSVC, (3,)),
    "LogisticRegression": (linear_model.LogisticRegression, (2, 3)),
    "KNeighbors": (neighbors.KNeighborsClassifier, (3,)),
    "GaussianNB": (naive_bayes.GaussianNB, (3,)),
    "scaled": (lambda: pipeline.make_pipeline(preprocessing.MinMaxScaler(), linear_model.LogisticRegression()), (3,)),
}


@pytest.mark.parametrize(
    ("name", "count"), [(name, count) for name, (_, counts) in CLASSIFIERS.items() for count in counts]
)
def test_classifiers(name: str, count: int, rng: np.random.Generator) -> None:
    x, y = data(rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = CLASSIFIERS[name][0]().fit(x, classes(y, count) * 3 + 1)
    options = {} if name == "LinearSVC" else {"zipmap": False}
    label, scores = compared(converted(estimator, x, **options), x, labels=0, rtol=1e-3 if "SVC" in name else 1e-4)
    assert (label == estimator.predict(x)).mean() > 0.97  # float32 decides near ones otherwise
    if hasattr(estimator, "predict_proba") and "SVC" not in name:
        np.testing.assert_allclose(scores, estimator.predict_proba(x), rtol=1e-2, atol=2e-3)


OTHERS: dict[str, tuple[Callable[[], Any], int]] = {
    "IsolationForest": (lambda: ensemble.IsolationForest(n_estimators=5), 0),
    "OneClassSVM": (svm.OneClassSVM, 0),
    "KMeans": (lambda: cluster.KMeans(3), 0),
    "StandardScaler": (preprocessing.StandardScaler, -1),
    "MinMaxScaler": (preprocessing.MinMaxScaler, -1),
    "RobustScaler": (preprocessing.RobustScaler, -1),
    "MaxAbsScaler": (preprocessing.MaxAbsScaler, -1),
    "Normalizer": (preprocessing.Normalizer, -1),
    "Binarizer": (preprocessing.Binarizer, -1),
    "KBinsDiscretizer": (
        lambda: preprocessing.KBinsDiscretizer(3, encode="onehot-dense", quantile_method="averaged_inverted_cdf"),
        -1,
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_others(name: str, rng: np.random.Generator) -> None:
    x, _ = data(rng)
    estimator = OTHERS[name][0]().fit(x)
    found = compared(converted(estimator, x), x, labels=OTHERS[name][1], rtol=1e-3)
    wanted = estimator.predict(x) if hasattr(estimator, "predict") else estimator.transform(x)
    near = np.abs(found[0].reshape(wanted.shape) - wanted) < 2e-3 * (1 + np.abs(wanted))
    assert near.mean() > 0.97


def test_categories(rng: np.random.Generator) -> None:
    """Integers as columns and as numbers; one that was not there when it was fitted."""
    x = rng.integers(0, 4, (60, 3)) * 5
    hot = preprocessing.OneHotEncoder(sparse_output=False, handle_unknown="ignore").fit(x)
    model, odd = converted(hot, x), np.where(rng.random(x.shape) < 0.2, 7, x)
    (found,) = compared(model, odd)
    np.testing.assert_array_equal(found, hot.transform(odd))
    ordinal = preprocessing.OrdinalEncoder(dtype=np.int64).fit(x)
    (found,) = compared(converted(ordinal, x), x)
    np.testing.assert_array_equal(found, ordinal.transform(x))


def test_doubles(rng: np.random.Generator) -> None:
    """Features that are doubles, as skl2onnx takes them; forests compare them as such."""
    x, y = data(rng, np.float64)
    made = pipeline.make_pipeline(preprocessing.StandardScaler(), ensemble.RandomForestClassifier(5)).fit(
        x, classes(y, 3)
    )
    _, scores = compared(converted(made, x, zipmap=False), x, labels=0)
    np.testing.assert_allclose(scores, made.predict_proba(x), rtol=1e-5)
    linear = linear_model.Ridge().fit(x, y)
    (found,) = compared(converted(linear, x), x, rtol=1e-9)
    np.testing.assert_allclose(found[:, 0], linear.predict(x), rtol=1e-9)


def test_zip_map_is_the_tensor(rng: np.random.Generator) -> None:
    x, y = data(rng)
    made = linear_model.LogisticRegression().fit(x, classes(y, 3))
    label, scores = sl.compile(converted(made, x))(x)
    np.testing.assert_array_equal(label, made.predict(x))
    np.testing.assert_allclose(scores, made.predict_proba(x), rtol=1e-4, atol=1e-6)


def test_labels_of_text(rng: np.random.Generator) -> None:
    """A result of text is an array of objects; without it the scores are there."""
    x, y = data(rng)
    made = ensemble.RandomForestClassifier(5).fit(x, np.asarray(["low", "mid", "high"])[classes(y, 3)])
    model = converted(made, x, zipmap=False)
    label, scores = sl.compile(model)(x)
    assert label.dtype == object
    np.testing.assert_array_equal(label, made.predict(x))
    np.testing.assert_allclose(scores, made.predict_proba(x), rtol=1e-5)
    del model.graph.output[0]
    np.testing.assert_allclose(sl.compile(model)(x), made.predict_proba(x), rtol=1e-5)


def _of_histograms(estimator: Any, targets: int) -> dict[str, Any]:
    """Nodes of HistGradientBoosting: its thresholds are doubles, and NaN has a side. skl2onnx 1.20 fails on these with protobuf 7."""
    n: dict[str, list[Any]] = {
        name: [] for name in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids", "missing_value_tracks_true")
    }  # fmt: skip
    w: dict[str, list[Any]] = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}
    trees = [(target, predictor) for stage in estimator._predictors for target, predictor in enumerate(stage)]
    for number, (target, predictor) in enumerate(trees):
        for at, node in enumerate(predictor.nodes):
            leaf = bool(node["is_leaf"])
            threshold = np.float32(node["num_threshold"])
            if threshold > node["num_threshold"]:  # a float32 below, so that no feature changes its side
                threshold = np.nextafter(threshold, np.float32(-np.inf))
            row = (number, at, 0 if leaf else int(node["feature_idx"]), 0.0 if leaf else float(threshold), "LEAF" if leaf else "BRANCH_LEQ",
                   0 if leaf else int(node["left"]), 0 if leaf else int(node["right"]), int(node["missing_go_to_left"]) * (not leaf))  # fmt: skip
            for name, value in zip(n, row, strict=True):
                n[name].append(value)
            if leaf:
                for name, value in zip(w, (number, at, target, float(node["value"])), strict=True):
                    w[name].append(value)
    attributes: dict[str, Any] = {f"nodes_{name}": values for name, values in n.items()}
    side = "class" if targets > 1 else "target"
    attributes |= {f"{side}_{name}": values for name, values in w.items()}
    base = np.asarray(estimator._baseline_prediction, np.float32).reshape(-1)
    return attributes | {"base_values": base.tolist()}


def test_histograms(rng: np.random.Generator) -> None:
    """Boosted trees of which NaN is a value: as LightGBM's and XGBoost's, too."""
    x, y = data(rng)
    x[rng.random(x.shape) < 0.15] = np.nan
    regressor = ensemble.HistGradientBoostingRegressor(max_iter=3, max_leaf_nodes=9, min_samples_leaf=3).fit(x, y)
    classifier = ensemble.HistGradientBoostingClassifier(max_iter=2, max_leaf_nodes=9, min_samples_leaf=3).fit(
        x, classes(y, 3)
    )
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1, **_of_histograms(regressor, 1)),
        helper.make_node("TreeEnsembleClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml", post_transform="SOFTMAX",
                         classlabels_int64s=[0, 1, 2], **_of_histograms(classifier, 3)),
    ]  # fmt: skip
    outputs = [
        info("label", TensorProto.INT64, ["n"]),
        info("y", TensorProto.FLOAT, ["n", 1]),
        info("scores", TensorProto.FLOAT, ["n", 3]),
    ]
    graph = helper.make_graph(nodes, "g", [info("x", TensorProto.FLOAT, ["n", FEATURES])], outputs)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid(d, v) for d, v in OPSETS.items()], ir_version=10
    )
    label, values, scores = compared(model, x, labels=0)
    np.testing.assert_allclose(values[:, 0], regressor.predict(x), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(scores, classifier.predict_proba(x), rtol=1e-4)
    assert (label == classifier.predict(x)).all()
