# SPDX-License-Identifier: Apache-2.0
"""Large linear layers through oneDNN: an external backend with a plan, a handle, workspace and a cost."""

from __future__ import annotations

import copy
import gc
import os
import pathlib
import shutil
import subprocess
import sys
from typing import Any

import pytest
import torch
from policy import check, check_close, launches
from torch import Tensor, nn

import straightline as sl
from straightline import _internal

_PACKAGE = pathlib.Path(sl.__file__).parent
_LIBRARY = _PACKAGE / "libstraightline_backend_onednn.so"
_INCLUDE = _PACKAGE.parent.parent / "include"
_FLAGS = ["-std=c++20", "-march=x86-64-v3", "-Wall", "-Wextra", "-Wno-psabi", "-Werror", "-fsyntax-only"]

pytestmark = pytest.mark.skipif(not _LIBRARY.exists(), reason="built without oneDNN")


def _linear(n: int, k: int, *, bias: bool = True, relu: bool = False) -> nn.Module:
    layer: nn.Module = nn.Linear(k, n, bias=bias)
    return nn.Sequential(layer, nn.ReLU()).eval() if relu else layer.eval()


def _error_of_a_sum_in_order(model: nn.Module, x: Tensor, want: Tensor) -> float:
    """The largest error of products that are added one by one in float32.

    So oneDNN adds them on a CPU without AVX-512, where torch adds several partial sums: 4096 products are then off by 5e-6, torch's
    by 7e-7.
    """
    layer = model[0] if isinstance(model, nn.Sequential) else model
    with torch.no_grad():
        sums = torch.zeros(x.shape[0], layer.out_features)
        for column, weight in zip(x.t(), layer.weight.t().contiguous(), strict=True):
            sums.addcmul_(column[:, None], weight[None])
        sums = sums if layer.bias is None else sums + layer.bias
        sums = sums.relu() if layer is not model else sums
        return (sums.double() - want).abs().max().item()


def _backends(compiled: Any) -> list[str]:
    return [row["backend"] for row in launches(compiled)]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("sizes", [(64, 1024, 1024), (4, 4096, 4096), (3, 24, 40)])
def test_matches_eager(sizes: tuple[int, int, int], bias: bool, relu: bool, threads: int) -> None:
    m, n, k = sizes
    model = _linear(n, k, bias=bias, relu=relu)
    compiled = _internal.compile(model, (torch.randn(m, k),), threads=threads, internal={"prefer": "onednn"})
    for x in (torch.randn(m, k), torch.randn(m, k)):
        want = copy.deepcopy(model).double()(x.double())
        with torch.no_grad():
            check_close(compiled(x), model(x), want, error_of_torch=_error_of_a_sum_in_order(model, x, want))
    assert _backends(compiled) == ["onednn"] + ["native"] * relu
    row = launches(compiled)[0]
    assert (
        row["why"].startswith("onednn.inner_product: preferred, estimated") and "native.gemm: estimated" in row["why"]
    )


def test_rows_of_a_batch_and_a_strided_input() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(256, 384)

        def forward(self, x: Tensor) -> Tensor:
            return self.fc(x.transpose(0, 1))

    compiled = check(Model().eval(), (torch.randn(6, 5, 256),), internal={"prefer": "onednn"})
    assert "onednn" in _backends(compiled)


def test_a_weight_that_does_not_lie_densely_is_copied_once() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.randn(64, 48))

        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.linear(x, self.table.t(), self.table[:, 0][:48])

    compiled = check(Model().eval(), (torch.randn(7, 64),), internal={"prefer": "onednn"})
    assert "onednn" in _backends(compiled)
    assert [row["op"] for row in launches(compiled, "prepare")].count("copy") >= 1


def test_two_layers_of_one_shape_have_handles_of_their_own() -> None:
    model = nn.Sequential(nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 128)).eval()
    compiled = check(model, (torch.randn(16, 128),), threads=2, internal={"prefer": "onednn"})
    assert _backends(compiled).count("onednn") == 2
    prepare = compiled.code.split("int32_t sl_program_prepare(")[1].split("int32_t sl_program_run(")[0]
    assert prepare.count("sl_onednn_inner_product_plan(ctx") == 2
    destroyers = compiled.code.split("destroy_handles[])(void*) = {")[1].split("}")[0]
    assert destroyers.count("sl_onednn_inner_product_plan_destroy") == 2


