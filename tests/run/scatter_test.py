# SPDX-License-Identifier: Apache-2.0
"""scatter, scatter_add, scatter_reduce: by a kernel of ours, compared with eager."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cuda_on_host import run_on_host
from policy import check, launches
from statements import families_of, launches_of
from torch import Tensor, nn

import straightline as sl

REDUCE = ("sum", "prod", "amin", "amax")


def native(model: Callable[..., Any], args: tuple[Any, ...], count: int = 1, **options: Any) -> Any:
    """`check`, and `count` kernels of the family with nothing of torch's."""
    compiled = check(model, args, **options)
    rows = launches(compiled)
    assert families_of(rows).count("scatter_nd") == count, rows
    assert all(row["backend"] != "aten" for row in rows), rows
    return compiled


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("threads", [1, 2])
def test_along_each_dim(dim: int, threads: int) -> None:
    """Distinct places; the index is smaller than src and x."""
    x, src = torch.randn(7, 6, 5), torch.randn(6, 5, 5)
    index = torch.rand(x.shape).argsort(dim)[:4, :5, :3]
    native(lambda x, i, s: x.scatter(dim, i, s), (x, index, src), threads=threads)
    native(lambda x, i: x.scatter(dim, i, 2.5), (x, index), threads=threads)
    native(lambda x, i, s: x.scatter_add(dim, i, s), (x, index, src), threads=threads)


@pytest.mark.parametrize("reduce", REDUCE)
@pytest.mark.parametrize("include_self", [True, False])
def test_equal_places(reduce: str, include_self: bool) -> None:
    """Each place is written many times; with `include_self=False` what stood there does not count."""
    x, src = torch.randn(4, 300), torch.randn(9, 300)
    index = torch.randint(4, (9, 300))

    def model(x: Tensor, i: Tensor, s: Tensor) -> Tensor:
        return x.scatter_reduce(0, i, s, reduce, include_self=include_self)

    native(model, (x, index, src), 1 if include_self else 2, threads=2)


def test_the_last_of_equal_places_stays() -> None:
    """On a CPU, as in torch there."""
    index = torch.tensor([[2, 0, 2, 2, 0]])
    native(lambda x, i, s: x.scatter(1, i, s), (torch.zeros(1, 3), index, torch.arange(5.0)[None]))


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8, torch.int8]
)
def test_dtypes(dtype: torch.dtype) -> None:
    """Every dtype, each reduction; integers wrap. What 16-bit floats sum is exact here."""
    x, src = (torch.randint(0, 4, (5, 6)) * 1).to(dtype), torch.randint(0, 4, (5, 6)).to(dtype)
    index = torch.randint(5, (5, 6))
    for reduce in REDUCE:
        native(lambda x, i, s, reduce=reduce: x.scatter_reduce(0, i, s, reduce), (x, index, src))
        native(lambda x, i, s, reduce=reduce: x.scatter_reduce(0, i, s, reduce, include_self=False), (x, index, src), 2)
    native(lambda x, i, s: x.scatter(0, i, s), (x, torch.arange(5)[:, None].flip(0), src))


def test_bools() -> None:
    """Sums are `or`, products `and`."""
    x, index = torch.rand(5, 6) < 0.5, torch.randint(6, (5, 1))
    native(lambda x, i: (x.scatter(1, i, True), x.scatter(1, i, ~x)), (x, index), 2)
    native(lambda x, i: x.scatter_add(0, i % 5, ~x), (x, index.expand(5, 6)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8])
@pytest.mark.parametrize("include_self", [True, False])
def test_means(dtype: torch.dtype, include_self: bool) -> None:
    """Sums by counts, both of one kernel; integers are divided towards minus infinity."""
    x, src = torch.randint(0, 9, (4, 30)).to(dtype), torch.randint(0, 9, (9, 30)).to(dtype)
    if dtype == torch.int64:
        src -= 5
    index = torch.randint(4, (9, 30))
    index[index == 2] = 1  # nothing comes to row 2

    def model(x: Tensor, i: Tensor, s: Tensor) -> Tensor:
        return x.scatter_reduce(0, i, s, "mean", include_self=include_self)

    native(model, (x, index, src), 2 if include_self else 3)


