# SPDX-License-Identifier: Apache-2.0
"""A front end as small as one can be: a graph as JSON. It shows what a front end has to bring, and that this needs no framework.

A graph has `sizes` (symbol: bounds), `inputs` and `parameters` (name: element type and sizes), `ops` (result, op, operands) and
`results`; graph_builder_test.py has one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from straightline.capture.builder import Builder, Location, TensorType
from straightline.capture.extents import broadcast, canonical
from straightline.capture.graph_builder import GraphBuilder, Tensor, wrap

_Converter = Callable[..., Tensor]


def _type(listed: list[Any]) -> TensorType:
    dtype, *sizes = listed
    return TensorType(dtype, tuple(size if isinstance(size, int) else canonical(size) for size in sizes))


def _binary(op: str) -> _Converter:
    """NumPy's broadcasting, and the first tensor's element type."""

    def convert(g: GraphBuilder, x: Any, y: Any) -> Tensor:
        tensors = [operand for operand in (x, y) if isinstance(operand, Tensor)]
        type = TensorType(tensors[0].dtype, broadcast(tensors[0].extents, tensors[-1].extents))
        return g.emit_one(op, [g.operand(x, type), g.operand(y, type)], type)

    return convert


def _relu(g: GraphBuilder, x: Tensor) -> Tensor:
    return g.emit_one("relu", [x], x.type)


def _linear(g: GraphBuilder, x: Tensor, weight: Tensor) -> Tensor:
    return g.emit_one("linear", [x, weight, None], TensorType(x.dtype, (*x.extents[:-1], weight.extents[0])))


def _mean(g: GraphBuilder, x: Tensor, dim: int) -> Tensor:
    return g.reduce("mean", x, [wrap(dim, x.rank)], False)


def _flatten(g: GraphBuilder, x: Tensor) -> Tensor:
    size: Any = 1
    for extent in x.extents:
        size = size * extent
    return g.reshape(x, (size,))


def _turned(g: GraphBuilder, x: Tensor) -> Tensor:
    return g.permute(x, list(reversed(range(x.rank))))


def _head(g: GraphBuilder, x: Tensor, count: int) -> Tensor:
    return g.slice(x, x.rank - 1, 0, count, count)


_CONVERTERS: dict[str, _Converter] = {
    "add": _binary("add"), "mul": _binary("mul"), "relu": _relu, "linear": _linear, "mean": _mean, "flatten": _flatten,
    "turned": _turned, "head": _head, "cast": GraphBuilder.cast, "size": lambda g, x, dim: g.scalar(x.extents[dim], "i64"),
}  # fmt: skip


def build(text: str, builder: Builder) -> None:
    """Makes the builder calls of a graph."""
    graph = json.loads(text)
    g = GraphBuilder(builder)
    for name, (low, high) in graph.get("sizes", {}).items():
        builder.symbol(name, low, high)
    inputs = {name: _type(listed) for name, listed in graph["inputs"].items()}
    values = dict(zip(inputs, g.begin("forward", list(inputs.items()))))
    values |= {name: g.parameter(name, _type(listed)) for name, listed in graph.get("parameters", {}).items()}
    for line, (result, op, *operands) in enumerate(graph["ops"], 1):
        g.location = Location(result, "graph.json", line)
        values[result] = _CONVERTERS[op](g, *(values.get(x, x) if isinstance(x, str) else x for x in operands))
    g.end([(name, values[name]) for name in graph["results"]])
