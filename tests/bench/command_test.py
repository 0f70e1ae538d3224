# SPDX-License-Identifier: Apache-2.0
"""`straightline bench` as a user runs it: whole runs over a tiny case, and options that make no sense."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from straightline.__main__ import main

_TINY = Path(__file__).with_name("tiny")
_FAST = ("--threads", "1", "--rounds", "3", "--samples", "1", "--sample-ms", "0.5")


def _bench(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "straightline", "bench", *arguments, *_FAST]
    path = os.pathsep.join(p for p in sys.path if p)
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, timeout=300, env={**os.environ, "PYTHONPATH": path}
    )


def test_a_run_refuses_wrong_answers_and_loses_nobody(tmp_path: Path) -> None:
    names = ["eager", "straightline", "liar", "crasher", "absent", "stumbler"]
    done = _bench(
        "--cases", str(_TINY), "--only", "tiny_1", "--contenders", *names, "--json", "r.json", cwd=tmp_path
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert "tiny_1, 1 thread(s): Liar is wrong: result 0 differs by" in done.stdout
    data = json.loads((tmp_path / "r.json").read_text())
    assert data["schema"] == 1 and {"machine", "date", "commit", "versions", "options", "records", "bars"} <= set(data)
    assert {"cpu", "cores", "load", "memory_gib"} <= set(data["machine"]) and "torch" in data["versions"]
    records = {record["contender"]: record for record in data["records"]}
    assert list(records) == [
        "eager", "straightline", "straightline_out", "straightline_reuse", "straightline_c", "liar", "crasher", "crasher_too",
        "absent", "stumbler",
    ]  # fmt: skip
    statuses = {name: record["status"] for name, record in records.items()}
    assert statuses["liar"] == "wrong" and statuses["absent"] == "unavailable" and statuses["stumbler"] == "failed"
    assert statuses["crasher"] == statuses["crasher_too"] == "crashed"
    assert records["absent"]["reason"] == "no module named absent: pip install absent"
    for name in ("liar", "crasher", "absent", "stumbler"):
        assert records[name]["min_us"] is None and records[name]["round_us"] == [], f"{name} has times"
        assert f"{statuses[name]}: " in done.stdout, "and is in the table"
    for name in ("eager", "straightline", "straightline_out", "straightline_reuse", "straightline_c"):
        record = records[name]
        assert record["status"] == "ok", record["reason"]
        assert 0 < record["min_us"] <= record["median_us"] and len(record["round_us"]) == 3
        assert record["threads"] == 1 and record["case"] == "tiny_1" and record["launches"] == 1
        assert record["error"] < 1e-6 and record["best_peer"] == "eager"
    assert records["straightline_out"]["allocations"] == 0 and records["straightline_c"]["allocations"] == 0
    assert records["eager"]["allocations"] > 0
    assert records["straightline"]["compile_s"] > 0
    met = {bar["against"]: bar["met"] for bar in data["bars"] if bar["row"] == "straightline"}
    assert met == {"eager": True, "nobody": None}


def test_a_model_of_the_users(tmp_path: Path) -> None:
    (tmp_path / "sizes.py").write_text("SIZE = 6\n")
    (tmp_path / "my_model.py").write_text(
        "import torch\nfrom sizes import SIZE\n"
        "def make_model():\n    return torch.nn.Linear(SIZE, 3).eval()\n"
        "inputs = torch.randn(2, SIZE)\n"
    )
    done = _bench("--model", "my_model.py", "--contenders", "eager", "straightline", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "my_model, 1 thread: what does a call of my_model.py cost?" in done.stdout
    assert "Straightline, out=" in done.stdout and "wrong" not in done.stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("inputs = ()\n", "defines neither `model` nor a function `make_model()`"),
        ("import torch\nmodel = torch.nn.ReLU().eval()\n", "defines neither `inputs` nor a function `make_inputs()`"),
        ("import torch\nmodel = torch.nn.ReLU()\ninputs = torch.ones(1)\n", "is in training mode: call model.eval()"),
        ("model = 3\ninputs = ()\n", "`model` of"),
        ("model = abs\ninputs = (1, 'two')\n", "is a tuple of int, str but must be a tensor or a tuple of tensors"),
        ("1 / 0\n", "fails: ZeroDivisionError: division by zero"),
    ],
)
def test_a_file_that_will_not_do(text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = f"bad_{abs(hash(text))}.py"
    (tmp_path / name).write_text(text)
    assert main(["bench", "--model", str(tmp_path / name)]) == 2
    told = capsys.readouterr().err
    assert told.startswith("straightline bench: ") and words in told and name in told


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--only", "huge"), "--only huge matches none of tiny_1, tiny_2"),
        (("--group", "small"), "--group 'small' is none of default, others"),
        (("--contenders", "eager", "tvm"), "--contenders tvm is none of eager, compile, aoti, onnxruntime, openvino"),
        (("--threads", "0"), "--threads 0 but this machine has"),
        (("--threads", "1", "4096"), "--threads 4096 but this machine has"),
        (("--device", "cuda", "--threads", "1"), "no case of"),
        (("--jobs", "0"), "--jobs 0 but must be at least 1"),
        (("--rounds", "0"), "--rounds 0 but must be at least 1"),
        (("--sample-ms", "-1"), "--sample-ms -1 but must be at least 0.001"),
        (("--plot", "picture.bmp"), "--plot picture.bmp ends in .bmp: .png, .svg or .pdf"),
        (("--json", "nowhere/r.json"), "to write r.json into"),
    ],
)
def test_options_that_make_no_sense(options: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--cases", str(_TINY), *options]) == 2
    assert words in capsys.readouterr().err


def test_a_device_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    (tmp_path / "mine.py").write_text(
        "from straightline.bench.case import Case\nCASES = (Case('a', 'a?', device='cuda'), Case('a', 'a?', threads=(1,)))\n"
    )
    arguments = ["bench", "--cases", str(tmp_path), "--device", "cuda"]
    assert main(arguments) == 2 and "torch sees no CUDA device here" in capsys.readouterr().err
    assert main([*arguments, "--threads", "1"]) == 2 and "--threads is for --device cpu" in capsys.readouterr().err
    assert main([*arguments, "--contenders", "openvino"]) == 2
    assert "openvino is none of eager, eager_graph, compile, compile_reduce_overhead" in capsys.readouterr().err


def test_a_model_for_a_device_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the file nor its model, which would be made on the device, is touched."""
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    (tmp_path / "mine.py").write_text("raise AssertionError('the file was read')\n")
    arguments = ["bench", "--model", str(tmp_path / "mine.py"), "--device", "cuda"]
    assert main(arguments) == 2
    assert capsys.readouterr().err == "straightline bench: --device cuda but torch sees no CUDA device here\n"
    assert main([*arguments, "--threads", "1"]) == 2 and "--threads is for --device cpu" in capsys.readouterr().err


