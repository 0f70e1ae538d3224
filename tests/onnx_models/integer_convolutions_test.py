# SPDX-License-Identifier: Apache-2.0
"""ConvInteger and QLinearConv: exact for every zero point and window, as convolutions of bytes where channels are multiples of 4."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import straightline as sl
from onnx import ModelProto, TensorProto, helper, numpy_helper

_ELEMENTS = {np.int8: TensorProto.INT8, np.uint8: TensorProto.UINT8}


def bytes_(rng: np.random.Generator, dtype: Any, *shape: int) -> np.ndarray:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def model_of(x_type: Any, shape: list[Any], arrays: dict[str, np.ndarray], **attributes: Any) -> ModelProto:
    order = ["x", "w", *(n for n in ("xz", "wz") if n in arrays)]
    node = helper.make_node("ConvInteger", order, ["y"], **attributes)
    x = helper.make_tensor_value_info("x", _ELEMENTS[x_type], shape)
    y = helper.make_tensor_value_info("y", TensorProto.INT32, None)
    graph = helper.make_graph([node], "g", [x], [y], [numpy_helper.from_array(a, n) for n, a in arrays.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def wanted(x: np.ndarray, w: np.ndarray, xz: int, wz: Any, strides: Any, pads: Any, dilations: Any) -> np.ndarray:
    """In integers, window by window."""
    image = np.pad(x.astype(np.int64) - xz, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    weight = w.astype(np.int64) - np.asarray(wz, np.int64).reshape(-1, 1, 1, 1)
    spans = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations)]
    sizes = [(n - s) // stride + 1 for n, s, stride in zip(image.shape[2:], spans, strides)]
    found = np.zeros((x.shape[0], w.shape[0], *sizes), np.int64)
    for i in range(w.shape[2]):
        for j in range(w.shape[3]):
            rows, columns = (
                slice(at * d, at * d + (n - 1) * s + 1, s) for at, d, n, s in zip((i, j), dilations, sizes, strides)
            )
            found += np.einsum("nchw,kc->nkhw", image[:, :, rows, columns], weight[:, :, i, j])
    return found.astype(np.int32)


def kernels(fn: Any) -> list[str]:
    return [row["kernel"] for row in fn.explain().statements if row["phase"] == "run"]


@pytest.mark.parametrize("x_type", [np.int8, np.uint8])
@pytest.mark.parametrize("w_type", [np.int8, np.uint8])
@pytest.mark.parametrize("zeros", ["none", "numbers"])
def test_types_and_zero_points(x_type: Any, w_type: Any, zeros: str, rng: np.random.Generator) -> None:
    x, w = bytes_(rng, x_type, 2, 8, 9, 7), bytes_(rng, w_type, 19, 8, 3, 3)
    arrays = {"w": w}
    if zeros == "numbers":
        arrays |= {"xz": bytes_(rng, x_type), "wz": bytes_(rng, w_type)}
    fn = sl.compile(model_of(x_type, list(x.shape), arrays, pads=[1, 1, 1, 1]))
    right = wanted(x, w, int(arrays.get("xz", 0)), arrays.get("wz", 0), (1, 1), (1, 1, 1, 1), (1, 1))
    np.testing.assert_array_equal(fn(x), right)
    assert any(kernel.startswith("convolution_int8") for kernel in kernels(fn)), kernels(fn)


@pytest.mark.parametrize("channels, outputs", [(4, 1), (12, 16), (64, 33), (20, 70)])
@pytest.mark.parametrize("window", [(1, 1), (3, 3), (2, 5), (7, 1)])
def test_windows(channels: int, outputs: int, window: tuple[int, int], rng: np.random.Generator) -> None:
    """Strides, dilations and pads drawn anew."""
    strides, dilations = (tuple(int(n) for n in rng.integers(1, 4, 2)) for _ in range(2))
    pads = tuple(int(n) for n in rng.integers(0, 3, 2)) * 2
    sizes = [int(rng.integers((k - 1) * d + 1, (k - 1) * d + 14)) for k, d in zip(window, dilations)]
    x, w = bytes_(rng, np.uint8, 1, channels, *sizes), bytes_(rng, np.int8, outputs, channels, *window)
    arrays = {"w": w, "xz": bytes_(rng, np.uint8)}
    model = model_of(np.uint8, list(x.shape), arrays, strides=strides, pads=pads, dilations=dilations)
    fn = sl.compile(model)
    right = wanted(x, w, int(arrays["xz"]), 0, strides, pads, dilations)
    np.testing.assert_array_equal(fn(x), right, err_msg=f"{strides} {pads} {dilations} {sizes}")
    assert any(kernel.startswith("convolution_int8") for kernel in kernels(fn)), kernels(fn)


def test_unequal_pads_stay_exact(rng: np.random.Generator) -> None:
    x, w = bytes_(rng, np.uint8, 1, 8, 9, 7), bytes_(rng, np.int8, 5, 8, 3, 2)
    arrays = {"w": w, "xz": bytes_(rng, np.uint8)}
    fn = sl.compile(model_of(np.uint8, list(x.shape), arrays, pads=[0, 1, 2, 0]))
    np.testing.assert_array_equal(fn(x), wanted(x, w, int(arrays["xz"]), 0, (1, 1), (0, 1, 2, 0), (1, 1)))


@pytest.mark.parametrize("batch", [1, 5])
def test_a_named_batch(batch: int, rng: np.random.Generator) -> None:
    x, w = bytes_(rng, np.uint8, batch, 8, 6, 6), bytes_(rng, np.uint8, 9, 8, 3, 3)
    arrays = {"w": w, "xz": bytes_(rng, np.uint8), "wz": bytes_(rng, np.uint8)}
    fn = sl.compile(model_of(np.uint8, ["n", 8, 6, 6], arrays, pads=[1, 1, 1, 1]))
    np.testing.assert_array_equal(fn(x), wanted(x, w, int(arrays["xz"]), arrays["wz"], (1, 1), (1, 1, 1, 1), (1, 1)))
    assert any(kernel.startswith("convolution_int8") for kernel in kernels(fn)), kernels(fn)


@pytest.mark.parametrize("channels, group", [(3, 1), (8, 2), (8, 8)])
def test_what_has_no_kernel_of_bytes_stays_exact(channels: int, group: int, rng: np.random.Generator) -> None:
    x, w = bytes_(rng, np.uint8, 1, channels, 7, 7), bytes_(rng, np.int8, 8, channels // group, 3, 3)
    fn = sl.compile(model_of(np.uint8, list(x.shape), {"w": w, "xz": np.asarray(7, np.uint8)}, group=group))
    parts = np.split(x, group, 1), np.split(w, group, 0)
    right = np.concatenate([wanted(a, b, 7, 0, (1, 1), (0, 0, 0, 0), (1, 1)) for a, b in zip(*parts)], 1)
    np.testing.assert_array_equal(fn(x), right)
    assert not any(kernel.startswith("convolution_int8") for kernel in kernels(fn)), kernels(fn)


def test_qlinear_conv_keeps_bytes(rng: np.random.Generator) -> None:
    """With a bias and a scale for each output: within a step of ONNX Runtime, nearly everywhere the same."""
    ort = pytest.importorskip("onnxruntime")
    x = bytes_(rng, np.uint8, 1, 16, 12, 12)
    arrays = {
        "xs": np.float32(0.0213), "xz": np.uint8(117), "w": bytes_(rng, np.int8, 24, 16, 3, 3), "ws": rng.uniform(0.001, 0.004, 24).astype(np.float32),
        "wz": np.zeros(24, np.int8), "ys": np.float32(0.1137), "yz": np.uint8(99), "b": rng.integers(-5000, 5000, 24).astype(np.int32),
    }  # fmt: skip
    node = helper.make_node(
        "QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"], ["y"], pads=[1, 1, 1, 1]
    )
    info = [helper.make_tensor_value_info(n, TensorProto.UINT8, s) for n, s in (("x", x.shape), ("y", None))]
    graph = helper.make_graph(
        [node], "g", info[:1], info[1:], [numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items()]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    fn = sl.compile(model)
    difference = np.abs(fn(x).astype(int) - ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0])
    assert difference.max() <= 1 and (difference > 0).mean() < 0.01
    assert any(kernel.startswith("convolution_int8") for kernel in kernels(fn)), kernels(fn)
