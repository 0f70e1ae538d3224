# SPDX-License-Identifier: Apache-2.0
"""The contenders that every run has, a file each. docs/performance/benchmark.md says how to add one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from straightline.bench.contender import Contender
from straightline.bench.contenders.aot_inductor import AotInductor
from straightline.bench.contenders.cuda_eager import CudaEager, CudaGraphOfEager
from straightline.bench.contenders.cuda_floor import LaunchFloor
from straightline.bench.contenders.cuda_inductor import (
    CudaAotInductor,
    CudaCompile,
    CudaMaxAutotune,
    CudaReduceOverhead,
)
from straightline.bench.contenders.cuda_ours import (
    CudaEmittedPython,
    CudaFastPathOff,
    CudaStraightLine,
)
from straightline.bench.contenders.eager import Eager
from straightline.bench.contenders.floor import HandWritten
from straightline.bench.contenders.onnx_runtime import OnnxRuntime
from straightline.bench.contenders.open_vino import OpenVino
from straightline.bench.contenders.ours import EmittedPython, FastPathOff, StraightLine
from straightline.bench.contenders.reference import Reference
from straightline.bench.contenders.torch_compile import TorchCompile

CONTENDERS: tuple[type[Contender], ...] = (
    Eager,
    TorchCompile,
    AotInductor,
    OnnxRuntime,
    OpenVino,
    StraightLine,
    EmittedPython,
    FastPathOff,
    HandWritten,
)


#: Those on a CUDA device.
CUDA_CONTENDERS: tuple[type[Contender], ...] = (
    CudaEager,
    CudaGraphOfEager,
    CudaCompile,
    CudaReduceOverhead,
    CudaMaxAutotune,
    CudaAotInductor,
    CudaStraightLine,
    CudaEmittedPython,
    CudaFastPathOff,
    LaunchFloor,
)


def of_device(device: str) -> tuple[type[Contender], ...]:
    """The contenders for that device."""
    return CUDA_CONTENDERS if device == "cuda" else CONTENDERS


def by_name(device: str, extra: Iterable[type] = ()) -> dict[str, type[Contender]]:
    """All that a worker may be asked to be, by name; `extra` are those that files of cases declare."""
    known = (*of_device(device), Reference, *extra)
    return {contender.name: cast(type[Contender], contender) for contender in known}
