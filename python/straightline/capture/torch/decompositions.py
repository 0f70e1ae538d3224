# SPDX-License-Identifier: Apache-2.0
"""Functions of our own for ops that torch takes apart in a way that is not imported, or not at all.

Each takes the op's arguments, calls ops that are imported, and gives what the op gives; for a form that it leaves to torch it
returns `NotImplemented` before it calls anything. Elementwise ones compute halves in float32 and round once, as eager does.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table

from straightline.capture.torch.backward_ops import BACKWARD

Op = torch._ops.OpOverload

_aten = torch.ops.aten

#: Op -> the function that computes it by other ops.
OWN: dict[Op, Callable[..., Any]] = dict(BACKWARD)

#: Most sorted numbers that are compared one by one (`searchsorted`), and most elements that are sorted for their median.
_MOST_COMPARED = 128
_MOST_SORTED = 4096
#: Beyond this, of rows on either side, eager computes euclidean distances by a product of matrices.
_PRODUCT_OF_ROWS = 25

_HALVES = (torch.float16, torch.bfloat16)


def _own(*ops: Op) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        OWN.update(dict.fromkeys(ops, function))
        return function

    return register


def _to(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x if x.dtype == dtype else x.to(dtype)


# Elementwise ----------------------------------------------------------------------------------------------------------


def _of_floats(*ops: Op) -> Callable[[Callable[[Tensor], Tensor]], Callable[..., Any]]:
    """Registers an elementwise function of one float tensor; integers are converted to the default dtype."""

    def register(function: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
        @functools.wraps(function)
        def parts(x: Tensor) -> Any:
            if x.is_complex():
                return NotImplemented
            dtype = x.dtype if x.is_floating_point() else torch.get_default_dtype()
            return _to(function(_to(x, torch.float32 if dtype in _HALVES else dtype)), dtype)

        return _own(*ops)(parts)

    return register


@_of_floats(_aten.asin.default)
def _asin(x: Tensor) -> Tensor:
    return torch.atan2(x, torch.sqrt((1 - x) * (1 + x)))


@_of_floats(_aten.acos.default)
def _acos(x: Tensor) -> Tensor:
    return torch.atan2(torch.sqrt((1 - x) * (1 + x)), x)


def _with_sign(x: Tensor, magnitude: Tensor) -> Tensor:
    """`magnitude` with the sign of x, which is x itself where that is zero (of either sign)."""
    return torch.where(x == 0, x, torch.where(x < 0, -magnitude, magnitude))


@_of_floats(_aten.asinh.default)
def _asinh(x: Tensor) -> Tensor:
    """By log1p, which keeps small arguments (fdlibm, s_asinh.c); log(2 |x|) where a square would overflow."""
    a = x.abs()
    near = torch.log1p(a + a * a / (1 + torch.sqrt(a * a + 1)))
    return _with_sign(x, torch.where(a > 1e9, torch.log(a) + math.log(2), near))


@_of_floats(_aten.acosh.default)
def _acosh(x: Tensor) -> Tensor:
    """Source: fdlibm, e_acosh.c."""
    t = torch.where(x < 1, math.nan, x) - 1
    near = torch.log1p(t + torch.sqrt(2 * t + t * t))
    return torch.where(x > 1e9, torch.log(x) + math.log(2), near)


@_of_floats(_aten.atanh.default)
def _atanh(x: Tensor) -> Tensor:
    """Source: fdlibm, e_atanh.c."""
    a = x.abs()
    return _with_sign(x, torch.log1p(2 * a / (1 - a)) * 0.5)


@_of_floats(_aten.sinh.default)
def _sinh(x: Tensor) -> Tensor:
    """Source: fdlibm, e_sinh.c; where exp overflows and sinh does not, by the square of exp(x / 2)."""
    a = x.abs()
    t = torch.expm1(a)
    half = torch.exp(a * 0.5)
    return _with_sign(x, torch.where(a > 80, half * 0.5 * half, (t + t / (t + 1)) * 0.5))


@_of_floats(_aten.cosh.default)
def _cosh(x: Tensor) -> Tensor:
    a = x.abs()
    e, half = torch.exp(a), torch.exp(a * 0.5)
    return torch.where(a > 80, half * 0.5 * half, e * 0.5 + 0.5 / e)


@_of_floats(_aten.angle.default)
def _angle(x: Tensor) -> Tensor:
    half_turn = torch.full((), math.pi, dtype=x.dtype, device=x.device)
    return torch.where(x != x, x, torch.where(x < 0, half_turn, 0.0))


@_own(_aten.signbit.default)
def _signbit(x: Tensor) -> Any:
    """Also of zeros and NaN."""
    if x.is_complex():
        return NotImplemented
    if not x.is_floating_point():
        return x < 0 if x.dtype != torch.bool else torch.zeros_like(x)
    return torch.copysign(torch.ones_like(x), x) < 0


@_own(_aten.hypot.default)
def _hypot(x: Tensor, y: Tensor) -> Any:
    """In float64, where no square of float32 overflows; of float64 with the larger one divided out."""
    dtype = torch.result_type(x, y)
    if not dtype.is_floating_point:
        return NotImplemented
    x, y = _to(x, torch.float64).abs(), _to(y, torch.float64).abs()
    infinite = torch.isinf(x) | torch.isinf(y)  # also beside a NaN
    if dtype != torch.float64:
        return _to(torch.where(infinite, math.inf, torch.sqrt(x * x + y * y)), dtype)
    large, small = torch.maximum(x, y), torch.minimum(x, y)
    quotient = torch.where(large == 0, large, small / large)
    return torch.where(infinite, math.inf, large * torch.sqrt(1 + quotient * quotient))


def _of_numbers(pick: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor) -> Any:
    """The larger or smaller one; a NaN loses to a number."""
    dtype = torch.result_type(x, y)
    x, y = _to(x, dtype), _to(y, dtype)
    if not dtype.is_floating_point:
        return pick(x, y)
    return torch.where(x != x, y, torch.where(y != y, x, pick(x, y)))


OWN[_aten.fmax.default] = functools.partial(_of_numbers, torch.maximum)
OWN[_aten.fmin.default] = functools.partial(_of_numbers, torch.minimum)


@_own(_aten.ldexp.Tensor)
def _ldexp(x: Tensor, other: Tensor) -> Any:
    return NotImplemented if x.is_complex() or other.is_complex() else x * torch.pow(2.0, other)


@_own(_aten.round.decimals)
def _round_decimals(x: Tensor, *, decimals: int = 0) -> Any:
    """The steps of ATen's kernel (`round_decimals_kernel`), so that bits agree; of halves in float32."""
    if not x.is_floating_point():
        return NotImplemented
    if decimals == 0:
        return torch.round(x)
    wide = _to(x, torch.float32 if x.dtype in _HALVES else x.dtype)
    power = torch.full((), 10.0 ** abs(decimals), dtype=x.dtype, device=x.device).to(wide.dtype)
    return _to(torch.round(wide * power) / power if decimals > 0 else torch.round(wide / power) * power, x.dtype)


