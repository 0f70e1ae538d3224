# SPDX-License-Identifier: Apache-2.0
"""Functions with slots in files: all choices in one, prepared data once, chosen in Python and in C."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import straightline as sl
import torch
from bad_input_test import _folder, _refused
from c_api_test import BUILD, PACKAGE, ROOT, _command, _raw, caller  # noqa: F401
from straightline import _call, library_writer
from straightline.artifact import manifest_of
from straightline.__main__ import main
from torch import Tensor, nn

NATIVE = {"linear": ["native.gemm", "native.gemv"], "convolution": ["native.convolution", "native.convolution_direct"]}


class Model(nn.Module):
    """Packed convolutions and a linear of one row; a state counts the calls."""

    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.fc = nn.Conv2d(8, 16, 3), nn.Linear(16 * 4 * 4, 32)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        return self.fc(torch.relu(self.conv(x)).flatten(1)) + self.count


X = torch.randn(1, 8, 6, 6)


def choices(function: Any) -> list[dict[str, str]]:
    return [dict(zip(function.slots, one, strict=True)) for one in itertools.product(*function.slots.values())]


def results(function: Any, x: Tensor) -> list[Tensor]:
    """Of every choice, with the count of its call taken off."""
    found = []
    for choice in choices(function):
        with sl.slot(**choice):
            found.append(function(x) - function.parameters()["count"])
    return found


def test_a_file_has_every_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model().eval()
    function = sl.compile(model, (X,), slots=NATIVE)
    expected = results(function, X)
    function.save(tmp_path / "m.sl")
    again = tmp_path / "again.sl"
    function.save(again)
    assert again.read_bytes() == (tmp_path / "m.sl").read_bytes()
    manifest = manifest_of(tmp_path / "m.sl")
    assert manifest["format"] == 3 and len(manifest["programs"]) == 4
    assert manifest["slots"]["ops"][0] == {"op": "linear", "targets": NATIVE["linear"]}
    from straightline import _compiler

    monkeypatch.setattr(_compiler, "compile", None)  # a file is opened without a compiler
    loaded = sl.load(tmp_path / "m.sl")
    assert loaded.slots == function.slots and loaded.examples == function.examples
    before = float(loaded.parameters()["count"])
    for found, want in zip(results(loaded, X), expected, strict=True):
        torch.testing.assert_close(found, want, rtol=0, atol=1e-5)
    assert float(loaded.parameters()["count"]) == before + 4, "one state for all choices"
    held = [_call.prepared_bytes(one._weights) for one in loaded._all]
    assert held[0] > 0 and held[1:] == [0, 0, 0]
    with sl.slot(linear="onednn"), pytest.raises(sl.UserError, match="slot linear is chosen as 'onednn'"):
        loaded(X)
    other = Model().eval()
    changed = loaded.with_parameters(other.state_dict())
    torch.testing.assert_close(
        torch.stack(results(changed, X)), torch.stack([other.fc(torch.relu(other.conv(X)).flatten(1))] * 4)
    )


@pytest.mark.parametrize("emit", ["cpp", "python"])
def test_several_examples_cpus_and_saved_again(emit: str, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)).eval()
    few, many = torch.randn(2, 8), torch.randn(16, 8)
    function = sl.compile(model, [(few,), (many,)], slots={"linear": ["native", "onednn"]}, emit=emit)
    function.save(tmp_path / "a.sl", ("x86-64-v3", "host"), libraries=["onednn"])
    loaded = sl.load(tmp_path / "a.sl")
    loaded.save(tmp_path / "b.sl", ("x86-64-v3", "host"), libraries=["onednn"])
    for each in (loaded, sl.load(tmp_path / "b.sl")):
        for target in ("native", "onednn"):
            with sl.slot(linear=target):
                for x in (few, many):
                    torch.testing.assert_close(each(x), model(x))
        with pytest.raises(sl.GuardError):
            each(torch.randn(3, 8))


def test_prepared_data_is_in_the_file_once(tmp_path: Path) -> None:
    model = Model().eval()
    function = sl.compile(model, (X,), slots=NATIVE)
    function.save(tmp_path / "m.sl", ("x86-64-v3", "host"), prepared=True)
    names = [name for name in zipfile.ZipFile(tmp_path / "m.sl").namelist() if name.endswith("prepared.bin")]
    cpus = {variant["cpu"] for variant in manifest_of(tmp_path / "m.sl")["programs"][0]["variants"]}
    assert len(names) == len(cpus), names
    variants = [variant for program in manifest_of(tmp_path / "m.sl")["programs"] for variant in program["variants"]]
    assert {variant.get("prepared") for variant in variants} - {None} == set(names)  # some programs prepare nothing
    loaded = sl.load(tmp_path / "m.sl", verify=True)
    assert [_call.prepared_bytes(one._weights) for one in loaded._all] == [0] * 4, "all read the file"
    for found, want in zip(results(loaded, X), results(function, X), strict=True):
        torch.testing.assert_close(found, want, rtol=0, atol=1e-5)
    with pytest.raises(sl.UnsupportedError, match="prepared=True: .*onednn"):
        sl.compile(model, (X,), slots={"linear": ["native", "onednn"]}).save(
            tmp_path / "n.sl", libraries=["onednn"], prepared=True
        )


@torch.no_grad()
@pytest.mark.parametrize("prepared", [False, True])
def test_choices_in_c(prepared: bool, caller: Path, tmp_path: Path) -> None:  # noqa: F811
    model = nn.Sequential(nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(256, 32)).eval()
    function = sl.compile(model, (X,), slots=NATIVE)
    function.save(tmp_path / "m.sl", ("host",), prepared=prepared)
    (tmp_path / "in0").write_bytes(_raw(X))
    (tmp_path / "shapes").write_text("1 8 6 6\n")
    _command(caller, tmp_path, "3")
    assert (tmp_path / "out0").read_bytes() == _raw(function(X))
    safetensors = pytest.importorskip("safetensors.torch")
    other = {name: torch.randn_like(value) for name, value in model.state_dict().items()}
    safetensors.save_file(other, tmp_path / "other.safetensors")
    changed = function.with_parameters(other)
    for choice in choices(function):
        _command(caller, tmp_path, "3", ", ".join(f"{op} = {target}" for op, target in choice.items()))
        with sl.slot(**choice):
            assert (tmp_path / "out0").read_bytes() == _raw(function(X))
            assert (tmp_path / "other0").read_bytes() == _raw(changed(X))
    _command(caller, tmp_path, "1", "convolution=native.convolution_direct")
    with sl.slot(convolution="native.convolution_direct"):
        assert (tmp_path / "out0").read_bytes() == _raw(function(X))
    for wrong, words in (
        ("softmax=native", "the model has no slot 'softmax'; it has linear, convolution"),
        ("linear=mkl", "slot linear is chosen as 'mkl', but the model was compiled with native.gemm, native.gemv"),
        ("linear", "slot linear is chosen as '', but the model was compiled with native.gemm, native.gemv"),
    ):
        done = subprocess.run([caller, tmp_path, "1", wrong], capture_output=True, text=True, check=False)
        assert done.returncode == 1 and words in done.stderr, done.stderr
    sl.compile(model, (X,)).save(tmp_path / "m.sl", ("host",))
    done = subprocess.run([caller, tmp_path, "1", "linear=native"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "the model has no slot 'linear'; it has none" in done.stderr, done.stderr


def test_manifests_whose_slots_are_wrong(tmp_path: Path) -> None:
    function = sl.compile(Model().eval(), (X,), slots=NATIVE)
    function.save(tmp_path / "m.sl", ("x86-64-v3",))

    def changed(name: str, change: Any) -> Path:
        return _folder(tmp_path / "m.sl", tmp_path / name, change)

    many = [{"op": str(i), "targets": ["a", "b"]} for i in range(64)]
    for name, slots, words in (
        ("a", {"ops": "linear", "shared": True}, "its slots lack their ops"),
        ("b", {"ops": []}, "its slots lack their ops, or whether they share prepared data"),
        ("c", {"ops": [{"op": "linear", "targets": ["native"]}], "shared": True}, "a slot lacks its op or two targets"),
        ("d", {"ops": many, "shared": True}, "a slot lacks its op or two targets, or has too many"),
        (
            "e",
            {"ops": [{"op": "x", "targets": ["a", "b", "c"]}], "shared": True},
            "a combination of slots lacks its programs",
        ),
    ):
        _refused(changed(name, lambda m, s=slots: m.update(slots=s)), words)


def _linked(folder: Path, library: list[Any], *choice: str) -> list[str]:
    """What the examples of C and of C++ print; the same of both."""
    said = []
    for compiler, source in (("gcc", "c/slots.c"), ("g++", "cpp/slots.cpp")):
        standard = "-std=c++20" if compiler == "g++" else "-std=c11"
        program = folder / Path(source).suffix[1:]
        _command(
            compiler, standard, "-O1", "-Wall", "-Wextra", "-Werror", ROOT / "examples" / source, f"-I{folder}",
            f"-I{BUILD}/include", *library, f"-L{PACKAGE}", "-lstraightline_runtime", f"-Wl,-rpath,{PACKAGE}:{folder}",
            "-lm", "-lstdc++", "-o", program,
        )  # fmt: skip
        said.append(subprocess.run([program, *choice], capture_output=True, text=True, check=False))
    assert (said[0].returncode, said[0].stderr, said[0].stdout) == (said[1].returncode, said[1].stderr, said[1].stdout)
    return (said[0].stdout + said[0].stderr).splitlines()


@torch.no_grad()
@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("kind", ["shared-lib", "static-lib", "c-source"])
def test_choices_of_a_library(kind: str, prepared: bool, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(256, 32)).eval()
    function = sl.compile(model, (X,), slots=NATIVE)
    path = tmp_path if kind == "c-source" else tmp_path / ("libmodel.so" if kind == "shared-lib" else "libmodel.a")
    library_writer.write(function, path, kind, "model", ("x86-64-v3",), prepared)  # that other compilers know, too
    header = (tmp_path / "model.h").read_text()
    assert "//   linear: native.gemm, native.gemv\n//   convolution: native.convolution, native." in header
    if kind == "c-source":
        _command("cmake", "--install", BUILD, "--component", "package", "--prefix", tmp_path / "prefix")
        cmake = tmp_path / "prefix" / "straightline" / "cmake"
        _command("cmake", "-S", tmp_path, "-B", tmp_path / "build", "-G", "Ninja", f"-Dstraightline_DIR={cmake}")
        _command("cmake", "--build", tmp_path / "build")
        path = tmp_path / "build" / "libmodel.a"
    texts = [", ".join(f"{op} = {target}" for op, target in choice.items()) for choice in choices(function)]
    lines = _linked(tmp_path, [path], *texts)
    assert len(lines) == 4
    for line, text, choice in zip(lines, texts, choices(function), strict=True):
        with sl.slot(**choice):
            wanted = function(torch.ones_like(X))
        # The library adds in the order of other instructions: 8 ulp of the output's scale (straightline.testing.policy).
        near = pytest.approx(
            float(wanted[0, 0]), rel=0, abs=8 * torch.finfo(wanted.dtype).eps * float(wanted.abs().max())
        )
        assert line.startswith(f"{text}: ") and float(line.split(": ")[1]) == near
    assert _linked(tmp_path, [path], "linear = mkl") == [
        "slot linear is chosen as 'mkl', but the model was compiled with native.gemm, native.gemv"
    ]


def test_by_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.py").write_text(
        "import torch\nmodel, args = torch.nn.Linear(8, 8).eval(), (torch.randn(1, 8),)\n"
    )
    command = ["compile", str(tmp_path / "model.py"), "--cpus", "host", "--emit", "shared-lib", "-o"]
    assert main([*command, str(tmp_path / "libm.so"), "--slots", "linear=native.gemm,native.gemv"]) == 0
    assert "//   linear: native.gemm, native.gemv\n" in (tmp_path / "m.h").read_text()
    assert main([*command, str(tmp_path / "libn.so"), "--slots", "linear=native"]) == 1
    assert "slot 'linear' is ['native'] but must have two targets" in capsys.readouterr().err
    assert main([*command, str(tmp_path / "libn.so"), "--slots", "linear"]) == 1
    assert "slot 'linear' is [] but must have two targets" in capsys.readouterr().err


_CALLS = """
import sys, tvm_ffi, torch
module = tvm_ffi.load_module(sys.argv[1])
x, results = torch.load(sys.argv[2])
for choice, expected in results.items():
    for text in (choice, choice.replace(" ", ""), choice):
        torch.testing.assert_close(module.forward_with_slots(text, x), expected, rtol=0, atol=1e-5)
    into = torch.empty_like(expected)
    module.forward_with_slots(choice, x, into)
    torch.testing.assert_close(into, expected, rtol=0, atol=1e-5)
