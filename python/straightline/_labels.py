# SPDX-License-Identifier: Apache-2.0
"""Results of text: a program gives numbers, and a call from Python gives what these stand for in a table."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from straightline.errors import UserError


class Labels(NamedTuple):
    """A result of text, as a front end tells it."""

    #: Number of the program's result that has numbers of the table, i64 of any shape.
    index: int
    table: tuple[str, ...]


def node(name: str, labels: Labels) -> tuple[Any, ...]:
    """The node (`_signature`) of a result of text: an object array of numpy of the numbers' shape."""
    leaf = ("tensor", f"{name}.index", labels.index)
    return ("custom", name, None, functools.partial(_flatten, name, labels), _Named(labels.table), None, (leaf,))


def labels_of(flatten: Any) -> Labels | None:
    """What `node` was made of, by its function that flattens; None for a node of another kind."""
    is_ours = isinstance(flatten, functools.partial) and flatten.func is _flatten
    return flatten.args[1] if is_ours else None


def _flatten(name: str, labels: Labels, value: Any) -> Any:
    raise UserError(f"{name} is text ({shown(labels)}), which each call makes anew: out= takes tensors alone")


def shown(labels: Labels) -> str:
    """The first few of the table, as messages have them."""
    return ", ".join(map(repr, labels.table[:3])) + (", ..." if len(labels.table) > 3 else "")


class _Named:
    """Makes an array of text of the numbers in a result."""

    def __init__(self, table: Sequence[str]) -> None:
        self._table: Any = tuple(table)

    def __call__(self, children: Sequence[Any], context: None) -> Any:
        import numpy as np

        if isinstance(self._table, tuple):  # the package imports numpy when it is needed
            table = np.empty(len(self._table), dtype=object)
            table[:] = self._table
            self._table = table
        (numbers,) = children
        if not isinstance(numbers, np.ndarray):
            numbers = numbers.cpu().numpy()
        return self._table[numbers] if numbers.ndim else np.asarray(self._table[int(numbers)], dtype=object)
