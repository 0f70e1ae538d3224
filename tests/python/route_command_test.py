# SPDX-License-Identifier: Apache-2.0
"""`straightline route`: what a file of rules does, and which rules are worth writing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import straightline as sl
from straightline.__main__ import main
from straightline import route_suggestions
from straightline.route_suggestions import suggest

MODEL = """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
args = (torch.randn(1, 8),)
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "model.py").write_text(MODEL)
    return str(tmp_path / "model.py")


def test_check(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = tmp_path / "r.txt"
    rules.write_text("linear = native.gemv\n2 : linear = native.gemm  # the last\n")
    assert main(["route", "check", str(rules), model, "--json"]) == 0
    rows = {row["rule"]: row for row in json.loads(capsys.readouterr().out)}
    first, second = rows["linear = native.gemv (r.txt:1)"], rows["2 : linear = native.gemm (r.txt:2)"]
    assert (first["ops"], first["decides"], second["ops"], second["decides"]) == (2, 1, 1, 1)
    assert [row["kernel"].split("_")[0] for row in (*first["statements"], *second["statements"])] == ["gemv", "gemm"]
    assert main(["route", "check", str(rules), model]) == 0
    text = capsys.readouterr().out
    assert (
        "linear = native.gemv (r.txt:1): decides about 1 of 2 ops" in text and "gemv_1x16x8_bias_relu of native" in text
    )


def test_check_of_a_rule_that_names_nothing(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = tmp_path / "r.txt"
    rules.write_text("linear = native\nlinear.defalt = native\n")
    assert main(["route", "check", str(rules), model]) == 5
    out, err = capsys.readouterr()
    assert (
        "linear.defalt = native (r.txt:2): names no op; the nearest that is there is 'linear.default'" in out
        and not err
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("linear = mkl\n", "unknown backend 'mkl'"),
        ("", "has no rule"),
        ("linear = native.gemv, native.gemm_int8\n", None),
    ],
)
def test_check_of_a_file_that_is_none(
    text: str, words: str | None, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "r.txt").write_text(text)
    assert main(["route", "check", str(tmp_path / "r.txt"), model]) == (1 if words else 0)
    assert words is None or words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("args = ()", "model.py sets no model: a .py file is executed and sets model and args"),
        ("x = 1", "sets no model and no args"),
        ("1 / 0", "fails: ZeroDivisionError: division by zero"),
        ("model = (", "fails: SyntaxError"),
    ],
)
def test_a_script_that_is_no_model(text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.py").write_text(text)
    assert main(["compile", str(tmp_path / "model.py")]) == 1
    assert words in capsys.readouterr().err


def test_check_of_a_saved_model(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", model, "-o", str(tmp_path / "m.sl")]) == 0
    (tmp_path / "r.txt").write_text("linear = native\n")
    assert main(["route", "check", str(tmp_path / "r.txt"), str(tmp_path / "m.sl")]) == 1
    assert "is compiled already: rules are for what is compiled" in capsys.readouterr().err


def test_suggestions_are_rules_that_hold(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever wins on this machine: the file can be used."""
    out = tmp_path / "s.txt"
    assert main(["route", "suggest", model, "-o", str(out), "--rounds", "1", "--runs", "3"]) == 0
    assert main(["route", "check", str(out), model]) == 0, out.read_text()
    assert main(["route", "suggest", model, "--rounds", "1", "--runs", "3"]) == 0
    assert "# Rules by `straightline route suggest`" in capsys.readouterr().out
    assert (
        main(["route", "suggest", model, "-o", str(tmp_path / "none" / "s.txt"), "--rounds", "1", "--runs", "3"]) == 1
    )


class Fake:
    """A function whose statements take what a table says."""

    def __init__(self, us: dict[str, float], rules: list[Any], whole: float) -> None:
        self.us, self.whole = us, whole
        self.chosen = next(iter({right for rule in rules for right in rule.values()}), "a.one")

    def routes(self) -> Any:
        row = {
            "phase": "run", "op": "linear", "source": "layers.0.fc (m.py:3)", "kernel": "k", "why": "a.one: estimated",
            "alternatives": [
                {"kernel": name, "us": us, "said": "", "op": "linear"}
                for name, us in {**dict.fromkeys(self.us, 1.0), "a.none": None}.items()
                if name != "a.one"
            ],
        }  # fmt: skip
        return SimpleNamespace(rows=[row])

    def profile(self, *args: Any, runs: int, **kwargs: Any) -> Any:
        row = SimpleNamespace(source="layers.0.fc (m.py:3)", op="linear", least_us=self.us[self.chosen])
        return SimpleNamespace(rows=[row])


def _made(us: dict[str, float], slower: bool = False) -> Callable[[list[Any]], Fake]:
    def compiled(rules: list[Any]) -> Fake:
        if any("a.bad" in rule.values() for rule in rules):
            raise sl.UserError("a.bad: it does not take this")
        return Fake(us, rules, 20.0 if slower and rules else 10.0)

    return compiled


def test_which_kernel_is_suggested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_suggestions, "_whole_us", lambda functions, *rest: [each.whole for each in functions])

    def rules(us: dict[str, float], **more: Any) -> list[str]:
        text = suggest(_made(us, **more), lambda function: ((), {}), rounds=1, runs=1)
        return [line for line in text.splitlines() if line and not line.startswith("#")]

    assert rules({"a.one": 10.0, "a.two": 9.0, "a.three": 8.0}) == ["layers.0.fc : linear = a.three"]
    assert rules({"a.one": 10.0, "a.two": 9.6}) == ["* = auto"], "less than 5 %"
    assert rules({"a.one": 10.0, "a.two": 5.0}, slower=True) == ["* = auto"], "the whole program is slower with it"
    assert rules({"a.one": 10.0, "a.bad": 1.0, "a.two": 9.0}) == ["layers.0.fc : linear = a.two"]
    assert "# linear: a.bad is not there: a.bad: it does not take this" in suggest(
        _made({"a.one": 1.0, "a.bad": 1.0}), lambda function: ((), {}), rounds=1, runs=1
    )
