# SPDX-License-Identifier: Apache-2.0
"""nn.GRU, nn.RNN and nn.LSTM beside eager: any number of steps and rows, layers, directions, biases, starts and types."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import pytest
import straightline as sl
import torch
from policy import check, launches
from torch import Tensor, nn
from torch.export import Dim


def _relu(*sizes: int, **options: Any) -> nn.RNN:
    return nn.RNN(*sizes, nonlinearity="relu", **options)


def _projected(features: int, hidden: int, *sizes: int, **options: Any) -> nn.LSTM:
    """Of one unit there is no narrower h: its projection is one of two."""
    return nn.LSTM(features, max(hidden, 2), *sizes, proj_size=(max(hidden, 2) + 1) // 2, **options)


_CELLS = {"gru": nn.GRU, "rnn": nn.RNN, "rnn_relu": _relu, "lstm": nn.LSTM, "projected": _projected}
_cells = pytest.mark.parametrize("cell", _CELLS.values(), ids=_CELLS)


class Layers(nn.Module):
    """x -> y and the last states; from zeros, or from a given start."""

    def __init__(self, layers: nn.RNNBase) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: Tensor, *start: Tensor) -> tuple[Tensor, ...]:
        y, last = self.layers(x, start if len(start) > 1 else start[0] if start else None)
        return (y, *last) if isinstance(last, tuple) else (y, last)


def _inputs(model: nn.RNNBase, steps: int, batch: int, start: bool) -> tuple[Tensor, ...]:
    """x, and a start where it is asked for."""
    dtype = model.weight_ih_l0.dtype
    x = torch.randn((batch, steps, model.input_size) if model.batch_first else (steps, batch, model.input_size)).to(
        dtype
    )
    states = model.num_layers * (2 if model.bidirectional else 1)
    widths = [model.proj_size or model.hidden_size, *([model.hidden_size] if isinstance(model, nn.LSTM) else [])]
    return (x, *(torch.randn(states, batch, width).to(dtype) for width in (widths if start else [])))


_FORMS = {
    "plain": ({}, False),
    "without biases": ({"bias": False}, True),
    "batch first": ({"batch_first": True}, True),
    "both ways": ({"bidirectional": True}, False),
    "three layers": ({"num_layers": 3, "bidirectional": True, "batch_first": True, "dropout": 0.3}, True),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("form", _FORMS)
@_cells
def test_any_number_of_steps_and_rows(cell: Callable[..., nn.RNNBase], form: str, threads: int) -> None:
    """One program; the text says nothing of how many steps there are."""
    options, start = _FORMS[form]
    layers = cell(6, 11, **options).eval()
    steps, batch = Dim("s", min=1, max=300), Dim("b", min=1, max=9)
    calls = [_inputs(layers, *sizes, start) for sizes in ((1, 1), (2, 3), (300, 1), (41, 9), (1, 9))]
    shape = {0: batch, 1: steps} if layers.batch_first else {0: steps, 1: batch}
    shapes = (shape, tuple({1: batch} for _ in calls[0][1:])) if start else (shape,)
    compiled = check(Layers(layers), calls[1], calls=calls, dynamic_shapes=shapes, threads=threads)
    directions = layers.num_layers * (2 if layers.bidirectional else 1)
    assert compiled.ir("kernel").count("kernel.for") == directions
    assert len(compiled.code) < 100_000 * directions


@pytest.mark.parametrize("form", _FORMS)
@pytest.mark.parametrize("steps", [1, 2, 32, 33])
@_cells
def test_known_sizes(cell: Callable[..., nn.RNNBase], steps: int, form: str) -> None:
    """Few steps are so many products and cells (of an LSTM a loop), more are a loop."""
    options, start = _FORMS[form]
    layers = cell(5, 8, **options).eval()
    compiled = check(Layers(layers), _inputs(layers, steps, 2, start), calls=[_inputs(layers, steps, 2, start)])
    if torch.get_default_device().type == "cpu":  # a device has a kernel for all of them
        assert ("kernel.for" in compiled.ir("kernel")) == (steps > 32 or isinstance(layers, nn.LSTM))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("steps", [3, 60])
@_cells
def test_types(cell: Callable[..., nn.RNNBase], steps: int, dtype: torch.dtype) -> None:
    layers = cell(7, 12, 2, bidirectional=True).to(dtype).eval()
    check(Layers(layers), _inputs(layers, steps, 3, True))


@pytest.mark.parametrize(
    ("features", "hidden", "batch", "steps"), [(3, 1, 1, 4), (12, 24, 4, 20), (40, 131, 3, 33), (64, 256, 1, 100), (16, 97, 70, 9)]
)  # fmt: skip
@pytest.mark.parametrize("start", [False, True])
@_cells
def test_widths(
    cell: Callable[..., nn.RNNBase], start: bool, features: int, hidden: int, batch: int, steps: int
) -> None:
    """Of one unit, of less and more than a device's block holds; and the same call gives the same bits."""
    layers = cell(features, hidden).eval()
    given = _inputs(layers, steps, batch, start)
    compiled = check(Layers(layers), given)
    first = compiled(*given)
    for _ in range(20):
        assert all(torch.equal(a, b) for a, b in zip(first, compiled(*given), strict=True))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@_cells
