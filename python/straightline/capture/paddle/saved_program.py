# SPDX-License-Identifier: Apache-2.0
"""What `paddle.jit.save` writes, read without Paddle: the program (.json) and its parameters (.pdiparams).

A file may be anything: sizes, numbers and nesting are checked before memory is taken, and nothing recurses.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from straightline.capture.paddle import pir
from straightline.errors import UserError

#: The version of the format that Paddle 3.0 to 3.3 write.
VERSIONS = (1, 2, 3, 4)
#: Dialects by the number that stands before an op's name.
_DIALECTS = {"0": "builtin", "1": "pd_op", "2": "cf", "3": "custom_op", "4": "pd_dist"}
#: Brackets that are open at one time; Paddle's own files have 12 and a few for each branch within a branch.
_MOST_DEPTH = 400
_MOST_BYTES = 1 << 30
#: Elements of one tensor, more than any memory has.
_MOST_ELEMENTS = 1 << 44
_TYPES = {
    "t_f32": "f32", "t_f64": "f64", "t_f16": "f16", "t_bf16": "bf16", "t_i8": "i8", "t_i16": "i16", "t_i32": "i32",
    "t_i64": "i64", "t_ui8": "ui8", "t_bool": "i1", "t_f8e4m3": "float8_e4m3fn", "t_f8e5m2": "float8_e5m2",
    "t_c64": "complex64", "t_c128": "complex128",
}  # fmt: skip
#: Element types in .pdiparams, by their number in Paddle's framework.proto.
_PROTO = {0: "bool", 1: "int16", 2: "int32", 3: "int64", 4: "float16", 5: "float32", 6: "float64", 20: "uint8", 21: "int8",
          22: "bfloat16", 23: "complex64", 24: "complex128"}  # fmt: skip


def read_program(path: str | os.PathLike[str]) -> pir.Program:
    """The program of a .json file.

    Raises:
        UserError: It cannot be read, or is none that Paddle would write.
    """
    name = os.path.basename(os.fspath(path))
    try:
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            text = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UserError(f"cannot read {os.fspath(path)!r}: {error.strerror}") from error
    if len(text) > _MOST_BYTES:
        raise UserError(f"{name} has {size} bytes but a program has at most {_MOST_BYTES}")
    _check_depth(text, name)
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{name} is no program of Paddle, or is cut short: {error}") from error
    return _Reader(name).program(whole)


def _check_depth(text: bytes, name: str) -> None:
    """Refuses text whose brackets nest deeper than any program's; strings do not count."""
    codes = np.frombuffer(text, np.uint8)
    marks = codes[np.isin(codes, np.frombuffer(b'[]{}"\\', np.uint8))]
    depth, deepest, inside, i = 0, 0, False, 0
    raw = marks.tobytes()
    if b"\\" not in raw:  # whole strings go at once
        parts = raw.split(b'"')[::2]
        steps = np.frombuffer(b"".join(parts), np.uint8)
        opens = np.isin(steps, np.frombuffer(b"[{", np.uint8))
        deepest = int(np.cumsum(np.where(opens, 1, -1)).max(initial=0))
    else:
        while i < len(text):
            c = text[i]
            if inside:
                i += c == 0x5C
                inside = not (c == 0x22)
            elif c == 0x22:
                inside = True
            elif c in b"[{":
                depth += 1
                deepest = max(deepest, depth)
            elif c in b"]}":
                depth -= 1
            i += 1
    if deepest > _MOST_DEPTH:
        raise UserError(f"{name} nests {deepest} levels but a program has at most {_MOST_DEPTH}")


