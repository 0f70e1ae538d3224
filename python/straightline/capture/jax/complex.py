# SPDX-License-Identifier: Apache-2.0
"""StableHLO's ops of complex numbers: each as ops of the two parts, and Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from jaxlib.mlir.dialects import stablehlo

from straightline.capture import complex_numbers as numbers
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
    dynamic_update_slice gather select optimization_barrier dynamic_broadcast_in_dim dynamic_reshape dynamic_pad
    dynamic_gather real_dynamic_slice""".split()
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
        type = self.operation.results[place].type
        return v.part_dtype(type) if v.is_complex(type) else v.dtype_of(type)


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
    assert type is not None  # a dynamic one is another op
    return iota(ctx, type.extents, op.number("iota_dimension"), type.dtype), ctx.full(0, type.dtype, type.extents)


def _complex(ctx: Importer, op: Op) -> Parts:
    return op.inputs[0], op.inputs[1]


def _convert(ctx: Importer, op: Op) -> Parts | Value:
    given, type = op.inputs[0], op.operation.results[0].type
    if not v.is_complex(type):
        assert isinstance(given, Complex)
        return ctx.cast(ctx.tensor(given.re), v.dtype_of(type))
    part = v.part_dtype(type)
    re, im = _pair(ctx, given)
    return ctx.cast(re, part), ctx.cast(im, part)


def _of_pairs(function: Callable[..., Any]) -> Callable[[Importer, Op], Any]:
    """A function of complex numbers, for an op of such operands."""

    def convert(ctx: Importer, op: Op) -> Any:
        return function(ctx, *(_pair(ctx, x) for x in op.inputs))

    return convert


def _square(ctx: Importer, op: Op) -> Parts:
    z = _pair(ctx, op.inputs[0])
    return numbers.multiplied(ctx, z, z)


def _compare(ctx: Importer, op: Op) -> Value:
    name = direction_of(op)
    if name not in ("eq", "ne"):
        raise Reject(f"the comparison {name} of complex numbers", "eq and ne")
    return numbers.equal(ctx, name, *(_pair(ctx, x) for x in op.inputs))


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
    return fourier.along(ctx, ctx.literal, ctx.moved, pair, dims, sign)


def _scaled(ctx: Importer, x: Tensor, sizes: Sequence[int]) -> Tensor:
    return ctx.binary("mul", x, 1 / math.prod(sizes))


def _size(ctx: Importer, op: Op) -> Value:
    found: Value = CONVERTERS[op.kind](ctx, Op(op.operation, [_part(ctx, x, 0) for x in op.inputs]))
    return found


def _real(ctx: Importer, op: Op) -> Value:
    return _part(ctx, op.inputs[0], 0)


def _imaginary(ctx: Importer, op: Op) -> Value:
    return _part(ctx, op.inputs[0], 1)


def _conjugate(ctx: Importer, op: Op) -> Parts:
    re, im = _pair(ctx, op.inputs[0])
    return re, ctx.unary("neg", im)


_FUNCTIONS: dict[str, Callable[[Importer, Op], Parts | Value]] = {
    "constant": _constant, "complex": _complex, "convert": _convert, "compare": _compare,
    "multiply": _of_pairs(numbers.multiplied), "divide": _of_pairs(numbers.divided), "abs": _of_pairs(numbers.size),
    "exponential": _of_pairs(numbers.exponential), "log": _of_pairs(numbers.logarithm), "sqrt": _of_pairs(numbers.root),
    "dot_general": _four_products, "fft": _fft,
    "convolution": _four_products, "real": _real, "imag": _imaginary, "chlo.conj": _conjugate, "chlo.square": _square,
    "cosine": _of_pairs(numbers.cosine), "sine": _of_pairs(numbers.sine), "iota": _iota,
    "get_dimension_size": _size,
}  # fmt: skip
for _name in ("complex", "real", "imag", "fft", "chlo.conj"):
    CONVERTERS[_name] = convert
