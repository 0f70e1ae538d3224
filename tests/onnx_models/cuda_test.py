# SPDX-License-Identifier: Apache-2.0
"""ONNX models for a CUDA device: compiled anywhere, called where there is one.

`python -m straightline.onnx_coverage --device CUDA` runs all node tests there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import straightline as sl
from onnx import TensorProto, helper, numpy_helper
from straightline.compiled_function import CompiledElsewhere
from straightline.onnx_backend import Prepared, StraightlineBackend, _to_cuda, _to_host
from straightline.onnx_coverage import _sets, cases


def _model() -> onnx.ModelProto:
    weight = np.random.default_rng(0).standard_normal((16, 8), np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 8])],
        [numpy_helper.from_array(weight, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])


def _has_device() -> bool:
    torch = pytest.importorskip("torch")
    return torch.cuda.is_available()


def test_compiled_for_a_device(tmp_path: Path) -> None:
    function = sl.compile(_model(), target="cuda:sm_90")
    assert "CUDA C++ for sm_90" in function.code and function.explain()["target"] == "sm_90"
    if not _has_device():
        assert isinstance(function, CompiledElsewhere)
        with pytest.raises(sl.UnsupportedError, match="cannot run here"):
            function(np.zeros((2, 16), np.float32))
        function.save(tmp_path / "m.sl")
        with pytest.raises(sl.errors.StraightlineError, match="device"):
            sl.load(tmp_path / "m.sl")


#: Every so many of all node tests in the order of their names.
NAMES = sorted(cases("node"))[3::60]


@pytest.mark.parametrize("name", NAMES)
def test_node_tests_have_kernels(name: str) -> None:
    """What compiles for the cpu compiles for a device."""
    model, sets = _sets(cases("node")[name])
    given = {tensor.name for tensor in model.graph.initializer}
    names = [i.name for i in model.graph.input if i.name not in given]
    inputs = dict(zip(names, sets[0][0], strict=False))
    values = {key: value for key, value in inputs.items() if isinstance(value, np.ndarray) and value.size <= 64}

    def outcome(**options: Any) -> str:
        try:
            sl.compile(model, kwargs=inputs, values=values, **options)
        except sl.UnsupportedError:
            return "refused"
        return "compiled"

    assert outcome(target="cuda:sm_90") == outcome()


def test_bad_input() -> None:
    with pytest.raises(sl.UserError, match="target is 'moon'"):
        sl.compile(_model(), target="moon")
    if not _has_device():
        with pytest.raises(sl.UserError, match="torch finds no device"):
            sl.compile(_model(), target="cuda")
        assert not StraightlineBackend.supports_device("CUDA")
        with pytest.raises(sl.UserError, match="device is 'CUDA'"):
            StraightlineBackend.prepare(_model(), "CUDA")


@pytest.mark.skipif("not __import__('torch').cuda.is_available()")
def test_on_a_device() -> None:
    import torch

    x = np.random.default_rng(1).standard_normal((5, 16), np.float32)
    expected = sl.compile(_model())(x)
    for function in (sl.compile(_model(), target="cuda"), sl.compile(_model(), (torch.from_numpy(x).cuda(),))):
        y = function(torch.from_numpy(x).cuda())
        assert y.is_cuda
        np.testing.assert_allclose(y.cpu().numpy(), expected, rtol=1e-4, atol=1e-5)
    [y] = Prepared(_model(), {}, "CUDA").run([x])
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(sl.GuardError, match="cuda"):
        function(x)
    empty = np.zeros((0, 3), np.int64)
    assert _to_host(_to_cuda(empty)).shape == (0, 3)
