# SPDX-License-Identifier: Apache-2.0
"""A call of a user's own kernel (`sl.c_kernel`, `sl.cuda_kernel`) as one `op.own_kernel`. Knows no framework.

`dialect/own_argument.h` says how arguments are written, `docs/design/own_kernels.md` what becomes of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from straightline import own_kernels
from straightline.capture.builder import Attr, Dims, Extent, TensorType
from straightline.capture.extents import product_of
from straightline.capture.graph_builder import GraphBuilder, Reject, Tensor
from straightline.errors import UserError
from straightline.own_kernels import OwnKernel
from straightline.own_schemas import REQUIRED, Parameter


@dataclass
class Encoder:
    """The arguments of one call: collects its tensors and named extents."""

    kernel: OwnKernel
    #: Number of the result that is the new value, by argument ("x", or "x.3" of a list).
    updated: dict[str, int]
    #: Of the first result of the schema.
    first: int
    inputs: list[Tensor] = field(default_factory=list)
    #: Those of the inputs, by number, that are numbers on the host.
    numbers: set[int] = field(default_factory=set)
    sizes: list[Extent] = field(default_factory=list)

    def arguments(self, values: Mapping[str, Any], fresh: int) -> list[str]:
        """A text for each argument of the C function that is one of the schema or a result."""
        texts = []
        for parameter in self.kernel.parameters:
            value = values[parameter.name]
            if parameter.name in self.kernel.numbers:
                texts.append(self._numbers(parameter.name, value))
            elif parameter.kind == "tensor":
                texts.append(self._tensors(parameter.name, value, parameter.is_list))
            else:
                texts.append(self._constant(parameter, value))
        place = "h:@" if self.kernel.gives_numbers else "@"
        return [*texts, *(f"{place}{self.first + i}" for i in range(fresh))]

    def _numbers(self, name: str, value: Any) -> str:
        """An input of its own, so that no other argument is found on the host."""
        if not isinstance(value, Tensor) or value.dtype != "i64" or value.rank != 1:
            raise Reject(f"'{name}' is not a tensor of int64 of rank 1, which numbers are", "what gives numbers")
        self.numbers.add(len(self.inputs))
        self.inputs.append(value)
        return f"h:%{len(self.inputs) - 1}"

    def _tensors(self, name: str, value: Any, is_list: bool) -> str:
        if not is_list:
            return self.tensor(name, value)
        items = [self.tensor(f"{name}.{i}", item) for i, item in enumerate(value)]
        if "none" in items:
            raise Reject(f"'{name}' has an absent tensor in a list", "Tensor?")
        return f"[{', '.join(items)}]"

    def tensor(self, name: str, value: Any) -> str:
        """The text of one tensor, or of an absent one."""
        if value is None:
            return "none"
        if not isinstance(value, Tensor):
            raise Reject(f"'{name}' is {value!r}, not a tensor")
        if name in self.updated:
            return f"@{self.updated[name]}"
        for number, known in enumerate(self.inputs):
            if known is value and number not in self.numbers:
                return f"%{number}"
        self.inputs.append(value)
        return f"%{len(self.inputs) - 1}"

    def _constant(self, parameter: Parameter, value: Any) -> str:
        if parameter.kind == "text":
            return f"s:{value}"
        if parameter.kind == "dtype":
            code, bits = own_kernels.dtype_of(value)
            return f"d:{code}:{bits}"
        if isinstance(value, Extent):
            self.sizes.append(value)
            return f"${len(self.sizes) - 1}"
        head, item = ("i:", self._integer) if parameter.kind == "integer" else ("f:", self._number)
        if not parameter.is_list:
            return head + item(parameter.name, value)
        if any(isinstance(one, Extent) for one in value):
            raise Reject(
                f"'{parameter.name}' has a named size in a list",
                f"SymInt, an argument for each size of '{parameter.name}'",
            )
        return f"{head}[{', '.join(item(parameter.name, one) for one in value)}]"

    def _integer(self, name: str, value: Any) -> str:
        if not isinstance(value, int):  # a bool is one
            raise Reject(f"'{name}' is {value!r}, not an integer")
        if not -(2**63) <= value < 2**63:
            raise UserError(f"'{name}' of {self.kernel.name} is {value}, which does not fit an int64_t")
        return str(int(value))

    def _number(self, name: str, value: Any) -> str:
        if not isinstance(value, (int, float)):
            raise Reject(f"'{name}' is {value!r}, not a number")
        number = float(value)
        return "nan" if math.isnan(number) else repr(number)


@dataclass(frozen=True)
class Sized:
    """A tensor without memory, as `grid` and `workspace` see it: sizes are ints, for `grid` also expressions over names."""

    shape: tuple[Any, ...]
    #: The framework's dtype, or numpy's name of it.
    dtype: Any
    #: Bytes of an element.
    bytes: int = 0

    def numel(self) -> Any:
        """How many elements it has."""
        return product_of(self.shape)

    def dim(self) -> int:
        """How many dims it has."""
        return len(self.shape)

    def element_size(self) -> int:
        """The bytes of an element."""
        return self.bytes


def emit_call(
    ctx: GraphBuilder,
    kernel: OwnKernel,
    values: Mapping[str, Any],
    types: Sequence[TensorType],
    updated: Sequence[str],
    effectful: bool,
    *,
    filled: Sequence[str] = (),
    dtype: Callable[[str], Any],
    workspace: Callable[[Mapping[str, Any]], int] | None = None,
    check_sizes: Callable[[Sequence[Extent]], None] = lambda sizes: None,
    launch: Callable[[Encoder], dict[str, Attr]] | None = None,
) -> tuple[list[Tensor], list[Tensor]]:
    """Appends one `op.own_kernel`.

    Args:
        ctx: The graph.
        kernel: What is called.
        values: The op's arguments by name: tensors, lists of them, numbers, texts, None, named sizes.
        types: Of its results.
        updated: The tensors that it updates: names of arguments, "x.3" for element 3 of a list.
        effectful: Whether it does more than give results.
        filled: Those of `updated` whose old value nothing reads: they are results.
        dtype: What `grid` and `workspace` are told of an element type of the IR.
        workspace: Bytes of scratch memory for the arguments; by default what the kernel says for tensors without memory.
        check_sizes: Refuses named sizes that a call cannot be given.
        launch: What the op says of a launch of machine code, where the kernel is such.

    Returns:
        The results, and the new values of what is updated.

    Raises:
        Reject: An argument or a result is of a kind that cannot be passed.
        UserError: A scalar does not fit.
    """
    renewed = [name for name in updated if name not in filled]
    order = {name: number for number, name in enumerate(renewed)}
    order |= {name: len(renewed) + len(types) + number for number, name in enumerate(filled)}
    encoder = Encoder(kernel, order, len(renewed))
    if kernel.machine and launch is None:
        raise Reject(f"{kernel.name} is machine code, which only programs of torch call", "its CUDA C++ text")
    code = launch(encoder) if launch else {}
    arguments = code.get("arguments") or encoder.arguments(values, len(types))
    check_sizes(encoder.sizes)
    changed = [element_of(values, name) for name in renewed]
    attributes: dict[str, Attr] = {
        "name": kernel.name,
        "symbol": kernel.symbol,
        "arguments": arguments,
        "updates": len(changed),
        "workspace": (workspace or _workspace(kernel, dtype))(values) if kernel.workspace else 0,
        "traits": kernel.traits,
        "effectful": effectful or kernel.effectful,
        **code,
    }
    if kernel.source:
        blocks, threads = kernel.grid_of(sized(values, dtype))
        if isinstance(blocks, Extent):
            check_sizes([blocks])
            encoder.sizes.append(blocks)
        attributes["blocks"] = f"${len(encoder.sizes) - 1}" if isinstance(blocks, Extent) else f"i:{blocks}"
        attributes |= {"source": kernel.text(sized(values, dtype)), "threads": threads}
    if encoder.sizes:
        attributes["sizes"] = Dims(tuple(encoder.sizes))
    every = [x.type for x in changed] + list(types) + [element_of(values, name).type for name in filled]
    made = ctx.emit("own_kernel", [*encoder.inputs, *changed], every, attributes)
    return made[len(changed) : len(changed) + len(types)], [made[order[name]] for name in updated]


def element_of(values: Mapping[str, Any], name: str) -> Tensor:
    """What is updated: the argument "x", or element 3 of a list, "x.3"."""
    argument, _, place = name.partition(".")
    value: Tensor = values[argument][int(place)] if place else values[argument]
    return value


def _workspace(kernel: OwnKernel, dtype: Callable[[str], Any]) -> Callable[[Mapping[str, Any]], int]:
    def count(values: Mapping[str, Any]) -> int:
        refuse_named(values)
        return kernel.workspace_bytes(sized(values, dtype))

    return count


def refuse_named(values: Mapping[str, Any]) -> None:
    """Refuses named sizes, for a function of the arguments that gives a number of bytes.

    Raises:
        Reject: There is one.
    """
    for value in values.values():
        for one in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(one, Extent) or (isinstance(one, Tensor) and not one.type.is_static):
                raise Reject(
                    "its workspace is a function of arguments with a named size", "workspace=, a number of bytes"
                )


def sized(values: Mapping[str, Any], dtype: Callable[[str], Any]) -> dict[str, Any]:
    """The arguments with tensors that have no memory."""

    def like(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [like(item) for item in value]
        if isinstance(value, Tensor):
            return Sized(tuple(value.extents), dtype(value.dtype), _bytes_of(value.dtype))
        return value

    return {name: like(value) for name, value in values.items()}


def _bytes_of(dtype: str) -> int:
    digits = "".join(c for c in dtype.partition("E")[0] if c.isdigit())
    return max(1, int(digits) // 8)


# Calls of other frameworks --------------------------------------------------------------------------------------------


def registration(name: str, operands: Sequence[Any], constants: Mapping[str, Any], results: int) -> str:
    """The registration that would make a call work: for messages.

    Args:
        name: "mylib::scale".
        operands: Per operand a Tensor, a list of them, or None where it is absent.
        constants: Numbers, texts and lists of numbers by name.
        results: How many tensors it gives.
    """
    given = [
        f"{'Tensor?' if x is None else 'Tensor[]' if isinstance(x, list) else 'Tensor'} x{i}"
        for i, x in enumerate(operands)
    ]
    given += [f"{_type_of(value)} {key}" for key, value in constants.items()]
    whole = "Tensor" if results == 1 else f"({', '.join(['Tensor'] * results)})"
    function = name.rpartition("::")[2]
    return f'sl.c_kernel("LIBRARY.so", "{function}", "{name}({", ".join(given)}) -> {whole}")'


def _type_of(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "float[]" if any(isinstance(x, float) for x in value) else "int[]"
    return {bool: "bool", int: "int", float: "float", str: "str"}.get(type(value), "int")


def bound(
    kernel: OwnKernel, operands: Sequence[Any], constants: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[int, str]]:
    """The arguments of a call that has tensors in order and constants by name.

    Args:
        kernel: What is called.
        operands: Tensors, and for a list either one list, or, where the schema has a single list, the tensors one by one.
            None: absent. Optional tensors at the end may be left out.
        constants: By name; those that are left out have the schema's default.

    Returns:
        Values by name, and per operand the name of what it is ("x", "x.3").

    Raises:
        Reject: Something does not fit the schema.
    """
    where = f"{kernel.name}, which is registered as {kernel.schema}"
    tensors = [p for p in kernel.parameters if p.kind == "tensor"]
    others = {p.name: p for p in kernel.parameters if p.kind != "tensor"}
    if unknown := sorted(set(constants) - set(others)):
        known = ", ".join(others) or "none"
        raise Reject(f"the attribute '{unknown[0]}' of {where}", f"the attributes of the schema: {known}")
    values: dict[str, Any] = {}
    names: dict[int, str] = {}
    place = 0
    for number, parameter in enumerate(tensors):
        if parameter.is_list:
            place = _take_list(parameter, tensors[number + 1 :], operands, place, values, names, where)
            continue
        if place < len(operands):
            value = operands[place]
            if isinstance(value, list) or (value is None and not parameter.is_optional):
                raise Reject(f"'{parameter.name}' of {where} is {'a list' if value else 'absent'}", "a tensor")
            names[place] = parameter.name
            place += 1
        elif parameter.is_optional:
            value = None
        else:
            raise Reject(f"{len(operands)} tensors for {where}", f"{len(tensors)} tensors")
        values[parameter.name] = value
    if place < len(operands):
        raise Reject(f"{len(operands)} tensors for {where}", f"{len(tensors)} tensors")
    for name, parameter in others.items():
        value = constants.get(name, parameter.default)
        if value is REQUIRED:
            raise Reject(f"a call of {where} without the attribute '{name}'", f"{name}=, a {parameter.base}")
        if parameter.is_list and not isinstance(value, (list, tuple)):
            value = [value]
        values[name] = value
    return {p.name: values[p.name] for p in kernel.parameters}, names


def _take_list(
    parameter: Parameter,
    rest: Sequence[Parameter],
    operands: Sequence[Any],
    place: int,
    values: dict[str, Any],
    names: dict[int, str],
    where: str,
) -> int:
    """Takes the operands of a list; the place behind them."""
    if place < len(operands) and isinstance(operands[place], list):
        values[parameter.name] = operands[place]
        names[place] = parameter.name
        return place + 1
    if any(other.is_list for other in rest):
        raise Reject(f"a call of {where} with two lists, whose lengths the call does not say", "one list in the schema")
    count = len(operands) - place - len(rest)
    if count < 0:
        raise Reject(f"{len(operands)} tensors for {where}", "more tensors")
    values[parameter.name] = list(operands[place : place + count])
    names.update((place + i, f"{parameter.name}.{i}") for i in range(count))
    return place + count
