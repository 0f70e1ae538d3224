# SPDX-License-Identifier: Apache-2.0
"""Nodes of an ONNX graph as ops of the `op` dialect: the walk, and the table of converters."""

from __future__ import annotations

import bisect
import difflib
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from straightline.capture.builder import Dense, Dim, Dims, Location, TensorType
from straightline.capture.extents import DEFAULT_MAX, Extent, bounds, broadcast, value_of
from straightline.capture.graph_builder import SLICE_END_BY_TYPE, GraphBuilder, Number, Reject, Tensor, wrap
from straightline.capture.onnx import values as v
from straightline.capture.onnx.values import Known, Value
from straightline.errors import InternalError, UserError

#: Converters by "Op" or "domain.Op".
CONVERTERS: dict[str, Callable[..., Any]] = {}
#: Conversions that are graphs of their own, by name.
CONVERSIONS: dict[str, Callable[[Importer, Tensor, str], Tensor]] = {}
#: A folded value, and a constant in the program's text, has at most this many bytes; larger ones are parameters.
_MOST_FOLDED = 1 << 16
_MOST_LITERAL = 1 << 12
#: Elements of an input up to which onnx's reference is asked whether it takes a node.
_MOST_ASKED = 1 << 20
#: A named size is taken to be larger than up to so many elements where a slice needs that.
_MOST_NEEDED = 1 << 16


def converter(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function of (importer, node) for ops; it returns a value, or a list of them."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            CONVERTERS[name] = function
        return function

    return register


@dataclass
class Node:
    """A node with its inputs as values (None: left out) and its attributes as Python's."""

    proto: onnx.NodeProto
    inputs: list[Value | None]
    attributes: dict[str, Any]
    version: int

    @property
    def kind(self) -> str:
        """The op's name, with its domain where that is not ONNX's own."""
        return op_name(self.proto)

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute, or a default."""
        return self.attributes.get(name, default)

    def input(self, place: int) -> Value | None:
        """An input, None where it is left out."""
        return self.inputs[place] if place < len(self.inputs) else None

    def reads(self, place: int) -> bool:
        """Whether an output has a name, so that somebody may read it."""
        return place < len(self.proto.output) and bool(self.proto.output[place])


def op_name(proto: onnx.NodeProto) -> str:
    """`Add`, or `ai.onnx.ml.Scaler`."""
    return proto.op_type if proto.domain in ("", "ai.onnx") else f"{proto.domain}.{proto.op_type}"


@dataclass(frozen=True)
class Refusal:
    """A node that has no form here."""

    op: str
    node: str
    reason: str
    nearest: str


class SameSize(Exception):
    """Two names of sizes that the model needs to be equal."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first, second)
        self.first, self.second = first, second


class SmallestSize(Exception):
    """A named size that the model needs to be larger than the smallest one it could have."""

    def __init__(self, name: str, least: int) -> None:
        super().__init__(name, least)
        self.name, self.least = name, least


class TakenBranch(Exception):
    """A branch of an If that the program is to be made for: the other one cannot be, or gives other types."""

    def __init__(self, node: str, taken: bool, why: str, refused: bool) -> None:
        super().__init__(node, taken, why, refused)
        self.node, self.taken, self.why, self.refused = node, taken, why, refused


class Missing(Exception):
    """A nested graph needs what a refused node would give."""


def _attribute(proto: onnx.AttributeProto) -> Any:
    value = helper.get_attribute_value(proto)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], bytes):
        return [text.decode("utf-8", "replace") for text in value]
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


