# SPDX-License-Identifier: Apache-2.0
"""Paddle's elementwise ops, casts and comparisons."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from straightline.capture.builder import DTYPES, TensorType
from straightline.capture.extents import product_of
from straightline.capture.graph_builder import FLOATS, Number, Reject, Tensor
from straightline.capture.paddle.importer import Importer, Node, converter, fold
from straightline.capture.paddle.linear import with_bias
from straightline.capture.paddle.values import Known, Value, known, numpy_dtype

_UNARY = {
    "abs": "abs", "exp": "exp", "expm1": "expm1", "log": "log", "log1p": "log1p", "log2": "log2", "log10": "log10",
    "sqrt": "sqrt", "rsqrt": "rsqrt", "reciprocal": "reciprocal", "sin": "sin", "cos": "cos", "tan": "tan", "tanh": "tanh",
    "sigmoid": "sigmoid", "relu": "relu", "erf": "erf", "silu": "silu", "swish": "silu", "floor": "floor", "ceil": "ceil",
    "trunc": "trunc", "sign": "sign", "isnan": "isnan", "isinf": "isinf", "bitwise_not": "bitwise_not",
}  # fmt: skip
_BINARY = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "floor_divide": "floor_divide",
    "remainder": "remainder", "maximum": "maximum", "minimum": "minimum", "elementwise_pow": "pow", "atan2": "atan2",
    "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor",
}  # fmt: skip
_COMPARISONS = {
    "equal": "eq", "not_equal": "ne", "less_than": "lt", "less_equal": "le", "greater_than": "gt", "greater_equal": "ge",
}  # fmt: skip
_LOGICAL = {"logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor"}
#: Powers of ten that an element type has.
_MOST_DECIMALS = {"f16": 4, "bf16": 38, "f32": 38, "f64": 308}
#: Larger powers of integers but 0, 1 and -1 have no result in 64 bits.
_MOST_POWER = 63
_ROUNDING = ("floor", "ceil", "trunc", "sign", "abs", "relu")
_ANSWERS = ("isnan", "isinf")


@converter(*_UNARY, takes="floats; `abs`, `sign`, `relu` and `bitwise_not` of integers too")
def _unary(ctx: Importer, node: Node) -> Tensor:
    x, name = ctx.tensor(node.inputs[0]), _UNARY[node.op.short]
    if name in _ANSWERS:
        if x.dtype not in FLOATS:
            return ctx.full(False, "i1", x.extents)
        return ctx.emit_one(name, [x], TensorType("i1", x.extents))
    if name in ("floor", "ceil", "trunc") and x.dtype not in FLOATS:
        return x
    if name == "sign" and x.dtype in FLOATS:  # Paddle's sign of a NaN is NaN
        return ctx.where(ctx.emit_one("isnan", [x], TensorType("i1", x.extents)), x, ctx.unary(name, x))
    if name not in (*_ROUNDING, "bitwise_not") and x.dtype not in FLOATS:
        declared = node.op.types[0].dtype  # type: ignore[union-attr]
        return ctx.unary(name, ctx.cast(x, declared if declared in FLOATS else "f32"))
    return ctx.unary(name, x)


@converter("isfinite", takes="floats")
def _isfinite(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    if x.dtype not in FLOATS:
        return ctx.full(True, "i1", x.extents)
    type = TensorType("i1", x.extents)
    either = ctx.emit_one("logical_or", [ctx.emit_one("isnan", [x], type), ctx.emit_one("isinf", [x], type)], type)
    return ctx.emit_one("logical_not", [either], type)


@converter("square")
def _square(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    return ctx.binary("mul", x, x)


@converter("round", takes="any `decimals`")
def _round(ctx: Importer, node: Node) -> Tensor:
    x, decimals = ctx.tensor(node.inputs[0]), int(node.attribute("decimals", 0))
    if x.dtype not in FLOATS:
        return x
    if decimals == 0:
        return ctx.unary("round", x)
    if abs(decimals) > _MOST_DECIMALS[x.dtype]:
        raise Reject(f"round of {x.dtype} to {decimals} decimals", f"at most {_MOST_DECIMALS[x.dtype]}")
    there, back = ("mul", "div") if decimals > 0 else ("div", "mul")
    power = ctx.operand(10.0 ** abs(decimals), x.type)
    return ctx.binary(back, ctx.unary("round", ctx.binary(there, x, power)), power)


@converter("gelu", takes="both forms")
def _gelu(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    return ctx.unary("gelu", x, approximate="tanh" if node.attribute("approximate") else "none")


@converter("leaky_relu")
def _leaky_relu(ctx: Importer, node: Node) -> Tensor:
    return ctx.unary("leaky_relu", ctx.tensor(node.inputs[0]), negative_slope=float(node.attribute("negative_slope")))


@converter("elu")
def _elu(ctx: Importer, node: Node) -> Tensor:
    return ctx.unary("elu", ctx.tensor(node.inputs[0]), alpha=float(node.attribute("alpha")))


@converter("celu")
def _celu(ctx: Importer, node: Node) -> Tensor:
    x, alpha = ctx.tensor(node.inputs[0]), float(node.attribute("alpha"))
    low = ctx.unary("expm1", _times(ctx, ctx.unary("clamp", x, max=0.0), 1 / alpha))
    return ctx.binary("add", ctx.unary("relu", x), _times(ctx, low, alpha))


@converter("selu")
def _selu(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    return _times(ctx, ctx.unary("elu", x, alpha=float(node.attribute("alpha"))), float(node.attribute("scale")))


@converter("hardswish")
def _hardswish(ctx: Importer, node: Node) -> Tensor:
    return ctx.unary("hardswish", ctx.tensor(node.inputs[0]))


@converter("hardsigmoid", takes="any slope and offset")
def _hardsigmoid(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    slope, offset = float(node.attribute("slope")), float(node.attribute("offset"))
    line = ctx.binary("add", _times(ctx, x, slope), ctx.operand(offset, x.type))
    return ctx.unary("clamp", line, min=0.0, max=1.0)


@converter("relu6")
def _relu6(ctx: Importer, node: Node) -> Tensor:
    return ctx.unary("clamp", ctx.tensor(node.inputs[0]), min=0.0, max=6.0)


@converter("hardtanh")
def _hardtanh(ctx: Importer, node: Node) -> Tensor:
    return ctx.unary(
        "clamp", ctx.tensor(node.inputs[0]), min=float(node.attribute("t_min")), max=float(node.attribute("t_max"))
    )


@converter("softplus")
def _softplus(ctx: Importer, node: Node) -> Tensor:
    beta, threshold = float(node.attribute("beta")), float(node.attribute("threshold"))
    return ctx.unary("softplus", ctx.tensor(node.inputs[0]), beta=beta, threshold=threshold)


@converter("mish")
def _mish(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    soft = ctx.unary("softplus", x, beta=1.0, threshold=float(node.attribute("lambda", 20.0)))
    return ctx.binary("mul", x, ctx.unary("tanh", soft))


@converter("softsign")
def _softsign(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    return ctx.binary("div", x, ctx.binary("add", ctx.unary("abs", x), ctx.operand(1.0, x.type)))


@converter("logsigmoid")
def _logsigmoid(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    return ctx.unary("neg", ctx.unary("softplus", ctx.unary("neg", x), beta=1.0, threshold=1e4))


@converter("tanh_shrink")
def _tanh_shrink(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    return ctx.binary("sub", x, ctx.unary("tanh", x))


@converter("prelu", takes="one slope, one a channel, one an element")
def _prelu(ctx: Importer, node: Node) -> Tensor:
    x, slope = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1])
    mode = node.attribute("mode")
    if mode == "all":
        slope = ctx.reshape(slope, ())
    elif mode == "channel":
        place = 1 if node.attribute("data_format") == "NCHW" else x.rank - 1
        slope = ctx.reshape(slope, tuple(x.extents[d] if d == place else 1 for d in range(x.rank)))
    else:
        slope = ctx.reshape(slope, (1, *x.extents[1:]))
    positive = ctx.compare("gt", x, ctx.full(0, x.dtype))
    return ctx.where(positive, x, ctx.binary("mul", x, slope))


def _times(ctx: Importer, x: Tensor, factor: float) -> Tensor:
    return x if factor == 1.0 else ctx.binary("mul", x, ctx.operand(factor, x.type))


# Two operands ---------------------------------------------------------------------------------------------------------


@converter(*_BINARY, takes="operands of one element type, broadcast", refuses="sizes of different names")
def _binary(ctx: Importer, node: Node) -> Tensor:
    name = _BINARY[node.op.short]
    x, y = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1])
    if name == "add" and (found := with_bias(ctx, node, x, y)) is not None:
        return found
    if x.dtype != y.dtype and x.dtype in FLOATS and y.dtype in FLOATS:
        type = node.op.types[0]  # Paddle promotes floats by itself
        x, y = ctx.cast(x, type.dtype), ctx.cast(y, type.dtype)  # type: ignore[union-attr]
    if name == "div" and x.dtype not in FLOATS:
        name = "trunc_divide" if node.op.types[0].dtype == x.dtype else name  # type: ignore[union-attr]
        if name == "div":
            x, y = ctx.cast(x, node.op.types[0].dtype), ctx.cast(y, node.op.types[0].dtype)  # type: ignore[union-attr]
    if name == "atan2" and x.dtype not in FLOATS:
        found = ctx.binary(name, ctx.cast(x, "f32"), ctx.cast(y, "f32"))  # the precision that Paddle's kernel has
        return ctx.cast(found, node.op.types[0].dtype)  # type: ignore[union-attr]
    if name == "pow" and x.dtype not in FLOATS:  # as Paddle's kernel: in float64, to the nearest integer
        found = ctx.binary(name, ctx.cast(x, "f64"), ctx.cast(y, "f64"))
        return ctx.cast(ctx.unary("round", found), x.dtype)
    if name == "floor_divide" and x.dtype in FLOATS:
        return ctx.unary("floor", ctx.binary("div", x, y))
    if x.dtype == "i1":
        logical = {"add": "logical_or", "mul": "logical_and", "bitwise_and": "logical_and", "bitwise_or": "logical_or",
                   "bitwise_xor": "logical_xor"}  # fmt: skip
        if name not in logical:
            raise Reject(f"{node.op.short} of bool", "integers or floats")
        name = logical[name]
    return ctx.binary(name, x, y)


@converter(
    "bitwise_left_shift",
    "bitwise_right_shift",
    takes="integers, shifted by any number",
    refuses="logical shifts of signed ones",
)
def _shift(ctx: Importer, node: Node) -> Tensor:
    """By two powers of two, each of which int64 holds; by fewer than none or all bits, the sign alone is left."""
    x, y = (ctx.tensor(t) for t in node.inputs[:2])
    left, bits = node.op.short == "bitwise_left_shift", np.iinfo(numpy_dtype(x.dtype)).bits
    signed = not x.dtype.startswith("u")
    if x.dtype != y.dtype:
        raise Reject(f"a shift of {x.dtype} by {y.dtype}", "operands of one element type")
    if not left and signed and not node.attribute("is_arithmetic", True):
        raise Reject(f"a logical shift of {x.dtype}", "is_arithmetic=True, or an unsigned type")
    x, y = ctx.cast(x, "i64"), ctx.cast(y, "i64")
    inside = ctx.binary("logical_and", ctx.compare("ge", y, 0), ctx.compare("lt", y, bits))
    count = ctx.where(inside, y, 0)
    half = ctx.binary("floor_divide", count, 2)
    found = x
    for part in (half, ctx.binary("sub", count, half)):
        powers = ctx.literal(np.left_shift(1, np.arange(bits // 2 + 1)), "i64")
        places = ctx.reshape(part, (product_of(part.extents),))
        flat = ctx.emit_one("index_select", [powers, places], TensorType("i64", places.extents), {"dim": 0})
        power = ctx.reshape(flat, part.extents)
        found = ctx.binary("mul" if left else "floor_divide", found, power)
    rest = ctx.where(ctx.compare("lt", x, 0), ctx.full(-1, "i64", x.extents), 0) if signed and not left else 0
    return ctx.cast(ctx.where(inside, found, rest), node.op.types[0].dtype)  # type: ignore[union-attr]


@converter("pow", takes="a constant exponent; of integers a whole one from 0 to 63")
def _pow(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    exponent = ctx.number(node.input(1), "exponent") if node.input(1) is not None else node.attribute("y")
    if exponent == 2:
        return ctx.binary("mul", x, x)
    if exponent == 1:
        return x
    if x.dtype not in FLOATS:
        return _power_of_integers(ctx, x, exponent)
    if exponent == 0.5:
        return ctx.unary("sqrt", x)
    return ctx.binary("pow", x, ctx.operand(float(exponent), x.type))


def _power_of_integers(ctx: Importer, x: Tensor, exponent: Number) -> Tensor:
    """Squares, and products of these."""
    if exponent != int(exponent) or not 0 <= exponent <= _MOST_POWER:
        raise Reject(f"power {exponent} of {x.dtype}", f"floats, or whole powers from 0 to {_MOST_POWER}")
    found, rest = None, int(exponent)
    while rest:
        if rest & 1:
            found = x if found is None else ctx.binary("mul", found, x)
        rest >>= 1
        x = ctx.binary("mul", x, x) if rest else x
    return ctx.full(1, x.dtype, x.extents) if found is None else found


@converter("fmax", "fmin")
def _fmax(ctx: Importer, node: Node) -> Tensor:
    x, y = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1])
    larger = node.op.short == "fmax"
    found = ctx.binary("maximum" if larger else "minimum", x, y)
    if x.dtype not in FLOATS:
        return found
    wide_x, wide_y = ctx.expand(x, found.extents), ctx.expand(y, found.extents)
    answer = TensorType("i1", found.extents)
    found = ctx.where(ctx.emit_one("isnan", [wide_x], answer), wide_y, found)
    return ctx.where(ctx.emit_one("isnan", [wide_y], answer), wide_x, found)


@converter("lerp")
def _lerp(ctx: Importer, node: Node) -> Tensor:
    x, y, weight = (ctx.tensor(t) for t in node.inputs[:3])
    return ctx.binary("add", x, ctx.binary("mul", ctx.cast(weight, x.dtype), ctx.binary("sub", y, x)))


def _of_one_type(ctx: Importer, node: Node) -> list[Tensor]:
    """Two operands; a number that Paddle made for one of which PIR says another type has the type that it has."""
    x, y = node.inputs[:2]
    kinds = {ctx.type_of(t).dtype for t in (x, y)}
    numbers = [isinstance(t, Known) and t.array.size == 1 for t in (x, y)]
    if len(kinds) == 1 or sum(numbers) != 1:
        return [ctx.tensor(x), ctx.tensor(y)]
    given = ctx.tensor(y if numbers[0] else x)
    return [ctx.tensor(t, given.dtype) for t in (x, y)]


@converter(*_COMPARISONS, takes="operands of one element type, broadcast")
def _comparison(ctx: Importer, node: Node) -> Tensor:
    x, y = _of_one_type(ctx, node)
    if x.dtype != y.dtype:
        raise Reject(f"{node.op.short} of {x.dtype} and {y.dtype}", "operands of one element type")
    if x.dtype == "i1":
        x, y = ctx.cast(x, "i32"), ctx.cast(y, "i32")
    return ctx.compare(_COMPARISONS[node.op.short], x, y)


@converter(*_LOGICAL, takes="any element type")
def _logical(ctx: Importer, node: Node) -> Tensor:
    x, y = (_truth(ctx, ctx.tensor(t)) for t in node.inputs[:2])
    return ctx.binary(_LOGICAL[node.op.short], x, y)


@converter("logical_not", takes="any element type")
def _logical_not(ctx: Importer, node: Node) -> Tensor:
    return ctx.unary("logical_not", _truth(ctx, ctx.tensor(node.inputs[0])))


def _truth(ctx: Importer, x: Tensor) -> Tensor:
    return x if x.dtype == "i1" else ctx.compare("ne", x, ctx.full(0, x.dtype))


# Casts, scale, choice -------------------------------------------------------------------------------------------------


def cast(ctx: Importer, x: Tensor, dtype: str) -> Tensor:
    """A conversion of Paddle's; to bool it is whether a number is not 0."""
    if dtype not in DTYPES:
        raise Reject(f"elements of {dtype}", "floats of 16 bits or more, integers or bool")
    return _truth(ctx, x) if dtype == "i1" else ctx.cast(x, dtype)


