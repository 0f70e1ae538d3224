# SPDX-License-Identifier: Apache-2.0
"""ATen ops that move, view, join or make data."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from straightline.capture.builder import Dim, Extent, TensorType
from straightline.capture.graph_builder import FLOATS, SLICE_END, Reject, Tensor, cuts_more, slice_bounds, wrap
from straightline.capture.torch.aten_data_sizes import (
    from_named_place,
    narrowed,
    padded_by_sizes,
    placed_at,
    rolled_by_number,
    selected,
    sliced,
    with_selected,
)
from straightline.capture.torch.importer import NEAREST, TAKES_COMPLEX, Arguments, Complex, Importer, converter
from straightline.capture.torch.literals import evaluated, literal

NEAREST["aten.as_strided"] = "view, transpose, slice or expand"
NEAREST["aten.nonzero"] = "where with a mask, which keeps shapes known"


@converter(
    "aten.view.default",
    "aten._unsafe_view.default",
    "aten.reshape.default",
    "aten.reshape_as.default",
    "aten.view_as.default",
    "aten.flatten.using_ints",
    "aten.unflatten.int",
    "aten.unsqueeze.default",
    "aten.squeeze.default",
    "aten.squeeze.dim",
    "aten.squeeze.dims",
    "aten.view_copy.default",
    "aten.unsqueeze_copy.default",
    "aten.squeeze_copy.dims",
)
def _reshape(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    return ctx.reshape(a.self, ctx.result_type(node).extents)


@converter("aten.expand.default", "aten.expand_copy.default", "aten.expand_as.default")
def _expand(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    return ctx.expand(a.self, ctx.result_type(node).extents)


@converter("aten.permute.default", "aten.permute_copy.default")
def _permute(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    return ctx.permute(a.self, [wrap(d, a.self.rank) for d in a.dims])


@converter("aten.transpose.int")
def _transpose(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    dims = list(range(a.self.rank))
    if not dims:
        return a.self
    i, j = wrap(a.dim0, a.self.rank), wrap(a.dim1, a.self.rank)
    dims[i], dims[j] = dims[j], dims[i]
    return ctx.permute(a.self, dims)


@converter("aten.t.default", "aten.numpy_T.default", "aten.mT.default")
def _reverse(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    dims = list(range(a.self.rank))
    if "mT" in str(node.target):
        dims[-2:] = dims[-1], dims[-2]
    else:
        dims.reverse()
    return ctx.permute(a.self, dims)


@converter("aten.view_as_real.default", "aten.view_as_real_copy.default")
def _view_as_real(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    if not isinstance(a.self, Complex):
        raise Reject("its argument is not complex")
    return Tensor(a.self.value, a.self.type)


TAKES_COMPLEX.update(("aten.view_as_real.default", "aten.view_as_real_copy.default"))


@converter("aten.view_as_complex.default", "aten.view_as_complex_copy.default")
def _view_as_complex(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    return Complex(a.self.value, a.self.type, node.meta["val"].dtype)


# Slices ---------------------------------------------------------------------------------------------------------------


def _bounds(a: Arguments, node: torch.fx.Node, dim: int) -> tuple[int, int]:
    """Of a slice of a size that may have a name: what the range of this size clamps, torch has clamped in the result's size."""
    size = a.self.extents[dim]
    start, end = 0 if a.start is None else a.start, SLICE_END if a.end is None else a.end
    if isinstance(size, Extent) and isinstance(start, int) and isinstance(end, int):
        of_torch = node.args[0].meta["val"].shape[dim]
        reaches = {bound: statically_known_true(of_torch <= abs(bound)) for bound in (start, end)}
        if (start >= 0 and start and reaches[start]) or (end < 0 and reaches[end]):
            return 0, 0  # empty
        start = 0 if start < 0 and reaches[start] else start
        end = SLICE_END if end > 0 and reaches[end] else end
    return slice_bounds(size, start, end, a.step)


