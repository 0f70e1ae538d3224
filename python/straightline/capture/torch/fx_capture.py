# SPDX-License-Identifier: Apache-2.0
"""A graph of torch's functions, as Dynamo captures it, becomes a graph of ATen ops with fake values.

The graph is run once over fake tensors. A mode at the end of torch's dispatcher notes each op that arrives there, below autograd
(composite ops arrive whole) and behind autocast (its casts are ops). Nothing is exported and nothing is decomposed here:
`functional.py` makes the graph one of values as it does with an exported one.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import operator
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._guards import TracingContext
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.amp import autocast_mode
from torch.autograd import grad_mode
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv, statically_known_true
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from straightline.capture.builder import Builder, FrameworkRule
from straightline.capture.captured import Captured
from straightline.capture.torch.decompose import below_autograd, is_composite, says_views, shares_memory
from straightline.capture.torch.dropouts import DROPOUTS, draws
from straightline.capture.torch.export_errors import raise_export_error, without_logs_of_failures
from straightline.capture.torch.fast_paths import PARTS
from straightline.capture.torch.float_inputs import computed, dtype_of_number, is_alike, tensor_form
from straightline.capture.torch.graph_import import GraphImport, source_of_graph
from straightline.capture.torch.importer import location_of, nested_attribute
from straightline.capture.torch.model_check import check_tensor
from straightline.errors import InternalError, UnsupportedError

#: Higher-order ops that call a graph as it stands: where the graph is among the arguments, and where its operands begin.
_CALLS = {
    "wrap": (0, 1), "tag_activation_checkpoint": (0, 1), "wrap_activation_checkpoint": (0, 1), "invoke_subgraph": (0, 2),
    "wrap_with_set_grad_enabled": (1, 2), "wrap_with_autocast": (4, 5),
}  # fmt: skip


#: Ops that make a tensor of one number, their last argument.
_OF_ONE_NUMBER = (torch.ops.aten.scalar_tensor.default, torch.ops.aten.full.default)
_INFERENCE_MODE = (grad_mode._enter_inference_mode, grad_mode._exit_inference_mode)


@dataclass(frozen=True)
class FrozenInput:
    """An input whose tensor is the program's own: a parameter or buffer of a module."""

    name: str
    tensor: torch.Tensor


class _Number:
    """The target of a node that is a number: what it is stands in `meta["val"]`."""

    __name__ = "number"

    def __str__(self) -> str:
        return "straightline.number"

    def __call__(self) -> Any:
        raise InternalError("a number of a graph is not called")


number = _Number()