@converter("cast", takes="floats of 16 bits or more, integers, bool", refuses="complex numbers, float8")
def _cast(ctx: Importer, node: Node) -> Tensor:
    return cast(ctx, ctx.tensor(node.inputs[0]), node.attribute("dtype"))


@converter("scale", takes="a constant or computed scale, a constant bias, in both orders")
def _scale(ctx: Importer, node: Node) -> Value:
    given, factor, bias = node.inputs[0], node.input(1), node.attribute("bias", 0.0)
    if factor is None:
        factor = known(node.attribute("scale", 1.0), "f32")
    if isinstance(given, Known) and given.dtype not in FLOATS and given.dtype != "i1" and bias == int(bias):
        number = ctx.number(factor, "scale of integers")
        if number == int(number) and node.attribute("bias_after_scale", True):
            return known(given.array.astype(object) * int(number) + int(bias), given.dtype)
    x = ctx.tensor(given)
    if x.dtype not in FLOATS:
        return _scaled_integers(ctx, node, x, factor, bias)
    added = ctx.operand(float(bias), x.type) if bias else None
    if added is not None and not node.attribute("bias_after_scale", True):
        x, added = ctx.binary("add", x, added), None
    if not (isinstance(factor, Known) and float(factor.array.reshape(-1)[0]) == 1.0):
        x = ctx.binary("mul", x, ctx.reshape(ctx.tensor(factor, x.dtype), ()))
    return x if added is None else ctx.binary("add", x, added)


