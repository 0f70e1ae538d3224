# SPDX-License-Identifier: Apache-2.0
"""Linears of quantized tensors: over the bytes where both factors are, over a weight that stays bytes where it alone is.

The results are held to the numeric policy: float64 decides, torch's float32 is the measure.
"""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
import straightline as sl
import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401  (registers the ops)
import torch.nn.functional as F
from policy import check_close, same_bits
from torch import Tensor, nn

Q = torch.ops.quantized_decomposed
I8, U8 = torch.int8, torch.uint8


class Quantized(nn.Module):
    """A linear as a quantizer leaves it: the weight as bytes in buffers, both factors dequantized before a linear of floats."""

    def __init__(self, n: int = 50, k: int = 70, *, x: str = "u8", zeros: str = "literal", bias: bool = True) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randint(-128, 128, (n, k), dtype=I8))
        self.register_buffer("scales", torch.rand(n) * 0.02 + 0.001)
        self.register_buffer(
            "zeros", torch.randint(-9, 9, (n,)) if zeros == "buffer" else torch.zeros(n, dtype=torch.int64)
        )
        self.bias = nn.Parameter(torch.randn(n)) if bias else None
        self.x, self.kind = x, zeros
        self.scale = random.uniform(0.01, 0.05)
        self.work = torch.float32

    def quantized(self, x: Tensor) -> Tensor:
        """X through quantization and back."""
        if self.x == "u8":
            return Q.dequantize_per_tensor(
                Q.quantize_per_tensor(x, self.scale, 121, 0, 255, U8), self.scale, 121, 0, 255, U8
            )
        if self.x == "i8":
            return Q.dequantize_per_tensor(
                Q.quantize_per_tensor(x, self.scale, 0, -128, 127, I8), self.scale, 0, -128, 127, I8
            )
        if self.x == "dynamic":
            scale, zero = Q.choose_qparams(x, -128, 127, 1e-6, I8)
            return Q.dequantize_per_tensor.tensor(
                Q.quantize_per_tensor.tensor(x, scale, zero, -128, 127, I8), scale, zero, -128, 127, I8
            )
        if self.x in ("token", "token_symmetric"):
            choose = (
                Q.choose_qparams_per_token if self.x == "token_symmetric" else Q.choose_qparams_per_token_asymmetric
            )
            scale, zero = choose(x, I8)
            return Q.dequantize_per_token(
                Q.quantize_per_token(x, scale, zero, -128, 127, I8), scale, zero, -128, 127, I8, torch.float32
            )
        return x

    def dequantized_weight(self) -> Tensor:
        if self.kind == "none":
            return Q.dequantize_per_channel(self.weight, self.scales, None, 0, -128, 127, I8)
        if self.kind == "tensor":
            return Q.dequantize_per_tensor(self.weight, 0.013, 0, -128, 127, I8)
        if self.kind == "literal":
            return self.weight.float() * self.scales[:, None]
        return Q.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -128, 127, I8)

    def forward(self, x: Tensor) -> Tensor:
        bias = None if self.bias is None else self.bias.to(self.work)
        return F.linear(self.quantized(x).to(self.work), self.dequantized_weight().to(self.work), bias)


@torch.no_grad()
def _check(model: Quantized, *inputs: Tensor, draws: int = 0, **options: Any) -> Any:
    """`draws`: how often more eager's error is asked, with scales that differ by ulps."""
    model = model.eval()
    model.work = torch.float32
    compiled = sl.compile(model, (inputs[0],), **options)
    for x in inputs:
        (eager, exact), error = _eager(model, x), 0.0
        moved = copy.deepcopy(model)
        for _ in range(draws):
            moved.scales.mul_(1 + 2**-20)
            one, other = _eager(moved, x)
            error = max(error, (one - other).abs().max().item())
        check_close(compiled(x), eager, exact, error_of_torch=error)
    return compiled


def _eager(model: Quantized, x: Tensor) -> tuple[Tensor, Tensor]:
    """Its result, and that of float64."""
    model.work = torch.float32
    eager = model(x)
    model.work = torch.float64
    return eager, model(x)


