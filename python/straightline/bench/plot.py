# SPDX-License-Identifier: Apache-2.0
"""Overhead against size: a line for each contender, whose slope is the cost of one more op and whose intercept that of a call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from straightline.bench.session import Measured


@dataclass(frozen=True)
class Line:
    """Least squares through a contender's points.

    Attributes:
        points: (links, least microseconds).
        slope_us: For each link more.
        intercept_us: Of a call without any.
    """

    title: str
    kind: str
    points: tuple[tuple[int, float], ...]
    slope_us: float
    intercept_us: float


def fit(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Slope and intercept of the line with the least squares of relative distances.

    Relative, because the measured times are exact to so many percent: with absolute ones the longest chain's noise alone
    would decide the intercept.
    """
    weights = [1 / (y * y) for _, y in points]
    total = sum(weights)
    mean_x = sum(w * x for w, (x, _) in zip(weights, points, strict=True)) / total
    mean_y = sum(w * y for w, (_, y) in zip(weights, points, strict=True)) / total
    spread = sum(w * (x - mean_x) ** 2 for w, (x, _) in zip(weights, points, strict=True))
    slope = sum(w * (x - mean_x) * (y - mean_y) for w, (x, y) in zip(weights, points, strict=True)) / spread
    return slope, mean_y - slope * mean_x


def lines(everything: Sequence[Measured], series: str, threads: int) -> list[Line]:
    """The lines of a series: of each contender that has times at two sizes or more."""
    points: dict[str, list[tuple[int, float]]] = {}
    facts: dict[str, tuple[str, str]] = {}
    for measured in everything:
        if measured.case.series != series or measured.threads != threads or measured.case.links is None:
            continue
        for record in measured.records:
            if record.min_us is not None:
                points.setdefault(record.contender, []).append((measured.case.links, record.min_us))
                facts[record.contender] = record.title, record.kind
    found = []
    for name, own in points.items():
        if len({x for x, _ in own}) >= 2:
            slope, intercept = fit(own)
            found.append(Line(*facts[name], tuple(sorted(own)), slope, intercept))
    return sorted(found, key=lambda line: -line.points[-1][1])


def series_of(everything: Sequence[Measured]) -> list[tuple[str, int]]:
    """Series and numbers of threads that can be drawn."""
    pairs = dict.fromkeys((m.case.series, m.threads) for m in everything if m.case.series)
    return [(series, threads) for series, threads in pairs if lines(everything, series, threads)]


def draw(everything: Sequence[Measured], path: Path) -> None:
    """Writes the picture; the ending chooses the format.

    Raises:
        ImportError: matplotlib is not installed.
    """
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    wanted = series_of(everything)
    figure, axes = pyplot.subplots(len(wanted), 1, figsize=(12, 6.5 * len(wanted)), squeeze=False, layout="constrained")
    for axis, (series, threads) in zip(axes[:, 0], wanted, strict=True):
        _draw(axis, lines(everything, series, threads), f"{series}, {threads} thread" + ("s" if threads > 1 else ""))
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


#: Straightline's rows are blue, the floor black, the others have the remaining colours.
_COLOURS = {
    "ours": ("#08306b", "#2171b5", "#41b6c4", "#6baed6", "#8c96c6", "#9ebcda"),
    "floor": ("black",),
    "peer from C": ("#1b9e77",),
    "peer": ("#d95f02", "#e7298a", "#66a61e", "#e6ab02", "#a6761d", "#b2182b", "#7f7f7f"),
}
_STYLES = {"ours": ("-", 2.2, "o"), "floor": (":", 2.2, "s"), "peer": ("--", 1.4, "^"), "peer from C": ("--", 1.4, "v")}


def _draw(axis: Any, drawn: list[Line], title: str) -> None:
    """Measured points, and the line through them, which is bent where both axes are logarithmic."""
    drawn_of = dict.fromkeys(_COLOURS, 0)
    for line in drawn:
        style, width, marker = _STYLES[line.kind]
        colour = _COLOURS[line.kind][drawn_of[line.kind] % len(_COLOURS[line.kind])]
        drawn_of[line.kind] += 1
        xs = [x for x, _ in line.points]
        label = f"{line.title}: {line.intercept_us:,.2f} us a call + {line.slope_us:,.3f} us a link"
        axis.plot(xs, [y for _, y in line.points], marker, color=colour, markersize=5)
        dense = [xs[0] * (xs[-1] / xs[0]) ** (i / 60) for i in range(61)]
        shown = [(x, y) for x in dense if (y := line.intercept_us + line.slope_us * x) > 0]
        axis.plot(*zip(*shown, strict=True), style, color=colour, linewidth=width, label=label)
    axis.set(xscale="log", yscale="log", title=title, xlabel="links", ylabel="least us a call")
    axis.grid(True, which="both", alpha=0.25)
    axis.legend(fontsize=9, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
