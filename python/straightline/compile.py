# SPDX-License-Identifier: Apache-2.0
"""`compile`: a model and example inputs become a callable that runs straight-line machine code."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn, SupportsIndex

from straightline import (
    _aten_calls,
    _call,
    _call_support,
    _compiler,
    _complex,
    _cubin,
    _emitted,
    _ending,
    _frameworks,
    _internal_options,
    _launch,
    _paths,
    _signature,
    _specialize,
    _targets,
    _threads,
    explanation,
    kernels,
)
from straightline._interrupts import kept_interrupts
from straightline._progress import CompileProgress
from straightline._tuning import Tuning, processor
from straightline.errors import CacheWarning, CopyError, PlaceError, UnsupportedError, UserError
from straightline.module_builder import ModuleBuilder
from straightline.options import CompileOptions, takes_options
from straightline.parameters import ParameterTable, copied

_INSTEAD_OF_A_COPY = (
    "call it from any number of threads, give it other parameters by with_parameters(..), or compile again where it is "
    "needed, which finds its kernels in the cache"
)


class _Methods:
    """The methods and attributes of a compiled function."""

    __slots__ = ()

    _others: tuple[CompiledFunction, ...] = ()
    #: Programs for single combinations of its named sizes.
    _special: tuple[CompiledFunction, ...] = ()
    #: None: it is such a program itself, or cannot be called here.
    _specializer: Any = None

    @property
    def _all(self) -> tuple[CompiledFunction, ...]:
        return tuple(program for function in (self, *self._others) for program in (function, *function._special))

    @property
    def examples(self) -> tuple[str, ...]:
        """The example inputs of each program, in words, in the order in which a call tries the programs.

        Those of single sizes (`specialize`) stand behind the program for all sizes, though they are tried before it.
        """
        return tuple(function._binding.example for function in self._all)

    def _texts(self, texts: Sequence[str]) -> str:
        """One text a program, headed by its example when there are several."""
        if len(texts) == 1:
            return texts[0]
        mark = "//" if self._emitted is None else "#"
        heads = [f"{mark} example {i}: {example}" for i, example in enumerate(self.examples, 1)]
        return "\n".join(f"{head}\n{text}" for head, text in zip(heads, texts, strict=True))

    @property
    def code(self) -> str:
        """What runs: C++ (kernels, prepare, run and the tables, as one translation unit) or Python (prepare and run).

        With several examples the text of each program. With `emit="python"` other text may be assigned: the same with a
        `print` in it, say. The next call runs it.
        """
        return self._texts([f._compilation.code if f._emitted is None else f._emitted.text for f in self._all])

    @code.setter
    def code(self, text: str) -> None:
        if self._emitted is None:
            raise UserError("code can be replaced with emit='python' only: C++ is compiled once")
        if len(self._all) > 1:
            raise UserError(f"code is the text of {len(self._all)} programs: compile for one example to replace it")
        if not isinstance(text, str):
            raise UserError(f"code is a {type(text).__name__} but must be text")
        self._emitted = _emitted.load(text, self._binding.name, self.kernels)
        self._python = self._emitted.run

    @property
    def run(self) -> Callable[[Any], None]:
        """The emitted Python function that runs, for `inspect`, `dis` and breakpoints.

        Raises:
            UserError: C++ was emitted.
        """
        if self._emitted is None:
            raise UserError("run is a python function with emit='python' only")
        return self._emitted.run

    @property
    def kernels(self) -> kernels.Kernels:
        """What the statements call, by backend: `fn.kernels.native.<kernel>` says what it takes."""
        if self._kernels is None:
            self._kernels = kernels.Kernels(self._compilation.program)
        return self._kernels

    def ir(self, level: str = "kernel", *, locations: bool = False) -> str:
        """The program as MLIR.

        Args:
            level: "op" (values, as captured) or "kernel" (buffers and statements, as emitted).
            locations: Print the source location of each op.
        """
        if level not in ("op", "kernel"):
            raise UserError(f"no IR level {level!r}: 'op' or 'kernel'")
        return self._texts([function._compilation.ir(level, locations=locations) for function in self._all])

    def explain(self) -> explanation.Explanation:
        """What became of every op: kernel, backend, why, bytes, and the path that a call here takes.

        Prints as a table, one for each program.
        """
        facts = []
        for function in self._all:
            fast, reason = _paths.here(function._binding.path)
            path = "interpreter" if not fast else "straight line" if function._emitted is None else "python"
            own = {"example": function._binding.example, "path": path, "path_reason": reason}
            own.update(_launch.facts(function._binding.launch))
            special = function._specializer.entries if function._specializer is not None else {}
            own["specialized"] = function._binding.sizes
            own["specializing"] = [entry.facts() for entry in special.values()]
            explained = json.loads(function._compilation.explain_json)
            explained["compile_seconds"].update(function._binding.seconds)
            if function._binding.tuning is not None:
                function._binding.tuning.explain(explained["statements"])
            _add_resources(explained["statements"], function._compilation.images)
            facts.append({**explained, **own})
        return explanation.Explanation(facts[0], facts[1:])

    def parameters(self) -> dict[str, Any]:
        """The tensors that calls read now, parameters and buffers, by name.

        Buffers that the model updates are the tensors that were given, and with `freeze=False` all others as well.
        """
        return {
            name: _complex.whole(tensor) if name in function._binding.complex else tensor
            for function in self._all
            for name, tensor in zip(function._binding.names, _call.parameters(function._weights), strict=True)
        }

    def load_parameters(self, state_dict: Mapping[str, Any]) -> None:
        """Replaces parameters and buffers: runs what is prepared from them again and compiles nothing.

        Calls that are running keep the set that they began with; calls that begin later take the new one, with several
        programs all at once. A buffer that the model updates is updated in the very tensor given here.

        Args:
            state_dict: As the module's `state_dict()`: a tensor or numpy array for each name that a program reads; those
                it does not read, and buffers that are not persistent, may be left out. Tied parameters: any one name does.

        Raises:
            UserError: Names every entry that is missing, unknown or of another shape, dtype, device or memory format;
                nothing is changed.
        """
        with self._settled():
            everything, sets = self._all, self._new_weights(state_dict)
            _call.publish(everything, tuple(new.capsule for new in sets))
            for function, new in zip(everything, sets, strict=True):
                function._sources = new.sources

    @contextmanager
    def _settled(self) -> Iterator[None]:
        """No program for frequent sizes begins to count within this."""
        with ExitStack() as stack:
            for function in (self, *self._others):
                stack.enter_context(function._specializer.lock)
            yield

    def specialize(self, sizes: Mapping[str, int]) -> None:
        """Compiles a program for these sizes now, unless there is one: calls that have them go to it.

        A program of fixed sizes can be faster than that for all sizes, and has prepared weights of its own. With the option
        `specialize` such programs are made of themselves, for sizes that come often.

        Args:
            sizes: Each named size but those that depend on data, by the name in `explain().facts["named_sizes"]`.

        Raises:
            UserError: The names are others, a size is beyond its bounds, or parameters were changed since they were prepared.
        """
        if self._others:
            raise UserError(f"specialize is for one program but there are {len(self._others) + 1} (several examples)")
        self._specializer.now(sizes)

    def wait_for_specialized(self, timeout: float | None = None) -> bool:
        """Waits until the programs that are being made for frequent sizes are there; False: not within `timeout` seconds each."""
        return all(function._specializer.wait(timeout) for function in (self, *self._others))

    def with_parameters(self, state_dict: Mapping[str, Any]) -> CompiledFunction:
        """Another function over the same program, with parameters of its own; both may be called at once.

        Takes and raises what `load_parameters` does.
        """
        with self._settled():
            everything, sets = self._all, self._new_weights(state_dict)
        made = {
            id(f): f._binding.function(f._compilation, new, f._kernels, f._emitted)
            for f, new in zip(everything, sets, strict=True)
        }
        programs = (self, *self._others)
        for function in programs:
            if function._special:
                _set_special(made[id(function)], tuple(made[id(special)] for special in function._special))
        return _grouped([made[id(function)] for function in programs])

    def __copy__(self) -> NoReturn:
        raise CopyError(f"a compiled function cannot be copied or pickled: {_INSTEAD_OF_A_COPY}")

    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn:
        self.__copy__()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        self.__copy__()

    def _new_weights(self, state_dict: Mapping[str, Any]) -> tuple[_Weights, ...]:
        self._binding.table.check(state_dict)
        copies: dict[int, Any] = {}
        return tuple(function._binding.weights(function, state_dict, copies) for function in self._all)


class CompiledElsewhere(_Methods):
    """A program for a device that is not here: it can be looked at, not called."""

    def __init__(self, compilation: _compiler.Compilation, binding: _Binding, why: str, python: bool) -> None:
        self._compilation = compilation
        self._binding = binding
        self._kernels = kernels.Kernels(compilation.program) if python else None
        self._emitted = (
            _emitted.load(compilation.python, binding.name, self._kernels) if self._kernels is not None else None
        )
        self._why = why

    def _refuse(self) -> UnsupportedError:
        target = json.loads(self._compilation.explain_json)["target"]
        return UnsupportedError(f"this program was compiled for cuda:{target} and cannot run here: {self._why}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raises UnsupportedError, which says what is missing."""
        raise self._refuse()

    def parameters(self) -> dict[str, Any]:
        """Raises UnsupportedError: there is no set of parameters."""
        raise self._refuse()

    def specialize(self, sizes: Mapping[str, int]) -> None:
        """Raises UnsupportedError: there is no set of parameters."""
        raise self._refuse()

    def load_parameters(self, state_dict: Mapping[str, Any]) -> None:
        """Raises UnsupportedError: there is no set of parameters."""
        raise self._refuse()

    def with_parameters(self, state_dict: Mapping[str, Any]) -> CompiledFunction:
        """Raises UnsupportedError: there is no set of parameters."""
        raise self._refuse()


