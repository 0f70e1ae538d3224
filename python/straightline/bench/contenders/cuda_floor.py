# SPDX-License-Identifier: Apache-2.0
"""What launching costs when nothing is computed: an empty kernel, as many as Straightline launches, those in one graph."""

from __future__ import annotations

import ctypes
from typing import Any

import straightline
from straightline.bench.contender import Call, Contender, Prepared, Task, Unavailable, failing
from straightline.bench.contenders.ours import launches_of
from straightline.bench.native_code import NATIVE, shared_library

_MESSAGE_BYTES = 256


class LaunchFloor(Contender):
    """Loops in C over the driver; nothing is computed, so there are no answers."""

    name = "launches"
    rows = {
        "launch": "one empty kernel",
        "launches": "as many empty kernels",
        "launches_graph": "a graph of as many",
    }
    kind = "floor"

    def prepare(self, task: Task) -> Prepared:
        """Compiles the loop, and the model for the number of its kernels."""
        import torch

        source = NATIVE / "cuda_launches.c"
        library = ctypes.CDLL(str(shared_library(source, task.folder, flags=["-ldl"])))
        library.sl_bench_cuda_open.restype = ctypes.c_void_p
        library.sl_bench_cuda_enqueue.restype = ctypes.c_double
        calls = {"launch": _call(library, 1, graph=False)}
        try:
            kernels = launches_of(straightline.compile(task.model, task.inputs))
            calls["launches"] = _call(library, kernels, graph=False)
            calls["launches_graph"] = _call(library, kernels, graph=True)
        except Exception as error:  # told in these rows; the first one stands
            calls["launches"] = calls["launches_graph"] = failing(error)
        return Prepared(calls, 0.0, {"torch": torch.__version__}, [library])


def _call(library: Any, kernels: int, *, graph: bool) -> Call:
    message = ctypes.create_string_buffer(_MESSAGE_BYTES)
    opened = library.sl_bench_cuda_open(
        ctypes.c_int(kernels), ctypes.c_int(graph), message, ctypes.c_size_t(_MESSAGE_BYTES)
    )
    if not opened:
        raise Unavailable(message.value.decode())
    handle = ctypes.c_void_p(opened)

    def singles(calls: int) -> list[tuple[float, float]]:
        enqueue, done = (ctypes.c_double * calls)(), (ctypes.c_double * calls)()
        library.sl_bench_cuda_singles(handle, ctypes.c_long(calls), enqueue, done)
        return list(zip(enqueue, done))

    def loop(calls: int) -> float:
        return library.sl_bench_cuda_enqueue(handle, ctypes.c_long(calls))

    return Call(loop, None, "called by a loop in C", kernels, singles)
