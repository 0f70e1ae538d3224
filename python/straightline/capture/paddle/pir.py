# SPDX-License-Identifier: Apache-2.0
"""A program of Paddle's IR (PIR) as plain data, whatever it was read from: a program in memory, or a file of paddle.jit.save.

Values are numbers that are unique within a program; 0 is an operand that is left out. Nothing here knows paddle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

#: The IR's names of Paddle's element types, by the names that Paddle prints ("paddle.float32", "float32") and by those of files.
#: Floats of 8 bits are not among them: programs would move them, but compute nothing with them.
DTYPES = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int8": "i8", "int16": "i16", "int32": "i32",
    "int64": "i64", "uint8": "ui8", "uint16": "ui16", "uint32": "ui32", "uint64": "ui64", "bool": "i1",
}  # fmt: skip
#: The IR's names of the parts of complex numbers, by Paddle's of the numbers.
PARTS = {"complex64": "f32", "complex128": "f64"}
#: Paddle's names by those of the IR.
NAMES = {ir: name for name, ir in DTYPES.items()}


@dataclass(frozen=True)
class Type:
    """A dense tensor's type; a size of -1 is one that the program does not say.

    `dtype` is the IR's name, or Paddle's own where the IR has none (complex64).
    """

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return (
            f"{NAMES.get(self.dtype, self.dtype)}[{', '.join('?' if size < 0 else str(size) for size in self.shape)}]"
        )


@dataclass(frozen=True)
class ListType:
    """The type of a list of tensors (`builtin.combine`)."""

    items: tuple[Type, ...]


#: None: of a result that is left out, or that is no tensor; such results are refused where something reads them.
AnyType = Type | ListType | None


@dataclass
class Op:
    """An op: its name ("pd_op.add"), operands and results as values, attributes as Python's, and its regions' blocks."""

    name: str
    operands: list[int]
    attributes: dict[str, Any]
    results: list[int]
    types: list[AnyType]
    blocks: list[Block] = field(default_factory=list)
    #: Path of layer classes ("ResNet.Conv2D"), and the user's line; empty where nothing says so.
    layer: str = ""
    file: str = ""
    line: int = 0

    @property
    def short(self) -> str:
        """Its name without the dialect of Paddle's ops."""
        return self.name.removeprefix("pd_op.")


@dataclass
class Block:
    """Arguments and ops in order; the last op of a region's block is a `cf.yield`."""

    arguments: list[int] = field(default_factory=list)
    types: list[AnyType] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)


@dataclass
class Program:
    """A whole program: the ops of its block, and values to return; `fetches` None: those of its `pd_op.fetch` ops."""

    block: Block
    fetches: list[int] | None = None
    #: What errors call it.
    name: str = "the program"


def every_op(block: Block) -> Iterator[Op]:
    """Ops of a block and of those within it, in order; no recursion, so that depth costs nothing."""
    pending = [iter(block.ops)]
    while pending:
        op = next(pending[-1], None)
        if op is None:
            pending.pop()
            continue
        yield op
        pending.extend(iter(inner.ops) for inner in reversed(op.blocks))