def test_types_over_any_number_of_steps(cell: Callable[..., nn.RNNBase], dtype: torch.dtype) -> None:
    layers = cell(7, 12, bidirectional=True).to(dtype).eval()
    calls = [_inputs(layers, steps, 3, False) for steps in (5, 1, 40)]
    compiled = check(Layers(layers), calls[0], calls=calls, dynamic_shapes=({0: Dim("s", min=1, max=64)},))
    if torch.get_default_device().type == "cpu":
        assert compiled.ir("kernel").count("kernel.for") == 2


def test_projections_of_random_sizes() -> None:
    """Every form beside eager, by a kernel of ours and not eager's."""
    rng = random.Random(int(torch.randint(1 << 30, ())))  # of the seed that is printed
    for _ in range(6):
        hidden = rng.randint(2, 40)
        options: dict[str, Any] = {
            "proj_size": rng.randint(1, hidden - 1), "num_layers": rng.randint(1, 3), "bidirectional": rng.random() < 0.5,
            "batch_first": rng.random() < 0.5, "bias": rng.random() < 0.5,
        }  # fmt: skip
        layers = nn.LSTM(rng.randint(1, 20), hidden, **options).to(rng.choice([torch.float32, torch.float64])).eval()
        given = _inputs(layers, rng.randint(1, 12), rng.randint(1, 5), rng.random() < 0.5)
        compiled = check(Layers(layers), given)
        assert not any(row["family"].startswith("aten") for row in compiled.explain().statements), options


def test_a_projection_of_no_rows() -> None:
    layers = nn.LSTM(4, 6, proj_size=2, bidirectional=True).eval()
    given = _inputs(layers, 5, 2, True)
    compiled = sl.compile(
        Layers(layers),
        given,
        dynamic_shapes=({1: Dim("b", min=0, max=9)}, tuple({1: Dim("b", min=0, max=9)} for _ in given[1:])),
    )
    y, h, c = compiled(*(t[:, :0] for t in given))
    assert (y.shape, h.shape, c.shape) == ((5, 0, 4), (2, 0, 2), (2, 0, 6))


