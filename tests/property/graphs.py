# SPDX-License-Identifier: Apache-2.0
"""Random graphs as Python functions over torch.

A graph is text: one line a step, so that what fails can be pasted into a test. The names `f32`, `f64` and `bf16` in it are
dtypes; a reference runs the same text with all of them float64.

Two things are tracked for each value, so that a difference between two right answers does not grow into a wrong one:
`pure`: no rounding has touched it (it may be compared, floored, become an index), and `bound`: its largest magnitude
(what is steep, like exp, takes only what is small).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

FLOATS = ("f32", "f64", "bf16")
DTYPES = {
    "f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "torch.int64": torch.int64, "torch.bool": torch.bool,
}  # fmt: skip
#: Integers up to this are floats of the dtype.
_EXACT = {"f32": 2.0**24, "f64": 2.0**53, "bf16": 2.0**8}
_SMALL = 8.0

Pick = Callable[[int, int], int]  # a number in [low, high]


@dataclass(frozen=True)
class Value:
    """A tensor of the graph."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    pure: bool
    bound: float

    @property
    def count(self) -> int:
        result = 1
        for size in self.shape:
            result *= size
        return result


@dataclass
class Graph:
    """Inputs, one line a step, and the names that are returned."""

    inputs: list[Value] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    seed: int = 0

    def text(self, name: str = "graph", results: list[str] | None = None) -> str:
        """The function; `results` names other values than its outputs."""
        given = ", ".join(value.name for value in self.inputs)
        back = ", ".join(results if results is not None else [value.name for value in self.outputs])
        body = "".join(f"    {line}\n" for line in self.lines)
        return f"def {name}({given}):\n{body}    return {back},\n"

    def function(self, *, double: bool = False, results: list[str] | None = None) -> Callable[..., Any]:
        """The graph to call; `double`: every float type is float64."""
        scope: dict[str, Any] = {"torch": torch}
        for name in FLOATS:
            scope[name] = torch.float64 if double else DTYPES[name]
        exec(self.text(results=results), scope)
        return scope["graph"]

    def tensors(self) -> list[Tensor]:
        """Inputs: uniform numbers, and among them zeros of both signs, ones and halves."""
        generator = torch.Generator().manual_seed(self.seed)
        made = []
        for value in self.inputs:
            if value.dtype == "torch.bool":
                made.append(torch.rand(value.shape, generator=generator) > 0.5)
            elif value.dtype == "torch.int64":
                made.append(torch.randint(-9, 10, value.shape, generator=generator))
            else:
                numbers = torch.rand(value.shape, generator=generator, dtype=torch.float64) * 6 - 3
                special = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, 3.0, -2.0], dtype=torch.float64)
                chosen = special[torch.randint(0, len(special), value.shape, generator=generator)]
                rare = torch.rand(value.shape, generator=generator) < 0.1
                made.append(torch.where(rare, chosen, numbers).to(DTYPES[value.dtype]))
        return made

    def cut(self, value: Value) -> Graph:
        """Only what `value` needs, with it as the only output."""
        needed = {value.name}
        lines = []
        for line in reversed(self.lines):
            name, _, text = line.partition(" = ")
            if name in needed:
                lines.append(line)
                needed |= {other.name for other in self.values if _mentions(text, other.name)}
        kept = [other for other in self.values if other.name in needed]
        return Graph(self.inputs, lines[::-1], kept, [value], self.seed)


def _mentions(text: str, name: str) -> bool:
    import re

    return re.search(rf"\b{name}\b", text) is not None


