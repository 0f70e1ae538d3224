# SPDX-License-Identifier: Apache-2.0
"""ATen ops that put rows in order: topk, sort; and multinomial, which draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from straightline.capture.builder import TensorType
from straightline.capture.graph_builder import FLOATS, Reject, Tensor, wrap
from straightline.capture.torch.aten_reduction import reduce
from straightline.capture.torch.aten_tail import call_op
from straightline.capture.torch.importer import Arguments, Importer, converter, torch_dtype


def _check_row(ctx: Importer, what: str, x: Tensor, count: int, k: int) -> None:
    """Rejects a row that is too long for the target's kernels."""
    nearest = ctx.target.nearest_topk(count, k, torch_dtype(x.dtype).itemsize)
    if nearest:
        raise Reject(f"{what} of {k} out of rows of {count} elements of {x.dtype} on a device", nearest)


def _first(ctx: Importer, what: str, x: Tensor, dim: int, k: Any, largest: bool) -> list[Tensor]:
    if x.rank == 0:
        one = _first(ctx, what, ctx.reshape(x, (1,)), 0, k, largest)
        # A sort, or the only element: as in ATen both results have no dims. None of it: one dim of no elements.
        return [ctx.reshape(y, ()) for y in one] if k != 0 else one
    dim = wrap(dim, x.rank)
    count = x.extents[dim]
    k = count if k is None else k
    if not isinstance(k, int) and k != count:
        raise Reject(f"{what} of {k} elements along dim {dim} of size {count}", "a constant number, or all elements")
    if k == 0:
        extents = (*x.extents[:dim], k, *x.extents[dim + 1 :])
        return [ctx.full(0, x.dtype, extents), ctx.full(0, "i64", extents)]
    if isinstance(count, int):
        assert isinstance(k, int)
        _check_row(ctx, what, x, count, k)
    else:
        low, high = ctx.data_sizes.bounds(count)
        some = k if isinstance(k, int) else None
        if not ctx.target.takes_named_rows(low, high, some, torch_dtype(x.dtype).itemsize):
            raise Reject(f"{what} of {k} elements along dim {dim} of size {count}, {low} to {high}", "static sizes")
    return ctx.ordered(x, dim, k, bool(largest))


@converter("aten.topk.default")
def _topk(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Sequence[Tensor]:
    # Sorted in any case.
    return _first(ctx, "topk", a.self, a.dim, a.k, a.largest)


@converter("aten.sort.default", "aten.sort.stable")
def _sort(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Sequence[Tensor]:
    # Stable in any case.
    return _first(ctx, "sort", a.self, a.dim, None, a.descending)


@converter("aten.argsort.default", "aten.argsort.stable")
def _argsort(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    return _first(ctx, "sort", a.self, a.dim, None, a.descending)[1]


def _assert(ctx: Importer, condition: Tensor, words: str) -> None:
    """Eager's own check: an exception on the CPU, a failed assertion on a device."""
    op = torch.ops.aten._assert_async.msg
    call_op(ctx, op, {"self": condition, "assert_msg": words}, None, "a check of the data", effectful=True)


@converter("aten.multinomial.default")
def _multinomial(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    """One draw is argmax(p / q) with q of an exponential distribution, and the same numbers as in eager.

    So does ATen draw without replacement (aten/src/ATen/native/Distributions.cpp, `multinomial_out`), after the same checks. The
    numbers are torch's, by its generator; what is around them is ours.
    """
    p = a.self
    if a.num_samples != 1 or a.get("generator") is not None:
        raise Reject("multinomial of several samples or with a generator of its own", "one sample")
    if p.dtype not in FLOATS or not p.type.is_static or 0 in p.extents or not ctx.allows_aten:
        raise Reject(
            f"multinomial of {p.dtype} {list(p.extents)}", "static sizes, and 'aten' allowed for its random numbers"
        )
    last = p.rank - 1
    everything = list(range(p.rank))
    flag = TensorType("i1", ())
    most, least = (reduce(ctx, name, p, everything, False) for name in ("amax", "amin"))
    bounded = ctx.emit_one("lt", [most, ctx.operand(float("inf"), most.type)], flag)
    positive = ctx.emit_one("ge", [least, ctx.operand(0.0, least.type)], flag)
    valid = ctx.emit_one("logical_and", [bounded, positive], flag)
    _assert(ctx, valid, "probability tensor contains either `inf`, `nan` or element < 0")
    sums = reduce(ctx, "sum", p, [last], False)
    some = ctx.emit_one("ne", [sums, ctx.operand(0.0, sums.type)], TensorType("i1", sums.extents))
    everywhere = reduce(ctx, "all", some, list(range(some.rank)), False)
    _assert(ctx, everywhere, "invalid multinomial distribution (sum of probabilities <= 0)")
    numbers, _ = call_op(
        ctx, torch.ops.aten.exponential.default, {"self": p, "lambd": 1.0, "generator": None},
        torch.empty(node.args[0].meta["val"].shape, dtype=node.args[0].meta["val"].dtype, device="meta"),
        "torch's random numbers", effectful=True,
    )  # fmt: skip
    ratio = ctx.emit_one("div", [p, numbers], p.type)
    return ctx.emit_one("argmax", [ratio], TensorType("i64", (*p.extents[:-1], 1)), {"dim": last, "keepdim": True})
