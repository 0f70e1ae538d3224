# SPDX-License-Identifier: Apache-2.0
"""Each form of an op that docs/frameworks/jax.md lists: taken ones against JAX, several in one program; refused ones by their words."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import straightline as sl
from jax import lax
from straightline.capture.jax.importer import CONVERTERS
from straightline.jax_coverage import Form, forms

from tests.frameworks.jax.compare import check, generator

_TAKEN = [form for form in forms() if not form.refused]
#: Forms in one program.
_TOGETHER = 10
_GROUPS = [_TAKEN[i : i + _TOGETHER] for i in range(0, len(_TAKEN), _TOGETHER)]


@pytest.mark.parametrize("group", _GROUPS, ids=lambda group: f"{group[0].op}-{group[-1].op}")
def test_taken(group: list[Form]) -> None:
    numbers = generator()
    args = [form.make(numbers) for form in group]

    def together(*given: Any) -> Any:
        return {f"{i}: {form.op}, {form.text}": form.function(*own) for i, (form, own) in enumerate(zip(group, given))}

    check(together, *map(tuple, args))


@pytest.mark.parametrize("form", [form for form in forms() if form.refused], ids=lambda form: f"{form.op}-{form.text}")
def test_refused(form: Form) -> None:
    args = form.make(generator())
    with pytest.raises(
        sl.UnsupportedError, match=r"unsupported op.*\n.* at jax_coverage\.py:\d+|nearest supported form"
    ):
        sl.compile(jax.jit(form.function), args)


def test_every_form_is_of_an_op_of_the_table() -> None:
    assert {form.op for form in forms()} <= {*CONVERTERS, "composition"}


def test_forms_have_the_ops_that_they_are_of() -> None:
    numbers = generator()
    for form in forms():
        if form.op in ("composition", "func.call", "case"):
            continue
        text = jax.jit(form.function).lower(*form.make(numbers)).as_text()
        name = form.op if form.op.startswith("chlo.") else f"stablehlo.{form.op}"
        assert name in text, (form.op, form.text)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_next_after_of_halves(dtype: str) -> None:
    numbers = generator()
    x, y = (jnp.asarray(numbers.standard_normal(40)).astype(dtype) for _ in range(2))
    edges = jnp.asarray([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 1.0, -1.0]).astype(dtype)
    toward = jnp.asarray([-1.0, 1.0, 0.0, 0.0, 1.0, np.nan, 1.0, 0.0]).astype(dtype)
    for args in ((x, y), (edges, toward)):
        jitted = jax.jit(jnp.nextafter)
        got, want = sl.compile(jitted, args)(*args), jitted(*args)
        np.testing.assert_array_equal(np.asarray(got).astype(np.float32), np.asarray(want).astype(np.float32))


@pytest.mark.parametrize("form", [(5, 2), (4, 3), (3, 4), (8, 3)])
def test_floats_of_fewer_bits(form: tuple[int, int]) -> None:
    edges = jnp.asarray([0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30, 1e-30, 15.9, 0.0156, 0.0078], jnp.float32)
    x = jnp.concatenate(
        [edges, jnp.asarray(generator().standard_normal(90) * 10.0 ** generator().integers(-4, 5), jnp.float32)]
    )
    jitted = jax.jit(lambda t: lax.reduce_precision(t, *form))
    np.testing.assert_array_equal(sl.compile(jitted, (x,))(x), jitted(x))


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64", "int8", "int64"])
def test_floats_that_an_integer_does_not_hold(dtype: str) -> None:
    numbers = [-3.5, -1.0, -0.5, 0.5, 255.0, 256.0, 1e9, 5e9, -5e9, 1e19, 1e20, -1e20, np.nan, np.inf, -np.inf]
    with jax.enable_x64(True):
        for source in ("float64", "float32", "bfloat16"):
            x = jnp.asarray(numbers, source)
            jitted = jax.jit(lambda t: t.astype(dtype))
            np.testing.assert_array_equal(sl.compile(jitted, (x,))(x), jitted(x))


@pytest.mark.parametrize("is_given", [False, True], ids=["a constant", "an input"])
@pytest.mark.parametrize("width", [(-3, 2), (2, -3), (-4, 5), (-2, 0), (-1, -1)], ids=str)
def test_widths_that_cut_into_the_other_border(width: tuple[int, int], is_given: bool) -> None:
    """Of a dim of two elements nothing is left, and of the border as much as the widths add up to."""
    x = jnp.asarray(generator().random((2, 3)), jnp.float32)
    widths = [(*width, 0), (0, 1, 0)]
    if is_given:
        check(lambda x, y: lax.pad(x, y, widths), x, jnp.float32(7))
    else:
        check(lambda x: lax.pad(x, jnp.asarray(7, x.dtype), widths), x)


@pytest.mark.parametrize("shape", [(2, 0, 4, 5), (2, 4, 0, 5), (2, 4, 3, 0), (0, 4, 4, 5)], ids=str)
@pytest.mark.parametrize("step", [1, 2])
def test_convolutions_without_elements(shape: tuple[int, ...], step: int) -> None:
    """Of images of no channels, or of pads alone: zeros."""
    numbers = generator()
    x, w = (jnp.asarray(numbers.random(s), jnp.float32) for s in (shape, (3, shape[1], 2, 2)))
    kinds = {"dimension_numbers": ("NCHW", "OIHW", "NCHW")}
    check(
        lambda x, w: lax.conv_general_dilated(x, w, (1, 1), [(1, 1), (2, 1)], lhs_dilation=(step, 1), **kinds) + 1, x, w
    )
