# SPDX-License-Identifier: Apache-2.0
"""grid_sample and histc against eager; where no call of torch is left."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from cuda_on_host import compare, run_on_host
from policy import check
from resize_test import Ops, aten_ops, rng  # noqa: F401  (rng is a fixture)
from statements import launches_of
from torch import Tensor, nn

import straightline as sl

_GRIDS = [(padding, align) for padding in ("zeros", "border", "reflection") for align in (False, True)]
_MODES = ("nearest", "bilinear", "bicubic")
_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_NAN, _INFINITY = float("nan"), float("inf")


class Sampled(Ops):
    """`F.grid_sample` with some paddings and alignments."""

    def __init__(self, mode: str, grids: list[tuple[str, bool]] = _GRIDS) -> None:
        super().__init__([])
        self._mode, self._grids = mode, grids

    def forward(self, x: Tensor, grid: Tensor) -> list[Any]:  # type: ignore[override]
        return [F.grid_sample(x, grid, self._mode, padding, align) for padding, align in self._grids]


def sampled(rng: random.Random, dtype: torch.dtype) -> tuple[Tensor, Tensor]:  # noqa: F811
    """Images and a grid of random sizes; some lie channels last, or with x and y of the grid apart."""
    n, h, w = (rng.randint(1, 9) for _ in range(3))
    x = torch.randn(n, rng.choice([rng.randint(1, 9), rng.randint(8, 40)]), h, w, dtype=dtype)
    grid = 1.5 * torch.randn(n, rng.randint(1, 9), rng.randint(1, 9), 2, dtype=dtype)
    if rng.random() < 0.4:
        x = x.to(memory_format=torch.channels_last)
    if rng.random() < 0.3:
        grid = grid.permute(0, 3, 1, 2).contiguous().permute(0, 2, 3, 1)
    print([(list(y.shape), y.stride()) for y in (x, grid)])
    return x, grid


@pytest.mark.parametrize("mode", _MODES)
@pytest.mark.parametrize("dtype", _DTYPES)
def test_grid_sample(dtype: torch.dtype, mode: str, rng: random.Random) -> None:  # noqa: F811
    inputs = sampled(rng, dtype)
    assert not aten_ops(check(Sampled(mode), inputs))
    assert not aten_ops(sl.compile(Sampled(mode), inputs, target="cuda:sm_90"))


@pytest.mark.parametrize("mode", _MODES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_grid_sample_for_a_device(dtype: torch.dtype, mode: str, tmp_path: Any, rng: random.Random) -> None:  # noqa: F811
    compare(Sampled(mode), sampled(rng, dtype), tmp_path, {})


def odd_places(dtype: torch.dtype, *others: float) -> Tensor:
    """A grid with places that are no numbers, infinite, or `others`, in one coordinate or in both."""
    values = [0.3, _NAN, _INFINITY, -_INFINITY, *others]
    return torch.tensor([[x, y] for x in values for y in values], dtype=dtype).reshape(1, len(values), -1, 2)


@pytest.mark.parametrize("mode", _MODES)
@pytest.mark.parametrize("channels", [3, 17])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_places_that_are_no_numbers(dtype: torch.dtype, channels: int, mode: str, rng: random.Random) -> None:  # noqa: F811
    x = torch.randn(1, channels, rng.randint(1, 9), rng.randint(1, 9), dtype=dtype)
    x[0, 0, 0, 0] = _INFINITY  # beside places that do not read it
    if channels > 8:
        x = x.to(memory_format=torch.channels_last)
    compiled = sl.compile(Sampled(mode), (x, odd_places(dtype, 1e20, -1e20, 3e9, -3e9)))
    assert not aten_ops(compiled)
    # Whether mirroring takes an even or an odd number of turns to a large number is left to rounding.
    for grids, others in ((_GRIDS, ()), (_GRIDS[:4], (1e20, -1e20, 3e9, -3e9))):
        grid = odd_places(dtype, *others)
        compiled = sl.compile(Sampled(mode, grids), (x, grid))
        for mine, torchs in zip(compiled(x, grid), Sampled(mode, grids)(x, grid), strict=True):
            torch.testing.assert_close(mine, torchs, equal_nan=True)


@pytest.mark.parametrize("mode", _MODES)
def test_places_that_are_no_numbers_for_a_device(mode: str, tmp_path: Any, rng: random.Random) -> None:  # noqa: F811
    x = torch.randn(1, 3, rng.randint(1, 9), rng.randint(1, 9))
    for number, (grids, others) in enumerate(((_GRIDS, ()), (_GRIDS[:4], (1e20, -1e20, 3e9, -3e9)))):
        grid = odd_places(torch.float32, *others)
        compiled = sl.compile(Sampled(mode, grids), (x, grid), target="cuda:sm_80", routes={})
        want = Sampled(mode, grids)(x, grid)
        if mode != "bicubic":  # a place that is not finite is far outside for ATen's kernels of a device
            outside = ~grid.isfinite().all(-1)
            for y, (padding, _) in zip(want, grids, strict=True):
                if padding == "zeros":
                    y.masked_fill_(outside[:, None], 0)
        got = tuple(torch.empty_like(y) for y in want)
        run_on_host(compiled, Sampled(mode, grids), (x, grid), got, tmp_path / str(number))
        for mine, right in zip(got, want, strict=True):
            torch.testing.assert_close(mine, right, equal_nan=True)


@pytest.mark.parametrize("mode", _MODES)
def test_ties(mode: str, rng: random.Random) -> None:  # noqa: F811
    """Places at the middles of elements and of their borders, where eager's rounding decides."""
    h, w = rng.randint(1, 40), rng.randint(1, 40)
    x = torch.randn(1, 2, h, w)
    places = [(torch.randint(-2, 2 * size + 3, (1, 30, 30)) + 1) / size - 1 for size in (w, h)]
    grid = torch.stack(places, -1)
    print(h, w)
    got = sl.compile(Sampled(mode), (x, grid))(x, grid)
    for mine, torchs in zip(got, Sampled(mode)(x, grid), strict=True):
        torch.testing.assert_close(mine, torchs)


