# SPDX-License-Identifier: Apache-2.0
"""Ops on complex tensors as ops on their parts: `view_as_real`, real ops, `view_as_complex`.

A function takes the op's arguments and gives what the op gives; for a form that it leaves to torch it returns `NotImplemented`
or raises. Both parts of complex32 are halves, in which eager has few ops: it is torch's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

Op = torch._ops.OpOverload

_aten = torch.ops.aten

#: Op -> the function that computes it for complex tensors.
COMPLEX: dict[Op, Callable[..., Any]] = {}


class _Types(dict[torch.dtype, torch.dtype]):
    """The real types of the parts; another type has no parts here."""

    def __missing__(self, dtype: torch.dtype) -> torch.dtype:
        raise NotImplementedError


_PARTS = _Types({torch.complex64: torch.float32, torch.complex128: torch.float64})

Pair = tuple[Tensor, Tensor]


def _complex(*ops: Op) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        COMPLEX.update(dict.fromkeys(ops, function))
        return function

    return register


_MAKES_COMPLEX = (_aten.complex.default, _aten.polar.default)


def is_of_complex(op: Op, *trees: Any) -> bool:
    """Whether a call works on complex numbers, by its arguments (tensors, numbers, dtypes)."""
    return op in _MAKES_COMPLEX or any(_is_complex(leaf) for leaf in pytree.tree_leaves(trees))


def _is_complex(leaf: Any) -> bool:
    if isinstance(leaf, Tensor):
        return leaf.is_complex()
    return isinstance(leaf, complex) or (isinstance(leaf, torch.dtype) and leaf.is_complex)


# Parts ----------------------------------------------------------------------------------------------------------------


def _resolved(x: Tensor) -> Tensor:
    """The same numbers without a conjugation that torch has still to do."""
    if x.is_neg() or x.dtype == torch.complex32:
        raise NotImplementedError
    return torch._conj_physical(torch._conj(x)) if x.is_conj() else x


def _flat(x: Tensor) -> Tensor:
    """A complex tensor as a real one, whose last dimension has both parts."""
    return torch.view_as_real(_resolved(x))


def _pair(x: Any, dtype: torch.dtype, device: torch.device) -> Pair:
    """Real and imaginary part of a tensor or number, in a real type."""
    if not isinstance(x, Tensor):
        x = complex(x)
        return tuple(torch.full((), part, dtype=dtype, device=device) for part in (x.real, x.imag))
    if not x.is_complex():
        x = x.to(dtype)
        return x, torch.zeros((), dtype=dtype, device=x.device)
    parts = _flat(x).to(dtype)
    return parts.select(-1, 0), parts.select(-1, 1)


def _pairs(*operands: Any) -> list[Pair]:
    """The parts of operands in the type that they have together."""
    dtype = operands[0].dtype if isinstance(operands[0], Tensor) else None
    device = next(x.device for x in operands if isinstance(x, Tensor))
    common = dtype if len(operands) == 1 else _common(operands)
    return [_pair(x, _PARTS[common], device) for x in operands]


def _common(operands: Sequence[Any]) -> torch.dtype:
    common = operands[0]
    dtype = torch.result_type(common, operands[1])
    for x in operands[2:]:
        dtype = torch.promote_types(dtype, x.dtype if isinstance(x, Tensor) else torch.complex64)
    return dtype


def _stacked(x: Tensor, dtype: torch.dtype) -> Tensor:
    """The parts of a tensor as its last dimension, in a real type."""
    return _flat(x).to(dtype) if x.is_complex() else torch.stack([x.to(dtype), torch.zeros_like(x, dtype=dtype)], -1)


def _made(re: Tensor, im: Tensor) -> Tensor:
    if re.shape != im.shape:
        re, im = torch.broadcast_tensors(re, im)
    return torch.view_as_complex(torch.stack([re, im], -1))


# Views, copies, choices: the real op on the real tensor, whose dimensions are the same from the front -----------------


def _wrapped(dims: Any, rank: int) -> Any:
    """Dimension numbers that count from the front."""
    if isinstance(dims, int):
        return dims % max(rank, 1)
    return [dim % max(rank, 1) for dim in dims]


def _through(change: Callable[..., Any]) -> Callable[..., Any]:
    """A function over the real tensor of the first argument."""

    def function(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        result = change(_flat(x), x.dim(), *args, **kwargs)
        return (
            [torch.view_as_complex(part) for part in result]
            if isinstance(result, list)
            else torch.view_as_complex(result)
        )

    return function


_VIEWS: dict[Op, Callable[..., Any]] = {
    _aten.slice.Tensor: lambda v, rank, dim=0, *bounds: _aten.slice.Tensor(v, _wrapped(dim, rank), *bounds),
    _aten.narrow.default: lambda v, rank, dim, *bounds: v.narrow(_wrapped(dim, rank), *bounds),
    _aten.select.int: lambda v, rank, dim, index: v.select(_wrapped(dim, rank), index),
    _aten.unsqueeze.default: lambda v, rank, dim: v.unsqueeze(_wrapped(dim, rank + 1)),
    _aten.squeeze.dim: lambda v, rank, dim: v.squeeze(_wrapped(dim, rank)) if rank else _aten.alias.default(v),
    _aten.squeeze.dims: lambda v, rank, dims: v.squeeze(_wrapped(dims, rank)) if rank else _aten.alias.default(v),
    _aten.squeeze.default: lambda v, rank: v.squeeze([d for d in range(rank) if v.shape[d] == 1]),
    _aten.transpose.int: lambda v, rank, x, y: (
        v.transpose(_wrapped(x, rank), _wrapped(y, rank)) if rank else _aten.alias.default(v)
    ),
    _aten.permute.default: lambda v, rank, dims: v.permute([*_wrapped(dims, rank), rank]),
    _aten.t.default: lambda v, rank: v.permute([*reversed(range(rank)), rank]),
    _aten.numpy_T.default: lambda v, rank: v.permute([*reversed(range(rank)), rank]),
    _aten.mT.default: lambda v, rank: v.transpose(rank - 2, rank - 1),
    _aten.expand.default: lambda v, rank, sizes, implicit=False: v.expand([*sizes, 2]),
    _aten.view.default: lambda v, rank, sizes: v.view([*sizes, 2]),
    _aten.reshape.default: lambda v, rank, sizes: v.reshape([*sizes, 2]),
    _aten._unsafe_view.default: lambda v, rank, sizes: _aten._unsafe_view.default(v, [*sizes, 2]),
    _aten.alias.default: lambda v, rank: _aten.alias.default(v),
    _aten.detach.default: lambda v, rank: _aten.detach.default(v),
    _aten.diagonal.default: lambda v, rank, offset=0, dim1=0, dim2=1: v.diagonal(
        offset, _wrapped(dim1, rank), _wrapped(dim2, rank)
    ).transpose(-1, -2),
    _aten.unfold.default: lambda v, rank, dim, size, step: v.unfold(_wrapped(dim, rank), size, step).transpose(-1, -2),
    _aten.unbind.int: lambda v, rank, dim=0: list(v.unbind(_wrapped(dim, rank))),
    _aten.split.Tensor: lambda v, rank, size, dim=0: list(v.split(size, _wrapped(dim, rank))),
    _aten.split_with_sizes.default: lambda v, rank, sizes, dim=0: list(v.split_with_sizes(sizes, _wrapped(dim, rank))),
}
_COPIES: dict[Op, Callable[..., Any]] = {
    _aten.clone.default: lambda v, rank, memory_format=None: v.clone(),
    _aten.view_copy.default: lambda v, rank, sizes: v.reshape([*sizes, 2]).clone(),
    _aten.permute_copy.default: lambda v, rank, dims: v.permute([*_wrapped(dims, rank), rank]).clone(),
    _aten.contiguous.default: lambda v, rank, memory_format=None: v.clone(),
    _aten.lift_fresh_copy.default: lambda v, rank: v.clone(),
    _aten.flip.default: lambda v, rank, dims: v.flip(_wrapped(dims, rank)),
    _aten.roll.default: lambda v, rank, shifts, dims=(): (
        v.roll(shifts, _wrapped(dims, rank)) if dims else v.reshape(-1, 2).roll(shifts, [0]).reshape(v.shape)
    ),
    _aten.repeat.default: lambda v, rank, repeats: v.repeat([*repeats, 1]),
    _aten.cumsum.default: lambda v, rank, dim, dtype=None: v.cumsum(_wrapped(dim, rank)),
    _aten.index_select.default: lambda v, rank, dim, index: v.index_select(_wrapped(dim, rank), index),
    _aten.index.Tensor: lambda v, rank, indices: _aten.index.Tensor(v, indices),
    _aten._unsafe_index.Tensor: lambda v, rank, indices: _aten._unsafe_index.Tensor(v, indices),
}
for _op, _change in (_VIEWS | _COPIES).items():
    COMPLEX[_op] = _through(_change)


@_complex(_aten.gather.default)
def _gather(x: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    if not x.dim() or not index.dim():
        return NotImplemented
    places = index.unsqueeze(-1).expand([*index.shape, 2])
    return torch.view_as_complex(_flat(x).gather(_wrapped(dim, x.dim()), places))


@_complex(_aten.cat.default)
def _cat(tensors: Sequence[Tensor], dim: int = 0) -> Any:
    full = [x for x in tensors if not (x.dim() == 1 and x.shape[0] == 0)] or list(tensors)
    dtype = full[0].dtype
    for x in tensors:
        dtype = torch.promote_types(dtype, x.dtype)
    parts = [_stacked(x, _PARTS[dtype]) for x in full]
    return torch.view_as_complex(torch.cat(parts, _wrapped(dim, full[0].dim())))


@_complex(_aten.constant_pad_nd.default)
def _pad(x: Tensor, pad: Sequence[int], value: Any = 0) -> Any:
    if complex(value).imag or not complex(value).real == 0:
        return NotImplemented
    return torch.view_as_complex(_aten.constant_pad_nd.default(_flat(x), [0, 0, *pad], 0.0))


@_complex(_aten.where.self, _aten.where.ScalarOther, _aten.where.ScalarSelf)
def _where(condition: Tensor, x: Any, y: Any) -> Any:
    (xr, xi), (yr, yi) = _pairs(x, y)
    return _made(torch.where(condition, xr, yr), torch.where(condition, xi, yi))


@_complex(_aten.masked_fill.Scalar, _aten.masked_fill.Tensor)
def _masked_fill(x: Tensor, mask: Tensor, value: Any) -> Any:
    (xr, xi), (vr, vi) = _pairs(x, value if isinstance(value, Tensor) else complex(value))
    return _made(torch.where(mask, vr, xr), torch.where(mask, vi, xi))


@_complex(_aten.copy.default)
def _copy(x: Tensor, src: Tensor, non_blocking: bool = False) -> Any:
    if not x.is_complex():
        return NotImplemented
    re, im = _pair(src, _PARTS[x.dtype], x.device)
    parts = torch.stack(torch.broadcast_tensors(re, im), -1)
    return torch.view_as_complex(parts.expand([*x.shape, 2]).clone())


def _written(op: Op, at: int) -> None:
    """Registers an op that writes its argument number `at` into the first."""

    def function(*args: Any, **kwargs: Any) -> Any:
        given = list(args)
        first = given[0]
        source = _pair(given[at], _PARTS[first.dtype], first.device)
        given[0], given[at] = _flat(first), torch.stack(torch.broadcast_tensors(*source), -1)
        if isinstance(given[1], int):
            given[1] = _wrapped(given[1], first.dim())
        return torch.view_as_complex(op(*given, **kwargs))

    COMPLEX[op] = function


for _op, _at in {
    _aten.slice_scatter.default: 1, _aten.select_scatter.default: 1,
    _aten.index_put.default: 2, _aten._unsafe_index_put.default: 2, _aten.index_add.default: 3, _aten.index_copy.default: 3,
}.items():  # fmt: skip
    _written(_op, _at)


# Factories and conversions --------------------------------------------------------------------------------------------


def _full(sizes: Sequence[Any], value: Any, dtype: torch.dtype, device: Any) -> Tensor:
    parts = [torch.full(sizes, part, dtype=_PARTS[dtype], device=device) for part in (value.real, value.imag)]
    return _made(*parts)


def _filled(op: Op, value: complex | None, takes_sizes: bool) -> None:
    def function(x: Tensor, *args: Any, dtype: Any = None, device: Any = None, **kwargs: Any) -> Any:
        dtype = dtype or x.dtype
        if dtype not in _PARTS:
            return NotImplemented
        sizes = args[0] if takes_sizes else x.shape
        return _full(sizes, complex(args[-1]) if value is None else value, dtype, device or x.device)

    COMPLEX[op] = function


for _name, _value in {"zeros": 0j, "ones": 1 + 0j, "full": None}.items():
    _filled(getattr(_aten, f"{_name}_like").default, _value, False)
    _filled(getattr(_aten, f"new_{_name}").default, _value, True)
_filled(_aten.fill.Scalar, None, False)


@_complex(_aten.full.default)
def _full_default(sizes: Sequence[Any], value: Any, *, dtype: Any = None, device: Any = None, **kwargs: Any) -> Any:
    return _full(sizes, complex(value), dtype or torch.complex64, device)


COMPLEX[_aten.zeros.default] = lambda sizes, **kwargs: _full_default(sizes, 0, **kwargs)
COMPLEX[_aten.ones.default] = lambda sizes, **kwargs: _full_default(sizes, 1, **kwargs)


@_complex(_aten._to_copy.default, _aten.to.dtype)
def _to_copy(x: Tensor, dtype: torch.dtype | None = None, *args: Any, device: Any = None, **kwargs: Any) -> Any:
    dtype = dtype or kwargs.get("dtype") or x.dtype
    if device is not None and torch.device(device).type != x.device.type:
        return NotImplemented
    if dtype in _PARTS:
        if x.is_complex():
            return torch.view_as_complex(_flat(x).to(_PARTS[dtype]).clone())
        re = x.to(_PARTS[dtype])
        return _made(re, torch.zeros_like(re))
    if dtype == torch.complex32:
        return NotImplemented
    re, im = _pairs(x)[0]
    return (re != 0) | (im != 0) if dtype == torch.bool else re.to(dtype)


@_complex(_aten.complex.default)
def _of_parts(re: Tensor, im: Tensor) -> Any:
    return NotImplemented if re.dtype == torch.float16 else _made(re, im)


@_complex(_aten.polar.default)
def _polar(size: Tensor, angle: Tensor) -> Tensor:
    return _made(size * torch.cos(angle), size * torch.sin(angle))


@_complex(_aten._conj_physical.default)
def _conj_physical(x: Tensor) -> Any:
    if x.is_conj():
        return torch._conj(x)
    re, im = _pairs(x)[0]
    return _made(re, -im)


# Arithmetic -----------------------------------------------------------------------------------------------------------


def _times(x: Pair, y: Pair) -> Pair:
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


def _over(x: Pair, y: Pair) -> Pair:
    """The quotient, with the larger part of the divisor divided out of it first, as in ATen's vectors."""
    scale = torch.maximum(y[0].abs(), y[1].abs())
    c, d = y[0] / scale, y[1] / scale
    a, b = x[0] / scale, x[1] / scale
    divisor = c * c + d * d
    return (a * c + b * d) / divisor, (b * c - a * d) / divisor


