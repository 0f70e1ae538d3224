# SPDX-License-Identifier: Apache-2.0
"""`fn.profile(x)`: what each statement of a call takes, beside what the machine can do.

A program that is profiled is compiled again with a hook before and behind each statement; the function itself has none in its
text. The kernels are the same, and come from the cache.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from straightline import _call, _devices, _signature, _slots
from straightline.errors import GuardError, UnsupportedError, UserError

_PARAMETER, _PREPARED = 0, 2  # sl_role
_CONTRACTIONS = ("linear", "matmul", "bmm", "addmm", "baddbmm", "grouped_matmul", "convolution")


@dataclass(frozen=True)
class Row:
    """One statement, over all runs.

    Attributes:
        statement: Its number in the program.
        op: The ops that it came from.
        source: Where those are.
        kernel: What it calls; "" for what is no kernel.
        backend: Whose that is.
        least_us: Microseconds of the fastest run.
        median_us: Of the median run.
        bytes: What it reads and writes.
        flops: Multiply-adds of a contraction count twice; 0: unknown.
    """

    statement: int
    op: str
    source: str
    kernel: str
    backend: str
    least_us: float
    median_us: float
    bytes: int
    flops: int

    @property
    def gb_per_second(self) -> float:
        """Bytes over the median."""
        return self.bytes / self.median_us * 1e-3 if self.median_us else 0.0

    @property
    def gflop_per_second(self) -> float:
        """Operations over the median."""
        return self.flops / self.median_us * 1e-3 if self.median_us else 0.0


@dataclass
class Profile:
    """What `fn.profile` gives; prints as a table.

    Attributes:
        rows: A row a statement that took time, in order.
        overhead_us: The median of what a call takes beside its statements: arguments, guard, frame, results. On a device a call
            that is a graph overlaps its kernels, so that it may take less than they do one by one: then this is negative.
        call_us: The median of a whole call.
        runs: How many calls were measured.
        limits: What the machine can do, measured here: "gb_per_second" and "gflop_per_second" (0: not measured).
        name: The program's.
        program: Its number among `fn.examples`, from 1 on.
    """

    name: str
    rows: list[Row]
    overhead_us: float
    call_us: float
    runs: int
    limits: dict[str, float]
    _events: list[tuple[str, str, float, float]] = field(default_factory=list, repr=False)
    program: int = 1

    def trace(self, path: str | os.PathLike[str]) -> None:
        """Writes the last runs as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing open.

        Raises:
            UserError: The file cannot be written.
        """
        events: list[dict[str, Any]] = [
            {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": f"straightline {self.name}"}},
            {"name": "thread_name", "ph": "M", "pid": 1, "tid": 1, "args": {"name": "statements"}},
        ]
        for name, source, begin, end in self._events:
            events.append(
                {
                    "name": name, "cat": "call" if not source else "statement", "ph": "X", "ts": begin, "dur": end - begin,
                    "pid": 1, "tid": 1, "args": {"source": source},
                }
            )  # fmt: skip
        try:
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"traceEvents": events, "displayTimeUnit": "ns"}, file)
        except OSError as error:
            raise UserError(f"cannot write {os.fspath(path)!r}: {error.strerror}") from error

    def __rich__(self) -> Any:
        from rich.table import Table

        table = Table(title=f"{self.name}: {self.call_us:.2f} us a call, median of {self.runs}; {self._limits_text()}")
        for head, justify in (
            ("op", "left"), ("source", "left"), ("kernel", "left"), ("least us", "right"), ("median us", "right"),
            ("%", "right"), ("bytes", "right"), ("GB/s", "right"), ("GFLOP/s", "right"),
        ):  # fmt: skip
            table.add_column(head, justify=justify)  # type: ignore[arg-type]
        for row in self.rows:
            table.add_row(
                row.op, row.source, row.kernel, f"{row.least_us:.2f}", f"{row.median_us:.2f}", self._percent(row.median_us),
                f"{row.bytes:,}", f"{row.gb_per_second:.1f}", f"{row.gflop_per_second:.1f}" if row.flops else "",
            )  # fmt: skip
        beside = "arguments, guard, results" if self.overhead_us >= 0 else "its kernels overlap"
        table.add_row("call", "", beside, "", f"{self.overhead_us:.2f}", self._percent(self.overhead_us))
        return table

    def _percent(self, us: float) -> str:
        return f"{100 * us / self.call_us:.1f}" if self.call_us else ""

    def _limits_text(self) -> str:
        gb, gflop = self.limits["gb_per_second"], self.limits["gflop_per_second"]
        return f"measured limits: {gb:.0f} GB/s" + (f", {gflop:.0f} GFLOP/s" if gflop else "")

    def __str__(self) -> str:
        import io

        from rich.console import Console

        console = Console(width=200, file=io.StringIO(), highlight=False)
        console.print(self)
        return console.file.getvalue()  # type: ignore[attr-defined]


def profile(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], runs: int, nvtx: bool) -> Profile:
    """What `CompiledFunction.profile` does."""
    if isinstance(runs, bool) or not isinstance(runs, int) or runs < 1:
        raise UserError(f"runs is {runs!r} but must be at least 1")
    one = _program_for(function, args, kwargs)
    hooked, recorder = _hooked(one, runs, nvtx)
    try:
        for _ in range(3):
            hooked(*args, **kwargs)
        recorder.clear()
        calls: list[tuple[float, float]] = []
        for _ in range(runs):
            recorder.start()
            begin = time.perf_counter_ns()
            hooked(*args, **kwargs)
            recorder.finish()
            calls.append((begin, time.perf_counter_ns()))
        sizes = _sizes(one, args, kwargs)
        made = _assembled(one, hooked, recorder, calls, sizes)
        made.program = 1 + next(i for i, program in enumerate(function._all) if program is one)
        if isinstance(recorder, _Recorder):
            return made
        return _of_device(made, recorder, function, args, kwargs, runs)
    finally:
        recorder.close()


def _of_device(
    made: Profile,
    recorder: _DeviceRecorder,
    function: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    runs: int,
) -> Profile:
    """With the time of calls of the function as it is, which wait for the device."""
    taken = []
    for _ in range(runs):
        recorder.wait()
        begin = time.perf_counter_ns()
        function(*args, **kwargs)
        recorder.wait()
        taken.append(time.perf_counter_ns() - begin)
    made.call_us = statistics.median(taken) * 1e-3
    made.overhead_us = made.call_us - sum(row.median_us for row in made.rows)
    return made


def _program_for(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The program of the function that takes these arguments, among those of the kernels that `sl.slot` chooses."""
    head = (function, *function._slotted)[_slots.place_of(function._slots)(_slots.chosen()) if function._slots else 0]
    programs = (head, *head._others)
    if len(programs) == 1:
        return head
    for one in programs:
        alone = one._binding.function(one._compilation, _Set(one._weights, one._sources), one._kernels, one._emitted)
        try:
            alone(*args, **kwargs)
        except GuardError:
            continue
        return one
    raise GuardError("no program takes these arguments")


