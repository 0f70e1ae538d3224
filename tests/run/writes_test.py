# SPDX-License-Identifier: Apache-2.0
"""Models that overwrite: their writes are values (`straightline.capture.torch.functional`), and nothing is traced twice.

Every row is compared with eager over three calls: results, inputs that are overwritten, buffers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import straightline as sl
import torch
import torch.nn.functional as F
from policy import check
from torch import Tensor, nn


@pytest.fixture(autouse=True)
def traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second trace of torch is not there."""
    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", None)


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


class _Kept(nn.Module):
    """A buffer that is overwritten and never read."""

    def __init__(self, write: Callable[[Tensor, Tensor], Any], made: Tensor | None = None) -> None:
        super().__init__()
        self.register_buffer("n", torch.randn(3, 5) if made is None else made)
        self._write = write

    def forward(self, x: Tensor) -> Tensor:
        self._write(self.n, x)
        return x * 2


_NEVER_READ: dict[str, _Kept] = {
    "copied": _Kept(lambda n, x: n.copy_(x[:3])),
    "a result too": _Kept(lambda n, x: n.copy_(x[:3] * 2)),
    "a wider value": _Kept(lambda n, x: n.copy_(x[:3]), torch.zeros(3, 5, dtype=torch.float16)),
    "whole numbers": _Kept(lambda n, x: n.copy_(x[:3] * 9), torch.zeros(3, 5, dtype=torch.int32)),
    "filled": _Kept(lambda n, x: n.fill_(2.5)),
    "filled by a tensor": _Kept(lambda n, x: n.fill_(x.sum())),
    "zeroed": _Kept(lambda n, x: n.zero_()),
    "broadcast": _Kept(lambda n, x: n.copy_(x[0])),
    "by a slice of all": _Kept(lambda n, x: n[:].copy_(x[:3])),
    "in part": _Kept(lambda n, x: n[1:].copy_(x[:2])),
    "one row": _Kept(lambda n, x: n[1].zero_()),
    "by places": _Kept(lambda n, x: n.index_copy_(0, torch.tensor([2, 0]), x[:2])),
    "a number": _Kept(lambda n, x: n.copy_(x.sum()), torch.zeros(())),
    "turned": _Kept(lambda n, x: n.copy_(x[:3]), torch.zeros(5, 3).t()),
    "turned, by a slice of all": _Kept(lambda n, x: n[:].copy_(x[:3]), torch.zeros(5, 3).t()),
    "channels last": _Kept(lambda n, x: n.mul_(0.5).add_(x[0, 0]), torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)),
}  # fmt: skip


_MODELS: dict[str, tuple[Any, Callable[[], Tensor]]] = {
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
    "two names": (_Tied(False), _square),
    "two tensors": (_Tied(True), _square),
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
    "one of several views": (lambda x: _after(x, lambda y: y.unbind(1)[2].mul_(3), lambda y, _, z: (y, z)), _square),
    "a diagonal": (lambda x: _after(x, lambda y: y.diagonal().fill_(1), lambda y, _, z: (y, z)), _square),
    "a moved dimension": (lambda x: _after(x, lambda y: y.movedim(0, 1)[1:3].sub_(2), lambda y, _, z: (y, z)), _square),
    "with out=": (lambda x: _after(x, lambda y: torch.add(y, x, out=y[:]), lambda y, _, z: (y, z)), _square),
    "by a mask": (lambda x: _after(x, lambda y: y.__setitem__(x > 0, 0.5), lambda y, _, z: y), _square),
    "numbers of torch": (lambda x: _after(x, lambda y: torch.nn.init.constant_(y[1], 3.0), lambda y, _, z: y), _square),
    "its dims": (lambda x: _after(x, lambda y: y.t_(), lambda y, _, z: y - x), _square),
}  # fmt: skip


