# SPDX-License-Identifier: Apache-2.0
"""Convolutions by our own kernels and by cuDNN on a CUDA device: answers, what the estimates of both rest on, and models.

    python -m bench.cuda_convolutions --json result.json                  answers, layers, models
    python -m bench.cuda_convolutions --parts checks                      answers alone

Answers follow straightline.testing.policy. Microseconds: `kernels_us` is the time of all kernels of a call;
`sync_us` a call and the wait for it, `enqueue_us` the call alone. Fails when an answer is wrong.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import straightline as sl
import torch
from straightline.bench import machine
from straightline.testing import policy
from straightline.testing.device import check, converted
from straightline.testing.models.cases import ALL, settled
from torch import Tensor, nn
from torch.nn import functional as F

from bench.cuda_decode import captured, profile_of, times_of

_TARGET = "cuda:sm_90"
_LIBRARY, _OURS = {"convolution": "cudnn"}, {"convolution": "cuda"}
_ROUTES: dict[str, dict[str, str] | None] = {"cudnn": _LIBRARY, "cuda": _OURS, "default": None}


class Kind(NamedTuple):
    """A type, and whether products of float32 may round to TF32."""

    dtype: torch.dtype
    tf32: bool = True

    def name(self) -> str:
        """The kind in a line of the table."""
        plain = str(self.dtype).removeprefix("torch.")
        return "tf32" if self.dtype is torch.float32 and self.tf32 else plain


_KINDS = (Kind(torch.float32), Kind(torch.float32, False), Kind(torch.float16), Kind(torch.bfloat16))


class Layer(nn.Module):
    """A convolution and what follows it: "relu", "add" (of a second input), "add relu", "silu", "both" (two results)."""

    def __init__(
        self, inside: int, out: int, kernel: Any = 3, *, then: str = "", one: bool = False, **options: Any
    ) -> None:
        super().__init__()
        self.conv = (nn.Conv1d if one else nn.Conv2d)(inside, out, kernel, **options)
        self.then = then

    def forward(self, x: Tensor, *others: Tensor) -> Any:
        """X [n, c, h, w] or [n, c, w]."""
        y = self.conv(x)
        if self.then == "both":
            return y, F.relu(y)
        y = y + others[0] if "add" in self.then else y
        return F.relu(y) if "relu" in self.then else F.silu(y) if self.then == "silu" else y


class Case(NamedTuple):
    """A layer and the sizes of its image; what is added has those of its result, or `added`."""

    make: Callable[[], nn.Module]
    image: tuple[int, ...]
    added: tuple[int, ...] | None = None


def _case(image: tuple[int, ...], *sizes: Any, added: tuple[int, ...] | None = None, **options: Any) -> Case:
    return Case(partial(Layer, *sizes, **options), image, added)


_CASES = {
    "plain": _case((2, 16, 14, 15), 16, 32, padding=1),
    "no bias": _case((2, 16, 14, 15), 16, 32, padding=1, bias=False),
    "relu": _case((2, 64, 14, 14), 64, 64, padding=1, then="relu"),
    "no bias, relu": _case((2, 16, 9, 9), 16, 24, bias=False, then="relu"),
    "add, relu": _case((2, 64, 14, 14), 64, 64, padding=1, then="add relu"),
    "add": _case((1, 32, 9, 7), 32, 16, padding=1, then="add"),
    "no bias, add, relu": _case((2, 16, 9, 9), 16, 16, bias=False, padding=1, then="add relu"),
    "add of a channel, relu": _case((2, 16, 9, 9), 16, 16, padding=1, then="add relu", added=(1, 16, 1, 1)),
    "stride 2": _case((2, 32, 14, 15), 32, 48, stride=2, padding=1, then="relu"),
    "dilation 2": _case((2, 32, 14, 15), 32, 32, dilation=2, padding=2, then="relu"),
    "groups": _case((2, 64, 9, 9), 64, 32, groups=4, padding=1, then="add relu"),
    "depthwise": _case((2, 48, 9, 9), 48, 48, groups=48, padding=1, then="relu"),
    "3 channels": _case((2, 3, 33, 32), 3, 64, 7, stride=2, padding=3, then="relu"),
    "1 channel": _case((3, 1, 8, 8), 1, 16, padding=1, then="relu"),
    "odd channels": _case((2, 20, 9, 11), 20, 30, padding=1, then="relu"),
    "few channels": _case((1, 5, 6, 6), 5, 3, padding=1),
    "1x1": _case((2, 64, 9, 9), 64, 128, 1, stride=2),
    "oblong": _case((2, 16, 17, 12), 16, 16, (1, 5), stride=(2, 1), padding=(0, 2), then="relu"),
    "1-D": _case((2, 32, 100), 32, 64, 5, padding=2, then="relu", one=True),
    "1-D, groups": _case((2, 32, 50), 32, 32, 3, dilation=3, groups=2, then="add", one=True),
    "silu": _case((2, 32, 9, 9), 32, 32, padding=1, then="silu"),
    "both": _case((2, 32, 9, 9), 32, 32, padding=1, then="both"),
}


def _inputs(case: Case, model: nn.Module, dtype: torch.dtype) -> tuple[Tensor, ...]:
    x = torch.randn(case.image).to(dtype)
    if "add" not in getattr(model, "then", ""):
        return (x,)
    with torch.no_grad():
        sizes = case.added or tuple(model.conv(x.float()).shape)
    return x, torch.randn(sizes).to(dtype)


def _of_case(case: Case) -> tuple[nn.Module, tuple[Tensor, ...]]:
    model = case.make().eval()
    return model, _inputs(case, model, torch.float32)


def _of_model(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    return settled(ALL[name].make()), ALL[name].inputs()


def _warm(make: Callable[[], tuple[nn.Module, tuple[Tensor, ...]]], kind: Kind, routes: dict[str, str] | None) -> None:
    """Compiles our kernels, so that the cache on disk has their machine code."""
    torch.set_num_threads(1)
    torch.backends.cudnn.allow_tf32 = kind.tf32
    model, inputs = make()
    sl.compile(model.to(kind.dtype), tuple(x.to(kind.dtype) for x in inputs), target=_TARGET, routes=routes)


def _say(text: str) -> None:
    print(text, flush=True)


def _is_tf32(kind: Kind) -> bool:
    return kind.tf32 and kind.dtype is torch.float32


def check_case(case: Case, kind: Kind, routes: dict[str, str], thorough: bool) -> None:
    """Answers as a graph and by stream, for inputs at other addresses, and for a graph that the caller captures."""
    torch.backends.cudnn.allow_tf32 = kind.tf32
    model = case.make().eval()
    inputs = [converted(_inputs(case, model, kind.dtype), kind.dtype) for _ in range(3)]
    model = model.to(kind.dtype).cuda().requires_grad_(False)
    eager, reference = copy.deepcopy(model), policy.reference_of(model)
    compiled = sl.compile(model, inputs[0], routes=routes)
    for given in inputs:
        check(compiled, eager, reference, given, _is_tf32(kind))
    if not thorough:
        return
    leaves = lambda result: list(result) if isinstance(result, tuple) else [result]  # noqa: E731
    by_stream = sl.compile(model, inputs[0], routes=routes, launch="stream")
    for given in (inputs[1], inputs[0]):
        same = zip(leaves(compiled(*given)), leaves(by_stream(*given)), strict=True)
        assert all(torch.equal(a, b) for a, b in same), "by stream another answer than in a graph"
    fixed = tuple(x.clone() for x in inputs[0])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = compiled(*fixed)
    for x, other in zip(fixed, inputs[2], strict=True):
        x.copy_(other)
    graph.replay()
    same = zip(leaves(result), leaves(compiled(*inputs[2])), strict=True)
    assert all(torch.equal(a, b) for a, b in same), "in an outer graph another answer"


def check_odd(routes: dict[str, str]) -> None:
    """NaN through the ReLU, channels-last images, images at odd addresses, the interpreter and emitted Python."""
    torch.backends.cudnn.allow_tf32 = True
    for dtype in (torch.float32, torch.float16):
        model = Layer(32, 32, padding=1, then="relu").to(dtype).cuda().requires_grad_(False)
        x = torch.randn(2, 32, 9, 9, device="cuda").to(dtype)
        fast = sl.compile(model, (x,), routes=routes)
        slow = sl.compile(model, (x,), routes=routes, fast_path=False)
        python = sl.compile(model, (x,), routes=routes, emit="python")
        assert torch.equal(fast(x), slow(x)) and torch.equal(fast(x), python(x)), (
            "interpreted, or by python: other bits"
        )
        last = x.to(memory_format=torch.channels_last)
        of_last = sl.compile(model, (last,), routes=routes)
        assert torch.equal(of_last(last), fast(x)), "channels last: other bits"
        storage = torch.zeros(x.numel() + 1, device="cuda", dtype=dtype)
        odd = storage[1:].as_strided(last.shape, last.stride()).copy_(last)
        assert odd.data_ptr() % 16
        try:
            check(of_last, model, policy.reference_of(model), (odd,), dtype is torch.float32)
        except sl.UnsupportedError as error:  # of 16 bits there is no such engine in cuDNN 9.19
            assert dtype is torch.float16 and "not multiples of 16 bytes" in str(error), error
        x[1, 3, 4, 4] = float("nan")
        assert torch.equal(fast(x).isnan(), model(x).isnan()) and fast(x).isnan().any(), "NaN is lost in the ReLU"


# (inside, out, image, kernel, stride): ResNet-18's
_RESNET = (
    (3, 64, 224, 7, 2), (64, 64, 56, 3, 1), (64, 128, 56, 3, 2), (64, 128, 56, 1, 2), (128, 128, 28, 3, 1),
    (128, 256, 28, 3, 2), (128, 256, 28, 1, 2), (256, 256, 14, 3, 1), (256, 512, 14, 3, 2), (256, 512, 14, 1, 2),
    (512, 512, 7, 3, 1),
)  # fmt: skip
_OTHERS = (
    ("4 channels", _case((1, 4, 224, 224), 4, 64, 7, stride=2, padding=3, then="relu")),
    ("8 channels", _case((1, 8, 224, 224), 8, 64, 7, stride=2, padding=3, then="relu")),
    ("8 channels, 10", _case((10, 8, 224, 224), 8, 64, 7, stride=2, padding=3, then="relu")),
    ("16 channels, 10", _case((10, 16, 224, 224), 16, 64, 7, stride=2, padding=3, then="relu")),
    ("depthwise 96", _case((1, 96, 56, 56), 96, 96, padding=1, groups=96, then="relu")),
    ("depthwise 96, 8", _case((8, 96, 56, 56), 96, 96, padding=1, groups=96, then="relu")),
    ("groups of 16", _case((8, 128, 28, 28), 128, 128, padding=1, groups=8, then="relu")),
    ("16 wide", _case((1, 16, 64, 64), 16, 16, padding=1, then="relu")),
    ("32 wide, 8", _case((8, 32, 64, 64), 32, 32, padding=1, then="relu")),
    ("1x1 256", _case((8, 256, 28, 28), 256, 64, 1, then="relu")),
    ("1x1 64", _case((8, 64, 28, 28), 64, 256, 1, then="add relu")),
    ("1-D 64", _case((4, 64, 2000), 64, 64, 5, padding=2, then="relu", one=True)),
    ("dilation 4", _case((1, 256, 32, 32), 256, 256, padding=4, dilation=4, then="relu")),
)  # fmt: skip


def layers() -> list[tuple[str, Case]]:
    """The convolutions of ResNet-18 at two batch sizes, and others."""
    made = []
    for batch in (1, 10):
        for inside, out, image, kernel, stride in _RESNET:
            name = f"{batch}x{inside}x{image}x{image} -> {out}, {kernel}x{kernel} / {stride}"
            case = _case(
                (batch, inside, image, image), inside, out, kernel, stride=stride, padding=kernel // 2, then="relu"
            )
            made.append((name, case))
    return made + list(_OTHERS)


_TURNS = ("copy_", "transpose_", "fill_", "pointwise_", "relu_")  # around the convolution, in either case


def _layer(case: Case, kind: Kind, contender: str) -> dict[str, Any]:
    """Microseconds of the kernels of the convolution alone."""
    torch.backends.cudnn.allow_tf32 = kind.tf32
    model = case.make().eval()
    given = converted(_inputs(case, model, kind.dtype), kind.dtype)
    model = model.to(kind.dtype).cuda().requires_grad_(False)
    compiled = sl.compile(model, given, routes=_ROUTES[contender], launch="stream")
    compiled(*given)
    kernels = profile_of(lambda: compiled(*given))
    own = {name: us for name, us in kernels.items() if not name.startswith(_TURNS)}
    (row,) = [row for row in compiled.explain().statements if "estimated" in str(row["why"]) and row["phase"] == "run"
              and "convolution" in str(row["why"])]  # fmt: skip
    estimated = float(str(row["why"]).split("estimated ")[1].split(" us")[0])
    return {"us": round(sum(own.values()), 2), "estimated": estimated, "kernels": [name[:70] for name in own]}


def measure_layers(left: Callable[[], float]) -> list[dict[str, Any]]:
    """A record for each layer and type."""
    records = []
    _say(f"{'':44}{'cudnn':>9}{'cuda':>9}{'estimated':>18}")
    for name, case in layers():
        for kind in _KINDS[:3]:
            if left() < 0:
                _say("no time for the other layers")
                return records
            got = {contender: _layer(case, kind, contender) for contender in ("cudnn", "cuda")}
            library, ours = got["cudnn"], got["cuda"]
            records.append({"part": "layer", "case": name, "kind": kind.name(), **got})
            estimates = f"{library['estimated']:8.1f} {ours['estimated']:8.1f}"
            kernels = f"{len(library['kernels'])} {library['kernels'][0][:40]}"
            _say(f"{name:36} {kind.name():8}{library['us']:8.1f} {ours['us']:8.1f}  {estimates}  {kernels}")
    return records


def _times(record: dict[str, Any]) -> str:
    return f"sync {record['sync_us']:8.1f}  enqueue {record['enqueue_us']:6.1f}  stream {record['stream_us']:8.1f}"


_MODELS = ("resnet-18 1", "resnet-18 10", "mobilenet", "unet, nearest", "convnext")
_CONTENDERS = (*_ROUTES, "eager in a graph")


def _model(name: str, kind: Kind, contender: str) -> tuple[dict[str, Any], Callable[[], object]]:
    """The record of a model's times, and a function that calls the model for the profiler."""
    torch.backends.cudnn.allow_tf32 = kind.tf32
    model = settled(ALL[name].make()).to(kind.dtype).cuda().requires_grad_(False)
    eager, reference = copy.deepcopy(model), policy.reference_of(model)
    inputs = converted(ALL[name].inputs(), kind.dtype)
    base = {"part": "model", "case": name, "kind": kind.name(), "contender": contender}
    if contender == "eager in a graph":
        model = model.to(memory_format=torch.channels_last)
        inputs = tuple(x.to(memory_format=torch.channels_last) for x in inputs)
        return {**base, **times_of(captured(model, *inputs))}, lambda: model(*inputs)
    compiled = sl.compile(model, inputs, routes=_ROUTES[contender])
    by_stream = sl.compile(model, inputs, routes=_ROUTES[contender], launch="stream")
    for given in (inputs, converted(ALL[name].inputs(), kind.dtype)):
        check(compiled, eager, reference, given, _is_tf32(kind))
    rows = [row for row in compiled.explain().statements if row["phase"] == "run" and row["kernel"]]
    times = times_of(lambda: compiled(*inputs))
    facts = {"launches": len(rows), "of_cudnn": sum(row["backend"] == "cudnn" for row in rows)}
    return {**base, **times, **facts}, lambda: by_stream(*inputs)


