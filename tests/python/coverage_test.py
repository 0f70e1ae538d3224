# SPDX-License-Identifier: Apache-2.0
"""`straightline coverage`: every op of the dialect that computes is asked about, and the answers are the compiler's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from straightline import coverage
from straightline.__main__ import main

_ROOT = Path(__file__).resolve().parents[2]
#: Ops that hold others, name what is given, or are made by passes; `aten` is PyTorch's.
_NOT_ASKED = {
    "aten", "constant", "external", "for", "fusion", "if", "parameter", "state", "symbol", "while", "yield",
    "check", "set_extent", "own_kernel", "gru_sequence", "scalar_special", "lstm_sequence", "rnn_sequence",
}  # fmt: skip


def test_every_op_has_an_example() -> None:
    defined: set[str] = set()
    for path in sorted((_ROOT / "dialect" / "op").glob("*.td")):
        text = path.read_text(encoding="utf-8")
        defined |= set(re.findall(r'^def Op_\w+Op\s*:\s*Op_\w+<\s*"(\w+)"', text, re.MULTILINE))
    assert len(defined) > 100
    assert set(coverage.examples()) == defined - _NOT_ASKED


@pytest.mark.parametrize(
    ("op", "dtype", "target", "valid", "supported"),
    [
        ("relu", "f32", "cpu", True, True),
        ("linear", "bf16", "cuda:sm_90", True, True),
        ("linear", "i8", "cpu", True, True),
        ("linear", "i8", "cuda:sm_90", True, False),
        ("linear", "i64", "cpu", True, False),
        ("tanh", "i64", "cpu", False, False),
        ("mean", "i64", "cpu", False, False),
        ("sum", "i1", "cpu", True, True),
    ],
)
def test_the_compiler_is_asked(op: str, dtype: str, target: str, valid: bool, supported: bool) -> None:
    found = coverage.support(op, dtype, target)
    assert (found.is_valid, found.is_supported) == (valid, supported)
    assert bool(found.reason) == (valid and not supported)


def test_the_command_prints_a_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    few = {name: coverage.examples()[name] for name in ("linear", "tanh")}
    monkeypatch.setattr(coverage, "examples", lambda: few)
    assert main(["coverage"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("| op | f32 | f64 |") and len(lines) == 4
    assert lines[2].startswith("| `linear` | yes |") and "| cpu |" in lines[2]
    assert main(["coverage", "--target", "cuda:sm_90"]) == 0
    assert "cpu" not in capsys.readouterr().out
