# SPDX-License-Identifier: Apache-2.0
"""A graph of ATen ops with fake values, and what its inputs and results are, becomes builder calls."""

from __future__ import annotations

import inspect
import itertools
import math
import operator
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ConstantArgument,
    InputKind,
    OutputKind,
    SymIntArgument,
    TensorArgument,
)
from torch.export.graph_signature import (
    InputSpec as ExportInput,
)
from torch.export.graph_signature import (
    OutputSpec as ExportOutput,
)
from torch.fx import GraphModule, Node
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.utils import _pytree as pytree

from straightline.capture.builder import Builder, Dense, Extent, FrameworkRule, Location, Result, SizeAdvice, TensorType
from straightline.capture.captured import Captured, InputSpec, OutputSpec, SymbolSpec, TiedResult
from straightline.capture.extents import DEFAULT_MAX
from straightline.capture.graph_builder import Reject, Tensor
from straightline.capture.target_facts import facts_of
from straightline.capture.text_builder import TextBuilder
from straightline.capture.torch import (  # noqa: F401  (the families register their converters)
    aten_control,
    aten_convolution,
    aten_data_sizes,
    aten_diagonals,
    aten_elementwise,
    aten_factories,
    aten_fft,
    aten_indexing,
    aten_linalg,
    aten_linear,
    aten_loops,
    aten_order,
    aten_patches,
    aten_pools,
    aten_quantized,
    aten_reduction,
    aten_resize,
    aten_sampling,
    aten_shape,
    aten_special,
    aten_volumes,
)
from straightline.capture.torch.aten_reduction import OF_SOME_ELEMENT
from straightline.capture.torch.aten_tail import convert_tail
from straightline.capture.torch.data_sizes import DataSizes, check_truth
from straightline.capture.torch.fixed_values import host_value
from straightline.capture.torch.functional import ValueGraph, storage_key, value_graph
from straightline.capture.torch.importer import (
    MAX_LITERAL_ELEMENTS,
    Complex,
    Importer,
    bytes_of,
    location_of,
    nested_attribute,
    raise_if_unsupported,
)
from straightline.capture.torch.model_check import check_tensor
from straightline.capture.torch.size_guards import multiples, size_guards
from straightline.capture.torch.size_relations import equal_symbols, least_sizes
from straightline.capture.torch.symbolic_sizes import ExtentPrinter
from straightline.errors import InternalError, PlaceError, UnsupportedError

#: In messages about the sizes of inputs.
_ADVICE = SizeAdvice(
    fixed="pass an example of this size to sl.compile, or mark the dim with torch.export.Dim",
    bounds="pass an example of this size or a torch.export.Dim",
)
_TIES = {
    OutputKind.BUFFER_MUTATION: "state",
    OutputKind.PARAMETER_MUTATION: "state",
    OutputKind.USER_INPUT_MUTATION: "input",
}


#: How the caller knows an argument that the graph overwrites.
_MUTATIONS = {
    InputKind.BUFFER: OutputKind.BUFFER_MUTATION,
    InputKind.PARAMETER: OutputKind.PARAMETER_MUTATION,
    InputKind.USER_INPUT: OutputKind.USER_INPUT_MUTATION,
}


@dataclass(frozen=True)
class Source:
    """A graph of values with what its inputs and results are, whoever made it."""

    values: ValueGraph
    inputs: Sequence[ExportInput]
    outputs: Sequence[ExportOutput]
    #: Parameters and buffers by name, as the model's state dict has them, and other tensors that it holds.
    state: Mapping[str, Any]
    constants: Mapping[str, Any]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec
    #: Bounds of symbols, by torch's names.
    ranges: Mapping[str, Any] = field(default_factory=dict)
    #: Names of buffers that no state dict has.
    non_persistent: Sequence[str] = ()
    argument_names: Sequence[str] = ()
    #: Whether an input may be a size of others.
    takes_numbers: bool = False
    #: Placeholders of parameters.
    kept: frozenset[str] = frozenset()
    #: Conditions on sizes, as torch.export writes them, that each call checks.
    guards: Sequence[str] = ()

    def tensor(self, name: str) -> Any:
        """A parameter, buffer or constant."""
        return self.state[name] if name in self.state else self.constants[name]


