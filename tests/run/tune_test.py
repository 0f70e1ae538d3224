# SPDX-License-Identifier: Apache-2.0
"""`tune=True`: what is measured, kept, found again and refused. No time is judged here, only what was done with it."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import textwrap
import warnings
from typing import Any

import pytest
import torch
from policy import check_close, same_bits
from torch import Tensor, nn

import straightline as sl
from straightline._tuning import Tuning


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A cache of these tests alone, for other processes may tune into the user's; compiled kernels stay in it."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def file(cache: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The file of measured choices, which is not there yet."""
    monkeypatch.setenv("STRAIGHTLINE_CACHE_DIR", str(cache))
    path = cache / "tuning.json"
    path.unlink(missing_ok=True)
    return path


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("straightline._tuning._VISIT_SECONDS", 1e-4)
    monkeypatch.setattr("straightline._tuning._ROUNDS", 2)


def _mlp() -> tuple[nn.Module, Tensor]:
    return nn.Sequential(
        nn.Linear(48, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 10)
    ).eval(), torch.randn(6, 48)


def _convnet() -> tuple[nn.Module, Tensor]:
    layers = (nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5)).eval(), torch.randn(
        2, 3, 14, 14
    )


def _timed(compiled: Any) -> int:
    return compiled._binding.tuning.timed


def _close(compiled: Any, model: nn.Module, x: Tensor) -> None:
    with torch.inference_mode():
        check_close(compiled(x), model(x), model.double()(x.double()))
        model.float()


def _tuned(compiled: Any) -> list[dict[str, Any]]:
    return [row for row in compiled.explain().statements if "measured_us" in row]


@pytest.mark.parametrize("make", [_mlp, _convnet])
@pytest.mark.parametrize("threads", [1, 2])
def test_candidates_are_measured_once_and_results_are_right(make: Any, threads: int, file: pathlib.Path) -> None:
    model, x = make()
    first = sl.compile(model, (x,), threads=threads, tune=True)
    _close(first, model, x)
    rows = _tuned(first)
    assert len(rows) == 3 and _timed(first) >= 2 * len(rows)
    for row in rows:
        assert len(row["measured_us"]) > 1 and all(us > 0 for us in row["measured_us"].values())
        assert row["why"].startswith("measured: ") and " us" in row["why"] and "estimated" in row["why"]
        assert row["choice"].endswith(f"@{threads}")
    content = json.loads(file.read_text())
    assert {record["problem"] for record in content["records"]} == {row["choice"] for row in rows}
    assert all(record["chosen"] in record["candidates"] for record in content["records"])
    again = sl.compile(model, (x,), threads=threads, tune=True)
    assert _timed(again) == 0 and again.code == first.code and same_bits(again(x), first(x))
    assert [row["measured_us"].keys() for row in _tuned(again)] == [row["measured_us"].keys() for row in rows]
    assert json.loads(file.read_text()) == content


@pytest.mark.parametrize("make", [_mlp, _convnet])
def test_every_candidate_is_right_when_the_file_names_it(make: Any, file: pathlib.Path) -> None:
    model, x = make()
    sl.compile(model, (x,), threads=2, tune=True)
    content = json.loads(file.read_text())
    seen = 0
    for i in range(max(len(record["candidates"]) for record in content["records"])):
        for record in content["records"]:
            names = list(record["candidates"])
            record["chosen"] = names[min(i, len(names) - 1)]
        file.write_text(json.dumps(content))
        compiled = sl.compile(model, (x,), threads=2, tune=True)
        _close(compiled, model, x)
        assert _timed(compiled) == 0
        chosen = {record["problem"]: record["chosen"] for record in content["records"]}
        for row in _tuned(compiled):
            assert row["why"].startswith(f"measured: {chosen[row['choice']]} ")
            seen += (
                row["kernel"].startswith(chosen[row["choice"]].split("[")[0].split(".")[1].split("_")[0])
                or row["backend"] != "native"
            )
    assert seen > 6


