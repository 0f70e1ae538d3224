# SPDX-License-Identifier: Apache-2.0
"""Kernels of a program for a CUDA device by themselves: our own, users' and Triton's; on streams; what does not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import straightline as sl
import torch
from torch import Tensor, nn


class _Model(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.relu(x + y) * 2


def _only(fn: Any) -> Any:
    (name,) = {entry.name for backend in fn.kernels for entry in backend if entry.kind == "kernel"}
    return fn.kernels[name]


def _pair(rows: int = 40) -> tuple[Tensor, Tensor]:
    return torch.randn(rows, 33, device="cuda"), torch.randn(rows, 33, device="cuda")


def test_a_kernel_of_ours() -> None:
    x, y = _pair()
    kernel = _only(sl.compile(_Model(), (x, y)))
    wanted = torch.relu(x + y) * 2
    assert torch.equal(kernel(x, y), wanted)
    out = torch.empty_like(x)
    assert kernel(x, y, out=out) is out and torch.equal(out, wanted)
    assert kernel.backend == "cuda" and kernel.grid is not None and kernel.cost_us >= 0
    assert "SL_KERNEL(" in kernel.source


def test_named_sizes() -> None:
    batch = {0: torch.export.Dim("b", min=1, max=500)}
    kernel = _only(sl.compile(_Model(), _pair(), dynamic_shapes=(batch, batch)))
    for rows in (1, 7, 500):
        x, y = _pair(rows)
        assert torch.equal(kernel(x, y), torch.relu(x + y) * 2)


def test_it_runs_on_the_current_stream() -> None:
    x, y = _pair()
    kernel = _only(sl.compile(_Model(), (x, y)))
    kernel(x, y)  # loaded
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    out = torch.zeros_like(x)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.graph(graph, stream=stream):
        kernel(x, y, out=out)
    assert not out.any()
    graph.replay()
    assert torch.equal(out, torch.relu(x + y) * 2)


_PRODUCTS: dict[str, Callable[[], tuple[nn.Module, tuple[Tensor, ...]]]] = {
    "linear": lambda: (nn.Linear(64, 48).cuda(), (torch.randn(20, 64, device="cuda"),)),
    "norm": lambda: (nn.LayerNorm(64).cuda(), (torch.randn(20, 64, device="cuda"),)),
    "softmax": lambda: (nn.Softmax(1), (torch.randn(20, 300, device="cuda"),)),
}


@pytest.mark.parametrize("case", _PRODUCTS)
def test_parameters_are_operands(case: str) -> None:
    """A program of one kernel gives what that kernel gives on the same memory."""
    model, inputs = _PRODUCTS[case]()
    fn = sl.compile(model, inputs, routes={"*": "cuda"})
    names = {entry.name for backend in fn.kernels for entry in backend if entry.kind == "kernel"}
    if len(names) != 1:
        pytest.skip(f"{case} is {len(names)} kernels here")
    kernel = fn.kernels[names.pop()]
    given = [x for x in (*inputs, *model.parameters())]
    operands = []
    for argument in (a for a in kernel.arguments if a.role == "input"):
        found = next((x for x in given if tuple(x.shape) == argument.shape and argument.shape is not None), None)
        if found is None:
            pytest.skip(f"{case} packs {argument.name}")
        given = [x for x in given if x is not found]
        operands.append(found.detach())
    assert torch.equal(kernel(*operands), fn(*inputs))


def test_a_users_kernel() -> None:
    source = """
    __global__ void twice(const float* x, int64_t n, float* y) {
      const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
      if (i < n) y[i] = x[i] * 2;
    }
    """
    op = sl.cuda_kernel(
        source, "twice", "device_alone::twice(Tensor x, SymInt n) -> Tensor", grid=lambda x, n: ((n + 255) // 256, 256)
    )
    try:

        class Model(nn.Module):
            def forward(self, x: Tensor) -> Tensor:
                return torch.ops.device_alone.twice(x, x.numel())

        x = torch.randn(1000, device="cuda")
        kernel = _only(sl.compile(Model(), (x,)))
        assert torch.equal(kernel(x), x * 2) and kernel.grid == (4, 256) and "twice" in kernel.source
    finally:
        op.unregister()


def test_a_triton_kernel() -> None:
    pytest.importorskip("triton")
    from tests.frameworks.triton import kernels

    with kernels.registering() as register:
        register(kernels.add_op, "device_alone::add")

        class Model(nn.Module):
            def forward(self, x: Tensor, y: Tensor) -> Tensor:
                return torch.ops.device_alone.add(x, y, x.numel(), 2.5)

        x, y = _pair()
        kernel = _only(sl.compile(Model(), (x, y)))
        torch.testing.assert_close(kernel(x, y), x + 2.5 * y)
        assert "def scaled_add(" in kernel.source
        with pytest.raises(sl.StraightlineError, match="begins at an address that is no multiple of 16"):
            kernel(torch.randn(40 * 33 + 1, device="cuda")[1:].view(40, 33), y)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda x: x.cpu(), r"a0 \(input\) is on the host but the kernel runs on cuda:0"),
        (lambda x: x.double(), r"a0 \(input\) is float64 but the kernel takes float32"),
        (lambda x: x[:3], r"a0 \(input\) is \[3, 33\] but the kernel takes \[40, 33\]"),
        (lambda x: x.t().contiguous().t(), r"a0 \(input\) has strides \[1, 40\] but the kernel takes \[33, 1\]"),
    ],
)
def test_operands_that_do_not_fit(make: Any, said: str) -> None:
    x, y = _pair()
    kernel = _only(sl.compile(_Model(), (x, y)))
    with pytest.raises(sl.UserError, match=said):
        kernel(make(x), y)
