# SPDX-License-Identifier: Apache-2.0
"""Each family of CUDA kernels on the device; compute-sanitizer runs the same (families.py)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_each_family() -> None:
    """In a process of its own: a fault ends it, not this one."""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "tests.device.families"], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
