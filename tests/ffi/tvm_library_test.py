# SPDX-License-Identifier: Apache-2.0
"""Functions of TVM-FFI in programs: `sl.tvm_ffi_library`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import straightline as sl
import torch
import tvm_ffi
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent))

import tvm_kernels  # noqa: E402

_SCALE = "tvm_test::scale(Tensor(a!) out, Tensor x, float a, bool negate) -> ()"


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of kernels.c."""
    return tvm_kernels.build(tmp_path_factory.mktemp("tvm"))


@pytest.fixture
def register(library: Path) -> Iterator[Callable[..., Any]]:
    """Registers a function, which is unregistered when the test ends."""
    made: list[Any] = []

    def one(name: str, schema: str, of: Any = library, **options: Any) -> Any:
        made.append(sl.tvm_ffi_library(of, {name: schema}, **options)[name])
        return made[-1]

    yield one
    for kernel in made:
        kernel.unregister()


def _scaled(x: Tensor) -> Tensor:
    y = x + 1
    out = torch.empty_like(y)
    torch.ops.tvm_test.scale(out, y, 0.5, True)
    return out * 2


def test_in_a_program(register: Callable[..., Any]) -> None:
    register("scale", _SCALE)
    x = torch.randn(16)
    fn = sl.compile(_scaled, (x,))
    assert torch.equal(fn(x), (x + 1) * -0.5 * 2)
    assert torch.equal(_scaled(x), fn(x))  # in eager
    with sl.fast_path(False):
        assert torch.equal(fn(x), _scaled(x))  # by the interpreter
    ops = [row["op"] for row in fn.explain().facts["statements"]]
    assert len([op for op in ops if "scale" in op]) == 1
    assert "copy" not in ops


def test_an_empty_is_neither_filled_nor_copied(register: Callable[..., Any]) -> None:
    """Also two of one size; zeros keep their value for whoever reads it."""
    register("scale", _SCALE)

    def plain(x: Tensor) -> Tensor:
        a, b = torch.empty_like(x), torch.empty_like(x)
        torch.ops.tvm_test.scale(a, x, 0.5, True)
        torch.ops.tvm_test.scale(b, a, 0.25, False)
        return b

    x = torch.randn(16)
    fn = sl.compile(plain, (x,))
    assert [row["op"] for row in fn.explain().facts["statements"]] == ["tvm_test.scale"] * 2
    assert torch.equal(fn(x), x * -0.125)
    register("kinds", "tvm_test::kinds(Tensor(a!) out, Tensor? x, int k, str s, dtype d) -> ()")

    def partly(x: Tensor) -> Tensor:
        out = torch.zeros_like(x)
        torch.ops.tvm_test.kinds(out, None, 3, "a text", torch.bfloat16)
        return out

    assert sl.compile(partly, (x,))(x).tolist() == [5, 0, 3, 6, 416] + [0] * 11


def test_by_emitted_python_and_named_sizes(register: Callable[..., Any]) -> None:
    register("scale", _SCALE)
    n = torch.export.Dim("n", min=1, max=64)
    for emit in ("c++", "python"):
        fn = sl.compile(
            _scaled, (torch.randn(3, 4),), dynamic_shapes={"x": {0: n}}, **({} if emit == "c++" else {"emit": emit})
        )
        for rows in (1, 9):
            x = torch.randn(rows, 4)
            assert torch.equal(fn(x), _scaled(x))


def test_a_library_a_module_and_a_function_give_the_same_bits(register: Callable[..., Any], library: Path) -> None:
    x = torch.randn(33)
    module = tvm_ffi.load_module(str(library))
    results = []
    for of in (library, str(library), module, module.scale):
        kernel = register("scale", _SCALE, of)
        results.append(sl.compile(_scaled, (x,))(x))
        kernel.unregister()
    out = torch.empty(33)
    module.scale(out, x + 1, 0.5, True)
    for result in results:
        assert torch.equal(result, out * 2)


_LOADED = """
import os, sys, torch
import straightline as sl
x, expected = torch.load(sys.argv[2])
assert "tvm_ffi" not in sys.modules
fn = sl.load(sys.argv[1])
assert torch.equal(fn(x), expected)
fn.save(sys.argv[1] + "2")
assert torch.equal(sl.load(sys.argv[1] + "2")(x), expected)
"""


