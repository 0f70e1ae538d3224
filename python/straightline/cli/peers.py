# SPDX-License-Identifier: Apache-2.0
"""What else can run a model's file: `run --compare` and `bench` call these with the same arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from straightline.cli import arguments, model_files
from straightline.errors import UserError


def onnxruntime_call(
    path: Path, inputs: Sequence[arguments.Input], arrays: Sequence[Any], threads: int = 0
) -> Callable[[], Any]:
    """A call of an .onnx file by ONNX Runtime on the CPU, which returns a tuple; `threads`: 0 for its own choice.

    Raises:
        ImportError: It is not installed.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    feed = {info.name: array for info, array in zip(inputs, arrays, strict=True)}
    if set(names) != set(feed):
        feed = dict(zip(names, arrays, strict=False))
    return lambda: tuple(session.run(None, feed))


def eager_call(path: Path, arrays: Sequence[Any]) -> Callable[[], Any]:
    """A call of a .pt2 file by PyTorch.

    Raises:
        UserError: torch is not there or cannot read the file, or the model takes another number of inputs.
    """
    program = model_files.load_exported(path)
    import torch

    tensors = [torch.from_numpy(array) if isinstance(array, np.ndarray) else array for array in arrays]
    names = list(program.graph_signature.user_inputs)
    if len(names) != len(tensors):
        raise UserError(f"{path} takes {len(names)} inputs but the model {len(tensors)}")
    args, kwargs = torch.utils._pytree.tree_unflatten(tensors, program.call_spec.in_spec)
    module = program.module()

    def call() -> Any:
        with torch.no_grad():
            return module(*args, **kwargs)

    return call


def difference(got: Any, want: Any) -> tuple[float, float]:
    """The largest difference of two arrays, and the largest finite magnitude of `want`.

    The difference is infinite if shapes differ, or NaN or an infinity stands where the other array has another number; where
    both have the same of these they count as equal. Text is equal, or infinitely far apart.
    """
    if "O" in (got.dtype.kind, want.dtype.kind):
        return 0.0 if np.array_equal(got, want) else float("inf"), 0.0
    wide = np.complex128 if "c" in (got.dtype.kind, want.dtype.kind) else np.float64
    got, want = got.astype(wide), want.astype(wide)
    finite = np.isfinite(want)
    scale = float(np.abs(want[finite]).max(initial=0.0))
    if got.shape != want.shape or not np.array_equal(got[~finite], want[~finite], equal_nan=True):
        return float("inf"), scale
    if not np.isfinite(got[finite]).all():
        return float("inf"), scale
    return float(np.abs(got[finite] - want[finite]).max(initial=0.0)), scale
