# SPDX-License-Identifier: Apache-2.0
"""The pages that people read: what the tests of this folder go over."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Pages that tools/docs/site_hooks.py makes while the site is built.
MADE = frozenset(
    ROOT / "docs" / "reference" / name
    for name in ("cpp.md", "c.md", "op_dialect.md", "kernel_dialect.md", "passes.md", "ops.md")
)
TOP = ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md")


def pages() -> list[Path]:
    """Every page, those at the top of the repository first."""
    return [ROOT / name for name in TOP] + sorted((ROOT / "docs").rglob("*.md"))


def name_of(page: Path) -> str:
    """How a page is named in the output of a test."""
    return str(page.relative_to(ROOT))
