# SPDX-License-Identifier: Apache-2.0
"""Wheels over the build tree that the tests run on, and clean environments to install them into."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

import straightline

ROOT = Path(__file__).resolve().parents[2]
PRESET = Path(straightline.__file__).parents[2].name


def _command(*command: str | Path, **options: object) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, **{"env": clean, **options}
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="session")
def command() -> Callable[..., str]:
    """Runs a program without any `PYTHON*` of ours, gives its output, and fails with it."""
    return _command


def _find(version: str) -> str | None:
    """An interpreter of a version that runs (a pyenv shim may not)."""
    pyenv = os.environ.get("PYENV_ROOT", str(Path.home() / ".pyenv"))
    if version == sysconfig.get_python_version():
        return sys.executable
    candidates = [shutil.which(f"python{version}"), *sorted(glob.glob(f"{pyenv}/versions/{version}.*/bin/python"))]
    for candidate in filter(None, candidates):
        script = "import ensurepip, sys; print('%d.%d' % sys.version_info[:2])"
        done = subprocess.run([candidate, "-c", script], capture_output=True, text=True, check=False)
        if done.stdout.strip() == version:
            return candidate
    return None


class Wheels:
    """Builds each wheel once a session."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._built: dict[str, Path] = {}

    def interpreter(self, version: str) -> str:
        """A Python of that version; skips the test when the machine has none."""
        found = _find(version)
        if found is None:
            pytest.skip(f"this machine has no Python {version} with ensurepip, for which a wheel would be made")
        return found

    def wheel(self, version: str) -> Path:
        """The wheel for a version."""
        python = self.interpreter(version)
        if version not in self._built:
            _command(ROOT / "tools/setup/wheel.sh", python, PRESET, self._folder, cwd=ROOT)
            [self._built[version]] = self._folder.glob(f"straightline-*-cp{version.replace('.', '')}-*.whl")
        return self._built[version]


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Wheels:
    """Wheels by Python version."""
    return Wheels(tmp_path_factory.mktemp("wheels"))
