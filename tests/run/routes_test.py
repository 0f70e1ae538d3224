# SPDX-License-Identifier: Apache-2.0
"""Routes: who says which kernel does an op, and that it does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import straightline as sl

X = torch.randn(1, 64)


@pytest.fixture
def model() -> nn.Module:
    """Two linear layers whose cheapest kernel at one row is gemm."""
    return nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 8)).eval()


def whys(model: nn.Module, args: tuple[Any, ...] = (X,), **options: Any) -> list[str]:
    """Reasons for the linear layers; the result is compared with eager on the way."""
    compiled = sl.compile(model, args, **options)
    with torch.no_grad():
        torch.testing.assert_close(compiled(*args), model(*args), rtol=1e-4, atol=1e-5)
    return [row["why"] for row in compiled.explain().statements if row["op"].startswith(("linear", "convolution"))]


def test_an_argument(model: nn.Module) -> None:
    assert all(why.startswith("native.gemm: estimated") for why in whys(model))
    for why in whys(model, routes={"linear": "native.gemv"}):
        assert why.startswith("native.gemv: route linear = native.gemv (the argument routes), estimated")
        assert "(native.gemm: estimated" in why
    for why in whys(model, routes={"linear": "native", "matmul": "native.matmul"}):
        assert why.startswith("native.gemm: route linear = native (the argument routes), estimated")


def test_the_environment(model: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRAIGHTLINE_ROUTE_linear", "native.gemv")
    compiled = sl.compile(model, (X,))
    assert "native.gemv: route linear = native.gemv (STRAIGHTLINE_ROUTE_linear), estimated" in str(
        compiled.explain().facts
    )
    monkeypatch.setenv("STRAIGHTLINE_ROUTE_linear", "no such thing")
    compiled(X)  # read when compiling only
    monkeypatch.setenv("STRAIGHTLINE_ROUTE_linear", "")
    assert all(why.startswith("native.gemm: estimated") for why in whys(model))


def test_a_file(model: nn.Module, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "routes.txt"
    path.write_text("# kernels of this machine\n\n  linear=native.gemv   # slower\nconvolution = native\n")
    monkeypatch.setenv("STRAIGHTLINE_ROUTES", str(path))
    assert all("native.gemv: route linear = native.gemv (routes.txt:3)" in why for why in whys(model))


def test_the_order_of_precedence(model: nn.Module, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "routes.txt"
    path.write_text("linear = native.gemv\nconvolution = native.convolution\n")
    monkeypatch.setenv("STRAIGHTLINE_ROUTES", str(path))
    monkeypatch.setenv("STRAIGHTLINE_ROUTE_linear", "native.gemm")
    assert all("(STRAIGHTLINE_ROUTE_linear)" in why and why.startswith("native.gemm") for why in whys(model))
    argument = {"linear": "native.gemv"}
    assert all("(the argument routes)" in why and why.startswith("native.gemv") for why in whys(model, routes=argument))
    both = nn.Sequential(nn.Conv2d(4, 8, 3), nn.Flatten(), nn.Linear(32, 5)).eval()
    given = whys(both, (torch.randn(1, 4, 4, 4),), routes=argument)
    assert "native.convolution: route convolution = native.convolution (routes.txt:2)" in given[0]
    assert "native.gemv: route linear = native.gemv (the argument routes)" in given[1]


@pytest.mark.parametrize("kernel", ["native.convolution", "native.convolution_direct", "native.winograd"])
def test_each_convolution(kernel: str) -> None:
    model, x = nn.Conv2d(32, 32, 3, padding=1).eval(), torch.randn(1, 32, 14, 14)
    assert whys(model, (x,), routes={"convolution": kernel})[0].startswith(f"{kernel}: route convolution = {kernel}")


def test_attention() -> None:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(q, k, v)

    args = tuple(torch.randn(1, 2, 8, 16) for _ in range(3))
    compiled = sl.compile(attend, args, routes={"scaled_dot_product_attention": "native.attention"})
    torch.testing.assert_close(compiled(*args), attend(*args), rtol=1e-4, atol=1e-5)
    assert any(
        "native.attention: route scaled_dot_product_attention" in row["why"] for row in compiled.explain().statements
    )


def test_a_route_of_an_op_that_is_not_there(model: nn.Module) -> None:
    """One file may serve several models: a warning."""
    with pytest.warns(sl.RouteWarning, match="route convolution = native.winograd .* names no op of the model"):
        assert all(
            why.startswith("native.gemm: estimated") for why in whys(model, routes={"convolution": "native.winograd"})
        )


def test_weights_are_packed_for_the_routed_kernel(model: nn.Module) -> None:
    unpacked, routed = (
        sl.compile(model, (X,), routes={"linear": "native.gemv"}),
        sl.compile(model, (X,), routes={"linear": "native.gemm"}),
    )
    assert unpacked.explain()["prepared_bytes"] == 0 < routed.explain()["prepared_bytes"]
    routed.load_parameters({name: torch.zeros_like(t) for name, t in model.state_dict().items()})
    assert torch.equal(routed(X), torch.zeros(1, 8))