class _Reader:
    """Turns the JSON of one file into a program. The line of an op is its number in the file, which says no other place."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._given: set[int] = set()
        self._count = 0

    def _wrong(self, what: str) -> UserError:
        return UserError(f"{self._name} is no program of Paddle: {what}")

    def _entry(self, value: Any, key: str, kind: type | tuple[type, ...], what: str) -> Any:
        if not isinstance(value, dict) or not isinstance(value.get(key), kind):
            names = kind.__name__ if isinstance(kind, type) else " or ".join(k.__name__ for k in kind)
            raise self._wrong(f"{what} has no {key!r} that is a {names}")
        return value[key]

    def program(self, whole: Any) -> pir.Program:
        """The whole file."""
        code = self._entry(whole, "base_code", dict, "the file")
        if code.get("magic") != "pir":
            raise self._wrong(f"its magic is {code.get('magic')!r}, not 'pir'")
        version = code.get("version")
        if version not in VERSIONS or isinstance(version, bool):
            raise UserError(
                f"{self._name} is of version {version!r} of Paddle's format but {VERSIONS[0]} to {VERSIONS[-1]} are read: "
                "save it with paddlepaddle 3.0 to 3.3"
            )
        regions = self._entry(self._entry(whole, "program", dict, "the file"), "regions", list, "the program")
        if len(regions) != 1:
            raise self._wrong(f"the program has {len(regions)} regions, not 1")
        blocks = self._blocks(regions[0])
        if len(blocks) != 1:
            raise self._wrong(f"the program has {len(blocks)} blocks, not 1")
        return pir.Program(blocks[0], None, self._name)

    def _blocks(self, region: Any) -> list[pir.Block]:
        return [self._block(block) for block in self._entry(region, "blocks", list, "a region")]

    def _block(self, block: Any) -> pir.Block:
        read = pir.Block()
        for argument in self._entry(block, "args", list, "a block"):
            number = self._entry(argument, "#", int, "an argument of a block")
            read.arguments.append(self._new(number))
            read.types.append(self._type(argument.get("TT")))
        for op in self._entry(block, "ops", list, "a block"):
            read.ops.append(self._op(op))
        return read

    def _new(self, number: int) -> int:
        if number in self._given or not -(2**40) < number < 2**40:
            raise self._wrong(f"value {number} is given twice")
        if number:
            self._given.add(number)
        return number

    def _op(self, op: Any) -> pir.Op:
        name = self._entry(op, "#", str, "an op")
        self._count += 1
        number = self._count
        if name == "p":
            return self._parameter(op)
        dialect, _, own = name.partition(".")
        attributes = {**self._attributes(op, "A", name), **self._attributes(op, "OA", name)}
        operands = [self._entry(x, "%", int, f"an operand of {name}") for x in self._entry(op, "I", list, name)]
        layer = attributes.pop("struct_name", "") or ""
        missing = next((x for x in operands if x and x not in self._given), None)
        if missing is not None:
            raise self._wrong(f"{own} reads value {missing}, which nothing gives before it")
        regions = op.get("regions", [])
        if not isinstance(regions, list):
            raise self._wrong(f"{own} has regions that are no list")
        blocks = [block for region in regions for block in self._blocks(region)]
        results, types = [], []
        for result in self._entry(op, "O", list, name):
            results.append(self._new(self._entry(result, "%", int, f"a result of {name}")))
            types.append(self._type(result.get("TT")))
        for key in ("stop_gradient", "persistable"):
            attributes.pop(key, None)
        return pir.Op(
            f"{_DIALECTS.get(dialect, dialect)}.{own}", operands, attributes, results, types, blocks,
            str(layer).strip("/").replace("/", "."), self._name, number,
        )  # fmt: skip

    def _parameter(self, op: Any) -> pir.Op:
        said = self._entry(op, "A", list, "a parameter")
        if len(said) != 4 or not isinstance(said[3], str):
            raise self._wrong("a parameter has no name")
        result = self._entry(op, "O", dict, "a parameter")
        number = self._new(self._entry(result, "%", int, "a parameter"))
        attributes = {"parameter_name": said[3], "persistable": self._is_saved(op)}
        return pir.Op("builtin.parameter", [], attributes, [number], [self._type(result.get("TT"))])

    @staticmethod
    def _is_saved(op: Any) -> bool:
        """Whether the parameters' file holds it: its first flag, "persistable"."""
        flags = op.get("OA")
        return bool(flags[0]) if isinstance(flags, list) and flags else True

    def _attributes(self, op: Any, key: str, name: str) -> dict[str, Any]:
        found = {}
        for entry in op.get(key, []) if isinstance(op.get(key, []), list) else []:
            own = self._entry(entry, "N", str, f"an attribute of {name}")
            found[own] = self._attribute(entry.get("AT"), name)
        return found

    def _attribute(self, value: Any, name: str, depth: int = 0) -> Any:
        kind = self._entry(value, "#", str, f"an attribute of {name}").partition(".")[2]
        data = value.get("D")
        if kind in ("a_array",):
            if not isinstance(data, list) or depth > 8:
                raise self._wrong(f"an attribute of {name} is a list that is none")
            return [self._attribute(item, name, depth + 1) for item in data]
        if kind in ("a_intarray",):
            return [self._integer(item, name) for item in data] if isinstance(data, list) else self._integer(data, name)
        if kind == "a_dtype":
            return pir.DTYPES.get(
                str(data), str(data).lower() if not str(data).startswith("Undefined") else "undefined"
            )
        if kind in ("a_i32", "a_i64", "a_index"):
            return self._integer(data, name)
        if kind in ("a_f32", "a_f64", "a_scalar", "a_double"):
            return self._number(value, name)
        if kind in ("a_c64", "a_c128"):
            if not isinstance(data, list) or len(data) != 2 or not all(type(part) in (int, float) for part in data):
                raise self._wrong(f"an attribute of {name} is {str(data)[:40]!r}, not a complex number")
            return complex(*data)
        if isinstance(data, (str, bool, int, float, type(None))):
            return data
        return str(data)[:200]

    def _integer(self, data: Any, name: str) -> int:
        if not isinstance(data, int) or not -(2**63) <= data < 2**63:
            raise self._wrong(f"an attribute of {name} is {str(data)[:40]!r}, not an integer of 64 bits")
        return int(data)

    def _number(self, value: Any, name: str) -> Any:
        """A float; not a number and infinities are text ("VD")."""
        data = value.get("D", value.get("VD"))
        if isinstance(data, list) and len(data) == 2 and isinstance(data[1], (int, float, str, bool)):
            data = data[1]
        words = {"nan": math.nan, "NaN": math.nan, "inf": math.inf, "Infinity": math.inf, "-inf": -math.inf,
                 "-Infinity": -math.inf, "INF": math.inf, "-INF": -math.inf, "NAN": math.nan}  # fmt: skip
        if isinstance(data, str) and data in words:
            return words[data]
        if not isinstance(data, (int, float)):
            raise self._wrong(f"an attribute of {name} is {str(data)[:40]!r}, not a number")
        return data

    def _type(self, value: Any) -> pir.AnyType:
        if not isinstance(value, dict):
            return None
        kind = str(value.get("#", "")).partition(".")[2]
        data = value.get("D")
        if kind == "t_vec":
            if not isinstance(data, list):
                raise self._wrong("a list of tensors has no types")
            items = [
                self._type(item) if isinstance(item, dict) and "vec" not in str(item.get("#")) else None
                for item in data
            ]
            return pir.ListType(tuple(item if isinstance(item, pir.Type) else pir.Type("none", ()) for item in items))
        if kind != "t_dtensor" or not isinstance(data, list) or len(data) < 2 or not isinstance(data[0], dict):
            return None
        element = str(data[0].get("#", "")).partition(".")[2]
        shape = data[1]
        if not isinstance(shape, list) or len(shape) > 64:
            raise self._wrong(f"a tensor has {len(shape) if isinstance(shape, list) else 'no'} dims")
        sizes = [self._integer(size, "a tensor's type") for size in shape]
        if any(size < -1 for size in sizes) or math.prod(max(size, 1) for size in sizes) > _MOST_ELEMENTS:
            raise self._wrong(f"a tensor has the sizes {str(sizes)[:80]}")
        return pir.Type(_TYPES.get(element, element.removeprefix("t_")), tuple(sizes))


