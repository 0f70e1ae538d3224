# SPDX-License-Identifier: Apache-2.0
"""Paddle's products and convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from straightline.capture.builder import Dim, TensorType
from straightline.capture.extents import product_of
from straightline.capture.graph_builder import FLOATS, Reject, Tensor, known
from straightline.capture.paddle.attention import of_product
from straightline.capture.paddle.importer import Importer, Node, converter
from straightline.capture.volumes import convolution3d
from straightline.errors import UserError

# Products -------------------------------------------------------------------------------------------------------------


def _turned(ctx: Importer, x: Tensor) -> Tensor:
    return ctx.permute(x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])


def product(ctx: Importer, x: Tensor, y: Tensor) -> Tensor:
    """Paddle's matmul without transposes: vectors, broadcast batches."""
    if x.dtype != y.dtype:
        raise Reject(f"a product of {x.dtype} and {y.dtype}", "operands of one element type")
    if x.rank == 0 or y.rank == 0:
        raise Reject("a product of a 0-d tensor", "a vector")
    row, column = x.rank == 1, y.rank == 1
    x = ctx.reshape(x, (1, *x.extents)) if row else x
    y = ctx.reshape(y, (*y.extents, 1)) if column else y
    terms = ctx.equal(x.extents[-1], y.extents[-2], "terms of a product")
    batch = ctx.common(x.extents[:-2], y.extents[:-2])
    if x.rank != y.rank and min(x.rank, y.rank) > 2 and batch != max(x.extents[:-2], y.extents[:-2], key=len):
        raise Reject(
            f"batches of sizes {list(x.extents[:-2])} and {list(y.extents[:-2])}, of which Paddle broadcasts the one with fewer "
            "dims alone",
            "operands of one rank (unsqueeze)",
        )
    if x.dtype not in FLOATS:
        found = _product_of_integers(ctx, x, y, batch)
    elif not batch or y.rank == 2 and x.rank > 2:
        flat = ctx.reshape(x, (product_of(x.extents[:-1]), terms))
        found = ctx.emit_one("matmul", [flat, y], TensorType(x.dtype, (flat.extents[0], y.extents[-1])))
        found = ctx.reshape(found, (*x.extents[:-1], y.extents[-1]))
    else:
        left = ctx.reshape(ctx.expand(x, (*batch, *x.extents[-2:])), (product_of(batch), *x.extents[-2:]))
        right = ctx.reshape(ctx.expand(y, (*batch, *y.extents[-2:])), (product_of(batch), *y.extents[-2:]))
        type = TensorType(x.dtype, (product_of(batch), x.extents[-2], y.extents[-1]))
        found = ctx.reshape(ctx.emit_one("matmul", [left, right], type), (*batch, *type.extents[1:]))
    sizes = [*found.extents[:-2]] + ([] if row else [found.extents[-2]]) + ([] if column else [found.extents[-1]])
    return ctx.reshape(found, sizes)


def _product_of_integers(ctx: Importer, x: Tensor, y: Tensor, batch: Sequence[Dim]) -> Tensor:
    """Matrices by sums of products, which are right for any integers; the matmuls of kernels are of floats."""
    rows, terms, columns = x.extents[-2], x.extents[-1], y.extents[-1]
    left = ctx.reshape(x, (*x.extents[:-1], 1, terms))
    right = ctx.reshape(_turned(ctx, y), (*y.extents[:-2], 1, columns, terms))
    shape = (*batch, rows, columns, terms)
    products = ctx.binary("mul", ctx.expand(left, shape), ctx.expand(right, shape))
    return ctx.reduce("sum", products, [len(shape) - 1], False)


@converter("matmul", "bmm", "mv", "dot", takes="vectors, matrices and batches of floats and integers, either operand transposed",
           refuses="products of two element types; batches of unequal ranks that Paddle does not broadcast")  # fmt: skip
def _matmul(ctx: Importer, node: Node) -> Tensor:
    x, y = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1])
    if node.op.short == "dot":
        last = x.rank - 1
        return ctx.reduce("sum", ctx.binary("mul", x, y), [last], False)
    if (found := of_product(ctx, node, y)) is not None:
        return found
    turns_x, turns_y = node.attribute("transpose_x", False), node.attribute("transpose_y", False)
    if turns_x and x.rank > 1:
        x = _turned(ctx, x)
    if y.rank == 2 and ctx.is_fixed(y) and x.rank > 1 and x.dtype == y.dtype and x.dtype in FLOATS:
        return _linear(ctx, x, y if turns_y else _turned(ctx, y), None)
    if turns_y and y.rank > 1:
        y = _turned(ctx, y)
    return product(ctx, x, y)


