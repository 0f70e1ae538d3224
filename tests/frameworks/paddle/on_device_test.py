# SPDX-License-Identifier: Apache-2.0
"""`python -m bench.paddle_on_device`: what is made here runs where there is no Paddle; another answer is wrong."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import numpy as np

_ROOT = pathlib.Path(__file__).resolve().parents[3]
_CASES = ("single_add", "lstm_20")


def _ran(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.paddle_on_device", *arguments, "--only", *_CASES]
    return subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)


def test_programs_of_both_frameworks_are_made_compared_and_timed(tmp_path: pathlib.Path) -> None:
    folder = str(tmp_path)
    assert _ran("make", folder, "--target", "cpu").returncode == 0
    found = _ran("run", folder, "--rounds", "1")
    assert found.returncode == 0, found.stdout + found.stderr
    assert [line.split(" | ")[0] for line in found.stdout.splitlines() if line.startswith("| ")][1:] == [
        f"| {name}" for name in _CASES
    ]
    expected = dict(np.load(tmp_path / "lstm_20.npz"))
    np.savez(tmp_path / "lstm_20.npz", paddle=expected["paddle"] + 0.1, torch=expected["torch"])
    found = _ran("run", folder, "--rounds", "1")
    assert found.returncode == 1
    assert "| lstm_20 | WRONG, paddle: " in found.stdout
