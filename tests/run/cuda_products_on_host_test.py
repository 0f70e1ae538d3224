# SPDX-License-Identifier: Apache-2.0
"""What emitted CUDA C++ of products and convolutions computes, without a device: tiles, tensor cores (as cuda_on_host.h has them), epilogues."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import straightline as sl
import torch
from cuda_on_host import compare
from torch import Tensor, nn
from torch.nn import functional as F


_OWN = dict.fromkeys(("linear", "matmul", "convolution"), "cuda")


class Of(nn.Module):
    """A function of its inputs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


def _compare(
    model: nn.Module,
    inputs: tuple[Tensor, ...],
    folder: Path,
    family: str | None = "matmul",
    *,
    tf32: bool = False,
    target: str = "cuda:sm_80",
) -> None:
    rows = compare(model, inputs, folder, _OWN, 4e-3 if tf32 else None, target)  # TF32 has 11 bits
    assert {row["backend"] for row in rows} == {"cuda"} and (
        family is None or family in {row["family"] for row in rows}
    )


@contextlib.contextmanager
def allowed(products: Any, tf32: bool) -> Iterator[None]:
    """Whether torch lets these products round their factors."""
    before, products.allow_tf32 = products.allow_tf32, tf32
    try:
        yield
    finally:
        products.allow_tf32 = before


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("m", "k", "n"), [(17, 64, 8), (33, 100, 70), (130, 17, 129), (64, 512, 48)])
def test_linears(m: int, k: int, n: int, dtype: torch.dtype, tmp_path: Path) -> None:
    """With a bias, GELU and a residual; edges of tiles in all three sizes."""

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(k, n)

        def forward(self, x: Tensor, r: Tensor) -> Tensor:
            return F.gelu(self.linear(x)) + r

    _compare(Layer().to(dtype), (torch.randn(m, k).to(dtype), torch.randn(m, n).to(dtype)), tmp_path)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("turned", ["", "a", "b", "ab"])
def test_products_of_any_strides(turned: str, dtype: torch.dtype, tmp_path: Path) -> None:
    """Batches, one of them shared, with the reduction along or across the rows."""
    a, b = torch.randn(2, 3, 40, 72).to(dtype), torch.randn(3, 72, 24).to(dtype)
    if "a" in turned:
        a = a.mT.contiguous().mT
    if "b" in turned:
        b = b.mT.contiguous().mT
    _compare(Of(lambda a, b: a @ b), (a, b), tmp_path)


@pytest.mark.parametrize("turned", ["", "a", "b", "ab"])
@pytest.mark.parametrize(("m", "k", "n"), [(40, 72, 24), (33, 41, 70), (130, 300, 136)])
def test_bfloat16_without_tensor_cores_for_it(m: int, k: int, n: int, turned: str, tmp_path: Path) -> None:
    """sm_75: tiles of float32, whole pieces of 16 bytes or not, with an epilogue."""
    a, b = torch.randn(2, m, k).bfloat16(), torch.randn(2, k, n).bfloat16()
    a = a.mT.contiguous().mT if "a" in turned else a
    b = b.mT.contiguous().mT if "b" in turned else b
    _compare(Of(lambda a, b: F.gelu(a @ b)), (a, b), tmp_path, target="cuda:sm_75")


def test_a_bfloat16_convolution_without_tensor_cores_for_it(tmp_path: Path) -> None:
    model = nn.Sequential(
        nn.Conv2d(5, 18, 3, padding=1), nn.ReLU(), nn.Conv2d(18, 40, 3, stride=2), nn.ReLU()
    ).bfloat16()
    _compare(model, (torch.randn(2, 5, 9, 11).bfloat16(),), tmp_path, "convolution_direct", target="cuda:sm_75")


@pytest.mark.parametrize(("m", "k", "n"), [(32, 40, 24), (65, 136, 72)])
def test_factors_of_tf32(m: int, k: int, n: int, tmp_path: Path) -> None:
    with allowed(torch.backends.cuda.matmul, True):
        _compare(nn.Linear(k, n), (torch.randn(m, k),), tmp_path, tf32=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16, "tf32"])
