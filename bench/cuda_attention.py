# SPDX-License-Identifier: Apache-2.0
"""Attention of 16-bit floats by our own kernel and by cuDNN on a CUDA device: answers, and what the estimates of both rest on.

    python -m bench.cuda_attention --json result.json --seconds 120

Answers are compared with float64: no further from it than four times torch's own and half a unit of the type's last place of
the largest value. Microseconds: `kernels_us` is the time of all kernels of a call by stream, `sync_us` a call in a graph and
the wait for it; torch's scaled_dot_product_attention stands beside, captured. Fails when an answer is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import straightline as sl
import torch
from straightline.bench import machine
from torch import Tensor
from torch.nn import functional as F

from bench.cases.models import EncoderLayer
from bench.cuda_decode import captured, check, distance, profile_of, times_of

_OP = "scaled_dot_product_attention"
_ROUTES: dict[str, dict[str, str] | None] = {"cudnn": {_OP: "cudnn"}, "cuda": {_OP: "cuda"}, "default": None}


class Case(NamedTuple):
    """Sizes [b, h, s, d] of the queries, heads and number of the keys (0: as the queries), and options of the attention."""

    q: tuple[int, int, int, int]
    heads: int = 0
    keys: int = 0
    causal: bool = False
    scale: float | None = None
    mask: tuple[int, ...] | None = None
    mask_of: torch.dtype | None = None  # None: the type of the queries
    turned: bool = False  # tokens before heads in memory, for queries, keys, values and the result

    def inputs(self, dtype: torch.dtype) -> tuple[Tensor, ...]:
        """Random inputs on the device."""
        b, h, s, d = self.q
        sizes = [(b, h, s, d)] + [(b, self.heads or h, self.keys or s, d)] * 2
        given = [torch.randn(b, n, t, d, device="cuda").to(dtype) for b, n, t, d in sizes]
        if self.turned:
            given = [x.transpose(1, 2).contiguous() for x in given]
        if self.mask is not None:
            given.append(torch.randn(self.mask, device="cuda").to(self.mask_of or dtype))
        return tuple(given)

    def model(self) -> Callable[..., Tensor]:
        """The attention as a function of those inputs."""

        def attend(q: Tensor, k: Tensor, v: Tensor, *mask: Tensor) -> Tensor:
            if self.turned:
                q, k, v = (x.transpose(1, 2) for x in (q, k, v))
            bias = mask[0].to(q.dtype) if mask else None
            grouped = self.heads not in (0, self.q[1])
            y = F.scaled_dot_product_attention(
                q, k, v, bias, is_causal=self.causal, scale=self.scale, enable_gqa=grouped
            )
            return y.transpose(1, 2) if self.turned else y

        return attend


_CHECKS = {
    "plain": Case((2, 4, 128, 64)),
    "causal": Case((2, 4, 130, 64), causal=True),
    "more keys": Case((1, 3, 17, 64), keys=77),
    "fewer keys, causal": Case((1, 3, 130, 64), keys=67, causal=True),
    "more keys, causal": Case((1, 3, 40, 64), keys=133, causal=True),
    "grouped": Case((2, 8, 96, 128), heads=2, causal=True),
    "one key head": Case((1, 7, 65, 80), heads=1),
    "scale": Case((2, 4, 64, 32), scale=0.3),
    "turned": Case((2, 4, 100, 64), turned=True),
    "turned, grouped": Case((2, 8, 100, 64), heads=2, turned=True, causal=True),
    "head of 8": Case((2, 4, 64, 8)),
    "head of 72": Case((1, 4, 50, 72), causal=True),
    "head of 256": Case((1, 2, 200, 256), causal=True),
    "one query": Case((2, 8, 1, 64), keys=300),
    "one of each": Case((1, 1, 1, 16)),
    "mask": Case((2, 4, 128, 64), mask=(2, 4, 128, 128)),
    "mask of all": Case((2, 4, 77, 64), mask=(77, 77)),
    "mask of keys": Case((2, 4, 64, 64), keys=96, mask=(2, 1, 1, 96)),
    "mask, grouped": Case((1, 8, 64, 64), heads=2, mask=(1, 8, 64, 64)),
}

_LAYERS = {
    "1x16x512x128": Case((1, 16, 512, 128)),
    "1x16x512x128 causal": Case((1, 16, 512, 128), causal=True),
    "1x32x2048x128 causal": Case((1, 32, 2048, 128), causal=True),
    "1x32x2048x128": Case((1, 32, 2048, 128)),
    "1x32/8x1024x128 causal": Case((1, 32, 1024, 128), heads=8, causal=True),
    "1x16/8x128x128 causal": Case((1, 16, 128, 128), heads=8, causal=True),
    "1x16/8x16x128 over 512": Case((1, 16, 16, 128), heads=8, keys=512),
    "1x16/8x4x128 over 4096": Case((1, 16, 4, 128), heads=8, keys=4096),
    "1x16/8x1x128 over 4096": Case((1, 16, 1, 128), heads=8, keys=4096),
    "4x12x128x64": Case((4, 12, 128, 64)),
    "1x12x128x64": Case((1, 12, 128, 64)),
    "1x12x32x64": Case((1, 12, 32, 64)),
    "8x12x197x64": Case((8, 12, 197, 64)),
    "1x8x16x64": Case((1, 8, 16, 64)),
    "1x8x64x32": Case((1, 8, 64, 32)),
    "16x8x256x32": Case((16, 8, 256, 32)),
    "1x16x1024x256 causal": Case((1, 16, 1024, 256), causal=True),
    "4x12x128x64 mask": Case((4, 12, 128, 64), mask=(4, 1, 1, 128)),
}


def _versions() -> dict[str, Any]:
    return {**machine.versions(), "torch": torch.__version__, "cudnn": torch.backends.cudnn.version()}


def _say(text: str) -> None:
    print(text, flush=True)


def check_case(case: Case, dtype: torch.dtype, routes: dict[str, str] | None) -> tuple[float, float]:
    """Largest distance of ours and of torch's from float64: as a graph, by stream, at other addresses, in an outer graph."""
    model, inputs = case.model(), [case.inputs(dtype) for _ in range(3)]
    compiled = sl.compile(model, inputs[0], routes=routes)
    mine = theirs = 0.0
    for given in inputs:
        exact = model(*(x.double() for x in given))
        largest = exact.abs().max()
        got, torchs = distance(compiled(*given), exact), distance(model(*given), exact)
        last = torch.finfo(dtype).eps / 2
        assert got <= 4 * torchs + last, f"{got:.2e} from float64, torch {torchs:.2e}, largest {largest:.2f}"
        mine, theirs = max(mine, got), max(theirs, torchs)
    by_stream = sl.compile(model, inputs[0], routes=routes, launch="stream")
    for given in (inputs[1], inputs[0]):
        assert torch.equal(compiled(*given), by_stream(*given)), "by stream another answer than in a graph"
    fixed = tuple(x.clone() for x in inputs[0])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = compiled(*fixed)
    for x, other in zip(fixed, inputs[2], strict=True):
        x.copy_(other)
    graph.replay()
    assert torch.equal(result, compiled(*inputs[2])), "in an outer graph another answer"
    return mine, theirs


