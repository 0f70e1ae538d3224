# SPDX-License-Identifier: Apache-2.0
"""Whole programs of Paddle as callables: `paddle.static.Program`s, and files of `paddle.jit.save`, which need no paddle."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from straightline import _complex_arrays, _places, _signature
from straightline.capture import paddle as front_end
from straightline.capture.paddle import pir
from straightline.capture.paddle.sizes import bounds_of, symbols_of
from straightline.compiled_function import CompiledFunction
from straightline.errors import InternalError, UserError
from straightline.mlir_model import DTYPES, Calls, compiled_module
from straightline.module_builder import ModuleBuilder
from straightline.options import CompileOptions
from straightline.parameters import DeclaredParameter, ParameterTable

Names = Mapping[str, Mapping[int, "str | int"]]


def compile_file(
    path: str | os.PathLike[str], examples: Any, names: Names, sizes: Mapping[str, Any], chosen: CompileOptions
) -> CompiledFunction:
    """A .json file, with the .pdiparams beside it."""
    from straightline.capture.paddle import saved_program

    begin = time.perf_counter()
    program = saved_program.read_program(path)
    beside = os.fspath(path)[: -len(".json")] + ".pdiparams"
    return _compiled(
        program,
        examples,
        names,
        sizes,
        chosen,
        lambda unique: None,
        begin,
        saved_program.read_parameters(beside, program),
    )


def compile_program(
    program: Any,
    examples: Any,
    fetches: Sequence[Any] | None,
    names: Names,
    sizes: Mapping[str, Any],
    chosen: CompileOptions,
) -> CompiledFunction:
    """A `paddle.static.Program`, with the parameters that Paddle's global scope has."""
    begin = time.perf_counter()
    from straightline.capture.paddle import live_program, trace

    trace.check_version()
    if not hasattr(program, "global_block") or not hasattr(program.global_block(), "kwargs"):
        raise UserError(
            "the program is none of Paddle's new IR (PIR): build it with FLAGS_enable_pir_api=1, the default"
        )
    reader = live_program.LiveReader()
    values = None if fetches is None else [_fetched(program, one) for one in fetches]
    read = reader.program(program, values, "the program")
    return _compiled(read, examples, names, sizes, chosen, live_program.scope_tensor, begin)


def _fetched(program: Any, fetch: Any) -> Any:
    """A value to return; a name is that of an input, a parameter or an output."""
    if not isinstance(fetch, str):
        if not hasattr(fetch, "get_defining_op"):
            raise UserError(f"fetches has a {type(fetch).__name__} but values of the program, or names, are needed")
        return fetch
    for op in program.global_block().ops:
        if op.name() in ("builtin.shadow_output", "pd_op.fetch") and fetch in (
            op.attrs().get("output_name"),
            op.attrs().get("name"),
        ):
            return op.operands_source()[0]
        for value in op.results():
            if value.initialized() and value.has_name and value.name == fetch:
                return value
    raise UserError(f"the program has no value named {fetch!r}; give the value itself")


def _compiled(
    program: pir.Program,
    examples: Any,
    names: Names,
    sizes: Mapping[str, Any],
    chosen: CompileOptions,
    tensor_of: Any,
    begin: float,
    arrays: Mapping[str, Any] | None = None,
) -> CompiledFunction:
    """A program whose calls give its inputs by position or by name, and get what it fetches."""
    inputs = front_end.inputs_of(program)
    place, number = _places.of_arrays(chosen, examples.values() if isinstance(examples, Mapping) else examples)
    found = {name: dict(dims) for name, dims in names.items()}
    own = {one.name for one in inputs}
    unknown = sorted(set(found) - own)
    if unknown:
        raise UserError(
            f"dynamic_shapes names '{unknown[0]}' but {program.name} has the inputs {', '.join(sorted(own))}"
        )
    for one, example in _by_name(examples, inputs, program.name):
        _fit(one, example, found.setdefault(one.name, {}), program.name)
    try:
        builder, imported = front_end.import_program(
            program,
            ModuleBuilder,
            inputs=inputs,
            sizes=found,
            bounds=bounds_of(sizes, symbols_of(inputs, found)),
            names={},
            from_file=arrays is not None,
        )
        module = builder.finish()
    except InternalError as error:
        if arrays is None:
            raise
        raise UserError(f"{program.name} is no program that Paddle writes: {str(error).splitlines()[0]}") from error
    given = dict(imported.constants)
    for name, unique in imported.parameters.items():
        tensor = arrays.get(unique) if arrays is not None else tensor_of(unique)
        if tensor is None:
            where = (
                "the file of parameters"
                if arrays is not None
                else "Paddle's global scope: run the startup program first"
            )
            raise UserError(f"the parameter '{unique}' of {program.name} is not in {where}")
        given[name] = tensor
    rows = json.loads(module.parameters_json)
    table = _table_of(rows, imported.complex_parameters)
    table.check(given, f"the parameters do not fit {program.name}")
    results = tuple(("tensor", f"result[{i}]", place) for i, place in enumerate(imported.results))
    whole = ("tuple", "result", results) if len(results) != 1 else ("tensor", "result", results[0][2])
    arguments = tuple((one.name, _signature.EITHER, ("tensor", one.name, i)) for i, one in enumerate(inputs))
    nodes = complex_nodes(arguments, whole, imported)
    calls = Calls(*nodes, time.perf_counter() - begin, complex=imported.complex_parameters)
    given = dict(_places.placed(given, rows, place, number))
    return compiled_module(module, table, given, chosen, place=place, number=number, calls=calls)


