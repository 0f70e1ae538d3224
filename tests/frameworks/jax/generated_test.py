# SPDX-License-Identifier: Apache-2.0
"""200 programs of random ops and shapes, compiled, against JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.frameworks.jax.compare import check, generator

_PROGRAMS, _IN_ONE_TEST = 200, 20
#: Functions of one array of floats; the second row may jump, and gets arguments alone.
_SMOOTH: list[Callable[[Any], Any]] = [
    jnp.tanh, jnp.sin, jax.nn.sigmoid, jax.nn.gelu, jax.nn.silu, jnp.abs, lambda x: x * x, lambda x: jnp.exp(-x * x), jax.nn.relu,
    lambda x: jnp.log1p(jnp.abs(x)), lambda x: lax.rsqrt(jnp.abs(x) + 0.5), lambda x: x / (1 + jnp.abs(x)), lax.erf, jnp.arctan,
    jax.nn.softplus, lambda x: jnp.clip(x, -0.5, 0.75), lambda x: x.astype(jnp.bfloat16).astype(jnp.float32) * 0 + x,
]  # fmt: skip
_JUMPS: list[Callable[[Any], Any]] = [jnp.floor, jnp.round, jnp.sign, lambda x: (x > 0).astype(x.dtype), jnp.ceil]


class _Program:
    """A random function: it is drawn as it is first traced, and drawn again the same way."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        numbers = np.random.default_rng(seed)
        self.args = []
        for _ in range(int(numbers.integers(1, 4))):
            shape = tuple(int(n) for n in numbers.integers(1, 7, int(numbers.integers(1, 4))))
            self.args.append(jnp.asarray(numbers.standard_normal(shape).astype(np.float32)))

    def __call__(self, *args: Any) -> Any:
        numbers = np.random.default_rng(self._seed + 1)
        pool = list(args)
        for _ in range(int(numbers.integers(4, 11))):
            x = pool[int(numbers.integers(len(pool)))]
            steps = [_elementwise, _binary, _reduction, _moved, _placed, _product, _joined, _row, _loop]
            pool.append(steps[int(numbers.integers(len(steps)))](numbers, x, pool, args))
        return tuple(pool[len(args) :][-3:])


def _elementwise(numbers: Any, x: Any, pool: Any, args: Any) -> Any:
    if numbers.integers(5) == 0:
        return _JUMPS[int(numbers.integers(len(_JUMPS)))](args[int(numbers.integers(len(args)))])
    return _SMOOTH[int(numbers.integers(len(_SMOOTH)))](x)


def _binary(numbers: Any, x: Any, pool: Any, args: Any) -> Any:
    fitting = [y for y in pool if _broadcasts(x.shape, y.shape)]
    y = fitting[int(numbers.integers(len(fitting)))]
    a = args[0]
    combine = [
        jnp.add, jnp.subtract, jnp.multiply, jnp.maximum, jnp.minimum, lambda p, q: p / (1 + q * q),
        lambda p, q: jnp.where(a.ravel()[0] > 0, p, q),
    ]  # fmt: skip
    return combine[int(numbers.integers(len(combine)))](x, y)


def _broadcasts(a: Any, b: Any) -> bool:
    return len(a) == len(b) and all(m == n or 1 in (m, n) for m, n in zip(a, b))


def _reduction(numbers: Any, x: Any, pool: Any, args: Any) -> Any:
    dims = tuple(d for d in range(x.ndim) if numbers.integers(2)) or (x.ndim - 1,)
    reduce = [jnp.sum, jnp.mean, jnp.max, jnp.min, jnp.var, lambda t, **k: jnp.prod(jnp.tanh(t), **k)]
    return reduce[int(numbers.integers(len(reduce)))](x, axis=dims, keepdims=True)


