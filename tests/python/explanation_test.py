# SPDX-License-Identifier: Apache-2.0
"""The line above a program's statements."""

from __future__ import annotations

from typing import Any

import pytest
from straightline.explanation import arena_text, estimate_text


def _facts(arena: int, *largest: int, data: bool = False) -> dict[str, Any]:
    rows = [{"name": f"n{i}", "max": value, "depends_on_data": data} for i, value in enumerate(largest)]
    return {"arena_bytes": arena, "named_sizes": rows, "estimated_us": 2.5}


@pytest.mark.parametrize(
    ("facts", "arena", "estimate"),
    [
        (_facts(16384), "arena 16,384 bytes", ", about 2.5 us a call"),
        (_facts(16384, 64), "arena 16,384 bytes at the largest sizes", ", about 2.5 us a call"),
        (_facts(549755813632, 2**31 - 1, 64), "arena that grows with n0", ""),
        (_facts(64, 2**31 - 1), "arena 64 bytes at the largest sizes", ""),
        (_facts(1 << 40, 2**31 - 1, data=True), "arena 1,099,511,627,776 bytes at the largest sizes", ", about 2.5 us a call"),
    ],
)  # fmt: skip
def test_memory_and_time_of_named_sizes(facts: dict[str, Any], arena: str, estimate: str) -> None:
    assert (arena_text(facts), estimate_text(facts)) == (arena, estimate)
