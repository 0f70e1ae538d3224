# SPDX-License-Identifier: Apache-2.0
"""MLIR text that is malformed, or parses and is nonsense, through `Module.parse`, compiling and straightline-opt."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import straightline as sl
from straightline import _compiler

FORWARD = 'func.func @forward(%x: tensor<4xf32> {op.name = "x"}) -> (tensor<4xf32> {op.name = "y"}) {\n'

MALFORMED: dict[str, tuple[str, str]] = {
    "unknown op": ("func.func @f() {\n  nonsense\n}", r"bad\.mlir:2"),
    "unknown op of ours": (FORWARD + "  %y = op.nonsense %x\n}", r"bad\.mlir:2.*op\.nonsense"),
    "unclosed": (FORWARD, r"bad\.mlir:1"),
    "undefined value": (FORWARD + "  return %q : tensor<4xf32>\n}", r"bad\.mlir:2.*undeclared SSA value"),
    "other shape": (FORWARD + "  %y = op.neg %x : (tensor<4xf32>) -> tensor<5xf32>\n}", r"bad\.mlir:2.*4.*5"),
    "dims of another rank": ("func.func @f(%x: tensor<?xf32, #op.dims<[b, 4]>>)", r"bad\.mlir:1"),
    "binary": ("\0\1\2\3", "."),
    "bytecode": ("ML\xefR", "."),
    "nothing but brackets": ("(" * 5000, r"bad\.mlir:1"),
}

NO_DIMS = """
func.func @forward(%x: tensor<?xf32> {op.name = "x"}) -> (tensor<?xf32> {op.name = "y"}) {
  %y = op.neg %x : (tensor<?xf32>) -> tensor<?xf32>
  return %y : tensor<?xf32>
}
"""
KERNEL = """
!b = !kernel.buffer<8xf32>
kernel.program @forward target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !b) outs(%y "y": !b) {
    kernel.copy %x to %y on @team : !b to !b
    kernel.return %y : !b
  }
}
"""
NONSENSE: dict[str, tuple[str, str]] = {
    "nothing": ("", "forward|function|program"),
    "a dim without a name": (NO_DIMS, "tensor<\\?xf32>"),
    "no op of the level": (FORWARD + "  %y = arith.negf %x : tensor<4xf32>\n  return %y : tensor<4xf32>\n}", "arith.negf"),
    "two functions": (2 * (FORWARD + "  return %x : tensor<4xf32>\n}\n").replace("@forward", "@g", 1), "@?g|function"),
    "undeclared queue": (KERNEL.replace("on @team", "on @nobody"), "@?nobody"),
    "two programs": (KERNEL + KERNEL[KERNEL.index("kernel.program") :].replace("@forward", "@other"), "2 kernel.program"),
    "undeclared kernel": (
        KERNEL.replace("kernel.copy %x to %y on @team : !b to !b", "kernel.launch @none(%x) outs(%y) on @team : (!b) -> !b"),
        "none",
    ),
    "extent without bounds": (KERNEL.replace("8xf32", "[b] x f32"), "'?b'?"),
    "result never given": (KERNEL.replace("    kernel.return %y : !b\n", ""), "return|terminator"),
}  # fmt: skip


def works() -> None:
    code = _compiler.compile(_compiler.Module.parse(KERNEL), cpu="x86-64-v3").code
    assert "sl_program_run" in code


@pytest.mark.parametrize("name", MALFORMED)
def test_parse(name: str) -> None:
    text, words = MALFORMED[name]
    with pytest.raises(sl.UserError, match=rf"(?s)malformed module:.*{words}"):
        _compiler.Module.parse(text, name="bad.mlir")
    works()


@pytest.mark.parametrize("name", NONSENSE)
def test_compile(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRAIGHTLINE_DUMP", str(tmp_path))
    text, words = NONSENSE[name]
    with pytest.raises(sl.UserError, match=rf"(?s){words}") as caught:
        _compiler.compile(_compiler.Module.parse(text, name="bad.mlir"), cpu="x86-64-v3")
    assert re.search(r"bad\.mlir:\d+: ", str(caught.value)), caught.value
    assert not list(tmp_path.iterdir()), "nothing is kept of what the user wrote"
    works()


def opt(text: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """straightline-opt over its C entry point."""
    script = "import sys; from straightline import _compiler; sys.exit(_compiler.opt_main(['straightline-opt', *sys.argv[1:]]))"
    return subprocess.run(
        [sys.executable, "-c", script, *flags],
        input=text.encode("latin1").decode("latin1"),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", sorted(set(MALFORMED) - {"binary", "bytecode"}))
def test_opt_on_malformed_text(name: str) -> None:
    done = opt(MALFORMED[name][0])
    assert done.returncode == 1, done
    assert f"<stdin>:{MALFORMED[name][1].split(':')[1][0]}:" in done.stderr and "error" in done.stderr


def test_opt_on_nonsense_at_each_level() -> None:
    overlapping = KERNEL.replace(
        "    kernel.copy %x to %y on @team : !b to !b\n",
        "    %s = kernel.slot offset(0) : !b\n    %t = kernel.slot offset(4) : !b\n"
        "    kernel.copy %x to %s on @team : !b to !b\n    kernel.copy %x to %t on @team : !b to !b\n"
        "    kernel.copy %s to %y on @team : !b to !b\n    kernel.copy %t to %y on @team : !b to !b\n",
    )
    for text, flag, line in (
        (NO_DIMS, "--verify-op-level", 3),
        (NONSENSE["undeclared queue"][0], "--verify-kernel-level", 6),
        (overlapping, "--verify-planned-level", 7),
    ):
        done = opt(text, flag)
        assert done.returncode == 1 and f"<stdin>:{line}:" in done.stderr and "error" in done.stderr, done
    assert opt(KERNEL, "--verify-kernel-level").returncode == 0
    assert opt(KERNEL, "--no-such-pass").returncode == 1
