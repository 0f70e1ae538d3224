# SPDX-License-Identifier: Apache-2.0
"""Real models on a device, which nobody tuned: ours against eager, its CUDA graph, and `torch.compile`.

    python -m bench.cuda_models --json result.json                       # ours, eager and a raw CUDA graph of eager
    python -m bench.cuda_models --peers reduce-overhead max-autotune     # and these; minutes of compilation each
    python -m bench.cuda_models --only vit_b_16_b1 --kernels             # what our kernels take, the longest first

Vision models of `torchvision` with TF32 allowed, batch 1 and 16; a prefill of `transformers`' Qwen3 of the 0.6B model's sizes in
bfloat16, 128 and 1,024 tokens, and a decode step of it with a static cache of 512. Weights are random, rescaled so that signals
survive. First each model is compiled by all, several at a time, each in a process of its own: compilers keep what they made on
disk. Then each is checked and timed, one at a time. An answer counts where it is at most twice as far from the same model in
float64 (vision) or float32 (text) as eager's is; what fails that is reported as wrong and not timed.
"""

from __future__ import annotations

import argparse
import copy
import functools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import straightline as sl
import torch
from straightline.testing import policy
from torch import Tensor, nn

from bench import cuda_results
from bench.tour.generation import Step
from bench.tour.models import declare_torchvision_ops, picture
from bench.tour.signals import rescale, vary_constants

_VISION = (
    "convnext_tiny", "vit_b_16", "swin_t", "resnet50", "efficientnet_b0", "regnet_y_400mf", "mobilenet_v3_large", "densenet121",
)  # fmt: skip
_ROUNDS, _LEAST_CALLS, _ROUND_US = 15, 5, 4000.0
_ALLOWED = 2.0  # times eager's distance from the reference
_FLOOR = 1e-5  # of the reference's norm, below which a distance is rounding
_VOCABULARY = 151936
_CACHE = 512


class Made(NamedTuple):
    """A case on the device: the module, its arguments, and what makes the module of the reference."""

    model: nn.Module
    args: tuple[Any, ...]
    exact: Callable[[], nn.Module]


def _vision(name: str, rows: int) -> Made:
    declare_torchvision_ops()
    import torchvision

    model = torchvision.models.get_model(name, weights=None).eval()
    vary_constants(model, torch.Generator().manual_seed(0))
    images = picture(224, rows)
    rescale(model, lambda called: called(images[:1]))
    model.cuda()
    return Made(model, (images.cuda(),), lambda: copy.deepcopy(model).double())