def test_named_sizes(rng: random.Random) -> None:  # noqa: F811
    b, h, w, r = (torch.export.Dim(name, min=2, max=60) for name in "bhwr")
    shapes = {"x": {0: b, 2: h, 3: w}, "grid": {0: b, 1: r}}
    calls = []
    for _ in range(3):
        n = rng.randint(2, 5)
        x = torch.randn(n, 12, rng.randint(2, 30), rng.randint(2, 30))
        calls.append((x, 1.2 * torch.randn(n, rng.randint(2, 30), 5, 2)))
    for mode in _MODES:
        compiled = check(Sampled(mode, _GRIDS[:3]), calls[0], calls=calls[1:], dynamic_shapes=shapes)
        assert not aten_ops(compiled)
        assert not aten_ops(sl.compile(Sampled(mode), calls[0], dynamic_shapes=shapes, target="cuda:sm_90"))


class Warped(nn.Module):
    """Features that a field moves, between convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.field = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(3, 2, 3, padding=1)
        self.last = nn.Conv2d(32, 16, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        moved = F.grid_sample(self.first(x), self.field(x).permute(0, 2, 3, 1), align_corners=False)
        return self.last(moved)


def test_features_stay_channels_last(rng: random.Random) -> None:  # noqa: F811
    compiled = check(Warped().eval(), (torch.randn(1, 3, rng.randint(9, 20), rng.randint(9, 20)),))
    assert not aten_ops(compiled)
    rows = [row for row in launches_of(compiled) if row["op"] == "grid_sampler_2d"]
    assert [row["family"] for row in rows] == ["grid_sample"]
    if torch.get_default_device().type == "cpu":
        assert ".channelsLast = 1" in compiled.code
        ops = [row["op"] for row in launches_of(compiled)]
        between = ops[ops.index("convolution") : len(ops) - ops[::-1].index("convolution")]
        assert between.count("convolution") == 3 and "copy" not in between, ops


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_histc(dtype: torch.dtype, rng: random.Random) -> None:  # noqa: F811
    low = rng.randint(-3, 2)
    high, bins = low + rng.randint(1, 4), rng.randint(1, 40)
    print(low, high, bins)
    x = torch.randn(rng.randint(1, 30), rng.randint(1, 30), dtype=dtype)
    functions = [
        lambda x: torch.histc(x, bins, low, high),
        lambda x: torch.histc(x.round(), 9, -4, 4),
        lambda x: torch.histc(x[:, 0], 3, 9, 12),
    ]
    assert not aten_ops(check(Ops(functions), (x,)))
    assert not aten_ops(sl.compile(Ops(functions), (x,), target="cuda:sm_90"))
    assert len(aten_ops(check(Ops([lambda x: torch.histc(x, 5)]), (x,)))) == 1


def test_histc_of_many() -> None:
    x = torch.randn(4000)
    left = 0 if x.is_cuda else 1  # more pairs than a CPU compares in the time that torch counts in
    assert len(aten_ops(check(Ops([lambda x: torch.histc(x, 100, -2, 2)]), (x,)))) == left