def _saved(library: Path, folder: Path, own_libraries: str) -> Path:
    """A model that calls a copy of the library, where that copy lies."""
    copy = folder / "libcopy.so"
    shutil.copy(library, copy)
    kernel = sl.tvm_ffi_library(copy, {"scale": _SCALE})["scale"]
    try:
        x = torch.randn(16)
        fn = sl.compile(_scaled, (x,))
        fn.save(folder / "m.sl", own_libraries=own_libraries)
        torch.save((x, fn(x)), folder / "x.pt")
    finally:
        kernel.unregister()
    return copy


def test_saved_with_its_library(library: Path, tmp_path: Path) -> None:
    _saved(library, tmp_path, "embed").unlink()
    subprocess.run([sys.executable, "-c", _LOADED, tmp_path / "m.sl", tmp_path / "x.pt"], check=True)


def test_saved_with_the_path_of_its_library(library: Path, tmp_path: Path) -> None:
    """Also the part that was emitted is there; a library that has changed is refused."""
    copy = _saved(library, tmp_path, "name")
    subprocess.run([sys.executable, "-c", _LOADED, tmp_path / "m.sl", tmp_path / "x.pt"], check=True)
    changed = tmp_path / "changed"  # a file of its own: this process has mapped the other one
    changed.write_bytes(copy.read_bytes() + b" ")
    changed.replace(copy)
    done = subprocess.run(
        [sys.executable, "-c", _LOADED, tmp_path / "m.sl", tmp_path / "x.pt"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "it was saved with the library" in done.stderr and "save the model again with this library" in done.stderr


def test_a_function_of_this_process_is_not_saved(register: Callable[..., Any], library: Path, tmp_path: Path) -> None:
    register("scale", _SCALE, tvm_ffi.load_module(str(library)))
    fn = sl.compile(_scaled, (torch.randn(16),))
    with pytest.raises(sl.UnsupportedError, match=r"tvm_test::scale is a function of this process"):
        fn.save(tmp_path / "m.sl")


def test_a_function_in_python(register: Callable[..., Any]) -> None:
    def double(x: Any) -> Any:
        return torch.from_dlpack(x) * 2

    def add(out: Any, x: Any) -> None:
        torch.from_dlpack(out).add_(torch.from_dlpack(x))

    register("double", "tvm_test::double(Tensor x) -> Tensor", tvm_ffi.convert(double))
    register("add", "tvm_test::add(Tensor(a!) out, Tensor x) -> ()", tvm_ffi.convert(add))

    def call(x: Tensor) -> Tensor:
        y = torch.ops.tvm_test.double(x) + 1
        torch.ops.tvm_test.add(y, x)
        return y

    x = torch.randn(5)
    torch.testing.assert_close(sl.compile(call, (torch.randn(5),))(x), x * 2 + 1 + x)


def test_a_view_that_is_kept(register: Callable[..., Any]) -> None:
    kept = []

    def keep(out: Any) -> None:
        kept.append(out)

    def fail(out: Any) -> None:
        kept.append(out)
        raise KeyError

    for name, function, words in (("keep", keep, "it keeps a view of a tensor"), ("fail", fail, "KeyError")):
        register(name, f"tvm_test::{name}(Tensor(a!) out) -> ()", tvm_ffi.convert(function))

        def call(x: Tensor, name: str = name) -> Tensor:
            y = x + 1
            getattr(torch.ops.tvm_test, name)(y)
            return y

        fn = sl.compile(call, (torch.randn(5),))
        with pytest.raises(sl.OpError, match=words):
            fn(torch.randn(5))
    kept.clear()  # what describes the tensors goes now


def test_every_kind_of_argument(register: Callable[..., Any]) -> None:
    register("kinds", "tvm_test::kinds(Tensor(a!) out, Tensor? x, int k, str s, dtype d) -> ()")

    def call(out: Tensor, x: Tensor, k: int) -> Tensor:
        torch.ops.tvm_test.kinds(out, x if k > 0 else None, k, "a text", torch.bfloat16)
        return out

    for k in (3, -4):
        out, x = torch.zeros(5), torch.randn(2)
        fn = sl.compile(call, (out, x, k))
        fn(out, x, k)
        assert out.tolist() == [5, 7 if k > 0 else 0, k, 6, 416]


def test_results_that_it_makes(register: Callable[..., Any]) -> None:
    register("twice", "tvm_test::twice(Tensor x) -> Tensor")
    x = torch.randn(3, 5)
    fn = sl.compile(lambda x: torch.ops.tvm_test.twice(x) - 1, (x,))
    assert torch.equal(fn(x), x * 2 - 1)


def test_memory_of_the_environment_is_freed(register: Callable[..., Any]) -> None:
    """12 MB in each call: two thousand of them do not fit into memory at once."""
    register("scratch", "tvm_test::scratch(Tensor(a!) out, Tensor x) -> ()")
    register("twice", "tvm_test::twice(Tensor x) -> Tensor")

    def call(x: Tensor) -> Tensor:
        out = torch.empty_like(x)
        torch.ops.tvm_test.scratch(out, x)
        return torch.ops.tvm_test.twice(out).sum()

    x = torch.zeros(1 << 20)
    fn = sl.compile(call, (x,))
    for _ in range(2000):
        assert fn(x) == 2 << 20


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        (0, r"it returned \S.*, not float32\(3, 5\) as the fake kernel says"),
        (1, r"it returned int32\(3, 5\), not float32\(3, 5\) as the fake kernel says"),
        (2, r"it returned float32\([\d, ]+\), not float32\(3, 5\) as the fake kernel says"),
        (3, r"it returned float32\(\d+\), not float32\(3, 5\) as the fake kernel says"),
        (4, r"it returned a tensor of DLPack's device 2:0, not 1:0 with float32\(3, 5\)"),
    ],
)
def test_results_that_are_wrong(register: Callable[..., Any], mode: int, words: str) -> None:
    register("bad", "tvm_test::bad(Tensor x, int mode) -> Tensor")
    fn = sl.compile(lambda x: torch.ops.tvm_test.bad(x, mode) + 1, (torch.randn(3, 5),))
    with pytest.raises(sl.OpError, match=words):
        fn(torch.randn(3, 5))


