# SPDX-License-Identifier: Apache-2.0
"""StableHLO's and CHLO's ops of elements: arithmetic, comparisons, conversions, bits."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from straightline.capture import elementary, extents
from straightline.capture.builder import Dim, TensorType
from straightline.capture.extents import Extent
from straightline.capture.graph_builder import FLOATS, Reject, Tensor
from straightline.capture.jax import values as v
from straightline.capture.jax.importer import BY_BOUNDS, FOLDS, Importer, Op, converter
from straightline.capture.jax.values import Known, Value


def _unary(op: str, *names: str) -> None:
    @converter(*names)
    def convert(ctx: Importer, op_: Op) -> Tensor:
        x = ctx.tensor(op_.inputs[0])
        if op in _IN_F32 and x.dtype in ("f16", "bf16"):
            return ctx.cast(ctx.unary(op, ctx.cast(x, "f32")), x.dtype)
        return ctx.unary(op, x)


_IN_F32 = frozenset("exp expm1 log log1p sqrt rsqrt sin cos tan tanh sigmoid erf".split())
for _name, _op in {
    "abs": "abs", "negate": "neg", "exponential": "exp", "exponential_minus_one": "expm1", "log": "log",
    "log_plus_one": "log1p", "sqrt": "sqrt", "rsqrt": "rsqrt", "sine": "sin", "cosine": "cos", "tan": "tan", "tanh": "tanh",
    "logistic": "sigmoid", "floor": "floor", "ceil": "ceil", "round_nearest_even": "round",
    "chlo.erf": "erf", "chlo.tan": "tan",
}.items():  # fmt: skip
    _unary(_op, _name)

#: Special functions by CHLO's names.
SPECIAL = {
    "chlo.erfc": "erfc", "chlo.erf_inv": "erfinv", "chlo.lgamma": "lgamma", "chlo.digamma": "digamma",
    "chlo.zeta": "zeta", "chlo.polygamma": "polygamma", "chlo.bessel_i1e": "i1e",
}  # fmt: skip


def _special(name: str, function: str) -> None:
    @converter(name)
    def convert(ctx: Importer, op: Op) -> Tensor:
        operands = ctx.tensors(op)
        dtype = operands[0].dtype
        wide = [ctx.cast(x, "f32") if dtype in ("f16", "bf16") else x for x in operands]
        found = ctx.emit_one("special", wide, wide[0].type, {"function": function})
        return ctx.cast(found, dtype)


for _name, _op in SPECIAL.items():
    _special(_name, _op)


@converter("chlo.next_after")
def _next_after(ctx: Importer, op: Op) -> Tensor:
    """Of halves by their bits: one more where x moves away from 0, one less towards it."""
    x, y = ctx.tensors(op)
    if x.dtype not in ("f16", "bf16"):
        return ctx.emit_one("special", [x, y], x.type, {"function": "nextafter"})
    bits, other = (ctx.cast(_with_bits(ctx, t, "ui16"), "i32") for t in (x, y))
    size, sign = ctx.binary("bitwise_and", bits, 0x7FFF), ctx.binary("bitwise_and", bits, 0x8000)
    up, positive = ctx.compare("gt", y, x), ctx.compare("gt", x, 0)
    step = ctx.where(ctx.emit_one("logical_xor", [up, positive], up.type), ctx.full(-1, "i32", x.extents), 1)
    from_zero = ctx.binary("bitwise_or", ctx.binary("bitwise_and", other, 0x8000), 1)
    moved = ctx.binary("bitwise_or", ctx.binary("add", size, step), sign)
    moved = ctx.where(ctx.compare("eq", size, 0), from_zero, moved)
    found = _with_bits(ctx, ctx.cast(moved, "ui16"), x.dtype)
    found = ctx.where(ctx.compare("eq", x, y), y, found)
    odd = [ctx.compare("ne", t, t) for t in (x, y)]
    return ctx.where(odd[0], x, ctx.where(odd[1], y, found))


def _float(function: Callable[[Importer, Tensor], Tensor], *names: str) -> None:
    """A function of one tensor of floats, halves in f32."""

    @converter(*names)
    def convert(ctx: Importer, op: Op) -> Tensor:
        x = ctx.tensor(op.inputs[0])
        if x.dtype in ("f16", "bf16"):
            return ctx.cast(function(ctx, ctx.cast(x, "f32")), x.dtype)
        return function(ctx, x)


def _cbrt(ctx: Importer, x: Tensor) -> Tensor:
    """A power, and one step of Newton's method for its rounding."""
    a = ctx.unary("abs", x)
    root = ctx.binary("pow", a, 1 / 3)
    step = ctx.binary("div", ctx.binary("sub", root, ctx.binary("div", a, ctx.binary("mul", root, root))), 3.0)
    plain = ctx.compare("eq", ctx.binary("sub", a, a), 0)  # neither infinite nor NaN
    finite = ctx.emit_one("logical_and", [plain, ctx.compare("gt", a, 0)], plain.type)
    return elementary.with_sign(ctx, x, ctx.where(finite, ctx.binary("sub", root, step), root))


