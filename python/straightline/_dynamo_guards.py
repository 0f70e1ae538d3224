# SPDX-License-Identifier: Apache-2.0
"""All that `straightline.jit` uses of Dynamo's insides: what it compiled for a frame, its guards, what it asks beside them.

`dynamo` looks each of them up once and gives the reason where one is absent: then calls go through torch.compile alone.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import operator
import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from straightline import _straight_code
from straightline._straight_code import MoreThanOneGraph

#: What is needed, by module.
_NEEDED = {
    "torch._C._dynamo.eval_frame": ("_debug_get_cache_entry_list", "get_eval_frame_callback"),
    "torch._C._dynamo.guards": ("RootGuardManager",),
    "torch._dynamo.eval_frame": ("_stance", "DynamoStance", "OptimizedModule"),
    "torch._dynamo.utils": (),
    "torch._dynamo.distributed": (),
    "torch._guards": ("_TLS",),
    "torch.fx._symbolic_trace": (),
    "torch.compiler": ("_is_exporting_flag",),
    "torch.autograd.profiler": ("_is_profiler_enabled",),
    "torch.nn.modules.module": (
        "_global_backward_hooks",
        "_global_backward_pre_hooks",
        "_global_forward_hooks",
        "_global_forward_pre_hooks",
    ),
    "torch._C": ("_is_tracing",),
}
#: Whether torch.fx traces: a flag of the process until torch 2.14, then one of the thread.
_TRACING_FLAG, _TRACING_OF_THREAD = "_is_fx_tracing_flag", "_is_fx_tracing_tls"
_HOOKS = ("_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks")


def _is_compiled(graph: Any) -> bool:
    from straightline.compiled_function import CompiledFunction

    return isinstance(graph, CompiledFunction)


class Entry:
    """What one cache entry of Dynamo stands for here. Its guard manager owns it, so it lives as long as Dynamo's entry does."""

    __slots__ = ("__weakref__", "_code", "call", "check", "compile_id", "reason")

    def __init__(self, check: Callable[[dict[str, Any]], bool], call: Any, reason: str, compile_id: str) -> None:
        #: Dynamo's guards over the locals of a frame.
        self.check = check
        #: Takes the frame's arguments and free variables, or says which of them a program takes (`_straight_code.read`);
        #: None: such calls go through torch.compile.
        self.call = call
        self.reason, self.compile_id = reason, compile_id

    def end_with(self, code: types.CodeType) -> None:
        """Lets the programs go when Dynamo's entry goes, whose code this is: torch 2.10 keeps guard managers for longer."""
        entry = weakref.ref(self)

        def ended(_: object) -> None:
            if (of := entry()) is not None:
                of.call, of.reason = None, "Dynamo has dropped it"

        self._code = weakref.ref(code, ended)


class Conditions(NamedTuple):
    """What must hold beside the guards, for `_call.Guarded`."""

    same: tuple[Any, ...]  #: namespace, name, value it must be
    empty: tuple[Any, ...]  #: namespace, name of what must be false or absent
    attributes: tuple[Any, ...]  #: object, name, value it must be
    calls: tuple[Any, ...]  #: function without arguments, value it must return
    types: tuple[Any, ...]  #: object, its type, its namespace


@dataclass(frozen=True)
class Frame:
    """The frame that Dynamo compiles when what torch.compile returned is called."""

    function: types.FunctionType
    #: What comes before the arguments of the call: nothing, or `self`.
    first: tuple[Any, ...]
    conditions: Conditions

    @property
    def slots(self) -> tuple[str, ...]:
        code = self.function.__code__
        stars = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
        return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + stars] + code.co_freevars


