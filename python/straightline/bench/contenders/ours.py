# SPDX-License-Identifier: Apache-2.0
"""Straightline: emitted C++ (also with `out=`, `reuse_outputs=True`, and called from C), emitted Python, the fast path off."""

from __future__ import annotations

import time
from typing import Any

import straightline
from straightline.bench.contender import (
    Call,
    Contender,
    Prepared,
    Task,
    failing,
    python_call,
    python_loop,
)
from straightline.bench.contenders.c_loop import CLoop


def compiled(task: Task, **options: Any) -> tuple[Any, float]:
    """The function, and the seconds that making it took; the cache of this process was empty when it began.

    Without `threads=` it takes a team of torch's number of threads, which is the task's, where that is worth it.
    """
    start = time.perf_counter()
    function = straightline.compile(task.model, task.inputs, **options)
    function(*task.inputs)
    return function, time.perf_counter() - start


def launches_of(function: Any) -> int:
    """Kernels that a call launches: statements of `run`."""
    return sum(1 for row in function.explain().statements if row["phase"] == "run" and row["kernel"])


class StraightLine(Contender):
    """Emitted C++: fresh results, results into `out=`, results used again, and the same program called by a loop in C."""

    name = "straightline"
    rows = {
        "straightline": "Straightline",
        "straightline_out": "Straightline, out=",
        "straightline_reuse": "Straightline, reuse_outputs",
        "straightline_c": "Straightline, from C",
    }
    kind = "ours"

    def prepare(self, task: Task) -> Prepared:
        """Compiles once for all rows; `reuse_outputs` is the same program bound in another way."""
        from torch.utils._pytree import tree_leaves, tree_map

        function, seconds = compiled(task)
        launches = launches_of(function)
        calls = {"straightline": python_call(function, task.inputs, launches=launches)}
        out = tree_map(lambda t: t.clone(), function(*task.inputs))
        calls["straightline_out"] = Call(
            python_loop(function, task.inputs, out=out),
            lambda: tree_leaves(function(*task.inputs, out=out)),
            launches=launches,
        )
        reusing, _ = compiled(task, reuse_outputs=True)
        calls["straightline_reuse"] = python_call(reusing, task.inputs, launches=launches)
        try:
            loop = CLoop(function, task)
            calls["straightline_c"] = Call(loop.seconds, loop.answer, launches=launches)
        except Exception as error:  # told in the row; the other rows stand
            calls["straightline_c"] = failing(error)
        return Prepared(calls, seconds)


class EmittedPython(Contender):
    """The same program and kernels as a Python function."""

    name = "straightline_python"
    rows = {"straightline_python": "Straightline, Python"}
    kind = "ours"

    def prepare(self, task: Task) -> Prepared:
        """Compiles."""
        function, seconds = compiled(task, emit="python")
        call = python_call(function, task.inputs, launches=launches_of(function))
        return Prepared({"straightline_python": call}, seconds)


class FastPathOff(Contender):
    """The same kernels through the interpreter, as frameworks call them."""

    name = "straightline_slow"
    rows = {"straightline_slow": "Straightline, fast path off"}
    kind = "ours"

    def prepare(self, task: Task) -> Prepared:
        """Compiles."""
        function, seconds = compiled(task, fast_path=False)
        call = python_call(function, task.inputs, launches=launches_of(function))
        return Prepared({"straightline_slow": call}, seconds)
