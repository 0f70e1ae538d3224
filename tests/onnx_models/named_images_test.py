# SPDX-License-Identifier: Apache-2.0
"""Convolutions, pools and what surrounds them over named sizes, against ONNX Runtime at sizes that nothing was compiled for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import straightline as sl

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

_SIZES = (1, 2, 3, 7, 16, 31, 53)


def _model(
    nodes: Sequence[Any], x: Sequence[int | str], weights: dict[str, np.ndarray], more: Sequence[Any] = ()
) -> bytes:
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x), *more]
    graph = helper.make_graph(
        list(nodes), "g", given, [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()


def _array(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def _compare(model: bytes, inputs: Sequence[dict[str, np.ndarray]], threads: int = 1) -> None:
    compiled = sl.compile(model, threads=threads)
    session = onnxruntime.InferenceSession(model)
    for given in inputs:
        wanted = session.run(None, given)[0]
        got = np.asarray(compiled(**given))
        assert got.shape == wanted.shape, {n: a.shape for n, a in given.items()}
        np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-4 * max(np.abs(wanted).max(initial=0), 1e-3))


@pytest.mark.parametrize(
    ("channels", "outputs", "kernel", "how"),
    [
        (3, 8, 3, {"pads": [1, 1, 1, 1]}),
        (16, 32, 3, {"pads": [1, 1, 1, 1]}),
        (8, 8, 3, {"pads": [1, 1, 1, 1], "group": 8}),
        (8, 16, 5, {"pads": [2, 2, 2, 2], "group": 8, "strides": [2, 1]}),
        (6, 9, 3, {"pads": [1, 1, 1, 1], "group": 3, "strides": [2, 2]}),
        (5, 7, 3, {"pads": [2, 2, 2, 2], "dilations": [2, 2]}),
        (4, 6, 2, {"pads": [0, 1, 1, 0]}),
        (4, 6, 1, {}),
        (3, 8, 2, {"auto_pad": "SAME_UPPER"}),
    ],
)
def test_images(rng: np.random.Generator, channels: int, outputs: int, kernel: int, how: dict[str, Any]) -> None:
    """Winograd, the product of patches and the direct form, with a bias, an activation and a residual behind them."""
    weights = {
        "w": _array(rng, outputs, channels // how.get("group", 1), kernel, kernel), "b": _array(rng, outputs),
        "v": _array(rng, outputs, outputs, 1, 1),
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], **how),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Conv", ["r", "v"], ["d"]),
        helper.make_node("Add", ["d", "r"], ["y"]),
    ]
    model = _model(nodes, ["n", channels, "h", "w"], weights)
    sizes = [(h, w) for h in _SIZES for w in rng.choice(_SIZES, 2)]
    _compare(model, [{"x": _array(rng, int(rng.integers(1, 3)), channels, int(h), int(w))} for h, w in sizes])


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("group", [1, 8])
def test_signals(rng: np.random.Generator, group: int, threads: int) -> None:
    """A signal longer than a strip of the depthwise kernel, and a few elements; pads of one side alone."""
    weights = {"w": _array(rng, 8, 8 // group, 3), "b": _array(rng, 8)}
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["y"], pads=[2, 0], dilations=[1], group=group)]
    model = _model(nodes, ["n", 8, "t"], weights)
    _compare(model, [{"x": _array(rng, 2, 8, t)} for t in (1, 2, 3, 127, 1021, 5003, 20011)], threads)


@pytest.mark.parametrize(
    ("kernel", "how"),
    [
        (2, {"strides": [2, 2]}),
        (3, {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
        (4, {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
        (3, {"strides": [1, 2], "pads": [0, 1, 1, 0]}),
        (3, {"strides": [2, 2], "dilations": [2, 2]}),
        (3, {"strides": [2, 2], "group": 2}),
    ],
)
def test_transposed(rng: np.random.Generator, kernel: int, how: dict[str, Any]) -> None:
    """By phases, and by the direct form where there are groups or a dilation."""
    weights = {"w": _array(rng, 4, 6 // how.get("group", 1), kernel, kernel), "b": _array(rng, 6)}
    nodes = [helper.make_node("ConvTranspose", ["x", "w", "b"], ["c"], **how), helper.make_node("Relu", ["c"], ["y"])]
    model = _model(nodes, ["n", 4, "h", "w"], weights)
    _compare(model, [{"x": _array(rng, 1, 4, h, w)} for h, w in ((1, 2), (2, 1), (3, 7), (13, 17))])


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(
    "how",
    [
        {"kernel_shape": [2, 2], "pads": [0, 0, 1, 1]},
        {"kernel_shape": [3, 3], "pads": [2, 0, 1, 2], "strides": [2, 2]},
        {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1},
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1},
    ],
)
def test_pools(rng: np.random.Generator, op: str, how: dict[str, Any]) -> None:
    nodes = [helper.make_node(op, ["x"], ["y"], **how)]
    model = _model(nodes, ["n", 3, "h", "w"], {})
    _compare(model, [{"x": _array(rng, 2, 3, h, w)} for h, w in ((3, 4), (4, 3), (5, 7), (12, 12), (29, 31))])


def test_too_small(rng: np.random.Generator) -> None:
    """Sizes for which a result would have no elements end a call, with words."""
    model = _model([helper.make_node("Conv", ["x", "w"], ["y"])], ["n", 2, "t"], {"w": _array(rng, 3, 2, 5)})
    compiled = sl.compile(model)
    assert compiled(_array(rng, 1, 2, 5)).shape == (1, 3, 1)
    with pytest.raises(sl.GuardError, match="4"):
        compiled(_array(rng, 1, 2, 4))
    bounded = sl.compile(model, sizes={"t": (1, 64)})
    assert bounded(_array(rng, 1, 2, 9)).shape == (1, 3, 5)
    with pytest.raises(sl.GuardError, match="3"):
        bounded(_array(rng, 1, 2, 3))


@pytest.mark.parametrize("op", ["Add", "Concat"])
def test_sizes_that_may_be_equal(rng: np.random.Generator, op: str) -> None:
    """An image made half as large and twice as large again fits itself where a call's size is even."""
    weights = {"w": _array(rng, 3, 3, 2), "v": _array(rng, 3, 3, 2)}
    how = {"axis": 1} if op == "Concat" else {}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["half"], strides=[2]),
        helper.make_node("ConvTranspose", ["half", "v"], ["again"], strides=[2]),
        helper.make_node(op, ["x", "again"], ["y"], name="both", **how),
    ]
    model = _model(nodes, ["n", 3, "t"], weights)
    _compare(model, [{"x": _array(rng, 2, 3, t)} for t in (2, 6, 34)])
    with pytest.raises(sl.StraightlineError, match=r"both: the sizes .* differ \(t = 7\)"):
        sl.compile(model)(_array(rng, 2, 3, 7))


