# SPDX-License-Identifier: Apache-2.0
"""Compares a compiled program with JAX under the numeric policy of `straightline.testing`: the reference is JAX in float64."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import straightline as sl
import torch
from straightline.testing.policy import check_close

from tests.frameworks.jax.rounding import error_of_rounding

#: How often inputs are moved to learn JAX's own error, where one draw of it is too small.
_DRAWS = 8


def generator() -> np.random.Generator:
    """Random numbers from a fresh seed, which is printed."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    return np.random.default_rng(seed)


def tensor(array: Any) -> torch.Tensor:
    """An array as a tensor of torch; of JAX's typed keys their numbers."""
    if jax.dtypes.issubdtype(getattr(array, "dtype", np.dtype(np.float32)), jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    whole = np.asarray(array)
    if whole.dtype.name == "bfloat16":
        return (
            torch.from_numpy(np.ascontiguousarray(whole).view(np.int16).copy())
            .view(torch.bfloat16)
            .reshape(whole.shape)
        )
    return torch.from_numpy(np.array(whole))


def _wide(x: Any) -> Any:
    is_float = hasattr(x, "dtype") and jax.dtypes.issubdtype(x.dtype, np.floating)
    return np.asarray(x).astype(np.float64) if is_float else x


def in_float64(function: Callable[..., Any], args: Sequence[Any]) -> Any:
    """What JAX computes in float64."""
    with jax.enable_x64(True):
        return jax.jit(function)(*jax.tree_util.tree_map(_wide, tuple(args)))


def check(function: Callable[..., Any], *args: Any, compiled: Any = None, **options: Any) -> Any:
    """Asserts that a function, compiled for these arguments, gives what JAX gives; returns the compiled function."""
    jitted = jax.jit(function)
    compiled = sl.compile(jitted, args, **options) if compiled is None else compiled
    got, want, reference = compiled(*args), jitted(*args), in_float64(function, args)
    leaves, tree = jax.tree_util.tree_flatten(want)
    found, own = jax.tree_util.tree_flatten(got)
    assert own == tree, f"the result is {own} but JAX gives {tree}"
    exact = jax.tree_util.tree_leaves(reference)
    for place, (x, y, z) in enumerate(zip(found, leaves, exact, strict=True)):
        try:
            check_close(tensor(x), tensor(y), tensor(z), f"result {place}")
        except AssertionError:
            if not np.issubdtype(np.asarray(z).dtype, np.floating):
                raise
            check_close(tensor(x), tensor(y), tensor(z), f"result {place}", _error_of_jax(function, args, place))
    return compiled


def _error_of_jax(function: Callable[..., Any], args: Sequence[Any], place: int) -> float:
    """The largest error of JAX in one result over inputs that are moved by an ulp, or of float32's rounding at each step."""
    numbers = np.random.default_rng(0)

    def moved(x: Any) -> Any:
        if not hasattr(x, "dtype") or not jax.dtypes.issubdtype(x.dtype, np.floating) or x.dtype.itemsize < 4:
            return x
        array = np.asarray(x)
        return np.where(numbers.integers(0, 2, array.shape) > 0, np.nextafter(array, np.inf, dtype=array.dtype), array)

    worst = 0.0
    for _ in range(_DRAWS):
        near = jax.tree_util.tree_map(moved, tuple(args))
        found = np.asarray(jax.tree_util.tree_leaves(jax.jit(function)(*near))[place])
        want = np.asarray(jax.tree_util.tree_leaves(in_float64(function, near))[place], np.float64)
        usable = np.isfinite(found) & np.isfinite(want)
        worst = max(worst, float(np.abs(found.astype(np.float64) - want)[usable].max(initial=0.0)))
    if found.dtype != np.float32:
        return worst
    with jax.enable_x64(True):
        wide = jax.tree_util.tree_map(_wide, tuple(args))
        return max(worst, error_of_rounding(function, wide, place, _DRAWS))
