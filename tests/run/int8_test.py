# SPDX-License-Identifier: Apache-2.0
"""Products of 8-bit integers: exact, whatever the shapes, the CPU and the threads."""

from __future__ import annotations

import random
from pathlib import Path
from collections.abc import Callable
from typing import Any

import pytest
import straightline as sl
import torch
from torch import Tensor, nn


def int8(*shape: int) -> Tensor:
    """Random numbers of the whole range; one draw in four has the extreme ones alone."""
    if random.random() < 0.25:
        return torch.where(torch.rand(shape) < 0.5, -128, 127).to(torch.int8)
    return torch.randint(-128, 128, shape, dtype=torch.int8)


class IntMm(nn.Module):
    """A constant second factor, stored as [n, k] or as [k, n]."""

    def __init__(self, n: int, k: int, transposed: bool) -> None:
        super().__init__()
        self.register_buffer("w", int8(n, k) if transposed else int8(k, n))
        self.transposed = transposed

    def forward(self, x: Tensor) -> Tensor:
        return torch._int_mm(x, self.w.t() if self.transposed else self.w)

    def exact(self, x: Tensor) -> Tensor:
        """In float64. torch 2.13's own product is not filled in where a [n, 1] weight is transposed."""
        return (x.double() @ (self.w.t() if self.transposed else self.w).double()).int()


def _kernels(compiled: Any, phase: str = "run") -> list[str]:
    return [row["kernel"] for row in compiled.explain().statements if row["phase"] == phase]


#: Full tiles and every kind of remainder: of rows, columns and quads of k.
SHAPES = [(1, 64, 64), (1, 1, 1), (2, 130, 33), (5, 17, 66), (12, 48, 31), (97, 33, 128), (16, 256, 512), (5, 66, 1)]


#: A program for a CPU with AVX-512 runs on one alone.
_HAS_AVX512 = "avx512vl" in Path("/proc/cpuinfo").read_text()