# Products, norms, distances -------------------------------------------------------------------------------------------


def _scaled_sum(x: Tensor, beta: Any, product: Tensor, alpha: Any) -> Tensor:
    """Beta * x + alpha * product; with a beta of 0 x counts for nothing, not even its NaN."""
    product = product if alpha == 1 else product * alpha
    if beta == 0:
        return product + torch.zeros_like(x) if x.dim() > product.dim() else product
    return product + (x if beta == 1 else x * beta)


@_own(_aten.addbmm.default)
def _addbmm(x: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    if not x.is_floating_point() and not x.is_complex():
        return NotImplemented
    rows, columns, count = batch1.shape[1], batch2.shape[2], batch1.shape[0] * batch1.shape[2]
    # One product: the batch is a part of what is summed.
    left = batch1.permute(1, 0, 2).reshape(rows, count)
    return _scaled_sum(x, beta, left @ batch2.reshape(count, columns), alpha)


@_own(_aten.addmv.default)
def _addmv(x: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    if not x.is_floating_point() and not x.is_complex():
        return NotImplemented
    return _scaled_sum(x, beta, mat @ vec, alpha)


@_own(_aten.trace.default)
def _trace(x: Tensor) -> Tensor:
    """Summed in twice the precision, as eager does: numbers that cancel leave no error of float32."""
    wide = {torch.float32: torch.float64, torch.complex64: torch.complex128}.get(x.dtype)
    return _to(x.diagonal().to(wide).sum(), x.dtype) if wide else x.diagonal().sum()


@_own(_aten.dist.default)
def _dist(x: Tensor, y: Tensor, p: float = 2) -> Tensor:
    return torch.linalg.vector_norm(x - y, p)


@_own(_aten.bilinear.default)
def _bilinear(x1: Tensor, x2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    """Rows of x1 times the weight of each result, then with x2: two products."""
    if not x1.is_floating_point() or x1.dim() == 0:
        return NotImplemented
    count, of_x1, of_x2 = weight.shape
    columns = weight.permute(1, 0, 2).reshape(of_x1, count * of_x2)
    products = (x1 @ columns).reshape(*x1.shape[:-1], count, of_x2)
    result = (products @ x2.unsqueeze(-1)).squeeze(-1)
    return result if bias is None else result + bias


def _distances(difference: Callable[[], Tensor], p: float) -> Tensor:
    """Norms of the last dimension of differences."""
    size = difference().abs()
    if p == 0:
        return (size != 0).to(size.dtype).sum(-1)
    if p == 1:
        return size.sum(-1)
    if p == math.inf:
        return size.amax(-1)
    return (size * size).sum(-1).sqrt() if p == 2 else size.pow(p).sum(-1).pow(1 / p)


@_own(_aten._cdist_forward.default)
def _cdist(x1: Tensor, x2: Tensor, p: float, compute_mode: int | None) -> Any:
    rows = x1.shape[-2], x2.shape[-2]
    if not all(isinstance(size, int) for size in (*x1.shape, *x2.shape)) or x1.shape[-1] == 0:
        return NotImplemented
    by_product = p == 2 and (compute_mode == 1 or (compute_mode in (None, 0) and max(rows) > _PRODUCT_OF_ROWS))
    if by_product:
        ones1, ones2 = torch.ones_like(x1[..., :1]), torch.ones_like(x2[..., :1])
        left = torch.cat([x1 * -2, (x1 * x1).sum(-1, keepdim=True), ones1], -1)
        right = torch.cat([x2, ones2, (x2 * x2).sum(-1, keepdim=True)], -1)
        return (left @ right.transpose(-2, -1)).clamp_min(0).sqrt()
    return _distances(lambda: x1.unsqueeze(-2) - x2.unsqueeze(-3), p)


@_own(_aten._pdist_forward.default)
def _pdist(x: Tensor, p: float = 2) -> Any:
    rows = x.shape[0]
    if not isinstance(rows, int) or rows < 2 or x.shape[1] == 0:
        return NotImplemented
    firsts = torch.cat([torch.full((rows - 1 - i,), i, device=x.device) for i in range(rows - 1)])
    seconds = torch.cat([torch.arange(i + 1, rows, device=x.device) for i in range(rows - 1)])
    return _distances(lambda: x[firsts] - x[seconds], p)


# Order ----------------------------------------------------------------------------------------------------------------


def _place(boundaries: Tensor, values: Tensor, out_int32: bool, right: bool) -> Any:
    """How many of the sorted numbers of a row are below each value (with `right` not above it); all are below a NaN."""
    count = boundaries.shape[-1]
    if not isinstance(count, int) or count > _MOST_COMPARED:
        return NotImplemented
    dtype = torch.result_type(boundaries, values) if boundaries.dtype != values.dtype else values.dtype
    row, value = _to(boundaries, dtype).unsqueeze(-2), _to(values, dtype).unsqueeze(-1)
    if boundaries.dim() == 1:
        row = _to(boundaries, dtype)
    below = ~(row > value) if right else ~(row >= value)
    return below.sum(-1, dtype=torch.int32 if out_int32 else torch.int64)


@_own(_aten.bucketize.Tensor)
def _bucketize(x: Tensor, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Any:
    return _place(boundaries, x, out_int32, right)


@_own(_aten.searchsorted.Tensor)
def _searchsorted(
    boundaries: Tensor, x: Tensor, *, out_int32: bool = False, right: bool = False, side: str | None = None,
    sorter: Tensor | None = None,
) -> Any:  # fmt: skip
    if sorter is not None:
        return NotImplemented
    return _place(boundaries, x, out_int32, right or side == "right")


@_own(_aten.searchsorted.Scalar)
def _searchsorted_number(
    boundaries: Tensor, x: Any, *, out_int32: bool = False, right: bool = False, side: str | None = None,
    sorter: Tensor | None = None,
) -> Any:  # fmt: skip
    if sorter is not None:
        return NotImplemented
    value = torch.full((), x, dtype=boundaries.dtype, device=boundaries.device)
    return _place(boundaries, value, out_int32, right or side == "right")


def _sorted(x: Tensor) -> Tensor | None:
    """All elements in order, NaN last; None where sorting is too much for one of them."""
    is_short = isinstance(x.numel(), int) and 0 < x.numel() <= _MOST_SORTED
    return torch.sort(x.reshape(-1)).values if is_short else None


@_own(_aten.median.default)
def _median(x: Tensor) -> Any:
    values = _sorted(x)
    if values is None:
        return NotImplemented
    middle, last = values[(values.shape[0] - 1) // 2], values[-1]
    return torch.where(last != last, last, middle) if x.is_floating_point() else middle


@_own(_aten.nanmedian.default)
def _nanmedian(x: Tensor) -> Any:
    values = _sorted(x)
    if values is None:
        return NotImplemented
    numbers = (values == values).sum()
    middle = ((numbers - 1) // 2).clamp_min(0)
    return values.gather(0, middle.reshape(1)).reshape(())


# Copies of views, diagonals -------------------------------------------------------------------------------------------


@_own(_aten.unbind_copy.int)
def _unbind_copy(x: Tensor, dim: int = 0) -> list[Tensor]:
    return [part.clone() for part in x.unbind(dim)]


@_own(_aten.narrow_copy.default)
def _narrow_copy(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    return x.narrow(dim, start, length).clone()


@_own(_aten.fill_diagonal_.default)
def _fill_diagonal_(x: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Fills elements whose indices are equal; with `wrap`, a matrix gets a diagonal anew a row below the end of each.

    torch's own function writes through as_strided.
    """
    places = []
    for dim, size in enumerate(x.shape):
        numbers = torch.arange(size, device=x.device)
        if wrap and dim == 0 and x.dim() == 2:
            numbers = numbers % (x.shape[1] + 1)
        places.append(numbers.reshape([size if d == dim else 1 for d in range(x.dim())]))
    chosen = places[0] == places[1]
    for place in places[2:]:
        chosen = chosen & (places[0] == place)
    if not x.is_floating_point() and not x.is_complex():
        fill_value = bool(fill_value) if x.dtype == torch.bool else int(fill_value)
    return x.masked_fill_(chosen, fill_value)


# Layers ---------------------------------------------------------------------------------------------------------------


@_own(_aten.cudnn_grid_sampler.default)
def _cudnn_grid_sampler(x: Tensor, grid: Tensor) -> Tensor:
    """The op that torch's grid_sample becomes on a device where cuDNN has a kernel; torch has no fake form of it."""
    return torch.ops.aten.grid_sampler_2d.default(x, grid, 0, 0, True)


@_own(_aten.multilabel_margin_loss_forward.default)
def _multilabel_margin_loss(x: Tensor, target: Tensor, reduction: int) -> Any:
    """Torch's own function counts the places behind the first -1 as if they named class 0, and keeps a dim of one vector."""
    rows, targets = torch.atleast_2d(x), torch.atleast_2d(target)
    classes = rows.shape[1]
    numbers = torch.arange(classes, device=x.device)
    end = torch.where(targets == -1, numbers, classes).amin(-1, keepdim=True)
    counts = numbers < end
    of_target = rows.gather(-1, torch.where(counts, targets, 0)).unsqueeze(-1)
    is_target = (numbers == torch.where(counts, targets, -1).unsqueeze(-1)).any(1)
    margins = (1.0 - of_target + rows.unsqueeze(1)).clamp_min(0)
    margins = torch.where(counts.unsqueeze(-1) & ~is_target.unsqueeze(1), margins, 0)
    loss = (margins.sum((1, 2)) / classes).reshape(x.shape[:-1])
    loss = loss if reduction == 0 else loss.mean() if reduction == 1 else loss.sum()
    return loss, _to(is_target, x.dtype).reshape(target.shape)


def _of_torch(op: Op, is_taken: Callable[..., bool], pick: Callable[[Any], Any] = lambda results: results) -> None:
    """Registers torch's own function for an op that is taken apart in some forms only."""
    function = decomposition_table[op]

    def parts(*args: Any, **kwargs: Any) -> Any:
        return pick(function(*args, **kwargs)) if is_taken(*args, **kwargs) else NotImplemented

    OWN[op] = parts


_BATCH_NORMS = (_aten.batch_norm.default, _aten.native_batch_norm.default, _aten._native_batch_norm_legit.default)


def updates_statistics(op: Op, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a call is a batch norm that updates running statistics, which its schema does not always say."""
    if op not in _BATCH_NORMS:
        return False
    names = [argument.name for argument in op._schema.arguments]
    given = {**dict(zip(names, args)), **kwargs}
    return given["training"] is True and given["running_mean"] is not None


def _updates(x: Tensor, weight: Any, bias: Any, mean: Tensor | None, var: Any, training: bool, *rest: Any) -> bool:
    return training and mean is not None


_of_torch(_aten.native_batch_norm.default, _updates)
_of_torch(_aten._native_batch_norm_legit.default, _updates)
_of_torch(_aten._batch_norm_with_update.default, lambda *args: True)


@_own(_aten.batch_norm.default)
def _batch_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor | None, var: Tensor | None, training: bool,
    momentum: float, eps: float, cudnn_enabled: bool,
) -> Any:  # fmt: skip
    if not _updates(x, weight, bias, mean, var, training):
        return NotImplemented
    return OWN[_aten.native_batch_norm.default](x, weight, bias, mean, var, training, momentum, eps)[0]


@_own(_aten._scaled_dot_product_flash_attention_for_cpu.default)
def _attention_for_cpu(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, is_causal: bool = False, *,
    attn_mask: Tensor | None = None, scale: float | None = None,
) -> Any:  # fmt: skip
    """Attention, and the logarithm of each row's sum; torch's own function gives the weights in place of that."""
    if dropout_p != 0 or query.shape[1] != key.shape[1]:
        return NotImplemented
    result = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask, 0.0, is_causal, scale=scale)
    wide = torch.float32 if query.dtype in _HALVES else query.dtype
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = _to(query, wide) @ _to(key, wide).transpose(-2, -1) * factor
    if is_causal:
        rows, columns = (torch.arange(size, device=query.device) for size in scores.shape[-2:])
        scores = scores.masked_fill(columns > rows.unsqueeze(-1), -math.inf)
    if attn_mask is not None:
        scores = scores + attn_mask if attn_mask.dtype != torch.bool else scores.masked_fill(~attn_mask, -math.inf)
    return result, torch.logsumexp(scores, -1)


@functools.cache
def parts_of_list_write(op: Op) -> Callable[..., Any] | None:
    """Of an op that writes each tensor of a list (optimizers of `foreach=True`): the form that gives new ones, and copies."""
    name = op._schema.name.partition("::")[2]
    form = getattr(getattr(_aten, name[:-1], None), op._overloadname, None)
    if not (name.startswith("_foreach_") and name.endswith("_")) or form is None:
        return None

    def parts(tensors: Sequence[Tensor], *args: Any, **kwargs: Any) -> None:
        for tensor, value in zip(tensors, form(tensors, *args, **kwargs), strict=True):
            tensor.copy_(value)

    return parts


@_own(_aten.native_group_norm.default)
def _native_group_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, N: Any, C: Any, HxW: Any, group: int, eps: float
) -> Sequence[Tensor]:
    """The layer, and the statistics of each group, which are rarely read."""
    rows = _to(x, torch.float32 if x.dtype in _HALVES else x.dtype).reshape(N, group, -1)
    var, mean = torch.var_mean(rows, -1, correction=0)
    result = torch.ops.aten.group_norm.default(x, group, weight, bias, eps)
    return result, _to(mean, x.dtype), _to(torch.rsqrt(var + eps), x.dtype)
