# SPDX-License-Identifier: Apache-2.0
"""ONNX models as callables: a path, bytes or a ModelProto, without torch."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from straightline import _places
from straightline.compiled_function import CompiledFunction
from straightline.errors import InternalError, UnsupportedError, UserError
from straightline.mlir_model import DTYPES, compiled_module
from straightline.module_builder import ModuleBuilder
from straightline.options import CompileOptions, takes_options
from straightline.parameters import DeclaredParameter, ParameterTable


def is_onnx(model: object) -> bool:
    """Whether sl.compile takes this for an ONNX model: the path of an .onnx file, or a ModelProto."""
    if isinstance(model, (str, os.PathLike)):
        return os.fspath(model).endswith(".onnx")
    return (
        isinstance(model, (bytes, bytearray))
        or type(model).__name__ == "ModelProto"
        and type(model).__module__.startswith("onnx")
    )


@takes_options
def compile_onnx(
    model: Any,
    inputs: Sequence[Any] | Mapping[str, Any] | None = None,
    *,
    values: Mapping[str, Any] | None = None,
    sizes: Mapping[str, int | tuple[int, int]] | None = None,
    options: CompileOptions | None = None,
    **changes: Any,
) -> CompiledFunction:
    """Compiles an ONNX model.

    Args:
        model: The path of a file, its bytes, or a `ModelProto`.
        inputs: Examples of the inputs, by position or by name, whose element types and sizes calls must have. Inputs without
            one have those that the model declares: a size with a name (`dim_param`) may differ between calls, and equal names
            are equal sizes.
        values: Inputs by name whose values the program may depend on, as axes, shapes and sizes do. Calls give them, too; those
            that the program depends on must have these values.
        sizes: For the model's named sizes a number, or the smallest and the largest; by default from 1 on.
        options: What `CompileOptions` says. `target="cuda"`, or examples that are tensors of torch on a CUDA device, compile it
            for that: calls then take and give such tensors.
        changes: Options by name, over those of `options`.

    Returns:
        A callable that takes the model's inputs by position or by name, as numpy arrays or torch tensors, and returns its
        results: one as it is, several as a tuple, a sequence as a list.

    Raises:
        UserError: It is no ONNX model, its external data cannot be read, or an input does not fit it.
        UnsupportedError: Lists the nodes that have no form here.
    """
    try:
        from straightline.capture import onnx as front_end
    except ImportError as error:
        raise UserError(f"ONNX models need the package onnx ({error}): pip install 'straightline[onnx]'") from error
    chosen = CompileOptions.of(options, changes, compile_onnx)
    place, number = _places.of_arrays(chosen, inputs.values() if isinstance(inputs, Mapping) else inputs or ())
    loaded = front_end.load(model)
    declared = [i.name for i in front_end.inputs_of(loaded)]
    examples = _by_name(inputs, declared)
    shapes = {name: _shape(example) for name, example in examples.items()}
    import numpy as np

    known = {n: np.asarray(a) for n, a in (values or {}).items() if not isinstance(a, list) and a is not None}
    try:
        builder, imported = front_end.import_model(loaded, ModuleBuilder, shapes, known, sizes)
        module = builder.finish()
    except InternalError as error:
        if invalid := front_end.what_is_invalid(loaded):
            raise UserError(f"{loaded.name} is no valid model: {invalid}") from error
        front_end.import_model(loaded, ModuleBuilder, shapes, known, sizes, asked=str(error))
        raise
    rows = json.loads(module.parameters_json)
    table = ParameterTable.of_declared(
        DeclaredParameter(row["name"], DTYPES.get(row["type"], row["type"]), tuple(row["shape"]), None, False)
        for row in rows
    )
    parameters = _places.placed(imported.parameters, rows, place, number)
    return compiled_module(module, table, parameters, chosen, imported.structures, imported.inputs, place, number)


def _shape(example: Any) -> Any:
    if example is None:
        return None
    return [_shape(item) for item in example] if isinstance(example, list) else (_dtype(example), tuple(example.shape))


def _by_name(inputs: Sequence[Any] | Mapping[str, Any] | None, names: Sequence[str]) -> dict[str, Any]:
    if inputs is None:
        return {}
    if isinstance(inputs, Mapping):
        return dict(inputs)
    if len(inputs) > len(names):
        raise UserError(f"{len(inputs)} inputs are given but the model has {len(names)}: {', '.join(names)}")
    return dict(zip(names, inputs))


def _dtype(array: Any) -> str:
    import numpy as np

    from straightline.capture.graph_builder import Reject
    from straightline.capture.onnx.values import ir_dtype

    text = str(getattr(array, "dtype", type(array).__name__)).removeprefix("torch.")
    try:
        try:
            return ir_dtype(np.dtype(text))
        except TypeError:
            import ml_dtypes

            return ir_dtype(np.dtype(getattr(ml_dtypes, text)))
    except (Reject, AttributeError) as error:
        text = "type string" if text == "object" else text
        raise UnsupportedError(
            f"an input has elements of {text}; nearest supported form: float, integer or bool tensors"
        ) from error
