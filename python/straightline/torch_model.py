# SPDX-License-Identifier: Apache-2.0
"""`compile`: a model and example inputs become a callable that runs straight-line machine code."""

from __future__ import annotations

import importlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from straightline import (
    _aten_calls,
    _call_support,
    _compiler,
    _complex,
    _devices,
    _ending,
    _flaggems,
    _frameworks,
    _internal_options,
    _launch,
    _paths,
    _signature,
    _slots,
    _targets,
    _threads,
    backend_plugins,
    own_images,
    routing,
)
from straightline._compilation import compile_module, progress_of
from straightline._interrupts import kept_interrupts
from straightline._tuning import Tuning, machine_of
from straightline.compiled_function import Binding, CompiledElsewhere, CompiledFunction, FunctionMethods, grouped
from straightline.errors import PlaceError, UnsupportedError, UserError
from straightline.module_builder import ModuleBuilder
from straightline.options import CompileOptions, takes_options
from straightline.parameters import ParameterTable

#: Front ends beside torch's: whether one takes a model with its examples (args, kwargs), and what compiles it. Their modules,
#: which are imported by the first call of `compile`, fill it.
FRONT_ENDS: list[tuple[Callable[[Any, Any, Any], bool], Callable[..., Any]]] = []
_FRONT_END_MODULES = ("straightline.jax_model", "straightline.onnx_calls", "straightline.paddle_calls")


@takes_options
def compile(
    model: Any,
    args: Sequence[Any] | list[tuple[Any, ...]] = (),
    kwargs: Mapping[str, Any] | list[Mapping[str, Any]] | None = None,
    *,
    dynamic_shapes: Any = None,
    values: Mapping[str, Any] | str | None = None,
    sizes: Mapping[str, Any] | None = None,
    fetches: Sequence[Any] | None = None,
    options: CompileOptions | None = None,
    **changes: Any,
) -> Callable[..., Any]:
    """Compiles a model for inputs like the examples.

    Args:
        model: A `torch.nn.Module` in eval mode, a function or lambda over tensors, or a `torch.export.ExportedProgram`. Or
            an ONNX model: the path of an .onnx file, bytes, or a `ModelProto`, which needs no torch (`onnx_model.compile_onnx`).
            Or one of Paddle: a layer, a function, a `paddle.static.Program`, or the path of a .json file of
            `paddle.jit.save`, which needs no paddle (`paddle_model.compile_paddle`).
        args: Example positional arguments: torch tensors or numpy arrays; a call must have their dtypes, sizes and strides.
            A list of tuples is several examples: there is one program for each, over one set of parameters, and a call
            takes the first that fits.
        kwargs: Example keyword arguments; with several examples one dict for all of them, or a list with one for each.
        dynamic_shapes: As in `torch.export.export`: sizes given as a `torch.export.Dim` may differ between calls.
        values: Of an ONNX model: inputs by name whose values the program may depend on; "calls": a program for each kind of call
            (`onnx_backend.ByCalls`).
        sizes: Of a model of ONNX or Paddle: a number, or the smallest and largest, for named sizes.
        fetches: Of a `paddle.static.Program`: what a call returns, values or names.
        options: What `CompileOptions` says; by default its defaults.
        changes: Options by name, such as `freeze=False`, over those of `options`. An unknown name is refused with those that are
            near.

    Returns:
        A callable with the model's signature and the attributes `code`, `ir(level)`, `explain()`, `parameters()`,
        `load_parameters(state_dict)` and `with_parameters(state_dict)`.

    Raises:
        UserError: The model or an argument is not what it should be.
        UnsupportedError: Lists every op that has no kernel, with its source line.
        InternalError: A bug; the message names the file that keeps what reproduces it.
    """
    for module in _FRONT_END_MODULES:
        importlib.import_module(module)
    for takes, compile_with in FRONT_ENDS:
        if takes(model, args, kwargs):
            given = {"dynamic_shapes": dynamic_shapes, "values": values, "sizes": sizes, "options": options}
            if fetches is not None:
                given["fetches"] = fetches
            return compile_with(model, args, kwargs, **given, **changes)
    if values is not None or sizes is not None or fetches is not None:
        raise UserError(
            "values, sizes and fetches are of models of ONNX and Paddle; named sizes of torch's are in dynamic_shapes"
        )
    import numpy

    torch = _torch_for(model)
    chosen = CompileOptions.of(options, changes, compile)
    examples = _examples(args, kwargs)
    if isinstance(model, torch.export.ExportedProgram) and len(examples) > 1:
        raise UserError(f"an ExportedProgram has one example of its own but {len(examples)} are given")
    given = [] if isinstance(model, torch.export.ExportedProgram) else torch.utils._pytree.tree_leaves(examples)
    leaves = [leaf for leaf in given if isinstance(leaf, (torch.Tensor, numpy.ndarray))] or _targets.stand_ins(model)

    def captures(where: Where) -> list[Capture]:
        return [_capture_of_model(model, *example, dynamic_shapes, where) for example in examples]

    name = getattr(model, "__name__", type(model).__name__)
    try:
        functions = compiled(captures, leaves or [torch.empty(0)], chosen, name)  # torch's default device
    except PlaceError as error:
        if leaves or chosen.target is not None:
            raise
        # Only its results say where it runs.
        functions = compiled(captures, [torch.empty(0, device=error.device)], chosen, name)
    return _one_of(functions)