def _statements(compiled: Any, phase: str = "run") -> list[dict[str, Any]]:
    return [row for row in compiled.explain().statements if row["phase"] == phase]


def _products(compiled: Any) -> list[str]:
    return [
        row["why"].split(":")[0] for row in _statements(compiled) if row["why"].startswith(("native.gem", "native.mat"))
    ]


@pytest.mark.parametrize("zeros", ["none", "literal", "tensor", "buffer"])
@pytest.mark.parametrize("x", ["u8", "i8", "dynamic", "token", "token_symmetric"])
def test_both_quantized(x: str, zeros: str) -> None:
    model = Quantized(x=x, zeros=zeros, bias=random.random() < 0.7)
    compiled = _check(model, torch.randn(9, 70), torch.randn(9, 70) * 5)
    assert _products(compiled) == ["native.gemm_int8"], [row["why"] for row in _statements(compiled)]


@pytest.mark.parametrize("shape", [(1, 70), (3, 4, 70), (70,)], ids=str)
def test_ranks(shape: tuple[int, ...]) -> None:
    for x in ("u8", "token_symmetric"):
        compiled = _check(Quantized(x=x), torch.randn(shape), torch.randn(shape))
        assert _products(compiled) == ["native.gemm_int8"]


def test_named_rows() -> None:
    rows = torch.export.Dim("rows", min=1, max=50)
    for x in ("u8", "token"):
        model = Quantized(x=x, zeros="buffer")
        compiled = _check(
            model, torch.randn(4, 70), torch.randn(31, 70), torch.randn(1, 70), dynamic_shapes={"x": {0: rows}}
        )
        assert _products(compiled) == ["native.gemm_int8"]


def test_scales_are_in_the_epilogue() -> None:
    compiled = _check(Quantized(x="i8", zeros="none"), torch.randn(9, 70))
    names = [row["kernel"] for row in _statements(compiled)]
    assert len(names) == 2 and names[1].startswith("gemm_int8"), names  # quantize x; the linear


def test_other_parameters() -> None:
    """Weight, scales and zero points are parameters like others."""
    model = Quantized(x="u8", zeros="buffer")
    compiled = _check(model, torch.randn(9, 70))
    other = Quantized(x="u8", zeros="buffer").eval()
    other.scale, other.work = model.scale, torch.float32
    compiled.load_parameters(other.state_dict())
    x = torch.randn(9, 70)
    with torch.no_grad():
        eager = other(x)
        other.work = torch.float64
        check_close(compiled(x), eager, other(x))


def test_parameters_that_change() -> None:
    model = Quantized(x="u8", zeros="literal")
    compiled = _check(model, torch.randn(9, 70), freeze=False)
    model.weight.neg_()
    x = torch.randn(9, 70)
    with torch.no_grad():
        model.work = torch.float32
        eager = model(x)
        model.work = torch.float64
        check_close(compiled(x), eager, model(x))


@torch.no_grad()
def test_a_chain_stays_in_bytes() -> None:
    """Between two linears bytes alone are written."""

    class Chain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = Quantized(60, 70, x="u8"), Quantized(50, 60, x="u8")

        def forward(self, x: Tensor) -> Tensor:
            return self.second(self.first(x).relu())

    model, x = Chain().eval(), torch.randn(12, 70)
    compiled = sl.compile(model, (x,))
    run = _statements(compiled)
    assert [row["kernel"].split("_")[0] for row in run].count("gemm") == 2 and len(run) == 3, [
        row["kernel"] for row in run
    ]
    # A sum on the edge between two bytes may be rounded to the other one.
    step = (model.second.weight.float() * model.second.scales[:, None]).abs().max() * model.second.scale
    assert (compiled(x) - model(x)).abs().max() <= 3 * step


