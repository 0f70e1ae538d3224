# SPDX-License-Identifier: Apache-2.0
"""Small models at batch 1."""

from __future__ import annotations

from functools import partial

from straightline.bench.case import DEFAULT_BARS, Bar, Case, Floor, Input
from straightline.testing.models.audio import AudioNet
from torch import nn

from .models import DecodeStep, Dlrm, EncoderLayer, Gru, Mlp

_ENCODER_BARS = (Bar("straightline", "peers", 0.7),)
_DLRM_DIM, _DLRM_ROWS, _DLRM_TABLES = 32, 10_000, 8
_DLRM_PAIRS = (_DLRM_TABLES + 1) * _DLRM_TABLES // 2
#: The two nets and one row of each table.
_DLRM_BYTES = 4 * (13 * 64 + 64 * 32 + (_DLRM_DIM + _DLRM_PAIRS) * 64 + 64 * 32 + 32 + _DLRM_TABLES * _DLRM_DIM)

CASES = (
    Case(
        "mlp_64",
        "a policy net: linear 64-64-64-10 with relu, batch 1?",
        partial(Mlp, (64, 64, 64, 10)),
        (Input((1, 64)),),
        bars=(*DEFAULT_BARS, Bar("straightline", "onnxruntime", 0.3)),
        floor=Floor("mlp.cpp", {"FLOOR_LAYERS": 3, "FLOOR_WIDTH": 64, "FLOOR_LAST": 10, "FLOOR_LAST_RELU": 0}),
    ),
    Case(
        "mlp_256",
        "8 x (linear 256 + relu), batch 1?",
        partial(Mlp, (256,) * 9, last_relu=True),
        (Input((1, 256)),),
        floor=Floor("mlp.cpp", {"FLOOR_LAYERS": 8, "FLOOR_WIDTH": 256, "FLOOR_LAST": 256, "FLOOR_LAST_RELU": 1}),
    ),
    Case(
        "lstm_cell",
        "one step of nn.LSTMCell(64, 128), batch 1?",
        partial(nn.LSTMCell, 64, 128),
        (Input((1, 64)),),
        floor=Floor("lstm_cell.cpp"),
    ),
    Case(
        "gru_20",
        "20 steps of nn.GRU(64, 64), batch 1?",
        partial(Gru, 64, 64),
        (Input((1, 20, 64)),),
        floor=Floor("gru.cpp", {"FLOOR_STEPS": 20}),
    ),
    Case(
        "encoder_256",
        "a transformer layer, d 256, 4 heads, 16 tokens?",
        partial(EncoderLayer, 256, 4, 1024),
        (Input((1, 16, 256)),),
        bars=_ENCODER_BARS,
        floor=Floor("encoder.cpp", {"FLOOR_DIM": 256, "FLOOR_HEADS": 4, "FLOOR_TOKENS": 16}),
    ),
    Case(
        "encoder_64",
        "a transformer layer, d 64, 2 heads, 8 tokens?",
        partial(EncoderLayer, 64, 2, 256),
        (Input((1, 8, 64)),),
        floor=Floor("encoder.cpp", {"FLOOR_DIM": 64, "FLOOR_HEADS": 2, "FLOOR_TOKENS": 8}),
    ),
    Case(
        "decoder_layer",
        "one layer of the shape of Qwen3-0.6B at one token over a cache of 512, float32?",
        DecodeStep,
        (Input((1, 1, 1024)),),
        floor=Floor("decoder_layer.cpp", {"FLOOR_TOKENS": 512}),
    ),
    Case(
        "dlrm",
        "embeddings of 8 categories, their products and two small nets, batch 1?",
        partial(Dlrm, _DLRM_DIM, _DLRM_ROWS, _DLRM_TABLES),
        (Input((1, 13)), Input((1, _DLRM_TABLES), "int64", high=_DLRM_ROWS)),
        bytes_read=_DLRM_BYTES,
        floor=Floor("dlrm.cpp", {"FLOOR_TABLES": _DLRM_TABLES}),
    ),
    Case(
        "audio_10ms",
        "a gated 1-D convolutional net on 10 ms at 16 kHz?",
        partial(AudioNet, 32, 4),
        (Input((1, 1, 160)),),
        floor=Floor("audio.cpp", {"FLOOR_CHANNELS": 32, "FLOOR_BLOCKS": 4, "FLOOR_SAMPLES": 160}),
    ),
)
