# SPDX-License-Identifier: Apache-2.0
"""Tensors without elements, of fixed sizes: a batch of none, no tokens, no channels. Named sizes are in tests of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import straightline as sl
import torch
import torch.nn.functional as F
from cuda_on_host import run_on_host
from policy import check, check_close
from torch import Tensor, nn
from torch.utils import _pytree as pytree

_Row = Callable[[Tensor], Any]

#: Of three dims.
_OURS: list[_Row] = [
    lambda x: x.relu().amin(1), lambda x: x.relu().amax(0), lambda x: (x * 2).sum(1), lambda x: (x * 2).sum((0, 2)), lambda x: (x * 2).sum(),
    lambda x: x.mean(), lambda x: x.mean(1), lambda x: x.var(1), lambda x: x.exp().std((1, 2)), lambda x: x.prod(2), lambda x: (x > 0).any(1),
    lambda x: (x > 0).all(0), lambda x: x.argmax(1), lambda x: x.exp().argmin(2), lambda x: x.exp().norm(dim=1), lambda x: x.exp().logsumexp(1),
    lambda x: x.exp().softmax(-1), lambda x: x.exp().softmax(1), lambda x: x.log_softmax(0), lambda x: x.masked_fill(x > 0, -1e9).softmax(1).sum(1),
    lambda x: F.layer_norm(x.exp(), x.shape[-1:]), lambda x: F.layer_norm(x.exp(), x.shape[-1:]).amax(1), lambda x: F.rms_norm(x.exp(), x.shape[-1:]),
    lambda x: F.group_norm(x.exp(), 1), lambda x: F.instance_norm(x.exp()), lambda x: x.exp().cumsum(1).sin(), lambda x: x.cumsum(0),
    lambda x: x.exp().permute(2, 0, 1).abs(), lambda x: x.exp().permute(2, 0, 1).reshape(-1).abs(), lambda x: x.flip(1).exp(),
    lambda x: x.exp().movedim(0, 2).cumsum(0), lambda x: x.exp()[:, 1:].sin().amax(2), lambda x: x.exp()[..., ::2].sum(1), lambda x: x.exp().roll(1, 1).sin(),
    lambda x: torch.cat([x, x.exp()], 1).sin(), lambda x: torch.cat([x, x.exp()], 0)[..., :1] * 2, lambda x: torch.stack([x, x.exp()], 1).sum(1),
    lambda x: F.pad(x, (1, 1)), lambda x: F.pad(x.exp(), (1, 1, 2, 0)).sin(), lambda x: x.exp().repeat(2, 1, 1).sum(1), lambda x: torch.tril(x.exp()),
    lambda x: torch.where(x > 0, x, x.exp()), lambda x: torch.where(x[..., :1] > 0, x[0:0].sum(), x.new_ones(1)), lambda x: F.glu(x.exp(), 1),
    lambda x: (x.exp()[:, :, None] * x.new_ones(3, 1)).sum(2).sin(), lambda x: x.exp().expand(2, *x.shape).reshape(-1).sin(), lambda x: x.exp().diff(dim=1),
    lambda x: x.exp().reshape(x.shape[0] * x.shape[1], x.shape[2]).t().sin(), lambda x: x.exp().double().sum(2).float().sin(),
    lambda x: x.exp().chunk(2, 1)[0].sin(), lambda x: x.exp().unbind(1)[0].sin(),
    lambda x: F.embedding((x > 0).long(), x.new_ones(2, 3)).sum(1), lambda x: x.exp().gather(1, (x > 0).long()),
    lambda x: x.exp() @ x.new_ones(x.shape[2], 4), lambda x: x.exp() @ x.mT, lambda x: x.mT @ x.exp(), lambda x: (x.exp().mT @ x).softmax(-1),
    lambda x: torch.einsum("abc,abd->cd", x.exp(), x), lambda x: F.linear(x.sin(), x.new_ones(3, x.shape[2]), x.new_ones(3)).relu(),
    lambda x: F.linear(x.sin(), x.new_ones(3, x.shape[2])), lambda x: F.linear(x, x.new_ones(0, x.shape[2]), x.new_ones(0)).relu(),
    lambda x: F.avg_pool1d(x.exp(), 2), lambda x: F.max_pool1d(x.exp(), 2).sin(), lambda x: F.adaptive_avg_pool1d(x.exp(), 1),
]  # fmt: skip
#: On a device these are torch's, or a library's.
_LIBRARIES: list[_Row] = [
    lambda x: F.one_hot((x > 0).long(), 2).sum(1), lambda x: x.exp().sort(1)[0].sin(), lambda x: x.exp().topk(1, 1)[0].sin(), lambda x: F.interpolate(x.exp(), scale_factor=2.0),
    lambda x: F.conv1d(x.exp(), x.new_ones(4, x.shape[1], 1), x.new_ones(4)).relu() if x.shape[1] else x * 2,
    lambda x: F.conv1d(x.exp(), x.new_ones(4, x.shape[1], 1)), lambda x: F.unfold(x.exp()[None], (1, 1)),
]  # fmt: skip


def _accepted(rows: list[_Row], x: Tensor) -> Callable[[Tensor], list[Any]]:
    """Those that eager takes, as one function."""

    def takes(row: _Row) -> bool:
        try:
            row(x)
        except (RuntimeError, IndexError, ValueError):
            return False
        return True

    left = [row for row in rows if takes(row)]
    assert left
    return lambda x: [row(x) for row in left]


_SHAPES = [(0, 5, 2), (5, 0, 2), (5, 2, 0), (0, 0, 3), (1, 0, 1), (0, 6, 40), (6, 40, 0)]


@pytest.mark.parametrize("shape", _SHAPES, ids=str)
def test_programs(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    check(_accepted(_OURS, x), (x,))
    check(_accepted(_LIBRARIES, x), (x,))


def test_rows_by_themselves() -> None:
    """A slot that nothing reads has a view right behind it: planning memory walked on into what it had erased (found by a random graph)."""
    check(lambda x: x.relu().amin(1), (torch.randn(0, 5, 2),))
    check(lambda x: (-x.relu().amax(1)).erf(), (torch.randn(0, 5, 2, dtype=torch.bfloat16),))


class _Of(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *given: Tensor) -> list[Tensor]:
        return [y.clone() for y in pytree.tree_leaves(self._function(*given))]


def _on_host(function: Callable[..., Any], given: tuple[Tensor, ...], folder: Path) -> None:
    """As a device's kernels, run on the host."""
    model = _Of(function)
    compiled = sl.compile(model, given, target="cuda:sm_90", routes={"linear": "cuda", "matmul": "cuda"})
    eager = pytree.tree_leaves(model(*given))
    exact = pytree.tree_leaves(model(*(x.double() for x in given)))
    got = tuple(torch.full_like(y, 5, memory_format=torch.contiguous_format) for y in eager)
    run_on_host(compiled, model, given, got, folder)
    for i, (mine, right, best) in enumerate(zip(got, eager, exact, strict=True)):
        if right.dtype.is_floating_point:
            check_close(mine, right, best, f"result {i}")
        else:
            assert torch.equal(mine, right), f"result {i}"