def source_of(exported: ExportedProgram, values: ValueGraph) -> Source:
    """An exported program, whose graph was made one of values."""
    signature = exported.graph_signature
    call = exported.module_call_graph[0].signature
    return Source(
        values=values,
        inputs=signature.input_specs,
        outputs=[*_updates(values, signature.input_specs), *signature.output_specs],
        state=exported.state_dict,
        constants=exported.constants,
        in_spec=exported.call_spec.in_spec,
        out_spec=exported.call_spec.out_spec,
        ranges={str(symbol): bounds for symbol, bounds in exported.range_constraints.items()},
        non_persistent=signature.non_persistent_buffers,
        argument_names=list(call.forward_arg_names or []) if call is not None else [],
    )


def source_of_graph(
    module: GraphModule,
    inputs: Sequence[Any] | None = None,
    parameters: Mapping[str, tuple[str, torch.Tensor]] = {},
) -> Source:
    """A graph of ATen ops that make_fx, AOTAutograd or Dynamo gave.

    Its tensor attributes are parameters, or states where it overwrites them. An input may be a number: a fixed one, or a size
    of a tensor input.

    Args:
        module: Its nodes have fake tensors in `meta["val"]`, or get them from `inputs`.
        inputs: Fake tensors and numbers, one for each placeholder.
        parameters: By placeholder, the names and tensors of those that are parameters where the graph does not overwrite them.
    """
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    if inputs is not None and any("val" not in node.meta for node in module.graph.nodes if node.op != "output"):
        FakeTensorProp(module, detect_fake_mode(list(inputs))).propagate_dont_convert_inputs(*inputs)
    values = value_graph(module)
    kept = {name: of for name, of in parameters.items() if name not in values.updates and name not in values.placed}
    given = [
        ExportInput(InputKind.PARAMETER, TensorArgument(node.name), kept[node.name][0])
        if node.name in kept
        else ExportInput(InputKind.USER_INPUT, _argument(node, node.meta["val"]), None)
        for node in placeholders
    ]
    output = next(node for node in module.graph.nodes if node.op == "output")
    results, out_spec = pytree.tree_flatten(_plain(output.args[0]))
    users = [
        ExportOutput(
            OutputKind.USER_OUTPUT, _argument(node, node.meta.get("val") if isinstance(node, Node) else node), None
        )
        for node in results
    ]
    attributes = {
        node.target: nested_attribute(module, node.target) for node in module.graph.nodes if node.op == "get_attr"
    }
    held = {name: value for name, value in attributes.items() if isinstance(value, torch.Tensor)}
    return Source(
        values=values,
        inputs=given,
        outputs=[*_updates(values, given), *users],
        state=held | dict(kept.values()),
        constants={},
        in_spec=pytree.tree_structure((tuple(range(len(given) - len(kept))), {})),
        kept=frozenset(kept),
        out_spec=out_spec,
        ranges=_ranges(node.meta["val"] for node in placeholders),
        takes_numbers=True,
    )


def _plain(tree: Any) -> Any:
    """The lists and dicts of an FX graph, which are types of its own, as Python's."""
    if isinstance(tree, list):
        return [_plain(item) for item in tree]
    if isinstance(tree, dict):
        return {key: _plain(item) for key, item in tree.items()}
    return tuple(_plain(item) for item in tree) if type(tree) is tuple else tree


def _argument(node: Any, value: Any) -> TensorArgument | SymIntArgument | ConstantArgument:
    if isinstance(value, torch.Tensor):
        return TensorArgument(node.name)
    if isinstance(value, torch.SymInt):
        return SymIntArgument(node.name)
    return ConstantArgument(node.name if isinstance(node, Node) else "", value)


def _ranges(values: Iterable[Any]) -> dict[str, Any]:
    """Bounds of the symbols in the sizes of tensors."""
    mode = detect_fake_mode(list(values))
    shape_env = mode.shape_env if mode is not None else None
    return {} if shape_env is None else {str(symbol): bounds for symbol, bounds in shape_env.var_to_range.items()}


def import_graph(
    module: GraphModule,
    inputs: Sequence[Any] | None = None,
    builder: Builder | None = None,
    allows_aten: bool = True,
    target: str = "",
    to_aten: FrameworkRule | None = None,
) -> Captured:
    """Imports a graph of ATen ops as `source_of_graph` takes it; other arguments and errors are those of `capture`."""
    source = source_of_graph(module, inputs)
    examples = tuple(inputs or [node.meta["val"] for node in module.graph.nodes if node.op == "placeholder"])
    imported = GraphImport(source, builder or TextBuilder(), examples, {}, None, inspect.Signature())
    return imported.run(allows_aten, target, to_aten)


