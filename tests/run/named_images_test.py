# SPDX-License-Identifier: Apache-2.0
"""Convolutions and pools of torch over named sizes of images and signals: our own kernels, each executor against eager."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import straightline as sl
from tests.run.data_sizes_test import check, seeded

_BATCH, _HIGH, _WIDE = (
    Dim("n", min=1, max=64),
    Dim("h", min=9, max=2000),
    Dim("w", min=9, max=2000),
)
#: Torch's export of a net of windows up to 2.11 at least asks that some sizes be even.
_OLD = torch.__version__ < (2, 13)
_SIZES = ((2, 20, 31), (1, 9, 10), (3, 33, 9), (1, 64, 50))


def _net() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        nn.Conv2d(8, 8, 3, 1, 1, groups=8), nn.Hardswish(), nn.Conv2d(8, 12, 1),
        nn.AvgPool2d(3, 1, 1), nn.Conv2d(12, 8, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5),
    )  # fmt: skip


MODELS: dict[str, Any] = {
    "plain": lambda: nn.Conv2d(3, 24, 3, 1, 1),
    "strided": lambda: nn.Conv2d(6, 8, (3, 5), (2, 3), (2, 0), (2, 1)),
    "without a bias": lambda: nn.Conv2d(3, 7, 2, bias=False),
    "groups": lambda: nn.Conv2d(6, 9, 3, groups=3),
    "depthwise": lambda: nn.Conv2d(24, 24, 3, 1, 1, groups=24),
    "same": lambda: nn.Conv2d(4, 4, 4, padding="same"),
    "reflected": lambda: nn.Conv2d(4, 5, 3, padding=1, padding_mode="reflect"),
    "transposed by its kernel": lambda: nn.ConvTranspose2d(3, 8, 2, 2),
    "transposed in groups": lambda: nn.ConvTranspose2d(4, 8, 3, 2, 1, 1, groups=2),
    "a net": _net,
}


def _channels(model: nn.Module) -> int:
    return next(layer for layer in model.modules() if hasattr(layer, "in_channels")).in_channels


def _ops(compiled: Any) -> list[str]:
    return [row["op"] for row in compiled.explain()["statements"]]


@pytest.mark.parametrize("name", [name for name in MODELS if not (_OLD and name == "a net")])
@torch.no_grad()
def test_images(name: str) -> None:
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    generator = seeded()
    calls = [(torch.randn(n, _channels(model), h, w, generator=generator),) for n, h, w in _SIZES]
    (compiled, *_) = check(model, calls, dynamic_shapes=({0: _BATCH, 2: _HIGH, 3: _WIDE},))
    assert not [op for op in _ops(compiled) if op.startswith("aten")]


@pytest.mark.parametrize("open_dims", ["all", "images", "width"])
@torch.no_grad()
def test_many_channels_have_a_kernel_for_few_pixels(open_dims: str) -> None:
    """A branch between forms of the weight: each side of it, and what lies at its edge, against eager."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(256, 256, 3, padding=1, bias=False), nn.BatchNorm2d(256), nn.ReLU(), nn.Conv2d(256, 256, 3, padding=1)
    ).eval()
    generator = seeded()
    names = {"all": (0, 2, 3), "images": (0,), "width": (3,)}[open_dims]
    dims = {dim: Dim(f"d{dim}", min=1, max=64) for dim in names}
    sizes = {
        "all": [(1, 1, 1), (1, 2, 4), (2, 2, 2), (3, 1, 5), (1, 4, 4), (1, 1, 63), (15, 2, 2), (1, 10, 10), (1, 9, 12), (2, 20, 9), (1, 33, 31)],
        "images": [(n, 4, 4) for n in (1, 2, 3, 5, 9, 30)],
        "width": [(1, 3, w) for w in (1, 2, 3, 5, 7, 12, 33, 64)],
    }[open_dims]  # fmt: skip
    calls = [(torch.randn(n, 256, h, w, generator=generator),) for n, h, w in sizes]
    (compiled, *_) = check(model, calls, dynamic_shapes=(dims,))
    kernels = [row["kernel"] for row in compiled.explain()["statements"] if row["phase"] == "run" and row["kernel"]]
    forms = [name for name in kernels if name.startswith(("convolution", "winograd"))]
    assert open_dims == "images" or len(forms) > 2, kernels
    assert open_dims == "images" or "if (n" in compiled.code


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Conv1d(3, 8, 3),
        lambda: nn.Conv1d(4, 6, 5, 2, 2, groups=2),
        lambda: nn.Conv1d(3, 8, 3, padding="same", dilation=2),
        lambda: nn.ConvTranspose1d(6, 4, 4, 2, 1),
    ],
)
@torch.no_grad()
def test_signals(make: Any) -> None:
    torch.manual_seed(0)
    model = make().eval()
    generator = seeded()
    calls = [(torch.randn(n, model.in_channels, t, generator=generator),) for n, t in ((2, 20), (1, 9), (5, 333))]
    (compiled, *_) = check(model, calls, dynamic_shapes=({0: _BATCH, 2: _HIGH},))
    assert not [op for op in _ops(compiled) if op.startswith("aten")]


