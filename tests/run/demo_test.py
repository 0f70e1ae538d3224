# SPDX-License-Identifier: Apache-2.0
"""`make demo`: scanned digits and a photograph, with what it says about them."""

from __future__ import annotations

import re

import pytest


def test_both_parts(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("PIL", reason="scikit-learn reads its photograph with Pillow (requirements/demo.txt)")
    from straightline import demo

    monkeypatch.setenv("COLUMNS", "200")
    assert demo.main() == 0
    said = capsys.readouterr().out
    right, count = map(int, re.search(r"held-out digits: (\d+) of (\d+) right", said).groups())
    assert count == 450 and right >= 0.9 * count, said
    assert "predictions equal to eager PyTorch's" in said
    assert "sl_program_run(" in said and "sl::gem" in said, "the emitted code"
    assert re.search(r"class \d+ of 1000 from both", said)
    assert len(re.findall(r"^ *(?:PyTorch eager|Straightline) .*[\d,]+ us +[\d.]+x", said, re.MULTILINE)) == 2, (
        "the bars"
    )
