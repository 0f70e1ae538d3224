# SPDX-License-Identifier: Apache-2.0
"""Compiles libraries of own kernels, against the headers alone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import straightline as sl

HERE = Path(__file__).resolve().parent
INCLUDE = Path(sl.__file__).parent.parents[1] / "include"


def build(source: Path, library: Path, *flags: str) -> Path:
    """A shared library of a C or C++ file."""
    command = ["g++", "-std=c++17"] if source.suffix == ".cpp" else ["gcc", "-std=c11"]
    command += ["-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", f"-I{INCLUDE}", *flags]
    done = subprocess.run(
        [*command, str(source), "-o", str(library), "-lm"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return library
