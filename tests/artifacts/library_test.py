# SPDX-License-Identifier: Apache-2.0
"""Models as libraries: shared, static, and as source; several in one executable."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import straightline as sl
import torch
from straightline import library_writer
from torch import Tensor, nn

import straightline

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(straightline.__file__).parent
BUILD = PACKAGE.parents[1]
_MAIN = ROOT / "tests" / "artifacts" / "two_models.c"


def _command(*command: str | Path, **options: Any) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{command}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


class _Twice(nn.Module):
    """The same kernels as the other model's, and a state."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 32)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls.add_(1)
        return self.linear(x).relu() * self.calls


@pytest.fixture(scope="module")
def models() -> list[tuple[Any, str]]:
    """Two functions, and what the program prints of each."""
    torch.manual_seed(5)
    first = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).eval()
    second = _Twice().eval()
    made = []
    for model, names in (
        (first, "(input: float32[2, 16]) -> (float32[2, 4])"),
        (second, "(x: float32[2, 16]) -> (float32[2, 32])"),
    ):
        function = sl.compile(model, (torch.randn(2, 16),), cpu="x86-64-v3")
        x = (torch.arange(32) % 5).float().reshape(2, 16)
        fresh = sl.compile(model, (x,), cpu="x86-64-v3") if model is first else function
        if model is second:
            model.calls.zero_()
        expected = float(torch.as_tensor(fresh(x)).reshape(-1)[0])
        if model is second:
            model.calls.zero_()
        made.append((function, f"forward{names}\n{expected:.9g}\n"))
    return made


def _write(models: list[tuple[Any, str]], folder: Path, kind: str) -> str:
    suffix = {"shared-lib": ".so", "static-lib": ".a", "c-source": ""}[kind]
    for (function, _), name in zip(models, ("first", "second"), strict=True):
        path = folder / (f"lib{name}{suffix}" if suffix else name)
        library_writer.write(function, path, kind, None, cpus=("x86-64-v3",))
    return "".join(text for _, text in models)


def _run(program: Path, expected: str) -> None:
    got, want = _command(program).split("\n"), expected.split("\n")
    assert got[::2] == want[::2]
    for a, b in zip(got[1::2], want[1::2], strict=True):
        assert float(a) == pytest.approx(float(b), rel=1e-6)


@pytest.mark.parametrize("kind", ["shared-lib", "static-lib"])
def test_two_models_in_one_program(kind: str, models: list[tuple[Any, str]], tmp_path: Path) -> None:
    expected = _write(models, tmp_path, kind)
    suffix = "so" if kind == "shared-lib" else "a"
    libraries = [tmp_path / f"lib{name}.{suffix}" for name in ("first", "second")]
    for library, name in zip(libraries, ("first", "second"), strict=True):
        flags = ["-D"] if kind == "shared-lib" else []
        shown = _command("nm", "--defined-only", "-g", *flags, library)
        assert [line.split()[-1] for line in shown.splitlines() if " " in line] == [f"sl_model_{name}"]
        undefined = _command("nm", "-u", *flags, library)
        assert "sl_" not in undefined and "memcpy" not in undefined
    _command(
        "gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", _MAIN, f"-I{tmp_path}", f"-I{BUILD}/include", *libraries, f"-L{PACKAGE}",
        "-lstraightline_runtime", f"-Wl,-rpath,{PACKAGE}:{tmp_path}", "-o", tmp_path / "program",
    )  # fmt: skip
    _run(tmp_path / "program", expected)


def test_one_executable_without_shared_libraries_of_ours(models: list[tuple[Any, str]], tmp_path: Path) -> None:
    expected = _write(models, tmp_path, "static-lib")
    runtime = BUILD / "runtime" / "libstraightline_runtime.a"
    if not runtime.exists():
        pytest.skip("a sanitized build has no static runtime")
    program = tmp_path / "program"
    _command("gcc", "-std=c11", "-O1", "-c", _MAIN, f"-I{tmp_path}", f"-I{BUILD}/include", "-o", tmp_path / "main.o")
    _command(
        "g++", tmp_path / "main.o", tmp_path / "libfirst.a", tmp_path / "libsecond.a", runtime, "-static-libgcc",
        "-static-libstdc++", "-Wl,--gc-sections", "-pthread", "-ldl", "-o", program,
    )  # fmt: skip
    _run(program, expected)
    needed = {
        line.split("[")[1].rstrip("]") for line in _command("readelf", "-d", program).splitlines() if "(NEEDED)" in line
    }
    assert needed <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}
    _command("strip", program)
    assert program.stat().st_size <= 1.5 * 2**20


def _refusal(library: Path, name: str) -> str:
    """What a process says that loads sl_model_NAME; empty where it loads."""
    script = f"""
import ctypes, sys
runtime, library = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(sys.argv[2])
linked, model, message = ctypes.c_char.in_dll(library, "sl_model_{name}"), ctypes.c_void_p(), ctypes.create_string_buffer(1024)
status = runtime.sl_model_load_linked(ctypes.byref(linked), None, ctypes.byref(model), message)
print(message.value.decode() if status else "")
"""
    return _command(sys.executable, "-c", script, PACKAGE / "libstraightline_runtime.so", library).strip()


def test_code_for_several_cpus_is_chosen_when_it_is_loaded(models: list[tuple[Any, str]], tmp_path: Path) -> None:
    """What the machine lacks is passed over; where it lacks all, that is said."""
    if " avx512_fp16" in Path("/proc/cpuinfo").read_text():
        pytest.skip("this machine has all that the names here need")
    library_writer.write(models[0][0], tmp_path / "liba.so", "shared-lib", "a", ("sapphirerapids", "x86-64-v3"))
    assert _refusal(tmp_path / "liba.so", "a") == ""
    library_writer.write(models[0][0], tmp_path / "libb.so", "shared-lib", "b", ("sapphirerapids", "graniterapids"))
    said = _refusal(tmp_path / "libb.so", "b")
    assert said.startswith("b has no code for this machine: cpu sapphirerapids needs ") and "avx512fp16" in said
    assert "; cpu graniterapids needs " in said


def test_source(models: list[tuple[Any, str]], tmp_path: Path) -> None:
    expected = _write(models, tmp_path, "c-source")
    _command("cmake", "--install", BUILD, "--component", "package", "--prefix", tmp_path / "prefix")
    package = tmp_path / "prefix" / "straightline"
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.24)\nproject(two LANGUAGES C CXX ASM)\n"
        "add_subdirectory(first)\nadd_subdirectory(second)\n"
        f"add_executable(program {_MAIN})\nset_target_properties(program PROPERTIES C_STANDARD 11)\n"
        "target_link_libraries(program PRIVATE first second)\n"
    )
    _command("cmake", "-S", tmp_path, "-B", tmp_path / "build", "-G", "Ninja", f"-Dstraightline_DIR={package}/cmake")
    _command("cmake", "--build", tmp_path / "build")
    _run(tmp_path / "build" / "program", expected)


def test_bad_arguments(models: list[tuple[Any, str]], tmp_path: Path) -> None:
    function = models[0][0]
    with pytest.raises(sl.UserError, match="'2-models' is no identifier"):
        library_writer.write(function, tmp_path / "lib2-models.so", "shared-lib", None)
    with pytest.raises(sl.UserError, match="cannot write"):
        library_writer.write(function, tmp_path / "no" / "libx.so", "shared-lib", None)
    (tmp_path / "file").write_text("")
    with pytest.raises(sl.UserError, match="cannot write in"):
        library_writer.write(function, tmp_path / "file" / "x", "c-source", "x")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file"]
