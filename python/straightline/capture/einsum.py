# SPDX-License-Identifier: Apache-2.0
"""Einstein sums as products of matrices. Knows no framework."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from straightline.capture.builder import Dim
from straightline.capture.extents import product_of
from straightline.capture.graph_builder import GraphBuilder, Tensor
from straightline.capture.linalg import diagonal

#: The product of two batches of matrices, [b, m, k] and [b, k, n].
Product = Callable[[GraphBuilder, Tensor, Tensor], Tensor]


def einsum(ctx: GraphBuilder, equation: str, tensors: Sequence[Tensor], matmul: Product) -> Tensor:
    """The sum that an equation says: repeated letters are diagonals, `...` any dims, the result sorted without `->`.

    Args:
        ctx: gets the ops.
        equation: letters of the dims of each operand, and of the result.
        tensors: the operands, of one element type; contracted from the left.
        matmul: the importer's own product.
    """
    terms, result = _equation(equation, [t.rank for t in tensors])
    x, names = _diagonal(ctx, tensors[0], terms[0])
    for place in range(1, len(tensors)):
        y, others = _diagonal(ctx, tensors[place], terms[place])
        needed = set(result).union(*terms[place + 1 :])
        x, names = _contracted(ctx, x, names, y, others, needed, matmul)
    summed = [d for d, name in enumerate(names) if name not in result]
    if summed:
        x = ctx.reduce("sum", x, summed, False)
        names = [name for name in names if name in result]
    return ctx.permute(x, [names.index(name) for name in result]) if result else x


def letters_of(equation: str, ranks: Sequence[int]) -> list[list[str]]:
    """The letters of the dims of each operand of these ranks; those of an ellipsis are `.0`, `.1`, .. from the last."""
    return _equation(equation, ranks)[0]


def _equation(equation: str, ranks: Sequence[int]) -> tuple[list[list[str]], list[str]]:
    """Letters of the dims of each operand and of the result; those of an ellipsis are `.0`, `.1`, .. from the last."""
    left, _, right = equation.replace(" ", "").partition("->")

    def letters(term: str, rank: int | None) -> list[str]:
        if "..." not in term:
            return list(term)
        before, after = term.split("...")
        count = rank - len(before) - len(after) if rank is not None else most
        return [*before, *(f".{i}" for i in reversed(range(count))), *after]

    operands = left.split(",")
    most = 0
    terms = [letters(term, rank) for term, rank in zip(operands, ranks, strict=True)]
    most = max((sum(name.startswith(".") for name in term) for term in terms), default=0)
    if "->" in equation:
        return terms, letters(right, None)
    flat = [name for term in terms for name in term]
    plain = sorted(name for name in set(flat) if flat.count(name) == 1 and not name.startswith("."))
    return terms, [*(f".{i}" for i in reversed(range(most))), *plain]


def _diagonal(ctx: GraphBuilder, x: Tensor, names: list[str]) -> tuple[Tensor, list[str]]:
    """The diagonal where a letter stands twice."""
    names = list(names)
    for name in set(names):
        while names.count(name) > 1:
            i = names.index(name)
            j = names.index(name, i + 1)
            order = [d for d in range(x.rank) if d not in (i, j)] + [i, j]
            x = diagonal(ctx, ctx.permute(x, order))
            names = [names[d] for d in order[:-1]]
    return x, names


def _contracted(
    ctx: GraphBuilder, x: Tensor, xs: list[str], y: Tensor, ys: list[str], needed: set[str], matmul: Product
) -> tuple[Tensor, list[str]]:
    """The product of two operands, summed over letters that nothing behind needs."""
    both = [n for n in xs if n in ys]
    sums = [n for n in both if n not in needed]
    batch = [n for n in both if n in needed]
    x, xs = _without(ctx, x, xs, [n for n in xs if n not in ys and n not in needed])
    y, ys = _without(ctx, y, ys, [n for n in ys if n not in xs and n not in both and n not in needed])
    rows, columns = [n for n in xs if n not in both], [n for n in ys if n not in both]
    sizes: dict[str, Dim] = dict(zip(ys, y.extents))
    sizes |= {n: e for n, e in zip(xs, x.extents) if n not in sizes or e != 1}

    def arranged(t: Tensor, names: list[str], order: list[str]) -> Tensor:
        moved = ctx.permute(t, [names.index(n) for n in order])
        return ctx.expand(moved, [sizes[n] for n in order])

    def count(names: list[str]) -> Dim:
        return product_of([sizes[n] for n in names])

    left = ctx.reshape(arranged(x, xs, batch + rows + sums), (count(batch), count(rows), count(sums)))
    right = ctx.reshape(arranged(y, ys, batch + sums + columns), (count(batch), count(sums), count(columns)))
    names = batch + rows + columns
    return ctx.reshape(matmul(ctx, left, right), [sizes[n] for n in names]), names


def _without(ctx: GraphBuilder, x: Tensor, names: list[str], gone: list[str]) -> tuple[Tensor, list[str]]:
    if not gone:
        return x, names
    return ctx.reduce("sum", x, [names.index(n) for n in sorted(gone, key=names.index)], False), [
        n for n in names if n not in gone
    ]