@dataclass(frozen=True)
class _Set:
    capsule: Any
    sources: Any


def _hooked(one: Any, runs: int, nvtx: bool) -> tuple[Any, _Recorder | _DeviceRecorder]:
    """The program compiled with hooks, over the same parameters."""
    binding = one._binding
    compilation = binding.compiled_with(profile=True)
    count = len(_call.describe(compilation.program, {})[1])
    place = str(binding.request.get("target", "cpu"))
    on_device = place != "cpu"
    if _devices.is_plugin(place):
        recorder: Any = _PluginRecorder(place.partition(":")[0], int(binding.request.get("device", 0)))
    else:
        recorder = _CudaRecorder(nvtx) if on_device else _Recorder(min((runs + 4) * (4 * count + 16), 1 << 24))
    options = {**binding.options, "profile": recorder.option, "fast_path": True}
    if on_device:
        options["launch"] = "stream"  # a graph has no statements
    own = replace(binding, options=options, tuning=None, sharing=None)
    weights = own.set_of(compilation.program, binding.present(one), None, {})
    made = own.function(compilation, weights, None, None)
    return made, recorder


class _Recorder:
    """Times of the host, written by C."""

    def __init__(self, pairs: int) -> None:
        import numpy

        self._numbers = numpy.zeros(1 + 2 * pairs, numpy.int64)
        self.option = (self._numbers.ctypes.data, pairs)

    def clear(self) -> None:
        self._numbers[0] = 0

    def start(self) -> None:
        """Nothing is to be kept busy."""

    def finish(self) -> None:
        """Nothing is behind."""

    def close(self) -> None:
        """Nothing is held."""

    def spans(self) -> list[tuple[int, float, float]]:
        """Statement, begin and end in nanoseconds, in order; an inner one comes before what encloses it."""
        count = int(self._numbers[0])
        open_: dict[int, float] = {}
        found = []
        for what, at in self._numbers[1 : 1 + 2 * count].reshape(-1, 2).tolist():
            statement, begins = divmod(what, 2)
            if begins:
                open_[statement] = at
            elif statement in open_:
                found.append((statement, open_.pop(statement), at))
        return found


