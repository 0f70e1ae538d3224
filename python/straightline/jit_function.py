# SPDX-License-Identifier: Apache-2.0
"""`jit`: what `torch.compile(.., backend="straightline")` does, without Dynamo's frame evaluation around each call."""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from straightline import _dynamo_guards, _programs
from straightline._call import Guarded

#: As python/call_path/guarded.c binds them.
_MOST_SLOTS = 32
_NOT_CALLED = "it has not been called"


class JitExplanation:
    """How calls of a jit function go.

    Attributes:
        reason: Why every call goes through torch.compile; "" where some do not.
        ways: What Dynamo has for it, in the order in which it is looked through: the number of the compilation, "direct" or
            "torch.compile", and why.
        direct_calls: How many calls went directly so far.
        programs: Those of `straightline.programs`.
    """

    def __init__(self, reason: str, ways: list[tuple[str, str, str]], direct: int, programs: list[Any]) -> None:
        self.reason, self.ways, self.direct_calls, self.programs = reason, ways, direct, programs

    def __str__(self) -> str:
        lines = [f"{self.direct_calls} direct calls"]
        if self.reason:
            lines.append(f"through torch.compile: {self.reason}")
        lines += [f"{number}: {way}{f' ({why})' if why else ''}" for number, way, why in self.ways]
        return "\n".join(lines)

    __repr__ = __str__


class Jit(Guarded):
    """A function or module compiled by `jit`; called like it. Its attributes are those of what torch.compile returns."""

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled
        self._dynamo = _dynamo_guards.dynamo()
        self._reason = self._dynamo if isinstance(self._dynamo, str) else _NOT_CALLED
        self._look_undisturbed = _dynamo_guards.undisturbed(Jit._look)
        self._torchdynamo_orig_callable = compiled  # what torch.compile and `programs` unwrap
        self.__wrapped__ = getattr(compiled, "_torchdynamo_orig_callable", compiled)

    def _look(self) -> list[_dynamo_guards.Entry]:
        """Looks what Dynamo has now, and makes it what calls go by."""
        if isinstance(self._dynamo, str):
            return []
        try:
            frame, entries = self._found(self._dynamo)
        except (AttributeError, TypeError, ValueError) as error:  # of a torch that is not as known here
            frame, entries = f"Dynamo keeps something else than is known here ({error})", []
        if isinstance(frame, str) or not any(entry.call for entry in entries):
            nothing = entries[0].reason if entries else "Dynamo has compiled nothing for its frame"
            self._reason, self._plan = frame if isinstance(frame, str) else nothing, None
            return entries
        code = frame.function.__code__
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        table = tuple(weakref.ref(entry) for entry in entries)
        self._reason = ""
        self._plan = (table, frame.function, frame.first, frame.slots, *counts, *frame.conditions)
        return entries

    def _found(self, dynamo: _dynamo_guards.Dynamo) -> tuple[_dynamo_guards.Frame | str, list[_dynamo_guards.Entry]]:
        frame = dynamo.frame(self._compiled)
        if not isinstance(frame, str) and len(frame.slots) > _MOST_SLOTS:
            frame = f"it has {len(frame.slots)} arguments and free variables, {_MOST_SLOTS} at most go directly"
        return frame, [] if isinstance(frame, str) else dynamo.entries(frame, self._compiled, _program)

    def explain(self) -> JitExplanation:
        """Which calls go directly to a program and which through torch.compile, and why."""
        ways: list[tuple[str, str, str]] = []
        if self._reason != _NOT_CALLED:
            ways = [(e.compile_id, "direct" if e.call else "torch.compile", e.reason) for e in self._look()]
        return JitExplanation(self._reason, ways, self._direct, _programs.programs(self._compiled))

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        return self if owner is None else types.MethodType(self, owner)

    def __getattr__(self, name: str) -> Any:
        if name == "_compiled":
            raise AttributeError(name)
        return getattr(self._compiled, name)

    def __repr__(self) -> str:
        return f"<straightline.jit of {self.__wrapped__!r}>"


#: Attributes of a jitted module that are its own; all others are those of what torch.compile returned.
_OWN = frozenset(
    "_compiled _dynamo _reason _look_undisturbed _torchdynamo_orig_callable __wrapped__ _how _plan".split()
)


@functools.cache
def _class_of_modules() -> type[Jit]:
    """The class of jitted modules, made when torch is there."""
    import torch
    from torch._dynamo import OptimizedModule

    class JitModule(Jit, OptimizedModule):
        """A module compiled by `jit`: an `nn.Module` as that of torch.compile is, over the module itself (`_orig_mod`)."""

        def __init__(self, compiled: Any, how: Mapping[str, Any]) -> None:
            # Its modules and hooks are those of `compiled`, in the same dicts.
            vars(self).update({name: value for name, value in vars(compiled).items() if isinstance(value, dict)})
            Jit.__init__(self, compiled)
            self._how = dict(how)

        def __setattr__(self, name: str, value: Any) -> None:
            if name in _OWN:
                object.__setattr__(self, name, value)
            else:
                setattr(self._compiled, name, value)

        def __delattr__(self, name: str) -> None:
            delattr(self._compiled, name)

        def __dir__(self) -> list[str]:
            return sorted({*vars(self), *dir(type(self)), *dir(self._compiled)})

        def __reduce__(self) -> tuple[Any, ...]:
            return _again, (self._orig_mod, self._how)

        def __bool__(self) -> bool:
            """As of the module itself: torch 2.10's wrapper has a length that raises where the module has none."""
            return bool(self._orig_mod)

        def __get__(self, owner: Any, kind: type | None = None) -> Any:
            return self  # a module in a class is no method

        __repr__ = torch.nn.Module.__repr__

    return JitModule


def _again(module: Any, how: Mapping[str, Any]) -> Any:
    """A copy of a jitted module: the copied module, jitted anew."""
    import torch

    return _class_of_modules()(torch.compile(module, **how), how)


def _program(called: Any) -> Any:
    """The program that Dynamo calls for a graph, without what it puts around it; None where it is something else."""
    inner = vars(called).get("_torchdynamo_orig_callable", called) if hasattr(called, "__dict__") else None
    return inner if getattr(inner, "_program", None) is not None else None


def jit(
    function: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Compiles a function or module as `torch.compile(function, backend="straightline", ...)` does, with calls that cost less.

    A call evaluates the guards that Dynamo made and enters the program. Where no guards hold the call goes through
    torch.compile, which compiles. Functions with graph breaks or side effects always go there: `explain()` says so.

    Args:
        function: A function, method or module; without it `jit` is a decorator.
        fullgraph: As of torch.compile, like the rest.
        dynamic: Whether sizes have names.
        mode: What the backend takes as mode.
        options: Those of `CompileOptions` by name.

    Returns:
        What is called like the function, a `Jit`. It is an `nn.Module` where the function is one, as that of torch.compile:
        its attributes are the module's, and its parameters have names that begin with `_orig_mod`.
    """
    how: dict[str, Any] = {"fullgraph": fullgraph, "dynamic": dynamic, "backend": "straightline"}
    how |= {name: value for name, value in (("mode", mode), ("options", options)) if value is not None}

    def around(inner: Callable[..., Any]) -> Jit:
        import torch

        return _again(inner, how) if isinstance(inner, torch.nn.Module) else Jit(torch.compile(inner, **how))

    return around if function is None else around(function)
