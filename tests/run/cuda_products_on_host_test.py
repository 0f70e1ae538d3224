# SPDX-License-Identifier: Apache-2.0
"""What emitted CUDA C++ of products and convolutions computes, without a device: tiles, tensor cores (as cuda_on_host.h has them), epilogues."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from cuda_on_host import run_on_host
from policy import torch_errors
from torch import Tensor, nn
from torch.nn import functional as F

import straightline as sl

_OWN = dict.fromkeys(("linear", "matmul", "convolution"), "cuda")
#: Of the scale; TF32 has 11 bits.
_PART = {torch.float64: 2e-15, torch.float32: 1e-6, torch.bfloat16: 1e-2}


class Of(nn.Module):
    """A function of its inputs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


def compare(model: nn.Module, inputs: tuple[Tensor, ...], folder: Path, family: str | None = "matmul", *, tf32: bool = False) -> None:
    """Within four times eager's distance from float64, or its largest where inputs move by an ulp, and a little of the scale."""
    compiled = sl.compile(model.eval(), inputs, target="cuda:sm_80", routes=_OWN)
    rows = [row for row in compiled.explain().statements if row["phase"] == "run"]
    assert {row["backend"] for row in rows} == {"cuda"} and (family is None or family in {row["family"] for row in rows})
    with torch.inference_mode():
        eager = model(*inputs)
        exact = copy.deepcopy(model).double()(*(x.double() for x in inputs))
    got = torch.empty_like(eager, memory_format=torch.contiguous_format)
    run_on_host(compiled, model, inputs, (got,), folder)
    scale, error = exact.abs().max(), (got.double() - exact).abs().max()
    little = (4e-3 if tf32 else _PART[eager.dtype]) * scale
    if not error <= 4 * (eager.double() - exact).abs().max() + little:
        of_torch = torch_errors(model, (inputs, {}))[0]
        assert error <= 4 * of_torch + little, f"off by {error}, torch by {of_torch} at most, and {little} is allowed"


@contextlib.contextmanager
def allowed(products: Any, tf32: bool) -> Iterator[None]:
    """Whether torch lets these products round their factors."""
    before, products.allow_tf32 = products.allow_tf32, tf32
    try:
        yield
    finally:
        products.allow_tf32 = before


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize(("m", "k", "n"), [(17, 64, 8), (33, 100, 70), (130, 17, 129), (64, 512, 48)])
def test_linears(m: int, k: int, n: int, dtype: torch.dtype, tmp_path: Path) -> None:
    """With a bias, GELU and a residual; edges of tiles in all three sizes."""

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(k, n)

        def forward(self, x: Tensor, r: Tensor) -> Tensor:
            return F.gelu(self.linear(x)) + r

    compare(Layer().to(dtype), (torch.randn(m, k).to(dtype), torch.randn(m, n).to(dtype)), tmp_path)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("turned", ["", "a", "b", "ab"])
def test_products_of_any_strides(turned: str, dtype: torch.dtype, tmp_path: Path) -> None:
    """Batches, one of them shared, with the reduction along or across the rows."""
    a, b = torch.randn(2, 3, 40, 72).to(dtype), torch.randn(3, 72, 24).to(dtype)
    if "a" in turned:
        a = a.mT.contiguous().mT
    if "b" in turned:
        b = b.mT.contiguous().mT
    compare(Of(lambda a, b: a @ b), (a, b), tmp_path)


@pytest.mark.parametrize(("m", "k", "n"), [(32, 40, 24), (65, 136, 72)])
def test_factors_of_tf32(m: int, k: int, n: int, tmp_path: Path) -> None:
    with allowed(torch.backends.cuda.matmul, True):
        compare(nn.Linear(k, n), (torch.randn(m, k),), tmp_path, tf32=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, "tf32"])
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
        compare(Block().to(kind), (torch.randn(2, channels[0], *image).to(kind),), tmp_path, None, tf32=tf32)
