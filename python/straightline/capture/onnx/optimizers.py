# SPDX-License-Identifier: Apache-2.0
"""Steps of optimisers (ai.onnx.preview.training): of several tensors, each with its gradient and its states."""

from __future__ import annotations

from straightline.capture.graph_builder import Tensor
from straightline.capture.onnx.importer import Importer, Node, converter

_DOMAIN = "ai.onnx.preview.training."


def _inputs(ctx: Importer, node: Node, kinds: int) -> tuple[Tensor, Tensor, list[list[Tensor]]]:
    """The rate, the number of updates, and for each tensor what belongs to it."""
    rate, step, *rest = (ctx.tensor(x) for x in node.inputs)
    count = len(rest) // kinds
    return rate, step, [rest[i::count] for i in range(count)]


def _sum(ctx: Importer, x: Tensor, of_x: float, y: Tensor, of_y: float) -> Tensor:
    """A weighted sum."""
    return ctx.binary("add", ctx.binary("mul", x, of_x), ctx.binary("mul", y, of_y))


def _regularised(ctx: Importer, node: Node, x: Tensor, gradient: Tensor) -> Tensor:
    norm = float(node.attribute("norm_coefficient", 0.0))
    return gradient if norm == 0 else _sum(ctx, x, norm, gradient, 1.0)


@converter(_DOMAIN + "Adagrad")
def _adagrad(ctx: Importer, node: Node) -> list[Tensor]:
    rate, step, tensors = _inputs(ctx, node, 3)
    decay = ctx.binary("mul", ctx.cast(step, rate.dtype), float(node.attribute("decay_factor", 0.0)))
    rate = ctx.binary("div", rate, ctx.binary("add", decay, 1.0))
    found, states = [], []
    for x, gradient, squares in tensors:
        g = _regularised(ctx, node, x, gradient)
        squares = ctx.binary("add", squares, ctx.binary("mul", g, g))
        size = ctx.binary("add", ctx.unary("sqrt", squares), float(node.attribute("epsilon", 0.0)))
        found.append(ctx.binary("sub", x, ctx.binary("div", ctx.binary("mul", g, rate), size)))
        states.append(squares)
    return [*found, *states]


@converter(_DOMAIN + "Momentum")
def _momentum(ctx: Importer, node: Node) -> list[Tensor]:
    rate, step, tensors = _inputs(ctx, node, 3)
    alpha, beta = float(node.attribute("alpha")), float(node.attribute("beta"))
    scale = ctx.where(ctx.compare("gt", step, 0), ctx.full(beta, rate.dtype), ctx.full(1.0, rate.dtype))
    found, states = [], []
    for x, gradient, old in tensors:
        g = _regularised(ctx, node, x, gradient)
        new = ctx.binary("add", ctx.binary("mul", old, alpha), ctx.binary("mul", g, scale))
        way = _sum(ctx, new, alpha, g, 1.0) if node.attribute("mode") == "nesterov" else new
        found.append(ctx.binary("sub", x, ctx.binary("mul", way, rate)))
        states.append(new)
    return [*found, *states]


@converter(_DOMAIN + "Adam")
def _adam(ctx: Importer, node: Node) -> list[Tensor]:
    rate, step, tensors = _inputs(ctx, node, 4)
    alpha, beta = float(node.attribute("alpha", 0.9)), float(node.attribute("beta", 0.999))
    count = ctx.cast(step, rate.dtype)

    def rest(base: float) -> Tensor:
        return ctx.binary("sub", ctx.full(1.0, rate.dtype), ctx.binary("pow", ctx.full(base, rate.dtype), count))

    corrected = ctx.binary("div", ctx.binary("mul", rate, ctx.unary("sqrt", rest(beta))), rest(alpha))
    rate = ctx.where(ctx.compare("gt", step, 0), corrected, rate)
    found, means, squares = [], [], []
    for x, gradient, mean, square in tensors:
        g = _regularised(ctx, node, x, gradient)
        mean = _sum(ctx, mean, alpha, g, 1 - alpha)
        square = _sum(ctx, square, beta, ctx.binary("mul", g, g), 1 - beta)
        size = ctx.binary("add", ctx.unary("sqrt", square), float(node.attribute("epsilon", 0.0)))
        new = ctx.binary("sub", x, ctx.binary("div", ctx.binary("mul", mean, rate), size))
        post = float(node.attribute("norm_coefficient_post", 0.0))
        found.append(new if post == 0 else ctx.binary("mul", new, 1 - post))
        means.append(mean)
        squares.append(square)
    return [*found, *means, *squares]
