# SPDX-License-Identifier: Apache-2.0
"""Inverse trigonometric and hyperbolic functions, made of elementwise ops. Knows no framework."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from straightline.capture.builder import Dim
from straightline.capture.graph_builder import Number, Tensor


class Forms(Protocol):
    """What the functions need of an importer: ops of tensors of one element type and of numbers, broadcast."""

    def full(self, value: Number, dtype: str, extents: Sequence[Dim] = ()) -> Tensor:
        """A constant."""

    def unary(self, name: str, x: Tensor, **attributes: Any) -> Tensor:
        """An op whose result has its operand's type."""

    def binary(self, name: str, x: Tensor, y: Tensor | Number) -> Tensor:
        """An op of two operands whose result has their element type."""

    def compare(self, name: str, x: Tensor, y: Tensor | Number) -> Tensor:
        """A comparison."""

    def where(self, condition: Tensor, x: Tensor | Number, y: Tensor | Number) -> Tensor:
        """Elements of x where the condition is true, else of y."""


def with_sign(ctx: Forms, x: Tensor, magnitude: Tensor) -> Tensor:
    """The magnitude with x's sign; zeros are x's own."""
    signed = ctx.where(ctx.compare("lt", x, 0), ctx.unary("neg", magnitude), magnitude)
    return ctx.where(ctx.compare("eq", x, 0), x, signed)


def _of_one(ctx: Forms, name: str, x: Tensor) -> Tensor:
    """1 - x, 1 + x."""
    return ctx.binary(name, ctx.full(1, x.dtype, x.extents), x)


def _leg(ctx: Forms, x: Tensor) -> Tensor:
    """The square root of 1 - x * x."""
    return ctx.unary("sqrt", ctx.binary("mul", _of_one(ctx, "sub", x), _of_one(ctx, "add", x)))


def atan(ctx: Forms, x: Tensor) -> Tensor:
    """By atan2."""
    return ctx.binary("atan2", x, 1.0)


def asin(ctx: Forms, x: Tensor) -> Tensor:
    """The angle of a right triangle whose longest side is 1."""
    return ctx.binary("atan2", x, _leg(ctx, x))


def acos(ctx: Forms, x: Tensor) -> Tensor:
    """The other angle of that triangle."""
    return ctx.binary("atan2", _leg(ctx, x), x)


def asinh(ctx: Forms, x: Tensor) -> Tensor:
    """Source: fdlibm, s_asinh.c; log(2 |x|) where a square would overflow."""
    a = ctx.unary("abs", x)
    square = ctx.binary("mul", a, a)
    root = ctx.binary("add", ctx.unary("sqrt", ctx.binary("add", square, 1)), 1)
    near = ctx.unary("log1p", ctx.binary("add", a, ctx.binary("div", square, root)))
    far = ctx.binary("add", ctx.unary("log", a), math.log(2))
    return with_sign(ctx, x, ctx.where(ctx.compare("gt", a, 1e9), far, near))


def acosh(ctx: Forms, x: Tensor) -> Tensor:
    """Source: fdlibm, e_acosh.c."""
    t = ctx.binary("sub", x, 1)
    root = ctx.unary("sqrt", ctx.binary("add", ctx.binary("mul", t, 2), ctx.binary("mul", t, t)))
    near = ctx.unary("log1p", ctx.binary("add", t, root))
    return ctx.where(ctx.compare("gt", x, 1e9), ctx.binary("add", ctx.unary("log", x), math.log(2)), near)


def atanh(ctx: Forms, x: Tensor) -> Tensor:
    """Source: fdlibm, e_atanh.c."""
    a = ctx.unary("abs", x)
    ratio = ctx.binary("div", ctx.binary("mul", a, 2), _of_one(ctx, "sub", a))
    return with_sign(ctx, x, ctx.binary("mul", ctx.unary("log1p", ratio), 0.5))


def sinh(ctx: Forms, x: Tensor) -> Tensor:
    """Source: fdlibm, e_sinh.c; by the square of exp(x / 2) where exp overflows and sinh does not."""
    a = ctx.unary("abs", x)
    t = ctx.unary("expm1", a)
    half = ctx.unary("exp", ctx.binary("mul", a, 0.5))
    near = ctx.binary("mul", ctx.binary("add", t, ctx.binary("div", t, ctx.binary("add", t, 1))), 0.5)
    far = ctx.binary("mul", ctx.binary("mul", half, 0.5), half)
    return with_sign(ctx, x, ctx.where(ctx.compare("gt", a, 80), far, near))


def cosh(ctx: Forms, x: Tensor) -> Tensor:
    """By exp(|x| / 2), as `sinh`."""
    a = ctx.unary("abs", x)
    half = ctx.unary("exp", ctx.binary("mul", a, 0.5))
    one = ctx.binary("mul", half, half)
    near = ctx.binary("mul", ctx.binary("add", one, ctx.unary("reciprocal", one)), 0.5)
    far = ctx.binary("mul", ctx.binary("mul", half, 0.5), half)
    return ctx.where(ctx.compare("gt", a, 80), far, near)


#: By name; halves are to be computed in f32.
FUNCTIONS: dict[str, Callable[[Forms, Tensor], Tensor]] = {
    "atan": atan, "asin": asin, "acos": acos, "asinh": asinh, "acosh": acosh, "atanh": atanh, "sinh": sinh, "cosh": cosh,
}  # fmt: skip
