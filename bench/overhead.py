# SPDX-License-Identifier: Apache-2.0
"""`python -m bench.overhead`: what does a call by torch.compile or `sl.jit` cost beside the program itself?

    python -m bench.overhead --json result.json --markdown table.md
    python -m bench.overhead --device cuda

Each case is timed in every way in turn, over and over, with one thread; a row has the median and the least. `empty` is a
backend of torch.compile that returns a constant: what Dynamo's own part of a call costs. `bare` is what `sl.compile` returns. The
backend reads parameters in each call; `live` is `sl.compile` with `freeze=False`, which does so too, and `frozen_backend` and
`frozen_jit` keep what they make of parameters, as `bare` does. Results of all
ways but `empty` are compared with eager's first. On a device the time of `add` is that until the call returns, of the others that
until the device is done.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import straightline as sl
import torch
from straightline.bench import machine
from torch import nn

_ROOT = Path(__file__).resolve().parents[1]
_WAYS = ("eager", "inductor", "empty", "backend", "jit", "live", "frozen_backend", "frozen_jit", "bare")


class Case(NamedTuple):
    """What is called, and how far results may be off."""

    function: Any
    args: tuple[torch.Tensor, ...]
    tolerance: float = 1e-4
    #: Until the device is done; else until the call returns.
    is_synced: bool = False


class Bar(NamedTuple):
    """`way` takes at most `factor` times `of`, the time of `beside`, and `more` microseconds."""

    case: str
    way: str
    factor: float
    of: str
    more: float = 0.0
    beside: str = ""

    @property
    def words(self) -> str:
        """Such as "bare + 1.5 us" or "0.2 x inductor"."""
        more = ([self.beside] if self.beside else []) + ([f"{self.more:g} us"] if self.more else [])
        return " + ".join([(f"{self.factor:g} x " if self.factor != 1 else "") + self.of, *more])


BARS = {
    "cpu": (
        Bar("add", "backend", 1, "empty", 1.5), Bar("add", "backend", 1, "inductor"),
        Bar("add", "jit", 1, "bare", 1.5), Bar("add", "jit", 0.2, "inductor"),
        Bar("mlp", "backend", 1, "empty", 2.5), Bar("mlp", "jit", 0.3, "eager"), Bar("mlp", "jit", 0.3, "inductor"),
        Bar("transformer", "backend", 0.25, "eager"), Bar("transformer", "jit", 1, "live", 25),
        Bar("transformer", "frozen_jit", 1, "bare", 25),
    ),
    "cuda": (
        Bar("add", "backend", 1, "empty", 5), Bar("add", "jit", 1.5, "bare"),
        *(
            bar
            for case in ("resnet18", "decode_step")
            for kind, program in (("", "live"), ("frozen_", "bare"))
            for bar in (
                Bar(case, f"{kind}backend", 1.1, program, beside="empty"), Bar(case, f"{kind}jit", 1.05, program),
            )
        ),
    ),
}  # fmt: skip


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


def _cases(device: str) -> dict[str, Callable[[], Case]]:
    if device == "cuda":
        return {"add": lambda: _add(device), "resnet18": _resnet18, "decode_step": _decode_step}
    mlp = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    return {
        "add": lambda: _add(device),
        "mlp": lambda: Case(mlp.eval(), (torch.randn(1, 64),)),
        "transformer": lambda: Case(_transformer().eval(), (torch.randn(1, 16, 64),)),
    }


def _add(device: str) -> Case:
    return Case(lambda a, b: a + b, (torch.randn(2, 3, device=device), torch.randn(2, 3, device=device)))


def _resnet18() -> Case:
    from bench.cases.resnet import resnet18

    return Case(resnet18().eval().cuda(), (torch.randn(1, 3, 224, 224, device="cuda"),), 1e-2, True)


def _decode_step() -> Case:
    from bench.cases.models import DecodeStep

    with torch.device("cuda"):
        model = DecodeStep(28).eval().to(torch.bfloat16)
    return Case(model, (torch.randn(1, 1, 1024, device="cuda").to(torch.bfloat16),), 0.1, True)


def _empty(module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    with torch.no_grad():
        result = module(*inputs)
    return lambda *args: result


def _ways(case: Case, chosen: list[str]) -> dict[str, Callable[..., Any]]:
    function, args = case.function, case.args
    made: dict[str, Callable[[], Callable[..., Any]]] = {
        "eager": lambda: function,
        "inductor": lambda: torch.compile(function),
        "empty": lambda: torch.compile(function, backend=_empty),
        "backend": lambda: torch.compile(function, backend="straightline", options={"threads": 1}),
        "jit": lambda: sl.jit(function, options={"threads": 1}),
        "bare": lambda: sl.compile(function, args, threads=1),
        "live": lambda: sl.compile(function, args, threads=1, freeze=False),
        "frozen_backend": lambda: torch.compile(
            function, backend="straightline", options={"threads": 1, "freeze": True}
        ),
        "frozen_jit": lambda: sl.jit(function, options={"threads": 1, "freeze": True}),
    }
    ways, want = {}, function(*args)
    for way in chosen:
        ways[way] = made[way]()
        got = ways[way](*args)
        if way != "empty":
            torch.testing.assert_close(got, want, rtol=case.tolerance, atol=case.tolerance * float(want.abs().max()))
    return ways


def _measure(ways: dict[str, Callable[..., Any]], case: Case, rounds: int) -> dict[str, dict[str, float]]:
    """Microseconds a call, from batches of about a millisecond that alternate."""
    on_device, args = case.args[0].is_cuda, case.args
    wait = torch.cuda.synchronize if on_device else lambda: None
    times: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, call in ways.items():
            for _ in range(5):
                call(*args)
            wait()
            count, begin = 0, time.perf_counter()
            while time.perf_counter() - begin < 1e-3:
                for _ in range(1 if case.is_synced else 20):
                    call(*args)
                    if case.is_synced:
                        wait()
                    count += 1
            times[way].append((time.perf_counter() - begin) / count * 1e6)
            wait()
    return {way: {"median_us": statistics.median(found), "least_us": min(found)} for way, found in times.items()}


def check(bars: tuple[Bar, ...], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each bar whose ways were timed what was taken and what is allowed, by medians."""
    times = {(row["case"], row["way"]): row["median_us"] for row in rows}
    found = []
    for bar in bars:
        taken, of = times.get((bar.case, bar.way)), times.get((bar.case, bar.of))
        beside = times.get((bar.case, bar.beside)) if bar.beside else 0.0
        if taken is None or of is None or beside is None:
            continue
        allowed = bar.factor * of + beside + bar.more
        facts = {"case": bar.case, "way": bar.way, "bar": bar.words, "taken_us": taken, "allowed_us": allowed}
        found.append({**facts, "met": taken <= allowed})
    return found


