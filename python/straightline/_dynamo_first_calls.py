# SPDX-License-Identifier: Apache-2.0
"""Threads that call a function first compile it once: one compiles, the others wait for it and enter what it made.

Dynamo lets one thread compile at a time, but one that had to wait compiles too, whatever there is by then. So eight threads made
eight entries of one shape, and with a ninth Dynamo's limit was reached and no other shape was compiled. Here a thread that has
waited for this backend looks through the entries once more.
"""

from __future__ import annotations

import operator
import types
import weakref
from typing import Any


class _Nobody:
    """What no frame has."""


_nobody = _Nobody()
_of_entry = operator.attrgetter("guard_manager", "code", "backend", "compile_id")


def install(backend: Any) -> None:
    """Has Dynamo look again where it compiles for a backend. A torch whose insides are not as known here is left as it is."""
    try:
        _Look(backend).install()
    except (AttributeError, TypeError, ImportError):
        return


class _Look:
    def __init__(self, backend: Any) -> None:
        from torch._C._dynamo import eval_frame
        from torch._dynamo import convert_frame, guards
        from torch._dynamo.types import GuardedCode, wrap_guarded_code

        self._backend = backend
        self._entries = eval_frame._debug_get_cache_entry_list
        self._region = getattr(eval_frame, "get_eval_frame_isolate_recompiles_id", lambda: -1)
        self._callback = convert_frame.ConvertFrame
        self._manager, self._code = guards.GuardManagerWrapper, GuardedCode
        self._wrapped = wrap_guarded_code
        never = self._never()
        if never.root.check({}):
            raise TypeError("a guard that never holds does")

    def install(self) -> None:
        before = self._callback.__call__
        if hasattr(before, "_straightline_before"):
            return

        def call(convert: Any, frame: Any, cache_entry: Any, *args: Any, **kwargs: Any) -> Any:
            found = self._made_meanwhile(convert, frame, cache_entry)
            return before(convert, frame, cache_entry, *args, **kwargs) if found is None else found

        call._straightline_before = before  # type: ignore[attr-defined]
        self._callback.__call__ = call

    def _made_meanwhile(self, convert: Any, frame: Any, newest: Any) -> Any:
        """What another thread compiled for this call; None: nothing. The thread holds Dynamo's lock.

        Args:
            convert: Dynamo's callback.
            frame: That of the call.
            newest: The first entry when guards were compared, before the thread waited.
        """
        callback, inner = convert, None
        while hasattr(callback, "_torchdynamo_orig_backend"):  # as Dynamo compares them
            callback = callback._torchdynamo_orig_backend
            inner = getattr(callback, "compiler_fn", callback)
        if inner is not self._backend or self._region() >= 0:
            return None
        # An entry is C++'s, and another thread may end it: no bytecode runs while one is held.
        if next(map(operator.is_, self._entries(frame.f_code), (newest,)), True):
            return None
        for manager, code, its_backend, compile_id in list(map(_of_entry, self._entries(frame.f_code))):
            same = its_backend is callback or its_backend == callback
            if same and isinstance(code, types.CodeType) and manager.root.check(frame.f_locals):
                never = self._never()
                weakref.finalize(manager, _end, never).atexit = False
                return self._wrapped(self._code(code, never, compile_id))
        return None

    def _never(self) -> Any:
        """Guards that never hold: Dynamo keeps an entry for what it is given, and only this call may enter by it.

        It does not count for Dynamo's limit, which counts entries for the objects of the frame.
        """
        manager = self._manager()
        names = ["another thread compiled it"]
        try:
            manager.root.add_lambda_guard(lambda _: False, names, None)
        except TypeError:  # torch 2.10
            manager.root.add_lambda_guard(lambda _: False, names)
        manager.id_matched_objs = {"": weakref.ref(_nobody)}
        manager.global_scope, manager.closure_vars = {"G": {}}, {}  # Dynamo reads them for what it logs
        manager._straightline_never = True
        return manager


def _end(never: Any) -> None:
    """The entry whose code one of ours has has ended, and so does ours: else it would keep the program."""
    if never.cache_entry is not None and never.extra_state is not None:
        never.extra_state.invalidate(never.cache_entry, never)
