# SPDX-License-Identifier: Apache-2.0
"""A loaded program of JAX as builder calls: its arguments with named sizes, its ops, its results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxlib.mlir import ir

from straightline.capture.builder import Builder, Result, SizeAdvice, TensorType
from straightline.capture.graph_builder import Reject, Tensor
from straightline.capture.jax import values as v
from straightline.capture.jax.importer import _MOST_LITERAL, Importer, Missing, refused
from straightline.capture.jax.load import Leaf, LoadedProgram, is_array, main_of
from straightline.capture.jax.values import Value
from straightline.capture.pruning import Pruning
from straightline.errors import UnsupportedError, UserError

#: The largest value of a named size, unless a bound is given.
_LARGEST = 10**9 - 1
#: In messages about the sizes of inputs.
_ADVICE = SizeAdvice(
    fixed="trace the function for an example of this size, or of a dim named by jax.export.symbolic_shape",
    bounds="pass sizes=",
)
#: The element type of each part of complex numbers, by the names of numpy and MLIR; and numpy's names by it.
_PARTS = {"complex64": "f32", "complex128": "f64", "complex<f32>": "f32", "complex<f64>": "f64"}
_COMPLEX_OF = {"f32": "complex64", "f64": "complex128"}


@dataclass(frozen=True)
class Argument:
    """An argument of the function."""

    name: str
    type: TensorType


@dataclass
class Imported:
    """What a program became."""

    arguments: list[Argument]
    #: For each result that the caller gets numpy's name of its elements where they are complex, else "".
    complex_results: list[str]
    #: Arrays of the parameters that the program reads, by name.
    parameters: dict[str, np.ndarray]


def import_module(
    program: LoadedProgram, builder: Builder, sizes: Mapping[str, int | tuple[int, int]] | None = None
) -> Imported:
    """Makes the builder calls of a program.

    Args:
        program: What `load` gives.
        builder: Gets the calls.
        sizes: The smallest and largest value of named sizes.

    Raises:
        UserError: A size that is given is none of the program's.
        UnsupportedError: Lists each op that has no form here.
    """
    main = main_of(program.module, program.name)
    functions = {
        ir.StringAttr(op.operation.attributes["sym_name"]).value: op.operation
        for op in program.module.body.operations
        if op.operation.name == "func.func"
    }
    is_of_one = _check_module(program)
    importer = Importer(Pruning(builder), name=f"'{program.name}'", functions=functions, is_of_one_device=is_of_one)
    _declare(importer, program, dict(sizes or {}))
    arguments = [Argument(leaf.name, _type(program, leaf)) for leaf in program.leaves]
    tensors = importer.begin("forward", [(a.name, a.type) for a in arguments], _ADVICE)
    _load_constants(importer, functions)
    given, donated = _given(importer, program, main, tensors)
    try:
        values = importer.run_block(main.regions[0].blocks[0], given)
        if importer.refusals:
            raise UnsupportedError(refused(importer.refusals, importer.name))
        _end(importer, program, values, donated)
    except Missing:
        raise UnsupportedError(refused(importer.refusals, importer.name)) from None
    except RecursionError:
        raise UnsupportedError(
            f"{importer.name}: its functions, branches and loops nest too deep; nearest supported form: fewer levels"
        ) from None
    except Reject as refusal:
        raise UnsupportedError(
            f"{importer.name}: {refusal.reason}; nearest supported form: {refusal.nearest}"
        ) from refusal
    kinds = [_COMPLEX_OF[x.type.dtype] if isinstance(x, v.Complex) else "" for x in values]
    return Imported(arguments, kinds, importer.parameters)


def _check_module(program: LoadedProgram) -> bool:
    """Refuses a module for several devices; whether it says that it is for one."""
    attributes = program.module.operation.attributes
    for name in ("mhlo.num_partitions", "mhlo.num_replicas"):
        if name in attributes and ir.IntegerAttr(attributes[name]).value != 1:
            count = ir.IntegerAttr(attributes[name]).value
            raise UnsupportedError(
                f"'{program.name}' is for {count} {name.removeprefix('mhlo.num_')}; "
                "nearest supported form: a program of one device"
            )
    return "mhlo.num_partitions" in attributes


def _type(program: LoadedProgram, leaf: Leaf) -> TensorType:
    if leaf.dtype in _PARTS:
        return TensorType(_PARTS[leaf.dtype], (*leaf.shape, 2))
    try:
        return TensorType(v.ir_dtype(leaf.dtype), leaf.shape)
    except Reject as refusal:
        raise UnsupportedError(
            f"'{program.name}': the argument {leaf.name} has {refusal.reason}; nearest supported form: {refusal.nearest}"
        ) from refusal


def _declare(importer: Importer, program: LoadedProgram, sizes: dict[str, int | tuple[int, int]]) -> None:
    unknown = [name for name in sizes if name not in program.symbols]
    if unknown:
        known = ", ".join(program.symbols) or "none with a name"
        raise UserError(f"'{program.name}' has no size {unknown[0]!r}: it has {known}")
    for name in program.symbols:
        given = sizes.get(name, (1, _LARGEST))
        low, high = (given, given) if isinstance(given, int) else given
        importer.ranges[name] = (int(low), int(high))
        importer.builder.symbol(name, int(low), int(high))


def _load_constants(importer: Importer, functions: Mapping[str, ir.Operation]) -> None:
    """Makes parameters of large constants, wherever they stand."""

    def visit(operation: ir.Operation) -> None:
        for region in operation.regions:
            for block in region.blocks:
                for view in block.operations:
                    if view.operation.name == "stablehlo.constant":
                        load(view.operation)
                    elif len(view.operation.regions):
                        visit(view.operation)

    def load(operation: ir.Operation) -> None:
        shaped = ir.RankedTensorType(operation.results[0].type)
        if v.is_complex(shaped):
            return  # each part is made where it stands
        count = int(np.prod(list(shaped.shape), dtype=np.int64))
        if count * 8 <= _MOST_LITERAL:
            return
        try:
            value = importer.constant_of(operation)
        except Reject:
            return  # of numbers that have no form: refused where it stands
        if value.splat is None and value.array.nbytes > _MOST_LITERAL:
            importer.load(value.array, value.type)

    for function in functions.values():
        visit(function)


def _value(importer: Importer, leaf: Leaf, tensor: Tensor) -> Value:
    """What an argument stands for: complex numbers are a last dimension of both parts."""
    if leaf.dtype not in _PARTS:
        return tensor
    return v.Complex(*(importer.select(tensor, tensor.rank - 1, part) for part in (0, 1)))


def _joined(importer: Importer, value: Value) -> Tensor:
    """A result; complex numbers with a last dimension of both parts."""
    if not isinstance(value, v.Complex):
        return importer.tensor(value)
    type = TensorType(value.type.dtype, (*value.type.extents, 2))
    parts = [importer.reshape(importer.tensor(part), (*value.type.extents, 1)) for part in (value.re, value.im)]
    return importer.cat(parts, len(value.type.extents), type)


def _given(
    importer: Importer, program: LoadedProgram, main: ir.Operation, tensors: list[Tensor]
) -> tuple[list[Value], dict[int, int]]:
    """What the main function's arguments stand for, and which of the leaves each donated argument's result overwrites."""
    attributes = main.attributes["arg_attrs"] if "arg_attrs" in main.attributes else None
    count = len(main.regions[0].blocks[0].arguments)
    given: list[Value] = []
    donated: dict[int, int] = {}
    kept = iter(program.kept)
    for place in range(count):
        own = attributes[place] if attributes is not None else {}
        constant = ir.StringAttr(own["jax.global_constant"]).value if "jax.global_constant" in own else ""
        if not is_array(main.regions[0].blocks[0].arguments[place].type):
            given.append(v.number(False, "i1"))  # a token, which refused ops alone read
            continue
        if constant == "_platform_index":
            given.append(v.number(program.platform, "i32"))
            continue
        leaf = next(kept, None)
        if leaf is None:
            raise UnsupportedError(f"'{program.name}' has an argument number {place} that no array of its calls is")
        given.append(_value(importer, program.leaves[leaf], tensors[leaf]))
        if "tf.aliasing_output" in own:
            donated[ir.IntegerAttr(own["tf.aliasing_output"]).value] = leaf
    return given, donated


def _end(importer: Importer, program: LoadedProgram, values: list[Value], donated: dict[int, int]) -> None:
    """Results in JAX's order; those in the memory of a donated argument overwrite it, and the caller gets that."""
    results: list[Result] = []
    tied: list[Result] = []
    given: set[int] = set()
    for place, value in enumerate(values):
        tensor = _joined(importer, value)
        name = f"result{place}"
        leaf = donated.get(place)
        if leaf is None:
            results.append(Result(_own(importer, tensor, given).value, name))
            continue
        tie = f"input:{program.leaves[leaf].name}"
        results.append(Result(tensor.value, name, f"alias:{tie}"))
        tied.append(Result(tensor.value, f"{name}_in_place", tie))
    importer.builder.end_function([*results, *tied])


def _own(importer: Importer, tensor: Tensor, given: set[int]) -> Tensor:
    """A result with memory of its own: a copy of what is an argument, a constant, a view, or another result."""
    source = tensor
    while (view := importer.made(source, "reshape")) is not None and view.operands[0] is not None:
        source = view.operands[0]
    made = importer._made.get(id(source))
    is_own = made is not None and made.name not in _NOT_OWN and id(source) not in given
    given.add(id(source))
    return tensor if is_own else importer.emit_one("clone", [tensor], tensor.type)


_NOT_OWN = frozenset("parameter constant full iota expand permute slice select dynamic_slice".split())

__all__ = ["Argument", "Imported", "import_module"]