def _scaled_integers(ctx: Importer, node: Node, x: Tensor, factor: Value, bias: float) -> Tensor:
    number = ctx.number(factor, "scale of integers")
    if number != int(number) or bias != int(bias):
        raise Reject(f"scale of {x.dtype} by {number} and {bias}", "whole numbers")
    if not node.attribute("bias_after_scale", True):
        x, bias = ctx.binary("add", x, ctx.operand(int(bias), x.type)), 0
    x = x if number == 1 else ctx.binary("mul", x, ctx.operand(int(number), x.type))
    return x if not bias else ctx.binary("add", x, ctx.operand(int(bias), x.type))


@converter("clip", takes="constant or computed bounds")
def _clip(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    bounds = [node.input(1), node.input(2)]
    if all(isinstance(b, Known) for b in bounds):
        low, high = (_typed(ctx.number(b, "bound"), x.dtype) for b in bounds)
        return ctx.unary("clamp", x, min=low, max=high)
    tensors = [ctx.tensor(b, x.dtype) for b in bounds]
    if any(product_of(t.extents) != 1 for t in tensors):
        raise Reject("clip by bounds of several elements", "a number for each bound")
    low_tensor, high_tensor = (ctx.reshape(t, ()) for t in tensors)
    return ctx.binary("minimum", ctx.binary("maximum", x, low_tensor), high_tensor)


def _typed(value: Number, dtype: str) -> Number:
    if dtype in FLOATS:
        return float(value)
    return int(min(max(value, -(2**63)), 2**63 - 1)) if math.isfinite(value) else int(math.copysign(2**62, value))


@converter("where", takes="operands of one element type, broadcast")
def _where_op(ctx: Importer, node: Node) -> Tensor:
    condition, x, y = (ctx.tensor(t) for t in node.inputs[:3])
    if x.dtype != y.dtype:
        raise Reject(f"where of {x.dtype} and {y.dtype}", "operands of one element type")
    return ctx.where(condition, x, y)


@converter("masked_fill", takes="a constant or computed value")
def _masked_fill(ctx: Importer, node: Node) -> Tensor:
    x, mask = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1])
    value = ctx.tensor(node.inputs[2], x.dtype)
    return ctx.where(mask, ctx.reshape(value, ()) if value.extents == (1,) else value, x)


