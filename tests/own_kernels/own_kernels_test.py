# SPDX-License-Identifier: Apache-2.0
"""C functions as ops: in eager, in programs, the interpreter, emitted Python and saved models; what does not fit is refused."""

from __future__ import annotations

import ctypes
import itertools
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import straightline as sl
import torch
from libraries import HERE, INCLUDE, build
from straightline import own_kernels
from torch import Tensor

Register = Callable[..., Any]
SCALE = "scale(Tensor x, float a) -> Tensor"


class _Of(torch.nn.Module):
    """A module whose forward is a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *args: Any) -> Any:
        return self._function(*args)


def _compiled(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    return sl.compile(_Of(function), args, **options)


def _interpreted(fn: Any) -> Callable[..., Any]:
    """Calls of a function by the interpreter."""

    def call(*args: Any) -> Any:
        with sl.fast_path(False):
            return fn(*args)

    return call


def _seeded() -> torch.Generator:
    seed = torch.seed() % 2**31
    print("seed", seed)
    return torch.Generator().manual_seed(seed)


def _random(*shape: int, generator: torch.Generator) -> Tensor:
    return torch.randn(*shape, generator=generator)


# One function, everywhere ---------------------------------------------------------------------------------------------


def test_eager_and_program(register: Register) -> None:
    scale = register("scale", SCALE)
    x = _random(5, 7, generator=_seeded())
    wanted = (x.double() * 1.25).float()
    assert torch.equal(scale(x, 1.25), wanted)
    assert torch.equal(torch.ops.own_test.scale(x.t(), 1.25), wanted.t())
    fn = _compiled(lambda x: torch.ops.own_test.scale(x, 1.25), x)
    assert torch.equal(fn(x), wanted)
    assert [row["backend"] for row in json.loads(fn._compilation.explain_json)["statements"]] == ["own"]
    assert f"{scale.symbol}(" in fn.code


def test_between_ops_of_ours(register: Register) -> None:
    register("scale", SCALE)
    generator = _seeded()
    model = torch.nn.Linear(8, 4)
    x = _random(3, 8, generator=generator)

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = model

        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.own_test.scale(torch.relu(self.first(x)), 2.0).t() + 1

    with torch.no_grad():
        wanted = (torch.relu(model(x)) * 2).t() + 1
        torch.testing.assert_close(sl.compile(Model(), (x,))(x), wanted)


@pytest.mark.parametrize("allow", [None, ("native",)])
def test_every_way_has_equal_bits(register: Register, tmp_path: Path, allow: Any) -> None:
    register("scale", SCALE)
    x = _random(4, 9, generator=_seeded())
    function = lambda x: torch.ops.own_test.scale(torch.ops.own_test.scale(x, 0.3) + x, -1.7)  # noqa: E731
    wanted = function(x)
    fn = _compiled(function, x, allow=allow)
    assert torch.equal(fn(x), wanted)
    assert torch.equal(_interpreted(fn)(x), wanted)
    emitted = _compiled(function, x, emit="python", allow=allow)
    assert torch.equal(emitted(x), wanted)
    fn.save(tmp_path / "m.sl", cpus=("host",))
    assert torch.equal(sl.load(tmp_path / "m.sl")(x), wanted)


def test_every_type_of_argument(register: Register) -> None:
    def fake(x: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
        return x.new_empty(()), torch.empty(11, dtype=torch.float64)

    register(
        "everything",
        "everything(Tensor x, Tensor? bias, Tensor[] parts, int n, bool flag, float f, str mode, dtype d, int[] dims, "
        "float[] weights) -> (Tensor, Tensor)",
        fake=fake,
    )
    generator = _seeded()
    x, y, z = (_random(n, 3, generator=generator) for n in (2, 4, 1))
    bias = _random(1, generator=generator)

    for given, parts in itertools.product((None, bias), ([y, z], [y], [])):

        def function(x: Tensor, *parts: Tensor) -> Any:
            rest = (-(2**40), True, 0.1, "mode", torch.int16, [3, 4], [0.5, float("inf")])
            return torch.ops.own_test.everything(x, given, list(parts), *rest)  # noqa: B023

        eager = function(x, *parts)
        facts = [
            float(given[0]) if given is not None else -1,
            len(parts),
            -(2**40),
            1,
            0.1,
            104,
            16,
            72,
            float("inf"),
            2,
            2,
        ]
        assert eager[1].tolist() == facts
        torch.testing.assert_close(eager[0], x.sum() + sum(p.sum() for p in parts), rtol=1e-5, atol=1e-5)
        got = _compiled(function, x, *parts)(x, *parts)
        assert torch.equal(got[0], eager[0])
        assert torch.equal(got[1], eager[1])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int8, torch.bool, torch.uint16])
def test_dtypes_are_what_dlpack_says(register: Register, dtype: torch.dtype) -> None:
    register(
        "everything",
        "everything(Tensor x, Tensor? bias, Tensor[] parts, int n, bool flag, float f, str mode, dtype d, int[] dims, "
        "float[] weights) -> (Tensor, Tensor)",
        fake=lambda x, *rest: (x.new_empty(()), torch.empty(11, dtype=torch.float64)),
    )
    x = torch.ones(1)
    code, bits = {"float64": (2, 64), "bfloat16": (4, 16), "int8": (0, 8), "bool": (6, 8), "uint16": (1, 16)}[
        str(dtype)[6:]
    ]
    function = lambda x: torch.ops.own_test.everything(x, None, [], 0, False, 0.0, "", dtype, [], [])[1]  # noqa: E731
    assert function(x)[6] == code * 1000 + bits == _compiled(function, x)(x)[6]


def test_workspace(register: Register) -> None:
    x = _random(6, 5, generator=_seeded())
    register("turned", "turned(Tensor x) -> Tensor", workspace=lambda x: x.numel() * 4)
    wanted = x.flatten().flip(0).reshape(6, 5)
    assert torch.equal(torch.ops.own_test.turned(x), wanted)
    fn = _compiled(lambda x: torch.ops.own_test.turned(x) + 0, x)
    assert torch.equal(fn(x), wanted)
    assert torch.equal(_interpreted(fn)(x), wanted)


def test_status_and_message(register: Register, tmp_path: Path) -> None:
    register("root", "root(Tensor x) -> Tensor", status=True)
    good, bad = torch.tensor([4.0, 9.0]), torch.tensor([4.0, -2.0])
    said = r"own_test::root returned status 7: element 1 is -2"
    assert torch.ops.own_test.root(good).tolist() == [2, 3]
    with pytest.raises(sl.OpError, match=said):
        torch.ops.own_test.root(bad)
    fn = _compiled(lambda x: torch.ops.own_test.root(x), good)
    fn.save(tmp_path / "m.sl", cpus=("host",))
    for call in (fn, _interpreted(fn), sl.load(tmp_path / "m.sl")):
        with pytest.raises(sl.OpError, match=said):
            call(bad)
        assert call(good).tolist() == [2, 3]  # the next call is unaffected


def test_exceptions(register: Register, tmp_path: Path) -> None:
    throws = build(HERE / "throws.cpp", tmp_path / "libthrows.so")
    register("throws", "throws(Tensor x) -> Tensor", of=throws)
    one = torch.ones(1)
    fn = _compiled(lambda x: torch.ops.own_test.throws(x) * 1, one)
    fn.save(tmp_path / "m.sl", cpus=("host",))
    emitted = _compiled(lambda x: torch.ops.own_test.throws(x) * 1, one, emit="python")
    for call in (torch.ops.own_test.throws, fn, _interpreted(fn), emitted, sl.load(tmp_path / "m.sl")):
        with pytest.raises(
            sl.OpError, match=r"own_test::throws throws a C\+\+ exception: the first element is negative"
        ):
            call(-one)
        with pytest.raises(sl.OpError, match=r"own_test::throws throws a C\+\+ exception that is no std::exception"):
            call(one * 0)
        assert call(one).tolist() == [1]


def test_stream_is_null_on_the_host(register: Register) -> None:
    register("streamed", "streamed(Tensor x) -> Tensor", stream=True)
    x = torch.tensor([2.0])
    assert (
        _compiled(lambda x: torch.ops.own_test.streamed(x), x)(x).item() == torch.ops.own_test.streamed(x).item() == 3
    )


def test_a_library_without_signatures(register: Register) -> None:
    register("plain", "plain(Tensor x) -> Tensor")
    x = _random(3, generator=_seeded())
    assert torch.equal(_compiled(lambda x: torch.ops.own_test.plain(x), x)(x), x)


def test_named_sizes(register: Register) -> None:
    register("rows", "rows(Tensor x, SymInt n) -> Tensor", fake=lambda x, n: x.new_empty(x.shape[0]))
    register("scale", SCALE)
    batch = torch.export.Dim("b", min=1, max=64)
    model = _Of(lambda x: (torch.ops.own_test.rows(x, x.shape[0] * 2), torch.ops.own_test.scale(x, 3.0)))
    x = torch.ones(4, 3)
    fn = sl.compile(model, (x,), dynamic_shapes=(({0: batch},),))
    for rows in (1, 4, 17):
        x = torch.ones(rows, 3)
        first, second = fn(x)
        assert first.tolist() == [rows * 2000.0 + rows] * rows
        assert torch.equal(second, x * 3)


def test_threads(register: Register) -> None:
    register("scale", SCALE)
    fn = _compiled(lambda x: torch.ops.own_test.scale(x, 2.0), torch.ones(100))
    wrong: list[float] = []

    def work(number: int) -> None:
        x = torch.full((100,), float(number))
        wrong.extend(number for _ in range(200) if not torch.equal(fn(x), x * 2))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong


# In place -------------------------------------------------------------------------------------------------------------


def _copies(fn: Any) -> list[str]:
    rows = json.loads(fn._compilation.explain_json)["statements"]
    return [f"{row['op']}: {row['why']}" for row in rows if row["backend"] != "own"]


def test_what_a_kernel_updates_has_a_newer_version(register: Callable[..., Any]) -> None:
    """So that autograd refuses a backward that needs what was there before."""
    kernel = register("increment", "increment(Tensor(a!) x, float by) -> ()")
    for x in (torch.zeros(4), torch.zeros(4, 4)[:, 1]):  # the second is updated by way of a copy
        product = torch.ones(4, requires_grad=True) * x
        with torch.no_grad():
            kernel(x, 2.0)
        assert torch.equal(x, torch.full((4,), 2.0))
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.sum().backward()
    with torch.inference_mode():  # tensors that are made here have no version
        kernel(torch.zeros(4), 2.0)


def test_an_input_is_updated_where_it_lies(register: Register) -> None:
    register("increment", "increment(Tensor(a!) x, float by) -> ()")
    function = lambda x: torch.ops.own_test.increment(x, 2.0)  # noqa: E731
    fn = _compiled(function, torch.zeros(3, 4))
    x = _random(3, 4, generator=_seeded())
    wanted, address = x + 2, x.data_ptr()
    fn(x)
    assert torch.equal(x, wanted)
    assert x.data_ptr() == address
    assert _copies(fn) == []


def test_a_state_is_updated_where_it_lies(register: Register) -> None:
    register("increment", "increment(Tensor(a!) x, float by) -> ()")

    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(4))

        def forward(self) -> None:
            torch.ops.own_test.increment(self.count, 1.5)

    model = Counter()
    fn = sl.compile(model, ())
    fn()
    fn()
    assert fn.parameters()["count"].tolist() == [3.0] * 4
    assert _copies(fn) == []


def test_what_is_read_later_is_copied_first(register: Register) -> None:
    register("increment", "increment(Tensor(a!) x, float by) -> ()")

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.relu(x)
        old = y * 3
        torch.ops.own_test.increment(y, 1.0)
        z = y.clone()
        torch.ops.own_test.increment(z, 1.0)
        return old + y, z

    x = _random(2, 5, generator=_seeded())
    wanted = function(x)
    fn = _compiled(function, x)
    assert all(torch.equal(a, b) for a, b in zip(fn(x), wanted))


def test_an_intermediate_is_updated_where_it_lies(register: Register) -> None:
    register("increment", "increment(Tensor(a!) x, float by) -> ()")

    def function(x: Tensor) -> Tensor:
        y = torch.relu(x)
        torch.ops.own_test.increment(y, 1.0)
        return y.sum(1)

    x = _random(2, 5, generator=_seeded())
    fn = _compiled(function, x)
    torch.testing.assert_close(fn(x), function(x))
    assert not [words for words in _copies(fn) if "copy" in words]


_STEP = "{name}(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] means, Tensor(c!)[] squares, int step, {rest}) -> ()"


def test_what_a_loop_reads_again_is_copied(register: Register) -> None:
    """A value that is made outside of a loop and updated in it has its old value in each iteration."""
    register("increment", "increment(Tensor(a!) x, float by) -> ()")

    def step(i: Tensor, y: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        mine = h.view(-1).clone()
        torch.ops.own_test.increment(mine, 1.0)
        return i + 1, y + mine

    def function(x: Tensor) -> Tensor:
        h = torch.relu(x)
        cond = lambda i, y: i < 3  # noqa: E731
        body = lambda i, y: step(i, y, h)  # noqa: E731
        return torch.while_loop(cond, body, (torch.tensor(0), torch.zeros_like(x)))[1] + h

    x = _random(6, generator=_seeded())
    fn = _compiled(function, x)
    torch.testing.assert_close(fn(x), 3 * (torch.relu(x) + 1) + torch.relu(x))


class _CTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("extents", ctypes.c_void_p), ("rank", ctypes.c_int32), ("dtype", ctypes.c_uint8 * 4),
    ]  # fmt: skip


def _by_hand(library: Path, name: str, lists: list[list[Tensor]], step: int, numbers: list[float]) -> None:
    """The C function by ctypes."""
    kept: list[Any] = []
    arguments: list[Any] = []
    for tensors in lists:
        rows = (_CTensor * len(tensors))()
        for row, tensor in zip(rows, tensors):
            extents = (ctypes.c_int64 * tensor.dim())(*tensor.shape)
            kept.append(extents)
            row.data, row.rank, row.extents = tensor.data_ptr(), tensor.dim(), ctypes.addressof(extents)
            row.dtype[:] = [2, 32, 1, 0]
        arguments += [rows, ctypes.c_int64(len(tensors))]
    getattr(ctypes.CDLL(str(library)), name)(*arguments, ctypes.c_int64(step), *map(ctypes.c_double, numbers))


@pytest.mark.parametrize(
    ("name", "rest", "numbers"),
    [
        ("adam", "float lr, float beta1, float beta2, float eps", [0.01, 0.9, 0.999, 1e-8]),
        ("lamb", "float lr, float decay", [0.02, 0.01]),
    ],
)
@pytest.mark.parametrize("count", [1, 200])
def test_optimizer_steps(
    register: Register, library: Path, name: str, rest: str, numbers: list[float], count: int
) -> None:
    register(name, _STEP.format(name=name, rest=rest))
    generator = _seeded()
    shapes = [tuple(int(n) for n in torch.randint(1, 9, (i % 3 + 1,), generator=generator)) for i in range(count)]
    lists = [[_random(*shape, generator=generator) for shape in shapes] for _ in range(2)]
    lists += [[torch.zeros(shape) for shape in shapes] for _ in range(2)]

    def step(params: list[Tensor], grads: list[Tensor], means: list[Tensor], squares: list[Tensor]) -> None:
        getattr(torch.ops.own_test, name)(params, grads, means, squares, 3, *numbers)

    clones = lambda: [[tensor.clone() for tensor in tensors] for tensors in lists]  # noqa: E731
    wanted, eager, compiled = clones(), clones(), clones()
    _by_hand(library, name, wanted, 3, numbers)
    step(*eager)
    fn = _compiled(step, *clones())
    addresses = [tensor.data_ptr() for tensors in compiled for tensor in tensors]
    fn(*compiled)
    for tensors, by_eager, by_hand in zip(compiled, eager, wanted):
        assert all(torch.equal(a, b) and torch.equal(a, c) for a, b, c in zip(tensors, by_hand, by_eager))
    assert [tensor.data_ptr() for tensors in compiled for tensor in tensors] == addresses
    assert _copies(fn) == []
    assert "sl::copy" not in fn.code


# Saved models ---------------------------------------------------------------------------------------------------------


def _run_loading(path: Path) -> str:
    """What a fresh process says that loads a model and calls it."""
    code = (
        "import sys, torch, straightline as sl\n"
        "try:\n"
        "    print(sl.load(sys.argv[1])(torch.ones(2)).tolist())\n"
        "except sl.StraightlineError as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    import sys

    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("how", ["embed", "name"])
def test_a_saved_model_in_another_process(register: Register, library: Path, tmp_path: Path, how: str) -> None:
    mine = tmp_path / "libmine.so"
    shutil.copy(library, mine)
    with open(mine, "ab") as file:
        file.write(f"another file {how}".encode())  # of its own digest
    register("scale", SCALE, of=mine)
    fn = _compiled(lambda x: torch.ops.own_test.scale(x, 2.5), torch.ones(2))
    path = tmp_path / "m.sl"
    fn.save(path, cpus=("host",), own_libraries=how)
    assert _run_loading(path) == "[2.5, 2.5]"
    again = tmp_path / "again.sl"
    sl.load(path).save(again, cpus=("host",), own_libraries=how)
    mine.rename(tmp_path / "gone.so")
    said = _run_loading(path)
    if how == "embed":
        assert said == _run_loading(again) == "[2.5, 2.5]"
        return
    assert said.startswith("UserError")
    assert f"it calls scale of the library {mine}, which cannot be read: No such file or directory" in said
    shutil.copy(library, mine)  # another digest
    assert f"it was saved with the library {mine} of digest" in _run_loading(path)


def test_in_c(register: Register, tmp_path: Path) -> None:
    register("scale", SCALE)
    fn = _compiled(lambda x: torch.ops.own_test.scale(x, 2.5), torch.ones(2))
    fn.save(tmp_path / "m.sl", cpus=("host",))
    source = tmp_path / "main.c"
    source.write_text(_MAIN, encoding="ascii")
    package = Path(sl.__file__).parent
    flags = [
        f"-I{INCLUDE}",
        f"-I{HERE.parents[1] / 'include'}",
        f"-L{package}",
        "-lstraightline_runtime",
        f"-Wl,-rpath,{package}",
    ]
    done = subprocess.run(
        ["gcc", str(source), *flags, "-o", str(tmp_path / "main")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    done = subprocess.run([str(tmp_path / "main"), str(tmp_path / "m.sl")], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "2.5 5", done.stderr


_MAIN = """
#include <stdio.h>
#include "straightline_model.h"
int main(int count, char** args) {
  sl_message message;
  sl_model* model = NULL;
  (void)count;
  if (sl_model_load(args[1], NULL, &model, &message)) { puts(message.text); return 1; }
  float x[2] = {1, 2}, y[2] = {0, 0};
  int64_t shape[1] = {2}, strides[1] = {1};
  sl_tensor in = {.data = x, .dtype = {2, 32, 1}, .rank = 1, .shape = shape, .strides = strides, .device_type = 1};
  sl_tensor out = in;
  out.data = y;
  if (sl_model_run(model, &in, 1, &out, 1, &message)) { puts(message.text); return 1; }
  printf("%g %g\\n", y[0], y[1]);
  return 0;
}
"""


# What is refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "schema", "options", "said"),
    [
        ("scale", "scale(Tensor x) -> Tensor", {}, r"argument 1 of the function is double, but result 0 is const sl_kernel_tensor\*"),
        ("scale", "scale(Tensor x, float a, int b) -> Tensor", {}, r"argument 2 of the function is const sl_kernel_tensor\*, but 'b' is int64_t"),
        ("scale", "scale(Tensor x, int a) -> Tensor", {}, r"argument 1 of the function is double, but 'a' is int64_t"),
        ("scale", "scale(Tensor x, float a) -> (Tensor, Tensor)", {}, r"takes 3 arguments, the schema gives 4; the first that it lacks is result 1"),
        ("scale", SCALE, {"status": True}, r"it returns void, expected int32_t \(status=True\)"),
        ("scale", SCALE, {"workspace": 64}, r"takes 3 arguments, the schema gives 5; the first that it lacks is the workspace"),
        ("root", "root(Tensor x) -> Tensor", {}, r"it returns int32_t, expected void \(status=False\)"),
        ("increment", "increment(Tensor x, float by) -> ()", {}, "gives nothing and updates nothing"),
        ("missing", "missing(Tensor x) -> Tensor", {}, r"own kernel missing of .*libkernels\.so: it has no symbol missing"),
        ("scale", "scale(Tensor x, float a)", {}, "cannot be read"),
        ("scale", "scale.out(Tensor x, float a) -> Tensor", {}, "expected a namespace and a name"),
        ("no name", SCALE, {}, "name is 'no name', expected that of a C function"),
        ("turned", "turned(Tensor x) -> Tensor", {"workspace": -1}, "workspace of own_test::turned is -1"),
    ],
)  # fmt: skip
def test_a_schema_that_does_not_fit(register: Register, name: str, schema: str, options: Any, said: str) -> None:
    with pytest.raises(sl.UserError, match=said):
        register(name, schema, **options)
    assert own_kernels.find(f"own_test::{schema.partition('(')[0].partition('.')[0]}") is None


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("scale(Tensor x, Scalar a) -> Tensor", "the argument 'a' of type Scalar"),
        ("scale(Tensor x, int? a) -> Tensor", r"the argument 'a' of type int\?"),
        ("scale(Tensor x, float a) -> int", "gives int"),
        ("scale(Tensor(a!) x, float a) -> Tensor(a!)", "gives an argument that it updates"),
        ("scale(Tensor(a) x, float a) -> Tensor", "an alias that it does not update"),
        ("f(" + ", ".join(f"float a{i}" for i in range(9)) + ", Tensor x) -> Tensor", "9 doubles, at most 32 and 8"),
    ],
)
def test_a_schema_that_a_function_cannot_have(register: Register, schema: str, said: str) -> None:
    with pytest.raises(sl.UnsupportedError, match=said):
        register("scale", schema)


def test_a_name_twice(register: Register, library: Path) -> None:
    first = register("scale", SCALE)
    with pytest.raises(sl.UserError, match=rf"own_test::scale is registered already, as scale of {library}"):
        register("scale", SCALE)
    first.unregister()
    register("scale", SCALE)
    with pytest.raises(sl.UserError, match="torch has an op aten::relu already"):
        sl.c_kernel(library, "scale", "aten::relu(Tensor x, float a) -> Tensor")


def test_a_kernel_that_was_unregistered(register: Register) -> None:
    kernel = register("scale", SCALE)
    fn = _compiled(lambda x: torch.ops.own_test.scale(x, 2.0), torch.ones(2))
    kernel.unregister()
    kernel.unregister()
    with pytest.raises(sl.UserError, match="own_test::scale was unregistered: register it again"):
        kernel(torch.ones(2), 2.0)
    assert fn(torch.ones(2)).tolist() == [2, 2]  # programs keep what they call


_WHILE_CALLED = """
import sys, threading, torch
import straightline as sl

