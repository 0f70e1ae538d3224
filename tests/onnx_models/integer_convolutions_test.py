# SPDX-License-Identifier: Apache-2.0
"""ConvInteger and QLinearConv: exact for every zero point and window, as convolutions of bytes except where groups have few channels."""

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


def in_groups(x: np.ndarray, w: np.ndarray, xz: int, wz: Any, group: int, **how: Any) -> np.ndarray:
    zeros = np.broadcast_to(np.asarray(wz, np.int64), w.shape[0])
    parts = zip(np.split(x, group, 1), np.split(w, group, 0), np.split(zeros, group))
    window = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1)} | how
    return np.concatenate([wanted(a, b, xz, z, **window) for a, b, z in parts], 1)


@pytest.mark.parametrize("w_type", [np.int8, np.uint8])
@pytest.mark.parametrize(
    "channels, outputs, group",
    [(3, 8, 1), (5, 2, 1), (8, 8, 2), (18, 12, 3), (8, 8, 8), (6, 12, 6), (66, 66, 33), (6, 4, 2)],
)
@pytest.mark.parametrize("pads", [(0, 0, 0, 0), (1, 1, 1, 1), (0, 2, 1, 0)])
def test_groups_and_channels(
    channels: int, outputs: int, group: int, pads: Any, w_type: Any, rng: np.random.Generator
) -> None:
    """Any number of channels; groups of 4 and more are of bytes, depthwise ones of floats with exact sums."""
    x, w = bytes_(rng, np.uint8, 2, channels, 7, 9), bytes_(rng, w_type, outputs, channels // group, 3, 3)
    arrays = {"w": w, "xz": bytes_(rng, np.uint8), "wz": bytes_(rng, w_type, outputs)}
    fn = sl.compile(model_of(np.uint8, list(x.shape), arrays, group=group, pads=pads), threads=1)
    np.testing.assert_array_equal(fn(x), in_groups(x, w, int(arrays["xz"]), arrays["wz"], group, pads=pads))
    of_bytes = group == 1 or (group <= 32 and min(channels, outputs) // group >= 4)
    assert any(kernel.startswith("convolution_int8") for kernel in kernels(fn)) == of_bytes, kernels(fn)
    assert "double" not in fn.code


@pytest.mark.parametrize("channels, outputs, group", [(8, 5, 1), (3, 4, 1), (8, 8, 2), (6, 6, 6)])
@pytest.mark.parametrize("pads", [(0, 0), (1, 1), (3, 1)])
def test_signals(channels: int, outputs: int, group: int, pads: Any, rng: np.random.Generator) -> None:
    x, w = bytes_(rng, np.uint8, 2, channels, 23), bytes_(rng, np.int8, outputs, channels // group, 4)
    arrays = {"w": w, "xz": bytes_(rng, np.uint8)}
    model = model_of(np.uint8, list(x.shape), arrays, group=group, pads=pads, strides=[2], dilations=[2])
    fn = sl.compile(model, threads=1)
    right = in_groups(
        x[:, :, None], w[:, :, None], int(arrays["xz"]), 0, group,
        pads=(0, pads[0], 0, pads[1]), strides=(1, 2), dilations=(1, 2),
    )  # fmt: skip
    np.testing.assert_array_equal(fn(x), right[:, :, 0])
    of_bytes = group == 1 or (group <= 32 and min(channels, outputs) // group >= 4)
    assert any(kernel.startswith("convolution_int8") for kernel in kernels(fn)) == of_bytes, kernels(fn)


def test_named_rows_stay_exact(rng: np.random.Generator) -> None:
    w, zero = bytes_(rng, np.int8, 5, 8, 3, 3), bytes_(rng, np.uint8)
    fn = sl.compile(model_of(np.uint8, [1, 8, "rows", 9], {"w": w, "xz": zero}, pads=[1, 1, 1, 1]), threads=1)
    for rows in (1, 6, 20):
        x = bytes_(rng, np.uint8, 1, 8, rows, 9)
        np.testing.assert_array_equal(fn(x), wanted(x, w, int(zero), 0, (1, 1), (1, 1, 1, 1), (1, 1)))


def test_many_terms_stay_exact(rng: np.random.Generator) -> None:
    """Sums beyond 2 ** 24, of one channel a group: of f64."""
    x, w = np.full((1, 2, 20, 20), 255, np.uint8), np.full((2, 1, 19, 19), 255, np.uint8)
    fn = sl.compile(model_of(np.uint8, list(x.shape), {"w": w}, group=2), threads=1)
    np.testing.assert_array_equal(fn(x), in_groups(x, w, 0, 0, 2))


@pytest.mark.parametrize("group, channels", [(1, 6), (2, 8), (6, 6)])
@pytest.mark.parametrize("pads", [(1, 1, 1, 1), (0, 1, 2, 1)])
def test_qlinear_conv_is_that_of_integers(group: int, channels: int, pads: Any, rng: np.random.Generator) -> None:
    """Scales that are powers of two: every number is ONNX Runtime's."""
    ort = pytest.importorskip("onnxruntime")
    x, w = (
        bytes_(rng, np.uint8, 1, channels, 9, 8),
        bytes_(rng, np.int8, 8 if group < 3 else 6, channels // group, 3, 3),
    )
    arrays = {
        "xs": np.float32(0.5), "xz": bytes_(rng, np.uint8), "w": w, "ws": np.float32(0.25), "wz": np.int8(0),
        "ys": np.float32(64), "yz": np.uint8(128), "b": rng.integers(-5000, 5000, w.shape[0]).astype(np.int32),
    }  # fmt: skip
    node = helper.make_node("QLinearConv", ["x", *list(arrays)[:-1], "b"], ["y"], pads=pads, group=group)
    info = [helper.make_tensor_value_info(n, TensorProto.UINT8, s) for n, s in (("x", x.shape), ("y", None))]
    graph = helper.make_graph(
        [node], "g", info[:1], info[1:], [numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items()]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    (right,) = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    np.testing.assert_array_equal(sl.compile(model, threads=1)(x), right)


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
