# SPDX-License-Identifier: Apache-2.0
"""The door by which `sl.compile` takes ONNX models: for the inputs that are given, or for those that calls bring."""

from __future__ import annotations

from typing import Any

from straightline.compiled_function import CompiledFunction
from straightline.errors import UserError
from straightline.onnx_model import compile_onnx, is_onnx
from straightline.options import CompileOptions
from straightline.torch_model import FRONT_ENDS


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
    """What sl.compile does with an ONNX model."""
    if isinstance(values, str):
        return _by_calls(model, args or kwargs, values, sizes, CompileOptions.of(options, changes, compile_onnx))
    if dynamic_shapes is not None:
        raise UserError(
            "dynamic_shapes is of torch's models: an ONNX model names its sizes itself, sizes= gives their bounds"
        )
    if args and kwargs:
        raise UserError("the inputs of an ONNX model are given by position or by name, not both")
    if isinstance(args, list) and args and isinstance(args[0], tuple):
        raise UserError("several examples are given but an ONNX model has one: compile it once for each")
    inputs = args if args else kwargs or None
    return compile_onnx(model, inputs, values=values, sizes=sizes, options=options, **changes)


def _by_calls(model: Any, inputs: Any, values: str, sizes: Any, options: CompileOptions) -> Any:
    """What `values="calls"` asks for."""
    if values != "calls":
        raise UserError(f"values is {values!r} but must be a dict of arrays by name, or 'calls'")
    if inputs or sizes is not None:
        raise UserError(
            "values='calls' compiles for the inputs of calls: examples and sizes are of programs that are compiled now"
        )
    try:
        from straightline import onnx_backend
        from straightline.capture import onnx as front_end
    except ImportError as error:
        raise UserError(f"ONNX models need the package onnx ({error}): pip install 'straightline[onnx]'") from error
    loaded = front_end.load(model)  # what is no model is said now
    prepared = onnx_backend.Prepared(loaded.proto, {"options": options}, source=model)
    prepared.input_names = [i.name for i in front_end.inputs_of(loaded)]
    return onnx_backend.ByCalls(prepared)


FRONT_ENDS.append((lambda model, args, kwargs: is_onnx(model), _compile_given))