def _scaled(x: Any, alpha: Any) -> Any:
    return x if alpha == 1 else x * alpha


@_complex(_aten.add.Tensor, _aten.add.Scalar)
def _add(x: Tensor, y: Any, alpha: Any = 1) -> Any:
    (a, b), (c, d) = _pairs(x, _scaled(y, alpha))
    return _made(a + c, b + d)


@_complex(_aten.sub.Tensor, _aten.sub.Scalar)
def _sub(x: Tensor, y: Any, alpha: Any = 1) -> Any:
    (a, b), (c, d) = _pairs(x, _scaled(y, alpha))
    return _made(a - c, b - d)


@_complex(_aten.rsub.Tensor, _aten.rsub.Scalar)
def _rsub(x: Tensor, y: Any, alpha: Any = 1) -> Any:
    (a, b), (c, d) = _pairs(_scaled(x, alpha), y)
    return _made(c - a, d - b)


@_complex(_aten.mul.Tensor, _aten.mul.Scalar)
def _mul(x: Tensor, y: Any) -> Any:
    return _made(*_times(*_pairs(x, y)))


@_complex(_aten.div.Tensor, _aten.div.Scalar, _aten.true_divide.Tensor)
def _div(x: Tensor, y: Any) -> Any:
    if not isinstance(y, Tensor) or not y.is_complex():
        (a, b), (c, _) = _pairs(x, y)
        if not isinstance(y, complex):
            return _made(a / c, b / c)
    return _made(*_over(*_pairs(x, y)))


