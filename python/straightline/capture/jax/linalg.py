# SPDX-License-Identifier: Apache-2.0
"""JAX's calls of LAPACK for factors of matrices, systems, singular values and eigenvalues, as ops of the family "linalg"."""

from __future__ import annotations

from collections.abc import Callable

from jaxlib.mlir import ir

from straightline.capture import linalg
from straightline.capture.graph_builder import Tensor
from straightline.capture.jax.importer import Importer, Op
from straightline.capture.jax.values import Value


def _letter(op: Op, name: str) -> str:
    """An attribute of the call that is a letter of LAPACK's: U, L, N, T, C, R."""
    config = op.operation.attributes["mhlo.backend_config"]
    return chr(int(ir.IntegerAttr(config[name]).value))


def _matrices(ctx: Importer, op: Op, *, square: bool = True) -> Tensor:
    """The first operand."""
    return linalg.matrices(op.text("call_target_name"), ctx.tensor(op.inputs[0]), square=square)


def _cholesky(ctx: Importer, op: Op) -> list[Value]:
    """potrf: the factor, and info. What LAPACK leaves in the other triangle JAX sets to 0 itself."""
    return list(linalg.cholesky(ctx, _matrices(ctx, op), _letter(op, "uplo") == "U"))


def _lu(ctx: Importer, op: Op) -> list[Value]:
    """getrf: factors, pivots (from 1), and info."""
    factors, pivots, _, info = linalg.lu(ctx, _matrices(ctx, op))
    return [factors, pivots, info]


def _triangular_solve(ctx: Importer, op: Op) -> list[Value]:
    """Trsm."""
    a, b = _matrices(ctx, op), ctx.tensor(op.inputs[1])
    return [
        linalg.triangular(
            ctx, a, b, upper=_letter(op, "uplo") == "U", transpose=_letter(op, "trans_x") != "N",
            unit=_letter(op, "diag") == "U", left=_letter(op, "side") == "L",
        )
    ]  # fmt: skip


def _geqrf(ctx: Importer, op: Op) -> list[Value]:
    """R with reflections below it, and their factors."""
    return list(linalg.geqrf(ctx, _matrices(ctx, op, square=False)))


def _orgqr(ctx: Importer, op: Op) -> list[Value]:
    """Columns of Q."""
    return [linalg.orgqr(ctx, _matrices(ctx, op, square=False), ctx.tensor(op.inputs[1]))]


def _svd(ctx: Importer, op: Op) -> list[Value]:
    """gesdd, gesvd: what is left of the matrix, values, U, V^T, and info. JAX reads no vectors in mode N, and never the first."""
    mode, x = _letter(op, "mode"), _matrices(ctx, op, square=False)
    u, values, vh, info = linalg.svd(ctx, x, full=mode != "S")
    return [x, values, u, vh, info]


def _eigh(ctx: Importer, op: Op) -> list[Value]:
    """syevd: vectors, values and info."""
    values, vectors, info = linalg.eigh(ctx, _matrices(ctx, op), _letter(op, "uplo") == "U")
    return [vectors, values, info]


#: By the name of the function that is called.
CALLS: dict[str, Callable[[Importer, Op], list[Value]]] = {
    f"{library}_{letter}{function}_ffi": convert
    for library, function, convert in (
        ("lapack", "potrf", _cholesky),
        ("lapack", "getrf", _lu),
        ("lapack", "trsm", _triangular_solve),
        ("lapack", "geqrf", _geqrf),
        ("lapack", "orgqr", _orgqr),
        ("lapack", "gesdd", _svd),
        ("lapack", "gesvd", _svd),
        ("lapack", "syevd", _eigh),
    )
    for letter in "sd"
}