class _Prefill(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> Tensor:
        return self.model(input_ids=tokens, use_cache=False).logits


def _qwen() -> Any:
    declare_torchvision_ops()
    import transformers

    sizes = transformers.Qwen3Config(
        vocab_size=_VOCABULARY, hidden_size=1024, intermediate_size=3072, num_hidden_layers=28, num_attention_heads=16,
        num_key_value_heads=8, head_dim=128, tie_word_embeddings=True, max_position_embeddings=4096,
    )  # fmt: skip
    with torch.device("cuda"):
        model = transformers.Qwen3ForCausalLM(sizes).eval()
    vary_constants(model, torch.Generator().manual_seed(0))
    return model.to(torch.bfloat16)


def _prefill(tokens: int) -> Made:
    model = _Prefill(_qwen())
    given = (torch.randint(5, _VOCABULARY, (1, tokens), device="cuda"),)
    return Made(model, given, lambda: copy.deepcopy(model).float())


def _static_cache(model: Any) -> nn.Module:
    from transformers.integrations.executorch import TorchExportableModuleWithStaticCache

    model.generation_config.use_cache = True
    model.generation_config.cache_implementation = "static"
    model.generation_config.cache_config = {"batch_size": 1, "max_cache_len": _CACHE}
    device = next(model.parameters()).device
    return Step(TorchExportableModuleWithStaticCache(model, batch_size=1, max_cache_len=_CACHE, device=device)).eval()


def _decode() -> Made:
    """A decode step. The reference gets a cache of its own: converting the module would not convert the cache."""
    model = _qwen()
    token, position = torch.tensor([[17]], device="cuda"), torch.tensor([100], device="cuda")
    return Made(_static_cache(model), (token, position), lambda: _static_cache(copy.deepcopy(model).float()))


def cases() -> dict[str, Callable[[], Made]]:
    """Functions that make the cases, by name."""
    found: dict[str, Callable[[], Made]] = {
        f"{name}_b{rows}": functools.partial(_vision, name, rows) for rows in (1, 16) for name in _VISION
    }
    found |= {f"prefill_{tokens}": functools.partial(_prefill, tokens) for tokens in (128, 1024)}
    return found | {"decode_static_cache": _decode}


def _us(call: Callable[[], object]) -> list[float]:
    """Microseconds of a call in a sequence of calls, for several rounds of some milliseconds each."""
    for _ in range(3):
        call()
    rounds: list[float] = []
    calls = _LEAST_CALLS
    for _ in range(_ROUNDS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        rounds.append(begin.elapsed_time(end) * 1000 / calls)
        calls = max(_LEAST_CALLS, round(_ROUND_US / rounds[-1]))
    return sorted(rounds[1:])


def _first(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else value[0]


def _distance(value: Tensor, exact: Tensor) -> float:
    return ((value.double() - exact.double()).norm() / exact.double().norm()).item()


def _contenders(made: Made, peers: list[str], record: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    """The compiled contenders by name; failures are noted in the record."""
    model, args = made.model, made.args
    found: dict[str, Callable[[], Any]] = {"eager": lambda: model(*args)}

    def add(name: str, make: Callable[[], Callable[[], Any]]) -> None:
        begin = time.perf_counter()
        try:
            call = make()
            call()
            torch.cuda.synchronize()
            found[name] = call
        except Exception as error:
            record.setdefault("failed", {})[name] = f"{type(error).__name__}: {error}"[:600]
        record.setdefault("compile_s", {})[name] = time.perf_counter() - begin

    def ours() -> Callable[[], Any]:
        compiled = sl.compile(model, args)
        rows = policy.launches(compiled)
        record["kernels"] = len(rows)
        record["of_torch"] = sorted({row["op"] for row in rows if row["backend"] == "aten"})
        return lambda: compiled(*args)

    add("straightline", ours)
    for mode in peers:

        def peer(mode: str = mode) -> Callable[[], Any]:
            torch._dynamo.reset()
            compiled = torch.compile(model, mode=mode)
            for _ in range(3):
                compiled(*args)
            return lambda: compiled(*args)

        add(mode, peer)
    return found


def _reference(made: Made) -> Tensor:
    exact = made.exact()
    dtype = next(exact.parameters()).dtype
    given = [x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x for x in made.args]
    flags = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    try:
        return _first(exact(*given)).clone()
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = flags


def _kernels(made: Made) -> list[dict[str, Any]]:
    """Times of our kernels, launched by stream: name, calls, microseconds of a call of the program."""
    model, args = made.model, made.args
    compiled = sl.compile(model, args, launch="stream")
    for _ in range(3):
        compiled(*args)
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(5):
            compiled(*args)
        torch.cuda.synchronize()
    rows = [
        {"kernel": event.key[:100], "calls": event.count / 5, "us": event.self_device_time_total / 5}
        for event in profile.key_averages()
        if event.self_device_time_total
    ]
    return sorted(rows, key=lambda row: -row["us"])


@torch.no_grad()
def _measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """The record of a case: compiled, checked, timed."""
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    made = cases()[name]()
    record: dict[str, Any] = {"case": name}
    found = _contenders(made, options.peers, record)
    if options.compile_only:
        return record
    if options.kernels:
        return record | {"profile": _kernels(made)}
    exact = _reference(made)
    distances = {which: _distance(_first(call()), exact) for which, call in found.items()}
    record["distance"] = distances
    limit = _ALLOWED * max(distances["eager"], _FLOOR)
    record["wrong"] = [which for which in found if not distances[which] <= limit]
    del exact
    try:
        found["eager_graph"] = cuda_results.graph_of(lambda: made.model(*made.args))
    except Exception as error:
        record.setdefault("failed", {})["eager_graph"] = f"{type(error).__name__}: {error}"[:600]
    timed = {which: _us(call) for which, call in found.items() if which not in record["wrong"]}
    record["us"] = {which: statistics.median(rounds) for which, rounds in timed.items()}
    record["us_p10_p90"] = {which: [rounds[1], rounds[-2]] for which, rounds in timed.items()}
    peers = {which: us for which, us in record["us"].items() if which not in ("straightline", "eager")}
    if "straightline" in record["us"] and peers:
        best = min(peers, key=lambda which: peers[which])
        record |= {"best_peer": best, "ratio": record["us"]["straightline"] / peers[best]}
    return record


def _in_process(name: str, options: argparse.Namespace, compile_only: bool) -> dict[str, Any]:
    command = [sys.executable, "-W", "ignore", "-m", "bench.cuda_models", "--case", name, "--peers", *options.peers]
    command += ["--compile-only"] if compile_only else ["--kernels"] if options.kernels else []
    cores = len(os.sched_getaffinity(0))
    threads = max(2, cores // options.at_once) if compile_only else min(8, cores)
    environment = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": str(threads)}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=options.seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return {"case": name, "error": f"not done after {options.seconds:g} s"}
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return {"case": name, "error": f"ended with {done.returncode}: {done.stderr[-600:]}"}
    return json.loads(lines[-1])


def _line(record: dict[str, Any]) -> str:
    if "error" in record:
        return f"{record['case']:24} {record['error']}"
    if "profile" in record:
        rows = "".join(
            f"\n  {row['us']:9.1f} us {row['calls']:6.0f} x {row['kernel']}" for row in record["profile"][:25]
        )
        return f"{record['case']}: {record['kernels']} kernels{rows}"
    times = " ".join(f"{which} {us:.0f}" for which, us in record["us"].items())
    ratio = f"{record['ratio']:.2f} x {record['best_peer']}" if "ratio" in record else ""
    more = "".join(f" {word}: {record[word]}" for word in ("wrong", "failed", "of_torch") if record.get(word))
    return f"{record['case']:24} {ratio:28} {record.get('kernels', 0):4} kernels  {times}{more}"


def main() -> int:
    """Runs the command."""
    parser = cuda_results.parser(__doc__)
    parser.add_argument("--only", nargs="*", help="cases of that name, or whose name begins so")
    parser.add_argument("--peers", nargs="*", default=[], help="modes of torch.compile")
    parser.add_argument("--kernels", action="store_true", help="what our kernels take, nothing else")
    parser.add_argument("--seconds", type=float, default=240, help="for a case")
    parser.add_argument("--at-once", type=int, default=max(1, (os.cpu_count() or 2) // 2), help="compilations")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--compile-only", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("there is no CUDA device")
    if options.case:
        print(json.dumps(_measure(options.case, options)))
        return 0
    every = cases()
    wanted = options.only or [""]
    names = [
        name for name in every if name in wanted or any(name.startswith(word) for word in wanted if word not in every)
    ]
    if not names:
        parser.error(f"no case begins with one of {options.only}")
    begin = time.monotonic()
    with ThreadPoolExecutor(options.at_once) as pool:
        list(pool.map(lambda name: _in_process(name, options, compile_only=True), names))
    print(f"compiled after {time.monotonic() - begin:.0f} s", flush=True)
    records = []
    for name in names:
        records.append(_in_process(name, options, compile_only=False))
        print(_line(records[-1]), flush=True)
        cuda_results.write(options, records)
    return int(any("error" in record or record.get("wrong") for record in records))


if __name__ == "__main__":
    sys.exit(main())
