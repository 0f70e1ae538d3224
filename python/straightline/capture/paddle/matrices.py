# SPDX-License-Identifier: Apache-2.0
"""Paddle's ops over matrices beyond products: sums by an equation, diagonals, powers, factors and systems."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from straightline.capture import linalg
from straightline.capture.builder import TensorType
from straightline.capture.einsum import einsum
from straightline.capture.graph_builder import FLOATS, GraphBuilder, Reject, Tensor, known
from straightline.capture.paddle import values as v
from straightline.capture.paddle.importer import Importer, Node, converter, fold
from straightline.capture.paddle.linear import product
from straightline.capture.paddle.values import Known


def _product(ctx: GraphBuilder, x: Tensor, y: Tensor) -> Tensor:
    assert isinstance(ctx, Importer)
    return product(ctx, x, y)


@converter("einsum", takes="any equation of floats", refuses="integers")
def _einsum(ctx: Importer, node: Node) -> list[Tensor | None]:
    operands = ctx.tensors(node.inputs[0])
    if operands[0].dtype not in FLOATS:
        raise Reject(f"einsum of {operands[0].dtype}", "floats")
    found = einsum(ctx, str(node.attribute("equation")), operands, _product)
    return [found, *[None] * (len(node.op.results) - 1)]


@converter("bilinear", takes="floats, with and without bias")
def _bilinear(ctx: Importer, node: Node) -> Tensor:
    x, y, weight = (ctx.tensor(t) for t in node.inputs[:3])
    found = einsum(ctx, "bi,oij,bj->bo", [x, weight, y], _product)
    bias = node.input(3)
    return found if bias is None else ctx.binary("add", found, ctx.tensor(bias))


@converter("multi_dot", takes="two matrices or more; multiplied from the left")
def _multi_dot(ctx: Importer, node: Node) -> Tensor:
    return reduce(lambda x, y: product(ctx, x, y), ctx.tensors(node.inputs[0]))


@converter("matrix_power", takes="any power; negative ones of float32 and float64")
def _matrix_power(ctx: Importer, node: Node) -> Tensor:
    x, n = ctx.tensor(node.inputs[0]), int(node.attribute("n"))
    if n < 0:
        x, info = linalg.inverse(ctx, _square(node, x))
        linalg.check(ctx, info, "matrix_power: the matrix is singular")
        n = -n
    found = None
    while n:
        if n & 1:
            found = x if found is None else product(ctx, found, x)
        n >>= 1
        x = product(ctx, x, x) if n else x
    if found is None:
        size = known(x.extents[-1])
        found = ctx.expand(ctx.literal(np.eye(size), x.dtype), x.extents)
    return found


@converter("kron", takes="floats and integers")
def _kron(ctx: Importer, node: Node) -> Tensor:
    x, y = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1])
    rank = max(x.rank, y.rank)
    left, right = ((1,) * (rank - t.rank) + tuple(t.extents) for t in (x, y))
    x = ctx.reshape(x, [size for e in left for size in (e, 1)])
    y = ctx.reshape(y, [size for e in right for size in (1, e)])
    return ctx.reshape(ctx.binary("mul", x, y), [a * b for a, b in zip(left, right)])


@converter("cross", takes="a constant axis, or the first of size 3")
def _cross(ctx: Importer, node: Node) -> Tensor:
    x, y, axis = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1]), int(node.attribute("axis", 9))
    dim = next((d for d, e in enumerate(x.extents) if e == 3), x.rank) if axis == 9 else ctx.axis(axis, x.rank)
    if dim == x.rank or x.extents[dim] != 3:
        raise Reject(f"a cross product of {list(x.extents)} along axis {dim}", "a dim of size 3")

    def turned(t: Tensor, order: list[int]) -> Tensor:
        return ctx.emit_one("index_select", [t, ctx.literal(np.asarray(order), "i64")], t.type, {"dim": dim})

    after, before = [1, 2, 0], [2, 0, 1]
    left = ctx.binary("mul", turned(x, after), turned(y, before))
    return ctx.binary("sub", left, ctx.binary("mul", turned(x, before), turned(y, after)))


# Diagonals ------------------------------------------------------------------------------------------------------------


def _diagonal_of(ctx: Importer, node: Node) -> Tensor:
    """The diagonal of two dims, as the last one."""
    x, offset = ctx.tensor(node.inputs[0]), int(node.attribute("offset", 0))
    first, second = (ctx.axis(node.attribute(name), x.rank) for name in ("axis1", "axis2"))
    x = ctx.permute(x, [*(d for d in range(x.rank) if d not in (first, second)), first, second])
    return linalg.diagonal(ctx, x, offset)


@converter("diagonal", takes="any two dims, any offset")
def _diagonal(ctx: Importer, node: Node) -> Tensor:
    return _diagonal_of(ctx, node)


@converter("trace", takes="any two dims, any offset")
def _trace(ctx: Importer, node: Node) -> Tensor:
    found = _diagonal_of(ctx, node)
    return ctx.reduce("sum", found, [found.rank - 1], False)


def spread(ctx: Importer, x: Tensor, offset: int, padding: float = 0.0) -> Tensor:
    """Matrices whose diagonal, `offset` columns to the right, is the last dim; the rest is a padding."""
    size = known(x.extents[-1]) + abs(offset)
    row = ctx.padded(x, [(max(offset, 0), max(-offset, 0))])  # by column
    wide = ctx.expand(ctx.reshape(row, (*x.extents[:-1], 1, size)), (*x.extents[:-1], size, size))
    places = np.arange(size)
    return ctx.where(ctx.literal(places[:, None] + offset == places[None], "i1"), wide, padding)


@converter("diag_embed", takes="any two dims, any offset")
def _diag_embed(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    found = spread(ctx, x, int(node.attribute("offset", 0)))
    first, second = (ctx.axis(node.attribute(name), found.rank) for name in ("dim1", "dim2"))
    order: list[int] = [-1] * found.rank
    order[first], order[second] = found.rank - 2, found.rank - 1
    rest = iter(range(found.rank - 2))
    return ctx.permute(found, [next(rest) if d < 0 else d for d in order])


@converter("diag", takes="a vector or a matrix, any offset; padding of a vector's")
def _diag(ctx: Importer, node: Node) -> Tensor:
    x, offset = ctx.tensor(node.inputs[0]), int(node.attribute("offset", 0))
    if x.rank == 1:
        return spread(ctx, x, offset, float(node.attribute("padding_value", 0.0)))
    return linalg.diagonal(ctx, x, offset)


@fold("tril_indices", "triu_indices")
def _fold_triangle(node: Node) -> Known:
    rows = int(node.attribute("rows", node.attribute("row", 0)))
    columns = int(node.attribute("cols", node.attribute("col", 0)))
    make = np.tril_indices if node.op.short == "tril_indices" else np.triu_indices
    found = make(rows, int(node.attribute("offset", 0)), columns)
    return v.known(np.stack(found), node.op.types[0].dtype)  # type: ignore[union-attr]


# Rows of other tensors ------------------------------------------------------------------------------------------------


@converter("multiplex", takes="two tensors or more")
def _multiplex(ctx: Importer, node: Node) -> Tensor:
    tensors, index = ctx.tensors(node.inputs[0]), ctx.tensor(node.inputs[1], "i64")
    shape = (index.extents[0], *[1] * (tensors[0].rank - 1))
    index, found = ctx.reshape(index, shape), tensors[0]
    for place, other in enumerate(tensors[1:], 1):
        found = ctx.where(ctx.compare("eq", index, place), other, found)
    return found


@converter("sequence_mask", takes="a constant length", refuses="a length that a call computes")
def _sequence_mask(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0], "i64")
    (length,) = ctx.numbers(node.inputs[1], "a length of masks")
    if length < 0:
        raise Reject("sequence_mask as long as the longest, which a call computes", "maxlen=")
    places = ctx.emit_one("iota", [], TensorType("i64", (length,)), {"start": 0, "step": 1})
    found = ctx.compare("lt", places, ctx.reshape(x, (*x.extents, 1)))
    return ctx.cast(found, node.op.types[0].dtype)  # type: ignore[union-attr]


@converter("searchsorted", takes="one row, or a row for each row of values")
def _searchsorted(ctx: Importer, node: Node) -> Tensor:
    """How many of a row are smaller (`right`: or equal)."""
    row, x = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1])
    if row.dtype != x.dtype:
        dtype = "f64" if row.dtype in FLOATS or x.dtype in FLOATS else "i64"
        row, x = ctx.cast(row, dtype), ctx.cast(x, dtype)
    lead = row.extents[:-1] if row.rank > 1 else (1,) * (x.rank - 1)
    wide = ctx.reshape(row, (*lead, *[1] * (x.rank - len(lead)), row.extents[-1]))
    above = ctx.compare("gt" if node.attribute("right", False) else "ge", wide, ctx.reshape(x, (*x.extents, 1)))
    below = ctx.emit_one("logical_not", [above], above.type)
    dtype = "i32" if node.attribute("out_int32", False) else "i64"
    return ctx.reduce("sum", ctx.cast(below, dtype), [below.rank - 1], False)


# Factors and systems --------------------------------------------------------------------------------------------------


def _square(node: Node, x: Tensor) -> Tensor:
    return linalg.matrices(node.op.short, x)


@converter("cholesky", takes="float32 and float64, either triangle")
def _cholesky(ctx: Importer, node: Node) -> Tensor:
    factor, info = linalg.cholesky(ctx, _square(node, ctx.tensor(node.inputs[0])), bool(node.attribute("upper", False)))
    linalg.check(ctx, info, "cholesky: the matrix is not positive definite")
    return factor


@converter("inverse", takes="float32 and float64")
def _inverse(ctx: Importer, node: Node) -> Tensor:
    found, info = linalg.inverse(ctx, _square(node, ctx.tensor(node.inputs[0])))
    linalg.check(ctx, info, "inverse: the matrix is singular")
    return found


@converter("qr", takes="float32 and float64, every mode")
def _qr(ctx: Importer, node: Node) -> list[Tensor | None]:
    x, mode = ctx.tensor(node.inputs[0]), str(node.attribute("mode", "reduced"))
    x = linalg.matrices("qr", x, square=False)
    return list(linalg.qr(ctx, x, mode == "complete", mode != "r"))


@converter("slogdet", takes="float32 and float64")
def _slogdet(ctx: Importer, node: Node) -> Tensor:
    """Signs before logarithms, in a dim of their own."""
    factors, pivots, _, _ = linalg.lu(ctx, _square(node, ctx.tensor(node.inputs[0])))
    parts = [ctx.reshape(t, (1, *t.extents)) for t in linalg.log_determinant(ctx, factors, pivots)]
    return ctx.cat(parts, 0, TensorType(factors.dtype, (2, *parts[0].extents[1:])))


@converter("lu", takes="square float32 and float64, with pivots", refuses="pivot=False")
def _lu(ctx: Importer, node: Node) -> list[Tensor | None]:
    if not node.attribute("pivot", True):
        raise Reject("lu without pivots", "pivot=True")
    factors, pivots, _, info = linalg.lu(ctx, _square(node, ctx.tensor(node.inputs[0])))
    return [factors, pivots, info]


@converter("det", takes="float32 and float64")
def _det(ctx: Importer, node: Node) -> Tensor:
    factors, pivots, _, _ = linalg.lu(ctx, _square(node, ctx.tensor(node.inputs[0])))
    return linalg.determinant(ctx, factors, pivots)


def _system(ctx: Importer, node: Node, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, bool]:
    """Both operands with the same first dims, and whether the right side was a vector."""
    a = _square(node, a)
    vector = b.rank == a.rank - 1 and b.rank == 1
    b = ctx.reshape(b, (*b.extents, 1)) if vector else b
    lead = ctx.common(a.extents[:-2], b.extents[:-2])
    return ctx.expand(a, (*lead, *a.extents[-2:])), ctx.expand(b, (*lead, *b.extents[-2:])), vector


@converter("solve", takes="float32 and float64, broadcast")
def _solve(ctx: Importer, node: Node) -> Tensor:
    a, b, vector = _system(ctx, node, ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1]))
    factors, _, permutation, info = linalg.lu(ctx, a)
    linalg.check(ctx, info, "solve: the matrix is singular")
    found = linalg.lu_solve(ctx, factors, permutation, b)
    return ctx.reshape(found, found.extents[:-1]) if vector else found


@converter("triangular_solve", takes="float32 and float64, broadcast")
def _triangular_solve(ctx: Importer, node: Node) -> Tensor:
    a, b, _ = _system(ctx, node, ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1]))
    return linalg.triangular(
        ctx, a, b, upper=bool(node.attribute("upper", True)), transpose=bool(node.attribute("transpose", False)),
        unit=bool(node.attribute("unitriangular", False)),
    )  # fmt: skip


@converter("cholesky_solve", takes="float32 and float64, broadcast")
def _cholesky_solve(ctx: Importer, node: Node) -> Tensor:
    factor, b, _ = _system(ctx, node, ctx.tensor(node.inputs[1]), ctx.tensor(node.inputs[0]))
    return linalg.cholesky_solve(ctx, factor, b, bool(node.attribute("upper", False)))


# Singular values and eigenvalues --------------------------------------------------------------------------------------


def _singular(ctx: Importer, node: Node, full: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    x = linalg.matrices(node.op.short, ctx.tensor(node.inputs[0]), square=False)
    u, values, vh, info = linalg.svd(ctx, x, full)
    linalg.check(ctx, info, f"{node.op.short}: a matrix has an element that is not finite")
    return u, values, vh


@converter("svd", takes="float32 and float64, every form; vectors of either sign")
def _svd(ctx: Importer, node: Node) -> list[Tensor | None]:
    return list(_singular(ctx, node, bool(node.attribute("full_matrices", False))))


@converter("svdvals", takes="float32 and float64")
def _svdvals(ctx: Importer, node: Node) -> Tensor:
    return _singular(ctx, node)[1]


def _symmetric(ctx: Importer, node: Node) -> tuple[Tensor, Tensor]:
    x = _square(node, ctx.tensor(node.inputs[0]))
    upper = str(node.attribute("UPLO", node.attribute("uplo", "L"))) == "U"
    values, vectors, info = linalg.eigh(ctx, x, upper)
    linalg.check(ctx, info, f"{node.op.short}: a matrix has an element that is not finite")
    return values, vectors


@converter("eigh", "eigvalsh", takes="float32 and float64, either triangle; vectors of either sign")
def _eigh(ctx: Importer, node: Node) -> list[Tensor | None]:
    return list(_symmetric(ctx, node))


def _rank(ctx: Importer, node: Node, limit: Callable[[Tensor], Tensor]) -> Tensor:
    """How many singular values are above a limit, which is computed of the largest ones [..]."""
    if node.attribute("hermitian", False):
        values = _symmetric(ctx, node)[0]
        values = ctx.emit_one("abs", [values], values.type)
    else:
        values = _singular(ctx, node)[1]
    last = values.rank - 1
    most = ctx.reduce("amax", values, [last], False)
    bound = limit(most)
    bound = ctx.reshape(bound, (*bound.extents, 1)) if bound.rank else bound
    return ctx.reduce("sum", ctx.cast(ctx.compare("gt", values, bound), "i64"), [last], False)


def _usual_limit(node: Node, x: Tensor) -> float:
    """Of the largest singular value."""
    return max(known(x.extents[-2]), known(x.extents[-1])) * float(np.finfo(v.numpy_dtype(x.dtype)).eps)


@converter("matrix_rank", takes="float32 and float64, hermitian ones too")
def _matrix_rank(ctx: Importer, node: Node) -> Tensor:
    x, tol = ctx.tensor(node.inputs[0]), float(node.attribute("tol", 0.0))
    if node.attribute("use_default_tol", True):
        return _rank(ctx, node, lambda most: ctx.binary("mul", most, _usual_limit(node, x)))
    return _rank(ctx, node, lambda most: ctx.full(tol, x.dtype, ()))


@converter("matrix_rank_atol_rtol", takes="float32 and float64, hermitian ones too")
def _matrix_rank_of_limits(ctx: Importer, node: Node) -> Tensor:
    """The larger of an absolute limit and one relative to the largest singular value; both are 0-d or have the batch's sizes."""
    x = ctx.tensor(node.inputs[0])
    absolute = ctx.cast(ctx.tensor(node.inputs[1]), x.dtype)
    other = node.input(2)

    def limit(most: Tensor) -> Tensor:
        usual = ctx.full(_usual_limit(node, x), x.dtype, ())
        if other is None:  # the usual one where the absolute one is 0
            part = ctx.where(ctx.compare("gt", absolute, 0.0), 0.0, usual)
        else:
            part = ctx.cast(ctx.tensor(other), x.dtype)
        return ctx.binary("maximum", absolute, ctx.binary("mul", most, part))

    return _rank(ctx, node, limit)


