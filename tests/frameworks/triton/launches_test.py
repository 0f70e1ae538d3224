# SPDX-License-Identifier: Apache-2.0
"""What a launch of a Triton kernel asks of the driver, without a device: by emitted text, the interpreter and emitted Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_parameters_grid_and_alignment() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.frameworks.triton.on_fake_device"], cwd=Path(__file__).resolve().parents[3],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == "right"
