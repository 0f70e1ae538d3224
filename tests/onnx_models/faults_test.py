# SPDX-License-Identifier: Apache-2.0
"""Models with one fault each: refused by an error of ours that is not internal, within a second, or right."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnx
import pytest
import straightline as sl
import straightline.onnx_model
from onnx.reference import ReferenceEvaluator

from tests.onnx_models import faults

#: Models that are imported and verified, and those that are compiled and called as well.
_IMPORTED, _CALLED = 100, 3


class _ImportedError(Exception):
    """A model came as far as its module."""


def test_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    compiled_module, called = straightline.onnx_model.compiled_module, 0

    def some(*args: Any) -> Any:
        nonlocal called
        called += 1
        if called > _CALLED:
            raise _ImportedError
        return compiled_module(*args)

    monkeypatch.setattr(straightline.onnx_model, "compiled_module", some)
    kinds = set()
    for model in faults.models(_IMPORTED, seed):
        kind, words = faults.checked(model)
        if _ImportedError.__name__ not in words:
            kinds.add(kind)
            assert kind in faults.FINE, f"{kind}: {model}: {words}"
    assert "refused" in kinds


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (faults.Model("MatMul", [np.ones((2, 3), "f4"), np.ones((4, 5), "f4")], frozenset({1})), r"'faulty'.*\[2, 3\] and \[4, 5\]"),
        (faults.Model("Gemm", [np.ones((2, 3), "f4"), np.ones((4, 5), "f4")]), r"'faulty'.*\[2, 3\] and \[4, 5\]"),
        (faults.Model("Gemm", [np.ones((2, 3, 1), "f4"), np.ones((4, 5), "f4")]), r"'faulty'.*\[2, 3, 1\] and \[4, 5\]"),
        (faults.Model("Conv", [np.ones((1, 2, 3), "f4"), np.ones((4, 2, 5), "f4")]), r"'faulty'.*\[-1\]"),
        (faults.Model("Conv", [np.ones((1, 2, 9), "f4"), np.ones((4, 2, 5), "f4"), np.ones(3, "f4")]), r"'faulty'.*\[3\].*\[4\]"),
        (faults.Model("InstanceNormalization", [np.ones((1, 2, 9), "f4"), np.ones(2, "f4"), np.ones(1, "f4")]), r"'faulty'.*\[1\].*\[2\]"),
        (faults.Model("Pad", [np.ones((1, 2), "f4"), np.asarray([0, 0, 1, 1]), np.ones(2, "f4")], frozenset({1})), r"'faulty'.*\[2\]"),
        (faults.Model("Pad", [np.ones((2, 3), "f4"), np.asarray([-3, 1, 1, 0])], frozenset({1})), r"'faulty'.*-3 and 1 for a dim of 2"),
        (faults.Model("Expand", [np.ones((1, 2), "f4"), np.asarray([-3, 2])], frozenset({1})), r"'faulty'.*-3"),
        (faults.Model("Tile", [None, np.asarray([2, 1])], frozenset({1})), "faulty"),
        (faults.Model("DepthToSpace", [np.ones((1, 9, 2, 3), "f4")], attributes={"blocksize": 2}), "faulty"),
        (faults.Model("ReverseSequence", [np.ones((4, 3), "f4"), np.asarray([1, 2])], attributes={"time_axis": 0, "batch_axis": 1}), "faulty"),
        (faults.Model("LRN", [np.ones((1, 4, 5, 5), "f4")], attributes={"size": 1.5}), r"'faulty'.*size=1.5 is FLOAT where INT"),
        (faults.Model("LayerNormalization", [np.ones((2, 3, 1), "f4"), np.ones(4, "f4")]), r"'faulty'.*\[4\] for \[1\]"),
        (faults.Model("LayerNormalization", [np.ones((2, 3, 4), "f4"), np.ones((1, 2, 3, 4), "f4")]), r"'faulty'.*\[1, 2, 3, 4\] for \[2, 3, 4\]"),
        (faults.Model("GridSample", [np.ones((1, 2, 0, 4), "f4"), np.ones((1, 3, 3, 2), "f4")]), r"'faulty'.*\[1, 2, 0, 4\]"),
        (faults.Model("ReverseSequence", [np.ones((4, 3), "f4"), np.asarray([1, -1, 4])], frozenset({1}), {"batch_axis": 1, "time_axis": 0}), r"'faulty'.*length of -1"),
        (faults.Model("LpPool", [np.ones((1, 3, 6), "?")], attributes={"kernel_shape": [2]}), "'faulty'.*floats"),
        (faults.Model("Conv", [np.ones((1, 4, 9), "f4"), np.ones((4, 4, 0), "f4")], frozenset({1})), r"'faulty'.*\[0\]"),
        (faults.Model("Col2Im", [np.ones((1, 4, 4), "f4"), np.asarray([4, 4]), np.asarray([2, 2])], frozenset({1, 2}), {"strides": [0, 0]}), "faulty"),
    ],
    ids=lambda x: x.op if isinstance(x, faults.Model) else "",
)  # fmt: skip
def test_words(model: faults.Model, words: str) -> None:
    with pytest.raises((sl.UserError, sl.UnsupportedError), match=words):
        sl.compile(model.proto().SerializeToString(), threads=1)


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng().random(shape, np.float32)


@pytest.mark.parametrize(
    "model",
    [
        *(faults.Model("LRN", [_random(2, 40, 3, 2)], attributes={"size": size}) for size in (8, 33, 90, 2**40)),
        *(
            faults.Model(
                "LayerNormalization", [_random(2, 3, 4), _random(*scale), _random(*bias)], attributes={"axis": axis}
            )
            for scale, bias, axis in [
                ((4,), (1, 4), -1),
                ((3, 4), (2, 1, 1), -1),
                ((1, 3, 4), (4,), 1),
                ((3, 1), (1,), -1),
            ]
        ),
        faults.Model(
            "ReverseSequence", [_random(4, 3), np.asarray([1, 0, 4])], attributes={"batch_axis": 1, "time_axis": 0}
        ),
        faults.Model("HardSigmoid", [_random(3)], attributes={"alpha": 0.25}),
    ],
    ids=str,
)
def test_legal_ones(model: faults.Model) -> None:
    """As onnx's reference."""
    kind, words = faults.checked(model)
    assert kind == "right", words


