# SPDX-License-Identifier: Apache-2.0
"""Rows put in order on a CUDA device: which kernels, what they take, and what is left to torch. No device is needed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from statements import launches_of

import straightline as sl

from straightline.testing.cubin import resources_in

_TARGET = "cuda:sm_90"


@pytest.mark.parametrize(
    ("k", "shape", "dtype", "kernels"),
    [
        (8, (4096, 64), torch.float32, 1),
        (16, (128, 256), torch.bfloat16, 1),
        (50, (1, 151936), torch.float32, 2),
        (1000, (8, 151936), torch.bfloat16, 2),
        (1000, (1, 16384), torch.float32, 1),  # 16 words a thread of 1,024
        (100, (1, 151936), torch.float64, 2),
        (1000, (1, 8192), torch.int64, 1),
        (None, (64, 2048), torch.float64, 1),
        (None, (8, 8192), torch.float32, 2),
        (None, (1, 32768), torch.bfloat16, 2),
    ],
)
def test_rows_in_order_stay_in_registers(
    k: int | None,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    kernels: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As kernels of ours, with no op of torch, so a graph; nothing spills, and what is shared fits."""
    monkeypatch.setenv("STRAIGHTLINE_CACHE_DIR", str(tmp_path))
    compiled = sl.compile(
        lambda x: tuple(x.sort() if k is None else x.topk(k)), (torch.zeros(shape, dtype=dtype),), target=_TARGET
    )
    rows = launches_of(compiled)
    assert [(row["backend"], row["family"]) for row in rows] == [("cuda", "topk")] * kernels
    for kernel in resources_in(tmp_path):
        assert kernel.stack == 0 and kernel.registers <= 64 and kernel.shared <= 48 << 10, kernel


def test_rows_too_long_to_be_put_in_order() -> None:
    """They stay torch's, with the reason; without torch they are refused."""
    x = torch.zeros(1, 300000)
    compiled = sl.compile(lambda x: tuple(x.sort()), (x,), target=_TARGET)
    assert "rows of 300000 elements of f32 on a device" in str(launches_of(compiled)[0]["why"])
    with pytest.raises(sl.UnsupportedError, match="rows of at most 32768 elements, or k up to 1024"):
        sl.compile(lambda x: tuple(x.topk(2000)), (x,), target=_TARGET, allow=("cuda",))
    rows = torch.export.Dim("rows", min=1, max=64)
    for shapes in (None, ({0: rows},)):
        few = sl.compile(
            lambda x: tuple(x.topk(20)), (x.expand(3, -1),), target=_TARGET, allow=("cuda",), dynamic_shapes=shapes
        )
        assert [row["family"] for row in launches_of(few)] == ["topk", "topk"]
    assert "rows" in few.code.split("sl_program_run(")[1]
