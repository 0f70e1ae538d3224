# SPDX-License-Identifier: Apache-2.0
"""Straightline: a captured tensor graph becomes straight-line code that calls kernels directly.

Names are imported when they are first used: a process that loads a saved model opens no compiler.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from straightline import errors as errors
    from straightline import kernels as kernels
    from straightline import paddle as paddle
    from straightline._paths import fast_path
    from straightline._programs import Program, programs
    from straightline._slots import slot
    from straightline.artifact import load
    from straightline.backend_plugins import LoadedBackend, load_backend
    from straightline.cache import CacheInfo, cache_info, clear_cache
    from straightline.compiled_function import CompiledFunction
    from straightline.errors import (
        CacheWarning,
        CaptureWarning,
        GuardError,
        InternalError,
        OpError,
        RouteWarning,
        SpecializeWarning,
        StraightlineError,
        UnsupportedError,
        UserError,
    )
    from straightline.jit_function import jit
    from straightline.mlir_model import compile_mlir
    from straightline.options import CompileOptions
    from straightline.own_kernels import OwnKernel, c_kernel, cuda_kernel
    from straightline.routing import backends, routes
    from straightline.torch_model import compile
    from straightline.triton_kernels import triton_kernel
    from straightline.tvm_library import tvm_ffi_library

#: Where each name is. No module has the name of what it gives: importing it would put the module in its place.
_PLACES = {
    "CacheInfo": "cache",
    "CacheWarning": "errors",
    "CaptureWarning": "errors",
    "CompileOptions": "options",
    "CompiledFunction": "compiled_function",
    "GuardError": "errors",
    "InternalError": "errors",
    "LoadedBackend": "backend_plugins",
    "OpError": "errors",
    "OwnKernel": "own_kernels",
    "Program": "_programs",
    "RouteWarning": "errors",
    "SpecializeWarning": "errors",
    "StraightlineError": "errors",
    "UnsupportedError": "errors",
    "UserError": "errors",
    "backends": "routing",
    "c_kernel": "own_kernels",
    "cuda_kernel": "own_kernels",
    "cache_info": "cache",
    "clear_cache": "cache",
    "compile": "torch_model",
    "compile_mlir": "mlir_model",
    "fast_path": "_paths",
    "jit": "jit_function",
    "load": "artifact",
    "load_backend": "backend_plugins",
    "programs": "_programs",
    "routes": "routing",
    "slot": "_slots",
    "triton_kernel": "triton_kernels",
    "tvm_ffi_library": "tvm_library",
}
#: Modules that users reach as attributes.
_MODULES = frozenset(
    {"errors", "kernels", "onnx_backend", "onnx_model", "options", "paddle", "paddle_model", "torch_backend"}
)
#: Of the compiler, which the package of the runtime alone does not have.
_COMPILING = frozenset({"cache", "jit_function", "mlir_model", "options", "routing", "torch_model", "tvm_library"})

__all__ = [
    "CacheInfo",
    "CacheWarning",
    "CaptureWarning",
    "CompileOptions",
    "CompiledFunction",
    "GuardError",
    "InternalError",
    "LoadedBackend",
    "OpError",
    "OwnKernel",
    "Program",
    "RouteWarning",
    "SpecializeWarning",
    "StraightlineError",
    "UnsupportedError",
    "UserError",
    "backends",
    "c_kernel",
    "cuda_kernel",
    "cache_info",
    "clear_cache",
    "compile",
    "compile_mlir",
    "fast_path",
    "jit",
    "load",
    "load_backend",
    "programs",
    "routes",
    "slot",
    "triton_kernel",
    "tvm_ffi_library",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"straightline.{name}")
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'straightline' has no attribute {name!r}")
    try:
        module = importlib.import_module(f"straightline.{place}")
    except ImportError as error:
        if place in _COMPILING and importlib.util.find_spec("straightline._compiler") is None:
            raise ImportError(
                f"straightline.{name} needs the compiler, and only the runtime is installed: pip install straightline"
            ) from error
        raise
    value = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
