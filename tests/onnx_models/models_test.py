# SPDX-License-Identifier: Apache-2.0
"""Models in ONNX: named sizes, values that decide shapes, control flow, sequences, weights beside the model, other sets of weights."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import straightline as sl
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from straightline.onnx_model import compile_onnx

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


@pytest.fixture(autouse=True)
def rng() -> np.random.Generator:
    seed = random.randrange(2**31)
    print(f"seed {seed}")
    return np.random.default_rng(seed)


def info(name: str, shape: list[Any], element: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, element, shape)


def model_of(
    nodes: list[Any],
    inputs: list[Any],
    outputs: list[Any],
    weights: dict[str, np.ndarray] | None = None,
    opset: int = 21,
) -> onnx.ModelProto:
    tensors = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(nodes, "graph", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def node(op: str, inputs: list[str], outputs: list[str], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs, outputs, name=f"{op}_{outputs[0]}", **attributes)


def check(model: onnx.ModelProto, function: Any, *arrays: np.ndarray) -> None:
    want = ReferenceEvaluator(model).run(None, dict(zip([i.name for i in model.graph.input], arrays)))
    got = function(*arrays)
    for ours, theirs in zip(got if isinstance(got, tuple) else (got,), want, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)


def _perceptron(rng: np.random.Generator, rows: Any = "n") -> onnx.ModelProto:
    weights = {"w": rng.standard_normal((32, 16), np.float32), "b": rng.standard_normal(16, np.float32)}
    nodes = [node("Gemm", ["x", "w", "b"], ["h"]), node("Relu", ["h"], ["y"])]
    return model_of(nodes, [info("x", [rows, 32])], [info("y", [rows, 16])], weights)


def test_a_named_size(rng: np.random.Generator) -> None:
    model = _perceptron(rng)
    function = sl.compile(model)
    for n in (1, 5, 40):
        check(model, function, rng.standard_normal((n, 32), np.float32))
    assert "n" in str(function.explain()["named_sizes"])


def test_bounds_of_a_named_size(rng: np.random.Generator) -> None:
    function = sl.compile(_perceptron(rng), sizes={"n": (2, 4)})
    for size, bound in ((5, "larger max"), (1, "smaller min")):
        with pytest.raises(sl.GuardError) as caught:
            function(np.zeros((size, 32), np.float32))
        assert str(caught.value) == (
            f"input 'x': dim 0 is {size} but this program was compiled for n in [2, 4]; "
            f"pass sizes= with a {bound} to sl.compile"
        )
    for fixed in (
        sl.compile(_perceptron(rng), sizes={"n": 3}),
        sl.compile(_perceptron(rng), (np.zeros((3, 32), np.float32),)),
        sl.compile(_perceptron(rng, 3)),
    ):
        with pytest.raises(sl.GuardError) as caught:
            fixed(np.zeros((5, 32), np.float32))
        assert str(caught.value) == (
            "input 'x': dim 0 is 5 but this program was compiled for 3; name the dim in the model (dim_param) and "
            "pass sl.compile no input or sizes= that fixes it"
        )
    with pytest.raises(sl.UserError, match="has no size 'm': it has"):
        sl.compile(_perceptron(rng), sizes={"m": 3})


def test_two_names_of_one_size(rng: np.random.Generator) -> None:
    nodes = [node("Concat", ["a", "b"], ["ab"], axis=1), node("Add", ["ab", "c"], ["y"])]
    model = model_of(nodes, [info("a", ["n", 2]), info("b", ["m", 3]), info("c", ["k", 5])], [info("y", ["n", 5])])
    function = sl.compile(model)
    for n in (1, 6):
        check(model, function, *(rng.standard_normal((n, width), np.float32) for width in (2, 3, 5)))
    with pytest.raises(sl.GuardError, match="'b': dim 0 is 3 but"):
        function(np.zeros((2, 2), np.float32), np.zeros((3, 3), np.float32), np.zeros((2, 5), np.float32))


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_pads_of_a_named_size(rng: np.random.Generator, mode: str) -> None:
    nodes = [node("Pad", ["x", "pads"], ["y"], mode=mode)]
    model = model_of(nodes, [info("x", [2, "n"])], [info("y", None)], {"pads": np.asarray([0, 3, 0, 2])})
    function = sl.compile(model)
    for n in (4, 9):
        x = rng.standard_normal((2, n), np.float32)
        np.testing.assert_array_equal(function(x), np.pad(x, ((0, 0), (3, 2)), mode=mode))


def test_ways_to_give_a_model(rng: np.random.Generator, tmp_path: Path) -> None:
    model, x = _perceptron(rng), rng.standard_normal((3, 32), np.float32)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    for given in (path, str(path), path.read_bytes(), model):
        check(model, sl.compile(given, (x,)), x)
        check(model, sl.compile(given, kwargs={"x": x}), x)


def test_by_name_and_by_place(rng: np.random.Generator) -> None:
    model = model_of([node("Sub", ["a", "b"], ["y"])], [info("a", [3]), info("b", [3])], [info("y", [3])])
    function = sl.compile(model)
    a, b = rng.standard_normal((2, 3), np.float32)
    np.testing.assert_array_equal(function(b=b, a=a), a - b)
    np.testing.assert_array_equal(function(a, b=b), a - b)


def test_arithmetic_on_sizes(rng: np.random.Generator) -> None:
    """The shape of a reshape from the sizes of an input, as exporters write it."""
    weights = {"zero": np.asarray(0), "one": np.asarray(1), "minus": np.asarray([-1]), "axis": np.asarray([0])}
    nodes = [
        node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["n"]), node("Gather", ["s", "one"], ["t"]),
        node("Mul", ["n", "t"], ["rows"]), node("Unsqueeze", ["rows", "axis"], ["r"]),
        node("Concat", ["r", "minus"], ["shape"], axis=0), node("Reshape", ["x", "shape"], ["y"]),
        node("Range", ["zero", "t", "one"], ["places"]), node("Cast", ["places"], ["p"], to=FLOAT),
        node("Unsqueeze", ["p", "minus"], ["column"]), node("Add", ["x", "column"], ["z"]),
    ]  # fmt: skip
    model = model_of(nodes, [info("x", ["n", "t", 4])], [info("y", None), info("z", None)], weights)
    function = sl.compile(model)
    for n, t in ((2, 3), (1, 1), (5, 2)):
        check(model, function, rng.standard_normal((n, t, 4), np.float32))


def test_values_that_decide_shapes(rng: np.random.Generator) -> None:
    model = model_of(
        [node("ReduceSum", ["x", "axes"], ["y"])], [info("x", [2, 3, 4]), info("axes", [1], INT64)], [info("y", None)]
    )
    x = rng.standard_normal((2, 3, 4), np.float32)
    with pytest.raises(
        sl.UnsupportedError, match=r"ReduceSum at 'ReduceSum_y': the axes of ReduceSum is not known.*values=\{'axes'"
    ):
        sl.compile(model)
    for axis in (0, 2):
        axes = np.asarray([axis])
        function = sl.compile(model, values={"axes": axes})
        check(model, function, x, axes)
        with pytest.raises(
            sl.UserError,
            match=rf"the values of input 'axes' are not those that the program was compiled for, \[{axis}\]",
        ):
            function(x, np.asarray([1]))


def test_branches(rng: np.random.Generator) -> None:
    def branch(name: str, op: str) -> onnx.GraphProto:
        return helper.make_graph([node(op, ["x", "w"], [name])], name, [], [info(name, [3])])

    nodes = [
        node("ReduceSum", ["x"], ["total"], keepdims=0), node("Greater", ["total", "zero"], ["flag"]),
        node("If", ["flag"], ["y"], then_branch=branch("p", "Add"), else_branch=branch("q", "Sub")),
    ]  # fmt: skip
    weights = {"w": rng.standard_normal(3, np.float32), "zero": np.asarray(0, np.float32)}
    model = model_of(nodes, [info("x", [3])], [info("y", [3])], weights)
    function = sl.compile(model)
    for x in (np.ones(3, np.float32), -np.ones(3, np.float32)):
        check(model, function, x)


@pytest.mark.parametrize("trips", ["constant", "given"])
def test_loops(rng: np.random.Generator, trips: str) -> None:
    body = helper.make_graph(
        [node("Mul", ["v", "half"], ["next"]), node("Identity", ["go"], ["on"]), node("Add", ["next", "next"], ["row"])],
        "body", [info("i", [], INT64), info("go", [], BOOL), info("v", [3])], [info("on", [], BOOL), info("next", [3]), info("row", [3])],
    )  # fmt: skip
    weights = {"half": np.asarray(0.5, np.float32), "yes": np.asarray(True)} | (
        {"count": np.asarray(4)} if trips == "constant" else {}
    )
    inputs = [info("x", [3])] + ([] if trips == "constant" else [info("count", [], INT64)])
    rows = [info("rows", None)] if trips == "constant" else []
    outputs = ["last", "rows"] if rows else ["last"]
    if not rows:
        del body.output[2:]
    model = model_of(
        [node("Loop", ["count", "yes", "x"], outputs, body=body)], inputs, [info("last", [3]), *rows], weights
    )
    function = sl.compile(model)
    x = rng.standard_normal(3, np.float32)
    for count in (4,) if rows else (0, 1, 7):
        check(model, function, x, *(() if rows else (np.asarray(count),)))


def test_sizes_that_depend_on_data(rng: np.random.Generator) -> None:
    nodes = [
        node("Greater", ["x", "zero"], ["mask"]),
        node("NonZero", ["mask"], ["places"]),
        node("Compress", ["x", "mask"], ["some"]),
    ]
    model = model_of(
        nodes,
        [info("x", ["n"])],
        [info("places", None, INT64), info("some", None)],
        {"zero": np.asarray(0, np.float32)},
    )
    function = sl.compile(model)
    for n in (9, 1, 30):
        check(model, function, rng.standard_normal(n, np.float32))


def test_results_that_are_sequences(rng: np.random.Generator) -> None:
    sequence = helper.make_tensor_sequence_value_info("y", FLOAT, None)
    model = model_of(
        [node("SplitToSequence", ["x", "parts"], ["y"])], [info("x", [5])], [sequence], {"parts": np.asarray([2, 3])}
    )
    x = rng.standard_normal(5, np.float32)
    found = sl.compile(model)(x)
    assert isinstance(found, list)
    np.testing.assert_array_equal(np.concatenate(found), x)


def test_other_weights(rng: np.random.Generator) -> None:
    first, second = _perceptron(rng, 3), _perceptron(rng, 3)
    function, x = sl.compile(first), rng.standard_normal((3, 32), np.float32)
    weights = {t.name: numpy_helper.to_array(t) for t in second.graph.initializer}
    assert set(function.parameters()) == set(weights)
    check(second, function.with_parameters(weights), x)
    check(first, function, x)
    function.load_parameters(weights)
    check(second, function, x)


def test_weights_beside_the_model(rng: np.random.Generator, tmp_path: Path) -> None:
    model, path = _perceptron(rng), tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=16)
    check(_perceptron_of(path), sl.compile(path), rng.standard_normal((4, 32), np.float32))


def _perceptron_of(path: Path) -> onnx.ModelProto:
    return onnx.load(path)


def test_local_functions_and_old_op_sets(rng: np.random.Generator) -> None:
    body = helper.make_function(
        "own", "Twice", ["v"], ["w"], [node("Add", ["v", "v"], ["w"])], [helper.make_opsetid("", 11)]
    )
    nodes = [helper.make_node("Twice", ["x"], ["d"], domain="own"), node("Squeeze", ["d"], ["y"], axes=[0])]
    graph = helper.make_graph(nodes, "graph", [info("x", [1, 4])], [info("y", [4])])
    opsets = [helper.make_opsetid("", 11), helper.make_opsetid("own", 1)]
    model = helper.make_model(graph, opset_imports=opsets, functions=[body])
    x = rng.standard_normal((1, 4), np.float32)
    np.testing.assert_array_equal(sl.compile(model)(x), (x + x)[0])


def test_constants_that_grow_are_not_made_while_importing() -> None:
    """A shape of 2 ** 40 elements whose sum is 0 of them: nothing of that size is allocated."""
    nodes = [
        node("ConstantOfShape", ["shape"], ["zeros"]),
        node("Slice", ["zeros", "no", "one"], ["few"]),
        node("Add", ["x", "few"], ["y"]),
    ]
    weights = {"shape": np.asarray([2**40]), "no": np.asarray([0]), "one": np.asarray([1])}
    function = sl.compile(model_of(nodes, [info("x", [3])], [info("y", [3])], weights))
    np.testing.assert_array_equal(function(np.ones(3, np.float32)), np.ones(3))


def test_locations_are_node_names(rng: np.random.Generator) -> None:
    assert "Gemm_h" in compile_onnx(_perceptron(rng)).ir("op", locations=True)


def test_weights_of_four_bits(rng: np.random.Generator) -> None:
    """Blocks of 16 with a scale and a zero point each, as exporters of language models write them."""
    import ml_dtypes

    weights = {
        "w": rng.integers(-8, 8, (32, 6)).astype(ml_dtypes.int4), "scale": rng.random((2, 6), np.float32) + 0.1,
        "zero": rng.integers(-8, 8, (2, 6)).astype(ml_dtypes.int4),
    }  # fmt: skip
    nodes = [
        node("DequantizeLinear", ["w", "scale", "zero"], ["wide"], axis=0, block_size=16),
        node("MatMul", ["x", "wide"], ["y"]),
    ]
    model = model_of(nodes, [info("x", ["n", 32])], [info("y", ["n", 6])], weights)
    function = sl.compile(model)
    for n in (1, 9):
        check(model, function, rng.standard_normal((n, 32), np.float32))


def test_boxes(rng: np.random.Generator) -> None:
    """Against the definition, box by box."""
    weights = {"most": np.asarray([4]), "share": np.asarray([0.4], np.float32), "least": np.asarray([0.2], np.float32)}
    nodes = [node("NonMaxSuppression", ["boxes", "scores", "most", "share", "least"], ["y"])]
    inputs = [info("boxes", [2, 30, 4]), info("scores", [2, 3, 30])]
    function = sl.compile(model_of(nodes, inputs, [info("y", None, INT64)], weights))
    low = rng.random((2, 30, 2), np.float32) * 4
    boxes = np.concatenate([low, low + rng.random((2, 30, 2), np.float32) * 3 + 0.1], 2)
    scores = rng.random((2, 3, 30), np.float32)
    expected = []
    for b, c in np.ndindex(2, 3):
        kept: list[int] = []
        for i in np.argsort(-scores[b, c], kind="stable"):
            if scores[b, c, i] > 0.2 and len(kept) < 4 and all(_share(boxes[b, i], boxes[b, j]) <= 0.4 for j in kept):
                kept.append(int(i))
        expected += [[b, c, i] for i in kept]
    np.testing.assert_array_equal(function(boxes, scores), expected)


def _share(a: np.ndarray, b: np.ndarray) -> float:
    sides = np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0)
    both = sides.prod()
    return float(both / ((a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - both))


def test_a_program_for_each_kind_of_call(rng: np.random.Generator, tmp_path: Path) -> None:
    model = model_of(
        [node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)],
        [info("x", ["n", 3]), info("axes", [1], TensorProto.INT64)],
        [info("y", None)],
    )
    onnx.save(model, tmp_path / "m.onnx")
    function = sl.compile(tmp_path / "m.onnx", values="calls")
    for rows in (2, 4, 2):
        x = rng.integers(-9, 10, (rows, 3)).astype("float32")  # their sums are exact
        for axis in (0, 1):
            np.testing.assert_array_equal(function(x, axes=np.asarray([axis])), x.sum(axis))
    assert len(function.programs) == 4 and "4 so far" in repr(function)
    relu = sl.compile(model_of([node("Relu", ["x"], ["y"])], [info("x", ["n"])], [info("y", ["n"])]), values="calls")
    for _ in range(3):  # other values, one program
        x = rng.standard_normal(4).astype("float32")
        np.testing.assert_array_equal(relu(x), np.maximum(x, 0))
    assert len(relu.programs) == 1
    x = rng.standard_normal((2, 3)).astype("float32")
    for arguments, named, words in (
        ((x, np.asarray([0]), x), {}, "3 inputs are given but the model has 2"),
        ((x,), {"x": x}, "'x' is given by position and by name"),
        ((x,), {"z": x}, "no input 'z'"),
    ):
        with pytest.raises(sl.UserError, match=words):
            function(*arguments, **named)
    with pytest.raises(sl.UserError, match="values is 'call'"):
        sl.compile(model, values="call")
    with pytest.raises(sl.UserError, match="compiled now"):
        sl.compile(model, (x, np.asarray([0])), values="calls")
    with pytest.raises(sl.UserError, match="No such file"):
        sl.compile(tmp_path / "no.onnx", values="calls")


def test_a_slice_that_needs_a_size(rng: np.random.Generator) -> None:
    """The last 64 of n and those from 100 on: calls with fewer than 100 are refused, in words; bounds of the caller's stay."""
    nodes = [node("Slice", ["x", "back", "end", "axis"], ["l"]), node("Slice", ["x", "from", "end", "axis"], ["t"]),
             node("Concat", ["l", "t"], ["y"], axis=1)]  # fmt: skip
    weights = {"back": np.array([-64]), "from": np.array([100]), "end": np.array([2**63 - 1]), "axis": np.array([1])}
    model = model_of(nodes, [info("x", ["b", "n"])], [info("y", ["b", None])], weights)
    function = sl.compile(model)
    for count in (100, 163):
        check(model, function, rng.standard_normal((2, count)).astype(np.float32))
    with pytest.raises(sl.GuardError, match=r"dim 1 is 99 but this program was compiled for n in \[100,"):
        function(np.zeros((2, 99), np.float32))
    with pytest.raises(sl.UnsupportedError, match="which may be before the beginning of n elements"):
        sl.compile(model, sizes={"n": (10, 1000)})


