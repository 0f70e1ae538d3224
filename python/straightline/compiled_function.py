# SPDX-License-Identifier: Apache-2.0
"""`CompiledFunction`: a program with its weights and its signature, as users hold it.

Nothing here compiles: a function that was loaded from a file is one too, where there is no compiler.
"""

from __future__ import annotations

import importlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol, SupportsIndex

from straightline import (
    _call,
    _complex,
    _cubin,
    _emitted,
    _ending,
    _launch,
    _paths,
    _signature,
    _specialize,
    _targets,
    explanation,
    kernels,
    route_report,
)
from straightline._frameworks import is_paddle
from straightline._slots import Sharing, joined
from straightline._stored import Stored, tensor_of
from straightline.errors import CopyError, UnsupportedError, UserError
from straightline.parameters import ParameterTable, copied, read_safetensors

if TYPE_CHECKING:
    from straightline._tuning import Tuning
    from straightline.profile import Profile


class Code(Protocol):
    """What a function shows of how it was made: `_compiler.Compilation`, or what an artifact holds of one."""

    @property
    def program(self) -> _call.ProgramCapsule:
        """What the runtime runs."""

    @property
    def code(self) -> str:
        """Its text in C++."""

    @property
    def python(self) -> str:
        """Its text in Python; empty where a device has kernels."""

    @property
    def explain_json(self) -> str:
        """What became of every op."""

    @property
    def images(self) -> Sequence[bytes]:
        """Machine code for a device."""

    def ir(self, level: str, *, locations: bool = False) -> str:
        """The module at a level, "op" or "kernel"."""


_INSTEAD_OF_A_COPY = (
    "call it from any number of threads, give it other parameters by with_parameters(..), or compile again where it is "
    "needed, which finds its kernels in the cache"
)


def of_the_compiler(module: str) -> Any:
    """A module of the package that the runtime's own wheel does not have."""
    try:
        return importlib.import_module(f"straightline.{module}")
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("straightline"):
            raise
        raise UnsupportedError(
            "this needs the compiler, and only the runtime is installed: pip install straightline"
        ) from error


