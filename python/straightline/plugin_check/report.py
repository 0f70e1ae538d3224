# SPDX-License-Identifier: Apache-2.0
"""Tries a library in child processes, and what they found."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: Seconds without a line from the child until it is killed.
PATIENCE = 120.0


@dataclass
class Check:
    """One check of a kernel."""

    name: str
    #: "passed", "failed" or "not checked"
    status: str
    detail: str


@dataclass
class Report:
    """What was found."""

    file: str
    seed: int
    #: Of the library as a whole.
    library: list[Check] = field(default_factory=list)
    kernels: dict[str, list[Check]] = field(default_factory=dict)

    @property
    def failed(self) -> int:
        """How many checks failed."""
        every = [*self.library, *(check for checks in self.kernels.values() for check in checks)]
        return sum(check.status == "failed" for check in every)

    def as_json(self) -> dict[str, Any]:
        """For --json."""
        return {
            "file": self.file,
            "seed": self.seed,
            "failed": self.failed,
            "library": [vars(check) for check in self.library],
            "kernels": {name: [vars(check) for check in checks] for name, checks in self.kernels.items()},
        }

    def text(self) -> str:
        """For people."""
        lines = [f"{self.file} (seed {self.seed})"]
        lines += [f"  {check.name}: {check.status}: {check.detail}" for check in self.library]
        for name, checks in self.kernels.items():
            passed = sum(check.status == "passed" for check in checks)
            failed = sum(check.status == "failed" for check in checks)
            lines.append(f"{name}: {passed} passed, {failed} failed")
            lines += [f"  {check.name}: {check.status}: {check.detail}" for check in checks]
        lines.append(f"{self.failed} checks failed" if self.failed else "no check failed")
        return "\n".join(lines)


def check(path: str, seed: int) -> Report:
    """Tries all kernels of a library. A crash ends a child, not this process.

    Args:
        path: The shared library.
        seed: Of the inputs; from 0 on.
    """
    report = Report(path, seed)
    while True:
        doing, problem = _one_child(report, path, seed)
        kernel = doing.get("kernel")
        if not problem:
            break
        found = Check("crash", "failed", f"{problem} in: {doing.get('doing', 'nothing')}{_of(doing)}")
        if kernel is None:
            report.library.append(found)
            return report
        report.kernels.setdefault(kernel, []).append(found)
        report.library.clear()  # the next child says it again
    if not any(check.status == "failed" for check in report.library):
        report.library.append(_unloaded(path))
    return report


def _of(doing: Mapping[str, Any]) -> str:
    return f", for {doing['problem']}" if "problem" in doing else ""


def _command(path: str, seed: int, skipped: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "straightline.plugin_check.child", path, str(seed), *skipped]


def _environment() -> dict[str, str]:
    """The child's: of the plug-ins of this environment it opens none but the one that is tried."""
    paths = [entry for entry in sys.path if entry]
    own = {name: value for name, value in os.environ.items() if name != "STRAIGHTLINE_BACKEND_PATH"}
    return {**own, "PYTHONPATH": os.pathsep.join(paths)}


def _one_child(report: Report, path: str, seed: int) -> tuple[dict[str, Any], str]:
    """Takes what one child says; gives what it was doing last, and why it ended too early, "" if it did not."""
    doing: dict[str, Any] = {}
    child = subprocess.Popen(
        _command(path, seed, list(report.kernels)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=_environment(),
    )
    errors: list[str] = []
    assert child.stdout is not None and child.stderr is not None
    reader = threading.Thread(target=lambda: errors.append(child.stderr.read()), daemon=True)  # type: ignore[union-attr]
    reader.start()
    late = False
    for line in _lines(child):
        if line is None:
            late = True
            child.kill()
            break
        try:
            what = json.loads(line)
        except ValueError:
            continue  # of the library itself
        if "doing" in what:
            doing = what
        elif "library" in what:
            report.library.append(Check("description", what["status"], what["detail"]))
        elif "check" in what:
            checks = report.kernels.setdefault(what["kernel"], [])
            checks.append(Check(what["check"], what["status"], what["detail"]))
        elif "finished" in what:
            doing = {"doing": "the end of the process"}
    status = child.wait()
    reader.join(5)
    return doing, _ending(status, "".join(errors), late)


def _lines(child: subprocess.Popen[str]) -> Iterator[str | None]:
    """Its lines; None where none came for too long."""
    found: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        for line in child.stdout or ():
            found.put(line)
        found.put("")

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            line = found.get(timeout=PATIENCE)
        except queue.Empty:
            yield None
            return
        if line == "":
            return
        yield line


def _ending(status: int, errors: str, late: bool) -> str:
    if late:
        return f"it does not end: no sign of life for {PATIENCE:.0f} s"
    if status == 0:
        return ""
    said = errors.strip().splitlines()
    last = f" ({said[-1]})" if said else ""
    if status < 0:
        name = signal.Signals(-status).name
        return f"the process was ended by {name}{last}"
    return f"the process ended with status {status}{last}"


def _unloaded(path: str) -> Check:
    """Opens and closes it in a process of its own."""
    done = subprocess.run(
        _command(path, -1, []), capture_output=True, text=True, check=False, env=_environment(), timeout=PATIENCE
    )
    ended = _ending(done.returncode, done.stderr, False)
    return Check("unload", "failed" if ended else "passed", ended or "opened and closed three times")