CompiledFunction = _call.callable_type("straightline.CompiledFunction", _Methods)


class _Weights(NamedTuple):
    """A set, and the tensors that it was made of, each with its version then."""

    capsule: _call.WeightsCapsule
    sources: tuple[tuple[Any, int | None], ...]


def _grouped(functions: Sequence[CompiledFunction]) -> CompiledFunction:
    """The first function, which from now on hands on what does not fit it to the others."""
    first, *others = functions
    if others:
        first._others = tuple(others)
        _call.group(first, first._others)
    return first


#: Front ends beside torch's: whether one takes a model, and what compiles it. The package fills it.
FRONT_ENDS: list[tuple[Callable[[Any], bool], Callable[..., Any]]] = []


@takes_options
def compile(
    model: Any,
    args: Sequence[Any] | list[tuple[Any, ...]] = (),
    kwargs: Mapping[str, Any] | list[Mapping[str, Any]] | None = None,
    *,
    dynamic_shapes: Any = None,
    values: Mapping[str, Any] | None = None,
    sizes: Mapping[str, Any] | None = None,
    options: CompileOptions | None = None,
    **changes: Any,
) -> Callable[..., Any]:
    """Compiles a model for inputs like the examples.

    Args:
        model: A `torch.nn.Module` in eval mode, a function or lambda over tensors, or a `torch.export.ExportedProgram`. Or
            an ONNX model: the path of an .onnx file, bytes, or a `ModelProto`, which needs no torch (`onnx_model.compile_onnx`).
        args: Example positional arguments: torch tensors or numpy arrays; a call must have their dtypes, sizes and strides.
            A list of tuples is several examples: there is one program for each, over one set of parameters, and a call
            takes the first that fits.
        kwargs: Example keyword arguments; with several examples one dict for all of them, or a list with one for each.
        dynamic_shapes: As in `torch.export.export`: sizes given as a `torch.export.Dim` may differ between calls.
        values: Of an ONNX model: inputs by name whose values the program may depend on.
        sizes: Of an ONNX model: a number, or the smallest and largest, for named sizes.
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
    for takes, compile_with in FRONT_ENDS:
        if takes(model):
            given = {"dynamic_shapes": dynamic_shapes, "values": values, "sizes": sizes, "options": options}
            return compile_with(model, args, kwargs, **given, **changes)
    if values is not None or sizes is not None:
        raise UserError("values and sizes are of ONNX models; named sizes of torch's are in dynamic_shapes")
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
    if isinstance(functions[0], CompiledElsewhere):
        functions[0]._others = tuple(functions[1:])
        return functions[0]
    return _grouped(functions)


def compiled(
    captures_in: Callable[[Where], list[Capture]], leaves: Sequence[Any], options: CompileOptions, name: str
) -> list[CompiledFunction | CompiledElsewhere]:
    """A function for each of some captures, over one set of parameters.

    Args:
        captures_in: Captures for the place that it gets.
        leaves: Tensors that say where that is.
        options: Checked here.
        name: What is compiled, for the display of progress.
    """
    _aten_calls.install()
    path = _paths.chosen(options.fast_path)
    place, number = _place(leaves, options)
    request = _request(options, place, number)
    shown = _progress(name, place)
    with _ending.held_off(), kept_interrupts() as check_interrupts, shown as progress:
        tuning = None
        if options.tune:
            machine = processor() if place == "cpu" else _targets.machine(number)
            tuning = Tuning(progress, check_interrupts, options.cache, machine, options.launch == "stream")
        allows_aten = options.allow is None or "aten" in options.allow
        captures = captures_in(Where(place, allows_aten, _to_aten(request)))
        check_interrupts()
        _check_distinct(captures)
        first = captures[0].captured
        read = {name for capture in captures for name in capture.captured.parameters}
        table = ParameterTable(first.tensors, first.persistent, read)
        functions = []
        copies: dict[int, Any] = {}
        for capture in captures:
            compilation = _compile(capture.module, progress, tuning, **request)
            function = capture.function(
                compilation, table, options, request=request, path=path, copies=copies, place=place, tuning=tuning
            )
            functions.append(function)
    return functions


def _progress(name: str, place: str) -> CompileProgress:
    return CompileProgress(name, "clang" if place == "cpu" else "NVRTC and clang")


def _torch_for(model: object) -> Any:
    """The module torch, where `model` is something that it may capture."""
    if isinstance(model, (str, bytes, os.PathLike)):
        raise UserError(
            f"model is a {type(model).__name__}: sl.compile_mlir compiles mlir text and files, sl.compile itself .onnx files"
        )
    if isinstance(model, _Methods):
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
    """Returns where the program runs, "cpu" or "cuda:sm_NN", and the device's number; refuses options without a meaning there."""
    import torch

    # Tensor subclasses are refused while capturing: nothing of theirs runs.
    with torch._C.DisableTorchFunctionSubclass():
        number = _targets.number_of(leaves)
        place = _targets.chosen(options.target, leaves, number)
        options.check(place)
        if place != "cpu":
            _targets.check_options(tune=options.tune, place=place, tensors=leaves)
            _targets.open_compiler()
    return place, number


