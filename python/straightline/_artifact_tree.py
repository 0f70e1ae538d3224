# SPDX-License-Identifier: Apache-2.0
"""The structures of arguments and results (`_signature`) as JSON, and back.

Types are named by module and name. Reading imports nothing: a type counts only where its module is loaded already, or where the
caller hands it over.
"""

from __future__ import annotations

import base64
import functools
import operator
import sys
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from straightline import _complex, _complex_arrays, _labels, _signature
from straightline._frameworks import imported_torch
from straightline.errors import UnsupportedError, UserError

Json = Any

_TORCH_KINDS = ("dtype", "device", "layout", "memory_format")


def to_json(node: Sequence[Any]) -> Json:
    """A node as JSON.

    Raises:
        UnsupportedError: A value or a type in it has no such form; the message has its place.
    """
    kind, name, *rest = node
    if kind == "tensor":
        return {"kind": kind, "name": name, "index": rest[0]}
    if kind == "const":
        return {"kind": kind, "name": name, "value": _value(rest[0], name)}
    if kind == "extent":
        return {"kind": kind, "name": name, "steps": [list(step) for step in rest[0]]}
    if kind == "custom":
        special = _special(name, *rest)
        if special is not None:
            return special
        if rest[0] is None or _signature._registered(rest[0]) is None:
            raise UnsupportedError(
                f"{name} is a number of a call, a key of JAX or a node of jax.tree_util's own, which a saved model has not; "
                "nearest supported form: arrays in tuples, lists, dicts, named tuples and dataclasses"
            )
        context = _value(rest[3], name)
        return {"kind": kind, "name": name, "type": _type_name(rest[0], name), "context": context, **_children(rest)}
    made: dict[str, Json] = {"kind": kind, "name": name, **_children(rest)}
    if kind in ("dict", "namedtuple", "dataclass"):
        made["type"] = _type_name(rest[0], name)
    if kind in ("dict", "dataclass"):
        made["keys"] = [_value(key, name) for key in rest[1]]
    return made


def _children(rest: Sequence[Any]) -> dict[str, Json]:
    return {"children": [to_json(child) for child in rest[-1]]}


def _special(name: str, kind: type, flatten: Any, unflatten: Any, context: Any, children: Any) -> Json:
    """The nodes that the package makes of its own, by their functions."""
    function = flatten.func if isinstance(flatten, functools.partial) else flatten
    if function is _complex._flatten:
        return {"kind": "complex", "name": name, "index": children[0][2]}
    if function is _complex_arrays._parts and isinstance(flatten, functools.partial):
        dtype, _, is_result = flatten.args
        return {"kind": "complex_array", "name": name, "index": children[0][2], "dtype": dtype, "result": is_result}
    if labels := _labels.labels_of(flatten):
        return {"kind": "labels", "name": name, "index": labels.index, "table": list(labels.table)}
    if function is _signature._at:
        return {"kind": "placed", "name": name, "index": children[0][2], "offset": flatten.args[1]}
    if function is _signature._flattened_copy:
        raise UnsupportedError(
            f"{name} is a tensor that the model made once, outside of the program, which a file cannot hold; nearest "
            "supported form: register it as a buffer of the model"
        )
    return None


def _value(value: Any, name: str) -> Json:
    if value is None or isinstance(value, (bool, int, str)) and type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return {"float": value.hex()}
    if type(value) is complex:
        return {"complex": [value.real.hex(), value.imag.hex()]}
    if type(value) is bytes:
        return {"bytes": base64.b64encode(value).decode()}
    if type(value) in (tuple, list):
        return {type(value).__name__: [_value(item, name) for item in value]}
    if type(value) in (dict, OrderedDict):
        pairs = [[_value(key, name), _value(item, name)] for key, item in value.items()]
        return {"dict": pairs, "ordered": type(value) is OrderedDict}
    if isinstance(value, type):
        return {"type": _type_name(value, name)}
    torch = imported_torch()
    for kind in _TORCH_KINDS if torch is not None else ():
        if isinstance(value, getattr(torch, kind)):
            return {f"torch.{kind}": str(value).removeprefix("torch.")}
    raise UnsupportedError(
        f"{name} has the value {value!r}, a {type(value).__name__}, which a file cannot hold; nearest supported form: "
        "None, numbers, text, and tuples, lists and dicts of these"
    )


def _type_name(kind: type, name: str) -> Json:
    found = _lookup(kind.__module__, kind.__qualname__)
    if found is not kind:
        raise UnsupportedError(
            f"{name} is a {kind.__qualname__}, a class that its module {kind.__module__} has under no name; nearest "
            "supported form: a class at the top of a module"
        )
    return [kind.__module__, kind.__qualname__]


