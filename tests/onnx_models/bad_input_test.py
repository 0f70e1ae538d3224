# SPDX-License-Identifier: Apache-2.0
"""What is no ONNX model, or no whole one: one error that names the file, the node and what is near."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import straightline as sl
from onnx import TensorProto, helper
from straightline.onnx_backend import StraightlineBackend

from tests.onnx_models.models_test import FLOAT, info, model_of, node

X, Y = info("x", [3]), info("y", [3])


def refused(kind: type[Exception], match: str, model: Any, *args: Any, **how: Any) -> None:
    with pytest.raises(kind, match=match):
        sl.compile(model, *args, **how)


def test_no_model_at_all(tmp_path: Path) -> None:
    refused(sl.UserError, "cannot read .*missing.onnx.*No such file", tmp_path / "missing.onnx")
    path = tmp_path / "text.onnx"
    path.write_bytes(b"this is no protobuf message at all")
    refused(sl.UserError, "text.onnx is no", path)
    path.write_bytes(b"")
    refused(sl.UserError, "text.onnx is no ONNX model: it has no graph", path)
    refused(
        sl.UserError, "the bytes, which are empty, are none of what sl.compile takes as bytes: an ONNX model, ", b""
    )
    refused(sl.UserError, r"the bytes, which begin with b'module {', .*StableHLO.*sl.compile_mlir", b"module {}")


def test_cut_off(tmp_path: Path) -> None:
    whole = model_of([node("Relu", ["x"], ["y"])], [X], [Y]).SerializeToString()
    for count in range(1, len(whole), 7):
        path = tmp_path / "cut.onnx"
        path.write_bytes(whole[:count])
        try:
            sl.compile(path)
        except sl.UserError as error:
            assert "cut.onnx" in str(error)
        except sl.UnsupportedError as error:
            assert "cut.onnx" in str(error)


def test_unknown_ops_are_all_listed() -> None:
    nodes = [
        node("Reluu", ["x"], ["a"]), helper.make_node("Thing", ["a"], ["b"], domain="com.example", name="odd"), node("Relu", ["b"], ["c"]),
        node("MelWeightMatrix", ["x", "x", "x", "x", "x"], ["d"]), node("Add", ["c", "d"], ["y"]),
    ]  # fmt: skip
    model = model_of(nodes, [X], [Y])
    refused(sl.UserError, "node 'odd' is an op of 'com.example', a domain that the model does not import", model)
    model.opset_import.add(domain="com.example", version=1)
    with pytest.raises(sl.UnsupportedError) as caught:
        sl.compile(model)
    text = str(caught.value)
    assert "3 unsupported ops" in text and "com.example.Thing at 'odd'" in text
    assert "Reluu at 'Reluu_a': there is no op Reluu here; nearest supported form: Relu" in text
    assert "MelWeightMatrix" in text and "Add" not in text


def test_unknown_ops_behind_unknown_ones_are_listed() -> None:
    nodes = [
        helper.make_node("Thing", ["x"], ["a"], domain="com.example", name="odd"), node("Sqrtt", ["a"], ["b"]), node("Relu", ["b"], ["c"]),
        helper.make_node("Other", ["c"], ["y"], domain="com.example", name="last"),
    ]  # fmt: skip
    model = model_of(nodes, [X], [Y])
    model.opset_import.add(domain="com.example", version=1)
    refused(sl.UnsupportedError, r"3 unsupported ops:\n.*Thing at 'odd'.*\n.*Sqrtt at .*\n.*Other at 'last'", model)


def test_an_op_set_of_the_future() -> None:
    newest = onnx.defs.onnx_opset_version()
    refused(
        sl.UnsupportedError,
        rf"needs op set {newest + 3}, but onnx .* knows those up to {newest}",
        model_of([node("Relu", ["x"], ["y"])], [X], [Y], opset=newest + 3),
    )
    model = model_of([node("Relu", ["x"], ["y"])], [X], [Y])
    model.ir_version = onnx.IR_VERSION + 2
    words = rf"is of IR version {onnx.IR_VERSION + 2}, but onnx .* knows those up to {onnx.IR_VERSION}"
    refused(sl.UnsupportedError, words, model)


def test_dangling_and_cyclic_names() -> None:
    refused(
        sl.UserError,
        "node 'Add_y' reads 'z', but nothing gives it",
        model_of([node("Add", ["x", "z"], ["y"])], [X], [Y]),
    )
    cycle = [node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]), node("Relu", ["b"], ["y"])]
    refused(sl.UserError, "node 'Add_a' reads 'b', but it is given behind it", model_of(cycle, [X], [Y]))
    refused(sl.UserError, "nothing gives the result 'y'", model_of([node("Relu", ["x"], ["z"])], [X], [Y]))
    twice = [node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"])]
    refused(sl.UserError, "node 'Neg_y' gives 'y', which is given before it", model_of(twice, [X], [Y]))
    refused(sl.UserError, "gives 'x', which is given before", model_of([node("Relu", ["x"], ["x"])], [X], [X]))


def test_inputs_of_several_types() -> None:
    model = model_of([node("Add", ["x", "i"], ["y"])], [X, info("i", [3], TensorProto.INT64)], [Y])
    refused(sl.UserError, r"the model: node 'Add_y' is no valid Add of float32\[3\], int64\[3\]", model)
    sl.compile(model_of([node("Pow", ["x", "i"], ["y"])], [X, info("i", [3], TensorProto.INT64)], [Y]))


def _beside(where: str, offset: int | str = 0, length: int | None = None) -> onnx.ModelProto:
    model = model_of([node("Add", ["x", "w"], ["y"])], [X], [Y])
    weight = TensorProto(name="w", data_type=FLOAT, dims=[3], data_location=TensorProto.EXTERNAL)
    for key, value in (
        ("location", where),
        ("offset", str(offset)),
        *([] if length is None else [("length", str(length))]),
    ):
        weight.external_data.add(key=key, value=value)
    model.graph.initializer.append(weight)
    return model


def test_data_beside_the_model(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(64))
    (folder / "short.bin").write_bytes(bytes(8))
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    path = folder / "model.onnx"
    for where, match in (
        ("missing.bin", "cannot read 'missing.bin' with the data of 'w': No such file"),
        ("short.bin", "needs 12 bytes from 0 on, but 'short.bin' gives 8"),
        ("../secret.bin", "'../secret.bin', outside of the model's folder"),
        (str(tmp_path / "secret.bin"), "outside of the model's folder"),
        ("link.bin", "outside of the model's folder"),
    ):
        path.write_bytes(_beside(where).SerializeToString())
        refused(sl.UserError, match, path)
    path.write_bytes(_beside("short.bin", offset=100).SerializeToString())
    refused(sl.UserError, "needs 12 bytes from 100 on, but 'short.bin' gives 0", path)
    (folder / "whole.bin").write_bytes(bytes(12))
    for offset in (-4, "zwei"):
        path.write_bytes(_beside("whole.bin", offset=offset).SerializeToString())
        refused(sl.UserError, f"offset is '{offset}' but must be a number of bytes", path)
    path.write_bytes(_beside("whole.bin", length=2**62).SerializeToString())
    refused(sl.UserError, f"needs {2**62} bytes from 0 on, but 'whole.bin' gives 12", path)
    refused(sl.UserError, "the model has no folder: give its path", _beside("short.bin"))


def test_inputs_that_do_not_fit() -> None:
    model = model_of([node("Relu", ["x"], ["y"])], [X], [Y])
    refused(
        sl.UserError, r"the input 'x' has the sizes \[4\] but the model takes \[3\]", model, (np.zeros(4, np.float32),)
    )
    refused(sl.UserError, "the input 'x' has elements of f64 but the model takes f32", model, (np.zeros(3),))
    refused(sl.UserError, "2 inputs are given but the model has 1: x", model, (np.zeros(3, np.float32),) * 2)
    refused(sl.UserError, "has no input 'z': it has 'x'", model, kwargs={"z": np.zeros(3, np.float32)})
    refused(sl.UserError, "dynamic_shapes is of torch's models", model, dynamic_shapes={})
    refused(
        sl.UserError,
        "by position or by name, not both",
        model,
        (np.zeros(3, np.float32),),
        {"x": np.zeros(3, np.float32)},
    )
    refused(sl.UserError, "unknown option 'frezee'", model, frezee=True)
    refused(sl.UserError, "values, sizes and fetches are of models of ONNX and Paddle", lambda x: x, (), sizes={"n": 3})
    refused(
        sl.UnsupportedError,
        "elements of type STRING",
        model_of([node("Identity", ["x"], ["y"])], [info("x", [1], TensorProto.STRING)], [Y]),
    )


def test_shapes_that_do_not_fit_each_other() -> None:
    refused(
        sl.UnsupportedError,
        r"Add at 'Add_y': shapes \[3\] and \[4\] do not fit",
        model_of([node("Add", ["x", "z"], ["y"])], [X, info("z", [4])], [Y]),
    )


@pytest.mark.parametrize("size", [(5, 2), (-1, 3), (1, 2, 3), "a", 2.5, None, -1], ids=str)
def test_sizes_that_are_none(size: Any) -> None:
    model = model_of([node("Relu", ["x"], ["y"])], [info("x", ["n"])], [info("y", ["n"])])
    with pytest.raises(sl.UserError) as caught:
        sl.compile(model, sizes={"n": size})
    assert f"sizes['n'] is {size!r} but must be a size" in str(caught.value)


def test_sizes_that_cannot_be_named() -> None:
    """In words, with what to give."""
    pool = model_of(
        [node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2, 2], strides=[2, 2, 2], ceil_mode=1)],
        [info("x", [1, 2, "h", 8, 8])],
        [info("y", None)],
    )
    what = "MaxPool at 'MaxPool_y': ceil_mode of a named size over .*volumes.*floats of one or two dims"
    refused(sl.UnsupportedError, what, pool)
    shape = {"shape": np.asarray([7, -1])}
    view = model_of([node("Reshape", ["x", "shape"], ["y"])], [info("x", ["n", 8])], [info("y", None)])
    view.graph.initializer.append(onnx.numpy_helper.from_array(shape["shape"], "shape"))
    compiled = sl.compile(view)  # a call's sizes decide
    assert compiled(np.zeros((7, 8), np.float32)).shape == (7, 8)
    for one in (compiled, sl.compile(view, emit="python")):
        for path in (True, False):
            with (
                sl.fast_path(path),
                pytest.raises(sl.StraightlineError, match=r"Reshape_y: the sizes n \* 8 and .* differ \(n = 5\)"),
            ):
                one(np.zeros((5, 8), np.float32))


def test_a_value_behind_many_ops() -> None:
    """A graph in which each op reads the one before twice, and one of a thousand ops, are refused at once."""
    twice = [node("Add", [f"a{i}" if i else "x", f"a{i}" if i else "x"], [f"a{i + 1}"]) for i in range(1200)]
    nodes = [*twice, node("Cast", ["a1200"], ["shape"], to=TensorProto.INT64), node("Reshape", ["x", "shape"], ["y"])]
    refused(
        sl.UnsupportedError, "the shape of Reshape is not known before a call.*values={'x'", model_of(nodes, [X], [Y])
    )


def test_the_backend() -> None:
    model = model_of([node("Relu", ["x"], ["y"])], [X], [Y])
    with pytest.raises(sl.UserError, match="device is 'TPU' but must be 'CPU'"):
        StraightlineBackend.prepare(model, "TPU")
    prepared = StraightlineBackend.prepare(model)
    with pytest.raises(sl.UserError, match="has no input 'z'"):
        prepared.run({"z": np.zeros(3, np.float32)})
    (found,) = StraightlineBackend.run_node(helper.make_node("Neg", ["a"], ["b"]), [np.ones(2, np.float32)])
    np.testing.assert_array_equal(found, [-1, -1])


def test_attributes_and_shapes_that_no_op_has() -> None:
    """Found by damaged models: they were called bugs of ours."""
    grid = info("grid", [1, 2, 2, 2])
    for attribute, value in (("mode", "linea"), ("padding_mode", "none")):
        model = model_of(
            [node("GridSample", ["x", "grid"], ["y"], **{attribute: value})],
            [info("x", [1, 1, 3, 3]), grid],
            [info("y", [1, 1, 2, 2])],
        )
        refused(sl.UserError, f"node '.*' is no valid GridSample: {attribute} is '{value}'", model)
    model = model_of(
        [node("AveragePool", ["x"], ["y"], kernel_shape=[116, 1])], [info("x", [1, 1, 8, 8])], [info("y", [1, 1, 8, 8])]
    )
    refused(sl.UserError, "the model is no valid model: .*AveragePool", model)