class _DeviceRecorder:
    """Times of a device, by events of the stream on which the call is. Derived classes know the device's events."""

    def __init__(self) -> None:
        self._marks: list[tuple[int, int, Any]] = []
        self._spans: list[tuple[int, float, float]] = []
        self._empty = 0.0
        self.option: Callable[[int, int], None] = self._note

    # --- what a device has

    def _record(self) -> Any:
        """A timed event behind what the stream has."""
        raise NotImplementedError

    def _between(self, first: Any, second: Any) -> float:
        """Nanoseconds between two events that have fired."""
        raise NotImplementedError

    def _forget(self, events: Sequence[Any]) -> None:
        """They are not used any more."""

    def _keep_busy(self) -> None:
        """Enqueues work that takes longer than the host needs to enqueue a call."""

    def close(self) -> None:
        """Gives back what it holds of the device."""

    def wait(self) -> None:
        """Until the stream has passed all of its work."""
        raise NotImplementedError

    def limits(self) -> dict[str, float]:
        """What the device can do, measured: a copy, and a product of matrices (0: not measured)."""
        raise NotImplementedError

    # --- what is made of it

    def _note(self, statement: int, begins: int) -> None:
        self._marks.append((statement, begins, self._record()))

    def clear(self) -> None:
        self._forget([event for _, _, event in self._marks])
        self._marks.clear()
        self._spans.clear()

    def start(self) -> None:
        """Keeps the device busy while the host enqueues: else an event would wait for the host, not for the kernel before it."""
        if not self._empty:
            self._empty = self._between_two()
        self._keep_busy()

    def _between_two(self) -> float:
        """Nanoseconds between two events with nothing between them: every span has as much beside its kernel."""
        self.wait()
        self._keep_busy()
        events = [self._record() for _ in range(41)]
        self.wait()
        found = statistics.median(self._between(a, b) for a, b in zip(events, events[1:]))
        self._forget(events)
        return found

    def finish(self) -> None:
        """Waits for the call and turns its events into times."""
        self.wait()
        first = self._marks[0][2] if self._marks else None
        # The last event has just come: the times are laid before now.
        base = time.perf_counter_ns() - (self._between(first, self._marks[-1][2]) if self._marks else 0.0)
        open_: dict[int, float] = {}
        for statement, begins, event in self._marks:
            at = base + self._between(first, event)
            if begins:
                open_[statement] = at
            elif statement in open_:
                begin = open_.pop(statement)
                self._spans.append((statement, begin, max(begin, at - self._empty)))
        self._forget([event for _, _, event in self._marks])
        self._marks.clear()

    def spans(self) -> list[tuple[int, float, float]]:
        return self._spans


