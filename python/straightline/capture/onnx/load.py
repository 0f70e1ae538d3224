# SPDX-License-Identifier: Apache-2.0
"""Reads an ONNX model and brings it to the newest op set: weights taken out first, local functions inlined."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto, helper, numpy_helper

from straightline.errors import UnsupportedError, UserError

#: Initialisers of at most so many bytes stay in the model while it is upgraded: op sets moved attributes to small constants.
_SMALL = 1 << 10


@dataclass
class LoadedModel:
    """A model of the newest op set that this onnx knows, whose large initialisers are arrays beside it."""

    name: str
    proto: onnx.ModelProto
    weights: dict[str, np.ndarray]

    @property
    def graph(self) -> onnx.GraphProto:
        """Its graph."""
        return self.proto.graph

    @property
    def opsets(self) -> dict[str, int]:
        """Versions of op sets by domain."""
        return {"" if o.domain == "ai.onnx" else o.domain: o.version for o in self.proto.opset_import}


def load(model: Any) -> LoadedModel:
    """Reads a path, bytes or a ModelProto.

    Raises:
        UserError: It is no ONNX model, or its external data is missing, short, or outside of the model's folder.
        UnsupportedError: Its op set is newer than the installed onnx.
    """
    name, folder = "the model", None
    if isinstance(model, (str, os.PathLike)):
        path = Path(model)
        name, folder = path.name, path.parent
        try:
            data = path.read_bytes()
        except OSError as error:
            raise UserError(f"cannot read {os.fspath(model)!r}: {error.strerror}") from error
        proto = _parsed(data, name)
    elif isinstance(model, onnx.ModelProto):
        proto = onnx.ModelProto()
        proto.CopyFrom(model)
    else:
        proto = _of_bytes(bytes(model), name)
    _check(proto, name)
    _free_negative_sizes(proto.graph)
    weights: dict[str, np.ndarray] = {}
    _take_out(proto.graph, folder, name, weights)
    for function in proto.functions:
        _take_in(function.node, folder, name)
    _take_in(proto.graph.node, folder, name)
    return LoadedModel(name, _upgraded(proto, name), weights)


def _of_bytes(data: bytes, name: str) -> onnx.ModelProto:
    """A model of bytes, which may be meant as something else."""
    try:
        proto = _parsed(data, name)
    except UserError:
        proto = onnx.ModelProto()
    if proto.HasField("graph"):
        return proto
    start = f"begin with {data[:8]!r}" if data else "are empty"
    raise UserError(
        f"the bytes, which {start}, are none of what sl.compile takes as bytes: an ONNX model, what serialize() of a "
        "jax.export.Exported gives, or a StableHLO module's bytecode; text of MLIR goes to sl.compile_mlir"
    )


def _parsed(data: bytes, name: str) -> onnx.ModelProto:
    try:
        return onnx.ModelProto.FromString(data)
    except DecodeError as error:
        raise UserError(f"{name} is no ONNX model: {error}") from error


def _check(proto: onnx.ModelProto, name: str) -> None:
    if not proto.HasField("graph") or not (proto.graph.node or proto.graph.output):
        raise UserError(f"{name} is no ONNX model: it has no graph")
    if not proto.opset_import and proto.ir_version >= 3:
        raise UserError(f"{name} is no valid ONNX model: it imports no op set")
    newest = onnx.defs.onnx_opset_version()
    if proto.ir_version > onnx.IR_VERSION:
        raise UnsupportedError(
            f"{name} is of IR version {proto.ir_version}, but onnx {onnx.__version__} knows those up to {onnx.IR_VERSION}; "
            "nearest supported form: a newer onnx, or the model exported for an older IR version"
        )
    for opset in proto.opset_import:
        if opset.domain in ("", "ai.onnx") and opset.version > newest:
            raise UnsupportedError(
                f"{name} needs op set {opset.version}, but onnx {onnx.__version__} knows those up to {newest}; "
                "nearest supported form: a newer onnx, or the model exported for an older op set"
            )
    domains = {"", "ai.onnx", *(o.domain for o in proto.opset_import)}
    for node in proto.graph.node:
        if node.domain not in domains:
            raise UserError(
                f"{name}: node '{node.name or node.op_type}' is an op of {node.domain!r}, a domain that the model does not import"
            )
    given: set[str] = {i.name for i in proto.graph.input} | {t.name for t in proto.graph.initializer}
    given |= {t.values.name for t in proto.graph.sparse_initializer}
    for node in proto.graph.node:
        for text in node.input:
            if text and text not in given:
                made = any(text in n.output for n in proto.graph.node)
                why = (
                    "it is given behind it, so the graph has a cycle or its nodes are not in order"
                    if made
                    else "nothing gives it"
                )
                raise UserError(f"{name}: node '{node.name or node.op_type}' reads '{text}', but {why}")
        for text in node.output:
            if text and text in given:
                raise UserError(f"{name}: node '{node.name or node.op_type}' gives '{text}', which is given before it")
            given.add(text)
    for output in proto.graph.output:
        if output.name not in given:
            raise UserError(f"{name}: nothing gives the result '{output.name}'")


def _free_negative_sizes(graph: onnx.GraphProto) -> None:
    """Makes sizes below 0 (exporters write -1 for any) sizes without a number: the inference of onnx ends the process at them."""
    for info in (*graph.input, *graph.output, *graph.value_info):
        for dim in info.type.tensor_type.shape.dim:
            if dim.HasField("dim_value") and dim.dim_value < 0:
                dim.Clear()
    for node in graph.node:
        for attribute in node.attribute:
            for nested in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                _free_negative_sizes(nested)


def _take_out(graph: onnx.GraphProto, folder: Path | None, name: str, weights: dict[str, np.ndarray]) -> None:
    """Replaces large initialisers by inputs of the graph, which upgrading then need not copy."""
    inputs = {i.name for i in graph.input}
    kept = []
    for tensor in graph.initializer:
        external = tensor.data_location == TensorProto.EXTERNAL
        if not external and tensor.ByteSize() <= _SMALL:
            _array(tensor, folder, name)
            kept.append(tensor)
            continue
        weights[tensor.name] = _array(tensor, folder, name)
        if tensor.name not in inputs:
            graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    copies = [onnx.TensorProto.FromString(tensor.SerializeToString()) for tensor in kept]
    del graph.initializer[:]
    graph.initializer.extend(copies)


def _take_in(nodes: Iterable[onnx.NodeProto], folder: Path | None, name: str) -> None:
    """Checks the tensors of attributes and of nested graphs; the data of those that lie beside the model comes into it."""
    for node in nodes:
        for attribute in node.attribute:
            graphs = [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]
            tensors = [*attribute.tensors, *([attribute.t] if attribute.HasField("t") else [])]
            for tensor in [*tensors, *(t for graph in graphs for t in graph.initializer)]:
                if tensor.data_type == TensorProto.UNDEFINED and not tensor.dims and not tensor.ListFields():
                    continue  # some converters write a default that is none
                array = _array(tensor, folder, name)
                if tensor.data_location == TensorProto.EXTERNAL:
                    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
            for graph in graphs:
                _take_in(graph.node, folder, name)


def _array(tensor: onnx.TensorProto, folder: Path | None, name: str) -> np.ndarray:
    """The elements of a tensor, whose type, sizes and data must fit each other."""
    what = f"{name}: the tensor '{tensor.name}'"
    if tensor.data_type not in TensorProto.DataType.values() or tensor.data_type == TensorProto.UNDEFINED:
        raise UserError(f"{what} has elements of type {tensor.data_type}, which ONNX does not have")
    if any(size < 0 for size in tensor.dims):
        raise UserError(f"{what} has the sizes {list(tensor.dims)}")
    if tensor.data_location == TensorProto.EXTERNAL:
        return _external(tensor, folder, name)
    try:
        return numpy_helper.to_array(tensor)
    except (ValueError, TypeError, LookupError, ArithmeticError, MemoryError) as error:
        kind = TensorProto.DataType.Name(tensor.data_type).lower()
        raise UserError(f"{what} has other data than {kind}{list(tensor.dims)} needs: {error}") from error


def _external(tensor: onnx.TensorProto, folder: Path | None, name: str) -> np.ndarray:
    """The elements of a tensor in a file beside the model, mapped."""
    facts = {entry.key: entry.value for entry in tensor.external_data}
    where = facts.get("location", "")
    if folder is None:
        raise UserError(
            f"{name}: '{tensor.name}' lies in the file {where!r}, but the model has no folder: give its path"
        )
    root = folder.resolve()
    path = (folder / where).resolve()
    if not where or not path.is_relative_to(root):
        raise UserError(f"{name}: the data of '{tensor.name}' is in {where!r}, outside of the model's folder")
    dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    count = int(np.prod(tensor.dims, dtype=np.int64))
    needed = count * dtype.itemsize
    offset, length = (
        _bytes_of(facts, key, default, f"{name}: the data of '{tensor.name}' in {where!r}")
        for key, default in (("offset", 0), ("length", needed))
    )
    try:
        size = path.stat().st_size
        if length < needed or offset + max(length, needed) > size:
            raise UserError(
                f"{name}: the data of '{tensor.name}' needs {max(length, needed)} bytes from {offset} on, but {where!r} gives "
                f"{min(length, max(size - offset, 0))}"
            )
        if needed == 0:
            return np.zeros(list(tensor.dims), dtype=dtype)
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise UserError(f"{name}: cannot read {where!r} with the data of '{tensor.name}': {error.strerror}") from error
    return np.frombuffer(mapped, dtype=dtype, count=count, offset=offset).reshape(list(tensor.dims))


def _bytes_of(facts: Mapping[str, str], key: str, default: int, what: str) -> int:
    """A number of bytes that a tensor's entry has as text."""
    text = facts.get(key, str(default))
    if not (text.isascii() and text.isdigit()):
        raise UserError(f"{what}: {key} is {text!r} but must be a number of bytes")
    return int(text)