def measure_models(
    names: list[str], contenders: list[str], left: Callable[[], float], failures: list[str]
) -> list[tuple[dict[str, Any], Callable[[], object]]]:
    """Records of all models, types and contenders, each with a function for `profile_models`."""
    made = []
    for name, kind in product(names, _KINDS[:3]):
        for contender in contenders:
            if left() < 0:
                _say("no time for the other models")
                return made
            try:
                record, call = _model(name, kind, contender)
            except Exception as error:
                failures.append(f"{name} {kind.name()} {contender}: {type(error).__name__}: {str(error)[:800]}")
                _say(failures[-1])
                continue
            made.append((record, call))
            launches = f"{record.get('launches', '')} launches, {record.get('of_cudnn', '')} of cudnn"
            _say(f"{name:15}{kind.name():9}{contender:18}{_times(record)}  {launches}")
    return made


def profile_models(
    made: list[tuple[dict[str, Any], Callable[[], object]]], left: Callable[[], float]
) -> list[dict[str, Any]]:
    """Adds the time of all kernels while there is time left. A process is slower after it has profiled: measure before."""
    for record, call in made:
        if left() > 0:
            record["kernels_us"] = sum(profile_of(call).values())
            _say(f"{record['case']:15}{record['kind']:9}{record['contender']:18}kernels {record['kernels_us']:8.1f}")
    return [record for record, _ in made]