def compiled(
    captures_in: Callable[[Where], list[Capture]],
    leaves: Sequence[Any],
    options: CompileOptions,
    name: str,
    *,
    warns: bool = True,
) -> list[CompiledFunction | CompiledElsewhere]:
    """A function for each of some captures, over one set of parameters.

    Args:
        captures_in: Captures for the place that it gets.
        leaves: Tensors that say where that is.
        options: Checked here.
        name: What is compiled, for the display of progress.
        warns: Whether this is all of a model, so that a rule which names none of its ops is worth a warning.
    """
    _aten_calls.install()
    backend_plugins.open_all()  # capture asks for routes
    path = _paths.chosen(options.fast_path)
    place, number = _place(leaves, options)
    request = _request(options, place, number, leaves)
    shown = progress_of(name, place)
    with _ending.held_off(), kept_interrupts() as check_interrupts, shown as progress:
        tuning = None
        if options.tune:
            machine = machine_of(place, number)
            tuning = Tuning(progress, check_interrupts, options.cache, machine, options.launch == "stream")
        kept = routing.framework_routes(request)
        allows_aten = options.allow is None or "aten" in options.allow
        if _devices.is_plugin(place):
            allows_aten &= routing.gives_to_host(request)  # torch's ops run there
        asked = kept.asked if kept is not None else None
        with own_images.compiling_for(own_images.Place(place, number, options.cache)), _flaggems.routing(asked):
            captures = captures_in(Where(place, allows_aten, kept))
        check_interrupts()
        _check_distinct(captures)
        first = captures[0].captured
        read = {name for capture in captures for name in capture.captured.parameters}
        table = ParameterTable(first.tensors, first.persistent, read)
        slots = options.slots or {}
        copies: dict[int, Any] = {}
        sharing = _slots.sharing_for(slots, options.freeze, len(captures))
        requests = [_slots.request_for(request, choice) for choice in _slots.choices(slots)]
        compiled = [
            [
                compile_module(c.module, progress, tuning, share, **own)
                for c, share in zip(captures, sharing, strict=True)
            ]
            for own in requests
        ]
        heads = [
            [
                capture.function(
                    compilation,
                    table,
                    options,
                    request=own,
                    path=path,
                    copies=copies,
                    place=place,
                    tuning=tuning,
                    sharing=share,
                )
                for capture, compilation, share in zip(captures, row, sharing, strict=True)
            ]
            for own, row in zip(requests, compiled, strict=True)
        ]
        functions = heads[0]
        if slots:
            _slots.joined([functions[0], *map(_one_of, heads[1:])], slots)
    if warns:
        explained = (json.loads(function._compilation.explain_json) for function in functions)
        routing.warn_unmatched(explained, kept.used if kept else ())
    return functions


