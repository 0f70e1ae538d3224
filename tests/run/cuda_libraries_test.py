# SPDX-License-Identifier: Apache-2.0
"""What cuBLASLt and cuDNN do of a program for a CUDA device, and what they are not given, on a machine that has none of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from statements import launches_of
from torch import Tensor, nn
from torch.nn import functional as F

import straightline as sl

_TARGET = "cuda:sm_90"


class _Gated(nn.Module):
    """Two products with what a library takes behind them, and one with what it does not."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.last = nn.Linear(2048, 4096), nn.Linear(4096, 2048, bias=False), nn.Linear(2048, 2048)

    def forward(self, x: Tensor) -> Tensor:
        x = self.down(F.gelu(self.up(x), approximate="tanh"))
        return x + torch.tanh(F.relu(self.last(x)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_large_products_are_a_librarys(dtype: torch.dtype) -> None:
    compiled = sl.compile(_Gated().to(dtype).eval(), (torch.randn(512, 2048).to(dtype),), target=_TARGET)
    launches = launches_of(compiled)
    assert [row["backend"] for row in launches] == ["cublaslt", "cublaslt", "cublaslt", "cuda"]
    assert "captured again when an address changes" in str(launches[0]["why"]) and "cuda.linear: estimated" in str(
        launches[0]["why"]
    )
    assert [row.get("captured_again") for row in launches] == [["x"], None, None, None], (
        "the last one writes the result"
    )
    assert "; captured again where x is elsewhere" in re.sub(r"[│\s]+", " ", str(compiled.explain()))
    run = compiled.code.split("sl_program_run(")[1].split("\n}\n")[0]
    assert run.count("sl_queue_launch(ctx, io->queues[1], thunk_cublaslt_linear_") == 3
    ir = compiled.ir("kernel")
    decls = re.findall(r"kernel.decl @cublaslt_linear_\d.*?\n.*?\{(.*?)\}", ir)
    assert [re.findall(r'activation = "(\w+)"', decl) for decl in decls] == [["gelu_tanh"], [], []], (
        "GELU is in the epilogue"
    )
    assert "kernel.plan @cublaslt_linear_0() outs" in ir and 'kernel.runs_on = "cuda"' in ir


def test_ways_that_may_be_measured() -> None:
    """Every kernel that takes a contraction, of a library in several variants; the one that is chosen reaches the library's plan."""
    model = nn.Sequential(
        nn.Linear(64, 512), nn.Tanh(), nn.Linear(512, 64), nn.Tanh(), nn.Unflatten(1, (64, 1, 1)), nn.Conv2d(64, 64, 1)
    )
    captured = sl.compile(model.eval(), (torch.randn(48, 64),), target=_TARGET).ir("op")
    module = sl._compiler.Module.parse(captured)
    compiled = partial(sl._compiler.compile, emit_only=True, target=_TARGET, tf32="convolution")
    rows = json.loads(compiled(module, list_candidates=True).explain_json)["candidates"]
    assert [row["key"].partition("(")[0] for row in rows] == ["linear", "linear", "convolution"]
    assert [row["key"].endswith(",edge@sm_90") for row in rows] == [True, False, False]
    for row in rows:
        own = "cuda." + row["key"].partition("(")[0]
        library, variants = ("cublaslt.linear", 8) if own == "cuda.linear" else ("cudnn.convolution", 6)
        offered = [f"{library}[variant:{variant}]" for variant in range(variants)]
        assert set(offered) < set(row["candidates"]) and any(name.startswith(own) for name in row["candidates"])
        costs = dict(zip(row["candidates"], row["at_edge_us"], strict=True))
        assert {costs[name] for name in offered} == {2.0 if "edge" in row["key"] else 0.0}
        for given in (
            module,
            sl._compiler.Module.parse(row["module"]),
        ):  # in its model, and by itself, where it is measured
            made = compiled(given, choices={row["key"]: offered[3]})
            statements = json.loads(made.explain_json)["statements"]
            (chosen,) = [line for line in statements if line.get("choice") == row["key"] and line["phase"] == "run"]
            assert chosen["why"].startswith(f"measured: {offered[3]};"), chosen
            (decl,) = re.findall(rf"kernel.decl @{chosen['kernel']}.*?\n.*?\{{(.*?)\}}", made.ir("kernel"))
            assert "variant = 3 : i64" in decl, decl
            problem = made.code.split(f"{chosen['kernel']}_problem = {{")[1].split("};")[0]
            assert re.search(r'nullptr,\s*0,\s*3,\s*0,\s*"cuda"', problem), problem


def test_nothing_turns_images_that_are_measured_between_convolutions() -> None:
    """They lie channels last there as well; only what a caller gives or gets is turned, which counts for the kernels that need it."""
    model = nn.Sequential(*(nn.Conv2d(64, 64, 3, padding=1) for _ in range(3))).eval()
    captured = sl.compile(model, (torch.randn(8, 64, 64, 64),), target=_TARGET).ir(
        "op"
    )  # each size the same: types tell nothing
    compiled = partial(sl._compiler.compile, emit_only=True, target=_TARGET, tf32="convolution")
    module = sl._compiler.Module.parse(captured)
    rows = json.loads(compiled(module, list_candidates=True).explain_json)["candidates"]
    beside = []
    for row in rows:
        own = sl._compiler.Module.parse(row["module"])
        for name in (
            "cudnn.convolution[variant:1]",
            next(name for name in row["candidates"] if name.startswith("cuda.")),
        ):
            facts = json.loads(compiled(own, choices={row["key"]: name}).explain_json)
            run = [line for line in facts["statements"] if line["phase"] == "run"]
            assert sum(line.get("choice") == row["key"] for line in run) == 1
            beside.append(len(run) - 1)
    assert beside == [1, 1, 0, 0, 1, 0], rows


def test_the_edge_of_a_graph_is_ours() -> None:
    """Where a library is little better, what has the caller's memory is not left to it; by `launch="stream"` it is."""
    model = nn.Sequential(*(nn.Linear(512, 512, bias=False) for _ in range(3))).to(torch.bfloat16).eval()
    given = (torch.randn(128, 512).to(torch.bfloat16),)
    backends = lambda **more: [row["backend"] for row in launches_of(sl.compile(model, given, target=_TARGET, **more))]  # noqa: E731
    assert backends() == backends(launch="graph") == ["cuda", "cublaslt", "cuda"]
    assert backends(launch="stream") == ["cublaslt"] * 3
    results = sl.compile(model, given, target=_TARGET, routes={"linear": "cublaslt"})
    assert [row.get("captured_again") for row in launches_of(results)] == [["input"], None, ["linear_2"]]
    assert "elsewhere" not in str(
        sl.compile(model, given, target=_TARGET, routes={"linear": "cublaslt"}, launch="stream").explain()
    )


def test_one_line_moves_a_product() -> None:
    for route, backend in (("cuda", "cuda"), ("cublaslt", "cublaslt"), ("cublaslt.linear", "cublaslt")):
        compiled = sl.compile(
            nn.Linear(64, 64).eval(), (torch.randn(40, 64),), target=_TARGET, routes={"linear": route}
        )
        (launch,) = launches_of(compiled)
        assert launch["backend"] == backend and f"route linear = {route}" in str(launch["why"])
    with pytest.raises(sl.UserError, match="m is dynamic, needs sizes that are known when it is planned"):
        batch = torch.export.Dim("batch", min=2, max=64)
        sl.compile(
            nn.Linear(8, 8),
            (torch.randn(5, 8),),
            target=_TARGET,
            routes={"linear": "cublaslt"},
            dynamic_shapes=({0: batch},),
        )


class _Residual(nn.Module):
    def __init__(self, bias: bool = True, one: bool = False) -> None:
        super().__init__()
        self.conv = (nn.Conv1d if one else nn.Conv2d)(16, 16, 3, padding=1, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.conv(x) + x)


def _declared(compiled: Any) -> str:
    """What the plan of the one convolution is told."""
    (text,) = re.findall(r"kernel.decl @cudnn_convolution_0.*?\n.*?\{(.*?)\}", compiled.ir("kernel"))
    return text


def test_one_line_moves_a_convolution() -> None:
    model = nn.Conv2d(8, 16, 3).eval()
    for route, backend in (
        ("cuda", "cuda"),
        ("cuda.convolution", "cuda"),
        ("cudnn", "cudnn"),
        ("cudnn.convolution", "cudnn"),
    ):
        compiled = sl.compile(model, (torch.randn(2, 8, 9, 9),), target=_TARGET, routes={"convolution": route})
        (row,) = [row for row in launches_of(compiled) if row["op"] == "convolution"]
        assert row["backend"] == backend and f"route convolution = {route}" in str(row["why"])
    with pytest.raises(sl.UserError, match="n is dynamic, needs sizes that are known when it is planned"):
        batch = torch.export.Dim("batch", min=2, max=64)
        given = {"target": _TARGET, "routes": {"convolution": "cudnn"}, "dynamic_shapes": ({0: batch},)}
        sl.compile(model, (torch.randn(5, 8, 9, 9),), **given)
    with pytest.raises(sl.UserError, match="runs on cuda, the program on cpu"):
        sl.compile(model, (torch.randn(2, 8, 9, 9),), routes={"convolution": "cudnn"})
    with pytest.raises(sl.UserError, match="cudnn.convolution: transposed=1, needs 0"):
        transposed = nn.ConvTranspose2d(8, 8, 3, stride=2, groups=2).eval()
        sl.compile(transposed, (torch.randn(2, 8, 9, 9),), target=_TARGET, routes={"convolution": "cudnn"})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("bias", "one"), [(True, False), (False, False), (True, True)])
def test_bias_residual_and_relu_are_the_librarys(bias: bool, one: bool, dtype: torch.dtype) -> None:
    x = torch.randn((2, 16, 9) if one else (2, 16, 9, 9)).to(dtype)
    compiled = sl.compile(_Residual(bias, one).to(dtype).eval(), (x,), target=_TARGET, routes={"convolution": "cudnn"})
    assert [row["backend"] for row in launches_of(compiled)] == ["cuda", "cudnn", "cuda"], (
        "but what turns image and result"
    )
    assert 'activation = "relu"' in _declared(compiled)
    assert "sl_queue_launch(ctx, io->queues[1], thunk_cudnn_convolution_0" in compiled.code
    assert ("no_bias" in compiled.ir("kernel")) == (not bias)
    python = sl.compile(
        _Residual(bias, one).to(dtype).eval(), (x,), target=_TARGET, routes={"convolution": "cudnn"}, emit="python"
    )
    assert "cudnn.cudnn_convolution_0(queue_1, cudnn_convolution_0_handle, " in python.code


@pytest.mark.parametrize("then", [F.silu, lambda y: F.relu(torch.tanh(y))])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_what_else_follows_a_convolution_is_a_kernel(then: Callable[[Tensor], Any], dtype: torch.dtype) -> None:
    conv = nn.Conv2d(8, 16, 3).to(dtype).eval()

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = conv

        def forward(self, x: Tensor) -> Any:
            return then(self.conv(x))

    compiled = sl.compile(
        Model(), (torch.randn(2, 8, 9, 9).to(dtype),), target=_TARGET, routes={"convolution": "cudnn"}
    )
    rows = launches_of(compiled)
    assert sum(row["backend"] == "cudnn" for row in rows) == 1 and "activation" not in _declared(compiled)
    assert sum("epilogue" in str(row["why"]) for row in rows) == 1, rows


@pytest.mark.parametrize(
    "shape", [((6, 65, 33), (6, 33, 17)), ((2, 3, 65, 33), (3, 33, 17)), ((33,), (33, 8)), ((5, 33), (33,))]
)
def test_operands_of_any_strides_reach_the_library(shape: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = (torch.randn(sizes) for sizes in shape)
    inputs = [(a, b)]
    if a.dim() > 1 and b.dim() > 1:
        inputs.append((a.mT.contiguous().mT, b.mT.contiguous().mT))
        inputs.append((a.repeat_interleave(2, -1)[..., ::2], b))
    for given in inputs:
        compiled = sl.compile(
            lambda a, b: a @ b, given, target=_TARGET, routes={"matmul": "cublaslt", "linear": "cublaslt"}
        )
        assert "cublaslt" in {row["backend"] for row in launches_of(compiled)}


class _Added(nn.Module):
    """A linear to whose result something is added."""

    def __init__(self, of: Callable[[Tensor, Tensor], Tensor], bias: bool = True) -> None:
        super().__init__()
        self.of, self.linear = of, nn.Linear(64, 48, bias=bias)

    def forward(self, x: Tensor, r: Tensor) -> Tensor:
        return self.of(self.linear(x), r)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("bias", [True, False])
def test_a_residual_of_a_product(bias: bool, dtype: torch.dtype) -> None:
    """The library adds it; its kernel takes a bias beside it, of zeros where the model has none."""
    given = (torch.randn(2, 20, 64, dtype=dtype), torch.randn(2, 20, 48, dtype=dtype))
    for of in (lambda y, r: y + r, lambda y, r: r + y, lambda y, r: torch.add(y, r)):
        compiled = sl.compile(_Added(of, bias).to(dtype).eval(), given, target=_TARGET, routes={"linear": "cublaslt"})
        assert [row["backend"] for row in launches_of(compiled)] == ["cublaslt"]
        (call,) = re.findall(r"kernel.call @cublaslt_linear_0\((.*?)\)", compiled.ir("kernel"))
        assert call.count("%") == 4 and ('"no_bias.0"' in compiled.ir("kernel")) == (not bias)


@pytest.mark.parametrize(
    "of, shape",
    [
        (lambda y, r: y - r, (40, 48)),
        (lambda y, r: y * r, (40, 48)),
        (lambda y, r: torch.tanh(y + r), (40, 48)),
        (lambda y, r: y + r, (40, 1)),
        (lambda y, r: y + r.t(), (48, 40)),
        (lambda y, r: (y + r, y), (40, 48)),
        (lambda y, r: y + y, (40, 48)),
    ],
    ids=["difference", "product", "activation", "column", "transposed", "both read", "twice"],
)
def test_what_is_no_residual_of_a_product(of: Callable[[Tensor, Tensor], Any], shape: tuple[int, int]) -> None:
    given = (torch.randn(40, 64), torch.randn(shape))
    compiled = sl.compile(_Added(of).eval(), given, target=_TARGET, routes={"linear": "cublaslt"})
    assert [row["backend"] for row in launches_of(compiled)] == ["cublaslt", "cuda"]
    (call,) = re.findall(r"kernel.call @cublaslt_linear_0\((.*?)\)", compiled.ir("kernel"))
    assert call.count("%") == 3
