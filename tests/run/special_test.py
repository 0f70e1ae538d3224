# SPDX-License-Identifier: Apache-2.0
"""Special functions (`op.special`), exp2 and copysign against eager: over their ranges, at poles and at the ends of the types."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from policy import check
from torch import Tensor

import straightline as sl
from straightline.testing import policy

_ROOT = Path(__file__).resolve().parents[2]
S = torch.special
EDGES = [
    0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 2.0, -2.0, -3.0, 0.5, -0.5, 1.5, 2.5, 1e-30, -1e-30, 1e-40, -1e-40, 1e-300,
    0.46875, 4.0, 5.0, 8.0, 9.0, 10.0, 1 - 2.0**-24, 1 - 2.0**-53, 26.5, -26.5, 27.5, -27.5, 100.0, -100.0, 1e10, -1e10, 3e38, -3e38,
]  # fmt: skip
#: Of one operand, with the range that random values have besides those over many orders of magnitude.
UNARY: dict[str, tuple[Callable[[Tensor], Tensor], float, float]] = {
    "exp2": (torch.exp2, -160, 130), "erfc": (torch.erfc, -6, 30), "erfcx": (S.erfcx, -27, 60), "erfinv": (torch.erfinv, -1.1, 1.1),
    "ndtri": (S.ndtri, -0.1, 1.1), "log_ndtr": (S.log_ndtr, -40, 10), "lgamma": (torch.lgamma, -20, 20),
    "digamma": (torch.digamma, -20, 20), "i0": (torch.i0, -90, 90), "i0e": (S.i0e, -90, 90), "i1": (S.i1, -90, 90),
    "i1e": (S.i1e, -90, 90), "spherical_bessel_j0": (S.spherical_bessel_j0, -60, 60), "airy_ai": (S.airy_ai, -50, 20),
    **{name: (getattr(S, name), -60.0, 60.0) for name in """modified_bessel_i0 modified_bessel_i1 modified_bessel_k0
    modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1 bessel_j0 bessel_j1 bessel_y0 bessel_y1""".split()},
}  # fmt: skip
POLYNOMIALS = """chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w
shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w
hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p""".split()
FLOATS = [torch.float32, torch.float64]


def _seed() -> None:
    seed = torch.seed() % 2**31
    print(f"seed {seed}")
    torch.manual_seed(seed)


def _values(low: float, high: float, count: int = 400) -> Tensor:
    spread = torch.empty(count, dtype=torch.float64).uniform_(low, high)
    powers = 10 ** torch.empty(100, dtype=torch.float64).uniform_(-12, 3) * torch.randn(100).sign()
    return torch.cat([torch.tensor(EDGES, dtype=torch.float64), spread, powers])


def _run(function: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """The compiled function's result; none of its kernels is torch's."""
    compiled = sl.compile(function, inputs)
    assert all(row["backend"] != "aten" for row in policy.launches(compiled))
    return compiled(*inputs)


def _compare(function: Callable[..., Tensor], *inputs: Tensor) -> None:
    """Against eager of float64: NaN where it has NaN, and within torch.testing's tolerance of the type."""
    got = _run(function, *inputs)
    wide = function(*(x.double() for x in inputs))
    expected = wide.to(got.dtype)
    torch.testing.assert_close(got, expected, equal_nan=True)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, dtype: torch.dtype) -> None:
    _seed()
    function, low, high = UNARY[name]
    _compare(lambda x: function(x), _values(low, high).to(dtype))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int64, torch.bool])
def test_unary_of_other_types(dtype: torch.dtype) -> None:
    """Those functions that eager has for the type; its kernels compute halves in float32."""
    _seed()
    x = torch.empty(40).uniform_(-3, 9).to(dtype)
    for function, _, _ in UNARY.values():
        try:
            function(x)
        except RuntimeError:
            continue
        if dtype.is_floating_point:
            check(lambda x, function=function: function(x), (x,))
        else:  # eager of integers is float32, and no reference of itself
            got = _run(lambda x, function=function: function(x), x)
            torch.testing.assert_close(got, function(x.double()).float(), equal_nan=True)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 7])
def test_polygamma(n: int, dtype: torch.dtype) -> None:
    """Apart from the poles, where eager's trigamma is not quite infinite."""
    _seed()
    x = _values(-10, 20)
    x = x[~((x < 0) & (x == x.floor()))].to(dtype)
    x = x[~((x < 0) & (x == x.floor()))]
    _compare(lambda x: torch.polygamma(n, x), x)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name: str, dtype: torch.dtype) -> None:
    """Degrees as tensors and as numbers, truncated, negative, no numbers; NaN at x is left to where eager defines it."""
    _seed()
    function = getattr(S, name)
    x = torch.cat([torch.tensor(EDGES), torch.randn(200) * 1.2, torch.rand(63)])
    x = x[(x.abs() < 1e3)].to(dtype)
    n = torch.randint(-2, 20, x.shape).to(dtype)
    n[:6] = torch.tensor([2.7, -0.5, 0.5, math.nan, math.inf, -math.inf])
    if x.is_cuda:  # eager counts up to it in whole numbers there
        n[4] = 3
    _compare(lambda x, n: function(x, n), x, n)
    for degree in (0, 1, 5, 12):
        _compare(lambda x, degree=degree: function(x, degree), x)
    whole = torch.randint(0, 9, x.shape)
    _compare(lambda n: function(0.25, n), n.nan_to_num(3, 4, -4))
    check(lambda x, n: function(x, n), (x, whole))


