# SPDX-License-Identifier: Apache-2.0
"""The backend of `torch.compile`: `torch.compile(model, backend="straightline")`.

Dynamo finds `straightline` below by the entry point `torch_dynamo_backends`, calls it with each graph that it captures, and
keeps what it returns behind guards of its own.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import torch
from torch.utils._sympy.printers import PythonPrinter

from straightline import _complex, _dynamo_first_calls, _dynamo_recurrent, _programs, _signature
from straightline.capture.torch.fx_capture import FrozenInput, GraphCapture, ResultPlan, capture_graph
from straightline.capture.torch.importer import location_of
from straightline.compiled_function import CompiledElsewhere, CompiledFunction
from straightline.errors import CaptureWarning, GuardError, UserError
from straightline.module_builder import ModuleBuilder
from straightline.options import CompileOptions
from straightline.torch_model import Capture, Where, compiled

#: What the modes of torch.compile are in our options.
_MODES: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "reduce-overhead": {"reuse_outputs": True},
    "max-autotune": {"tune": True, "reuse_outputs": True},
    "max-autotune-no-cudagraphs": {"tune": True},
}
#: So many sets of frozen parameters a program has, the oldest of which is made again when it is needed: of one module whose
#: tensors are replaced, and of modules that share their code.
_MOST_SETS, _MOST_MODULES = 8, 256


def straightline(
    module: torch.fx.GraphModule,
    inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compiles a graph of Dynamo.

    Args:
        module: The graph; its tensors are inputs, also those of the model.
        inputs: Example inputs: tensors and numbers.
        mode: As `torch.compile` has it.
        options: Those of `CompileOptions` by name. `freeze` is False unless it is given: parameters are read in each call.

    Returns:
        What takes inputs like the examples and returns a tuple of the graph's results.

    Raises:
        UserError: An option is none of ours, or a result would need a gradient.
        UnsupportedError: Lists every op that has no kernel, with its source line.
    """
    chosen = _options(mode, options)
    without_grad = _records_gradients(module, inputs)
    frozen = _frozen(module, inputs) if chosen.freeze else {}
    captures: list[GraphCapture] = []

    def captured(where: Where) -> list[Capture]:
        begin = time.perf_counter()
        found = capture_graph(module, inputs, ModuleBuilder, ModuleBuilder.finish, frozen, **where._asdict())
        captures.append(found)
        specs = [spec for spec in found.captured.inputs if spec.is_tensor]
        structure = tuple((spec.name, _signature.POSITIONAL, _node(spec)) for spec in specs)
        read = {spec.name for spec in specs}
        nodes = zip(_placeholders(module), inputs, strict=True)
        examples = {f"input {node.name}": x for node, x in nodes if node.name in read}
        return [Capture(found.captured, found.built, structure, examples, time.perf_counter() - begin)]

    leaves = [x for x in inputs if isinstance(x, torch.Tensor)] or _results_of(module)
    (function,) = compiled(captured, leaves, chosen, "a graph of torch.compile", warns=False)
    call = _callable(function, captures[0], module, inputs, frozen, without_grad)
    return _programs.noted(call, function, module, captures[0].specialized)


def _node(spec: Any) -> _signature.Node:
    if spec.storage_offset is not None:
        return _signature.placed_node(spec.name, spec.argument, spec.storage_offset)
    is_complex = spec.dtype.is_complex
    return _complex.node(spec.name, spec.argument) if is_complex else ("tensor", spec.name, spec.argument)


def _options(mode: str | None, options: Mapping[str, Any] | None) -> CompileOptions:
    if mode is not None and mode not in _MODES:
        raise UserError(f"mode is {mode!r} but must be one of {', '.join(map(repr, _MODES))}")
    names = [option.name for option in fields(CompileOptions)]
    given = {str(name): value for name, value in (options or {}).items()}
    CompileOptions.check_names(given, names, names, "the backend straightline")
    return CompileOptions(**{"freeze": False, **_MODES[mode or "default"], **given})


def _results_of(module: torch.fx.GraphModule) -> list[Any]:
    """Tensors that say where a graph without tensor inputs works."""
    values = (node.meta.get("example_value") for node in module.graph.nodes)
    return [value for value in values if isinstance(value, torch.Tensor)] or [torch.empty(0)]


