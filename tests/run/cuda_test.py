# SPDX-License-Identifier: Apache-2.0
"""Programs for a CUDA device on a machine that has none: lowered, emitted, compiled for sm_90 by NVRTC from its wheel."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from statements import launches_of
from torch import Tensor, nn
from torch.nn import functional as F

import straightline as sl
from straightline import _call, _targets, _internal

from straightline.bench.case import Case
from straightline.testing.cubin import resources_in
from bench.cuda_cases import CUDA_CASES, CUDA_CHAINS

_TARGET = "cuda:sm_90"
_OWN = {"linear": "cuda", "matmul": "cuda"}  # our kernels, whatever a library would take


@pytest.mark.parametrize("case", CUDA_CASES, ids=lambda case: case.name)
def test_is_one_kernel_with_its_source_and_its_launch(case: Case) -> None:
    model, inputs = case.make()
    compiled = sl.compile(model, inputs, target=_TARGET, cache=False)
    (launch,) = launches_of(compiled)
    assert (launch["backend"], launch["family"]) in {("cuda", "pointwise"), ("cuda", "row_reduction")}
    code = compiled.code
    assert code.startswith("// CUDA C++ for sm_90.\n")
    (kernel,) = re.findall(r"^SL_KERNEL\((\d+)\) (\w+)\(", code, re.M)
    assert 32 <= int(kernel[0]) <= 1024 and int(kernel[0]) % 32 == 0
    grid = re.search(r"\.blocks = (\d+), \.threads = (\d+)", code)
    assert grid is not None and int(grid[1]) >= 1 and grid[2] == kernel[0]
    assert f"sl_queue_start(ctx, io->queues[1], io->kernels[0], &grid, arguments);  // {kernel[1]}" in code
    for synchronizing in ("sl_queue_copy", "sl_queue_record", "wait(", "sl_barrier"):
        assert synchronizing not in code.split("sl_program_run(")[1].split("\n}\n")[0]
    ir = compiled.ir("kernel")
    assert 'target(<"cuda", "sm_90">)' in ir and 'space "cuda"' in ir and "kernel.blocks" in ir
    assert compiled._compilation.counts == (2, 0), "the program and one kernel"


@pytest.mark.parametrize("case", CUDA_CASES, ids=lambda case: case.name)
def test_a_call_without_a_device_says_what_is_missing(case: Case) -> None:
    model, inputs = case.make()
    compiled = sl.compile(model, inputs, target=_TARGET)
    missing = _call.cuda_missing()
    why = re.escape(missing) if missing else "its example tensors are on the cpu"
    with pytest.raises(sl.UnsupportedError, match=f"compiled for cuda:sm_90 and cannot run here: {why}"):
        compiled(*inputs)
    with pytest.raises(sl.UnsupportedError, match="cannot run here"):
        compiled.load_parameters(model.state_dict())
    if missing:
        assert "libcuda.so.1" in missing


class _Scalars(nn.Module):
    """Every kind of scalar operation that emitted lambdas use, in one element type."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        z = torch.where(x > y, torch.exp(-x.abs()), torch.tanh(y))
        special = torch.erf(x) + torch.sin(y) * torch.log1p(x.abs()) + torch.rsqrt(y.abs() + 1) + torch.pow(x.abs(), y)
        rounded = torch.floor(x) + torch.round(y) + torch.maximum(x, y) + torch.nn.functional.softplus(x)
        return z, special, rounded, x.isnan() | (x == y), (x * 3).to(torch.int64), torch.full_like(x, float("inf"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_scalar_operations_compile(dtype: torch.dtype) -> None:
    x, y = torch.randn(7, 33).to(dtype), torch.randn(33).to(dtype)
    compiled = sl.compile(_Scalars().eval(), (x, y), target=_TARGET)
    assert {row["backend"] for row in launches_of(compiled)} == {"cuda"}


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.bool, torch.uint8])
def test_integers_compile(dtype: torch.dtype) -> None:
    x, y = torch.randint(0, 2, (64, 40)).to(dtype), torch.randint(0, 2, (40,)).to(dtype)
    compiled = sl.compile(lambda a, b: ((a & b) | (a ^ b), a != b, (a > 0).any(1)), (x, y), target=_TARGET)
    assert {row["backend"] for row in launches_of(compiled)} == {"cuda"}


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8])
def test_integers_with_their_reductions_compile(dtype: torch.dtype) -> None:
    """In one kernel, where numbers of 8 bits may be held in two types."""
    x = torch.randint(0, 100, (64, 40)).to(dtype)
    compares = (torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge)
    compiled = sl.compile(
        lambda x: (
            *(c(x, x.max()) for c in compares), *(c(x, x.amin(-1, keepdim=True)) for c in compares),
            x + x.amax(-1, keepdim=True), torch.where(x > 3, x, x.amin()), x.to(torch.int8) > x.to(torch.uint8).sum(0),
            x.to(torch.uint8) + x.to(torch.int16).to(torch.uint8), x.to(torch.int8).amax(-1),
        ),
        (x,), target=_TARGET,
    )  # fmt: skip
    assert {row["backend"] for row in launches_of(compiled)} == {"cuda"}


_ROWS = {
    "short rows, many": ((70000, 8), (1,)),
    "one warp a row": ((4096, 128), (1,)),
    "a block a row": ((16, 4096), (1,)),
    "rows too long for registers": ((3, 300000), (1,)),
    "not a multiple": ((50, 1001), (1,)),
    "down the columns": ((64, 100000), (0,)),
    "columns, few": ((512, 24), (0,)),
    "in the middle": ((6, 40, 32), (1,)),
    "everything": ((128, 96), (0, 1)),
}