@pytest.mark.parametrize("threads", [1, 2])
@torch.no_grad()
def test_every_number_of_tiles(threads: int) -> None:
    """Chunks of tiles that are full, and rests of each size, of a transformed convolution."""
    torch.manual_seed(0)
    model = nn.Conv2d(32, 32, 3, 1, 1).eval()
    shapes = ({0: _BATCH, 2: _HIGH, 3: _WIDE},)
    compiled = sl.compile(model, (torch.randn(2, 32, 20, 24),), threads=threads, dynamic_shapes=shapes)
    assert "sl::winograd" in compiled.code
    generator = seeded()
    for side in range(9, 64):
        x = torch.randn(1 + side % 3, 32, side, 9 + side * 7 % 13, generator=generator)
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rank", [1, 2])
@torch.no_grad()
def test_an_affine_norm_of_each_image(rank: int) -> None:
    """Weights that are repeated for each image of a call, not by prepare, which knows no number of images."""
    torch.manual_seed(0)
    model = (nn.InstanceNorm1d, nn.InstanceNorm2d)[rank - 1](6, affine=True).eval()
    for parameter in model.parameters():
        parameter.normal_()
    calls = [(torch.randn(n, 6, *(5, 8)[:rank], generator=seeded()),) for n in (2, 1, 5)]
    check(model, calls, dynamic_shapes=({0: _BATCH},))


@torch.no_grad()
def test_products_of_a_named_number_of_terms() -> None:
    """Attention that a model writes out, over a cache of any length, has kernels of ours on a CPU."""

    class Step(nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return (q @ k.transpose(-1, -2) * 0.25).softmax(-1) @ v

    calls = [tuple(torch.randn(1, 4, t, 16, generator=seeded()) for t in (1, n, n)) for n in (32, 9, 70)]
    (compiled, *_) = check(Step(), calls, dynamic_shapes=({}, {2: _HIGH}, {2: _HIGH}))
    assert not [op for op in _ops(compiled) if op.startswith("aten")]


@torch.no_grad()
def test_an_image_without_a_batch() -> None:
    model = nn.Conv2d(3, 4, 3).eval()
    calls = [(torch.randn(3, h, w, generator=seeded()),) for h, w in ((20, 31), (9, 10))]
    check(model, calls, dynamic_shapes=({1: _HIGH, 2: _WIDE},))


@torch.no_grad()
def test_by_torch_compile() -> None:
    """Sizes that Dynamo found to change."""
    torch.manual_seed(0)
    model = _net().eval()
    compiled = torch.compile(copy.deepcopy(model), backend="straightline", dynamic=True)
    for n, h, w in ((2, 40, 50), (3, 64, 41), (5, 33, 72)):
        x = torch.randn(n, 3, h, w)
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
    assert len(sl.programs(compiled)) <= 2


@pytest.mark.skipif(_OLD, reason="this torch's export asks that the sizes be even")
def test_sums_of_windows_of_windows() -> None:
    """Torch writes what two windows leave as one division, we as two."""

    def model(x: Tensor) -> Tensor:
        y = nn.functional.max_pool2d(x, 3, 2, 1)
        return nn.functional.max_pool2d(nn.functional.avg_pool2d(y, 2), 5, 3, 2)

    check(model, [(torch.randn(n, 2, 2 * h, 3 * w),) for n, h, w in _SIZES], dynamic_shapes=({0: _BATCH, 2: Dim("H", min=18), 3: Dim("W", min=27)},))  # fmt: skip


def test_volumes_of_named_sizes_are_torchs() -> None:
    """They are refused by our kernels, in words, and computed by torch."""
    x = torch.randn(1, 2, 4, 9, 9)
    compiled = sl.compile(nn.Conv3d(2, 3, 3, padding=1).eval(), (x,), dynamic_shapes=({3: _HIGH},))
    (row,) = [row for row in compiled.explain()["statements"] if row["op"].startswith("aten")]
    assert "convolution of a volume with a dynamic size" in row["why"]


@pytest.mark.parametrize("name", ["plain", "strided", *([] if _OLD else ["a net"])])
@torch.no_grad()
def test_for_a_device(name: str) -> None:
    model = MODELS[name]().eval()
    x = torch.randn(2, _channels(model), 20, 31)
    shapes = ({0: _BATCH, 2: _HIGH, 3: _WIDE},)
    compiled = sl.compile(model, (x,), target="cuda:sm_90", dynamic_shapes=shapes)
    assert not [op for op in _ops(compiled) if op.startswith("aten")]