@dataclass
class Importer(GraphBuilder):
    """Converts the nodes of a graph, and of the graphs nested in it."""

    #: What errors call the model.
    model: str = "the model"
    #: Versions of the op sets that the model imports, by domain.
    opsets: Mapping[str, int] = field(default_factory=dict)
    #: Inputs whose values are given; those that decided something are in `decisive`.
    given: Mapping[str, np.ndarray] = field(default_factory=dict)
    decisive: set[str] = field(default_factory=set)
    #: Bounds of symbols.
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    #: Symbols whose bounds the caller gave: the import does not change them.
    bounded: set[str] = field(default_factory=set)
    #: Names of sizes that are other names.
    aliases: Mapping[str, str] = field(default_factory=dict)
    #: Smallest values of named sizes that the model was found to need.
    least: Mapping[str, int] = field(default_factory=dict)
    #: The smallest and largest trip counts of loops, by the names of the values that they are.
    counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    #: Branches that the program is made for, by the names of nodes (`branch_name`), with why the others are not in it.
    taken: Mapping[str, tuple[bool, str]] = field(default_factory=dict)
    #: Words of an error of ours: nodes that it names are asked about (`refused_by_reference`) before they are converted.
    asked: str = ""
    #: Pairs of sizes that calls are checked to have equal; a region of the program adds its own.
    equal: frozenset[tuple[Dim, Dim]] = frozenset()
    #: Values by name.
    names: dict[str, Value] = field(default_factory=dict)
    #: Arrays of the parameters that the program reads, by name.
    parameters: dict[str, np.ndarray] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    #: How often nodes of the whole graph, and its results, name a value.
    reads: Mapping[str, int] = field(default_factory=dict)
    #: Operands of linear layers without a bias, by the identities of their results.
    linears: dict[int, tuple[Tensor, Tensor, Tensor]] = field(default_factory=dict)
    #: Names of graph inputs, by the values of their tensors.
    _inputs: dict[int, str] = field(default_factory=dict)
    #: Node that made a tensor, with its place among the outputs, by identity.
    _made_by: dict[int, tuple[Node, int, Tensor]] = field(default_factory=dict)
    #: Inputs that a tensor is made of, by identity, where it is made of those and of known values alone.
    _origins: dict[int, frozenset[str]] = field(default_factory=dict)
    #: Numbers of tensors that were asked for and are known.
    _numbers: dict[int, np.ndarray | None] = field(default_factory=dict)
    #: ONNX's names of elements that tensors hold as wider ones, by identity.
    _narrow: dict[int, tuple[str, Tensor]] = field(default_factory=dict)
    _loaded: dict[str, Tensor] = field(default_factory=dict)
    _missing: set[str] = field(default_factory=set)
    _depth: int = 0
    _regions: int = 0

    # Walk -------------------------------------------------------------------------------------------------------------

    def run(self, nodes: Iterable[onnx.NodeProto]) -> None:
        """Converts nodes, which stand in an order in which each is behind those that it reads."""
        for proto in nodes:
            self.run_node(proto)

    def run_node(self, proto: onnx.NodeProto) -> None:
        """Converts one node; a refusal is noted and its results are missing from then on."""
        missing = [name for name in proto.input if name in self._missing]
        if missing and self._depth:
            raise Missing(missing[0])
        if missing:
            if not _has_form(proto, self.opsets):
                self.refusals.append(Refusal(op_name(proto), _called(proto), *_no_op(op_name(proto))))
            self._missing.update(proto.output)
            return
        unknown = [name for name in proto.input if name and name not in self.names]
        if unknown:
            raise Reject(f"node '{_called(proto)}' reads '{unknown[0]}', which nothing gives before it")
        version = self.opsets.get("" if proto.domain == "ai.onnx" else proto.domain, 1)
        node = Node(
            proto,
            [self.names[name] if name else None for name in proto.input],
            {a.name: _attribute(a) for a in proto.attribute},
            version,
        )
        self.location = Location(_called(proto))
        if self.asked and f"{_called(proto)}: " in self.asked and (refused := refused_by_reference(node, self)):
            raise UserError(refused)
        if self._differ_in_type(node) and (refused := refused_by_reference(node, self)):
            raise UserError(refused)
        if refused := _of_wrong_type(node, self):
            raise UserError(refused)
        try:
            results = self._results(node)
        except UserError:
            raise
        except (
            ArithmeticError,
            AssertionError,
            AttributeError,
            LookupError,
            MemoryError,
            TypeError,
            ValueError,
        ) as error:
            raise _invalid(node, error, self) from error
        except Missing:
            if self._depth:
                raise
            self._missing.update(name for name in proto.output if name)
            return
        except Reject as refusal:
            if self._depth:
                raise
            self.refusals.append(Refusal(node.kind, _called(proto), refusal.reason, refusal.nearest))
            self._missing.update(name for name in proto.output if name)
            return
        for place, (name, value) in enumerate(zip(proto.output, results)):
            if name and value is not None:
                value = self._of_the_inputs_type(node, place, value)
                self.names[name] = value
                if isinstance(value, Tensor):
                    self._note(node, place, value)

    def _of_the_inputs_type(self, node: Node, place: int, value: Value) -> Value:
        """A result; sizes that are computed from sizes of int32 are such too (arithmetic on sizes has one type)."""
        if not isinstance(value, Known) or value.type.dtype != "i64":
            return value
        if node.kind == "Cast" and node.attribute("to") == onnx.TensorProto.INT32:
            return value.of("i32")
        schema = _schema(node.proto, self.opsets)
        if schema is None or place >= len(schema.outputs):
            return value
        text = schema.outputs[place].type_str
        given = {each.type.dtype for formal, each in _typed_inputs(node, schema) if formal.type_str == text}
        return value.of("i32") if "i32" in given else value

    def _differ_in_type(self, node: Node) -> bool:
        """Whether inputs that the op's schema gives one type have several."""
        schema = _schema(node.proto, self.opsets) if len(node.inputs) > 1 else None
        if schema is None:
            return False
        found: dict[str, str] = {}
        return any(
            found.setdefault(formal.type_str, value.type.dtype) != value.type.dtype
            for formal, value in _typed_inputs(node, schema)
        )

    def _results(self, node: Node) -> list[Value | None]:
        if self._is_known(node):
            try:
                return list(self._folded(node))
            except Reject as refusal:
                return self._converted_in_place_of(node, refusal)
        if node.inputs and isinstance(node.inputs[0], v.Text) and node.kind in _MOVES_TEXT:
            return [self._moved_text(node, node.inputs[0])]
        convert = CONVERTERS.get(node.kind)
        if convert is None:
            return self._expanded(node)
        found = convert(self, node)
        return found if isinstance(found, list) else [found]

    def _converted_in_place_of(self, node: Node, refusal: Reject) -> list[Value | None]:
        """What a converter makes of constants that onnx's reference cannot evaluate; where none takes them, its words count."""
        convert = CONVERTERS.get(node.kind)
        if convert is None:
            raise refusal
        try:
            found = convert(self, node)
        except (Reject, ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError):
            raise refusal from None
        return found if isinstance(found, list) else [found]

    def _moved_text(self, node: Node, text: v.Text) -> Value:
        """Strings that an op moves and does not look at: their numbers are moved."""
        if node.kind == "Cast":
            if node.attribute("to") != onnx.TensorProto.STRING:
                raise Reject("strings as numbers", "LabelEncoder")
            return text
        index = Known(text.index) if isinstance(text.index, np.ndarray) else text.index
        moved = Node(node.proto, [index, *node.inputs[1:]], node.attributes, node.version)
        (found,) = self._results(moved)[:1]
        if isinstance(found, Known):
            return v.Text(text.table, found.array)
        return v.Text(text.table, self.tensor(found))

    def _is_known(self, node: Node) -> bool:
        """Whether a node's results can be computed now: its inputs are numbers, and it draws none."""
        inputs = [x for x in node.inputs if x is not None]
        if not inputs or not all(isinstance(x, Known) and not x.is_sizes for x in inputs):
            return False
        if node.kind in _NOT_FOLDED or node.proto.domain not in ("", "ai.onnx"):
            return False
        if any(a.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for a in node.proto.attribute):
            return False
        arrays = [x.array for x in inputs if isinstance(x, Known)]
        if node.kind == "DequantizeLinear" and arrays[0].ndim > 1:
            return False  # a weight: kept as the bytes that it is
        return sum(a.nbytes for a in arrays) <= _MOST_FOLDED and _elements_of(node.kind, arrays) * 8 <= _MOST_FOLDED

    def _folded(self, node: Node) -> list[Known | None]:
        arrays = [x.array if isinstance(x, Known) else None for x in node.inputs]
        found = [None if a is None else np.asarray(a) for a in evaluate(node, arrays, self.opsets)]
        if any(a is not None and a.dtype == object and None in a.reshape(-1).tolist() for a in found):
            raise TypeError("a missing input is needed")
        return [None if a is None else Known(a) for a in found]

    def _expanded(self, node: Node) -> list[Value | None]:
        """The results by the body that the op's schema defines it with."""
        body = _body(node, self)
        if body is None:
            raise Reject(*_no_op(node.kind))
        named: dict[str, Value] = {}
        for name, value in zip(body.input, node.inputs):
            if value is not None:
                named[name] = value
        given = {a.name: a for a in node.proto.attribute}
        defaults = {a.name: a for a in body.attribute_proto}
        return self.nested(body.node, named, list(body.output), {**defaults, **given})

    def nested(
        self,
        nodes: Iterable[onnx.NodeProto],
        named: Mapping[str, Value],
        outputs: Sequence[str],
        attributes: Mapping[str, onnx.AttributeProto] | None = None,
    ) -> list[Value | None]:
        """The results of nodes of a function's body, in which only `named` and what they make is visible."""
        outer, missing, place = self.names, self._missing, self.location
        self.names, self._missing = dict(named), missing if attributes is None else set()
        self._depth += 1
        try:
            for proto in nodes:
                self.run_node(proto if attributes is None else _bound(proto, attributes))
            return [self.names.get(name) for name in outputs]
        finally:
            self._depth -= 1
            self.names, self._missing, self.location = outer, missing, place

    def graph(self, graph: onnx.GraphProto, arguments: Sequence[Value]) -> list[Value]:
        """The results of a graph nested in this one, which sees the names around it."""
        named = dict(self.names)
        for tensor in graph.initializer:
            named[tensor.name] = known_of(tensor)
        named |= {given.name: value for given, value in zip(graph.input, arguments)}
        results = self.nested(graph.node, named, [given.name for given in graph.output])
        if any(result is None for result in results):
            raise Reject("a graph in it has a result that nothing gives")
        return [result for result in results if result is not None]

    # Values -----------------------------------------------------------------------------------------------------------

    def give_input(self, name: str, tensor: Tensor) -> None:
        """Binds an input of the program."""
        self.names[name] = tensor
        self._inputs[id(tensor)] = name
        self._origins[id(tensor)] = frozenset((name,))

    def tensor(self, value: Value | None, dtype: str | None = None) -> Tensor:
        """A value as a tensor of the program, cast to an element type if one is given."""
        if isinstance(value, Known):
            value = self._materialised(value)
        if isinstance(value, v.Text):
            raise Reject(
                f"strings ({', '.join(map(repr, value.table[:3]))}{', ...' * (len(value.table) > 3)})", "numbers"
            )
        if not isinstance(value, Tensor):
            raise Reject(
                "a sequence or an optional where a tensor is needed" if value is not None else "a missing input"
            )
        return value if dtype is None else self.cast(value, dtype)

    def _materialised(self, value: Known) -> Tensor:
        array = v.held(value.array)
        if value.is_sizes:
            parts = [self.expand(self.scalar(x, "i64"), (1,)) for x in v.dims(value)]
            flat = self.cat(parts, 0, TensorType("i64", (len(parts),)))
            return self.cast(self.reshape(flat, array.shape), value.dtype)
        type = value.type
        if value.name in self._loaded:
            return self._loaded[value.name]
        if not self._regions and (array.nbytes > _MOST_LITERAL or value.name):
            name = value.name or f"constant_{len(self._loaded)}"
            self._loaded[name] = self.parameter(name, type)
            self.parameters[name] = np.ascontiguousarray(array).reshape(array.shape)  # a folded one may lie in any way
            return self._loaded[name]
        if array.size == 0:
            return self.full(0, type.dtype, type.extents)
        flat = np.ascontiguousarray(array).reshape(-1)
        if flat.size > 1 and (flat.view(np.uint8).reshape(flat.size, -1) == flat[:1].view(np.uint8)).all():
            return self.expand(self.constant(Dense(TensorType(type.dtype, ()), flat[:1].tobytes())), type.extents)
        return self.constant(Dense(type, flat.tobytes()))

    def made(self, value: Value | None, kind: str) -> Node | None:
        """The node whose first output a tensor is, if it is of this op."""
        made = self._made_by.get(id(value))
        return made[0] if made is not None and made[0].kind == kind and made[1] == 0 else None

    def operand_of(self, value: Value | None, kind: str) -> Value | None:
        """The first input of the node that made a value, if it is of this op."""
        made = self._made_by.get(id(value))
        return made[0].inputs[0] if made is not None and made[0].kind == kind else None

    def before_swap(self, value: Value | None) -> Tensor | None:
        """What a tensor is the Transpose of, if that swaps the last two dims and no others."""
        made = self._made_by.get(id(value))
        if made is None or made[0].kind != "Transpose":
            return None
        rank = made[2].rank
        swap = [*range(rank - 2), rank - 1, rank - 2]
        return self.tensor(made[0].inputs[0]) if rank > 1 and made[0].attribute("perm", [1, 0]) == swap else None

    def known(self, value: Value | None, what: str) -> Known:
        """A value that the program must know: a constant, sizes, or what follows from inputs whose values are given."""
        if isinstance(value, Known):
            return value
        array = self._computed(value) if isinstance(value, Tensor) else None
        if array is None:
            names = ", ".join(repr(name) for name in sorted(self._origins.get(id(value), ())))
            hint = f"values={{{names}: ...}}, which makes a program for these values" if names else "a constant"
            raise Reject(f"{what} is not known before a call", hint)
        return Known(array)

    def narrow(self, value: Value | None) -> str:
        """ONNX's name of the elements that a value holds as wider ones; "" where it holds them as they are."""
        if isinstance(value, Known):
            return v.narrow_of(value.array.dtype)
        return self._narrow.get(id(value), ("", None))[0]

    def mark_narrow(self, tensor: Tensor, name: str) -> Tensor:
        """Notes that a tensor holds such elements."""
        self._narrow[id(tensor)] = (name, tensor)
        return tensor

    def decided(self, value: Value | None) -> Value | None:
        """A known value in place of a tensor that depends on given inputs alone."""
        array = self._computed(value) if isinstance(value, Tensor) else None
        return value if array is None else Known(array)

    def _computed(self, value: Tensor) -> np.ndarray | None:
        """The numbers of a tensor that depends on given inputs alone; None for any other one."""
        origins = self._origins.get(id(value))
        if origins is None or not origins <= self.given.keys():
            return None
        if id(value) not in self._numbers:
            self._numbers[id(value)] = self._evaluated(value)
        self.decisive |= origins
        return self._numbers[id(value)]

    def _evaluated(self, value: Tensor) -> np.ndarray | None:
        if id(value) in self._inputs:
            return np.asarray(self.given[self._inputs[id(value)]])
        node, place, _ = self._made_by[id(value)]
        arrays = [
            x.array if isinstance(x, Known) else self._computed(x) if isinstance(x, Tensor) else None
            for x in node.inputs
        ]
        if any(x is not None and (a is None or a.dtype == object) for x, a in zip(node.inputs, arrays)):
            return None
        return np.asarray(evaluate(node, arrays, self.opsets)[place])

    def _note(self, node: Node, place: int, value: Tensor) -> None:
        """Notes what made a tensor, and of which inputs it is, where it is of these and of known values alone."""
        if id(value) in self._made_by or id(value) in self._inputs:
            return
        self._made_by[id(value)] = (node, place, value)
        tensors = [x for x in node.inputs if x is not None and not isinstance(x, Known)]
        origins = [self._origins.get(id(x)) for x in tensors]
        if node.inputs and node.proto.domain in ("", "ai.onnx") and None not in origins:
            self._origins[id(value)] = frozenset().union(*(o for o in origins if o is not None))

    def is_prepared(self, value: Value | None) -> bool:
        """Whether a value is made of initialisers and constants alone, outside of branches and loops."""
        return not self._regions and (isinstance(value, Known) or self._origins.get(id(value)) == frozenset())

    def sizes(self, value: Value | None, what: str) -> list[Dim]:
        """Integers, of which some may be named extents."""
        return v.dims(self.known(value, what))

    def numbers(self, value: Value | None, what: str) -> list[int]:
        """Integers that are numbers."""
        found = self.sizes(value, what)
        if not all(isinstance(x, int) for x in found):
            raise Reject(f"{what} depends on a named size", "numbers")
        return [x for x in found if isinstance(x, int)]

    def type_of(self, value: Value) -> TensorType:
        """The type of a tensor, or of the one that a known value would be."""
        if isinstance(value, (Tensor, Known)):
            return value.type
        raise Reject(
            "strings" if isinstance(value, v.Text) else "a sequence or an optional where a tensor is needed",
            "tensors of numbers",
        )

    def bounds(self, dim: Dim) -> tuple[int, int]:
        """The smallest and largest value of a size."""
        return bounds(dim, self.ranges)

    def found_size(self, count: Tensor, limit: Dim, least: int = 0) -> Dim:
        """A size that the graph computes, from `least` to `limit`: a named extent of its own."""
        name = f"found_{len(self.ranges)}"
        most = min(max(self.bounds(limit)[1], 0), DEFAULT_MAX)
        self.builder.symbol(name, least, most)
        self.ranges[name] = (least, most)
        self.emit("set_extent", [count], [], {"extent": name, "bound": Dims((self._limit(limit),))})
        return Extent(name)

    def is_found(self, size: Dim) -> bool:
        """Whether a size depends on one that the graph computes, so that memory is planned for its largest value."""
        return isinstance(size, Extent) and any(name.startswith("found_") for name in size.symbols)

    def _limit(self, limit: Dim) -> Dim:
        """A bound over the sizes of inputs alone."""
        return self.bounds(limit)[1] if self.is_found(limit) else limit

    def from_place(self, x: Tensor, dim: int, start: Tensor, count: Dim) -> Tensor:
        """`count` elements of a dim from a place on."""
        attributes = {"dim": dim, "length": count if isinstance(count, int) else -1}
        return self.emit_one(
            "dynamic_slice",
            [x, start],
            TensorType(x.dtype, (*x.extents[:dim], count, *x.extents[dim + 1 :])),
            attributes,
        )

    def load_outer(self, graph: onnx.GraphProto) -> None:
        """Makes the tensors of known values that a nested graph reads, before its region begins."""
        for node in graph.node:
            for name in node.input:
                value = self.names.get(name)
                if isinstance(value, Known) and value.name:
                    self.tensor(value)
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    self.load_outer(attribute.g)

    @contextmanager
    def inner_region(self, arguments: Sequence[TensorType] = ()) -> Iterator[tuple[list[Tensor], list[Tensor]]]:
        """As `region`; constants in it stay in it, and so does what is checked in it."""
        outer = self.equal
        self._regions += 1
        try:
            with self.region(arguments) as given:
                yield given
        finally:
            self._regions -= 1
            self.equal = outer

    # Ops --------------------------------------------------------------------------------------------------------------

    def emit(
        self,
        name: str,
        operands: Sequence[Tensor | None],
        types: Sequence[TensorType],
        attributes: dict[str, Any] | None = None,
        regions: int = 0,
    ) -> list[Tensor]:
        """As GraphBuilder's; a result of fewer elements than none is refused."""
        for type in types:
            if any(isinstance(size, int) and size < 0 for size in type.extents):
                raise Reject(f"a result of the shape {shape_text(type.extents)}", "sizes that are not negative")
        return super().emit(name, operands, types, attributes, regions)

    def unary(self, name: str, x: Tensor, **attributes: Any) -> Tensor:
        """An op whose result has its operand's type."""
        return self.emit_one(name, [x], x.type, attributes)

    def common(self, *operands: Tensor | Number, dtype: str | None = None) -> list[Tensor]:
        """Operands broadcast to a common shape, in one element type: the first tensor's, if none is given."""
        tensors = [x for x in operands if isinstance(x, Tensor)]
        extents: tuple[Dim, ...] = ()
        for x in tensors:
            extents = self.broadcast(extents, x.extents)
        return [self.operand(x, TensorType(dtype or tensors[0].dtype, extents)) for x in operands]

    def broadcast(self, x: Sequence[Dim], y: Sequence[Dim]) -> tuple[Dim, ...]:
        """The shape that two shapes are broadcast to."""
        rank = min(len(x), len(y))
        for i, j in zip(tuple(x)[len(x) - rank :], tuple(y)[len(y) - rank :]):
            if i == j or 1 in (i, j):
                continue
            if isinstance(i, int) and isinstance(j, int):
                raise Reject(f"shapes {shape_text(x)} and {shape_text(y)} do not fit each other")
            self.same_size(i, j)
        return broadcast(tuple(x), tuple(y))

    def same_size(self, i: Dim, j: Dim) -> None:
        """Takes two sizes that an op needs to be equal; names that stand for one size become one name.

        Other sizes are compared in each call, which ends where they differ; `fitted` sees a tensor of one as of the other.

        Raises:
            SameSize: The import begins again with one name for both.
            Reject: They cannot be equal.
        """
        if i == j or (i, j) in self.equal:
            return
        names = [str(size) for size in (i, j) if isinstance(size, Extent)]
        if len(names) == 2 and all(name in self.ranges and not name.startswith("found_") for name in names):
            raise SameSize(*names)
        if not names:
            raise Reject(f"sizes {i} and {j}, which must be equal")
        low, high = self.bounds(i - j)
        if low > 0 or high < 0:
            raise Reject(f"sizes {i} and {j}, which must be equal and never are", "one number or name for both: sizes=")
        self.check_sizes(i, j, f"the sizes {i} and {j} differ")
        self.equal |= {(i, j), (j, i)}

    def check_sizes(self, i: Dim, j: Dim, words: str) -> None:
        """Ends a call in which two sizes differ, with words behind the place of the node."""
        pair = [self.signed(size) for size in (i, j)]
        same = self.emit_one("eq", pair, TensorType("i1", ()))
        self.emit("check", [same], [], {"message": f"{self.location.module}: {words}"})

    def fitted(self, x: Tensor, extents: Sequence[Dim]) -> Tensor:
        """A tensor whose sizes are seen as those, aligned at their ends, that they were checked to be equal to."""
        lead = len(extents) - x.rank
        for d, size in enumerate(x.extents):
            wanted = extents[lead + d] if lead + d >= 0 else size
            if size != wanted and (size, wanted) in self.equal:
                x = self.slice(x, d, 0, SLICE_END_BY_TYPE, wanted)
        return x

    def expand(self, x: Tensor, extents: Sequence[Dim]) -> Tensor:
        """As GraphBuilder's, of sizes that calls are checked to have, too."""
        pairs = list(zip(reversed(x.extents), reversed(extents)))
        if x.rank > len(extents) or any(
            isinstance(a, int) and isinstance(b, int) and a not in (1, b) for a, b in pairs
        ):
            raise Reject(
                f"a tensor of the shape {shape_text(x.extents)} for {shape_text(extents)}", "a shape that expands to it"
            )
        for a, b in pairs:
            if a not in (1, b):
                self.same_size(a, b)
        x = self.fitted(x, extents)
        return super().expand(x, extents)

    def need_not_negative(self, dim: Dim, always: bool = False) -> None:
        """Takes a size that an op needs to be 0 or more, where one name without bounds of the caller's decides.

        `always`: also a name with such bounds, of which the smallest is raised.

        Raises:
            SmallestSize: The import begins again with a larger smallest size, which calls are held to.
        """
        if not isinstance(dim, Extent) or len(dim.symbols) != 1:
            return
        (name,) = dim.symbols
        if name not in self.ranges or (name in self.bounded and not always) or name.startswith("found_"):
            return
        low, high = self.ranges[name]
        fits = lambda least: bounds(dim, {**self.ranges, name: (least, high)})[0] >= 0  # noqa: E731
        places = range(low, min(high, _MOST_NEEDED) + 1)
        least = low + bisect.bisect_left(places, True, key=fits)
        if least in places:
            raise SmallestSize(name, least)

    def need_places(self, sizes: Sequence[Dim], what: str) -> None:
        """Takes sizes of a result of windows, of which each must have one or more; calls with fewer end."""
        if any(isinstance(size, int) and size < 0 for size in sizes):
            words = f"{what} at '{self.location.module}' has a result of the sizes {shape_text(sizes)}"
            raise UserError(f"{self.model} is no valid model: {words}")
        for size in sizes:
            if not isinstance(size, Extent):
                continue
            if self.bounds(size)[0] < 1:
                self.need_not_negative(size - 1, always=True)
            if self.bounds(size)[0] < 1:
                least = self.emit_one("ge", [self.signed(size), self.scalar(1, "i64")], TensorType("i1", ()))
                words = f"{what} has a result of {size} elements along a dim, of which there are none"
                self.emit("check", [least], [], {"message": f"{self.location.module}: {words}"})

    def need_elements(self, size: Dim, count: int, what: str) -> None:
        """Takes a size that an op needs to be at least a number; calls with a smaller one end."""
        if isinstance(size, int) or self.bounds(size)[0] >= count:
            return
        self.need_not_negative(size - count, always=True)
        if self.bounds(size)[0] < count:
            enough = self.emit_one("ge", [self.signed(size), self.scalar(count, "i64")], TensorType("i1", ()))
            words = f"{self.location.module}: {what} needs {count} elements along a dim of {size}"
            self.emit("check", [enough], [], {"message": words})

    def need_vector(self, x: Tensor, size: Dim, what: str) -> Tensor:
        """A tensor that an op needs to be a vector of so many elements, seen as one of that size."""
        own = x.extents[0] if x.rank == 1 else None
        if own is None or isinstance(own, int) and isinstance(size, int) and own != size:
            raise Reject(f"{what} of the shape {shape_text(x.extents)}", f"[{size}]")
        self.same_size(own, size)
        return self.fitted(x, (size,))

    def signed(self, size: Dim) -> Tensor:
        """A number of sizes that may be below 0."""
        return self.computed(size, lambda name: self.scalar(Extent(name), "i64"))

    def binary(self, name: str, x: Tensor | Number, y: Tensor | Number, dtype: str | None = None) -> Tensor:
        """An op of two operands, broadcast, whose result has their element type."""
        pair = self.common(x, y, dtype=dtype)
        return self.emit_one(name, pair, pair[0].type)

    def compare(self, name: str, x: Tensor | Number, y: Tensor | Number) -> Tensor:
        """A comparison, broadcast."""
        pair = self.common(x, y)
        return self.emit_one(name, pair, TensorType("i1", pair[0].extents))

    def where(self, condition: Tensor, x: Tensor | Number, y: Tensor | Number) -> Tensor:
        """Elements of x where the condition is true, else of y, broadcast."""
        dtype = next(t.dtype for t in (x, y) if isinstance(t, Tensor))
        extents = condition.extents
        for t in (x, y):
            extents = self.broadcast(extents, t.extents) if isinstance(t, Tensor) else extents
        type = TensorType(dtype, extents)
        return self.emit_one(
            "where", [self.expand(condition, extents), self.operand(x, type), self.operand(y, type)], type
        )

    def cast(self, x: Tensor, dtype: str) -> Tensor:
        """Converts to an element type, if it is another one; floats of 8 bits by converters alone."""
        if x.dtype != dtype and (x.dtype.startswith("f8") or dtype.startswith("f8")):
            if dtype.startswith("f8"):
                raise Reject(f"{x.dtype} as {dtype}", "Cast")
            return CONVERSIONS["of_float8"](self, x, dtype)
        return super().cast(x, dtype)

    def axis(self, axis: int, rank: int) -> int:
        """A dim from the beginning."""
        if not -rank <= axis < max(rank, 1):
            raise Reject(f"axis {axis} of a tensor of rank {rank}")
        return wrap(axis, rank)

    def axes(self, axes: Sequence[int], rank: int) -> list[int]:
        """Dims in rising order, each from the beginning."""
        return sorted({self.axis(axis, rank) for axis in axes})

    def literal(self, array: np.ndarray, dtype: str | None = None) -> Tensor:
        """A constant tensor."""
        return self.tensor(Known(array if dtype is None else array.astype(v.numpy_dtype(dtype))))

    def iota(self, count: Dim, dtype: str = "i64") -> Tensor:
        """0, 1, ... of a rank of 1."""
        return self.cast(self.emit_one("iota", [], TensorType("i64", (count,)), {"start": 0, "step": 1}), dtype)

    def wide(self, x: Tensor, convert: Callable[[Tensor], Tensor]) -> Tensor:
        """What is computed of a tensor of halves in f32, rounded once."""
        return self.cast(convert(self.cast(x, "f32")), x.dtype) if x.dtype in ("f16", "bf16") else convert(x)


