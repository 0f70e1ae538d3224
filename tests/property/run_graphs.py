# SPDX-License-Identifier: Apache-2.0
"""Many random graphs over all cores, without pytest and hypothesis.

    PYTHONPATH=build/release/python python tests/property/run_graphs.py --graphs 20000 --workers 16 --seconds 3000

Each worker is a process. Ends with a summary: graphs, seconds, failures. Exit status 0: all graphs that ran are right;
1: some are not, or a worker died; 2: nothing ran. A run is repeated by --seed, one batch of it by --seed and --batch.
"""

from __future__ import annotations

import argparse
import os
import queue
import random
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

_TESTS = Path(__file__).resolve().parents[1]


def main() -> int:
    """Runs as a worker or starts the workers."""
    options = _options()
    if options.seed == 0:
        options.seed = random.SystemRandom().randrange(1, 2**32)
    if options.batch is not None or options.worker is not None:
        return _work(options)
    return _lead(options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="run_graphs.py", description="random graphs, compiled and compared with eager"
    )
    parser.add_argument("--graphs", type=int, default=2000, help="how many (2000)")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="processes (one a core)")
    parser.add_argument("--seconds", type=float, default=0.0, help="begin no further batch after so many (0: no limit)")
    parser.add_argument("--seed", type=int, default=0, help="repeats a run (0: a fresh one)")
    parser.add_argument("--batch", type=int, help="only this one")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--deadline", type=float, default=0.0, help=argparse.SUPPRESS)
    return parser.parse_args()


# A worker: one line to standard output for what it begins and ends ------------------------------------------------------


def _work(options: argparse.Namespace) -> int:
    for folder in (_TESTS, _TESTS / "run", _TESTS / "property"):
        sys.path.insert(0, str(folder))
    import torch
    from checks import BATCH, graph_of, wrong

    torch.set_num_threads(1)
    batches = -(-options.graphs // BATCH)
    numbers = [options.batch] if options.batch is not None else range(options.worker, batches, options.workers)
    status = 0
    for number in numbers:
        if options.deadline and time.time() > options.deadline:
            break
        print(f"begin {number}", flush=True)
        generator = random.Random(f"{options.seed} {number}")
        failure = wrong([graph_of(generator.randrange(2**63)) for _ in range(BATCH)], number)
        status = 1 if failure else status
        print("".join(f"| {line}\n" for line in failure.splitlines()), end="")
        print(f"end {number} {BATCH} {int(bool(failure))}", flush=True)
    if options.batch is None:
        print(f"over {sum(os.times()[:2]):.1f}", flush=True)
    return status


# The leader ---------------------------------------------------------------------------------------------------------------


@dataclass
class _Tally:
    graphs: int = 0
    failed_batches: list[int] = field(default_factory=list)
    deaths: list[str] = field(default_factory=list)
    processor_seconds: float = 0.0


def _lead(options: argparse.Namespace) -> int:
    begin = time.time()
    limit = f", {options.seconds:g} s at most" if options.seconds else ""
    print(f"seed {options.seed}: {options.graphs} graphs, {options.workers} workers{limit}", flush=True)
    lines: queue.Queue[tuple[int, str | None]] = queue.Queue()
    workers = [_start(options, index, begin, lines) for index in range(options.workers)]
    tally = _Tally()
    begun: dict[int, int] = {}
    over: set[int] = set()
    running = len(workers)
    last = begin
    try:
        while running:
            index, line = lines.get()
            if line is None:
                running -= 1
                status = workers[index].wait()
                if index not in over:
                    tally.deaths.append(
                        f"worker {index} ended with status {status} in batch {begun.get(index, 'none')}"
                    )
                continue
            _read(index, line, tally, begun, over)
            if time.time() - last > 30:
                last = time.time()
                print(
                    f"{tally.graphs} graphs after {last - begin:.0f} s, {len(tally.failed_batches)} batches failed",
                    flush=True,
                )
    finally:
        for worker in workers:
            worker.kill()
    return _conclude(options, tally, time.time() - begin)


def _start(
    options: argparse.Namespace, index: int, begin: float, lines: queue.Queue[tuple[int, str | None]]
) -> subprocess.Popen[str]:
    """A worker whose lines go to the queue, and None when there are no more."""
    deadline = begin + options.seconds if options.seconds else 0.0
    command = [sys.executable, __file__, "--worker", str(index), "--workers", str(options.workers)]
    command += ["--graphs", str(options.graphs), "--seed", str(options.seed), "--deadline", repr(deadline)]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def read() -> None:
        assert worker.stdout is not None
        for line in worker.stdout:
            lines.put((index, line.rstrip("\n")))
        lines.put((index, None))

    threading.Thread(target=read, daemon=True).start()
    return worker


def _read(index: int, line: str, tally: _Tally, begun: dict[int, int], over: set[int]) -> None:
    word, _, rest = line.partition(" ")
    if word == "begin":
        begun[index] = int(rest)
    elif word == "end":
        number, graphs, failed = map(int, rest.split())
        tally.graphs += graphs
        if failed:
            tally.failed_batches.append(number)
    elif word == "over":
        over.add(index)
        tally.processor_seconds += float(rest)
    else:
        print(f"batch {begun.get(index)}: {rest if word == '|' else line}", flush=True)


def _conclude(options: argparse.Namespace, tally: _Tally, seconds: float) -> int:
    for number in sorted(tally.failed_batches):
        print(f"failed: --seed {options.seed} --batch {number}")
    for death in tally.deaths:
        print(f"died: {death} (--seed {options.seed})")
    unfinished = f" of {options.graphs}" if tally.graphs < options.graphs else ""
    print(
        f"{tally.graphs} graphs{unfinished}, {seconds:.0f} s, {tally.processor_seconds:.0f} processor seconds, "
        f"{len(tally.failed_batches)} failed batches, {len(tally.deaths)} dead workers, seed {options.seed}"
    )
    if tally.failed_batches or tally.deaths:
        return 1
    return 0 if tally.graphs else 2


if __name__ == "__main__":
    sys.exit(main())