def test_without_tune_the_file_is_not_read(file: pathlib.Path) -> None:
    model, x = _mlp()
    plain = sl.compile(model, (x,), threads=1)
    tuned = sl.compile(model, (x,), threads=1, tune=True)
    content = json.loads(file.read_text())
    for record in content["records"]:
        record["chosen"] = list(record["candidates"])[-1]
    file.write_text(json.dumps(content))
    assert sl.compile(model, (x,), threads=1).code == plain.code
    assert not _tuned(plain) and _tuned(tuned)
    file.write_text("{")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sl.compile(model, (x,), threads=1)


def _record(content: dict[str, Any], **changes: Any) -> str:
    content["records"][0].update(changes)
    return json.dumps(content)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda c: json.dumps(c)[:-20], "cannot be read and is made anew"),
        (lambda c: "\x00\xff", "cannot be read and is made anew"),
        (lambda c: "[]", "damaged: it has no list of records"),
        (lambda c: json.dumps({**c, "format": 99}), "of another version"),
        (lambda c: json.dumps({**c, "version": "straightline 0.0"}), "of another version"),
        (lambda c: _record(c, chosen="native.gemm; rm"), "damaged: record 1"),
        (lambda c: _record(c, candidates={"native.gemm[]": "1"}), "damaged: record 1"),
        (lambda c: _record(c, machine=7), "damaged: record 1"),
    ],
)
def test_a_file_that_is_not_right_is_ignored_and_made_anew(damage: Any, words: str, file: pathlib.Path) -> None:
    model, x = nn.Linear(24, 20).eval(), torch.randn(3, 24)
    sl.compile(model, (x,), threads=1, tune=True)
    content = json.loads(file.read_text())
    file.write_text(damage(json.loads(file.read_text())), encoding="latin-1")
    with pytest.warns(sl.CacheWarning, match=words):
        again = sl.compile(model, (x,), threads=1, tune=True)
    assert _timed(again) > 1
    _close(again, model, x)
    made = json.loads(file.read_text())
    assert made["format"] == content["format"] and list(made["records"][0]["candidates"]) == list(
        content["records"][0]["candidates"]
    )


def test_candidates_that_are_none_are_never_taken(file: pathlib.Path) -> None:
    """A file whose candidates are others than those of now, whoever wrote it, is measured again and says so nowhere in code."""
    model, x = nn.Linear(24, 20).eval(), torch.randn(3, 24)
    sl.compile(model, (x,), threads=1, tune=True)
    content = json.loads(file.read_text())
    record = content["records"][0]
    record["candidates"] = {**record["candidates"], "native.evil[mr:1]": 0.001}
    record["chosen"] = "native.evil[mr:1]"
    file.write_text(json.dumps(content))
    again = sl.compile(model, (x,), threads=1, tune=True)
    assert _timed(again) > 1 and "evil" not in again.code + str(again.explain()) + file.read_text()