def known_of(tensor: onnx.TensorProto, name: str = "") -> Value:
    """The value of an initialiser."""
    array = numpy_helper.to_array(tensor)
    return v.text_of(array) if tensor.data_type == onnx.TensorProto.STRING else Known(array, name)


def _elements_of(kind: str, arrays: Sequence[np.ndarray]) -> float:
    """How many elements a result has that may have many more than the inputs; 0 for other ops."""
    with np.errstate(all="ignore"):
        if kind == "ConstantOfShape":
            return float(np.prod(arrays[0].astype(np.float64)))
        if kind in ("Expand", "Tile") and len(arrays) > 1:
            return float(np.prod(np.abs(arrays[1].astype(np.float64)))) * max(arrays[0].size, 1)
        if kind == "Range" and len(arrays) == 3:
            start, limit, step = (float(a.reshape(-1)[0]) for a in arrays)
            return abs((limit - start) / step) if step else math.inf
    return 0.0


_NOT_FOLDED = frozenset(
    """RandomNormal RandomNormalLike RandomUniform RandomUniformLike Bernoulli Multinomial Dropout If Loop Scan
    SequenceConstruct SequenceInsert SequenceAt SequenceEmpty SequenceErase SequenceLength SplitToSequence ConcatFromSequence
    SequenceMap Optional OptionalGetElement OptionalHasElement Pad Resize Upsample OneHot EyeLike""".split()
)