@pytest.mark.parametrize("emit", ["c++", "python"])
def test_lists(register: Callable[..., Any], emit: str) -> None:
    register("lists", "tvm_test::lists(Tensor(a!) out, Tensor[] xs, Tensor(b!)[] ys, int[] ks, float[] fs) -> ()")

    def call(xs: list[Tensor], ys: list[Tensor]) -> Tensor:
        out = torch.empty(1)
        torch.ops.tvm_test.lists(out, xs, ys, [3, -5], [0.5])
        return out * 2

    xs, ys = [torch.randn(3), torch.randn(2, 2), torch.randn(())], [torch.randn(5), torch.randn(1)]
    before = [y.clone() for y in ys]
    wanted = (sum(x.double().sum() for x in (*xs, *ys)) + 3 - 5 + 0.5) * 2
    fn = sl.compile(call, (xs, [y.clone() for y in ys]), **({} if emit == "c++" else {"emit": emit}))
    assert "copy" not in [row["op"] for row in fn.explain().facts["statements"]]
    torch.testing.assert_close(fn(xs, ys).item(), wanted.item(), rtol=1e-5, atol=1e-5)
    for y, old in zip(ys, before):
        assert torch.equal(y, old + 1)
    with sl.fast_path(False):
        fn(xs, ys)
    call(xs, ys)  # in eager
    for y, old in zip(ys, before):
        torch.testing.assert_close(y, old + 3)


def test_empty_lists(register: Callable[..., Any]) -> None:
    register("lists", "tvm_test::lists(Tensor(a!) out, Tensor[] xs, Tensor(b!)[] ys, int[] ks, float[] fs) -> ()")

    def call(x: Tensor) -> Tensor:
        out = torch.empty_like(x)
        torch.ops.tvm_test.lists(out, [], [], [], [1.5])
        return out

    assert sl.compile(call, (torch.randn(1),))(torch.randn(1)).item() == 1.5


def test_a_list_that_is_kept(register: Callable[..., Any]) -> None:
    kept = []
    register(
        "keep", "tvm_test::keep(Tensor(a!) out, Tensor[] xs) -> ()", tvm_ffi.convert(lambda out, xs: kept.append(xs[1]))
    )

    def call(x: Tensor) -> Tensor:
        out = torch.empty_like(x)
        torch.ops.tvm_test.keep(out, [x + 1, x + 2])
        return out

    fn = sl.compile(call, (torch.randn(5),))
    with pytest.raises(sl.OpError, match="it keeps a view of a tensor"):
        fn(torch.randn(5))
    kept.clear()


