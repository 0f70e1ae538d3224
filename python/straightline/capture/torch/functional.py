# SPDX-License-Identifier: Apache-2.0
"""A graph of ATen ops as one of values: composite ops are taken apart, and writes become new values of what they write to.

Each tensor of the graph is a `View` of some `Memory`: all of it, or what a chain of views makes of another view. A write
through a view makes a new value of the view, then of what it is a view of, up to the whole. A view that is used behind a write
is made again from the new whole. What was an argument of the graph and is overwritten becomes a result.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils import _pytree as pytree

from straightline import _flaggems
from straightline.capture.graph_builder import Reject
from straightline.capture.torch import dropouts
from straightline.capture.torch.complex_decompositions import is_of_complex
from straightline.capture.torch.decompose import (
    Call,
    Op,
    is_composite,
    is_of_triton,
    is_whole,
    is_whole_call,
    may_hide_views,
    recorded,
    run_fake,
    says_views,
    shares_memory,
)
from straightline.capture.torch.decompositions import OWN, parts_of_list_write, updates_statistics
from straightline.capture.torch.importer import (
    UnsupportedNode,
    described,
    location_of,
    nested_attribute,
    raise_if_unsupported,
)
from straightline.capture.torch.memory_views import MemoryRead, flattened, memory_ends, reads_memory, restored
from straightline.capture.torch.shared_elements import (
    ONE_VALUE,
    DistinctView,
    has_shared_elements,
    is_refused_by_eager,
)
from straightline.capture.torch.views import named_arguments, op_name, parts_of_view, same_sizes, written_through
from straightline.capture.torch.vmap_regions import VmapRegion, is_of_transform, nodes_and_regions, recorded_region
from straightline.errors import InternalError, UserError

_aten = torch.ops.aten
#: Higher-order ops whose graph stands in place: where it is among the arguments, and where its operands begin.
_INLINED = {
    "wrap_with_set_grad_enabled": (1, 2), "wrap_with_autocast": (4, 5), "invoke_subgraph": (0, 2),
    "tag_activation_checkpoint": (0, 1),
}  # fmt: skip


class _Updating:
    """The target of a node that calls an op which overwrites arguments and has no form without: (results, new values)."""

    __name__ = "updating"

    def __str__(self) -> str:
        return "straightline.updating"

    def __call__(self, op: Op, *args: Any, **kwargs: Any) -> Any:
        raise InternalError(f"{op} is called by compiled programs only")


updating = _Updating()


@dataclass
class ValueGraph:
    """A graph without writes, and what its `get_attr` nodes name: nested graphs, tensors."""

    graph: Graph
    attributes: Mapping[str, Any]
    #: Placeholders and attributes (by name) that are overwritten, in the order of their first write, with their last values.
    updates: dict[str, Node] = field(default_factory=dict)
    #: Placeholders of which something is read whose place in their memory is counted from the memory's begin.
    placed: frozenset[str] = frozenset()

    def attribute(self, target: str) -> Any:
        """The object that a `get_attr` node names."""
        return self.attributes[target]

    def graphs(self) -> Iterator[Graph]:
        """This graph and those nested in it."""
        yield self.graph
        for value in self.attributes.values():
            if isinstance(value, ValueGraph):
                yield from value.graphs()


@dataclass(eq=False)
class Memory:
    """The memory of a tensor that is no view of another; `version` counts writes.

    `name` is that of the placeholder or attribute that it comes from, empty for what the graph makes.
    """

    name: str = ""
    version: int = 0
    #: A view that the trace took for contiguous and that was written since: eager may have written to a copy of it.
    doubted: View | None = None


@dataclass(eq=False)
class View:
    """A tensor of the source: `node` is its value as of `version` of its memory."""

    memory: Memory
    node: Node
    fake: torch.Tensor
    version: int = 0
    parent: View | None = None
    #: The op that makes it from its parent, with the arguments behind that.
    op: Op | None = None
    rest: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    #: Whether the trace gave it other strides than it has.
    is_misread: bool = False


def is_write(node: Node) -> bool:
    """Whether a node is a call of an op that overwrites an argument."""
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def has_effect(node: Node) -> bool:
    """Whether a node has an effect: it draws random numbers, checks something, or has no results."""
    op = node.target
    if not isinstance(op, torch._ops.OpOverload):
        return node.is_impure()
    return not op._schema.returns or (node.is_impure() and not _draws_elsewhere(node))


def _draws_elsewhere(node: Node) -> bool:
    """Whether a node draws random numbers on another device than that of all inputs and parameters.

    Where nothing reads the numbers, such as the host's that layer dropout draws while it is off, the program for a device does
    not draw them: the generator of the other device stays as it is.
    """
    if torch.Tag.nondeterministic_seeded not in node.target.tags:
        return False
    device = getattr(node.meta.get("val"), "device", None)
    homes = {
        getattr(other.meta.get("val"), "device", None) for other in node.graph.nodes if other.op == "placeholder"
    } - {None}
    return device is not None and len(homes) == 1 and device.type not in {home.type for home in homes}


def value_graph(module: GraphModule, same: Mapping[str, str] | None = None) -> ValueGraph:
    """The graph of a module as one of values, with the module's nested graphs.

    Args:
        module: Its nodes have fake tensors in `meta["val"]`.
        same: Names of placeholders of the same memory -> one of them.

    Raises:
        UnsupportedError: A write to a view that no value can be made of.
    """
    attributes = {
        node.target: nested_attribute(module, node.target) for node in module.graph.nodes if node.op == "get_attr"
    }
    is_free = not attributes and _flaggems.rules() is None
    if is_free and not any(_needs_work(node) for node in module.graph.nodes):
        return ValueGraph(module.graph, {})
    return _Rewriter(module, attributes, same or {}).run()


def _needs_work(node: Node) -> bool:
    """Whether a node is a write, a composite op, or without readers and effect."""
    if node.op != "call_function":
        return False
    if not isinstance(node.target, torch._ops.OpOverload):
        return getattr(node.target, "__module__", "") != "_operator"
    if is_write(node) or not is_whole(node.target) or not (node.users or has_effect(node)) or reads_memory(node.target):
        return True
    fakes = [argument.meta.get("val") for argument in (node, *node.all_input_nodes)]
    call = node.target, node.args, node.kwargs
    return is_of_complex(node.target, fakes) or updates_statistics(*call) or dropouts.draws(*call)


def storage_key(tensor: torch.Tensor) -> tuple[Any, ...]:
    """A key that is equal for tensors that are the same view of the same storage."""
    place = (tensor.untyped_storage().data_ptr(), tensor.storage_offset())
    return (*place, tensor.dtype, tuple(tensor.shape), tensor.stride()) if tensor.numel() else (id(tensor),)


class _Rewriter:
    """Rewrites one graph."""

    def __init__(self, module: GraphModule, attributes: Mapping[str, Any], same: Mapping[str, str]) -> None:
        self._source = module.graph
        self._module, self._prefix = module, ""
        self._attributes = dict(attributes)
        self._same = same
        self._graph = Graph()
        self._values: dict[Node, Any] = {}
        self._memories: dict[str, View] = {}  # by placeholder
        self._written: list[Memory] = []  # in the order of their first write
        self._placed: set[str] = set()
        self._exact = _may_be_written(module.graph, same)
        self._around: Callable[[], AbstractContextManager[Any]] | None = None
        self._template: Node | None = None  # the node of the source that is at work
        vals = [node.meta.get("val") for node in module.graph.nodes]
        self._mode = detect_fake_mode(vals) or FakeTensorMode()

    def run(self) -> ValueGraph:
        results: tuple[Any, ...] = ()
        for node in self._nodes(self._source):
            if node.op == "output":
                with _refusals(node):
                    results = self._results(node)
            elif node.op == "placeholder":
                self._values[node] = self._placeholder(node)
            else:
                self._values[node] = self._run_node(node)
        updates = {memory.name: self._read(self._memories[memory.name]) for memory in self._written if memory.name}
        self._graph.output((*updates.values(), *results))
        for node in reversed(self._graph.nodes):
            if not (node.users or has_effect(node)):
                self._graph.erase_node(node)
        used = {node.target for node in self._graph.nodes if node.op == "get_attr"}
        attributes = {key: value for key, value in self._attributes.items() if key in used}
        return ValueGraph(self._graph, attributes, updates, frozenset(self._placed))

    # Nodes

    def _nodes(self, graph: Graph) -> Iterator[Node]:
        """The graph's nodes, each while it is at work; those of a torch.vmap are rewritten here."""
        for node in nodes_and_regions(graph):
            if isinstance(node, VmapRegion):
                self._vmapped(node)
            else:
                self._template = node
                yield node

    def _placeholder(self, node: Node) -> Any:
        made = self._graph.create_node("placeholder", node.target, node.args, node.kwargs, node.name)
        made.meta = dict(node.meta)
        made.name = node.name  # signatures know nodes by it
        if not isinstance(node.meta.get("val"), torch.Tensor):
            return made
        name = self._same.get(node.name, node.name)
        if name not in self._memories:
            self._memories[name] = self._memory(name, node, made, node.meta["val"])
        return self._memories[name]

    def _memory(self, name: str, node: Node, made: Node, fake: torch.Tensor) -> View:
        """Returns the view of the placeholder `made`, the copy of `node`, in a new memory `name`.

        If elements of the tensor share memory (strides of 0) and the model may write it, the view is an expand of a tensor
        without shared elements.
        """
        whole = View(Memory(name), made, fake)
        if not has_shared_elements(fake) or not (self._exact is None or node in self._exact):
            return whole
        for dim, stride in enumerate(fake.stride()):
            if isinstance(stride, int) and stride == 0:
                part = self._valued(_aten.slice.Tensor, (whole, dim, 0, 1), {})
                whole = View(whole.memory, part.node, part.fake)
        sizes = list(fake.shape)
        return self._view(whole, made, fake, (_aten.expand.default, (sizes,), {}))

    def _run_node(self, node: Node) -> Any:
        if node.op == "get_attr":
            return self._attribute(node)
        if node.op != "call_function":
            raise InternalError(f"a node of kind {node.op}")
        with _refusals(node):
            if node.target is operator.getitem:
                return self._values[node.args[0]][node.args[1]]
            args, kwargs = self._mapped(node.args), self._mapped(node.kwargs)
            if isinstance(node.target, torch._ops.OpOverload):
                exact = self._exact is None or node in self._exact
                return self._call(node.target, args, kwargs, node.meta.get("val"), exact)
            if str(node.target) in _INLINED:
                return self._inlined(node)
            return self._copied(node, args, kwargs)

    def _attribute(self, node: Node) -> Any:
        if all(str(user.target) in _INLINED for user in node.users):
            return None
        name = f"{self._prefix}{node.target}"
        value = self._attributes.setdefault(name, nested_attribute(self._module, node.target))
        if isinstance(value, GraphModule):
            nested = self._attributes[name] = value_graph(value)
            if nested.updates:
                raise Reject(f"a branch or loop overwrites {', '.join(nested.updates)}, which it gets from outside")
        made = self._graph.create_node("get_attr", name, (), {}, node.name)
        made.meta = dict(node.meta)
        if not isinstance(value, torch.Tensor):
            return made
        if name not in self._memories:
            self._memories[name] = self._memory(name, node, made, node.meta.get("val", value))
        return self._memories[name]

    def _inlined(self, node: Node) -> Any:
        """A higher-order op whose graph stands in place."""
        place, first = _INLINED[str(node.target)]
        target = node.args[place].target
        operands = iter([self._mapped(arg) for arg in node.args[first:]])
        before = self._module, self._prefix, self._around
        if str(node.target) == "wrap_with_autocast":
            device, dtype, enabled = node.args[:3]
            self._around = lambda: torch.autocast(device, dtype, enabled, cache_enabled=False)
        self._module, self._prefix = nested_attribute(self._module, target), f"{self._prefix}{target}."
        result = None
        for inner in self._nodes(self._module.graph):
            if inner.op == "placeholder":
                self._values[inner] = next(operands)
            elif inner.op == "output":
                result = self._mapped(inner.args[0])
            else:
                self._values[inner] = self._run_node(inner)
        self._template = node
        self._module, self._prefix, self._around = before
        return result

    def _vmapped(self, region: VmapRegion) -> None:
        """Inserts the calls on whole tensors of which a torch.vmap consists."""
        values = {node: self._values[node] for node in region.inputs}
        fakes = {
            node: nested_attribute(self._module, node.target) if value is None else self._fakes(value)
            for node, value in values.items()
        }
        calls, results = recorded_region(region, fakes, self._mode, self._around or nullcontext)
        known: dict[int, Any] = {}
        self._know(known, list(fakes.values()), list(values.values()))
        for self._template, parts in calls:
            with _refusals(self._template):
                self._insert(parts, known)
        for node, result in zip(region.results, results):
            self._values[node] = self._known(known, result)

    def _copied(self, node: Node, args: Any, kwargs: Any) -> Any:
        """A branch, a loop, arithmetic on sizes, or a node that torch's own functionalization made."""
        values = tuple(self._read_all(args)), self._read_all(kwargs)
        made = self._graph.create_node("call_function", node.target, *values, node.name)
        made.meta = dict(node.meta)
        return self._results_of(made, node.meta.get("val"))

    def _mapped(self, tree: Any) -> Any:
        """Arguments of the source, with a View for each tensor and a node of the new graph for each number."""
        if isinstance(tree, Node):
            return self._values[tree]
        if isinstance(tree, (list, tuple)):
            return [self._mapped(item) for item in tree]
        if isinstance(tree, dict):
            return {key: self._mapped(item) for key, item in tree.items()}
        return tree

    # Calls

    def _call(self, op: Op, args: Any, kwargs: Any, fake: Any, exact: bool) -> Any:
        """One call of the source; composite ops among what it consists of have been taken apart already if not `exact`."""
        if dropouts.is_in_eval_mode(op, args, kwargs):
            return self._handed_on(args[0], fake)
        if _flaggems.rules() is not None and (parts := self._parts_of_flaggems(op, args, kwargs)) is not None:
            return parts[0]
        if self._is_taken_apart(op, args, kwargs):
            return self._parts(op, args, kwargs)
        if exact and may_hide_views(op):
            shared = run_fake(self._mode, op, self._fakes(args), self._fakes(kwargs))
            if shares_memory(shared, (self._fakes(args), self._fakes(kwargs))):
                return self._parts(op, args, kwargs)
        return self._recorded_call(op, args, kwargs, fake)

    def _handed_on(self, view: View, fake: torch.Tensor) -> View:
        """What dropout in eval mode returns: its argument, which torch's trace takes for a contiguous copy."""
        if fake.stride() == view.fake.stride():
            return view
        same = self._view(view, self._read(view), view.fake, (_aten.alias.default, (), {}))
        same.is_misread = True
        return same

    def _is_taken_apart(self, op: Op, args: Any, kwargs: Any) -> bool:
        if self._around is not None:
            return True
        is_candidate = op in OWN or not op._schema.is_mutable or parts_of_list_write(op) is not None
        return is_candidate and not is_whole_call(op, self._fakes(args), self._fakes(kwargs))

    def _recorded_call(self, op: Op, args: Any, kwargs: Any, fake: Any) -> Any:
        """A call of an op that is imported whole, or that writes."""
        if torch.Tag.inplace_view in op.tags:
            return self._turned_in_place(op, args, kwargs, fake)
        if op._schema.is_mutable:
            return self._write(op, args, kwargs, fake)
        if reads_memory(op):
            return self._read_of_memory(MemoryRead(op, named_arguments(op, args, kwargs)), fake)
        made = self._emit(op, args, kwargs, fake)
        if not says_views(op) or may_hide_views(op):
            return self._results_of(made, fake)
        if isinstance(fake, torch.Tensor):
            return self._view(args[0], made, fake, (op, tuple(args[1:]), kwargs))
        calls = parts_of_view(op, args, kwargs, fake)
        if calls is None:
            return self._results_of(made, fake)
        nodes = [self._item(made, place, part) for place, part in enumerate(fake)]
        return [self._view(args[0], node, part, call) for node, part, call in zip(nodes, fake, calls)]

    def _read_of_memory(self, read: MemoryRead, fake: Any) -> View:
        """`as_strided` and its kin, over the vector of the elements of a memory."""
        apply = lambda op, x, *rest: self._valued(op, (x, *rest), {})  # noqa: E731
        view: View = read.given["self"]
        whole = view if read.is_scatter else (view, *_wholes(view))[-1]
        if whole.fake.dtype != view.fake.dtype or whole.fake.is_complex():
            raise Reject(f"memory of {whole.fake.dtype} that is read by strides as {view.fake.dtype}", "real numbers")
        if read.given["storage_offset"] is not None and whole.memory.name and not read.is_scatter:
            self._placed.add(whole.memory.name)
        vector = flattened(whole, apply)
        op, rest = read.call(vector.fake, 0 if read.is_scatter else whole.fake.storage_offset())
        if read.is_scatter:
            made = self._emit(op, (vector, *rest), {}, vector.fake)
            return restored(View(Memory(), made, vector.fake), view.fake, apply)
        made = self._emit(op, (vector, *rest), {}, fake)
        if not read.is_view:  # torch's fake form of a copy is a view
            made.meta["val"] = fake = run_fake(
                self._mode, _aten.clone.default, (fake,), {"memory_format": torch.contiguous_format}
            )
            return self._results_of(made, fake)
        return self._view(vector, made, fake, (op, rest, {}))

    def _parts(self, op: Op, args: Any, kwargs: Any) -> Any:
        """Inserts the calls into which a call is decomposed."""
        fakes = self._fakes((tuple(args), kwargs))
        with memory_ends(lambda: _memory_ends((args, kwargs))):
            calls = recorded(self._mode, op, *fakes, self._around or nullcontext)
        return self._inserted(*calls, fakes, args, kwargs)

    def _parts_of_flaggems(self, op: Op, args: Any, kwargs: Any) -> tuple[Any] | None:
        """The results of FlagGems' form of a call that a rule gives to it; None: it is not given to it."""
        from straightline.capture.torch import gems

        fakes = self._fakes((tuple(args), kwargs))
        with memory_ends(lambda: _memory_ends((args, kwargs))):
            parts = gems.parts(self._mode, op, *fakes, location_of(self._template))
        return None if parts is None else (self._inserted(*parts, fakes, args, kwargs),)

    def _inserted(self, calls: Sequence[Call], result: Any, fakes: Any, args: Any, kwargs: Any) -> Any:
        """Inserts calls that were recorded for a call with these fake arguments, of which they use the tensors."""
        known: dict[int, Any] = {}
        self._know(known, fakes, (tuple(args), kwargs))
        self._insert(calls, known)
        return self._known(known, result)

    def _insert(self, calls: Sequence[Call], known: dict[int, Any]) -> None:
        """Inserts calls on fake tensors, whose values are `known` by the tensors' addresses; adds the results to these."""
        for call in calls:
            arguments = self._known(known, call.args), self._known(known, call.kwargs)
            value = self._recorded_call(call.op, *arguments, call.seen)
            self._know(known, call.result, value)

    def _know(self, known: dict[int, Any], fakes: Any, values: Any) -> None:
        if isinstance(fakes, torch.Tensor):
            known[id(fakes)] = values
        elif isinstance(fakes, (list, tuple)):
            for fake, value in zip(fakes, values):
                self._know(known, fake, value)
        elif isinstance(fakes, dict):
            for key, fake in fakes.items():
                self._know(known, fake, values[key])

    def _known(self, known: dict[int, Any], tree: Any) -> Any:
        if isinstance(tree, torch.Tensor):
            if id(tree) not in known:
                known[id(tree)] = self._constant(tree)
            return known[id(tree)]
        if isinstance(tree, (list, tuple)):
            return [self._known(known, item) for item in tree]
        if isinstance(tree, dict):
            return {key: self._known(known, item) for key, item in tree.items()}
        return tree

    def _constant(self, tensor: torch.Tensor) -> View:
        """A tensor that a decomposition makes of numbers."""
        data = getattr(tensor, "constant", tensor)
        if data is None:
            raise InternalError(f"a decomposition at {location_of(self._template)} uses a tensor that it did not make")
        name = next(f"_constant_{n}" for n in itertools.count() if f"_constant_{n}" not in self._attributes)
        self._attributes[name] = data
        made = self._graph.create_node("get_attr", name)
        made.meta = self._meta(tensor)
        return View(Memory(), made, tensor)

    # Emission

    def _meta(self, fake: Any) -> dict[str, Any]:
        source = self._template.meta if self._template is not None else {}
        return {key: source[key] for key in ("nn_module_stack", "stack_trace") if key in source} | {"val": fake}

    def _emit(self, op: Op, args: Any, kwargs: Any, fake: Any, name: str | None = None) -> Node:
        if name is None and _is_call_of(self._template, op):
            name = self._template.name
        made = self._graph.create_node("call_function", op, tuple(self._read_all(args)), self._read_all(kwargs), name)
        made.meta = self._meta(fake)
        return made

    def _item(self, node: Node, place: int, fake: Any) -> Node:
        made = self._graph.create_node("call_function", operator.getitem, (node, place))
        made.meta = self._meta(fake)
        return made

    def _results_of(self, node: Node, fake: Any) -> Any:
        """Results of a node that are memory of their own."""
        if isinstance(fake, torch.Tensor):
            return View(Memory(), node, fake)
        if isinstance(fake, (list, tuple)):
            return [self._results_of(self._item(node, place, part), part) for place, part in enumerate(fake)]
        return node

    def _view(
        self, parent: View, node: Node, fake: torch.Tensor, call: tuple[Op, tuple[Any, ...], dict[str, Any]]
    ) -> View:
        op, rest, kwargs = call
        return View(parent.memory, node, fake, parent.memory.version, parent, op, tuple(rest), dict(kwargs))

    def _read_all(self, tree: Any) -> Any:
        """Arguments as nodes: each tensor as the node of its current value."""
        if isinstance(tree, View):
            return self._read(tree)
        if isinstance(tree, (list, tuple)):
            return [self._read_all(item) for item in tree]
        if isinstance(tree, dict):
            return {key: self._read_all(item) for key, item in tree.items()}
        return tree

    def _read(self, view: View) -> Node:
        doubted = view.memory.doubted
        if doubted is not None and doubted not in (view, *_wholes(view)):
            raise _misread(doubted)
        return self._current(view)

    def _current(self, view: View) -> Node:
        if view.parent is not None and view.version != view.memory.version:
            view.node = self._made_again(view, self._current(view.parent))
            view.version = view.memory.version
        return view.node

    def _made_again(self, view: View, parent: Node) -> Node:
        return self._emit(view.op, (parent, *view.rest), view.kwargs, view.fake)

    def _read_from_whole(self, view: View) -> Node:
        """The value as a view of the whole, for results that the caller gets as such."""
        if view.parent is None:
            return view.node
        return self._made_again(view, self._read_from_whole(view.parent))

    def _fakes(self, tree: Any) -> Any:
        if isinstance(tree, View):
            return tree.fake
        if isinstance(tree, Node):
            return tree.meta.get("val")
        if isinstance(tree, (list, tuple)):
            return type(tree)(self._fakes(item) for item in tree)
        if isinstance(tree, dict):
            return {key: self._fakes(item) for key, item in tree.items()}
        return tree

    # Writes

    def _turned_in_place(self, op: Op, args: Any, kwargs: Any, fake: Any) -> Any:
        """`unsqueeze_` and the like: the node is a view of its argument, which keeps its own shape elsewhere.

        `x.set_(x)` changes nothing: `module.to(dtype)` in a model's own code gives each parameter itself, where it has that type.
        """
        if op is _aten.set_.source_Tensor and _is_same_tensor(args[0], args[1]):
            return args[0]
        name = op_name(op)
        forms = _forms(name[:-1], op._schema.arguments) if name.endswith("_") else iter(())
        form = next(filter(says_views, forms), None)
        if form is None:
            raise Reject("a change of a tensor's own shape or storage", "a view of it")
        return self._call(form, args, kwargs, fake, True)

    def _write(self, op: Op, args: Any, kwargs: Any, fake: Any) -> Any:
        given = named_arguments(op, args, kwargs)
        targets = dict(_written_in(op, given))
        if len({id(view) for view in targets.values()}) != len(targets):
            raise Reject("an update of one tensor through two arguments", "separate tensors")
        form = _without_writing(op)
        if form is None and (is_composite(op) or is_of_triton(op)):
            return self._parts(op, args, kwargs)
        shared = next((view for view in targets.values() if has_shared_elements(view.fake)), None)
        if shared is not None:
            return self._write_shared(op, form, given, shared)
        if form is None:
            return self._updated(op, args, kwargs, fake, targets)
        taken = {a.name for a in form._schema.arguments}
        left = {name: value for name, value in kwargs.items() if name in taken}
        for a in form._schema.arguments[len(args) :]:
            if a.name in given and not a.has_default_value():  # the op itself has one, such as p of bernoulli_
                left.setdefault(a.name, given[a.name])
        value = self._valued(form, args, left)
        values = value if isinstance(value, list) else [value]
        for target, new in zip(targets.values(), values):
            self._overwrite(target, new)
        written = list(targets.values())
        return written if isinstance(fake, (list, tuple)) else written[0]

    def _valued(self, op: Op, args: Any, kwargs: Any) -> Any:
        """The results of the op's functional form."""
        if not is_whole_call(op, self._fakes(args), self._fakes(kwargs)):
            return self._parts(op, args, kwargs)
        fake = run_fake(self._mode, op, self._fakes(args), self._fakes(kwargs))
        return self._recorded_call(op, args, kwargs, fake)

    def _write_shared(self, op: Op, form: Op | None, given: Mapping[str, Any], view: View) -> View:
        """Writes to a view with elements that share memory; eager allows this for few ops."""
        value = next((given[name] for name in ("value", "values") if name in given), 0)
        is_one = not isinstance(value, View) or statically_known_true(value.fake.numel() == 1)
        if form is None or op not in ONE_VALUE or not is_one or given.get("accumulate"):
            if is_refused_by_eager(op, view.fake):
                raise UserError(
                    f"{op}({described(view.node)}) at {location_of(self._template)} writes to elements that share memory "
                    "(expand), which eager refuses too: write to a clone, or before expand"
                )
            raise Reject("several values for elements that share memory (expand)", "a write to its clone")
        distinct = self._distinct(view)
        if "mask" in given or "index" in given or "indices" in given:
            new = self._where_written(form, given, view, distinct, value)
        else:
            new = distinct.values(self._valued(form, tuple(given.values()), {}))
        self._overwrite(distinct.base, new)
        return view

    def _where_written(
        self, form: Op, given: Mapping[str, Any], view: View, distinct: DistinctView, value: View | float
    ) -> View:
        """The new value of `distinct.base`: `value` in each element of which the op overwrites any repetition.

        To find these elements, the op itself writes True to a tensor of flags.
        """
        flags = self._valued(_aten.zeros_like.default, (view,), {"dtype": torch.bool})
        true: Any = True
        if form is _aten.index_put.default:
            true = self._valued(_aten.ones.default, ([],), {"dtype": torch.bool, "device": view.fake.device})
        elif isinstance(value, View):
            form = form._overloadpacket.int_Scalar if "index" in given else form._overloadpacket.Scalar
        taken = {**given, "self": flags, "value": true, "values": true}
        written = self._valued(form, tuple(taken[a.name] for a in form._schema.arguments), {})
        fill = _aten.masked_fill.Scalar
        if isinstance(value, View):
            fill = _aten.masked_fill.Tensor
            value = self._valued(_aten.reshape.default, (value, []), {})
        return self._valued(fill, (distinct.base, distinct.any(written), value), {})

    def _distinct(self, view: View) -> DistinctView:
        """The view of the same memory that has each element once."""
        chain = [view, *_wholes(view)]
        distinct = DistinctView(chain[-1], lambda op, *args: self._valued(op, args, {}))
        for whole, part in itertools.pairwise(reversed(chain)):
            distinct.follow(part.op, part.rest, part.kwargs, whole.fake, part.fake)
        return distinct

    def _updated(self, op: Op, args: Any, kwargs: Any, fake: Any, targets: Mapping[str, View]) -> Any:
        """An op that has no form without writing: a node that gives its results, then the new values of what it overwrites."""
        fakes = [] if fake is None else list(fake) if isinstance(fake, (list, tuple)) else [fake]
        bases = [view.fake for view in targets.values()]
        values = self._read_all((op, list(targets), *args)), self._read_all(kwargs)
        made = self._graph.create_node("call_function", updating, tuple(values[0]), values[1])
        made.meta = self._meta((*fakes, *bases))
        for place, view in enumerate(targets.values()):
            node = self._item(made, len(fakes) + place, view.fake)
            self._overwrite(view, View(Memory(), node, view.fake))
        results = [
            targets[same]
            if (same := _overwritten(op, place))
            else self._results_of(self._item(made, place, part), part)
            for place, part in enumerate(fakes)
        ]
        return results if isinstance(fake, (list, tuple)) else results[0] if results else None

    def _overwrite(self, view: View, new: View) -> None:
        """Gives a view, and every tensor that it is a view of, a new value."""
        if not same_sizes(view.fake.shape, new.fake.shape):
            raise Reject(f"a write of {list(new.fake.shape)} to {list(view.fake.shape)}, which changes the size")
        if any(map(_is_expanded, (view, *_wholes(view)))):
            if statically_known_true(view.fake.numel() == 0):
                return
            distinct = self._distinct(view)
            view, new = distinct.base, distinct.values(new)
        node = self._read(new)
        if new.fake.dtype != view.fake.dtype:
            node = self._emit(_aten._to_copy.default, (node,), {"dtype": view.fake.dtype}, view.fake)
        changes = [(view, node)]
        memory = view.memory
        memory.doubted = next((one for one in (view, *_wholes(view)) if one.is_misread), None)
        if memory.doubted is not None and memory.name:
            raise _misread(memory.doubted)
        while (whole := view.parent) is not None:
            through = written_through(view.op, view.rest, view.kwargs, whole.fake, view.fake)
            if through is not None:
                op, args, kwargs = through(self._current(whole), node)
                node = self._emit(op, args, kwargs, whole.fake)
            changes.append((whole, node))
            view = whole
        memory.version += 1
        if memory not in self._written:
            self._written.append(memory)
        for changed, value in changes:
            changed.node, changed.version = value, memory.version

    def _results(self, node: Node) -> tuple[Any, ...]:
        """Returns the results of the source; a view of overwritten memory of the caller becomes a view of its last value."""
        values = (self._mapped(item) for item in pytree.tree_leaves(node.args[0]))
        return tuple(
            self._read_from_whole(value)
            if isinstance(value, View) and value.memory.name and value.memory.version
            else self._read_all(value)
            for value in values
        )