class _Tracer(TorchDispatchMode):
    """Notes the ops that a graph calls, as nodes of a new graph."""

    def __init__(self, mode: FakeTensorMode) -> None:
        super().__init__()
        self.graph = Graph()
        self.attributes: dict[str, Any] = {}
        self._mode = mode
        #: Inputs that are floats, by the symbol that their number has.
        self.floats: dict[Any, torch.Tensor] = {}
        self._nodes: dict[int, Node] = {}
        self._kept: list[torch.Tensor] = []  # an id is that of a tensor for as long as it lives
        self._template: Node | None = None  # the node that is being run
        self._paused = False
        self._autocasts: list[Any] = []  # that the graph is in
        self._roots: dict[int, torch.Tensor] = {}  # by storage, the tensor that came first

    # Nodes of the new graph

    def placeholder(self, name: str, value: Any) -> Any:
        """A new input; returns the value for the graph that runs."""
        node = self.graph.create_node("placeholder", name, name=name)
        node.meta["val"] = value
        if isinstance(value, torch.Tensor):
            self._know(value, node)
            number = getattr(value, "item_memo", None)
            if isinstance(number, torch.SymFloat):
                self.floats[number.node.expr] = value
        return value

    def attribute(self, name: str, value: Any, fake: Any = None) -> Node:
        """A node for an object that the module of the new graph shall have under a name like this one."""
        name, base, count = name.replace(".", "_"), name.replace(".", "_"), 0
        while name in self.attributes and self.attributes[name] is not value:
            count += 1
            name = f"{base}_{count}"
        self.attributes[name] = value
        node = self.graph.create_node("get_attr", name)
        node.meta["val"] = fake
        if isinstance(fake, torch.Tensor):
            self._know(fake, node)
        return node

    def node(self, target: Any, args: Any, kwargs: Any, value: Any) -> Node:
        """A call, with what it gives."""
        made = self.graph.create_node("call_function", target, tuple(self.nodes_of(args)), self.nodes_of(kwargs))
        made.meta = self._meta(value)
        self._know(value, made)
        return made

    def output(self, results: Sequence[Any]) -> None:
        """Ends the graph."""
        self.graph.output(tuple(self.nodes_of(value) for value in results))

    def _meta(self, value: Any) -> dict[str, Any]:
        source = self._template.meta if self._template is not None else {}
        return {key: source[key] for key in ("nn_module_stack", "stack_trace") if key in source} | {"val": value}

    def _know(self, value: Any, node: Node) -> None:
        """Notes which node gives a value, with nodes for its items where there are several."""
        if isinstance(value, torch.Tensor):
            self._nodes[id(value)] = node
            self._kept.append(value)
            self._roots.setdefault(_storage(value), value)
        elif isinstance(value, (list, tuple)):
            for place, part in enumerate(value):
                if isinstance(part, (torch.Tensor, list, tuple)):
                    item = self.graph.create_node("call_function", operator.getitem, (node, place))
                    item.meta = self._meta(part)
                    self._know(part, item)

    def root(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor whose memory this one is, or is a view of."""
        return self._roots[_storage(tensor)]

    def nodes_of(self, tree: Any) -> Any:
        """Arguments with the node that gives it in place of each tensor."""
        if isinstance(tree, torch.Tensor):
            if id(tree) not in self._nodes:
                self._literal(tree)
            return self._nodes[id(tree)]
        if isinstance(tree, (list, tuple)):
            return [self.nodes_of(item) for item in tree]
        if isinstance(tree, dict):
            return {key: self.nodes_of(item) for key, item in tree.items()}
        if isinstance(tree, torch.SymFloat):
            return float(tree)  # by a guard of Dynamo's
        if isinstance(tree, torch.SymInt) and (
            tree.node.expr.is_Integer or tree.node.expr.free_symbols & self.floats.keys()
        ):
            return int(tree)
        if isinstance(tree, (torch.SymInt, torch.SymBool)):
            made = self.graph.create_node("call_function", number)
            made.meta = self._meta(tree)
            return made
        return tree

    def _literal(self, tensor: torch.Tensor) -> None:
        """A tensor that a function made of numbers."""
        data = tensor.constant if isinstance(tensor, FakeTensor) else tensor
        if data is None:
            place = f" at {location_of(self._template)}" if self._template is not None else ""
            raise InternalError(f"a tensor{place} comes from no op")
        self._nodes[id(tensor)] = self.attribute("_tensor_constant", data, tensor)
        self._kept.append(tensor)

    # Ops

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._paused:
            return op(*args, **kwargs)
        if op._schema.name in DROPOUTS:
            if not draws(op, args, kwargs):
                return args[0]  # as eager does; its fake form gives new memory
            with self:  # what export refuses as a model that was left in training, torch.compile is asked for
                return op.decompose(*args, **kwargs)
        if any(isinstance(leaf, torch.SymFloat) for leaf in pytree.tree_leaves((args, kwargs))):
            return self._of_floats(op, args, kwargs)
        if torch.Tag.inplace_view in op.tags:
            self._keep(args[0])
        result = op(*args, **kwargs)
        if not (op._schema.is_mutable or says_views(op) or is_composite(op)) and shares_memory(result, (args, kwargs)):
            # The fake forms of `expand_copy` and the like give views.
            copied = functools.partial(torch.clone, memory_format=torch.contiguous_format)
            result = pytree.tree_map_only(torch.Tensor, copied, result)
        if op is torch.ops.aten.lift_fresh.default:
            op = torch.ops.aten.lift_fresh_copy.default
        if op._schema.is_mutable or not op._schema.returns or _has_tensors(result):
            self.node(op, args, kwargs, result)
        return result

    def _of_floats(self, op: Any, args: Any, kwargs: Any) -> Any:
        """A call that takes float inputs: of tensors if it can be, else with constants, by a guard of Dynamo's."""
        call = self._of_tensors(op, args, kwargs)
        if call is None:
            call = (op, *pytree.tree_map_only(torch.SymFloat, float, (args, kwargs)))
        with self:
            return call[0](*call[1], **call[2])

    def _of_tensors(self, op: Any, args: Any, kwargs: Any) -> tuple[Any, Any, Any] | None:
        """The same call with a 0-d tensor for each number that a float input gives; None if there is no such."""
        if op in _OF_ONE_NUMBER:
            return self._filled(op, args, kwargs)
        first = next((x for x in args if isinstance(x, torch.Tensor)), None)
        form = tensor_form(op, args, kwargs)
        if first is None or form is None:
            return None
        wanted = first if op._schema.is_mutable else op(*args)
        dtype = dtype_of_number(op, first, wanted)
        taken: list[Any] = []
        for value, declared in zip(args, form._schema.arguments):
            if str(declared.type) in ("Tensor", "Optional[Tensor]") and isinstance(value, (int, float, torch.SymFloat)):
                with self:
                    found = computed(value.node.expr, self.floats) if isinstance(value, torch.SymFloat) else value
                    if found is None:
                        return None
                    value = found.to(dtype) if isinstance(found, torch.Tensor) else torch.full((), found, dtype=dtype)
            taken.append(value)
        fits = op._schema.is_mutable or is_alike(form(*taken), wanted)
        return (form, tuple(taken), {}) if fits else None

    def _filled(self, op: Any, args: Any, kwargs: Any) -> tuple[Any, Any, Any] | None:
        """A tensor that has a number everywhere as copies of one element."""
        wanted = op(*args, **kwargs)
        with self:
            found = computed(args[-1].node.expr, self.floats)
            if not isinstance(found, torch.Tensor) or found.device != wanted.device:
                return None
            return torch.ops.aten.clone.default, (found.to(wanted.dtype).expand(wanted.shape),), {}

    def _keep(self, tensor: torch.Tensor) -> None:
        """Keeps the shape of a tensor before an op changes it in place, for the nodes that came before."""
        before = tensor.detach()
        for node in self.graph.nodes:
            node.meta["val"] = pytree.tree_map(lambda x: before if x is tensor else x, node.meta.get("val"))

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """A block whose ops are not noted."""
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before

    # Running

    def run(self, module: GraphModule, operands: Sequence[Any]) -> list[Any]:
        """Runs a graph over fake values; returns its results, flat."""
        given = iter(operands)
        values: dict[Node, Any] = {}
        before = self._template
        for node in module.graph.nodes:
            self._template = node if node.meta.get("stack_trace") or before is None else before
            if node.op == "placeholder":
                values[node] = next(given)
            elif node.op == "get_attr":
                values[node] = self._attribute_of(module, node.target)
            elif node.op == "output":
                self._template = before
                return pytree.tree_leaves(
                    torch.fx.node.map_arg(node.args[0], values.__getitem__), is_leaf=lambda x: x is None
                )
            else:
                args = torch.fx.node.map_arg(node.args, values.__getitem__)
                kwargs = torch.fx.node.map_arg(node.kwargs, values.__getitem__)
                values[node] = self._call(module, node, args, kwargs)
        raise InternalError("a graph without an output")

    def _attribute_of(self, module: GraphModule, target: str) -> Any:
        value = nested_attribute(module, target)
        if not isinstance(value, torch.Tensor):
            return value
        check_tensor(value, f"tensor {target}")
        with self.paused():
            fake = self._mode.from_tensor(value, static_shapes=True)
        self.attribute(target, value, fake)
        return fake

    def _call(self, module: GraphModule, node: Node, args: Any, kwargs: Any) -> Any:
        if node.op == "call_method":
            return getattr(args[0], node.target)(*args[1:], **kwargs)
        if node.op == "call_module":
            called = nested_attribute(module, node.target)
            if isinstance(called, GraphModule):
                return self.run(called, args)
            state = {**dict(called.named_parameters()), **dict(called.named_buffers())}
            own = {name: self._attribute_of(called, name) for name in state}
            return torch.func.functional_call(called, own, args, kwargs)
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            return self._higher_order(node, args, kwargs)
        if node.target in _INFERENCE_MODE:  # nothing here records gradients
            return None
        if node.target in PARTS and not any(x.is_nested for x in args if isinstance(x, torch.Tensor)):
            return PARTS[node.target](*args, **kwargs)
        result = node.target(*args, **kwargs)
        if node.target is autocast_mode._enter_autocast:
            self._autocasts.append(result)
        elif node.target is autocast_mode._exit_autocast:
            self._autocasts.remove(args[0])
        return result

    @contextlib.contextmanager
    def autocast_as_before(self) -> Iterator[None]:
        """A block behind which autocast is as before, should the graph have ended in a region of it."""
        try:
            yield
        finally:
            while self._autocasts:
                self._autocasts.pop().__exit__(None, None, None)

    # Higher-order ops

    def _higher_order(self, node: Node, args: Any, kwargs: Any) -> Any:
        name = node.target.name()
        if name in _CALLS:
            place, first = _CALLS[name]
            around = contextlib.nullcontext()
            if name == "wrap_with_autocast":
                device, dtype, enabled, cached = args[:4]
                around = torch.autocast(device, dtype, enabled, cache_enabled=cached)
            with around:
                return tuple(self.run(args[place], args[first:]))
        if name == "cond":
            return self._conditional(node.target, *args)
        if name == "while_loop":
            return self._loop(node.target, *args, **kwargs)
        if name == "scan":
            return self._over_rows(node.target, *args, **kwargs)
        if name == "map_impl":
            return self._over_rows(node.target, args[0], None, *args[1:])
        if name == "associative_scan":
            return self._accumulated(*args, **kwargs)
        raise UnsupportedError(f"higher-order op {name} at {location_of(node)}; nearest supported form: torch.cond")

    def _nested(self, name: str, module: GraphModule, operands: Sequence[Any]) -> tuple[Node, list[Any]]:
        """The graph of a branch as an attribute, and the values that it gives."""
        inner = _Tracer(self._mode)
        inner._template = self._template
        with self.paused(), inner:
            names = [node.name for node in module.graph.find_nodes(op="placeholder")]
            for shown, value in zip(names, operands, strict=True):
                inner.placeholder(shown, value)
            results = inner.run(module, operands)
            inner.output(results)
        return self.attribute(name, GraphModule(inner.attributes, inner.graph)), results

    def _fresh(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """New memory for results of a branch or a loop."""
        with self.paused():
            return tuple(torch.empty_like(x) if isinstance(x, torch.Tensor) else x for x in values)

    def _conditional(self, op: Any, predicate: Any, true: Any, false: Any, operands: Any = ()) -> Any:
        if isinstance(predicate, (bool, torch.SymBool)):  # of sizes: a guard says which it is
            return tuple(self.run(true if predicate else false, operands))
        true_node, results = self._nested("true_graph", true, operands)
        false_node, _ = self._nested("false_graph", false, operands)
        values = self._fresh(results)
        made = self.graph.create_node(
            "call_function", op, (self.nodes_of(predicate), true_node, false_node, self.nodes_of(list(operands)))
        )
        made.meta = self._meta(values)
        self._know(values, made)
        return values

    def _loop(self, op: Any, condition: Any, body: Any, carried: Any, extra: Any = ()) -> Any:
        operands = (*carried, *extra)
        condition_node, _ = self._nested("cond_graph", condition, operands)
        body_node, _ = self._nested("body_graph", body, operands)
        values = self._fresh(carried)
        first, others = self.nodes_of(list(carried)), self.nodes_of(list(extra))
        made = self.graph.create_node("call_function", op, (condition_node, body_node, first, others))
        made.meta = self._meta(values)
        self._know(values, made)
        return values

    def _over_rows(self, op: Any, step: Any, carried: Any, xs: Any, others: Any = ()) -> Any:
        """scan, and map, which carries nothing: results are the carried values and a row of each other one a step."""
        with self.paused():
            rows = [x.select(0, 0) for x in xs]
        first = list(carried or ())
        step_node, results = self._nested("step_graph", step, (*first, *rows, *others))
        with self.paused():
            count = xs[0].shape[0]
            whole = [x.new_empty((count, *x.shape)) for x in results[len(first) :]]
        values = (*self._fresh(results[: len(first)]), *whole)
        given = [] if carried is None else [self.nodes_of(first)]
        made = self.graph.create_node(
            "call_function", op, (step_node, *given, self.nodes_of(list(xs)), self.nodes_of(list(others)))
        )
        made.meta = self._meta(values)
        self._know(values, made)
        return values

    def _accumulated(self, combine: Any, xs: Any, others: Any = ()) -> Any:
        """associative_scan by doubling distances: log2(n) steps over all rows at once (Hillis and Steele, 1986)."""
        values, count = list(xs), xs[0].shape[0]
        if not isinstance(count, int):
            raise UnsupportedError(f"associative_scan over {count} rows; nearest supported form: a constant size")
        distance = 1
        while distance < count:
            left, right = [x[:-distance] for x in values], [x[distance:] for x in values]
            joined = self._for_all_rows(combine, left, right, others)
            values = [torch.cat([x[:distance], y]) for x, y in zip(values, joined, strict=True)]
            distance *= 2
        return tuple(x.clone() for x in values) if count <= 1 else tuple(values)

    def _for_all_rows(self, combine: Any, left: Sequence[Any], right: Sequence[Any], others: Sequence[Any]) -> Any:
        """The graph of one row's step for all rows."""
        dims = (0,) * (len(left) + len(right)) + (None,) * len(others)
        return torch.vmap(lambda *rows: tuple(combine(*rows)), in_dims=dims)(*left, *right, *others)


def _has_tensors(result: Any) -> bool:
    return any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(result))


def fake_inputs(module: GraphModule, inputs: Sequence[Any]) -> tuple[FakeTensorMode, list[Any]]:
    """Fake tensors and numbers for the inputs of a graph of Dynamo, with the symbols that Dynamo gave their sizes."""
    context = TracingContext.try_get()
    mode = context.fake_mode if context is not None else None
    mode = mode or FakeTensorMode(shape_env=ShapeEnv())
    placeholders = module.graph.find_nodes(op="placeholder")
    fakes: list[Any] = []
    for node, value in zip(placeholders, inputs, strict=True):
        if not isinstance(value, torch.Tensor) or isinstance(value, FakeTensor):
            fakes.append(value)
            continue
        check_tensor(value, f"input {node.name}")
        symbolic = context.tensor_to_context.get(value) if context is not None else None
        if symbolic is None:
            fakes.append(mode.from_tensor(value, static_shapes=True))
        else:
            source = symbolic.tensor_source
            fakes.append(mode.from_tensor(value, symbolic_context=symbolic, source=source, trace=False))
    return mode, fakes


def _aten_graph(
    module: GraphModule, mode: FakeTensorMode, fakes: Sequence[Any], extents: Mapping[str, torch.SymInt]
) -> tuple[GraphModule, list[ResultPlan]]:
    """The ATen ops that a graph of Dynamo calls on these fake values, and what its results are."""
    tracer = _Tracer(mode)
    names = [node.name for node in module.graph.find_nodes(op="placeholder")]
    with tracer.autocast_as_before(), torch._C.DisableTorchFunction(), below_autograd(mode), tracer:
        for name, fake in zip(names, fakes, strict=True):
            tracer.placeholder(name, fake)
        for name, size in extents.items():
            with tracer.paused():
                carrier = torch.empty(1, dtype=torch.bool, device=_device(fakes)).expand(size)
            tracer.placeholder(name, carrier)
        planning = _Planning(tracer, tracer.run(module, fakes), fakes)
        tracer.output(planning.given)
    return GraphModule(tracer.attributes, tracer.graph), planning.plans


def _device(fakes: Sequence[Any]) -> torch.device:
    return next((fake.device for fake in fakes if isinstance(fake, torch.Tensor)), torch.device("cpu"))


# Results --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ResultPlan:
    """What the graph's caller gets for one result.

    Attributes:
        place: Number of the program's result.
        source: Or the place of the input that it is a view of.
        dims: How the program's result is permuted; None: not at all.
        strided: Sizes, strides and offset of a view of the memory of that; None: all of it. Behind an input's own offset.
    """

    place: int = -1
    source: int = -1
    dims: tuple[int, ...] | None = None
    strided: tuple[tuple[Any, ...], tuple[Any, ...], Any] | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it is the program's result itself."""
        return self.dims is None and self.strided is None


class _Planning:
    """Plans for the results of a graph, and what the program is to give for them.

    A program gives rows of new memory, or what it was given. Where eager's result has other strides, it is a permuted view; a
    result that is a part, or shares memory with another, is a view of all of that memory, and one of an input is a view of that.
    """

    def __init__(self, tracer: _Tracer, results: Sequence[Any], inputs: Sequence[Any]) -> None:
        self._tracer = tracer
        self._inputs = inputs
        self._places = {_storage(fake): i for i, fake in enumerate(inputs) if isinstance(fake, torch.Tensor)}
        self._sharing: dict[int, set[int]] = {}
        for value in results:
            if isinstance(value, torch.Tensor):
                self._sharing.setdefault(_storage(value), set()).add(id(value))
        self._wholes: dict[int, int] = {}
        self._turned: dict[int, ResultPlan] = {}
        self.given: list[Any] = []
        self.plans = [self._plan(value) for value in results]

    def _plan(self, value: Any) -> ResultPlan:
        if not isinstance(value, torch.Tensor):
            return ResultPlan(self._give(value))
        storage = _storage(value)
        if storage in self._places:
            return self._of_input(value, self._places[storage])
        if len(self._sharing[storage]) == 1 and _is_row_major(value):
            return ResultPlan(self._give(value))
        if len(self._sharing[storage]) == 1 and (dims := _order(value)) is not None:
            if storage not in self._turned:  # a tensor that comes twice is one result
                self._turned[storage] = ResultPlan(self._give(value.permute(dims)), dims=_inverse(dims))
            return self._turned[storage]
        if storage not in self._wholes:
            whole = self._whole(value)
            if whole is None:
                if len(self._sharing[storage]) > 1:
                    raise UnsupportedError(
                        "results that are views of one tensor whose elements have gaps or another dtype"
                    )
                return ResultPlan(self._give(value))
            self._wholes[storage] = self._give(whole)
        view = (tuple(value.shape), tuple(value.stride()), value.storage_offset())
        return ResultPlan(self._wholes[storage], strided=view)

    def _give(self, value: Any) -> int:
        self.given.append(value)
        return len(self.given) - 1

    def _of_input(self, value: torch.Tensor, place: int) -> ResultPlan:
        fake = self._inputs[place]
        if value is fake or value.dtype != fake.dtype:
            return ResultPlan(self._give(value))
        offset = value.storage_offset() - fake.storage_offset()
        return ResultPlan(source=place, strided=(tuple(value.shape), tuple(value.stride()), offset))

    def _whole(self, value: torch.Tensor) -> torch.Tensor | None:
        """All of the memory that a result is a view of, in the order of its elements there; None where it has gaps."""
        root = self._tracer.root(value)
        dims = None if _is_row_major(root) else _order(root)
        if root.storage_offset() != 0 or root.dtype != value.dtype or not (_is_row_major(root) or dims):
            return None
        return root if dims is None else root.permute(dims)


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _order(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """The order of dims in which a tensor is row-major; None where there is none."""
    hints = [stride if isinstance(stride, int) else stride.node.hint for stride in tensor.stride()]
    if any(hint is None for hint in hints):
        return None
    dims = tuple(sorted(range(tensor.dim()), key=lambda dim: -hints[dim]))
    return dims if _is_row_major(tensor.permute(dims)) else None


def _is_row_major(tensor: torch.Tensor) -> bool:
    """Whether it is contiguous; False where that depends on a size that only a call knows."""
    try:
        return tensor.is_contiguous()
    except GuardOnDataDependentSymNode:
        expected: Any = 1
        for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride())):
            if not statically_known_true(stride == expected):
                return False
            expected = expected * size
        return True


