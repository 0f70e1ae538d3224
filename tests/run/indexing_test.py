# SPDX-License-Identifier: Apache-2.0
"""Reads and writes at places that several index tensors have, by kernels of ours, compared with eager."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cuda_on_host import run_on_host
from policy import check, launches
from statements import families_of, launches_of
from torch import Tensor, nn

import straightline as sl


_put = torch.ops.aten.index_put  # takes None, as brackets do


def native(model: Callable[..., Any], args: tuple[Any, ...], family: str, count: int = 1, **options: Any) -> Any:
    """`check`, and `count` kernels of the family with nothing of torch's."""
    compiled = check(model, args, **options)
    rows = launches(compiled)
    assert families_of(rows).count(family) == count, rows
    assert all(row["backend"] != "aten" for row in rows), rows
    return compiled


def places(extent: int, *sizes: int, dtype: torch.dtype = torch.int64) -> Tensor:
    """Indices from both ends."""
    return torch.randint(-extent, extent, sizes).to(dtype)


def distinct(extent: int, count: int) -> Tensor:
    return torch.randperm(extent)[:count] - torch.randint(2, (count,)) * extent


# Reads ----------------------------------------------------------------------------------------------------------------

_READS: dict[str, Callable[..., Tensor]] = {
    "adjacent, first": lambda x, i, j, k: x[i, j],
    "adjacent, in the middle": lambda x, i, j, k: x[:, i, j],
    "adjacent, last": lambda x, i, j, k: x[:, :, i, j],
    "apart": lambda x, i, j, k: x[i, :, j],
    "apart, behind others": lambda x, i, j, k: x[:, i, :, j],
    "all dims": lambda x, i, j, k: x[i, j, i, j],
    "outer product": lambda x, i, j, k: x[i[:, None], j],
    "outer product, apart": lambda x, i, j, k: x[:, i[:, None, None], :, j[None, :, None]],
    "of unequal ranks": lambda x, i, j, k: x[k, i, j],
    "of a scalar": lambda x, i, j, k: torch.ops.aten.index(x, [i[0], None, j]),
    "new dims and slices": lambda x, i, j, k: x[1:, None, i, ::2, j],
    "an unsafe one": lambda x, i, j, k: torch.ops.aten._unsafe_index(x, [i, None, j]),
}


@pytest.mark.parametrize("name", _READS)
@pytest.mark.parametrize("threads", [1, 2])
def test_reads(name: str, threads: int) -> None:
    x = torch.randn(6, 5, 7, 5)
    native(_READS[name], (x, places(5, 9), places(5, 9), places(5, 3, 9)), "gather_nd", threads=threads)


def test_the_mask_of_transformers() -> None:
    """masking_utils.py: a padding mask of [batch, keys] at [batch, 1, 1, 1] and [keys], beside the causal one."""

    def model(mask: Tensor, hidden: Tensor) -> Tensor:
        batch, queries = torch.arange(mask.shape[0]), torch.arange(hidden.shape[1])
        keys = torch.arange(mask.shape[1])
        seen = keys <= queries[:, None]
        padded = mask[batch[:, None, None, None], keys]
        return torch.where(seen & padded, hidden[:, None, :, :1], -1e9)

    native(model, (torch.rand(3, 40) < 0.7, torch.randn(3, 40, 8)), "gather_nd", threads=2)


@pytest.mark.parametrize(
    "dtype",
    [torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.int16, torch.uint8, torch.bool],
)
@pytest.mark.parametrize("index", [torch.int64, torch.int32])
def test_types(dtype: torch.dtype, index: torch.dtype) -> None:
    x = torch.randint(0, 2, (6, 5, 40)).to(dtype)
    i, j = places(6, 4, 1, dtype=index), places(5, 7, dtype=index)
    native(lambda x, i, j: (x[i, j], x[i, :, j]), (x, i, j), "gather_nd", 2)
    values = torch.randint(0, 2, (4, 7, 40)).to(dtype)
    rows, columns = distinct(6, 4)[:, None].to(index), distinct(5, 5).to(index)
    native(lambda x, i, j, v: x.index_put((i, j), v[:, :5]), (x, rows, columns, values), "scatter_nd")


def test_tensors_of_different_types() -> None:
    x = torch.randn(6, 5)
    native(lambda x, i, j: x[i, j], (x, places(6, 4), places(5, 4, dtype=torch.int32)), "gather_nd")


