# SPDX-License-Identifier: Apache-2.0
"""`as_strided` and its kin: which elements of a memory they read and write, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import straightline as sl
import torch
from policy import check, is_native
from torch import Tensor, nn


def _window_written(x: Tensor) -> Tensor:
    y = x + 1
    y.as_strided((2, 3), (6, 2), 1).mul_(5)
    return y


def _input_written(x: Tensor) -> Tensor:
    x.as_strided((2, 3), (6, 2)).add_(5)
    return x * 2


_CASES: dict[str, Callable[[Tensor], Tensor]] = {
    "an input": lambda x: x.as_strided((3, 4), (5, 1)) + 1,
    "a result that is a view": lambda x: x.as_strided((3, 4), (5, 1), 1),
    "a view": lambda x: x[1:].as_strided((3, 4), (3, 1)) * 2,
    "made memory": lambda x: (x * 2).as_strided((3, 4), (4, 1), 1),
    "turned": lambda x: (x * 2).t().as_strided((3, 4), (5, 1), 1) + 1,
    "images in channels_last": lambda x: x.reshape(1, 2, 3, 4).contiguous(memory_format=torch.channels_last).as_strided((6,), (4,)),
    "windows": lambda x: (x + 0).as_strided((3, 2, 6), (6, 6, 1)).sum(1),
    "repeated": lambda x: (x * 1).as_strided((6, 6), (0, 1)).sum(0),
    "one": lambda x: (x * 1).as_strided((), (), 3),
    "none": lambda x: (x * 1).as_strided((0, 3), (1, 1), 3),
    "halves": lambda x: (x * 1).half().as_strided((3, 4), (5, 1), 2),
    "integers": lambda x: (x * 9).long().as_strided((3, 4), (5, 1), 2),
    "written": _window_written,
    "input written": _input_written,
    "copied": lambda x: torch.as_strided_copy(x, (3, 4), (5, 1), 1),
    "scattered": lambda x: torch.as_strided_scatter(x, torch.ones(3, 4) * 7, (3, 4), (6, 1), 2),
    "scattered into a turned": lambda x: torch.as_strided_scatter(x.t() * 1, torch.ones(3, 4) * 7, (3, 4), (6, 1), 2),
    "chunks with half of the neighbour's": lambda x: x.reshape(1, 6, 4).as_strided((1, 2, 4, 4), (24, 8, 4, 1)) * 2,
}  # fmt: skip


@pytest.mark.parametrize("case", _CASES)
def test_reads_and_writes(case: str) -> None:
    x = torch.randn(4, 6)
    check(_CASES[case], (x,))
    assert is_native(_CASES[case], x)


def _refused(fn: object, *inputs: Tensor, **options: object) -> str:
    with pytest.raises(sl.UnsupportedError) as raised:
        sl.compile(fn, inputs, **options)  # type: ignore[arg-type]
    return str(raised.value)


def test_what_is_refused() -> None:
    x = torch.randn(4, 6)
    assert "gaps or shared elements" in _refused(lambda x: x.as_strided((2, 2), (1, 1)), torch.randn(8, 6)[::2])
    assert "gaps or shared elements" in _refused(lambda x: x.as_strided((2, 2), (1, 1)), torch.randn(4, 1).expand(4, 6))
    sizes = {"dynamic_shapes": ({0: torch.export.Dim("n", min=2, max=9)},)}
    assert "sizes with names" in _refused(lambda x: (x + 1).as_strided((2, 2), (1, 1)), x, **sizes)
    assert "read by strides as torch.float32" in _refused(
        lambda x: torch.view_as_real(x).as_strided((2, 2), (1, 1)), x.to(torch.complex64)
    )
    part = torch.randn(30)[6:].view(4, 6)
    assert "elements -6 to -4 of 24" in _refused(lambda x: x.as_strided((2, 2), (1, 1), 0), part)


def test_a_place_in_a_parameter_is_refused() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 6))

        def forward(self, x: Tensor) -> Tensor:
            return x + self.weight.as_strided((4,), (6,), 1)

    assert "which may be replaced" in _refused(Model().eval(), torch.randn(4))


def test_calls_begin_where_the_example_does() -> None:
    fn = sl.compile(lambda x: x.as_strided((3, 4), (5, 1), 8) + 1, (torch.randn(100)[8:32],))
    x = torch.randn(64)[8:32]
    assert torch.equal(fn(x), x.as_strided((3, 4), (5, 1), 8) + 1)
    with pytest.raises(sl.GuardError, match="begins at element 0 of its storage .* compiled for 8"):
        fn(torch.randn(24))


def test_by_torch_compile_another_place_runs_in_eager() -> None:
    model = lambda x: x.as_strided((3, 4), (5, 1), 2) + 1  # noqa: E731
    torch.compiler.reset()
    compiled = torch.compile(model, backend="straightline", fullgraph=True)
    for x in (torch.randn(24), torch.randn(64)):
        assert torch.equal(compiled(x), model(x))
    x = torch.randn(64)[1:25]
    compiled(torch.randn(24))
    with pytest.warns(sl.CaptureWarning, match="runs in eager: .* begins at element 1"):
        assert torch.equal(compiled(x), model(x))
    torch.compiler.reset()
