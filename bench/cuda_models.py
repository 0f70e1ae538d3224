# SPDX-License-Identifier: Apache-2.0
"""The model set on an NVIDIA device: answers by the rules of tests/run/policy.py against float64, kernels, times.

    python -m bench.cuda_models --json result.json          all of it
    python -m bench.cuda_models --once NAME ...             one call each and no times, for compute-sanitizer

Fails when an answer is wrong, or a call waits for the device where `explain` shows no number that the host reads.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import platform
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import straightline as sl
import torch
from straightline import _call
from torch import Tensor, nn
from torch.utils import _pytree as pytree

_ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_ROOT / "tests"), str(_ROOT / "tests" / "run")]
import policy  # noqa: E402
from models.cases import ALL, settled  # noqa: E402
from models.cond import Cond, Double  # noqa: E402
from models.counter import Counter as CountingModel  # noqa: E402

from bench.cubin import resources_in  # noqa: E402
from bench.cuda_decode import profile_of, times_of  # noqa: E402

_LARGE = ("resnet-18 1", "resnet-18 10")
NAMES = (*ALL, "cond", "while", "counter")
_HALVES = (
    *_LARGE,
    "mobilenet",
    "vit",
    "decoder, 16 tokens",
    "gpt2",
    "mixture",
    "convnext",
    "unet, nearest",
    "digits cnn 16",
)


class Work(NamedTuple):
    """A model in one type; tf32: convolutions of float32 may round."""

    name: str
    make: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Tensor, ...]]
    dtype: torch.dtype
    tf32: bool


def has_convolutions(model: nn.Module) -> bool:
    """Whether TF32 makes a difference."""
    return any(isinstance(module, nn.Conv1d | nn.Conv2d | nn.ConvTranspose2d) for module in model.modules())


def works() -> Iterator[Work]:
    """Float32 as torch's defaults have it (convolutions round to TF32), exact, and 16-bit floats."""
    for name, case in ALL.items():
        yield Work(name, case.make, case.inputs, torch.float32, True)
        if has_convolutions(case.make()):
            yield Work(name, case.make, case.inputs, torch.float32, False)
        if name in _HALVES:
            yield Work(name, case.make, case.inputs, torch.float16, True)
        if name in ("resnet-18 1", "mobilenet", "gpt2"):
            yield Work(name, case.make, case.inputs, torch.bfloat16, True)
    yield Work("cond", Cond, lambda: (torch.randn(4),), torch.float32, True)
    yield Work("while", Double, lambda: (torch.rand(4) + 0.1,), torch.float32, True)
    yield Work("counter", CountingModel, lambda: (torch.randn(4),), torch.float32, True)


def title(work: Work) -> str:
    """Of one line of the table."""
    kind = str(work.dtype).removeprefix("torch.")
    return f"{work.name} {'exact ' if not work.tf32 else ''}{kind}"


def converted(inputs: tuple[Tensor, ...], dtype: torch.dtype) -> tuple[Tensor, ...]:
    """On the device, floats of the type."""
    return tuple((x.to(dtype) if x.is_floating_point() else x).cuda() for x in inputs)


def errors_with_ten_bits(eager: nn.Module, inputs: tuple[Tensor, ...]) -> Callable[[], list[float]]:
    """Where products may round their factors to TF32: torch's error in float16, whose mantissa is as long."""

    def one() -> list[float]:
        got = copy.deepcopy(eager).half()(*converted(inputs, torch.float16))
        exact = policy.reference_of(eager)(*policy.in_float64(inputs))
        return [
            (a.double() - b.double()).abs().max().item() if isinstance(a, Tensor) and a.is_floating_point() else 0.0
            for a, b in zip(pytree.tree_leaves(got), pytree.tree_leaves(exact), strict=True)
        ]

    return one


def check(compiled: Any, eager: nn.Module, reference: nn.Module, inputs: tuple[Tensor, ...], tf32: bool) -> None:
    """One call by the rules of the policy; its bound for TF32 is `errors_with_ten_bits`."""
    if not tf32:
        policy.check_call(compiled, eager, reference, inputs)
        return
    before = copy.deepcopy(eager)
    got, torchs, exact = (function(*given) for function, given in (
        (compiled, policy.clone(inputs)), (eager, policy.clone(inputs)), (reference, policy.in_float64(inputs))
    ))  # fmt: skip
    policy.check_tree(got, torchs, exact, errors=errors_with_ten_bits(before, inputs))


def slowest(kernels: dict[str, float], count: int = 6) -> dict[str, float]:
    """Those that take the most of a call."""
    return dict(list(kernels.items())[:count])