@contextmanager
def _refusals(node: Node) -> Iterator[None]:
    """What is rejected within is the node's, or of the model's results."""
    try:
        yield
    except Reject as refusal:
        op, of = (str(node.target), node) if node.op != "output" else ("the results", node.all_input_nodes[0])
        operands = ", ".join(described(arg) for arg in node.all_input_nodes)
        raise_if_unsupported([UnsupportedNode(op, str(refusal), operands, location_of(of), refusal.nearest)])


def _misread(view: View) -> Reject:
    return Reject(
        f"a write behind dropout in eval mode of {described(view.node)}, which is not contiguous: torch.export takes the "
        "result for a copy, eager does not",
        "dropout of a contiguous tensor, or no dropout",
    )


def _wholes(view: View) -> Iterator[View]:
    """Yields the tensor that a view is of, the tensor that this one is a view of, and so on."""
    while view.parent is not None:
        view = view.parent
        yield view


def _is_same_tensor(x: Any, y: Any) -> bool:
    """Whether both are the same elements of the same memory, in the same order: one tensor, or `alias` or `detach` of it."""

    def named(view: View) -> View:
        while view.op in (_aten.alias.default, _aten.detach.default) and not view.is_misread:
            view = view.parent
        return view

    return isinstance(x, View) and isinstance(y, View) and named(x) is named(y)