@_complex(_aten.reciprocal.default)
def _reciprocal(x: Tensor) -> Any:
    (c, d) = _pairs(x)[0]
    return _made(*_over((torch.ones_like(c), torch.zeros_like(d)), (c, d)))


@_complex(_aten.rsqrt.default)
def _rsqrt(x: Tensor) -> Any:
    return torch.reciprocal(torch.sqrt(x))


@_complex(_aten.sigmoid.default)
def _sigmoid(x: Tensor) -> Any:
    return torch.reciprocal(torch.exp(-x) + 1)


@_complex(_aten.pow.Tensor_Scalar)
def _pow(x: Tensor, exponent: Any) -> Any:
    return x * x if exponent == 2 else NotImplemented


@_complex(_aten.neg.default)
def _neg(x: Tensor) -> Any:
    return torch.view_as_complex(-_flat(x))


@_complex(_aten.abs.default)
def _abs(x: Tensor) -> Any:
    re, im = _pairs(x)[0]
    return torch.hypot(re, im)


@_complex(_aten.angle.default)
def _angle(x: Tensor) -> Any:
    re, im = _pairs(x)[0]
    return torch.atan2(im, re)


@_complex(_aten.exp.default)
def _exp(x: Tensor) -> Any:
    re, im = _pairs(x)[0]
    size = torch.exp(re)
    return _made(size * torch.cos(im), size * torch.sin(im))