def test_operands_where_they_lie() -> None:
    """Permuted, sliced and expanded operands are not copied; the result is written in its place."""
    x, i = torch.randn(8, 6, 9), places(6, 4)
    compiled = native(
        lambda x, i: torch.cat([x.permute(2, 0, 1)[:, i.expand(3, 4), i.flip(0)[None]], x[:, :3, :4].permute(2, 1, 0)[:, :3].repeat(3, 1, 1)[:9, :, :4]]),
        (x, i), "gather_nd",
    )  # fmt: skip
    assert not any(row["op"] == "clone" and row["phase"] == "run" for row in launches(compiled)[:1])
    native(lambda x, i: x[:, 1:5][i % 3, i % 3].t().contiguous(), (x, i), "gather_nd")


def test_empty() -> None:
    x = torch.randn(6, 5, 7)
    none = torch.zeros(0, dtype=torch.int64)
    check(lambda x, i: (x[i, i], x[i, :, i], x[:, i, i]), (x, none))
    check(lambda x, i: x[:, :0][i, :, i], (x, places(6, 4)))
    check(lambda x, i, v: x.index_put((i, i), v), (x, none, torch.randn(0, 7)))
    check(lambda x, i, v: x.index_put((i, i), v, accumulate=True), (x[..., :0], places(5, 3), torch.randn(3, 0)))


def test_named_sizes() -> None:
    """Of what is indexed, and of the index tensors."""
    rows, count = torch.export.Dim("rows", min=2, max=64), torch.export.Dim("count", min=2, max=64)

    def model(x: Tensor, i: Tensor, j: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        added = x.index_put((i,), v[0, :, None], accumulate=True)
        return x[i, :, j], x[:, :, i], x[i[:, None], :, j], _put(x, [i, None, j], v), added

    def inputs(rows: int, count: int) -> tuple[Tensor, ...]:
        return torch.randn(rows, 3, rows), distinct(rows, count), distinct(rows, count), torch.randn(count, 3)

    compiled = sl.compile(model, inputs(7, 5), dynamic_shapes=({0: rows, 2: rows}, {0: count}, {0: count}, {0: count}))
    assert all(row["backend"] != "aten" for row in launches(compiled))
    for sizes in ((7, 5), (2, 2), (64, 33)):
        given = inputs(*sizes)
        for mine, right in zip(compiled(*given), model(*given), strict=True):
            torch.testing.assert_close(mine, right)


@pytest.mark.parametrize("bad", [-7, 6, 2**62])
def test_an_index_outside_is_an_error(bad: int) -> None:
    """As it was given, with the range of its own dim; the next call is right."""
    x, i, j = torch.randn(9, 6, 4), places(9, 5), places(6, 5)
    read = sl.compile(lambda x, i, j: x[i, j], (x, i, j))
    put = sl.compile(lambda x, i, j: x.index_put((i, j), x[0, :5] * 2), (x, i, j))
    wrong = j.clone()
    wrong[3] = bad
    for compiled in (read, put):
        with pytest.raises(IndexError, match=rf"index {bad} is out of range \[-6, 6\)"):
            compiled(x, i, wrong)
    torch.testing.assert_close(read(x, i, j), x[i, j])


# Writes ---------------------------------------------------------------------------------------------------------------

_WRITES: dict[str, Callable[..., Any]] = {
    "first": lambda x, i, j, v, a: x.index_put((i, j), v[:, 0, 0, None, None], accumulate=a),
    "middle": lambda x, i, j, v, a: _put(x, [None, i, j], v[0, :, :1], a),
    "apart": lambda x, i, j, v, a: _put(x, [i, None, j], v[:, 0, :, None], a),
    "outer": lambda x, i, j, v, a: x.index_put((i[:, None], j), v[:, :, :1, None], accumulate=a),
    "a number": lambda x, i, j, v, a: x.index_put((i, j), v[0, 0, 0], accumulate=a),
    "unsafe": lambda x, i, j, v, a: torch.ops.aten._unsafe_index_put(x, [i, None, j], v[:, 0, :, None], a),
}


@pytest.mark.parametrize("name", _WRITES)
@pytest.mark.parametrize("threads", [1, 2])
def test_writes(name: str, threads: int) -> None:
    """At distinct places, and added where places are equal."""
    x, v = torch.randn(6, 5, 7, 3), torch.randn(5, 5, 5)
    write = _WRITES[name]
    i, j = distinct(6 if name != "middle" else 5, 5), distinct(5, 5)
    native(lambda x, i, j, v: write(x, i, j, v, False), (x, i, j, v), "scatter_nd", threads=threads)
    i, j = places(5, 5), places(5, 5)
    native(lambda x, i, j, v: write(x, i, j, v, True), (x, i, j, v), "scatter_nd", threads=threads)


def test_values_of_another_shape_are_torchs_to_refuse() -> None:
    x, i = torch.randn(6, 5), places(5, 4)
    compiled = sl.compile(lambda x, i: x.index_put((i, i), x[0, :3]), (x, i))
    with pytest.raises(sl.OpError, match="shape mismatch|writes its message"):
        compiled(x, i)


def test_the_last_of_equal_places_stays() -> None:
    """On a CPU, as in torch there; sums have the order of the index."""
    i = torch.tensor([2, 0, 2, -1, 0])
    native(lambda x, i, v: x.index_put((i, i), v), (torch.zeros(3, 3), i, torch.arange(5.0)), "scatter_nd")
    x, i = torch.zeros(3, 3), torch.zeros(3000, dtype=torch.int64)
    compiled = sl.compile(lambda x, i, v: x.index_put((i, i), v, accumulate=True), (x, i, torch.randn(3000)), threads=2)
    v = torch.randn(3000)
    assert torch.equal(compiled(x, i, v), compiled(x, i, v))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.int8, torch.bool])