def test_places_without_cases(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["bench"]) == 2
    assert "give --model FILE, or --cases FOLDER" in capsys.readouterr().err
    assert main(["bench", "--cases", "nowhere"]) == 2
    assert "no folder of cases at" in capsys.readouterr().err
    assert main(["bench", "--cases", str(tmp_path)]) == 2
    assert "declares CASES" in capsys.readouterr().err
    (tmp_path / "mine.py").write_text("CASES = ('a',)\n")
    assert main(["bench", "--cases", str(tmp_path)]) == 2
    assert "CASES holds a str but must hold straightline.bench.case.Case" in capsys.readouterr().err


def test_the_page_lists_the_options() -> None:
    import argparse

    from straightline.bench.command import add_arguments

    parser = argparse.ArgumentParser(add_help=False)
    add_arguments(parser)
    page = (Path(__file__).resolve().parents[2] / "docs" / "performance" / "benchmark.md").read_text(encoding="utf-8")
    table = page[page.index("| option |") : page.index("## Your own model")]
    for action in parser._actions:
        assert f"`{action.option_strings[0]}" in table, (
            f"docs/performance/benchmark.md does not list {action.option_strings[0]}"
        )


def test_the_cases_of_this_repository_are_what_the_page_says() -> None:
    from straightline.bench.case import load_folder

    root = Path(__file__).resolve().parents[2]
    cases = load_folder(root / "bench" / "cases").cases
    page = (root / "docs" / "performance" / "benchmark.md").read_text(encoding="utf-8")
    for case in cases:
        assert case.question.endswith("?") and (case.threads == (1, 2) or case.device == "cuda")
        named = case.name if case.group == "default" else case.group
        assert f"`{named}`" in page, f"docs/performance/benchmark.md does not name {named}"
        if case.floor is not None:
            assert (root / "bench" / "floor" / case.floor.source).is_file()
    assert sum(case.group == "linears" for case in cases) == 64
