# SPDX-License-Identifier: Apache-2.0
"""The signature of a compiled function for other systems: flat arguments of tensors, lists of tensors and numbers.

An argument that the example gave as a number, a bool or a text is one of the function's too; calls have to give the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from straightline import _call, _labels
from straightline._signature import KEYWORD
from straightline.errors import UnsupportedError, UserError

#: sl_ffi_kind
TENSOR, TENSORS, INT, FLOAT, BOOL, TEXT = range(6)
_SCALARS = {bool: BOOL, int: INT, float: FLOAT, str: TEXT}
_TYPES = {INT: "int", FLOAT: "float", BOOL: "bool", TEXT: "str"}


class Argument(NamedTuple):
    """One argument of the flat signature."""

    name: str
    kind: int
    #: Number of the program's input; of a list that of its first tensor.
    index: int
    count: int
    #: Of a number or text: what calls have to give.
    value: Any
    #: It may be left out.
    default: bool
    by_name: bool
    updated: bool

    def row(self) -> tuple[Any, ...]:
        """As `_call.ffi_function` takes it."""
        text = self.value if self.kind == TEXT else None
        integer = int(self.value) if self.kind in (INT, BOOL) else 0
        real = float(self.value) if self.kind == FLOAT else 0.0
        return (self.name, self.kind, self.index, self.count, int(self.updated), integer, real, text)


class Layout(NamedTuple):
    """A tensor of a program: sizes and strides as expressions over its named sizes."""

    code: int
    bits: int
    sizes: tuple[Any, ...]
    strides: tuple[Any, ...]
    updated: int


class Extent(NamedTuple):
    """A named size."""

    name: str
    min: int
    max: int
    computed: int


@dataclass(frozen=True)
class Program:
    """What a program takes and gives."""

    inputs: tuple[Layout, ...]
    results: tuple[Layout, ...]
    extents: tuple[Extent, ...]


@dataclass(frozen=True)
class Signature:
    """The flat signature of a function, and its programs in the order in which calls try them."""

    arguments: tuple[Argument, ...]
    #: Number of the program's result for each result of a call.
    results: tuple[int, ...]
    programs: tuple[Program, ...]
    target: str

    @property
    def key(self) -> str:
        """Torch's dispatch key of the device."""
        return "CPU" if self.target == "cpu" else "CUDA"

    def schema(self, name: str) -> str:
        """In torch's language: "forward(Tensor x, int k=3) -> Tensor"."""
        parts, keyword, letters = [], False, iter("abcdefghijklmnopqrstuvwxyz")
        for argument in self.arguments:
            if argument.by_name and not keyword:
                parts.append("*")
                keyword = True
            alias = f"({next(letters)}!)" if argument.updated else ""
            kind = {TENSOR: f"Tensor{alias}", TENSORS: f"Tensor{alias}[]"}.get(argument.kind) or _TYPES[argument.kind]
            parts.append(f"{kind} {argument.name}" + (f"={_default(argument)}" if argument.default else ""))
        results = ", ".join("Tensor" for _ in self.results)
        return f"{name}({', '.join(parts)}) -> {results if len(self.results) == 1 else f'({results})'}"

    def c_text(self, name: str) -> str:
        """As the definition of a `sl_ffi_signature` called `signature`, for emitted text."""
        rows = "".join(f"    {_c_row(argument)},\n" for argument in self.arguments)
        numbers = ", ".join(map(str, self.results))
        own = self.programs[0]
        return (
            (f"static const sl_ffi_argument arguments[] = {{\n{rows}}};\n" if rows else "")
            + (f"static const int32_t results[] = {{{numbers}}};\n" if numbers else "")
            + f"static const sl_ffi_signature signature = {{sizeof(sl_ffi_signature), {c_string(name)}, "
            + f"{'arguments' if rows else 'nullptr'}, {len(self.arguments)}, {len(own.inputs)}, "
            + f"{'results' if numbers else 'nullptr'}, {len(self.results)}, {len(own.results)}}};\n"
        )


def _c_row(argument: Argument) -> str:
    name, kind, index, count, updated, integer, real, text = argument.row()
    value = "nullptr" if text is None else c_string(text)
    number = (
        '__builtin_nan("")'
        if math.isnan(real)
        else f"{'-' if real < 0 else ''}__builtin_inf()"
        if math.isinf(real)
        else real.hex()
    )
    return f"{{{c_string(name)}, {kind}, {index}, {count}, {updated}, {integer}LL, {number}, {value}}}"


def c_string(text: str) -> str:
    """A literal of C."""
    return (
        '"' + "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}" for b in text.encode()) + '"'
    )


def _default(argument: Argument) -> str:
    if argument.kind == TEXT:
        return '"' + argument.value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return repr(argument.value)


def of_function(function: Any, called: bool = True, with_slots: bool = False) -> Signature:
    """The flat signature of a compiled function; `called`: in this process, so that it has to be one for here.

    `with_slots`: who calls it can choose; all choices have one signature.

    Raises:
        UnsupportedError: An argument or result has no such form, or the function has no one program that calls take.
    """
    if called and not function._callable:
        raise function._refuse()
    check_callable(function, with_slots)
    heads = (function, *function._others)
    programs = programs_of(function)
    layouts = tuple(_program(program) for program in programs)
    found = [_arguments(head, layouts[0]) for head in heads]
    results = [_results(head._binding.outputs) for head in heads]
    if any(other != found[0] for other in found[1:]) or any(other != results[0] for other in results[1:]):
        raise UnsupportedError(
            "the examples of the function differ in the structure or the numbers of their arguments; nearest supported form: "
            "a function for each"
        )
    return Signature(found[0], results[0], layouts, function._binding.request["target"])


