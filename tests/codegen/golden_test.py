# SPDX-License-Identifier: Apache-2.0
"""Whole-file goldens of the C++ printer, compiled by two compilers without warnings.

Run: pytest tests/codegen --build build/dev [--update-golden]. A golden is what `fn.code` shows: one translation unit.
"""

from __future__ import annotations

import difflib
import os
import pathlib
import shutil
import subprocess

import pytest

_HERE = pathlib.Path(__file__).parent
_ROOT = _HERE.parent.parent
_CASES = sorted(path.stem for path in _HERE.glob("*.mlir"))
_FLAGS = ["-std=c++20", "-march=x86-64-v3", "-Wall", "-Wextra", "-Wno-psabi", "-Werror", "-fsyntax-only"]


def _build(request: pytest.FixtureRequest) -> pathlib.Path:
    """The build tree: --build, SL_BUILD_DIR, or the first preset that has the tool."""
    named = request.config.getoption("--build", default="") or os.environ.get("SL_BUILD_DIR", "")
    candidates = [pathlib.Path(named)] if named else [_ROOT / "build" / name for name in ("dev", "release")]
    for candidate in candidates:
        if (candidate / "tools" / "straightline-emit").exists():
            return candidate.resolve()
    pytest.fail(f"no tools/straightline-emit in {[str(c) for c in candidates]}: build it first")


def _emit(build: pathlib.Path, *arguments: str) -> str:
    """Output of straightline-emit."""
    tool = build / "tools" / "straightline-emit"
    done = subprocess.run([tool, *arguments], cwd=_HERE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("case", _CASES)
def test_golden(case: str, request: pytest.FixtureRequest) -> None:
    """The text of a program equals its golden file."""
    text = _emit(_build(request), f"{case}.mlir")
    golden = _HERE / "golden" / f"{case}.cpp"
    if request.config.getoption("--update-golden", default=False):
        golden.write_text(text)
    expected = golden.read_text() if golden.exists() else ""
    difference = difflib.unified_diff(expected.splitlines(), text.splitlines(), str(golden), "emitted", lineterm="")
    assert text == expected, "\n".join(difference) + "\nrun with --update-golden when this is meant"


@pytest.mark.parametrize("compiler", ["clang++-22", "g++"])
@pytest.mark.parametrize("case", _CASES)
def test_compiles_without_warnings(case: str, compiler: str, request: pytest.FixtureRequest) -> None:
    """A golden is one valid translation unit for a plain compiler."""
    program = shutil.which(compiler)
    assert program is not None, f"{compiler} is not installed"
    include = _build(request) / "include"
    golden = _HERE / "golden" / f"{case}.cpp"
    done = subprocess.run(
        [program, *_FLAGS, f"-I{include}", golden], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[:4000]


def test_units_are_whole(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> None:
    """Each unit compiles alone, and with the profiling hook."""
    build = _build(request)
    case = "device_queue.mlir"
    for name, arguments in {
        "offload": ["--unit=offload"],
        "scale": ["--unit=scale"],
        "profiled": ["--profile"],
    }.items():
        source = tmp_path / f"{name}.cpp"
        source.write_text(_emit(build, case, *arguments))
        done = subprocess.run(
            ["clang++-22", *_FLAGS, f"-I{build / 'include'}", source], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[:4000]


def test_same_module_same_bytes(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> None:
    """The text says nothing of where the module lies or when it was printed."""
    build = _build(request)
    for case in _CASES:
        moved = tmp_path / f"{case}.mlir"
        moved.write_text((_HERE / f"{case}.mlir").read_text())
        assert _emit(build, str(moved)) == _emit(build, f"{case}.mlir"), case