@_complex(_aten.log.default)
def _log(x: Tensor) -> Any:
    re, im = _pairs(x)[0]
    return _made(torch.log(torch.hypot(re, im)), torch.atan2(im, re))


def _logarithm(op: Op, base: float) -> None:
    def function(x: Tensor) -> Any:
        re, im = _pairs(x)[0]
        size, angle = torch.log(torch.hypot(re, im)), torch.atan2(im, re)
        return _made(size / math.log(base), angle / math.log(base))

    COMPLEX[op] = function


_logarithm(_aten.log2.default, 2)
_logarithm(_aten.log10.default, 10)


@_complex(_aten.sqrt.default)
def _sqrt(x: Tensor) -> Any:
    """The root of the mean of |x| and |re|, and its other part by a division (Kahan's form, without his cases of infinities)."""
    re, im = _pairs(x)[0]
    root = torch.sqrt((torch.hypot(re, im) + re.abs()) * 0.5)
    other = torch.where(root == 0, root, im.abs() / (2 * root))
    sign = torch.where(im < 0, -1.0, 1.0).to(im.dtype)
    positive = re >= 0
    return _made(torch.where(positive, root, other), sign * torch.where(positive, other, root))


@_complex(_aten.sin.default)
def _sin(x: Tensor) -> Any:
    re, im = _pairs(x)[0]
    return _made(torch.sin(re) * torch.cosh(im), torch.cos(re) * torch.sinh(im))


