# SPDX-License-Identifier: Apache-2.0
"""The Python examples of every page run, those of one page after each other in one namespace."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import ROOT, name_of, pages

_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def _run(page: Path) -> None:
    names: dict[str, object] = {"__name__": page.stem}
    text = page.read_text(encoding="utf-8")
    for block in _BLOCK.finditer(text):
        lines = "\n" * text.count("\n", 0, block.start(1))  # a traceback names the page's own lines
        exec(compile(lines + block.group(1), name_of(page), "exec"), names)


@pytest.mark.parametrize("page", [p for p in pages() if _BLOCK.search(p.read_text(encoding="utf-8"))], ids=name_of)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # what an example writes
    _run(page)


def test_the_readme_shows_what_it_says(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # what it writes
    _run(ROOT / "README.md")
    printed = capsys.readouterr().out
    for part in ("sl_program_run", "op.linear", "kernel.launch", "native", "0.weight"):
        assert part in printed