def _upgraded(proto: onnx.ModelProto, name: str) -> onnx.ModelProto:
    if proto.functions:
        proto = _inlined(proto, name)
    newest = onnx.defs.onnx_opset_version()
    own = next((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), None)
    if own is None and not proto.opset_import:
        own = 1
    unknown = any(n.domain in ("", "ai.onnx") and not _has_schema(n.op_type) for n in proto.graph.node)
    if own is None or own >= newest or unknown:  # what is unknown is refused by the import, with all else
        return proto
    from onnx import version_converter

    _check_sizes(proto, name)
    try:
        return version_converter.convert_version(proto, newest)
    except Exception as error:  # it raises RuntimeError and its own
        raise UnsupportedError(
            f"{name} of op set {own} cannot be brought to {newest} by onnx: {str(error).strip().splitlines()[0]}"
        ) from error


def _check_sizes(proto: onnx.ModelProto, name: str) -> None:
    """Refuses sizes below 0 before a Slice, at which onnx's inference, which is part of the upgrade, ends the process."""
    if not any(node.op_type == "Slice" for node in proto.graph.node):
        return
    probe = onnx.ModelProto()
    probe.CopyFrom(proto)
    for node in probe.graph.node:
        if node.op_type == "Slice":
            node.op_type = "SliceOfUnknownSizes"
    try:
        probe = onnx.shape_inference.infer_shapes(probe)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):
        return  # the upgrade says it
    for info in probe.graph.value_info:
        sizes = [dim.dim_value for dim in info.type.tensor_type.shape.dim if dim.HasField("dim_value")]
        if min(sizes, default=0) < 0:
            raise UserError(f"{name} is no valid model: '{info.name}' has a size of {min(sizes)}")


