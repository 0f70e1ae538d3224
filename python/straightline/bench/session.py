# SPDX-License-Identifier: Apache-2.0
"""One case at one number of threads: prepare every contender, judge its answers, then visit them in turn."""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from straightline.bench import answers, machine
from straightline.bench.case import Case
from straightline.bench.contender import Contender, Unavailable
from straightline.bench.native_code import NATIVE, shared_library
from straightline.bench.worker_client import WorkerClient, WorkerGone

#: Between two contenders pools that spin after a call get time to go to sleep: looked at so often, for at most so long each.
_SETTLE_S = 0.02
_SETTLE_TRIES = 10


@dataclass(frozen=True)
class Settings:
    """How to measure.

    Attributes:
        rounds: How often each contender is visited.
        samples: Samples of a visit, of calls that take less than a sample each.
        sample_s: How long a sample takes at least.
        limit_s: A contender that takes longer to prepare, to answer or for one visit is killed.
        folder: For all temporary files.
        source: What workers are told: `{"cases": folder}` or `{"model": file}`.
        device: "cpu" or "cuda".
        jobs: How many contenders prepare at a time; with more than one their compile times are those of a busy machine, and the
            contenders of as many cases as it takes to keep so many busy prepare before the first of these cases is timed.
    """

    rounds: int
    samples: int
    sample_s: float
    limit_s: float
    folder: Path
    source: Mapping[str, str]
    device: str = "cpu"
    jobs: int = 1


@dataclass
class Record:
    """One row: a contender's way to call, on one case, with one number of threads.

    Attributes:
        status: "ok", "wrong" (and therefore not timed), "unavailable", "unsupported", "failed", "crashed", "timed out".
        reason: What happened, in words, unless it is ok.
        round_us: The least time of each visit (on a device: the median of `sync_us`), for comparisons round by round.
        sync_us: On a device: of a single call, until the device was done (median), and so are the next two.
        enqueue_us: Until the call came back.
        stream_us: Of calls one behind the other.
        kernels_us: For how long a kernel of a call was running.
        error: Largest difference from the reference, as a part of the largest value.
    """

    case: str
    group: str
    contender: str
    title: str
    kind: str
    threads: int
    status: str = "ok"
    reason: str = ""
    configuration: str = ""
    min_us: float | None = None
    median_us: float | None = None
    quartiles_us: tuple[float, float] | None = None
    samples: int = 0
    calls_per_sample: int | None = None
    round_us: list[float] = field(default_factory=list)
    compile_s: float | None = None
    compile_own_s: float | None = None
    compile_cached_s: float | None = None
    sync_us: float | None = None
    enqueue_us: float | None = None
    stream_us: float | None = None
    kernels_us: float | None = None
    launches: int | None = None
    allocations: float | None = None
    error: float | None = None
    idle_ms: float = 0.0


@dataclass
class Reference:
    """The right answer of a case, and how much work a call is."""

    expected: list[Any]
    exact: list[Any] | None
    flops: int
    size: int


@dataclass
class Measured:
    """A case at one number of threads."""

    case: Case
    threads: int
    records: list[Record]
    limit: tuple[float, str] | None
    warnings: list[str]


class ReferenceFailed(Exception):
    """Eager itself does not run the case: nothing can be compared."""


def environment(folder: Path, device: str = "cpu") -> dict[str, str]:
    """Returns every worker's environment variables: torch's caches in `folder`, and for a CPU the counter of allocations."""
    variables = {
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TOKENIZERS_PARALLELISM": "false",
    }
    if device != "cpu":
        return variables
    with contextlib.suppress(Unavailable):
        counter = folder / "native" / "allocations.so"
        if not counter.is_file():
            shared_library(NATIVE / "allocations.c", counter.parent)
        variables["LD_PRELOAD"] = " ".join(filter(None, (os.environ.get("LD_PRELOAD", ""), str(counter))))
    return variables


