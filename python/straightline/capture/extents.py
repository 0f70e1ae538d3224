# SPDX-License-Identifier: Apache-2.0
"""Named extents: sizes that are integer expressions over symbols, in canonical text.

An `Extent` is its text. Arithmetic reads the text as a polynomial with integer coefficients whose variables are symbols and
terms such as `b floordiv 2`, and writes the result in the one way that `canonical` has. Equal polynomials have equal texts, so
that two sizes are known to be equal where their texts are. What comes out constant is an `int`.
"""

from __future__ import annotations

import functools
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

#: Upper bound of a symbol that has none of its own.
DEFAULT_MAX = 2**31 - 1

#: Bounds are found case by case for so many quotients of 0 or 1.
_MOST_STEPS = 4

_Value = TypeVar("_Value")
#: A product of variables, sorted -> its coefficient; () is the constant term. Variables are texts: `b`, `b floordiv 2`.
_Polynomial = dict[tuple[str, ...], int]
_OPERATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "*": operator.mul, "floordiv": operator.floordiv, "mod": operator.mod,
}  # fmt: skip
_BY_NUMBER = re.compile(r"(\w+|\(.*\)) floordiv (\d+)")
_TOKEN = re.compile(r"\s*(-?\d+|[A-Za-z_]\w*|[()+*])")


