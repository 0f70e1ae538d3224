# SPDX-License-Identifier: Apache-2.0
"""The environment of Triton's tests is what requirements/triton.txt says, and Triton is imported when it is needed."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path


def test_triton_is_the_one_that_is_pinned() -> None:
    import triton

    wanted = (Path(__file__).resolve().parents[3] / "requirements" / "triton.txt").read_text(encoding="ascii")
    assert f"triton=={triton.__version__}" in wanted
    assert version("triton") == triton.__version__


def test_a_program_without_triton_kernels_does_not_import_it() -> None:
    code = (
        "import sys, torch, straightline as sl\n"
        "sl.compile(torch.nn.ReLU(), (torch.ones(4),), target='cuda:sm_90')\n"
        "assert sl.cuda_kernel and 'straightline.triton_kernels' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
