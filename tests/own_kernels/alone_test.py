# SPDX-License-Identifier: Apache-2.0
"""Kernels of compiled functions by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest
import straightline as sl
import torch
from torch import Tensor


class _Model(torch.nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.relu(x + y) * 2


def _kernel(is_named: bool = False) -> Any:
    batch = {0: torch.export.Dim("b", min=1, max=64)}
    options = {"dynamic_shapes": (batch, batch)} if is_named else {}
    fn = sl.compile(_Model(), (torch.ones(4, 8), torch.ones(4, 8)), **options)
    (name,) = fn.kernels.keys()
    assert name in fn.kernels
    assert [entry.name for backend in fn.kernels for entry in backend] == [name]
    return fn.kernels[name]


def test_a_kernel_of_ours() -> None:
    kernel = _kernel()
    x, y = torch.randn(4, 8), torch.randn(4, 8)
    wanted = torch.relu(x + y) * 2
    assert torch.equal(kernel(x, y), wanted)
    out = torch.empty(4, 8)
    assert kernel(x, y, out=out) is out
    assert torch.equal(out, wanted)
    numpy.testing.assert_array_equal(kernel(x.numpy(), y.numpy()), wanted.numpy())
    assert kernel.backend == "native"
    assert kernel.grid is None
    assert kernel.cost_us >= 0
    assert [a.role for a in kernel.arguments] == ["input", "input", "output"]
    assert f"{kernel.name}(" in kernel.source
    assert "sl::pointwise" in kernel.source
    assert repr(kernel).startswith(f"<kernel native.{kernel.name}(a0: input float32")


def test_named_sizes() -> None:
    kernel = _kernel(is_named=True)
    for rows in (1, 9):
        x, y = torch.randn(rows, 8), torch.randn(rows, 8)
        assert torch.equal(kernel(x, y), torch.relu(x + y) * 2)


@pytest.mark.parametrize(
    ("x", "out", "said"),
    [
        (torch.ones(4, 8, dtype=torch.float64), None, r"a0 \(input\) is float64 but the kernel takes float32"),
        (torch.ones(8, 4), None, r"a0 \(input\) is \[8, 4\] but the kernel takes \[4, 8\]"),
        (torch.ones(8, 4).t(), None, r"a0 \(input\) has strides \[1, 4\] but the kernel takes \[8, 1\]"),
        (torch.ones(4, 8), torch.ones(4, 9), r"o0 \(output\) is \[4, 9\] but the kernel takes \[4, 8\]"),
        (torch.ones(4, 8), (torch.ones(4, 8),) * 2, r"writes 1 tensors \(o0\) but out= has 2"),
    ],
)
def test_operands_that_do_not_fit(x: Tensor, out: Any, said: str) -> None:
    with pytest.raises(sl.UserError, match=said):
        _kernel()(x, torch.ones(4, 8), out=out)


def test_what_there_is_not() -> None:
    fn = sl.compile(_Model(), (torch.ones(4, 8), torch.ones(4, 8)))
    with pytest.raises(KeyError, match="the program has no kernel 'gemm'; it has "):
        fn.kernels["gemm"]
    with pytest.raises(
        sl.UserError, match=r"<kernels of native: \w+> is given; `fn\.kernels\.keys\(\)` gives the names"
    ):
        fn.kernels[next(iter(fn.kernels))]
    with pytest.raises(sl.UserError, match=r"takes 2 operands \(a0, a1\) but got 1"):
        _kernel()(torch.ones(4, 8))


def test_an_own_kernel(register: Callable[..., Any]) -> None:
    register("scale", "scale(Tensor x, float a) -> Tensor")
    register("root", "root(Tensor x) -> Tensor", status=True)
    x = torch.randn(6).abs()

    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.own_test.root(torch.ops.own_test.scale(x, 4.0))

    fn = sl.compile(Model(), (x,))
    scale, root = fn.kernels["own_scale"], fn.kernels["own_root"]
    assert scale.backend == "own"
    assert torch.equal(root(scale(x)), fn(x))
    assert "sl_own_call(" in scale.source
    with pytest.raises(sl.OpError, match="own_test::root returned status 7: element 0 is -1"):
        root(torch.full((6,), -1.0))


def test_a_kernel_of_a_device_is_described() -> None:
    fn = sl.compile(_Model(), (torch.ones(4, 8), torch.ones(4, 8)), target="cuda:sm_90")
    (name,) = [entry.name for backend in fn.kernels for entry in backend]
    kernel = fn.kernels[name]
    assert kernel.grid is not None
    assert kernel.grid[1] % 32 == 0
    assert "SL_KERNEL(" in kernel.source
    assert kernel.backend == "cuda"
    if not torch.cuda.is_available():
        with pytest.raises(sl.UnsupportedError, match="runs on cuda:0, which is not here: torch has 0 devices"):
            kernel(torch.ones(4, 8), torch.ones(4, 8))


def test_the_sizes_that_a_grid_depends_on() -> None:
    batch = {0: torch.export.Dim("b", min=1, max=640)}
    fn = sl.compile(_Model(), (torch.ones(4, 8), torch.ones(4, 8)), target="cuda:sm_90", dynamic_shapes=(batch, batch))
    (entry,) = [entry for backend in fn.kernels for entry in backend]
    assert entry.extents == ("b",)
    assert set(entry.grid_sizes) == {"b"}
    assert entry.device == 0
    with pytest.raises(sl.InternalError, match="is run with 1 addresses and 0 sizes"):
        entry.start((0,), (), (4,), 0)
