# SPDX-License-Identifier: Apache-2.0
"""The ONNX file of a case, for the runtimes that read one."""

from __future__ import annotations

from pathlib import Path

from straightline.bench.contender import Task, Unavailable, Unsupported


def export_onnx(task: Task) -> Path:
    """Exports the model by `torch.onnx.export(dynamo=True)`.

    Raises:
        Unavailable: A package is missing.
        Unsupported: The exporter does not take the model.
    """
    import torch

    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise Unavailable(f"{error}: pip install onnx onnxscript") from error
    path = task.folder / "model.onnx"
    try:
        torch.onnx.export(task.model, task.inputs, str(path), dynamo=True, verbose=False)
    except Exception as error:
        raise Unsupported(f"torch.onnx.export does not take the model: {str(error).strip().splitlines()[0]}") from error
    return path
