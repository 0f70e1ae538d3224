# SPDX-License-Identifier: Apache-2.0
"""What Paddle's tests share: programs of one function, comparison, seeds."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import paddle
import straightline as sl

#: By element type: (relative, absolute).
TOLERANCES = {"float32": (2e-5, 2e-5), "float64": (1e-12, 1e-12), "bfloat16": (2e-2, 2e-2), "float16": (2e-3, 2e-3)}


def fresh_seed() -> int:
    """A new seed, or STRAIGHTLINE_TEST_SEED; printed, so that a failure can be repeated."""
    seed = int(os.environ.get("STRAIGHTLINE_TEST_SEED") or int.from_bytes(os.urandom(4), "little"))
    print(f"STRAIGHTLINE_TEST_SEED={seed}")
    return seed


@contextlib.contextmanager
def static_mode() -> Iterator[None]:
    """Paddle's static mode, and back."""
    paddle.enable_static()
    try:
        yield
    finally:
        paddle.disable_static()


def program_of(function: Callable[..., Any], inputs: Sequence[tuple[Sequence[int], str]]) -> tuple[Any, list[Any]]:
    """A static program with the inputs x0, x1, .. of these shapes and dtypes, and the values that the function returns."""
    with static_mode():
        program = paddle.static.Program()
        with paddle.static.program_guard(program, paddle.static.Program()):
            data = [paddle.static.data(f"x{i}", list(shape), dtype) for i, (shape, dtype) in enumerate(inputs)]
            results = function(*data)
    return program, list(results) if isinstance(results, (list, tuple)) else [results]


def arrays(rng: np.random.Generator, inputs: Sequence[tuple[Sequence[int], str]]) -> list[np.ndarray]:
    """Random inputs: normal floats, small integers, bools."""
    found = []
    for shape, dtype in inputs:
        if dtype == "bool":
            found.append(rng.random(shape) < 0.5)
        elif dtype.startswith("int"):
            found.append(rng.integers(0, 3, shape).astype(dtype))
        else:
            found.append(rng.standard_normal(shape).astype(dtype))
    return found


def assert_close(got: Any, want: Any, what: str = "", scale: float = 1.0) -> None:
    """Compares tensors or arrays in dtype, shape and value."""
    a, b = (t.numpy() if hasattr(t, "numpy") else np.asarray(t) for t in (got, want))
    if a.dtype == np.uint16:  # how Paddle gives bfloat16 to numpy
        a, b = (np.left_shift(t.astype(np.uint32), 16).view(np.float32) for t in (a, b))
        relative, absolute = TOLERANCES["bfloat16"]
    else:
        assert a.dtype == b.dtype, (what, a.dtype, b.dtype)
        relative, absolute = TOLERANCES.get(str(a.dtype), (0, 0))
    assert a.shape == b.shape, (what, a.shape, b.shape)
    np.testing.assert_allclose(a, b, relative * scale, absolute * scale, err_msg=what)


def check_program(function: Callable[..., Any], inputs: Sequence[tuple[Sequence[int], str]], rng: np.random.Generator) -> None:
    """Compiles a program of a function and compares with Paddle's eager one."""
    program, fetches = program_of(function, inputs)
    compiled = sl.compile(program, fetches=fetches)
    given = arrays(rng, inputs)
    tensors = [paddle.to_tensor(a) for a in given]
    got = compiled(*tensors)
    got = got if isinstance(got, tuple) else (got,)
    want = function(*tensors)
    want = list(want) if isinstance(want, (list, tuple)) else [want]
    assert len(got) == len(want)
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        assert isinstance(a, paddle.Tensor)
        assert_close(a, b, f"result {i}")
