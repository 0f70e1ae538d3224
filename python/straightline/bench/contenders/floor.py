# SPDX-License-Identifier: Apache-2.0
"""The floor: hand-written C++ for a case, called by a loop in C. It is no compiler's work and no framework's."""

from __future__ import annotations

import ctypes
import time
from typing import Any

from straightline.bench.contender import Call, Contender, Prepared, Task, Unavailable
from straightline.bench.native_code import shared_library


class HandWritten(Contender):
    """`floor_prepare(parameters, threads)` once, then `floor_loop(inputs, outputs, calls)`, which returns seconds."""

    name = "floor"
    rows = {"floor": "hand-written floor"}
    kind = "floor"

    def prepare(self, task: Task) -> Prepared:
        """Compiles the case's file of `bench/floor`."""
        import torch
        from torch.utils._pytree import tree_leaves

        if task.case.floor is None or task.cases_folder is None:
            raise Unavailable("none is written for this case")
        floor = task.case.floor
        source = task.cases_folder.parent / "floor" / floor.source
        if not source.is_file():
            raise Unavailable(f"no file {source.name} in the folder floor beside the cases")
        start = time.perf_counter()
        library = ctypes.CDLL(
            str(shared_library(source, task.folder, defines={**floor.defines, "FLOOR_THREADS": task.threads}))
        )
        with torch.no_grad():
            made = floor.parameters(task.model) if floor.parameters else list(task.model.state_dict().values())
            parameters = [t.detach().contiguous() for t in made]
            results = [torch.empty_like(r) for r in tree_leaves(task.model(*task.inputs))]
        library.floor_prepare.argtypes = [ctypes.c_void_p]
        library.floor_prepare(_pointers(parameters))
        seconds = time.perf_counter() - start
        library.floor_loop.restype = ctypes.c_double
        library.floor_loop.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]
        given, places = _pointers(list(task.inputs)), _pointers(results)

        def loop(calls: int) -> float:
            return library.floor_loop(given, places, calls)

        def answer() -> list[Any]:
            loop(1)
            return results

        call = Call(loop, answer, "called by a loop in C")
        return Prepared({"floor": call}, seconds, keep=[library, parameters, results, task.inputs])


def _pointers(tensors: list[Any]) -> Any:
    return (ctypes.c_void_p * max(1, len(tensors)))(*[t.data_ptr() for t in tensors])
