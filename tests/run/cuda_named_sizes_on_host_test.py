# SPDX-License-Identifier: Apache-2.0
"""Named sizes on a CUDA device, the least among them: programs whose text runs on the host (cuda_on_host.py) against eager."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from cuda_on_host import run_on_host
from named_sizes_cases import CASES, Of, random_, rows_of
from policy import torch_errors
from statements import launches_of
from torch import Tensor

import straightline as sl

_OWN = {"linear": "cuda", "matmul": "cuda", "convolution": "cuda"}


@pytest.mark.parametrize("name", CASES)
def test_sizes(name: str, tmp_path: Path) -> None:
    """Within four times eager's largest distance from float64 and a millionth of the scale."""
    model, inputs, named, least = CASES[name]
    model.eval()
    rows = rows_of(least)
    shapes = tuple({dim: rows for dim in dims} for dims in named)
    with torch.backends.cudnn.flags(allow_tf32=False):
        compiled = sl.compile(model, inputs(7), target="cuda:sm_90", routes=_OWN, dynamic_shapes=(shapes,))
    assert {row["backend"] for row in launches_of(compiled)} <= {"cuda", "runtime"}
    most = 5 if name == "long rows" else 200  # a row takes the host a second there
    for n in sorted(
        {
            least,
            least + 1,
            min(17, most),
            min(130, most),
            random.Random(torch.initial_seed()).randrange(least, most + 1),
        }
    ):
        given = inputs(n)
        with torch.no_grad():
            rights = model(*given)
            exacts = model.double()(*(x.double() if x.is_floating_point() else x for x in given))
            model.float()
        got = tuple(torch.empty_like(y, memory_format=torch.contiguous_format) for y in rights)
        run_on_host(compiled, model, given, got, tmp_path)
        errors = torch_errors(model, (given, {}))[: len(got)]
        for i, (mine, right, exact, error) in enumerate(zip(got, rights, exacts, errors, strict=True)):
            if right.dtype.is_floating_point and right.numel():
                off = (mine.double() - exact.double()).abs().max()
                allowed = 4 * error + 1e-6 * exact.abs().max() + torch.finfo(mine.dtype).tiny
                assert off <= allowed, f"{n}: result {i} is off by {off}, {allowed} is allowed"
            else:
                assert torch.equal(mine, right), f"{n}: result {i}"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_products_overrows_of(dtype: torch.dtype, tmp_path: Path) -> None:
    """Of other types: no farther from the product in float64 than four times eager, and a rounding of the largest value (some in float64)."""
    model = Of(lambda s, x, y: (torch.bmm(x, y), torch.bmm(x, y[:, :, 3:]), torch.bmm(x[:, :1], y)))
    rows = rows_of(0)

    def inputs(n: int) -> tuple[Tensor, ...]:
        return random_(3, 20, n).to(dtype), random_(3, n, 24).to(dtype)

    compiled = sl.compile(model, inputs(7), target="cuda:sm_90", routes=_OWN, dynamic_shapes=(({2: rows}, {1: rows}),))
    assert {row["backend"] for row in launches_of(compiled)} == {"cuda"}
    for n in (0, 1, 8, 16, 33, random.Random(torch.initial_seed()).randrange(2, 201)):
        given = inputs(n)
        rights, exacts = model(*given), model(*(x.double() for x in given))
        got = tuple(torch.full_like(y, 5, memory_format=torch.contiguous_format) for y in rights)
        run_on_host(compiled, model, given, got, tmp_path)
        for mine, right, exact in zip(got, rights, exacts, strict=True):
            roundings = 16 if dtype == torch.float64 else 1
            allowed = 4 * (right.double() - exact).abs().max() + roundings * torch.finfo(dtype).eps * exact.abs().max()
            assert (mine.double() - exact).abs().max() <= allowed, n


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
def test_rows_are_put_in_order(dtype: torch.dtype, tmp_path: Path) -> None:
    """Planned for the largest number of elements: 900, which a block sorts."""

    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            return (*x.sort(dim=1, stable=True), *x.topk(3, dim=1))

    model = Model().eval()
    count = torch.export.Dim("count", min=3, max=900)
    x = torch.randn(2, 40).to(dtype)
    compiled = sl.compile(model, (x,), target="cuda:sm_90", dynamic_shapes=({1: count},))
    for n in (3, 4, 65, 900):
        x = torch.randperm(2 * n).view(2, n).to(dtype)
        rights = model(x)
        got = tuple(torch.empty_like(y) for y in rights)
        run_on_host(compiled, model, (x,), got, tmp_path)
        for i, (mine, right) in enumerate(zip(got, rights, strict=True)):
            assert torch.equal(mine, right) or (i == 3 and torch.equal(x.gather(1, mine), rights[2])), (n, i)
