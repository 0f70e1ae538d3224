# SPDX-License-Identifier: Apache-2.0
"""Builds emitted text, runtime and driver.cpp into one instrumented executable, and writes the data it runs on."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parents[1]
_CPU = "x86-64-v3"
_FLAGS = [
    "-std=c++20", "-O1", "-gline-tables-only", "-fno-omit-frame-pointer", "-Wall", "-Wextra", "-Wno-psabi", "-Werror",
]  # fmt: skip
_LAUNCHER = ["ccache"] if shutil.which("ccache") else []


@dataclass(frozen=True)
class Example:
    """A model with the calls it gets: all cases in order, on one set of weights."""

    model: nn.Module
    cases: Sequence[tuple[Tensor, ...]]
    dynamic_shapes: Any = None
    flags: tuple[str, ...] = ()  # of the compiler, after all others


@dataclass(frozen=True)
class Program:
    """An executable and its data."""

    executable: Path
    data: Path


def build_folder() -> Path:
    """Where objects are kept: SL_BUILD_DIR, or the build tree that the package was imported from."""
    named = os.environ.get("SL_BUILD_DIR", "")
    if named:
        return Path(named).resolve()
    import straightline._compiler  # a file of the build tree; those in Python may be links to the sources

    return Path(straightline._compiler.__file__).resolve().parents[2]


def run_command(command: Sequence[str | Path]) -> None:
    """Runs a command; its whole output is the assertion's text."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout[-4000:]}{done.stderr[-8000:]}"


def compiler() -> str:
    """The clang of the project: its sanitizers are those that the presets use."""
    major = (_ROOT / "cmake" / "llvm_version.txt").read_text().split(".")[0].strip()
    found = shutil.which(f"clang++-{major}")
    assert found is not None, f"clang++-{major} is not installed"
    return found


class Sanitizer:
    """The runtime and the driver, compiled once; then any number of programs."""

    def __init__(self, name: str, flag: str, march: str = _CPU) -> None:
        self.folder = build_folder() / "aot" / name
        self.flags = [f"-fsanitize={flag}", "-fno-sanitize-recover=all", f"-march={march}"]
        cxx = compiler()
        runtime = self.folder / "runtime"
        launcher = [f"-DCMAKE_CXX_COMPILER_LAUNCHER={_LAUNCHER[0]}"] if _LAUNCHER else []
        run_command(
            [
                "cmake", "-S", _ROOT / "runtime", "-B", runtime, "-G", "Ninja", f"-DSL_SANITIZE={flag}",
                "-DBUILD_TESTING=OFF", "-DSL_POISON_ARENA=ON", "-DCMAKE_BUILD_TYPE=Debug",
                "-DCMAKE_CXX_FLAGS_DEBUG=-O1 -gline-tables-only", "-DCMAKE_DISABLE_FIND_PACKAGE_dnnl=ON",
                f"-DCMAKE_CXX_COMPILER={cxx}", f"-DCMAKE_C_COMPILER={cxx.replace('++', '')}", *launcher,
            ]
        )  # fmt: skip
        run_command(["cmake", "--build", runtime, "--target", "straightline_runtime"])
        self.runtime = runtime
        self.driver = self.folder / "driver.o"
        self.compile(_HERE / "driver.cpp", self.driver)

    def compile(self, source: Path, target: Path, *more: str) -> None:
        """One translation unit, instrumented; `more` flags come last."""
        include = f"-I{self.runtime / 'include'}"
        run_command([*_LAUNCHER, compiler(), *_FLAGS, *self.flags, *more, include, "-c", source, "-o", target])

    def link(self, code: str, folder: Path, *more: str) -> Path:
        """The executable of a program's text in `folder`, compiled with `more` flags."""
        source, program = folder / "program.cpp", folder / "program"
        source.write_text(code)
        self.compile(source, folder / "program.o", *more)
        run_command(
            [
                compiler(), *self.flags, folder / "program.o", self.driver, f"-L{self.runtime}", "-lstraightline_runtime",
                f"-Wl,-rpath,{self.runtime}", "-o", program,
            ]
        )  # fmt: skip
        return program

    def run(self, program: Program, rounds: int, callers: int = 2) -> subprocess.CompletedProcess[str]:
        """One run of the driver; every report ends the process with status 99 (the runtimes share the option)."""
        environment = {
            **os.environ,
            "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1:exitcode=99",
            "UBSAN_OPTIONS": "print_stacktrace=1:exitcode=99",
            "TSAN_OPTIONS": "halt_on_error=1:exitcode=99",
        }
        return subprocess.run(
            [program.executable, program.data, str(rounds), str(callers)],
            capture_output=True, text=True, check=False, env=environment, timeout=300,
        )  # fmt: skip


