# SPDX-License-Identifier: Apache-2.0
"""Diagonals, triangles and writes to parts of a tensor against eager: random sizes, also 0, layouts, types; no call of torch on either target."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from cuda_on_host import run_on_host
from policy import check
from resize_test import aten_ops, rng  # noqa: F401  (rng is a fixture)
from torch import Tensor, nn

import straightline as sl

_TYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool]
Case = tuple[Callable[..., Any], tuple[Tensor, ...]]


class _Model(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *args: Tensor) -> Any:
        return self._function(*args)


def tensor(rng: random.Random, shape: list[int], dtype: torch.dtype) -> Tensor:  # noqa: F811
    """Dims lie in memory in any order."""
    order = rng.sample(range(len(shape)), len(shape))
    x = torch.randn([shape[d] for d in order]) * 3
    x = x.abs() if dtype == torch.uint8 else x
    return (x > 0 if dtype == torch.bool else x.to(dtype)).permute([order.index(d) for d in range(len(shape))])


def sizes(rng: random.Random, rank: int, least: int = 0) -> list[int]:  # noqa: F811
    return [max(rng.choice([0, 1, 2, 3, 5, 7, 11]), least) for _ in range(rank)]


def number(rng: random.Random, dtype: torch.dtype) -> Any:  # noqa: F811
    return (
        rng.choice([0, 1, 3, -2.5])
        if dtype.is_floating_point
        else rng.random() < 0.5
        if dtype == torch.bool
        else rng.choice([0, 2])
    )


def _diagonal(rng: random.Random, dtype: torch.dtype) -> Case:  # noqa: F811
    shape = sizes(rng, rng.randint(2, 4))
    dims, offset = rng.sample(range(len(shape)), 2), rng.choice([0, 0, 1, -1, 2, -3])
    if not -shape[dims[0]] <= offset <= shape[dims[1]]:
        offset = 0
    dims[1] -= len(shape) * rng.randint(0, 1)
    x, value = tensor(rng, shape, dtype), number(rng, dtype)
    source = tensor(rng, list(x.diagonal(offset, *dims).shape), dtype)

    def function(x: Tensor, source: Tensor) -> tuple[Tensor, ...]:
        filled = x.clone()
        filled.diagonal(offset, *dims).fill_(value)
        part = x.diagonal(offset, *dims)
        return part.clone(), torch.diagonal_scatter(x, source, offset, *dims), filled

    return function, (x, source)


def _fill_diagonal(rng: random.Random, dtype: torch.dtype) -> Case:  # noqa: F811
    shape = sizes(rng, 2) if rng.random() < 0.6 else sizes(rng, 1) * 3
    value, wrap = number(rng, dtype), rng.random() < 0.5
    x = tensor(rng, shape, dtype)
    if wrap:  # eager's place to begin anew is right for C strides without offset only, in dims of size 1 too
        x = x.clone(memory_format=torch.contiguous_format)

    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        part = y.clone()
        part[1].fill_diagonal_(value)
        return x.clone().fill_diagonal_(value, wrap), part

    return function, (x, tensor(rng, [2, *sizes(rng, 2)], dtype))


def _triangles(rng: random.Random, dtype: torch.dtype) -> Case:  # noqa: F811
    shape, offset = sizes(rng, rng.randint(1, 3)), rng.randint(-3, 3)
    dims = rng.sample(range(len(shape) + 1), 2)

    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        lower, upper = y.clone(), y.clone()
        lower.transpose(0, 2).tril_(offset)
        upper[:, 1:].triu_(offset)
        return torch.diag_embed(x, offset, *dims), lower, upper

    return function, (tensor(rng, shape, dtype), tensor(rng, sizes(rng, 3), dtype))


def _parts(rng: random.Random, dtype: torch.dtype) -> Case:  # noqa: F811
    shape = sizes(rng, rng.randint(1, 4), 1)
    dim = rng.randrange(len(shape))
    index, start, step = rng.randrange(-shape[dim], shape[dim]), rng.choice([None, 0, 1, -2, 50]), rng.randint(1, 3)
    x, value = tensor(rng, shape, dtype), number(rng, dtype)
    part = x.movedim(dim, 0)[slice(start, None, step) if start is None or start >= 0 else slice(max(start + shape[dim], 0), None, step)].movedim(0, dim)  # fmt: skip
    mask = tensor(rng, [1 if rng.random() < 0.3 else size for size in part.shape], torch.bool)

    def function(x: Tensor, row: Tensor, rows: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        filled = x.clone()
        filled.movedim(dim, 0)[slice(start, None, step)].movedim(0, dim).masked_fill_(mask, value)
        return torch.select_scatter(x, row, dim, index), torch.slice_scatter(x, rows, dim, start, None, step), filled

    return function, (x, tensor(rng, list(x.select(dim, 0).shape), dtype), tensor(rng, list(part.shape), dtype), mask)


def _indexed(rng: random.Random, dtype: torch.dtype) -> Case:  # noqa: F811
    shape = sizes(rng, rng.randint(1, 4), 1)
    dim = rng.randrange(len(shape))
    places = torch.randperm(shape[dim])[: rng.randint(0, shape[dim])]
    value, below = number(rng, dtype), rng.choice([0, shape[dim]])
    x, rows = tensor(rng, shape, dtype), tensor(rng, [*shape[:dim], len(places), *shape[dim + 1 :]], dtype)

    def function(x: Tensor, places: Tensor, rows: Tensor, one: Tensor) -> tuple[Tensor, ...]:
        added = x if dtype == torch.bfloat16 else x.index_add(dim, places, rows)  # eager rounds each sum
        return x.clone().index_fill_(dim - len(shape), places - below, value), x.index_fill(dim, places - below, one), x.index_copy(dim, places, rows), added  # fmt: skip

    return function, (x, places, rows, tensor(rng, [], dtype))


_CASES = {
    "diagonal": _diagonal,
    "fill_diagonal": _fill_diagonal,
    "triangles": _triangles,
    "parts": _parts,
    "indexed": _indexed,
}


@pytest.mark.parametrize("dtype", _TYPES, ids=str)
@pytest.mark.parametrize("name", _CASES)
def test_matches_eager(name: str, dtype: torch.dtype, rng: random.Random) -> None:  # noqa: F811
    for _ in range(4):
        function, args = _CASES[name](rng, dtype)
        print([(list(x.shape), x.stride()) for x in args], dict(zip(function.__code__.co_freevars, (c.cell_contents for c in function.__closure__ or ()))))  # fmt: skip
        compiled = check(function, args)
        assert not aten_ops(compiled)
        for got, want in zip(compiled(*args), function(*args), strict=True):
            if "index" not in name or not dtype.is_floating_point:
                assert torch.equal(got, want)


@pytest.mark.parametrize("name", _CASES)
def test_for_a_device(name: str, tmp_path: Any, rng: random.Random) -> None:  # noqa: F811
    for _ in range(3):
        function, args = _CASES[name](rng, rng.choice(_TYPES))
        assert not aten_ops(sl.compile(_Model(function), args, target="cuda:sm_90"))
    function, args = _CASES[name](rng, torch.float32)
    while 0 in [x.numel() for x in (*args, *function(*args))]:
        function, args = _CASES[name](rng, torch.float32)
    model, expected = _Model(function), function(*args)
    got = tuple(torch.empty_like(y, memory_format=torch.contiguous_format) for y in expected)
    run_on_host(sl.compile(model, args, target="cuda:sm_80"), model, args, got, tmp_path)
    torch.testing.assert_close(got, expected)


def test_named_sizes(rng: random.Random) -> None:  # noqa: F811
    n = torch.export.Dim("n", min=2, max=40)

    def function(x: Tensor, places: Tensor) -> tuple[Tensor, ...]:
        return x.index_fill(0, places, 1.5), x.transpose(0, 1).clone().index_fill_(1, places, -1.0)

    calls = [(torch.randn(rows, 3), torch.tensor([-1, 0])) for rows in (5, 2, 40)]
    compiled = check(function, calls[0], calls=calls, dynamic_shapes=({0: n}, None))
    assert not aten_ops(compiled)


def test_a_diagonal_of_named_sizes() -> None:
    """Of as many elements as the smaller size, by torch's op."""
    n = torch.export.Dim("n", min=2, max=40)
    calls = [(torch.randn(rows, 5),) for rows in (7, 2, 4, 5, 6, 40)]
    compiled = check(lambda x: x.diagonal() * 2, calls[0], calls=calls, dynamic_shapes=({0: n},))
    assert aten_ops(compiled) == ["aten.diagonal.default"]


def test_an_index_beyond_the_dim() -> None:
    compiled = sl.compile(lambda x, i: x.index_fill(0, i, 1.0), (torch.zeros(4), torch.tensor([1])))
    for place in (4, -5):
        with pytest.raises(IndexError, match="out of range"):
            compiled(torch.zeros(4), torch.tensor([place]))
    assert torch.equal(compiled(torch.zeros(4), torch.tensor([-4])), torch.tensor([1.0, 0, 0, 0]))
