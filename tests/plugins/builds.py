# SPDX-License-Identifier: Apache-2.0
"""Compiles the plug-ins of tests/vendor, against the headers alone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import straightline

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(straightline.__file__).parent
INCLUDE = PACKAGE.parents[1] / "include"


def built(folder: Path, *flags: str, source: str = "probe.c", name: str = "plugin") -> Path:
    """The plug-in of a source, with macros such as "FAULT_LEAK" or 'BACKEND="other"'."""
    library = folder / f"lib{name}.so"
    cxx = source.endswith(".cpp")
    command = ["g++", "-std=c++20", "-Wno-missing-field-initializers"] if cxx else ["gcc", "-std=gnu11"]
    command += ["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden", f"-I{INCLUDE}"]
    command += [*(f"-D{flag}" for flag in flags), str(ROOT / "tests/vendor" / source), "-o", str(library), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return library
