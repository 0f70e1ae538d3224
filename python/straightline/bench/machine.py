# SPDX-License-Identifier: Apache-2.0
"""The machine: what it is, what it can do, and whether others use it."""

from __future__ import annotations

import contextlib
import ctypes
import datetime
import importlib.metadata
import os
import platform
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from straightline.bench.contender import Unavailable
from straightline.bench.native_code import NATIVE, shared_library

_PACKAGES = ("straightline", "torch", "onnxruntime", "onnx", "openvino", "numpy")
_LOAD_LIMIT = 0.5
_SPIN_LIMIT = 1.05
_OTHERS_LIMIT = 0.05
_SPIN = 200_000
_SHORT_SPIN = 10_000
_TICKS = os.sysconf("SC_CLK_TCK")


def description(device: str = "cpu") -> dict[str, Any]:
    """Processor, cores, system, and the device if it is another; nothing that names the machine."""
    return {
        **(_gpu() if device == "cuda" else {}),
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def _gpu() -> dict[str, Any]:
    import torch

    properties = torch.cuda.get_device_properties(0)
    return {
        "gpu": properties.name,
        "gpu_architecture": f"sm_{properties.major}{properties.minor}",
        "gpu_multiprocessors": properties.multi_processor_count,
        "cuda": torch.version.cuda,
    }


def versions() -> dict[str, str]:
    """Returns the versions of the installed packages that contenders run on."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def commit(place: Path) -> str | None:
    """The commit that is checked out around a file or folder; None where there is no repository."""
    folder = place if place.is_dir() else place.parent
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def date() -> str:
    """Now, in UTC."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def _cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def spin_ratio() -> float:
    """Wall time over processor time of a loop of some milliseconds: above 1 when somebody else wanted this core."""
    worst = 1.0
    for _ in range(3):
        wall, own = time.perf_counter(), time.process_time()
        for _ in range(_SPIN):
            pass
        own = time.process_time() - own
        worst = max(worst, (time.perf_counter() - wall) / max(own, 1e-9))
    return worst


@contextlib.contextmanager
def on_core(core: int | None) -> Iterator[None]:
    """Keeps the calling thread there, unless it is None; a library's threads stay where they are."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, allowed if core is None else {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def quietest_core() -> int:
    """The core, of those that the calling thread may use, on which a loop of a fraction of a millisecond takes the least time.

    On a rented machine it differs by half from core to core and from second to second: the other hyper-thread of a core may be
    somebody else's, which no meter in here shows.
    """

    def seconds(core: int) -> float:
        taken = []
        with on_core(core):
            for _ in range(3):
                begun = time.perf_counter()
                for _ in range(_SHORT_SPIN):
                    pass
                taken.append(time.perf_counter() - begun)
        return min(taken)

    return min(sorted(os.sched_getaffinity(0)), key=seconds)


def warnings_before() -> list[str]:
    """Returns reasons against measuring now: other load on the machine."""
    found = []
    load = os.getloadavg()[0]
    if load > _LOAD_LIMIT:
        found.append(f"the load average is {load:.1f}: on an idle machine it is below {_LOAD_LIMIT:g}")
    ratio = spin_ratio()
    if ratio > _SPIN_LIMIT:
        found.append(f"a loop took {ratio:.2f} times its processor time: others want this core")
    return found


class OthersMeter:
    """Measures, in cores, the processor time that other processes take: that of the whole machine less ours."""

    def __init__(self, own: Iterable[int]) -> None:
        self._own = tuple(own)
        self._begun = self._now()

    def _now(self) -> tuple[float, float, float]:
        fields = [int(x) for x in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        user, nice, system, _idle, _wait, irq, softirq, steal = fields
        busy = (user + nice + system + irq + softirq + steal) / _TICKS
        return time.monotonic(), busy, sum(processor_seconds(pid) for pid in (os.getpid(), *self._own))

    def cores(self) -> float:
        """Cores that others kept busy since this object was made."""
        before, now = self._begun, self._now()
        elapsed = max(now[0] - before[0], 1e-3)
        return max(0.0, ((now[1] - before[1]) - (now[2] - before[2])) / elapsed)

    def warning(self) -> str:
        """A warning when that was much; empty otherwise."""
        cores = self.cores()
        return f"other processes kept {cores:.2f} cores busy during the timing" if cores > _OTHERS_LIMIT else ""


def processor_seconds(pid: int) -> float:
    """User and system time of a process and its threads; 0 when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


class Limits:
    """What this machine can do, measured when first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._library: Any = None
        self._flops: dict[int, float] = {}
        self._bandwidth: dict[tuple[int, int], float] = {}

    def _measure(self) -> Any:
        if self._library is None:
            self._library = ctypes.CDLL(str(shared_library(NATIVE / "limits.c", self._folder)))
            self._library.sl_bench_flops.restype = ctypes.c_double
            self._library.sl_bench_read_bandwidth.restype = ctypes.c_double
            self._library.sl_bench_read_bandwidth.argtypes = [ctypes.c_size_t, ctypes.c_int]
        return self._library

    def flops(self, threads: int) -> float:
        """Float32 operations per second."""
        if threads not in self._flops:
            self._flops[threads] = self._measure().sl_bench_flops(threads)
        return self._flops[threads]

    def bandwidth(self, size: int, threads: int) -> float:
        """Bytes per second from a working set of that size (rounded down to a power of two), warm."""
        rounded = 1 << max(14, size.bit_length() - 1)
        if (rounded, threads) not in self._bandwidth:
            self._bandwidth[rounded, threads] = self._measure().sl_bench_read_bandwidth(rounded, threads)
        return self._bandwidth[rounded, threads]

    def least_us(self, flops: int, size: int, threads: int) -> tuple[float, str] | None:
        """Least time of a call by arithmetic and by bytes, and which decides; None without a compiler."""
        try:
            arithmetic = flops / self.flops(threads) * 1e6
            memory = size / self.bandwidth(size, threads) * 1e6
        except Unavailable:
            return None
        return (arithmetic, "flops") if arithmetic > memory else (memory, "bytes")
