# SPDX-License-Identifier: Apache-2.0
"""examples/own_kernels runs."""

from __future__ import annotations

import subprocess
import sys

from libraries import HERE, INCLUDE


def test_the_example_runs() -> None:
    script = HERE.parents[1] / "examples/own_kernels/own_kernels.py"
    done = subprocess.run([sys.executable, str(script), str(INCLUDE)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "one op updated 8 tensors in place"
