# SPDX-License-Identifier: Apache-2.0
"""Layers as `torch.onnx.export` writes them become the kernels that they have by other ops of ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import straightline as sl
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator


def _compiled(rng: np.random.Generator, x_shape: list[Any], weights: dict[str, np.ndarray], *nodes: Any) -> Any:
    """The compiled model of `x` to `y`, compared with the reference at two batches."""
    graph = helper.make_graph(
        list(nodes), "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x_shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    fn = sl.compile(model, threads=1)
    for batch in (2, 5):
        x = rng.standard_normal([batch if size == "n" else size for size in x_shape]).astype(np.float32)
        (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
        np.testing.assert_allclose(np.asarray(fn(x)), wanted, rtol=1e-4, atol=1e-5)
    return fn


def _kernels(fn: Any) -> str:
    return " ".join(row["kernel"] for row in fn.explain().statements if row["phase"] == "run")


def _array(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("shape", [["n", 12], ["n", 3, 12], ["n", 2, 3, 12]])
def test_a_product_with_weights_is_a_linear_layer(rng: np.random.Generator, shape: list[Any], transposed: bool) -> None:
    weights = {"w": _array(rng, *((70, 12) if transposed else (12, 70))), "b": _array(rng, 70)}
    turn = [helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0])] if transposed else []
    product = helper.make_node("MatMul", ["x", "t" if transposed else "w"], ["p"])
    add, relu = helper.make_node("Add", ["p", "b"], ["a"]), helper.make_node("Relu", ["a"], ["y"])
    kernels = _kernels(_compiled(rng, shape, weights, *turn, product, add, relu))
    assert kernels.startswith("gemm_") and kernels.endswith("_bias_relu") and " " not in kernels, kernels


def test_a_product_that_is_read_twice_has_no_bias(rng: np.random.Generator) -> None:
    weights = {"w": _array(rng, 12, 70), "b": _array(rng, 70)}
    product, add = helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["b", "p"], ["a"])
    kernels = _kernels(_compiled(rng, ["n", 12], weights, product, add, helper.make_node("Mul", ["a", "p"], ["y"])))
    assert kernels.count("gemm") == 1 and "bias" not in kernels, kernels


def test_a_reshaped_result_is_not_copied(rng: np.random.Generator) -> None:
    weights = {"w": _array(rng, 12, 70), "s": np.asarray([-1, 7, 10])}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Reshape", ["p", "s"], ["y"])]
    assert "copy" not in _kernels(_compiled(rng, ["n", 12], weights, *nodes))


def test_a_product_of_inputs_stays_one(rng: np.random.Generator) -> None:
    turn = helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0])
    assert "matmul" in _kernels(_compiled(rng, [4, 6], {}, turn, helper.make_node("MatMul", ["x", "t"], ["y"])))


@pytest.mark.parametrize("order", [["x", "s"], ["s", "x"]])
def test_silu(rng: np.random.Generator, order: list[str]) -> None:
    sigmoid, product = helper.make_node("Sigmoid", ["x"], ["s"]), helper.make_node("Mul", order, ["y"])
    assert _kernels(_compiled(rng, ["n", 9], {}, sigmoid, product)).startswith("pointwise_silu")


def test_another_gate_is_no_silu(rng: np.random.Generator) -> None:
    nodes = [helper.make_node("Neg", ["x"], ["m"]), helper.make_node("Sigmoid", ["m"], ["s"])]
    fn = _compiled(rng, ["n", 9], {}, *nodes, helper.make_node("Mul", ["x", "s"], ["y"]))
    assert "silu" not in _kernels(fn)


@pytest.mark.parametrize("place", [0, 2, -1, -3])
def test_one_place_is_a_view(rng: np.random.Generator, place: int) -> None:
    weights = {"i": np.asarray(place)}
    nodes = [helper.make_node("Gather", ["x", "i"], ["g"], axis=1), helper.make_node("Relu", ["g"], ["y"])]
    assert "index" not in _kernels(_compiled(rng, ["n", 3, 4], weights, *nodes))


def test_hard_sigmoid(rng: np.random.Generator) -> None:
    fn = _compiled(rng, ["n", 9], {}, helper.make_node("HardSigmoid", ["x"], ["y"], alpha=1 / 6))
    assert _kernels(fn).startswith("pointwise_hardsigmoid")


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest"])
def test_interpolation(rng: np.random.Generator, mode: str, align_corners: bool) -> None:
    torch = pytest.importorskip("torch")
    how = {
        "mode": {"bilinear": "linear", "bicubic": "cubic", "nearest": "nearest"}[mode],
        "coordinate_transformation_mode": "align_corners" if align_corners else "pytorch_half_pixel",
    }  # fmt: skip
    if mode == "nearest":
        how |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    sizes = helper.make_node("Resize", ["x", "", "", "s"], ["r"], **how)
    graph = helper.make_graph(
        [sizes, helper.make_node("Relu", ["r"], ["y"])], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 6, 7])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray([2, 3, 9, 21]), "s")],
    )  # fmt: skip
    fn = sl.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), threads=1)
    x = _array(rng, 2, 3, 6, 7)
    corners = None if mode == "nearest" else align_corners

    def model(image: Any) -> Any:
        return torch.relu(torch.nn.functional.interpolate(image, (9, 21), mode=mode, align_corners=corners))

    ours = sl.compile(model, (torch.from_numpy(x),), threads=1)
    np.testing.assert_allclose(np.asarray(fn(x)), model(torch.from_numpy(x)).numpy(), rtol=1e-4, atol=1e-5)
    assert _kernels(fn) == _kernels(ours)


def test_a_folded_transpose_of_a_large_weight(rng: np.random.Generator) -> None:
    """What is folded may lie in another order than that of its rows: parameters are given row after row."""
    weights = {"w": _array(rng, 70, 64)}
    turn = helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0])
    _compiled(rng, [64, 70], weights, turn, helper.make_node("Add", ["x", "t"], ["y"]))


def test_attention_as_dynamo_exports_it(rng: np.random.Generator) -> None:
    """Keys are turned between two reshapes, and queries and keys scaled by an initialiser of one number."""
    nodes = [
        helper.make_node("Reshape", ["k", "joined"], ["rows"]),
        helper.make_node("Transpose", ["rows"], ["columns"], perm=[0, 2, 1]),
        helper.make_node("Reshape", ["columns", "apart"], ["keys"]),
        helper.make_node("Mul", ["x", "val_3"], ["q"]),
        helper.make_node("Mul", ["keys", "val_3"], ["scaled"]),
        helper.make_node("MatMul", ["q", "scaled"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "k"], ["y"]),
    ]
    weights = {
        "joined": np.asarray([-1, 20, 16]), "apart": np.asarray([2, 4, 16, 20]), "val_3": np.asarray(0.5, np.float16),
    }  # fmt: skip
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, [2, 4, 20, 16]) for name in ("x", "k")]
    result = [helper.make_tensor_value_info("y", TensorProto.FLOAT16, None)]
    graph = helper.make_graph(nodes, "g", given, result, [numpy_helper.from_array(a, n) for n, a in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    x, k = (_array(rng, 2, 4, 20, 16).astype(np.float16) for _ in range(2))
    wide = [a.astype(np.float32) for a in (x, k)]
    shares = np.exp(wide[0] @ wide[1].swapaxes(-1, -2) / 4)
    wanted = shares / shares.sum(-1, keepdims=True) @ wide[1]
    np.testing.assert_allclose(np.asarray(sl.compile(model, threads=1)(x, k)), wanted, rtol=1e-2, atol=1e-2)
    kernels = _kernels(sl.compile(model, target="cuda:sm_90"))
    assert "attention" in kernels and "matmul" not in kernels, kernels


def _exported_attention(mask: str, sizes: list[Any], low: float, dtype: Any = np.float32) -> onnx.ModelProto:
    """Attention as torch.onnx.export writes scaled_dot_product_attention; `low`: what scores get that a mask drops."""
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [
        helper.make_node("Transpose", ["k"], ["turned"], perm=[0, 1, 3, 2]),
        helper.make_node("Mul", ["q", "val_1"], ["left"]),
        helper.make_node("Mul", ["turned", "val_1"], ["right"]),
        helper.make_node("MatMul", ["left", "right"], ["scores"]),
        helper.make_node("Softmax", ["masked" if mask else "scores"], ["weights"], axis=-1),
    ]
    weights = {"val_1": np.asarray(0.5, dtype), "zero": np.asarray(0, dtype), "low": np.asarray(low, dtype)}
    if mask == "causal":
        nodes[4:4] = [
            helper.make_node("Shape", ["q"], ["s"], start=2, end=3),
            helper.make_node("Shape", ["k"], ["t"], start=2, end=3),
            helper.make_node("Concat", ["s", "t"], ["st"], axis=0),
            helper.make_node("Expand", ["one", "st"], ["ones"]),
            helper.make_node("Trilu", ["ones"], ["seen"], upper=0),
            helper.make_node("Equal", ["seen", "zero"], ["behind"]),
            helper.make_node("Where", ["behind", "low", "zero"], ["mask"]),
        ]
        weights["one"] = np.asarray(1, dtype)
    elif mask == "bools":
        nodes.insert(4, helper.make_node("Where", ["kept", "zero", "low"], ["mask"]))
    if mask:
        nodes.insert(-1, helper.make_node("Add", ["scores", "mask"], ["masked"]))
    if mask in ("bools", "added"):
        nodes += [
            helper.make_node("IsNaN", ["weights"], ["none"]),
            helper.make_node("Where", ["none", "zero", "weights"], ["shares"]),
        ]
    nodes.append(helper.make_node("MatMul", ["shares" if mask in ("bools", "added") else "weights", "v"], ["y"]))
    b, rows, keys = sizes
    shapes = {"q": [b, 4, rows, 16], "k": [b, 4, keys, 16], "v": [b, 4, keys, 16]}
    given = [helper.make_tensor_value_info(name, element, shape) for name, shape in shapes.items()]
    if mask == "bools":
        given.append(helper.make_tensor_value_info("kept", TensorProto.BOOL, [b, 1, 1, keys]))
    elif mask == "added":
        given.append(helper.make_tensor_value_info("mask", element, [rows, keys]))
    graph = helper.make_graph(
        nodes, "g", given, [helper.make_tensor_value_info("y", element, None)],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


@pytest.mark.parametrize("low", [-np.inf, float(np.finfo(np.float32).min)])
@pytest.mark.parametrize("mask", ["", "causal", "bools", "added"])
@pytest.mark.parametrize("named", [False, True])
def test_exported_attention(rng: np.random.Generator, mask: str, named: bool, low: float) -> None:
    """One kernel where products are no faster, the reference's numbers also where a mask keeps nothing."""
    for b, rows, keys in ((2, 20, 20), (1, 3, 37)):
        model = _exported_attention(mask, ["b", "rows", "keys"] if named else [b, rows, keys], low)
        fn = sl.compile(model, threads=1)
        given = {name: _array(rng, b, 4, n, 16) for name, n in (("q", rows), ("k", keys), ("v", keys))}
        if mask == "bools":
            given["kept"] = np.arange(keys)[None, None, None] < np.asarray([7, 0])[:b, None, None, None]
        elif mask == "added":
            given["mask"] = np.where(np.arange(keys) < np.arange(rows)[:, None], 0.25, low).astype(np.float32)
        (wanted,) = ReferenceEvaluator(model).run(None, given)
        np.testing.assert_allclose(np.asarray(fn(**given)), wanted, rtol=1e-4, atol=1e-5)
        kernels = _kernels(fn)
        assert ("attention" in kernels) == (named or mask in ("bools", "added")), kernels


