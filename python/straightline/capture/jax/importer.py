# SPDX-License-Identifier: Apache-2.0
"""Ops of a StableHLO module as ops of the `op` dialect: the walk, the table of converters."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from straightline.capture.builder import Dense, Dim, Location, TensorType
from straightline.capture.extents import bounds
from straightline.capture.graph_builder import FLOATS, SLICE_END, SLICE_END_BY_TYPE, Number, Reject, Tensor
from straightline.capture.jax import values as v
from straightline.capture.jax.values import Known, Value
from straightline.capture.patterns import Recognizer

#: Converters by an op's name without `stablehlo.`, or with its dialect: "add", "chlo.erf".
CONVERTERS: dict[str, Callable[..., Any]] = {}
#: What converts ops of complex numbers.
COMPLEX: list[Callable[[Importer, Op], list[Value]]] = []
#: Ops that hold others, or give what they take.
_HOLDS = frozenset("func.call call composite while case if optimization_barrier custom_call".split())
#: Ops whose results are computed while importing where all operands are known.
FOLDS: dict[str, Callable[[Op, list[Known]], Known | None]] = {}
#: What the bounds of sizes decide, or one of the operands alone.
BY_BOUNDS: dict[str, Callable[[Importer, Op], Known | None]] = {}
#: A folded value has at most this many elements; a constant in the program's text this many bytes; larger ones are parameters.
_MOST_FOLDED = 1024
_MOST_LITERAL = 1 << 12


def converter(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function of (importer, op) for ops; it returns a value, or a list of them."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            CONVERTERS[name] = function
        return function

    return register


@dataclass
class Op:
    """An op with its operands as values."""

    operation: ir.Operation
    inputs: list[Value]

    @property
    def kind(self) -> str:
        """Its name, without the dialect where that is stablehlo."""
        return self.operation.name.removeprefix("stablehlo.")

    @property
    def attributes(self) -> Any:
        """Its attributes."""
        return self.operation.attributes

    def has(self, name: str) -> bool:
        """Whether it has an attribute."""
        return name in self.operation.attributes

    def number(self, name: str, default: int = 0) -> int:
        """An integer attribute."""
        return int(ir.IntegerAttr(self.attributes[name]).value) if self.has(name) else default

    def numbers(self, name: str, default: Sequence[int] = ()) -> list[int]:
        """An attribute that lists integers (or bools)."""
        if not self.has(name):
            return list(default)
        attribute = self.attributes[name]
        if isinstance(attribute, ir.DenseElementsAttr):
            return [int(n) for n in np.asarray(attribute).reshape(-1)]
        return [int(n) for n in attribute]

    def text(self, name: str, default: str = "") -> str:
        """A string attribute."""
        return ir.StringAttr(self.attributes[name]).value if self.has(name) else default

    def type(self, place: int = 0) -> TensorType | None:
        """The type of a result; None where the module does not say its sizes."""
        return v.type_of(self.operation.results[place].type)

    def dtype(self, place: int = 0) -> str:
        """The element type of a result."""
        return v.dtype_of(self.operation.results[place].type)

    def body(self, place: int = 0) -> ir.Block:
        """The block of a region."""
        return self.operation.regions[place].blocks[0]


@dataclass(frozen=True)
class Refusal:
    """An op that has no form here."""

    op: str
    place: Location
    reason: str
    nearest: str


class _Nothing:
    """A builder of nothing, for what is behind a refused op: it is looked at for further refusals alone."""

    def op(self, name: str, operands: Any, types: Sequence[TensorType], *rest: Any, **more: Any) -> list[Any]:
        return [None] * len(types)

    def begin_region(self, arguments: Sequence[TensorType]) -> list[Any]:
        return [None] * len(arguments)

    def end_region(self, yields: Any, location: Any) -> None:
        return None

    def symbol(self, name: str, min: int, max: int) -> None:
        return None


class Missing(Exception):
    """An op needs what a refused one would give, whose type is not known."""


@dataclass
class Importer(Recognizer):
    """Converts the ops of a module's functions, each call written out."""

    #: What errors call the program.
    name: str = "the program"
    #: Functions by name.
    functions: Mapping[str, ir.Operation] = field(default_factory=dict)
    #: Bounds of symbols.
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    #: Arrays of the parameters that the program reads, by name.
    parameters: dict[str, np.ndarray] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    #: Whether the module says that it is for one device.
    is_of_one_device: bool = False
    #: How often the ops that are being converted are written out.
    copies: int = 1
    #: What values of the module stand for, in the functions and regions that are being walked.
    _env: dict[Any, Value] = field(default_factory=dict)
    _loaded: dict[str, Tensor] = field(default_factory=dict)
    _constants: dict[Any, Known] = field(default_factory=dict)
    #: Inclusive bounds of integers, and the i64 that a narrower one was made of, by identity of the 0-d tensor.
    _bounded: dict[int, tuple[Tensor, int, int]] = field(default_factory=dict)
    _wide: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)
    _regions: int = 0
    #: Names of the functions that are being written out, each called by the one before it.
    _calling: list[str] = field(default_factory=list)
    #: Sizes that a function of scalars is applied over, element by element.
    _over: tuple[Dim, ...] | None = None

    # Walk -------------------------------------------------------------------------------------------------------------

    def run_block(self, block: ir.Block, arguments: Sequence[Value]) -> list[Value]:
        """What a block returns for these arguments; it sees the values around it."""
        for argument, value in zip(block.arguments, arguments, strict=True):
            self._env[argument] = value
        place = self.location
        for view in block.operations:
            operation = view.operation
            if operation.name in ("stablehlo.return", "func.return", "sdy.return"):
                self.location = place
                return [self.value(operand) for operand in operation.operands]
            self.run_op(operation)
        raise Reject("a block without a return")

    def applied(self, block: ir.Block, arguments: Sequence[Tensor]) -> list[Tensor]:
        """What a function of scalars, such as that of a reduction, returns for each element of arguments of one shape."""
        over, self._over = self._over, arguments[0].extents
        try:
            found = self.run_block(block, arguments)
            return [self.expand(self.tensor(x), arguments[0].extents) for x in found]
        finally:
            self._over = over

    def _widened(self, op: Op) -> list[Value]:
        """The operands of an op of scalars that is applied to whole tensors."""
        if not op.inputs:
            return []
        convert = CONVERTERS.get(op.kind)
        if op.kind != "func.call" and (convert is None or not convert.__module__.endswith(("elementwise", "own"))):
            raise Reject(f"{op.operation.name} in the function of a reduction", "ops of elements")
        if op.kind == "func.call" or all(isinstance(x, Known) for x in op.inputs):
            return op.inputs
        return [self.expand(self.tensor(x), self._over or ()) for x in op.inputs]

    def call(self, name: str, arguments: Sequence[Value]) -> list[Value]:
        """What a function of the module returns."""
        if name in self._calling:
            raise Reject(f"'{name}' calls itself", "no recursion")
        outer, self._env = self._env, {}
        self._calling.append(name)
        try:
            return self.run_block(self.functions[name].regions[0].blocks[0], arguments)
        finally:
            self._env = outer
            self._calling.pop()

    def value(self, operand: Any) -> Value:
        """What a value of the module stands for."""
        if operand not in self._env:
            raise Missing
        return self._env[operand]

    def run_op(self, operation: ir.Operation) -> None:
        """Converts one op; a refusal is noted, and what follows is only looked at for others."""
        place = self.place_of(operation)
        if place.file:
            self.location = place
        op = Op(operation, [])
        try:
            op.inputs = [self.value(operand) for operand in operation.operands]
            if self._over is not None:
                op.inputs = self._widened(op)
            results = self._results(op)
            for result, value in zip(operation.results, results, strict=True):
                self._env[result] = value
            return
        except Missing:
            pass
        except Reject as refusal:
            where = place if place.file else self.location
            self.refusals.append(Refusal(operation.name, where, refusal.reason, refusal.nearest))
        self.builder = _Nothing()  # type: ignore[assignment]
        for result in operation.results:
            try:
                type = v.type_of(result.type)
            except Reject:
                continue
            if type is not None:
                self._env[result] = Tensor(None, type)

    def _results(self, op: Op) -> list[Value]:
        convert = CONVERTERS.get(op.kind)
        if convert is None:
            near = difflib.get_close_matches(op.kind, list(CONVERTERS), 1)
            raise Reject(f"there is no form of {op.operation.name} here", near[0] if near else "")
        is_complex = any(isinstance(x, v.Complex) for x in op.inputs) or any(
            v.is_complex(result.type) for result in op.operation.results
        )
        if is_complex and op.kind not in _HOLDS:
            return COMPLEX[0](self, op)
        for result in op.operation.results:
            if op.kind != "custom_call" and not v.is_complex(result.type):  # which is refused by what it calls
                v.dtype_of(result.type)
        folded = self._folded(op)
        if folded is not None:
            return [folded]
        found = convert(self, op)
        return found if isinstance(found, list) else [found]

    def _folded(self, op: Op) -> Known | None:
        decided = BY_BOUNDS[op.kind](self, op) if op.kind in BY_BOUNDS else None
        if decided is not None:
            return decided
        fold = FOLDS.get(op.kind)
        if fold is None or not all(isinstance(x, Known) for x in op.inputs):
            return None
        known = [x for x in op.inputs if isinstance(x, Known)]
        if any(x.array.size > _MOST_FOLDED and x.splat is None for x in known):
            return None
        with np.errstate(all="ignore"):
            return fold(op, known)

    def place_of(self, operation: ir.Operation) -> Location:
        """The user's line that an op comes from, and its name in JAX."""
        name, file, line = _place(operation.location)
        return Location(_module_path(name), file, line, operation.name)

    # Values -----------------------------------------------------------------------------------------------------------

    def tensor(self, value: Value) -> Tensor:
        """A value as a tensor of the program."""
        if isinstance(value, v.Complex):
            raise Reject("complex numbers", "their parts")
        return self._materialised(value) if isinstance(value, Known) else value

    def tensors(self, op: Op) -> list[Tensor]:
        """The operands as tensors."""
        return [self.tensor(x) for x in op.inputs]

    def _materialised(self, value: Known) -> Tensor:
        array, dtype = value.array, value.dtype
        if array.size == 0:
            return self.full(0, dtype, array.shape)
        if value.is_sizes:
            parts = [self.expand(self.scalar(x, "i64"), (1,)) for x in v.dims(value)]
            flat = self.cat(parts, 0, TensorType("i64", (len(parts),))) if len(parts) != 1 else parts[0]
            return self.cast(self.reshape(flat, array.shape), dtype)
        splat = value.splat
        if splat is not None:
            return self.splat(splat, dtype, array.shape)
        single = array[tuple(slice(0, 1) if s == 0 else slice(None) for s in array.strides)]
        if single.size < array.size:
            return self.expand(self._materialised(Known(single, dtype)), array.shape)
        if array.nbytes > _MOST_LITERAL:
            return self._large(array, value.type)
        return self.constant(Dense(value.type, np.ascontiguousarray(array).tobytes()))

    def _large(self, array: np.ndarray, type: TensorType) -> Tensor:
        """The parameter that a large constant is, perhaps under another shape."""
        root: Any = array
        while isinstance(root, np.ndarray) and str(id(root)) not in self._loaded:
            root = root.base
        if isinstance(root, np.ndarray) and root.size == array.size and array.flags.c_contiguous:
            return self.reshape(self._loaded[str(id(root))], array.shape)
        if self._regions:
            raise Reject(f"a constant of {array.nbytes} bytes that is made within a loop or branch", "a smaller one")
        whole = np.ascontiguousarray(array)
        self.load(whole, type)
        return self._loaded[str(id(whole))]

    def splat(self, number: Any, dtype: str, extents: Sequence[Dim]) -> Tensor:
        """One number, repeated; of ui64 those beyond i64 by their bits."""
        if dtype == "ui64" and int(number) >= 1 << 63:
            one = self.constant(Dense(TensorType("ui64", ()), np.uint64(number).tobytes()))
            return self.expand(one, extents)
        return self.full(number, dtype, extents)

    def constant_of(self, operation: ir.Operation) -> Known:
        """The numbers of a constant; the same array each time."""
        if operation not in self._constants:
            self._constants[operation] = v.literal(operation.attributes["value"], operation.results[0].type)
        return self._constants[operation]

    def check_sharding(self, op: Op) -> None:
        """Refuses a value that is to lie on several devices; the parts of a mesh of one device are the whole."""
        if self.is_of_one_device:
            return
        text = "".join(str(op.attributes[name.name if hasattr(name, "name") else name]) for name in op.attributes)
        if '{"' in text or "devices=[" in text:
            raise Reject("an array that is sharded over devices", "an array on one device")

    def load(self, array: np.ndarray, type: TensorType) -> None:
        """Makes a parameter of a constant that is too large for the program's text; before any region."""
        key = str(id(array))
        if key not in self._loaded:
            name = f"constant_{len(self._loaded)}"
            self._loaded[key] = self.parameter(name, type)
            self.parameters[name] = array

    def known(self, value: Value, what: str) -> Known:
        """A value that the program must know."""
        if isinstance(value, Known):
            return value
        raise Reject(f"{what}, which only a call knows", "a constant, or a size of an argument")

    def sizes(self, value: Value, what: str) -> list[Dim]:
        """Integers, of which some may be named extents."""
        return v.dims(self.known(value, what))

    def bounds(self, dim: Dim) -> tuple[int, int]:
        """The smallest and largest value of a size."""
        return bounds(dim, self.ranges)

    # Integers of loops ------------------------------------------------------------------------------------------------

    def bound(self, x: Tensor, low: int, high: int) -> Tensor:
        """Notes the bounds of an integer."""
        self._bounded[id(x)] = (x, low, high)
        return x

    def interval(self, x: Value) -> tuple[int, int] | None:
        """Inclusive bounds of an integer, where they are known."""
        if isinstance(x, Known):
            if x.array.size != 1 or x.dtype in FLOATS:
                return None
            (number,) = v.dims(x)
            return self.bounds(number)
        found = self._bounded.get(id(x))
        return None if found is None else found[1:]

    def index(self, x: Value) -> Tensor:
        """A 0-d integer as i64."""
        tensor = self.tensor(x)
        found = self._wide.get(id(tensor))
        return found[1] if found is not None else self.cast(tensor, "i64")

    def narrowed(self, wide: Tensor, dtype: str, interval: tuple[int, int]) -> Tensor:
        """An i64 as a narrower integer, from which `index` gets it back."""
        narrow = self.cast(wide, dtype)
        self._wide[id(narrow)] = (narrow, wide)
        return self.bound(narrow, *interval)

    @contextmanager
    def inner_region(self, arguments: Sequence[TensorType] = ()) -> Iterator[tuple[list[Tensor], list[Tensor]]]:
        """As `region`; names of its ops are its own."""
        outer = dict(self._env)
        self._regions += 1
        try:
            with self.region(arguments) as given:
                yield given
        finally:
            self._regions -= 1
            self._env = outer

    # Ops --------------------------------------------------------------------------------------------------------------

    def unary(self, name: str, x: Tensor, **attributes: Any) -> Tensor:
        """An op whose result has its operand's type."""
        return self.emit_one(name, [x], x.type, attributes)

    def binary(self, name: str, x: Tensor, y: Tensor | Number) -> Tensor:
        """An op of two tensors of one type, or of a tensor and a number."""
        return self.emit_one(name, [x, self.operand(y, x.type)], x.type)

    def compare(self, name: str, x: Tensor, y: Tensor | Number) -> Tensor:
        """A comparison of two tensors of one type, or of a tensor and a number."""
        return self.emit_one(name, [x, self.operand(y, x.type)], TensorType("i1", x.extents))

    def where(self, condition: Tensor, x: Tensor | Number, y: Tensor | Number) -> Tensor:
        """Elements of x where the condition is true, else of y."""
        dtype = next(t.dtype for t in (x, y) if isinstance(t, Tensor))
        extents = next(t.extents for t in (x, y, condition) if isinstance(t, Tensor))
        type = TensorType(dtype, extents)
        return self.emit_one(
            "where", [self.expand(condition, extents), self.operand(x, type), self.operand(y, type)], type
        )

    def iota(self, count: Dim, dtype: str = "i64") -> Tensor:
        """0, 1, ... of a rank of 1."""
        return self.cast(self.emit_one("iota", [], TensorType("i64", (count,)), {"start": 0, "step": 1}), dtype)

    def slice_to(self, x: Tensor, dim: int, start: int, count: Dim, step: int = 1) -> Tensor:
        """`count` elements of a dim, from a place on; of a named count with a step all that are there."""
        if isinstance(count, int):
            end = start + max((count - 1) * step + 1, 0)
            return self.slice(x, dim, start, end, count, step)
        return self.slice(x, dim, start, SLICE_END_BY_TYPE if step == 1 else SLICE_END, count, step)

    def moved(self, x: Tensor, order: Sequence[int]) -> Tensor:
        """Permuted dims: of what `x` was permuted from, and a reshape where dims of size 1 alone change their places."""
        order = list(order)
        while (view := self.made(x, "permute")) is not None and view.operands[0] is not None:
            before: Any = view.attributes["dims"]
            x, order = view.operands[0], [before[d] for d in order]
        if order == list(range(x.rank)):
            return x
        wide = [d for d in order if x.extents[d] != 1]
        if wide == sorted(wide):
            return self.reshape(x, [x.extents[d] for d in order])
        return self.permute(x, order)

    def literal(self, array: Any, dtype: str) -> Tensor:
        """A constant tensor."""
        return self.tensor(Known(np.asarray(array).astype(v.numpy_dtype(dtype)), dtype))