_MOVES_TEXT = frozenset("Cast Expand Flatten Gather Identity Reshape Slice Squeeze Tile Transpose Unsqueeze".split())


def _invalid(node: Node, error: Exception, ctx: Importer) -> Exception:
    """What to raise where a converter fails: the user's error where onnx refuses the node, else ours."""
    proto = node.proto
    context = onnx.checker.C.CheckerContext()
    context.ir_version = onnx.IR_VERSION
    context.opset_imports = dict(ctx.opsets)
    words = f"{type(error).__name__}: {error}"
    try:
        onnx.checker.check_node(proto, context)
    except (onnx.checker.ValidationError, ValueError) as invalid:  # a ValueError of text that is none
        return UserError(
            f"{ctx.model}: node '{_called(proto)}' is no valid {op_name(proto)}: {str(invalid).strip().splitlines()[0]}"
        )
    if isinstance(error, KeyError):  # a converter looked a name up
        for attribute in proto.attribute:
            if attribute.type == onnx.AttributeProto.STRING and error.args[:1] == (_attribute(attribute),):
                return UserError(
                    f"{ctx.model}: node '{_called(proto)}' is no valid {op_name(proto)}: "
                    f"{attribute.name} is {_attribute(attribute)!r}"
                )
    if refused := refused_by_reference(node, ctx):
        return UserError(refused)
    known = ", ".join(f"{a.name}={_attribute(a)!r}" for a in proto.attribute if a.type not in _NESTED)
    return InternalError(f"node '{_called(proto)}' ({op_name(proto)}; {known}) cannot be converted: {words}")


