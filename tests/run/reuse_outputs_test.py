# SPDX-License-Identifier: Apache-2.0
"""`reuse_outputs=True`: storage of results is reused once no reference to it remains; a result that is referenced never changes."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy
import pytest
import straightline as sl
import torch
from torch import Tensor


def double(x: Tensor) -> Tensor:
    return x * 2


def compiled(function: Any = double, x: Any = None, **options: Any) -> Any:
    return sl.compile(function, (torch.zeros(4, 5) if x is None else x,), reuse_outputs=True, **options)


@pytest.mark.parametrize("options", [{}, {"emit": "python"}, {"fast_path": False}])
def test_two_tensors_take_turns(options: dict[str, Any]) -> None:
    f = compiled(**options)
    places = []
    y = None
    for n in range(8):
        x = torch.full((4, 5), float(n))
        y = f(x)  # the one before is held until this call is over
        assert torch.equal(y, 2 * x)
        places.append(y.data_ptr())
    assert len(set(places)) == 2 and places[0::2] == [places[0]] * 4 and places[1::2] == [places[1]] * 4


def test_what_is_held_stays() -> None:
    f = compiled()
    held = [f(torch.full((4, 5), float(n))) for n in range(10)]
    for n, y in enumerate(held):
        assert torch.equal(y, torch.full((4, 5), 2.0 * n))
    assert len({y.data_ptr() for y in held}) == 10


def test_numpy_views_hold_their_array() -> None:
    x = numpy.ones((4, 5), numpy.float32)
    f = compiled(x=x)
    row = f(x)[1]
    for n in range(4):
        f(n * x)
    assert (row == 2).all()
    del row
    assert len({f(x).ctypes.data for _ in range(6)}) <= 2


def test_a_view_as_argument_is_not_overwritten() -> None:
    """The tensor behind it is held by nobody."""
    f = compiled(lambda x: x.flip(0) + 1, torch.zeros(4))
    whole = f(torch.arange(4.0))
    view = whole[:]
    del whole
    want = view.clone().flip(0) + 1
    assert torch.equal(f(view), want)


def test_a_tensor_that_its_user_changed_is_left_alone() -> None:
    f = compiled()
    x = torch.ones(4, 5)
    for change in (
        lambda y: y.t_(),
        lambda y: y.resize_(2, 3),
        lambda y: y.requires_grad_(),
        lambda y: y.set_(x.clone()),
    ):
        change(f(x))
        for _ in range(3):
            y = f(x)
            assert y.shape == (4, 5) and y.stride() == (5, 1) and not y.requires_grad and torch.equal(y, 2 * x)
            del y


def test_what_shares_memory_with_another_result_is_fresh() -> None:
    def two(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x + 1
        return y, y[0]

    f = compiled(two)
    row = f(torch.zeros(4, 5))[1]
    for n in range(4):
        f(torch.full((4, 5), float(n)))
    assert torch.equal(row, torch.ones(5))


def test_named_sizes_are_fresh() -> None:
    batch = torch.export.Dim("batch", min=1, max=8)
    f = compiled(dynamic_shapes={"x": {0: batch}})
    for n in (2, 7, 7, 1):
        assert torch.equal(f(torch.full((n, 5), 3.0)), torch.full((n, 5), 6.0))


def test_out_is_the_users_own() -> None:
    f = compiled()
    x, out = torch.ones(4, 5), torch.empty(4, 5)
    assert f(x, out=out) is out
    del out
    gc.collect()
    places = {f(x).data_ptr() for _ in range(4)}
    assert len(places) <= 2


def test_threads_never_share_a_result() -> None:
    f = compiled(lambda x: (x @ x).sin(), torch.zeros(64, 64))
    wrong = []

    xs = [torch.randn(64, 64) for _ in range(4)]

    def call(seed: int) -> None:
        x = xs[seed]
        want = f(x).clone()
        for _ in range(300):
            y = f(x)
            if not torch.equal(y, want):
                wrong.append(seed)

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_goes_with_the_function() -> None:
    f = compiled()
    y = f(torch.ones(4, 5))
    y.owner = f  # a cycle through the kept tensor
    gone = weakref.ref(f)
    del f, y
    gc.collect()
    assert gone() is None


def test_a_value_that_is_no_bool() -> None:
    with pytest.raises(sl.UserError, match="reuse_outputs is 2 but must be True or False"):
        sl.compile(double, (torch.zeros(3),), reuse_outputs=2)
