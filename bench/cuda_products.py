# SPDX-License-Identifier: Apache-2.0
"""Products by our own kernels and by cuBLASLt on a CUDA device: what the estimates of both rest on, and how libraries behave.

    python -m bench.cuda_products --json result.json

Fails when an answer is wrong, or a library's work is captured more often than its arguments change.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import straightline as sl
import torch
from straightline import _call
from torch import Tensor, nn
from torch.nn import functional as F

from bench import cuda_results

_ROWS = (32, 128, 512, 2048)
_SIZES = ((1024, 1024), (4096, 4096))
_DTYPES = (torch.float32, torch.bfloat16)
_OURS = {"linear": "cuda", "matmul": "cuda"}
_LIBRARY = {"linear": "cublaslt", "matmul": "cublaslt"}
_JOBS = [(*job[:2], *job[2], job[3]) for job in itertools.product(_DTYPES, _ROWS, _SIZES, (_OURS, _LIBRARY))]


class _Layers(nn.Module):
    """Bias and GELU in an epilogue, a product without either, one with ReLU and more behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.last = nn.Linear(256, 512), nn.Linear(512, 256, bias=False), nn.Linear(256, 256)

    def forward(self, x: Tensor) -> Tensor:
        x = self.down(F.gelu(self.up(x), approximate="tanh"))
        return x + torch.tanh(F.relu(self.last(x)))


def _compile(
    dtype: torch.dtype, rows: int, features: int, hidden: int, routes: dict[str, str]
) -> tuple[Any, Any, Tensor]:
    torch.manual_seed(0)
    model = nn.Linear(features, hidden, device="cuda").to(dtype).requires_grad_(False)
    x = torch.randn(rows, features, device="cuda").to(dtype)
    return model, sl.compile(model, (x,), routes=routes), x


def _warm(arguments: tuple[Any, ...]) -> None:
    _compile(*arguments)


def _judge(model: Callable[..., Tensor], inputs: tuple[Tensor, ...], got: Tensor, what: str) -> float:
    """Fails where the answer is further from float64 than four times eager's, or some roundings; gives the error."""
    import copy

    wide = copy.deepcopy(model).double() if isinstance(model, nn.Module) else model
    exact = wide(*(x.double() for x in inputs))
    scale = exact.abs().max()
    allowed = 4 * (model(*inputs).double() - exact).abs().max() + 8 * torch.finfo(got.dtype).eps * scale
    error = (got.double() - exact).abs().max()
    assert got.shape == exact.shape and error <= allowed, (
        f"{what}: error {error.item():.3g}, {allowed.item():.3g} is allowed"
    )
    return (error / scale).item()


def _stream_us(call: Callable[[], object]) -> float:
    """Microseconds of a call that follows others (median of samples)."""
    samples = []
    for _ in range(7):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(30):
            call()
        torch.cuda.synchronize()
        samples.append((time.perf_counter() - start) * 1e6 / 30)
    return statistics.median(samples[1:])


def _asked(work: Callable[[], object]) -> dict[str, int]:
    before = _call.cuda_calls()
    work()
    after = _call.cuda_calls()
    return {kind: after[kind] - before[kind] for kind in before if kind != "others" and after[kind] != before[kind]}


def check_captures() -> None:
    """A call at known addresses is one launch; a new address makes one new capture of each library call that reads it."""
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        model = _Layers().to("cuda", dtype).requires_grad_(False)
        x, other = (torch.randn(64, 256, device="cuda").to(dtype) for _ in range(2))
        compiled = sl.compile(model, (x,), routes=_LIBRARY)
        assert compiled.explain()["launch"] == "graph", compiled.explain()["launch_reason"]
        out, apart = torch.empty_like(x), torch.empty_like(x)
        compiled(x, out=out)
        _judge(model, (x,), out, f"layers {dtype}")
        asked = _asked(lambda: [compiled(x, out=out) for _ in range(20)])
        assert asked == {"graph_launches": 20}, asked
        asked = _asked(lambda: compiled(other, out=apart))
        assert asked.get("captures") == 1 and "instantiations" not in asked and "synchronizations" not in asked, asked
        _judge(model, (other,), apart, f"layers {dtype}, other addresses")
        by_stream = sl.compile(model, (x,), routes=_LIBRARY, launch="stream")
        assert torch.equal(by_stream(x), compiled(x)), "by stream another answer than in a graph"
        assert "captures" not in _asked(lambda: by_stream(x))
        graph = torch.cuda.CUDAGraph()
        fixed = x.clone()
        with torch.cuda.graph(graph):
            captured = compiled(fixed)
        fixed.copy_(other)
        graph.replay()
        _judge(model, (other,), captured, f"layers {dtype} in an outer graph")


