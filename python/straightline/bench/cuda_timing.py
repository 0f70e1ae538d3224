# SPDX-License-Identifier: Apache-2.0
"""Figures of one row on a CUDA device: single calls, calls one behind the other, and what the device did meanwhile."""

from __future__ import annotations

import time
from typing import Any

from straightline.bench.contender import Call, calls_for

#: Before the samples of a visit, so that clocks are up again.
_WARM_UP_S = 0.02
#: Single calls of a visit for each of its samples, and when they end although there were fewer.
_SINGLES = 10
_SINGLES_S = 0.4
_PROFILED_CALLS = 5
#: What torch writes among the kernels: spans of code, that ran nothing themselves.
_NOTES = ("##", "Torch-Compiled", "TorchDynamo", "CompiledFunction", "Pregraph", "ProfilerStep")


def timed(call: Call, samples: int, sample_s: float) -> dict[str, Any]:
    """Takes samples of one row, in microseconds.

    Returns:
        `sync_us` and `enqueue_us`: of single calls, until the device was done and until the call came back.
        `samples_us`: of `calls` calls one behind the other, until the device was done with the last, divided by their number.
    """
    import torch

    def behind_each_other(calls: int) -> float:
        start = time.perf_counter()
        call.loop(calls)
        torch.cuda.synchronize()
        return time.perf_counter() - start

    torch.cuda.synchronize()
    calls = calls_for(behind_each_other, max(sample_s, _WARM_UP_S))
    singles: list[tuple[float, float]] = []
    begun = time.perf_counter()
    while len(singles) < samples * _SINGLES and time.perf_counter() - begun < _SINGLES_S:
        singles += (call.singles or _of_loop(call))(_SINGLES)
    samples_us = [behind_each_other(calls) / calls * 1e6 for _ in range(min(samples, 3))]
    return {
        "sync_us": [done * 1e6 for _, done in singles],
        "enqueue_us": [back * 1e6 for back, _ in singles],
        "samples_us": samples_us,
        "calls": calls,
    }


def _of_loop(call: Call) -> Any:
    import torch

    def singles(calls: int) -> list[tuple[float, float]]:
        seen = []
        for _ in range(calls):
            torch.cuda.synchronize()
            start = time.perf_counter()
            back = call.loop(1)
            torch.cuda.synchronize()
            seen.append((back, time.perf_counter() - start))
        return seen

    return singles


def profiled(call: Call) -> dict[str, Any]:
    """Kernels and copies that the device ran for one call, and for how many microseconds at least one of them was running."""
    import torch

    call.loop(2)
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        call.loop(_PROFILED_CALLS)
        torch.cuda.synchronize()
    events = [e for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    events = [e for e in events if not e.name.startswith(_NOTES)]
    spans = [(e.time_range.start, e.time_range.end) for e in events]
    return {"launches": len(spans) / _PROFILED_CALLS, "kernels_us": covered(spans) / _PROFILED_CALLS}


def covered(spans: list[tuple[float, float]]) -> float:
    """Length of the union of intervals: kernels may overlap, for one may be set up while the last still runs."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total
