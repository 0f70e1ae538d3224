# SPDX-License-Identifier: Apache-2.0
"""Damaged files: an error of ours that is not internal, or a program; the process never ends."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import straightline as sl
from onnx import TensorProto, helper

from tests.onnx_models import damaged
from tests.onnx_models.bad_input_test import X, Y
from tests.onnx_models.models_test import info, model_of, node


def test_damaged_files() -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    kinds = set()
    for number, kind, words in damaged.run(40, seed):
        kinds.add(kind)
        assert kind in damaged.FINE, f"seed {seed}, model {number}: {kind}: {words}"
    assert "refused" in kinds


@pytest.mark.parametrize(
    ("type", "dims", "data", "words"),
    [
        (TensorProto.FLOAT, [4], bytes(12), r"the tensor 'w' has other data than float\[4\] needs"),
        (TensorProto.FLOAT, [3], bytes(11), r"other data than float\[3\] needs"),
        (TensorProto.FLOAT, [-1], bytes(12), r"the tensor 'w' has the sizes \[-1\]"),
        (2**31 - 1, [3], bytes(12), "elements of type 2147483647, which ONNX does not have"),
    ],
    ids=["short", "cut", "negative", "type"],
)
@pytest.mark.parametrize("place", ["initializer", "constant", "branch"])
def test_tensors_that_do_not_fit_their_data(place: str, type: int, dims: list[int], data: bytes, words: str) -> None:
    tensor = TensorProto(name="w", data_type=type, dims=dims, raw_data=data)
    nodes = [node("Add", ["x", "w"], ["y"])]
    if place == "constant":
        nodes.insert(0, helper.make_node("Constant", [], ["w"], value=tensor))
    if place == "branch":
        graph = helper.make_graph(
            [node("Add", ["x", "w"], ["z"])], "branch", [], [onnx.ValueInfoProto(name="z")], [tensor]
        )
        nodes = [helper.make_node("If", ["c"], ["y"], then_branch=graph, else_branch=graph)]
    model = model_of(nodes, [X], [Y], {"c": np.asarray(True)} if place == "branch" else {})
    if place == "initializer":
        model.graph.initializer.append(tensor)
    with pytest.raises(sl.UserError, match=f"the model: {words}" if words.startswith("the tensor") else words):
        sl.compile(model)


def test_a_size_below_zero_before_a_slice() -> None:
    """Some exporters write -1 for any size; onnx's own upgrade of a Slice of such an input ended the process."""
    nodes = [helper.make_node("Slice", ["x", "a", "e"], ["y"])]
    bounds = {"a": np.asarray([0, 1]), "e": np.asarray([1, 2])}
    model = model_of(nodes, [info("x", [-1, 3])], [info("y", [-1, 1])], bounds, opset=20)
    np.testing.assert_array_equal(sl.compile(model)(np.asarray([[1, 2, 3], [4, 5, 6]], np.float32)), [[2]])
    cut = [node("Pad", ["x", "p"], ["q"]), helper.make_node("Slice", ["q", "a", "e"], ["y"])]
    model = model_of(cut, [info("x", [4, 3])], [info("y", None)], {**bounds, "p": np.asarray([0, 0, -6, 0])}, opset=20)
    with pytest.raises(sl.UserError, match="'q' has a size of -2"):
        sl.compile(model)


def test_a_condition_of_several_elements() -> None:
    """Found by damaged models: it was called a bug of ours."""
    graph = helper.make_graph([node("Neg", ["x"], ["z"])], "branch", [], [onnx.ValueInfoProto(name="z")])
    branch = helper.make_node("If", ["c"], ["y"], then_branch=graph, else_branch=graph, name="if")
    model = model_of([branch], [X, info("c", [3], TensorProto.BOOL)], [Y])
    with pytest.raises(sl.UserError, match=r"the condition of If at 'if' has the shape \[3\], not one element"):
        sl.compile(model)


@pytest.mark.parametrize("perm", [[], [0], [0, 0], [1, 2]], ids=str)
def test_an_order_that_is_none(perm: list[int]) -> None:
    """Found by damaged models: it was called a bug of ours."""
    transpose = node("Transpose", ["x"], ["y"])
    transpose.attribute.append(helper.make_attribute("perm", perm, attr_type=onnx.AttributeProto.INTS))
    with pytest.raises(sl.UserError, match="perm"):
        sl.compile(model_of([transpose], [info("x", [2, 3])], [info("y", None)]))


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_resize_of_and_to_nothing(mode: str) -> None:
    """Found by damaged models: both were called bugs of ours."""

    def resized(size: int, scale: float) -> Any:
        nodes = [node("Resize", ["x", "", "k"], ["y"], mode=mode)]
        return sl.compile(
            model_of(nodes, [info("x", [1, 2, size, 4])], [info("y", None)], {"k": np.asarray([1, 1, scale, 1], "f4")})
        )

    assert resized(5, 0.125)(np.ones((1, 2, 5, 4), np.float32)).shape == (1, 2, 0, 4)
    with pytest.raises(sl.UnsupportedError, match=r"dim 2 of \[1, 2, 0, 4\], which has no elements, resized"):
        resized(0, 2.0)


def test_data_beside_the_model_of_a_constant(tmp_path: Path) -> None:
    """It comes from the model's folder, wherever the process is."""
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="w.bin")
    nodes = [helper.make_node("Constant", [], ["w"], value=tensor), node("Add", ["x", "w"], ["y"])]
    (tmp_path / "m").mkdir()
    path = tmp_path / "m" / "m.onnx"
    path.write_bytes(model_of(nodes, [X], [Y]).SerializeToString())
    with pytest.raises(sl.UserError, match=r"m.onnx: cannot read 'w.bin' with the data of 'w'"):
        sl.compile(path)
    (tmp_path / "m" / "w.bin").write_bytes(np.arange(3, dtype=np.float32).tobytes())
    np.testing.assert_array_equal(sl.compile(path)(np.ones(3, np.float32)), [1, 2, 3])
    tensor.external_data[0].value = "../w.bin"
    (tmp_path / "w.bin").write_bytes(bytes(12))
    nodes[0].attribute[0].t.CopyFrom(tensor)
    path.write_bytes(model_of(nodes, [X], [Y]).SerializeToString())
    with pytest.raises(sl.UserError, match="outside of the model's folder"):
        sl.compile(path)
