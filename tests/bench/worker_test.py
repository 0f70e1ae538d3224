# SPDX-License-Identifier: Apache-2.0
"""The worker's protocol, and what the parent makes of a worker that is lost."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from straightline.bench import answers, machine
from straightline.bench.case import load_folder
from straightline.bench.contenders.cuda_inductor import library_of_package
from straightline.bench.session import Reference, Session, Settings
from straightline.bench.worker_client import WorkerClient, WorkerGone

_TINY = Path(__file__).with_name("tiny")
_LIMIT_S = 120.0


def _prepare(client: WorkerClient, contender: str, folder: Path, limit_s: float = _LIMIT_S) -> dict[str, Any]:
    source = {"cases": str(_TINY)}
    return client.ask(
        limit_s,
        "prepare",
        contender=contender,
        case="tiny_1",
        device="cpu",
        threads=1,
        source=source,
        folder=str(folder),
        shared_folder=str(folder),
    )


def test_requests_are_answered_in_turn(tmp_path: Path) -> None:
    client = WorkerClient(tmp_path, {})
    try:
        prepared = _prepare(client, "eager", tmp_path)
        assert prepared["ok"] and list(prepared["rows"]) == ["eager"] and prepared["compile_s"] == 0
        assert prepared["rows"]["eager"]["launches"] == 1
        assert client.ask(_LIMIT_S, "check", row="eager", file=str(tmp_path / "r.npz"))["ok"]
        (result,) = answers.load(tmp_path / "r.npz")
        assert result.shape == (4, 8) and result.dtype == np.float32 and np.abs(result).max() > 0
        timed = client.ask(_LIMIT_S, "time", row="eager", samples=3, sample_s=0.001)
        assert timed["ok"] and len(timed["samples_us"]) == 3 and min(timed["samples_us"]) > 0 and timed["calls"] >= 1
        assert client.ask(_LIMIT_S, "count", row="eager") == {"ok": True, "allocations": None}, "nothing was preloaded"
        unknown = client.ask(_LIMIT_S, "time", row="nobody", samples=1, sample_s=0.001)
        assert not unknown["ok"] and unknown["kind"] == "failed" and "nobody" in unknown["reason"]
    finally:
        client.close()


def test_a_crash_is_told_with_the_last_words(tmp_path: Path) -> None:
    client = WorkerClient(tmp_path, {})
    with pytest.raises(WorkerGone, match=r"ended with SIGABRT during prepare: the last words") as caught:
        _prepare(client, "crasher", tmp_path)
    assert caught.value.kind == "crashed"


def test_what_hangs_is_killed_and_its_row_says_so(tmp_path: Path) -> None:
    settings = Settings(1, 1, 0.001, 4.0, tmp_path, {"cases": str(_TINY)})
    collection = load_folder(_TINY)
    hanger = next(c for c in collection.contenders if c.name == "hanger")
    reference = Reference([np.zeros((4, 8), np.float32)], None, 0, 256)
    start = time.monotonic()
    measured = Session(settings, lambda words: None).measure(collection.cases[0], 1, [hanger], reference)
    assert time.monotonic() - start < 60
    (record,) = measured.records
    assert record.status == "timed out" and record.min_us is None
    assert record.reason == "prepare took more than 4 s and was killed"


def test_single_calls_are_waited_for_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a device: a call that enqueues, and a wait that takes what was enqueued."""
    import torch

    from straightline.bench import cuda_timing
    from straightline.bench.contender import cuda_call

    enqueued, waits = [], []

    def wait() -> None:
        waits.append(len(enqueued))
        time.sleep(0.002 * len(enqueued))
        enqueued.clear()

    monkeypatch.setattr(torch.cuda, "synchronize", wait)
    call = cuda_call(lambda x, y: enqueued.append(x), (1,), y=2)
    waits.clear()
    assert call.singles is not None
    singles = call.singles(4)
    assert waits == [0, 1, 1, 1, 1], "nothing is under way when a call begins"
    assert len(singles) == 4 and all(back < 0.002 <= done for back, done in singles)
    timed = cuda_timing.timed(call, samples=1, sample_s=0.002)
    assert len(timed["sync_us"]) == len(timed["enqueue_us"]) == 10 and min(timed["sync_us"]) >= 2000 > min(
        timed["enqueue_us"]
    )
    assert timed["samples_us"][0] >= 2000 and timed["calls"] >= 1


def test_who_calls_stays_on_one_core() -> None:
    allowed = os.sched_getaffinity(0)
    core = machine.quietest_core()
    assert core in allowed and os.sched_getaffinity(0) == allowed
    with machine.on_core(core):
        assert os.sched_getaffinity(0) == {core}
    assert os.sched_getaffinity(0) == allowed
    with machine.on_core(None):
        assert os.sched_getaffinity(0) == allowed


def test_a_package_of_aot_inductor_without_its_loader(tmp_path: Path) -> None:
    import torch

    x = torch.randn(4, 8)
    program = torch.export.export(torch.nn.Tanh(), (x,))
    path = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "model.pt2"))
    (result,) = library_of_package(path, "cpu")(x)
    torch.testing.assert_close(result, torch.tanh(x))


def test_cases_that_prepare_beside_each_other(tmp_path: Path) -> None:
    collection = load_folder(_TINY)
    settings = Settings(2, 1, 0.001, _LIMIT_S, tmp_path, {"cases": str(_TINY)}, jobs=4)
    chosen = [c for c in collection.contenders if c.name in ("liar", "stumbler")]
    failures: list[str] = []
    session = Session(settings, lambda words: None)
    measured = list(session.measure_together(collection.cases[:2], 1, chosen, failures))
    assert [m.case.name for m in measured] == ["tiny_1", "tiny_2"] and not failures
    for one in measured:
        assert [record.status for record in one.records] == ["wrong", "failed"]
