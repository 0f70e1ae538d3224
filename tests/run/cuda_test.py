# SPDX-License-Identifier: Apache-2.0
"""Programs for a CUDA device on a machine that has none: lowered, emitted, compiled for sm_90 by NVRTC from its wheel."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import straightline as sl
from straightline import _call

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from straightline.bench.case import Case
from bench.cuda_cases import CUDA_CASES

_TARGET = "cuda:sm_90"


def _launches(function: object) -> list[dict[str, object]]:
    return [row for row in function.explain().statements if row["phase"] == "run"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("case", CUDA_CASES, ids=lambda case: case.name)
def test_is_one_kernel_with_its_source_and_its_launch(case: Case) -> None:
    model, inputs = case.make()
    compiled = sl.compile(model, inputs, target=_TARGET, cache=False)
    (launch,) = _launches(compiled)
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
    assert {row["backend"] for row in _launches(compiled)} == {"cuda"}


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.bool, torch.uint8])
def test_integers_compile(dtype: torch.dtype) -> None:
    x, y = torch.randint(0, 2, (64, 40)).to(dtype), torch.randint(0, 2, (40,)).to(dtype)
    compiled = sl.compile(lambda a, b: ((a & b) | (a ^ b), a != b, (a > 0).any(1)), (x, y), target=_TARGET)
    assert {row["backend"] for row in _launches(compiled)} == {"cuda"}


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
    assert {row["backend"] for row in _launches(compiled)} == {"cuda"}
    assert "row_reduction" in {row["family"] for row in _launches(compiled)}


def test_arguments_of_largest_and_softmax_compile() -> None:
    compiled = sl.compile(lambda x: (x.argmax(-1), F.softmax(x, -1)), (torch.randn(20, 300),), target=_TARGET)
    assert {row["family"] for row in _launches(compiled)} == {"row_reduction"}
    assert ".kept = 0" in compiled.code


def test_named_extents_size_the_grid() -> None:
    batch = torch.export.Dim("batch", min=2, max=100000)
    compiled = sl.compile(
        lambda x, b: F.relu(x + b), (torch.randn(5, 64), torch.randn(64)), target=_TARGET, dynamic_shapes=({0: batch}, None)
    )
    grid = re.search(r"\.blocks = (.*), \.threads", compiled.code)
    assert grid is not None and "batch" in grid[1]
    assert re.search(r"sl::place\(batch\)", compiled.code)


def test_a_literal_is_copied_once_by_prepare() -> None:
    table = torch.randn(33)
    compiled = sl.compile(lambda x: x * table, (torch.randn(4, 33),), target=_TARGET)
    rows = compiled.explain().statements
    assert [row["kernel"] for row in rows if row["phase"] == "prepare"] in ([], ["copy"])
    assert len(_launches(compiled)) == 1


def test_every_kernel_without_a_cuda_form_is_listed() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(8, 8), nn.Conv1d(4, 4, 3)

        def forward(self, x: Tensor) -> Tensor:
            y = self.first(x)
            return self.second(y)

    with pytest.raises(sl.UnsupportedError) as caught:
        sl.compile(Model().eval(), (torch.randn(2, 4, 8),), target=_TARGET)
    text = str(caught.value)
    lines = Path(__file__).read_text().splitlines()
    for call, op in (("self.first(x)", "linear"), ("self.second(y)", "convolution")):
        line = next(i for i, source in enumerate(lines, 1) if call in source and "(call" not in source)
        assert re.search(rf"cuda_test\.py:{line}.*unsupported: .*{op}.* on cuda: kernels of family '\w+' have no CUDA form", text)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"target": "cuda:sm_9"}, sl.UserError, "target is 'cuda:sm_9' but must be None, 'cpu', 'cuda' or 'cuda:sm_NN'"),
        ({"target": 90}, sl.UserError, "target is 90 but must be"),
        ({"target": "cuda:sm_20"}, sl.UnsupportedError, r"target cuda:sm_20 is unknown to NVRTC \d+\.\d+, which knows sm_"),
        ({"target": _TARGET, "emit": "python"}, sl.UnsupportedError, "emit is 'python'"),
        ({"target": _TARGET, "launch": "graphs"}, sl.UserError, "launch is 'graphs' but must be None, 'stream' or 'graph'"),
        ({"launch": True}, sl.UserError, "launch is True but must be None, 'stream' or 'graph'"),
        ({"launch": "graph"}, sl.UserError, "launch is 'graph' but the program is for the cpu: only a cuda device takes graphs"),
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
    assert nodes == len(_launches(compiled)) >= 2 and reason == ""
    if launch is None:
        assert explained["launch_reason"].startswith(f"{nodes} nodes")


def test_how_it_is_launched_is_no_part_of_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRAIGHTLINE_CACHE_DIR", str(tmp_path))
    first = sl.compile(_three_kernels, (torch.randn(30, 40),), target=_TARGET, launch="stream")
    second = sl.compile(_three_kernels, (torch.randn(30, 40),), target=_TARGET, launch="graph")
    assert first.code == second.code and second._compilation.counts[0] == 0


def test_one_kernel_is_one_node() -> None:
    explained = sl.compile(lambda x: x + 1, (torch.randn(4),), target=_TARGET).explain()
    assert explained["launch"] == "graph" and explained["launch_reason"].startswith("1 node in one launch")


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
    rows = re.findall(r"\{sizeof\(sl_device_code\), .*, (\d+), (\d+)\},", code)
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


def test_the_cpu_path_knows_nothing_of_it() -> None:
    before = _call.cuda_calls()
    compiled = sl.compile(lambda x: x + 1, (torch.randn(4),))
    compiled(torch.randn(4))
    assert json.dumps(_call.cuda_calls()) == json.dumps(before)
    assert "SL_KERNEL" not in compiled.code and "sl_queue" not in compiled.code
