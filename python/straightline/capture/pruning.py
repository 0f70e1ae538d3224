# SPDX-License-Identifier: Apache-2.0
"""A `Builder` that keeps the ops of a function until it ends, and then makes those that something needs. Knows no framework.

For front ends that find out late what an op is not needed for: a softmax that was written out, a comparison that was decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from straightline.capture.builder import Attr, Builder, Location, Result, SizeAdvice, TensorType, Value


@dataclass
class _Region:
    """A region: numbers of its arguments and of what it yields."""

    types: list[TensorType]
    arguments: list[int]
    ops: list[_Op] = field(default_factory=list)
    yields: list[int] = field(default_factory=list)
    location: Location = field(default_factory=Location)


@dataclass
class _Op:
    """An op: numbers of its operands and results."""

    name: str
    operands: list[int]
    types: list[TensorType]
    attributes: dict[str, Attr]
    location: Location
    segments: Sequence[int] | None
    regions: list[_Region]
    results: list[int]


class Pruning:
    """Implements `Builder` over another one; values are numbers of its own."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._values: dict[int, Value] = {}
        self._count = 0
        self._body = _Region([], [])
        self._open: list[_Region] = []
        self._ended: list[_Region] = []

    def symbol(self, name: str, min: int, max: int) -> None:
        """See `Builder`."""
        self._builder.symbol(name, min, max)

    def advise(self, advice: SizeAdvice) -> None:
        """See `Builder`."""
        self._builder.advise(advice)

    def begin_function(self, name: str, arguments: Sequence[tuple[str, TensorType]]) -> list[int]:
        """See `Builder`."""
        values = self._builder.begin_function(name, arguments)
        numbers = self._numbers(len(values))
        self._values.update(zip(numbers, values))
        return numbers

    def op(
        self,
        name: str,
        operands: Sequence[int],
        result_types: Sequence[TensorType],
        attributes: dict[str, Attr],
        location: Location,
        segments: Sequence[int] | None = None,
        regions: int = 0,
    ) -> list[int]:
        """See `Builder`."""
        own = self._ended[len(self._ended) - regions :]
        del self._ended[len(self._ended) - regions :]
        results = self._numbers(len(result_types))
        block = self._open[-1] if self._open else self._body
        block.ops.append(
            _Op(name, list(operands), list(result_types), dict(attributes), location, segments, own, results)
        )
        return results

    def begin_region(self, arguments: Sequence[TensorType]) -> list[int]:
        """See `Builder`."""
        numbers = self._numbers(len(arguments))
        self._open.append(_Region(list(arguments), numbers))
        return numbers

    def end_region(self, yields: Sequence[int], location: Location) -> None:
        """See `Builder`."""
        region = self._open.pop()
        region.yields, region.location = list(yields), location
        self._ended.append(region)

    def end_function(self, results: Sequence[Result]) -> None:
        """See `Builder`."""
        needed = {result.value for result in results}
        _mark(self._body, needed)
        self._make(self._body, needed)
        self._builder.end_function([Result(self._values[r.value], r.name, r.tie) for r in results])

    def _numbers(self, count: int) -> list[int]:
        self._count += count
        return list(range(self._count - count, self._count))

    def _make(self, region: _Region, needed: set[int]) -> None:
        for op in region.ops:
            if not _is_needed(op, needed):
                continue
            for inner in op.regions:
                given = self._builder.begin_region(inner.types)
                self._values.update(zip(inner.arguments, given))
                self._make(inner, needed)
                self._builder.end_region([self._values[n] for n in inner.yields], inner.location)
            operands = [self._values[n] for n in op.operands]
            made = self._builder.op(
                op.name, operands, op.types, op.attributes, op.location, op.segments, len(op.regions)
            )
            self._values.update(zip(op.results, made))


def _is_needed(op: _Op, needed: set[int]) -> bool:
    """Whether something reads a result, or the op has none: it checks, or says a size."""
    return not op.results or not needed.isdisjoint(op.results)


def _mark(region: _Region, needed: set[int]) -> None:
    """Adds what the needed ops of a region read."""
    for op in reversed(region.ops):
        if _is_needed(op, needed):
            for inner in op.regions:
                needed.update(inner.yields)
                _mark(inner, needed)
            needed.update(op.operands)
