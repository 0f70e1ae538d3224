# SPDX-License-Identifier: Apache-2.0
"""Ops of `torch.library.triton_op` in programs: one node of an exported graph, taken apart into its launches."""

from __future__ import annotations

import json
import re
import threading
from typing import Any

import pytest
import straightline as sl
import torch
import triton
import triton.language as tl
from straightline.capture.torch import triton_ops
from torch import Tensor
from torch.library import triton_op, wrap_triton

from tests.frameworks.triton import kernels
from tests.frameworks.triton.programs_test import TARGET


@triton_op("own_triton_op::add", mutates_args={})
def add(x: Tensor, y: Tensor, alpha: float) -> Tensor:
    """The sum of x and alpha y."""
    out = torch.empty_like(x)
    n = x.numel()
    wrap_triton(kernels.scaled_add)[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n, alpha, BLOCK=512)
    return out


@triton_op("own_triton_op::twice_and_scaled", mutates_args={})
def twice_and_scaled(x: Tensor, alpha: float) -> tuple[Tensor, Tensor]:
    """The sums x + x, and x + alpha (x + x): two launches, views and an op of torch between them."""
    flat = x.reshape(-1)
    first, second = torch.empty_like(flat), torch.zeros_like(x)
    n = flat.shape[0]
    grid = (triton.cdiv(n, 256),)
    wrap_triton(kernels.scaled_add)[grid](flat, flat, first, n, 1.0, BLOCK=256)
    wrap_triton(kernels.scaled_add)[grid](x, first + 0.0, second.view(-1), n, alpha, BLOCK=256)
    return first.view(x.shape), second


@triton_op("own_triton_op::increment_", mutates_args={"x"})
def increment_(x: Tensor) -> None:
    """Adds 1 to x."""
    wrap_triton(kernels.increment)[(triton.cdiv(x.numel(), 128),)](x, None, x.numel(), BLOCK=128, num_warps=2)


@triton_op("own_triton_op::somewhere", mutates_args={})
def somewhere(x: Tensor) -> Tensor:
    """The sum x + x on a device; by a kernel of its own on the host."""
    out = torch.empty_like(x)
    wrap_triton(kernels.scaled_add)[(1,)](x, x, out, x.numel(), 1.0, BLOCK=512)
    return out


somewhere.register_kernel("cpu")(lambda x: x + x)


def _compiled(function: Any, *inputs: Tensor, target: str = TARGET, **options: Any) -> Any:
    class Model(torch.nn.Module):
        def forward(self, *args: Tensor) -> Any:
            return function(*args)

    return sl.compile(Model(), inputs, target=target, **options)


def _ops(fn: Any) -> list[str]:
    return [row["op"] for row in json.loads(fn._compilation.explain_json)["statements"] if row["op"]]


def test_a_launch_is_a_kernel_of_the_program() -> None:
    x = torch.randn(30, 10)
    fn = _compiled(lambda x, y: torch.relu(add(x, y, 2.0)), x, torch.randn(30, 10))
    launch, relu = _ops(fn)
    assert launch.startswith("straightline_triton.scaled_add_") and relu == "relu"
    row = json.loads(fn._compilation.explain_json)["statements"][0]
    assert row["blocks"] == 1 and "BLOCK=512" in row["why"]
    assert "aten" not in fn.code