library, turns = sys.argv[1], int(sys.argv[2])
schema = "own_while::scale(Tensor x, float a) -> Tensor"
kernel = sl.c_kernel(library, "scale", schema)
x = torch.ones(64)
fn = sl.compile(lambda x: torch.ops.own_while.scale(x, 2.0), (x,))
op = torch.ops.own_while.scale
stop, wrong, calls, refused = threading.Event(), [], [0], [0]

def programs():
    while not stop.is_set():
        if not torch.equal(fn(x), x * 2):
            wrong.append("a program")

def eager(call):
    while not stop.is_set():
        try:
            y = call(x, 3.0)
        except sl.UserError as error:
            if "own_while::scale was unregistered: register it again" not in str(error):
                wrong.append(str(error))
            refused[0] += 1
            continue
        calls[0] += 1
        if not torch.equal(y, x * 3):
            wrong.append("a call in eager")

threads = [threading.Thread(target=programs)]
threads += [threading.Thread(target=eager, args=(call,)) for call in (op, op.default, lambda x, a: torch.ops.own_while.scale(x, a))]
for thread in threads:
    thread.start()
for turn in range(turns):
    kernel.unregister()
    if turn % 2:
        torch.equal(x, x)
    kernel = sl.c_kernel(library, "scale", schema)
