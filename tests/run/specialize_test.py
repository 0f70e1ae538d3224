# SPDX-License-Identifier: Apache-2.0
"""Programs for single named sizes, beside the one for all: by `specialize(sizes)`, and in the background for sizes that come often."""

from __future__ import annotations

import copy
import gc
import os
import random
import threading
import time
import warnings
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from named_sizes_cases import CASES, rows_of
from policy import check_tree, torch_errors
from torch import Tensor, nn
from torch.export import Dim

import straightline as sl
from straightline import _call
from straightline._specialize import HOT_CALLS

B = Dim("b", min=1, max=64)


def close(got: Any, want: Any) -> None:
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def _linear(**options: Any) -> tuple[nn.Module, Any]:
    model = nn.Linear(6, 5).eval()
    return model, sl.compile(model, (torch.randn(3, 6),), dynamic_shapes=({0: B},), **options)


def _mark(program: Any) -> None:
    """Results of this program alone are zero from now on."""
    zeros = {name: torch.zeros_like(x) for name, x in program.parameters().items()}
    _call.publish((program,), (program._binding.weights(program, zeros, {}).capsule,))


def _call_often(fn: Any, *sizes: int) -> None:
    for _ in range(HOT_CALLS):
        for n in sizes:
            fn(torch.randn(n, 6))


@pytest.mark.parametrize("name", CASES)
def test_right_at_each_size(name: str) -> None:
    model, inputs, named, least = CASES[name]
    model.eval()
    rows = rows_of(least)
    fn = sl.compile(model, inputs(7), dynamic_shapes=(tuple({dim: rows for dim in dims} for dims in named),))
    sizes = {least, least + 1, 17, random.Random(torch.initial_seed()).randrange(least, 40)}
    for n in sizes:
        fn.specialize({"n": n})
    assert len(fn._special) == len(sizes) and [facts["specialized"] for facts in fn.explain().programs] == [
        None,
        *({"n": n} for n in sizes),
    ]
    for program in fn._special:
        assert program.explain()["named_sizes"] == [] and "op.symbol" not in program.ir("op")
    exact = copy.deepcopy(model).double()
    with torch.no_grad():
        for n in (*sizes, 23):
            given = inputs(n)
            wide = tuple(x.double() if x.is_floating_point() else x for x in given)
            check_tree(
                fn(*given), model(*given), exact(*wide), lambda: torch_errors(model, (given, {}))[: len(model(*given))]
            )


def test_its_program_takes_the_calls() -> None:
    model, fn = _linear()
    fn.specialize({"b": 4})
    fn.specialize({"b": 9})
    fn.specialize({"b": 9})  # there already
    assert fn.examples == tuple(f"input: float32[b, 6]{at}" for at in ("", " for b = 4", " for b = 9"))
    for program in fn._special:
        _mark(program)
    for n in (4, 9, 5, 9, 4, 4, 1):
        x = torch.randn(n, 6)
        close(fn(x), torch.zeros(n, 5) if n in (4, 9) else model(x).detach())
    assert "for b = 9" in fn.code and len(str(fn.explain())) > len(str(fn._special[0].explain()))


def test_frequent_sizes() -> None:
    """At most so many; calls go on meanwhile; what is seldom gets none."""
    model, fn = _linear(specialize=2)
    fn(torch.randn(60, 6))
    _call_often(fn, 3, 8)
    assert fn.wait_for_specialized(120)
    _call_often(fn, 5)
    assert fn.wait_for_specialized(120)
    want = [{"sizes": {"b": n}, "state": "ready", "reason": ""} for n in (3, 8)]
    assert fn.explain()["specializing"] == want and len(fn._special) == 2
    for n in (3, 8, 5, 60, 3):
        x = torch.randn(n, 6)
        close(fn(x), model(x).detach())
    with pytest.raises(sl.GuardError, match="dim 0 is 65 but this program was compiled for b in"):
        fn(torch.randn(65, 6))


def test_without_the_option_none() -> None:
    _, fn = _linear()
    _call_often(fn, 3)
    assert fn.wait_for_specialized(0) and fn.explain()["specializing"] == []


def test_sizes_that_alternate_with_many_others() -> None:
    _, fn = _linear(specialize=1)
    for i in range(200):
        fn(torch.randn(4 if i % 2 else 5 + i % 59, 6))
    assert fn.wait_for_specialized(120)
    assert fn.explain()["specializing"] == [{"sizes": {"b": 4}, "state": "ready", "reason": ""}]


