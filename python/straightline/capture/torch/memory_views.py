# SPDX-License-Identifier: Apache-2.0
"""`as_strided` of memory whose layout is known: which elements of the memory, in the order in which they lie, it reads."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch

from straightline.capture.builder import TensorType
from straightline.capture.graph_builder import Reject, Tensor, known
from straightline.capture.torch.importer import Arguments, Importer, converter
from straightline.capture.torch.literals import evaluated, literal
from straightline.capture.torch.views import Op, op_name

_aten = torch.ops.aten
#: Ops that read, or write a copy of, the memory of their argument.
NAMES = ("as_strided", "as_strided_copy", "as_strided_scatter")
_NEAREST = "a tensor of known sizes without gaps or shared elements"


#: Where the memory ends that a graph knows of, in elements, by the storage of (fake) tensors; any other is known to its end. An
#: example may be a view of more than its graph has.
ends: ContextVar[Callable[[], Mapping[int, Any]]] = ContextVar("ends", default=dict)


@contextmanager
def memory_ends(of_block: Callable[[], Mapping[int, Any]]) -> Iterator[None]:
    """A block with these ends, for this thread."""
    token = ends.set(of_block)
    try:
        yield
    finally:
        ends.reset(token)


def reads_memory(op: Any) -> bool:
    """Whether an op reads memory by strides of its own."""
    return isinstance(op, torch._ops.OpOverload) and op.namespace == "aten" and op_name(op) in NAMES


def order_in_memory(x: torch.Tensor) -> list[int]:
    """The dims of a (fake) tensor from that of the largest stride to that of the smallest: permuted so, it is contiguous.

    Raises:
        Reject: Its elements are not, each once, all that lies between its first and its last, or a size is a named one.
    """
    if not all(isinstance(n, int) for n in (*x.shape, *x.stride())):
        raise Reject("memory that is read by strides and has sizes with names", _NEAREST)
    order = sorted(range(x.dim()), key=lambda dim: (-x.stride(dim), dim))
    dense = 1
    for dim in reversed(order):
        if x.shape[dim] != 1 and x.stride(dim) != dense:
            raise Reject("memory that is read by strides and has gaps or shared elements", _NEAREST)
        dense *= x.shape[dim]
    return order


@dataclass(frozen=True)
class Places:
    """Which elements of a contiguous vector `as_strided` reads: `offset` counts from its first."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    @staticmethod
    def of(size: Sequence[Any], stride: Sequence[Any], offset: Any, count: int) -> Places:
        """Those of one call over a vector of `count` elements.

        Raises:
            Reject: One lies outside, or is known only in a call.
        """
        if not all(isinstance(n, int) for n in (*size, *stride, offset)):
            raise Reject("as_strided with sizes that are known only in a call", _NEAREST)
        last = offset + sum((n - 1) * step for n, step in zip(size, stride))
        if math.prod(size) and not 0 <= offset <= last < count:
            raise Reject(
                f"as_strided of elements {offset} to {last} of {count}", "places inside of what the model can see"
            )
        return Places(tuple(size), tuple(stride), offset)

    @property
    def is_dense(self) -> bool:
        """Whether elements that follow each other in memory are read, each once, in that order."""
        dense = 1
        for n, step in zip(reversed(self.size), reversed(self.stride)):
            if n != 1 and step != dense:
                return False
            dense *= n
        return True

    def run(self, count: int) -> int:
        """So many elements that follow each other in memory are read together, each time from a multiple of their number."""
        if not self.size or self.stride[-1] != 1:
            return 1
        return math.gcd(self.size[-1], self.offset, count, *self.stride[:-1])

    def rows(self, run: int) -> torch.Tensor:
        """The numbers of the runs of `run` elements that are read, in order."""
        place = torch.tensor(self.offset // run)
        for dim, (n, step) in enumerate(zip(self.size, self.stride)):
            is_inner = run > 1 and dim == len(self.size) - 1
            n, step = (n // run, 1) if is_inner else (n, step // run)
            place = place[..., None] + torch.arange(n) * step
        return place.reshape(-1)


def flattened(x: Any, apply: Callable[..., Any]) -> Any:
    """The elements of a dense tensor as a vector, in the order in which they lie.

    Args:
        x: With a `fake` of its layout.
        apply: (op, x, arguments behind it) -> the view that the op makes.
    """
    order = order_in_memory(x.fake)
    if order != list(range(len(order))):
        x = apply(_aten.permute.default, x, order)
    return x if x.fake.dim() == 1 else apply(_aten.view.default, x, [x.fake.numel()])


def restored(vector: Any, x: torch.Tensor, apply: Callable[..., Any]) -> Any:
    """The tensor of the sizes of `x` whose elements `flattened` gave."""
    order = order_in_memory(x)
    vector = apply(_aten.view.default, vector, [x.shape[dim] for dim in order])
    return apply(_aten.permute.default, vector, [order.index(dim) for dim in range(len(order))])


@dataclass(frozen=True)
class MemoryRead:
    """A call of `as_strided`, `as_strided_copy` or `as_strided_scatter`; `given` has its arguments by name."""

    op: Op
    given: dict[str, Any]

    def call(self, vector: torch.Tensor, begin: int) -> tuple[Op, tuple[Any, ...]]:
        """The call over a (fake) vector of the memory's elements, which begins at `begin`: op, arguments behind the vector."""
        given = self.given
        asked = given["storage_offset"]
        if asked is None:
            asked = begin if self.is_scatter else given["self"].fake.storage_offset()
        places = Places.of(given["size"], given["stride"], asked - begin, vector.numel())
        op = _aten.as_strided_scatter.default if self.is_scatter else _aten.as_strided.default
        rest = (list(places.size), list(places.stride), places.offset)
        return op, (given["src"], *rest) if self.is_scatter else rest

    @property
    def is_scatter(self) -> bool:
        """Whether it gives a copy of all that the tensor views, with new values at some places."""
        return op_name(self.op) == "as_strided_scatter"

    @property
    def is_view(self) -> bool:
        """Whether its result shares the memory."""
        return op_name(self.op) == "as_strided"


def _vector(ctx: Importer, x: Tensor, places: Places) -> tuple[Tensor, Tensor, int]:
    """The vector as runs, the numbers of those that are read, and how many elements one has."""
    count = known(x.extents[0])
    run = places.run(count)
    return ctx.reshape(x, (count // run, run)), literal(ctx, evaluated(places.rows, run)), run


@converter("aten.as_strided.default")
def _as_strided(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    """Over a contiguous vector: that is how graphs of values have it."""
    places = Places.of(a.size, a.stride, a.storage_offset, known(a.self.extents[0]))
    if not math.prod(places.size):
        return ctx.reshape(ctx.slice(a.self, 0, 0, 0, 0), places.size)
    if places.is_dense:
        count = math.prod(places.size)
        return ctx.reshape(ctx.slice(a.self, 0, places.offset, places.offset + count, count), places.size)
    rows, numbers, run = _vector(ctx, a.self, places)
    type = TensorType(rows.dtype, (numbers.extents[0], run))
    return ctx.reshape(ctx.emit_one("index_select", [rows, numbers], type, {"dim": 0}), places.size)


@converter("aten.as_strided_scatter.default")
def _as_strided_scatter(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    places = Places.of(a.size, a.stride, a.storage_offset, known(a.self.extents[0]))
    if not math.prod(places.size):
        return a.self
    rows, numbers, run = _vector(ctx, a.self, places)
    source = ctx.reshape(a.src, (known(numbers.extents[0]), run))
    index = ctx.expand(ctx.reshape(numbers, (numbers.extents[0], 1)), source.extents)
    written = ctx.emit_one("scatter", [rows, index, source], rows.type, {"dim": 0, "reduce": "none"})
    return ctx.reshape(written, a.self.extents)
