# SPDX-License-Identifier: Apache-2.0
"""Depthwise, grouped and strided convolutions of a named batch: their kernel knows all but the batch, and serves each size."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import straightline as sl


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(12, 12, 3, padding=1, groups=12), nn.Conv2d(12, 24, 3, stride=2, groups=12), nn.Conv2d(5, 5, 5, padding=2, groups=5),
        nn.Conv2d(12, 8, 3, padding=1, groups=4), nn.ConvTranspose2d(6, 4, 3, stride=2),
    ],
    ids=["depthwise", "two outputs", "5x5", "grouped", "transposed"],
)  # fmt: skip
@pytest.mark.parametrize("threads", [1, 2])
def test_each_batch(layer: nn.Module, threads: int) -> None:
    seed = torch.seed()
    print(f"seed {seed}")
    model = nn.Sequential(layer, nn.ReLU()).eval()
    example = torch.randn(3, layer.in_channels, 13, 17)
    batch = torch.export.Dim("batch", min=1, max=1000)
    with torch.no_grad():
        compiled = sl.compile(model, (example,), threads=threads, dynamic_shapes=({0: batch},))
        for count in (1, 2, 3, 8, 33):
            x = torch.randn(count, *example.shape[1:])
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
    if "sl::convolution_direct<" in compiled.code:
        assert "sl::Batched<sl::ConvolutionDirectShape" in compiled.code


def test_other_named_sizes_have_the_general_shape() -> None:
    model = nn.Conv2d(6, 6, 3, padding=1, groups=6).eval()
    rows = torch.export.Dim("rows", min=3, max=100)
    with torch.no_grad():
        compiled = sl.compile(model, (torch.randn(2, 6, 9, 11),), threads=1, dynamic_shapes=({2: rows},))
        assert "sl::Batched<sl::ConvolutionDirectShape" not in compiled.code
        for count in (3, 10, 31):
            x = torch.randn(2, 6, count, 11)
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
