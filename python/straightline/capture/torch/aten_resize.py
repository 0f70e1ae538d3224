# SPDX-License-Identifier: Apache-2.0
"""ATen's interpolations and adaptive pools: sums along one dim after the other.

Places and weights are those of ATen itself: the op in question is applied to the columns of a unit matrix while capturing.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from straightline.capture.builder import Dim
from straightline.capture.graph_builder import FLOATS, Reject, Tensor
from straightline.capture.resampling import Array, Resampling, nearest, resampled, resampling_of, spread
from straightline.capture.torch.aten_pools import largest_and_adaptive_places
from straightline.capture.torch.byte_resampling import byte_resampling, resampled_bytes
from straightline.capture.torch.importer import Arguments, Importer, converter, read_results, torch_dtype
from straightline.capture.torch.literals import evaluated
from straightline.errors import UserError

_aten = torch.ops.aten
_SCALES = {1: ("scales",), 2: ("scales_h", "scales_w"), 3: ("scales_d", "scales_h", "scales_w")}


def _sizes(what: str, x: Tensor, rank: int, targets: Sequence[Dim]) -> list[tuple[int, int]]:
    """Sizes of the last `rank` dims of `x`, and of the result."""
    pairs = []
    for size, target in zip(x.extents[x.rank - rank :], targets):
        if not isinstance(size, int) or not isinstance(target, int):
            raise Reject(f"{what} from {size} to {target}", "static sizes, or nearest by a whole factor")
        if size < 1 or target < 1:
            raise Reject(f"{what} from {size} to {target}", "sizes of at least 1")
        pairs.append((size, target))
    return pairs


def _op_of(node: torch.fx.Node) -> str:
    """`upsample_nearest2d` for aten.upsample_nearest2d.vec."""
    return str(node.target).split(".")[1]


def _scales(a: Arguments, rank: int) -> list[float | None]:
    """The scale factor that the caller gave for each dim, which ATen takes instead of the ratio of sizes."""
    if "scale_factors" in a.values:
        return [None] * rank if a.scale_factors is None else [float(factor) for factor in a.scale_factors]
    return [a.get(name) for name in _SCALES[rank]]


# Nearest --------------------------------------------------------------------------------------------------------------


def _over_last(op: str, x: torch.Tensor, target: int, *options: Any, scale: float | None) -> torch.Tensor:
    """The op with sizes of 1 but for the last dim of x [channels, size], since forms of other ranks round in another way."""
    rank = int(op.removesuffix("_aa").removesuffix("d")[-1])
    ones = [1] * (rank - 1)
    wide = x.reshape(1, x.shape[0], *ones, x.shape[1])
    scales = [None] * (rank - 1) + [scale]
    return getattr(_aten, op).default(wide, [*ones, target], *options, *scales).reshape(x.shape[0], target)


#: From so many channels on, ATen's CPU kernels over volumes that lie channels last are others, which round in another way.
_CHANNELS_LAST = 4


@functools.lru_cache(maxsize=256)
def _nearest_places(op: str, size: int, target: int, scale: float | None, dtype: str, is_channels_last: bool) -> Array:
    numbers = torch.arange(size, dtype=torch_dtype(dtype), device="cpu").expand(_CHANNELS_LAST, size)
    if is_channels_last:
        scales = (None, None, scale)
        volume = numbers.reshape(1, _CHANNELS_LAST, 1, 1, size).contiguous(memory_format=torch.channels_last_3d)
        return getattr(_aten, op).default(volume, [1, 1, target], *scales)[0, 0, 0, 0].long().numpy()
    return _over_last(op, numbers[:1].contiguous(), target, scale=scale)[0].long().numpy()


def _is_channels_last(node: torch.fx.Node) -> bool:
    """Whether eager takes its kernel for volumes that lie channels last."""
    value = node.args[0].meta["val"] if isinstance(node.args[0], torch.fx.Node) else None
    return (
        isinstance(value, torch.Tensor)
        and value.dim() == 5
        and isinstance(value.shape[1], int)
        and value.shape[1] >= _CHANNELS_LAST
        and value.is_contiguous(memory_format=torch.channels_last_3d)
    )


def _nearest(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    x, type = a.get("input", a.get("self")), ctx.result_type(node)
    rank, op = x.rank - 2, _op_of(node)
    repeated = _repeated(ctx, x, a, type.extents)
    if repeated is not None:
        return _not_itself(ctx, x, repeated)
    sizes = _sizes("nearest interpolation", x, rank, type.extents[2:])
    compute = "f64" if x.dtype == "f64" else "f32"
    is_channels_last = _is_channels_last(node)
    scales = _scales(a, rank)
    if ctx.target.supports("interpolates_by_scale"):  # as ATen's CPU kernel for one dim does of float32
        op, compute, is_channels_last = f"{op[:-2]}1d", "f32", False
        if rank == 2:  # of images, ATen's CUDA kernels copy a dim whose size stays (UpSampleNearest2d.cu)
            scales = [None if size == target else scale for (size, target), scale in zip(sizes, scales)]
    places = {
        2 + d: evaluated(_nearest_places, op, *pair, scale, compute, is_channels_last)
        for d, (pair, scale) in enumerate(zip(sizes, scales))
    }
    return _not_itself(ctx, x, nearest(ctx, x, places))


def _not_itself(ctx: Importer, x: Tensor, result: Tensor) -> Tensor:
    """The result of an interpolation, in memory of its own also where all sizes stay."""
    return ctx.emit_one("clone", [result], result.type) if result.extents == x.extents else result


def _repeated(ctx: Importer, x: Tensor, a: Arguments, extents: tuple[Dim, ...]) -> Tensor | None:
    """Each element as often as whole scale factors say, which needs no static size; None for other factors."""
    factors = a.get("scale_factors")
    if factors is None or any(factor < 1 or factor != int(factor) for factor in factors):
        return None
    whole = {2 + d: int(factor) for d, factor in enumerate(factors)}
    if any(x.extents[dim] * factor != extents[dim] for dim, factor in whole.items()):
        return None
    return spread(ctx, x, whole)


for _form in ("upsample_nearest", "_upsample_nearest_exact"):
    converter(*(f"aten.{_form}{rank}d.{kind}" for rank in (1, 2, 3) for kind in ("default", "vec")))(_nearest)


# Linear and cubic -----------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def _weights(
    op: str, size: int, target: int, align: bool, scale: float | None, dtype: str, by_scale: bool
) -> Resampling:
    """What makes the `target` elements of a dim. ATen's CPU kernels copy a dim whose size stays; not so with `by_scale`."""
    columns = torch.eye(size, dtype=torch_dtype(dtype), device="cpu")
    if by_scale:  # the first elements of a longer result, which depend on the scale alone
        return resampling_of(_over_last(op, columns, target + 1, align, scale=scale)[:, :target].numpy())
    return resampling_of(_over_last(op, columns, target, align, scale=scale).numpy())


