# SPDX-License-Identifier: Apache-2.0
"""The wheel `straightline-runtime`: a clean environment with it, and a C compiler, run what was saved here."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import straightline as sl

ROOT = Path(__file__).resolve().parents[2]
PRESET = Path(sl.__file__).parents[2].name


@pytest.fixture(scope="module")
def wheel(command: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runtime_wheel")
    command(ROOT / "tools/setup/runtime_wheel.sh", PRESET, folder, cwd=ROOT)
    [found] = folder.glob("straightline_runtime-*.whl")
    return found


def test_what_it_holds(wheel: Path) -> None:
    assert wheel.name.endswith("-cp310-abi3-manylinux_2_34_x86_64.whl")
    assert wheel.stat().st_size < 3e6
    names = zipfile.ZipFile(wheel).namelist()
    libraries = {Path(name).name for name in names if name.endswith(".so")}
    assert libraries == {"_call.abi3.so", "libstraightline_runtime.so"}
    assert "straightline/include/straightline_model.h" in names and "straightline/artifact.py" in names
    assert not any(part in name for name in names for part in ("_compiler", "capture", "torch_model", "options"))


def test_a_clean_environment(wheel: Path, command: Callable[..., str], tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).eval()
    x = torch.randn(2, 16)
    function = sl.compile(model, (x,))
    function.save(tmp_path / "m.sl", ("x86-64-v3",))
    np.save(tmp_path / "x.npy", x.numpy())
    command(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    command(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel)
    site = Path(command(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    for name in ("numpy", "numpy.libs", "rich", "pygments", "markdown_it", "mdurl"):
        entry = Path(np.__file__).parents[1] / name
        if entry.exists():
            (site / name).symlink_to(entry)
    script = """
import sys, numpy as np, straightline as sl
fn = sl.load("m.sl", verify=True)
np.save("y.npy", fn(np.load("x.npy")))
lora = fn.with_lora({"0.weight": (np.ones((2, 16), "f4"), np.ones((32, 2), "f4"), 0.0)})
assert np.array_equal(lora(np.load("x.npy")), np.load("y.npy"))
assert "torch" not in sys.modules
for name in ("compile", "compile_mlir", "jit", "CompileOptions"):
    try:
        getattr(sl, name)
    except ImportError as error:
        print(error)
for of_the_compiler in (lambda: fn.profile(np.load("x.npy")), lambda: fn.explorer("m.html", passes=True)):
    try:
        of_the_compiler()
    except sl.UnsupportedError as error:
        print(error)
"""
    said = command(python, "-c", script, cwd=tmp_path)
    assert said.count("only the runtime is installed") == 6, said
    assert np.load(tmp_path / "y.npy").shape == (2, 4)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), model(x).detach().numpy(), rtol=1e-4, atol=1e-5)
    shown = command(tmp_path / "venv" / "bin" / "straightline", "run", tmp_path / "m.sl", "--input", tmp_path / "x.npy")
    assert "float32[2, 4]" in shown
    assert "0.weight" in command(tmp_path / "venv" / "bin" / "straightline", "inspect", tmp_path / "m.sl")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [tmp_path / "venv" / "bin" / "straightline", "compile", tmp_path / "m.sl"],
        capture_output=True, text=True, check=False, env=clean,
    )  # fmt: skip
    assert done.returncode == 1 and "only the runtime is installed" in done.stderr, done.stderr
    done = subprocess.run(
        [tmp_path / "venv" / "bin" / "straightline", "inspect", tmp_path / "m.sl", "--html", "m.html", "--passes"],
        capture_output=True, text=True, check=False, env=clean,
    )  # fmt: skip
    assert done.returncode == 3 and "only the runtime is installed" in done.stderr, done.stderr

    package = site / "straightline"
    command(
        "gcc", ROOT / "examples/c/run.c", f"-I{package}/include", f"-L{package}", "-lstraightline_runtime",
        f"-Wl,-rpath,{package}", "-o", tmp_path / "run",
    )  # fmt: skip
    assert "result 0: rank 2" in command(tmp_path / "run", tmp_path / "m.sl")