@pytest.mark.parametrize(
    ("channels", "image", "options"),
    [
        ((3, 10), (9, 11), {"kernel_size": 3, "padding": 1}),
        ((16, 24), (10, 10), {"kernel_size": 3, "stride": 2, "padding": 1}),
        ((32, 8), (7, 5), {"kernel_size": 1}),
        ((8, 16), (12, 9), {"kernel_size": (2, 3), "dilation": 2, "padding": (1, 2), "bias": False}),
        ((8, 16), (9, 9), {"kernel_size": 3, "groups": 4, "padding": 1}),
        ((12, 12), (9, 9), {"kernel_size": 3, "groups": 12, "padding": 1}),
    ],
)
def test_convolutions(
    channels: tuple[int, int], image: tuple[int, int], options: dict[str, Any], dtype: torch.dtype | str, tmp_path: Path
) -> None:
    """Two of them, so that one reads what the other wrote; with a residual."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(*channels, **options)
            self.second = nn.Conv2d(channels[1], channels[1], 3, padding=1)

        def forward(self, x: Tensor) -> Tensor:
            y = F.relu(self.first(x))
            return F.relu(self.second(y) + y)

    tf32 = isinstance(dtype, str)
    kind = torch.float32 if isinstance(dtype, str) else dtype
    with allowed(torch.backends.cudnn, tf32):
        _compare(Block().to(kind), (torch.randn(2, channels[0], *image).to(kind),), tmp_path, None, tf32=tf32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    ("channels", "image", "options"),
    [
        ((12, 12), (9, 13), {"kernel_size": 7, "padding": 3}),
        ((96, 96), (40, 40), {"kernel_size": 7, "padding": 3}),
        ((10, 20), (8, 11), {"kernel_size": (1, 5), "stride": (1, 2), "padding": (0, 3), "bias": False}),
        ((300, 300), (21, 18), {"kernel_size": 3, "stride": 3, "dilation": (2, 1)}),
        ((6, 6), (9, 9), {"kernel_size": 3, "dilation": 2, "padding": 2}),
        ((40, 40), (9, 31), {"kernel_size": (9, 5), "padding": (4, 2)}),
    ],
)
def test_depthwise(
    channels: tuple[int, int],
    image: tuple[int, int],
    options: dict[str, Any],
    last: bool,
    dtype: torch.dtype,
    tmp_path: Path,
) -> None:
    """Parts of rows: edges, strides, several results a channel; dilation along a row is an output element a thread."""
    layer = nn.Conv2d(*channels, groups=channels[0], **options).to(dtype)
    x = torch.randn(2, channels[0], *image).to(dtype)
    if last:
        x = x.contiguous(memory_format=torch.channels_last)
    _compare(nn.Sequential(layer, nn.Hardswish()), (x,), tmp_path, "convolution_direct")


def test_depthwise_by_lines_reads_taps_of_all_channels(tmp_path: Path) -> None:
    """Where channels lie side by side the weight is turned in prepare; few threads share the rows of taps."""

    def text(x: Tensor) -> str:
        return re.sub(r"\s+", " ", sl.compile(layer, (x,), target="cuda:sm_90", routes=_OWN).code)

    layer = nn.Conv2d(96, 96, 7, padding=3, groups=96).eval().to(memory_format=torch.channels_last)
    x = torch.randn(1, 96, 56, 56).contiguous(memory_format=torch.channels_last)
    assert re.search(r"\.weightStride = \{1, 1, 4704, 672, 96\}", text(x))
    for given, expected in (
        (x, ".pixels = 14, .taps = 7, .step = 1, .mr = 0, .nr = 0, .rows = 0, .columns = 0, .threads = 224, .splits = 7"),
        (x[:, :, :7, :7], ".pixels = 2, .taps = 7, .step = 1, .mr = 0, .nr = 0, .rows = 0, .columns = 0, .threads = 224, .splits = 7"),
        (x.repeat(16, 1, 1, 1), ".pixels = 14, .taps = 7, .step = 1, .mr = 0, .nr = 0, .rows = 0, .columns = 0, .threads = 0, .splits = 1"),
    ):  # fmt: skip
        assert expected in text(given)
