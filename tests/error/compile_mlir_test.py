# SPDX-License-Identifier: Apache-2.0
"""What `compile_mlir` says to wrong text, files and parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import straightline as sl

TEXT = """
func.func @forward(%x: tensor<3x8xf32> {op.name = "x"}) -> (tensor<3x8xf32> {op.name = "y"}, tensor<8xf32> {op.name = "s", op.tie = "state:s"}) {
  %w = op.parameter "w" : tensor<8xf32>
  %b = op.parameter "b" : tensor<8xf32>
  %s = op.state "s" : tensor<8xf32>
  %t = op.add %s, %b : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %e = op.expand %w : (tensor<8xf32>) -> tensor<3x8xf32>
  %y = op.mul %x, %e : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %y, %t : tensor<3x8xf32>, tensor<8xf32>
}
"""


def _parameters(**changed: Any) -> dict[str, Any]:
    given = {name: np.zeros(8, np.float32) for name in ("w", "b", "s")}
    return {name: array for name, array in {**given, **changed}.items() if array is not None}


def _refused(*arguments: Any, kind: type[Exception] = sl.UserError, **options: Any) -> str:
    with pytest.raises(kind) as caught:
        sl.compile_mlir(*arguments, **options)
    assert type(caught.value) is kind
    return str(caught.value)


def test_all_wrong_parameters_are_named_at_once() -> None:
    read_only = np.zeros(8, np.float32)
    read_only.flags.writeable = False
    said = _refused(TEXT, _parameters(w=np.zeros((2, 4)), b=None, s=read_only, extra=np.zeros(1)))
    assert said.startswith("the parameters do not fit <string>:\n")
    assert "unknown: 'extra'" in said
    assert "'w' is float64[2, 4] but float32[8]" in said
    assert "missing: 'b' (float32[8])" in said
    assert "'s' is read-only but the program updates it" in said
    assert "missing: 'w'" in (said := _refused(TEXT)) and "missing: 'b'" in said and "missing: 's'" in said
    assert "'b' must be a tensor but is a list" in _refused(TEXT, _parameters(b=[0.0] * 8))
    # A parameter is only read: its array may be read-only.
    sl.compile_mlir(TEXT, _parameters(w=read_only))


@pytest.mark.parametrize("parameters", [[1], 5, True])
def test_parameters_of_another_kind(parameters: Any) -> None:
    assert f"parameters is a {type(parameters).__name__} but must be a dict" in _refused(TEXT, parameters)


@pytest.mark.parametrize("source", [None, 5, ["a"], TEXT.splitlines()])
def test_sources_of_another_kind(source: Any) -> None:
    assert f"source is a {type(source).__name__} but must be mlir text" in _refused(source)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert "No such file" in (said := _refused("absent.mlir")) and "absent.mlir" in said
    assert "Is a directory" in _refused(tmp_path)
    assert "No such file" in (said := _refused(TEXT, "absent.safetensors")) and "absent.safetensors" in said
    pickled = tmp_path / "weights.pt"
    pickled.write_bytes(b"\x80\x04]\x94.")
    assert "weights.pt' is no safetensors file" in _refused(TEXT, pickled)
    empty = tmp_path / "empty.mlir"
    empty.write_text("")
    assert "has 0 functions" in _refused(empty)


@pytest.mark.parametrize(
    "text, words",
    [
        ("func.func @f(\n", "malformed module"),
        (TEXT.replace("op.mul", "op.nonsense"), "nonsense"),
        (TEXT.replace('"w" : tensor<8xf32>', '"w" : tensor<9xf32>'), "8"),
        (TEXT.replace("%t =", '%c = op.parameter "w" : tensor<9xf32>\n  %t ='), '"w"'),
        (TEXT + TEXT.replace("@forward", "@second"), "has 2 functions"),
        (b"MLIR\xefR\x00\xff\xff", ""),
    ],
)
def test_malformed_text(text: Any, words: str) -> None:
    assert words in _refused(text, _parameters())
    assert "has no body" in _refused("func.func private @f()\n")


@pytest.mark.parametrize(
    "body,kind,words",
    [
        (
            "%0 = op.reshape %x : (tensor<3xf32>) -> tensor<1x1x1x1x1x1x1x1x3xf32>",
            sl.UnsupportedError,
            "<string>:2.*has rank 9; .*rank 8",
        ),
        (
            "%0 = op.expand %x : (tensor<3xf32>) -> tensor<4611686018427387904x3xf32>",
            sl.UserError,
            "<string>:2.*larger than any memory",
        ),
        (
            "%0 = op.slice %x {dim = 0 : i64, start = 3 : i64, end = 3 : i64, step = 1 : i64} : (tensor<3xf32>) -> tensor<0xf32>\n"
            "%1 = op.argmin %0 {dim = 0 : i64, keepdim = false} : (tensor<0xf32>) -> tensor<i64>",
            sl.UserError,
            "<string>:3.*'op.argmin' over dim 0 of .*has no result",
        ),
    ],
    ids=["rank", "size", "nothing"],
)
def test_what_no_program_can_hold(body: str, kind: type[Exception], words: str) -> None:
    text = f"func.func @forward(%x: tensor<3xf32>) -> tensor<3xf32> {{\n{body}\nreturn %x : tensor<3xf32> }}"
    with pytest.raises(kind, match=words):
        sl.compile_mlir(text)


def test_options_are_checked_as_those_of_compile() -> None:
    assert "unknown option 'thread' of sl.compile_mlir: did you mean threads" in _refused(TEXT, _parameters(), thread=1)
    assert "dynamic_shapes" not in _refused(TEXT, _parameters(), dynamic_shapes=None).partition("there are")[2]
    assert "allow has the backend 'rust'" in _refused(TEXT, _parameters(), allow=("native", "rust"))
    assert "emit is 'rust'" in _refused(TEXT, _parameters(), emit="rust")
    assert "threads is 0" in _refused(TEXT, _parameters(), threads=0)
    assert "unknown target cpu 'z80'" in _refused(TEXT, _parameters(), cpu="z80")


def test_calls_are_guarded() -> None:
    compiled = sl.compile_mlir(TEXT, _parameters())
    for bad, words in [
        ((np.zeros((3, 9), np.float32),), "9"),
        ((np.zeros((3, 8)),), "float64 but"),
        ((), "x"),
        ((np.zeros((3, 8), np.float32),) * 2, "1"),
    ]:
        with pytest.raises(sl.GuardError, match=words):
            compiled(*bad)


def test_sizes_advise_what_a_module_has() -> None:
    text = """
        op.symbol @n {max = 8 : i64, min = 1 : i64}
        func.func @forward(%x: tensor<?x8xf32, #op.dims<[n, 8]>> {op.name = "x"}) -> (tensor<?x8xf32, #op.dims<[n, 8]>> {op.name = "y"}) {
          %y = op.neg %x : (tensor<?x8xf32, #op.dims<[n, 8]>>) -> tensor<?x8xf32, #op.dims<[n, 8]>>
          return %y : tensor<?x8xf32, #op.dims<[n, 8]>>
        }"""
    compiled = sl.compile_mlir(text)
    for shape, words in [
        ((3, 9), "dim 1 is 9 but this program was compiled for 8; compile the module for this size, or with a named extent for the dim"),
        ((9, 8), "dim 0 is 9 but this program was compiled for n in [1, 8]; compile the module for this size, or the extent with a larger max"),
        ((0, 8), "dim 0 is 0 but this program was compiled for n in [1, 8]; compile the module for this size, or the extent with a smaller min"),
        ((8,), "it has 1 dims but this program was compiled for 2, [n, 8]; compile the module for this rank"),
    ]:  # fmt: skip
        with pytest.raises(sl.GuardError) as caught:
            compiled(np.zeros(shape, np.float32))
        assert str(caught.value) == f"input 'x': {words}"
    with pytest.raises(sl.GuardError) as caught:
        compiled(np.zeros((3, 8)))
    assert str(caught.value) == "input 'x': dtype is float64 but this program was compiled for float32; convert it"


def test_compile_points_to_it() -> None:
    with pytest.raises(sl.UserError, match="model is a str: sl.compile_mlir compiles mlir text and files"):
        sl.compile("model.mlir")
