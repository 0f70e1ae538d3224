# SPDX-License-Identifier: Apache-2.0
"""Compiles the plug-ins of tests/vendor, against the headers alone, and those of examples/, by their own CMake."""

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


def command(*parts: str | Path, **options: object) -> str:
    """The output of a command that succeeds."""
    done = subprocess.run([str(part) for part in parts], capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{parts}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return str(done.stdout)


def example(name: str, folder: Path) -> Path:
    """The plug-in of examples/backend_<name>, against the package as `cmake --install` writes it."""
    command("cmake", "--install", PACKAGE.parents[1], "--component", "package", "--prefix", folder / "installed")
    package = next(folder.glob("installed/**/cmake/straightline-config.cmake")).parent
    build = folder / "build"
    warnings = ["-DCMAKE_C_FLAGS=-Werror", "-DCMAKE_CXX_FLAGS=-Werror"]
    source = ROOT / f"examples/backend_{name}"
    command("cmake", "-S", source, "-B", build, f"-Dstraightline_DIR={package}", *warnings)
    command("cmake", "--build", build)
    made = build / f"libstraightline_backend_{name}.so"
    needed = command("readelf", "-d", made)
    assert "straightline" not in "".join(line for line in needed.splitlines() if "(NEEDED)" in line)
    return made
