# SPDX-License-Identifier: Apache-2.0
"""`CompileOptions`: one set of options for `compile`, `compile_mlir` and the command line; who refuses what."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import straightline as sl
import torch
from straightline import _compiler, _internal
from straightline.__main__ import main

FIELDS = [option.name for option in dataclasses.fields(sl.CompileOptions)]
X = torch.ones(2, 3)
TEXT = """
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = op.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


def _never(x: torch.Tensor) -> torch.Tensor:
    raise AssertionError("the model was captured")


def test_both_signatures_show_the_options() -> None:
    for function, own in (
        (sl.compile, ["dynamic_shapes", "values", "sizes", "fetches", "options"]),
        (sl.compile_mlir, ["options"]),
    ):
        parameters = inspect.signature(function).parameters.values()
        assert [p.name for p in parameters if p.kind is p.KEYWORD_ONLY] == own + FIELDS
        assert not any(p.kind is p.VAR_KEYWORD for p in parameters)


def test_every_option_is_described() -> None:
    described = re.findall(
        r"^        (\w+): ", inspect.getdoc(sl.CompileOptions) and sl.CompileOptions.__doc__ or "", re.M
    )
    assert described == FIELDS


def test_frozen_and_whole() -> None:
    backends, routes = ["native", "aten"], {"relu": "native"}
    options = sl.CompileOptions(allow=backends, routes=routes)
    backends.clear()
    routes.clear()
    assert options.allow == ("native", "aten") and options.routes == {"relu": "native"}
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.freeze = False  # type: ignore[misc]
    with pytest.raises(TypeError):
        options.routes["relu"] = "aten"  # type: ignore[index]


def test_names_count_before_the_object() -> None:
    options = sl.CompileOptions(emit="python", threads=1)
    assert "def run(io" in sl.compile(torch.relu, (X,), options=options).code
    assert "def run(io" not in sl.compile(torch.relu, (X,), options=options, emit="cpp").code
    assert "def run(io" in sl.compile_mlir(TEXT, options=options).code


_TYPES: dict[str, Any] = {
    "threads": 0, "freeze": 1, "emit": "rust", "fast_path": "no", "reuse_outputs": None, "cpu": None, "target": 3, "launch": "slow",
    "concurrent_branches": "every", "cache": "no", "allow": "native", "routes": [3], "slots": {"linear": None}, "winograd": None, "tune": 2, "specialize": "yes",
}  # fmt: skip


@pytest.mark.parametrize("name", FIELDS)
def test_a_value_of_another_type(name: str) -> None:
    words = re.escape(f"{name} is {_TYPES[name]!r} but must be ")
    for call in (
        lambda **options: sl.CompileOptions(**options),
        lambda **options: sl.compile(_never, (X,), **options),
        lambda **options: sl.compile_mlir(TEXT, **options),
    ):
        with pytest.raises(sl.UserError, match=words):
            call(**{name: _TYPES[name]})


_VALUES = {
    "cpu": ({"cpu": "abacus"}, "unknown target cpu 'abacus'"),
    "allow": ({"allow": ("native", "cudnn")}, "allow has the backend 'cudnn'; valid on cpu are native, onednn, aten"),
    "allow, without ours": ({"allow": ("aten",)}, "allow is aten but must have 'native'"),
    "allow, empty": ({"allow": ()}, "allow is empty but must have backends"),
    "launch": ({"launch": "graph"}, "launch is 'graph' but the program is for the cpu"),
    "routes": ({"routes": {"linear": "a b"}}, "routes has 'linear': 'a b'; an entry is"),
}


@pytest.mark.parametrize("case", _VALUES)
def test_a_value_that_the_compiler_does_not_take(case: str) -> None:
    """Before anything is captured or parsed."""
    options, words = _VALUES[case]
    for call in (lambda: sl.compile(_never, (X,), **options), lambda: sl.compile_mlir("no mlir {", **options)):
        with pytest.raises(sl.UserError, match=re.escape(words)):
            call()


def test_other_mistakes() -> None:
    with pytest.raises(sl.UserError, match="unknown option 'thread' of sl.compile: did you mean threads"):
        sl.compile(_never, (X,), thread=1)
    with pytest.raises(sl.UserError, match="unknown option 'wino' of sl.compile_mlir: did you mean winograd"):
        sl.compile_mlir(TEXT, wino=1)
    with pytest.raises(sl.UserError, match="options is a dict but must be a CompileOptions"):
        sl.compile(_never, (X,), options={"freeze": False})
    with pytest.raises(sl.UserError, match="target is 'cuda:sm_90' but must be None or 'cpu': programs from mlir"):
        sl.compile_mlir(TEXT, target="cuda:sm_90")
    with pytest.raises(TypeError, match="unknown option 'speed'"):
        _compiler.check_options(speed=11)


def test_the_command_line_takes_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "f.mlir"
    file.write_text(TEXT)
    with pytest.raises(SystemExit):
        main(["compile", "--help"])
    shown = capsys.readouterr().out
    assert all(f"--{name.replace('_', '-')}" in shown for name in FIELDS)
    arguments = [
        "compile",
        str(file),
        "--no-freeze",
        "--routes",
        "linear=native",
        "--allow",
        "native",
        "aten",
        "--threads",
        "1",
    ]
    assert main([*arguments, "--show", "code", "--emit", "python"]) == 0
    assert "def run(io" in capsys.readouterr().out
    assert main(["compile", str(file), "--allow", "aten"]) == 1
    assert "UserError: allow is aten but must have 'native'" in capsys.readouterr().err
    assert main(["compile", str(file), "--routes", "relu"]) == 1
    assert "UserError: routes is 'relu', which cannot be read: No such file" in capsys.readouterr().err
    assert main(["compile", str(file), "--routes", "relu="]) == 1
    assert "UserError: routes has 'relu': ''" in capsys.readouterr().err


def test_internal_options_end_with_their_block() -> None:
    with _internal.internal_options(kernels_per_unit=5):
        with _internal.internal_options(prefer="onednn"):
            assert _internal.current() == _internal.InternalOptions(prefer="onednn")
        assert _internal.current().kernels_per_unit == 5
    assert _internal.current() == _internal.InternalOptions()
    with pytest.raises(sl.UserError, match="no backend 'moon' is registered"):
        _internal.compile(torch.relu, (X,), internal={"device_backend": "moon"})