@pytest.mark.parametrize("dtype", FLOATS)
def test_zeta(dtype: torch.dtype) -> None:
    _seed()
    x = torch.cat([torch.tensor([1.0, 0.5, 2.0, 3.0, math.nan, 2.0]), torch.rand(300) * 20 + 0.5])
    q = torch.cat([torch.tensor([1.0, 1.0, 0.0, -2.0, 1.0, math.nan]), torch.randn(300) * 20])
    _compare(S.zeta, x.to(dtype), q.to(dtype))
    _compare(lambda q: S.zeta(2.0, q), q.to(dtype))
    _compare(lambda x: S.zeta(x, 1.5), x.to(dtype))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("function", [torch.igamma, torch.igammac])
def test_incomplete_gamma(function: Callable[..., Tensor], dtype: torch.dtype) -> None:
    """Edges in all pairs; a and x near each other where both are large, too."""
    _seed()
    edges = torch.tensor(EDGES, dtype=torch.float64)
    large = 10 ** torch.empty(500, dtype=torch.float64).uniform_(0, 5)
    near = large * (1 + torch.randn(500, dtype=torch.float64) / large.sqrt()).abs()
    spread = torch.rand(500, dtype=torch.float64) * 300
    a = torch.cat([edges.repeat_interleave(len(edges)), large, spread, torch.rand(500, dtype=torch.float64) * 3])
    x = torch.cat([edges.repeat(len(edges)), near, spread.flip(0), torch.rand(500, dtype=torch.float64) * 3])
    _compare(lambda a, x: function(a, x), a.to(dtype), x.to(dtype))


@pytest.mark.parametrize("dtype", FLOATS)
def test_parts_of_floats(dtype: torch.dtype) -> None:
    """Equal bits."""
    _seed()
    x = _values(-3, 3).to(dtype)
    y = x[torch.randperm(x.numel())]
    for function in (torch.nextafter, torch.copysign, lambda x, y: torch.frexp(x)[0], lambda x, y: torch.frexp(x)[1]):
        got, eager = _run(lambda x, y, function=function: function(x, y), x, y), function(x, y)
        assert got.dtype == eager.dtype
        torch.testing.assert_close(got, eager, rtol=0, atol=0, equal_nan=True)
        if got.is_floating_point():
            known = ~eager.isnan()
            assert torch.equal(torch.signbit(got)[known], torch.signbit(eager)[known])


def test_parts_of_halves() -> None:
    x, y = torch.randn(30).bfloat16(), torch.randn(30).bfloat16()
    check(
        lambda x, y: (torch.nextafter(x, y), torch.copysign(x, y), torch.copysign(x, -0.0), *torch.frexp(x.half())),
        (x, y),
    )


def test_copysign_of_integers() -> None:
    i = torch.randint(-5, 5, (20,))
    check(lambda i: (torch.copysign(i, i.flip(0)), torch.copysign(i, -1), torch.copysign(i > 0, i)), (i,))


def test_zeta_far_below_zero() -> None:
    """As fast as elsewhere: a loop over the terms in between, as eager's, would take minutes."""
    q = torch.tensor([-1e9 + 0.5, -1e6 + 0.5], dtype=torch.float64)
    torch.testing.assert_close(
        _run(lambda q: S.zeta(2.0, q), q), torch.full((2,), math.pi**2, dtype=torch.float64), rtol=0, atol=2e-6
    )
    torch.testing.assert_close(
        _run(lambda q: torch.polygamma(2, q), q), torch.zeros(2, dtype=torch.float64), rtol=0, atol=1e-9
    )


@pytest.mark.parametrize("p", [1, 2, 5])
def test_mvlgamma(p: int) -> None:
    _seed()
    x = torch.empty(50).uniform_(p, 30)
    check(lambda x: (torch.mvlgamma(x, p), torch.mvlgamma(x.double(), p)), (x,))
    check(lambda x: torch.mvlgamma(x.long() + 3, p), (x,))


def test_in_one_kernel() -> None:
    """They are fused with what stands around them, also before a reduction; sizes that no vector divides."""
    x = torch.rand(5, 37) + 0.1
    compiled = sl.compile(lambda x: (torch.lgamma(x * 2).exp() + torch.digamma(x)).sum(1), (x,))
    assert len(policy.launches(compiled)) == 1
    check(lambda x: (torch.lgamma(x * 2).exp() + torch.digamma(x)).sum(1), (x,))
    check(lambda x: torch.erfc(x.t()[1:, ::2]) * 2, (x,))


def test_the_table_and_the_header_agree() -> None:
    table: Any = (_ROOT / "dialect/op/special_functions.h").read_text(encoding="utf-8")
    header = (_ROOT / "codegen/kernels/special.h").read_text(encoding="utf-8")
    rows = dict(re.findall(r'\{"(\w+)", (\d)\}', table))
    assert rows.pop("exp2") == "1" and rows.pop("copysign") == "2"  # math's
    made = dict.fromkeys(re.findall(r"^SL_SPECIAL\((\w+)\)", header, re.MULTILINE), "1")
    made |= dict.fromkeys(re.findall(r"^SL_SPECIAL_OF_TWO\((\w+)\)", header, re.MULTILINE), "2")
    made |= dict.fromkeys(re.findall(r"^SL_INLINE V (\w+)\(V x\)", header, re.MULTILINE), "1")
    made |= dict.fromkeys(re.findall(r"^SL_INLINE V (\w+)\(V x, V \w\)", header, re.MULTILINE), "2")
    assert rows == made
