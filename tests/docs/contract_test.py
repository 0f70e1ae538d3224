# SPDX-License-Identifier: Apache-2.0
"""ARCHITECTURE.md's execution contract and the tests that hold to it name the same sentences."""

from __future__ import annotations

import re

from pages import ROOT


def test_every_sentence_of_the_contract_has_a_test() -> None:
    """A test names the sentences that it holds to in a comment "Contract: E1, E15."."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    sentences = set(re.findall(r"^- \*\*(E\d+)\*\*", text, re.MULTILINE))
    tests = [
        path
        for folder, pattern in (("runtime", "**/*_test.cpp"), ("tests", "**/*_test.*"), ("tests", "**/*.mlir"))
        for path in (ROOT / folder).glob(pattern)
    ]
    named: set[str] = set()
    for path in tests:
        comment = re.compile(r"^\s*(?://|#) Contract: (E\d+(?:, E\d+)*)\.", re.MULTILINE)
        for tags in comment.findall(path.read_text(encoding="utf-8")):
            named |= set(tags.split(", "))
    assert len(sentences) >= 20 and named == sentences