@_complex(_aten.cos.default)
def _cos(x: Tensor) -> Any:
    re, im = _pairs(x)[0]
    return _made(torch.cos(re) * torch.cosh(im), -torch.sin(re) * torch.sinh(im))


@_complex(_aten.sinh.default)
def _sinh(x: Tensor) -> Any:
    re, im = _pairs(x)[0]
    return _made(torch.sinh(re) * torch.cos(im), torch.cosh(re) * torch.sin(im))


@_complex(_aten.cosh.default)
def _cosh(x: Tensor) -> Any:
    re, im = _pairs(x)[0]
    return _made(torch.cosh(re) * torch.cos(im), torch.sinh(re) * torch.sin(im))


def _nonzero(x: Any, dtype: torch.dtype, device: torch.device) -> Tensor:
    if isinstance(x, Tensor) and not x.is_complex():
        return x != 0
    re, im = _pair(x, _PARTS[dtype] if dtype.is_complex else torch.float64, device)
    return (re != 0) | (im != 0)


@_complex(_aten.nonzero.default)
def _places(x: Tensor) -> Any:
    return _aten.nonzero.default(_nonzero(x, x.dtype, x.device))


@_complex(_aten.masked_select.default)
def _masked_select(x: Tensor, mask: Tensor) -> Any:
    sizes = torch.broadcast_shapes(x.shape, mask.shape)
    pairs = _flat(x).expand([*sizes, 2]).reshape(-1, 2)
    places = _aten.nonzero.default(mask.expand(sizes).reshape(-1)).squeeze(1)
    return torch.view_as_complex(pairs.index_select(0, places))


@_complex(_aten.logical_not.default)
def _logical_not(x: Tensor) -> Any:
    return ~_nonzero(x, x.dtype, x.device)


def _logical(op: Op, function: Callable[[Tensor, Tensor], Tensor]) -> None:
    COMPLEX[op] = lambda x, y: function(_nonzero(x, x.dtype, x.device), _nonzero(y, y.dtype, y.device))


_logical(_aten.logical_and.default, torch.logical_and)
_logical(_aten.logical_or.default, torch.logical_or)
_logical(_aten.logical_xor.default, torch.logical_xor)


