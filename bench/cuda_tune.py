# SPDX-License-Identifier: Apache-2.0
"""`tune=True` on an NVIDIA device: answers of what it chooses, what it keeps, and what it was worth.

    python -m bench.cuda_tune                   # checks; what is chosen is printed
    python -m bench.cuda_tune --json FILE       # and microseconds of a call, as estimated and as measured, for bench/results

Fails where an answer is worse than eager's by the rules of tests/run/policy.py, or a second compilation measures again.
"""

from __future__ import annotations

import copy
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import straightline as sl
import torch
from torch import nn

_ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_ROOT / "tests"), str(_ROOT / "tests" / "run")]
import policy  # noqa: E402

from bench import cuda_results  # noqa: E402
from bench.cases.models import EncoderLayer  # noqa: E402
from bench.cases.resnet import resnet18  # noqa: E402
from bench.cuda_decode import times_of  # noqa: E402

_HALVES = (torch.bfloat16, torch.float16)


def _cases() -> Iterator[tuple[str, Callable[[], nn.Module], tuple[int, ...], torch.dtype, dict[str, Any]]]:
    """Name, model, shape of its input, type, options."""
    for dtype in (torch.float32, *_HALVES):
        for rows in (4, 64, 512):
            for launch in ("graph", "stream"):
                model = lambda: nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1023))  # noqa: E731
                yield f"linears of {rows} rows, {launch}", model, (rows, 1024), dtype, {"launch": launch}
    for dtype in (torch.float32, torch.float16):
        model = lambda: nn.Sequential(  # noqa: E731
            nn.Conv2d(3, 64, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3),
            nn.ReLU(),
            nn.Conv2d(64, 128, 1),
            nn.Sigmoid(),
        )
        yield "convolutions", model, (4, 3, 58, 58), dtype, {}
    transposed = partial(nn.ConvTranspose2d, 32, 16, 4, stride=2, padding=1)
    yield "transposed convolution", transposed, (1, 32, 28, 28), torch.bfloat16, {}
    yield "encoder layer", lambda: EncoderLayer(512, 8, 2048), (1, 128, 512), torch.bfloat16, {}
    for images, dtype in ((1, torch.float32), (1, torch.float16), (10, torch.float32)):
        yield f"ResNet-18, {images} images", resnet18, (images, 3, 224, 224), dtype, {}


def _record(
    name: str, make: Callable[[], nn.Module], shape: tuple[int, ...], dtype: torch.dtype, options: dict[str, Any]
) -> dict[str, Any]:
    model, x = make().eval().to("cuda", dtype), torch.randn(shape, device="cuda", dtype=dtype)
    eager, exact = model(x), copy.deepcopy(model).double()(x.double())
    estimated = sl.compile(model, (x,), **options)
    begin = time.perf_counter()
    tuned = sl.compile(model, (x,), tune=True, **options)
    seconds = time.perf_counter() - begin
    again = sl.compile(model, (x,), tune=True, **options)
    for what, compiled in (("by the estimates", estimated), ("measured", tuned), ("measured before", again)):
        policy.check_close(compiled(x), eager, exact, f"{name}, {what}")
    assert again._binding.tuning.timed == 0 and again.code == tuned.code, "the second compilation measured again"
    rows = {row["choice"]: row for row in tuned.explain()["statements"] if "measured_us" in row}
    chosen = {choice: row["why"].removeprefix("measured: ").partition(" ")[0] for choice, row in rows.items()}
    first = {choice: next(iter(row["measured_us"])) for choice, row in rows.items()}
    for choice, row in rows.items():
        assert row["measured_us"][chosen[choice]] <= row["measured_us"][first[choice]], row
    return {
        "case": name, "dtype": str(dtype).removeprefix("torch."), "launch": options.get("launch", "graph"), "tune_s": seconds,
        "measured": len(rows), "others_than_estimated": sum(chosen[choice] != first[choice] for choice in rows),
        "estimated_us": times_of(partial(estimated, x))["sync_us"], "tuned_us": times_of(partial(tuned, x))["sync_us"],
        "choices": {choice: row["measured_us"] for choice, row in rows.items()},
    }  # fmt: skip


@torch.inference_mode()
def main() -> None:
    """Checks."""
    options = cuda_results.parser(__doc__).parse_args()
    print(f"seed {cuda_results.seeded()}, {torch.cuda.get_device_name(0)}, torch {torch.__version__}")
    failures: list[str] = []
    records = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["STRAIGHTLINE_CACHE_DIR"] = folder
        for case in _cases():
            name, _, _, dtype, _ = case
            record = cuda_results.attempted(failures, f"{name}, {dtype}", partial(_record, *case))
            if record is None:
                continue
            records.append(record)
            print(
                f"{name}, {record['dtype']}: {record['estimated_us']:.1f} -> {record['tuned_us']:.1f} us,"
                f" {record['others_than_estimated']} of {record['measured']} not as estimated, {record['tune_s']:.1f} s",
                flush=True,
            )
    cuda_results.write(options, records)
    if failures:
        raise SystemExit(f"{len(failures)} failures")


if __name__ == "__main__":
    main()