def _away_from_zero(ctx: Importer, x: Tensor) -> Tensor:
    a = ctx.unary("abs", x)
    whole = ctx.unary("trunc", a)
    up = ctx.compare("ge", ctx.binary("sub", a, whole), 0.5)
    rounded = ctx.where(up, ctx.binary("add", whole, 1), whole)
    return elementary.with_sign(ctx, x, rounded)


for _name, _function in elementary.FUNCTIONS.items():
    _float(_function, f"chlo.{_name}")
_float(_cbrt, "cbrt")
_float(_away_from_zero, "round_nearest_afz")


@converter("chlo.square")
def _square(ctx: Importer, op: Op) -> Tensor:
    x = ctx.tensor(op.inputs[0])
    return ctx.binary("mul", x, x)


@converter("sign")
def _sign(ctx: Importer, op: Op) -> Tensor:
    x = ctx.tensor(op.inputs[0])
    if x.dtype not in FLOATS:
        return ctx.unary("sign", x)
    odd = ctx.compare("ne", x, x)  # of a NaN it is NaN, of a zero that zero
    same = ctx.emit_one("logical_or", [odd, ctx.compare("eq", x, 0)], odd.type)
    return ctx.where(same, x, ctx.unary("sign", x))


@converter("is_finite")
def _is_finite(ctx: Importer, op: Op) -> Tensor:
    x = ctx.tensor(op.inputs[0])
    return ctx.compare("eq", ctx.binary("sub", x, x), 0)


@converter("chlo.is_inf")
def _is_inf(ctx: Importer, op: Op) -> Tensor:
    x = ctx.tensor(op.inputs[0])
    return ctx.emit_one("isinf", [x], TensorType("i1", x.extents))


@converter("chlo.is_pos_inf", "chlo.is_neg_inf")
def _is_signed_inf(ctx: Importer, op: Op) -> Tensor:
    return ctx.compare("eq", ctx.tensor(op.inputs[0]), math.inf if op.kind == "chlo.is_pos_inf" else -math.inf)


# Two operands ---------------------------------------------------------------------------------------------------------

_BOOLS = {"and": "logical_and", "or": "logical_or", "xor": "logical_xor", "add": "logical_or", "multiply": "logical_and",
          "maximum": "logical_or", "minimum": "logical_and"}  # fmt: skip
_OPS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "maximum": "maximum", "minimum": "minimum", "power": "pow",
    "remainder": "fmod", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "atan2": "atan2",
}  # fmt: skip


def combined(ctx: Importer, kind: str, x: Tensor, y: Tensor) -> Tensor:
    """The result of a StableHLO op of two tensors of one type."""
    if x.dtype == "i1":
        if kind not in _BOOLS:
            raise Reject(f"{kind} of bools", "integers")
        return ctx.emit_one(_BOOLS[kind], [x, y], x.type)
    if kind in ("divide", "remainder") and x.dtype not in FLOATS:
        return _divided(ctx, kind, x, y)
    if kind == "divide":
        return ctx.binary("div", x, y)
    if kind == "maximum" and x.dtype in FLOATS:
        for a, b in ((x, y), (y, x)):
            if ctx.literal_of(b) == 0:
                return ctx.unary("relu", a)
    if kind in ("power", "atan2", "remainder") and x.dtype in ("f16", "bf16"):
        return ctx.cast(ctx.binary(_OPS[kind], ctx.cast(x, "f32"), ctx.cast(y, "f32")), x.dtype)
    return ctx.binary(_OPS[kind], x, y)


def _divided(ctx: Importer, kind: str, x: Tensor, y: Tensor) -> Tensor:
    """Integers. By 0 the quotient has all bits set and the remainder is x, as XLA has it; our op would end the call."""
    op = "trunc_divide" if kind == "divide" else "fmod"
    if ctx.literal_of(y):
        return ctx.binary(op, x, y)
    is_zero = ctx.compare("eq", y, 0)
    found = ctx.binary(op, x, ctx.where(is_zero, 1, y))
    if kind == "remainder":
        return ctx.where(is_zero, x, found)
    ones = (1 << v.BITS[x.dtype]) - 1 if x.dtype.startswith("u") else -1
    return ctx.where(is_zero, ctx.splat(ones, x.dtype, x.extents), found)


@converter(*_OPS, "divide")
def _binary(ctx: Importer, op: Op) -> Value:
    simple = _neutral(op.kind, op.inputs)
    if simple is not None:
        return simple
    x, y = ctx.tensors(op)
    found = combined(ctx, op.kind, x, y)
    return _with_bounds(ctx, op, found)


def _neutral(kind: str, inputs: list[Value]) -> Value | None:
    """An operand that the op gives as it is."""
    for x, y in (inputs, inputs[::-1]):
        if not isinstance(y, Known) or y.splat is None or isinstance(x, Known):
            continue
        number, is_second = y.splat, y is inputs[1]
        if kind == "maximum" and number == -math.inf or kind == "minimum" and number == math.inf:
            return x
        if x.dtype not in FLOATS and kind in ("add", "or", "xor") and number == 0:
            return x
        if is_second and kind in ("divide", "power") and number == 1:
            return x
        if kind == "multiply" and number == 1:
            return x
        if is_second and kind == "subtract" and number == 0 and x.dtype not in FLOATS:
            return x
    return None


