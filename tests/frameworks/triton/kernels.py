# SPDX-License-Identifier: Apache-2.0
"""Triton kernels that the tests here compile, and tests/device runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import straightline as sl
import triton
import triton.language as tl


@triton.jit
def times(x, by):
    """A callee: its text is part of what the machine code depends on."""
    return x * by


@triton.jit
def scaled_add(x_ptr, y_ptr, out_ptr, n, alpha, BLOCK: tl.constexpr):
    """Out = x + alpha y, n elements."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.load(y_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x + times(y, alpha), mask=at < n)


@triton.jit
def increment(x_ptr, by_ptr, n, BLOCK: tl.constexpr):
    """X += by[0], or 1 where by is None."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    by = 1.0 if by_ptr is None else tl.load(by_ptr)
    tl.store(x_ptr + at, tl.load(x_ptr + at, mask=at < n) + by, mask=at < n)


@triton.jit
def product(a_ptr, b_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, c_ptr):
    """Writes c[m, n] = a[m, k] b[k, n] in float16; blocks in two dims."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    sums = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        inner = start + tl.arange(0, BK)
        a = tl.load(
            a_ptr + rows[:, None] * k + inner[None, :], mask=(rows[:, None] < m) & (inner[None, :] < k), other=0
        )
        b = tl.load(
            b_ptr + inner[:, None] * n + columns[None, :], mask=(inner[:, None] < k) & (columns[None, :] < n), other=0
        )
        sums += tl.dot(a, b)
    mask = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], sums.to(tl.float16), mask=mask)


@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["columns"])})
@triton.jit
def softmax_rows(x_ptr, columns, out_ptr, BLOCK: tl.constexpr):
    """A row a block."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * columns + at, e / tl.sum(e, 0), mask=at < columns)


@triton.jit
def all_together(x_ptr, counts_ptr, n, BLOCK: tl.constexpr, out_ptr):
    """Writes to each element the sum of all, whose parts are in counts[1:]; counts[0] is the number of blocks that have theirs."""
    block, blocks = tl.program_id(0), tl.num_programs(0)
    at = block * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(counts_ptr + 1, tl.sum(tl.load(x_ptr + at, mask=at < n, other=0), 0), sem="release")
    tl.debug_barrier()
    tl.atomic_add(counts_ptr, 1, sem="acq_rel")
    while tl.atomic_add(counts_ptr, 0, sem="acquire") < blocks:
        pass
    total = tl.atomic_add(counts_ptr + 1, 0, sem="acquire")
    tl.store(out_ptr + at, tl.zeros((BLOCK,), tl.int32) + total, mask=at < n)


def add_op(name: str, **options: Any) -> Any:
    """`scaled_add` as an op of 1,024 elements a block."""
    given: dict[str, Any] = {
        "constants": {"BLOCK": 1024},
        "grid": lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),),
    }
    return sl.triton_kernel(
        scaled_add, f"{name}(Tensor x_ptr, Tensor y_ptr, SymInt n, float alpha) -> Tensor", **{**given, **options}
    )


def increment_op(name: str, **options: Any) -> Any:
    """`increment` in place."""
    return sl.triton_kernel(
        increment, f"{name}(Tensor(a!) x_ptr, Tensor? by_ptr, SymInt n) -> ()", grid=lambda meta: (triton.cdiv(meta["n"], 128),),
        constants={"BLOCK": 128}, num_warps=1, **options,
    )  # fmt: skip


def product_op(name: str, **options: Any) -> Any:
    """`product` in tiles of 64 x 32."""
    return sl.triton_kernel(
        product, f"{name}(Tensor a_ptr, Tensor b_ptr, SymInt m, SymInt n, SymInt k) -> Tensor",
        grid=lambda meta: (triton.cdiv(meta["m"], meta["BM"]), triton.cdiv(meta["n"], meta["BN"])),
        fake=lambda a, b, m, n, k: a.new_empty(m, n), **{"constants": {"BM": 64, "BN": 32, "BK": 32}, "num_stages": 3, **options},
    )  # fmt: skip


def together_op(name: str, **options: Any) -> Any:
    """`all_together` of int32, whose blocks wait for each other."""
    return sl.triton_kernel(
        all_together, f"{name}(Tensor x_ptr, Tensor(a!) counts_ptr, SymInt n) -> Tensor",
        grid=lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),), constants={"BLOCK": 128},
        launch_cooperative_grid=True, **options,
    )  # fmt: skip


def softmax_op(name: str, **options: Any) -> Any:
    """`softmax_rows` of a matrix."""
    return sl.triton_kernel(
        softmax_rows,
        f"{name}(Tensor x_ptr, int columns) -> Tensor",
        grid=lambda meta: (meta["x_ptr"].shape[0],),
        **options,
    )


@contextmanager
def registering() -> Iterator[Callable[..., Any]]:
    """A function that registers an op by one of those here; the ops go with the block."""
    made = []

    def register(make: Callable[..., Any], name: str, **options: Any) -> Any:
        made.append(make(name, **options))
        return made[-1]

    yield register
    for kernel in made:
        kernel.unregister()
