# SPDX-License-Identifier: Apache-2.0
"""Half tensors with numbers and tensors of no dimension and another type: rounded when eager rounds, bit for bit."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from cuda_on_host import run_on_host
from torch import Tensor, nn

import straightline as sl
from straightline.testing import policy

#: A whole number of vectors: what is left over after them eager computes otherwise (torch.add with alpha, torch 2.13).
_COUNT = 1024

TWO: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "x * s": lambda x, s: x * s,
    "s * x": lambda x, s: s * x,
    "x / s": lambda x, s: x / s,
    "s / x": lambda x, s: s / x,
    "x + s": lambda x, s: x + s,
    "s - x": lambda x, s: s - x,
    "x + 3 s": lambda x, s: torch.add(x, s, alpha=3),
    "floor": lambda x, s: torch.floor_divide(x, s),
    "trunc": lambda x, s: torch.div(x, s, rounding_mode="trunc"),
    "remainder": lambda x, s: torch.remainder(x, s),
    "maximum": lambda x, s: torch.maximum(x, s),
    "less": lambda x, s: x < s,
}

ONE: dict[str, Callable[[Tensor], Tensor]] = {
    "x * 1003": lambda x: x * 1003,
    "x * 100000": lambda x: x * 100000,
    "x / 1.003": lambda x: x / 1.003,
    "x // 0.1003": lambda x: x // 0.1003,
    "x + 1003.3": lambda x: x + 1003.3,
    "x - 0.7 x": lambda x: torch.sub(x, x * 1.003, alpha=0.7),
    "1.003 - x": lambda x: 1.003 - x,
}


class Every(nn.Module):
    """Some functions of two tensors."""

    def __init__(self, functions: list[Callable[[Tensor, Tensor], Tensor]]) -> None:
        super().__init__()
        self._functions = functions

    def forward(self, x: Tensor, y: Tensor) -> list[Tensor]:
        return [function(x, y) for function in self._functions]


def agree(function: Callable[..., Tensor], args: tuple[Tensor, ...]) -> None:
    got, want = sl.compile(function, args, threads=1)(*args), function(*args)
    assert got.dtype == want.dtype
    torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_tensors_of_no_dimension(half: torch.dtype) -> None:
    x = torch.randn(_COUNT).to(half)
    numbers = (1.00723, 1009.3, 1003)
    types = (torch.float64, torch.float32, torch.int64, half)

    def every(x: Tensor, *scalars: Tensor) -> list[Tensor]:
        return [function(x, s) for function in TWO.values() for s in scalars]

    scalars = tuple(torch.tensor(number).to(type) for number in numbers for type in types)
    got = sl.compile(every, (x, *scalars), threads=1)(x, *scalars)
    names = [(name, s) for name in TWO for s in scalars]
    for (name, s), result, want in zip(names, got, every(x, *scalars), strict=True):
        message = f"{name} with {s!r}"
        assert result.dtype == want.dtype, message
        torch.testing.assert_close(result, want, rtol=0, atol=0, equal_nan=True, msg=message)


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ONE)
def test_numbers(name: str, half: torch.dtype) -> None:
    agree(ONE[name], (torch.randn(_COUNT).to(half),))


QUOTIENTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "floor_divide": torch.floor_divide,
}


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", QUOTIENTS)
def test_quotients_that_are_rounded_to_integers(name: str, half: torch.dtype) -> None:
    """Each step is rounded to half, unless one element divides all; a quotient that was rounded once only differed by one."""
    special = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1, -1, 3])
    x = torch.cat([torch.randn(_COUNT) * 10, special.repeat(8)]).to(half)
    y = torch.cat([torch.randn(_COUNT), special.repeat_interleave(8)]).to(half)
    agree(QUOTIENTS[name], (x, y))
    agree(QUOTIENTS[name], (x.reshape(2, -1), y[: x.numel() // 2]))
    agree(QUOTIENTS[name], (x, y[:1]))
    agree(QUOTIENTS[name], (x[5], y))


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_quotients_for_a_device(half: torch.dtype, tmp_path: Path) -> None:
    """ATen's CUDA kernels take the floor of a float32 quotient; one by a tensor is rounded to half before it is truncated."""
    x, y = (torch.randn(_COUNT) * 10).to(half), torch.randn(_COUNT).to(half)
    model = Every([QUOTIENTS["floor"], QUOTIENTS["trunc"], lambda x, y: QUOTIENTS["trunc"](x, y[:1])])
    wide = (x.float(), y.float())
    expected = (
        torch.floor_divide(*wide).to(half), torch.trunc((wide[0] / wide[1]).to(half)), torch.trunc((wide[0] / wide[1][:1]).to(half)),
    )  # fmt: skip
    got = tuple(torch.empty_like(want) for want in expected)
    run_on_host(sl.compile(model, (x, y), target="cuda:sm_90"), model, (x, y), got, tmp_path)
    torch.testing.assert_close(got, expected, rtol=0, atol=0)
    if half == torch.bfloat16:  # on the CPU each step is rounded, which changes more of them than of float16
        assert not all(map(torch.equal, got, model(x, y)))


NORMS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "group_norm": lambda x, w, b: F.group_norm(x, 2, w, b),
    "group_norm without bias": lambda x, w, b: F.group_norm(x, 2, w),
    "layer_norm": lambda x, w, b: F.layer_norm(x.mT, (8,), w, b),
    "layer_norm of two dims": lambda x, w, b: F.layer_norm(x, (8, 6), w[:, None].expand(8, 6)),
    "rms_norm": lambda x, w, b: F.rms_norm(x.mT, (8,), w),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", NORMS)
def test_norms_of_halves_with_parameters_of_float32(name: str, dtype: torch.dtype) -> None:
    seed = random.randrange(2**31)
    print(f"seed {seed}")
    generator = torch.Generator(torch.get_default_device()).manual_seed(seed)
    x = torch.randn(3, 8, 6, generator=generator).to(dtype)
    w, b = torch.randn(8, generator=generator), torch.randn(8, generator=generator)
    model = NORMS[name]
    got, eager = sl.compile(model, (x, w, b))(x, w, b), model(x, w, b)
    policy.check_close(got, eager, model(*policy.in_float64((x, w, b))))