@dataclass(frozen=True, repr=False)
class Extent:
    """A dynamic size: an integer expression over named symbols, in canonical text (`b`, `b * 64`, `s0 + 1`).

    Operators: `+`, `*`, `floordiv`, `mod`; numbers may be negative (`b + -1`). Two extents are equal exactly when
    their texts are.
    """

    text: str

    def __repr__(self) -> str:
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
    """Inclusive bounds of a size by those of its symbols; they may be wider than the values that it takes.

    Quotients that are 0 or 1, as in what `maximum` gives, are looked at by their two cases, and quotients by numbers
    (`((n + 3) floordiv 4) * 4 + n * -1`) also by what their remainders leave.
    """
    steps = _steps(dim, symbols)
    if not steps or len(steps) > _MOST_STEPS:
        leaf = lambda at: symbols[at] if isinstance(at, str) else (at, at)  # noqa: E731
        low, high = evaluated(dim, leaf, _interval)
        form, scale = _with_remainders(dim)
        if scale > 1:
            least, most = evaluated(form, leaf, _interval)
            low, high = max(low, -(-least // scale)), min(high, most // scale)
        return low, high
    numerator, divisor, cases = steps[0]
    found = []
    for case in cases:
        least = case * divisor
        narrowed = _narrowed(numerator, least, least + divisor - 1, symbols)
        if narrowed is not None:
            known = {str(numerator // divisor): case, str(numerator % divisor): numerator - least}
            found.append(bounds(_replaced(dim, known), narrowed))
    return min(low for low, _ in found), max(high for _, high in found)


def value_of(dim: Dim, symbols: Mapping[str, int]) -> int:
    """The number that a size is where its symbols have these values."""
    return evaluated(
        dim, lambda leaf: symbols[leaf] if isinstance(leaf, str) else leaf, lambda op, x, y: _OPERATIONS[op](x, y)
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


def maximum(x: Dim, y: Dim, symbols: Mapping[str, tuple[int, int]]) -> Dim:
    """The larger one of two sizes whose symbols have these inclusive bounds; one text for all ways to write it.

    It is the second size and the positive part of the difference, `d` of at most `m - 1` either way, written as
    `((d + m) mod m) * ((d + m) floordiv m)`: the quotient is 1 where d is 0 or more, else 0.
    """
    return y + _positive_part(x - y, symbols)


def minimum(x: Dim, y: Dim, symbols: Mapping[str, tuple[int, int]]) -> Dim:
    """The smaller one of two sizes whose symbols have these inclusive bounds."""
    return x - _positive_part(x - y, symbols)


#: More than any size of a tensor in memory; sums of it and a size are integers of 64 bits.
_BEYOND_SIZES = 2**62


def _positive_part(x: Dim, symbols: Mapping[str, tuple[int, int]]) -> Dim:
    low, high = bounds(x, symbols)
    if low >= 0 or high <= 0:
        return x if low >= 0 else 0
    terms = _polynomial(x)
    if terms[min(variables for variables in terms if variables)] < 0:
        return x + _positive_part(-x, symbols)  # max(n + -4, 0) and max(4 + -n, 0) share a text
    beyond = min(max(high, -low) + 1, _BEYOND_SIZES)
    return ((x + beyond) % beyond) * ((x + beyond) // beyond)


def remainder(x: Dim, y: Dim, symbols: Mapping[str, tuple[int, int]]) -> Dim:
    """A remainder that is not negative, of a divisor above 0: without `mod` where the bounds say the quotient is 0 or -1."""
    if bounds(x, symbols)[0] >= 0 and bounds(y - x, symbols)[0] > 0:
        return x
    if bounds(x, symbols)[1] < 0 and bounds(x + y, symbols)[0] >= 0:
        return x + y
    return x % y


def product_of(dims: tuple[Dim, ...] | list[Dim]) -> Dim:
    """How many elements a tensor of these sizes has."""
    return functools.reduce(lambda x, y: x * y, dims, 1)


def exact_quotient(x: Dim, y: Dim) -> Dim | None:
    """A quotient x / y of polynomials that leaves nothing over; None for other sizes.

    Of `n * t * 4` and `n * t` it is 4, of `n * n + n` and `n + 1` it is n.
    """
    left, divisors = _clean(_polynomial(x)), _clean(_polynomial(y))
    if not divisors:
        return None
    order = sorted({variable for key in (*left, *divisors) for variable in key})
    rank = lambda key: (len(key), [key.count(variable) for variable in order])  # noqa: E731
    leading = max(divisors, key=rank)
    found: _Polynomial = {}
    while left:
        key = max(left, key=rank)
        rest = list(key)
        if any(leading.count(variable) > key.count(variable) for variable in leading) or left[key] % divisors[leading]:
            return None
        for variable in leading:
            rest.remove(variable)
        part = {tuple(rest): left[key] // divisors[leading]}
        found = _sum(found, part)
        left = _sum(left, {k: -times for k, times in _product(part, divisors).items()})
    return _dim(found)


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


def _steps(dim: Dim, symbols: Mapping[str, tuple[int, int]]) -> list[tuple[Extent, int, Sequence[int]]]:
    """Quotients by numbers in a size that are 0 or 1 by its symbols' bounds, inner ones first.

    Each is what is divided, by what, and the quotient's values.
    """
    found: dict[tuple[Extent, int], Sequence[int]] = {}
    if isinstance(dim, int) or "floordiv" not in dim.text:
        return []

    def apply(word: str, x: tuple[Dim, tuple[int, int]], y: tuple[Dim, tuple[int, int]]) -> Any:
        low, high = _interval(word, x[1], y[1])
        if word == "floordiv" and 0 <= low <= high <= 1 and isinstance(x[0], Extent) and isinstance(y[0], int):
            found[x[0], y[0]] = range(low, high + 1)
        return _OPERATIONS[word](x[0], y[0]), (low, high)

    evaluated(dim, lambda leaf: (Extent(leaf), symbols[leaf]) if isinstance(leaf, str) else (leaf, (leaf, leaf)), apply)
    return [(numerator, divisor, cases) for (numerator, divisor), cases in found.items()]


def _with_remainders(dim: Dim) -> tuple[Dim, int]:
    """A multiple of a size, and how many times it that is, with `e - e mod m` in place of `(e floordiv m) * m`."""
    if isinstance(dim, int) or "floordiv" not in dim.text:
        return dim, 1
    terms = _polynomial(dim)
    quotients = {v: match for key in terms for v in key if (match := _BY_NUMBER.fullmatch(v)) and int(match[2])}
    scale = math.lcm(*(int(match[2]) for match in quotients.values()))
    found: Dim = 0
    for variables, times in terms.items():
        part: Dim = times * scale
        for variable in variables:
            match = quotients.get(variable)
            divisor = int(match[2]) if match else 0
            if match and isinstance(part, int) and part % divisor == 0:
                numerator = canonical(match[1])
                part = (numerator - numerator % divisor) * (part // divisor)
            else:
                part = Extent(variable) * part
        found = found + part
    return found, scale


def _replaced(dim: Dim, known: Mapping[str, Dim]) -> Dim:
    """A size in which other sizes stand for some of its parts."""

    def apply(word: str, x: Dim, y: Dim) -> Dim:
        part = _OPERATIONS[word](x, y)
        return known.get(str(part), part)

    return evaluated(dim, lambda leaf: Extent(leaf) if isinstance(leaf, str) else leaf, apply)


def _narrowed(
    dim: Extent, low: int, high: int, symbols: Mapping[str, tuple[int, int]]
) -> Mapping[str, tuple[int, int]] | None:
    """The symbols' bounds where a size is in an interval; None where it never is.

    That of the symbol of `n * k + c` is narrowed, also behind quotients.
    """
    terms = _polynomial(dim)
    variables = [key for key in terms if key]
    if len(variables) != 1 or len(variables[0]) != 1:
        return symbols
    (variable,), times, rest = variables[0], terms[variables[0]], terms.get((), 0)
    ends = (low - rest, high - rest) if times > 0 else (high - rest, low - rest)
    least, most = -(-ends[0] // times), ends[1] // times
    quotient = _BY_NUMBER.fullmatch(variable)
    if quotient:
        divisor, numerator = int(quotient[2]), canonical(quotient[1])
        if isinstance(numerator, int):
            return symbols
        return _narrowed(numerator, least * divisor, most * divisor + divisor - 1, symbols)
    if variable not in symbols:
        return symbols
    least, most = max(least, symbols[variable][0]), min(most, symbols[variable][1])
    return {**symbols, variable: (least, most)} if least <= most else None
