# SPDX-License-Identifier: Apache-2.0
"""How the kernels of a program for a CUDA device get there: one by one, or all of a call at once."""

from __future__ import annotations

from typing import Any

from straightline import _call
from straightline.errors import UnsupportedError


def chosen(launch: str | None, place: str, program: _call.ProgramCapsule) -> tuple[str | None, str]:
    """The way of a compiled program, and why; None on the cpu, where nothing is launched.

    Raises:
        UnsupportedError: A graph was asked for and something in the program cannot be part of one.
    """
    if place == "cpu":
        return None, ""
    nodes, reason = _call.graph_nodes(program)
    if launch == "graph" and nodes < 0:
        raise UnsupportedError(f"launch is 'graph' but {reason}")
    if launch is not None:
        return launch, f"launch={launch!r}"
    if nodes < 0:
        return "stream", f"no graph: {reason}"
    if nodes == 0:
        return "stream", "nothing to launch"
    return "graph", f"{nodes} node{'s' if nodes > 1 else ''} in one launch, which takes less time than a kernel's"


def facts(way: tuple[str | None, str]) -> dict[str, Any]:
    """What `explain` says of it."""
    return {"launch": way[0], "launch_reason": way[1]}
