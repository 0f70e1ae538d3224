# SPDX-License-Identifier: Apache-2.0
"""What `explain()` says of the statements of a call."""

from __future__ import annotations

from typing import Any


def launches_of(function: Any) -> list[dict[str, Any]]:
    """Those of `run`: one each call, in order."""
    return [row for row in function.explain().statements if row["phase"] == "run"]
