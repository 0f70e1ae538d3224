# SPDX-License-Identifier: Apache-2.0
"""`tune=True` on an NVIDIA device: answers of what it chooses are right, and a second compilation measures nothing."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import straightline as sl
import torch
from straightline.testing import policy
from torch import nn

from bench.cases.models import EncoderLayer
from bench.cases.resnet import resnet18

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


@pytest.mark.parametrize(
    ("name", "make", "shape", "dtype", "options"),
    list(_cases()),
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
def test_what_is_measured(
    name: str, make: Callable[[], nn.Module], shape: tuple[int, ...], dtype: torch.dtype, options: dict[str, Any],
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("STRAIGHTLINE_CACHE_DIR", str(tmp_path))
    model, x = make().eval().to("cuda", dtype), torch.randn(shape, device="cuda", dtype=dtype)
    eager, exact = model(x), copy.deepcopy(model).double()(x.double())
    estimated = sl.compile(model, (x,), **options)
    tuned = sl.compile(model, (x,), tune=True, **options)
    again = sl.compile(model, (x,), tune=True, **options)
    for what, compiled in (("by the estimates", estimated), ("measured", tuned), ("measured before", again)):
        policy.check_close(compiled(x), eager, exact, f"{name}, {what}")
    assert again._binding.tuning.timed == 0 and again.code == tuned.code, "the second compilation measured again"
    rows = {row["choice"]: row for row in tuned.explain()["statements"] if "measured_us" in row}
    chosen = {choice: row["why"].removeprefix("measured: ").partition(" ")[0] for choice, row in rows.items()}
    first = {choice: next(iter(row["measured_us"])) for choice, row in rows.items()}
    for choice, row in rows.items():
        assert row["measured_us"][chosen[choice]] <= row["measured_us"][first[choice]], row
