# SPDX-License-Identifier: Apache-2.0
"""Sizes: torch's symbolic integers (sympy expressions) as numbers and named extents."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction

import sympy
import torch
from torch.utils._sympy.functions import (
    CleanDiv,
    FloorDiv,
    FloorToInt,
    Max,
    Min,
    Mod,
    PythonMod,
    ToFloat,
    TruncToInt,
)

from straightline.capture.builder import Dim, Extent
from straightline.capture.captured import SymbolSpec
from straightline.capture.extents import maximum, minimum
from straightline.errors import UnsupportedError

#: What a refusal says of a size that no size of an input gives.
DEPENDS_ON_DATA = "depends on data, not on the sizes of inputs"


#: Factors of sizes are read as fractions of such denominators.
_MOST_PARTS = 1000


def scaled(size: Dim, factor: float) -> Dim:
    """The whole part of a size times a float, as floats give it for every size.

    The float stands for a fraction p / q, from which it differs by a relative e. Where `p * size / q` is a whole number, the
    rounded product is not below it if e is 0 or more, nor if -e is less than half of half an ulp. Elsewhere it is 1 / q from
    the next whole number, which no rounding bridges.
    """
    fraction = Fraction(factor).limit_denominator(_MOST_PARTS)
    error = Fraction(factor) / fraction - 1 if fraction else Fraction(1)
    if factor <= 0 or float(fraction) != factor or error <= -Fraction(1, 2**54):
        raise UnsupportedError(f"the whole part of a size times {factor} is no expression of + * floordiv mod")
    return size * fraction.numerator // fraction.denominator


#: No size is larger, whatever its symbol may be.
_LARGEST = 2**40


class ExtentPrinter:
    """Turns sympy expressions over torch's symbols (`s77`) into extents over the user's names (`b`).

    Args:
        names: The user's names (or sizes of such names), by torch's.
        symbols: What is known of them, which expressions of the larger or smaller one of two sizes need.
    """

    def __init__(self, names: Mapping[str, str], symbols: Iterable[SymbolSpec]) -> None:
        self._names = names
        self._bounds = {spec.name: (spec.min, min(spec.max, _LARGEST)) for spec in symbols}

    def dim(self, size: int | torch.SymInt) -> Dim:
        """Returns a number for a static size, else its named extent."""
        if isinstance(size, int):
            return size
        return self.expression(size.node.expr)

    def expression(self, expr: sympy.Expr) -> Dim:
        """Returns a number or an extent for an expression."""
        return self._extent(sympy.sympify(expr))

    def _extent(self, expr: sympy.Expr) -> Dim:
        if expr.is_Integer:
            return int(expr)
        if expr.is_Symbol:
            name = self._names.get(str(expr))
            if name is None:
                raise UnsupportedError(f"a size {DEPENDS_ON_DATA}")
            return Extent(name)
        if expr.is_Mul and not (fraction := expr.as_coeff_mul()[0]).is_Integer:
            raise UnsupportedError(f"size {expr} has the fraction {fraction}")
        if expr.is_Pow and expr.exp.is_Integer and int(expr.exp) > 0:
            return functools.reduce(operator.mul, [self._extent(expr.base)] * int(expr.exp))
        if isinstance(expr, (TruncToInt, FloorToInt)) and expr.args[0].is_Mul and len(expr.args[0].args) == 2:
            factor, of = expr.args[0].args
            if factor.is_Float and isinstance(of, ToFloat):
                return scaled(self._extent(of.args[0]), float(factor))
        operation = (
            self._larger if isinstance(expr, (sympy.Max, Max))
            else self._smaller if isinstance(expr, (sympy.Min, Min))
            else operator.add if expr.is_Add
            else operator.mul if expr.is_Mul
            else operator.floordiv if isinstance(expr, (FloorDiv, CleanDiv))
            else operator.mod if isinstance(expr, (Mod, PythonMod))
            else None
        )  # fmt: skip
        if operation is None:
            raise UnsupportedError(f"size {expr} is no expression of + * floordiv mod min max over input sizes")
        return functools.reduce(operation, map(self._extent, expr.args))

    def _larger(self, one: Dim, other: Dim) -> Dim:
        return self._of_two(maximum, one, other)

    def _smaller(self, one: Dim, other: Dim) -> Dim:
        return self._of_two(minimum, one, other)

    def _of_two(self, function: Callable[..., Dim], one: Dim, other: Dim) -> Dim:
        try:
            return function(one, other, self._bounds)
        except KeyError as error:  # a symbol that an op of the graph declared
            raise UnsupportedError(
                f"a size is the {function.__name__} of two, of which one {DEPENDS_ON_DATA}"
            ) from error
