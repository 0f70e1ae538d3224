# SPDX-License-Identifier: Apache-2.0
"""The model set for a CUDA device, compiled on a machine that need not have one: what runs there, and what kernels take.

Answers are checked on a device by tests/device/models_test.py.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from straightline.testing.models.cases import ALL, settled
from straightline.testing.models.cond import Cond, Double
from torch import Tensor, nn
from torch.nn import functional as F

import straightline as sl

from straightline.testing.cubin import resources_in

_TARGET = "cuda:sm_90"
_STATIC_SHARED = 49 << 10  # bytes that a kernel may declare, and one KiB that every block has
_REGISTERS = 65536  # of a processor


def _kernels_are_fit(cache: Path) -> None:
    """None has to keep what does not fit in registers in memory."""
    kernels = resources_in(cache)
    assert kernels
    for kernel in kernels:
        assert kernel.stack == 0, f"{kernel} spills"
        assert 0 < kernel.registers <= 255 and kernel.shared <= _STATIC_SHARED, kernel


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STRAIGHTLINE_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", ALL)
def test_compiles(name: str, cache: Path) -> None:
    make, inputs, tail = ALL[name]
    compiled = sl.compile(settled(make()), inputs(), target=_TARGET)
    explained = compiled.explain()
    rows = [row for row in explained.statements if row["phase"] == "run" and row["kernel"]]
    assert {row["op"].split(".")[1] for row in rows if row["backend"] == "aten"} == set(tail)
    assert {row["backend"] for row in rows} <= {"cuda", "cublaslt", "cudnn", "aten"}
    between = "of torch" in str(explained["launch_reason"])  # graphs in parts, or too few kernels for any
    assert between == bool(tail) and (tail or explained["launch"] == "graph")
    _kernels_are_fit(cache)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["digits cnn", "resnet-18 1", "mobilenet", "convnext", "unet, nearest", "detection"])
def test_all_convolutions_by_cudnn(name: str, dtype: torch.dtype) -> None:
    make, inputs, _ = ALL[name]
    model, given = settled(make()).to(dtype), tuple(x.to(dtype) for x in inputs())
    compiled = sl.compile(model, given, target=_TARGET, routes={"convolution": "cudnn"})
    rows = [row for row in compiled.explain().statements if row["phase"] == "run" and row["kernel"]]
    convolutions = sum(isinstance(module, nn.Conv1d | nn.Conv2d) for module in model.modules())
    assert sum(row["backend"] == "cudnn" for row in rows) == convolutions
    assert not any(row["family"] == "convolution_direct" for row in rows)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", ["digits cnn 16", "mobilenet", "convnext"])
def test_convolutions_of_other_types(name: str, dtype: torch.dtype, cache: Path) -> None:
    make, inputs, _ = ALL[name]
    compiled = sl.compile(settled(make()).to(dtype), tuple(x.to(dtype) for x in inputs()), target=_TARGET)
    rows = [row for row in compiled.explain().statements if row["family"] == "convolution_direct"]
    assert rows and "TF32" not in str([row["why"] for row in rows])
    _kernels_are_fit(cache)


@pytest.mark.parametrize("route", ["cuda", "cudnn", None])
def test_resnet_is_channels_last_throughout(route: str | None) -> None:
    """20 convolutions, pool, mean and linear; the image is turned, and has a fourth channel of zeros."""
    given = {} if route is None else {"routes": {"convolution": route}}
    with torch.backends.cudnn.flags(allow_tf32=True):
        compiled = sl.compile(settled(ALL["resnet-18 1"].make()), ALL["resnet-18 1"].inputs(), target=_TARGET, **given)
    rows = [row for row in compiled.explain().statements if row["phase"] == "run"]
    convolutions = [row for row in rows if row["op"].startswith("convolution")]
    assert len(convolutions) == 20
    assert sum("relu" in row["op"] for row in convolutions) == 17
    assert len(rows) <= 25, [(row["op"], row["why"]) for row in rows]
    backends = {row["backend"] for row in convolutions}
    assert backends == ({"cuda", "cudnn"} if route is None else {route}), (
        "small ones are ours, large ones the library's"
    )


@pytest.mark.parametrize("allowed", [True, False])
def test_tf32_is_what_torch_says(allowed: bool) -> None:
    model = nn.Sequential(nn.Conv2d(8, 16, 3), nn.Flatten(2), nn.Linear(36, 40)).eval()
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    before = cudnn.allow_tf32, matmul.allow_tf32
    try:
        cudnn.allow_tf32, matmul.allow_tf32 = allowed, not allowed
        compiled = sl.compile(model, (torch.randn(4, 8, 8, 8),), target=_TARGET)
    finally:
        cudnn.allow_tf32, matmul.allow_tf32 = before
    rows = {row["family"]: str(row["why"]) for row in compiled.explain().statements}
    assert ("TF32" in rows["convolution_direct"]) == allowed
    assert ("TF32" in rows["matmul"]) == (not allowed)
    assert compiled.code.count(".tf32 = 1") == 1


class _Grouped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(32, 64, 3, groups=2, padding=1)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return F.relu(self.conv(x) + y)


@pytest.mark.parametrize("route", ["cuda", "cudnn"])
def test_a_residual_is_part_of_the_convolution(route: str) -> None:
    given = (torch.randn(2, 32, 9, 9), torch.randn(2, 64, 9, 9))
    compiled = sl.compile(_Grouped().eval(), given, target=_TARGET, routes={"convolution": route})
    rows = [row for row in compiled.explain().statements if row["backend"] == route and "convolution" in row["op"]]
    assert [row["op"] for row in rows] == ["convolution, add, relu"]


def test_a_batch_may_be_dynamic() -> None:
    batch = torch.export.Dim("batch", min=1, max=64)
    model = nn.Sequential(nn.Conv2d(8, 16, 3), nn.ReLU(), nn.MaxPool2d(2)).eval()
    compiled = sl.compile(model, (torch.randn(3, 8, 8, 8),), target=_TARGET, dynamic_shapes=({0: batch},))
    assert "batch" in compiled.code.split("sl_program_run")[1]


@pytest.mark.parametrize(("model", "reads"), [(Cond(), 1), (Double(), 1)], ids=["cond", "while"])
def test_what_the_host_reads_is_shown(model: nn.Module, reads: int) -> None:
    compiled = sl.compile(model, (torch.rand(4),), target=_TARGET)
    explained = compiled.explain()
    assert sum(row["op"] == "read on the host" for row in explained.statements) == reads
    assert explained["launch"] == "stream" and "no graph" in str(explained["launch_reason"])
    assert compiled.code.count("const sl::Event ") == reads


@pytest.mark.parametrize(("cell", "steps"), [(nn.LSTM, 5), (nn.GRU, 40), (nn.RNN, 40)])
def test_a_loop_of_known_length_is_a_graph(cell: type[nn.RNNBase], steps: int) -> None:
    """The steps of a layer whose weight the registers of a cluster cannot hold."""
    compiled = sl.compile(
        cell(16, 1024 if cell is nn.RNN else 512).eval(), (torch.randn(steps, 1, 16),), target=_TARGET
    )
    assert compiled.explain()["launch"] == "graph"
    assert "for (" in compiled.code.split("sl_program_run")[1]


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    ("hidden", "batch", "blocks"),
    [(24, 1, 1), (128, 1, 8), (128, 40, 8), (131, 3, 8), (200, 33, 8)],
    ids=["small", "one", "many", "odd", "large"],
)
def test_a_recurrent_layer_is_one_kernel(
    hidden: int,
    batch: int,
    blocks: int,
    dtype: torch.dtype,
    cell: type[nn.RNNBase],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All steps; the weight stays in registers, none of which spills."""
    monkeypatch.setenv("STRAIGHTLINE_CACHE_DIR", str(tmp_path))
    if dtype is torch.float64:
        hidden, batch = min(hidden, 140), min(batch, 3)  # twice the registers
    model = cell(40, hidden, batch_first=True).to(dtype).eval()
    compiled = sl.compile(model, (torch.randn(batch, 20, 40).to(dtype),), target=_TARGET)
    rows = [row for row in compiled.explain().statements if row["phase"] == "run"]
    assert [row["family"] for row in rows].count("recurrent_sequence") == 1
    assert len(rows) <= 3, [row["kernel"] for row in rows]
    if hidden > 24 or dtype is not torch.float64:  # whose functions take twice the instructions: two blocks are faster
        assert int(re.search(r"\.blocks = (\d+), \.rows", compiled.code)[1]) == blocks  # type: ignore[index]
    (kernel,) = (kernel for kernel in resources_in(tmp_path) if kernel.kernel.startswith(cell.__name__.lower()))
    assert kernel.stack == 0, kernel


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_any_number_of_steps_is_one_kernel_a_direction(dtype: torch.dtype, cell: type[nn.RNNBase]) -> None:
    model = cell(8, 24, bidirectional=True).to(dtype).eval()
    compiled = sl.compile(
        model,
        (torch.randn(6, 2, 8).to(dtype),),
        target=_TARGET,
        dynamic_shapes=({0: torch.export.Dim("s", min=1, max=500)},),
    )
    assert [row["family"] for row in compiled.explain().statements].count("recurrent_sequence") == 2
