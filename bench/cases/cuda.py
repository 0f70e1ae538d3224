# SPDX-License-Identifier: Apache-2.0
"""Cases on a CUDA device; the bars are those of one H200."""

from __future__ import annotations

from functools import partial

from straightline.bench.case import Bar, Case, Input
from straightline.testing.models.small import ReshapeAdd, SingleAdd
from torch import Tensor, nn

from .models import (
    Chain,
    DecodeStep,
    EncoderLayer,
    Mlp,
    NormGelu,
    ReshapeMix,
)
from .resnet import resnet18

_REDUCED = "compile_reduce_overhead"
#: 1.3 raw launches and a microsecond: what enqueueing one kernel may cost.
_ENQUEUE = Bar("straightline", "launch", 1.3, plus_us=1.0, metric="enqueue_us")
#: Seconds of compiling without torch's export, the second time from the cache.
_CACHED = Bar("straightline", "", plus_us=0.4, metric="compile_cached_s")
#: Rounding of 16-bit floats adds up; four times eager's own distance is always allowed.
_HALF = 2e-2


class Lstm(nn.Module):
    """Layers of nn.LSTM over a sequence; all its outputs."""

    def __init__(self, features: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(features, hidden, layers, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """Takes [n, steps, features], returns [n, steps, hidden]."""
        return self.lstm(x)[0]


def _compile_within(seconds: float) -> Bar:
    return Bar("straightline", "", plus_us=seconds, metric="compile_own_s")


def _chain(n: int) -> Case:
    return Case(
        f"chain_{n}",
        f"{n} x (linear 16, relu), 4 rows?",
        partial(Chain, n),
        (Input((4, 16)),),
        device="cuda",
        links=n,
        series="chain on cuda",
        bars=(),
    )


def _resnet(batch: int, dtype: str, ratio: float) -> Case:
    bars = [Bar("straightline", _REDUCED, ratio), _compile_within(4.0), _CACHED]
    if batch == 1:
        bars.append(Bar("straightline", "", plus_us=8.0, metric="enqueue_us"))
    half = dtype == "float16"
    return Case(
        f"resnet18_b{batch}{'_fp16' if half else ''}",
        f"ResNet-18, {batch} image{'s' if batch > 1 else ''}, {'float16' if half else 'TF32 as torch has it'}?",
        resnet18,
        (Input((batch, 3, 224, 224), dtype),),
        device="cuda",
        dtype=dtype,
        tolerance=_HALF if half else 5e-3,
        bars=tuple(bars),
    )


def _linear(rows: int, features: int, hidden: int, dtype: str) -> Case:
    return Case(
        f"linear_{rows}x{features}x{hidden}_{dtype}",
        f"a linear layer {features} -> {hidden} with GELU for {rows} rows, {dtype}?",
        lambda: nn.Sequential(nn.Linear(features, hidden), nn.GELU()),
        (Input((rows, features), dtype),),
        device="cuda",
        dtype=dtype,
        group="products",
        tolerance=1e-4 if dtype == "float32" else _HALF,
    )


CASES = (
    Case("single_add", "one add of [2, 3]?", SingleAdd, (Input((2, 3)), Input((2, 3))), device="cuda",
         bars=(_ENQUEUE, Bar("straightline", "eager", 0.75))),
    Case("reshape_add", "an add over rows [8, 1024]?", ReshapeAdd, (Input((8, 16, 8, 8)), Input((1024,))), device="cuda",
         bars=(_ENQUEUE,)),
    Case("reshape_mix", "five small ops over x [8, 16, 16]?", ReshapeMix, (Input((8, 16, 16)), Input((256,))), device="cuda",
         bars=(_ENQUEUE, Bar("straightline", "eager", 0.25))),
    Case("norm_gelu", "layer norm, GELU, residual over [16, 1024]?", NormGelu, (Input((16, 1024)),), device="cuda", bars=()),
    _chain(1),
    _chain(20),
    _chain(100),
    Case("mlp_256", "8 x (linear 256 + relu), batch 1?", partial(Mlp, (256,) * 9, last_relu=True), (Input((1, 256)),),
         device="cuda",
         bars=(Bar("straightline", "eager_graph", 0.7),
               Bar("straightline_stream", "", plus_us_per_launch=3.6, metric="enqueue_us"))),
    Case("encoder_256", "a transformer layer, d 256, 4 heads, 16 tokens?", partial(EncoderLayer, 256, 4, 1024),
         (Input((1, 16, 256)),), device="cuda", bars=()),
    Case("encoder_512_bf16", "a transformer layer, d 512, 8 heads, 128 tokens, bfloat16?", partial(EncoderLayer, 512, 8, 2048),
         (Input((1, 128, 512), "bfloat16"),), device="cuda", dtype="bfloat16", tolerance=_HALF, bars=()),
    Case("decode_step", "a token of a model of the shape of Qwen3-0.6B, 28 layers, cache of 512, bfloat16?",
         partial(DecodeStep, 28), (Input((1, 1, 1024), "bfloat16"),), device="cuda", dtype="bfloat16", tolerance=_HALF,
         bars=(Bar("straightline", _REDUCED, 0.26), _compile_within(8.0), _CACHED)),
    Case("lstm_20", "20 steps of nn.LSTM(64, 128), batch 1?", partial(Lstm, 64, 128, 1), (Input((1, 20, 64)),), device="cuda",
         bars=()),
    _resnet(1, "float32", 0.85),
    _resnet(1, "float16", 0.85),
    _resnet(10, "float32", 0.9),
    *(_linear(rows, 4096, hidden, dtype)
      for dtype in ("float32", "bfloat16", "float16") for rows, hidden in ((17, 4096), (64, 4096), (512, 4096), (4096, 4096))),
)  # fmt: skip
