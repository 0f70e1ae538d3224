# SPDX-License-Identifier: Apache-2.0
"""Batch norms that are folded into weights while these are packed: to the bit what folding in float64 before packing gives."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import straightline as sl
import torch
from policy import same_bits
from torch import Tensor, nn

Layer = Callable[[], nn.Module]

# What packs the weight of each: Winograd with 4x and with 2x tiles, panels of a convolution (odd sizes, 1-D, a weight that
# lies with its inputs first), panels of a linear; and some that read the weight as it is.
LAYERS: dict[str, tuple[Layer, tuple[int, ...]]] = {
    "winograd": (lambda: nn.Conv2d(32, 64, 3, padding=1), (1, 32, 24, 24)),
    "winograd_small_images": (lambda: nn.Conv2d(256, 256, 3, padding=1), (1, 256, 6, 6)),
    "winograd_no_bias": (lambda: nn.Conv2d(48, 32, 3, padding=1, bias=False), (2, 48, 15, 17)),
    "stride": (lambda: nn.Conv2d(19, 37, 3, stride=2, padding=1), (2, 19, 15, 17)),
    "stem": (lambda: nn.Conv2d(3, 40, 7, stride=2, padding=3), (1, 3, 33, 31)),
    "pixels": (lambda: nn.Conv2d(33, 70, 1), (2, 33, 9, 7)),
    "rows": (lambda: nn.Conv1d(12, 20, 5, padding=2), (2, 12, 30)),
    "channels_last": (lambda: nn.Conv2d(24, 40, 3, stride=2).to(memory_format=torch.channels_last), (2, 24, 15, 15)),
    "transposed": (lambda: nn.ConvTranspose2d(16, 24, 3, stride=2), (2, 16, 9, 9)),
    "grouped": (lambda: nn.Conv2d(16, 32, 3, groups=4), (2, 16, 9, 9)),
    "depthwise": (lambda: nn.Conv2d(32, 32, 3, groups=32, padding=1), (2, 32, 9, 9)),
    "linear": (lambda: nn.Linear(45, 77), (19, 45)),
    "linear_few": (lambda: nn.Linear(64, 128, bias=False), (33, 64)),
}


def _norm(channels: int, of: type[nn.Module], double: bool) -> nn.Module:
    """A batch norm that has seen much: negative and zero factors, a variance of zero."""
    norm = of(channels, eps=1e-3).eval()
    with torch.no_grad():
        norm.running_mean.uniform_(-1, 1)
        norm.running_var.uniform_(0.1, 3)
        norm.running_var[::5] = 0
        norm.weight.uniform_(-2, 2)
        norm.weight[1] = 0
        norm.bias.uniform_(-1, 1)
    return norm.double() if double else norm


def _model(name: str, double: bool = False) -> tuple[nn.Sequential, Tensor]:
    make, shape = LAYERS[name]
    layer = make()
    layer = layer.double() if double else layer
    channels = layer.out_features if isinstance(layer, nn.Linear) else layer.out_channels
    of = nn.BatchNorm1d if len(shape) < 4 else nn.BatchNorm2d
    return nn.Sequential(layer, _norm(channels, of, double)).eval(), torch.randn(shape).to(layer.weight.dtype)


def _folded(model: nn.Sequential) -> nn.Module:
    """The layer with the norm in its weights, as the compiler folds it: in float64, rounded once."""
    layer, norm = copy.deepcopy(model[0]), model[1]
    scale = norm.weight.double() / (norm.running_var.double() + norm.eps).sqrt()
    shape = [1] * layer.weight.ndim
    shape[1 if isinstance(layer, nn.ConvTranspose2d) else 0] = -1
    shift = norm.bias.double() - norm.running_mean.double() * scale
    bias = shift if layer.bias is None else layer.bias.double() * scale + shift
    layer.weight = nn.Parameter((layer.weight.double() * scale.reshape(shape)).to(layer.weight.dtype))
    layer.bias = nn.Parameter(bias.to(layer.weight.dtype))
    return layer


@torch.no_grad()
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", LAYERS)
def test_as_folded_before(name: str, threads: int) -> None:
    model, x = _model(name)
    function = sl.compile(model, (x,), threads=threads)
    y = function(x)
    expected = model(x)
    torch.testing.assert_close(y, expected, rtol=2e-4, atol=2e-4 * float(expected.abs().max()))
    assert same_bits(y, sl.compile(_folded(model), (x,), threads=threads)(x))


@torch.no_grad()
@pytest.mark.parametrize("name", ["winograd", "stride", "pixels", "linear"])
def test_double(name: str) -> None:
    model, x = _model(name, double=True)
    torch.testing.assert_close(sl.compile(model, (x,))(x), model(x), rtol=1e-9, atol=1e-9)


@torch.no_grad()
@pytest.mark.parametrize("name", ["winograd", "stride", "linear"])
def test_the_weight_is_packed_from_where_it_lies(name: str) -> None:
    model, x = _model(name)
    prepare = [row for row in sl.compile(model, (x,)).explain().statements if row["phase"] == "prepare"]
    assert [row["family"] for row in prepare if row["family"].startswith("pack")] != []
    # the factors of the outputs are computed by themselves; the weight is not
    assert all(row["bytes"] < 16 * 1024 for row in prepare if row["family"] == "pointwise")


@torch.no_grad()
@pytest.mark.parametrize("name", ["winograd", "stride", "channels_last", "linear"])
def test_other_parameters(name: str) -> None:
    model, x = _model(name)
    function = sl.compile(model, (x,))
    other = _model(name)[0]
    function.load_parameters(other.state_dict())
    fresh = sl.compile(other, (x,))
    assert same_bits(function(x), fresh(x))
    assert same_bits(sl.compile(model, (x,)).with_parameters(other.state_dict())(x), fresh(x))


@torch.no_grad()
@pytest.mark.parametrize("name", ["winograd", "stride", "linear"])
def test_live_parameters(name: str) -> None:
    model, x = _model(name)
    function = sl.compile(model, (x,), freeze=False)
    for _ in range(2):
        expected = model(x)
        torch.testing.assert_close(function(x), expected, rtol=2e-4, atol=2e-4 * float(expected.abs().max()))
        model[0].weight.uniform_(-0.1, 0.1)
        model[1].weight.uniform_(-2, 2)


@torch.no_grad()
@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("name", ["winograd", "winograd_small_images", "stem", "linear"])
def test_saved(name: str, prepared: bool, tmp_path: Path) -> None:
    model, x = _model(name)
    function = sl.compile(model, (x,))
    function.save(tmp_path / "m.sl", ("host",), prepared=prepared)
    assert same_bits(sl.load(tmp_path / "m.sl")(x), function(x))


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_stored_narrower(dtype: torch.dtype) -> None:
    """A weight that is widened before it is packed is widened while it is packed."""
    weight = nn.Linear(40, 72).to(dtype)

    class Widened(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = weight

        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.linear(x, self.layer.weight.float(), self.layer.bias.float())

    x = torch.randn(24, 40)
    torch.testing.assert_close(sl.compile(Widened(), (x,))(x), Widened()(x), rtol=1e-5, atol=1e-5)