def test_concurrent_calls_share_a_handle() -> None:
    import concurrent.futures

    model = _linear(512, 512, relu=True)
    compiled = _internal.compile(model, (torch.randn(32, 512),), threads=1, internal={"prefer": "onednn"})
    inputs = [torch.randn(32, 512) for _ in range(40)]
    with torch.no_grad(), concurrent.futures.ThreadPoolExecutor(4) as pool:
        for x, y in zip(inputs, pool.map(compiled, inputs), strict=True):
            torch.testing.assert_close(y, model(x))


def test_cost_decides() -> None:
    small = sl.compile(_linear(24, 40), (torch.randn(3, 40),), threads=1)
    assert _backends(small) == ["native"]
    assert "onednn.inner_product: estimated" in launches(small)[0]["why"]
    # For a CPU that begins two multiply-adds of 64 bytes a cycle native.gemm is taken.
    large = sl.compile(_linear(2048, 2048), (torch.randn(256, 2048),), threads=1, cpu="x86-64-v3")
    assert _backends(large) == ["onednn"]
    assert launches(large)[0]["why"].startswith("onednn.inner_product: estimated")


def test_refused_where_it_cannot() -> None:
    batch = torch.export.Dim("batch", min=1, max=64)
    compiled = _internal.compile(
        _linear(256, 256), (torch.randn(4, 256),), dynamic_shapes=({0: batch},), internal={"prefer": "onednn"}
    )
    row = launches(compiled)[0]
    assert row["backend"] == "native" and "dim 0 of x is dynamic, but the primitive is built for one size" in row["why"]
    double = _internal.compile(
        _linear(256, 256).double(), (torch.randn(4, 256).double(),), internal={"prefer": "onednn"}
    )
    assert launches(double)[0]["backend"] == "native"


def _resident_bytes() -> int:
    pages = pathlib.Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def test_handle_goes_with_the_weights() -> None:
    """Packed weights of 64 MiB a time: six programs that leak them would keep 384 MiB."""
    model, x = _linear(4096, 4096, bias=False), torch.randn(4, 4096)

    def once() -> None:
        compiled = _internal.compile(model, (x,), threads=1, internal={"prefer": "onednn"})
        compiled(x)
        assert _backends(compiled) == ["onednn"]

    once()
    gc.collect()
    before = _resident_bytes()
    for _ in range(6):
        once()
        gc.collect()
    grown = _resident_bytes() - before
    assert grown < 160 << 20, f"{grown >> 20} MiB stay behind"


@pytest.mark.parametrize("compiler", ["clang++-22", "g++"])
def test_listing_compiles_without_warnings(compiler: str, tmp_path: pathlib.Path) -> None:
    program = shutil.which(compiler)
    assert program is not None, f"{compiler} is not installed"
    model = nn.Sequential(nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 64, bias=False)).eval()
    compiled = _internal.compile(
        model, (torch.randn(32, 512),), threads=2, cpu="x86-64-v3", internal={"prefer": "onednn"}
    )
    assert _backends(compiled).count("onednn") == 2
    source = tmp_path / "listing.cpp"
    source.write_text(compiled.code)
    done = subprocess.run([program, *_FLAGS, f"-I{_INCLUDE}", source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]


def test_without_the_library_the_native_kernel_is_chosen(tmp_path: pathlib.Path) -> None:
    """A runtime that has no backend beside it: the same choice as if there were none, and `why` says so."""
    runtime = shutil.copy(_PACKAGE / "libstraightline_runtime.so", tmp_path)
    script = """
import torch
from straightline import _internal
layer, x = torch.nn.Linear(1024, 1024).eval(), torch.randn(64, 1024)
compiled = _internal.compile(layer, (x,), threads=1, internal={"prefer": "onednn"})
with torch.no_grad():
    torch.testing.assert_close(compiled(x), layer(x))
row = [row for row in compiled.explain().statements if row["phase"] == "run"][0]
print(row["backend"], "|", row["why"])
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LD_PRELOAD": runtime, "PYTHONPATH": str(_PACKAGE.parent)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    backend, why = done.stdout.strip().split(" | ")
    assert backend == "native" and "onednn.inner_product: not available: this build comes without it" in why