def check_odd() -> None:
    """An odd address, the interpreter, emitted Python, float32 masks, NaN and minus infinity."""
    routes = _ROUTES["cudnn"]
    case = _CHECKS["causal"]
    given = case.inputs(torch.bfloat16)
    fast = sl.compile(case.model(), given, routes=routes)
    slow = sl.compile(case.model(), given, routes=routes, fast_path=False)
    python = sl.compile(case.model(), given, routes=routes, emit="python")
    assert torch.equal(fast(*given), slow(*given)) and torch.equal(fast(*given), python(*given)), "other bits"
    odd = (
        torch.zeros(given[0].numel() + 1, device="cuda", dtype=torch.bfloat16)[1:].view(given[0].shape).copy_(given[0])
    )
    try:
        fast(odd, *given[1:])
        raise AssertionError("an odd address is not refused")
    except sl.UnsupportedError as error:
        assert "multiples of 16 bytes" in str(error), error
    given[0][1, 2, 3, 4] = float("nan")
    assert torch.equal(fast(*given).isnan(), case.model()(*given).isnan()) and fast(*given).isnan().any(), "NaN is lost"
    case = _CHECKS["mask"]
    for name, rows in (("some", slice(0, 40)), ("all", slice(None))):  # minus infinity for keys of the first rows
        given = case.inputs(torch.bfloat16)
        given[3][:, :, :9, rows] = float("-inf")
        y, torchs = sl.compile(case.model(), given, routes=routes)(*given), case.model()(*given)
        ours = sl.compile(case.model(), given, routes=_ROUTES["cuda"])(*given)
        apart = [(x.nan_to_num(9) - torchs.nan_to_num(9)).abs().max().item() for x in (y, ours)]
        nans = [int(x.isnan().sum()) for x in (y, ours, torchs)]
        _say(f"minus infinity at {name} keys of a row: cudnn, cuda apart from torch {apart}, NaN {nans}")


