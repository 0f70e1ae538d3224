# SPDX-License-Identifier: Apache-2.0
"""Our own mistakes: an internal error that names a file with what reproduces it; the process goes on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import straightline as sl
import torch
from straightline import _compiler

X = torch.arange(6, dtype=torch.float32).reshape(2, 3)


@pytest.fixture(autouse=True)
def dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where texts are kept."""
    monkeypatch.setenv("STRAIGHTLINE_DUMP", str(tmp_path))
    return tmp_path


def works() -> None:
    torch.testing.assert_close(sl.compile(lambda x: x * 3, (X,))(X), X * 3)


def test_emitted_code_that_does_not_compile(dump: Path) -> None:
    """A header of the embedded compiler is not at fault, so the fault is put where one would be: in a program's text."""
    text = """
      !b = !kernel.buffer<8xf32>
      kernel.program @forward target(<"cpu", "x86-64-v3">) {
        kernel.queue @team backend("cpu")
        kernel.run (%x "x": !b) outs(%y "y": !b) {
          kernel.launch @odd(%x) outs(%y) on @team : (!b) -> !b
          kernel.return %y : !b
        }
      }
      kernel.func @odd(!b) outs(!b) schedule(<"no_such_family", shape = {}, tune = {}>) ties([])
    """
    with pytest.raises(sl.InternalError) as caught:
        _compiler.compile(_compiler.Module.parse(text), cpu="x86-64-v3")
    message = str(caught.value)
    assert "emitted unit odd does not compile" in message
    assert "no_such_family.h' file not found" in message
    assert "\n" not in message
    path = Path(re.search(r"its text is kept in (\S+)$", message)[1])  # type: ignore[index]
    assert path.parent == dump and "sl::no_such_family<" in path.read_text()
    assert "// " in path.read_text().splitlines()[-1]
    works()


def test_a_pass_that_fails_keeps_the_module(dump: Path) -> None:
    """What a front end builds wrongly is our mistake; the same in a text would be its author's (malformed_test)."""
    builder = _compiler.Builder()
    kind = "tensor<?xf32, #op.dims<[b]>>"
    values = builder.begin_function("forward", ["x"], [kind])
    builder.end_function(builder.op("op.neg", values, [kind]), ["y"], [""])
    module = builder.finish()
    with pytest.raises(sl.InternalError, match="extent 'b' of .* has no op.symbol") as caught:
        _compiler.compile(module)
    assert "\n" not in str(caught.value)
    kept = [Path(path) for path in re.findall(r"(?:kept|came) in (\S+)", str(caught.value))]
    assert len(kept) == 2 and all(path.parent == dump for path in kept)
    assert "// a pass failed" in kept[0].read_text() and "has no op.symbol" in kept[0].read_text()
    _compiler.Module.parse(kept[0].read_text())
    works()
