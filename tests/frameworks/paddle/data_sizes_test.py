# SPDX-License-Identifier: Apache-2.0
"""Results of Paddle's ops whose sizes depend on data: traced, with named sizes, empty, in branches; bools that PIR says are floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest
import straightline as sl
from paddle.nn import functional as F

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


# Sets and repetitions -------------------------------------------------------------------------------------------------


def _whole(shape: tuple[int, ...], dtype: str, most: int = 4) -> Any:
    return paddle.to_tensor(np.random.default_rng(fresh_seed()).integers(0, most, shape).astype(dtype))


def _check(function: Any, *args: Any, **options: Any) -> Any:
    compiled = sl.compile(function, args, **options)
    for got, want in zip(compiled(*args), function(*args), strict=True):
        assert_close(got, want)
    return compiled


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("shape", [(1,), (30,), (4, 6), (3, 1, 5)])
def test_unique(dtype: str, shape: tuple[int, ...]) -> None:
    def all_of(x: Any) -> Any:
        return paddle.unique(x, return_index=True, return_inverse=True, return_counts=True)

    def runs(x: Any) -> Any:
        return paddle.unique_consecutive(x, return_inverse=True, return_counts=True)

    for function in (all_of, runs):
        compiled = _check(function, _whole(shape, dtype))
        other = _whole(shape, dtype, 1)  # all are equal
        for got, want in zip(compiled(other), function(other), strict=True):
            assert_close(got, want)


def test_unique_along_a_dim() -> None:
    def rows(x: Any) -> Any:
        return paddle.unique(x, True, True, True, axis=0, dtype="int32")

    def middle(x: Any) -> Any:
        return (*paddle.unique(x, True, True, True, axis=1), *paddle.unique_consecutive(x, True, True, axis=1))

    _check(rows, _whole((9, 2), "float32", 2))
    _check(middle, _whole((2, 8, 2), "int64", 2))
    with pytest.raises(sl.UnsupportedError, match="unique entries of 33 elements; nearest supported form: at most 32"):
        sl.compile(rows, (_whole((4, 33), "float32"),))


def test_unique_of_a_named_size_or_of_nothing() -> None:
    def values(x: Any) -> Any:
        return paddle.unique(x)

    with pytest.raises(sl.UnsupportedError, match="unique of the sizes .*; nearest supported form: static sizes"):
        sl.compile(values, (_numbers(6),), dynamic_shapes={"x": {0: "n"}})

    def cut(x: Any) -> Any:
        return paddle.unique(x[:0])

    empty = sl.compile(cut, (_numbers(6),))(_numbers(6))
    assert empty.shape == [0] and empty.dtype == paddle.float32


def test_repetitions_by_constants() -> None:
    def repeated(x: Any) -> Any:
        return (
            paddle.repeat_interleave(x, paddle.to_tensor([1, 0, 3, 2]), 0),
            paddle.repeat_interleave(x, paddle.to_tensor([0, 0, 5]), 1),
            paddle.repeat_interleave(x, paddle.to_tensor([0, 0, 0, 0]), 0),
        )

    for dtype in ("float32", "float64", "int64"):
        _check(repeated, _whole((4, 3), dtype))


def test_repetitions_of_a_given_size() -> None:
    def repeated(x: Any, n: Any) -> Any:
        return (paddle.repeat_interleave(x, n, 1, output_size=6),)

    for dtype in ("int32", "int64"):
        counts = paddle.to_tensor(np.array([0, 4, 2, 0], dtype))
        compiled = _check(repeated, _numbers(2, 4), counts, dynamic_shapes={"x": {0: "b"}})
        for rows in (1, 5):
            x = _numbers(rows, 4)
            assert_close(compiled(x, counts)[0], repeated(x, counts)[0])
        for wrong in ([1, 4, 2, 0], [1, 0, 0, 0], [7, -1, 0, 0]):
            with pytest.raises(sl.errors.CheckError, match="repeat_interleave: the counts are not of 6 repetitions"):
                compiled(_numbers(2, 4), paddle.to_tensor(np.array(wrong, dtype)))

    def unbound(x: Any, n: Any) -> Any:
        return paddle.repeat_interleave(x, n, 1)

    with pytest.raises(sl.UnsupportedError, match="whose sum has no bound; nearest supported form: output_size="):
        sl.compile(unbound, (_numbers(2, 4), paddle.to_tensor([0, 4, 2, 0])))


def test_bincount_has_no_bound() -> None:
    def counted(x: Any) -> Any:
        return paddle.bincount(x)

    words = r"as long as its largest number, which has no bound; nearest supported form: one_hot\(x, n\)\.sum\(0\)"
    with pytest.raises(sl.UnsupportedError, match=words):
        sl.compile(counted, (_whole((5,), "int64"),))


# Places and products whose reference is not Paddle's, or whose sizes are named ----------------------------------------


def test_places_of_pools_of_a_named_batch() -> None:
    def pooled(x: Any) -> Any:
        found, places = F.max_pool2d(x, 2, return_mask=True)
        return found, places, F.max_unpool2d(found, places, 2), F.max_pool2d(x, 3, 2, 1, True)[1]

    compiled = sl.compile(pooled, (_numbers(2, 3, 8, 6),), dynamic_shapes={"x": {0: "b"}})
    for rows in (1, 4):
        x = _numbers(rows, 3, 8, 6)
        for y in (x, paddle.round(x), x.astype("float32") * 0.0):  # equal elements: the first one
            for got, want in zip(compiled(y), pooled(y), strict=True):
                assert_close(got, want)
    with pytest.raises(sl.UnsupportedError, match="size"):
        sl.compile(pooled, (_numbers(2, 3, 8, 6),), dynamic_shapes={"x": {2: "h"}})


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_products_of_integers_are_exact(dtype: str) -> None:
    """Against numpy's, also where sums wrap around."""

    def product(x: Any, y: Any) -> Any:
        return x @ y

    rng = np.random.default_rng(fresh_seed())
    most = np.iinfo(dtype).max
    for left, right in (
        ((2, 1, 4, 6), (1, 3, 6, 5)),
        ((4, 6), (6,)),
        ((6,), (6, 2)),
        ((4, 0), (0, 3)),
        ((0, 6), (6, 2)),
        ((1, 1), (1, 1)),
    ):
        x, y = (rng.integers(-most, most, shape, dtype) for shape in (left, right))
        tensors = paddle.to_tensor(x), paddle.to_tensor(y)
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(sl.compile(product, tensors)(*tensors).numpy(), x @ y)
    compiled = sl.compile(
        product, (paddle.ones([3, 4], dtype), paddle.ones([4, 2], dtype)), dynamic_shapes={"x": {0: "n"}}
    )
    x, y = rng.integers(-9, 9, (7, 4), dtype), rng.integers(-9, 9, (4, 2), dtype)
    np.testing.assert_array_equal(compiled(paddle.to_tensor(x), paddle.to_tensor(y)).numpy(), x @ y)


