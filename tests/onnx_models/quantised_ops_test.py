# SPDX-License-Identifier: Apache-2.0
"""com.microsoft's ops of quantised tensors against ONNX Runtime, and whole models that its quantiser writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import straightline as sl
from onnx import ModelProto, TensorProto, helper, numpy_helper

ort = pytest.importorskip("onnxruntime")

_TYPES = {
    np.dtype(np.int8): TensorProto.INT8,
    np.dtype(np.uint8): TensorProto.UINT8,
    np.dtype(np.float32): TensorProto.FLOAT,
    np.dtype(np.int32): TensorProto.INT32,
}


def model_of(
    kind: str,
    inputs: dict[str, np.ndarray],
    constants: dict[str, np.ndarray],
    order: list[str],
    result: Any,
    **attributes: Any,
) -> ModelProto:
    infos = [helper.make_tensor_value_info(n, _TYPES[x.dtype], x.shape) for n, x in inputs.items()]
    node = helper.make_node(kind, order, ["y"], domain="com.microsoft", **attributes)
    output = helper.make_tensor_value_info("y", _TYPES[np.dtype(result)], None)
    graph = helper.make_graph(
        [node], "g", infos, [output], [numpy_helper.from_array(x, n) for n, x in constants.items()]
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def check(model: ModelProto, inputs: dict[str, np.ndarray], steps: float) -> None:
    """Bytes may differ by `steps`, where a float beside the edge of two is rounded; floats by 1e-5 of the largest."""
    wanted = ort.InferenceSession(model.SerializeToString()).run(None, inputs)[0]
    got = sl.compile(model)(*inputs.values())
    assert got.dtype == wanted.dtype and got.shape == wanted.shape
    difference = np.abs(got.astype(np.float64) - wanted)
    if wanted.dtype == np.float32:
        assert difference.max() <= 1e-5 * np.abs(wanted).max()
        return
    assert difference.max() <= steps
    assert (difference > 0).mean() <= 0.02


def scalar(value: float, dtype: Any = np.float32) -> np.ndarray:
    return np.asarray(value, dtype)


def parameters(dtype: Any, *names: str) -> dict[str, np.ndarray]:
    found = {}
    for i, name in enumerate(names):
        found |= {
            f"{name}s": scalar(0.0213741 + 0.0130177 * i),
            f"{name}z": scalar(3 + 2 * i if dtype == np.int8 else 120 + i, dtype),
        }
    return found


def bytes_(rng: np.random.Generator, dtype: Any, *shape: int) -> np.ndarray:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("kind", ["QLinearAdd", "QLinearMul"])
def test_two_operands(kind: str, dtype: Any, rng: np.random.Generator) -> None:
    inputs = {"a": bytes_(rng, dtype, 2, 5, 7), "b": bytes_(rng, dtype, 1, 5, 1)}
    constants = parameters(dtype, "a", "b", "c")
    order = ["a", "as", "az", "b", "bs", "bz", "cs", "cz"]
    check(model_of(kind, inputs, constants, order, dtype), inputs, 1)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("kind", ["QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax"])
def test_one_operand(kind: str, dtype: Any, rng: np.random.Generator) -> None:
    inputs = {"x": bytes_(rng, dtype, 3, 11)}
    constants = parameters(dtype, "x") | {"ys": scalar(1 / 256), "yz": scalar(-128 if dtype == np.int8 else 0, dtype)}
    attributes = (
        {"alpha": 0.2} if kind == "QLinearLeakyRelu" else {"axis": -1, "opset": 13} if kind == "QLinearSoftmax" else {}
    )
    check(model_of(kind, inputs, constants, ["x", "xs", "xz", "ys", "yz"], dtype, **attributes), inputs, 1)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("kind", ["QLinearAveragePool", "QLinearGlobalAveragePool"])
def test_pools(kind: str, last: int, rng: np.random.Generator) -> None:
    inputs = {"x": bytes_(rng, np.uint8, *((2, 9, 8, 4) if last else (2, 4, 9, 8)))}
    attributes = (
        {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]} if kind == "QLinearAveragePool" else {}
    )
    constants = parameters(np.uint8, "x", "y")
    check(
        model_of(kind, inputs, constants, ["x", "xs", "xz", "ys", "yz"], np.uint8, channels_last=last, **attributes),
        inputs,
        1,
    )


def test_concat(rng: np.random.Generator) -> None:
    inputs = {"a": bytes_(rng, np.uint8, 2, 3, 4), "b": bytes_(rng, np.uint8, 2, 5, 4)}
    order = ["ys", "yz", "a", "as", "az", "b", "bs", "bz"]
    check(model_of("QLinearConcat", inputs, parameters(np.uint8, "a", "b", "y"), order, np.uint8, axis=1), inputs, 1)


@pytest.mark.parametrize("quantised", [True, False])
@pytest.mark.parametrize("transposed", [0, 1])
def test_gemm(quantised: bool, transposed: int, rng: np.random.Generator) -> None:
    inputs = {"a": bytes_(rng, np.uint8, 5, 17)}
    constants = parameters(np.uint8, "a") | {
        "b": bytes_(rng, np.int8, *((9, 17) if transposed else (17, 9))), "bs": rng.uniform(0.01, 0.02, 9).astype(np.float32), "bz": np.zeros(9, np.int8),
        "c": rng.integers(-999, 999, 9).astype(np.int32), "ys": scalar(0.7), "yz": scalar(101, np.uint8),
    }  # fmt: skip
    order = ["a", "as", "az", "b", "bs", "bz", "c", *(("ys", "yz") if quantised else ())]
    constants = {n: x for n, x in constants.items() if n in order}
    check(
        model_of("QGemm", inputs, constants, order, np.uint8 if quantised else np.float32, transB=transposed), inputs, 1
    )


@pytest.mark.parametrize("bias", [True, False])
def test_products_to_floats(bias: bool, rng: np.random.Generator) -> None:
    inputs = {"a": bytes_(rng, np.uint8, 2, 5, 17)}
    constants = {
        "b": bytes_(rng, np.int8, 17, 9), "as": scalar(0.03), "bs": rng.uniform(0.01, 0.02, 9).astype(np.float32),
        "az": scalar(77, np.uint8), "bz": np.zeros(9, np.int8), "bias": rng.standard_normal(9).astype(np.float32),
    }  # fmt: skip
    order = ["a", "b", "as", "bs", "az", "bz", *(["bias"] if bias else [])]
    constants = {n: x for n, x in constants.items() if n in order}
    check(model_of("MatMulIntegerToFloat", inputs, constants, order, np.float32), inputs, 0)


@pytest.mark.parametrize("bias", [True, False])
def test_dynamic_products(bias: bool, rng: np.random.Generator) -> None:
    inputs = {"a": rng.standard_normal((5, 17)).astype(np.float32)}
    constants = {
        "b": bytes_(rng, np.int8, 17, 9), "bs": rng.uniform(0.01, 0.02, 9).astype(np.float32), "bz": np.zeros(9, np.int8),
        "bias": rng.standard_normal(9).astype(np.float32),
    }  # fmt: skip
    order = ["a", "b", "bs", "bz", *(["bias"] if bias else [])]
    constants = {n: x for n, x in constants.items() if n in order}
    check(model_of("DynamicQuantizeMatMul", inputs, constants, order, np.float32), inputs, 0)


def test_a_softmax_of_an_old_op_set_over_other_axes_is_refused(rng: np.random.Generator) -> None:
    inputs = {"x": bytes_(rng, np.uint8, 3, 4, 5)}
    model = model_of(
        "QLinearSoftmax",
        inputs,
        parameters(np.uint8, "x", "y"),
        ["x", "xs", "xz", "ys", "yz"],
        np.uint8,
        axis=1,
        opset=12,
    )
    with pytest.raises(sl.UnsupportedError, match="op set 12 over axis 1"):
        sl.compile(model)


@pytest.mark.parametrize("form", ["QOperator", "QDQ", "dynamic"])
def test_a_network_that_onnx_runtime_quantised(form: str, tmp_path: Path, rng: np.random.Generator) -> None:
    """Convolutions (plain, grouped, 1 x 1), a sum, a global pool and a product: nearly all bytes the same."""
    quantization = pytest.importorskip("onnxruntime.quantization")
    weights = {"w1": (16, 3, 3, 3), "w2": (16, 1, 3, 3), "w3": (16, 16, 1, 1), "w4": (16, 10)}
    constants = {n: (rng.standard_normal(s) * 0.3).astype(np.float32) for n, s in weights.items()}
    make = helper.make_node
    nodes = [
        make("Conv", ["x", "w1"], ["a"], pads=[1, 1, 1, 1], strides=[2, 2]), make("Relu", ["a"], ["b"]),
        make("Conv", ["b", "w2"], ["c"], pads=[1, 1, 1, 1], group=16), make("Conv", ["c", "w3"], ["d"]), make("Add", ["b", "d"], ["e"]),
        make("GlobalAveragePool", ["e"], ["f"]), make("Flatten", ["f"], ["g"]), make("MatMul", ["g", "w4"], ["y"]),
    ]  # fmt: skip
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 16, 16])
    graph = helper.make_graph(
        nodes,
        "g",
        [x],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(c, n) for n, c in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    samples = [{"x": rng.standard_normal((1, 3, 16, 16)).astype(np.float32)} for _ in range(4)]
    path = tmp_path / "q.onnx"
    if form == "dynamic":
        quantization.quantize_dynamic(model, path, weight_type=quantization.QuantType.QUInt8)
    else:

        class Samples(quantization.CalibrationDataReader):
            left = iter(samples)

            def get_next(self) -> Any:
                return next(self.left, None)

        quantization.quantize_static(
            model, path, Samples(), quant_format=getattr(quantization.QuantFormat, form), per_channel=True
        )
    session = ort.InferenceSession(path)
    function = sl.compile(path)
    for sample in samples:
        wanted = session.run(None, sample)[0]
        np.testing.assert_allclose(function(sample["x"]), wanted, atol=0.03 * np.abs(wanted).max())
