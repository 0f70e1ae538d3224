# SPDX-License-Identifier: Apache-2.0
"""Encoders, linear classifiers and support vectors of ai.onnx.ml by themselves: what scikit-learn's estimators do not write."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import straightline as sl
from onnx import TensorProto, helper, numpy_helper

ort = pytest.importorskip("onnxruntime")

ML = "ai.onnx.ml"
INT64, FLOAT, STRING = TensorProto.INT64, TensorProto.FLOAT, TensorProto.STRING


def model_of(
    nodes: list[Any], x: Any, outputs: dict[str, int], weights: dict[str, Any] | None = None, version: int = 4
) -> onnx.ModelProto:
    info = helper.make_tensor_value_info
    element = helper.np_dtype_to_tensor_dtype(x.dtype)
    tensors = [
        helper.make_tensor(n, STRING, [len(w)], [t.encode() for t in w])
        if isinstance(w, list)
        else numpy_helper.from_array(w, n)
        for n, w in (weights or {}).items()
    ]
    graph = helper.make_graph(
        nodes, "g", [info("x", element, ["n", *x.shape[1:]])], [info(n, e, None) for n, e in outputs.items()], tensors
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(ML, version)], ir_version=10
    )


def ml(op: str, inputs: list[str], outputs: list[str], **attributes: Any) -> Any:
    return helper.make_node(op, inputs, outputs, domain=ML, name=f"{op}_{outputs[0]}", **attributes)


def compared(model: onnx.ModelProto, x: np.ndarray, rtol: float = 1e-5) -> Any:
    wanted = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    function = sl.compile(model)
    found = function(x)
    for mine, theirs in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
        assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
        np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=rtol)
    return found


def test_tables_of_numbers(rng: np.random.Generator) -> None:
    """From integers and floats (NaN too) to integers and floats; what is no key, and keys that are there twice."""
    x = rng.integers(-3, 6, (9, 2))
    nodes = [
        ml("LabelEncoder", ["x"], ["a"], keys_int64s=[1, 5, 2, 1], values_int64s=[10, 50, 20, 99], default_int64=-7),
        ml("LabelEncoder", ["x"], ["b"], keys_int64s=[1, 5, 2], values_floats=[0.5, 1.5, 2.5]),
    ]
    compared(model_of(nodes, x, {"a": INT64, "b": FLOAT}), x)
    z = rng.integers(-1, 3, (9, 2)).astype(np.float32) / 2
    z[0] = np.nan
    nodes = [
        ml(
            "LabelEncoder",
            ["x"],
            ["a"],
            keys_floats=[0.5, float("nan"), -0.5],
            values_floats=[1.0, 2.0, 3.0],
            default_float=9.0,
        ),
        ml("LabelEncoder", ["x"], ["b"], keys_floats=[0.5, 0.0], values_int64s=[7, 8]),
    ]
    compared(model_of(nodes, z, {"a": FLOAT, "b": INT64}), z)
    tensor = lambda array: numpy_helper.from_array(np.asarray(array))  # noqa: E731
    w = z.astype(np.float64)
    nodes = [
        ml(
            "LabelEncoder",
            ["x"],
            ["a"],
            keys_tensor=tensor([0.5, -0.5]),
            values_tensor=tensor([1.25, 2.5]),
            default_tensor=tensor([4.0]),
        )
    ]
    compared(model_of(nodes, w, {"a": TensorProto.DOUBLE}), w)


def test_strings_between_numbers(rng: np.random.Generator) -> None:
    """Strings that are made of numbers and become numbers again leave a table."""
    x = rng.integers(0, 5, (8, 1))
    nodes = [
        ml("LabelEncoder", ["x"], ["s"], keys_int64s=[0, 1, 2], values_strings=["a", "b", "c"], default_string="?"),
        helper.make_node("Reshape", ["s", "flat"], ["r"]),
        ml("LabelEncoder", ["r"], ["y"], keys_strings=["c", "?", "a"], values_int64s=[30, 40, 50], default_int64=60),
        ml("OneHotEncoder", ["r"], ["h"], cats_strings=["c", "z", "b"]),
        ml("CategoryMapper", ["r"], ["m"], cats_strings=["a", "b"], cats_int64s=[3, 4], default_int64=5),
    ]
    compared(model_of(nodes, x, {"y": INT64, "h": FLOAT, "m": INT64}, {"flat": np.asarray([-1])}, 2), x)


def test_labels_from_a_table_of_text(rng: np.random.Generator) -> None:
    """What exporters write: strings of an initialiser by the places of the best scores, and numbers for them."""
    x = rng.standard_normal((7, 3)).astype(np.float32)
    nodes = [
        helper.make_node("ArgMax", ["x"], ["i"], axis=1, keepdims=0),
        ml("ArrayFeatureExtractor", ["names", "i"], ["s"]),
        ml("LabelEncoder", ["s"], ["y"], keys_strings=["low", "mid", "high"], values_int64s=[-1, 0, 1]),
    ]
    found = sl.compile(model_of(nodes, x, {"y": INT64}, {"names": ["low", "mid", "high"]}))(x)
    np.testing.assert_array_equal(found.reshape(-1), x.argmax(1) - 1)


def test_columns_for_categories(rng: np.random.Generator) -> None:
    for x in (rng.integers(0, 6, (9, 2)), rng.integers(0, 6, (9, 2)).astype(np.float32)):
        compared(model_of([ml("OneHotEncoder", ["x"], ["h"], cats_int64s=[4, 0, 2])], x, {"h": FLOAT}), x)
    x = rng.choice([4, 0, 2], (9, 1))
    function = sl.compile(
        model_of([ml("OneHotEncoder", ["x"], ["h"], cats_int64s=[4, 0, 2], zeros=0)], x, {"h": FLOAT})
    )
    np.testing.assert_array_equal(function(x)[:, 0].argmax(1), [[4, 0, 2].index(i) for i in x[:, 0]])
    with pytest.raises(sl.UserError, match="an element is none of the 3 categories of 'OneHotEncoder_h'"):
        function(x + 1)


@pytest.mark.parametrize("post", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
def test_linear_classifiers(post: str, rng: np.random.Generator) -> None:
    """Three classes, two of one row, in one model."""
    x = rng.standard_normal((9, 4)).astype(np.float32)
    row = lambda count: [float(np.float32(v)) for v in rng.standard_normal(count)]  # noqa: E731
    nodes = [
        ml(
            "LinearClassifier",
            ["x"],
            ["a", "s"],
            coefficients=row(12),
            intercepts=row(3),
            classlabels_ints=[4, 7, 1],
            post_transform=post,
        ),
        ml(
            "LinearClassifier",
            ["x"],
            ["b", "t"],
            coefficients=row(4),
            intercepts=row(1),
            classlabels_ints=[4, 7],
            post_transform=post,
        ),
    ]
    compared(model_of(nodes, x, {"a": INT64, "s": FLOAT, "b": INT64, "t": FLOAT}, version=1), x)


def test_support_vectors_of_planes(rng: np.random.Generator) -> None:
    """Without vectors a class has a row of coefficients."""
    x = rng.standard_normal((9, 3)).astype(np.float32)
    row = lambda count: [float(np.float32(v)) for v in rng.standard_normal(count)]  # noqa: E731
    nodes = [
        ml(
            "SVMClassifier",
            ["x"],
            ["a", "s"],
            coefficients=row(9),
            rho=row(1),
            classlabels_ints=[4, 7, 1],
            kernel_type="LINEAR",
            kernel_params=[0.0, 0.0, 3.0],
        ),
        ml(
            "SVMClassifier",
            ["x"],
            ["b", "t"],
            coefficients=row(6),
            rho=row(1),
            classlabels_ints=[4, 7],
            kernel_type="LINEAR",
            kernel_params=[0.0, 0.0, 3.0],
        ),
        ml(
            "SVMRegressor",
            ["x"],
            ["y"],
            coefficients=row(3),
            rho=row(1),
            kernel_type="LINEAR",
            kernel_params=[0.0, 0.0, 3.0],
            n_supports=0,
            one_class=1,
        ),
    ]
    compared(model_of(nodes, x, {"a": INT64, "s": FLOAT, "b": INT64, "t": FLOAT, "y": FLOAT}, version=1), x)


X = np.zeros((4, 2), np.int64)
XF = X.astype(np.float32)


@pytest.mark.parametrize(
    ("x", "node", "kind", "words"),
    [
        (X, ml("LabelEncoder", ["x"], ["y"], keys_int64s=[1, 2], values_int64s=[3]), sl.UserError, "there are 2 keys but 1 values"),
        (X, ml("LabelEncoder", ["x"], ["y"], keys_int64s=[1, 2]), sl.UserError, "0 of values_strings, values_int64s"),
        (X, ml("LabelEncoder", ["x"], ["y"], keys_strings=["a"], values_int64s=[3]), sl.UnsupportedError, "numbers where the keys are strings"),
        (X, ml("CategoryMapper", ["x"], ["y"], cats_strings=["a"], cats_int64s=[1, 2]), sl.UserError, "cats_strings has 1 elements but cats_int64s has 2"),
        (X, ml("OneHotEncoder", ["x"], ["y"], cats_strings=["a"]), sl.UnsupportedError, "categories that are strings"),
        (X, ml("OneHotEncoder", ["x"], ["y"]), sl.UserError, "one of cats_strings and cats_int64s is needed"),
        (XF, ml("ZipMap", ["x"], ["y"], classlabels_int64s=[1, 2, 3]), sl.UserError, "there are 3 labels but the scores have 2 columns"),
        (XF, ml("LinearClassifier", ["x"], ["y", "s"], coefficients=[1.0] * 5, intercepts=[0.0, 0.0], classlabels_ints=[0, 1]),
         sl.UserError, "coefficients has 5 elements but 2 intercepts and 2 features"),
        (XF, ml("LinearClassifier", ["x"], ["y", "s"], coefficients=[1.0] * 4, intercepts=[0.0, 0.0], classlabels_ints=[0, 1, 2]),
         sl.UserError, "intercepts has 2 elements but there are 3 labels"),
        (XF, ml("LinearClassifier", ["x"], ["y", "s"], coefficients=[1.0] * 4, intercepts=[0.0, 0.0]), sl.UserError, "0 of classlabels_int64s"),
        (XF, ml("SVMRegressor", ["x"], ["y"], coefficients=[1.0], support_vectors=[1.0] * 4, n_supports=2, rho=[0.0]),
         sl.UserError, "coefficients has 1 and support_vectors 4 elements but n_supports is 2"),
        (XF, ml("SVMRegressor", ["x"], ["y"], coefficients=[1.0], support_vectors=[1.0] * 3, n_supports=1, rho=[0.0]),
         sl.UserError, "support_vectors have 3 features but x has 2"),
        (XF, ml("SVMRegressor", ["x"], ["y"], coefficients=[1.0], support_vectors=[1.0] * 2, n_supports=1, rho=[0.0], kernel_type="ODD"),
         sl.UserError, "kernel_type is 'ODD' but LINEAR, POLY, RBF or SIGMOID is needed"),
        (XF, ml("SVMClassifier", ["x"], ["y", "s"], coefficients=[1.0] * 2, support_vectors=[1.0] * 4, vectors_per_class=[1, 1], rho=[0.0, 0.0],
                classlabels_ints=[0, 1]), sl.UserError, "rho has 2 elements but there are 1 pairs of classes"),
        (XF, ml("SVMClassifier", ["x"], ["y", "s"], coefficients=[1.0] * 2, support_vectors=[1.0] * 4, vectors_per_class=[1, 1], rho=[0.0],
                classlabels_ints=[0, 1], prob_a=[1.0]), sl.UserError, "prob_a has 1 and prob_b 0 elements but there are 1 pairs"),
        (XF, ml("DictVectorizer", ["x"], ["y"], int64_vocabulary=[1]), sl.UnsupportedError, "maps, which are no tensors"),
    ],
    ids=lambda value: value.op_type if isinstance(value, onnx.NodeProto) else "",
)  # fmt: skip
def test_what_is_refused(x: Any, node: Any, kind: type[Exception], words: str) -> None:
    outputs = {name: FLOAT for name in node.output}
    with pytest.raises(kind, match=words):
        sl.compile(model_of([node], x, outputs))


def test_inputs_that_are_no_tensors() -> None:
    model = model_of([ml("LabelEncoder", ["x"], ["y"], keys_strings=["a"], values_int64s=[3])], X, {"y": INT64})
    model.graph.input[0].type.tensor_type.elem_type = STRING
    with pytest.raises(sl.UnsupportedError, match="elements of type STRING"):
        sl.compile(model)
    model.graph.input[0].type.CopyFrom(helper.make_map_type_proto(INT64, helper.make_tensor_type_proto(FLOAT, [])))
    with pytest.raises(
        sl.UnsupportedError,
        match="the input 'x' is a map, which is no tensor; nearest supported form: a tensor with a column",
    ):
        sl.compile(model)
