# SPDX-License-Identifier: Apache-2.0
"""The torch front end: a module, a function or an ExportedProgram becomes builder calls."""

from __future__ import annotations

import functools
import inspect
import itertools
import logging
import operator
import os
import threading
import traceback
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch.export import ExportedProgram, _trace
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
from torch.fx.proxy import TracerBase
from torch.utils import _pytree as pytree

from straightline.capture.builder import Builder, Dense, Dims, Extent, Location, Result, TensorType
from straightline.capture.captured import (
    Captured,
    InputSpec,
    OutputSpec,
    SymbolSpec,
    TiedResult,
)
from straightline.capture.extents import DEFAULT_MAX
from straightline.capture.graph_builder import Reject, Tensor
from straightline.capture.text_builder import TextBuilder
from straightline.capture.torch import (  # noqa: F401  (the families register their converters)
    aten_control,
    aten_convolution,
    aten_elementwise,
    aten_indexing,
    aten_linear,
    aten_order,
    aten_quantized,
    aten_reduction,
    aten_shape,
)
from straightline.capture.torch.aten_reduction import OF_SOME_ELEMENT
from straightline.capture.torch.functional import (
    WITHOUT_READERS,
    Functional,
    is_write,
    past_dropouts,
    storage_key,
    without_writes,
)
from straightline.capture.torch.importer import TORCH_FOLDER, Complex, Importer, nested_attribute, raise_if_unsupported
from straightline.capture.torch.model_check import (
    check_dynamic_shapes,
    check_module,
    check_tensor,
)
from straightline.capture.torch.recurrent_layers import is_of_packed_sequences, sized_recurrent_layers
from straightline.capture.torch.symbolic_sizes import ExtentPrinter
from straightline.errors import InternalError, UnsupportedError, UserError

# Ops (or overloads) that torch would decompose and that the `op` dialect has whole, or that are as easily imported as what
# torch makes of them: a graph of nothing else is not traced once more.
_KEPT = frozenset(
    """linear matmul layer_norm group_norm rms_norm gelu silu softmax log_softmax scaled_dot_product_attention lstm gru
    rnn_tanh rnn_relu max_pool2d avg_pool2d adaptive_avg_pool2d hardswish hardsigmoid elu leaky_relu softplus
    floor_divide embedding masked_fill clamp_min clamp_max clamp relu6 hardtanh dropout feature_dropout
    alpha_dropout feature_alpha_dropout stack unbind split chunk max min rsub baddbmm mv dot upsample_bicubic2d
    im2col col2im roll trace conv1d.default conv2d.default conv_transpose1d.default conv_transpose2d.input transpose t squeeze
    zeros zeros_like new_zeros ones ones_like new_ones sum all arange index_copy.default index_add.default where""".split()
)  # fmt: skip

_TIES = {
    OutputKind.BUFFER_MUTATION: "state",
    OutputKind.PARAMETER_MUTATION: "state",
    OutputKind.USER_INPUT_MUTATION: "input",
}

# Lifted constants up to this size are literals of the graph, which can fold; larger ones are parameters.
_MAX_LITERAL_ELEMENTS = 64

#: torch.export keeps state of the export that goes on in globals, and so does `_plain_ops`: one thread at a time.
_exporting = threading.RLock()
os.register_at_fork(after_in_child=lambda: globals().update(_exporting=threading.RLock()))

Model = torch.nn.Module | ExportedProgram | Callable[..., Any]


