# SPDX-License-Identifier: Apache-2.0
"""What `torch.compile` compiled by the backend: `programs(fn)`. Nothing here keeps a program alive: Dynamo does."""

from __future__ import annotations

import itertools
import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

from straightline.errors import UserError
from straightline.explanation import Explanation

_numbers = itertools.count()
_live: weakref.WeakSet[Program] = weakref.WeakSet()


class Program:
    """One graph of a function that `torch.compile` runs, compiled.

    Attributes:
        compile_id: Dynamo's number of the frame, and how often that was compiled before: "0/1".
        graph: Dynamo's graph, readable.
        ends: Why the graph ends where it does: "return_value", or what Dynamo says of the graph break.
        is_break: Whether it ends by a graph break.
        again: Why it was compiled again: the guard of the one before that failed; "" for the first.
        specialized: Why it has the sizes of its example where Dynamo gave named ones; "" where it has these.
    """

    def __init__(self, function: Any, module: Any, specialized: str) -> None:
        self._function = weakref.ref(function)
        self._number = next(_numbers)
        self._owner = _owner()
        reason = getattr(module, "compile_subgraph_reason", None)
        self.compile_id = str(module.meta.get("dynamo_compile_id", "")) if hasattr(module, "meta") else ""
        self.graph = str(module.graph)
        self.ends = str(getattr(reason, "reason", "") or "")
        self.is_break = bool(getattr(reason, "graph_break", False))
        self.again = _recompile_reason()
        self.specialized = specialized

    def _compiled(self) -> Any:
        function = self._function()
        if function is None:
            raise UserError("this program is gone: torch.compiler.reset, or its function, took it along")
        return function

    @property
    def code(self) -> str:
        """As of a compiled function."""
        return self._compiled().code

    def ir(self, level: str = "kernel", *, locations: bool = False) -> str:
        """As of a compiled function."""
        return self._compiled().ir(level, locations=locations)

    def explain(self) -> Explanation:
        """As of a compiled function, with `graph_break`, `compiled_again` and `specialized` among the facts."""
        explanation = self._compiled().explain()
        explanation.facts.update(
            compile_id=self.compile_id,
            graph_break=self.ends if self.is_break else "",
            compiled_again=self.again,
            specialized=self.specialized,
        )
        return explanation

    def __repr__(self) -> str:
        words = [f"graph {self.compile_id}"]
        if self.is_break:
            words.append(f"ends by a graph break: {_first_line(self.ends)}")
        if self.again:
            words.append(f"compiled again: {_first_line(self.again)}")
        return f"<{'; '.join(words)}>"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def _recompile_reason() -> str:
    """What Dynamo says of the compilation that goes on."""
    metrics = sys.modules["torch._dynamo.utils"].get_metrics_context()
    return str(getattr(metrics, "_metrics", {}).get("recompile_reason") or "")


def _owner() -> Any:
    """A reference to the function or module given to torch.compile that is being called; None where there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "compile_wrapper" and "torch" in frame.f_globals.get("__name__", ""):
            return _reference(frame.f_locals.get("fn"))
        frame = frame.f_back
    return None


def _innermost(function: Any) -> Any:
    """What a function or module is without what torch.compile put around it; of a method of a module the module."""
    seen: set[int] = set()
    while id(function) not in seen:
        seen.add(id(function))
        if "_orig_mod" in getattr(function, "_modules", {}):
            function = function._modules["_orig_mod"]
        if hasattr(
            getattr(function, "__wrapped__", None), "_modules"
        ):  # what torch.compile puts around a module of torch's
            function = function.__wrapped__
        function = (
            vars(function).get("_torchdynamo_orig_callable", function) if hasattr(function, "__dict__") else function
        )
    owner = getattr(function, "__self__", None)
    return owner if owner is not None and hasattr(owner, "_modules") else function


def _reference(function: Any) -> Callable[[], Any]:
    inner = _innermost(function)
    try:
        if hasattr(inner, "__self__") and hasattr(inner, "__func__"):
            return weakref.WeakMethod(inner)
        return weakref.ref(inner)
    except TypeError:
        return lambda: inner


def noted(call: Callable[..., Any], function: Any, module: Any, specialized: str) -> Callable[..., Any]:
    """Notes a program for as long as `call` lives, which is returned."""
    program = Program(function, module, specialized)
    call._program = program  # type: ignore[attr-defined]
    _live.add(program)
    return call


def programs(function: Any = None) -> list[Program]:
    """The programs that `torch.compile(.., backend="straightline")` has compiled, in the order in which it did.

    Args:
        function: What torch.compile was given or what it returned; those that it compiled for calls of that, also in functions
            that it calls. By default all.

    Returns:
        One program for each graph that is alive. A graph that no guard fits any more goes with its function, or with
        `torch.compiler.reset()`.
    """
    found = sorted(_live, key=lambda program: program._number)
    if function is None:
        return found
    wanted = _innermost(function)
    owners = [(program, program._owner() if program._owner is not None else None) for program in found]
    return [program for program, owner in owners if owner is not None and (owner is wanted or owner == wanted)]
