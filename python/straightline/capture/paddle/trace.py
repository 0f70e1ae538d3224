# SPDX-License-Identifier: Apache-2.0
"""Has Paddle trace a layer or function, by its source (AST) or by its bytecode (SOT), and says what the trace means for calls."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import paddle
from paddle.jit.dy2static.program_translator import StaticFunction, SymbolicStaticFunction

from straightline.capture.paddle import pir
from straightline.capture.paddle.cells import whole_cells
from straightline.capture.paddle.graph import Input, inputs_of
from straightline.capture.paddle.live_program import LiveReader, dtype_name
from straightline.capture.paddle.nested import in_a_line, is_tensor, leaf_names, leaves, mapped, returned
from straightline.capture.paddle.trace_bytecode import trace_bytecode
from straightline.errors import StraightlineError, UnsupportedError, UserError

#: Names that inputs have while they are traced, by number.
_TRACED = "straightline_input_{}"
#: The oldest version whose programs are read.
_OLDEST = (3, 3)


@dataclass
class Traced:
    """A traced program and how calls map to it."""

    program: pir.Program
    #: Inputs in the order of the leaves of (args, kwargs) that are tensors.
    inputs: list[Input]
    #: For each leaf the number of its input, -1 for a constant.
    positions: list[int]
    #: What the function returns, with what Paddle calls values as leaves, and for each leaf its place among the fetches or -1.
    result: Any
    result_positions: list[int]
    #: Tensors by Paddle's unique names, and users' names of them.
    parameters: dict[str, Any]
    names: dict[str, str]
    #: Whose signature calls have, and the examples.
    function: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    #: Names in the layer's state dict.
    persistent: list[str]
    #: The layer's parameters and buffers under each of their structured names, also those that the program does not read.
    state: dict[str, Any]


def check_version() -> None:
    """Raises `UserError` where Paddle is older than its programs can be read."""
    found = tuple(int(n) if n.isdigit() else 0 for n in paddle.__version__.split(".")[:2])
    if found < _OLDEST and paddle.__version__ != "0.0.0":
        raise UserError(
            f"paddlepaddle {paddle.__version__} is installed but programs of {_OLDEST[0]}.{_OLDEST[1]} or newer are read: "
            "pip install 'paddlepaddle>=3.3'"
        )


def _dtype_of(value: Any) -> str:
    if isinstance(value, paddle.Tensor) and value.is_sparse():
        raise UnsupportedError("an input is a sparse tensor; nearest supported form: a dense one, x.to_dense()")
    text = str(value.dtype).removeprefix("paddle.").removeprefix("torch.")
    if text not in pir.DTYPES and text not in pir.PARTS:
        raise UnsupportedError(
            f"an input has elements of {text}; nearest supported form: float (16 bits or more), integer, complex or bool tensors"
        )
    return text


# Tracing --------------------------------------------------------------------------------------------------------------


def trace(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], free: Mapping[str, Sequence[int]]) -> Traced:
    """Traces a layer, a `to_static` function or a function.

    Args:
        model: In eval mode; nothing of it changes.
        args: Examples: tensors, arrays, `InputSpec`s, constants.
        kwargs: The same by name.
        free: Dims of inputs, by name, whose sizes are not those of the example.

    Raises:
        UserError: Paddle cannot trace it, or it is in training mode.
    """
    check_version()
    layer, function, static = _parts(model)
    declared = getattr(getattr(static, "_function_spec", None), "input_spec", None)
    if not args and not kwargs and declared:
        args = tuple(declared)
    if layer is not None:
        check_layer(layer)
    if static is None and not _has_source(function):
        static = paddle.jit.to_static(function, full_graph=False)
    plain = function if static is None else _plain(static, layer)
    _check_self(plain)
    names = leaf_names(plain, args, kwargs)
    flat = list(leaves((tuple(args), dict(kwargs))))
    positions, count = [], 0
    for leaf in flat:
        positions.append(count if is_tensor(leaf) else -1)
        count += is_tensor(leaf)
    if isinstance(static, SymbolicStaticFunction):
        if any(free.values()):
            raise UserError(
                "dynamic_shapes with a function of to_static(full_graph=False), which is traced for the sizes of tensors; "
                "give to_static(full_graph=True)"
            )
        traced = trace_bytecode(static, layer, args, kwargs)
    else:
        tensors = [(name, leaf) for name, leaf, position in zip(names, flat, positions) if position >= 0]
        traced = _trace_source(plain, args, kwargs, _shapes(static, tensors, free))
    reader, concrete, result, given = traced
    values = [leaf for leaf in leaves(result) if isinstance(leaf, paddle.pir.Value)]
    fetches = list({reader.value(v): v for v in values}.values())
    program = reader.program(concrete.main_program, fetches, getattr(model, "__name__", type(model).__name__))
    places = {reader.value(v): i for i, v in enumerate(fetches)}
    result_positions = [
        places[reader.value(leaf)] if isinstance(leaf, paddle.pir.Value) else -1 for leaf in leaves(result)
    ]
    by_name = {one.name: one for one in inputs_of(program)}
    inputs = _inputs(by_name, given, names, positions, flat)
    parameters = {tensor.name: tensor for tensor in (*concrete.parameters[0], *reader.parameters.values())}
    persistent = list(layer.state_dict()) if layer is not None else []
    state = _state(layer)
    return Traced(
        program,
        inputs,
        positions,
        result,
        result_positions,
        parameters,
        _names(state, parameters),
        plain,
        args,
        kwargs,
        persistent,
        state,
    )


def _inputs(
    by_name: Mapping[str, Input],
    given: Sequence[str],
    names: Sequence[str],
    positions: Sequence[int],
    flat: Sequence[Any],
) -> list[Input]:
    """Inputs by the users' names; one that the program does not read keeps the example's type."""
    found = []
    for leaf, name, position in zip(flat, names, positions):
        if position < 0:
            continue
        one = by_name.get(given[position])
        if one is None:
            shape = tuple(-1 if size is None else int(size) for size in leaf.shape)
            found.append(Input(-1 - position, name, pir.Type(dtype_name(_dtype_of(leaf)), shape), _strides_of(leaf)))
        else:
            found.append(Input(one.number, name, one.type, None if -1 in one.type.shape else _strides_of(leaf)))
    return found


def _strides_of(leaf: Any) -> tuple[int, ...] | None:
    """Strides of an example of Paddle that is a view with another order."""
    return tuple(leaf.strides) if isinstance(leaf, paddle.Tensor) and not leaf.is_contiguous() else None


def _parts(model: Any) -> tuple[Any, Any, Any]:
    """The layer, the function, and the static function that it is."""
    if isinstance(model, paddle.nn.Layer):
        forward = model.forward
        return model, forward, forward if isinstance(forward, StaticFunction) else None
    if isinstance(model, StaticFunction):
        layer = model.class_instance
        return (layer if isinstance(layer, paddle.nn.Layer) else None), model, model
    layer = getattr(model, "__self__", None)
    return (layer if isinstance(layer, paddle.nn.Layer) else None), model, None


def _plain(static: Any, layer: Any) -> Any:
    function = static.dygraph_function
    instance = static.class_instance
    return function if instance is None or inspect.ismethod(function) else function.__get__(instance)


def _has_source(function: Any) -> bool:
    """Whether Paddle can transform its source: a lambda's it cannot, and one that was typed in has none."""
    try:
        inspect.getsource(function)
    except (OSError, TypeError):
        return False
    return getattr(function, "__name__", "") != "<lambda>"