def capture(
    model: Model,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    builder: Builder | None = None,
    allows_aten: bool = True,
    device: str = "cpu",
    to_aten: Mapping[str, str] | None = None,
) -> Captured:
    """Captures a model into `builder` calls.

    Args:
        model: a module, a plain function or lambda over tensors, or an exported program.
        args: example positional arguments; ignored for an exported program.
        kwargs: example keyword arguments.
        dynamic_shapes: as in `torch.export.export`; the names of its `Dim`s name the symbols.
        builder: receives the function; a `TextBuilder` when None.
        allows_aten: whether an op without a native form becomes a call through the framework.
        device: where the program runs, "cpu" or "cuda"; ops whose kernels there take fewer sizes go through the framework.
        to_aten: ops that are to go through the framework, each with who said so.

    Raises:
        UserError: the model is in training mode, or fails on the example inputs.
        UnsupportedError: lists every op that cannot be converted.
    """
    builder = TextBuilder() if builder is None else builder
    kwargs = dict(kwargs or {})
    with _exporting:
        if isinstance(model, ExportedProgram):
            exported, examples = model, model.example_inputs
            args, kwargs = examples if examples is not None else ((), {})
            dynamic_shapes, forward = None, inspect.Signature()
        else:
            module = _as_module(model)
            args, kwargs = _distinct((tuple(args), kwargs))
            forward = inspect.signature(module.forward)
            exported = _export(module, tuple(args), kwargs, dynamic_shapes)
        _refuse_hidden_guards(exported, dynamic_shapes)
        exported = _decompose(exported)
    return _Import(exported, builder, args, kwargs, dynamic_shapes, forward).run(allows_aten, device, to_aten or {})


# Export ---------------------------------------------------------------------------------------------------------------


def _as_module(model: Callable[..., Any]) -> torch.nn.Module:
    """Wraps a function as a module; modules that the function closes over keep their parameters by name."""
    if isinstance(model, torch.jit.ScriptModule):
        raise UserError(
            f"the model is a {type(model).__name__} of torch.jit, whose code is no Python: give what it was made from"
        )
    if isinstance(model, torch.nn.Module):
        check_module(model)
        return model
    if not callable(model):
        raise UserError(f"expected a module, a function or an ExportedProgram, got {type(model).__name__}")
    if inspect.isclass(model):
        raise UserError(f"{model.__name__} is a class: give an instance, {model.__name__}(...)")
    if not hasattr(inspect.unwrap(model), "__code__") and not isinstance(model, functools.partial):
        model = model.__call__ if inspect.ismethod(model.__call__) else model
    wrapper = torch.nn.Module()
    closed_over: dict[str, Any] = {}
    owner = getattr(model, "__self__", None)
    if inspect.ismethod(model):
        closed_over["self"] = owner
    function = inspect.unwrap(model)
    if inspect.isfunction(function):
        variables = inspect.getclosurevars(function)
        closed_over |= {**variables.globals, **variables.nonlocals}
    for name, value in closed_over.items():
        if isinstance(value, torch.nn.Module):
            wrapper.add_module(name, value)
    check_module(wrapper)
    wrapper.forward = model  # the example's arguments take the function's own names
    try:
        inspect.signature(model)
    except (TypeError, ValueError):  # a builtin such as torch.tanh has no names to take
        wrapper.forward = lambda *args, **kwargs: model(*args, **kwargs)
    return wrapper


def _user_frames(tracer: TracerBase, frames: traceback.StackSummary) -> traceback.StackSummary:
    """The frames of a traced op that may name its source: the user's, and `forward` of torch's own modules.

    torch keeps frames called `forward` only, which leaves functions, and what `forward` calls, without a line.
    """
    ours = [index for index, frame in enumerate(frames) if frame.filename == __file__]
    inside = frames[ours[-1] + 1 :] if ours else frames
    return traceback.StackSummary.from_list(
        [f for f in inside if f.name == "forward" or not f.filename.startswith(TORCH_FOLDER)]
    )


_LOGS_OF_FAILURES = ("torch._subclasses.fake_tensor", "torch.fx.experimental.symbolic_shapes", "torch.export._trace")


def _below_warning(record: logging.LogRecord) -> bool:
    return record.levelno < logging.WARNING


