# SPDX-License-Identifier: Apache-2.0
"""topk, sort, argsort and multinomial: the answers of a stable sort, and eager's draws."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from policy import OWN_BACKEND, launches
from torch import Tensor

import straightline as sl

_FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
_DTYPES = [*_FLOATS, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]


def hard(shape: tuple[int, ...], dtype: torch.dtype, kind: str) -> Tensor:
    """Numbers of which some are equal, with both zeros, infinities and NaN; or all equal; or random."""
    if kind == "random":
        x = torch.randn(shape) * 50
        return x.abs().to(dtype) if dtype is torch.uint8 else x.to(dtype)
    if kind == "equal":
        return torch.full(shape, 3).to(dtype)
    x = torch.randint(0, 5, shape).to(dtype)
    if dtype.is_floating_point:
        special = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan], dtype=dtype)
        x = torch.where(torch.rand(shape) < 0.5, special[torch.randint(5, shape)], x)
    return x


def assert_first(got: Any, x: Tensor, dim: int, k: int, largest: bool) -> None:
    """Values and places are the first of a stable sort; zeros keep their sign."""
    x = x.cpu()
    best, where = x.sort(dim=dim, stable=True, descending=largest)
    values, places = (y.cpu() for y in got)
    assert values.dtype is x.dtype and places.dtype is torch.int64
    assert torch.equal(places, where.narrow(dim, 0, k))
    best = best.narrow(dim, 0, k)
    torch.testing.assert_close(values, best, rtol=0, atol=0, equal_nan=True)
    if x.is_floating_point():
        assert torch.equal(values.signbit() | values.isnan(), best.signbit() | best.isnan())


@pytest.mark.parametrize("dtype", _DTYPES, ids=str)
@pytest.mark.parametrize(
    ("shape", "dim", "k"),
    [
        ((5, 64), 1, 8),
        ((7, 1), 1, 1),
        ((100,), 0, 100),
        ((3, 40, 6), 1, 1),
        ((40, 7), 0, 39),
        ((2, 3, 333), -1, 30),
        ((1, 5000), 1, 20),
    ],
)
@pytest.mark.parametrize("largest", [True, False])
def test_topk(shape: tuple[int, ...], dim: int, k: int, largest: bool, dtype: torch.dtype) -> None:
    compiled = None
    for kind in ("random", "ties", "equal"):
        x = hard(shape, dtype, kind)
        if dtype is torch.bool:  # eager has no topk of them
            assert_first(
                sl.compile(lambda x: tuple(x.sort(dim, descending=largest)), (x,))(x), x, dim, x.shape[dim], largest
            )
            continue
        compiled = compiled or sl.compile(lambda x: tuple(x.topk(k, dim, largest)), (x,), threads=2)
        assert [row["family"] for row in launches(compiled)][0] == "topk"
        assert_first(compiled(x), x, dim, k, largest)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64], ids=str)
@pytest.mark.parametrize(("shape", "dim"), [((4, 1000), 1), ((300, 5), 0), ((20000,), 0), ((3, 17, 2), 1)])
def test_sort(shape: tuple[int, ...], dim: int, dtype: torch.dtype) -> None:
    for descending in (False, True):
        compiled = None
        for kind in ("random", "ties", "equal", "sorted", "reversed"):
            x = hard(shape, dtype, "random" if kind in ("sorted", "reversed") else kind)
            x = x.sort(dim, descending=kind == "reversed")[0] if kind in ("sorted", "reversed") else x
            compiled = compiled or sl.compile(
                lambda x: (*x.sort(dim=dim, stable=True, descending=descending), x.argsort(dim, descending)), (x,)
            )
            values, places, again = compiled(x)
            assert_first((values, places), x, dim, x.shape[dim], descending)
            assert torch.equal(places, again)


@pytest.mark.skipif(OWN_BACKEND != "native", reason="kernels of a device need the largest length of a row")
@pytest.mark.parametrize("k", [3, None])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64], ids=str)
def test_rows_of_a_named_length(dtype: torch.dtype, k: int | None) -> None:
    """Along a dim whose size only a call knows: the first k, or all of them."""

    def function(x: Tensor) -> tuple[Tensor, ...]:
        return tuple(x.topk(k, 1) if k else x.sort(dim=1, stable=True, descending=True))

    dims = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    compiled = sl.compile(function, (hard((2, 9, 3), dtype, "random"),), dynamic_shapes=(dims,), threads=2)
    assert [row["family"] for row in launches(compiled)][0] == "topk"
    for rows, count in ((2, 3), (5, 4), (2, 37), (3, 1000)):
        x = hard((rows, count, 3), dtype, "ties")
        assert_first(compiled(x), x, 1, k or count, True)
    if k:
        with pytest.raises(sl.StraightlineError, match="3"):
            compiled(hard((2, 2, 3), dtype, "random"))


@pytest.mark.parametrize(
    ("k", "largest", "shape", "dtype"),
    [
        (50, False, (2, 40_000), torch.float32),
        (1000, True, (3, 20_001), torch.bfloat16),
        (1024, False, (1, 151_936), torch.float32),
        (5, True, (2, 30_000), torch.float64),
        (100, True, (1, 152_000), torch.int64),
        (5000, True, (2, 20_000), torch.bfloat16),
        (None, True, (2, 32_000), torch.float32),
        (None, True, (3, 16_384), torch.float32),
        (None, False, (2, 8192), torch.float64),
    ],
)
def test_long_rows(k: int | None, largest: bool, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """What a device puts in order in several launches; k of None is a sort."""

    def function(x: Tensor) -> tuple[Tensor, ...]:
        return tuple(x.topk(k, -1, largest) if k else x.sort(dim=-1, stable=True, descending=largest))

    compiled = sl.compile(function, (torch.zeros(shape, dtype=dtype),))
    for kind in ("random", "ties", "equal"):
        x = hard(shape, dtype, kind)
        assert_first(compiled(x), x, 1, k or shape[1], largest)


def test_edges() -> None:
    """Nothing to put in order, no dims, rows known per call only."""
    x = torch.randn(3, 4)
    values, places = sl.compile(lambda x: tuple(x.topk(0)), (x,))(x)
    assert values.shape == places.shape == (3, 0)
    empty = torch.randn(0, 4)
    values, places = sl.compile(lambda x: tuple(x.topk(2)), (empty,))(empty)
    assert values.shape == places.shape == (0, 2)
    one = torch.tensor(2.5)
    for function in (lambda x: tuple(x.topk(1)), lambda x: tuple(x.sort())):
        values, places = sl.compile(function, (one,))(one)
        assert values.shape == places.shape == () and values == one and places == 0
    rows = torch.export.Dim("rows", min=1, max=50)
    compiled = sl.compile(lambda x: tuple(x.topk(2)), (x,), dynamic_shapes=({0: rows},))
    for n in (1, 3, 50):
        given = torch.randn(n, 4)
        assert_first(compiled(given), given, 1, 2, True)


def test_what_others_read() -> None:
    """A mixture's router, a median, places as indices; and a result that overwrites what it is made from."""

    def model(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        weights, experts = (x @ w).softmax(-1).topk(2)
        return (
            weights / weights.sum(-1, keepdim=True),
            experts,
            x.sort(0)[0][x.shape[0] // 2],
            x.gather(1, x.argsort(1)) * 2,
        )

    x, w = torch.randn(9, 16), torch.randn(16, 8)
    compiled = sl.compile(model, (x, w))
    assert "aten" not in {row["backend"] for row in launches(compiled)}
    for got, want in zip(compiled(x, w), model(x, w), strict=True):
        torch.testing.assert_close(got, want)

    def sorts(x: Tensor) -> Tensor:
        x.copy_(x.sort(-1)[0])
        return x + 1

    mine, eager = torch.randn(3, 50), None
    eager = mine.clone()
    compiled = sl.compile(sorts, (mine.clone(),))
    torch.testing.assert_close(compiled(mine), sorts(eager))
    assert torch.equal(mine, eager)


def test_what_stays_torchs() -> None:
    """On a device a row of a named size that a block may not sort, with the reason."""
    x = torch.randn(6, 5)
    n = torch.export.Dim("n", min=3, max=4000)
    compiled = sl.compile(lambda x: x.sort(0)[0], (x,), dynamic_shapes=({0: n},), target="cuda:sm_90")
    reasons = [row["why"] for row in launches(compiled) if row["backend"] == "aten"]
    assert len(reasons) == 1 and "along dim 0 of size n, 3 to 4000" in reasons[0], reasons
    with pytest.raises(sl.UnsupportedError, match="nearest supported form: static sizes"):
        sl.compile(lambda x: x.sort(0)[0], (x,), dynamic_shapes=({0: n},), target="cuda:sm_90", allow=("cuda",))


@pytest.mark.parametrize("dtype", _FLOATS, ids=str)
@pytest.mark.parametrize("shape", [(300,), (5, 70)])
def test_one_draw_is_eagers(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> None:
    p = torch.rand(shape).to(dtype)
    compiled = sl.compile(lambda p: torch.multinomial(p, 1), (p,))
    families = [row["family"] for row in launches(compiled)]
    assert "row_reduction" in families and "aten.exponential.default" in [row["op"] for row in launches(compiled)]
    for number in range(20):
        torch.manual_seed(seed + number)
        want = torch.multinomial(p, 1)
        torch.manual_seed(seed + number)
        assert torch.equal(compiled(p), want)


def test_what_is_no_distribution() -> None:
    compiled = sl.compile(lambda p: torch.multinomial(p, 1), (torch.rand(2, 5),))
    for p, words in (
        (torch.tensor([[1.0, -1, 1, 1, 1]] * 2), "either `inf`, `nan` or element < 0"),
        (torch.tensor([[1.0, torch.nan, 1, 1, 1]] * 2), "either `inf`, `nan` or element < 0"),
        (torch.tensor([[1.0] * 5, [0.0] * 5]), "sum of probabilities <= 0"),
    ):
        with pytest.raises(sl.OpError, match=words):
            compiled(p)
    several = sl.compile(lambda p: torch.multinomial(p, 3), (torch.rand(2, 5),))
    assert "several samples" in [row["why"] for row in launches(several) if row["backend"] == "aten"][0]


def test_a_draw_with_given_noise_is_one_kernel() -> None:
    p, noise = torch.rand(3, 1000), torch.empty(3, 1000).exponential_()
    for function in (lambda p, q: (p / q).argmax(-1), lambda p, q: (p.log() - q.log()).argmax(-1, keepdim=True)):
        for target in (None, "cuda:sm_90"):
            compiled = sl.compile(function, (p, noise), target=target)
            (launch,) = launches(compiled)
            assert launch["family"] == "row_reduction"
        assert torch.equal(sl.compile(function, (p, noise))(p, noise), function(p, noise))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64], ids=str)
def test_rows_of_a_named_size(dtype: torch.dtype) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> list[Tensor]:
            rows, order = x.sort(dim=1, descending=True)
            return [rows, order, *x.topk(3, dim=1), x.argsort(dim=1), *x.T.sort(dim=0)]

    count = torch.export.Dim("count", min=3, max=500)
    fn = sl.compile(Model().eval(), (torch.zeros(4, 8, dtype=dtype),), dynamic_shapes=({1: count},))
    for size in (3, 4, 17, 500):
        x = hard((4, size), dtype, "random")
        rows, order, values, places, rising, turned, where = fn(x)
        assert_first((rows, order), x, 1, size, largest=True)
        assert_first((values, places), x, 1, 3, largest=True)
        assert torch.equal(rising, x.argsort(dim=1, stable=True))
        assert_first((turned, where), x.T, 0, size, largest=False)
