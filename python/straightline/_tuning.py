# SPDX-License-Identifier: Apache-2.0
"""`tune=True`: measures kernels, and their variants, for each contraction, and keeps what was fastest in a readable file.

What there is to measure comes from the compiler (`list_candidates`): for each distinct contraction of fixed sizes a small
module of its own and the candidates, of which the first is the estimates' choice. All candidates are compiled first, several at
once, and then timed with nothing beside them; the programs of one contraction are visited in turn, so that a machine that slows
down slows all of them down. The file says nothing that is executed: its choice counts only where it is one of the candidates that
the compiler lists now.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import tempfile
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from straightline import _compiler, _devices, _targets
from straightline._progress import CompileProgress
from straightline.errors import CacheWarning, InternalError, UnsupportedError

_FORMAT = 1
_FILE = "tuning.json"
_ABOUT = "what sl.compile(..., tune=True) measured; delete it, or an entry, to measure again"
#: How often each candidate is measured, and how long a measurement takes.
_ROUNDS = 7
_VISIT_SECONDS = 0.004
#: Limit of the parameters, original and prepared, of all candidates that are in memory at once.
_MOST_BYTES = 2**29
#: The estimates' choice is replaced by a candidate that takes at most this share of its time: less is noise.
_CLEARLY_FASTER = 0.97


@dataclass(frozen=True)
class Measured:
    """The choice for one contraction."""

    chosen: str
    #: Least microseconds of a call, by candidate; the first one is the estimates' choice. Infinity: a library cannot do it here.
    times: Mapping[str, float]

    def __str__(self) -> str:
        others = ", ".join(f"{name} {us:.2f} us" for name, us in self.times.items() if name != self.chosen)
        return f"{self.chosen} {self.times[self.chosen]:.2f} us" + (f" ({others})" if others else "")


@dataclass
class Tuning:
    """Choices of one `compile`, and the file that keeps them.

    Attributes:
        machine: What the times are of, for the file: a processor, or a device with its libraries.
        by_stream: Whether a device's kernels are launched one by one, not as a graph.
        by_key: What was measured or found, by the key that `explain` gives as `choice`.
        timed: How many candidates this process has timed for it.
    """

    progress: CompileProgress
    check_interrupts: Callable[[], None]
    cache: bool
    machine: str
    by_stream: bool = False
    by_key: dict[str, Measured] = field(default_factory=dict)
    timed: int = 0

    def options(self, module: _compiler.Module, options: dict[str, Any]) -> dict[str, Any]:
        """Options of a compilation of `module` with what is chosen; measures what is not known yet."""
        listing = _listing(module, options)
        threads = listing["threads"]
        machine = f"{self.machine}, compiled for {listing['target']}{', launched by stream' if self.by_stream else ''}"
        known = _read(self._path(), machine, self.by_key)
        wanted = [row for row in listing["candidates"] if len(row["candidates"]) > 1]
        found = {row["key"]: known[row["key"]] for row in wanted if _fits(known.get(row["key"]), row)}
        missing = [row for row in wanted if row["key"] not in found]
        fresh: dict[str, Measured] = {}
        plain = {name: value for name, value in options.items() if name not in ("team", "team_from_us")}
        # Copies between the host and a plug-in's device are the model's, not the contraction's.
        compiled = self._compiled(missing, {**plain, "threads": threads, "host_edges": 0})
        for number, row in enumerate(missing):
            self.progress.measuring = (f"measuring {row['key'].split('(')[0]}", number, len(missing))
            measured = self._measured(row, compiled[number])
            compiled[number] = []
            if measured is not None:
                fresh[row["key"]] = measured
            self.check_interrupts()
        self.progress.measuring = None
        if fresh:
            _write(self._path(), machine, fresh)
        chosen = {**found, **fresh}
        self.by_key.update(chosen)
        choices = {key: measured.chosen for key, measured in chosen.items()}
        return {**plain, "threads": threads, "choices": choices}

    def explain(self, statements: list[dict[str, Any]]) -> None:
        """Adds the measurements to the statements."""
        for row in statements:
            measured = self.by_key.get(row.get("choice", ""))
            if measured is not None and row["phase"] == "run":
                row["measured_us"] = dict(measured.times)
                row["why"] = row["why"].replace(f"measured: {measured.chosen};", f"measured: {measured};", 1)

    def _path(self) -> str:
        folder = _compiler.cache_info()["directory"] if self.cache else ""
        return os.path.join(folder, _FILE) if folder else ""

    def _compiled(self, rows: list[dict[str, Any]], options: dict[str, Any]) -> list[list[_compiler.Compilation]]:
        """A program for each candidate of each row, by as many threads as there are processors: none is timed meanwhile."""
        with ThreadPoolExecutor(len(os.sched_getaffinity(0)), "straightline-tuning") as pool:
            try:
                pending = [[pool.submit(_compile, row, name, options) for name in row["candidates"]] for row in rows]
                return [
                    [self._waited(one, rows[i], i, len(rows)) for one in of_row] for i, of_row in enumerate(pending)
                ]
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def _waited(
        self, pending: Future[_compiler.Compilation], row: Mapping[str, Any], number: int, count: int
    ) -> _compiler.Compilation:
        self.progress.measuring = (f"compiling candidates for {row['key'].split('(')[0]}", number, count)
        compilation = pending.result()
        self.check_interrupts()
        return compilation

    def _measured(self, row: Mapping[str, Any], compiled: list[_compiler.Compilation]) -> Measured | None:
        """None: compiled by itself it is another contraction than in its model (more was folded), so the estimates stay."""
        most = 0
        for candidate, compilation in zip(row["candidates"], compiled, strict=True):
            facts = json.loads(compilation.explain_json)
            mine = [line for line in facts["statements"] if line.get("choice") == row["key"] and line["phase"] == "run"]
            if not mine:
                return None
            if not mine[0]["why"].startswith(f"measured: {candidate};"):
                raise InternalError(
                    f"{candidate} was listed as a candidate for {row['key']} but is none: {mine[0]['why']}"
                )
            most = max(most, facts["parameter_bytes"] + facts["prepared_bytes"])
        programs = [compilation.program for compilation in compiled]
        least = _least_times(programs, most, self.by_stream, self.check_interrupts)
        least = [us + more for us, more in zip(least, row["at_edge_us"], strict=True)]
        self.timed += len(compiled)
        best = min(range(len(least)), key=least.__getitem__)
        best = best if least[best] <= _CLEARLY_FASTER * least[0] else 0
        return Measured(row["candidates"][best], dict(zip(row["candidates"], least, strict=True)))


def _compile(row: Mapping[str, Any], candidate: str, options: Mapping[str, Any]) -> _compiler.Compilation:
    """Compiles a candidate, in a module of its own, because one thread at a time may compile a module."""
    module = _compiler.Module.parse(row["module"], "tuning")
    return _compiler.compile(module, **{**options, "profile": True, "choices": {row["key"]: candidate}})


def _least_times(
    programs: list[Any], bytes_of_one: int, by_stream: bool, check_interrupts: Callable[[], None]
) -> list[float]:
    """Microseconds of each, infinity for what cannot be done here; on a device as a graph, or launched by stream.

    All stand ready and are visited in turn, where memory allows; else each comes twice by itself.
    """
    seed = secrets.randbits(63)
    least = [float("inf")] * len(programs)
    together = bytes_of_one * len(programs) <= _MOST_BYTES
    able = list(range(len(programs)))
    ready: dict[int, Any] = {}
    for _ in range(_ROUNDS if together else 2):
        for i in tuple(able):
            try:
                timing = ready.get(i) or _compiler.Timing(programs[i], seed, by_stream)
                for _ in range(1 if together else _ROUNDS // 2):
                    least[i] = min(least[i], timing.run(_VISIT_SECONDS))
            except UnsupportedError:  # a library's plan says so, nothing before that
                able.remove(i)
                least[i] = float("inf")
                continue
            if together:
                ready[i] = timing
            check_interrupts()  # one that Python dropped must not wait for the last round
    return least


def _listing(module: _compiler.Module, options: dict[str, Any]) -> dict[str, Any]:
    return json.loads(_compiler.compile(module, **options, emit_only=True, list_candidates=True).explain_json)


def _fits(measured: Measured | None, row: Mapping[str, Any]) -> bool:
    """Whether it was measured among the candidates that there are now."""
    return measured is not None and list(measured.times) == row["candidates"]


def machine_of(place: str, number: int) -> str:
    """What the times of programs for a place depend on, for `Tuning.machine`."""
    if place == "cpu":
        return processor()
    return _devices.machine(place, number) if _devices.is_plugin(place) else _targets.machine(number)


def processor() -> str:
    """The name of this machine's CPU, for `Tuning.machine`."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return "an unknown processor"