class Maker:
    """Makes one graph out of picks."""

    def __init__(self, pick: Pick) -> None:
        self._pick = pick
        self.graph = Graph()

    def make(self) -> Graph:
        """A graph of 3 to 30 steps with every value used or returned."""
        graph = self.graph
        graph.seed = self._pick(0, 2**31)
        base = tuple(self._pick(1, 7) if self._pick(0, 19) else 0 for _ in range(self._pick(1, 4)))
        for i in range(self._pick(1, 4)):
            dtype = self._one(("f32", "f32", "f32", "f64", "bf16", "torch.int64", "torch.bool"))
            bound = {"torch.int64": 9.0, "torch.bool": 1.0}.get(dtype, 3.0)
            value = Value(f"x{i}", dtype, self._broadcast_of(base), True, bound)
            graph.inputs.append(value)
            graph.values.append(value)
        wanted = self._pick(3, 30)
        for _ in range(4 * wanted):
            if len(graph.lines) >= wanted:
                break
            self._one(self._KINDS)(self)
        used = " ".join(line.partition(" = ")[2] for line in graph.lines)
        unused = [value for value in graph.values if not _mentions(used, value.name) and value not in graph.inputs]
        graph.outputs = unused or graph.values[-1:]
        return graph

    # Picks -----------------------------------------------------------------------------------------------------------

    def _one(self, items: Any) -> Any:
        return items[self._pick(0, len(items) - 1)]

    def _value(self, *dtypes: str, pure: bool = False, bound: float = float("inf"), rank: int = 0) -> Value | None:
        """A value with these properties; recent ones are likelier."""
        found = [
            value for value in self.graph.values
            if (not dtypes or value.dtype in dtypes) and (value.pure or not pure) and value.bound <= bound
            and len(value.shape) >= rank
        ]  # fmt: skip
        if not found:
            return None
        return found[-1 - self._pick(0, min(3, len(found) - 1))] if self._pick(0, 3) else self._one(found)

    def _broadcast_of(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        sizes = [size if self._pick(0, 3) else 1 for size in shape]
        return tuple(sizes[self._pick(0, len(sizes)) if not self._pick(0, 4) else 0 :])

    def _dim(self, value: Value) -> int:
        return self._pick(0, len(value.shape) - 1)

    def _add(self, text: str, dtype: str, shape: tuple[int, ...], pure: bool, bound: float) -> None:
        if bound > 1e6 or Value("", dtype, shape, pure, bound).count > 3000:
            return
        value = Value(f"v{len(self.graph.lines)}", dtype, tuple(shape), pure, bound)
        self.graph.lines.append(f"{value.name} = {text}")
        self.graph.values.append(value)

    # Steps -----------------------------------------------------------------------------------------------------------

    def _unary(self) -> None:
        exact = (
            ("-{}", lambda b: b), ("{}.abs()", lambda b: b), ("torch.relu({})", lambda b: b),
            ("torch.clamp({}, -1.5, 2.0)", lambda b: min(b, 2.0)),
        )  # fmt: skip
        smooth = (
            ("torch.tanh({})", lambda b: 1.0), ("torch.sigmoid({})", lambda b: 1.0), ("torch.nn.functional.gelu({})", lambda b: b),
            ("torch.nn.functional.silu({})", lambda b: b), ("torch.log1p({}.abs())", lambda b: b),
            ("torch.sqrt({}.abs() + 1)", lambda b: b + 1), ("torch.rsqrt({}.abs() + 1)", lambda b: 1.0),
            ("torch.reciprocal({}.abs() + 1)", lambda b: 1.0), ("{} * 0.75 - 0.5", lambda b: b), ("torch.erf({})", lambda b: 1.0),
            ("torch.nn.functional.softplus({})", lambda b: b + 1),
        )  # fmt: skip
        steep = (
            ("torch.exp({})", lambda b: 2.72**b), ("torch.sin({})", lambda b: 1.0), ("torch.cos({})", lambda b: 1.0),
            ("torch.expm1({})", lambda b: 2.72**b), ("{}.square()", lambda b: b * b),
        )  # fmt: skip
        kind = self._pick(0, 3)
        value = self._value(*FLOATS, bound=_SMALL if kind == 3 else float("inf"))
        if value is None:
            return
        text, bound = self._one(exact if kind == 0 else steep if kind == 3 else smooth)
        self._add(text.format(value.name), value.dtype, value.shape, value.pure and kind == 0, bound(value.bound))

    def _rounding(self) -> None:
        value = self._value(*FLOATS, pure=True)
        if value is not None:
            text = self._one(
                ("torch.floor({})", "torch.ceil({})", "torch.round({})", "torch.trunc({})", "torch.sign({})")
            )
            self._add(text.format(value.name), value.dtype, value.shape, True, value.bound + 1)

    def _integer_unary(self) -> None:
        value = self._value("torch.int64")
        if value is None:
            return
        text, bound = self._one((
            ("-{}", value.bound), ("{}.abs()", value.bound), ("{} // 3", value.bound), ("{} % 5", 5.0), ("~{}", value.bound + 1),
            ("torch.clamp({}, -4, 6)", 6.0), ("{} * 2 + 1", 2 * value.bound + 1), ("torch.fmod({}, 4)", 4.0),
        ))  # fmt: skip
        self._add(text.format(value.name), value.dtype, value.shape, True, bound)

    def _together(self, a: Value, b: Value) -> tuple[int, ...] | None:
        try:
            return tuple(torch.broadcast_shapes(a.shape, b.shape))
        except RuntimeError:
            return None

    def _binary(self) -> None:
        a, b = self._value(*FLOATS, "torch.int64"), self._value(*FLOATS, "torch.int64")
        shape = None if a is None or b is None else self._together(a, b)
        if a is None or b is None or shape is None:
            return
        dtype = self._promoted(a, b)
        ints = dtype == "torch.int64"
        text, bound, keeps = self._one((
            ("{} + {}", a.bound + b.bound, ints), ("{} - {}", a.bound + b.bound, ints), ("{} * {}", a.bound * b.bound, ints),
            ("torch.maximum({}, {})", max(a.bound, b.bound), True), ("torch.minimum({}, {})", max(a.bound, b.bound), True),
            ("{} / ({}.abs() + 1)", a.bound, False),
        ))  # fmt: skip
        if "/" in text and ints:
            return
        same = a.dtype == b.dtype == dtype
        if "maximum" in text or "minimum" in text:
            if not same:
                return
        self._add(text.format(a.name, b.name), dtype, shape, keeps and a.pure and b.pure, bound)

    def _promoted(self, a: Value, b: Value) -> str:
        kinds = {a.dtype, b.dtype}
        for dtype in ("f64", "f32"):
            if dtype in kinds:
                return dtype
        return "bf16" if "bf16" in kinds else "torch.int64"

    def _compare(self) -> None:
        a = self._value(*FLOATS, "torch.int64", pure=True)
        b = None if a is None else self._value(a.dtype, pure=True)
        shape = None if a is None or b is None else self._together(a, b)
        if a is not None and b is not None and shape is not None:
            sign = self._one(("<", "<=", ">", ">=", "==", "!="))
            self._add(f"{a.name} {sign} {b.name}", "torch.bool", shape, True, 1.0)

    def _logic(self) -> None:
        a, b = self._value("torch.bool"), self._value("torch.bool")
        shape = None if a is None or b is None else self._together(a, b)
        if a is not None and b is not None and shape is not None:
            text = self._one(
                ("{} & {}", "{} | {}", "{} ^ {}", "torch.logical_and({}, ~{})", "torch.logical_or({}, {})")
            )
            self._add(text.format(a.name, b.name), "torch.bool", shape, True, 1.0)

    def _where(self) -> None:
        condition, a = self._value("torch.bool"), self._value(*FLOATS, "torch.int64")
        b = None if a is None else self._value(a.dtype)
        if condition is None or a is None or b is None:
            return
        try:
            shape = tuple(torch.broadcast_shapes(condition.shape, a.shape, b.shape))
        except RuntimeError:
            return
        text = f"torch.where({condition.name}, {a.name}, {b.name})"
        self._add(text, a.dtype, shape, a.pure and b.pure, max(a.bound, b.bound))

    def _convert(self) -> None:
        value = self._value()
        target = self._one((*FLOATS, "torch.int64", "torch.bool"))
        if value is None or value.dtype == target:
            return
        if target == "torch.int64" and not value.pure:
            return
        if target == "torch.bool" and not value.pure:
            return
        pure = value.pure
        if target in FLOATS and value.dtype in FLOATS:
            pure = pure and _EXACT[target] >= _EXACT[value.dtype]
        elif target in FLOATS:
            pure = pure and value.bound <= _EXACT[target]
        bound = 1.0 if target == "torch.bool" else value.bound
        self._add(f"{value.name}.to({target})", target, value.shape, pure, bound)

    def _view(self) -> None:
        value = self._value(rank=1)
        if value is None:
            return
        shape, dim = list(value.shape), self._dim(value)
        kind = self._pick(0, 9)
        name = value.name
        if kind == 0:
            order = sorted(range(len(shape)), key=lambda d: (self._pick(0, 9), d))
            text, shape = f"{name}.permute({order})", [shape[d] for d in order]
        elif kind == 1:
            text, shape = f"{name}.reshape(-1)", [value.count]
        elif kind == 2 and len(shape) > 1:
            text, shape = f"{name}.flatten({0}, {1})", [shape[0] * shape[1], *shape[2:]]
        elif kind == 3:
            start, step = self._pick(0, max(0, shape[dim] - 1)), self._pick(1, 3)
            text = f"{name}[{':, ' * dim}{start}::{step}]"
            shape[dim] = len(range(start, shape[dim], step))
        elif kind == 4:
            index = self._pick(0, shape[dim] - 1) if shape[dim] else None
            if index is None:
                return
            text = f"{name}.select({dim}, {index})"
            del shape[dim]
        elif kind == 5:
            text = f"{name}.flip({dim})"
        elif kind == 6:
            text = f"{name}.unsqueeze({dim})"
            shape.insert(dim, 1)
        elif kind == 7 and len(shape) < 4:
            count = self._pick(2, 4)
            text, shape = f"{name}.expand({[count, *shape]})", [count, *shape]
        elif kind == 8:
            before, after = self._pick(0, 2), self._pick(0, 2)
            text = f"torch.nn.functional.pad({name}, ({before}, {after}))"
            if value.dtype == "torch.bool":
                return
            shape[-1] += before + after
        else:
            other = next(
                (
                    v for v in reversed(self.graph.values)
                    if v.dtype == value.dtype and len(v.shape) == len(shape)
                    and all(a == b for d, (a, b) in enumerate(zip(v.shape, shape, strict=True)) if d != dim)
                ), value,
            )  # fmt: skip
            text = f"torch.cat([{name}, {other.name}], {dim})"
            shape[dim] += other.shape[dim]
            self._add(text, value.dtype, tuple(shape), value.pure and other.pure, max(value.bound, other.bound))
            return
        self._add(text, value.dtype, tuple(shape), value.pure, value.bound)

    def _reduce(self) -> None:
        value = self._value(rank=1)
        if value is None:
            return
        shape, dim = list(value.shape), self._dim(value)
        keep = bool(self._pick(0, 1))
        size = shape[dim]
        reduced = [*shape[:dim], *([1] if keep else []), *shape[dim + 1 :]]
        floats = value.dtype in FLOATS
        tail = f"({dim}, keepdim={keep})"
        choices: list[tuple[str, str, list[int], bool, float]] = []
        if value.dtype == "torch.bool":
            choices += [
                (f".any{tail}", "torch.bool", reduced, True, 1.0),
                (f".all{tail}", "torch.bool", reduced, True, 1.0),
            ]
            choices += [(f".sum{tail}", "torch.int64", reduced, True, float(size))]
        else:
            if size:  # of nothing there is no largest
                choices += [
                    (f".{kind}{tail}", value.dtype, reduced, value.pure, value.bound) for kind in ("amax", "amin")
                ]
            choices += [(f".sum{tail}", value.dtype, reduced, value.pure and not floats, value.bound * size)]
            choices += [(f".cumsum({dim})", value.dtype, shape, value.pure and not floats, value.bound * size)]
            if value.pure and size:
                choices += [
                    (f".{kind}{tail}", "torch.int64", reduced, True, float(size)) for kind in ("argmax", "argmin")
                ]
        if floats:
            choices += [(f".mean{tail}", value.dtype, reduced, False, value.bound)]
            choices += [(f".softmax({dim})", value.dtype, shape, False, 1.0)]
            choices += [(f".log_softmax({dim})", value.dtype, shape, False, 2 * value.bound + size)]
            choices += [(".sum()", value.dtype, [], False, value.bound * value.count)]
        text, dtype, made, pure, bound = self._one(choices)
        self._add(value.name + text, dtype, tuple(made), pure, bound)

    def _matmul(self) -> None:
        a = self._value("f32", "f64", rank=2)
        if a is not None and not self._pick(0, 2):
            text = f"{a.name} @ {a.name}.transpose(-1, -2)"
            self._add(text, a.dtype, (*a.shape[:-1], a.shape[-2]), False, a.bound**2 * a.shape[-1])

    _KINDS = (
        _unary, _unary, _unary, _binary, _binary, _binary, _compare, _logic, _where, _convert, _view, _view, _view, _reduce, _reduce,
        _rounding, _integer_unary, _matmul,
    )  # fmt: skip