def _one_of(functions: list[Any]) -> Any:
    """The first of some examples' functions, which hands on what does not fit it."""
    if isinstance(functions[0], CompiledElsewhere):
        functions[0]._others = tuple(functions[1:])
        return functions[0]
    return grouped(functions)


def _torch_for(model: object) -> Any:
    """The module torch, where `model` is something that it may capture."""
    if isinstance(model, (str, bytes, os.PathLike)):
        raise UserError(
            f"model is a {type(model).__name__}: sl.compile_mlir compiles mlir text and files, sl.compile itself .onnx files"
        )
    if isinstance(model, FunctionMethods):
        raise UserError("model is a compiled function: give what it was made from")
    try:
        import torch
    except ImportError as error:
        raise UserError(
            f"compile captures models by torch, which cannot be imported ({error}): pip install 'straightline[torch]'; "
            "sl.compile_mlir does without"
        ) from error
    if _frameworks.imported_torch() is None:
        why = _frameworks.not_pytorch(torch)
        raise UserError(f"compile captures models by torch, but this process's 'torch' is {why}")
    return torch


def _place(leaves: Sequence[Any], options: CompileOptions) -> tuple[str, int]:
    """Where the program runs ("cpu", "cuda:sm_NN", "NAME") and the number; refuses options without a meaning there."""
    import torch

    # Tensor subclasses are refused while capturing: nothing of theirs runs.
    with torch._C.DisableTorchFunctionSubclass():
        number = _targets.number_of(leaves)
        place = _targets.chosen(options.target, leaves, number)
        options.check(place)
        if place != "cpu":
            _targets.check_options(tune=options.tune, place=place, tensors=leaves)
        if place.startswith("cuda"):
            _targets.open_compiler()
    return place, number


def _request(options: CompileOptions, place: str, number: int = 0, leaves: Sequence[Any] = ()) -> dict[str, Any]:
    """Returns the options for `_compiler.compile`; `leaves`: the tensors that say where the program's are."""
    request = {**options.for_compiler(place), **_internal_options.current().for_compiler()}
    if place == "cpu":
        return {**request, **_threads.plan(options.threads)}
    if _devices.is_plugin(place):
        return {**request, **_devices.request(number, leaves)}
    return {**request, "threads": 1, "device": number, "tf32": _targets.tf32()}


class Where(NamedTuple):
    """Where ops run, for capture."""

    target: str = ""
    allows_aten: bool = True
    #: Which ops stay torch's.
    to_aten: routing.FrameworkRoutes | None = None


