# SPDX-License-Identifier: Apache-2.0
"""ONNX ops that multiply matrices: MatMul, Gemm, Einsum, convolutions, and their quantised forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from straightline.capture.builder import Dim, TensorType
from straightline.capture.einsum import einsum, letters_of
from straightline.capture.extents import product_of
from straightline.capture.graph_builder import FLOATS, Reject, Tensor, known
from straightline.capture.onnx.attention import attention
from straightline.capture.onnx.elementwise import INTEGERS, added, to_float8, to_narrow
from straightline.capture.onnx.importer import Importer, Node, converter, shape_text
from straightline.capture.onnx.values import NARROW, Known, Value, dtype_of
from straightline.capture.volumes import convolution3d


def matmul(ctx: Importer, x: Tensor, y: Tensor) -> Tensor:
    """Numpy's matmul: vectors are rows or columns, leading dims are broadcast. Integers are multiplied as they are."""
    if x.rank == 0 or y.rank == 0:
        raise Reject("a product of a 0-d tensor", "tensors of rank 1 or more")
    dtype = x.dtype
    if dtype not in FLOATS:  # the products are of floats: those of f64 are exact where sums stay below 2 ** 53
        wide = matmul(ctx, ctx.cast(x, "f64"), ctx.cast(y, "f64"))
        return ctx.cast(ctx.cast(wide, "i64"), dtype)
    left = ctx.reshape(x, (1, *x.extents)) if x.rank == 1 else x
    right = ctx.reshape(y, (*y.extents, 1)) if y.rank == 1 else y
    left = _with_terms(ctx, left, right.extents[-2], x, y)
    if right.rank == 2 and left.rank > 2:  # one product of all rows
        rows = product_of(left.extents[:-1])
        flat = ctx.reshape(left, (rows, left.extents[-1]))
        found = ctx.emit_one("matmul", [flat, right], TensorType(dtype, (rows, right.extents[-1])))
        found = ctx.reshape(found, (*left.extents[:-1], right.extents[-1]))
    else:
        lead = ctx.broadcast(left.extents[:-2], right.extents[:-2])
        left, right = (ctx.expand(t, (*lead, *t.extents[-2:])) for t in (left, right))
        found = ctx.emit_one("matmul", [left, right], TensorType(dtype, (*lead, left.extents[-2], right.extents[-1])))
    extents = list(found.extents)
    if x.rank == 1:
        del extents[-2]
    if y.rank == 1:
        del extents[-1]
    return ctx.reshape(found, extents)


def _with_terms(ctx: Importer, left: Tensor, terms: Dim, x: Tensor, y: Tensor) -> Tensor:
    """The left side of a product of x and y, of as many terms as the right side has."""
    own = left.extents[-1]
    if isinstance(own, int) and isinstance(terms, int) and own != terms:
        raise Reject(f"a product of {shape_text(x.extents)} and {shape_text(y.extents)}, of {own} and {terms} terms")
    ctx.same_size(own, terms)
    return ctx.fitted(left, (*left.extents[:-1], terms))


@converter("MatMul")
def _matmul(ctx: Importer, node: Node) -> Tensor:
    """With a matrix that no input decides it is a linear layer, whose weight is packed once."""
    x, y = (ctx.tensor(t) for t in node.inputs)
    if (found := attention(ctx, node)) is not None:
        return found
    if x.rank < 2 or y.rank != 2 or x.dtype not in FLOATS or not ctx.is_prepared(node.inputs[1]):
        return matmul(ctx, x, y)
    x = _with_terms(ctx, x, y.extents[0], x, y)
    type = TensorType(x.dtype, (*x.extents[:-1], y.extents[1]))
    weight = ctx.permute(y, [1, 0])
    found = ctx.emit_one("linear", [x, weight, None], type)
    ctx.linears[id(found)] = x, weight, found
    return found


