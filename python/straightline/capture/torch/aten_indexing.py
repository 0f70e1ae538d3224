# SPDX-License-Identifier: Apache-2.0
"""ATen ops that read through an index tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from straightline.capture.builder import TensorType
from straightline.capture.graph_builder import Reject, Tensor, wrap
from straightline.capture.torch.importer import NEAREST, Arguments, Importer, converter

NEAREST["aten.index_put"] = "one index tensor"
NEAREST["aten.scatter"] = "assignment to a constant slice"
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
    if a.self.rank != a.index.rank or a.self.rank == 0:
        raise Reject(f"gather from rank {a.self.rank} at places of rank {a.index.rank}", "equal ranks of at least 1")
    attributes = {"dim": wrap(a.dim, a.self.rank)}
    return ctx.emit_one("gather", [a.self, a.index], ctx.result_type(node), attributes)


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


def _flat_index(ctx: Importer, x: Tensor, indices: Sequence[Any]) -> tuple[int, Tensor, Tensor]:
    """The dim that one index tensor picks from, that tensor, and the same of rank 1 with negative places wrapped."""
    given = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    if len(given) != 1:
        raise Reject(f"indexing with {len(given)} tensors", "one index tensor")
    dim, index = given[0]
    if index.dtype in ("i1", "ui8"):
        raise Reject("indexing with a mask", "where with a mask, which keeps shapes known")
    if not isinstance(size := x.extents[dim], int):
        raise Reject("indexing of a dynamic dimension", "index_select or gather")
    if not index.type.is_static and index.rank != 1:
        raise Reject("indexing with a dynamic tensor of rank > 1", "an index of rank 1")
    _needs_index(index)
    count = index.extents[0] if index.rank == 1 else math.prod(int(str(e)) for e in index.extents)
    flat = ctx.reshape(index, (count,))
    # Here, other than in index_select, a negative index counts from the end.
    zero, wrapped = ctx.operand(0, flat.type), ctx.operand(size, flat.type)
    negative = ctx.emit_one("lt", [flat, zero], TensorType("i1", flat.extents))
    moved = ctx.emit_one("add", [flat, wrapped], flat.type)
    return dim, index, ctx.emit_one("where", [negative, moved, flat], flat.type)


@converter("aten.index.Tensor", "aten._unsafe_index.Tensor")
def _index(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    dim, _, flat = _flat_index(ctx, a.self, a.indices)
    return ctx.reshape(_index_select(ctx, a.self, dim, flat), ctx.result_type(node).extents)


# Writes ---------------------------------------------------------------------------------------------------------------


def _index_write(ctx: Importer, name: str, x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    if name == "index_add" and x.dtype in ("f16", "bf16", "i1"):
        raise Reject(f"index_add of {x.dtype}", "float32")
    return ctx.emit_one(name, [x, index, source], x.type, {"dim": dim})


@converter("aten.index_copy.default", "aten.index_add.default")
def _index_copy(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    name = "index_add" if "index_add" in str(node.target) else "index_copy"
    _needs_index(a.index)
    if a.self.rank == 0 or a.index.rank > 1:
        raise Reject(f"{name} of rank {a.self.rank} at places of rank {a.index.rank}", "an index of rank 1")
    if a.get("alpha", 1) != 1:
        raise Reject(f"{name} with alpha {a.alpha}", "alpha 1")
    dim, index = wrap(a.dim, a.self.rank), ctx.reshape(a.index, (a.index.extents or (1,)))
    source = ctx.reshape(a.source, (*a.self.extents[:dim], *index.extents, *a.self.extents[dim + 1 :]))
    return _index_write(ctx, name, a.self, dim, index, source)


@converter("aten.index_put.default", "aten._unsafe_index_put.default")
def _index_put(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    dim, index, flat = _flat_index(ctx, a.self, a.indices)
    before, after = a.self.extents[:dim], a.self.extents[dim + 1 :]
    values = ctx.expand(a.get("values"), (*before, *index.extents, *after))
    source = ctx.reshape(values, (*before, flat.extents[0], *after))
    return _index_write(ctx, "index_add" if a.accumulate else "index_copy", a.self, dim, flat, source)
