# SPDX-License-Identifier: Apache-2.0
"""Arguments of a call from arrays: those that a file has, and random ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from straightline._frameworks import imported_torch
from straightline.errors import UserError

#: numpy's dtypes of the IR's element types.
_DTYPES = {
    "f16": "float16", "f32": "float32", "f64": "float64", "i1": "bool", "i8": "int8", "i16": "int16", "i32": "int32",
    "i64": "int64", "ui8": "uint8", "ui16": "uint16", "ui32": "uint32", "ui64": "uint64",
}  # fmt: skip


@dataclass(frozen=True)
class Input:
    """A tensor that a program takes.

    Attributes:
        name: The user's name.
        type: The IR's element type.
        shape: Numbers, names of sizes, or expressions over names.
    """

    name: str
    type: str
    shape: tuple[int | str, ...]

    def sizes(self, named: Mapping[str, int]) -> tuple[int, ...]:
        """The shape for these named sizes.

        Raises:
            UserError: A size is an expression over a name that is not given.
        """
        return tuple(size if isinstance(size, int) else _evaluate(size, named) for size in self.shape)

    @property
    def text(self) -> str:
        """As people read it: "x: float32[n, 64]"."""
        return f"{self.name}: {_DTYPES.get(self.type, self.type)}[{', '.join(map(str, self.shape))}]"


def _evaluate(text: str, named: Mapping[str, int]) -> int:
    import ast
    import operator

    operators: dict[type, Any] = {
        ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
        ast.Mod: operator.mod,
    }  # fmt: skip

    def value(node: ast.expr) -> int:
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        if isinstance(node, ast.Name) and node.id in named:
            return named[node.id]
        if isinstance(node, ast.BinOp) and type(node.op) in operators:
            return int(operators[type(node.op)](value(node.left), value(node.right)))
        raise UserError(f"the size {text!r} has no value: give --size NAME=N")

    return value(ast.parse(text.replace("floordiv", "//").replace(" mod ", " % "), mode="eval").body)


def inputs_of(function: Any) -> list[Input]:
    """The tensors that the first program of a function takes, in order."""
    rows = json.loads(function._compilation.explain_json)["inputs"]
    return [Input(row["name"] or f"input{i}", row["type"], tuple(row["shape"])) for i, row in enumerate(rows)]


def named_sizes(function: Any, chosen: Mapping[str, int]) -> dict[str, int]:
    """A value for each named size: the chosen one, else the smallest.

    Raises:
        UserError: A chosen name is not there, or its value is out of bounds.
    """
    rows = {row["name"]: row for row in function._binding.named_sizes if not row["depends_on_data"]}
    for name, size in chosen.items():
        if name in rows and not rows[name]["min"] <= size <= rows[name]["max"]:
            raise UserError(f"size {name} is {size} but must be from {rows[name]['min']} to {rows[name]['max']}")
        if name not in rows and rows:
            raise UserError(f"there is no size {name}: the model has {', '.join(rows)}")
    return {name: chosen.get(name, row["min"]) for name, row in rows.items()}


def random_array(info: Input, sizes: Mapping[str, int], generator: np.random.Generator) -> Any:
    """Numbers of a normal distribution; 0 and 1 for integers and bools, so that an index is in range."""
    shape = info.sizes(sizes)
    dtype = _DTYPES.get(info.type)
    if dtype in ("float16", "float32", "float64"):
        return generator.standard_normal(shape).astype(dtype)
    if dtype is not None:
        return generator.integers(0, 2, shape).astype(dtype)
    torch = imported_torch()
    if torch is None:
        try:
            import ml_dtypes
        except ImportError as error:
            raise UserError(
                f"input {info.name} has elements of {info.type}: import torch, or install ml_dtypes"
            ) from error
        name = {"bf16": "bfloat16"}.get(info.type, info.type.lower())
        return generator.standard_normal(shape).astype(getattr(ml_dtypes, name))
    name = {"bf16": "bfloat16"}.get(info.type, f"float8_{info.type[2:].lower()}")
    return torch.from_numpy(generator.standard_normal(shape).astype("float32")).to(getattr(torch, name))


def read_arrays(given: Sequence[str], inputs: Sequence[Input]) -> dict[int, Any]:
    """`--input NAME=FILE.npy` or `FILE.npy` in order, by the number of the input.

    Raises:
        UserError: A name is not there, or a file cannot be read.
    """
    names = [info.name for info in inputs]
    arrays: dict[int, Any] = {}
    for i, text in enumerate(given):
        name, mark, file = text.partition("=")
        if not mark:
            name, file = names[i] if i < len(names) else "", text
        if name not in names:
            raise UserError(
                f"there is no input {name or text!r}: the model takes {', '.join(i.text for i in inputs) or 'none'}"
            )
        try:
            arrays[names.index(name)] = np.load(Path(file), allow_pickle=False)
        except (OSError, ValueError) as error:
            raise UserError(f"cannot read {file!r}: {error}") from error
    return arrays


def call(function: Any, arrays: Sequence[Any]) -> Any:
    """Calls the function's first program with arrays in the order of the program's inputs."""
    positional, named = bound(function, arrays)
    return function(*positional, **named)


def bound(function: Any, arrays: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and named arguments of the function's first program, from arrays in the order of the program's inputs."""
    positional, named = [], {}
    for name, kind, node, *_ in function._binding.inputs:
        if kind == 2:
            named[name] = _built(node, arrays)
        else:
            positional.append(_built(node, arrays))
    return positional, named


def _built(node: Sequence[Any], arrays: Sequence[Any]) -> Any:
    kind, name, *rest = node
    if kind == "tensor":
        return arrays[rest[0]]
    if kind == "const":
        return rest[0]
    children = [_built(child, arrays) for child in rest[-1]]
    if kind in ("tuple", "list"):
        return tuple(children) if kind == "tuple" else children
    if kind == "dict":
        return rest[0](zip(rest[1], children, strict=True))
    if kind == "namedtuple":
        return rest[0](*children)
    if kind == "dataclass":
        return rest[0](**dict(zip(rest[1], children, strict=True)))
    return rest[2](children, rest[3])


def leaves_of(value: Any, name: str = "result") -> dict[str, Any]:
    """The tensors of a result, by where they are."""
    if isinstance(value, Mapping):
        pairs = [(f"{name}[{key!r}]", item) for key, item in value.items()]
    elif isinstance(value, (tuple, list)):
        fields = getattr(value, "_fields", range(len(value)))
        pairs = [(f"{name}[{field}]", item) for field, item in zip(fields, value, strict=True)]
    elif hasattr(value, "__dataclass_fields__"):
        pairs = [(f"{name}.{field}", getattr(value, field)) for field in value.__dataclass_fields__]
    else:
        return {name: value}
    found: dict[str, Any] = {}
    for place, item in pairs:
        found.update(leaves_of(item, place))
    return found


def results_of(value: Any) -> dict[str, Any]:
    """The tensors of a result as numpy arrays, by where they are: what is none is left out."""
    return {name: as_numpy(leaf) for name, leaf in leaves_of(value).items() if hasattr(leaf, "shape")}


def as_numpy(value: Any) -> Any:
    """A tensor as a numpy array; bfloat16 and smaller floats as float32."""
    if isinstance(value, np.ndarray):
        return value if value.dtype.kind in "biufcO" else value.astype(np.float32)  # O: text
    if hasattr(value, "detach"):
        tensor = value.detach().cpu()
        try:
            return tensor.numpy()
        except TypeError:
            return tensor.float().numpy()
    return np.asarray(value)
