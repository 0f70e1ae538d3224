# SPDX-License-Identifier: Apache-2.0
"""Programs of JAX, in each form that they are given in, as a StableHLO module with what its arguments and results are."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import chlo, sdy, stablehlo

from straightline.capture.builder import Dim
from straightline.capture.extents import Extent
from straightline.errors import UnsupportedError, UserError

#: Texts, arrows and brackets of a module's text; so deep may its brackets nest.
_BRACKETS = re.compile(rb'"(?:\\.|[^"\\])*"|->|[\[\](){}<>]', re.DOTALL)
_MOST_DEPTH = 400
#: In a printed module a backslash, or bytes that are no printable ASCII.
_ESCAPED = re.compile(rb"\\\\|(?:\\[0-9A-F]{2})+")
#: The first bytes of MLIR's bytecode, which StableHLO's portable artifacts are.
BYTECODE = b"ML\xefR"
_NEEDS_JAX = "needs jax ({}): pip install 'straightline[jax]'"


@dataclass(frozen=True)
class Leaf:
    """An array among the arguments: its place in messages, its elements by numpy's name and its sizes."""

    name: str
    dtype: str
    shape: tuple[Dim, ...]
    #: The implementation of JAX's typed keys ("fry"), of which the module has the numbers.
    key: str | None = None


@dataclass
class LoadedProgram:
    """A module, and how JAX calls it."""

    name: str
    module: ir.Module
    #: Arrays among the arguments, in the order of JAX's flattening.
    leaves: list[Leaf]
    #: Numbers of the leaves that the module's main function takes, in its order.
    kept: list[int]
    #: `PyTreeDef`s of (args, kwargs) and of the result; None where there are none (a module by itself).
    in_tree: Any = None
    out_tree: Any = None
    #: Per leaf of the result the implementation of JAX's typed keys, where it is one.
    out_keys: list[str | None] = field(default_factory=list)
    #: Values of arguments that are constants for the program, by place.
    static: dict[int, Any] = field(default_factory=dict)
    #: Names of sizes.
    symbols: list[str] = field(default_factory=list)
    #: The number of the program's own among the platforms of a module for several.
    platform: int = 0


def load(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], platforms: Sequence[str]) -> LoadedProgram:
    """A jitted function with example arguments, an `Exported`, its bytes, or the path of a file that has such.

    `platforms`: JAX's names of those whose form of the program is taken, the best one first: functions are lowered for it. An
    export that is for another of them computes the same.

    Raises:
        UserError: It is none of these, arguments are missing, or JAX does not trace it.
        UnsupportedError: It is for several devices, or for other platforms.
    """
    if isinstance(model, (str, os.PathLike)):
        try:
            with open(model, "rb") as file:
                return _of_bytes(file.read(), os.path.basename(os.fspath(model)), platforms)
        except OSError as error:
            raise UserError(f"cannot read {os.fspath(model)!r}: {error.strerror}") from error
    if isinstance(model, (bytes, bytearray)):
        return _of_bytes(bytes(model), "<bytes>", platforms)
    if type(model).__name__ == "Exported":
        return _of_exported(model, platforms)
    return _of_function(model, args, kwargs, platforms)


def _of_bytes(data: bytes, name: str, platforms: Sequence[str]) -> LoadedProgram:
    if data[:4] == BYTECODE or data.lstrip()[:1] in (b"m", b"#", b"/", b'"'):
        return _of_module(data, name)
    try:
        from jax import export
    except ImportError as error:
        raise UserError(f"{name} is an exported program of JAX, which " + _NEEDS_JAX.format(error)) from error
    try:
        exported = export.deserialize(bytearray(data))
    except Exception as error:  # flatbuffers raises what it likes for bytes that are none
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(
            f"{name} is no exported program that this jax reads: {type(error).__name__}: {first}"
        ) from error
    return _of_exported(exported, platforms)


def _context() -> ir.Context:
    """A context with the dialects of modules that JAX makes."""
    context = ir.Context()
    for dialect in (stablehlo, chlo, sdy):
        if hasattr(dialect, "register_dialect"):
            dialect.register_dialect(context)
    extension = importlib.import_module("jaxlib.mlir._mlir_libs._jax_mlir_ext")
    registry = ir.DialectRegistry()
    extension.register_dialects(registry)
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    return context


