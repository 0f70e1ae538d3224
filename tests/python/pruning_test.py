# SPDX-License-Identifier: Apache-2.0
"""What `Pruning` leaves out, and what `Recognizer` makes of ops that were taken apart."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from straightline.capture.builder import Result, TensorType
from straightline.capture.extents import Extent
from straightline.capture.graph_builder import Tensor
from straightline.capture.patterns import Recognizer
from straightline.capture.pruning import Pruning
from straightline.capture.text_builder import TextBuilder

ROWS = TensorType("f32", (Extent("b"), 8))


def _text(build: Callable[[Recognizer, Tensor], list[Tensor]], type: TensorType = ROWS) -> str:
    """The module that a function of one argument becomes."""
    text = TextBuilder()
    g = Recognizer(Pruning(text))
    g.builder.symbol("b", 1, 64)
    (x,) = g.begin("forward", [("x", type)])
    g.builder.end_function([Result(t.value, f"r{i}") for i, t in enumerate(build(g, x))])
    return text.text() if callable(getattr(text, "text", None)) else str(text)


def _op(g: Recognizer, name: str, *operands: Tensor) -> Tensor:
    return g.emit_one(name, operands, operands[0].type)


def _row(g: Recognizer, name: str, x: Tensor) -> Tensor:
    """A reduction of the last dim, repeated along it."""
    kept = (*x.extents[:-1], 1)
    return g.expand(g.reshape(g.reduce(name, x, [x.rank - 1], False), kept), x.extents)


def _number(g: Recognizer, value: float, like: Tensor) -> Tensor:
    return g.full(value, like.dtype, like.extents)


def test_ops_that_nothing_reads_are_left_out() -> None:
    def build(g: Recognizer, x: Tensor) -> list[Tensor]:
        _op(g, "exp", _op(g, "neg", x))
        flag = g.emit_one("full", [], TensorType("i1", ()), {"value": 1})
        g.emit("check", [flag], [], {"message": "kept"})
        with g.region() as (_, yields):
            _op(g, "tan", x)
            yields.append(_op(g, "sin", x))
        with g.region() as (_, yields):
            yields.append(x)
        (chosen,) = g.emit("if", [flag], [x.type], regions=2)
        return [chosen]

    text = _text(build)
    assert "op.exp" not in text and "op.neg" not in text and "op.tan" not in text
    assert all(text.count(f"op.{name}") == 1 for name in ("check", "sin")) and text.count('"op.if"') == 1


def _softmax(g: Recognizer, x: Tensor) -> list[Tensor]:
    e = _op(g, "exp", _op(g, "sub", x, _row(g, "amax", x)))
    return [_op(g, "div", e, _row(g, "sum", e))]


def _log_softmax(g: Recognizer, x: Tensor) -> list[Tensor]:
    shifted = _op(g, "sub", x, _row(g, "amax", x))
    row = g.reshape(g.reduce("sum", _op(g, "exp", shifted), [1], False), (x.extents[0], 1))
    return [_op(g, "sub", shifted, g.expand(_op(g, "log", row), x.extents))]


def _mean(g: Recognizer, x: Tensor, count: float = 8.0) -> Tensor:
    row = g.reshape(g.reduce("sum", x, [1], False), (x.extents[0], 1))
    return _op(g, "div", row, _number(g, count, row))


def _normed(g: Recognizer, x: Tensor, centred: Tensor, average: Tensor) -> Tensor:
    root = _op(g, "rsqrt", _op(g, "add", average, _number(g, 1e-5, average)))
    return _op(g, "mul", centred, g.expand(root, x.extents))


def _layer_norm(g: Recognizer, x: Tensor, count: float = 8.0) -> list[Tensor]:
    centred = _op(g, "sub", x, g.expand(_mean(g, x), x.extents))
    found = _normed(g, x, centred, _mean(g, _op(g, "mul", centred, centred), count))
    weight, bias = (g.parameter(n, TensorType("f32", (8,))) for n in ("w", "b"))
    return [_op(g, "add", _op(g, "mul", found, g.expand(weight, x.extents)), g.expand(bias, x.extents))]


def _fast_layer_norm(g: Recognizer, x: Tensor) -> list[Tensor]:
    mean = _mean(g, x)
    variance = _op(g, "sub", _mean(g, _op(g, "mul", x, x)), _op(g, "mul", mean, mean))
    return [_normed(g, x, _op(g, "sub", x, g.expand(mean, x.extents)), variance)]


def _rms_norm(g: Recognizer, x: Tensor) -> list[Tensor]:
    return [_normed(g, x, x, _mean(g, _op(g, "mul", x, x)))]


def _gelu(g: Recognizer, x: Tensor, half: float = 0.5) -> list[Tensor]:
    inner = _op(g, "mul", x, _number(g, 0.7071067811865476, x))
    above = _op(g, "add", _op(g, "erf", inner), _number(g, 1.0, x))
    return [_op(g, "mul", _op(g, "mul", x, _number(g, half, x)), above)]


def _silu(g: Recognizer, x: Tensor) -> list[Tensor]:
    one = _number(g, 1.0, x)
    return [_op(g, "mul", x, _op(g, "div", one, _op(g, "add", _op(g, "exp", _op(g, "neg", x)), one)))]


@pytest.mark.parametrize(
    ("build", "name"),
    [(_softmax, "softmax"), (_log_softmax, "log_softmax"), (_layer_norm, "layer_norm"), (_fast_layer_norm, "layer_norm"),
     (_rms_norm, "rms_norm"), (_gelu, "gelu"), (_silu, "silu")],
)  # fmt: skip
def test_one_op_of_many(build: Callable[[Recognizer, Tensor], list[Tensor]], name: str) -> None:
    text = _text(build)
    ops = [line.split('"op.')[1].split('"')[0] for line in text.splitlines() if '"op.' in line]
    assert [op for op in ops if op not in ("parameter", "symbol", "reshape", "expand")] == [name], text


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda g, x: _layer_norm(g, x, 7.0), "layer_norm"),  # not the count of what is summed
        (lambda g, x: _gelu(g, x, 0.6), "gelu"),
        (lambda g, x: [_op(g, "div", _op(g, "exp", x), _row(g, "sum", x))], "softmax"),
        (lambda g, x: [_op(g, "sub", x, _row(g, "amax", x))], "log_softmax"),
    ],
)
def test_what_is_near_stays_as_it_is(build: Callable[[Recognizer, Tensor], list[Tensor]], name: str) -> None:
    assert f"op.{name}" not in _text(build)


def test_a_softmax_whose_parts_are_read_keeps_them() -> None:
    def build(g: Recognizer, x: Tensor) -> list[Tensor]:
        e = _op(g, "exp", _op(g, "sub", x, _row(g, "amax", x)))
        return [_op(g, "div", e, _row(g, "sum", e)), e]

    text = _text(build)
    assert text.count('"op.softmax"') == 1 and text.count('"op.exp"') == 1
