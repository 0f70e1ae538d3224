# SPDX-License-Identifier: Apache-2.0
"""What the scripts for an NVIDIA device share: their arguments, the file of their results, and times of a CUDA graph."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from straightline.bench import machine
from torch import Tensor


def parser(description: str | None) -> argparse.ArgumentParser:
    """An argument parser with --json and --commit."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--json", type=Path)
    made.add_argument("--commit", default="unknown")
    return made


def seeded() -> int:
    """Seeds torch with a fresh seed, and returns it."""
    seed = torch.seed() % 2**32
    torch.manual_seed(seed)
    return seed


def attempted(failures: list[str], what: str, work: Callable[[], Any]) -> Any:
    """The result of `work`; None if it fails, which is printed and noted."""
    try:
        return work()
    except Exception as error:
        failures.append(f"{what}: {type(error).__name__}: {str(error)[:1200]}")
        print(failures[-1], flush=True)
        return None


def write(options: argparse.Namespace, records: list[dict[str, Any]], **more: Any) -> None:
    """Writes machine, versions, date, commit, other given facts and the records; does nothing without --json."""
    if not options.json:
        return
    versions = {"python": sys.version.split()[0], "torch": torch.__version__, "cuda": torch.version.cuda}
    if torch.backends.cudnn.is_available():
        versions["cudnn"] = str(torch.backends.cudnn.version())
    facts = {
        "measurement": Path(sys.argv[0]).stem.removeprefix("cuda_"),
        "machine": machine.description("cuda"),
        "versions": versions,
        "date": machine.date(),
        "commit": options.commit,
    }
    options.json.write_text(json.dumps({**facts, **more, "records": records}, indent=1) + "\n")


def graph_of(function: Callable[[], Any]) -> Callable[[], None]:
    """The replay of a CUDA graph of what a function launches, which has been called twice before."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        function()
        function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        function()
    return graph.replay


def graph_us(call: Callable[[Tensor], object], inputs: list[Tensor], calls: int) -> float:
    """Microseconds of a call, of so many in one graph, which take turns with the inputs; the median of 11 replays."""

    def several() -> None:
        for i in range(calls):
            call(inputs[i % len(inputs)])

    replay = graph_of(several)
    times = []
    for _ in range(11):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1000 / calls)
    return statistics.median(times)
