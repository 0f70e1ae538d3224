# SPDX-License-Identifier: Apache-2.0
"""Small mistakes in valid MLIR never end the process: a few hundred of them, in a process of its own."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

_COUNT = 400


def test_mutations(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    script = str(Path(__file__).with_name("mutations.py"))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script, str(seed), str(_COUNT)],
        env={**os.environ, "STRAIGHTLINE_DUMP": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    last = tmp_path / "case.mlir"
    assert done.returncode == 0, (
        f"status {done.returncode} at seed {seed}\n{done.stderr[-3000:]}\n{last.read_text() if last.exists() else ''}"
    )
    assert "outcomes" in done.stdout
    print(done.stdout)