def _place(location: ir.Location) -> tuple[str, str, int]:
    """The name of an op, and the file and line of the innermost call that the user wrote."""
    name = ""
    for _ in range(1000):
        kind = type(location).__name__
        if kind == "NameLoc":
            name = name or location.name_str
            location = location.child_loc
        elif kind == "CallSiteLoc":
            location = location.callee
        elif kind == "FusedLoc" and len(location.locations):
            location = location.locations[0]
        elif kind == "FileLineColLoc":
            return name, location.filename.replace("\\", "/").rpartition("/")[2], int(location.start_line)
        else:
            break
    return name, "", 0


def _module_path(name: str) -> str:
    """A path of names as JAX has it (`jit(f)/jit(main)/layer/dot_general`), without what JAX adds."""
    parts = [part for part in name.split("/") if not re.fullmatch(r"(jit|pjit|closed_call|core_call)(\(.*\))?", part)]
    return ".".join(parts[:-1])


def refused(refusals: Sequence[Refusal], name: str) -> str:
    """Each refusal by itself, equal ones counted."""
    seen: dict[tuple[str, str, str], list[Location]] = {}
    for refusal in refusals:
        seen.setdefault((refusal.op, refusal.reason, refusal.nearest), []).append(refusal.place)
    lines = []
    for (op, reason, nearest), places in seen.items():
        named = list(dict.fromkeys(f"{p.file}:{p.line}" if p.file else "an unknown line" for p in places))
        where = ", ".join(named[:5]) + (f" and {len(named) - 5} more" if len(named) > 5 else "")
        lines.append(f"  {op} at {where}: {reason}" + (f"; nearest supported form: {nearest}" if nearest else ""))
    return "\n".join([f"{name}: {len(lines)} unsupported op{'s' if len(lines) > 1 else ''}:", *lines])
