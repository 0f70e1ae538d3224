# SPDX-License-Identifier: Apache-2.0
"""What a choice of kernels per call costs: calls of a function with slots against one without, in turns.

`python -m bench.slots`. The function is one addition of 16 floats behind a linear of 4 x 4, so that a call is short.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import straightline as sl
import torch


def least_ns(contenders: dict[str, Callable[[], None]], rounds: int = 15, calls: int = 20000) -> dict[str, float]:
    """The least nanoseconds of a call of each, in turns."""
    least = dict.fromkeys(contenders, float("inf"))
    for _ in range(rounds):
        for name, run in contenders.items():
            begin = time.perf_counter_ns()
            run()
            least[name] = min(least[name], (time.perf_counter_ns() - begin) / calls)
    return least


def main() -> None:
    """Prints the table."""
    model, x = torch.nn.Linear(4, 4).eval(), torch.randn(4, 4)
    calls = 20000
    plain = sl.compile(model, (x,), routes={"linear": "native.gemm"})
    slotted = sl.compile(model, (x,), slots={"linear": ["native.gemm", "native.gemv"]})
    other = sl.slot(linear="native.gemv")

    def loop(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], None]:
        def run() -> None:
            for _ in range(calls):
                function(x)

        return run

    def within(run: Callable[[], None]) -> Callable[[], None]:
        def chosen() -> None:
            with other:
                run()

        return chosen

    def each() -> None:
        for _ in range(calls):
            with other:
                slotted(x)

    gemv = sl.compile(model, (x,), routes={"linear": "native.gemv"})
    times = least_ns(
        {
            "gemm, no slots": loop(plain),
            "slots, nothing chosen": loop(slotted),
            "gemv, no slots": loop(gemv),
            "slots, gemv chosen around the loop": within(loop(slotted)),
            "slots, gemv chosen around each call": each,
        }
    )
    for name, ns in times.items():
        print(f"{name:<38}{ns:8.1f} ns")


if __name__ == "__main__":
    main()
