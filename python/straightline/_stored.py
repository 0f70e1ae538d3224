# SPDX-License-Identifier: Apache-2.0
"""Tensors that lie in a saved model: read where they are, by address."""

from __future__ import annotations

from typing import Any

from straightline._frameworks import imported_torch
from straightline.errors import UnsupportedError

#: numpy's and torch's names of dtypes, and safetensors'. What is not here is stored as bytes.
SAFETENSORS = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32", "int16": "I16",
    "int8": "I8", "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL", "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0",
}  # fmt: skip


class Memory:
    """Bytes at an address, for numpy; `owner` keeps them there."""

    def __init__(self, owner: Any, address: int, count: int) -> None:
        self._owner = owner
        self.__array_interface__ = {"shape": (count,), "typestr": "|u1", "data": (address, True), "version": 3}


class Stored:
    """A tensor of a saved model, row-major and read-only.

    Attributes:
        dtype: numpy's or torch's name.
        shape: Sizes.
        place: What `_call.weights` takes: this object, the address and the bytes.
    """

    def __init__(self, owner: Any, dtype: str, shape: tuple[int, ...], address: int, count: int) -> None:
        self._owner = owner
        self.dtype, self.shape = dtype, shape
        self.place = (self, address, count)

    def bytes(self) -> Any:
        """The tensor's memory as a numpy array of bytes."""
        import numpy

        _, address, count = self.place
        return numpy.asarray(Memory(self._owner, address, count)) if count else numpy.zeros(0, numpy.uint8)

    def numpy(self) -> Any:
        """The tensor as a numpy array over its memory."""
        import numpy

        try:
            dtype = numpy.dtype(self.dtype)
        except TypeError:
            try:
                import ml_dtypes
            except ImportError as error:
                raise UnsupportedError(
                    f"numpy has no {self.dtype}: import torch, or install ml_dtypes, before the model is loaded"
                ) from error
            dtype = numpy.dtype(getattr(ml_dtypes, self.dtype))
        return self.bytes().view(dtype).reshape(self.shape)

    def torch(self) -> Any:
        """A copy as a tensor of torch."""
        import torch

        return torch.from_numpy(self.bytes().copy()).view(getattr(torch, self.dtype)).reshape(self.shape)


def tensor_of(value: Any) -> Any:
    """A stored tensor as one that users know: torch's (a copy) where torch is loaded, else numpy's; others as they are."""
    if not isinstance(value, Stored):
        return value
    return value.torch() if imported_torch() is not None else value.numpy()
