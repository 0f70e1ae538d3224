# SPDX-License-Identifier: Apache-2.0
"""What `explain()` says of the statements of a call."""

from __future__ import annotations

from typing import Any


def launches_of(function: Any) -> list[dict[str, Any]]:
    """Those of `run`: one each call, in order."""
    return [row for row in function.explain().statements if row["phase"] == "run"]


def kernels_of(row: dict[str, Any]) -> int:
    """How many kernels a launch holds: on a device small ones that do not need each other are one launch."""
    return len(row.get("parts", ())) or 1


def families_of(rows: list[dict[str, Any]]) -> list[str]:
    """The family of each kernel, whichever are launched together."""
    return [part["family"] for row in rows for part in row.get("parts", [row])]