def _request(options: CompileOptions, place: str, number: int = 0) -> dict[str, Any]:
    """Returns the options for `_compiler.compile`."""
    request = {**options.for_compiler(place), **_internal_options.current().for_compiler()}
    if place == "cpu":
        return {**request, **_threads.plan(options.threads)}
    return {**request, "threads": 1, "device": number, "tf32": _targets.tf32()}


class Where(NamedTuple):
    """Where ops run, for capture."""

    target: str = ""
    allows_aten: bool = True
    #: Ops that stay torch's, each with who said so.
    to_aten: Mapping[str, str] = MappingProxyType({})


def _to_aten(request: Mapping[str, Any]) -> dict[str, str]:
    """The routes to `aten` of the options and of the environment."""
    variables = ("STRAIGHTLINE_ROUTE_", "STRAIGHTLINE_ROUTES")
    if "aten" not in request.get("routes", {}).values() and not any(name.startswith(variables) for name in os.environ):
        return {}
    routes = json.loads(_compiler.routes_json(**request))
    return {op: origin for op, (kernel, origin) in routes.items() if kernel == "aten"}


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
    ) -> CompiledFunction | CompiledElsewhere:
        """The program with the model's own parameters, bound to the signature of the example.

        `place`: "cpu", or a CUDA device; where that or the tensors on it are missing, or it is of another kind, this is
        something to look at.
        """
        way = _launch.chosen(options.launch, place, compilation.program)
        binding = self._binding(compilation, table, options, request=request, path=path, launch=way, tuning=tuning)
        python = options.emit == "python"
        why = _targets.why_not_here(self._tensors(), place) if place != "cpu" else ""
        if why:
            return CompiledElsewhere(compilation, binding, why, python)
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
    ) -> _Binding:
        captured, explained = self.captured, json.loads(compilation.explain_json)
        leaves = [_output_leaf(spec, captured) for spec in captured.outputs]
        return _Binding(
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


@dataclass(frozen=True)
class _Binding:
    """The part of a compiled function beside its program and weights: names, inputs, outputs and options."""

    #: The example's arguments in words.
    example: str
    #: Names of the program's parameters in its order.
    names: list[str]
    #: Its named sizes, as `explain` has them.
    named_sizes: list[dict[str, Any]]
    module: _compiler.Module
    #: Options of its compilation.
    request: Mapping[str, Any]
    #: So many programs are made for frequent sizes.
    most: int
    table: ParameterTable
    #: The set follows the tensors that were given when these get other storage or values. Else it has copies of what `run` reads.
    live: bool
    #: Names of the parameters that `run` reads as they are.
    kept: frozenset[str]
    #: Names of the parameters that are complex: the program has their memory as real numbers.
    complex: frozenset[str]
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    options: _call.Options
    name: str
    #: What `_paths.chosen` gave.
    path: tuple[bool, str]
    #: How long what is done here took: "capture" where there was one, and "prepare" of the first set.
    seconds: dict[str, float] = field(default_factory=dict)
    #: What `_launch.chosen` gave.
    launch: tuple[str | None, str] = (None, "")
    #: What was measured for it; None: nothing.
    tuning: Tuning | None = None
    #: Of a program for these sizes alone.
    sizes: Mapping[str, int] | None = None

    def weights(self, function: CompiledFunction, state_dict: Mapping[str, Any], copies: dict[int, Any]) -> _Weights:
        """A new set of a checked state dict; what that leaves out is taken from the function's present set."""
        parameters = self.table.tensors_of(self.names, state_dict, self.present(function))
        return self.set_of(function._compilation.program, parameters, function._emitted, copies)

    def first(
        self, compilation: _compiler.Compilation, tensors: Mapping[str, Any], python: bool, copies: dict[int, Any]
    ) -> CompiledFunction:
        """The function of a new compilation over these tensors, by name; `python`: over emitted Python."""
        own = kernels.Kernels(compilation.program) if python else None
        emitted = _emitted.load(compilation.python, self.name, own) if own is not None else None
        begin = time.perf_counter()
        weights = self.set_of(compilation.program, [tensors[name] for name in self.names], emitted, copies)
        self.seconds["prepare"] = time.perf_counter() - begin
        return self.function(compilation, weights, own, emitted)

    def specialized(self, compilation: _compiler.Compilation, sizes: Mapping[str, int]) -> _Binding:
        """That of a program for single sizes."""
        explained = json.loads(compilation.explain_json)
        symbols = [row["name"] for row in self.named_sizes]
        launch = _launch.chosen(self.request.get("launch"), self.request["target"], compilation.program)
        return replace(
            self,
            names=explained["parameters"],
            named_sizes=explained["named_sizes"],
            kept=frozenset(explained["kept_parameters"]),
            example=f"{self.example} for {', '.join(f'{name} = {size}' for name, size in sizes.items())}",
            outputs=_signature.with_sizes(self.outputs, symbols, sizes),
            options={**self.options, "estimated_us": explained.get("estimated_us", 0.0), "launch": launch[0]},
            seconds={},
            launch=launch,
            tuning=None,
            sizes=dict(sizes),
        )

    def over(self, general: CompiledFunction, compilation: _compiler.Compilation) -> CompiledFunction:
        """The function of a program for single sizes, over the present parameters of that for all.

        Raises:
            UserError: A parameter may have other values than when it was prepared for that one.
        """
        copies: dict[int, Any] = {}
        tensors = dict(zip(general._binding.names, general._binding.present(general), strict=True))
        versions = {name: at for name, (_, at) in zip(general._binding.names, general._sources, strict=True)}
        states = {row["name"] for row in json.loads(self.module.parameters_json) if row["kind"] == "state"}
        for name in () if self.live else self.names:
            tensor = tensors[name]
            if name in general._binding.kept:
                copies[id(tensor)] = (tensor, tensor)  # a copy already
            elif name not in states and (versions[name] is None or _specialize.version(tensor) != versions[name]):
                told = (
                    "was written in place since it was prepared"
                    if versions[name] is not None
                    else "may be written unseen"
                )
                raise UserError(
                    f"parameter {name} {told}, so that a program of its own might have other values: call load_parameters, "
                    "or compile with freeze=False"
                )
        return self.first(compilation, tensors, general._emitted is not None, copies)

    def present(self, function: CompiledFunction) -> list[Any]:
        """The tensors of a function's set, in order: those that were given, but for copies."""
        held = _call.parameters(function._weights)
        if self.live:
            return held
        given = [tensor for tensor, _ in function._sources]
        return [h if name in self.kept else g for name, h, g in zip(self.names, held, given, strict=True)]

    def set_of(
        self,
        program: _call.ProgramCapsule,
        tensors: Sequence[Any],
        emitted: _emitted.Emitted | None,
        copies: dict[int, Any],
    ) -> _Weights:
        """A set of these tensors. `copies` holds those made so far, so that several programs share them."""
        own = []
        for name, tensor in zip(self.names, tensors, strict=True):
            if not self.live and name in self.kept:
                if id(tensor) not in copies:
                    copies[id(tensor)] = (tensor, copied(tensor))
                tensor = copies[id(tensor)][1]
            own.append(_complex.real(tensor))
        _targets.settle(own)
        sources = tuple((tensor, _specialize.version(tensor)) for tensor in tensors)
        prepare = emitted.prepare if emitted is not None else None
        return _Weights(_call.weights(program, own, self.live, prepare), sources)

    def function(
        self,
        compilation: _compiler.Compilation,
        weights: _Weights,
        own: kernels.Kernels | None,
        emitted: _emitted.Emitted | None,
    ) -> CompiledFunction:
        """A function of its own over the program, and over emitted Python where there is any."""
        made = CompiledFunction(compilation.program, weights.capsule, self.inputs, self.outputs, self.options)
        made._compilation, made._binding, made._kernels, made._emitted = compilation, self, own, emitted
        made._sources = weights.sources
        if self.sizes is None:
            names = [row["name"] for row in self.named_sizes if not row["depends_on_data"]]
            made._specializer = _specialize.Specializer(made, names, self.most, _specialize_for)
        if emitted is not None:
            made._python = emitted.run
        kernels.register(made)
        return made


def _set_special(function: CompiledFunction, programs: tuple[CompiledFunction, ...]) -> None:
    function._special = programs
    _call.specialize(function, programs)


def _specialize_for(function: CompiledFunction, sizes: Mapping[str, int], in_background: bool) -> None:
    """Compiles a function's program for sizes alone, over its present parameters, and has calls of these sizes take it."""
    binding = function._binding
    progress = _progress(f"{binding.name} for {dict(sizes)}", binding.request["target"])
    with ExitStack() as stack:
        stack.enter_context(_ending.held_off())
        stack.enter_context(_targets.apart(binding.request) if in_background else progress)
        module = binding.module.with_sizes(sizes)
        compilation = _compile(module, progress, None, **binding.request)
        stack.enter_context(function._specializer.lock)
        special = binding.specialized(compilation, sizes)
        _set_special(function, (*function._special, special.over(function, compilation)))


def _add_resources(statements: list[dict[str, Any]], images: Sequence[bytes]) -> None:
    """Adds to each row the registers, shared memory and stack of its kernel for a device, read from the machine code."""
    of = {found.kernel: found for image in images for found in _cubin.resources_of(image)}
    for row in statements:
        if taken := of.get(row["kernel"]):
            row.update(registers=taken.registers, shared_bytes=taken.shared, stack_bytes=taken.stack)


def _compile(
    module: _compiler.Module, progress: CompileProgress, tuning: Tuning | None, **options: Any
) -> _compiler.Compilation:
    """Compiles, and hands on what the disk cache had to say (a damaged entry, a folder that cannot be written)."""
    with _ending.allowed():
        options = options if tuning is None else tuning.options(module, options)
        progress.compilation = _compiler.Progress()
        compilation = _compiler.compile(module, progress=progress.compilation, **options)
    for note in compilation.notes.splitlines():
        warnings.warn(note, CacheWarning, stacklevel=3)
    return compilation


def _torch_examples(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[bool, tuple[Any, ...], dict[str, Any]]:
    """Numpy examples as torch tensors over the same memory, for capture."""
    import numpy
    import torch
    from torch.utils import _pytree as pytree

    found = False

    def convert(leaf: Any) -> Any:
        nonlocal found
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