class _CudaRecorder(_DeviceRecorder):
    """By events of torch's current stream."""

    def __init__(self, nvtx: bool) -> None:
        import torch

        super().__init__()
        self._torch, self._nvtx = torch, nvtx

    def _record(self) -> Any:
        event = self._torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _between(self, first: Any, second: Any) -> float:
        return float(first.elapsed_time(second) * 1e6)

    def _note(self, statement: int, begins: int) -> None:
        super()._note(statement, begins)
        if self._nvtx:
            nvtx = self._torch.cuda.nvtx
            nvtx.range_push(f"statement {statement}") if begins else nvtx.range_pop()

    def _keep_busy(self) -> None:
        sleep = getattr(self._torch.cuda, "_sleep", None)
        if sleep is not None:
            sleep(20_000_000)  # cycles: about 10 ms

    def wait(self) -> None:
        self._torch.cuda.synchronize()

    def limits(self) -> dict[str, float]:
        return _cuda_limits()


class _PluginRecorder(_DeviceRecorder):
    """By timed events of the queue on which this thread uses a plug-in's device."""

    #: Bytes of the copies that keep the queue busy, and that measure how fast they are.
    _BLOCK = 1 << 24

    def __init__(self, backend: str, number: int) -> None:
        from straightline.plugin_check import abi
        from straightline.plugin_check.device_abi import Device

        super().__init__()
        address = abi.device_of(backend)
        self._device: Any = Device.from_address(address or 0)
        if not self._device.record_timed or not self._device.elapsed_ms:
            raise UnsupportedError(
                f"the device '{backend}' has no timed events (record_timed, elapsed_ms), so that its statements are not timed; "
                "nearest supported form: time whole calls"
            )
        self._backend, self._number = backend.encode(), number
        self._queue = _queue_of(abi.runtime(), self._backend, number)
        self._context = abi.context
        self._blocks = [self._device.allocate(number, self._BLOCK, 256) for _ in range(2)]

    def close(self) -> None:
        self.clear()
        for block in filter(None, self._blocks):
            self._device.deallocate(self._number, block, self._BLOCK)
        self._blocks = []

    def _record(self) -> Any:
        return self._device.record_timed(self._queue)

    def _between(self, first: Any, second: Any) -> float:
        return float(self._device.elapsed_ms(first, second) * 1e6)

    def _forget(self, events: Sequence[Any]) -> None:
        for event in events:
            self._device.event_destroy(event)

    def _keep_busy(self) -> None:
        if self._blocks and all(self._blocks):  # else it has no memory for that: the times have the host's in them
            self._copy()

    def _copy(self) -> None:
        space = self._device.space
        to, source = self._blocks
        self._device.copy(self._queue, self._context(), to, space, source, space, self._BLOCK)

    def wait(self) -> None:
        event = self._device.record(self._queue)
        self._device.synchronize(event)
        self._device.event_destroy(event)

    def limits(self) -> dict[str, float]:
        found = {"gb_per_second": 0.0, "gflop_per_second": 0.0}
        if self._blocks and all(self._blocks):
            self._copy()
            events = [self._record()]
            for _ in range(5):
                self._copy()
                events.append(self._record())
            self.wait()
            least = min(self._between(a, b) for a, b in zip(events, events[1:]))
            self._forget(events)
            found["gb_per_second"] = 2 * self._BLOCK / max(least, 1.0)
        return found


def _queue_of(runtime: Any, backend: bytes, number: int) -> int:
    """What the device's functions take as the queue of this thread."""
    import ctypes

    queue, message = ctypes.c_void_p(), ctypes.create_string_buffer(4096)
    runtime.sl_queue_handle.restype = ctypes.c_void_p
    runtime.sl_queue_handle.argtypes = [ctypes.c_void_p]
    if runtime.sl_queue_current(backend, number, ctypes.byref(queue), message):
        raise UnsupportedError(message.value.decode(errors="replace"))
    return int(runtime.sl_queue_handle(queue) or 0)


