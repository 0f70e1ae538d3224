# SPDX-License-Identifier: Apache-2.0
"""Ops that are taken apart by functions of our own (capture/torch/decompositions.py, aten_fft.py), against eager."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from policy import check, is_native
from torch import Tensor

import straightline as sl

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
#: Both zeros, the ends of the types and what is near 1.
EDGES = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    1.0 - 2**-24,
    1 + 2**-23,
    math.inf,
    -math.inf,
    math.nan,
    1e-30,
    -1e-30,
    3e38,
    -3e38,
    88.9,
    -89.2,
]


def _values(low: float, high: float, dtype: torch.dtype) -> Tensor:
    spread = torch.empty(40, dtype=torch.float64).uniform_(low, high)
    return torch.cat([spread, torch.tensor(EDGES, dtype=torch.float64)]).to(dtype)


ELEMENTWISE = {
    "asin": (torch.asin, -1.1, 1.1), "acos": (torch.acos, -1.1, 1.1), "asinh": (torch.asinh, -50, 50),
    "acosh": (torch.acosh, 0.5, 50), "atanh": (torch.atanh, -1.1, 1.1), "sinh": (torch.sinh, -20, 20),
    "cosh": (torch.cosh, -20, 20), "angle": (torch.angle, -3, 3),
}  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise(name: str, dtype: torch.dtype) -> None:
    """Over their range, beyond it, and at the ends; zeros keep their sign."""
    function, low, high = ELEMENTWISE[name]
    x = _values(low, high, dtype)
    check(lambda x: function(x), (x,))
    assert is_native(lambda x: function(x), x)
    got, eager = sl.compile(lambda x: function(x), (x,))(x), function(x)
    zeros = eager == 0
    assert torch.equal(torch.signbit(got[zeros]), torch.signbit(eager[zeros])), x[zeros]


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_of_integers(name: str) -> None:
    check(lambda x: ELEMENTWISE[name][0](x), (torch.randint(-3, 4, (20,)),))


@pytest.mark.parametrize("dtype", FLOATS)
def test_pairs(dtype: torch.dtype) -> None:
    """Hypot overflows nowhere; of a number and a NaN fmax and fmin give the number."""
    x, y = torch.cartesian_prod(_values(-4, 4, dtype), torch.tensor([*EDGES, 2.5], dtype=dtype)).unbind(1)
    for function in (torch.hypot, torch.fmax, torch.fmin):
        check(lambda x, y, function=function: function(x, y), (x, y))
        assert is_native(lambda x, y, function=function: function(x, y), x, y)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int32, torch.bool])
def test_signbit(dtype: torch.dtype) -> None:
    """Of both zeros, and of a NaN of either sign."""
    x = _values(-3, 3, torch.float64)
    x = (torch.cat([x, -x]).nan_to_num(5.0, 3.0, -3.0) if not dtype.is_floating_point else torch.cat([x, -x])).to(dtype)
    function = lambda x: torch.signbit(x)  # noqa: E731
    assert torch.equal(sl.compile(function, (x,))(x), torch.signbit(x))
    assert is_native(function, x)


def test_fmax_of_other_types() -> None:
    i, b = torch.randint(-5, 5, (7,)), torch.rand(7) > 0.5
    check(lambda i, b: (torch.fmax(i, i.flip(0)), torch.fmin(i, torch.tensor(2.5)), torch.fmax(b, ~b)), (i, b))


@pytest.mark.parametrize("decimals", [-2, 0, 1, 3])
@pytest.mark.parametrize("dtype", FLOATS)
def test_round_to_decimals(dtype: torch.dtype, decimals: int) -> None:
    """Equal bits: the steps are eager's."""
    x = (torch.randn(50, dtype=torch.float64) * 100).to(dtype)
    compiled = sl.compile(lambda x: torch.round(x, decimals=decimals), (x,))
    assert torch.equal(compiled(x), torch.round(x, decimals=decimals))


def test_ldexp() -> None:
    x, e = torch.randn(8), torch.randint(-9, 9, (8,))
    check(lambda x, e: (torch.ldexp(x, e), torch.ldexp(x, torch.tensor(3)), torch.ldexp(e, e.abs())), (x, e))


@pytest.mark.parametrize("beta, alpha", [(1, 1), (0, 1), (0.5, -2)])
def test_products(beta: float, alpha: float) -> None:
    """A beta of 0 leaves out the NaN of what is added."""
    v = torch.full((3,), math.nan if beta == 0 else 1.5)
    m, w, b1, b2 = torch.randn(3, 4), torch.randn(4), torch.randn(5, 3, 2), torch.randn(5, 2, 6)
    check(lambda v, m, w: torch.addmv(v, m, w, beta=beta, alpha=alpha), (v, m, w))
    check(lambda v, x, y: torch.addbmm(v[:, None], x, y, beta=beta, alpha=alpha), (v, b1, b2))


def test_addmv_of_integers_is_for_torch() -> None:
    m, v = torch.randint(-3, 3, (3, 4)), torch.randint(-3, 3, (4,))
    check(lambda m, v: torch.addmv(m[:, 0], m, v), (m, v))


