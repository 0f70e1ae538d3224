# SPDX-License-Identifier: Apache-2.0
"""Registered programs that other programs call directly: `fn.register` and then `sl.compile`."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import straightline as sl
import torch
from torch import Tensor, nn

_numbers = itertools.count()


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).eval().requires_grad_(False)


def _registered(model: Callable[..., Any], *args: Any, **options: Any) -> tuple[Any, Any, Any]:
    """A function, its registration and the op."""
    fn = sl.compile(model, args, **options)
    registered = fn.register(f"ffi_programs::op_{next(_numbers)}")
    return fn, registered, getattr(torch.ops.ffi_programs, registered.name.partition("::")[2])


def _backends(fn: Any, registered: Any) -> list[str]:
    name = registered.name.replace("::", ".")
    return [row["backend"] for row in fn.explain().facts["statements"] if row["op"].removesuffix(".default") == name]


@pytest.mark.parametrize("emit", ["c++", "python"])
def test_it_is_called_directly(emit: str) -> None:
    model, x = _mlp(), torch.randn(3, 16)
    _, registered, op = _registered(model, x)
    outer = sl.compile(lambda x: torch.relu(op(x * 2)), (x,), **({} if emit == "c++" else {"emit": emit}))
    assert _backends(outer, registered) == ["own"]
    for _ in range(2):
        x = torch.randn(3, 16)
        torch.testing.assert_close(outer(x), model(x * 2).relu(), rtol=1e-5, atol=1e-5)
        with sl.fast_path(False):
            torch.testing.assert_close(outer(x), model(x * 2).relu(), rtol=1e-5, atol=1e-5)


def test_equal_bits_with_the_dispatcher() -> None:
    """What the op gives in eager is what it gives in a program."""
    model, x = _mlp(), torch.randn(3, 16)
    _, _, op = _registered(model, x)
    outer = sl.compile(lambda x: op(x) * 1, (x,))
    assert torch.equal(outer(x), op(x))


class _Many(nn.Module):
    """Lists, numbers, a text, an update in place, several results."""

    def forward(
        self, xs: list[Tensor], y: Tensor, k: int, a: float = 0.5, *, flag: bool = True, mode: str = "sum"
    ) -> tuple[Tensor, dict[str, Tensor]]:
        y.add_(xs[0] * k)
        return xs[0] + xs[1] * a, {"s": xs[1].sum() if flag and mode == "sum" else y}


def test_every_kind_of_argument() -> None:
    xs, y = [torch.randn(3, 4), torch.randn(3, 4)], torch.randn(3, 4)
    _, registered, op = _registered(_Many().eval(), xs, y.clone(), 3)

    def outer(x: Tensor, z: Tensor, y: Tensor) -> Tensor:
        first, total = op([x * 2, z], y, 3)
        return first + total

    fn = sl.compile(outer, (*xs, y.clone()))
    assert _backends(fn, registered) == ["own"]
    mine, wanted = y.clone(), y.clone()
    result = fn(*xs, mine)
    wanted.add_(xs[0] * 2 * 3)
    torch.testing.assert_close(mine, wanted)
    torch.testing.assert_close(result, xs[0] * 2 + xs[1] * 0.5 + xs[1].sum())
    with pytest.raises(sl.UserError, match=r"argument 'k' is 4 but the program was compiled for 3"):
        sl.compile(lambda x, y: op([x, x], y, 4)[0], (xs[0], y))
    with pytest.raises(sl.UserError, match=r"3 tensors but the program was compiled for 2"):
        sl.compile(lambda x, y: op([x, x, x], y, 3)[0], (xs[0], y))


def test_named_sizes() -> None:
    model, n = _mlp(), torch.export.Dim("n", min=2, max=64)
    _, registered, op = _registered(model, torch.randn(3, 16), dynamic_shapes={"input": {0: n}})
    outer = sl.compile(lambda x: op(x + 1), (torch.randn(3, 16),), dynamic_shapes={"x": {0: n}})
    assert _backends(outer, registered) == ["own"]
    for rows in (2, 9, 64):
        x = torch.randn(rows, 16)
        torch.testing.assert_close(outer(x), model(x + 1), rtol=1e-5, atol=1e-5)


def test_new_parameters_and_the_end() -> None:
    model, other, x = _mlp(), _mlp(), torch.randn(3, 16)
    fn, registered, op = _registered(model, x)
    outer = sl.compile(lambda x: op(x), (x,))
    fn.load_parameters(other.state_dict())
    torch.testing.assert_close(outer(x), other(x), rtol=1e-5, atol=1e-5)
    registered.unregister()
    with pytest.raises(sl.OpError, match=rf"{registered.name}.*it was unregistered(.|\n)*program_op_test\.py"):
        outer(x)
    sl.compile(model, (x,)).register(registered.name)  # the program takes what has the name now
    torch.testing.assert_close(outer(x), model(x), rtol=1e-5, atol=1e-5)


def test_a_layout_that_goes_by_the_dispatcher() -> None:
    """An input that was compiled with other strides than a row-major one's."""
    x = torch.randn(3, 4).t()
    _, registered, op = _registered(lambda x: x * 2, x)
    outer = sl.compile(lambda x: op(x) + 1, (x,))
    assert _backends(outer, registered) == ["aten"]
    torch.testing.assert_close(outer(x), x * 2 + 1)