@pytest.mark.parametrize("length", [-1, 5])
def test_a_length_of_a_call_that_no_sequence_has(length: int) -> None:
    lengths = np.asarray([1, length, 4])
    model = faults.Model("ReverseSequence", [_random(4, 3), lengths], attributes={"batch_axis": 1, "time_axis": 0})
    kind, words = faults.checked(model)
    assert kind == "refused", words
    assert "out of range [0, 4)" in words


@pytest.mark.parametrize("size", [[5, 0], [0, 3], [0, 0]], ids=str)
@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("group", [1, 4])
def test_images_without_elements_between_pads(op: str, size: list[int], group: int) -> None:
    """A result is the bias alone (tests/passes/verify_planned_level.mlir: the border has memory where the image has none)."""
    weight, bias = np.ones((4, 4 // group, 3, 3), "f4"), _random(4)
    how = {"pads": [2, 2, 2, 2]} if op == "Conv" else {"strides": [2, 2], "output_padding": [1, 1]}
    inputs: list[Any] = [np.ones((1, 4, *size), "f4"), weight, bias]
    model = faults.Model(op, inputs, frozenset({1, 2}), {**how, "group": group})
    compiled = sl.compile(model.proto().SerializeToString(), threads=1)
    result = compiled(**model.feeds)
    np.testing.assert_array_equal(result, np.broadcast_to(bias[None, :, None, None], result.shape))


def _named(model: faults.Model, names: dict[str, list[str]]) -> bytes:
    """The model with names for the dims of its inputs, and results of any shape."""
    proto = model.proto()
    for value in proto.graph.input:
        for dim, name in zip(value.type.tensor_type.shape.dim, names.get(value.name, [])):
            dim.dim_param = name
    return proto.SerializeToString()


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (faults.Model("GridSample", [_random(2, 3, 4, 5), _random(2, 6, 2, 2)]), {"x0": ["images"], "x1": ["grids"]}),
        (faults.Model("LayerNormalization", [_random(3, 4), _random(3, 4)], attributes={"axis": 0}), {"x0": ["rows"], "x1": ["scales"]}),
        (faults.Model("BatchNormalization", [_random(2, 3, 4), *(_random(3) for _ in range(4))]), {"x0": ["n", "c"], "x1": ["weights"], "x4": ["vars"]}),
        (faults.Model("ReverseSequence", [_random(4, 3), np.asarray([1, 0, 4])], attributes={"batch_axis": 1, "time_axis": 0}), {"x0": ["t", "n"], "x1": ["lengths"]}),
        (faults.Model("ReverseSequence", [_random(4, 3), np.asarray([1, 0, 4])], attributes={"batch_axis": 1, "time_axis": 0}), {"x1": ["lengths"]}),
    ],
    ids=lambda x: x.op if isinstance(x, faults.Model) else "-".join(x),
)  # fmt: skip
def test_sizes_of_two_names_that_an_op_needs_to_be_equal(model: faults.Model, names: dict[str, list[str]]) -> None:
    """One size, which calls are held to."""
    compiled = sl.compile(_named(model, names), threads=1)
    (wanted,) = ReferenceEvaluator(model.proto()).run(None, model.feeds)
    np.testing.assert_allclose(compiled(**model.feeds), wanted, 1e-5, 1e-6)
    short = {name: array[:-1] if name == list(names)[-1] else array for name, array in model.feeds.items()}
    with pytest.raises(sl.StraightlineError, match="differ|but|must"):
        compiled(**short)


@pytest.mark.parametrize("stride", [1, 3])
def test_pools_of_powers_of_named_sizes(stride: int) -> None:
    """The counts of windows have one text, whichever way they are computed."""
    model = faults.Model(
        "LpPool", [_random(1, 3, 32, 17)], attributes={"kernel_shape": [5, 5], "strides": [stride, stride]}
    )
    compiled = sl.compile(_named(model, {"x0": ["n", "c", "h"]}), threads=1)
    for x in (model.inputs[0], _random(2, 3, 33, 17), _random(1, 1, 5, 17)):
        (wanted,) = ReferenceEvaluator(model.proto()).run(None, {"x0": x})
        np.testing.assert_allclose(compiled(x), wanted, 1e-4, 1e-5)


def test_a_result_of_as_many_tensors_as_a_named_size() -> None:
    model = faults.Model("SplitToSequence", [_random(3, 6)], attributes={"axis": 1, "keepdims": 0})
    proto = onnx.load_model_from_string(_named(model, {"x0": ["n", "m"]}))
    proto.graph.output[0].CopyFrom(onnx.helper.make_tensor_sequence_value_info("y0", onnx.TensorProto.FLOAT, None))
    with pytest.raises(sl.UnsupportedError, match="a result at 'y0': a sequence"):
        sl.compile(proto.SerializeToString(), threads=1)
