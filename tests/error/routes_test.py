# SPDX-License-Identifier: Apache-2.0
"""Routes that name nothing, or that cannot be honoured; unknown options and environment values."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import straightline as sl
import torch
from straightline import _compiler
from torch import nn

MODEL, X = nn.Linear(64, 48).eval(), torch.randn(32, 64)


def works() -> None:
    torch.testing.assert_close(sl.compile(MODEL, (X,))(X), MODEL(X).detach(), rtol=1e-4, atol=1e-5)


NAMELESS: dict[str, tuple[str, str, str]] = {
    "op": ("liner", "native", "unknown op 'liner'; the nearest is 'linear'; ops have the names of fn.ir"),
    "view": ("reshape", "native", "'reshape' is never routed: it computes nothing"),
    "storage": ("parameter", "native", "'parameter' is never routed"),
    "reduction": ("softmax", "onednn", "backend 'onednn' has no kernel for softmax; native, cuda can do it"),
    "second": ("linear", "native, mkl", "unknown backend 'mkl'; there are native"),
    "backend": ("linear", "mkl", "unknown backend 'mkl'; there are native.*, aten, auto, cpu, flaggems"),
    "near a backend": ("linear", "nativ", "unknown backend 'nativ'; the nearest is 'native'; there are native"),
    "backend for all": ("*", "mkl", "unknown backend 'mkl'; there are native"),
    "kernel": (
        "linear",
        "native.gem",
        r"there is no kernel 'native\.gem' for linear; there are native\.gemm, native\.gemm_bf16, native\.gemm_int8, native\.gemv",
    ),
    "kernel for all": ("*", "native.gem", r"there is no kernel 'native\.gem'; there are "),
    "kernel of another op": ("linear", "native.winograd", r"there is no kernel 'native\.winograd' for linear"),
    "torch behind another": ("linear", "native, aten", "aten stands behind 'native', but must be the first target"),
}


@pytest.mark.parametrize("name", NAMELESS)
@pytest.mark.parametrize("how", ["argument", "variable", "file"])
def test_a_route_that_names_nothing(name: str, how: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    op, kernel, words = NAMELESS[name]
    options: dict[str, Any] = {}
    if how == "argument":
        options["routes"], origin = {op: kernel}, "the argument routes"
    elif how == "variable":
        origin = "STRAIGHTLINE_ROUTE_" + op.replace("*", "ALL")
        monkeypatch.setenv(origin, kernel)
    else:
        (tmp_path / "mine.txt").write_text(f"# first\n{op} = {kernel}\n")
        monkeypatch.setenv("STRAIGHTLINE_ROUTES", str(tmp_path / "mine.txt"))
        origin = "mine.txt:2"
    with pytest.raises(sl.UserError, match=rf"^route {re.escape(f'{op} = {kernel} ({origin})')}: {words}"):
        sl.compile(MODEL, (X,), **options)
    monkeypatch.undo()
    works()


def test_a_route_that_cannot_be_honoured() -> None:
    """The kernel's own reason, for each op that it refuses, with its place in the model."""
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 8)).eval()
    with pytest.raises(sl.UserError) as caught:
        sl.compile(model, (X,), routes={"linear": "native.gemv"})
    message = str(caught.value)
    words = (
        "linear: route linear = native.gemv (the argument routes) cannot be honoured: native.gemv: m=32, needs 1 to 4"
    )
    assert [line.partition("): ")[2] for line in message.splitlines()] == [words, words], (
        message
    )  # a line each, and nothing of MLIR's
    assert re.search(r"^0 \(linear\.py:\d+\): ", message, re.MULTILINE) and re.search(
        r"^2 \(linear\.py:\d+\): ", message, re.MULTILINE
    )
    with pytest.raises(sl.UserError, match=r"cannot be honoured: native\.winograd: .*kernel|stride|5"):
        sl.compile(
            nn.Conv2d(8, 8, 5, stride=2).eval(), (torch.randn(1, 8, 9, 9),), routes={"convolution": "native.winograd"}
        )
    works()


@pytest.mark.parametrize(
    "routes, words",
    [
        ("linear=native", "routes is 'linear=native', which cannot be read: No such file"),
        ("", "routes is '' but must be rules"),
        ([("linear", "native")], r"routes is \[\('linear', 'native'\)\] but must be rules such as"),
        (
            3,
            "routes is 3 but must be rules such as {'linear': 'native'}, the path of a file of rules, or a list of both",
        ),
        ({"linear": None}, "routes is {'linear': None} but must be rules such as"),
        (
            {"linear": ""},
            r"routes has 'linear': ''; an entry is '\[where :\] op' and 'target\[, target \.\.\.\]', such as",
        ),
        ({"linear": []}, "routes has 'linear': ''; an entry is"),
        ({"linear": "native, "}, "routes has 'linear': 'native, '; an entry is"),
        ({"": "native"}, "routes has ' ': 'native'; an entry is"),
        ({" : linear": "native"}, "routes has ' : linear': 'native'; an entry is"),
        ({"linear": "native freeze=false"}, "routes has 'linear': 'native freeze=false'"),
        ({"linear=native route.matmul": "x"}, "routes has 'linear=native route.matmul'"),
        ({"model.py:12": "native"}, "; all ops of source lines are 'model.py:12 : \\*'"),
        ({"model.py:9-3 : linear": "native"}, "'model.py:9-3' has no lines; expected FILE:FIRST-LAST, counted from 1"),
        (
            {"a:b:c : linear": "native"},
            r"'a:b:c' is no place; expected a module pattern \(layers\.\*\.attn\), FILE:LINE",
        ),
        ({"layers.[0 : linear": "native"}, r"'layers\.\[0' is no pattern: "),
        ({3: "native"}, "routes is {3: 'native'} but must be rules"),
    ],
)
def test_an_argument_that_is_no_route(routes: Any, words: str) -> None:
    with pytest.raises(sl.UserError, match=words):
        sl.compile(MODEL, (X,), routes=routes)