def _check_self(function: Any) -> None:
    """Paddle finds the layer of a method by the name of its first parameter."""
    if not inspect.ismethod(function):
        return
    first = next(iter(inspect.signature(function.__func__).parameters), "self")
    if first != "self":
        raise UserError(
            f"the first parameter of {function.__qualname__} is {first!r}, but Paddle traces methods whose first one is 'self': "
            "rename it"
        )


def _trace_source(
    function: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    shapes: Sequence[Sequence[int]],
) -> tuple[LiveReader, Any, Any, list[str]]:
    """The concrete program by Paddle's transformation of source, what it returns, and the names of its inputs."""
    used: list[str] = []

    def spec(leaf: Any) -> Any:
        if not is_tensor(leaf):
            return leaf
        used.append(_TRACED.format(len(used)))
        return paddle.static.InputSpec(list(shapes[len(used) - 1]), _dtype_of(leaf), used[-1])

    specs, named = mapped((tuple(args), dict(kwargs)), spec)
    concrete = _concrete(paddle.jit.to_static(function, full_graph=True), specs, named)
    return LiveReader(), concrete, returned(concrete.outputs), used


def _shapes(static: Any, tensors: Sequence[tuple[str, Any]], free: Mapping[str, Sequence[int]]) -> list[list[int]]:
    """Shapes to trace for, by example; -1 where the example, `free` or `to_static(input_spec=)` leaves the size open."""
    declared = getattr(getattr(static, "_function_spec", None), "input_spec", None)
    specs = [leaf for leaf in leaves(tuple(declared)) if is_tensor(leaf)] if declared else []
    if specs and len(specs) != len(tensors):
        raise UserError(f"input_spec of to_static has {len(specs)} tensors but the example has {len(tensors)}")
    found = []
    for i, (name, leaf) in enumerate(tensors):
        shape = [-1 if size is None else int(size) for size in leaf.shape]
        if specs:
            said = [-1 if size is None else int(size) for size in specs[i].shape]
            if len(said) != len(shape) or any(a not in (-1, b) and b != -1 for a, b in zip(said, shape)):
                raise UserError(f"input '{name}' has the sizes {shape} but input_spec of to_static says {said}")
            shape = [-1 if -1 in (a, b) else b for a, b in zip(said, shape)]
        for dim in free.get(name, ()):
            if not 0 <= dim < len(shape):
                raise UserError(f"dynamic_shapes names size {dim} of '{name}', which has rank {len(shape)}")
            shape[dim] = -1
        found.append(shape)
    return found