def _moved(numbers: Any, x: Any, pool: Any, args: Any) -> Any:
    d = int(numbers.integers(x.ndim))
    size, kind = x.shape[d], int(numbers.integers(7))
    if kind == 0:
        return x.transpose([int(i) for i in numbers.permutation(x.ndim)])
    if kind == 1:
        return jnp.flip(x, d)
    if kind == 2:
        return x.reshape(-1, x.shape[-1])
    if kind == 3:
        start = int(numbers.integers(size))
        return lax.slice_in_dim(x, start, size, int(numbers.integers(1, 3)), d)
    if kind == 4:
        widths = [(int(numbers.integers(2)), int(numbers.integers(2)), int(numbers.integers(2))) for _ in range(x.ndim)]
        return lax.pad(x, jnp.float32(0.5).astype(x.dtype), widths)
    if kind == 5:
        return jnp.roll(x, int(numbers.integers(size + 1)), d)
    return jnp.repeat(x, 2, d)


def _placed(numbers: Any, x: Any, pool: Any, args: Any) -> Any:
    size, kind = x.shape[0], int(numbers.integers(5))
    places = numbers.integers(-size, size + 2 if kind in (0, 2) else size, int(numbers.integers(1, 5)))
    at = jnp.asarray(places.astype(np.int32))
    if kind == 0:
        return jnp.take(x, at, axis=0, mode="clip")
    if kind == 1:
        return x[at]
    if kind == 2:
        return x.at[at].add(0.25)
    if kind == 3:
        return x.at[at[:1]].set(0.5)
    return lax.dynamic_slice_in_dim(x, at[0], max(size - 1, 1), 0)


def _product(numbers: Any, x: Any, pool: Any, args: Any) -> Any:
    if x.ndim == 1:
        return jnp.outer(x, x) * 0.5
    kind = int(numbers.integers(3))
    if kind == 0:
        return jnp.einsum("...ij,...kj->...ik", x, x) * 0.25
    weight = jnp.asarray(np.random.default_rng(x.shape[-1]).standard_normal((x.shape[-1], 5)).astype(np.float32) * 0.4)
    found = x @ weight.astype(x.dtype)
    return jax.nn.relu(found + 0.5) if kind == 1 else found


def _joined(numbers: Any, x: Any, pool: Any, args: Any) -> Any:
    return jnp.concatenate([x, x * 0.5, x[:1]], 0) if x.shape[0] < 12 else x[: x.shape[0] // 2]


def _row(numbers: Any, x: Any, pool: Any, args: Any) -> Any:
    a = args[int(numbers.integers(len(args)))]
    d = int(numbers.integers(x.ndim))
    rows = [
        lambda: jax.nn.softmax(x, d), lambda: jax.nn.log_softmax(x, d), lambda: jnp.cumsum(x, d), lambda: jnp.sort(x, d),
        lambda: jax.nn.standardize(x, d, epsilon=0.1), lambda: jnp.argsort(a, -1).astype(x.dtype),
        lambda: jnp.argmax(a, 0, keepdims=True).astype(x.dtype), lambda: lax.cummax(x, d), lambda: lax.top_k(a, 1)[0],
    ]  # fmt: skip
    return rows[int(numbers.integers(len(rows)))]()


def _loop(numbers: Any, x: Any, pool: Any, args: Any) -> Any:
    kind = int(numbers.integers(4))
    if kind == 0:
        return lax.scan(lambda c, t: (jnp.tanh(c + t), c * 0.5), jnp.zeros_like(x[0]), x)[1]
    if kind == 1:
        return lax.fori_loop(0, int(numbers.integers(2, 400)), lambda i, t: jnp.tanh(t) + 0.001 * i.astype(t.dtype), x)
    if kind == 2:
        return lax.cond(args[0].ravel()[0] > 0, lambda t: t * 2, lambda t: t, x)
    return jax.vmap(lambda t: t - t.max())(x)


@pytest.mark.parametrize("part", range(_PROGRAMS // _IN_ONE_TEST))
def test_generated_programs(part: int) -> None:
    numbers = generator()
    for _ in range(_IN_ONE_TEST):
        seed = int(numbers.integers(2**40))
        program = _Program(seed)
        try:
            check(program, *program.args)
        except Exception as error:
            error.add_note(f"_Program({seed})") if hasattr(error, "add_note") else None
            print(f"_Program({seed})")
            raise
