# SPDX-License-Identifier: Apache-2.0
"""What is refused as a plug-in, and with which words. What is refused is not registered, so this process stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
import straightline as sl
from builds import built

_REFUSED = {
    "FAULT_NO_ENTRY": 'it has no symbol straightline_backend_v1, which a plug-in exports as an extern "C" function',
    "FAULT_NULL": "straightline_backend_v1 gave NULL, expected a description",
    "FAULT_OTHER_VERSION": "backend 'probe': it was built for abi_version 99 but this runtime has 7; build it again with the "
    "headers of this release",
    "FAULT_SHORT": "a backend description that is too short to have a name and kernels",
    "FAULT_NO_NAME": "a backend description without a name",
    "FAULT_NO_KERNELS": "backend 'probe': it has 1 kernels, but kernels is NULL",
    "FAULT_NO_ACCEPTS": "backend 'probe': kernel number 0 lacks a name, op, accepts or cost",
    "FAULT_NO_RUN": "kernel 'probe.relu' has no run, which a library's kernel needs",
    "FAULT_NO_DESTROY": "kernel 'probe.relu' has no destroy, which plan needs",
    "FAULT_TWICE": "kernel 'probe.relu' is there twice: backend 'probe' has a kernel of that name",
    "FAULT_WHOLE_TEAM": "kernel 'probe.relu' has SL_KERNEL_EXCLUSIVE_HANDLE and whole_team, of which it can have one: threads "
    "of a team use one handle at once",
    "FAULT_CONCURRENT": "kernel 'probe.relu' has SL_KERNEL_EXCLUSIVE_HANDLE and SL_KERNEL_CONCURRENT, which contradict each other",
    'BACKEND="native"': "backend 'native' is registered already",
    'SYMBOL="exclusive"': "kernel 'probe.relu' has the symbol sl_exclusive_plan, which is the runtime's own",
    'KERNEL="native.gemm"': "kernel 'native.gemm' is there twice: backend 'native' has a kernel of that name",
}


@pytest.mark.parametrize("fault", _REFUSED)
def test_a_description_that_is_refused(fault: str, tmp_path: Path) -> None:
    library = built(tmp_path, fault)
    with pytest.raises(sl.errors.UserError) as raised:
        sl.load_backend(library)
    assert str(raised.value) == f"plug-in {library}: {_REFUSED[fault]}"


def test_an_entry_that_throws(tmp_path: Path) -> None:
    library = built(tmp_path, "FROM_ENTRY", source="throws.cpp")
    said = "straightline_backend_v1 throws a C++ exception, which may not leave it: no entry"
    with pytest.raises(sl.errors.UserError) as raised:
        sl.load_backend(library)
    assert str(raised.value) == f"plug-in {library}: {said}"


def test_a_file_that_is_no_plug_in(tmp_path: Path) -> None:
    with pytest.raises(sl.errors.UserError, match=r"plug-in .*missing\.so: No such file or directory"):
        sl.load_backend(tmp_path / "missing.so")
    text = tmp_path / "text.so"
    text.write_text("no library")
    with pytest.raises(sl.errors.UserError, match=r"plug-in .*text\.so: it cannot be opened: .*"):
        sl.load_backend(text)
    with pytest.raises(
        sl.errors.UserError, match=f"plug-in {tmp_path}: it is no file, or a folder that cannot be read"
    ):
        sl.load_backend(tmp_path)
    with pytest.raises(sl.errors.UserError, match="path is a int, expected the path of a shared library"):
        sl.load_backend(3)  # type: ignore[arg-type]


def test_a_path_of_the_environment_that_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setenv("STRAIGHTLINE_BACKEND_PATH", f":{tmp_path}/missing.so")
    said = r"plug-in .*missing\.so: No such file or directory \(from STRAIGHTLINE_BACKEND_PATH\)"
    with pytest.raises(sl.errors.UserError, match=said):
        sl.compile(torch.sin, (torch.randn(3),))
    with pytest.raises(sl.errors.UserError, match=said):
        sl.compile_mlir(
            'func.func @f(%x: tensor<3xf32> {op.name = "x"}) -> (tensor<3xf32> {op.name = "y"}) { return %x : tensor<3xf32> }',
            {},
        )
    faulty = tmp_path / "folder"
    faulty.mkdir()
    (faulty / "libx.so").write_text("no library")
    (faulty / "notes.txt").write_text("is left alone")
    monkeypatch.setenv("STRAIGHTLINE_BACKEND_PATH", str(faulty))
    with pytest.raises(sl.errors.UserError, match=r"libx\.so: it cannot be opened"):
        sl.compile(torch.sin, (torch.randn(3),))


class _Entry:
    """An entry point."""

    name, value, dist = "probe", "probe:path", None

    def __init__(self, found: object) -> None:
        self._found = found

    def load(self) -> object:
        if isinstance(self._found, Exception):
            raise self._found
        return self._found


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (ImportError("no such module"), "fails: ImportError: no such module; repair or uninstall the package"),
        (lambda: 1 / 0, "fails: ZeroDivisionError: division by zero; repair or uninstall the package"),
        (lambda: 5, "gives a int, expected the path of a shared library"),
        (
            "/nowhere/libx.so",
            r"plug-in /nowhere/libx\.so: No such file or directory; it is named by the entry point 'probe'",
        ),
    ],
)
def test_an_entry_point_that_is_wrong(found: object, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    from straightline import backend_plugins

    monkeypatch.setattr(backend_plugins, "_opened_entry_points", False)
    monkeypatch.setattr(
        metadata, "entry_points", lambda group: [_Entry(found)] if group == "straightline.backends" else []
    )
    with pytest.raises(sl.errors.UserError, match=said):
        backend_plugins.open_all()
