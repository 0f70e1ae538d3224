#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that #includes respect the layers of ARCHITECTURE.md, and that only a target's folder knows the target by name.

A file of a folder may include only what LAYERS lists for the longest matching prefix of its path. A file of the compiler
or of a front end may hold the name of a target as a literal ("cuda") only where NAMES_TARGETS says why. Exit status 1
and one line per violation otherwise.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from sources import listed

#: folder -> prefixes of quoted or angled includes of ours or of LLVM that it may use; system headers are free unless
#: the folder is in FREESTANDING.
LAYERS: dict[str, tuple[str, ...]] = {
    "runtime/abi": ("straightline/abi/",),
    "runtime": ("straightline/abi/", "runtime/"),
    "codegen/kernels": ("straightline/abi/", "straightline/kernels/"),
    "dialect": ("dialect/", "mlir/", "llvm/"),
    "passes": ("dialect/", "passes/", "straightline/abi/", "mlir/", "llvm/"),
    "codegen": ("codegen/", "dialect/", "straightline/abi/", "mlir/", "llvm/", "clang/"),
    "tools": ("tools/", "codegen/", "passes/", "dialect/", "straightline/abi/", "mlir/", "llvm/", "clang/"),
    "include": ("straightline/",),
    "python": ("tools/compiler_abi.h", "straightline/abi/", "python/"),
    "tests": ("",),
    "bench": ("",),
}
FREESTANDING = ("runtime/abi", "codegen/kernels")
GUARDED = (
    "dialect/",
    "passes/",
    "codegen/",
    "tools/",
    "runtime/",
    "python/",
    "straightline/",
    "mlir/",
    "llvm/",
    "clang/",
)
#: What is known of a target is asked of it (passes/targets/target.h): its folder is included by its own files only.
TARGET_FOLDER = re.compile(r"passes/targets/[^/]+/")
#: Folders of the compiler: they ask a target (passes/targets/target.h) or the kernel dialect, and compare no names.
COMPILER = ("dialect/", "passes/", "codegen/", "tools/")
#: The front ends, in Python: they ask a target by the names of its facts (capture/target_facts.py).
FRONT_ENDS = "python/straightline/capture/"
#: Where capture computes constants by torch; no question about the target of the program.
COMPUTES_ON_HOST = re.compile(r'\bdevice=(["\'])cpu\1|\btorch\.device\((["\'])cpu\2\)')
#: Files of the compiler and of front ends that may hold the name of a target, and why.
NAMES_TARGETS = {
    "dialect/kernel/kernel_dialect.h": "kHostBackend: the backend of the team's queue, which every program has",
    "passes/routes.h": "kHostRoute: what rules call the host",
    "python/straightline/capture/target_facts.py": "an example of what names a target, in a docstring",
    "python/straightline/capture/torch/aten_tail.py": "devices in the text of a call of torch (call_text.h)",
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')


def layer_of(path: str) -> str | None:
    """Returns the longest folder of LAYERS that holds `path`."""
    holders = [folder for folder in LAYERS if path.startswith(folder + "/")]
    return max(holders, key=len, default=None)


def enters_target(path: str, name: str) -> bool:
    """Whether the include `name` of the file `path` is of the folder of a target to which the file does not belong."""
    folder = TARGET_FOLDER.match(name)
    return folder is not None and not path.startswith((folder.group(0), "tests/"))


def target_names() -> tuple[str, ...]:
    """Names of the targets of the repository of the working directory."""
    return tuple(sorted(path.parent.name for path in Path("passes/targets").glob("*/CMakeLists.txt")))


def is_test(path: str) -> bool:
    """Whether a file is one of the tests that stand beside the sources."""
    return path.endswith(("_test.cpp", "_testing.h", "_for_tests.h"))


def named_targets(path: str, text: str, names: tuple[str, ...]) -> list[str]:
    """Returns one message per literal of a file of the compiler that is the name of a target which is not its own."""
    is_front_end = path.startswith(FRONT_ENDS)
    if (
        not (is_front_end or path.startswith(COMPILER))
        or path.startswith("codegen/kernels/")
        or is_test(path)
        or path in NAMES_TARGETS
    ):
        return []
    own = TARGET_FOLDER.match(path)
    whom = "capture/target_facts.py" if is_front_end else "passes/targets/target.h or the kernel dialect"
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        code = COMPUTES_ON_HOST.sub("", line.partition("#")[0]) if is_front_end else line.partition("//")[0]
        found.extend(
            f'{path}:{number}: names the target "{name}"; ask {whom} instead'
            for name in names
            if (f'"{name}"' in code or (is_front_end and f"'{name}'" in code))
            and (own is None or own.group(0) != f"passes/targets/{name}/")
        )
    return found


def violations(path: str, text: str) -> list[str]:
    """Returns one message per forbidden include of a file."""
    layer = layer_of(path)
    if layer is None:
        return []
    allowed = LAYERS[layer]
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if match is None:
            continue
        name = match.group(2)
        ours = name.startswith(GUARDED)
        if enters_target(path, name):
            found.append(f"{path}:{number}: only files of {name.rpartition('/')[0]} may include {name}")
            continue
        if layer in FREESTANDING and path.endswith(".h") and not is_test(path):
            if match.group(1) == "<" or (ours and not name.startswith(allowed)):
                # Intrinsics headers are the compiler's own; NVRTC and the in-memory file system do not have them.
                found.append(f"{path}:{number}: {layer} is freestanding and may not include {name}")
        elif ours and not name.startswith(allowed) and not (is_test(path) and name.startswith("straightline/")):
            found.append(f"{path}:{number}: {layer} may not include {name}")
    return found


def main() -> int:
    """Checks every tracked source file."""
    names = target_names()
    problems = []
    for path in listed("*.h", "*.hpp", "*.cpp", "*.c", "*.inc"):
        text = path.read_text(encoding="utf-8", errors="replace")
        problems += violations(str(path), text) + named_targets(str(path), text, names)
    for path in listed("*.py"):
        if str(path).startswith(FRONT_ENDS):
            problems += named_targets(str(path), path.read_text(encoding="utf-8"), names)
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
