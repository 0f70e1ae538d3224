# SPDX-License-Identifier: Apache-2.0
"""ATen's factors of small square matrices, and what is solved by them; torch's own functions take large ones."""

from __future__ import annotations

import torch

from straightline.capture import linalg
from straightline.capture.builder import TensorType
from straightline.capture.graph_builder import Reject, Tensor, known
from straightline.capture.torch.importer import Arguments, Importer, converter, read_results


def _matrices(ctx: Importer, op: str, x: Tensor, *, square: bool = True) -> Tensor:
    """Matrices that the ops take."""
    sizes = linalg.matrices(op, x, square=square).extents[-2:]
    if max(map(known, sizes)) > ctx.target.limit("most_matrix_rows") and ctx.allows_aten:
        raise Reject(f"{op} of matrices [{', '.join(map(str, sizes))}], which torch's function takes less time for")
    return x


def _refuse_factors(node: torch.fx.Node, places: set[int]) -> None:
    """Of results that are the factors by which others are computed none may be read: they are not torch's."""
    if places & read_results(node):
        raise Reject("the factors that it gives besides", "linalg.lu_factor")


def _spread(ctx: Importer, x: Tensor, lead: tuple[object, ...]) -> Tensor:
    return ctx.expand(x, (*lead, *x.extents[-2:]))  # type: ignore[arg-type]


@converter("aten.linalg_cholesky_ex.default")
def _cholesky(ctx: Importer, a: Arguments, node: torch.fx.Node) -> list[Tensor]:
    return list(linalg.cholesky(ctx, _matrices(ctx, "cholesky", a.self), bool(a.get("upper", False))))


@converter("aten.linalg_lu_factor_ex.default")
def _lu_factor(ctx: Importer, a: Arguments, node: torch.fx.Node) -> list[Tensor]:
    if not a.get("pivot", True):
        raise Reject("lu_factor without pivots", "pivot=True")
    factors, pivots, _, info = linalg.lu(ctx, _matrices(ctx, "lu_factor", a.A))
    return [factors, pivots, info]


@converter("aten.linalg_lu.default")
def _lu(ctx: Importer, a: Arguments, node: torch.fx.Node) -> list[Tensor]:
    """The permutation as a matrix, and both factors."""
    if not a.get("pivot", True):
        raise Reject("lu without pivots", "pivot=True")
    x = _matrices(ctx, "lu", a.A)
    factors, _, permutation, _ = linalg.lu(ctx, x)
    size = x.extents[-1]
    places = ctx.emit_one("iota", [], TensorType("i64", (size,)), {"start": 0, "step": 1})
    row = ctx.expand(ctx.reshape(places, (size, 1)), x.extents)
    flags = TensorType("i1", x.extents)
    order = ctx.expand(ctx.reshape(permutation, (*x.extents[:-2], 1, size)), x.extents)
    chosen = ctx.cast(ctx.emit_one("eq", [order, row], flags), x.dtype)
    column = ctx.expand(places, x.extents)
    below = ctx.emit_one("gt", [row, column], flags)
    zero = ctx.operand(0, x.type)
    ones = ctx.cast(ctx.emit_one("eq", [row, column], flags), x.dtype)
    lower = ctx.emit_one("where", [below, factors, ones], x.type)
    return [chosen, lower, ctx.emit_one("where", [below, zero, factors], x.type)]


@converter("aten.linalg_qr.default")
def _qr(ctx: Importer, a: Arguments, node: torch.fx.Node) -> list[Tensor]:
    mode, x = str(a.get("mode", "reduced")), _matrices(ctx, "qr", a.A, square=False)
    q, r = linalg.qr(ctx, x, mode == "complete", mode != "r")
    return [ctx.full(0, x.dtype, ctx.result_type(node, 0).extents) if q is None else q, r]


@converter("aten.geqrf.default")
def _geqrf(ctx: Importer, a: Arguments, node: torch.fx.Node) -> list[Tensor]:
    return list(linalg.geqrf(ctx, _matrices(ctx, "geqrf", a.self, square=False)))