@dataclass(frozen=True)
class Capture:
    """One captured graph, and what its calls look like."""

    captured: Any
    #: The captured function as MLIR.
    module: _compiler.Module
    #: What `_signature.input_structure` gives.
    inputs: tuple[Any, ...]
    #: Tensors of the example, by the names that messages give them.
    examples: Mapping[str, Any]
    seconds: float
    uses_numpy: bool = False

    def function(
        self,
        compilation: _compiler.Compilation,
        table: ParameterTable,
        options: CompileOptions,
        *,
        request: Mapping[str, Any],
        path: tuple[bool, str],
        copies: dict[int, Any],
        place: str,
        tuning: Tuning | None,
        sharing: _slots.Sharing | None = None,
    ) -> CompiledFunction | CompiledElsewhere:
        """The program with the model's own parameters, bound to the signature of the example.

        `place`: "cpu", or a device; where that or the tensors on it are missing, or it is of another kind, this is
        something to look at.
        """
        way = _launch.chosen(options.launch, place, compilation.program)
        binding = self._binding(compilation, table, options, request=request, path=path, launch=way, tuning=tuning)
        binding = replace(binding, sharing=sharing)
        python = options.emit == "python"
        why = _targets.why_not_here(self._tensors(), place) if place != "cpu" else ""
        if why:
            tensors = [self.captured.parameters[name] for name in binding.names]
            return CompiledElsewhere(compilation, binding, why, python, tensors)
        return binding.first(compilation, self.captured.parameters, python, copies)

    def _tensors(self) -> dict[str, Any]:
        """Example tensors and parameters, by the names that messages give them."""
        parameters = self.captured.parameters.items()
        return {**self.examples} | {f"parameter {name}": tensor for name, tensor in parameters}

    def _binding(
        self,
        compilation: _compiler.Compilation,
        table: ParameterTable,
        options: CompileOptions,
        *,
        request: Mapping[str, Any],
        path: tuple[bool, str],
        launch: tuple[str | None, str],
        tuning: Tuning | None,
    ) -> Binding:
        captured, explained = self.captured, json.loads(compilation.explain_json)
        leaves = [_output_leaf(spec, captured) for spec in captured.outputs]
        return Binding(
            names=explained["parameters"],
            named_sizes=explained["named_sizes"],
            module=self.module,
            request=request,
            most=options.specialize,
            table=table,
            live=not options.freeze,
            kept=frozenset(explained["kept_parameters"]),
            complex=frozenset(name for name, tensor in captured.parameters.items() if _complex.is_complex(tensor)),
            example=", ".join(spec.text for spec in captured.inputs),
            inputs=self.inputs,
            outputs=_signature.treespec_structure(captured.out_spec, leaves),
            options={
                "kind": "numpy" if self.uses_numpy else "torch",
                "estimated_us": explained.get("estimated_us", 0.0),
                "fast_path": path[0],
                "reuse_outputs": options.reuse_outputs,
                "launch": launch[0],
            },
            name=explained["name"],
            path=path,
            seconds={"capture": self.seconds},
            launch=launch,
            tuning=tuning,
        )


def _capture_of_model(
    model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], dynamic_shapes: Any, where: Where
) -> Capture:
    """One example of a model, captured."""
    import torch

    begin = time.perf_counter()  # torch.export is imported now, which takes seconds: they are the capture's
    from straightline.capture.torch.torch_export import capture

    uses_numpy, args, kwargs = _torch_examples(args, kwargs)
    captured = capture(model, args, kwargs, dynamic_shapes, ModuleBuilder(), **where._asdict())
    target = model
    if isinstance(model, torch.export.ExportedProgram):
        args, kwargs = model.example_inputs if model.example_inputs is not None else ((), {})
        target = model.module()
    positions = [spec.argument if spec.is_tensor else -1 for spec in captured.inputs]
    offsets = {spec.argument: spec.storage_offset for spec in captured.inputs if spec.storage_offset is not None}
    leaves = enumerate(torch.utils._pytree.tree_leaves((args, kwargs)), 1)
    return Capture(
        captured,
        captured.builder.finish(),
        _signature.input_structure(target, args, kwargs, positions, offsets),
        {f"example tensor {i}": leaf for i, leaf in leaves if isinstance(leaf, torch.Tensor)},
        time.perf_counter() - begin,
        uses_numpy,
    )


def _examples(args: object, kwargs: object) -> list[tuple[Sequence[Any], Mapping[str, Any]]]:
    """Sorts out one example and several.

    A list of tuples is several examples, each the positional arguments of one; `kwargs` is then a list of as many dicts,
    or one dict for all. Anything else is one example.
    """
    if not isinstance(args, (tuple, list)):
        raise UserError(f"args is a {type(args).__name__}; give the example inputs as a tuple, also when there is one")
    several = isinstance(args, list) and len(args) > 0 and all(type(entry) is tuple for entry in args)
    count = len(args) if several else 1
    if several and isinstance(kwargs, list):
        if len(kwargs) != count:
            raise UserError(f"{count} examples are given but kwargs has {len(kwargs)} entries; give one dict for each")
        given = kwargs
    else:
        given = [kwargs] * count
    for entry in given:
        if entry is not None and not isinstance(entry, Mapping):
            raise UserError(f"kwargs is a {type(entry).__name__}; give the example keyword arguments as a dict")
        for key in entry or {}:
            if not isinstance(key, str):
                raise UserError(f"kwargs has the key {key!r}; keys are argument names")
    positional = args if several else [args]
    return [(one, dict(named or {})) for one, named in zip(positional, given, strict=True)]


