# SPDX-License-Identifier: Apache-2.0
"""C and C++ of the benchmark, compiled when it runs: the loop in C, the counter of allocations, the machine's limits, floors."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import straightline
from straightline.bench.contender import Unavailable

NATIVE = Path(__file__).with_name("native")
_COMPILERS = {
    ".c": ("clang-22", "clang", "gcc", "cc"),
    ".cpp": ("clang++-22", "clang++", "g++", "c++"),
}
_LIMIT_S = 300


def shared_library(
    source: Path, folder: Path, *, defines: Mapping[str, int] | None = None, flags: Sequence[str] = ()
) -> Path:
    """Compiles one file for this machine.

    Raises:
        Unavailable: No compiler, or it fails.
    """
    compiler = next((path for name in _COMPILERS[source.suffix] if (path := shutil.which(name))), None)
    if compiler is None:
        raise Unavailable(
            f"{source.name} needs a compiler, one of {', '.join(_COMPILERS[source.suffix])}: there is none"
        )
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / f"{source.stem}.so"
    standard = "-std=gnu11" if source.suffix == ".c" else "-std=c++20"
    command = [
        compiler, standard, "-O3", "-march=native", "-ffp-contract=fast", "-shared", "-fPIC", "-pthread",
        *(f"-I{path}" for path in _includes()), *(f"-D{name}={value}" for name, value in (defines or {}).items()),
        str(source), "-o", str(library), *flags, "-lm",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S)
    if done.returncode != 0:
        words = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip()[:200])
        raise Unavailable(f"{Path(compiler).name} fails on {source.name}: {words}")
    return library


def _includes() -> list[Path]:
    """Returns the include folders with "straightline/abi/...": of an installed package, or of the build tree around it."""
    package = Path(straightline.__file__).parent
    return [
        path for path in (package / "include", package.parents[1] / "include") if (path / "straightline/abi").is_dir()
    ]
