# SPDX-License-Identifier: Apache-2.0
"""StableHLO's ops of complex numbers: each as ops of the two parts, and Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from jaxlib.mlir.dialects import stablehlo

from straightline.capture import fourier
from straightline.capture.builder import TensorType
from straightline.capture.graph_builder import Reject, Tensor
from straightline.capture.jax import values as v
from straightline.capture.jax.elementwise import direction_of
from straightline.capture.jax.importer import COMPLEX, CONVERTERS, Importer, Op
from straightline.capture.jax.indexing import is_replacing
from straightline.capture.jax.reduction import combination
from straightline.capture.jax.shape import iota
from straightline.capture.jax.values import Complex, Value

Parts = tuple[Value, Value]
#: Ops that do to each part what they do to real numbers.
_BY_PARTS = frozenset(
    """reshape transpose broadcast_in_dim slice concatenate reverse negate add subtract pad dynamic_slice
    dynamic_update_slice gather select optimization_barrier""".split()
)
_TAKEN = "sums, products, quotients, exp, log, sqrt, abs, sin, cos, transforms, and what moves elements"


class _Part(Op):
    """An op on one part of complex numbers."""

    def type(self, place: int = 0) -> TensorType | None:
        """The type of a part of a result."""
        type = self.operation.results[place].type
        return v.part_type(type) if v.is_complex(type) else v.type_of(type)

    def dtype(self, place: int = 0) -> str:
        """The element type of a part of a result."""
        type = self.type(place)
        assert type is not None
        return type.dtype


def convert(ctx: Importer, op: Op) -> list[Value]:
    """The results of an op that takes or gives complex numbers."""
    if op.kind in _BY_PARTS or _is_sum(op):
        parts = [CONVERTERS[op.kind](ctx, _Part(op.operation, [_part(ctx, x, i) for x in op.inputs])) for i in (0, 1)]
        pairs = zip(*(part if isinstance(part, list) else [part] for part in parts), strict=True)
        return [Complex(*pair) for pair in pairs]
    own = _FUNCTIONS.get(op.kind)
    if own is None:
        raise Reject(f"{op.kind} of complex numbers", _TAKEN)
    found = own(ctx, op)
    return [Complex(*found) if isinstance(found, tuple) else found]


COMPLEX.append(convert)


def _is_sum(op: Op) -> bool:
    """Whether an op with a region combines elements by sums, or a scatter sets them."""
    if op.kind not in ("reduce", "reduce_window", "scatter") or len(op.inputs) != (3 if op.kind == "scatter" else 2):
        return False
    return combination(op.body()) == "add" or (op.kind == "scatter" and is_replacing(op.body()))


def _part(ctx: Importer, x: Value, place: int) -> Value:
    return (x.re, x.im)[place] if isinstance(x, Complex) else x


def _pair(ctx: Importer, x: Value) -> fourier.Pair:
    """Both parts as tensors."""
    if isinstance(x, Complex):
        return ctx.tensor(x.re), ctx.tensor(x.im)
    re = ctx.tensor(x)
    return re, ctx.full(0, re.dtype, re.extents)


def _constant(ctx: Importer, op: Op) -> Parts:
    return v.complex_literal(str(op.operation), op.operation.results[0].type)


def _iota(ctx: Importer, op: Op) -> Parts:
    type = v.part_type(op.operation.results[0].type)
    return iota(ctx, type.extents, op.number("iota_dimension"), type.dtype), ctx.full(0, type.dtype, type.extents)


def _complex(ctx: Importer, op: Op) -> Parts:
    return op.inputs[0], op.inputs[1]


def _convert(ctx: Importer, op: Op) -> Parts | Value:
    given, type = op.inputs[0], op.operation.results[0].type
    if not v.is_complex(type):
        assert isinstance(given, Complex)
        return ctx.cast(ctx.tensor(given.re), v.dtype_of(type))
    part = v.part_type(type).dtype
    re, im = _pair(ctx, given)
    return ctx.cast(re, part), ctx.cast(im, part)


def _multiply(ctx: Importer, op: Op) -> Parts:
    return fourier.multiplied(ctx, _pair(ctx, op.inputs[0]), _pair(ctx, op.inputs[-1]))


def _divide(ctx: Importer, op: Op) -> Parts:
    """By a divisor whose larger part is about 1."""
    x, (c, d) = (_pair(ctx, t) for t in op.inputs)
    size = ctx.binary("maximum", ctx.unary("abs", c), ctx.unary("abs", d))
    c, d = ctx.binary("div", c, size), ctx.binary("div", d, size)
    square = ctx.binary("add", ctx.binary("mul", c, c), ctx.binary("mul", d, d))
    re, im = fourier.multiplied(ctx, x, (c, ctx.unary("neg", d)))
    return tuple(ctx.binary("div", ctx.binary("div", t, square), size) for t in (re, im))  # type: ignore[return-value]


def _size(ctx: Importer, re: Tensor, im: Tensor) -> Tensor:
    """The absolute value, without an overflow of squares."""
    a, b = ctx.unary("abs", re), ctx.unary("abs", im)
    large, small = ctx.binary("maximum", a, b), ctx.binary("minimum", a, b)
    ratio = ctx.binary("div", small, large)
    found = ctx.binary("mul", large, ctx.unary("sqrt", ctx.binary("add", ctx.binary("mul", ratio, ratio), 1.0)))
    found = ctx.where(ctx.compare("eq", large, 0), large, found)
    infinite = [ctx.compare("eq", t, math.inf) for t in (a, b)]
    return ctx.where(ctx.emit_one("logical_or", infinite, infinite[0].type), math.inf, found)


def _abs(ctx: Importer, op: Op) -> Value:
    return _size(ctx, *_pair(ctx, op.inputs[0]))


def _exp(ctx: Importer, op: Op) -> Parts:
    re, im = _pair(ctx, op.inputs[0])
    size = ctx.unary("exp", re)
    plain = ctx.compare("eq", im, 0)
    return ctx.binary("mul", size, ctx.unary("cos", im)), ctx.where(
        plain, im, ctx.binary("mul", size, ctx.unary("sin", im))
    )


def _log(ctx: Importer, op: Op) -> Parts:
    re, im = _pair(ctx, op.inputs[0])
    return ctx.unary("log", _size(ctx, re, im)), ctx.binary("atan2", im, re)


def _sqrt(ctx: Importer, op: Op) -> Parts:
    """The root whose real part is not negative: sqrt((|z| + |re|) / 2) is one part, im / 2 over it the other."""
    re, im = _pair(ctx, op.inputs[0])
    half = ctx.binary("mul", _size(ctx, re, im), 0.5)
    root = ctx.unary("sqrt", ctx.binary("add", half, ctx.binary("mul", ctx.unary("abs", re), 0.5)))
    is_zero = ctx.compare("eq", root, 0)
    other = ctx.binary("div", ctx.binary("mul", im, 0.5), ctx.where(is_zero, 1.0, root))
    right = ctx.compare("ge", re, 0)
    signed = ctx.where(ctx.compare("lt", ctx.binary("atan2", im, re), 0), ctx.unary("neg", root), root)
    return ctx.where(right, root, ctx.unary("abs", other)), ctx.where(right, other, signed)


def _compare(ctx: Importer, op: Op) -> Value:
    name = direction_of(op)
    if name not in ("eq", "ne"):
        raise Reject(f"the comparison {name} of complex numbers", "eq and ne")
    (a, b), (c, d) = (_pair(ctx, x) for x in op.inputs)
    both = [ctx.compare(name, a, c), ctx.compare(name, b, d)]
    return ctx.emit_one("logical_and" if name == "eq" else "logical_or", both, both[0].type)


def _four_products(ctx: Importer, op: Op) -> Parts:
    x, y = (_pair(ctx, t) for t in op.inputs)

    def product(i: int, j: int) -> Tensor:
        return CONVERTERS[op.kind](ctx, _Part(op.operation, [x[i], y[j]]))

    return ctx.binary("sub", product(0, 0), product(1, 1)), ctx.binary("add", product(0, 1), product(1, 0))


def _fft(ctx: Importer, op: Op) -> Parts | Value:
    kind = stablehlo.FftTypeAttr(op.attributes["fft_type"]).value
    sizes = op.numbers("fft_length")
    re, im = _pair(ctx, op.inputs[0])
    if 0 in sizes or 0 in re.extents:
        raise Reject(f"a Fourier transform of {re.type}", "arrays with elements")
    dims = list(range(re.rank - len(sizes), re.rank))
    inverse = kind in ("IFFT", "IRFFT")
    if kind == "RFFT":
        a, b = fourier.rows(ctx, ctx.literal, re, None, -1)
        count = sizes[-1] // 2 + 1
        pair = tuple(ctx.slice_to(t, dims[-1], 0, count) for t in (a, b))
        return _along(ctx, (pair[0], pair[1]), dims[:-1], -1)
    if kind == "IRFFT":
        a, b = _along(ctx, (re, im), dims[:-1], 1)
        return _scaled(ctx, fourier.rows_to_real(ctx, ctx.literal, a, b, sizes[-1]), sizes)
    found = _along(ctx, (re, im), dims, 1 if inverse else -1)
    return (_scaled(ctx, found[0], sizes), _scaled(ctx, found[1], sizes)) if inverse else found


def _along(ctx: Importer, pair: fourier.Pair, dims: Sequence[int], sign: int) -> fourier.Pair:
    """Transforms along dims."""
    for dim in reversed(dims):
        rank = pair[0].rank
        order = [*(d for d in range(rank) if d != dim), dim]
        back = [order.index(d) for d in range(rank)]
        a, b = fourier.rows(ctx, ctx.literal, *(ctx.moved(t, order) for t in pair), sign)
        pair = ctx.moved(a, back), ctx.moved(b, back)
    return pair


def _scaled(ctx: Importer, x: Tensor, sizes: Sequence[int]) -> Tensor:
    return ctx.binary("mul", x, 1 / math.prod(sizes))


def _real(ctx: Importer, op: Op) -> Value:
    return _part(ctx, op.inputs[0], 0)


def _imaginary(ctx: Importer, op: Op) -> Value:
    return _part(ctx, op.inputs[0], 1)


def _conjugate(ctx: Importer, op: Op) -> Parts:
    re, im = _pair(ctx, op.inputs[0])
    return re, ctx.unary("neg", im)


def _cosine(ctx: Importer, op: Op) -> Parts:
    """Cos a cosh b - i sin a sinh b; the sine has sin a cosh b + i cos a sinh b."""
    a, b = _pair(ctx, op.inputs[0])
    c, s = ctx.unary("cos", a), ctx.unary("sin", a)
    grown, shrunk = ctx.unary("expm1", b), ctx.unary("expm1", ctx.unary("neg", b))
    sinh = ctx.binary("mul", ctx.binary("sub", grown, shrunk), 0.5)
    cosh = ctx.binary("add", ctx.binary("mul", ctx.binary("add", grown, shrunk), 0.5), 1.0)
    if op.kind == "sine":
        return ctx.binary("mul", s, cosh), ctx.binary("mul", c, sinh)
    return ctx.binary("mul", c, cosh), ctx.unary("neg", ctx.binary("mul", s, sinh))


_FUNCTIONS: dict[str, Callable[[Importer, Op], Parts | Value]] = {
    "constant": _constant, "complex": _complex, "convert": _convert, "multiply": _multiply, "divide": _divide, "abs": _abs,
    "exponential": _exp, "log": _log, "sqrt": _sqrt, "compare": _compare, "dot_general": _four_products, "fft": _fft,
    "convolution": _four_products, "real": _real, "imag": _imaginary, "chlo.conj": _conjugate, "chlo.square": _multiply,
    "cosine": _cosine, "sine": _cosine, "iota": _iota,
}  # fmt: skip
for _name in ("complex", "real", "imag", "fft", "chlo.conj"):
    CONVERTERS[_name] = convert