def _memory_ends(views: Any) -> dict[int, Any]:
    """The place behind the last element that the graph has of each memory, by the storage of its fake tensors."""
    wholes = [(view, *_wholes(view))[-1].fake for view in pytree.tree_leaves(views) if isinstance(view, View)]
    return {fake.untyped_storage()._cdata: fake.storage_offset() + fake.numel() for fake in wholes}


def _is_expanded(view: View) -> bool:
    """Whether a view repeats elements of its parent."""
    is_expand = view.op is not None and op_name(view.op) == "expand"
    return is_expand and not same_sizes(view.fake.shape, view.parent.fake.shape)


def _is_call_of(node: Node | None, op: Op) -> bool:
    """Whether a node calls the op, or the op's form that overwrites."""
    if node is None or node.op != "call_function":
        return False
    return node.target is op or (is_write(node) and _without_writing(node.target) is op)


def _forms(name: str, arguments: Sequence[torch.Argument]) -> Iterator[Op]:
    """Overloads of ATen's ops of that name that take these arguments and write to none."""
    wanted = [(a.name, str(a.type)) for a in arguments]
    packet = getattr(torch.ops.aten, name, None)
    for overload in packet.overloads() if packet is not None else ():
        form = getattr(packet, overload)
        if not form._schema.is_mutable and [(a.name, str(a.type)) for a in form._schema.arguments] == wanted:
            yield form


