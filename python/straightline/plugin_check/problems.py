# SPDX-License-Identifier: Apache-2.0
"""Problems of ops with their answers in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy

Array = numpy.ndarray
_SHAPES = ((1,), (7,), (3, 5), (2, 3, 4), (2, 3, 4, 5), (1, 64), (33, 17), (128, 33))


@dataclass
class Operand:
    """A tensor that a kernel reads."""

    data: Array
    #: Which operand of the op's definition it is.
    role: int = 0
    #: Known before the first run: a weight.
    constant: bool = False
    #: The kernel computes with integers here, whatever it computes with elsewhere.
    index: bool = False


@dataclass
class Problem:
    """An op with its operands, attributes and results."""

    op: str
    inputs: list[Operand]
    outputs: list[Array]
    attributes: dict[str, Any] = field(default_factory=dict)
    #: Sums have so many terms; errors grow with it.
    terms: int = 1
    #: Dim 0 of all tensors is one size, so that it may be left to the call.
    rows: bool = False
    #: Images are given channels last, matrices as rows, whatever the facts say (contractions).
    contraction: bool = False
    indices: frozenset[int] = frozenset()

    def __str__(self) -> str:
        tensors = ", ".join("x".join(str(size) for size in operand.data.shape) or "scalar" for operand in self.inputs)
        told = ", ".join(f"{name}={value}" for name, value in self.attributes.items())
        return f"{self.op}({tensors})" + (f" {{{told}}}" if told else "")


Make = Callable[[numpy.random.Generator], Iterator[Problem]]
_makers: dict[str, Make] = {}


def problems_of(op: str, random: numpy.random.Generator) -> list[Problem] | None:
    """Problems for an op; None: there is no reference for it."""
    return [one for one in _makers[op](random) if one.op == op] if op in _makers else None


def _of(*names: str) -> Callable[[Make], Make]:
    def note(make: Make) -> Make:
        for name in names:
            _makers[name] = make
        return make

    return note


def _erf(x: Array) -> Array:
    return numpy.vectorize(math.erf, otypes=[float])(x)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + numpy.exp(-x))


def _gelu(x: Array, approximate: str) -> Array:
    if approximate == "tanh":
        return 0.5 * x * (1 + numpy.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)))


#: name: function, and whether its argument has to be above zero
_UNARY: dict[str, tuple[Callable[[Array], Array], bool]] = {
    "neg": (lambda x: -x, False),
    "abs": (numpy.abs, False),
    "exp": (numpy.exp, False),
    "expm1": (numpy.expm1, False),
    "log": (numpy.log, True),
    "log1p": (numpy.log1p, True),
    "log2": (numpy.log2, True),
    "log10": (numpy.log10, True),
    "sqrt": (numpy.sqrt, True),
    "rsqrt": (lambda x: 1 / numpy.sqrt(x), True),
    "reciprocal": (lambda x: 1 / x, True),
    "sin": (numpy.sin, False),
    "cos": (numpy.cos, False),
    "tanh": (numpy.tanh, False),
    "sigmoid": (_sigmoid, False),
    "relu": (lambda x: numpy.maximum(x, 0), False),
    "erf": (_erf, False),
    "silu": (lambda x: x * _sigmoid(x), False),
    "floor": (numpy.floor, False),
    "ceil": (numpy.ceil, False),
    "round": (numpy.round, False),
    "trunc": (numpy.trunc, False),
    "sign": (numpy.sign, False),
    "hardsigmoid": (lambda x: numpy.clip(x + 3, 0, 6) / 6, False),
    "hardswish": (lambda x: x * numpy.clip(x + 3, 0, 6) / 6, False),
    "clone": (lambda x: x, False),
}
_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / (numpy.abs(y) + 0.5),
    "maximum": numpy.maximum,
    "minimum": numpy.minimum,
}


def _normal(random: numpy.random.Generator, *shape: int) -> Array:
    return random.standard_normal(shape).astype(numpy.float32)


def _unary(name: str) -> Make:
    function, positive = _UNARY[name]

    def make(random: numpy.random.Generator) -> Iterator[Problem]:
        for shape in _SHAPES:
            x = _normal(random, *shape)
            x = numpy.abs(x) + numpy.float32(0.1) if positive else x
            yield Problem(name, [Operand(x)], [function(x.astype(float))], rows=True)

    return make


def _binary(name: str) -> Make:
    def make(random: numpy.random.Generator) -> Iterator[Problem]:
        for shape in _SHAPES:
            x, y = _normal(random, *shape), _normal(random, *shape)
            want = _BINARY[name](x.astype(float), y.astype(float))
            if name == "div":
                y = numpy.abs(y) + numpy.float32(0.5)
                want = x.astype(float) / y.astype(float)
            yield Problem(name, [Operand(x), Operand(y, 1)], [want], rows=True)

    return make


for _name in _UNARY:
    _makers[_name] = _unary(_name)
for _name in _BINARY:
    _makers[_name] = _binary(_name)


@_of("gelu")
def _gelus(random: numpy.random.Generator) -> Iterator[Problem]:
    for approximate in ("none", "tanh"):
        for shape in _SHAPES:
            x = _normal(random, *shape)
            want = _gelu(x.astype(float), approximate)
            yield Problem("gelu", [Operand(x)], [want], {"approximate": approximate}, rows=True)


@_of("leaky_relu", "elu")
def _with_number(random: numpy.random.Generator) -> Iterator[Problem]:
    for shape in _SHAPES:
        x = _normal(random, *shape)
        wide = x.astype(float)
        yield Problem(
            "leaky_relu", [Operand(x)], [numpy.where(wide > 0, wide, 0.2 * wide)], {"negative_slope": 0.2}, rows=True
        )
        yield Problem(
            "elu", [Operand(x)], [numpy.where(wide > 0, wide, 0.7 * numpy.expm1(wide))], {"alpha": 0.7}, rows=True
        )


@_of("clamp")
def _clamps(random: numpy.random.Generator) -> Iterator[Problem]:
    for shape in _SHAPES:
        x = _normal(random, *shape)
        want = numpy.clip(x.astype(float), -0.5, 0.75)
        yield Problem("clamp", [Operand(x)], [want], {"min": -0.5, "max": 0.75}, rows=True)


def _softmax(x: Array, dim: int) -> Array:
    power = numpy.exp(x - x.max(dim, keepdims=True))
    return power / power.sum(dim, keepdims=True)


@_of("softmax", "log_softmax")
def _softmaxes(random: numpy.random.Generator) -> Iterator[Problem]:
    for shape in _SHAPES:
        for dim in range(len(shape)):
            x = _normal(random, *shape)
            want = _softmax(x.astype(float), dim)
            for name, value in (("softmax", want), ("log_softmax", numpy.log(want))):
                rows = dim > 0
                yield Problem(name, [Operand(x)], [value], {"dim": dim}, terms=shape[dim], rows=rows)


@_of("cumsum")
def _cumsums(random: numpy.random.Generator) -> Iterator[Problem]:
    for shape in _SHAPES:
        for dim in range(len(shape)):
            x = _normal(random, *shape)
            want = numpy.cumsum(x.astype(float), dim)
            yield Problem("cumsum", [Operand(x)], [want], {"dim": dim}, terms=shape[dim], rows=dim > 0)


@_of("sum", "mean", "amax", "amin", "prod")
def _reductions(random: numpy.random.Generator) -> Iterator[Problem]:
    functions: dict[str, Callable[..., Array]] = {
        "sum": numpy.sum,
        "mean": numpy.mean,
        "amax": numpy.max,
        "amin": numpy.min,
        "prod": numpy.prod,
    }
    for name, function in functions.items():
        for shape, dims in (((3, 5), (1,)), ((3, 5), (0,)), ((2, 3, 4), (1, 2)), ((33, 17), (1,))):
            for keep in (False, True):
                x = _normal(random, *shape)
                want = function(x.astype(float), axis=dims, keepdims=keep)
                told = {f"dims_{i}": dim for i, dim in enumerate(dims)} | {"keepdim": int(keep)}
                yield Problem(name, [Operand(x)], [want], told, terms=math.prod(shape[dim] for dim in dims))


@_of("layer_norm", "rms_norm")
def _norms(random: numpy.random.Generator) -> Iterator[Problem]:
    for shape in ((3, 5), (2, 3, 8), (33, 17), (4, 128)):
        for affine in (0, 1, 2, 3):
            x = _normal(random, *shape)
            wide = x.astype(float)
            weight, bias = _normal(random, shape[-1]), _normal(random, shape[-1])
            has_weight, has_bias = affine & 1, affine >> 1
            operands = [Operand(x)] + [Operand(weight, 1)] * has_weight
            scale = weight.astype(float) if has_weight else 1.0
            told = {"normalized_rank": 1, "eps": 0.01}
            if not has_bias:
                want = wide / numpy.sqrt((wide**2).mean(-1, keepdims=True) + 0.01) * scale
                yield Problem("rms_norm", list(operands), [want], dict(told), terms=shape[-1], rows=True)
            normed = (wide - wide.mean(-1, keepdims=True)) / numpy.sqrt(wide.var(-1, keepdims=True) + 0.01)
            want = normed * scale + (bias.astype(float) if has_bias else 0.0)
            counts = {"operands_0": 1, "operands_1": has_weight, "operands_2": has_bias}
            operands = operands + [Operand(bias, 2)] * has_bias
            yield Problem("layer_norm", operands, [want], told | counts, terms=shape[-1], rows=True)


@_of("topk")
def _topks(random: numpy.random.Generator) -> Iterator[Problem]:
    for shape, k in (((9,), 3), ((4, 9), 1), ((2, 3, 17), 5)):
        for largest in (1, 0):
            x = random.permutation(math.prod(shape)).reshape(shape).astype(numpy.float32)
            order = numpy.argsort(-x if largest else x, -1, kind="stable")[..., :k]
            want = numpy.take_along_axis(x, order, -1).astype(float)
            told = {"dim": len(shape) - 1, "k": k, "largest": largest}
            yield Problem("topk", [Operand(x)], [want, order.astype(numpy.int64)], told, indices=frozenset({1}))


@_of("gather")
def _gathers(random: numpy.random.Generator) -> Iterator[Problem]:
    for dim in (0, 1):
        x = _normal(random, 5, 6)
        index = random.integers(0, 5, (3, 6) if dim == 0 else (5, 4))
        want = numpy.take_along_axis(x.astype(float), index, dim)
        yield Problem("gather", [Operand(x), Operand(index, 1, index=True)], [want], {"dim": dim})


@_of("cat")
def _cats(random: numpy.random.Generator) -> Iterator[Problem]:
    for dim in (0, 1):
        for sizes in ((2, 3), (1, 4, 2)):
            parts = [_normal(random, *((size, 5) if dim == 0 else (5, size))) for size in sizes]
            want = numpy.concatenate(parts, dim).astype(float)
            yield Problem("cat", [Operand(part) for part in parts], [want], {"dim": dim})


@_of("embedding")
def _embeddings(random: numpy.random.Generator) -> Iterator[Problem]:
    for shape in ((3,), (2, 5)):
        weight, indices = _normal(random, 7, 6), random.integers(0, 7, shape)
        want = weight.astype(float)[indices]
        yield Problem("embedding", [Operand(weight, 0, constant=True), Operand(indices, 1, index=True)], [want])


# Contractions and pools -----------------------------------------------------------------------------------------------


@_of("linear")
def _linears(random: numpy.random.Generator) -> Iterator[Problem]:
    for m, n, k in ((1, 1, 1), (3, 5, 7), (1, 64, 33), (17, 33, 64), (8, 16, 100)):
        for has_bias in (False, True):
            x, weight, bias = _normal(random, m, k), _normal(random, n, k), _normal(random, n)
            want = x.astype(float) @ weight.astype(float).T + (bias if has_bias else 0)
            operands = [Operand(x), Operand(weight, 1, constant=True)]
            operands += [Operand(bias, 2, constant=True)] * has_bias
            told = {"stored_bits": 32, "bfloat16": 0, "m": m, "n": n, "k": k}
            yield Problem("linear", operands, [want], told, terms=k, contraction=True)


@_of("matmul")
def _matmuls(random: numpy.random.Generator) -> Iterator[Problem]:
    for batch, m, n, k in (((), 3, 5, 7), ((2,), 4, 8, 16), ((), 1, 33, 17)):
        a, b = _normal(random, *batch, m, k), _normal(random, *batch, k, n)
        want = a.astype(float) @ b.astype(float)
        told = {"batch": math.prod(batch), "m": m, "bfloat16": 0, "n": n, "k": k}
        yield Problem("matmul", [Operand(a), Operand(b, 1)], [want], told, terms=k, contraction=True)


def _windows(x: Array, size: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Array:
    """[n, c, ho, wo, kh, kw] of an image with its border."""
    spans = [dilation[i] * (size[i] - 1) + 1 for i in range(2)]
    whole = numpy.lib.stride_tricks.sliding_window_view(x, spans, (2, 3))
    return whole[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]


def _padded(x: Array, pad: Sequence[int], value: float = 0.0) -> Array:
    return numpy.pad(x, ((0, 0), (0, 0), (pad[0],) * 2, (pad[1],) * 2), constant_values=value)


_CONVOLUTIONS = (
    # n, c, h, w, k, kernel, stride, padding, dilation, groups
    (1, 3, 8, 9, 4, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (2, 4, 7, 7, 8, (1, 1), (1, 1), (0, 0), (1, 1), 1),
    (1, 8, 9, 9, 8, (3, 3), (2, 2), (1, 1), (1, 1), 8),
    (2, 6, 10, 8, 9, (3, 5), (2, 1), (0, 2), (2, 1), 3),
    (1, 16, 14, 14, 32, (3, 3), (1, 1), (1, 1), (1, 1), 1),
)


@_of("convolution")
def _convolutions(random: numpy.random.Generator) -> Iterator[Problem]:
    for n, c, h, w, k, size, stride, pad, dilation, groups in _CONVOLUTIONS:
        for has_bias in (False, True):
            x, weight, bias = _normal(random, n, c, h, w), _normal(random, k, c // groups, *size), _normal(random, k)
            windows = _windows(_padded(x.astype(float), pad), size, stride, dilation)
            ho, wo = windows.shape[2:4]
            split = windows.reshape(n, groups, c // groups, ho, wo, *size)
            filters = weight.astype(float).reshape(groups, k // groups, c // groups, *size)
            want = numpy.einsum("ngchwyx,gkcyx->ngkhw", split, filters).reshape(n, k, ho, wo)
            want = want + (bias[:, None, None] if has_bias else 0)
            told = dict(n=n, c=c, h=h, w=w, k=k, ho=ho, wo=wo, kh=size[0], kw=size[1])
            told |= dict(stride_h=stride[0], stride_w=stride[1], pad_h=pad[0], pad_w=pad[1])
            told |= dict(dilation_h=dilation[0], dilation_w=dilation[1], groups=groups, transposed=0)
            operands = [Operand(x), Operand(weight, 1, constant=True)]
            operands += [Operand(bias, 2, constant=True)] * has_bias
            terms = c // groups * math.prod(size)
            yield Problem("convolution", operands, [want], told, terms=terms, contraction=True)


def _pairs(**values: Sequence[int]) -> dict[str, int]:
    return {f"{name}_{i}": value for name, pair in values.items() for i, value in enumerate(pair)}


@_of("max_pool2d", "avg_pool2d")
def _pools(random: numpy.random.Generator) -> Iterator[Problem]:
    sizes = (((2, 2), (2, 2), (0, 0), (1, 1)), ((3, 3), (2, 2), (1, 1), (1, 1)), ((3, 2), (1, 2), (1, 0), (1, 2)))
    for size, stride, pad, dilation in sizes:
        x = _normal(random, 2, 5, 9, 11)
        wide = x.astype(float)
        want = _windows(_padded(wide, pad, -math.inf), size, stride, dilation).max((4, 5))
        told = _pairs(kernel_size=size, stride=stride, padding=pad, dilation=dilation) | {"ceil_mode": 0}
        yield Problem("max_pool2d", [Operand(x)], [want], told)
        if dilation != (1, 1):
            continue
        sums = _windows(_padded(wide, pad), size, stride, (1, 1)).sum((4, 5))
        counts = _windows(_padded(numpy.ones_like(wide), pad), size, stride, (1, 1)).sum((4, 5))
        for include in (0, 1):
            want = sums / (math.prod(size) if include else counts)
            told = _pairs(kernel_size=size, stride=stride, padding=pad)
            told |= {"ceil_mode": 0, "count_include_pad": include}
            yield Problem("avg_pool2d", [Operand(x)], [want], told, terms=math.prod(size))


@_of("adaptive_avg_pool2d")
def _adaptive_pools(random: numpy.random.Generator) -> Iterator[Problem]:
    x = _normal(random, 2, 5, 8, 6)
    for size in ((1, 1), (4, 2)):
        want = x.astype(float).reshape(2, 5, size[0], 8 // size[0], size[1], 6 // size[1]).mean((3, 5))
        yield Problem("adaptive_avg_pool2d", [Operand(x)], [want], _pairs(output_size=size), terms=48)


def activated(problem: Problem, name: str) -> Problem:
    """The problem with an activation behind it."""
    functions: dict[str, Callable[[Array], Array]] = {
        "relu": lambda x: numpy.maximum(x, 0),
        "gelu_tanh": lambda x: _gelu(x, "tanh"),
    }
    outputs = [functions[name](value) for value in problem.outputs]
    return Problem(**{**vars(problem), "outputs": outputs, "attributes": {**problem.attributes, "activation": name}})
