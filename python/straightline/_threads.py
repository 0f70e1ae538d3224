# SPDX-License-Identifier: Apache-2.0
"""How many threads a program is planned for: the argument of `compile`, the environment, torch, or the machine."""

from __future__ import annotations

import os

from straightline._frameworks import imported_torch
from straightline.errors import UserError

_VARIABLE = "STRAIGHTLINE_THREADS"
#: Largest team of the runtime.
LARGEST_TEAM = 256
#: Below this many microseconds a second thread costs more than it brings: its start and end take about 0.5.
_WORTH_A_TEAM_US = 10.0


def plan(threads: int | None) -> dict[str, int | float]:
    """Returns the compiler's options for a team of `threads`, or for a team only if the program is estimated to be worth one.

    Args:
        threads: The option, which is valid.

    Raises:
        UserError: Without one the environment variable is no number of threads.
    """
    if threads is not None:
        return {"threads": threads}
    return {"threads": 1, "team": _team(), "team_from_us": _WORTH_A_TEAM_US}


def _team() -> int:
    value = os.environ.get(_VARIABLE, "")
    if value:
        if not (value.isascii() and value.isdecimal() and 1 <= int(value) <= LARGEST_TEAM):
            raise UserError(f"{_VARIABLE} is {value!r} but must be a whole number from 1 to {LARGEST_TEAM}")
        return int(value)
    torch, cores = imported_torch(), len(os.sched_getaffinity(0))
    return min(cores if torch is None else min(torch.get_num_threads(), cores), LARGEST_TEAM)