@converter("matrix_rank_tol", takes="float32 and float64, hermitian ones too")
def _matrix_rank_of_tensor(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    absolute = ctx.cast(ctx.tensor(node.inputs[1]), x.dtype)
    part = _usual_limit(node, x) if node.attribute("use_default_tol", True) else 0.0
    return _rank(ctx, node, lambda most: ctx.binary("maximum", absolute, ctx.binary("mul", most, part)))


@converter("lstsq", takes="float32 and float64, every driver; solution, rank, singular values", refuses="residuals")
def _lstsq(ctx: Importer, node: Node) -> list[Tensor | None]:
    """The shortest solution, by singular values above rcond times the largest one."""
    b = ctx.tensor(node.inputs[1])
    rcond = float(ctx.number(node.inputs[2], "rcond"))
    u, values, vh = _singular(ctx, node)
    most = ctx.slice(values, values.rank - 1, 0, 1, 1)
    kept = ctx.compare("gt", values, ctx.binary("mul", most, rcond))
    inverse = ctx.where(kept, ctx.emit_one("reciprocal", [values], values.type), 0.0)
    parts = product(ctx, linalg.turned(ctx, u), b)
    parts = ctx.binary("mul", parts, ctx.reshape(inverse, (*inverse.extents, 1)))
    rank = ctx.reduce("sum", ctx.cast(kept, "i32"), [kept.rank - 1], False)
    return [product(ctx, linalg.turned(ctx, vh), parts), None, rank, values]
