# SPDX-License-Identifier: Apache-2.0
"""Processes that examine entries: one that hangs or dies costs the entry at hand, and is replaced."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

_PRELOADED = ["straightline", "bench.conformance.samples"]


@dataclass(frozen=True)
class Work:
    """What is asked of each entry."""

    dtype: str
    count: int
    seed: int
    device: str
    threads: int
    seconds: float
    way: str = "export"


def _serve(work: Work, pipe: Connection) -> None:
    import torch

    from bench.conformance.examine import examine

    torch.set_num_threads(work.threads)
    while True:  # until it is killed
        dtype = getattr(torch, work.dtype)
        pipe.send(examine(pipe.recv(), dtype, work.count, work.seed, work.device, work.way))


class _Worker:
    def __init__(self, work: Work) -> None:
        self._work = work
        self.name = ""
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("forkserver")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(self._work, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def give(self, name: str) -> None:
        self.name = name
        self._end = time.monotonic() + self._work.seconds
        self.pipe.send(name)

    def taken(self) -> list[dict[str, Any]] | None:
        """The records of the entry, None while it is at work."""
        facts = {"op": self.name, "dtype": self._work.dtype, "sample": 0, "arguments": ""}
        try:
            if self.pipe.poll():
                return self.pipe.recv()
            is_late = time.monotonic() > self._end
            if not is_late:
                return None
        except (EOFError, ConnectionError):
            is_late = False
        self.stop()
        code = self.process.exitcode
        self._start()
        reason = f"not done after {self._work.seconds:g} s" if is_late else f"its process ended with {code}"
        return [facts | {"outcome": "out of time" if is_late else "ended", "reason": reason}]

    def stop(self) -> None:
        self.process.kill()
        self.process.join()


def records(names: Sequence[str], work: Work, jobs: int) -> Iterator[list[dict[str, Any]]]:
    """The records of each entry, in the order in which they are done."""
    multiprocessing.set_forkserver_preload(_PRELOADED)
    left = list(reversed(names))
    workers = [_Worker(work) for _ in range(min(jobs, len(names)))]
    busy = []
    try:
        for worker in workers:
            worker.give(left.pop())
            busy.append(worker)
        while busy:
            multiprocessing.connection.wait([worker.pipe for worker in busy], timeout=0.2)
            for worker in list(busy):
                taken = worker.taken()
                if taken is None:
                    continue
                yield taken
                if left:
                    worker.give(left.pop())
                else:
                    busy.remove(worker)
    finally:
        for worker in workers:
            worker.stop()
