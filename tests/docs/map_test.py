# SPDX-License-Identifier: Apache-2.0
"""Folders in ARCHITECTURE.md, statements and passes in docs/design are those of the code."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from pages import ROOT

_DESIGN = ROOT / "docs" / "design"


def _defined(folder: str, pattern: str) -> set[str]:
    found: set[str] = set()
    for path in sorted((ROOT / folder).rglob("*.td")):
        found |= set(re.findall(pattern, path.read_text(encoding="utf-8"), re.MULTILINE))
    return found


def test_the_map_has_every_folder() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = text[text.index("## Folders") : text.index("## Who knows what")]
    named = {
        Path(cell).parts[0]
        for row in re.findall(r"^\| (`[^|]*) \|", table, re.M)
        for cell in re.findall(r"`([^`]*)`", row)
    }
    tracked = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    folders = {Path(name).parts[0] for name in tracked if "/" in name and not name.startswith(".")}
    assert named == folders - {"cmake", "requirements"}


def test_the_page_of_the_kernel_dialect_names_every_op() -> None:
    ops = _defined("dialect/kernel", r'^def Kernel_\w+\s*:\s*Kernel_\w*Op\w*<\s*"(\w+)"')
    words = set(re.findall(r"\w+", (_DESIGN / "kernel_dialect.md").read_text(encoding="utf-8")))
    assert len(ops) > 15 and not ops - words


def test_the_page_of_passes_names_every_pass() -> None:
    passes = _defined("passes", r'^def \w+\s*:\s*\w+<\s*"([a-z]+(?:-[a-z]+)+)"')
    for path in sorted((ROOT / "passes" / "levels").glob("*.cpp")):  # those have no definition in ODS
        passes |= set(re.findall(r'getArgument\(\) const final \{ return "([\w-]+)"', path.read_text(encoding="utf-8")))
    text = (_DESIGN / "passes.md").read_text(encoding="utf-8")
    listed = {
        name
        for item in re.findall(r"^- ((?:`[^`]*`(?:, )?)+)", text, re.M)
        for name in re.findall(r"`-*([a-z-]+)", item)
    }
    assert len(passes) > 25 and listed - {"canonicalize", "cse"} == passes, sorted(listed ^ passes)
