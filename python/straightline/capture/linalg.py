# SPDX-License-Identifier: Apache-2.0
"""Factors of matrices and what is solved by them, as ops of the family "linalg". Knows no framework.

Matrices are the last two dims; all operands of a function have the same dims before them.
"""

from __future__ import annotations

import numpy as np

from straightline.capture.builder import Dense, Dim, TensorType
from straightline.capture.graph_builder import GraphBuilder, Reject, Tensor, known


def matrices(op: str, x: Tensor, *, square: bool = True) -> Tensor:
    """The operand of an op of that name, if the ops take it.

    Raises:
        Reject: It has other elements than f32 and f64, named sizes, or no square matrices where these are needed.
    """
    if x.dtype not in ("f32", "f64"):
        raise Reject(f"{op} of {x.dtype}", "float32 or float64")
    sizes = x.extents[-2:]
    if len(sizes) < 2 or not all(isinstance(size, int) for size in sizes) or (square and sizes[0] != sizes[1]):
        raise Reject(
            f"{op} of matrices [{', '.join(map(str, sizes))}]", f"{'square ones' if square else 'ones'} of static sizes"
        )
    return x


def check(ctx: GraphBuilder, info: Tensor, words: str) -> None:
    """Ends a call in which a factor of any matrix failed."""
    fine = ctx.emit_one("eq", [info, ctx.operand(0, info.type)], TensorType("i1", info.extents))
    holds = ctx.reduce("all", fine, list(range(fine.rank)), False) if fine.rank else fine
    ctx.emit("check", [holds], [], {"message": words})


def cholesky(ctx: GraphBuilder, x: Tensor, upper: bool = False) -> tuple[Tensor, Tensor]:
    """The factor, whose other triangle is 0, and info (i32): 0, or the first row (from 1) that is not positive definite."""
    types = [x.type, TensorType("i32", x.extents[:-2])]
    factor, info = ctx.emit("cholesky", [x], types, {"upper": upper})
    return factor, info