# --- the file


def _read(path: str, machine: str, known: Mapping[str, Measured]) -> dict[str, Measured]:
    """The file's choices for this machine; those of this compilation replace them."""
    return {**{r["problem"]: _measured_of(r) for r in _records(path) if r["machine"] == machine}, **known}


def _measured_of(record: Mapping[str, Any]) -> Measured:
    return Measured(record["chosen"], record["candidates"])


def _records(path: str) -> list[dict[str, Any]]:
    """The file's records; none, with a warning, where it is damaged or another version's."""
    if not path:
        return []
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        _warn(f"the file of measured choices {path} cannot be read and is made anew: {error}")
        return []
    why = _why_damaged(content)
    if why:
        _warn(f"the file of measured choices {path} is {why}; it is made anew")
        return []
    return content["records"]


def _why_damaged(content: Any) -> str:
    if not isinstance(content, dict) or not isinstance(content.get("records"), list):
        return "damaged: it has no list of records"
    if content.get("format") != _FORMAT or content.get("version") != _compiler.version:
        theirs, ours = (content.get("format"), content.get("version")), (_FORMAT, _compiler.version)
        return f"of another version: {theirs} but this is {ours}"
    for number, record in enumerate(content["records"], 1):
        if not _is_record(record):
            return f"damaged: record {number} is not what is written there"
    return ""


