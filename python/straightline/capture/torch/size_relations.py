# SPDX-License-Identifier: Apache-2.0
"""What an op needs of the sizes of inputs, though torch's trace does not say it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

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


def least_sizes(nodes: Iterable[Node]) -> Iterator[tuple[torch.SymInt, int]]:
    """Sizes with what they are at least in every call that the ops take: what is written lies within them."""
    for node in nodes:
        name = _name(node)
        if name not in ("select_scatter", "slice_scatter"):
            continue
        shape = _shape(node.args[0])
        dim = _number(node, 2, "dim") % max(len(shape), 1)
        if not shape or not isinstance(shape[dim], torch.SymInt):
            continue
        if name == "select_scatter":
            index = node.args[3] if len(node.args) > 3 else node.kwargs.get("index")
            if isinstance(index, int):
                yield shape[dim], index + 1 if index >= 0 else -index
            continue
        bounds = [node.args[n] if len(node.args) > n else node.kwargs.get(key) for n, key in ((3, "start"), (4, "end"))]
        written = _shape(node.args[1])[dim]
        first, last = (bound if isinstance(bound, int) and abs(bound) < _END else 0 for bound in bounds)
        if isinstance(written, int) and first >= 0 and last > 0:
            step = _number(node, 5, "step") or 1
            yield shape[dim], first + (written - 1) * step + 1
        elif first < 0 or last < 0:
            least = max(-first, -last)
            if not statically_known_true(shape[dim] <= least):  # else the bound is clamped to the size
                yield shape[dim], least


#: Bounds of slices beyond it are "to the end".
_END = 1 << 62


def _name(node: Node) -> str:
    return str(node.target).removeprefix("aten.").split(".")[0].rstrip("_")


def _pairs(node: Node) -> Iterator[_Pair]:
    name = _name(node)
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
