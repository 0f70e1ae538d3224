# SPDX-License-Identifier: Apache-2.0
"""Named extents: sizes that are integer expressions over symbols, in canonical text.

An `Extent` is its text. Arithmetic reads the text as a polynomial with integer coefficients whose variables are symbols and
terms such as `b floordiv 2`, and writes the result in the one way that `canonical` has. Equal polynomials have equal texts, so
that two sizes are known to be equal where their texts are. What comes out constant is an `int`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

#: Upper bound of a symbol that has none of its own.
DEFAULT_MAX = 2**31 - 1

_Value = TypeVar("_Value")
#: A product of variables, sorted -> its coefficient; () is the constant term. Variables are texts: `b`, `b floordiv 2`.
_Polynomial = dict[tuple[str, ...], int]
_TOKEN = re.compile(r"\s*(-?\d+|[A-Za-z_]\w*|[()+*])")


@dataclass(frozen=True)
class Extent:
    """A dynamic size: an integer expression over named symbols, in canonical text (`b`, `b * 64`, `s0 + 1`).

    Operators: `+`, `*`, `floordiv`, `mod`; numbers may be negative (`b + -1`). Two extents are equal exactly when
    their texts are.
    """

    text: str

    def __str__(self) -> str:
        return self.text

    def __add__(self, other: Dim) -> Dim:
        return _dim(_sum(_polynomial(self), _polynomial(other)))

    __radd__ = __add__

    def __sub__(self, other: Dim) -> Dim:
        return self + -1 * other

    def __rsub__(self, other: Dim) -> Dim:
        return other + -1 * self

    def __neg__(self) -> Dim:
        return -1 * self

    def __mul__(self, other: Dim) -> Dim:
        return _dim(_product(_polynomial(self), _polynomial(other)))

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        return _dim(_quotient(_polynomial(self), _polynomial(other)))

    def __rfloordiv__(self, other: Dim) -> Dim:
        return _dim(_quotient(_polynomial(other), _polynomial(self)))

    def __mod__(self, other: Dim) -> Dim:
        return _dim(_remainder(_polynomial(self), _polynomial(other)))

    def __rmod__(self, other: Dim) -> Dim:
        return _dim(_remainder(_polynomial(other), _polynomial(self)))

    @property
    def symbols(self) -> frozenset[str]:
        """Names of the symbols in it."""
        return evaluated(self, lambda leaf: frozenset((leaf,) if isinstance(leaf, str) else ()), lambda _, x, y: x | y)


#: A size: a number where it is static.
Dim = int | Extent


def canonical(text: str) -> Dim:
    """The extent, or number, that an expression means."""
    return _dim(_read(text))


def bounds(dim: Dim, symbols: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    """Inclusive bounds of a size by those of its symbols; they may be wider than the values that it takes."""
    return evaluated(dim, lambda leaf: symbols[leaf] if isinstance(leaf, str) else (leaf, leaf), _interval)


def value_of(dim: Dim, symbols: Mapping[str, int]) -> int:
    """The number that a size is where its symbols have these values."""
    operations = {
        "+": int.__add__, "*": int.__mul__, "floordiv": int.__floordiv__, "mod": int.__mod__,
    }  # fmt: skip
    return evaluated(
        dim, lambda leaf: symbols[leaf] if isinstance(leaf, str) else leaf, lambda op, x, y: operations[op](x, y)
    )


def evaluated(dim: Dim, leaf: Callable[[str | int], _Value], apply: Callable[[str, _Value, _Value], _Value]) -> _Value:
    """The value of an expression: of symbols and numbers by `leaf`, of operators by `apply`."""
    if isinstance(dim, int):
        return leaf(dim)
    tokens = _TOKEN.findall(dim.text)
    if "".join(tokens) != re.sub(r"\s", "", dim.text):
        raise ValueError(f"size '{dim.text}' is no expression of + * floordiv mod over symbols and numbers")
    place = 0

    def atom() -> _Value:
        nonlocal place
        token, place = tokens[place], place + 1
        if token == "(":
            value = whole()
            place += 1
            return value
        return leaf(int(token)) if token.lstrip("-").isdigit() else leaf(token)

    def product() -> _Value:
        nonlocal place
        value = atom()
        while place < len(tokens) and tokens[place] in ("*", "floordiv", "mod"):
            operator, place = tokens[place], place + 1
            value = apply(operator, value, atom())
        return value

    def whole() -> _Value:
        nonlocal place
        value = product()
        while place < len(tokens) and tokens[place] == "+":
            place += 1
            value = apply("+", value, product())
        return value

    return whole()


def product_of(dims: tuple[Dim, ...] | list[Dim]) -> Dim:
    """How many elements a tensor of these sizes has."""
    return functools.reduce(lambda x, y: x * y, dims, 1)


def exact_quotient(x: Dim, y: Dim) -> Dim | None:
    """A quotient x / y where y is one product that each term of x has; None for other sizes.

    Of `n * t * 4` and `n * t` it is 4.
    """
    terms, divisors = _polynomial(x), _polynomial(y)
    if len(divisors) != 1:
        return None
    ((variables, count),) = divisors.items()
    found: _Polynomial = {}
    for key, times in terms.items():
        rest = list(key)
        for variable in variables:
            if variable not in rest:
                return None
            rest.remove(variable)
        if times % count:
            return None
        found[tuple(rest)] = times // count
    return _dim(_clean(found))


def broadcast(x: tuple[Dim, ...], y: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The shape that two shapes are broadcast to, aligned at their ends; sizes other than 1 are taken to be equal."""
    rank = max(len(x), len(y))
    x = (1,) * (rank - len(x)) + tuple(x)
    y = (1,) * (rank - len(y)) + tuple(y)
    return tuple(j if i == 1 else i for i, j in zip(x, y))


