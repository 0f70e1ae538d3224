# SPDX-License-Identifier: Apache-2.0
"""Autotuners: the first configuration without a device, the fastest with one (whose times the test says), remembered in a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import straightline as sl
import torch
import triton
from straightline import _compiler, _targets, _triton_tuning
from torch import Tensor
from torch.library import triton_op, wrap_triton

from tests.frameworks.triton import kernels
from tests.frameworks.triton.programs_test import TARGET, _row

_CONFIGS = [
    triton.Config({"BLOCK": 1 << 21}, num_warps=4),  # more than a tensor of Triton's may have
    triton.Config({"BLOCK": 256}, num_warps=2),
    triton.Config({"BLOCK": 512}, num_warps=4),
    triton.Config({"BLOCK": 1024}, num_warps=8),
]
#: Names of ops stay taken in torch.
triton_ops_seen: list[str] = []
tuned = triton.autotune(_CONFIGS, key=["n"])(kernels.scaled_add)
SCHEMA = "tuned_triton::add(Tensor x_ptr, Tensor y_ptr, SymInt n, float alpha) -> Tensor"


class _Add(torch.nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.ops.tuned_triton.add(x, y, x.numel(), 2.5)


@pytest.fixture
def add() -> Iterator[Any]:
    kernel = sl.triton_kernel(tuned, SCHEMA, grid=lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),))
    yield kernel
    kernel.unregister()


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """What is measured, on a device that this says is here: the third of three configurations is the fastest."""
    asked: list[Any] = []

    def times(op: str, values: Any, able: Any, device: int) -> list[float]:
        asked.append((op, {name: _triton_tuning._shown(value) for name, value in values.items()}, list(able), device))
        return [3.0, 2.0, 1.0]

    monkeypatch.setattr(_triton_tuning, "can_measure", lambda arch: True)
    monkeypatch.setattr(_triton_tuning, "_times", times)
    monkeypatch.setattr(_triton_tuning, "_known", {})
    monkeypatch.setattr(_targets, "machine", lambda number: f"a device {number}")
    monkeypatch.setattr(_triton_tuning, "_path", lambda: str(tmp_path / "tuning.json"))
    return asked


def test_without_a_device_the_first_that_can_be_compiled(add: Any) -> None:
    x = torch.randn(5000)
    row = _row(sl.compile(_Add(), (x, x), target=TARGET))
    assert (
        "configuration BLOCK: 256, num_warps: 2" in row["why"]
        and "the first of 4 that can be compiled: no device" in row["why"]
    )
    assert (row["blocks"], row["block_threads"]) == (20, 64)


def test_the_fastest_is_taken_and_remembered(
    add: Any, measured: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    x = torch.randn(5000)
    for _ in range(2):
        row = _row(sl.compile(_Add(), (x, x), target=TARGET))
        assert (row["blocks"], row["block_threads"]) == (5, 256)
        assert (
            "measured: BLOCK: 1024, num_warps: 8" in row["why"] and "1.00 us" in row["why"] and "3.00 us" in row["why"]
        )
        monkeypatch.setattr(_triton_tuning, "_known", {})  # another process
    shown = {"x_ptr": "float32[5000]", "y_ptr": "float32[5000]", "n": "5000", "alpha": "2.5"}
    assert measured == [("tuned_triton::add", shown, [1, 2, 3], 0)]
    records = json.loads((tmp_path / "tuning.json").read_text())["records"]
    assert [record["machine"] for record in records] == ["a device 0, compiled for sm_90"]
    assert records[0]["problem"].startswith("triton.add(x_ptr=float32[5000], y_ptr=float32[5000], n=5000, alpha=2.5) ")


def test_other_sizes_are_measured_anew_and_names_have_the_examples(add: Any, measured: list[Any]) -> None:
    batch = torch.export.Dim("b", min=1, max=100000)
    sl.compile(_Add(), (torch.randn(77, 3),) * 2, target=TARGET)
    x, y = torch.randn(55, 3), torch.randn(55, 3)
    sl.compile(_Add(), (x, y), target=TARGET, dynamic_shapes=({0: batch}, {0: batch}))
    assert [asked[1]["n"] for asked in measured] == ["231", "165"]
    assert measured[1][1]["x_ptr"] == "float32[55, 3]"


def test_without_the_cache_no_file_is_written(add: Any, measured: list[Any], tmp_path: Path) -> None:
    x = torch.randn(10)
    sl.compile(_Add(), (x, x), target=TARGET, cache=False)
    assert len(measured) == 1 and not (tmp_path / "tuning.json").exists()


def test_an_autotuner_in_an_op_of_torch(measured: list[Any]) -> None:
    @triton_op("tuned_triton::op", mutates_args={})
    def op(x: Tensor, y: Tensor) -> Tensor:
        out = torch.empty_like(x)
        n = x.numel()
        wrap_triton(tuned)[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n, 0.5)
        return out

    class Model(torch.nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return op(x, y)

    x = torch.randn(5000)
    row = _row(sl.compile(Model(), (x, torch.randn(5000)), target=TARGET))
    assert (row["blocks"], row["block_threads"]) == (5, 256)
    assert measured[0][2] == [1, 2, 3]


def test_the_file_is_that_of_tune() -> None:
    folder = _compiler.cache_info()["directory"]
    assert _triton_tuning._path() in ("", f"{folder}/tuning.json")


def _first_is_dropped(configs: list[Any], named_args: dict[str, Any], **kwargs: Any) -> list[Any]:
    return configs[2:] if named_args["n"] > 100 else configs[:2]


def _as_slow_as_large(BLOCK: int, **_: Any) -> float:
    return -BLOCK


@pytest.mark.parametrize(
    ("pruning", "expected"),
    [
        ({"early_config_prune": _first_is_dropped}, {5000: (10, 128), 90: (1, 64)}),
        (
            {"perf_model": _as_slow_as_large, "top_k": 3, "early_config_prune": lambda c, a, **k: c[1:3]},
            {5000: (20, 64)},
        ),
        ({"perf_model": lambda BLOCK, **_: abs(BLOCK - 512), "top_k": 1}, {5000: (10, 128)}),
    ],
)
@pytest.mark.parametrize("how", ["triton_op", "triton_kernel"])
def test_a_configuration_that_is_left_has_its_own_grid(
    how: str, pruning: dict[str, Any], expected: dict[int, tuple[int, int]]
) -> None:
    """Pruning by functions of the user's: blocks and threads are those of one configuration of the ones that stay."""
    pruned = triton.autotune(_CONFIGS, key=["n"], prune_configs_by=pruning)(kernels.scaled_add)
    name = f"pruned_triton::{how}_{len(triton_ops_seen)}"
    triton_ops_seen.append(name)

    def grid(meta: dict[str, Any]) -> tuple[int]:
        return (triton.cdiv(meta["n"], meta["BLOCK"]),)

    if how == "triton_kernel":
        kernel = sl.triton_kernel(
            pruned, f"{name}(Tensor x_ptr, Tensor y_ptr, SymInt n, float alpha) -> Tensor", grid=grid
        )
    else:

        @triton_op(name, mutates_args={})
        def op(x: Tensor, y: Tensor) -> Tensor:
            out = torch.empty_like(x)
            wrap_triton(pruned)[grid](x, y, out, x.numel(), 0.5)
            return out

    class Model(torch.nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            if how == "triton_kernel":
                return getattr(torch.ops.pruned_triton, name.partition("::")[2])(x, y, x.numel(), 0.5)
            return op(x, y)

    try:
        for count, shape in expected.items():
            x = torch.randn(count)
            row = _row(sl.compile(Model(), (x, torch.randn(count)), target=TARGET))
            assert (row["blocks"], row["block_threads"]) == shape, row["why"]
    finally:
        if how == "triton_kernel":
            kernel.unregister()


def test_no_configuration_is_left() -> None:
    pruning = {"early_config_prune": lambda *_, **__: []}
    pruned = triton.autotune(_CONFIGS, key=["n"], prune_configs_by=pruning)(kernels.scaled_add)
    kernel = sl.triton_kernel(pruned, SCHEMA, grid=(1,))
    x = torch.randn(500)
    try:
        with pytest.raises(sl.UserError, match=r"pruning leaves no configuration of .*scaled_add.*, of the 4 that"):
            sl.compile(_Add(), (x, x), target=TARGET)
    finally:
        kernel.unregister()
