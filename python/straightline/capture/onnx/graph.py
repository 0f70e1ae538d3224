# SPDX-License-Identifier: Apache-2.0
"""A loaded ONNX model as builder calls: its inputs with named sizes, its nodes, its results."""

from __future__ import annotations

import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import numpy_helper

from straightline._labels import Labels
from straightline.capture.builder import Builder, Dim, Location, SizeAdvice, TensorType
from straightline.capture.extents import Extent
from straightline.capture.graph_builder import Reject, Tensor
from straightline.capture.onnx import values as v
from straightline.capture.onnx.importer import Importer, Refusal, SameSize, SmallestSize, TakenBranch, known_of
from straightline.capture.onnx.load import LoadedModel, shapes_of
from straightline.capture.onnx.values import Known, Optional, Sequence, Value
from straightline.errors import UnsupportedError, UserError

B = TypeVar("B", bound=Builder)
#: The largest value of a named size, unless a bound is given: exporters write 10 ** 9 for the end of a dim.
_LARGEST = 10**9 - 1
#: In messages about the sizes of inputs.
_ADVICE = SizeAdvice(
    fixed="name the dim in the model (dim_param) and pass sl.compile no input or sizes= that fixes it",
    bounds="pass sizes=",
)
#: Names of sizes that are found to be others.
_MOST_ALIASES = 64
#: Structure of a result: number of the function's result, text, or a list or nothing.
Structure = Any
#: Element type, by the IR's name, and sizes of a tensor; a list of such of a sequence, None of an empty optional.
Shape = Any


@dataclass
class Imported:
    """What a model became."""

    #: What a call gives, in order: a name, and the number of the function's argument, a list of such, or None.
    inputs: list[tuple[str, Structure]]
    #: For each output the number of the function's result, text (`Labels`), a list of such, or None.
    structures: list[Structure]
    #: Arrays of the parameters that the program reads, by name.
    parameters: dict[str, np.ndarray]


def import_model(
    model: LoadedModel,
    make_builder: Callable[[], B],
    shapes: Mapping[str, Shape] | None = None,
    values: Mapping[str, np.ndarray] | None = None,
    sizes: Mapping[str, int | tuple[int, int]] | None = None,
    asked: str = "",
) -> tuple[B, Imported]:
    """Makes the builder calls of a model.

    Args:
        model: What `load` gives.
        make_builder: Makes what gets the calls; once more where names of sizes turn out to be one size.
        shapes: Element type, by the IR's name, and sizes of inputs; the others have those that the model declares, whose named
            sizes become named extents.
        values: Inputs whose values the program may depend on.
        sizes: Numbers, or bounds, for the model's named sizes.
        asked: Words of an internal error of an import: where it names nodes, onnx's reference is asked whether it takes them.

    Raises:
        UserError: An input does not fit the model.
        UnsupportedError: Lists each node that has no form here.
    """
    aliases: dict[str, str] = {}
    least: dict[str, int] = {}
    taken: dict[str, tuple[bool, str]] = {}
    tried: set[tuple[str, bool]] = set()
    sizes = {name: _size_of(name, given) for name, given in (sizes or {}).items()}
    for _ in range(_MOST_ALIASES):
        builder = make_builder()
        try:
            return builder, _imported(
                model, builder, dict(shapes or {}), dict(values or {}), sizes, aliases, least, taken, asked
            )
        except TakenBranch as branch:
            if branch.refused:
                tried.add((branch.node, not branch.taken))
            if (branch.node, branch.taken) in tried:
                raise UnsupportedError(
                    f"{model.name}: neither branch of If '{branch.node}' has a form here: {branch.why}; "
                    f"{taken[branch.node][1] if branch.node in taken else 'none'}"
                ) from branch
            tried.add((branch.node, branch.taken))
            taken[branch.node] = branch.taken, branch.why
        except UnsupportedError:
            # The other branch of the last If whose branches give different types may fit what follows.
            last = next((n for n in reversed(taken) if (n, not taken[n][0]) not in tried), None)
            if last is None:
                raise
            tried.add((last, not taken[last][0]))
            taken[last] = not taken[last][0], taken[last][1]
        except SmallestSize as size:
            least[size.name] = size.least
        except SameSize as pair:
            aliases = {name: pair.first if to == pair.second else to for name, to in aliases.items()}
            aliases[pair.second] = pair.first
    raise UnsupportedError(f"{model.name} has more than {_MOST_ALIASES} names for sizes that are equal")