@pytest.mark.parametrize(
    "text, words",
    [
        (
            "linear native",
            r"mine\.txt:1: 'linear native' is no rule; a line is '\[where :\] op = target\[, target \.\.\.\]'",
        ),
        ("\n\nlinear =", r"mine\.txt:3: 'linear =' is no rule"),
        ("= native", r"mine\.txt:1: '= native' is no rule"),
        ("linear = native = onednn", r"mine\.txt:1: .* is no rule"),
        (
            "linear = native\n# again\nlinear = native.gemm",
            r"route linear = native\.gemm \(mine\.txt:3\) contradicts route linear = native \(mine\.txt:1\)",
        ),
        ("# nothing\n\n", "STRAIGHTLINE_ROUTES is '.*mine.txt', which has no rule"),
        ("", "STRAIGHTLINE_ROUTES is '.*mine.txt', which has no rule"),
        ("\xff\x00 = native", r"mine\.txt:1: .* is no rule"),
    ],
)
def test_a_file_that_is_none(text: str, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text(text, encoding="latin-1")
    monkeypatch.setenv("STRAIGHTLINE_ROUTES", str(tmp_path / "mine.txt"))
    with pytest.raises(sl.UserError, match=words):
        sl.compile(MODEL, (X,))
    with pytest.raises(sl.UserError, match=words.replace("STRAIGHTLINE_ROUTES", "routes")):
        sl.compile(MODEL, (X,), routes=tmp_path / "mine.txt")


def test_a_file_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for path, words in ((tmp_path / "absent", "No such file"), (tmp_path, "Is a directory")):
        monkeypatch.setenv("STRAIGHTLINE_ROUTES", str(path))
        with pytest.raises(sl.UserError, match=f"STRAIGHTLINE_ROUTES is '{path}', which cannot be read: {words}"):
            sl.compile(MODEL, (X,))


@pytest.mark.parametrize(
    "text, word", [("foo", "foo"), ("route,Passes", "Passes"), ("all", "all"), ("route passes", "route passes")]
)
def test_an_unknown_topic(text: str, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRAIGHTLINE_LOG", text)
    with pytest.raises(sl.UserError, match=f"STRAIGHTLINE_LOG has '{word}'; valid are route, passes, codegen, cache"):
        sl.compile(MODEL, (X,))


@pytest.mark.parametrize(
    "target", ["cuda:sm_75a", "cuda:sm_90f", "cuda:sm_90x", "cuda:sm_1000", "cuda:sm_9", "cuda:sm_100fa", "sm_90"]
)
def test_a_target_of_the_pipeline_that_does_not_exist(target: str) -> None:
    """As NVRTC knows them; `target` of compile is asked in tests/run/cuda_test.py."""
    module = _compiler.Module.parse(sl.compile(MODEL, (X,)).ir("op"))
    with pytest.raises(
        sl.UserError,
        match=f"unknown target '{target}'; valid are cuda:sm_NN, .* with a behind it from 90 on and f from 100 on",
    ):
        _compiler.compile(module, target=target)


@pytest.mark.parametrize("text", ["banana", "true", "2", " 1"])
def test_a_wait_that_is_neither_on_nor_off(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the cpu as well, where nothing waits."""
    monkeypatch.setenv("STRAIGHTLINE_SYNC", text)
    for target in (None, "cuda:sm_90"):
        with pytest.raises(sl.UserError, match=f"STRAIGHTLINE_SYNC is '{text}' but must be '0' or '1'"):
            sl.compile(MODEL, (X,), target=target)


@pytest.mark.parametrize("text", ["", "0", "1"])
def test_a_wait_that_is_on_or_off(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRAIGHTLINE_SYNC", text)
    sl.compile(MODEL, (X,))


def test_an_unknown_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRAIGHTLINE_JIT_HOOKS", "gdb,lldb")
    with pytest.raises(sl.UserError, match="STRAIGHTLINE_JIT_HOOKS has 'lldb'; valid are gdb, perf"):
        sl.compile(MODEL, (X,))


def test_a_dump_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("STRAIGHTLINE_DUMP", str(tmp_path / "file"))
    with pytest.raises(sl.UserError, match="STRAIGHTLINE_DUMP: cannot write .*file"):
        sl.compile(MODEL, (X,))
    monkeypatch.undo()
    works()


@pytest.mark.parametrize(
    "option, words",
    [
        ("thread", "unknown option 'thread' of sl.compile: did you mean threads"),
        ("freze", "did you mean freeze"),
        ("dynamic_shape", "did you mean dynamic_shapes"),
        ("route", "did you mean routes"),
        (
            "zzz",
            "unknown option 'zzz' of sl.compile: there are dynamic_shapes, values, sizes, fetches, options, threads, ",
        ),
    ],
)
def test_an_unknown_option(option: str, words: str) -> None:
    with pytest.raises(sl.UserError, match=words) as caught:
        sl.compile(MODEL, (X,), **{option: 1})
    assert "prefer" not in str(caught.value) and "changes" not in str(caught.value)
