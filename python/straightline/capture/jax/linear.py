# SPDX-License-Identifier: Apache-2.0
"""StableHLO's products: dot_general over any dims, convolutions with any dimension numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxlib.mlir.dialects import stablehlo

from straightline.capture.builder import Dim, TensorType
from straightline.capture.extents import product_of
from straightline.capture.graph_builder import FLOATS, Reject, Tensor, known
from straightline.capture.jax.importer import Importer, Op, converter
from straightline.capture.jax.shape import _spread
from straightline.capture.jax.values import Value, number
from straightline.capture.volumes import convolution3d


@converter("dot_general")
def _dot_general(ctx: Importer, op: Op) -> Tensor:
    n = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    x, y = ctx.tensors(op)
    batch = list(n.lhs_batching_dimensions), list(n.rhs_batching_dimensions)
    sums = list(n.lhs_contracting_dimensions), list(n.rhs_contracting_dimensions)
    dtype = op.dtype()
    if dtype not in FLOATS:  # the products are of floats: those of f64 are exact where sums stay below 2 ** 53
        found = _product(ctx, ctx.cast(x, "f64"), ctx.cast(y, "f64"), batch, sums)
        return ctx.cast(ctx.cast(found, "i64"), dtype)
    return _product(ctx, ctx.cast(x, dtype), ctx.cast(y, dtype), batch, sums)


class _Sides(NamedTuple):
    """What a product's dims are."""

    #: Dims of each factor that are neither batched nor summed.
    rows: list[int]
    columns: list[int]
    #: Sizes of the batch dims, and of those.
    lead: tuple[Dim, ...]
    high: tuple[Dim, ...]
    wide: tuple[Dim, ...]
    #: How many terms are summed.
    terms: Dim


def _sides(x: Tensor, y: Tensor, batch: tuple[list[int], list[int]], sums: tuple[list[int], list[int]]) -> _Sides:
    rows = [d for d in range(x.rank) if d not in batch[0] + sums[0]]
    columns = [d for d in range(y.rank) if d not in batch[1] + sums[1]]
    return _Sides(
        rows, columns, tuple(x.extents[d] for d in batch[0]), tuple(x.extents[d] for d in rows),
        tuple(y.extents[d] for d in columns), product_of([x.extents[d] for d in sums[0]]),
    )  # fmt: skip


def _product(ctx: Importer, x: Tensor, y: Tensor, batch: tuple[list[int], list[int]],
             sums: tuple[list[int], list[int]]) -> Tensor:  # fmt: skip
    """The batch dims, the others of x, the others of y."""
    rows, columns, lead, high, wide, terms = _sides(x, y, batch, sums)
    as_it_lies = columns + sums[1] == list(range(y.rank))
    if not lead and high and wide and (as_it_lies or _is_constant(ctx, y)):
        # a linear layer, whose weight is packed once
        weight = _arranged(ctx, y, columns + sums[1], (product_of(wide), terms))
        own = _arranged(ctx, x, rows + sums[0], (*high, terms))
        found = ctx.emit_one("linear", [own, weight], TensorType(x.dtype, (*high, weight.extents[0])))
        return ctx.reshape(found, (*high, *wide))
    if _lies_in_rows(ctx, y, sums[1]) and not _lies_in_rows(ctx, x, sums[0]):
        # the factors change places, not their elements
        turned = _product_as_given(ctx, y, x, (batch[1], batch[0]), (sums[1], sums[0]))
        count, high_count = len(lead), len(high)
        order = [*range(count), *range(turned.rank - high_count, turned.rank), *range(count, turned.rank - high_count)]
        return ctx.moved(turned, order)
    return _product_as_given(ctx, x, y, batch, sums)


def _lies_in_rows(ctx: Importer, x: Tensor, sums: list[int]) -> bool:
    """Whether the terms of products are the last dim of what x was permuted from."""
    view = ctx.made(x, "permute")
    if view is None or view.operands[0] is None:
        return bool(sums) and sums[-1] == x.rank - 1
    before: Any = view.attributes["dims"]
    return bool(sums) and before[sums[-1]] == x.rank - 1


def _product_as_given(ctx: Importer, x: Tensor, y: Tensor, batch: tuple[list[int], list[int]],
                      sums: tuple[list[int], list[int]]) -> Tensor:  # fmt: skip
    """The same, the first factor's dims first."""
    rows, columns, lead, high, wide, terms = _sides(x, y, batch, sums)
    left = _arranged(ctx, x, batch[0] + rows + sums[0], (*lead, product_of(high), terms))
    right = _arranged(ctx, y, batch[1] + sums[1] + columns, (*lead, terms, product_of(wide)))
    type = TensorType(x.dtype, (*lead, left.extents[-2], right.extents[-1]))
    return ctx.reshape(ctx.emit_one("matmul", [left, right], type), (*lead, *high, *wide))


