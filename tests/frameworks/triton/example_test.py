# SPDX-License-Identifier: Apache-2.0
"""examples/own_kernels/triton_kernels.py compiles without a device, and its file is loaded where there is no Triton."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[3]
_LOAD = """
import sys
sys.modules["triton"] = None  # an import of it is an error
import straightline as sl
print(sl.load(sys.argv[1]).explain()["statements"][0]["op"])
"""


def test_the_example_compiles(tmp_path: Path) -> None:
    script = _ROOT / "examples" / "own_kernels" / "triton_kernels.py"
    done = subprocess.run([sys.executable, script, tmp_path / "block.sl"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert (
        lines[0].startswith("triton_example.rms_norm: own: a kernel of the user's; Triton 3.")
        and "BLOCK=512" in lines[0]
    )
    assert lines[-1] in ("no device: compiled for sm_90", "right on a device")


def test_a_saved_model_needs_no_triton(tmp_path: Path) -> None:
    script = _ROOT / "examples" / "own_kernels" / "triton_kernels.py"
    subprocess.run([sys.executable, script, tmp_path / "block.sl"], capture_output=True, check=True)
    done = subprocess.run(
        [sys.executable, "-c", _LOAD, tmp_path / "block.sl"], capture_output=True, text=True, check=False
    )
    assert "No module named 'triton'" not in done.stderr and "import of triton" not in done.stderr, done.stderr
