# SPDX-License-Identifier: Apache-2.0
"""sl_device_desc of runtime/abi/kernel.h for ctypes, and what its functions take."""

from __future__ import annotations

from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint64, c_void_p

from straightline.plugin_check.abi import Context, DType, Team

UNIFORM, NORMAL, BITS = 0, 1, 2  # sl_random_kind


class Properties(Structure):
    """sl_device_properties."""

    _fields_ = [
        ("size", c_uint64),
        ("name", c_char_p),
        ("memory_bytes", c_uint64),
        ("vector_bytes", c_int32),
        ("l1_bytes", c_int64),
        ("l2_bytes", c_int64),
        ("start_us", c_double),
        ("bytes_per_us", c_double),
    ]


class SourceFile(Structure):
    """sl_source_file."""

    _fields_ = [("name", c_char_p), ("text", c_char_p)]


class Source(Structure):
    """sl_device_source."""

    _fields_ = [
        ("size", c_uint64),
        ("name", c_char_p),
        ("text", c_char_p),
        ("machine", c_char_p),
        ("headers", POINTER(SourceFile)),
        ("header_count", c_int32),
        ("header_stride", c_uint64),
    ]


class Image(Structure):
    """sl_device_image."""

    _fields_ = [("size", c_uint64), ("data", c_char_p), ("bytes", c_uint64), ("compiler", c_int32)]


class Code(Structure):
    """sl_device_code."""

    _fields_ = [
        ("size", c_uint64),
        ("symbol", c_char_p),
        ("image", POINTER(Image)),
        ("blocks", c_void_p),
        ("blocks_count", c_int64),
        ("threads", c_int32),
        ("argument_count", c_int32),
        ("waits", c_int32),
    ]


#: sl_thunk_fn.
Thunk = CFUNCTYPE(None, POINTER(Context), Team, POINTER(c_void_p), POINTER(c_int64))
Give = CFUNCTYPE(None, c_void_p, c_void_p, c_uint64)
_ENQUEUE = (c_int32, c_void_p, POINTER(Context))


class Device(Structure):
    """sl_device_desc."""

    _fields_ = [
        ("size", c_uint64),
        ("space", c_char_p),
        ("host_access", c_int32),
        ("allocate", CFUNCTYPE(c_void_p, c_int32, c_size_t, c_size_t)),
        ("deallocate", CFUNCTYPE(None, c_int32, c_void_p, c_size_t)),
        ("queue_create", CFUNCTYPE(c_void_p, c_int32)),
        ("queue_destroy", CFUNCTYPE(None, c_void_p)),
        ("launch", CFUNCTYPE(*_ENQUEUE, c_void_p, POINTER(c_void_p), c_int32, POINTER(c_int64), c_int32)),
        ("copy", CFUNCTYPE(*_ENQUEUE, c_void_p, c_char_p, c_void_p, c_char_p, c_size_t)),
        ("record", CFUNCTYPE(c_void_p, c_void_p)),
        ("wait", CFUNCTYPE(None, c_void_p, c_void_p)),
        ("synchronize", CFUNCTYPE(None, c_void_p)),
        ("event_destroy", CFUNCTYPE(None, c_void_p)),
        ("query", CFUNCTYPE(c_int32, c_void_p)),
        ("load", CFUNCTYPE(c_int32, c_int32, POINTER(Code), POINTER(c_void_p), c_char_p, c_size_t)),
        ("unload", CFUNCTYPE(None, c_void_p)),
        ("start", CFUNCTYPE(*_ENQUEUE, c_void_p, c_void_p, POINTER(c_void_p))),
        ("queue_adopt", c_void_p),
        ("independent", c_int32),
        ("queue_order", CFUNCTYPE(c_uint64, c_void_p)),
        ("queue_captured", c_void_p),
        ("record_again", CFUNCTYPE(c_int32, c_void_p, c_void_p)),
        ("finish", CFUNCTYPE(None, c_int32)),
        ("graph_create", c_void_p),
        ("graph_begin", c_void_p),
        ("graph_launch", c_void_p),
        ("graph_again", c_void_p),
        ("missing", CFUNCTYPE(c_char_p, c_int32)),
        ("graph_step", c_void_p),
        ("fits", c_void_p),
        ("count", CFUNCTYPE(c_int32)),
        ("properties", CFUNCTYPE(None, c_int32, POINTER(Properties))),
        ("compile", CFUNCTYPE(c_int32, POINTER(Source), Give, c_void_p, c_char_p, c_size_t)),
        ("compiler", CFUNCTYPE(c_char_p)),
        ("allocate_host", CFUNCTYPE(c_void_p, c_int32, c_size_t, c_size_t)),
        ("deallocate_host", CFUNCTYPE(None, c_int32, c_void_p, c_size_t)),
        ("record_timed", CFUNCTYPE(c_void_p, c_void_p)),
        ("elapsed_ms", CFUNCTYPE(c_double, c_void_p, c_void_p)),
        ("random", CFUNCTYPE(*_ENQUEUE, c_int32, DType, c_void_p, c_int64, c_uint64, c_uint64)),
        ("random_step", CFUNCTYPE(c_uint64, c_int32, DType, c_int64)),
        ("failure", CFUNCTYPE(c_int32, c_void_p, POINTER(Context))),
    ]
