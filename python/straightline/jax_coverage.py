# SPDX-License-Identifier: Apache-2.0
"""Which ops of StableHLO are taken in which forms: each form is a small function, which is compiled and compared with JAX.

`straightline coverage jax` prints the table. tests/frameworks/jax/ops_test.py runs the same forms under the numeric policy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from jax import lax

import straightline as sl
from straightline.capture.jax.importer import CONVERTERS


@dataclass(frozen=True)
class Form:
    """A form of an op: a function that has it, and its arguments as `f32[4,6]`.

    Behind the sizes may stand `+` (positive), `~` (between -1 and 1), `<n` (integers from 0 on, below n), `=n` (this number).
    """

    op: str
    text: str
    function: Callable[..., Any]
    arguments: str
    refused: bool = False

    def make(self, numbers: np.random.Generator) -> list[Any]:
        """Arguments of random numbers."""
        return [_array(text, numbers) for text in self.arguments.split()]


_TYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "i1": "bool"}
_SPEC = re.compile(r"(key|[a-z]+\d+)(?:\[([\d,]*)\])?([+~]|<\d+|=-?\d+)?")


def _array(text: str, numbers: np.random.Generator) -> Any:
    match = _SPEC.fullmatch(text)
    assert match is not None, text
    if match[1] == "key":
        return jax.random.key(int(numbers.integers(2**31)))
    short = match[1]
    dtype = (
        _TYPES.get(short) or short.replace("ui", "uint").replace("i", "int")
        if not short.startswith("u")
        else f"uint{short[2:]}"
    )
    shape, range_ = tuple(int(n) for n in (match[2] or "").split(",") if n), match[3] or ""
    if range_.startswith("="):
        return jnp.full(shape, int(range_[1:]), dtype)
    if dtype == "bool":
        return jnp.asarray(numbers.integers(0, 2, shape).astype(bool))
    if "int" in dtype:
        low, high = (0, int(range_[1:])) if range_.startswith("<") else (0 if dtype[0] == "u" else -20, 21)
        return jnp.asarray(numbers.integers(low, high, shape).astype(dtype))
    array = numbers.standard_normal(shape)
    array = np.abs(array) + 0.1 if range_ == "+" else np.tanh(array) * 0.97 if range_ == "~" else array
    return jnp.asarray(array.astype(np.float32)).astype(dtype)


def _conv(*given: Any, **more: Any) -> Callable[..., Any]:
    return lambda x, w: lax.conv_general_dilated(x, w, *given, **more)


def _windows(start: float, combine: Any, *how: Any) -> Callable[..., Any]:
    return lambda x: lax.reduce_window(x, jnp.asarray(start, x.dtype), combine, *how)


def _elementwise() -> list[Form]:
    x, xy, positive, unit = "f32[4,6]", "f32[4,6] f32[4,6]", "f32[4,6]+", "f32[4,6]~"
    forms: list[Form] = []
    unary = {
        "abs": jnp.abs, "negate": jnp.negative, "exponential": jnp.exp, "exponential_minus_one": jnp.expm1, "sine": jnp.sin,
        "cosine": jnp.cos, "tan": jnp.tan, "tanh": jnp.tanh, "floor": jnp.floor, "ceil": jnp.ceil,
        "round_nearest_even": jnp.round, "sign": jnp.sign, "cbrt": jnp.cbrt, "is_finite": jnp.isfinite,
        "round_nearest_afz": lax.round, "chlo.erf": lax.erf, "chlo.erfc": lax.erfc, "chlo.sinh": jnp.sinh, "chlo.cosh": jnp.cosh,
        "chlo.asinh": jnp.arcsinh, "chlo.atan": jnp.arctan, "chlo.square": jnp.square,
    }  # fmt: skip
    forms += [Form(op, "floats", function, x) for op, function in unary.items()]
    of_positive = {
        "log": jnp.log, "log_plus_one": jnp.log1p, "sqrt": jnp.sqrt, "rsqrt": lax.rsqrt, "chlo.lgamma": lax.lgamma,
        "chlo.digamma": lax.digamma,
    }  # fmt: skip
    forms += [Form(op, "floats", function, positive) for op, function in of_positive.items()]
    forms += [Form("chlo.acosh", "floats", lambda t: jnp.arccosh(t + 1), positive)]
    of_unit = {"chlo.asin": jnp.arcsin, "chlo.acos": jnp.arccos, "chlo.atanh": jnp.arctanh, "chlo.erf_inv": lax.erf_inv}
    forms += [Form(op, "floats", function, unit) for op, function in of_unit.items()]
    forms += [Form("chlo.zeta", "floats", lambda s, q: lax.zeta(s + 1.5, q), "f32[4,6]+ f32[4,6]+")]
    forms += [Form("chlo.next_after", "floats", jnp.nextafter, xy)]
    binary = {
        "add": jnp.add, "subtract": jnp.subtract, "multiply": jnp.multiply, "divide": jnp.divide, "maximum": jnp.maximum,
        "minimum": jnp.minimum, "atan2": jnp.arctan2, "remainder": jnp.fmod,
    }  # fmt: skip
    forms += [Form(op, "floats", function, xy) for op, function in binary.items()]
    forms += [Form("power", "floats", jnp.power, "f32[4,6]+ f32[4,6]")]
    forms += [
        Form(
            op,
            "halves",
            lambda a, b, f=f: (f(a, b), f(a.astype("bfloat16"), b.astype("bfloat16"))),
            "f16[4,6]+ f16[4,6]",
        )
        for op, f in {"power": jnp.power, "atan2": jnp.arctan2, "remainder": jnp.fmod}.items()
    ]
    forms += _special_functions()
    for dtype in ("i8", "i16", "i32", "ui8", "ui16", "ui32"):
        pair, whole = f"{dtype}[4,6] {dtype}[4,6]", f"{dtype}[4,6]"
        forms += [Form(op, dtype, binary[op], pair) for op in ("add", "subtract", "multiply", "maximum", "minimum")]
        bits = {"and": jnp.bitwise_and, "or": jnp.bitwise_or, "xor": jnp.bitwise_xor}
        forms += [Form(op, dtype, function, pair) for op, function in bits.items()]
        forms += [Form("not", dtype, jnp.bitwise_not, whole), Form("popcnt", dtype, lax.population_count, whole),
                  Form("count_leading_zeros", dtype, lax.clz, whole)]  # fmt: skip
        forms += [Form("divide", f"{dtype}, by 0 too", lax.div, pair)]
        forms += [Form("remainder", f"{dtype}, by 0 too", lax.rem, pair)]
        shifts = (lax.shift_left, lax.shift_right_logical, lax.shift_right_arithmetic)
        for op, shift in zip(("shift_left", "shift_right_logical", "shift_right_arithmetic"), shifts):
            forms += [Form(op, f"{dtype} by a number", lambda a, s=shift: s(a, jnp.full_like(a, 3)), whole),
                      Form(op, f"{dtype} by an array", shift, f"{whole} {whole}<12")]  # fmt: skip
    logic = {"and": jnp.logical_and, "or": jnp.logical_or, "xor": jnp.logical_xor}
    forms += [Form(op, "bools", function, "i1[4,6] i1[4,6]") for op, function in logic.items()]
    forms += [Form("not", "bools", jnp.logical_not, "i1[4,6]")]
    within = lambda t: lax.clamp(jnp.full((), -0.5, t.dtype), t, jnp.full((), 0.75, t.dtype))  # noqa: E731
    forms += [Form("clamp", "numbers", within, x)]
    forms += [Form("clamp", "arrays", lambda t, low: lax.clamp(low, t, jnp.ones((), t.dtype)), "f32[4,6] f32[]~")]
    tests = {
        "EQ": jnp.equal,
        "NE": jnp.not_equal,
        "LT": jnp.less,
        "LE": jnp.less_equal,
        "GT": jnp.greater,
        "GE": jnp.greater_equal,
    }
    forms += [Form("compare", f"{name}", function, "f32[4,6] f32[4,6]") for name, function in tests.items()]
    forms += [Form("compare", "integers without sign", jnp.less, "ui32[4,6] ui32[4,6]"),
              Form("compare", "total order of floats", jnp.searchsorted, "f32[9] f32[5]")]  # fmt: skip
    forms += [Form("select", "by an array", jnp.where, "i1[4,6] f32[4,6] f32[4,6]")]
    forms += [Form("select", "by one bool", lambda p, a, b: lax.select(p, a, b), "i1[] f32[4,6] f32[4,6]")]
    return [*forms, *_conversions()]


def _conversions() -> list[Form]:
    x, forms = "f32[4,6]", []
    for dtype in ("int32", "uint8", "bool", "float16", "bfloat16"):
        forms += [Form("convert", f"f32 to {dtype}", lambda t, d=dtype: (t * 5).astype(d), "f32[4,6]+")]
    for dtype in ("float32", "int8", "uint32", "bool"):
        forms += [Form("convert", f"i32 to {dtype}", lambda t, d=dtype: t.astype(d), "i32[4,6]")]
    forms += [
        Form("convert", f"floats that do not fit {dtype}", lambda t, d=dtype: (t * 1e12).astype(d), x)
        for dtype in ("int32", "uint8", "uint32")
    ]
    forms += [
        Form("convert", "to a float of 8 bits", lambda t: t.astype("float8_e4m3fn").astype("float32"), x, refused=True)
    ]
    forms += [Form("bitcast_convert", "32 bits", lambda t: lax.bitcast_convert_type(t, jnp.uint32), x),
              Form("bitcast_convert", "float16", _through("float16"), "ui16[4]"),
              Form("bitcast_convert", "bfloat16", _through("bfloat16"), "ui16[4]"),
              Form("bitcast_convert", "other widths",
                   lambda t: (t.view("int16"), t.view("uint8").view("int32")), "i32[3,4]")]  # fmt: skip
    forms += [Form("reduce_precision", "bfloat16", lambda t: lax.reduce_precision(t, 8, 7), x),
              Form("reduce_precision", "others", lambda t: lax.reduce_precision(t, 4, 3), "f32[24,6]")]  # fmt: skip
    activations = {"gelu": jax.nn.gelu, "softmax": jax.nn.softmax, "log_softmax": jax.nn.log_softmax, "silu": jax.nn.silu,
                   "softplus": jax.nn.softplus, "elu": jax.nn.elu}  # fmt: skip
    for dtype in ("f32", "f16", "bf16"):
        forms += [Form("composition", f"jax.nn.{n}, {dtype}", f, f"{dtype}[4,6]") for n, f in activations.items()]
    return forms


def _special_functions() -> list[Form]:
    return [
        Form("chlo.bessel_i1e", "floats", lax.bessel_i1e, "f32[4,6]"),
        Form("chlo.polygamma", "floats", lambda t: lax.polygamma(jnp.full_like(t, 2), t), "f32[4,6]+"),
        Form("chlo.mulhi", "i32", lambda a, b: lax.mulhi(a << 20, b << 15), "i32[4,6] i32[4,6]"),
        Form("chlo.mulhi", "ui8", lambda a, b: lax.mulhi(a * 11, b * 9), "ui8[4,6] ui8[4,6]"),
    ]


def _shapes() -> list[Form]:
    x = "f32[4,6]"
    return [
        Form("broadcast_in_dim", "new dims", lambda t: t[:, None, :] + jnp.zeros((4, 3, 6)), x),
        Form("broadcast_in_dim", "dims of 1", lambda t: jnp.broadcast_to(t, (4, 6)), "f32[4,1]"),
        Form("broadcast_in_dim", "dims in another order", lambda t: lax.broadcast_in_dim(t.T, (6, 2, 4), (0, 2)), x),
        Form("reshape", "any", lambda t: t.reshape(3, 8).reshape(-1), x),
        Form("transpose", "any", lambda t: t.transpose(2, 0, 1) + 1, "f32[3,4,5]"),
        Form("reverse", "any dims", lambda t: t[::-1, ::-1], x),
        Form("slice", "any stride", lambda t: (t[1:3], t[:, ::2], t[-1]), x),
        Form("concatenate", "any dim", lambda a, b: jnp.concatenate([a, b, a], 1), f"{x} {x}"),
        Form("pad", "borders", lambda t: jnp.pad(t, ((1, 2), (0, 3)), constant_values=2.0), x),
        Form("pad", "between elements, negative", lambda t: lax.pad(t, jnp.zeros((), t.dtype), ((1, 2, 1), (-1, 0, 2))), x),
        Form("pad", "a value of the call", lambda t, v: lax.pad(t, v, ((1, 2, 1), (-1, 0, 2))), f"{x} f32[]"),
        Form("iota", "any dim", lambda t: t + lax.broadcasted_iota(jnp.float32, (4, 6), 0), x),
        Form("constant", "any size", lambda t: t @ np.linspace(0, 1, 6 * 300, dtype=np.float32).reshape(6, 300), x),
        Form("dynamic_slice", "a place of the call, clamped",
             lambda t, i: lax.dynamic_slice(t, (i, i + 9), (2, 3)), f"{x} i32[]"),
        Form("dynamic_update_slice", "a place of the call, clamped",
             lambda t, b, i: lax.dynamic_update_slice(t, b, (i, i)), f"{x} f32[2,2] i32[]"),
        Form("optimization_barrier", "any", lambda t: lax.optimization_barrier(t) + 1, x),
        Form("sort", "one array", lambda t: (jnp.sort(t), jnp.sort(t, 0), jnp.sort(t, descending=True)), x),
        Form("sort", "several arrays, several keys", lambda a, b: lax.sort((a, b), num_keys=2), "i32[20]<4 f32[20]"),
        Form("sort", "places", lambda a, b: (jnp.argsort(a), jnp.lexsort((a, b))), "i32[20]<4 i32[20]<3"),
        Form("chlo.top_k", "any k", lambda t: lax.top_k(t, 3), x),
    ]  # fmt: skip


def _products() -> list[Form]:
    images, weights = "f32[2,3,8,8]", "f32[4,3,3,3]"
    attention = "f32[2,5,3,8] f32[2,7,3,8] f32[2,7,3,8]"
    return [
        Form("dot_general", "matrices, vectors",
             lambda a, b: (a @ b, a[0] @ b, a @ b[:, 0], a[0] @ b[:, 0]), "f32[4,6] f32[6,5]"),
        Form("dot_general", "batches", jnp.matmul, "f32[2,1,4,5] f32[3,5,2]"),
        Form("dot_general", "any dims", lambda a, b: jnp.einsum("abc,cbd->ad", a, b), "f32[3,4,5] f32[5,4,2]"),
        Form("dot_general", "batches anywhere", lambda a, b: jnp.einsum("bshd,bthd->bhst", a, b), "f32[2,3,4,5] f32[2,6,4,5]"),
        Form("dot_general", "halves", jnp.matmul, "bf16[4,5] bf16[5,3]"),
        Form("dot_general", "halves, sums in f32",
             lambda a, b: lax.dot(a, b, preferred_element_type="float32"), "f16[4,5] f16[5,3]"),
        Form("dot_general", "integers", jnp.matmul, "i32[4,5] i32[5,3]"),
        Form("dot_general", "attention", jax.nn.dot_product_attention, attention),
        Form("convolution", "one dim", _conv((1,), "SAME"), "f32[2,3,8] f32[4,3,3]"),
        Form("convolution", "two dims, strides", _conv((2, 2), "SAME"), f"{images} {weights}"),
        Form("convolution", "dilation", _conv((1, 2), "VALID", rhs_dilation=(2, 1)), f"{images} {weights}"),
        Form("convolution", "channels last", _conv((1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
             "f32[2,8,8,3] f32[3,3,3,4]"),
        Form("convolution", "groups", _conv((1, 1), "SAME", feature_group_count=3), f"{images} f32[6,1,3,3]"),
        Form("convolution", "transposed", lambda a, b: lax.conv_transpose(a, b, (2, 2), "SAME"), "f32[2,5,5,3] f32[3,3,3,4]"),
        Form("convolution", "three dims", _conv((1, 1, 1), "SAME"), "f32[1,2,4,4,4] f32[3,2,3,3,3]"),
        Form("convolution", "integers", _conv((1, 1), "SAME"), "i32[2,3,8,8] i32[4,3,3,3]"),
        Form("convolution", "bytes, sums in i32", _conv((1, 1), "SAME", preferred_element_type=jnp.int32),
             "i8[2,3,8,8] i8[4,3,3,3]"),
        Form("convolution", "no dims", _conv((), ()), "f32[3,4] f32[5,4]"),
        Form("convolution", "groups of images", _conv((1, 1), "SAME", batch_group_count=2), f"{images} {weights}"),
    ]  # fmt: skip


def _reductions() -> list[Form]:
    x = "f32[3,4,5]"
    forms = [
        Form("reduce", name, lambda t, f=function: (f(t), f(t, axis=0), f(t, axis=(0, 2))), x)
        for name, function in {"add": jnp.sum, "mul": jnp.prod, "max": jnp.max, "min": jnp.min, "and": jnp.all, "or": jnp.any,
                               "mean, variance": jnp.var}.items()
    ]  # fmt: skip
    forms += [Form("reduce", "integers", lambda t: (t.sum(), t.max(0), t.min(1), t.prod(0)), "i32[4,6]")]
    forms += [Form("reduce", "bits", lambda t: (lax.reduce_xor(t, (1,)), lax.reduce_and(t, (0,)), lax.reduce_or(t, (0, 1)),
                                                lax.reduce_xor(t > 0, (1,))), "i32[4,7]")]  # fmt: skip
    forms += [Form("reduce", "argmax, argmin", lambda t: (t.argmax(0), t.argmin(-1), t.argmax()), x)]
    forms += [Form("reduce", "a start", lambda t: lax.reduce(t, jnp.full((), 3, t.dtype), lax.add, (0,)), x)]
    own = lambda t: lax.reduce(t, t.dtype.type(-np.inf), jnp.logaddexp, (0, 2))  # noqa: E731
    forms += [Form("reduce", "an associative function", own, x)]
    forms += [Form("reduce", "several arrays, an associative function", _affine, f"{x} {x}")]
    nhwc = "f32[2,8,8,3]"
    forms += [
        Form("reduce_window", "max over two dims", _windows(-np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), nhwc),
        Form("reduce_window", "max, borders", _windows(-np.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), "SAME"), "f32[2,3,8,8]"),
        Form("reduce_window", "add over two dims", _windows(0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"), nhwc),
        Form("reduce_window", "min", _windows(np.inf, lax.min, (1, 2, 2, 1), (1, 1, 1, 1), "VALID"), nhwc),
        Form("reduce_window", "one dim", _windows(0, lax.add, (3,), (1,), "SAME"), "f32[9]"),
        Form("reduce_window", "three dims", _windows(0, lax.add, (2, 2, 2), (1, 1, 1), "VALID"), "f32[4,4,4]"),
        Form("reduce_window", "integers", _windows(0, lax.add, (2, 2), (1, 1), "VALID"), "i32[4,4]"),
        Form("reduce_window", "cumsum, cumprod, cummax, cummin",
             lambda t: (jnp.cumsum(t, 0), jnp.cumprod(t, 1), lax.cummax(t, 0), lax.cummin(t, 1, reverse=True)), "f32[4,6]"),
        Form("reduce_window", "a function of its own", _windows_of_pairs, "f32[6,6]"),
        Form("reduce_window", "cumlogsumexp",
             lambda t: (lax.cumlogsumexp(t, 1), lax.cumlogsumexp(t, 0, reverse=True)), "f32[4,6]"),
        Form("select_and_scatter", "the gradient of a pool of maxima", jax.grad(_square_of_pool), nhwc),
    ]  # fmt: skip
    return forms


def _affine(a: Any, b: Any) -> Any:
    """X -> a x + b, composed."""
    start = (a.dtype.type(1), b.dtype.type(0))
    return lax.reduce((a, b), start, lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (1,))


def _product(u: Any, values: Any, vh: Any) -> Any:
    """The matrices of which these are singular values and vectors."""
    return (u * values[..., None, :]) @ vh


def _turned(values: Any, vectors: Any) -> Any:
    """The symmetric matrices of which these are eigenvalues and vectors."""
    return (vectors * values[..., None, :]) @ vectors.mT


def _windows_of_pairs(t: Any) -> Any:
    places = jnp.arange(t.size, dtype=t.dtype).reshape(t.shape)

    def larger(p: Any, q: Any) -> Any:
        return tuple(jnp.where(p[0] >= q[0], a, b) for a, b in zip(p, q))

    return lax.reduce_window((t, places), (t.dtype.type(-np.inf), t.dtype.type(-1)), larger, (2, 3), (2, 1), "SAME")


def _square_of_pool(t: Any) -> Any:
    return jnp.sum(lax.reduce_window(t, -jnp.inf, lax.max, (1, 3, 2, 1), (1, 2, 2, 1), "SAME") ** 2)


def _through(dtype: str) -> Callable[..., Any]:
    """Bits as a float that is no subnormal one, which XLA may take for 0, multiplied, and back."""
    return lambda t: lax.bitcast_convert_type(lax.bitcast_convert_type(t | 0x3C00, jnp.dtype(dtype)) * 2, t.dtype)


def _places() -> list[Form]:
    x, at = "f32[4,6]", "f32[3,4,5]"
    row = "f32[4,6] i32[4]<6"
    return [
        Form("gather", "rows", lambda t, i: (t[i], t[:, i]), f"{x} i32[2,3]<4"),
        Form("gather", "several dims", lambda t, i, j: (t[i, j], t[i[0], j[0]]), f"{x} i32[5]<4 i32[5]<6"),
        Form("gather", "dims apart", lambda t, i, j: t[i, :, j], f"{at} i32[2]<3 i32[2]<5"),
        Form(
            "gather", "places outside, as JAX fills or clamps them", lambda t, i: jnp.take(t, i, axis=1), f"{x} i32[9]"
        ),
        Form("gather", "along a dim", lambda t, i: jnp.take_along_axis(t, i, 1), f"{x} i32[4,3]<6"),
        Form("gather", "batches", jax.vmap(lambda t, i: t[i]), row),
        Form("gather", "windows", jax.vmap(lambda t, i: lax.dynamic_slice(t, (i,), (3,))), row),
        Form("scatter", "set rows", lambda t, i, u: t.at[i].set(u), f"{x} i32[1]<4 f32[1,6]"),
        Form("scatter", "add, equal places and places outside", lambda t, i: t.at[i].add(1.0), f"{x} i32[9]"),
        Form(
            "scatter",
            "set elements, places outside",
            lambda t, i, u: t.at[i, jnp.arange(3)].set(u),
            f"{x} i32[3] f32[3]",
        ),
        Form(
            "scatter",
            "mul, max, min",
            lambda t, i, u: (t.at[i].mul(u), t.at[i].max(u), t.at[i].min(u)),
            f"{x} i32[3]<4 f32[3,6]",
        ),
        Form("scatter", "slices", lambda t, u: t.at[1:3, ::2].set(u), f"{x} f32[2,3]"),
        Form("scatter", "batches", jax.vmap(lambda t, i, u: t.at[i].set(u)), f"{row} f32[4]"),
        Form("scatter", "windows", jax.vmap(lambda t, i, u: lax.dynamic_update_slice(t, u, (i,))), f"{row} f32[4,2]"),
        Form("scatter", "segments", lambda t, i: jax.ops.segment_sum(t, i, num_segments=3), f"{x} i32[4]<3"),
        Form("scatter", "sub", lambda t, i: t.at[i].subtract(0.75), f"{x} i32[9]"),
        Form(
            "scatter",
            "a function of its own",
            lambda t: (t.at[jnp.array([2, 0])].apply(jnp.sin), t.at[1].apply(jnp.cos)),
            x,
        ),
        Form(
            "scatter",
            "a function of its own, equal places and places outside",
            lambda t, i: t.at[i].apply(lambda s: s * 1.5 + 1),
            f"{x} i32[9]",
        ),
    ]


def _control() -> list[Form]:
    x = "f32[4,6]"
    step = lambda c, t: (jnp.tanh(c + t), c * 2)  # noqa: E731
    branches = [lambda t: t + 1, lambda t: t * 2, lambda t: -t]
    return [
        Form("case", "two branches", lambda t, p: lax.cond(p, lambda s: s + 1, lambda s: s, t), f"{x} i1[]"),
        Form("case", "several branches", lambda t, i: lax.switch(i, branches, t), f"{x} i32[]"),
        Form("while", "counted, written out", lambda t: lax.fori_loop(0, 3, lambda i, s: s * 0.9 + i, t), x),
        Form("while", "counted", lambda t: lax.fori_loop(0, 200, lambda i, s: s * 0.9 + i, t), x),
        Form("while", "a count of the call", lambda t, n: lax.fori_loop(0, n, lambda i, s: s * 0.9 + i, t), f"{x} i32[]<9"),
        Form("while", "a condition", lambda t: lax.while_loop(lambda s: (s * s).sum() < 100, lambda s: s * 1.5, t), x),
        Form("while", "scan, both directions",
             lambda t: (lax.scan(step, jnp.zeros(6), t), lax.scan(step, jnp.zeros(6), t, reverse=True)), "f32[60,6]"),
        Form("while", "map", lambda t: lax.map(lambda r: r.sum(), t), "f32[200,6]"),
        Form("while", "an array that a round writes to",
             lambda t: lax.fori_loop(1, 64, lambda i, s: s.at[i].set(s[i - 1] + s[i]), t), "f32[64]"),
        Form("func.call", "any depth", jax.jit(lambda t: jax.jit(jnp.sin)(t) + jax.checkpoint(jnp.cos)(t)), x),
        Form("custom_call", "jax.pure_callback",
             lambda t: jax.pure_callback(lambda r: r, jax.ShapeDtypeStruct((4, 6), "float32"), t), x, refused=True),
        Form("custom_call", "jax.debug.print", lambda t: (jax.debug.print("{}", t), t)[1], x, refused=True),
        Form("custom_call", "approximate top k", lambda t: (lax.approx_max_k(t, 3), lax.approx_min_k(t, 2, 0)), x),
        Form("custom_call", "LAPACK: factors of square matrices",
             lambda t: (jnp.linalg.cholesky(t @ jnp.swapaxes(t, 1, 2) + jnp.eye(5)), jnp.linalg.cholesky(t), jnp.linalg.det(t),
                        jnp.linalg.slogdet(t), jnp.linalg.cholesky(t @ jnp.swapaxes(t, 1, 2) + jnp.eye(5), upper=True)),
             "f32[2,5,5]"),
        Form("custom_call", "LAPACK: systems",
             lambda a, b: (jnp.linalg.solve(a + 3 * jnp.eye(5), b), jnp.linalg.inv(a + 3 * jnp.eye(5)),
                           jsl.solve_triangular(a[0] + 3 * jnp.eye(5), b[0], lower=True, trans=1, unit_diagonal=True),
                           lax.linalg.triangular_solve(a + 3 * jnp.eye(5), jnp.swapaxes(b, 1, 2), left_side=False),
                           jsl.cho_solve(jsl.cho_factor(a[0] @ a[0].T + jnp.eye(5)), b[0])), "f32[2,5,5] f32[2,5,3]"),
        Form("custom_call", "LAPACK: QR", lambda a, b: (jnp.linalg.qr(a), jnp.linalg.qr(b), jnp.linalg.qr(b, mode="complete"),
                                                       jnp.linalg.qr(b.mT), jnp.linalg.qr(a, mode="r")), "f32[2,5,5] f32[2,5,3]"),
        Form("custom_call", "LAPACK: singular values (vectors of either sign)",
             lambda a: (jnp.linalg.svd(a, compute_uv=False), _product(*jnp.linalg.svd(a, full_matrices=False)),
                        jnp.linalg.pinv(a),
                        _product(*jnp.linalg.svd(a.mT, full_matrices=False)), jnp.linalg.svd(a)[0] @ jnp.linalg.svd(a)[0].mT,
                        jnp.linalg.norm(a, "nuc", (1, 2)), jnp.linalg.matrix_rank(a), jnp.linalg.lstsq(a[0], a[1])[0]),
             "f32[2,5,3]"),
        Form("custom_call", "LAPACK: eigenvalues of symmetric matrices (vectors of either sign)",
             lambda a: (jnp.linalg.eigvalsh(a), _turned(*jnp.linalg.eigh(a)), _turned(*jnp.linalg.eigh(a, "U", False)),
                        jax.grad(lambda a: jnp.sum(jnp.linalg.eigvalsh(a) ** 3))(a)), "f32[2,5,5]"),
        Form("custom_call", "LAPACK: others", lambda t: jnp.abs(jnp.linalg.eigvals(t)), "f32[3,3]", refused=True),
        Form("rng_bit_generator", "any", lambda t: t + jax.random.normal(jax.random.key(1, impl="rbg"), t.shape), x, True),
        Form("composition", "jax.random.normal, uniform, bernoulli",
             lambda k: (jax.random.normal(k, (3, 4)), jax.random.uniform(k, (7,)), jax.random.bernoulli(k, 0.3, (7,))), "key"),
        Form("composition", "jax.random.split, fold_in, randint",
             lambda k: (jax.random.split(k, 3), jax.random.fold_in(k, 7), jax.random.randint(k, (7,), 0, 10)), "key"),
        Form("composition", "jax.random.permutation, choice, gamma",
             lambda k: (jax.random.permutation(k, 9), jax.random.choice(k, 10, (4,)), jax.random.gamma(k, 2.0, (3,))), "key"),
    ]  # fmt: skip


def _complex_numbers() -> list[Form]:
    """Within a program, as results, and carried by loops and branches."""
    x, two = "f32[4,6]", "f32[4,6] f32[4,6]"

    def parts(function: Callable[..., Any]) -> Callable[..., Any]:
        def both(a: Any, b: Any) -> Any:
            found = function(lax.complex(a, b))
            return jnp.real(found), jnp.imag(found)

        return both

    return [
        Form("fft", "one dim, of 1 to 64 numbers", lambda t: (jnp.abs(jnp.fft.fft(t)), jnp.fft.irfft(jnp.fft.rfft(t), 5)), x),
        Form("fft", "sizes with factors", lambda t: (jnp.real(jnp.fft.fft(t)), jnp.fft.irfft(jnp.fft.rfft(t) * 2)), "f32[2,360]"),
        Form("fft", "primes up to 1024", lambda t: jnp.real(jnp.fft.fft(t)), "f32[67]"),
        Form("fft", "several dims",
             lambda t: (jnp.fft.irfftn(jnp.fft.rfftn(t), t.shape), jnp.imag(jnp.fft.ifft2(t))), "f32[2,3,8]"),
        Form("fft", "the gradient", jax.grad(lambda t: jnp.sum(jnp.abs(jnp.fft.rfft(t)) ** 2)), "f32[9]"),
        Form("fft", "complex results", jnp.fft.fft, x),
        Form("fft", "a size with a factor above 1024", lambda t: jnp.real(jnp.fft.fft(t)), "f32[1031]", refused=True),
        Form("complex", "sums, products, quotients", parts(lambda z: (z + 1j) * (z - 2) / (z.conj() + 3)), two),
        Form("complex", "exp, log, sqrt, sin, cos",
             parts(lambda z: jnp.exp(z) + jnp.log(z) + jnp.sqrt(z) + jnp.sin(z) * jnp.cos(z)), two),
        Form("complex", "matrices", parts(lambda z: z @ z.T), two),
        Form("complex", "moved, set, summed",
             parts(lambda z: jnp.cumsum(jnp.pad(z, 1), 1)[::-1].at[0].set(1j).at[1].add(z[0, 0]).sum(0)), two),
        Form("complex", "carried by loops and branches", lambda a, b: lax.scan(
            lambda c, v: (c * v, lax.cond(v.real.sum() > 0, lambda: c, lambda: v)), lax.complex(a, b)[0], lax.complex(b, a)),
            two),
        Form("complex", "compared, chosen", lambda a, b: jnp.abs(jnp.where(lax.complex(a, b) == lax.complex(a, a), 1j, a)), two),
        Form("real", "any", lambda a, b: jnp.real(lax.complex(a, b)), two),
        Form("imag", "any", lambda a, b: jnp.imag(lax.complex(a, b)), two),
    ]  # fmt: skip


def forms() -> list[Form]:
    """Each form, taken or refused."""
    return [*_elementwise(), *_shapes(), *_products(), *_reductions(), *_places(), *_control(), *_complex_numbers()]


def outcome(form: Form, numbers: np.random.Generator) -> str:
    """What becomes of a form: "taken", "refused", "wrong" or "failed", of one draw of arguments."""
    args = form.make(numbers)
    jitted = jax.jit(form.function)
    try:
        got = sl.compile(jitted, args)(*args)
    except sl.UnsupportedError:
        return "refused"
    except Exception as error:
        return f"failed ({type(error).__name__})"
    pairs = zip(jax.tree_util.tree_leaves(got), jax.tree_util.tree_leaves(jitted(*args)), strict=True)
    return "taken" if all(_is_close(x, y) for x, y in pairs) else "wrong"


def _is_close(x: Any, y: Any) -> bool:
    if jax.dtypes.issubdtype(y.dtype, jax.dtypes.prng_key):
        x, y = jax.random.key_data(x), jax.random.key_data(y)
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    a, b = np.asarray(x), np.asarray(y)
    if a.dtype.kind in "iub":
        return bool((a == b).all())
    near = {"float16": 2.0**-8, "bfloat16": 2.0**-5}.get(a.dtype.name, 1e-4)
    kind = np.complex128 if a.dtype.kind == "c" else np.float64
    return bool(np.allclose(a.astype(kind), b.astype(kind), rtol=near, atol=near, equal_nan=True))


def page() -> str:
    """The page of the documentation."""
    import importlib.metadata

    version = importlib.metadata.version("jax")
    return "\n".join([
        "# Programs of JAX, op by op", "",
        f"Forms of StableHLO's and CHLO's ops as jax {version} makes them, each compiled on a CPU and compared with JAX;",
        "refused ones name the op, your line and the nearest form. What JAX's own functions are made of (`jnp`, `jax.nn`,",
        "`jax.random`, `lax`) is in the rows of the ops; `composition` has some of these. tests/frameworks/jax/ops_test.py runs",
        "each form under the numeric policy. Made by `straightline coverage jax > docs/frameworks/jax.md`. How programs are",
        "given and called is in [the guide](../guides/jax.md).", "",
        markdown(),
    ])  # fmt: skip


def markdown(chosen: Sequence[Form] | None = None, seed: int = 0) -> str:
    """The table by ops: which forms are taken and which are refused, each as it was found by a run."""
    numbers = np.random.default_rng(seed)
    rows: dict[str, dict[str, list[str]]] = {}
    for form in forms() if chosen is None else chosen:
        found = outcome(form, numbers)
        kind = found if found in ("taken", "refused") else "wrong or failed"
        text = form.text if kind != "wrong or failed" else f"{form.text}: {found}"
        rows.setdefault(form.op, {}).setdefault(kind, []).append(text)
    lines = [
        "| op | forms taken | forms refused | wrong or failed |", "|---|---|---|---|",
    ]  # fmt: skip
    for op in sorted(rows):
        cells = ["; ".join(dict.fromkeys(rows[op].get(kind, []))) for kind in ("taken", "refused", "wrong or failed")]
        lines.append(f"| {op} | {' | '.join(cells)} |")
    without = sorted(set(CONVERTERS) - set(rows))
    lines += ["", "Taken or refused in words, without a form of their own in this table: " + ", ".join(without) + "."]
    return "\n".join(lines) + "\n"
