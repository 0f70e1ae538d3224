# SPDX-License-Identifier: Apache-2.0
"""Traces a function of `paddle.jit.to_static(full_graph=False)` (SOT): one call of it, and what Paddle made of its bytecode.

The call runs once, on the examples. What it does besides one graph, a break of it or a write to Python's objects, is refused.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import paddle
from paddle.jit.sot.opcode_translator.executor import function_graph
from paddle.jit.sot.opcode_translator.executor.executor_cache import OpcodeExecutorCache
from paddle.jit.sot.opcode_translator.executor.function_graph import FunctionGraph
from paddle.jit.sot.opcode_translator.executor.opcode_executor import OpcodeExecutorBase
from paddle.jit.sot.symbolic import interpreter
from paddle.jit.sot.symbolic.compile_cache import FallbackWrapper
from paddle.jit.sot.utils import allow_dynamic_shape_guard, min_graph_size_guard
from paddle.jit.sot.utils.info_collector import BreakGraphReasonInfo

from straightline.capture.paddle.live_program import LiveReader
from straightline.capture.paddle.nested import in_a_line, is_tensor, leaves, mapped, returned
from straightline.errors import StraightlineError, UnsupportedError, UserError

#: Paddle's translator has one state for the process, and the functions below are replaced in it.
_ONE_AT_A_TIME = threading.Lock()


@dataclass
class _Seen:
    """What happened during the call."""

    #: (graph, inputs, outputs) of each graph that ran.
    graphs: list[tuple[Any, Sequence[Any], Sequence[Any]]] = field(default_factory=list)
    #: Why and where a graph ended.
    breaks: list[str] = field(default_factory=list)
    #: Where each graph ended.
    ends: list[str] = field(default_factory=list)
    #: What of Python is written, and where.
    writes: list[str] = field(default_factory=list)


def trace_bytecode(
    static: Any, layer: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[LiveReader, Any, Any, list[str]]:
    """The concrete program, what the function returns with the program's values as leaves, and names of its inputs.

    Raises:
        UserError: An example is no tensor of Paddle, or the call fails.
        UnsupportedError: The graph breaks, or the function writes to objects of Python.
    """
    flat = [leaf for leaf in leaves((tuple(args), dict(kwargs))) if is_tensor(leaf)]
    for leaf in flat:
        if not isinstance(leaf, paddle.Tensor):
            raise UserError(
                f"an example is of type {type(leaf).__name__}, but a lambda, or a function of to_static(full_graph=False) or "
                "without source, is traced by calling it: give paddle tensors"
            )
    args, kwargs = mapped((tuple(args), dict(kwargs)), _each_once(set()))
    flat = [leaf for leaf in leaves((args, kwargs)) if is_tensor(leaf)]
    # Sizes that differ between two traces of a function would have no number in the second.
    sizes = allow_dynamic_shape_guard(False)
    with _ONE_AT_A_TIME, _watched() as seen, min_graph_size_guard(-1), sizes, paddle.no_grad():
        cache, translated = OpcodeExecutorCache(), OpcodeExecutorCache().cache
        cache.cache = {}  # what Paddle translated before is not translated now, and would not be seen
        try:
            result = static(*args, **kwargs)
        except StraightlineError:
            raise
        except Exception as error:
            if not seen.writes:
                raise UserError(f"Paddle cannot trace the model: {in_a_line(error)}") from error
            result = None
        finally:
            cache.cache = translated
    if seen.writes:
        raise UnsupportedError(
            f"the function writes to {', '.join(seen.writes)}, which a program would not do; nearest supported form: a function "
            "that returns it"
        )
    if len(seen.graphs) != 1 or seen.breaks:
        reasons = seen.breaks or [f"a break{where}" for where in seen.ends[:-1]]
        why = f": {'; '.join(dict.fromkeys(reasons))}" if reasons else ""
        raise UnsupportedError(
            f"the function is {_counted(len(seen.graphs))}{why}; nearest supported form: one graph, a function without "
            "Python effects and without branches on values of tensors, or to_static(full_graph=True)"
        )
    own = [] if layer is None else [*layer.parameters(), *layer.buffers()]
    return _program(seen, flat, result, {id(tensor) for tensor in own})


def _counted(graphs: int) -> str:
    return f"{graphs} graphs of Paddle" if graphs != 1 else "one graph of Paddle and code that runs beside it"


def _each_once(known: set[int]) -> Callable[[Any], Any]:
    """Gives tensors as they are, and another object for one that is given again: inputs are told apart by their objects."""

    def once(leaf: Any) -> Any:
        if not is_tensor(leaf) or id(leaf) not in known:
            known.add(id(leaf))
            return leaf
        return leaf.detach()

    return once


def _program(seen: _Seen, flat: Sequence[Any], result: Any, own: set[int]) -> tuple[LiveReader, Any, Any, list[str]]:
    """What `trace_bytecode` gives; `own`: identities of the layer's tensors, which are inputs where its own code reads them."""
    graph, inputs, outputs = seen.graphs[0]
    concrete = graph.concrete_program
    values = returned(concrete.outputs)
    values = values if isinstance(values, (list, tuple)) else [values]
    data = [op for op in concrete.main_program.global_block().ops if op.name() == "pd_op.data"]
    names = {id(tensor): op.attrs()["name"] for tensor, op in zip(inputs, data)}
    further = [tensor for tensor in inputs if all(tensor is not leaf for leaf in flat)]
    strange = [tensor for tensor in further if id(tensor) not in own]
    if strange or len(data) != len(inputs):
        raise UnsupportedError(
            "the function reads a tensor that is neither an argument nor a parameter of its layer; nearest supported form: give "
            "it as an argument"
        )
    # One tensor may come as several results.
    places = {id(tensor): value for tensor, value in zip(outputs, values)}
    given = {id(tensor): op.results()[0] for op, tensor in zip(data, inputs)}

    def value(leaf: Any) -> Any:
        if not isinstance(leaf, paddle.Tensor):
            return leaf
        found = places.get(id(leaf), given.get(id(leaf)))
        if found is None:
            raise UnsupportedError(
                "a result is a tensor that the function does not compute; nearest form: leave it out"
            )
        return found

    reader = LiveReader({names[id(tensor)]: tensor for tensor in further})
    return reader, concrete, mapped(result, value), [names.get(id(leaf), "") for leaf in flat]


