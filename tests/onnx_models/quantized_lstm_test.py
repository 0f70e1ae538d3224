# SPDX-License-Identifier: Apache-2.0
"""com.microsoft.DynamicQuantizeLSTM against ONNX Runtime: both round what goes into products to bytes, by products of bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import straightline as sl
from onnx import ModelProto, TensorProto, helper, numpy_helper

ort = pytest.importorskip("onnxruntime")
INPUT, HIDDEN = 6, 8


def model_of(rng: np.random.Generator, dtype: Any, each: bool, both: bool, recurs: bool) -> ModelProto:
    """`each`: a scale for each column, else for each direction; `recurs`: whether h counts."""
    directions = 1 + both
    shape = (directions, 4 * HIDDEN) if each else (directions,)
    zero = np.full(shape, 0 if dtype is np.int8 else 128, dtype)
    low, high = (-127, 128) if dtype is np.int8 else (0, 256)
    arrays = {
        "W": rng.integers(low, high, (directions, INPUT, 4 * HIDDEN)).astype(dtype),
        "R": (rng.integers(low, high, (directions, HIDDEN, 4 * HIDDEN)) if recurs else np.broadcast_to(zero.reshape(-1)[0], (directions, HIDDEN, 4 * HIDDEN))).astype(dtype),
        "B": rng.standard_normal((directions, 8 * HIDDEN)).astype(np.float32),
        "ws": rng.uniform(0.5, 1, shape).astype(np.float32) / 256, "wz": zero,
        "rs": rng.uniform(0.5, 1, shape).astype(np.float32) / 256, "rz": zero,
    }  # fmt: skip
    node = helper.make_node(
        "DynamicQuantizeLSTM", ["x", "W", "R", "B", "", "h", "c", "", "ws", "wz", "rs", "rz"], ["y", "yh", "yc"], domain="com.microsoft",
        hidden_size=HIDDEN, direction="bidirectional" if both else "forward",
    )  # fmt: skip
    info = helper.make_tensor_value_info
    inputs = [info("x", TensorProto.FLOAT, [7, 2, INPUT])]
    inputs += [info(name, TensorProto.FLOAT, [directions, 2, HIDDEN]) for name in ("h", "c")]
    outputs = [info(name, TensorProto.FLOAT, None) for name in ("y", "yh", "yc")]
    graph = helper.make_graph([node], "g", inputs, outputs, [numpy_helper.from_array(a, n) for n, a in arrays.items()])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("both", [False, True])
def test_weights_of_bytes(dtype: Any, each: bool, both: bool, rng: np.random.Generator) -> None:
    """The same rounding gives the same numbers; an h beside the edge of two bytes may go either way, and steps behind it follow."""
    feeds = {"x": rng.standard_normal((7, 2, INPUT)).astype(np.float32)} | {
        n: rng.standard_normal((1 + both, 2, HIDDEN)).astype(np.float32) for n in ("h", "c")
    }
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1  # several round rows apart
    for recurs, allowed in ((False, 2e-5), (True, 0.05)):
        model = model_of(rng, dtype, each, both, recurs)
        wanted = ort.InferenceSession(model.SerializeToString(), options).run(None, feeds)
        for mine, theirs in zip(sl.compile(model)(**feeds), wanted, strict=True):
            assert mine.shape == theirs.shape
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=allowed)
            assert np.median(np.abs(mine - theirs)) < 2e-6


def test_steps_multiply_bytes_and_sum_weights_once(rng: np.random.Generator) -> None:
    fn = sl.compile(model_of(rng, np.int8, each=True, both=True, recurs=True))
    rows = fn.explain().statements
    assert sum(row["kernel"].startswith("gemm_int8") for row in rows if row["phase"] == "run") == 4
    sums = [row["phase"] for row in rows if "rows_sum" in row["kernel"]]
    assert sums and set(sums) == {"prepare"}
