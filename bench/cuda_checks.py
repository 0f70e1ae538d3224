# SPDX-License-Identifier: Apache-2.0
"""All checks of answers on an NVIDIA device, beside each other, each with a log of its own: what is right there, in one go.

    python -m bench.cuda_checks --out FOLDER                       # everything; needs pytest for the tests
    python -m bench.cuda_checks --out FOLDER --only memcheck tests --seconds 200

Nothing here is a measurement: the checks disturb each other. Ends with a table (check, outcome, seconds, its last line) and
FOLDER/checks.json (the same, with machine, versions and date); fails where a check does, or has not ended in time.
"""

from __future__ import annotations

import argparse
import json
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

_ROOT = Path(__file__).resolve().parents[1]


class Check(NamedTuple):
    """A process; `workers`: of the machine's cores, about."""

    name: str
    command: Sequence[str]
    environment: dict[str, str] = {}
    workers: int = 1


def _model_names() -> list[str]:
    sys.path[:0] = [str(_ROOT / "tests"), str(_ROOT / "tests" / "run")]
    from models.cases import ALL

    return [*ALL, "cond", "while", "counter"]


def _checks(cores: int) -> list[Check]:
    python = sys.executable
    families = [python, "tests/run/every_cuda_family.py"]
    found = [
        Check("families", families),
        Check("launch", [python, "-m", "bench.cuda_launch"]),
        Check("bad_input", [python, "-m", "bench.cuda_bad_input"]),
    ]
    if shutil.which("compute-sanitizer"):
        for tool in ("memcheck", "racecheck"):
            found.append(Check(tool, ["compute-sanitizer", "--error-exitcode", "9", "--tool", tool, *families]))
    names, groups = _model_names(), max(1, min(5, cores // 3))
    for group in range(groups):
        found.append(Check(f"models_{group}", [python, "-m", "bench.cuda_models", "--once", *names[group::groups]]))
    tests = [python, "-m", "pytest", "-q", "--show-capture=no", "--tb=short", "-p", "no:cacheprovider", "tests/run"]
    workers = max(1, cores // 2)
    try:
        import xdist  # noqa: F401

        tests += ["-n", str(workers), "--dist", "worksteal"]
    except ImportError:
        workers = 1
    found.append(Check("tests", tests, {"STRAIGHTLINE_TEST_DEVICE": "cuda", "OMP_NUM_THREADS": "1"}, workers))
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of the logs")
    parser.add_argument("--only", nargs="*", help="checks whose name begins with one of these")
    parser.add_argument("--seconds", type=float, default=1500, help="until all are ended")
    parser.add_argument("--commit", default="unknown")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    cores = len(os.sched_getaffinity(0))
    checks = [c for c in _checks(cores) if not options.only or any(c.name.startswith(word) for word in options.only)]
    if not checks:
        parser.error(f"no check begins with one of {options.only}")
    deadline = time.monotonic() + options.seconds
    with ThreadPoolExecutor(len(checks)) as pool:
        records = list(pool.map(lambda check: _run(check, options.out, deadline), checks))
    import torch

    facts = {
        "device": torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none", "torch": torch.__version__,
        "python": sys.version.split()[0], "date": time.strftime("%Y-%m-%d"), "commit": options.commit,
    }  # fmt: skip
    (options.out / "checks.json").write_text(json.dumps({**facts, "records": records}, indent=1) + "\n")
    wrong = [record for record in records if record["outcome"] != "right"]
    print(f"{len(records) - len(wrong)} of {len(records)} checks are right", flush=True)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