def _is_record(record: Any) -> bool:
    if not isinstance(record, dict) or not all(
        isinstance(record.get(name), str) for name in ("machine", "problem", "chosen")
    ):
        return False
    times = record.get("candidates")
    return (
        isinstance(times, dict)
        and all(isinstance(us, (int, float)) and not isinstance(us, bool) and us > 0 for us in times.values())
        and record["chosen"] in times
    )


def _write(path: str, machine: str, fresh: Mapping[str, Measured]) -> None:
    """Puts records into the file, whole at once: readers see the old file or the new one."""
    if not path:
        return
    kept = [r for r in _quiet_records(path) if r["machine"] != machine or r["problem"] not in fresh]
    for key, measured in fresh.items():
        times = {name: round(us, 4) for name, us in measured.times.items()}  # in microseconds
        kept.append({"machine": machine, "problem": key, "chosen": measured.chosen, "candidates": times})
    content = {"about": _ABOUT, "format": _FORMAT, "version": _compiler.version, "records": kept}
    temporary = ""
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=os.path.dirname(path), prefix=_FILE, delete=False, encoding="utf-8"
        ) as file:
            temporary = file.name
            json.dump(content, file, indent=1)
            file.write("\n")
        os.replace(temporary, path)
    except OSError as error:
        _warn(f"measured choices cannot be kept in {path}: {error}")
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _quiet_records(path: str) -> list[dict[str, Any]]:
    """Reads the records again, because another process may have added some. Problems of the file were reported before."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CacheWarning)
        return _records(path)


def _warn(text: str) -> None:
    warnings.warn(text, CacheWarning, stacklevel=6)