def lu(ctx: GraphBuilder, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Factors, pivots as LAPACK has them (i32), the rows of x in their order (i64), and info (i32)."""
    rows = x.extents[:-1]
    types = [x.type, TensorType("i32", rows), TensorType("i64", rows), TensorType("i32", x.extents[:-2])]
    factors, pivots, permutation, info = ctx.emit("lu", [x], types)
    return factors, pivots, permutation, info


def geqrf(ctx: GraphBuilder, x: Tensor) -> tuple[Tensor, Tensor]:
    """R with the vectors of reflections below it, and their factors."""
    count = min(known(x.extents[-2]), known(x.extents[-1]))
    types = [x.type, TensorType(x.dtype, (*x.extents[:-2], count))]
    factors, taus = ctx.emit("geqrf", [x], types)
    return factors, taus


def orgqr(ctx: GraphBuilder, factors: Tensor, taus: Tensor) -> Tensor:
    """As many columns of Q as the factors have."""
    return ctx.emit_one("orgqr", [factors, taus], factors.type)


def eigh(ctx: GraphBuilder, x: Tensor, upper: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Ascending eigenvalues, eigenvectors as columns, and info (i32): 1 where x is not finite; of x one triangle is read."""
    types = [x.type, TensorType(x.dtype, x.extents[:-1]), TensorType("i32", x.extents[:-2])]
    vectors, values, info = ctx.emit("eigh", [x], types, {"upper": upper})
    return values, turned(ctx, vectors), info


def svd(ctx: GraphBuilder, x: Tensor, full: bool = False) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """U [.., m, k], descending values [.., k], V^T [.., k, n] and info (i32): 1 where x is not finite; k is min(m, n).

    With `full` all columns of U [.., m, m] and all rows of V^T [.., n, n].
    """
    rows, columns = known(x.extents[-2]), known(x.extents[-1])
    wide = turned(ctx, x) if rows > columns else x
    lead, count = x.extents[:-2], min(rows, columns)
    types = [TensorType(x.dtype, (*lead, *sizes)) for sizes in (wide.extents[-2:], (count,), (count, count))]
    right, values, left, info = ctx.emit("svd", [wide], [*types, TensorType("i32", lead)])
    if full and rows != columns:
        right = _completed(ctx, right)
    if rows > columns:
        return turned(ctx, right), values, left, info
    return turned(ctx, left), values, right, info


def _completed(ctx: GraphBuilder, rows: Tensor) -> Tensor:
    """Orthogonal rows [.., k, n], and those that make [.., n, n] of them: Q's columns behind the first k."""
    count, size = known(rows.extents[-2]), known(rows.extents[-1])
    factors, taus = geqrf(ctx, turned(ctx, rows))
    q = orgqr(ctx, ctx.padded(factors, [(0, size - count)]), taus)
    rest = turned(ctx, ctx.slice(q, q.rank - 1, count, size, size - count))
    return ctx.cat([rows, rest], rows.rank - 2, TensorType(rows.dtype, (*rows.extents[:-2], size, size)))


def triangle(ctx: GraphBuilder, x: Tensor, *, upper: bool, diagonal: int = 0) -> Tensor:
    """The elements on a diagonal, `diagonal` columns to the right of the first one, and on its side; the rest is 0."""
    rows, columns = x.extents[-2:]
    row = ctx.emit_one("iota", [], TensorType("i64", (rows,)), {"start": diagonal, "step": 1})
    column = ctx.emit_one("iota", [], TensorType("i64", (columns,)), {"start": 0, "step": 1})
    places = [ctx.expand(place, (rows, columns)) for place in (column, ctx.reshape(row, (rows, 1)))]
    kept = ctx.emit_one("ge" if upper else "le", places, TensorType("i1", (rows, columns)))
    return ctx.emit_one("where", [ctx.expand(kept, x.extents), x, ctx.full(0, x.dtype, x.extents)], x.type)


def qr(ctx: GraphBuilder, x: Tensor, complete: bool, wants_q: bool = True) -> tuple[Tensor | None, Tensor]:
    """Q [.., m, min(m, n)] (`complete`: [.., m, m]) and R with as many rows."""
    m, n = known(x.extents[-2]), known(x.extents[-1])
    count = m if complete else min(m, n)
    factors, taus = geqrf(ctx, x)
    r = triangle(ctx, ctx.slice(factors, x.rank - 2, 0, count, count), upper=True)
    if not wants_q:
        return None, r
    wide = ctx.slice(factors, x.rank - 1, 0, count, count) if count < n else ctx.padded(factors, [(0, count - n)])
    return orgqr(ctx, wide, taus), r


def turned(ctx: GraphBuilder, x: Tensor) -> Tensor:
    """Each matrix transposed."""
    return ctx.permute(x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])


def triangular(
    ctx: GraphBuilder,
    a: Tensor,
    b: Tensor,
    *,
    upper: bool,
    transpose: bool = False,
    unit: bool = False,
    left: bool = True,
) -> Tensor:
    """X with a x = b, or with x a = b where not `left`; of a the one triangle is read, transposed where that is said."""
    if not left:
        return turned(ctx, triangular(ctx, a, turned(ctx, b), upper=upper, transpose=not transpose, unit=unit))
    attributes = {"upper": upper, "transpose": transpose, "unit": unit}
    return ctx.emit_one("triangular_solve", [a, b], b.type, attributes)


def in_order(ctx: GraphBuilder, b: Tensor, permutation: Tensor) -> Tensor:
    """Rows of b [.., n, k] in the order of a permutation [.., n]."""
    index = ctx.expand(ctx.reshape(permutation, (*permutation.extents, 1)), b.extents)
    return ctx.emit_one("gather", [b, index], b.type, {"dim": b.rank - 2})


def lu_solve(ctx: GraphBuilder, factors: Tensor, permutation: Tensor, b: Tensor) -> Tensor:
    """X with a x = b, of a's factors."""
    y = triangular(ctx, factors, in_order(ctx, b, permutation), upper=False, unit=True)
    return triangular(ctx, factors, y, upper=True)


def cholesky_solve(ctx: GraphBuilder, factor: Tensor, b: Tensor, upper: bool) -> Tensor:
    """X with a x = b, of a's Cholesky factor."""
    y = triangular(ctx, factor, b, upper=upper, transpose=upper)
    return triangular(ctx, factor, y, upper=upper, transpose=not upper)