def _inverse(dims: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(dims)), key=lambda place: dims[place]))


# Capture --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GraphCapture:
    """A graph of Dynamo as a function of the `op` dialect.

    Attributes:
        captured: The function.
        built: What `finish` gave.
        results: What the caller gets, by the program's results.
        numbers: By the name of an extra input, the place of the number that is its size.
        symbols: By the name of a symbol in views for the caller: the place of an input, and the dim of that size (-1: itself).
        specialized: Why the program has the sizes of its example, where Dynamo has named sizes; "" where it has named ones.
    """

    captured: Captured
    built: Any
    results: tuple[ResultPlan, ...]
    numbers: Mapping[str, int]
    symbols: Mapping[str, tuple[int, int]]
    specialized: str = ""


def capture_graph(
    module: GraphModule,
    inputs: Sequence[Any],
    builder: Callable[[], Builder],
    finish: Callable[[Any], Any] = lambda builder: None,
    frozen: Mapping[int, FrozenInput] = {},
    allows_aten: bool = True,
    target: str = "",
    to_aten: FrameworkRule | None = None,
) -> GraphCapture:
    """Captures a graph of torch's functions that Dynamo gave.

    Args:
        module: The graph.
        inputs: Tensors and numbers, one for each placeholder.
        builder: Makes what receives the function; called again where named sizes cannot be.
        finish: Takes the builder when the function is built; a function with named sizes that it refuses is built without.
        frozen: By place, inputs that are the program's own where it does not overwrite them.
        allows_aten: As for `capture`.
        target: As for `capture`.
        to_aten: As for `capture`.

    Raises:
        UserError: A tensor is none that a program can take.
        UnsupportedError: Lists every op that cannot be converted.
    """
    mode, fakes = fake_inputs(module, inputs)
    options = (frozen, allows_aten, target, to_aten)
    try:
        with without_logs_of_failures(), warnings.catch_warnings():  # torch warns of sizes in the arguments of nodes
            warnings.simplefilter("ignore", UserWarning)
            try:
                return _captured(module, mode, fakes, builder(), finish, *options)
            except Exception as refusal:  # ours, or torch's own for sizes that have names
                numbers = _specialized(mode, fakes)
                if numbers is None:
                    raise
                again = _captured(module, mode, numbers, builder(), finish, *options)
                return replace(again, specialized=str(refusal))
    except Exception as error:
        raise_export_error(error)