_BARS = (
    ("resnet-18 1", Kind(torch.float32)),
    ("resnet-18 1", Kind(torch.float16)),
    ("resnet-18 10", Kind(torch.float32)),
)


def bar(name: str, kind: Kind) -> dict[str, Any]:
    """torch.compile(mode="reduce-overhead"), channels last."""
    torch.backends.cudnn.allow_tf32 = kind.tf32
    model = settled(ALL[name].make()).to(kind.dtype).cuda().requires_grad_(False).to(memory_format=torch.channels_last)
    x = ALL[name].inputs()[0].to(kind.dtype).cuda().to(memory_format=torch.channels_last)
    start = time.perf_counter()
    compiled = torch.compile(model, mode="reduce-overhead")
    for _ in range(4):
        compiled(x)
    torch.cuda.synchronize()
    return {"part": "model", "case": name, "kind": kind.name(), "contender": "reduce-overhead", **times_of(lambda: compiled(x)),
            "compile_s": time.perf_counter() - start}  # fmt: skip


def measure_bars(left: Callable[[], float]) -> list[dict[str, Any]]:
    """Measures each peer in a process of its own, which gets the time that is left."""
    records = []
    for number, (name, kind) in enumerate(_BARS):
        if left() < 10:
            break
        command = [sys.executable, "-m", "bench.cuda_convolutions", "--bar", str(number)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=left(), check=True)
            records.append(json.loads(done.stdout.splitlines()[-1]))
            _say(f"{name:15}{kind.name():9}reduce-overhead   {_times(records[-1])}")
        except (subprocess.SubprocessError, json.JSONDecodeError, IndexError) as error:
            why = str(getattr(error, "stderr", error))[-300:]
            _say(f"{name} {kind.name()} reduce-overhead: {type(error).__name__}: {why}")
    return records


