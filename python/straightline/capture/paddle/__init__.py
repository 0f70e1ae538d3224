# SPDX-License-Identifier: Apache-2.0
"""Programs of Paddle (PIR) as functions of the `op` dialect. Only live_program.py and trace.py import paddle."""

from __future__ import annotations

from straightline.capture.paddle import (  # noqa: F401  (each registers converters)
    activation,
    attention,
    boxes,
    complex,
    control,
    data_sizes,
    detection,
    elementwise,
    graphs,
    indexing,
    interpolation,
    linear,
    matrices,
    recurrent,
    reduction,
    regions,
    shape,
    signal,
    spatial,
)
from straightline.capture.paddle.graph import Imported, Input, import_program, inputs_of
from straightline.capture.paddle.importer import CONVERTERS, FORMS

__all__ = ["CONVERTERS", "FORMS", "Imported", "Input", "import_program", "inputs_of"]