@pytest.mark.parametrize("emit", ["c++", "python"])
def test_several_results(register: Callable[..., Any], emit: str) -> None:
    register("pair", "tvm_test::pair(Tensor x, int mode) -> (Tensor, Tensor)")

    def call(x: Tensor) -> Tensor:
        a, b = torch.ops.tvm_test.pair(x, 0)
        return a - b * 4

    x = torch.randn(3, 5)
    other = x * 2
    other[0, 0] += 1
    fn = sl.compile(call, (x,), **({} if emit == "c++" else {"emit": emit}))
    assert torch.equal(fn(x), x * 2 - other * 4)
    assert torch.equal(call(x), fn(x))  # in eager
    with sl.fast_path(False):
        assert torch.equal(call(x), fn(x))


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        (1, "it returned nothing, not an array of 2 tensors as the schema says"),
        (2, "it returned [013] tensors, not 2 as"),
    ],
)
def test_several_results_that_are_wrong(register: Callable[..., Any], mode: int, words: str) -> None:
    register("pair", "tvm_test::pair(Tensor x, int mode) -> (Tensor, Tensor)")
    fn = sl.compile(lambda x: torch.ops.tvm_test.pair(x, mode)[1] + 1, (torch.randn(3, 5),))
    with pytest.raises(sl.OpError, match=words):
        fn(torch.randn(3, 5))


_NUMBERS = {
    "numbers": "tvm_test::numbers(Tensor sizes, int mode) -> Tensor",
    "spread": "tvm_test::spread(Tensor(a!) out, Tensor x, Tensor numbers) -> ()",
}


def _spread(x: Tensor, sizes: Tensor) -> Tensor:
    numbers = torch.ops.tvm_test.numbers(sizes * 2, 0)
    out = torch.empty_like(x)
    torch.ops.tvm_test.spread(out, x + 1, numbers)
    return out * 2


def _expected(x: Tensor, sizes: Tensor) -> Tensor:
    return ((x + 1) * len(sizes) + (2 * sizes.sum() + (len(sizes) > 2)).float()) * 2


@pytest.fixture
def numbers(library: Path) -> Iterator[None]:
    """Functions that give and take numbers."""
    made = sl.tvm_ffi_library(library, _NUMBERS, numbers={"numbers": 3, "spread": ["numbers"]})
    yield
    for kernel in made.values():
        kernel.unregister()


@pytest.mark.parametrize("emit", ["c++", "python"])
def test_numbers_of_a_plan(numbers: None, emit: str, tmp_path: Path) -> None:
    """Those of each call reach the function that takes them: in a program, the interpreter, eager and a saved model."""
    fn = sl.compile(_spread, (torch.randn(16), torch.tensor([1, 2, 3])), **({} if emit == "c++" else {"emit": emit}))
    assert "tvm_test.numbers.default" in str(torch.export.export(_Spread(), (torch.randn(16), torch.tensor([1, 2, 3]))))
    if emit == "c++":
        fn.save(tmp_path / "m.sl")
        loaded = sl.load(tmp_path / "m.sl")
    for _ in range(3):
        x, sizes = torch.randint(-99, 99, (16,)).float(), torch.randint(-50, 50, (3,))  # exact in float32
        assert torch.equal(fn(x, sizes), _expected(x, sizes))
        assert torch.equal(_spread(x, sizes), _expected(x, sizes))
        with sl.fast_path(False):
            assert torch.equal(fn(x, sizes), _expected(x, sizes))
        if emit == "c++":
            assert torch.equal(loaded(x, sizes), _expected(x, sizes))


class _Spread(torch.nn.Module):
    def forward(self, x: Tensor, sizes: Tensor) -> Tensor:
        return _spread(x, sizes)