@torch.no_grad()
def run(work: Work, timed: bool) -> Iterator[dict[str, Any]]:
    """One record for straightline and one for eager; two answers of either launch are checked before anything is timed."""
    torch.backends.cudnn.allow_tf32 = work.tf32
    model = settled(work.make()).to(work.dtype).cuda()
    eager, reference = copy.deepcopy(model), policy.reference_of(model)
    others = copy.deepcopy(model), policy.reference_of(model)
    inputs = converted(work.inputs(), work.dtype)
    tf32 = work.tf32 and work.dtype is torch.float32 and has_convolutions(model)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:  # an empty cache, in which the machine code is found
        os.environ["STRAIGHTLINE_CACHE_DIR"] = folder
        compiled = sl.compile(model, policy.clone(inputs))
        compile_s = time.perf_counter() - start
        by_stream = sl.compile(
            copy.deepcopy(model), policy.clone(inputs), launch="stream"
        )  # which writes its buffers, too
        kernels = resources_in(Path(folder))
    for _ in range(2 if timed else 1):
        check(compiled, eager, reference, inputs, tf32)
        check(by_stream, *others, inputs, tf32)
        inputs = converted(work.inputs(), work.dtype)
    if not timed:
        return
    explained = compiled.explain()
    rows = [row for row in explained.statements if row["phase"] == "run"]
    before = _call.cuda_calls()
    for _ in range(20):
        compiled(*inputs)
    asked = {kind: (count - before[kind]) / 20 for kind, count in _call.cuda_calls().items() if count != before[kind]}
    reads = sum(row["op"] == "read on the host" for row in rows)
    waits = bool(asked.get("synchronizations"))
    assert waits == bool(reads), f"{reads} reads on the host are shown, but asked of the driver: {asked}"
    # In a graph a kernel may begin, and wait, while the one ahead runs: its time says something only by stream.
    times, eager_times = times_of(lambda: compiled(*inputs)), times_of(lambda: eager(*inputs))
    mine, theirs = profile_of(lambda: by_stream(*inputs)), profile_of(lambda: eager(*inputs))
    base = {"case": work.name, "dtype": str(work.dtype).removeprefix("torch."), "tf32": work.tf32}
    families = Counter(row.get("family") or row["kernel"] for row in rows)
    yield {**base, "contender": "straightline", **times, "kernels_us": sum(mine.values()),
           "slowest_us": slowest(mine) if work.name in _LARGE else {},
           "launches": len(rows), "launch": explained["launch"], "families": dict(families), "driver_calls": asked,
           "compile_s": compile_s, "most_registers": max(k.registers for k in kernels),
           "most_shared_bytes": max(k.shared for k in kernels),
           "kernels_that_spill": [k.kernel for k in kernels if k.stack]}  # fmt: skip
    yield {**base, "contender": "eager", **eager_times, "kernels_us": sum(theirs.values()),
           "slowest_us": slowest(theirs) if work.name in _LARGE else {}}  # fmt: skip


def main() -> None:
    """Checks, measures, prints a table, writes JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--once", nargs="*", help="names of models, or none for all: one call each")
    options = parser.parse_args()
    seed = torch.seed() % 2**32
    torch.manual_seed(seed)
    torch.set_default_device("cuda")  # also for what models make themselves
    torch.backends.mha.set_fastpath_enabled(False)  # its GELU is the approximation by tanh, whatever the model says
    print(f"seed {seed}, {torch.cuda.get_device_name(0)}, torch {torch.__version__}", flush=True)
    failures: list[str] = []
    records: list[dict[str, Any]] = []
    checked = 0
    for work in works():
        if options.once and work.name not in options.once:
            continue
        checked += 1
        try:
            got = list(run(work, options.once is None))
        except Exception as error:
            failures.append(f"{title(work)}: {type(error).__name__}: {str(error)[:1200]}")
            print(failures[-1], flush=True)
            continue
        records += got
        if got:
            mine, eager = got
            times = f"sync {mine['sync_us']:8.1f} (eager {eager['sync_us']:8.1f})"
            kernels = f"kernels {mine['kernels_us']:8.1f} ({eager['kernels_us']:8.1f})"
            print(f"{title(work):34} {times}   {kernels}   {mine['launches']:4} launches, {mine['launch']}", flush=True)
    if options.json:
        facts = {
            "machine": f"{torch.cuda.get_device_name(0)}, {platform.processor() or platform.machine()}",
            "versions": {"python": sys.version.split()[0], "torch": torch.__version__, "cuda": torch.version.cuda,
                         "cudnn": torch.backends.cudnn.version()},
            "date": time.strftime("%Y-%m-%d"), "commit": options.commit, "seed": seed, "checked": checked,
            "failures": failures, "records": records,
        }  # fmt: skip
        options.json.write_text(json.dumps(facts, indent=1) + "\n")
    if failures:
        raise SystemExit(f"{len(failures)} of {checked} failed:\n" + "\n".join(failures))
    print(f"{checked} models: ok")


if __name__ == "__main__":
    main()