def _lookup(module: str, name: str) -> Any:
    try:
        return operator.attrgetter(name)(sys.modules[module])
    except (KeyError, AttributeError):
        return None


class Reader:
    """Reads nodes.

    Args:
        types: Classes that the file may name, beside those of modules that are loaded.
    """

    def __init__(self, types: Iterable[type] = ()) -> None:
        self._types: Mapping[tuple[str, str], type] = {(kind.__module__, kind.__qualname__): kind for kind in types}

    def node(self, json: Json) -> tuple[Any, ...]:
        """The node of some JSON.

        Raises:
            UserError: A class that it names is not loaded, or the JSON is no node.
        """
        try:
            return self._node(json)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise UserError(f"the structure of arguments and results is malformed ({error!r})") from error

    def _node(self, json: Json) -> tuple[Any, ...]:
        kind, name = json["kind"], str(json["name"])
        if kind == "tensor":
            return ("tensor", name, int(json["index"]))
        if kind == "const":
            return ("const", name, self.value(json["value"]))
        if kind == "extent":
            return ("extent", name, tuple((str(op), int(value)) for op, value in json["steps"]))
        if kind == "labels":
            return _labels.node(name, _labels.Labels(int(json["index"]), tuple(map(str, json["table"]))))
        if kind == "complex":
            self._needs_torch(name)
            return _complex.node(name, int(json["index"]))
        if kind == "complex_array":
            if json["dtype"] not in ("complex64", "complex128"):
                raise ValueError(f"a complex array of {json['dtype']!r}")
            leaf = ("tensor", name, int(json["index"]))
            return _complex_arrays.node(name, json["dtype"], leaf, json["result"] is True)
        if kind == "placed":
            self._needs_torch(name)
            return _signature.placed_node(name, int(json["index"]), int(json["offset"]))
        children = tuple(self._node(child) for child in json["children"])
        if kind in ("tuple", "list"):
            return (kind, name, children)
        made = self._type(json["type"])
        if kind == "dict":
            if made not in (dict, OrderedDict):
                raise ValueError(f"a dict of type {made!r}")
            return (kind, name, made, tuple(self.value(key) for key in json["keys"]), children)
        if kind == "namedtuple":
            if not _signature._is_namedtuple(made) or len(made._fields) != len(children):
                raise UserError(
                    f"{name} was saved as a {made.__qualname__} of {len(children)} fields; it has others now"
                )
            return (kind, name, made, children)
        if kind == "dataclass":
            return (kind, name, made, tuple(str(self.value(key)) for key in json["keys"]), children)
        if kind == "custom":
            registered = _signature._registered(made)
            if registered is None:
                raise UserError(
                    f"{name} was saved as a {made.__qualname__}, which is not registered with torch.utils._pytree here"
                )
            context = self.value(json["context"])
            return (kind, name, made, registered.flatten_fn, registered.unflatten_fn, context, children)
        raise ValueError(f"a node of kind {kind!r}")

    def value(self, json: Json) -> Any:
        """A value that `to_json` wrote."""
        if not isinstance(json, dict):
            if isinstance(json, (list, float)):
                raise ValueError(f"the value {json!r}")
            return json
        (what, content), *more = json.items()
        if what == "float":
            return float.fromhex(content)
        if what == "complex":
            return complex(*map(float.fromhex, content))
        if what == "bytes":
            return base64.b64decode(content, validate=True)
        if what in ("tuple", "list"):
            items = [self.value(item) for item in content]
            return tuple(items) if what == "tuple" else items
        if what == "dict":
            pairs = [(self.value(key), self.value(item)) for key, item in content]
            return OrderedDict(pairs) if dict(more).get("ordered") else dict(pairs)
        if what == "type":
            return self._type(content)
        kind = what.removeprefix("torch.")
        if kind not in _TORCH_KINDS:
            raise ValueError(f"the value {json!r}")
        torch = self._needs_torch(what)
        return torch.device(content) if kind == "device" else getattr(torch, content)

    def _needs_torch(self, name: str) -> Any:
        torch = imported_torch()
        if torch is None:
            raise UserError(f"{name} is of torch: import torch before the model is loaded")
        return torch

    def _type(self, json: Json) -> type:
        module, name = map(str, json)
        found = self._types.get((module, name)) or _lookup(module, name)
        if not isinstance(found, type):
            raise UserError(
                f"the model was saved with arguments or results of class {name} of the module {module}: import that module "
                "before the model is loaded, or hand the class over (types=)"
            )
        return found