class FunctionMethods:
    """The methods and attributes of a compiled function."""

    __slots__ = ()

    _others: tuple[CompiledFunction, ...] = ()
    #: Programs for single combinations of its named sizes.
    _special: tuple[CompiledFunction, ...] = ()
    #: None: it is such a program itself, or cannot be called here.
    _specializer: Any = None
    #: Functions with other kernels, in the order of `_slots.choices`.
    _slotted: tuple[CompiledFunction, ...] = ()
    _slots: Mapping[str, Sequence[str]] = MappingProxyType({})
    _callable = True
    #: What calls it from elsewhere (torch_op.py, tvm_function.py), told of new parameters.
    _doors: tuple[Any, ...] = ()

    @property
    def _all(self) -> tuple[CompiledFunction, ...]:
        own = [program for function in (self, *self._others) for program in (function, *function._special)]
        return (*own, *(program for head in self._slotted for program in head._all))

    @property
    def examples(self) -> tuple[str, ...]:
        """The example inputs of each program, in words, in the order in which a call tries the programs.

        Those of single sizes (`specialize`) stand behind the program for all sizes, though they are tried before it.
        """
        return tuple(function._binding.example for function in self._all)

    @property
    def slots(self) -> dict[str, tuple[str, ...]]:
        """The targets of each op that has a slot (`sl.slot` chooses among them); the first is taken where nothing is chosen."""
        return {op: tuple(targets) for op, targets in self._slots.items()}

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
        """What the statements call, by backend: `fn.kernels.native.<kernel>` says what it takes.

        `fn.kernels["name"]` is a kernel that can be called by itself, on tensors.
        """
        if self._kernels is None:
            self._kernels = kernels.Kernels(self._compilation.program, self._compilation)
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
            if str(function._binding.request.get("target", "")).startswith("cuda"):
                _add_resources(explained["statements"], function._compilation.images)
            facts.append({**explained, **own})
        return explanation.Explanation(facts[0], facts[1:])

    def routes(self) -> route_report.RouteReport:
        """Which rule of `routes` and which kernel each statement has, and what the other kernels said.

        Prints as a table; `rows`, `rules` and `json()` are the same as data.
        """
        return route_report.RouteReport([json.loads(one._compilation.explain_json) for one in self._all])

    def parameters(self) -> dict[str, Any]:
        """The tensors that calls read now, parameters and buffers, by name.

        Buffers that the model updates are the tensors that were given, and with `freeze=False` all others as well.
        """
        return {name: tensor for function in self._all for name, tensor in function._binding.known(function)}

    def save(
        self,
        path: str | os.PathLike[str],
        cpus: Sequence[str] = ("x86-64-v3", "x86-64-v4"),
        *,
        prepared: bool = False,
        libraries: Sequence[str] = (),
        devices: Sequence[str] = (),
        own_libraries: str = "embed",
    ) -> None:
        """Writes the function into one file, which `straightline.load` and the C API open without a compiler.

        Args:
            path: The file. It is replaced at once when all is written, never half.
            cpus: There is code for each of these CPUs; a machine takes the one with most features that it has. An LLVM CPU or
                level, or "host": this one. The host's part of a program for a device is for the first of them.
            devices: Of a program for a CUDA device: it is compiled for each of these architectures ("sm_80", "sm_90"), which
                need not be here, and as PTX of the lowest for later ones. A device takes the nearest that it runs. By default
                there is machine code for the architecture that the program was compiled for, alone.
            prepared: The prepared weights are written too, beside the parameters: loading then prepares nothing, and
                processes share their memory. Needs that this machine can run code for each of `cpus`, and that its device
                runs code for each of `devices`.
            libraries: Back-ends that the program calls and that the file cannot hold ("aten": PyTorch's ops): they must be
                where it is loaded.
            own_libraries: The libraries of own kernels (`c_kernel`): "embed", the file holds them, or "name", it has their paths
                and digests, and they must be there unchanged where it is loaded.

        Raises:
            UserError: The file cannot be written, or a CPU or an architecture is unknown.
            UnsupportedError: The program calls a library that `libraries` does not name, or its arguments, results or weights
                have no form in a file.
        """
        of_the_compiler("artifact_writer").write(self, path, cpus, prepared, libraries, devices, own_libraries)

    def register(self, name: str) -> Any:
        """Makes the function an op of torch: `torch.ops.mylib.forward(x)` calls it without Python.

        The schema follows from the signature: tensors, lists of tensors, and the numbers and texts of the example, which calls
        have to give again; an input that the model updates is `Tensor(a!)`. There is a fake kernel, so that the op stays one
        node in exported graphs and `torch.compile`. `load_parameters` of this function reaches the op. It has no derivative:
        give it one by `torch.library.register_autograd`.

        Args:
            name: Namespace and name, such as "mylib::forward".

        Returns:
            The op as an object (`straightline.torch_op.RegisteredOp`): its `schema`, `op`, and `unregister()`.

        Raises:
            UserError: The name is taken.
            UnsupportedError: An argument or result has no place in a schema.
        """
        return of_the_compiler("torch_op").register(self, name)

    def tvm_ffi(self) -> Any:
        """The function as a `tvm_ffi.Function`, for TVM-FFI's callers in every language.

        It takes tensors of any framework, in the order of the signature, and gives tensors by the environment's allocator; or it
        takes a destination for each result behind the arguments and gives None. `load_parameters` of this function reaches it.

        Raises:
            UnsupportedError: TVM-FFI is not installed, or an argument or result is no tensor, number or text.
        """
        return of_the_compiler("tvm_function").tvm_function(self)

    def export_library(
        self,
        path: str | os.PathLike[str],
        *,
        symbol: str | None = None,
        torch_op: str | None = None,
        weights: Mapping[str, Any] | str | os.PathLike[str] | None = None,
        cpus: Sequence[str] = ("x86-64-v3", "x86-64-v4"),
        prepared: bool = False,
    ) -> None:
        """Writes the function as a shared library that needs nothing: code, weights and runtime are inside.

        Args:
            path: The library ("f.so").
            symbol: It exports `__tvm_ffi_<symbol>`, which `tvm_ffi.load_module` and C find. Of a function with slots also
                `__tvm_ffi_<symbol>_with_slots`, whose first argument is a choice ("linear = onednn"); the former takes the
                first targets.
            torch_op: `torch.ops.load_library` of it registers this op ("mylib::forward"), with torch 2.10 and later.
            weights: Parameters in place of the present ones, as `load_parameters` takes them.
            cpus: As in `save`.
            prepared: As in `save`.

        Raises:
            UserError: Neither `symbol` nor `torch_op` is given, or the file cannot be written.
            UnsupportedError: As `save` and `register`.
        """
        function = self if weights is None else self.with_parameters(weights)
        of_the_compiler("library_writer").export(function, path, symbol, torch_op, cpus, prepared)

    def machine_code(self, kernel: str) -> str:
        """The instructions of a kernel (`explain()` names them), or of `sl_program_run`, a line each, of the first program.

        Raises:
            UserError: There is no such kernel on the host.
            UnsupportedError: There is no compiler.
        """
        compiler = of_the_compiler("_compiler")
        code = self._compilation
        linked = code.linked if hasattr(code, "linked") else code.link()[0]
        try:
            return compiler.disassemble(linked, kernel)
        except UserError as error:
            names = [entry.name for backend in self.kernels for entry in backend]
            raise UserError(f"{error}; the program calls {', '.join(names)}") from error

    def explorer(
        self,
        path: str | os.PathLike[str],
        other: CompiledFunction | None = None,
        *,
        passes: bool = False,
        profile: Profile | Sequence[Profile] | None = None,
        program: int | None = None,
        machine_code: bool | None = None,
    ) -> None:
        """Writes one page with every level of the function side by side, linked line by line.

        Source, op level, kernel level and emitted code; the machine code of kernels on demand; the plan of the arena; why each
        kernel was chosen. A chooser in it changes between the function's programs. It fetches nothing.

        Args:
            path: The .html file.
            other: Another function, whose kernel level is compared with this one's.
            passes: The page has the IR after each pass too, with what the pass changed.
            profile: What `profile` returned, or several of it for several programs: the page shows the times.
            program: This program alone, by its place in `examples` from 1 on. None: all, as far as they fit in 1 MiB, packed; the
                page says which are left out.
            machine_code: True: of all kernels; False: of none; None: as much as fits in 512 KiB, packed; the page says which
                are left out.

        Raises:
            UserError: Jinja2 or Pygments is missing (`straightline[explorer]`), the file cannot be written, there is no such
                program, or a profile is of another one.
            UnsupportedError: There is no compiler.
        """
        of_the_compiler("explorer").write(
            self, path, other, passes=passes, profile=profile, program=program, machine_code=machine_code
        )

    def profile(self, *args: Any, runs: int = 100, nvtx: bool = False, **kwargs: Any) -> Profile:
        """Calls a twin of the function, compiled with hooks, and says what each statement takes.

        On the host the calling thread's clock counts, on a device events of its stream. States are updated as by calls.

        Args:
            args: Of the call.
            runs: So many calls are measured, after three that are not.
            nvtx: On a device: a range around each statement, for NVIDIA's tools.
            kwargs: Of the call.

        Raises:
            UnsupportedError: There is no compiler, or a plug-in's device has no timed events.
        """
        profile = of_the_compiler("profile").profile
        return profile(self, args, kwargs, runs, nvtx)

    def load_parameters(self, state_dict: Mapping[str, Any] | str | os.PathLike[str]) -> None:
        """Replaces parameters and buffers: runs what is prepared from them again and compiles nothing.

        Calls that are running keep the set that they began with; calls that begin later take the new one, with several
        programs all at once. A buffer that the model updates is updated in the very tensor given here.

        Args:
            state_dict: As the module's `state_dict()`: a tensor or numpy array for each name that a program reads; those
                it does not read, and buffers that are not persistent, may be left out. Tied parameters: any one name does.
                Or the path of a safetensors file with such tensors.

        Raises:
            UserError: Names every entry that is missing, unknown or of another shape, dtype, device or memory format;
                nothing is changed.
        """
        with self._settled():
            everything, sets = self._all, self._new_weights(state_dict)
            _call.publish(everything, tuple(new.capsule for new in sets))
            for function, new in zip(everything, sets, strict=True):
                function._sources = new.sources
            self._tell_doors()

    def _tell_doors(self) -> None:
        for door in self._doors:
            door.publish(self)

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
        if self._slotted:
            raise UserError("specialize is for one program, but this function has slots")
        if self._others:
            raise UserError(f"specialize is for one program but there are {len(self._others) + 1} (several examples)")
        self._specializer.now(sizes)

    def wait_for_specialized(self, timeout: float | None = None) -> bool:
        """Waits until the programs that are being made for frequent sizes are there; False: not within `timeout` seconds each."""
        return all(function._specializer.wait(timeout) for function in (self, *self._others))

    def with_parameters(self, state_dict: Mapping[str, Any] | str | os.PathLike[str]) -> CompiledFunction:
        """Another function over the same program, with parameters of its own; both may be called at once.

        Takes and raises what `load_parameters` does.
        """
        with self._settled():
            return self._over(self._new_weights(state_dict))

    def with_lora(self, adapters: Mapping[str, tuple[Any, Any, float]]) -> CompiledFunction:
        """Another function over the same program, with low-rank deltas added to some parameters; nothing is compiled.

        Args:
            adapters: By the name of a parameter W of shape [out, in, ...]: A of shape [r, in * ...], B of shape [out, r], and
                a number. W becomes W + number * (B @ A), computed in float32 or W's own type, whichever is wider. States
                are shared with this function.

        Raises:
            UserError: Names every entry that is unknown or whose shapes do not fit.
        """
        from straightline.lora import merged

        with self._settled():
            tensors = {n: t for f in self._all for n, t in zip(f._binding.names, f._binding.present(f), strict=True)}
            changed = merged(tensors, adapters, self._binding.table)
            copies: dict[int, Any] = {}
            return self._over(tuple(f._binding.weights(f, changed, copies) for f in self._all))

    def _over(self, sets: Sequence[Weights]) -> CompiledFunction:
        """A function over the same programs, a set each."""
        everything = self._all
        made = {
            id(f): f._binding.function(f._compilation, new, f._kernels, f._emitted)
            for f, new in zip(everything, sets, strict=True)
        }
        heads = [self, *self._slotted]
        for function in (program for head in heads for program in (head, *head._others)):
            if function._special:
                set_special(made[id(function)], tuple(made[id(special)] for special in function._special))
        groups = [grouped([made[id(function)] for function in (head, *head._others)]) for head in heads]
        return joined(groups, self._slots)

    def __copy__(self) -> NoReturn:
        raise CopyError(f"a compiled function cannot be copied or pickled: {_INSTEAD_OF_A_COPY}")

    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn:
        self.__copy__()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        self.__copy__()

    def _new_weights(self, state_dict: Mapping[str, Any] | str | os.PathLike[str]) -> tuple[Weights, ...]:
        if isinstance(state_dict, (str, os.PathLike)):
            state_dict = read_safetensors(state_dict, self._binding.options["kind"])
        self._binding.table.check(state_dict)
        copies: dict[int, Any] = {}
        return tuple(function._binding.weights(function, state_dict, copies) for function in self._all)