class Session:
    """Runs cases."""

    def __init__(self, settings: Settings, tell: Callable[[str], None]) -> None:
        """`tell` gets a line on what happens now."""
        self._settings = settings
        self._tell = tell
        self._environment = environment(settings.folder, settings.device)
        self._limits = machine.Limits(settings.folder / "native")
        self.versions: dict[str, str] = {}

    def reference(self, case: Case) -> Reference:
        """Eager's results, and those in float64.

        Raises:
            ReferenceFailed: Eager does not run it.
        """
        self._tell(f"{case.name}: reference")
        folder = self._settings.folder / case.name / "reference"
        with _worker(folder, self._environment) as client:
            try:
                prepared = self._prepare(client, "reference", case, 1, folder)
                expected = self._results(client, "expected", folder)
                exact = self._results(client, "exact", folder)
            except WorkerGone as gone:
                raise ReferenceFailed(str(gone)) from gone
        if not prepared["ok"]:
            raise ReferenceFailed(prepared["reason"])
        if isinstance(expected, str):
            raise ReferenceFailed(expected)
        facts = prepared["versions"]
        return Reference(expected, None if isinstance(exact, str) else exact, int(facts["flops"]), int(facts["bytes"]))

    def measure(
        self, case: Case, threads: int, contenders: Sequence[type[Contender]], reference: Reference
    ) -> Measured:
        """Prepares, checks and times all contenders of a case, one after the other."""
        entrants: list[_Entrant] = []
        try:
            for contender in contenders:
                entrants.append(self._entrant(contender, case, threads))
                self._enter(entrants[-1], case, threads, reference)
            return self._measured(case, threads, reference, entrants)
        finally:
            for entrant in entrants:
                entrant.close()

    def measure_together(
        self, cases: Sequence[Case], threads: int, contenders: Sequence[type[Contender]], failures: list[str]
    ) -> Iterator[Measured]:
        """The same for several cases, whose contenders prepare beside each other; then each case is timed.

        A case that eager does not run becomes a line of `failures`.
        """
        entrants = {case.name: [self._entrant(contender, case, threads) for contender in contenders] for case in cases}
        everybody = [entrant for some in entrants.values() for entrant in some]
        references: dict[str, Reference] = {}

        def refer(case: Case) -> None:
            try:
                references[case.name] = self.reference(case)
            except ReferenceFailed as error:
                failures.append(f"{case.name}: eager itself fails: {error}")

        def enter(entrant: _Entrant, case: Case) -> None:
            if case.name in references:
                self._enter(entrant, case, threads, references[case.name])

        try:
            self._at_a_time(refer, [(case,) for case in cases], everybody)
            self._at_a_time(enter, [(one, case) for case in cases for one in entrants[case.name]], everybody)
            for case in cases:
                if case.name in references:
                    yield self._measured(case, threads, references[case.name], entrants[case.name])
                for entrant in entrants[case.name]:
                    entrant.close()
        finally:
            for entrant in everybody:
                entrant.close()

    def _at_a_time(
        self, work: Callable[..., None], arguments: Sequence[tuple[Any, ...]], everybody: list[_Entrant]
    ) -> None:
        with ThreadPoolExecutor(self._settings.jobs) as pool:
            try:
                list(pool.map(lambda some: work(*some), arguments))
            except BaseException:  # ends what the threads wait for, and so them
                for entrant in everybody:
                    entrant.close()
                raise

    def _measured(self, case: Case, threads: int, reference: Reference, entrants: list[_Entrant]) -> Measured:
        """Times the contenders that prepared and answered right."""
        cpu = self._settings.device == "cpu"
        limit = self._limits.least_us(reference.flops, reference.size, threads) if cpu else None
        warnings = self._time(case, threads, [entrant for entrant in entrants if entrant.client])
        if not cpu:  # NVIDIA's profiler stays in the process and makes every launch after it slower
            for entrant in entrants:
                with entrant.losing_its_process():
                    for record in entrant.standing():
                        self._count(entrant, record)
        records = [record for entrant in entrants for record in entrant.records.values()]
        for record in records:
            _summarize(record)
        return Measured(case, threads, records, limit, warnings)

    def _prepare(self, client: WorkerClient, name: str, case: Case, threads: int, folder: Path) -> dict[str, Any]:
        return client.ask(
            self._settings.limit_s, "prepare", contender=name, case=case.name, device=self._settings.device, threads=threads,
            source=dict(self._settings.source), folder=str(folder), shared_folder=str(self._settings.folder / "native"),
        )  # fmt: skip

    def _results(self, client: WorkerClient, row: str, folder: Path) -> list[Any] | str:
        """Returns the results of a row, or the reason why it has none."""
        file = folder / f"{row}.npz"
        done = client.ask(self._settings.limit_s, "check", row=row, file=str(file))
        return answers.load(file) if done["ok"] else done["reason"]

    def _folder(self, contender: type[Contender], case: Case, threads: int) -> Path:
        return self._settings.folder / case.name / f"{contender.name}_{threads}"

    def _entrant(self, contender: type[Contender], case: Case, threads: int) -> _Entrant:
        """A contender with its process, which has done nothing yet."""
        folder = self._folder(contender, case, threads)
        records = {
            row: Record(case.name, case.group, row, title, contender.kinds.get(row, contender.kind), threads)
            for row, title in contender.rows.items()
        }
        own = {"STRAIGHTLINE_CACHE_DIR": str(folder / "straightline"), **contender.environment}
        return _Entrant(contender, records, WorkerClient(folder, {**self._environment, **own}))

    def _enter(self, entrant: _Entrant, case: Case, threads: int, reference: Reference) -> None:
        """Prepares and judges a contender; it loses its process when that comes to nothing."""
        self._tell(f"{case.name}, {threads} thread(s): {entrant.contender.name} prepares")
        self._prepare_and_judge(entrant, case, threads, reference, self._folder(entrant.contender, case, threads))
        if not entrant.standing():
            entrant.close()

    def _prepare_and_judge(
        self, entrant: _Entrant, case: Case, threads: int, reference: Reference, folder: Path
    ) -> None:
        with entrant.losing_its_process():
            assert entrant.client is not None
            prepared = self._prepare(entrant.client, entrant.contender.name, case, threads, folder)
            if not prepared["ok"]:
                entrant.fail(prepared["kind"], prepared["reason"])
                return
            self.versions.update(prepared["versions"])
            for row, facts in prepared["rows"].items():
                record = entrant.records[row]
                for seconds in ("compile_s", "compile_own_s", "compile_cached_s"):
                    setattr(record, seconds, prepared[seconds])
                record.configuration, record.launches = facts["configuration"], facts["launches"]
                right = not facts["answers"] or self._judge(entrant, record, case, reference, folder)
                if right and self._settings.device == "cpu":
                    self._count(entrant, record)

    def _judge(self, entrant: _Entrant, record: Record, case: Case, reference: Reference, folder: Path) -> bool:
        """Whether the answer is right."""
        assert entrant.client is not None
        got = self._results(entrant.client, record.contender, folder)
        if isinstance(got, str):
            record.status, record.reason = "failed", got
            return False
        wrong, record.error = answers.judge(got, reference.expected, reference.exact, case.tolerance)
        if wrong:
            record.status, record.reason = "wrong", wrong
        return not wrong

    def _count(self, entrant: _Entrant, record: Record) -> None:
        assert entrant.client is not None
        counted = entrant.client.ask(self._settings.limit_s, "count", row=record.contender)
        if counted["ok"]:
            for name in counted.keys() - {"ok"}:
                setattr(record, name, counted[name])

    def _time(self, case: Case, threads: int, entrants: list[_Entrant]) -> list[str]:
        """All rounds; gives what was odd."""
        meter = machine.OthersMeter(entrant.client.pid for entrant in entrants if entrant.client)
        for number in range(self._settings.rounds):
            self._tell(f"{case.name}, {threads} thread(s): round {number + 1} of {self._settings.rounds}")
            turn = number % max(1, len(entrants))  # nobody always follows the same one
            for entrant in entrants[turn:] + entrants[:turn]:
                if entrant.client:
                    self._visit(entrant, entrants)
        warnings = [meter.warning()]
        warnings += [
            f"{entrant.contender.name} computed for {entrant.idle_s * 1e3:.0f} ms while others were timed"
            for entrant in entrants
            if entrant.idle_s > 0.05 + 0.01 * self._settings.rounds
        ]
        return [warning for warning in warnings if warning]

    def _visit(self, entrant: _Entrant, entrants: list[_Entrant]) -> None:
        """Times the rows of one contender; the processes of the others should sleep meanwhile."""
        others = [other for other in entrants if other is not entrant and other.client]
        _settle([other.client.pid for other in others if other.client])
        before = {other.contender.name: machine.processor_seconds(other.client.pid) for other in others if other.client}
        core = machine.quietest_core() if self._settings.device == "cuda" else None  # of the one thread that calls
        with entrant.losing_its_process():
            for record in entrant.standing():
                assert entrant.client is not None
                done = entrant.client.ask(
                    self._settings.limit_s, "time", row=record.contender, samples=self._settings.samples,
                    sample_s=self._settings.sample_s, core=core,
                )  # fmt: skip
                if not done["ok"]:
                    record.status, record.reason = "failed", done["reason"]
                    continue
                for kind in ("samples_us", "sync_us", "enqueue_us"):
                    entrant.samples.setdefault((record.contender, kind), []).extend(done.get(kind, ()))
                record.calls_per_sample = done["calls"]
                record.round_us.append(
                    statistics.median(done["sync_us"]) if "sync_us" in done else min(done["samples_us"])
                )
        for other in others:
            if other.client:
                other.idle_s += machine.processor_seconds(other.client.pid) - before[other.contender.name]
        for record in entrant.standing():
            kinds = {
                kind: entrant.samples.get((record.contender, kind), [])
                for kind in ("samples_us", "sync_us", "enqueue_us")
            }
            samples = kinds["sync_us"] or kinds["samples_us"]
            record.quartiles_us = _quartiles(samples)
            record.samples = len(samples)
            record.median_us = statistics.median(samples) if samples else None
            if kinds["sync_us"]:
                record.sync_us = record.median_us
                record.enqueue_us = statistics.median(kinds["enqueue_us"])
                record.stream_us = statistics.median(kinds["samples_us"])