def _is_constant(ctx: Importer, x: Tensor) -> bool:
    """Whether a tensor is a constant, seen in some way."""
    while (view := ctx.made(x, "reshape", "permute", "slice")) is not None and view.operands[0] is not None:
        x = view.operands[0]
    return ctx.made(x, "parameter", "constant") is not None


def _arranged(ctx: Importer, x: Tensor, order: list[int], extents: Sequence[Dim]) -> Tensor:
    return ctx.reshape(ctx.moved(x, order), extents)


@converter("convolution")
def _convolution(ctx: Importer, op: Op) -> Tensor:
    n = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    space = list(n.input_spatial_dimensions)
    rank = len(space)
    x = ctx.moved(ctx.tensor(op.inputs[0]), [n.input_batch_dimension, n.input_feature_dimension, *space])
    weight = ctx.moved(
        ctx.tensor(op.inputs[1]),
        [n.kernel_output_feature_dimension, n.kernel_input_feature_dimension, *n.kernel_spatial_dimensions],
    )
    dtype = op.dtype() if op.dtype() in FLOATS else "f64"  # in which sums of integers are exact below 2 ** 53
    x, weight = ctx.cast(x, dtype), ctx.cast(weight, dtype)
    turned = [d + 2 for d, flag in enumerate(op.numbers("window_reversal")) if flag]
    if turned:
        weight = ctx.emit_one("flip", [weight], weight.type, {"dims": turned})
    for dim, spread in enumerate(op.numbers("lhs_dilation", [1] * rank)):
        if spread > 1:
            x = _spread(ctx, x, number(0, dtype), dim + 2, spread - 1)
    groups = op.number("feature_group_count", 1)
    if (images := op.number("batch_group_count", 1)) != 1:
        x, groups = _images_as_features(ctx, x, images), images
    found = _convolved(ctx, op, x, weight, rank, groups)
    back = [n.output_batch_dimension, n.output_feature_dimension, *n.output_spatial_dimensions]
    if op.dtype() not in FLOATS:
        found = ctx.cast(ctx.cast(found, "i64"), op.dtype())
    return ctx.moved(found, [back.index(d) for d in range(rank + 2)])


def _images_as_features(ctx: Importer, x: Tensor, groups: int) -> Tensor:
    """Images [groups * n, c, ..] as [n, groups * c, ..]: a group of images beside the others, as a group of features."""
    count, features, *space = x.extents
    count = known(count) // groups
    split = ctx.moved(ctx.reshape(x, (groups, count, features, *space)), [1, 0, *range(2, x.rank + 1)])
    return ctx.reshape(split, (count, groups * features, *space))


def _convolved(ctx: Importer, op: Op, x: Tensor, weight: Tensor, rank: int, groups: int) -> Tensor:
    """Images [n, c, ..] and weights [o, i, ..]."""
    stride, dilation = op.numbers("window_strides", [1] * rank), op.numbers("rhs_dilation", [1] * rank)
    flat = op.numbers("padding", [0] * (2 * rank))
    pads = list(zip(flat[::2], flat[1::2]))
    if any(a != b or a < 0 for a, b in pads):
        x, pads = ctx.padded(x, [(0, 0), (0, 0), *pads], 0.0), [(0, 0)] * rank
    kernel = [known(e) for e in weight.extents[2:]]
    if rank == 0 and groups == 1:
        return ctx.emit_one("linear", [x, weight], TensorType(x.dtype, (x.extents[0], weight.extents[0])))
    sizes = [
        (e + 2 * p - (d * (k - 1) + 1)) // s + 1
        for e, (p, _), k, s, d in zip(x.extents[2:], pads, kernel, stride, dilation)
    ]
    how: dict[str, Any] = {
        "stride": stride, "padding": [p for p, _ in pads], "dilation": dilation, "transposed": False,
        "output_padding": [0] * rank, "groups": groups,
    }  # fmt: skip
    type = TensorType(x.dtype, (x.extents[0], weight.extents[0], *sizes))
    if rank > 3 or rank == 0:
        raise Reject(f"a convolution over {rank} dims", "1 to 3")
    if rank == 3:
        return convolution3d(ctx, x, weight, None, how, type)
    return ctx.emit_one("convolution", [x, weight, None], type, how)


@converter("cholesky", "triangular_solve")
def _linear_algebra(ctx: Importer, op: Op) -> Value:
    raise Reject(f"{op.kind} as an op of StableHLO", "a module that is lowered for the cpu")
