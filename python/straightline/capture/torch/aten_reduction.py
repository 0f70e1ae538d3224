# SPDX-License-Identifier: Apache-2.0
"""ATen reductions, softmax and normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from straightline.capture.builder import Dim, TensorType
from straightline.capture.extents import product_of
from straightline.capture.graph_builder import FLOATS, Reject, Tensor, known, wrap
from straightline.capture.torch.importer import Arguments, Importer, converter, read_results, torch_dtype
from straightline.errors import UserError

#: Reductions whose result is one of the elements, so that a row without elements has no result.
OF_SOME_ELEMENT = frozenset(
    f"aten.{extreme}"
    for extreme in (
        "amax.default", "amin.default", "argmax.default", "argmin.default", "max.default", "max.dim", "min.default", "min.dim",
    )
)  # fmt: skip


def _needs_elements(ctx: Importer, what: str, x: Tensor, dims: Sequence[int]) -> None:
    empty = [dim for dim in dims if x.rank and x.extents[dim] == 0]
    if empty:
        raise UserError(f"{what} over dim {empty[0]}, which has size 0, has no result, at {ctx.location}")


def _dims(x: Tensor, dim: Any) -> list[int]:
    """The reduced dimensions: all of them for None or an empty list, as in ATen."""
    if dim is None or dim == []:
        return list(range(x.rank))
    listed = dim if isinstance(dim, (list, tuple)) else [dim]
    return sorted({wrap(d, x.rank) for d in listed})


def _reduced(x: Tensor, dims: Sequence[int], keepdim: bool) -> tuple[Dim, ...]:
    if keepdim:
        return tuple(1 if d in dims else e for d, e in enumerate(x.extents))
    return tuple(e for d, e in enumerate(x.extents) if d not in dims)


def reduce(ctx: Importer, op: str, x: Tensor, dims: Sequence[int], keepdim: bool, **attributes: Any) -> Tensor:
    """Emits a reduction; refuses the largest or smallest element of an empty row."""
    if op in ("amax", "amin"):
        _needs_elements(ctx, op, x, dims)
    return ctx.reduce(op, x, dims, keepdim, **attributes)


def _needs_static_rows(what: str, x: Tensor, dims: Sequence[int]) -> None:
    """Rejects an average over sizes that are known per call only."""
    for dim in dims:
        if x.rank and not isinstance(x.extents[dim], int):
            raise Reject(f"{what} over the named extent {x.extents[dim]}", "averages over static dims")


@converter(
    "aten.sum.dim_IntList",
    "aten.sum.default",
    "aten.mean.dim",
    "aten.mean.default",
    "aten.prod.default",
    "aten.prod.dim_int",
)
def _sum(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    op = str(node.target).split(".")[1]
    x = ctx.cast(a.self, ctx.result_type(node).dtype)  # integers and booleans sum as i64
    return reduce(ctx, op, x, _dims(x, a.get("dim")), a.get("keepdim", False))


@converter("aten.amax.default", "aten.amin.default", "aten.max.default", "aten.min.default")
def _amax(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    op = "amax" if "max" in str(node.target) else "amin"
    return reduce(ctx, op, a.self, _dims(a.self, a.get("dim")), a.get("keepdim", False))


@converter(
    "aten.any.default",
    "aten.any.dim",
    "aten.any.dims",
    "aten.all.default",
    "aten.all.dim",
    "aten.all.dims",
)
def _any(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    op = str(node.target).split(".")[1]
    x = ctx.cast(a.self, "i1")
    result = reduce(ctx, op, x, _dims(x, a.get("dim")), a.get("keepdim", False))
    return ctx.cast(result, ctx.result_type(node).dtype)  # ui8 stays ui8


def _arg_reduce(ctx: Importer, op: str, x: Tensor, dim: int, keepdim: bool) -> Tensor:
    if x.rank == 0:
        return ctx.full(0, "i64")
    dim = wrap(dim, x.rank)
    _needs_elements(ctx, op, x, [dim])
    type = TensorType("i64", _reduced(x, [dim], keepdim))
    return ctx.emit_one(op, [x], type, {"dim": dim, "keepdim": bool(keepdim)})


@converter("aten.argmax.default", "aten.argmin.default")
def _argmax(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    op = str(node.target).split(".")[1]
    type = ctx.result_type(node)
    if a.dim is not None:
        return _arg_reduce(ctx, op, a.self, a.dim, a.keepdim)
    if not a.self.type.is_static:
        raise Reject(f"{op} over all of a tensor with dynamic sizes", "a dim")
    count = product_of(a.self.extents)
    return ctx.reshape(_arg_reduce(ctx, op, ctx.reshape(a.self, (count,)), 0, False), type.extents)


@converter("aten.max.dim", "aten.min.dim")
def _max_dim(ctx: Importer, a: Arguments, node: torch.fx.Node) -> list[Tensor]:
    suffix = "max" if ".max." in str(node.target) else "min"
    values = reduce(ctx, f"a{suffix}", a.self, _dims(a.self, a.dim), a.keepdim)
    if 1 not in read_results(node):
        return [values]
    return [values, _arg_reduce(ctx, f"arg{suffix}", a.self, a.dim, a.keepdim)]


def _variance(ctx: Importer, a: Arguments) -> Tensor:
    correction = a.get("correction", int(bool(a.get("unbiased", True))))
    correction = 1.0 if correction is None else float(correction)
    dims, keepdim = _dims(a.self, a.get("dim")), a.get("keepdim", False)
    return reduce(ctx, "var", a.self, dims, keepdim, correction=correction)


@converter("aten.var.correction", "aten.var.dim", "aten.var.default")
def _var(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    return _variance(ctx, a)


@converter("aten.std.correction", "aten.std.dim", "aten.std.default")
def _std(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    variance = _variance(ctx, a)
    return ctx.emit_one("sqrt", [variance], variance.type)


@converter("aten.var_mean.correction")
def _var_mean(ctx: Importer, a: Arguments, node: torch.fx.Node) -> list[Tensor]:
    mean = reduce(ctx, "mean", a.self, _dims(a.self, a.dim), a.keepdim)
    return [_variance(ctx, a), mean]


@converter("aten.cumsum.default")
def _cumsum(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    type = ctx.result_type(node)
    x = ctx.cast(a.self, type.dtype)
    if x.rank == 0:
        return ctx.emit_one("clone", [x], type)
    return ctx.emit_one("cumsum", [x], type, {"dim": wrap(a.dim, x.rank)})


def _scan(ctx: Importer, x: Tensor, dim: int, combine: str, dtype: str) -> Tensor:
    """A running combination along a dim; a tensor without dims is its own, at place 0."""
    type = TensorType(dtype, x.extents)
    if x.rank > 0:
        return ctx.emit_one("scan", [x], type, {"combine": combine, "dim": wrap(dim, x.rank)})
    return ctx.operand(0, type) if combine.startswith("arg") else ctx.emit_one("clone", [x], type)


@converter("aten.cumprod.default", "aten.logcumsumexp.default")
def _cumprod(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    type = ctx.result_type(node)
    combine = "prod" if "cumprod" in str(node.target) else "logcumsumexp"
    return _scan(ctx, ctx.cast(a.self, type.dtype), a.dim, combine, type.dtype)


@converter("aten.cummax.default", "aten.cummin.default")
def _cummax(ctx: Importer, a: Arguments, node: torch.fx.Node) -> list[Tensor]:
    combine = str(node.target).split(".")[1].removeprefix("cum")
    values = _scan(ctx, a.self, a.dim, combine, a.self.dtype)
    if 1 not in read_results(node):
        return [values]
    return [values, _scan(ctx, a.self, a.dim, "arg" + combine, "i64")]


def _number_power(ctx: Importer, x: Tensor, exponent: float) -> Tensor:
    return ctx.emit_one("pow", [x, ctx.operand(exponent, x.type)], x.type)


@converter("aten.linalg_vector_norm.default")
def _vector_norm(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    x = ctx.cast(a.self, ctx.result_type(node).dtype)
    dims, keepdim, order = _dims(x, a.dim), a.keepdim, float(a.ord)
    if order == 2:
        total = reduce(ctx, "sum", ctx.emit_one("mul", [x, x], x.type), dims, keepdim)
        return ctx.emit_one("sqrt", [total], total.type)
    size = ctx.emit_one("abs", [x], x.type)
    if order in (float("inf"), float("-inf")):
        return reduce(ctx, "amax" if order > 0 else "amin", size, dims, keepdim)
    if order == 0:
        zero = ctx.operand(0, x.type)
        count = ctx.emit_one("ne", [x, zero], TensorType("i1", x.extents))
        return reduce(ctx, "sum", ctx.cast(count, x.dtype), dims, keepdim)
    if order == 1:
        return reduce(ctx, "sum", size, dims, keepdim)
    total = reduce(ctx, "sum", _number_power(ctx, size, order), dims, keepdim)
    return _number_power(ctx, total, 1.0 / order)


# Softmax --------------------------------------------------------------------------------------------------------------


@converter("aten.softmax.int", "aten._softmax.default", "aten.log_softmax.int", "aten._log_softmax.default")
def _softmax(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    op = "log_softmax" if "log_softmax" in str(node.target) else "softmax"
    type = ctx.result_type(node)
    if type.dtype not in FLOATS:  # eager takes an empty tensor
        raise Reject(f"{op} of {type.dtype}", "float32")
    x = ctx.cast(a.self, type.dtype)  # a dtype argument, or half_to_float
    if x.rank == 0:  # 1, but NaN of what is not finite
        row = TensorType(type.dtype, (1,))
        return ctx.reshape(ctx.emit_one(op, [ctx.reshape(x, (1,))], row, {"dim": 0}), ())
    return ctx.emit_one(op, [x], type, {"dim": wrap(a.dim, x.rank)})


# Normalisation --------------------------------------------------------------------------------------------------------


def _norm_statistics(ctx: Importer, x: Tensor, dims: Sequence[int], eps: float) -> tuple[Tensor, Tensor]:
    """Mean and reciprocal standard deviation, kept as dimensions of size 1."""
    mean = reduce(ctx, "mean", x, dims, True)
    variance = reduce(ctx, "var", x, dims, True, correction=0.0)
    shifted = ctx.emit_one("add", [variance, ctx.operand(eps, variance.type)], variance.type)
    return mean, ctx.emit_one("rsqrt", [shifted], shifted.type)


def _as_statistics(ctx: Importer, x: Tensor, node: torch.fx.Node) -> Tensor:
    """`x` in the dtype of the statistics that the op returns: of halves float32 on a device, halves on the CPU."""
    _, mean, *_ = node.meta["val"]
    return ctx.cast(x, ctx.type_of(mean).dtype)


def _norm(ctx: Importer, op: str, operands: Sequence[Tensor | None], attributes: dict[str, Any]) -> Tensor:
    """A norm of x, weight and bias. Of a half type and parameters of float32 it is one of float32, as eager computes it."""
    x = operands[0]
    assert x is not None
    others = {t.dtype for t in operands if t is not None} - {x.dtype}
    if not others:
        return ctx.emit_one(op, operands, x.type, attributes)
    if x.dtype not in ("f16", "bf16") or others != {"f32"}:
        ctx.refuse_as_eager()
        raise Reject(f"{op} of {x.dtype} with parameters of {', '.join(sorted(others))}", f"parameters of {x.dtype}")
    wide = [None if t is None else ctx.cast(t, "f32") for t in operands]
    return ctx.cast(ctx.emit_one(op, wide, TensorType("f32", x.extents), attributes), x.dtype)


def _layer_norm(ctx: Importer, a: Arguments) -> Tensor:
    attributes = {"normalized_rank": len(a.normalized_shape), "eps": float(a.eps)}
    operands = [a.get("self", a.get("input")), a.weight, a.bias]
    _needs_static_rows("layer_norm", operands[0], range(-len(a.normalized_shape), 0))
    return _norm(ctx, "layer_norm", operands, attributes)


@converter("aten.layer_norm.default")
def _layer_norm_default(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    return _layer_norm(ctx, a)


@converter("aten.native_layer_norm.default")
def _native_layer_norm(ctx: Importer, a: Arguments, node: torch.fx.Node) -> list[Tensor | None]:
    result: list[Tensor | None] = [_layer_norm(ctx, a), None, None]
    if read_results(node) & {1, 2}:
        first = a.input.rank - len(a.normalized_shape)
        dims = list(range(first, a.input.rank))
        result[1:] = _norm_statistics(ctx, _as_statistics(ctx, a.input, node), dims, float(a.eps))
    return result


@converter("aten.rms_norm.default")
def _rms_norm(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    x = a.input
    # Half types are normalised in float32, whose epsilon eager takes then.
    eps = torch.finfo(torch_dtype("f32" if x.dtype in ("f16", "bf16") else x.dtype)).eps
    eps = float(eps if a.eps is None else a.eps)
    _needs_static_rows("rms_norm", x, range(-len(a.normalized_shape), 0))
    attributes = {"normalized_rank": len(a.normalized_shape), "eps": eps}
    return _norm(ctx, "rms_norm", [x, a.weight], attributes)


def _group_norm(ctx: Importer, x: Tensor, a: Arguments, groups: int) -> Tensor:
    known(x.extents[1])
    attributes = {"groups": groups, "eps": float(a.eps)}
    return _norm(ctx, "group_norm", [x, a.weight, a.bias], attributes)


@converter("aten.group_norm.default")
def _group_norm_default(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    return _group_norm(ctx, a.input, a, a.num_groups)


def _batch_norm(ctx: Importer, a: Arguments, mean: Tensor, var: Tensor) -> Tensor:
    affine = [x and ctx.cast(x, mean.dtype) for x in (a.weight, a.bias)]
    operands = [a.input, *affine, mean, var]
    return ctx.emit_one("batch_norm", operands, a.input.type, {"eps": float(a.eps)})


@converter("aten._native_batch_norm_legit_no_training.default")
def _batch_norm_inference(ctx: Importer, a: Arguments, node: torch.fx.Node) -> list[Tensor | None]:
    return [_batch_norm(ctx, a, a.running_mean, a.running_var), None, None]


@converter("aten._native_batch_norm_legit.no_stats")
def _batch_norm_of_batch(ctx: Importer, a: Arguments, node: torch.fx.Node) -> list[Tensor]:
    return _of_batch(ctx, a, _as_statistics(ctx, a.input, node))


def _of_batch(ctx: Importer, a: Arguments, x: Tensor) -> list[Tensor]:
    """Normalizes by the statistics of this batch, and gives these: instance norm, and batch norm without running statistics.

    `x`: the input, in the dtype of the statistics.
    """
    dims = [d for d in range(x.rank) if d != 1]
    mean, var = reduce(ctx, "mean", x, dims, False), reduce(ctx, "var", x, dims, False, correction=0.0)
    shifted = ctx.emit_one("add", [var, ctx.operand(float(a.eps), var.type)], var.type)
    return [_batch_norm(ctx, a, mean, var), mean, ctx.emit_one("rsqrt", [shifted], var.type)]


@converter(
    "aten.batch_norm.default",
    "aten.native_batch_norm.default",
    "aten._native_batch_norm_legit.default",
    "aten._native_batch_norm_legit_functional.default",
)
def _batch_norm_default(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Any:
    is_single = str(node.target) == "aten.batch_norm.default"
    if not a.training:
        result = _batch_norm(ctx, a, a.running_mean, a.running_var)
        return result if is_single else [result, None, None]
    if a.running_mean is None:
        return _of_batch(ctx, a, a.input)[0] if is_single else _of_batch(ctx, a, _as_statistics(ctx, a.input, node))
    raise Reject("batch norm in training mode", "model.eval()")
