# SPDX-License-Identifier: Apache-2.0
"""Loops, scans, sequences, orders and sets over sizes that only a call knows, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import straightline as sl

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
_WEIGHTS = {
    "w": np.linspace(-0.5, 0.5, 9, dtype=np.float32).reshape(3, 3), "half": np.asarray(0.5, np.float32),
    "none": np.zeros(3, np.float32), "yes": np.asarray(True), "axis_one": np.asarray(1), "last": np.asarray(-1),
    "second": np.asarray([1]), "limit": np.asarray(2.0, np.float32), "two": np.asarray([2]), "five": np.asarray([5]),
}  # fmt: skip


def _info(name: str, shape: list[Any] | None, element: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, element, shape)


def _op(kind: str, inputs: str, outputs: str, **how: Any) -> Any:
    names = [name if name != "-" else "" for name in inputs.split()]
    return helper.make_node(kind, names, outputs.split(), name=f"the {kind}" if kind in ("Loop", "Scan") else "", **how)


def _graph(nodes: list[Any], inputs: list[Any], outputs: list[Any]) -> Any:
    return helper.make_graph(nodes, "inner", inputs, outputs)


def _model(nodes: list[Any], inputs: list[Any], outputs: str, elements: int = FLOAT) -> bytes:
    weights = [numpy_helper.from_array(array, name) for name, array in _WEIGHTS.items()]
    results = [_info(name, None, elements if i == 0 else INT64) for i, name in enumerate(outputs.split())]
    graph = helper.make_graph(nodes, "g", inputs, results, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()


def _check(model: bytes, function: Any, *arrays: np.ndarray) -> None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options)
    wanted = session.run(None, {i.name: a for i, a in zip(session.get_inputs(), arrays, strict=True)})
    got = function(*arrays)
    for ours, theirs in zip(got if isinstance(got, tuple) else (got,), wanted, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def _batches(rng: np.random.Generator, sizes: tuple[int, ...] = (1, 2, 5, 13)) -> list[np.ndarray]:
    return [rng.standard_normal((2, n, 3), np.float32) for n in sizes]


# A recurrent step: h = tanh(h @ w + x[:, i]).
_STEP = [
    _op("Gather", "x i", "part", axis=1),
    _op("MatMul", "h w", "moved"),
    _op("Add", "moved part", "sum"),
    _op("Tanh", "sum", "next"),
]
_HEAD = [_info("i", [], INT64), _info("go", [], BOOL)]
_COUNT = [_op("Shape", "x", "shape"), _op("Gather", "shape axis_one", "count"), _op("Expand", "none start", "first")]
_START = [_op("Shape", "x", "two_dims", start=0, end=1), _op("Concat", "two_dims three", "start", axis=0)]
_X = _info("x", [2, "n", 3])
_THREE = helper.make_node("Constant", [], ["three"], value=numpy_helper.from_array(np.asarray([3])))


def _loop(count: str, body: list[Any], condition: str = "go", going: str = "yes") -> list[Any]:
    """A loop of steps from zeros: the last state, and all of them [steps, 2, 3]."""
    end = [_op("Identity", condition, "on")] if condition == "go" else []
    graph = _graph([*body, *end, _op("Identity", "next", "row")], [*_HEAD, _info("h", [2, 3])],
                   [_info("on", [], BOOL), _info("next", [2, 3]), _info("row", [2, 3])])  # fmt: skip
    return [_THREE, *_START, *_COUNT, _op("Loop", f"{count} {going} first", "h_last rows", body=graph)]


@pytest.mark.parametrize("n_inputs", ["size", "size and a condition", "a condition"])
def test_rows_of_a_loop_over_a_named_size(rng: np.random.Generator, n_inputs: str) -> None:
    """The rows of as many rounds as the sequence has elements; with a condition, of as many as it holds."""
    stop = [_op("ReduceMax", "part", "most", keepdims=0), _op("Less", "most limit", "on")]
    body = _STEP if n_inputs == "size" else [*_STEP, *stop]
    model = _model([*_loop("count", body, "go" if n_inputs == "size" else "on")], [_X], "h_last rows")
    # Only the first result is declared as of floats by default.
    proto = onnx.load_from_string(model)
    proto.graph.output[1].type.tensor_type.elem_type = FLOAT
    model = proto.SerializeToString()
    function = sl.compile(model)
    for x in _batches(rng):
        _check(model, function, x)
        x[0, x.shape[1] // 2] = 9
        _check(model, function, x)


def _counted_model() -> bytes:
    graph = _graph([_op("Mul", "h half", "next"), _op("Identity", "go", "on"), _op("Add", "next next", "row")],
                   [*_HEAD, _info("h", [3])], [_info("on", [], BOOL), _info("next", [3]), _info("row", [3])])  # fmt: skip
    nodes = [_op("Loop", "count yes x", "h_last rows", body=graph)]
    model = onnx.load_from_string(_model(nodes, [_info("x", [3]), _info("count", [], INT64)], "h_last rows"))
    model.graph.output[1].type.tensor_type.elem_type = FLOAT
    return model.SerializeToString()


def test_rows_of_a_loop_whose_count_is_an_input(rng: np.random.Generator) -> None:
    """The bound that `sizes` gives the count plans the memory; the call's count decides how many rows there are."""
    model = _counted_model()
    words = r"Loop at 'the Loop': rows of a loop whose trip count 'count' is not known before a call; nearest supported form: sizes=\{'count': \(0, 100\)\}"
    with pytest.raises(sl.UnsupportedError, match=words):
        sl.compile(model)
    function = sl.compile(model, sizes={"count": (0, 20)})
    for count in (0, 1, 7, 20):
        _check(model, function, rng.standard_normal(3, np.float32), np.asarray(count))
    with pytest.raises(sl.StraightlineError, match=r"21.*20|20.*21"):
        function(np.ones(3, np.float32), np.asarray(21))
    _check(model, sl.compile(model, values={"count": np.asarray(4)}), np.ones(3, np.float32), np.asarray(4))
    with pytest.raises(sl.UserError, match="has no size 'counts'"):
        sl.compile(model, sizes={"counts": (0, 20)})


