# SPDX-License-Identifier: Apache-2.0
"""The rule about long functions of C++ (tools/lint/text_rules.py) on small made-up texts."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

_FILE = Path(__file__).resolve().parents[2] / "tools/lint/text_rules.py"
sys.path.insert(0, str(_FILE.parent))  # text_rules.py imports what lies beside it, as a script does
_SPEC = importlib.util.spec_from_file_location("text_rules", _FILE)
assert _SPEC and _SPEC.loader
lint = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(lint)

BODY = ["  f();", "  if (x) {", "    g();", "  }"]
HEAD = ["template <class T>", "SL_INLINE void long_one(int a,", "                        int b) {"]


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([*HEAD, *["  f();"] * 77, "}"], []),
        ([*HEAD, *["  f();"] * 78, "}"], [(2, 81)]),
        ([*HEAD, *BODY * 20, "}"], [(2, 83)]),
        (["struct S {", *["  int x();"] * 90, "};"], []),
        (["namespace sl {", *["int f();"] * 90, "}"], []),
        (["struct S {", "  void f() {", *["    g();"] * 79, "  }", "};"], [(2, 81)]),
        (["void f() {", "  for (int i = 0; i < 9; ++i) {", *["    g();"] * 70, "  }", "}"], []),
    ],
)
def test_long_functions(lines: list[str], found: list[tuple[int, int]]) -> None:
    assert lint.long_functions(lines) == found