# Parameters -----------------------------------------------------------------------------------------------------------


def read_parameters(path: str | os.PathLike[str], program: pir.Program) -> dict[str, Any]:
    """Arrays by unique name of the parameters that the file beside a program holds, each checked against the program.

    Raises:
        UserError: The file is missing, cut short, or holds other parameters than the program says.
    """
    declared = {
        str(op.attributes["parameter_name"]): op.types[0]
        for op in program.block.ops
        if op.name == "builtin.parameter" and op.attributes.get("persistable", True)
    }
    if not declared:
        return {}
    name = os.path.basename(os.fspath(path))
    try:
        data = np.memmap(path, np.uint8, "r")
    except FileNotFoundError as error:
        raise UserError(f"the parameters of {program.name} are missing: there is no {name} beside it") from error
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {name}: {error}") from error
    names = sorted(declared)
    found: dict[str, Any] = {}
    stream = _tensors(data, name)
    for own in names:
        try:
            array = next(stream)
        except StopIteration:
            raise UserError(f"{name} holds {len(found)} parameters but {program.name} has {len(names)}: "
                            f"'{own}' and those behind it are missing") from None  # fmt: skip
        type = declared[own]
        dtype = pir.DTYPES.get(array.dtype.name, array.dtype.name)
        if not isinstance(type, pir.Type) or (dtype, array.shape) != (type.dtype, type.shape):
            raise UserError(f"{name} has '{own}' as {pir.Type(dtype, array.shape)} but {program.name} says {type}")
        found[own] = array
    if next(stream, None) is not None:
        raise UserError(f"{name} holds more parameters than the {len(names)} of {program.name}")
    return found