@converter(
    *(
        f"aten.{form}.{kind}"
        for form in (
            "upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d",
            "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa",
        )
        for kind in ("default", "vec")
    )
)  # fmt: skip
def _interpolation(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    x, type = a.get("input", a.get("self")), ctx.result_type(node)
    if x.dtype == "ui8" and x.rank == 4:
        return _interpolation_of_bytes(ctx, a, node, x)
    if x.dtype not in FLOATS:
        raise Reject(f"interpolation of {x.dtype}, native kernels have floats", "float32")
    rank, op = x.rank - 2, _op_of(node)
    sizes = _sizes("interpolation", x, rank, type.extents[2:])
    if op.endswith("_aa") and any(1 in pair for pair in sizes):
        raise Reject(
            "antialiasing from or to a size of 1, where torch has two results for two layouts", "sizes above 1"
        )
    compute, align = "f64" if x.dtype == "f64" else "f32", bool(a.align_corners)
    by_scale = ctx.target.supports("interpolates_by_scale")
    # ATen's CUDA kernels copy where all sizes stay, its CPU kernels not where one of them is 1; antialiased ones go by the dim.
    if by_scale and not op.endswith("_aa") and all(size == target for size, target in sizes):
        return _not_itself(ctx, x, x)
    takes_scales = by_scale and not align
    by = {
        2 + d: evaluated(
            _weights, op, *pair, align, scale, compute, takes_scales and scale is not None and len(set(pair)) == 1
        )
        for d, (pair, scale) in enumerate(zip(sizes, _scales(a, rank)))
    }
    return _not_itself(ctx, x, resampled(ctx, x, by))


def _interpolation_of_bytes(ctx: Importer, a: Arguments, node: torch.fx.Node, x: Tensor) -> Tensor:
    if not ctx.target.supports("resamples_bytes_as_integers"):
        raise Reject("interpolation of uint8, which the target's torch rounds in another way", "float32")
    sizes = _sizes("interpolation", x, 2, ctx.result_type(node).extents[2:])
    if sizes[1][1] == 1 and any(size != target for size, target in sizes):
        raise Reject("interpolation of uint8 to a width of 1, where torch's result depends on the layout", "float32")
    op = _op_of(node)
    options = {"cubic": "bicubic" in op, "antialias": op.endswith("_aa"), "align_corners": bool(a.align_corners)}
    known_ones = functools.partial(byte_resampling, **options)
    by = {
        2 + d: evaluated(known_ones, *pair, scale)
        for d, (pair, scale) in enumerate(zip(sizes, _scales(a, 2)))
        if pair[0] != pair[1]
    }
    return _not_itself(ctx, x, resampled_bytes(ctx, x, by))


# Adaptive pools -------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def _windows(size: int, target: int, dtype: str) -> Resampling:
    columns = torch.eye(size, dtype=torch_dtype(dtype), device="cpu")
    return resampling_of(_aten.adaptive_avg_pool1d.default(columns, [target]).numpy())


def _targets(ctx: Importer, what: str, x: Tensor, extents: tuple[Dim, ...], rank: int) -> list[tuple[int, int]]:
    """Sizes before and after an adaptive pool over the last `rank` dims."""
    if 0 in x.extents[x.rank - rank - 1 :]:
        raise UserError(f"{what} of {list(x.extents)}, which is empty, at {ctx.location}")
    return _sizes(what, x, rank, extents[-rank:])


def _in_windows(ctx: Importer, x: Tensor, sizes: list[tuple[int, int]], reduction: str) -> Tensor | None:
    """A reduction over windows that lie side by side; None where they overlap."""
    lead = x.extents[: x.rank - len(sizes)]
    if any(target < 1 or size % target for size, target in sizes) or len(lead) + 2 * len(sizes) > 8:
        return None
    apart = [n for size, target in sizes for n in (target, size // target)]
    dims = [len(lead) + 2 * d + 1 for d in range(len(sizes))]
    return ctx.reduce(reduction, ctx.reshape(x, (*lead, *apart)), dims, False)


def adaptive_average(ctx: Importer, x: Tensor, extents: tuple[Dim, ...], rank: int) -> Tensor:
    """The mean of each of so many windows as the result has elements."""
    if x.dtype not in FLOATS:
        raise Reject(f"an average of {x.dtype}, native kernels have floats", "float32")
    if all(target == 1 for target in extents[-rank:]):
        return ctx.reduce("mean", x, list(range(x.rank - rank, x.rank)), True)  # of nothing too
    sizes = _targets(ctx, f"adaptive_avg_pool{rank}d", x, extents, rank)
    means = _in_windows(ctx, x, sizes, "mean")
    if means is not None:
        return means
    compute = "f64" if x.dtype == "f64" else "f32"
    dims = range(x.rank - rank, x.rank)
    return resampled(ctx, x, {d: evaluated(_windows, *pair, compute) for d, pair in zip(dims, sizes)})


@converter("aten.adaptive_avg_pool1d.default", "aten.adaptive_avg_pool3d.default", "aten._adaptive_avg_pool3d.default")
def _adaptive_avg_pool(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    rank = 3 if "3d" in str(node.target) else 1
    return adaptive_average(ctx, a.self, ctx.result_type(node).extents, rank)


def _adaptive_max_pool(*overloads: str, rank: int) -> None:
    @converter(*overloads)
    def convert(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Any:
        sizes = _targets(ctx, f"adaptive_max_pool{rank}d", a.self, ctx.result_type(node, 0).extents, rank)
        if 1 in read_results(node):
            return largest_and_adaptive_places(ctx, a.self, sizes)
        dims = range(a.self.rank - rank, a.self.rank)
        most = _in_windows(ctx, a.self, sizes, "amax")
        if most is None:
            most = resampled(ctx, a.self, {d: evaluated(_windows, *p, "f32") for d, p in zip(dims, sizes)}, "max")
        return [most, None]


_adaptive_max_pool("aten.adaptive_max_pool1d.default", rank=1)
_adaptive_max_pool("aten.adaptive_max_pool2d.default", rank=2)
_adaptive_max_pool("aten.adaptive_max_pool3d.default", rank=3)
