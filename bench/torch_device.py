# SPDX-License-Identifier: Apache-2.0
"""What an eager op costs on torch's device over a plug-in's, against the CPU: microseconds a call, the least of 7 rounds.

Question: what do the table of programs, the queue and the worker add to one op? The rounds of both devices alternate. A round is
2,000 calls and then waits for the device, so its work counts, too; `host` leaves the wait out.

    STRAIGHTLINE_BACKEND_PATH=libstraightline_backend_device.so python bench/torch_device.py
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import straightline.torch_device as torch_device
import torch

ROUNDS, CALLS = 7, 2000
#: Most times what the CPU takes.
BARS = {"a + b, 16 floats": 1.5, "a @ b, 64 x 64": 1.3}


def _round(call: Callable[[], object], calls: int) -> tuple[float, float]:
    """Microseconds a call: until the last one returned, and until the device was done."""
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    returned = time.perf_counter()
    torch.sl.synchronize()
    return (returned - begin) / calls * 1e6, (time.perf_counter() - begin) / calls * 1e6


def _ops(device: str) -> dict[str, Callable[[], object]]:
    a, b = torch.randn(16, device=device), torch.randn(16, device=device)
    m, n = torch.randn(64, 64, device=device), torch.randn(64, 64, device=device)
    return {"a + b, 16 floats": lambda: a + b, "a @ b, 64 x 64": lambda: m @ n}


def _compare() -> list[dict[str, object]]:
    cpu, there = _ops("cpu"), _ops("sl")
    rows = []
    for name, bar in BARS.items():
        least = {"cpu": float("inf"), "sl": float("inf"), "host": float("inf")}
        for _ in range(ROUNDS):
            least["cpu"] = min(least["cpu"], _round(cpu[name], CALLS)[1])
            host, whole = _round(there[name], CALLS)
            least["host"], least["sl"] = min(least["host"], host), min(least["sl"], whole)
        ratio = least["sl"] / least["cpu"]
        rows.append(
            {"op": name, **{key: round(us, 3) for key, us in least.items()}, "ratio": round(ratio, 2), "bar": bar}
        )
    return rows


def _chain(size: int) -> torch.Tensor:
    """100 ops."""
    x = torch.ones(size, device="sl")
    for i in range(25):
        x = (x * 0.5 + x).relu() - x.mean() if i % 2 else (x + 1).tanh() * x.sigmoid() + 0.5
    return x


def main() -> int:
    """Prints a row for each op as JSON; 1 where one is over its bar or a chain of ops makes programs in its second pass."""
    rows = _compare()
    _chain(8)
    before = torch_device.programs_built()
    for size in (8, 9, 100):
        _chain(size)
    made = torch_device.programs_built() - before
    for row in rows:
        print(json.dumps(row))  # noqa: T201
    print(json.dumps({"chain": "100 ops", "programs of the first pass": before, "of later ones": made}))  # noqa: T201
    return int(made > 0 or any(row["ratio"] > row["bar"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
