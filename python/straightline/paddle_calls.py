# SPDX-License-Identifier: Apache-2.0
"""The door by which `sl.compile` takes programs of Paddle. Imports no paddle."""

from __future__ import annotations

import os
import sys
from typing import Any

from straightline import _frameworks
from straightline.options import CompileOptions
from straightline.torch_model import FRONT_ENDS


def is_paddle_program(model: object, args: object = (), kwargs: object = None) -> bool:
    """Whether sl.compile takes this for a program of Paddle.

    A layer, a function of `to_static`, a program, a file of `paddle.jit.save` (.json), or a function with examples of Paddle.
    """
    if isinstance(model, (str, os.PathLike)):
        return os.fspath(model).endswith(".json")
    paddle = _frameworks.imported_paddle()
    if paddle is None or isinstance(model, bytes):
        return False
    program_translator = sys.modules.get("paddle.jit.dy2static.program_translator")
    static = getattr(program_translator, "StaticFunction", None)
    if isinstance(model, (paddle.nn.Layer, paddle.static.Program)) or static is not None and isinstance(model, static):
        return True
    if not callable(model):
        return False
    given = [*_leaves(args), *_leaves(kwargs)]
    return any(isinstance(leaf, (paddle.Tensor, paddle.static.InputSpec)) for leaf in given)


def _leaves(value: object) -> list[Any]:
    """Leaves of nested examples."""
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]


def _compile_given(
    model: Any,
    args: Any,
    kwargs: Any,
    *,
    dynamic_shapes: Any,
    values: Any,
    sizes: Any,
    options: CompileOptions | None,
    fetches: Any = None,
    **changes: Any,
) -> Any:
    """What sl.compile does with a program of Paddle."""
    from straightline.errors import UserError
    from straightline.paddle_model import compile_paddle

    if values is not None:
        raise UserError("values is of ONNX models: what a program of Paddle depends on is a constant argument")
    return compile_paddle(
        model,
        args,
        kwargs,
        dynamic_shapes=dynamic_shapes,
        sizes=sizes,
        fetches=fetches,
        options=options,
        **changes,
    )


FRONT_ENDS.append((is_paddle_program, _compile_given))