def _updates(values: ValueGraph, inputs: Sequence[ExportInput]) -> list[ExportOutput]:
    """Results for the arguments of the graph that it overwrites, in the order in which the graph gives them."""
    specs = {spec.arg.name: spec for spec in inputs}
    updates = []
    for name, node in values.updates.items():
        spec = specs.get(name)
        if spec is None:  # an attribute
            updates.append(ExportOutput(OutputKind.BUFFER_MUTATION, TensorArgument(node.name), name))
            continue
        if spec.kind not in _MUTATIONS:
            raise UnsupportedError(
                f"{spec.target or name}, a tensor that is no parameter or buffer, is overwritten; "
                "nearest supported form: register_buffer"
            )
        target = name if spec.kind == InputKind.USER_INPUT else spec.target
        updates.append(ExportOutput(_MUTATIONS[spec.kind], TensorArgument(node.name), target))
    return updates


class GraphImport:
    """One import: signature, parameters, nodes, results."""

    def __init__(
        self,
        source: Source,
        builder: Builder,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        dynamic_shapes: Any,
        forward: inspect.Signature,
    ) -> None:
        self._forward = forward
        self._source = source
        self._graph = source.values.graph
        self._builder = builder
        self._args, self._kwargs = tuple(args), dict(kwargs)
        self._dynamic_shapes = dynamic_shapes
        self._nodes = {n.name: n for n in self._graph.nodes if n.op == "placeholder"}
        self._parameters: dict[str, torch.Tensor] = {}
        self._aliases: dict[str, str] = {}
        self._states: list[str] = []
        self._by_storage: dict[tuple[Any, ...], Tensor] = {}
        self._name_by_storage: dict[tuple[Any, ...], str] = {}

    def run(self, allows_aten: bool, target: str, to_aten: FrameworkRule | None) -> Captured:
        """Makes all builder calls and returns the description of the result."""
        source, self._target = self._source, target
        symbols = self._symbols()
        names = {torch_name: spec.name for torch_name, spec in symbols.items()}
        for torch_name, count in self._multiples().items():
            spec = symbols[torch_name]
            for other in [key for key, each in symbols.items() if each.name == spec.name]:
                symbols[other] = SymbolSpec(spec.name, -(-spec.min // count), spec.max // count)
                names[other] = str(Extent(spec.name) * count)
        data_sizes = DataSizes(names, symbols.values(), source.ranges, self._graph.nodes, self._sizes_above_zero())
        self._ctx = Importer(
            self._builder,
            extents=ExtentPrinter(names, symbols.values()),
            data_sizes=data_sizes,
            convert_tail=convert_tail,
            allows_aten=allows_aten,
            target=facts_of(target),
            to_aten=to_aten,
        )
        declared = list({spec.name: spec for spec in symbols.values()}.values())
        for spec in declared:
            self._builder.symbol(spec.name, spec.min, spec.max)
        inputs = self._inputs()
        self._begin(inputs)
        self._check_sizes(symbols.values())
        self._load_parameters()
        for node in self._graph.nodes:
            if node.op == "call_function":
                self._ctx.run_node(node)
            elif node.op == "get_attr" and node not in self._ctx.environment:
                self._ctx.environment[node] = self._ctx.attribute(source.values.attribute(node.target), node.target)
        raise_if_unsupported(self._ctx.unsupported, self._ctx.following)
        outputs, results = self._outputs()
        tied = self._tied(results)
        self._builder.end_function(results)
        return Captured(
            builder=self._builder,
            parameters=self._parameters,
            tensors=self._tensors(),
            persistent=list(source.state),
            states=self._states,
            aliases=self._aliases,
            symbols=[*declared, *data_sizes.computed],
            inputs=inputs,
            outputs=outputs,
            tied=tied,
            in_spec=source.in_spec,
            out_spec=source.out_spec,
            argument_names=list(source.argument_names)[: len(self._args)],
            keyword_names=list(self._kwargs),
        )

    # Signature

    def _user_inputs(self) -> list[ExportInput]:
        return [s for s in self._source.inputs if s.kind == InputKind.USER_INPUT]

    def _symbols(self) -> dict[str, SymbolSpec]:
        """Symbols of the inputs' sizes: torch's name -> ours, in order of appearance."""
        names: dict[str, str] = {}
        given = self._given_names()
        spare = (name for n in itertools.count() if (name := f"s{n}") not in given.values())
        for spec in self._user_inputs():
            fake = self._nodes[spec.arg.name].meta.get("val")
            if not isinstance(fake, torch.Tensor):
                continue
            for dim, size in enumerate(fake.shape):
                if not isinstance(size, torch.SymInt):
                    continue
                for symbol in sorted(size.node.expr.free_symbols, key=str):
                    whole = size.node.expr.is_Symbol
                    name = given.get((spec.arg.name, dim)) if whole else None
                    if str(symbol) not in names or (name and names[str(symbol)] not in given.values()):
                        names[str(symbol)] = name or next(spare)
        ranges = self._source.ranges
        full = self._sizes_above_zero()
        specs = {key: self._symbol_spec(name, ranges.get(key), key in full) for key, name in names.items()}
        equal = {one: other for one, other in equal_symbols(self._graph.nodes).items() if {one, other} <= specs.keys()}
        for one, other in equal.items():
            name = names[one] if names[one] in given.values() else specs[other].name
            both = specs[one], specs[other]
            specs[other] = SymbolSpec(name, max(spec.min for spec in both), min(spec.max for spec in both))
        specs |= {one: specs[other] for one, other in equal.items()}
        for size, least in least_sizes(self._graph.nodes):
            spec = specs.get(str(size.node.expr))
            if spec is not None and spec.min < least:
                raised = SymbolSpec(spec.name, least, max(least, spec.max))
                specs |= {key: raised for key, each in specs.items() if each.name == spec.name}
        return specs

    def _sizes_above_zero(self) -> set[str]:
        """Symbols, by torch's names, that must not be 0: a largest or smallest element is taken over them."""
        found: set[str] = set()
        for node in itertools.chain.from_iterable(graph.nodes for graph in self._source.values.graphs()):
            if str(node.target) not in OF_SOME_ELEMENT:
                continue
            sizes = node.args[0].meta["val"].shape
            dims = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
            dims = [] if dims is None else dims if isinstance(dims, (list, tuple)) else [dims]
            for size in [sizes[dim] for dim in dims if sizes] or sizes:
                expression = size.node.expr if isinstance(size, torch.SymInt) else None
                if expression is not None and (expression.is_Symbol or expression.is_Mul):
                    found |= {str(symbol) for symbol in expression.free_symbols}
        return found

    def _symbol_spec(self, name: str, bounds: Any, above_zero: bool) -> SymbolSpec:
        low = int(bounds.lower) if bounds is not None and bounds.lower.is_Integer else 0
        low = max(low, int(above_zero))
        high = int(bounds.upper) if bounds is not None and bounds.upper.is_Integer else DEFAULT_MAX
        return SymbolSpec(name, max(low, 0), min(high, DEFAULT_MAX))

    def _given_names(self) -> dict[tuple[str, int], str]:
        """(placeholder, dimension) -> name of the `Dim` that the user gave it."""
        if self._dynamic_shapes is None:
            return {}
        flat = self._flat_dynamic_shapes()
        given: dict[tuple[str, int], str] = {}
        for spec, shape in zip(self._user_inputs(), flat):
            items = shape.items() if isinstance(shape, Mapping) else enumerate(shape or ())
            for dim, entry in items:
                name = getattr(entry, "__name__", None)
                if isinstance(name, str) and not isinstance(entry, int):
                    given[(spec.arg.name, dim)] = name
        return given

    def _flat_dynamic_shapes(self) -> list[Any]:
        """The user's shapes, one entry per flattened input; None where it gave none."""
        bound = self._forward.bind(*self._args, **self._kwargs).arguments
        shapes = self._dynamic_shapes
        if not isinstance(shapes, Mapping):
            shapes = dict(zip(bound, shapes))
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for parameter in self._forward.parameters.values():
            if parameter.kind == inspect.Parameter.VAR_KEYWORD:
                named |= shapes.get(parameter.name) or shapes
            elif parameter.kind == inspect.Parameter.VAR_POSITIONAL:
                positional += list(shapes.get(parameter.name) or ())
            else:
                named[parameter.name] = shapes.get(parameter.name)
                positional.append(shapes.get(parameter.name))
        positional += [None] * (len(self._args) - len(positional))
        flat = [list(_leaf_shapes(v, shape)) for v, shape in zip(self._args, positional)]
        flat += [list(_leaf_shapes(v, named.get(name))) for name, v in self._kwargs.items()]
        return [shape for part in flat for shape in part]

    def _inputs(self) -> list[InputSpec]:
        leaves = pytree.tree_leaves((self._args, self._kwargs), is_leaf=lambda x: x is None)
        specs = self._user_inputs()
        if len(leaves) != len(specs):
            leaves = [None] * len(specs)
        shown = self._names_of_arguments(len(specs))
        if others := sorted(self._source.values.placed - {spec.arg.name for spec in specs}):
            raise UnsupportedError(
                f"as_strided with a storage_offset of {', '.join(others)}, which may be replaced: its place is not known"
            )
        inputs: list[InputSpec] = []
        arguments = 0
        for spec, leaf, name in zip(specs, leaves, shown or [spec.arg.name for spec in specs]):
            if isinstance(spec.arg, ConstantArgument):
                inputs.append(InputSpec(spec.arg.name, constant=spec.arg.value))
                continue
            if not isinstance(spec.arg, TensorArgument):
                inputs.append(self._number_input(spec.arg.name, name))
                continue
            inputs.append(self._tensor_input(spec.arg.name, leaf, arguments, name))
            arguments += 1
        return inputs

    def _names_of_arguments(self, count: int) -> list[str]:
        """What the user calls the leaves of the example inputs ("a[0]"); empty where these do not say it."""
        names = list(self._source.argument_names)
        kinds = {parameter.name: parameter.kind for parameter in self._forward.parameters.values()}
        if kinds:  # it knows of *args
            names = [name for name, kind in kinds.items() if kind <= inspect.Parameter.POSITIONAL_OR_KEYWORD]
            rest = [name for name, kind in kinds.items() if kind == inspect.Parameter.VAR_POSITIONAL]
            names += [f"{name}[{i}]" for name in rest for i in range(len(self._args) - len(names))]
        found: list[str] = []
        for name, value in (*zip(names, self._args), *self._kwargs.items()):
            paths, _ = pytree.tree_flatten_with_path(value, is_leaf=lambda x: x is None)
            found += [f"{name}{pytree.keystr(path)}" for path, _ in paths]
        return found if len(found) == count else []

    def _number_input(self, name: str, shown: str) -> InputSpec:
        """An input that is a size of others, which say it as well, or that nothing reads."""
        if self._source.takes_numbers and not self._nodes[name].users:
            return InputSpec(name)
        try:
            if self._source.takes_numbers:
                return InputSpec(name, extent=self._ctx.extents.dim(self._nodes[name].meta["val"]))
        except UnsupportedError:
            pass
        raise UnsupportedError(f"input '{shown}' is a dynamic number: pass a constant or a tensor")

    def _tensor_input(self, name: str, leaf: Any, argument: int, shown: str) -> InputSpec:
        fake = self._nodes[name].meta["val"]
        example = leaf if isinstance(leaf, torch.Tensor) else None
        real, of_parts = (2, (1,)) if fake.is_complex() else (1, ())
        try:
            return InputSpec(
                name=name,
                type=self._ctx.parts_type(fake),
                argument=argument,
                dtype=fake.dtype,
                strides=(*(self._ctx.extents.dim(stride) * real for stride in fake.stride()), *of_parts),
                example_shape=(*_concrete(example.shape), *(real for _ in of_parts)) if example is not None else (),
                example_strides=(*(s * real for s in _concrete(example.stride())), *of_parts)
                if example is not None
                else (),
                storage_offset=int(fake.storage_offset()) if name in self._source.values.placed else None,
            )
        except Reject as refusal:
            raise UnsupportedError(f"input '{shown}': {refusal}") from refusal

    def _multiples(self) -> dict[str, int]:
        """Symbols, by torch's names, of sizes that must be multiples of a number, so that types say it."""
        found: dict[str, int] = {}
        for name, dim, count in multiples(self._source.guards):
            node = self._named_inputs().get(name)
            fake = node.meta.get("val") if node is not None else None
            size = fake.shape[dim] if isinstance(fake, torch.Tensor) else None
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                found[str(size.node.expr)] = math.lcm(count, found.get(str(size.node.expr), 1))
        return found

    def _named_inputs(self) -> dict[str, Node]:
        """Placeholders of the user's inputs, by the user's names."""
        specs = self._user_inputs()
        names = self._names_of_arguments(len(specs)) or [spec.arg.name for spec in specs]
        found = {name: self._nodes[spec.arg.name] for name, spec in zip(names, specs) if spec.arg.name in self._nodes}
        if not self._forward.parameters:  # an exported program calls the leaves of *args "args_0", its guards "args[0]"
            for name, node in list(found.items()):
                part = re.fullmatch(r"(\w+)_(\d+)(\W.*)?", name)
                if part is not None:
                    found.setdefault(f"{part[1]}[{part[2]}]{part[3] or ''}", node)
        return found

    def _check_sizes(self, symbols: Iterable[SymbolSpec]) -> None:
        """Checks in each call, before all else, what torch.export found of sizes and what no type or bound says."""
        if not self._source.guards:
            return
        shapes = {
            name: [self._ctx.extents.dim(size) for size in fake.shape]
            for name, node in self._named_inputs().items()
            if isinstance(fake := node.meta.get("val"), torch.Tensor)
        }
        guards = size_guards(self._source.guards, shapes, {spec.name: (spec.min, spec.max) for spec in symbols})
        for guard in guards:
            check_truth(self._ctx, guard.truth, f"{guard.words}: {guard.names}")

    def _begin(self, inputs: Sequence[InputSpec]) -> None:
        tensors = [(spec.name, _with_layout(spec)) for spec in inputs if spec.type is not None]
        self._builder.advise(_ADVICE)
        values = self._builder.begin_function("forward", tensors)
        dtypes = {spec.name: spec.dtype for spec in inputs}
        arguments = {name: _as_captured(Tensor(v, t), dtypes[name]) for (name, t), v in zip(tensors, values)}
        for spec in inputs:
            node = self._nodes[spec.name]
            constant = spec.constant if spec.extent is None else spec.extent
            self._ctx.environment[node] = arguments.get(spec.name, constant)

    # Parameters

    def _load_parameters(self) -> None:
        """Binds parameters, buffers and lifted constants; a buffer that is overwritten is a state."""
        mutated = {spec.target for spec in self._source.outputs if _TIES.get(spec.kind) == "state"}
        kinds = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
        specs = [s for s in self._source.inputs if s.kind in kinds]
        known = (*kinds, InputKind.USER_INPUT, InputKind.TOKEN)
        for spec in self._source.inputs:
            if spec.kind not in known:
                self._refuse_input(spec)
            if spec.kind == InputKind.TOKEN:  # orders side effects, and each op that has one is refused by itself
                self._ctx.environment[self._nodes[spec.arg.name]] = None
        tensors = {s.target: self._tensor_of(s) for s in specs}
        attributes = [node for node in self._graph.nodes if node.op == "get_attr" and node.target in self._source.state]
        tensors |= {node.target: self._source.state[node.target] for node in attributes}
        state_storages = {storage_key(tensors[name]) for name in mutated}
        for spec in specs:
            tensor = tensors[spec.target]
            node = self._nodes[spec.arg.name]
            if node.users or storage_key(tensor) in state_storages:
                is_literal = spec.kind == InputKind.CONSTANT_TENSOR and spec.target.startswith("lifted_tensor_")
                self._ctx.environment[node] = self._bind(spec.target, tensor, state_storages, is_literal)
        for node in attributes:
            tensor = tensors[node.target]
            is_literal = not isinstance(tensor, torch.nn.Parameter)
            self._ctx.environment[node] = self._bind(node.target, tensor, state_storages, is_literal)

    def _refuse_input(self, spec: ExportInput) -> None:
        """Raises for an object that is no tensor and that export has made an input of."""
        reader = next(iter(self._nodes[spec.arg.name].users), None)
        place = f" at {location_of(reader)}" if reader is not None else ""
        held = self._source.constants.get(spec.target)
        if isinstance(held, torch.Generator):
            raise UnsupportedError(
                f"the model draws random numbers from a torch.Generator{place}, whose state a program does not have; "
                "nearest supported form: torch's default generator, seeded before the call"
            )
        what = spec.kind.name.lower().replace("_", " ")
        kind = f", a {type(held).__name__}" if held is not None else ""
        raise UnsupportedError(f"the model uses a {what} ({spec.target}{kind}){place}")

    def _tensors(self) -> dict[str, torch.Tensor]:
        """The state dict, and the buffers that torch keeps among the constants because no state dict has them."""
        state, constants = self._source.state, self._source.constants
        buffers = {name: constants[name] for name in self._source.non_persistent if name in constants}
        return {name: t for name, t in {**state, **buffers}.items() if isinstance(t, torch.Tensor)}

    def _tensor_of(self, spec: ExportInput) -> torch.Tensor:
        tensor = self._source.tensor(str(spec.target))
        check_tensor(tensor, f"parameter {spec.target}")
        if spec.kind != InputKind.CONSTANT_TENSOR:
            return tensor
        # torch.export leaves constants on the host that the model moves in each call: moved here, once.
        others = (s.arg.name for s in self._source.inputs if s.kind != InputKind.CONSTANT_TENSOR)
        homes = {_device_of(self._nodes[name]) for name in others} - {None}
        return tensor.to(homes.pop()) if len(homes) == 1 else tensor

    def _bind(self, name: str, tensor: torch.Tensor, states: Container[Any], is_literal: bool) -> Tensor:
        if tensor.is_complex():
            real = torch.view_as_real(tensor)
            of_parts = {storage_key(real)} if storage_key(tensor) in states else set()
            bound = self._bind(name, real, of_parts, is_literal)
            if name in self._parameters:
                self._parameters[name] = tensor
            return _as_captured(bound, tensor.dtype)
        try:
            type = self._ctx.type_of(tensor)
        except Reject as refusal:
            raise UnsupportedError(f"parameter {name}: {refusal}") from refusal
        self._ctx.location = Location(name.rpartition(".")[0])
        key = storage_key(tensor)
        if is_literal and key not in states and tensor.numel() <= MAX_LITERAL_ELEMENTS:
            return self._ctx.constant(Dense(type, bytes_of(tensor)))
        if key in self._by_storage and tensor.numel():
            if name != self._name_by_storage[key]:
                self._aliases[name] = self._name_by_storage[key]
            return self._by_storage[key]
        self._parameters[name] = tensor
        if key in states:
            self._states.append(name)
        strides = None if tensor.is_contiguous() else tensor.stride()
        result = self._ctx.parameter(name, type, strides, "state" if key in states else "parameter")
        self._by_storage[key], self._name_by_storage[key] = result, name
        return result

    # Results

    def _outputs(self) -> tuple[list[OutputSpec], list[Result]]:
        outputs: list[OutputSpec] = []
        results: list[Result] = []
        places: dict[tuple[int, str | None], int] = {}  # identity of a builder value, what it aliases -> its result
        copies: dict[int, Tensor] = {}  # identity of a builder value -> its copy
        nodes, values = self._output_nodes(), self._output_values()
        constants = {spec.arg.name for spec in self._source.inputs if spec.kind == InputKind.CONSTANT_TENSOR}
        placeholders = (node for node in self._graph.nodes if node.op == "placeholder" and node.name not in constants)
        home = set(map(_device_of, placeholders)) - {None}
        if not home and self._target:  # no tensors say where it runs
            home = {torch.device(self._target.partition(":")[0])}
        written = {node: self._tie(spec) for node, spec in zip(nodes, self._source.outputs) if spec.kind in _TIES}
        for node, spec, value in zip(nodes, self._source.outputs, values):
            if spec.kind != OutputKind.USER_OUTPUT:
                continue
            if isinstance(spec.arg, ConstantArgument):
                outputs.append(OutputSpec(constant=spec.arg.value))
            elif isinstance(value, Tensor):
                if _is_elsewhere(home, node):
                    outputs.append(OutputSpec(constant=self._constant_of_host(home, node, spec.arg.name)))
                    continue
                if _is_of_copied_view(node):
                    if id(value) not in copies:
                        copy = self._ctx.emit_one("clone", [value], value.type)
                        dtype = value.complex_dtype if isinstance(value, Complex) else None
                        copies[id(value)] = _as_captured(copy, dtype)
                    value = copies[id(value)]
                alias = next((written[whole] for whole in _viewed(node) if whole in written), None)
                if (id(value), alias) not in places:
                    places[id(value), alias] = len(results)
                    tie = None if alias is None else f"alias:{alias}"
                    results.append(Result(value.value, _unused(spec.arg.name, results), tie))
                outputs.append(OutputSpec(result=places[id(value), alias], is_complex=isinstance(value, Complex)))
            elif isinstance(spec.arg, SymIntArgument) or isinstance(value, (int, float, Extent)):
                is_extent = isinstance(value, Extent)
                self._ctx.data_sizes.refuse_unbounded([value])
                outputs.append(OutputSpec(extent=value) if is_extent else OutputSpec(constant=value))
            else:
                raise InternalError(f"output {spec.arg} has value {value!r}")
        return outputs, results

    def _constant_of_host(self, home: set[Any], node: Any, name: str) -> torch.Tensor:
        """The value of a result that is not where the program runs and that no call changes; raises `PlaceError` for others."""
        device = _device_of(node)
        value = host_value(node, self._constant)
        if value is None:
            raise PlaceError(
                f"output {name} is on {device} but the program runs on {next(iter(home))}, as its inputs and parameters "
                "say: a program's results are where it runs; move this one behind the call",
                device,
            )
        return value

    def _constant(self, node: Any) -> torch.Tensor | None:
        """The tensor that a leaf of the graph holds in each call; None for inputs and parameters."""
        if node.op == "get_attr":
            return self._source.values.attribute(node.target)
        targets = (
            s.target for s in self._source.inputs if s.kind == InputKind.CONSTANT_TENSOR and s.arg.name == node.name
        )
        return self._source.constants.get(next(targets, None))

    def _output_nodes(self) -> list[Any]:
        return pytree.tree_leaves(next(n for n in self._graph.nodes if n.op == "output").args[0])

    def _output_values(self) -> list[Any]:
        return [self._ctx.argument(value) for value in self._output_nodes()]

    def _tie(self, spec: Any) -> str:
        """What a result overwrites, as `Result.tie` has it."""
        name = str(spec.target)
        return f"{_TIES[spec.kind]}:{self._aliases.get(name, name)}"

    def _tied(self, results: list[Result]) -> list[TiedResult]:
        tied: list[TiedResult] = []
        for spec, value in zip(self._source.outputs, self._output_values()):
            if spec.kind in (OutputKind.USER_OUTPUT, OutputKind.TOKEN):
                continue
            if spec.kind not in _TIES:
                raise UnsupportedError(f"model has a {spec.kind.name.lower()} output ({spec.target})")
            tie = self._tie(spec)
            tied.append(TiedResult(len(results), tie))
            # A value that is also a result for the user comes twice, under two names.
            results.append(Result(value.value, _unused(spec.arg.name, results), tie))
        return tied


def _as_captured(value: Tensor, dtype: Any) -> Tensor:
    """A value whose dtype in the model is `dtype`."""
    return Complex(value.value, value.type, dtype) if dtype is not None and dtype.is_complex else value


def _unused(name: str, results: Sequence[Result]) -> str:
    """`name`, made different from the names of `results`."""
    taken = {result.name for result in results}
    while name in taken:
        name += "_tied"
    return name


def _device_of(node: Any) -> Any:
    """Returns the device of a node's tensor; None if it has none."""
    return getattr(node.meta.get("val"), "device", None)


def _is_elsewhere(home: set[Any], node: Any) -> bool:
    """Whether a result is not where all inputs and parameters (`home`) are."""
    device = _device_of(node)
    kinds = {one.type for one in home if one.index is None}  # of any number
    return len(home) == 1 and device is not None and device not in home and device.type not in kinds


def _viewed(node: Any) -> Iterator[Any]:
    """The node, what it is a view of by an op whose schema says so, what that is a view of, and so on."""
    yield node
    while isinstance(node, torch.fx.Node) and node.op == "call_function":
        if node.target is not operator.getitem:
            schema = getattr(node.target, "_schema", None)
            alias = schema.returns[0].alias_info if schema and schema.returns else None
            if alias is None or alias.is_write:
                return
        node = node.args[0]
        yield node


def _is_of_copied_view(node: Any) -> bool:
    """Whether a result is (a view of) what `permute_copy` or the like gives, whose op of ours is the view."""
    *_, root = _viewed(node)
    name = getattr(getattr(root, "target", None), "_opname", "")
    return name.endswith("_copy") and name not in ("_to_copy", "lift_fresh_copy")


def _leaf_shapes(value: Any, shape: Any) -> Iterator[Any]:
    """The dynamic-shape entry of each leaf of one argument."""
    if isinstance(value, torch.Tensor):
        yield shape
        return
    children, spec = pytree.tree_flatten(value, is_leaf=lambda node: node is not value)
    if spec.is_leaf():
        yield None
        return
    if isinstance(value, Mapping):
        parts = [shape.get(key) if isinstance(shape, Mapping) else None for key in value]
    else:
        parts = list(shape) if isinstance(shape, (list, tuple)) else [None] * len(children)
    for child, part in zip(children, parts):
        yield from _leaf_shapes(child, part)


def _concrete(sizes: Sequence[Any]) -> tuple[int, ...]:
    """Sizes of an example, which may be a fake tensor; where nothing is known of a size, some number."""
    return tuple(size if isinstance(size, int) else _example(size.node) for size in sizes)


def _example(size: Any) -> int:
    unknown = size.hint is None
    return int(size.expr.xreplace(dict.fromkeys(size.expr.free_symbols, 7)) if unknown else size.hint)


def _with_layout(spec: InputSpec) -> TensorType:
    """The input's type, with its strides when the example is not row-major."""
    expected = 1
    for size, stride in zip(reversed(spec.example_shape), reversed(spec.example_strides)):
        if size != 1 and stride != expected:
            break
        expected *= size
    else:
        return spec.type
    if 0 in spec.example_shape:
        return spec.type
    return replace(spec.type, strides=spec.strides)
