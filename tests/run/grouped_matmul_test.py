# SPDX-License-Identifier: Apache-2.0
"""Products of groups (mixtures of experts) against eager: which rows belong to which matrix is data. No call of torch is left."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from cuda_on_host import compare
from policy import check
from resize_test import aten_ops, rng  # noqa: F401  (rng is a fixture)
from statements import launches_of
from torch import Tensor, nn

import straightline as sl
from straightline.testing.groups import grouped

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16


class Grouped(nn.Module):
    """Rows by groups; the matrices as they are, or turned as `transformers` has them."""

    def __init__(self, turned: bool) -> None:
        super().__init__()
        self._turned = turned

    def forward(self, x: Tensor, w: Tensor, ends: Tensor) -> Tensor:
        return grouped(x, w.transpose(-2, -1) if self._turned else w, ends)


def ends_of(rng: random.Random, groups: int, rows: int) -> Tensor:  # noqa: F811
    """Ends of groups, some of which are empty; the last one has the last row, for eager leaves what is behind it unset."""
    cuts = sorted(rng.choice([0, rows, rng.randint(0, rows), rng.randint(0, rows)]) for _ in range(groups - 1))
    return torch.tensor([*cuts, rows])


def operands(rng: random.Random, dtype: torch.dtype, turned: bool) -> tuple[Tensor, Tensor, Tensor]:  # noqa: F811
    """Strides are multiples of 16 bytes, as eager wants them."""
    groups, rows, k, n = rng.randint(1, 40), rng.randint(1, 150), 8 * rng.randint(1, 20), 8 * rng.randint(1, 20)
    x = torch.randn(rows, k + 8, dtype=dtype)[:, :k]
    w = torch.randn(groups, n, k, dtype=dtype) if turned else torch.randn(groups, k, n, dtype=dtype)
    print(f"{groups} groups of {rows} rows, k {k}, n {n}")
    return x, w, ends_of(rng, groups, rows)


@pytest.mark.parametrize("dtype", [F32, BF16, F16])
@pytest.mark.parametrize("turned", [False, True])
def test_rows(turned: bool, dtype: torch.dtype, rng: random.Random) -> None:  # noqa: F811
    for _ in range(3):
        compiled = check(Grouped(turned), operands(rng, dtype, turned))
        assert not aten_ops(compiled)
        assert [row["family"] for row in launches_of(compiled)].count("grouped_matmul") == 1


@pytest.mark.parametrize("dtype", [F32, BF16, F16])
@pytest.mark.parametrize("turned", [False, True])
def test_rows_for_a_device(turned: bool, dtype: torch.dtype, tmp_path: Any, rng: random.Random) -> None:  # noqa: F811
    compare(Grouped(turned), operands(rng, dtype, turned), tmp_path, {})


def test_many_groups_for_a_device(tmp_path: Any, rng: random.Random) -> None:  # noqa: F811
    groups, rows = rng.randint(60, 130), rng.randint(100, 300)
    inputs = (torch.randn(rows, 32), torch.randn(groups, 16, 32), ends_of(rng, groups, rows))
    compare(Grouped(True), inputs, tmp_path, {})


def test_other_ends_and_sizes_of_a_call(rng: random.Random) -> None:  # noqa: F811
    calls = []
    for rows in (1, 7, 64, 200):
        calls.append((torch.randn(rows, 24), torch.randn(9, 40, 24), ends_of(rng, 9, rows)))
    dynamic = {"x": {0: torch.export.Dim("rows", min=1, max=256)}, "w": None, "ends": None}
    compiled = check(Grouped(True), calls[2], calls=calls, dynamic_shapes=dynamic)
    assert not aten_ops(compiled)


def test_rows_behind_the_last_group_are_zero() -> None:
    x, w = torch.randn(50, 16), torch.randn(3, 16, 8)
    # As slices take them. On a device blocks of groups that overlap write in any order.
    overlapping = [] if x.is_cuda else [[10, 3, 30], [-48, -90, -2]]
    for ends in ([5, 5, 20], [0, 0, 0], [60, 70, 80], *overlapping):
        y = sl.compile(Grouped(False), (x, w, torch.tensor([1, 2, 3])))(x, w, torch.tensor(ends))
        expected, first = torch.zeros_like(y), 0
        for g, end in enumerate(ends):
            expected[first:end] = x[first:end] @ w[g]
            first = end
        torch.testing.assert_close(y, expected)


def test_columns_and_matrices(rng: random.Random) -> None:  # noqa: F811
    columns = 8 * ends_of(rng, 5, 9)  # eager's kernel for a device asserts groups of whole 16 bytes

    class Others(nn.Module):
        def forward(self, x: Tensor, y: Tensor, z: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
            if x.dtype == torch.float64:  # the reference, which torch's op does not take
                first, parts = 0, []
                for matrix, end in zip(x, ends.tolist(), strict=True):
                    parts.append(matrix @ y[:, first:end])
                    first = end
                return torch.cat(parts, 1), x @ z
            return torch._grouped_mm(x, y, offs=ends.int()), torch._grouped_mm(x, z)

    inputs = (*(torch.randn(sizes, dtype=BF16) for sizes in ((5, 12, 16), (16, 72), (5, 16, 24))), columns)
    assert not aten_ops(check(Others(), inputs))


class Experts(nn.Module):
    """As `transformers` runs them: tokens sorted by expert, two products of groups, sorted back and summed."""

    def __init__(self, experts: int, width: int, hidden: int, best: int) -> None:
        super().__init__()
        self._experts, self._best = experts, best
        self.gate = nn.Linear(width, experts, bias=False)
        self.gate_up = nn.Parameter(torch.randn(experts, 2 * hidden, width) * width**-0.5)
        self.down = nn.Parameter(torch.randn(experts, width, hidden) * hidden**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        weights, places = torch.topk(F.softmax(self.gate(x), -1, dtype=torch.float32), self._best)
        expert = places.reshape(-1)
        token = torch.arange(x.shape[0], device=x.device).unsqueeze(1).expand(-1, self._best).reshape(-1)
        order = torch.argsort(expert, stable=True)
        back = torch.argsort(order, stable=True)
        rows = torch.histc(expert[order].float(), bins=self._experts, min=0, max=self._experts - 1)
        ends = torch.cumsum(rows, 0, dtype=torch.int32)
        both = grouped(x[token][order], self.gate_up.transpose(-2, -1), ends)
        gate, up = both.chunk(2, dim=-1)
        y = grouped(F.silu(gate) * up, self.down.transpose(-2, -1), ends)
        y = (y * weights.reshape(-1)[order].unsqueeze(-1).to(y.dtype))[back]
        return torch.zeros_like(x).index_add_(0, token, y.to(x.dtype))


@pytest.mark.parametrize("dtype", [F32, BF16])
def test_experts(dtype: torch.dtype, rng: random.Random) -> None:  # noqa: F811
    model = Experts(rng.randint(4, 12), 8 * rng.randint(2, 9), 8 * rng.randint(2, 9), 2).to(dtype).eval()
    x = torch.randn(rng.randint(1, 40), model.gate.in_features, dtype=dtype)
    print(model, list(x.shape))
    assert not aten_ops(check(model, (x,)))
    assert not aten_ops(sl.compile(model, (x,), target="cuda:sm_90"))


def ends_of_terms(rng: random.Random, groups: int, k: int) -> Tensor:  # noqa: F811
    """Ends of groups of terms: eager's kernel for a device asserts that each group has a multiple of 16 bytes."""
    step = 8 if torch.get_default_device().type == "cuda" else 1
    return step * ends_of(rng, groups, k // step)


class Terms(nn.Module):
    """A product for each group of terms, as the gradient of a mixture's weights."""

    def forward(self, x: Tensor, y: Tensor, ends: Tensor) -> Tensor:
        if x.dtype == torch.float64:  # the reference, which torch's op does not take
            parts, first = [], 0
            for end in ends.tolist():
                parts.append(x[:, first:end] @ y[first:end])
                first = end
            return torch.stack(parts)
        return torch._grouped_mm(x, y, offs=ends.int())


def terms_of(rng: random.Random, turned: bool) -> tuple[Tensor, Tensor, Tensor]:  # noqa: F811
    """Operands along their rows, or both along the terms as far as eager takes them; strides are multiples of 16 bytes."""
    groups, m, n, k = rng.randint(1, 40), 8 * rng.randint(1, 12), 8 * rng.randint(1, 12), 8 * rng.randint(1, 20)
    x = torch.randn(k, m + 8, dtype=BF16)[:, :m].t() if turned else torch.randn(m, k, dtype=BF16)
    y = torch.randn(n, k, dtype=BF16).t() if turned else torch.randn(k, n + 8, dtype=BF16)[:, :n]
    ends = ends_of_terms(rng, groups, k)
    print(f"[{m}, {k}] x [{k}, {n}], ends {ends.tolist()}")
    return x, y, ends


@pytest.mark.parametrize("turned", [False, True])
def test_terms(turned: bool, rng: random.Random) -> None:  # noqa: F811
    for _ in range(3):
        compiled = check(Terms(), terms_of(rng, turned))
        assert not aten_ops(compiled)
        assert [row["family"] for row in launches_of(compiled)].count("grouped_matmul") == 1


@pytest.mark.parametrize("turned", [False, True])
def test_terms_for_a_device(turned: bool, tmp_path: Any, rng: random.Random) -> None:  # noqa: F811
    compare(Terms(), terms_of(rng, turned), tmp_path, {})


def test_terms_of_ends_that_are_not_in_order() -> None:
    x, y = torch.randn(16, 40, dtype=BF16), torch.randn(40, 24, dtype=BF16)
    compiled = sl.compile(Terms(), (x, y, torch.tensor([1, 2, 40])))
    for ends in ([5, 5, 20], [0, 0, 0], [60, 70, 80], [10, 3, 30], [-38, -90, -2], [40, -40, 40]):
        torch.testing.assert_close(compiled(x, y, torch.tensor(ends)), Terms()(x, y, torch.tensor(ends)))


def test_terms_of_other_sizes(rng: random.Random) -> None:  # noqa: F811
    calls = [
        (torch.randn(m, 48, dtype=BF16), torch.randn(48, 16, dtype=BF16), ends_of_terms(rng, 5, 48))
        for m in (1, 8, 9, 70)
    ]
    dynamic = {"x": {0: torch.export.Dim("m", min=1, max=99)}, "y": None, "ends": None}
    assert not aten_ops(check(Terms(), calls[2], calls=calls, dynamic_shapes=dynamic))


def test_a_number_of_terms_that_is_named(rng: random.Random) -> None:  # noqa: F811
    """A CPU has no kernel for it, a device has."""
    k = torch.export.Dim("k", min=2, max=20)
    dynamic = {"x": {1: 8 * k}, "y": {0: 8 * k}, "ends": None}
    calls = [
        (torch.randn(16, k, dtype=BF16), torch.randn(k, 24, dtype=BF16), ends_of_terms(rng, 3, k))
        for k in (48, 16, 160)
    ]
    compiled = check(Terms(), calls[0], calls=calls, dynamic_shapes=dynamic)
    assert aten_ops(compiled) and "over the named extent" in str(compiled.explain())
    assert not aten_ops(sl.compile(Terms(), calls[0], dynamic_shapes=dynamic, target="cuda:sm_90"))