def _with_bounds(ctx: Importer, op: Op, found: Tensor) -> Tensor:
    """Sums and differences of integers of loops have bounds, and an i64 behind them."""
    if found.rank or found.dtype in FLOATS or op.kind not in ("add", "subtract"):
        return found
    (x, y) = (ctx.interval(t) for t in op.inputs)
    if x is None or y is None:
        return found
    low, high = (x[0] + y[0], x[1] + y[1]) if op.kind == "add" else (x[0] - y[1], x[1] - y[0])
    if found.dtype not in ("i32", "i64") or not -(2**31) <= low <= high < 2**31:
        return found
    if found.dtype == "i64":
        return ctx.bound(found, low, high)
    wide = ctx.binary(_OPS[op.kind], *(ctx.index(t) for t in op.inputs))
    return ctx.narrowed(wide, found.dtype, (low, high))


@converter("not")
def _not(ctx: Importer, op: Op) -> Tensor:
    x = ctx.tensor(op.inputs[0])
    return ctx.unary("logical_not" if x.dtype == "i1" else "bitwise_not", x)


@converter("chlo.mulhi")
def _high_product(ctx: Importer, op: Op) -> Tensor:
    """The upper half of a product's bits."""
    x, y = ctx.tensors(op)
    if (bits := v.BITS[x.dtype]) == 64:
        raise Reject(f"mulhi of {x.dtype}", "integers of at most 32 bits")
    wide = "ui64" if x.dtype.startswith("u") else "i64"
    product = ctx.binary("mul", ctx.cast(x, wide), ctx.cast(y, wide))
    return ctx.cast(shifted(ctx, "shift_right_arithmetic", product, bits), x.dtype)


_DIRECTIONS = {"EQ": "eq", "NE": "ne", "LT": "lt", "LE": "le", "GT": "gt", "GE": "ge"}


def direction_of(op: Op) -> str:
    """The comparison, as the dialect names it."""
    return _DIRECTIONS[stablehlo.ComparisonDirectionAttr(op.attributes["comparison_direction"]).value]


def _is_total_order(op: Op) -> bool:
    return op.has("compare_type") and stablehlo.ComparisonTypeAttr(op.attributes["compare_type"]).value == "TOTALORDER"


_DECIDED: dict[str, Callable[[tuple[int, int], tuple[int, int]], bool | None]] = {
    "lt": lambda x, y: True if x[1] < y[0] else False if x[0] >= y[1] else None,
    "le": lambda x, y: True if x[1] <= y[0] else False if x[0] > y[1] else None,
    "gt": lambda x, y: True if x[0] > y[1] else False if x[1] <= y[0] else None,
    "ge": lambda x, y: True if x[0] >= y[1] else False if x[1] < y[0] else None,
    "eq": lambda x, y: False if x[1] < y[0] or x[0] > y[1] else None,
    "ne": lambda x, y: True if x[1] < y[0] or x[0] > y[1] else None,
}


@converter("compare")
def _compare(ctx: Importer, op: Op) -> Value:
    name = direction_of(op)
    if _is_total_order(op) and op.inputs[0].type.dtype in FLOATS:
        return ctx.compare(name, *(_ordered_bits(ctx, x) for x in ctx.tensors(op)))
    if all(x.type.extents == () for x in op.inputs):
        x, y = (ctx.interval(t) for t in op.inputs)
        decided = _DECIDED[name](x, y) if x is not None and y is not None else None
        if decided is not None:
            return v.number(decided, "i1")
    return ctx.compare(name, *ctx.tensors(op))


def _ordered_bits(ctx: Importer, x: Tensor) -> Tensor:
    """Integers in the order of floats in which -NaN is first, -0 before 0, and NaN last: bits, those of negative ones turned."""
    wide = x if x.dtype in ("f32", "f64") else ctx.cast(x, "f32")
    integer = "i32" if wide.dtype == "f32" else "i64"
    bits = ctx.emit_one("bit_cast", [wide], TensorType(integer, x.extents))
    turned = ctx.binary("bitwise_xor", bits, 2 ** (v.BITS[integer] - 1) - 1)
    return ctx.where(ctx.compare("lt", bits, 0), turned, bits)


@converter("select")
def _select(ctx: Importer, op: Op) -> Value:
    condition, x, y = op.inputs
    if isinstance(condition, Known) and condition.splat is not None:
        return x if condition.splat else y
    return ctx.where(*(ctx.tensor(t) for t in (condition, x, y)))


@converter("clamp")
def _clamp(ctx: Importer, op: Op) -> Tensor:
    low, x, high = op.inputs
    found = ctx.tensor(x)
    attributes = {
        name: float(t.splat) if found.dtype in FLOATS else int(t.splat)
        for name, t in (("min", low), ("max", high))
        if isinstance(t, Known) and t.splat is not None
    }
    if len(attributes) == 2 and all(abs(n) < 2**63 for n in attributes.values() if not math.isinf(n)):
        return ctx.unary("clamp", found, **attributes)
    lower, upper = (ctx.expand(ctx.tensor(t), found.extents) for t in (low, high))
    return ctx.binary("minimum", ctx.binary("maximum", found, lower), upper)


