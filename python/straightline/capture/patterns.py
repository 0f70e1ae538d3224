# SPDX-License-Identifier: Apache-2.0
"""Ops that a framework takes apart become ops with kernels again, while a graph is built. Knows no framework.

`Recognizer` is a `GraphBuilder` that notes how each tensor was made. An op that ends a written-out softmax, norm or activation is
emitted as that instead; what it would have read is left without readers, and the compiler drops it. Each step is small: a norm is
found without its weight, and the product with a weight behind it becomes a norm with one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from straightline.capture.builder import Attr, TensorType
from straightline.capture.graph_builder import FLOATS, GraphBuilder, Tensor

#: How far a literal may be from the number that a pattern has, by element type: constants are rounded to it.
_NEAR = {"f64": 1e-6, "f32": 1e-6, "f16": 2.0**-10, "bf16": 2.0**-7}


@dataclass(frozen=True)
class Made:
    """The op that made a tensor."""

    name: str
    operands: tuple[Tensor | None, ...]
    attributes: dict[str, Attr]
    tensor: Tensor


@dataclass
class Recognizer(GraphBuilder):
    """A graph builder that recognises what ends here."""

    _made: dict[int, Made] = field(default_factory=dict)

    def emit(
        self,
        name: str,
        operands: Sequence[Tensor | None],
        types: Sequence[TensorType],
        attributes: dict[str, Attr] | None = None,
        regions: int = 0,
    ) -> list[Tensor]:
        """As `GraphBuilder.emit`."""
        find = _ENDS.get(name)
        if find is not None and types[0].dtype in FLOATS and None not in operands:
            found = find(self, *operands)
            if found is not None and found.type == types[0]:
                return [found]
        results = super().emit(name, operands, types, attributes, regions)
        for result in results:
            self._made[id(result)] = Made(name, tuple(operands), attributes or {}, result)
        return results

    # How a tensor was made --------------------------------------------------------------------------------------------

    def made(self, x: Tensor | None, *names: str) -> Made | None:
        """The op that made x if it is one of these."""
        found = self._made.get(id(x))
        return found if found is not None and found.name in names else None

    def before_views(self, x: Tensor) -> Tensor:
        """What x repeats or reshapes."""
        while (view := self.made(x, "expand", "reshape")) is not None:
            x = view.operands[0]  # type: ignore[assignment]
        return x

    def literal_of(self, x: Tensor | None) -> float | None:
        """The number that all elements of x are."""
        if x is None:
            return None
        full = self.made(self.before_views(x), "full")
        value = full.attributes["value"] if full else None
        return float(value) if isinstance(value, (int, float)) else None

    def is_near(self, x: Tensor | None, value: float) -> bool:
        """Whether x is a literal, close to a number."""
        found = self.literal_of(x)
        return found is not None and x is not None and math.isclose(found, value, rel_tol=_NEAR.get(x.dtype, 0))

    def split(self, name: str, x: Tensor | None) -> list[tuple[Tensor, Tensor]]:
        """The operands of the op that made x, if it is this one, in both orders."""
        found = self.made(x, name)
        if found is None:
            return []
        a, b = found.operands
        assert a is not None and b is not None
        return [(a, b), (b, a)]

    def scaled(self, x: Tensor | None, factor: float) -> Tensor | None:
        """The tensor that x is a literal times, if it is about this one."""
        for literal, other in self.split("mul", x):
            if self.is_near(literal, factor):
                return other
        found = self.made(x, "div")
        return found.operands[0] if found and self.is_near(found.operands[1], 1 / factor) else None

    def plus(self, x: Tensor | None, number: float) -> Tensor | None:
        """The tensor that x is a literal plus."""
        return next((other for literal, other in self.split("add", x) if self.is_near(literal, number)), None)

    def reduced(self, x: Tensor | None, name: str, like: Tensor) -> tuple[Made, list[int]] | None:
        """The reduction of rows of `like` that x repeats along the dims that are reduced, with these dims."""
        if x is None:
            return None
        wide = self.made(x, "expand")
        if wide is None or x.extents != like.extents:
            return None
        row = wide.operands[0]
        assert row is not None
        found = self.made(self.before_views(row), name)
        if found is None:
            return None
        dims: list[int] = list(found.attributes["dims"])  # type: ignore[arg-type]
        source = found.operands[0]
        if source is not None and self.same_rows(source, like) and dims == [source.rank - 1]:
            dims = [like.rank - 1]  # rows with dims of size 1 among those before them, or without
        elif source is None or source.extents != like.extents:
            return None
        kept = tuple(1 if d in dims else e for d, e in enumerate(like.extents))
        if row.extents != kept:
            return None
        return found, dims

    def same_rows(self, x: Tensor, y: Tensor) -> bool:
        """Whether two tensors are one, or reshapes of one that differ in dims of size 1 before the last one."""
        if x is y or not x.rank or not y.rank:
            return x is y
        same = x.extents[-1] == y.extents[-1] and self.before_ones(x) == self.before_ones(y)
        return same and _before_reshapes(self, x) is _before_reshapes(self, y)

    def row_of(self, x: Tensor | None, like: Tensor) -> Tensor | None:
        """The row with a number for each row of `like` (1 where dims are reduced) that x repeats."""
        wide = self.made(x, "expand")
        if wide is None or x is None or x.extents != like.extents:
            return None
        return wide.operands[0]

    def mean_of(self, row: Tensor | None, x_extents: Sequence[Any]) -> tuple[Tensor, list[int]] | None:
        """What a row (dims kept as 1) is the mean of, over which dims: a sum over its count."""
        if row is None:
            return None
        for operand, count in self._quotient(row):
            total = self.made(self.before_views(operand), "sum")
            if total is None:
                continue
            source = total.operands[0]
            assert source is not None
            dims: list[int] = list(total.attributes["dims"])  # type: ignore[arg-type]
            kept = tuple(1 if d in dims else e for d, e in enumerate(source.extents))
            elements = 1
            for d in dims:
                elements = elements * source.extents[d]
            if source.extents != tuple(x_extents) or not isinstance(elements, int) or elements == 0:
                return None
            if self.before_ones(row) != self.before_ones_of(kept) or not math.isclose(count, elements, rel_tol=1e-6):
                return None
            return source, dims
        return None

    def _quotient(self, row: Tensor) -> list[tuple[Tensor, float]]:
        """A tensor and the number that it is divided by, of which row is the quotient."""
        inner = row
        while (view := self.made(inner, "reshape")) is not None:
            inner = view.operands[0]  # type: ignore[assignment]
        found = self.made(inner, "div")
        if found is not None:
            count = self.literal_of(found.operands[1])
            return [(found.operands[0], count)] if count else []  # type: ignore[list-item]
        return [
            (other, 1 / value) for literal, other in self.split("mul", inner) if (value := self.literal_of(literal))
        ]

    @staticmethod
    def before_ones_of(extents: Sequence[Any]) -> tuple[Any, ...]:
        """Sizes without those of 1."""
        return tuple(e for e in extents if e != 1)

    def before_ones(self, row: Tensor) -> tuple[Any, ...]:
        """Sizes of a row without those of 1."""
        return self.before_ones_of(row.extents)

    def trailing(self, dims: list[int], rank: int) -> bool:
        """Whether dims are the last ones."""
        return bool(dims) and dims == list(range(rank - len(dims), rank))


def _softmax(g: Recognizer, e: Tensor, total: Tensor) -> Tensor | None:
    """exp(x - max) / sum(exp(x - max)), with or without the maximum."""
    exponential, sums = g.made(e, "exp"), g.reduced(total, "sum", e)
    if exponential is None or sums is None or sums[0].operands[0] is not e or len(sums[1]) != 1:
        return None
    shifted = exponential.operands[0]
    assert shifted is not None
    x = _without_maximum(g, shifted, sums[1])
    if x is None:
        return None
    return g.emit_one("softmax", [x], x.type, {"dim": sums[1][0]})


def _without_maximum(g: Recognizer, shifted: Tensor, dims: list[int]) -> Tensor | None:
    """X of x - max(x) along these dims."""
    difference = g.made(shifted, "sub")
    if difference is None:
        return None
    x, maximum = difference.operands
    assert x is not None
    largest = g.reduced(maximum, "amax", x)
    source = largest[0].operands[0] if largest is not None else None
    if largest is None or source is None or not g.same_rows(source, x) or largest[1] != dims:
        return None
    return x


def _sigmoid(g: Recognizer, one: Tensor, below: Tensor) -> Tensor | None:
    """1 / (1 + exp(-x))."""
    exponential = g.made(g.plus(below, 1.0), "exp")
    negated = g.made(exponential.operands[0], "neg") if exponential else None
    if negated is None or g.literal_of(one) != 1:
        return None
    x = negated.operands[0]
    assert x is not None
    return g.emit_one("sigmoid", [x], x.type)


def _ends_in_div(g: Recognizer, x: Tensor, y: Tensor) -> Tensor | None:
    found = _softmax(g, x, y) or _sigmoid(g, x, y)
    if found is None and (root := g.made(g.before_views(y), "sqrt")) is not None:
        found = _norm(g, x, y, root)
    return found


def _log_softmax(g: Recognizer, shifted: Tensor, total: Tensor) -> Tensor | None:
    """X - max - log(sum(exp(x - max)))."""
    logarithm = g.made(g.before_views(total), "log")
    if logarithm is None or total.extents != shifted.extents:
        return None
    operand = logarithm.operands[0]
    assert operand is not None
    sums = g.made(g.before_views(operand), "sum")
    exponential = g.made(sums.operands[0], "exp") if sums else None
    if sums is None or exponential is None or exponential.operands[0] is not shifted:
        return None
    dims: list[int] = list(sums.attributes["dims"])  # type: ignore[arg-type]
    row = g.row_of(total, shifted)
    kept = tuple(1 if d in dims else e for d, e in enumerate(shifted.extents))
    x = _without_maximum(g, shifted, dims)
    if x is None or row is None or row.extents != kept or len(dims) != 1:
        return None
    return g.emit_one("log_softmax", [x], x.type, {"dim": dims[0]})


def _norm(g: Recognizer, centred: Tensor, divisor: Tensor, root: Made) -> Tensor | None:
    """(x - mean) / sqrt(var + eps), or x / sqrt(mean(x * x) + eps); `divisor` repeats what `root` made."""
    row = g.row_of(divisor, centred)
    shifted = root.operands[0]
    if row is None or shifted is None:
        return None
    for eps, average in [(n, o) for literal, o in g.split("add", shifted) if (n := g.literal_of(literal)) is not None]:
        found = _layer_norm(g, centred, average, row, eps) or _rms_norm(g, centred, average, row, eps)
        if found is not None:
            return found
    return None


def _fits_rows(g: Recognizer, row: Tensor, x: Tensor, dims: list[int]) -> bool:
    return row.extents == tuple(1 if d in dims else e for d, e in enumerate(x.extents)) and g.trailing(dims, x.rank)


def _layer_norm(g: Recognizer, centred: Tensor, variance: Tensor, row: Tensor, eps: float) -> Tensor | None:
    difference = g.made(centred, "sub")
    if difference is None:
        return None
    x, mean = difference.operands
    assert x is not None and mean is not None
    average = g.mean_of(g.row_of(mean, x), x.extents)
    if average is None or average[0] is not x or not _fits_rows(g, row, x, average[1]):
        return None
    dims = average[1]
    squares = g.mean_of(variance, x.extents)
    if not (squares and squares[1] == dims and _is_square(g, squares[0], lambda y: _is_centred(g, y, x, dims))):
        if not _is_fast_variance(g, variance, x, dims):
            return None
    return g.emit_one("layer_norm", [x, None, None], x.type, {"normalized_rank": len(dims), "eps": eps})


def _is_centred(g: Recognizer, y: Tensor, x: Tensor, dims: list[int]) -> bool:
    """Whether y is x less its mean over these dims."""
    difference = g.made(y, "sub")
    if difference is None or difference.operands[0] is not x:
        return False
    average = g.mean_of(g.row_of(difference.operands[1], x), x.extents)
    return average is not None and average[0] is x and average[1] == dims


def _is_square(g: Recognizer, y: Tensor, of: Any) -> bool:
    """Whether y is the square of a tensor that `of` takes."""
    product = g.made(y, "mul")
    if product is None:
        return False
    a, b = product.operands
    assert a is not None and b is not None
    return (a is b and of(a)) or (of(a) and of(b) and _same(g, a, b))


def _same(g: Recognizer, a: Tensor, b: Tensor) -> bool:
    """Whether two tensors were made by the same op of the same operands."""
    x, y = g._made.get(id(a)), g._made.get(id(b))
    if a is b or x is None or y is None:
        return a is b
    if (x.name, x.attributes, len(x.operands)) != (y.name, y.attributes, len(y.operands)) or not x.operands:
        return False
    return all(p is not None and q is not None and _same(g, p, q) for p, q in zip(x.operands, y.operands))


def _is_fast_variance(g: Recognizer, variance: Tensor, x: Tensor, dims: list[int]) -> bool:
    """Whether it is mean(x * x) - mean(x) * mean(x), perhaps not below 0."""
    inner = variance
    for literal, other in g.split("maximum", variance):
        if g.literal_of(literal) == 0:
            inner = other
    if (clipped := g.made(variance, "relu")) is not None:
        inner = clipped.operands[0]  # type: ignore[assignment]
    difference = g.made(_before_reshapes(g, inner), "sub")
    if difference is None:
        return False
    squares, product = difference.operands
    first = g.mean_of(squares, x.extents)
    if not (first and first[1] == dims and _is_square(g, first[0], lambda y: y is x)):
        return False

    def is_mean(y: Tensor) -> bool:
        average = g.mean_of(y, x.extents)
        return average is not None and average[0] is x and average[1] == dims

    return product is not None and _is_square(g, product, is_mean)


def _before_reshapes(g: Recognizer, x: Tensor) -> Tensor:
    """What x reshapes."""
    while (view := g.made(x, "reshape")) is not None:
        x = view.operands[0]  # type: ignore[assignment]
    return x


def _rms_norm(g: Recognizer, x: Tensor, average: Tensor, row: Tensor, eps: float) -> Tensor | None:
    squares = g.mean_of(average, x.extents)
    if squares is None or not _fits_rows(g, row, x, squares[1]) or not _is_square(g, squares[0], lambda y: y is x):
        return None
    return g.emit_one("rms_norm", [x, None], x.type, {"normalized_rank": len(squares[1]), "eps": eps})


def _weight_of(g: Recognizer, x: Tensor, rank: int, like: Tensor) -> Tensor | None:
    """A tensor of the last `rank` sizes of `like` that x repeats over the other dims."""
    last = like.extents[like.rank - rank :]
    if x.extents != like.extents:
        return None
    wide = g.made(x, "expand")
    row = wide.operands[0] if wide else x
    assert row is not None
    if g.before_ones_of(row.extents[: row.rank - rank]) != () or row.extents[max(row.rank - rank, 0) :] != last:
        return None
    return g.reshape(row, last)


def _ends_in_mul(g: Recognizer, x: Tensor, y: Tensor) -> Tensor | None:
    for a, b in ((x, y), (y, x)):
        found = _scaled_by_root(g, a, b) or _weighted(g, a, b) or _silu(g, a, b) or _gelu(g, a, b)
        if found is not None:
            return found
    return None


def _scaled_by_root(g: Recognizer, centred: Tensor, factor: Tensor) -> Tensor | None:
    """Times 1 / sqrt(..), of which the factor may be a product with a weight."""
    root = g.made(g.before_views(factor), "rsqrt")
    if root is not None:
        return _norm(g, centred, factor, root)
    for inverse, weight in g.split("mul", factor):
        root = g.made(g.before_views(inverse), "rsqrt")
        if root is None:
            continue
        plain = _norm(g, centred, inverse, root)
        if plain is not None:
            return _weighted(g, plain, weight)
    return None


def _weighted(g: Recognizer, norm: Tensor, weight: Tensor) -> Tensor | None:
    found = g.made(norm, "layer_norm", "rms_norm")
    if found is None or found.operands[1] is not None or (found.name == "layer_norm" and found.operands[2] is not None):
        return None
    row = _weight_of(g, weight, int(found.attributes["normalized_rank"]), norm)  # type: ignore[call-overload]
    if row is None:
        return None
    operands = [found.operands[0], row, None] if found.name == "layer_norm" else [found.operands[0], row]
    return g.emit_one(found.name, operands, norm.type, found.attributes)


def _silu(g: Recognizer, x: Tensor, gate: Tensor) -> Tensor | None:
    sigmoid = g.made(gate, "sigmoid")
    return g.emit_one("silu", [x], x.type) if sigmoid is not None and sigmoid.operands[0] is x else None


def _gelu(g: Recognizer, a: Tensor, b: Tensor) -> Tensor | None:
    """X * 0.5 * (1 + erf(x / sqrt(2))), the same by erfc(-x / sqrt(2)), or by tanh, in any order of the three factors."""
    for x, factor in ((g.scaled(a, 0.5), b), (a, g.scaled(b, 0.5))):
        if x is None or factor is None:
            continue
        kind = _gelu_factor(g, factor, x)
        if kind is not None:
            return g.emit_one("gelu", [x], x.type, {"approximate": kind})
    half = g.split("mul", a)
    for x, factor in half:  # (x * factor) * 0.5
        kind = _gelu_factor(g, factor, x) if g.is_near(b, 0.5) else None
        if kind is not None:
            return g.emit_one("gelu", [x], x.type, {"approximate": kind})
    return None


def _gelu_factor(g: Recognizer, factor: Tensor, x: Tensor) -> str | None:
    """What `approximate` is where a factor is 1 + erf(x / sqrt(2)), or the approximation of that by tanh."""
    complement = g.made(factor, "special")
    if complement is not None and complement.attributes.get("function") == "erfc":
        inner = complement.operands[0]
        negated = g.scaled(inner, math.sqrt(0.5))
        source = g.made(negated, "neg")
        whole = g.made(inner, "neg")
        if source is not None and source.operands[0] is x:
            return "none"
        if whole is not None and g.scaled(whole.operands[0], math.sqrt(0.5)) is x:
            return "none"
        return "none" if g.scaled(inner, -math.sqrt(0.5)) is x else None
    above = g.plus(factor, 1.0)
    error = g.made(above, "erf")
    if error is not None:
        return "none" if g.scaled(error.operands[0], math.sqrt(0.5)) is x else None
    tangent = g.made(above, "tanh")
    if tangent is None:
        return None
    inner = g.scaled(tangent.operands[0], math.sqrt(2 / math.pi))
    for cube, other in g.split("add", inner):
        if other is x and (power := g.scaled(cube, 0.044715)) is not None and _is_cube(g, power, x):
            return "tanh"
    return None


def _is_cube(g: Recognizer, y: Tensor, x: Tensor) -> bool:
    power = g.made(y, "pow")
    if power is not None:
        return power.operands[0] is x and g.is_near(power.operands[1], 3.0)
    return any(b is x and _is_square(g, a, lambda t: t is x) for a, b in g.split("mul", y))


def _ends_in_add(g: Recognizer, x: Tensor, y: Tensor) -> Tensor | None:
    """A bias behind a layer norm with a weight."""
    for norm, bias in ((x, y), (y, x)):
        found = g.made(norm, "layer_norm")
        if found is None or found.operands[1] is None or found.operands[2] is not None:
            continue
        row = _weight_of(g, bias, int(found.attributes["normalized_rank"]), norm)  # type: ignore[call-overload]
        if row is not None:
            return g.emit_one("layer_norm", [*found.operands[:2], row], norm.type, found.attributes)
    return None


_ENDS = {"div": _ends_in_div, "sub": _log_softmax, "mul": _ends_in_mul, "add": _ends_in_add}