def identity(ctx: GraphBuilder, like: Tensor) -> Tensor:
    """As many ones in a diagonal as each matrix has rows."""
    size = known(like.extents[-1])
    array = np.eye(size, dtype=np.float64 if like.dtype == "f64" else np.float32)
    one = ctx.constant(Dense(TensorType(like.dtype, (size, size)), array.tobytes()))
    return ctx.expand(one, like.extents)


def inverse(ctx: GraphBuilder, x: Tensor) -> tuple[Tensor, Tensor]:
    """The inverse, and info of the factors."""
    factors, _, permutation, info = lu(ctx, x)
    return lu_solve(ctx, factors, permutation, identity(ctx, x)), info


def _sign_of_exchanges(ctx: GraphBuilder, pivots: Tensor, dtype: str) -> Tensor:
    """1 or -1: of the number of rows that were exchanged."""
    size = known(pivots.extents[-1])
    own = ctx.emit_one("iota", [], TensorType("i32", (size,)), {"start": 1, "step": 1})
    moved = ctx.emit_one("ne", [pivots, ctx.expand(own, pivots.extents)], TensorType("i1", pivots.extents))
    signs = _where(ctx, moved, -1.0, 1.0, dtype)
    return ctx.reduce("prod", signs, [signs.rank - 1], False)


def _where(ctx: GraphBuilder, condition: Tensor, x: float, y: float, dtype: str) -> Tensor:
    type = TensorType(dtype, condition.extents)
    return ctx.emit_one("where", [condition, ctx.operand(x, type), ctx.operand(y, type)], type)


def diagonal(ctx: GraphBuilder, x: Tensor, offset: int = 0) -> Tensor:
    """The diagonal of each matrix as the last dim, `offset` columns to the right of the first one (negative: rows below)."""
    if x.extents[-1] == x.extents[-2] and not isinstance(x.extents[-1], int) and offset == 0:
        return _diagonal_of_named(ctx, x)
    rows, columns = (known(e) for e in x.extents[-2:])
    count = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    lead: tuple[Dim, ...] = tuple(x.extents[:-2])
    if count == 0:
        return ctx.full(0, x.dtype, (*lead, 0))
    start = offset if offset >= 0 else -offset * columns
    flat = ctx.reshape(x, (*lead, rows * columns))
    return ctx.slice(flat, len(lead), start, start + (count - 1) * (columns + 1) + 1, count, columns + 1)


def _diagonal_of_named(ctx: GraphBuilder, x: Tensor) -> Tensor:
    """That of square matrices of a named size n: every (n + 1)-th of their elements."""
    size = x.extents[-1]
    places = ctx.emit_one("iota", [], TensorType("i64", (size,)), {"start": 0, "step": 1})
    step = ctx.expand(ctx.scalar(size + 1, "i64"), places.extents)
    places = ctx.emit_one("mul", [places, step], places.type)
    flat = ctx.reshape(x, (*x.extents[:-2], size * size))
    return ctx.emit_one("index_select", [flat, places], TensorType(x.dtype, x.extents[:-1]), {"dim": x.rank - 2})


def determinant(ctx: GraphBuilder, factors: Tensor, pivots: Tensor) -> Tensor:
    """Of a matrix's factors: the product of the diagonal, with the sign of the exchanges."""
    entries = diagonal(ctx, factors)
    product = ctx.reduce("prod", entries, [entries.rank - 1], False)
    sign = _sign_of_exchanges(ctx, pivots, factors.dtype)
    return ctx.emit_one("mul", [product, sign], product.type)


def log_determinant(ctx: GraphBuilder, factors: Tensor, pivots: Tensor) -> tuple[Tensor, Tensor]:
    """The determinant's sign, and the logarithm of its magnitude."""
    entries = diagonal(ctx, factors)
    signs = ctx.emit_one("sign", [entries], entries.type)
    sign = ctx.reduce("prod", signs, [signs.rank - 1], False)
    sign = ctx.emit_one("mul", [sign, _sign_of_exchanges(ctx, pivots, factors.dtype)], sign.type)
    logs = ctx.emit_one("log", [ctx.emit_one("abs", [entries], entries.type)], entries.type)
    return sign, ctx.reduce("sum", logs, [logs.rank - 1], False)