def _tensors(data: Any, name: str) -> Iterator[Any]:
    """Tensors one behind the other: version, levels, version, description (a protocol buffer), elements."""
    at = 0

    def take(count: int) -> bytes:
        nonlocal at
        if count < 0 or at + count > len(data):
            raise UserError(f"{name} is cut short: {at + count} bytes are needed but there are {len(data)}")
        at += count
        return bytes(data[at - count : at])

    while at < len(data):
        version, levels = struct.unpack("<IQ", take(12))
        if version or levels:
            raise UserError(f"{name} is no file of parameters: a tensor of version {version} with {levels} levels")
        inner, length = struct.unpack("<Ii", take(8))
        if inner or not 0 <= length <= 4096:
            raise UserError(f"{name} is no file of parameters: a description of version {inner} and {length} bytes")
        kind, shape = _description(take(length), name)
        dtype = _numpy_dtype(kind, name)
        count = math.prod(shape)
        if count * dtype.itemsize > len(data) - at:
            raise UserError(f"{name} is cut short: a tensor of the sizes {list(shape)} needs {count * dtype.itemsize} bytes "
                            f"but {len(data) - at} are left")  # fmt: skip
        flat = np.frombuffer(data, np.uint8, count * dtype.itemsize, at).copy().view(dtype)
        at += count * dtype.itemsize
        yield flat.reshape(shape)


def _numpy_dtype(kind: int, name: str) -> Any:
    if kind not in _PROTO:
        raise UserError(f"{name} has elements of type number {kind}, which no program takes")
    if _PROTO[kind] == "bfloat16":
        try:
            import ml_dtypes
        except ImportError as error:
            raise UserError(f"{name} holds bfloat16, which needs ml_dtypes: pip install ml_dtypes") from error
        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(_PROTO[kind])


def _description(text: bytes, name: str) -> tuple[int, tuple[int, ...]]:
    """Element type (field 1) and sizes (field 2) of a TensorDesc."""
    kind, sizes, at = -1, [], 0

    def number() -> int:
        nonlocal at
        found, shift = 0, 0
        while at < len(text) and shift < 70:
            byte = text[at]
            at += 1
            found |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return found
        raise UserError(f"{name} is no file of parameters: a description is damaged")

    while at < len(text):
        tag = number()
        if tag == 8:
            kind = number()
        elif tag == 16:
            sizes.append(number())
        elif tag == 18:
            end = number() + at
            while at < end:
                sizes.append(number())
        else:
            raise UserError(f"{name} is no file of parameters: a description has field {tag >> 3}")
    if any(size >= 2**62 for size in sizes) or math.prod(max(size, 1) for size in sizes) >= 2**62:
        raise UserError(f"{name} has a tensor of the sizes {str(sizes)[:80]}")
    return kind, tuple(sizes)
