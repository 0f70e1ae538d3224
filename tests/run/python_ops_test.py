# SPDX-License-Identifier: Apache-2.0
"""Custom ops whose kernels are Python code: what C calls by itself, and what it leaves to straightline._aten_calls."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import straightline as sl
import torch
from policy import check
from straightline import _aten_calls
from torch import Tensor

#: Schema, kernel, fake kernel.
_OPS = {
    "shifted(Tensor x, float by, *, int times=1, bool on=True) -> Tensor": (
        lambda x, by, times=1, on=True: x + by * times if on else x.clone(),
        lambda x, by, times=1, on=True: torch.empty_like(x),
    ),
    "turned(Tensor x) -> Tensor": (lambda x: x.clone().t(), lambda x: torch.empty(x.shape[::-1], dtype=x.dtype)),
    "minus_imaginary(Tensor x) -> Tensor": (
        lambda x: torch.complex(torch.zeros_like(x), x).conj().imag,
        lambda x: torch.empty_like(x),
    ),
    "two(Tensor x, Tensor y) -> (Tensor, Tensor)": (
        lambda x, y: (x + y, (x - y).sum()),
        lambda x, y: (torch.empty_like(x), x.new_empty(())),
    ),
    "narrow(Tensor x) -> Tensor": (lambda x: x.double(), lambda x: torch.empty_like(x)),
    "angry(Tensor x) -> Tensor": (lambda x: [][int(x.sum() * 0)], lambda x: torch.empty_like(x)),
    "written(Tensor(a!) x, int by) -> ()": (
        lambda x, by: print(x.add_(by), end="", file=io.StringIO()),
        lambda x, by: None,
    ),
    "listed(Tensor[] xs) -> Tensor": (lambda xs: sum(xs), lambda xs: torch.empty_like(xs[0])),
}


@pytest.fixture
def ops() -> Iterator[Any]:
    library = torch.library.Library("straightline_python_ops", "FRAGMENT")
    for schema, (kernel, fake) in _OPS.items():
        name = schema.partition("(")[0]
        library.define(schema)
        for key in ("CPU", "CUDA"):
            library.impl(name, kernel, key)
        torch.library.register_fake(f"straightline_python_ops::{name}", fake, lib=library)
    yield torch.ops.straightline_python_ops
    library._destroy()


@pytest.fixture
def by_python(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the ops that straightline._aten_calls has run."""
    seen: list[str] = []
    run = _aten_calls._PlannedCall.run

    def counted(self: Any, *arguments: Any) -> None:
        seen.append(self._op._name)
        run(self, *arguments)

    monkeypatch.setattr(_aten_calls._PlannedCall, "run", counted)
    return seen


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_plain_calls_are_made_by_c(ops: Any, by_python: list[str], dtype: torch.dtype) -> None:
    x = (torch.randn(3, 5) * 4).to(dtype)
    check(lambda x: ops.shifted(x * 2, 3.0, times=2) + 1, (x,))
    check(lambda x: ops.shifted(x * 2, 3.0, on=False) + 1, (x,))
    check(lambda x: ops.two(x * 2, x + 1), (x,))
    assert by_python == []


def test_results_that_lie_otherwise_are_copied_by_torch(ops: Any, by_python: list[str]) -> None:
    check(lambda x: ops.turned(x * 2) + 1, (torch.randn(3, 5),))
    check(lambda x: ops.minus_imaginary(x * 2) + 1, (torch.randn(7),))
    check(lambda x: ops.shifted(x[:, ::2].t(), 1.0), (torch.randn(4, 6),))
    assert by_python == []


def test_what_is_written_is_seen(ops: Any, by_python: list[str]) -> None:
    def model(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 2
        ops.written(y, 3)
        return y, x

    check(model, (torch.randn(6),))
    assert by_python == []


def test_lists_of_tensors_are_called_by_c(ops: Any, by_python: list[str]) -> None:
    check(lambda x: ops.listed([x * 2, x + 1]), (torch.randn(4),))
    assert by_python == []


def test_sizes_of_a_call_go_to_python(ops: Any, by_python: list[str]) -> None:
    rows = torch.export.Dim("rows", min=2, max=9)
    compiled = sl.compile(lambda x: ops.shifted(x * 2, 1.0), (torch.randn(4, 3),), dynamic_shapes=({0: rows},))
    for count in (2, 9):
        x = torch.randn(count, 3)
        torch.testing.assert_close(compiled(x), x * 2 + 1)
    empty = torch.randn(0, 3)
    assert sl.compile(lambda x: ops.shifted(x * 2, 1.0), (empty,))(empty).shape == (0, 3)
    assert {"straightline_python_ops::shifted"} == set(by_python)


def test_a_result_of_another_type_is_an_error(ops: Any) -> None:
    with pytest.raises(
        sl.OpError, match=r"narrow.*gave torch\.float64\[4\] where its fake kernel said torch\.float32\[4\]"
    ):
        sl.compile(lambda x: ops.narrow(x) + 1, (torch.randn(4),))(torch.randn(4))


def test_what_it_raises_is_the_cause(ops: Any) -> None:
    compiled = sl.compile(lambda x: ops.angry(x) + 1, (torch.randn(4),))
    for _ in range(2):
        with pytest.raises(sl.OpError, match="angry: IndexError: list index out of range") as raised:
            compiled(torch.randn(4))
        assert isinstance(raised.value.__cause__, IndexError) and raised.value.__cause__.__traceback__ is not None


def test_threads_and_programs_that_go(ops: Any) -> None:
    compiled = sl.compile(lambda x: ops.shifted(x * 2, 1.0), (torch.randn(64),))
    wrong: list[int] = []

    def work(number: int) -> None:
        x = torch.full((64,), float(number))
        for _ in range(200):
            if not torch.equal(compiled(x), x * 2 + 1):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    before = len(_aten_calls._plans)
    with pytest.raises(KeyError):  # it goes while an exception is on its way
        [compiled := None, {}["nothing"]]
    assert len(_aten_calls._plans) == before - 1


def test_a_program_of_an_op_of_python_keeps_the_gil(ops: Any) -> None:
    """The call path releases it from an estimate of 20 us on, and the op would take it again at once."""
    explained = sl.compile(lambda x: ops.shifted(x, 2.0), (torch.ones(4),)).explain()
    assert 0 < explained["estimated_us"] < 20
