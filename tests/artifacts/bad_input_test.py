# SPDX-License-Identifier: Apache-2.0
"""Artifacts that are damaged, of another version, or for another machine: one error in words, and nothing is run."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import straightline as sl
import torch
from ahead_of_time import Sanitizer, build_folder, compiler, run_command
from straightline import _call
from torch import nn

_HERE = Path(__file__).resolve().parent


def _function() -> Any:
    torch.manual_seed(1)
    return sl.compile(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval(), (torch.randn(2, 8),))


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "m.sl"
    _function().save(path, ("x86-64-v3",))
    return path


def _digest(data: bytes) -> str:
    return _call.digest(ctypes.cast(data, ctypes.c_void_p).value or 0, len(data))


def _folder(saved: Path, folder: Path, change: Callable[[dict[str, Any]], None] | None = None) -> Path:
    """The artifact as a folder, its manifest changed and signed anew."""
    zipfile.ZipFile(saved).extractall(folder)
    if change is not None:
        manifest = json.loads((folder / "manifest.json").read_text())
        change(manifest)
        text = json.dumps(manifest).encode()
        (folder / "manifest.json").write_bytes(text)
        (folder / "checksum").write_text(_digest(text))
    return folder


def _refused(path: Path, words: str, kind: type[Exception] = sl.UserError, **options: Any) -> None:
    with pytest.raises(kind, match=words) as caught:
        sl.load(path, **options)
    assert os.fspath(path) in str(caught.value)


def test_no_artifact_at_all(saved: Path, tmp_path: Path) -> None:
    _refused(tmp_path / "missing.sl", "No such file")
    (tmp_path / "empty.sl").write_bytes(b"")
    _refused(tmp_path / "empty.sl", "too short to be a zip")
    (tmp_path / "text.sl").write_text("hello " * 100)
    _refused(tmp_path / "text.sl", "no zip directory")
    with zipfile.ZipFile(tmp_path / "other.sl", "w") as other:
        other.writestr("a", "b")
    _refused(tmp_path / "other.sl", "manifest.json is missing")
    (tmp_path / "folder").mkdir()
    _refused(tmp_path / "folder", "manifest.json: No such file")
    with zipfile.ZipFile(tmp_path / "packed.sl", "w", zipfile.ZIP_DEFLATED) as packed:
        for name in zipfile.ZipFile(saved).namelist():
            packed.writestr(name, zipfile.ZipFile(saved).read(name))
    _refused(tmp_path / "packed.sl", "compressed or encrypted")
    os.mkfifo(tmp_path / "pipe")
    _refused(tmp_path / "pipe", "it is no file")


def test_cut_short(saved: Path, tmp_path: Path) -> None:
    whole = saved.read_bytes()
    for count in range(0, len(whole), 997):
        (tmp_path / "m.sl").write_bytes(whole[:count])
        _refused(tmp_path / "m.sl", "no artifact|damaged")


def test_versions(saved: Path, tmp_path: Path) -> None:
    _refused(
        _folder(saved, tmp_path / "a", lambda m: m.update(format=99)),
        "artifact format 99 but this runtime reads 1 to 3 .*saved by",
    )
    _refused(
        _folder(saved, tmp_path / "c", lambda m: m.update(format=0)), "artifact format 0 but this runtime reads 1 to 3"
    )
    sl.load(_folder(saved, tmp_path / "d", lambda m: m.update(format=2)))
    words = f"abi_version 7 but this runtime reads {_call.ABI_VERSION}.*saved by straightline .*save the model again"
    _refused(_folder(saved, tmp_path / "b", lambda m: m.update(abi=7)), words)


def test_another_processor(saved: Path, tmp_path: Path) -> None:
    def change(manifest: dict[str, Any]) -> None:
        manifest["programs"][0]["variants"][0].update(cpu="z80", features=["avx2", "zilog"])

    _refused(
        _folder(saved, tmp_path / "a", change), "no code for this machine: cpu z80 needs zilog", sl.UnsupportedError
    )


def test_devices_that_nobody_knows(saved: Path, tmp_path: Path) -> None:
    def change(manifest: dict[str, Any]) -> None:
        variants = manifest["programs"][0]["variants"]
        variants[:] = [{**variants[0], "target": f"moon:{name}"} for name in ("one", "two")]

    words = "moon:one .* needs the backend moon, which is not in this process; moon:two .* needs the backend moon"
    _refused(_folder(saved, tmp_path / "a", change), words, sl.UnsupportedError)


def test_changed_files(saved: Path, tmp_path: Path) -> None:
    folder = _folder(saved, tmp_path / "a")
    code = folder / "programs/0/x86-64-v3/code.so"
    original = code.read_bytes()
    code.write_bytes(original[:-1] + bytes([original[-1] ^ 1]))
    _refused(folder, r"damaged: programs/0/x86-64-v3/code.so is not what was saved \(its digest differs\)")
    code.write_bytes(original + b"x")
    _refused(folder, f"has {len(original) + 1} bytes but {len(original)} were saved")
    code.unlink()
    _refused(folder, "code.so: No such file")
    code.write_bytes(original)
    weights = folder / "weights.safetensors"
    data = weights.read_bytes()
    weights.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    sl.load(folder)  # a number differs, which is seen when asked for
    _refused(folder, "damaged: weights.safetensors is not what was saved", verify=True)
    weights.write_bytes(data)
    manifest = folder / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"features"', '"Features"'))
    _refused(folder, "its manifest is not what was saved")


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda m: m.pop("files"), "lists no files"),
        (lambda m: m.pop("programs"), "lists no programs"),
        (lambda m: m.update(programs=[]), "lists no programs"),
        (lambda m: m.update(programs=[{}]), "no variants"),
        (lambda m: m["programs"][0].update(variants=[3]), "a variant is no object"),
        (lambda m: m["programs"][0]["variants"][0].pop("code"), "lacks its target, cpu"),
        (lambda m: m["programs"][0]["variants"][0].update(code="nothing"), "not among the files"),
        (lambda m: m["programs"][0]["variants"][0].update(prepared="nothing"), "not among the files"),
        (lambda m: m["programs"][0]["variants"][0]["parameters"].pop(), "has 4 parameters but the manifest names 3"),
        (lambda m: m["programs"][0]["variants"][0]["parameters"].reverse(), "where it is stored"),
        (lambda m: m["files"].update({"../x": {"bytes": 1, "xxh128": "0" * 32}}), "malformed"),
        (lambda m: m["files"].update({"x": {"bytes": -1, "xxh128": "0" * 32}}), "malformed"),
        (lambda m: m.update(weights="nothing"), "weights are not among"),
        (lambda m: m.update(format="one"), "lacks the versions"),
        (lambda m: m.pop("table"), "manifest is malformed"),
        (lambda m: m["programs"][0].pop("inputs"), "manifest is malformed"),
        (
            lambda m: m["programs"][0].update(
                outputs={"kind": "moon", "name": "x", "children": [], "type": ["a", "b"]}
            ),
            "a of",
        ),
        (lambda m: m["programs"][0].update(outputs=[]), "malformed"),
    ],
)
def test_manifests(saved: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None], words: str) -> None:
    with pytest.raises(sl.StraightlineError):
        sl.load(_folder(saved, tmp_path / "a", change))


def test_disk_full_and_two_writers(tmp_path: Path) -> None:
    function = _function()
    if os.path.exists("/dev/full"):
        with pytest.raises(sl.UserError, match="cannot write"):
            function.save("/dev/full/m.sl")
    path = tmp_path / "m.sl"
    errors: list[BaseException] = []

    def write() -> None:
        try:
            for _ in range(5):
                function.save(path, ("x86-64-v3",))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write) for _ in range(3)]
    for thread in threads:
        thread.start()
    loads = 0
    while any(thread.is_alive() for thread in threads):
        if path.exists():
            sl.load(path, verify=True)  # whole at every moment
            loads += 1
    for thread in threads:
        thread.join()
    assert not errors and loads > 0
    assert os.listdir(tmp_path) == ["m.sl"]


def test_no_room(tmp_path: Path) -> None:
    """A limit on the size of files stands for a full disk."""
    script = """
