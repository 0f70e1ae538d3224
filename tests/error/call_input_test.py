# SPDX-License-Identifier: Apache-2.0
"""Wrong arguments of a call: the class, the words (what, both values, where), and that the next call is right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import straightline as sl
import torch
from refused import REFUSED
from straightline.errors import GuardTypeError

X = torch.arange(6, dtype=torch.float32).reshape(2, 3)


def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + y


@pytest.fixture(scope="module")
def fn() -> Any:
    return sl.compile(add, (X, X))


def refuses(fn: Any, kind: type[Exception], words: str, *args: Any, **kwargs: Any) -> None:
    """The call raises, and then the same program still computes what is right."""
    with pytest.raises(kind, match=words) as caught:
        fn(*args, **kwargs)
    assert isinstance(caught.value, sl.UserError)
    assert not str(caught.value).endswith("."), caught.value
    torch.testing.assert_close(fn(X, X), 2 * X, rtol=0, atol=0)


def test_dtype(fn: Any) -> None:
    refuses(fn, GuardTypeError, "'y': dtype is float64 but .* compiled for float32", X, X.double())


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("position", [0, 1])
def test_refused_tensors(fn: Any, name: str, position: int) -> None:
    args: list[Any] = [X, X]
    args[position] = REFUSED[name].make()
    refuses(fn, sl.GuardError, f"'{'xy'[position]}'.*{REFUSED[name].call_words}", *args)


def test_rank(fn: Any) -> None:
    refuses(
        fn,
        sl.GuardError,
        r"'y': it has 1 dims but .* 2, \[2, 3\]; pass an example of this rank to sl\.compile",
        X,
        X.flatten(),
    )


def test_size_says_how_to_compile_for_it(fn: Any) -> None:
    with pytest.raises(sl.GuardError) as caught:
        fn(torch.ones(5, 3), X)
    assert str(caught.value) == (
        "input 'x': dim 0 is 5 but this program was compiled for 2; pass an example of this size to sl.compile, "
        "or mark the dim with torch.export.Dim"
    )


def test_size_outside_of_the_bounds() -> None:
    batch = torch.export.Dim("b", min=1, max=8)
    fn = sl.compile(lambda x: x * 2, (X,), dynamic_shapes=({0: batch},))
    for size, bound in ((9, "larger max"), (0, "smaller min")):
        with pytest.raises(sl.GuardError) as caught:
            fn(torch.ones(size, 3))
        assert str(caught.value) == (
            f"input 'x': dim 0 is {size} but this program was compiled for b in [1, 8]; "
            f"pass an example of this size or a torch.export.Dim with a {bound} to sl.compile"
        )
    assert fn(torch.ones(8, 3)).shape == (8, 3)


def test_sizes_that_must_agree() -> None:
    batch = torch.export.Dim("b", min=1, max=8)
    fn = sl.compile(add, (X, X), dynamic_shapes=({0: batch}, {0: batch}))
    with pytest.raises(sl.GuardError, match="'y': dim 0 is 4 but .* b = 5"):
        fn(torch.ones(5, 3), torch.ones(4, 3))
    assert fn(torch.ones(5, 3), torch.ones(5, 3)).sum() == 30


def test_stride(fn: Any) -> None:
    words = r"'y': strides are \(1, 2\) but .* \(3, 1\) at size \(2, 3\); .*x\.contiguous\(\)"
    refuses(fn, sl.GuardError, words, X, X.T.contiguous().T)


def test_number_of_inputs(fn: Any) -> None:
    refuses(fn, GuardTypeError, "'y' is missing", X)
    refuses(fn, GuardTypeError, "'x' is missing", y=X)
    refuses(fn, GuardTypeError, "3 positional arguments are given but it was compiled for 2", X, X, X)
    refuses(fn, GuardTypeError, "'z' was not given when this was compiled", X, X, z=X)
    refuses(fn, GuardTypeError, "'x' is given twice", X, X, x=X)


@pytest.mark.parametrize(
    "value", [3.0, None, "text", [1.0], np.float32(1), object()], ids=lambda value: type(value).__name__
)
def test_not_a_tensor(fn: Any, value: Any) -> None:
    refuses(fn, GuardTypeError, f"'y' must be a tensor but is a {type(value).__name__}", X, value)


class _Lends:
    """An object whose `__dlpack__` gives or raises what it is told."""

    def __init__(self, what: object) -> None:
        self.what = what

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **_: Any) -> object:
        if isinstance(self.what, BaseException):
            raise self.what
        return self.what


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), MemoryError(), SystemExit(3)], ids=repr)
def test_what_asks_to_stop_while_a_tensor_is_borrowed_passes(fn: Any, stop: BaseException) -> None:
    with pytest.raises(type(stop)) as caught:
        fn(X, _Lends(stop))
    assert caught.value is stop
    torch.testing.assert_close(fn(X, X), 2 * X)


@pytest.mark.parametrize("gives", [5, None, "text"], ids=repr)
def test_dlpack_that_gives_no_capsule(fn: Any, gives: object) -> None:
    words = rf"'y' is a _Lends whose data cannot be borrowed on the cpu: __dlpack__ gave {gives!r}, which is no unused capsule"
    refuses(fn, GuardTypeError, words, X, _Lends(gives))


def test_dlpack_that_raises(fn: Any) -> None:
    refuses(fn, GuardTypeError, "cannot be borrowed on the cpu: not now", X, _Lends(ValueError("not now")))


def test_numpy_beside_torch(fn: Any) -> None:
    refuses(fn, GuardTypeError, "'x' is a torch tensor but 'y' is a numpy array", X, X.numpy())


def test_requires_grad(fn: Any) -> None:
    leaf = X.clone().requires_grad_()
    refuses(fn, GuardTypeError, r"'y' requires grad while grad mode is on.*x\.detach\(\)", X, leaf)
    with torch.no_grad():
        torch.testing.assert_close(fn(X, leaf), 2 * X)


def test_constant_that_differs() -> None:
    fn = sl.compile(lambda x, n: x * n, (X, 3))
    with pytest.raises(sl.GuardError, match="'n' was compiled for the value 3 but is 4"):
        fn(X, 4)
    torch.testing.assert_close(fn(X, 3), X * 3)


def test_out(fn: Any) -> None:
    out = torch.empty(2, 3)
    cases: list[tuple[Any, str]] = [
        (torch.empty(3, 3), "size 3 in dim 0 but the result has 2"),
        (torch.empty(6), "rank 1 but the result has rank 2"),
        (torch.empty(2, 3, dtype=torch.float64), "dtype float64 but float32 was compiled"),
        (torch.empty(3, 2).T, "stride .* but .* was compiled"),
        (X, "shares memory with the input 'x'"),
        (X.flatten()[:].view(2, 3), "shares memory with the input 'x'"),
        ((out, out), "must be a tensor but is a tuple"),
        (3, "must be a tensor but is a int"),
        (torch.empty(2, 3, device="meta"), "device 'meta'"),
    ]
    before = X.clone()
    for value, words in cases:
        refuses(fn, sl.GuardError, words, X, X, out=value)
    assert torch.equal(X, before)
    assert fn(X, X, out=out) is out and torch.equal(out, 2 * X)


def test_memory_that_is_not_aligned(fn: Any) -> None:
    odd = torch.frombuffer(bytearray(25), dtype=torch.float32, offset=1, count=6).reshape(2, 3)
    refuses(fn, GuardTypeError, "'y' is not aligned to its 4-byte elements", X, odd)
    refuses(fn, GuardTypeError, "'result' is not aligned", X, X, out=odd)


class _Counts(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("n", torch.zeros(2, 3))
        self.register_buffer("other", torch.ones(2, 3))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.n.add_(1)
        y.mul_(2)
        return x + self.n * self.other + y


def test_inputs_that_share_memory_with_what_is_updated() -> None:
    """Eager reads what was just written; a program need not, so it takes none of these."""
    model = _Counts()
    fn = sl.compile(model, (X, X.clone()), freeze=False)
    storage = torch.zeros(3, 3)
    cases = [
        (model.n, X.clone(), "'x' shares memory with a buffer of the module that the program updates: give a copy"),
        (model.n[:, :], X.clone(), "'x' shares memory with a buffer"),
        (X, model.n, "'y' shares memory with a buffer"),
        (X, model.other, "'y' is updated in place by the program but shares memory with a parameter or buffer"),
    ]
    for x, y, words in cases:
        with pytest.raises(sl.GuardError, match=words):
            fn(x, y)
    assert torch.equal(model.n, torch.zeros(2, 3)) and torch.equal(model.other, torch.ones(2, 3)), "nothing has run"
    moved = fn.with_parameters({"n": storage[1:], "other": torch.ones(2, 3)})
    with pytest.raises(sl.GuardError, match="'x' shares memory with a buffer"):
        moved(storage[:2], X.clone())
    torch.testing.assert_close(moved(storage[:1].expand(2, 3).contiguous(), X.clone()), 1 + 2 * X)
    torch.testing.assert_close(fn(model.other, X.clone()), 1 + 1 + 2 * X)


def test_sizes_without_bounds_have_memory_of_their_size() -> None:
    """Two sizes without a maximum: their product is beyond 64 bits, so no slot may be planned at its bound."""
    rows, columns = torch.export.Dim("rows"), torch.export.Dim("columns")
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Softmax(-1), torch.nn.Linear(4, 4)).eval()
    example = torch.randn(3, 5, 4)
    fn = sl.compile(model, (example,), dynamic_shapes=({0: rows, 1: columns},))
    for shape in ((2, 7, 4), (50, 300, 4), (1000, 3, 4)):
        x = torch.randn(shape)
        with torch.no_grad():
            torch.testing.assert_close(fn(x), model(x), rtol=1e-4, atol=1e-5)
    with pytest.raises(sl.GuardError, match="dim 2 is 5"):
        fn(torch.randn(2, 7, 5))
