# SPDX-License-Identifier: Apache-2.0
"""The command line: a module a command, each with `HELP`, `add(parser)` and `run(parsed)`, which returns the exit status."""

from __future__ import annotations

from straightline.errors import InternalError, StraightlineError, UnsupportedError

#: Exit statuses. 2 is argparse's: the command line itself is wrong.
OK, USER_ERROR, UNSUPPORTED, INTERNAL_ERROR, DIFFERENT = 0, 1, 3, 4, 5


def status_of(error: StraightlineError) -> int:
    """The exit status for an error."""
    if isinstance(error, UnsupportedError):
        return UNSUPPORTED
    return INTERNAL_ERROR if isinstance(error, InternalError) else USER_ERROR
