# SPDX-License-Identifier: Apache-2.0
"""The torch front end: a module, a function or an ExportedProgram becomes builder calls."""

from __future__ import annotations

import functools
import inspect
import itertools
import os
import threading
import traceback
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch._dynamo import convert_frame
from torch.export import ExportedProgram, _trace
from torch.fx.proxy import TracerBase
from torch.nn.modules import transformer
from torch.utils import _pytree as pytree

from straightline.capture.builder import Builder, FrameworkRule
from straightline.capture.captured import Captured
from straightline.capture.text_builder import TextBuilder
from straightline.capture.torch.covariances import Covariances
from straightline.capture.torch.dropouts import refuse_in_training
from straightline.capture.torch.export_errors import derivative_error, raise_export_error, without_logs_of_failures
from straightline.capture.torch.functional import ValueGraph, storage_key, value_graph
from straightline.capture.torch.graph_import import GraphImport, source_of
from straightline.capture.torch.importer import TORCH_FOLDER
from straightline.capture.torch.model_check import check_dynamic_shapes, check_module, check_tensor
from straightline.capture.torch.recurrent_layers import sized_recurrent_layers
from straightline.capture.torch.side_effects import warned_of_constants, without_seeds
from straightline.capture.torch.vmap_regions import is_of_derivative
from straightline.capture.torch.wider_examples import wider
from straightline.capture.torch.written_places import WrittenPlaces
from straightline.errors import UnsupportedError, UserError


def _one_at_a_time() -> threading.RLock:
    """The lock of torch's own compilations.

    torch.export keeps state of the export that goes on in globals, and so does `_plain_ops`. Dynamo reads some of it: a size
    that it compares on one thread would become a part of the graph that is exported on another.
    """
    return convert_frame.compile_lock


# A thread that holds it is not in a forked process.
os.register_at_fork(after_in_child=lambda: setattr(convert_frame, "compile_lock", threading.RLock()))


#: Where functions are that stand in for torch's while it traces.
_OWN_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep

Model = torch.nn.Module | ExportedProgram | Callable[..., Any]


def capture(
    model: Model,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    builder: Builder | None = None,
    allows_aten: bool = True,
    target: str = "",
    to_aten: FrameworkRule | None = None,
) -> Captured:
    """Captures a model into `builder` calls.

    Args:
        model: a module, a plain function or lambda over tensors, or an exported program.
        args: example positional arguments; ignored for an exported program.
        kwargs: example keyword arguments.
        dynamic_shapes: as in `torch.export.export`; the names of its `Dim`s name the symbols.
        builder: receives the function; a `TextBuilder` when None.
        allows_aten: whether an op without a native form becomes a call through the framework.
        target: where the program runs, as the compiler names it ("cuda:sm_90"; "" for the default target). What its kernels do
            not take goes through the framework.
        to_aten: The rule by which an op (by name) at a place is to go through the framework, in words.

    Raises:
        UserError: the model is in training mode, or fails on the example inputs.
        UnsupportedError: lists every op that cannot be converted.
    """
    builder = TextBuilder() if builder is None else builder
    kwargs = dict(kwargs or {})
    with _one_at_a_time():
        if isinstance(model, ExportedProgram):
            exported, examples = model, model.example_inputs
            args, kwargs = examples if examples is not None else ((), {})
            dynamic_shapes, forward = None, inspect.Signature()
        else:
            module = _as_module(model)
            args, kwargs = _distinct((tuple(args), kwargs))
            forward = inspect.signature(module.forward)
            exported = _export(module, tuple(args), kwargs, dynamic_shapes)
            nodes = (node for graph in _graphs_of(exported.graph_module) for node in graph.graph.nodes)
            refuse_in_training(module, nodes)
        guards = _open_guards(exported, dynamic_shapes)
        _refuse_derivatives(exported)
        source = replace(source_of(exported, _values(exported)), guards=guards)
    return GraphImport(source, builder, args, kwargs, dynamic_shapes, forward).run(allows_aten, target, to_aten)


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
        [f for f in inside if f.name == "forward" or not f.filename.startswith((TORCH_FOLDER, _OWN_FOLDER))]
    )


