# SPDX-License-Identifier: Apache-2.0
"""The graph builder and its extents, which know no framework; a front end of the tests' own over them, compiled and run."""

from __future__ import annotations

import ast
import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import straightline as sl
from straightline.capture import graph_builder
from straightline.capture.builder import Extent, TensorType
from straightline.capture.extents import bounds, broadcast, canonical, value_of
from straightline.capture.graph_builder import GraphBuilder, Reject, slice_bounds
from straightline.capture.text_builder import TextBuilder

sys.path.insert(0, str(Path(__file__).parent))
import json_front_end  # noqa: E402

_FRAMEWORKS = {"torch", "sympy", "jax", "onnx", "paddle", "tensorflow"}
_NEUTRAL = (
    "builder", "einsum", "elementary", "extents", "graph_builder", "linalg", "patches", "patterns", "pruning", "text_builder",
    "volumes",
)  # fmt: skip


# Layers ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", _NEUTRAL)
def test_neutral_files_import_no_framework(name: str) -> None:
    file = Path(graph_builder.__file__).parent / f"{name}.py"
    imported: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")
    assert not {name.partition(".")[0] for name in imported} & _FRAMEWORKS
    assert not [name for name in imported if name.startswith("straightline.capture.torch")]


def test_neutral_files_load_where_there_is_no_framework() -> None:
    program = (
        f"import sys\nfor name in {sorted(_FRAMEWORKS)}: sys.modules[name] = None\n"
        f"import importlib\nfor name in {_NEUTRAL}: importlib.import_module('straightline.capture.' + name)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


# Extents --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("b", "b"), ("b * 1", "b"), ("64 * b", "b * 64"), ("1 + b + 2", "b + 3"), ("c + b", "b + c"), ("b + b", "b * 2"),
        ("c * b", "b * c"), ("(b + 1) * c", "b * c + c"), ("(b + 1) * 2", "b * 2 + 2"), ("b * 4 floordiv 2", "b * 2"),
        ("(b + 1) floordiv 2", "(b + 1) floordiv 2"), ("(b floordiv 2) * 3 + 1", "(b floordiv 2) * 3 + 1"),
        ("b + -1", "b + -1"), ("b mod 8 + b", "b + b mod 8"), ("(b * 2) mod 2 + 5", "5"), ("b + -1 * b", "0"),
        ("-7 floordiv 2", "-4"), ("-7 mod 2", "1"), ("b * b", "b * b"),
    ],
)  # fmt: skip
def test_canonical_text(text: str, want: str) -> None:
    assert str(canonical(text)) == want
    assert canonical(want) == canonical(text)


def test_arithmetic() -> None:
    b, c = Extent("b"), Extent("c")
    assert b + 1 == Extent("b + 1") and 1 + b == b + 1
    assert b - b == 0 and 2 - b == Extent("b * -1 + 2") and -b == Extent("b * -1")
    assert (b + c) * 2 - c * 2 == b * 2
    assert b * 6 // 3 == b * 2 and b // 2 == Extent("b floordiv 2") and (b * 4) % 4 == 0
    assert 7 // b == Extent("7 floordiv b") and 7 % b == Extent("7 mod b")
    assert (b * c + 1).symbols == {"b", "c"}
    assert broadcast((b, 1), (3,)) == (b, 3) and broadcast((4,), (b, 1)) == (b, 4)
    with pytest.raises(ValueError, match="no expression"):
        canonical("b ^ 2")


def test_random_expressions_keep_their_values() -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    number = random.Random(seed)

    def drawn(depth: int) -> str:
        if depth == 0:
            return number.choice(("a", "b", "c", str(number.randrange(-4, 9))))
        operator = number.choice(("+", "*", "floordiv", "mod"))
        right = str(number.randrange(1, 6)) if operator in ("floordiv", "mod") else f"({drawn(depth - 1)})"
        return f"({drawn(depth - 1)}) {operator} {right}"

    for _ in range(300):
        text, symbols = drawn(number.randrange(4)), {name: number.randrange(1, 9) for name in "abc"}
        want = value_of(Extent(text), symbols)
        assert value_of(canonical(text), symbols) == want, (seed, text, str(canonical(text)), symbols)
        low, high = bounds(canonical(text), {name: (1, 8) for name in "abc"})
        assert low <= want <= high, (seed, text, symbols)


def test_bounds() -> None:
    symbols = {"b": (1, 64), "c": (0, 7)}
    assert bounds(5, symbols) == (5, 5)
    assert bounds(canonical("b * 2 + c"), symbols) == (2, 135)
    assert bounds(canonical("b floordiv 8"), symbols) == (0, 8)
    assert bounds(canonical("c mod 8"), symbols) == (0, 7) and bounds(canonical("b mod 8"), symbols) == (0, 7)
    with pytest.raises(ValueError, match="divisor"):
        bounds(canonical("b floordiv c"), symbols)


# The builder ----------------------------------------------------------------------------------------------------------


def test_what_changes_nothing_is_left_out() -> None:
    g = GraphBuilder(TextBuilder())
    (x,) = g.begin("forward", [("x", TensorType("f32", (2, 3)))])
    assert g.cast(x, "f32") is x and g.expand(x, (2, 3)) is x and g.reshape(x, (2, 3)) is x
    assert g.slice(x, 1, 0, 3, 3) is x
    assert g.operand(x, x.type) is x


def test_slices_within_a_dimension() -> None:
    assert slice_bounds(5, -2, None) == (3, 5) and slice_bounds(5, 4, 2) == (4, 4) and slice_bounds(5, 0, 99) == (0, 5)
    assert slice_bounds(Extent("b"), 1, Extent("b")) == (1, graph_builder.SLICE_END)
    assert slice_bounds(5, 1, Extent("b")) == (1, graph_builder.SLICE_END_BY_TYPE)
    for start, end in ((Extent("b"), None), (-1, Extent("b"))):
        with pytest.raises(Reject, match="slice with the dynamic"):
            slice_bounds(5, start, end)


def test_a_graph_of_json_compiles_and_runs() -> None:
    graph = {
        "sizes": {"b": [1, 64]}, "inputs": {"x": ["f32", "b", 3]}, "parameters": {"w": ["f32", 4, 3], "c": ["f32", 1]},
        "ops": [
            ["y", "linear", "x", "w"], ["z", "relu", "y"], ["shifted", "add", "z", "c"], ["twice", "mul", "shifted", 2],
            ["m", "mean", "twice", -1], ["flat", "flatten", "twice"], ["whole", "cast", "flat", "i32"],
            ["t", "turned", "z"], ["h", "head", "z", 2], ["n", "size", "x", 0],
        ],
        "results": ["m", "whole", "t", "h", "n"],
    }  # fmt: skip
    builder = TextBuilder()
    json_front_end.build(json.dumps(graph), builder)
    text = builder.text()
    assert "tensor<?xf32, #op.dims<[b]>>" in text and "#op.dims<[b * 4]>" in text
    assert 'loc("twice"("graph.json":4:0))' in text
    w, c = np.random.randn(4, 3).astype("f"), np.array([0.5], "f")
    fn = sl.compile_mlir(text, {"w": w, "c": c}, threads=1)
    for rows in (1, 5):
        x = np.random.randn(rows, 3).astype("f")
        z = np.maximum(x @ w.T, 0)
        twice = (z + c) * 2
        m, whole, t, h, n = fn(x)
        np.testing.assert_allclose(m, twice.mean(-1), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_less(np.abs(whole - twice.reshape(-1)), 1.001)
        np.testing.assert_allclose(t, z.T, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(h, z[:, :2], rtol=1e-5, atol=1e-6)
        assert n == rows
