# SPDX-License-Identifier: Apache-2.0
"""`python -m bench.linear_systems`: what does a small linear system cost beside torch's functions?

    python -m bench.linear_systems --rounds 15

One thread. In each round eager and ours take the same calls in turn; a row has the least of all rounds, and the median of the
rounds' ratios. Answers are compared with float64 first. Above
`most_matrix_rows` of the target (docs/design/targets.md) torch's functions are called.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import straightline as sl
import torch
from torch import Tensor

FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "solve": torch.linalg.solve,
    "cholesky": lambda a, b: torch.cholesky_solve(b, torch.linalg.cholesky(a)),
    "inv": lambda a, b: torch.linalg.inv(a),
}
SIZES = (4, 12, 32, 64, 96, 128)
#: Seconds of a side in a round.
_TIME = 2e-3


def _operands(n: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    x = torch.randn(n, n, dtype=torch.float64)
    return (x @ x.mT + n * torch.eye(n)).to(dtype), torch.randn(n, 1, dtype=dtype)


def _seconds(call: Callable[..., Any], operands: tuple[Tensor, Tensor], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call(*operands)
    return (time.perf_counter() - start) / count


def rows(rounds: int) -> Iterator[tuple[str, str, int, float, float, float]]:
    """(dtype, function, rows, microseconds of eager, of ours, median ratio)."""
    for dtype in (torch.float32, torch.float64):
        for name, function in FUNCTIONS.items():
            for n in SIZES:
                operands = _operands(n, dtype)
                ours = sl.compile(function, operands, cache=False, threads=1)
                wide = function(*(x.double() for x in operands))
                tolerance = 1e-3 if dtype == torch.float32 else 1e-9
                torch.testing.assert_close(ours(*operands).double(), wide, rtol=tolerance, atol=tolerance)
                count = max(1, int(_TIME / _seconds(function, operands, 10)))
                pairs = [(_seconds(function, operands, count), _seconds(ours, operands, count)) for _ in range(rounds)]
                eager, own = (min(pair[side] for pair in pairs) * 1e6 for side in (0, 1))
                yield str(dtype)[6:], name, n, eager, own, statistics.median(b / a for a, b in pairs)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| dtype | function | rows | eager, us | ours, us | ratio |\n|---|---|---|---|---|---|")
    with torch.no_grad():
        for dtype, name, n, eager, own, ratio in rows(options.rounds):
            print(f"| {dtype} | {name} | {n} | {eager:.2f} | {own:.2f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