def _linear(ctx: Importer, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """A product with a weight [out, in] of parameters."""
    ctx.equal(x.extents[-1], weight.extents[1], "terms of a product")
    type = TensorType(x.dtype, (*x.extents[:-1], weight.extents[0]))
    return ctx.emit_one("linear", [x, weight, bias], type)


@converter("addmm", takes="floats")
def _addmm(ctx: Importer, node: Node) -> Tensor:
    added, x, y = (ctx.tensor(t) for t in node.inputs[:3])
    found = product(ctx, x, y)
    alpha, beta = float(node.attribute("alpha", 1.0)), float(node.attribute("beta", 1.0))
    found = found if alpha == 1.0 else ctx.binary("mul", found, ctx.operand(alpha, found.type))
    added = added if beta == 1.0 else ctx.binary("mul", added, ctx.operand(beta, added.type))
    return ctx.binary("add", added, found)


@converter("baddbmm", takes="floats")
def _baddbmm(ctx: Importer, node: Node) -> Tensor:
    return _addmm(ctx, node)


def with_bias(ctx: Importer, node: Node, x: Tensor, y: Tensor) -> Tensor | None:
    """A sum of a product or convolution that nothing else reads and one number a column or channel: one op with a bias."""
    maker = ctx.makers.get(node.op.operands[0])
    if ctx.memory:
        return None  # what the product read may be another value by now
    if maker is None or ctx.uses.get(node.op.operands[0]) != 1 or not ctx.is_fixed(y) or x.dtype != y.dtype:
        return None
    given = [ctx.values.get(n) if n else None for n in maker.operands]
    inner = Node(maker, given)
    if maker.short == "matmul":
        left, weight = given[:2]
        if not (isinstance(weight, Tensor) and weight.rank == 2 and ctx.is_fixed(weight) and isinstance(left, Tensor)):
            return None
        if left.rank < 2 or y.extents != (x.extents[-1],) or x.dtype not in FLOATS:
            return None
        if inner.attribute("transpose_x", False):
            left = _turned(ctx, left)
        return _linear(ctx, left, weight if inner.attribute("transpose_y", False) else _turned(ctx, weight), y)
    if maker.short in ("conv2d", "depthwise_conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose"):
        if inner.attribute("data_format", "NCHW") not in ("NCHW", "NCDHW"):
            return None
        channel = (1, x.extents[1], *(1 for _ in x.extents[2:]))
        if y.extents != channel:
            return None
        bias = ctx.reshape(y, (x.extents[1],))
        return (_conv_transpose if maker.short.endswith("_transpose") else _conv)(ctx, inner, bias)
    return None


# Convolutions ---------------------------------------------------------------------------------------------------------


def windows_padding(
    node: Node, sizes: Sequence[Dim], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[tuple[int, int]]:
    """(before, after) of each spatial dim."""
    rank, way = len(sizes), node.attribute("padding_algorithm", "EXPLICIT")
    if way == "VALID":
        return [(0, 0)] * rank
    if way == "SAME":
        found = []
        for size, k, s in zip(sizes, kernel, strides):
            if s == 1:
                total = k - 1
            else:
                total = max((-(-known(size) // s) - 1) * s + k - known(size), 0)
            found.append((total // 2, total - total // 2))
        return found
    pads = [int(p) for p in node.attribute("paddings")]
    if len(pads) == rank:
        return [(p, p) for p in pads]
    if len(pads) != 2 * rank:
        raise Reject(f"paddings {pads} of {rank} dims")
    return list(zip(pads[::2], pads[1::2]))


def channels_first(ctx: Importer, node: Node, x: Tensor) -> tuple[Tensor, bool]:
    """The tensor with its channels as dim 1, and whether they were last."""
    layout = node.attribute("data_format", "NCHW")
    if layout in ("NCHW", "NCDHW", "AnyLayout", "NCL"):
        return x, False
    if layout not in ("NHWC", "NDHWC", "NLC"):
        raise Reject(f"data_format {layout}", "NCHW or NHWC")
    return ctx.permute(x, [0, x.rank - 1, *range(1, x.rank - 1)]), True


def channels_last(ctx: Importer, x: Tensor) -> Tensor:
    """Channels from dim 1 to the end."""
    return ctx.permute(x, [0, *range(2, x.rank), 1])


@converter("conv2d", "depthwise_conv2d", "conv3d", takes="NCHW and NHWC, groups, dilations, every padding",
           refuses="SAME of a named size with a stride")  # fmt: skip
def _conv_op(ctx: Importer, node: Node) -> Tensor:
    return _conv(ctx, node, None)


def _conv(ctx: Importer, node: Node, bias: Tensor | None) -> Tensor:
    x, last = channels_first(ctx, node, ctx.tensor(node.inputs[0]))
    weight = ctx.tensor(node.inputs[1])
    kernel = [known(e) for e in weight.extents[2:]]
    channels, groups = known(weight.extents[1]) * int(node.attribute("groups", 1)), int(node.attribute("groups", 1))
    if x.extents[1] != channels:
        raise UserError(
            f"{ctx.location}: {node.op.short}: x has {x.extents[1]} channels but the weight is of {channels}, {groups} groups of "
            f"{weight.extents[1]}"
        )
    if not channels:  # whose results have no channels either in Paddle
        raise Reject("images of no channels", "1 channel or more")
    strides, dilations = node.attribute("strides"), node.attribute("dilations")
    if node.attribute("padding_algorithm") == "SAME":
        dilations = [1] * len(kernel)  # as Paddle does it
    pads = windows_padding(node, x.extents[2:], kernel, strides, dilations)
    if any(a != b for a, b in pads):
        x, pads = ctx.padded(x, pads), [(0, 0)] * len(kernel)
    sizes = [
        (e + 2 * p - (d * (k - 1) + 1)) // s + 1
        for e, (p, _), k, s, d in zip(x.extents[2:], pads, kernel, strides, dilations)
    ]
    attributes = {
        "stride": list(strides), "padding": [p for p, _ in pads], "dilation": list(dilations), "transposed": False,
        "output_padding": [0] * len(kernel), "groups": groups,
    }  # fmt: skip
    found = _emitted(ctx, x, weight, bias, attributes, TensorType(x.dtype, (x.extents[0], weight.extents[0], *sizes)))
    return channels_last(ctx, found) if last else found


def _emitted(
    ctx: Importer, x: Tensor, weight: Tensor, bias: Tensor | None, attributes: dict[str, object], type: TensorType
) -> Tensor:
    for size in type.extents[2:]:
        ctx.at_least(size, 1, "a convolution with a result")
    if x.rank == 5:
        return convolution3d(ctx, x, weight, bias, attributes, type)
    return ctx.emit_one("convolution", [x, weight, bias], type, attributes)


@converter("conv2d_transpose", "depthwise_conv2d_transpose", "conv3d_transpose",
           takes="every padding, groups, dilations, output padding and size")  # fmt: skip
def _conv_transpose_op(ctx: Importer, node: Node) -> Tensor:
    return _conv_transpose(ctx, node, None)


def _conv_transpose(ctx: Importer, node: Node, bias: Tensor | None) -> Tensor:
    x, last = channels_first(ctx, node, ctx.tensor(node.inputs[0]))
    weight, groups = ctx.tensor(node.inputs[1]), int(node.attribute("groups", 1))
    kernel = [known(e) for e in weight.extents[2:]]
    strides, dilations = node.attribute("strides"), node.attribute("dilations")
    pads = windows_padding(node, x.extents[2:], kernel, strides, dilations)
    least = [
        s * (e - 1) + d * (k - 1) + 1 - a - b
        for e, s, k, d, (a, b) in zip(x.extents[2:], strides, kernel, dilations, pads)
    ]
    extra = list(node.attribute("output_padding") or [0] * len(kernel))
    wanted: list[Dim] = [int(n) for n in node.attribute("output_size") or []]
    if node.input(2) is not None:
        wanted = ctx.sizes(node.input(2), "an output size")
    if wanted:
        extra = [known(w - e) for w, e in zip(wanted, least)]
    if any(o < 0 or o >= max(s, d) for o, s, d in zip(extra, strides, dilations)):
        raise Reject(f"an output padding of {extra}", "less than a stride")
    both = [min(pair) for pair in pads]  # what is left of one end is cut off the result
    cut = [(p - a, p - b) for p, (a, b) in zip(both, pads)]
    attributes = {
        "stride": list(strides), "padding": both, "dilation": list(dilations), "transposed": True,
        "output_padding": extra, "groups": groups,
    }  # fmt: skip
    sizes = [e + o - a - b for e, o, (a, b) in zip(least, extra, cut)]
    type = TensorType(x.dtype, (x.extents[0], known(weight.extents[1]) * groups, *sizes))
    found = ctx.padded(_emitted(ctx, x, weight, bias, attributes, type), cut)
    return channels_last(ctx, found) if last else found