class CompiledElsewhere(FunctionMethods):
    """A program for a device that is not here: it can be looked at and saved, not called.

    It keeps the tensors that it was compiled with alive, for `save`.
    """

    _callable = False

    def __init__(self, compilation: Code, binding: Binding, why: str, python: bool, tensors: Sequence[Any]) -> None:
        self._compilation = compilation
        self._binding = binding
        self._kernels = kernels.Kernels(compilation.program, compilation) if python else None
        self._emitted = (
            _emitted.load(compilation.python, binding.name, self._kernels) if self._kernels is not None else None
        )
        self._why = why
        self._tensors = tuple(tensors)

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


CompiledFunction = _call.callable_type("straightline.CompiledFunction", FunctionMethods)


class Weights(NamedTuple):
    """A set, and the tensors that it was made of, each with its version then."""

    capsule: _call.WeightsCapsule
    sources: tuple[tuple[Any, int | None], ...]


def grouped(functions: Sequence[CompiledFunction]) -> CompiledFunction:
    """The first function, which from now on hands on what does not fit it to the others."""
    first, *others = functions
    if others:
        first._others = tuple(others)
        _call.group(first, first._others)
    return first


@dataclass(frozen=True)
class Binding:
    """The part of a compiled function beside its program and weights: names, inputs, outputs and options."""

    #: The example's arguments in words.
    example: str
    #: Names of the program's parameters in its order.
    names: list[str]
    #: Its named sizes, as `explain` has them.
    named_sizes: list[dict[str, Any]]
    module: Any
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
    #: The programs whose prepared data it shares; None: it has its own.
    sharing: Sharing | None = None
    #: What its code needs of the CPU of the request, of a program that was loaded; None: what was asked for by that name.
    features: tuple[str, ...] | None = None

    def cpu(self, compiler: Any) -> str:
        """The CPU that it was compiled for: "host" also where a saved program has this machine's name and features."""
        named = str(self.request.get("cpu") or "host")
        if self.features is None:
            return named
        name, features = compiler.cpu_features("host")
        return "host" if (name, tuple(features)) == (named, self.features) else named

    def compiled_with(self, **options: Any) -> Any:
        """A `_compiler.Compilation` of the same program with these options of `_compiler.compile` in place of its own.

        Raises:
            UnsupportedError: The compiler is not installed.
        """
        compiler = of_the_compiler("_compiler")
        module = self.module if isinstance(self.module, compiler.Module) else self.module.parsed()
        if self.sizes is not None:
            module = module.with_sizes(self.sizes)
        own = {} if self.features is None else {"cpu": self.cpu(compiler)}
        return compiler.compile(module, **{**self.request, **own, **options})

    def weights(self, function: CompiledFunction, state_dict: Mapping[str, Any], copies: dict[int, Any]) -> Weights:
        """A new set of a checked state dict; what that leaves out is taken from the function's present set."""
        parameters = self.table.tensors_of(self.names, state_dict, self.present(function))
        return self.set_of(function._compilation.program, parameters, function._emitted, copies)

    def first(
        self, compilation: Code, tensors: Mapping[str, Any], python: bool, copies: dict[int, Any]
    ) -> CompiledFunction:
        """The function of a new compilation over these tensors, by name; `python`: over emitted Python."""
        own = kernels.Kernels(compilation.program, compilation) if python else None
        emitted = _emitted.load(compilation.python, self.name, own) if own is not None else None
        begin = time.perf_counter()
        weights = self.set_of(compilation.program, [tensors[name] for name in self.names], emitted, copies)
        self.seconds["prepare"] = time.perf_counter() - begin
        return self.function(compilation, weights, own, emitted)

    def specialized(self, compilation: Code, sizes: Mapping[str, int]) -> Binding:
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
            sharing=None,
        )

    def over(self, general: CompiledFunction, compilation: Code) -> CompiledFunction:
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

    def known(self, function: CompiledFunction) -> Iterator[tuple[str, Any]]:
        """Names and tensors of a function's set as users know them."""
        held, given = _call.parameters(function._weights), (tensor for tensor, _ in function._sources)
        for name, now, first in zip(self.names, held, given, strict=True):
            if name not in self.complex:
                yield name, tensor_of(now)
            elif is_paddle(first) and (self.live or name not in self.kept):
                yield name, first  # what Paddle makes of the parts is a copy
            else:
                yield name, _complex.whole(tensor_of(now), in_torch=self.options["kind"] == "torch")

    def present(self, function: CompiledFunction) -> list[Any]:
        """The tensors of a function's set, in order: those that were given, but for copies."""
        if isinstance(function, CompiledElsewhere):
            return list(function._tensors)
        held = _call.parameters(function._weights)
        given = [tensor for tensor, _ in function._sources]
        if self.live:
            return [g if name in self.complex else h for name, h, g in zip(self.names, held, given, strict=True)]
        return [h if name in self.kept else g for name, h, g in zip(self.names, held, given, strict=True)]

    def set_of(
        self,
        program: _call.ProgramCapsule,
        tensors: Sequence[Any],
        emitted: _emitted.Emitted | None,
        copies: dict[int, Any],
        prepared: Any = None,
    ) -> Weights:
        """A set of these tensors. `copies` holds those made so far, so that several programs share them.

        `prepared`: where an artifact has the prepared data (artifact, program, variant).
        """
        own = []
        for name, tensor in zip(self.names, tensors, strict=True):
            if isinstance(tensor, Stored):
                own.append(tensor.place)
                continue
            if not self.live and name in self.kept:
                if id(tensor) not in copies:
                    copies[id(tensor)] = (tensor, copied(tensor))
                tensor = copies[id(tensor)][1]
            own.append(_complex.real(tensor))
        _targets.settle(own)
        sources = tuple((tensor, _specialize.version(tensor)) for tensor in tensors)
        prepare = emitted.prepare if emitted is not None else prepared
        shared = self.sharing.argument(copies) if self.sharing is not None else None
        made = _call.weights(program, own, self.live, prepare, shared)
        if self.sharing is not None:
            self.sharing.keep(copies, made)
        return Weights(made, sources)

    def function(
        self,
        compilation: Code,
        weights: Weights,
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


def set_special(function: CompiledFunction, programs: tuple[CompiledFunction, ...]) -> None:
    """Has calls of the very sizes of one of the programs take that."""
    function._special = programs
    _call.specialize(function, programs)
    function._tell_doors()


def _specialize_for(function: CompiledFunction, sizes: Mapping[str, int], in_background: bool) -> None:
    """Compiles a function's program for sizes alone, over its present parameters, and has calls of these sizes take it."""
    from straightline._compilation import compile_module, progress_of

    binding = function._binding
    progress = progress_of(f"{binding.name} for {dict(sizes)}", binding.request["target"])
    with ExitStack() as stack:
        stack.enter_context(_ending.held_off())
        stack.enter_context(_targets.apart(binding.request) if in_background else progress)
        module = binding.module.with_sizes(sizes)
        compilation = compile_module(module, progress, None, **binding.request)
        stack.enter_context(function._specializer.lock)
        special = binding.specialized(compilation, sizes)
        set_special(function, (*function._special, special.over(function, compilation)))


def _add_resources(statements: list[dict[str, Any]], images: Sequence[bytes]) -> None:
    """Adds to each row the registers, shared memory and stack of its kernel for a device, read from the machine code."""
    of = {found.kernel: found for image in images for found in _cubin.resources_of(image)}
    for row in statements:
        if taken := of.get(row["kernel"]):
            row.update(registers=taken.registers, shared_bytes=taken.shared, stack_bytes=taken.stack)
