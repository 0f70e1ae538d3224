# SPDX-License-Identifier: Apache-2.0
"""Paddle's complex numbers: each op as ops of the two parts, and Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from straightline.capture import complex_numbers as numbers
from straightline.capture import fourier
from straightline.capture.builder import TensorType
from straightline.capture.fourier import Pair
from straightline.capture.graph_builder import FLOATS, Reject, Tensor, known
from straightline.capture.paddle import pir
from straightline.capture.paddle.importer import COMPLEX, CONVERTERS, SAME, Importer, Node, converter
from straightline.capture.paddle.values import Complex, Known, Value

#: Ops that do to each part what they do to real numbers.
BY_PARTS = frozenset(
    """reshape transpose flatten squeeze unsqueeze expand expand_as tile flip roll slice strided_slice crop split
    split_with_num unbind unstack concat stack broadcast_tensors meshgrid gather index_select gather_nd take_along_axis
    index_sample scatter scatter_nd_add index_add index_put tril triu diagonal diag diag_embed trace where sum mean cumsum
    add_n add subtract assign assign_out_ memcpy memcpy_d2h memcpy_h2d share_data_ pad pad3d frame overlap_add
    repeat_interleave scale set_value_with_tensor_""".split()
)
#: Products of two operands.
_PRODUCTS = frozenset("matmul bmm mv dot einsum kron".split())
#: Ops that read sizes alone, or that hold others.
_OF_SIZES, _HOLDS = frozenset(("shape64", "numel", "is_empty")), frozenset(("if", "while"))
_TAKEN = "sums, products, quotients, powers, exp, log, sqrt, abs, sin, cos, transforms, and what moves elements"


def _is_complex(node: Node) -> bool:
    """Whether an op takes or gives complex numbers, and is converted as one that does."""
    if node.op.name.startswith("builtin.") or node.op.short in _HOLDS:
        return False
    leaves = [leaf for x in node.inputs for leaf in (x if isinstance(x, list) else [x])]
    types = [t for type in node.op.types for t in (type.items if isinstance(type, pir.ListType) else [type])]
    return any(isinstance(x, Complex) for x in leaves) or any(
        isinstance(t, pir.Type) and t.dtype in pir.PARTS for t in types
    )


def convert(ctx: Importer, node: Node) -> list[Any] | None:
    """The results of an op of complex numbers; None for another op."""
    if not _is_complex(node):
        return None
    name = SAME.get(node.op.short, node.op.short)
    if name not in _FUNCTIONS and name.endswith("_") and name not in BY_PARTS:
        name = name[:-1]  # the form that overwrites
    if name in _FUNCTIONS:
        found = _FUNCTIONS[name](ctx, node)
    elif name in BY_PARTS:
        found = _by_parts(ctx, node, name)
    elif name in _PRODUCTS:
        found = _product(ctx, node, name)
    elif name in _OF_SIZES:
        found = CONVERTERS[name](ctx, Node(node.op, [_part(x, 0) for x in node.inputs]))
    elif name in CONVERTERS or any(isinstance(x, Complex) for x in node.inputs):
        raise Reject(f"{node.op.short} of complex numbers", _TAKEN)
    else:
        raise Reject(f"there is no op {node.op.short} here, which gives complex numbers")
    return found if isinstance(found, list) else [Complex(*found) if isinstance(found, tuple) else found]


COMPLEX.append(convert)


# Parts ----------------------------------------------------------------------------------------------------------------


def _part(x: Any, place: int) -> Any:
    """A part of an operand: of real numbers the imaginary one is 0, integers and bools are places or conditions."""
    if isinstance(x, list):
        return [_part(item, place) for item in x]
    if isinstance(x, Complex):
        return (x.re, x.im)[place]
    if place == 0 or x is None or x.dtype not in FLOATS:
        return x
    return Known(np.zeros(x.array.shape, x.array.dtype), x.dtype) if isinstance(x, Known) else x


def _of_part(op: pir.Op, place: int) -> pir.Op:
    """An op of one part."""

    def type_of(type: pir.AnyType) -> pir.AnyType:
        if isinstance(type, pir.ListType):
            return pir.ListType(tuple(type_of(item) for item in type.items))  # type: ignore[misc]
        return replace(type, dtype=pir.PARTS.get(type.dtype, type.dtype)) if type is not None else None

    attributes = {k: pir.PARTS.get(x, x) if isinstance(x, str) else x for k, x in op.attributes.items()}
    if place == 1:
        attributes.update({name: 0.0 for name in ("bias", "pad_value") if name in attributes})
    return replace(op, types=[type_of(t) for t in op.types], attributes=attributes)


def _by_parts(ctx: Importer, node: Node, name: str) -> list[Any]:
    if name == "scale":
        factor = node.inputs[1]
        if isinstance(factor, Complex) or node.attribute("bias", 0.0) and not node.attribute("bias_after_scale", True):
            raise Reject("scale of complex numbers by a complex one, or after a bias", "x * s + b")
    found = []
    for place in (0, 1):
        inputs = [_part(x, place) for x in node.inputs]
        if name == "scale":
            inputs[1] = node.inputs[1]
        results = CONVERTERS[name](ctx, Node(_of_part(node.op, place), inputs))
        found.append(results if isinstance(results, list) else [results])
    return [_joined(a, b) for a, b in zip(*found, strict=True)]


def _joined(re: Any, im: Any) -> Any:
    if isinstance(re, list):
        return [_joined(a, b) for a, b in zip(re, im, strict=True)]
    return None if re is None else Complex(re, im)


def pair(ctx: Importer, x: Value | None, dtype: str = "") -> Pair:
    """Both parts as tensors, of an element type if one is given."""
    if isinstance(x, Complex):
        re, im = ctx.tensor(x.re), ctx.tensor(x.im)
    else:
        re = ctx.tensor(x)
        im = ctx.full(0, re.dtype, re.extents)
    return (ctx.cast(re, dtype), ctx.cast(im, dtype)) if dtype else (re, im)


def _pairs(ctx: Importer, node: Node) -> tuple[Pair, Pair]:
    """Two operands, broadcast, of the larger of their element types."""
    x, y = (pair(ctx, t) for t in node.inputs[:2])
    dtype = max(x[0].dtype, y[0].dtype, key=lambda d: (d == "f64", d == "f32"))
    extents = ctx.common(x[0].extents, y[0].extents)
    left, right = (tuple(ctx.expand(ctx.cast(t, dtype), extents) for t in z) for z in (x, y))
    return (left[0], left[1]), (right[0], right[1])


# Functions ------------------------------------------------------------------------------------------------------------


def _of_one(function: Callable[[Any, Pair], Any]) -> Callable[[Importer, Node], Any]:
    return lambda ctx, node: function(ctx, pair(ctx, node.inputs[0]))


def _of_two(function: Callable[[Any, Pair, Pair], Any]) -> Callable[[Importer, Node], Any]:
    return lambda ctx, node: function(ctx, *_pairs(ctx, node))


def _square(ctx: Any, z: Pair) -> Pair:
    return numbers.multiplied(ctx, z, z)


def _conjugate(ctx: Any, z: Pair) -> Pair:
    return z[0], ctx.unary("neg", z[1])


def _reciprocal(ctx: Any, z: Pair) -> Pair:
    one = ctx.full(1, z[0].dtype, z[0].extents)
    return numbers.divided(ctx, (one, ctx.full(0, z[0].dtype, z[0].extents)), z)


def _exponent(x: Value | None) -> int | None:
    """A known small whole number."""
    parts = (x.re, x.im) if isinstance(x, Complex) else (x, None)
    if not all(isinstance(t, Known) and t.array.size == 1 for t in parts if t is not None):
        return None
    re, im = (0.0 if t is None else float(t.array.reshape(-1)[0]) for t in parts)  # type: ignore[union-attr]
    return int(re) if im == 0 and re == int(re) and 1 <= re <= 8 else None


def _power(ctx: Importer, node: Node) -> Pair:
    """Products for small whole exponents, else exp(w log z), which is 0 for z = 0."""
    count = _exponent(node.inputs[1])
    if count is not None:
        z = found = pair(ctx, node.inputs[0])
        for _ in range(count - 1):
            found = numbers.multiplied(ctx, found, z)
        return found
    z, w = _pairs(ctx, node)
    grown = numbers.exponential(ctx, numbers.multiplied(ctx, w, numbers.logarithm(ctx, z)))
    is_zero = ctx.compare("eq", numbers.size(ctx, z), 0)
    return ctx.where(is_zero, 0.0, grown[0]), ctx.where(is_zero, 0.0, grown[1])


def _compared(ctx: Importer, node: Node) -> Tensor:
    return numbers.equal(ctx, "eq" if node.op.short == "equal" else "ne", *_pairs(ctx, node))


def _either(ctx: Importer, node: Node) -> Tensor:
    """Whether a part is NaN or infinite; finite numbers are those whose parts both are."""
    found = [CONVERTERS[node.op.short](ctx, Node(_of_part(node.op, i), [_part(node.inputs[0], i)])) for i in (0, 1)]
    return ctx.binary("logical_and" if node.op.short == "isfinite" else "logical_or", *found)


def _product(ctx: Importer, node: Node, name: str) -> Any:
    """A product of two complex operands is four, with a real one two."""
    op = _of_part(node.op, 0)
    leaves = node.inputs[0] if isinstance(node.inputs[0], list) else node.inputs[:2]
    rest = node.inputs[1:] if isinstance(node.inputs[0], list) else node.inputs[2:]
    if len(leaves) != 2:
        raise Reject(f"{name} of {len(leaves)} complex operands", "2")

    def product(i: int, j: int) -> Tensor:
        given: list[Any] = [_part(leaves[0], i), _part(leaves[1], j)]
        found = CONVERTERS[name](ctx, Node(op, [given, *rest] if isinstance(node.inputs[0], list) else [*given, *rest]))
        return found[0] if isinstance(found, list) else found

    if not isinstance(leaves[1], Complex):
        return product(0, 0), product(1, 0)
    if not isinstance(leaves[0], Complex):
        return product(0, 0), product(0, 1)
    return ctx.binary("sub", product(0, 0), product(1, 1)), ctx.binary("add", product(0, 1), product(1, 0))


# Making them, and their parts -----------------------------------------------------------------------------------------


def _complex(ctx: Importer, node: Node) -> tuple[Value, Value]:
    a, b = node.inputs[:2]
    if isinstance(a, Known) and isinstance(b, Known) and a.array.shape == b.array.shape:
        return a, b
    re, im = ctx.tensor(a), ctx.tensor(b)
    extents = ctx.common(re.extents, im.extents)
    return ctx.expand(re, extents), ctx.expand(im, extents)


def _real(ctx: Importer, node: Node) -> Value:
    return _part(node.inputs[0], 0)


def _imaginary(ctx: Importer, node: Node) -> Value:
    return pair(ctx, node.inputs[0])[1]


def as_complex(ctx: Importer, x: Tensor) -> Complex:
    """Complex numbers of which the last dim has both parts."""
    return Complex(*(ctx.select(x, x.rank - 1, place) for place in (0, 1)))


def as_real(ctx: Importer, x: Complex) -> Tensor:
    """The parts as a last dim."""
    parts = [ctx.reshape(t, (*t.extents, 1)) for t in pair(ctx, x)]
    return ctx.cat(parts, parts[0].rank - 1, TensorType(parts[0].dtype, (*parts[0].extents[:-1], 2)))


def _as_complex(ctx: Importer, node: Node) -> list[Any]:
    return [as_complex(ctx, ctx.tensor(node.inputs[0]))]


def _as_real(ctx: Importer, node: Node) -> Tensor:
    x = node.inputs[0]
    if not isinstance(x, Complex):
        raise Reject("as_real of real numbers", "complex ones")
    return as_real(ctx, x)


def _cast(ctx: Importer, node: Node) -> Any:
    """To real numbers their real part; to bool whether a part is not 0."""
    to = str(node.attribute("dtype"))
    if to in pir.PARTS:
        return pair(ctx, node.inputs[0], pir.PARTS[to])
    re, im = pair(ctx, node.inputs[0])
    if to == "i1":
        return ctx.binary("logical_or", ctx.compare("ne", re, 0), ctx.compare("ne", im, 0))
    return ctx.cast(re, to)


def _full(ctx: Importer, node: Node) -> tuple[Value, Value]:
    value = complex(node.attribute("value"))
    found = []
    for place, number in enumerate((value.real, value.imag)):
        op = _of_part(node.op, 0)
        found.append(CONVERTERS["full"](ctx, Node(replace(op, attributes={**op.attributes, "value": number}), [])))
    return found[0], found[1]


def _full_like(ctx: Importer, node: Node) -> tuple[Tensor, Tensor]:
    like = ctx.type_of(_part(node.inputs[0], 0))
    re, im = (ctx.expand(ctx.reshape(ctx.cast(t, like.dtype), ()), like.extents) for t in pair(ctx, node.inputs[1]))
    return re, im


def _assign_value(ctx: Importer, node: Node) -> tuple[Value, Value]:
    dtype = pir.PARTS[str(node.attribute("dtype"))]
    array = np.asarray([complex(x) for x in node.attribute("values")]).reshape(node.attribute("shape"))
    kind = np.float64 if dtype == "f64" else np.float32
    return Known(array.real.astype(kind), dtype), Known(array.imag.astype(kind), dtype)


# Fourier transforms ---------------------------------------------------------------------------------------------------


def _fft(ctx: Importer, node: Node) -> Any:
    """Forward ones turn by -1; `fft_c2r` reads half of the numbers, `fft_r2c` gives half if it is onesided."""
    kind, forward = node.op.short, bool(node.attribute("forward"))
    z = pair(ctx, node.inputs[0])
    axes = [ctx.axis(int(a), z[0].rank) for a in node.attribute("axes")]
    sizes = [known(z[0].extents[d]) for d in axes]
    if 0 in sizes:
        raise Reject(f"a Fourier transform of {z[0].type}", "tensors with elements")
    sign = -1 if forward else 1
    if kind == "fft_c2r":
        sizes[-1] = int(node.attribute("last_dim_size", 0)) or 2 * (sizes[-1] - 1)
        if sizes[-1] < 1:
            raise Reject(f"a Fourier transform of {sizes[-1]} numbers", "1 or more")
        found = _to_real(ctx, _along(ctx, z, axes[:-1], sign), axes[-1], sizes[-1], sign)
        return _scaled(ctx, found, node, sizes)
    if kind == "fft_r2c":
        one = _rows(ctx, z[0], axes[-1], sign)
        if node.attribute("onesided"):
            count, last = sizes[-1] // 2 + 1, axes[-1]
            one = tuple(ctx.slice(t, last, 0, count, count) for t in one)  # type: ignore[assignment]
        z, axes = one, axes[:-1]
    return tuple(_scaled(ctx, t, node, sizes) for t in _along(ctx, z, axes, sign))


def _moved(ctx: Importer) -> Callable[[Tensor, list[int]], Tensor]:
    return lambda x, order: x if order == list(range(x.rank)) else ctx.permute(x, order)


def _along(ctx: Importer, z: Pair, axes: Sequence[int], sign: int) -> Pair:
    return fourier.along(ctx, ctx.literal, _moved(ctx), z, axes, sign)


def _last(x: Tensor, axis: int) -> tuple[list[int], list[int]]:
    """The order in which a dim is the last one, and the way back."""
    order = [*(d for d in range(x.rank) if d != axis), axis]
    return order, [order.index(d) for d in range(x.rank)]


def _rows(ctx: Importer, x: Tensor, axis: int, sign: int) -> Pair:
    order, back = _last(x, axis)
    a, b = fourier.rows(ctx, ctx.literal, _moved(ctx)(x, order), None, sign)
    return _moved(ctx)(a, back), _moved(ctx)(b, back)


def _to_real(ctx: Importer, z: Pair, axis: int, size: int, sign: int) -> Tensor:
    """Of half of the numbers, of which too many are left out and missing ones are 0."""
    count, have = size // 2 + 1, known(z[0].extents[axis])
    order, back = _last(z[0], axis)
    a, b = (_moved(ctx)(t, order) for t in z)
    if have > count:
        a, b = (ctx.slice(t, t.rank - 1, 0, count, count) for t in (a, b))
    elif have < count:
        a, b = (ctx.padded(t, [(0, count - have)], 0.0) for t in (a, b))
    if sign < 0:
        b = ctx.unary("neg", b)
    return _moved(ctx)(fourier.rows_to_real(ctx, ctx.literal, a, b, size), back)


def _scaled(ctx: Importer, x: Tensor, node: Node, sizes: Sequence[int]) -> Tensor:
    how, forward = str(node.attribute("normalization")), bool(node.attribute("forward"))
    count = math.prod(sizes)
    if how == "ortho":
        return ctx.binary("mul", x, 1 / math.sqrt(count))
    return ctx.binary("mul", x, 1 / count) if (how == "forward") == forward else x


_FUNCTIONS: dict[str, Callable[[Importer, Node], Any]] = {
    "multiply": _of_two(numbers.multiplied), "divide": _of_two(numbers.divided), "elementwise_pow": _power, "pow": _power,
    "square": _of_one(_square), "conj": _of_one(_conjugate), "reciprocal": _of_one(_reciprocal), "abs": _of_one(numbers.size),
    "angle": _of_one(numbers.angle), "exp": _of_one(numbers.exponential), "log": _of_one(numbers.logarithm),
    "sqrt": _of_one(numbers.root), "sin": _of_one(numbers.sine), "cos": _of_one(numbers.cosine), "equal": _compared,
    "not_equal": _compared, "isnan": _either, "isinf": _either, "isfinite": _either, "complex": _complex, "real": _real,
    "imag": _imaginary, "as_complex": _as_complex, "as_real": _as_real, "cast": _cast, "full": _full, "full_like": _full_like,
    "assign_value_": _assign_value, "fft_c2c": _fft, "fft_r2c": _fft, "fft_c2r": _fft,
}  # fmt: skip


@converter("complex", "as_complex", "as_real", takes="float32 and float64")
def _made(ctx: Importer, node: Node) -> list[Any]:
    found = convert(ctx, node)
    if found is None:
        raise Reject(f"{node.op.short} of real numbers", "complex ones")
    return found


@converter("fft_c2c", "fft_r2c", "fft_c2r", takes="any axes and norms; counts of factors up to 64 times one up to 1,024",
           refuses="named sizes along the axes")  # fmt: skip
def _transform(ctx: Importer, node: Node) -> list[Any]:
    found = convert(ctx, node)
    if found is None:
        raise Reject("a Fourier transform that gives no complex numbers")
    return found