@pytest.mark.parametrize("name", _ROWS)
def test_reductions_compile(name: str) -> None:
    shape, dims = _ROWS[name]
    x = torch.empty(shape)
    compiled = sl.compile(lambda x: (x.sum(dims), (x - x.amax(dims, keepdim=True)).exp()), (x,), target=_TARGET)
    assert {row["backend"] for row in launches_of(compiled)} == {"cuda"}
    assert "row_reduction" in {row["family"] for row in launches_of(compiled)}


def test_arguments_of_largest_and_softmax_compile() -> None:
    compiled = sl.compile(lambda x: (x.argmax(-1), F.softmax(x, -1)), (torch.randn(20, 300),), target=_TARGET)
    assert {row["family"] for row in launches_of(compiled)} == {"row_reduction"}
    assert ".kept = 0" in compiled.code


_FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", _FLOATS)
def test_a_chain_of_small_linears_is_a_kernel_each(dtype: torch.dtype) -> None:
    layers = [layer for _ in range(8) for layer in (nn.Linear(256, 256), nn.ReLU())]
    compiled = sl.compile(
        nn.Sequential(*layers).eval().to(dtype), (torch.randn(1, 256).to(dtype),), target=_TARGET, cache=False
    )
    launches = launches_of(compiled)
    assert [(row["family"], row["backend"]) for row in launches] == [("gemv", "cuda")] * 8
    assert all(
        str(row["why"]).startswith("cuda.gemv: estimated") and "native" not in str(row["why"]) for row in launches
    )
    assert compiled._compilation.counts == (2, 0), "eight layers of one size are one kernel"
    assert len([row for row in compiled.explain().statements if row["phase"] == "prepare"]) == 0, (
        "a weight is never packed"
    )


def test_a_chain_with_rows() -> None:
    layers = [layer for _ in range(5) for layer in (nn.Linear(16, 16), nn.ReLU())]
    compiled = sl.compile(nn.Sequential(*layers).eval(), (torch.randn(4, 16),), target=_TARGET, cache=False)
    assert {row["family"] for row in launches_of(compiled)} == {"gemv"} and ".mr = 4" in compiled.code
    assert ".blocks = 1," in compiled.code


class _Block(nn.Module):
    """Bias, activation and residual are the epilogue of a product."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(features, 3 * features), nn.Linear(3 * features, features)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(F.gelu(self.up(x)))


@pytest.mark.parametrize("dtype", _FLOATS)
@pytest.mark.parametrize(("rows", "family"), [(16, "gemv"), (17, "matmul"), (300, "matmul")])
def test_epilogues_are_fused(dtype: torch.dtype, rows: int, family: str) -> None:
    compiled = sl.compile(_Block(72).eval().to(dtype), (torch.randn(rows, 72).to(dtype),), target=_TARGET, routes=_OWN)
    launches = launches_of(compiled)
    assert len(launches) == 2 and {str(row["backend"]) for row in launches} == {"cuda"}
    if not (rows == 16 and dtype.itemsize == 2):  # the tensor cores may win there
        assert {row["family"] for row in launches} == {family}


_PRODUCTS = {
    "plain": lambda a, b: a @ b,
    "transposed": lambda a, b: a @ b.transpose(-1, -2).contiguous().transpose(-1, -2),
    "both": lambda a, b: F.relu(a.transpose(-1, -2).contiguous().transpose(-1, -2) @ b) + 1,
}


@pytest.mark.parametrize("dtype", _FLOATS)
@pytest.mark.parametrize("name", _PRODUCTS)
@pytest.mark.parametrize(
    ("a", "b"), [((33, 17), (17, 9)), ((3, 1, 128), (3, 128, 64)), ((2, 3, 129, 1023), (2, 3, 1023, 65))]
)
def test_products_of_any_size_compile(name: str, dtype: torch.dtype, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    inputs = torch.randn(a).to(dtype), torch.randn(b).to(dtype)
    compiled = sl.compile(_PRODUCTS[name], inputs, target=_TARGET, routes=_OWN)
    launches = launches_of(compiled)
    assert {row["backend"] for row in launches} == {"cuda"}
    assert [row["family"] for row in launches if row["family"] != "pointwise"] == ["matmul"]


def test_long_reductions_are_split_over_a_cluster() -> None:
    weight = nn.Linear(4096, 256).eval()
    for target, clusters in (("cuda:sm_90", True), ("cuda:sm_80", False)):
        compiled = sl.compile(weight, (torch.randn(32, 4096),), target=target, routes=_OWN)
        found = re.search(r"SL_CLUSTER_KERNEL\((\d+), (\d+)\)", compiled.code)
        splits = re.search(r"\.splits = (\d+)", compiled.code)
        grid = re.search(r"\.blocks = (\d+)", compiled.code)
        assert splits is not None and grid is not None
        assert (found is not None) == clusters and int(splits[1]) == (int(found[2]) if found else 1)
        assert int(grid[1]) % int(splits[1]) == 0


class _Of(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


@pytest.mark.parametrize(
    ("function", "shape", "clusters", "kernels"),
    [
        (lambda x: x.softmax(-1), (4, 151936), ["8"], 1),
        (lambda x: x.argmax(-1), (1, 151936), [], 2),  # one stage
        (lambda x: (x > 4).all(-1), (3, 150001), ["8"], 1),  # a prime has no parts
        (lambda x: x.argmax(-1), (1, 1048583), ["8"], 1),
        (lambda x: x.softmax(-1), (400, 32768), [], 1),  # rows enough, and each fits into a block's registers
        (lambda x: x.softmax(-1), (256, 65536), [], 1),  # enough rows, each read again by each stage
        (lambda x: x.sum(), (4096, 4096), [], 2),
        (lambda x: x.argmax(0), (100000, 64), [], 2),
        (lambda x: x.softmax(-1), (64, 1024), [], 1),
    ],
)
def test_few_long_rows_are_shared(
    function: Callable[[Tensor], Tensor],
    shape: tuple[int, ...],
    clusters: list[str],
    kernels: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the blocks of a cluster, or by two kernels; nothing spills."""
    monkeypatch.setenv("STRAIGHTLINE_CACHE_DIR", str(tmp_path))
    compiled = sl.compile(_Of(function), (torch.zeros(shape),), target=_TARGET)
    assert re.findall(r"SL_CLUSTER_KERNEL\(\d+, (\d+)\)", compiled.code) == clusters
    assert [row["family"] for row in launches_of(compiled)] == ["row_reduction"] * kernels
    for kernel in resources_in(tmp_path):
        assert kernel.stack == 0 and kernel.registers <= 64, kernel
    assert "CLUSTER" not in sl.compile(_Of(function), (torch.zeros(shape),), target="cuda:sm_80").code


