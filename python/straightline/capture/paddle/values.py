# SPDX-License-Identifier: Apache-2.0
"""What a value of PIR stands for while it is imported: a tensor of the program, numbers that are known already, or a list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from straightline.capture.builder import Dim, TensorType
from straightline.capture.complex_numbers import Complex
from straightline.capture.extents import Extent
from straightline.capture.graph_builder import FLOATS, Reject, Tensor

_NUMPY = {
    "f32": "float32", "f64": "float64", "f16": "float16", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "ui8": "uint8", "ui16": "uint16", "ui32": "uint32", "ui64": "uint64", "i1": "bool",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Known:
    """Numbers that are known while importing, or sizes, of which some are named extents (an array of objects).

    `dtype` is the IR's; numbers of bf16 are held as float32.
    """

    array: np.ndarray
    dtype: str

    @property
    def type(self) -> TensorType:
        """The type that the tensor of it has."""
        return TensorType(self.dtype, self.array.shape)

    @property
    def dims(self) -> list[Dim]:
        """The elements as sizes, in order.

        Raises:
            Reject: They are floats.
        """
        if self.dtype in FLOATS:
            raise Reject(f"sizes of {self.dtype}", "integers")
        return [x if isinstance(x, Extent) else int(x) for x in self.array.reshape(-1)]

    @property
    def is_sizes(self) -> bool:
        """Whether some element is a named extent."""
        return self.array.dtype == object


Value = Tensor | Known | Complex[Any] | list[Any]


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The dtype of numpy that holds numbers of an element type."""
    if dtype == "bf16":
        return np.dtype("float32")
    if dtype not in _NUMPY:
        raise Reject(f"constants of {dtype}", "floats of 16 bits or more, integers, bool")
    return np.dtype(_NUMPY[dtype])


def known(values: Any, dtype: str = "i64") -> Known:
    """Numbers or sizes in an array; sizes are kept apart from numbers only where one is named."""
    array = np.asarray(values, dtype=object)
    if any(isinstance(x, Extent) for x in array.reshape(-1)):
        return Known(array, dtype)
    return Known(array.astype(numpy_dtype(dtype)), dtype)


def sizes_of(values: Sequence[Dim]) -> Known:
    """A vector of sizes."""
    array = np.empty(len(values), dtype=object)
    array[:] = list(values)
    return known(array)
