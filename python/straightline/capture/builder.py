# SPDX-License-Identifier: Apache-2.0
"""What a front end needs from the compiler: calls that build one function of the `op` dialect.

A front end makes these calls, mostly through `graph_builder.py`, and knows nothing of MLIR. The compiler implements them over
its C ABI, `text_builder.py` prints the generic form of the same module, and the tests evaluate them with torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from straightline.capture.extents import Dim, Extent

#: Floats of 8 bits, which programs move and torch computes with.
FLOAT8 = ("f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f8E5M2FNUZ", "f8E8M0FNU")
#: Element types, by their names in the IR. `ui8` is torch.uint8, `i1` is torch.bool.
DTYPES = ("f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64", "i1", *FLOAT8)

#: Bytes of one element in a dense constant (`i1`: one byte of 0 or 1).
DTYPE_BYTES = {
    "f32": 4, "f64": 8, "f16": 2, "bf16": 2, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "i1": 1,
    "ui8": 1, "ui16": 2, "ui32": 4, "ui64": 8, **dict.fromkeys(FLOAT8, 1),
}  # fmt: skip


@dataclass(frozen=True)
class TensorType:
    """Element type and extents; `extents == ()` is a scalar (0-d tensor)."""

    dtype: str
    extents: tuple[Dim, ...]
    #: Strides in elements of an argument that is not row-major; not part of the type of a value.
    strides: tuple[Dim, ...] | None = field(default=None, compare=False)

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.extents)

    @property
    def is_static(self) -> bool:
        """Whether every extent is a number."""
        return all(isinstance(extent, int) for extent in self.extents)

    def __str__(self) -> str:
        shape = "".join(f"{e if isinstance(e, int) else '?'}x" for e in self.extents)
        if self.is_static:
            return f"tensor<{shape}{self.dtype}>"
        dims = ", ".join(str(extent) for extent in self.extents)
        return f"tensor<{shape}{self.dtype}, #op.dims<[{dims}]>>"


@dataclass(frozen=True)
class Location:
    """Where an op comes from: module path (`layers.0.fc`, empty for the root) and source line.

    `file` is a base name, never a path of the machine that captured; empty when unknown. `overload` is the framework's op
    ("add.Tensor"), which rules of `routes` may name; it is no part of what is compared or printed.
    """

    module: str = ""
    file: str = ""
    line: int = 0
    overload: str = field(default="", compare=False)

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.file else "unknown source"
        return f"{self.module or '<root>'} ({place})"


#: The rule by which an op (by name) at a place is to stay the framework's, in words; None: it has none.
FrameworkRule = Callable[[str, Location], "str | None"]


@dataclass(frozen=True)
class Dense:
    """A literal tensor: `data` holds the elements, row-major and little-endian (`i1`: a byte each)."""

    type: TensorType
    data: bytes


@dataclass(frozen=True)
class Dims:
    """A list of sizes or strides: `#op.dims<[b, 64]>`."""

    dims: tuple[Dim, ...]

    def __str__(self) -> str:
        return f"#op.dims<[{', '.join(map(str, self.dims))}]>"


@dataclass(frozen=True)
class Unit:
    """The value of an attribute that is there or not, and says nothing else."""


#: list of str -> `["a", "b"]`; bool -> `true`; int -> `i64`; float -> `f64`; list of int -> `array<i64: ...>`;
#: Extent -> `#op.dims<[b * 2]>`; Unit -> `unit`.
Attr = bool | int | float | str | Sequence[int] | Sequence[str] | Dense | Dims | Extent | Unit

#: A handle; only the builder that made it knows what it is.
Value = Any


@dataclass(frozen=True)
class SizeAdvice:
    """What messages advise where the size of an input differs from the program's, in the words of a front end.

    `fixed`: where a fixed size is another; a whole clause ("pass an example of this size to sl.compile, or mark the dim with
    torch.export.Dim"). `bounds`: where a named size is outside of its bounds; what stands before "with a larger max to
    sl.compile" ("pass an example of this size or a torch.export.Dim").
    """

    fixed: str
    bounds: str


@dataclass(frozen=True)
class Result:
    """One result of the function.

    `tie`: "input:NAME" or "state:NAME" when it overwrites that (tied results come last), "alias:" and such a tie when it is for
    the user and a view of what that writes.
    """

    value: Value
    name: str
    tie: str | None = None


class Builder(Protocol):
    """Builds one module with one function. Calls arrive in program order, from one thread."""

    def symbol(self, name: str, min: int, max: int) -> None:
        """Declares a named extent with its inclusive bounds, before it is used."""

    def advise(self, advice: SizeAdvice) -> None:
        """Says what messages about the sizes of inputs advise, before the function begins."""

    def begin_function(self, name: str, arguments: Sequence[tuple[str, TensorType]]) -> list[Value]:
        """Begins the function; returns the values of its arguments."""

    def op(
        self,
        name: str,
        operands: Sequence[Value],
        result_types: Sequence[TensorType],
        attributes: dict[str, Attr],
        location: Location,
        segments: Sequence[int] | None = None,
        regions: int = 0,
    ) -> list[Value]:
        """Appends one op (`name` is "op.add") and returns its results.

        Args:
            name: full op name.
            operands: values, those of optional operands left out.
            result_types: one type per result.
            attributes: by the dialect's attribute names.
            location: source of the op.
            segments: `operandSegmentSizes`, for ops with optional or variadic operands.
            regions: how many of the regions ended last, in order, this op takes.
        """

    def begin_region(self, arguments: Sequence[TensorType]) -> list[Value]:
        """Begins a region of the next op; values from outside stay visible in it."""

    def end_region(self, yields: Sequence[Value], location: Location) -> None:
        """Ends the region with `op.yield` of these values."""

    def end_function(self, results: Sequence[Result]) -> None:
        """Ends the function with its results."""
