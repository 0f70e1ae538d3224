# SPDX-License-Identifier: Apache-2.0
"""A convolution and the max pool behind it, band by band, against eager; the arena holds one band of the image."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import torch
from policy import check
from torch import nn

import straightline as sl


@pytest.fixture
def rng() -> Iterator[random.Random]:
    seed = random.SystemRandom().randrange(2**31)
    print("seed", seed)
    torch.manual_seed(seed)
    yield random.Random(seed)


def _model(rng: random.Random, inputs: int, channels: int, pool: nn.Module) -> nn.Module:
    kernel, stride = rng.choice(((7, 2), (5, 1), (3, 2), (1, 1)))
    convolution = nn.Conv2d(inputs, channels, kernel, stride, kernel // 2, bias=rng.random() < 0.5)
    follows = nn.Conv2d(channels, 4, 3, padding=1)  # its border is around the pool's result
    print(convolution)
    return nn.Sequential(convolution, nn.ReLU(), pool, follows).eval()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("pool", [(3, 2, 1), (2, 2, 0), (5, 3, 2), (4, 3, 1)])
def test_against_eager(pool: tuple[int, int, int], threads: int, rng: random.Random) -> None:
    for _ in range(2):
        channels = rng.choice((64, 96, 40))
        rows = pool[1] * 4 * rng.randint(6, 10)
        model = _model(rng, rng.randint(1, 9), channels, nn.MaxPool2d(*pool))
        columns = 2**21 // (channels * rows * 4) + rng.randint(8, 40)
        step = model[0].stride[0]
        x = torch.randn(1, model[0].in_channels, rows * step, columns * step)
        print(x.shape)
        function = check(model, (x,), threads=threads)
        assert "_first(" in function.code


def test_the_arena_holds_a_band() -> None:
    model = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(3, 2, 1)).eval()
    function = sl.compile(model, (torch.randn(1, 3, 224, 224),), threads=1)
    image = 64 * 112 * 112 * 4
    assert function.explain().facts["arena_bytes"] < image / 2


def test_a_nan_wins_in_each_band() -> None:
    model = nn.Sequential(nn.Conv2d(1, 64, 1), nn.MaxPool2d(3, 2, 1)).eval()
    x = torch.randn(1, 1, 128, 128)
    x[0, 0, ::13, ::7] = float("nan")
    assert "_band(" in check(model, (x,)).code