@pytest.mark.parametrize(
    "cpu",
    ["", "x86-64-v3", pytest.param("x86-64-v4", marks=pytest.mark.skipif(not _HAS_AVX512, reason="needs AVX-512"))],
)
@pytest.mark.parametrize("transposed", [True, False])
def test_constant_weight(cpu: str, transposed: bool) -> None:
    sizes = [*SHAPES, (random.randint(1, 40), random.randint(1, 90), random.randint(1, 200))]
    models = [IntMm(n, k, transposed) for _, n, k in sizes]
    inputs = [int8(m, k) for m, _, k in sizes]

    class All(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList(models)

        def forward(self, xs: list[Tensor]) -> list[Tensor]:
            return [part(x) for part, x in zip(self.parts, xs, strict=True)]

    model = All()
    compiled = sl.compile(model, (inputs,), cpu=cpu)
    assert all(name.startswith("gemm_int8") for name in _kernels(compiled)), _kernels(compiled)
    for _ in range(2):
        for size, part, x, got in zip(sizes, models, inputs, compiled(inputs), strict=True):
            assert torch.equal(got, part.exact(x)), size
        inputs = [int8(m, k) for m, _, k in sizes]


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_share_it(threads: int) -> None:
    model = IntMm(700, 515, True)
    x = int8(61, 515)
    compiled = sl.compile(model, (x,), threads=threads)
    assert torch.equal(compiled(x), model(x))
    row = IntMm(3000, 1026, True)
    compiled = sl.compile(row, (x.new_ones(1, 1026),), threads=threads)
    x = int8(1, 1026)
    assert torch.equal(compiled(x), row(x))


@pytest.mark.parametrize("layout", ["rows", "columns", "strided"])
def test_both_given(layout: str) -> None:
    """The second factor is packed on each call, wherever it is contiguous."""

    def product(x: Tensor, w: Tensor) -> Tensor:
        return torch._int_mm(x, w)

    def given(k: int, n: int) -> Tensor:
        return {"rows": int8(k, n), "columns": int8(n, k).t(), "strided": int8(2 * k, 3 * n)[::2, ::3]}[layout]

    for m, n, k in [(3, 40, 70), (33, 16, 64), (1, 5, 3)]:
        x, w = int8(m, k), given(k, n)
        compiled = sl.compile(product, (x, w))
        assert any("pack_gemm_int8" in name for name in _kernels(compiled)), _kernels(compiled)
        for _ in range(2):
            assert torch.equal(compiled(x, w), product(x, w)), (m, n, k)
            x, w = int8(m, k), given(k, n)


def test_named_rows() -> None:
    model = IntMm(65, 130, True)
    compiled = sl.compile(model, (int8(4, 130),), dynamic_shapes={"x": {0: torch.export.Dim("rows", min=1, max=64)}})
    for rows in (1, 2, 13, 64):
        x = int8(rows, 130)
        assert torch.equal(compiled(x), model(x)), rows


def test_what_follows_is_fused() -> None:
    class Scaled(IntMm):
        def __init__(self) -> None:
            super().__init__(50, 77, True)
            self.scale, self.bias = nn.Parameter(torch.rand(50)), nn.Parameter(torch.randn(50))

        def forward(self, x: Tensor) -> Tensor:
            return (super().forward(x).float() * self.scale + self.bias).relu()

    model, x = Scaled().eval(), int8(9, 77)
    compiled = sl.compile(model, (x,))
    with torch.no_grad():
        assert torch.equal(compiled(x), model(x))
    assert len(_kernels(compiled)) == 1, _kernels(compiled)


def test_sums_wrap_at_32_bits() -> None:
    x = torch.full((2, 140001), -128, dtype=torch.int8)
    model = IntMm(3, 140001, True)
    model.w.fill_(-128)
    assert torch.equal(sl.compile(model, (x,))(x), model(x))


@pytest.mark.parametrize("shape", [(0, 5, 3), (2, 0, 3), (2, 5, 0)], ids=str)
def test_empty(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    x, w = int8(m, k), int8(k, n)
    assert torch.equal(sl.compile(torch._int_mm, (x, w))(x, w), torch._int_mm(x, w))


def test_unsigned_rows() -> None:
    """Eager takes a first factor of uint8."""
    model = IntMm(33, 70, True)
    x = torch.randint(0, 256, (7, 70), dtype=torch.uint8)
    compiled = sl.compile(model, (x,))
    assert torch.equal(compiled(x), model(x))
    assert _kernels(compiled)[-1].startswith("gemm_int8"), _kernels(compiled)
    w = int8(70, 33)
    assert torch.equal(sl.compile(torch._int_mm, (x, w))(x, w), torch._int_mm(x, w))


@pytest.mark.parametrize(
    "dtypes", [(torch.int32, torch.int8), (torch.int8, torch.uint8), (torch.float32, torch.int8)], ids=str
)
def test_other_types_are_named(dtypes: tuple[torch.dtype, torch.dtype]) -> None:
    x, w = torch.ones(2, 3).to(dtypes[0]), torch.ones(3, 2).to(dtypes[1])
    with pytest.raises(sl.UserError, match="expected (self|mat2) to be int8"):
        sl.compile(torch._int_mm, (x, w))


def test_measured() -> None:
    """`tune=True` has ways to measure."""
    model, x = IntMm(64, 128, True), int8(20, 128)
    compiled = sl.compile(model, (x,), tune=True)
    assert torch.equal(compiled(x), model(x))
    choices = [row["why"] for row in compiled.explain().statements if row["phase"] == "run"]
    assert choices[0].startswith("measured: native.gemm_int8["), choices


def test_three_ways_are_equal() -> None:
    model, x = IntMm(33, 70, False), int8(11, 70)
    want = model(x)
    for options in ({"emit": "python"}, {"fast_path": False}):
        run: Callable[..., Any] = sl.compile(model, (x,), **options)
        assert torch.equal(run(x), want), options