def _of_wrong_type(node: Node, ctx: Importer) -> str:
    """Why an attribute has no type that the op's schema has for it; "": each has. Integers may stand for floats."""
    domain = "" if node.proto.domain == "ai.onnx" else node.proto.domain
    types = _attribute_types(node.proto.op_type, ctx.opsets.get(domain, 1), domain) if node.proto.attribute else {}
    for a in node.proto.attribute:
        wanted = 0 if a.ref_attr_name else types.get(a.name, 0)
        if wanted not in (0, a.type) and (wanted, a.type) not in _EXACT_AS:
            of = onnx.AttributeProto.AttributeType.Name
            return (
                f"{ctx.model}: node '{_called(node.proto)}' is no valid {op_name(node.proto)}: "
                f"{a.name}={_attribute(a)!r} is {of(a.type)} where {of(wanted)} is needed"
            )
    return ""


@functools.cache
def _attribute_types(op: str, version: int, domain: str) -> Mapping[str, int]:
    """Types of the attributes of an op, by name; none where onnx has no such op."""
    try:
        schema = onnx.defs.get_schema(op, version, domain)
    except (onnx.defs.SchemaError, TypeError):  # of a name that is no text
        return {}
    return {name: int(formal.type.value) for name, formal in schema.attributes.items()}