@converter("aten.linalg_householder_product.default", "aten.orgqr.default")
def _householder_product(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    x, taus = a.get("input", a.get("self")), a.get("tau", a.get("input2"))
    return linalg.orgqr(ctx, _matrices(ctx, "householder_product", x, square=False), taus)


@converter("aten.linalg_inv_ex.default")
def _inverse(ctx: Importer, a: Arguments, node: torch.fx.Node) -> list[Tensor]:
    return list(linalg.inverse(ctx, _matrices(ctx, "inv", a.A)))


@converter("aten._linalg_solve_ex.default")
def _solve(ctx: Importer, a: Arguments, node: torch.fx.Node) -> list[Tensor | None]:
    x, b = _matrices(ctx, "solve", a.A), a.B
    _refuse_factors(node, {1, 2})
    type = ctx.result_type(node, 0)
    vector = b.rank == 1 or (b.rank == x.rank - 1 and b.extents == x.extents[:-1])
    b = ctx.reshape(b, (*b.extents, 1)) if vector else b
    wanted = (*type.extents, 1) if vector else type.extents
    left = bool(a.get("left", True)) or vector
    factors, _, permutation, info = linalg.lu(ctx, x if left else linalg.turned(ctx, x))
    lead = wanted[:-2]
    b = ctx.expand(b, (*lead, *b.extents[-2:]))
    b = b if left else linalg.turned(ctx, b)
    order = ctx.expand(permutation, (*lead, permutation.extents[-1]))
    found = linalg.lu_solve(ctx, _spread(ctx, factors, lead), order, b)
    found = found if left else linalg.turned(ctx, found)
    return [ctx.reshape(found, type.extents), None, None, info]


@converter("aten.linalg_solve_triangular.default")
def _solve_triangular(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    x, type = _matrices(ctx, "solve_triangular", a.self), ctx.result_type(node)
    lead = type.extents[:-2]
    return linalg.triangular(
        ctx, _spread(ctx, x, lead), _spread(ctx, a.B, lead),
        upper=bool(a.upper), unit=bool(a.get("unitriangular", False)), left=bool(a.get("left", True)),
    )  # fmt: skip


@converter("aten.cholesky_solve.default")
def _cholesky_solve(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    factor, type = _matrices(ctx, "cholesky_solve", a.input2), ctx.result_type(node)
    lead = type.extents[:-2]
    return linalg.cholesky_solve(
        ctx, _spread(ctx, factor, lead), _spread(ctx, a.self, lead), bool(a.get("upper", False))
    )


@converter("aten.cholesky_inverse.default")
def _cholesky_inverse(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    factor = _matrices(ctx, "cholesky_inverse", a.self)
    return linalg.cholesky_solve(ctx, factor, linalg.identity(ctx, factor), bool(a.get("upper", False)))


@converter("aten._linalg_det.default")
def _det(ctx: Importer, a: Arguments, node: torch.fx.Node) -> list[Tensor]:
    _refuse_factors(node, {1, 2})
    factors, pivots, _, _ = linalg.lu(ctx, _matrices(ctx, "det", a.A))
    return [linalg.determinant(ctx, factors, pivots)]


@converter("aten._linalg_slogdet.default")
def _slogdet(ctx: Importer, a: Arguments, node: torch.fx.Node) -> list[Tensor]:
    _refuse_factors(node, {2, 3})
    factors, pivots, _, _ = linalg.lu(ctx, _matrices(ctx, "slogdet", a.A))
    return list(linalg.log_determinant(ctx, factors, pivots))


#: What a failed factor means, by what the user called.
_FAILURES = {"linalg.cholesky": "the input is not positive-definite", "cholesky": "the input is not positive-definite"}


@converter("aten._linalg_check_errors.default")
def _check_errors(ctx: Importer, a: Arguments, node: torch.fx.Node) -> None:
    """Ends the call where a factor failed; eager's exception says of which matrix of the batch."""
    name = str(a.api_name)
    linalg.check(ctx, a.info, f"{name}: {_FAILURES.get(name, 'the input matrix is singular')}")