def test_a_shape_that_may_fit(rng: np.random.Generator) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], strides=[2]),
        helper.make_node("Reshape", ["c", "shape"], ["y"], name="rows"),
    ]
    weights = {"w": _array(rng, 4, 2, 3), "shape": np.array([0, 4, 3], np.int64)}
    model = _model(nodes, ["n", 2, "t"], weights)
    _compare(model, [{"x": _array(rng, n, 2, t)} for n, t in ((1, 7), (3, 8))])
    with pytest.raises(sl.StraightlineError, match="rows: the sizes"):
        sl.compile(model)(_array(rng, 1, 2, 9))


def _branch(name: str, nodes: Sequence[Any]) -> Any:
    return helper.make_graph(list(nodes), name, [], [helper.make_empty_tensor_value_info(name)])


def _squeezing(rng: np.random.Generator) -> bytes:
    """Signals whose last dim is left out where it has one element, as exporters write `squeeze(-1)`, then a product."""
    weights = {
        "w": _array(rng, 4, 2, 4), "last": np.array([2], np.int64), "one": np.array(1, np.int64), "m": _array(rng, 4, 5),
    }  # fmt: skip
    then = _branch("squeezed", [helper.make_node("Squeeze", ["c", "last"], ["squeezed"])])
    other = _branch("same", [helper.make_node("Identity", ["c"], ["same"])])
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], strides=[4]),
        helper.make_node("Shape", ["c"], ["s"]),
        helper.make_node("Gather", ["s", "last"], ["size"]),
        helper.make_node("Equal", ["size", "one"], ["is_one"]),
        helper.make_node("If", ["is_one"], ["z"], name="choice", then_branch=then, else_branch=other),
        helper.make_node("MatMul", ["z", "m"], ["y"]),
    ]
    return _model(nodes, ["n", 2, "t"], weights)


def test_branches_of_sizes(rng: np.random.Generator) -> None:
    model = _squeezing(rng)
    _compare(model, [{"x": _array(rng, n, 2, t)} for n, t in ((1, 4), (3, 7))])
    with pytest.raises(sl.StraightlineError, match="choice .*takes its else branch, which the program is not made for"):
        sl.compile(model)(_array(rng, 1, 2, 8))


