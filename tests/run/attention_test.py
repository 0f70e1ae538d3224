# SPDX-License-Identifier: Apache-2.0
"""Attention over a cache and what is new: random heads, masks and cuts; the parts are read where they are."""

from __future__ import annotations

import random

import pytest
import straightline as sl
import torch
from policy import check
from torch import Tensor, nn
from torch.nn import functional as F


class Grow(nn.Module):
    """Keys and values of a cache, of which the oldest may fall off, with new ones behind them."""

    def __init__(self, cut: bool, transposed: bool, groups: int) -> None:
        super().__init__()
        self.cut, self.transposed, self.groups = cut, transposed, groups

    def forward(self, q: Tensor, keys: Tensor, values: Tensor, key: Tensor, value: Tensor, *mask: Tensor) -> Tensor:
        """Takes q [b, h, s, d], keys [b, hk, t, d], key [b, hk, n, d], or with tokens and heads exchanged."""
        if self.cut:
            keys, values = keys[:, :, 1:], values[:, :, 1:]
        if self.transposed:
            key, value = key.transpose(1, 2), value.transpose(1, 2)
        keys, values = torch.cat((keys, key), 2), torch.cat((values, value), 2)
        return 2 * F.scaled_dot_product_attention(q, keys, values, *mask, enable_gqa=self.groups > 1)


@pytest.mark.parametrize("number", range(12))
def test_a_cache_and_what_is_new(number: int) -> None:
    seed = random.randrange(1 << 31)
    print(f"seed {seed}")
    pick = random.Random(seed).choice
    torch.manual_seed(seed)
    b, heads, groups, d = pick([1, 2]), pick([1, 2, 3]), pick([1, 2, 4, 7]), pick([8, 16, 20, 64])
    s, old, new = pick([1, 1, 2, 5]), pick([1, 15, 16, 63, 64, 65, 200]), pick([1, 1, 2, 17, 70])
    model = Grow(pick([False, True]), pick([False, True]), groups)
    t = old + new - model.cut
    fresh = (b, new, heads, d) if model.transposed else (b, heads, new, d)
    inputs = [
        torch.randn(b, heads * groups, s, d),
        *(torch.randn(b, heads, old, d) for _ in "kv"),
        *(torch.randn(fresh) for _ in "kv"),
    ]
    inputs += pick(
        [[], [torch.rand(b, heads * groups, s, t) < 0.7], [torch.rand(s, t) < 0.7], [torch.randn(b, 1, s, t)]]
    )
    compiled = check(model, tuple(inputs), threads=1 + number % 2)
    rows = [row for row in compiled.explain().statements if row["phase"] == "run"]
    assert not any(row["op"] == "cat" for row in rows), [row["op"] for row in rows]


class Step(nn.Module):
    """Attention over all keys, with or without a mask."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        """Takes q [b, h, s, d], k and v [b, h, t, d]."""
        return F.scaled_dot_product_attention(q, k, v, mask)


@pytest.mark.parametrize("d", [16, 20, 64, 80])
@pytest.mark.parametrize("named", ["keys", "both"])
@pytest.mark.parametrize("masked", [False, True])
def test_few_queries_over_a_named_number_of_keys(d: int, named: str, masked: bool) -> None:
    """Up to four queries read keys where they lie; a program of every number of queries has both ways."""

    def inputs(s: int, t: int) -> tuple[Tensor, ...]:
        keeps = torch.rand(1, 1, s, t) < 0.7
        keeps[..., 0] = True
        return (
            torch.randn(2, 3, s, d),
            torch.randn(2, 3, t, d),
            torch.randn(2, 3, t, d),
            *([keeps] if masked else []),
        )

    t = torch.export.Dim("t", min=2, max=4096)
    s = torch.export.Dim("s", min=1, max=64) if named == "both" else None
    dims = [{2: s} if s is not None else None, {2: t}, {2: t}]
    masks = [{2: s, 3: t} if s is not None else {3: t}] if masked else []
    queries = [1, 3, 4, 5, 9, 50] if named == "both" else [1]
    keys = [2, 15, 16, 17, 255, 256, 257, 700]
    compiled = sl.compile(Step(), inputs(queries[-1], 9), dynamic_shapes=(*dims, *masks))
    few = 4 if named == "both" else 1
    if torch.get_default_device().type == "cpu":  # the tunable is of the CPU's kernel
        assert f"few = {few}" in compiled.ir("kernel")
    for some in queries:
        for many in keys:
            given = inputs(some, many)
            wanted = Step()(*(x.double() if x.is_floating_point() else x for x in given))
            torch.testing.assert_close(compiled(*given).double(), wanted, rtol=1e-5, atol=2e-6)


class Attend(nn.Module):
    """Of any type; queries may share keys."""

    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *mask: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(
            q, k, v, *mask, is_causal=self.causal, enable_gqa=q.shape[1] != k.shape[1]
        )


@pytest.mark.parametrize(
    ("heads", "shared", "s", "mask", "causal"),
    [(4, 2, 1, None, False), (3, 3, 5, None, True), (2, 1, 40, torch.bool, False), (2, 2, 3, torch.float64, False)],
)
def test_float64_is_products(heads: int, shared: int, s: int, mask: torch.dtype | None, causal: bool) -> None:
    """No kernel sums in float64, and none is torch's. A mask that keeps nothing of a row gives 0."""
    inputs = [torch.randn(2, h, n, 24, dtype=torch.float64) for h, n in ((heads, s), (shared, 70), (shared, 70))]
    if mask is not None:
        keep = torch.rand(s, 70) < 0.7
        keep[s // 2] = False
        inputs.append(keep if mask is torch.bool else torch.zeros(s, 70, dtype=mask).masked_fill_(~keep, -torch.inf))
    compiled = check(Attend(causal), tuple(inputs))
    rows = [row for row in compiled.explain().statements if row["phase"] == "run"]
    assert {row["family"] for row in rows} >= {"row_reduction"} and not any(row["backend"] == "aten" for row in rows)


@pytest.mark.parametrize("heads", [(2, 4), (4, 2), (2, 1), (1, 4)])
def test_keys_and_values_of_different_numbers_of_heads(heads: tuple[int, int]) -> None:
    """Of one, each is repeated for the queries by itself; the module did not verify."""
    q, k, v = (torch.randn(2, h, 5, 16) for h in (4, *heads))
    check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), (q, k, v))
