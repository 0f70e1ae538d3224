# SPDX-License-Identifier: Apache-2.0
"""Factors of small matrices and what is solved by them, against eager and float64: shapes, batches, triangles, failures, files."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from cuda_on_host import run_on_host
from policy import check, check_call, is_native
from torch import Tensor

import straightline as sl
from straightline import _compiler, _targets
from straightline.mlir_model import compiled_module
from straightline.options import CompileOptions
from straightline.parameters import ParameterTable

DTYPES = [torch.float32, torch.float64]
SIZES = [0, 1, 2, 5, 17, 33]


def _seed() -> None:
    seed = torch.seed() % 2**31
    print(f"seed {seed}")
    torch.manual_seed(seed)


def _regular(*shape: int, dtype: torch.dtype) -> Tensor:
    """Matrices far from singular ones, whose rows have to be exchanged."""
    n = shape[-1]
    turns = torch.randperm(n)
    return (torch.randn(*shape, dtype=dtype) / max(n, 1) ** 0.5 + 3 * torch.eye(n, dtype=dtype))[..., turns, :]


def _positive(*shape: int, dtype: torch.dtype) -> Tensor:
    x = torch.randn(*shape, dtype=dtype) / max(shape[-1], 1) ** 0.5
    return x @ x.mT + torch.eye(shape[-1], dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_systems(batch: tuple[int, ...], n: int, dtype: torch.dtype) -> None:
    _seed()
    a, b = _regular(*batch, n, n, dtype=dtype), torch.randn(*batch, n, 4, dtype=dtype)
    check(lambda a, b: (torch.linalg.solve(a, b), torch.linalg.inv(a)), (a, b))
    check(lambda a, b: torch.linalg.solve(a, b.mT.contiguous(), left=False), (a, b))
    check(lambda a, b: (torch.linalg.det(a), *torch.linalg.slogdet(a)), (a, b))
    if n <= 24:  # more rows are torch's on a device
        assert is_native(lambda a, b: (torch.linalg.solve(a, b), torch.linalg.inv(a), torch.linalg.det(a)), a, b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_factors(n: int, dtype: torch.dtype) -> None:
    _seed()
    p, b = _positive(2, n, n, dtype=dtype), torch.randn(2, n, 3, dtype=dtype)
    check(lambda p: (torch.linalg.cholesky(p), torch.linalg.cholesky(p, upper=True)), (p,))
    check(lambda p, b: torch.cholesky_solve(b, torch.linalg.cholesky(p)), (p, b))
    check(lambda p, b: torch.cholesky_solve(b, torch.linalg.cholesky(p, upper=True), upper=True), (p, b))
    check(lambda p: torch.cholesky_inverse(torch.linalg.cholesky(p)), (p,))
    check(lambda p: (torch.linalg.lu_factor(p)[0], *torch.linalg.lu(p)), (p,))
    if n <= 24:
        assert is_native(lambda p, b: torch.cholesky_solve(b, torch.linalg.cholesky(p)), p, b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("m", "n"), [(0, 0), (1, 1), (3, 0), (5, 5), (9, 4), (4, 9), (70, 33), (20, 100)])
def test_reflections(m: int, n: int, dtype: torch.dtype) -> None:
    """QR, with a column of zeros and one that is a multiple of another."""
    _seed()
    x = torch.randn(2, m, n, dtype=dtype)
    if n > 3:
        x[0, :, 1] = 0
        x[1, :, 2] = 3 * x[1, :, 0]
    check(
        lambda x: (*torch.linalg.qr(x), *torch.linalg.qr(x, mode="complete"), torch.linalg.qr(x, mode="r")[1]),
        (x[0] + 1,),
    )
    for mode in ("reduced", "complete"):
        q, r = sl.compile(lambda x: torch.linalg.qr(x, mode=mode), (x,), cache=False)(x)  # noqa: B023
        torch.testing.assert_close(q @ r, x, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(
            q.mT @ q, torch.eye(q.shape[-1], dtype=dtype).expand(2, -1, -1), rtol=1e-4, atol=1e-4
        )
        torch.testing.assert_close(r, r.triu(), rtol=0, atol=0)
    if m >= n:
        check(lambda x: torch.linalg.householder_product(*torch.geqrf(x)), (x[1] - 1,))
    if max(m, n) <= 24:
        assert is_native(lambda x: torch.linalg.qr(x), x)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("upper", [True, False])
def test_triangular_systems(upper: bool, unit: bool, left: bool) -> None:
    """Of the other triangle nothing is read; with `unit` nor is the diagonal."""
    _seed()
    a = torch.randn(3, 6, 6) / 4 + 2 * torch.eye(6)
    hidden = torch.ones(6, 6, dtype=torch.bool)
    hidden = hidden.tril(-1) if upper else hidden.triu(1)
    hidden = hidden | torch.eye(6, dtype=torch.bool) if unit else hidden
    for columns in (1, 5):
        b = torch.randn(3, 6, columns) if left else torch.randn(3, columns, 6)
        solve = lambda a, b: torch.linalg.solve_triangular(a, b, upper=upper, unitriangular=unit, left=left)  # noqa: E731
        check(solve, (a, b))
        compiled = sl.compile(solve, (a, b), cache=False)
        torch.testing.assert_close(compiled(a.masked_fill(hidden, torch.nan), b), compiled(a, b), rtol=0, atol=0)


def test_broadcast_operands_and_vectors() -> None:
    _seed()
    a, b = _regular(4, 4, dtype=torch.float32), torch.randn(2, 3, 4, 2)
    check(lambda a, b: (torch.linalg.solve(a, b), torch.linalg.solve(a, b[0, 0, :, 0])), (a, b))
    check(lambda a, b: torch.linalg.solve(a.expand(3, 4, 4), b[0, :, :, 0]), (a, b))
    check(lambda a, b: torch.linalg.solve_triangular(a, b, upper=True), (a, b))
    check(lambda a, b: torch.linalg.solve(a.mT, b), (a, b))


def test_named_batch() -> None:
    _seed()
    batch = torch.export.Dim("batch", min=1, max=50)
    a, b = _regular(5, 6, 6, dtype=torch.float32), torch.randn(5, 6, 2)
    compiled = sl.compile(
        lambda a, b: torch.linalg.solve(a, b), (a, b), dynamic_shapes=({0: batch}, {0: batch}), cache=False
    )
    for n in (1, 7, 50):
        a, b = _regular(n, 6, 6, dtype=torch.float32), torch.randn(n, 6, 2)
        torch.testing.assert_close(compiled(a, b), torch.linalg.solve(a, b), rtol=1e-4, atol=1e-4)
    assert "aten" not in {row["backend"] for row in compiled.explain().statements}


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (torch.linalg.inv, "linalg.inv: the input matrix is singular"),
        (lambda x: torch.linalg.solve(x, x), "linalg.solve: the input matrix is singular"),
        (lambda x: torch.linalg.cholesky(-x), "linalg.cholesky: the input is not positive-definite"),
    ],
)
def test_failures(function: Any, words: str) -> None:
    """Any matrix of the batch; the next call works."""
    good = torch.eye(3).expand(4, 3, 3).clone()
    sign = -1 if "cholesky" in words else 1
    compiled = sl.compile(function, (sign * good,), cache=False)
    bad = sign * good
    bad[2, 1, 1] = 0
    with pytest.raises(RuntimeError, match=words):
        compiled(bad)
    with pytest.raises(RuntimeError):
        function(bad)
    torch.testing.assert_close(compiled(sign * good), function(sign * good))


def test_singular_matrices_have_determinants() -> None:
    x = torch.zeros(2, 3, 3)
    x[1] = torch.tensor([[1.0, 2, 4], [2, 4, 8], [4, 8, 16]])
    compiled = sl.compile(lambda x: (torch.linalg.det(x), *torch.linalg.slogdet(x)), (x,), cache=False)
    for got, want in zip(compiled(x), (torch.linalg.det(x), *torch.linalg.slogdet(x)), strict=True):
        torch.testing.assert_close(got, want)


def test_what_torch_does() -> None:
    """Large matrices, other element types and forms are torch's own functions, and right."""
    _seed()
    large = _regular(200, 200, dtype=torch.float64)
    for function, x in (
        (torch.linalg.inv, large),
        (torch.linalg.inv, _regular(4, 4, dtype=torch.complex64)),
        (lambda x: torch.linalg.lu_solve(*torch.linalg.lu_factor(x), x), _regular(4, 4, dtype=torch.float32)),
        (lambda x: torch.linalg.lu(x[:, :3])[2], _regular(5, 5, dtype=torch.float32)),
    ):
        compiled = sl.compile(function, (x,), cache=False)
        torch.testing.assert_close(compiled(x), function(x), rtol=1e-4, atol=1e-4)
        assert "aten" in {row["backend"] for row in compiled.explain().statements}


