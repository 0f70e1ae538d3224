# SPDX-License-Identifier: Apache-2.0
"""What an op computes in terms of other ops, where programs have no kernel for it itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

aten = torch.ops.aten


def _same_padding(size: int, out: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """The output padding with which a transposed convolution of `out` elements gives `size` of them."""
    return size - ((out - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1)


def _input_gradient(
    grad: Any,
    x: Any,
    weight: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    groups: int,
) -> Any:
    if transposed:
        return aten.convolution(grad, weight, None, stride, padding, dilation, False, [0] * len(stride), groups)
    extra = [
        _same_padding(x.shape[2 + i], grad.shape[2 + i], weight.shape[2 + i], stride[i], padding[i], dilation[i])
        for i in range(len(stride))
    ]
    return aten.convolution(grad, weight, None, stride, padding, dilation, True, extra, groups)


def _weight_gradient(
    grad: Any,
    x: Any,
    weight: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    groups: int,
) -> Any:
    """A convolution over the images: their channels as batch, stride and dilation exchanged."""
    moved, fixed = (grad, x) if transposed else (x, grad)
    parts = []
    for a, b in zip(moved.chunk(groups, 1), fixed.chunk(groups, 1), strict=True):
        made = aten.convolution(
            a.transpose(0, 1), b.transpose(0, 1), None, dilation, padding, stride, False, [0] * len(stride), 1
        )
        for dim in range(2, weight.dim()):
            made = made.narrow(dim, 0, weight.shape[dim])
        parts.append(made.transpose(0, 1))
    return parts[0] if groups == 1 else torch.cat(parts, 0)


def convolution(*arguments: Any) -> Any:
    """`convolution_overrideable`: torch's name for the convolution of devices like this one."""
    return aten.convolution(*arguments)


def convolution_backward(
    grad: Any,
    x: Any,
    weight: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Any, ...]:
    """`convolution_backward_overrideable`: both gradients as convolutions."""
    common = (grad, x, weight, stride, padding, dilation, transposed, groups)
    return (
        _input_gradient(*common) if output_mask[0] else None,
        _weight_gradient(*common) if output_mask[1] else None,
        grad.sum([0, *range(2, grad.dim())]) if output_mask[2] else None,
    )


def max_pool2d_backward(
    grad: Any,
    x: Any,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    indices: Any,
) -> Any:
    """Each gradient is added where the largest element was."""
    zeros = torch.zeros_like(x).flatten(-2)
    return zeros.scatter_add(-1, indices.flatten(-2), grad.flatten(-2)).view(x.shape)


def avg_pool2d_backward(
    grad: Any,
    x: Any,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> Any:
    """A transposed convolution of each channel with a window of equal weights."""
    if ceil_mode or (not count_include_pad and any(padding)):
        raise NotImplementedError("avg_pool2d_backward with ceil_mode or count_include_pad=False")
    steps, size = list(stride) or list(kernel), x.dim()
    images = grad.reshape(-1, 1, *grad.shape[-2:])
    weight = torch.full((1, 1, *kernel), 1 / (divisor or kernel[0] * kernel[1]), dtype=x.dtype, device=x.device)
    extra = [
        _same_padding(x.shape[size - 2 + i], grad.shape[size - 2 + i], kernel[i], steps[i], padding[i], 1)
        for i in (0, 1)
    ]
    return aten.convolution(images, weight, None, steps, list(padding), [1, 1], True, extra, 1).reshape(x.shape)


def adaptive_avg_pool2d_backward(grad: Any, x: Any) -> Any:
    """Where the results divide the image into equal windows."""
    rows, columns = x.shape[-2] // grad.shape[-2], x.shape[-1] // grad.shape[-1]
    if rows * grad.shape[-2] != x.shape[-2] or columns * grad.shape[-1] != x.shape[-1]:
        raise NotImplementedError("_adaptive_avg_pool2d_backward of windows that overlap")
    spread = grad / (rows * columns)
    return spread.repeat_interleave(rows, -2).repeat_interleave(columns, -1)


def index_put(x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False, unsafe: bool = False) -> Any:
    """`_index_put_impl`."""
    return aten.index_put(x, indices, values, accumulate)


#: Ops with a number that changes from call to call: what they compute of it as a tensor of no dims.
BY_TENSOR: dict[str, Callable[..., Any]] = {
    "aten::addcdiv": lambda x, a, b, *, value: (x + value * (a / b)).to(x.dtype),
    "aten::addcmul": lambda x, a, b, *, value: (x + value * (a * b)).to(x.dtype),
    "aten::lerp.Scalar": lambda x, end, weight: (x + weight * (end - x)).to(x.dtype),
}

#: By the name of the op.
_OWN: dict[str, Callable[..., Any]] = {
    "aten::convolution_overrideable": convolution,
    "aten::convolution_backward_overrideable": convolution_backward,
    "aten::max_pool2d_with_indices_backward": max_pool2d_backward,
    "aten::avg_pool2d_backward": avg_pool2d_backward,
    "aten::_adaptive_avg_pool2d_backward": adaptive_avg_pool2d_backward,
    "aten::_index_put_impl": index_put,
}
#: Names under which a device like this one gets another op's calls.
ALIASES = ("aten::convolution_overrideable", "aten::convolution_backward_overrideable", "aten::_index_put_impl")


def of(name: str, op: Any) -> Callable[..., Any] | None:
    """What computes the same in other ops: ours, or torch's own; None: nothing is known."""
    from torch._decomp import decomposition_table

    return _OWN.get(name) or decomposition_table.get(op)
