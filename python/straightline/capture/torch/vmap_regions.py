# SPDX-License-Identifier: Apache-2.0
"""What torch.export keeps of a torch.vmap: a run of nodes between two calls that begin and end a level of batching.

The nodes work on tensors that lack the batched dimension. Such a region is called on fake tensors, by torch's own vmap, and
the calls that arrive below it, on whole tensors, take the region's place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from straightline.capture.torch.decompose import Call, Recorder, below_autograd

#: The module of the functions that stand in the graph.
_FUNCTIONS = "torch._functorch.predispatch"
_LOAD = "lazy_load_decompositions"
#: Levels of batching that a call of a function adds.
_LEVELS = {"_vmap_increment_nesting": 1, "_vmap_decrement_nesting": -1}


@dataclass
class VmapRegion:
    """The nodes of a torch.vmap, with those within it."""

    nodes: list[Node]

    @property
    def inputs(self) -> list[Node]:
        """Nodes outside that nodes of the region take."""
        inside = set(self.nodes)
        return list(dict.fromkeys(arg for node in self.nodes for arg in node.all_input_nodes if arg not in inside))

    @property
    def results(self) -> list[Node]:
        """Nodes of the region that nodes outside take."""
        inside = set(self.nodes)
        return [node for node in self.nodes if any(user not in inside for user in node.users)]


def is_of_transform(node: Node) -> bool:
    """Whether the node calls a function by which export says that a transform of torch.func begins, ends or takes a tensor."""
    return getattr(node.target, "__module__", "") == _FUNCTIONS


def is_of_derivative(node: Node) -> bool:
    """As `is_of_transform`, of one that is no vmap's."""
    return _function_of_transform(node) == "_unwrap_for_grad"


def _function_of_transform(node: Node) -> str:
    """The name of the function; "": the node calls none of these."""
    return node.target.__name__ if is_of_transform(node) else ""


def nodes_and_regions(graph: Graph) -> Iterator[Node | VmapRegion]:
    """The graph's nodes in their order, with those of each torch.vmap as one."""
    region: list[Node] = []
    depth = 0
    for node in graph.nodes:
        name = _function_of_transform(node)
        if name == _LOAD:
            continue
        depth += _LEVELS.get(name, 0)
        if node.op == "get_attr" or not (region or depth):
            yield node
            continue
        region.append(node)
        if not depth:
            yield VmapRegion(region)
            region = []


def recorded_region(
    region: VmapRegion,
    inputs: Mapping[Node, Any],
    mode: FakeTensorMode,
    around: Callable[[], AbstractContextManager[Any]],
) -> tuple[list[tuple[Node, Sequence[Call]]], list[Any]]:
    """The calls on whole tensors of each node of the region, and the region's results.

    Args:
        region: what is called.
        inputs: what the nodes outside give: fake tensors of `mode`, numbers, nested graphs.
        mode: that of the fake tensors.
        around: a context such as autocast, which adds ops of its own.
    """
    from torch._functorch.predispatch import lazy_load_decompositions

    lazy_load_decompositions()
    values = dict(inputs)
    calls: list[tuple[Node, Sequence[Call]]] = []
    level = 0
    with below_autograd(mode):
        try:
            for node in region.nodes:
                args, kwargs = map_arg(node.args, values.__getitem__), map_arg(node.kwargs, values.__getitem__)
                level += _LEVELS.get(_function_of_transform(node), 0)
                with Recorder() as recorder, around():
                    values[node] = node.target(*args, **kwargs)
                calls.append((node, recorder.calls))
        except BaseException:
            _leave(level)
            raise
    return calls, [values[node] for node in region.results]


def _leave(levels: int) -> None:
    """Ends the levels of batching that an error left."""
    from torch._C._functorch import _vmap_decrement_nesting

    for _ in range(levels):
        _vmap_decrement_nesting()