# Conversions and bits -------------------------------------------------------------------------------------------------


@converter("convert")
def _convert(ctx: Importer, op: Op) -> Value:
    x, dtype = ctx.tensor(op.inputs[0]), op.dtype()
    interval = ctx.interval(op.inputs[0])
    if x.rank == 0 and interval is not None and dtype in ("i32", "i64"):
        wide = ctx.index(x)
        return ctx.bound(wide, *interval) if dtype == "i64" else ctx.narrowed(wide, dtype, interval)
    if x.dtype in FLOATS and dtype in v.BITS:
        return _saturated(ctx, x, dtype)
    return ctx.cast(x, dtype)


def _saturated(ctx: Importer, x: Tensor, dtype: str) -> Tensor:
    """Floats as integers: NaN is 0, what is too large is the largest, as XLA has it."""
    bits = v.BITS[dtype]
    wide = ctx.cast(x, "f64") if bits >= 32 and x.dtype != "f64" else ctx.cast(x, "f32") if x.dtype != "f64" else x
    low, beyond = (0.0, 2.0**bits) if dtype.startswith("u") else (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1))
    high = beyond - 1 if bits < 64 else float(np.nextafter(beyond, 0))  # which 2 ** 64 - 1 is not
    whole = ctx.where(ctx.compare("ne", wide, wide), 0.0, ctx.unary("clamp", wide, min=low, max=high))
    found = ctx.cast(whole, dtype)
    if dtype == "ui64":  # conversions are of i64: of larger numbers by what is beyond 2 ** 63
        half = 2.0**63
        upper = ctx.cast(ctx.binary("sub", whole, half), dtype)
        upper = ctx.binary("add", upper, ctx.splat(1 << 63, dtype, x.extents))
        found = ctx.where(ctx.compare("ge", whole, half), upper, found)
    if bits == 64:
        return ctx.where(ctx.compare("ge", wide, beyond), ctx.splat(int(beyond) - 1, dtype, x.extents), found)
    return found