def test_all_ways_of_calling() -> None:
    """A result that is a number, `out=`, keyword arguments, several names, the interpreter, emitted Python, threads of its team."""

    class Model(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, int, int]:
            return x @ y, x.shape[0] * 2 + 1, y.shape[1]

    for options in (
        {},
        {"fast_path": False},
        {"emit": "python"},
        {"threads": 2},
        {"reuse_outputs": True},
        {"freeze": False},
    ):
        shapes = ({0: Dim("m", max=40)}, {1: Dim("n", max=50)})
        fn = sl.compile(Model().eval(), (torch.randn(3, 6), torch.randn(6, 5)), dynamic_shapes=shapes, **options)
        fn.specialize({"m": 4, "n": 7})
        for m, n in ((4, 7), (4, 8), (7, 4), (4, 7)):
            x, y = torch.randn(m, 6), torch.randn(6, n)
            got = fn(y=y, x=x)
            close(got[0], x @ y)
            assert got[1:] == (2 * m + 1, n)
            out = torch.empty(m, n)
            assert fn(x, y, out=(out, None, None))[0] is out
            close(out, x @ y)


def test_relations_that_a_capture_found() -> None:
    """They are checked in calls of the program for all sizes, and hold where sizes are numbers."""

    def model(x: Tensor, y: Tensor) -> Tensor:
        return x[: y.shape[0]] + y if y.shape[0] < x.shape[0] else y.sum() + x

    fn = sl.compile(model, (torch.randn(7), torch.randn(4)), dynamic_shapes=({0: Dim.AUTO}, {0: Dim.AUTO}))
    names = [row["name"] for row in fn.explain()["named_sizes"]]
    assert "check" in fn.ir("op") and len(names) == 2
    sizes = dict(zip(names, (9, 5), strict=True))
    fn.specialize(sizes)
    assert all(row["backend"] != "aten" for row in fn.explain().statements)
    for m, n in ((9, 5), (8, 3), (9, 5)):
        x, y = torch.randn(m), torch.randn(n)
        close(fn(x, y), model(x, y))
    with pytest.raises(sl.UserError):
        fn(torch.randn(5), torch.randn(9))


def test_code_of_several_programs_is_not_replaced() -> None:
    _, fn = _linear(emit="python")
    fn.specialize({"b": 4})
    with pytest.raises(sl.UserError, match="code is the text of 2 programs"):
        fn.code = fn.code


def test_sizes_that_depend_on_data() -> None:
    def model(x: Tensor) -> tuple[Tensor, int]:
        y = x[x > 0]
        return y * 2, y.shape[0] + x.shape[0]

    fn = sl.compile(model, (torch.randn(5, 6),), dynamic_shapes=({0: B},))
    for n in (3, 8):
        fn.specialize({"b": n})
    for n in (3, 8, 5, 3, 8):
        x = torch.randn(n, 6)
        got, want = fn(x), model(x)
        assert torch.equal(got[0], want[0]) and got[1] == want[1]


def test_states_are_shared() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("n", torch.zeros(()))

        def forward(self, x: Tensor) -> Tensor:
            self.n += x.sum()
            return x + self.n

    model = Model().eval()
    fn = sl.compile(model, (torch.ones(3, 2),), dynamic_shapes=({0: B},))
    fn(torch.ones(3, 2))
    fn.specialize({"b": 4})
    for n, total in ((4, 14), (3, 20), (4, 28)):
        close(fn(torch.ones(n, 2)), torch.ones(n, 2) + total)
    assert model.n == 28 and fn.parameters()["n"].data_ptr() == model.n.data_ptr()


@pytest.mark.parametrize("options", [{}, {"freeze": False}, {"emit": "python"}])
def test_other_parameters(options: dict[str, Any]) -> None:
    """They reach programs for single sizes too, those that are there and those that come."""
    model, fn = _linear(**options)
    other = nn.Linear(6, 5).eval()
    x, y = torch.randn(4, 6), torch.randn(9, 6)
    fn.specialize({"b": 4})
    beside = fn.with_parameters(other.state_dict())
    beside.specialize({"b": 9})
    with torch.no_grad():
        for z in (x, y):
            close(fn(z), model(z))
            close(beside(z), other(z))
        fn.load_parameters(other.state_dict())
        fn.specialize({"b": 9})
        for z in (x, y):
            close(fn(z), other(z))
        fn.load_parameters({"weight": model.weight, "bias": other.bias})
        for z in (x, y, torch.randn(3, 6)):
            close(fn(z), nn.functional.linear(z, model.weight, other.bias))


