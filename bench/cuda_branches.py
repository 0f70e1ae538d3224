# SPDX-License-Identifier: Apache-2.0
"""What independent branches of a model would win by running at once: our kernels, captured on one stream and on several.

    python -m bench.cuda_branches --json result.json

Each part of a model is a function compiled by itself. They are captured into one CUDA graph twice: in order on one stream, and
forked and joined where nothing depends. The difference is what branches on several streams can win; both have plain edges. Beside
them stands the program in its own graph, with concurrent branches and without (those of another script:
bench/results/h200_db137ca.json).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import straightline as sl
import torch
from torch import Tensor, nn
from torch.nn import functional as F

#: A stage is a list of independent functions. They take no arguments: their tensors stay the same.
Stages = list[list[Callable[[], object]]]


class Part(nn.Module):
    """A module of a function and of the layers that it uses."""

    def __init__(self, function: Callable[..., Tensor], layers: nn.Module) -> None:
        super().__init__()
        self.function, self.layers = function, layers

    def forward(self, *inputs: Tensor) -> Tensor:
        """Calls the function."""
        return self.function(*inputs)


def part(layers: nn.Module, function: Callable[..., Tensor], *inputs: Tensor) -> tuple[Callable[[], object], Tensor]:
    """A compiled part that writes into a result of its own, and that result."""
    compiled = sl.compile(Part(function, layers).eval(), inputs, launch="stream")
    out = compiled(*inputs)
    return (lambda: compiled(*inputs, out=out)), out


def residual_block(channels: int, side: int) -> tuple[Stages, Any, Tensor]:
    """ResNet-18's first block of a stage at batch 1: a 1 x 1 convolution beside a 3 x 3 one."""
    half = channels // 2
    first, second = nn.Conv2d(half, channels, 3, 2, 1), nn.Conv2d(channels, channels, 3, 1, 1)
    down = nn.Conv2d(half, channels, 1, 2)
    whole = nn.ModuleList([first, second, down]).cuda().eval().requires_grad_(False)
    whole.to(memory_format=torch.channels_last)
    x = torch.randn(1, half, side, side, device="cuda").contiguous(memory_format=torch.channels_last)
    a, y = part(whole, lambda x: F.relu(first(x)), x)
    b, z = part(whole, lambda x: down(x), x)
    c, _ = part(whole, lambda y, z: F.relu(second(y) + z), y, z)
    return [[a, b], [c]], Part(lambda x: F.relu(second(F.relu(first(x))) + down(x)), whole), x


def inception() -> tuple[Stages, Any, Tensor]:
    """A block of four branches (GoogLeNet's 4b) at batch 1."""
    one, to3, three = nn.Conv2d(512, 160, 1), nn.Conv2d(512, 112, 1), nn.Conv2d(112, 224, 3, padding=1)
    to5, five, last = nn.Conv2d(512, 24, 1), nn.Conv2d(24, 64, 3, padding=1), nn.Conv2d(512, 64, 1)
    whole = nn.ModuleList([one, to3, three, to5, five, last]).cuda().eval().requires_grad_(False)
    whole.to(memory_format=torch.channels_last)
    x = torch.randn(1, 512, 14, 14, device="cuda").contiguous(memory_format=torch.channels_last)
    branches = [
        lambda x: F.relu(one(x)), lambda x: F.relu(three(F.relu(to3(x)))), lambda x: F.relu(five(F.relu(to5(x)))),
        lambda x: F.relu(last(F.max_pool2d(x, 3, 1, 1))),
    ]  # fmt: skip
    made = [part(whole, branch, x) for branch in branches]
    join, _ = part(whole, lambda *y: torch.cat(y, 1), *(out for _, out in made))
    return (
        [[run for run, _ in made], [join]],
        Part(lambda x: torch.cat([branch(x) for branch in branches], 1), whole),
        x,
    )


def both_ways(kind: type[nn.RNNBase], length: int) -> tuple[Stages, Any, Tensor]:
    """A bidirectional layer: two independent chains of `length` steps."""
    there = kind(128, 256).cuda().eval().requires_grad_(False)
    back = kind(128, 256).cuda().eval().requires_grad_(False)
    x = torch.randn(length, 1, 128, device="cuda")
    a, y = part(there, lambda x: there(x)[0], x)
    b, z = part(back, lambda x: back(x.flip(0))[0].flip(0), x)
    c, _ = part(nn.Identity(), lambda y, z: torch.cat([y, z], -1), y, z)
    both = Part(lambda x: torch.cat([there(x)[0], back(x.flip(0))[0].flip(0)], -1), nn.ModuleList([there, back]))
    return [[a, b], [c]], both, x


