# SPDX-License-Identifier: Apache-2.0
"""Straightline on a CUDA device: one graph a call, or one launch a kernel; also with `out=` and `reuse_outputs=True`."""

from __future__ import annotations

import time
from typing import Any, ClassVar

import straightline
from straightline.bench.contender import Call, Contender, Prepared, Task, cuda_call, failing
from straightline.bench.contenders.ours import launches_of


class CudaStraightLine(Contender):
    """Compiled once for each way to launch; the first one is what `sl.compile` gives by default."""

    name = "straightline"
    rows = {
        "straightline": "Straightline",
        "straightline_out": "Straightline, out=",
        "straightline_reuse": "Straightline, reuse_outputs",
        "straightline_stream": "Straightline, by stream",
    }
    kind = "ours"

    def prepare(self, task: Task) -> Prepared:
        """Compiles, then once more from what that left on disk."""
        import torch
        from torch.utils._pytree import tree_map

        function, seconds, own = _compiled(task)
        _, _, cached = _compiled(task)
        launches = launches_of(function)
        chosen = f"{function.explain()['launch']}: {function.explain()['launch_reason']}"
        with torch.inference_mode():
            calls = {"straightline": cuda_call(function, task.inputs, launches=launches, configuration=chosen)}
            out = tree_map(lambda t: t.clone(), function(*task.inputs))
            calls["straightline_out"] = cuda_call(function, task.inputs, launches=launches, out=out)
            reusing, _, _ = _compiled(task, reuse_outputs=True)
            calls["straightline_reuse"] = cuda_call(reusing, task.inputs, launches=launches)
            calls["straightline_stream"] = _by_stream(task)
        return Prepared(calls, seconds, {"torch": torch.__version__}, [function, out], own, cached)


class CudaEmittedPython(Contender):
    """The same program and kernels as a Python function."""

    name = "straightline_python"
    rows = {"straightline_python": "Straightline, Python"}
    kind = "ours"
    options: ClassVar[dict[str, Any]] = {"emit": "python"}

    def prepare(self, task: Task) -> Prepared:
        """Compiles."""
        function, seconds, own = _compiled(task, **self.options)
        call = cuda_call(function, task.inputs, launches=launches_of(function))
        return Prepared({self.name: call}, seconds, compile_own_s=own)


class CudaFastPathOff(CudaEmittedPython):
    """The same kernels through the interpreter, as frameworks call them."""

    name = "straightline_slow"
    rows = {"straightline_slow": "Straightline, fast path off"}
    options: ClassVar[dict[str, Any]] = {"fast_path": False}


def _compiled(task: Task, **options: Any) -> tuple[Any, float, float]:
    """The function, the seconds until its first result, and those of them that are not torch's export."""
    import torch

    torch.cuda.synchronize()
    start = time.perf_counter()
    function = straightline.compile(task.model, task.inputs, **options)
    with torch.inference_mode():
        function(*task.inputs)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    return function, seconds, seconds - function.explain()["compile_seconds"]["capture"]


def _by_stream(task: Task) -> Call:
    try:
        function, _, _ = _compiled(task, launch="stream")
    except straightline.UserError as error:  # told in the row; the other rows stand
        return failing(error)
    return cuda_call(function, task.inputs, launches=launches_of(function))