def _captured(
    module: GraphModule,
    mode: FakeTensorMode,
    fakes: Sequence[Any],
    builder: Builder,
    finish: Callable[[Any], Any],
    frozen: Mapping[int, FrozenInput],
    allows_aten: bool,
    target: str,
    to_aten: FrameworkRule | None,
) -> GraphCapture:
    names = [node.name for node in module.graph.find_nodes(op="placeholder")]
    _fix_strides(fakes)
    _fix_floats(fakes)
    numbers = _numbers(names, fakes)
    extents = {name: fakes[place] for name, place in numbers.items()}
    graph, plans = _aten_graph(module, mode, fakes, extents)
    symbols = _symbols_of_results(plans, fakes)
    for node in list(graph.graph.nodes):  # a size of an unread tensor may be read
        if node.op == "placeholder" and not node.users and not _symbols_of_sizes([node.meta["val"]]):
            graph.graph.erase_node(node)
    own = {names[place]: (entry.name, entry.tensor) for place, entry in frozen.items()}
    source = source_of_graph(graph, parameters=own)
    placeholders = graph.graph.find_nodes(op="placeholder")
    examples = [node.meta["val"] for node in placeholders if node.name not in source.kept]
    imported = GraphImport(source, builder, examples, {}, None, inspect.Signature())
    captured = imported.run(allows_aten, target, to_aten)
    return GraphCapture(captured, finish(captured.builder), tuple(plans), numbers, symbols)