@dataclass
class _Entrant:
    """A contender with its process and its rows."""

    contender: type[Contender]
    records: dict[str, Record]
    client: WorkerClient | None
    samples: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    idle_s: float = 0.0

    def standing(self) -> list[Record]:
        """Rows that may be timed."""
        return [record for record in self.records.values() if record.status == "ok"] if self.client else []

    def fail(self, status: str, reason: str) -> None:
        """Writes it into every row that has not failed before, and ends the process."""
        for record in self.records.values():
            if record.status == "ok":
                record.status, record.reason = status, reason
        self.close()

    def close(self) -> None:
        """Ends the process."""
        if self.client:
            self.client.close()
            self.client = None

    @contextlib.contextmanager
    def losing_its_process(self) -> Iterator[None]:
        """Around requests: when a process ends, its rows say so."""
        try:
            yield
        except WorkerGone as gone:
            self.client = None
            self.fail(gone.kind, str(gone))


def _settle(pids: Sequence[int]) -> None:
    """Waits until these processes have stopped computing; the meter reports those that never do."""
    for _ in range(_SETTLE_TRIES):
        before = sum(map(machine.processor_seconds, pids))
        time.sleep(_SETTLE_S)
        if sum(map(machine.processor_seconds, pids)) - before < _SETTLE_S / 4:
            return


@contextlib.contextmanager
def _worker(folder: Path, variables: Mapping[str, str]) -> Iterator[WorkerClient]:
    client = WorkerClient(folder, variables)
    try:
        yield client
    finally:
        client.close()


def _summarize(record: Record) -> None:
    record.min_us = min(record.round_us) if record.round_us and record.status == "ok" else None
    if record.min_us is None:
        record.median_us = record.quartiles_us = record.sync_us = record.enqueue_us = record.stream_us = None


def _quartiles(values: list[float]) -> tuple[float, float] | None:
    ordered = sorted(values)
    return (ordered[len(ordered) // 4], ordered[(3 * len(ordered)) // 4]) if ordered else None
