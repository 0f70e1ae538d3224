# SPDX-License-Identifier: Apache-2.0
"""What `explain()` returns: the facts as data, and a table for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from straightline._printed import Printed

#: A named size with a largest value from here on has none that anybody chose.
_NO_LIMIT = 10**8


def _unlimited(facts: Mapping[str, Any]) -> list[str]:
    return [row["name"] for row in facts["named_sizes"] if not row["depends_on_data"] and row["max"] >= _NO_LIMIT]


def estimate_text(facts: Mapping[str, Any]) -> str:
    """What a call is estimated to take, behind a comma; nothing where named sizes have no limit: nobody means the largest."""
    return "" if _unlimited(facts) else f", about {facts.get('estimated_us', 0.0):.3g} us a call"


def arena_text(facts: Mapping[str, Any]) -> str:
    """What a program's arena takes: in a program of named sizes the bytes are those of the largest ones."""
    named, unlimited = facts["named_sizes"], _unlimited(facts)
    if unlimited and facts["arena_bytes"] >= _NO_LIMIT:
        return f"arena that grows with {', '.join(unlimited)}"
    return f"arena {facts['arena_bytes']:,} bytes" + (" at the largest sizes" if named else "")


class Explanation(Printed, Mapping[str, Any]):
    """Facts about a compiled program; by name, those of the first one.

    Attributes:
        programs: The facts of each program; there are several when it was compiled for several examples, or
            has programs for single sizes (`specialize`).
        facts: Those of the first, as JSON-like data: `example`, `target`, `threads`, `arena_bytes`, `prepared_bytes`,
            `parameter_bytes`, `estimated_us`, `routes` (the rules that hold), `path` ("straight line", "python" or
            "interpreter": what a call where `explain` was called takes), `path_reason`, `launch` ("stream" or "graph" on a CUDA
            device, else None), `launch_reason` and `statements`, each with `phase`, `op`, `source`, `kernel`, `backend`, `why`,
            `bytes`, `rule` and `alternatives` (as `fn.routes()` has them), and where a graph runs branches concurrently
            `branch`: statements of one number run in order.
            `captured_again` of a library's kernel on a CUDA device: inputs and results whose addresses it gets, so that a graph
            captures it again where one of them is new. Of our kernels there: `blocks` and `block_threads` of a launch
            (`more_blocks`: in y and z, of a user's kernel whose grid has them), and what the machine code says, `registers` and
            `stack_bytes` of a thread and `shared_bytes` of a block; `parts` of a launch that several kernels share, each with
            `kernel`, `family` and `blocks` (`family` of the launch is the first one's).
    """

    def __init__(self, facts: dict[str, Any], more: Sequence[dict[str, Any]] = ()) -> None:
        self.facts = facts
        self.programs = (facts, *more)

    def __getitem__(self, key: str) -> Any:
        return self.facts[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.facts)

    def __len__(self) -> int:
        return len(self.facts)

    @property
    def statements(self) -> list[dict[str, Any]]:
        """One entry a statement, in order, of all programs."""
        return [row for facts in self.programs for row in facts["statements"]]

    def __rich__(self) -> Any:
        from rich.console import Group

        return Group(*map(self._table, self.programs))

    def _table(self, facts: dict[str, Any]) -> Any:
        from rich.table import Table

        title = (
            f"{facts['name']} for {facts['target']}: {facts['threads']} thread(s), "
            f"{arena_text(facts)}, prepared {facts['prepared_bytes']:,} bytes; "
            f"path: {facts['path']} ({facts['path_reason']})"
        )
        if facts.get("launch"):
            title += f"; launch: {facts['launch']} ({facts['launch_reason']})"
        if len(self.programs) > 1:
            title += f"; {facts['example']}"
        table = Table(title=title)
        has_branches = any("branch" in row for row in facts["statements"])
        is_launched = any("blocks" in row for row in facts["statements"])
        more = (["branch"] if has_branches else [], ["grid", "registers"] if is_launched else [])
        for column in ("phase", *more[0], "op", "source", "kernel", "backend", *more[1], "bytes", "why"):
            table.add_column(
                column, justify="right" if column in ("bytes", "branch", "registers") else "left", overflow="fold"
            )
        is_graph = facts.get("launch") == "graph"
        for row in facts["statements"]:
            again = row.get("captured_again", []) if is_graph else []
            why = row["why"] + (f"; captured again where {' or '.join(again)} is elsewhere" if again else "")
            branch = [str(row.get("branch", ""))] if has_branches else []
            blocks = (
                f"({', '.join(map(str, [row['blocks'], *row['more_blocks']]))})"
                if "more_blocks" in row
                else row.get("blocks")
            )
            grid = f"{blocks} x {row['block_threads']}" if "blocks" in row else ""
            launched = [grid, str(row.get("registers", ""))] if is_launched else []
            table.add_row(
                row["phase"],
                *branch,
                row["op"],
                row["source"],
                row["kernel"],
                row["backend"],
                *launched,
                f"{row['bytes']:,}",
                why,
            )
        return table
