# SPDX-License-Identifier: Apache-2.0
"""`straightline route suggest`: times the kernels that take each op, and writes rules for those that win.

An op has the kernel of the estimates until another one is at least `LEAST_GAIN` faster. Each kernel that the registry would take
is compiled into a program by a rule, and statements are timed by `fn.profile` in turns with those of the program without rules,
so that what else the machine does hits both. At the end the program with all rules is timed against that without any, and where
it is slower the rules with the least gain are left out again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from straightline.errors import StraightlineError

#: What a kernel must save of a statement's time.
LEAST_GAIN = 0.05
#: By how much the program with all rules may be slower than that without any, before rules are left out.
_NOISE = 0.01

Compiled = Callable[[list[Any]], Any]
Arguments = Callable[[Any], tuple[Sequence[Any], Mapping[str, Any]]]


@dataclass
class _Group:
    """Statements of one problem: the same op with the same operands, at several places."""

    op: str
    kernel: str
    #: Where the statements are; the op is at the first of a statement's places, or at the last where it is behind others.
    sources: list[str]
    leads: bool
    alternatives: dict[str, float]
    #: The least microseconds seen of all of its statements together, by kernel.
    times: dict[str, float] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def rules(self, kernel: str) -> dict[str, str]:
        """The rules that give these statements to a kernel."""
        return {f"{_place(source, self.leads)} : {self.op}": kernel for source in self.sources}

    @property
    def winner(self) -> str | None:
        """The kernel that saves at least `LEAST_GAIN`; None: there is none."""
        best = min(self.times, key=self.times.__getitem__)
        return best if self.times[best] <= self.times[self.kernel] * (1 - LEAST_GAIN) else None

    @property
    def saved_us(self) -> float:
        """What the winner saves."""
        return self.times[self.kernel] - min(self.times.values())


def suggest(compiled: Compiled, arguments: Arguments, *, rounds: int = 5, runs: int = 20) -> str:
    """The text of a file of rules for a model.

    Args:
        compiled: Compiles the model with rules (what `routes=` takes).
        arguments: Positional and named arguments of a call, for a function that `compiled` gave.
        rounds: How often each program has its turn.
        runs: Calls in each turn.

    Returns:
        Rules, each with the times of the kernels as a comment; the rule "* = auto" where nothing wins.
    """
    plain = compiled([])
    groups = _groups(plain.routes().rows)
    for group in groups:
        _time(group, plain, compiled, arguments, rounds, runs)
    winners = sorted((group for group in groups if group.winner), key=lambda group: -group.saved_us)
    winners, whole = _kept(winners, plain, compiled, arguments, rounds, runs)
    return _text(groups, winners, whole)


def _place(source: str, leads: bool) -> str:
    """Where an op is, as a rule names it: its module, or its line."""
    place = source.split(", ")[0 if leads else -1]
    return place.partition(" (")[0]


def _groups(rows: Sequence[Mapping[str, Any]]) -> list[_Group]:
    groups: dict[tuple[Any, ...], _Group] = {}
    for row in rows:
        if row["phase"] != "run" or not row["source"]:
            continue
        for op in dict.fromkeys(other["op"] for other in row["alternatives"]):
            others = {o["kernel"]: o["us"] for o in row["alternatives"] if o["us"] is not None and o["op"] == op}
            chosen = row["why"].split(":")[0]
            if others:
                key = (op, row["kernel"], chosen, tuple(sorted(others.items())))
                leads = row["op"].split(", ")[0] == op
                groups.setdefault(key, _Group(op, chosen, [], leads, others)).sources.append(row["source"])
    return list(groups.values())


def _statement_us(function: Any, group: _Group, arguments: Arguments, runs: int) -> float:
    """The least time of all statements at the group's places, together: another kernel may leave ops to its neighbours."""
    positional, named = arguments(function)
    rows = function.profile(*positional, runs=runs, **named).rows
    places = {place for source in group.sources for place in source.split(", ")}
    return sum(row.least_us for row in rows if places & set(row.source.split(", ")))


def _time(group: _Group, plain: Any, compiled: Compiled, arguments: Arguments, rounds: int, runs: int) -> None:
    programs = {group.kernel: plain}
    for kernel in group.alternatives:
        try:
            programs[kernel] = compiled([group.rules(kernel)])
        except StraightlineError as error:
            group.refused[kernel] = str(error).splitlines()[0]
    seen: dict[str, list[float]] = {kernel: [] for kernel in programs}
    for _ in range(rounds):
        for kernel, function in programs.items():
            seen[kernel].append(_statement_us(function, group, arguments, runs))
    group.times = {kernel: min(times) for kernel, times in seen.items()}


def _whole_us(functions: Sequence[Any], arguments: Arguments, rounds: int, runs: int) -> list[float]:
    """The least time of a call of each function, in turns."""
    least = [float("inf")] * len(functions)
    bound = [arguments(function) for function in functions]
    for _ in range(rounds):
        for number, (function, (positional, named)) in enumerate(zip(functions, bound, strict=True)):
            for _ in range(runs):
                begin = time.perf_counter()
                function(*positional, **named)
                least[number] = min(least[number], (time.perf_counter() - begin) * 1e6)
    return least


def _kept(
    winners: list[_Group], plain: Any, compiled: Compiled, arguments: Arguments, rounds: int, runs: int
) -> tuple[list[_Group], tuple[float, float] | None]:
    """The winners without those that make the whole program slower, and what a call takes without and with them."""
    while winners:
        rules = [group.rules(group.winner or group.kernel) for group in winners]
        without, with_them = _whole_us([plain, compiled(rules)], arguments, rounds, runs)
        if with_them <= without * (1 + _NOISE):
            return winners, (without, with_them)
        winners = winners[:-1]
    return [], None


def _text(groups: Sequence[_Group], winners: Sequence[_Group], whole: tuple[float, float] | None) -> str:
    timed = sum(len(group.times) for group in groups)
    lines = [
        f"# Rules by `straightline route suggest`: {len(groups)} problems, {timed} kernels timed. A rule is here where its",
        f"# kernel takes at least {LEAST_GAIN:.0%} less than the one of the estimates, by the least of several runs.",
    ]
    if whole is not None:
        lines.append(f"# A call takes {whole[0]:.2f} us without these rules and {whole[1]:.2f} us with them.")
    for group in winners:
        kernel = group.winner or group.kernel
        times = ", ".join(f"{name} {us:.2f} us" for name, us in sorted(group.times.items(), key=lambda item: item[1]))
        lines += ["", f"# {group.op}: {times}"]
        lines += [f"{left} = {right}" for left, right in group.rules(kernel).items()]
    for group in groups:
        lines += [f"# {group.op}: {kernel} is not there: {why}" for kernel, why in group.refused.items()]
    if not winners:  # a file without a rule is an error where it is used
        lines += ["", "# No kernel wins: the estimates decide.", "* = auto"]
    return "\n".join(lines) + "\n"
