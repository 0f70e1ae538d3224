# SPDX-License-Identifier: Apache-2.0
"""The wheels: what is in them, what they want of a machine, and that they work in a clean environment."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/plugins"))

from builds import example  # noqa: E402

THIS = sysconfig.get_python_version()

RESNET = """
import torch, straightline as sl
from straightline.demo_models import ResNet18
print("seed", torch.seed())
model, x = ResNet18().eval(), torch.randn(1, 3, 224, 224)
compiled = sl.compile(model, (x,), cache=False)
with torch.no_grad():
    torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)
linear = [row for row in compiled.explain().statements if row["op"].startswith("linear")]
print(sl.__file__)
print(linear[-1]["why"])
"""

MLIR = """
import sys
import numpy as np, straightline as sl
import safetensors.numpy
assert "torch" not in sys.modules
text = '''
func.func @forward(%x: tensor<3x64xf32> {op.name = "x"}) -> (tensor<3x10xf32> {op.name = "y"}, tensor<1xf32> {op.name = "n", op.tie = "state:calls"}) {
  %w = op.parameter "fc.weight" : tensor<10x64xf32>
  %b = op.parameter "fc.bias" : tensor<10xf32>
  %n = op.state "calls" : tensor<1xf32>
  %one = op.full {value = 1.0 : f64} : tensor<1xf32>
  %m = op.add %n, %one : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %0 = op.linear %x, %w, %b : (tensor<3x64xf32>, tensor<10x64xf32>, tensor<10xf32>) -> tensor<3x10xf32>
  %1 = op.relu %0 : (tensor<3x10xf32>) -> tensor<3x10xf32>
  return %1, %m : tensor<3x10xf32>, tensor<1xf32>
}
'''
open("model.mlir", "w").write(text)
seed = np.random.SeedSequence().entropy
print("seed", seed)
rng = np.random.default_rng(seed)
new = lambda *shape: rng.standard_normal(shape, dtype=np.float32)
arrays = {"fc.weight": new(10, 64), "fc.bias": new(10), "calls": np.zeros(1, np.float32)}
safetensors.numpy.save_file(arrays, "weights.safetensors")
x = new(3, 64)
want = np.maximum(x @ arrays["fc.weight"].T + arrays["fc.bias"], 0)
for compiled in (sl.compile_mlir("model.mlir", "weights.safetensors", cache=False), sl.compile_mlir(text, arrays)):
    got = compiled(x)
    assert type(got) is np.ndarray
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(compiled(x=x), got)
    assert compiled.parameters()["calls"] == 2
assert arrays["calls"] == 2

# A model that torch captured in another Python, on arrays of numpy.
model = sl.compile_mlir("captured.mlir", "captured.safetensors")
np.testing.assert_allclose(model(np.load("input.npy")), np.load("expected.npy"), rtol=1e-4, atol=1e-4)
assert "torch" not in sys.modules
print(sl.__file__)
"""


ONEDNN = """
import numpy as np, straightline as sl
text = '''
func.func @forward(%x: tensor<4x64xf32> {op.name = "x"}) -> (tensor<4x32xf32> {op.name = "y"}) {
  %w = op.parameter "w" : tensor<32x64xf32>
  %0 = op.linear %x, %w : (tensor<4x64xf32>, tensor<32x64xf32>) -> tensor<4x32xf32>
  return %0 : tensor<4x32xf32>
}
'''
seed = np.random.SeedSequence().entropy
print("seed", seed)
rng = np.random.default_rng(seed)
x, w = rng.standard_normal((4, 64), dtype=np.float32), rng.standard_normal((32, 64), dtype=np.float32)
try:
    compiled = sl.compile_mlir(text, {"w": w}, routes={"linear": "onednn"}, cache=False)
    np.testing.assert_allclose(compiled(x), x @ w.T, rtol=1e-4, atol=1e-4)
    print([row["backend"] for row in compiled.explain().statements])
except sl.UserError as error:
    print(str(error).replace(chr(10), " "))
"""

CUDA = """
import torch, straightline as sl
try:
    compiled = sl.compile(torch.nn.Linear(64, 48).eval(), (torch.randn(32, 64),), target="cuda:sm_90", cache=False)
except sl.UnsupportedError as error:
    print("refused: " + str(error).replace(chr(10), " "))
else:
    print([row["backend"] for row in compiled.explain().statements if row["phase"] == "run"], "SL_KERNEL" in compiled.code)
