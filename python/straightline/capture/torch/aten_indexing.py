# SPDX-License-Identifier: Apache-2.0
"""ATen ops that read or write through index tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from straightline.capture.builder import Dim, TensorType
from straightline.capture.extents import broadcast, product_of
from straightline.capture.graph_builder import Reject, Tensor, known, wrap
from straightline.capture.torch.aten_data_sizes import picked
from straightline.capture.torch.importer import NEAREST, Arguments, Importer, converter, torch_dtype

NEAREST["aten.index_put"] = "index tensors of int64"
NEAREST["aten.masked_select"] = "where with a mask, which keeps shapes known"


def _needs_index(index: Tensor) -> None:
    if index.dtype not in ("i64", "i32"):
        raise Reject(f"places of {index.dtype}", "int64")


@converter("aten.embedding.default")
def _embedding(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    # padding_idx matters to gradients only.
    _needs_index(a.indices)
    return ctx.emit_one("embedding", [a.weight, a.indices], ctx.result_type(node))


@converter("aten.gather.default")
def _gather(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    _needs_index(a.index)
    x, index = (ctx.reshape(t, (1,)) if t.rank == 0 else t for t in (a.self, a.index))
    if x.rank != index.rank:
        raise Reject(f"gather from rank {a.self.rank} at places of rank {a.index.rank}", "equal ranks")
    picked = ctx.emit_one("gather", [x, index], TensorType(x.dtype, index.extents), {"dim": wrap(a.dim, x.rank)})
    return ctx.reshape(picked, ctx.result_type(node).extents)


def _index_select(ctx: Importer, x: Tensor, dim: int, index: Tensor) -> Tensor:
    extents = (*x.extents[:dim], index.extents[0], *x.extents[dim + 1 :])
    return ctx.emit_one("index_select", [x, index], TensorType(x.dtype, extents), {"dim": dim})


@converter("aten.index_select.default")
def _index_select_default(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    if a.self.rank == 0:
        return ctx.emit_one("clone", [a.self], a.self.type)
    _needs_index(a.index)
    index = ctx.reshape(a.index, (1,)) if a.index.rank == 0 else a.index
    return _index_select(ctx, a.self, wrap(a.dim, a.self.rank), index)


@dataclass(frozen=True)
class _Indices:
    """The tensors of `x[.., i, .., j, ..]`, by the dims that they index."""

    dims: list[int]
    tensors: list[Tensor]

    @property
    def extents(self) -> tuple[Dim, ...]:
        """The shape to which all index tensors are broadcast."""
        extents: tuple[Dim, ...] = ()
        for tensor in self.tensors:
            extents = broadcast(extents, tensor.extents)
        return extents

    def replaced(self, x: Tensor) -> tuple[Dim, ...]:
        """The shape of the elements picked from x: the index shape replaces the dims if they are consecutive, else is first."""
        beside = [extent for dim, extent in enumerate(x.extents) if dim not in self.dims]
        first = self.dims[0] if self.dims == list(range(self.dims[0], self.dims[-1] + 1)) else 0
        return (*beside[:first], *self.extents, *beside[first:])

    def operands(self, ctx: Importer) -> list[Tensor]:
        """All index tensors, with one shape and element type."""
        dtype = "i32" if all(tensor.dtype == "i32" for tensor in self.tensors) else "i64"
        return [ctx.expand(ctx.cast(tensor, dtype), self.extents) for tensor in self.tensors]

    def flat(self, ctx: Importer, x: Tensor) -> Tensor | None:
        """The rows of a single index tensor of known size, negative indices wrapped; None for anything else."""
        dim, index = self.dims[0], self.tensors[0]
        size = x.extents[dim]
        if len(self.dims) > 1 or not isinstance(size, int) or not (index.type.is_static or index.rank == 1):
            return None
        count = index.extents[0] if index.rank == 1 else math.prod(map(known, index.extents))
        flat = ctx.reshape(index, (count,))
        # Here, other than in index_select, a negative index counts from the end.
        zero, wrapped = ctx.operand(0, flat.type), ctx.operand(size, flat.type)
        negative = ctx.emit_one("lt", [flat, zero], TensorType("i1", flat.extents))
        moved = ctx.emit_one("add", [flat, wrapped], flat.type)
        return ctx.emit_one("where", [negative, moved, flat], flat.type)


def _is_mask(index: Tensor) -> bool:
    return index.dtype in ("i1", "ui8")


def _indices(indices: Sequence[Any]) -> _Indices:
    given = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    if not given:
        raise Reject("indexing with no tensor", "one index tensor")
    for _, index in given:
        if _is_mask(index):
            raise Reject("indexing with a mask", "where with a mask, which keeps shapes known")
        _needs_index(index)
    return _Indices([dim for dim, _ in given], [index for _, index in given])


@converter("aten.index.Tensor", "aten._unsafe_index.Tensor")
def _index(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    masks = [(dim, index) for dim, index in enumerate(a.indices) if index is not None]
    if len(masks) == 1 and _is_mask(masks[0][1]):
        dim, mask = masks[0]
        return picked(ctx, a.self, dim, mask, node.meta["val"].shape[dim])
    indices = _indices(a.indices)
    if (flat := indices.flat(ctx, a.self)) is not None:
        return ctx.reshape(_index_select(ctx, a.self, indices.dims[0], flat), ctx.result_type(node).extents)
    type = TensorType(a.self.dtype, indices.replaced(a.self))
    return ctx.emit_one("index", [a.self, *indices.operands(ctx)], type, {"dims": indices.dims})


@converter("aten.masked_scatter.default")
def _masked_scatter(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    """The i-th element of the mask that is true gets the i-th element of the source."""
    type = ctx.result_type(node)
    x, mask = ctx.expand(a.self, type.extents), ctx.expand(a.mask, type.extents)
    source = ctx.reshape(a.source, (product_of(a.source.extents),))
    if source.extents == (0,):
        raise Reject("masked_scatter of nothing", "a source with elements")
    numbers = ctx.cast(ctx.reshape(mask, (product_of(type.extents),)), "i64")
    last = ctx.emit_one("cumsum", [numbers], numbers.type, {"dim": 0})
    place = ctx.emit_one("sub", [last, ctx.operand(1, last.type)], last.type)
    place = ctx.emit_one("maximum", [place, ctx.operand(0, place.type)], place.type)  # before the first one of the mask
    values = ctx.reshape(_index_select(ctx, source, 0, place), type.extents)
    return ctx.emit_one("where", [mask, values, x], type)


# Writes ---------------------------------------------------------------------------------------------------------------


#: Element types that op.index_add does not sum.
_NARROW = ("f16", "bf16", "i1")


def _index_write(ctx: Importer, name: str, x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    return ctx.emit_one(name, [x, index, source], x.type, {"dim": dim})


@converter("aten.index_copy.default", "aten.index_add.default")
def _index_copy(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    name = "index_add" if "index_add" in str(node.target) else "index_copy"
    _needs_index(a.index)
    if a.self.rank == 0 or a.index.rank > 1:
        raise Reject(f"{name} of rank {a.self.rank} at places of rank {a.index.rank}", "an index of rank 1")
    dim, index = wrap(a.dim, a.self.rank), ctx.reshape(a.index, (a.index.extents or (1,)))
    source = ctx.reshape(a.source, (*a.self.extents[:dim], *index.extents, *a.self.extents[dim + 1 :]))
    if a.get("alpha", 1) != 1:
        source = ctx.emit_one("mul", [source, ctx.operand(a.alpha, source.type)], source.type)
    if name == "index_add" and a.self.dtype in _NARROW:
        places = ctx.reshape(index, tuple(e if d == dim else 1 for d, e in enumerate(source.extents)))
        return _Scatter(ctx, dim, ctx.expand(places, source.extents)).write(a.self, source, "sum")
    return _index_write(ctx, name, a.self, dim, index, source)


@converter("aten.index_fill.int_Scalar", "aten.index_fill.int_Tensor")
def _index_fill(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    """Other than with index_copy, a negative index counts from the end."""
    _needs_index(a.index)
    x = ctx.reshape(a.self, a.self.extents or (1,))
    if a.index.rank > 1:
        raise Reject(f"index_fill at places of rank {a.index.rank}", "an index of rank 1")
    dim, index = wrap(a.dim, x.rank), ctx.reshape(a.index, (a.index.extents or (1,)))
    indices = _Indices([dim], [index])
    value = ctx.operand(a.value, TensorType(x.dtype, ()))
    flat = indices.flat(ctx, x)
    if flat is None:
        return ctx.reshape(_put(ctx, x, indices, value, False), a.self.extents)
    source = ctx.expand(value, (*x.extents[:dim], *flat.extents, *x.extents[dim + 1 :]))
    return ctx.reshape(_index_write(ctx, "index_copy", x, dim, flat, source), a.self.extents)


def _masked_put(ctx: Importer, x: Tensor, dim: int, mask: Tensor, values: Tensor, accumulate: bool) -> Tensor:
    """Writes one value at all true elements of a mask, or one for each index of the other dims: a select."""
    rank = x.rank - mask.rank + 1  # of what the mask would pick: its dims become one
    padded = (*(1 for _ in range(rank - values.rank)), *values.extents)
    if len(padded) > rank or padded[dim] != 1:
        raise Reject(f"a value for each place of a mask ({list(values.extents)})", "one value, or where with a mask")
    before, after = padded[:dim], padded[dim + 1 :]
    value = ctx.expand(ctx.reshape(values, (*before, *(1 for _ in mask.extents), *after)), x.extents)
    if accumulate:
        name = "logical_or" if x.dtype == "i1" else "add"
        value = ctx.emit_one(name, [x, value], x.type)
    chosen = ctx.reshape(mask, (*(1 for _ in before), *mask.extents, *(1 for _ in after)))
    if chosen.dtype != "i1":
        zero = ctx.operand(0, chosen.type)
        chosen = ctx.emit_one("ne", [chosen, zero], TensorType("i1", chosen.extents))
    return ctx.emit_one("where", [ctx.expand(chosen, x.extents), value, x], x.type)


def _as_picked(ctx: Importer, x: Tensor, indices: _Indices, values: Tensor) -> Tensor:
    """Broadcasts values to the shape of the elements that the indices pick from x."""
    extents = indices.replaced(x)
    beyond = len(values.extents) > len(extents)
    if beyond or any(isinstance(e, int) and isinstance(to, int) and e not in (1, to)
                     for e, to in zip(reversed(values.extents), reversed(extents))):  # fmt: skip
        raise Reject(f"values of {list(values.extents)} for places of {list(extents)}", "values that expand to them")
    return ctx.expand(values, extents)


def _put(ctx: Importer, x: Tensor, indices: _Indices, values: Tensor, accumulate: bool) -> Tensor:
    """X with the picked elements replaced by values, which are broadcast to their shape."""
    values = _as_picked(ctx, x, indices, values)
    attributes = {"dims": indices.dims, "accumulate": accumulate}
    return ctx.emit_one("index_put", [x, *indices.operands(ctx), values], x.type, attributes)


@converter("aten.index_put.default", "aten._unsafe_index_put.default")
def _index_put(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    x, values = a.self, a.get("values")
    given = [(dim, index) for dim, index in enumerate(a.indices) if index is not None]
    if len(given) == 1 and _is_mask(given[0][1]):
        return _masked_put(ctx, x, *given[0], values, a.accumulate)
    indices = _indices(a.indices)
    narrow = a.accumulate and x.dtype in _NARROW
    flat = None if narrow else indices.flat(ctx, x)
    if flat is None:
        return _put(ctx, x, indices, values, a.accumulate)
    dim = indices.dims[0]
    before, after = x.extents[:dim], x.extents[dim + 1 :]
    source = ctx.reshape(_as_picked(ctx, x, indices, values), (*before, flat.extents[0], *after))
    return _index_write(ctx, "index_add" if a.accumulate else "index_copy", x, dim, flat, source)


#: torch's names of what is done with the element that is there, and op.scatter's.
_REDUCE = {
    "add": "sum",
    "multiply": "prod",
    "sum": "sum",
    "prod": "prod",
    "amin": "amin",
    "amax": "amax",
    "mean": "mean",
}


def _identity(reduce: str, dtype: str) -> float | int:
    """The neutral element of a reduction."""
    if reduce in ("sum", "mean", "prod"):
        return 1 if reduce == "prod" else 0
    if dtype == "i1":
        return int(reduce == "amin")
    if torch_dtype(dtype).is_floating_point:
        return math.inf if reduce == "amin" else -math.inf
    bounds = torch.iinfo(torch_dtype(dtype))
    return bounds.max if reduce == "amin" else bounds.min


@dataclass(frozen=True)
class _Scatter:
    """Writes of one shape at the places of one index."""

    ctx: Importer
    dim: int
    index: Tensor

    def write(self, x: Tensor, source: Tensor, reduce: str) -> Tensor:
        """Gives x with the elements of source, alone or combined with what is there."""
        return self.ctx.emit_one("scatter", [x, self.index, source], x.type, {"dim": self.dim, "reduce": reduce})

    def repeated(self, value: Any, dtype: str) -> Tensor:
        """A source that has one number everywhere."""
        return self.ctx.expand(self.ctx.full(value, dtype, (1,) * self.index.rank), self.index.extents)

    def reduced(self, x: Tensor, source: Tensor, reduce: str, include_self: bool) -> Tensor:
        """Reduces the source into x; without `include_self`, an element that is written holds the source's reduction alone."""
        start = x
        if not include_self:  # the elements that are written start as the identity of the reduction
            start = self.write(x, self.repeated(_identity(reduce, x.dtype), x.dtype), "none")
        written = self.write(start, source, "sum" if reduce == "mean" else reduce)
        return self.divided(x, written, include_self) if reduce == "mean" else written

    def divided(self, x: Tensor, total: Tensor, include_self: bool) -> Tensor:
        """Divides sums by the number of their elements, in x's own type; elements to which nothing was added stay."""
        count = self.ctx.expand(self.ctx.full(int(include_self), x.dtype, (1,) * x.rank), x.extents)
        count = self.write(count, self.repeated(1, x.dtype), "sum")
        count = self.ctx.emit_one("maximum", [count, self.ctx.operand(1, x.type)], x.type)
        is_float = torch_dtype(x.dtype).is_floating_point
        return self.ctx.emit_one("div" if is_float else "floor_divide", [total, count], x.type)