@converter("Add")
def _add(ctx: Importer, node: Node) -> Value:
    """A vector behind a product with weights that nothing else reads is the bias of a linear layer."""
    for place, (product, bias) in enumerate((node.inputs, reversed(node.inputs))):
        made = ctx.linears.get(id(product))
        if made is None or ctx.reads.get(node.proto.input[place]) != 1 or not ctx.is_prepared(bias):
            continue
        if isinstance(bias, Known) and not bias.name and (bias.array == bias.array.reshape(-1)[:1]).all():
            continue  # one number, which is a literal of the kernel
        x, weight, found = made
        row = ctx.tensor(bias)
        if row.dtype == found.dtype and row.extents == weight.extents[:1]:
            return ctx.emit_one("linear", [x, weight, row], found.type)
    return added(ctx, node)


@converter("Gemm")
def _gemm(ctx: Importer, node: Node) -> Tensor:
    a, b = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1])
    c = ctx.tensor(node.inputs[2]) if node.input(2) is not None else None
    alpha, beta = float(node.attribute("alpha", 1.0)), float(node.attribute("beta", 1.0))
    if a.rank != 2 or b.rank != 2:
        raise Reject(f"Gemm of {shape_text(a.extents)} and {shape_text(b.extents)}", "two matrices")
    a = ctx.permute(a, [1, 0]) if node.attribute("transA", 0) else a
    a = _with_terms(ctx, a, b.extents[1 if node.attribute("transB", 0) else 0], a, b)
    if node.attribute("transB", 0) and alpha == 1 and a.dtype in FLOATS:
        bias = c if c is not None and beta == 1 and c.extents == b.extents[:1] else None
        found = ctx.emit_one("linear", [a, b, bias], TensorType(a.dtype, (a.extents[0], b.extents[0])))
        c = None if bias is not None else c
    else:
        b = ctx.permute(b, [1, 0]) if node.attribute("transB", 0) else b
        found = matmul(ctx, a, b)
        found = found if alpha == 1 else _scaled(ctx, found, alpha)
    if c is None:
        return found
    return ctx.binary("add", found, c if beta == 1 else _scaled(ctx, c, beta))


def _scaled(ctx: Importer, x: Tensor, factor: float) -> Tensor:
    if x.dtype in FLOATS:
        return ctx.binary("mul", x, factor)
    return ctx.cast(ctx.binary("mul", ctx.cast(x, "f64"), factor), x.dtype)


@converter("Einsum")
def _einsum(ctx: Importer, node: Node) -> Tensor:
    tensors = [ctx.tensor(x) for x in node.inputs]
    sizes: dict[str, Dim] = {}
    for place, names in enumerate(letters_of(node.attribute("equation"), [t.rank for t in tensors])):
        for name, size in zip(names, tensors[place].extents, strict=True):
            if size != 1 and name in sizes:
                ctx.same_size(sizes[name], size)
            if size != 1:
                sizes.setdefault(name, size)
        wanted = [sizes.get(name, 1) if e != 1 else 1 for name, e in zip(names, tensors[place].extents, strict=True)]
        tensors[place] = ctx.fitted(tensors[place], wanted)
    return einsum(ctx, node.attribute("equation"), tensors, matmul)


# Convolutions ---------------------------------------------------------------------------------------------------------


def windows(node: Node, rank: int, kernel: Sequence[int]) -> tuple[list[int], list[int]]:
    """Strides and dilations of a convolution or a pool, whose kernel has one place or more."""
    if any(isinstance(k, int) and k < 1 for k in kernel):
        raise Reject(f"a kernel of the size {list(kernel)}", "sizes of 1 or more")
    return node.attribute("strides") or [1] * rank, node.attribute("dilations") or [1] * rank


