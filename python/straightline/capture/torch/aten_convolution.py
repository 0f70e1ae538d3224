# SPDX-License-Identifier: Apache-2.0
"""ATen convolutions and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from straightline.capture.builder import Extent, TensorType
from straightline.capture.graph_builder import FLOATS, Reject, Tensor
from straightline.capture.torch.aten_linear import needs_native_floats
from straightline.capture.torch.aten_pools import largest_and_places
from straightline.capture.torch.aten_resize import adaptive_average
from straightline.capture.torch.aten_volumes import convolution3d
from straightline.capture.torch.importer import Arguments, Importer, converter, read_results


def _pair(values: Any, count: int = 2) -> list[int]:
    """One number per spatial dimension, from ATen's list of one or of all of them."""
    listed = list(values) if isinstance(values, (list, tuple)) else [values]
    if any(isinstance(v, Extent) for v in listed):
        raise Reject("a window of dynamic size", "constant sizes")
    return listed * count if len(listed) == 1 else listed


@converter(
    "aten.convolution.default", "aten.conv1d.default", "aten.conv2d.default",
    "aten.conv_transpose1d.default", "aten.conv_transpose2d.input",
)  # fmt: skip
def _convolution(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    needs_native_floats("convolution", a.input)
    rank = a.weight.rank - 2
    type = ctx.result_type(node)
    if a.input.rank == rank + 1:
        x, inner = ctx.reshape(a.input, (1, *a.input.extents)), TensorType(type.dtype, (1, *type.extents))
    else:
        x, inner = a.input, type
    fixed = (*x.extents[1:], *a.weight.extents) if rank == 3 else (x.extents[1], *a.weight.extents)
    if not all(isinstance(extent, int) for extent in fixed):
        what = "a volume with a dynamic size other than the batch" if rank == 3 else "dynamic channels"
        raise Reject(f"convolution of {what}", "static ones")
    if x.extents[1] == 0:
        raise Reject(
            "convolution over 0 channels, whose result torch gives the extents of the input", "at least one channel"
        )
    attributes = {
        "stride": _pair(a.stride, rank),
        "padding": _pair(a.padding, rank),
        "dilation": _pair(a.dilation, rank),
        "transposed": bool(a.get("transposed", "transpose" in str(node.target))),
        "output_padding": _pair(a.get("output_padding", 0), rank),
        "groups": a.groups,
    }
    if rank == 3:
        return ctx.reshape(convolution3d(ctx, x, a.weight, a.bias, attributes, inner), type.extents)
    return ctx.reshape(ctx.emit_one("convolution", [x, a.weight, a.bias], inner, attributes), type.extents)


def _pool(ctx: Importer, op: str, x: Tensor, type: TensorType, attributes: dict[str, Any]) -> Tensor:
    """Emits a pooling over [N, C, H, W]; an input without N gets one of size 1."""
    if x.rank == 4:
        return ctx.emit_one(op, [x], type, attributes)
    batched = ctx.reshape(x, (1, *x.extents))
    inner = TensorType(type.dtype, (1, *type.extents))
    return ctx.reshape(ctx.emit_one(op, [batched], inner, attributes), type.extents)


def _window(a: Arguments) -> dict[str, Any]:
    kernel = _pair(a.kernel_size)
    stride: Sequence[int] = a.stride or kernel
    return {
        "kernel_size": kernel,
        "stride": _pair(stride),
        "padding": _pair(a.padding),
        "ceil_mode": bool(a.ceil_mode),
    }


@converter("aten.max_pool2d.default", "aten.max_pool2d_with_indices.default")
def _max_pool2d(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Any:
    attributes = _window(a) | {"dilation": _pair(a.dilation)}
    if str(node.target) == "aten.max_pool2d.default":
        return _pool(ctx, "max_pool2d", a.self, ctx.result_type(node), attributes)
    if 1 in read_results(node):
        return largest_and_places(ctx, a.self, attributes, ctx.result_type(node, 0))
    return [_pool(ctx, "max_pool2d", a.self, ctx.result_type(node, 0), attributes), None]


@converter("aten.avg_pool2d.default")
def _avg_pool2d(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    if a.self.dtype not in FLOATS:
        raise Reject(f"averages of {a.self.dtype}", "floats")
    attributes = _window(a) | {"count_include_pad": bool(a.count_include_pad)}
    if a.divisor_override is not None:
        attributes["divisor_override"] = a.divisor_override
    return _pool(ctx, "avg_pool2d", a.self, ctx.result_type(node), attributes)


@converter("aten.adaptive_avg_pool2d.default", "aten._adaptive_avg_pool2d.default")
def _adaptive_avg_pool2d(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    targets = _pair(a.output_size)
    if targets != [1, 1]:  # those are means, of nothing too
        divide = all(isinstance(n, int) and t > 0 and n % t == 0 for n, t in zip(a.self.extents[-2:], targets))
        if not divide or 0 in a.self.extents[1:]:
            return adaptive_average(ctx, a.self, ctx.result_type(node).extents, 2)
    return _pool(ctx, "adaptive_avg_pool2d", a.self, ctx.result_type(node), {"output_size": targets})