def _check_depth(data: bytes, name: str) -> None:
    """Refuses text that nests so deep that MLIR's parser, which calls itself, ends the process."""
    depth = deepest = 0
    for found in _BRACKETS.finditer(data):
        mark = found[0]
        if mark in b"[({<":
            depth += 1
            deepest = max(deepest, depth)
        elif mark in b"])}>":
            depth -= 1
    if deepest > _MOST_DEPTH:
        raise UserError(f"{name} nests {deepest} levels but a module has at most {_MOST_DEPTH}")


def _parsed(data: bytes, name: str) -> ir.Module:
    context = _context()
    if data[:4] != BYTECODE:
        _check_depth(data, name)
    try:
        with context:
            if data[:4] != BYTECODE:
                module = ir.Module.parse(data.decode("utf-8", "replace"))
            else:
                module = stablehlo.deserialize_portable_artifact(context, data)
    except Exception as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(f"{name} is no StableHLO module that this jaxlib reads: {first}") from error
    _check_texts(module, name)
    return module


def _check_texts(module: ir.Module, name: str) -> None:
    """Refuses names that are no UTF-8: jaxlib's bindings end the process where one of a location is asked for."""
    printed = module.operation.get_asm(binary=True, enable_debug_info=True, large_elements_limit=8)
    for found in _ESCAPED.finditer(printed):
        if found[0] != b"\\\\":
            code = bytes.fromhex(found[0].replace(b"\\", b"").decode())
            try:
                code.decode()
            except UnicodeDecodeError as error:
                raise UserError(
                    f"{name} is no StableHLO module: a name in it, with the bytes {code!r}, is no text"
                ) from error


def main_of(module: ir.Module, name: str) -> ir.Operation:
    """The function that a module is called by."""
    functions = [op.operation for op in module.body.operations if op.operation.name == "func.func"]
    for function in functions:
        if ir.StringAttr(function.attributes["sym_name"]).value == "main":
            return function
    if len(functions) != 1:
        raise UserError(f"{name} has no function 'main' among {len(functions)} functions")
    return functions[0]


def is_array(type: ir.Type) -> bool:
    """Whether a type is an array's; effects have tokens."""
    return str(type).startswith("tensor<")


def _of_module(data: bytes, name: str) -> LoadedProgram:
    """A module by itself: arguments by position, named sizes by their places."""
    module = _parsed(data, name)
    main = main_of(module, name)
    leaves = []
    for place, argument in enumerate(main.regions[0].blocks[0].arguments):
        type = ir.RankedTensorType(argument.type)
        given = list(type.shape)
        shape = tuple(Extent(f"arg{place}_{d}") if n < 0 else int(n) for d, n in enumerate(given))
        leaves.append(Leaf(f"arg{place}", str(type.element_type), shape))
    symbols = [str(e) for leaf in leaves for e in leaf.shape if isinstance(e, Extent)]
    return LoadedProgram(name, module, leaves, list(range(len(leaves))), symbols=symbols)


# JAX's own forms ------------------------------------------------------------------------------------------------------


def _of_exported(exported: Any, platforms: Sequence[str]) -> LoadedProgram:
    name = exported.fun_name
    platform = next((one for one in platforms if one in exported.platforms), None)
    if platform is None:
        raise UnsupportedError(
            f"'{name}' was exported for {', '.join(exported.platforms)}; nearest supported form: platforms=[{platforms[0]!r}]"
        )
    if exported.nr_devices != 1:
        raise UnsupportedError(
            f"'{name}' was exported for {exported.nr_devices} devices; nearest supported form: a program of one device"
        )
    _check_effects(name, exported.ordered_effects, exported.unordered_effects)
    module = _parsed(exported.mlir_module_serialized, name)
    leaves = [_leaf(aval, path, name) for aval, path in zip(exported.in_avals, _paths(exported.in_tree))]
    symbols = sorted({s for leaf in leaves for e in leaf.shape if isinstance(e, Extent) for s in e.symbols})
    return LoadedProgram(
        name,
        module,
        leaves,
        list(exported.module_kept_var_idx),
        exported.in_tree,
        exported.out_tree,
        [_key_of(aval) for aval in exported.out_avals],
        symbols=symbols,
        platform=list(exported.platforms).index(platform),
    )