_LOADED = """
import sys, torch
import straightline as sl
x, expected = torch.load(sys.argv[2])
fn = sl.load(sys.argv[1])
assert torch.equal(fn(x), expected)
fn.save(sys.argv[1] + "2")
assert torch.equal(sl.load(sys.argv[1] + "2")(x), expected)
"""


@pytest.mark.parametrize("own_libraries", ["embed", "name"])
def test_saved(tmp_path: Path, own_libraries: str) -> None:
    """With what it calls, and the parameters of then; another process knows nothing of the op."""
    model, other, x = _mlp(), _mlp(), torch.randn(3, 16)
    fn, _, op = _registered(model, x)
    outer = sl.compile(lambda x: torch.relu(op(x * 2)), (x,))
    fn.load_parameters(other.state_dict())
    outer.save(tmp_path / "m.sl", own_libraries=own_libraries)
    torch.save((x, outer(x)), tmp_path / "x.pt")
    torch.testing.assert_close(outer(x), other(x * 2).relu(), rtol=1e-5, atol=1e-5)
    subprocess.run([sys.executable, "-c", _LOADED, tmp_path / "m.sl", tmp_path / "x.pt"], check=True)


def test_saved_when_the_inner_function_is_gone(tmp_path: Path) -> None:
    model, x = _mlp(), torch.randn(3, 16)
    fn, registered, op = _registered(model, x)
    outer = sl.compile(lambda x: op(x), (x,))
    del fn
    gc.collect()
    torch.testing.assert_close(outer(x), model(x), rtol=1e-5, atol=1e-5)
    with pytest.raises(sl.UserError, match=f"the compiled function of {registered.name} is gone"):
        outer.save(tmp_path / "m.sl")


def test_a_program_in_a_program_in_a_program() -> None:
    model, x = _mlp(), torch.randn(3, 16)
    _, _, inner = _registered(model, x)
    _, registered, middle = _registered(lambda x: inner(x) * 3, x)
    outer = sl.compile(lambda x: middle(x) - inner(x), (x,))
    assert _backends(outer, registered) == ["own"]
    torch.testing.assert_close(outer(x), model(x) * 2, rtol=1e-5, atol=1e-5)


def test_several_threads(wrong_of_threads: Callable[..., int]) -> None:
    model, x = _mlp(), torch.randn(3, 16)
    _, _, op = _registered(model, x)
    outer = sl.compile(lambda x: op(x) + op(x * 2), (x,))
    expected = outer(x)
    assert not wrong_of_threads(lambda: outer(x), expected, 300)


def test_a_failure_inside_has_its_words() -> None:
    """An index that is out of bounds is found when the inner program runs."""
    table = torch.randn(4, 2)
    _, registered, op = _registered(lambda x, i: x[i] * 2, table, torch.tensor([1, 2]))
    outer = sl.compile(lambda x, i: op(x, i) + 1, (table, torch.tensor([1, 2])))
    assert _backends(outer, registered) == ["own"]
    with pytest.raises(sl.OpError, match=r"program_op_test\.py"):
        outer(table, torch.tensor([1, 7]))
    torch.testing.assert_close(outer(table, torch.tensor([3, 0])), table[[3, 0]] * 2 + 1)