# Polynomials ----------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def _read(text: str) -> _Polynomial:
    operations = {"+": _sum, "*": _product, "floordiv": _quotient, "mod": _remainder}
    return evaluated(
        Extent(text),
        lambda leaf: {(leaf,): 1} if isinstance(leaf, str) else {(): leaf},
        lambda op, x, y: operations[op](x, y),
    )


def _polynomial(dim: Dim) -> _Polynomial:
    return _read(dim.text) if isinstance(dim, Extent) else {(): int(dim)}


def _clean(terms: _Polynomial) -> _Polynomial:
    return {variables: count for variables, count in terms.items() if count}


def _sum(x: _Polynomial, y: _Polynomial) -> _Polynomial:
    return _clean({key: x.get(key, 0) + y.get(key, 0) for key in (*x, *y)})


def _product(x: _Polynomial, y: _Polynomial) -> _Polynomial:
    terms: _Polynomial = {}
    for variables, count in x.items():
        for others, times in y.items():
            key = tuple(sorted((*variables, *others)))
            terms[key] = terms.get(key, 0) + count * times
    return _clean(terms)


def _number(x: _Polynomial) -> int | None:
    return x.get((), 0) if not set(x) - {()} else None


def _quotient(x: _Polynomial, y: _Polynomial) -> _Polynomial:
    divisor = _number(y)
    if divisor and all(count % divisor == 0 for count in x.values()):
        return {key: count // divisor for key, count in x.items()}
    if divisor and _number(x) is not None:
        return _clean({(): x[()] // divisor})
    return {(_binary(x, "floordiv", y),): 1}


def _remainder(x: _Polynomial, y: _Polynomial) -> _Polynomial:
    divisor = _number(y)
    if divisor and all(count % divisor == 0 for count in x.values()):
        return {}
    if divisor and _number(x) is not None:
        return _clean({(): x[()] % divisor})
    return {(_binary(x, "mod", y),): 1}


def _binary(x: _Polynomial, word: str, y: _Polynomial) -> str:
    return f"{_atom(_text(x))} {word} {_atom(_text(y))}"


def _atom(text: str) -> str:
    return text if re.fullmatch(r"-?\w+", text) else f"({text})"


def _text(terms: _Polynomial) -> str:
    """Terms by their text with the constant last; factors by their text with the coefficient last."""
    constant = terms.get((), 0)
    texts = sorted(_term(variables, count) for variables, count in terms.items() if variables)
    return " + ".join(texts + ([str(constant)] if constant or not texts else []))


def _term(variables: tuple[str, ...], count: int) -> str:
    if len(variables) == 1 and count == 1:
        return variables[0]
    return " * ".join([*sorted(map(_atom, variables)), *([str(count)] if count != 1 else [])])


def _dim(terms: _Polynomial) -> Dim:
    number = _number(terms)
    return Extent(_text(terms)) if number is None else number


# Intervals ------------------------------------------------------------------------------------------------------------


def _interval(operator: str, x: tuple[int, int], y: tuple[int, int]) -> tuple[int, int]:
    if operator == "+":
        return x[0] + y[0], x[1] + y[1]
    if operator == "mod":
        return (x[0], x[1]) if 0 <= x[0] and x[1] < y[0] else (0, max(y[1] - 1, 0))
    if operator == "floordiv" and y[0] < 1:
        raise ValueError(f"bounds of a quotient whose divisor is in [{y[0]}, {y[1]}]")
    apply = int.__mul__ if operator == "*" else int.__floordiv__
    ends = [apply(i, j) for i in x for j in y]
    return min(ends), max(ends)