def test_numbers_are_a_tensor(numbers: None) -> None:
    """On the host anything may read them, and any int64 tensor of rank 1 is numbers."""

    def call(x: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
        given = torch.ops.tvm_test.numbers(sizes, 0)
        out = torch.empty_like(x)
        torch.ops.tvm_test.spread(out, x, given + 1)
        return out, given

    x, sizes = torch.arange(5.0), torch.tensor([4, 5])
    out, given = sl.compile(call, (x, sizes))(x, sizes)
    assert given.tolist() == [2, 9, 0]
    assert torch.equal(out, x * 3 + 10 + 1)


def test_numbers_of_a_function_in_python(register: Callable[..., Any]) -> None:
    schema = "tvm_test::{}"
    given: list[Any] = []
    register(
        "count", schema.format("count(Tensor x) -> Tensor"),
        tvm_ffi.convert(lambda x: [x.shape[0], int(torch.from_dlpack(x).sum())]), numbers={"count": 2},
    )  # fmt: skip
    register(
        "take", schema.format("take(Tensor(a!) out, Tensor n) -> ()"),
        tvm_ffi.convert(lambda out, n: given.append(list(n))), numbers={"take": ["n"]},
    )  # fmt: skip

    def call(x: Tensor) -> Tensor:
        out = torch.zeros_like(x)
        torch.ops.tvm_test.take(out, torch.ops.tvm_test.count(x))
        return out

    fn = sl.compile(call, (torch.zeros(4, dtype=torch.int64),))
    given.clear()
    fn(torch.tensor([5, 6, 7, 9]))
    fn(torch.tensor([1, 1, 1, 1]))
    assert given == [[4, 27], [4, 4]]


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        (1, "it returned 4 numbers, but numbers= says 3"),
        (2, "element 1 of the array that it returned is a float, not an int as numbers= says"),
        (3, "it returned nothing, not an array of 3 ints as numbers= says"),
        (4, "it returned a tensor, not an array of 3 ints as numbers= says"),
    ],
)
def test_numbers_that_are_wrong(numbers: None, mode: int, words: str) -> None:
    def call(sizes: Tensor) -> Tensor:
        return torch.ops.tvm_test.numbers(sizes, mode) + 1

    fn = sl.compile(call, (torch.tensor([1, 2]),))
    for _ in range(2):
        with pytest.raises(sl.OpError, match=rf"tvm_test::numbers(.|\n)*{words}"):
            fn(torch.tensor([1, 2]))


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        (
            torch.zeros(3),
            "'numbers' of tvm_test::spread is float32 of rank 1 on cpu, but it is numbers: int64 of rank 1",
        ),
        (torch.zeros(3, 1, dtype=torch.int64), "'numbers' of tvm_test::spread is int64 of rank 2 on cpu"),
        (torch.zeros(3, dtype=torch.int32), "'numbers' of tvm_test::spread is int32 of rank 1"),
    ],
)
def test_numbers_that_a_function_does_not_take(library: Path, numbers: Tensor, words: str) -> None:
    made = sl.tvm_ffi_library(library, {"spread": _NUMBERS["spread"]}, numbers={"spread": ["numbers"]})

    def call(x: Tensor, n: Tensor) -> Tensor:
        out = torch.empty_like(x)
        torch.ops.tvm_test.spread(out, x, n)
        return out

    try:
        with pytest.raises(sl.UserError, match=words):
            call(torch.randn(3), numbers)
        with pytest.raises(Exception, match=words):
            sl.compile(call, (torch.randn(3), numbers))
    finally:
        made["spread"].unregister()


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("numbers", {"numbers": {"other": 3}}, "numbers has 'other', which is none of the functions numbers"),
        ("numbers", {"numbers": {"numbers": 0}}, "numbers has 0, expected how many it returns, from 1 on, or names"),
        ("numbers", {"numbers": {"numbers": "x"}}, "numbers has 'x', expected how many"),
        ("numbers", {"numbers": {"numbers": ["mode"]}}, "numbers has 'mode', which is no Tensor among the arguments"),
        ("spread", {"numbers": {"spread": ["out"]}}, "numbers has 'out', which tvm_test::spread updates"),
        ("spread", {"numbers": {"spread": 3}}, "returns 3 numbers, but its schema has 0 results"),
        (
            "spread",
            {"device": "cuda", "plans": {"spread": ["numbers"]}, "numbers": {"spread": ["numbers"]}},
            "numbers has 'numbers', which tvm_test::spread has in plans=",
        ),
        (
            "numbers",
            {"numbers": {"numbers": 3}, "fake": {"numbers": lambda sizes, mode: sizes}},
            "fake has tvm_test::numbers, whose result is the 3 numbers",
        ),
        ("numbers", {"device": "cuda", "plans": {"numbers": {"sizes": "read"}}}, "plans has 'sizes': 'read', expected"),
        (
            "numbers",
            {"device": "cuda", "plans": {"numbers": {"sizes": "scratch"}}},
            "plans has 'sizes': \"scratch\", which is no int among the arguments of tvm_test::numbers",
        ),
    ],
)
def test_numbers_that_cannot_be_declared(
    register: Callable[..., Any], name: str, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(sl.UserError, match=words):
        register(name, _NUMBERS[name], **options)


def test_on_a_device_that_is_not_there(library: Path) -> None:
    """Streams, graphs, plans and memory of a device: in a process with a driver that does nothing."""
    script = Path(__file__).with_name("on_fake_device.py")
    done = subprocess.run([sys.executable, script, library], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1:] == ["right"], done.stdout[-2000:] + done.stderr[-4000:]


def test_a_function_of_a_device_on_the_host(register: Callable[..., Any]) -> None:
    register("scale", _SCALE, device="cuda")
    with pytest.raises(
        sl.UnsupportedError, match="tvm_test::scale is a function for a CUDA device but the program runs"
    ):
        sl.compile(_scaled, (torch.randn(16),))
    with pytest.raises(NotImplementedError, match="tvm_test::scale"):
        _scaled(torch.randn(16))


def test_a_function_of_the_host_on_a_device(register: Callable[..., Any]) -> None:
    register("scale", _SCALE)
    with pytest.raises(
        sl.UnsupportedError, match="tvm_test::scale is a function of the host but the program runs on cuda"
    ):
        sl.compile(_scaled, (torch.randn(16),), target="cuda:sm_90")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"device": "gpu"}, "device is 'gpu'"),
        ({"workspace": {"scale": 64}}, "workspace is for functions of a device"),
        ({"plans": {"scale": ()}}, "plans is for functions of a device"),
        ({"device": "cuda", "plans": {"other": ()}}, "plans has 'other', which is none of the functions scale"),
        ({"device": "cuda", "plans": {"scale": ("a",)}}, "plans has 'a', which is no tensor"),
        ({"device": "cuda", "plans": {"scale": ("out",)}}, "plans has 'out', which tvm_test::scale updates"),
        ({"device": "cuda", "workspace": {"scale": -1}}, "workspace of tvm_test::scale is -1"),
    ],
)
def test_options_that_do_not_fit(register: Callable[..., Any], options: dict[str, Any], words: str) -> None:
    with pytest.raises(sl.UserError, match=words):
        register("scale", _SCALE, **options)