def recommender(rows: int) -> tuple[Stages, Any, Tensor, Tensor]:
    """DLRM: 26 lookups beside a small MLP, then their products and another MLP."""
    tables = nn.ModuleList([nn.Embedding(100_000, 64) for _ in range(26)])
    bottom = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU())
    top = nn.Sequential(nn.Linear(64 + 27 * 27, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 1))
    layers = nn.ModuleList([tables, bottom, top]).cuda().eval().requires_grad_(False)
    x, ids = torch.randn(rows, 13, device="cuda"), torch.randint(0, 100_000, (rows, 26), device="cuda")

    def looked_up(ids: Tensor) -> Tensor:
        return torch.stack([table(ids[:, i]) for i, table in enumerate(tables)], 1)

    def merged(y: Tensor, z: Tensor) -> Tensor:
        both = torch.cat([y[:, None], z], 1)
        return top(torch.cat([y, (both @ both.transpose(1, 2)).flatten(1)], 1))

    a, y = part(bottom, lambda x: bottom(x), x)
    b, z = part(tables, looked_up, ids)
    c, _ = part(top, merged, y, z)
    return [[a, b], [c]], Part(lambda x, ids: merged(bottom(x), looked_up(ids)), layers), x, ids


def captured(stages: Stages, streams: list[torch.cuda.Stream]) -> torch.cuda.CUDAGraph:
    """The stages as a graph; the parts of a stage take turns on the streams."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        main = torch.cuda.current_stream()
        for stage in stages:
            used = []
            for i, run in enumerate(stage):
                stream = [main, *streams][i % (len(streams) + 1)]
                if stream is not main and stream not in used:
                    stream.wait_stream(main)
                    used.append(stream)
            for i, run in enumerate(stage):
                with torch.cuda.stream([main, *streams][i % (len(streams) + 1)]):
                    run()
            for stream in used:
                main.wait_stream(stream)
    return graph


def sync_us(call: Callable[[], object]) -> float:
    """Median microseconds from the call until the device is done."""
    times = []
    for _ in range(300):
        begin = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) * 1e6)
    return sorted(times[50:])[125]


@torch.no_grad()
def main() -> None:
    """Prints the times of all cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", default="", help="what the names of cases have in common")
    options = parser.parse_args()
    path = options.json
    cases: list[tuple[str, Callable[[], tuple[Any, ...]]]] = [
        *(
            (f"residual block {c} at {s}", lambda c=c, s=s: residual_block(c, s))
            for c, s in ((128, 56), (256, 28), (512, 14))
        ),
        ("inception block at 14", inception),
        ("recommender, 1 row", lambda: recommender(1)),
        ("recommender, 128 rows", lambda: recommender(128)),
        ("recommender, 2048 rows", lambda: recommender(2048)),
        ("bidirectional LSTM, 20 steps", lambda: both_ways(nn.LSTM, 20)),
        ("bidirectional GRU, 20 steps", lambda: both_ways(nn.GRU, 20)),
    ]
    rows = []
    print(f"{'':32} one stream   several      whole  with concurrent_branches=False (its own graph), us until done")
    for name, make in (case for case in cases if options.only in case[0]):
        try:
            stages, model, *inputs = make()
            one, several = captured(stages, []), captured(stages, [torch.cuda.Stream() for _ in range(3)])
            whole, ordered = (
                sl.compile(model, tuple(inputs)),
                sl.compile(model, tuple(inputs), concurrent_branches=False),
            )
            want = whole(*inputs)
            row: dict[str, Any] = {"case": name, "launch": whole.explain()["launch"]}
            row["nodes"] = sum(r["phase"] == "run" for r in whole.explain().statements)
            row["branches"] = len({r.get("branch", 0) for r in whole.explain().statements if r["phase"] == "run"})
            for _ in range(2):
                calls = {
                    "one_us": one.replay, "several_us": several.replay, "whole_us": lambda: whole(*inputs, out=want),
                    "whole_one_order_us": lambda: ordered(*inputs, out=want),
                }  # fmt: skip
                for key, call in calls.items():
                    row[key] = min(row.get(key, 1e9), round(sync_us(call), 2))
            rows.append(row)
            times = " ".join(f"{row[key]:10.1f}" for key in ("one_us", "several_us", "whole_us", "whole_one_order_us"))
            print(f"{name:32} {times} ({row['nodes']})", flush=True)
        except Exception as error:
            print(f"{name:32} {type(error).__name__}: {str(error)[:300]}", flush=True)
    if path:
        facts = {"machine": torch.cuda.get_device_name(0), "torch": torch.__version__, "cuda": torch.version.cuda}
        path.write_text(json.dumps({**facts, "date": time.strftime("%Y-%m-%d"), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
