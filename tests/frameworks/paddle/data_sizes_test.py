# SPDX-License-Identifier: Apache-2.0
"""Results of Paddle's ops whose sizes depend on data: traced, with named sizes, empty, in branches; bools that PIR says are floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest
import straightline as sl

from tests.frameworks.paddle.comparison import assert_close, fresh_seed


def _numbers(*shape: int) -> Any:
    return paddle.to_tensor(np.random.default_rng(fresh_seed()).standard_normal(shape).astype("float32"))


def _chosen(x: Any) -> Any:
    found = x[x > 0]
    return found * 2, paddle.nonzero(x > 0), found.sum()


@pytest.mark.parametrize(
    "x", [_numbers(4, 6), paddle.full([4, 6], -1.0), paddle.full([4, 6], 1.0)], ids=["some", "none", "all"]
)
def test_masks_and_places(x: Any) -> None:
    for got, want in zip(sl.compile(_chosen, (x,))(x), _chosen(x), strict=True):
        assert_close(got, want)


def test_one_program_of_named_sizes() -> None:
    compiled = sl.compile(_chosen, (_numbers(4, 6),), dynamic_shapes={"x": {0: "b"}}, sizes={"b": (1, 64)})
    for rows in (1, 7, 64):
        x = _numbers(rows, 6)
        for got, want in zip(compiled(x), _chosen(x), strict=True):
            assert_close(got, want)


def test_a_masked_write() -> None:
    def write(x: Any) -> Any:
        y = x.clone()
        y[y > 0] = 3.0
        return y

    x = _numbers(5, 3)
    assert_close(sl.compile(write, (x,))(x), write(x))


def test_in_a_branch_it_is_refused() -> None:
    def branch(x: Any) -> Any:
        return paddle.static.nn.cond(x.sum() > 0, lambda: paddle.masked_select(x, x > 0).sum(), lambda: x.sum())

    with pytest.raises(sl.UnsupportedError, match="a result whose size a call computes, in a branch or loop"):
        sl.compile(branch, (_numbers(3, 4),))


def test_any_and_all_of_floats() -> None:
    def both(x: Any) -> Any:
        return x.any(), x.all(1)

    x = _numbers(3, 4)
    for got, want in zip(sl.compile(both, (x,))(x), both(x), strict=True):
        assert got.dtype == want.dtype == paddle.bool
        assert_close(got, want)
