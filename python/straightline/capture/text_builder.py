# SPDX-License-Identifier: Apache-2.0
"""A builder that prints the module in MLIR's generic form, in pure Python."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from straightline.capture.builder import (
    DTYPE_BYTES,
    Attr,
    Dense,
    Dims,
    Extent,
    Location,
    Result,
    SizeAdvice,
    TensorType,
    Unit,
)
from straightline.errors import InternalError

# Constants above this size go to the resource section at the end of the file, so that the function stays readable.
_MAX_INLINE_BYTES = 256


@dataclass(frozen=True)
class TextValue:
    """An SSA name with its type."""

    name: str
    type: TensorType


def quote(text: str) -> str:
    """Quotes a string as MLIR does: printable ASCII as it is, other bytes as two hex digits."""
    out = []
    for byte in text.encode("utf-8"):
        char = chr(byte)
        out.append(char if 32 <= byte < 127 and char not in '"\\' else f"\\{byte:02X}")
    return '"' + "".join(out) + '"'


def float_text(value: float) -> str:
    """Prints a double that reads back as the same bits; inf and nan as hexadecimal bits."""
    if math.isinf(value) or math.isnan(value):
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    text = repr(value)
    mantissa, _, exponent = text.partition("e")
    if "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}e{exponent}" if exponent else mantissa


def location_text(location: Location) -> str:
    """Prints `loc("fc"("model.py":12:0))`, with the parts that are known."""
    place = f"{quote(location.file)}:{location.line}:0" if location.file else ""
    if location.module:
        inner = quote(location.module) + (f"({place})" if place else "")
    else:
        inner = place or "unknown"
    return f"loc({inner})"


class TextBuilder:
    """Implements `Builder`; `text()` is the module once the function has ended."""

    def __init__(self) -> None:
        self._symbols: list[str] = []
        self._lines: list[list[str]] = []  # one list per open region; the function's body is the first
        self._ended: list[str] = []  # text of regions that no op has taken yet
        self._region_heads: list[str] = []
        self._resources: dict[str, bytes] = {}
        self._names: set[str] = set()
        self._next = 0
        self._head = ""
        self._advice = ""
        self._text: str | None = None

    def text(self) -> str:
        """Returns the whole module."""
        if self._text is None:
            raise InternalError("text builder: the function has not ended")
        return self._text

    def symbol(self, name: str, min: int, max: int) -> None:
        """See `Builder`."""
        attributes = f"max = {max} : i64, min = {min} : i64, sym_name = {quote(name)}"
        self._symbols.append(f'  "op.symbol"() <{{{attributes}}}> : () -> ()')

    def advise(self, advice: SizeAdvice) -> None:
        """See `Builder`."""
        self._advice = f" attributes {{op.size_advice = [{quote(advice.fixed)}, {quote(advice.bounds)}]}}"

    def begin_function(self, name: str, arguments: Sequence[tuple[str, TensorType]]) -> list[TextValue]:
        """See `Builder`."""
        values = [TextValue(self._argument_name(n), t) for n, t in arguments]
        listed = ", ".join(
            f"{value.name}: {value.type} {{op.name = {quote(n)}"
            + (f", op.strides = {Dims(type.strides)}" if type.strides is not None else "")
            + "}"
            for value, (n, type) in zip(values, arguments)
        )
        self._head = f"func.func @{name}({listed})"
        self._lines.append([])
        return values

    def op(
        self,
        name: str,
        operands: Sequence[TextValue],
        result_types: Sequence[TensorType],
        attributes: dict[str, Attr],
        location: Location,
        segments: Sequence[int] | None = None,
        regions: int = 0,
    ) -> list[TextValue]:
        """See `Builder`."""
        printed = {key: self._attribute(value) for key, value in attributes.items()}
        if segments is not None:
            printed["operandSegmentSizes"] = f"array<i32: {', '.join(map(str, segments))}>"
        properties = ", ".join(f"{key} = {printed[key]}" for key in sorted(printed))
        results = self._fresh(result_types)
        left = ""
        if len(results) == 1:
            left = f"{results[0].name} = "
        elif results:
            left = f"{results[0].name.partition('#')[0]}:{len(results)} = "
        body = ""
        if regions:
            body = f" ({', '.join(self._ended[-regions:])})"
            del self._ended[-regions:]
        names = ", ".join(value.name for value in operands)
        inputs = ", ".join(str(value.type) for value in operands)
        outputs = ", ".join(str(value.type) for value in results)
        outputs = outputs if len(results) == 1 else f"({outputs})"
        shown = f" <{{{properties}}}>" if properties else ""
        self._emit(f"{left}{quote(name)}({names}){shown}{body} : ({inputs}) -> {outputs} {location_text(location)}")
        return results

    def begin_region(self, arguments: Sequence[TensorType]) -> list[TextValue]:
        """See `Builder`."""
        values = [TextValue(self._argument_name(f"a{self._take()}"), t) for t in arguments]
        listed = ", ".join(f"{value.name}: {value.type}" for value in values)
        self._region_heads.append(f"^bb0({listed}):" if values else "")
        self._lines.append([])
        return values

    def end_region(self, yields: Sequence[TextValue], location: Location) -> None:
        """See `Builder`."""
        names = ", ".join(value.name for value in yields)
        types = ", ".join(str(value.type) for value in yields)
        self._emit(f'"op.yield"({names}) : ({types}) -> () {location_text(location)}')
        lines = self._lines.pop()
        head = self._region_heads.pop()
        indent = "    " + "  " * (len(self._lines) - 1)
        start = f"{indent}{head}\n" if head else ""
        self._ended.append("{\n" + start + "\n".join(lines) + f"\n{indent}}}")

    def end_function(self, results: Sequence[Result]) -> None:
        """See `Builder`."""
        names = ", ".join(result.value.name for result in results)
        types = ", ".join(str(result.value.type) for result in results)
        if results:
            self._emit(f"func.return {names} : {types}")
        else:
            self._emit("func.return")
        listed = ", ".join(f"{r.value.type} {self._result_attributes(r)}" for r in results)
        body = self._lines.pop()
        parts = ["module {", *self._symbols, f"  {self._head} -> ({listed}){self._advice} {{", *body, "  }", "}"]
        if self._resources:
            parts += ["", "{-#", "  dialect_resources: {", "    builtin: {"]
            entries = [
                # The first four bytes give the alignment of the blob.
                f'      {key}: "0x{struct.pack("<I", 64).hex().upper()}{data.hex().upper()}"'
                for key, data in self._resources.items()
            ]
            parts += [",\n".join(entries), "    }", "  }", "#-}"]
        self._text = "\n".join(parts) + "\n"

    def _emit(self, line: str) -> None:
        self._lines[-1].append("    " + "  " * (len(self._lines) - 1) + line)

    def _take(self) -> int:
        self._next += 1
        return self._next - 1

    def _fresh(self, types: Sequence[TensorType]) -> list[TextValue]:
        if not types:
            return []
        name = f"%{self._take()}"
        if len(types) == 1:
            return [TextValue(name, types[0])]
        return [TextValue(f"{name}#{i}", type) for i, type in enumerate(types)]

    def _argument_name(self, name: str) -> str:
        stem = re.sub(r"[^A-Za-z0-9_]", "_", name)
        if not stem or stem[0].isdigit():
            stem = "_" + stem
        unique, count = stem, 0
        while unique in self._names:
            count += 1
            unique = f"{stem}_{count}"
        self._names.add(unique)
        return "%" + unique

    def _result_attributes(self, result: Result) -> str:
        tie = f", op.tie = {quote(result.tie)}" if result.tie else ""
        if result.tie and result.tie.startswith("alias:"):
            tie = f", op.alias = {quote(result.tie.removeprefix('alias:'))}"
        return f"{{op.name = {quote(result.name)}{tie}}}"

    def _attribute(self, value: Attr) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int):
            return f"{value} : i64"
        if isinstance(value, float):
            return f"{float_text(value)} : f64"
        if isinstance(value, str):
            return quote(value)
        if isinstance(value, Dense):
            return self._dense(value)
        if isinstance(value, Dims):
            return str(value)
        if isinstance(value, Extent):
            return f"#op.dims<[{value}]>"
        if isinstance(value, Unit):
            return "unit"
        texts = [quote(item) for item in value if isinstance(item, str)]
        if texts:
            return f"[{', '.join(texts)}]"
        return f"array<i64: {', '.join(map(str, value))}>" if value else "array<i64>"

    def _dense(self, value: Dense) -> str:
        if not value.data:
            return f"dense<> : {value.type}"
        if value.type.dtype == "i1":  # packed in MLIR's hexadecimal form, so spelled out here
            return f"dense<{_nested_bools(value.data, value.type.extents)}> : {value.type}"
        if len(value.data) > _MAX_INLINE_BYTES:
            key = f"constant_{len(self._resources)}"
            self._resources[key] = value.data
            return f"dense_resource<{key}> : {value.type}"
        return f'dense<"0x{value.data.hex().upper()}"> : {value.type}'


def _nested_bools(data: bytes, extents: Sequence[object]) -> str:
    if not extents:
        return "true" if data[0] else "false"
    step = len(data) // int(str(extents[0]))
    rows = (data[i * step : (i + 1) * step] for i in range(int(str(extents[0]))))
    return "[" + ", ".join(_nested_bools(row, extents[1:]) for row in rows) + "]"


def dense_size_bytes(type: TensorType) -> int:
    """Bytes that a `Dense` of this static type must hold."""
    return math.prod(int(str(e)) for e in type.extents) * DTYPE_BYTES[type.dtype]
