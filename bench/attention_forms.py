# SPDX-License-Identifier: Apache-2.0
"""`python -m bench.attention_forms [NAME ..]`: attention on a CPU as one kernel, and as two products and a softmax.

    taskset -c 1 python -m bench.attention_forms --rounds 15

`kernel` calls `scaled_dot_product_attention`, `products` what decompose-ops would make of it; eager runs the former. With
`--named` the number of keys is a name. Answers are compared with eager's in float64 first. The three take turns in one process,
on one thread: a row has the medians of the rounds, and of their ratios to eager.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import straightline as sl
import torch
import torch.nn.functional as F
from straightline.bench import machine
from torch import Tensor, nn

#: Microseconds that the calls of one side take in a round.
_ROUND_US = 3000
_TOLERANCE = 2e-6


class Case(NamedTuple):
    """Heads of queries and of keys, queries, keys, elements of a head."""

    heads: int
    key_heads: int
    queries: int
    keys: int
    size: int = 64
    causal: bool = False
    mask: bool = False

    def name(self) -> str:
        """As a row has it."""
        heads = f"{self.heads}/{self.key_heads}" if self.heads != self.key_heads else str(self.heads)
        rest = (" causal" if self.causal else "") + (" mask" if self.mask else "")
        return f"{heads} heads {self.queries}x{self.keys}x{self.size}{rest}"

    def inputs(self) -> tuple[Tensor, ...]:
        """Queries, keys and values, and a mask where there is one."""
        given = (
            torch.randn(1, self.heads, self.queries, self.size),
            torch.randn(1, self.key_heads, self.keys, self.size),
            torch.randn(1, self.key_heads, self.keys, self.size),
        )
        if not self.mask:
            return given
        keeps = torch.rand(1, 1, self.queries, self.keys) < 0.7
        keeps[..., 0] = True
        return (*given, keeps)


CASES = [
    Case(8, 8, 1, 64),
    Case(8, 8, 1, 128),
    Case(12, 12, 1, 512),
    Case(12, 12, 1, 2048),
    Case(32, 8, 1, 512, 128),
    Case(32, 8, 1, 2048, 128),
    Case(8, 8, 1, 256, mask=True),
    Case(8, 8, 4, 256),
    Case(4, 4, 16, 16),
    Case(12, 12, 50, 50),
    Case(12, 12, 197, 197),
    Case(8, 8, 128, 128, causal=True),
    Case(8, 8, 512, 512),
    Case(8, 8, 512, 512, causal=True),
]


class Kernel(nn.Module):
    """One op."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.causal, self.shares = case.causal, case.heads != case.key_heads

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        """Attention."""
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=self.causal, enable_gqa=self.shares)


class Products(nn.Module):
    """The same, written out."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.causal, self.group = case.causal, case.heads // case.key_heads

    def _repeated(self, x: Tensor) -> Tensor:
        if self.group == 1:
            return x
        return x.unsqueeze(2).expand(-1, -1, self.group, -1, -1).flatten(1, 2)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        """Attention."""
        scores = q @ self._repeated(k).transpose(-1, -2) * (1 / math.sqrt(q.shape[-1]))
        if mask is not None:
            scores = torch.where(mask, scores, -math.inf)
        if self.causal:
            scores = torch.where(torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril(), scores, -math.inf)
        return scores.softmax(-1) @ self._repeated(v)


def _compiled(module: nn.Module, inputs: tuple[Tensor, ...], named: bool) -> Any:
    shapes: Any = None
    if named:
        keys = torch.export.Dim("keys", min=2, max=65536)
        shapes = (None, {2: keys}, {2: keys}, *([{3: keys}] if len(inputs) > 3 else []))
    return sl.compile(module.eval(), inputs, dynamic_shapes=shapes, threads=1)


def _round(call: Callable[[], Any], calls: int) -> float:
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - begin) / calls * 1e6


def measured(case: Case, rounds: int, named: bool) -> str:
    """A row; ends the process where an answer is wrong.

    Raises:
        SystemExit: An answer is wrong.
    """
    torch.manual_seed(case.queries + case.keys)
    inputs = case.inputs()
    eager = Kernel(case)
    wanted = eager(*[x.double() if x.is_floating_point() else x for x in inputs]).numpy()
    calls: dict[str, Callable[[], Any]] = {"eager": lambda: eager(*inputs)}
    with torch.inference_mode():
        for form in (Kernel, Products):
            fn = _compiled(form(case), inputs, named)
            error = np.abs(fn(*inputs).numpy() - wanted).max()
            if not error < _TOLERANCE:
                raise SystemExit(f"{case.name()}: {form.__name__} is wrong by {error:.1e}")
            calls[form.__name__.lower()] = lambda fn=fn: fn(*inputs)
        number = {name: max(1, int(_ROUND_US / _round(call, 5))) for name, call in calls.items()}
        times = [{name: _round(call, number[name]) for name, call in calls.items()} for _ in range(rounds)]
    figures = [f"{statistics.median(t[name] for t in times):.1f}" for name in calls]
    ratios = [f"{statistics.median(t[name] / t['eager'] for t in times):.2f}" for name in ("kernel", "products")]
    return f"| {case.name()} | {' | '.join(figures)} | {' | '.join(ratios)} |"


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of names; none: all")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--named", action="store_true", help="keys are a named extent")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(machine.description(), f"load {os.getloadavg()[0]:.1f}", sep="\n")
    print("| case | eager, us | kernel | products | kernel / eager | products / eager |\n|---|---|---|---|---|---|")
    for case in CASES:
        if not options.names or any(part in case.name() for part in options.names):
            if not (options.named and case.causal):
                print(measured(case, options.rounds, options.named), flush=True)


if __name__ == "__main__":
    main()
