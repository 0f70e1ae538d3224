# SPDX-License-Identifier: Apache-2.0
"""`compile_mlir`: op-level MLIR as text and parameters by name become a callable. Needs no framework."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from straightline import (
    _aten_calls,
    _compiler,
    _devices,
    _labels,
    _launch,
    _paths,
    _signature,
    _slots,
    _targets,
    routing,
)
from straightline._compilation import compile_module
from straightline._interrupts import kept_interrupts
from straightline._progress import CompileProgress
from straightline._tuning import Tuning, machine_of
from straightline.compiled_function import Binding, CompiledElsewhere, CompiledFunction
from straightline.errors import UnsupportedError, UserError
from straightline.options import CompileOptions, takes_options
from straightline.parameters import DeclaredParameter, ParameterTable, read_safetensors
from straightline.torch_model import _request

#: Element types of the IR, as numpy and torch name them.
DTYPES = {
    "f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16", "i1": "bool", "i8": "int8",
    "i16": "int16", "i32": "int32", "i64": "int64", "ui8": "uint8", "ui16": "uint16", "ui32": "uint32", "ui64": "uint64",
    "f8E4M3FN": "float8_e4m3fn", "f8E4M3FNUZ": "float8_e4m3fnuz", "f8E5M2": "float8_e5m2", "f8E5M2FNUZ": "float8_e5m2fnuz",
    "f8E8M0FNU": "float8_e8m0fnu",
}  # fmt: skip


@dataclass(frozen=True)
class Calls:
    """What calls of a captured function look like: nodes of `_signature`."""

    #: As `_signature.input_structure` gives them.
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    #: How long capture took.
    seconds: float = 0.0
    #: The framework of results where a call has no array ("torch", "numpy", "jax"); "": that of the parameters.
    kind: str = ""
    #: Names of the parameters of complex numbers: the program has their memory as real numbers.
    complex: frozenset[str] = frozenset()


@takes_options
def compile_mlir(
    source: str | bytes | os.PathLike[str],
    parameters: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    *,
    options: CompileOptions | None = None,
    **changes: Any,
) -> CompiledFunction:
    """Compiles a function of the `op` dialect, such as `fn.ir("op")` gives.

    Args:
        source: A path, or the text itself: a string with a line break or a brace in it is text, any other is a path. Bytes
            are text or MLIR bytecode.
        parameters: A numpy array or tensor for each name that the module declares (`op.parameter` and `op.state`): a dict,
            or the path of a safetensors file. A state is updated in the array given; with `freeze` the others are packed
            or copied, else borrowed.
        options: What `CompileOptions` says; by default its defaults. Programs from text are for the cpu, or for the device
            of a plug-in (`target="NAME"`).
        changes: Options by name, over those of `options`. An unknown name is refused with those that are near.

    Returns:
        A callable that takes the function's arguments, by position or by their `op.name`, as numpy arrays or torch tensors,
        and gives results of the same kind: one as it is, several as a tuple, none as None.

    Raises:
        UserError: The text is malformed or breaks the op level's rules, a file cannot be read, or parameters are missing,
            unknown or of another shape or dtype; all of them are named.
        UnsupportedError: Some op has no kernel.
        InternalError: A bug; the message names the file that keeps what reproduces it.
    """
    chosen = CompileOptions.of(options, changes, compile_mlir)
    place = _place(chosen)
    text, name = _text(source)
    module = _compiler.Module.parse(text, name)
    declared = [_declared(row) for row in json.loads(module.parameters_json)]
    table = ParameterTable.of_declared(declared)
    given = _parameters(parameters, declared)
    table.check(given, f"the parameters do not fit {name}")
    return compiled_module(module, table, given, chosen, place=place)


def _place(chosen: CompileOptions) -> str:
    """Where a program from text runs: the cpu, or the device of a plug-in, with its arrays in host memory."""
    place = "cpu"
    if chosen.target not in (None, "cpu"):
        found = _devices.place_of((), chosen.target)
        if found is None:
            names = "".join(f", '{name}'" for name in _devices.names())
            raise UserError(
                f"target is {chosen.target!r} but must be None or 'cpu'{names}: programs from mlir are for the cpu and for "
                "devices of plug-ins"
            )
        place = found
        _targets.check_options(tune=chosen.tune, place=place, tensors=())
    chosen.check(place)
    return place


def compiled_module(
    module: _compiler.Module,
    table: ParameterTable,
    given: Mapping[str, Any],
    chosen: CompileOptions,
    structures: Sequence[Any] | None = None,
    arguments: Sequence[tuple[str, Any]] | None = None,
    place: str = "cpu",
    number: int = 0,
    calls: Calls | None = None,
) -> CompiledFunction | CompiledElsewhere:
    """A module as a callable over arrays.

    Args:
        module: The function of it is compiled.
        table: Its parameters.
        given: An array for each of them.
        chosen: The options, checked.
        structures: What a call returns, as a tuple where there are several: numbers of results, lists of such, None, text
            (`Labels`). By default every result.
        arguments: What a call gives, by name: the number of an argument of the function, a list of such, None. By default every
            argument.
        place: "cpu", or a CUDA device's architecture ("cuda:sm_90"): then calls take and give tensors of torch there. Or a
            plug-in's device ("NAME"), whose programs take and give arrays in host memory.
        number: The device's.
        calls: What calls look like, in place of `structures` and `arguments`.
    """
    request = _request(chosen, place, number)
    slots = chosen.slots or {}
    (sharing,) = _slots.sharing_for(slots, chosen.freeze, 1)
    requests = [_slots.request_for(request, choice) for choice in _slots.choices(slots)]
    compiled = [_compiled(own, module, chosen, sharing) for own in requests]
    copies: dict[int, Any] = {}
    return _slots.joined(
        [
            _bound(own, *one, module, table, given, chosen, structures, arguments, number, calls, sharing, copies)
            for own, one in zip(requests, compiled, strict=True)
        ],
        slots,
    )


def _compiled(
    request: dict[str, Any], module: _compiler.Module, chosen: CompileOptions, sharing: _slots.Sharing | None
) -> tuple[_compiler.Compilation, Tuning | None]:
    """The compilation for one request, and what was measured for it."""
    _aten_calls.install()
    with kept_interrupts() as check_interrupts, CompileProgress() as progress:
        place = request["target"]
        machine = "" if not chosen.tune or place.startswith("cuda") else machine_of(place, request.get("device", 0))
        tuning = Tuning(progress, check_interrupts, chosen.cache, machine) if chosen.tune else None
        return compile_module(module, progress, tuning, sharing, **request), tuning


def _bound(
    request: dict[str, Any],
    compilation: _compiler.Compilation,
    tuning: Tuning | None,
    module: _compiler.Module,
    table: ParameterTable,
    given: Mapping[str, Any],
    chosen: CompileOptions,
    structures: Sequence[Any] | None,
    arguments: Sequence[tuple[str, Any]] | None,
    number: int,
    calls: Calls | None,
    sharing: _slots.Sharing | None,
    copies: dict[int, Any],
) -> CompiledFunction | CompiledElsewhere:
    """What `compiled_module` gives, for one request."""
    path, place = _paths.chosen(chosen.fast_path), request["target"]
    explained = json.loads(compilation.explain_json)
    routing.warn_unmatched([explained])
    inputs = [(row["name"] or f"input{i}", row) for i, row in enumerate(explained["inputs"])]
    if arguments is None:
        arguments = [(argument, i) for i, (argument, _) in enumerate(inputs)]
    if structures is None:
        structures = range(len(explained["results"]))
    results = tuple(_structure(structure, f"result[{i}]") for i, structure in enumerate(structures))
    whole = ("tuple", "result", results) if len(results) > 1 else results[0] if results else ("const", "result", None)
    if len(results) == 1 and whole[0] == "tensor":
        whole = ("tensor", "result", whole[2])
    tensors = [given[entry] for entry in explained["parameters"]]
    launch = _launch.chosen(chosen.launch, place, compilation.program)
    binding = Binding(
        names=explained["parameters"],
        named_sizes=explained["named_sizes"],
        module=module,
        request=request,
        most=chosen.specialize,
        table=table,
        live=not chosen.freeze,
        kept=frozenset(explained["kept_parameters"]),
        complex=calls.complex if calls else frozenset(),
        example=", ".join(f"{argument}: {_spelled(row)}" for argument, row in inputs),
        inputs=calls.inputs
        if calls
        else tuple((argument, _signature.EITHER, _structure(i, argument)) for argument, i in arguments),
        outputs=calls.outputs if calls else whole,
        options={
            "kind": (calls.kind if calls else "")
            or ("torch" if place.startswith("cuda") or _all_torch(tensors) else "numpy"),
            "estimated_us": explained.get("estimated_us", 0.0),
            "fast_path": path[0],
            "reuse_outputs": chosen.reuse_outputs,
            "launch": launch[0],
        },
        name=explained["name"],
        path=path,
        seconds={"capture": calls.seconds} if calls else {},
        launch=launch,
        tuning=tuning,
        sharing=sharing,
    )
    if place != "cpu" and (why := _targets.why_no_device(place, number)):
        return CompiledElsewhere(compilation, binding, why, chosen.emit == "python", tensors)
    return binding.first(compilation, given, chosen.emit == "python", copies)


def _all_torch(tensors: Sequence[Any]) -> bool:
    """Whether there are tensors and all are torch's."""
    return bool(tensors) and all(type(tensor).__module__.startswith("torch") for tensor in tensors)


