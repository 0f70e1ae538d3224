# SPDX-License-Identifier: Apache-2.0
"""runtime/abi/kernel.h for ctypes: descriptions as the registry has them, and problems."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char_p,
    c_double,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from pathlib import Path
from typing import Any

import numpy

from straightline import _call

MAX_RANK = 8
DYNAMIC = -(2**63)
#: sl_type_set, by numpy's name. numpy has no bfloat16.
TYPES = {
    "float16": 1,
    "float32": 4,
    "float64": 8,
    "int8": 16,
    "uint8": 32,
    "int16": 64,
    "int32": 128,
    "int64": 256,
    "bool": 512,
}
ROW_MAJOR, CHANNELS_LAST, UNIT_STRIDE, STRIDED = 1, 2, 4, 8  # sl_layout_set
OUTPUT, OPTIONAL, PLANNED, ROWS = 1, 2, 4, 16  # sl_operand_flags
EXCLUSIVE_HANDLE = 8  # sl_kernel_properties
INT, FLOAT, TEXT = 0, 1, 2  # sl_attribute_kind


class DType(Structure):
    """sl_dtype."""

    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Operand(Structure):
    """sl_operand."""

    _fields_ = [
        ("dtype", DType),
        ("rank", c_int32),
        ("extents", c_int64 * MAX_RANK),
        ("strides", c_int64 * MAX_RANK),
        ("constant", c_int32),
    ]


class Attribute(Structure):
    """sl_attribute."""

    _fields_ = [("name", c_char_p), ("value", c_int64), ("kind", c_int32), ("number", c_double), ("text", c_char_p)]


class Problem(Structure):
    """sl_problem."""

    _fields_ = [
        ("size", c_uint64),
        ("op", c_char_p),
        ("operands", POINTER(Operand)),
        ("inputs", c_int32),
        ("outputs", c_int32),
        ("attributes", POINTER(Attribute)),
        ("attribute_count", c_int32),
        ("threads", c_int32),
        ("vector_bytes", c_int32),
        ("l1_bytes", c_int64),
        ("l2_bytes", c_int64),
        ("text", c_char_p),
        ("sizes", c_int32),
        ("variant", c_int32),
        ("dot_bf16", c_int32),
        ("device", c_char_p),
        ("fma_bytes", c_int32),
        ("operand_stride", c_uint64),
        ("attribute_stride", c_uint64),
    ]


class Facts(Structure):
    """sl_operand_facts."""

    _fields_ = [
        ("role", c_char_p),
        ("types", c_uint32),
        ("stored", c_uint32),
        ("layouts", c_uint32),
        ("preferred", c_uint32),
        ("flags", c_uint32),
        ("piece_bytes", c_int32),
    ]


class Epilogue(Structure):
    """sl_epilogue."""

    _fields_ = [("name", c_char_p), ("types", c_uint32), ("flags", c_uint32)]


class Rule(Structure):
    """sl_calling_rule."""

    _fields_ = [
        ("size", c_uint64),
        ("attributes", POINTER(c_char_p)),
        ("attribute_count", c_int32),
        ("tells_workspace", c_int32),
    ]


class Team(Structure):
    """sl_team."""

    _fields_ = [("shared", c_void_p), ("index", c_int32), ("size", c_int32)]


class Context(Structure):
    """sl_ctx."""

    _fields_ = [
        ("size", c_uint64),
        ("status", c_int32),
        ("statement", c_int32),
        ("detail", c_int64 * 4),
        ("cancel", c_void_p),
        ("profile", c_void_p),
        ("profile_user", c_void_p),
        ("text", ctypes.c_char * 768),
        ("device", c_int32),
        ("overlap", c_int32),
        ("behind", c_void_p),
    ]


_Workspace = CFUNCTYPE(c_int64, POINTER(Problem))
Plan = CFUNCTYPE(c_int32, POINTER(Context), POINTER(Problem), POINTER(c_void_p), POINTER(c_void_p))
Run = CFUNCTYPE(c_int32, POINTER(Context), Team, c_void_p, POINTER(c_void_p), POINTER(c_void_p), c_void_p)
_Destroy = CFUNCTYPE(None, c_void_p)


class Kernel(Structure):
    """sl_kernel_desc, as the registry has it."""

    _fields_ = [
        ("size", c_uint64),
        ("name", c_char_p),
        ("backend", c_char_p),
        ("op", c_char_p),
        ("family", c_char_p),
        ("summary", c_char_p),
        ("accepts", c_void_p),
        ("cost", c_void_p),
        ("workspace", _Workspace),
        ("tunables", c_void_p),
        ("tunable_count", c_int32),
        ("tunable_stride", c_uint64),
        ("tune", c_void_p),
        ("can_fail", c_int32),
        ("whole_team", c_int32),
        ("plan_symbol", c_char_p),
        ("plan", Plan),
        ("run_symbol", c_char_p),
        ("run", Run),
        ("destroy", _Destroy),
        ("note", c_void_p),
        ("variants", c_void_p),
        ("any_device", c_int32),
        ("properties", c_uint32),
        ("operands", POINTER(Facts)),
        ("operand_count", c_int32),
        ("operand_stride", c_uint64),
        ("epilogues", POINTER(Epilogue)),
        ("epilogue_count", c_int32),
        ("epilogue_stride", c_uint64),
        ("border", c_void_p),
        ("group_op", c_char_p),
        ("rule", POINTER(Rule)),
    ]

    def input_facts(self) -> list[Facts]:
        """Facts of the inputs, by role."""
        facts = [self.operands[i] for i in range(self.operand_count)]
        return facts[: next((i for i, fact in enumerate(facts) if fact.flags & OUTPUT), len(facts))]

    def output_facts(self) -> list[Facts]:
        """Facts of the results."""
        return [self.operands[i] for i in range(len(self.input_facts()), self.operand_count)]

    def told_names(self) -> list[str] | None:
        """Attributes that plan receives; None: all."""
        if not self.rule or not self.rule[0].attributes:
            return None
        return [str(self.rule[0].attributes[i].decode()) for i in range(self.rule[0].attribute_count)]


class _Backend(Structure):
    _fields_ = [
        ("size", c_uint64),
        ("abi_version", c_uint32),
        ("name", c_char_p),
        ("kernels", POINTER(Kernel)),
        ("kernel_count", c_int32),
        ("device", c_void_p),
    ]


def runtime() -> ctypes.CDLL:
    """The runtime of this process."""
    library = ctypes.CDLL(str(Path(_call.__file__).parent / "libstraightline_runtime.so"))
    library.sl_backend_at.restype = POINTER(_Backend)
    library.sl_kernel_ask.argtypes = [POINTER(Kernel), POINTER(Problem), POINTER(c_double), c_char_p, c_size_t]
    return library


def device_of(name: str) -> int | None:
    """The address of the sl_device_desc of a backend of this process; None: it has no memory of its own."""
    library = runtime()
    backends = [library.sl_backend_at(i)[0] for i in range(library.sl_backend_count())]
    return next((backend.device for backend in backends if backend.name.decode() == name), None)


def kernels_of(name: str) -> list[Kernel]:
    """The kernels of a backend of this process."""
    library = runtime()
    for i in range(library.sl_backend_count()):
        backend = library.sl_backend_at(i)[0]
        if backend.name.decode() == name:
            return [backend.kernels[k] for k in range(backend.kernel_count)]
    return []


def dtype_of(dtype: str) -> DType:
    """A DLPack type."""
    kind = numpy.dtype(dtype)
    return DType({"i": 0, "u": 1, "f": 2, "b": 6}[kind.kind], kind.itemsize * 8, 1)


class Described:
    """An sl_problem with what it points to."""

    def __init__(
        self,
        op: str,
        operands: Sequence[tuple[str, Sequence[int], Sequence[int], bool]],
        inputs: int,
        attributes: Mapping[str, Any],
        sizes: int = 0,
    ) -> None:
        """`operands`: dtype, extents, strides in elements, and whether it is known before the first run."""
        self._operands = (Operand * max(len(operands), 1))()
        for place, (dtype, extents, strides, constant) in zip(self._operands, operands, strict=False):
            place.dtype, place.rank, place.constant = dtype_of(dtype), len(extents), int(constant)
            place.extents[: len(extents)] = list(extents)
            place.strides[: len(strides)] = list(strides)
        self._attributes = (Attribute * max(len(attributes), 1))()
        for attribute, (name, value) in zip(self._attributes, attributes.items(), strict=False):
            attribute.name = name.encode()
            attribute.kind = TEXT if isinstance(value, str) else FLOAT if isinstance(value, float) else INT
            attribute.text = value.encode() if isinstance(value, str) else None
            attribute.number = value if isinstance(value, float) else 0
            attribute.value = int(value) if isinstance(value, int) else 0
        self.view = Problem(
            size=ctypes.sizeof(Problem),
            op=op.encode(),
            operands=self._operands,
            inputs=inputs,
            outputs=len(operands) - inputs,
            attributes=self._attributes,
            attribute_count=len(attributes),
            threads=1,
            vector_bytes=32,
            l1_bytes=32 << 10,
            l2_bytes=1 << 20,
            sizes=sizes,
            operand_stride=ctypes.sizeof(Operand),
            attribute_stride=ctypes.sizeof(Attribute),
        )


def context() -> Context:
    """The context of a call."""
    return Context(size=ctypes.sizeof(Context), statement=-1)
