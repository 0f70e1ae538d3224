# SPDX-License-Identifier: Apache-2.0
"""The command `straightline bench`."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from straightline.bench import contenders as known
from straightline.bench import machine, plot, report
from straightline.bench.case import Case, Collection, load_folder, load_model_file
from straightline.bench.contender import Contender
from straightline.bench.session import Measured, ReferenceFailed, Session, Settings
from straightline.errors import UserError

_WIDTH = 165  # where the output is no terminal
_QUICK_ROUNDS = 3
_FOLDER = Path("bench/cases")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--model", type=Path, help="a Python file of yours that defines model and inputs")
    source.add_argument("--cases", type=Path, help=f"a folder of cases (default: {_FOLDER}, where there is one)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where to measure (default: cpu)")
    parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="cases whose names contain one of these")
    parser.add_argument("--group", default="default", help='a group of cases (default: "default")')
    parser.add_argument("--contenders", nargs="+", metavar="NAME", help="who takes part (default: all)")
    parser.add_argument(
        "--threads", nargs="+", type=int, metavar="N", help="numbers of threads (default: the case's, 1 2)"
    )
    parser.add_argument("--rounds", type=int, help="how often each contender is visited (default: 10, --quick: 3)")
    parser.add_argument("--samples", type=int, default=5, help="samples of a visit (default: 5)")
    parser.add_argument("--sample-ms", type=float, default=2.0, help="how long a sample takes at least (default: 2)")
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="how many contenders compile at a time (default: 1)"
    )
    parser.add_argument(
        "--limit", type=float, default=900.0, metavar="S", help="seconds that compiling may take (default: 900)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the records to this file")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw overhead against size (.png, .svg or .pdf)")
    parser.add_argument("--quick", action="store_true", help="one thread, few rounds, nobody who compiles for long")


def run(options: argparse.Namespace) -> int:
    """Measures what was asked for; exit status 1 when an answer is wrong, 2 for options that make no sense."""
    try:
        collection, source = _collection(options)
        cases = _cases(collection, options)
        contenders, left_out = _contenders(collection, options)
        _check(options)
        return _measure(options, cases, contenders, left_out, source)
    except UserError as error:
        print(f"straightline bench: {error}", file=sys.stderr)
        return 2


def _collection(options: argparse.Namespace) -> tuple[Collection, dict[str, str]]:
    if options.model is not None:
        if options.device == "cuda":
            _check_cuda(options)  # the model is made on it
        case = load_model_file(options.model, options.device)
        case.make()  # what the file lacks is said here, before any process starts
        return Collection(options.model.resolve().parent, (case,)), {"model": str(options.model.resolve())}
    folder = options.cases
    if folder is None and _FOLDER.is_dir():
        folder = _FOLDER
    if folder is None:
        raise UserError(f"nothing to measure: give --model FILE, or --cases FOLDER (there is no {_FOLDER} here)")
    collection = load_folder(folder)
    return collection, {"cases": str(collection.folder)}


def _cases(collection: Collection, options: argparse.Namespace) -> list[Case]:
    if options.model is not None:
        return list(collection.cases)
    here = [case for case in collection.cases if case.device == options.device]
    if not here:
        raise UserError(f"no case of {collection.folder} is for --device {options.device}")
    groups = sorted({case.group for case in here})
    if options.group not in groups:
        raise UserError(f"--group {options.group!r} is none of {', '.join(groups)}")
    cases = [case for case in here if case.group == options.group]
    chosen = [case for case in cases if not options.only or any(text in case.name for text in options.only)]
    if not chosen:
        names = ", ".join(case.name for case in cases)
        raise UserError(f"--only {' '.join(options.only)} matches none of {names}")
    return chosen


def _contenders(
    collection: Collection, options: argparse.Namespace
) -> tuple[list[type[Contender]], list[type[Contender]]]:
    available = {c.name: c for c in (*known.of_device(options.device), *collection.contenders)}
    if options.contenders is not None:
        unknown = [name for name in options.contenders if name not in available]
        if unknown:
            raise UserError(f"--contenders {' '.join(unknown)} is none of {', '.join(available)}")
        return [c for name, c in available.items() if name in options.contenders], []
    if options.model is not None:
        available = {
            name: c for name, c in available.items() if c.kind != "floor"
        }  # nobody wrote one for a user's model
    if options.quick:
        slow = [c for c in available.values() if c.slow_to_compile]
        return [c for c in available.values() if c not in slow], slow
    return list(available.values()), []


def _check(options: argparse.Namespace) -> None:
    cores = len(os.sched_getaffinity(0))
    for threads in options.threads or ():
        if not 1 <= threads <= cores:
            raise UserError(f"--threads {threads} but this machine has {cores} cores: 1 to {cores}")
    if options.device == "cuda":
        _check_cuda(options)
    for name, least in (("rounds", 1), ("jobs", 1), ("samples", 1), ("sample_ms", 1e-3), ("limit", 1e-3)):
        value = getattr(options, name)
        if value is not None and value < least:
            raise UserError(f"--{name.replace('_', '-')} {value:g} but must be at least {least:g}")
    if options.plot is not None:
        if options.plot.suffix not in (".png", ".svg", ".pdf"):
            raise UserError(f"--plot {options.plot} ends in {options.plot.suffix or 'nothing'}: .png, .svg or .pdf")
        if importlib.util.find_spec("matplotlib") is None:
            raise UserError("--plot needs matplotlib: pip install matplotlib")
    for path in (options.json, options.plot):
        if path is not None and not path.resolve().parent.is_dir():
            raise UserError(f"no folder {path.resolve().parent} to write {path.name} into")


def _check_cuda(options: argparse.Namespace) -> None:
    if options.threads:
        raise UserError("--threads is for --device cpu: a call on a device has one thread")
    try:
        import torch
    except ImportError as error:
        raise UserError(f"--device cuda needs torch, which cannot be imported ({error})") from error
    if not torch.cuda.is_available():
        raise UserError("--device cuda but torch sees no CUDA device here")


def _measure(
    options: argparse.Namespace,
    cases: list[Case],
    contenders: list[type[Contender]],
    left_out: list[type[Contender]],
    source: dict[str, str],
) -> int:
    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
    run_facts = {
        "machine": {**machine.description(options.device), "load": os.getloadavg()},
        "date": machine.date(),
        "commit": machine.commit(Path(next(iter(source.values())))),
        "warnings": machine.warnings_before(),
    }
    for warning in run_facts["warnings"]:
        console.print(f"[yellow]warning: this machine is busy: {warning}[/]")
    everything: list[Measured] = []
    failures: list[str] = []
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with (
        tempfile.TemporaryDirectory(prefix="straightline-bench-") as folder,
        Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress,
    ):
        task = progress.add_task("")
        settings = Settings(
            rounds=options.rounds or (_QUICK_ROUNDS if options.quick else 10),
            samples=options.samples,
            sample_s=options.sample_ms / 1e3,
            limit_s=options.limit,
            folder=Path(folder),
            source=source,
            device=options.device,
            jobs=options.jobs,
        )
        session = Session(settings, lambda words: progress.update(task, description=words))
        try:
            for measured in _all(session, cases, contenders, options, failures):
                everything.append(measured)
                console.print(report.case_table(measured), "")
                _write(options, everything, run_facts | {"versions": machine.versions() | session.versions})
        except KeyboardInterrupt:
            failures.append("interrupted: this is what was measured until then")
    if everything:
        console.print(report.summary_table(everything, run_facts))
    for contender in left_out:
        console.print(f"{contender.name} was left out by --quick")
    return _status(everything, failures, console)


def _all(
    session: Session,
    cases: list[Case],
    contenders: list[type[Contender]],
    options: argparse.Namespace,
    failures: list[str],
) -> Iterator[Measured]:
    """Each case with each number of threads; a case that eager does not run becomes a line of `failures`."""
    if options.jobs > 1:
        together = max(1, options.jobs // len(contenders))
        for threads in dict.fromkeys(threads for case in cases for threads in _threads(case, options)):
            chosen = [case for case in cases if threads in _threads(case, options)]
            for first in range(0, len(chosen), together):
                yield from session.measure_together(chosen[first : first + together], threads, contenders, failures)
        return
    for case in cases:
        try:
            reference = session.reference(case)
        except ReferenceFailed as error:
            failures.append(f"{case.name}: eager itself fails: {error}")
            continue
        for threads in _threads(case, options):
            yield session.measure(case, threads, contenders, reference)


def _threads(case: Case, options: argparse.Namespace) -> tuple[int, ...]:
    if case.device == "cuda":
        return (1,)
    if options.threads:
        return tuple(dict.fromkeys(options.threads))
    cores = len(os.sched_getaffinity(0))
    wanted = tuple(threads for threads in case.threads if threads <= cores)
    return wanted[:1] if options.quick else wanted


def _write(options: argparse.Namespace, everything: list[Measured], facts: dict[str, Any]) -> None:
    """After every case, so that an interrupted run leaves what it measured."""
    if options.json is not None:
        data = {
            "schema": report.SCHEMA,
            **facts,
            "options": {"rounds": options.rounds, "samples": options.samples, "sample_ms": options.sample_ms,
                        "quick": options.quick, "group": options.group, "device": options.device, "jobs": options.jobs},
            "records": report.records(everything),
            "bars": report.bar_records(everything),
        }  # fmt: skip
        options.json.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    if options.plot is not None and plot.series_of(everything):
        plot.draw(everything, options.plot)


def _status(everything: list[Measured], failures: Sequence[str], console: Console) -> int:
    wrong = [
        f"{record.case}, {record.threads} thread(s): {record.title} is wrong: {record.reason}"
        for measured in everything
        for record in measured.records
        if record.status == "wrong"
    ]
    for line in (*wrong, *failures):
        console.print(f"[red]{line}[/]")
    return 1 if wrong or failures else 0
