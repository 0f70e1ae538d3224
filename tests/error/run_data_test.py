# SPDX-License-Identifier: Apache-2.0
"""Wrong numbers in the data of a call: indices out of range, integer division by zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import straightline as sl
import torch
from straightline.errors import DivisionError, IndexRangeError
from torch import nn

INT64 = torch.iinfo(torch.int64)


@pytest.mark.parametrize("index", [10, -1, INT64.max, INT64.min, 2**40])
@pytest.mark.parametrize("threads", [1, 2])
def test_embedding(index: int, threads: int) -> None:
    table = nn.Embedding(10, 4).eval()
    fn = sl.compile(table, (torch.zeros(5, 3, dtype=torch.int64),), threads=threads)
    good = torch.randint(0, 10, (5, 3))
    bad = good.clone()
    bad[4, 2] = index
    with pytest.raises(IndexError):
        table(bad)
    with pytest.raises(IndexRangeError, match=rf"index {index} is out of range \[0, 10\): embedding at "):
        fn(bad)
    with torch.no_grad():
        assert torch.equal(fn(good), table(good))


GATHERS: dict[str, tuple[Callable[..., torch.Tensor], tuple[int, ...]]] = {
    "gather": (lambda x, i: torch.gather(x, 1, i), (3, 2)),
    "index_select": (lambda x, i: torch.index_select(x, 1, i), (4,)),
}


@pytest.mark.parametrize("index", [5, -1, INT64.max, INT64.min])
@pytest.mark.parametrize("name", GATHERS)
def test_gather(name: str, index: int) -> None:
    model, shape = GATHERS[name]
    x = torch.randn(3, 5)
    good = torch.randint(0, 5, shape)
    fn = sl.compile(model, (x, good))
    bad = good.clone()
    bad.view(-1)[-1] = index
    with pytest.raises(IndexError, match=rf"index {index} is out of range \[0, 5\): {name} at run_data_test\.py"):
        fn(x, bad)
    assert torch.equal(fn(x, good), model(x, good))


DIVISIONS: dict[str, Callable[..., torch.Tensor]] = {
    "x // y": lambda x, y: x // y,
    "x % y": lambda x, y: x % y,
    "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "fmod": torch.fmod,
    "inside a fusion": lambda x, y: (x + 1) // (y * y) + 3,
    "of a row": lambda x, y: (x // y).sum(-1),
}


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8], ids=str)
@pytest.mark.parametrize("name", DIVISIONS)
def test_integer_division_by_zero(name: str, dtype: torch.dtype) -> None:
    model = DIVISIONS[name]
    x = torch.randint(0, 100, (4, 37)).to(dtype)
    y = torch.randint(1, 11, (4, 37)).to(dtype)
    fn = sl.compile(lambda x, y: model(x, y), (x, y))
    zero = y.clone()
    zero[3, 36] = 0
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        model(x, zero)
    with pytest.raises(DivisionError, match="integer division or modulo by zero: .* at .*run_data_test"):
        fn(x, zero)
    assert torch.equal(fn(x, y), model(x, y))


def test_division_by_a_literal() -> None:
    x = torch.randint(-50, 50, (7,))
    assert torch.equal(sl.compile(lambda x: x // 3 + x % -4, (x,))(x), x // 3 + x % -4)
    with pytest.raises(ZeroDivisionError, match="by zero: floor_divide"):
        sl.compile(lambda x: x // 0, (x,))(x)


def test_division_of_floats_by_zero_is_no_error() -> None:
    x, y = torch.randn(9), torch.zeros(9)
    torch.testing.assert_close(sl.compile(lambda x, y: x / y, (x, y))(x, y), x / y)


def test_failure_leaves_other_threads_alone() -> None:
    """One call fails while others, of the same program, do not."""
    import threading

    x, y = torch.arange(64), torch.full((64,), 3)
    fn = sl.compile(lambda x, y: x // y, (x, y))
    zero = torch.zeros(64, dtype=torch.int64)
    wrong: list[Any] = []

    def good() -> None:
        for _ in range(300):
            if not torch.equal(fn(x, y), x // y):
                wrong.append("result")

    def bad() -> None:
        for _ in range(300):
            try:
                fn(x, zero)
                wrong.append("no error")
            except ZeroDivisionError:
                pass

    threads = [threading.Thread(target=work) for work in (good, bad, good, bad)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
