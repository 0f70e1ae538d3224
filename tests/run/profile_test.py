# SPDX-License-Identifier: Apache-2.0
"""`fn.profile`: its rows are the program's statements, and no other program has a hook."""

from __future__ import annotations

import json
from pathlib import Path

import headless
import perfetto
import pytest
import straightline as sl
import torch
from policy import OWN_BACKEND
from torch import Tensor, nn


def _model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 64, 10)
    ).eval()


def test_rows_are_the_statements(tmp_path: Path) -> None:
    x = torch.randn(2, 3, 8, 8)
    fn = sl.compile(_model(), (x,))
    profile = fn.profile(x, runs=20)
    launched = [row for row in fn.explain().statements if row["phase"] == "run" and row["kernel"]]
    assert [row.kernel for row in profile.rows if row.kernel] == [row["kernel"] for row in launched]
    assert [row.backend for row in profile.rows if row.kernel] == [row["backend"] for row in launched]
    assert all(0 <= row.least_us <= row.median_us for row in profile.rows)
    assert profile.runs == 20 and profile.overhead_us > 0 and profile.call_us > profile.overhead_us
    # each call's rows and its overhead are the call; medians of parts are not quite parts of the median
    assert sum(row.median_us for row in profile.rows) <= 3 * profile.call_us
    convolution = next(row for row in profile.rows if row.op.startswith("convolution"))
    linear = next(row for row in profile.rows if row.op.startswith("linear"))
    if OWN_BACKEND == "native":  # a device prepares several weights in one launch
        assert convolution.flops == 2 * (2 * 16 * 64) * (3 * 9)
    assert linear.flops == 2 * (2 * 10) * (16 * 64)
    assert convolution.bytes > 0 and profile.limits["gb_per_second"] > 0
    shown = str(profile)
    assert "GFLOP/s" in shown and linear.kernel in shown and "arguments, guard, results" in shown
    profile.trace(tmp_path / "t.json")
    events = [e for e in json.loads((tmp_path / "t.json").read_text())["traceEvents"] if e["ph"] == "X"]
    calls = [e for e in events if e["cat"] == "call"]
    assert len(calls) == 20
    for event in events:
        assert any(
            c["ts"] - 1e-3 <= event["ts"] and event["ts"] + event["dur"] <= c["ts"] + c["dur"] + 1e-3 for c in calls
        )
    assert {e["name"] for e in events} >= {row.kernel for row in profile.rows if row.kernel}


def test_perfetto_reads_the_trace(tmp_path: Path) -> None:
    """Perfetto's own reader finds every event that was written: names, nesting, times in nanoseconds, sources."""
    headless.needed()
    if why := perfetto.why_not():
        pytest.skip(why)
    x, trace = torch.randn(2, 3, 8, 8), tmp_path / "t.json"
    profile = sl.compile(_model(), (x,)).profile(x, runs=25)
    profile.trace(trace)
    slices, problems, names, sums = perfetto.rows_of(
        trace,
        [
            "select name, category, depth, ts, dur, extract_arg(arg_set_id, 'args.source') as source from slice order by ts, depth",
            "select name, value from stats where severity = 'error' and value > 0",
            "select process.name as process, thread.name as thread from thread join process using (upid) where tid = 1",
            "select count(*) as count, count(distinct parent_id) as calls from slice",
        ],
    )
    assert not problems and names == [{"process": f"straightline {profile.name}", "thread": "statements"}]
    written = sorted(
        (e for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "X"), key=lambda e: (e["ts"], -e["dur"])
    )
    assert sums == [{"count": len(written), "calls": 20}]  # the calls that a trace has
    for got, event in zip(slices, written, strict=True):
        assert (got["name"], got["category"], got["source"]) == (event["name"], event["cat"], event["args"]["source"])
        assert got["depth"] == (0 if event["cat"] == "call" else 1)
        assert abs(got["ts"] - event["ts"] * 1e3) <= 1
        assert abs(got["dur"] - event["dur"] * 1e3) <= 1
    assert {row.kernel for row in profile.rows if row.kernel} <= {got["name"] for got in slices}


def test_perfetto_says_what_is_wrong(tmp_path: Path) -> None:
    """The reader that the test above believes does refuse what is no trace."""
    headless.needed()
    if why := perfetto.why_not():
        pytest.skip(why)
    broken = tmp_path / "t.json"
    broken.write_text('{"traceEvents": [{"name": "call", "ph": "X", "ts": ')
    with pytest.raises(RuntimeError, match="no such table|fail"):
        perfetto.rows_of(broken, ["select count(*) as count from slice"])


def test_only_the_twin_has_hooks() -> None:
    x = torch.randn(2, 3, 8, 8)
    fn = sl.compile(_model(), (x,))
    before = fn(x)
    fn.profile(x, runs=2)
    assert "sl::profile(" not in fn.code and torch.equal(fn(x), before)


def test_named_sizes_several_examples_states_and_saved(tmp_path: Path) -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x: Tensor) -> Tensor:
            self.count.add_(1)
            return x * self.count

    model = Counter()
    fn = sl.compile(model, (torch.randn(3),))
    fn.profile(torch.randn(3), runs=4)
    # three before they are measured; on a device the function itself is timed, too
    assert model.count == (7 if OWN_BACKEND == "native" else 11)

    linear = nn.Linear(8, 4).eval()
    sized = sl.compile(linear, (torch.randn(3, 8),), dynamic_shapes=({0: torch.export.Dim("n", min=1, max=32)},))
    row = next(r for r in sized.profile(torch.randn(20, 8), runs=2).rows if r.op == "linear")
    assert row.flops == 2 * 20 * 4 * 8
    several = sl.compile(linear, [(torch.randn(1, 8),), (torch.randn(5, 8),)])
    row = next(r for r in several.profile(torch.randn(5, 8), runs=2).rows if r.op == "linear")
    assert row.flops == 2 * 5 * 4 * 8
    with pytest.raises(sl.GuardError):
        several.profile(torch.randn(2, 8), runs=2)
    several.save(tmp_path / "m.sl", ("host",))
    assert sl.load(tmp_path / "m.sl").profile(torch.randn(1, 8), runs=2).rows


def test_bad_arguments(tmp_path: Path) -> None:
    x = torch.randn(2, 8)
    fn = sl.compile(nn.Linear(8, 4).eval(), (x,))
    for runs in (0, True, 1.5):
        with pytest.raises(sl.UserError, match="runs is"):
            fn.profile(x, runs=runs)
    with pytest.raises(sl.GuardError):
        fn.profile(torch.randn(2, 9), runs=1)
    with pytest.raises(sl.UserError, match="cannot write"):
        fn.profile(x, runs=1).trace(tmp_path / "no" / "t.json")


def test_a_slot_that_is_chosen_is_profiled() -> None:
    """`sl.slot` counts for `profile` as for calls, and the profile says which program it is of."""
    x = torch.randn(1, 4)
    fn = sl.compile(nn.Linear(4, 4).eval(), (x,), slots={"linear": ("native", "onednn")})
    for number, target in enumerate(("native", "onednn"), 1):
        with sl.slot(linear=target):
            profile = fn.profile(x, runs=2)
        assert profile.program == number and target in fn.examples[number - 1]
        assert target in {row.backend for row in profile.rows}
    assert fn.profile(x, runs=2).program == 1
    with sl.slot(linear="cuda"), pytest.raises(sl.UserError, match="slot linear is chosen as 'cuda'"):
        fn.profile(x)
