# SPDX-License-Identifier: Apache-2.0
"""Conjugates, and Fourier transforms of a known size as products with matrices of few numbers.

A transform of n = n1 * n2 numbers is n2 transforms of n1, a factor for each number, and n1 transforms of n2 (Cooley and Tukey,
1965). One of at most `_MOST` numbers is a product: both parts of a complex number are neighbours in a row, so that one real
matrix does it, and the result has its parts side by side again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from straightline.capture import fourier
from straightline.capture.builder import Dim, TensorType
from straightline.capture.extents import product_of
from straightline.capture.graph_builder import Reject, Tensor, known, wrap
from straightline.capture.torch.importer import TAKES_COMPLEX, Arguments, Complex, Importer, converter, torch_dtype
from straightline.capture.torch.literals import evaluated, literal

#: Most numbers of one product.
_MOST = 32
#: Transforms of more numbers in all are torch's, which are faster then (one thread of a CPU: 64 rows of 64 numbers take 15 us
#: here and 8 us in torch, one row of 512 takes 3 and 4.5), unless each is a short product.
_LARGEST = 1024
_SHORT = 16


@converter("aten._conj.default")
def _conj(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    x = a.self
    if not isinstance(x, Complex):
        raise Reject("its argument is not complex")
    signs = literal(ctx, evaluated(torch.tensor, [1.0, -1.0]), x.dtype)
    value = ctx.emit_one("mul", [x, ctx.expand(signs, x.extents)], x.type)
    return Complex(value.value, value.type, x.complex_dtype)


@converter("aten._neg_view.default")
def _neg_view(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    """The imaginary part of a conjugate, which torch negates when it is read."""
    return ctx.emit_one("neg", [a.self], a.self.type)


# Matrices -------------------------------------------------------------------------------------------------------------


def _factors(rows: int, columns: int, size: int, sign: int) -> torch.Tensor:
    """Complex factors, [rows, columns, 2]."""
    angles = torch.from_numpy(fourier.angles(rows, columns, size, sign))
    return torch.stack([angles.cos(), angles.sin()], -1)


def _of_complex(size: int, sign: int) -> torch.Tensor:
    """[results, 2, numbers, 2]: each part of a result of each part of a number."""
    re, im = _factors(size, size, size, sign).unbind(-1)
    return torch.stack([torch.stack([re, -im], -1), torch.stack([im, re], -1)], 1)


def _of_real(size: int, count: int, sign: int) -> torch.Tensor:
    """[results, 2, numbers]."""
    return _factors(count, size, size, sign).transpose(1, 2)


def _to_real(size: int, count: int) -> torch.Tensor:
    """[size, numbers, 2]: `count` numbers stand for themselves and their conjugates; a number that is its own is real."""
    re, im = _factors(size, count, size, 1).unbind(-1)
    weights = torch.full((count,), 2.0, dtype=torch.float64)
    weights[0] = 1
    if size % 2 == 0:
        weights[-1] = 1
        im[:, -1] = 0
    im[:, 0] = 0
    return torch.stack([re * weights, -im * weights], -1)


def _both_parts(count: int, size: int) -> torch.Tensor:
    """[count, 2]: 0 for the imaginary parts that count for nothing, those of numbers that are their own conjugate."""
    parts = torch.ones((count, 2), dtype=torch.float64)
    parts[0, 1] = 0
    if size % 2 == 0:
        parts[-1, 1] = 0
    return parts


def _split(size: int) -> tuple[int, int]:
    """Two factors of a size, the first at most `_MOST` and as near to the root as there is one."""
    for first in range(min(math.isqrt(size), _MOST), 1, -1):
        if size % first == 0 and _is_made_of_small(size // first):
            return first, size // first
    raise Reject(f"a Fourier transform of {size} numbers", f"a size of factors up to {_MOST}")


def _is_made_of_small(size: int) -> bool:
    if size <= _MOST:
        return True
    return any(size % f == 0 and _is_made_of_small(size // f) for f in range(2, _MOST + 1))


def _checked(size: int, outer: Dim) -> int:
    """A size that is transformed here, of which there are `outer`."""
    count = outer * size if isinstance(outer, int) else _LARGEST + 1
    if size < 1 or not _is_made_of_small(size) or (size > _SHORT and count > _LARGEST):
        raise Reject(f"a Fourier transform of {size} numbers, {outer} times", f"at most {_LARGEST} numbers in all")
    return size


# Transforms of rows: [rows, size, 2] -> [rows, size, 2], [rows, size] -> [rows, count, 2] and back -------------------


def _times(ctx: Importer, x: Tensor, matrix: torch.Tensor, columns: int) -> Tensor:
    """Rows of `columns` numbers times a matrix [results, columns]; the result has what is in front of them."""
    dims = [*x.extents]
    count = 1
    while count < columns:
        count *= known(dims.pop())
    results = matrix.numel() // columns
    weight = literal(ctx, evaluated(matrix.reshape, results, columns), x.dtype)
    rows = ctx.reshape(x, (product_of(tuple(dims)), columns))
    product = ctx.emit_one("linear", [rows, weight, None], TensorType(x.dtype, (rows.extents[0], results)))
    return ctx.reshape(product, (*dims, results))


def _turned(ctx: Importer, x: Tensor, factors: torch.Tensor) -> Tensor:
    """Complex numbers [.., n, m, 2] times factors [n, m, 2]."""
    re, im = (ctx.select(x, x.rank - 1, part) for part in (0, 1))
    c, s = (ctx.expand(literal(ctx, evaluated(factors.select, -1, part), x.dtype), re.extents) for part in (0, 1))

    def of(name: str, a: Tensor, b: Tensor) -> Tensor:
        return ctx.emit_one(name, [a, b], re.type)

    parts = [of("sub", of("mul", re, c), of("mul", im, s)), of("add", of("mul", re, s), of("mul", im, c))]
    sides = (*re.extents, 1)
    return ctx.cat([ctx.reshape(part, sides) for part in parts], len(sides) - 1, x.type)


def _rows_of_complex(ctx: Importer, x: Tensor, sign: int) -> Tensor:
    rows, size = x.extents[0], known(x.extents[1])
    if size <= _MOST:
        return ctx.reshape(_times(ctx, x, evaluated(_of_complex, size, sign), 2 * size), (rows, size, 2))
    first, second = _split(size)
    columns = ctx.permute(ctx.reshape(x, (rows, first, second, 2)), (0, 2, 1, 3))
    inner = ctx.reshape(_times(ctx, columns, evaluated(_of_complex, first, sign), 2 * first), (rows, second, first, 2))
    return _joined(ctx, inner, sign)


def _joined(ctx: Importer, inner: Tensor, sign: int) -> Tensor:
    """The transform from those of its columns, [rows, second, first, 2]."""
    rows, second, first = inner.extents[0], known(inner.extents[1]), known(inner.extents[2])
    turned = _turned(ctx, inner, evaluated(_factors, second, first, first * second, sign))
    lines = ctx.reshape(ctx.permute(turned, (0, 2, 1, 3)), (product_of((rows, first)), second, 2))
    outer = ctx.reshape(_rows_of_complex(ctx, lines, sign), (rows, first, second, 2))
    return ctx.reshape(ctx.permute(outer, (0, 2, 1, 3)), (rows, first * second, 2))


def _rows_of_real(ctx: Importer, x: Tensor, count: int, sign: int) -> Tensor:
    rows, size = x.extents[0], known(x.extents[1])
    if size <= _MOST:
        return ctx.reshape(_times(ctx, x, evaluated(_of_real, size, count, sign), size), (rows, count, 2))
    first, second = _split(size)
    columns = ctx.permute(ctx.reshape(x, (rows, first, second)), (0, 2, 1))
    inner = _times(ctx, columns, evaluated(_of_real, first, first, sign), first)
    whole = _joined(ctx, ctx.reshape(inner, (rows, second, first, 2)), sign)
    return ctx.slice(whole, 1, 0, count, count)


def _rows_to_real(ctx: Importer, x: Tensor, size: int) -> Tensor:
    rows, count = x.extents[0], known(x.extents[1])
    if size <= _MOST:
        return _times(ctx, x, evaluated(_to_real, size, count), 2 * count)
    # The numbers and their conjugates; those that are their own conjugate are real.
    own = evaluated(_both_parts, count, size)
    left = ctx.emit_one("mul", [x, ctx.expand(literal(ctx, own, x.dtype), x.extents)], x.type)
    others = size - count
    part = ctx.slice(left, 1, 1, 1 + others, others)
    flipped = ctx.emit_one("flip", [part], part.type, {"dims": [1]})
    signs = literal(ctx, evaluated(torch.tensor, [1.0, -1.0]), x.dtype)
    right = ctx.emit_one("mul", [flipped, ctx.expand(signs, flipped.extents)], flipped.type)
    both = ctx.cat([left, right], 1, TensorType(x.dtype, (rows, size, 2)))
    return ctx.select(_rows_of_complex(ctx, both, 1), 2, 0)


# ATen's ops -----------------------------------------------------------------------------------------------------------


def _scale(sizes: Sequence[int], normalization: int) -> float:
    count = math.prod(sizes)
    return (1.0, 1 / math.sqrt(count), 1 / count)[normalization]


def _scaled(ctx: Importer, x: Tensor, scale: float) -> Tensor:
    return x if scale == 1 else ctx.emit_one("mul", [x, ctx.operand(scale, x.type)], x.type)


def _last(ctx: Importer, x: Tensor, dim: int, is_complex: bool) -> tuple[Tensor, list[int]]:
    """Rows along a dim, and the order of dims behind it."""
    rank = x.rank - is_complex
    order = [*(d for d in range(rank) if d != dim), dim]
    whole = [*order, rank] if is_complex else order
    moved = x if whole == list(range(x.rank)) else ctx.permute(x, whole)
    outer = product_of(tuple(x.extents[d] for d in order[:-1]))
    return ctx.reshape(moved, (outer, x.extents[dim], *((2,) if is_complex else ()))), order


def _back(ctx: Importer, rows: Tensor, x: Tensor, order: list[int], is_complex: bool) -> Tensor:
    """What `_last` did, undone."""
    size = rows.extents[1]
    parts = (2,) if is_complex else ()
    moved = ctx.reshape(rows, (*(x.extents[d] for d in order[:-1]), size, *parts))
    inverse = [order.index(d) for d in range(len(order))] + ([len(order)] if is_complex else [])
    return moved if inverse == list(range(moved.rank)) else ctx.permute(moved, inverse)


def _along(ctx: Importer, x: Tensor, dims: Sequence[int], sign: int) -> Tensor:
    """Complex transforms along dims."""
    for dim in dims:
        rows, order = _last(ctx, x, dim, True)
        x = _back(ctx, _rows_of_complex(ctx, rows, sign), x, order, True)
    return x


def _sizes(x: Tensor, dims: Sequence[int], is_complex: bool) -> list[int]:
    """The sizes of dims, each of which is transformed here."""
    extents = x.extents[: x.rank - is_complex]
    return [_checked(known(extents[d]), product_of(tuple(extents[:d] + extents[d + 1 :]))) for d in dims]


def _as_complex(x: Tensor, dtype: torch.dtype) -> Tensor:
    if torch_dtype(x.dtype) not in (torch.float32, torch.float64):
        raise Reject(f"a Fourier transform of {x.dtype}", "float32 or float64")
    return Complex(x.value, x.type, dtype)


@converter("aten._fft_c2c.default")
def _c2c(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    x = Tensor(a.self.value, a.self.type)
    dims = [wrap(dim, x.rank - 1) for dim in a.dim]
    scale = _scale(_sizes(x, dims, True), a.normalization)
    return _as_complex(_scaled(ctx, _along(ctx, x, dims, -1 if a.forward else 1), scale), a.self.complex_dtype)


@converter("aten._fft_r2c.default")
def _r2c(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    x = a.self
    ctx.parts_type(node.meta["val"])  # of a rank that complex numbers have
    dims = [wrap(dim, x.rank) for dim in a.dim]
    sizes = _sizes(x, dims, False)
    rows, order = _last(ctx, x, dims[-1], False)
    count = sizes[-1] // 2 + 1 if a.onesided else sizes[-1]
    numbers = _back(ctx, _rows_of_real(ctx, rows, count, -1), x, order, True)
    found = _scaled(ctx, _along(ctx, numbers, dims[:-1], -1), _scale(sizes, a.normalization))
    return _as_complex(found, node.meta["val"].dtype)


@converter("aten._fft_c2r.default")
def _c2r(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    x = Tensor(a.self.value, a.self.type)
    dims = [wrap(dim, x.rank - 1) for dim in a.dim]
    others = tuple(e for d, e in enumerate(x.extents[:-1]) if d != dims[-1])
    size = _checked(known(a.last_dim_size), product_of(others))
    sizes = [*_sizes(x, dims[:-1], True), size]
    x = _along(ctx, x, dims[:-1], 1)
    rows, order = _last(ctx, x, dims[-1], True)
    count = size // 2 + 1
    rows = ctx.slice(rows, 1, 0, count, count)
    found = _back(ctx, _rows_to_real(ctx, rows, size), x, order, False)
    return _scaled(ctx, found, _scale(sizes, a.normalization))


TAKES_COMPLEX.update(f"aten.{name}.default" for name in ("_conj", "_fft_c2c", "_fft_c2r"))
