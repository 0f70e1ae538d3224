# SPDX-License-Identifier: Apache-2.0
"""STRAIGHTLINE_LOG, STRAIGHTLINE_DUMP and the progress of long compilations."""

from __future__ import annotations

import io
import json
import os
import re
import sys
import threading
from pathlib import Path

import pytest
import torch
from torch import nn

import straightline as sl
from straightline import _compiler, _progress

X = torch.randn(1, 64)


@pytest.fixture
def model() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 8), nn.Softmax(-1)).eval()


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("STRAIGHTLINE_CACHE_DIR", str(folder))
    return folder


def lines_of(capfd: pytest.CaptureFixture[str], topic: str) -> list[str]:
    """Lines of a topic; nothing else may have been printed."""
    lines = capfd.readouterr().err.splitlines()
    assert all(line.startswith(f"straightline {topic}: ") for line in lines), lines
    return [line.removeprefix(f"straightline {topic}: ") for line in lines]


def test_silent_by_default(model: nn.Module, capfd: pytest.CaptureFixture[str]) -> None:
    compiled = sl.compile(model, (X,))
    compiled(X)
    assert capfd.readouterr() == ("", "")


def test_route(model: nn.Module, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRAIGHTLINE_LOG", "route")
    compiled = sl.compile(model, (X,), routes={"linear": "native.gemm"})
    lines = lines_of(capfd, "route")
    statements = compiled.explain().statements
    assert len(lines) == len(statements)
    for line, row in zip(lines, statements, strict=True):
        assert line.startswith(f"{row['phase']} {row['op']}") and f"-> {row['backend']} {row['kernel']}" in line
        assert row["why"] in line
    assert any("native.gemm: route linear = native.gemm (the argument routes), estimated" in line for line in lines)
    compiled(X)
    assert not lines_of(capfd, "route")


def test_passes(model: nn.Module, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRAIGHTLINE_LOG", "passes")
    sl.compile(model, (X,), threads=1)
    lines = lines_of(capfd, "passes")
    pattern = r"([a-z-]+) +\d+\.\d\d ms, (\d+) -> (\d+) ops"
    found = [re.fullmatch(pattern, line) for line in lines]
    assert all(found), lines
    names = [match[1] for match in found if match]
    assert names[0] == "verify-op-level" and names[-1] == "verify-planned-level" and "select-kernels" in names
    counts = [(int(match[2]), int(match[3])) for match in found if match]
    assert all(after == before for (_, after), (before, _) in zip(counts, counts[1:], strict=False)), counts
    assert any(before != after for before, after in counts)


def test_codegen_and_cache(
    model: nn.Module, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, own_cache: Path
) -> None:
    monkeypatch.setenv("STRAIGHTLINE_LOG", "codegen")
    sl.compile(model, (X,), threads=1)
    cold = sorted(re.sub(r"\d+\.\d ms", "T", line) for line in lines_of(capfd, "codegen"))
    sl.compile(model, (X,), threads=1)
    warm = sorted(re.sub(r"\d+\.\d ms", "T", line) for line in lines_of(capfd, "codegen"))
    assert len(cold) == len(warm) >= 3
    for line in cold:  # packing runs once
        assert line.endswith(": T, compiled for one run" if line.startswith("pack_") else ": T, compiled")
    assert any(line.startswith("pack_") for line in cold)
    assert warm == [re.sub("compiled.*", "from the cache", line) for line in cold]

    monkeypatch.setenv("STRAIGHTLINE_LOG", "cache")
    damaged = sorted(own_cache.glob("*.slo"))[0]
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with pytest.warns(sl.CacheWarning, match="damaged"):
        sl.compile(model, (X,), threads=1)
    lines = lines_of(capfd, "cache")
    units = [re.fullmatch(r"(hit|miss) \w+ ([0-9a-f]{64})", line) for line in lines[:-2]]
    assert len(units) == len(cold) and all(units), lines
    assert [unit[2] for unit in units if unit and unit[1] == "miss"] == [damaged.stem]
    assert lines[-2].startswith("damaged cache entry deleted")
    assert lines[-1] == f"{own_cache}: {len(cold) - 1} hits, 1 misses, 1 damaged, 1 stored, 0 evicted"
    sl.compile(model, (X,), threads=1, cache=False)
    assert lines_of(capfd, "cache") == ["off"]


def test_several_topics(model: nn.Module, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRAIGHTLINE_LOG", "route, codegen,,")
    sl.compile(model, (X,))
    topics = {line.split(": ")[0] for line in capfd.readouterr().err.splitlines()}
    assert topics == {"straightline route", "straightline codegen"}


LEVELS = [
    "01-captured.mlir",
    "02-simplified.mlir",
    "03-grouped.mlir",
    "04-kernel.mlir",
    "05-program.cpp",
    "06-explain.json",
]


def test_dump(model: nn.Module, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "dump" / "here"
    monkeypatch.setenv("STRAIGHTLINE_DUMP", str(folder))
    compiled = sl.compile(model, (X,), threads=1)
    again = sl.compile(lambda x: x + 1, (X,), threads=1)
    assert sorted(path.name for path in folder.iterdir()) == ["compile-0001", "compile-0002"]
    for number, function in (("1", compiled), ("2", again)):
        dumped = folder / f"compile-000{number}"
        assert sorted(path.name for path in dumped.iterdir()) == LEVELS
        texts = {path.name: path.read_text() for path in dumped.iterdir()}
        assert texts["05-program.cpp"] == function.code
        facts, told = json.loads(texts["06-explain.json"]), function.explain().facts
        for row, more in zip(facts.pop("statements"), told["statements"], strict=True):
            assert row.items() <= more.items(), "a device's kernels have registers beside"
        assert facts.items() <= told.items()
        assert texts["04-kernel.mlir"] == function.ir("kernel", locations=True)
        for name in LEVELS[:4]:
            _compiler.Module.parse(texts[name])
    grouped = (folder / "compile-0001" / "03-grouped.mlir").read_text()
    assert "op.fusion" in grouped and "#op.kernel_choice" in grouped
    assert "op.fusion" not in (folder / "compile-0001" / "02-simplified.mlir").read_text()


def test_a_dump_of_what_fails_ends_where_it_failed(
    model: nn.Module, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("STRAIGHTLINE_DUMP", str(tmp_path / "dump"))
    with pytest.raises(sl.UserError, match="cannot be honoured"):
        sl.compile(model, (torch.randn(32, 64),), routes={"linear": "native.gemv"})
    assert sorted(path.name for path in (tmp_path / "dump" / "compile-0001").iterdir()) == LEVELS[:2]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_on_a_terminal(model: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compilation that takes long (here: that is held up) shows what it does; a short one does not."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(_progress, "_SILENT_SECONDS", 600.0)
    sl.compile(model, (X,))
    assert terminal.getvalue() == ""

    hold_up(terminal, "straightline", monkeypatch)
    sl.compile(model, (X,), threads=1)
    written = terminal.getvalue()
    assert f"straightline {type(model).__name__}: " in written
    assert written.endswith("\x1b[2K"), "the line is erased in the end"
    assert not [thread for thread in threading.enumerate() if thread.name == "straightline-progress"]


def hold_up(stream: io.StringIO, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compilations last until the text was shown, and show at once what they do."""
    shown = threading.Event()
    write = stream.write
    monkeypatch.setattr(stream, "write", lambda part: (shown.set() if text in part else None, write(part))[1])
    monkeypatch.setattr(_progress, "_SILENT_SECONDS", 0.0)
    real = _compiler.compile

    def held_up(*args: object, **options: object) -> object:
        result = real(*args, **options)  # type: ignore[arg-type]
        assert shown.wait(60)
        return result

    monkeypatch.setattr(_compiler, "compile", held_up)


def test_progress_where_the_environment_says_so(model: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRAIGHTLINE_PROGRESS", "1")
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with monkeypatch.context() as held:
        hold_up(stream, "compiling kernels with clang", held)
        sl.compile(model, (X,), threads=1)
    monkeypatch.setenv("STRAIGHTLINE_PROGRESS", "0")
    monkeypatch.setattr(_progress, "_SILENT_SECONDS", 0.0)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    sl.compile(model, (X,), threads=1)
    assert terminal.getvalue() == ""
    monkeypatch.setenv("STRAIGHTLINE_PROGRESS", "yes")
    with pytest.raises(sl.UserError, match="STRAIGHTLINE_PROGRESS is 'yes' but must be '0' or '1'"):
        sl.compile(model, (X,), threads=1)


def test_no_progress_elsewhere(
    model: nn.Module, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_progress, "_SILENT_SECONDS", 0.0)
    sl.compile(model, (X,))
    assert capfd.readouterr() == ("", "")
    monkeypatch.setattr(sys, "stderr", None)  # as under pythonw
    sl.compile(model, (X,))


def test_progress_counts_units(model: nn.Module) -> None:
    progress = _compiler.Progress()
    assert (progress.stage, progress.units_done, progress.units) == (0, 0, 0)
    module = _compiler.Module.parse(sl.compile(model, (X,), threads=1).ir("op"))
    compilation = _compiler.compile(module, progress=progress)
    assert progress.stage == 2 and progress.units_done == progress.units == len(compilation.units)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a team needs two cores")
def test_what_is_worth_a_team_is_compiled_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The estimate for one thread decides about the team; the dump shows the plan that was compiled."""
    monkeypatch.setenv("STRAIGHTLINE_DUMP", str(tmp_path / "dump"))
    monkeypatch.setenv("STRAIGHTLINE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    a = torch.randn(256, 1024)
    before = sl.cache_info()
    compiled = sl.compile(torch.mm, (a, a.T.contiguous()))
    after = sl.cache_info()
    assert compiled.explain()["threads"] == 2
    assert after.stored - before.stored == len(compiled._compilation.units)
    assert sorted(path.name for path in (tmp_path / "dump" / "compile-0001").iterdir()) == LEVELS
    kernel_level = (tmp_path / "dump" / "compile-0001" / "04-kernel.mlir").read_text()
    assert kernel_level == compiled.ir("kernel", locations=True)
    assert "kernel.barrier" in kernel_level or "threads: 2" in compiled.code


def test_where_the_time_of_compiling_went() -> None:
    seconds = sl.compile(torch.nn.Linear(64, 4), (X,)).explain()["compile_seconds"]
    assert set(seconds) == {"capture", "passes", "emission", "units", "clang", "link", "load", "prepare"}
    assert all(value >= 0 for value in seconds.values())
    assert seconds["capture"] > 0 and seconds["passes"] > 0
