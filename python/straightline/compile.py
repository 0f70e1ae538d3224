# SPDX-License-Identifier: Apache-2.0
"""`compile`: a model and example inputs become a callable that runs straight-line machine code."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from straightline import _aten_calls, _call, _call_support, _compiler, _signature, explanation
from straightline.errors import CacheWarning, UserError
from straightline.module_builder import ModuleBuilder


class _Methods:
    """What a compiled function offers beside being called."""

    __slots__ = ()

    @property
    def code(self) -> str:
        """The C++ that runs: kernels, prepare, run and the tables, as one translation unit."""
        return self._compilation.code

    def ir(self, level: str = "kernel", *, locations: bool = False) -> str:
        """The program as MLIR.

        Args:
            level: "op" (values, as captured) or "kernel" (buffers and statements, as emitted).
            locations: Print the source location of each op.
        """
        return self._compilation.ir(level, locations=locations)

    def explain(self) -> explanation.Explanation:
        """What became of every op: kernel, backend, why, bytes; prints as a table."""
        return explanation.Explanation(json.loads(self._compilation.explain_json))


CompiledFunction = _call.callable_type("straightline.CompiledFunction", _Methods)


def compile(
    model: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    threads: int | None = None,
    freeze: bool = True,
    cpu: str = "",
    cache: bool = True,
    allow: Sequence[str] | None = None,
    _prefer: str = "",
    _device: str = "",
) -> Callable[..., Any]:
    """Compiles a model for inputs like the examples.

    Args:
        model: A `torch.nn.Module` in eval mode, a function or lambda over tensors, or a `torch.export.ExportedProgram`.
        args: Example positional arguments: torch tensors or numpy arrays; a call must have their dtypes, sizes and strides.
        kwargs: Example keyword arguments.
        dynamic_shapes: As in `torch.export.export`: sizes given as a `torch.export.Dim` may differ between calls.
        threads: Team size to plan for; by default 1 for small models and torch's number of threads for larger ones.
        freeze: The program keeps what it computes from parameters once (packed weights, folded batch norms). With False it
            reads them live.
        cpu: An LLVM CPU name or level such as "x86-64-v3"; by default this machine's.
        cache: Use the disk cache of compiled code.
        allow: Backends that kernels may come from, such as ("native", "onednn"); by default all. Without "aten" an op that only
            the framework has is refused, with its source line.

    Returns:
        A callable with the model's signature and the attributes `code`, `ir(level)` and `explain()`.

    Raises:
        UserError: The model or an argument is not what it should be.
        UnsupportedError: Lists every op that has no kernel, with its source line.
        InternalError: A bug; the message names the file that keeps what reproduces it.
    """
    import torch

    from straightline.capture.torch_export import capture

    _check_options(args, kwargs, threads=threads, freeze=freeze, cpu=cpu, cache=cache)
    allowed = _allowed_backends(allow)
    _aten_calls.install()
    uses_numpy, args, kwargs = _torch_examples(args, kwargs)
    captured = capture(model, args, kwargs, dynamic_shapes, ModuleBuilder(), "aten" in allowed)
    if isinstance(model, torch.export.ExportedProgram):
        examples = model.example_inputs
        args, kwargs = examples if examples is not None else ((), {})
    module = captured.builder.finish()
    options = f"freeze={'true' if freeze else 'false'}"
    # For tests: a backend whose kernels are taken wherever they accept, and one on whose device everything runs.
    options += f" prefer={_prefer}" if _prefer else ""
    options += f" device={_device}" if _device else ""
    options += f" allow={'+'.join(allowed)}" if allow is not None else ""
    compilation = _compile(module, cpu=cpu, threads=threads or 1, pipeline=options, cache=cache)
    explained = json.loads(compilation.explain_json)
    if threads is None and explained.get("estimated_us", 0.0) > _WORTH_A_TEAM_US and _default_threads() > 1:
        compilation = _compile(module, cpu=cpu, threads=_default_threads(), pipeline=options, cache=cache)
        explained = json.loads(compilation.explain_json)
    parameters = [captured.parameters[name] for name in explained["parameters"]]
    weights = _call.weights(compilation.program, parameters)
    positions = [spec.argument if spec.is_tensor else -1 for spec in captured.inputs]
    target = model.module() if isinstance(model, torch.export.ExportedProgram) else model
    inputs = _signature.input_structure(target, args, kwargs, positions)
    outputs = _signature.treespec_structure(captured.out_spec, [_output_leaf(spec, captured) for spec in captured.outputs])
    function = CompiledFunction(
        compilation.program,
        weights,
        inputs,
        outputs,
        {"kind": "numpy" if uses_numpy else "torch", "estimated_us": explained.get("estimated_us", 0.0)},
    )
    function._compilation = compilation
    return function


def _check_options(
    args: object, kwargs: object, *, threads: object, freeze: object, cpu: object, cache: object
) -> None:
    if not isinstance(args, (tuple, list)):
        raise UserError(f"args is a {type(args).__name__}; give the example inputs as a tuple, also when there is one")
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise UserError(f"kwargs is a {type(kwargs).__name__}; give the example keyword arguments as a dict")
    for key in kwargs or {}:
        if not isinstance(key, str):
            raise UserError(f"kwargs has the key {key!r}; keys are argument names")
    if threads is not None and (not isinstance(threads, int) or isinstance(threads, bool) or not 1 <= threads < 2**31):
        raise UserError(f"threads is {threads!r} but must be a positive integer or None")
    if not isinstance(cpu, str):
        raise UserError(f"cpu is {cpu!r} but must be the name of a cpu, or '' for this machine's")
    for name, flag in (("freeze", freeze), ("cache", cache)):
        if not isinstance(flag, bool):
            raise UserError(f"{name} is {flag!r} but must be True or False")


#: Every backend that a kernel may come from.
_BACKENDS = ("native", "onednn", "aten")


def _allowed_backends(allow: Sequence[str] | None) -> tuple[str, ...]:
    if allow is None:
        return _BACKENDS
    if isinstance(allow, str) or not isinstance(allow, Sequence):
        raise UserError(f"allow is {allow!r} but must be a sequence of backends, such as ('native', 'onednn')")
    for name in allow:
        if name not in _BACKENDS:
            raise UserError(f"allow has the backend {name!r}; valid are {', '.join(_BACKENDS)}")
    if "native" not in allow:
        raise UserError(f"allow is {tuple(allow)} but must have 'native': only it has elementwise and row kernels")
    return tuple(name for name in _BACKENDS if name in allow)


def _compile(module: _compiler.Module, **options: Any) -> _compiler.Compilation:
    """Compiles, and hands on what the disk cache had to say (a damaged entry, a folder that cannot be written)."""
    compilation = _compiler.compile(module, **options)
    for note in compilation.notes.splitlines():
        warnings.warn(note, CacheWarning, stacklevel=3)
    return compilation


#: Below this many microseconds a second thread costs more than it brings.
_WORTH_A_TEAM_US = 100.0


def _default_threads() -> int:
    import torch

    return min(torch.get_num_threads(), len(os.sched_getaffinity(0)))


def _torch_examples(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> tuple[bool, tuple[Any, ...], dict[str, Any]]:
    """Numpy examples as torch tensors over the same memory, for capture."""
    import numpy
    import torch
    from torch.utils import _pytree as pytree

    found = False

    def convert(leaf: Any) -> Any:
        nonlocal found
        if isinstance(leaf, numpy.generic):
            raise UserError(f"a numpy example {_call_support.refusal(leaf, None)}")
        if not isinstance(leaf, numpy.ndarray):
            return leaf
        found = True
        if not leaf.flags.writeable:
            leaf = leaf.copy()
        if type(leaf) is not numpy.ndarray or leaf.dtype.kind not in "iufcb" or not leaf.dtype.isnative:
            raise UserError(f"a numpy example {_call_support.refusal(leaf, None)}")
        if any(stride < 0 or stride % leaf.itemsize for stride in leaf.strides):
            raise UserError("a numpy example has negative or unaligned strides, which torch cannot capture; copy it first")
        return torch.from_numpy(leaf)

    flat, spec = pytree.tree_flatten((tuple(args), dict(kwargs or {})))
    new_args, new_kwargs = pytree.tree_unflatten([convert(leaf) for leaf in flat], spec)
    return found, new_args, new_kwargs


def _output_leaf(spec: Any, captured: Any) -> tuple[Any, ...]:
    if spec.result >= 0:
        return ("tensor", "", spec.result)
    if spec.extent is not None:
        return ("extent", "", _reverse_polish(str(spec.extent), [symbol.name for symbol in captured.symbols]))
    return ("const", "", spec.constant)


def _reverse_polish(text: str, names: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Postfix steps of a size expression, as `sl_expr` has them."""
    import ast

    operators = {ast.Add: "+", ast.Mult: "*", ast.FloorDiv: "/", ast.Mod: "%"}
    tree = ast.parse(text.replace("floordiv", "//").replace(" mod ", " % "), mode="eval").body

    def steps(node: ast.expr) -> list[tuple[str, int]]:
        if isinstance(node, ast.BinOp):
            return [*steps(node.left), *steps(node.right), (operators[type(node.op)], 0)]
        if isinstance(node, ast.UnaryOp):
            return [("c", -node.operand.value)]  # type: ignore[attr-defined]
        if isinstance(node, ast.Name):
            return [("s", sorted(names).index(node.id))]
        return [("c", node.value)]  # type: ignore[attr-defined]

    return tuple(steps(tree))