def test_bilinear_and_trace() -> None:
    x, y, w, b = torch.randn(2, 3, 4), torch.randn(2, 3, 5), torch.randn(6, 4, 5), torch.randn(6)
    check(lambda x, y, w, b: (F.bilinear(x, y, w, b), F.bilinear(x, y, w)), (x, y, w, b))
    check(lambda x: (torch.trace(x[0]), torch.trace(x[1].long())), (x,))


@pytest.mark.parametrize("p", [0.0, 1.0, 1.5, 2.0, 3.0, math.inf])
def test_distances(p: float) -> None:
    x, y = torch.randn(2, 5, 4), torch.randn(1, 7, 4)
    for function in (
        lambda x, y: torch.cdist(x, y, p=p),
        lambda x, y: F.pdist(x[0], p=p),
        lambda x, y: torch.dist(x[0], x[1], p),
    ):
        check(function, (x, y))
        assert is_native(function, x, y)


@pytest.mark.parametrize(
    "mode", ["use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"]
)
def test_euclidean_distances(mode: str) -> None:
    """Of more than 25 rows by a product of matrices, as in eager."""
    x, y = torch.randn(30, 6, dtype=torch.float64), torch.randn(4, 6, dtype=torch.float64)
    check(lambda x, y: torch.cdist(x, y, compute_mode=mode), (x, y))


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("int32", [False, True])
def test_places_in_sorted_numbers(right: bool, int32: bool) -> None:
    """Equal numbers, NaN, rows of their own, integers, one number; more than 128 are searched by torch."""
    row = torch.randn(9).sort().values
    x = torch.cat([torch.randn(20), row[:3], torch.tensor([math.nan, math.inf])])
    options = {"right": right, "out_int32": int32}
    check(lambda x, row: torch.bucketize(x, row, **options), (x, row))
    check(lambda x, row: torch.searchsorted(row, x.reshape(5, 5), **options), (x, row))
    rows, values = torch.randn(2, 3, 6).sort().values, torch.randn(2, 3, 4)
    check(lambda x, row: torch.searchsorted(row, x, **options), (values, rows))
    check(lambda row: torch.searchsorted(row, 0.25, **options), (row,))
    whole = torch.arange(0, 20, 2)
    check(
        lambda x, row: (torch.bucketize(x, row, **options), torch.bucketize(x * 0.5, row, **options)),
        (torch.arange(-2, 25), whole),
    )
    many = torch.randn(500).sort().values
    check(lambda x, row: torch.bucketize(x, row, **options), (x, many))
    assert is_native(lambda x, row: torch.bucketize(x, row, **options), x, row)
    assert not is_native(lambda x, row: torch.bucketize(x, row, **options), x, many)


def test_sides_and_sorters() -> None:
    row, x = torch.randn(9), torch.randn(4)
    check(lambda row, x: torch.searchsorted(row.sort().values, x, side="right"), (row, x))
    check(lambda row, x: torch.searchsorted(row, x, sorter=torch.argsort(row)), (row, x))


@pytest.mark.parametrize("count", [1, 6, 7])
@pytest.mark.parametrize("missing", [0, 1, 6])
def test_medians(count: int, missing: int) -> None:
    """With NaN, of which the median is one; nanmedian leaves them out, and is NaN where nothing is left."""
    x = torch.randn(count)
    x[torch.randperm(count)[:missing]] = math.nan
    check(lambda x: (torch.median(x), torch.nanmedian(x.reshape(1, -1))), (x,))
    check(lambda x: torch.median(x), (torch.randint(-9, 9, (3, count)),))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("shape", [(7,), (3, 7), (1, 1)])
def test_multilabel_margin_loss(shape: tuple[int, ...], reduction: str) -> None:
    """Classes behind the first -1 do not count, also where there is none before it; of a vector the loss is a number."""
    x = torch.randn(shape)
    classes = torch.rand(shape).argsort(-1)
    for _ in range(5):
        ends = torch.randint(0, shape[-1] + 1, (*shape[:-1], 1))
        target = torch.where(torch.arange(shape[-1]) == ends, -1, classes)
        check(lambda x, y: F.multilabel_margin_loss(x, y, reduction=reduction), (x, target))
    assert is_native(lambda x, y: F.multilabel_margin_loss(x, y, reduction=reduction), x, target)


def test_copies_of_views() -> None:
    x = torch.randn(3, 4)
    check(lambda x: [*torch.unbind_copy(x, 1), torch.narrow_copy(x, 1, 1, 2)], (x,))