def check_operands() -> None:
    """Checks other strides and batches, and addresses with less alignment than the library prefers."""
    shapes = (((6, 65, 33), (6, 33, 17)), ((2, 3, 65, 33), (3, 33, 17)), ((64, 128), (128, 64)))
    for dtype in (torch.float32, torch.bfloat16):
        for first, second in shapes:
            a, b = (torch.randn(sizes, device="cuda").to(dtype) for sizes in (first, second))
            given = [(a, b), (a.mT.contiguous().mT, b.mT.contiguous().mT), (a.repeat_interleave(2, -1)[..., ::2], b)]
            shifted = torch.randn(a.numel() + 1, device="cuda").to(dtype)[1:].view(a.shape)
            given.append((shifted, b))
            for x, y in given:
                compiled = sl.compile(lambda x, y: F.relu(x @ y), (x, y), routes=_LIBRARY)
                what = f"{first} @ {second} {dtype} {x.stride()} {y.stride()}"
                _judge(lambda x, y: F.relu(x @ y), (x, y), compiled(x, y), what)


def check_interpreter() -> None:
    """Checks that the interpreter, which runs one statement at a time, gives the same bits."""
    for routes in (_OURS, _LIBRARY):
        for dtype in (torch.float32, torch.bfloat16):
            model = nn.Sequential(_Layers(), nn.LayerNorm(256), _Layers()).to("cuda", dtype).requires_grad_(False)
            x = torch.randn(48, 256, device="cuda").to(dtype)
            fast = sl.compile(model, (x,), routes=routes)
            slow = sl.compile(model, (x,), routes=routes, fast_path=False)
            assert slow.explain()["path"] == "interpreter"
            for _ in range(3):
                x = torch.randn_like(x)
                assert torch.equal(fast(x), slow(x)), f"interpreted: other bits, {dtype}, {routes}"


def check_python() -> None:
    """Checks that emitted Python gives the same bits: in a graph, by stream, and after its text was assigned again."""
    model = nn.Sequential(_Layers(), nn.LayerNorm(256), _Layers()).cuda().requires_grad_(False)
    x = torch.randn(48, 256, device="cuda")
    for routes in (_OURS, _LIBRARY):
        fast = sl.compile(model, (x,), routes=routes)
        for launch in ("graph", "stream"):
            python = sl.compile(model, (x,), routes=routes, launch=launch, emit="python")
            for _ in range(3):
                x = torch.randn_like(x)
                assert torch.equal(fast(x), python(x)), f"by python: other bits, {launch}, {routes}"
            python.code = python.code
            assert torch.equal(fast(x), python(x))
    text = python.code
    python.code = text.replace("block=", "block=1", 1)
    try:
        python(x)
    except sl.UserError as error:
        assert "which it was compiled for" in str(error), error
    else:
        raise AssertionError("a block of another size was taken")


def measure() -> list[dict[str, Any]]:
    """A record for each product and each way to do it."""
    records = []
    for dtype, rows, features, hidden, routes in _JOBS:
        model, compiled, x = _compile(dtype, rows, features, hidden, routes)
        name = f"{rows}x{features}x{hidden} {str(dtype).removeprefix('torch.')}"
        out = compiled(x)
        error = _judge(model, (x,), out, name)
        records.append({"case": name, "contender": routes["linear"], "stream_us": _stream_us(lambda: compiled(x, out=out)),
                        "relative_error": error, "why": compiled.explain().statements[-1]["why"]})  # fmt: skip
        if routes is _LIBRARY:
            records.append({"case": name, "contender": "eager", "stream_us": _stream_us(lambda: model(x))})
            mine, theirs, eager = (record["stream_us"] for record in records[-3:])
            why = records[-2]["why"][:90]
            print(f"{name:28} cuda {mine:8.1f}   cublaslt {theirs:8.1f}   eager {eager:8.1f}   {why}", flush=True)
    return records


@torch.no_grad()
def main() -> None:
    """Checks, measures, writes JSON."""
    options = cuda_results.parser(__doc__).parse_args()
    seed = cuda_results.seeded()
    print(f"seed {seed}, {torch.cuda.get_device_name(0)}, torch {torch.__version__}")
    failures = []
    with ProcessPoolExecutor(12, mp_context=get_context("spawn")) as pool:
        warming = [pool.submit(_warm, job) for job in _JOBS]  # into the cache on disk
        for check in (check_captures, check_operands, check_interpreter, check_python):
            try:
                check()
                print(f"{check.__name__}: ok", flush=True)
            except Exception as error:
                failures.append(f"{check.__name__}: {type(error).__name__}: {str(error)[:1500]}")
                print(failures[-1], flush=True)
        for one in warming:
            one.result()
    records = measure()
    cuda_results.write(options, records, seed=seed)
    if failures:
        raise SystemExit(f"{len(failures)} failures")


if __name__ == "__main__":
    main()