def test_constants_that_the_reference_cannot_evaluate(rng: np.random.Generator) -> None:
    """The reference's GatherElements fails on rows of more elements than numpy chooses of; torch exports such constants."""
    weights = {"table": rng.standard_normal((1, 512), np.float32), "places": rng.integers(0, 512, (1, 9))}
    nodes = [node("GatherElements", ["table", "places"], ["row"], axis=1), node("Add", ["x", "row"], ["y"])]
    function = sl.compile(model_of(nodes, [info("x", ["n", 9])], [info("y", ["n", 9])], weights))
    x = rng.standard_normal((3, 9), np.float32)
    np.testing.assert_allclose(function(x), x + np.take_along_axis(weights["table"], weights["places"], 1), rtol=1e-6)


@pytest.mark.parametrize("start", [0, 3])
@pytest.mark.parametrize("step", [1, 2])
def test_a_slice_up_to_a_number_takes_what_there_is(rng: np.random.Generator, start: int, step: int) -> None:
    """Of fewer elements it takes all; one that begins at a number needs as many as that."""
    weights = {"from": np.array([start]), "end": np.array([100]), "axis": np.array([1]), "step": np.array([step])}
    nodes = [node("Slice", ["x", "from", "end", "axis", "step"], ["few"]), node("Softmax", ["few"], ["y"])]
    model = model_of(nodes, [info("x", ["b", "n"])], [info("y", [None, None])], weights)
    function = sl.compile(model)
    for count in (start + 1, 5, 99, 100, 101, 300):
        check(model, function, rng.standard_normal((2, count), np.float32))
    with pytest.raises(
        sl.UnsupportedError, match="a slice from 3 on of n elements, where a call decides which is less"
    ):
        sl.compile(model_of([node("Slice", ["x", "three", "end", "axis"], ["y"])], [info("x", ["b", "n"])], [info("y", [None, None])],
                            weights | {"three": np.array([3])}), sizes={"n": (1, 9)})  # fmt: skip