def _size_of(name: str, given: Any) -> int | tuple[int, int]:
    """What `sizes` says of a name: a number, or the smallest and the largest."""
    try:
        if not isinstance(given, (tuple, list)):
            low = high = operator.index(given)
        else:
            low, high = map(operator.index, given)
    except (TypeError, ValueError):
        low, high = 0, -1
    if not 0 <= low <= high:
        raise UserError(
            f"sizes[{name!r}] is {given!r} but must be a size, or the smallest and the largest: 4, or (1, 64)"
        )
    return (low, high) if isinstance(given, (tuple, list)) else low


def _imported(
    model: LoadedModel,
    builder: Builder,
    shapes: dict[str, Shape],
    values: dict[str, np.ndarray],
    sizes: dict[str, int | tuple[int, int]],
    aliases: Mapping[str, str],
    least: Mapping[str, int],
    taken: Mapping[str, tuple[bool, str]],
    asked: str,
) -> Imported:
    """One import.

    `aliases`: names of sizes that are other names; `least`: smallest sizes that the model turned out to need; `taken`: branches
    that it is imported for.
    """
    importer = Importer(
        builder,
        model=model.name,
        opsets=model.opsets,
        given=values,
        aliases=aliases,
        least=least,
        taken=taken,
        asked=asked,
    )
    declared = shapes_of(model.graph, model.weights)
    _check_names(declared, [*shapes, *values], model.name)
    try:
        types = {i.name: _type_of(i, shapes.get(i.name), values.get(i.name), sizes, importer) for i in declared}
    except Reject as refusal:
        raise UnsupportedError(
            f"{model.name}: {refusal.reason}; nearest supported form: {refusal.nearest}"
        ) from refusal
    loops = _loop_counts(model.graph)
    importer.counts = {n: s if isinstance(s, tuple) else (s, s) for n, s in sizes.items() if n in loops}
    unknown = set(sizes) - {n for t in model.graph.input for n in _dim_names(t)} - loops
    if unknown:
        raise UserError(
            f"{model.name} has no size {sorted(unknown)[0]!r}: it has {sorted(importer.ranges) or 'none with a name'}"
        )
    for name, (low, high) in importer.ranges.items():
        builder.symbol(name, low, high)
    arguments: list[tuple[str, TensorType]] = []
    structures = [(name, _numbered(name, type, arguments)) for name, type in types.items()]
    tensors = importer.begin("forward", arguments, _ADVICE)
    for name, structure in structures:
        importer.names[name] = _given(structure, tensors)
        if isinstance(structure, int):
            importer.give_input(name, tensors[structure])
            element = next(i.type.tensor_type.elem_type for i in declared if i.name == name)
            if element in v.NARROW:
                importer.mark_narrow(tensors[structure], v.NARROW[element])
    for initializer in model.graph.initializer:
        importer.names[initializer.name] = known_of(initializer, _parameter_name(initializer))
    for name, array in model.weights.items():
        importer.names[name] = v.text_of(array) if array.dtype == object else Known(array, name)
    for sparse in model.graph.sparse_initializer:
        importer.names[sparse.values.name] = Known(_dense(sparse), sparse.values.name)
    importer.reads = _reads(model.graph)
    importer.run(model.graph.node)
    return _ended(importer, model, structures)


def _loop_counts(graph: onnx.GraphProto) -> set[str]:
    """Names of the trip counts of a graph's loops, and of those nested in it; of the node, where it has no count."""
    found: set[str] = set()
    for node in graph.node:
        if node.op_type == "Loop":
            found.add(node.input[0] or node.name)
        for attribute in node.attribute:
            for nested in (attribute.g, *attribute.graphs):
                found |= _loop_counts(nested)
    return found


#: Names that torch.onnx.export makes up for the constants of a graph, of which those of one number are literals.
_MADE_UP = re.compile(r"val_\d+|\w+_cast(_\d+)?|scalar_tensor\w*")


