# SPDX-License-Identifier: Apache-2.0
"""Whether an answer is right: compared with eager's shapes and float64's values, by the parent, not by the contender."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

#: An answer may be this many times as far from float64 as eager's: models in bfloat16, sums that cancel.
_EAGER = 4.0


def load(path: Path) -> list[Any]:
    """Results as a worker wrote them, in their order."""
    with np.load(path) as file:
        return [file[f"r{i}"] for i in range(len(file.files))]


def _distance(values: Any, right: Any) -> float:
    """Largest difference as a part of the largest value."""
    right = right.astype(np.float64)
    scale = float(np.abs(right).max())
    error = float(np.abs(values.astype(np.float64) - right).max())
    return error / scale if scale else error


def judge(got: list[Any], expected: list[Any], exact: list[Any] | None, tolerance: float) -> tuple[str, float]:
    """Compares results.

    Args:
        got: What is judged.
        expected: Eager's.
        exact: Those in float64; None where there are none.
        tolerance: Largest difference of a float result, as a part of its largest value; or four times eager's own, if more.

    Returns:
        What is wrong in words (empty when nothing is), and the largest difference as a part of the largest value.
    """
    if len(got) != len(expected):
        return f"{len(got)} results, expected {len(expected)}", 0.0
    worst = 0.0
    for i, (mine, eager) in enumerate(zip(got, expected, strict=True)):
        if mine.shape != eager.shape:
            return f"result {i} has shape {mine.shape}, expected {eager.shape}", worst
        right = exact[i] if exact is not None else eager
        if not np.issubdtype(eager.dtype, np.floating):
            if not np.array_equal(mine, eager):
                return f"result {i}: {int((mine != eager).sum())} of {eager.size} values differ from eager's", worst
            continue
        if not np.array_equal(np.isfinite(mine), np.isfinite(right)):
            return f"result {i} has other infinities or nan than the reference", worst
        finite = np.isfinite(right)
        if not finite.any():
            continue
        error = _distance(mine[finite], right[finite])
        allowed = max(tolerance, _EAGER * _distance(eager[finite], right[finite]))
        worst = max(worst, error)
        if not error <= allowed:
            return f"result {i} differs by {error:.1e} of the largest value, {allowed:.0e} is allowed", worst
    return "", worst