@pytest.mark.parametrize(
    ("mask", "rows", "keys", "whole"),
    [("", 1, 16, True), ("", 2, 40, True), ("", 3, 40, False), ("causal", 45, 45, False), ("causal", 46, 46, True)],
)
def test_exported_attention_of_fixed_sizes(
    rng: np.random.Generator, mask: str, rows: int, keys: int, whole: bool
) -> None:
    """One kernel for few queries over many keys, and for causal ones that are not few."""
    model = _exported_attention(mask, [2, rows, keys], -np.inf)
    fn = sl.compile(model, threads=1)
    given = {name: _array(rng, 2, 4, n, 16) for name, n in (("q", rows), ("k", keys), ("v", keys))}
    (wanted,) = ReferenceEvaluator(model).run(None, given)
    np.testing.assert_allclose(np.asarray(fn(**given)), wanted, rtol=1e-4, atol=1e-5)
    assert ("attention" in _kernels(fn)) == whole


@pytest.mark.parametrize("other", ["scales", "axis", "read twice", "zero"])
def test_what_is_no_exported_attention(rng: np.random.Generator, other: str) -> None:
    model = _exported_attention("bools", ["b", "l", "s"], -np.inf)
    nodes = {node.output[0]: node for node in model.graph.node}
    if other == "scales":
        nodes["right"].input[1] = "third"
        model.graph.initializer.append(numpy_helper.from_array(np.float32(0.3), "third"))
    elif other == "axis":
        nodes["weights"].attribute[0].i = 2
    elif other == "zero":
        nodes["shares"].input[1] = "third"
        model.graph.initializer.append(numpy_helper.from_array(np.float32(0.3), "third"))
    else:
        model.graph.output.append(helper.make_tensor_value_info("weights", TensorProto.FLOAT, None))
    fn = sl.compile(model, threads=1)
    given = {name: _array(rng, 2, 4, n, 16) for name, n in (("q", 5), ("k", 9), ("v", 9))}
    given["kept"] = np.arange(9)[None, None, None] < np.asarray([7, 3])[:, None, None, None]
    wanted = ReferenceEvaluator(model).run(None, given)
    got = fn(**given)
    for one, right in zip(got if isinstance(got, tuple) else (got,), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(one), right, rtol=1e-4, atol=1e-5)
    assert "attention" not in _kernels(fn)


def test_a_tile_of_dims_of_one_is_a_view(rng: np.random.Generator) -> None:
    weights = {"n": np.asarray([1, 3, 1])}
    nodes = [helper.make_node("Tile", ["x", "n"], ["t"]), helper.make_node("Relu", ["t"], ["y"])]
    assert "copy" not in _kernels(_compiled(rng, ["n", 1, 4], weights, *nodes))


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_a_border_reads_only_the_dims_that_have_one(rng: np.random.Generator, mode: str) -> None:
    weights = {"p": np.asarray([0, 0, 1, 0, 0, 2])}
    fn = _compiled(rng, ["n", 3, 4], weights, helper.make_node("Pad", ["x", "p"], ["y"], mode=mode))
    assert _kernels(fn).count("index_select") == 1


def test_a_turned_and_reshaped_result_is_copied_once(rng: np.random.Generator) -> None:
    weights = {"s": np.asarray([-1, 12])}
    turn = helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1])
    fn = _compiled(rng, ["n", 3, 4], weights, turn, helper.make_node("Reshape", ["t", "s"], ["y"]))
    assert len(_kernels(fn).split()) == 1, _kernels(fn)
