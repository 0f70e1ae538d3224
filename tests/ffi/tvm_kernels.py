# SPDX-License-Identifier: Apache-2.0
"""The library of kernels.c, for tests in processes of their own, too."""

from __future__ import annotations

import subprocess
from pathlib import Path

import tvm_ffi

_HERE = Path(__file__).resolve().parent


def build(folder: Path) -> Path:
    """Compiles it into the folder."""
    path = folder / "libkernels.so"
    libraries = Path(tvm_ffi.__file__).parent / "lib"
    flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    subprocess.run(["gcc", *flags, _HERE / "kernels.c", "-o", path, f"-L{libraries}", "-ltvm_ffi"], check=True)
    return path