print(sl.__file__)
"""


def _names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def _environment(wheels: Any, command: Callable[..., str], version: str, folder: Path) -> Path:
    command(wheels.interpreter(version), "-m", "venv", folder)
    return folder / "bin" / "python"


def _beside_torch(wheels: Any, command: Callable[..., str], folder: Path) -> Path:
    """Torch and the like are those of this environment, by a path file; straightline comes from the wheel alone."""
    python = _environment(wheels, command, THIS, folder / "venv")
    command(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheels.wheel(THIS))
    site = Path(command(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    framework = folder / "framework"
    framework.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if entry.suffix != ".pth" and not entry.name.startswith("straightline"):  # not the build tree's
            (framework / entry.name).symlink_to(entry)
    (site / "framework.pth").write_text(f"{framework}\n")
    return python


def test_what_the_wheel_holds(wheels: Any) -> None:
    wheel = wheels.wheel(THIS)
    tag = f"cp{THIS.replace('.', '')}"
    assert wheel.name.endswith(f"-{tag}-{tag}-manylinux_2_34_x86_64.whl")
    assert wheel.stat().st_size < 60e6
    names = _names(wheel)
    libraries = {Path(name).name for name in names if name.endswith(".so")}
    assert {"_call.abi3.so", "libstraightline_compiler.so", "libstraightline_runtime.so"} <= libraries
    assert sum(name.startswith("_compiler.cpython-") for name in libraries) == 1
    assert {f"straightline/torch_device/_straightline_torch_device.{suffix}" for suffix in ("so", "json")} <= names
    assert not any("dnnl" in name or "test_device" in name for name in names)
    # Sources of our own stay at home, but for what is compiled where it runs: the benchmark's loops, and torch's device.
    compiled_there = ("straightline/bench/native/", "straightline/torch_device/native/")
    assert {name for name in names if name.endswith((".c", ".cpp")) and not name.startswith(compiled_there)} == set()
    assert {
        f"straightline/include/straightline/{name}"
        for name in ("straightline.hpp", "compiler_abi.h", "abi/straightline.h")
    } <= names
    assert {"straightline/licenses/llvm-22-dev.txt", "straightline/licenses/libzstd-dev.txt"} <= names


def test_resnet_18_in_a_clean_environment(wheels: Any, command: Callable[..., str], tmp_path: Path) -> None:
    python = _beside_torch(wheels, command, tmp_path)
    place, why = command(python, "-c", RESNET, cwd=tmp_path).strip().splitlines()[-2:]
    assert Path(place).is_relative_to(tmp_path), place
    # oneDNN is an extra that was not asked for: its kernel says so, and nothing fails.
    assert "onednn.inner_product: not available: libdnnl" in why and "straightline[onednn]" in why, why


def test_a_cuda_device_in_a_clean_environment(wheels: Any, command: Callable[..., str], tmp_path: Path) -> None:
    """By the wheel of NVRTC beside it; without that by the one that is named; without any, what to install is said."""
    python = _beside_torch(wheels, command, tmp_path)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "STRAIGHTLINE"))}

    def said(**settings: str) -> str:
        text, place = command(python, "-c", CUDA, cwd=tmp_path, env=clean | settings).strip().splitlines()[-2:]
        assert Path(place).is_relative_to(tmp_path), place
        return text

    compiles = "['cuda'] True"
    assert said() == compiles
    # The newest of those installed: the tests' environment has one of CUDA 12 beside it.
    nvrtc, *_ = sorted((tmp_path / "framework" / "nvidia").glob("cu*/lib/libnvrtc.so.*"))
    named = nvrtc.resolve()
    (tmp_path / "framework" / "nvidia").unlink()
    assert said(STRAIGHTLINE_NVRTC=str(named)) == compiles
    refused = said(STRAIGHTLINE_NVRTC=str(nvrtc))
    assert refused.startswith("refused: NVIDIA's run-time compiler libnvrtc.so.13 (or .12) is needed"), refused
    assert "`pip install nvidia-cuda-nvrtc` brings it (for a driver of CUDA 12 nvidia-cuda-nvrtc-cu12)" in refused, (
        refused
    )


def test_torch_device_without_a_compiler(wheels: Any, command: Callable[..., str], tmp_path: Path) -> None:
    """The wheel has the C++ part of torch's device for this torch: the import builds nothing."""
    python = _beside_torch(wheels, command, tmp_path)
    library = example("device", tmp_path)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "STRAIGHTLINE"))}
    alone = "import sys, torch; print([name for name in sys.modules if name.startswith('straightline')])"
    assert command(python, "-c", alone, cwd=tmp_path, env=clean).strip() == "['straightline_torch_autoload']"
    clean |= {"STRAIGHTLINE_BACKEND_PATH": str(library), "STRAIGHTLINE_CACHE_DIR": str(tmp_path / "cache")}
    device = (
        "import torch, straightline.torch_device as d\nprint(torch.ones(3, device='sl').cpu().tolist(), d.__file__)"
    )
    said = command(python, "-c", device, cwd=tmp_path, env={**clean, "CXX": "no-such-compiler"}).strip()
    assert said.startswith(f"[1.0, 1.0, 1.0] {tmp_path}"), said
    refused = subprocess.run(
        [python, "-c", device],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**clean, "CXX": "no-such-compiler", "STRAIGHTLINE_DEVICE_PREBUILT": "0"},
    )
    assert refused.returncode == 1 and "CXX is 'no-such-compiler', which is no program" in refused.stderr


