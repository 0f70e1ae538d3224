# SPDX-License-Identifier: Apache-2.0
"""What a contender is: a way to run a model, prepared in a process of its own."""

from __future__ import annotations

import statistics
import time
import timeit
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from straightline.bench.case import Case

_WARM_UP_CALLS, _CHOOSING_CALLS = 5, 30


class Unavailable(Exception):
    """This contender cannot be had here: a package or a tool is missing."""


class Unsupported(Exception):
    """This contender does not take this model."""


@dataclass(frozen=True)
class Task:
    """What a contender prepares for.

    Attributes:
        case: The case.
        model: Its module, in eval mode.
        inputs: Tensors that it is called with.
        threads: How many threads may compute.
        folder: A temporary folder of this process.
        shared_folder: One of the whole run, for what is the same in every case.
        cases_folder: Where the case was declared; None for a user's file.
    """

    case: Case
    model: Any
    inputs: tuple[Any, ...]
    threads: int
    folder: Path
    shared_folder: Path
    cases_folder: Path | None


@dataclass(frozen=True)
class Call:
    """One way to call what was prepared: a row of the table.

    Attributes:
        loop: Makes so many calls and returns the seconds that they took.
        answer: Makes one call and returns its results, tensors or arrays. None: there are none, and nothing to judge.
        configuration: What was chosen, in words.
        launches: Kernels that one call launches; None where that cannot be told.
        singles: On a device: makes so many calls one by one, and returns the seconds until each came back and until the device
            was done with it. None: made of `loop`.
    """

    loop: Callable[[int], float]
    answer: Callable[[], Sequence[Any]] | None
    configuration: str = ""
    launches: int | None = None
    singles: Callable[[int], list[tuple[float, float]]] | None = None


@dataclass
class Prepared:
    """The result of preparing a contender: calls by row, and what preparing took.

    Attributes:
        calls: Rows by name.
        compile_s: Seconds from the module to something that can be called.
        versions: Versions of what it runs on.
        keep: Objects that must outlive the calls.
        compile_own_s: Those of the seconds that are not torch's export.
        compile_cached_s: The same once more, with what the first time left on disk.
    """

    calls: dict[str, Call]
    compile_s: float
    versions: dict[str, str] = field(default_factory=dict)
    keep: list[Any] = field(default_factory=list)
    compile_own_s: float | None = None
    compile_cached_s: float | None = None


class Contender:
    """A contender; each process makes one.

    Attributes:
        name: A word, for `--contenders`.
        rows: Names of its rows, the first of which stands for it where it fails as a whole, and the titles of the table.
        kind: "peer" (somebody else's), "ours", or "floor".
        kinds: Of rows that are of another kind: "peer from C" is not compared with calls from Python.
        environment: Variables that its process starts with, beside the parent's.
        slow_to_compile: `--quick` leaves it out.
    """

    name: ClassVar[str]
    rows: ClassVar[Mapping[str, str]]
    kind: ClassVar[str] = "peer"
    kinds: ClassVar[Mapping[str, str]] = {}
    environment: ClassVar[Mapping[str, str]] = {}
    slow_to_compile: ClassVar[bool] = False

    def prepare(self, task: Task) -> Prepared:
        """Compiles, at its best configuration.

        Raises:
            Unavailable: It cannot be had here.
            Unsupported: It does not take the model.
        """
        raise NotImplementedError


def failing(error: Exception) -> Call:
    """A row that cannot be called: it says why when it is asked."""

    def fail(*_: Any) -> Any:
        raise error

    return Call(fail, fail)


def python_loop(
    function: Callable[..., Any], arguments: Sequence[Any], *, as_list: bool = False, **keywords: Any
) -> Callable[[int], float]:
    """A loop of calls as a user writes them, `f(x0, x1, out=y)`, with nothing between them.

    The names are locals of the loop, as in a function; the garbage collector is off, as timeit has it. With `as_list` the
    call is `f([x0, x1])`.
    """
    text, setup, names = _call_text(function, arguments, as_list, keywords)
    return timeit.Timer(text, setup=setup, globals=names).timeit


