# SPDX-License-Identifier: Apache-2.0
"""A program for several architectures of a CUDA device in one file: what is in it, and which of it a device takes.

No device is needed: NVRTC compiles for each, and bench/fake_cuda is a driver whose device has the compute capability that it is told.
tests/device/artifacts_test.py runs such files.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import straightline as sl
import torch
from straightline import library_writer
from straightline.__main__ import main
from torch import nn

from bench import cuda_call_path

_DEVICES = ("sm_80", "sm_90", "sm_100")
_HERE = Path(__file__).resolve().parent


class _Scaled(nn.Module):
    """A factor that is prepared from a parameter: loading the model starts a kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(128))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale.exp()


def _model() -> nn.Module:
    """Kernels whose schedules depend on the architecture: products of half, rows."""
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(64, 128), nn.GELU(), _Scaled(), nn.Softmax(-1), nn.Linear(128, 32)).half().eval()


def _few_rows() -> nn.Module:
    """Three kernels, of which those behind the first may start early."""
    return nn.Sequential(nn.Softmax(-1), nn.Linear(64, 64), nn.Softmax(0)).half().eval()


def _compiled(target: str = "cuda:sm_90", model: nn.Module | None = None, rows: int = 48) -> Any:
    ours = dict.fromkeys(("linear", "matmul"), "cuda")
    model = (model or _model()).requires_grad_(False)
    return sl.compile(model, (torch.randn(rows, 64, dtype=torch.half),), target=target, routes=ours)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Saved on a machine without a device, or with one: by what was compiled for sm_90."""
    path = tmp_path_factory.mktemp("devices") / "m.sl"
    _compiled().save(path, ("x86-64-v3",), devices=_DEVICES)
    return path


def _manifest(path: Path) -> dict[str, Any]:
    return json.loads(zipfile.ZipFile(path).read("manifest.json"))


def _architecture(cubin: bytes) -> int:
    """Of e_flags: bits 8 to 15 of newer cubins (EI_ABIVERSION 8), bits 0 to 7 of older ones."""
    assert cubin[:4] == b"\x7fELF"
    (flags,) = struct.unpack_from("<I", cubin, 48)
    return flags >> 8 & 0xFF if cubin[8] >= 8 else flags & 0xFF


def test_each_architecture_has_a_program_of_its_own(saved: Path) -> None:
    archive, manifest = zipfile.ZipFile(saved), _manifest(saved)
    [program] = manifest["programs"]
    variants = {variant["target"]: variant for variant in program["variants"]}
    assert list(variants) == [*(f"cuda:{device}" for device in _DEVICES), "cuda:compute_80"]
    assert manifest["format"] == 2
    texts = {}
    for target, variant in variants.items():
        assert variant["cpu"] == "x86-64-v3" and variant["parameters"] and variant["image_compiler"] > 12000
        assert {variant["code"], *variant["images"].values()} <= set(manifest["files"])
        explained = json.loads(gzip.decompress(archive.read(variant["explain"])))
        kernel = gzip.decompress(archive.read(variant["kernel"])).decode()
        texts[target] = gzip.decompress(archive.read(variant["source"])).decode()
        real = target.replace("compute_", "sm_").removeprefix("cuda:")
        assert explained["target"] == real and f'target(<"cuda", "{real}"' in kernel
        for file in variant["images"].values():
            data = archive.read(file)
            if "compute" in target:
                assert data.endswith(b"\0") and re.search(rb"^\.target sm_80\b", data, re.MULTILINE)
                assert b".entry" in data
            else:
                assert _architecture(data) == int(real[3:])
    assert texts["cuda:sm_80"] != texts["cuda:sm_90"]  # schedules of their own
    own, later = variants["cuda:sm_80"], variants["cuda:compute_80"]
    assert later["code"] == own["code"] and set(later["images"]) == set(own["images"])
    assert {file for file in manifest["files"] if file.endswith(".ptx")} == set(later["images"].values())


def test_the_file_is_that_of_each_alone(saved: Path, tmp_path: Path) -> None:
    """Code and machine code are those of a program that was compiled for that architecture; weights are stored once."""
    everything = zipfile.ZipFile(saved)
    for device in _DEVICES:
        alone = tmp_path / f"{device}.sl"
        _compiled(f"cuda:{device}").save(alone, ("x86-64-v3",))
        manifest = _manifest(alone)
        assert manifest["format"] == 1 and len(manifest["programs"][0]["variants"]) == 1
        one = zipfile.ZipFile(alone)
        for name in manifest["files"]:
            if name.endswith((".cubin", ".so", "kernel.mlir.gz", "source.cpp.gz", ".safetensors")):
                assert one.read(name) == everything.read(name), name
    names = [name for name in everything.namelist() if name.endswith(".safetensors")]
    assert names == ["weights.safetensors"]
    state = _model().state_dict()
    data = everything.read(names[0])
    (count,) = struct.unpack_from("<Q", data)
    for name, row in json.loads(data[8 : 8 + count]).items():
        begin, end = (8 + count + at for at in row["data_offsets"])
        assert data[begin:end] == state[name].numpy().tobytes()


def test_two_saves_are_one_file_and_saved_ones_are_saved_again(saved: Path, tmp_path: Path) -> None:
    _compiled().save(tmp_path / "again.sl", ("x86-64-v3",), devices=_DEVICES)
    assert (tmp_path / "again.sl").read_bytes() == saved.read_bytes()
    function = _compiled("cuda:sm_80")
    function.save(tmp_path / "other.sl", ("x86-64-v3",), devices=("cuda:sm_90", "sm_80", "sm_90"))
    targets = [variant["target"] for variant in _manifest(tmp_path / "other.sl")["programs"][0]["variants"]]
    assert targets == ["cuda:sm_90", "cuda:sm_80", "cuda:compute_80"]


def test_suffixes_have_no_text_for_others(tmp_path: Path) -> None:
    _compiled().save(tmp_path / "m.sl", ("x86-64-v3",), devices=("sm_90a", "sm_100"))
    targets = [variant["target"] for variant in _manifest(tmp_path / "m.sl")["programs"][0]["variants"]]
    assert targets == ["cuda:sm_90a", "cuda:sm_100", "cuda:compute_100"]
    _compiled().save(tmp_path / "m.sl", ("x86-64-v3",), devices=("sm_90a", "sm_100f"))
    manifest = _manifest(tmp_path / "m.sl")
    assert [variant["target"] for variant in manifest["programs"][0]["variants"]] == ["cuda:sm_90a", "cuda:sm_100f"]
    _compiled().save(tmp_path / "m.sl", ("x86-64-v3",), devices=("sm_80",))
    manifest = _manifest(tmp_path / "m.sl")
    assert manifest["format"] == 1 and manifest["programs"][0]["variants"][0]["target"] == "cuda:sm_80"


def test_bad_arguments(tmp_path: Path) -> None:
    function, on_host = _compiled(), sl.compile(nn.Linear(4, 4).eval(), (torch.randn(2, 4),))
    for given, kind, words in (
        ({"devices": "sm_80"}, sl.UserError, "devices is 'sm_80' but must be a sequence"),
        ({"devices": (80,)}, sl.UserError, "devices is (80,)"),
        ({"devices": ("cuda",)}, sl.UserError, "devices has 'cuda'"),
        ({"devices": ("sm_80a",)}, sl.UserError, "sm_80 has no form 'a'"),
        ({"devices": ("compute_80",)}, sl.UserError, "devices has 'compute_80'"),
        ({"devices": ("sm_80", "sm_70")}, sl.UnsupportedError, "sm_70 is too old"),
        ({"devices": ("sm_80", "sm_999")}, sl.UnsupportedError, "unknown to NVRTC"),
        (
            {"devices": ("sm_80",), "prepared": True},
            sl.UnsupportedError,
            "the weights for cuda:sm_80 are prepared on a device that runs",
        ),
    ):
        with pytest.raises(kind, match=re.escape(words)):
            function.save(tmp_path / "m.sl", **given)
    with pytest.raises(sl.UserError, match=re.escape("the program is for the cpu: compile it")):
        on_host.save(tmp_path / "m.sl", devices=("sm_80",))
    assert os.listdir(tmp_path) == []


def test_without_a_device_it_is_refused_in_words(saved: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a device")
    with pytest.raises(sl.UnsupportedError) as caught:
        sl.load(saved)
    assert (
        "cuda:sm_80" in str(caught.value) and "cuda:compute_80" in str(caught.value) and "libcuda" in str(caught.value)
    )
    with pytest.raises(sl.UnsupportedError, match="another kind of device"):
        sl.load(saved, device="cpu")


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.export.save(torch.export.export(_model(), (torch.randn(48, 64, dtype=torch.half),)), tmp_path / "m.pt2")
    common = ["compile", str(tmp_path / "m.pt2"), "--target", "cuda:sm_90", "-o"]
    assert main([*common, str(tmp_path / "m.sl"), "--devices", "sm_80", "sm_90"]) == 0
    targets = [variant["target"] for variant in _manifest(tmp_path / "m.sl")["programs"][0]["variants"]]
    assert targets == ["cuda:sm_80", "cuda:sm_90", "cuda:compute_80"]
    capsys.readouterr()
    assert main([*common, str(tmp_path / "libm.so"), "--emit", "shared-lib", "--devices", "sm_80", "sm_90"]) == 0
    assert (tmp_path / "libm.so").stat().st_size > (tmp_path / "m.sl").stat().st_size / 2
    capsys.readouterr()
    assert main([*common, str(tmp_path / "src"), "--emit", "c-source", "--devices", "sm_80"]) == 3
    assert "c-source is for the cpu" in capsys.readouterr().err


#: What a device of a compute capability takes of _DEVICES; None: nothing.
_TAKEN = {
    "75": None, "80": "cuda:sm_80", "86": "cuda:sm_80", "89": "cuda:sm_80", "90": "cuda:sm_90", "100": "cuda:sm_100",
    "103": "cuda:sm_100", "110": "cuda:compute_80", "120": "cuda:compute_80",
}  # fmt: skip


def test_a_device_takes_the_nearest_that_it_runs(saved: Path, tmp_path: Path) -> None:
    """By a driver of our own: the choice, and the machine code that the driver is given, from Python's functions and from C's."""
    cuda_call_path.build(tmp_path)
    for capability, target in _TAKEN.items():
        answer = _there(tmp_path, capability, "choose", saved)
        if target is None:
            for text in (answer["error"], answer["model_error"]):
                assert "does not run on device 0, which is sm_75" in text and "devices=" in text
                assert all(f"cuda:{device}" in text for device in _DEVICES)
        else:
            assert answer["target"] == target
            assert answer["model_image"].startswith(
                "7f454c46" if "sm_" in target else "2f2f"
            )  # ELF, or a comment of PTX


def test_a_library_for_several_devices(tmp_path: Path) -> None:
    """One with code for each, its PTX too, chosen when the model is loaded; the static one has the same parts."""
    cuda_call_path.build(tmp_path)
    function = _compiled()
    for name, kind in (("libm.so", "shared-lib"), ("libm.a", "static-lib")):
        library_writer.write(function, tmp_path / name, kind, "m", ("x86-64-v3",), devices=_DEVICES)
    program = '#include "m.h"\nint main(void) { return (int)sl_model_m.code_count; }\n'
    (tmp_path / "main.c").write_text(program)
    package = Path(sl.__file__).parent
    subprocess.run(
        ["gcc", tmp_path / "main.c", f"-I{package.parents[1]}/include", f"-I{package}/include", "-o", tmp_path / "main",
         tmp_path / "libm.a"], check=True,
    )  # fmt: skip
    assert subprocess.run([tmp_path / "main"], check=False).returncode == len(_DEVICES) + 1
    for capability, target in _TAKEN.items():
        answer = _there(tmp_path, capability, "linked", tmp_path / "libm.so")
        if target is None:
            assert "does not run on device 0, which is sm_75" in answer["model_error"]
            continue
        image = bytes.fromhex(answer["model_image"])
        if "compute" in target:
            assert re.search(rb"^\.target sm_80\b", image, re.MULTILINE)
        else:
            assert _architecture(image) == int(target.removeprefix("cuda:sm_"))


def test_what_older_devices_text_does_not_wait_for(tmp_path: Path) -> None:
    """A kernel that may start early waits by an instruction that code for sm_80 lacks: as PTX on a later device it starts in order."""
    cuda_call_path.build(tmp_path)
    function = _compiled(model=_few_rows(), rows=8)
    function.save(tmp_path / "later.sl", ("x86-64-v3",), devices=("sm_80", "sm_100"))
    function.save(tmp_path / "own.sl", ("x86-64-v3",), devices=("sm_90", "sm_100"))
    own = _there(tmp_path, "90", "run", tmp_path / "own.sl")
    later = _there(tmp_path, "90", "run", tmp_path / "later.sl")
    assert own["target"] == "cuda:sm_90" and later["target"] == "cuda:compute_80"
    assert own["launches"] > 1 and later["launches"] > 1
    assert own["early"] > 0 and later["early"] == 0
    as_text = _there(tmp_path, "120", "run", tmp_path / "own.sl")
    assert as_text["target"] == "cuda:compute_90" and as_text["early"] > 0


def _there(folder: Path, capability: str, *arguments: str | Path) -> dict[str, Any]:
    environment = {
        **os.environ, cuda_call_path.HERE: str(folder), "LD_LIBRARY_PATH": str(folder),
        "STRAIGHTLINE_FAKE_CAPABILITY": capability,
    }  # fmt: skip
    command = [sys.executable, _HERE / "on_fake_device.py", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=_HERE.parents[1])
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])