@converter("increment_")
def _increment(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    return ctx.binary("add", x, ctx.operand(_typed(node.attribute("value", 1.0), x.dtype), x.type))


@converter("stanh", takes="floats")
def _stanh(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    inner = _times(ctx, x, float(node.attribute("scale_a", 0.67)))
    return _times(ctx, ctx.unary("tanh", inner), float(node.attribute("scale_b", 1.7159)))


@converter("copysign", takes="floats and integers, broadcast")
def _copysign(ctx: Importer, node: Node) -> Tensor:
    x, y = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1])
    if y.dtype in FLOATS and x.dtype not in FLOATS:
        x = ctx.cast(x, y.dtype)
    if x.dtype not in FLOATS:
        other = ctx.compare("ne", ctx.cast(ctx.compare("lt", x, 0), "i32"), ctx.cast(ctx.compare("lt", y, 0), "i32"))
        return ctx.where(other, ctx.binary("sub", ctx.full(0, x.dtype, x.extents), x), x)
    extents = ctx.common(x.extents, y.extents)
    operands = [ctx.expand(x, extents), ctx.expand(ctx.cast(y, x.dtype), extents)]
    return ctx.emit_one("special", operands, TensorType(x.dtype, extents), {"function": "copysign"})


@converter("nextafter", takes="float32 and float64, broadcast")
def _nextafter(ctx: Importer, node: Node) -> Tensor:
    x, y = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1])
    if x.dtype != y.dtype or x.dtype not in ("f32", "f64"):
        raise Reject(f"nextafter of {x.dtype} and {y.dtype}", "operands of one element type, float32 or float64")
    extents = ctx.common(x.extents, y.extents)
    operands = [ctx.expand(x, extents), ctx.expand(y, extents)]
    return ctx.emit_one("special", operands, TensorType(x.dtype, extents), {"function": "nextafter"})