def _check_distinct(captures: Sequence[Capture]) -> None:
    """Refuses an example that no call could ever reach."""
    seen: dict[str, int] = {}
    for i, capture in enumerate(captures, 1):
        key = repr((capture.captured.in_spec, [(s.text, s.strides) for s in capture.captured.inputs]))
        if key in seen:
            text = ", ".join(spec.text for spec in capture.captured.inputs)
            raise UserError(f"examples {seen[key]} and {i} are the same: {text}")
        seen[key] = i


def _torch_examples(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[bool, tuple[Any, ...], dict[str, Any]]:
    """Numpy examples as torch tensors over the same memory, for capture."""
    import numpy
    import torch
    from torch.utils import _pytree as pytree

    found = False

    def convert(leaf: Any) -> Any:
        nonlocal found
        if type(leaf).__name__ == "ArrayImpl" and type(leaf).__module__.startswith("jaxlib"):
            raise UserError("an example is an array of JAX: give a function that jax.jit made, or torch tensors")
        if isinstance(leaf, numpy.generic):
            raise UserError(f"a numpy example {_call_support.refusal(leaf, None)}")
        if not isinstance(leaf, numpy.ndarray):
            return leaf
        found = True
        if not leaf.flags.writeable:
            leaf = leaf.copy()
        if leaf.dtype.kind == "c":
            raise UnsupportedError(
                f"a numpy example has dtype {leaf.dtype}; nearest supported form: a tensor, torch.from_numpy of it"
            )
        if type(leaf) is not numpy.ndarray or leaf.dtype.kind not in "iufcb" or not leaf.dtype.isnative:
            raise UserError(f"a numpy example {_call_support.refusal(leaf, None)}")
        if any(stride < 0 or stride % leaf.itemsize for stride in leaf.strides):
            raise UserError(
                "a numpy example has negative or unaligned strides, which torch cannot capture; copy it first"
            )
        return torch.from_numpy(leaf)

    flat, spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
    new_args, new_kwargs = pytree.tree_unflatten([convert(leaf) for leaf in flat], spec)
    return found, new_args, new_kwargs


def _output_leaf(spec: Any, captured: Any) -> tuple[Any, ...]:
    import torch

    if spec.result >= 0:
        return ("complex" if spec.is_complex else "tensor", "", spec.result)
    if spec.extent is not None:
        return ("extent", "", _reverse_polish(str(spec.extent), [symbol.name for symbol in captured.symbols]))
    if isinstance(
        spec.constant, torch.Tensor
    ):  # one of the host, of a program that runs elsewhere: each call has its own
        return ("copy", "", spec.constant)
    return ("const", "", spec.constant)


def _reverse_polish(text: str, names: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Postfix steps of a size expression, as `sl_expr` has them."""
    import ast

    operators = {ast.Add: "+", ast.Mult: "*", ast.FloorDiv: "/", ast.Mod: "%"}
    tree = ast.parse(text.replace("floordiv", "//").replace(" mod ", " % "), mode="eval").body

    def steps(node: ast.expr) -> list[tuple[str, int]]:
        if isinstance(node, ast.BinOp):
            return [*steps(node.left), *steps(node.right), (operators[type(node.op)], 0)]
        if isinstance(node, ast.UnaryOp):
            return [("c", -node.operand.value)]  # type: ignore[attr-defined]
        if isinstance(node, ast.Name):
            return [("s", sorted(names).index(node.id))]
        return [("c", node.value)]  # type: ignore[attr-defined]

    return tuple(steps(tree))