def test_errors(register: Callable[..., Any]) -> None:
    register("scale", _SCALE)
    register("silent", "tvm_test::silent(Tensor(a!) out) -> ()")

    def negative(x: Tensor) -> Tensor:
        out = torch.empty_like(x)
        torch.ops.tvm_test.scale(out, x, -1.0, False)
        return out

    def silent(x: Tensor) -> Tensor:
        out = torch.empty_like(x)
        torch.ops.tvm_test.silent(out)
        return out

    fn = sl.compile(negative, (torch.randn(3),))
    for _ in range(2):
        with pytest.raises(sl.OpError, match=r"ValueError: a is negative(.|\n)*tvm_library_test\.py"):
            fn(torch.randn(3))
    with pytest.raises(sl.OpError, match="it failed without an error"):
        sl.compile(silent, (torch.randn(3),))(torch.randn(3))
    register("quiet", "tvm_test::quiet(Tensor(a!) out) -> ()")

    def quiet(x: Tensor) -> Tensor:
        out = torch.empty_like(x)
        torch.ops.tvm_test.quiet(out)
        return out

    with pytest.raises(sl.OpError, match="ValueError without a message"):
        sl.compile(quiet, (torch.randn(3),))(torch.randn(3))
    with pytest.raises(sl.OpError, match="ValueError: a is negative"):
        negative(torch.randn(3))  # in eager


_THROWS = """
#include <cstdint>
#include <stdexcept>
extern "C" __attribute__((visibility("default"))) int __tvm_ffi_throws(void*, const void* given, int32_t, void*) {
  if (static_cast<const int64_t*>(given)[3] != 0) throw std::runtime_error("the second argument is not 0");
  throw 5;
}
"""


