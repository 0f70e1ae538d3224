# SPDX-License-Identifier: Apache-2.0
"""The random programs of writes_test.py through torch.compile, some with a graph break: values, strides, and which memory is whose.

STRAIGHTLINE_PROPERTY_SEED repeats a run.
"""

from __future__ import annotations

import copy
import os
import random
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import straightline as sl
import torch
from writes_test import _N, _OPS, _Program, _drawn

_SEED = int(os.environ.get("STRAIGHTLINE_PROPERTY_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)
_PROGRAMS = int(os.environ.get("STRAIGHTLINE_PROPERTY_PROGRAMS", "25"))


class _Broken(_Program):
    """With graph breaks between its lines."""

    breaks: frozenset[int] = frozenset()

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        values = [x, y, *self.buffers()]
        for place, (op, i, j) in enumerate(self._lines):
            values.append(_OPS[op](values[i % len(values)], values[j % len(values)]))
            if place in self.breaks:
                torch._dynamo.graph_break()
        return [values[i % len(values)] for i in self._results]


def _strides(x: torch.Tensor) -> list[int]:
    return [stride for size, stride in zip(x.shape, x.stride()) if size > 1]


def _sharing(tensors: list[torch.Tensor]) -> list[list[bool]]:
    places = [x.untyped_storage().data_ptr() for x in tensors]
    return [[a == b for a in places] for b in places]


@pytest.fixture
def _anew() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def _compare(model: Any, inputs: tuple[torch.Tensor, ...], number: random.Random) -> bool:
    """Compares one program with eager; False where eager refuses it, or torch traces another program.

    The latter as its fake tensors say that dropout which does nothing gives a new tensor: what asks for strides then goes another
    way.
    """
    options = {"freeze": True} if number.random() < 0.3 else {}
    try:
        return _is_as_eager(model, inputs, "straightline", options=options)
    except Exception:
        try:
            _is_as_eager(model, inputs, "eager")
        except Exception:
            return False
        raise


def _is_as_eager(model: Any, inputs: tuple[torch.Tensor, ...], backend: str, **how: Any) -> bool:
    """Compares one program by a backend; False where eager refuses it."""
    eager, mine = copy.deepcopy((model, inputs)), copy.deepcopy((model, inputs))
    torch.compiler.reset()
    compiled = torch.compile(mine[0], backend=backend, **how)
    for _ in range(2):
        try:
            want = [*eager[0](*eager[1]), *eager[1], *eager[0].buffers()]
        except RuntimeError:  # what is read and overwritten overlaps in part
            return False
        got = [*compiled(*mine[1]), *mine[1], *mine[0].buffers()]
        for place, (value, right) in enumerate(zip(got, want, strict=True)):
            assert value.dtype == right.dtype
            assert torch.allclose(value, right, rtol=1e-4, atol=1e-5, equal_nan=True), f"tensor {place}"
            assert _strides(value) == _strides(right), f"strides of tensor {place}"
        assert _sharing(got) == _sharing(want)
    return True


@pytest.mark.filterwarnings("ignore:Use of masked_fill_ on expanded tensors is deprecated")
def test_programs(_anew: None) -> None:
    number = random.Random(_SEED)
    torch.manual_seed(_SEED)
    run = 0
    for _ in range(_PROGRAMS):
        drawn = _drawn(number).eval()
        model = _Broken(drawn._lines, drawn._results, "")
        model._buffers.update(drawn._buffers)
        model.breaks = frozenset(number.sample(range(8), number.choice((0, 0, 1, 2))))
        inputs = (torch.randn(_N, _N), torch.randn(_N, _N))
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore", sl.CaptureWarning)
                run += _compare(model, inputs, number)
        except BaseException as error:
            error.add_note(f"STRAIGHTLINE_PROPERTY_SEED={_SEED}: {model}, breaks {set(model.breaks)}")
            raise
    assert run > _PROGRAMS // 2, f"{run} of {_PROGRAMS} programs run"
