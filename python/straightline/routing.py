# SPDX-License-Identifier: Apache-2.0
"""Rules that say which kernels do which ops: `sl.routes()`, `sl.backends()`, and what capture and warnings need of them."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from straightline import _compiler, _flaggems, backend_plugins
from straightline._frameworks import imported_torch
from straightline._printed import Printed
from straightline.capture.builder import Location
from straightline.errors import RouteWarning, UserError
from straightline.options import CompileOptions, Routes
from straightline.route_report import Rule

#: The backend of torch's ops, to which rules are honoured while a model is captured.
_FRAMEWORK = "aten"
_VARIABLES = ("STRAIGHTLINE_ROUTE_", "STRAIGHTLINE_ROUTES")
#: Targets that capture decides about.
_CAPTURED = (_FRAMEWORK, _flaggems.NAME)
#: Ops of ATen whose result may be their argument itself, and that compute where it is not.
_CONVERSIONS = ("to", "contiguous")
#: How the origin of a rule begins that a plug-in brings.
_DEFAULT_RULES = "default rules of "


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


@dataclass(frozen=True)
class BackendInfo:
    """A backend: kernels that programs may call, or that are emitted for them.

    Attributes:
        name: As rules and `allow` name it.
        version: Of the library that it calls; "" where it calls none that says so.
        file: Of a plug-in; "" for what comes with Straightline.
        runs_on: "cpu", or the backend on whose device its kernels run.
        emitted: Whether its kernels are emitted into the program's text.
        missing: Why none of its kernels can run here; "" where they can.
        kernels: Names of kernels by the op whose problems they take ("attention" is that of
            `scaled_dot_product_attention`). Ops that are not listed are computed by emitted kernels all the same.
        default_routes: Rules that it brings, below all of the user's.
    """

    name: str
    version: str
    file: str
    runs_on: str
    emitted: bool
    missing: str
    kernels: Mapping[str, tuple[str, ...]]
    default_routes: str

    @property
    def facts(self) -> dict[str, Any]:
        """The same as JSON-like data."""
        return {**vars(self), "kernels": {op: list(names) for op, names in self.kernels.items()}}


class Backends(Printed, tuple[BackendInfo, ...]):
    """Backends in the order in which kernels are asked. Prints as a table."""

    def json(self) -> str:
        """A JSON array of the facts of each."""
        return json.dumps([each.facts for each in self], indent=1)

    def __getitem__(self, key: Any) -> Any:
        """A backend by its number, or by its name."""
        if not isinstance(key, str):
            return super().__getitem__(key)
        found = next((each for each in self if each.name == key), None)
        if found is None:
            raise UserError(f"there is no backend {key!r}; there are {', '.join(each.name for each in self)}")
        return found

    def __rich__(self) -> Any:
        from rich.table import Table

        table = Table(title="backends")
        for column in ("name", "runs on", "version", "file", "kernels by op", "missing"):
            table.add_column(column, overflow="fold")
        for each in self:
            ops = "\n".join(f"{op}: {', '.join(names)}" for op, names in each.kernels.items())
            table.add_row(each.name, each.runs_on, each.version, each.file, ops, each.missing)
        return table


def backends() -> Backends:
    """The backends of this process: those that come with Straightline and all plug-ins that are found, which are opened.

    Raises:
        UserError: A plug-in cannot be opened.
    """
    backend_plugins.open_all()
    rows = json.loads(_compiler.backends_json(probe=True))
    return Backends(_backend(row) for row in rows)


def _backend(row: Mapping[str, Any]) -> BackendInfo:
    kernels: dict[str, tuple[str, ...]] = {}
    for kernel in row["kernels"]:
        kernels[kernel["op"]] = (*kernels.get(kernel["op"], ()), kernel["name"])
    runs_on = row["runs_on"] or (row["name"] if row["space"] else "cpu")
    names = ("name", "version", "file", "missing", "default_routes")
    return BackendInfo(**{name: row[name] for name in names}, runs_on=runs_on, emitted=row["emits"], kernels=kernels)


def _table(request: Mapping[str, Any]) -> _compiler.RouteTable:
    backend_plugins.open_all()
    return _compiler.RouteTable(**request)


def _rules(table: _compiler.RouteTable) -> list[Rule]:
    return [Rule.of(row) for row in json.loads(table.rules())]


class FrameworkRoutes:
    """Which ops of a graph that is being captured stay the framework's, or are FlagGems'."""

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

    def flaggems(self, names: Sequence[str], place: Location) -> Rule | None:
        """The rule that gives an op with one of these names to FlagGems, at a place; None: none does."""
        numbers = [self._table.find(name, place.overload, place.module, place.file, place.line) for name in names]
        found = min((number for number in numbers if number >= 0), default=-1)
        if found < 0 or self._rules[found].targets[0] != _flaggems.NAME:
            return None
        self.used.add(self._rules[found])
        return self._rules[found]

    @property
    def asked(self) -> _flaggems.Asked | None:
        """`flaggems`, where a rule names it."""
        return self.flaggems if any(rule.targets[0] == _flaggems.NAME for rule in self._rules) else None


def framework_routes(request: Mapping[str, Any]) -> FrameworkRoutes | None:
    """Those of the options of a compilation, of the environment and of plug-ins; None: capture decides about no op."""
    if not _has_rules(request):
        return None
    table = _table(request)
    rules = _rules(table)
    return FrameworkRoutes(table, rules) if any(rule.targets[0] in _CAPTURED for rule in rules) else None


def gives_to_host(request: Mapping[str, Any]) -> bool:
    """Whether a rule gives ops of a device's program to the host (target `cpu`)."""
    return _has_rules(request) and any("cpu" in rule.targets for rule in _rules(_table(request)))