def test_signs_of_zeros() -> None:
    def signed(x: Any, y: Any) -> Any:
        return (paddle.copysign(x, y),)

    _check(signed, _numbers(4), paddle.to_tensor([0.0, -0.0, float("inf"), -float("inf")]))


def test_what_is_computed_of_values_whose_types_pir_says_wrong() -> None:
    """Of exp of integers PIR says integers, of any and all the operand's type: so it does of what is computed of these."""

    def function(i: Any, x: Any) -> Any:
        e, some = paddle.exp(i), paddle.any(i, 1)
        return [
            e + 1, e.sum(), e.mean(0), e.max(), -e, paddle.matmul(e, paddle.ones([4, 2])), paddle.concat([e, e]), e > 2,
            some & paddle.all(i, 1), some.sum(), paddle.any(x, 1).sum(), paddle.argmax(e, 1), e[0, 1:].reshape([3, 1]).T,
            paddle.where(i > 1, e, -e), paddle.where(paddle.any(x, 1), x[:, 0], x[:, 1]), paddle.signbit(e),
            paddle.stack([paddle.any(x), paddle.all(x)]), paddle.equal_all(i, i) & paddle.any(i),
        ]  # fmt: skip

    i, x = paddle.to_tensor(np.random.default_rng(fresh_seed()).integers(0, 3, (3, 4))), _numbers(3, 4)
    for place, (got, want) in enumerate(zip(sl.compile(function, (i, x))(i, x), function(i, x), strict=True)):
        assert_close(got, want, f"result {place}")
