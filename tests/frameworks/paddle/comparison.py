# SPDX-License-Identifier: Apache-2.0
"""What Paddle's tests share: programs of one function, comparison, seeds."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from straightline.paddle_coverage import arrays, program_of, static_mode

__all__ = ["arrays", "assert_close", "fresh_seed", "program_of", "static_mode"]

#: By element type: (relative, absolute).
TOLERANCES = {
    "float32": (2e-5, 2e-5), "float64": (1e-12, 1e-12), "bfloat16": (2e-2, 2e-2), "float16": (2e-3, 2e-3),
    "complex64": (2e-5, 2e-5), "complex128": (1e-12, 1e-12),
}  # fmt: skip


def fresh_seed() -> int:
    """A new seed, or STRAIGHTLINE_TEST_SEED; printed, so that a failure can be repeated."""
    seed = int(os.environ.get("STRAIGHTLINE_TEST_SEED") or int.from_bytes(os.urandom(4), "little"))
    print(f"STRAIGHTLINE_TEST_SEED={seed}")
    return seed


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