def _check_effects(name: str, *effects: Any) -> None:
    found = [str(effect) for listed in effects for effect in listed]
    if any("callback" not in text.lower() and "debug" not in text.lower() for text in found):
        raise UnsupportedError(
            f"'{name}' has effects ({', '.join(found)}); nearest supported form: a function of its arguments alone"
        )


def _of_function(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], platforms: Sequence[str]) -> LoadedProgram:
    import jax

    if not hasattr(model, "trace"):
        raise UserError(
            f"model is a {type(model).__name__} of JAX: give the function that jax.jit made, or jax.export's"
        )

    if not hasattr(jax, "export"):
        raise UserError(f"jax {jax.__version__} has no jax.export: pip install 'jax>=0.4.30'")
    name = getattr(model, "__name__", "the function")
    _check_placed((args, kwargs), name)
    if any(_is_symbolic(leaf) for leaf in jax.tree_util.tree_leaves((args, kwargs))):
        from jax import export

        called = _targets(_said(lambda: model.trace(*args, **kwargs), name).jaxpr.jaxpr)
        checks = [export.DisabledSafetyCheck.custom_call(target) for target in sorted(called)]
        exported = _said(
            lambda: export.export(model, platforms=[platforms[0]], disabled_checks=checks)(*args, **kwargs), name
        )
        return _of_exported(exported, platforms)
    traced = _said(lambda: model.trace(*args, **kwargs), name)
    lowered = _said(lambda: traced.lower(lowering_platforms=(platforms[0],)), name)
    infos = jax.tree_util.tree_leaves(traced.args_info, is_leaf=lambda x: hasattr(x, "donated"))
    avals = [info._aval for info in infos]
    module = lowered.compiler_ir("stablehlo")
    static = _static_of(model, args, kwargs)
    names = [n for i, n in enumerate(_positional_names(model, len(args))) if i not in static]
    leaves = [_leaf(aval, path, name) for aval, path in zip(avals, _paths(traced.in_tree, names))]
    main = main_of(module, name)
    count = sum(is_array(argument.type) for argument in main.regions[0].blocks[0].arguments)
    kept = sorted(getattr(lowered._lowering, "compile_args", {}).get("kept_var_idx", range(len(leaves))))
    if len(kept) != count:
        raise UnsupportedError(
            f"'{name}' has {len(leaves)} arrays but its module takes {count}, and this jax does not say which; "
            "nearest supported form: jax.jit(..., keep_unused=True)"
        )
    outs = jax.tree_util.tree_leaves(traced.out_info)
    return LoadedProgram(
        name, module, leaves, kept, traced.in_tree, traced.out_tree, [_key_of(out) for out in outs],
        static=static,
    )  # fmt: skip


def _said(make: Any, name: str) -> Any:
    """What JAX makes; what it raises for the user's function is the user's error, in its words."""
    import jax

    try:
        return make()
    except (
        TypeError, ValueError, jax.errors.JAXTypeError, jax.errors.JAXIndexError, NotImplementedError,
        jax.errors.InconclusiveDimensionOperation,
    ) as error:  # fmt: skip
        first = (str(error).strip().splitlines() or [""])[0]
        raise UserError(f"JAX does not trace '{name}' with these arguments: {type(error).__name__}: {first}") from error


def _targets(jaxpr: Any) -> set[str]:
    """What a function calls by jax.ffi, also within loops and branches: JAX exports such calls only where it is told to."""
    found: set[str] = set()
    for equation in jaxpr.eqns:
        if equation.primitive.name == "ffi_call":
            found.add(str(equation.params["target_name"]))
        for inner in _inner(list(equation.params.values())):
            found |= _targets(inner)
    return found


def _inner(params: list[Any]) -> list[Any]:
    """The jaxprs among parameters of a primitive."""
    found = []
    for value in params:
        if isinstance(value, (tuple, list)):
            found += _inner(list(value))
        elif hasattr(value, "eqns"):
            found.append(value)
        elif hasattr(getattr(value, "jaxpr", None), "eqns"):
            found.append(value.jaxpr)
    return found


