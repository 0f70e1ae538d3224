# SPDX-License-Identifier: Apache-2.0
"""`python -m bench.single_ops [NAME ..]`: one op or a few at a time beside eager, to find what is slower than it.

Each is compiled for its inputs, compared with eager and timed: least microseconds of a call, the two in turn, in one
process. A first look, not a benchmark: run it on an idle machine, and look at the emitted text of what stands in the
last list. `--threads` goes for both. Exit status 1 when an answer is wrong or an op is refused.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import straightline as sl
import torch
import torch.nn.functional as F
from straightline.errors import StraightlineError
from torch import nn
from torch import randint as ri
from torch import randn as r


def _bf16(*sizes: int) -> torch.Tensor:
    return r(*sizes).bfloat16()


_LSTM = nn.LSTM(128, 128).eval()
_BILSTM = nn.LSTM(64, 64, 2, bidirectional=True).eval()
_GRU = nn.GRU(128, 128).eval()
_MHA = nn.MultiheadAttention(128, 4, batch_first=True).eval()
_ENCODER = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True).eval()

#: Name: what is computed, and what of.
_CASES: dict[str, tuple[Callable[..., Any], Callable[[], tuple[torch.Tensor, ...]]]] = {
    "bmm f32 16x512x512x64": (torch.matmul, lambda: (r(16, 512, 512), r(16, 512, 64))),
    "bmm f32 16x64x64x64": (torch.matmul, lambda: (r(16, 64, 64), r(16, 64, 64))),
    "bmm f32 8x128x64 @ T": (lambda a, b: a @ b.transpose(-1, -2), lambda: (r(8, 128, 64), r(8, 128, 64))),
    "mm f32 256x256x256": (torch.matmul, lambda: (r(256, 256), r(256, 256))),
    "mm f32 512x1024x256": (torch.matmul, lambda: (r(512, 1024), r(1024, 256))),
    "mm bf16 64x1024x1024": (torch.matmul, lambda: (_bf16(64, 1024), _bf16(1024, 1024))),
    "mm bf16 256x256x256": (torch.matmul, lambda: (_bf16(256, 256), _bf16(256, 256))),
    "bmm bf16 16x128x64x128": (torch.matmul, lambda: (_bf16(16, 128, 64), _bf16(16, 64, 128))),
    "mm f16 256^3": (torch.matmul, lambda: (r(256, 256).half(), r(256, 256).half())),
    "mm f64 256^3": (torch.matmul, lambda: (r(256, 256).double(), r(256, 256).double())),
    "mv 2048x2048": (torch.mv, lambda: (r(2048, 2048), r(2048))),
    "vm 2048x2048": (torch.matmul, lambda: (r(2048), r(2048, 2048))),
    "sum all 1M": (lambda x: x.sum(), lambda: (r(1024, 1024),)),
    "sum dim0 1M": (lambda x: x.sum(0), lambda: (r(1024, 1024),)),
    "sum dim1 1M": (lambda x: x.sum(1), lambda: (r(1024, 1024),)),
    "mean mid": (lambda x: x.mean(1), lambda: (r(16, 256, 256),)),
    "amax dim0": (lambda x: x.amax(0), lambda: (r(1024, 1024),)),
    "argmax dim1": (lambda x: x.argmax(1), lambda: (r(1024, 1024),)),
    "argmax dim0": (lambda x: x.argmax(0), lambda: (r(1024, 1024),)),
    "softmax 1024": (lambda x: x.softmax(-1), lambda: (r(256, 1024),)),
    "softmax dim0": (lambda x: x.softmax(0), lambda: (r(1024, 256),)),
    "log_softmax 32k": (lambda x: x.log_softmax(-1), lambda: (r(4, 32000),)),
    "layernorm 768": (lambda x: F.layer_norm(x, (768,)), lambda: (r(128, 768),)),
    "groupnorm": (lambda x: F.group_norm(x, 8), lambda: (r(4, 64, 32, 32),)),
    "batchnorm eval": (nn.BatchNorm2d(64).eval(), lambda: (r(4, 64, 32, 32),)),
    "cumsum dim1": (lambda x: x.cumsum(1), lambda: (r(512, 1024),)),
    "cumsum dim0": (lambda x: x.cumsum(0), lambda: (r(512, 1024),)),
    "sort 1024x64": (lambda x: x.sort(-1)[0], lambda: (r(1024, 64),)),
    "topk 5 of 1000": (lambda x: x.topk(5)[0], lambda: (r(64, 1000),)),
    "transpose 1024": (lambda x: x.t().contiguous(), lambda: (r(1024, 1024),)),
    "permute 4d": (lambda x: x.permute(0, 2, 3, 1).contiguous(), lambda: (r(4, 64, 56, 56),)),
    "cat dim1": (lambda a, b: torch.cat([a, b], 1), lambda: (r(512, 300), r(512, 200))),
    "gather": (lambda x, i: x.gather(1, i), lambda: (r(512, 512), torch.randint(0, 512, (512, 512)))),
    "index_select": (lambda x, i: x.index_select(0, i), lambda: (r(4096, 256), torch.randint(0, 4096, (512,)))),
    "embedding": (lambda i, w: F.embedding(i, w), lambda: (torch.randint(0, 4096, (512,)), r(4096, 256))),
    "scatter_add": (
        lambda x, i, s: x.scatter_add(0, i, s),
        lambda: (r(512, 256), torch.randint(0, 512, (512, 256)), r(512, 256)),
    ),
    "index_add": (
        lambda x, i, s: x.index_add(0, i, s),
        lambda: (r(512, 256), torch.randint(0, 512, (512,)), r(512, 256)),
    ),
    "where": (lambda a, b: torch.where(a > 0, a, b), lambda: (r(1024, 512), r(1024, 512))),
    "add 1M": (torch.add, lambda: (r(1024, 1024), r(1024, 1024))),
    "add bcast": (torch.add, lambda: (r(1024, 1024), r(1024, 1))),
    "gelu": (F.gelu, lambda: (r(1024, 256),)),
    "silu": (F.silu, lambda: (r(1024, 256),)),
    "softplus": (F.softplus, lambda: (r(1024, 256),)),
    "tanh": (torch.tanh, lambda: (r(1024, 256),)),
    "sin": (torch.sin, lambda: (r(1024, 256),)),
    "pow": (lambda a, b: a.abs() ** b, lambda: (r(1024, 256), r(1024, 256))),
    "log1p": (lambda a: a.abs().log1p(), lambda: (r(1024, 256),)),
    "atan2": (torch.atan2, lambda: (r(1024, 256), r(1024, 256))),
    "int add": (torch.add, lambda: (torch.randint(0, 9, (1024, 512)), torch.randint(0, 9, (1024, 512)))),
    "int floordiv": (torch.floor_divide, lambda: (torch.randint(0, 99, (512, 512)), torch.randint(1, 9, (512, 512)))),
    "remainder f32": (torch.remainder, lambda: (r(512, 512), r(512, 512).abs() + 0.5)),
    "bf16 add": (torch.add, lambda: (_bf16(1024, 512), _bf16(1024, 512))),
    "bf16 layernorm": (lambda x: F.layer_norm(x, (768,)), lambda: (_bf16(128, 768),)),
    "bf16 softmax": (lambda x: x.softmax(-1), lambda: (_bf16(256, 1024),)),
    "f64 softmax": (lambda x: x.softmax(-1), lambda: (r(256, 1024).double(),)),
    "conv3x3 64": (nn.Conv2d(64, 64, 3, padding=1), lambda: (r(1, 64, 56, 56),)),
    "conv1x1 256": (nn.Conv2d(256, 64, 1), lambda: (r(1, 256, 28, 28),)),
    "conv7x7 s2": (nn.Conv2d(3, 64, 7, 2, 3), lambda: (r(1, 3, 112, 112),)),
    "dwconv3x3": (nn.Conv2d(64, 64, 3, padding=1, groups=64), lambda: (r(1, 64, 56, 56),)),
    "group conv": (nn.Conv2d(64, 64, 3, padding=1, groups=4), lambda: (r(1, 64, 56, 56),)),
    "conv bf16": (nn.Conv2d(64, 64, 3, padding=1).bfloat16(), lambda: (_bf16(1, 64, 28, 28),)),
    "conv f64": (nn.Conv2d(32, 32, 3, padding=1).double(), lambda: (r(1, 32, 28, 28).double(),)),
    "conv1d k9": (nn.Conv1d(64, 64, 9, padding=4), lambda: (r(1, 64, 480),)),
    "convT2d": (nn.ConvTranspose2d(32, 32, 4, 2, 1), lambda: (r(1, 32, 28, 28),)),
    "conv3d": (nn.Conv3d(16, 16, 3, padding=1), lambda: (r(1, 16, 8, 16, 16),)),
    "maxpool": (lambda x: F.max_pool2d(x, 3, 2, 1), lambda: (r(1, 64, 112, 112),)),
    "avgpool": (lambda x: F.avg_pool2d(x, 2), lambda: (r(1, 64, 112, 112),)),
    "adaptive": (lambda x: F.adaptive_avg_pool2d(x, 1), lambda: (r(8, 512, 7, 7),)),
    "upsample bilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), lambda: (r(1, 32, 32, 32),)),
    "upsample nearest": (lambda x: F.interpolate(x, scale_factor=2), lambda: (r(1, 32, 32, 32),)),
    "sdpa 8x128x64": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
        lambda: (r(1, 8, 128, 64), r(1, 8, 128, 64), r(1, 8, 128, 64)),
    ),
    "sdpa 8x1024x64": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
        lambda: (r(1, 8, 1024, 64), r(1, 8, 1024, 64), r(1, 8, 1024, 64)),
    ),
    "sdpa causal 512": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda: (r(1, 8, 512, 64), r(1, 8, 512, 64), r(1, 8, 512, 64)),
    ),
    "sdpa bf16 512": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
        lambda: (_bf16(1, 8, 512, 64), _bf16(1, 8, 512, 64), _bf16(1, 8, 512, 64)),
    ),
    "sdpa 1 token": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
        lambda: (r(1, 8, 1, 64), r(1, 8, 512, 64), r(1, 8, 512, 64)),
    ),
    "linear 64x1024x1024": (nn.Linear(1024, 1024), lambda: (r(64, 1024),)),
    "linear bf16 64x1024": (nn.Linear(1024, 1024).bfloat16(), lambda: (_bf16(64, 1024),)),
    "linear f16 64x1024": (nn.Linear(1024, 1024).half(), lambda: (r(64, 1024).half(),)),
    "linear 512x768x3072": (nn.Linear(768, 3072), lambda: (r(512, 768),)),
    "lstm T20 H128": (lambda x: _LSTM(x)[0], lambda: (r(20, 1, 128),)),
    "einsum bhqd": (lambda a, b: torch.einsum("bqhd,bkhd->bhqk", a, b), lambda: (r(2, 128, 8, 64), r(2, 128, 8, 64))),
    "outer": (torch.outer, lambda: (r(1024), r(1024))),
    "cdist": (torch.cdist, lambda: (r(128, 64), r(128, 64))),
    "norm": (lambda x: x.norm(dim=-1), lambda: (r(512, 512),)),
    "var": (lambda x: x.var(-1), lambda: (r(512, 512),)),
    "std dim0": (lambda x: x.std(0), lambda: (r(512, 512),)),
    "logsumexp": (lambda x: x.logsumexp(-1), lambda: (r(512, 512),)),
    "roll": (lambda x: x.roll(3, 1), lambda: (r(512, 512),)),
    "flip": (lambda x: x.flip(1), lambda: (r(512, 512),)),
    "pad": (lambda x: F.pad(x, (1, 1, 1, 1)), lambda: (r(1, 64, 56, 56),)),
    "tril": (lambda x: x.tril(), lambda: (r(512, 512),)),
    "repeat_interleave": (lambda x: x.repeat_interleave(4, 1), lambda: (r(64, 8, 64),)),
    "one_hot": (lambda i: F.one_hot(i, 64), lambda: (torch.randint(0, 64, (1024,)),)),
    "bool any": (lambda x: (x > 3).any(1), lambda: (r(512, 512),)),
    "cast u8->f32": (lambda x: x.float() / 255, lambda: (torch.randint(0, 255, (3, 224, 224), dtype=torch.uint8),)),
    "glu": (lambda x: F.glu(x), lambda: (r(512, 512),)),
    "cross_entropy": (lambda x, t: F.cross_entropy(x, t), lambda: (r(64, 1000), torch.randint(0, 1000, (64,)))),
    "unfold": (lambda x: F.unfold(x, 3), lambda: (r(1, 16, 32, 32),)),
    "prod": (lambda x: x.prod(1), lambda: (r(512, 512),)),
    "kthvalue": (lambda x: x.kthvalue(5, 1)[0], lambda: (r(64, 512),)),
    "cos * sin": (lambda x: x.cos() * x.sin(), lambda: (r(512, 512),)),
    "masked softmax": (
        lambda x, m: x.masked_fill(m, -1000000000.0).softmax(-1),
        lambda: (r(8, 128, 128), torch.rand(128, 128) > 0.5),
    ),
    "layernorm f64": (lambda x: F.layer_norm(x, (256,)), lambda: (r(64, 256).double(),)),
    "softmax mid": (lambda x: x.softmax(1), lambda: (r(16, 64, 64),)),
    "softmax small rows 10": (lambda x: x.softmax(-1), lambda: (r(1024, 10),)),
    "sum small rows 10": (lambda x: x.sum(-1), lambda: (r(4096, 10),)),
    "amax small rows 7": (lambda x: x.amax(-1), lambda: (r(4096, 7),)),
    "sum all dims NCHW (2,3)": (lambda x: x.sum((2, 3)), lambda: (r(8, 64, 28, 28),)),
    "mean dims (0,2,3)": (lambda x: x.mean((0, 2, 3)), lambda: (r(8, 64, 28, 28),)),
    "batch statistics": (
        lambda x: (x - x.mean((0, 2, 3), keepdim=True)) * torch.rsqrt(x.var((0, 2, 3), keepdim=True) + 1e-05),
        lambda: (r(8, 32, 28, 28),),
    ),
    "instancenorm": (lambda x: F.instance_norm(x), lambda: (r(4, 32, 28, 28),)),
    "rmsnorm": (nn.RMSNorm(1024), lambda: (r(64, 1024),)),
    "transposed add": (lambda a, b: a.t() + b, lambda: (r(512, 512), r(512, 512))),
    "transpose 3d": (lambda a: a.transpose(1, 2).contiguous(), lambda: (r(8, 128, 64),)),
    "permute heads": (lambda a: a.view(2, 128, 8, 64).transpose(1, 2).contiguous(), lambda: (r(2, 128, 512),)),
    "strided slice ::2": (lambda x: x[:, ::2].contiguous(), lambda: (r(512, 1024),)),
    "stack": (lambda a, b: torch.stack([a, b], -1), lambda: (r(512, 256), r(512, 256))),
    "stack dim0": (lambda a, b: torch.stack([a, b], 0), lambda: (r(512, 256), r(512, 256))),
    "cat dim0": (lambda a, b: torch.cat([a, b], 0), lambda: (r(512, 256), r(512, 256))),
    "cat last small": (lambda a, b, c: torch.cat([a, b, c], -1), lambda: (r(4096, 3), r(4096, 5), r(4096, 1))),
    "expand mul": (lambda a, b: a[:, None] * b[None], lambda: (r(64, 64), r(64, 64))),
    "index put": (lambda x, i, v: x.index_put((i,), v), lambda: (r(1024, 64), ri(0, 1024, (256,)), r(256, 64))),
    "adv index 2": (lambda x, i, j: x[i, j], lambda: (r(512, 512), ri(0, 512, (4096,)), ri(0, 512, (4096,)))),
    "where mask": (lambda x, m: torch.where(m, x, 0.0), lambda: (r(512, 512), torch.rand(512, 512) > 0.5)),
    "take_along small": (lambda x, i: torch.take_along_dim(x, i, -1), lambda: (r(128, 1000), ri(0, 1000, (128, 5)))),
    "scatter": (lambda x, i, s: x.scatter(1, i, s), lambda: (r(256, 256), ri(0, 256, (256, 32)), r(256, 32))),
    "argsort 256": (lambda x: x.argsort(-1), lambda: (r(64, 256),)),
    "topk 1 of 32k": (lambda x: x.topk(1)[0], lambda: (r(1, 32000),)),
    "argmax 32k": (lambda x: x.argmax(-1), lambda: (r(1, 32000),)),
    "max with idx": (lambda x: x.max(-1), lambda: (r(256, 256),)),
    "min dim0 idx": (lambda x: x.min(0), lambda: (r(256, 256),)),
    "cummax": (lambda x: x.cummax(1)[0], lambda: (r(256, 256),)),
    "logcumsumexp": (lambda x: x.logcumsumexp(1), lambda: (r(256, 256),)),
    "cumprod": (lambda x: x.cumprod(1), lambda: (r(256, 256),)),
    "diff": (lambda x: x.diff(), lambda: (r(512, 512),)),
    "std rows": (lambda x: x.std(-1), lambda: (r(64, 4096),)),
    "l2norm F": (lambda x: F.normalize(x), lambda: (r(256, 256),)),
    "cosine_sim": (lambda a, b: F.cosine_similarity(a, b), lambda: (r(256, 256), r(256, 256))),
    "hardswish": (F.hardswish, lambda: (r(512, 512),)),
    "mish": (F.mish, lambda: (r(512, 512),)),
    "elu": (F.elu, lambda: (r(512, 512),)),
    "selu": (F.selu, lambda: (r(512, 512),)),
    "gelu tanh": (lambda x: F.gelu(x, approximate="tanh"), lambda: (r(512, 512),)),
    "sigmoid": (torch.sigmoid, lambda: (r(512, 512),)),
    "logsigmoid": (F.logsigmoid, lambda: (r(512, 512),)),
    "exp": (torch.exp, lambda: (r(512, 512),)),
    "log": (lambda x: x.abs().log(), lambda: (r(512, 512),)),
    "sqrt": (lambda x: x.abs().sqrt(), lambda: (r(512, 512),)),
    "rsqrt": (lambda x: x.abs().rsqrt(), lambda: (r(512, 512),)),
    "div": (torch.div, lambda: (r(512, 512), r(512, 512))),
    "tan": (torch.tan, lambda: (r(512, 512),)),
    "asin": (lambda x: torch.asin(x.clamp(-1, 1)), lambda: (r(512, 512),)),
    "atan": (torch.atan, lambda: (r(512, 512),)),
    "sinh": (torch.sinh, lambda: (r(512, 512),)),
    "erf": (torch.erf, lambda: (r(512, 512),)),
    "clamp": (lambda x: x.clamp(-1, 1), lambda: (r(512, 512),)),
    "abs": (torch.abs, lambda: (r(512, 512),)),
    "sign": (torch.sign, lambda: (r(512, 512),)),
    "round": (torch.round, lambda: (r(512, 512),)),
    "lt": (torch.lt, lambda: (r(512, 512), r(512, 512))),
    "logical_and": (lambda a, b: (a > 0) & (b > 0), lambda: (r(512, 512), r(512, 512))),
    "f64 exp": (torch.exp, lambda: (r(512, 512).double(),)),
    "f64 tanh": (torch.tanh, lambda: (r(512, 512).double(),)),
    "f64 sin": (torch.sin, lambda: (r(512, 512).double(),)),
    "f64 pow": (lambda a, b: a.abs() ** b, lambda: (r(256, 256).double(), r(256, 256).double())),
    "f64 gelu": (F.gelu, lambda: (r(256, 256).double(),)),
    "bf16 gelu": (F.gelu, lambda: (_bf16(512, 512),)),
    "bf16 exp": (torch.exp, lambda: (_bf16(512, 512),)),
    "f16 add": (torch.add, lambda: (r(512, 512).half(), r(512, 512).half())),
    "f16 silu": (F.silu, lambda: (r(512, 512).half(),)),
    "int32 mul": (
        torch.mul,
        lambda: (ri(0, 99, (512, 512), dtype=torch.int32), ri(0, 99, (512, 512), dtype=torch.int32)),
    ),
    "int64 mul": (torch.mul, lambda: (ri(0, 99, (512, 512)), ri(0, 99, (512, 512)))),
    "int64 sum": (lambda x: x.sum(-1), lambda: (ri(0, 99, (512, 512)),)),
    "int64 % const": (lambda x: x % 7, lambda: (ri(0, 99, (512, 512)),)),
    "int64 // const": (lambda x: x // 7, lambda: (ri(0, 99, (512, 512)),)),
    "u8 add": (torch.add, lambda: (ri(0, 99, (512, 512), dtype=torch.uint8), ri(0, 99, (512, 512), dtype=torch.uint8))),
    "i64->f32": (lambda x: x.float(), lambda: (ri(0, 99, (512, 512)),)),
    "f32->i64": (lambda x: x.long(), lambda: (r(512, 512) * 100,)),
    "f32->bf16": (lambda x: x.bfloat16(), lambda: (r(512, 512),)),
    "bool->f32": (lambda x: x.float(), lambda: (r(512, 512) > 0,)),
    "conv 1x1 big": (nn.Conv2d(64, 256, 1), lambda: (r(1, 64, 56, 56),)),
    "conv3x3 s2": (nn.Conv2d(64, 128, 3, 2, 1), lambda: (r(1, 64, 56, 56),)),
    "conv5x5": (nn.Conv2d(32, 32, 5, padding=2), lambda: (r(1, 32, 28, 28),)),
    "conv dilated": (nn.Conv2d(32, 32, 3, padding=2, dilation=2), lambda: (r(1, 32, 28, 28),)),
    "conv b8": (nn.Conv2d(32, 64, 3, padding=1), lambda: (r(8, 32, 28, 28),)),
    "conv small ch 3->16": (nn.Conv2d(3, 16, 3, padding=1), lambda: (r(1, 3, 64, 64),)),
    "conv ch 1->8 28": (nn.Conv2d(1, 8, 3), lambda: (r(1, 1, 28, 28),)),
    "dw 5x5 s2": (nn.Conv2d(32, 32, 5, 2, 2, groups=32), lambda: (r(1, 32, 56, 56),)),
    "conv1d small": (nn.Conv1d(16, 32, 3, padding=1), lambda: (r(1, 16, 100),)),
    "conv1d dw": (nn.Conv1d(64, 64, 3, padding=1, groups=64), lambda: (r(1, 64, 200),)),
    "convT1d": (nn.ConvTranspose1d(32, 32, 4, 2, 1), lambda: (r(1, 32, 100),)),
    "maxpool2": (lambda x: F.max_pool2d(x, 2), lambda: (r(1, 64, 56, 56),)),
    "avgpool3s1": (lambda x: F.avg_pool2d(x, 3, 1, 1), lambda: (r(1, 64, 56, 56),)),
    "adaptive 7": (lambda x: F.adaptive_avg_pool2d(x, 7), lambda: (r(1, 256, 14, 14),)),
    "interp down": (lambda x: F.interpolate(x, size=(16, 16), mode="bilinear"), lambda: (r(1, 32, 64, 64),)),
    "interp bicubic": (lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), lambda: (r(1, 8, 32, 32),)),
    "pixel shuffle": (lambda x: F.pixel_shuffle(x, 2), lambda: (r(1, 64, 28, 28),)),
    "grid_sample": (
        lambda x, g: F.grid_sample(x, g, align_corners=False),
        lambda: (r(1, 16, 32, 32), torch.rand(1, 32, 32, 2) * 2 - 1),
    ),
    "linear 1x64x64": (nn.Linear(64, 64), lambda: (r(1, 64),)),
    "linear 3d": (nn.Linear(256, 256), lambda: (r(4, 32, 256),)),
    "linear nobias 8x512x2048": (nn.Linear(512, 2048, bias=False), lambda: (r(8, 512),)),
    "linear f64": (nn.Linear(256, 256).double(), lambda: (r(32, 256).double(),)),
    "addmm": (torch.addmm, lambda: (r(256), r(64, 256), r(256, 256))),
    "baddbmm": (torch.baddbmm, lambda: (r(8, 64, 64), r(8, 64, 32), r(8, 32, 64))),
    "bmm tiny 1000x4x4x4": (torch.bmm, lambda: (r(1000, 4, 4), r(1000, 4, 4))),
    "bmm 100x16x16": (torch.bmm, lambda: (r(100, 16, 16), r(100, 16, 16))),
    "mm tall skinny 4096x8x8": (torch.mm, lambda: (r(4096, 8), r(8, 8))),
    "mm k big 16x8192x16": (torch.mm, lambda: (r(16, 8192), r(8192, 16))),
    "einsum ij,jk,kl": (
        lambda a, b, c: torch.einsum("ij,jk,kl->il", a, b, c),
        lambda: (r(64, 64), r(64, 64), r(64, 64)),
    ),
    "dot": (torch.dot, lambda: (r(65536), r(65536))),
    "gru T20": (lambda x: _GRU(x)[0], lambda: (r(20, 1, 128),)),
    "bilstm2 T20": (lambda x: _BILSTM(x)[0], lambda: (r(20, 1, 64),)),
    "mha": (lambda x: _MHA(x, x, x, need_weights=False)[0], lambda: (r(2, 64, 128),)),
    "enc layer": (_ENCODER, lambda: (r(2, 64, 128),)),
    "sdpa mask": (
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m),
        lambda: (r(1, 4, 128, 32), r(1, 4, 128, 32), r(1, 4, 128, 32), r(128, 128)),
    ),
    "sdpa gqa": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        lambda: (r(1, 8, 64, 64), r(1, 2, 64, 64), r(1, 2, 64, 64)),
    ),
    "embedding_bag": (nn.EmbeddingBag(1000, 64, mode="sum"), lambda: (ri(0, 1000, (64, 8)),)),
    "mse": (F.mse_loss, lambda: (r(512, 512), r(512, 512))),
    "bce logits": (lambda a, b: F.binary_cross_entropy_with_logits(a, b), lambda: (r(512, 64), torch.rand(512, 64))),
    "smooth l1": (F.smooth_l1_loss, lambda: (r(512, 512), r(512, 512))),
    "triu mask fill": (
        lambda x: x.masked_fill(torch.ones(128, 128).triu(1).bool(), -1000000000.0).softmax(-1),
        lambda: (r(8, 128, 128),),
    ),
    "add positions": (lambda x: x + torch.arange(512.0)[None], lambda: (r(512, 512),)),
    "rotary": (
        lambda q: torch.cat([q[..., 32:] * -1, q[..., :32]], -1) * q.cos() + q * q.sin(),
        lambda: (r(1, 8, 64, 64),),
    ),
    "bucketize": (lambda x, b: torch.bucketize(x, b), lambda: (r(512, 64), torch.linspace(-2, 2, 16))),
    "searchsorted": (lambda b, x: torch.searchsorted(b, x), lambda: (torch.linspace(-2, 2, 64), r(512, 64))),
    "isnan any": (lambda x: x.isnan().any(), lambda: (r(512, 512),)),
    "count nonzero": (lambda x: (x > 0).sum(), lambda: (r(512, 512),)),
    "one_hot sum": (lambda i: F.one_hot(i, 16).sum(0), lambda: (ri(0, 16, (1024,)),)),
    "polar": (lambda x: torch.view_as_real(torch.polar(x.abs(), x)), lambda: (r(64, 64),)),
    "inverse 8": (lambda x: torch.linalg.inv(x), lambda: (r(16, 8, 8) + 8 * torch.eye(8),)),
    "cumsum tiny": (lambda x: x.cumsum(-1), lambda: (r(64, 16),)),
    "repeat": (lambda x: x.repeat(4, 4), lambda: (r(64, 64),)),
    "softmax over channels": (lambda x: x.permute(0, 2, 3, 1).reshape(-1, 64).softmax(-1), lambda: (r(1, 64, 28, 28),)),
    "unfold1d windows": (lambda x: x.unfold(-1, 16, 8).mean(-1), lambda: (r(8, 1024),)),
    "chunk glu mul": (lambda x: (lambda a, b: a * b.sigmoid())(*x.chunk(2, 1)), lambda: (r(64, 512),)),
}


def main() -> int:
    """Prints a line for each op, and the slow ones at the end."""
    options = _options()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    rows: list[dict[str, Any]] = []
    failed = False
    with torch.inference_mode():
        for name, (compute, inputs) in _CASES.items():
            if options.names and not any(wanted in name for wanted in options.names):
                continue
            function = compute.eval() if isinstance(compute, nn.Module) else compute
            try:
                row = _row(name, function, inputs(), options)
            except (StraightlineError, AssertionError) as error:
                print(f"{name}: {str(error).strip().splitlines()[0]}", flush=True)
                failed = True
                continue
            rows.append(row)
            print(_line(row), flush=True)
    print(f"--- at least {options.slow} times as long as eager:")
    for row in sorted(rows, key=lambda row: -row["ratio"]):
        if row["ratio"] >= options.slow:
            print(_line(row))
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"torch": torch.__version__, "threads": options.threads, "ops": rows}, file, indent=1)
    return int(failed)


def _row(
    name: str, function: Callable[..., Any], inputs: tuple[torch.Tensor, ...], options: argparse.Namespace
) -> dict[str, Any]:
    compiled = sl.compile(function, inputs, threads=options.threads)
    for got, want in zip(_leaves(compiled(*inputs)), _leaves(function(*inputs)), strict=True):
        # Wide enough for another order of sums; the tests compare with float64.
        exact = not want.dtype.is_floating_point
        close = 0.0 if exact else 2e-2 if want.dtype.itemsize == 2 else 1e-3
        scale = float(want.abs().amax()) if want.is_floating_point() and want.numel() else 0.0
        torch.testing.assert_close(got, want, rtol=close, atol=close * scale, equal_nan=True)
    ours, eager = _least(compiled, inputs, options), _least(function, inputs, options)
    ours, eager = min(ours, _least(compiled, inputs, options)), min(eager, _least(function, inputs, options))
    return {"op": name, "ratio": ours / eager, "straightline_us": ours, "eager_us": eager}


def _leaves(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _least(function: Callable[..., Any], inputs: tuple[torch.Tensor, ...], options: argparse.Namespace) -> float:
    """Microseconds of a call: the least mean over groups of calls of 4 ms."""
    function(*inputs)
    begin = time.perf_counter()
    function(*inputs)
    calls = max(1, int(0.004 / max(time.perf_counter() - begin, 1e-7)))
    least, end = float("inf"), time.perf_counter() + options.seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        for _ in range(calls):
            function(*inputs)
        least = min(least, (time.perf_counter() - begin) / calls)
    return least * 1e6


def _line(row: dict[str, Any]) -> str:
    return f"{row['ratio']:6.2f} {row['op']:28} straightline {row['straightline_us']:9.1f} us   eager {row['eager_us']:9.1f} us"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.single_ops", description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", help="parts of names; all by default")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.25, help="of each of the four visits of an op")
    parser.add_argument("--slow", type=float, default=1.0, help="the last list begins at this ratio")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", help="write the rows there")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