def test_old_spellings_and_nan() -> None:
    """`reduce="add"` of scatter; NaN stays NaN in the largest and the smallest."""
    x, index = torch.randn(3, 4), torch.randint(3, (3, 4))
    native(lambda x, i: (x.scatter(0, i, x * 2, reduce="add"), x.scatter(0, i, 3.0, reduce="multiply")), (x, index), 2)
    x[0, 0] = float("nan")
    for reduce in ("amin", "amax"):
        native(lambda x, i, reduce=reduce: x.scatter_reduce(0, i, x.flip(0), reduce), (x, index))


def test_views_and_places() -> None:
    """Permuted and expanded operands are read where they lie; the result is written in its place, x in place where it is the last use."""
    x, index = torch.randn(6, 4), torch.randint(6, (4, 1))
    native(lambda x, i: x.t().scatter_add(1, i.expand(4, 3), x.t()[:, 1:4] * 2).relu(), (x, index))
    native(lambda x, i: torch.cat([x.t().scatter(1, i, 1.0), x.t()]), (x, index))

    def updates(x: Tensor, i: Tensor) -> Tensor:
        y = x * 2
        y.scatter_(0, i, 9.0)
        y.scatter_add_(0, i, x)
        return y

    compiled = native(updates, (x, torch.randint(6, (2, 4))), 2)
    assert not any(row["op"] == "scatter" and row["family"] == "pointwise" for row in launches(compiled))


def test_ranks_and_empty_tensors() -> None:
    """0-d tensors, one dim, no index, and no elements beside the dim."""
    native(lambda x, i: x.scatter(0, i, x * 2), (torch.randn(()), torch.tensor(0)))
    native(
        lambda x, i, s: x.scatter_add(0, i, s),
        (torch.randn(7), torch.randint(7, (1000,)), torch.randn(1000)),
        threads=2,
    )
    check(lambda x, i: x.scatter(0, i, x), (torch.randn(3, 4), torch.zeros(0, 4, dtype=torch.int64)))
    check(lambda x, i: x.scatter(0, i, x), (torch.randn(3, 0), torch.zeros(2, 0, dtype=torch.int64)))


def test_sizes_that_are_named() -> None:
    """A dynamic dim of all three, called with other sizes."""
    rows = torch.export.Dim("rows", min=1, max=64)
    compiled = sl.compile(
        lambda x, i, s: x.scatter_add(1, i, s),
        (torch.randn(5, 8), torch.randint(8, (5, 3)), torch.randn(5, 3)),
        dynamic_shapes=({0: rows}, {0: rows}, {0: rows}),
    )
    for count in (1, 5, 64):
        x, i, s = torch.randn(count, 8), torch.randint(8, (count, 3)), torch.randn(count, 3)
        torch.testing.assert_close(compiled(x, i, s), x.scatter_add(1, i, s))


@pytest.mark.parametrize("place", [-1, 3])
def test_an_index_outside_is_an_error(place: int) -> None:
    compiled = sl.compile(
        lambda x, i, s: x.scatter_add(0, i, s), (torch.randn(3, 4), torch.zeros(2, 4).long(), torch.randn(2, 4))
    )
    index = torch.zeros(2, 4, dtype=torch.int64)
    index[1, 2] = place
    with pytest.raises(IndexError, match=rf"index {place} is out of range \[0, 3\)"):
        compiled(torch.randn(3, 4), index, torch.randn(2, 4))


