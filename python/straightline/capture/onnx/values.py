# SPDX-License-Identifier: Apache-2.0
"""What a name of an ONNX graph stands for while it is imported: a tensor of the program, or a value that is known already."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from straightline.capture.builder import Dim, TensorType
from straightline.capture.extents import Extent
from straightline.capture.graph_builder import Reject, Tensor

#: Element types of ONNX by number, as the IR names them. The others are refused by name.
DTYPES = {
    TensorProto.FLOAT: "f32", TensorProto.DOUBLE: "f64", TensorProto.FLOAT16: "f16", TensorProto.BFLOAT16: "bf16",
    TensorProto.INT8: "i8", TensorProto.INT16: "i16", TensorProto.INT32: "i32", TensorProto.INT64: "i64",
    TensorProto.UINT8: "ui8", TensorProto.UINT16: "ui16", TensorProto.UINT32: "ui32", TensorProto.UINT64: "ui64",
    TensorProto.BOOL: "i1", TensorProto.FLOAT8E4M3FN: "f8E4M3FN", TensorProto.FLOAT8E4M3FNUZ: "f8E4M3FNUZ",
    TensorProto.FLOAT8E5M2: "f8E5M2", TensorProto.FLOAT8E5M2FNUZ: "f8E5M2FNUZ",
}  # fmt: skip
#: Elements that a program holds as wider ones, by onnx's number and by ml_dtypes' name: a byte, or a float32, for each.
_HELD = {
    "INT4": "i8", "UINT4": "ui8", "INT2": "i8", "UINT2": "ui8", "FLOAT4E2M1": "f32", "FLOAT8E8M0": "f32",
}  # fmt: skip
#: Those that the installed onnx knows.
NARROW = {TensorProto.DataType.Value(name): name for name in _HELD if name in TensorProto.DataType.keys()}
_NARROW_NUMPY = {
    "int4": "INT4", "uint4": "UINT4", "int2": "INT2", "uint2": "UINT2", "float4_e2m1fn": "FLOAT4E2M1",
    "float8_e8m0fnu": "FLOAT8E8M0",
}  # fmt: skip
#: The IR's names by numpy's.
_OF_NUMPY = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int8": "i8", "int16": "i16", "int32": "i32",
    "int64": "i64", "uint8": "ui8", "uint16": "ui16", "uint32": "ui32", "uint64": "ui64", "bool": "i1",
    "float8_e4m3fn": "f8E4M3FN", "float8_e4m3fnuz": "f8E4M3FNUZ", "float8_e5m2": "f8E5M2", "float8_e5m2fnuz": "f8E5M2FNUZ",
}  # fmt: skip
_TO_NUMPY = {ir: name for name, ir in _OF_NUMPY.items()}


def dtype_of(element: int) -> str:
    """The IR's name of an element type of ONNX, or of what holds it."""
    if element in NARROW:
        return _HELD[NARROW[element]]
    if element not in DTYPES:
        known = element in TensorProto.DataType.values()
        name = TensorProto.DataType.Name(element) if known else f"number {element}, which ONNX does not have"
        raise Reject(f"elements of type {name}", "float, integer or bool tensors")
    return DTYPES[element]


def ir_dtype(dtype: np.dtype) -> str:
    """The IR's name of a numpy dtype, or of what holds it."""
    if dtype.name in _NARROW_NUMPY:
        return _HELD[_NARROW_NUMPY[dtype.name]]
    if dtype.name not in _OF_NUMPY:
        raise Reject(f"elements of numpy's {dtype}", "float, integer or bool tensors")
    return _OF_NUMPY[dtype.name]


def numpy_dtype(dtype: str) -> np.dtype:
    """The numpy dtype of one of the IR's; those that numpy has not itself are those of ml_dtypes, which onnx brings."""
    name = _TO_NUMPY[dtype]
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))


def narrow_of(dtype: np.dtype) -> str:
    """ONNX's name of a dtype whose elements a program holds as wider ones; "" for any other one."""
    return _NARROW_NUMPY.get(dtype.name, "")


def held(array: np.ndarray) -> np.ndarray:
    """An array as a program holds it."""
    return array.astype(numpy_dtype(ir_dtype(array.dtype))) if narrow_of(array.dtype) else array


@dataclass(frozen=True, eq=False)
class Known:
    """A value that is known while importing: numbers, or sizes, of which some are named extents (an array of objects).

    `name` is that of the initialiser that it is: it becomes a parameter of the program where a tensor is needed. `dtype` is the
    element type of sizes, i64 or i32.
    """

    array: np.ndarray
    name: str = ""
    dtype: str = "i64"

    @property
    def is_sizes(self) -> bool:
        """Whether some element is a named extent."""
        return self.array.dtype == object

    @property
    def type(self) -> TensorType:
        """The type that the tensor of it has."""
        return TensorType(self.dtype if self.is_sizes else ir_dtype(self.array.dtype), self.array.shape)

    def of(self, dtype: str) -> Known:
        """These sizes, or integers, with another element type."""
        return Known(self.array, self.name, dtype) if self.is_sizes else Known(self.array.astype(numpy_dtype(dtype)))


@dataclass(frozen=True, eq=False)
class Sequence:
    """A sequence of ONNX, which exists while importing alone."""

    items: tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class Rows:
    """A sequence of tensors of one type of which only a call knows how many there are: the rows of one tensor."""

    whole: Tensor


@dataclass(frozen=True, eq=False)
class Optional:
    """An optional of ONNX; `value` None: empty."""

    value: Value | None


@dataclass(frozen=True, eq=False)
class Text:
    """Strings, which programs do not have: numbers (a tensor, or an array that is known) of strings in a table.

    They exist while importing alone, between a classifier with labels of text and what makes numbers of these. As a result of the
    model they are numbers of the program and a table of what calls from Python return.
    """

    table: tuple[str, ...]
    index: Tensor | np.ndarray


Value = Tensor | Known | Sequence | Rows | Optional | Text


def text_of(array: np.ndarray) -> Text:
    """Strings that are known."""
    table, index = np.unique([_decoded(x) for x in array.reshape(-1)], return_inverse=True)
    return Text(tuple(map(str, table)), index.reshape(array.shape))


def _decoded(x: object) -> str:
    return x.decode("utf-8", "replace") if isinstance(x, bytes) else str(x)


def sizes(values: object) -> Known:
    """Sizes, as numbers where they all are."""
    array = np.asarray(values, dtype=object)
    if all(isinstance(x, (int, np.integer, bool)) for x in array.reshape(-1)):
        return Known(array.astype(np.int64))
    return Known(array)


def dims(value: Known) -> list[Dim]:
    """The elements of sizes, or of integers, in order."""
    return [x if isinstance(x, Extent) else int(x) for x in value.array.reshape(-1)]