def test_another_processor_and_other_constraints_have_records_of_their_own(
    file: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, x = nn.Linear(24, 20).eval(), torch.randn(3, 24)
    sl.compile(model, (x,), threads=1, tune=True)
    monkeypatch.setattr(sys.modules["straightline._tuning"], "processor", lambda: "another one")
    assert _timed(sl.compile(model, (x,), threads=1, tune=True)) > 1
    assert len({record["machine"] for record in json.loads(file.read_text())["records"]}) == 2
    routed = sl.compile(model, (x,), threads=1, tune=True, routes={"linear": "native.gemm"})
    assert _timed(routed) > 1 and all(name.startswith("native.gemm[") for name in _tuned(routed)[0]["measured_us"])


def test_what_cannot_be_done_here_is_not_chosen(file: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a library's plan finds out: here of the estimates' choice, which is the first one made."""
    real, made = sl._compiler.Timing, []

    def timing(program: Any, seed: int, by_stream: bool) -> Any:
        made.append(program)
        if program is made[0]:
            raise sl.UnsupportedError("the library has no kernel for this problem")
        return real(program, seed)

    monkeypatch.setattr("straightline._compiler.Timing", timing)
    model, x = _mlp()
    for _ in range(2):  # measured, and read from the file
        compiled = sl.compile(model, (x,), threads=1, tune=True)
        first, *others = _tuned(compiled)[0]["measured_us"].items()
        assert first[1] == float("inf") and all(us < first[1] for _, us in others)
        assert first[0] not in _tuned(compiled)[0]["why"].split(" us")[0]
        _close(compiled, model, x)
    assert made.count(made[0]) == 1 and _timed(compiled) == 0


def test_nothing_is_kept_without_a_cache(file: pathlib.Path) -> None:
    model, x = nn.Linear(24, 20).eval(), torch.randn(3, 24)
    for _ in range(2):
        compiled = sl.compile(model, (x,), threads=1, tune=True, cache=False)
        assert _timed(compiled) > 1 and not file.exists()
    _close(compiled, model, x)


def test_sizes_that_are_known_per_call_keep_the_estimates(file: pathlib.Path) -> None:
    batch = torch.export.Dim("batch", min=1, max=64)
    compiled = sl.compile(nn.Linear(24, 20).eval(), (torch.randn(3, 24),), dynamic_shapes=({0: batch},), tune=True)
    assert not _tuned(compiled) and _timed(compiled) == 0 and not file.exists()
    assert compiled(torch.randn(5, 24)).shape == (5, 20)


def test_several_examples_and_mlir_share_the_choices(file: pathlib.Path) -> None:
    model, x = nn.Linear(24, 20).eval(), torch.randn(3, 24)
    several = sl.compile(model, [(x,), (torch.randn(7, 24),)], threads=1, tune=True)
    assert len(_tuned(several)) == 2
    again = sl.compile_mlir(several._others[0].ir("op"), model.state_dict(), threads=1, tune=True)
    assert _timed(again) == 0 and len(_tuned(again)) == 1
    y = torch.randn(7, 24)
    assert same_bits(again(y), several(y))


def test_an_in_place_update_is_not_run_by_the_measurement(file: pathlib.Path) -> None:
    """Only contractions by themselves are run: the user's buffers and tensors stay as they are."""

    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(16, 16)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: Tensor) -> Tensor:
            self.calls.add_(1)
            return self.fc(x)

    model, x = Counter().eval(), torch.randn(2, 16)
    compiled = sl.compile(model, (x,), tune=True)
    assert model.calls == 0 and _timed(compiled) > 1
    compiled(x)
    assert model.calls == 1


def test_the_progress_says_what_is_measured(file: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    measured = Tuning._measured
    monkeypatch.setattr(
        Tuning, "_measured", lambda self, *rest: seen.append(self.progress.text()) or measured(self, *rest)
    )
    model, x = _mlp()
    compiled = sl.compile(model, (x,), threads=1, tune=True)
    assert seen == [("measuring linear", i, 3) for i in range(3)]
    assert compiled._binding.tuning.progress.measuring is None


def test_options() -> None:
    x = torch.randn(2, 4)
    for value in (1, "yes", None):
        with pytest.raises(sl.UserError, match=f"tune is {value!r} but must be True or False"):
            sl.compile(nn.Linear(4, 4).eval(), (x,), tune=value)
    with pytest.raises(
        sl.UserError,
        match="tune=True measures on the device, but the target is cuda:sm_90 and the example inputs are on the cpu",
    ):
        sl.compile(lambda x: x + 1, (x,), target="cuda:sm_90", tune=True)


_INTERRUPTED = """
    import os, signal, sys, threading, torch, straightline as sl, straightline._tuning as tuning
    from torch import nn
    # A job started in the background inherits an ignored SIGINT; this test is about one that is not.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    class Dropped:  # Python drops what is raised in a destructor
        def __del__(self):
            os.kill(os.getpid(), signal.SIGINT)
            sum(range(10))
    def interrupt():
        if DROPPED:
            Dropped()
        else:
            threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT)).start()
    measured = tuning.Tuning._measured
    def interrupted(self, row, options):
        tuning._ROUNDS = 10**6  # until Ctrl-C
        interrupt()
        return measured(self, row, options)
    tuning.Tuning._measured = interrupted
    try:
        sl.compile(nn.Linear(24, 20).eval(), (torch.randn(3, 24),), tune=True)
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.parametrize("dropped", [False, True])
def test_control_c_ends_a_measurement(dropped: bool, tmp_path: pathlib.Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        "STRAIGHTLINE_CACHE_DIR": str(tmp_path),
    }
    script = [sys.executable, "-c", f"DROPPED = {dropped}\n" + textwrap.dedent(_INTERRUPTED)]
    done = subprocess.run(script, env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "interrupted", done.stderr
    assert not (tmp_path / "tuning.json").exists()
