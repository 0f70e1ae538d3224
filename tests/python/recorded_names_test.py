# SPDX-License-Identifier: Apache-2.0
"""What passes record for each other is read and written by functions of the dialects (recorded.h): nobody else spells a name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
_NAME = re.compile(r'"(?:op|kernel)\.[a-z_]+"')


def _sources(folder: str) -> list[Path]:
    paths = [path for end in ("*.cpp", "*.h") for path in (_ROOT / folder).rglob(end)]
    return [path for path in paths if not path.name.endswith("_test.cpp")]


def _names(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    code = [re.sub(r"//.*", "", line) for line in lines if not line.startswith("#include")]
    return [name for line in code for name in _NAME.findall(line)]


@pytest.mark.parametrize("folder", ["passes", "codegen", "tools"])
def test_no_name_of_what_is_recorded_stands_outside_the_dialects(folder: str) -> None:
    assert _sources(folder)
    assert {str(path.relative_to(_ROOT)): names for path in _sources(folder) if (names := _names(path))} == {}


def test_the_dialects_have_them() -> None:
    """So that the search above can find something."""
    assert {'"op.kernel"', '"op.layout"', '"op.options"'} <= set(_names(_ROOT / "dialect/op/recorded.cpp"))
    assert '"kernel.cost_us"' in _names(_ROOT / "dialect/kernel/recorded.cpp")
