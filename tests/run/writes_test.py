# SPDX-License-Identifier: Apache-2.0
"""Models that overwrite: as values where that is plain (`straightline.capture.torch.functional`), through torch's second trace elsewhere.

Every row is compared with eager over three calls: results, inputs that are overwritten, buffers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import straightline as sl
import torch
import torch.nn.functional as F
from policy import check
from torch import Tensor, nn


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One item for each time that torch traces a graph again."""
    made: list[int] = []
    whole = torch.export.ExportedProgram.run_decompositions
    monkeypatch.setattr(
        torch.export.ExportedProgram, "run_decompositions", lambda *args: made.append(1) or whole(*args)
    )
    return made


class _Cache(nn.Module):
    """Keys by their place, and how many there are."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.randn(2, 8, 4))
        self.register_buffer("count", torch.zeros(1, dtype=torch.int64), persistent=False)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        self.keys.index_copy_(1, self.count, x)
        self.count.add_(1)
        return (self.keys.transpose(1, 2) @ self.keys).softmax(-1), self.keys, self.count * 2


class _Slot(nn.Module):
    """A cache whose place is a number without dims."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.randn(2, 8, 4))
        self.register_buffer("place", torch.tensor(3))

    def forward(self, x: Tensor) -> Tensor:
        return self.keys.index_copy_(1, self.place, x).sum(1)


class _Filter(nn.Module):
    """A state that is overwritten twice in a call, with what was read between."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros(5))

    def forward(self, x: Tensor) -> Tensor:
        self.state.mul_(0.5).add_(x.mean(0))
        first = self.state.exp()
        self.state.clamp_(-1, 1)
        return first + self.state


class _Tied(nn.Module):
    """Two names for one buffer, or for two tensors of the same memory."""

    def __init__(self, apart: bool) -> None:
        super().__init__()
        self.register_buffer("a", torch.zeros(5))
        self.register_buffer("b", self.a.detach() if apart else self.a)

    def forward(self, x: Tensor) -> Tensor:
        self.a.add_(x.mean(0))
        return self.b * 2


class _Half(nn.Module):
    """A wider value into a narrow buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("h", torch.randn(5).half())

    def forward(self, x: Tensor) -> Tensor:
        self.h.add_(x.mean(0))
        return self.h * 2


def _net() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Dropout(), nn.Conv2d(4, 4, 3), nn.SiLU(inplace=True), nn.Flatten(),
        nn.Linear(64, 8), nn.LeakyReLU(inplace=True), nn.Dropout(),
    ).eval()  # fmt: skip


def _square() -> Tensor:
    return torch.randn(5, 5)


def _after(
    x: Tensor, write: Callable[[Tensor], Any], result: Callable[..., Any], before: Callable[[Tensor], Any] = lambda y: y
) -> Any:
    """What `result` gives of a new tensor, of what `before` made of it, and of what the write gave."""
    y = x.exp()
    seen = before(y)
    return result(y, seen, write(y))