@pytest.mark.parametrize(
    ("given", "wanted"), [("f4", "i4"), ("i4", "f4"), ("f8", "u8"), ("i8", "f8"), ("u4", "f4"), ("i4", "u4")]
)
def test_bits(given: str, wanted: str, rng: np.random.Generator) -> None:
    """All bits are kept, those of NaNs too."""
    x = rng.integers(0, 256, (5, 9, int(given[1])), np.uint8).view(given)[..., 0]
    element = helper.np_dtype_to_tensor_dtype(np.dtype(wanted))
    model = model_of(
        [node("BitCast", ["x"], ["y"], to=element)], [info("x", ["n", 9], helper.np_dtype_to_tensor_dtype(x.dtype))],
        [info("y", ["n", 9], element)], opset=26,
    )  # fmt: skip
    found = sl.compile(model)(x)
    assert found.dtype == np.dtype(wanted)
    np.testing.assert_array_equal(found.view(f"u{wanted[1]}"), x.view(f"u{given[1]}"))


def test_bits_of_another_width_are_refused() -> None:
    to = TensorProto.INT16
    model = model_of(
        [node("BitCast", ["x"], ["y"], to=to)], [info("x", [3], TensorProto.FLOAT16)], [info("y", [3], to)], opset=26
    )
    with pytest.raises(
        sl.UnsupportedError, match="the bits of f16 as i16; nearest supported form: types of 32 or of 64 bits"
    ):
        sl.compile(model)
