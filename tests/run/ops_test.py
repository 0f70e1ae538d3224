# SPDX-License-Identifier: Apache-2.0
"""Ops through the whole way, a family a test, each output compared with eager."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from cuda_on_host import run_on_host
from policy import check
from statements import launches_of
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import straightline as sl

F32, F64, I32, I64, U8, BOOL = torch.float32, torch.float64, torch.int32, torch.int64, torch.uint8, torch.bool

Row = Callable[..., Any]


def make(dtype: torch.dtype, *shape: int) -> Tensor:
    """Random data: floats around 0, integers in -9 .. 9 without 0, booleans."""
    if dtype.is_floating_point:
        return torch.randn(shape, dtype=dtype)
    if dtype == BOOL:
        return torch.rand(shape) > 0.5
    values = torch.randint(1, 10, shape)
    return (values if dtype == U8 else values * (torch.randint(0, 2, shape) * 2 - 1)).to(dtype)


def rows(table: list[Row], *args: Tensor, **options: Any) -> None:
    """Compiles all rows as one function and compares every output; a failure names its row."""
    eager = [pytree.tree_leaves(row(*args)) for row in table]
    owners = [row for row, leaves in zip(table, eager, strict=True) for _ in leaves]
    try:
        check(lambda *xs: [row(*xs) for row in table], args, **options)
    except AssertionError as failure:
        named = []
        for line in str(failure).splitlines():
            found = re.match(r"output (\d+) ", line)
            if found:
                row = owners[int(found[1])]
                named.append(f"row {table.index(row)} ({inspect.getsource(row).strip()[:150]})")
            named.append(line)
        raise AssertionError("\n".join(named)) from failure


# Elementwise ----------------------------------------------------------------------------------------------------------

ANY_NUMBER: list[Row] = [
    lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: -x, lambda x, y: x.abs(), lambda x, y: x.sign(),
    lambda x, y: x.relu(), torch.maximum, torch.minimum, lambda x, y: x == y, lambda x, y: x != y, lambda x, y: x < y,
    lambda x, y: x <= y, lambda x, y: x > y, lambda x, y: x >= y, lambda x, y: torch.where(x > y, x, y),
    lambda x, y: x.clamp(-1, 2), lambda x, y: x.clamp(min=1), lambda x, y: x.clamp(max=1), lambda x, y: x.square(),
    lambda x, y: x / y, lambda x, y: x // y, lambda x, y: x % y, torch.fmod, lambda x, y: x**2, lambda x, y: x**3,
    lambda x, y: torch.div(x, y, rounding_mode="trunc"), lambda x, y: x.bool(), lambda x, y: x.double(),
    lambda x, y: x.to(I32), lambda x, y: x.to(I64), lambda x, y: x.float(), lambda x, y: torch.logical_and(x, y),
    lambda x, y: torch.logical_not(x), lambda x, y: x * 2 + 1, lambda x, y: 3 - x, lambda x, y: x * 0.5, lambda x, y: x / 4,
    lambda x, y: x[:, :1] + y[:1], lambda x, y: x.masked_fill(y > 0, 7), lambda x, y: x + y.to(F64), lambda x, y: x.round(),
    lambda x, y: x.floor(), lambda x, y: torch.isnan(x), lambda x, y: torch.add(x, y, alpha=2), lambda x, y: torch.rsub(x, y),
]  # fmt: skip

FLOAT: list[Row] = [
    lambda x, y: x.exp(), lambda x, y: x.expm1(), lambda x, y: x.abs().log(), lambda x, y: x.abs().log1p(),
    lambda x, y: x.abs().log2(), lambda x, y: x.abs().sqrt(), lambda x, y: x.abs().rsqrt(), lambda x, y: x.reciprocal(),
    lambda x, y: x.sin(), lambda x, y: x.cos(), lambda x, y: x.tan(), lambda x, y: x.tanh(), lambda x, y: x.sigmoid(),
    lambda x, y: x.erf(), lambda x, y: x.ceil(), lambda x, y: x.trunc(), lambda x, y: F.gelu(x), lambda x, y: F.gelu(x, approximate="tanh"),
    lambda x, y: F.silu(x), lambda x, y: F.leaky_relu(x, 0.1), lambda x, y: F.elu(x, 0.7),
    lambda x, y: F.softplus(x, 2.0, 3.0), lambda x, y: F.mish(x), lambda x, y: F.selu(x),
    lambda x, y: F.logsigmoid(x), lambda x, y: torch.atan2(x, y), lambda x, y: x.abs() ** y, lambda x, y: x**-1,
    lambda x, y: x.abs() ** 0.5, lambda x, y: 2**x, lambda x, y: torch.nan_to_num(x), lambda x, y: torch.lerp(x, y, 0.3),
    lambda x, y: torch.isinf(x), lambda x, y: F.relu6(x * 4), lambda x, y: F.hardtanh(x), lambda x, y: x.atan(),
    lambda x, y: torch.addcmul(x, x, y, value=0.5), lambda x, y: F.softsign(x), lambda x, y: x.frac(),
]  # fmt: skip

#: torch on a CUDA device multiplies doubles by a sixth that was rounded to float: it is no reference there.
SIXTHS: list[Row] = [lambda x, y: F.hardsigmoid(x), lambda x, y: F.hardswish(x)]

INTEGER: list[Row] = [
    lambda x, y: x & y, lambda x, y: x | y, lambda x, y: x ^ y, lambda x, y: ~x, lambda x, y: x.sum(), lambda x, y: x.prod(1),
    lambda x, y: x.float().mean(), lambda x, y: x.abs().sqrt(), lambda x, y: x.exp(),
]  # fmt: skip

LOGICAL: list[Row] = [
    lambda x, y: x & y, lambda x, y: x | y, lambda x, y: x ^ y, lambda x, y: ~x, lambda x, y: torch.logical_xor(x, y),
    lambda x, y: x == y, lambda x, y: x.float() + y, lambda x, y: x + y, lambda x, y: x * y, lambda x, y: x.sum(0),
    lambda x, y: x.any(1), lambda x, y: x.all(), lambda x, y: torch.where(x, 1.0, -1.0), lambda x, y: torch.where(x, y, ~y),
    lambda x, y: x.to(I32) - y.to(I64), lambda x, y: x.any(), lambda x, y: x.all(0, keepdim=True), lambda x, y: x < y,
]  # fmt: skip


@pytest.mark.parametrize("dtype", [F32, F64, I64, I32], ids=str)
def test_elementwise(dtype: torch.dtype) -> None:
    rows(ANY_NUMBER, make(dtype, 5, 19), make(dtype, 5, 19))


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_elementwise_float(dtype: torch.dtype) -> None:
    rows(FLOAT + _sixths(dtype), make(dtype, 5, 19), make(dtype, 5, 19))


def _ways(*ways: dict[str, Any]) -> list[dict[str, Any]]:
    """Options to compile with; those that name a CPU mean nothing on a device."""
    return [way for way in ways if "cpu" not in way or torch.get_default_device().type != "cuda"]


def _sixths(dtype: torch.dtype) -> list[Row]:
    return [] if dtype == F64 and torch.get_default_device().type == "cuda" else SIXTHS


@pytest.mark.parametrize("dtype", [I64, I32, U8], ids=str)
def test_elementwise_integer(dtype: torch.dtype) -> None:
    rows(INTEGER, make(dtype, 5, 19), make(dtype, 5, 19))


I8, I16 = torch.int8, torch.int16
_COMPARISONS = [torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge]

#: With itself reduced, in one kernel.
WITH_ITS_REDUCTIONS: list[Row] = [
    *(lambda x, y, c=c: c(x, x.max()) for c in _COMPARISONS),
    *(lambda x, y, c=c: c(x, x.amin(-1, keepdim=True)) for c in _COMPARISONS),
    *(lambda x, y, c=c: c(x.amax(0, keepdim=True), x) for c in _COMPARISONS),
    lambda x, y: x + x.amax(-1, keepdim=True), lambda x, y: (x - x.amin(-1, keepdim=True)) // (x.amax(-1, keepdim=True) | 1),
    lambda x, y: torch.where(x > 3, x, x.amin()), lambda x, y: torch.maximum(x, y.amax(-1, keepdim=True)),
    lambda x, y: (x.amax(-1), x * x.amax(-1, keepdim=True)), lambda x, y: x == x.argmax(-1, keepdim=True),
    lambda x, y: x - x.sum(-1, keepdim=True, dtype=x.dtype), lambda x, y: x * x.prod(0, dtype=x.dtype), lambda x, y: (x + y).amax(-1),
]  # fmt: skip


def _whole_range(dtype: torch.dtype) -> Tensor:
    limits = torch.iinfo(dtype)
    return torch.randint(max(limits.min, -(2**40)), min(limits.max, 2**40) + 1, (5, 19)).to(dtype)


@pytest.mark.parametrize("dtype", [I64, I32, I16, I8, U8], ids=str)
def test_integers_with_their_reductions(dtype: torch.dtype) -> None:
    rows(WITH_ITS_REDUCTIONS, _whole_range(dtype), _whole_range(dtype))


#: Bytes that a kernel gets from its operands beside bytes that it makes (x: uint8, y: int8, z: int32).
BYTES: list[Row] = [
    lambda x, y, z: x + z.to(U8), lambda x, y, z: y + z.to(I8), lambda x, y, z: torch.where(z > 0, x, z.to(U8)),
    lambda x, y, z: x + y.to(U8), lambda x, y, z: x.to(I8) + y, lambda x, y, z: x.to(I8) >> 1, lambda x, y, z: y.to(U8) >> 1,
    lambda x, y, z: x.to(I8) < 0, lambda x, y, z: y.to(U8) > 100, lambda x, y, z: x.to(I8) <= y, lambda x, y, z: x >= y.to(U8),
    lambda x, y, z: torch.maximum(x.to(I8), y), lambda x, y, z: torch.minimum(x, y.to(U8)), lambda x, y, z: x.to(I8) // (y | 1),
    lambda x, y, z: x % (y.to(U8) | 1), lambda x, y, z: (z > 0).to(U8) + x, lambda x, y, z: (z.float() / 9).abs().to(U8) * x,
    lambda x, y, z: torch.where(z > 0, x, torch.tensor(200, dtype=U8)), lambda x, y, z: x.to(I8).abs(), lambda x, y, z: -x,
    lambda x, y, z: x.clamp(3, 200), lambda x, y, z: y.to(U8).clamp(3, 200), lambda x, y, z: x.to(I8).float() + y.to(U8),
    lambda x, y, z: x.to(I8).amax(-1), lambda x, y, z: y.to(U8).amin(-1), lambda x, y, z: z.to(U8).amax(), lambda x, y, z: z.to(U8).argmax(-1),
    lambda x, y, z: x.to(I8).argmin(0), lambda x, y, z: y.to(U8).sum(-1), lambda x, y, z: x.to(I8).prod(-1), lambda x, y, z: z.to(U8).any(-1),
    lambda x, y, z: z.to(U8) == z.to(U8).amax(-1, keepdim=True), lambda x, y, z: y.to(U8) >= y.to(U8).amax(-1, keepdim=True),
    lambda x, y, z: (x + z.to(U8)).amax(-1), lambda x, y, z: (y + x.to(I8)).amin(0), lambda x, y, z: z.to(U8).cumsum(-1),
    lambda x, y, z: (x ^ 255) < x, lambda x, y, z: y.to(U8) & x, lambda x, y, z: ~x == y.to(U8),
]  # fmt: skip


def test_bytes_of_both_signs() -> None:
    rows(BYTES, _whole_range(U8), _whole_range(I8), torch.randint(-1000, 1000, (5, 19), dtype=I32))


def test_a_byte_that_the_host_compares() -> None:
    """A number that the straight line itself reads."""
    model = lambda x: torch.cond(x.max() > 100, lambda x: x + 1, lambda x: x - 1, (x,))  # noqa: E731
    for value in (99, 200):
        check(model, (torch.full((5,), value, dtype=U8),))


def test_elementwise_bool() -> None:
    rows(LOGICAL, make(BOOL, 5, 19), make(BOOL, 5, 19))


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_special_values(dtype: torch.dtype) -> None:
    """NaN and infinities in and out, in the lanes of a vector and in the rest after them."""
    special = torch.tensor(
        [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-40, -1e-40, 3e38, 1.0, -100.0, 100.0]
    )
    x = special.repeat_interleave(11).reshape(11, 11).to(dtype)
    y = special.repeat(11).reshape(11, 11).to(dtype)
    table = [
        lambda x, y: x + y, lambda x, y: x * y, lambda x, y: x / y, torch.maximum, torch.minimum, lambda x, y: x.clamp(-1, 1),
        lambda x, y: x < y, lambda x, y: x == y, lambda x, y: x != y, lambda x, y: x.exp(), lambda x, y: x.log(),
        lambda x, y: x.sqrt(), lambda x, y: x.rsqrt(), lambda x, y: x.tanh(), lambda x, y: x.sigmoid(), lambda x, y: x.erf(),
        lambda x, y: x.relu(), lambda x, y: F.gelu(x), lambda x, y: F.silu(x), lambda x, y: x.isnan(), lambda x, y: x.isinf(),
        lambda x, y: x.round(), lambda x, y: x.sign(), lambda x, y: x.amax(1), lambda x, y: x.amin(0), lambda x, y: x.sum(1),
        lambda x, y: torch.softmax(x, 1), lambda x, y: x.bool(), lambda x, y: torch.nan_to_num(x), lambda x, y: x.argmax(1),
        lambda x, y: x.argmin(0), lambda x, y: F.leaky_relu(x), lambda x, y: torch.where(x > 0, x, y), lambda x, y: x.log1p(),
        lambda x, y: x.sin(), lambda x, y: x.cos(), lambda x, y: x.reciprocal(), lambda x, y: x.expm1(), lambda x, y: x % y,
        lambda x, y: torch.fmod(x, y), lambda x, y: x // y, lambda x, y: torch.atan2(x, y), lambda x, y: x.cumsum(1),
        lambda x, y: x ** 2, lambda x, y: x ** y, lambda x, y: F.softplus(x), lambda x, y: F.elu(x),
        *_sixths(dtype), lambda x, y: x.trunc(), lambda x, y: x.floor(),
    ]  # fmt: skip
    rows(table, x, y)


def test_broadcasting_and_sizes() -> None:
    """Sizes around the vector width, and operands that are broadcast in every place."""
    for n in (1, 3, 7, 8, 15, 16, 17, 33, 100):
        check(lambda x, y: (x + y, (x * y).abs().sum(), torch.tanh(x)), (torch.randn(n), torch.randn(n)))
    a, b, c, d = torch.randn(4, 1, 6), torch.randn(3, 1), torch.randn(5, 1, 1, 6), torch.tensor(2.0)
    check(lambda a, b, c, d: (a + b, a * c + b, c - d, a * b * c * d, (a + c) * (b - d)), (a, b, c, d))


# Reductions -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [F32, F64, I64], ids=str)
def test_reductions(dtype: torch.dtype) -> None:
    table: list[Row] = []
    for dims in ((0,), (1,), (2,), (-1,), (0, 1), (1, 2), (0, 2), (0, 1, 2)):
        for keep in (False, True):
            table += [
                lambda x, d=dims, k=keep: x.sum(d, keepdim=k), lambda x, d=dims, k=keep: x.amax(d, keepdim=k),
                lambda x, d=dims, k=keep: x.amin(d, keepdim=k),
            ]  # fmt: skip
            if dtype.is_floating_point:
                table += [lambda x, d=dims, k=keep: x.mean(d, keepdim=k), lambda x, d=dims, k=keep: x.var(d, keepdim=k)]
    table += [lambda x: x.sum(), lambda x: x.max(), lambda x: x.min(), lambda x: x.prod(1), lambda x: (x > 0).any(2),
              lambda x: (x > 0).all(0), lambda x: x.max(1).values, lambda x: x.min(2)[0], lambda x: x.sum(1, dtype=F64)]  # fmt: skip
    if dtype.is_floating_point:
        table += [lambda x: x.std(), lambda x: x.std(2, correction=0), lambda x: x.var((0, 2), correction=2),
                  lambda x: torch.var_mean(x, 1), lambda x: torch.std_mean(x, (1, 2)), lambda x: torch.logsumexp(x, 1),
                  lambda x: x.norm(), lambda x: x.norm(dim=2), lambda x: x.norm(1, dim=0), lambda x: F.normalize(x, dim=1),
                  lambda x: x.nansum(1)]  # fmt: skip
    # Away from 0: a sum that cancels has no scale of its own to measure an error by.
    rows(table, make(dtype, 4, 9, 21) + 3)


def test_reductions_with_what_surrounds_them() -> None:
    rows(
        [
            lambda x: (x.exp() * 2).sum(1).sqrt() + 1,
            lambda x: x - x.mean(1, keepdim=True),
            lambda x: x / x.norm(dim=-1, keepdim=True),
            lambda x: (x - x.amax(0, keepdim=True)).exp().sum(0).log(),
            lambda x: x.sum(1) @ x.sum(1),
            lambda x: x.square().sum((0, 1)) / x.abs().sum(),
            lambda x: x.t().sum(0) + x.mean(1),
        ],
        torch.randn(33, 65),
    )


def test_arg_reductions() -> None:
    x = torch.randint(0, 4, (4, 9, 21)).float()  # equal values: the first wins
    rows(
        [lambda x: x.argmax(), lambda x: x.argmin(), lambda x: x.argmax(1), lambda x: x.argmin(0), lambda x: x.argmax(-1, True),
         lambda x: x.argmin(2, keepdim=True), lambda x: x.max(1), lambda x: x.min(-1)],
        x,
    )  # fmt: skip
    rows([lambda x: x.argmax(1), lambda x: x.argmin()], x.long())


def test_softmax_and_norms() -> None:
    class Norms(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.LayerNorm(18)
            self.two = nn.LayerNorm((6, 18), elementwise_affine=False)
            self.rms = nn.RMSNorm(18, eps=1e-5)
            self.group = nn.GroupNorm(3, 6)
            self.plain = nn.GroupNorm(2, 6, affine=False)
            self.batch = nn.BatchNorm1d(6)
            self.instance = nn.InstanceNorm1d(6)

        def forward(self, x: Tensor) -> list[Tensor]:
            found = [m(x) for m in (self.layer, self.two, self.rms, self.group, self.plain, self.batch, self.instance)]
            for dim in (0, 1, 2, -1):
                found += [torch.softmax(x, dim), torch.log_softmax(x * 3, dim), F.softmin(x, dim)]
            return found + [torch.softmax(x.masked_fill(x > 0.5, float("-inf")), 2), self.layer(x + 1).relu() * x]

    model = Norms().eval()
    with torch.no_grad():
        for p in model.parameters():
            p.uniform_(0.5, 1.5)
        model.batch.running_mean.normal_()
    check(model, (torch.randn(5, 6, 18),))
    check(Norms().double().eval(), (torch.randn(5, 6, 18, dtype=F64),))


@pytest.mark.parametrize("shape,dtype,ways", [
    ((37, 3), F32, [{}]), ((20, 9), F32, [{"threads": 2}]), ((5, 100), F32, [{}, {"threads": 2}, {"cpu": "x86-64-v3"}]),
    ((3, 1), F32, [{}]), ((1, 40), F64, [{}]), ((2, 19, 33), F64, [{"threads": 2}, {"cpu": "x86-64-v3"}]), ((2, 0, 3), F32, [{}]),
    ((4, 7, 300), torch.bfloat16, [{"threads": 2}]), ((4, 7, 300), F32, [{"threads": 2}]),
], ids=str)  # fmt: skip
def test_softmax_over_an_outer_dim(shape: tuple[int, ...], dtype: torch.dtype, ways: list[dict[str, Any]]) -> None:
    """Lanes along what is contiguous, where there is enough of it."""
    dim = len(shape) - 2
    table: list[Row] = [
        lambda x: x.softmax(dim), lambda x: x.log_softmax(dim), lambda x: x.logsumexp(dim), lambda x: x.softmax(0),
        lambda x: (x - x.mean(dim, keepdim=True)) / (x.var(dim, keepdim=True, correction=0) + 1e-3).sqrt(),
        lambda x: (x * 3).softmax(dim).sum(dim), lambda x: x.softmax(-1), lambda x: x.double().softmax(dim),
        lambda x: (x * 3).softmax(dim) * x + 1, lambda x: x.softmax(dim) @ x.mT, lambda x: x.softmax(dim).reshape(-1).cumsum(0),
        lambda x: F.layer_norm(x.mT, (x.shape[dim],)).mT.abs(), lambda x: torch.cat([x.softmax(dim), x.log_softmax(dim)], dim),
    ]  # fmt: skip
    for way in _ways(*ways):
        rows(table, make(dtype, *shape) * 4, **way)


def test_softmax_over_an_outer_dim_of_named_sizes() -> None:
    n, m = torch.export.Dim("n", min=1, max=3000), torch.export.Dim("m", min=1, max=90)
    calls = [(torch.randn(2, *sizes),) for sizes in ((1, 1), (5, 15), (1000, 16), (33, 17), (7, 90))]
    check(lambda x: (x.softmax(1), x.softmax(0)), (torch.randn(2, 5, 6),), calls=calls, dynamic_shapes=({1: n, 2: m},))
    far = torch.export.Dim("far", min=1, max=10**6)
    calls = [(torch.randn(size, 40),) for size in (1, 50, 3000)]
    check(lambda x: x.softmax(0), (torch.randn(5, 40),), calls=calls, dynamic_shapes=({0: far},))
    check(lambda x: x.softmax(0), (torch.randn(40000, 35),))  # too many to keep


def test_cumulative() -> None:
    rows(
        [lambda x: x.cumsum(0), lambda x: x.cumsum(1), lambda x: x.cumsum(-1), lambda x: x.flip(1).cumsum(1)],
        torch.randn(5, 7, 9),
    )
    rows([lambda x: x.cumsum(0), lambda x: x.cumsum(1)], make(I64, 6, 9))
    rows([lambda x: x.cumsum(0), lambda x: (x > 0).cumsum(1)], make(I32, 6, 9))
    several: list[Row] = [
        lambda x: x.cumsum(1),
        lambda x: x.abs().cumsum(1).neg(),
        lambda x: x[:, ::3].cumsum(1),
        lambda x: x[:3].cumsum(1),
    ]
    for dtype in (F32, F64, torch.bfloat16, U8):
        for way in _ways({}, {"threads": 2}):
            rows(several, make(dtype, 13, 300), **way)


# Products -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_products(dtype: torch.dtype) -> None:
    def product(a: Tensor, b: Tensor, c: Tensor, d: Tensor, v: Tensor) -> list[Tensor]:
        return [a @ b, a @ v, v @ b, v @ v, c @ d, c @ b, torch.bmm(c[0], d[0]), F.linear(a, b.t(), v[:1]), a.t() @ a,
                torch.addmm(v[:1], a, b), (c @ d).transpose(-1, -2) @ c, torch.einsum("ij,kj->ik", a, a), torch.outer(v, v)]  # fmt: skip

    for m, n, k in ((1, 1, 1), (5, 7, 3), (1, 33, 17), (37, 1, 9), (17, 18, 65)):
        args = [make(dtype, m, k), make(dtype, k, n), make(dtype, 2, 3, m, k), make(dtype, 2, 3, k, n), make(dtype, k)]
        check(product, args)


@pytest.mark.parametrize(
    "m,n,k", [(1, 1, 1), (1, 7, 5), (2, 33, 20), (3, 17, 129), (5, 5, 5), (16, 64, 64), (31, 100, 77), (64, 65, 200)]
)
def test_linear(m: int, n: int, k: int) -> None:
    class Layers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(k, n), nn.Linear(k, n, bias=False)

        def forward(self, x: Tensor, y: Tensor) -> list[Tensor]:
            return [
                self.a(x),
                self.b(x).relu() + y,
                F.gelu(self.a(x)) * y,
                self.a(x[None])[0],
                self.b(x).sum(1),
                self.a(x[0]),
            ]

    for threads in (1, 2):
        check(Layers(), (torch.randn(m, k), torch.randn(m, n)), threads=threads)


def test_attention() -> None:
    def model(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, bias: Tensor) -> list[Tensor]:
        attend = F.scaled_dot_product_attention
        return [attend(q, k, v), attend(q, k, v, attn_mask=mask), attend(q, k, v, attn_mask=bias), attend(q, k, v, scale=0.3),
                attend(q, q, q, is_causal=True)]  # fmt: skip

    q, k, v = torch.randn(2, 3, 9, 16), torch.randn(2, 3, 13, 16), torch.randn(2, 3, 13, 16)
    mask = torch.rand(2, 1, 9, 13) > 0.3
    mask[..., 0] = True
    for threads in (1, 2):
        check(model, (q, k, v, mask, torch.randn(9, 13)), threads=threads)


# Convolutions and pools -----------------------------------------------------------------------------------------------

CONV2D: list[tuple[int, int, dict[str, Any]]] = [
    (3, 8, {"kernel_size": 3}), (3, 8, {"kernel_size": 3, "padding": 1}), (5, 7, {"kernel_size": 3, "stride": 2, "padding": 1}),
    (16, 16, {"kernel_size": 3, "padding": 1}), (6, 4, {"kernel_size": 1}), (6, 4, {"kernel_size": 1, "stride": 2}),
    (4, 6, {"kernel_size": (3, 5), "padding": (1, 2)}), (4, 6, {"kernel_size": 3, "dilation": 2, "padding": 2}),
    (4, 6, {"kernel_size": (2, 3), "stride": (2, 1), "dilation": (1, 2), "padding": (0, 1)}),
    (6, 6, {"kernel_size": 3, "groups": 6, "padding": 1}), (6, 9, {"kernel_size": 3, "groups": 3, "padding": 1}),
    (4, 8, {"kernel_size": 3, "groups": 2, "stride": 2, "bias": False}), (3, 5, {"kernel_size": 4, "padding": "same"}),
    (8, 16, {"kernel_size": 5, "padding": 2}), (1, 1, {"kernel_size": 2}), (17, 19, {"kernel_size": 3, "padding": 1}),
]  # fmt: skip


@pytest.mark.parametrize("case", CONV2D, ids=str)
def test_conv2d(case: tuple[int, int, dict[str, Any]]) -> None:
    channels, filters, options = case
    layer = nn.Conv2d(channels, filters, **options)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            return self.layer(x), (self.layer(y) * 2).relu()

    check(Model(), (torch.randn(2, channels, 11, 13), torch.randn(1, channels, 8, 9)))


def test_conv_of_other_ranks() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Conv1d(3, 6, 3, padding=1), nn.Conv1d(6, 4, 5, stride=2, dilation=2, groups=2)
            self.c = nn.Conv2d(3, 4, 3)

        def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
            return self.a(x), self.b(self.a(x).relu()), self.c(y), self.a(x[0])

    check(Model(), (torch.randn(2, 3, 24), torch.randn(3, 9, 9)))


@pytest.mark.parametrize("options", [
    {"kernel_size": 2, "stride": 2}, {"kernel_size": 3, "stride": 2, "padding": 1, "output_padding": 1},
    {"kernel_size": 3}, {"kernel_size": 3, "stride": 2, "groups": 2},
], ids=str)  # fmt: skip
def test_conv_transpose(options: dict[str, Any]) -> None:
    for shape in ((2, 4, 5, 6), (4, 5, 6)):
        check(nn.ConvTranspose2d(4, 6, **options), (torch.randn(shape),))


def test_convolution_epilogues() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Conv2d(8, 8, 3, padding=1)
            self.b = nn.Conv2d(8, 8, 3, padding=1, bias=False)
            self.norm = nn.BatchNorm2d(8)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            y = F.silu(self.norm(self.a(x))) + x
            z = self.b(y)
            return F.relu(z + y), z.mean((2, 3)), torch.cat([y, z], 1)

    model = Block()
    model.norm.running_mean.normal_()
    model.norm.running_var.uniform_(0.5, 2)
    for threads in (1, 2):
        check(model.eval(), (torch.randn(2, 8, 9, 10),), threads=threads)


def test_convolution_in_float64() -> None:
    check(nn.Conv2d(3, 5, 3, padding=1).double(), (torch.randn(1, 3, 8, 8, dtype=F64),))


def test_pools() -> None:
    rows(
        [
            lambda x: F.max_pool2d(x, 2), lambda x: F.max_pool2d(x, 3, 2, 1), lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
            lambda x: F.max_pool2d(x, (2, 3), (1, 2), dilation=2), lambda x: F.max_pool2d(x, 2, ceil_mode=True),
            lambda x: F.avg_pool2d(x, 2), lambda x: F.avg_pool2d(x, 3, 2, 1), lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
            lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), lambda x: F.avg_pool2d(x, 3, 2, 1, True, False),
            lambda x: F.avg_pool2d(x, 2, divisor_override=3), lambda x: F.adaptive_avg_pool2d(x, 1),
            lambda x: F.adaptive_avg_pool2d(x[:, :, :10, :12], (5, 4)), lambda x: F.max_pool2d(x[0], 2), lambda x: F.avg_pool2d(x[0], 3),
            lambda x: F.max_pool2d(x.relu() + 1, 2).tanh(), lambda x: F.avg_pool2d(x, (11, 13)),
        ],
        torch.randn(2, 3, 11, 13),
    )  # fmt: skip
    x = torch.randn(1, 3, 9, 9)
    x[0, 1, 4, 4], x[0, 2, 0, 0] = float("nan"), -float("inf")
    rows([lambda x: F.max_pool2d(x, 3, 2, 1), lambda x: F.avg_pool2d(x, 3, 1)], x)


# Indexing and structure -----------------------------------------------------------------------------------------------


def test_indexing() -> None:
    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(20, 7)

        def forward(self, i: Tensor, x: Tensor, at: Tensor) -> list[Tensor]:
            return [self.table(i), self.table(i).sum(1), x.gather(1, at), x.gather(0, at[:, :5] % 4), x.index_select(0, i[0] % 4),
                    x.index_select(1, i[1] % 9), x[i[0] % 4], x[:, i[0] % 9], torch.take_along_dim(x, at, 1), self.table(i[0, 0]),
                    x[at[0, :1] % 4]]  # fmt: skip

    for dtype in (I64, I32):
        i = torch.randint(0, 20, (2, 6)).to(dtype)
        check(Table(), (i, torch.randn(4, 9), torch.randint(0, 9, (4, 11))))
    check(Table(), (torch.randint(0, 20, (2, 6)), torch.randn(4, 9), torch.randint(0, 9, (4, 11))), threads=2)


@pytest.mark.parametrize("dtype", [F32, F64, torch.bfloat16, BOOL], ids=str)
def test_gathers(dtype: torch.dtype) -> None:
    """Indices are checked some at a time; one that is expanded stands for a row."""
    x = make(dtype, 3, 19, 33)
    last, middle = torch.randint(0, 33, (3, 17, 40)), torch.randint(0, 19, (2, 50, 20))
    one = torch.randint(0, 19, (3, 5, 1))
    table: list[Row] = [
        lambda x, last, middle, one: x.gather(2, last), lambda x, last, middle, one: x.gather(1, middle),
        lambda x, last, middle, one: x.gather(0, last[:, :, :33] % 3), lambda x, last, middle, one: x.mT.gather(1, last[:, :, :18]),
        lambda x, last, middle, one: x.gather(2, last.mT[:, :15]), lambda x, last, middle, one: x.gather(2, last[:, :, ::2]),
        lambda x, last, middle, one: x.gather(1, one.expand(3, 5, 33)), lambda x, last, middle, one: x.gather(1, one),
        lambda x, last, middle, one: x[:, :1].gather(1, last[:, :, :33] * 0), lambda x, last, middle, one: x.gather(1, middle[:, :0]),
    ]  # fmt: skip
    for way in _ways({}, {"threads": 2}, {"cpu": "x86-64-v3"}):
        rows(table, x, last, middle, one, **way)


def test_wrong_indices_of_gathers() -> None:
    x, index = torch.randn(9, 70), torch.randint(0, 70, (9, 64))
    if x.is_cuda:
        return  # a wrong one ends the process's work on the device, as torch's own assertions do
    n = torch.export.Dim("n", min=1, max=100)
    for function, shapes in ((lambda x, i: x.gather(1, i), None), (lambda x, i: x.gather(1, i), ({1: n}, None))):
        compiled = sl.compile(function, (x, index), dynamic_shapes=shapes)
        for wrong in (-1, 70, -70, 2**31 + 5, -(2**63), 2**63 - 1):
            for row, column in ((0, 0), (4, 20), (8, 63)):
                bad = index.clone()
                bad[row, column] = wrong
                with pytest.raises(IndexError, match=f"{wrong}"):
                    compiled(x, bad)
                with pytest.raises((IndexError, RuntimeError)):
                    function(x, bad)
            assert torch.equal(compiled(x, index), function(x, index))


def test_negative_indices() -> None:
    x = torch.randn(5, 4)
    compiled = sl.compile(lambda x, i: x[i], (x, torch.tensor([0, 1])))
    for index in (torch.tensor([-1, 2]), torch.tensor([-5, 4])):
        assert torch.equal(compiled(x, index), x[index])
    if x.is_cuda:
        return  # a wrong one ends the process's work on the device, as torch's own assertions do
    for index in (torch.tensor([0, 5]), torch.tensor([-6, 0])):
        with pytest.raises(IndexError):
            compiled(x, index)


def test_structure() -> None:
    rows(
        [
            lambda x, y: torch.cat([x, y]), lambda x, y: torch.cat([x, y, x * 2], 1), lambda x, y: torch.stack([x, y]),
            lambda x, y: torch.stack([x, y + 1], -1), lambda x, y: torch.cat([x.t(), y.t()], 1), lambda x, y: x.split(2, 1),
            lambda x, y: x.chunk(3, 0), lambda x, y: F.pad(x, (1, 2)), lambda x, y: F.pad(x, (1, 0, 2, 3), value=1.5),
            lambda x, y: F.pad(x + y, (-1, 2, 0, -2)), lambda x, y: x.flip(0), lambda x, y: x.flip((0, 1)) + y,
            lambda x, y: x.repeat(2, 3), lambda x, y: x.repeat(2, 1, 1), lambda x, y: x.expand(2, 5, 6) + 1,
            lambda x, y: x.roll(2, 1), lambda x, y: x.roll((1, -2), (0, 1)), lambda x, y: x.reshape(3, 10).sum(0),
            lambda x, y: x.t().reshape(-1) * 2, lambda x, y: x[1:4, ::2] + 1, lambda x, y: x[-1] * y[:, -2:].abs().sum(),
            lambda x, y: x.unsqueeze(1).expand(5, 3, 6).reshape(5, 18) + 0, lambda x, y: torch.tril(x), lambda x, y: torch.triu(x, 1),
            lambda x, y: x.unbind(1)[2] + 1, lambda x, y: torch.cat([x[:0], y]), lambda x, y: x.narrow(1, 1, 3).contiguous(),
            lambda x, y: torch.arange(6) + x, lambda x, y: torch.linspace(0, 1, 6) * x, lambda x, y: torch.zeros_like(x) + y,
            lambda x, y: torch.full((2, 3), 7), lambda x, y: torch.eye(5, dtype=x.dtype) @ x, lambda x, y: x.movedim(0, 1).clone(),
            lambda x, y: x.repeat_interleave(2, 1), lambda x, y: torch.meshgrid(x[0], y[:, 0], indexing="ij"),
            lambda x, y: torch.cat([x, x], 0), lambda x, y: torch.cat([x, y]).relu() + torch.cat([y, x]), lambda x, y: x.clone(),
            lambda x, y: x.tile(2), lambda x, y: x.view(5, 2, 3).mT + 0,
        ],
        torch.randn(5, 6), torch.randn(5, 6),
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [F32, torch.bfloat16, I64, BOOL], ids=str)
def test_rolls(dtype: torch.dtype) -> None:
    """Copies of whole pieces: two for each dim that is rolled, however far."""
    table: list[Row] = [
        lambda x: x.roll(3, 1), lambda x: x.roll(-20, 0), lambda x: x.roll(7, 2), lambda x: x.roll(5), lambda x: x.roll((1, -2), (0, 1)),
        lambda x: x.roll((1, 2, 3, -4), (0, 1, 2, 0)), lambda x: x.roll((2, -2), (-1, 2)), lambda x: x[:, :1].roll(2, 1),
        lambda x: x.mT.roll(2, 1), lambda x: x[:0].roll(1, 0), lambda x: x[:, :0].roll(1), lambda x: x[0, 0, 0].roll(3),
        lambda x: x.reshape(1, 5, 2, 3, 7).roll((1, 2, 1, 1, 4), (0, 1, 2, 3, 4)),
    ]  # fmt: skip
    rows(table, make(dtype, 5, 6, 7))
    check(lambda x: x.roll((2, -3), (0, 1)) + 1, (make(dtype, 40, 300),), threads=2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool])
def test_rolls_for_a_device(dtype: torch.dtype, tmp_path: Path) -> None:
    """Along several dims: one gather of the rows behind them, unless these are short."""
    rolls: list[tuple[Callable[[Tensor], Tensor], int]] = [
        (lambda x: x.roll((-3, 2), (1, 2)), 1),
        (lambda x: x.roll((4, -9, 1), (0, 2, 0)), 1),
        (lambda x: x.permute(0, 2, 1, 3).roll((1, 1), (1, 2)), 2),
        (lambda x: x.roll((1, 1), (2, 3)), 1),  # four copies in one launch
    ]
    many = sl.compile(lambda x: x.roll((1, 2), (0, 1)), (make(dtype, 200, 200, 8),), target="cuda:sm_90")
    # Three small copies in one launch and a large one: no table of 40,000 places.
    assert len(launches_of(many)) == 2 and len(many.code) < 50_000
    x = make(dtype, 2, 5, 7, 12)
    for number, (roll, launches) in enumerate(rolls):
        compiled = sl.compile(roll, (x,), target="cuda:sm_90")
        assert len(launches_of(compiled)) == launches
        got = torch.empty_like(roll(x), memory_format=torch.contiguous_format)
        run_on_host(compiled, nn.Module(), (x,), (got,), tmp_path / str(number))
        assert torch.equal(got, roll(x))


def test_rolls_of_dynamic_sizes() -> None:
    n = torch.export.Dim("n", min=3, max=64)
    native: list[Row] = [
        lambda x: x.roll((3, -1), (0, 1)),
        lambda x: x.roll((-3, 4), (0, 1)),
        lambda x: x.roll(2),
        lambda x: x.roll(2, 1),
    ]
    calls = [(torch.randn(size, 5),) for size in (3, 4, 17, 64)]
    compiled = check(lambda x: [row(x) for row in native], (torch.randn(8, 5),), calls=calls, dynamic_shapes=({0: n},))
    assert not [s for s in compiled.explain().statements if s["backend"] == "aten"]
    # The seam of this one is not known before the call.
    check(lambda x: x.roll(4, 0), (torch.randn(8, 5),), calls=calls, dynamic_shapes=({0: n},))


def test_sizes_as_numbers() -> None:
    """What a named size tells is known when a call begins and no earlier, also where no input takes part in it."""
    n = torch.export.Dim("n", min=2, max=64)
    weight = torch.nn.Parameter(torch.randn(5))
    table: list[Row] = [
        lambda x: x + x.shape[0], lambda x: x.sum(0) / x.shape[0], lambda x: x * torch.tensor(x.shape[0]),
        lambda x: x / torch.full((), x.shape[0], dtype=F32), lambda x: x * torch.arange(x.shape[0])[:, None],
        lambda x: x[(torch.arange(x.shape[0]) - 4) % x.shape[0]], lambda x: x + torch.arange(x.shape[0] * 2).sum(),
        lambda x: x + torch.zeros(x.shape[0], 5).softmax(0), lambda x: torch.ones(x.shape[0], x.shape[0], dtype=x.dtype).tril() @ x,
    ]  # fmt: skip

    class Uses(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = weight

        def forward(self, x: Tensor) -> list[Tensor]:
            return [*(row(x) for row in table), x + self.weight.expand(x.shape[0], 5).exp().cumsum(0)]

    calls = [(torch.randn(size, 5),) for size in (2, 3, 17, 64)]
    for freeze in (True, False):
        check(Uses(), (torch.randn(8, 5),), calls=calls, dynamic_shapes=({0: n},), freeze=freeze)


@pytest.mark.parametrize("dtype", [F32, torch.bfloat16], ids=str)
def test_averages_over_named_sizes(dtype: torch.dtype) -> None:
    """By a number that is made of the sizes; nothing of it goes through torch."""
    height, width = (torch.export.Dim(name, min=2, max=64) for name in "hw")
    table: list[Row] = [
        lambda x: x.mean(3), lambda x: x.mean((2, 3)), lambda x: x.mean(), lambda x: x.std(2), lambda x: x.var((1, 3), correction=0, keepdim=True),
        lambda x: x.var(3, correction=70), lambda x: torch.var_mean(x, 3)[0], lambda x: F.adaptive_avg_pool2d(F.relu(x), 1).flatten(1),
        lambda x: F.group_norm(x, 2, x.new_ones(4) * 2, x.new_ones(4)), lambda x: F.instance_norm(x), lambda x: x.mean(2).mean(2),
    ]  # fmt: skip
    calls = [(torch.randn(2, 4, *sizes).to(dtype),) for sizes in ((6, 5), (2, 2), (64, 33), (7, 64))]
    compiled = check(
        lambda x: [row(x) for row in table], calls[0], calls=calls, dynamic_shapes=({2: height, 3: width},)
    )
    assert not [s for s in compiled.explain().statements if s["backend"] == "aten"]


def test_reductions_of_literals() -> None:
    """A kernel that reads nothing."""
    rows([
        lambda x: x + torch.ones(5, 6).sum(), lambda x: x + torch.ones(5, 6).softmax(0), lambda x: x + torch.full((5, 6), 3.0).amax(1, keepdim=True),
        lambda x: x + torch.zeros_like(x).log_softmax(1), lambda x: x + torch.ones(6, 5).mean(0)[:, None], lambda x: torch.ones_like(x).var(0) * x,
    ], make(F32, 5, 6))  # fmt: skip


def test_a_part_of_several_concatenations() -> None:
    """A computed value lies in one of them and is copied to the others."""

    def model(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        a, b = x.tanh(), y.exp()
        return torch.cat([a, b]), torch.cat([b, a], 1), torch.cat([a, a * 2]).sum(0), torch.stack([y, a])

    check(model, (torch.randn(3, 4), torch.randn(3, 4)))


def test_scatters_into_slices() -> None:
    def model(x: Tensor, y: Tensor) -> list[Tensor]:
        a = x.clone()
        a[1:3] = y[:2]
        b = x.clone()
        b[:, 2] = 5
        b[0] += 1
        c = torch.zeros(6, 6)
        c[::2, 1:5] = y[:3, :4]
        return [a, b, c, torch.slice_scatter(x, y[:, :2], 1, 2, 4), torch.select_scatter(x, y[0], 0, 3)]

    check(model, (torch.randn(5, 6), torch.randn(5, 6)))


def test_zero_sizes() -> None:
    check(
        lambda x, y: (x + 1, x.sum(), x.sum(0), x.sum(1), torch.cat([x, y.t()], 1), x.t() @ x, x @ y, F.relu(x).reshape(0, 3),
                      x.mean(), y.t() * 2, x.prod(1), x.cumsum(0), (x > 0).any(1), (x > 0).all(), torch.softmax(x, 1)),
        (torch.randn(3, 0), torch.randn(0, 3)),
    )  # fmt: skip
    for model in (lambda x: x.amax(1), lambda x: x.argmax(1)):
        with pytest.raises(sl.StraightlineError):
            sl.compile(model, (torch.randn(3, 0),))


@pytest.mark.parametrize("columns", [5, 16, 17, 33, 47, 65])
def test_reductions_after_a_kept_row(columns: int) -> None:
    """A maximum over values that an earlier stage kept sees the row only, not the lanes beyond it."""
    example = torch.randn(3, 7, columns)
    compiled = sl.compile(lambda z: torch.softmax(z, -1).amax(-1), (example,))
    for _ in range(3):
        z = torch.randn(3, 7, columns)
        torch.testing.assert_close(compiled(z), torch.softmax(z, -1).amax(-1))


@pytest.mark.parametrize("dtype", [F32, F64, torch.bfloat16, I64], ids=str)
@pytest.mark.parametrize(
    ("shape", "dim"),
    [
        ((5, 70), 1),
        ((70, 5), 0),
        ((3, 40, 7), 1),
        ((3, 1, 9), 1),
        ((4, 6, 5), (0, 2)),
        ((4, 0), 1),
        ((0, 4), 0),
        ((0, 4), 1),
    ],
    ids=str,
)
def test_results_of_rows_with_operands_of_rows(
    shape: tuple[int, ...], dim: int | tuple[int, ...], dtype: torch.dtype
) -> None:
    """Beside a reduction stands what has one element a row, also where a row is empty or its neighbours are lanes."""
    x = make(dtype, *shape)
    r, k = make(dtype, *x.sum(dim).shape), make(dtype, *x.sum(dim, keepdim=True).shape)
    table: list[Row] = [
        lambda x, r, k: x.sum(dim) + r,
        lambda x, r, k: x.sum(dim, keepdim=True) * k - 1,
        lambda x, r, k: (x + k).sum(dim) * k.squeeze(dim),
        lambda x, r, k: (x.sum(dim) + r, x.sum(dim, keepdim=True) * k + x, x.sum(dim)),
    ]
    rows(table, x, r, k)
    for row in table:
        check(row, (x, r, k))


def test_results_of_rows_of_a_length_known_per_call() -> None:
    """An empty row gives what stands beside its sum."""
    length = torch.export.Dim("n", min=0, max=100)
    calls = [(torch.rand(6, n), torch.rand(6)) for n in (0, 1, 33, 100)]
    check(
        lambda x, r: ((x.sum(-1) + r).sqrt(), x.sum(0)),
        (torch.rand(6, 7), torch.rand(6)),
        calls=calls,
        dynamic_shapes=({1: length}, None),
    )