def test_parameters_that_were_written_since() -> None:
    """The program for all sizes has kept their values; one with other values would be a wrong answer."""
    model, fn = _linear()
    before = fn(torch.ones(4, 6))
    with torch.no_grad():
        model.weight.add_(1)
    with pytest.raises(
        sl.UserError, match="parameter weight was written in place since it was prepared.*load_parameters"
    ):
        fn.specialize({"b": 4})
    assert torch.equal(fn(torch.ones(4, 6)), before) and fn.explain()["specializing"][0]["state"] == "failed"
    fn.load_parameters(model.state_dict())
    fn.specialize({"b": 4})
    close(fn(torch.ones(4, 6)), model(torch.ones(4, 6)).detach())

    _, fn = _linear(freeze=False)
    model = nn.Linear(6, 5).eval()
    fn.load_parameters(model.state_dict())
    with torch.no_grad():
        model.weight.add_(1)
    fn.specialize({"b": 4})
    with torch.no_grad():
        model.weight.add_(1)
    close(fn(torch.ones(4, 6)), model(torch.ones(4, 6)).detach())


def test_parameters_whose_changes_are_unseen() -> None:
    text = """
        op.symbol @b {min = 1 : i64, max = 9 : i64}
        func.func @f(%x: tensor<?x3xf32, #op.dims<[b, 3]>> {op.name = "x"}) -> tensor<?x2xf32, #op.dims<[b, 2]>> {
          %w = op.parameter "w" : tensor<2x3xf32>
          %y = op.linear %x, %w : (tensor<?x3xf32, #op.dims<[b, 3]>>, tensor<2x3xf32>) -> tensor<?x2xf32, #op.dims<[b, 2]>>
          return %y : tensor<?x2xf32, #op.dims<[b, 2]>>
        }"""
    w = np.ones((2, 3), np.float32)
    with pytest.raises(sl.UserError, match="parameter w may be written unseen.*freeze=False"):
        sl.compile_mlir(text, {"w": w}).specialize({"b": 4})
    fn = sl.compile_mlir(text, {"w": w}, freeze=False)
    fn.specialize({"b": 4})
    for n in (4, 5):
        w += 1
        x = np.random.rand(n, 3).astype(np.float32)
        np.testing.assert_allclose(fn(x), x @ w.T, rtol=1e-5)


def test_what_fails_in_the_background_warns() -> None:
    model, fn = _linear(specialize=1)
    with torch.no_grad():
        model.weight.add_(1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _call_often(fn, 4)
        assert fn.wait_for_specialized(120)
    (entry,) = fn.explain()["specializing"]
    assert entry["state"] == "failed" and "written in place" in entry["reason"]
    (warning,) = [w for w in caught if w.category is sl.SpecializeWarning]
    assert "no program of its own for b = 4: parameter weight was written" in str(warning.message)
    assert fn(torch.randn(4, 6)).shape == (4, 5)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({}, "sizes has nothing but must be a dict with the size of b"),
        ({"c": 3}, "sizes has 'c' but must be a dict with the size of b"),
        ({"b": 65}, "size b is 65 but must be from 1 to 64"),
        ({"b": 2.0}, "size b is 2.0 but must be a whole number"),
        (4, "sizes is 4 but must be a dict with the size of b"),
    ],
)
def test_wrong_sizes(sizes: Any, words: str) -> None:
    _, fn = _linear()
    with pytest.raises(sl.UserError, match=words):
        fn.specialize(sizes)


def test_where_it_means_nothing() -> None:
    fixed = sl.compile(nn.Linear(6, 5).eval(), (torch.randn(3, 6),))
    with pytest.raises(sl.UserError, match="no size of this program has a name"):
        fixed.specialize({"b": 3})
    elsewhere = sl.compile(nn.Linear(6, 5).eval(), (torch.randn(3, 6),), dynamic_shapes=({0: B},), target="cuda:sm_90")
    with pytest.raises(sl.UnsupportedError, match="cannot run here"):
        elsewhere.specialize({"b": 3})
    with pytest.raises(sl.UserError, match="specialize is -1 but must be a whole number from 0 to 64"):
        _linear(specialize=-1)


