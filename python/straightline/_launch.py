# SPDX-License-Identifier: Apache-2.0
"""How a program for a CUDA device launches its kernels: one by one, or all kernels of a call as one graph."""

from __future__ import annotations

from typing import Any

from straightline import _call
from straightline.errors import UnsupportedError

#: A launch of a graph takes the host as long as that of two or three kernels.
_FEWEST_NODES = 3


def chosen(launch: str | None, place: str, program: _call.ProgramCapsule) -> tuple[str | None, str]:
    """How a compiled program launches its kernels ("stream" or "graph"), and why; None on the cpu, where nothing is launched.

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
    parts = _call.graph_parts(program)
    if parts > 1:
        between = f"{parts - 1} op{'s' if parts > 2 else ''} of torch or functions that are called in each run"
        if nodes < _FEWEST_NODES * parts:
            return "stream", f"{nodes} nodes before, between and behind {between}: too few for graphs of their own"
        return "graph", f"{nodes} nodes in at most {parts} launches, before, between and behind {between}"
    return "graph", f"{nodes} node{'s' if nodes > 1 else ''} in one launch, which takes less time than a kernel's"


def facts(launch: tuple[str | None, str]) -> dict[str, Any]:
    """Returns the fields of `explain` for `launch`, which `chosen` returned."""
    return {"launch": launch[0], "launch_reason": launch[1]}