def _structure(structure: Any, name: str) -> tuple[Any, ...]:
    if isinstance(structure, int):
        return ("tensor", name, structure)
    if structure is None:
        return ("const", name, None)
    if isinstance(structure, _labels.Labels):
        return _labels.node(name, structure)
    return ("list", name, tuple(_structure(item, f"{name}[{i}]") for i, item in enumerate(structure)))


def _text(source: object) -> tuple[str | bytes, str]:
    """The module's text, and what messages call it."""
    if isinstance(source, bytes):
        return source, "<bytes>"
    if isinstance(source, str) and ("\n" in source or "{" in source):
        return source, "<string>"
    if not isinstance(source, (str, os.PathLike)):
        raise UserError(f"source is a {type(source).__name__} but must be mlir text or the path of a file")
    try:
        with open(source, "rb") as file:
            return file.read(), os.path.basename(os.fspath(source))
    except OSError as error:
        raise UserError(f"cannot read {os.fspath(source)!r}: {error.strerror}") from error


def _declared(row: Mapping[str, Any]) -> DeclaredParameter:
    name, shape = row["name"], row["shape"]
    if any(isinstance(size, str) for size in (*shape, *row.get("strides", ()))):
        sizes = ", ".join(map(str, shape))
        raise UnsupportedError(f"'{name}' has the sizes [{sizes}], but those of a {row['kind']} must be numbers")
    return DeclaredParameter(
        name=name,
        dtype=DTYPES.get(row["type"], row["type"]),
        shape=tuple(shape),
        strides=tuple(row["strides"]) if "strides" in row else None,
        written=row["kind"] == "state",
    )


def _spelled(row: Mapping[str, Any]) -> str:
    return f"{DTYPES.get(row['type'], row['type'])}[{', '.join(map(str, row['shape']))}]"


def _parameters(given: object, declared: list[DeclaredParameter]) -> Mapping[str, Any]:
    if given is None:
        return {}
    if isinstance(given, (str, os.PathLike)):
        return read_safetensors(given, "torch" if any(entry.dtype == "bfloat16" for entry in declared) else "numpy")
    if not isinstance(given, Mapping):
        raise UserError(
            f"parameters is a {type(given).__name__} but must be a dict of arrays or the path of a safetensors file"
        )
    return given
