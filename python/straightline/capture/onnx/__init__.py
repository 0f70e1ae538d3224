# SPDX-License-Identifier: Apache-2.0
"""The front end of ONNX: a model as one function of the `op` dialect. Needs the packages onnx and numpy, no framework."""

from __future__ import annotations

from typing import Any

from straightline.capture.onnx import (
    classifiers,
    control,
    data,
    detection,
    elementwise,
    encoders,
    linear,
    ml,
    optimizers,
    quantised,
    recurrent,
    reduction,
    shape,
    signal,
    spatial,
    support_vectors,
)
from straightline.capture.onnx.graph import Imported, import_model
from straightline.capture.onnx.load import LoadedModel, load, what_is_invalid
from straightline.capture.onnx.load import shapes_of as _shapes_of

#: The files of converters; importing them fills the table.
FAMILIES = (
    classifiers, control, data, detection, elementwise, encoders, linear, ml, optimizers, quantised, recurrent, reduction, shape,
    signal, spatial, support_vectors,
)  # fmt: skip


def inputs_of(model: LoadedModel) -> list[Any]:
    """The inputs that a call gives, as the model declares them."""
    return _shapes_of(model.graph, model.weights)


__all__ = ["FAMILIES", "Imported", "LoadedModel", "import_model", "inputs_of", "load", "what_is_invalid"]
