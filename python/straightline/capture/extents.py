# SPDX-License-Identifier: Apache-2.0
"""Sizes: torch's symbolic integers (sympy expressions) as numbers and named extents."""

from __future__ import annotations

from collections.abc import Mapping

import sympy
import torch
from torch.utils._sympy.functions import CleanDiv, FloorDiv, Mod, PythonMod

from straightline.capture.builder import Dim, Extent
from straightline.errors import UnsupportedError

#: Upper bound of a symbol that the user gave none.
DEFAULT_MAX = 2**31 - 1

_SUM, _PRODUCT, _ATOM = 0, 1, 2  # binding strength of a printed expression


class ExtentPrinter:
    """Prints sympy expressions over torch's symbols (`s77`) with the user's names (`b`)."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def dim(self, size: int | torch.SymInt) -> Dim:
        """Returns a number for a static size, else its named extent."""
        if isinstance(size, int):
            return size
        return self.expression(size.node.expr)

    def expression(self, expr: sympy.Expr) -> Dim:
        """Returns a number or an extent for an expression."""
        expr = sympy.sympify(expr)
        if expr.is_Integer:
            return int(expr)
        return Extent(self._print(expr)[0])

    def _print(self, expr: sympy.Expr) -> tuple[str, int]:
        if expr.is_Integer:
            return str(int(expr)), _ATOM
        if expr.is_Symbol:
            name = self._names.get(str(expr))
            if name is None:
                raise UnsupportedError(f"size {expr} depends on data, not on the sizes of inputs")
            return name, _ATOM
        if expr.is_Add:
            return self._sum(expr), _SUM
        if expr.is_Mul:
            return self._product(expr), _PRODUCT
        if isinstance(expr, (FloorDiv, CleanDiv)):
            return self._binary("floordiv", expr.args), _PRODUCT
        if isinstance(expr, (Mod, PythonMod)):
            return self._binary("mod", expr.args), _PRODUCT
        if expr.is_Pow and expr.exp.is_Integer and int(expr.exp) > 0:
            base = self._at_least(expr.base, _ATOM)
            return " * ".join([base] * int(expr.exp)), _PRODUCT
        raise UnsupportedError(f"size {expr} is no expression of + * floordiv mod over input sizes")

    def _at_least(self, expr: sympy.Expr, strength: int) -> str:
        text, has = self._print(expr)
        return text if has >= strength else f"({text})"

    def _binary(self, word: str, args: tuple[sympy.Expr, ...]) -> str:
        return f"{self._at_least(args[0], _ATOM)} {word} {self._at_least(args[1], _ATOM)}"

    def _sum(self, expr: sympy.Expr) -> str:
        constant, terms = expr.as_coeff_add()
        texts = sorted(self._print(term)[0] for term in terms)
        return " + ".join(texts + ([str(int(constant))] if constant else []))

    def _product(self, expr: sympy.Expr) -> str:
        constant, factors = expr.as_coeff_mul()
        if not constant.is_Integer:
            raise UnsupportedError(f"size {expr} has the fraction {constant}")
        texts = sorted(self._at_least(factor, _ATOM) for factor in factors)
        return " * ".join(texts + ([str(int(constant))] if constant != 1 else []))
