# SPDX-License-Identifier: Apache-2.0
"""Encoders of ai.onnx.ml: tables from keys to values, columns for categories, ZipMap. Strings exist while importing alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from straightline.capture.builder import TensorType
from straightline.capture.graph_builder import FLOATS, Reject, Tensor
from straightline.capture.onnx.importer import Importer, Node, converter
from straightline.capture.onnx.shape import gathered
from straightline.capture.onnx.trees import Checked
from straightline.capture.onnx.values import Text, Value, text_of


def _places(ctx: Importer, x: Tensor, keys: np.ndarray) -> tuple[Tensor, Tensor]:
    """Where each element stands among the keys, the first place of equal ones, and whether it is one of them; NaN equals NaN."""
    wide = ctx.reshape(x, (*x.extents, 1))
    row = ctx.literal(
        keys.astype(np.float64 if x.dtype == "f64" else np.float32) if x.dtype in FLOATS else keys.astype(np.int64)
    )
    wide = ctx.cast(wide, row.dtype)
    same = ctx.compare("eq", wide, row)
    if x.dtype in FLOATS and np.isnan(keys).any():
        nan = ctx.emit_one("isnan", [wide], TensorType("i1", wide.extents))
        where = ctx.literal(np.isnan(keys))
        both = ctx.expand(nan, same.extents), ctx.expand(where, same.extents)
        same = ctx.emit_one("logical_or", [same, ctx.emit_one("logical_and", list(both), same.type)], same.type)
    last = x.rank
    number = ctx.cast(same, "i32")
    place = ctx.emit_one("argmax", [number], TensorType("i64", x.extents), {"dim": last, "keepdim": False})
    return place, ctx.reduce("any", same, [last], False)


def _looked_up(ctx: Importer, index: Tensor, values: np.ndarray) -> Tensor:
    return gathered(ctx, ctx.literal(values), index, 0)


def _mapped(ctx: Importer, x: Value | None, keys: list[Any], values: list[Any], default: Any) -> Value:
    """The value of the key that each element is; keys and values are numbers or strings."""
    table = dict(reversed(list(zip(keys, values))))  # the first of equal keys counts
    if isinstance(x, Text):
        if not isinstance(keys[0], str):
            raise Reject("strings where the keys are numbers", "keys_strings")
        return _chosen(ctx, x.index, [table.get(text, default) for text in x.table])
    if isinstance(keys[0], str):
        raise Reject("numbers where the keys are strings", "keys of numbers")
    tensor = ctx.tensor(x)
    place, found = _places(ctx, tensor, np.asarray(keys))
    index = ctx.where(found, place, len(keys))
    return _chosen(ctx, index, [*values, default])


def _chosen(ctx: Importer, index: Tensor | np.ndarray, values: list[Any]) -> Value:
    """Of values, those at places."""
    if isinstance(values[0], str):
        return Text(tuple(values), index)
    index = ctx.literal(index) if isinstance(index, np.ndarray) else index
    return _looked_up(ctx, index, np.asarray(values))


def _side(read: Checked, side: str) -> list[Any]:
    """keys_* or values_*, as Python's strings or numbers of numpy."""
    node = read.node
    names = [f"{side}_{kind}" for kind in ("strings", "int64s", "floats", "tensor")]
    given = [name for name in names if node.attribute(name)]
    if len(given) != 1:
        raise read.error(f"{len(given)} of {', '.join(names)} are given but one is needed")
    value = node.attribute(given[0])
    if isinstance(value, TensorProto):
        array = numpy_helper.to_array(value).reshape(-1)
        return list(map(str, text_of(array).table)) if array.dtype == object else list(array)
    dtype = {"int64s": np.int64, "floats": np.float32}.get(given[0].removeprefix(f"{side}_"))
    return list(value) if dtype is None else list(np.asarray(value, dtype=dtype))


