# SPDX-License-Identifier: Apache-2.0
"""Schemas of own kernels, as torch writes them: "mylib::scale(Tensor x, float a=1.0) -> Tensor". Needs no framework."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any

from straightline.errors import UnsupportedError, UserError

#: What a C function is given, by the name of a type.
_KINDS = {
    "Tensor": "tensor", "int": "integer", "SymInt": "integer", "bool": "integer", "float": "number", "str": "text",
    "ScalarType": "dtype", "dtype": "dtype",
}  # fmt: skip
_SCHEMA = re.compile(r"(?P<name>[\w.]+(?:::[\w.]+)?)\s*\((?P<arguments>.*)\)\s*->\s*(?P<results>.+)\Z", re.DOTALL)
_ARGUMENT = re.compile(r"(?P<type>[A-Za-z_]\w*[^=]*?)\s+(?P<name>[A-Za-z_]\w*)\s*(?:=\s*(?P<default>.+))?\Z", re.DOTALL)
_TYPE = re.compile(r"(?P<base>[A-Za-z_]\w*)(?P<rest>(?:\([^()]*\)|\[\d*\]|\?)*)\Z")
_PART = re.compile(r"\([^()]*\)|\[\d*\]|\?")
#: Of an argument without a default.
REQUIRED = object()


@dataclass(frozen=True)
class Parameter:
    """One argument of the schema."""

    name: str
    #: "tensor", "integer", "number", "text" or "dtype".
    kind: str
    is_list: bool
    is_optional: bool
    is_updated: bool
    #: The type's name without list and the like: "Tensor", "bool".
    base: str = ""
    default: Any = REQUIRED


@dataclass(frozen=True)
class Schema:
    """A schema."""

    #: "mylib::scale".
    name: str
    parameters: tuple[Parameter, ...]
    #: How many tensors it gives.
    results: int
    #: As torch reads it.
    text: str


def parse(schema: str, effectful: bool = False) -> Schema:
    """Reads a schema.

    Raises:
        UserError: It is none, names no namespace, or gives and updates nothing.
        UnsupportedError: It has a type that a C function is not given, or gives something else than tensors.
    """
    if not isinstance(schema, str):
        raise UserError(f'schema is {schema!r}, expected a text such as "mylib::scale(Tensor x, float a) -> Tensor"')
    found = _SCHEMA.match(schema.strip())
    if found is None:
        raise UserError(f'schema {schema!r} cannot be read: expected "mylib::scale(Tensor x, float a) -> Tensor"')
    namespace, _, base = found["name"].rpartition("::")
    if not namespace or "." in found["name"]:
        own = base.partition(".")[0]
        raise UserError(f"schema {schema!r} names {found['name']!r}, expected a namespace and a name, mylib::{own}")
    parameters = tuple(
        _parameter(text, found["name"], schema) for text in _parts(found["arguments"], schema) if text != "*"
    )
    names = [parameter.name for parameter in parameters]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f"schema {schema!r} cannot be read: two arguments are named '{twice}'")
    results = _results(found["results"].strip(), found["name"], schema)
    if not results and not effectful and not any(parameter.is_updated for parameter in parameters):
        raise UserError(
            f"{found['name']} gives nothing and updates nothing: declare a result, or an argument as Tensor(a!)"
        )
    return Schema(found["name"], parameters, results, re.sub(r"\bdtype(\??\s+\w)", r"ScalarType\1", schema.strip()))


def _parts(text: str, schema: str) -> list[str]:
    """What stands between commas, outside of brackets and quotes."""
    parts, depth, begin, quote = [], 0, 0, ""
    for place, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        elif sign in "([":
            depth += 1
        elif sign in ")]":
            depth -= 1
        elif sign == "," and depth == 0:
            parts.append(text[begin:place])
            begin = place + 1
        if depth < 0:
            break
    if depth or quote:
        raise UserError(f"schema {schema!r} cannot be read: a bracket or quote is not closed")
    parts.append(text[begin:])
    parts = [part.strip() for part in parts]
    if parts == [""]:
        return []
    if "" in parts:
        raise UserError(f"schema {schema!r} cannot be read: an argument is missing between commas")
    return parts


def _parameter(text: str, op: str, schema: str) -> Parameter:
    found = _ARGUMENT.match(text)
    shape = _TYPE.match(re.sub(r"\s+", "", found["type"])) if found else None
    if found is None or shape is None:
        raise UserError(f"schema {schema!r} cannot be read: {text!r} is no type and name")
    name, written = found["name"], found["type"].strip()
    marks = _PART.findall(shape["rest"])
    alias = next((mark for mark in marks if mark.startswith("(")), "")
    is_list = any(mark.startswith("[") for mark in marks)
    is_optional = "?" in marks
    kind = _KINDS.get(shape["base"])
    if kind is None or (is_list and kind in ("text", "dtype")) or (is_optional and kind != "tensor"):
        raise UnsupportedError(
            f"{op} has the argument '{name}' of type {written}, which a C function is not given; supported "
            "are Tensor, Tensor?, Tensor[], Tensor(a!), Tensor(a!)[], int, float, bool, str, dtype, int[] and float[]"
        )
    if alias and "!" not in alias:
        raise UnsupportedError(
            f"{op} has the argument '{name}' with an alias that it does not update; nearest supported form: Tensor "
            f"{name}, or Tensor(a!) {name}"
        )
    default = REQUIRED if found["default"] is None else _default(found["default"], schema)
    return Parameter(name, kind, is_list, is_optional, bool(alias), shape["base"], default)


def _default(text: str, schema: str) -> Any:
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError) as error:
        raise UserError(f"schema {schema!r} cannot be read: the default {text!r} is no literal") from error


def _results(text: str, op: str, schema: str) -> int:
    types = _parts(text[1:-1], schema) if text.startswith("(") and text.endswith(")") else [text]
    for type in types:
        plain = re.sub(r"\s+\w+\Z", "", type)  # a result may have a name
        if re.fullmatch(r"Tensor\([^()]*\)", plain):
            raise UnsupportedError(
                f"{op} gives an argument that it updates; nearest supported form: -> (), the argument is its new value"
            )
        if plain != "Tensor":
            if _TYPE.match(plain) is None:
                raise UserError(f"schema {schema!r} cannot be read: {type!r} is no type of a result")
            raise UnsupportedError(f"{op} gives {plain}; nearest supported form: tensors, -> (Tensor, Tensor)")
    return len(types)
