# SPDX-License-Identifier: Apache-2.0
"""Links between pages lead to files, and to headings that these have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import MADE, name_of, pages

_CODE = re.compile(r"```(?:.|\n)*?```|`[^`\n]*`|^ {4}.*$", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def _anchors(page: Path) -> set[str]:
    """What headings of a page can be linked as: small letters, hyphens for spaces, without other signs."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", h).strip().lower()) for h in headings}


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8"))):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if file in MADE:
            continue
        assert file.exists(), f"{name_of(page)} links to {target}"
        if anchor:
            assert anchor in _anchors(file), f"{name_of(page)} links to {target}: no such heading"