kernel.unregister()
try:  # it is called: another schema has to wait
    sl.c_kernel(library, "rows", "own_while::scale(Tensor x, int n) -> Tensor")
except sl.UserError as error:
    if "cannot get another schema while it is called" not in str(error):
        wrong.append(str(error))
else:
    wrong.append("another schema under calls")
stop.set()
for thread in threads:
    thread.join()
sl.c_kernel(library, "rows", "own_while::scale(Tensor x, int n) -> Tensor")
torch.ops.own_while.scale(x, 3)
print(wrong[:3], calls[0] > 0, refused[0] > 0)
"""


def test_unregistering_while_calls_run(library: Path) -> None:
    """Calls in eager give the right numbers or say that the kernel is gone; calls of programs go on."""
    done = subprocess.run(
        [sys.executable, "-c", _WHILE_CALLED, str(library), "200"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "[] True True"), done.stderr[-2000:]


def test_a_name_of_a_program_that_was_unregistered(register: Register) -> None:
    """And the other way round."""
    x = torch.ones(3)
    fn = _compiled(lambda x: x + 1, x)
    registered = fn.register("own_test::scale")
    with pytest.raises(sl.UserError, match="torch has an op own_test::scale already"):
        register("scale", SCALE)
    registered.unregister()
    kernel = register("scale", SCALE)
    assert torch.ops.own_test.scale(x, 3.0).tolist() == [3, 3, 3]
    with pytest.raises(sl.UserError, match="torch has an op own_test::scale already"):
        fn.register("own_test::scale")
    kernel.unregister()
    again = fn.register("own_test::scale")
    assert torch.ops.own_test.scale(x).tolist() == [2, 2, 2]
    again.unregister()


def test_functions_of_the_user_that_raise(register: Register) -> None:
    kernel = register("turned", "turned(Tensor x) -> Tensor", workspace=lambda x: 1 // 0)
    said = "workspace of own_test::turned raised ZeroDivisionError: "
    with pytest.raises(sl.UserError, match=said):
        torch.ops.own_test.turned(torch.ones(2))
    with pytest.raises(sl.UserError, match=said):
        _compiled(lambda x: torch.ops.own_test.turned(x), torch.ones(2))
    kernel.unregister()


def test_libraries_that_are_none(register: Register, library: Path, tmp_path: Path) -> None:
    with pytest.raises(sl.UserError, match="the library is a int, expected the path of a shared library"):
        register("scale", SCALE, of=3)
    with pytest.raises(sl.UserError, match=r"own kernel scale of .*nowhere\.so: No such file or directory"):
        register("scale", SCALE, of=tmp_path / "nowhere.so")
    text = tmp_path / "text.so"
    text.write_text("no library at all, but long enough")
    with pytest.raises(sl.UserError, match=r"scale of .*text\.so: it is no shared library"):
        register("scale", SCALE, of=text)
    other = tmp_path / "other.so"
    data = bytearray(library.read_bytes())
    data[18:20] = (183).to_bytes(2, "little") if data[18] == 62 else (62).to_bytes(2, "little")
    other.write_bytes(data)
    with pytest.raises(sl.UserError, match=r"other\.so: it is for (aarch64|x86-64), this process is (x86-64|aarch64)"):
        register("scale", SCALE, of=other)
    narrow = tmp_path / "narrow.so"
    data = bytearray(library.read_bytes())
    data[4] = 1  # ELFCLASS32
    narrow.write_bytes(data)
    with pytest.raises(sl.UserError, match=r"with addresses of 32 bits, this process is \S+ with addresses of 64 bits"):
        register("scale", SCALE, of=narrow)
    changed = tmp_path / "changed.so"
    shutil.copy(library, changed)
    register("scale", SCALE, of=changed).unregister()
    with open(changed, "ab") as file:
        file.write(b"more")
    with pytest.raises(sl.UserError, match="the file has changed since this process opened it"):
        register("scale", SCALE, of=changed)


def test_fakes_that_are_wrong(register: Register) -> None:
    x = torch.ones(2)
    for fake, said in (
        (lambda x, a: None, "gave 1 values (NoneType)"),
        (lambda x, a: (x, x), "gave 2 values (Tensor, Tensor)"),
    ):
        kernel = register("scale", SCALE, fake=fake)
        with pytest.raises(
            sl.UserError, match=f"fake of own_test::scale {said}".replace("(", r"\(").replace(")", r"\)")
        ):
            torch.ops.own_test.scale(x, 1.0)
        with pytest.raises(sl.StraightlineError, match="fake of own_test::scale gave"):
            _compiled(lambda x: torch.ops.own_test.scale(x, 1.0), x)
        kernel.unregister()


def test_scalars_that_do_not_fit(register: Register) -> None:
    register("rows", "rows(Tensor x, int n) -> Tensor")
    x = torch.ones(2)
    with pytest.raises((sl.UserError, RuntimeError)):
        torch.ops.own_test.rows(x, 2**63)
    with pytest.raises((sl.StraightlineError, RuntimeError)):
        _compiled(lambda x: torch.ops.own_test.rows(x, 2**63), x)


def test_complex_numbers_are_refused(register: Register) -> None:
    register("scale", SCALE)
    x = torch.ones(2, dtype=torch.complex64)
    with pytest.raises(sl.UnsupportedError, match="two real tensors"):
        _compiled(lambda x: torch.ops.own_test.scale(x, 1.0), x)


def test_one_tensor_twice_is_refused(register: Register) -> None:
    register("lamb", _STEP.format(name="lamb", rest="float lr, float decay"))
    x, y = torch.ones(2), torch.ones(2)
    with pytest.raises(sl.UnsupportedError, match="an update of one tensor through two arguments"):
        _compiled(lambda x, y: torch.ops.own_test.lamb([x, x], [y, y], [y, y], [y, y], 1, 0.1, 0.1), x, y)


def test_a_program_for_a_device_wants_the_stream(register: Register) -> None:
    register("scale", SCALE)
    register("streamed", "streamed(Tensor x) -> Tensor", stream=True)
    x = torch.ones(2)
    with pytest.raises(
        sl.UnsupportedError, match="own_test::scale is a function of the host but the program runs on cuda"
    ):
        _compiled(lambda x: torch.ops.own_test.scale(x, 1.0), x, target="cuda:sm_90")
    fn = _compiled(lambda x: torch.ops.own_test.streamed(x), x, target="cuda:sm_90")
    assert "sl_cuda_stream()" in fn.code
