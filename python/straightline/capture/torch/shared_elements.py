# SPDX-License-Identifier: Apache-2.0
"""Writes through `expand`: which view of a memory holds, once each, the elements that an expanded view holds several times.

A dimension of an expanded view is *own* (its elements are different elements of memory) or *shared* (all elements along it are
the same element). A selection or a slice along a shared dimension chooses among equal elements, so the view without repeated
elements has no such dimension and leaves these ops out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from straightline.capture.graph_builder import Reject
from straightline.capture.torch.views import SAME, SHAPES, Op, named_arguments, op_name, same_sizes

_aten = torch.ops.aten

#: Ops that eager lets overwrite elements that share memory, and that give one value to all elements that they overwrite.
ONE_VALUE = frozenset((
    _aten.fill_.Scalar, _aten.zero_.default, _aten.masked_fill_.Scalar, _aten.masked_fill_.Tensor,
    _aten.index_fill_.int_Scalar, _aten.index_fill_.int_Tensor, _aten.index_put_.default,
))  # fmt: skip
#: Ops that eager lets do so as well, whose result depends on the order in which eager writes.
_LAST_VALUE = frozenset((
    _aten.index_put_.default, _aten.fill_diagonal_.default, _aten.tril_.default, _aten.triu_.default,
    _aten.threshold_.default, _aten.baddbmm_.default, _aten.addmv_.default, _aten.conj_physical_.default,
))  # fmt: skip


def has_shared_elements(x: torch.Tensor) -> bool:
    """Whether elements of a (fake) tensor share memory, by the rule by which eager refuses to overwrite it."""
    if statically_known_true(x.numel() == 0):
        return False
    return any(
        isinstance(stride, int) and stride == 0 and not statically_known_true(size <= 1)
        for size, stride in zip(x.shape, x.stride())
    )


def is_refused_by_eager(op: Op, x: torch.Tensor) -> bool:
    """Whether eager refuses to overwrite `x`, which has shared elements, by this op.

    Eager does not check what custom ops overwrite, and checks only some ops with `out`, which export has refused before.
    """
    is_unchecked = op in _LAST_VALUE or op in ONE_VALUE or "out" in op._overloadname
    is_same = op is _aten.nan_to_num_.default and not x.dtype.is_floating_point
    return op.namespace == "aten" and not is_unchecked and not is_same


class Viewed(Protocol):
    """A tensor with the sizes of `fake`."""

    fake: torch.Tensor


class DistinctView:
    """The view `base` of a memory that has each element of an expanded view once.

    `dims` has for each dimension of the expanded view its dimension in `base`, None for a shared one.

    Args:
        whole: the memory.
        apply: calls an op that makes a view: (op, view, arguments behind it) -> view.
    """

    def __init__(self, whole: Viewed, apply: Callable[..., Viewed]) -> None:
        self.base = whole
        self.dims: list[int | None] = list(range(whole.fake.dim()))
        self._apply = apply

    def follow(
        self, op: Op, rest: Sequence[Any], kwargs: Mapping[str, Any], whole: torch.Tensor, view: torch.Tensor
    ) -> None:
        """Goes on from `whole` to `view`, which is op(whole, *rest, **kwargs).

        Raises:
            Reject: what the op makes of an expanded tensor is not known here.
        """
        name, a = op_name(op), named_arguments(op, (None, *rest), kwargs)
        rank = whole.dim()
        if name == "expand":
            self._expand(whole.shape, view.shape)
        elif name == "view" and "dtype" in a:
            if whole.dtype.itemsize != view.dtype.itemsize:
                raise _unknown(op)
            self.base = self._apply(op, self.base, view.dtype)
        elif name in SHAPES:
            self._reshape(op, whole.shape, view.shape)
        elif name == "permute":
            self.dims = [self.dims[dim] for dim in a["dims"]]
        elif name in ("transpose", "t") and rank:
            i, j = (a["dim0"], a["dim1"]) if name == "transpose" else (0, rank - 1)
            self.dims[i], self.dims[j] = self.dims[j], self.dims[i]
        elif name == "select":
            self._select(a["dim"] % rank, a["index"])
        elif name == "slice":
            own = self.dims[a["dim"]]
            if own is not None:
                self.base = self._apply(op, self.base, own, a["start"], a["end"], a["step"])
        elif name == "diagonal":
            self._diagonal(op, a["offset"], a["dim1"] % rank, a["dim2"] % rank, view.shape[-1])
        elif name == "as_strided" and self.dims == [0] and not has_shared_elements(view):
            self.base = self._apply(op, self.base, a["size"], a["stride"], a["storage_offset"])
            self.dims = list(range(view.dim()))
        elif name not in SAME:
            raise _unknown(op)

    def values(self, new: Viewed) -> Viewed:
        """Returns values for `base` from `new`, which has one for each element of the expanded view.

        Of the elements that share memory, those at the start of each shared dimension count.

        Raises:
            Reject: a shared dimension may have no elements.
        """
        for dim in reversed(range(len(self.dims))):
            if self.dims[dim] is None:
                if not statically_known_true(new.fake.shape[dim] >= 1):
                    raise Reject(
                        f"a write to {new.fake.shape[dim]} elements that share memory, which may be none",
                        "a write to the tensor that is expanded",
                    )
                new = self._apply(_aten.select.int, new, dim, 0)
        return self._in_order(new)

    def any(self, flags: Viewed) -> Viewed:
        """Returns, of `flags` for the elements of the expanded view, flags for `base`.

        An element of `base` has the flag if any of the elements that share its memory has it.
        """
        for dim in reversed(range(len(self.dims))):
            if self.dims[dim] is None:
                flags = self._apply(_aten.any.dim, flags, dim)
        return self._in_order(flags)

    def _in_order(self, x: Viewed) -> Viewed:
        """`x`, which has the own dimensions in the order of the expanded view, in the order of `base`."""
        own = [dim for dim in self.dims if dim is not None]
        order = [own.index(dim) for dim in range(len(own))]
        return x if order == sorted(order) else self._apply(_aten.permute.default, x, order)

    def _select(self, place: int, index: Any) -> None:
        """Removes a dimension of the expanded view; of an own one an element is left."""
        own = self.dims.pop(place)
        if own is not None:
            self.base = self._apply(_aten.select.int, self.base, own, index)
            self.dims = [dim if dim is None or dim < own else dim - 1 for dim in self.dims]

    def _share(self, place: int) -> None:
        """Makes an own dimension of one element a shared one."""
        self._select(place, 0)
        self.dims.insert(place, None)

    def _expand(self, before: Sequence[Any], after: Sequence[Any]) -> None:
        lead = len(after) - len(before)
        for place, size in enumerate(before):
            if not same_sizes([size], [after[lead + place]]):
                self._share(place)
        self.dims = [None] * lead + self.dims

    def _diagonal(self, op: Op, offset: int, dim1: int, dim2: int, length: Any) -> None:
        own1, own2 = self.dims[dim1], self.dims[dim2]
        left = [dim for place, dim in enumerate(self.dims) if place not in (dim1, dim2)]
        if own1 is not None and own2 is not None:
            self.base = self._apply(op, self.base, offset, own1, own2)
            left = [None if dim is None else dim - (dim > own1) - (dim > own2) for dim in left]
            self.dims = [*left, self.base.fake.dim() - 1]
            return
        own = own1 if own2 is None else own2
        if own is not None:
            start = max(0, -offset if own2 is None else offset)
            self.base = self._apply(_aten.slice.Tensor, self.base, own, start, start + length)
        self.dims = [*left, own]

    def _reshape(self, op: Op, before: Sequence[Any], after: Sequence[Any]) -> None:
        """Follows a change of shape: in each group of dimensions that it joins or divides all are own, or all are shared."""
        for place, size in enumerate(before):
            if self.dims[place] is not None and statically_known_true(size == 1):
                self._share(place)
        dims: list[int | None] = [None] * len(after)
        own: list[int] = []
        sizes: list[Any] = []
        is_kept = True
        for old, new in _groups(op, before, after):
            taken = [dim for place in old if (dim := self.dims[place]) is not None]
            if not taken:
                continue
            if len(taken) < len(old):
                raise _unknown(op)
            is_kept = is_kept and len(old) == len(new) == 1
            own += taken
            sizes += [after[place] for place in new]
            for place in new:
                dims[place] = taken[0]
        if not is_kept:
            self.base = self._apply(_aten.permute.default, self.base, own)
            self.base = self._apply(_aten.view.default, self.base, sizes)
            numbers = iter(range(len(sizes)))
            dims = [None if dim is None else next(numbers) for dim in dims]
        self.dims = dims


def _groups(op: Op, before: Sequence[Any], after: Sequence[Any]) -> list[tuple[list[int], list[int]]]:
    """The dimensions of two shapes, without those of size 1, in the smallest groups that have as many elements in both."""
    old = [place for place, size in enumerate(before) if not statically_known_true(size == 1)]
    new = [place for place, size in enumerate(after) if not statically_known_true(size == 1)]
    groups = []
    i = j = 0
    while i < len(old) and j < len(new):
        first, second, x, y = i, j, before[old[i]], after[new[j]]
        i, j = i + 1, j + 1
        while not statically_known_true(x == y):
            if i < len(old) and statically_known_true(x < y):
                x, i = x * before[old[i]], i + 1
            elif j < len(new) and statically_known_true(y < x):
                y, j = y * after[new[j]], j + 1
            else:
                raise _unknown(op)
        groups.append((old[first:i], new[second:j]))
    if i < len(old) or j < len(new):
        raise _unknown(op)
    return groups


def _unknown(op: Op) -> Reject:
    return Reject(
        f"a write to a view that {op} made of a tensor whose elements share memory (expand)", "a write to its clone"
    )