@pytest.mark.parametrize(
    ("target", "device", "why"),
    [
        ("cuda:sm_90", (9, 0), ""),
        ("cuda:sm_90a", (9, 0), ""),
        ("cuda:sm_80", (8, 6), ""),
        ("cuda:sm_120", (12, 1), ""),
        ("cuda:sm_80", (9, 0), "device 0 is sm_90"),
        ("cuda:sm_86", (8, 0), "device 0 is sm_80"),
        ("cuda:sm_100a", (10, 3), "device 0 is sm_103"),
        ("cuda:sm_100f", (10, 3), ""),
        ("cuda:sm_100", (12, 0), "device 0 is sm_120"),
    ],
)
def test_code_for_another_device_is_to_be_looked_at(
    target: str, device: tuple[int, int], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not loaded, though its examples are on a device."""
    monkeypatch.setattr(_call, "cuda_missing", lambda: "")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda number: device)
    assert _targets.why_not_here({"x": SimpleNamespace(device=torch.device("cuda", 0))}, target) == why


def test_a_product_of_unknown_rows() -> None:
    batch = torch.export.Dim("batch", min=2, max=100000)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU()).eval()
    compiled = sl.compile(model, (torch.randn(5, 64),), target=_TARGET, dynamic_shapes=({0: batch},))
    (launch,) = launches_of(compiled)
    assert launch["family"] == "matmul" and "cuda.gemv: m is dynamic, needs 1 to 16" in str(launch["why"])
    grid = re.search(r"\.blocks = (.*), \.threads", compiled.code)
    assert grid is not None and "batch" in grid[1]


class _Attention(nn.Module):
    def __init__(self, causal: bool = False) -> None:
        super().__init__()
        self.causal = causal

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=self.causal, enable_gqa=q.shape[1] != k.shape[1])


def _heads(dtype: torch.dtype, heads: int, shared: int, s: int, t: int, d: int) -> tuple[Tensor, ...]:
    return tuple(torch.randn(2, h, n, d).to(dtype) for h, n in ((heads, s), (shared, t), (shared, t)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("mask", "causal"), [(None, False), (None, True), (torch.bool, False), (torch.float32, False)])
def test_attention_is_one_kernel(dtype: torch.dtype, mask: torch.dtype | None, causal: bool) -> None:
    inputs = _heads(dtype, 6, 2, 5, 130, 40)
    if mask is not None:
        inputs += (torch.rand(5, 130) < 0.7 if mask is torch.bool else torch.randn(5, 130).to(dtype),)
    compiled = sl.compile(_Attention(causal), inputs, target=_TARGET)
    assert [row["family"] for row in launches_of(compiled)] == ["attention"]
    assert f".mask = {int(mask is not None)}, .causal = {int(causal)}, .depth = 40" in compiled.code.replace(
        "\n     ", ""
    )


def test_a_token_over_a_cache_is_split_over_its_keys() -> None:
    inputs = _heads(torch.bfloat16, 16, 8, 1, 512, 128)
    for target, head, blocks in (
        ("cuda:sm_90", "SL_CLUSTER_KERNEL(256, 8)", 128),
        ("cuda:sm_80", "SL_KERNEL(256)", 16),
    ):
        code = sl.compile(_Attention(), inputs, target=target).code
        assert head in code and f".blocks = {blocks}," in code
        assert ".held = 8, .early = 1" in code and "awaitPrevious" not in code, "it waits by itself"


@pytest.mark.parametrize(
    ("heads", "s", "d", "held"),
    [(2, 1, 128, 8), (2, 4, 128, 8), (4, 3, 128, 4), (2, 9, 128, 0), (2, 1, 36, 0), (2, 1, 256, 8)],
)
def test_few_queries_hold_their_keys_in_registers(heads: int, s: int, d: int, held: int) -> None:
    """Rows of a block are the queries of all heads that share keys; lines of 36 elements are no whole pieces of 16 bytes."""
    code = sl.compile(_Attention(), _heads(torch.bfloat16, heads, 2, s, 512, d), target=_TARGET).code
    assert re.findall(r"\.held = (\d)", code) == [str(held)]


@pytest.mark.parametrize("freeze", [True, False])
def test_a_cache_that_no_kernel_writes_is_read_early(freeze: bool) -> None:
    model, inputs = CUDA_CHAINS[-1][0].make()
    code = sl.compile(model, inputs, target=_TARGET, freeze=freeze).code
    assert re.findall(r"\.held = 8, \.early = (\d)", code) == ["1"]

    class Grown(nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(q, torch.cumsum(k, 2), v)

    code = sl.compile(Grown(), _heads(torch.bfloat16, 2, 2, 1, 64, 64), target=_TARGET).code
    assert re.findall(r"\.early = (\d)", code) == ["0"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [1, 96, 160, 256])
def test_heads_of_any_size_fit_into_shared_memory(size: int, dtype: torch.dtype) -> None:
    compiled = sl.compile(_Attention(), _heads(dtype, 2, 2, 12, 40, size), target=_TARGET)
    assert [row["family"] for row in launches_of(compiled)] == ["attention"]


def test_a_head_that_is_too_large_is_products() -> None:
    compiled = sl.compile(_Attention(), _heads(torch.float32, 2, 2, 3, 40, 257), target=_TARGET)
    assert [row["family"] for row in launches_of(compiled)] == ["matmul", "row_reduction", "matmul"]


def test_much_attention_of_float32_is_products() -> None:
    for dtype, families in ((torch.float32, ["matmul", "row_reduction", "matmul"]), (torch.bfloat16, ["attention"])):
        given = {
            "target": _TARGET,
            "routes": None if dtype is torch.float32 else {"scaled_dot_product_attention": "cuda"},
        }
        compiled = sl.compile(_Attention(True), _heads(dtype, 8, 8, 256, 256, 64), **given)
        assert [row["family"] for row in launches_of(compiled)] == families


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_much_attention_of_16_bits_is_the_librarys(dtype: torch.dtype) -> None:
    given = _heads(dtype, 8, 2, 256, 256, 64)
    compiled = sl.compile(_Attention(True), given, target=_TARGET)
    (row,) = launches_of(compiled)
    assert (
        row["backend"] == "cudnn"
        and "captured again" in str(row["why"])
        and "cuda.attention: estimated" in str(row["why"])
    )
    assert "is_causal = 1 : i64, scale = 1.250000e-01 : f32" in compiled.ir("kernel")
    assert '{"scale", 0, SL_FLOAT, 0.125f, nullptr}' in compiled.code
    assert "sl_queue_launch(ctx, io->queues[1], thunk_cudnn_attention_0" in compiled.code
    python = sl.compile(_Attention(True), given, target=_TARGET, emit="python")
    assert "cudnn.cudnn_attention_0(queue_1, cudnn_attention_0_handle, " in python.code


def test_one_line_moves_an_attention() -> None:
    route = lambda kernel: {"target": _TARGET, "routes": {"scaled_dot_product_attention": kernel}}  # noqa: E731
    small = _heads(torch.float16, 4, 4, 9, 9, 64)
    for kernel, backend in (
        ("cuda", "cuda"),
        ("cuda.attention", "cuda"),
        ("cudnn", "cudnn"),
        ("cudnn.attention", "cudnn"),
    ):
        (row,) = launches_of(sl.compile(_Attention(), small, **route(kernel)))
        assert row["backend"] == backend and f"route scaled_dot_product_attention = {kernel}" in str(row["why"])
    with pytest.raises(sl.UserError, match="cudnn.attention: operand 0 is float32, needs 16 bits"):
        sl.compile(_Attention(), _heads(torch.float32, 4, 4, 9, 9, 64), **route("cudnn"))
    with pytest.raises(
        sl.UserError, match="cudnn.attention: head size of operand 0 is 20, needs a multiple of 8 up to 256"
    ):
        sl.compile(_Attention(), _heads(torch.float16, 4, 4, 9, 9, 20), **route("cudnn"))
    with pytest.raises(sl.UserError, match="cudnn.attention: mask is bool8, needs float32 or the type of q"):
        sl.compile(_Attention(), (*small, torch.rand(9, 9) < 0.5), **route("cudnn"))
    with pytest.raises(
        sl.UserError, match="extent 0 of operand 0 is dynamic, needs sizes that are known when it is planned"
    ):
        batch = torch.export.Dim("batch", min=2, max=64)
        sl.compile(_Attention(), small, dynamic_shapes=({0: batch}, {0: batch}, {0: batch}), **route("cudnn"))
    with pytest.raises(sl.UserError, match="runs on cuda, the program on cpu"):
        sl.compile(_Attention(), small, routes={"scaled_dot_product_attention": "cudnn"})


def test_tokens_before_heads_need_no_copy_for_the_library() -> None:
    """Queries, keys, values and the result with a token's heads beside each other, as projections write and read them."""

    class Turned(nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            y = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
            return y.transpose(1, 2).reshape(2, 256, 512)

    given = tuple(torch.randn(2, 256, 8, 64).to(torch.bfloat16) for _ in range(3))
    (row,) = launches_of(sl.compile(Turned(), given, target=_TARGET))
    assert row["backend"] == "cudnn"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_layers_of_transformers_compile(dtype: torch.dtype) -> None:
    for case, _ in CUDA_CHAINS[-3:]:
        model, inputs = case.make()
        given = tuple(x.to(dtype) for x in inputs)
        families = {
            row["family"] for row in launches_of(sl.compile(model.to(dtype), given, target=_TARGET, routes=_OWN))
        }
        assert families >= {"row_reduction", "gemv_group" if "decode" in case.name else "matmul"}
        assert families <= {"row_reduction", "pointwise", "gemv", "gemv_group", "matmul", "attention"}


def test_a_layer_at_one_token_is_six_kernels() -> None:
    # Norm and q, k, v; norm and rotary embedding of q and of k; attention over the cache and the new token where they lie;
    # output and residual; norm, gate, up and SwiGLU; down and residual.
    model, inputs = CUDA_CHAINS[-1][0].make()
    compiled = sl.compile(model, inputs, target=_TARGET)
    families = ["gemv_group", "row_reduction", "attention", "gemv_group", "gemv_group", "gemv_group"]
    assert [row["family"] for row in launches_of(compiled)] == families
    assert len(re.findall(r"SL_RESIDENT_KERNEL\(256, 2\)", compiled.code)) == 4
    rows = re.findall(r"\{sizeof\(sl_device_code\), .*, (\d+), (\d+), nullptr\},", compiled.code)
    assert rows and all(waits == "1" for _, waits in rows), "each may come while the one ahead runs"


def test_live_parameters_need_no_copy() -> None:
    compiled = sl.compile(nn.Linear(64, 48).eval(), (torch.randn(2, 64),), target=_TARGET, freeze=False)
    assert [row["family"] for row in compiled.explain().statements] == ["gemv"]


def test_a_route_to_a_kernel_of_the_host_is_refused() -> None:
    with pytest.raises(sl.UserError, match=r"cannot be honoured: native\.gemv: runs on cpu, the program on cuda"):
        sl.compile(nn.Linear(8, 8).eval(), (torch.randn(1, 8),), target=_TARGET, routes={"linear": "native.gemv"})
    with pytest.raises(sl.UserError, match=r"cannot be honoured: cuda\.gemv: runs on cuda, the program on cpu"):
        sl.compile(nn.Linear(8, 8).eval(), (torch.randn(1, 8),), routes={"linear": "cuda.gemv"})
    with pytest.raises(sl.UserError, match=r"cannot be honoured: cuda\.gemv: m=17, needs 1 to 16"):
        sl.compile(nn.Linear(8, 8).eval(), (torch.randn(17, 8),), target=_TARGET, routes={"linear": "cuda.gemv"})


def test_named_extents_size_the_grid() -> None:
    batch = torch.export.Dim("batch", min=2, max=100000)
    compiled = sl.compile(
        lambda x, b: F.relu(x + b),
        (torch.randn(5, 64), torch.randn(64)),
        target=_TARGET,
        dynamic_shapes=({0: batch}, None),
    )
    grid = re.search(r"\.blocks = (.*), \.threads", compiled.code)
    assert grid is not None and "batch" in grid[1]
    assert re.search(r"sl::place\(batch\)", compiled.code)


def test_a_literal_is_copied_once_by_prepare() -> None:
    table = torch.randn(33)
    compiled = sl.compile(lambda x: x * table, (torch.randn(4, 33),), target=_TARGET)
    rows = compiled.explain().statements
    assert [row["kernel"] for row in rows if row["phase"] == "prepare"] in ([], ["copy"])
    assert len(launches_of(compiled)) == 1


def test_an_index_is_checked_on_the_device() -> None:
    compiled = sl.compile(lambda x, i: x[i], (torch.randn(5, 4), torch.tensor([0, 1])), target=_TARGET)
    (row,) = [row for row in compiled.explain().statements if row["family"] == "gather_rows"]
    assert row["backend"] == "cuda" and "can_fail" not in compiled.ir("kernel")


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        (
            {"target": "cuda:sm_9"},
            sl.UserError,
            "target is 'cuda:sm_9' but must be None, 'cpu', 'cuda' or 'cuda:sm_NN'",
        ),
        ({"target": 90}, sl.UserError, "target is 90 but must be"),
        (
            {"target": "cuda:sm_75a"},
            sl.UserError,
            "target is 'cuda:sm_75a' but sm_75 has no form 'a': give 'cuda:sm_75'; suffixes are 'a' ",
        ),
        (
            {"target": "cuda:sm_90f"},
            sl.UserError,
            "target is 'cuda:sm_90f' but sm_90 has no form 'f': give 'cuda:sm_90' or 'cuda:sm_90a'; ",
        ),
        (
            {"target": "cuda:sm_120x"},
            sl.UserError,
            "give 'cuda:sm_120' or 'cuda:sm_120a' or 'cuda:sm_120f'; suffixes are 'a' .from sm_90 on. and 'f' .from sm_100 on.",
        ),
        (
            {"target": "cuda:sm_20"},
            sl.UnsupportedError,
            r"target cuda:sm_20 is too old, needs sm_75 \(Turing\) or later; target='cpu' takes any model",
        ),
        (
            {"target": _TARGET, "launch": "graphs"},
            sl.UserError,
            "launch is 'graphs' but must be None, 'stream' or 'graph'",
        ),
        ({"launch": True}, sl.UserError, "launch is True but must be None, 'stream' or 'graph'"),
        (
            {"launch": "graph"},
            sl.UserError,
            "launch is 'graph' but the program is for the cpu: only a cuda device takes graphs",
        ),
    ],
)
def test_options_that_do_not_fit(options: dict[str, object], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        sl.compile(lambda x: x + 1, (torch.randn(4),), cache=False, **options)


def _three_kernels(x: Tensor) -> Tensor:
    return F.softmax(F.softmax(x, 0) * 2, 0) - x.mean()


@pytest.mark.parametrize(
    ("launch", "expected", "why"),
    [
        (None, "graph", r"\d+ nodes in one launch, which takes less time than a kernel's"),
        ("graph", "graph", "launch='graph'"),
        ("stream", "stream", "launch='stream'"),
    ],
)
def test_explain_says_how_kernels_are_launched(launch: str | None, expected: str, why: str) -> None:
    compiled = sl.compile(_three_kernels, (torch.randn(30, 40),), target=_TARGET, launch=launch)
    explained = compiled.explain()
    assert explained["launch"] == expected and re.fullmatch(why, explained["launch_reason"])
    assert f"launch: {expected} ({explained['launch_reason']})" in re.sub(r"\s+", " ", str(explained))
    nodes, reason = _call.graph_nodes(compiled._compilation.program)
    assert nodes == len(launches_of(compiled)) >= 2 and reason == ""
    if launch is None:
        assert explained["launch_reason"].startswith(f"{nodes} nodes")


def test_explain_shows_what_a_kernel_takes() -> None:
    """As the emitted text and the machine code have it."""
    model = nn.Sequential(nn.Linear(96, 200), nn.ReLU(), nn.Softmax(-1)).eval()
    rows = torch.export.Dim("rows", min=1, max=500)
    for x, shapes in ((torch.randn(20, 96), None), (torch.randn(20, 96), ({0: rows},))):
        compiled = sl.compile(model, (x,), target=_TARGET, routes=_OWN, dynamic_shapes=shapes)
        explained = compiled.explain()
        for row in launches_of(compiled):
            bound = re.search(rf"^SL_KERNEL\((\d+)\) {row['kernel']}\(", compiled.code, re.M)
            assert bound and int(bound[1]) == row["block_threads"]
            assert (
                8 <= row["registers"] <= 65536 // row["block_threads"]
                and row["stack_bytes"] == 0 <= row["shared_bytes"]
            )
            assert isinstance(row["blocks"], int) == (shapes is None)
            assert shapes is not None or f" {row['blocks']} x {row['block_threads']} " in str(explained)
        products, _ = launches_of(compiled)
        assert products["shared_bytes"] > 0, "tiles of a product lie in shared memory"
    on_cpu = sl.compile(model.to("cpu"), (x.to("cpu"),)).explain()
    assert not any({"blocks", "registers"} & row.keys() for row in on_cpu.statements) and "registers" not in str(on_cpu)


def test_backends_that_are_allowed() -> None:
    x = torch.randn(8, 64)
    model = nn.Sequential(nn.Linear(64, 64), nn.Softmax(-1)).eval()
    compiled = sl.compile(model, (x,), target=_TARGET, allow=("cuda",))
    assert {row["backend"] for row in launches_of(compiled)} == {"cuda"}
    assert "cublaslt.linear: not allowed" in compiled.explain().statements[0]["why"]
    with pytest.raises(
        sl.UserError, match=r"allow has the backend 'native'; valid on cuda are cuda, cublaslt, cudnn, aten"
    ):
        sl.compile(model, (x,), target=_TARGET, allow=("native", "aten"))
    with pytest.raises(sl.UserError, match=r"allow is cublaslt, aten but must have 'cuda'"):
        sl.compile(model, (x,), target=_TARGET, allow=("cublaslt", "aten"))
    with pytest.raises(sl.UserError, match=r"allow has the backend 'cuda'; valid on cpu are native, onednn, aten"):
        sl.compile(model.to("cpu"), (x.to("cpu"),), allow=("native", "cuda"))
    with pytest.raises(sl.UnsupportedError, match=r"aten\.linalg_matrix_exp.*which `allow` leaves out"):
        sl.compile(lambda x: torch.linalg.matrix_exp(x[:, :8]), (x,), target=_TARGET, allow=("cuda",))


def test_how_it_is_launched_is_no_part_of_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRAIGHTLINE_CACHE_DIR", str(tmp_path))
    first = sl.compile(_three_kernels, (torch.randn(30, 40),), target=_TARGET, launch="stream")
    second = sl.compile(_three_kernels, (torch.randn(30, 40),), target=_TARGET, launch="graph")
    assert first.code == second.code and second._compilation.counts[0] == 0


def test_one_kernel_is_one_node() -> None:
    explained = sl.compile(lambda x: x + 1, (torch.randn(4),), target=_TARGET).explain()
    assert explained["launch"] == "graph" and explained["launch_reason"].startswith("1 node in one launch")


def _around_torch(x: Tensor) -> Tensor:
    """Kernels of ours before, between and behind two ops that only torch has."""
    x = F.softmax(torch.linalg.matrix_exp(_three_kernels(x)), 0)
    return F.softmax(torch.linalg.matrix_exp(_three_kernels(x)), 1) + 1


def test_what_torch_does_stands_between_graphs() -> None:
    compiled = sl.compile(_around_torch, (torch.randn(40, 40),), target=_TARGET)
    explained = compiled.explain()
    assert explained["launch"] == "graph"
    assert re.fullmatch(
        r"\d+ nodes in at most 3 launches, before, between and behind 2 ops of torch or functions that are called in each run",
        explained["launch_reason"],
    )
    program = compiled._compilation.program
    assert _call.graph_parts(program) == 3
    assert _call.graph_nodes(program)[0] == sum(row["backend"] == "cuda" for row in launches_of(compiled))
    assert len(re.findall(r"sl_queue_call\(ctx, io->queues\[1\], ", compiled.code)) == 2
    assert "sl_queue_launch" not in compiled.code
    python = sl.compile(_around_torch, (torch.randn(40, 40),), target=_TARGET, emit="python")
    assert _call.graph_parts(python._compilation.program) == 3


class _TorchOverConstants(nn.Module):
    """An op that only torch has, between ops of ours; all of them over parameters and literals."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 6))
        self.register_buffer("scale", torch.rand(6))

    def forward(self, x: Tensor) -> Tensor:
        turned = torch.linalg.matrix_exp(self.weight * torch.tensor([0.1] * 6)) * self.scale
        return F.softmax(x @ turned, -1)


@pytest.mark.parametrize("emit", ["cpp", "python"])
def test_what_torch_makes_of_constants_is_made_in_prepare(emit: str) -> None:
    compiled = sl.compile(_TorchOverConstants().eval(), (torch.randn(4, 6),), target=_TARGET, emit=emit)
    explained = compiled.explain()
    assert {row["phase"] for row in explained.statements if row["backend"] == "aten"} == {"prepare"}
    assert explained["launch_reason"].startswith("2 nodes in one launch")
    assert _call.graph_parts(compiled._compilation.program) == 1
    # Memory of the device, with the stream of prepare: the handle's plan is the host's.
    kernel = compiled.ir("kernel")
    call = re.search(r"kernel.call @aten_linalg_matrix_exp.*", kernel)
    assert call and "on @stream" in call[0]
    declared = re.search(r"kernel.decl @aten_linalg_matrix_exp.*", kernel)
    assert declared and declared[0].count('"cuda"') >= 2


def test_few_kernels_beside_torch_are_launched_one_by_one() -> None:
    explained = sl.compile(lambda x: torch.linalg.matrix_exp(x + 1) * 2, (torch.randn(8, 8),), target=_TARGET).explain()
    assert explained["launch"] == "stream"
    assert "too few for graphs of their own" in explained["launch_reason"]


def test_nothing_is_launched_where_there_is_no_kernel() -> None:
    explained = sl.compile(lambda x: x.t(), (torch.randn(4, 5),), target=_TARGET).explain()
    assert (explained["launch"], explained["launch_reason"]) == ("stream", "nothing to launch")


def test_on_the_cpu_nothing_is_launched() -> None:
    compiled = sl.compile(lambda x: x + 1, (torch.randn(4),), launch="stream")
    explained = compiled.explain()
    assert explained["launch"] is None and explained["launch_reason"] == "" and "launch" not in str(explained)
    nodes, reason = _call.graph_nodes(compiled._compilation.program)
    assert nodes == -1 and "no queue of a device that takes graphs" in reason
    text = compiled.ir("op")
    assert sl.compile_mlir(text, launch="stream").explain()["launch"] is None
    with pytest.raises(sl.UserError, match="launch is 'graph' but the program is for the cpu"):
        sl.compile_mlir(text, launch="graph")


def test_kernels_that_may_start_early_wait_first() -> None:
    """Both families say so in the table, and begin with the wait."""
    code = sl.compile(_three_kernels, (torch.randn(30, 40),), target=_TARGET).code
    kernels = re.findall(r"^SL_KERNEL\(\d+\) \w+\([^{]*\{\n(.*)\n", code, re.M)
    assert len(kernels) >= 2 and set(kernels) == {"  sl::awaitPrevious();"}
    rows = re.findall(r"\{sizeof\(sl_device_code\), .*, (\d+), (\d+), nullptr\},", code)
    assert len(rows) == len(kernels) and all(waits == "1" for _, waits in rows)


def test_target_cuda_without_a_device() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(sl.UserError, match="target is 'cuda' but torch finds no device"):
        sl.compile(lambda x: x + 1, (torch.randn(4),), target="cuda")


def test_without_nvrtc_the_missing_library_is_named(tmp_path: Path) -> None:
    program = (
        "import torch, straightline as sl\n"
        "try:\n    sl.compile(lambda x: x + 1, (torch.randn(4),), target='cuda:sm_90', cache=False)\n"
        "except sl.UnsupportedError as error:\n    print(error)\n"
    )
    environment = {**os.environ, "STRAIGHTLINE_NVRTC": str(tmp_path / "libnvrtc.so.13")}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert "libnvrtc.so.13 (or .12) is needed" in done.stdout and str(tmp_path) in done.stdout
    assert "pip install nvidia-cuda-nvrtc" in done.stdout


def test_machine_code_is_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRAIGHTLINE_CACHE_DIR", str(tmp_path))
    model, inputs = CUDA_CASES[0].make()
    first = sl.compile(model, inputs, target=_TARGET)
    second = sl.compile(model, inputs, target=_TARGET)
    assert first._compilation.counts == (2, 0)
    assert second._compilation.counts == (0, 2)


class _Prepared(nn.Module):
    """Ten kernels that only prepare starts, and one of run."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.ParameterList([nn.Parameter(torch.randn(3 + n)) for n in range(10)])

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.stack([weight.exp().sum() for weight in self.weights])


def test_kernels_of_prepare_are_compiled_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRAIGHTLINE_CACHE_DIR", str(tmp_path))
    model, inputs = _Prepared(), (torch.randn(4, 10),)

    def counts() -> tuple[int, int]:
        return sl.compile(model, inputs, target=_TARGET)._compilation.counts

    compiled = sl.compile(model, inputs, target=_TARGET)
    statements = compiled.explain().statements
    started = {phase: {row["kernel"] for row in statements if row["phase"] == phase} for phase in ("prepare", "run")}
    prepared = started["prepare"] - started["run"]
    assert len(prepared) > 8, "more than go into one"
    units = 1 + len(started["run"]) + -(-len(prepared) // 8)
    assert compiled._compilation.counts == (units, 0), (
        "the program, each kernel of run, up to eight of prepare at a time"
    )
    assert {kernel.kernel for kernel in resources_in(tmp_path)} == prepared | started["run"]
    assert counts() == (0, units)
    images = [path for path in tmp_path.rglob("*") if path.is_file() and b"\x7fELF" in path.read_bytes()]
    largest = max(images, key=lambda path: path.read_bytes().count(b".text.rows_"))
    largest.write_bytes(largest.read_bytes()[:-7])
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", sl.CacheWarning
        )  # it may come with the next compilation, when the host's part was faster
        assert counts() == (1, units - 1), "the damaged one alone"
        assert counts() == (0, units)


def test_the_cpu_path_knows_nothing_of_it() -> None:
    before = _call.cuda_calls()
    compiled = sl.compile(lambda x: x + 1, (torch.randn(4),))
    compiled(torch.randn(4))
    assert json.dumps(_call.cuda_calls()) == json.dumps(before)
    assert "SL_KERNEL" not in compiled.code and "sl_queue" not in compiled.code


def test_estimates_are_a_devices() -> None:
    """Two microseconds a kernel, and 48 MB at 4.2 TB/s; a CPU takes thousands."""
    given = (torch.randn(2048, 2048), torch.randn(2048, 2048))
    (row,) = launches_of(compiled := sl.compile(lambda x, y: x + y, given, target=_TARGET))
    assert row["family"] == "pointwise" and compiled.explain()["estimated_us"] == pytest.approx(
        2 + 3 * 4 * 2048**2 / 4.2e6
    )


def test_python_shows_each_launch() -> None:
    batch = torch.export.Dim("batch", min=2, max=64)
    given = {"target": _TARGET, "emit": "python"}
    both = lambda x: F.softmax(F.softmax(x, 0) * 2, 1)  # noqa: E731
    compiled = sl.compile(both, (torch.randn(5, 64),), dynamic_shapes=({0: batch},), **given)
    assert "from straightline.kernels import cuda\n" in compiled.code
    launches = re.findall(r"cuda\.(\w+)\(queue_1, [\w\s,]*?grid=([\w\s+*/(),-]+),\s+block=(\d+)\)", compiled.code)
    assert len(launches) == len(launches_of(compiled)) == 2 and any("batch" in grid for _, grid, _ in launches), (
        compiled.code
    )
    kernels = {entry.name for entry in compiled.kernels.cuda}
    assert {name for name, _, _ in launches} == kernels
    library = sl.compile(nn.Linear(64, 64).eval(), (torch.randn(40, 64),), routes={"linear": "cublaslt"}, **given)
    assert "cublaslt.cublaslt_linear_0(queue_1, cublaslt_linear_0_handle, " in library.code
    assert "cublaslt.cublaslt_linear_0_plan(" in library.code.partition("def run(io)")[0]


class _Inception(nn.Module):
    """GoogLeNet's block 4b."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.to3, self.three = (
            nn.Conv2d(512, 160, 1),
            nn.Conv2d(512, 112, 1),
            nn.Conv2d(112, 224, 3, padding=1),
        )
        self.to5, self.five, self.last = nn.Conv2d(512, 24, 1), nn.Conv2d(24, 64, 3, padding=1), nn.Conv2d(512, 64, 1)

    def forward(self, x: Tensor) -> Tensor:
        a, b = F.relu(self.one(x)), F.relu(self.three(F.relu(self.to3(x))))
        return torch.cat([a, b, F.relu(self.five(F.relu(self.to5(x)))), F.relu(self.last(F.max_pool2d(x, 3, 1, 1)))], 1)


def _branches(function: object) -> int:
    return len({row.get("branch", 0) for row in launches_of(function)})


def _branching() -> dict[str, tuple[nn.Module, Tensor, int]]:
    x = torch.randn(1, 512, 14, 14).contiguous(memory_format=torch.channels_last)
    return {
        "inception": (_Inception().to(memory_format=torch.channels_last), x, 4),
        "lstm": (nn.LSTM(128, 256, bidirectional=True), torch.randn(20, 1, 128), 2),
        "gru": (nn.GRU(128, 256, bidirectional=True), torch.randn(20, 1, 128), 2),
        "chain": (nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)), torch.randn(4, 64), 1),
    }


@pytest.mark.parametrize("name", ["inception", "lstm", "gru", "chain"])
def test_long_branches_run_concurrently(name: str) -> None:
    model, x, branches = _branching()[name]
    compiled = sl.compile(model.eval(), (x,), target=_TARGET)
    apart = sl.compile(model.eval(), (x,), target=_TARGET, concurrent_branches=False)
    assert (_branches(compiled), _branches(apart)) == (branches, 1)
    assert compiled.explain()["arena_bytes"] >= apart.explain()["arena_bytes"]
    steps = re.findall(r"sl_queue_step\(io->queues\[1\], (\d+), ", compiled.code.split("sl_program_run(")[1])
    assert steps == [str(i) for i in range(len(steps))] and bool(steps) == (branches > 1)
    assert "sl_queue_step" not in apart.code.split("sl_program_run(")[1] and "kernel.step" not in apart.ir("kernel")
    assert bool(re.search(r"┃ *branch *┃", str(compiled.explain()))) == (branches > 1)


def test_a_stream_has_one_order() -> None:
    model, x, _ = _branching()["lstm"]
    compiled = sl.compile(model.eval(), (x,), target=_TARGET, launch="stream")
    assert _branches(compiled) == 1 and "kernel.step" not in compiled.ir("kernel")


def test_concurrent_branches_is_a_flag() -> None:
    with pytest.raises(sl.UserError, match="concurrent_branches is 2 but must be True or False"):
        sl.compile(nn.ReLU(), (torch.zeros(3),), concurrent_branches=2)


class _Random(nn.Module):
    """Operations whose operands are drawn from what is there: diamonds, updates in place, dead ends, slices of one buffer."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        draw = random.Random(seed)
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(3))
        self.plan = [
            (draw.randrange(6), draw.randrange(max(0, n - 5), n), draw.randrange(max(0, n - 7), n))
            for n in range(1, 24)
        ]

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        values = [x]
        for kind, a, b in self.plan:
            one, other = values[a], values[b]
            ways = [
                lambda one=one: F.relu(one) * 1.5, lambda one=one, other=other: one + other * 0.5,
                lambda one=one, kind=kind: self.layers[len(values) % 3](one), lambda one=one: one.softmax(-1),
                lambda one=one, other=other: torch.cat([one[:, :16].tanh(), other[:, 16:].sin()], 1),
                lambda one=one, other=other: one @ other.t() @ other,
            ]  # fmt: skip
            values.append(ways[kind]())
        return values[-1], values[-3], values[-4]


@pytest.mark.parametrize("seed", range(12))
def test_every_branch_may_run_concurrently(seed: int) -> None:
    """The verifier of the planned level looks at each pair of statements that touch the same bytes."""
    torch.manual_seed(seed)
    model, x = _Random(seed).eval(), torch.randn(32, 32)
    compiled = _internal.compile(model, (x,), target=_TARGET, internal={"every_branch": True})
    assert _branches(compiled) > 1 and "kernel.step" in compiled.ir("kernel")
