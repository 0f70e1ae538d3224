# SPDX-License-Identifier: Apache-2.0
"""Compiled functions as functions of TVM-FFI: `fn.tvm_ffi()`."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import straightline as sl
import torch
import tvm_ffi
from torch import Tensor, nn


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).eval().requires_grad_(False)


@pytest.fixture
def case() -> tuple[Any, Any, Tensor]:
    """A function, itself for TVM-FFI, and an input."""
    fn = sl.compile(_mlp(), (torch.randn(3, 16),))
    return fn, fn.tvm_ffi(), torch.randn(3, 16)


def test_tensors_of_torch(case: Any) -> None:
    fn, function, x = case
    assert isinstance(function, tvm_ffi.Function)
    assert fn.tvm_ffi() is function
    result = function(x)
    assert type(result) is Tensor  # by the environment's allocator, which is torch's here
    assert torch.equal(result, fn(x))


def test_arrays_of_numpy(case: Any) -> None:
    fn, function, x = case
    result = function(x.numpy())  # without an allocator: memory of ours
    assert np.array_equal(np.from_dlpack(result), fn(x).numpy())
    kept = torch.from_dlpack(result)
    del result
    gc.collect()
    function(torch.randn(3, 16).numpy())
    assert torch.equal(kept, fn(x))


def test_a_tensor_of_tvm_ffi(case: Any) -> None:
    fn, function, x = case
    assert np.array_equal(np.from_dlpack(function(tvm_ffi.from_dlpack(x.numpy()))), fn(x).numpy())


def test_destinations(case: Any) -> None:
    fn, function, x = case
    y = torch.full((3, 4), torch.nan)
    assert function(x, y) is None
    assert torch.equal(y, fn(x))


class _Many(nn.Module):
    """A list, numbers, a text, an update in place, results that are not row-major."""

    def forward(self, xs: list[Tensor], y: Tensor, k: int, a: float = 0.5, mode: str = "the sum") -> tuple[Tensor, ...]:
        y.add_(xs[0] * k)
        return xs[0] + xs[1] * a, y.t(), xs[1].sum() if mode == "the sum" else y


def test_lists_numbers_and_updates() -> None:
    xs, y = [torch.randn(3, 4), torch.randn(3, 4)], torch.randn(3, 4)
    function = sl.compile(_Many(), (xs, y, 3)).tvm_ffi()
    own, expected = y.clone(), y.clone()
    results = function(xs, own, 3, 0.5, "the sum")
    wanted = _Many()(xs, expected, 3)
    assert torch.equal(own, expected)
    assert [torch.from_dlpack(result).stride() for result in results] == [(4, 1), (1, 4), ()]
    for got, value in zip(results, wanted, strict=True):
        torch.testing.assert_close(torch.from_dlpack(got), value)
    into = [torch.empty(3, 4), torch.empty(3, 4).t(), torch.empty(())]
    own = y.clone()
    function(xs, own, 3, 0.5, "the sum", *into)
    for got, value in zip(into, wanted, strict=True):
        torch.testing.assert_close(got, value)
    arrays = function([x.numpy() for x in xs], y.clone().numpy(), 3, 0.5, "the sum")
    for got, value in zip(arrays, wanted, strict=True):
        torch.testing.assert_close(torch.from_dlpack(got), value)


@pytest.mark.parametrize(
    ("place", "value", "kind", "words"),
    [
        (0, 3, ValueError, "must be an array of tensors"),
        (0, [torch.randn(3, 4)], ValueError, "has 1 tensors but the program was compiled for 2"),
        (0, [torch.randn(3, 4), 3], ValueError, "an array of tensors alone"),
        (1, 2.0, ValueError, "must be a tensor"),
        (1, None, ValueError, "must be a tensor"),
        (1, torch.randn(3, 4, dtype=torch.float64), ValueError, "float64"),
        (2, 4, ValueError, "argument 'k' is 4 but the program was compiled for 3"),
        (2, "3", ValueError, "must be an int"),
        (3, 0.25, ValueError, "argument 'a' is 0.25 but the program was compiled for 0.5"),
        (3, "x", ValueError, "must be a float"),
        (4, "a mean", ValueError, "argument 'mode' is 'a mean' but the program was compiled for 'the sum'"),
        (4, "mean", ValueError, "argument 'mode' is 'mean' but the program was compiled for 'the sum'"),
        (4, 3, ValueError, "must be a str"),
        (5, torch.randn(1), ValueError, "takes 5, or 8 with a destination for each result"),
    ],
)
def test_what_calls_may_not_give(place: int, value: Any, kind: type[Exception], words: str) -> None:
    xs, y = [torch.randn(3, 4), torch.randn(3, 4)], torch.randn(3, 4)
    function = sl.compile(_Many(), (xs, y, 3)).tvm_ffi()
    given: list[Any] = [xs, y, 3, 0.5, "the sum"]
    given[place : place + 1] = [value]
    with pytest.raises(kind, match=words):
        function(*given)


@pytest.mark.parametrize(
    ("destination", "words"),
    [
        (torch.empty(2, 4), r"destination 0 is float32\(2, 4\) .* but the result is float32\(3, 4\)"),
        (torch.empty(3, 4, dtype=torch.float64), "destination 0 is float64"),
        (torch.empty(4, 3).t(), r"with strides \(1, 3\) but the result is"),
        (3, "destination 0 is no tensor"),
    ],
)
def test_destinations_that_do_not_fit(case: Any, destination: Any, words: str) -> None:
    _, function, x = case
    with pytest.raises(ValueError, match=words):
        function(x, destination)


def test_a_destination_that_is_an_input() -> None:
    function = sl.compile(lambda x: x * 2, (torch.randn(4),)).tvm_ffi()
    x = torch.randn(4)
    with pytest.raises(ValueError, match="shares memory with input 0"):
        function(x, x)


def test_new_parameters_and_the_end_of_the_function(case: Any) -> None:
    fn, function, x = case
    other = _mlp()
    fn.load_parameters(other.state_dict())
    expected = fn(x)
    torch.testing.assert_close(function(x), other(x))
    del fn, case
    gc.collect()
    assert torch.equal(function(x), expected)


def test_several_threads(case: Any, wrong_of_threads: Callable[..., int]) -> None:
    fn, function, x = case
    expected = fn(x)
    assert not wrong_of_threads(lambda: function(x), expected, 500)


def test_results_are_freed(case: Any) -> None:
    """A result of 4 MB each: two thousand of them do not fit into memory at once."""
    function = sl.compile(lambda x: x + 1, (torch.randn(1 << 20),)).tvm_ffi()
    x = np.zeros(1 << 20, np.float32)
    for _ in range(2000):
        function(x)


def test_a_failure_while_it_runs() -> None:
    function = sl.compile(lambda x, i: x[i], (torch.randn(4), torch.tensor([1, 2]))).tvm_ffi()
    with pytest.raises(IndexError, match="7"):
        function(torch.randn(4), torch.tensor([1, 7]))


def test_short_calls_keep_the_gil() -> None:
    """As `fn(x)` does: giving it up and taking it again costs a tenth of such a call."""
    x = torch.ones(16)
    short = sl.compile(torch.nn.ReLU(), (x,)).tvm_ffi()
    assert not short.release_gil
    long = sl.compile(torch.nn.Linear(1024, 1024), (torch.ones(64, 1024),))
    function = long.tvm_ffi()
    assert function.release_gil
    long.load_parameters({name: value * 2 for name, value in long.parameters().items()})
    assert function.release_gil


def test_nothing_is_left_under_a_global_name(case: Any) -> None:
    del case
    assert not [name for name in tvm_ffi.registry.list_global_func_names() if name.startswith("straightline.")]


def test_by_the_c_abi(case: Any) -> None:
    """A tensor as a DLTensor on the caller's stack (TVMFFIAny of type 7), as C callers give it."""

    class Any_(ctypes.Structure):
        _fields_ = (("type", ctypes.c_int32), ("pad", ctypes.c_uint32), ("value", ctypes.c_void_p))

    class Tensor_(ctypes.Structure):
        _fields_ = (
            ("data", ctypes.c_void_p),
            ("device", ctypes.c_int32 * 2),
            ("rank", ctypes.c_int32),
            ("code", ctypes.c_uint8),
            ("bits", ctypes.c_uint8),
            ("lanes", ctypes.c_uint16),
            ("shape", ctypes.c_void_p),
            ("strides", ctypes.c_void_p),
            ("offset", ctypes.c_uint64),
        )

    fn, function, x = case
    y = torch.empty(3, 4)
    library = ctypes.CDLL("libtvm_ffi.so", mode=4)  # RTLD_NOLOAD
    views, shapes = [], []
    for tensor in (x, y):
        shapes.append((ctypes.c_int64 * 2)(*tensor.shape))
        views.append(
            Tensor_(tensor.data_ptr() - 8, (1, 0), 2, 2, 32, 1, ctypes.cast(shapes[-1], ctypes.c_void_p), None, 8)
        )
    arguments = (Any_ * 2)(*(Any_(7, 0, ctypes.addressof(view)) for view in views))
    result = Any_()
    handle = ctypes.c_void_p(function.__chandle__())
    assert library.TVMFFIFunctionCall(handle, arguments, 2, ctypes.byref(result)) == 0
    assert torch.equal(y, fn(x))
    assert result.type == 0