def _has_rules(request: Mapping[str, Any]) -> bool:
    if request.get("routes") or any(name.startswith(_VARIABLES) for name in os.environ):
        return True
    return any(row["default_routes"] for row in json.loads(_compiler.backends_json(probe=False)))


def warn_unmatched(explained: Iterable[Mapping[str, Any]], used: Iterable[Rule] = ()) -> None:
    """Warns of each rule that names no op of any of some programs.

    Args:
        explained: The facts of each program.
        used: Rules that were honoured while capturing.
    """
    told = list(explained)
    programs = [{Rule.of(row): row for row in facts.get("routes", ())} for facts in told]
    # An op that a pass makes (attention from products and a softmax) is not among those captured.
    followed = {statement.get("rule", "") for facts in told for statement in facts.get("statements", ())}
    for rule in programs[0] if programs else ():
        if rule in set(used) or str(rule) in followed or any(rows[rule]["ops"] for rows in programs if rule in rows):
            continue
        if rule.by.startswith(_DEFAULT_RULES):
            continue  # of a plug-in: it knows no models
        what = f"no op of the model at '{rule.where}'" if rule.where else "no op of the model"
        said = meant(rule.op, programs[0][rule]["nearest"])
        warnings.warn(f"route {rule} names {what}{said}", RouteWarning, stacklevel=_callers_level())


def meant(op: str, nearest: str) -> str:
    """What follows the words "names no op" about a rule for `op`: that it is a view, or what the rule may have meant."""
    if _is_view(op):
        return f": {op} is a view or a reshape, and these are never routed"
    return f"; the nearest that is there is '{nearest}'" if nearest else ""


def _is_view(overload: str) -> bool:
    """Whether an overload of ATen's gives views of what it gets, by its schema."""
    torch = imported_torch()
    base, _, name = overload.partition(".")
    found = getattr(getattr(torch.ops.aten, base, None), name, None) if torch is not None and name else None
    if found is None or base in _CONVERSIONS:
        return False
    infos = [one.alias_info for one in found._schema.returns]
    return bool(infos) and all(info is not None and not info.is_write for info in infos)


def _callers_level() -> int:
    """The `stacklevel` of the first frame outside of this package."""
    import sys

    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith("straightline"):
        frame, level = frame.f_back, level + 1
    return level