# Gradients ------------------------------------------------------------------------------------------------------------


def _records_gradients(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> bool:
    """Whether calls must turn gradients off: they are on, an input requires one, and no result does.

    Raises:
        UserError: A result requires a gradient.
    """
    if not torch.is_grad_enabled():
        return False
    wanting = [x for x in inputs if isinstance(x, torch.Tensor) and x.requires_grad]
    placeholders = _placeholders(module)
    output = next(node for node in module.graph.nodes if node.op == "output")
    results = [node for node in output.all_input_nodes if node.op != "placeholder"]
    updated = [n for n, x in zip(placeholders, inputs, strict=True) if not getattr(x, "requires_grad", True)]
    for node in (*results, *updated):
        value = node.meta.get("example_value")
        if isinstance(value, torch.Tensor) and value.requires_grad:
            names = [n.name for n, x in zip(placeholders, inputs, strict=True) if getattr(x, "requires_grad", False)]
            of = f" of {names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else "") if names else ""
            raise UserError(
                f"gradients are on and {node.name} (at {location_of(node)}) would record one{of}, which a compiled program "
                "does not: call under torch.no_grad() or torch.inference_mode(), or give tensors that require none"
            )
    return bool(wanting)


# Calls ----------------------------------------------------------------------------------------------------------------


def _frozen(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> dict[int, FrozenInput]:
    """The inputs that are parameters and buffers of modules, by place, but those whose memory another input has too.

    The graph may write the other one, and what it writes is seen here.
    """
    found: dict[int, FrozenInput] = {}
    users = Counter(x.untyped_storage()._cdata for x in inputs if _has_storage(x))
    for place, (node, value) in enumerate(zip(_placeholders(module), inputs, strict=True)):
        source = getattr(node, "_dynamo_source", None)
        is_own = isinstance(value, torch.nn.Parameter) or (isinstance(value, torch.Tensor) and _is_of_module(source))
        if is_own and not (_has_storage(value) and users[value.untyped_storage()._cdata] > 1):
            found[place] = FrozenInput(node.name, value)
    return found


def _has_storage(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and torch._C._has_storage(x)


def _is_of_module(source: Any) -> bool:
    """Whether a tensor is a registered buffer. Another attribute of a module may be a state, which each call replaces."""
    facts = [getattr(source, name, None) for name in ("guard_source", "name")]
    kind, name = (fact() if callable(fact) else fact for fact in facts)  # methods until torch 2.10
    is_own = kind is not None and (kind.is_unspecialized_nn_module() or kind.is_specialized_nn_module())
    return is_own and "._buffers[" in name


def _placeholders(module: torch.fx.GraphModule) -> list[torch.fx.Node]:
    return module.graph.find_nodes(op="placeholder")


def _is_other_parameter(tensor: Any, is_other: bool) -> bool:
    """Of another module: calls replace buffers, not parameters."""
    return is_other and isinstance(tensor, torch.nn.Parameter)


class _FrozenSets:
    """One program over the frozen parameters of several modules: a set for each, the newest kept."""

    def __init__(self, function: CompiledFunction, names: Sequence[str]) -> None:
        self._function, self._names = function, names
        self._made: dict[tuple[int, ...], tuple[tuple[Any, ...], CompiledFunction]] = {}
        self._has_warned = False

    def __call__(self, *tensors: Any) -> CompiledFunction:
        key = tuple(map(id, tensors))
        if key not in self._made:
            last = next(reversed(self._made.values()))[0] if self._made else ()
            replaced = [one is not other for one, other in zip(tensors, last)]
            is_module = all(replaced) or any(map(_is_other_parameter, tensors, replaced))
            most = _MOST_MODULES if is_module else _MOST_SETS
            while len(self._made) >= most:
                self._warn(most, [name for name, is_new in zip(self._names, replaced, strict=True) if is_new])
                self._made.pop(next(iter(self._made)))
            function = self._function.with_parameters(dict(zip(self._names, tensors, strict=True)))
            self._made[key] = (tensors, function)  # which keeps the ids theirs
        return self._made[key][1]

    def _warn(self, most: int, changed: Sequence[str]) -> None:
        if self._has_warned:
            return
        self._has_warned = True
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        warnings.warn(
            f"a graph is called with more than {most} sets of frozen parameters, and each new one is prepared again; "
            f"{changed[0]}{more} differ from call to call: leave freeze out of the options, or write the tensor in place",
            CaptureWarning,
            stacklevel=4,
        )


def _callable(
    function: CompiledFunction | CompiledElsewhere,
    capture: GraphCapture,
    module: torch.fx.GraphModule,
    inputs: Sequence[Any],
    frozen: Mapping[int, FrozenInput],
    without_grad: bool,
) -> Callable[..., Any]:
    """What Dynamo calls: the program itself where arguments and results are the graph's, else a function around it."""
    places = {node.name: place for place, node in enumerate(_placeholders(module))}
    tensors = [spec.name for spec in capture.captured.inputs if spec.is_tensor]
    is_plain = all(plan.is_plain and plan.place == place for place, plan in enumerate(capture.results))
    may_refuse = capture.captured.tied or any(spec.storage_offset is not None for spec in capture.captured.inputs)
    if tensors == list(places) and is_plain and not may_refuse and not without_grad:
        return function
    given = [
        f"carrier.expand(a{capture.numbers[name]})" if name in capture.numbers else f"a{places[name]}"
        for name in tensors
    ]
    own = [place for place, entry in frozen.items() if entry.name not in tensors]
    scope: dict[str, Any] = {"program": function, "eager": _Eager(module), "GuardError": GuardError}
    lines = []
    if own:
        scope["others"] = _FrozenSets(function, [frozen[place].name for place in own])
        scope |= {f"p{place}": frozen[place].tensor for place in own}
        same = " and ".join(f"a{place} is p{place}" for place in own)
        lines += [f"run = program if {same} else others({', '.join(f'a{place}' for place in own)})"]
    if capture.numbers:
        device = next((x.device for x in inputs if isinstance(x, torch.Tensor)), "cpu")
        scope["carrier"] = torch.empty(1, dtype=torch.bool, device=device)
    call = f"{'run' if own else 'program'}({', '.join(given)})"
    everything = ", ".join(f"a{place}" for place in places.values())
    lines += ["try:", f"    r = {call}", "except GuardError as error:", f"    return eager(error, {everything})"]
    lines += [
        f"{name} = a{place}" if dim < 0 else f"{name} = a{place}.shape[{dim}]"
        for name, (place, dim) in capture.symbols.items()
    ]
    lines += [f"return ({''.join(_result_text(plan) + ', ' for plan in capture.results)})"]
    if without_grad:
        scope["set_grad"] = torch._C._set_grad_enabled
        lines = ["set_grad(False)", "try:", *(f"    {line}" for line in lines), "finally:", "    set_grad(True)"]
    text = "\n    ".join([f"def call({everything}):", *lines])
    exec(compile(text, "<call of a compiled graph>", "exec"), scope)
    return scope.pop("call")  # no circle, which only the collector would end


class _Eager:
    """Calls of the graph as it was captured, for tensors that its program cannot take: such as share memory that it writes."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        self._module = module
        self._has_warned = False

    def __call__(self, error: GuardError, *args: Any) -> Any:
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(f"a call of a compiled graph runs in eager: {error}", CaptureWarning, stacklevel=3)
        return self._module(*args)


def _result_text(plan: ResultPlan) -> str:
    result = f"r[{plan.place}]" if plan.source < 0 else f"a{plan.source}"
    if plan.dims is not None:
        return f"{result}.permute({', '.join(map(str, plan.dims))})"
    if plan.strided is None:
        return result
    sizes, strides, offset = plan.strided
    start = _size_text(offset) if plan.source < 0 else f"{result}.storage_offset() + {_size_text(offset)}"
    texts = ["".join(f"{_size_text(size)}, " for size in part) for part in (sizes, strides)]
    return f"{result}.as_strided(({texts[0]}), ({texts[1]}), {start})"


def _size_text(size: Any) -> str:
    return PythonPrinter().doprint(size.node.expr) if isinstance(size, torch.SymInt) else str(size)


_dynamo_recurrent.install(straightline)
_dynamo_first_calls.install(straightline)
