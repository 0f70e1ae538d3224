# SPDX-License-Identifier: Apache-2.0
"""The decode step on an NVIDIA device: answers against float64, kernels a layer, times, and what its kernels take.

    python -m bench.cuda_decode --json result.json --seconds 120

Answers come first; what does not fit into `--seconds` is left out, last the profile. Fails when an answer is further from float64
than four times eager's own distance.
"""

from __future__ import annotations

import argparse
import copy
import json
import platform
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import straightline as sl
import torch
from torch import Tensor, nn

from bench.cases.models import DecodeStep, EncoderLayer, Mlp

_APART = {"linear": "cuda.gemv"}  # each product a kernel of its own


def _median_us(samples: list[float]) -> float:
    return statistics.median(samples) * 1e6


def times_of(call: Callable[[], object], repeats: int = 100) -> dict[str, float]:
    """Microseconds until the call returns, until the device is done, and of a call in a sequence of calls."""
    for _ in range(10):
        call()
    torch.cuda.synchronize()
    enqueue, sync = [], []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        back = time.perf_counter()
        torch.cuda.synchronize()
        enqueue.append(back - start)
        sync.append(time.perf_counter() - start)
    batches = []
    for _ in range(10):
        start = time.perf_counter()
        for _ in range(10):
            call()
        torch.cuda.synchronize()
        batches.append((time.perf_counter() - start) / 10)
    return {"enqueue_us": _median_us(enqueue), "sync_us": _median_us(sync), "stream_us": _median_us(batches)}


def distance(value: Tensor, exact: Tensor) -> float:
    """Largest difference over largest value."""
    return ((value.double() - exact).abs().max() / exact.abs().max()).item()


def check(name: str, compiled: Callable[..., Any], model: nn.Module, x: Tensor) -> dict[str, Any]:
    """Compares a result, and eager's, with float64."""
    with torch.inference_mode():
        got, torchs = compiled(x), model(x)
        exact = copy.deepcopy(model).double()(x.double())
    mine, eager = distance(got, exact), distance(torchs, exact)
    bound = 4 * eager + (1e-5 if x.dtype is torch.float32 else 0)
    good = mine <= bound
    print(f"{name:28} {mine:.2e} (eager {eager:.2e}) {'ok' if good else 'WRONG'}", flush=True)
    return {"case": name, "error": mine, "eager_error": eager, "ok": good}