def _has_schema(op: str) -> bool:
    try:
        onnx.defs.get_schema(op)
    except (onnx.defs.SchemaError, TypeError):  # of a name that is no text
        return False
    return True


def _inlined(proto: onnx.ModelProto, name: str) -> onnx.ModelProto:
    from onnx import inliner

    own = {o.domain: o.version for o in proto.opset_import}
    others = any(o.version != own.get(o.domain, o.version) for f in proto.functions for o in f.opset_import)
    try:
        return inliner.inline_local_functions(proto, convert_version=others)
    except Exception as error:  # it raises RuntimeError and its own
        words = str(error).strip().splitlines()[0]
        raise UnsupportedError(f"{name}: its local functions cannot be inlined by onnx: {words}") from error


def shapes_of(graph: onnx.GraphProto, weights: Mapping[str, np.ndarray]) -> list[onnx.ValueInfoProto]:
    """The inputs of a call: those of the graph that no initialiser gives."""
    given = {t.name for t in graph.initializer} | set(weights)
    return [i for i in graph.input if i.name not in given]


def what_is_invalid(model: LoadedModel) -> str:
    """What onnx's own inference of types and shapes, strict, says of a model; "" where it finds nothing.

    It takes time, and is for models that could not be imported: whether it is their fault or ours.
    """
    try:
        onnx.shape_inference.infer_shapes(model.proto, check_type=True, strict_mode=True, data_prop=True)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError, ValueError) as error:
        return str(error).strip().splitlines()[0]
    return ""