@converter(
    "aten.scatter.src", "aten.scatter.value", "aten.scatter.reduce", "aten.scatter.value_reduce",
    "aten.scatter_add.default", "aten.scatter_reduce.two",
)  # fmt: skip
def _scatter(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    _needs_index(a.index)
    reduce = "sum" if "scatter_add" in str(node.target) else _REDUCE.get(a.get("reduce"), "none")
    if reduce == "mean" and a.self.dtype == "i1":
        raise Reject("means of bools", "uint8")
    x, index, source = (ctx.reshape(t, (1,)) if isinstance(t, Tensor) and t.rank == 0 else t
                        for t in (a.self, a.index, a.get("src")))  # fmt: skip
    if not x.rank == index.rank == (source.rank if source is not None else x.rank):
        raise Reject(f"scatter into rank {x.rank} at places of rank {index.rank}", "equal ranks")
    scatter = _Scatter(ctx, wrap(a.dim, x.rank), index)
    source = scatter.repeated(a.value, x.dtype) if source is None else source
    written = scatter.reduced(x, source, reduce, a.get("include_self", True))
    return ctx.reshape(written, a.self.extents)


@converter("aten.index_reduce.default")
def _index_reduce(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    _needs_index(a.index)
    if a.self.rank == 0 or a.index.rank != 1:
        raise Reject(f"index_reduce of rank {a.self.rank} at places of rank {a.index.rank}", "an index of rank 1")
    dim, extents = wrap(a.dim, a.self.rank), a.source.extents
    places = ctx.reshape(a.index, tuple(e if d == dim else 1 for d, e in enumerate(extents)))
    scatter = _Scatter(ctx, dim, ctx.expand(places, extents))
    return scatter.reduced(a.self, a.source, _REDUCE[a.reduce], a.include_self)


@converter("aten.put.default")
def _put_flat(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    """An index counts through all elements of x."""
    _needs_index(a.index)
    flat = ctx.reshape(a.self, (product_of(a.self.extents),))
    index = ctx.reshape(a.index, (product_of(a.index.extents),))
    written = _put(ctx, flat, _Indices([0], [index]), ctx.reshape(a.source, index.extents), a.accumulate)
    return ctx.reshape(written, a.self.extents)
