# SPDX-License-Identifier: Apache-2.0
"""topk, sort, running sums and sampling on a CUDA device: group "order"."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from straightline.bench.case import Case, Input
from torch import Tensor, nn


class _Of(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        """What the function gives."""
        return self.function(*inputs)


def _first(x: Tensor, k: int, with_places: bool) -> Any:
    """The largest k, and where they are: where ties are likely the values alone, because torch has the places in any order."""
    values, places = x.topk(k, -1)
    return (values, places) if with_places else values


def _sorted(x: Tensor) -> Any:
    values, places = x.sort(dim=-1, stable=True)
    return values, places


def _nucleus(x: Tensor) -> Tensor:
    """Probabilities of the fewest tokens that have 0.9 of it, in falling order."""
    p = (x / 0.8).softmax(-1).sort(dim=-1, descending=True)[0]
    return torch.where(p.cumsum(-1) - p < 0.9, p, 0.0)


def _draw(x: Tensor, noise: Tensor) -> Tensor:
    """Temperature, top 50, softmax, and a draw with the caller's noise, as torch.multinomial draws."""
    values, places = (x / 0.8).topk(50)
    return places.gather(-1, (values.softmax(-1) / noise.abs()).argmax(-1, keepdim=True))


def _case(name: str, function: Callable[..., Any], *inputs: Input) -> Case:
    sizes = "x".join(map(str, inputs[0].shape))
    dtype = inputs[0].dtype
    return Case(
        f"{name}_{sizes}{'_bf16' if dtype == 'bfloat16' else ''}",
        f"{name.replace('_', ' ')} of {sizes} {dtype}?",
        partial(_Of, function),
        inputs,
        device="cuda",
        group="order",
        bars=(),
    )


def _topk(k: int, rows: int, columns: int, dtype: str = "float32") -> Case:
    with_places = dtype == "float32" and k < 1000
    return _case(f"top_{k}", partial(_first, k=k, with_places=with_places), Input((rows, columns), dtype))


_SORTS = ((64, 1024), (8, 8192), (4096, 64), (8, 16_384), (8, 32_768), (1, 151_936))
_HALF_SORTS = ((64, 1024), (8, 8192), (8, 151_936))

CASES = (
    *(_topk(k, rows, 151_936, dtype) for rows in (1, 8) for dtype in ("float32", "bfloat16") for k in (1, 50, 1000)),
    *(_topk(8, rows, experts) for rows in (1, 128, 4096) for experts in (64, 128)),
    _topk(50, 64, 1024),
    *(_case("sort", _sorted, Input(shape)) for shape in _SORTS),
    *(_case("sort", _sorted, Input(shape, "bfloat16")) for shape in _HALF_SORTS),
    *(_case("cumsum", lambda x: x.cumsum(-1), Input(shape)) for shape in ((1, 151_936), (8, 151_936), (64, 4096))),
    _case("top_p", _nucleus, Input((1, 151_936))),
    *(_case("draw", _draw, Input((rows, 151_936)), Input((rows, 50))) for rows in (1, 8)),
)