@pytest.mark.parametrize("cell", [nn.GRU, nn.RNN, _projected])
def test_without_a_batch(cell: Callable[..., nn.RNNBase]) -> None:
    model = cell(4, 6, bidirectional=True).eval()
    check(model, (torch.randn(5, 4),))
    if isinstance(model, nn.LSTM):
        return
    check(
        model,
        (torch.randn(5, 4), torch.randn(2, 6)),
        calls=[(torch.randn(9, 4), torch.randn(2, 6))],
        dynamic_shapes=({0: Dim("s", max=50)}, {}),
    )


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU, nn.RNN])
def test_long_sequences_cost_no_text(cell: type[nn.RNNBase]) -> None:
    """200 steps are two kernels a step in a loop, and before it x's product and the states that the loop begins with."""
    model = cell(40, 64, batch_first=True).eval()
    compiled = check(model, (torch.randn(1, 200, 40),))
    assert len(compiled.code) < 60_000
    if torch.get_default_device().type == "cpu":
        assert len(launches(compiled)) == (
            5 if cell is nn.LSTM else 4
        )  # rows of y are written by the cell, of an RNN by the product
        assert re.search(r"arith\.constant 200 : index|kernel\.size\(200\)", compiled.ir("kernel"))


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU, nn.RNN])
def test_no_steps(cell: type[nn.RNNBase]) -> None:
    """Eager refuses them; here nothing happens to the states."""
    model = Layers(cell(4, 6, bidirectional=True).eval())
    x, *starts = _inputs(model.layers, 3, 2, True)
    compiled = sl.compile(model, (x, *starts), dynamic_shapes=({0: Dim("s", min=0, max=50)}, tuple({} for _ in starts)))
    y, *last = compiled(x[:0], *starts)
    assert y.shape == (0, 2, 12) and all(torch.equal(end, start) for end, start in zip(last, starts, strict=True))


@pytest.mark.parametrize("cell", [nn.GRU, nn.RNN])
def test_a_sequence_in_parts(cell: type[nn.RNNBase]) -> None:
    """Frames of a stream of audio, each from the last one's state, are the whole sequence."""
    model = cell(6, 16, 2).eval()
    steps = Dim("s", min=1, max=64)
    compiled = sl.compile(model, (torch.randn(7, 1, 6), torch.zeros(2, 1, 16)), dynamic_shapes=({0: steps}, {}))
    x, h = torch.randn(40, 1, 6), torch.zeros(2, 1, 16)
    whole, last = compiled(x, h)
    parts = []
    for frame in x.split([1, 16, 2, 21]):
        y, h = compiled(frame, h)
        parts.append(y)
    assert torch.allclose(torch.cat(parts), whole, atol=1e-5) and torch.allclose(h, last, atol=1e-5)


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU, _relu])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@torch.no_grad()
def test_states_that_fade_are_zero_before_they_are_subnormal(
    cell: Callable[..., nn.RNNBase], dtype: torch.dtype
) -> None:
    """Gates that are as good as closed, or weights that shrink a state in each step: eager's states run through subnormal numbers."""
    tiny = torch.finfo(dtype).tiny
    model = cell(3, 32).to(dtype).eval()
    steps = 40 if dtype == torch.float32 else 300
    for name, values in model.named_parameters():
        if cell is _relu:
            values.copy_(torch.eye(32, values.shape[1]) * 0.05 if "weight" in name else torch.zeros_like(values))
        elif name == "bias_hh_l0":
            values.fill_(-30.0)  # of a gate: 1e-13 of the state stays in each step, or comes in
            values[2 * 32 : 3 * 32] = 0.0  # LSTM's g, GRU's n
        elif name == "bias_ih_l0":
            values.zero_()
    x = torch.zeros(steps, 2, 3, dtype=dtype)
    x[0] = 1.0
    start = torch.full((1, 2, 32), 0.5, dtype=dtype)
    given = (x, (start, start) if isinstance(model, nn.LSTM) else start)
    compiled = sl.compile(model, given)
    got, wanted = compiled(*given)[0], model(*given)[0]
    assert ((wanted != 0) & (wanted.abs() < tiny)).any() or isinstance(model, nn.GRU)
    assert not ((got != 0) & (got.abs() < tiny)).any()
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=torch.finfo(dtype).tiny ** 0.5)
