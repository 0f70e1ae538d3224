# SPDX-License-Identifier: Apache-2.0
"""Runs the cases of `cases.py`, each in a process of its own: a backend that is registered stays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import cases
import pytest
from builds import built


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the plug-ins."""
    folder = tmp_path_factory.mktemp("plugins")
    built(folder, name="probe")
    built(folder, 'BACKEND="other"', name="impostor")
    built(folder, "FAULT_COST_NAN", name="nan")
    built(folder, "FAULT_COST_NEGATIVE", name="negative")
    built(folder, "FAULT_SILENT", name="silent")
    built(folder, "FAULT_WORKSPACE_NEGATIVE", name="workspace")
    built(folder, "FAULT_PLAN_FAILS", name="plan_fails")
    built(folder, source="throws.cpp", name="throws")
    for name, rules in {
        "defaults": "relu = eager.relu",
        "torchs": "sin = aten",
        "defaults_bad": "\\n# none\\nrelu eager",
    }.items():
        built(folder, 'BACKEND="eager"', f'DEFAULT_ROUTES="{rules}"', "MISSING", 'KERNEL="eager.relu"', name=name)
    return folder


@pytest.mark.parametrize("name", [name for name in vars(cases) if name.startswith("case_")])
def test_in_a_process_of_its_own(name: str, libraries: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PROBES": str(libraries), "FOLDER": str(tmp_path)}
    environment.pop("STRAIGHTLINE_BACKEND_PATH", None)
    command = [sys.executable, str(Path(__file__).with_name("cases.py")), name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
