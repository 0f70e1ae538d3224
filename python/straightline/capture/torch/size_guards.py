# SPDX-License-Identifier: Apache-2.0
"""Guards of torch.export (`(L['x'].size()[0] % 4) == 0`) as conditions over sizes, and in words."""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from straightline.capture.extents import Dim, bounds
from straightline.errors import UnsupportedError

_ARITHMETIC = {
    ast.Add: operator.add, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
_COMPARISONS = {
    ast.Eq: ("eq", "be"), ast.NotEq: ("ne", "not be"), ast.LtE: ("le", "be at most"), ast.Lt: ("lt", "be less than"),
    ast.GtE: ("ge", "be at least"), ast.Gt: ("gt", "be greater than"),
}  # fmt: skip
_OPPOSITES = {"eq": "ne", "ne": "eq", "le": "gt", "gt": "le", "lt": "ge", "ge": "lt"}


@dataclass(frozen=True)
class SizeGuard:
    """A comparison of two sizes that holds in every call; `words` says so to the user."""

    comparison: str
    left: Dim
    right: Dim
    words: str


def size_guards(
    guards: Sequence[str], shapes: Mapping[str, Sequence[Dim]], ranges: Mapping[str, tuple[int, int]]
) -> list[SizeGuard]:
    """The guards that neither the inputs' types nor the bounds of the symbols imply.

    Args:
        guards: Python expressions over `L['name']`, as `ExportedProgram` has them.
        shapes: Sizes of inputs, by the user's names ("x", "pair[0]").
        ranges: Smallest and largest values of symbols.

    Raises:
        UnsupportedError: A guard that is no comparison of two sizes.
    """
    found: list[SizeGuard] = []
    for guard in guards:
        try:
            conditions = _conditions(ast.parse(guard, mode="eval").body, shapes, ranges)
        except (_NoSize, SyntaxError):
            raise UnsupportedError(
                f"calls would have to check that {guard}; "
                "nearest supported form: a named Dim whose every size is right (2 * Dim), given with the module"
            ) from None
        for condition in conditions:
            if not _implied(condition, ranges) and condition not in found:
                found.append(condition)
    return found


def _conditions(
    node: ast.expr, shapes: Mapping[str, Sequence[Dim]], ranges: Mapping[str, tuple[int, int]]
) -> list[SizeGuard]:
    """Comparisons that all hold where the condition does."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        return [one for part in node.values for one in _conditions(part, shapes, ranges)]
    if isinstance(node, ast.BoolOp):  # of alternatives, the one that the bounds leave
        left = [part for part in node.values if not _excluded(part, shapes, ranges)]
        if len(left) != 1:
            raise _NoSize
        return _conditions(left[0], shapes, ranges)
    if isinstance(node, ast.Compare) and len(node.ops) > 1:  # a < b < c
        sides = [node.left, *node.comparators]
        pairs = [ast.Compare(sides[n], [node.ops[n]], [sides[n + 1]]) for n in range(len(node.ops))]
        return [_condition(pair, shapes) for pair in pairs]
    return [_condition(node, shapes)]


def _excluded(node: ast.expr, shapes: Mapping[str, Sequence[Dim]], ranges: Mapping[str, tuple[int, int]]) -> bool:
    """Whether the bounds leave no sizes of which the condition holds."""
    conditions = _conditions(node, shapes, ranges)
    return any(_implied(replace(one, comparison=_OPPOSITES[one.comparison]), ranges) for one in conditions)


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


def _condition(node: ast.expr, shapes: Mapping[str, Sequence[Dim]]) -> SizeGuard:
    if not isinstance(node, ast.Compare) or len(node.ops) != 1 or type(node.ops[0]) not in _COMPARISONS:
        raise _NoSize
    comparison, verb = _COMPARISONS[type(node.ops[0])]
    left, right = (_Side(shapes).size(side) for side in (node.left, node.comparators[0]))
    words = f"{_words(node.left)} must {verb} {_words(node.comparators[0])}"
    if isinstance(node.left, ast.BinOp) and isinstance(node.left.op, ast.Mod) and right == 0 and comparison == "eq":
        words = f"{_words(node.left.left)} must be a multiple of {_words(node.left.right)}"
    return SizeGuard(comparison, left, right, words)


@dataclass(frozen=True)
class _Side:
    shapes: Mapping[str, Sequence[Dim]]

    def size(self, node: ast.expr) -> Dim:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            left, right = self.size(node.left), self.size(node.right)
            return _ARITHMETIC[type(node.op)](left, right)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            return self.size(node.left) + self.size(node.right) * -1
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return self.size(node.operand) * -1
        name, dim = _place(node)
        if name not in self.shapes or dim >= len(self.shapes[name]):
            raise _NoSize
        return self.shapes[name][dim]


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
    if guard.left == guard.right:
        return guard.comparison in ("eq", "le", "ge")
    (low, high), (other_low, other_high) = bounds(guard.left, ranges), bounds(guard.right, ranges)
    return {
        "eq": low == high == other_low == other_high,
        "ne": high < other_low or low > other_high,
        "le": high <= other_low,
        "lt": high < other_low,
        "ge": low >= other_high,
        "gt": low > other_high,
    }[guard.comparison]
