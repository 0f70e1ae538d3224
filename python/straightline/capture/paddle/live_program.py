# SPDX-License-Identifier: Apache-2.0
"""A `paddle.pir.Program` in memory as plain data (pir.py)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import paddle

from straightline.capture.paddle import pir
from straightline.errors import UnsupportedError

_PADDLE = os.path.dirname(os.path.abspath(paddle.__file__)) + os.sep
#: Nets that stand in Paddle are a user's model as well.
_NETS = os.path.join(_PADDLE, "vision", "models") + os.sep
_OWN = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_FRAME = re.compile(r'^\s*File "(.*)", line (\d+), in ')
#: Attributes that say where an op comes from or what training needs.
_NOT_READ = frozenset(("op_callstack", "struct_name", "stop_gradient", "persistable", "op_role", "chunk_id"))


class LiveReader:
    """Reads one program; `value` gives the number of a value of it afterwards."""

    def __init__(self, parameters: Mapping[str, Any] | None = None) -> None:
        """`parameters`: tensors that the program has as inputs, by the inputs' names, but that are parameters."""
        self.parameters = dict(parameters or {})
        self._numbers: dict[str, int] = {}
        #: Names that Paddle gave to layers of one class within another, in order.
        self._layers: dict[tuple[str, str], list[str]] = {}

    def value(self, value: Any) -> int:
        """The number of a value; 0 for a null one."""
        if value is None or not value.initialized():
            return 0
        return self._numbers.setdefault(value.id, len(self._numbers) + 1)

    def program(self, program: Any, fetches: Sequence[Any] | None, name: str) -> pir.Program:
        """The whole of a program."""
        block = self._block(program.global_block())
        return pir.Program(block, None if fetches is None else [self.value(v) for v in fetches], name)

    def _block(self, block: Any) -> pir.Block:
        arguments = list(block.args())
        read = pir.Block([self.value(v) for v in arguments], [_type(v) for v in arguments])
        for name, value in _keywords(block).items():
            read.ops.append(_keyword_argument(name, self.value(value), _type(value)))
        read.ops.extend(self._op(op) for op in block.ops)
        return read

    def _op(self, op: Any) -> pir.Op:
        name = op.name()
        attributes = _attributes(op, name)
        results = list(op.results())
        if name == "pd_op.data" and attributes.get("name") in self.parameters:
            name, attributes = "builtin.parameter", {"parameter_name": self.parameters[attributes["name"]].name}
        file, line = self._place(attributes.get("op_callstack"))
        return pir.Op(
            name,
            [self.value(v) for v in op.operands_source()],
            {key: _attribute(value) for key, value in attributes.items() if key not in _NOT_READ},
            [self.value(v) for v in results],
            [_type(v) for v in results],
            [self._block(block) for block in self._blocks(op, name)],
            self._layer(str(attributes.get("struct_name") or "").strip("/")),
            file,
            line,
        )

    @staticmethod
    def _blocks(op: Any, name: str) -> list[Any]:
        return list(op.blocks()) if op.num_regions() else []

    def _layer(self, path: str) -> str:
        """A path of layers, numbered within the program: Paddle counts on from one trace of a process to the next."""
        names, above = [], ""
        for part in filter(None, path.split("/")):
            kind = re.sub(r"_\d+$", "", part)
            seen = self._layers.setdefault((above, kind), [])
            if part not in seen:
                seen.append(part)
            number = seen.index(part)
            names.append(f"{kind}_{number}" if number else kind)
            above = f"{above}/{part}"
        return ".".join(names)

    def _place(self, stack: Sequence[str] | None) -> tuple[str, int]:
        """The innermost line that is the user's: of no file of Paddle, and none that calls us."""
        for text in reversed(stack or ()):
            found = _FRAME.match(text)
            if not found or found[1].startswith((_PADDLE, "<")) and not found[1].startswith(_NETS):
                continue
            if found[1].startswith(_OWN):
                break
            return os.path.basename(found[1]), int(found[2])
        return "", 0


def _keywords(block: Any) -> Mapping[str, Any]:
    return block.kwargs() if hasattr(block, "kwargs") else {}


def _keyword_argument(name: str, value: int, type: pir.AnyType) -> pir.Op:
    return pir.Op("pd_op.data", [], {"name": name}, [value], [type])


def dtype_name(dtype: Any) -> str:
    """The IR's name of a dtype of Paddle, or Paddle's own where the IR has none."""
    text = str(dtype).removeprefix("paddle.").removeprefix("DataType.").lower()
    return pir.DTYPES.get(text, text)


def _type(value: Any) -> pir.AnyType:
    if not value.initialized():
        return None
    type = value.type()
    items = type.as_vec_type() if hasattr(type, "as_vec_type") else None
    if items:
        return pir.ListType(tuple(_dense(item) for item in items.as_list()))
    return _dense(type) if value.is_dense_tensor_type() else None


def _dense(type: Any) -> pir.Type:
    return pir.Type(dtype_name(type.dtype), tuple(type.shape))


def _attributes(op: Any, name: str) -> Mapping[str, Any]:
    """An op's attributes; none of an op of Python, whose functions Paddle does not show."""
    if name.startswith("py_op."):
        return {}
    try:
        found: Mapping[str, Any] = op.attrs()
    except NotImplementedError:  # complex numbers, which Paddle's bindings print alone
        return _printed(str(op))
    return found


def _printed(text: str) -> dict[str, Any]:
    """The attributes of `assign_value_` that say what is assigned, in an op's text."""
    dtype, shape = re.search(r"dtype:(\w+)", text), re.search(r"shape:\[([\d,]*)\]", text)
    values = re.search(r"values:\[([^\]]*)\]", text)
    if dtype is None or shape is None or values is None:
        raise UnsupportedError(f"attributes that Paddle does not show: {text.strip()[:200]}")
    pairs = re.findall(r"real:(\S+) imag:([^\s,]+)", values[1])
    return {
        "dtype": dtype[1],
        "shape": [int(n) for n in shape[1].split(",") if n],
        "values": [complex(float(a), float(b)) for a, b in pairs],
    }


def _attribute(value: Any) -> Any:
    if isinstance(value, (bool, int, float, complex, str, type(None))):
        return value
    if isinstance(value, (list, tuple)):
        return [_attribute(item) for item in value]
    kind = type(value).__name__
    if kind in ("DataType", "dtype"):
        return dtype_name(getattr(value, "name", value))
    return str(value)


def scope_tensor(name: str) -> Any:
    """The tensor of a parameter in Paddle's global scope, over its memory; None where there is none."""
    variable = paddle.static.global_scope().find_var(name)
    if variable is None:
        return None
    dense = variable.get_tensor()
    if not dense._is_initialized():
        return None
    with paddle.base.dygraph.guard():
        return paddle.utils.dlpack.from_dlpack(dense._to_dlpack())
