# SPDX-License-Identifier: Apache-2.0
"""The C++ example, built over an installed package by each compiler and run."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import straightline

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(straightline.__file__).parents[2]


@pytest.fixture(scope="module")
def package(command: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package's folder in a prefix of its own."""
    prefix = tmp_path_factory.mktemp("prefix")
    command("cmake", "--install", BUILD, "--component", "package", "--prefix", prefix)
    return prefix / "straightline"


@pytest.mark.parametrize("compiler", ["clang++-22", "g++"])
def test_the_example_builds_and_runs(compiler: str, package: Path, command: Callable[..., str], tmp_path: Path) -> None:
    assert shutil.which(compiler), f"{compiler} is not installed"
    flags = ["-Wall", "-Wextra", "-Werror", "-isystem", str(package / "include")]
    command(
        "cmake", "-S", ROOT / "examples/cpp", "-B", tmp_path, "-G", "Ninja", f"-DCMAKE_CXX_COMPILER={compiler}",
        f"-DSTRAIGHTLINE={package}", f"-DCMAKE_CXX_FLAGS={' '.join(flags)}",
    )  # fmt: skip
    command("cmake", "--build", tmp_path)
    said = command(tmp_path / "classify", cwd=tmp_path)
    assert said.endswith("ok\n")
    assert "kernel.launch" in said and "refused: " in said and "17" in said


@pytest.mark.parametrize("compiler", ["clang++-22", "g++"])
def test_headers_compile_without_warnings(compiler: str, package: Path, tmp_path: Path) -> None:
    for header in ("tensor", "module", "straightline"):
        source = tmp_path / "use.cpp"
        source.write_text(f'#include "straightline/{header}.hpp"\nint main() {{ return 0; }}\n')
        command = [
            compiler,
            "-std=c++20",
            "-Wall",
            "-Wextra",
            "-Wshadow",
            "-Werror",
            "-fsyntax-only",
            f"-I{package}/include",
        ]
        done = subprocess.run([*command, source], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:3000]