import resource, sys, torch, straightline as sl
fn = sl.compile(torch.nn.Linear(64, 64).eval(), (torch.randn(1, 64),), cache=False)
fn.save(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    fn.save(sys.argv[1])
except sl.UserError as error:
    print("refused:", error)
resource.setrlimit(resource.RLIMIT_FSIZE, (20000, resource.RLIM_INFINITY))
sl.load(sys.argv[1], verify=True)
"""
    import sys

    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "m.sl"], capture_output=True, text=True, check=False
    )
    assert "refused: cannot write" in done.stdout, done.stderr
    assert os.listdir(tmp_path) == ["m.sl"]


@pytest.fixture(scope="module")
def driver() -> Iterator[Path]:
    """fuzz_driver.cpp over the runtime, both under AddressSanitizer."""
    sanitizer = Sanitizer("asan", "address,undefined")
    program = build_folder() / "aot" / "asan" / "fuzz_driver"
    run_command(
        [
            *(["ccache"] if shutil.which("ccache") else []), compiler(), "-std=c++20", "-O1", "-gline-tables-only",
            *sanitizer.flags, f"-I{sanitizer.runtime / 'include'}", "-c", _HERE / "fuzz_driver.cpp", "-o", f"{program}.o",
        ]
    )  # fmt: skip
    run_command(
        [
            compiler(), *sanitizer.flags, f"{program}.o", f"-L{sanitizer.runtime}", "-lstraightline_runtime",
            f"-Wl,-rpath,{sanitizer.runtime}", "-o", program,
        ]
    )  # fmt: skip
    yield program


@pytest.mark.parametrize("which", ["plain", "prepared", "states"])
def test_damaged_files(driver: Path, which: str, tmp_path: Path, seed: int) -> None:
    """Nothing crashes, nothing outside is read. STRAIGHTLINE_TEST_FUZZ says how many of each (700 by default)."""
    if which == "states":

        class Counter(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("count", torch.zeros(3))

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.count.add_(x)

        function = sl.compile(Counter(), [(torch.randn(3),), (torch.randn(2, 3)[0],)][:1])
    else:
        function = _function()
    path = tmp_path / "m.sl"
    function.save(path, ("x86-64-v3",), prepared=which == "prepared")
    count = int(os.environ.get("STRAIGHTLINE_TEST_FUZZ", "700"))
    environment = {**os.environ, "ASAN_OPTIONS": "exitcode=99:detect_leaks=1", "UBSAN_OPTIONS": "exitcode=99"}
    done = subprocess.run(
        [driver, path, str(count), str(seed), tmp_path / "bad.sl"],
        capture_output=True, text=True, check=False, env=environment, timeout=1200,
    )  # fmt: skip
    assert done.returncode == 0, f"seed {seed}: {done.stderr[-6000:]}"
    loaded, refused = map(int, re.findall(r"\d+", done.stdout))
    assert loaded + refused == count and refused > count / 2
    whole = subprocess.run(
        [driver, path, "0", "0", path], capture_output=True, text=True, check=False, env=environment, timeout=120
    )
    assert whole.stdout == "loaded 1 refused 0\n", whole.stderr


def test_the_golden_artifact() -> None:
    """golden/mlp.sl was saved at format 1 and abi 8 (2026-11-27) and loads in every later build of that abi, with the same bits."""
    import numpy as np

    golden = _HERE / "golden"
    if _call.ABI_VERSION != 8:
        _refused(golden / "mlp.sl", "abi_version 8 but this runtime reads")
        return
    data = np.load(golden / "mlp.npz")
    loaded = sl.load(golden / "mlp.sl", verify=True)
    assert np.array_equal(loaded(data["x"]), data["y"])
    assert "sl_program_run" in loaded.code and loaded.explain().statements
    # Its description ends before what front ends advise.
    rows, columns = data["x"].shape
    with pytest.raises(sl.GuardError) as caught:
        loaded(np.zeros((rows + 1, columns), data["x"].dtype))
    assert str(caught.value).endswith(
        f"dim 0 is {rows + 1} but this program was compiled for {rows}; compile the module for this size, "
        "or with a named extent for the dim"
    )
