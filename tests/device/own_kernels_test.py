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
