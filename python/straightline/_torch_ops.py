# SPDX-License-Identifier: Apache-2.0
"""Names of torch's ops that are ours: who has one, how it becomes free, and what wants a derivative of such an op.

torch frees what it knows of an op when the op's library is destroyed, also under a call that is on its way to the kernel, which
ends the process. So an op that was closed stays in torch and says so. It leaves torch for another schema alone, when nobody
calls it; what a handle of the op points to stays then, too, and is the op that has the name now.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from straightline.errors import UserError

#: Guards the registry, and what opens and closes an op of it.
lock = threading.RLock()
#: By name, "mylib::scale", also those that were closed.
_ops: dict[str, NamedOp] = {}
#: By name: a kernel for a device that there is not, with which torch keeps what handles of the op point to.
_kept: dict[str, Any] = {}
#: By name: the overload as Python's object, which torch's dispatcher remembers with what it keeps.
_overloads: dict[str, Any] = {}
#: A call that is in torch's dispatcher has arrived, and one that ended has left it, when its thread has run so long, or has slept
#: so long.
_RUN_NANOSECONDS, _QUIET_SECONDS = 1_000_000, 0.01
_MOST_SECONDS = 2.0
_numbers = itertools.count()


class NamedOp(ABC):
    """An op of torch that is ours."""

    name: str
    schema: str

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether it computes; else its calls say that it was unregistered."""

    @abstractmethod
    def calls(self) -> tuple[int, int]:
        """How many calls run, and a number that grows with each call that begins while it is closed."""

    @abstractmethod
    def leave(self) -> None:
        """Takes it out of torch."""


def overload_of(name: str) -> Any:
    """The overload of an op that torch has just got: the object that it had under another schema, where there is one."""
    import torch

    namespace, _, base = name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), base)
    made = packet.default
    overload = _overloads.setdefault(name, made)
    if overload is not made:
        overload.__init__(packet, made._op, made._op_dk, made._schema, made._tags)
        packet.default = overload
    return overload


def known(name: str) -> NamedOp | None:
    """The op of ours that has a name; under the lock."""
    return _ops.get(name)


def add(op: NamedOp) -> None:
    """Notes an op that torch has now; under the lock."""
    import torch

    if op.name not in _kept:
        namespace, _, base = op.name.partition("::")
        _kept[op.name] = torch.library.Library(namespace, "FRAGMENT")  # noqa: TOR901  (for as long as the process)
        _kept[op.name].impl(base, torch.library.fallthrough_kernel, "PrivateUse3")
    _ops[op.name] = op


def give_up(name: str) -> None:
    """Takes an op that is closed out of torch, so that another one may have its name; under the lock.

    Raises:
        UserError: It is called.
    """
    op = _ops.get(name)
    if op is None or op.is_open:
        return
    if not _is_quiet(op):
        raise UserError(
            f"{name} cannot get another schema while it is called: it was {op.schema}; wait for the calls, or take another name"
        )
    op.leave()
    del _ops[name]


# ---- whether it is called


def _is_quiet(op: NamedOp) -> bool:
    """Whether no call of a closed op runs, is on its way to the kernel or back, or begins meanwhile."""
    before = op.calls()
    return before[0] == 0 and _have_moved_on() and before == op.calls()


def _have_moved_on() -> bool:
    """Waits until each other thread of the process has run or slept for a while.

    A thread that waits for Python's lock wakes up again and again, so it is not taken for one that sleeps.
    """
    begun = _threads()
    before, waiting = begun, set(begun)
    until = time.monotonic() + _MOST_SECONDS
    while time.monotonic() < until:
        time.sleep(_QUIET_SECONDS)
        now = _threads()
        for thread in list(waiting):
            if (
                thread not in now
                or now[thread][0] - begun[thread][0] >= _RUN_NANOSECONDS
                or (now[thread] == before.get(thread) and now[thread][2] != "R")
            ):
                waiting.discard(thread)
        if not waiting:
            return True
        before = now
    return False


def _threads() -> dict[str, tuple[int, str, str]]:
    """Of each other thread: nanoseconds that it ran, how often it was switched to, and its state."""
    own, found = str(threading.get_native_id()), {}
    for thread in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{thread}/schedstat") as file:
                ran, _, turns = file.read().split()
            with open(f"/proc/self/task/{thread}/stat") as file:
                state = file.read().rpartition(")")[2].split()[0]
        except OSError:
            continue  # it has ended
        if thread != own:
            found[thread] = (int(ran), turns, state)
    return found


