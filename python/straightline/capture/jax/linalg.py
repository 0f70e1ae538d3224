# SPDX-License-Identifier: Apache-2.0
"""JAX's calls of LAPACK for factors of matrices, and triangular systems, as ops of the family "linalg"."""

from __future__ import annotations

from collections.abc import Callable

from jaxlib.mlir import ir

from straightline.capture import linalg
from straightline.capture.graph_builder import Reject, Tensor
from straightline.capture.jax.importer import Importer, Op
from straightline.capture.jax.values import Value


def _letter(op: Op, name: str) -> str:
    """An attribute of the call that is a letter of LAPACK's: U, L, N, T, C, R."""
    config = op.operation.attributes["mhlo.backend_config"]
    return chr(int(ir.IntegerAttr(config[name]).value))


def _square(op: Op, x: Tensor) -> Tensor:
    x = _matrices(op, x)
    if x.extents[-1] != x.extents[-2] or not isinstance(x.extents[-1], int):
        sizes = ", ".join(map(str, x.extents[-2:]))
        raise Reject(f"{op.text('call_target_name')} of matrices [{sizes}]", "square ones of a fixed size")
    return x


def _cholesky(ctx: Importer, op: Op) -> list[Value]:
    """potrf: the factor, and info. What LAPACK leaves in the other triangle JAX sets to 0 itself."""
    return list(linalg.cholesky(ctx, _square(op, ctx.tensor(op.inputs[0])), _letter(op, "uplo") == "U"))


def _lu(ctx: Importer, op: Op) -> list[Value]:
    """getrf: factors, pivots (from 1), and info."""
    factors, pivots, _, info = linalg.lu(ctx, _square(op, ctx.tensor(op.inputs[0])))
    return [factors, pivots, info]


def _triangular_solve(ctx: Importer, op: Op) -> list[Value]:
    """Trsm."""
    a, b = ctx.tensor(op.inputs[0]), ctx.tensor(op.inputs[1])
    return [
        linalg.triangular(
            ctx, _square(op, a), b, upper=_letter(op, "uplo") == "U", transpose=_letter(op, "trans_x") != "N",
            unit=_letter(op, "diag") == "U", left=_letter(op, "side") == "L",
        )
    ]  # fmt: skip


def _matrices(op: Op, x: Tensor) -> Tensor:
    if x.dtype not in ("f32", "f64"):
        raise Reject(f"{op.text('call_target_name')} of {x.dtype}", "float32 or float64")
    return x


def _geqrf(ctx: Importer, op: Op) -> list[Value]:
    """R with reflections below it, and their factors."""
    return list(linalg.geqrf(ctx, _matrices(op, ctx.tensor(op.inputs[0]))))


def _orgqr(ctx: Importer, op: Op) -> list[Value]:
    """Columns of Q."""
    return [linalg.orgqr(ctx, _matrices(op, ctx.tensor(op.inputs[0])), ctx.tensor(op.inputs[1]))]


#: By the name of the function that is called.
CALLS: dict[str, Callable[[Importer, Op], list[Value]]] = {
    f"{library}_{letter}{function}_ffi": convert
    for library, function, convert in (
        ("lapack", "potrf", _cholesky),
        ("lapack", "getrf", _lu),
        ("lapack", "trsm", _triangular_solve),
        ("lapack", "geqrf", _geqrf),
        ("lapack", "orgqr", _orgqr),
    )
    for letter in "sd"
}
