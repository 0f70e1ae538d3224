# SPDX-License-Identifier: Apache-2.0
"""Kernels of users on a device: CUDA text in eager, in a graph, by stream and saved; a C function that takes the stream."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import straightline as sl
import torch
from torch import Tensor, nn

_OWN = Path(__file__).resolve().parents[1] / "own_kernels"
sys.path.insert(0, str(_OWN))

import cuda_kernels  # noqa: E402


class _Scaled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(torch.ops.own_device.scale(x, 2.5, x.shape[0] * x.shape[1]) + x)


@pytest.fixture
def scale() -> Iterator[Any]:
    kernel = cuda_kernels.scale("own_device::scale")
    yield kernel
    kernel.unregister()


@pytest.mark.parametrize("launch", ["graph", "stream"])
def test_a_kernel_in_a_program(scale: Any, launch: str) -> None:
    x = torch.randn(300, 10, device="cuda")
    fn = sl.compile(_Scaled(), (x,), launch=launch)
    assert fn.explain()["launch"] == launch
    for _ in range(3):
        y = torch.randn_like(x)
        assert torch.equal(fn(y), torch.relu(y * 2.5 + y))
    with sl.fast_path(False):
        assert torch.equal(fn(x), torch.relu(x * 2.5 + x))


def test_in_eager(scale: Any) -> None:
    x = torch.randn(7, 9, device="cuda")
    assert torch.equal(torch.ops.own_device.scale(x, 0.5, 63), x * 0.5)


def test_named_sizes(scale: Any) -> None:
    batch = torch.export.Dim("b", min=1, max=5000)
    fn = sl.compile(_Scaled(), (torch.randn(4, 10, device="cuda"),), dynamic_shapes=({0: batch},))
    for rows in (1, 77, 5000):
        x = torch.randn(rows, 10, device="cuda")
        assert torch.equal(fn(x), torch.relu(x * 2.5 + x))


def test_in_place() -> None:
    kernel = cuda_kernels.increment("own_device::increment")
    try:

        class Model(nn.Module):
            def forward(self, x: Tensor) -> None:
                torch.ops.own_device.increment(x, None, 100)

        x = torch.randn(100, device="cuda")
        wanted = x + 1
        sl.compile(Model(), (x.clone(),))(x)
        assert torch.equal(x, wanted)
    finally:
        kernel.unregister()


def test_saved(scale: Any, tmp_path: Path) -> None:
    x = torch.randn(30, 10, device="cuda")
    fn = sl.compile(_Scaled(), (x,))
    fn.save(tmp_path / "m.sl")
    assert torch.equal(sl.load(tmp_path / "m.sl")(x), fn(x))


def test_lists_of_tensors_in_eager_and_in_a_program() -> None:
    kernel = cuda_kernels.momentum("own_device::momentum")
    try:

        class Step(nn.Module):
            def forward(self, x: list[Tensor], g: list[Tensor], m: list[Tensor]) -> None:
                torch.ops.own_device.momentum(x, g, m, [each.numel() for each in x], [0.1, 0.9])

        x, g, m = ([torch.randn(1 + 7 * i, device="cuda") for i in range(200)] for _ in range(3))
        wanted_m = [0.9 * a + b for a, b in zip(m, g)]
        wanted_x = [a - 0.1 * b for a, b in zip(x, wanted_m)]
        own_x, own_m = ([each.clone() for each in of] for of in (x, m))
        fn = sl.compile(Step(), ([each.clone() for each in x], g, [each.clone() for each in m]))
        fn(own_x, g, own_m)
        for got, wanted in zip((*own_x, *own_m), (*wanted_x, *wanted_m)):
            torch.testing.assert_close(got, wanted)
        Step()(x[:3], g[:3], m[:3])
        for got, wanted in zip((*x[:3], *m[:3]), (*own_x[:3], *own_m[:3])):
            assert torch.equal(got, wanted)
    finally:
        kernel.unregister()


@pytest.mark.parametrize("launch", ["graph", "stream"])
def test_shared_memory_and_a_workspace(launch: str) -> None:
    kernel = cuda_kernels.reversed_rows("own_device::reversed")
    try:

        class Model(nn.Module):
            def forward(self, x: Tensor) -> Tensor:
                return torch.ops.own_device.reversed(x, "rows", torch.float32, True, x.shape[1]) + 1

        for columns in (32, 1024):
            x = torch.randn(5, columns, device="cuda")
            fn = sl.compile(Model(), (x,), launch=launch)
            for _ in range(2):
                y = torch.randn_like(x)
                assert torch.equal(fn(y), y.flip(1) * 2 + 1)
            assert torch.equal(torch.ops.own_device.reversed(x, "rows", torch.float32, False, columns), x.flip(1))
    finally:
        kernel.unregister()


_STREAMED = """
#include <straightline/abi/own_kernel.h>
#include <dlfcn.h>
typedef int (*copy_fn)(unsigned long long to, unsigned long long from, unsigned long bytes, void* stream);
SL_KERNEL_FUNCTION(int32_t, copied, const sl_kernel_tensor* x, const sl_kernel_tensor* y, void* stream, char* message) {
  copy_fn copy = (copy_fn)dlsym(dlopen("libcuda.so.1", RTLD_LAZY), "cuMemcpyDtoDAsync_v2");
  (void)message;
  return copy((unsigned long long)y->data, (unsigned long long)x->data, sl_kernel_tensor_count(x) * 4, stream);
}
"""


@pytest.mark.parametrize("launch", ["graph", "stream"])
def test_a_function_that_takes_the_stream(tmp_path: Path, launch: str) -> None:
    include = Path(sl.__file__).parent.parents[1] / "include"
    include = include if include.exists() else Path(sl.__file__).parent / "include"
    (tmp_path / "copied.c").write_text(_STREAMED, encoding="ascii")
    library = tmp_path / "libcopied.so"
    command = ["gcc", "-O2", "-fPIC", "-shared", f"-I{include}", str(tmp_path / "copied.c"), "-o", str(library), "-ldl"]
    subprocess.run(command, check=True)
    kernel = sl.c_kernel(library, "copied", "own_device::copied(Tensor x) -> Tensor", status=True, stream=True)
    try:

        class Model(nn.Module):
            def forward(self, x: Tensor) -> Tensor:
                return torch.ops.own_device.copied(x * 2) + 1

        x = torch.randn(1000, device="cuda")
        fn = sl.compile(Model(), (x,), launch=launch)
        for _ in range(3):
            y = torch.randn_like(x)
            assert torch.equal(fn(y), y * 2 + 1)
        assert torch.equal(torch.ops.own_device.copied(x), x)
    finally:
        kernel.unregister()
