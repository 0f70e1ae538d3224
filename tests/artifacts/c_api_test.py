# SPDX-License-Identifier: Apache-2.0
"""Saved models in C and C++: the same bytes as in Python, by the examples and by a test program."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import straightline as sl
import torch
from saved_cases import CASES, copy_of

import straightline

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(straightline.__file__).parent
BUILD = PACKAGE.parents[1]


def _command(*command: str | Path, **options: Any) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{command}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """call.cpp, which sees the headers and the runtime alone."""
    program = tmp_path_factory.mktemp("caller") / "call"
    _command(
        "g++", "-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{BUILD}/include", ROOT / "tests/artifacts/call.cpp",
        f"-L{PACKAGE}", "-lstraightline_runtime", f"-Wl,-rpath,{PACKAGE}", "-pthread", "-o", program,
    )  # fmt: skip
    return program


def _raw(tensor: Any) -> bytes:
    """The memory of a tensor from its first element to its last."""
    memory = tensor.detach()
    if 0 in memory.shape:
        return b""
    span = 1 + sum((size - 1) * step for size, step in zip(memory.shape, memory.stride(), strict=True))
    return memory.as_strided((span,), (1,)).view(torch.uint8).numpy().tobytes()


def test_programs_that_python_runs(tmp_path: Path) -> None:
    """emit="python": C runs the C++ of the same program, unless its text was replaced. Ops of torch: it says that there is no torch."""
    runner = tmp_path / "run"
    _command(
        "gcc", ROOT / "examples/c/run.c", f"-I{BUILD}/include", f"-L{PACKAGE}", "-lstraightline_runtime",
        f"-Wl,-rpath,{PACKAGE}", "-o", runner,
    )  # fmt: skip

    def said(name: str) -> str:
        done = subprocess.run([runner, tmp_path / name], capture_output=True, text=True, check=False)
        return done.stdout if done.returncode == 0 else done.stderr

    model, x = torch.nn.Sequential(torch.nn.Linear(16, 4), torch.nn.ReLU()).eval(), torch.randn(2, 16)
    sl.compile(model, (x,)).save(tmp_path / "cpp.sl", ("host",))
    function = sl.compile(model, (x,), emit="python")
    function.save(tmp_path / "python.sl", ("host",))
    assert said("python.sl") == said("cpp.sl") and "result 0: rank 2" in said("cpp.sl")
    function.code += "\n# ours\n"
    function.save(tmp_path / "replaced.sl", ("host",))
    assert "replaced.sl does what its Python text says, which was replaced" in said("replaced.sl")
    sl.compile(lambda x: torch.linalg.eigvalsh(x), (torch.eye(3),)).save(tmp_path / "aten.sl", libraries=("aten",))
    assert "aten needs torch in this process" in said("aten.sl")


@torch.no_grad()
@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize(
    "name",
    [
        "mlp",
        "bfloat16",
        "half",
        "double",
        "live",
        "channels_last",
        "tied",
        "views",
        "no_weights",
        "convolutions",
        "attention",
        "gru",
    ],
)
def test_the_same_bytes(name: str, prepared: bool, caller: Path, tmp_path: Path) -> None:
    make, inputs, options = CASES[name]
    model, args = make().eval(), inputs()
    function = sl.compile(model, args, **options)
    function.save(tmp_path / "m.sl", ("host",), prepared=prepared)
    for i, arg in enumerate(args):
        (tmp_path / f"in{i}").write_bytes(_raw(arg))
    (tmp_path / "shapes").write_text("".join(" ".join(map(str, arg.shape)) + "\n" for arg in args))
    other = None
    if name in ("mlp", "convolutions"):
        safetensors = pytest.importorskip("safetensors.torch")
        other = make().eval().state_dict()
        other = {key: value for key, value in other.items() if "num_batches" not in key}
        safetensors.save_file(other, tmp_path / "other.safetensors")
    said = _command(caller, tmp_path, "3")
    assert "refused: " in said
    results = torch.utils._pytree.tree_leaves(function(*copy_of(args)))
    for i, result in enumerate(results):
        assert (tmp_path / f"out{i}").read_bytes() == _raw(result)
    if other is not None:
        expected = function.with_parameters({**model.state_dict(), **other})(*copy_of(args))
        assert (tmp_path / "other0").read_bytes() == _raw(expected)


@torch.no_grad()
def test_states_and_named_sizes(caller: Path, tmp_path: Path) -> None:
    """Text of what a model takes; sizes that a call brings."""
    model = CASES["mlp"][0]().eval()
    function = sl.compile(model, (torch.randn(3, 16),), dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=64)},))
    function.save(tmp_path / "m.sl", ("host",))
    x = torch.randn(7, 16)
    (tmp_path / "in0").write_bytes(_raw(x))
    (tmp_path / "shapes").write_text("7 16\n")
    said = _command(caller, tmp_path, "2")
    assert "(input: float32[batch, 16]) -> (float32[batch, 4]), batch from 1 to 64" in said
    assert (tmp_path / "out0").read_bytes() == _raw(function(x))
    assert "output [batch] [4]" in said
    (tmp_path / "in0").write_bytes(_raw(torch.randn(65, 16)))
    (tmp_path / "shapes").write_text("65 16\n")
    done = subprocess.run([caller, tmp_path, "1"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert (
        "input 'input': dim 0 is 65 but this program was compiled for batch in [1, 64]; "
        "pass an example of this size or a torch.export.Dim with a larger max to sl.compile"
    ) in done.stderr


@torch.no_grad()
def test_sizes_that_are_expressions(caller: Path, tmp_path: Path) -> None:
    function = sl.compile(
        lambda x: torch.cat([x, x * 2]),
        (torch.randn(3, 2),),
        dynamic_shapes=({0: torch.export.Dim("n", min=1, max=9)},),
    )
    function.save(tmp_path / "m.sl", ("host",))
    x = torch.randn(4, 2)
    (tmp_path / "in0").write_bytes(_raw(x))
    (tmp_path / "shapes").write_text("4 2\n")
    assert "output [n * 2] [2]" in _command(caller, tmp_path, "1")
    assert (tmp_path / "out0").read_bytes() == _raw(torch.cat([x, x * 2]))


@pytest.mark.parametrize("compiler", ["gcc", "clang-22"])
def test_the_c_example(compiler: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    program = tmp_path / "run"
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    _command(
        compiler, *flags, ROOT / "examples/c/run.c", f"-I{BUILD}/include", f"-L{PACKAGE}", "-lstraightline_runtime",
        f"-Wl,-rpath,{PACKAGE}", "-o", program,
    )  # fmt: skip
    model = CASES["mlp"][0]().eval()
    sl.compile(model, (torch.randn(2, 16),)).save(tmp_path / "m.sl")
    said = _command(program, tmp_path / "m.sl")
    expected = float(model(torch.zeros(2, 16))[0, 0])
    lines = said.splitlines()
    assert lines[0] == "forward(input: float32[2, 16]) -> (float32[2, 4])"
    assert float(np.float32(lines[1].rsplit(" ", 1)[1])) == pytest.approx(expected, rel=1e-4)
    done = subprocess.run([program, tmp_path / "nothing.sl"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "nothing.sl: No such file or directory" in done.stderr


def test_the_installed_package_by_cmake_and_pkg_config(tmp_path: Path) -> None:
    _command("cmake", "--install", BUILD, "--component", "package", "--prefix", tmp_path / "prefix")
    package = tmp_path / "prefix" / "straightline"
    _command(
        "cmake",
        "-S",
        ROOT / "examples/c",
        "-B",
        tmp_path / "build",
        "-G",
        "Ninja",
        f"-Dstraightline_DIR={package}/cmake",
    )
    _command("cmake", "--build", tmp_path / "build")
    sl.compile(CASES["mlp"][0]().eval(), (torch.randn(2, 16),)).save(tmp_path / "m.sl")
    assert "result 0: rank 2" in _command(tmp_path / "build" / "run", tmp_path / "m.sl")
    if shutil.which("pkg-config"):
        environment = {**os.environ, "PKG_CONFIG_PATH": f"{package}/pkgconfig"}
        flags = _command("pkg-config", "--cflags", "--libs", "straightline-runtime", env=environment).split()
        _command("gcc", ROOT / "examples/c/run.c", *flags, "-o", tmp_path / "run")
        assert "result 0: rank 2" in _command(tmp_path / "run", tmp_path / "m.sl")


def test_what_the_runtime_library_is(tmp_path: Path) -> None:
    """Its size when stripped, what it needs, and what it exports."""
    library = tmp_path / "runtime.so"
    shutil.copy(PACKAGE / "libstraightline_runtime.so", library)
    _command("strip", library)
    if "release" in str(PACKAGE):
        assert library.stat().st_size <= 700_000
    needed = {
        line.split("[")[1].rstrip("]") for line in _command("readelf", "-d", library).splitlines() if "(NEEDED)" in line
    }
    assert needed <= {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"}


def test_a_start_opens_no_library_that_is_not_needed(tmp_path: Path) -> None:
    script = "import sys, straightline.artifact as a; a.load(sys.argv[1]); print(open('/proc/self/maps').read())"
    sl.compile(CASES["mlp"][0]().eval(), (torch.randn(2, 16),)).save(tmp_path / "m.sl")
    maps = _command(sys.executable, "-c", script, tmp_path / "m.sl")
    assert "libstraightline_runtime" in maps
    for absent in ("libstraightline_backend", "libstraightline_compiler", "libdnnl", "_compiler."):
        assert absent not in maps
