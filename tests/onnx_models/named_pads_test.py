# SPDX-License-Identifier: Apache-2.0
"""Pads, slices and shapes that are larger or smaller ones, quotients or remainders of named sizes, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import straightline as sl

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

_NUMBERS = {"zero": 0, "one": 1, "three": 3, "eight": 8, "big": 20}
_SIZES = (1, 2, 7, 8, 9, 15, 16, 17, 20, 21, 64)


def _model(*nodes: Any) -> bytes:
    """`x` [2, n] and `n` [1], its size, to `y`."""
    head = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Slice", ["shape", "one", "big"], ["n"]),
        helper.make_node("Concat", ["zero", "zero", "zero"], ["front"], axis=0),
    ]
    graph = helper.make_graph(
        [*head, *nodes], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, "n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray([value], np.int64), name) for name, value in _NUMBERS.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()


def _op(kind: str, inputs: str, output: str, **how: Any) -> Any:
    return helper.make_node(kind, inputs.split(), [output], **how)


def _pad(amount: str, mode: str = "constant") -> list[Any]:
    return [_op("Concat", f"front {amount}", "pads", axis=0), _op("Pad", "x pads", "y", mode=mode)]


_TO_A_MULTIPLE = [_op("Add", "n eight", "a"), _op("Sub", "a one", "b"), _op("Div", "b eight", "c"),
                  _op("Mul", "c eight", "d"), _op("Sub", "d n", "amount")]  # fmt: skip
_TO_EIGHT = [_op("Sub", "eight n", "d"), _op("Max", "d zero", "amount")]
_CASES = {
    "to a least size": [*_TO_EIGHT, *_pad("amount")],
    "to a least size, the edge": [*_TO_EIGHT, *_pad("amount", "edge")],
    "by Clip": [_op("Sub", "eight n", "d"), _op("Clip", "d zero three", "amount"), *_pad("amount")],
    "by Relu": [_op("Sub", "eight n", "d"), _op("Relu", "d", "amount"), *_pad("amount")],
    "by the size": [_op("Min", "n eight three", "amount"), *_pad("amount")],
    "by what is far": [_op("Sub", "n eight", "d"), _op("Abs", "d", "amount"), *_pad("amount")],
    "by a remainder": [_op("Mod", "n three", "amount"), *_pad("amount")],
    "a quotient toward 0": [
        _op("Sub", "n eight", "d"), _op("Div", "d three", "q"), _op("Neg", "q", "m"), _op("Max", "m zero", "amount"), *_pad("amount"),
    ],
    "to a multiple": [*_TO_A_MULTIPLE, *_pad("amount")],
    "to a multiple, as rows": [
        *_TO_A_MULTIPLE, _op("Concat", "front amount", "pads", axis=0), _op("Pad", "x pads", "p"),
        helper.make_node("Constant", [], ["rows"], value_ints=[2, -1, 8]), _op("Reshape", "p rows", "y"),
    ],
    "twice": [
        *_TO_EIGHT, _op("Concat", "front amount", "pads", axis=0), _op("Pad", "x pads", "p"), _op("Max", "n eight", "e"),
        _op("Concat", "zero e", "unused", axis=0), _op("Slice", "p zero e one", "s"), _op("Add", "p s", "y"),
    ],
    "a slice of the smaller": [_op("Min", "n eight", "e"), _op("Slice", "x zero e one", "y")],
    "frames": [_op("Div", "n eight", "q"), _op("Max", "q one", "f"), *_TO_EIGHT, _op("Concat", "front amount", "pads", axis=0),
               _op("Pad", "x pads", "p"), _op("Slice", "p zero f one", "y")],
}  # fmt: skip


@pytest.mark.parametrize("case", _CASES)
def test_sizes_on_both_sides(rng: np.random.Generator, case: str) -> None:
    model = _model(*_CASES[case])
    compiled, session = sl.compile(model, threads=1), onnxruntime.InferenceSession(model)
    for size in _SIZES:
        x = rng.standard_normal((2, size)).astype(np.float32)
        (wanted,) = session.run(None, {"x": x})
        np.testing.assert_array_equal(np.asarray(compiled(x)), wanted, err_msg=f"size {size}")


def test_bounds_choose(rng: np.random.Generator) -> None:
    """Within bounds on one side of 8 the program has no trace of the other one."""
    model = _model(*_CASES["to a least size"])
    compiled = sl.compile(model, threads=1, sizes={"n": (8, 100)})
    assert "pad" not in str(compiled.explain())
    x = rng.standard_normal((2, 30)).astype(np.float32)
    np.testing.assert_array_equal(np.asarray(compiled(x)), x)


def test_a_divisor_that_may_be_zero() -> None:
    model = _model(_op("Sub", "n eight", "d"), _op("Div", "n d", "amount"), *_pad("amount"))
    with pytest.raises(sl.UnsupportedError, match="may be below 1"):
        sl.compile(model, threads=1)


def test_pads_that_may_crop() -> None:
    model = _model(_op("Sub", "eight n", "amount"), *_pad("amount"))
    with pytest.raises(sl.UnsupportedError, match="may crop"):
        sl.compile(model, threads=1)
