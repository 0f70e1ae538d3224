# SPDX-License-Identifier: Apache-2.0
"""Turns FX nodes into builder calls: values, dtypes, locations, and the table of converters."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

from straightline import own_kernels
from straightline.capture.builder import FLOAT8, Attr, Dense, Dim, Extent, FrameworkRule, Location, TensorType
from straightline.capture.extents import product_of
from straightline.capture.graph_builder import MAX_RANK, GraphBuilder, Reject, Tensor, not_of_floats, of_other_floats
from straightline.capture.target_facts import TargetFacts
from straightline.capture.torch.data_sizes import DataSizes, scalar_of
from straightline.capture.torch.eager_refusals import holds, is_beyond_all, refusal_of_eager
from straightline.capture.torch.symbolic_sizes import DEPENDS_ON_DATA, ExtentPrinter
from straightline.errors import InternalError, UnsupportedError, UserError

if TYPE_CHECKING:
    from straightline.capture.torch.functional import ValueGraph

_DTYPE_NAMES = {
    torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16",
    torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
    torch.uint8: "ui8", torch.uint16: "ui16", torch.uint32: "ui32", torch.uint64: "ui64", torch.bool: "i1",
    torch.float8_e4m3fn: "f8E4M3FN", torch.float8_e4m3fnuz: "f8E4M3FNUZ", torch.float8_e5m2: "f8E5M2",
    torch.float8_e5m2fnuz: "f8E5M2FNUZ", torch.float8_e8m0fnu: "f8E8M0FNU",
}  # fmt: skip
_TORCH_DTYPES = {name: dtype for dtype, name in _DTYPE_NAMES.items()}

#: Types that no kernel of ours computes with: what moves their elements or looks at none is ours, all else torch's.
_MOVED = frozenset(dtype for dtype, name in _DTYPE_NAMES.items() if name in ("ui16", "ui32", "ui64", *FLOAT8))
_MOVES = frozenset(
    f"aten.{name}"
    for name in (
        "alias.default", "cat.default", "clone.default", "contiguous.default", "detach.default", "expand.default",
        "flatten.using_ints", "flip.default", "lift_fresh_copy.default", "permute.default", "reshape.default", "select.int",
        "slice.Tensor", "split.Tensor", "split_with_sizes.default", "squeeze.default", "squeeze.dim", "squeeze.dims",
        "stack.default", "t.default", "transpose.int", "unbind.int", "unsqueeze.default", "view.default",
        "_unsafe_view.default", "_assert_tensor_metadata.default", "sym_numel.default", "sym_size.int",
        "sym_storage_offset.default", "sym_stride.int",
    )
)  # fmt: skip

#: Constants up to this size are literals of the graph, which can fold; larger ones are parameters.
MAX_LITERAL_ELEMENTS = 64

TORCH_FOLDER = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


@dataclass(frozen=True)
class Complex(Tensor):
    """Complex numbers, as real ones whose last dimension holds both parts; only ops of the long tail take them whole."""

    complex_dtype: torch.dtype


#: The real dtype of the parts of a complex one.
PARTS = {torch.complex64: torch.float32, torch.complex128: torch.float64, torch.complex32: torch.float16}


def _moved(node: torch.fx.Node) -> torch.dtype | None:
    """A dtype among arguments and results that is not computed with."""
    fakes = (torch.utils._pytree.tree_leaves(one.meta.get("val")) for one in (node, *node.all_input_nodes))
    dtypes = (getattr(fake, "dtype", None) for leaves in fakes for fake in leaves)
    return next((dtype for dtype in dtypes if dtype in _MOVED), None)


def dtype_name(dtype: torch.dtype) -> str:
    """Returns the IR's name of a torch dtype; raises `Reject` for one that has none."""
    if dtype not in _DTYPE_NAMES:
        raise Reject(f"dtype {dtype} is not supported", _nearest_dtype(dtype))
    return _DTYPE_NAMES[dtype]


