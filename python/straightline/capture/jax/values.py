# SPDX-License-Identifier: Apache-2.0
"""What a value of a StableHLO module stands for while it is imported: a tensor of the program, or numbers that are known."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from straightline.capture.builder import Dim, TensorType
from straightline.capture.complex_numbers import Complex
from straightline.capture.extents import Extent
from straightline.capture.graph_builder import Reject, Tensor

#: Element types by their names in MLIR; numpy's names of them.
_NUMPY = {
    "f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16", "i1": "bool", "i8": "int8", "i16": "int16",
    "i32": "int32", "i64": "int64", "ui8": "uint8", "ui16": "uint16", "ui32": "uint32", "ui64": "uint64",
}  # fmt: skip
_NEAREST = "float, integer or bool arrays of 8 to 64 bits"
#: Bits of integers.
BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "ui8": 8, "ui16": 16, "ui32": 32, "ui64": 64}


def dtype_of(type: ir.Type) -> str:
    """The IR's name of a tensor's elements.

    Raises:
        Reject: They are complex, of less than 8 bits, floats of 8 bits, or no numbers.
    """
    shaped = ir.RankedTensorType.maybe_downcast(type) if not isinstance(type, ir.RankedTensorType) else type
    if shaped is None or not isinstance(shaped, ir.RankedTensorType):
        raise Reject(f"a value of type {type}, which is no array", _NEAREST)
    text = str(shaped.element_type)
    if text not in _NUMPY:
        raise Reject(f"elements of {text}", _NEAREST)
    return text


def type_of(type: ir.Type) -> TensorType | None:
    """The type of an array; None where it has sizes that the module does not say.

    Raises:
        Reject: Its elements have no form here.
    """
    dtype = dtype_of(type)
    sizes = list(ir.RankedTensorType(type).shape)
    if any(size < 0 for size in sizes):
        return None
    return TensorType(dtype, tuple(sizes))


def numpy_dtype(dtype: str) -> np.dtype:
    """The numpy dtype of one of the IR's."""
    if dtype == "bf16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(_NUMPY[dtype])


def ir_dtype(dtype: Any) -> str:
    """The IR's name of a numpy dtype, of JAX's name of one, or of MLIR's."""
    name = str(dtype)
    if name in _NUMPY:
        return name
    for known, numpy_name in _NUMPY.items():
        if numpy_name == name:
            return known
    raise Reject(f"elements of {name}", _NEAREST)


@dataclass(frozen=True, eq=False)
class Known:
    """Numbers that are known while importing; of sizes (`dtype` is that of the module) some may be named extents.

    An array that repeats one number has strides of 0: nothing is as large as its type says.
    """

    array: np.ndarray
    dtype: str

    @property
    def is_sizes(self) -> bool:
        """Whether some element is a named extent."""
        return self.array.dtype == object

    @property
    def type(self) -> TensorType:
        """The type of the tensor that it would be."""
        return TensorType(self.dtype, self.array.shape)

    @property
    def splat(self) -> Any:
        """The one number that all elements are; None where they differ."""
        if self.is_sizes or self.array.size == 0:
            return None
        if self.array.size == 1 or all(s == 0 or n == 1 for s, n in zip(self.array.strides, self.array.shape)):
            return self.array[(0,) * self.array.ndim].item()
        return None


Value = Tensor | Known | Complex[Any]


def is_complex(type: ir.Type) -> bool:
    """Whether an array has complex elements."""
    shaped = ir.RankedTensorType.maybe_downcast(type) if not isinstance(type, ir.RankedTensorType) else type
    return isinstance(shaped, ir.RankedTensorType) and str(shaped.element_type) in ("complex<f32>", "complex<f64>")


def part_dtype(type: ir.Type) -> str:
    """The element type of each part of complex numbers."""
    return str(ir.RankedTensorType(type).element_type)[8:-1]


def part_type(type: ir.Type) -> TensorType | None:
    """The type of each part of complex numbers; None where it has sizes that the module does not say."""
    sizes = tuple(ir.RankedTensorType(type).shape)
    return None if any(size < 0 for size in sizes) else TensorType(part_dtype(type), sizes)