@pytest.mark.parametrize("form", ["appended", "appended, joined", "split"])
def test_sequences_that_a_loop_makes(rng: np.random.Generator, form: str) -> None:
    """What TorchScript writes of a list: elements appended in each round, or taken from a tensor that was split."""
    sequence = helper.make_tensor_sequence_value_info
    body = _STEP if form != "split" else [_op("SequenceAt", "parts i", "part"), *_STEP[1:]]
    graph = _graph(
        [*body, _op("SequenceInsert", "list next", "longer"), _op("Identity", "go", "on")],
        [*_HEAD, _info("h", [2, 3]), sequence("list", FLOAT, None)],
        [_info("on", [], BOOL), _info("next", [2, 3]), sequence("longer", FLOAT, None)],
    )
    ends = {
        "appended": {"new_axis": 1, "axis": 1},
        "appended, joined": {"axis": -1},
        "split": {"axis": 1, "new_axis": 1},
    }
    nodes = [
        _THREE, *_START, *_COUNT, _op("SequenceEmpty", "", "empty"),
        _op("SplitToSequence", "x", "parts", axis=1, keepdims=0),
        _op("Loop", "count yes first empty", "h_last all", body=graph),
        _op("ConcatFromSequence", "all", "y", **ends[form]), _op("SequenceLength", "all", "length"),
        _op("SequenceAt", "all last", "behind"),
    ]  # fmt: skip
    if form != "split":
        nodes = [n for n in nodes if n.op_type != "SplitToSequence"]
    model = onnx.load_from_string(_model(nodes, [_X], "y length behind"))
    model.graph.output[2].type.tensor_type.elem_type = FLOAT
    model = model.SerializeToString()
    function = sl.compile(model)
    for x in _batches(rng):
        _check(model, function, x)


def test_a_loop_that_looks_at_its_sequence_is_refused() -> None:
    sequence = helper.make_tensor_sequence_value_info
    graph = _graph(
        [
            _op("SequenceInsert", "list h", "longer"),
            _op("SequenceAt", "longer last", "next"),
            _op("Identity", "go", "on"),
        ],
        [*_HEAD, _info("h", [2, 3]), sequence("list", FLOAT, None)],
        [_info("on", [], BOOL), _info("next", [2, 3]), sequence("longer", FLOAT, None)],
    )
    nodes = [_THREE, *_START, *_COUNT, _op("SequenceEmpty", "", "empty"),
             _op("Loop", "count yes first empty", "h_last all", body=graph)]  # fmt: skip
    with pytest.raises(sl.UnsupportedError, match="Loop at 'the Loop': .*a sequence that a call makes"):
        sl.compile(_model(nodes, [_X], "h_last"))


@pytest.mark.parametrize("steps", ["n", 700])
@pytest.mark.parametrize("how", [
    {}, {"scan_input_directions": [1, 0]}, {"scan_output_directions": [1, 0]},
    {"scan_output_axes": [1, -1], "scan_input_directions": [0, 1]},
])  # fmt: skip
def test_scans(rng: np.random.Generator, steps: Any, how: dict[str, Any]) -> None:
    """Over a named size, and over more steps than are written out."""
    body = _graph(
        [_op("MatMul", "h w", "moved"), _op("Add", "moved a", "sum"), _op("Tanh", "sum", "next"),
         _op("Mul", "next b", "row"), _op("ReduceSum", "next", "total", keepdims=0)],
        [_info("h", [2, 3]), _info("a", [2, 3]), _info("b", [3])],
        [_info("next", [2, 3]), _info("row", [2, 3]), _info("total", [])],
    )  # fmt: skip
    own = {**how}
    if "scan_output_axes" in own:
        own["scan_output_axes"] = [1, 0]
    nodes = [
        _op("Scan", "start x z", "h_last rows totals", body=body, num_scan_inputs=2, scan_input_axes=[1, 0], **own)
    ]
    inputs = [_info("start", [2, 3]), _info("x", [2, steps, 3]), _info("z", [steps if steps != "n" else "m", 3])]
    model = onnx.load_from_string(_model(nodes, inputs, "h_last rows totals"))
    for output in model.graph.output:
        output.type.tensor_type.elem_type = FLOAT
    model = model.SerializeToString()
    function = sl.compile(model)
    for n in (1, 4, 9) if steps == "n" else (steps,):
        arrays = [rng.standard_normal(shape, np.float32) for shape in ((2, 3), (2, n, 3), (n, 3))]
        _check(model, function, *arrays)


