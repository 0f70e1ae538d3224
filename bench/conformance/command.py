# SPDX-License-Identifier: Apache-2.0
"""The samples with which torch tests its ops: what does each get from the compiler?

    python -m bench.conformance --json build/conformance.json --markdown build/conformance.md
    python -m bench.conformance --dtype int64 --samples 0 --only linalg fft      # all samples of some ops
    python -m bench.conformance --device cuda --jobs 8
    python -m bench.conformance --beyond build/conformance.json      # ops without such samples, by their schemas
    python -m bench.conformance --modules --way compile      # layers, by torch.compile

Needs expecttest (requirements/test.txt), which torch's tests import. Outcomes: native (right, by our kernels alone), torch
(right, some of it by ops of torch's), random (right: eager's numbers for the same seed), refused (with the reason), not for eager
(eager raises, or gives no tensor), not captured (right, but torch gave the backend no graph), out of time, wrong, bare error (an
exception that is none of ours), internal, ended (the process died). The exit status is 1 where there is one of the last five.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from bench.conformance import made
from bench.conformance.examine import OUTCOMES, WAYS
from bench.conformance.report import markdown
from bench.conformance.samples import modules, names, spread
from bench.conformance.workers import Work, records
from bench.outcomes import counts, progress

_ROOT = Path(__file__).resolve().parents[2]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="TEXT", help="entries whose names contain one of these")
    about = "ops by their schemas, those that these records do not reach"
    parser.add_argument("--beyond", nargs="+", type=Path, metavar="RECORDS", help=about)
    parser.add_argument("--modules", action="store_true", help="the layers that torch tests (module_db), in inference")
    about = "sl.compile, torch.compile with this backend, or sl.jit"
    parser.add_argument("--way", choices=WAYS, default="export", help=about)
    parser.add_argument("--ops", type=int, default=0, help="so many entries, spread over all; 0: all")
    parser.add_argument("--samples", type=int, default=2, help="of each entry, spread over torch's; 0: all")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes")
    parser.add_argument("--threads", type=int, default=1, help="of torch and of the programs")
    parser.add_argument("--seconds", type=float, default=240, help="an entry's limit")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    if not isinstance(getattr(torch, options.dtype, None), torch.dtype):
        parser.error(f"torch has no dtype {options.dtype}")
    return options


def _facts(options: argparse.Namespace, found: list[dict[str, Any]]) -> dict[str, Any]:
    from straightline.bench import machine

    return {
        "measurement": f"conformance_{'modules_' if options.modules else ''}{options.device}_{options.dtype}",
        "machine": machine.description(options.device),
        "versions": {"torch": torch.__version__},
        "date": machine.date(),
        "commit": machine.commit(_ROOT) or "unknown",
        "options": {name: getattr(options, name) for name in ("dtype", "device", "samples", "ops", "seed", "way")},
        "counts": counts(found, OUTCOMES),
        "records": sorted(found, key=lambda record: (record["op"], record["sample"])),
    }


def main() -> int:
    """Runs the command."""
    options = _options()
    chosen = [name for name in _names(options) if _is_asked(name, options.only)]
    chosen = [chosen[place] for place in spread(len(chosen), options.ops)]
    if not chosen:
        raise SystemExit(f"no op that takes {options.dtype} has one of {options.only} in its name")
    kind = (options.device, options.threads, options.seconds, options.way)
    work = Work(options.dtype, options.samples, options.seed, *kind)
    console = Console(width=200 if not sys.stdout.isatty() else None)
    found: list[dict[str, Any]] = []
    with progress(console) as bar:
        task = bar.add_task("", total=len(chosen))
        for several in records(chosen, work, options.jobs):
            found += several
            for record in several:
                if OUTCOMES[record["outcome"]] or record["outcome"] == "refused":
                    words = record["reason"].replace("\n", " ")[:140].replace("[", r"\[")
                    colour = "red" if OUTCOMES[record["outcome"]] else "yellow"
                    arguments = record["arguments"][:50].replace("[", r"\[")
                    bar.console.print(f"{record['op']:36} [{colour}]{record['outcome']:10}[/] ({arguments}) {words}")
            bar.update(task, advance=1, description=several[0]["op"] if several else "")
    facts = _facts(options, found)
    if options.json:
        options.json.write_text(json.dumps(facts, indent=1) + "\n")
    if options.markdown:
        options.markdown.write_text(markdown(facts))
    console.print(", ".join(f"{count} {outcome}" for outcome, count in facts["counts"].items()))
    return int(any(OUTCOMES[record["outcome"]] for record in found))


def _names(options: argparse.Namespace) -> Sequence[str]:
    if options.modules:
        return sorted(modules())
    if not options.beyond:
        return names(getattr(torch, options.dtype))
    runs = [json.loads(path.read_text()) for path in options.beyond]
    seen = {name for run in runs for record in run["records"] for name in record["reached"]}
    return made.entries(frozenset(seen))


def _is_asked(name: str, only: Sequence[str] | None) -> bool:
    return not only or any(text in name for text in only)
