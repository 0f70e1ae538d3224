# SPDX-License-Identifier: Apache-2.0
"""Programs of JAX as callables: a jitted function with example arguments, an `Exported`, its bytes, or a .stablehlo file.

Importing this imports neither jax nor jaxlib.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from straightline import _complex_arrays, _places, _signature
from straightline.compiled_function import CompiledFunction
from straightline.errors import GuardError, UserError
from straightline.mlir_model import DTYPES, Calls, compiled_module
from straightline.module_builder import ModuleBuilder
from straightline.options import CompileOptions, takes_options
from straightline.parameters import DeclaredParameter, ParameterTable
from straightline.torch_model import FRONT_ENDS


def is_jax(model: object) -> bool:
    """Whether sl.compile takes this for a program of JAX."""
    if isinstance(model, (str, os.PathLike)):
        return os.fspath(model).endswith(".stablehlo")
    if isinstance(model, (bytes, bytearray)):
        # MLIR's bytecode, or a flatbuffer, which begins with a small offset in four bytes; no ONNX model begins like these.
        return bytes(model[:4]) == b"ML\xefR" or bytes(model[1:4]) == b"\0\0\0"
    kind = type(model)
    return kind.__module__.startswith(("jax.", "jaxlib.")) and kind.__name__ in _KINDS


#: Those of which a program can be made, and those that are refused in words.
_KINDS = ("PjitFunction", "Exported", "Lowered", "Compiled", "Traced")


@takes_options
def compile_jax(
    model: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    sizes: Mapping[str, int | tuple[int, int]] | None = None,
    options: CompileOptions | None = None,
    **changes: Any,
) -> CompiledFunction:
    """Compiles a program of JAX.

    Args:
        model: What `jax.jit` gives, with examples; a `jax.export.Exported`; its serialized bytes or a StableHLO module's
            bytecode; or the path of a .stablehlo file with such.
        args: Examples of a jitted function's arguments: arrays of JAX or numpy, numbers, `jax.ShapeDtypeStruct`s, of which
            sizes may be those of `jax.export.symbolic_shape`; in tuples, lists, dicts and what is registered with jax.tree_util.
        kwargs: Examples of its keyword arguments.
        sizes: The smallest and the largest value of named sizes; by default from 1 on.
        options: What `CompileOptions` says.
        changes: Options by name, over those of `options`.

    Returns:
        A callable with the function's own arguments and results. Results are arrays of the arguments' kind.

    Raises:
        UserError: JAX does not trace the function, an argument does not fit, or jaxlib is not there.
        UnsupportedError: Lists each op that has no form here, with the user's line.
    """
    try:
        from straightline.capture import jax as front_end
    except ImportError as error:
        raise UserError(f"programs of JAX need jaxlib ({error}): pip install 'straightline[jax]'") from error
    chosen = CompileOptions.of(options, changes, compile_jax)
    place, number = _places.of_arrays(chosen, _leaves((tuple(args), dict(kwargs or {}))))
    platforms = ("cuda", "cpu") if place.startswith("cuda") else ("cpu",)
    program = front_end.load(model, tuple(args), dict(kwargs or {}), platforms)
    builder = ModuleBuilder()
    imported = front_end.import_module(program, builder, sizes)
    module = builder.finish()
    rows = json.loads(module.parameters_json)
    table = ParameterTable.of_declared(
        DeclaredParameter(row["name"], DTYPES.get(row["type"], row["type"]), tuple(row["shape"]), None, False)
        for row in rows
    )
    inputs, outputs = _Trees(program, model, args, kwargs or {}).signature(imported.complex_results)
    calls = Calls(inputs, outputs, kind=_kind())
    given = _places.placed(imported.parameters, rows, place, number)
    return compiled_module(module, table, given, chosen, place=place, number=number, calls=calls)


def _leaves(tree: Any) -> list[Any]:
    """What a tree of examples consists of; none without jax, whose trees they would be."""
    if not any(tree) or importlib.util.find_spec("jax") is None:
        return []
    import jax

    return list(jax.tree_util.tree_leaves(tree))


def _kind() -> str:
    """The framework of results of a call without arrays: jaxlib may be there without jax."""
    return "jax" if importlib.util.find_spec("jax") is not None else "numpy"


class _Trees:
    """The nodes of a program's arguments and results, as JAX has its trees."""

    def __init__(self, program: Any, model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self._program, self._model = program, model
        self._args, self._kwargs = args, kwargs
        self._next = 0

    def signature(self, complex_results: Sequence[str]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Nodes of the arguments, and of the result; `complex_results`: numpy's name of each that is complex, else ""."""
        program, results = self._program, len(complex_results)
        if program.in_tree is None:
            arguments = tuple(
                (leaf.name, _signature.EITHER, self._argument(i, leaf.name)) for i, leaf in enumerate(program.leaves)
            )
            names = [f"result[{i}]" for i in range(results)] if results != 1 else ["result"]
            found = [_result_leaf(i, None, kind, name) for i, (kind, name) in enumerate(zip(complex_results, names))]
            whole: tuple[Any, ...] = ("tuple", "result", tuple(found)) if results != 1 else found[0]
            return arguments, whole if results else ("const", "result", None)
        return self._arguments(), self._result(complex_results)

    def _arguments(self) -> tuple[Any, ...]:
        """Parameters with their names and kinds, static ones among them."""
        positional, keywords = self._program.in_tree.children()
        static = dict(self._program.static)
        trees = iter(positional.children())
        count = len(positional.children()) + sum(isinstance(key, int) for key in static)
        signature = _signature_of(self._model)
        places = _signature._names_of_positions(signature, count) if signature else []
        places = (
            places[:count] if len(places) >= count else [(f"args[{i}]", _signature.POSITIONAL) for i in range(count)]
        )
        found: list[tuple[Any, ...]] = []
        for i, (name, kind) in enumerate(places):
            node = ("const", name, static.pop(i)) if i in static else self._node(next(trees), None, name)
            found.append((name, kind, node))
        names = list(keywords.node_data()[1] or ())
        found += [(n, _signature.KEYWORD, self._node(t, None, n)) for n, t in zip(names, keywords.children())]
        found += [(str(n), _signature.KEYWORD, ("const", str(n), value)) for n, value in static.items()]
        given = {name for name, *_ in found}
        for name, parameter in (signature.parameters if signature else {}).items():
            if name not in given and parameter.default is not inspect.Parameter.empty:
                found.append((name, _signature.KEYWORD, ("const", name, parameter.default), parameter.default))
        return tuple(found)

    def _node(self, tree: Any, leaves: Any, name: str) -> tuple[Any, ...]:
        """The node of a tree of arguments (`leaves` None) or of results."""
        if _is_leaf(tree):
            place = self._next
            self._next += 1
            return self._argument(place, name) if leaves is None else leaves[place](name)
        kind, context = tree.node_data() or (type(None), None)
        children = tree.children()
        if kind is type(None):
            return ("const", name, None)
        if kind in (tuple, list):
            return (kind.__name__, name, tuple(self._node(c, leaves, f"{name}[{i}]") for i, c in enumerate(children)))
        if kind is dict:
            keys = tuple(context)
            return (
                "dict",
                name,
                dict,
                keys,
                tuple(self._node(c, leaves, f"{name}[{k!r}]") for k, c in zip(keys, children)),
            )
        if _signature._is_namedtuple(kind):
            fields = zip(kind._fields, children)
            return ("namedtuple", name, kind, tuple(self._node(c, leaves, f"{name}.{f}") for f, c in fields))
        nodes = tuple(self._node(c, leaves, f"{name}.{i}") for i, c in enumerate(children))
        empty = self._shape_of(tree)
        return ("custom", name, kind, _one_level, functools.partial(_rebuilt, empty), context, nodes)

    @staticmethod
    def _shape_of(tree: Any) -> Any:
        """A tree of one node, whose children are leaves."""
        import jax

        children = [jax.tree_util.tree_structure(0)] * len(tree.children())
        kind = jax.tree_util.PyTreeDef
        make = getattr(kind, "from_node_data_and_children", None) or kind.make_from_node_data_and_children
        return make(jax.tree_util.default_registry, tree.node_data(), children)

    def _argument(self, place: int, name: str) -> tuple[Any, ...]:
        leaf = self._program.leaves[place]
        node = ("tensor", name, place)
        example = self._example(place)
        if leaf.key is not None:
            return ("custom", name, _key_type(), _key_data, _no_arguments, None, (node,))
        if (kind := complex_of(leaf.dtype)) is not None:
            return _complex_arrays.node(name, kind, node)
        is_number = type(example) in (bool, int, float) or (_is_numpy(example) and not _is_array(example))
        if is_number or (_is_array(example) and _is_numpy(example) and str(example.dtype) != leaf.dtype):
            convert = functools.partial(_converted, leaf.dtype, name)
            return ("custom", name, None, convert, _no_arguments, None, (node,))
        return node

    def _example(self, place: int) -> Any:
        if not self._args and not self._kwargs:
            return None
        if not hasattr(self, "_flat"):
            import jax

            dynamic = [x for i, x in enumerate(self._args) if i not in self._program.static]
            named = {k: x for k, x in self._kwargs.items() if k not in self._program.static}
            self._flat = jax.tree_util.tree_leaves((tuple(dynamic), named))
        return self._flat[place] if len(self._flat) == len(self._program.leaves) else None

    def _result(self, complex_results: Sequence[str]) -> tuple[Any, ...]:
        self._next = 0
        kinds = zip(self._program.out_keys, complex_results)
        leaves = [functools.partial(_result_leaf, i, key, kind) for i, (key, kind) in enumerate(kinds)]
        return self._node(self._program.out_tree, leaves, "result")


def complex_of(dtype: str) -> str | None:
    """Numpy's name of complex elements, of which StableHLO's modules have MLIR's."""
    return {"complex<f32>": "complex64", "complex<f64>": "complex128"}.get(dtype, dtype if "complex" in dtype else None)


def _result_leaf(place: int, key: str | None, complex_kind: str, name: str) -> tuple[Any, ...]:
    node = ("tensor", name, place)
    if complex_kind:
        return _complex_arrays.node(name, complex_kind, node, is_result=True)
    if key is None:
        return node
    return ("custom", name, _key_type(), _key_data, functools.partial(_key_of, key), None, (node,))


def _is_leaf(tree: Any) -> bool:
    import jax

    return bool(jax.tree_util.treedef_is_leaf(tree)) and tree.num_leaves == 1


def _signature_of(model: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(model)
    except (TypeError, ValueError):
        return None


def _is_numpy(value: object) -> bool:
    return type(value).__module__ == "numpy"


def _is_array(value: Any) -> bool:
    return type(value).__name__ == "ndarray"


def _converted(dtype: str, name: str, value: Any) -> tuple[list[Any], None]:
    """A number, or numpy's array of other elements, as JAX takes it; arrays of frameworks as they are."""
    import numpy as np

    if type(value) not in (bool, int, float) and not _is_numpy(value):
        return [value], None
    found = np.asarray(value)
    if found.dtype.kind == "f" and not dtype.startswith(("float", "bfloat")) or found.dtype.kind == "c":
        raise GuardError(f"'{name}' is of {found.dtype} but was compiled for {dtype}: compile once for each type")
    if dtype == "bfloat16":
        import ml_dtypes

        return [found.astype(ml_dtypes.bfloat16)], None
    return [found.astype(dtype)], None


def _no_arguments(children: Any, context: Any) -> Any:
    return children[0]


def _key_type() -> type:
    import jax

    return type(jax.random.key(0))


def _key_data(key: Any) -> tuple[list[Any], None]:
    import jax

    return [jax.random.key_data(key)], None


def _key_of(implementation: str, children: Any, context: Any) -> Any:
    import jax

    names = {"fry": "threefry2x32", "rbg": "rbg", "urbg": "unsafe_rbg"}
    return jax.random.wrap_key_data(children[0], impl=names.get(implementation, implementation))


def _one_level(value: Any) -> tuple[list[Any], Any]:
    """The children of a node that is registered with jax.tree_util, and its context."""
    import jax

    children, context = jax.tree_util.default_registry.flatten_one_level(value)
    return list(children), context


def _rebuilt(tree: Any, children: Any, context: Any) -> Any:
    return tree.unflatten(list(children))


def _compile_given(
    model: Any,
    args: Any,
    kwargs: Any,
    *,
    dynamic_shapes: Any,
    values: Any,
    sizes: Any,
    options: CompileOptions | None,
    **changes: Any,
) -> CompiledFunction:
    """What sl.compile does with a program of JAX."""
    if dynamic_shapes is not None:
        raise UserError(
            "dynamic_shapes is of torch's models: sizes of JAX are named by jax.export.symbolic_shape in the examples, "
            "sizes= gives their bounds"
        )
    if values is not None:
        raise UserError(
            "values is of ONNX models: values that a program of JAX depends on are static arguments of jax.jit"
        )
    if isinstance(args, list) and args and isinstance(args[0], tuple):
        raise UserError("several examples are given but a program of JAX has one: compile it once for each")
    return compile_jax(model, args, kwargs, sizes=sizes, options=options, **changes)


FRONT_ENDS.append((lambda model, args, kwargs: is_jax(model), _compile_given))