def _parameter_name(initializer: onnx.TensorProto) -> str:
    """The name by which an initialiser is a parameter; "" for a number that is part of the model's text."""
    is_literal = math.prod(initializer.dims) == 1 and _MADE_UP.fullmatch(initializer.name)
    return "" if is_literal else initializer.name


def _reads(graph: onnx.GraphProto) -> Counter[str]:
    """How often each name is an input of a node, also of one in a nested graph, or a result."""
    found = Counter(output.name for output in graph.output)
    for node in graph.node:
        found.update(node.input)
        for attribute in node.attribute:
            for nested in (attribute.g, *attribute.graphs):
                found.update(_reads(nested))
    return found


def _numbered(name: str, type: Any, arguments: list[tuple[str, TensorType]]) -> Structure:
    """The arguments of the function that an input is."""
    if isinstance(type, TensorType):
        arguments.append((name, type))
        return len(arguments) - 1
    return None if type is None else [_numbered(f"{name}[{i}]", item, arguments) for i, item in enumerate(type)]


def _given(structure: Structure, tensors: list[Tensor]) -> Value:
    if structure is None:
        return Optional(None)
    return (
        tensors[structure]
        if isinstance(structure, int)
        else Sequence(tuple(_given(item, tensors) for item in structure))
    )


def _check_names(declared: list[onnx.ValueInfoProto], given: list[str], model: str) -> None:
    names = [i.name for i in declared]
    for name in given:
        if name not in names:
            raise UserError(f"{model} has no input {name!r}: it has {', '.join(map(repr, names)) or 'none'}")


def _dim_names(info: onnx.ValueInfoProto) -> list[str]:
    dims = enumerate(info.type.tensor_type.shape.dim)
    return [_name_of(d, place, info.name) for place, d in dims if not d.HasField("dim_value") or d.dim_value < 0]


def _name_of(dim: Any, place: int, name: str) -> str:
    """The name of a size, that of the input and the dim where the exporter had none, or wrote a sign for any size."""
    return f"{name}_{place}" if dim.dim_param in ("", "?", "-1", "*") else str(dim.dim_param)


def _symbol(name: str) -> str:
    """A name of ours for a size of the model."""
    text = re.sub(r"\W", "_", name) or "n"
    return text if re.match(r"[A-Za-z_]", text) else f"n{text}"


def _type_of(
    info: onnx.ValueInfoProto,
    given: Shape,
    value: np.ndarray | None,
    sizes: Mapping[str, int | tuple[int, int]],
    importer: Importer,
) -> Any:
    """A type; a list of types for a sequence, None for an empty optional."""
    kind = info.type.WhichOneof("value")
    if kind != "tensor_type":
        if kind == "map_type":
            raise Reject(f"the input '{info.name}' is a map, which is no tensor", "a tensor with a column for each key")
        if given is None and kind != "optional_type":
            raise Reject(
                f"the input '{info.name}' is a {(kind or 'nothing').removesuffix('_type')} of unknown length",
                "an example of it",
            )
        return _types(given)
    tensor = info.type.tensor_type
    try:
        dtype = v.dtype_of(tensor.elem_type)
    except Reject as refusal:
        raise Reject(f"the input '{info.name}' has {refusal.reason}", refusal.nearest) from refusal
    if given is None and value is not None:
        given = v.ir_dtype(value.dtype), value.shape
    if given is not None:
        _check_fits(info, dtype, given)
        return TensorType(*given)
    if not tensor.HasField("shape"):
        raise Reject(f"the model does not say which rank the input '{info.name}' has", "an example of it")
    return TensorType(dtype, tuple(_dim(d, i, info.name, sizes, importer) for i, d in enumerate(tensor.shape.dim)))


def _types(given: Shape) -> Any:
    if given is None:
        return None
    return TensorType(*given) if isinstance(given, tuple) else [_types(item) for item in given]


def _check_fits(info: onnx.ValueInfoProto, dtype: str, given: tuple[str, tuple[int, ...]]) -> None:
    if given[0] != dtype:
        raise UserError(f"the input '{info.name}' has elements of {given[0]} but the model takes {dtype}")
    shape = info.type.tensor_type.shape.dim
    if not info.type.tensor_type.HasField("shape"):
        return
    fits = len(shape) == len(given[1]) and all(
        d.dim_value in (size, -1) for d, size in zip(shape, given[1]) if d.HasField("dim_value")
    )
    if not fits:
        declared = [d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in shape]
        raise UserError(f"the input '{info.name}' has the sizes {list(given[1])} but the model takes {declared}")


