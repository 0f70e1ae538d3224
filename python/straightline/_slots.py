# SPDX-License-Identifier: Apache-2.0
"""`slots=`: a function compiled with several kernels for an op, and `sl.slot`, which chooses among them without compiling."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from types import MappingProxyType, TracebackType
from typing import Any

from straightline import _call
from straightline.errors import UserError

#: Programs that one function may have by its slots.
MOST_PROGRAMS = 16

#: A target for each op that has a slot.
Choice = Mapping[str, str]


def slot(**targets: str) -> AbstractContextManager[None]:
    """Chooses kernels for calls of this thread, of functions that were compiled with `slots=`.

    Nested choices add up; for one op the innermost counts. A function takes of a choice what it has slots for, and its first
    target where nothing is chosen.

    Args:
        targets: By the op of a slot, one of the targets that it was compiled with; `.` of an overload is written `__`.

    Raises:
        UserError: A target is no text. A call raises it where its function has the slot, but not with this target.
    """
    for op, target in targets.items():
        if not isinstance(target, str):
            raise UserError(f"slot {op} is {target!r} but must be a target such as 'native'")
    return _Chosen({op.replace("__", "."): target for op, target in targets.items()})


class _Chosen:
    def __init__(self, targets: dict[str, str]) -> None:
        self._targets = MappingProxyType(targets)
        self._before: list[Choice | None] = []

    def __enter__(self) -> None:
        before = _call.choose_slots(self._targets)
        self._before.append(before)
        if before is not None:
            _call.choose_slots(MappingProxyType({**before, **self._targets}))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _call.choose_slots(self._before.pop())


def chosen() -> Choice:
    """What `slot` chooses for calls of this thread."""
    choice = _call.choose_slots(None)
    _call.choose_slots(choice)
    return choice or {}


def checked(slots: Any) -> dict[str, tuple[str, ...]]:
    """The option as a dict of tuples.

    Raises:
        UserError: A slot has fewer than two targets, one of them twice, or one that no program can have.
    """
    given = {op: (targets,) if isinstance(targets, str) else tuple(targets) for op, targets in slots.items()}
    for op, targets in given.items():
        if len(targets) < 2 or len(set(targets)) != len(targets):
            raise UserError(f"slot {op!r} is {list(targets)} but must have two targets or more, each once")
        if taken := next((target for target in targets if target in ("aten", "flaggems")), None):
            what = "what stays torch's" if taken == "aten" else "what FlagGems does"
            raise UserError(
                f"slot {op!r} has '{taken}': {what} is decided when the model is captured, which a slot does not "
                f"do again; nearest form: two functions, one with routes={{...: '{taken}'}}"
            )
    count = len(list(itertools.product(*given.values())))
    if count > MOST_PROGRAMS:
        raise UserError(
            f"slots make {count} programs but at most {MOST_PROGRAMS} are compiled: one for each combination"
        )
    return given


class Sharing:
    """Programs for one example, of all choices, over one set of prepared data: what has the same packing is packed once.

    They are compiled one after the other, each with what those before it prepare (passes/share_prepared.cpp).
    """

    def __init__(self) -> None:
        #: Capsules of the programs in the order of `choices`, all of them before the first set of weights is made.
        self.programs: list[Any] = []
        self._rows: list[str] = []

    def options(self) -> dict[str, Any]:
        """Options of `_compiler.compile` for the next program."""
        return {"shares_prepared": True, "prepared": tuple(self._rows)}

    def add(self, compilation: Any) -> None:
        """A program that was compiled with `options`."""
        self.programs.append(compilation.program)
        self._rows += [row for row in json.loads(compilation.explain_json).get("prepared", ()) if row not in self._rows]

    def argument(self, copies: dict[int, Any]) -> tuple[Any, list[Any]]:
        """The argument `shared` of `_call.weights`; `copies` holds the last set that was made."""
        return copies[id(self)][1] if id(self) in copies else None, self.programs

    def keep(self, copies: dict[int, Any], weights: Any) -> None:
        """Tells the sets of the next programs of one that was made."""
        copies[id(self)] = (self, weights)


def sharing_for(slots: Mapping[str, Any], freeze: bool, count: int) -> list[Sharing | None]:
    """One for each of `count` examples; None where there is nothing to share: no slots, or no prepared data that stays."""
    return [Sharing() if slots and freeze else None for _ in range(count)]


def choices(slots: Mapping[str, Sequence[str]]) -> list[Choice]:
    """Every combination of targets, the first targets first; one without a target where there are no slots."""
    return [dict(zip(slots, targets, strict=True)) for targets in itertools.product(*slots.values())]


def request_for(request: Mapping[str, Any], choice: Choice) -> dict[str, Any]:
    """Options of a compilation with the rules of a choice behind those that they have."""
    if not choice:
        return dict(request)
    return {**request, "routes": (*request.get("routes", ()), *choice.items()), "slot_rules": len(choice)}


def joined(heads: Sequence[Any], slots: Mapping[str, Sequence[str]], *, named: bool = False) -> Any:
    """The first of some functions, one for each choice, which hands calls to the one that `slot` chooses.

    `named`: the texts of their examples name the choices already.
    """
    first, *others = heads
    if not slots:
        return first
    for head, choice in () if named else zip(heads, choices(slots), strict=True):
        words = ", ".join(f"{op} = {target}" for op, target in choice.items())
        for program in head._all:
            program._binding = replace(program._binding, example=f"{program._binding.example} with {words}")
    first._slots, first._slotted = MappingProxyType(dict(slots)), tuple(others)
    if first._callable:
        _call.slots(first, first._slotted, place_of(slots))
    return first


def place_of(slots: Mapping[str, Sequence[str]]) -> Callable[[Choice], int]:
    """What finds the number of the program that a choice means."""
    numbers = {tuple(choice.values()): number for number, choice in enumerate(choices(slots))}

    def place(choice: Choice) -> int:
        wanted = []
        for op, targets in slots.items():
            target = choice.get(op, targets[0])
            if target not in targets:
                raise UserError(
                    f"slot {op} is chosen as {target!r}, but the function was compiled with {', '.join(targets)}"
                )
            wanted.append(target)
        return numbers[tuple(wanted)]

    return place
