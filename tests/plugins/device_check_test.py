# SPDX-License-Identifier: Apache-2.0
"""`straightline plugin check` of devices: one that keeps its promises, and one fault at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from builds import built, example


def report_of(library: Path, **environment: str) -> tuple[int, dict[str, dict[str, dict[str, Any]]]]:
    """The exit status, and the checks by device or kernel and by name."""
    command = [sys.executable, "-m", "straightline", "plugin", "check", str(library), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    report = json.loads(done.stdout)
    print("seed", report["seed"])  # noqa: T201 - a failing test shows it
    return done.returncode, {
        name: {check["name"]: check for check in checks} for name, checks in report["kernels"].items()
    }


def checks_of(library: Path, device: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit status, and the device's checks by name."""
    status, report = report_of(library)
    return status, report[device]


KERNEL_CHECKS = [
    "accepts", "results", "inputs unchanged, same bits twice", "order with copies and events", "runs on several queues",
    "plan and destroy",
]  # fmt: skip


def test_the_simulated_accelerator(tmp_path: Path) -> None:
    """Its workers are late by random times."""
    status, report = report_of(example("device", tmp_path), SIM_DEVICE_DELAY_US="300")
    assert {check["status"] for checks in report.values() for check in checks.values()} == {"passed"}, report
    assert status == 0
    device = set(report["device sim"])
    assert {
        "order between queues",
        "order between devices",
        "pinned memory",
        "times",
        "random numbers",
        "compiler",
    } <= device
    for kernel in ("sim.linear", "sim.relu", "sim.softmax"):
        assert list(report[kernel]) == KERNEL_CHECKS


@pytest.mark.parametrize(
    ("fault", "check", "words"),
    [
        ("", "", ""),
        ("FAULT_KERNEL_SILENT", "accepts", "accepts refuses without a reason"),
        ("FAULT_KERNEL_WRONG", "results", "result 0 at ("),
        ("FAULT_KERNEL_BESIDE", "results", "run writes beside its buffers, for relu("),
        ("FAULT_KERNEL_STATUS", "results", "(the kernel is tired)"),
        ("FAULT_KERNEL_PLAN", "results", "plan fails with status 7 (the device makes no plans) for what accepts takes"),
        ("FAULT_KERNEL_CRASH", "crash", "ended by SIGSEGV in: results"),
        ("FAULT_KERNEL_CHANGES_INPUT", "inputs unchanged, same bits twice", "input 0 is changed by a run"),
        ("FAULT_KERNEL_OTHER_BITS", "inputs unchanged, same bits twice", "give different bits, for relu("),
        ("FAULT_KERNEL_EARLY", "order with copies and events", "a run is not where the order of the calls puts it"),
        (
            "FAULT_KERNEL_SHARED",
            "runs on several queues",
            "gives other bits than a run alone, with one handle on 4 queues",
        ),
        ("FAULT_KERNEL_LEAK", "plan and destroy", "1000 plans, each destroyed, leave "),
    ],
)
def test_faults_of_a_kernel(fault: str, check: str, words: str, tmp_path: Path) -> None:
    library = built(tmp_path, *([fault] if fault else []), source="lazy_device.c", name="lazy")
    status, report = report_of(library)
    checks = report["lazy.relu"]
    if not fault:
        assert status == 0 and list(checks) == KERNEL_CHECKS
        assert {each["status"] for each in checks.values()} == {"passed"}, checks
        return
    assert status == 1
    assert checks[check]["status"] == "failed" and words in checks[check]["detail"], checks
    before = list(checks)[: list(checks).index(check)]
    assert all(checks[name]["status"] == "passed" for name in before), checks


@pytest.mark.parametrize(
    ("fault", "check", "words"),
    [
        ("FAULT_MEMORY", "memory", "gives memory for 2^60 bytes"),
        ("FAULT_LAST_BYTE", "copies", "bytes that went to the device and back are others"),
        ("FAULT_STATUS", "copies", "gives SL_OK and writes status 10: all is well"),
        ("FAULT_QUERY", "copies", "query is not 1 behind synchronize"),
        ("FAULT_WAIT", "order between queues", "does not hold what the order of the calls says"),
        ("FAULT_WAIT_DEVICES", "order between devices", "device 1 does not wait for an event of device 0"),
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