def _symbols_of(size: Any) -> set[Any]:
    return set(size.node.expr.free_symbols) if isinstance(size, torch.SymInt) else set()


def _symbols_of_sizes(fakes: Sequence[Any]) -> set[Any]:
    tensors = [fake for fake in fakes if isinstance(fake, torch.Tensor)]
    return {symbol for fake in tensors for size in fake.shape for symbol in _symbols_of(size)}


def _symbols_of_results(plans: Sequence[ResultPlan], fakes: Sequence[Any]) -> dict[str, tuple[int, int]]:
    """Where the symbols come from that views for the caller have in their sizes."""
    wanted = {
        symbol
        for plan in plans
        if plan.strided is not None
        for size in (*plan.strided[0], *plan.strided[1], plan.strided[2])
        for symbol in _symbols_of(size)
    }
    found: dict[Any, tuple[int, int]] = {}
    for place, fake in enumerate(fakes):
        sizes = list(enumerate(fake.shape)) if isinstance(fake, torch.Tensor) else [(-1, fake)]
        for dim, size in sizes:
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                found.setdefault(size.node.expr, (place, dim))
    if wanted - set(found):
        raise UnsupportedError("results that share memory have sizes that no input gives")
    return {str(symbol): found[symbol] for symbol in sorted(wanted, key=str)}