_VECTOR = _info("x", ["n"])
_SETS: dict[str, tuple[list[Any], list[Any], str]] = {
    "Unique": ([_op("Unique", "x", "y places back counts")], [_VECTOR], "y places back counts"),
    "Unique, unsorted": ([_op("Unique", "x", "y places back counts", sorted=0)], [_VECTOR], "y places back counts"),
    "Unique after Compress": (
        [_op("Greater", "x half", "mask"), _op("Compress", "x mask", "some"), _op("Unique", "some", "y places back counts")],
        [_VECTOR], "y places back counts",
    ),
    "Unique rows": ([_op("Unique", "x", "y places back counts", axis=0)], [_info("x", ["n", 2])], "y places back counts"),
    "TopK": ([_op("TopK", "x two", "y places")], [_info("x", [3, "n"])], "y places"),
    "TopK of all": (
        [_op("Shape", "x", "k", start=1, end=2), _op("TopK", "x k", "y places", largest=0)], [_info("x", [3, "n"])], "y places",
    ),
    "TopK of some": (
        [_op("Shape", "x", "size", start=0, end=1), _op("Min", "size five", "k"), _op("TopK", "x k", "y places", axis=0)],
        [_info("x", ["n", 3])], "y places",
    ),
    "TopK after Compress": (
        [_op("Greater", "x half", "mask"), _op("Compress", "x mask", "some"), _op("Shape", "some", "k"), _op("TopK", "some k", "y places")],
        [_VECTOR], "y places",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", _SETS)
def test_orders_and_sets(rng: np.random.Generator, case: str) -> None:
    nodes, inputs, outputs = _SETS[case]
    model = _model(nodes, inputs, outputs)
    function = sl.compile(model)
    shape = [d.dim_param or d.dim_value for d in inputs[0].type.tensor_type.shape.dim]
    for n in (2, 3, 16, 17, 200):
        x = rng.integers(-3, 4, [n if d == "n" else d for d in shape]).astype(np.float32)
        _check(model, function, x)
        _check(model, function, rng.standard_normal(x.shape, np.float32))
    if "Compress" in case:
        _check(model, function, np.zeros(5, np.float32)) if case.startswith("TopK") else None


def test_a_topk_of_more_than_there_are_is_refused() -> None:
    function = sl.compile(_model([_op("TopK", "x five", "y places")], [_info("x", [3, "n"])], "y places"))
    with pytest.raises(sl.GuardError, match=r"dim 1 is 4 but this program was compiled for n in \[5,"):
        function(np.ones((3, 4), np.float32))


@pytest.mark.parametrize(("equation", "shapes"), [
    ("ii->i", [["n", "n"]]), ("ii->i", [["n", "m"]]), ("ii", [["n", "n"]]), ("bii->bi", [[2, "n", "m"]]),
    ("iij->j", [["n", "n", 3]]), ("ij,jk->ik", [[2, "n"], ["m", 3]]), ("...ij,...jk->...ik", [["b", 2, "n"], ["c", "m", 3]]),
])  # fmt: skip
def test_einstein_sums(rng: np.random.Generator, equation: str, shapes: list[list[Any]]) -> None:
    """Diagonals of named sizes; letters whose sizes have two names are one size."""
    inputs = [_info(f"x{i}", shape) for i, shape in enumerate(shapes)]
    model = _model([_op("Einsum", " ".join(i.name for i in inputs), "y", equation=equation)], inputs, "y")
    function = sl.compile(model)
    for n in (1, 2, 7):
        arrays = [rng.standard_normal([s if isinstance(s, int) else n for s in shape], np.float32) for shape in shapes]
        _check(model, function, *arrays)


def test_boxes_of_a_named_number(rng: np.random.Generator) -> None:
    weights = [numpy_helper.from_array(np.asarray(value), name)
               for name, value in (("most", [4]), ("share", np.float32([0.4])), ("least", np.float32([0.2])))]  # fmt: skip
    node = helper.make_node("NonMaxSuppression", ["boxes", "scores", "most", "share", "least"], ["y"])
    inputs = [_info("boxes", [2, "n", 4]), _info("scores", [2, 3, "m"])]
    graph = helper.make_graph([node], "g", inputs, [_info("y", None, INT64)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()
    function = sl.compile(model)
    for n in (1, 5, 30):
        low = rng.random((2, n, 2), np.float32) * 4
        boxes = np.concatenate([low, low + rng.random((2, n, 2), np.float32) * 3 + 0.1], 2)
        _check(model, function, boxes, rng.random((2, 3, n), np.float32))
