# SPDX-License-Identifier: Apache-2.0
"""Named sizes and numbers: `dynamic=`, `mark_dynamic`, what torch makes dynamic at the second size, ints and floats as inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import straightline as sl
import torch
import torch.nn.functional as F
from against_eager import DEVICE, check
from torch import nn, randn

MODELS: dict[str, Callable[..., Any]] = {
    "elementwise": lambda x: x * 2 + 1,
    "sums": lambda x: (x.sum(0), x.mean(1), x.amax()),
    "flattened": lambda x: (x * 2).view(-1),
    "sizes": lambda x: (x + x.shape[0], x.shape[1] * 2, x.numel()),
    "new": lambda x: torch.ones(x.shape[0], 3) + torch.arange(x.size(0))[:, None],
    "permuted": lambda x: (x + 1).t(),
    "views": lambda x: (lambda y: (y, y.view(-1), y.t(), y[1:]))(x.sin()),
    "of an input": lambda x: (x.t(), x[1:]),
    "joined": lambda x: torch.cat([x, x[:2]], 0),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
    "overwritten": lambda x: (x[0].mul_(2), x.sum()),
    "pairs": lambda x: x.reshape(-1, 2).softmax(-1),  # no size of its own: compiled for each
    "halves": lambda x: x.chunk(2),
}


@pytest.mark.parametrize("dynamic", [True, None])
@pytest.mark.parametrize("case", MODELS)
def test_sizes(case: str, dynamic: bool | None) -> None:
    function = MODELS[case]
    check(function, *((randn(*sizes),) for sizes in ((4, 6), (6, 6), (8, 10), (3, 12), (1, 6))), dynamic=dynamic)


def test_one_program_for_all_sizes() -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    compiled = check(model, *((randn(n, 6),) for n in (4, 7, 9, 33)), dynamic=True)
    assert [program.specialized for program in sl.programs(compiled)] == [""]


def test_mark_dynamic() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x.softmax(0)

    compiled = torch.compile(model, backend="straightline")
    with torch.no_grad():
        first = randn(5, 3)
        torch._dynamo.mark_dynamic(first, 0, min=2, max=64)
        for x in (first, randn(9, 3), randn(64, 3)):
            torch.testing.assert_close(compiled(x), model(x))
        assert len(sl.programs(model)) == 1
        x = randn(65, 3)
        torch.testing.assert_close(compiled(x), model(x))
        assert len(sl.programs(model)) == 2


def test_mark_static_and_unbacked() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    with torch.no_grad():
        compiled = torch.compile(model, backend="straightline", dynamic=True)
        for n in (3, 4):
            x = randn(n, 3)
            torch._dynamo.mark_static(x, 0)
            torch.testing.assert_close(compiled(x), x * 2)
        assert len(sl.programs(model)) == 2
        torch.compiler.reset()
        first = randn(4, 3)
        torch._dynamo.decorators.mark_unbacked(first, 0)
        for x in (first, randn(9, 3), randn(0, 3), randn(1, 3)):
            torch.testing.assert_close(compiled(x), x * 2)


def test_a_size_that_is_too_large_for_its_mark() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x.view(4, 3) * 2

    x = randn(4, 3)
    torch._dynamo.mark_dynamic(x, 0)
    with torch.no_grad(), pytest.raises(Exception, match="marked .* as dynamic|specialized"):
        torch.compile(model, backend="straightline")(x)


def test_strides() -> None:
    """Strides that no size says."""
    check(lambda x: x * 2, *((randn(n, 12)[:, :k],) for n, k in ((4, 6), (5, 7), (6, 9))), dynamic=True)


INTS: dict[str, Callable[..., Any]] = {
    "a factor": lambda x, n: x * n,
    "a slice": lambda x, n: x[:n] + 1,
    "a size": lambda x, n: x.sum() + torch.zeros(n + 1),
    "a part": lambda x, n: (x.sin().narrow(0, 0, n), x * 2),
    "a power": lambda x, n: x**2 + n,
    "unread": lambda x, n: x + 1,
    "a branch": lambda x, n: x + 1 if n > 5 else x - 1,
    "a result": lambda x, n: (x * 2, n * 2 + 1),
}


@pytest.mark.parametrize("case", INTS)
def test_ints(case: str) -> None:
    numbers = (4, 6, 7, 0, 1, 2**20 if case == "a factor" else 9)
    check(INTS[case], *((randn(10, 3), n) for n in numbers))
    torch.compiler.reset()
    if case not in ("a size", "a part"):
        check(INTS[case], *((randn(10, 3), n) for n in (-4, -6, 3, 5)))


def test_an_int_that_no_size_can_be() -> None:
    def model(x: torch.Tensor, n: int) -> torch.Tensor:
        return x * n

    compiled = torch.compile(model, backend="straightline")
    x = randn(3)
    with torch.no_grad():
        for n in (5, 9):
            torch.testing.assert_close(compiled(x, n), model(x, n))
        with pytest.warns(sl.CaptureWarning, match="runs in eager: .* 1099511627776"):
            torch.testing.assert_close(compiled(x, 2**40), model(x, 2**40))


FLOATS: dict[str, tuple[int, Callable[..., Any]]] = {
    "a factor": (2, lambda x, s: x * s),
    "a fraction": (2, lambda x, s: x / (s * 2 + 1)),
    "from the left": (2, lambda x, s: s - x),
    "a power": (2, lambda x, s: x.abs() ** s),
    "bounds": (2, lambda x, s: x.clamp(-s, 1.0)),
    "compared": (2, lambda x, s: x > s),
    "chosen": (2, lambda x, s: torch.where(x > 0, x, s)),
    "filled": (2, lambda x, s: x.masked_fill(x > 0, s)),
    "in place": (2, lambda x, s: (x.mul_(s), x.sum())[1]),
    "a tensor of it": (2, lambda x, s: x * torch.tensor(s)),
    "a constant": (4, lambda x, s: F.leaky_relu(x, s)),  # no overload takes a tensor
    "a size of it": (4, lambda x, s: F.interpolate(x.float()[None], scale_factor=s)),
    "an int of it": (3, lambda x, s: x * int(s)),
    "a result": (4, lambda x, s: (x, s * 2)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("case", FLOATS)
def test_floats(case: str, dtype: torch.dtype) -> None:
    """One program for a number, and one for all numbers where ops take it as a tensor."""
    most, function = FLOATS[case]
    if dtype == torch.int64 and case in ("in place", "filled", "a power", "a constant"):
        pytest.skip("eager refuses it, or it is refused in words")
    inputs = [((randn(5, 3) * 3).to(dtype), s) for s in (1.5, 2.25, 3.5, 2.75)]
    compiled = check(function, *inputs)
    if DEVICE == "cpu":  # on a device a float is a constant
        assert len(sl.programs(compiled)) <= most


def test_bools_and_words() -> None:
    compiled = torch.compile(lambda x, flag: x * 2 if flag else x, backend="straightline")
    with torch.no_grad():
        x = randn(3)
        for flag in (True, False, True, "word", ""):
            torch.testing.assert_close(compiled(x, flag), x * 2 if flag else x)


def test_numbers_that_depend_on_data() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x * x.sum().item()

    check(model, (randn(4),), (randn(4),))  # by a graph break
    with torch.no_grad(), torch._dynamo.config.patch(capture_scalar_outputs=True):
        torch.compiler.reset()
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="UnsupportedError"):
            torch.compile(model, backend="straightline")(randn(4))


@pytest.mark.parametrize("batch", [1, 2])
def test_attention_of_a_number_of_heads_that_has_a_name(batch: int) -> None:
    def attention(x: torch.Tensor) -> list[torch.Tensor]:
        apart, wide = (x, x * 2, x + 1), x[..., :4]
        scores = x @ x.mT
        return [
            F.scaled_dot_product_attention(*apart, is_causal=True),
            F.scaled_dot_product_attention(*apart, attn_mask=scores[0, :1]),
            F.scaled_dot_product_attention(*apart, attn_mask=scores[0]),
            F.scaled_dot_product_attention(*apart, attn_mask=scores > 0.1),
            F.scaled_dot_product_attention(x, x, wide),
        ]

    calls = [(randn(batch, heads, 5, 8),) for heads in (3, 6, 4)]
    compiled = check(attention, *calls, dynamic=None)
    assert len(sl.programs(compiled)) < 3