#: Writes to a view [4, 3] whose rows are the same memory, beside a mask [4, 3] and values [4, 3]: of one row, or of one value.
_TO_EXPANDED: dict[str, Callable[[Tensor, Tensor, Tensor], Any]] = {
    "a row": lambda v, m, x: v[1].add_(1),
    "a row of others": lambda v, m, x: v[-1].copy_(x[0]),
    "a row by assignment": lambda v, m, x: v.__setitem__(1, 9.0),
    "rows, of which there is one": lambda v, m, x: v[1:2].mul_(2),
    "no rows": lambda v, m, x: v[1:1].mul_(2),
    "a cell": lambda v, m, x: v[2, 1].mul_(5),
    "a part of a row": lambda v, m, x: v[2:3, 1:].mul_(5),
    "every second of a row": lambda v, m, x: v[2, ::2].mul_(5),
    "the diagonal": lambda v, m, x: v.diagonal().mul_(2),
    "the diagonal below": lambda v, m, x: v.diagonal(-1).mul_(2),
    "the diagonal above": lambda v, m, x: v.diagonal(1).add_(3),
    "a diagonal of the transpose": lambda v, m, x: v.t().diagonal(1).add_(3),
    "a permutation": lambda v, m, x: v.permute(1, 0)[1:, 2].mul_(3),
    "one of several views": lambda v, m, x: v.unbind(1)[2][1].mul_(3),
    "one part": lambda v, m, x: v.split(1)[2].mul_(3),
    "a shape of a row": lambda v, m, x: v[1].view(3, 1)[1].mul_(3),
    "a shape of the rows": lambda v, m, x: v.unflatten(0, (2, 2))[1, 0].mul_(3),
    "expanded twice": lambda v, m, x: v.unsqueeze(0).expand(2, 4, 3).view(2, 2, 2, 3)[1, 0, 1].mul_(2),
    "a part that is expanded": lambda v, m, x: v[1, 1:2].expand(5)[2].mul_(3),
    "bits": lambda v, m, x: v[1].view(torch.int32).add_(1),
    "two writes": lambda v, m, x: (v[0].mul_(2), v[3].add_(v[1])),
    "one value": lambda v, m, x: v.fill_(2),
    "zero": lambda v, m, x: v.zero_(),
    "one value in two rows": lambda v, m, x: v[1:3].fill_(2),
    "one value in a column": lambda v, m, x: v[:, 1].fill_(2),
    "under a mask": lambda v, m, x: v.masked_fill_(m, 9.0),
    "under a mask by assignment": lambda v, m, x: v.__setitem__(m, 9.0),
    "places of shared elements": lambda v, m, x: v.index_fill_(0, torch.tensor([1]), 9.0),
    "places of own elements": lambda v, m, x: v.index_fill_(1, torch.tensor([1]), 9.0),
    "a value without dims at places": lambda v, m, x: v.index_fill_(1, torch.tensor([1]), x[0, 0]),
    "places in both dims": lambda v, m, x: v.__setitem__((torch.tensor([1, 2]), torch.tensor([0, 2])), 9.0),
}  # fmt: skip


@pytest.mark.parametrize("name", _TO_EXPANDED)
@pytest.mark.parametrize("of", [lambda x: x * 2, lambda x: x, lambda x: x[1]], ids=["own", "input", "part of an input"])
@pytest.mark.filterwarnings("ignore:Use of .* on expanded tensors is deprecated")
def test_a_write_to_an_expanded_tensor(name: str, of: Callable[[Tensor], Tensor]) -> None:
    """The element that all rows share is overwritten: seen in every row, in what is expanded, and in views from before."""

    def model(x: Tensor, mask: Tensor, values: Tensor) -> tuple[Tensor, ...]:
        whole = of(x)
        view = whole[:1].expand(4, 3) if whole.dim() == 2 else whole.expand(4, 3)
        copied, part = view * 1, view[2]
        _TO_EXPANDED[name](view, mask, values)
        return view + 1, copied, part * 2, whole * 1

    check(model, (torch.rand(2, 3), torch.rand(4, 3) > 0.5, torch.rand(4, 3)))


def _rows(x: Tensor) -> Tensor:
    """Three rows that are the same memory."""
    return x.expand(3, 5)


