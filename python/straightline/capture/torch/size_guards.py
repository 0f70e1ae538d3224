# SPDX-License-Identifier: Apache-2.0
"""Guards of torch.export (`(L['x'].size()[0] % 4) == 0`) as conditions over sizes, and in words."""

from __future__ import annotations

import ast
import copy
import functools
import math
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from straightline.capture.extents import Dim, Extent, bounds, exact_quotient
from straightline.capture.torch.symbolic_sizes import scaled
from straightline.errors import UnsupportedError

_ARITHMETIC = {
    ast.Add: operator.add, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
_COMPARISONS = {
    ast.Eq: ("eq", "be"), ast.NotEq: ("ne", "not be"), ast.LtE: ("le", "be at most"), ast.Lt: ("lt", "be less than"),
    ast.GtE: ("ge", "be at least"), ast.Gt: ("gt", "be greater than"),
}  # fmt: skip
_OPPOSITES = {"eq": "ne", "ne": "eq", "le": "gt", "gt": "le", "lt": "ge", "ge": "lt"}

_OPS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floor_divide", ast.Mod: "remainder"}

#: So many alternatives of a guard are compared with the bounds.
_MOST_ALTERNATIVES = 4


#: A size, or an op of integers or truth values with its operands: ("lt", n, ("minimum", 4, m)).
Term = int | Extent | tuple[Any, ...]


@dataclass(frozen=True)
class SizeGuard:
    """A comparison of two sizes that holds in every call; `words` says so to the user, and `names` with the sizes' names.

    A check that fails adds the values of the names in its text.
    """

    comparison: str
    left: Dim
    right: Dim
    words: str
    truth: Term
    names: str = ""


@dataclass(frozen=True)
class EitherGuard:
    """Alternatives of which one holds in every call."""

    words: str
    truth: Term
    names: str = ""


def size_guards(
    guards: Sequence[str], shapes: Mapping[str, Sequence[Dim]], ranges: Mapping[str, tuple[int, int]]
) -> list[SizeGuard | EitherGuard]:
    """The guards that neither the inputs' types nor the bounds of the symbols imply.

    Args:
        guards: Python expressions over `L['name']`, as `ExportedProgram` has them.
        shapes: Sizes of inputs, by the user's names ("x", "pair[0]").
        ranges: Smallest and largest values of symbols.

    Raises:
        UnsupportedError: A guard that is not made of comparisons of sizes.
    """
    found: list[SizeGuard | EitherGuard] = []
    for guard in guards:
        try:
            for condition in _needed(_parsed(guard), _Reader(shapes, ranges)):
                if condition not in found:
                    found.append(condition)
        except (_NoSize, SyntaxError, UnsupportedError):
            raise UnsupportedError(
                f"calls would have to check that {guard}; "
                "nearest supported form: a named Dim whose every size is right (2 * Dim), given with the module"
            ) from None
    return found


def _parsed(guard: str) -> ast.expr:
    """The condition, with `min(..)` where a newer torch writes `torch.sym_min(..)`."""

    class Choices(ast.NodeTransformer):
        def visit_Attribute(self, attribute: ast.Attribute) -> ast.AST:
            plain = {"torch.sym_min": "min", "torch.sym_max": "max"}.get(ast.unparse(attribute))
            return ast.Name(plain) if plain else self.generic_visit(attribute)

    return Choices().visit(ast.parse(guard, mode="eval").body)


def _needed(node: ast.expr, reader: _Reader) -> Sequence[SizeGuard | EitherGuard]:
    """What a call has to check of a condition."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        return [one for part in node.values for one in _needed(part, reader)]
    try:
        alternatives = reader.alternatives(node)
    except _TooMany:
        alternatives = [[], []]
    if len(alternatives) == 1:
        return alternatives[0]
    return [EitherGuard(f"{_words(node)} must hold", reader.term(node), reader.names(node))]


def multiples(guards: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Name of an input, dim and k of each guard that a size is a multiple of k."""
    for guard in guards:
        match ast.parse(guard, mode="eval").body:
            case ast.Compare(
                left=ast.BinOp(left=ast.Subscript() as size, op=ast.Mod(), right=ast.Constant(value=int(count))),
                ops=[ast.Eq()],
                comparators=[ast.Constant(value=0)],
            ) if count > 0:
                try:
                    yield (*_place(size), count)
                except _NoSize:
                    continue


class _NoSize(Exception):
    """A part of a guard that is no size of an input, nor arithmetic on such."""


class _TooMany(Exception):
    """A condition with more alternatives than are looked at."""


@dataclass(frozen=True)
class _Reader:
    """Reads conditions over sizes of inputs."""

    shapes: Mapping[str, Sequence[Dim]]
    ranges: Mapping[str, tuple[int, int]]

    def alternatives(self, node: ast.expr) -> list[list[SizeGuard]]:
        """Lists of comparisons, of which one list holds where the condition does.

        What the bounds imply is left out, and alternatives that they exclude.
        """
        match node:
            case ast.BoolOp(op=ast.Or()):
                found = [one for part in node.values for one in self.alternatives(part)]
            case ast.BoolOp():
                found = self._all_of(node.values)
            case ast.Compare() if len(node.ops) > 1:  # a < b < c
                sides = [node.left, *node.comparators]
                found = self._all_of([_compared(sides[n], op, sides[n + 1]) for n, op in enumerate(node.ops)])
            case ast.Compare() if (choice := _choice(node)) is not None:
                found = [one for case in _cases(node, choice) for one in self._all_of(case)]
            case ast.Compare():
                found = self._one(self.condition(node))
            case _:
                raise _NoSize
        if len(found) > _MOST_ALTERNATIVES:
            raise _TooMany
        return [[]] if [] in found else found

    def _all_of(self, parts: Sequence[ast.expr]) -> list[list[SizeGuard]]:
        found: list[list[SizeGuard]] = [[]]
        for part in parts:
            further = self.alternatives(part)
            found = [[*one, *(new for new in other if new not in one)] for one in found for other in further]
            if len(found) > _MOST_ALTERNATIVES:
                raise _TooMany
        return found

    def _one(self, condition: SizeGuard) -> list[list[SizeGuard]]:
        if _implied(condition, self.ranges):
            return [[]]
        is_excluded = _implied(replace(condition, comparison=_OPPOSITES[condition.comparison]), self.ranges)
        return [] if is_excluded else [[condition]]

    def condition(self, node: ast.Compare) -> SizeGuard:
        """A comparison of two sizes."""
        if type(node.ops[0]) not in _COMPARISONS:
            raise _NoSize
        comparison, verb = _COMPARISONS[type(node.ops[0])]
        left, right = (self.size(side) for side in (node.left, node.comparators[0]))
        words = f"{_words(node.left)} must {verb} {_words(node.comparators[0])}"
        if isinstance(node.left, ast.BinOp) and isinstance(node.left.op, ast.Mod) and right == 0 and comparison == "eq":
            words = f"{_words(node.left.left)} must be a multiple of {_words(node.left.right)}"
        return SizeGuard(comparison, left, right, words, self.term(node), self.names(node))

    def size(self, node: ast.expr) -> Dim:
        match node:
            case ast.Constant() if type(node.value) is int:
                return node.value
            case ast.BinOp() if type(node.op) in _ARITHMETIC:
                return _ARITHMETIC[type(node.op)](self.size(node.left), self.size(node.right))
            case ast.BinOp(op=ast.Sub()):
                return self.size(node.left) + self.size(node.right) * -1
            case ast.UnaryOp(op=ast.USub()):
                return self.size(node.operand) * -1
            case ast.Call(
                func=ast.Attribute(attr="trunc" | "floor"),
                args=[
                    ast.BinOp(
                        left=ast.Constant(value=float(factor)),
                        op=ast.Mult(),
                        right=ast.Call(func=ast.Attribute(attr="sym_float"), args=[of]),
                    )
                ],
            ):
                return scaled(self.size(of), factor)
        name, dim = _place(node)
        if name not in self.shapes or dim >= len(self.shapes[name]):
            raise _NoSize
        return self.shapes[name][dim]

    def names(self, node: ast.expr) -> str:
        """The condition with the program's names of sizes: `n >= m`."""
        shapes = self.shapes

        class Sizes(ast.NodeTransformer):
            def visit_Subscript(self, subscript: ast.Subscript) -> ast.expr:
                name, dim = _place(subscript)
                text = str(shapes[name][dim])
                return ast.Name(f"({text})" if " " in text else text)

        return ast.unparse(Sizes().visit(copy.deepcopy(node)))

    def term(self, node: ast.expr) -> Term:
        """A condition, or a size, for `truth`."""
        match node:
            case ast.BoolOp():
                word = "logical_and" if isinstance(node.op, ast.And) else "logical_or"
                return self._joined(word, map(self.term, node.values))
            case ast.Compare() if all(type(op) in _COMPARISONS for op in node.ops):
                sides = [self.term(side) for side in (node.left, *node.comparators)]
                words = [_COMPARISONS[type(op)][0] for op in node.ops]
                return self._joined("logical_and", zip(words, sides, sides[1:]))
            case ast.BinOp() if type(node.op) in _OPS:
                return (_OPS[type(node.op)], self.term(node.left), self.term(node.right))
            case ast.UnaryOp(op=ast.USub()):
                return ("mul", self.term(node.operand), -1)
            case ast.Call() if _is_choice(node):
                return self._joined(f"{ast.unparse(node.func)}imum", map(self.term, node.args))
        return self.size(node)

    @staticmethod
    def _joined(word: str, parts: Iterable[Term]) -> Term:
        return functools.reduce(lambda x, y: (word, x, y), parts)


def _is_choice(node: ast.AST) -> bool:
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max")
    return is_call and len(node.args) > 1


def _compared(left: ast.expr, op: ast.cmpop, right: ast.expr) -> ast.expr:
    return ast.Compare(left, [op], [right])


def _choice(node: ast.AST) -> ast.Call | None:
    """A `min(..)` or `max(..)` in a condition that has none in it."""
    for part in ast.iter_child_nodes(node):
        if (found := _choice(part)) is not None:
            return found
    return node if isinstance(node, ast.Call) and _is_choice(node) else None


def _cases(node: ast.Compare, choice: ast.Call) -> Iterator[list[ast.expr]]:
    """Conditions without the choice, of which those of one case all hold where the condition does."""
    first = ast.unparse(choice.func) == "min"
    before, behind = (
        (ast.Lt(), ast.LtE()) if first else (ast.Gt(), ast.GtE())
    )  # the first one of equal numbers is chosen
    for place, chosen in enumerate(choice.args):
        others = [
            _compared(chosen, before if n < place else behind, x) for n, x in enumerate(choice.args) if n != place
        ]
        yield [*others, _Chosen(ast.unparse(choice), chosen).visit(copy.deepcopy(node))]


class _Chosen(ast.NodeTransformer):
    """Puts one argument in the place of each call with that text."""

    def __init__(self, text: str, chosen: ast.expr) -> None:
        self._text, self._chosen = text, chosen

    def visit_Call(self, call: ast.Call) -> ast.AST:
        return self._chosen if ast.unparse(call) == self._text else self.generic_visit(call)


def _place(node: ast.expr) -> tuple[str, int]:
    """Name and dim of `L['name'].size()[dim]`."""
    match node:
        case ast.Subscript(
            value=ast.Call(func=ast.Attribute(value=tensor, attr="size"), args=[]), slice=ast.Constant(value=int(dim))
        ):
            path: list[Any] = []
            while isinstance(tensor, ast.Subscript) and isinstance(tensor.slice, ast.Constant):
                path.insert(0, tensor.slice.value)
                tensor = tensor.value
            if isinstance(tensor, ast.Name) and tensor.id == "L" and path:
                return str(path[0]) + "".join(f"[{key!r}]" for key in path[1:]), dim
    raise _NoSize


def _words(node: ast.expr) -> str:
    """The side of a comparison with `dim 0 of 'x'` for a size."""

    class Sizes(ast.NodeTransformer):
        def visit_Subscript(self, subscript: ast.Subscript) -> ast.expr:
            name, dim = _place(subscript)
            return ast.Name(f"dim {dim} of '{name}'")

    return ast.unparse(Sizes().visit(ast.parse(ast.unparse(node), mode="eval").body))


def _implied(guard: SizeGuard, ranges: Mapping[str, tuple[int, int]]) -> bool:
    low, high = _difference(guard.left, guard.right, ranges)
    return {
        "eq": low == high == 0,
        "ne": low > 0 or high < 0,
        "le": high <= 0,
        "lt": high < 0,
        "ge": low >= 0,
        "gt": low > 0,
    }[guard.comparison]


def _difference(left: Dim, right: Dim, ranges: Mapping[str, tuple[int, int]]) -> tuple[float, float]:
    """Inclusive bounds of the first size less the second one; infinite where they are not known."""
    if left == right:
        return 0, 0
    try:
        own, other = bounds(left, ranges), bounds(right, ranges)
        low, high = own[0] - other[1], own[1] - other[0]
        least, most = bounds(left - right, ranges)
        low, high = max(low, least), min(high, most)
        if own[0] >= 0 and _is_multiple(right, left, ranges):
            high = min(high, 0)
        if other[0] >= 0 and _is_multiple(left, right, ranges):
            low = max(low, 0)
    except ValueError:  # a divisor that may be 0
        return -math.inf, math.inf
    return low, high


def _is_multiple(size: Dim, part: Dim, ranges: Mapping[str, tuple[int, int]]) -> bool:
    """Whether a size is another one times what is 1 or more."""
    times = exact_quotient(size, part)
    return times is not None and bounds(times, ranges)[0] >= 1
