# SPDX-License-Identifier: Apache-2.0
"""Files with programs for several architectures, on a device: the very bits of what was compiled for it, and PTX by the driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import straightline as sl
import torch
from straightline.artifact import manifest_of
from torch import nn

_ALL = ("sm_80", "sm_90", "sm_100", "sm_120")


def _models() -> dict[str, tuple[nn.Module, tuple[Any, ...]]]:
    return {
        "products": (
            nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.LayerNorm(512), nn.Linear(512, 64), nn.Softmax(-1)),
            (torch.randn(96, 256),),
        ),
        "images": (
            nn.Sequential(
                nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                nn.Linear(16, 10),
            ),
            (torch.randn(4, 3, 32, 32),),
        ),
        "rows": (nn.Softmax(-1), (torch.randn(3, 50000),)),
        "recurrent": (nn.GRU(32, 64, batch_first=True), (torch.randn(2, 40, 32),)),
    }  # fmt: skip


def _own() -> str:
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"


def _placed(name: str, dtype: torch.dtype) -> tuple[nn.Module, tuple[Any, ...]]:
    model, inputs = _models()[name]
    return model.eval().requires_grad_(False).cuda().to(dtype), tuple(x.cuda().to(dtype) for x in inputs)


def _close(got: Any, expected: Any, exact: Any, name: str) -> None:
    """As near to float64 as eager is, up to four times and a thousandth of the largest."""
    for mine, eager, right in zip(*map(torch.utils._pytree.tree_leaves, (got, expected, exact)), strict=True):
        scale = right.abs().max().item()
        error, allowed = ((x.double() - right).abs().max().item() for x in (mine, eager))
        assert error <= 4 * allowed + 1e-3 * scale, (name, error, allowed, scale)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("name", list(_models()))
def test_its_own_code_is_taken(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    model, inputs = _placed(name, dtype)
    function = sl.compile(model, inputs)
    devices = tuple(dict.fromkeys((*_ALL, _own())))
    function.save(tmp_path / "m.sl", ("host",), devices=devices)
    loaded = sl.load(tmp_path / "m.sl")
    assert loaded.explain().facts["target"] == _own()
    for _ in range(3):
        for got, expected in zip(
            *map(torch.utils._pytree.tree_leaves, (loaded(*inputs), function(*inputs))), strict=True
        ):
            assert torch.equal(got, expected)
    assert loaded.profile(*inputs, runs=2).rows


@pytest.mark.parametrize("launch", ["stream", "graph"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("name", list(_models()))
def test_text_of_an_older_device(name: str, dtype: torch.dtype, launch: str, tmp_path: Path) -> None:
    """PTX for sm_80 on a device of another generation: the driver compiles it; many runs behind each other are right."""
    if _own().startswith("sm_8") or torch.cuda.get_device_capability() < (8, 0):
        pytest.skip("the device takes machine code for sm_80")
    model, inputs = _placed(name, dtype)
    other = next(device for device in ("sm_100", "sm_120", "sm_90") if device[:-1] != _own()[:-1])
    try:
        function = sl.compile(model, inputs, launch=launch)
    except sl.UnsupportedError as error:
        pytest.skip(str(error))
    function.save(tmp_path / "m.sl", ("host",), devices=("sm_80", other))
    targets = [variant["target"] for variant in manifest_of(tmp_path / "m.sl")["programs"][0]["variants"]]
    assert targets[-1] == "cuda:compute_80"
    loaded = sl.load(tmp_path / "m.sl")
    assert loaded.explain().facts["target"] == "sm_80"
    exact = model.double()(*(x.double() for x in inputs))
    expected = model.to(dtype)(*inputs)
    first = torch.utils._pytree.tree_leaves(loaded(*inputs))
    _close(first, expected, exact, name)
    for _ in range(50):  # a kernel that began before the one ahead of it had ended would show
        for got, same in zip(torch.utils._pytree.tree_leaves(loaded(*inputs)), first, strict=True):
            assert torch.equal(got, same)


def test_no_code_for_this_device(tmp_path: Path) -> None:
    major, _ = torch.cuda.get_device_capability()
    others = [device for device in ("sm_100a", "sm_120a", "sm_90a") if int(device[3:-1]) // 10 != major][:2]
    model, inputs = _placed("rows", torch.float32)
    sl.compile(model, inputs).save(tmp_path / "m.sl", ("host",), devices=others)
    with pytest.raises(sl.UnsupportedError) as caught:
        sl.load(tmp_path / "m.sl")
    assert all(f"cuda:{device}" in str(caught.value) for device in others) and _own() in str(caught.value)
