# SPDX-License-Identifier: Apache-2.0
"""`python -m bench.compile_time`: how long is it from captured operations to something that can be called?

Each measurement is a process of its own, with the default number of threads: *cold* over an empty folder of the disk
cache, *warm* over the one that the cold process before it filled. `ours` is what counts: passes, emission, units
(emitted text to objects), link, load and prepare; capture, which is torch's export and our reading of it, and the start
of the compiler's library stand beside it. `clang` is the processor time of units in clang, of all
threads. Run it on an idle machine.

In a virtual machine whose host takes free memory back at once (free page reporting), the first touch of a fresh page
waits for the host, 20 times as long as for the guest's own kernel, and prepare fills much fresh memory. With
`--touch-memory MB` each process touches that much first and its allocator keeps it: what is measured is then free of
the host's part, and of the kernel's.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[1]
_CASES = ("mlp", "resnet18", "decoder")
#: Least seconds that the project asks for: cold, warm.
_BARS = {"mlp": (0.3, 0.15), "resnet18": (3.0, 0.15), "decoder": (2.0, 0.15)}
#: glibc takes all memory from one heap and keeps what is freed.
_KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 62), "MALLOC_ARENA_MAX": "1"}
_OURS = ("passes", "emission", "units", "link", "load", "prepare")
_PHASES = ("ours", *_OURS, "clang", "capture", "rest")


def main() -> int:
    """Measures all cases; exit status 1 when a process fails."""
    options = _options()
    if options.one:
        print(json.dumps(_measure(options.one, options.touch_memory << 20)))
        return 0
    from rich.console import Console

    runs: dict[tuple[str, str], list[dict[str, float]]] = {}
    for _ in range(options.repeats):
        for case in _CASES:
            if options.only not in case:
                continue
            with tempfile.TemporaryDirectory() as folder:
                for state in ("cold", "warm"):
                    runs.setdefault((case, state), []).append(_process(case, folder, options.touch_memory))
    machine = {"cpu": _cpu_name(), "cores": len(os.sched_getaffinity(0)), "load": os.getloadavg()}
    rows = [_row(case, state, measured) for (case, state), measured in runs.items()]
    Console(width=None if sys.stdout.isatty() else 150).print(_table(rows, machine))
    if options.json:
        Path(options.json).write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.compile_time", description="time to compile, by phase")
    parser.add_argument("--json", help="also write the numbers to this file")
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--repeats", type=int, default=5, help="processes per case and state of the cache (5)")
    parser.add_argument("--touch-memory", type=int, default=0, metavar="MB", help="touch this much memory before (0)")
    parser.add_argument("--one", choices=_CASES, help=argparse.SUPPRESS)
    return parser.parse_args()


def _process(case: str, folder: str, touch_memory: int) -> dict[str, float]:
    """The seconds of one compilation in a process of its own."""
    command = [sys.executable, "-m", "bench.compile_time", "--one", case, "--touch-memory", str(touch_memory)]
    environment = {**os.environ, "STRAIGHTLINE_CACHE_DIR": folder}
    if touch_memory:
        environment.update(_KEEP_MEMORY)
    done = subprocess.run(command, cwd=_ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def _touch(size: int) -> None:
    """Writes to every page of `size` bytes and hands them back to the allocator (which keeps them: `_KEEP_MEMORY`)."""
    if size:
        libc = ctypes.CDLL(None)
        libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
        libc.free.restype, libc.free.argtypes = None, (ctypes.c_void_p,)
        memory = libc.malloc(size)
        if not memory:
            raise MemoryError(f"no {size} bytes to touch")
        ctypes.memset(memory, 1, size)
        libc.free(memory)


def _measure(case: str, touched: int) -> dict[str, float]:
    """Compiles one model, `touched` bytes of memory having been touched, and splits the time."""
    import straightline as sl
    import torch

    torch.manual_seed(0)
    model, inputs = _model(case)
    _touch(touched)
    begin = time.perf_counter()
    compiled = sl.compile(model, inputs)
    total = time.perf_counter() - begin
    facts = compiled.explain().facts
    seconds: dict[str, float] = dict(facts["compile_seconds"])
    seconds["ours"] = sum(seconds[phase] for phase in _OURS)
    # What is neither: the signature, options, the start of torch's and our own machinery.
    seconds["rest"] = total - seconds["ours"] - seconds["capture"]
    compiled(*inputs)
    return {
        **seconds,
        "units_count": float(sum(compiled._compilation.counts)),
        "threads": float(facts["threads"]),
        "total": total,
    }


def _model(case: str) -> tuple[Any, tuple[Any, ...]]:
    import torch
    from straightline.demo_models import ResNet18
    from torch import nn

    if case == "mlp":
        layers = (nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        return nn.Sequential(*layers).eval(), (torch.randn(1, 64),)
    if case == "resnet18":
        return ResNet18().eval(), (torch.randn(1, 3, 224, 224),)
    from straightline.testing.models.decoder import Decoder

    return Decoder().eval(), (torch.randint(0, 96, (1, 16)), torch.arange(16))


def _row(case: str, state: str, measured: list[dict[str, float]]) -> dict[str, Any]:
    phases = {
        phase: {
            "least": min(run[phase] for run in measured),
            "median": statistics.median(run[phase] for run in measured),
        }
        for phase in (*_PHASES, "total")
    }
    return {
        "case": case,
        "cache": state,
        "units": int(measured[0]["units_count"]),
        "threads": int(measured[0]["threads"]),
        "bar": _BARS[case][state == "warm"],
        "seconds": phases,
    }


def _table(rows: list[dict[str, Any]], machine: dict[str, Any]) -> Any:
    from rich.table import Table

    load = ", ".join(f"{value:.2f}" for value in machine["load"])
    title = f"milliseconds, least / median; {machine['cpu']}, {machine['cores']} cores, load {load}"
    table = Table(title=title)
    for column in ("case", "cache", "units", "bar", *_PHASES):
        table.add_column(column, justify="left" if column in ("case", "cache") else "right")
    for row in rows:
        times = [
            f"{row['seconds'][phase]['least'] * 1e3:.0f} / {row['seconds'][phase]['median'] * 1e3:.0f}"
            for phase in _PHASES
        ]
        table.add_row(row["case"], row["cache"], str(row["units"]), f"{row['bar'] * 1e3:.0f}", *times)
    return table


def _cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


if __name__ == "__main__":
    sys.exit(main())
