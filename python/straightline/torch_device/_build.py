# SPDX-License-Identifier: Apache-2.0
"""The C++ part of torch's device: the package's own binary where it is for this torch, else one that is built here and kept.

It goes by the C++ API of torch, which changes from version to version, so no binary of it can be shipped for all. One built here
is in the cache's folder, once for each version of torch.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import straightline
from straightline import _call
from straightline.cache import cache_info
from straightline.errors import UserError
from straightline.torch_device import _prebuilt

_NAME = _prebuilt.NAME
_SOURCES = _prebuilt.SOURCES
_LIMIT_S = 1800
#: As in python/torch_device.cmake. Torch's headers name single ops, which saves a third of the time.
_FLAGS = ("-std=c++20", "-fPIC", "-w", "-fvisibility=hidden", "-DAT_PER_OPERATOR_HEADERS")
#: Units that only register.
_LESS_OPTIMISED = ("autocast", "module")


def headers() -> Path:
    """The folder "straightline" of headers: of an installed package, or of the build tree around it."""
    package = Path(straightline.__file__).parent
    for path in (package / "include", package.parents[1] / "include"):
        if (path / "straightline/abi").is_dir():
            return path / "straightline"
    raise UserError(f"the headers of straightline are missing from {package}: install it again")


@functools.cache
def folder() -> Path:
    """Where binaries are kept: beside the cache of compiled code, or, where that is off, for this process."""
    kept = cache_info().directory
    made = Path(kept) / "torch_device" if kept else Path(tempfile.mkdtemp(prefix="straightline_torch_device_"))
    made.mkdir(parents=True, exist_ok=True)
    return made


def compiler() -> str:
    """A C++ compiler of this machine."""
    named = os.environ.get("CXX")
    if named:
        if shutil.which(named) is None:
            raise UserError(
                f"CXX is {named!r}, which is no program: torch's device is built by it once for each version of torch"
            )
        return named
    found = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
    if found is None:
        raise UserError(
            "there is no C++ compiler, and torch's device is built by one, once for each version of torch: install g++ "
            "(Debian: apt-get install g++), or name one in CXX"
        )
    return found


def _key(cxx: str) -> str:
    import torch

    version = subprocess.run([cxx, "--version"], capture_output=True, text=True, check=False).stdout.splitlines()[:1]
    parts = [
        torch.__version__,
        torch.__file__,
        sys.implementation.cache_tag,
        _call.__file__,
        cxx,
        *version,
        *_FLAGS,
        *_LESS_OPTIMISED,
    ]
    parts += [path.read_text() for path in sorted(_SOURCES.iterdir()) if path.suffix in (".h", ".cpp")]
    parts += [path.read_text() for path in sorted((headers() / "abi").glob("*.h"))]
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:24]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process at a time."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def load() -> Any:
    """The extension module: the package's own, else one that is built if this version of torch has none yet.

    Raises:
        UserError: There is no compiler, or it fails.
    """
    own = prebuilt()
    return _loaded(own if own is not None else _kept())


def prebuilt() -> Path | None:
    """The package's own binary, if it is for this torch, Python and these sources; STRAIGHTLINE_DEVICE_PREBUILT=0: none is."""
    import torch

    wanted = os.environ.get("STRAIGHTLINE_DEVICE_PREBUILT", "1")
    if wanted not in ("0", "1"):
        raise UserError(f"STRAIGHTLINE_DEVICE_PREBUILT is {wanted!r} but must be 0 (build torch's device here) or 1")
    library = Path(__file__).parent / f"{_NAME}.so"
    about = library.with_suffix(".json")
    if wanted == "0" or not (library.exists() and about.exists() and torch._C._GLIBCXX_USE_CXX11_ABI):
        return None
    here = _prebuilt.description(Path(torch.__file__).parent, headers() / "abi")
    return library if json.loads(about.read_text()) == here else None


def _kept() -> Path:
    """The binary in the cache's folder, which is built if there is none."""
    cxx = compiler()
    library = folder() / f"{_NAME}-{_key(cxx)}.so"
    if not library.exists():
        with _locked(folder() / "build.lock"):
            if not library.exists():
                _build(cxx, library)
    return library


def _loaded(library: Path) -> Any:
    loader = importlib.machinery.ExtensionFileLoader(_NAME, str(library))
    spec = importlib.util.spec_from_file_location(_NAME, library, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def _build(cxx: str, library: Path) -> None:
    import torch

    print(f"straightline: building torch's device for torch {torch.__version__}, once; some minutes", file=sys.stderr)  # noqa: T201
    root = Path(torch.__file__).parent
    includes = [
        headers().parent,
        root / "include",
        root / "include/torch/csrc/api/include",
        sysconfig.get_paths()["include"],
    ]
    flags = [
        *_FLAGS,
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
        *(f"-I{path}" for path in includes),
    ]
    runtime = Path(_call.__file__).parent / "libstraightline_runtime.so"
    with tempfile.TemporaryDirectory(dir=folder()) as temporary:
        objects, running = [], []
        for source in sorted(_SOURCES.glob("*.cpp")):
            objects.append(Path(temporary) / f"{source.stem}.o")
            level = "-O1" if source.stem in _LESS_OPTIMISED else "-O2"
            command = [cxx, level, *flags, "-c", str(source), "-o", str(objects[-1])]
            running.append((source, subprocess.Popen(command, stderr=subprocess.PIPE, text=True)))
        try:
            for source, process in running:
                _finished(process, f"{cxx} fails on {source}")
        finally:
            for _, process in running:
                process.kill()
        made = Path(temporary) / library.name
        libraries = [f"-L{root / 'lib'}", "-ltorch_python", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{root / 'lib'}"]
        link = [
            cxx,
            "-shared",
            *map(str, objects),
            str(runtime),
            f"-Wl,-rpath,{runtime.parent}",
            *libraries,
            "-o",
            str(made),
        ]
        _finished(subprocess.Popen(link, stderr=subprocess.PIPE, text=True), f"{cxx} fails to link torch's device")
        made.rename(library)


def _finished(process: subprocess.Popen[str], failure: str) -> None:
    try:
        said = process.communicate(timeout=_LIMIT_S)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        raise UserError(f"{failure}: it takes more than {_LIMIT_S} s") from None
    if process.returncode != 0:
        words = next((line for line in said.splitlines() if "error" in line), said.strip()[:400])
        raise UserError(f"{failure}: {words}")