class _Repeated(nn.Module):
    """A buffer whose rows are the same memory."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("n", _rows(torch.zeros(5)))

    def forward(self, x: Tensor) -> Tensor:
        self.n[1].add_(x[0])
        return self.n * 2


def test_a_buffer_with_strides_of_0() -> None:
    check(_Repeated(), (_square(),), calls=[(_square(),), (_square(),)])


@pytest.mark.parametrize(
    "write", [lambda x: x[1].add_(1), lambda x: x.fill_(2), lambda x: x.view(3, 5, 1)[2, 1:].mul_(3)]
)
def test_an_input_with_strides_of_0(write: Callable[[Tensor], Any]) -> None:
    model = lambda x: (write(x), x * 2)[1]  # noqa: E731
    eager, mine = torch.arange(5.0), torch.arange(5.0)
    compiled = sl.compile(model, (_rows(torch.arange(5.0)),))
    assert torch.equal(compiled(_rows(mine)), model(_rows(eager))) and torch.equal(mine, eager)


def test_an_expanded_tensor_of_named_sizes() -> None:
    rows = torch.export.Dim("rows", min=2, max=9)

    def model(x: Tensor) -> Tensor:
        v = x[0].expand(x.shape)
        v[1].add_(1)
        w = x.unsqueeze(0).expand(4, *x.shape)
        w[2].mul_(3)
        w[1].view(-1)[2:].add_(1)
        return v + w.sum(0)

    check(model, (_square(),), calls=[(torch.randn(2, 5),), (torch.randn(9, 5),)], dynamic_shapes=({0: rows},))


@pytest.mark.parametrize("name", _MODELS)
def test_as_values(name: str) -> None:
    model, draw = _MODELS[name]
    check(model, (draw(),), calls=[(draw(),), (draw(),)])


@pytest.mark.parametrize("name", _NEVER_READ)
def test_a_buffer_that_is_never_read(name: str) -> None:
    check(_NEVER_READ[name], (_square(),), calls=[(_square(),), (_square(),)])


def test_a_state_of_a_text_that_is_never_read() -> None:
    text = sl.compile(_NEVER_READ["copied"], (_square(),)).ir("op")
    fn = sl.compile_mlir(text, {"n": (n := np.zeros((3, 5), np.float32))})
    x = np.random.randn(5, 5).astype(np.float32)
    np.testing.assert_array_equal(fn(x), x * 2)
    np.testing.assert_array_equal(n, x[:3])


class _SeveralStates(nn.Module):
    """One value for several buffers; the old value of one is read by what makes it, that of another later."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        for number in range(count):
            self.register_buffer(f"s{number}", torch.randn(3))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, old = x + self.s0, self.s1 * 2
        for number in range(self.count):
            self.get_buffer(f"s{number}").copy_(y)
        return old, x.cumsum(0)


@pytest.mark.parametrize("count", [2, 3, 40])
def test_a_value_of_several_states(count: int) -> None:
    model = _SeveralStates(count).eval()
    eager = copy.deepcopy(model)
    compiled = sl.compile(model, (torch.randn(3),))
    for _ in range(2):
        x = torch.randn(3)
        torch.testing.assert_close(compiled(x), eager(x))
        for (name, buffer), other in zip(model.named_buffers(), eager.buffers(), strict=True):
            torch.testing.assert_close(buffer, other, msg=name)


class _StaticCache(nn.Module):
    """A decode step as transformers exports one: caches and what is kept beside them, some of it written and never read."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.projection = nn.Embedding(40, 16), nn.Linear(16, 48)
        self.head = nn.Linear(16, 40)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, 2, 12, 8), persistent=False)
        self.register_buffer("length", torch.zeros((), dtype=torch.int64), persistent=False)
        self.register_buffer("last", torch.zeros(1, 1, dtype=torch.int32), persistent=False)

    def forward(self, ids: Tensor, place: Tensor) -> Tensor:
        q, k, v = self.projection(self.embedding(ids)).view(1, 1, 3, 2, 8).permute(2, 0, 3, 1, 4)
        self.keys.index_copy_(2, place, k)
        self.values[:, :, place] = v
        self.length.add_(1)
        self.last.copy_(ids)
        mask = torch.arange(12)[None, :] <= place[:, None]
        read = F.scaled_dot_product_attention(q, self.keys, self.values, mask)
        return self.head(read.transpose(1, 2).reshape(1, 1, 16))


def test_decoding_with_a_static_cache() -> None:
    model = _StaticCache().eval()
    eager = copy.deepcopy(model)
    compiled = sl.compile(model, (torch.tensor([[3]]), torch.tensor([0])))
    mine = wanted = torch.tensor([[3]])
    for step in range(12):
        place = torch.tensor([step])
        with torch.no_grad():
            wanted = eager(wanted, place).argmax(-1)
        mine = compiled(mine, place).argmax(-1)
        assert mine.item() == wanted.item(), step
    for (name, buffer), other in zip(model.named_buffers(), eager.buffers(), strict=True):
        torch.testing.assert_close(buffer, other, msg=name)


def test_dropout_beside_a_write_to_a_view() -> None:
    """In eval mode it gives its argument itself, not a copy, as torch's own decomposition has it."""
    check(lambda x: _after(x, lambda y: F.dropout(y, 0.5, False)[0].add_(1), lambda y, _, z: y * 2), (_square(),))


@pytest.mark.parametrize("kind", [nn.Dropout, nn.Dropout1d, nn.AlphaDropout, nn.FeatureAlphaDropout])
def test_dropout_in_place_in_eval_mode(kind: Callable[..., nn.Module]) -> None:
    """As MobileNet and EfficientNet have it: its form without writing names its argument otherwise."""
    check(
        nn.Sequential(nn.Conv1d(4, 6, 1), kind(0.3, inplace=True), nn.Hardswish(inplace=True)).eval(),
        (torch.randn(2, 4, 5),),
    )


def _masks_in_place(x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, ...]:
    x &= y
    z = z.clone()
    part = z[1:]
    part |= x[1:]
    z ^= y
    return x | z, z