@pytest.mark.parametrize("function", [torch.linalg.cholesky, torch.linalg.inv, lambda x: torch.linalg.qr(x)[1]])
def test_every_way_gives_the_same_bits(function: Any) -> None:
    """The interpreter, emitted Python and one thread."""
    _seed()
    x = _positive(7, 9, 9, dtype=torch.float32)
    want = sl.compile(function, (x,), cache=False)(x)
    for options in ({"fast_path": False}, {"emit": "python"}, {"threads": 1}):
        assert torch.equal(sl.compile(function, (x,), cache=False, **options)(x), want), options


class Kalman(torch.nn.Module):
    """One step of a Kalman filter: state [n], covariance [n, n] and measurement [m]."""

    def __init__(self, n: int, m: int) -> None:
        super().__init__()
        self.register_buffer("transition", torch.eye(n) + 0.1 * torch.randn(n, n))
        self.register_buffer("observation", torch.randn(m, n))

    def forward(self, x: Tensor, p: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        x, p = self.transition @ x, self.transition @ p @ self.transition.T + 0.1 * torch.eye(len(x))
        s = self.observation @ p @ self.observation.T + 0.5 * torch.eye(len(z))
        gain = torch.cholesky_solve(self.observation @ p, torch.linalg.cholesky(s)).T
        return x + gain @ (z - self.observation @ x), (torch.eye(len(x)) - gain @ self.observation) @ p


def test_a_kalman_filter_without_torch(tmp_path: Path) -> None:
    """Every op is native, so that the file needs no torch; each of 20 steps is as right as eager's."""
    _seed()
    model = Kalman(6, 3).eval()
    x, p = torch.zeros(6), torch.eye(6)
    compiled = sl.compile(model, (x, p, torch.randn(3)), cache=False)
    assert "aten" not in {row["backend"] for row in compiled.explain().statements}
    compiled.save(tmp_path / "kalman.sl")
    loaded = sl.load(tmp_path / "kalman.sl")
    reference = copy.deepcopy(model).double()
    for _ in range(20):
        z = torch.randn(3)
        check_call(compiled, model, reference, (x, p, z))  # by the step: what steps add up to may be off by any factor
        again = loaded(x, p, z)
        x, p = compiled(x, p, z)
        assert all(torch.equal(a, b) for a, b in zip(again, (x, p), strict=True))


COVARIANCES = {
    "cov": (lambda x: torch.cov(x), (5, 12)),
    "method without correction": (lambda x: x.cov(correction=0), (5, 12)),
    "of one variable": (lambda x: torch.cov(x), (1, 12)),
    "of a vector": (lambda x: (torch.cov(x), torch.corrcoef(x)), (12,)),
    "of integers": (lambda x: torch.cov((x * 9).long()), (3, 12)),
    "corrcoef": (lambda x: torch.corrcoef(x), (5, 12)),
    "corrcoef of columns": (lambda x: x.T.corrcoef(), (12, 4)),
    "of complex numbers": (lambda x: torch.corrcoef(torch.complex(x, x.flip(1) + 1)), (4, 12)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", COVARIANCES)
def test_covariances(name: str, dtype: torch.dtype) -> None:
    """torch.export cannot trace torch's own, which look at data."""
    _seed()
    model, shape = COVARIANCES[name]
    check(model, (torch.randn(*shape, dtype=dtype),))


def test_weighted_covariances_are_refused() -> None:
    with pytest.raises(sl.UnsupportedError, match=r"at linalg_test.py"):
        sl.compile(lambda x: torch.cov(x, aweights=torch.ones(12)), (torch.randn(3, 12),))


_ROTATIONS = """
func.func @main(%x: tensor<3x{n}x{n}x{t}>, %y: tensor<2x{m}x{n}x{t}>) -> (tensor<3x{n}x{n}x{t}>, tensor<3x{n}x{t}>, tensor<3xi32>,
    tensor<2x{m}x{n}x{t}>, tensor<2x{m}x{t}>, tensor<2x{m}x{m}x{t}>, tensor<2xi32>) {{
  %vectors, %values, %info = op.eigh %x {{upper = true}} : (tensor<3x{n}x{n}x{t}>) -> (tensor<3x{n}x{n}x{t}>, tensor<3x{n}x{t}>, tensor<3xi32>)
  %right, %s, %left, %other = op.svd %y : (tensor<2x{m}x{n}x{t}>) -> (tensor<2x{m}x{n}x{t}>, tensor<2x{m}x{t}>, tensor<2x{m}x{m}x{t}>, tensor<2xi32>)
  return %vectors, %values, %info, %right, %s, %left, %other : tensor<3x{n}x{n}x{t}>, tensor<3x{n}x{t}>, tensor<3xi32>,
    tensor<2x{m}x{n}x{t}>, tensor<2x{m}x{t}>, tensor<2x{m}x{m}x{t}>, tensor<2xi32>
}}
"""


@pytest.mark.parametrize(("on_device", "dtype"), [(False, DTYPES[0]), (False, DTYPES[1]), (True, DTYPES[0])])
def test_eigenvalues_and_singular_values(on_device: bool, dtype: torch.dtype, tmp_path: Path) -> None:
    """As LAPACK's, and products of the vectors give the matrices.

    y's second matrix has two equal rows; x's last one an infinity, and below its diagonals there is NaN.
    """
    _seed()
    n, m = 9, 5
    x, y = torch.randn(3, n, n, dtype=dtype), torch.randn(2, m, n, dtype=dtype)
    y[1, 3] = y[1, 0]
    symmetric = x.triu() + x.triu(1).mT
    x, symmetric = x.masked_fill(torch.ones(n, n, dtype=torch.bool).tril(-1), torch.nan), symmetric[:2]
    x[2, 0, 1] = torch.inf
    text = _ROTATIONS.format(n=n, m=m, t="f32" if dtype == torch.float32 else "f64")
    if on_device:  # compile_mlir is for the cpu
        options = CompileOptions(target="cuda:sm_80")
        _targets.open_compiler()
        module = _compiler.Module.parse(text, "rotations.mlir")
        compiled = compiled_module(module, ParameterTable.of_declared([]), {}, options, place=options.target)
        shapes = [(3, n, n), (3, n), (3,), (2, m, n), (2, m), (2, m, m), (2,)]
        results = tuple(torch.empty(s, dtype=torch.int32 if len(s) == 1 else dtype) for s in shapes)
        run_on_host(compiled, torch.nn.Module(), (x, y), results, tmp_path)
    else:
        results = sl.compile_mlir(text)(x, y)
    vectors, values, info, right, s, left, other = results
    assert (
        info.tolist() == [0, 0, 1] and other.tolist() == [0, 0] and values[2].isnan().all() and vectors[2].isnan().all()
    )
    near = {"rtol": 0, "atol": 64 * torch.finfo(dtype).eps}
    vectors, values = vectors[:2], values[:2]
    torch.testing.assert_close(values, torch.linalg.eigvalsh(symmetric), **near)
    torch.testing.assert_close(vectors.mT @ (values[..., None] * vectors), symmetric, **near)
    torch.testing.assert_close(s, torch.linalg.svdvals(y), **near)
    torch.testing.assert_close(left.mT @ (s[..., None] * right), y, **near)
    for rows in (vectors, right, left):
        torch.testing.assert_close(rows @ rows.mT, torch.eye(rows.shape[1], dtype=dtype).expand(2, -1, -1), **near)