def python_singles(
    function: Callable[..., Any], arguments: Sequence[Any], *, as_list: bool = False, **keywords: Any
) -> Callable[[int], list[tuple[float, float]]]:
    """Calls of the same text one by one, each of which the CUDA device is done with before the next."""
    import torch

    text, setup, names = _call_text(function, arguments, as_list, keywords)
    seen: list[tuple[float, float, float]] = []
    names |= {"_clock": time.perf_counter, "_wait": torch.cuda.synchronize, "_note": seen.append}
    setup += "; clock = _clock; wait = _wait; note = _note"
    text = f"start = clock(); {text}; middle = clock(); wait(); note((start, middle, clock()))"
    timer = timeit.Timer(text, setup, globals=names)

    def singles(calls: int) -> list[tuple[float, float]]:
        seen.clear()
        torch.cuda.synchronize()
        timer.timeit(calls)
        return [(middle - start, end - start) for start, middle, end in seen]

    return singles


def _call_text(
    function: Callable[..., Any], arguments: Sequence[Any], as_list: bool, keywords: Mapping[str, Any]
) -> tuple[str, str, dict[str, Any]]:
    """A call, what makes its names locals, and their values."""
    values = {f"x{i}": value for i, value in enumerate(arguments)} | dict(keywords)
    positional = [f"x{i}" for i in range(len(arguments))]
    if as_list:
        positional = [f"[{', '.join(positional)}]"]
    text = ", ".join(positional + [f"{name}={name}" for name in keywords])
    setup = "; ".join(["f = _f", *(f"{name} = _{name}" for name in values)])
    names = {"_f": function} | {f"_{name}": value for name, value in values.items()}
    return f"f({text})", setup, names


def python_call(
    function: Callable[..., Any], arguments: Sequence[Any], *, configuration: str = "", launches: int | None = None
) -> Call:
    """A row that calls a Python function with tensors and gets tensors, however nested."""
    from torch.utils._pytree import tree_leaves

    return Call(
        loop=python_loop(function, arguments),
        answer=lambda: tree_leaves(function(*arguments)),
        configuration=configuration,
        launches=launches,
    )


def cuda_call(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    *,
    configuration: str = "",
    launches: int | None = None,
    **keywords: Any,
) -> Call:
    """The same on a CUDA device; `keywords` are part of the call. Answers are copied: some hand out the same memory again."""
    from torch.utils._pytree import tree_leaves

    return Call(
        loop=python_loop(function, arguments, **keywords),
        answer=lambda: [result.clone() for result in tree_leaves(function(*arguments, **keywords))],
        configuration=configuration,
        launches=launches,
        singles=python_singles(function, arguments, **keywords),
    )


def seconds_per_call(loop: Callable[[int], float], at_least_s: float = 0.002, samples: int = 5) -> float:
    """The least of a few short samples, to choose between configurations."""
    calls = calls_for(loop, at_least_s)
    return min(loop(calls) / calls for _ in range(samples))


def calls_for(loop: Callable[[int], float], seconds: float) -> int:
    """Returns how many calls take about `seconds`, estimated by making some."""
    calls = 1
    while True:
        elapsed = loop(calls)
        if elapsed >= seconds / 4 or calls >= 1 << 24:
            return max(1, round(calls * seconds / max(elapsed, 1e-9)))
        calls *= 4


def fastest(candidates: Mapping[str, Call]) -> Call:
    """The fastest of several configurations, which says what the others took; on a device until it is done."""
    if len(candidates) == 1:
        return next(iter(candidates.values()))
    times = {name: _seconds_of(call) for name, call in candidates.items()}
    best = min(times, key=lambda name: times[name])
    others = ", ".join(f"{name} {seconds * 1e6:,.1f} us" for name, seconds in times.items() if name != best)
    return replace(candidates[best], configuration=f"{best} ({others})")


def _seconds_of(call: Call) -> float:
    if call.singles is None:
        return seconds_per_call(call.loop)
    call.singles(_WARM_UP_CALLS)
    return statistics.median(done for _, done in call.singles(_CHOOSING_CALLS))