def markdown(facts: dict[str, Any]) -> str:
    """The medians, a line a case, and the bars."""
    ways = [way for way in _WAYS if any(row["way"] == way for row in facts["records"])]
    lines = ["| case | " + " | ".join(ways) + " |", "|---" * (len(ways) + 1) + "|"]
    for case in dict.fromkeys(row["case"] for row in facts["records"]):
        times = {row["way"]: f"{row['median_us']:.1f}" for row in facts["records"] if row["case"] == case}
        lines.append(f"| {case} | " + " | ".join(times.get(way, "") for way in ways) + " |")
    lines += ["", "| case | way | at most | us | taken | met |", "|---" * 6 + "|"]
    for bar in facts["bars"]:
        cells = (bar["case"], bar["way"], bar["bar"], f"{bar['allowed_us']:.1f}", f"{bar['taken_us']:.1f}")
        lines.append("| " + " | ".join(cells) + f" | {'yes' if bar['met'] else 'no'} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measures and prints; exit status 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--only", default="", help="cases whose name has this")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--ways", default=",".join(_WAYS), help="which, with commas between")
    parser.add_argument("--json", type=Path, help="writes the figures there")
    parser.add_argument("--markdown", type=Path, help="writes the tables there")
    options = parser.parse_args()
    torch.set_num_threads(1)
    chosen = [
        way for way in options.ways.split(",") if way != "inductor" or shutil.which("g++") or shutil.which("clang++")
    ]
    rows = []
    with torch.no_grad():
        for name, make in _cases(options.device).items():
            if options.only not in name:
                continue
            torch.compiler.reset()
            case = make()
            for way, times in _measure(_ways(case, chosen), case, options.rounds).items():
                rows.append({"case": name, "way": way, **times})
                print(
                    f"{name:12} {way:9} median {times['median_us']:8.2f} us, least {times['least_us']:8.2f} us",
                    flush=True,
                )
    facts = {
        "measurement": "overhead",
        "machine": machine.description(options.device),
        "versions": {"torch": torch.__version__},
        "date": machine.date(),
        "commit": machine.commit(_ROOT) or "unknown",
        "options": {"device": options.device, "threads": 1, "rounds": options.rounds},
        "records": rows,
        "bars": check(BARS[options.device], rows),
    }
    print("\n" + markdown(facts))
    if options.json:
        options.json.write_text(json.dumps(facts, indent=1) + "\n")
    if options.markdown:
        options.markdown.write_text(markdown(facts))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