def test_sums(dtype: torch.dtype) -> None:
    """Of 16-bit floats and bools too, with one index tensor as well; what they sum is exact."""
    x, v = torch.randint(0, 2, (4, 5, 6)).to(dtype), torch.randint(0, 2, (9, 6)).to(dtype)
    i, j = places(4, 9), places(5, 9)
    native(lambda x, i, j, v: x.index_put((i, j), v, accumulate=True), (x, i, j, v), "scatter_nd")
    compiled = check(lambda x, i, v: _put(x, [None, i], v[:, None, :1].expand(9, 4, 6).transpose(0, 1), True), (x, j, v))  # fmt: skip
    assert all(row["backend"] != "aten" for row in launches(compiled))
    compiled = check(lambda x, i, v: x.index_add(1, i, v.expand(4, 9, 6)), (x, j.abs() % 5, v))
    assert all(row["backend"] != "aten" for row in launches(compiled))


def test_writes_through_views() -> None:
    """In place where the old value is the program's own; values may be a view of what is written."""

    def model(x: Tensor, i: Tensor, j: Tensor) -> tuple[Tensor, ...]:
        y = x * 2
        y[:, 1:][i, j] = 3.0
        y.t()[j, i] += 1
        y.index_put_((i, j), y[0, 0] * 2, accumulate=True)
        z = y + 0
        z[i, j] = z.flip(0)[i, j]
        return y, z

    i, j = distinct(6, 4), torch.randperm(4)
    compiled = native(model, (torch.randn(6, 5), i, j), "scatter_nd", 4)
    assert compiled is not None
    x = torch.randn(6, 5)
    check(lambda x, i, j: x.index_put_((i, j), x[0, 0] + 1), (x, i, j))