@pytest.mark.parametrize("reduce", ["prod", "amin", "amax", "mean"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
def test_index_reduce(reduce: str, dtype: torch.dtype) -> None:
    """Whole rows at one index; with `include_self=False` what stood there does not count."""
    x, src = torch.randint(1, 4, (4, 5, 3)).to(dtype), torch.randint(1, 4, (4, 9, 3)).to(dtype)
    for kept in (True, False):
        count = (1 if kept else 2) + (reduce == "mean")

        def model(x: Tensor, i: Tensor, s: Tensor, kept: bool = kept) -> Tensor:
            return x.index_reduce(1, i, s, reduce, include_self=kept)

        native(model, (x, torch.randint(4, (9,)), src), count, threads=2)


@pytest.mark.parametrize("accumulate", [True, False])
def test_put(accumulate: bool) -> None:
    """Places count through all elements, from the end too."""
    places = torch.randint(-20, 20, (2, 3)) if accumulate else torch.randperm(20)[:6].reshape(2, 3) - 10
    native(lambda x, i, s: x.put(i, s, accumulate=accumulate), (torch.randn(4, 5), places, torch.randn(2, 3)))


def test_gather_of_scalars() -> None:
    """From and at tensors without dims; `take` counts through all elements."""
    x, index = torch.randn(5), torch.tensor([0, 4, 2])

    def model(x: Tensor, i: Tensor) -> tuple[Tensor, ...]:
        return x.sum().gather(0, i * 0), x.gather(0, i[1]), x.sum().gather(0, i[0]), x.take(i - 5)

    native(model, (x, index), 0)


def test_masked_scatter() -> None:
    """Elements of the source go to the places of the mask in order; fewer of them than places are an error."""
    mask = torch.rand(4, 5) < 0.5
    mask[0, 0], mask[3, 4] = False, True
    native(
        lambda x, m, s: (x.masked_scatter(m, s), x.masked_scatter(m[:, :1], s)),
        (torch.randn(4, 5), mask, torch.randn(3, 7)),
        0,
    )
    compiled = sl.compile(lambda x, m, s: x.masked_scatter(m, s), (torch.randn(4, 5), mask, torch.randn(2)))
    with pytest.raises(IndexError, match=r"index \d+ is out of range \[0, 2\)"):
        compiled(torch.randn(4, 5), torch.ones(4, 5, dtype=torch.bool), torch.randn(2))


def test_what_is_left_to_torch() -> None:
    """A mean of bools has no meaning; torch says so."""
    x, i = torch.rand(3, 4) < 0.5, torch.randint(3, (3, 4))
    with pytest.raises(Exception, match="(?i)bool|not implemented"):
        check(lambda x, i: x.scatter_reduce(0, i, x, "mean"), (x, i))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int32, torch.int8])
def test_on_a_device(dtype: torch.dtype, tmp_path: Path) -> None:
    """Sums, products and extremes of equal places by atomic operations, of elements narrower than a word too."""

    class Model(nn.Module):
        def forward(self, x: Tensor, i: Tensor, s: Tensor, j: Tensor) -> tuple[Tensor, ...]:
            results = [
                x.scatter_reduce(0, i, s, reduce, include_self=kept) for reduce in REDUCE for kept in (True, False)
            ]
            return *results, x.scatter(0, j, s[:4]), x.scatter(0, j, 2), x.scatter_reduce(0, i, s, "mean")

    x, src = torch.randint(1, 3, (4, 7)).to(dtype), torch.randint(1, 3, (5, 7)).to(dtype)
    inputs = (x, torch.randint(4, (5, 7)), src, torch.rand(4, 7).argsort(0))
    model = Model()
    compiled = sl.compile(model, inputs, target="cuda:sm_90")
    assert "aten" not in {row["backend"] for row in launches_of(compiled)}
    right = model(*inputs)
    got = tuple(torch.empty_like(y) for y in right)
    run_on_host(compiled, model, inputs, got, tmp_path)
    for mine, best in zip(got, right, strict=True):
        torch.testing.assert_close(mine, best, rtol=1e-6 if dtype != torch.bfloat16 else 1e-2, atol=0)
