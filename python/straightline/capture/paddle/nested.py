# SPDX-License-Identifier: Apache-2.0
"""Nested arguments and results of traced functions, and words for what Paddle raises."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy
import paddle

from straightline.errors import UserError


def leaves(value: Any) -> Iterator[Any]:
    """Leaves in the order of `_signature.structure`."""
    if isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """The same structure with what a function gives for each leaf."""
    if isinstance(value, dict):
        return type(value)((key, mapped(item, function)) for key, item in value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(item, function) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(item, function) for item in value)
    return function(value)


def is_tensor(value: Any) -> bool:
    """Whether an example is a tensor of any framework, an array, or an InputSpec."""
    return isinstance(value, (paddle.Tensor, numpy.ndarray, paddle.static.InputSpec)) or (
        hasattr(type(value), "__dlpack__") and hasattr(value, "shape")
    )


def leaf_names(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[str]:
    """Names of the leaves, after the function's parameters."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        raise UserError(f"the example arguments do not fit the function: {error}") from error
    except ValueError:
        bound = None
    named: list[tuple[str, Any]] = []
    if bound is None:
        named = [(f"args[{i}]", value) for i, value in enumerate(args)]
    else:
        parameters = bound.signature.parameters
        positional = [p for p in parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        for i, value in enumerate(args):
            if i < len(positional):
                named.append((positional[i].name, value))
            else:
                star = next(p.name for p in parameters.values() if p.kind is p.VAR_POSITIONAL)
                named.append((f"{star}[{i - len(positional)}]", value))
    named += list(kwargs.items())
    return [name for own, value in named for name in _leaf_names(own, value)]


def _leaf_names(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaf_names(f"{name}[{key!r}]", item)
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for field, item in zip(value._fields, value):
            yield from _leaf_names(f"{name}.{field}", item)
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            yield from _leaf_names(f"{name}[{i}]", item)
    else:
        yield name


def in_a_line(error: BaseException) -> str:
    """What an error of Paddle says, and the user's line where it names one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and set(line.strip()) != {"-"}]
    kept = [line for line in lines if "Error" in line.split(":")[0]] or lines[-1:] or [type(error).__name__]
    places = [line for line in lines if line.startswith("File ")]
    where = f" ({places[-1]})" if places else ""
    return kept[-1] + where


def returned(outputs: Any) -> Any:
    """What the function returned, of the list that Paddle makes of it."""
    return outputs[0] if isinstance(outputs, list) and len(outputs) == 1 else outputs