@converter("bitcast_convert")
def _bitcast(ctx: Importer, op: Op) -> Tensor:
    """Elements that are narrower or wider stand along a last dim, the lowest bits first."""
    x, dtype = ctx.tensor(op.inputs[0]), op.dtype()
    width, other = _width(x.dtype), _width(dtype)
    if "i1" in (x.dtype, dtype) and x.dtype != dtype:
        raise Reject(f"the bits of {x.dtype} as {dtype}", "integers and floats")
    if width > other:
        whole, parts = _with_bits(ctx, x, f"ui{width}"), []
        for place in range(0, width, other):
            part = ctx.cast(shifted(ctx, "shift_right_logical", whole, place), f"ui{other}")
            parts.append(ctx.reshape(part, (*x.extents, 1)))
        type = TensorType(f"ui{other}", (*x.extents, len(parts)))
        return _with_bits(ctx, ctx.cat(parts, x.rank, type), dtype)
    if width < other:
        parts = [
            shifted(
                ctx,
                "shift_left",
                ctx.cast(_with_bits(ctx, ctx.select(x, x.rank - 1, i), f"ui{width}"), f"ui{other}"),
                i * width,
            )
            for i in range(other // width)
        ]
        return _with_bits(ctx, functools.reduce(lambda a, b: ctx.binary("bitwise_or", a, b), parts), dtype)
    return _with_bits(ctx, x, dtype)


def _with_bits(ctx: Importer, x: Tensor, dtype: str) -> Tensor:
    """The bits of elements as another type of their width."""
    if x.dtype == dtype or x.dtype in v.BITS and dtype in v.BITS:
        return ctx.cast(x, dtype)
    if _width(dtype) in (32, 64):
        return ctx.emit_one("bit_cast", [x], TensorType(dtype, x.extents))
    if x.dtype in FLOATS and dtype in FLOATS:
        return _with_bits(ctx, _with_bits(ctx, x, "ui16"), dtype)
    if x.dtype in FLOATS:
        return ctx.cast(_bits_of_half(ctx, x), dtype)
    return _half_of_bits(ctx, ctx.cast(ctx.cast(x, "ui16"), "ui32"), dtype)


def _bits_of_half(ctx: Importer, x: Tensor) -> Tensor:
    """Of float16 and bfloat16 by those of the float32 of the same value, which has further bits, and further exponents."""
    wide = ctx.cast(x, "f32")
    if x.dtype == "bf16":
        return shifted(ctx, "shift_right_logical", _with_bits(ctx, wide, "ui32"), 16)
    sign = ctx.binary("bitwise_and", shifted(ctx, "shift_right_logical", _with_bits(ctx, wide, "ui32"), 16), 0x8000)
    scaled = _with_bits(ctx, ctx.binary("mul", ctx.unary("abs", wide), 2.0**-112), "ui32")
    finite = shifted(ctx, "shift_right_logical", scaled, 13)
    # infinity, and the one NaN that is left of all
    special = ctx.where(
        ctx.compare("eq", wide, wide), ctx.full(0x7C00, "ui32", x.extents), ctx.full(0x7E00, "ui32", x.extents)
    )
    is_finite = ctx.compare("le", ctx.unary("abs", wide), 65504.0)
    return ctx.binary("bitwise_or", ctx.where(is_finite, finite, special), sign)


def _half_of_bits(ctx: Importer, bits: Tensor, dtype: str) -> Tensor:
    """A float16 or bfloat16 whose bits are those of a ui32, by the float32 of the same value."""
    if dtype == "bf16":
        return ctx.cast(_with_bits(ctx, shifted(ctx, "shift_left", bits, 16), "f32"), dtype)
    rest = ctx.binary("bitwise_and", bits, 0x7FFF)
    is_finite = ctx.compare("lt", rest, 0x7C00)
    moved = shifted(ctx, "shift_left", rest, 13)
    finite = ctx.binary("mul", _with_bits(ctx, moved, "f32"), 2.0**112)
    special = _with_bits(ctx, ctx.binary("bitwise_or", moved, 0x7F800000), "f32")
    value = ctx.where(is_finite, finite, special)
    negative = ctx.compare("gt", bits, 0x7FFF)
    return ctx.cast(ctx.where(negative, ctx.unary("neg", value), value), dtype)


def _width(dtype: str) -> int:
    return v.BITS.get(dtype) or {"f64": 64, "f32": 32, "f16": 16, "bf16": 16}.get(dtype, 8)


@converter("reduce_precision")
def _reduce_precision(ctx: Importer, op: Op) -> Tensor:
    x = ctx.tensor(op.inputs[0])
    exponent, mantissa = op.number("exponent_bits"), op.number("mantissa_bits")
    for dtype, form in {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}.items():
        if form == (exponent, mantissa):
            return ctx.cast(ctx.cast(x, dtype), x.dtype) if _width(dtype) < _width(x.dtype) else x
    return ctx.cast(_rounded(ctx, ctx.cast(x, "f32") if x.dtype in ("f16", "bf16") else x, exponent, mantissa), x.dtype)


def _rounded(ctx: Importer, x: Tensor, exponent: int, mantissa: int) -> Tensor:
    """Floats as ones of fewer bits hold them: too small ones are 0, too large ones infinite, as XLA has it."""
    integer, own_exponent, own_mantissa = ("i64", 11, 52) if x.dtype == "f64" else ("i32", 8, 23)
    sign = -(1 << (own_exponent + own_mantissa))
    bits = _with_bits(ctx, x, integer)
    size = ctx.binary("bitwise_and", bits, -1 - sign)
    if (dropped := own_mantissa - mantissa) > 0:  # half of the last kept bit is added, less 1 where that bit is even
        last = ctx.binary("bitwise_and", shifted(ctx, "shift_right_logical", size, dropped), 1)
        size = ctx.binary("add", ctx.binary("add", size, (1 << (dropped - 1)) - 1), last)
        size = ctx.binary("bitwise_and", size, -(1 << dropped))
    if exponent < own_exponent:
        bias, own_bias = (1 << (exponent - 1)) - 1, (1 << (own_exponent - 1)) - 1
        infinite = ((1 << own_exponent) - 1) << own_mantissa
        place = shifted(ctx, "shift_right_logical", size, own_mantissa)
        size = ctx.where(ctx.compare("gt", place, own_bias + bias), infinite, size)
        size = ctx.where(ctx.compare("le", place, own_bias - bias), 0, size)
    found = _with_bits(ctx, ctx.binary("bitwise_or", size, ctx.binary("bitwise_and", bits, sign)), x.dtype)
    return ctx.where(ctx.compare("ne", x, x), x, found)


@converter("shift_left", "shift_right_logical", "shift_right_arithmetic")
def _shift(ctx: Importer, op: Op) -> Tensor:
    """By powers of two. A count outside of 0 .. bits - 1 shifts all bits out."""
    x, y = ctx.tensors(op)
    bits, count = v.BITS[x.dtype], op.inputs[1]
    if isinstance(count, Known) and count.splat is not None:
        return shifted(ctx, op.kind, x, int(count.splat))
    places = "ui64" if bits == 64 else "ui32"
    table = np.asarray([1 << i for i in range(bits)], np.uint64).astype(v.numpy_dtype(places))
    index = ctx.cast(ctx.unary("clamp", y, min=0, max=bits - 1), "i64")
    power = ctx.emit_one("index", [ctx.literal(table, places), index], TensorType(places, y.extents), {"dims": [0]})
    out: Tensor | int = 0
    if op.kind == "shift_right_arithmetic" and not x.dtype.startswith("u"):
        found = _by_power(ctx, x, power)
        out = ctx.where(ctx.compare("lt", x, 0), ctx.full(-1, x.dtype, x.extents), ctx.full(0, x.dtype, x.extents))
    else:
        unsigned = ctx.cast(_unsigned(ctx, x), places)
        product = ctx.binary("mul" if op.kind == "shift_left" else "trunc_divide", unsigned, power)
        found = ctx.cast(ctx.cast(product, f"ui{bits}"), x.dtype)
    beyond = ctx.compare("gt", y, bits - 1)
    if not y.dtype.startswith("u"):
        beyond = ctx.emit_one("logical_or", [beyond, ctx.compare("lt", y, 0)], beyond.type)
    return ctx.where(beyond, out, found)


def _unsigned(ctx: Importer, x: Tensor) -> Tensor:
    return x if x.dtype.startswith("u") else ctx.cast(x, f"u{x.dtype}")


def _by_power(ctx: Importer, x: Tensor, power: Tensor) -> Tensor:
    """floor(x / power) of a signed x: of its complement where it is negative."""
    negative = ctx.compare("lt", x, 0)
    size = ctx.cast(_unsigned(ctx, ctx.where(negative, ctx.unary("bitwise_not", x), x)), power.dtype)
    found = ctx.cast(ctx.cast(ctx.binary("trunc_divide", size, power), f"ui{v.BITS[x.dtype]}"), x.dtype)
    return ctx.where(negative, ctx.unary("bitwise_not", found), found)


def shifted(ctx: Importer, kind: str, x: Tensor, count: int) -> Tensor:
    """By a number that is known."""
    bits = v.BITS[x.dtype]
    if kind == "shift_right_arithmetic" and not x.dtype.startswith("u"):
        places = "ui64" if bits == 64 else "ui32"
        count = min(max(count, 0), bits - 1) if 0 <= count else bits - 1
        return _by_power(ctx, x, ctx.splat(1 << count, places, x.extents))
    if not 0 <= count < bits:
        return ctx.full(0, x.dtype, x.extents)
    unsigned = _unsigned(ctx, x)
    power = ctx.splat(1 << count, unsigned.dtype, x.extents)
    return ctx.cast(ctx.binary("mul" if kind == "shift_left" else "trunc_divide", unsigned, power), x.dtype)


@converter("popcnt")
def _popcnt(ctx: Importer, op: Op) -> Tensor:
    x = ctx.tensor(op.inputs[0])
    return ctx.cast(_ones(ctx, ctx.cast(_unsigned(ctx, x), "ui64"), v.BITS[x.dtype]), x.dtype)


@converter("count_leading_zeros")
def _count_leading_zeros(ctx: Importer, op: Op) -> Tensor:
    """Bits that are not at or below the first one."""
    x = ctx.tensor(op.inputs[0])
    bits, filled = v.BITS[x.dtype], ctx.cast(_unsigned(ctx, x), "ui64")
    step = 1
    while step < bits:
        filled = ctx.binary("bitwise_or", filled, shifted(ctx, "shift_right_logical", filled, step))
        step *= 2
    ones = _ones(ctx, filled, bits)
    return ctx.cast(ctx.emit_one("sub", [ctx.full(bits, "ui64", x.extents), ones], ones.type), x.dtype)


def _ones(ctx: Importer, wide: Tensor, bits: int) -> Tensor:
    """How many bits of a ui64 are set. Source: Hacker's Delight, 2nd edition, figure 5-2, by halves of 32 bits."""
    total: Tensor | None = None
    for part in (wide,) if bits <= 32 else (wide, shifted(ctx, "shift_right_logical", wide, 32)):
        n = ctx.binary("bitwise_and", part, 0xFFFFFFFF)
        for step, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF), (16, 0x0000FFFF)):
            high = ctx.binary("bitwise_and", shifted(ctx, "shift_right_logical", n, step), mask)
            n = ctx.binary("add", ctx.binary("bitwise_and", n, mask), high)
        total = n if total is None else ctx.binary("add", total, n)
    assert total is not None
    return total


