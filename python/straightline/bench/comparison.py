# SPDX-License-Identifier: Apache-2.0
"""Ratios between rows: against the best peer and the floor, round by round, and against the bars."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from straightline.bench.case import COMMON_BARS, CUDA_BARS, Bar
from straightline.bench.session import Measured, Record

#: 97.5 % quantile of Student's t for 1, 2, ... degrees of freedom; from 30 on the normal one does.
_T = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
      2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045)  # fmt: skip
_NORMAL = 1.96


def figure(record: Record | None, metric: str = "") -> float | None:
    """What a row is compared by: its least time on a CPU, the median of single calls on a device, or what `metric` names."""
    if record is None or record.min_us is None:
        return None
    if metric:
        return getattr(record, metric)
    return record.min_us if record.sync_us is None else record.sync_us


def timed(measured: Measured, name: str) -> Record | None:
    """The row of that name if it has times."""
    return next((r for r in measured.records if r.contender == name and r.min_us is not None), None)


def best_peer(measured: Measured) -> Record | None:
    """The fastest row of somebody else's."""
    peers = [r for r in measured.records if r.kind == "peer" and r.min_us is not None]
    return min(peers, key=lambda r: figure(r) or math.inf) if peers else None


def ratio(record: Record, other: Record | None) -> float | None:
    """One row's time over the other's."""
    own, others = figure(record), figure(other)
    return own / others if own is not None and others else None


def paired_interval(record: Record, other: Record | None) -> tuple[float, float] | None:
    """95 % interval of the geometric mean of the ratios round by round; None for fewer than three rounds."""
    if other is None:
        return None
    logs = [math.log(a / b) for a, b in zip(record.round_us, other.round_us)]
    if len(logs) < 3:
        return None
    quantile = _T[len(logs) - 2] if len(logs) - 2 < len(_T) else _NORMAL
    middle, width = statistics.fmean(logs), quantile * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(middle - width), math.exp(middle + width)


@dataclass(frozen=True)
class BarResult:
    """The outcome of a bar for one row.

    Attributes:
        allowed_us: The time to reach; None when what it is set against has none. In the unit of the bar's metric.
        taken_us: The row's time; None when it has none.
        low_ratio: The lower end of the interval of the ratio, for a bar by interval.
    """

    bar: Bar
    against: str
    allowed_us: float | None
    taken_us: float | None
    low_ratio: float | None = None

    @property
    def met(self) -> bool | None:
        """None when it is unknown."""
        if self.allowed_us is None or self.taken_us is None:
            return None
        if self.low_ratio is not None and self.low_ratio <= self.bar.ratio:
            return True
        return self.taken_us <= self.allowed_us


def bars(measured: Measured) -> list[BarResult]:
    """The bars of a case that are for this number of threads."""
    found = []
    for bar in (*measured.case.bars, *(CUDA_BARS if measured.case.device == "cuda" else COMMON_BARS)):
        if bar.threads and measured.threads not in bar.threads:
            continue
        row = timed(measured, bar.row)
        other = best_peer(measured) if bar.against == "peers" else timed(measured, bar.against)
        theirs = figure(other, bar.metric) if bar.against else 0.0
        allowed = None
        if theirs is not None:
            launches = (row.launches if row else None) or 0
            allowed = bar.ratio * theirs + bar.plus_us + bar.plus_us_per_launch * launches
        name = other.contender if other is not None else bar.against
        interval = paired_interval(row, other) if bar.by_interval and row else None
        found.append(BarResult(bar, name, allowed, figure(row, bar.metric), interval[0] if interval else None))
    return found


def geometric_means(everything: Sequence[Measured]) -> dict[int, tuple[float, int]]:
    """By number of threads: the geometric mean of Straightline's ratios to the best peers, and over how many cases."""
    logs: dict[int, list[float]] = {}
    for measured in everything:
        row = timed(measured, "straightline")
        own = ratio(row, best_peer(measured)) if row else None
        if own is not None:
            logs.setdefault(measured.threads, []).append(math.log(own))
    return {threads: (math.exp(statistics.fmean(own)), len(own)) for threads, own in logs.items()}
