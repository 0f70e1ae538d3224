# SPDX-License-Identifier: Apache-2.0
"""Libraries of `fn.export_library`: what they need, and that torch, TVM-FFI and C call them without Straightline."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import straightline as sl
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

ROOT = Path(__file__).resolve().parents[2]
#: What a library may ask of the process: functions of libc.
_OF_LIBC = {"close", "dlerror", "dlopen", "dlsym", "memfd_create", "strlen", "write", "memcpy", "memset"}


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).eval().requires_grad_(False)


def _elsewhere(text: str, *arguments: Any) -> str:
    """Runs Python without this package, and with nothing of the build's.

    STRAIGHTLINE_TEST_ELSEWHERE: a Python of another torch, from 2.10 on, in place of this one.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # torch imports this package by its entry point
    guard = "\nassert not [name for name in sys.modules if name.startswith('straightline')]\n"
    done = subprocess.run(
        [
            os.environ.get("STRAIGHTLINE_TEST_ELSEWHERE", sys.executable),
            "-c",
            "import sys, torch\n" + text + guard,
            *map(str, arguments),
        ],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd="/",
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout + done.stderr


def _exported(path: Path) -> tuple[set[str], set[str]]:
    """The symbols that a library defines, and those that it lacks."""
    lines = subprocess.run(["nm", "-D", path], capture_output=True, text=True, check=True).stdout.splitlines()
    words = [line.split() for line in lines]
    return {w[-1] for w in words if w[-2] != "U"}, {w[-1] for w in words if w[-2] == "U"}


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A library with both doors, and a file with an input and what it gives."""
    folder = tmp_path_factory.mktemp("libraries")
    fn = sl.compile(_mlp(), (torch.randn(3, 16),))
    fn.export_library(folder / "f.so", symbol="forward", torch_op="elsewhere::forward")
    x = torch.randn(3, 16)
    torch.save((x, fn(x)), folder / "x.pt")
    return folder / "f.so", folder / "x.pt"


def test_what_it_needs(case: tuple[Path, Path]) -> None:
    defined, missing = _exported(case[0])
    assert defined == {"__tvm_ffi_forward"}
    assert missing <= _OF_LIBC
    dynamic = subprocess.run(["readelf", "-d", case[0]], capture_output=True, text=True, check=True).stdout
    assert "NEEDED" not in dynamic


def test_by_torch(case: tuple[Path, Path]) -> None:
    _elsewhere(
        """
torch.ops.load_library(sys.argv[1])
x, expected = torch.load(sys.argv[2])
op = torch.ops.elsewhere.forward
torch.testing.assert_close(op(x), expected, rtol=1e-5, atol=1e-5)
assert op(x.to("meta")).shape == (3, 4)
torch.library.opcheck(op.default, (x,))
graph = torch.compile(lambda x: op(x * 2) + 1, fullgraph=True, backend="aot_eager")
torch.testing.assert_close(graph(x), op(x * 2) + 1)
for wrong, words in ((x[:2], "dim 0 is 2"), (x.double(), "float64"), (x.clone().requires_grad_(), "register_autograd")):
    try:
        op(wrong)
    except RuntimeError as error:
        assert "elsewhere::forward: " in str(error) and words in str(error), error
    else:
        raise AssertionError(words)
""",
        *case,
    )


def test_by_tvm_ffi(case: tuple[Path, Path]) -> None:
    _elsewhere(
        """
import tvm_ffi
x, expected = torch.load(sys.argv[2])
module = tvm_ffi.load_module(sys.argv[1])
torch.testing.assert_close(module.forward(x), expected, rtol=1e-5, atol=1e-5)
y = torch.empty(3, 4)
module.forward(x.numpy(), y)
torch.testing.assert_close(y, expected, rtol=1e-5, atol=1e-5)
try:
    module.forward(x[:2])
except ValueError as error:
    assert "dim 0 is 2" in str(error), error
else:
    raise AssertionError
""",
        *case,
    )


def test_by_c(tmp_path: Path) -> None:
    fn = sl.compile(_mlp(), (torch.randn(2, 16),))
    fn.export_library(tmp_path / "forward.so", symbol="forward", cpus=("x86-64-v3",))
    source = ROOT / "examples" / "ffi" / "library.c"
    command = ["cc", "-Wall", "-Wextra", "-Werror", source, "-ldl", "-o", tmp_path / "library"]
    subprocess.run(command, check=True, capture_output=True)
    done = subprocess.run([tmp_path / "library", tmp_path / "forward.so"], capture_output=True, text=True, check=True)
    x = (torch.arange(32) % 5).float().reshape(2, 16)
    got = torch.tensor([float(line) for line in done.stdout.split()]).reshape(2, 4)
    torch.testing.assert_close(got, fn(x), rtol=1e-5, atol=1e-5)


def test_several_libraries_in_one_process(tmp_path: Path) -> None:
    models = [_mlp(), _mlp()]
    x = torch.randn(3, 16)
    for i, model in enumerate(models):
        fn = sl.compile(model, (torch.randn(3, 16),))
        fn.export_library(tmp_path / f"{i}.so", symbol="forward", torch_op=f"elsewhere::op_{i}")
    torch.save((x, [model(x) for model in models]), tmp_path / "x.pt")
    said = _elsewhere(
        """
import tvm_ffi
x, expected = torch.load(sys.argv[2])
for i in range(2):
    path = f"{sys.argv[1]}/{i}.so"
    torch.ops.load_library(path)
    for call in (getattr(torch.ops.elsewhere, f"op_{i}"), tvm_ffi.load_module(path).forward):
        torch.testing.assert_close(call(x), expected[i], rtol=1e-5, atol=1e-5)
import ctypes, shutil
shutil.copy(path, sys.argv[1] + "/copy.so")
torch.ops.load_library(sys.argv[1] + "/copy.so")  # its name is taken: it says so, and the first one stays
torch.testing.assert_close(torch.ops.elsewhere.op_1(x), expected[1], rtol=1e-5, atol=1e-5)
""",
        tmp_path,
        tmp_path / "x.pt",
    )
    assert "torch refuses to register elsewhere::op_1" in said


def test_several_threads_open_it_at_once(case: tuple[Path, Path]) -> None:
    _elsewhere(
        """
import threading
torch.ops.load_library(sys.argv[1])
x, expected = torch.load(sys.argv[2])
wrong = []
def call():
    for _ in range(300):
        result = torch.ops.elsewhere.forward(x)
        if not torch.allclose(result, expected, atol=1e-5):
            wrong.append(result)
threads = [threading.Thread(target=call) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert not wrong
""",
        *case,
    )


class _Many(nn.Module):
    """What a signature has: a list, numbers, texts, updates."""

    def forward(
        self, xs: list[Tensor], y: Tensor, k: int, a: float = 0.1, *, mode: str = 'a "b"\\?'
    ) -> tuple[Tensor, Tensor]:
        y.add_(xs[0] * k)
        return xs[0] + xs[1] * a, y.t()


def test_a_signature_with_everything(tmp_path: Path) -> None:
    xs, y = [torch.randn(3, 4), torch.randn(3, 4)], torch.randn(3, 4)
    sl.compile(_Many(), (xs, y, 3)).export_library(tmp_path / "m.so", symbol="many", torch_op="elsewhere::many")
    own = y.clone()
    torch.save((xs, y, _Many()(xs, own, 3), own), tmp_path / "x.pt")
    _elsewhere(
        """
import tvm_ffi
torch.ops.load_library(sys.argv[1])
xs, y, expected, updated = torch.load(sys.argv[2])
many = tvm_ffi.load_module(sys.argv[1]).many
for call in (torch.ops.elsewhere.many, lambda xs, y, k: many(xs, y, k, 0.1, 'a "b"' + chr(92) + "?")):
    own = y.clone()
    for got, wanted in zip(call(xs, own, 3), expected, strict=True):
        torch.testing.assert_close(got, wanted)
    torch.testing.assert_close(own, updated)
""",
        tmp_path / "m.so",
        tmp_path / "x.pt",
    )


def test_named_sizes(tmp_path: Path) -> None:
    model = _mlp()
    n = torch.export.Dim("n", min=1, max=64)
    fn = sl.compile(model, (torch.randn(3, 16),), dynamic_shapes={"input": {0: n}})
    fn.export_library(tmp_path / "f.so", symbol="forward", torch_op="elsewhere::forward")
    x = torch.randn(9, 16)
    torch.save((x, model(x)), tmp_path / "x.pt")
    _elsewhere(
        """
torch.ops.load_library(sys.argv[1])
x, expected = torch.load(sys.argv[2])
op = torch.ops.elsewhere.forward
torch.testing.assert_close(op(x), expected, rtol=1e-5, atol=1e-5)
torch.library.register_fake("elsewhere::forward", lambda input: input.new_empty(input.size(0), 4))
graph = torch.compile(lambda x: op(x) * 2, fullgraph=True, dynamic=True, backend="aot_eager")
torch.testing.assert_close(graph(x), expected * 2, rtol=1e-5, atol=1e-5)
torch.testing.assert_close(graph(x[:4]), expected[:4] * 2, rtol=1e-5, atol=1e-5)
""",
        tmp_path / "f.so",
        tmp_path / "x.pt",
    )


def test_other_weights(tmp_path: Path) -> None:
    model, other, x = _mlp(), _mlp(), torch.randn(3, 16)
    fn = sl.compile(model, (x,))
    save_file(other.state_dict(), tmp_path / "other.safetensors")
    for i, weights in enumerate((other.state_dict(), tmp_path / "other.safetensors")):
        fn.export_library(tmp_path / f"{i}.so", torch_op=f"elsewhere::other_{i}", weights=weights, prepared=bool(i))
        torch.ops.load_library(tmp_path / f"{i}.so")
        torch.testing.assert_close(getattr(torch.ops.elsewhere, f"other_{i}")(x), other(x), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(fn(x), model(x), rtol=1e-5, atol=1e-5)


def test_the_same_bytes_twice(tmp_path: Path) -> None:
    fn = sl.compile(_mlp(), (torch.randn(3, 16),))
    for name in ("a.so", "b.so"):
        fn.export_library(tmp_path / name, symbol="forward", torch_op="elsewhere::same")
    assert (tmp_path / "a.so").read_bytes() == (tmp_path / "b.so").read_bytes()


def test_an_exported_graph_and_a_program_call_it(tmp_path: Path) -> None:
    model, x = _mlp(), torch.randn(3, 16)
    sl.compile(model, (x,)).export_library(tmp_path / "f.so", torch_op="elsewhere::inner")
    torch.ops.load_library(tmp_path / "f.so")

    class Outer(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(torch.ops.elsewhere.inner(x * 2))

    exported = torch.export.export(Outer(), (x,))
    torch.export.save(exported, tmp_path / "m.pt2")
    again = torch.export.load(tmp_path / "m.pt2")
    expected = model(x * 2).relu()
    torch.testing.assert_close(again.module()(x), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(sl.compile(again)(x), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "needs symbol='forward', torch_op='mylib::forward', or both"),
        ({"symbol": "a b"}, "the symbol 'a b' is no identifier of C"),
        ({"torch_op": "forward"}, "must be a namespace and a name"),
        ({"symbol": "f", "cpus": ()}, "cpus is"),
        ({"symbol": "f", "weights": {"other": torch.randn(1)}}, "other"),
    ],
)
def test_arguments_that_are_wrong(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    fn = sl.compile(_mlp(), (torch.randn(3, 16),))
    with pytest.raises(sl.UserError, match=words):
        fn.export_library(tmp_path / "f.so", **options)
    with pytest.raises(sl.UserError, match=r"cannot|No such"):
        fn.export_library(tmp_path / "no" / "f.so", symbol="f")
    assert not (tmp_path / "f.so").exists()


def test_a_program_that_calls_torch(tmp_path: Path) -> None:
    fn = sl.compile(lambda x: torch.linalg.svdvals(x), (torch.randn(4, 4),))
    with pytest.raises(sl.UnsupportedError, match=r"the program calls what a file cannot hold: aten|linalg"):
        fn.export_library(tmp_path / "f.so", symbol="f")


@pytest.mark.parametrize("name", ["torch_op.py", "tvm_ffi_function.py", "tvm_ffi_kernel.py"])
def test_examples(name: str) -> None:
    subprocess.run([sys.executable, ROOT / "examples" / "ffi" / name], check=True)