@converter("angle", takes="floats")
def _angle(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    found = ctx.where(ctx.compare("lt", x, 0.0), ctx.full(math.pi, x.dtype), ctx.full(0.0, x.dtype))
    return ctx.where(ctx.emit_one("isnan", [x], TensorType("i1", x.extents)), x, found)


@converter("conj", takes="real numbers, which stay as they are", refuses="complex numbers")
def _conj(ctx: Importer, node: Node) -> Tensor:
    return ctx.tensor(node.inputs[0])


@converter("is_empty", takes="static sizes")
def _is_empty(ctx: Importer, node: Node) -> Tensor:
    type = ctx.type_of(node.inputs[0])
    if not type.is_static:
        raise Reject(f"is_empty of the sizes {list(type.extents)}", "static sizes")
    return ctx.full(0 in type.extents, "i1")


@converter("equal_all")
def _equal_all(ctx: Importer, node: Node) -> Tensor:
    x, y = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1])
    if x.dtype != y.dtype:
        raise Reject(f"equal_all of {x.dtype} and {y.dtype}", "operands of one element type")
    if x.type.is_static and y.type.is_static and x.extents != y.extents:
        return ctx.full(False, "i1")
    if x.dtype == "i1":
        x, y = ctx.cast(x, "i32"), ctx.cast(y, "i32")
    same = ctx.compare("eq", x, y)
    return ctx.reduce("all", same, list(range(same.rank)), False)