torch.testing.assert_close(module.forward(x), next(iter(results.values())), rtol=0, atol=1e-5)
for i in range(200):  # more texts than are kept
    module.forward_with_slots(" " * i + choice, x)
for arguments, words in (
    ((x,), "forward: the first argument must be a text that chooses slots, such as 'linear = onednn'"),
    ((), "the first argument must be a text"),
    (("linear = mkl", x), "forward: slot linear is chosen as 'mkl', but the model was compiled with"),
    (("softmax = native", x), "the model has no slot 'softmax'; it has linear, convolution"),
    ((choice, x[:, :3]), "dim 1"),
    ((choice,), "got 0 arguments but takes 1"),
):
    try:
        module.forward_with_slots(*arguments)
    except ValueError as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)
assert not [name for name in sys.modules if name.startswith("straightline")]
"""


@torch.no_grad()
def test_choices_of_an_exported_library(tmp_path: Path) -> None:
    pytest.importorskip("tvm_ffi")
    model = nn.Sequential(nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(256, 32)).eval()
    function = sl.compile(model, (X,), slots=NATIVE)
    function.export_library(tmp_path / "f.so", symbol="forward", cpus=("host",))
    found = {}
    for choice in choices(function):
        with sl.slot(**choice):
            found[", ".join(f"{op} = {target}" for op, target in choice.items())] = function(X)
    torch.save((X, found), tmp_path / "x.pt")
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    environment.pop("PYTHONPATH", None)
    _command(sys.executable, "-c", _CALLS, tmp_path / "f.so", tmp_path / "x.pt", env=environment, cwd="/")
    shown = _command("nm", "-D", "--defined-only", tmp_path / "f.so")
    assert {line.split()[-1] for line in shown.splitlines()} == {"__tvm_ffi_forward", "__tvm_ffi_forward_with_slots"}


def test_an_op_of_torch_has_no_slots(tmp_path: Path) -> None:
    function = sl.compile(nn.Linear(8, 8).eval(), (torch.randn(1, 8),), slots={"linear": NATIVE["linear"]})
    with pytest.raises(
        sl.UnsupportedError, match=r"no choice of slots \(linear\); nearest supported form: symbol='for"
    ):
        function.export_library(tmp_path / "m.so", symbol="f", torch_op="slots::f")
    assert not list(tmp_path.iterdir())
    assert json.loads(json.dumps(function.slots)) == {"linear": NATIVE["linear"]}
