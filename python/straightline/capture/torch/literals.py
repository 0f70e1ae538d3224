# SPDX-License-Identifier: Apache-2.0
"""Tensors that a converter knows while it captures, as literals of the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch.utils._python_dispatch import _disable_current_modes

from straightline.capture.builder import Dense, Dim
from straightline.capture.graph_builder import Tensor
from straightline.capture.torch.importer import Importer, bytes_of, torch_dtype

T = TypeVar("T")


@contextmanager
def _outside_of_captures() -> Iterator[None]:
    with torch.no_grad(), _disable_current_modes(), torch.device("cpu"):
        yield


def evaluated(function: Callable[..., T], *args: object) -> T:
    """The result of a function of torch's over real tensors, whatever capture surrounds this one."""
    with _outside_of_captures():
        return function(*args)


def literal(ctx: Importer, value: torch.Tensor, dtype: str | None = None) -> Tensor:
    """A literal with the elements of a tensor on the CPU; one that is expanded where all elements are equal."""
    with _outside_of_captures():
        value = value if dtype is None else value.to(torch_dtype(dtype))
        first = value.reshape(-1)[:1]
        is_splat = bool(value.numel() > 1 and (value == first).all())
        data = bytes_of(first if is_splat else value)
    type = ctx.type_of(value)
    if not is_splat:
        return ctx.constant(Dense(type, data))
    return ctx.expand(ctx.constant(Dense(ctx.type_of(value.new_empty(())), data)), type.extents)


def along(ctx: Importer, vector: torch.Tensor, dtype: str, dim: int, extents: Sequence[Dim]) -> Tensor:
    """A literal vector along one dim of a shape, the same for all places of the others."""
    sides = tuple(vector.shape[0] if d == dim else 1 for d in range(len(extents)))
    return ctx.expand(ctx.reshape(literal(ctx, vector, dtype), sides), extents)
