# SPDX-License-Identifier: Apache-2.0
"""A program's graph with concurrent branches and in one order on an NVIDIA device: equal bits in many calls, and times.

    python -m bench.cuda_concurrent_branches --json result.json [--seconds 120] [--dags 8]

Inputs, their addresses and those of results change from call to call. `every` makes each chain a branch, whatever the estimates
say: random programs of elementwise ops, products, norms and concatenations are checked with it, models as estimated. Fails where
bits differ.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import straightline as sl
import torch
from straightline import _internal
from straightline.testing.models.cases import ALL, settled
from torch import Tensor, nn
from torch.nn import functional as F

from bench import cuda_results
from bench.cases.models import DecodeStep
from bench.cuda_branches import both_ways, inception, recommender, residual_block

#: A model and what it is called with.
Made = tuple[nn.Module, tuple[Tensor, ...]]
_SIDE = 96
_MODELS = ("resnet-18 1", "resnet-18 10", "vit", "mixture", "dlrm")


class Dag(nn.Module):
    """A random program: ops that may be done in place, products, norms and concatenations over [96, 96]."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        choice = random.Random(seed)
        self.layers = nn.ModuleList()
        self.plan: list[tuple[str, int, int, int]] = []
        for count in range(1, choice.randint(13, 31)):
            kind = choice.choice(
                ["relu", "add", "mul", "linear", "linear", "softmax", "norm", "cat", "product", "turned"]
            )
            if kind in ("linear", "norm"):
                self.layers.append(nn.Linear(_SIDE, _SIDE) if kind == "linear" else nn.LayerNorm(_SIDE))
            a, b = choice.randrange(max(0, count - 6), count), choice.randrange(max(0, count - 8), count)
            self.plan.append((kind, a, b, len(self.layers) - 1))
        last = len(self.plan)
        self.results = sorted({last, choice.randint(1, last), choice.randint(1, last)})

    def step(self, kind: str, a: Tensor, b: Tensor, layer: int) -> Tensor:
        """Computes one op of the plan."""
        if kind in ("linear", "norm"):
            return torch.tanh(self.layers[layer](a))
        return {
            "relu": lambda: F.relu(a) * 1.5 - 0.1,
            "add": lambda: a + b * 0.5,
            "mul": lambda: torch.tanh(a) * b,
            "softmax": lambda: torch.softmax(a, -1),
            "cat": lambda: torch.cat([torch.tanh(a[:, : _SIDE // 2]), torch.sigmoid(b[:, _SIDE // 2 :])], 1),
            "product": lambda: torch.tanh(a @ b.t()) * 0.5 + a,
            "turned": lambda: torch.cos(a.t().contiguous()).t() + b,
        }[kind]()

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Computes the plan; returns some of its values."""
        values = [x]
        for kind, a, b, layer in self.plan:
            values.append(self.step(kind, values[a], values[b], layer))
        return tuple(values[i] for i in self.results)


def of_the_set(name: str) -> Made:
    """A model of the test set."""
    case = ALL[name]
    return settled(case.make()).cuda().requires_grad_(False), tuple(x.cuda() for x in case.inputs())


def decode(layers: int) -> Made:
    """The benchmark's decode step."""
    with torch.device("cuda"):
        model = DecodeStep(layers).eval().to(torch.bfloat16).requires_grad_(False)
    return model, (torch.randn(1, 1, 1024, device="cuda").to(torch.bfloat16),)


def cases() -> Iterator[tuple[str, Callable[[], Made]]]:
    """Every case with its name."""
    for name in _MODELS:
        yield name, lambda name=name: of_the_set(name)
    yield "decode step, 28 layers", lambda: decode(28)
    yield "inception block at 14", lambda: (inception()[1], inception()[2:])
    for kind in (nn.LSTM, nn.GRU):
        yield (
            f"{kind.__name__} both ways, 256, 20 steps",
            lambda kind=kind: (both_ways(kind, 20)[1], both_ways(kind, 20)[2:]),
        )
    for channels, side in ((128, 56), (256, 28), (512, 14)):
        yield (
            f"residual block {channels} at {side}",
            lambda channels=channels, side=side: (
                residual_block(channels, side)[1],
                residual_block(channels, side)[2:],
            ),
        )
    yield "recommender, 1 row", lambda: (recommender(1)[1], recommender(1)[2:])


def branches_of(compiled: Any) -> int:
    """How many branches the program's graph has."""
    return len({row.get("branch") or 0 for row in compiled.explain().statements if row["phase"] == "run"})


def results_of(result: Any) -> list[Tensor]:
    """The tensors of a result as a list."""
    return list(torch.utils._pytree.tree_leaves(result))


def other(x: Tensor) -> Tensor:
    """An input of the same kind with other values, at another address."""
    return torch.randn_like(x, memory_format=torch.preserve_format) if x.is_floating_point() else x.flip(0)


def compare(one: Any, many: Any, inputs: tuple[Tensor, ...], runs: int) -> int:
    """How many of the calls give other bits with concurrent branches than in one order."""
    pool = [inputs, *(tuple(map(other, inputs)) for _ in range(4))]
    want = [[y.clone() for y in results_of(one(*given))] for given in pool]
    wrong = 0
    kept: list[Tensor] = []
    got: list[tuple[int, list[Tensor]]] = []
    for i in range(runs):
        which = (i * 7 + i // 11) % len(pool)
        if i % 3 == 0:
            kept.append(torch.empty(random.randint(1, 1 << 16), device="cuda"))  # moves what comes next
        given = tuple(x.clone(memory_format=torch.preserve_format) for x in pool[which]) if i % 2 else pool[which]
        got.append((which, results_of(many(*given))))
        if len(got) == 25 or i == runs - 1:
            torch.cuda.synchronize()
            wrong += sum(not all(map(torch.equal, result, want[number])) for number, result in got)
            got, kept = [], kept[-40:]
    return wrong


def median_us(calls: dict[str, Callable[[], Any]], rounds: int = 3, count: int = 150) -> dict[str, float]:
    """Microseconds until the device is done, by call. Measures the calls in turn; of all rounds the least median counts."""
    best: dict[str, float] = {}
    for _ in range(rounds):
        for name, call in calls.items():
            times = []
            for _ in range(count):
                begin = time.perf_counter()
                call()
                torch.cuda.synchronize()
                times.append((time.perf_counter() - begin) * 1e6)
            median = sorted(times[count // 5 :])[count * 2 // 5]
            best[name] = round(min(median, best.get(name, median)), 2)
    return best


def measure(model: nn.Module, inputs: tuple[Tensor, ...], runs: int, every: bool) -> dict[str, Any]:
    """Compares the bits of concurrent branches with those of one order, and measures both."""
    one = sl.compile(model, inputs, concurrent_branches=False)
    many = _internal.compile(model, inputs, internal={"every_branch": True}) if every else sl.compile(model, inputs)
    record: dict[str, Any] = {
        "every": every,
        "launch": many.explain()["launch"],
        "branches": branches_of(many),
        "runs": runs,
    }
    record["wrong"] = compare(one, many, inputs, runs)
    record["arena_bytes"], record["arena_bytes_of_one"] = many.explain()["arena_bytes"], one.explain()["arena_bytes"]
    if not every:
        record["sync_us"] = median_us({"branches": lambda: many(*inputs), "one order": lambda: one(*inputs)})
    return record


@torch.inference_mode()
def main() -> None:
    """Checks, measures, prints, writes JSON."""
    parser = cuda_results.parser(__doc__)
    parser.add_argument("--seconds", type=float, default=300, help="begin nothing new after so many")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--dags", type=int, default=20)
    options = parser.parse_args()
    begin = time.monotonic()
    torch.manual_seed(0)
    records: list[dict[str, Any]] = []
    everything: list[tuple[str, Callable[[], Made], bool]] = [(name, make, False) for name, make in cases()]
    for seed in range(options.dags):
        dag = Dag(seed).cuda().eval().requires_grad_(False)
        everything.append((f"dag {seed}", lambda dag=dag: (dag, (torch.randn(_SIDE, _SIDE, device="cuda"),)), True))
    for name, make, every in everything:
        if time.monotonic() - begin > options.seconds:
            print(f"no time for {name}", flush=True)
            continue
        try:
            record = {"case": name, **measure(*make(), options.runs, every)}
        except Exception as error:
            record = {"case": name, "wrong": options.runs, "error": f"{type(error).__name__}: {str(error)[:400]}"}
        records.append(record)
        print(record, flush=True)
        cuda_results.write(options, records)
    if wrong := [record["case"] for record in records if record["wrong"]]:
        raise SystemExit(f"other bits: {wrong}")


if __name__ == "__main__":
    main()