def _default(node: Node, values: list[Any]) -> Any:
    tensor = node.attribute("default_tensor")
    if isinstance(tensor, TensorProto) and tensor.data_type:
        array = numpy_helper.to_array(tensor).reshape(-1)
        return str(text_of(array).table[0]) if array.dtype == object else array[0]
    if isinstance(values[0], str):
        return node.attribute("default_string", "_Unused")
    dtype = values[0].dtype
    return dtype.type(
        node.attribute("default_float", -0.0) if dtype.kind == "f" else node.attribute("default_int64", -1)
    )


@converter("ai.onnx.ml.LabelEncoder")
def _label_encoder(ctx: Importer, node: Node) -> Value:
    read = Checked(node, ctx)
    if names := node.attribute("classes_strings"):  # of version 1: numbers are places among these
        places = list(np.arange(len(names)))
        if isinstance(node.inputs[0], Text):
            return _mapped(ctx, node.inputs[0], list(names), places, np.int64(node.attribute("default_int64", -1)))
        return _mapped(ctx, node.inputs[0], places, list(names), node.attribute("default_string", "_Unused"))
    keys, values = _side(read, "keys"), _side(read, "values")
    if len(keys) != len(values):
        raise read.error(f"there are {len(keys)} keys but {len(values)} values")
    return _mapped(ctx, node.inputs[0], keys, values, _default(node, values))


@converter("ai.onnx.ml.CategoryMapper")
def _category_mapper(ctx: Importer, node: Node) -> Value:
    read = Checked(node, ctx)
    names, places = node.attribute("cats_strings") or [], node.attribute("cats_int64s") or []
    if len(names) != len(places) or not names:
        raise read.error(f"cats_strings has {len(names)} elements but cats_int64s has {len(places)}")
    numbers = list(np.asarray(places, dtype=np.int64))
    if isinstance(node.inputs[0], Text):
        return _mapped(ctx, node.inputs[0], list(names), numbers, np.int64(node.attribute("default_int64", -1)))
    return _mapped(ctx, node.inputs[0], numbers, list(names), node.attribute("default_string", "_Unused"))


@converter("ai.onnx.ml.OneHotEncoder")
def _one_hot_encoder(ctx: Importer, node: Node) -> Tensor:
    read = Checked(node, ctx)
    names, numbers = node.attribute("cats_strings"), node.attribute("cats_int64s")
    if bool(names) == bool(numbers):
        raise read.error("one of cats_strings and cats_int64s is needed")
    categories = list(names or numbers)
    x = node.inputs[0]
    if isinstance(x, Text) != bool(names):
        raise Reject("strings" if names is None else "categories that are strings", "integers and cats_int64s")
    if isinstance(x, Text):
        index = _chosen(ctx, x.index, [np.int64(categories.index(t) if t in categories else -1) for t in x.table])
        keys = np.arange(len(categories))
    else:
        index, keys = ctx.cast(ctx.tensor(x), "i64"), np.asarray(categories, dtype=np.int64)
    index = ctx.tensor(index)
    hot = ctx.compare("eq", ctx.reshape(index, (*index.extents, 1)), ctx.literal(keys))
    if not node.attribute("zeros", 1):
        known = ctx.reduce("any", hot, [index.rank], False)
        known = ctx.reduce("all", known, list(range(known.rank)), False) if known.rank else known
        words = f"an element is none of the {len(categories)} categories of '{ctx.location.module}'"
        ctx.emit("check", [known], [], {"message": words})
    return ctx.cast(hot, "f32")


@converter("ai.onnx.ml.ZipMap")
def _zip_map(ctx: Importer, node: Node) -> Value | None:
    """A list of dicts, one for each row: here the tensor that they are made of, with a column for each label."""
    read = Checked(node, ctx)
    labels = node.attribute("classlabels_int64s") or node.attribute("classlabels_strings") or []
    x = ctx.tensor(node.inputs[0])
    if x.rank and isinstance(x.extents[-1], int) and labels and len(labels) != x.extents[-1]:
        raise read.error(f"there are {len(labels)} labels but the scores have {x.extents[-1]} columns")
    return x


@converter("ai.onnx.ml.DictVectorizer", "ai.onnx.ml.CastMap")
def _of_maps(ctx: Importer, node: Node) -> Value:
    raise Reject("maps, which are no tensors", "a tensor with a column for each key")
