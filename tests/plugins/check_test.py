# SPDX-License-Identifier: Apache-2.0
"""`straightline plugin check`: finds each fault, and none where there is none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from builds import PACKAGE, built

_VENDOR = PACKAGE / "libstraightline_test_vendor.so"


def _check(library: Path, *arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "straightline", "plugin", "check", str(library), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout[-3000:], done.stderr[-3000:])  # noqa: T201 - a failing test shows it
    return done.returncode, done.stdout


def _report(library: Path) -> tuple[int, dict[str, Any]]:
    status, text = _check(library, "--json")
    return status, json.loads(text)


def test_a_plug_in_without_a_fault(tmp_path: Path) -> None:
    status, report = _report(built(tmp_path))
    assert status == 0 and report["failed"] == 0
    assert [check["name"] for check in report["library"]] == ["description", "unload"]
    checks = {check["name"]: check for check in report["kernels"]["probe.relu"]}
    assert {check["status"] for check in checks.values()} == {"passed"}
    assert list(checks) == [
        "accepts", "results", "inputs unchanged, same bits twice", "concurrent runs", "plan and destroy",
    ]  # fmt: skip
    assert "8 threads, a handle each" in checks["concurrent runs"]["detail"]


@pytest.mark.skipif(not _VENDOR.exists(), reason="built without tests")
def test_a_library_of_a_vendor() -> None:
    status, report = _report(_VENDOR)
    checked = [
        name
        for name, checks in report["kernels"].items()
        if any(check["name"] == "results" and check["status"] == "passed" for check in checks)
    ]
    plain = (
        "relu",
        "tanh",
        "silu",
        "gelu",
        "add",
        "maximum",
        "softmax",
        "layer_norm",
        "cumsum",
        "topk",
        "gather",
        "log",
        "cat",
        "embedding",
    )
    assert set(checked) >= {f"vendor.{name}" for name in plain}
    # Those that the library describes wrongly on purpose, or whose function is another op's.
    wrong = {name for name, checks in report["kernels"].items() if any(check["status"] == "failed" for check in checks)}
    assert wrong <= {"vendor.floor", "vendor.round", "vendor.ceil", "vendor.rms_norm", "vendor.sign"}
    assert status == (1 if wrong else 0)


_FAULTS = {
    "FAULT_COST_NAN": ("accepts", "cost is nan, expected a number from 0 on"),
    "FAULT_COST_NEGATIVE": ("accepts", "cost is -1, expected a number from 0 on"),
    "FAULT_WORKSPACE_NEGATIVE": ("accepts", "workspace is -8, expected a number from 0 on"),
    "FAULT_SILENT": ("accepts", "accepts refuses without a reason"),
    "FAULT_ODD_ANSWER": ("accepts", "accepts gave 7, expected 1, 0 or -1"),
    "FAULT_CHANGES_ITS_MIND": ("accepts", "and then (0, 'asked 2 times, it takes odd ones'"),
    "FAULT_CRASH": ("crash", "the process was ended by SIGSEGV in: accepts, for relu("),
    "FAULT_WRONG": ("results", "result 0 at ("),
    "FAULT_READS_BEHIND": ("crash", "SIGSEGV in: plan and run between pages without access, for relu("),
    "FAULT_READS_BEFORE": ("crash", "buffers at the start of their pages"),
    "FAULT_WRITES_BEHIND": ("crash", "buffers at the end of their pages"),
    "FAULT_CHANGES_INPUT": ("inputs unchanged, same bits twice", "input 0 is changed by a run"),
    "FAULT_OTHER_BITS": ("inputs unchanged, same bits twice", "two runs on the same inputs give different bits"),
    "FAULT_SHARED": ("concurrent runs", "with one handle, for relu("),
    "FAULT_PLAN_FAILS": ("results", "plan fails with status 7 (the probe makes no plans) for what accepts takes"),
    "FAULT_LEAK": ("plan and destroy", "1000 plans, each destroyed, leave "),
}


@pytest.mark.parametrize("fault", _FAULTS)
def test_a_kernel_with_a_fault(fault: str, tmp_path: Path) -> None:
    name, said = _FAULTS[fault]
    status, report = _report(built(tmp_path, fault))
    failed = [check for check in report["kernels"]["probe.relu"] if check["status"] == "failed"]
    assert status == 1 and report["failed"] >= 1
    assert any(check["name"] == name and said in check["detail"] for check in failed), failed


@pytest.mark.parametrize(
    ("fault", "said"), [("FAULT_UNLOAD", "SIGABRT"), ("FAULT_NO_RUN", "has no run"), ("FAULT_NO_ENTRY", "no symbol")]
)
def test_a_library_with_a_fault(fault: str, said: str, tmp_path: Path) -> None:
    status, report = _report(built(tmp_path, fault))
    assert status == 1
    assert any(check["status"] == "failed" and said in check["detail"] for check in report["library"]), report[
        "library"
    ]


def test_a_kernel_that_throws(tmp_path: Path) -> None:
    status, report = _report(built(tmp_path, source="throws.cpp"))
    assert status == 1
    assert any("accepts throws a C++ exception" in check["detail"] for check in report["kernels"]["throws.tanh"])


def test_the_text_and_wrong_arguments(tmp_path: Path) -> None:
    library = built(tmp_path, "FAULT_WRONG")
    status, text = _check(library, "--seed", "7")
    assert status == 1 and f"{library} (seed 7)" in text and "1 checks failed" in text
    assert "probe.relu: 4 passed, 1 failed" in text
    assert _check(library, "--seed", "-1")[0] == 1
    assert _check(tmp_path / "missing.so")[0] == 1
