# SPDX-License-Identifier: Apache-2.0
"""Functions of complex numbers as ops of their two parts. Knows no framework."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from straightline.capture import fourier
from straightline.capture.builder import TensorType
from straightline.capture.fourier import Pair
from straightline.capture.graph_builder import Number, Tensor


class Typed(Protocol):
    """A tensor, or numbers that are known while importing."""

    @property
    def type(self) -> TensorType:
        """Its type."""


Part = TypeVar("Part", bound=Typed)


@dataclass(frozen=True, eq=False)
class Complex(Generic[Part]):
    """Complex numbers, as their parts."""

    re: Part
    im: Part

    @property
    def type(self) -> TensorType:
        """The type of each part."""
        return self.re.type


class Elements(Protocol):
    """What an importer has for ops of elements."""

    def unary(self, name: str, x: Tensor, **attributes: Any) -> Tensor:
        """An op of one operand."""

    def binary(self, name: str, x: Tensor, y: Tensor | Number) -> Tensor:
        """An op of two operands, or of one and a number."""

    def compare(self, name: str, x: Tensor, y: Tensor | Number) -> Tensor:
        """A comparison."""

    def where(self, condition: Tensor, x: Tensor | Number, y: Tensor | Number) -> Tensor:
        """Elements of x where the condition is true, else of y."""


def multiplied(ctx: Any, x: Pair, y: Pair) -> Pair:
    """A product."""
    found: Pair = fourier.multiplied(ctx, x, y)
    return found


def divided(ctx: Elements, x: Pair, y: Pair) -> Pair:
    """A quotient, by a divisor whose larger part is about 1."""
    c, d = y
    larger = ctx.binary("maximum", ctx.unary("abs", c), ctx.unary("abs", d))
    c, d = ctx.binary("div", c, larger), ctx.binary("div", d, larger)
    square = ctx.binary("add", ctx.binary("mul", c, c), ctx.binary("mul", d, d))
    re, im = multiplied(ctx, x, (c, ctx.unary("neg", d)))
    return tuple(ctx.binary("div", ctx.binary("div", t, square), larger) for t in (re, im))  # type: ignore[return-value]


def size(ctx: Elements, z: Pair) -> Tensor:
    """The absolute value, without an overflow of squares."""
    a, b = (ctx.unary("abs", t) for t in z)
    large, small = ctx.binary("maximum", a, b), ctx.binary("minimum", a, b)
    ratio = ctx.binary("div", small, large)
    found = ctx.binary("mul", large, ctx.unary("sqrt", ctx.binary("add", ctx.binary("mul", ratio, ratio), 1.0)))
    found = ctx.where(ctx.compare("eq", large, 0), large, found)
    infinite = [ctx.compare("eq", t, math.inf) for t in (a, b)]
    return ctx.where(ctx.binary("logical_or", *infinite), math.inf, found)


def exponential(ctx: Elements, z: Pair) -> Pair:
    """Of a real number a real one."""
    re, im = z
    grown = ctx.unary("exp", re)
    turned = ctx.where(ctx.compare("eq", im, 0), im, ctx.binary("mul", grown, ctx.unary("sin", im)))
    return ctx.binary("mul", grown, ctx.unary("cos", im)), turned


def angle(ctx: Elements, z: Pair) -> Tensor:
    """Between the positive real axis and the number."""
    return ctx.binary("atan2", z[1], z[0])


def logarithm(ctx: Elements, z: Pair) -> Pair:
    """The natural one, whose imaginary part is the angle."""
    return ctx.unary("log", size(ctx, z)), angle(ctx, z)


def root(ctx: Elements, z: Pair) -> Pair:
    """The root whose real part is not negative: sqrt((|z| + |re|) / 2) is one part, im / 2 over it the other."""
    re, im = z
    half = ctx.binary("mul", size(ctx, z), 0.5)
    larger = ctx.unary("sqrt", ctx.binary("add", half, ctx.binary("mul", ctx.unary("abs", re), 0.5)))
    is_zero = ctx.compare("eq", larger, 0)
    other = ctx.binary("div", ctx.binary("mul", im, 0.5), ctx.where(is_zero, 1.0, larger))
    right = ctx.compare("ge", re, 0)
    signed = ctx.where(ctx.compare("lt", angle(ctx, z), 0), ctx.unary("neg", larger), larger)
    return ctx.where(right, larger, ctx.unary("abs", other)), ctx.where(right, other, signed)


def cosine(ctx: Elements, z: Pair) -> Pair:
    """Cos a cosh b - i sin a sinh b."""
    c, s, cosh, sinh = _circular(ctx, z)
    return ctx.binary("mul", c, cosh), ctx.unary("neg", ctx.binary("mul", s, sinh))


def sine(ctx: Elements, z: Pair) -> Pair:
    """Sin a cosh b + i cos a sinh b."""
    c, s, cosh, sinh = _circular(ctx, z)
    return ctx.binary("mul", s, cosh), ctx.binary("mul", c, sinh)


def _circular(ctx: Elements, z: Pair) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    a, b = z
    grown, shrunk = ctx.unary("expm1", b), ctx.unary("expm1", ctx.unary("neg", b))
    sinh = ctx.binary("mul", ctx.binary("sub", grown, shrunk), 0.5)
    cosh = ctx.binary("add", ctx.binary("mul", ctx.binary("add", grown, shrunk), 0.5), 1.0)
    return ctx.unary("cos", a), ctx.unary("sin", a), cosh, sinh


def equal(ctx: Elements, name: str, x: Pair, y: Pair) -> Tensor:
    """Whether numbers are equal ("eq") or not ("ne")."""
    both = [ctx.compare(name, a, b) for a, b in zip(x, y)]
    return ctx.binary("logical_and" if name == "eq" else "logical_or", *both)
