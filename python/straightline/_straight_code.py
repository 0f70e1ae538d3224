# SPDX-License-Identifier: Apache-2.0
"""Reads the code that Dynamo makes of a function, and writes it again as a function that calls the program alone.

Dynamo's code is a straight line: it reads what the graph takes from the arguments and from what they hold, calls the graph,
and puts its results into those of the function. `read` follows it instruction by instruction and refuses whatever does more:
a write, which is a side effect, a call of anything else, a branch.
"""

from __future__ import annotations

import builtins
import dis
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any


class MoreThanOneGraph(Exception):
    """Why code cannot be written again: its text is the reason in words."""


@dataclass(frozen=True)
class _Value:
    """Something on the stack: how it is written, and what it is where that is known."""

    text: str
    #: "" for a value, "null" of CPython's calls, "graph", "helpers", "helper", "profiler", "known" (True or False), "dropped".
    kind: str = ""


@dataclass
class _Line:
    """A statement: its target, its text, what it reads."""

    target: str
    text: str
    reads: list[str]


_NULL = _Value("None", "null")
#: Functions of torch._dynamo.utils that only read.
_READS = {"call_size", "call_stride", "call_storage_offset", "dict_keys_getitem"}
#: Notes of torch's profiler: while it is on, calls go through torch.compile.
_NOTES = {"record_pregraph_bytecode_enter", "record_pregraph_bytecode_exit"}
_PROFILER = "__import_torch_dot_autograd_dot_profiler"
_CALLS = "its code calls {} beside the graph: a side effect, or a result that is made again"
#: Of torch: how Dynamo gives a float that has changed.
_FLOAT_AS_TENSOR = "_as_tensor_fullprec"
_NOTHING = {"RESUME", "NOP", "CACHE", "PRECALL", "EXTENDED_ARG", "COPY_FREE_VARS", "MAKE_CELL", "NOT_TAKEN"}
_WRITES = {"STORE_ATTR", "STORE_SUBSCR", "STORE_GLOBAL", "DELETE_ATTR", "DELETE_SUBSCR", "DELETE_GLOBAL", "STORE_DEREF"}


