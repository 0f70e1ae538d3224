# SPDX-License-Identifier: Apache-2.0
"""Custom ops of PyTorch: updates in place without a copy, lists, and what an op of Python finds in its arguments."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import straightline as sl
import torch
from libraries import HERE
from torch import Tensor


class _Of(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self._function = function

    def forward(self, *args: Any) -> Any:
        return self._function(*args)


def _others(fn: Any) -> list[str]:
    """Statements that are no call of torch."""
    rows = json.loads(fn._compilation.explain_json)["statements"]
    return [f"{row['op']}: {row['why']}" for row in rows if row["backend"] != "aten"]


@pytest.fixture(scope="module")
def stable(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A library built on torch's stable ABI, for torch 2.10."""
    library = tmp_path_factory.mktemp("stable") / "libstable.so"
    include = Path(torch.__file__).parent / "include"
    command = [
        "g++",
        "-std=c++20",
        "-O1",
        "-w",
        "-fPIC",
        "-shared",
        f"-I{include}",
        "-DTORCH_TARGET_VERSION=0x020a000000000000",
    ]
    done = subprocess.run(
        [*command, str(HERE / "stable.cpp"), "-o", str(library), f"-L{include.parent / 'lib'}", "-ltorch_cpu"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    torch.ops.load_library(str(library))
    torch.library.register_fake("own_stable::increment", lambda x, by: None)
    for name in ("doubled", "negated", "same"):
        torch.library.register_fake(f"own_stable::{name}", lambda x: torch.empty_like(x))
    torch.library.register_fake("own_stable::turned", lambda x: x.new_empty(x.size(1), x.size(0)))
    return torch.ops.own_stable


def test_a_stable_library_updates_where_it_lies(stable: Any) -> None:
    fn = sl.compile(_Of(lambda x: stable.increment(x, 1.5)), (torch.zeros(4, 3),))
    x = torch.randn(4, 3)
    wanted, address = x + 1.5, x.data_ptr()
    fn(x)
    assert torch.equal(x, wanted)
    assert x.data_ptr() == address
    assert _others(fn) == []

    def function(x: Tensor) -> Tensor:
        y = torch.relu(x)
        stable.increment(y, 1.0)
        return stable.doubled(y)

    fn = sl.compile(_Of(function), (x,))
    assert torch.equal(fn(x), function(x))
    assert not [words for words in _others(fn) if "copy" in words]


@pytest.mark.parametrize("name", ["doubled", "negated", "turned", "same"])
@pytest.mark.parametrize("shape", [(4, 3), (3, 1), (0, 2), (40, 50)])
def test_what_a_stable_op_gives(stable: Any, name: str, shape: tuple[int, int]) -> None:
    """Its bytes are the result, unless they are still to be negated or lie in another order."""
    op = getattr(stable, name)
    fn = sl.compile(_Of(lambda x: op(x)), (torch.zeros(shape),))
    among_others = sl.compile(_Of(lambda x: (torch.relu(op(x * 0.5)), op(x))), (torch.zeros(shape),))
    for mode in (torch.no_grad, torch.inference_mode, torch.enable_grad):
        with mode():
            kept = []
            for _ in range(3):
                x = torch.randn(shape)
                kept.append((fn(x), op(x).clone()))
                for found, wanted in zip(among_others(x), (torch.relu(op(x * 0.5)), op(x)), strict=True):
                    assert torch.equal(found, wanted)
                x.fill_(99.0)
            for found, wanted in kept:
                assert torch.equal(found, wanted)
                assert not found.is_neg()
                assert not found.requires_grad
            out = torch.empty(wanted.shape)
            assert fn(torch.ones(shape), out=out) is out
            assert torch.equal(out, op(torch.ones(shape)))


@pytest.fixture
def ops() -> Iterator[Any]:
    library = torch.library.Library("own_python", "FRAGMENT")
    kernels: dict[str, tuple[Any, Any]] = {
        "add_to(Tensor(a!)[] xs, Tensor[] ys, float by) -> ()": (
            lambda xs, ys, by: [x.add_(y, alpha=by) for x, y in zip(xs, ys)] and None,
            lambda xs, ys, by: None,
        ),
        "total(Tensor[] xs) -> Tensor": (lambda xs: sum(x.sum() for x in xs), lambda xs: xs[0].new_empty(())),
        "kept(Tensor x) -> Tensor": (lambda x: _KEPT.append(x) or x * 2, lambda x: torch.empty_like(x)),
        "shaped(Tensor x) -> Tensor": (lambda x: x.unsqueeze_(0).sum(0) * 2, lambda x: torch.empty_like(x)),
    }
    for schema, (kernel, fake) in kernels.items():
        name = schema.partition("(")[0]
        library.define(schema)
        library.impl(name, kernel, "CPU")
        torch.library.register_fake(f"own_python::{name}", fake, lib=library)
    yield torch.ops.own_python
    _KEPT.clear()
    library._destroy()


_KEPT: list[Tensor] = []


def test_lists_are_updated_where_they_lie(ops: Any) -> None:
    lists = [[torch.randn(n, 2) for n in (1, 2, 3)] for _ in range(2)]
    wanted = [x + 0.5 * y for x, y in zip(*lists)]
    addresses = [x.data_ptr() for x in lists[0]]
    fn = sl.compile(_Of(lambda xs, ys: ops.add_to(xs, ys, 0.5)), ([x.clone() for x in lists[0]], lists[1]))
    fn(*lists)
    assert all(torch.equal(x, y) for x, y in zip(lists[0], wanted))
    assert [x.data_ptr() for x in lists[0]] == addresses
    assert _others(fn) == []


def test_lists_of_tensors(ops: Any) -> None:
    xs = [torch.randn(n) for n in (3, 4)]
    fn = sl.compile(_Of(lambda *xs: ops.total(list(xs))), tuple(xs))
    for _ in range(3):
        given = [torch.randn_like(x) for x in xs]
        torch.testing.assert_close(fn(*given), ops.total(given))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_tensors_of_the_last_call_are_used_again(ops: Any, mode: Any) -> None:
    """An op that keeps its argument, or gives it another shape, does not disturb the next call."""
    for name in ("kept", "shaped", "total"):
        function = (lambda x: ops.total([x, x])) if name == "total" else getattr(ops, name)
        fn = sl.compile(_Of(function), (torch.zeros(5),))
        with mode():
            x = torch.randn(5)
            for attempt in range(4):
                x.copy_(torch.full((5,), float(attempt)))
                wanted = x.sum() * 2 if name == "total" else x * 2
                assert torch.equal(fn(x), wanted)
    assert all(x.shape == (5,) for x in _KEPT)


def test_autograds_kernels_are_passed_over() -> None:
    @torch.library.custom_op("own_python_2::slow", mutates_args=())
    def slow(x: Tensor) -> Tensor:
        return x + 1

    slow.register_fake(torch.empty_like)
    slow.register_autograd(lambda context, grad: grad)
    x = torch.ones(3)
    fn = sl.compile(_Of(lambda x: torch.ops.own_python_2.slow(x)), (x,))
    for _ in range(3):
        assert torch.equal(fn(x), x + 1)
        assert not fn(x).requires_grad


@pytest.fixture(scope="module")
def giving() -> Any:
    """Ops of Python by what they give."""
    library = torch.library.Library("own_giving", "DEF")  # noqa: TOR901
    held = torch.zeros(3, requires_grad=True)
    stored: list[Tensor] = []

    def stashed(x: Tensor) -> Tensor:
        stored[:] = [x * 2]
        return stored[0]

    forms = {
        "fresh": lambda x: x * 2,
        "same": lambda x: x,
        "view": lambda x: x.view(-1)[:3],
        "stashed": stashed,
        "graded": lambda x: _graded(x, held),
        "negated": lambda x: torch._neg_view(x * -2),
    }
    for name, function in forms.items():
        library.define(f"{name}(Tensor x) -> Tensor")
        library.impl(name, function, "CPU")
        torch.library.register_fake(f"own_giving::{name}", torch.empty_like, lib=library)
    yield torch.ops.own_giving
    library._destroy()


def _graded(x: Tensor, held: Tensor) -> Tensor:
    with torch.enable_grad():
        return x * 2 + held


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
@pytest.mark.parametrize("name", ["fresh", "same", "view", "stashed", "graded", "negated"])
def test_what_an_op_gives_is_the_callers_where_it_can_be(giving: Any, name: str, mode: Any) -> None:
    op = getattr(giving, name)
    fn = sl.compile(_Of(op), (torch.zeros(3),))
    with mode():
        results = []
        for attempt in range(4):
            x = torch.full((3,), float(attempt))
            results.append((fn(x), x.clone() if name in ("same", "view") else x * 2))
            x.fill_(99.0)
        for found, wanted in results:
            assert torch.equal(found, wanted)
            assert not found.requires_grad
            assert not found.is_neg()
        out = torch.empty(3)
        assert fn(torch.ones(3), out=out) is out
        assert torch.equal(out, torch.ones(3) if name in ("same", "view") else torch.full((3,), 2.0))


def test_what_an_op_gives_is_not_the_result_where_more_is_done_with_it(giving: Any) -> None:
    x = torch.tensor([-1.0, 0.5, 2.0])

    def nested(x: Tensor) -> Tensor:
        return giving.fresh(inner(x))

    inner = sl.compile(_Of(lambda x: giving.fresh(x)), (x,))
    functions: list[Any] = [
        lambda x: torch.relu_(giving.fresh(x)),
        lambda x: (giving.fresh(x), giving.fresh(x + 1)),
        lambda x: (lambda y: (y, y + 1, y.view(3, 1)))(giving.fresh(x)),
        lambda x: giving.fresh(x).view(1, 3),
        lambda x: giving.fresh(giving.fresh(x)),
    ]
    for function in functions:
        fn = sl.compile(_Of(function), (x,))
        kept = []
        for attempt in range(3):
            kept.append((fn(x + attempt), function(x + attempt)))
        for found, wanted in kept:
            pairs = zip(found, wanted) if isinstance(wanted, tuple) else [(found, wanted)]
            assert all(torch.equal(a, b) and a.stride() == b.stride() for a, b in pairs)
    assert torch.equal(nested(x), x * 4)