def _static_of(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[Any, Any]:
    """Static arguments, by position or by name."""
    info = getattr(model, "_jit_info", None)
    if info is None:
        return {}
    found: dict[Any, Any] = {
        i % len(args): args[i % len(args)] for i in info.static_argnums if -len(args) <= i < len(args)
    }
    return found | {n: kwargs[n] for n in info.static_argnames if n in kwargs}


def _is_symbolic(leaf: Any) -> bool:
    return any(type(n).__name__ == "_DimExpr" for n in getattr(leaf, "shape", ()))


def _check_placed(tree: Any, name: str) -> None:
    """Refuses arrays that lie on several devices."""
    import jax

    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        sharding = getattr(leaf, "sharding", None)
        devices = getattr(sharding, "device_set", None)
        if not devices:
            continue
        where = jax.tree_util.keystr(path)
        if len(devices) > 1:
            raise UnsupportedError(
                f"'{name}': the argument {where} is sharded over {len(devices)} devices; "
                "nearest supported form: an array on one device"
            )


def _positional_names(model: Any, count: int) -> list[str]:
    """Names of positional parameters, as far as the function says them."""
    try:
        parameters = list(inspect.signature(model).parameters.values())
    except (TypeError, ValueError):
        return [f"args[{i}]" for i in range(count)]
    plain = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [plain[i] if i < len(plain) else f"args[{i}]" for i in range(count)]


def _paths(tree: Any, names: Sequence[str] = ()) -> list[str]:
    """A name for each leaf of a tree of (args, kwargs); `names`: of the positional arguments."""
    import jax

    marks = jax.tree_util.tree_unflatten(tree, list(range(tree.num_leaves)))
    found = [""] * tree.num_leaves
    for path, leaf in jax.tree_util.tree_flatten_with_path(marks)[0]:
        keys = path[1:]
        first, rest = keys[0] if keys else "", keys[1:]
        is_keyword = getattr(path[0], "idx", 0) == 1
        place = getattr(first, "idx", -1)
        text = names[place] if not is_keyword and 0 <= place < len(names) else f"args{first}"
        text = str(getattr(first, "key", first)) if is_keyword else text
        found[leaf] = text + jax.tree_util.keystr(tuple(rest))
    return found


def _key_of(aval: Any) -> str | None:
    """The implementation of JAX's typed keys where a type is one."""
    import jax

    if not jax.dtypes.issubdtype(aval.dtype, jax.dtypes.prng_key):
        return None
    return str(aval.dtype).removeprefix("key<").removesuffix(">")


def _leaf(aval: Any, name: str, program: str) -> Leaf:
    import jax

    key = _key_of(aval)
    shape: tuple[Any, ...] = tuple(_dim(n, name, program) for n in aval.shape)
    if key is not None:
        inner = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct((), aval.dtype))
        return Leaf(name, str(inner.dtype), (*shape, *inner.shape), key)
    if aval.dtype == jax.dtypes.float0:
        raise UnsupportedError(
            f"'{program}': the argument {name} has elements of float0, which have no bytes; "
            "nearest supported form: float, integer or bool arrays"
        )
    return Leaf(name, str(aval.dtype), shape)


def _dim(size: Any, name: str, program: str) -> Dim:
    """A size of JAX as an extent."""
    if isinstance(size, int):
        return size
    try:
        return _extent(ast.parse(str(size), mode="eval").body)
    except (SyntaxError, ValueError) as error:
        raise UnsupportedError(
            f"'{program}': the argument {name} has a size of {size}; "
            "nearest supported form: sums and products of named sizes and numbers, floordiv, mod"
        ) from error


def _extent(node: ast.expr) -> Dim:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.Name):
        return Extent(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _extent(node.operand) * -1
    if isinstance(node, ast.BinOp):
        x, y = _extent(node.left), _extent(node.right)
        if isinstance(node.op, ast.Add):
            return x + y
        if isinstance(node.op, ast.Sub):
            return x - y
        if isinstance(node.op, ast.Mult):
            return x * y
        if isinstance(node.op, ast.Pow) and isinstance(y, int) and 0 < y < 9:
            found = x
            for _ in range(y - 1):
                found = found * x
            return found
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 2:
        x, y = (_extent(a) for a in node.args)
        if node.func.id == "floordiv":
            return x // y
        if node.func.id == "mod":
            return x % y
    raise ValueError(ast.dump(node))


__all__ = ["Leaf", "LoadedProgram", "load", "main_of"]