class _Reader:
    """Follows the instructions; `lines` and `result` are what it found."""

    def __init__(self, code: CodeType, slots: tuple[str, ...], scope: Mapping[str, Any], helpers: str) -> None:
        self._scope, self._helpers = scope, helpers
        self._stack: list[_Value] = []
        self._names: dict[str, _Value] = {name: _Value(f"a{place}") for place, name in enumerate(slots)}
        self.lines: list[_Line] = []
        self.constants: dict[str, Any] = {}
        self.graph = ""
        self.result: str | None = None
        if any(name.startswith(("__resume_at", "torch_dynamo_resume_in")) for name in code.co_names):
            raise MoreThanOneGraph("it has a graph break")
        self._next = 0  # the offset before which all is jumped over
        for instruction in dis.get_instructions(code):
            if instruction.offset < self._next:
                continue
            self._follow(instruction)
            if self.result is not None:
                return

    def _follow(self, instruction: dis.Instruction) -> None:
        name = instruction.opname
        if name in _NOTHING:
            return
        step = getattr(self, f"_{name.lower()}", None)
        if name in _WRITES:
            raise MoreThanOneGraph("it has a side effect: its code writes what outlives the call")
        if step is None:
            raise MoreThanOneGraph(f"its code has {name}, which is not read here")
        step(instruction)

    def _push(self, text: str, *reads: _Value) -> _Value:
        value = _Value(f"t{len(self.lines)}")
        self.lines.append(_Line(value.text, text, [read.text for read in reads]))
        self._stack.append(value)
        return value

    def _pop(self) -> _Value:
        value = self._stack.pop()
        if value.kind not in ("", "dropped"):
            raise MoreThanOneGraph(f"its code uses {value.text} as a value")
        return value

    def _several(self, count: int) -> list[_Value]:
        return [self._pop() for _ in range(count)][::-1]

    # The stack ------------------------------------------------------------------------------------------------------

    def _pop_top(self, _: dis.Instruction) -> None:
        self._stack.pop()

    def _push_null(self, _: dis.Instruction) -> None:
        self._stack.append(_NULL)

    def _copy(self, instruction: dis.Instruction) -> None:
        self._stack.append(self._stack[-_number(instruction)])

    def _swap(self, instruction: dis.Instruction) -> None:
        place = -_number(instruction)
        self._stack[-1], self._stack[place] = self._stack[place], self._stack[-1]

    def _dup_top(self, _: dis.Instruction) -> None:
        self._stack.append(self._stack[-1])

    def _rotate(self, count: int) -> None:
        self._stack.insert(len(self._stack) - count, self._stack.pop())

    def _rot_two(self, _: dis.Instruction) -> None:
        self._rotate(2)

    def _rot_three(self, _: dis.Instruction) -> None:
        self._rotate(3)

    def _rot_four(self, _: dis.Instruction) -> None:
        self._rotate(4)

    # Names ----------------------------------------------------------------------------------------------------------

    def _load_const(self, instruction: dis.Instruction) -> None:
        value = instruction.argval
        if value is None or type(value) in (bool, int, str):
            self._stack.append(_Value(repr(value)))
            return
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        self._stack.append(_Value(name))

    def _load_small_int(self, instruction: dis.Instruction) -> None:
        self._stack.append(_Value(repr(_number(instruction))))

    def _load_fast(self, instruction: dis.Instruction) -> None:
        names = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
        for name in names:
            if name not in self._names:
                raise MoreThanOneGraph(f"its code reads {name} before it has a value")
            self._stack.append(self._names[name])

    _load_fast_check = _load_fast_borrow = _load_fast_load_fast = _load_fast
    _load_fast_borrow_load_fast_borrow = _load_deref = _load_fast

    def _store_fast(self, instruction: dis.Instruction) -> None:
        names = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
        for name in names:
            self._names[name] = self._stack.pop()

    _store_fast_store_fast = _store_fast

    def _store_fast_load_fast(self, instruction: dis.Instruction) -> None:
        stored, loaded = instruction.argval
        self._names[stored] = self._stack.pop()
        self._stack.append(self._names[loaded])

    def _delete_fast(self, instruction: dis.Instruction) -> None:
        self._names.pop(instruction.argval, None)

    def _load_global(self, instruction: dis.Instruction) -> None:
        name = instruction.argval
        value = self._global(name)
        # 3.11 and 3.12 push the null of a call below what is called, 3.13 and later above.
        has_null = "LOAD_GLOBAL" in _HAVE_A_FLAG and bool(_number(instruction) & 1)
        self._stack += ([value, _NULL] if _NULL_IS_ABOVE else [_NULL, value]) if has_null else [value]

    def _global(self, name: str) -> _Value:
        if name.startswith("__compiled_fn"):
            return _Value(name, "graph")
        if name == self._helpers:
            return _Value(name, "helpers")
        if name == _PROFILER:
            return _Value(name, "profiler")
        if name in self._scope:
            value = self._push(f"scope[{name!r}]")
            self._stack.pop()
            return value
        if hasattr(builtins, name):
            raise MoreThanOneGraph(f"its code uses {name} beside the graph")
        raise MoreThanOneGraph(f"its code reads {name}, which is not there")

    # What values hold -----------------------------------------------------------------------------------------------

    def _load_attr(self, instruction: dis.Instruction) -> None:
        owner = self._stack.pop()
        name = instruction.argval
        is_method = "LOAD_ATTR" in _HAVE_A_FLAG and bool(_number(instruction) & 1)
        if owner.kind == "profiler" and name == "_is_profiler_enabled":
            self._stack.append(_Value("False", "known"))  # else the call goes through torch.compile
            return
        if owner.kind == "helpers" or name == _FLOAT_AS_TENSOR:
            if name not in _READS | _NOTES | {_FLOAT_AS_TENSOR}:
                raise MoreThanOneGraph(_CALLS.format(name))
            helper = _Value(name, "helper")
            self._stack += ([helper, _NULL] if _NULL_IS_ABOVE else [_NULL, helper]) if is_method else [helper]
        elif owner.kind or is_method:
            raise MoreThanOneGraph(_CALLS.format(name))
        else:
            self._push(f"{owner.text}.{name}", owner)

    def _load_method(self, instruction: dis.Instruction) -> None:
        if self._stack[-1].kind != "helpers" and instruction.argval != _FLOAT_AS_TENSOR:
            raise MoreThanOneGraph(_CALLS.format(instruction.argval))
        self._load_attr(instruction)
        self._stack.insert(len(self._stack) - 1, _NULL)

    def _binary_subscr(self, _: dis.Instruction) -> None:
        owner, key = self._several(2)
        self._push(f"{owner.text}[{key.text}]", owner, key)

    def _binary_op(self, instruction: dis.Instruction) -> None:
        if instruction.argrepr != "[]":
            raise MoreThanOneGraph(f"its code computes {instruction.argrepr} beside the graph")
        self._binary_subscr(instruction)

    def _unpack_sequence(self, instruction: dis.Instruction) -> None:
        owner = self._pop()
        for place in reversed(range(_number(instruction))):
            self._push(f"{owner.text}[{place}]", owner)

    # Branches whose way is known ------------------------------------------------------------------------------------

    def _is_op(self, instruction: dis.Instruction) -> None:
        one, other = self._several(2)
        if (one.text, other.text) != ("None", "None"):
            raise MoreThanOneGraph("its code compares what objects are beside the graph")
        self._stack.append(_Value(str(_number(instruction) == 0), "known"))

    def _jump_if(self, instruction: dis.Instruction, wanted: str) -> None:
        value = self._stack.pop()
        if value.kind != "known":
            raise MoreThanOneGraph(f"its code has {instruction.opname}, which is not read here")
        if value.text == wanted:
            self._jump_forward(instruction)

    def _pop_jump_forward_if_false(self, instruction: dis.Instruction) -> None:
        self._jump_if(instruction, "False")

    def _pop_jump_forward_if_true(self, instruction: dis.Instruction) -> None:
        self._jump_if(instruction, "True")

    _pop_jump_if_false, _pop_jump_if_true = _pop_jump_forward_if_false, _pop_jump_forward_if_true

    def _jump_forward(self, instruction: dis.Instruction) -> None:
        if instruction.argval <= instruction.offset:
            raise MoreThanOneGraph("its code has a loop")
        self._next = instruction.argval

    # New values -----------------------------------------------------------------------------------------------------

    def _build(self, instruction: dis.Instruction, begin: str, end: str) -> None:
        values = self._several(_number(instruction))
        self._push(f"{begin}{''.join(f'{value.text}, ' for value in values)}{end}", *values)

    def _build_tuple(self, instruction: dis.Instruction) -> None:
        self._build(instruction, "(", ")")

    def _build_list(self, instruction: dis.Instruction) -> None:
        self._build(instruction, "[", "]")

    def _build_map(self, instruction: dis.Instruction) -> None:
        values = self._several(2 * _number(instruction))
        pairs = zip(values[::2], values[1::2])
        self._push(f"{{{', '.join(f'{key.text}: {value.text}' for key, value in pairs)}}}", *values)

    def _build_const_key_map(self, instruction: dis.Instruction) -> None:
        keys = self._pop()
        values = self._several(_number(instruction))
        self._push(f"dict(zip({keys.text}, ({''.join(f'{value.text}, ' for value in values)})))", keys, *values)

    def _build_slice(self, instruction: dis.Instruction) -> None:
        values = self._several(_number(instruction))
        self._push(f"slice({', '.join(value.text for value in values)})", *values)

    def _list_extend(self, instruction: dis.Instruction) -> None:
        items = self._pop()
        place = -_number(instruction)
        before = self._stack[place]
        grown = self._push(f"[*{before.text}, *{items.text}]", before, items)
        self._stack.pop()
        # A list under construction is in no other place yet, so a longer one takes its.
        self._stack = [grown if value == before else value for value in self._stack]
        self._names = {name: grown if value == before else value for name, value in self._names.items()}

    def _list_to_tuple(self, _: dis.Instruction) -> None:
        items = self._pop()
        self._push(f"(*{items.text},)", items)

    def _call_intrinsic_1(self, instruction: dis.Instruction) -> None:
        if instruction.argrepr != "INTRINSIC_LIST_TO_TUPLE":
            raise MoreThanOneGraph(f"its code has {instruction.argrepr}, which is not read here")
        self._list_to_tuple(instruction)

    # Calls and the end ----------------------------------------------------------------------------------------------

    def _call(self, instruction: dis.Instruction) -> None:
        arguments = self._several(_number(instruction))
        called = self._stack.pop()
        if called.kind == "null" and self._stack:
            called = self._stack.pop()
        elif self._stack and self._stack[-1].kind == "null":
            self._stack.pop()
        if called.kind == "graph":
            if self.graph:
                raise MoreThanOneGraph("it has a graph break")
            self.graph = called.text
            self._push(f"graph({', '.join(value.text for value in arguments)})", *arguments)
        elif called.kind == "helper" and called.text in _NOTES:
            self._stack.append(_Value("None", "dropped"))
        elif called.kind == "helper":
            self.constants[called.text] = called
            self._push(f"{called.text}({', '.join(value.text for value in arguments)})", *arguments)
        else:
            raise MoreThanOneGraph(_CALLS.format("something"))

    def _call_function(self, instruction: dis.Instruction) -> None:  # of 3.10, as the next
        self._stack.insert(len(self._stack) - 1 - _number(instruction), _NULL)
        self._call(instruction)

    _call_method = _call

    def _return_value(self, _: dis.Instruction) -> None:
        self.result = self._pop().text

    def _return_const(self, instruction: dis.Instruction) -> None:
        self._load_const(instruction)
        self.result = self._pop().text


