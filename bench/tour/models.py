# SPDX-License-Identifier: Apache-2.0
"""What a stop of the tour is, and the list of all stops."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

#: Modules of the stops, by the package whose models they are.
_LISTS = ("bench.tour.text_models", "bench.tour.other_transformers", "bench.tour.vision_models")


@dataclass(frozen=True)
class Stop:
    """A model of the tour.

    Attributes:
        name: What `--only` and the table call it.
        package: `transformers`, `timm` or `torchvision`.
        make: Gives the module, with random weights.
        inputs: Gives its arguments by name, or a tuple of arguments.
        generator: Gives the module with a cache, where it writes text (`--way generate`).
    """

    name: str
    package: str
    make: Callable[[], torch.nn.Module]
    inputs: Callable[[], Mapping[str, Any] | tuple[Any, ...]]
    generator: Callable[[], torch.nn.Module] | None = None


def picture(size: int, rows: int = 1) -> torch.Tensor:
    """Random images with forms as large as a seventh of them: of mere noise nothing is left behind a pool over all of it."""
    forms = torch.nn.functional.interpolate(torch.randn(rows, 3, 7, 7), size=(size, size), mode="bilinear")
    return 1.5 * forms + 0.5 * torch.randn(rows, 3, size, size)


def declare_torchvision_ops() -> None:
    """Lets torchvision import where its compiled ops cannot be loaded, as PyPI's cannot beside a torch without CUDA.

    It registers meta kernels for two of them without asking whether they are there. No model of the tour uses one.
    """
    found = importlib.util.find_spec("torchvision")
    for folder in found.submodule_search_locations if found is not None else ():
        for library in Path(folder).glob("_C*.so"):
            try:
                torch.ops.load_library(library)
            except OSError:
                continue
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def all_stops() -> dict[str, Stop]:
    """Every stop by name; needs none of the packages."""
    found: dict[str, Stop] = {}
    for module in _LISTS:
        for stop in importlib.import_module(module).STOPS:
            if stop.name in found:
                raise ValueError(f"two stops are called '{stop.name}'")
            found[stop.name] = stop
    return found