def torch_dtype(name: str) -> torch.dtype:
    """Returns the torch dtype of an element type."""
    return _TORCH_DTYPES[name]


def _nearest_dtype(dtype: torch.dtype) -> str:
    if dtype.is_complex:
        return "two real tensors"
    return "bfloat16 or float16" if dtype.is_floating_point else "int64"


@dataclass
class Arguments:
    """The arguments of one ATen call by the names of its schema, defaults filled in."""

    values: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.values[name]
        except KeyError as error:
            raise InternalError(f"converter asks for argument '{name}', the op has {list(self.values)}") from error

    def get(self, name: str, default: Any = None) -> Any:
        """The argument of that name, or `default` where this overload has none."""
        return self.values.get(name, default)


Converter = Callable[["Importer", Arguments, torch.fx.Node], "Tensor | Sequence[Tensor | None] | None"]

#: "aten.add.Tensor" -> converter. Filled by the modules of each family as they are imported.
CONVERTERS: dict[str, Converter] = {}
#: Those whose converters take complex numbers.
TAKES_COMPLEX: set[str] = set()
#: What to do instead, for ops that are known and not supported.
NEAREST: dict[str, str] = {}


def converter(*overloads: str) -> Callable[[Converter], Converter]:
    """Registers a converter for op overloads such as "aten.add.Tensor"."""

    def register(function: Converter) -> Converter:
        for overload in overloads:
            if overload in CONVERTERS:
                raise InternalError(f"two converters for {overload}")
            CONVERTERS[overload] = function
        return function

    return register


@dataclass(frozen=True)
class UnsupportedNode:
    """One node that cannot be converted."""

    op: str
    reason: str
    operands: str
    location: Location
    nearest: str

    def __str__(self) -> str:
        hint = f"; nearest supported form: {self.nearest}" if self.nearest else ""
        return f"{self.op}({self.operands}) at {self.location}: {self.reason}{hint}"


