# SPDX-License-Identifier: Apache-2.0
"""Tables for people and records for programs."""

from __future__ import annotations

import dataclasses
from typing import Any

from rich.table import Table

from straightline.bench.comparison import (
    BarResult,
    bars,
    best_peer,
    geometric_means,
    paired_interval,
    ratio,
    timed,
)
from straightline.bench.session import Measured, Record

SCHEMA = 1
_NONE = "-"
_LEAST_LIMIT_US = 0.1  # below that a distance from the limit says nothing


def microseconds(value: float | None) -> str:
    """Three digits or more."""
    if value is None:
        return _NONE
    if value >= 100:
        return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.4f}"


def case_table(measured: Measured) -> Table:
    """One table: a row for each contender."""
    case = measured.case
    if case.device == "cuda":
        return cuda_table(measured)
    threads = f"{measured.threads} thread" + ("s" if measured.threads > 1 else "")
    table = Table(title=f"{case.name}, {threads}: {case.question}", title_justify="left", caption_justify="left")
    table.add_column("", no_wrap=True)
    for column in ("min us", "median", "quartiles", "x peer", "x floor", "compile s", "launches", "allocs"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    peer, floor = best_peer(measured), timed(measured, "floor")
    for record in measured.records:
        table.add_row(*_cells(record, peer, floor))
    table.caption = _caption(measured)
    return table


def cuda_table(measured: Measured) -> Table:
    """The same for a CUDA device: single calls, calls one behind the other, and what the device did."""
    case = measured.case
    table = Table(title=f"{case.name}, cuda: {case.question}", title_justify="left", caption_justify="left")
    table.add_column("", no_wrap=True)
    titles = ("sync us", "quartiles", "enqueue", "back to back", "kernels", "launches", "x peer", "95 %", "compile s")
    for column in titles:
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    peer = best_peer(measured)
    for record in measured.records:
        table.add_row(*_cuda_cells(record, peer, len(titles)))
    table.caption = _caption(measured)
    return table


def _cuda_cells(record: Record, peer: Record | None, columns: int) -> list[str]:
    style = {"ours": "bold", "floor": "dim"}.get(record.kind, "")
    name = f"[{style}]{record.title}[/]" if style else record.title
    if record.sync_us is None:
        return _untimed(record, name, columns)
    low, high = record.quartiles_us or (record.sync_us, record.sync_us)
    interval = paired_interval(record, peer) if record is not peer else None
    return [
        name,
        microseconds(record.sync_us),
        f"{microseconds(low)} .. {microseconds(high)}",
        microseconds(record.enqueue_us),
        microseconds(record.stream_us),
        microseconds(record.kernels_us),
        f"{record.launches:g}" if record.launches is not None else _NONE,
        "best" if record is peer else _ratio(ratio(record, peer)),
        f"{interval[0]:.2f} .. {interval[1]:.2f}" if interval else _NONE,
        f"{record.compile_s:.1f}" if record.compile_s is not None else _NONE,
        _plain(record.configuration),
    ]


def _untimed(record: Record, name: str, columns: int) -> list[str]:
    colour = "red" if record.status == "wrong" else "yellow"
    words = record.reason if record.status == "ok" else f"{record.status}: {record.reason}"
    return [name, *[_NONE] * columns, f"[{colour}]{_plain(words)}[/]"]


def _cells(record: Record, peer: Record | None, floor: Record | None) -> list[str]:
    style = {"ours": "bold", "floor": "dim"}.get(record.kind, "")
    name = f"[{style}]{record.title}[/]" if style else record.title
    if record.min_us is None:
        return _untimed(record, name, 8)
    low, high = record.quartiles_us or (record.min_us, record.min_us)
    return [
        name,
        microseconds(record.min_us),
        microseconds(record.median_us),
        f"{microseconds(low)} .. {microseconds(high)}",
        "best" if record is peer else _ratio(ratio(record, peer)),
        _NONE if record is floor else _ratio(ratio(record, floor)),
        f"{record.compile_s:.1f}" if record.compile_s is not None else _NONE,
        str(record.launches) if record.launches is not None else _NONE,
        f"{record.allocations:.3g}" if record.allocations is not None else _NONE,
        _plain(record.configuration),
    ]


def _plain(text: str) -> str:
    return text.replace("[", r"\[")


def _ratio(value: float | None) -> str:
    return _NONE if value is None else f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def _caption(measured: Measured) -> str:
    lines = []
    ours = timed(measured, "straightline")
    if measured.limit and measured.limit[0] < _LEAST_LIMIT_US:
        lines.append(
            f"arithmetic and bytes alone take less than {_LEAST_LIMIT_US:g} us here: the call is what is measured"
        )
    elif measured.limit and ours and ours.min_us:
        least, which = measured.limit
        what = "arithmetic at peak" if which == "flops" else "reading every byte once"
        lines.append(
            f"limit of {what}: {microseconds(least)} us; Straightline takes {ours.min_us / least:,.2f} times that"
        )
    interval = paired_interval(ours, best_peer(measured)) if ours else None
    if interval:
        lines.append(f"Straightline over the best peer, round by round: {interval[0]:.2f} .. {interval[1]:.2f} (95 %)")
    took_part = {record.contender for record in measured.records} | {"peers", ""}
    lines += [_bar_words(r) for r in bars(measured) if {r.bar.row, r.bar.against} <= took_part]
    lines += [f"[yellow]warning: {warning}[/]" for warning in measured.warnings]
    return "\n".join(lines)


def _bar_words(result: BarResult) -> str:
    bar = result.bar
    unit = "s" if bar.metric.endswith("_s") else "us"
    against = result.against if bar.against != "peers" else f"best peer ({result.against})"
    parts = [
        *([f"{bar.ratio:g} x {against}"] if against else []),
        *([f"{bar.plus_us:g} {unit}"] if bar.plus_us else []),
        *([f"{bar.plus_us_per_launch:g} us a launch"] if bar.plus_us_per_launch else []),
    ]
    metric = f" ({bar.metric.rpartition('_')[0].replace('_', ' ')})" if bar.metric else ""
    words = f"bar: {bar.row}{metric} <= {' + '.join(parts)}"
    if result.met is None or result.taken_us is None or not result.allowed_us:
        return f"{words}: cannot be told"
    state = (
        "[green]met[/]" if result.met else f"[red]missed by {(result.taken_us / result.allowed_us - 1) * 100:.0f} %[/]"
    )
    return f"{words}: {microseconds(result.taken_us)} of {microseconds(result.allowed_us)} {unit}, {state}"


def _failure(measured: Measured) -> str:
    """Why there is no figure of Straightline's."""
    failed = next((record for record in measured.records if record.contender == "straightline"), None)
    return f"[red]{failed.status}[/]" if failed else _NONE


def _bars_cell(measured: Measured) -> str:
    results = [result for result in bars(measured) if result.met is not None]
    missed = sum(result.met is False for result in results)
    return f"[red]{missed} missed[/]" if missed else "[green]met[/]" if results else _NONE


def summary_table(everything: list[Measured], facts: dict[str, Any]) -> Table:
    """A line for each case: Straightline against the best peer, the floor and the limit."""
    if any(measured.case.device == "cuda" for measured in everything):
        return _cuda_summary(everything, facts)
    load = ", ".join(f"{value:.1f}" for value in facts["machine"]["load"])
    table = Table(
        title=f"{facts['machine']['cpu']}, {facts['machine']['cores']} cores, load {load}", title_justify="left"
    )
    table.add_column("case", no_wrap=True)
    for column in ("threads", "Straightline us", "best peer us"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("best peer", no_wrap=True)
    for column in ("x peer", "x eager", "x floor", "x limit", "bars"):
        table.add_column(column, justify="right", no_wrap=True)
    for measured in everything:
        ours, peer = timed(measured, "straightline"), best_peer(measured)
        if ours is None or ours.min_us is None:
            table.add_row(measured.case.name, str(measured.threads), _failure(measured), *[_NONE] * 7)
            continue
        limit = measured.limit[0] if measured.limit else 0.0
        table.add_row(
            measured.case.name,
            str(measured.threads),
            microseconds(ours.min_us),
            microseconds(peer.min_us) if peer else _NONE,
            peer.title if peer else _NONE,
            _ratio(ratio(ours, peer)),
            _ratio(ratio(ours, timed(measured, "eager"))),
            _ratio(ratio(timed(measured, "straightline_c") or ours, timed(measured, "floor"))),
            f"{ours.min_us / limit:,.2f}" if limit >= _LEAST_LIMIT_US else _NONE,
            _bars_cell(measured),
        )
    means = ", ".join(
        f"{mean:.2f} over {count} cases with {threads} thread{'s' if threads > 1 else ''}"
        for threads, (mean, count) in geometric_means(everything).items()
    )
    table.caption = "x floor: the program called from C, as the floor is"
    table.caption += f"\ngeometric mean of x peer: {means}" if means else ""
    table.caption_justify = "left"
    return table


def _cuda_summary(everything: list[Measured], facts: dict[str, Any]) -> Table:
    table = Table(title=facts["machine"].get("gpu", "cuda"), title_justify="left", caption_justify="left")
    table.add_column("case", no_wrap=True)
    for column in ("Straightline us", "enqueue", "best peer us"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("best peer", no_wrap=True)
    for column in ("x peer", "x eager", "x reduce-overhead", "bars"):
        table.add_column(column, justify="right", no_wrap=True)
    for measured in everything:
        ours, peer = timed(measured, "straightline"), best_peer(measured)
        if ours is None:
            table.add_row(measured.case.name, _failure(measured), *[_NONE] * 7)
            continue
        table.add_row(
            measured.case.name,
            microseconds(ours.sync_us),
            microseconds(ours.enqueue_us),
            microseconds(peer.sync_us) if peer else _NONE,
            peer.title if peer else _NONE,
            _ratio(ratio(ours, peer)),
            _ratio(ratio(ours, timed(measured, "eager"))),
            _ratio(ratio(ours, timed(measured, "compile_reduce_overhead"))),
            _bars_cell(measured),
        )
    return table


def records(everything: list[Measured]) -> list[dict[str, Any]]:
    """Every row as data."""
    found = []
    for measured in everything:
        peer, floor = best_peer(measured), timed(measured, "floor")
        for record in measured.records:
            own = dataclasses.asdict(record)
            own["ratio_to_best_peer"] = ratio(record, peer)
            own["best_peer"] = peer.contender if peer else None
            own["ratio_interval"] = paired_interval(record, peer) if record is not peer else None
            own["ratio_to_floor"] = ratio(record, floor)
            own["limit_us"] = measured.limit[0] if measured.limit else None
            own["limited_by"] = measured.limit[1] if measured.limit else None
            found.append(own)
    return found


def bar_records(everything: list[Measured]) -> list[dict[str, Any]]:
    """Every bar as data."""
    return [
        {
            "case": measured.case.name,
            "threads": measured.threads,
            **dataclasses.asdict(result.bar),
            "against_row": result.against,
            "allowed_us": result.allowed_us,
            "taken_us": result.taken_us,
            "met": result.met,
        }
        for measured in everything
        for result in bars(measured)
    ]
