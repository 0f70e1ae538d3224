# SPDX-License-Identifier: Apache-2.0
"""A loop that reads parts of an argument at places that it computes does not write to it."""

from __future__ import annotations

import numpy as np
import straightline as sl

_TEXT = """module { func.func @forward(%x: tensor<20x8xf32> {op.name = "x"}, %h: tensor<1x8xf32> {op.name = "h"}) -> tensor<1x8xf32> {
  %r = op.for %i = 0 to 20 step 1 iter(%a = %h) : (tensor<1x8xf32>) {
    %row = op.dynamic_slice %x, %i {dim = 0 : i64, length = 1 : i64} : (tensor<20x8xf32>, tensor<i64>) -> tensor<1x8xf32>
    %t = op.tanh %a : (tensor<1x8xf32>) -> tensor<1x8xf32>
    %s = op.add %t, %row : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<1x8xf32>
    op.yield %s : tensor<1x8xf32>
  }
  return %r : tensor<1x8xf32> } }"""


def _expected(x: np.ndarray, h: np.ndarray) -> np.ndarray:
    for row in x:
        h = np.tanh(h) + row
    return h


def test_arguments_may_be_read_only_or_share_memory() -> None:
    compiled = sl.compile_mlir(_TEXT)
    x = np.random.default_rng().standard_normal((20, 8), np.float32)
    h = x[:1]
    before = x.copy()
    np.testing.assert_allclose(compiled(x, h), _expected(x, h), rtol=1e-5, atol=1e-6)
    x.flags.writeable = False
    np.testing.assert_allclose(compiled(x, x[3:4]), _expected(x, x[3:4]), rtol=1e-5, atol=1e-6)
    assert np.array_equal(x, before)