def programs_of(function: Any) -> tuple[Any, ...]:
    """The callables of a function in the order in which calls try them: those for single sizes before that for all."""
    heads = (function, *function._others)
    return tuple(program for head in heads for program in (*head._special, head))


def check_callable(function: Any, with_slots: bool = False) -> None:
    """Refuses what a call from elsewhere would do otherwise than a call from Python.

    Raises:
        UnsupportedError: Each with the nearest form.
    """
    if function.slots and not with_slots:
        raise UnsupportedError(
            f"a function with slots ({', '.join(function.slots)}) is chosen by Python; nearest supported form: a function for "
            "each choice, compiled with routes"
        )
    if function._binding.live:
        raise UnsupportedError(
            "the function follows the tensors that it was given (freeze=False), which only its calls from Python look at; "
            "nearest supported form: freeze=True, and load_parameters"
        )
    for one in function._all:
        if one._emitted is not None and one._emitted.text != one._compilation.python:
            raise UnsupportedError(
                "code was replaced, and only a call from Python runs that text; nearest supported form: the code as compiled"
            )
    if states := _states(function):
        raise UnsupportedError(
            f"the model updates its buffer {states[0]!r}, which neither a schema nor a compiler of graphs sees; nearest "
            "supported form: an argument that the model updates"
        )


def _states(function: Any) -> list[str]:
    import json

    rows = json.loads(function._binding.module.parameters_json)
    return [row["name"] for row in rows if row["kind"] == "state"]


def _program(function: Any) -> Program:
    inputs, results, extents = _call.ffi_layouts(function._compilation.program)
    return Program(
        tuple(Layout(*row) for row in inputs),
        tuple(Layout(*row) for row in results),
        tuple(Extent(*row) for row in extents),
    )


def _arguments(function: Any, program: Program) -> tuple[Argument, ...]:
    made: list[Argument] = []
    for name, kind, node, *default in function._binding.inputs:
        argument = _argument(_identifier(name), node, bool(default), kind == KEYWORD, program)
        if argument is not None:
            made.append(argument)
    names = [argument.name for argument in made]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise UnsupportedError(f"two arguments are called {min(repeated)!r} where names are identifiers")
    return tuple(made)


def _argument(name: str, node: Sequence[Any], default: bool, by_name: bool, program: Program) -> Argument | None:
    kind, place, *rest = node
    if kind == "tensor":
        return Argument(name, TENSOR, rest[0], 1, None, False, by_name, bool(program.inputs[rest[0]].updated))
    if kind == "const":
        value = rest[0]
        if value is None and default:
            return None
        if type(value) in _SCALARS and (type(value) is not int or -(2**63) < value < 2**63):
            return Argument(name, _SCALARS[type(value)], 0, 0, value, default, by_name, False)
        raise UnsupportedError(
            f"{place} is {value!r}, which has no place in a schema; nearest supported form: a tensor, int, float, bool or str, "
            "or a default"
        )
    if kind in ("tuple", "list"):
        indices = [child[2] for child in rest[0] if child[0] == "tensor"]
        if len(indices) == len(rest[0]) and indices == list(range(indices[0], indices[0] + len(indices))):
            updated = any(program.inputs[index].updated for index in indices)
            return Argument(name, TENSORS, indices[0], len(indices), None, False, by_name, updated)
    raise UnsupportedError(
        f"{place} is a {kind} that has no place in a schema; nearest supported form: a tensor, or a list or tuple of tensors"
    )


def _results(node: Sequence[Any]) -> tuple[int, ...]:
    """Numbers of the results in the order of flattening."""
    kind, place, *rest = node
    if kind == "tensor":
        return (rest[0],)
    if kind in ("tuple", "list", "dict", "namedtuple", "dataclass"):
        numbers = tuple(number for child in rest[-1] for number in _results(child))
        if len(set(numbers)) != len(numbers):
            raise UnsupportedError(f"{place} has one tensor twice; nearest supported form: return it once")
        return numbers
    if kind == "const" and rest[0] is None and place == "result":
        return ()
    if kind == "custom" and (labels := _labels.labels_of(rest[1])):
        raise UnsupportedError(
            f"{place} is text ({_labels.shown(labels)}), which a call from Python alone makes of numbers; nearest supported "
            "form: the model without this result (its scores have a column for each of these, in this order)"
        )
    raise UnsupportedError(
        f"{place} is a {kind}, not a tensor, which has no place in a schema; nearest supported form: tensors alone"
    )


def _identifier(name: str) -> str:
    """The name of an argument as an identifier: `args_0` for "args[0]"."""
    return re.sub(r"\W+", "_", name).strip("_")


def qualified(name: str) -> tuple[str, str]:
    """Namespace and name of "mylib::forward".

    Raises:
        UserError: It is no such name.
    """
    found = re.fullmatch(r"([A-Za-z_]\w*)::([A-Za-z_]\w*)", name) if isinstance(name, str) else None
    if found is None:
        raise UserError(f"the name is {name!r} but must be a namespace and a name, such as 'mylib::forward'")
    return found[1], found[2]


def value_of(steps: Sequence[tuple[str, int]], sizes: dict[int, Any]) -> Any:
    """An expression (`sl_expr`) over sizes."""
    stack: list[Any] = []
    for op, value in steps:
        if op == "c":
            stack.append(value)
        elif op == "s":
            stack.append(sizes[value])
        else:
            right, left = stack.pop(), stack.pop()
            stack.append(_combined(op, left, right))
    return stack[0]


def _combined(op: str, left: Any, right: Any) -> Any:
    import torch

    if op == "+":
        return left + right
    if op == "*":
        return left * right
    if op == "/":
        return left // right
    if op == "%":
        return left % right
    return torch.sym_max(left, right)
