# SPDX-License-Identifier: Apache-2.0
"""Compiles the structure of arguments and results into tuples that `_call.Callable` walks.

A node is a tuple, its first item the kind and its second a name for messages:

    ("tensor", name, index)                      position among the program's inputs (or results)
    ("const", name, value)                       guarded by type and value
    ("extent", name, steps)                      results only: an int, computed from named extents
    ("tuple" | "list", name, children)
    ("dict", name, type, keys, children)
    ("namedtuple", name, type, children)
    ("dataclass", name, type, fields, children)
    ("custom", name, type, flatten, unflatten, context, children)      of any type where `type` is None

The steps of an extent are those of `sl_expr`, as a tuple of pairs ("c", 3), ("s", 0), ("*", 0), ...

An input structure is a tuple of parameters `(name, kind, node[, default])`, positional ones first,
with kind 0 (positional only), 1 (by position or name) or 2 (by name only).
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import operator
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from straightline import _complex
from straightline._frameworks import imported_torch
from straightline.errors import GuardError, UnsupportedError, UserError

Node = tuple[Any, ...]
Parameter = tuple[Any, ...]

POSITIONAL = 0
EITHER = 1
KEYWORD = 2

_CONSTANTS = (type(None), bool, int, float, complex, str, bytes)


def is_tensor(value: object) -> bool:
    """Whether a value is a tensor of some framework (or claims to be one)."""
    return hasattr(type(value), "__dlpack__")


class _Leaves:
    """Numbers the leaves in the order of flattening.

    `positions[i]` is the tensor position of leaf i (negative: a constant); without it, tensors are
    numbered in order.
    """

    def __init__(self, positions: Sequence[int] | None = None, offsets: Mapping[int, int] = {}) -> None:
        self._positions = positions
        self._offsets = offsets
        self._leaves = 0
        self._tensors = 0

    def node(self, name: str, value: object) -> Node:
        """Node of the next leaf."""
        leaf = self._leaves
        self._leaves += 1
        if self._positions is None:
            if not is_tensor(value):
                return constant(name, value)
            self._tensors += 1
            return ("tensor", name, self._tensors - 1)
        if leaf >= len(self._positions):
            raise UserError(f"{name}: there are more leaves than the {len(self._positions)} that were captured")
        if self._positions[leaf] < 0:
            return constant(name, value)
        if _complex.is_complex(value):
            return _complex.node(name, self._positions[leaf])
        if self._positions[leaf] in self._offsets:
            return placed_node(name, self._positions[leaf], self._offsets[self._positions[leaf]])
        return ("tensor", name, self._positions[leaf])

    def finish(self) -> None:
        """Checks that every captured leaf was met."""
        if self._positions is not None and self._leaves != len(self._positions):
            raise UserError(f"the arguments have {self._leaves} leaves but {len(self._positions)} were captured")


def placed_node(name: str, index: int, offset: int) -> Node:
    """The node of a tensor of torch that is input number `index` and begins at element `offset` of its storage in every call."""
    torch = sys.modules["torch"]
    leaf = ("tensor", name, index)
    return ("custom", name, torch.Tensor, functools.partial(_at, name, offset), operator.itemgetter(0), None, (leaf,))


def _at(name: str, offset: int, value: Any) -> tuple[list[Any], None]:
    if value.storage_offset() != offset:
        raise GuardError(
            f"input '{name}': it begins at element {value.storage_offset()} of its storage but this program, which reads the "
            f"storage by as_strided with a storage_offset, was compiled for {offset}"
        )
    return [value], None


def constant(name: str, value: object) -> Node:
    """A leaf that is guarded by value.

    Raises:
        UserError: The value is not one that can be compared in every call.
    """
    torch = imported_torch()
    known = isinstance(value, _CONSTANTS)
    if torch is not None and not known:
        known = isinstance(value, (torch.dtype, torch.device, torch.layout, torch.memory_format))
    if not known:
        raise UserError(
            f"{name} is a {type(value).__name__}: an argument must be a tensor, None, a bool, int, "
            "float or str, or a tuple, list, dict, dataclass or registered pytree node of these"
        )
    return ("const", name, value)


def _registered(kind: type) -> Any | None:
    """The description that torch has of a registered pytree node."""
    pytree = sys.modules.get("torch.utils._pytree")
    return None if pytree is None else pytree.SUPPORTED_NODES.get(kind)


def _is_namedtuple(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields") and hasattr(kind, "_make")


def structure(name: str, value: Any, leaves: _Leaves) -> Node:
    """The node of an example value."""
    kind = type(value)
    if kind is tuple or kind is list:
        children = tuple(structure(f"{name}[{i}]", item, leaves) for i, item in enumerate(value))
        return (kind.__name__, name, children)
    if kind is dict or kind is OrderedDict:
        keys = tuple(value)
        children = tuple(structure(f"{name}[{key!r}]", value[key], leaves) for key in keys)
        return ("dict", name, kind, keys, children)
    if _is_namedtuple(kind):
        children = tuple(structure(f"{name}.{f}", item, leaves) for f, item in zip(kind._fields, value, strict=True))
        return ("namedtuple", name, kind, children)
    registered = _registered(kind)
    if registered is not None:
        items, context = registered.flatten_fn(value)
        children = tuple(structure(f"{name}.{i}", item, leaves) for i, item in enumerate(items))
        return (
            "custom",
            name,
            kind,
            registered.flatten_fn,
            registered.unflatten_fn,
            context,
            children,
        )
    if dataclasses.is_dataclass(value):
        fields = tuple(f.name for f in dataclasses.fields(value))
        children = tuple(structure(f"{name}.{f}", getattr(value, f), leaves) for f in fields)
        return ("dataclass", name, kind, fields, children)
    return leaves.node(name, value)


def result_structure(value: Any, positions: Sequence[int] | None = None) -> Node:
    """The node of an example result; `positions` as for `input_structure`."""
    leaves = _Leaves(positions)
    node = structure("result", value, leaves)
    leaves.finish()
    return node


def treespec_structure(spec: Any, leaves: Sequence[Node], name: str = "result") -> Node:
    """The node of a torch `TreeSpec`.

    Args:
        spec: Tree whose leaves are in the order of `leaves`.
        leaves: One "tensor", "complex" (a tensor of real numbers, made complex), "const", "copy" (a constant tensor, of which
            each call returns a copy) or "extent" node for each leaf; their names are not used.
        name: Name of the root; leaves are named after their place.
    """
    rest = list(leaves)
    node = _treespec_node(spec, rest, name)
    if rest:
        raise UserError(f"the tree has {len(leaves) - len(rest)} leaves but {len(leaves)} are given")
    return node


def with_tensors(node: Node, replaced: Callable[[str, int], Node]) -> Node:
    """A node with others in place of its tensors; `replaced` gets the name and the number of each."""
    kind, name, *rest = node
    if kind == "tensor":
        return replaced(name, rest[0])
    if kind in ("const", "copy", "extent"):
        return node
    children = tuple(with_tensors(child, replaced) for child in rest[-1])
    return (kind, name, *rest[:-1], children)


def with_sizes(node: Node, names: Sequence[str], sizes: Mapping[str, int]) -> Node:
    """The node of a result whose extents are over `names`, sorted, with numbers in place of some of them."""
    kind, name, *rest = node
    if kind in ("tensor", "const"):
        return node
    if kind != "extent":
        children = tuple(with_sizes(child, names, sizes) for child in rest[-1])
        return (kind, name, *rest[:-1], children)
    left = [symbol for symbol in names if symbol not in sizes]
    steps = tuple(
        (code, value)
        if code != "s"
        else ("c", sizes[names[value]])
        if names[value] in sizes
        else ("s", left.index(names[value]))
        for code, value in rest[0]
    )
    return (kind, name, steps)


def _own_copy(children: Any, context: None) -> Any:
    return children[0].clone()


def _flattened_copy(value: Any) -> tuple[list[Any], None]:
    return [value], None


def _treespec_node(spec: Any, rest: list[Node], name: str) -> Node:
    if spec.is_leaf():
        if not rest:
            raise UserError(f"{name}: the tree has more leaves than are given")
        kind, _, value = rest.pop(0)
        if kind == "copy":
            return ("custom", name, type(value), _flattened_copy, _own_copy, None, (("const", name, value),))
        return _complex.node(name, value) if kind == "complex" else (kind, name, value)
    pytree = sys.modules["torch.utils._pytree"]
    kind, context = spec.type, spec.context
    parts = list(spec.children())
    if kind is tuple or kind is list:
        return (
            kind.__name__,
            name,
            tuple(_treespec_node(s, rest, f"{name}[{i}]") for i, s in enumerate(parts)),
        )
    if kind is dict or kind is OrderedDict:
        keys = tuple(context)
        children = tuple(_treespec_node(s, rest, f"{name}[{k!r}]") for k, s in zip(keys, parts, strict=True))
        return ("dict", name, kind, keys, children)
    if kind is pytree.namedtuple:
        children = tuple(_treespec_node(s, rest, f"{name}.{f}") for f, s in zip(context._fields, parts, strict=True))
        return ("namedtuple", name, context, children)
    registered = pytree.SUPPORTED_NODES.get(kind)
    if registered is None:
        raise UnsupportedError(f"{name} is a {kind.__name__}, which is not registered with torch.utils._pytree")
    children = tuple(_treespec_node(s, rest, f"{name}.{i}") for i, s in enumerate(parts))
    return ("custom", name, kind, registered.flatten_fn, registered.unflatten_fn, context, children)


def _signature_of(function: Any) -> inspect.Signature | None:
    forward = getattr(function, "forward", None)
    target = forward if forward is not None and not inspect.isfunction(function) else function
    try:
        return inspect.signature(target)
    except (TypeError, ValueError):
        return None  # a builtin without a signature: its arguments have positions only


def _positional_only(args: Sequence[Any], kwargs: Mapping[str, Any], leaves: _Leaves) -> tuple[Parameter, ...]:
    given = [(f"args[{i}]", POSITIONAL, structure(f"args[{i}]", value, leaves)) for i, value in enumerate(args)]
    given += [(name, KEYWORD, structure(name, value, leaves)) for name, value in kwargs.items()]
    return tuple(given)


def _names_of_positions(signature: inspect.Signature, count: int) -> list[tuple[str, int]]:
    """Name and kind of each positional argument."""
    names: list[tuple[str, int]] = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.POSITIONAL_ONLY:
            names.append((parameter.name, POSITIONAL))
        elif parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            names.append((parameter.name, EITHER))
        elif parameter.kind is parameter.VAR_POSITIONAL:
            extra = count - len(names)
            names += [(f"{parameter.name}[{i}]", POSITIONAL) for i in range(extra)]
    return names


def input_structure(
    function: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    positions: Sequence[int] | None = None,
    offsets: Mapping[int, int] = {},
) -> tuple[Parameter, ...]:
    """Compiles how calls of `function` bind and flatten their arguments.

    Args:
        function: A module (its `forward` counts), a function or a lambda.
        args: Example positional arguments.
        kwargs: Example keyword arguments.
        positions: For each leaf of `(args, kwargs)`, in the order of flattening, the number of the
            program's input, or -1 for a constant; by default tensors are numbered in that order.
        offsets: Where in its storage an input begins, by number, of those for which calls must agree with it.

    Returns:
        Parameters in the order of the signature. A parameter that the example leaves out has its
        default as value, and calls may give that value or leave it out too.

    Raises:
        UserError: The arguments do not fit the function.
    """
    kwargs = dict(kwargs or {})
    leaves = _Leaves(positions, offsets)
    signature = _signature_of(function)
    if signature is None:
        result = _positional_only(args, kwargs, leaves)
        leaves.finish()
        return result
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise UserError(f"the example arguments do not fit the function: {error}") from error
    places = _names_of_positions(signature, len(args))
    nodes: dict[str, Node] = {}
    for (name, _), value in zip(places, args, strict=False):
        nodes[name] = structure(name, value, leaves)
    for name, value in kwargs.items():
        nodes[name] = structure(name, value, leaves)
    leaves.finish()
    return _parameters(signature, places, nodes)


def _parameters(
    signature: inspect.Signature, places: list[tuple[str, int]], nodes: dict[str, Node]
) -> tuple[Parameter, ...]:
    result: list[Parameter] = []
    declared = signature.parameters
    ordered = places + [(n, KEYWORD) for n, p in declared.items() if p.kind is p.KEYWORD_ONLY]
    for name, kind in ordered:
        default = declared[name].default if name in declared else inspect.Parameter.empty
        node = nodes.pop(name, None)
        if default is inspect.Parameter.empty:
            assert node is not None, name  # signature.bind would have refused
            result.append((name, kind, node))
        else:
            result.append((name, kind, node or ("const", name, default), default))
    result += [(name, KEYWORD, node) for name, node in nodes.items()]  # those that **kwargs took
    return tuple(result)
