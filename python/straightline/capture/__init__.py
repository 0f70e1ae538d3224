# SPDX-License-Identifier: Apache-2.0
"""Front ends: a model of a framework becomes calls that build one function of the `op` dialect."""

from straightline.capture.builder import (
    Attr,
    Builder,
    Dense,
    Dim,
    Extent,
    Location,
    Result,
    TensorType,
)
from straightline.capture.captured import (
    Captured,
    InputSpec,
    OutputSpec,
    SymbolSpec,
    TiedResult,
)
from straightline.capture.text_builder import TextBuilder

__all__ = [
    "Attr",
    "Builder",
    "Captured",
    "Dense",
    "Dim",
    "Extent",
    "InputSpec",
    "Location",
    "OutputSpec",
    "Result",
    "SymbolSpec",
    "TensorType",
    "TextBuilder",
    "TiedResult",
    "capture",
]


def __getattr__(name: str) -> object:
    # `capture` needs torch.export, which is slow to import; `Builder` and its types do not.
    if name == "capture":
        from straightline.capture.torch.torch_export import capture

        return capture
    raise AttributeError(name)
