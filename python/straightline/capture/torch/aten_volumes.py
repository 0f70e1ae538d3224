# SPDX-License-Identifier: Apache-2.0
"""Convolutions and pools over three dims, as ones over two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from straightline.capture import volumes
from straightline.capture.builder import Dim, TensorType
from straightline.capture.graph_builder import FLOATS, Reject, Tensor, known
from straightline.capture.torch.aten_pools import largest_and_places
from straightline.capture.torch.importer import Arguments, Importer, converter, read_results


def convolution3d(
    ctx: Importer, x: Tensor, weight: Tensor, bias: Tensor | None, how: dict[str, Any], type: TensorType
) -> Tensor:
    """`volumes.convolution3d`, but for a form that torch's kernel takes less time for."""
    kernel = weight.extents[2:]
    covers = (
        list(kernel) == how["stride"]
        and how["groups"] == 1
        and not any(how["padding"])
        and how["dilation"] == [1, 1, 1]
    )
    if not how["transposed"] and not covers and not ctx.target.supports("convolves_few_channels"):
        c, (kd, kh, kw) = known(x.extents[1]), map(known, kernel)
        if c < 5 and kd > 1 and kh * kw > 36:
            raise Reject(f"a convolution of {c} channels with a kernel of {kd} x {kh} x {kw}, where torch's is faster")
    return volumes.convolution3d(ctx, x, weight, bias, how, type)


def _triple(values: Any) -> list[int]:
    listed = list(values) if isinstance(values, (list, tuple)) else [values]
    return listed * 3 if len(listed) == 1 else listed


def _pooled(ctx: Importer, op: str, x: Tensor, a: Arguments, sizes: Sequence[Dim], more: dict[str, Any]) -> Tensor:
    """A pool over the last three dims: over the last two, then over the first of them."""
    kernel = _triple(a.kernel_size)
    each = {"kernel_size": kernel, "stride": _triple(a.stride) if a.stride else kernel, "padding": _triple(a.padding)}
    neutral = {"kernel_size": 1, "stride": 1, "padding": 0, "dilation": 1}
    if "dilation" in a.values:
        each["dilation"] = _triple(a.dilation)
    if not all(isinstance(extent, int) for extent in x.extents[-4:]):
        raise Reject("a pool over 3 dims with a dynamic size other than the batch", "static channels and image")
    (c, d, h, w), n = x.extents[-4:], x.extents[0] if x.rank == 5 else 1
    shared = {"ceil_mode": bool(a.ceil_mode)} | more
    inner = {name: values[1:] for name, values in each.items()}
    planes = ctx.reshape(x, (n, c * d, h, w))
    planes = ctx.emit_one(op, [planes], TensorType(x.dtype, (n, c * d, *sizes[1:])), inner | shared)
    outer = {name: [values[0], neutral[name]] for name, values in each.items()}
    columns = ctx.reshape(planes, (n, c, d, sizes[1] * sizes[2]))
    columns = ctx.emit_one(op, [columns], TensorType(x.dtype, (n, c, sizes[0], sizes[1] * sizes[2])), outer | shared)
    return ctx.reshape(columns, (*x.extents[:-3], *sizes))


@converter("aten.max_pool3d.default", "aten.max_pool3d_with_indices.default")
def _max_pool3d(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Any:
    if str(node.target) == "aten.max_pool3d.default":
        return _pooled(ctx, "max_pool2d", a.self, a, ctx.result_type(node).extents[-3:], {})
    if 1 in read_results(node):
        kernel = _triple(a.kernel_size)
        windows = {"kernel_size": kernel, "stride": _triple(a.stride) if a.stride else kernel}
        windows |= {"padding": _triple(a.padding), "dilation": _triple(a.dilation)}
        return largest_and_places(ctx, a.self, windows, ctx.result_type(node, 0))
    return [_pooled(ctx, "max_pool2d", a.self, a, ctx.result_type(node, 0).extents[-3:], {}), None]


@converter("aten.avg_pool3d.default")
def _avg_pool3d(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    type = ctx.result_type(node)
    if type.dtype not in FLOATS:
        raise Reject(f"an average of {type.dtype}, native kernels have floats", "float32")
    x = ctx.cast(a.self, "f64" if type.dtype == "f64" else "f32")
    more: dict[str, Any] = {"count_include_pad": bool(a.count_include_pad)}
    if a.divisor_override is not None:
        more["divisor_override"] = 1
    result = _pooled(ctx, "avg_pool2d", x, a, type.extents[-3:], more)
    if a.divisor_override is not None:
        result = ctx.emit_one("div", [result, ctx.operand(float(a.divisor_override), result.type)], result.type)
    return ctx.cast(result, type.dtype)