def run_checks(failures: list[str]) -> int:
    """Checks all cases by cuDNN; returns how many there are."""
    count = 0
    for name, case in _CASES.items():
        for kind in _KINDS:
            count += 1
            try:
                check_case(case, kind, _LIBRARY, thorough=kind.dtype is torch.float16 or _is_tf32(kind))
            except Exception as error:
                failures.append(f"{name} {kind.name()}: {type(error).__name__}: {str(error)[:700]}")
                _say(failures[-1])
    try:
        check_odd(_LIBRARY)
    except Exception as error:
        failures.append(f"odd: {type(error).__name__}: {str(error)[:700]}")
        _say(failures[-1])
    return count


def _jobs(parts: list[str], models: list[str], contenders: list[str]) -> list[tuple[Any, ...]]:
    """The programs that are compiled beforehand, those that take longest first."""
    jobs: list[tuple[Any, ...]] = []
    if "models" in parts:
        ways = [_ROUTES[contender] for contender in contenders if contender in _ROUTES]
        jobs += [(partial(_of_model, name), kind, way) for name, kind, way in product(models, _KINDS[:3], ways)]
    if "layers" in parts:
        ways = (_OURS, _LIBRARY)
        jobs += [(partial(_of_case, case), kind, way) for (_, case), kind, way in product(layers(), _KINDS[:3], ways)]
    if "checks" in parts:
        jobs += [(partial(_of_case, case), kind, _LIBRARY) for case in _CASES.values() for kind in _KINDS]
    return jobs