def _sizes(one: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, int]:
    """Values of named sizes in these arguments, as far as an input has one as it is."""
    rows = json.loads(one._compilation.explain_json)["inputs"]
    names = [row["name"] for row in one._binding.named_sizes]
    found: dict[str, int] = {}
    tensors = [leaf for leaf in _leaves((*args, *kwargs.values())) if _signature.is_tensor(leaf)]
    for row, tensor in zip(rows, tensors, strict=False):
        for size, given in zip(row["shape"], tensor.shape, strict=False):
            if size in names:
                found[size] = int(given)
    return found


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]


def _assembled(
    one: Any, hooked: Any, recorder: Any, calls: Sequence[tuple[float, float]], sizes: Mapping[str, int]
) -> Profile:
    buffers, statements = _call.describe(hooked._compilation.program, dict(sizes))
    explained = json.loads(hooked._compilation.explain_json)["statements"]
    rows_of = _explained_rows(statements, explained)
    spans = recorder.spans()
    by_call = _by_call(spans, calls)
    if not spans:
        raise UserError("the program has no statement that takes time")
    times: dict[int, list[float]] = {}
    overheads = []
    for (begin, end), inside in zip(calls, by_call, strict=True):
        sums: dict[int, float] = {}
        for statement, at, until in inside:
            sums[statement] = sums.get(statement, 0.0) + (until - at)
        for statement, taken in sums.items():
            times.setdefault(statement, []).append(taken)
        overheads.append((end - begin) - sum(sums.values()))
    rows = []
    for statement in sorted(times):
        facts = rows_of.get(statement, {})
        about = statements[statement]
        rows.append(
            Row(
                statement,
                about["op"] or facts.get("op", ""),
                about["source"],
                about["entry"],
                str(facts.get("backend", "")),
                min(times[statement]) * 1e-3,
                statistics.median(times[statement]) * 1e-3,
                int(facts.get("bytes") or 0) if not sizes else _bytes(about, buffers),
                _flops(about, buffers, statements),
            )
        )
    events: list[tuple[str, str, float, float]] = []
    start = calls[0][0]
    for (begin, end), inside in zip(calls[-20:], by_call[-20:], strict=True):
        events.append(("call", "", (begin - start) * 1e-3, (end - start) * 1e-3))
        for statement, at, until in inside:
            about = statements[statement]
            events.append(
                (
                    about["entry"] or about["op"] or "statement",
                    about["source"],
                    (at - start) * 1e-3,
                    (until - start) * 1e-3,
                )
            )
    return Profile(
        one._binding.name,
        rows,
        statistics.median(overheads) * 1e-3,
        statistics.median(end - begin for begin, end in calls) * 1e-3,
        len(calls),
        _limits(one, recorder),
        events,
    )


def _by_call(
    spans: Sequence[tuple[int, float, float]], calls: Sequence[tuple[float, float]]
) -> list[list[tuple[int, float, float]]]:
    """The spans of each call. A statement within another (a loop's body) counts, and what encloses it does not."""
    found: list[list[tuple[int, float, float]]] = [[] for _ in calls]
    at = 0
    for span in spans:
        while at + 1 < len(calls) and span[1] >= calls[at + 1][0]:
            at += 1
        inside = found[at]
        if not any(span[1] <= other[1] and other[2] <= span[2] for other in inside[-1:]):
            inside.append(span)
    return found


def _explained_rows(
    statements: Sequence[Mapping[str, Any]], explained: Sequence[Mapping[str, Any]]
) -> dict[int, Mapping[str, Any]]:
    """The rows of `explain` by the number of their statement: both are in order, and name the same kernels."""
    found: dict[int, Mapping[str, Any]] = {}
    rest = list(explained)
    for i, statement in enumerate(statements):
        if (
            rest
            and statement["entry"]
            and rest[0].get("kernel")
            and statement["entry"].split(".")[-1]
            in (
                rest[0]["kernel"],
                str(rest[0]["kernel"]).split(".")[-1],
            )
        ):
            found[i] = rest.pop(0)
        elif rest and not rest[0].get("kernel") and statement["op"] == rest[0].get("op"):
            found[i] = rest.pop(0)
    return found


