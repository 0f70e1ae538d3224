# SPDX-License-Identifier: Apache-2.0
"""Models of `transformers`, `timm` and `torchvision` with random weights: is each right, and is it faster than eager?

    python -m bench.tour --json tour.json --markdown tour.md        # all, on the CPU; half an hour on two cores
    python -m bench.tour --only bert swin --device cuda
    python -m bench.tour --way torch.compile --json compiled.json
    python -m bench.tour --way generate --json tokens.json --markdown tokens.md  # prefill, decoding, generate
    python -m bench.tour --list

Needs requirements/tour.txt (`make tour`). Every model has a process of its own, a time limit and a memory limit. Outcomes: right,
slower (right, but eager takes less time), wrong, refused (with the reason), internal (a mistake of ours), out of time, out of
memory, ended (the process was killed), no model (the tour's own mistake). The exit status is 1 where one is wrong, slower,
internal, ended or no model.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.outcomes import counts, progress
from bench.tour.models import Stop, all_stops

#: Outcomes, the best first, and whether the command fails on one.
OUTCOMES = {
    "right": False, "slower": True, "refused": False, "out of time": False, "out of memory": False, "wrong": True,
    "internal": True, "ended": True, "no model": True,
}  # fmt: skip
_PRELOADED = ["bench.tour.packages"]
_ROOT = Path(__file__).resolve().parents[2]


def _worker(name: str, device: str, seed: int, threads: int, way: str, pipe: Connection) -> None:
    import torch

    from bench.tour.examine import examine

    torch.set_num_threads(threads)
    pipe.send(examine(all_stops()[name], device, seed, way))


def _resident(pid: int) -> int:
    """Bytes of memory that a process has; 0 when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _watched(process: Any, receive: Connection, options: argparse.Namespace) -> dict[str, Any]:
    """What the process sends, or how it ended."""
    end = time.monotonic() + options.seconds
    while not receive.poll(0.2):
        if time.monotonic() > end:
            process.kill()
            return {"outcome": "out of time", "reason": f"not done after {options.seconds:g} s"}
        if _resident(process.pid) > options.memory_gib * 2**30:
            process.kill()
            return {"outcome": "out of memory", "reason": f"more than {options.memory_gib:g} GiB"}
        if not process.is_alive() and not receive.poll(0):
            return {"outcome": "ended", "reason": f"its process ended with {process.exitcode}"}
    try:
        return receive.recv()
    except EOFError:
        process.join()
        return {"outcome": "ended", "reason": f"its process ended with {process.exitcode}"}


def visit(stop: Stop, options: argparse.Namespace) -> dict[str, Any]:
    """The record of a stop."""
    context = multiprocessing.get_context("forkserver")
    receive, send = context.Pipe(duplex=False)
    given = (stop.name, options.device, options.seed, options.threads, options.way, send)
    process = context.Process(target=_worker, args=given)
    begin = time.monotonic()
    process.start()
    send.close()
    found = _watched(process, receive, options)
    process.join()
    facts = {"model": stop.name, "package": stop.package, "device": options.device, "seed": options.seed}
    return facts | found | {"seconds": round(time.monotonic() - begin, 1)}


def _versions() -> dict[str, str]:
    from importlib import metadata

    return {name: metadata.version(name) for name in ("torch", "transformers", "timm", "torchvision")}


def _tour(stops: list[Stop], options: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    with progress(console) as bar:
        task = bar.add_task("", total=len(stops))
        for stop in stops:
            bar.update(task, description=stop.name)
            record = visit(stop, options)
            records.append(record)
            colour = "red" if OUTCOMES[record["outcome"]] else "green" if record["outcome"] == "right" else "yellow"
            ratio = f"{record['ratio']:.2f} of eager" if "ratio" in record else ""
            words = record.get("reason", "").split("\n")[0][:160].replace("[", r"\[")
            bar.console.print(
                f"{stop.name:28} [{colour}]{record['outcome']:10}[/] {record['seconds']:6.1f} s  {ratio} {words}"
            )
            bar.advance(task)
            _save(options, records)
    return records


def _save(options: argparse.Namespace, records: list[dict[str, Any]]) -> None:
    """Writes the records after each model, so that a tour that ends early leaves what it has."""
    from straightline.bench import machine

    from bench.tour.report import generated, markdown

    facts = {
        "measurement": f"tour_{options.device}",
        "machine": machine.description(options.device),
        "versions": _versions(),
        "date": machine.date(),
        "commit": machine.commit(_ROOT) or "unknown",
        "options": {"way": options.way, "seed": options.seed, "threads": options.threads, "seconds": options.seconds},
        "counts": counts(records, OUTCOMES),
        "records": records,
    }
    if options.json:
        options.json.write_text(json.dumps(facts, indent=1) + "\n")
    if options.markdown:
        options.markdown.write_text((generated if options.way == "generate" else markdown)(facts))


def chosen(options: argparse.Namespace) -> list[Stop]:
    """The stops that the options name."""
    stops = [stop for stop in all_stops().values() if options.way != "generate" or stop.generator]
    if options.exact:
        return [stop for stop in stops if stop.name in options.exact]
    return [
        stop for stop in stops if not options.only or any(t in stop.name or t == stop.package for t in options.only)
    ]


def main() -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="TEXT", help="models whose names or packages contain one of these")
    parser.add_argument("--exact", nargs="+", metavar="NAME", help="these models")
    parser.add_argument("--list", action="store_true", help="name the models and do nothing")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument(
        "--way",
        choices=("export", "torch.compile", "generate"),
        default="export",
        help="how models are captured; `generate` asks those that write text for their tokens",
    )
    parser.add_argument(
        "--threads", type=int, default=len(os.sched_getaffinity(0)), help="of torch and of the programs"
    )
    parser.add_argument("--seconds", type=float, default=240, help="a model's limit")
    parser.add_argument("--memory-gib", type=float, default=8, help="a model's limit")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    console = Console(width=200 if not sys.stdout.isatty() else None)
    stops = chosen(options)
    if not stops:
        parser.error(f"no model's name contains one of {options.only or options.exact}")
    if options.list:
        for stop in stops:
            print(f"{stop.package:14} {stop.name}")
        return 0
    try:
        _versions()
    except ImportError as error:
        parser.error(f"{error.name} is not installed: see requirements/tour.txt")
    os.environ["HF_HUB_OFFLINE"] = "1"
    multiprocessing.set_forkserver_preload(_PRELOADED)
    records = _tour(stops, options, console)
    console.print(", ".join(f"{count} {outcome}" for outcome, count in counts(records, OUTCOMES).items()))
    return int(any(OUTCOMES[record["outcome"]] for record in records))
