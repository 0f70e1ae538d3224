# SPDX-License-Identifier: Apache-2.0
"""Rules, and what `fn.routes()` returns: which rule and which kernel each statement has, and what the other kernels said."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from straightline._printed import Printed


@dataclass(frozen=True)
class Rule:
    """`where : op = targets`, and who said so.

    Attributes:
        op: ATen's name (`linear`), an overload (`add.Tensor`), or `*`.
        targets: Backends, kernels, `auto`, `aten` or `flaggems`; the first that takes an op runs it.
        where: A module pattern (`layers.*.attn`) or source lines (`model.py:120-140`); "" is everywhere.
        by: "the argument routes", "the argument slots", a variable of the environment, or a line of a file.
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


class RouteReport(Printed):
    """The kernels of a compiled function, and why. Prints as a table.

    Attributes:
        rows: A row a statement, in order: `phase`, `op`, `source`, `kernel`, `backend`, `rule` (in words; "": no rule decides),
            `why`, and `alternatives`, the kernels of the registry that did not get the work, each with `kernel`, `us` (what it is
            estimated to take; None: it does not take the work), `said`, and `op`, by whose name a rule gives it the work.
        rules: A row a rule of the compilation: `rule` in words, its `op`, `where`, `targets` and `by`, how many `ops` of the
            captured graph it names (if none, of those that passes make), about how many it `decides` (an earlier rule decides
            about the others), the `statements` that have it, and `nearest`: what a rule that names no op may have meant.
    """

    def __init__(self, programs: Sequence[Mapping[str, Any]]) -> None:
        self.rows = [_row(statement) for facts in programs for statement in facts["statements"]]
        self.rules: list[dict[str, Any]] = []
        for facts in programs:
            for row in facts.get("routes", ()):
                self._add(row)

    def _add(self, row: Mapping[str, Any]) -> None:
        text = str(Rule.of(row))
        known = next((each for each in self.rules if each["rule"] == text), None)
        if known is not None:
            known["ops"] += row["ops"]
            known["decides"] += row["decides"]
            return
        # Calls of torch and launches of FlagGems say the rule in their reason: capture has honoured it.
        calls = [
            each
            for each in self.rows
            if text in each["why"] and (each["backend"] == "aten" or f"{text}: FlagGems" in each["why"])
        ]
        for call in calls:
            call["rule"] = text
        statements = [each for each in self.rows if each["rule"] == text]
        # An op that a pass makes (attention from products and a softmax) is not among those captured.
        more = len(calls) if row["ops"] or calls else len(statements)
        counts = {name: row[name] + more for name in ("ops", "decides")}
        self.rules.append({"rule": text, **row, **counts, "statements": statements})

    def json(self) -> str:
        """`rows` and `rules` as a JSON object."""
        rules = [{**row, "statements": len(row["statements"])} for row in self.rules]
        return json.dumps({"rows": self.rows, "rules": rules}, indent=1)

    def __rich__(self) -> Any:
        from rich.table import Table

        table = Table(title="\n".join(self._rule_lines()) or "no rules: the estimates decide about every op")
        for column in ("phase", "op", "source", "kernel", "backend", "rule", "alternatives"):
            table.add_column(column, overflow="fold")
        for row in self.rows:
            others = "\n".join(f"{other['kernel']}: {other['said']}" for other in row["alternatives"])
            cells = [row[name] for name in ("phase", "op", "source", "kernel", "backend", "rule")]
            table.add_row(*cells, others)
        return table

    def _rule_lines(self) -> list[str]:
        return [
            f"{row['rule']}: names {row['ops']} op{'s' if row['ops'] != 1 else ''}, decides about {row['decides']}"
            for row in self.rules
        ]


def _row(statement: Mapping[str, Any]) -> dict[str, Any]:
    names = ("phase", "op", "source", "kernel", "backend", "why")
    # Programs that were saved before there were these fields have neither.
    more = {"rule": statement.get("rule", ""), "alternatives": list(statement.get("alternatives", ()))}
    return {**{name: statement[name] for name in names}, **more}