def _bytes(statement: Mapping[str, Any], buffers: Sequence[Mapping[str, Any]]) -> int:
    total = 0
    for number in statement["operands"]:
        total += _elements(buffers[number]["shape"]) * buffers[number]["element_bits"] // 8
    return total


def _elements(shape: Sequence[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _flops(
    statement: Mapping[str, Any], buffers: Sequence[Mapping[str, Any]], statements: Sequence[Mapping[str, Any]]
) -> int:
    """Two for each multiply-add of a contraction; 0 where its sizes are not to be seen."""
    op = statement["op"].split(",")[0].strip()
    if op not in _CONTRACTIONS or not statement["inputs"]:
        return 0
    results = [buffers[number] for number in statement["operands"][statement["inputs"] :]]
    if not results:
        return 0
    written = max(_elements(result["shape"]) for result in results)
    first = buffers[statement["operands"][0]]
    if op != "convolution":
        return 2 * written * (first["shape"][-1] if first["shape"] else 1)
    weight = _original(statement["operands"][1], buffers, statements) if statement["inputs"] > 1 else None
    if weight is None or len(weight["shape"]) < 3 or not weight["shape"][0]:
        return 0
    return 2 * written * _elements(weight["shape"]) // weight["shape"][0]


def _original(
    number: int, buffers: Sequence[Mapping[str, Any]], statements: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """The parameter that a buffer was prepared from."""
    for _ in range(16):
        buffer = buffers[number]
        if buffer["role"] == _PARAMETER:
            return buffer
        if buffer["base"] >= 0:
            number = buffer["base"]
            continue
        makers = [s for s in statements if s["phase"] == 0 and number in s["operands"][s["inputs"] :] and s["inputs"]]
        if not makers:
            return None
        ranked = max(makers[0]["operands"][: makers[0]["inputs"]], key=lambda n: len(buffers[n]["shape"]))
        number = ranked
    return None


_measured: dict[tuple[str, int], dict[str, float]] = {}


def _limits(one: Any, recorder: _Recorder | _DeviceRecorder) -> dict[str, float]:
    """What this machine can do with the program's threads, measured once a process: a copy, and a product of matrices."""
    target = str(one._binding.request.get("target", "cpu"))
    threads = int(json.loads(one._compilation.explain_json)["threads"])
    key = (target, threads)
    if key not in _measured:
        _measured[key] = _host_limits(threads) if isinstance(recorder, _Recorder) else recorder.limits()
    return _measured[key]


def _host_limits(threads: int) -> dict[str, float]:
    import numpy

    from straightline import _compiler

    side = 768
    tensor = f"tensor<{side}x{side}xf32>"
    text = (
        f"func.func @product(%a: {tensor}, %b: {tensor}) -> {tensor} {{\n"
        f"  %c = op.matmul %a, %b : ({tensor}, {tensor}) -> {tensor}\n  return %c : {tensor}\n}}\n"
    )
    product = _compiler.compile(_compiler.Module.parse(text, "limit"), threads=threads)
    us = _compiler.Timing(product.program, 0).run(0.1)
    source = numpy.ones(1 << 25, numpy.uint8)
    target = numpy.empty_like(source)
    copied = _least(lambda: numpy.copyto(target, source), 8)
    return {"gb_per_second": 2 * source.nbytes / copied * 1e-9, "gflop_per_second": 2 * side**3 / us * 1e-3}


def _cuda_limits() -> dict[str, float]:
    import torch

    def timed(work: Callable[[], Any], count: int) -> float:
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        work()
        begin.record()
        for _ in range(count):
            work()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) * 1e-3 / count

    source = torch.ones(1 << 28, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.float16)
    return {
        "gb_per_second": 2 * source.numel() / timed(lambda: target.copy_(source), 10) * 1e-9,
        "gflop_per_second": 2 * 4096**3 / timed(lambda: a @ a, 10) * 1e-9,
    }


def _least(work: Callable[[], Any], count: int) -> float:
    taken = []
    for _ in range(count):
        begin = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begin)
    return min(taken)