# Folding --------------------------------------------------------------------------------------------------------------

_ON_NUMBERS: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "negate": np.negative, "abs": np.abs,
    "sqrt": np.sqrt,
}  # fmt: skip
_ON_SIZES: dict[str, Callable[..., object]] = {
    "add": lambda x, y: x + y, "subtract": lambda x, y: x - y, "multiply": lambda x, y: x * y, "negate": lambda x: x * -1,
}  # fmt: skip


def _of_elements(op: Op, inputs: list[Known]) -> Known | None:
    """Folds an op of elements."""
    shape, dtype = inputs[0].array.shape, op.dtype()
    if any(x.is_sizes for x in inputs):
        return _of_sizes(op, inputs, dtype)
    if all(x.splat is not None for x in inputs):
        found = _numbers(op, [np.asarray(x.array[(0,) * x.array.ndim]) for x in inputs])
        return None if found is None else Known(np.broadcast_to(found.astype(v.numpy_dtype(dtype)), shape), dtype)
    if inputs[0].dtype in FLOATS:
        return None
    found = _numbers(op, [x.array for x in inputs])
    return None if found is None else Known(found.astype(v.numpy_dtype(dtype)), dtype)


def _numbers(op: Op, arrays: list[np.ndarray]) -> np.ndarray | None:
    kind, dtype = op.kind, arrays[0].dtype
    if kind == "divide":
        if dtype.kind == "b" or (dtype.kind in "iu" and (arrays[1] == 0).any()):
            return None
        if dtype.kind not in "iu":
            return np.divide(*arrays)
        return (np.sign(arrays[0]) * np.sign(arrays[1]) * (abs(arrays[0]) // abs(arrays[1]))).astype(dtype)
    if kind == "remainder":
        return None if (arrays[1] == 0).any() else np.fmod(*arrays)
    if dtype.kind == "b" and kind in ("add", "multiply", "maximum", "minimum"):
        return np.logical_or(*arrays) if kind in ("add", "maximum") else np.logical_and(*arrays)
    if dtype.kind == "b" and kind in ("subtract", "negate", "abs"):
        return None
    if kind in ("shift_left", "shift_right_logical", "shift_right_arithmetic"):
        return _shifted_numbers(kind, *arrays)
    return _ON_NUMBERS[kind](*arrays)


def _shifted_numbers(kind: str, x: np.ndarray, count: np.ndarray) -> np.ndarray:
    bits = x.dtype.itemsize * 8
    outside = (count >= bits) | (count < 0)
    within = np.where(outside, 0, count).astype(np.uint64)
    if kind == "shift_right_arithmetic":
        return np.right_shift(x, np.where(outside, bits - 1, count).astype(x.dtype))
    unsigned = x.astype(f"uint{bits}")
    move = np.left_shift if kind == "shift_left" else np.right_shift
    return np.where(outside, 0, move(unsigned, within.astype(unsigned.dtype))).astype(unsigned.dtype).astype(x.dtype)


def _of_sizes(op: Op, inputs: list[Known], dtype: str) -> Known | None:
    arrays = [x.array.astype(object) for x in inputs]
    apply = _ON_SIZES.get(op.kind) or (lambda x, y: _on_two_sizes(op.kind, x, y))
    if len(arrays) == 1:
        found = [apply(x if isinstance(x, Extent) else int(x)) for x in arrays[0].reshape(-1)]
    else:
        pairs = zip(*(a.reshape(-1) for a in arrays))
        found = [apply(*(x if isinstance(x, Extent) else int(x) for x in pair)) for pair in pairs]
    return None if any(x is None for x in found) else v.sizes(found, arrays[0].shape, dtype)


def _on_two_sizes(kind: str, x: object, y: object) -> object:
    """Larger and smaller ones where their difference says which."""
    if kind in ("maximum", "minimum"):
        less = x - y  # type: ignore[operator]
        if isinstance(less, int):
            return x if (less >= 0) == (kind == "maximum") else y
    return None


for _name in (*_ON_NUMBERS, "divide", "remainder", "shift_left", "shift_right_logical", "shift_right_arithmetic"):
    FOLDS[_name] = _of_elements


def _fold_not(op: Op, inputs: list[Known]) -> Known | None:
    return Known(np.invert(inputs[0].array), inputs[0].dtype)


def _fold_convert(op: Op, inputs: list[Known]) -> Known | None:
    x, dtype = inputs[0], op.dtype()
    if x.is_sizes:
        return Known(x.array, dtype) if dtype in ("i32", "i64") else None
    if x.dtype in FLOATS and dtype not in FLOATS and not np.isfinite(x.array.astype(np.float64)).all():
        return None
    one = x.array[(0,) * x.array.ndim] if x.splat is not None else x.array
    return Known(np.broadcast_to(np.asarray(one).astype(v.numpy_dtype(dtype)), x.array.shape), dtype)


def _fold_compare(op: Op, inputs: list[Known]) -> Known | None:
    x, y = inputs
    if _is_total_order(op):
        return None
    name = direction_of(op)
    if x.is_sizes or y.is_sizes:
        if x.array.size != 1 or name not in ("eq", "ne"):
            return None
        same = v.dims(x)[0] == v.dims(y)[0]
        return v.number(same == (name == "eq"), "i1", x.array.shape) if same else None
    apply = {
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
    }
    if x.splat is not None and y.splat is not None:
        return v.number(bool(apply[name](x.splat, y.splat)), "i1", x.array.shape)
    return Known(apply[name](x.array, y.array), "i1")


def _fold_select(op: Op, inputs: list[Known]) -> Known | None:
    condition, x, y = inputs
    if condition.splat is not None:
        return x if condition.splat else y
    if x.is_sizes or y.is_sizes:
        return None
    return Known(np.where(condition.array, x.array, y.array), x.dtype)


def _fold_clamp(op: Op, inputs: list[Known]) -> Known | None:
    low, x, high = inputs
    if any(t.is_sizes for t in inputs):
        return None
    return Known(np.minimum(np.maximum(x.array, low.array), high.array).astype(x.array.dtype), x.dtype)


FOLDS.update(
    {"not": _fold_not, "convert": _fold_convert, "compare": _fold_compare, "select": _fold_select, "clamp": _fold_clamp}
)


# What bounds decide ---------------------------------------------------------------------------------------------------


def _sign_by_bounds(ctx: Importer, op: Op) -> Known | None:
    """Sizes are seldom 0, and differences of them of either sign."""
    (x,) = op.inputs
    if not isinstance(x, Known) or x.dtype not in v.BITS or x.array.size != 1:
        return None
    low, high = ctx.bounds(v.dims(x)[0])
    sign = 1 if low > 0 else -1 if high < 0 else 0
    return v.number(sign, x.dtype, x.array.shape) if sign or low == high else None


def _compare_by_bounds(ctx: Importer, op: Op) -> Known | None:
    x, y = op.inputs
    if not isinstance(x, Known) or not isinstance(y, Known) or not (x.is_sizes or y.is_sizes) or x.array.size != 1:
        return None
    low, high = ctx.bounds(v.dims(x)[0] - v.dims(y)[0])
    always = {
        "eq": low == high == 0,
        "ne": low > 0 or high < 0,
        "lt": high < 0,
        "le": high <= 0,
        "gt": low > 0,
        "ge": low >= 0,
    }
    name = direction_of(op)
    opposite = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "le": "gt", "gt": "le"}[name]
    return v.number(always[name], "i1", x.array.shape) if always[name] or always[opposite] else None


def _quotient_by_bounds(ctx: Importer, op: Op) -> Known | None:
    """Quotients and remainders of sizes, towards 0 as StableHLO's: where bounds say the sign of what is divided."""
    x, y = op.inputs
    if not isinstance(x, Known) or not isinstance(y, Known) or not (x.is_sizes or y.is_sizes):
        return None
    found: list[Dim] = []
    for a, b in zip(v.dims(x), v.dims(y), strict=True):
        low, high = ctx.bounds(a)
        if ctx.bounds(b)[0] < 1 or low < 0 < high:
            return None
        sign = 1 if low >= 0 else -1
        size = a * sign
        found.append((size // b if op.kind == "divide" else extents.remainder(size, b, ctx.ranges)) * sign)
    return v.sizes(found, x.array.shape, op.dtype())


def _select_by_bounds(ctx: Importer, op: Op) -> Known | None:
    """The remainder with the divisor's sign, as JAX writes that of sizes: `r + d` where r is not 0 and has another, else r."""
    kinds = ("and", "add", "remainder")
    both, total, rest = (v.made_by(operand, kind) for operand, kind in zip(op.operation.operands, kinds))
    if both is None or total is None or rest is None:
        return None
    x, d = rest.operands
    r = op.operation.operands[2]
    tests = {_sign_test(operand, r, d) for operand in both.operands}
    if list(total.operands) != [r, d] or tests != {"not zero", "other sign"}:
        return None
    given = [ctx._env.get(operand) for operand in (x, d)]
    if not all(isinstance(t, Known) and t.array.size == 1 and t.dtype in v.BITS for t in given):
        return None
    (size,), (divisor,) = (v.dims(t) for t in given)  # type: ignore[arg-type]
    if ctx.bounds(divisor)[0] < 1 or not (isinstance(size, Extent) or isinstance(divisor, Extent)):
        return None
    return v.sizes([extents.remainder(size, divisor, ctx.ranges)], given[0].array.shape, op.dtype())  # type: ignore[union-attr]


def _sign_test(value: ir.Value, r: ir.Value, d: ir.Value) -> str:
    """What a condition asks of a remainder and its divisor: "not zero", "other sign", or ""."""
    made = v.made_by(value, "compare")
    if made is None or direction_of(Op(made, [])) != "ne":
        return ""
    left, right = made.operands
    if left == r and _is_zero(right):
        return "not zero"
    negative = [v.made_by(side, "compare") for side in (left, right)]
    less = [m.operands for m in negative if m is not None and direction_of(Op(m, [])) == "lt"]
    return "other sign" if [x for x, zero in less if _is_zero(zero)] == [r, d] else ""


def _is_zero(value: ir.Value) -> bool:
    made = v.made_by(value, "constant")
    return made is not None and v.literal(made.attributes["value"], value.type).splat == 0


def _logic_by_one(ctx: Importer, op: Op) -> Known | None:
    """False and anything, true or anything: also where the other one is known in a call alone."""
    decisive = op.kind == "or"
    for x in op.inputs:
        if isinstance(x, Known) and x.dtype == "i1" and x.splat is not None and bool(x.splat) == decisive:
            return v.number(decisive, "i1", x.array.shape)
    return None


def _extreme_by_bounds(ctx: Importer, op: Op) -> Known | None:
    """Larger and smaller ones of sizes, and sizes within bounds: sizes too."""
    if not all(isinstance(x, Known) and x.array.size == 1 for x in op.inputs):
        return None
    if not any(isinstance(x, Known) and x.is_sizes for x in op.inputs):
        return None
    x, *rest = (v.dims(t)[0] for t in op.inputs if isinstance(t, Known))
    if op.kind == "clamp":
        found = extents.minimum(extents.maximum(x, rest[0], ctx.ranges), rest[1], ctx.ranges)
    else:
        found = (extents.maximum if op.kind == "maximum" else extents.minimum)(x, rest[0], ctx.ranges)
    return v.sizes([found], op.inputs[-1].type.extents, op.dtype())  # type: ignore[arg-type]


BY_BOUNDS.update({"maximum": _extreme_by_bounds, "minimum": _extreme_by_bounds, "clamp": _extreme_by_bounds})
BY_BOUNDS.update({"divide": _quotient_by_bounds, "remainder": _quotient_by_bounds, "select": _select_by_bounds})
BY_BOUNDS.update({"sign": _sign_by_bounds, "compare": _compare_by_bounds, "and": _logic_by_one, "or": _logic_by_one})
