# SPDX-License-Identifier: Apache-2.0
"""A compiled function called by a loop in C through the runtime's ABI: what a caller in C or C++ pays."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import straightline
from straightline.bench.contender import Task, Unsupported
from straightline.bench.native_code import NATIVE, shared_library

_MESSAGE_BYTES = 1024


class CLoop:
    """Owns a set of weights made through the C ABI, and the result tensors."""

    def __init__(self, function: Any, task: Task) -> None:
        """Compiles the loop.

        Raises:
            Unavailable: There is no C compiler.
            Unsupported: A result is no fresh tensor, or an input is not one of the program's.
        """
        import torch
        from torch.utils._pytree import tree_leaves

        results = tree_leaves(function(*task.inputs))
        taken = {x.untyped_storage().data_ptr() for x in task.inputs}
        if any(not isinstance(r, torch.Tensor) or r.untyped_storage().data_ptr() in taken for r in results):
            raise Unsupported("a result is a view of an input: a caller in C makes that itself")
        if len(function.explain()["inputs"]) != len(task.inputs):
            raise Unsupported(f"the program reads {len(function.explain()['inputs'])} of {len(task.inputs)} inputs")
        self.results = [torch.empty_like(r) for r in results]
        self._kept = (function, task.inputs, function.parameters())
        runtime = ctypes.CDLL(
            str(Path(straightline.__file__).with_name("libstraightline_runtime.so")), ctypes.RTLD_GLOBAL
        )
        library = ctypes.CDLL(str(shared_library(NATIVE / "call_loop.c", task.folder)))
        self._message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        self._program = _capsule(function._compilation.program, b"sl_program")
        self._weights = ctypes.c_void_p()
        parameters = _pointers(list(self._kept[2].values()))
        runtime.sl_weights_create.argtypes = [ctypes.c_void_p] * 6
        status = runtime.sl_weights_create(
            self._program, parameters, None, None, ctypes.addressof(self._weights), ctypes.addressof(self._message)
        )
        if status != 0:
            raise RuntimeError(self._message.value.decode())
        self._inputs, self._outputs = _pointers(list(task.inputs)), _pointers(self.results)
        self._threads = int(function.explain()["threads"])
        self._loop = library.sl_bench_call_loop
        self._loop.restype = ctypes.c_double
        self._loop.argtypes = [ctypes.c_void_p] * 4 + [ctypes.c_int, ctypes.c_long, ctypes.c_void_p]

    def seconds(self, calls: int) -> float:
        """Makes so many calls."""
        taken = self._loop(
            self._program,
            self._weights,
            self._inputs,
            self._outputs,
            self._threads,
            calls,
            ctypes.addressof(self._message),
        )
        if taken < 0:
            raise RuntimeError(self._message.value.decode())
        return taken

    def answer(self) -> list[Any]:
        """The results of one call."""
        self.seconds(1)
        return self.results


def _pointers(tensors: list[Any]) -> Any:
    return (ctypes.c_void_p * max(1, len(tensors)))(*[t.data_ptr() for t in tensors])


def _capsule(capsule: Any, name: bytes) -> int:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get(capsule, name)
