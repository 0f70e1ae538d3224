# SPDX-License-Identifier: Apache-2.0
"""The front ends' `Builder` over the compiler: types and attributes become text, constants go as bytes."""

from __future__ import annotations

from collections.abc import Sequence

from straightline import _compiler
from straightline.capture.builder import Attr, Dense, Dims, Extent, Location, Result, SizeAdvice, TensorType, Unit
from straightline.capture.text_builder import float_text, quote


class ModuleBuilder:
    """Implements `straightline.capture.builder.Builder`; values are the numbers that the compiler gives out."""

    def __init__(self) -> None:
        self._builder = _compiler.Builder()

    def finish(self) -> _compiler.Module:
        """Verifies the module and hands it over; the builder is of no use afterwards."""
        return self._builder.finish()

    def symbol(self, name: str, min: int, max: int) -> None:
        """See `Builder`."""
        self._builder.symbol(name, min, max)

    def advise(self, advice: SizeAdvice) -> None:
        """See `Builder`."""
        self._attribute("op.size_advice", (advice.fixed, advice.bounds))

    def begin_function(self, name: str, arguments: Sequence[tuple[str, TensorType]]) -> list[int]:
        """See `Builder`."""
        for position, (_, type) in enumerate(arguments):
            if type.strides is not None:
                self._builder.attribute(str(position), str(Dims(type.strides)))
        return self._builder.begin_function(
            name, [argument for argument, _ in arguments], [str(type) for _, type in arguments]
        )

    def op(
        self,
        name: str,
        operands: Sequence[int],
        result_types: Sequence[TensorType],
        attributes: dict[str, Attr],
        location: Location,
        segments: Sequence[int] | None = None,
        regions: int = 0,
    ) -> list[int]:
        """See `Builder`."""
        for key, value in attributes.items():
            self._attribute(key, value)
        return self._builder.op(
            name,
            list(operands),
            [str(type) for type in result_types],
            None if segments is None else list(segments),
            regions,
            location.module,
            location.file,
            location.line,
            location.overload,
        )

    def begin_region(self, arguments: Sequence[TensorType]) -> list[int]:
        """See `Builder`."""
        return self._builder.begin_region([str(type) for type in arguments])

    def end_region(self, yields: Sequence[int], location: Location) -> None:
        """See `Builder`."""
        self._builder.end_region(list(yields), location.module, location.file, location.line)

    def end_function(self, results: Sequence[Result]) -> None:
        """See `Builder`."""
        self._builder.end_function(
            [result.value for result in results],
            [result.name for result in results],
            [result.tie or "" for result in results],
        )

    def _attribute(self, key: str, value: Attr) -> None:
        if isinstance(value, str):
            self._builder.attribute_string(key, value)
        elif isinstance(value, Dense):
            self._builder.attribute_dense(key, str(value.type), value.data)
        elif isinstance(value, bool):
            self._builder.attribute(key, "true" if value else "false")
        elif isinstance(value, int):
            self._builder.attribute(key, f"{value} : i64")
        elif isinstance(value, float):
            self._builder.attribute(key, f"{float_text(value)} : f64")
        elif isinstance(value, Dims):
            self._builder.attribute(key, str(value))
        elif isinstance(value, Extent):
            self._builder.attribute(key, f"#op.dims<[{value}]>")
        elif isinstance(value, Unit):
            self._builder.attribute(key, "unit")
        elif value and isinstance(value[0], str):
            self._builder.attribute(key, f"[{', '.join(map(quote, map(str, value)))}]")
        else:
            listed = ", ".join(map(str, value))
            self._builder.attribute(key, f"array<i64: {listed}>" if listed else "array<i64>")
