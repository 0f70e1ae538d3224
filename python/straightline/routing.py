# SPDX-License-Identifier: Apache-2.0
"""Rules that say which kernels do which ops: `sl.routes()`, `sl.backends()`, and what capture and warnings need of them."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from straightline import _compiler, backend_plugins
from straightline.capture.builder import Location
from straightline.errors import RouteWarning
from straightline.options import CompileOptions, Routes

#: The backend of torch's ops, to which rules are honoured while a model is captured.
_FRAMEWORK = "aten"
_VARIABLES = ("STRAIGHTLINE_ROUTE_", "STRAIGHTLINE_ROUTES")


@dataclass(frozen=True)
class Rule:
    """`where : op = targets`, and who said so.

    Attributes:
        op: ATen's name (`linear`), an overload (`add.Tensor`), or `*`.
        targets: Backends, kernels, `auto` or `aten`; the first that takes an op runs it.
        where: A module pattern (`layers.*.attn`) or source lines (`model.py:120-140`); "" is everywhere.
        by: "the argument routes", a variable of the environment, or a line of a file.
    """

    op: str
    targets: tuple[str, ...]
    where: str
    by: str

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Rule:
        """The rule of a row that the compiler gives."""
        return cls(row["op"], tuple(row["targets"]), row["where"], row["by"])

    def __str__(self) -> str:
        place = f"{self.where} : " if self.where else ""
        return f"{place}{self.op} = {', '.join(self.targets)} ({self.by})"

    @property
    def facts(self) -> dict[str, Any]:
        """The rule as JSON-like data."""
        return {"where": self.where, "op": self.op, "targets": list(self.targets), "by": self.by}


class Rules(tuple[Rule, ...]):
    """Rules, those first that count first. Prints one a line."""

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "no rules: the estimates decide about every op"

    __repr__ = __str__

    def json(self) -> str:
        """The rules as a JSON array of objects with `where`, `op`, `targets` and `by`."""
        return json.dumps([rule.facts for rule in self], indent=1)


def routes(routes: Routes | None = None) -> Rules:
    """The rules that a compilation would follow: those of `routes`, then of the environment.

    Args:
        routes: As the option of that name.

    Raises:
        UserError: A rule cannot be read, or names nothing that exists.
    """
    return Rules(_rules(_table({} if routes is None else {"routes": CompileOptions(routes=routes).rules()})))


def _table(request: Mapping[str, Any]) -> _compiler.RouteTable:
    backend_plugins.open_all()
    return _compiler.RouteTable(**request)


def _rules(table: _compiler.RouteTable) -> list[Rule]:
    return [Rule.of(row) for row in json.loads(table.rules())]


class FrameworkRoutes:
    """Which ops of a graph that is being captured stay the framework's."""

    def __init__(self, table: _compiler.RouteTable, rules: Sequence[Rule]) -> None:
        self._table, self._rules = table, rules
        #: Rules that kept an op.
        self.used: set[Rule] = set()

    def __call__(self, op: str, place: Location) -> str | None:
        """The rule that keeps an op `op` at a place, in words; None: none does."""
        found = self._table.find(op, place.overload, place.module, place.file, place.line)
        if found < 0 or self._rules[found].targets[0] != _FRAMEWORK:
            return None
        self.used.add(self._rules[found])
        return str(self._rules[found])


def framework_routes(request: Mapping[str, Any]) -> FrameworkRoutes | None:
    """Those of the options of a compilation and of the environment; None: no rule keeps an op."""
    if not request.get("routes") and not any(name.startswith(_VARIABLES) for name in os.environ):
        return None
    table = _table(request)
    rules = _rules(table)
    return FrameworkRoutes(table, rules) if any(rule.targets[0] == _FRAMEWORK for rule in rules) else None


def warn_unmatched(explained: Iterable[Mapping[str, Any]], used: Iterable[Rule] = ()) -> None:
    """Warns of each rule that names no op of any of some programs.

    Args:
        explained: The facts of each program.
        used: Rules that were honoured while capturing.
    """
    programs = [{Rule.of(row): row for row in facts.get("routes", ())} for facts in explained]
    for rule in programs[0] if programs else ():
        if rule in set(used) or any(rows[rule]["ops"] for rows in programs if rule in rows):
            continue
        near = programs[0][rule]["nearest"]
        said = f"; the nearest that is there is '{near}'" if near else ""
        what = f"no op of the model at '{rule.where}'" if rule.where else "no op of the model"
        warnings.warn(f"route {rule} names {what}{said}", RouteWarning, stacklevel=_callers_level())


def _callers_level() -> int:
    """The `stacklevel` of the first frame outside of this package."""
    import sys

    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith("straightline"):
        frame, level = frame.f_back, level + 1
    return level
