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


class Group(nn.Module):
    """Products of one x, each with an epilogue of its own, and two products of one result: two kernels."""

    def __init__(self, k: int, widths: tuple[int, int, int], hidden: int) -> None:
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(k, n, bias=n % 2 == 0) for n in widths)
        self.gate, self.up = nn.Linear(widths[0], hidden), nn.Linear(widths[0], hidden, bias=False)

    def forward(self, x: Tensor, r: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        a = self.a(x) * 0.5 + r
        return F.silu(self.gate(a)) * self.up(a) + r[:, :1], F.gelu(self.b(x)), self.c(x)


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


GROUPS = (
    (64, 64, (72, 64, 40), 96),
    (65, 72, (136, 9, 3), 130),
    (130, 512, (1024, 260, 256), 2050),
    (197, 768, (768, 768, 768), 3072),
    (520, 1024, (2048, 1024, 1024), 3072),
    (1027, 256, (512, 128, 128), 1024),
    (3152, 384, (384, 384, 384), 1536),
)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", GROUPS, ids=lambda size: "x".join(map(str, size)))
def test_a_group_is_right(size: tuple[int, int, tuple[int, int, int], int], dtype: str) -> None:
    (m, k, widths, hidden), seed = size, torch.seed()
    model = Group(k, widths, hidden).to("cuda", DTYPES[dtype]).eval()
    inputs = tuple(torch.randn(m, n, device="cuda", dtype=DTYPES[dtype]) for n in (k, widths[0]))
    compiled = sl.compile(model, inputs, routes={"linear": "cuda"})
    rows = [row["family"] for row in compiled.explain().statements if row["phase"] == "run"]
    assert "matmul_group" in rows, rows
    for _ in range(3):
        check(model, inputs, compiled(*inputs), f"{size}, seed {seed}")


@pytest.mark.parametrize("dtype", DTYPES)
def test_groups_of_operands_that_tma_does_not_take(dtype: str) -> None:
    """Rows of x, or of a weight, that begin at odd addresses are brought by loads."""
    wide = torch.randn(130, 515, device="cuda", dtype=DTYPES[dtype])
    r = torch.randn(130, 512, device="cuda", dtype=DTYPES[dtype])
    model = Group(512, (512, 256, 64), 1024).to("cuda", DTYPES[dtype]).eval()
    for x in (wide[:, 1:513], wide[:, :512]):
        compiled = sl.compile(model, (x, r), routes={"linear": "cuda"})
        check(model, (x, r), compiled(x, r), "odd addresses of x")

    def gated(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
        return F.silu(F.linear(x, w)) * F.linear(x, v)

    some = torch.randn(301, 515, device="cuda", dtype=DTYPES[dtype]) / 20
    for w, v in ((some[:300, 1:513], some[1:, :512]), (some[:300, :512].contiguous(), some[1:, 3:])):
        given = (r, w, v)
        compiled = sl.compile(gated, given, routes={"linear": "cuda"})
        check(gated, given, compiled(*given), "odd addresses of weights")
