# SPDX-License-Identifier: Apache-2.0
"""grid_sample and histc against eager; where no call of torch is left."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from cuda_on_host import compare
from policy import check
from resize_test import Ops, aten_ops, rng  # noqa: F401  (rng is a fixture)
from torch import Tensor

import straightline as sl

_GRIDS = [(padding, align) for padding in ("zeros", "border", "reflection") for align in (False, True)]


class Sampled(Ops):
    """`F.grid_sample` with all paddings and alignments."""

    def __init__(self, mode: str) -> None:
        super().__init__([])
        self._mode = mode

    def forward(self, x: Tensor, grid: Tensor) -> list[Any]:  # type: ignore[override]
        return [F.grid_sample(x, grid, self._mode, padding, align) for padding, align in _GRIDS]


def sampled(rng: random.Random, dtype: torch.dtype) -> tuple[Tensor, Tensor]:  # noqa: F811
    n, c, h, w = (rng.randint(1, 9) for _ in range(4))
    x = torch.randn(n, c, h, w, dtype=dtype)
    return x, 1.5 * torch.randn(n, rng.randint(1, 7), rng.randint(1, 7), 2, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_grid_sample(dtype: torch.dtype, rng: random.Random) -> None:  # noqa: F811
    inputs = sampled(rng, dtype)
    print([list(x.shape) for x in inputs])
    assert not aten_ops(check(Sampled("nearest"), inputs))
    on_cpu = torch.get_default_device().type == "cpu"
    assert len(aten_ops(check(Sampled("bilinear"), inputs))) == (len(_GRIDS) if on_cpu else 0)
    assert len(aten_ops(check(Sampled("bicubic"), inputs))) == (len(_GRIDS) if on_cpu else 0)
    for mode in ("nearest", "bilinear", "bicubic"):
        assert not aten_ops(sl.compile(Sampled(mode), inputs, target="cuda:sm_90"))


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_grid_sample_for_a_device(mode: str, tmp_path: Any, rng: random.Random) -> None:  # noqa: F811
    compare(Sampled(mode), sampled(rng, torch.float32), tmp_path, {})


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
