# SPDX-License-Identifier: Apache-2.0
"""What the commands share that ask the compiler about many models or ops: outcomes of each, counted, and a bar."""

from __future__ import annotations

import collections
import traceback
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


def counts(records: Sequence[dict[str, Any]], outcomes: Iterable[str]) -> dict[str, int]:
    """How many records have each outcome, in the order of `outcomes`."""
    found = collections.Counter(record["outcome"] for record in records)
    return {outcome: found[outcome] for outcome in outcomes if found[outcome]}


def described(error: BaseException, words: int) -> str:
    """An exception of ours that is a mistake: its class, so many characters of its text, and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}"[:words] + where


def progress(console: Console) -> Progress:
    """A bar with what is being asked, how many of how many, and the time."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console)