@torch.no_grad()
def main() -> None:
    """Checks, measures, writes JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--commit", default="unknown")
    parser.add_argument(
        "--parts", nargs="*", default=["checks", "layers", "models"], help="checks, layers, models, bars"
    )
    parser.add_argument("--models", nargs="*", default=_MODELS)
    parser.add_argument("--contenders", nargs="*", default=_CONTENDERS, help=", ".join(_CONTENDERS))
    parser.add_argument("--seconds", type=float, default=1e9, help="parts that have not begun by then are left out")
    parser.add_argument("--workers", type=int, default=max(1, min(14, (os.cpu_count() or 2) - 1)))
    parser.add_argument("--bar", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bar is not None:
        print(json.dumps(bar(*_BARS[options.bar])))
        return
    start = time.perf_counter()
    left = lambda: options.seconds - (time.perf_counter() - start)  # noqa: E731
    seed = torch.seed() % 2**32
    torch.manual_seed(seed)
    _say(
        f"seed {seed}, {torch.cuda.get_device_name(0)}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}"
    )
    failures: list[str] = []
    records: list[dict[str, Any]] = []
    checked = 0
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        warming = [pool.submit(_warm, *job) for job in _jobs(options.parts, options.models, options.contenders)]
        for one in warming:
            one.result()
    _say(f"{len(warming)} compiled in {time.perf_counter() - start:.0f} s")
    if "checks" in options.parts:
        checked = run_checks(failures)
        _say(f"{checked} cases, {len(failures)} failures, {time.perf_counter() - start:.0f} s")
    if "bars" in options.parts:
        records += measure_bars(left)
    if "models" in options.parts:
        made = measure_models(options.models, options.contenders, left, failures)
        _say(f"{time.perf_counter() - start:.0f} s")
        records += profile_models(made, left)
    if "layers" in options.parts:
        records += measure_layers(left)
        _say(f"{time.perf_counter() - start:.0f} s")
    if options.json:
        facts = {
            "machine": machine.description("cuda"),
            "versions": {"python": sys.version.split()[0], "torch": torch.__version__, "cudnn": torch.backends.cudnn.version()},
            "date": machine.date(), "commit": options.commit, "seed": seed, "checked": checked, "failures": failures,
            "records": records,
        }  # fmt: skip
        options.json.write_text(json.dumps(facts, indent=1) + "\n")
    if failures:
        raise SystemExit(f"{len(failures)} failures")
    print(f"{checked} answers: ok")


if __name__ == "__main__":
    main()
