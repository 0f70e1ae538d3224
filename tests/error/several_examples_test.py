# SPDX-License-Identifier: Apache-2.0
"""Several examples: calls that fit none of them, and examples that are none."""

from __future__ import annotations

from typing import Any

import pytest
import straightline as sl
import torch
from torch import nn

A, B = torch.ones(2, 3), torch.ones(5, 3)


def compiled() -> Any:
    return sl.compile(lambda x, flag=True: x * 2 if flag else x, [(A,), (B,)])


def test_a_miss_says_what_there_is_and_how_to_add_one() -> None:
    fn = compiled()
    with pytest.raises(sl.GuardError) as caught:
        fn(torch.ones(4, 3))
    lines = str(caught.value).splitlines()
    assert lines[0] == "none of the compiled examples fits this call:"
    assert lines[1].startswith("  (1) x: float32[2, 3]: input 'x': dim 0 is 4 but") and "compiled for 2" in lines[1]
    assert lines[2].startswith("  (2) x: float32[5, 3]: input 'x': dim 0 is 4 but") and "compiled for 5" in lines[2]
    assert lines[3] == "to add it, compile again with a tuple of these arguments appended to the list of examples"
    assert not isinstance(caught.value, TypeError)
    assert torch.equal(fn(B), B * 2)


@pytest.mark.parametrize(
    "args, kwargs, kind, words",
    [
        ((A.double(),), {}, TypeError, r"dtype is float64 but.*\nthe compiled examples: \(1\) x: float32\[2, 3\]; \(2\) x: float32\[5, 3\]"),
        ((A, False), {}, sl.GuardError, "'flag' was compiled for the value True but is False"),
        ((A, True, 3), {}, TypeError, "3 positional arguments"),
        ((), {}, TypeError, "argument 'x' is missing"),
        ((A,), {"y": A}, TypeError, "'y'"),
        (("text",), {}, TypeError, "'x' must be a tensor but is a str"),
        ((A.clone().requires_grad_(),), {}, TypeError, "requires grad while grad mode is on"),
        ((torch.ones(()),), {}, sl.GuardError, "rank"),
    ],
)  # fmt: skip
def test_a_call_that_fits_none(args: Any, kwargs: Any, kind: type[Exception], words: str) -> None:
    fn = compiled()
    for _ in range(2):
        with pytest.raises(kind, match=f"(?s){words}") as caught:
            fn(*args, **kwargs)
        assert isinstance(caught.value, sl.GuardError)
    assert torch.equal(fn(A), A * 2) and torch.equal(fn(B), B * 2)


def test_what_is_wrong_beside_the_shapes_is_said_once() -> None:
    """The second program fits; what it refuses is no matter of another example."""
    fn = compiled()
    with pytest.raises(sl.GuardError, match=r"^out 'result'") as caught:
        fn(B, out=torch.ones(5, 4))
    assert "examples" not in str(caught.value)
    x = torch.ones(6, 3)
    fn = sl.compile(lambda x, y: x.add_(y), [(A.clone(), A), (B.clone(), B)])
    with pytest.raises(sl.GuardError) as caught:
        fn(x[:5], x[1:])
    assert "examples" not in str(caught.value)


@pytest.mark.parametrize(
    "args, kwargs, words",
    [
        ([(A,), (A.clone(),)], None, r"examples 1 and 2 are the same: x: float32\[2, 3\]"),
        ([(A,), (B,), (A,)], None, "examples 1 and 3 are the same"),
        ([(A,), (B,)], [{}], "2 examples are given but kwargs has 1 entries"),
        ([(A,), (B,)], [{}, 3], "kwargs is a int"),
        ([(A,), (B,)], [{}, {1: 2}], "kwargs has the key 1"),
        ((A,), [{}], "kwargs is a list"),
        ([(A,), ()], None, "example inputs|missing"),
        ([()], None, "example inputs|missing"),
        ({(A,)}, None, "args is a set"),
    ],
)  # fmt: skip
def test_examples_that_are_none(args: Any, kwargs: Any, words: str) -> None:
    with pytest.raises(sl.UserError, match=words):
        sl.compile(lambda x, flag=True: x * 2 if flag else x, args, kwargs)


def test_an_exported_program_has_one_example() -> None:
    exported = torch.export.export(nn.Linear(3, 3).eval(), (A,))
    with pytest.raises(sl.UserError, match="an ExportedProgram has one example of its own but 2 are given"):
        sl.compile(exported, [(A,), (B,)])
