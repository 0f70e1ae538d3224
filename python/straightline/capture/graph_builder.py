# SPDX-License-Identifier: Apache-2.0
"""What any front end needs to build a graph of the `op` dialect, over the one `Builder`. Knows no framework.

A front end walks its own graph and calls a `GraphBuilder`, which makes types and broadcasting explicit, leaves out what changes
nothing (a cast to the same type), and gives each op the place in the source that it comes from. What a framework means by an op
(its promotion of types, its defaults) is the front end's to know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from straightline.capture.builder import (
    Attr,
    Builder,
    Dense,
    Dim,
    Dims,
    Extent,
    Location,
    Result,
    SizeAdvice,
    TensorType,
    Value,
)
from straightline.capture.extents import evaluated

FLOATS = ("f32", "f64", "f16", "bf16")

#: Ops whose operands have one element type where they are floats.
_ONE_ELEMENT_TYPE = ("linear", "matmul", "convolution", "lstm", "gru", "rnn")

#: Ops with two optional operands or more, which need `operandSegmentSizes`; a single one comes last and needs none.
_SEGMENTED = ("layer_norm", "group_norm", "batch_norm")

#: Ops whose operands are floats, and those of which only the first operands are: how many.
FLOAT_OPERANDS: dict[str, int | None] = {
    **dict.fromkeys(
        """exp expm1 log log1p log2 log10 sqrt rsqrt reciprocal sin cos tan tanh sigmoid erf silu hardsigmoid hardswish
        gelu leaky_relu elu softplus div atan2 special var softmax log_softmax layer_norm rms_norm group_norm
        batch_norm convolution avg_pool2d adaptive_avg_pool2d grid_sampler_2d lstm gru rnn cholesky lu geqrf orgqr
        triangular_solve eigh svd""".split()
    ),
    "scaled_dot_product_attention": 3,
    "grouped_matmul": 2,
    "tree_ensemble": 1,
}  # fmt: skip

#: `end` of a slice that reaches to the end of a dimension.
SLICE_END = 2**63 - 1
#: The `end` of a slice that is as long as its type says.
SLICE_END_BY_TYPE = -(2**63)
#: The `k` of op.topk: all elements of the dim.
TOPK_ALL = -1

#: SL_MAX_RANK of runtime/abi/kernel.h.
MAX_RANK = 8

Number = bool | int | float


class Reject(Exception):
    """A refusal of one form of an op: why, and the nearest supported form if there is one."""

    def __init__(self, reason: str, nearest: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.nearest = nearest


def known(size: Dim) -> int:
    """A size that is a number; one that only a call knows is refused."""
    if not isinstance(size, int):
        raise Reject(f"a size of {size}, which only a call knows", "a constant size")
    return size


def cuts_more(size: Dim, before: int, after: int) -> bool:
    """Whether negative widths (others are borders) cut more off a dim of a known size than it has."""
    return isinstance(size, int) and size + min(before, 0) + min(after, 0) < 0


@dataclass(frozen=True)
class Tensor:
    """A value of the builder together with its type."""

    value: Value
    type: TensorType

    @property
    def dtype(self) -> str:
        """Element type, by its name in the IR."""
        return self.type.dtype

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return self.type.rank

    @property
    def extents(self) -> tuple[Dim, ...]:
        """Sizes."""
        return self.type.extents


def not_of_floats(name: str, operands: Sequence[Tensor | None]) -> Tensor | None:
    """An operand that is not of floats where the op takes floats alone."""
    if name not in FLOAT_OPERANDS:
        return None
    return next((x for x in operands[: FLOAT_OPERANDS[name]] if x is not None and x.dtype not in FLOATS), None)


def of_other_floats(name: str, operands: Sequence[Tensor | None]) -> Tensor | None:
    """An operand whose floats are not those of the first one, where the op takes one element type."""
    if name not in _ONE_ELEMENT_TYPE or operands[0] is None:
        return None
    first = operands[0].dtype
    return next(
        (x for x in operands[1:] if x is not None and {first, x.dtype} <= set(FLOATS) and x.dtype != first), None
    )


def wrap(dim: int, rank: int) -> int:
    """Maps a negative dimension number to its place."""
    return dim + max(rank, 1) if dim < 0 else dim


def slice_bounds(size: Dim, start: Any, end: Any, step: int = 1) -> tuple[int, int]:
    """Bounds as attributes: within [0, size] for a static size, else as they are (negative ones count from the end)."""
    start = 0 if start is None else start
    end = SLICE_END if end is None or end == size else end
    if isinstance(end, Extent) and isinstance(start, int) and start >= 0 and step == 1:
        return start, SLICE_END_BY_TYPE
    for what, bound in (("start", start), ("end", end)):
        if isinstance(bound, Extent):
            raise Reject(f"slice with the dynamic {what} {bound}", f"a constant {what}")
    if isinstance(size, Extent):
        return start, end
    first, last = (min(max(b + size if b < 0 else b, 0), size) for b in (start, end))
    return first, max(first, last)


@dataclass
class GraphBuilder:
    """Builds one function: its symbols and arguments, then its ops, then its results."""

    builder: Builder
    #: Where the ops that follow come from.
    location: Location = field(default_factory=Location)

    # The function -----------------------------------------------------------------------------------------------------

    def begin(
        self, name: str, arguments: Sequence[tuple[str, TensorType]], advice: SizeAdvice | None = None
    ) -> list[Tensor]:
        """Begins the function; symbols are declared before."""
        if advice is not None:
            self.builder.advise(advice)
        values = self.builder.begin_function(name, arguments)
        return [Tensor(value, type) for value, (_, type) in zip(values, arguments)]

    def end(self, results: Sequence[tuple[str, Tensor]]) -> None:
        """Ends the function with named results, none of which overwrites anything."""
        self.builder.end_function([Result(tensor.value, name) for name, tensor in results])

    def parameter(
        self, name: str, type: TensorType, strides: Sequence[Dim] | None = None, op: str = "parameter"
    ) -> Tensor:
        """A tensor that is given by name before the first call; a `state` is one that the function overwrites."""
        attributes: dict[str, Attr] = {"name": name}
        if strides is not None:
            attributes["op.strides"] = Dims(tuple(strides))
        return self.emit_one(op, [], type, attributes)

    def constant(self, value: Dense) -> Tensor:
        """A literal tensor."""
        return self.emit_one("constant", [], value.type, {"value": value})

    # Ops --------------------------------------------------------------------------------------------------------------

    def emit(
        self,
        name: str,
        operands: Sequence[Tensor | None],
        types: Sequence[TensorType],
        attributes: dict[str, Attr] | None = None,
        regions: int = 0,
    ) -> list[Tensor]:
        """Appends `op.NAME`; None operands are absent optional ones.

        Raises:
            Reject: an operand is not of floats and the op takes floats alone, or of others than the first and it takes one type.
        """
        other = not_of_floats(name, operands)
        if other is not None:
            raise Reject(f"{name} of {other.dtype}", "floats")
        other = of_other_floats(name, operands)
        if other is not None and operands[0] is not None:
            raise Reject(f"{name} of {operands[0].dtype} and {other.dtype}", "one element type")
        present = [operand.value for operand in operands if operand is not None]
        segments = [0 if x is None else 1 for x in operands] if name in _SEGMENTED else None
        values = self.builder.op(f"op.{name}", present, types, attributes or {}, self.location, segments, regions)
        return [Tensor(value, type) for value, type in zip(values, types)]

    def emit_one(
        self,
        name: str,
        operands: Sequence[Tensor | None],
        type: TensorType,
        attributes: dict[str, Attr] | None = None,
    ) -> Tensor:
        """As `emit`, for an op with one result."""
        return self.emit(name, operands, [type], attributes)[0]

    @contextmanager
    def region(self, arguments: Sequence[TensorType] = ()) -> Iterator[tuple[list[Tensor], list[Tensor]]]:
        """A region of the next op: yields (its arguments, a list to fill with what it yields)."""
        place = self.location
        values = self.builder.begin_region(arguments)
        yields: list[Tensor] = []
        yield [Tensor(value, type) for value, type in zip(values, arguments)], yields
        self.location = place
        self.builder.end_region([tensor.value for tensor in yields], place)

    # Types and shapes -------------------------------------------------------------------------------------------------

    def cast(self, x: Tensor, dtype: str) -> Tensor:
        """Converts to an element type, if it is another one."""
        if x.dtype == dtype:
            return x
        return self.emit_one("to_dtype", [x], TensorType(dtype, x.extents))

    def expand(self, x: Tensor, extents: Sequence[Dim]) -> Tensor:
        """Broadcasts to a shape, if it is another one."""
        if x.extents == tuple(extents):
            return x
        return self.emit_one("expand", [x], TensorType(x.dtype, tuple(extents)))

    def reshape(self, x: Tensor, extents: Sequence[Dim]) -> Tensor:
        """Reshapes, if the shape is another one."""
        if x.extents == tuple(extents):
            return x
        return self.emit_one("reshape", [x], TensorType(x.dtype, tuple(extents)))

    def permute(self, x: Tensor, dims: Sequence[int]) -> Tensor:
        """Permutes dimensions."""
        type = TensorType(x.dtype, tuple(x.extents[d] for d in dims))
        return self.emit_one("permute", [x], type, {"dims": list(dims)})

    def slice(self, x: Tensor, dim: int, start: int, end: int, extent: Dim, step: int = 1) -> Tensor:
        """A slice of one dimension, whose result has the size `extent` there; no op for a slice of everything."""
        if extent == x.extents[dim] and start == 0 and step == 1:
            return x
        extents = tuple(extent if d == dim else e for d, e in enumerate(x.extents))
        attributes = {"dim": dim, "start": start, "end": end, "step": step}
        return self.emit_one("slice", [x], TensorType(x.dtype, extents), attributes)

    def select(self, x: Tensor, dim: int, index: int) -> Tensor:
        """The entry at one index of a dimension, without that dimension."""
        extents = tuple(e for d, e in enumerate(x.extents) if d != dim)
        return self.emit_one("select", [x], TensorType(x.dtype, extents), {"dim": dim, "index": index})

    def cat(self, parts: Sequence[Tensor], dim: int, type: TensorType) -> Tensor:
        """Tensors joined along a dimension; a copy of a single one."""
        if len(parts) == 1:
            return self.emit_one("clone", parts, type)
        return self.emit_one("cat", parts, type, {"dim": dim})

    def ordered(self, x: Tensor, dim: int, k: Dim, largest: bool) -> list[Tensor]:
        """The first `k` elements along a dimension in their order, and their places (i64); `k` of its own size: a stable sort."""
        extents = tuple(k if d == dim else e for d, e in enumerate(x.extents))
        types = [TensorType(x.dtype, extents), TensorType("i64", extents)]
        return self.emit(
            "topk", [x], types, {"dim": dim, "k": k if isinstance(k, int) else TOPK_ALL, "largest": largest}
        )

    def padded(self, x: Tensor, widths: Sequence[tuple[int, int]], value: Number = 0.0) -> Tensor:
        """The last dimensions with borders of a number, (before, after) each; negative widths cut, and may cut into a border."""
        if not any(n for pair in widths for n in pair):
            return x
        lead = x.rank - len(widths)
        extents = (*x.extents[:lead], *(e + a + b for e, (a, b) in zip(x.extents[lead:], widths)))
        if any(cuts_more(e, a, b) for e, (a, b) in zip(x.extents[lead:], widths)):
            return self.full(value, x.dtype, extents)
        flat = [n for pair in reversed(widths) for n in pair]
        typed = float(value) if x.dtype in FLOATS else int(value)
        return self.emit_one("constant_pad_nd", [x], TensorType(x.dtype, extents), {"pad": flat, "value": typed})

    # Numbers ----------------------------------------------------------------------------------------------------------

    def full(self, value: Number, dtype: str, extents: Sequence[Dim] = ()) -> Tensor:
        """A constant: a 0-d `op.full`, expanded. A bool is whether the number is not 0."""
        typed: Number = float(value) if dtype in FLOATS else int(bool(value) if dtype == "i1" else value)
        scalar = self.emit_one("full", [], TensorType(dtype, ()), {"value": typed})
        return self.expand(scalar, extents)

    def scalar(self, value: Number | Extent, dtype: str) -> Tensor:
        """A 0-d tensor of a number, or of a named extent."""
        if isinstance(value, Extent) and self.may_be_negative(value):
            return self.cast(self.computed(value, lambda name: self.scalar(Extent(name), "i64")), dtype)
        if isinstance(value, Extent):
            # The last of 0, 1, .., value.
            count = TensorType("i64", (value + 1,))
            numbers = self.emit_one("iota", [], count, {"start": 0, "step": 1})
            return self.cast(self.select(numbers, 0, -1), dtype)
        return self.full(value, dtype)

    def may_be_negative(self, value: Extent) -> bool:
        """Whether a number computed from sizes may be below 0, which no size is."""
        return "-" in value.text

    def computed(self, value: Dim, size: Callable[[str], Tensor]) -> Tensor:
        """A number of sizes by ops of 64-bit integers, from 0-d tensors of the sizes by their names."""
        names = {"+": "add", "*": "mul", "floordiv": "floor_divide", "mod": "remainder"}
        type = TensorType("i64", ())
        return evaluated(
            value,
            lambda leaf: size(leaf) if isinstance(leaf, str) else self.scalar(leaf, "i64"),
            lambda operator, x, y: self.emit_one(names[operator], [x, y], type),
        )

    def operand(self, x: Any, type: TensorType) -> Tensor:
        """A tensor or number, cast and broadcast to a type."""
        if not isinstance(x, Tensor):
            x = self.scalar(x, type.dtype)
        return self.expand(self.cast(x, type.dtype), type.extents)

    def reduce(self, name: str, x: Tensor, dims: Sequence[int], keepdim: bool, **attributes: Any) -> Tensor:
        """A reduction over dimensions (`sum`, `amax`, ...); over the one element of a 0-d tensor where it has no dimension."""
        if x.rank == 0:
            one = self.reshape(x, (1,))
            return self.reshape(self.reduce(name, one, [0], True, **attributes), ())
        sizes = ((1 if d in dims else e) for d, e in enumerate(x.extents) if keepdim or d not in dims)
        attributes |= {"dims": list(dims), "keepdim": bool(keepdim)}
        return self.emit_one(name, [x], TensorType(x.dtype, tuple(sizes)), attributes)
