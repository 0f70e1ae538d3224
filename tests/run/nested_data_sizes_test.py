# SPDX-License-Identifier: Apache-2.0
"""Sizes that depend on data, found in branches and loops; each executor against eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.run.data_sizes_test import check, seeded
from torch import Tensor
from torch._higher_order_ops import map as mapped
from torch._higher_order_ops import scan, while_loop

import straightline as sl


def _of_one_branch(x: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda x: (x[x > 0].sqrt().sum(),), lambda x: (x.sum(),), (x,))


def _of_both_branches(x: Tensor) -> Any:
    def above(x: Tensor) -> Any:
        return (torch.nonzero(x > 0).sum(0) + 1,)

    def below(x: Tensor) -> Any:
        return (torch.nonzero(x < 0).sum(0) * 2,)

    return torch.cond(x.sum() > 0, above, below, (x,))


def _of_a_branch_in_a_branch(x: Tensor) -> Any:
    def inner(x: Tensor) -> Any:
        kept = x[x[:, 0] > 0]
        return torch.cond(x[0, 0] > 0, lambda x, k: x[x > 1].sum() + k, lambda x, k: x.sum() - k, (x, kept.sum()))

    return torch.cond(x.sum() > 0, inner, lambda x: x.mean(), (x,))


def _of_a_branch_behind_one(x: Tensor) -> Any:
    kept = x[x > 0]
    least = torch.cond(x.sum() > 0, lambda x: x[x > 1].sum(), lambda x: x[x < -1].sum(), (x,))
    return kept * 2 + least, kept.shape[0]


def _of_a_while(x: Tensor) -> Any:
    def body(i: Tensor, x: Tensor, total: Tensor) -> Any:
        kept = x[x > 0]
        return i + 1, x * 0.9 - 0.1, total + kept.sum() + kept.shape[0]

    return while_loop(lambda i, x, total: i < 5, body, (torch.tensor(0), x, torch.tensor(0.0)))


def _of_a_condition(x: Tensor) -> Any:
    return while_loop(lambda x: x[x > 0].sum() > 2, lambda x: (x * 0.5 - 0.01,), (x,))


def _of_a_range(x: Tensor) -> Any:
    def body(i: Tensor, total: Tensor) -> Any:
        count = torch.nonzero(x > 0.3 * i).shape[0]
        return i + 1, total + torch.arange(count).sum() + torch.ones(count, 2).sum().long()

    return while_loop(lambda i, total: i < 3, body, (torch.tensor(0), torch.tensor(0)))


def _of_short_scan(x: Tensor) -> Any:
    def step(total: Tensor, row: Tensor) -> Any:
        total = total + row[row > 0].sum()
        return total, total.clone()

    return scan(step, torch.tensor(0.0), x[:3])


def _of_a_long_scan(x: Tensor) -> Any:
    def step(total: Tensor, row: Tensor) -> Any:
        total = total + row[row > 0].sum()
        return total, total.clone()

    return scan(step, torch.tensor(0.0), x.repeat(4, 1))


def _of_a_map(x: Tensor) -> Any:
    return mapped(lambda row: row[row > 0].exp().sum(), x.repeat(3, 1))


#: Torch itself ends the capture of a size within a scan or a map up to 2.11 at least ("pending unbacked symbols").
_OLD = torch.__version__ < (2, 13)
MODELS: dict[str, Callable[..., Any]] = {
    name.removeprefix("_"): model
    for name, model in sorted(globals().items())
    if name.startswith("_of_") and not (_OLD and name.endswith(("_scan", "_map")))
}


def calls(*shape: int) -> list[tuple[Tensor]]:
    generator = seeded()
    x = torch.randn(*shape, generator=generator)
    return [(x,), (x.abs() + 0.1,), (-x.abs() - 0.1,), *((torch.randn(*shape, generator=generator),) for _ in range(4))]


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_as_eager(name: str) -> None:
    check(MODELS[name], calls(5, 4))


@pytest.mark.parametrize("name", ["of_one_branch", "of_both_branches", "of_a_while", "of_a_range"])
@torch.no_grad()
def test_of_named_sizes(name: str) -> None:
    generator = seeded()
    given = [(torch.randn(n, 4, generator=generator),) for n in (5, 2, 17, 64)]
    check(MODELS[name], given, dynamic_shapes=({0: torch.export.Dim("b", max=64)},))


@torch.no_grad()
def test_on_several_threads() -> None:
    check(_of_a_while, calls(300, 200), threads=2)


def _first(x: Tensor, n: Tensor) -> Any:
    """A number of a loop's step, as a size."""

    def body(i: Tensor, total: Tensor) -> Any:
        count = i.item()
        torch._check(count >= 0)
        torch._check(count <= x.shape[0])
        return i + 1, total + x[:count].sum()

    return while_loop(lambda i, total: i < n, body, (torch.tensor(0), torch.tensor(0.0)))


@torch.no_grad()
def test_a_number_of_a_step() -> None:
    x = torch.randn(5, generator=seeded())
    check(_first, [(x, torch.tensor(n)) for n in (3, 0, 6)])
    with pytest.raises(sl.UserError, match=r"u0.*is 6 but must be in \[0, 5\]"):
        sl.compile(_first, (x, torch.tensor(3)))(x, torch.tensor(8))


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_for_a_device(name: str) -> None:
    sl.compile(MODELS[name], (torch.randn(5, 4),), target="cuda:sm_90", allow=["cuda"])


@torch.no_grad()
def test_a_size_that_a_branch_gives() -> None:
    """Both branches find a size of their own; the result's has no name that a program computes."""
    with pytest.raises(sl.UnsupportedError, match=r"cond.*\n?.*a size depends on data"):
        sl.compile(lambda x: torch.cond(x.sum() > 0, lambda x: x[x > 0], lambda x: x[x < 0], (x,)), (torch.randn(7),))