def emit(example: Example, threads: int, poison: bool) -> tuple[str, Any, list[str]]:
    """Text of the program, what was captured, and the names of its parameters in the program's order."""
    from straightline import _compiler
    from straightline.capture.torch.torch_export import capture
    from straightline.module_builder import ModuleBuilder

    captured = capture(copy.deepcopy(example.model), example.cases[0], {}, example.dynamic_shapes, ModuleBuilder())
    module = captured.builder.finish()
    compilation = _compiler.compile(module, cpu=_CPU, threads=threads, poison=poison, emit_only=True)
    return compilation.code, captured, json.loads(compilation.explain_json)["parameters"]


def _bound(reference: Tensor, eager: Tensor) -> float:
    """The numeric policy (tests/run/policy.py): four times the error of torch in the same dtype, and 8 ulp of the output's scale."""
    if not eager.is_floating_point() or reference.numel() == 0:
        return 0.0
    error = (reference - eager.double()).abs().max().item()
    return 4 * error + 8 * torch.finfo(eager.dtype).eps * max(reference.abs().max().item(), 1e-30)


def write_data(example: Example, captured: Any, parameters: Sequence[str], folder: Path) -> None:
    """The manifest that driver.cpp describes, with its files; expected values from the model in float64."""
    names = iter(range(1_000_000))

    def save(tensor: Tensor) -> str:
        name = f"{next(names)}.bin"
        (folder / name).write_bytes(tensor.detach().contiguous().cpu().numpy().tobytes())
        return name

    tokens: list[str] = ["parameters", str(len(parameters))]
    for name in parameters:
        tokens += [str(int(name in captured.states)), save(captured.parameters[name])]
    tokens += ["cases", str(len(example.cases))]
    eager, exact = copy.deepcopy(example.model), copy.deepcopy(example.model).double()
    codes = {
        torch.float32: (2, 32),
        torch.float64: (2, 64),
        torch.int64: (0, 64),
        torch.int32: (0, 32),
        torch.bool: (6, 8),
    }
    for case in example.cases:
        tokens += ["inputs", str(len(case))]
        for tensor in case:
            tokens += [*map(str, codes[tensor.dtype]), str(tensor.dim()), *map(str, tensor.shape), save(tensor)]
        with torch.no_grad():
            given = _leaves(eager(*(tensor.clone() for tensor in case)))
            wanted = _leaves(
                exact(*(tensor.double() if tensor.is_floating_point() else tensor.clone() for tensor in case))
            )
        tokens += ["results", str(len(given))]
        for result, reference in zip(given, wanted):
            tokens += [f"{_bound(reference, result):.17g}", save(reference.double())]
        states = [name for name in parameters if name in captured.states]
        tokens += ["states", str(len(states))]
        for name in states:
            reference = dict(exact.named_buffers())[name]
            bound = _bound(reference, dict(eager.named_buffers())[name])
            tokens += [str(list(parameters).index(name)), f"{bound:.17g}", save(reference.double())]
    (folder / "manifest").write_text("\n".join(tokens) + "\n")


def _leaves(value: Any) -> list[Tensor]:
    return [value] if isinstance(value, Tensor) else list(value)


class Builder:
    """Compiles programs of one sanitizer side by side, as many as there are processors."""

    def __init__(self, sanitizer: Sanitizer, folder: Path) -> None:
        self.sanitizer = sanitizer
        self._folder = folder
        self._pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))

    def start(
        self, name: str, example: Example, *, threads: int, poison: bool, fault: Callable[[str], str] | None = None
    ) -> Future[Program]:
        """Captures and emits here, compiles in the background. `fault` plants a mistake in the text."""
        folder = self._folder / name
        folder.mkdir(parents=True)
        code, captured, parameters = emit(example, threads, poison)
        write_data(example, captured, parameters, folder)
        text = fault(code) if fault else code
        return self._pool.submit(lambda: Program(self.sanitizer.link(text, folder, *example.flags), folder))

    def close(self) -> None:
        """Waits for what still compiles."""
        self._pool.shutdown(cancel_futures=True)
