# SPDX-License-Identifier: Apache-2.0
"""Models with one fault each: refused by an error of ours that is not internal, within a second, or right."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import straightline as sl
import straightline.onnx_model

from tests.onnx_models import faults

#: Models that are imported and verified, and those that are compiled and called as well.
_IMPORTED, _CALLED = 100, 3


class _ImportedError(Exception):
    """A model came as far as its module."""


def test_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    compiled_module, called = straightline.onnx_model.compiled_module, 0

    def some(*args: Any) -> Any:
        nonlocal called
        called += 1
        if called > _CALLED:
            raise _ImportedError
        return compiled_module(*args)

    monkeypatch.setattr(straightline.onnx_model, "compiled_module", some)
    kinds = set()
    for model in faults.models(_IMPORTED, seed):
        kind, words = faults.checked(model)
        if _ImportedError.__name__ not in words:
            kinds.add(kind)
            assert kind in faults.FINE, f"{kind}: {model}: {words}"
    assert "refused" in kinds


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (faults.Model("MatMul", [np.ones((2, 3), "f4"), np.ones((4, 5), "f4")], frozenset({1})), r"'faulty'.*\[2, 3\] and \[4, 5\]"),
        (faults.Model("Gemm", [np.ones((2, 3), "f4"), np.ones((4, 5), "f4")]), r"'faulty'.*\[2, 3\] and \[4, 5\]"),
        (faults.Model("Gemm", [np.ones((2, 3, 1), "f4"), np.ones((4, 5), "f4")]), r"'faulty'.*\[2, 3, 1\] and \[4, 5\]"),
        (faults.Model("Conv", [np.ones((1, 2, 3), "f4"), np.ones((4, 2, 5), "f4")]), r"'faulty'.*\[-1\]"),
        (faults.Model("Conv", [np.ones((1, 2, 9), "f4"), np.ones((4, 2, 5), "f4"), np.ones(3, "f4")]), r"'faulty'.*\[3\].*\[4\]"),
        (faults.Model("InstanceNormalization", [np.ones((1, 2, 9), "f4"), np.ones(2, "f4"), np.ones(1, "f4")]), r"'faulty'.*\[1\].*\[2\]"),
        (faults.Model("Pad", [np.ones((1, 2), "f4"), np.asarray([0, 0, 1, 1]), np.ones(2, "f4")], frozenset({1})), r"'faulty'.*\[2\]"),
        (faults.Model("Expand", [np.ones((1, 2), "f4"), np.asarray([-3, 2])], frozenset({1})), r"'faulty'.*-3"),
        (faults.Model("Tile", [None, np.asarray([2, 1])], frozenset({1})), "faulty"),
        (faults.Model("DepthToSpace", [np.ones((1, 9, 2, 3), "f4")], attributes={"blocksize": 2}), "faulty"),
        (faults.Model("ReverseSequence", [np.ones((4, 3), "f4"), np.asarray([1, 2])], attributes={"time_axis": 0, "batch_axis": 1}), "faulty"),
        (faults.Model("Col2Im", [np.ones((1, 4, 4), "f4"), np.asarray([4, 4]), np.asarray([2, 2])], frozenset({1, 2}), {"strides": [0, 0]}), "faulty"),
    ],
    ids=lambda x: x.op if isinstance(x, faults.Model) else "",
)  # fmt: skip
def test_words(model: faults.Model, words: str) -> None:
    with pytest.raises((sl.UserError, sl.UnsupportedError), match=words):
        sl.compile(model.proto().SerializeToString(), threads=1)
