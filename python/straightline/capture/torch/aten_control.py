# SPDX-License-Identifier: Apache-2.0
"""Control flow, sizes, checks, and ops without an effect in inference."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from straightline import own_kernels
from straightline.capture.builder import Extent
from straightline.capture.graph_builder import Reject, Tensor
from straightline.capture.torch.aten_tail import convert_effect, convert_functionalised, convert_updating
from straightline.capture.torch.importer import NEAREST, TAKES_COMPLEX, Arguments, Importer, converter
from straightline.errors import InternalError

if TYPE_CHECKING:
    from straightline.capture.torch.functional import ValueGraph

NEAREST["aten._local_scalar_dense"] = NEAREST["aten.item"] = "the tensor itself in place of the number"
NEAREST["aten.rand"] = NEAREST["aten.randn"] = "random numbers as an input"
NEAREST["aten._assert_async"] = "a model that does not check its data"
NEAREST["aten.bernoulli"] = "random numbers as an input"


@converter(str(operator.getitem))
def _getitem(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Any:
    if not node.users:  # a converter may compute only results that are read
        return None
    results = ctx.argument(node.args[0])
    chosen = results[node.args[1]]
    if chosen is None:
        raise Reject(f"result {node.args[1]} of {node.args[0].target} is not computed")
    return chosen


# Sizes: the symbolic expression of a size is in the node's meta value, so arithmetic on sizes emits nothing.


def _size_expression(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Any:
    value = node.meta["val"]
    if isinstance(value, torch.SymInt):
        return ctx.extents.dim(value)
    if isinstance(value, (bool, int, float)):
        return value
    if all(isinstance(user.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool)) for user in node.users):
        return value  # on the way to a size, whose expression has it
    raise Reject(f"arithmetic on sizes gives {type(value).__name__}", "integer arithmetic")


@converter("aten.sym_size.int")
def _sym_size(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Any:
    value = node.meta["val"]
    if isinstance(
        value, torch.SymInt
    ):  # of a tensor whose op was taken apart, torch may know the size by another symbol
        ctx.data_sizes.rename(value, a.self.extents[a.dim])
    return _size_expression(ctx, a, node)


converter(
    "aten.sym_numel.default",
    str(operator.add),
    str(operator.sub),
    str(operator.mul),
    str(operator.floordiv),
    str(operator.mod),
    str(operator.neg),
    str(operator.pow),
    str(torch.sym_float),
    str(torch.sym_max),
    str(torch.sym_min),
    str(math.trunc),
    str(math.floor),
)(_size_expression)


@converter("straightline.number")
def _number(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Any:
    """A number that a graph of Dynamo's has as an argument or a result."""
    value = node.meta["val"]
    return value if isinstance(value, torch.SymBool) else _size_expression(ctx, a, node)