def _shifts_in_place(x: Tensor) -> tuple[Tensor, ...]:
    x <<= 3
    y = x.clone()
    y >>= 1
    return x, y


def test_operators_in_place() -> None:
    """Composite ops without a form that does not write: `__iand__`, `__ilshift__`."""
    check(_masks_in_place, tuple(torch.rand(3, 4) > 0.5 for _ in range(3)))
    check(_shifts_in_place, (torch.randint(-99, 99, (5,)),))


def test_a_result_that_is_what_was_overwritten() -> None:
    """`polygamma_` has no form without writing that takes the same arguments."""

    def model(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x + 1
        z = y.polygamma_(1)
        z.mul_(2)
        return y, z + y

    check(model, (torch.rand(7),))


def test_named_sizes() -> None:
    rows = torch.export.Dim("rows", min=1, max=9)
    check(_Filter(), (_square(),), calls=[(torch.randn(1, 5),), (torch.randn(9, 5),)], dynamic_shapes=({0: rows},))
    check(lambda x: x.exp().add_(x).relu_(), (_square(),), calls=[(torch.randn(9, 5),)], dynamic_shapes=({0: rows},))


def test_an_exported_program_is_left_as_it_is() -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return _after(x, lambda y: F.dropout(y, 0.5, False).add_(1), lambda y, _, z: y * z)

    exported = torch.export.export(Model(), (x := _square(),))
    before = str(exported.graph)
    compiled = sl.compile(exported)
    assert str(exported.graph) == before
    torch.testing.assert_close(compiled(x), Model()(x))


def test_a_result_that_is_filled_with_zeros() -> None:
    """The tensor itself: the value of zeros is a view of another node."""
    compiled = check(lambda x: x.zero_(), (_square(),))
    x = _square()
    assert compiled(x) is x and not x.any()


def test_copies_of_views_are_no_views() -> None:
    x = _square()
    for model in (
        lambda x: torch.permute_copy(x, (1, 0)),
        lambda x: torch.slice_copy(x, 0, 1, 3).t(),
        lambda x: torch.split_with_sizes_copy(x, [2, 3])[0],
    ):
        y = check(model, (x,))(x)
        assert y.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
    check(lambda x: torch.split_with_sizes_copy(x, [1, 3, 1]), (x,))  # each is a result of its own

    def twice(z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        copy = torch.permute_copy(z, (1, 0))
        return copy, copy

    first, second = check(twice, (torch.randn(3, 5, dtype=torch.complex64),))(torch.ones(3, 5, dtype=torch.complex64))
    assert first.is_complex() and first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()


_IMAGE = (1, 2, 4, 6)

#: Results in which eager has the elements of an input in memory of their own.
COPIES: dict[str, tuple[Callable[[Tensor], Tensor], tuple[int, ...]]] = {
    "cat behind nothing": (lambda x: torch.cat([torch.zeros(0, 5), x]), (3, 5)),
    "cat before nothing": (lambda x: torch.cat([x[1:], x[:0], x[3:]]), (3, 5)),
    "cat of a vector": (lambda x: torch.cat([torch.zeros(0), x.view(-1)]), (3, 5)),
    "cat of nothing": (lambda x: torch.cat([x[:0], x[:0], x]), (3, 5)),
    "to": (lambda x: x.to(torch.float32, copy=True), (3, 5)),
    "nearest": (lambda x: F.interpolate(x, size=(4, 6)), _IMAGE),
    "nearest by factors": (lambda x: F.interpolate(x, scale_factor=(1.0, 1.0)), _IMAGE),
    "bilinear": (lambda x: F.interpolate(x, size=(4, 6), mode="bilinear"), _IMAGE),
    "unfold": (lambda x: F.unfold(x, 1), _IMAGE),
}


@pytest.mark.parametrize("name", COPIES)
def test_copies_of_inputs_are_no_views(name: str) -> None:
    model, shape = COPIES[name]
    x = torch.randn(*shape)
    y = check(model, (x,))(x)
    assert model(x).untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
    assert y.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()


def test_equal_values_in_two_inputs_stay_two() -> None:
    """Each result is (a view of) the input that it was before: one of them was given for both."""

    def model(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> list[torch.Tensor]:
        return [y.copy_(z), x.copy_(z), x.view(16), y.t(), x.t()]

    def places(function: Any, *tensors: torch.Tensor) -> list[list[bool]]:
        return [[t.data_ptr() == s.data_ptr() for s in tensors] for t in function(*tensors)]

    inputs = [torch.randn(4, 4) for _ in range(3)]
    want = places(model, *(t.clone() for t in inputs))
    assert places(sl.compile(model, tuple(inputs)), *inputs) == want
