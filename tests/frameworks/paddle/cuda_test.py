# SPDX-License-Identifier: Apache-2.0
"""Programs of Paddle for a CUDA device that is not here: their text and their kernels, beside the same nets in torch."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import paddle
import pytest
import straightline as sl
import torch
from paddle import nn
from paddle.static import InputSpec

TARGET = "cuda:sm_90"
_HAS_NVRTC = importlib.util.find_spec("nvidia") is not None


def _kernels(fn: Any) -> list[str]:
    return [row["kernel"] for row in fn.explain().statements if row["phase"] == "run"]


def _net() -> Any:
    net = nn.Sequential(nn.Conv2D(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10))
    net.eval()
    return net


class _Branch(nn.Layer):
    def forward(self, x: Any) -> Any:
        return x * 2 if x.sum() > 0 else x - 1


def test_a_net_has_the_kernels_of_torchs() -> None:
    fn = sl.compile(_net(), (paddle.zeros([2, 3, 8, 8]),), target=TARGET)
    twin = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(512, 10)
    )
    assert _kernels(fn) == _kernels(sl.compile(twin.eval(), (torch.zeros(2, 3, 8, 8),), target=TARGET))
    assert "SL_KERNEL(" in fn.code
    if _HAS_NVRTC:
        assert all(row["registers"] for row in fn.explain().statements if row["backend"] == "cuda")
    with pytest.raises(sl.UnsupportedError, match=f"this program was compiled for {TARGET} and cannot run here"):
        fn(paddle.zeros([2, 3, 8, 8]))


def test_branches_and_recurrent_layers() -> None:
    branch = _Branch()
    branch.eval()
    assert "SL_KERNEL(" in sl.compile(branch, (paddle.ones([4]),), target=TARGET).code
    gru = nn.GRU(16, 16)
    gru.eval()
    assert "SL_KERNEL(" in sl.compile(gru, (paddle.zeros([1, 5, 16]),), target=TARGET).code


def test_a_file(tmp_path: Path) -> None:
    spec = [InputSpec([None, 3, 8, 8], "float32")]
    paddle.jit.save(paddle.jit.to_static(_net(), full_graph=True, input_spec=spec), str(tmp_path / "m"))
    fn = sl.compile(str(tmp_path / "m.json"), target=TARGET)
    assert "SL_KERNEL(" in fn.code


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("cuda", "torch finds no device"),
        ("cuda:sm_80a", "sm_80 has no form 'a'"),
        ("tpu", "must be None, 'cpu', 'cuda'"),
    ],
)
def test_targets_that_are_none(target: str, words: str) -> None:
    with pytest.raises(sl.UserError, match=words):
        sl.compile(_net(), (paddle.zeros([2, 3, 8, 8]),), target=target)