def _written_in(op: Op, given: Mapping[str, Any]) -> Iterator[tuple[str, View]]:
    """What the op overwrites, by the argument's name; element i of a list `params` is `params.i`."""
    for argument in op._schema.arguments:
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = given[argument.name]
        if isinstance(value, (list, tuple)):
            if op.namespace == "aten":
                raise Reject("a write to several tensors in a list", "a write to each of them")
            yield from ((f"{argument.name}.{i}", item) for i, item in enumerate(value) if item is not None)
        elif value is not None:
            yield argument.name, value


def _overwritten(op: Op, place: int) -> str | None:
    """The name of the argument that the op overwrites and returns as this result; None where the result is no argument."""
    alias = op._schema.returns[place].alias_info
    if alias is None:
        return None
    if not alias.is_write:
        raise Reject("its result is a view of one of the arguments")
    (name,) = [a.name for a in op._schema.arguments if a.alias_info and a.alias_info.before_set == alias.before_set]
    return name


@functools.cache
def _without_writing(op: Op) -> Op | None:
    """The form of an op that gives the new values of what the op overwrites, and takes the same arguments otherwise."""
    if op.namespace != "aten":
        return None
    name, arguments = op_name(op), op._schema.arguments
    written = [a for a in arguments if a.alias_info is not None and a.alias_info.is_write]
    if name.endswith("_"):
        forms = itertools.chain(_forms(name[:-1], arguments), _forms(f"{name[:-1]}_functional", arguments))
    elif all(a.kwarg_only for a in written):
        forms = _forms(name, [a for a in arguments if a not in written])
    else:
        return None
    return next((form for form in forms if len(form._schema.returns) == len(written)), None)


def _may_be_written(graph: Graph, same: Mapping[str, str]) -> set[Node] | None:
    """Nodes that may be views of memory that a node of the graph overwrites; None: any may."""
    first: dict[Node, Node] = {}

    def root(node: Node) -> Node:
        while node in first:
            node = first[node]
        return node

    def join(x: Node, y: Node) -> None:
        x, y = root(x), root(y)
        if x is not y:
            first[x] = y

    placeholders = {node.name: node for node in graph.nodes if node.op == "placeholder"}
    for name, other in same.items():
        join(placeholders[name], placeholders[other])
    written: list[Node] = []
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        op = node.target
        if not isinstance(op, torch._ops.OpOverload):
            if str(op) in _INLINED or is_of_transform(node):
                return None
            if op is not operator.getitem:
                continue
        elif op._schema.is_mutable or updates_statistics(op, node.args, node.kwargs):
            written.append(node)
        elif not (says_views(op) or may_hide_views(op)):
            continue
        for argument in node.all_input_nodes:
            join(node, argument)
    roots = {root(node) for node in written}
    return {node for node in graph.nodes if root(node) in roots} if roots else set()
