# SPDX-License-Identifier: Apache-2.0
"""Programs of Paddle as callables: layers, functions, static programs, and files of `paddle.jit.save`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from straightline import _frameworks, _places, _signature, paddle_files
from straightline.capture.paddle.sizes import bounds_of, size_names, symbols_of
from straightline.compiled_function import CompiledFunction
from straightline.errors import UnsupportedError, UserError
from straightline.mlir_model import Calls, compiled_module
from straightline.module_builder import ModuleBuilder
from straightline.options import CompileOptions, takes_options
from straightline.parameters import ParameterTable


@takes_options
def compile_paddle(
    model: Any,
    args: Sequence[Any] | Mapping[str, Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Mapping[str, Any] | None = None,
    sizes: Mapping[str, int | tuple[int, int]] | None = None,
    fetches: Sequence[Any] | None = None,
    options: CompileOptions | None = None,
    **changes: Any,
) -> CompiledFunction:
    """Compiles a program of Paddle.

    Args:
        model: A `paddle.nn.Layer` in eval mode, a function of `paddle.jit.to_static` (traced by its source, or with
            `full_graph=False` by its bytecode), a function, a `paddle.static.Program`, or the path of a .json file of
            `paddle.jit.save`, beside which its .pdiparams stands.
        args: Examples by position: tensors, arrays, `InputSpec`s, constants. Of a program or a file: examples by position or
            by name, or nothing: then the sizes are those that it says.
        kwargs: Examples by name.
        dynamic_shapes: Names of sizes that may differ between calls: `{"x": {0: "batch"}}`. A size of -1 (`InputSpec`,
            `input_spec=`, files) without a name has one of its own, `x_0`; sizes are equal where they have one name.
        sizes: For named sizes a number, or the smallest and the largest; by default from 1 on.
        fetches: Of a program: what calls return, values or names; by default what its fetch ops say.
        options: What `CompileOptions` says.
        changes: Options by name, over those of `options`.

    Returns:
        A callable with the signature of the layer or function; of a program or file it takes the inputs by position or by
        name. Arguments are tensors of any framework or arrays, results are of the arguments' kind.

    Raises:
        UserError: It is in training mode, the file is none, or examples do not fit.
        UnsupportedError: Lists every op that has no form here, with its line.
    """
    chosen = CompileOptions.of(options, changes, compile_paddle)
    names = size_names(dynamic_shapes, sizes or {})
    if isinstance(model, (str, os.PathLike)):
        if fetches is not None:
            raise UserError("fetches is of paddle.static.Program: a file says itself what it returns")
        return paddle_files.compile_file(model, args or kwargs or (), names, sizes or {}, chosen)
    paddle = _frameworks.imported_paddle()
    if paddle is not None and isinstance(model, paddle.static.Program):
        return paddle_files.compile_program(model, args or kwargs or (), fetches, names, sizes or {}, chosen)
    if fetches is not None:
        raise UserError("fetches is of paddle.static.Program: a function says itself what it returns")
    return _of_function(model, args, kwargs or {}, names, sizes or {}, chosen)


def _of_function(
    model: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    names: Mapping[str, Mapping[int, str | int]],
    sizes: Mapping[str, Any],
    chosen: CompileOptions,
) -> CompiledFunction:
    begin = time.perf_counter()
    if not isinstance(args, (tuple, list)):
        raise UserError(f"args is a {type(args).__name__}; give the example inputs as a tuple, also when there is one")
    if isinstance(args, list) and args and all(isinstance(entry, tuple) for entry in args):
        raise UserError("several examples are given but a program of Paddle has one: compile it once for each")
    place, number = _places.of_arrays(chosen, [*args, *kwargs.values()])
    from straightline.capture import paddle as front_end
    from straightline.capture.paddle import trace

    free = {name: [d for d, said in dims.items() if isinstance(said, str)] for name, dims in names.items()}
    traced = trace.trace(model, tuple(args), kwargs, free)
    inputs = traced.inputs
    unknown = sorted(set(names) - {one.name for one in inputs})
    if unknown:
        given = ", ".join(repr(one.name) for one in inputs) or "no tensors"
        raise UserError(f"dynamic_shapes names '{unknown[0]}' but the inputs are {given}")
    builder, imported = front_end.import_program(
        traced.program,
        ModuleBuilder,
        inputs=inputs,
        sizes=names,
        bounds=bounds_of(sizes, symbols_of(inputs, names)),
        names=traced.names,
    )
    module = builder.finish()
    results = [imported.results[p] if p >= 0 else -1 for p in traced.result_positions]
    arguments, result = paddle_files.complex_nodes(
        _signature.input_structure(traced.function, traced.args, traced.kwargs, traced.positions),
        _signature.result_structure(traced.result, results),
        imported,
    )
    calls = Calls(arguments, result, time.perf_counter() - begin, complex=imported.complex_parameters)
    tensors: dict[str, Any] = {}
    for unique, tensor in traced.parameters.items():
        if not tensor._is_initialized() and 0 not in tensor.shape:
            continue  # the state of dropout in recurrent layers, which inference does not read
        tensors[traced.names[unique]] = tensor
        tensors[unique] = tensor
    # other names of a tensor (recurrent layers, tied ones), and what is not read
    for name, tensor in traced.state.items():
        if tensor._is_initialized() or 0 in tensor.shape:
            tensors.setdefault(name, tensor)
            tensors.setdefault(tensor.name, tensor)
    given = {name: traced.parameters[unique] for name, unique in imported.parameters.items()} | imported.constants
    persistent = {*traced.persistent, *(traced.state[name].name for name in traced.persistent)}
    if not traced.persistent:
        persistent = set(tensors)
    table = ParameterTable(tensors, persistent, imported.parameters)
    rows = json.loads(module.parameters_json)
    states = [row["name"] for row in rows if row["kind"] == "state"]
    moved = _places.placed(given, rows, place, number)
    if moved is not given and (states or not chosen.freeze):
        what = f"updates its buffer '{states[0]}'" if states else "reads the layer's parameters live (freeze=False)"
        raise UnsupportedError(
            f"a program of Paddle that {what} for {place}, where the layer's tensors are not; nearest supported form: a file of "
            "paddle.jit.save, whose parameters are the program's own"
        )
    return compiled_module(module, table, moved, chosen, place=place, number=number, calls=calls)
