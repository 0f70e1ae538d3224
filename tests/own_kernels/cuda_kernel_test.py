# SPDX-License-Identifier: Apache-2.0
"""CUDA kernels of users: compiled by NVRTC without a device, and run on the host by tests/run/cuda_on_host.py."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import straightline as sl
import torch
from libraries import HERE
from torch import Tensor

sys.path[:0] = [str(HERE.parent / "run"), str(HERE)]

import cuda_kernels  # noqa: E402
from cuda_on_host import run_on_host  # noqa: E402

TARGET = "cuda:sm_90"


@pytest.fixture
def scale() -> Iterator[Any]:
    kernel = cuda_kernels.scale()
    yield kernel
    kernel.unregister()


@pytest.fixture
def increment() -> Iterator[Any]:
    kernel = cuda_kernels.increment()
    yield kernel
    kernel.unregister()


class _Scaled(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(torch.ops.own_cuda.scale(x, 2.5, x.shape[0] * x.shape[1]) + x)


def _rows(fn: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(fn._compilation.explain_json)["statements"]
    return rows


def test_a_kernel_is_one_of_the_programs(scale: Any, tmp_path: Path) -> None:
    x = torch.randn(30, 10)
    fn = sl.compile(_Scaled(), (x,), target=TARGET)
    own = [row for row in _rows(fn) if row["family"] == "own"]
    assert [(row["blocks"], row["block_threads"], row["op"]) for row in own] == [(3, 128, "own_cuda.scale")]
    assert len(fn._compilation.images) == 2
    got = torch.empty_like(x)
    run_on_host(fn, _Scaled(), (x,), (got,), tmp_path)
    torch.testing.assert_close(got, torch.relu(x * 2.5 + x))


def test_named_sizes_are_in_the_grid(scale: Any, tmp_path: Path) -> None:
    batch = torch.export.Dim("b", min=1, max=500)
    fn = sl.compile(_Scaled(), (torch.randn(4, 10),), target=TARGET, dynamic_shapes=({0: batch},))
    for rows in (1, 13, 200):
        x = torch.randn(rows, 10)
        got = torch.empty_like(x)
        run_on_host(fn, _Scaled(), (x,), (got,), tmp_path)
        torch.testing.assert_close(got, torch.relu(x * 2.5 + x))


@pytest.mark.parametrize("is_given", [False, True])
def test_updates_and_absent_tensors(increment: Any, tmp_path: Path, is_given: bool) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Tensor, by: Tensor) -> Tensor:
            y = torch.relu(x)
            torch.ops.own_cuda.increment(y, by if is_given else None, 100)
            return y * 2

    x, by = torch.randn(100), torch.tensor([3.0])
    fn = sl.compile(Model(), (x, by), target=TARGET)
    assert not [row for row in _rows(fn) if "copy" in row["op"]]
    got = torch.empty_like(x)
    run_on_host(fn, Model(), (x, by), (got,), tmp_path)
    torch.testing.assert_close(got, (torch.relu(x) + (3 if is_given else 1)) * 2)


def test_a_saved_model_has_the_machine_code(scale: Any, tmp_path: Path) -> None:
    fn = sl.compile(_Scaled(), (torch.randn(3, 10),), target=TARGET)
    fn.save(tmp_path / "m.sl", devices=("sm_80", "sm_90"))
    assert (tmp_path / "m.sl").stat().st_size > 0


def test_16_bit_floats_by_their_own_name(tmp_path: Path) -> None:
    source = "__global__ void halves(const unsigned short* x, unsigned short* y) { y[threadIdx.x] = x[threadIdx.x]; }"
    kernel = sl.cuda_kernel(source, "halves", "own_cuda::halves(Tensor x) -> Tensor", grid=(1, 32))
    try:

        class Model(torch.nn.Module):
            def forward(self, x: Tensor) -> Tensor:
                return torch.ops.own_cuda.halves(x)

        x = torch.randn(32).bfloat16()
        fn = sl.compile(Model(), (x,), target=TARGET)
        got = torch.empty_like(x)
        run_on_host(fn, Model(), (x,), (got,), tmp_path)
        assert torch.equal(got, x)
    finally:
        kernel.unregister()


def test_what_nvrtc_says_is_the_users_error() -> None:
    source = "__global__ void wrong(const float* x, float* y) { y[0] = undeclared; }"
    kernel = sl.cuda_kernel(source, "wrong", "own_cuda::wrong(Tensor x) -> Tensor", grid=(1, 32))
    try:

        class Model(torch.nn.Module):
            def forward(self, x: Tensor) -> Tensor:
                return torch.ops.own_cuda.wrong(x)

        with pytest.raises(
            sl.UserError, match=r'(?s)the CUDA kernel wrong cannot be compiled for sm_90.*"undeclared" is undefined'
        ):
            sl.compile(Model(), (torch.ones(2),), target=TARGET)
        with pytest.raises(sl.UserError, match=r"(?s)the CUDA kernel wrong cannot be compiled for sm_90.*double"):
            sl.compile(Model(), (torch.ones(2, dtype=torch.float64),), target=TARGET)
    finally:
        kernel.unregister()


def test_on_the_host_it_is_refused(scale: Any) -> None:
    x = torch.ones(2, 2)
    with pytest.raises(sl.UnsupportedError, match="own_cuda::scale is a CUDA kernel but the program runs on the host"):
        sl.compile(_Scaled(), (x,))
    with pytest.raises(NotImplementedError, match="own_cuda::scale"):
        torch.ops.own_cuda.scale(x, 1.0, 4)


@pytest.mark.parametrize(
    ("source", "schema", "grid", "error", "said"),
    [
        (cuda_kernels.SCALE, "scale(Tensor x, str[] s) -> Tensor", (1, 1), sl.UnsupportedError, "the argument 's' of type str"),
        (cuda_kernels.SCALE, "scale(float a) -> Tensor", (1, 1), sl.UnsupportedError, "no tensor argument"),
        (cuda_kernels.SCALE, "scale(Tensor x) -> Tensor", (1, 2048), sl.UserError, r"grid of own_cuda::scale is \(1, 2048\)"),
        (cuda_kernels.SCALE, "scale(Tensor x) -> Tensor", 3, sl.UserError, "grid of own_cuda::scale is 3, expected"),
        (cuda_kernels.SCALE, "scale(Tensor x) -> Tensor", (0, 32), sl.UserError, r"grid of own_cuda::scale is \(0, 32\)"),
        ("__device__ void scale() {}", "scale(Tensor x) -> Tensor", (1, 1), sl.UserError, "no __global__ function scale"),
        ("nowhere.cu", "scale(Tensor x) -> Tensor", (1, 1), sl.UserError, "source nowhere.cu: No such file"),
    ],
)  # fmt: skip
def test_what_is_refused(source: str, schema: str, grid: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        sl.cuda_kernel(source, "scale", f"own_cuda::{schema}", grid=grid)


_TYPED = "__global__ void typed(const float* x, int n, float a, bool flag, float* y) { y[0] = x[0] * a + n + flag; }"


@pytest.mark.parametrize(
    ("schema", "given", "said"),
    [
        ("int n, float a, bool flag", (7, 0.1, True), ""),
        ("int n, float a, bool flag", (-(2**31), float("-inf"), False), ""),
        ("int n, int a, int flag", (1, 2**24, 1), ""),
        ("int n, float a, bool flag", (2**40, 0.1, True), "conversion resulted in truncation"),
        ("int n, float a, bool flag", (7, 1e300, True), r'narrowing conversion from "double" to "float"'),
        ("float n, float a, bool flag", (1.5, 0.1, True), r'narrowing conversion from "double" to "int"'),
        ("int n, int a, bool flag", (7, 2**60 + 1, True), r'narrowing conversion from "long long" to "float"'),
    ],
)
def test_numbers_that_the_parameters_cannot_hold(schema: str, given: tuple[Any, ...], said: str) -> None:
    kernel = sl.cuda_kernel(_TYPED, "typed", f"own_cuda::typed(Tensor x, {schema}) -> Tensor", grid=(1, 1))

    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.own_cuda.typed(x, *given)

    try:
        if said:
            with pytest.raises(sl.UserError, match=f"(?s)the CUDA kernel typed cannot be compiled for sm_90.*{said}"):
                sl.compile(Model(), (torch.ones(1),), target=TARGET)
        else:
            sl.compile(Model(), (torch.ones(1),), target=TARGET)
    finally:
        kernel.unregister()


@pytest.mark.parametrize("kind", ["int", "int64_t"])
def test_a_size_that_only_a_call_knows_is_of_64_bits(kind: str) -> None:
    source = f"__global__ void first(const float* x, {kind} n, float* y) {{ y[0] = x[n - 1]; }}"
    kernel = sl.cuda_kernel(source, "first", "own_cuda::first(Tensor x, SymInt n) -> Tensor", grid=(1, 1))

    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.own_cuda.first(x, x.shape[0])

    n = torch.export.Dim("n", min=1, max=2**40)
    compiled = lambda: sl.compile(Model(), (torch.ones(4),), target=TARGET, dynamic_shapes={"x": {0: n}})  # noqa: E731
    try:
        if kind == "int64_t":
            compiled()
        else:
            with pytest.raises(sl.UserError, match=r'narrowing conversion from "long long" to "int"'):
                compiled()
    finally:
        kernel.unregister()


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("Tensor x, int n, float a, bool flag) -> (Tensor, Tensor)", "too many arguments"),
        ("Tensor(a!) x, int n, float a, bool flag) -> ()", "too few arguments"),
        ("Tensor x, int n, float a) -> Tensor", "too few arguments"),
        ("int n, Tensor x, float a, bool flag) -> Tensor", "cannot be used to initialize|incompatible with parameter"),
    ],
)
def test_a_schema_that_the_kernel_does_not_have(schema: str, said: str) -> None:
    kernel = sl.cuda_kernel(_TYPED, "typed", f"own_cuda::typed({schema}", grid=(1, 1))
    values = {"x": torch.ones(1), "n": 7, "a": 0.5, "flag": True}
    names = [part.split()[-1] for part in schema.partition(")" if "(a!)" not in schema else ") ->")[0].split(",")]

    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Any:
            return torch.ops.own_cuda.typed(**{name: x if name == "x" else values[name] for name in names})

    try:
        with pytest.raises(sl.UserError, match=f"(?s)the CUDA kernel typed cannot be compiled for sm_90.*{said}"):
            sl.compile(Model(), (torch.ones(1),), target=TARGET)
    finally:
        kernel.unregister()


def test_more_shared_memory_than_there_is() -> None:
    source = """
    __global__ void turned(const float* x, float* y) {
      __shared__ float all[30000];
      all[threadIdx.x * 900] = x[threadIdx.x];
      __syncthreads();
      y[threadIdx.x] = all[(31 - threadIdx.x) * 900];
    }"""
    kernel = sl.cuda_kernel(source, "turned", "own_cuda::turned(Tensor x) -> Tensor", grid=(1, 32))

    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.own_cuda.turned(x)

    try:
        with pytest.raises(sl.UserError, match=r"(?s)kernel turned cannot be compiled for sm_86.*too much shared data"):
            sl.compile(Model(), (torch.ones(32),), target="cuda:sm_86")
    finally:
        kernel.unregister()


class _Momentum(torch.nn.Module):
    """Its lists are made in the program, so that what it updates comes out as results."""

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        third = len(tensors) // 3
        x = [torch.relu(each) for each in tensors[:third]]
        m = [torch.exp(each) for each in tensors[2 * third :]]
        torch.ops.own_cuda.momentum(x, list(tensors[third : 2 * third]), m, [each.numel() for each in x], [0.1, 0.9])
        return (*(each * 2 for each in x), *(each + 1 for each in m))


def test_lists(tmp_path: Path) -> None:
    kernel = cuda_kernels.momentum()
    try:
        shapes = [(300,), (2, 7), (), (5, 1, 3)]
        tensors = [torch.randn(shape) for _ in range(3) for shape in shapes]
        fn = sl.compile(_Momentum(), tuple(tensors), target=TARGET)
        rows = _rows(fn)
        assert sum(row["family"] == "own" for row in rows) == 1
        assert not [row for row in rows if "copy" in row["op"]]
        got = [torch.empty_like(each) for each in (*tensors[:4], *tensors[8:])]
        run_on_host(fn, _Momentum(), tuple(tensors), tuple(got), tmp_path)
        for i in range(4):
            m = 0.9 * tensors[8 + i].exp() + tensors[4 + i]
            torch.testing.assert_close(got[i], (tensors[i].relu() - 0.1 * m) * 2)
            torch.testing.assert_close(got[4 + i], m + 1)
    finally:
        kernel.unregister()


def test_a_list_of_200_tensors_is_compiled() -> None:
    """600 pointers are 4.8 KB of parameters, more than the 4 KB of old."""
    kernel = cuda_kernels.momentum()
    try:
        tensors = [torch.randn(33) for _ in range(600)]
        fn = sl.compile(_Momentum(), tuple(tensors), target=TARGET)
        assert sum(row["family"] == "own" for row in _rows(fn)) == 1
        assert len(fn._compilation.images) >= 1
    finally:
        kernel.unregister()


class _Reversed(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.own_cuda.reversed(x, "rows", torch.float32, True, 32) + 1


def test_text_dtype_workspace_and_shared_memory(tmp_path: Path) -> None:
    kernel = cuda_kernels.reversed_rows()
    try:
        x = torch.randn(5, 32)
        fn = sl.compile(_Reversed(), (x,), target=TARGET)
        assert "extern __shared__" not in fn.code
        got = torch.empty_like(x)
        run_on_host(fn, _Reversed(), (x,), (got,), tmp_path)
        assert torch.equal(got, x.flip(1) * 2 + 1)
    finally:
        kernel.unregister()


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"shared": 0}, sl.UserError, "declares dynamic shared memory, extern __shared__: give its bytes"),
        ({"shared": -4}, sl.UserError, "shared of own_cuda::reversed is -4"),
        ({"shared": 1 << 20}, sl.UnsupportedError, "asks for 1048576 bytes of shared memory"),
        ({"workspace": -1}, sl.UserError, "workspace of own_cuda::reversed is -1"),
    ],
)
def test_sizes_that_do_not_fit(options: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        cuda_kernels.reversed_rows(**options)


def test_sizes_of_a_call_that_do_not_fit() -> None:
    kernel = cuda_kernels.reversed_rows(shared=lambda *given: "many")
    try:
        with pytest.raises(sl.UserError, match="shared of own_cuda::reversed is 'many'"):
            sl.compile(_Reversed(), (torch.ones(5, 32),), target=TARGET)
    finally:
        kernel.unregister()


def test_shared_memory_that_the_text_does_not_declare() -> None:
    with pytest.raises(sl.UserError, match="declares 0 arrays of dynamic shared memory"):
        sl.cuda_kernel(cuda_kernels.SCALE, "scale", "own_cuda::scale(Tensor x) -> Tensor", grid=(1, 32), shared=64)
    twice = cuda_kernels.REVERSED.replace("float* scratch", "extern __shared__ int more[]; float* scratch")
    with pytest.raises(sl.UserError, match="declares 2 arrays of dynamic shared memory"):
        sl.cuda_kernel(twice, "reversed", "own_cuda::reversed(Tensor x) -> Tensor", grid=(1, 32), shared=64)


@pytest.mark.parametrize(
    ("grid", "said"),
    [
        (lambda x, a, n: "many", "grid of own_cuda::scale is 'many'"),
        (lambda x, a, n: (n // 1024, 32), r"grid of own_cuda::scale is \(0, 32\)"),
        (lambda x, a, n: 1 // 0, "grid of own_cuda::scale raised ZeroDivisionError: "),
        (lambda x: (1, 32), "grid of own_cuda::scale raised TypeError: .*positional argument"),
    ],
)
def test_a_grid_that_gives_something_else(scale: Any, grid: Any, said: str) -> None:
    scale.unregister()
    kernel = sl.cuda_kernel(
        cuda_kernels.SCALE, "scale", "own_cuda::scale(Tensor x, float a, SymInt n) -> Tensor", grid=grid
    )
    try:
        with pytest.raises(sl.UserError, match=said):
            sl.compile(_Scaled(), (torch.ones(2, 2),), target=TARGET)
    finally:
        kernel.unregister()