@pytest.mark.parametrize("emit", ["c++", "python"])
def test_exceptions(register: Callable[..., Any], tmp_path: Path, emit: str) -> None:
    """A safe call of TVM-FFI may not throw; one that does is no end of the process."""
    source, path = tmp_path / "throws.cpp", tmp_path / "libthrows.so"
    source.write_text(_THROWS, encoding="ascii")
    subprocess.run(["g++", "-O1", "-fPIC", "-shared", source, "-o", path], check=True)
    register("throws", "tvm_test::throws(Tensor(a!) out, int k) -> ()", path)
    for k, words in ((1, "it throws a C\\+\\+ exception: the second"), (0, "exception that is no std::exception")):

        def call(x: Tensor, k: int = k) -> Tensor:
            out = torch.zeros_like(x)
            torch.ops.tvm_test.throws(out, k)
            return out

        options = {} if emit == "c++" else {"emit": emit}
        fn = sl.compile(call, (torch.randn(3),), **options)
        for _ in range(2):
            with pytest.raises(sl.OpError, match=words):
                fn(torch.randn(3))
        with pytest.raises(sl.OpError, match=words):
            call(torch.randn(3))  # in eager
        if emit == "c++":
            fn.save(tmp_path / "m.sl", cpus=("host",))
            with pytest.raises(sl.OpError, match=words):
                sl.load(tmp_path / "m.sl")(torch.randn(3))


def test_several_threads(register: Callable[..., Any], wrong_of_threads: Callable[..., int]) -> None:
    register("scale", _SCALE)
    x = torch.randn(16)
    fn = sl.compile(_scaled, (x,))
    expected = fn(x)
    assert not wrong_of_threads(lambda: fn(x), expected, 500)


@pytest.mark.parametrize(
    ("name", "schema", "kind", "words"),
    [
        (
            "absent",
            "tvm_test::absent(Tensor x) -> Tensor",
            sl.UserError,
            "libkernels.so: it has no symbol __tvm_ffi_absent",
        ),
        ("scale", "tvm_test::scale(Tensor?[] x, Tensor y) -> Tensor", sl.UnsupportedError, r"'x' of type"),
        ("scale", "tvm_test::scale(Tensor y, str[] x) -> Tensor", sl.UnsupportedError, r"'x' of type"),
        ("scale", "tvm_test::scale(Tensor x) -> int", sl.UnsupportedError, "tensors"),
        ("scale", "tvm_test::scale(Tensor x", sl.UserError, "cannot be read"),
        ("scale", "scale(Tensor x) -> Tensor", sl.UserError, "namespace"),
        ("a b", _SCALE, sl.UserError, "an identifier of C"),
        ("scale", "aten::relu(Tensor x) -> Tensor", sl.UserError, "aten::relu"),
    ],
)
def test_what_cannot_be_registered(
    register: Callable[..., Any], name: str, schema: str, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        register(name, schema)


def test_libraries_that_are_none(register: Callable[..., Any], library: Path, tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("no library, but long enough to have a header " * 4)
    other, data = tmp_path / "other.so", bytearray(library.read_bytes())
    data[18:20] = (183).to_bytes(2, "little") if data[18] == 62 else (62).to_bytes(2, "little")
    other.write_bytes(data)
    for of, words in (
        (tmp_path / "nothing.so", "__tvm_ffi_scale of .*nothing.so: No such file"),
        (tmp_path / "text.so", "__tvm_ffi_scale of .*text.so: it is no shared library"),
        (other, r"__tvm_ffi_scale of .*other.so: it is for (aarch64|x86-64), this process is (x86-64|aarch64)"),
        (tvm_ffi.load_module(str(library)), "the module has no function 'absent'"),
        (3, "the library is a int but must be a path, a tvm_ffi.Module or a tvm_ffi.Function"),
    ):
        with pytest.raises(sl.UserError, match=words):
            register("absent" if isinstance(of, tvm_ffi.Module) else "scale", _SCALE, of)
    with pytest.raises(sl.UserError, match="fake has 'other'"):
        register("scale", _SCALE, fake={"other": lambda x: x})
    with pytest.raises(sl.UserError, match="schemas is"):
        sl.tvm_ffi_library("libx.so", {})


def test_a_name_twice(register: Callable[..., Any], library: Path) -> None:
    register("scale", _SCALE)
    with pytest.raises(
        sl.UserError, match=rf"tvm_test::scale is registered already, as __tvm_ffi_scale of {library}: give"
    ):
        register("scale", _SCALE)
    with pytest.raises(sl.UserError, match="no symbol"):  # nothing stays of what came before it
        sl.tvm_ffi_library(
            library,
            {"twice": "tvm_test::twice(Tensor x) -> Tensor", "absent": "tvm_test::absent(Tensor x) -> Tensor"},
        )
    register("twice", "tvm_test::twice(Tensor x) -> Tensor")
