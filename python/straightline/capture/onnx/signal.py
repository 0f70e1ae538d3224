# SPDX-License-Identifier: Apache-2.0
"""ONNX's Fourier transforms, as products with matrices of cosines and sines."""

from __future__ import annotations

import numpy as np

from straightline.capture.builder import TensorType
from straightline.capture.graph_builder import Reject, Tensor, known
from straightline.capture.onnx.importer import Importer, Node, converter, evaluate
from straightline.capture.onnx.linear import matmul
from straightline.capture.onnx.values import Known

#: The longest transform: a product costs its square.
_LONGEST = 4096


def _transform(
    ctx: Importer, re: Tensor, im: Tensor | None, length: int, count: int, inverse: bool
) -> tuple[Tensor, Tensor]:
    """The first `count` terms of transforms of `length` along the last dim, which may have fewer or more elements."""
    if length > _LONGEST:
        raise Reject(f"a transform of {length} elements", f"at most {_LONGEST}")
    own = known(re.extents[-1])
    used = min(own, length)
    if own > length:
        re = ctx.slice(re, re.rank - 1, 0, length, length)
        im = None if im is None else ctx.slice(im, im.rank - 1, 0, length, length)
    turns = np.outer(np.arange(used), np.arange(count)) % length
    angle = 2 * np.pi * turns / length * (1 if inverse else -1)
    scale = 1 / length if inverse else 1.0
    cos, sin = (ctx.literal(f(angle) * scale, re.dtype) for f in (np.cos, np.sin))
    real, imaginary = matmul(ctx, re, cos), matmul(ctx, re, sin)
    if im is not None:
        real = ctx.binary("sub", real, matmul(ctx, im, sin))
        imaginary = ctx.binary("add", imaginary, matmul(ctx, im, cos))
    return real, imaginary


def _parts(ctx: Importer, x: Tensor) -> tuple[Tensor, Tensor | None]:
    last = x.rank - 1
    return ctx.select(x, last, 0), ctx.select(x, last, 1) if x.extents[last] == 2 else None


def _joined(ctx: Importer, re: Tensor, im: Tensor) -> Tensor:
    wide = [ctx.reshape(t, (*t.extents, 1)) for t in (re, im)]
    return ctx.cat(wide, re.rank, TensorType(re.dtype, (*re.extents, 2)))


@converter("DFT")
def _dft(ctx: Importer, node: Node) -> Tensor:
    given = ctx.tensor(node.inputs[0])
    x = ctx.cast(given, "f64")  # sums of many terms that cancel
    return ctx.cast(_transformed(ctx, node, x), given.dtype)


def _transformed(ctx: Importer, node: Node, x: Tensor) -> Tensor:
    axis = ctx.numbers(node.inputs[2], "the axis of DFT")[0] if node.input(2) is not None else -2
    axis = ctx.axis(axis, x.rank)
    inverse, one_sided = bool(node.attribute("inverse", 0)), bool(node.attribute("onesided", 0))
    re, im = _parts(ctx, x)
    order = [d for d in range(re.rank) if d != axis] + [axis]
    re, im = ctx.permute(re, order), None if im is None else ctx.permute(im, order)
    own = known(re.extents[-1])
    length = ctx.numbers(node.inputs[1], "the length of DFT")[0] if node.input(1) is not None else None
    back = [order.index(d) for d in range(re.rank)]
    if inverse and one_sided:  # of the half of a spectrum whose other half mirrors it
        size = length if length is not None else 2 * (own - 1)
        if own != size // 2 + 1:
            raise Reject(f"the real signal of {size} elements of {own} terms", f"{size // 2 + 1} terms")
        found = _of_half(ctx, re, im, size)
        moved = ctx.permute(found, back)
        return ctx.reshape(moved, (*moved.extents, 1))
    size = length if length is not None else own
    found, other = _transform(ctx, re, im, size, size // 2 + 1 if one_sided else size, inverse)
    return _joined(ctx, ctx.permute(found, back), ctx.permute(other, back))


def _of_half(ctx: Importer, re: Tensor, im: Tensor | None, size: int) -> Tensor:
    terms = known(re.extents[-1])
    weights = np.full(terms, 2.0)
    weights[0] = 1
    if size % 2 == 0:
        weights[-1] = 1
    angle = 2 * np.pi * (np.outer(np.arange(terms), np.arange(size)) % size) / size
    found = matmul(ctx, re, ctx.literal(weights[:, None] * np.cos(angle) / size, re.dtype))
    if im is None:
        return found
    return ctx.binary("sub", found, matmul(ctx, im, ctx.literal(weights[:, None] * np.sin(angle) / size, re.dtype)))


@converter("MelWeightMatrix")
def _mel_weight_matrix(ctx: Importer, node: Node) -> Known:
    """Its inputs say how large it is, so they are known, and so is it."""
    arrays = [ctx.known(x, "an input of MelWeightMatrix").array for x in node.inputs]
    return Known(np.asarray(evaluate(node, arrays, ctx.opsets)[0]))


@converter("STFT")
def _stft(ctx: Importer, node: Node) -> Tensor:
    given = ctx.tensor(node.inputs[0])
    x = ctx.cast(given, "f64")
    (step,) = ctx.numbers(node.inputs[1], "frame_step of STFT")
    window = ctx.tensor(node.inputs[2]) if node.input(2) is not None else None
    if node.input(3) is not None:
        (length,) = ctx.numbers(node.inputs[3], "frame_length of STFT")
    elif window is not None:
        length = known(window.extents[0])
    else:
        raise Reject("neither a window nor a length of frames")
    re, im = _parts(ctx, x) if x.rank == 3 else (x, None)
    size = known(re.extents[-1])
    frames = (size - length) // step + 1

    def framed(t: Tensor) -> Tensor:
        places = (np.arange(frames)[:, None] * step + np.arange(length)).reshape(-1)
        type = TensorType(t.dtype, (t.extents[0], frames * length))
        rows = ctx.emit_one("index_select", [t, ctx.literal(places)], type, {"dim": 1})
        rows = ctx.reshape(rows, (t.extents[0], frames, length))
        return rows if window is None else ctx.binary("mul", rows, ctx.cast(window, t.dtype))

    count = length // 2 + 1 if node.attribute("onesided", 1) else length
    found, other = _transform(ctx, framed(re), None if im is None else framed(im), length, count, False)
    return ctx.cast(_joined(ctx, found, other), given.dtype)
