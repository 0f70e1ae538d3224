# SPDX-License-Identifier: Apache-2.0
"""MatMulInteger and QLinearMatMul: exact for every kind of zero point, as products of bytes where the weight is a matrix of known sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import straightline as sl
from onnx import ModelProto, TensorProto, helper, numpy_helper

_ELEMENTS = {np.int8: TensorProto.INT8, np.uint8: TensorProto.UINT8}
ROWS, TERMS, COLUMNS = 5, 37, 19


def bytes_(rng: np.random.Generator, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def model_of(a: np.ndarray, arrays: dict[str, np.ndarray], given: tuple[str, ...] = ()) -> ModelProto:
    """MatMulInteger of "a" and of arrays b, az, bz, of which those in `given` are inputs."""
    names = ["a", "b", "az" if "az" in arrays else "", "bz" if "bz" in arrays else ""]
    every = {"a": a} | {name: arrays[name] for name in given}
    inputs = [helper.make_tensor_value_info(n, _ELEMENTS[x.dtype.type], x.shape) for n, x in every.items()]
    constants = [numpy_helper.from_array(x, n) for n, x in arrays.items() if n not in given]
    node = helper.make_node("MatMulInteger", names, ["y"])
    graph = helper.make_graph(
        [node], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.INT32, None)], constants
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def wanted(a: np.ndarray, b: np.ndarray, az: Any = 0, bz: Any = 0) -> np.ndarray:
    az = np.asarray(az, np.int64)
    left = a.astype(np.int64) - (
        az[:, None] if az.ndim == 1 and az.size > 1 else az.reshape(-1)[0] if az.ndim == 1 else az
    )
    return (left @ (b.astype(np.int64) - np.asarray(bz, np.int64))).astype(np.int32)


def kernels(fn: Any) -> list[str]:
    return [row["kernel"] for row in fn.explain().statements if row["phase"] == "run"]


@pytest.mark.parametrize("a_type", [np.int8, np.uint8])
@pytest.mark.parametrize("b_type", [np.int8, np.uint8])
@pytest.mark.parametrize("zeros", ["none", "numbers", "rows and columns"])
def test_a_weight_of_bytes(a_type: Any, b_type: Any, zeros: str, rng: np.random.Generator) -> None:
    a, b = bytes_(rng, a_type, (ROWS, TERMS)), bytes_(rng, b_type, (TERMS, COLUMNS))
    shapes: dict[str, tuple[tuple[int, ...], ...]] = {
        "none": (),
        "numbers": ((), ()),
        "rows and columns": ((ROWS,), (COLUMNS,)),
    }
    arrays = {"b": b} | {
        name: bytes_(rng, dtype, shape) for name, dtype, shape in zip(("az", "bz"), (a_type, b_type), shapes[zeros])
    }
    fn = sl.compile(model_of(a, arrays))
    np.testing.assert_array_equal(fn(a), wanted(a, b, *(arrays[n] for n in ("az", "bz") if n in arrays)))
    assert any(kernel.startswith("gemm_int8") for kernel in kernels(fn)), kernels(fn)


@pytest.mark.parametrize("shape", [(TERMS,), (2, 3, TERMS)])
def test_vectors_and_batches_of_rows(shape: tuple[int, ...], rng: np.random.Generator) -> None:
    a, b = bytes_(rng, np.uint8, shape), bytes_(rng, np.int8, (TERMS, COLUMNS))
    arrays = {"b": b, "az": np.asarray(7, np.uint8)}
    fn = sl.compile(model_of(a, arrays))
    np.testing.assert_array_equal(fn(a), wanted(a, b, 7))
    assert any(kernel.startswith(("gemm_int8", "gemv_int8")) for kernel in kernels(fn)), kernels(fn)


@pytest.mark.parametrize("shape", [(TERMS,), (ROWS, TERMS), (2, 3, TERMS)])
def test_a_vector_on_the_right(shape: tuple[int, ...], rng: np.random.Generator) -> None:
    a, b = bytes_(rng, np.uint8, shape), bytes_(rng, np.int8, (TERMS,))
    arrays = {"b": b, "az": np.asarray(7, np.uint8), "bz": np.asarray(-3, np.int8)}
    np.testing.assert_array_equal(sl.compile(model_of(a, arrays))(a), wanted(a, b, 7, -3))


def test_terms_that_differ(rng: np.random.Generator) -> None:
    model = model_of(bytes_(rng, np.uint8, (ROWS, TERMS)), {"b": bytes_(rng, np.int8, (TERMS + 1, COLUMNS))})
    with pytest.raises(sl.UnsupportedError, match=rf"\[{ROWS}, {TERMS}\] and \[{TERMS + 1}, {COLUMNS}\]"):
        sl.compile(model)


def test_a_zero_point_and_a_weight_that_a_call_brings(rng: np.random.Generator) -> None:
    a, b = bytes_(rng, np.uint8, (ROWS, TERMS)), bytes_(rng, np.int8, (TERMS, COLUMNS))
    arrays = {"b": b, "az": bytes_(rng, np.uint8, ()), "bz": bytes_(rng, np.int8, ())}
    fn = sl.compile(model_of(a, arrays, given=("b", "az")))
    np.testing.assert_array_equal(fn(a, b, arrays["az"]), wanted(a, b, arrays["az"], arrays["bz"]))


def test_sums_that_32_bits_might_not_hold_stay_exact(rng: np.random.Generator) -> None:
    """Of more terms than products of bytes surely fit, and with the largest differences there are."""
    terms = 33026
    a, b = np.full((1, terms), 255, np.uint8), np.full((terms, 2), 255, np.uint8)
    b[:, 1] = 0
    fn = sl.compile(model_of(a, {"b": b}))
    np.testing.assert_array_equal(fn(a)[:, 1], [0])
    assert not any(kernel.startswith("gemm_int8") for kernel in kernels(fn)), kernels(fn)
