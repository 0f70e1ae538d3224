# SPDX-License-Identifier: Apache-2.0
"""What a call costs on a CUDA device where the addresses of its operands change, what it asks of the driver, and compile times.

    python -m bench.cuda_addresses --json result.json

`enqueue_us` until the call is back, `sync_us` until the device is done (medians of 200 calls); `asked` of the driver, a call.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import straightline as sl
import torch
from straightline import _call
from straightline.bench import machine
from straightline.demo_models import ResNet18
from torch import Tensor, nn

from bench.cases.models import DecodeStep

_CALLS = 200


def _median_us(seconds: list[float]) -> float:
    return round(statistics.median(seconds) * 1e6, 2)


def _measured(call: Callable[[], object]) -> dict[str, Any]:
    for _ in range(30):
        call()
    torch.cuda.synchronize()
    before = _call.cuda_calls()
    enqueue, sync = [], []
    for _ in range(_CALLS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        back = time.perf_counter()
        torch.cuda.synchronize()
        enqueue.append(back - start)
        sync.append(time.perf_counter() - start)
    asked = {
        kind: (count - before[kind]) / _CALLS for kind, count in _call.cuda_calls().items() if count != before[kind]
    }
    asked.pop("others", None)
    return {"enqueue_us": _median_us(enqueue), "sync_us": _median_us(sync), "asked": asked}


def _models() -> dict[str, Callable[[], tuple[nn.Module, Tensor]]]:
    def resnet(dtype: torch.dtype) -> tuple[nn.Module, Tensor]:
        return ResNet18().eval().to("cuda", dtype), torch.randn(1, 3, 224, 224, device="cuda").to(dtype)

    def decode() -> tuple[nn.Module, Tensor]:
        with torch.device("cuda"):
            model = DecodeStep(28).eval().to(torch.bfloat16)
        return model, torch.randn(1, 1, 1024, device="cuda").to(torch.bfloat16)

    return {
        "resnet18 b1 tf32": lambda: resnet(torch.float32),
        "resnet18 b1 fp16": lambda: resnet(torch.float16),
        "decode step": decode,
    }


def _ways(compiled: Callable[..., Any], x: Tensor) -> dict[str, Callable[[], object]]:
    """Calls whose result, or input, is at other addresses than before in some way."""
    out = torch.empty_like(compiled(x))
    kept: list[Any] = []
    last: dict[int, Any] = {}
    numbers = itertools.count()
    inputs = [x.clone(), x.clone()]
    return {
        "out=": lambda: compiled(x, out=out),
        "result let go": lambda: compiled(x),
        "the last result kept": lambda: last.update({0: compiled(x)}),
        "the last three kept": lambda: last.update({next(numbers) % 3: compiled(x)}),
        "two inputs in turn": lambda: last.update({0: compiled(inputs[next(numbers) % 2])}),
        "all results kept": lambda: kept.append(compiled(x)),
    }


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    records: list[dict[str, Any]] = []
    for name, make in _models().items():
        model, x = make()
        os.environ["STRAIGHTLINE_CACHE_DIR"] = tempfile.mkdtemp()
        for what in ("compiled", "from the cache"):
            start = time.perf_counter()
            compiled = sl.compile(model.requires_grad_(False), (x,))
            compiled(x)
            torch.cuda.synchronize()
            seconds = time.perf_counter() - start
            phases = compiled.explain()["compile_seconds"]
            own = seconds - phases["capture"]
            records.append({"case": name, "what": what, "seconds": seconds, "own_seconds": own, "phases": phases})
            print(f"{name:18}{what:24}{seconds:8.2f} s, without torch's export {own:6.2f} s", flush=True)
        for way, call in _ways(compiled, x).items():
            times = _measured(call)
            records.append({"case": name, "what": way, **times})
            shown = f"enqueue {times['enqueue_us']:7.2f}  sync {times['sync_us']:8.2f}  {times['asked']}"
            print(f"{name:18}{way:24}{shown}", flush=True)
    if options.json:
        about = {
            "machine": machine.description("cuda"),
            "versions": {"torch": torch.__version__},
            "date": machine.date(),
        }
        options.json.write_text(json.dumps({**about, "records": records}, indent=1) + "\n")


if __name__ == "__main__":
    main()
