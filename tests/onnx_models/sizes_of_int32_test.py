# SPDX-License-Identifier: Apache-2.0
"""Sizes that a model casts to int32 (exporters of TensorFlow and JAX do) and computes with, in a program of every size."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import straightline as sl
from onnx import parser
from onnx.reference import ReferenceEvaluator

_MODEL = """<ir_version: 8, opset_import: ["" : 15]>
g (float[n, 5] x) => (int32[2] s, float[n, m] y, int32[1] t, int32[k] r, int32[j] c)
{
  shape = Shape(x)
  s = Cast<to=6>(shape)
  zero = Constant<value = int64[1] {0}>()
  one = Constant<value = int64[1] {1}>()
  two = Constant<value = int64[1] {2}>()
  rows = Slice(s, zero, one)
  columns = Slice(s, one, two)
  three = Constant<value = int32[1] {3}>()
  both = Concat<axis=0>(rows, three)
  wide = Cast<to=7>(both)
  f = Constant<value = float[1] {2.0}>()
  y = Expand(f, wide)
  t = Mul(rows, three)
  none = Constant<value = int32 {0}>()
  step = Constant<value = int32 {1}>()
  limit = Squeeze(rows, zero)
  r = Range(none, limit, step)
  c = Concat<axis=0>(columns, three, r)
}"""


def test_they_stay_int32() -> None:
    model = parser.parse_model(_MODEL)
    onnx.checker.check_model(model, full_check=True)
    compiled, reference = sl.compile(model), ReferenceEvaluator(model)
    for n in (1, 4, 9):
        x = np.zeros((n, 5), np.float32)
        for got, wanted in zip(compiled(x), reference.run(None, {"x": x}), strict=True):
            assert got.dtype == wanted.dtype
            np.testing.assert_array_equal(got, wanted)


def test_of_two_types_they_are_refused() -> None:
    model = parser.parse_model(
        _MODEL.replace("three = Constant<value = int32[1] {3}>()", "three = Constant<value = int64[1] {3}>()")
    )
    with pytest.raises(sl.UserError, match="no valid Concat of int32.1., int64.1."):
        sl.compile(model)


_LOOP = """<ir_version: 8, opset_import: ["" : 15]>
g (float[n, 5] x) => (int64[1] s, int32[1] t)
{
  shape = Shape(x)
  zero = Constant<value = int64[1] {0}>()
  one = Constant<value = int64[1] {1}>()
  wide = Slice(shape, zero, one)
  narrow = Cast<to=6>(wide)
  count = Constant<value = int64 {1}>()
  yes = Constant<value = bool {1}>()
  s, t = Loop(count, yes, wide, narrow) <body = b (int64 i, bool c, int64[1] p, int32[1] q) => (bool d, int64[1] v, int32[1] w)
    { d = Identity(c)  v = Identity(p)  w = Identity(q) }>
}"""


def test_what_a_loop_carries_has_types_of_its_own() -> None:
    s, t = sl.compile(parser.parse_model(_LOOP))(np.zeros((3, 5), np.float32))
    assert (s.dtype, t.dtype) == (np.int64, np.int32) and s == t == 3


def test_an_op_without_inputs_that_is_given_one() -> None:
    """The schema has no type for it."""
    text = _MODEL.replace("zero = Constant<value = int64[1] {0}>()", "zero = Constant<value = int64[1] {0}>(shape)")
    assert sl.compile(parser.parse_model(text))(np.zeros((2, 5), np.float32))[0].tolist() == [2, 5]