@contextmanager
def _plain_ops() -> Iterator[None]:
    """While exporting: no fused fast path of nn.MultiheadAttention, no gradients, no chatter, full source lines."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    own_filter = TracerBase._filter_traceback_frames  # noqa: SLF001
    TracerBase._filter_traceback_frames = _user_frames  # noqa: SLF001
    # They log each op that fails, and export prints what it has of the graph; the exception says the same.
    logs = [logging.getLogger(name) for name in _LOGS_OF_FAILURES]
    for log in logs:
        log.addFilter(_below_warning)
    before = vars(_trace).get("print", print)
    _trace.print = lambda *texts, **options: None  # type: ignore[attr-defined]
    try:
        with torch.no_grad(), sized_recurrent_layers(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        TracerBase._filter_traceback_frames = own_filter  # noqa: SLF001
        _trace.print = before  # type: ignore[attr-defined]
        for log in logs:
            log.removeFilter(_below_warning)


def _mode_of(tensors: Iterable[torch.Tensor]) -> AbstractContextManager[Any]:
    """Inference mode for tensors that were made in it: outside of it torch cannot even trace them."""
    return torch.inference_mode() if any(t.is_inference() for t in tensors) else nullcontext()


def _distinct(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The examples with no tensor object twice: torch.export takes equal objects for one input, and calls may differ."""
    seen: set[int] = set()

    def convert(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and id(leaf) in seen:
            return leaf.detach()
        seen.add(id(leaf))
        return leaf

    return pytree.tree_map(convert, arguments)


def _export(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any
) -> ExportedProgram:
    named = _bind(module.forward, args, kwargs)
    for path, leaf in pytree.tree_flatten_with_path(named)[0]:
        if isinstance(leaf, torch.Tensor):
            check_tensor(leaf, f"input '{path[0].key}{pytree.keystr(path[1:])}'")
    check_dynamic_shapes(named, dynamic_shapes)
    try:
        with _mode_of(itertools.chain(module.parameters(), module.buffers())), _plain_ops():
            return torch.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes, strict=False)
    except Exception as error:
        raise _export_error(error) from error