def padding(
    node: Node, sizes: Sequence[Dim], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[tuple[int, int]]:
    """(before, after) of each spatial dim, by `pads` or `auto_pad`."""
    rank, mode = len(sizes), node.attribute("auto_pad", "NOTSET")
    if mode == "VALID":
        return [(0, 0)] * rank
    if mode in ("NOTSET", ""):
        pads = node.attribute("pads") or [0] * (2 * rank)
        return list(zip(pads[:rank], pads[rank:]))
    found = []
    for size, k, stride, dilation in zip(sizes, kernel, strides, dilations):
        if stride == 1:
            total = (k - 1) * dilation
        elif isinstance(size, int):
            total = max((-(-size // stride) - 1) * stride + (k - 1) * dilation + 1 - size, 0)
        else:
            raise Reject(f"auto_pad {mode} of a named size with stride {stride}", "pads")
        less, more = total // 2, total - total // 2
        found.append((less, more) if mode == "SAME_UPPER" else (more, less))
    return found


def convolution(ctx: Importer, x: Tensor, weight: Tensor, bias: Tensor | None, node: Node) -> Tensor:
    """Conv of floats."""
    rank = x.rank - 2
    if bias is not None:
        bias = ctx.need_vector(bias, weight.extents[0], "a bias of outputs")
    kernel = [known(e) for e in weight.extents[2:]]
    strides, dilations = windows(node, rank, kernel)
    pads = padding(node, x.extents[2:], kernel, strides, dilations)
    if any(a != b for a, b in pads):
        x, pads = ctx.padded(x, pads), [(0, 0)] * rank
    sizes = [
        (e + 2 * p - (d * (k - 1) + 1)) // s + 1
        for e, (p, _), k, s, d in zip(x.extents[2:], pads, kernel, strides, dilations)
    ]
    ctx.need_places(sizes, "a convolution")
    attributes = {
        "stride": strides, "padding": [p for p, _ in pads], "dilation": dilations, "transposed": False,
        "output_padding": [0] * rank, "groups": node.attribute("group", 1),
    }  # fmt: skip
    type = TensorType(x.dtype, (x.extents[0], weight.extents[0], *sizes))
    return _emitted(ctx, x, weight, bias, attributes, type)


def _emitted(
    ctx: Importer, x: Tensor, weight: Tensor, bias: Tensor | None, how: dict[str, Any], type: TensorType
) -> Tensor:
    if x.rank > 5:
        raise Reject(f"a convolution over {x.rank - 2} dims", "at most 3")
    return (
        convolution3d(ctx, x, weight, bias, how, type)
        if x.rank == 5
        else ctx.emit_one("convolution", [x, weight, bias], type, how)
    )


@converter("Conv")
def _conv(ctx: Importer, node: Node) -> Tensor:
    x, weight = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1])
    bias = ctx.tensor(node.inputs[2]) if node.input(2) is not None else None
    return convolution(ctx, x, weight, bias, node)


@converter("ConvTranspose")
def _conv_transpose(ctx: Importer, node: Node) -> Tensor:
    x, weight = ctx.tensor(node.inputs[0]), ctx.tensor(node.inputs[1])
    bias = ctx.tensor(node.inputs[2]) if node.input(2) is not None else None
    rank, groups = x.rank - 2, node.attribute("group", 1)
    kernel = [known(e) for e in weight.extents[2:]]
    strides, dilations = windows(node, rank, kernel)
    extra = node.attribute("output_padding") or [0] * rank
    full = [
        s * (e - 1) + d * (k - 1) + 1 + o for e, s, k, d, o in zip(x.extents[2:], strides, kernel, dilations, extra)
    ]
    wanted, mode = node.attribute("output_shape"), node.attribute("auto_pad", "NOTSET")
    if wanted or mode.startswith("SAME"):
        ends = wanted[-rank:] if wanted else [e * s for e, s in zip(x.extents[2:], strides)]
        pads = []
        for whole, end in zip(full, ends):
            total = whole - end
            if not isinstance(total, int):
                raise Reject("an output shape of a named size", "pads")
            less = total // 2
            pads.append((less, total - less) if mode == "SAME_UPPER" else (total - less, less))
    else:
        pads = padding(node, x.extents[2:], kernel, strides, dilations)
    # The op's padding cuts both ends alike, and its output_padding, less than a stride, adds at the end.
    ends = [whole - a - b for whole, (a, b) in zip(full, pads)]
    plain = all(a - o < s + 0 and o < max(s, d) for (a, b), o, s, d in zip(pads, extra, strides, dilations))
    if plain and all(a == b and a >= 0 for a, b in pads):
        attributes = {
            "stride": strides, "padding": [a for a, _ in pads], "dilation": dilations, "transposed": True,
            "output_padding": list(extra), "groups": groups,
        }  # fmt: skip
        type = TensorType(x.dtype, (x.extents[0], weight.extents[1] * groups, *ends))
        return _emitted(ctx, x, weight, bias, attributes, type)
    attributes = {
        "stride": strides, "padding": [0] * rank, "dilation": dilations, "transposed": True,
        "output_padding": [0] * rank, "groups": groups,
    }  # fmt: skip
    bare = [whole - o for whole, o in zip(full, extra)]
    bare_type = TensorType(x.dtype, (x.extents[0], weight.extents[1] * groups, *bare))
    found = _emitted(ctx, x, weight, None, attributes, bare_type)
    found = ctx.padded(found, [(-a, o - b) for (a, b), o in zip(pads, extra)])
    if bias is None:
        return found
    return ctx.binary("add", found, ctx.reshape(bias, (bias.extents[0], *(1 for _ in range(rank)))))


# Quantised ------------------------------------------------------------------------------------------------------------


def _centred(ctx: Importer, value: Value | None, zero: Value | None, axis: int | None, dtype: str = "f32") -> Tensor:
    """X - zero as floats, which are exact; `axis`: that of a zero point with an element a channel."""
    x = ctx.tensor(value, dtype)
    if zero is None or isinstance(zero, Known) and not zero.array.any():
        return x
    if isinstance(zero, Known) and zero.array.size == 1:
        return ctx.binary("sub", x, ctx.full(zero.array.item(), dtype))
    shift = ctx.tensor(zero)  # reshaped as the bytes that it is, which quantized-linears looks for
    if shift.rank == 1 and shift.extents[0] != 1 and axis is not None:
        shift = ctx.reshape(shift, tuple(shift.extents[0] if d == axis else 1 for d in range(x.rank)))
    elif shift.rank == 1 and shift.extents[0] == 1:
        shift = ctx.reshape(shift, ())
    return ctx.binary("sub", x, ctx.cast(shift, dtype))


def byte_product(ctx: Importer, a: Value | None, a_zero: Value | None, b: Value | None, b_zero: Value | None) -> Tensor:
    """(a - a_zero) @ (b - b_zero) in f64, where sums are exact; zero points are numbers, of rows of a, of columns of b.

    With a matrix of static sizes as b it is a linear, which the pass quantized-linears makes one of bytes.
    """
    rows, columns = (ctx.type_of(t).rank if t is not None else 2 for t in (a, b))
    if rows == 1:
        a = ctx.reshape(ctx.tensor(a), (1, *ctx.tensor(a).extents))
    if columns == 1:
        b = ctx.reshape(ctx.tensor(b), (*ctx.tensor(b).extents, 1))
    left = _centred(ctx, a, a_zero, max(rows - 2, 0), "f64")
    fits = columns < 3 and (b_zero is None or ctx.type_of(b_zero).rank < 2)
    if not fits or not all(isinstance(extent, int) for extent in ctx.tensor(b).extents):
        found = matmul(ctx, left, _centred(ctx, b, b_zero, max(columns, 2) - 1, "f64"))
    else:
        left = _with_terms(ctx, left, ctx.tensor(b).extents[0], left, ctx.tensor(b))
        weight = ctx.permute(ctx.tensor(b), [1, 0])
        right = _centred(ctx, weight, b_zero, 0, "f64")
        type = TensorType("f64", (*left.extents[:-1], right.extents[0]))
        found = ctx.emit_one("linear", [left, right, None], type)
    own = [e for i, e in enumerate(found.extents) if not (rows == 1 and i == found.rank - 2)]
    own = own[:-1] if columns == 1 else own
    return found if rows > 1 and columns > 1 else ctx.reshape(found, own)


def bytes_of(ctx: Importer, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Which of 256 evenly spaced numbers is nearest to each x, their distance, and the place of 0, which is among them.

    They go from x's smallest number to its largest one, as DynamicQuantizeLinear has them.
    """
    every = list(range(x.rank))
    low = ctx.binary("minimum", ctx.reduce("amin", x, every, False), 0.0)
    high = ctx.binary("maximum", ctx.reduce("amax", x, every, False), 0.0)
    step = ctx.binary("div", ctx.binary("sub", high, low), 255.0)
    scale = ctx.where(ctx.compare("eq", step, 0.0), 1.0, step)
    zero = ctx.unary("round", ctx.unary("clamp", ctx.unary("neg", ctx.binary("div", low, scale)), min=0.0, max=255.0))
    zero = ctx.cast(zero, "ui8")
    moved = ctx.binary("add", ctx.unary("round", ctx.binary("div", x, scale)), ctx.cast(zero, x.dtype))
    return ctx.cast(ctx.unary("clamp", moved, min=0.0, max=255.0), "ui8"), scale, zero


def rounded(ctx: Importer, x: Tensor) -> Tensor:
    """The numbers that `bytes_of` tells of x, as x's type."""
    places, scale, zero = bytes_of(ctx, x)
    return ctx.binary("mul", ctx.binary("sub", ctx.cast(places, x.dtype), ctx.cast(zero, x.dtype)), scale)


@converter("MatMulInteger")
def _matmul_integer(ctx: Importer, node: Node) -> Tensor:
    return ctx.cast(byte_product(ctx, node.inputs[0], node.input(2), node.inputs[1], node.input(3)), "i32")


@converter("ConvInteger")
def _conv_integer(ctx: Importer, node: Node) -> Tensor:
    x = _centred(ctx, node.inputs[0], node.input(2), 1, "f64")
    weight = _centred(ctx, node.inputs[1], node.input(3), 0, "f64")
    return ctx.cast(convolution(ctx, x, weight, None, node), "i32")


_BOUNDS = {"i8": (-128, 127), "ui8": (0, 255), "i16": (-32768, 32767), "ui16": (0, 65535), "i32": (-(2**31), 2**31 - 1)}


def dequantised(ctx: Importer, value: Value | None, scale: Value | None, zero: Value | None) -> Tensor:
    """(value - zero) * scale as float32, by one number each."""
    return ctx.binary("mul", _centred(ctx, value, zero, None), literal(ctx, scale))


def requantised(ctx: Importer, x: Tensor, scale: Tensor, zero: Value | None, dtype: str) -> Tensor:
    """round(x / scale) + zero, limited to what the type holds; halves go to the even one."""
    found = ctx.unary("round", ctx.binary("div", x, scale))
    if isinstance(zero, Known) and zero.array.size == 1:
        found = ctx.binary("add", found, float(zero.array.item()))
    elif zero is not None:
        found = ctx.binary("add", found, ctx.reshape(ctx.tensor(zero, found.dtype), ()) if ctx.type_of(zero).rank < 2
                           and ctx.type_of(zero).extents in ((), (1,)) else ctx.tensor(zero, found.dtype))  # fmt: skip
    low, high = _BOUNDS[dtype]
    return ctx.cast(ctx.unary("clamp", found, min=float(low), max=float(high)), dtype)


def scale_of(ctx: Importer, value: Value | None, axis: int | None = None, rank: int = 0) -> Tensor:
    """A scale of the whole, or of each entry of an axis of a tensor of that rank (None: of the last one)."""
    scale = ctx.tensor(value, "f32")
    if scale.rank == 1 and scale.extents[0] == 1:
        return ctx.reshape(scale, ())
    if scale.rank == 1 and axis is not None:
        return ctx.reshape(scale, tuple(scale.extents[0] if d == axis else 1 for d in range(rank)))
    return scale


@converter("QLinearMatMul")
def _qlinear_matmul(ctx: Importer, node: Node) -> Tensor:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.inputs
    ranks = [ctx.type_of(t).rank for t in (a, b) if t is not None]
    product = ctx.cast(byte_product(ctx, a, a_zero, b, b_zero), "f32")
    scales = ctx.binary(
        "mul", scale_of(ctx, a_scale, ranks[0] - 2, ranks[0]), scale_of(ctx, b_scale, ranks[1] - 1, ranks[1])
    )
    if y_zero is None:
        raise Reject("a missing zero point of the result")
    return requantised(
        ctx, ctx.binary("mul", product, scales), scale_of(ctx, y_scale), y_zero, ctx.type_of(y_zero).dtype
    )


@converter("QLinearConv")
def _qlinear_conv(ctx: Importer, node: Node) -> Tensor:
    """The convolution of dequantised tensors, which the pass quantized-linears makes one of bytes where it can."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = node.inputs[:8]
    if y_zero is None:
        raise Reject("a missing zero point of the result")
    step = literal(ctx, x_scale)
    image = ctx.binary("mul", _centred(ctx, x, x_zero, 1), step)
    rank = image.rank
    weight = ctx.binary("mul", _centred(ctx, w, w_zero, 0), scale_of(ctx, w_scale, 0, rank))
    bias = node.input(8)
    if bias is not None:
        scales = ctx.binary("mul", ctx.tensor(w_scale, "f32"), step)
        bias = ctx.binary("mul", ctx.tensor(bias, "f32"), scales)
    found = convolution(ctx, image, weight, bias, node)
    return requantised(ctx, found, literal(ctx, y_scale), y_zero, ctx.type_of(y_zero).dtype)


def literal(ctx: Importer, value: Value | None) -> Tensor:
    """A scale that is one number: a literal of kernels where it is known, not one more tensor to read."""
    if isinstance(value, Known) and value.array.size == 1:
        return ctx.full(value.array.item(), "f32")
    return scale_of(ctx, value)


def _along(ctx: Importer, value: Value | None, x: Tensor, node: Node, dtype: str) -> Tensor | None:
    """A scale or zero point against x: of the whole, of each entry of an axis, or of blocks along it."""
    if value is None:
        return None
    if isinstance(value, Known) and value.array.size == 1:
        return ctx.full(value.array.item(), dtype)  # a literal of kernels, not one more tensor to read
    t = ctx.tensor(value, dtype)
    if t.rank == 0 or t.rank == 1 and t.extents[0] == 1 and not node.attribute("block_size", 0):
        return ctx.reshape(t, ())
    axis = node.attribute("axis", 1)
    axis = axis + x.rank if axis < 0 else axis
    if t.rank == 1:
        return ctx.reshape(t, tuple(t.extents[0] if d == axis else 1 for d in range(x.rank)))
    block, size = node.attribute("block_size", 0), known(x.extents[axis])
    count = known(t.extents[axis])
    wide = ctx.reshape(t, (*t.extents[: axis + 1], 1, *t.extents[axis + 1 :]))
    wide = ctx.expand(wide, (*t.extents[: axis + 1], block, *t.extents[axis + 1 :]))
    flat = ctx.reshape(wide, (*t.extents[:axis], count * block, *t.extents[axis + 1 :]))
    return ctx.slice(flat, axis, 0, size, size)


@converter("QuantizeLinear")
def _quantize(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    x = x if x.dtype == "f64" else ctx.cast(x, "f32")
    zero, element = node.input(2), node.attribute("output_dtype", 0)
    dtype = ctx.type_of(zero).dtype if zero is not None else dtype_of(element) if element else "ui8"
    narrow = ctx.narrow(zero) if zero is not None else NARROW.get(element, "")
    scale = _along(ctx, node.inputs[1], x, node, x.dtype)
    assert scale is not None
    scaled = ctx.binary("div", x, scale)
    if dtype.startswith("f8"):
        return to_float8(ctx, scaled, dtype, bool(node.attribute("saturate", 1)))
    if narrow and narrow not in INTEGERS:
        return to_narrow(ctx, scaled, narrow)
    if dtype not in _BOUNDS:
        raise Reject(f"quantisation to {dtype}", "integers of 16 bits or fewer, or float8")
    found = ctx.unary("round", scaled)
    shift = _along(ctx, zero, x, node, x.dtype)
    found = found if shift is None else ctx.binary("add", found, shift)
    low, high = _BOUNDS[dtype]
    if narrow:
        bits, signed = INTEGERS[narrow]
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    found = ctx.cast(ctx.unary("clamp", found, min=float(low), max=float(high)), dtype)
    return ctx.mark_narrow(found, narrow) if narrow else found


@converter("DequantizeLinear")
def _dequantize(ctx: Importer, node: Node) -> Tensor:
    x = ctx.tensor(node.inputs[0])
    scales = ctx.tensor(node.inputs[1])
    wide = ctx.cast(x, "f32")
    zero = node.input(2)
    shift = None if isinstance(zero, Known) and not zero.array.any() else _along(ctx, zero, wide, node, "f32")
    wide = wide if shift is None else ctx.binary("sub", wide, shift)
    scale = _along(ctx, node.inputs[1], wide, node, "f32")
    assert scale is not None
    return ctx.cast(ctx.binary("mul", wide, scale), scales.dtype)
