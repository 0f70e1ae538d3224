# SPDX-License-Identifier: Apache-2.0
"""Values of a graph that depend on none of its inputs, computed by torch while the graph is imported.

They are computed on the CPU whatever the program's device. So only what every device computes alike counts: integers, bools,
and floats that an op picks or moves.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node
from torch.utils import _pytree as pytree

from straightline.capture.torch.literals import evaluated

_MAX_NODES = 256
_MAX_ELEMENTS = 1 << 24

#: Of floats they make no new ones.
_PICKING = frozenset(
    f"aten.{name}"
    for name in """
    alias cat clone contiguous detach expand full full_like flatten lift_fresh_copy masked_fill new_full new_ones new_zeros
    ones ones_like permute repeat reshape scalar_tensor select slice split squeeze stack t transpose tril triu unsqueeze view
    where zeros zeros_like
    """.split()
)

#: What attention keeps of the scores.
EVERY, CAUSAL = "every", "causal"


def fixed_value(node: Node) -> torch.Tensor | None:
    """The tensor that a node of a graph of values computes from no input; None where it needs one, or is too large.

    Args:
        node: Its graph has no writes (`functional.value_graph`).
    """
    return _computed(node, _is_alike_everywhere, {})


def host_value(node: Node, constant: Callable[[Node], torch.Tensor | None]) -> torch.Tensor | None:
    """The tensor of the host that a node computes from constants; None where it needs anything else, or too many nodes.

    Args:
        node: Of a graph of values.
        constant: The tensor that a leaf of the graph holds in each call, or None.
    """
    values: dict[Node, Any] = {}

    def is_constant(each: Node) -> bool:
        if each.op == "call_function":
            return (each.target is operator.getitem or _is_of_values(each)) and _is_of_host(each)
        values[each] = constant(each)
        return values[each] is not None

    return _computed(node, is_constant, values)


def _computed(node: Node, is_taken: Callable[[Node], bool], values: dict[Node, Any]) -> torch.Tensor | None:
    """What the node gives if all nodes that it is made by are taken; `values`: those that are known then."""
    needed = _needed(node, is_taken)
    if needed is None:
        return None

    def run() -> None:
        for each in needed:
            if each not in values:
                args, kwargs = pytree.tree_map_only(Node, values.__getitem__, (each.args, dict(each.kwargs)))
                args, kwargs = pytree.tree_map_only(torch.device, lambda _: torch.device("cpu"), (args, kwargs))
                values[each] = each.target(*args, **kwargs)

    evaluated(run)
    return values[node]


def _is_of_values(node: Node) -> bool:
    """Whether a node calls an op of torch's that gives the same in each call."""
    op = node.target
    return (
        isinstance(op, torch._ops.OpOverload)
        and not op._schema.is_mutable
        and op.namespace in ("aten", "prims")
        and torch.Tag.nondeterministic_seeded not in op.tags
    )


def _is_of_host(node: Node) -> bool:
    fakes = pytree.tree_leaves(node.meta.get("val"))
    return all(isinstance(fake, torch.Tensor) and fake.is_cpu for fake in fakes)


def _needed(node: Node, is_taken: Callable[[Node], bool]) -> list[Node] | None:
    """The nodes that a node's value is made by, itself the last; None where one of them is not taken."""
    found: dict[Node, None] = {}
    work = [(node, False)]
    while work:
        each, done = work.pop()
        if done:
            found.setdefault(each)
        elif each not in found:
            if len(found) + len(work) > _MAX_NODES or not is_taken(each):
                return None
            work.append((each, True))
            work += [(argument, False) for argument in each.all_input_nodes]
    return list(found)


def _is_alike_everywhere(node: Node) -> bool:
    if node.op != "call_function":
        return False
    if node.target is not operator.getitem and not _is_of_values(node):
        return False
    fakes = pytree.tree_leaves(node.meta.get("val"))
    return bool(fakes) and all(
        isinstance(fake, torch.Tensor)
        and all(isinstance(size, int) for size in fake.shape)
        and fake.numel() <= _MAX_ELEMENTS
        and not fake.is_complex()
        and (not fake.is_floating_point() or str(node.target).rpartition(".")[0] in _PICKING)
        for fake in fakes
    )


def kept_by_mask(mask: Node) -> str | None:
    """Which scores a mask of attention keeps that depends on no input: `EVERY` one, the `CAUSAL` ones, or neither (None).

    Causal: key j of query i, where j <= i. A mask of floats keeps what it adds 0 to, and drops what it adds minus infinity
    or the least number to.
    """
    value = fixed_value(mask)
    if value is None or value.dim() < 2:
        return None
    return evaluated(_kept, value)


def _kept(mask: torch.Tensor) -> str | None:
    kept = mask
    if mask.is_floating_point():
        kept = mask == 0
        if not bool((kept | (mask <= torch.finfo(mask.dtype).min)).all()):
            return None
    elif mask.dtype != torch.bool:
        return None
    if bool(kept.all()):
        return EVERY
    triangle = torch.ones(mask.shape[-2:], dtype=torch.bool).tril()
    return CAUSAL if torch.equal(kept, triangle.expand_as(kept)) else None
