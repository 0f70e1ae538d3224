# SPDX-License-Identifier: Apache-2.0
"""Ops of PIR as ops of the `op` dialect: the walk, and the table of converters."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from straightline.capture.builder import Dense, Dim, Location, TensorType
from straightline.capture.extents import Extent, bounds
from straightline.capture.graph_builder import FLOATS, GraphBuilder, Number, Reject, Tensor, wrap
from straightline.capture.paddle import own, pir
from straightline.capture.paddle import values as v
from straightline.capture.paddle.values import Known, Value
from straightline.errors import InternalError, UserError

#: Converters by the op's name without "pd_op.": functions of (importer, node) that return a value, or a list of them.
CONVERTERS: dict[str, Callable[..., Any]] = {}
#: What a converter takes and refuses, in words, for docs/frameworks/paddle.md.
FORMS: dict[str, tuple[str, str]] = {}
#: Folds of ops whose operands are known integers or sizes: functions of the node, None where the form is not folded.
FOLDS: dict[str, Callable[[Node], Known | list[Known] | None]] = {}
#: Ops whose results a generator of Paddle draws.
_DRAWN = frozenset(
    """gaussian uniform uniform_inplace randint randperm multinomial bernoulli poisson binomial standard_gamma dirichlet
    exponential exponential_ gaussian_inplace truncated_gaussian_random top_p_sampling shuffle_batch""".split()
)
#: What converts ops of complex numbers: a function of (importer, node) that returns None for other ops.
COMPLEX: list[Callable[[Importer, Node], list[Any] | None]] = []
#: Ops that mean the same as others.
SAME = {
    "shape": "shape64", "share_data_": "assign", "assign_value": "assign_value_", "set_value": "set_value_",
    "set_value_with_tensor": "set_value_with_tensor_", "batch_norm": "batch_norm_", "increment": "increment_",
}  # fmt: skip
#: Ops that do more than give results.
EFFECTS = frozenset(("print", "assert", "py_func", "run_program", "pylayer", "set_persistable_value"))
#: Ops whose names end with "_" and that overwrite nothing here.
_NO_WRITES = frozenset(("pd_op.batch_norm_", "pd_op.share_data_", "pd_op.sync_batch_norm_"))
#: Ops of arrays of tensors.
_OF_ARRAYS = frozenset(
    ("create_array", "create_array_like", "array_read", "array_write_", "array_length", "array_to_tensor")
)
#: Of their results PIR says types that are not those of a run.
_WRONG_TYPES = frozenset(
    (
        "unique",
        "unique_consecutive",
        "slogdet",
        "yolo_box",
        "lstsq",
        "matrix_rank",
        "matrix_rank_tol",
        "matrix_rank_atol_rtol",
    )
)
#: Of integers they give float32, where PIR says integers.
_FLOATS_OF_INTEGERS = frozenset(("exp", "expm1", "log", "log2", "log10", "log1p"))
#: Of integers and bools they give int64.
_SUMS = frozenset(("sum", "prod", "cumsum", "cumprod"))
#: Integers and sizes of at most so many elements are folded.
_MOST_FOLDED = 4096
#: A program is written out for at most so many parts or places of a dim; files may say any number.
_MOST_PARTS, _MOST_PLACES = 4096, 1 << 20
#: Larger constants are parameters of the program.
_MOST_LITERAL = 1 << 12


def converter(*names: str, takes: str = "", refuses: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers the converter of ops; `takes` and `refuses` go into the table of the documentation."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            CONVERTERS[name] = function
            FORMS[name] = (takes, refuses)
        return function

    return register


def fold(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers how ops of known integers and sizes are computed while importing."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        FOLDS.update(dict.fromkeys(names, function))
        return function

    return register


def written_operand(op: pir.Op) -> int | None:
    """The place of the operand that an op overwrites; None where it overwrites nothing."""
    if op.name.startswith(own.OF_CPP):
        return own.written_place(op)
    if not op.name.endswith("_") or op.name in _NO_WRITES:
        return None
    place = 1 if op.short == "assign_out_" else 0
    return place if place < len(op.operands) else None


@dataclass
class Node:
    """An op with its operands as values (None: left out)."""

    op: pir.Op
    inputs: list[Value | None]

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute, or a default where it is left out."""
        return self.op.attributes.get(name, default)

    def input(self, place: int) -> Value | None:
        """An operand, None where it is left out."""
        return self.inputs[place] if place < len(self.inputs) else None


