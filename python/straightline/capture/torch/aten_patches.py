# SPDX-License-Identifier: Apache-2.0
"""ATen ops that lay out windows of a tensor side by side, or add them up: unfold, im2col, col2im."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from straightline.capture.builder import Dim, TensorType
from straightline.capture.graph_builder import FLOATS, Reject, Tensor, known, wrap
from straightline.capture.resampling import Array, Resampling, halving_weights, picked, weighted_sum
from straightline.capture.torch.importer import Arguments, Importer, converter

#: Runs of so many elements are copied well; up to so many slices are as good.
_RUN, _FEW = 4, 16


def _starts(count: int, step: int, length: int, dilation: int) -> Array:
    """[length, count]: place k of the window at each of `count` starts."""
    return np.arange(length)[:, None] * dilation + np.arange(count) * step


@converter("aten.unfold.default", "aten.unfold_copy.default")
def _unfold(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    x, type = a.self, ctx.result_type(node)
    if x.rank == 0:
        return ctx.expand(ctx.reshape(x, (1,)), type.extents)
    dim, length, step = wrap(a.dimension, x.rank), a.size, a.step
    size, count = x.extents[dim], type.extents[dim]
    if not isinstance(size, int) or not isinstance(count, int):
        raise Reject(f"unfold of the dynamic size {size}", "a static size")
    if length == 0 or count == 0:
        return ctx.full(0, type.dtype, type.extents)
    before, after = x.extents[:dim], x.extents[dim + 1 :]
    common = math.gcd(step, length)
    if step != length and common < _RUN and length <= _FEW:
        # One slice for each element of the window: element k of all windows is a slice.
        span = (count - 1) * step + 1
        shifted = [
            ctx.reshape(ctx.slice(x, dim, k, k + span, count, step), (*before, 1, count, *after)) for k in range(length)
        ]
        apart = ctx.cat(shifted, dim, TensorType(x.dtype, (*before, length, count, *after)))
        return ctx.permute(apart, [*range(dim), *range(dim + 1, x.rank + 1), dim])
    if not ctx.target.supports("copies_elements") and step != length and common < _RUN and count > 1:
        raise Reject(f"unfold of {length} by {step}, element by element", f"a common divisor of at least {_RUN}")
    used = (count - 1) * step + length
    x = ctx.slice(x, dim, 0, used, used)
    if step != length and count > 1:
        # Runs that divide step and length are copied whole.
        x = ctx.reshape(x, (*before, used // common, common, *after))
        x = picked(ctx, x, dim, _starts(count, step // common, length // common, 1).T.reshape(-1))
    apart = ctx.reshape(x, (*before, count, length, *after))
    return ctx.permute(apart, [*range(dim + 1), *range(dim + 2, a.self.rank + 1), dim + 1])


def _pairs(a: Arguments) -> list[list[int]]:
    """Kernel, dilation, padding and stride along both dims."""
    named = [a.kernel_size, a.dilation, a.padding, a.stride]
    return [list(values) * (2 if len(values) == 1 else 1) for values in named]


def _static(what: str, extents: Sequence[Dim]) -> tuple[int, ...]:
    if not all(isinstance(extent, int) for extent in extents):
        raise Reject(f"{what} of a dynamic size", "static channels and image")
    return tuple(map(known, extents))


def _batched(ctx: Importer, x: Tensor, rank: int) -> Tensor:
    return x if x.rank == rank else ctx.reshape(x, (1, *x.extents))


@converter("aten.im2col.default")
def _im2col(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    type = ctx.result_type(node)
    x = _batched(ctx, a.self, 4)
    kernel, dilation, padding, stride = _pairs(a)
    n, (c, h, w) = x.extents[0], _static("im2col", x.extents[1:])
    if any(padding):
        h, w = h + 2 * padding[0], w + 2 * padding[1]
        pads = {"pad": [padding[1], padding[1], padding[0], padding[0]], "value": 0.0 if x.dtype in FLOATS else 0}
        x = ctx.emit_one("constant_pad_nd", [x], TensorType(x.dtype, (n, c, h, w)), pads)
    counts = [(size - d * (k - 1) - 1) // s + 1 for size, k, d, s in zip((h, w), kernel, dilation, stride)]
    (oh, ow), (kh, kw) = counts, kernel
    if stride == kernel and dilation == [1, 1]:
        x = ctx.slice(ctx.slice(x, 2, 0, oh * kh, oh * kh), 3, 0, ow * kw, ow * kw)
        if kernel == [1, 1] and not any(padding):  # memory of its own, not a view
            x = ctx.emit_one("clone", [x], x.type)
        blocks = ctx.reshape(x, (n, c, oh, kh, ow, kw))
        return ctx.reshape(ctx.permute(blocks, [0, 1, 3, 5, 2, 4]), type.extents)
    shifted = []
    for i in range(kh):
        rows = ctx.slice(x, 2, i * dilation[0], i * dilation[0] + (oh - 1) * stride[0] + 1, oh, stride[0])
        for j in range(kw):
            part = ctx.slice(rows, 3, j * dilation[1], j * dilation[1] + (ow - 1) * stride[1] + 1, ow, stride[1])
            shifted.append(ctx.reshape(part, (n, c, 1, oh, ow)))
    together = ctx.cat(shifted, 2, TensorType(x.dtype, (n, c, kh * kw, oh, ow)))
    return ctx.reshape(together, type.extents)


@converter("aten.col2im.default")
def _col2im(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    type = ctx.result_type(node)
    if type.dtype not in FLOATS:
        raise Reject(f"col2im of {type.dtype}, native kernels have floats", "float32")
    x = _batched(ctx, a.self, 3)
    kernel, dilation, padding, stride = _pairs(a)
    n, (rows, _) = x.extents[0], _static("col2im", x.extents[1:])
    (kh, kw), c = kernel, rows // (kernel[0] * kernel[1])
    sizes = list(a.output_size)
    oh, ow = (
        (size + 2 * p - d * (k - 1) - 1) // s + 1 for size, p, d, k, s in zip(sizes, padding, dilation, kernel, stride)
    )
    by = [
        _overlaps(size, k, d, p, s, count)
        for size, k, d, p, s, count in zip(sizes, kernel, dilation, padding, stride, (oh, ow))
    ]
    apart = ctx.permute(ctx.reshape(x, (n, c, kh, kw, oh, ow)), [0, 1, 2, 4, 3, 5])
    sums = ctx.reshape(apart, (n, c, kh * oh, kw * ow))
    compute = "f64" if type.dtype == "f64" else "f32"
    if any(r.taps > 1 for r in by):
        sums = ctx.cast(sums, compute)
    for dim, overlaps in zip((3, 2), reversed(by)):
        sums = weighted_sum(ctx, sums, dim, overlaps)
    return ctx.reshape(ctx.cast(sums, type.dtype), type.extents)


def _overlaps(size: int, length: int, dilation: int, padding: int, step: int, count: int) -> Resampling:
    """Which places of the windows, [length, count] in one dim, add up to each element."""
    elements = _starts(count, step, length, dilation) - padding
    places = [np.flatnonzero(elements == at) for at in range(size)]
    if min(len(found) for found in places) == 0:
        raise Reject("col2im that leaves elements out", "windows that cover all")
    taps = max(len(found) for found in places)
    full = np.stack([np.pad(found, (0, taps - len(found)), "edge") for found in places], 1)
    return Resampling(full, halving_weights(full, np.ones(full.shape)))
