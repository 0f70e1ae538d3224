# SPDX-License-Identifier: Apache-2.0
"""Signals and images stay channels last from one convolution to the next, whatever stands between them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from cuda_on_host import compare
from policy import check, launches
from torch import Tensor, nn
from torch.export import Dim

import straightline as sl


class Signals(nn.Module):
    """1-D convolutions with other borders, a gate over halves, a residual, a depthwise and a strided one, and two readers."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.first = nn.Conv1d(3, channels, 5, padding=2)
        self.gated = nn.Conv1d(channels, 2 * channels, 3, padding=4, dilation=4)
        self.deep = nn.Conv1d(channels, channels, 3, padding=1, groups=channels)
        self.one = nn.Conv1d(channels, channels, 1)
        self.halved = nn.Conv1d(channels, 5, 4, stride=2)

    def forward(self, x: Tensor) -> list[Tensor]:
        x = self.first(x).relu()
        a, b = self.gated(x).chunk(2, 1)
        y = x + torch.tanh(a) * torch.sigmoid(b)
        z = self.one(self.deep(y)) * y
        return [self.halved(z), z.mean(-1), y[:, 2:5, 1::2] - 1, z.flatten(1)]


class Images(nn.Module):
    """The same with two dims: parts of a channels-last value are channels last."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.second = nn.Conv2d(8, 16, 3, padding=1)
        self.third = nn.Conv2d(16, 4, 5, padding=2)

    def forward(self, x: Tensor) -> list[Tensor]:
        a, b = self.first(x).chunk(2, 1)
        y = self.second(a * torch.sigmoid(b))
        return [self.third(y.relu()), y.amax((2, 3)), y[:, ::3]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("batch", [1, 3])
def test_signals(dtype: torch.dtype, batch: int) -> None:
    check(Signals().to(dtype).eval(), (torch.randn(batch, 3, 29, dtype=dtype),))


def test_nothing_is_reordered_between_signals() -> None:
    model = nn.Sequential(
        nn.Conv1d(3, 16, 5, padding=2), nn.GELU(), nn.Conv1d(16, 32, 3, padding=1), nn.GLU(1), nn.Conv1d(16, 8, 1)
    )
    compiled = check(model.eval(), (torch.randn(2, 3, 50),))
    ops = [op for row in launches(compiled) for op in row["op"].split(", ")]
    reorders = [op for op in ops if op in ("reorder", "copy")]
    assert len(reorders) == 2, reorders  # what comes in, and what goes out


def test_signals_of_any_length() -> None:
    length = torch.export.Dim("length", min=16, max=200)
    calls = [(torch.randn(2, 3, n),) for n in (16, 17, 200)]
    check(Signals().eval(), (torch.randn(2, 3, 64),), calls=calls, dynamic_shapes=({2: length},))


@pytest.mark.parametrize("threads", [1, 2])
def test_images(threads: int) -> None:
    check(Images().eval(), (torch.randn(2, 3, 13, 11),), threads=threads)


def test_a_weight_whose_shape_takes_a_copy_is_copied_once() -> None:
    """The reshape of a permuted weight is no view: prepare makes it, also for what reads it unpacked and for a bias."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w, self.b = nn.Parameter(torch.randn(3, 4, 2, 5)), nn.Parameter(torch.randn(4))

        def forward(self, x: Tensor) -> list[Tensor]:
            w = self.w.permute(1, 2, 0, 3).reshape(8, 15)
            b = self.b.expand(2, 4).reshape(8)
            return [torch.nn.functional.linear(x, w, b), x.sum(0)[:8] * b, w[1] + x[0, 0]]

    model, x = Model(), torch.randn(2, 15)
    check(model, (x,))
    rows = sl.compile(model, (x,)).explain().statements
    assert [row["op"] for row in rows if row["op"] == "reshape" and row["phase"] == "run"] == []
    assert [row["op"] for row in rows if row["op"] == "reshape" and row["phase"] == "prepare"] == ["reshape"] * 2


def _deep(channels: int, kernel: int | tuple[int, int], outputs: int = 1, **more: object) -> nn.Conv2d:
    return nn.Conv2d(channels, channels * outputs, kernel, groups=channels, **more)


