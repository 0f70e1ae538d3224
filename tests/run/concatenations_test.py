# SPDX-License-Identifier: Apache-2.0
"""Concatenations: parts are written where they are wanted, ones that grow share memory, and nothing that is still read is overwritten."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from policy import check
from statements import launches_of
from torch import Tensor, nn


class DenseBlock(nn.Module):
    """Each layer reads what all layers before it have made."""

    def __init__(self, layers: int, first: int, more: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(first + i * more), nn.ReLU(), nn.Conv2d(first + i * more, more, 3, padding=1))
            for i in range(layers)
        )
        self.stem = nn.Conv2d(3, first, 3, padding=1)
        self.end = nn.Conv2d(first + layers * more, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        made = [self.stem(x)]
        for layer in self.layers:
            made.append(layer(torch.cat(made, 1)))
        return self.end(torch.cat(made, 1))


@pytest.mark.parametrize("batch", [1, 3])
def test_a_dense_block_copies_nothing(batch: int) -> None:
    compiled = check(DenseBlock(5, 16, 16).eval(), (torch.randn(batch, 3, 12, 12),))
    assert not [row for row in launches_of(compiled) if row["op"] == "cat"]


def test_parts_that_stand_in_the_middle_of_a_longer_one() -> None:
    def model(x: Tensor, y: Tensor) -> Tensor:
        a, b, c, d = x.exp(), y @ x, x.tanh() @ y, x + y
        inner = torch.cat([b, c], 1)
        outer = torch.cat([a, b, c, d], 1)
        return inner @ inner.t() + outer @ outer.t()

    compiled = check(model, (torch.randn(5, 5), torch.randn(5, 5)))
    assert not [row for row in launches_of(compiled) if row["op"] == "cat"]


@pytest.mark.parametrize("number", range(24))
def test_random_concatenations(number: int) -> None:
    """Lists that grow at both ends, repeat parts, hold other concatenations, are returned or are read by other kinds of ops."""
    seed = random.randrange(1 << 31)
    print(f"seed {seed}")
    torch.manual_seed(seed)
    dim = random.Random(seed).randrange(3)

    def model(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        choose = random.Random(seed)
        choose.random()
        parts = [x.sin(), x * 2, x @ w]
        results = []
        for _ in range(choose.randrange(2, 6)):
            kind = choose.randrange(5)
            if kind == 0:
                parts.append((torch.cat(parts, dim).mean(dim, keepdim=True) + x) @ w)
            elif kind == 1:
                parts.insert(0, torch.cat(parts, dim).amax(dim, keepdim=True) * x)
            elif kind == 2:
                first = choose.randrange(len(parts))
                results.append(torch.cat(parts[first:], dim).relu())
            elif kind == 3:
                parts.append(choose.choice(parts))
            else:
                parts = [torch.cat(parts, dim), x.cos()]
            if choose.random() < 0.3:
                results.append(torch.cat(parts, dim))
            if choose.random() < 0.3:
                results.append(torch.cat(parts, dim).flatten().exp())
        return (*results, torch.cat(parts, dim).cumsum(dim))

    check(model, (torch.randn(3, 4, 4), torch.randn(4, 4)))


class Kept(nn.Module):
    """A state that is replaced by a value made of its parts. A call returns what the one before left."""

    def __init__(self, following: Callable[[Tensor, Tensor, Callable[[Tensor], Tensor]], Tensor]) -> None:
        super().__init__()
        self.register_buffer("kept", torch.randn(4, 8))
        self.mix = nn.Linear(8, 8)
        self.following = following

    def forward(self, x: Tensor) -> Tensor:
        before = self.kept * 2
        self.kept.copy_(self.following(self.kept, x, self.mix))
        return before


_FOLLOWING: dict[str, Callable[[Tensor, Tensor, Callable[[Tensor], Tensor]], Tensor]] = {
    "a part that is read by the next": lambda k, x, mix: torch.cat([mix(k[:2]) + x, mix(k[:2] + k[2:])]),
    "elementwise": lambda k, x, mix: torch.cat([k[:2] + x, k[:2] * k[2:]]),
    "exchanged": lambda k, x, mix: torch.cat([mix(k[2:]), mix(k[:2])]),
    "moved on": lambda k, x, mix: torch.cat([k[2:], mix(x)]),
    "in two steps": lambda k, x, mix: torch.cat([torch.cat([mix(x[:1]), k[:1].exp()]), mix(k[:2])]),
    "growing": lambda k, x, mix: torch.cat([a := mix(x[:1]), b := mix(k[:2]), mix(torch.cat([a, b])[2:] + k[:1])]),
    "by rows that are written": lambda k, x, mix: mix(torch.cat([x, k[2:]])).index_copy(0, torch.tensor([1, 0]), mix(k[1:3])),
    "by rows that are written after a read": lambda k, x, mix: (
        (y := mix(torch.cat([x, x]))).index_copy(0, torch.tensor([3, 0]), mix(k[1:3] + y[1:3]))
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _FOLLOWING)
def test_a_state_is_overwritten_only_when_nothing_reads_it_any_more(name: str) -> None:
    call = (torch.randn(2, 8),)
    check(Kept(_FOLLOWING[name]), call, calls=[call, (torch.randn(2, 8),)])
