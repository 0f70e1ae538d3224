# SPDX-License-Identifier: Apache-2.0
"""Max pools with the places of what they take, and unpooling, against eager; no call of torch on either target."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from cuda_on_host import compare
from policy import check
from resize_test import Ops, aten_ops, rng  # noqa: F401  (rng is a fixture)
from torch import Tensor, nn

import straightline as sl

F32, F64, BF16, I64 = torch.float32, torch.float64, torch.bfloat16, torch.int64
_POOLS = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_ADAPTIVE = {1: F.adaptive_max_pool1d, 2: F.adaptive_max_pool2d, 3: F.adaptive_max_pool3d}


def values(rng: random.Random, dtype: torch.dtype, sizes: list[int]) -> Tensor:  # noqa: F811
    """Many equal elements; floats have NaN and infinities among them."""
    x = torch.randint(-3, 4, sizes).to(dtype)
    if dtype.is_floating_point:
        for value in (math.nan, math.inf, -math.inf):
            x = torch.where(torch.rand(sizes) < 0.08, torch.full((), value, dtype=dtype), x)
    print(dtype, sizes)
    return x


def pools(rng: random.Random, rank: int) -> list[Callable[..., Any]]:  # noqa: F811
    functions = []
    for _ in range(3):
        kernel = [rng.randint(1, 4) for _ in range(rank)]
        options = {
            "stride": [rng.randint(1, 3) for _ in kernel], "padding": [rng.randint(0, k // 2) for k in kernel],
            "dilation": [rng.randint(1, 2) for _ in kernel], "ceil_mode": rng.random() < 0.5,
        }  # fmt: skip
        print(kernel, options)
        functions.append(lambda x, k=kernel, o=options: _POOLS[rank](x, k, **o, return_indices=True))
    return functions


def native(model: Any, *inputs: Tensor) -> None:
    model = Ops(model) if isinstance(model, list) else model
    assert not aten_ops(check(model, inputs))
    assert not aten_ops(sl.compile(model, inputs, target="cuda:sm_90"))


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("dtype", [F32, F64, BF16, I64])
def test_places(dtype: torch.dtype, rank: int, rng: random.Random) -> None:  # noqa: F811
    x = values(rng, dtype, [rng.randint(1, 3), rng.randint(1, 4), *(rng.randint(8, 12) for _ in range(rank))])
    native([*pools(rng, rank), lambda x: _POOLS[rank](x[0], 2, return_indices=True)], x)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_adaptive_places(rank: int, rng: random.Random) -> None:  # noqa: F811
    x = values(rng, F32, [rng.randint(1, 3), rng.randint(1, 4), *(rng.randint(5, 12) for _ in range(rank))])
    targets = [[rng.randint(1, 8) for _ in range(rank)] for _ in range(3)]
    print(targets)
    native([lambda x, t=t: _ADAPTIVE[rank](x, t, return_indices=True) for t in targets], x)


class Unpooled(nn.Module):
    """What a pool took, back at its place, as segmentation nets do."""

    def __init__(self, rank: int, kernel: int, stride: int) -> None:
        super().__init__()
        self._rank, self._window = rank, (kernel, stride)

    def forward(self, x: Tensor) -> Tensor:
        most, places = _POOLS[self._rank](x.exp(), *self._window, return_indices=True)
        unpool = {1: F.max_unpool1d, 2: F.max_unpool2d, 3: F.max_unpool3d}[self._rank]
        return unpool(most * 2, places, *self._window, output_size=x.shape[-self._rank :]) + 1


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("dtype", [F32, BF16])
def test_unpool(dtype: torch.dtype, rank: int, rng: random.Random) -> None:  # noqa: F811
    x = torch.randn(rng.randint(1, 3), rng.randint(1, 4), *(2 * rng.randint(3, 6) for _ in range(rank)), dtype=dtype)
    print(list(x.shape))
    native(Unpooled(rank, 2, 2), x)


def test_unpool_beyond_the_result() -> None:
    x, places = torch.randn(1, 2, 2, 2), torch.tensor([0, 3, 12, 15]).repeat(1, 2, 1).reshape(1, 2, 2, 2)
    compiled = sl.compile(lambda x, i: F.max_unpool2d(x, i, 2), (x, places))
    assert torch.equal(compiled(x, places), F.max_unpool2d(x, places, 2))
    with pytest.raises(IndexError, match="16"):
        compiled(x, places + 1)


def test_for_a_device(tmp_path: Any, rng: random.Random) -> None:  # noqa: F811
    x = torch.randn(2, 3, 9, 10)
    functions = [lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), lambda x: F.adaptive_max_pool2d(x, (4, 3), return_indices=True)]  # fmt: skip
    compare(Ops(functions), (x,), tmp_path, {})
    compare(Unpooled(2, 2, 2), (x[:, :, :8].contiguous(),), tmp_path, {})


def test_a_named_batch(rng: random.Random) -> None:  # noqa: F811
    shapes = ({0: torch.export.Dim("b", min=1, max=9)},)
    calls = [(torch.randn(n, 3, 8, 8),) for n in (1, 9)]
    compiled = check(Unpooled(2, 2, 2), (torch.randn(2, 3, 8, 8),), calls=calls, dynamic_shapes=shapes)
    assert not aten_ops(compiled)


def test_long_windows_stay_torchs() -> None:
    pooled = Ops([lambda x: F.max_pool1d(x, 17, return_indices=True)])
    assert len(aten_ops(check(pooled, (torch.randn(1, 2, 40),)))) == 1
