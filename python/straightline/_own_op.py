# SPDX-License-Identifier: Apache-2.0
"""The op of torch that an own kernel is. It stays in torch when the kernel is unregistered.

torch frees what it knows of an op when the op's library is destroyed, also under a call that is on its way to the kernel, which
ends the process. So an op that nobody is behind says so, and a kernel of the same schema takes it again. It leaves torch for
another schema alone, and only while nobody calls it.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from straightline.errors import UserError

#: By name, "mylib::scale".
_ops: dict[str, OwnOp] = {}
_lock = threading.Lock()
#: Each takes an op of its own that was unregistered out of torch, by its name.
_owners: list[Callable[[str], None]] = []
#: How long nobody must have called an op that leaves torch: a call that is in torch's dispatcher arrives meanwhile.
_QUIET_SECONDS = 0.01


class OwnOp:
    """An op of torch, and what runs for it now: nothing, or a kernel's function and its fake."""

    def __init__(self, name: str, schema: str, keys: tuple[str, ...]) -> None:
        import torch

        self.name, self.schema, self.keys = name, schema, keys
        self._behind: tuple[Callable[..., Any], Callable[..., Any]] | None = None
        self._begun, self._ended = itertools.count(), itertools.count()  # next() of one is atomic
        self._below = torch._C._after_ADInplaceOrView_keyset
        self._own_keys = [getattr(torch._C.DispatchKey, key) for key in keys]
        namespace, _, base = name.partition("::")
        self._library = torch.library.Library(namespace, "FRAGMENT")  # noqa: TOR901  (kept with the op)
        self._library.define(schema.partition("::")[2], tags=(torch.Tag.pt2_compliant_tag,))
        for key in keys:
            self._library.impl(base, self._call, key)
        if "CompositeExplicitAutograd" not in keys:  # it has tensors
            self._library.impl(base, self._below_autograd, "ADInplaceOrView", with_keyset=True)
        torch.library.register_fake(name, self._shapes, lib=self._library)

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

    def _open(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        behind = self._behind
        if behind is None:
            raise UserError(f"{self.name} was unregistered: register it again")
        return behind

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        next(self._begun)
        try:
            return self._open()[0](*args, **kwargs)
        finally:
            next(self._ended)

    def _below_autograd(self, keyset: Any, *args: Any, **kwargs: Any) -> Any:
        """What torch calls behind autograd's own kernel of the op, with the tensors of torch.func's level.

        Autograd would go on without a derivative. A kernel of `register_autograd` comes here without grad mode.
        """
        if says := _needs_derivative((*args, *kwargs.values())):
            raise UserError(
                f"{self.name}: {says}, and the op has no derivative: register one with "
                f"torch.library.register_autograd({self.name!r}, ..), or call it under torch.no_grad(); torch.func and forward "
                "mode want a torch.autograd.Function around it, with setup_context or jvp"
            )
        below = keyset & self._below
        # Where no mode and no wrapper stands between, torch would come to the implementation.
        if below.highestPriorityTypeId() in self._own_keys:
            return self._call(*args, **kwargs)
        return self.op.default.redispatch(below, *args, **kwargs)

    def _shapes(self, *args: Any, **kwargs: Any) -> Any:
        return self._open()[1](*args, **kwargs)

    def _is_quiet(self) -> bool:
        """Whether nobody has called it for a moment, nor does."""
        before = _reached(self._begun)
        time.sleep(_QUIET_SECONDS)
        return before == _reached(self._begun) == _reached(self._ended)


def tensors_of(values: Any) -> Iterator[Any]:
    """The tensors among the arguments of an op, and in its lists."""
    import torch

    for value in values:
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, torch.Tensor):
                yield item


def _needs_derivative(values: Any) -> str:
    """Which argument a derivative is wanted of, in words; "" for none."""
    import torch

    forward_ad = torch.autograd.forward_ad
    for tensor in tensors_of(values):
        if tensor.requires_grad and torch.is_grad_enabled():
            return "an argument requires grad"
        if forward_ad._current_level >= 0 and forward_ad.unpack_dual(tensor).tangent is not None:
            return "an argument has a tangent of forward mode"
    return ""


def _reached(count: itertools.count[int]) -> int:
    """What `next` would give."""
    return int(repr(count)[len("count(") : -1])


def opened(name: str, schema: str, keys: tuple[str, ...], run: Callable[..., Any], shapes: Callable[..., Any]) -> OwnOp:
    """The op of a kernel: the one of before where that had the same schema.

    Raises:
        UserError: It had another schema, and is called.
    """
    with _lock:
        op = _ops.get(name)
        if op is not None and (op.schema, op.keys) != (schema, keys):
            _remove(op)
            op = None
        if op is None:
            op = _ops[name] = OwnOp(name, schema, keys)
        op._behind = (run, shapes)
        return op


def is_free(name: str) -> bool:
    """Whether torch has an op of this name that no kernel is behind."""
    op = _ops.get(name)
    return op is not None and not op.is_open


def add_owner(give_up: Callable[[str], None]) -> None:
    """Notes who else has ops in torch that may be unregistered (torch_op.py)."""
    _owners.append(give_up)


def ask_owners(name: str) -> None:
    """Has them give up an op, so that a kernel may have its name; they raise where it is called."""
    for owner in _owners:
        owner(name)


def give_up(name: str) -> None:
    """Takes an op that no kernel is behind out of torch, so that others may have its name.

    Raises:
        UserError: It is called.
    """
    with _lock:
        if is_free(name):
            _remove(_ops[name])


def _remove(op: OwnOp) -> None:
    if not op._is_quiet():
        raise UserError(
            f"{op.name} cannot get another schema while it is called: it was {op.schema}; wait for the calls, or take "
            "another name"
        )
    op._library._destroy()
    del _ops[op.name]
