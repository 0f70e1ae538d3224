# SPDX-License-Identifier: Apache-2.0
"""What is made of times: judgements, ratios, intervals, bars, lines, pictures. All on made-up figures."""

from __future__ import annotations

import io
import math
import random
from pathlib import Path

import numpy as np
import pytest

from straightline.bench import comparison, plot, report
from straightline.bench.answers import judge
from straightline.bench.case import Bar, Case
from straightline.bench.session import Measured, Record


def _record(name: str, kind: str, rounds: list[float], **more: object) -> Record:
    record = Record("c", "default", name, name.title(), kind, 1, round_us=rounds, **more)  # type: ignore[arg-type]
    record.min_us, record.median_us = min(rounds), sorted(rounds)[len(rounds) // 2]
    return record


def _measured(*records: Record, case: Case | None = None, limit: tuple[float, str] | None = None) -> Measured:
    return Measured(case or Case("c", "what?"), 1, list(records), limit, [])


def test_right_answers_and_wrong_ones() -> None:
    exact = [np.linspace(-2, 2, 9), np.arange(3)]
    eager = [exact[0].astype(np.float32), exact[1]]
    words, error = judge(eager, eager, exact, 1e-4)
    assert not words and error < 1e-6
    off = [eager[0] + np.float32(1e-3), eager[1]]
    assert judge(off, eager, exact, 1e-4)[0].startswith("result 0 differs by 5.0e-04 of the largest value, 1e-04")
    assert not judge(off, eager, exact, 1e-3)[0]
    assert judge([eager[0], eager[1] + 1], eager, exact, 1e-4)[0] == "result 1: 3 of 3 values differ from eager's"
    assert judge(eager[:1], eager, exact, 1e-4)[0] == "1 results, expected 2"
    assert judge([eager[0][:8], eager[1]], eager, exact, 1e-4)[0] == "result 0 has shape (8,), expected (9,)"
    rough = [(eager[0] + np.float32(4e-4)), eager[1]]
    assert not judge(off, rough, exact, 1e-4)[0], "within four times what eager itself is off"
    holed = eager[0].copy()
    holed[3] = np.nan
    assert "infinities or nan" in judge([holed, eager[1]], eager, exact, 1e-4)[0]
    assert not judge([holed], [holed], None, 1e-4)[0], "as eager has it"
    assert "differs" in judge([np.ones(2, np.float32)], [np.zeros(2, np.float32)], None, 1e-4)[0]


def test_the_best_peer_is_nobody_of_ours() -> None:
    ours, floor = _record("straightline", "ours", [1.0, 1.1, 1.05]), _record("floor", "floor", [0.5, 0.6, 0.5])
    slow, fast = _record("eager", "peer", [4.0, 4.4, 4.2]), _record("aoti", "peer", [2.0, 2.2, 2.1])
    measured = _measured(slow, fast, ours, floor)
    assert comparison.best_peer(measured) is fast
    assert comparison.ratio(ours, fast) == 0.5
    low, high = comparison.paired_interval(ours, fast) or (0, 0)
    assert low == pytest.approx(0.5) and high == pytest.approx(0.5), "the ratio is the same in every round"


def test_the_interval_holds_the_ratio() -> None:
    """About 95 of 100 intervals hold the true ratio; 80 is far below what chance gives."""
    seed = random.SystemRandom().getrandbits(32)
    print("seed", seed)
    generator = random.Random(seed)
    held = 0
    for _ in range(100):
        theirs = [10 * math.exp(generator.gauss(0, 0.05)) for _ in range(10)]
        ours = [0.7 * t * math.exp(generator.gauss(0, 0.02)) for t in theirs]
        low, high = comparison.paired_interval(_record("a", "ours", ours), _record("b", "peer", theirs)) or (1, 1)
        held += low <= 0.7 <= high
    assert held >= 80


def test_bars() -> None:
    bars = (
        Bar("straightline", "peers", 0.5),
        Bar("straightline", "eager", 0.2),
        Bar("straightline", "openvino", 0.5),
        Bar("straightline", "eager", 9.0, threads=(2,)),
    )
    ours = _record("straightline", "ours", [1.0], launches=4)
    python = _record("straightline_python", "ours", [5.5], launches=4)
    measured = _measured(_record("eager", "peer", [4.0]), ours, python, case=Case("c", "?", bars=bars))
    results = comparison.bars(measured)
    assert [(r.against, r.allowed_us, r.met) for r in results] == [
        ("eager", 2.0, True),
        ("eager", 0.8, False),
        ("openvino", None, None),
        ("straightline", pytest.approx(1.0 + 3.0 + 4 * 0.4), True),
    ]


def test_a_bar_by_interval_forgives_noise() -> None:
    bars = (Bar("straightline", "peers", 1.05, by_interval=True), Bar("straightline", "peers", 1.05))
    case = Case("c", "?", bars=bars)
    noisy = _measured(
        _record("eager", "peer", [1.0, 1.4, 1.2]), _record("straightline", "ours", [1.1, 1.3, 1.4]), case=case
    )
    assert [r.met for r in comparison.bars(noisy)][:2] == [True, False]
    slow = _measured(
        _record("eager", "peer", [1.0, 1.01, 1.02]), _record("straightline", "ours", [1.1, 1.11, 1.13]), case=case
    )
    assert [r.met for r in comparison.bars(slow)][:2] == [False, False]
    assert comparison.geometric_means([noisy, slow]) == {1: (pytest.approx(1.1), 2)}


def test_tables_have_a_row_for_everybody() -> None:
    from rich.console import Console

    lost = Record("c", "default", "aoti", "AOTInductor", "peer", 1, status="crashed", reason="its process [ended]")
    ours = _record("straightline", "ours", [1.0, 1.5, 2.0], launches=3, compile_s=0.25, allocations=0.0)
    measured = _measured(_record("eager", "peer", [4.0, 4.0, 4.0]), lost, ours, limit=(0.5, "bytes"))
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(report.case_table(measured))
    console.print(report.summary_table([measured], {"machine": {"cpu": "a cpu", "cores": 2, "load": (0.1, 0.2, 0.3)}}))
    text = console.export_text()
    assert (
        "crashed: its process [ended]" in text and "reading every byte once: 0.50 us; Straightline takes 2.00" in text
    )
    (row,) = report.records([measured])[2:]
    assert row["ratio_to_best_peer"] == 0.25 and row["limit_us"] == 0.5 and row["best_peer"] == "eager"


def _chain(slope: float, intercept: float) -> list[Measured]:
    return [
        _measured(
            _record("straightline", "ours", [intercept + slope * n]),
            _record("eager", "peer", [9 + 7 * n]),
            *([_record("once", "peer", [1.0])] if n == 1 else []),
            case=Case(f"chain_{n}", "?", links=n, series="chain"),
        )
        for n in (1, 20, 100)
    ]


def test_lines_through_what_lies_on_one() -> None:
    drawn = {line.title: line for line in plot.lines(_chain(0.04, 0.6), "chain", 1)}
    assert set(drawn) == {"Straightline", "Eager"}, "one point is no line"
    assert drawn["Straightline"].slope_us == pytest.approx(0.04) and drawn[
        "Straightline"
    ].intercept_us == pytest.approx(0.6)
    assert drawn["Eager"].slope_us == pytest.approx(7) and drawn["Eager"].intercept_us == pytest.approx(9)
    assert plot.lines(_chain(1, 1), "chain", 2) == [] and plot.series_of(_chain(1, 1)) == [("chain", 1)]


def test_the_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name in ("p.png", "p.svg"):
        plot.draw(_chain(0.04, 0.6), tmp_path / name)
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    assert (
        "0.60 us a call + 0.040 us a link" in (tmp_path / "p.svg").read_text()
        or (tmp_path / "p.svg").stat().st_size > 5000
    )


def _on_device(name: str, kind: str, rounds: list[float], enqueue_us: float, **more: object) -> Record:
    record = _record(name, kind, rounds, sync_us=sorted(rounds)[len(rounds) // 2], enqueue_us=enqueue_us, **more)
    record.min_us = 0.5  # calls one behind the other: nobody is compared by that
    return record


def test_on_a_device_single_calls_are_compared_and_bars_name_what_they_mean() -> None:
    bars = (
        Bar("straightline", "launch", 1.3, plus_us=1.0, metric="enqueue_us"),
        Bar("straightline", "eager", 0.25),
        Bar("straightline", "", plus_us_per_launch=3.6, metric="enqueue_us"),
        Bar("straightline", "", plus_us=4.0, metric="compile_own_s"),
    )
    ours = _on_device("straightline", "ours", [6.0, 8.0, 7.0], 4.0, launches=2, compile_own_s=5.0)
    measured = _measured(
        _on_device("eager", "peer", [20.0, 22.0, 21.0], 15.0),
        _on_device("compile_reduce_overhead", "peer", [14.0, 14.0, 14.0], 9.0),
        ours,
        _on_device("launch", "floor", [9.0, 9.0, 9.0], 2.0),
        case=Case("c", "?", device="cuda", bars=bars),
    )
    assert comparison.ratio(ours, comparison.best_peer(measured)) == 0.5
    results = [(r.taken_us, r.allowed_us, r.met) for r in comparison.bars(measured)]
    assert results == [
        (4.0, pytest.approx(3.6), False), (7.0, 5.25, False), (4.0, 7.2, True), (5.0, 4.0, False), (7.0, 14.0, True),
    ]  # fmt: skip
    from rich.console import Console

    console = Console(width=200, record=True, file=io.StringIO())
    console.print(report.case_table(measured))
    console.print(report.summary_table([measured], {"machine": {"gpu": "a device"}}))
    text = console.export_text()
    assert "bar: straightline (enqueue) <= 1.3 x launch + 1 us: 4.00 of 3.60 us, missed by 11 %" in text

    assert "bar: straightline (compile own) <= 4 s: 5.00 of 4.00 s, missed by 25 %" in text
    assert "a device" in text and "3 missed" in text


def test_kernels_that_overlap_count_once() -> None:
    from straightline.bench.cuda_timing import covered

    assert covered([(0, 2), (1, 3), (5, 6), (5, 5.5)]) == 4
    assert covered([]) == 0
