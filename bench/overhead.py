# SPDX-License-Identifier: Apache-2.0
"""`python -m bench.overhead`: what does a call cost beside the program itself?

Each case is timed in every way in turn, over and over, with one thread; a row has the median and the least. `empty` is a
backend of torch.compile that returns a constant: what Dynamo's own part of a call costs. `bare` is what `sl.compile` returns.
Results of all ways but `empty` are compared with eager's first.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import straightline as sl
import torch
from torch import nn

_WAYS = ("eager", "inductor", "empty", "backend", "jit", "bare")


class _Block(nn.Module):
    """A layer of a transformer with twelve parameters."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self._heads = heads
        self.before, self.behind = nn.LayerNorm(size), nn.LayerNorm(size)
        self.mixed, self.joined = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.wide, self.narrow = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attention, then two products."""
        batch, tokens, size = x.shape
        parts = self.mixed(self.before(x)).view(batch, tokens, 3, self._heads, -1).permute(2, 0, 3, 1, 4).unbind()
        attended = nn.functional.scaled_dot_product_attention(*parts)
        x = x + self.joined(attended.transpose(1, 2).reshape(batch, tokens, size))
        return x + self.narrow(nn.functional.gelu(self.wide(self.behind(x))))


def _transformer() -> nn.Module:
    ends = (nn.Linear(64, 64), nn.Linear(64, 64))
    return nn.Sequential(ends[0], *(_Block(64, 4) for _ in range(8)), ends[1])


def _cases() -> dict[str, tuple[Any, tuple[torch.Tensor, ...]]]:
    mlp = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    return {
        "add": (lambda a, b: a + b, (torch.randn(2, 3), torch.randn(2, 3))),
        "mlp": (mlp.eval(), (torch.randn(1, 64),)),
        "transformer": (_transformer().eval(), (torch.randn(1, 16, 64),)),
    }


def _empty(module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    with torch.no_grad():
        result = module(*inputs)
    return lambda *args: result


def _ways(function: Any, args: tuple[Any, ...], chosen: list[str]) -> dict[str, Callable[..., Any]]:
    made: dict[str, Callable[[], Callable[..., Any]]] = {
        "eager": lambda: function,
        "inductor": lambda: torch.compile(function),
        "empty": lambda: torch.compile(function, backend=_empty),
        "backend": lambda: torch.compile(function, backend="straightline", options={"threads": 1}),
        "jit": lambda: sl.jit(function, options={"threads": 1}),
        "bare": lambda: sl.compile(function, args, threads=1),
    }
    ways = {}
    for way in chosen:
        ways[way] = made[way]()
        got = ways[way](*args)
        if way != "empty":
            torch.testing.assert_close(got, function(*args), rtol=1e-4, atol=1e-4)
    return ways


def _measure(ways: dict[str, Callable[..., Any]], args: tuple[Any, ...], rounds: int) -> dict[str, dict[str, float]]:
    """Microseconds a call, from batches of about a millisecond that alternate."""
    times: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, call in ways.items():
            for _ in range(5):
                call(*args)
            count, begin = 0, time.perf_counter()
            while time.perf_counter() - begin < 1e-3:
                for _ in range(20):
                    call(*args)
                count += 20
            times[way].append((time.perf_counter() - begin) / count * 1e6)
    return {way: {"median_us": statistics.median(found), "least_us": min(found)} for way, found in times.items()}


def main() -> int:
    """Measures and prints; exit status 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases whose name has this")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--ways", default=",".join(_WAYS), help="which, with commas between")
    parser.add_argument("--json", type=Path, help="writes the figures there")
    options = parser.parse_args()
    torch.set_num_threads(1)
    chosen = [
        way for way in options.ways.split(",") if way != "inductor" or shutil.which("g++") or shutil.which("clang++")
    ]
    figures = {}
    with torch.no_grad():
        for name, (function, args) in _cases().items():
            if options.only not in name:
                continue
            torch.compiler.reset()
            figures[name] = _measure(_ways(function, args, chosen), args, options.rounds)
            for way, row in figures[name].items():
                print(f"{name:12} {way:9} median {row['median_us']:8.2f} us, least {row['least_us']:8.2f} us")
    if options.json:
        options.json.write_text(
            json.dumps({"torch": torch.__version__, "threads": 1, "cases": figures}, indent=1) + "\n"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