class _Cache(nn.Module):
    """A buffer that is updated at a row of each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(3, 8, 4))

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        self.kept[torch.arange(3), at] = x
        return self.kept.sum(1)


def test_a_buffer_is_updated_in_its_place() -> None:
    model, right = _Cache(), _Cache()
    compiled = sl.compile(model, (torch.randn(3, 4), torch.tensor([0, 1, 2])))
    assert [row["family"] for row in launches(compiled)].count("scatter_nd") == 1
    assert not any(row["backend"] == "aten" for row in launches(compiled))
    for _ in range(4):
        x, at = torch.randn(3, 4), places(8, 3)
        torch.testing.assert_close(compiled(x, at), right(x, at))
        torch.testing.assert_close(model.kept, right.kept)


# Masks ----------------------------------------------------------------------------------------------------------------

_MASKS: dict[str, Callable[..., Any]] = {
    "a number": lambda x, m, v: x.index_put((m,), v[0, 0, 0, 0]),
    "a row": lambda x, m, v: x.index_put((m,), v[0, 0]),
    "accumulated": lambda x, m, v: x.index_put((m,), v[0, 0], accumulate=True),
    "of bytes": lambda x, m, v: x.index_put((m.to(torch.uint8),), v[0, 0]),
}


@pytest.mark.parametrize("name", _MASKS)
def test_one_value_for_a_mask_is_a_choice(name: str) -> None:
    x, m, v = torch.randn(4, 5, 6, 3), torch.rand(4, 5) < 0.5, torch.randn(1, 1, 6, 3)
    compiled = check(_MASKS[name], (x, m, v))
    assert {row["family"] for row in launches(compiled)} <= {"pointwise"}, launches(compiled)


def test_masks_behind_other_dims() -> None:
    x, m, v = torch.randn(4, 5, 6), torch.rand(5, 6) < 0.5, torch.randn(4, 1)

    def model(x: Tensor, m: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        y = x.clone()
        y[:, m] = 2.0
        z = x.clone()
        z[:, :, m[0]] = v[:, None]
        return y, z, _put(x, [None, m], v)

    compiled = check(model, (x, m, v))
    assert {row["family"] for row in launches(compiled)} <= {"pointwise"}, launches(compiled)


def test_bools_under_a_mask() -> None:
    x, m = torch.rand(4, 5) < 0.5, torch.rand(4, 5) < 0.5
    check(
        lambda x, m: (x.index_put((m,), torch.tensor(True), accumulate=True), x.index_put((m,), torch.tensor(False))),
        (x, m),
    )


def test_what_is_left_to_torch() -> None:
    """A value for each place of a mask, and a mask beside another index, in a write."""
    x, m = torch.randn(4, 5), torch.tensor([True, False, True, False])
    for model in (lambda x, m: x.index_put((m,), x[:2]), lambda x, m: x.index_put((m, torch.tensor([1, 0])), x[0, 0])):
        compiled = check(model, (x, m))
        assert "aten" in {row["backend"] for row in launches(compiled)}


# A device -------------------------------------------------------------------------------------------------------------


class _All(nn.Module):
    """Everything above that has one result on a device, in one program."""

    def forward(self, x: Tensor, i: Tensor, j: Tensor, v: Tensor, m: Tensor) -> tuple[Tensor, ...]:
        rows = torch.arange(6)
        y = x * 2
        y[rows[:, None], :, rows[:5]] = v[:5].T[None, :5, :1, None].expand(6, 5, 5, 3)
        return (
            x[i, j], x[:, i[:, None], :, j % 3], m[i[:, None, None], j], (x > 0)[i, :, j], y,
            x.index_put((i, j), v[:, :1, None].expand(9, 7, 3), accumulate=True),
            x.index_put((m[:, :5],), v[0, 0]),
        )  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_on_a_device(dtype: torch.dtype, tmp_path: Path) -> None:
    x, v = torch.randint(-4, 5, (6, 5, 7, 3)).to(dtype), torch.randint(-4, 5, (9, 7)).to(dtype)
    inputs = (x, places(5, 9), places(5, 9), v, torch.rand(6, 9) < 0.5)
    model = _All()
    compiled = sl.compile(model, inputs, target="cuda:sm_90")
    rows = launches_of(compiled)
    assert {"gather_nd", "scatter_nd"} <= set(families_of(rows)) and "aten" not in {r["backend"] for r in rows}
    right = model(*inputs)
    got = tuple(torch.empty_like(y, memory_format=torch.contiguous_format) for y in right)
    run_on_host(compiled, model, inputs, got, tmp_path)
    for mine, best in zip(got, right, strict=True):
        assert torch.equal(mine, best)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool])
def test_integers_on_a_device(dtype: torch.dtype, tmp_path: Path) -> None:
    """Sums of elements that are narrower than the word that is exchanged."""
    x, v = torch.randint(0, 2, (3, 4)).to(dtype), torch.randint(0, 2, (200,)).to(dtype)

    class Model(nn.Module):
        def forward(self, x: Tensor, i: Tensor, j: Tensor, v: Tensor) -> tuple[Tensor, ...]:
            return x.index_put((i, j), v, accumulate=True), x[i, j]

    model, inputs = Model(), (x, places(3, 200), places(4, 200), v)
    compiled = sl.compile(model, inputs, target="cuda:sm_90")
    right = model(*inputs)
    got = tuple(torch.empty_like(y) for y in right)
    run_on_host(compiled, model, inputs, got, tmp_path)
    for mine, best in zip(got, right, strict=True):
        assert torch.equal(mine, best)
