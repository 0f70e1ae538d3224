# SPDX-License-Identifier: Apache-2.0
"""All checks of answers on an NVIDIA device, most beside each other, each with a log of its own: what is right there, in one go.

    python -m tests.device --out FOLDER                       # everything; needs pytest
    python -m tests.device --out FOLDER --only memcheck run --seconds 200

Nothing here is a measurement: the checks disturb each other. Ends with a table (check, outcome, seconds, its last line) and
FOLDER/checks.json, or --json (the same, with machine, versions and date); fails where a check does, or has not ended in time.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import torch

from bench import cuda_results

_ROOT = Path(__file__).resolve().parents[2]
#: Files of this folder, and those of many tests, which take several processes each where pytest-xdist is installed.
_FILES = (
    "families", "launch", "bad_input", "two_devices", "tune", "artifacts", "own_kernels", "alone", "tvm_library", "triton", "flaggems",
)  # fmt: skip
_MANY = ("driver_calls", "models")
#: These look at how much of the device's memory is free, or at how long something takes: before the others.
_ALONE = ("launch", "bad_input")
#: Files of tests/run with programs of many kernels, which run once more launched one by one.
_BY_STREAM = (
    "attention",
    "found_by_graphs",
    "models",
    "products",
    "real_models",
    "recurrent",
    "several_examples",
    "writes",
)


class Check(NamedTuple):
    """A process."""

    name: str
    command: Sequence[str]
    environment: dict[str, str] = {}
    alone: bool = False


def _checks(cores: int) -> list[Check]:
    python = sys.executable
    families = [python, "-m", "tests.device.families"]
    tests = [python, "-m", "pytest", "--disable-warnings", "--show-capture=no", "--tb=short", "-p", "no:cacheprovider"]
    many = [
        *tests,
        *(["-n", str(max(1, cores // 2)), "--dist", "worksteal"] if importlib.util.find_spec("xdist") else []),
    ]
    found = [Check(name, [*tests, f"tests/device/{name}_test.py"], alone=name in _ALONE) for name in _FILES]
    found += [Check(name, [*many, f"tests/device/{name}_test.py"]) for name in _MANY]
    if shutil.which("compute-sanitizer"):
        for tool in ("memcheck", "racecheck"):
            found.append(Check(tool, ["compute-sanitizer", "--error-exitcode", "9", "--tool", tool, *families]))
    on_device = {"STRAIGHTLINE_TEST_DEVICE": "cuda", "OMP_NUM_THREADS": "1"}
    found.append(Check("run", [*many, "tests/run"], on_device))
    found.append(Check("torch_compile", [*many, "tests/torch_compile"], on_device))
    by_stream = [f"tests/run/{name}_test.py" for name in _BY_STREAM]
    found.append(Check("by_stream", [*many, *by_stream], {**on_device, "STRAIGHTLINE_TEST_LAUNCH": "stream"}))
    return found


def _run(check: Check, folder: Path, deadline: float) -> dict[str, Any]:
    log = folder / f"{check.name}.log"
    begin = time.monotonic()
    outcome = "not begun"
    if begin < deadline:
        with log.open("w") as stream:
            process = subprocess.Popen(
                check.command, cwd=_ROOT, env={**os.environ, "PYTHONUNBUFFERED": "1", **check.environment}, stdout=stream,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            try:
                status = process.wait(max(1.0, deadline - begin))
                outcome = "right" if status == 0 else f"failed with {status}"
            except subprocess.TimeoutExpired:
                outcome = "out of time"
                os.killpg(process.pid, signal.SIGINT)  # pytest says then what it has seen
                try:
                    process.wait(15)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
    text = log.read_text(errors="replace").strip() if log.exists() else ""
    last = re.sub(r"\s+", " ", text.splitlines()[-1])[:200] if text else ""
    record = {"check": check.name, "outcome": outcome, "seconds": round(time.monotonic() - begin), "last": last}
    print(f"{record['check']:12} {record['outcome']:16} {record['seconds']:5} s  {last}", flush=True)
    return record


def main() -> int:
    """The command."""
    parser = cuda_results.parser(__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of the logs")
    parser.add_argument("--only", nargs="*", help="checks whose name begins with one of these")
    parser.add_argument("--seconds", type=float, default=1500, help="until all are ended")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("there is no CUDA device")
    options.out.mkdir(parents=True, exist_ok=True)
    cores = len(os.sched_getaffinity(0))
    checks = [c for c in _checks(cores) if not options.only or any(c.name.startswith(word) for word in options.only)]
    if not checks:
        parser.error(f"no check begins with one of {options.only}")
    deadline = time.monotonic() + options.seconds
    records = [_run(check, options.out, deadline) for check in checks if check.alone]
    others = [check for check in checks if not check.alone]
    with ThreadPoolExecutor(max(1, len(others))) as pool:
        records += pool.map(lambda check: _run(check, options.out, deadline), others)
    options.json = options.json or options.out / "checks.json"
    cuda_results.write(options, records)
    wrong = [record for record in records if record["outcome"] != "right"]
    print(f"{len(records) - len(wrong)} of {len(records)} checks are right", flush=True)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
