# SPDX-License-Identifier: Apache-2.0
"""ONNX ops of elements: arithmetic, comparisons, activations, conversions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from straightline.capture import elementary
from straightline.capture.builder import TensorType
from straightline.capture.extents import maximum, minimum
from straightline.capture.graph_builder import FLOATS, Reject, Tensor
from straightline.capture.onnx.importer import CONVERSIONS, Importer, Node, converter
from straightline.capture.onnx.values import DTYPES, NARROW, Known, Value, dtype_of, numpy_dtype, sizes

_BITS = {"ui8": 8, "ui16": 16, "ui32": 32, "ui64": 64, "i8": 8, "i16": 16, "i32": 32, "i64": 64}


# Sizes: the same ops on integers of which some are named extents ------------------------------------------------------

_OF_SIZES: dict[str, Callable[[Importer, Any, Any], Any]] = {
    "Add": lambda _, x, y: x + y,
    "Sub": lambda _, x, y: x - y,
    "Mul": lambda _, x, y: x * y,
    "Div": lambda ctx, x, y: _truncated(ctx, x, y),
    "Mod": lambda _, x, y: x % y,
    "Max": lambda ctx, x, y: maximum(x, y, ctx.ranges),
    "Min": lambda ctx, x, y: minimum(x, y, ctx.ranges),
}


def _truncated(ctx: Importer, x: Any, y: Any) -> Any:
    """A quotient of sizes as ONNX has it, rounded toward 0; extents have those that are rounded down."""
    if ctx.bounds(y)[0] < 1:
        raise Reject(f"the size {x} by {y}, which may be below 1", "a divisor of 1 or more")
    if ctx.bounds(x)[0] >= 0:
        return x // y
    return maximum(x, 0, ctx.ranges) // y - maximum(-x, 0, ctx.ranges) // y


def _on_sizes(ctx: Importer, node: Node, inputs: Sequence[Value | None] | None = None, kind: str = "") -> Known | None:
    """Arithmetic on sizes, where all operands are known and one has a named extent; of the node's inputs by default."""
    kind, inputs = kind or node.kind, node.inputs if inputs is None else inputs
    known = [x for x in inputs if isinstance(x, Known)]
    if len(known) != len(inputs) or kind not in _OF_SIZES or not any(x.is_sizes for x in known):
        return None
    if any(x.array.dtype.kind not in "Oiu" for x in known):
        return None

    def combined(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        x, y = np.broadcast_arrays(first, second)
        found = np.empty(x.shape, dtype=object)
        for place in np.ndindex(x.shape):
            pair = (a[place] if hasattr(a[place], "text") else int(a[place]) for a in (x, y))
            found[place] = _OF_SIZES[kind](ctx, *pair)
        return found

    return sizes(reduce(combined, [x.array.astype(object) for x in known]))


def _negated(ctx: Importer, node: Node) -> Known | None:
    return _on_sizes(ctx, node, (Known(np.asarray(0)), node.inputs[0]), "Sub")


def _absolute(ctx: Importer, node: Node) -> Known | None:
    negated = _negated(ctx, node)
    return None if negated is None else _on_sizes(ctx, node, (node.inputs[0], negated), "Max")


def _not_negative(ctx: Importer, node: Node) -> Known | None:
    return _on_sizes(ctx, node, (node.inputs[0], Known(np.asarray(0))), "Max")


_OF_A_SIZE: dict[str, Callable[[Importer, Node], Known | None]] = {
    "Neg": _negated, "Abs": _absolute, "Relu": _not_negative,
}  # fmt: skip


# Plain ops ------------------------------------------------------------------------------------------------------------


def _unary(name: str, op: str, wide: bool = False) -> None:
    @converter(name)
    def convert(ctx: Importer, node: Node) -> Value:
        if name in _OF_A_SIZE and (found := _OF_A_SIZE[name](ctx, node)) is not None:
            return found
        x = ctx.tensor(node.inputs[0])
        return ctx.wide(x, lambda t: ctx.unary(op, t)) if wide else ctx.unary(op, x)


for _name, _op in {
    "Abs": "abs", "Neg": "neg", "Floor": "floor", "Ceil": "ceil", "Round": "round", "Sign": "sign", "Relu": "relu",
    "BitwiseNot": "bitwise_not", "HardSwish": "hardswish",
}.items():  # fmt: skip
    _unary(_name, _op)
for _name, _op in {
    "Exp": "exp", "Log": "log", "Sqrt": "sqrt", "Reciprocal": "reciprocal", "Sin": "sin", "Cos": "cos", "Tan": "tan",
    "Tanh": "tanh", "Sigmoid": "sigmoid", "Erf": "erf",
}.items():  # fmt: skip
    _unary(_name, _op, wide=True)


def _float(function: Callable[[Importer, Tensor, Node], Tensor], *names: str) -> None:
    """A function of one tensor of floats, halves in f32."""

    @converter(*names)
    def convert(ctx: Importer, node: Node) -> Tensor:
        return ctx.wide(ctx.tensor(node.inputs[0]), lambda x: function(ctx, x, node))


for _name, _function in elementary.FUNCTIONS.items():
    _float(lambda ctx, x, node, function=_function: function(ctx, x), _name.capitalize())


@converter("Identity")
def _identity(ctx: Importer, node: Node) -> Value | None:
    return node.inputs[0]


@converter("Dropout")
def _dropout(ctx: Importer, node: Node) -> list[Value | None]:
    x = node.inputs[0]
    if x is None:
        raise Reject("a missing input")
    trains = node.input(2)
    ratio = node.input(1)
    if trains is not None and bool(ctx.known(trains, "training_mode of Dropout").array.reshape(-1)[0]):
        if ratio is None or float(ctx.known(ratio, "the ratio of Dropout").array.reshape(-1)[0]) != 0:
            raise Reject("a dropout that draws numbers", "training_mode false")
    mask = ctx.full(True, "i1", ctx.type_of(x).extents) if node.reads(1) else None
    return [x, mask]


@converter("Not")
def _not(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    return ctx.emit_one("logical_not", [x], TensorType("i1", x.extents))


@converter("IsNaN")
def _isnan(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    return ctx.emit_one("isnan", [x], TensorType("i1", x.extents))


@converter("IsInf")
def _isinf(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    negative, positive = node.attribute("detect_negative", 1), node.attribute("detect_positive", 1)
    if negative and positive:
        return ctx.emit_one("isinf", [x], TensorType("i1", x.extents))
    if not negative and not positive:
        return ctx.full(False, "i1", x.extents)
    return ctx.compare("eq", x, -math.inf if negative else math.inf)


def _arithmetic(name: str, op: str) -> Callable[[Importer, Node], Value]:
    @converter(name)
    def convert(ctx: Importer, node: Node) -> Value:
        found = _on_sizes(ctx, node)
        if found is not None:
            return found
        x, y = (ctx.tensor(x) for x in node.inputs)
        for gate, other in ((x, y), (y, x)):
            if op == "mul" and x.dtype in FLOATS and ctx.operand_of(gate, "Sigmoid") is other:
                return ctx.wide(other, lambda t: ctx.unary("silu", t))  # x * sigmoid(x), as exporters write it
        return ctx.binary(op, x, y)

    return convert


added = _arithmetic("Add", "add")

for _name, _op in {
    "Sub": "sub", "Mul": "mul", "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or", "BitwiseXor": "bitwise_xor",
}.items():  # fmt: skip
    _arithmetic(_name, _op)


@converter("Div")
def _div(ctx: Importer, node: Node) -> Value:
    found = _on_sizes(ctx, node)
    if found is not None:
        return found
    x, y = (ctx.tensor(x) for x in node.inputs)
    return ctx.binary("div" if x.dtype in FLOATS else "trunc_divide", x, y)


@converter("Mod")
def _mod(ctx: Importer, node: Node) -> Value:
    found = _on_sizes(ctx, node)
    if found is not None:
        return found
    return ctx.binary("fmod" if node.attribute("fmod", 0) else "remainder", *(ctx.tensor(x) for x in node.inputs))


@converter("Pow")
def _pow(ctx: Importer, node: Node) -> Tensor:
    x, y = node.inputs
    base = ctx.tensor(x)
    if isinstance(y, Known) and y.array.size == 1 and base.dtype in FLOATS:
        exponent = float(y.array.reshape(-1)[0])
        if exponent == 2 and y.array.ndim <= base.rank:
            return ctx.binary("mul", base, base)
        if exponent == 0.5 and y.array.ndim <= base.rank:
            return ctx.wide(base, lambda t: ctx.unary("sqrt", t))
    other = ctx.tensor(y)
    if other.dtype == base.dtype:
        if base.dtype in ("f16", "bf16"):
            return ctx.cast(ctx.binary("pow", base, other, dtype="f32"), base.dtype)
        return ctx.binary("pow", base, other)
    if other.dtype in FLOATS and base.dtype not in FLOATS:
        wide = "f64" if other.dtype == "f64" else "f32"
        return ctx.cast(ctx.binary("pow", base, other, dtype=wide), base.dtype)
    return ctx.binary("pow", base, other, dtype=base.dtype)


def _variadic(name: str, op: str) -> None:
    @converter(name)
    def convert(ctx: Importer, node: Node) -> Value:
        found = _on_sizes(ctx, node)
        return (
            found
            if found is not None
            else reduce(lambda x, y: ctx.binary(op, x, y), [ctx.tensor(x) for x in node.inputs])
        )


_variadic("Max", "maximum")
_variadic("Min", "minimum")
_variadic("Sum", "add")


@converter("Mean")
def _mean(ctx: Importer, node: Node) -> Tensor:
    total = reduce(lambda x, y: ctx.binary("add", x, y), [ctx.tensor(x) for x in node.inputs])
    return ctx.binary("div", total, len(node.inputs))


def _comparison(name: str, op: str) -> None:
    @converter(name)
    def convert(ctx: Importer, node: Node) -> Value:
        x, y = node.inputs
        if op == "eq" and isinstance(x, Known) and isinstance(y, Known) and (x.is_sizes or y.is_sizes):
            known = _decided(ctx, *_flat(x, y))
            if known is not None:
                return Known(known.reshape(np.broadcast_shapes(x.array.shape, y.array.shape)))
        return ctx.compare(op, ctx.tensor(x), ctx.tensor(y))


def _flat(x: Known, y: Known) -> tuple[list[Any], list[Any]]:
    a, b = np.broadcast_arrays(x.array.astype(object), y.array.astype(object))
    return list(a.reshape(-1)), list(b.reshape(-1))


def _decided(ctx: Importer, x: list[Any], y: list[Any]) -> np.ndarray | None:
    """Whether sizes are equal, where bounds or equal texts tell; None where only a call knows."""
    same = [a == b for a, b in zip(x, y)]
    for i, (a, b) in enumerate(zip(x, y)):
        if same[i]:
            continue
        a, b = (t if hasattr(t, "text") else int(t) for t in (a, b))
        low, high = ctx.bounds(a - b)
        if low <= 0 <= high:
            return None
    return np.asarray(same, dtype=bool)


for _name, _op in {
    "Equal": "eq", "Less": "lt", "LessOrEqual": "le", "Greater": "gt", "GreaterOrEqual": "ge", "And": "logical_and",
    "Or": "logical_or", "Xor": "logical_xor",
}.items():  # fmt: skip
    _comparison(_name, _op)


@converter("Where")
def _where(ctx: Importer, node: Node) -> Value:
    condition, x, y = node.inputs
    if all(isinstance(t, Known) for t in node.inputs) and isinstance(condition, Known) and not condition.is_sizes:
        a, b = (t.array.astype(object) for t in (x, y) if isinstance(t, Known))
        chosen = np.where(condition.array, a, b)
        if all(isinstance(t, Known) and t.array.dtype.kind in "Oiu" for t in (x, y)):
            return sizes(chosen)
    return ctx.where(ctx.tensor(condition), ctx.tensor(x), ctx.tensor(y))


@converter("BitShift")
def _bit_shift(ctx: Importer, node: Node) -> Tensor:
    """X times a power of two, modulo the type, or divided by one. A count outside of 0 .. bits - 1 shifts all bits out."""
    x, y = ctx.common(*(ctx.tensor(x) for x in node.inputs))
    bits, signed = _BITS[x.dtype], not x.dtype.startswith("u")
    left = node.attribute("direction") == "LEFT"
    most = bits - 1 if left or not signed else bits - 2  # dividing by the sign bit is no shift
    powers = ctx.literal(
        np.asarray([(1 << i) % (1 << bits) for i in range(most + 1)], dtype=np.uint64).astype(numpy_dtype(x.dtype))
    )
    index = ctx.cast(ctx.unary("clamp", y, min=0, max=most), "i64")
    power = ctx.emit_one("index", [powers, index], TensorType(x.dtype, index.extents), {"dims": [0]})
    shifted = ctx.binary("mul" if left else "floor_divide", x, power)
    out = (
        ctx.full(0, x.dtype)
        if left or not signed
        else ctx.where(ctx.compare("lt", x, 0), ctx.full(-1, x.dtype), ctx.full(0, x.dtype))
    )
    beyond = ctx.compare("gt", y, most)
    if signed:
        negative = ctx.compare("lt", y, 0)
        beyond = ctx.emit_one("logical_or", [beyond, negative], negative.type)
    return ctx.where(beyond, out, shifted)


def _width(dtype: str) -> int:
    return 8 if dtype == "i1" else _BITS.get(dtype, 0)


#: Types whose bits are taken as others'.
_WIDE = {"f32": 32, "i32": 32, "ui32": 32, "f64": 64, "i64": 64, "ui64": 64}


@converter("BitCast")
def _bit_cast(ctx: Importer, node: Node) -> Tensor:
    x, dtype = ctx.tensor(node.inputs[0]), dtype_of(node.attribute("to"))
    if x.dtype == dtype or _width(x.dtype) == _width(dtype) != 0:
        return ctx.cast(x, dtype)  # which keeps the bits of integers
    if _WIDE.get(x.dtype, 0) == _WIDE.get(dtype, 1):
        return ctx.emit_one("bit_cast", [x], TensorType(dtype, x.extents))
    raise Reject(f"the bits of {x.dtype} as {dtype}", "types of 32 or of 64 bits, or integers of one width")


# Activations ----------------------------------------------------------------------------------------------------------


def _affine(ctx: Importer, x: Tensor, scale: float, shift: float) -> Tensor:
    return ctx.binary("add", ctx.binary("mul", x, scale), shift)


_float(lambda ctx, x, n: ctx.unary("softplus", x, beta=1.0, threshold=20.0), "Softplus")
_float(lambda ctx, x, n: ctx.binary("div", x, ctx.binary("add", ctx.unary("abs", x), 1)), "Softsign")
_float(lambda ctx, x, n: ctx.unary("leaky_relu", x, negative_slope=float(n.attribute("alpha", 0.01))), "LeakyRelu")
_float(lambda ctx, x, n: ctx.unary("elu", x, alpha=float(n.attribute("alpha", 1.0))), "Elu")
_float(
    lambda ctx, x, n: ctx.unary("gelu", x, approximate=n.attribute("approximate", "none")), "Gelu", "com.microsoft.Gelu"
)


def _hard_sigmoid(ctx: Importer, x: Tensor, node: Node) -> Tensor:
    if np.float32(node.attribute("alpha", 0.2)) == np.float32(1 / 6) and node.attribute("beta", 0.5) == 0.5:
        return ctx.unary("hardsigmoid", x)
    scaled = _affine(ctx, x, float(node.attribute("alpha", 0.2)), float(node.attribute("beta", 0.5)))
    return ctx.unary("clamp", scaled, min=0.0, max=1.0)


def _selu(ctx: Importer, x: Tensor, node: Node) -> Tensor:
    alpha, gamma = node.attribute("alpha", 1.6732632423543772), node.attribute("gamma", 1.0507009873554805)
    return ctx.binary("mul", ctx.unary("elu", x, alpha=float(alpha)), float(gamma))


def _celu(ctx: Importer, x: Tensor, node: Node) -> Tensor:
    alpha = float(node.attribute("alpha", 1.0))
    return ctx.where(
        ctx.compare("gt", x, 0), x, ctx.binary("mul", ctx.unary("expm1", ctx.binary("div", x, alpha)), alpha)
    )


def _mish(ctx: Importer, x: Tensor, node: Node) -> Tensor:
    return ctx.binary("mul", x, ctx.unary("tanh", ctx.unary("softplus", x, beta=1.0, threshold=20.0)))


def _thresholded_relu(ctx: Importer, x: Tensor, node: Node) -> Tensor:
    return ctx.where(ctx.compare("gt", x, float(node.attribute("alpha", 1.0))), x, 0.0)


def _swish(ctx: Importer, x: Tensor, node: Node) -> Tensor:
    alpha = float(node.attribute("alpha", 1.0))
    return (
        ctx.unary("silu", x) if alpha == 1 else ctx.binary("mul", x, ctx.unary("sigmoid", ctx.binary("mul", x, alpha)))
    )


def _shrink(ctx: Importer, x: Tensor, node: Node) -> Tensor:
    bound, bias = float(node.attribute("lambd", 0.5)), float(node.attribute("bias", 0.0))
    low = ctx.where(ctx.compare("lt", x, -bound), ctx.binary("add", x, bias), 0.0)
    return ctx.where(ctx.compare("gt", x, bound), ctx.binary("sub", x, bias), low)


_float(_hard_sigmoid, "HardSigmoid")
_float(_selu, "Selu")
_float(_celu, "Celu")
_float(_mish, "Mish")
_float(_thresholded_relu, "ThresholdedRelu")
_float(_swish, "Swish", "com.microsoft.QuickGelu")


@converter("Shrink")
def _shrink_any(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    return ctx.cast(_shrink(ctx, x if x.dtype in FLOATS else ctx.cast(x, "f64"), node), x.dtype)


@converter("PRelu")
def _prelu(ctx: Importer, node: Node) -> Tensor:
    x, slope = (ctx.tensor(x) for x in node.inputs)
    if (
        slope.rank == 1
        and x.rank > 1
        and slope.extents[0] not in (1, x.extents[-1])
        and slope.extents[0] == x.extents[1]
    ):
        slope = ctx.reshape(slope, (*slope.extents, *(1 for _ in range(x.rank - 2))))  # one a channel, before op set 7
    return ctx.where(ctx.compare("lt", x, 0), ctx.binary("mul", x, slope), x)


@converter("Clip")
def _clip(ctx: Importer, node: Node) -> Value:
    size: Value | None = node.inputs[0]
    for place, kind in ((1, "Max"), (2, "Min")):
        if node.input(place) is not None and size is not None:
            size = _on_sizes(ctx, node, (size, node.input(place)), kind)
    if isinstance(size, Known) and size is not node.inputs[0]:
        return size
    x = ctx.tensor(node.inputs[0])
    for place, op in ((1, "maximum"), (2, "minimum")):
        bound = node.input(place)
        if bound is None:
            continue
        if isinstance(bound, Known) and bound.array.size == 1:
            number = bound.array.reshape(-1)[0]
            value = float(number) if x.dtype in FLOATS else int(number)
            if x.dtype in FLOATS or -(2**63) <= value < 2**63:
                x = ctx.unary("clamp", x, **{"min" if place == 1 else "max": value})
                continue
        x = ctx.binary(op, x, ctx.reshape(ctx.tensor(bound), ()))
    return x


# Conversions ----------------------------------------------------------------------------------------------------------


@converter("Cast")
def _cast(ctx: Importer, node: Node) -> Value:
    return _to(ctx, node, node.attribute("to"))


def _to(ctx: Importer, node: Node, element: int) -> Value:
    dtype = dtype_of(element)
    x = node.inputs[0]
    if isinstance(x, Known) and x.is_sizes and dtype in ("i64", "i32"):
        return x
    if element in NARROW:
        return to_narrow(ctx, ctx.tensor(x), NARROW[element], node.attribute("round_mode", "up"))
    x = ctx.tensor(x)
    if x.dtype.startswith("f8") and x.dtype != dtype:
        x = of_float8(ctx, x, "f32")
    if dtype.startswith("f8") and x.dtype != dtype:
        return to_float8(ctx, x, dtype, bool(node.attribute("saturate", 1)))
    return ctx.cast(x, dtype)


#: Bits of narrow integers, and whether they have a sign.
INTEGERS = {"INT4": (4, True), "UINT4": (4, False), "INT2": (2, True), "UINT2": (2, False)}


def to_narrow(ctx: Importer, x: Tensor, name: str, rounding: str = "up") -> Tensor:
    """Numbers as those of a narrow type: integers modulo its range, floats to the nearest, exponents alone as it says."""
    if x.dtype.startswith("f8"):
        x = of_float8(ctx, x, "f32")
    if name in INTEGERS:
        bits, signed = INTEGERS[name]
        half = 1 << (bits - 1) if signed else 0
        whole = ctx.cast(ctx.unary("trunc", x) if x.dtype in FLOATS else x, "i32")
        kept = ctx.binary("bitwise_and", ctx.binary("add", whole, half) if half else whole, (1 << bits) - 1)
        found = ctx.cast(ctx.binary("sub", kept, half) if half else kept, "i8" if signed else "ui8")
    elif name == "FLOAT4E2M1":
        found = _to_float4(ctx, ctx.cast(x, "f32"))
    else:
        found = _to_exponent(ctx, ctx.cast(x, "f32"), rounding)
    return ctx.mark_narrow(found, name)


def _to_float4(ctx: Importer, x: Tensor) -> Tensor:
    """Of 0, 0.5, 1, 1.5, 2, 3, 4 and 6 the nearest, halves to the even one."""
    size = ctx.unary("clamp", ctx.unary("abs", x), min=0.0, max=6.0)
    large = ctx.where(ctx.compare("lt", size, 4.0), ctx.full(1.0, "f32"), ctx.full(2.0, "f32"))
    step = ctx.where(ctx.compare("lt", size, 2.0), ctx.full(0.5, "f32"), large)
    near = ctx.binary("mul", ctx.unary("round", ctx.binary("div", size, step)), step)
    near = ctx.where(ctx.emit_one("isnan", [x], TensorType("i1", x.extents)), ctx.full(-0.0, "f32"), near)  # NaN
    return ctx.where(ctx.compare("lt", x, 0), ctx.unary("neg", near), near)


def _to_exponent(ctx: Importer, x: Tensor, rounding: str) -> Tensor:
    """Powers of two from 2 ** -127 to 2 ** 127."""
    size = ctx.unary("abs", x)
    finite = ctx.unary("clamp", size, min=2.0**-127, max=2.0**127)
    exponent = ctx.binary("sub", ctx.unary("special", finite, function="frexp_exponent"), 1.0)
    powers = ctx.literal(np.asarray([2.0 ** (i - 127) for i in range(255)], np.float32))
    place = ctx.cast(ctx.binary("add", exponent, 127.0), "i64")

    def power(index: Tensor) -> Tensor:
        index = ctx.unary("clamp", index, min=0, max=254)
        return ctx.emit_one("index", [powers, index], TensorType("f32", index.extents), {"dims": [0]})

    low, high = power(place), power(ctx.binary("add", place, 1))
    goes_up = {
        "up": lambda: ctx.compare("gt", finite, low),
        "down": lambda: ctx.compare("lt", finite, low),
        "nearest": lambda: ctx.compare("ge", finite, ctx.binary("mul", low, 1.5)),
    }[rounding]()
    found = ctx.where(goes_up, high, low)
    return ctx.where(ctx.emit_one("isnan", [x], TensorType("i1", x.extents)), ctx.full(math.nan, "f32"), found)


@dataclass(frozen=True)
class _Float8:
    """A float of 8 bits: of its mantissa, its smallest exponent, the codes of its largest number and of what is larger."""

    mantissa: int
    least: int
    most: int
    beyond: int
    signless_nan: bool


_FLOAT8 = {
    "f8E4M3FN": _Float8(3, -6, 0x7E, 0x7F, False), "f8E4M3FNUZ": _Float8(3, -7, 0x7F, 0x80, True),
    "f8E5M2": _Float8(2, -14, 0x7B, 0x7C, False), "f8E5M2FNUZ": _Float8(2, -15, 0x7F, 0x80, True),
}  # fmt: skip


def of_float8(ctx: Importer, x: Tensor, dtype: str) -> Tensor:
    """Floats of 8 bits as other numbers: each is a place of a table. The IR moves them and computes nothing with them."""
    table = np.arange(256, dtype=np.uint8).view(numpy_dtype(x.dtype)).astype(np.float32)
    place = ctx.emit_one(
        "to_dtype", [ctx.emit_one("to_dtype", [x], TensorType("ui8", x.extents))], TensorType("i64", x.extents)
    )
    found = ctx.emit_one("index", [ctx.literal(table), place], TensorType("f32", x.extents), {"dims": [0]})
    return ctx.cast(found, dtype)


CONVERSIONS["of_float8"] = of_float8


def to_float8(ctx: Importer, x: Tensor, dtype: str, saturate: bool = True) -> Tensor:
    """Floats of 8 bits, to the nearest, halves to even; what is larger becomes the largest, or infinity or NaN."""
    if dtype not in _FLOAT8:
        raise Reject(f"a conversion to {dtype}", ", ".join(_FLOAT8))
    form, wide = _FLOAT8[dtype], ctx.cast(x, "f32")
    size = ctx.unary("abs", wide)
    finite = ctx.unary("clamp", size, min=0.0, max=1e6)
    exponent = ctx.binary("sub", ctx.unary("special", finite, function="frexp_exponent"), 1.0)
    exponent = ctx.where(ctx.compare("eq", finite, 0), float(form.least), exponent)  # frexp's of 0 is 0
    exponent = ctx.unary("clamp", exponent, min=float(form.least), max=20.0)
    above = ctx.binary("sub", exponent, float(form.least))
    steps = ctx.literal(
        np.asarray([2.0 ** (form.least + i - form.mantissa) for i in range(21 - form.least)], np.float32)
    )
    step = ctx.emit_one("index", [steps, ctx.cast(above, "i64")], wide.type, {"dims": [0]})
    count = ctx.unary("round", ctx.binary("div", finite, step))
    code = ctx.binary("add", ctx.binary("mul", above, float(2**form.mantissa)), count)
    largest = form.most if saturate else form.beyond
    code = ctx.where(ctx.compare("gt", code, float(form.most)), ctx.full(float(largest), "f32"), code)
    sign = ctx.binary("div", ctx.full(1.0, "f32"), wide)  # of a zero, too
    negative = ctx.compare("lt", ctx.where(ctx.compare("eq", wide, 0), sign, wide), 0)
    signed = ctx.binary("add", code, 128.0)
    if form.signless_nan:  # whose only NaN is where a negative zero would be
        keeps = ctx.emit_one("logical_or", [ctx.compare("eq", code, 0), ctx.compare("eq", code, 128)], negative.type)
        signed = ctx.where(keeps, code, signed)
    code = ctx.where(negative, signed, code)
    nan = 128.0 if form.signless_nan else 127.0
    code = ctx.where(ctx.emit_one("isnan", [wide], negative.type), ctx.full(nan, "f32"), code)
    return ctx.emit_one("to_dtype", [ctx.cast(ctx.cast(code, "i32"), "ui8")], TensorType(dtype, x.extents))


@converter("CastLike")
def _cast_like(ctx: Importer, node: Node) -> Value:
    like = node.inputs[1]
    if like is None:
        raise Reject("a missing input")
    narrow, dtype = ctx.narrow(like), ctx.type_of(like).dtype
    same = (e for e, name in (NARROW if narrow else DTYPES).items() if name == (narrow or dtype))
    return _to(ctx, node, next(same))