#: Pairs of a schema's type and of one that stands for it.
_EXACT_AS = {
    (onnx.AttributeProto.FLOAT, onnx.AttributeProto.INT),
    (onnx.AttributeProto.FLOATS, onnx.AttributeProto.INTS),
}


def refused_by_reference(node: Node, ctx: Importer) -> str:
    """Why onnx's inference or reference takes no node of such inputs, zeros where they are not known; "": it takes it."""
    if any(a.type in _NESTED[:2] for a in node.proto.attribute) or node.proto.domain not in ("", "ai.onnx"):
        return ""
    arrays = [None if value is None else _example(value, ctx) for value in node.inputs]
    if any(a is None and value is not None for a, value in zip(arrays, node.inputs)):
        return ""
    types = ", ".join("none" if a is None else f"{a.dtype}{shape_text(a.shape)}" for a in arrays)
    try:
        with np.errstate(all="ignore"):
            evaluate(node, arrays, ctx.opsets, strict=True)
    except Reject as refusal:
        cause = refusal.__cause__ or refusal
        words = next(iter(str(cause).strip().splitlines()), type(cause).__name__)
        return f"{ctx.model}: node '{_called(node.proto)}' is no valid {op_name(node.proto)} of {types}: {words}"
    return ""


def _example(value: Value, ctx: Importer) -> np.ndarray | None:
    """Numbers of a value that has such a type; None for large ones and for what is no tensor."""
    if isinstance(value, Known) and not value.is_sizes:
        return value.array
    if not isinstance(value, (Known, Tensor)):
        return None
    type = ctx.type_of(value)
    middle = {name: min(max(low, 7), high) for name, (low, high) in ctx.ranges.items()}
    shape = [value_of(extent, middle) for extent in type.extents]
    if math.prod(shape) > _MOST_ASKED or min(shape, default=0) < 0:
        return None
    return np.zeros(shape, v.numpy_dtype(type.dtype))


