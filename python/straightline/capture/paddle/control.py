# SPDX-License-Identifier: Apache-2.0
"""Paddle's branches and loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from straightline.capture.graph_builder import Reject, Tensor
from straightline.capture.paddle.importer import Importer, Node, converter
from straightline.capture.paddle.values import Complex, Known, Value


@converter("if", takes="conditions of one element; results of one type in both branches",
           refuses="branches whose results differ in type or size")  # fmt: skip
def _if(ctx: Importer, node: Node) -> list[Any]:
    condition, blocks = node.inputs[0], node.op.blocks
    if isinstance(condition, Known) and not condition.is_sizes:
        return ctx.block(blocks[0 if condition.array.reshape(-1)[0] else 1])
    flag = ctx.reshape(ctx.tensor(condition, "i1"), ())
    found: list[list[Tensor]] = []
    for block in blocks:
        with ctx.inner_region() as (_, yields):
            values = ctx.block(block)
            yields.extend(_tensors(ctx, values))
        found.append(list(yields))
    for a, b in zip(*found, strict=True):
        if a.type != b.type:
            raise Reject(f"branches that give {a.type} and {b.type}", "branches with results of one type and shape")
    types = [t.type for t in found[0]]
    return _whole(values, ctx.emit("if", [flag], types, regions=2))


@converter("pylayer", takes="the forward of a `paddle.autograd.PyLayer`; programs record no gradient")
def _pylayer(ctx: Importer, node: Node) -> list[Any]:
    return ctx.block(node.op.blocks[0])


def _tensors(ctx: Importer, values: Sequence[Value]) -> list[Tensor]:
    """Values as tensors, complex numbers as two."""
    parts = [x for value in values for x in ((value.re, value.im) if isinstance(value, Complex) else (value,))]
    return [ctx.tensor(x) for x in parts]


def _whole(values: Sequence[Value], tensors: Sequence[Tensor]) -> list[Any]:
    """Tensors as `_tensors` gives them, as what the values are."""
    rest = iter(tensors)
    return [Complex(next(rest), next(rest)) if isinstance(value, Complex) else next(rest) for value in values]


@converter("while", takes="carried tensors that keep their types", refuses="carried tensors whose sizes change")
def _while(ctx: Importer, node: Node) -> list[Any]:
    flag = ctx.reshape(ctx.tensor(node.inputs[0], "i1"), ())
    initial = [x if isinstance(x, Complex) else ctx.tensor(x) for x in node.inputs[1:] if x is not None]
    (block,) = node.op.blocks
    # A variable that rounds alone use is carried too, with a number as its first value.
    pairs = zip(block.arguments, node.op.results, strict=True)
    live = [bool(ctx.uses.get(argument) or ctx.uses.get(result)) for argument, result in pairs]
    kept = [x for x, reads in zip(initial, live, strict=True) if reads]
    carried = _tensors(ctx, kept)
    types = [flag.type, *(t.type for t in carried)]
    with ctx.inner_region(types) as (given, yields):
        yields.append(given[0])
    with ctx.inner_region(types) as (given, yields):
        rest = iter(_whole(kept, given[1:]))
        again, *values = ctx.block(block, [next(rest) if reads else x for x, reads in zip(initial, live)])
        after = _tensors(ctx, [x for x, reads in zip(values, live, strict=True) if reads])
        for old, new in zip(carried, after, strict=True):
            if old.type != new.type:
                raise Reject(
                    f"a carried tensor of {old.type} that a round makes {new.type}", "one of the same type and shape"
                )
        yields.append(ctx.reshape(ctx.cast(ctx.tensor(again), "i1"), ()))
        yields.extend(after)
    found = iter(_whole(kept, ctx.emit("while", [flag, *carried], types, regions=2)[1:]))
    return [next(found) if reads else None for reads in live]
