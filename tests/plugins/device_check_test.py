# SPDX-License-Identifier: Apache-2.0
"""`straightline plugin check` of devices: one that keeps its promises, and one fault at a time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from builds import built, example


def checks_of(library: Path, device: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit status, and the device's checks by name."""
    command = [sys.executable, "-m", "straightline", "plugin", "check", str(library), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)
    return done.returncode, {check["name"]: check for check in report["kernels"][device]}


def test_the_simulated_accelerator(tmp_path: Path) -> None:
    status, checks = checks_of(example("device", tmp_path), "device sim")
    assert status == 0
    assert {check["status"] for check in checks.values()} == {"passed"}, checks
    assert {"order between queues", "pinned memory", "times", "random numbers", "compiler"} <= set(checks)


@pytest.mark.parametrize(
    ("fault", "check", "words"),
    [
        ("FAULT_MEMORY", "memory", "gives memory for 2^60 bytes"),
        ("FAULT_LAST_BYTE", "copies", "bytes that went to the device and back are others"),
        ("FAULT_STATUS", "copies", "gives SL_OK and writes status 10: all is well"),
        ("FAULT_QUERY", "copies", "query is not 1 behind synchronize"),
        ("FAULT_WAIT", "order between queues", "does not hold what the order of the calls says"),
        ("FAULT_DESTROY", "a queue that ends", "returns before the queue's work has run"),
        ("FAULT_RANDOM", "random numbers", "repeat those of seed 7, offset 0"),
        ("FAULT_CRASH", "crash", "ended by SIGABRT in: finish"),
        ("", "", ""),
    ],
)
def test_faults(fault: str, check: str, words: str, tmp_path: Path) -> None:
    flags = [fault] if fault else []
    status, checks = checks_of(built(tmp_path, *flags, source="lazy_device.c", name="lazy"), "device lazy")
    if not fault:
        assert status == 0
        assert {each["status"] for each in checks.values()} == {"passed"}, checks
        return
    assert status == 1
    assert checks[check]["status"] == "failed"
    assert words in checks[check]["detail"], checks
    if fault == "FAULT_WAIT":
        assert checks["order in a queue"]["status"] == "passed"