@triton.jit
def _rows_sum(x_ptr, out_ptr, rows, columns, row_stride, column_stride, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    sums = tl.zeros((BLOCK,), tl.float32)
    for row in range(rows):
        sums += tl.load(x_ptr + row * row_stride + at * column_stride, mask=at < columns, other=0)
    tl.store(out_ptr + at, sums, mask=at < columns)


@triton_op("own_triton_op::rows_sum", mutates_args={})
def rows_sum(x: Tensor) -> Tensor:
    """The sum of the rows of a matrix, which its strides find."""
    out = x.new_empty(x.shape[1])
    wrap_triton(_rows_sum)[(1,)](x, out, x.shape[0], x.shape[1], x.stride(0), x.stride(1), BLOCK=64)
    return out


def test_a_kernel_gets_memory_as_its_strides_say() -> None:
    """Values lie in row-major order in a program; what is behind an address is what torch's strides are of."""
    x = torch.randn(30, 10)
    # The memory has the shape [30, 10], also that of the transposed matrix; of columns 2 to 5 it is all but the first 2 elements.
    for model, operand in (
        (rows_sum, "30x10"),
        (lambda x: rows_sum(x.t()), "30x10"),
        (lambda x: rows_sum(x[:, 2:6]), "298"),
    ):
        assert re.search(rf"op\.own_kernel .* : \(tensor<{operand}xf32>\) -> ", str(_compiled(model, x).ir("op"))), (
            operand
        )


def test_named_sizes() -> None:
    batch = torch.export.Dim("b", min=1, max=5000)

    class Model(torch.nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return add(x, y, 2.0)

    x = torch.randn(4, 10)
    fn = sl.compile(Model(), (x, torch.randn(4, 10)), target=TARGET, dynamic_shapes=({0: batch}, {0: batch}))
    assert "(b * 10 + 511) / 512" in fn.code


def test_two_launches_with_views_between_them() -> None:
    fn = _compiled(lambda x: twice_and_scaled(x, 0.5), torch.randn(30, 10))
    ops = _ops(fn)
    launches = [op for op in ops if op.startswith("straightline_triton.")]
    assert len(launches) == 2 and launches[0] == launches[1]
    # what an empty gives is not filled first, what zeros gives is
    assert len(ops) <= 4, ops


def test_an_argument_is_updated_where_it_lies() -> None:
    def model(x: Tensor) -> Tensor:
        y = torch.relu(x)
        increment_(y)
        return y * 2

    ops = _ops(_compiled(model, torch.randn(300)))
    assert len(ops) == 3 and ops[1].startswith("straightline_triton.increment_") and "copy" not in " ".join(ops)


def test_a_kernel_of_the_host_is_taken_there() -> None:
    x = torch.randn(100)
    fn = _compiled(somewhere, x, target="cpu")
    assert torch.equal(fn(x), x + x)
    assert _ops(_compiled(somewhere, x))[0].startswith("straightline_triton.scaled_add_")
    assert torch.equal(_compiled(somewhere, x, target="cpu")(x), x + x)


def test_other_threads_trace_as_torch_does() -> None:
    """While one thread takes an op apart, torch's own traces have torch's higher-order op."""
    from torch._higher_order_ops.triton_kernel_wrap import triton_kernel_wrapper_mutation
    from torch.fx.experimental.proxy_tensor import make_fx

    found: list[Any] = []

    def trace() -> None:
        x = torch.ones(10)
        graph = make_fx(lambda x: wrap_triton(kernels.increment)[(1,)](x, None, 10, BLOCK=128), tracing_mode="fake")(x)
        found.extend(node.target for node in graph.graph.nodes if node.op == "call_function")

    with triton_ops._launches_are_ops():
        other = threading.Thread(target=trace)
        other.start()
        other.join()
    assert found == [triton_kernel_wrapper_mutation]


def test_on_the_host_it_is_refused() -> None:
    x = torch.ones(10)
    with pytest.raises(sl.UnsupportedError, match="is a CUDA kernel but the program runs on the host"):
        _compiled(lambda x: add(x, x, 1.0), x, target="cpu")


@triton.jit
def _reads(x_ptr, n, BLOCK: tl.constexpr):
    tl.load(x_ptr + tl.arange(0, BLOCK), mask=tl.arange(0, BLOCK) < n)


def test_a_tensor_descriptor_is_refused() -> None:
    from triton.tools.tensor_descriptor import TensorDescriptor

    @triton.jit
    def described(x_desc, out_ptr, BLOCK: tl.constexpr):
        tl.store(out_ptr + tl.arange(0, BLOCK), x_desc.load([0]))

    @torch.library.triton_op("triton_ops_test::described", mutates_args=())
    def op(x: Tensor) -> Tensor:
        out = torch.empty_like(x)
        torch.library.wrap_triton(described)[(1,)](TensorDescriptor.from_tensor(x, [128]), out, BLOCK=128)
        return out

    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return op(x)

    with pytest.raises(
        sl.UnsupportedError, match=r"triton_ops_test.py:\d+ \(described\) gets 'x_desc', a tensor descriptor"
    ):
        sl.compile(Model(), (torch.ones(512),), target=TARGET)


def test_a_kernel_that_writes_nothing_is_refused() -> None:
    @triton_op("own_triton_op::reads", mutates_args={})
    def reads(x: Tensor) -> Tensor:
        wrap_triton(_reads)[(1,)](x, x.numel(), BLOCK=128)
        return torch.empty_like(x)

    with pytest.raises(sl.UnsupportedError, match=r"triton_ops_test.py:\d+ \(_reads\) writes to none of its tensors"):
        _compiled(reads, torch.ones(10))