@dataclass
class Importer(GraphBuilder):
    """Converts the nodes of a graph, and of the graphs nested in it."""

    extents: ExtentPrinter = field(kw_only=True)
    #: Sizes that the graph computes.
    data_sizes: DataSizes = field(kw_only=True)
    #: Makes a call of torch for an op that no converter takes, and why; raises `Reject` for one that has no such form.
    convert_tail: Callable[[Importer, torch.fx.Node, str], Any] = field(kw_only=True)
    #: Location of the control-flow op whose branch is being converted.
    outer: Location = field(default_factory=Location)
    unsupported: list[UnsupportedNode] = field(default_factory=list)
    #: Refused nodes with all that work on their results, and how many are refused only because they do.
    of_refused: set[torch.fx.Node] = field(default_factory=set)
    #: Values whose contents are undefined (`empty`), by id: an own kernel that fills one has no old value to keep.
    undefined: dict[int, Tensor] = field(default_factory=dict)
    following: int = 0
    #: Whether ops without a native form may be called through the framework.
    allows_aten: bool = True
    #: What masks of attention keep (`fixed_values`).
    kept_by_mask: dict[torch.fx.Node, str | None] = field(default_factory=dict)
    #: What is known of where the program runs.
    target: TargetFacts = field(kw_only=True)
    #: The rule by which the user wants torch to do an op (by name) at a place, in words; None: no op has one.
    to_aten: FrameworkRule | None = None
    #: The node that is being converted.
    node: torch.fx.Node | None = None
    #: Whether a converter is at work, whose ops routes hold for.
    converts: bool = False
    #: FX node -> Tensor, list of Tensor (several results), or a number or extent.
    environment: dict[torch.fx.Node, Any] = field(default_factory=dict)

    def emit(
        self,
        name: str,
        operands: Sequence[Tensor | None],
        types: Sequence[TensorType],
        attributes: dict[str, Attr] | None = None,
        regions: int = 0,
    ) -> list[Tensor]:
        """As `GraphBuilder.emit`; refuses an op of a converter that the user wants torch to do, and what eager refuses."""
        value = (attributes or {}).get("value")
        fits = not isinstance(value, (int, float)) or all(holds(torch_dtype(type.dtype), value) for type in types)
        if not fits or not_of_floats(name, operands) is not None or of_other_floats(name, operands) is not None:
            self.refuse_as_eager()
            if any(is_beyond_all(type.dtype, value) for type in types):
                raise Reject(f"{value} is no {types[0].dtype}")
        if self.converts and self.to_aten and (rule := self.to_aten(name, self.location)):
            raise Reject(f"route {rule}")
        return super().emit(name, operands, types, attributes, regions)

    def may_be_negative(self, value: Extent) -> bool:
        """As `GraphBuilder.may_be_negative`, by the bounds of this graph's sizes."""
        try:
            return super().may_be_negative(value) and self.data_sizes.bounds(value)[0] < 0
        except (KeyError, ValueError):  # a size of a call, or a quotient by one that may be 0
            return True

    def scalar(self, value: Any, dtype: str) -> Tensor:
        """As `GraphBuilder.scalar`; a number that depends on data is the tensor that has it."""
        if isinstance(value, Extent) and value.symbols & set(self.data_sizes.numbers):
            return self.cast(scalar_of(self, value), dtype)
        return super().scalar(value, dtype)

    def reshape(self, x: Tensor, extents: Sequence[Dim]) -> Tensor:
        """As `GraphBuilder.reshape`; sizes may have to be compared first."""
        count = product_of(tuple(extents))
        if product_of(x.extents) != count:
            self.data_sizes.refuse_unbounded(extents)
            if self.data_sizes.numbers:
                x = self.same(x, self.data_sizes.renamed(x.extents, extents))
        if (own := product_of(x.extents)) != count:
            x = self.same(super().reshape(x, (own,)), (count,))
        return super().reshape(x, extents)

    def expand(self, x: Tensor, extents: Sequence[Dim]) -> Tensor:
        """As `GraphBuilder.expand`; sizes may have to be compared first."""
        return super().expand(self.same(x, extents[len(extents) - x.rank :]), extents)

    def cat(self, parts: Sequence[Tensor], dim: int, type: TensorType) -> Tensor:
        """As `GraphBuilder.cat`; sizes may have to be compared first."""
        shapes = (
            (part, [p if d == dim else e for d, (p, e) in enumerate(zip(part.extents, type.extents))]) for part in parts
        )
        return super().cat([self.same(part, shape) for part, shape in shapes], dim, type)

    def same(self, x: Tensor, extents: Sequence[Dim]) -> Tensor:
        """`x` with sizes that torch takes to be equal to its own: where their texts differ, each call compares them."""
        return self.data_sizes.same(self, x, extents) if x.extents != tuple(extents) else x

    # Types ------------------------------------------------------------------------------------------------------------

    def type_of(self, fake: torch.Tensor) -> TensorType:
        """The type of a fake tensor; raises `Reject` for one that no buffer can hold."""
        if fake.layout != torch.strided:
            raise Reject(f"layout {fake.layout} is not supported", "a dense tensor")
        if fake.dim() > MAX_RANK:
            raise Reject(f"rank {fake.dim()} is not supported", f"at most {MAX_RANK} dims")
        extents = tuple(self.extents.dim(size) for size in fake.shape)
        self.data_sizes.refuse_unbounded(extents)
        return TensorType(dtype_name(fake.dtype), extents)

    def parts_type(self, fake: torch.Tensor) -> TensorType:
        """The type of the real numbers that stand for a complex tensor (`Complex`), or of any other one."""
        if fake.dtype not in PARTS:
            return self.type_of(fake)
        if fake.dim() >= MAX_RANK:  # both parts are a dimension of their own
            raise Reject(f"complex numbers of rank {fake.dim()} are not supported", f"at most {MAX_RANK - 1} dims")
        extents = (*(self.extents.dim(size) for size in fake.shape), 2)
        return TensorType(dtype_name(PARTS[fake.dtype]), extents)

    def result_type(self, node: torch.fx.Node, index: int | None = None) -> TensorType:
        """The type of a node's result, or of one of its results."""
        fake = node.meta["val"]
        fake = fake if index is None else fake[index]
        if not isinstance(fake, torch.Tensor):
            raise Reject(f"result is {fake!r}, not a tensor")
        return self.type_of(fake)

    def promoted(self, *operands: Any, int_to_float: bool = False) -> str:
        """The common element type of tensors and Python numbers, by torch's rules."""
        kinds = ELEMENTWISE_TYPE_PROMOTION_KIND
        kind = kinds.INT_TO_FLOAT if int_to_float else kinds.DEFAULT
        # Shapes matter only as 0-d or not.
        samples = [
            torch.empty((0,) * x.rank, dtype=torch_dtype(x.dtype), device="meta")
            if isinstance(x, Tensor)
            else (0 if isinstance(x, Extent) else x)
            for x in operands
        ]
        return dtype_name(elementwise_dtypes(*samples, type_promotion_kind=kind)[1])

    # Nodes ------------------------------------------------------------------------------------------------------------

    def argument(self, x: Any) -> Any:
        """Maps an FX argument: nodes to their values, symbolic sizes to extents, containers by element."""
        if isinstance(x, torch.fx.Node):
            if x not in self.environment:
                raise InternalError(f"node {x.name} is used before it is converted")
            return self.environment[x]
        if isinstance(x, (list, tuple)):
            return [self.argument(item) for item in x]
        if isinstance(x, torch.SymInt):
            return self.extents.dim(x)
        if isinstance(x, (torch.SymFloat, torch.SymBool)):
            raise Reject(f"a number {DEPENDS_ON_DATA}")
        return x

    def arguments(self, node: torch.fx.Node) -> Arguments:
        """The arguments of an ATen call by name."""
        return self.call_arguments(node.target, node.args, node.kwargs)

    def call_arguments(self, op: torch._ops.OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Arguments:
        """The arguments of a call of an op by name."""
        values: dict[str, Any] = {}
        for index, declared in enumerate(op._schema.arguments):
            if not declared.kwarg_only and index < len(args):
                values[declared.name] = self.argument(args[index])
            elif declared.name in kwargs:
                values[declared.name] = self.argument(kwargs[declared.name])
            else:
                values[declared.name] = declared.default_value
        return Arguments(values)

    def run_node(self, node: torch.fx.Node) -> None:
        """Converts one call; a refusal is recorded and its results replaced, so that the walk goes on."""
        self.location, self.node = location_of(node, self.outer), node
        name = str(node.target)
        function = CONVERTERS.get(name)
        try:
            if function is None:
                raise Reject("no native kernel", NEAREST.get(name, NEAREST.get(_packet(name), "")))
            has_schema = isinstance(node.target, torch._ops.OpOverload)
            arguments = self.arguments(node) if has_schema else Arguments({})
            if name.startswith("aten.") and name not in _MOVES and (moved := _moved(node)):
                raise Reject(f"numbers of {moved}, which have no kernels of our own")
            if name not in TAKES_COMPLEX and any(isinstance(x, Complex) for x in _leaves(arguments)):
                raise Reject("complex numbers", "two real tensors")
            with self._routes_hold(True):
                self.environment[node] = function(self, arguments, node)
        except (OverflowError, ValueError) as error:  # of int() for a number that is no integer
            if not isinstance(error, UserError):
                self.node = node
                self.refuse_as_eager()
            raise
        except (Reject, UnsupportedError) as refusal:
            with self._routes_hold(False):
                self._run_through_framework(node, name, refusal)
        if self._is_of_refused(node):
            self.of_refused.add(node)

    def refuse_as_eager(self) -> None:
        """Raises `UserError` if eager refuses the node that is being converted."""
        node = self.node
        words = refusal_of_eager(node) if node is not None else ""
        if words:
            operands = ", ".join(described(arg) for arg in node.all_input_nodes)
            raise UserError(f"{node.target}({operands}) at {self.location}: {words} (eager refuses it, too)")

    @contextmanager
    def _routes_hold(self, hold: bool) -> Iterator[None]:
        """Sets whether routes hold while one node is converted; nodes of a branch are converted inside another node."""
        before, self.converts = self.converts, hold
        try:
            yield
        finally:
            self.converts = before

    @property
    def why_no_aten(self) -> str:
        """Why no op becomes a call of torch, where that is so (`allows_aten`)."""
        if self.target.supports("runs_framework_ops"):
            return "which `allow` leaves out"
        return f"which does not run on {self.target.target}; a rule such as '* = auto, cpu' gives it to the host"

    def _run_through_framework(self, node: torch.fx.Node, name: str, refusal: Reject | UnsupportedError) -> None:
        """Tries a call of torch for a node that its converter refused; records the refusal if that fails too."""
        reason, nearest = str(refusal), getattr(refusal, "nearest", "")
        if isinstance(node.target, torch._ops.OpOverload):
            if self.allows_aten or own_kernels.find(node.target._schema.name):
                try:
                    self.environment[node] = self.convert_tail(self, node, reason)
                    return
                except (Reject, UnsupportedError) as second:
                    reason = f"{reason}, and {second}" if str(second) != reason else reason
                    nearest = nearest or getattr(second, "nearest", "")
            else:
                reason = f"{reason}, so it runs through 'aten', {self.why_no_aten}"
        self._record(node, name, reason, nearest)
        self.of_refused.add(node)
        self.environment[node] = self._stand_in(node.meta.get("val"))

    def _record(self, node: torch.fx.Node, name: str, reason: str, nearest: str) -> None:
        if DEPENDS_ON_DATA in reason and self._is_of_refused(node):
            self.following += 1
            return
        operands = ", ".join(described(arg) for arg in node.all_input_nodes)
        self.unsupported.append(UnsupportedNode(name, reason, operands, self.location, nearest))

    def _is_of_refused(self, node: torch.fx.Node) -> bool:
        return any(argument in self.of_refused for argument in node.all_input_nodes)

    def _stand_in(self, fake: Any) -> Any:
        """Placeholder results of a refused node; the function is discarded at the end."""
        if isinstance(fake, (list, tuple)):
            return [self._stand_in(item) for item in fake]
        if not isinstance(fake, torch.Tensor):
            return 0
        dtype = _DTYPE_NAMES.get(fake.dtype, "f32")
        extents = tuple(self._known_extent(size) for size in fake.shape[:MAX_RANK])
        if fake.is_complex():
            parts = self.emit_one(
                "parameter", [], TensorType(dtype, (*extents[: MAX_RANK - 1], 2)), {"name": "refused"}
            )
            return Complex(parts.value, parts.type, fake.dtype)
        return self.emit_one("parameter", [], TensorType(dtype, extents), {"name": "refused"})

    def _known_extent(self, size: int | torch.SymInt) -> Dim:
        try:
            return self.extents.dim(size)
        except UnsupportedError:
            return 1

    def attribute(self, value: Any, name: str) -> Any:
        """The value of a `get_attr` node: a tensor is a literal, or a parameter where it is large; a nested graph is itself."""
        if not isinstance(value, torch.Tensor):
            return value
        if value.numel() > MAX_LITERAL_ELEMENTS:
            raise UnsupportedError(
                f"a branch, loop or decomposition has a constant of {value.numel()} elements ({name})"
            )
        return self.constant(Dense(self.type_of(value), bytes_of(value)))

    def inline(self, graph: ValueGraph, operands: Sequence[Any]) -> list[Any]:
        """Converts the graph of a nested module at this place; returns its outputs."""
        with self.data_sizes.nested(graph.graph.nodes):
            return self._inlined(graph, iter(operands))

    def _inlined(self, graph: ValueGraph, inputs: Iterator[Any]) -> list[Any]:
        around, self.outer = self.outer, self.location
        for node in graph.graph.nodes:
            if node.op == "placeholder":
                self.environment[node] = next(inputs)
            elif node.op == "get_attr":
                self.environment[node] = self.attribute(graph.attribute(node.target), node.target)
            elif node.op == "call_function":
                self.run_node(node)
            elif node.op == "output":
                outputs = node.args[0]
                outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
                self.location, self.outer = self.outer, around
                return [self.argument(output) for output in outputs]
        raise InternalError("nested graph without an output")


def bytes_of(tensor: torch.Tensor) -> bytes:
    """The elements of a tensor, row-major."""
    flat = tensor.detach().contiguous().reshape(-1)
    flat = flat.cpu()
    return ctypes.string_at(flat.data_ptr(), flat.nbytes) if flat.numel() else b""


def nested_attribute(module: torch.nn.Module, path: str) -> Any:
    """Looks up "a.b.c" on a module."""
    for name in path.split("."):
        module = getattr(module, name)
    return module


def read_results(node: torch.fx.Node) -> set[int]:
    """Which of an op's several results are read."""
    return {user.args[1] for user in node.users if user.args[0] is node and user.users}


def _leaves(arguments: Arguments) -> Iterator[Any]:
    for value in arguments.values.values():
        if isinstance(value, (list, tuple)):
            yield from value
        else:
            yield value


def _packet(name: str) -> str:
    return name.rpartition(".")[0]


def described(node: torch.fx.Node) -> str:
    """A node's type, for errors."""
    fake = node.meta.get("val")
    if isinstance(fake, torch.Tensor):
        return f"{str(fake.dtype).removeprefix('torch.')}{list(fake.shape)}"
    return node.name


def location_of(node: torch.fx.Node, outer: Location = Location()) -> Location:
    """The module path of a node and the innermost line of the user's code.

    Where all of the code is torch's, its own line; where there is none (branches that export traced again, whose code is
    generated), what `outer`, the enclosing op, has.
    """
    module, overload = outer.module, str(node.target).removeprefix("aten.") if node.op == "call_function" else ""
    stack = node.meta.get("nn_module_stack") or {}
    for path, _ in stack.values():
        module = path
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    frames = [frame for frame in frames if not frame[0].startswith("<")]
    chosen = next((f for f in reversed(frames) if not f[0].startswith(TORCH_FOLDER)), None)
    if chosen is None and frames:
        chosen = frames[-1]
    if chosen is None:
        return Location(module, outer.file, outer.line, overload)
    return Location(module, os.path.basename(chosen[0]), int(chosen[1]), overload)


def _line(alike: Sequence[UnsupportedNode]) -> str:
    """One line for nodes that are refused for one reason."""
    first, *others = alike
    if not others:
        return str(first)
    places = {node.location for node in others} - {first.location}
    last = f", the last at {others[-1].location}" if places else ""
    return f"{first} ({len(alike)} of them{last})"


def raise_if_unsupported(nodes: Sequence[UnsupportedNode], following: int = 0) -> None:
    """Raises one error that lists the nodes, those alike in one line.

    `following` others are refused only because an argument of theirs is.
    """
    if nodes:
        alike: dict[tuple[str, str, str], list[UnsupportedNode]] = {}
        for node in nodes:
            alike.setdefault((node.op, node.reason, node.nearest), []).append(node)
        lines = "\n  ".join(map(_line, alike.values()))
        count = f"{len(nodes)} unsupported op{'s' if len(nodes) > 1 else ''}"
        more = (
            f"\n  and {following} more that work on what {'it' if len(nodes) == 1 else 'they'} would give"
            if following
            else ""
        )
        raise UnsupportedError(f"{count}:\n  {lines}{more}")


def training_error(what: str, where: Location) -> UserError:
    """The error for an op that runs in training mode."""
    return UserError(f"{what} runs in training mode at {where}: call model.eval() before compiling")
