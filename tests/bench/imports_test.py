# SPDX-License-Identifier: Apache-2.0
"""Who may import whom in Python: tests import bench, both import straightline, and nothing points back."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
#: A folder, and the packages of ours that its files may not import.
_FORBIDDEN = {"bench": ("tests",), "python/straightline": ("tests", "bench")}


def _imported(path: Path) -> Iterator[tuple[int, str]]:
    """Line and first name of each import, wherever it stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module.partition(".")[0]


def _of_tests() -> set[str]:
    """What a file gets from tests when it puts their folders in its path."""
    folders = [_ROOT / "tests", *(path for path in (_ROOT / "tests").iterdir() if path.is_dir())]
    found = {path.stem for folder in folders for path in folder.glob("*.py") if not path.stem.startswith("__")}
    return {name for name in found if not name.endswith("_test")} - {"conftest", "support"}


@pytest.mark.parametrize("folder", _FORBIDDEN)
def test_nothing_points_back(folder: str) -> None:
    forbidden = {*_FORBIDDEN[folder], *(_of_tests() if folder == "bench" else ())}
    found = [
        f"{path.relative_to(_ROOT)}:{line} imports {name}"
        for path in sorted((_ROOT / folder).rglob("*.py"))
        for line, name in _imported(path)
        if name in forbidden
    ]
    assert not found, "\n".join(found)


def test_it_sees_an_import_in_a_function(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f():\n    from tests.device import support\n    import bench.cases\n")
    assert list(_imported(tmp_path / "a.py")) == [(2, "tests"), (3, "bench")]
