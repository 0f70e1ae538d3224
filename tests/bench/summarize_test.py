# SPDX-License-Identifier: Apache-2.0
"""Summaries: what is kept of raw files, on made-up figures; those of bench/results, and the table made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import summarize

_ROOT = Path(__file__).resolve().parents[2]
_MACHINE = {"gpu": "NVIDIA H200", "cpu": "Intel(R) Xeon(R) Processor", "cores": 16}
_MOST_LINES = 200  # of a summary: a row of measurement takes one


def _record(contender: str, least: float | None, **more: Any) -> dict[str, Any]:
    base = {"case": "add", "group": "default", "contender": contender, "title": contender, "kind": "peer", "threads": 1}
    times = {"min_us": least, "median_us": least and least + 1, "quartiles_us": least and [least, least + 2]}
    return {
        **base,
        **times,
        "status": "ok" if least else "failed",
        "reason": "no",
        "samples": 30,
        "round_us": [1.0] * 9,
        **more,
    }


def _raw(*records: dict[str, Any], **more: Any) -> dict[str, Any]:
    machine = {"cpu": "AMD EPYC", "cores": 2, "load": [0.1, 0.2, 0.3]}
    facts = {"schema": 1, "machine": machine, "date": "2026-11-20", "commit": "0123456", "versions": {"torch": "2.13"}}
    return {**facts, "warnings": [], "records": list(records), "bars": [], **more}


def test_a_spread_says_median_percentiles_and_count() -> None:
    assert summarize.spread([float(value) for value in range(101)]) == {
        "median": 50,
        "p10": 10,
        "p90": 90,
        "count": 101,
    }


def test_short_lists_and_words_stay_and_samples_become_a_spread() -> None:
    record = {"us": [3.0, 1.0, 2.0, 5.0, 4.0], "before_us": [1.23456, 2.0], "kernels": ["a", "b"], "ok": True}
    assert summarize.compact(record) == {
        "us": {"median": 3, "p10": 1.4, "p90": 4.6, "count": 5},
        "before_us": [1.235, 2],
        "kernels": ["a", "b"],
        "ok": True,
    }


def test_a_row_has_what_each_contender_took_and_no_samples() -> None:
    bar = {
        "case": "add",
        "threads": [],
        "row": "straightline",
        "against_row": "eager",
        "taken_us": 2.0,
        "allowed_us": 1.0,
    }
    raw = _raw(
        _record("straightline", 2.00004, kind="ours"), _record("eager", 4.0), _record("openvino", None),
        bars=[{**bar, "met": False}],
    )  # fmt: skip
    (row,) = summarize.case_rows(raw)
    ours = {"least_us": 2, "median_us": 3, "p25_us": 2, "p75_us": 4, "count": 30}
    assert row["contenders"]["straightline"] == ours
    assert row["contenders"]["eager"]["peer"]
    assert row["contenders"]["openvino"] == {"status": "failed", "reason": "no"}
    assert [(b["row"], b["taken"], b["allowed"], b["met"]) for b in row["bars"]] == [("straightline", 2, 1, False)]
    assert "round_us" not in json.dumps(row)


def test_files_of_one_machine_and_commit_make_one_summary(tmp_path: Path) -> None:
    first = summarize.add(_raw(_record("eager", 1.0)), "cases", "0123456789", tmp_path)
    second = summarize.add(_raw(_record("eager", 9.0), _record("eager", 2.0, threads=2)), "cases", "0123456", tmp_path)
    third = summarize.add(
        {"machine": "AMD EPYC, x86_64", "records": [{"case": "lstm", "us": 3.0}]}, "rnn", "0123456", tmp_path
    )
    assert first == second == third == tmp_path / "amd_epyc_0123456.json"
    summary = json.loads(first.read_text())
    assert [
        (row["threads"], row["contenders"]["eager"]["least_us"]) for row in summary["measurements"]["cases"]["rows"]
    ] == [
        (1, 9),
        (2, 2),
    ]
    assert summary["measurements"]["rnn"]["rows"] == [{"case": "lstm", "us": 3}]
    assert "load" not in summary["machine"]


@pytest.mark.parametrize("commit", ["unknown", "the one before", ""])
def test_a_commit_must_be_known(tmp_path: Path, commit: str) -> None:
    with pytest.raises(SystemExit, match="the commit is"):
        summarize.add(_raw(), "cases", commit, tmp_path)


def test_a_machine_is_named_by_its_device_else_by_its_processor() -> None:
    assert summarize.slug(_MACHINE) == "h200"
    assert summarize.slug({"cpu": _MACHINE["cpu"]}) == "intel_xeon"
    assert summarize.slug(summarize.machine_of({"machine": "NVIDIA H200, x86_64"})) == "h200"


def test_the_table_has_the_newest_row_of_a_case(tmp_path: Path) -> None:
    for commit, date, ours in (("aaaaaaa", "2026-11-20", 2.0), ("bbbbbbb", "2026-11-21", 1.0)):
        raw = _raw(_record("straightline", ours, kind="ours"), _record("eager", 4.0), date=date)
        summarize.add(raw, "cases", commit, tmp_path)
    text = summarize.tables(tmp_path.glob("*.json"))
    assert "| `add` | 1 | 1 | 4 | eager | 0.25 | 4 |  | bbbbbbb, 2026-11-21 |" in text
    assert "aaaaaaa" not in text


@pytest.mark.parametrize("path", sorted((_ROOT / "bench" / "results").glob("*")), ids=lambda path: path.name)
def test_results_are_summaries(path: Path) -> None:
    text = path.read_text()
    summary = json.loads(text)
    assert path.name == f"{summarize.slug(summary['machine'])}_{summary['commit']}.json"
    assert summary["schema"] == summarize.SCHEMA
    assert all(measurement.get("date") for measurement in summary["measurements"].values())
    assert text.count("\n") <= _MOST_LINES
    assert summarize.text_of(summary) == text, "written by hand"


def test_the_page_says_what_the_summaries_say() -> None:
    page = _ROOT / "docs" / "performance" / "results.md"
    assert summarize.page(page.read_text(), (_ROOT / "bench" / "results").glob("*.json")) == page.read_text(), (
        "python -m bench.summarize --docs"
    )
