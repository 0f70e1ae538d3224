# SPDX-License-Identifier: Apache-2.0
"""Runs external_kernels.py in a process of its own: a backend that is registered stays, and its kernels would get ops of other tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import straightline as sl

_HERE = Path(__file__).resolve().parent
_LIBRARY = Path(sl.__file__).parent / "libstraightline_test_vendor.so"


@pytest.mark.skipif(not _LIBRARY.exists(), reason="built without tests")
def test_external_kernels() -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--tb=short",
        "-p",
        "no:cacheprovider",
        str(_HERE / "external_kernels.py"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=_HERE.parents[1])
    print(done.stdout[-6000:], done.stderr[-2000:])  # noqa: T201 - a failing test shows it
    assert done.returncode == 0  # none was collected: 5