_PLAIN: dict[str, tuple[Any, Callable[[], Tensor]]] = {
    "layers": (_net(), lambda: torch.randn(2, 3, 8, 8)),
    "a cache": (_Cache(), lambda: torch.randn(2, 1, 4)),
    "a cache, one place": (_Slot(), lambda: torch.randn(2, 1, 4)),
    "a filter": (_Filter(), _square),
    "an input": (lambda x: (x.mul_(2), x + 1)[1], _square),
    "an input that is returned": (lambda x: x.mul_(2), _square),
    "read by its old name": (lambda x: _after(x, lambda y: y.add_(1), lambda y, _, z: y * z), _square),
    "a residual": (lambda x: F.relu_(x.exp().add_(x)).sum(0), _square),
    "of itself": (lambda x: _after(x, lambda y: y.add_(y), lambda y, _, z: y), _square),
    "a view that is used before": (lambda x: _after(x, lambda y: y.add_(y.t().sum()), lambda y, _, z: y), _square),
    "a view of what was written": (lambda x: _after(x, lambda y: y.add_(1), lambda y, _, z: (y.t()[0].sin(), z[1:])), _square),
    "a view between two writes": (lambda x: _after(x, lambda y: y.add_(1), lambda y, _, z: (z.t()[0].sin(), y.mul_(2))), _square),
    "dropout hands it on": (lambda x: _after(x, lambda y: F.dropout(y, 0.5, False).add_(1), lambda y, _, z: y * z), _square),
    "with a mask": (lambda x: _after(x, lambda y: y.masked_fill_(x > 0, 0.5), lambda y, _, z: y), _square),
    "narrower values": (lambda x: _after(x, lambda y: y.copy_(x.half()), lambda y, _, z: y), _square),
    "of one row": (lambda x: _after(x, lambda y: y.add_(x[0]), lambda y, _, z: y), _square),
}  # fmt: skip
_PLAIN["two names"] = (_Tied(False), _square)  # at which torch's second trace fails
_PLAIN["two tensors"] = (_Tied(True), _square)
_TRACED_AGAIN: dict[str, tuple[Any, Callable[[], Tensor]]] = {
    "a wider value": (_Half(), _square),
    "to a view": (lambda x: _after(x, lambda y: y[0].add_(1), lambda y, _, z: y * 2), _square),
    "to half of it": (lambda x: _after(x, lambda y: y.chunk(2)[0].add_(1), lambda y, _, z: y * 2), _square),
    "to a part": (lambda x: _after(x, lambda y: y[:, 1:3].copy_(x[:, :2]), lambda y, _, z: y * 2), _square),
    "a view from before": (lambda x: _after(x, lambda y: y.add_(1), lambda y, t, z: t * 2, lambda y: y.t()), _square),
    "a view of a view from before": (lambda x: _after(x, lambda y: y.add_(1), lambda y, t, z: t[1] * 2, lambda y: y.t().view(-1, 5)), _square),
    "a reshape from before": (lambda x: _after(x, lambda y: y.add_(1), lambda y, t, z: t * 2, lambda y: y.reshape(25)), _square),
    "an unchanged type from before": (lambda x: _after(x, lambda y: y.add_(1), lambda y, t, z: t * 2, lambda y: y.to(torch.float32)), _square),
    "a returned view from before": (lambda x: _after(x, lambda y: y.add_(1), lambda y, t, z: (y, t), lambda y: y.t()), _square),
    "a view of an input from before": (lambda x: (x.t(), x.add_(1))[0] * 2, _square),
    "its dims": (lambda x: _after(x, lambda y: y.t_(), lambda y, _, z: y - x), _square),
}  # fmt: skip


@pytest.mark.parametrize("name", _PLAIN)
def test_as_values(name: str, traces: list[int]) -> None:
    model, draw = _PLAIN[name]
    check(model, (draw(),), calls=[(draw(),), (draw(),)])
    assert not traces


@pytest.mark.parametrize("name", _TRACED_AGAIN)
def test_traced_again(name: str, traces: list[int]) -> None:
    model, draw = _TRACED_AGAIN[name]
    check(model, (draw(),), calls=[(draw(),), (draw(),)])
    assert traces


def test_dropout_beside_a_write_to_a_view(traces: list[int]) -> None:
    """In eval mode it gives its argument itself, not a copy, as torch's own decomposition has it."""
    check(lambda x: _after(x, lambda y: F.dropout(y, 0.5, False)[0].add_(1), lambda y, _, z: y * 2), (_square(),))
    assert traces


def test_named_sizes(traces: list[int]) -> None:
    rows = torch.export.Dim("rows", min=1, max=9)
    check(_Filter(), (_square(),), calls=[(torch.randn(1, 5),), (torch.randn(9, 5),)], dynamic_shapes=({0: rows},))
    check(lambda x: x.exp().add_(x).relu_(), (_square(),), calls=[(torch.randn(9, 5),)], dynamic_shapes=({0: rows},))
    assert not traces


def test_an_exported_program_is_left_as_it_is() -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return _after(x, lambda y: F.dropout(y, 0.5, False).add_(1), lambda y, _, z: y * z)

    exported = torch.export.export(Model(), (x := _square(),))
    before = str(exported.graph)
    compiled = sl.compile(exported)
    assert str(exported.graph) == before
    torch.testing.assert_close(compiled(x), Model()(x))