def _fix_strides(fakes: Sequence[Any]) -> None:
    """Makes numbers of strides that no sizes say, which become a guard of Dynamo's."""
    known = _symbols_of_sizes(fakes)
    for fake in fakes:
        for stride in fake.stride() if isinstance(fake, torch.Tensor) else ():
            if _symbols_of(stride) - known:
                int(stride)


def _fix_floats(fakes: Sequence[Any]) -> None:
    """Makes constants of float inputs, which are on the host, where the others are elsewhere."""
    tensors = [fake for fake in fakes if isinstance(fake, torch.Tensor)]
    floats = [fake for fake in tensors if isinstance(getattr(fake, "item_memo", None), torch.SymFloat)]
    if len({fake.device.type for fake in tensors}) > 1:
        for fake in floats:
            float(fake.item_memo)


def _numbers(names: Sequence[str], fakes: Sequence[Any]) -> dict[str, int]:
    """Numbers among the inputs that are no sizes: an extra input of that size brings each; a negative one becomes a constant."""
    known = _symbols_of_sizes(fakes)
    found: dict[str, int] = {}
    for place, (name, fake) in enumerate(zip(names, fakes, strict=True)):
        if not _symbols_of(fake) - known:
            continue
        if fake >= 0:
            found[f"{name}_extent"] = place
            known |= _symbols_of(fake)
        else:
            int(fake)
    return found


def _specialized(mode: FakeTensorMode, fakes: Sequence[Any]) -> list[Any] | None:
    """The inputs with numbers in place of all that have names, which become guards of Dynamo's; None where there are none."""
    made: list[Any] = []
    floats = [number for fake in fakes if isinstance(number := getattr(fake, "item_memo", None), torch.SymFloat)]
    named = [number for number in floats if number.node.expr.free_symbols]
    for number in named:
        float(number)
    for fake in fakes:
        sizes = (*fake.shape, *fake.stride()) if isinstance(fake, torch.Tensor) else (fake,)
        is_named = (
            fake._has_symbolic_sizes_strides if isinstance(fake, torch.Tensor) else isinstance(fake, torch.SymInt)
        )
        if not is_named:
            made.append(fake)
            continue
        if any(isinstance(size, torch.SymInt) and size.node.hint is None for size in sizes):
            return None
        numbers = [int(size) for size in sizes]
        if not isinstance(fake, torch.Tensor):
            made += numbers
            continue
        with mode:
            made.append(
                torch.empty_strided(numbers[: fake.dim()], numbers[fake.dim() :], dtype=fake.dtype, device=fake.device)
            )
    return made if named or any(new is not fake for new, fake in zip(made, fakes, strict=True)) else None
