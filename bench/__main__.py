# SPDX-License-Identifier: Apache-2.0
"""`python -m bench`: is Straightline faster than eager PyTorch?

Baseline: eager in inference mode, for images the better of contiguous and channels last. Answers are compared
first; a case that is wrong fails the run. The contestants take turns, round by round; a time is microseconds per
call, measured over as many calls as fill about 2 ms. The ratio is eager's least over Straightline's least; its
spread are the quartiles of the ratios of single rounds. Run it on an idle machine: the load average is part of the
report.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import straightline as sl
import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.cases import CASES, Case

_SAMPLE_SECONDS = 0.002
_WARM_UP_ROUNDS = 2


def main() -> int:
    """Runs the cases that were asked for; exit status 1 when an answer is wrong or eager is faster."""
    options = _options()
    torch.manual_seed(0)
    console = Console(width=None if sys.stdout.isatty() else 130)
    rows: list[dict[str, Any]] = []
    cases = [case for case in CASES if options.only in case.name]
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("", total=len(cases) * len(options.threads))
        for threads in options.threads:
            torch.set_num_threads(threads)
            for case in cases:
                progress.update(task, description=f"{case.name}, {threads} thread(s)", advance=0)
                rows.append(_measure(case, threads, options.rounds))
                progress.advance(task)
    machine = {
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg(),
        "torch": torch.__version__,
    }
    console.print(_table(rows, machine))
    if options.json:
        Path(options.json).write_text(json.dumps({"machine": machine, "rows": rows}, indent=2) + "\n")
    return 1 if any(row["error"] or row["ratio"] < 1 for row in rows) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Straightline against eager PyTorch")
    parser.add_argument("--json", help="also write the numbers to this file")
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="numbers of threads (1 2)")
    parser.add_argument("--rounds", type=int, default=30, help="rounds per case (30)")
    return parser.parse_args()


def _measure(case: Case, threads: int, rounds: int) -> dict[str, Any]:
    """One row of the report."""
    model, inputs = case.make()
    start = time.perf_counter()
    compiled = sl.compile(model, inputs, threads=threads)
    compile_seconds = time.perf_counter() - start
    contestants: dict[str, Callable[[], Any]] = {
        "straightline": lambda: compiled(*inputs),
        "eager": lambda: model(*inputs),
    }
    if case.images:
        last_model = copy.deepcopy(model).to(memory_format=torch.channels_last)
        last = tuple(x.contiguous(memory_format=torch.channels_last) for x in inputs)
        contestants["eager, channels last"] = lambda: last_model(*last)
    with torch.inference_mode():
        error = _difference(compiled(*inputs), model(*inputs))
        times = _times(contestants, rounds)
    ours = times.pop("straightline")
    best = min(times, key=lambda name: min(times[name]))
    ratios = sorted(theirs / mine for theirs, mine in zip(times[best], ours, strict=True))
    return {
        "case": case.name,
        "threads": threads,
        "error": error,
        "eager": best,
        "eager_us": min(times[best]),
        "eager_median_us": statistics.median(times[best]),
        "straightline_us": min(ours),
        "straightline_median_us": statistics.median(ours),
        "ratio": min(times[best]) / min(ours),
        "ratio_quartiles": [ratios[len(ratios) // 4], ratios[3 * len(ratios) // 4]],
        "compile_s": compile_seconds,
    }


def _difference(result: torch.Tensor, expected: torch.Tensor) -> str:
    """Words for a wrong answer, empty for a right one."""
    if result.shape != expected.shape:
        return f"shape {tuple(result.shape)}, expected {tuple(expected.shape)}"
    worst = float((result - expected).abs().max() / expected.abs().max())
    return "" if worst < 1e-4 else f"differs by {worst:.1e} of the largest value"


def _times(contestants: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Microseconds per call of each round."""
    repeats: dict[str, int] = {}
    for name, call in contestants.items():
        call()
        start = time.perf_counter()
        call()
        repeats[name] = max(1, math.ceil(_SAMPLE_SECONDS / max(time.perf_counter() - start, 1e-7)))
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for index in range(rounds + _WARM_UP_ROUNDS):
        for name, call in contestants.items():
            count = repeats[name]
            start = time.perf_counter()
            for _ in range(count):
                call()
            elapsed = (time.perf_counter() - start) / count * 1e6
            if index >= _WARM_UP_ROUNDS:
                times[name].append(elapsed)
    return times


def _table(rows: list[dict[str, Any]], machine: dict[str, Any]) -> Table:
    load = ", ".join(f"{value:.1f}" for value in machine["load"])
    table = Table(
        title=f"microseconds per call, least (median); {machine['cpu']}, {machine['cores']} cores, "
        f"torch {machine['torch']}, load {load}"
    )
    table.add_column("model")
    for column in ("threads", "eager", "Straightline", "times faster", "quartiles", "compile s"):
        table.add_column(column, justify="right")
    for row in rows:
        color = "red" if row["error"] or row["ratio"] < 1 else "green"
        table.add_row(
            row["case"],
            str(row["threads"]),
            f"{row['eager_us']:,.1f} ({row['eager_median_us']:,.1f})" + (" cl" if "last" in row["eager"] else ""),
            f"{row['straightline_us']:,.1f} ({row['straightline_median_us']:,.1f})",
            row["error"] or f"[{color}]{row['ratio']:.2f}[/]",
            "{:.2f} .. {:.2f}".format(*row["ratio_quartiles"]),
            f"{row['compile_s']:.1f}",
        )
    table.caption = "cl: channels last"
    return table


def _cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


if __name__ == "__main__":
    sys.exit(main())
