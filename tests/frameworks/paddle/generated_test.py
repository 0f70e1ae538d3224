# SPDX-License-Identifier: Apache-2.0
"""Generated programs of random ops and shapes against Paddle: results agree, or the refusal says why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import straightline as sl
from paddle.nn import functional as F

from tests.frameworks.paddle.comparison import arrays, assert_close, fresh_seed, program_of

_COUNT = 200
_GROUP = 10

_UNARY = (F.relu, F.gelu, F.sigmoid, F.silu, paddle.tanh, paddle.abs, paddle.sin, paddle.floor, F.hardswish, F.elu,
          paddle.square, F.softplus, lambda x: paddle.clip(x, -0.7, 0.9), lambda x: x * 0.5 + 0.25, lambda x: 1 - x,
          lambda x: paddle.exp(paddle.clip(x, -3, 2)), lambda x: paddle.sqrt(paddle.abs(x) + 0.5),
          lambda x: x.astype("float64").astype("float32"), F.leaky_relu, lambda x: paddle.where(x > 0.1, x, -x))  # fmt: skip
_BINARY = (lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, paddle.maximum, paddle.minimum,
           lambda x, y: x / (paddle.abs(y) + 1.0), lambda x, y: paddle.where(x > y, x, y * 0.5))  # fmt: skip


def _shape_step(rng: np.random.Generator, rank: int, shape: list[int]) -> Callable[[Any], Any]:
    """A random op that changes the shape."""
    axis = int(rng.integers(0, rank))
    size = shape[axis]
    kind = int(rng.integers(0, 11))
    if kind == 0:
        order = [int(d) for d in rng.permutation(rank)]
        return lambda x: paddle.transpose(x, order)
    if kind == 1:
        return lambda x: paddle.flatten(x, 0, axis)
    if kind == 2:
        return lambda x: paddle.unsqueeze(x, axis) if rank < 4 else x
    if kind == 3:
        start = int(rng.integers(0, size))
        end = int(rng.integers(start + 1, size + 1))
        return lambda x: paddle.slice(x, [axis], [start], [end])
    if kind == 4:
        return lambda x: paddle.concat([x, x * 2.0], axis)
    if kind == 5 and rank > 1:
        pick = int(rng.integers(-size, size))
        return lambda x: x[(slice(None),) * axis + (pick,)]
    if kind == 6:
        return lambda x: paddle.flip(x, [axis])
    if kind == 7:
        step = int(rng.integers(1, 3))
        return lambda x: x[(slice(None),) * axis + (slice(None, None, step),)]
    if kind == 8:
        times = [int(n) for n in rng.integers(1, 3, rank)]
        return lambda x: paddle.tile(x, times)
    if kind == 9 and size % 2 == 0:
        return lambda x: paddle.split(x, 2, axis)[1]
    return lambda x: paddle.reshape(x, [-1, size]) if axis == rank - 1 else x


def _value_step(rng: np.random.Generator, rank: int, shape: list[int]) -> Callable[[Any], Any]:
    """A random op along a dim, or an elementwise one."""
    axis, kind = int(rng.integers(0, rank)), int(rng.integers(0, 12))
    size = shape[axis]
    if kind == 0:
        return lambda x: F.softmax(x, axis)
    if kind == 1 and rank > 1:
        return lambda x: paddle.mean(x, axis)
    if kind == 2 and rank > 1:
        return lambda x: paddle.sum(x, axis, keepdim=bool(size % 2))
    if kind == 3 and rank > 1:
        return lambda x: paddle.max(x, axis)
    if kind == 4 and rank > 1:
        return lambda x: F.layer_norm(x, x.shape[-1:])
    if kind == 5 and rank == 2:
        width = int(rng.integers(1, 6))
        weight = rng.standard_normal((shape[1], width)).astype("float32")
        return lambda x: F.linear(x, paddle.to_tensor(weight), paddle.to_tensor(weight[0]))
    if kind == 6 and rank > 1:
        return lambda x: paddle.matmul(x, x, transpose_y=True) * 0.1
    if kind == 7:
        return lambda x: paddle.cumsum(x, axis)
    if kind == 8:
        index = rng.integers(0, size, int(rng.integers(1, 5)))
        return lambda x: paddle.index_select(x, paddle.to_tensor(index), axis)
    unary = _UNARY[int(rng.integers(0, len(_UNARY)))]
    return lambda x: unary(x)


def _program(rng: np.random.Generator) -> tuple[Callable[..., Any], list[tuple[list[int], str]]]:
    """A function of two inputs of one shape."""
    rank = int(rng.integers(1, 5))
    shape = [int(n) for n in rng.integers(1, 7, rank)]
    steps: list[tuple[str, Any]] = []
    for _ in range(int(rng.integers(3, 9))):
        roll = rng.random()
        steps.append(("binary" if roll < 0.25 else "shape" if roll < 0.6 else "value", int(rng.integers(0, 2**31))))

    def function(x: Any, y: Any) -> list[Any]:
        values = [x, y]
        for what, seed in steps:
            own = np.random.default_rng(seed)
            z = values[int(own.integers(0, len(values)))]
            if z.ndim == 0 or int(np.prod(z.shape)) > 4000:
                continue
            if what == "binary":
                same = [v for v in values if list(v.shape) == list(z.shape)]
                other = same[int(own.integers(0, len(same)))]
                values.append(_BINARY[int(own.integers(0, len(_BINARY)))](z, other))
            else:
                make = _shape_step if what == "shape" else _value_step
                found = make(own, z.ndim, [int(n) for n in z.shape])(z)
                values.append(found)
        return [v for v in values[2:] if v.ndim <= 6][-3:] or [x + y]

    return function, [(shape, "float32"), (shape, "float32")]


def test_generated_programs() -> None:
    rng = np.random.default_rng(fresh_seed())
    for first in range(0, _COUNT, _GROUP):
        made = [_program(rng) for _ in range(_GROUP)]

        def together(*inputs: Any) -> list[Any]:
            found = []
            for i, (function, _) in enumerate(made):
                found.extend(function(*inputs[2 * i : 2 * i + 2]))
            return found

        shapes = [one for _, inputs in made for one in inputs]
        program, fetches = program_of(together, shapes)
        compiled = sl.compile(program, fetches=fetches)
        given = [paddle.to_tensor(a) for a in arrays(rng, shapes)]
        for i, (a, b) in enumerate(zip(compiled(*given), together(*given), strict=True)):
            assert_close(a, b, f"programs {first} to {first + _GROUP}, result {i}", 10)