@_complex(_aten.eq.Tensor, _aten.eq.Scalar)
def _eq(x: Tensor, y: Any) -> Any:
    (a, b), (c, d) = _pairs(x, y)
    return (a == c) & (b == d)


@_complex(_aten.ne.Tensor, _aten.ne.Scalar)
def _ne(x: Tensor, y: Any) -> Any:
    (a, b), (c, d) = _pairs(x, y)
    return (a != c) | (b != d)


@_complex(_aten.isnan.default)
def _isnan(x: Tensor) -> Any:
    re, im = _pairs(x)[0]
    return torch.isnan(re) | torch.isnan(im)


@_complex(_aten.isinf.default)
def _isinf(x: Tensor) -> Any:
    re, im = _pairs(x)[0]
    return torch.isinf(re) | torch.isinf(im)


# Reductions and products ----------------------------------------------------------------------------------------------


def _summed(function: Callable[..., Tensor]) -> Callable[..., Any]:
    def parts(x: Tensor, dims: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        if dtype not in (None, x.dtype):
            return NotImplemented
        chosen = _wrapped(dims, x.dim()) if dims else list(range(x.dim()))
        if not x.dim():
            return x.clone()
        return torch.view_as_complex(function(_flat(x), chosen, keepdim=keepdim))

    return parts


for _op in (_aten.sum.default, _aten.sum.dim_IntList):
    COMPLEX[_op] = _summed(torch.sum)
for _op in (_aten.mean.default, _aten.mean.dim):
    COMPLEX[_op] = _summed(torch.mean)


@_complex(_aten.linalg_vector_norm.default)
def _vector_norm(x: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    return NotImplemented if dtype is not None else torch.linalg.vector_norm(x.abs(), ord, dim, keepdim)


@_complex(_aten.var.correction)
def _var(x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    re, im = _pairs(x)[0]
    variances = [torch.var(part, dim, correction=correction, keepdim=keepdim) for part in (re, im)]
    return variances[0] + variances[1]


@_complex(_aten.var_mean.correction)
def _var_mean(x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    return _var(x, dim, correction=correction, keepdim=keepdim), torch.mean(x, dim, keepdim)


for _name in ("any", "all"):
    for _overload in ("default", "dim", "dims"):
        _op = getattr(getattr(_aten, _name), _overload)
        COMPLEX[_op] = lambda x, *args, _op=_op, **kwargs: _op(_nonzero(x, x.dtype, x.device), *args, **kwargs)


def _product(op: Callable[..., Tensor], x: Tensor, y: Tensor) -> Tensor:
    """Four real products."""
    (a, b), (c, d) = _pairs(x, y)
    return _made(op(a, c) - op(b, d), op(a, d) + op(b, c))


for _op in (_aten.mm.default, _aten.bmm.default, _aten.mv.default, _aten.dot.default):
    COMPLEX[_op] = lambda x, y, *, _op=_op, **kwargs: _product(_op, x, y)


@_complex(_aten.vdot.default)
def _vdot(x: Tensor, y: Tensor) -> Any:
    return torch.dot(torch._conj_physical(x), y)


@_complex(_aten.addmm.default, _aten.baddbmm.default)
def _addmm(x: Tensor, y: Tensor, z: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    product = _scaled(torch.bmm(y, z) if y.dim() == 3 else torch.mm(y, z), alpha)
    return product if beta == 0 else product + _scaled(x, beta)


@_complex(_aten.linear.default)
def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    rows = x.reshape(-1, x.shape[-1]) if x.dim() != 2 else x
    result = torch.mm(rows, weight.transpose(0, 1))
    result = result if bias is None else result + bias
    return result if x.dim() == 2 else result.reshape([*x.shape[:-1], weight.shape[0]])


@_complex(_aten.convolution.default)
def _convolution(x: Tensor, weight: Tensor, bias: Tensor | None, *args: Any) -> Any:
    result = _product(lambda p, q: _aten.convolution.default(p, q, None, *args), x, weight)
    return result if bias is None else result + bias.reshape([-1] + [1] * (x.dim() - 2))


def parts_of_complex(op: Op, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What the function of an op gives for a call; `NotImplemented` where it has none for this form."""
    try:
        return COMPLEX[op](*args, **kwargs) if op in COMPLEX else NotImplemented
    except (NotImplementedError, RuntimeError):
        return NotImplemented
