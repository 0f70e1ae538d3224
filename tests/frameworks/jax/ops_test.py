# SPDX-License-Identifier: Apache-2.0
"""Each form of an op that docs/frameworks/jax.md lists: taken ones against JAX, several in one program; refused ones by their words."""

from __future__ import annotations

from typing import Any

import jax
import pytest
import straightline as sl
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
