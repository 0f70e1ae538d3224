#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what a wheel wants of the machine that it is installed on: versions of glibc and libstdc++, libraries, paths, size.

Prints one line per fault and exits with 1 when there is any.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

#: Every Linux with glibc has these, as manylinux counts; all else must be in the wheel.
SYSTEM = {
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "libgcc_s.so.1",
    "libstdc++.so.6",
    "ld-linux-x86-64.so.2",
}
#: Of the extra `onednn`: the backend that wants them stays out when they are missing.
#: Torch's device is loaded by a process that has torch.
EXTRA = {
    "libstraightline_backend_onednn.so": {"libdnnl.so.3", "libgomp.so.1"},
    "_straightline_torch_device.so": {"libtorch_python.so", "libtorch_cpu.so", "libc10.so"},
}
#: Of GCC 11, which comes with the glibc that is the floor.
NEWEST_OF_GCC = {"GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13), "GCC": (11, 0)}
VERSION = re.compile(r"\b(GLIBC|GLIBCXX|CXXABI|GCC)_([0-9.]+)\b")


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def faults_of_library(library: Path, inside: set[str], glibc: str) -> list[str]:
    """What one library wants beyond the floor.

    Args:
        library: The file.
        inside: Names of the wheel's own libraries.
        glibc: The newest version of glibc that may be wanted.
    """
    newest = {**NEWEST_OF_GCC, "GLIBC": _parts(glibc)}
    found = []
    for line in _run("objdump", "-T", str(library)).splitlines():
        match = VERSION.search(line) if "*UND*" in line else None
        if match and _parts(match[2]) > newest[match[1]]:
            floor = ".".join(map(str, newest[match[1]]))
            found.append(f"wants {line.split()[-1]} of {match[1]} {match[2]} but the floor is {floor}")
    for line in _run("objdump", "-p", str(library)).splitlines():
        kind, _, value = line.strip().partition(" ")
        value = value.strip()
        if kind == "NEEDED" and value not in SYSTEM | inside | EXTRA.get(library.name, set()):
            found.append(f"needs {value}, which is neither in the wheel nor on every machine")
        if kind in ("RUNPATH", "RPATH"):
            found += [f"looks for libraries in {path}" for path in value.split(":") if not path.startswith("$ORIGIN")]
    if re.search(r"\s\.(symtab|debug_info)\s", _run("readelf", "-SW", str(library))):
        found.append("is not stripped")
    return found


def faults_of_wheel(wheel: Path, glibc: str, megabytes: float) -> list[str]:
    """What is wrong with a wheel, one line each."""
    size = wheel.stat().st_size / 1e6
    found = [f"{wheel.name} has {size:.1f} MB but at most {megabytes:g} are allowed"] if size > megabytes else []
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        libraries = sorted(Path(folder).rglob("*.so"))
        names = {library.name for library in libraries}
        runtime = {"libstraightline_runtime.so", "_call.abi3.so"}
        for wanted in (
            runtime if wheel.name.startswith("straightline_runtime") else {*runtime, "libstraightline_compiler.so"}
        ):
            if wanted not in names:
                found.append(f"{wheel.name} has no {wanted}")
        for library in libraries:
            found += [f"{library.name} {fault}" for fault in faults_of_library(library, names, glibc)]
    return found


def main() -> int:
    """Checks the wheels of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheels", nargs="+", type=Path)
    parser.add_argument("--glibc", default="2.34", help="newest version of glibc that may be wanted")
    parser.add_argument("--megabytes", type=float, default=60.0, help="largest size of a wheel")
    parsed = parser.parse_args()
    found = [fault for wheel in parsed.wheels for fault in faults_of_wheel(wheel, parsed.glibc, parsed.megabytes)]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