def _number(instruction: dis.Instruction) -> int:
    return instruction.arg or 0


#: The lowest bit of the argument of these says that a call follows; the newer ones are those of 3.11 and 3.12.
_HAVE_A_FLAG = {
    name
    for name, sample in (("LOAD_GLOBAL", "f()"), ("LOAD_ATTR", "a.f()"))
    for instruction in dis.get_instructions(compile(f"def g(a): {sample}", "", "exec").co_consts[0])
    if instruction.opname == name and "NULL" in instruction.argrepr
}
_NULL_IS_ABOVE = any(
    instruction.opname == "LOAD_GLOBAL" and instruction.argrepr.endswith("NULL")
    for instruction in dis.get_instructions(compile("def g(): f()", "", "exec").co_consts[0])
)


def _needed(reader: _Reader) -> list[_Line]:
    """The lines that the result and the call of the graph need; the others only read."""
    wanted = {str(reader.result)}
    kept = []
    for line in reversed(reader.lines):
        if line.target in wanted or line.text.startswith("graph("):
            wanted.update(line.reads)
            kept.append(line)
    return kept[::-1]


_CALL = re.compile(r"graph\((a\d+(?:, a\d+)*)\)")


def _plain(lines: list[_Line], result: str) -> tuple[tuple[int, ...], int] | None:
    """The places of a graph's arguments among the function's, and that of its result that is returned; None for other code."""
    call = _CALL.fullmatch(lines[0].text) if lines else None
    if call is None or len(lines) > 2:
        return None
    returned = lines[1].text if len(lines) == 2 and lines[1].target == result else result
    item = re.fullmatch(re.escape(lines[0].target) + r"\[(\d+)\]", returned)
    if item is None or (len(lines) == 2 and lines[1].target != result):
        return None
    return tuple(int(name[1:]) for name in call[1].split(", ")), int(item[1])