@pytest.mark.parametrize("cpu", ["", "x86-64-v3"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_depthwise_over_row_major_images(dtype: torch.dtype, cpu: str) -> None:
    """Every kind of kernel and width: two rows at once and an odd one left, strides, dilation, several outputs of a channel."""
    models = [
        (_deep(5, 3, padding=1), (2, 5, 7, 17)), (_deep(3, 5, padding=2), (1, 3, 20, 40)), (_deep(2, 7, padding=3), (1, 2, 9, 66)),
        (_deep(4, 3, stride=2, padding=1), (1, 4, 13, 35)), (_deep(2, (2, 4), stride=(1, 3), padding=(0, 2)), (1, 2, 6, 50)),
        (_deep(2, 3, dilation=2, padding=2), (1, 2, 12, 21)), (_deep(3, 3, 2, padding=1), (1, 3, 10, 33)), (_deep(1, 3), (1, 1, 5, 5)),
        (_deep(40, 3, padding=1), (1, 40, 6, 6)), (_deep(2, 3, padding=1), (1, 2, 90, 130)),
    ]  # fmt: skip
    for model, shape in models:
        check(
            nn.Sequential(model, nn.SiLU()).to(dtype).eval(),
            (torch.randn(shape, dtype=dtype),),
            cpu=cpu,
            threads=1,
        )


def test_depthwise_by_two_threads_and_of_any_batch() -> None:
    """The epilogue adds what it is given, in place, and the size of the batch is not known."""

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.deep = _deep(6, 3, padding=1)

        def forward(self, x: Tensor) -> Tensor:
            return (self.deep(x) + x.exp()).relu()

    check(Residual().eval(), (torch.randn(1, 6, 40, 41),), threads=2)
    calls = [(torch.randn(n, 6, 11, 19),) for n in (1, 7)]
    check(
        Residual().eval(),
        (torch.randn(3, 6, 11, 19),),
        calls=calls,
        dynamic_shapes=({0: Dim("n", min=1, max=9)},),
    )


@pytest.mark.parametrize("stride", [1, 2])
def test_nothing_is_reordered_around_a_depthwise_convolution(stride: int) -> None:
    model = nn.Sequential(
        nn.Conv2d(8, 32, 1),
        nn.ReLU6(),
        _deep(32, 3, stride=stride, padding=1),
        nn.ReLU6(),
        nn.Conv2d(32, 8, 1),
    ).eval()
    compiled = check(model, (torch.randn(2, 8, 15, 15),))
    reorders = [row["why"] for row in launches(compiled) if row["op"] in ("reorder", "copy")]
    assert len(reorders) == 2, reorders  # what comes in, and what goes out


class Blocks(nn.Module):
    """As in ConvNeXt: a depthwise convolution, then a norm and two products over channels, whose result is an image again."""

    def __init__(self, channels: int, count: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, channels, 4, stride=4)
        self.deep = nn.ModuleList(nn.Conv2d(channels, channels, 7, padding=3, groups=channels) for _ in range(count))
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(count))
        self.wide = nn.ModuleList(nn.Linear(channels, 4 * channels) for _ in range(count))
        self.narrow = nn.ModuleList(nn.Linear(4 * channels, channels) for _ in range(count))
        self.scale = nn.Parameter(torch.randn(channels, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for deep, norm, wide, narrow in zip(self.deep, self.norms, self.wide, self.narrow, strict=True):
            y = narrow(nn.functional.gelu(wide(norm(deep(x).permute(0, 2, 3, 1)))))
            x = x + self.scale * y.permute(0, 3, 1, 2)
        return x.mean((2, 3))


def test_an_image_made_of_rows_of_channels_stays_as_it_lies() -> None:
    model = Blocks(32, 2).eval()
    compiled = check(model, (torch.randn(2, 3, 32, 32),))
    assert [row["op"] for row in launches(compiled) if "copy" in row["kernel"]] in ([], ["reorder"])  # the entry


@pytest.mark.parametrize("batch", [1, 64])
def test_a_norm_over_the_channels_of_an_image_is_one_kernel_of_a_device(batch: int) -> None:
    """Also where there are rows enough to cut columns in parts: they are no columns."""
    compiled = sl.compile(Blocks(64, 2).eval(), (torch.randn(batch, 3, 112, 112),), target="cuda:sm_90")
    rows = [row["kernel"] for row in launches(compiled) if row["family"] == "row_reduction"]
    norms = [kernel for kernel in rows if kernel.startswith("rows_sum_sum_")]
    assert len(norms) == 2 and all(kernel.startswith(f"rows_sum_sum_{batch * 784}_by_64") for kernel in norms), rows


def test_heads_of_several_examples_are_views() -> None:
    """`nn.MultiheadAttention` joins examples and heads to one dim on the way, and takes tokens before examples."""

    class Own(nn.MultiheadAttention):
        def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
            return super().forward(x, x, x, need_weights=False)[0]

    compiled = check(Own(32, 4, batch_first=True).eval(), (torch.randn(3, 7, 32),))
    copies = [(row["op"], row["why"]) for row in launches(compiled) if row["op"] in ("reshape", "clone")]
    assert not copies, copies


def test_repeated_heads_are_not_copied() -> None:
    def model(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        k, v = (x[:, :, None].expand(2, 2, 3, 9, 16).reshape(2, 6, 9, 16) for x in (k, v))
        return nn.functional.scaled_dot_product_attention(q, k, v)

    compiled = check(model, (torch.randn(2, 6, 5, 16), torch.randn(2, 2, 9, 16), torch.randn(2, 2, 9, 16)))
    assert len(launches(compiled)) == 1, [row["kernel"] for row in launches(compiled)]


def test_a_product_adds_the_residual_behind_a_permute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scale is folded into the weight; the last sum is read as rows of channels, too."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    rows = compare(Blocks(16, 2), (torch.randn(2, 3, 24, 24),), tmp_path, {"linear": "cuda", "convolution": "cuda"})
    ops = [row["op"] for row in rows]
    assert ops.count("linear, add") == 2 and not any("mul, add" == op for op in ops), ops
    assert {row["family"] for row in rows if row["op"] == "linear, add"} == {"matmul"}
