# SPDX-License-Identifier: Apache-2.0
"""A token with a static cache for a CUDA device, as `transformers` exports one: how many launches, and (on the host) what they compute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from cuda_on_host import compare, run_on_host
from statements import launches_of
from torch import Tensor, nn
from torch.nn import functional as F

import straightline as sl

_TARGET = "cuda:sm_90"
_OWN = {"linear": "cuda", "matmul": "cuda"}


def _norm(x: Tensor, weight: Tensor) -> Tensor:
    wide = x.float()
    return weight * (wide * torch.rsqrt((wide * wide).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


class _Layer(nn.Module):
    def __init__(self, dim: int, heads: int, kv_heads: int, size: int, tokens: int, normed: bool) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.size, self.normed = heads, kv_heads, size, normed
        self.q, self.k, self.v = (nn.Linear(dim, n * size, bias=False) for n in (heads, kv_heads, kv_heads))
        self.o = nn.Linear(heads * size, dim, bias=False)
        self.gate, self.up, self.down = (
            nn.Linear(dim, 2 * dim, bias=False),
            nn.Linear(dim, 2 * dim, bias=False),
            nn.Linear(2 * dim, dim, bias=False),
        )
        for name, count in (("before", dim), ("after", dim), ("of_q", size), ("of_k", size)):
            self.register_parameter(name, nn.Parameter(torch.rand(count) + 0.5))
        self.register_buffer("keys", torch.randn(1, kv_heads, tokens, size))
        self.register_buffer("values", torch.randn(1, kv_heads, tokens, size))
        self.register_buffer("length", torch.zeros((), dtype=torch.int64))

    def _rotary(self, x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = (_norm(x, weight) if self.normed else x).transpose(1, 2)
        low, high = x.chunk(2, -1)
        return x * cos[:, None] + torch.cat((-high, low), -1) * sin[:, None]

    def forward(self, x: Tensor, at: Tensor, mask: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        y = _norm(x, self.before)
        q = self._rotary(self.q(y).view(1, 1, self.heads, self.size), self.of_q, cos, sin)
        k = self._rotary(self.k(y).view(1, 1, self.kv_heads, self.size), self.of_k, cos, sin)
        v = self.v(y).view(1, 1, self.kv_heads, self.size).transpose(1, 2)
        self.keys.index_copy_(2, at, k)
        self.values.index_copy_(2, at, v)
        self.length.copy_(at[0] + 1)
        a = F.scaled_dot_product_attention(q, self.keys, self.values, mask, enable_gqa=True)
        x = x + self.o(a.transpose(1, 2).reshape(1, 1, -1))
        y = _norm(x, self.after)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decode(nn.Module):
    """A decode step with the head; the tables of the rotary embedding and the mask are made of the position."""

    def __init__(self, layers: int, tokens: int = 40, normed: bool = True, size: int = 32) -> None:
        super().__init__()
        dim, heads = 4 * size, 4
        self.tokens, self.embedding = tokens, nn.Embedding(50, dim)
        self.layers = nn.ModuleList(_Layer(dim, heads, 2, size, tokens, normed) for _ in range(layers))
        self.register_buffer("frequencies", 1.0 / 100 ** (torch.arange(0, size, 2) / size))
        self.last = nn.Parameter(torch.rand(dim) + 0.5)
        self.head = nn.Linear(dim, 60, bias=False)

    def forward(self, token: Tensor, at: Tensor) -> Tensor:
        x = self.embedding(token)
        position = torch.arange(1, device=token.device) + at
        mask = (torch.arange(self.tokens, device=token.device) <= position[:, None])[None, None]
        angle = position[:, None].float() * self.frequencies.float()
        angle = torch.cat((angle, angle), -1)[None]
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        for layer in self.layers:
            x = layer(x, position, mask, cos, sin)
        return self.head(_norm(x, self.last))


def _families(rows: list[dict[str, Any]]) -> list[list[str]]:
    return [[part["family"] for part in row.get("parts", [row])] for row in rows]


def _given() -> tuple[Tensor, Tensor]:
    return torch.tensor([[7]]), torch.tensor([17])


@pytest.mark.parametrize("normed", [True, False])
@pytest.mark.parametrize("layers", [1, 3])
def test_six_launches_a_layer(layers: int, normed: bool) -> None:
    """And two beside the layers, however many states have the length."""
    compiled = sl.compile(Decode(layers, normed=normed).bfloat16().eval(), _given(), target=_TARGET, routes=_OWN)
    families = _families(launches_of(compiled))
    assert len(families) == 6 * layers + 2, families
    assert sorted(families[0]) == ["gather_rows", "pointwise", "pointwise", "pointwise"], "token, mask, tables, lengths"
    each = ["row_reduction"] * 2 if normed else ["pointwise"] * 2
    for layer in range(layers):
        assert families[1 + 6 * layer + 1] == [*each, "scatter_rows"], "the value's row is copied beside the key's"
        assert families[1 + 6 * layer + 2] == ["attention"]
    assert "sl::rowAt(" in compiled.code


@pytest.mark.parametrize("normed", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_decode_step(dtype: torch.dtype, normed: bool, tmp_path: Path) -> None:
    compare(Decode(2, normed=normed).to(dtype), _given(), tmp_path, _OWN, target=_TARGET)


class _Put(nn.Module):
    """`cache[:, :, at] = k`, with a number below 0 too."""

    def __init__(self, kept: bool = False) -> None:
        super().__init__()
        self.kept = kept
        self.register_buffer("keys", torch.randn(1, 3, 9, 20))

    def forward(self, x: Tensor, at: Tensor) -> tuple[Tensor, ...]:
        k = x.tanh()
        self.keys[:, :, at] = k
        return (self.keys + 1, k) if self.kept else (self.keys + 1,)


@pytest.mark.parametrize("place", [0, 8, -1, -9])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_a_row_by_assignment(dtype: torch.dtype, place: int, tmp_path: Path) -> None:
    given = (torch.randn(1, 3, 1, 20), torch.tensor([place], dtype=dtype))
    rows = compare(_Put(), given, tmp_path, _OWN, target=_TARGET)
    assert not {"scatter_rows", "scatter_nd"} & {family for row in _families(rows) for family in row}


def test_a_value_with_another_reader_is_copied(tmp_path: Path) -> None:
    rows = compare(_Put(True), (torch.randn(1, 3, 1, 20), torch.tensor([4])), tmp_path, _OWN, target=_TARGET)
    assert sum(family.startswith("scatter_") for row in _families(rows) for family in row) == 1


class _Row(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.randn(9, 20))

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        self.keys.index_copy_(0, at, x.tanh())
        return self.keys + 1


@pytest.mark.parametrize("place", [9, -1, 2**40])
def test_a_number_outside_ends_the_kernel(place: int, tmp_path: Path) -> None:
    model = _Row().eval()
    compiled = sl.compile(model, (torch.randn(1, 20), torch.tensor([3])), target=_TARGET)
    assert "sl::rowAt(o0, a1, 9, 20)" in compiled.code
    given = (torch.randn(1, 20), torch.tensor([place]))
    with pytest.raises(AssertionError, match="an index lies outside of what is indexed"):
        run_on_host(compiled, model, given, (torch.empty(9, 20),), tmp_path)


def test_on_a_cpu_the_row_is_copied() -> None:
    compiled = sl.compile(_Row().eval(), (torch.randn(1, 20), torch.tensor([3])))
    assert "scatter_rows" in {row["family"] for row in launches_of(compiled)}
    assert "parts" not in launches_of(compiled)[0]
