# SPDX-License-Identifier: Apache-2.0
"""Sizes and numbers that depend on data: torch's unbacked symbols (`u0`) as extents that the graph computes.

An op of the graph computes the number (how many elements of a mask are true, the element that `item` reads); `op.set_extent`
gives it to an extent, with a bound over the sizes of inputs at which memory is planned.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import sympy
import torch
from torch.fx import Node

from straightline.capture.builder import Dims, Extent, TensorType
from straightline.capture.captured import SymbolSpec
from straightline.capture.extents import DEFAULT_MAX, Dim, bounds, evaluated
from straightline.capture.graph_builder import SLICE_END_BY_TYPE, Reject, Tensor
from straightline.capture.torch.symbolic_sizes import DEPENDS_ON_DATA

if TYPE_CHECKING:
    from straightline.capture.torch.importer import Importer

_COMPARISONS = {
    sympy.Eq: "eq", sympy.Ne: "ne", sympy.Le: "le", sympy.Lt: "lt", sympy.Ge: "ge", sympy.Gt: "gt",
}  # fmt: skip
_JOINED = {sympy.And: "logical_and", sympy.Or: "logical_or"}


class DataSizes:
    """The symbols of one graph that depend on data.

    Args:
        names: torch's name of a symbol -> ours; those of inputs, to which computed ones are added.
        inputs: The symbols of inputs.
        ranges: Bounds of symbols, by torch's names.
        nodes: The graph's own nodes, which assert bounds; those of a nested graph come with `nested`.
        above_zero: Symbols, by torch's names, that must not be 0.
    """

    def __init__(
        self,
        names: dict[str, str],
        inputs: Iterable[SymbolSpec],
        ranges: Mapping[str, Any],
        nodes: Iterable[Node],
        above_zero: set[str],
    ) -> None:
        self._names, self._ranges, self._above_zero = names, ranges, above_zero
        self._limits: dict[str, Dim] = {}
        self._intervals = {spec.name: (spec.min, spec.max) for spec in inputs}
        self._spare = (name for n in itertools.count() if (name := f"u{n}") not in set(names.values()))
        self._asserted = dict(_asserted(nodes))
        #: Numbers that are no sizes, by our names of their symbols.
        self.numbers: dict[str, Tensor] = {}
        #: The extents that the graph computes.
        self.computed: list[SymbolSpec] = []

    @contextlib.contextmanager
    def nested(self, nodes: Iterable[Node]) -> Iterator[None]:
        """While a branch, a loop's body or one of its steps is converted: symbols that it gives are its own.

        A graph may be converted several times, and then gives its symbols new extents each time.
        """
        names, asserted = dict(self._names), self._asserted
        self._asserted = asserted | dict(_asserted(nodes))
        try:
            yield
        finally:
            self._asserted = asserted
            for name in self._names.keys() - names.keys():
                del self._names[name]

    def give(self, ctx: Importer, size: int | torch.SymInt, count: Tensor, limit: Dim | None = None) -> Dim:
        """Gives the size of a result the number `count`, which no call exceeds `limit` with; returns the size.

        A size that is known already is compared with the number in each call.
        """
        symbol = None if isinstance(size, int) else size.node.expr
        if symbol is None or not symbol.is_Symbol or str(symbol) in self._names:
            known = ctx.extents.dim(size)
            check(
                ctx,
                "eq",
                count,
                scalar_of(ctx, known),
                f"a size that depends on data is not {known}, as torch says it is",
            )
            return known
        torch_name = str(symbol)
        low, high = self._range(torch_name)
        limit = self._limit(ctx, torch_name, limit, high)
        if limit is None:
            raise Reject(f"a size {DEPENDS_ON_DATA}, and has no bound", "torch._check(n <= k) before it is used")
        limit = evaluated(
            limit, lambda leaf: self._limits.get(leaf, Extent(leaf)) if isinstance(leaf, str) else leaf, _apply
        )
        most = min(max(bounds(limit, self._intervals)[1], 0), DEFAULT_MAX)
        spec = SymbolSpec(next(self._spare), min(max(low, int(torch_name in self._above_zero)), most), most)
        ctx.builder.symbol(spec.name, spec.min, spec.max)
        self._names[torch_name] = spec.name
        self._limits[spec.name] = limit
        self._intervals[spec.name] = (spec.min, spec.max)
        self.computed.append(spec)
        self.numbers[spec.name] = count
        ctx.emit("set_extent", [count], [], {"extent": spec.name, "bound": Dims((limit,))})
        if high < most:
            check(ctx, "le", count, scalar_of(ctx, high), f"{spec.name} <= {high}")
        return Extent(spec.name)

    def number(self, ctx: Importer, value: torch.SymInt, tensor: Tensor) -> Dim:
        """A number that an element is: an extent where it has a bound and is not negative, else one that no size may use."""
        symbol = value.node.expr
        if not symbol.is_Symbol or str(symbol) in self._names:
            return self.give(ctx, value, tensor)
        torch_name = str(symbol)
        low, high = self._range(torch_name)
        if low >= 0 and self._limit(ctx, torch_name, None, high) is not None:
            return self.give(ctx, value, tensor)
        name = next(self._spare)
        self._names[torch_name] = name
        self.numbers[name] = tensor
        for is_bound, comparison, bound in ((low > -DEFAULT_MAX, "ge", low), (high < DEFAULT_MAX, "le", high)):
            if is_bound:
                check(
                    ctx,
                    comparison,
                    tensor,
                    scalar_of(ctx, bound),
                    f"{torch_name} {'>=' if comparison == 'ge' else '<='} {bound}",
                )
        return Extent(name)

    def bounds(self, extent: Dim) -> tuple[int, int]:
        """The smallest and the largest value that a size of this graph can have."""
        numbers = dict.fromkeys(self.numbers, (-DEFAULT_MAX, DEFAULT_MAX))
        return bounds(extent, numbers | self._intervals)

    def rename(self, size: torch.SymInt, extent: Dim) -> None:
        """Says that a size whose symbol is not known yet is that extent."""
        symbol = size.node.expr
        if symbol.is_Symbol and isinstance(extent, Extent) and extent.text in self.numbers:
            self._names.setdefault(str(symbol), extent.text)

    def same(self, ctx: Importer, x: Tensor, extents: Sequence[Dim]) -> Tensor:
        """A tensor with sizes that torch takes to be equal to its own: compared in each call where their texts differ."""
        if len(extents) != x.rank:
            return x
        for dim, (own, other) in enumerate(zip(x.extents, extents, strict=True)):
            names = {name for size in (own, other) if isinstance(size, Extent) for name in size.symbols}
            if own == other or own == 1 or not names:
                continue
            depends = bool(names & set(self.numbers))
            what = "sizes that depend on data differ" if depends else "sizes that have to be equal differ"
            check(ctx, "eq", scalar_of(ctx, own), scalar_of(ctx, other), f"{what}: {own} and {other}")
            if not depends:
                x = ctx.slice(x, dim, 0, SLICE_END_BY_TYPE, other)
                continue
            type = TensorType(x.dtype, (*x.extents[:dim], other, *x.extents[dim + 1 :]))
            attributes = {"dim": dim, "length": other if isinstance(other, int) else -1}
            x = ctx.emit_one("dynamic_slice", [x, ctx.scalar(0, "i64")], type, attributes)
        return x

    def renamed(self, extents: Sequence[Dim], others: Sequence[Dim]) -> tuple[Dim, ...]:
        """`extents` with the only number of theirs that `others` lack by the name of the only one that is there alone."""
        mine, theirs = (
            {name for extent in one if isinstance(extent, Extent) for name in extent.symbols} & set(self.numbers)
            for one in (extents, others)
        )
        if len(mine - theirs) != 1 or len(theirs - mine) != 1:
            return tuple(others)
        (old,), (new,) = mine - theirs, theirs - mine
        return tuple(Extent(new) if extent == Extent(old) else extent for extent in extents)

    def refuse_unbounded(self, extents: Iterable[Dim]) -> None:
        """Raises for a size that uses a number without a bound."""
        known = {spec.name for spec in self.computed}
        for extent in extents:
            if isinstance(extent, Extent) and any(
                name in self.numbers and name not in known for name in extent.symbols
            ):
                raise Reject(
                    f"a size {DEPENDS_ON_DATA}, and has no bound",
                    "torch._check(0 <= n) and torch._check(n <= k) before it is used",
                )

    def condition(self, ctx: Importer, holds: torch.SymBool, message: str) -> bool:
        """Checks in each call what torch recorded of sizes; False where no symbol of it depends on data."""
        expression = holds.node.expr
        names = {self._names.get(str(symbol)) for symbol in expression.free_symbols}
        if None in names or not names & set(self.numbers) or not _is_known(expression):
            return False
        ctx.emit("check", [self._truth(ctx, expression)], [], {"message": message})
        return True

    def _truth(self, ctx: Importer, expression: sympy.Basic) -> Tensor:
        """A condition on sizes as a 0-d tensor."""
        type = TensorType("i1", ())
        if isinstance(expression, sympy.Not):
            return ctx.emit_one("logical_not", [self._truth(ctx, expression.args[0])], type)
        for kind, name in _JOINED.items():
            if isinstance(expression, kind):
                parts = [self._truth(ctx, part) for part in expression.args]
                return functools.reduce(lambda x, y: ctx.emit_one(name, [x, y], type), parts)
        comparison = next(name for kind, name in _COMPARISONS.items() if isinstance(expression, kind))
        sides = [scalar_of(ctx, ctx.extents.expression(side)) for side in expression.args]
        return ctx.emit_one(comparison, sides, type)

    def _range(self, torch_name: str) -> tuple[int, int]:
        given = self._ranges.get(torch_name)
        low = int(given.lower) if given is not None and given.lower.is_Integer else -DEFAULT_MAX
        high = int(given.upper) if given is not None and given.upper.is_Integer else DEFAULT_MAX
        return low, min(high, DEFAULT_MAX)

    def _limit(self, ctx: Importer, torch_name: str, own: Dim | None, high: int) -> Dim | None:
        """The bound at which memory is planned; None where nothing says one."""
        if own is not None:
            return min(own, high) if isinstance(own, int) and high >= 0 else own
        if torch_name in self._asserted:
            return ctx.extents.expression(self._asserted[torch_name])
        return high if high < DEFAULT_MAX else None


def _is_known(expression: sympy.Basic) -> bool:
    """Whether a condition is made of comparisons."""
    if isinstance(expression, (sympy.Not, *_JOINED)):
        return all(map(_is_known, expression.args))
    return isinstance(expression, tuple(_COMPARISONS))


def _asserted(nodes: Iterable[Node]) -> Iterable[tuple[str, sympy.Expr]]:
    """Upper bounds of unbacked symbols over the sizes of inputs that the graph asserts."""
    for node in nodes:
        if str(node.target) != "aten._assert_scalar.default":
            continue
        value = node.args[0].meta.get("val") if isinstance(node.args[0], Node) else None
        expression = value.node.expr if isinstance(value, torch.SymBool) else None
        if isinstance(expression, (sympy.Ge, sympy.Gt)):
            expression = expression.reversed
        if not isinstance(expression, (sympy.Le, sympy.Lt)):
            continue
        less, more = expression.args
        if less.is_Symbol and str(less).startswith("u") and not any(str(s).startswith("u") for s in more.free_symbols):
            yield str(less), more - int(isinstance(expression, sympy.Lt))


def _apply(operation: str, x: Dim, y: Dim) -> Dim:
    if operation == "+":
        return x + y
    if operation == "*":
        return x * y
    return x // y if operation == "floordiv" else x % y


def scalar_of(ctx: Importer, value: Dim) -> Tensor:
    """A size as a 0-d tensor: arithmetic on the tensors of numbers that depend on data, where it uses such."""
    numbers = ctx.data_sizes.numbers
    if isinstance(value, int) or not value.symbols & set(numbers):
        return ctx.scalar(value, "i64")
    return scalar_of_parts(ctx, value)


def scalar_of_parts(ctx: Importer, value: Dim) -> Tensor:
    """A size as a 0-d tensor: arithmetic on the tensors of its symbols, so that it may be negative."""
    numbers = ctx.data_sizes.numbers
    return ctx.computed(value, lambda name: numbers[name] if name in numbers else ctx.scalar(Extent(name), "i64"))


def check(ctx: Importer, comparison: str, left: Tensor, right: Tensor, message: str) -> None:
    """Ends a call with the message where the comparison of two 0-d tensors does not hold."""
    holds = ctx.emit_one(comparison, [left, right], TensorType("i1", ()))
    ctx.emit("check", [holds], [], {"message": message})


def check_truth(ctx: Importer, condition: Any, message: str) -> None:
    """Ends a call with the message where a condition on sizes does not hold.

    The condition is a size, or an op with its operands: ("lt", n, ("minimum", 4, m)).
    """

    @functools.cache
    def value(term: Any) -> Tensor:
        if not isinstance(term, tuple):
            return scalar_of_parts(ctx, term)
        name, *operands = term
        is_truth = name in _COMPARISONS.values() or name in _JOINED.values()
        return ctx.emit_one(name, [value(operand) for operand in operands], TensorType("i1" if is_truth else "i64", ()))

    ctx.emit("check", [value(condition)], [], {"message": message})