def _capture(folder: Path) -> None:
    """Writes a model, its parameters, an input and what the model makes of it."""
    import numpy as np
    import safetensors.torch
    import torch
    from straightline.demo_models import DigitsCnn

    import straightline as sl

    print("seed", torch.seed())
    model, x = DigitsCnn().eval(), torch.randn(4, 1, 8, 8)
    (folder / "captured.mlir").write_text(sl.compile(model, (x,)).ir("op"))
    read = sl.compile(model, (x,)).parameters()
    safetensors.torch.save_file(
        {name: tensor.contiguous() for name, tensor in read.items()}, folder / "captured.safetensors"
    )
    with torch.no_grad():
        np.save(folder / "expected.npy", model(x).numpy())
    np.save(folder / "input.npy", x.numpy())


def test_mlir_on_numpy_without_torch(wheels: Any, command: Callable[..., str], tmp_path: Path) -> None:
    wheel = wheels.wheel("3.12")
    python = _environment(wheels, command, "3.12", tmp_path / "venv")
    command(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{wheel}[safetensors]")
    _capture(tmp_path)
    place = command(python, "-c", MLIR, cwd=tmp_path).strip().splitlines()[-1]
    assert Path(place).is_relative_to(tmp_path), place
    command(
        tmp_path / "venv/bin/straightline", "compile", "model.mlir", "--parameters", "weights.safetensors", cwd=tmp_path
    )
    said = command(
        python,
        "-c",
        "import straightline as sl\ntry: sl.compile(len, ())\nexcept sl.UserError as e: print(e)",
        cwd=tmp_path,
    )
    assert "torch" in said and "straightline[torch]" in said


def test_the_extra_onednn(wheels: Any, command: Callable[..., str], tmp_path: Path) -> None:
    """A route to it says what to install, and works when that is done."""
    wheel = wheels.wheel("3.12")
    python = _environment(wheels, command, "3.12", tmp_path / "venv")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command(*install, wheel)
    without = command(python, "-c", ONEDNN, cwd=tmp_path).strip().splitlines()[-1]
    assert "route linear = onednn" in without and "pip install 'straightline[onednn]'" in without, without
    command(*install, f"{wheel}[onednn]")
    assert "onednn" in command(python, "-c", ONEDNN, cwd=tmp_path).strip().splitlines()[-1]


def test_the_check_finds_what_is_wrong(wheels: Any, tmp_path: Path) -> None:
    """The same wheel against an older glibc and a smaller size: each fault has its line."""
    wheel = wheels.wheel(THIS)
    check = [sys.executable, str(ROOT / "tools/setup/check_wheel.py"), str(wheel)]
    done = subprocess.run([*check, "--glibc", "2.33", "--megabytes", "10"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert any("MB but at most 10 are allowed" in line for line in lines)
    assert any(
        line.startswith("libstraightline_compiler.so wants") and "GLIBC 2.34 but the floor is 2.33" in line
        for line in lines
    )
    with zipfile.ZipFile(wheel) as archive:
        archive.extract("straightline/_call.abi3.so", tmp_path)
    lonely = tmp_path / "lonely.whl"
    with zipfile.ZipFile(lonely, "w") as archive:
        archive.write(tmp_path / "straightline/_call.abi3.so", "straightline/_call.abi3.so")
    done = subprocess.run([*check[:2], str(lonely)], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "needs libstraightline_runtime.so, which is neither in the wheel" in done.stdout
