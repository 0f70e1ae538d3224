# SPDX-License-Identifier: Apache-2.0
"""Products of two tensors of the run: with a row, with a column, and of 16-bit floats."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from policy import check, launches
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

Function = Callable[..., Tensor]
_CPUS = ["", "x86-64-v3"]


def _kernels(compiled: object) -> list[str]:
    """The kernels of the program's products."""
    return [
        str(row["why"]).split(":")[0] for row in launches(compiled) if "matmul" in row["op"] or "linear" in row["op"]
    ]


def _turned(a: Tensor) -> Tensor:
    """The same numbers, dense along the dim before the last."""
    return a.transpose(-1, -2).contiguous().transpose(-1, -2)


@pytest.mark.parametrize("cpu", _CPUS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(("rows", "k"), [(1, 1), (7, 5), (16, 16), (33, 100), (300, 65), (5, 0), (1, 500)])
def test_with_a_column_and_with_a_row(rows: int, k: int, dtype: torch.dtype, cpu: str) -> None:
    """In one program: a matrix along its rows and along its columns, on either side of the vector."""

    def products(a: Tensor, x: Tensor) -> list[Tensor]:
        return [
            torch.mv(a, x),
            torch.mv(a.t(), a[:, 0] if k else a.sum(1)),
            x @ a.t() + 1,
            (x * 2) @ a.t().contiguous(),
            torch.dot(x, x),
        ]

    a = torch.randn(rows, k, dtype=dtype)
    x = torch.randn(k, dtype=dtype)
    compiled = check(products, (a, x), cpu=cpu, threads=1)
    if min(rows, k) > 16:  # smaller ones are alike
        assert set(_kernels(compiled)) == {"native.matvec"}


@pytest.mark.parametrize("threads", [1, 2])
def test_batches(threads: int) -> None:
    """One row, one column, shared operands and operands with gaps, by two threads, too."""

    def products(a: Tensor, x: Tensor, y: Tensor) -> list[Tensor]:
        return [
            a @ x,
            y @ a,
            a[0, 0] @ x,
            a[:, :, ::2, 1::3] @ x[:, :, 1::3],
            (y @ a).relu() + a[:, :, :1] * 0.5,
            x.mT @ a.mT,
        ]

    a, x, y = torch.randn(3, 4, 30, 21), torch.randn(3, 4, 21, 1), torch.randn(3, 1, 1, 30)
    check(products, (a, x, y), threads=threads)


def test_many_rows_on_two_threads() -> None:
    given = (torch.randn(1500, 700), torch.randn(700), torch.randn(1500))
    compiled = check(lambda a, x, y: (a @ x, y @ a), given, threads=2)
    assert compiled.ir("kernel").count("team = 1") == 0


def test_sizes_that_are_not_known() -> None:
    """A named number of columns may well be one; a named batch multiplies by a row."""
    n, b = Dim("n", min=1, max=40), Dim("b", min=1, max=9)
    shapes = ({0: b}, {0: b, 2: n})
    other = [
        (torch.randn(count, 1, 12), torch.randn(count, 12, columns))
        for count, columns in ((1, 1), (9, 40), (2, 1), (1, 17))
    ]
    check(
        lambda x, y: x @ y,
        (torch.randn(3, 1, 12), torch.randn(3, 12, 5)),
        calls=other,
        dynamic_shapes=shapes,
    )


def test_a_linear_whose_weight_may_change() -> None:
    """Nothing of it is packed, so a row reads it as it lies."""
    model = nn.Linear(70, 33).eval()
    compiled = check(model, (torch.randn(1, 70),), freeze=False)
    assert _kernels(compiled) == ["native.matvec"]
    check(functional.linear, (torch.randn(70), torch.randn(33, 70), torch.randn(33)))


def test_infinities_beyond_the_end_of_a_row_stay_there() -> None:
    """Lanes beyond the last element are no elements."""
    a = torch.full((9, 20), torch.inf)
    a[:, :13] = torch.randn(9, 13)
    check(lambda a, x: (a[:, :13] @ x, x @ a.t()[:13]), (a, torch.randn(13)))


def _bfloat(*sizes: int) -> Tensor:
    return torch.randn(sizes).bfloat16()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("m", "k", "n"),
    [(1, 2, 3), (2, 0, 3), (5, 64, 33), (17, 40, 48), (7, 131, 65), (33, 62, 32), (64, 600, 40)],
)
def test_bfloat16(m: int, k: int, n: int, threads: int) -> None:
    """Either operand along either side, in batches, with an epilogue; an odd k is widened."""

    def products(a: Tensor, b: Tensor) -> list[Tensor]:
        return [
            a @ b,
            a[0] @ b[0, 1] + 1,
            a @ b.mT.contiguous().mT,
            a.mT.contiguous().mT @ b,
            (a @ b).relu().float(),
        ]

    compiled = check(products, (_bfloat(3, 2, m, k), _bfloat(3, 2, k, n)), threads=threads)
    if "dot_bf16 = 1" in compiled.ir("kernel") and k % 2 == 0 and k > 0 and m > 1:
        assert set(_kernels(compiled)) == {"native.matmul_bf16"}


def test_bfloat16_that_others_read() -> None:
    """One tensor is both operands; the widened numbers have readers of their own; the CPU has no products of pairs."""
    check(lambda a: (a @ a, a @ a.mT, a.float().sum(), a * 2), (_bfloat(34, 34),))
    check(lambda a, b: a.float() @ b.float(), (_bfloat(8, 16), _bfloat(16, 8)))
    compiled = check(lambda a, b: a @ b, (_bfloat(20, 30), _bfloat(30, 20)), cpu="x86-64-v3")
    assert _kernels(compiled) == ["native.matmul"]


def test_bfloat16_of_any_batch() -> None:
    shapes = ({0: Dim("b", min=1, max=9)},) * 2
    calls = [(_bfloat(n, 20, 32), _bfloat(n, 32, 19)) for n in (1, 9)]
    check(
        lambda a, b: a @ b,
        (_bfloat(3, 20, 32), _bfloat(3, 32, 19)),
        calls=calls,
        dynamic_shapes=shapes,
    )