def test_a_branch_that_sizes_rule_out(rng: np.random.Generator) -> None:
    """The branch that a number takes: one of them cannot be run for the sizes of an example."""
    flag = helper.make_tensor_value_info("rate", TensorProto.INT64, [])
    then = _branch("a", [helper.make_node("Add", ["x", "m"], ["a"])])
    other = _branch("b", [helper.make_node("Add", ["x", "k"], ["b"])])
    nodes = [
        helper.make_node("Equal", ["rate", "fast"], ["is_fast"]),
        helper.make_node("If", ["is_fast"], ["y"], name="choice", then_branch=then, else_branch=other),
    ]
    weights = {"m": _array(rng, 4), "k": _array(rng, 6), "fast": np.array(16, np.int64)}
    model = _model(nodes, ["n", "t"], weights, [flag])
    for size, right, wrong in ((4, 16, 8), (6, 8, 16)):
        x = _array(rng, 2, size)
        compiled = sl.compile(model, (x, np.array(right)))
        wanted = onnxruntime.InferenceSession(model).run(None, {"x": x, "rate": np.array(right)})[0]
        np.testing.assert_allclose(compiled(x, np.array(right)), wanted, rtol=1e-5, atol=1e-5)
        with pytest.raises(sl.StraightlineError, match="which the program is not made for"):
            compiled(x, np.array(wrong))


@pytest.mark.parametrize("columns", ["m", 1])
def test_products_of_named_length(rng: np.random.Generator, columns: str | int) -> None:
    """Sums of a named number of terms: more than a block of them, none of them whole blocks."""
    more = [helper.make_tensor_value_info("v", TensorProto.FLOAT, ["b", "k", columns])]
    model = _model([helper.make_node("MatMul", ["x", "v"], ["y"])], ["b", "r", "k"], {}, more)
    sizes = [(1, 1, 1, 1), (2, 3, 5, 7), (1, 130, 511, 33), (3, 2, 2053, 70), (1, 97, 4099, 64)]
    inputs = [
        {"x": _array(rng, b, r, k), "v": _array(rng, b, k, columns if isinstance(columns, int) else m)}
        for b, r, k, m in sizes
    ]
    _compare(model, inputs)


@pytest.mark.parametrize("sign", ["?", "-1", "*"])
def test_signs_for_any_size_are_no_names(rng: np.random.Generator, sign: str) -> None:
    """Exporters of Paddle write "?" for height and width, which differ."""
    model = _model([helper.make_node("Relu", ["x"], ["y"])], [sign, 3, sign, sign], {})
    _compare(model, [{"x": _array(rng, n, 3, h, w)} for n, h, w in ((1, 48, 192), (2, 5, 4))])
    bounded = sl.compile(model, sizes={"x_2": (4, 64), "x_3": 192})
    assert bounded(_array(rng, 1, 3, 48, 192)).shape == (1, 3, 48, 192)
    with pytest.raises(sl.GuardError, match="192"):
        bounded(_array(rng, 1, 3, 48, 191))


_RESIZED = [
    ({"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"}, (2.0, 1.0)),
    ({"mode": "linear", "coordinate_transformation_mode": "align_corners"}, (1.5, 2.0)),
    ({"mode": "cubic", "exclude_outside": 1}, (1.0, 0.75)),
    ({"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, (1.5, 2.0)),
    ({"mode": "nearest", "nearest_mode": "ceil"}, (2.0, 3.0)),
]


def _reference(model: bytes, **given: np.ndarray) -> np.ndarray:
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(onnx.load_from_string(model)).run(None, given)[0]


@pytest.mark.parametrize(("how", "scales"), _RESIZED)
def test_images_resized_by_scales(rng: np.random.Generator, how: dict[str, Any], scales: tuple[float, float]) -> None:
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], **how)
    model = _model([node], ["n", 2, "h", "w"], {"s": np.asarray((1, 1, *scales), np.float32)})
    compiled = sl.compile(model, threads=1)
    for h, w in ((4, 6), (2, 10), (7, 4)):
        x = _array(rng, 2, 2, h, w)
        np.testing.assert_allclose(np.asarray(compiled(x)), _reference(model, x=x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_an_image_resized_to_the_size_of_another(rng: np.random.Generator, mode: str) -> None:
    how = {"mode": mode, "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    nodes = [
        helper.make_node("Shape", ["z"], ["sizes"]),
        helper.make_node("Resize", ["x", "", "", "sizes"], ["r"], **how),
        helper.make_node("Add", ["r", "z"], ["y"]),
    ]
    other = helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n", 2, "k", "l"])
    model = _model(nodes, ["n", 2, "h", "w"], {}, [other])
    compiled = sl.compile(model, threads=1)
    for (h, w), (k, m) in (((3, 5), (7, 5)), ((8, 2), (4, 9))):
        x, z = _array(rng, 1, 2, h, w), _array(rng, 1, 2, k, m)
        got = np.asarray(compiled(x=x, z=z))
        np.testing.assert_allclose(got, _reference(model, x=x, z=z), rtol=1e-4, atol=1e-5)


def test_a_scale_that_no_fraction_is(rng: np.random.Generator) -> None:
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode="linear")
    model = _model([node], ["n", 2, "h", 4], {"s": np.asarray((1, 1, 1.2345678, 1), np.float32)})
    with pytest.raises(sl.UnsupportedError, match="a named size resized by 1.23456"):
        sl.compile(model)