def test_several_examples() -> None:
    """Each has its own frequent sizes."""

    def model(x: Tensor) -> Tensor:
        return x * 2 + 1

    shapes = ({0: B},)
    fn = sl.compile(model, [(torch.randn(3, 6),), (torch.randn(3, 6).double(),)], dynamic_shapes=shapes, specialize=1)
    for _ in range(HOT_CALLS + 1):
        for x in (torch.randn(4, 6), torch.randn(5, 6).double(), torch.randn(7, 6).double()):
            assert torch.equal(fn(x), model(x))
    assert fn.wait_for_specialized(120)
    assert fn.examples == (
        "x: float32[b, 6]",
        "x: float32[b, 6] for b = 4",
        "x: float64[b, 6]",
        "x: float64[b, 6] for b = 5",
    )
    for n in (4, 5, 6):
        for x in (torch.randn(n, 6), torch.randn(n, 6).double()):
            assert torch.equal(fn(x), model(x))
    with pytest.raises(sl.UserError, match="specialize is for one program but there are 2"):
        fn.specialize({"b": 3})
    with pytest.raises(sl.GuardError, match="none of the compiled examples fits"):
        fn(torch.randn(3, 7))


def test_by_torch_compile() -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU()).eval()
    compiled = torch.compile(model, backend="straightline", dynamic=True, options={"specialize": 2})
    with torch.no_grad():
        for _ in range(HOT_CALLS + 1):
            for n in (3, 5):
                x = torch.randn(n, 6)
                close(compiled(x), model(x))
        (program,) = sl.programs(compiled)
        assert program._compiled().wait_for_specialized(120)
        states = [(*entry["sizes"].values(), entry["state"]) for entry in program.explain()["specializing"]]
        assert states == [(3, "ready"), (5, "ready")]
        for n in (3, 5, 9):
            x = torch.randn(n, 6)
            close(compiled(x), model(x))


def test_while_threads_call_and_load() -> None:
    """Each result is of one set of parameters, whichever program gave it."""
    scales = [1.0, 2.0, 3.0]
    model = nn.Linear(6, 5, bias=False).eval()
    nn.init.ones_(model.weight)
    fn = sl.compile(model, (torch.ones(3, 6),), dynamic_shapes=({0: B},), specialize=4)
    stop, wrong = threading.Event(), list[float]()

    def call(x: Tensor) -> None:
        while not stop.is_set():
            values = fn(x).unique()
            if len(values) != 1 or float(values) / 6 not in scales:
                wrong.append(float(values[0]))

    threads = [threading.Thread(target=call, args=(torch.ones(n, 6),)) for n in (3, 4, 5)]
    for thread in threads:
        thread.start()
    for i in range(60):
        fn.load_parameters({"weight": torch.full((5, 6), scales[i % 3])})
        if i == 30:  # all threads have called often by then, however busy the machine is
            end = time.monotonic() + 120
            while len(fn.explain()["specializing"]) < 3 and time.monotonic() < end:
                time.sleep(0.01)
            assert fn.wait_for_specialized(120)
    assert fn.wait_for_specialized(120)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong and len(fn._special) == 3
    fn.load_parameters({"weight": torch.full((5, 6), 2.0)})
    for n in (3, 4, 5, 6):
        assert torch.equal(fn(torch.ones(n, 6)), torch.full((n, 5), 12.0))


def test_goes_with_its_function() -> None:
    model, fn = _linear(specialize=1)
    fn.specialize({"b": 4})
    _call_often(fn, 5)
    watches = [weakref.ref(fn), weakref.ref(fn._special[0])]
    del fn
    gc.collect()
    for _ in range(100):  # the thread may hold it while it compiles
        if all(watch() is None for watch in watches):
            break
        threading.Event().wait(0.1)
    assert [watch() for watch in watches] == [None, None]


def test_in_a_forked_child() -> None:
    """The child has programs that were there, and a thread of its own for others."""
    model, fn = _linear(specialize=2)
    fn.specialize({"b": 4})
    _call_often(fn, 5)
    assert fn.wait_for_specialized(120)
    child = os.fork()
    if child == 0:
        try:
            _call_often(fn, 4, 7)
            good = fn.wait_for_specialized(60) and fn.explain()["specializing"][-1]["state"] == "ready"
            good = good and all(
                torch.allclose(fn(x), model(x), atol=1e-5) for x in map(torch.randn, (4, 5, 7, 8), (6,) * 4)
            )
        except BaseException:
            os._exit(2)
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