def complex_nodes(arguments: tuple[Any, ...], result: Any, imported: front_end.Imported) -> tuple[tuple[Any, ...], Any]:
    """Nodes of arguments and of the result where those of complex numbers are real ones in the program."""
    given = {i: one.type.dtype for i, one in enumerate(imported.inputs) if one.type.dtype in pir.PARTS}

    def argument(name: str, place: int) -> Any:
        node = ("tensor", name, place)
        return _complex_arrays.node(name, given[place], node) if place in given else node

    def found(name: str, place: int) -> Any:
        node, kind = ("tensor", name, place), imported.complex_results.get(place)
        return node if kind is None else _complex_arrays.node(name, kind, node, is_result=True)

    nodes = ((name, kind, _signature.with_tensors(node, argument), *rest) for name, kind, node, *rest in arguments)
    return tuple(nodes), _signature.with_tensors(result, found)


def _by_name(examples: Any, inputs: Sequence[front_end.Input], program: str) -> list[tuple[front_end.Input, Any]]:
    by_name = {one.name: one for one in inputs}
    if isinstance(examples, Mapping):
        unknown = [name for name in examples if name not in by_name]
        if unknown:
            raise UserError(f"{program} has no input {unknown[0]!r}: it has {', '.join(by_name) or 'none'}")
        return [(by_name[name], value) for name, value in examples.items()]
    if len(examples) > len(inputs):
        raise UserError(f"{len(examples)} inputs are given but {program} has {len(inputs)}: {', '.join(by_name)}")
    return list(zip(inputs, examples))


def _fit(one: front_end.Input, example: Any, dims: dict[int, str | int], program: str) -> None:
    """Checks an example, and takes its sizes for those that the program leaves open and that have no name."""
    if not hasattr(example, "shape") or not hasattr(example, "dtype"):
        raise UserError(f"the example of '{one.name}' is a {type(example).__name__} but must be a tensor or an array")
    text = str(example.dtype).removeprefix("paddle.").removeprefix("torch.")
    dtype = pir.DTYPES.get(text, text)
    shape = tuple(-1 if size is None else int(size) for size in example.shape)
    fits = len(shape) == len(one.type.shape) and all(a == b or -1 in (a, b) for a, b in zip(shape, one.type.shape))
    if dtype != one.type.dtype or not fits:
        raise UserError(f"the example of '{one.name}' is {pir.Type(dtype, shape)} but {program} takes {one.type}")
    for dim, size in enumerate(shape):
        if one.type.shape[dim] < 0 <= size:
            dims.setdefault(dim, size)


def _table_of(rows: Sequence[Mapping[str, Any]], complex_names: frozenset[str]) -> ParameterTable:
    """The parameters of a module, as it declares them, those of complex numbers as users know them."""
    return ParameterTable.of_declared(_declared(row, row["name"] in complex_names) for row in rows)


def _declared(row: Mapping[str, Any], is_complex: bool) -> DeclaredParameter:
    dtype, shape = DTYPES.get(row["type"], row["type"]), tuple(row["shape"])
    if is_complex:
        dtype, shape = ("complex64" if dtype == "float32" else "complex128"), shape[:-1]
    return DeclaredParameter(row["name"], dtype, shape, None, row["kind"] == "state")
