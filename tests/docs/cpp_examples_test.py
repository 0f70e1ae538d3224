# SPDX-License-Identifier: Apache-2.0
"""The C++ examples of the pages compile against the headers of the repository; tests/packaging builds and runs examples/cpp."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from pages import ROOT, name_of, pages

_BLOCK = re.compile(r"^```cpp\n(.*?)^```", re.DOTALL | re.MULTILINE)
_FRAME = """{includes}
void example(straightline::Tensor weight, straightline::Tensor bias, straightline::Tensor x) {{
{body}}}
"""


def _blocks() -> list[tuple[Path, str]]:
    found = [(page, block) for page in pages() for block in _BLOCK.findall(page.read_text(encoding="utf-8"))]
    return [(page, block) for page, block in found if "--8<--" not in block]  # a whole file


@pytest.mark.parametrize(("page", "block"), _blocks(), ids=[name_of(page) for page, _ in _blocks()])
def test_examples_compile(page: Path, block: str, tmp_path: Path) -> None:
    compiler = shutil.which("clang++-22") or shutil.which("g++")
    assert compiler is not None, "no C++ compiler"
    headers = tmp_path / "straightline"
    headers.mkdir()
    for name, folder in (("abi", "runtime/abi"), ("kernels", "codegen/kernels")):
        (headers / name).symlink_to(ROOT / folder)
    (headers / "compiler_abi.h").symlink_to(ROOT / "tools" / "compiler_abi.h")
    for header in (ROOT / "include" / "straightline").glob("*.hpp"):
        (headers / header.name).symlink_to(header)
    lines = block.splitlines(keepends=True)
    includes = "".join(line for line in lines if line.startswith("#include"))
    source = tmp_path / "example.cpp"
    body = "".join(line for line in lines if not line.startswith("#include"))
    source.write_text(_FRAME.format(includes=includes, body=body), encoding="utf-8")
    command = [compiler, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{tmp_path}", str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_there_is_such_an_example() -> None:
    assert _blocks()
