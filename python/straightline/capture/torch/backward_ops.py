# SPDX-License-Identifier: Apache-2.0
"""Gradients of convolutions and 2-d pools by other ops: of programs that call torch's backward ops, and of the device in torch.

Each takes its op's arguments. For a form that it has not it returns `NotImplemented` before it calls anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

_aten = torch.ops.aten


def _missing(size: int, out: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """The output padding with which a transposed convolution of `out` elements gives `size` of them."""
    return size - ((out - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1)


def _input_gradient(
    grad: Tensor, x: Tensor, weight: Tensor, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
    transposed: bool, groups: int,
) -> Tensor:  # fmt: skip
    if transposed:
        return _aten.convolution(grad, weight, None, stride, padding, dilation, False, [0] * len(stride), groups)
    extra = [
        _missing(x.shape[2 + i], grad.shape[2 + i], weight.shape[2 + i], stride[i], padding[i], dilation[i])
        for i in range(len(stride))
    ]
    return _aten.convolution(grad, weight, None, stride, padding, dilation, True, extra, groups)


def _weight_gradient(
    grad: Tensor, x: Tensor, weight: Tensor, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
    transposed: bool, groups: int,
) -> Tensor:  # fmt: skip
    """A convolution over the images: their channels as batch, stride and dilation exchanged."""
    moved, fixed = (grad, x) if transposed else (x, grad)
    parts = []
    for a, b in zip(moved.chunk(groups, 1), fixed.chunk(groups, 1), strict=True):
        made = _aten.convolution(
            a.transpose(0, 1), b.transpose(0, 1), None, dilation, padding, stride, False, [0] * len(stride), 1
        )
        for dim in range(2, weight.dim()):
            made = made.narrow(dim, 0, weight.shape[dim])
        parts.append(made.transpose(0, 1))
    return parts[0] if groups == 1 else torch.cat(parts, 0)


def convolution_gradients(
    grad: Tensor, x: Tensor, weight: Tensor, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
    transposed: bool, output_padding: Sequence[int], groups: int, output_mask: Sequence[bool],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """`convolution_backward_overrideable`: gradients of x, the weight and the bias, or None."""
    common = (grad, x, weight, stride, padding, dilation, transposed, groups)
    return (
        _input_gradient(*common) if output_mask[0] else None,
        _weight_gradient(*common) if output_mask[1] else None,
        grad.sum([0, *range(2, grad.dim())]) if output_mask[2] else None,
    )


def max_pool2d_gradient(
    grad: Tensor, x: Tensor, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], ceil_mode: bool, indices: Tensor,
) -> Tensor:  # fmt: skip
    """`max_pool2d_with_indices_backward`: each gradient is added where the largest element was."""
    zeros = torch.zeros_like(x).flatten(-2)
    return zeros.scatter_add(-1, indices.flatten(-2), grad.flatten(-2)).view(x.shape)


def _windows(x: Tensor, size: int, out: int, kernel: int, stride: int, padding: int) -> tuple[Tensor, Tensor]:
    """How many elements the windows of one dim have: within the padded image, and within the image."""
    begins = torch.arange(out, device=x.device) * stride - padding
    ends = (begins + kernel).clamp(max=size + padding)
    return ends - begins, ends.clamp(max=size) - begins.clamp(min=0)


def avg_pool2d_gradient(
    grad: Tensor, x: Tensor, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], ceil_mode: bool,
    count_include_pad: bool, divisor: int | None,
) -> Tensor:  # fmt: skip
    """`avg_pool2d_backward`: a transposed convolution of each channel with ones, of gradients over the sizes of their windows."""
    kernel, padding = ([*given] * (2 // len(given)) for given in (kernel, padding))
    steps = [*stride] * (2 // len(stride)) if stride else kernel
    sizes, outs = x.shape[-2:], grad.shape[-2:]
    dtype = torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype
    wide = grad.to(dtype)
    if divisor is None:
        rows, columns = (
            _windows(x, sizes[i], outs[i], kernel[i], steps[i], padding[i])[0 if count_include_pad else 1]
            for i in (0, 1)
        )
        shares = wide / (rows.unsqueeze(1) * columns)
    else:
        shares = wide / divisor
    ones = torch.ones(1, 1, *kernel, dtype=dtype, device=x.device)
    images = shares.reshape(-1, 1, *outs)
    spread = _aten.convolution(images, ones, None, steps, [0, 0], [1, 1], True, [0, 0], 1)
    behind = [sizes[i] + padding[i] - ((outs[i] - 1) * steps[i] + kernel[i]) for i in (0, 1)]
    whole = _aten.constant_pad_nd(spread, [-padding[1], behind[1], -padding[0], behind[0]])
    return whole.reshape(x.shape).to(x.dtype)


def adaptive_avg_pool2d_gradient(grad: Tensor, x: Tensor) -> Any:
    """`_adaptive_avg_pool2d_backward` where the results divide the image into equal windows."""
    rows, columns = x.shape[-2] // grad.shape[-2], x.shape[-1] // grad.shape[-1]
    if rows * grad.shape[-2] != x.shape[-2] or columns * grad.shape[-1] != x.shape[-1]:
        return NotImplemented
    spread = grad / (rows * columns)
    return spread.repeat_interleave(rows, -2).repeat_interleave(columns, -1)


#: Op -> the function that computes it by other ops. The others of this file are left to torch there: on a CPU its gradients of
#: convolutions take 0.06 to 0.25 of the time (oneDNN), those of max pools 0.7; these two take twice ours.
BACKWARD: Mapping[Any, Callable[..., Any]] = {
    _aten.avg_pool2d_backward.default: avg_pool2d_gradient,
    _aten._adaptive_avg_pool2d_backward.default: adaptive_avg_pool2d_gradient,
}