@dataclass(frozen=True)
class Refusal:
    """An op that has no form here, and the user's line."""

    op: str
    place: str
    reason: str
    nearest: str


class Missing(Exception):
    """An op reads what a refused one would give."""


@dataclass
class Importer(GraphBuilder):
    """Converts the ops of a program."""

    #: What errors call the program.
    model: str = "the program"
    #: Whether the program was read from a file, which may say what Paddle would not.
    from_file: bool = False
    #: Names of parameters as users know them, by Paddle's unique ones.
    names: Mapping[str, str] = field(default_factory=dict)
    #: Values by number.
    values: dict[int, Value] = field(default_factory=dict)
    #: Large constants, which are parameters, by name.
    constants: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    #: How often each value is read by ops that are converted.
    uses: dict[int, int] = field(default_factory=dict)
    #: The op that makes each value, of the outermost block and of those within.
    makers: dict[int, pir.Op] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    #: Values that are one memory, by the first of them.
    memory: dict[int, set[int]] = field(default_factory=dict)
    #: The first value of a memory, by value, where that is another one.
    first: dict[int, int] = field(default_factory=dict)
    #: Names of states, by the number of their first value.
    states: dict[int, str] = field(default_factory=dict)
    #: Bounds of named sizes.
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    #: Inputs, which are not overwritten.
    inputs: set[int] = field(default_factory=set)
    #: Identities of tensors that are computed of parameters alone.
    fixed: set[int] = field(default_factory=set)
    _kept: list[Tensor] = field(default_factory=list)
    _missing: set[int] = field(default_factory=set)
    #: Values whose element types are not those that PIR says, and what it says.
    _mistyped: dict[int, str] = field(default_factory=dict)
    #: Values that each block around the present op gives.
    _scopes: list[set[int]] = field(default_factory=lambda: [set()])
    _depth: int = 0

    # Walk -------------------------------------------------------------------------------------------------------------

    def run(self, ops: Iterable[pir.Op]) -> None:
        """Converts ops in order; refusals are noted, and what reads their results is left out."""
        for op in ops:
            self._run(op)

    def _run(self, op: pir.Op) -> None:
        if any(x in self._missing for x in op.operands):
            self._missing.update(op.results)
            if self._depth:
                raise Missing
            return
        unknown = next((x for x in op.operands if x and x not in self.values), None)
        if unknown is not None:
            raise UserError(f"{self.model}: {op.name} reads value {unknown}, which nothing gives before it")
        self.location = Location(op.layer, op.file, op.line, op.short)
        op = self._retyped(op)
        node = Node(op, [self.values[x] if x else None for x in op.operands])
        try:
            results = self._results(node)
        except Missing:
            self._missing.update(op.results)
            if self._depth:
                raise
            return
        except Reject as refusal:
            self.refuse(op, refusal.reason, refusal.nearest)
            self._missing.update(op.results)
            if self._depth:
                raise Missing from refusal
            return
        except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError, AttributeError) as error:
            if self.from_file:
                raise UserError(
                    f"{self.model}: {op.name} is not what Paddle writes: {type(error).__name__}: {error}"
                ) from error
            raise
        self._bind(node, results)

    def _retyped(self, op: pir.Op) -> pir.Op:
        """An op with the type that its first result has, where PIR says a wrong one because it does of an operand."""
        chosen = op.operands[1:] if op.short == "where" else op.operands
        wrong = [x for x in chosen if x in self._mistyped]
        if wrong and op.name == "builtin.combine":
            self._mistyped[op.results[0]] = self._mistyped[wrong[0]]
        if not wrong or op.attributes.get("dtype", "undefined") != "undefined" or not op.types:
            return op
        said, value = self._mistyped[wrong[0]], self.values[wrong[0]]
        if isinstance(value, list):
            value = next((x for x in value if isinstance(x, Tensor)), value)
        first = op.types[0]
        if not isinstance(first, pir.Type) or first.dtype != said or not isinstance(value, Tensor):
            return op
        sums = op.short in _SUMS and value.dtype not in FLOATS
        type = pir.Type("i64" if sums else value.dtype, first.shape)
        return replace(op, types=[type, *op.types[1:]])

    def _results(self, node: Node) -> list[Any]:
        if node.op.name.startswith((own.OF_CPP, own.OF_PYTHON)):
            return own.call_custom(self, node)
        name = SAME.get(node.op.short, node.op.short)
        if (folded := self._folded(name, node)) is not None:
            return folded
        if (found := COMPLEX[0](self, node)) is not None:
            return found
        convert = CONVERTERS.get(name)
        if convert is None and name.endswith("_") and name[:-1] in CONVERTERS:  # the form that overwrites
            convert, node = CONVERTERS[name[:-1]], Node(replace(node.op, name=f"pd_op.{name[:-1]}"), node.inputs)
        if convert is None:
            if name in _OF_ARRAYS:
                raise Reject(
                    "an array of tensors, as loops over cells write one",
                    "nn.RNN of LSTMCell, GRUCell and SimpleRNNCell",
                )
            if name in _DRAWN:
                raise Reject(f"there is no op {node.op.short} here", "numbers drawn before the call, as an argument")
            if name == "print":
                raise Reject(f"there is no op {node.op.short} here", "the model without it")
            if name.endswith("_grad"):
                raise Reject(f"there is no op {node.op.short} here", "a program that computes no gradient")
            near = difflib.get_close_matches(name, CONVERTERS, 1, 0.8)
            raise Reject(f"there is no op {node.op.short} here", near[0] if near else "")
        found = convert(self, node)
        return found if isinstance(found, list) else [found]

    def _bind(self, node: Node, results: Sequence[Any]) -> None:
        op = node.op
        fixed = bool(op.operands) and all(x is None or self.is_fixed(x) for x in node.inputs)
        for place, (number, type, value) in enumerate(zip(op.results, op.types, results)):
            if not number:
                continue  # left out
            if value is None:
                if self.uses.get(number):
                    self.refuse(op, f"reading its result {place}, which inference does not compute", "its first result")
                self._missing.add(number)
                continue
            if isinstance(value, Tensor):
                if self.uses.get(number) and isinstance(type, pir.Type):
                    self._check(op, value, type)
                    said = self._said(number, type)
                    if value.dtype != said:
                        self._mistyped[number] = said
                if fixed:
                    self.fixed.add(id(value))
                    self._kept.append(value)
            if isinstance(value, v.Complex) and self.uses.get(number) and isinstance(type, pir.Type):
                self._check_complex(op, value, type)
            self.values[number] = value
            self._scopes[-1].add(number)
        if op.name == "pd_op.share_data_":
            self.first[op.results[0]] = first = self.first.get(op.operands[0], op.operands[0])
            self.memory.setdefault(first, {first}).update((op.operands[0], op.results[0]))
        written = written_operand(op)
        if written is not None and op.results and op.results[0] in self.values:
            self._overwrite(op, op.operands[written])

    def _said(self, number: int, type: pir.Type) -> str:
        """The element type that PIR says of a value."""
        maker = self.makers.get(number)
        first = maker.types[maker.results.index(number)] if maker is not None else type
        return first.dtype if isinstance(first, pir.Type) else type.dtype

    def _overwrite(self, op: pir.Op, operand: int) -> None:
        """Every value that is the memory of an operand is what the op gave."""
        first = self.first.get(operand, operand)
        if operand not in self._scopes[-1] and self._depth and first not in self._scopes[-1]:
            self.refuse(op, "a write, in a branch or loop, to a tensor from outside", "a result of the branch or loop")
            raise Missing
        if first in self.inputs:
            self.refuse(op, "a write to an argument", "the form that gives a new tensor, x = x.add(y)")
            return
        same = self.memory.setdefault(first, {first})
        same.update((operand, *op.results[:1]))
        self.first[op.results[0]] = first
        for number in same:
            self.values[number] = self.values[op.results[0]]

    def _check(self, op: pir.Op, value: Tensor, type: pir.Type) -> None:
        """What was converted has the type that the program says."""
        # PIR says the type of the operand for some ops that give bools or floats, and wrong sizes for some others.
        if op.short in _WRONG_TYPES:
            return
        dtype = "i1" if op.short in ("any", "all", "equal_all") else type.dtype
        if op.short in _FLOATS_OF_INTEGERS and dtype not in FLOATS:
            dtype = "f32"
        same = value.dtype == dtype and value.rank == len(type.shape)
        sizes = zip(value.extents, type.shape)
        if same and all(a == b or b < 0 or not isinstance(a, int) for a, b in sizes):
            return
        found = f"{value.dtype}[{', '.join(map(str, value.extents))}]"
        if self.from_file:
            raise UserError(f"{self.model}: {op.name} gives {found} but the program says {type}")
        raise InternalError(f"{op.name} at {self.location} was converted to {found} but Paddle says {type}")

    def _check_complex(self, op: pir.Op, value: v.Complex, type: pir.Type) -> None:
        part = pir.PARTS.get(type.dtype)
        parts = [x for x in (value.re, value.im) if isinstance(x, Tensor)]
        if part is None or any(x.dtype != part for x in parts):
            raise InternalError(
                f"{op.name} at {self.location} was converted to complex numbers of {value.type} but Paddle says {type}"
            )
        for x in parts:
            self._check(op, x, replace(type, dtype=part))

    def refuse(self, op: pir.Op, reason: str, nearest: str) -> None:
        """Notes an op that has no form here."""
        self.refusals.append(Refusal(op.short, str(Location(op.layer, op.file, op.line)), reason, nearest))

    def _folded(self, name: str, node: Node) -> list[Any] | None:
        """The results of an op of known integers; None where it is no such op."""
        if name not in FOLDS:
            return None
        leaves = [leaf for x in node.inputs if x is not None for leaf in (x if isinstance(x, list) else [x])]
        if not all(isinstance(x, Known) and x.dtype not in FLOATS and x.array.size <= _MOST_FOLDED for x in leaves):
            return None
        found = FOLDS[name](node)
        return None if found is None else found if isinstance(found, list) else [found]

    @contextmanager
    def inner_region(self, arguments: Sequence[TensorType] = ()) -> Iterator[tuple[list[Tensor], list[Tensor]]]:
        """A region of the next op, in which refusals end the op."""
        self._depth += 1
        try:
            with self.region(arguments) as given:
                yield given
        finally:
            self._depth -= 1

    def block(self, block: pir.Block, arguments: Sequence[Value] = ()) -> list[Value]:
        """The values that a block yields."""
        self.values.update(zip(block.arguments, arguments))
        *ops, last = block.ops or [pir.Op("", [], {}, [], [])]
        if last.name != "cf.yield":
            raise Reject("a block without a yield at its end")
        depth, self._depth = self._depth, self._depth + 1
        self._scopes.append(set(block.arguments))
        try:
            self.run(ops)
        finally:
            self._depth = depth
            self._scopes.pop()
        if any(x in self._missing for x in last.operands):
            raise Missing
        return [self.values[x] for x in last.operands]

    @property
    def is_nested(self) -> bool:
        """Whether what is converted is in a branch or loop."""
        return self._depth > 0

    # Values -----------------------------------------------------------------------------------------------------------

    def is_fixed(self, value: Value | None) -> bool:
        """Whether a value is the same in every call: known, or computed of parameters alone."""
        if isinstance(value, list):
            return all(map(self.is_fixed, value))
        return isinstance(value, Known) and not value.is_sizes or id(value) in self.fixed

    def tensor(self, value: Value | None, dtype: str | None = None) -> Tensor:
        """A value as a tensor of the program, cast to an element type if one is given."""
        if isinstance(value, Known):
            value = self._materialised(value)
        if isinstance(value, v.Complex):
            raise Reject("complex numbers", "their parts, by real() and imag()")
        if not isinstance(value, Tensor):
            raise Reject("a list where a tensor is needed" if value is not None else "a missing operand")
        return value if dtype is None else self.cast(value, dtype)

    def _materialised(self, value: Known) -> Tensor:
        array, dtype = value.array, value.dtype
        if value.is_sizes:
            parts = [self.expand(self.scalar(x, dtype), (1,)) for x in value.dims]
            return self.reshape(self.cat(parts, 0, TensorType(dtype, (len(parts),))), array.shape)
        if array.size == 0:
            return self.full(0, dtype, array.shape)
        flat = np.ascontiguousarray(array).reshape(-1)
        if flat.size == 1 or not flat.strides[0] or (flat == flat[0]).all():
            return self.full(flat[0].item(), dtype, array.shape)
        if dtype == "bf16":
            return self.cast(self._materialised(Known(array, "f32")), dtype)
        if flat.nbytes > _MOST_LITERAL and not self._depth:
            name = f"constant_{len(self.constants)}"
            self.constants[name] = flat.reshape(array.shape)
            return self.parameter(name, value.type)
        return self.constant(Dense(value.type, flat.tobytes()))

    def tensors(self, value: Value | None) -> list[Tensor]:
        """A list as tensors."""
        if not isinstance(value, list):
            raise Reject("a tensor where a list of tensors is needed")
        return [self.tensor(x) for x in value]

    def type_of(self, value: Value | None) -> TensorType:
        """The type of a tensor or of what is known."""
        if isinstance(value, (Tensor, Known)):
            return value.type
        if isinstance(value, v.Complex):
            raise Reject("complex numbers", "their parts, by real() and imag()")
        raise Reject("a list where a tensor is needed" if value is not None else "a missing operand")

    def sizes(self, value: Value | None, what: str) -> list[Dim]:
        """Integers or sizes that must be known now: of a tensor, or of a list of 0-d ones."""
        if isinstance(value, list):
            return [size for item in value for size in self.sizes(item, what)]
        if not isinstance(value, Known):
            raise Reject(f"{what} that a call computes", f"{what} of constants and of sizes of inputs")
        return value.dims

    def numbers(self, value: Value | None, what: str) -> list[int]:
        """Integers that must be known now."""
        found = self.sizes(value, what)
        if any(isinstance(x, Extent) for x in found):
            raise Reject(f"{what} of a named size", f"constant {what}")
        return [int(x) for x in found]

    def number(self, value: Value | None, what: str) -> Number:
        """One number that must be known now."""
        if isinstance(value, Known) and value.array.size == 1 and not value.is_sizes:
            number: Number = value.array.reshape(-1)[0].item()
            return number
        raise Reject(f"{what} that a call computes", f"a constant {what}")

    def parts(self, count: int, what: str) -> int:
        """A number of parts that a program is written out for."""
        if not 0 <= count <= _MOST_PARTS:
            raise Reject(f"{count} {what}", f"at most {_MOST_PARTS}")
        return count

    def places(self, count: int, what: str) -> int:
        """A number of places that are computed while importing."""
        if not 0 <= count <= _MOST_PLACES:
            raise Reject(f"{count} {what}", f"at most {_MOST_PLACES}")
        return count

    def axis(self, axis: int, rank: int) -> int:
        """A dim counted from the first one."""
        found = wrap(int(axis), rank)
        if not 0 <= found < max(rank, 1):
            raise Reject(f"axis {axis} of a tensor of rank {rank}")
        return found

    # Forms ------------------------------------------------------------------------------------------------------------

    def unary(self, name: str, x: Tensor, **attributes: Any) -> Tensor:
        """An elementwise op of one operand."""
        return self.emit_one(name, [x], x.type, attributes)

    def common(self, x: Sequence[Dim], y: Sequence[Dim]) -> tuple[Dim, ...]:
        """The shape that two are broadcast to.

        Raises:
            Reject: Two sizes may differ.
        """
        rank = max(len(x), len(y))
        pairs = zip((1,) * (rank - len(x)) + tuple(x), (1,) * (rank - len(y)) + tuple(y))
        return tuple(self._common_size(a, b) for a, b in pairs)

    @staticmethod
    def _common_size(a: Dim, b: Dim) -> Dim:
        if a == b or b == 1:
            return a
        if a == 1:
            return b
        raise _unequal("sizes", a, b)

    def equal(self, a: Dim, b: Dim, what: str) -> Dim:
        """A size that two operands share."""
        if a != b:
            raise _unequal(what, a, b)
        return a

    def at_least(self, size: Dim, least: int, what: str) -> None:
        """Refuses a size that some call could make too small."""
        low, _ = bounds(size, self.ranges)
        if low >= least:
            return
        if isinstance(size, int):
            raise Reject(f"{what} of {size}, which is less than {least}")
        names = " and ".join(f"'{name}'" for name in sorted(size.symbols))
        raise Reject(
            f"{what} of {size}, which may be {low}", f"{least} or more, by a smallest size of {names} in sizes="
        )

    def binary(self, name: str, x: Tensor, y: Tensor | Number) -> Tensor:
        """An elementwise op of two operands of one element type, or of a tensor and a number, broadcast."""
        if not isinstance(y, Tensor):
            y = self.full(y, x.dtype)
        if x.dtype != y.dtype:
            raise Reject(f"{name} of {x.dtype} and {y.dtype}", "operands of one element type")
        type = TensorType(x.dtype, self.common(x.extents, y.extents))
        return self.emit_one(name, [self.expand(x, type.extents), self.expand(y, type.extents)], type)

    def compare(self, name: str, x: Tensor, y: Tensor | Number) -> Tensor:
        """A comparison of two tensors, or of a tensor and a number, broadcast."""
        if not isinstance(y, Tensor):
            y = self.full(y, x.dtype)
        extents = self.common(x.extents, y.extents)
        return self.emit_one(name, [self.expand(x, extents), self.expand(y, extents)], TensorType("i1", extents))

    def where(self, condition: Tensor, x: Tensor | Number, y: Tensor | Number) -> Tensor:
        """Elements of x where the condition is true, else of y, of one element type, broadcast; one of them is a tensor."""
        dtype = next(t.dtype for t in (x, y) if isinstance(t, Tensor))
        left, right = (t if isinstance(t, Tensor) else self.full(t, dtype) for t in (x, y))
        extents = self.common(condition.extents, self.common(left.extents, right.extents))
        operands = [self.expand(t, extents) for t in (condition, left, right)]
        return self.emit_one("where", operands, TensorType(dtype, extents))

    def literal(self, array: np.ndarray[Any, Any], dtype: str) -> Tensor:
        """A constant tensor."""
        return self.tensor(v.known(array, dtype))


def _unequal(what: str, a: Dim, b: Dim) -> Reject:
    if isinstance(a, int) and isinstance(b, int):
        return Reject(f"{what} {a} and {b}, which differ")
    return Reject(f"{what} {a} and {b}, which may differ", "one name for both in dynamic_shapes=, or a number")
