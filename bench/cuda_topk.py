# SPDX-License-Identifier: Apache-2.0
"""topk, sort and sampling on a CUDA device against eager and torch.compile: are answers right, and does it pay?

    python -m bench.cuda_topk --json result.json

Answers first, also of ties, NaN and both zeros: they are those of a stable sort. `stream_us` is a call's share of a CUDA graph of
20 calls, `call_us` that of 50 calls one after the other, with what the host takes. Fails when an answer is wrong.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import straightline as sl
import torch
from torch import Tensor, nn

from bench import cuda_results

_CALLS = 20
_F32, _BF16 = torch.float32, torch.bfloat16
Function = Callable[[Tensor], Any]


class _Of(nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


def _topk(k: int, largest: bool = True) -> Function:
    return lambda x: tuple(x.topk(k, -1, largest))


def _sort(descending: bool = False) -> Function:
    return lambda x: tuple(x.sort(dim=-1, stable=True, descending=descending))


def _draw(x: Tensor) -> Tensor:
    values, places = (x / 0.8).topk(50)
    return places.gather(-1, torch.multinomial(values.softmax(-1), 1))


def _nucleus(x: Tensor) -> Tensor:
    """Probabilities of the fewest tokens that have 0.9 of it, in falling order."""
    p, places = (x / 0.8).softmax(-1).sort(dim=-1, descending=True)
    return torch.where(p.cumsum(-1) - p < 0.9, p, 0.0)


def _draw_with_noise(x: Tensor, noise: Tensor) -> Tensor:
    values, places = (x / 0.8).topk(50)
    return places.gather(-1, (values.softmax(-1) / noise).argmax(-1, keepdim=True))


_LOGITS = [((rows, 151_936), dtype, k) for rows in (1, 8) for dtype in (_F32, _BF16) for k in (1, 50, 1000)]
_ROUTERS = [((rows, experts), _F32, 8) for rows in (1, 128, 4096) for experts in (64, 128)]
_TIMED: list[tuple[str, Function, tuple[int, ...], torch.dtype]] = [
    *((f"top {k}", _topk(k), shape, dtype) for shape, dtype, k in [*_LOGITS, *_ROUTERS]),
    ("top 50", _topk(50), (64, 1024), _F32),
    ("sort", _sort(), (64, 1024), _F32),
    ("sort", _sort(), (64, 1024), _BF16),
    ("sort", _sort(), (8, 8192), _F32),
    ("sort", _sort(), (8, 8192), _BF16),
    ("sort", _sort(), (4096, 64), _F32),
    ("sort", _sort(), (8, 16384), _F32),
    ("sort", _sort(), (8, 32768), _F32),
    ("sort", _sort(), (1, 151_936), _F32),
    ("sort", _sort(), (8, 151_936), _BF16),
    ("cumsum", lambda x: x.cumsum(-1), (1, 151_936), _F32),
    ("cumsum", lambda x: x.cumsum(-1), (8, 151_936), _F32),
    ("cumsum", lambda x: x.cumsum(-1), (64, 4096), _F32),
    ("top p", _nucleus, (1, 151_936), _F32),
    ("draw", _draw, (1, 151_936), _F32),
    ("draw", _draw, (8, 151_936), _F32),
]
#: With torch.compile too, which takes long.
_COMPILED = {
    ("top 50", (1, 151_936), _F32),
    ("top 8", (128, 128), _F32),
    ("sort", (64, 1024), _F32),
    ("draw", (1, 151_936), _F32),
}

#: Only their answers: (k or None for a sort, largest, shape, dtype).
_ANSWERS: list[tuple[int | None, bool, tuple[int, ...], torch.dtype]] = [
    (8, True, (7, 64), _F32),
    (3, False, (4099, 10), _BF16),
    (16, True, (3, 5, 250), torch.float64),
    (1, True, (3, 1), torch.int32),
    (None, True, (5, 1), _F32),
    (None, False, (3, 100), torch.int64),
    (None, True, (9, 5000), _BF16),
    (None, False, (2, 8192), torch.float64),
    (None, True, (3, 16384), _F32),
    (None, False, (4, 1000), torch.uint8),
    (700, True, (2, 900), torch.float16),
    (50, True, (2, 3000), _BF16),
    (50, False, (2, 40_000), _F32),
    (1000, True, (3, 20_001), _BF16),
    (1024, False, (1, 151_936), _F32),
    (5, True, (2, 30_000), torch.float64),
    (100, True, (1, 152_000), torch.int64),
    (None, True, (2, 32_000), _F32),
    (5000, True, (2, 20_000), _BF16),
]


def _hard(shape: tuple[int, ...], dtype: torch.dtype, kind: str) -> Tensor:
    """Numbers with ties, both zeros, infinities and NaN; or all equal."""
    if kind == "random":
        x = torch.randn(shape, device="cuda") * 50
        return x.abs().to(dtype) if dtype is torch.uint8 else x.to(dtype)
    if kind == "equal":
        return torch.full(shape, 3, device="cuda").to(dtype)
    x = torch.randint(0, 5, shape, device="cuda").to(dtype)
    if dtype.is_floating_point:
        special = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan], device="cuda", dtype=dtype)
        x = torch.where(torch.rand(shape, device="cuda") < 0.5, special[torch.randint(5, shape, device="cuda")], x)
    return x


def check_answers() -> int:
    """Against a stable sort on the CPU; returns how many were right."""
    right = 0
    for k, largest, shape, dtype in _ANSWERS:
        function = _sort(largest) if k is None else _topk(k, largest)
        compiled = None
        for kind in ("random", "ties", "equal"):
            x = _hard(shape, dtype, kind)
            compiled = compiled or sl.compile(_Of(function), (x,))
            values, places = (y.cpu() for y in compiled(x))
            best, where = x.cpu().sort(dim=-1, stable=True, descending=largest)
            assert torch.equal(places, where[..., : places.shape[-1]]), f"{k} {shape} {dtype} {kind}: places"
            same = values.double().nan_to_num(nan=7.5) == best[..., : places.shape[-1]].double().nan_to_num(nan=7.5)
            assert bool(same.all()), f"{k} {shape} {dtype} {kind}: values"
            right += 1
    p = torch.rand(5, 300, device="cuda")
    compiled = sl.compile(_Of(lambda p: torch.multinomial(p, 1)), (p,))
    for seed in range(20):
        torch.manual_seed(seed)
        eager = torch.multinomial(p, 1)
        torch.manual_seed(seed)
        assert torch.equal(compiled(p), eager), f"multinomial, seed {seed}"
        right += 1
    noise = torch.empty(8, 50, device="cuda").exponential_()
    x = torch.randn(8, 151_936, device="cuda")
    program = sl.compile(_Of(_draw_with_noise), (x, noise))
    assert torch.equal(program(x, noise), _draw_with_noise(x, noise)), "a draw with noise of the caller's"
    return right + 1


def _graph_us(call: Function, inputs: list[Tensor]) -> float | None:
    try:
        return cuda_results.graph_us(call, inputs, _CALLS)
    except RuntimeError as error:
        print(f"  no graph: {str(error)[:150]}", flush=True)
        torch.cuda.synchronize()
        return None


def _call_us(call: Function, inputs: list[Tensor]) -> float:
    times = []
    for _ in range(7):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for i in range(50):
            call(inputs[i % len(inputs)])
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) * 1e6 / 50)
    return statistics.median(times)


@torch.no_grad()
def measure(
    name: str, function: Function, shape: tuple[int, ...], dtype: torch.dtype, others: bool
) -> list[dict[str, Any]]:
    """Records of ours, eager and perhaps torch.compile; raises when an answer is wrong."""
    inputs = [torch.randn(shape, device="cuda").to(dtype) for _ in range(4)]
    compiled = sl.compile(_Of(function), (inputs[0],))
    contenders: dict[str, Function] = {"straightline": compiled, "eager": function}
    if others:
        contenders["torch.compile"] = torch.compile(_Of(function))
    results = {}
    for contender, call in contenders.items():
        torch.manual_seed(1)
        results[contender] = call(inputs[0])
    ours, eager = ((r,) if isinstance(r, Tensor) else r for r in (results["straightline"], results["eager"]))
    if name in ("cumsum", "top p"):
        exact = function(inputs[0].double())
        mine, its = ((y.double() - exact).abs().max() for y in (ours[0], eager[0]))
        assert mine <= 4 * its + 1e-6 * exact.abs().max(), (
            f"{name} {shape}: off by {float(mine)}, eager by {float(its)}"
        )
    else:
        assert torch.equal(ours[0], eager[0]), f"{name} {shape}"
    label = f"{name} of {'x'.join(map(str, shape))} {str(dtype)[6:]}"
    kernels = [row["kernel"] for row in compiled.explain().statements if row["phase"] == "run"]
    records = []
    for contender, call in contenders.items():
        record = {
            "case": label,
            "contender": contender,
            "stream_us": _graph_us(call, inputs),
            "call_us": _call_us(call, inputs),
        }
        records.append(record | ({"kernels": kernels} if contender == "straightline" else {}))
    return records


def main() -> None:
    """Checks, measures, writes JSON."""
    parser = cuda_results.parser(__doc__)
    parser.add_argument("--seconds", type=float, default=1e9, help="torch.compile is left out from here on")
    options = parser.parse_args()
    begin = time.perf_counter()
    seed = cuda_results.seeded()
    print(f"seed {seed}; {check_answers()} answers right; {time.perf_counter() - begin:.0f} s", flush=True)
    records, failures = [], []
    for case in sorted(_TIMED, key=lambda c: (c[0], c[2], c[3]) not in _COMPILED):
        others = (case[0], case[2], case[3]) in _COMPILED and time.perf_counter() - begin < options.seconds
        work = partial(measure, *case, others)
        found = cuda_results.attempted(failures, f"{case[0]} {case[2]}", work)
        if found is None:
            continue
        records += found
        times = "   ".join(
            f"{r['contender']} {-1 if r['stream_us'] is None else r['stream_us']:.1f} ({r['call_us']:.1f})"
            for r in found
        )
        print(
            f"{found[0]['case']:32} {times}   {found[0]['kernels']}   {time.perf_counter() - begin:.0f} s", flush=True
        )
    cuda_results.write(options, records, seed=seed)
    if failures:
        raise SystemExit(f"{len(failures)} failures")


if __name__ == "__main__":
    main()
