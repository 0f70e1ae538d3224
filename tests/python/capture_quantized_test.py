# SPDX-License-Identifier: Apache-2.0
"""Capture of quantization ops: each against torch's own definition on fresh inputs, bit for bit."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import straightline as sl
import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401  (registers the ops)
from capture_ops_test import check_rows
from torch import Tensor

Q = torch.ops.quantized_decomposed
I8, U8, I16, I32 = torch.int8, torch.uint8, torch.int16, torch.int32
BF16, F16, F64, I64 = torch.bfloat16, torch.float16, torch.float64, torch.int64

#: Any number of 53 bits, as an observer leaves it.
SCALE = random.uniform(0.001, 0.3)
RANGES = {I8: (-128, 127), U8: (0, 255), I16: (-32768, 32767), I32: (-(2**31), 2**31 - 1)}


def draw() -> tuple[Tensor, ...]:
    """X with ties, u8, i8, scales and zero points of rows, of tokens, and of a tensor."""
    x = torch.where(torch.rand(6, 8) < 0.3, torch.randint(-9, 9, (6, 8)) * 0.5 * SCALE, torch.randn(6, 8) * 3)
    return (
        x,
        torch.randint(0, 256, (6, 8), dtype=U8),
        torch.randint(-128, 128, (6, 8), dtype=I8),
        torch.rand(6) + 0.01,
        torch.randint(-5, 5, (6,)),
        torch.rand(6, 1, dtype=F64) + 0.01,
        torch.randint(-100, 100, (6, 1)),
        torch.rand(1, dtype=F64) + 0.01,
        torch.randint(0, 9, (1,)),
    )


Row = Callable[..., Any]
PER_TENSOR: list[Row] = [
    *(lambda x, *_, d=d, z=z: Q.quantize_per_tensor(x, SCALE, z, *RANGES[d], d) for d in (I8, U8, I16) for z in (0, 3)),
    lambda x, *_: Q.quantize_per_tensor(x, SCALE, 7, 0, 127, U8),
    lambda x, *_: Q.quantize_per_tensor(x.bfloat16(), SCALE, 7, 0, 127, U8),
    lambda x, *_: Q.quantize_per_tensor(x.half(), SCALE, -1, -127, 127, I8),
    lambda x, u, i, s, z, ts, tz, one, zero: Q.quantize_per_tensor.tensor(x, one, zero, -128, 127, I8),
    lambda x, u, i, s, z, ts, tz, one, zero: Q.quantize_per_tensor.tensor(x, one.float(), zero.int(), 0, 255, U8),
    lambda x, u, i, s, z, ts, tz, one, zero: Q.quantize_per_tensor.tensor2(x, one, zero, zero - 9, zero + 50, I8),
    lambda x, u, *_: Q.dequantize_per_tensor(u, SCALE, 130, 0, 255, U8),
    lambda x, u, i, *_: Q.dequantize_per_tensor(i, SCALE, 0, -128, 127, I8),
    lambda x, u, i, *_: Q.dequantize_per_tensor(i, SCALE, 9, -128, 127, I8, out_dtype=BF16),
    lambda x, u, i, *_: Q.dequantize_per_tensor(i, SCALE, -9, -128, 127, I8, out_dtype=F16),
    lambda x, u, i, *_: Q.dequantize_per_tensor(i.int() * 1000003, SCALE, 9, *RANGES[I32], I32),
    lambda x, u, i, s, z, ts, tz, one, zero: Q.dequantize_per_tensor.tensor(i, one, zero, -128, 127, I8),
    lambda x, u, i, s, z, ts, tz, one, zero: Q.dequantize_per_tensor.tensor(
        u, one.float(), zero, 0, 255, U8, out_dtype=BF16
    ),
    lambda x, u, i, s, z, ts, tz, one, zero: Q.dequantize_per_tensor.tensor2(i, one, zero, zero, zero, I8),
]

PER_ROW: list[Row] = [
    lambda x, u, i, s, z, *_: Q.quantize_per_channel(x, s, z, 0, -128, 127, I8),
    lambda x, u, i, s, z, *_: Q.quantize_per_channel(x.t(), s, z, 1, -128, 127, I8),
    lambda x, u, i, s, z, *_: Q.quantize_per_channel(x.half(), s.double(), z.int(), 0, 0, 200, U8),
    lambda x, u, i, s, z, *_: Q.dequantize_per_channel(i, s, z, 0, -128, 127, I8),
    lambda x, u, i, s, z, *_: Q.dequantize_per_channel(u, s.double(), z.int(), 0, 0, 255, U8),
    lambda x, u, i, s, z, *_: Q.dequantize_per_channel(i.t(), s, None, 1, -128, 127, I8, out_dtype=BF16),
    lambda x, u, i, s, z, *_: Q.dequantize_per_channel(i, s, z.float() * 0.3, 0, -128, 127, I8),
    lambda x, u, i, s, z, ts, tz, *_: Q.quantize_per_token(x, ts, tz, -128, 127, I8),
    lambda x, u, i, s, z, ts, tz, *_: Q.quantize_per_token(x, ts.float(), tz.float(), -128, 127, I8),
    lambda x, u, i, s, z, ts, tz, *_: Q.quantize_per_token(x.bfloat16(), ts.bfloat16(), tz.bfloat16(), -128, 127, I8),
    lambda x, u, i, s, z, ts, tz, *_: Q.dequantize_per_token(i, ts, tz, -128, 127, I8, torch.float32),
    lambda x, u, i, s, z, ts, tz, *_: Q.dequantize_per_token(u, ts.float(), tz.float(), 0, 255, U8, torch.float32),
    lambda x, u, i, s, z, ts, tz, *_: Q.dequantize_per_token(i, ts, tz, -128, 127, I8, BF16),
    lambda x, u, i, s, z, *_: Q.quantize_per_channel_group(x, torch.stack([s, s + 0.1], 1), torch.stack([z, z + 1], 1), -8, 7, I8, 4),
    lambda x, u, i, s, z, *_: Q.dequantize_per_channel_group(i, torch.stack([s, s + 0.1], 1), torch.stack([z, z + 1], 1), -8, 7, I8, 4, torch.float32),
    lambda x, u, i, s, z, *_: Q.dequantize_per_channel_group(i, torch.stack([s, s + 0.1], 1), None, -8, 7, I8, 4, BF16),
]  # fmt: skip


def _pair(op: Row) -> Row:
    return lambda *args: torch.cat([part.double().flatten() for part in op(*args)])


CHOOSE: list[Row] = [
    _pair(lambda x, *_: Q.choose_qparams(x, -128, 127, 1e-5, I8)),
    _pair(lambda x, *_: Q.choose_qparams(x.abs(), 0, 255, 1e-5, U8)),
    _pair(lambda x, *_: Q.choose_qparams(x.bfloat16(), 0, 255, 1e-5, U8)),
    _pair(lambda x, *_: Q.choose_qparams_symmetric(x, -127, 127, 1e-5, I8)),
    _pair(lambda x, *_: Q.choose_qparams_symmetric(x.half(), 0, 255, 1e-5, U8)),
    _pair(lambda x, *_: Q.choose_qparams_per_token(x, I8)),
    _pair(lambda x, *_: Q.choose_qparams_per_token(x.half(), I8)),
    _pair(lambda x, *_: Q.choose_qparams_per_token_asymmetric(x, I8)),
    _pair(lambda x, *_: Q.choose_qparams_per_token_asymmetric(x.bfloat16(), I8)),
    _pair(lambda x, *_: Q._choose_qparams_per_token_asymmetric_impl(x, I8)),
]


@pytest.mark.parametrize("rows", [PER_TENSOR, PER_ROW, CHOOSE], ids=["per_tensor", "per_row", "choose"])
def test_bit_for_bit(rows: list[Row]) -> None:
    check_rows(rows, draw)


def test_weight_int8pack_mm() -> None:
    def inputs() -> tuple[Tensor, ...]:
        return torch.randn(5, 16), torch.randint(-128, 128, (3, 16), dtype=I8), torch.rand(3)

    check_rows([lambda x, w, s: torch._weight_int8pack_mm(x, w, s)], inputs, rtol=2e-6, atol=3e-4)  # terms of up to 500
    check_rows([lambda x, w, s: torch._weight_int8pack_mm(x.bfloat16(), w, s.bfloat16())], inputs, rtol=0.02, atol=0.05)


@pytest.mark.parametrize(
    ("op", "nearest"),
    [
        (lambda x, i: Q.quantize_per_tensor(x, 0.1, 0, -400, 400, torch.float8_e4m3fn), "int8, uint8, int16 or int32"),
        (lambda x, i: Q.quantize_per_tensor(x, 0.1, 0, 0, 65535, torch.uint16), "int8, uint8, int16 or int32"),
        (lambda x, i: Q.choose_qparams_per_token(x, U8), "int8"),
    ],
    ids=["float8", "uint16", "per_token_uint8"],
)
def test_other_types_are_named(op: Row, nearest: str) -> None:
    with pytest.raises(sl.UnsupportedError, match=f"nearest supported form: {nearest}"):
        sl.compile(op, (torch.randn(4, 6), torch.ones(4, 6, dtype=I8)), allow=("native",))