@converter("aten.slice.Tensor", "aten.slice_copy.Tensor")
def _slice(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    dim = wrap(a.dim, a.self.rank)
    if (
        any(isinstance(bound, Extent) and bound.symbols & set(ctx.data_sizes.numbers) for bound in (a.start, a.end))
        and a.step == 1
    ):
        return sliced(ctx, a.self, dim, a.start, a.end, node.meta["val"].shape[dim])
    extent = ctx.result_type(node).extents[dim]
    if isinstance(a.start, Extent) and a.step == 1:
        return from_named_place(ctx, a.self, dim, a.start, extent)
    start, end = _bounds(a, node, dim)
    return ctx.slice(a.self, dim, start, end, extent, a.step)


@converter("aten.narrow.default")
def _narrow(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    dim = wrap(a.dim, a.self.rank)
    size = a.self.extents[dim]
    if not all(isinstance(n, int) for n in (a.start, a.length, size)):
        return narrowed(ctx, a.self, dim, a.start, ctx.result_type(node).extents[dim])
    start = a.start + size if a.start < 0 else a.start
    return ctx.slice(a.self, dim, start, start + a.length, a.length)


def _select_index(size: Dim, index: int) -> int:
    return index + size if index < 0 and isinstance(size, int) else index


@converter("aten.select.int", "aten.select_copy.int")
def _select(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    dim = wrap(a.dim, a.self.rank)
    if isinstance(a.index, Extent):
        return selected(ctx, a.self, dim, a.index)
    attributes = {"dim": dim, "index": _select_index(a.self.extents[dim], a.index)}
    return ctx.emit_one("select", [a.self], ctx.result_type(node), attributes)


@converter("aten.slice_scatter.default")
def _slice_scatter(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    dim = wrap(a.dim, a.self.rank)
    source = ctx.cast(a.src, a.self.dtype)
    if isinstance(a.start, Extent) and a.step == 1:
        return placed_at(ctx, a.self, dim, a.start, source)
    start, end = _bounds(a, node, dim)
    if isinstance(source.extents[dim], Extent) and 0 <= start <= end < SLICE_END:
        written = len(range(start, end, a.step))
        raise Reject(
            f"dim {dim} of what is written has the named size {source.extents[dim]}, not {written}", f"size {written}"
        )
    attributes = {"dim": dim, "start": start, "end": end, "step": a.step}
    return ctx.emit_one("slice_scatter", [a.self, source], a.self.type, attributes)


@converter("aten.select_scatter.default")
def _select_scatter(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    dim = wrap(a.dim, a.self.rank)
    extents = tuple(e for d, e in enumerate(a.self.extents) if d != dim)
    source = ctx.operand(a.src, TensorType(a.self.dtype, extents))
    if isinstance(a.index, Extent):
        return with_selected(ctx, a.self, dim, a.index, source)
    attributes = {"dim": dim, "index": _select_index(a.self.extents[dim], a.index)}
    return ctx.emit_one("select_scatter", [a.self, source], a.self.type, attributes)


@converter(
    "aten.split.Tensor",
    "aten.split_with_sizes.default",
    "aten.chunk.default",
    "aten.split_with_sizes_copy.default",
    "aten.unsafe_split.Tensor",
    "aten.unsafe_split_with_sizes.default",
)
def _split(ctx: Importer, a: Arguments, node: torch.fx.Node) -> list[Tensor]:
    dim = wrap(a.dim, a.self.rank)
    results: list[Tensor] = []
    start = 0
    for index in range(len(node.meta["val"])):
        extent = ctx.result_type(node, index).extents[dim]
        if not isinstance(extent, int):
            raise Reject("split along a dynamic dimension", "slices with constant bounds")
        results.append(ctx.slice(a.self, dim, start, start + extent, extent))
        start += extent
    return results


@converter("aten.unbind.int")
def _unbind(ctx: Importer, a: Arguments, node: torch.fx.Node) -> list[Tensor]:
    dim = wrap(a.dim, a.self.rank)
    types = [ctx.result_type(node, index) for index in range(len(node.meta["val"]))]
    return [ctx.emit_one("select", [a.self], type, {"dim": dim, "index": index}) for index, type in enumerate(types)]


# Joining --------------------------------------------------------------------------------------------------------------


@converter("aten.cat.default", "aten.concat.default")
def _cat(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    type = ctx.result_type(node)
    # torch skips tensors of shape [0], whatever the others' rank is.
    parts = [x for x in a.tensors if not (x.extents == (0,) and type.rank != 1)]
    dim = wrap(a.dim, type.rank)
    parts = [ctx.cast(x, type.dtype) for x in parts]
    # Of one with elements the result is a copy; without the others it would be that very tensor.
    return ctx.cat([x for x in parts if x.extents[dim] != 0] or parts[:1], dim, type)


@converter("aten.stack.default")
def _stack(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    type = ctx.result_type(node)
    dim = wrap(a.dim, type.rank)
    extents = tuple(1 if d == dim else e for d, e in enumerate(type.extents))
    parts = [ctx.reshape(ctx.cast(x, type.dtype), extents) for x in a.tensors]
    return ctx.cat(parts, dim, type)


@converter("aten.repeat.default")
def _repeat(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    type = ctx.result_type(node)
    lead = len(a.repeats) - a.self.rank
    sizes = (1,) * lead + a.self.extents
    if all(r == 1 for r in a.repeats):
        return ctx.emit_one("clone", [ctx.reshape(a.self, type.extents)], type)
    if 0 in type.extents:
        return ctx.full(0, type.dtype, type.extents)
    split: list[Dim] = []
    spread: list[Dim] = []
    for repeat, size in zip(a.repeats, sizes):
        if size == 1:
            split.append(1)
            spread.append(repeat)
            continue
        if repeat != 1:
            split.append(1)
            spread.append(repeat)
        split.append(size)
        spread.append(size)
    return ctx.reshape(ctx.expand(ctx.reshape(a.self, split), spread), type.extents)


@converter("aten.flip.default")
def _flip(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    if a.self.rank == 0:
        return ctx.emit_one("clone", [a.self], a.self.type)
    dims = sorted(wrap(d, a.self.rank) for d in a.dims)
    return ctx.emit_one("flip", [a.self], a.self.type, {"dims": dims})


@converter("aten.roll.default")
def _roll(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    """Rolls by slices that are joined in another order, so that every piece is one contiguous copy."""
    type = ctx.result_type(node)
    fake = node.args[0].meta["val"]
    x, dims, sizes = a.self, a.dims, fake.shape
    if not dims:  # the flattened tensor
        sizes = (fake.numel(),)
        x, dims = ctx.reshape(x, (ctx.extents.dim(sizes[0]),)), (0,)
    shifts: dict[int, int] = {}
    for shift, dim in zip(a.shifts, dims, strict=True):
        dim = wrap(dim, x.rank)
        if isinstance(shift, Extent):
            x = rolled_by_number(ctx, x, dim, shift)
        else:
            shifts[dim] = shifts.get(dim, 0) + shift
    seams = [(dim, seam) for dim, shift in shifts.items() if (seam := _seam(sizes[dim], shift))]
    if not seams or 0 in x.extents:
        return ctx.reshape(x, type.extents) if x is not a.self else ctx.emit_one("clone", [a.self], type)
    if len(seams) > 1 and ctx.target.supports("rolls_by_rows"):
        rows = _rolled_rows(ctx, x, dict(seams))
        if rows is not None:
            return ctx.reshape(rows, type.extents)
    for first in range(0, len(seams), 3):  # cut along more dims at a time, the pieces would be many
        x = _rolled(ctx, x, seams[first : first + 3])
    return ctx.reshape(x, type.extents)


def _seam(size: int | torch.SymInt, shift: int) -> int:
    """Returns the index at which the part that a roll puts first begins; negative: from the end, 0: nothing moves."""
    if isinstance(size, int):
        return -shift % size if size else 0
    least = size.node.shape_env.bound_sympy(size.node.expr).lower
    if abs(shift) > least:
        raise Reject(f"roll by {shift} of a dynamic dimension of at least {least}", f"at least {abs(shift)} elements")
    return -shift


#: From so many elements on, what lies behind the dims of a roll is a row that a gather copies at once.
_SHORTEST_ROW = 8
#: The most rows whose places stand in a program.
_MOST_ROWS = 1 << 15


def _rolled_rows(ctx: Importer, x: Tensor, seams: dict[int, int]) -> Tensor | None:
    """The roll as a gather of the rows behind its dims, which become one; None where a size is named or rows are short."""
    first, last = min(seams), max(seams)
    sizes, inner = x.extents[first : last + 1], x.extents[last + 1 :]
    if not all(isinstance(size, int) for size in (*sizes, *inner)) or math.prod(inner) < _SHORTEST_ROW:
        return None
    count = math.prod(sizes)
    if count > _MOST_ROWS:
        return None
    shifts = tuple(-seams.get(dim, 0) for dim in range(first, last + 1))
    places = literal(ctx, evaluated(_places_of_roll, tuple(sizes), shifts))
    joined = ctx.reshape(x, (*x.extents[:first], count, *inner))
    return ctx.emit_one("index_select", [joined, places], joined.type, {"dim": first})


def _places_of_roll(sizes: tuple[int, ...], shifts: tuple[int, ...]) -> torch.Tensor:
    numbers = torch.arange(math.prod(sizes), device="cpu").reshape(sizes)
    return numbers.roll(shifts, tuple(range(len(sizes)))).flatten()


def _rolled(ctx: Importer, x: Tensor, seams: Sequence[tuple[int, int]]) -> Tensor:
    if not seams:
        return x
    (dim, seam), *rest = seams
    size = x.extents[dim]
    is_from_end = isinstance(size, Extent) and seam < 0
    counts: list[Dim] = [-seam, size + seam] if is_from_end else [size - seam, seam]
    later = ctx.slice(x, dim, seam, SLICE_END if isinstance(size, Extent) else size, counts[0])
    earlier = ctx.slice(x, dim, 0, seam, counts[1])
    parts = [_rolled(ctx, part, rest) for part in (later, earlier)]
    return ctx.emit_one("cat", parts, x.type, {"dim": dim})


@converter("aten.constant_pad_nd.default")
def _constant_pad(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    x, pads = a.self, list(a.pad)
    type = ctx.result_type(node)
    value = float(a.value) if type.dtype in FLOATS else int(bool(a.value) if type.dtype == "i1" else a.value)
    if any(isinstance(p, Extent) for p in pads):
        return padded_by_sizes(ctx, x, pads, value)
    for i in range(len(pads) // 2):  # a negative pad crops
        dim, low, high = x.rank - 1 - i, min(pads[2 * i], 0), min(pads[2 * i + 1], 0)
        if low or high:
            size = x.extents[dim]
            if not isinstance(size, int):
                raise Reject("negative padding of a dynamic dimension", "a slice")
            if cuts_more(size, low, high):
                raise Reject(
                    f"padding by {pads[2 * i]} and {pads[2 * i + 1]} of a dim of {size}", "crops of at most the dim"
                )
            x = ctx.slice(x, dim, -low, size + high, size + high + low)
        pads[2 * i], pads[2 * i + 1] = max(pads[2 * i], 0), max(pads[2 * i + 1], 0)
    if not any(pads):
        return ctx.emit_one("clone", [x], type)
    return ctx.emit_one("constant_pad_nd", [x], type, {"pad": pads, "value": value})


# Copies and identities ------------------------------------------------------------------------------------------------


@converter("aten.clone.default", "aten.lift_fresh_copy.default", "aten.contiguous.default")
def _clone(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    return ctx.emit_one("clone", [a.self], a.self.type)


@converter(
    "aten.alias.default",
    "aten.detach.default",
    "aten.lift_fresh.default",
    "aten.alias_copy.default",
)
def _identity(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    return a.self


@converter("aten.copy.default")
def _copy(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    moved = ctx.operand(a.src, a.self.type)
    return moved if moved is not a.src else ctx.emit_one("clone", [a.src], a.self.type)


# Making data ----------------------------------------------------------------------------------------------------------


@converter(
    "aten.full.default",
    "aten.full_like.default",
    "aten.new_full.default",
    "aten.fill.Scalar",
)
def _full(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    value = a.get("fill_value", a.get("value"))
    return ctx.operand(value, ctx.result_type(node))


@converter("aten.fill.Tensor")
def _fill_tensor(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    return ctx.operand(a.value, ctx.result_type(node))


def _constant(value: int, overloads: tuple[str, ...]) -> None:
    @converter(*overloads)
    def convert(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
        return ctx.operand(value, ctx.result_type(node))


_constant(1, ("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default"))
_constant(0, ("aten.zeros.default", "aten.zeros_like.default", "aten.new_zeros.default"))


@converter(
    "aten.empty.memory_format",
    "aten.empty_like.default",
    "aten.new_empty.default",
    "aten.empty_permuted.default",
    "aten.empty_strided.default",
    "aten.new_empty_strided.default",
)
def _empty(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    """Its contents are undefined, and zero is as good as any for whoever reads them."""
    made = ctx.operand(0, ctx.result_type(node))
    ctx.undefined[id(made)] = made
    return made


@converter("aten.scalar_tensor.default")
def _scalar_tensor(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    return ctx.scalar(a.s, ctx.result_type(node).dtype)


@converter("aten.arange.default", "aten.arange.start", "aten.arange.start_step", "prims.iota.default")
def _arange(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    type = ctx.result_type(node)
    bounds = {"start": a.get("start", 0), "step": a.get("step", 1)}
    for name, bound in bounds.items():
        if isinstance(bound, Extent):
            raise Reject(f"arange with the dynamic {name} {bound}", f"a constant {name}")
    number = float if type.dtype in FLOATS else int
    return ctx.emit_one("iota", [], type, {name: number(n) for name, n in bounds.items()})