def _dim(dim: Any, place: int, name: str, sizes: Mapping[str, int | tuple[int, int]], importer: Importer) -> Dim:
    if dim.HasField("dim_value") and dim.dim_value >= 0:  # some exporters write -1 for any
        return int(dim.dim_value)
    text = _name_of(dim, place, name)
    symbol = _symbol(text)
    symbol = importer.aliases.get(symbol, symbol)
    bounds = sizes.get(text, (importer.least.get(symbol, 1), _LARGEST))
    if isinstance(bounds, int):
        return bounds
    if text in sizes:
        importer.bounded.add(symbol)
    importer.ranges[symbol] = (max(bounds[0], importer.least.get(symbol, 0)), bounds[1])
    return Extent(symbol)


def _dense(sparse: onnx.SparseTensorProto) -> np.ndarray:
    elements, places = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
    dense = np.zeros(list(sparse.dims), dtype=elements.dtype)
    flat = places if places.ndim == 1 else np.ravel_multi_index(tuple(places.T), dense.shape)
    dense.reshape(-1)[flat] = elements
    return dense


def _ended(importer: Importer, model: LoadedModel, inputs: list[tuple[str, Structure]]) -> Imported:
    names = [output.name for output in model.graph.output]
    results: list[tuple[str, Tensor]] = []
    missing: list[str] = []

    def structure(name: str, value: Value | None) -> Structure:
        if isinstance(value, Optional):
            return None if value.value is None else structure(name, value.value)
        if isinstance(value, Sequence):
            return [structure(name, item) for item in value.items]
        if isinstance(value, v.Text):
            index = value.index if isinstance(value.index, Tensor) else Known(value.index.astype(np.int64))
            return Labels(structure(f"{name}.index", index), value.table)
        tensor = importer.tensor(value)
        own = name if all(name != other for other, _ in results) else f"{name}_{len(results)}"
        results.append((own, importer.emit_one("clone", [tensor], tensor.type)))
        return len(results) - 1

    structures: list[Structure] = []
    for name in names:
        if name not in importer.names:
            missing.append(name)
            continue
        try:
            structures.append(structure(name, importer.names[name]))
        except Reject as refusal:  # as of a sequence of as many tensors as a named size says
            importer.refusals.append(Refusal("a result", name, refusal.reason, refusal.nearest))
    if importer.refusals or missing:
        raise UnsupportedError(_refused(importer, model.name))
    for name in sorted(importer.decisive):
        _check_value(importer, name)
    importer.end(results)
    return Imported(inputs, structures, importer.parameters)


def _check_value(importer: Importer, name: str) -> None:
    """Ends a call in which an input has other values than those that decided shapes."""
    tensor, value = importer.tensor(importer.names[name]), np.asarray(importer.given[name])
    if value.size == 0:
        return
    importer.location = Location(name)
    same = importer.compare("eq", tensor, importer.literal(value))
    same = importer.reduce("all", same, list(range(same.rank)), False) if same.rank else same
    most = np.array2string(value, separator=", ", threshold=16, edgeitems=4).replace("\n", "")
    words = f"the values of input '{name}' are not those that the program was compiled for, {most}"
    importer.emit("check", [same], [], {"message": words})


def _refused(importer: Importer, name: str) -> str:
    """Each refusal by itself, equal ones counted."""
    seen: dict[tuple[str, str, str], list[str]] = {}
    for refusal in importer.refusals:
        seen.setdefault((refusal.op, refusal.reason, refusal.nearest), []).append(refusal.node)
    lines = []
    for (op, reason, nearest), nodes in seen.items():
        where = f"'{nodes[0]}'" + (f" and {len(nodes) - 1} more" if len(nodes) > 1 else "")
        lines.append(f"  {op} at {where}: {reason}" + (f"; nearest supported form: {nearest}" if nearest else ""))
    count = len(lines)
    return "\n".join([f"{name}: {count} unsupported op{'s' if count > 1 else ''}:", *lines])