class Norms(torch.nn.Module):
    """Batch norm by the statistics of the batch, which are kept."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("var", torch.ones(3))
        self.weight = torch.nn.Parameter(torch.rand(3))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        before = self.mean * 1
        y = F.batch_norm(x, self.mean, self.var, self.weight, training=True, momentum=0.3)
        return y, self.mean + before


@pytest.mark.parametrize("shape", [(5, 3), (4, 3, 2, 2)])
def test_batch_norm_in_training_keeps_statistics(shape: tuple[int, ...]) -> None:
    """What reads the statistics before and after the layer gets what they are then."""
    model, other = Norms(), Norms()
    other.load_state_dict(model.state_dict())
    compiled = sl.compile(model, (torch.randn(shape),))
    for _ in range(3):
        x = torch.randn(shape)
        for got, want in zip(compiled(x), other(x)):
            torch.testing.assert_close(got, want)
        torch.testing.assert_close(model.mean, other.mean)
        torch.testing.assert_close(model.var, other.var)


def test_batch_norm_in_training_updates_inputs() -> None:
    """Statistics that are inputs are overwritten, which the op's schema does not say."""
    x, mean, var = torch.randn(4, 3, 5), torch.zeros(3), torch.ones(3)
    function = lambda x, mean, var: F.batch_norm(x, mean, var, training=True)  # noqa: E731
    compiled = sl.compile(function, (x, mean.clone(), var.clone()))
    ours, theirs = (mean.clone(), var.clone()), (mean.clone(), var.clone())
    torch.testing.assert_close(compiled(x, *ours), function(x, *theirs))
    torch.testing.assert_close(ours, theirs)
    with pytest.raises(sl.GuardError, match="share"):
        compiled(x, ours[0], ours[0])


@pytest.mark.parametrize(("mask", "is_causal"), [(None, False), (None, True), ("bool", False), ("float", False)])
def test_attention_with_the_logarithm_of_its_sums(mask: str | None, is_causal: bool) -> None:
    """The second result is not the weights, which torch's own decomposition gives."""
    op = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    given = {None: None, "bool": torch.rand(3, 6) > 0.2, "float": torch.randn(3, 6)}[mask]
    given = given if mask != "bool" else given | (torch.arange(6) == 0)
    q, k, v = (torch.randn(2, 4, n, 8) for n in (3, 6, 6))
    float_mask = given if mask != "bool" else torch.zeros(3, 6).masked_fill(~given, -math.inf)
    check(lambda q, k, v: op(q, k, v, 0.0, is_causal, attn_mask=float_mask, scale=0.3), (q, k, v))


def test_statistics_of_norms() -> None:
    x = torch.randn(2, 6, 4)
    ops = torch.ops.aten
    check(lambda x: ops.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5), (x,))
    check(lambda x: ops.native_group_norm(x, None, None, 2, 6, 4, 3, 1e-5), (x,))
    check(lambda x: ops._native_batch_norm_legit.no_stats(x, None, None, True, 0.1, 1e-5), (x,))


# Fourier transforms ---------------------------------------------------------------------------------------------------

SIZES = [1, 2, 3, 7, 16, 31, 32, 33, 64, 100, 121, 400, 512, 900]


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("size", SIZES)
def test_transforms(size: int, norm: str) -> None:
    """There and back, of real and complex numbers, all by products of ours."""
    x, z = torch.randn(size), torch.randn(size, dtype=torch.complex64)
    half = size // 2 + 1
    functions = [
        (lambda x: torch.fft.rfft(x, norm=norm), x), (lambda z: torch.fft.fft(z, norm=norm), z),
        (lambda z: torch.fft.ifft(z, norm=norm), z), (lambda z: torch.fft.irfft(z, n=size, norm=norm), z[:half].clone()),
        (lambda x: torch.fft.fft(x, norm=norm), x), (lambda z: torch.fft.hfft(z, n=size, norm=norm), z[:half].clone()),
    ]  # fmt: skip
    for function, argument in functions:
        check(function, (argument,))
        assert is_native(function, argument)


def test_transforms_of_torch() -> None:
    """Large prime factors, and many rows of more than a few numbers."""
    for x in (torch.randn(37), torch.randn(64, 64)):
        check(lambda x: torch.fft.rfft(x), (x,))
        assert not is_native(lambda x: torch.fft.rfft(x), x)


def test_transforms_along_dims() -> None:
    """Several dims, any of them, float64; a padded or cut size; a named number of rows."""
    x = torch.randn(3, 4, 5, dtype=torch.float64)
    check(lambda x: (torch.fft.rfftn(x), torch.fft.rfft(x, dim=0), torch.fft.fft2(x, dim=(0, 2))), (x,))
    check(lambda x: torch.fft.irfftn(torch.fft.rfftn(x, dim=(2, 0)), s=(5, 3), dim=(2, 0)), (x,))
    check(lambda x: (torch.fft.rfft(x, n=8), torch.fft.rfft(x, n=3)), (x,))
    rows = torch.export.Dim("rows", min=1, max=20)
    check(
        lambda x: torch.fft.rfft(x), (torch.randn(4, 12),), dynamic_shapes=({0: rows},), calls=[(torch.randn(9, 12),)]
    )


def test_short_time_transforms() -> None:
    """An STFT and its inverse, as in audio."""
    x, window = torch.randn(2, 64), torch.hann_window(16)

    def spectrum(x: Tensor, window: Tensor) -> tuple[Tensor, Tensor]:
        s = torch.stft(x, 16, 4, window=window, return_complex=True)
        return s.abs(), torch.istft(s * 0.5, 16, 4, window=window)

    check(spectrum, (x, window))