def captured(model: nn.Module, x: Tensor) -> Callable[[], object]:
    """Eager as one CUDA graph."""
    with torch.inference_mode():
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):
                model(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            model(x)
    return graph.replay


def reduce_overhead(layers: int, seconds: float) -> dict[str, Any] | None:
    """The record of torch.compile, from a process of its own; None if that is not done within `seconds`."""
    command = [sys.executable, "-m", "bench.cuda_decode", "--layers", str(layers), "--reduce-overhead"]
    try:
        done = subprocess.run(command, timeout=seconds, capture_output=True, text=True, check=True)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        print(
            f"reduce-overhead: {type(error).__name__} within {seconds:.0f} s: {str(error.stderr or '')[-500:]}",
            flush=True,
        )
        return None
    return dict(json.loads(done.stdout.splitlines()[-1]))


def time_reduce_overhead(layers: int) -> None:
    """Prints the record of torch.compile."""
    with torch.device("cuda"):
        model = DecodeStep(layers).eval().to(torch.bfloat16)
    x = torch.randn(1, 1, 1024, device="cuda").to(torch.bfloat16)
    with torch.inference_mode():
        start = time.perf_counter()
        compiled = torch.compile(model, mode="reduce-overhead")
        for _ in range(4):
            compiled(x)
        torch.cuda.synchronize()
        compile_s = time.perf_counter() - start
        times = times_of(lambda: compiled(x), 40)
    print(
        json.dumps({"contender": "reduce-overhead", "case": f"decode_step_{layers}", "compile_s": compile_s, **times})
    )


def compile_seconds(compiled: Any, total: float) -> dict[str, float]:
    """Seconds of compiling with torch's export, and without it."""
    return {"compile_s": total, "compile_own_s": total - compiled.explain()["compile_seconds"]["capture"]}


def profile_of(call: Callable[[], object]) -> dict[str, float]:
    """Microseconds a call by kernel, longest first. A process is slower after it has profiled: measure before."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(5):
            call()
        torch.cuda.synchronize()
    times: Counter[str] = Counter()
    for event in profile.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            times[event.name] += event.time_range.elapsed_us() / 5
    return {name: round(us, 2) for name, us in times.most_common()}


class _Run:
    """Collects records until the time is over."""

    def __init__(self, seconds: float) -> None:
        self.until = time.monotonic() + seconds
        self.records: list[dict[str, Any]] = []

    def left(self) -> float:
        return self.until - time.monotonic()

    def answers(self) -> None:
        """Checks the results of small models, and of the step with one, three and all layers."""
        with torch.device("cuda"):
            cases = [
                ("decode, 1 layer, bf16", DecodeStep(1), (1, 1, 1024), torch.bfloat16),
                ("decode, 3 layers, bf16", DecodeStep(3), (1, 1, 1024), torch.bfloat16),
                ("decode, 1 layer, f32", DecodeStep(1), (1, 1, 1024), torch.float32),
                ("mlp 8 x 256", Mlp((256,) * 9, last_relu=True), (1, 256), torch.float32),
                ("encoder 512", EncoderLayer(512, 8, 2048), (1, 16, 512), torch.float32),
                ("encoder 512, bf16", EncoderLayer(512, 8, 2048), (1, 4, 512), torch.bfloat16),
            ]
        for name, model, shape, dtype in cases:
            model = model.eval().to(dtype)
            x = torch.randn(*shape, device="cuda").to(dtype)
            try:
                compiled = sl.compile(model, (x,))
                self.records.append(check(name, compiled, model, x))
            except Exception as error:
                print(f"{name}: {type(error).__name__}: {str(error)[:1500]}", flush=True)
                self.records.append({"case": name, "ok": False, "error_text": str(error)[:1500]})

    def step(self, layers: int) -> None:
        """Times of the whole step, each contender while there is time."""
        with torch.device("cuda"):
            model = DecodeStep(layers).eval().to(torch.bfloat16)
        x = torch.randn(1, 1, 1024, device="cuda").to(torch.bfloat16)
        calls: dict[str, Callable[[], object]] = {}
        by_stream: Any = None
        wanted: tuple[tuple[str, dict[str, Any]], ...] = (
            ("straightline", {}),
            ("straightline, stream", {"launch": "stream"}),
            ("straightline, products apart", {"routes": _APART}),
        )  # fmt: skip
        for name, options in wanted:
            if self.left() < 25:
                break
            start = time.perf_counter()
            compiled = sl.compile(model, (x,), **options)
            compile_s = time.perf_counter() - start
            rows = [row for row in compiled.explain().statements if row["phase"] == "run"]
            print(f"{name}: compiled in {compile_s:.1f} s, {len(rows) / layers:.1f} kernels a layer", flush=True)
            with torch.inference_mode():
                record = {"contender": name, "case": f"decode_step_{layers}", "launches": len(rows),
                          **compile_seconds(compiled, compile_s), "phases_s": compiled.explain()["compile_seconds"],
                          **times_of(lambda compiled=compiled: compiled(x))}  # fmt: skip
            if name == "straightline":
                start = time.perf_counter()
                again = sl.compile(model, (x,), **options)
                record["compile_cached_s"] = compile_seconds(again, time.perf_counter() - start)["compile_own_s"]
            print(json.dumps(record), flush=True)
            self.records.append(record)
            calls[name] = compiled
            by_stream = compiled if "launch" in options else by_stream
            if name == "straightline":
                answer = check(f"decode, {layers} layers, bf16", compiled, model, x)
                self.records.append(answer)
        if self.left() > 12:
            graph = captured(model, x)
            record = {"contender": "eager_graph", "case": f"decode_step_{layers}", **times_of(graph, 40)}
            print(json.dumps(record), flush=True)
            self.records.append(record)
        if self.left() > 60 and (record := reduce_overhead(layers, self.left() - 15)):
            print(json.dumps(record), flush=True)
            self.records.append(record)
        if by_stream is not None and self.left() > 10:
            with torch.inference_mode():
                kernels = profile_of(lambda: by_stream(x))
            print(json.dumps({name: round(us / layers, 2) for name, us in kernels.items()}, indent=0), flush=True)
            self.records.append(
                {"contender": "straightline, stream", "case": f"decode_step_{layers}", "kernels": kernels}
            )


def main() -> None:
    """Checks, measures, prints, writes JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--layers", type=int, default=28)
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--reduce-overhead", action="store_true", help="time that contender alone")
    options = parser.parse_args()
    if options.reduce_overhead:
        time_reduce_overhead(options.layers)
        return
    run = _Run(options.seconds)
    seed = torch.seed() % 2**32
    torch.manual_seed(seed)
    torch.backends.mha.set_fastpath_enabled(False)
    print(f"seed {seed}, {torch.cuda.get_device_name(0)}, torch {torch.__version__}", flush=True)
    try:
        run.answers()
        run.step(options.layers)
    finally:
        if options.json:
            facts = {
                "machine": f"{torch.cuda.get_device_name(0)}, {platform.processor() or platform.machine()}",
                "versions": {"python": sys.version.split()[0], "torch": torch.__version__, "cuda": torch.version.cuda},
                "date": time.strftime("%Y-%m-%d"), "commit": options.commit, "seed": seed, "records": run.records,
            }  # fmt: skip
            options.json.write_text(json.dumps(facts, indent=1) + "\n")
    wrong = [record["case"] for record in run.records if record.get("ok") is False]
    if wrong:
        raise SystemExit(f"wrong: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
