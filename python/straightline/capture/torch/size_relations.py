# SPDX-License-Identifier: Apache-2.0
"""Sizes of inputs that an op needs to be equal, though torch's trace leaves them apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.fx import Node

_Pair = tuple[Any, Any]


def equal_symbols(nodes: Iterable[Node]) -> dict[str, str]:
    """Symbols of torch that are equal to another one in every call that the ops take: each with the one that stands for it.

    The shape functions of a few ops (`index_add`, `select_scatter`, ...) look at no size; their kernels do, in each call. No
    symbol is 1, so that where a size may be 1 instead (`masked_select`), it is none here.
    """
    known: dict[str, str] = {}

    def first(name: str) -> str:
        while name in known:
            name = known[name]
        return name

    for node in nodes:
        for left, right in _pairs(node):
            if not all(isinstance(size, torch.SymInt) and size.node.expr.is_Symbol for size in (left, right)):
                continue
            one, other = (first(str(size.node.expr)) for size in (left, right))
            if one != other:
                known[other] = one
    return {name: first(name) for name in known}


def _pairs(node: Node) -> Iterator[_Pair]:
    name = str(node.target).removeprefix("aten.").split(".")[0].rstrip("_")
    given = [_shape(arg) for arg in node.args]
    if name == "masked_select":
        yield from _from_behind(given[0], given[1])
    elif name == "put":
        yield from _from_behind(given[1], given[2])
    elif name in ("select_scatter", "slice_scatter"):
        dim = _number(node, 2, "dim") % max(len(given[0]), 1)
        kept = [size for place, size in enumerate(given[0]) if place != dim]
        src = [size for place, size in enumerate(given[1]) if place != dim or name == "select_scatter"]
        yield from _from_behind(kept, src)
    elif name in ("index_add", "index_copy", "index_reduce"):
        dim = _number(node, 1, "dim") % max(len(given[0]), 1)
        wanted = [*given[0][:dim], *(given[2] or [1]), *given[0][dim + 1 :]]
        yield from _from_behind(wanted, given[3])
    elif name == "index_put" and all(isinstance(index, Node) for index in node.args[1]):
        indices = [_shape(index) for index in node.args[1]]
        if all(node.args[1][n].meta["val"].dtype is not torch.bool for n in range(len(indices))):
            longest = max(indices, key=len)
            yield from _from_behind([*longest, *given[0][len(indices) :]], given[2])


def _shape(arg: Any) -> Sequence[Any]:
    value = arg.meta.get("val") if isinstance(arg, Node) else None
    return list(value.shape) if isinstance(value, torch.Tensor) else []


def _number(node: Node, place: int, name: str) -> int:
    value = node.args[place] if len(node.args) > place else node.kwargs.get(name, 0)
    return value if isinstance(value, int) else 0


def _from_behind(one: Sequence[Any], other: Sequence[Any]) -> Iterator[_Pair]:
    """Sizes at the same place, counted from the last, as torch broadcasts."""
    return zip(reversed(one), reversed(other))
