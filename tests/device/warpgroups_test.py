# SPDX-License-Identifier: Apache-2.0
"""Products by warpgroups on Hopper: sizes, layouts and epilogues that nobody tuned, against float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import straightline as sl
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .driver_calls_test import check

_KERNEL = "warpgroups"
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "tf32": torch.float32}
SIZES = (
    (64, 64, 64),
    (65, 72, 8),
    (130, 101, 64),
    (128, 3072, 1024),
    (197, 768, 3072),
    (300, 1000, 520),
    (1024, 264, 96),
    (3136, 1536, 384),
)
EPILOGUES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "alone": lambda y, _: y,
    "gelu": lambda y, _: F.gelu(y),
    "gated": lambda y, other: F.silu(y) * other,
    "added": lambda y, other: torch.relu(other + y),
    "of rows": lambda y, other: y * other[:1] - other[:, :1],
}


class Product(nn.Module):
    def __init__(self, n: int, k: int, epilogue: str) -> None:
        super().__init__()
        self.product = nn.Linear(k, n, bias=epilogue != "alone")
        self.epilogue = EPILOGUES[epilogue]

    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        return self.epilogue(self.product(x), other)


@pytest.fixture(autouse=True)
def _hopper() -> Iterator[None]:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("products by warpgroups are Hopper's")
    before, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, True
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
def test_a_linear_is_right(size: tuple[int, int, int], dtype: str) -> None:
    (m, n, k), seed = size, torch.seed()
    for epilogue in EPILOGUES:
        model = Product(n, k, epilogue).to("cuda", DTYPES[dtype]).eval()
        inputs = tuple(torch.randn(shape, device="cuda", dtype=DTYPES[dtype]) for shape in ((m, k), (m, n)))
        compiled = sl.compile(model, inputs, routes={"linear": f"cuda.linear_{_KERNEL}"})
        for _ in range(3):
            check(model, inputs, compiled(*inputs), f"{epilogue}, seed {seed}")


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_batches_and_transposed_operands_are_right(dtype: str) -> None:
    seed = torch.seed()
    for a_turned, b_turned in ((0, 0), (0, 1), (1, 0), (1, 1)):

        def product(a: Tensor, b: Tensor, a_turned: int = a_turned, b_turned: int = b_turned) -> Tensor:
            return torch.tanh((a.mT if a_turned else a) @ (b.mT if b_turned else b))

        a = torch.randn((3, 200, 136) if a_turned else (3, 136, 200), device="cuda", dtype=DTYPES[dtype])
        b = torch.randn((3, 72, 200) if b_turned else (3, 200, 72), device="cuda", dtype=DTYPES[dtype])
        compiled = sl.compile(product, (a, b), routes={"matmul": f"cuda.matmul_{_KERNEL}"})
        check(product, (a, b), compiled(a, b), f"{a_turned}, {b_turned}, seed {seed}")


@pytest.mark.parametrize("dtype", DTYPES)
def test_operands_that_tma_does_not_take(dtype: str) -> None:
    """Rows that begin at odd addresses are brought by loads."""
    model = Product(136, 96, "added").to("cuda", DTYPES[dtype]).eval()
    wide = torch.randn(130, 99, device="cuda", dtype=DTYPES[dtype])
    inputs = (wide[:, 1:97], torch.randn(130, 136, device="cuda", dtype=DTYPES[dtype]))
    compiled = sl.compile(model, inputs, routes={"linear": f"cuda.linear_{_KERNEL}"})
    check(model, inputs, compiled(*inputs), "odd addresses")


def test_many_calls_at_new_addresses() -> None:
    """Each call makes the descriptions that TMA reads anew."""
    model = Product(512, 256, "gelu").to("cuda", torch.bfloat16).eval()
    inputs = [
        (
            torch.randn(256, 256, device="cuda", dtype=torch.bfloat16),
            torch.zeros(256, 512, device="cuda", dtype=torch.bfloat16),
        )
        for _ in range(50)
    ]
    compiled = sl.compile(model, inputs[0], routes={"linear": f"cuda.linear_{_KERNEL}"})
    results = [compiled(*given) for given in inputs]
    for given, got in zip(inputs, results, strict=True):
        check(model, given, got, "an address of its own")