def _comparison(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Any:
    return node.meta["val"]


converter(*(str(compare) for compare in (
    operator.ge, operator.le, operator.lt, operator.gt, operator.eq, operator.ne,
    operator.and_, operator.or_, operator.not_,
)))(_comparison)  # fmt: skip


@converter("aten._assert_scalar.default")
def _assert_scalar(ctx: Importer, a: Arguments, node: torch.fx.Node) -> None:
    """A condition on sizes, which must hold for every call that matches the signature."""
    if isinstance(a.self, torch.SymBool) and not statically_known_true(a.self):
        if ctx.data_sizes.condition(ctx, a.self, a.assert_msg):
            return
        raise Reject(
            f"calls would have to check the sizes: {a.assert_msg}",
            "a dynamic dimension that can only have such sizes (2 * Dim)",
        )


def _nothing(ctx: Importer, a: Arguments, node: torch.fx.Node) -> None:
    return None


# Facts about sizes and dtypes that the types in the graph already state.
converter(
    "aten._assert_tensor_metadata.default",
    "aten.sym_constrain_range_for_size.default",
    "aten.sym_constrain_range.default",
)(_nothing)


@converter("aten.native_dropout.default")
def _native_dropout(ctx: Importer, a: Arguments, node: torch.fx.Node) -> list[Tensor]:
    if a.train is not False:
        raise Reject(f"dropout of {a.p} that draws numbers")
    return [a.input, ctx.full(True, "i1", a.input.extents)]


@converter(
    "aten.dropout.default",
    "aten.feature_dropout.default",
    "aten.alpha_dropout.default",
    "aten.feature_alpha_dropout.default",
)
def _dropout(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    if a.train and a.p > 0:
        raise InternalError(f"a dropout of {a.p} that draws numbers is whole")
    return a.input


TAKES_COMPLEX.add("aten._assert_tensor_metadata.default")


# Control flow ---------------------------------------------------------------------------------------------------------


def _graph(ctx: Importer, node: Any) -> ValueGraph:
    return ctx.argument(node)


def _branch(ctx: Importer, graph: ValueGraph, operands: list[Any]) -> None:
    with ctx.region() as (_, yields):
        yields.extend(_tensors(ctx.inline(graph, operands)))


def _tensors(values: list[Any]) -> list[Tensor]:
    for value in values:
        if not isinstance(value, Tensor):
            raise Reject(f"a branch returns {value!r}, not a tensor", "tensors only")
    return values


def _predicate(ctx: Importer, value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        raise Reject(f"condition on the size {value}", "a condition on a tensor")
    return ctx.reshape(ctx.cast(value, "i1"), ())


@converter("cond")
def _cond(ctx: Importer, a: Arguments, node: torch.fx.Node) -> list[Tensor]:
    predicate, true, false, operands = node.args[:4]
    condition = _predicate(ctx, ctx.argument(predicate))
    inputs = ctx.argument(operands)
    types = [ctx.result_type(node, index) for index in range(len(node.meta["val"]))]
    _branch(ctx, _graph(ctx, true), inputs)
    _branch(ctx, _graph(ctx, false), inputs)
    return ctx.emit("if", [condition], types, regions=2)


@converter("while_loop")
def _while(ctx: Importer, a: Arguments, node: torch.fx.Node) -> list[Tensor]:
    condition, body, carried, extra = node.args[:4]
    initial, constant = ctx.argument(carried), ctx.argument(extra)
    initial = [x if isinstance(x, (Tensor, Extent)) else ctx.scalar(x, "i64") for x in initial]
    types = [x.type for x in _tensors(initial)]
    with ctx.region(types) as (values, yields):
        result = ctx.inline(_graph(ctx, condition), [*values, *constant])
        yields.append(_predicate(ctx, result[0]))
    with ctx.region(types) as (values, yields):
        yields.extend(_tensors(ctx.inline(_graph(ctx, body), [*values, *constant])))
    return ctx.emit("while", initial, types, regions=2)


@converter("auto_functionalized_v2")
def _auto_functionalized(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Any:
    if not ctx.allows_aten and not own_kernels.find(node.args[0]._schema.name):
        raise Reject(f"{node.args[0]} runs through 'aten', {ctx.why_no_aten}")
    return convert_functionalised(ctx, node)


@converter("with_effects")
def _with_effects(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Any:
    """`with_effects(token, op, *arguments)` gives (token, *results); statements keep their order without tokens."""
    if not ctx.allows_aten and not own_kernels.find(node.args[1]._schema.name):
        raise Reject(f"{node.args[1]} runs through 'aten', {ctx.why_no_aten}")
    return convert_effect(ctx, node)


@converter("straightline.updating")
def _updating(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Any:
    """`updating(op, names, *arguments)` gives the results of an op, then the new values of the arguments that it overwrites."""
    if not ctx.allows_aten and not own_kernels.find(node.args[0]._schema.name):
        raise Reject(f"{node.args[0]} runs through 'aten', {ctx.why_no_aten}")
    return convert_updating(ctx, node)