@converter("add_n")
def _add_n(ctx: Importer, node: Node) -> Tensor:
    first, *others = ctx.tensors(node.inputs[0]) if isinstance(node.inputs[0], list) else [ctx.tensor(node.inputs[0])]
    for other in others:
        first = ctx.binary("add", first, other)
    return first


# Folds ----------------------------------------------------------------------------------------------------------------

_ARITHMETIC: dict[str, Callable[..., object]] = {
    "add": lambda x, y: x + y, "subtract": lambda x, y: x - y, "multiply": lambda x, y: x * y,
    "floor_divide": lambda x, y: x // y, "remainder": lambda x, y: x % y,
}  # fmt: skip


def _pair(node: Node) -> tuple[Known, Known]:
    x, y = node.inputs[:2]
    assert isinstance(x, Known) and isinstance(y, Known)
    return x, y


@fold(*_ARITHMETIC)
def _fold_arithmetic(node: Node) -> Known | None:
    x, y = _pair(node)
    if x.dtype != y.dtype or "i1" in (x.dtype, y.dtype):
        return None
    if node.op.short in ("floor_divide", "remainder") and not y.is_sizes and (y.array <= 0).any():
        return None
    return known(_ARITHMETIC[node.op.short](x.array.astype(object), y.array.astype(object)), x.dtype)


@fold("cast")
def _fold_cast(node: Node) -> Known | None:
    (x,) = node.inputs[:1]
    assert isinstance(x, Known)
    dtype = node.attribute("dtype")
    if dtype in FLOATS or dtype == "i1" and x.is_sizes or dtype not in DTYPES:
        return None
    return known(x.array if x.is_sizes else x.array.astype(object), dtype)


@fold(*_COMPARISONS)
def _fold_comparison(node: Node) -> Known | None:
    x, y = _pair(node)
    if x.is_sizes or y.is_sizes or x.dtype == "i1":
        return None
    function = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
                "ge": np.greater_equal}[_COMPARISONS[node.op.short]]  # fmt: skip
    return Known(np.asarray(function(x.array, y.array)), "i1")


@fold("logical_and", "logical_or", "logical_not")
def _fold_logical(node: Node) -> Known | None:
    arrays = [x.array for x in node.inputs if isinstance(x, Known)]
    if any(a.dtype == object for a in arrays):
        return None
    function = {"logical_and": np.logical_and, "logical_or": np.logical_or, "logical_not": np.logical_not}
    return Known(np.asarray(function[node.op.short](*arrays)), "i1")