@pytest.mark.parametrize("shape", _SHAPES, ids=str)
def test_programs_for_a_device(shape: tuple[int, ...], tmp_path: Path) -> None:
    x = torch.randn(shape)
    _on_host(_accepted(_OURS, x), (x,), tmp_path)


#: Of queries, keys and values.
_ATTENTIONS = [
    ((0, 3, 4, 8), (0, 3, 5, 8), (0, 3, 5, 8)), ((2, 0, 4, 8), (2, 0, 5, 8), (2, 0, 5, 8)), ((2, 3, 0, 8), (2, 3, 5, 8), (2, 3, 5, 8)),
    ((2, 3, 4, 8), (2, 3, 0, 8), (2, 3, 0, 8)), ((2, 3, 4, 0), (2, 3, 5, 0), (2, 3, 5, 0)),
]  # fmt: skip


def _attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool)
    return (
        F.scaled_dot_product_attention(q, k, v),
        F.scaled_dot_product_attention(q, k, v, is_causal=True) + 1,
        F.scaled_dot_product_attention(q, k, v, attn_mask=mask),
    )


@pytest.mark.parametrize("shapes", _ATTENTIONS, ids=str)
def test_attention(shapes: tuple[tuple[int, ...], ...]) -> None:
    """To no key it gives zeros, as in eager."""
    check(_attend, tuple(map(torch.randn, shapes)))


@pytest.mark.parametrize("shapes", _ATTENTIONS, ids=str)
def test_attention_for_a_device(shapes: tuple[tuple[int, ...], ...], tmp_path: Path) -> None:
    _on_host(_attend, tuple(map(torch.randn, shapes)), tmp_path)