def read(
    code: CodeType,
    slots: tuple[str, ...],
    scope: Mapping[str, Any],
    helpers: Any,
    find: Callable[[str], Any],
    is_program: Callable[[Any], bool] = lambda graph: False,
) -> Callable[..., Any] | tuple[Any, tuple[int, ...], int]:
    """A function that does what Dynamo's code does.

    Args:
        code: The code.
        slots: Names of the arguments and then of the free variables: what the function takes, in order.
        scope: The globals of the code; they are read in each call.
        helpers: torch._dynamo.utils.
        find: What a graph's name stands for; raises `MoreThanOneGraph` where it is no program.
        is_program: Whether a graph may be called from C.

    Returns:
        The function. Where it only gives some of its arguments to a program and returns one of the results: the program, the
        places of the arguments, and that of the result, for `_call.Guarded`.

    Raises:
        MoreThanOneGraph: The code does more than that.
    """
    name = "__import_" + helpers.__name__.replace(".", "_dot_")
    reader = _Reader(code, slots, scope, name)
    if reader.result is None or not reader.graph:
        raise MoreThanOneGraph("it has no graph")
    names: dict[str, Any] = {"scope": scope, "graph": find(reader.graph)}
    for constant, value in reader.constants.items():
        owner = scope["torch"] if constant == _FLOAT_AS_TENSOR else helpers
        names[constant] = getattr(owner, constant) if isinstance(value, _Value) else value
    needed = _needed(reader)
    if is_program(names["graph"]) and (plain := _plain(needed, str(reader.result))):
        return (names["graph"], *plain)
    lines = [f"{line.target} = {line.text}" for line in needed]
    head = f"def call({', '.join(f'a{place}' for place in range(len(slots)))}):"
    exec(compile("\n    ".join([head, *lines, f"return {reader.result}"]), "<call of a graph>", "exec"), names)
    return names.pop("call")  # no circle, which only the collector would end