def _concrete(static: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            with whole_cells():
                concrete, _ = static.get_concrete_program(*args, **kwargs, is_train=False)
        except StraightlineError:
            raise
        except Exception as error:
            raise UserError(f"Paddle cannot trace the model: {in_a_line(error)}") from error
    for one in told:
        text = str(one.message)
        if "does not perform inplace operation" in text:
            name = text.split("graph mode, ")[-1].split("()")[0]
            raise UnsupportedError(
                f"the model writes in place by {name}, which Paddle's trace leaves out; nearest supported form: "
                f"x = x.{name[:-1]}(..), and paddle.assign(value, buffer) for a buffer"
            )
        warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    return concrete


# Parameters -----------------------------------------------------------------------------------------------------------


def _state(layer: Any) -> dict[str, Any]:
    """Tensors by structured name: those of the state dict, then what it leaves out."""
    if layer is None:
        return {}
    found: dict[str, Any] = {}
    for name, tensor in [*layer.state_dict().items(), *layer.named_parameters(), *layer.named_buffers()]:
        found.setdefault(name, tensor)
    return found


def _names(state: Mapping[str, Any], tensors: Mapping[str, Any]) -> dict[str, str]:
    """Structured names by unique ones; a tensor with several has the first."""
    found: dict[str, str] = {}
    for name, tensor in state.items():
        found.setdefault(tensor.name, name)
    return {unique: found.get(unique, unique) for unique in tensors}


# Training mode --------------------------------------------------------------------------------------------------------


def _differs_in_training(layer: Any) -> bool:
    nn = paddle.nn
    if isinstance(layer, nn.layer.norm._BatchNormBase):
        return not layer._use_global_stats
    if isinstance(layer, (nn.Dropout, nn.Dropout2D, nn.Dropout3D, nn.AlphaDropout)):
        return getattr(layer, "p", 1) != 0
    if isinstance(layer, (nn.LSTM, nn.GRU, nn.SimpleRNN, nn.MultiHeadAttention)):
        return getattr(layer, "dropout", 0) not in (0, 0.0, None)
    return isinstance(layer, nn.RReLU)


def check_layer(layer: Any) -> None:
    """Raises `UserError` that names the layers left in training mode, of those for which it matters."""
    wrong = [
        f"{path or '<root>'} ({type(child).__name__})"
        for path, child in layer.named_sublayers(include_self=True)
        if child.training and _differs_in_training(child)
    ]
    if wrong:
        raise UserError(
            f"model is in training mode, which matters to {', '.join(wrong)}: call model.eval() before compiling"
        )
    if layer._forward_pre_hooks or layer._forward_post_hooks:
        raise UnsupportedError(
            f"the layer {type(layer).__name__} has forward hooks, which Paddle does not trace; nearest supported form: a layer "
            "whose forward calls them"
        )
