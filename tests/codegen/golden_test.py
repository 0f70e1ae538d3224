# SPDX-License-Identifier: Apache-2.0
"""Whole-file goldens of the C++ and Python printers; the C++ ones compile with two compilers without warnings.

Run: pytest tests/codegen --build build/dev [--update-golden]. A golden is what `fn.code` shows: one translation unit,
or with `emit="python"` one module. The
cases beside this file are planned programs written by hand; those in models/ are captured models (models/capture.py), which
go through the whole pipeline for the target that they name.
"""

from __future__ import annotations

import ast
import difflib
import os
import pathlib
import shutil
import subprocess

import pytest

_HERE = pathlib.Path(__file__).parent
_ROOT = _HERE.parent.parent
_PLANNED = sorted(path.stem for path in _HERE.glob("*.mlir"))
_MODELS = sorted(path.stem for path in (_HERE / "models").glob("*.mlir"))
_CASES = _PLANNED + _MODELS
_CUDA = sorted(path.stem for path in (_HERE / "cuda").glob("*.mlir"))
_FLAGS = ["-std=c++20", "-march=x86-64-v3", "-Wall", "-Wextra", "-Wno-psabi", "-Werror", "-O1", "-c"]


def _build(request: pytest.FixtureRequest) -> pathlib.Path:
    """The build tree: --build, SL_BUILD_DIR, or the first preset that has the tool."""
    named = request.config.getoption("--build", default="") or os.environ.get("SL_BUILD_DIR", "")
    candidates = [pathlib.Path(named)] if named else [_ROOT / "build" / name for name in ("dev", "release")]
    for candidate in candidates:
        if (candidate / "tools" / "straightline-emit").exists():
            return candidate.resolve()
    pytest.fail(f"no tools/straightline-emit in {[str(c) for c in candidates]}: build it first")


def _run(*command: str | pathlib.Path, text: str | None = None) -> str:
    """Output of a tool."""
    done = subprocess.run(command, cwd=_HERE, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    return done.stdout


def _emit(build: pathlib.Path, case: str, *arguments: str, folder: pathlib.Path | None = None) -> str:
    """Output of straightline-emit for a case; `folder` holds its file where that is not in the tree."""
    emit = build / "tools" / "straightline-emit"
    if case in _PLANNED:
        return _run(emit, (folder or _HERE) / f"{case}.mlir", *arguments)
    source = (folder or _HERE / "models") / f"{case}.mlir"
    # Locations become the comments of the text.
    planned = _run(build / "tools" / "straightline-opt", source, "--straightline-pipeline", "--mlir-print-debuginfo")
    return _run(emit, "-", *arguments, text=planned)


def _compile(compiler: str, build: pathlib.Path, source: pathlib.Path, target: pathlib.Path) -> None:
    """Code of one translation unit, without a warning."""
    program = shutil.which(compiler)
    assert program is not None, f"{compiler} is not installed"
    _run(program, *_FLAGS, f"-I{build / 'include'}", source, "-o", target)


def _check_golden(text: str, name: str, request: pytest.FixtureRequest) -> None:
    """Compares with a golden file, or writes it."""
    golden = _HERE / "golden" / name
    if request.config.getoption("--update-golden", default=False):
        golden.write_text(text)
    expected = golden.read_text() if golden.exists() else ""
    difference = difflib.unified_diff(expected.splitlines(), text.splitlines(), str(golden), "emitted", lineterm="")
    assert text == expected, "\n".join(difference) + "\nrun with --update-golden when this is meant"


@pytest.mark.parametrize("language", ["cpp", "py"])
@pytest.mark.parametrize("case", _CASES)
def test_golden(case: str, language: str, request: pytest.FixtureRequest) -> None:
    """The text of a program equals its golden file."""
    text = _emit(_build(request), case, *(["--python"] if language == "py" else []))
    _check_golden(text, f"{case}.{language}", request)


@pytest.mark.parametrize("case", _CUDA)
def test_cuda_golden(case: str, request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> None:
    """CUDA C++ and the C++ that launches it equal their golden file; the C++ compiles (the rest: tests/run/cuda_test.py)."""
    build = _build(request)
    passes = ["--place-on-cuda", "--group-launches", "--plan-memory", "--insert-barriers", "--mlir-print-debuginfo"]
    planned = _run(build / "tools" / "straightline-opt", _HERE / "cuda" / f"{case}.mlir", *passes)
    text = _run(build / "tools" / "straightline-emit", "-", text=planned)
    _check_golden(text, f"{case}.cu", request)
    host = tmp_path / "host.cpp"
    host.write_text(text.split("// C++.\n")[1])
    for compiler in ("clang++-22", "g++"):
        _compile(compiler, build, host, tmp_path / "host.o")


@pytest.mark.parametrize("case", _CASES)
def test_python_parses(case: str) -> None:
    """A Python golden is a module whose functions name nothing that they have not bound."""
    text = (_HERE / "golden" / f"{case}.py").read_text()
    tree = ast.parse(text)
    imported = {name.name for node in tree.body if isinstance(node, ast.ImportFrom) for name in node.names}
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert [function.name for function in functions][-1] == "run"
    for function in functions:
        names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
        bound = {node.id for node in names if isinstance(node.ctx, ast.Store)} | {"io", "range", "float"} | imported
        assert {node.id for node in names if isinstance(node.ctx, ast.Load)} <= bound


@pytest.mark.parametrize("compiler", ["clang++-22", "g++"])
@pytest.mark.parametrize("case", _CASES)
def test_compiles_without_warnings(
    case: str, compiler: str, request: pytest.FixtureRequest, tmp_path: pathlib.Path
) -> None:
    """A golden is one valid translation unit for a plain compiler, templates instantiated and optimised."""
    _compile(compiler, _build(request), _HERE / "golden" / f"{case}.cpp", tmp_path / "case.o")


def test_units_are_whole(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> None:
    """Each unit compiles alone, and with the profiling hook."""
    build = _build(request)
    for name, arguments in {
        "offload": ["--unit=offload"],
        "scale": ["--unit=scale"],
        "profiled": ["--profile"],
    }.items():
        source = tmp_path / f"{name}.cpp"
        source.write_text(_emit(build, "device_queue", *arguments))
        _compile("clang++-22", build, source, tmp_path / f"{name}.o")


def test_same_module_same_bytes(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> None:
    """The text says nothing of where the module lies or when it was printed."""
    build = _build(request)
    for case in _CASES:
        source = _HERE / f"{case}.mlir" if case in _PLANNED else _HERE / "models" / f"{case}.mlir"
        shutil.copy(source, tmp_path)
        assert _emit(build, case, folder=tmp_path) == _emit(build, case), case
