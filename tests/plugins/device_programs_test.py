# SPDX-License-Identifier: Apache-2.0
"""Programs for a device that a plug-in brings. Its tests run in processes of their own: a backend that is registered stays."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from builds import command, example

FOLDER = Path(__file__).parent


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return example("device", tmp_path_factory.mktemp("device"))


@pytest.mark.parametrize(
    ("name", "variables"),
    [("device_programs.py", {}), ("device_without_compiler.py", {"SIM_DEVICE_COMPILES": "0"})],
)
def test_in_a_process_of_its_own(name: str, variables: dict[str, str], library: Path) -> None:
    environment = {
        **os.environ,
        **variables,
        "STRAIGHTLINE_BACKEND_PATH": str(library),
        "PYTHONPATH": os.pathsep.join([str(FOLDER), str(FOLDER.parent / "run"), *filter(None, sys.path)]),
    }
    print(command(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", FOLDER / name, env=environment))  # noqa: T201
