# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers of Paddle against Paddle: rows of several lengths, cells, projections; random forms, with named sizes too."""

from __future__ import annotations

import pathlib
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import pytest
import straightline as sl
from paddle import nn
from paddle.nn.layer import rnn as own

from tests.frameworks.paddle.comparison import assert_close, fresh_seed


class Layers(nn.Layer):
    """A recurrent layer with what it may be given."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Any, lengths: Any = None, h: Any = None, c: Any = None) -> Any:
        return self.layer(x, (h, c) if c is not None else h, lengths)


def _leaves(value: Any) -> list[Any]:
    return [leaf for item in value for leaf in _leaves(item)] if isinstance(value, (list, tuple)) else [value]


@pytest.fixture
def rng() -> random.Random:
    seed = fresh_seed()
    paddle.seed(seed)
    return random.Random(seed)


def _check(
    rng: random.Random,
    layer: Any,
    features: int,
    states: list[list[int]],
    time_major: bool,
    dtype: str,
    with_lengths: bool,
) -> Any:
    """Compiles for one size and for named ones. `states`: their sizes, -1 for the batch."""
    layer = Layers(layer)
    layer.eval()
    counts = rng.choice(["int32", "int64"])

    def given(steps: int, batch: int) -> dict[str, Any]:
        found = {"x": paddle.randn([steps, batch, features] if time_major else [batch, steps, features], dtype)}
        if with_lengths:
            found["lengths"] = paddle.to_tensor([rng.randint(0, steps) for _ in range(batch)], counts)
        return found | {
            name: paddle.randn([batch if n < 0 else n for n in sizes], dtype) for name, sizes in zip("hc", states)
        }

    names = {"x": {0: "s", 1: "b"} if time_major else {0: "b", 1: "s"}}
    names |= {"lengths": {0: "b"}} if with_lengths else {}
    names |= {name: {sizes.index(-1): "b"} for name, sizes in zip("hc", states)}
    first = given(rng.randint(1, 9), rng.randint(1, 5))
    several = [given(*sizes) for sizes in ((4, 3), (1, 1), (rng.randint(5, 15), rng.randint(1, 8)))]
    for calls, options in (([first], {}), (several, {"dynamic_shapes": names})):
        compiled = sl.compile(layer, (), calls[0], **options)
        for arguments in calls:
            with paddle.no_grad():
                want, got = layer(**arguments), compiled(**arguments)
            for a, b in zip(_leaves(got), _leaves(want), strict=True):
                assert_close(a, b, f"{layer.layer} {arguments['x'].shape}")
    return compiled


def _sizes(kind: str, lead: list[int], h: int, c: int) -> list[list[int]]:
    return [[*lead, -1, width] for width in ((h, c) if kind == "LSTM" else (h,))]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "SimpleRNN"])
def test_rows_of_several_lengths(kind: str, dtype: str, rng: random.Random) -> None:
    paddle.set_default_dtype(dtype)
    try:
        features, hidden, layers, both = rng.randint(1, 6), rng.randint(1, 9), rng.randint(1, 3), rng.random() < 0.5
        options = {"activation": rng.choice(["tanh", "relu"])} if kind == "SimpleRNN" else {}
        time_major = rng.random() < 0.5
        made = getattr(nn, kind)(
            features, hidden, layers, "bidirect" if both else "forward", time_major=time_major, **options
        )
        states = _sizes(kind, [layers * (2 if both else 1)], hidden, hidden) if rng.random() < 0.5 else []
        _check(rng, made, features, states, time_major, dtype, True)
    finally:
        paddle.set_default_dtype("float32")


@pytest.mark.parametrize("with_lengths", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_projections(dtype: str, with_lengths: bool, rng: random.Random) -> None:
    paddle.set_default_dtype(dtype)
    try:
        hidden, layers, both = rng.randint(2, 12), rng.randint(1, 2), rng.random() < 0.5
        size, time_major = rng.randint(1, hidden - 1), rng.random() < 0.5
        made = nn.LSTM(3, hidden, layers, "bidirect" if both else "forward", time_major=time_major, proj_size=size)
        states = _sizes("LSTM", [layers * (2 if both else 1)], size, hidden) if rng.random() < 0.5 else []
        compiled = _check(rng, made, 3, states, time_major, dtype, with_lengths)
        assert compiled.ir("op").count("op.lstm") == layers * (2 if both else 1)
    finally:
        paddle.set_default_dtype("float32")


@pytest.mark.parametrize("backwards", [False, True, None])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "SimpleRNN"])
def test_cells_over_all_steps(kind: str, backwards: bool | None, rng: random.Random) -> None:
    """nn.RNN in either direction and nn.BiRNN, of Paddle's cells with all, some or no biases."""
    options: dict[str, Any] = {f"bias_{which}_attr": False for which in ("ih", "hh") if rng.random() < 0.4}
    if kind == "SimpleRNN":
        options["activation"] = rng.choice(["tanh", "relu"])
    make = lambda: getattr(nn, f"{kind}Cell")(4, 5, **options)  # noqa: E731
    time_major = rng.random() < 0.5
    made = nn.BiRNN(make(), make(), time_major) if backwards is None else nn.RNN(make(), backwards, time_major)
    states = _sizes(kind, [], 5, 5) if backwards is not None and rng.random() < 0.5 else []
    _check(rng, made, 4, states, time_major, "float32", rng.random() < 0.7)


