# SPDX-License-Identifier: Apache-2.0
"""`sl.paddle`: layers of Paddle that run as programs.

`paddle.jit.to_static(backend=..)` takes names of Paddle's own compilers alone (3.3), so `to_straightline` stands in its place.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from straightline import _frameworks
from straightline.errors import UserError
from straightline.options import CompileOptions, takes_options

__all__ = ["ByCalls", "to_straightline"]


class ByCalls:
    """A layer or function that is called as before: one program for each kind of call, made by the first such call.

    Attributes that it has not itself are the layer's. Calls from several threads may compile one program twice.

    Attributes:
        model: The layer or function.
        programs: Compiled functions by what their calls have: structure, element types, sizes, constants.
    """

    def __init__(
        self,
        model: Any,
        options: CompileOptions,
        dynamic_shapes: Mapping[str, Any] | None,
        sizes: Mapping[str, Any] | None,
    ) -> None:
        self.model = model
        self.programs: dict[Any, Any] = {}
        self._options = options
        self._dynamic_shapes, self._sizes = dynamic_shapes, sizes
        self._lock = threading.Lock()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the program for these arguments.

        Raises:
            UserError: Gradients would be recorded: grad mode is on, and a parameter or an argument takes part.
        """
        self._check_gradients()
        key = self._key(args, kwargs)
        program = self.programs.get(key)
        if program is None:
            program = self._compiled(args, kwargs)
            with self._lock:
                self.programs.setdefault(key, program)
        return program(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "model":  # not there yet
            raise AttributeError(name)
        return getattr(self.model, name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.model!r}, {len(self.programs)} programs>"

    def _compiled(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        from straightline.paddle_model import compile_paddle

        return compile_paddle(
            self.model, args, kwargs, dynamic_shapes=self._dynamic_shapes, sizes=self._sizes, options=self._options
        )

    def _key(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        training = bool(getattr(self.model, "training", False))
        dims = self._dynamic_shapes or {}
        names = self._names(args) if dims else ()
        return training, tuple(_described((args, kwargs), names, dims))

    def _names(self, args: tuple[Any, ...]) -> tuple[str, ...]:
        import inspect

        function = getattr(self.model, "forward", self.model)
        return tuple(list(inspect.signature(function).parameters)[: len(args)])

    def _check_gradients(self) -> None:
        paddle = _frameworks.imported_paddle()
        if paddle is None or not paddle.is_grad_enabled() or not hasattr(self.model, "parameters"):
            return
        if any(not parameter.stop_gradient for parameter in self.model.parameters()):
            raise UserError(
                "grad mode is on and the layer has parameters with stop_gradient=False, but a compiled program records no "
                "gradient: call it under paddle.no_grad()"
            )


def _described(value: Any, names: tuple[str, ...], dims: Mapping[str, Any]) -> Iterator[Any]:
    """What of the arguments decides for which program they are; `dims` are free."""
    args, kwargs = value
    for i, item in enumerate(args):
        yield from _leaf(item, dims.get(names[i]) if i < len(names) else None)
    for name, item in kwargs.items():
        yield name
        yield from _leaf(item, dims.get(name))


def _leaf(value: Any, free: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        yield type(value), len(value)
        for item in value:
            yield from _leaf(item, None)
    elif isinstance(value, dict):
        yield tuple(value)
        for item in value.values():
            yield from _leaf(item, None)
    elif hasattr(value, "shape") and hasattr(value, "dtype"):
        kept = set(free) if isinstance(free, Mapping) else {d for d, said in enumerate(free or ()) if said is not None}
        yield str(value.dtype), tuple(None if d in kept else int(size) for d, size in enumerate(value.shape))
    else:
        yield type(value), value


@takes_options
def to_straightline(
    model: Callable[..., Any],
    *,
    dynamic_shapes: Mapping[str, Any] | None = None,
    sizes: Mapping[str, int | tuple[int, int]] | None = None,
    options: CompileOptions | None = None,
    **changes: Any,
) -> ByCalls:
    """A layer of Paddle that is called as before and runs as programs of ours, one for each kind of call.

    Args:
        model: A `paddle.nn.Layer` in eval mode, a function of `paddle.jit.to_static`, or a function over tensors. Its
            parameters are read live (`freeze=False`, unless said otherwise).
        dynamic_shapes: Names of sizes that one program serves, as `sl.compile` takes them.
        sizes: Bounds of these.
        options: What `CompileOptions` says.
        changes: Options by name, over those of `options`.

    Returns:
        A callable with the model's attributes. A call raises where gradients would be recorded.
    """
    if not callable(model):
        raise UserError(f"model is a {type(model).__name__} but must be a layer or a function of Paddle")
    if options is None and "freeze" not in changes:
        changes = {**changes, "freeze": False}
    return ByCalls(model, CompileOptions.of(options, changes, to_straightline), dynamic_shapes, sizes)