@contextmanager
def _plain_ops() -> Iterator[None]:
    """While exporting: no fused fast path of nn.MultiheadAttention, no gradients, no chatter, full source lines.

    nn.Transformer looks at the values of a mask to find out whether it is the causal one; what the mask says is done
    either way.
    """
    detect = transformer._detect_is_causal_mask  # noqa: SLF001
    transformer._detect_is_causal_mask = lambda mask, is_causal=None, size=None: bool(is_causal)  # noqa: SLF001
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    own_filter = TracerBase._filter_traceback_frames  # noqa: SLF001
    TracerBase._filter_traceback_frames = _user_frames  # noqa: SLF001
    # Export prints what it has of the graph when an op fails; the exception says the same.
    before = vars(_trace).get("print", print)
    _trace.print = lambda *texts, **options: None  # type: ignore[attr-defined]
    try:
        with torch.no_grad(), sized_recurrent_layers(), without_logs_of_failures(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        transformer._detect_is_causal_mask = detect  # noqa: SLF001
        torch.backends.mha.set_fastpath_enabled(fast)
        TracerBase._filter_traceback_frames = own_filter  # noqa: SLF001
        _trace.print = before  # type: ignore[attr-defined]


def _mode_of(tensors: Iterable[torch.Tensor]) -> AbstractContextManager[Any]:
    """Inference mode for tensors that were made in it: outside of it torch cannot even trace them."""
    with torch._C.DisableTorchFunctionSubclass():
        return torch.inference_mode() if any(t.is_inference() for t in tensors) else nullcontext()


def _distinct(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns the examples with an object of its own for each tensor.

    torch.export takes one object that is given twice for one input, but a call may give two different tensors there.
    """
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
    for name, tensor in itertools.chain(module.named_parameters(), module.named_buffers()):
        check_tensor(tensor, f"parameter {name}")
    check_dynamic_shapes(named, dynamic_shapes)
    mode = _mode_of(itertools.chain(module.parameters(), module.buffers()))
    with mode:
        larger = wider(named, dynamic_shapes)
    if larger is not None:
        bound = inspect.signature(module.forward).bind(*args, **kwargs)
        bound.arguments.update(larger)
        args, kwargs = bound.args, dict(bound.kwargs)
    try:
        with warned_of_constants(), mode, _plain_ops(), without_seeds(), WrittenPlaces(), Covariances():
            return torch.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes, strict=False)
    except Exception as error:
        raise_export_error(error)


def _bind(forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The example inputs by argument name; raises `UserError` when they are not what `forward` takes."""
    signature = inspect.signature(forward)
    try:
        return dict(signature.bind(*args, **kwargs).arguments)
    except TypeError as error:
        takes = ", ".join(map(str, signature.parameters.values())) or "no arguments"
        given = f"{len(args)} positional" + "".join(f", {name}" for name in kwargs)
        raise UserError(f"the model takes ({takes}) but the example inputs are ({given}): {error}") from None


def _open_guards(exported: ExportedProgram, dynamic_shapes: Any) -> list[str]:
    """Conditions on sizes under which the graph holds.

    For named `Dim`s torch has proven them; those of sizes that it was left to find (Dim.AUTO, Dim.DYNAMIC), and of an
    exported program, whose `Dim`s are not known, are for each call to check.
    """
    hint = type(torch.export.Dim.AUTO)
    leaves = pytree.tree_leaves(dynamic_shapes, is_leaf=lambda leaf: isinstance(leaf, hint))
    found = any(isinstance(leaf, hint) and leaf.type.name != "STATIC" for leaf in leaves)
    proven = dynamic_shapes is not None and not found
    return [] if proven else list(getattr(exported, "_guards_code", None) or [])


def _refuse_derivatives(exported: ExportedProgram) -> None:
    """Raises UnsupportedError if there is a derivative of torch.func's, of which export keeps no whole form."""
    nodes = (node for module in _graphs_of(exported.graph_module) for node in module.graph.nodes)
    if any(is_of_derivative(node) for node in nodes):
        raise derivative_error("")  # of which export keeps no line


def _graphs_of(module: torch.fx.GraphModule) -> Iterator[torch.fx.GraphModule]:
    return (inner for inner in module.modules() if isinstance(inner, torch.fx.GraphModule))


def _values(exported: ExportedProgram) -> ValueGraph:
    """The program's graph as one of values."""
    state = {**exported.constants, **exported.state_dict}
    first: dict[Any, str] = {}
    same: dict[str, str] = {}
    for spec in exported.graph_signature.input_specs:
        tensor = state.get(spec.target)
        if isinstance(tensor, torch.Tensor):
            check_tensor(tensor, f"parameter {spec.target}")
            name = first.setdefault(storage_key(tensor), spec.arg.name)
            same |= {spec.arg.name: name} if name != spec.arg.name else {}
    try:
        with _plain_ops():
            values = value_graph(exported.graph_module, same)
    except Exception as error:
        raise_export_error(error)
    targets = {spec.arg.name: spec.target for spec in exported.graph_signature.input_specs}
    written = {targets[name] for name in values.updates} - {None}
    overlap = _overlapping_views(exported, written) if written else None
    if overlap:
        raise UnsupportedError(
            f"{overlap[0]} and {overlap[1]} are different views of one storage, and one is overwritten; "
            "nearest supported form: separate buffers"
        )
    return values


def _overlapping_views(exported: ExportedProgram, written: Container[str]) -> tuple[str, str] | None:
    """Two parameters or buffers, one of them overwritten, that share storage and are not the same view of it."""
    groups: dict[int, list[tuple[str, torch.Tensor]]] = {}
    for name, tensor in {**exported.constants, **exported.state_dict}.items():
        if isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided and tensor.numel():
            groups.setdefault(tensor.untyped_storage().data_ptr(), []).append((name, tensor))
    for group in groups.values():
        if any(name in written for name, _ in group):
            first, key = group[0][0], storage_key(group[0][1])
            for name, tensor in group:
                if storage_key(tensor) != key:
                    return first, name
    return None