class Dynamo:
    """Dynamo's insides, found."""

    def __init__(self, modules: dict[str, Any]) -> None:
        self._modules = modules
        self._entries = modules["torch._C._dynamo.eval_frame"]._debug_get_cache_entry_list
        self._utils = modules["torch._dynamo.utils"]
        regions = hasattr(getattr(modules["torch._C._dynamo.eval_frame"], "_CacheEntry", None), "isolate_recompiles_id")
        names = ("guard_manager", "code", "backend", "compile_id")
        self._of_entry = operator.attrgetter(*names, *(["isolate_recompiles_id"] if regions else []))

    # Frames -------------------------------------------------------------------------------------------------------------

    def frame(self, compiled: Any) -> Frame | str:
        """Which frame Dynamo compiles for calls of what torch.compile returned; or why that is not known."""
        same, empty, attributes, objects = self._ambient()
        wrapper = compiled
        if isinstance(compiled, self._modules["torch._dynamo.eval_frame"].OptimizedModule):
            wrapper = vars(compiled).get("forward")
            reason = self._module(compiled, wrapper, same, empty, attributes, objects)
            if reason:
                return reason
        inner = getattr(wrapper, "_torchdynamo_orig_callable", None)
        if getattr(inner, "__func__", None) is self._calls_of_modules():
            inner = self._forward(inner.__self__, same, empty, attributes, objects)
        first = (inner.__self__,) if isinstance(inner, types.MethodType) else ()
        function = inner.__func__ if isinstance(inner, types.MethodType) else inner
        if not isinstance(function, types.FunctionType):
            return f"what it calls is no Python function but {type(function).__name__}"
        if function.__code__.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
            return "it is a generator or a coroutine"
        attributes += [function, "__code__", function.__code__]
        calls = self._ambient_calls()
        return Frame(function, first, Conditions(tuple(same), tuple(empty), tuple(attributes), calls, tuple(objects)))

    def _calls_of_modules(self) -> Any:
        return self._modules["torch.nn.modules.module"].Module._wrapped_call_impl

    def _module(
        self, compiled: Any, wrapper: Any, same: list[Any], empty: list[Any], attributes: list[Any], objects: list[Any]
    ) -> str:
        """Conditions under which a call of a compiled module is one of its `forward` and no more."""
        if getattr(wrapper, "_torchdynamo_orig_callable", None) is None:
            return "the module is lazy, or its forward was replaced"
        namespace = vars(compiled)
        same += [namespace, "forward", wrapper]
        for name in (*_HOOKS, "_compiled_call_impl"):
            empty += [namespace, name]
        for name in _NEEDED["torch.nn.modules.module"]:
            empty += [vars(self._modules["torch.nn.modules.module"]), name]
        attributes += [type(compiled), "__call__", type(compiled).__call__]
        objects += [compiled, type(compiled), namespace]
        return ""

    def _forward(
        self, module: Any, same: list[Any], empty: list[Any], attributes: list[Any], objects: list[Any]
    ) -> Any:
        """What `Module.__call__` calls where there are no hooks, which are outside of the frame and its guards."""
        namespace, kind = vars(module), type(module)
        for name in (*_HOOKS, "_compiled_call_impl"):
            empty += [namespace, name]
        attributes += [kind, "_call_impl", self._modules["torch.nn.modules.module"].Module._call_impl]
        attributes += [kind, "__call__", self._calls_of_modules()]
        objects += [module, kind, namespace]
        if "forward" in namespace:
            same += [namespace, "forward", namespace["forward"]]
            return namespace["forward"]
        empty += [namespace, "forward"]
        attributes += [kind, "forward", kind.forward]
        return module.forward

    def _ambient(self) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
        """What torch.compile's wrapper asks before it looks for an entry, and what only shows on the ordinary way."""
        modules, stances = self._modules, vars(self._modules["torch._dynamo.eval_frame"])
        stance = stances["_stance"]
        stance = stance if stance == stances["DynamoStance"]() else None  # which it never is
        same: list[Any] = [stances, "_stance", stance]
        empty: list[Any] = []
        for module, names in _NEEDED.items():
            for name in names:
                if name.endswith(("_flag", "_enabled")):
                    empty += [vars(modules[module]), name]
        empty += [vars(modules["torch.fx._symbolic_trace"]), _TRACING_FLAG]
        empty += [vars(modules["torch._dynamo.distributed"]), "_GUARD_PG"]  # processes that agree on their guards
        return same, empty, [], []

    def _ambient_calls(self) -> tuple[Any, ...]:
        tracing = functools.partial(getattr, self._modules["torch._guards"]._TLS, "tracing_context", None)
        callback = self._modules["torch._C._dynamo.eval_frame"].get_eval_frame_callback
        calls = (callback, None, tracing, None, self._modules["torch._C"]._is_tracing, False)
        of_thread = getattr(self._modules["torch.fx._symbolic_trace"], _TRACING_OF_THREAD, None)
        return calls if of_thread is None else (*calls, functools.partial(getattr, of_thread, "flag", False), False)

    # Entries ------------------------------------------------------------------------------------------------------------

    def backend(self, compiled: Any) -> Any:
        """What Dynamo notes with each entry: with which backend and options it was compiled. None where it is not known."""
        wrapper = vars(compiled).get("forward", compiled)
        names = getattr(getattr(wrapper, "__code__", None), "co_freevars", ())
        if "callback" not in names or not wrapper.__closure__:
            return None
        callback = wrapper.__closure__[names.index("callback")].cell_contents
        while hasattr(callback, "_torchdynamo_orig_backend"):  # as Dynamo compares them
            callback = callback._torchdynamo_orig_backend
        return callback

    def entries(self, frame: Frame, compiled: Any, find: Callable[[Any], Any]) -> list[Entry]:
        """Of all that Dynamo has for the frame what it would look through, in its order.

        Args:
            frame: That.
            compiled: What torch.compile returned.
            find: From what Dynamo calls for a graph to the program; None where there is none.
        """
        backend = self.backend(compiled)
        region = getattr(vars(compiled).get("forward", compiled), "_isolate_recompiles_id", None)
        # An entry is C++'s, and another thread may end it: no bytecode runs while one is held.
        found = list(map(self._of_entry, self._entries(frame.function.__code__)))
        entries = []
        for manager, transformed, its_backend, compile_id, *its_region in found:
            same = its_backend is backend or its_backend == backend
            same = same and not hasattr(manager, "_straightline_never")  # of `_dynamo_first_calls`
            if same and its_region in ([], [region]) and isinstance(transformed, types.CodeType):
                entries.append(self._entry(manager, transformed, str(compile_id), frame, find))
        return entries

    def _entry(self, manager: Any, code: Any, compile_id: str, frame: Frame, find: Callable[[Any], Any]) -> Entry:
        scope = frame.function.__globals__
        known = vars(manager).get("_straightline_entry")
        if known is not None and known[0] is scope:
            return known[1]  # type: ignore[no-any-return]

        def program(name: str) -> Any:
            found = find(scope.get(name))
            if found is None:
                raise MoreThanOneGraph("a graph of it runs in another way than as a program")
            return found

        call, reason = None, ""
        try:
            call = _straight_code.read(code, frame.slots, scope, self._utils, program, _is_compiled)
        except MoreThanOneGraph as error:
            reason = str(error)
        entry = Entry(manager.root.check, call, reason, compile_id)
        entry.end_with(code)
        # Not the function: its code holds Dynamo's entry in a place that the collector does not see.
        manager._straightline_entry = (scope, entry)
        return entry


def undisturbed(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, whose frames Dynamo does not compile where it is called by one that Dynamo does."""
    import torch

    return torch.compiler.disable(function)  # type: ignore[no-any-return]


def dynamo() -> Dynamo | str:
    """Dynamo's insides, or why they are not what is known here."""
    modules = {}
    for name, needed in _NEEDED.items():
        try:
            modules[name] = importlib.import_module(name)
        except ImportError as error:
            return f"this torch has no {name} ({error})"
        for attribute in needed:
            if not hasattr(modules[name], attribute):
                return f"this torch has no {name}.{attribute}"
    if not any(hasattr(modules["torch.fx._symbolic_trace"], name) for name in (_TRACING_FLAG, _TRACING_OF_THREAD)):
        return f"this torch has no torch.fx._symbolic_trace.{_TRACING_OF_THREAD}"
    if not hasattr(modules["torch._C._dynamo.guards"].RootGuardManager, "check"):
        return "this torch has no RootGuardManager.check"
    return Dynamo(modules)
