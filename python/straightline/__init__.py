# SPDX-License-Identifier: Apache-2.0
"""Straightline: a captured tensor graph becomes straight-line code that calls kernels directly."""

from straightline import onnx_model as onnx_model  # the front end of ONNX, which registers itself
from straightline._paths import fast_path
from straightline._programs import Program, programs
from straightline.cache import CacheInfo, cache_info, clear_cache
from straightline.compile import CompiledFunction, compile
from straightline.compile_mlir import compile_mlir
from straightline.errors import (
    CacheWarning,
    CaptureWarning,
    GuardError,
    InternalError,
    OpError,
    SpecializeWarning,
    StraightlineError,
    UnsupportedError,
    UserError,
)
from straightline.jit import jit
from straightline.options import CompileOptions

__all__ = [
    "CacheInfo",
    "CacheWarning",
    "CaptureWarning",
    "CompileOptions",
    "CompiledFunction",
    "GuardError",
    "InternalError",
    "OpError",
    "Program",
    "SpecializeWarning",
    "StraightlineError",
    "UnsupportedError",
    "UserError",
    "cache_info",
    "clear_cache",
    "compile",
    "compile_mlir",
    "fast_path",
    "jit",
    "programs",
]