def _bind(forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The example inputs by argument name; raises `UserError` when they are not what `forward` takes."""
    signature = inspect.signature(forward)
    try:
        return dict(signature.bind(*args, **kwargs).arguments)
    except TypeError as error:
        takes = ", ".join(map(str, signature.parameters.values())) or "no arguments"
        given = f"{len(args)} positional" + "".join(f", {name}" for name in kwargs)
        raise UserError(f"the model takes ({takes}) but the example inputs are ({given}): {error}") from None


def _export_error(error: Exception) -> Exception:
    """Sorts an exception from torch.export: data-dependent Python is unsupported, the rest is the user's."""
    from torch._subclasses.fake_tensor import DataDependentOutputException
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    text = str(error).strip().split("\n\nThe error above occurred")[0]
    chain: BaseException | None = error
    while chain is not None:
        if is_of_packed_sequences(chain):
            what = text.splitlines()[0]
            nearest = "nn.LSTM, nn.GRU and nn.RNN over a padded tensor"
            return UnsupportedError(f"packed sequences: {what}; nearest supported form: {nearest}")
        if isinstance(chain, GuardOnDataDependentSymNode):
            return UnsupportedError(
                f"python control flow on the data of a tensor: {text}; nearest supported form: torch.cond"
            )
        chain = chain.__cause__ or chain.__context__
    if isinstance(error, (NotImplementedError, DataDependentOutputException)):
        return UnsupportedError(f"torch.export: {text}")
    if "specialized it to be a constant (1)" in text:
        text += "\n(an example of size 1 in a dynamic dimension is taken as fixed: give an example of another size)"
    return UserError(f"the model cannot be captured with these inputs: {type(error).__name__}: {text}")


def _refuse_hidden_guards(exported: ExportedProgram, dynamic_shapes: Any) -> None:
    """Refuses a graph that holds only for some sizes within its bounds.

    For named `Dim`s torch has proven the guards. For sizes that it was left to find (Dim.AUTO, Dim.DYNAMIC) they are
    conditions on each call, which the function has no place for.
    """
    guards = list(getattr(exported, "_guards_code", None) or [])
    hints = (torch.export.Dim.AUTO, torch.export.Dim.DYNAMIC)
    leaves = pytree.tree_leaves(dynamic_shapes, is_leaf=lambda leaf: isinstance(leaf, type(hints[0])))
    proven = leaves and not any(leaf in hints for leaf in leaves if isinstance(leaf, type(hints[0])))
    if guards and not proven:
        raise UnsupportedError(
            f"calls would have to check that {' and '.join(guards)}; "
            "nearest supported form: a named Dim whose every size is right (2 * Dim), given with the module"
        )


def _decompose(exported: ExportedProgram) -> ExportedProgram | Functional:
    """A graph of ops that are imported one by one, without writes: torch traces it again for that, where it is not so nearly."""
    table = torch.export.default_decompositions()
    for op in list(table):
        name = str(op).removeprefix("aten.")
        if name in _KEPT or name.rpartition(".")[0] in _KEPT:
            table.pop(op)
    state = (t for t in exported.state_dict.values() if isinstance(t, torch.Tensor))
    try:
        with past_dropouts(exported):
            others = [node for node in exported.graph.nodes if not _is_plain(node, table)]
            if not others:
                return exported
            if all(map(is_write, others)) and (functional := without_writes(exported, lambda op: op not in table)):
                return functional
            with _mode_of(state), _plain_ops():
                return exported.run_decompositions(table)
    except Exception as error:
        overlap = _overlapping_views(exported) if isinstance(error, AssertionError) else None
        if overlap:
            raise UnsupportedError(
                f"{overlap[0]} and {overlap[1]} are different views of one storage, and one is overwritten; "
                "nearest supported form: separate buffers"
            ) from error
        raise _export_error(error) from error


def _is_plain(node: torch.fx.Node, table: Container[Any]) -> bool:
    """Whether decomposition would leave the node alone: no branch, no write, and a result that somebody reads."""
    if node.op != "call_function":
        return node.op != "get_attr"
    if not isinstance(node.target, torch._ops.OpOverload):
        return getattr(node.target, "__module__", "") == "_operator"  # arithmetic of sizes, and one of several results
    if node.target._schema.name in WITHOUT_READERS:
        return node.target not in table
    return bool(node.users) and not is_write(node) and node.target not in table


def _graph_modules(exported: ExportedProgram | Functional) -> Iterator[torch.fx.GraphModule]:
    """Of the program and of its branches and loops."""
    return (m for m in exported.graph_module.modules() if isinstance(m, torch.fx.GraphModule))


def _overlapping_views(exported: ExportedProgram) -> tuple[str, str] | None:
    """Two parameters or buffers that share storage and are not the same view of it; torch cannot functionalise them."""
    seen: dict[int, tuple[str, torch.Tensor]] = {}
    for name, tensor in {**exported.constants, **exported.state_dict}.items():
        if isinstance(tensor, torch.Tensor) and tensor.numel():
            place = tensor.untyped_storage().data_ptr()
            other, first = seen.setdefault(place, (name, tensor))
            if storage_key(first) != storage_key(tensor):
                return other, name
    return None


# Import ---------------------------------------------------------------------------------------------------------------


class _Import:
    """One import: signature, parameters, nodes, results."""

    def __init__(
        self,
        exported: ExportedProgram | Functional,
        builder: Builder,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        dynamic_shapes: Any,
        forward: inspect.Signature,
    ) -> None:
        self._forward = forward
        self._exported = exported
        self._builder = builder
        self._args, self._kwargs = tuple(args), dict(kwargs)
        self._dynamic_shapes = dynamic_shapes
        self._signature = exported.graph_signature
        self._nodes = {n.name: n for n in exported.graph.nodes if n.op == "placeholder"}
        self._parameters: dict[str, torch.Tensor] = {}
        self._aliases: dict[str, str] = {}
        self._states: list[str] = []
        self._by_storage: dict[tuple[Any, ...], Tensor] = {}
        self._name_by_storage: dict[tuple[Any, ...], str] = {}

    def run(self, allows_aten: bool, device: str, to_aten: Mapping[str, str]) -> Captured:
        """Makes all builder calls and returns the description of the result."""
        symbols = self._symbols()
        printer = ExtentPrinter({torch_name: spec.name for torch_name, spec in symbols.items()})
        self._ctx = Importer(self._builder, extents=printer, allows_aten=allows_aten, device=device, to_aten=to_aten)
        for spec in symbols.values():
            self._builder.symbol(spec.name, spec.min, spec.max)
        inputs = self._inputs()
        self._begin(inputs)
        self._load_parameters()
        for node in self._exported.graph.nodes:
            if node.op == "call_function":
                self._ctx.run_node(node)
            elif node.op == "get_attr":
                module = self._exported.graph_module
                self._ctx.environment[node] = nested_attribute(module, node.target)
        raise_if_unsupported(self._ctx.unsupported)
        outputs, results = self._outputs()
        tied = self._tied(results)
        self._builder.end_function(results)
        spec = self._exported.call_spec
        return Captured(
            builder=self._builder,
            parameters=self._parameters,
            tensors=self._tensors(),
            persistent=list(self._exported.state_dict),
            states=self._states,
            aliases=self._aliases,
            symbols=list(symbols.values()),
            inputs=inputs,
            outputs=outputs,
            tied=tied,
            in_spec=spec.in_spec,
            out_spec=spec.out_spec,
            argument_names=self._argument_names(),
            keyword_names=list(self._kwargs),
        )

    # Signature

    def _user_inputs(self) -> list[ExportInput]:
        return [s for s in self._signature.input_specs if s.kind == InputKind.USER_INPUT]

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
        ranges = {str(k): v for k, v in self._exported.range_constraints.items()}
        full = self._sizes_above_zero()
        return {key: self._symbol_spec(name, ranges.get(key), key in full) for key, name in names.items()}

    def _sizes_above_zero(self) -> set[str]:
        """Symbols, by torch's names, that must not be 0: a largest or smallest element is taken over them."""
        found: set[str] = set()
        modules = _graph_modules(self._exported)
        for node in itertools.chain.from_iterable(module.graph.nodes for module in modules):
            if str(node.target) not in OF_SOME_ELEMENT:
                continue
            sizes = node.args[0].meta["val"].shape
            dims = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
            dims = [] if dims is None else dims if isinstance(dims, (list, tuple)) else [dims]
            for size in [sizes[dim] for dim in dims] or sizes:
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

    def _argument_names(self) -> list[str]:
        call = self._exported.module_call_graph[0].signature
        names = list(call.forward_arg_names or []) if call is not None else []
        return names[: len(self._args)]

    def _inputs(self) -> list[InputSpec]:
        leaves = pytree.tree_leaves((self._args, self._kwargs), is_leaf=lambda x: x is None)
        specs = self._user_inputs()
        if len(leaves) != len(specs):
            leaves = [None] * len(specs)
        inputs: list[InputSpec] = []
        arguments = 0
        for spec, leaf in zip(specs, leaves):
            if isinstance(spec.arg, ConstantArgument):
                inputs.append(InputSpec(spec.arg.name, constant=spec.arg.value))
                continue
            if not isinstance(spec.arg, TensorArgument):
                raise UnsupportedError(f"input {spec.arg.name} is a dynamic number: pass a constant or a tensor")
            inputs.append(self._tensor_input(spec.arg.name, leaf, arguments))
            arguments += 1
        return inputs

    def _tensor_input(self, name: str, leaf: Any, argument: int) -> InputSpec:
        fake = self._nodes[name].meta["val"]
        example = leaf if isinstance(leaf, torch.Tensor) else None
        try:
            return InputSpec(
                name=name,
                type=self._ctx.type_of(fake),
                argument=argument,
                dtype=fake.dtype,
                strides=tuple(self._ctx.extents.dim(stride) for stride in fake.stride()),
                example_shape=tuple(example.shape) if example is not None else (),
                example_strides=example.stride() if example is not None else (),
            )
        except Reject as refusal:
            raise UnsupportedError(f"input {name}: {refusal}") from refusal

    def _begin(self, inputs: Sequence[InputSpec]) -> None:
        tensors = [(spec.name, _with_layout(spec)) for spec in inputs if spec.type is not None]
        values = self._builder.begin_function("forward", tensors)
        arguments = {name: Tensor(v, t) for (name, t), v in zip(tensors, values)}
        for spec in inputs:
            node = self._nodes[spec.name]
            self._ctx.environment[node] = arguments.get(spec.name, spec.constant)

    # Parameters

    def _load_parameters(self) -> None:
        """Binds parameters, buffers and lifted constants; a buffer that is overwritten is a state."""
        mutated = set(self._signature.buffers_to_mutate.values())
        kinds = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
        specs = [s for s in self._signature.input_specs if s.kind in kinds]
        known = (*kinds, InputKind.USER_INPUT, InputKind.TOKEN)
        for spec in self._signature.input_specs:
            if spec.kind not in known:
                what = spec.kind.name.lower().replace("_", " ")
                raise UnsupportedError(f"model uses a {what} ({spec.target})")
            if spec.kind == InputKind.TOKEN:  # orders side effects, and each op that has one is refused by itself
                self._ctx.environment[self._nodes[spec.arg.name]] = None
        tensors = {s.target: self._tensor_of(s) for s in specs}
        state_storages = {storage_key(tensors[name]) for name in mutated}
        for spec in specs:
            tensor = tensors[spec.target]
            node = self._nodes[spec.arg.name]
            if not node.users and storage_key(tensor) not in state_storages:
                continue
            self._ctx.location = Location(spec.target.rpartition(".")[0])
            op = "state" if storage_key(tensor) in state_storages else "parameter"
            self._ctx.environment[node] = self._bind(op, spec, tensor)

    def _tensors(self) -> dict[str, torch.Tensor]:
        """The state dict, and the buffers that torch keeps among the constants because no state dict has them."""
        state, constants = self._exported.state_dict, self._exported.constants
        buffers = {name: constants[name] for name in self._signature.non_persistent_buffers if name in constants}
        return {name: t for name, t in {**state, **buffers}.items() if isinstance(t, torch.Tensor)}

    def _tensor_of(self, spec: ExportInput) -> torch.Tensor:
        target = str(spec.target)
        state = self._exported.state_dict
        tensor = state[target] if target in state else self._exported.constants[target]
        check_tensor(tensor, f"parameter {target}")
        return tensor

    def _bind(self, op: str, spec: ExportInput, tensor: torch.Tensor) -> Tensor:
        name = str(spec.target)
        try:
            type = self._ctx.type_of(tensor)
        except Reject as refusal:
            raise UnsupportedError(f"parameter {name}: {refusal}") from refusal
        literal = spec.kind == InputKind.CONSTANT_TENSOR and name.startswith("lifted_tensor_")
        if literal and op == "parameter" and tensor.numel() <= _MAX_LITERAL_ELEMENTS:
            value = Dense(type, _bytes_of(tensor))
            return self._ctx.emit_one("constant", [], type, {"value": value})
        key = storage_key(tensor)
        if key in self._by_storage and tensor.numel():
            self._aliases[name] = self._name_by_storage[key]
            return self._by_storage[key]
        self._parameters[name] = tensor
        if op == "state":
            self._states.append(name)
        attributes: dict[str, Any] = {"name": name}
        if not tensor.is_contiguous():
            attributes["op.strides"] = Dims(tensor.stride())
        result = self._ctx.emit_one(op, [], type, attributes)
        self._by_storage[key], self._name_by_storage[key] = result, name
        return result

    # Results

    def _outputs(self) -> tuple[list[OutputSpec], list[Result]]:
        outputs: list[OutputSpec] = []
        results: list[Result] = []
        places: dict[tuple[int, bool], int] = {}  # identity of a builder value, alias -> its result
        nodes, values = self._output_nodes(), self._output_values()
        home = {_device_of(node) for node in self._exported.graph.nodes if node.op == "placeholder"} - {None}
        written = {node for node, spec in zip(nodes, self._signature.output_specs) if spec.kind in _TIES}
        for node, spec, value in zip(nodes, self._signature.output_specs, values):
            if spec.kind != OutputKind.USER_OUTPUT:
                continue
            if isinstance(spec.arg, ConstantArgument):
                outputs.append(OutputSpec(constant=spec.arg.value))
            elif isinstance(value, Complex):
                raise UnsupportedError(
                    f"output {spec.arg.name} is {value.complex_dtype}, expected a real dtype; "
                    "nearest supported form: torch.view_as_real of it"
                )
            elif isinstance(value, Tensor):
                _check_home(home, node, spec.arg.name)
                alias = _viewed(node) in written
                if (id(value), alias) not in places:
                    places[id(value), alias] = len(results)
                    tie = "alias" if alias else None
                    results.append(Result(value.value, _unused(spec.arg.name, results), tie))
                outputs.append(OutputSpec(result=places[id(value), alias]))
            elif isinstance(spec.arg, SymIntArgument) or isinstance(value, (int, float, Extent)):
                is_extent = isinstance(value, Extent)
                outputs.append(OutputSpec(extent=value) if is_extent else OutputSpec(constant=value))
            else:
                raise InternalError(f"output {spec.arg} has value {value!r}")
        return outputs, results

    def _output_nodes(self) -> list[Any]:
        return next(n for n in self._exported.graph.nodes if n.op == "output").args[0]

    def _output_values(self) -> list[Any]:
        return [self._ctx.argument(value) for value in self._output_nodes()]

    def _tied(self, results: list[Result]) -> list[TiedResult]:
        tied: list[TiedResult] = []
        for spec, value in zip(self._signature.output_specs, self._output_values()):
            if spec.kind in (OutputKind.USER_OUTPUT, OutputKind.TOKEN):
                continue
            if spec.kind not in _TIES:
                raise UnsupportedError(f"model has a {spec.kind.name.lower()} output ({spec.target})")
            name = str(spec.target)
            tie = f"{_TIES[spec.kind]}:{self._aliases.get(name, name)}"
            tied.append(TiedResult(len(results), tie))
            # A value that is also a result for the user comes twice, under two names.
            results.append(Result(value.value, _unused(spec.arg.name, results), tie))
        return tied


def _unused(name: str, results: Sequence[Result]) -> str:
    """`name`, made different from the names of `results`."""
    taken = {result.name for result in results}
    while name in taken:
        name += "_tied"
    return name


def _device_of(node: Any) -> Any:
    """Where a node's tensor is; None: it has none."""
    return getattr(node.meta.get("val"), "device", None)


def _check_home(home: set[Any], node: Any, name: str) -> None:
    """Raises for a result that is not where all inputs and parameters (`home`) are: a program gives none elsewhere."""
    device = _device_of(node)
    if len(home) == 1 and device is not None and device not in home:
        raise UnsupportedError(
            f"output {name} is on {device} but inputs and parameters are on {next(iter(home))}: "
            "a program's results are where it runs; move this one behind the call"
        )


def _viewed(node: Any) -> Any:
    """The node that `node` is a view of, through ops whose schema says that they return a view; itself when it is none."""
    while isinstance(node, torch.fx.Node) and node.op == "call_function":
        if node.target is operator.getitem:
            node = node.args[0]
            continue
        schema = getattr(node.target, "_schema", None)
        alias = schema.returns[0].alias_info if schema and schema.returns else None
        if alias is None or alias.is_write:
            break
        node = node.args[0]
    return node


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


def _bytes_of(tensor: torch.Tensor) -> bytes:
    flat = tensor.detach().contiguous().reshape(-1)
    return bytes(flat.view(torch.uint8).cpu().tolist()) if flat.numel() else b""


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