def measure(name: str, case: Case, dtype: torch.dtype) -> dict[str, Any]:
    """Times of cuDNN's, our and torch's kernels."""
    given = case.inputs(dtype)
    model = case.model()
    record: dict[str, Any] = {"part": "layer", "case": name, "dtype": str(dtype).removeprefix("torch.")}
    for contender in ("cudnn", "cuda"):
        compiled = sl.compile(model, given, routes=_ROUTES[contender])
        times = times_of(lambda compiled=compiled: compiled(*given), 40)
        by_stream = sl.compile(model, given, routes=_ROUTES[contender], launch="stream")
        by_stream(*given)
        kernels = profile_of(lambda by_stream=by_stream: by_stream(*given))
        (row,) = [
            row for row in compiled.explain().statements if "estimated" in str(row["why"]) and row["phase"] == "run"
        ]
        estimated = float(str(row["why"]).split("estimated ")[1].split(" us")[0])
        names = [name[:60] for name in kernels]
        record[contender] = {**times, "kernels_us": sum(kernels.values()), "estimated": estimated, "kernels": names}
    rows = sl.compile(model, given).explain().statements
    record["chosen"] = next(row["backend"] for row in rows if row["op"] == _OP)
    call = captured(lambda _: model(*given), given[0])  # type: ignore[arg-type]
    record["torch"] = {**times_of(call, 40), "kernels_us": sum(profile_of(lambda: model(*given)).values())}
    return record


def measure_layer(tokens: int) -> list[dict[str, Any]]:
    """An encoder layer of a thousand features, bfloat16: as it is chosen, with our attention, and eager as a graph."""
    with torch.device("cuda"):
        model = EncoderLayer(1024, 16, 4096).eval().to(torch.bfloat16).requires_grad_(False)
        x = torch.randn(1, tokens, 1024).to(torch.bfloat16)
    made = []
    base = {"part": "model", "case": f"encoder layer, {tokens} tokens"}
    for contender in ("default", "cuda"):
        compiled = sl.compile(model, (x,), routes=_ROUTES[contender])
        answer = check(f"{base['case']}, {contender}", compiled, model, x)
        assert answer["ok"], answer
        made.append({**base, "contender": contender, **times_of(lambda c=compiled: c(x), 40)})
    made.append({**base, "contender": "eager in a graph", **times_of(captured(model, x), 40)})
    for record in made:
        _say(f"{record['case']:34}{record['contender']:18}sync {record['sync_us']:8.1f}")
    return made


def main() -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--parts", default="checks,layers,models")
    options = parser.parse_args()
    until = time.monotonic() + options.seconds
    records: list[dict[str, Any]] = []
    failures: list[str] = []
    if "checks" in options.parts:
        for number, (name, case) in enumerate(_CHECKS.items()):
            for dtype in (torch.bfloat16, torch.float16)[: 2 if number < 4 else 1]:
                try:
                    mine, theirs = check_case(case, dtype, _ROUTES["cudnn"])
                    records.append(
                        {"part": "check", "case": name, "dtype": str(dtype), "error": mine, "torch_error": theirs}
                    )
                except Exception as error:
                    failures.append(f"{name} {dtype}: {type(error).__name__}: {str(error)[:600]}")
                    _say(failures[-1])
        try:
            check_odd()
        except Exception as error:
            failures.append(f"odd: {type(error).__name__}: {str(error)[:600]}")
            _say(failures[-1])
        _say(f"{len(records)} checks right, {len(failures)} wrong")
    if "layers" in options.parts:
        _say(
            f"{'':26}{'kernels: cudnn':>15}{'cuda':>8}{'torch':>8}{'sync: cudnn':>14}{'cuda':>8}{'torch':>8}{'estimates':>20}"
        )
        for name, case in _LAYERS.items():
            if time.monotonic() > until:
                _say("no time for the other sizes")
                break
            try:
                record = measure(name, case, torch.bfloat16)
            except Exception as error:
                failures.append(f"{name}: {type(error).__name__}: {str(error)[:600]}")
                _say(failures[-1])
                continue
            records.append(record)
            a, b, c = record["cudnn"], record["cuda"], record["torch"]
            kernels = f"{a['kernels_us']:15.1f}{b['kernels_us']:8.1f}{c['kernels_us']:8.1f}"
            sync = f"{a['sync_us']:14.1f}{b['sync_us']:8.1f}{c['sync_us']:8.1f}"
            _say(f"{name:26}{kernels}{sync}{a['estimated']:12.1f}{b['estimated']:8.1f}  {record['chosen']}")
    if "models" in options.parts:
        for tokens in (128, 512, 2048):
            try:
                records += measure_layer(tokens)
            except Exception as error:
                failures.append(f"{tokens} tokens: {type(error).__name__}: {str(error)[:600]}")
                _say(failures[-1])
    if options.json:
        about = {"machine": machine.description("cuda"), "versions": _versions(), "date": machine.date()}
        options.json.write_text(json.dumps({**about, "records": records, "failures": failures}, indent=1) + "\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
