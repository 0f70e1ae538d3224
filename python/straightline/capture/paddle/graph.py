# SPDX-License-Identifier: Apache-2.0
"""A whole program of PIR: inputs with named sizes, the ops that its results need, parameters and results."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from straightline.capture.builder import DTYPES, Builder, Dim, Result, SizeAdvice, TensorType
from straightline.capture.complex_numbers import Complex
from straightline.capture.extents import DEFAULT_MAX, Extent
from straightline.capture.graph_builder import MAX_RANK, Reject, Tensor
from straightline.capture.paddle import own, pir
from straightline.capture.paddle.complex import as_complex, as_real
from straightline.capture.paddle.importer import EFFECTS, Importer, Refusal, written_operand
from straightline.errors import UnsupportedError, UserError

#: Ops that give inputs, and ops that end a program.
_INPUTS = ("pd_op.data", "pd_op.feed")
_RESULTS = ("pd_op.fetch", "builtin.shadow_output")
#: Operands that training alone reads.
_NOT_READ = {"rnn": (4,), "dropout": (1,)}
#: Ops that keep values of a block for its derivative.
_OF_DERIVATIVES = ("cf.stack_create", "cf.tuple_push")
#: In messages about the sizes of inputs.
_ADVICE = SizeAdvice(
    fixed="pass an example of this size to sl.compile, name the dim in dynamic_shapes=, or make it -1 in its InputSpec",
    bounds="pass sizes=",
)


@dataclass(frozen=True)
class Input:
    """An input: its name in the program, and the name that users give it."""

    number: int
    name: str
    type: pir.Type
    #: In elements, of an example that is not row-major; calls must have them, too.
    strides: tuple[int, ...] | None = None


@dataclass
class Imported:
    """What a call has to know."""

    #: Inputs in the order of the function's arguments.
    inputs: list[Input]
    #: For each value to return the number of the function's result.
    results: list[int]
    #: Unique names of the parameters that the program reads, by the names that it gives them.
    parameters: dict[str, str]
    constants: dict[str, np.ndarray[Any, Any]]
    symbols: dict[str, tuple[int, int]] = field(default_factory=dict)
    #: For each of the function's results that is of complex numbers their dtype, by number: its last dim has both parts.
    complex_results: dict[int, str] = field(default_factory=dict)
    #: Names of the parameters of complex numbers: the program's have a last dim of both parts.
    complex_parameters: frozenset[str] = frozenset()


#: Names or numbers of sizes that the program does not say: by the input's name and dim; bounds of names.
Sizes = Mapping[str, Mapping[int, "str | int"]]


def inputs_of(program: pir.Program) -> list[Input]:
    """Inputs in the order in which the program has them."""
    found = []
    for op in program.block.ops:
        if op.name in _INPUTS and op.results:
            type = op.types[0]
            name = str(op.attributes.get("name", f"input{len(found)}"))
            if not isinstance(type, pir.Type):
                raise UserError(f"{program.name}: the input '{name}' is no dense tensor")
            if any(other.name == name for other in found):
                raise UserError(f"{program.name}: two inputs have the name '{name}'")
            found.append(Input(op.results[0], name, type))
    return found


def import_program(
    program: pir.Program,
    make: Callable[[], Builder],
    *,
    inputs: Sequence[Input],
    sizes: Sizes,
    bounds: Mapping[str, tuple[int, int]],
    names: Mapping[str, str],
    from_file: bool = False,
) -> tuple[Any, Imported]:
    """Builds the function of a program.

    Args:
        program: What was read.
        make: Gives a new builder.
        inputs: Those that calls give, by the names that users know; other inputs are refused where something reads them.
        sizes: For sizes of -1 their names, or numbers.
        bounds: Of names; those left out have 1 and the default.
        names: Of parameters as users know them, by Paddle's unique ones.
        from_file: Whether types that the program says may be wrong.

    Raises:
        UserError: The program is not what Paddle would write.
        UnsupportedError: Lists every op that has no form here.
    """
    builder = make()
    importer = Importer(builder, model=program.name, from_file=from_file, names=names)
    ops, fetches = _needed(program)
    _note(importer, ops, fetches)
    symbols: dict[str, tuple[int, int]] = {}
    types = [_input_type(given, sizes, symbols, bounds, program.name) for given in inputs]
    for name, (low, high) in symbols.items():
        builder.symbol(name, low, high)
    importer.ranges = symbols
    tensors = importer.begin("forward", [(given.name, type) for given, type in zip(inputs, types)], _ADVICE)
    for given, tensor in zip(inputs, tensors):
        is_complex = given.type.dtype in pir.PARTS
        importer.values[given.number] = as_complex(importer, tensor) if is_complex else tensor
    importer.inputs.update(given.number for given in inputs)
    parameters, complex_names = _declare(importer, ops)
    body = [op for op in ops if op.name not in (*_INPUTS, *_RESULTS, "builtin.parameter", "builtin.set_parameter")]
    importer.run(op for op in body)
    stored = [op for op in ops if op.name == "builtin.set_parameter"]
    results, kinds = _ended(importer, fetches, stored)
    return builder, Imported(list(inputs), results, parameters, importer.constants, symbols, kinds, complex_names)


def _needed(program: pir.Program) -> tuple[list[pir.Op], list[int]]:
    """The ops that results and effects need, in order, and the values to return."""
    fetches = program.fetches
    if fetches is None:
        found = [op for op in program.block.ops if op.name in _RESULTS]
        found.sort(key=lambda op: int(op.attributes.get("col", 0)))
        fetches = [op.operands[0] for op in found]
    for op in pir.every_op(program.block):
        for place in _NOT_READ.get(op.short, ()):
            op.operands[place : place + 1] = [0] if place < len(op.operands) else []
        for block in op.blocks:
            block.ops = [inner for inner in block.ops if inner.name not in _OF_DERIVATIVES]
    live = set(fetches)
    ops = []
    for op in reversed(program.block.ops):
        acts = op.name == "builtin.set_parameter" or any(map(_acts, (op, *_inner(op))))
        if acts or written_operand(op) is not None or any(result in live for result in op.results):
            ops.append(op)
            live.update(op.operands)
            for inner in _inner(op):
                live.update(inner.operands)
    return ops[::-1], list(fetches)


def _acts(op: pir.Op) -> bool:
    """Whether an op does more than give results."""
    kernel = own.kernel_of(op)
    return op.short in EFFECTS or (kernel is not None and kernel.effectful)


def _inner(op: pir.Op) -> list[pir.Op]:
    return [inner for block in op.blocks for inner in pir.every_op(block)] if op.blocks else []


def _note(importer: Importer, ops: Sequence[pir.Op], fetches: Sequence[int]) -> None:
    """Counts uses of values."""
    for op in ops:
        for one in (op, *_inner(op)):
            importer.makers.update(dict.fromkeys(one.results, one))
            for x in one.operands:
                importer.uses[x] = importer.uses.get(x, 0) + 1
    for x in fetches:
        importer.uses[x] = importer.uses.get(x, 0) + 1


def _declare(importer: Importer, ops: Sequence[pir.Op]) -> tuple[dict[str, str], frozenset[str]]:
    """The parameters that something reads: unique names by the names that the program gives them; those of complex numbers."""
    found: dict[str, str] = {}
    complex_names: set[str] = set()
    stored = {op.attributes.get("parameter_name") for op in ops if op.name == "builtin.set_parameter"}
    written = _written(ops)
    for op in ops:
        if op.name != "builtin.parameter" or not op.results:
            continue
        unique, type = str(op.attributes.get("parameter_name")), op.types[0]
        dtype = pir.PARTS.get(type.dtype, type.dtype) if isinstance(type, pir.Type) else None
        if not isinstance(type, pir.Type) or any(size < 0 for size in type.shape):
            raise UserError(f"{importer.model}: the parameter '{unique}' has the type {type}")
        name = importer.names.get(unique, unique)
        if dtype not in DTYPES:
            raise UnsupportedError(
                f"{importer.model}: the parameter '{name}' has elements of {dtype}; nearest supported form: "
                "float (16 bits or more), integer, complex or bool tensors"
            )
        if name in found:
            raise UserError(f"{importer.model}: two parameters have the name '{name}'")
        is_complex = type.dtype in pir.PARTS
        if len(type.shape) + is_complex > MAX_RANK:
            raise UnsupportedError(
                f"{importer.model}: the parameter '{name}' has rank {len(type.shape)}; "
                f"nearest supported form: {MAX_RANK - is_complex} dims"
            )
        found[name] = unique
        kind = "state" if unique in stored or op.results[0] in written else "parameter"
        shape = (*type.shape, 2) if is_complex else type.shape
        tensor = importer.parameter(name, TensorType(dtype, shape), op=kind)
        importer.values[op.results[0]] = as_complex(importer, tensor) if is_complex else tensor
        if is_complex:
            complex_names.add(name)
        if op.results[0] in written:
            importer.states[op.results[0]] = name
        if kind == "parameter":
            importer.fixed.add(id(tensor))
    return found, frozenset(complex_names)


def _written(ops: Sequence[pir.Op]) -> set[int]:
    """First values of the memory that ops overwrite."""
    first: dict[int, int] = {}
    found = set()
    for op in ops:
        for one in (op, *_inner(op)):
            place = written_operand(one)
            if place is not None and one.results:
                first[one.results[0]] = first.get(one.operands[place], one.operands[place])
                found.add(first[one.results[0]])
    return found


def _input_type(
    given: Input,
    sizes: Sizes,
    symbols: dict[str, tuple[int, int]],
    bounds: Mapping[str, tuple[int, int]],
    model: str,
) -> TensorType:
    dtype = pir.PARTS.get(given.type.dtype, given.type.dtype)
    parts: tuple[int, ...] = (2,) if given.type.dtype in pir.PARTS else ()
    if dtype not in DTYPES:
        raise UnsupportedError(
            f"the input '{given.name}' of {model} has elements of {given.type.dtype}; "
            "nearest supported form: float (16 bits or more), integer, complex or bool tensors"
        )
    if len(given.type.shape) + len(parts) > MAX_RANK:
        raise UnsupportedError(
            f"the input '{given.name}' of {model} has rank {len(given.type.shape)}; "
            f"nearest supported form: {MAX_RANK - len(parts)} dims"
        )
    extents: list[Dim] = []
    for dim, size in enumerate(given.type.shape):
        name = sizes.get(given.name, {}).get(dim)
        if size >= 0:
            if name is not None and not (isinstance(name, int) and name == size):
                raise UserError(f"size {dim} of '{given.name}' is {size} in the program but dynamic_shapes says {name}")
            extents.append(size)
        elif isinstance(name, int):
            extents.append(name)
        else:
            name = name or symbol_name(f"{given.name}_{dim}")
            symbols[name] = bounds.get(name, (1, DEFAULT_MAX))
            extents.append(Extent(name))
    strides = given.strides
    if strides is not None and parts:
        strides = (*(2 * step for step in strides), 1)
    return TensorType(dtype, (*extents, *parts), strides)


def symbol_name(text: str) -> str:
    """A name of ours for a size."""
    text = re.sub(r"\W", "_", text) or "n"
    return text if re.match(r"[A-Za-z_]", text) else f"n{text}"


def _ended(importer: Importer, fetches: Sequence[int], stored: Sequence[pir.Op]) -> tuple[list[int], dict[int, str]]:
    """Ends the function; the result's number for each value to return, and the dtypes of results of complex numbers."""
    if importer.refusals:
        raise UnsupportedError(refused(importer.refusals, importer.model))
    results: list[Result] = []
    places: dict[int, int] = {}
    kinds: dict[int, str] = {}
    for number in fetches:
        if number not in places:
            places[number] = len(results)
            value = importer.values.get(number)
            if isinstance(value, Complex):
                kinds[len(results)] = "complex128" if value.type.dtype == "f64" else "complex64"
            tensor = _fetched(importer, number)
            tensor = importer.emit_one("clone", [tensor], tensor.type)  # a result is no view of an argument
            results.append(Result(tensor.value, f"result{len(results)}"))
    for op in stored:
        unique = str(op.attributes.get("parameter_name"))
        tensor = _fetched(importer, op.operands[0])
        results.append(Result(tensor.value, unique, f"state:{importer.names.get(unique, unique)}"))
    for number, name in importer.states.items():
        tensor = _fetched(importer, number)
        results.append(Result(tensor.value, f"new_{name}", f"state:{name}"))
    importer.builder.end_function(results)
    return [places[number] for number in fetches], kinds


def _fetched(importer: Importer, number: int) -> Tensor:
    value = importer.values.get(number)
    try:
        return as_real(importer, value) if isinstance(value, Complex) else importer.tensor(value)
    except Reject as refusal:
        raise UnsupportedError(f"{importer.model}: a result is {refusal.reason}") from refusal


def refused(refusals: Sequence[Refusal], name: str) -> str:
    """Each refusal by itself, equal ones counted."""
    seen: dict[tuple[str, str, str], list[str]] = {}
    for refusal in refusals:
        seen.setdefault((refusal.op, refusal.reason, refusal.nearest), []).append(refusal.place)
    lines = []
    for (op, reason, nearest), places in seen.items():
        where = places[0] + (f" and {len(places) - 1} more" if len(places) > 1 else "")
        lines.append(f"  {op} at {where}: {reason}" + (f"; nearest supported form: {nearest}" if nearest else ""))
    count = len(lines)
    return "\n".join([f"{name}: {count} unsupported op{'s' if count > 1 else ''}:", *lines])