def test_padding_is_never_read(rng: random.Random) -> None:
    """NaN behind a row's length changes nothing."""
    layer = Layers(nn.LSTM(3, 4, 2, "bidirect"))
    layer.eval()
    x, lengths = paddle.randn([3, 5, 3]), paddle.to_tensor([2, 5, 0], "int32")
    compiled = sl.compile(layer, (x, lengths))
    dirty = x.clone()
    dirty[0, 2:], dirty[2] = float("nan"), float("inf")
    for a, b in zip(_leaves(compiled(dirty, lengths)), _leaves(compiled(x, lengths)), strict=True):
        assert_close(a, b)


def test_no_rows(rng: random.Random) -> None:
    layer = Layers(nn.LSTM(3, 4, proj_size=2))
    layer.eval()
    compiled = sl.compile(
        layer, (paddle.randn([2, 5, 3]), paddle.to_tensor([2, 5])),
        dynamic_shapes={"x": {0: "b"}, "lengths": {0: "b"}}, sizes={"b": (0, 9)},
    )  # fmt: skip
    y, (h, c) = compiled(paddle.zeros([0, 5, 3]), paddle.zeros([0], "int64"))
    assert (y.shape, h.shape, c.shape) == ([0, 5, 2], [1, 0, 2], [1, 0, 4])


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_lengths_of_a_file(kind: str, rng: random.Random, tmp_path: pathlib.Path) -> None:
    layer = Layers(getattr(nn, kind)(3, 4, 2, "bidirect"))
    layer.eval()
    spec = [paddle.static.InputSpec([-1, 7, 3], "float32", "x"), paddle.static.InputSpec([-1], "int64", "lengths")]
    paddle.jit.save(paddle.jit.to_static(layer, input_spec=spec, full_graph=True), str(tmp_path / "model"))
    compiled = sl.compile(str(tmp_path / "model.json"), dynamic_shapes={"x": {0: "b"}, "lengths": {0: "b"}})
    for batch in (1, 4):
        x = paddle.randn([batch, 7, 3])
        lengths = paddle.to_tensor([rng.randint(0, 7) for _ in range(batch)])
        with paddle.no_grad():
            for a, b in zip(_leaves(compiled(x, lengths)), _leaves(layer(x, lengths)), strict=True):
                assert_close(a, b)


class _Leaky(nn.SimpleRNNCell):
    def forward(self, inputs: Any, states: Any = None) -> Any:
        y, state = super().forward(inputs, states)
        return 0.9 * y, state


def _hooked() -> Any:
    cell = nn.GRUCell(3, 4)
    cell.register_forward_post_hook(lambda layer, inputs, outputs: None)
    return cell


@pytest.mark.parametrize("make", [lambda: _Leaky(3, 4), _hooked])
def test_other_cells_are_refused(make: Callable[[], Any]) -> None:
    layer = Layers(nn.RNN(make()))
    layer.eval()
    with pytest.raises(sl.UnsupportedError, match=r"create_array.*an array of tensors.*LSTMCell"):
        sl.compile(layer, (paddle.randn([2, 5, 3]),))


def test_paddle_is_as_it_was() -> None:
    """Behind a compilation, and behind one that fails."""
    loop = own._rnn_static_graph
    for cell in (nn.GRUCell(3, 4), _Leaky(3, 4)):
        layer = Layers(nn.RNN(cell))
        layer.eval()
        try:
            sl.compile(layer, (paddle.randn([2, 5, 3]),))
        except sl.UnsupportedError:
            assert isinstance(cell, _Leaky)
        assert own._rnn_static_graph is loop
    assert np.isfinite(float(nn.RNN(nn.GRUCell(3, 4))(paddle.randn([2, 5, 3]))[0].sum()))