def test_longer_sums_stay_floats() -> None:
    """255 x 128 x 65793 products fit into 32 bits."""
    for k, kernel in ((65793, "native.gemm_int8"), (65794, "native.gem")):
        model = Quantized(2, k, x="u8", zeros="none")
        model.weight.fill_(-128)
        # 65,793 equal numbers: how far a sum of floats is off depends on the number as much as on the order.
        compiled = _check(model, torch.full((1, k), 1e6), draws=8)
        assert _products(compiled)[0].startswith(kernel) and (k == 65793) == (
            _products(compiled)[0] == "native.gemm_int8"
        )


@pytest.mark.parametrize("zeros", ["none", "literal", "tensor"])
@pytest.mark.parametrize("rows", [1, 3, 20])
def test_weight_alone(rows: int, zeros: str) -> None:
    """No copy of the weight is wider than a byte."""
    model = Quantized(512, 640, x="float", zeros=zeros)
    compiled = _check(model, torch.randn(rows, 640), torch.randn(rows, 640))
    large = [row for row in compiled.explain().statements if row["bytes"] > 3 * 512 * 640]
    assert not large, [(row["kernel"], row["bytes"]) for row in large]
    for route in ("native.gemv", "native.gemm"):
        if rows <= 4 or route == "native.gemm":
            routed = _check(model, torch.randn(rows, 640), routes={"linear": route})
            assert _products(routed) == [route]


def test_weight_alone_with_zero_points() -> None:
    """These stay a linear of floats."""
    _check(Quantized(x="float", zeros="buffer"), torch.randn(9, 70))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("rows", [1, 7])
def test_weight_int8pack_mm(dtype: torch.dtype, rows: int) -> None:
    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("weight", torch.randint(-128, 128, (96, 64), dtype=I8))
            self.register_buffer("scales", (torch.rand(96) * 0.02).to(dtype))

        def forward(self, x: Tensor) -> Tensor:
            return torch._weight_int8pack_mm(x, self.weight, self.scales)

    model, x = Packed(), torch.randn(rows, 64).to(dtype)
    compiled = sl.compile(model, (x,))
    check_close(compiled(x), model(x), x.double() @ (model.weight.double() * model.scales.double()[:, None]).t())


@torch.no_grad()
def test_quantize_bit_for_bit() -> None:
    """The compiled kernels round as eager does, ties included."""
    scale = random.uniform(0.001, 0.3)

    def both(x: Tensor) -> tuple[Tensor, ...]:
        u = Q.quantize_per_tensor(x, scale, 7, 0, 255, U8)
        i = Q.quantize_per_tensor(x, scale, 0, -128, 127, I8)
        chosen = Q.choose_qparams(x, 0, 255, 1e-5, U8)
        s, z = Q.choose_qparams_per_token_asymmetric(x, I8)
        t = Q.quantize_per_token(x, s, z, -128, 127, I8)
        back = Q.dequantize_per_token(t, s, z, -128, 127, I8, torch.float32)
        return u, i, Q.dequantize_per_tensor(u, scale, 7, 0, 255, U8), *chosen, s, z, t, back

    x = torch.cat([torch.randn(20, 33) * 9, torch.randint(-300, 300, (20, 33)) * 0.5 * scale])
    compiled = sl.compile(both, (x,))
    for call in (x, x * 3):
        for i, (got, want) in enumerate(zip(compiled(call), both(call), strict=True)):
            assert same_bits(got, want), (i, got[got != want], want[got != want])


def test_narrow_conversions() -> None:
    """Clamped floats become bytes without 64 bits between; NaN is 0 either way, and what is not clamped wraps as in C."""
    scale = random.uniform(0.01, 0.3)

    def quantize(x: Tensor) -> tuple[Tensor, Tensor]:
        return Q.quantize_per_tensor(x, scale, 7, 0, 255, U8), x.nan_to_num(0.0).clamp(-3e9, 3e9).to(U8)

    x = torch.cat(
        [torch.randn(8, 40) * 50, torch.tensor([float("inf"), -float("inf"), float("nan"), 300.0]).repeat(8, 10)]
    )
    compiled = sl.compile(quantize, (x,))
    assert same_bits(compiled(x), quantize(x))
    assert "cast<int32_t>" in compiled.code
