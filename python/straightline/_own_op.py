# SPDX-License-Identifier: Apache-2.0
"""The op of torch that an own kernel is. It stays in torch when the kernel is unregistered (_torch_ops.py)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from straightline import _torch_ops
from straightline.errors import UserError


class OwnOp(_torch_ops.NamedOp):
    """An op of torch, and what runs for it now: nothing, or a kernel's function and its fake."""

    def __init__(self, name: str, schema: str, keys: tuple[str, ...]) -> None:
        import torch

        self.name, self.schema, self.keys = name, schema, keys
        self._behind: tuple[Callable[..., Any], Callable[..., Any]] | None = None
        self._begun, self._ended = itertools.count(), itertools.count()  # next() of one is atomic
        namespace, _, base = name.partition("::")
        self._library = torch.library.Library(namespace, "FRAGMENT")  # noqa: TOR901  (kept with the op)
        self._library.define(schema.partition("::")[2], tags=(torch.Tag.pt2_compliant_tag,))
        for key in keys:
            self._library.impl(base, self._call, key)
        overload = _torch_ops.overload_of(name)
        torch.library.register_fake(name, self._shapes, lib=self._library)
        self._next_level: Any = None
        if "CompositeExplicitAutograd" not in keys:  # it has tensors
            self._next_level = _torch_ops.refuse_derivatives_of_torch_func(overload, name, schema, self._library)

    @property
    def op(self) -> Any:
        """`torch.ops.mylib.scale`."""
        import torch

        namespace, _, base = self.name.partition("::")
        return getattr(getattr(torch.ops, namespace), base)

    @property
    def is_open(self) -> bool:
        """Whether a kernel is behind it."""
        return self._behind is not None

    def close(self) -> None:
        """Calls from now on raise; those that are running finish. Any thread, also while it is called."""
        self._behind = None

    def calls(self) -> tuple[int, int]:
        """Those that run, and how many have begun."""
        ended, begun = _torch_ops.reached(self._ended), _torch_ops.reached(self._begun)
        return begun - ended, begun

    def leave(self) -> None:
        """Takes it out of torch."""
        for library in (self._library, self._next_level):
            if library is not None:
                _torch_ops.destroy(library)

    def _open(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        behind = self._behind
        if behind is None:
            raise UserError(f"{self.name} was unregistered: register it again")
        return behind

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        next(self._begun)
        try:
            run = self._open()[0]
            # A kernel of `register_autograd` comes here without grad mode.
            _torch_ops.refuse_derivative(self.name, (*args, *kwargs.values()))
            return run(*args, **kwargs)
        finally:
            next(self._ended)

    def _shapes(self, *args: Any, **kwargs: Any) -> Any:
        return self._open()[1](*args, **kwargs)


def opened(name: str, schema: str, keys: tuple[str, ...], run: Callable[..., Any], shapes: Callable[..., Any]) -> OwnOp:
    """The op of a kernel: the one of before where that had the same schema.

    Raises:
        UserError: It had another schema, and is called.
    """
    with _torch_ops.lock:
        op = _torch_ops.known(name)
        if not isinstance(op, OwnOp) or (op.schema, op.keys) != (schema, keys):
            _torch_ops.give_up(name)
            op = OwnOp(name, schema, keys)
            _torch_ops.add(op)
        op._behind = (run, shapes)
        return op