@contextmanager
def _watched() -> Iterator[_Seen]:
    """Notes what Paddle's translator does."""
    seen = _Seen()
    call, collect = FallbackWrapper.__call__, BreakGraphReasonInfo.__dict__["collect_break_graph_reason"]
    compile_function = FunctionGraph.compile_function
    restore, prints, log = FunctionGraph.restore_side_effects, FunctionGraph.restore_print_stmts, interpreter.log_do

    def noted_call(self: Any, *args: Any, **kwargs: Any) -> Any:
        outputs = call(self, *args, **kwargs)
        seen.graphs.append((self, args[0] if args else (), outputs))
        return outputs

    def noted_break(reason: Any) -> None:
        seen.breaks.append(f"{str(reason).splitlines()[0] if str(reason) else 'a break'}{_where()}")

    def noted_writes(self: Any, variables: Any) -> Any:
        variables = list(variables)
        seen.writes.extend(f"{_kind(v)}{_where()}" for v in variables if v.tracker.is_traceable() or _is_global(v))
        return restore(self, variables)

    def noted_prints(self: Any, variables: Any) -> Any:
        variables = list(variables)
        seen.writes.extend(f"the output (print){_where()}" for _ in variables)
        return prints(self, variables)

    def noted_graph(self: Any, *args: Any, **kwargs: Any) -> Any:
        seen.ends.append(_where())
        return compile_function(self, *args, **kwargs)

    def with_places(level: int, function: Any) -> None:
        if level == 3:  # where the lines of statements are written into the program
            function()
        else:
            log(level, function)

    FallbackWrapper.__call__ = noted_call
    BreakGraphReasonInfo.collect_break_graph_reason = staticmethod(noted_break)
    FunctionGraph.restore_side_effects, FunctionGraph.restore_print_stmts = noted_writes, noted_prints
    FunctionGraph.compile_function = noted_graph
    interpreter.log_do = function_graph.log_do = with_places
    try:
        yield seen
    finally:
        FallbackWrapper.__call__ = call
        BreakGraphReasonInfo.collect_break_graph_reason = collect
        FunctionGraph.restore_side_effects, FunctionGraph.restore_print_stmts = restore, prints
        FunctionGraph.compile_function = compile_function
        interpreter.log_do = function_graph.log_do = log


def _is_global(variable: Any) -> bool:
    return type(variable).__name__ == "GlobalVariable"


def _kind(variable: Any) -> str:
    kinds = {"ListVariable": "a list", "DictVariable": "a dict", "GlobalVariable": "globals"}
    return kinds.get(type(variable).__name__, "an attribute of an object")


def _where() -> str:
    """The user's line that Paddle's translator is at."""
    if not OpcodeExecutorBase.call_stack:
        return ""
    executor = OpcodeExecutorBase.call_stack[-1]
    return f" at {os.path.basename(executor.vframe.code.co_filename)}:{executor._current_line}"