# ---- derivatives


def tensors_of(values: Any) -> Iterator[Any]:
    """The tensors among the arguments of an op, and in its lists."""
    import torch

    for value in values:
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, torch.Tensor):
                yield item


def refuse_derivative(name: str, values: Any) -> None:
    """What an op without a derivative says of its arguments.

    Raises:
        UserError: A derivative of one is wanted.
    """
    if says := _needs_derivative(values):
        raise UserError(
            f"{name}: {says}, and the op has no derivative: register one with "
            f"torch.library.register_autograd({name!r}, ..), or call it under torch.no_grad(); torch.func and forward "
            "mode want a torch.autograd.Function around it, with setup_context or jvp"
        )


def _needs_derivative(values: Any) -> str:
    """Which argument a derivative is wanted of, in words; "" for none."""
    import torch

    forward_ad = torch.autograd.forward_ad
    records = torch.is_grad_enabled() and not torch.compiler.is_exporting()  # an exported graph calls the op itself
    for tensor in tensors_of(values):
        if tensor.requires_grad and records:
            return "an argument requires grad"
        if forward_ad._current_level >= 0 and forward_ad.unpack_dual(tensor).tangent is not None:
            return "an argument has a tangent of forward mode"
    return ""


def refuse_derivatives_of_torch_func(op: Any, name: str, schema: str, library: Any) -> Any:
    """Has an op refuse derivatives where its own kernel does not see the tensors that they are wanted of.

    torch.func hands a kernel what lies below its levels, and torch.compile traces without it. In both torch comes to kernels that
    an ordinary call does not meet. `library` gets the one for the end of a level; the other one is torch's Python dispatcher's.

    Returns:
        What has to live as long as the op.
    """
    import torch

    next_level, below = _next_level(op, schema)
    level_end = torch._C.DispatchKeySet(torch._C.DispatchKey.FuncTorchDynamicLayerBackMode)

    def at_the_end_of_a_level(*args: Any, **kwargs: Any) -> Any:
        refuse_derivative(name, (*args, *kwargs.values()))
        return below.redispatch(level_end, *args, **kwargs)

    def while_traced(*args: Any, **kwargs: Any) -> Any:
        if torch._C._dispatch_has_kernel_for_dispatch_key(name, "Autograd"):  # of register_autograd
            return op._op_dk(torch._C.DispatchKey.Autograd, *args, **kwargs)
        refuse_derivative(name, (*args, *kwargs.values()))
        with torch._C._AutoDispatchBelowAutograd():
            return op(*args, **kwargs)

    library.impl(name.partition("::")[2], at_the_end_of_a_level, "FuncTorchDynamicLayerBackMode")
    op.py_impl(torch._C.DispatchKey.Autograd)(while_traced)
    return next_level


def _next_level(op: Any, schema: str) -> tuple[Any, Any]:
    """An op that is called in an op's place at the end of a level of torch.func, and is the op at the next one.

    What torch does there for an op without a kernel cannot be called from a kernel; so it is done for this one. Of its namespace,
    since it is nobody's to call.
    """
    import torch

    def again(*args: Any, **kwargs: Any) -> Any:
        return op(*args, **kwargs)

    base = f"next_level_{next(_numbers)}"
    library = torch.library.Library("straightline", "FRAGMENT")  # noqa: TOR901  (kept with the op)
    library.define(f"{base}{schema[schema.index('(') :]}", tags=(torch.Tag.pt2_compliant_tag,))
    for key in ("CompositeImplicitAutograd", "FuncTorchBatched"):
        library.impl(base, again, key)
    return library, getattr(torch.ops.straightline, base).default


def reached(count: itertools.count[int]) -> int:
    """What `next` would give."""
    return int(repr(count)[len("count(") : -1])


def destroy(library: Any) -> None:
    """Takes what a `torch.library.Library` registered out of torch.

    Torch would do so once more when the object is freed, and forget what has the name then.
    """
    import torch

    library._destroy()
    torch.library._defs.difference_update(library._op_defs)
    library._op_defs.clear()
    library._op_impls.clear()


def removed_from_torch(name: str) -> None:
    """Has `torch.ops` look for an op again, after its definition has left torch's dispatcher."""
    import torch

    namespace, _, base = name.partition("::")
    space = getattr(torch.ops, namespace)
    if base in space.__dict__:
        delattr(space, base)
        if base in getattr(space, "_dir", ()):
            space._dir.remove(base)