_COMPLEX_ELEMENT = re.compile(r"\(([^,()]+),([^()]+)\)")


def complex_literal(text: str, type: ir.Type) -> tuple[Known, Known]:
    """The parts of a constant's elements, of which jaxlib's bindings give the op's text alone: digits, or all of their bits."""
    part = part_type(type)
    assert part is not None  # constants have sizes
    real = numpy_dtype(part.dtype)
    body = text[text.index("dense<") + 6 :]
    if body.startswith('"0x'):
        both = np.frombuffer(bytes.fromhex(body[3 : body.index('"', 1)]), real).reshape(-1, 2)
    else:
        both = np.asarray([[_float_of(t, real) for t in m.groups()] for m in _COMPLEX_ELEMENT.finditer(body)], real)
    parts = []
    for column in both.T:
        array = (
            np.broadcast_to(column.reshape(-1)[:1].reshape(()), part.extents)
            if len(column) == 1
            else column.reshape(part.extents)
        )
        parts.append(Known(array, part.dtype))
    return parts[0], parts[1]


def _float_of(text: str, dtype: np.dtype) -> Any:
    """A float of its digits, or of its bits in hexadecimal."""
    text = text.strip()
    if text.startswith("0x"):
        return np.asarray(int(text, 16), f"u{dtype.itemsize}").view(dtype)[()]
    return float(text)


def number(value: bool | int | float, dtype: str, shape: Sequence[int] = ()) -> Known:
    """One number, repeated."""
    return Known(np.broadcast_to(np.asarray(value).astype(numpy_dtype(dtype)), tuple(shape)), dtype)


def sizes(elements: Sequence[Any], shape: Sequence[int], dtype: str) -> Known:
    """Sizes, as numbers where they all are."""
    if all(not isinstance(x, Extent) for x in elements):
        return Known(np.asarray([int(x) for x in elements], numpy_dtype(dtype)).reshape(shape), dtype)
    array = np.empty(len(elements), dtype=object)
    array[:] = elements
    return Known(array.reshape(shape), dtype)


def dims(value: Known) -> list[Dim]:
    """The elements of sizes, or of integers, in order."""
    return [x if isinstance(x, Extent) else int(x) for x in value.array.reshape(-1)]


def made_by(value: ir.Value, kind: str) -> ir.Operation | None:
    """The op of StableHLO that makes a value, if it is one of this kind."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) or owner.name != f"stablehlo.{kind}" else owner


_ELEMENT = re.compile(r"0x([0-9A-Fa-f]+)|[-+]?\d[\d.]*(?:[eE][-+]?\d+)?")


def literal(attribute: ir.Attribute, type: ir.Type) -> Known:
    """The elements of a constant."""
    shaped = type_of(type)
    assert shaped is not None
    dtype, shape = shaped.dtype, shaped.extents
    if dtype == "bf16":
        flat = _of_bfloat16(attribute)
    else:
        flat = np.asarray(attribute)
        flat = flat.astype(numpy_dtype(dtype), copy=False)
    if flat.size == 1 or getattr(attribute, "is_splat", False):
        return Known(np.broadcast_to(flat.reshape(-1)[:1].reshape(()), shape), dtype)
    return Known(flat.reshape(shape), dtype)


def _of_bfloat16(attribute: ir.Attribute) -> np.ndarray:
    """Elements that jaxlib's bindings give as text alone: digits, or all of their bits."""
    text = str(attribute)
    body = text[text.index("<") + 1 : text.rindex(": tensor") if ": tensor" in text else len(text)].rstrip(" >")
    if body.startswith('"0x'):
        return np.frombuffer(bytes.fromhex(body.strip('"')[2:]), np.uint16).view(numpy_dtype("bf16"))
    found = [
        np.asarray(int(m.group(1), 16), np.uint16).view(numpy_dtype("bf16"))
        if m.group(1)
        else np.asarray(float(m.group(0))).astype(numpy_dtype("bf16"))
        for m in _ELEMENT.finditer(body)
    ]
    return np.asarray(found, numpy_dtype("bf16"))