_NESTED = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS, onnx.AttributeProto.TENSOR)


def branch_name(node: Node) -> str:
    """A name of an If by which it is known when a model is imported again."""
    return f"{_called(node.proto)} ({', '.join(node.proto.output)})"


def _called(proto: onnx.NodeProto) -> str:
    return proto.name or next((name for name in proto.output if name), "") or proto.op_type


def shape_text(extents: Sequence[Dim]) -> str:
    """`[2, n]`."""
    return f"[{', '.join(map(str, extents))}]"


def evaluate(
    node: Node, arrays: Sequence[np.ndarray | None], opsets: Mapping[str, int], strict: bool = False
) -> list[Any]:
    """The results of a node over numbers, by onnx's own reference implementation; `strict`: its inference must take it, too."""
    from onnx.reference import ReferenceEvaluator

    inputs = [helper.make_tensor_value_info(f"i{i}", helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
              for i, a in enumerate(arrays) if a is not None]  # fmt: skip
    proto = onnx.NodeProto()
    proto.CopyFrom(node.proto)
    del proto.input[:], proto.output[:]
    proto.input.extend("" if a is None else f"i{i}" for i, a in enumerate(arrays))
    outputs = [f"o{i}" if name else "" for i, name in enumerate(node.proto.output)]
    proto.output.extend(outputs)
    wanted = [name for name in outputs if name]
    results = [onnx.ValueInfoProto(name=name) for name in wanted]
    graph = helper.make_graph([proto], "folded", inputs, results)
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    model = helper.make_model(graph, opset_imports=imports)
    feeds = {f"i{i}": a for i, a in enumerate(arrays) if a is not None}
    try:
        if strict:
            onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
        found = dict(zip(wanted, ReferenceEvaluator(model).run(None, feeds)))
    except Exception as error:  # what the reference raises is of any kind
        raise Reject(f"its constant inputs cannot be evaluated: {type(error).__name__}: {error}") from error
    return [found.get(name) for name in outputs]


def _no_op(kind: str) -> tuple[str, str]:
    """Why an op without a form is refused, and the op of the nearest name."""
    near = difflib.get_close_matches(kind, list(CONVERTERS), 1)
    return f"there is no op {kind} here", near[0] if near else ""


def _schema(proto: onnx.NodeProto, opsets: Mapping[str, int]) -> Any:
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    try:
        return onnx.defs.get_schema(proto.op_type, opsets.get(domain, 1), domain)
    except (onnx.defs.SchemaError, TypeError):  # of a name that is no text
        return None


def _typed_inputs(node: Node, schema: Any) -> Iterator[tuple[Any, Known | Tensor]]:
    """Inputs that are tensors, with the schema's own; without those whose types are each its own (of Loop, Scan)."""
    last = len(schema.inputs) - 1
    for place, value in enumerate(node.inputs if last >= 0 else ()):
        formal = schema.inputs[min(place, last)]
        is_free = place >= last and formal.option == formal.option.Variadic and not formal.is_homogeneous
        if isinstance(value, (Known, Tensor)) and not is_free:
            yield formal, value


def _has_form(proto: onnx.NodeProto, opsets: Mapping[str, int]) -> bool:
    """Whether there is a converter of the op, or a body that its schema defines it with."""
    if op_name(proto) in CONVERTERS:
        return True
    schema = _schema(proto, opsets)
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def _body(node: Node, ctx: Importer) -> Any:
    """The function that the schema of an op defines it with, as onnx has it for these types; None where there is none."""
    schema = _schema(node.proto, ctx.opsets)
    if schema is None:
        return None
    if schema.has_context_dependent_function:
        types = []
        for value in node.inputs:
            element = onnx.TypeProto()
            if value is not None:
                type = ctx.type_of(value)
                element.tensor_type.elem_type = next(e for e, name in v.DTYPES.items() if name == type.dtype)
                for extent in type.extents:
                    dim = element.tensor_type.shape.dim.add()
                    if isinstance(extent, int):
                        dim.dim_value = extent
            types.append(element.SerializeToString())
        text = schema.get_context_dependent_function(node.proto.SerializeToString(), types)
        body = onnx.FunctionProto.FromString(text)
    elif schema.has_function:
        body = schema.function_body
    else:
        return None
    return _Body(body, schema)


class _Body:
    """A function's nodes and names, with the default values of the op's attributes."""

    def __init__(self, proto: onnx.FunctionProto, schema: Any) -> None:
        self.node, self.input, self.output = proto.node, proto.input, proto.output
        self.attribute_proto = [*proto.attribute_proto]
        for name, attribute in schema.attributes.items():
            if attribute.default_value.name:
                default = onnx.AttributeProto()
                default.CopyFrom(attribute.default_value)
                default.name = name
                self.attribute_proto.append(default)


def _bound(proto: onnx.NodeProto, attributes: Mapping[str, onnx.AttributeProto]) -> onnx.NodeProto:
    """A node of a function's body with the attributes of the call in place of references to them."""
    if not any(a.ref_attr_name for a in proto.attribute):
        return proto
    bound = onnx.NodeProto()
    bound.CopyFrom(proto)
    del bound.attribute[:]
    for a in proto.attribute:
        if not a.ref_attr_name:
            bound.attribute.add().CopyFrom(a)
        elif a.ref_attr_name in attributes:
            given = bound.attribute.add()
            given.CopyFrom(attributes[a.ref_attr_name])
            given.name = a.name
    return bound
