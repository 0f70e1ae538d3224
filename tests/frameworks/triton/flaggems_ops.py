# SPDX-License-Identifier: Apache-2.0
"""Ops that FlagGems does by name: what is compiled here, and what tests/device compares with float64 on a device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

#: Makes a random tensor: "normal", "positive" (0.1 to 2.1), "unit" (-0.9 to 0.9), "bool", "index" (0 to 15).
Make = Callable[..., Tensor]


@dataclass(frozen=True)
class Case:
    """One op of FlagGems."""

    #: The op as a rule names it.
    rule: str
    function: Callable[..., Any]
    #: Kind and shape of each input.
    inputs: tuple[tuple[str, tuple[int, ...]], ...]
    #: Of the largest element of the reference.
    tolerance: float = 2e-5


def tensors(case: Case, seed: int) -> list[Tensor]:
    """Random inputs of a case on the host."""
    random = torch.Generator().manual_seed(seed)
    return [_made(kind, shape, random) for kind, shape in case.inputs]


def _made(kind: str, shape: tuple[int, ...], random: torch.Generator) -> Tensor:
    if kind == "index":
        return torch.randint(0, 16, shape, generator=random)
    if kind == "bool":
        return torch.rand(shape, generator=random) > 0.5
    if kind == "normal":
        return torch.randn(shape, generator=random)
    uniform = torch.rand(shape, generator=random)
    return uniform * 2 + 0.1 if kind == "positive" else uniform * 1.8 - 0.9


class Model(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        """A module that calls it."""
        super().__init__()
        self.function = function

    def forward(self, *args: Tensor) -> Any:
        """The function."""
        return self.function(*args)


def _one(rule: str, function: Callable[..., Any], kind: str = "normal", **options: Any) -> Case:
    return Case(rule, function, ((kind, (33, 70)),), **options)


def _two(
    rule: str, function: Callable[..., Any], first: str = "normal", second: str = "normal", **options: Any
) -> Case:
    return Case(rule, function, ((first, (33, 70)), (second, (33, 70))), **options)


_X, _ROW, _IMAGE = ("normal", (33, 70)), ("normal", (70,)), ("normal", (2, 8, 16, 12))

CASES: tuple[Case, ...] = (
    _one("abs", torch.abs), _one("exp", torch.exp), _one("exp2", torch.exp2), _one("expm1", torch.expm1),
    _one("log", torch.log, "positive"), _one("log10", torch.log10, "positive"), _one("sqrt", torch.sqrt, "positive"),
    _one("rsqrt", torch.rsqrt, "positive"), _one("reciprocal", torch.reciprocal, "positive"), _one("neg", torch.neg),
    _one("sin", torch.sin), _one("cos", torch.cos), _one("tan", torch.tan, "unit"), _one("tanh", torch.tanh),
    _one("atan", torch.atan), _one("acos", torch.acos, "unit"), _one("cosh", torch.cosh), _one("erf", torch.erf),
    _one("sigmoid", torch.sigmoid), _one("silu", F.silu), _one("gelu", F.gelu), _one("relu", torch.relu),
    _one("elu", F.elu), _one("softplus", F.softplus), _one("log_sigmoid", F.logsigmoid), _one("ceil", torch.ceil),
    _one("round", torch.round), _one("square", torch.square), _one("isnan", torch.isnan), _one("glu", F.glu),
    _one("clamp", lambda x: torch.clamp(x, -0.5, 0.5)), _one("nan_to_num", torch.nan_to_num),
    _one("threshold", lambda x: F.threshold(x, 0.1, -2.0)),
    _two("add", lambda x, y: torch.add(x, y, alpha=2)), _two("sub", torch.sub), _two("mul", torch.mul),
    _two("div", torch.div, "normal", "positive"), _two("maximum", torch.maximum), _two("minimum", torch.minimum),
    _two("pow", torch.pow, "positive"), _two("atan2", torch.atan2), _two("fmin", torch.fmin), _two("hypot", torch.hypot),
    _two("logaddexp", torch.logaddexp), _two("eq", torch.eq), _two("lt", torch.lt), _two("ge", torch.ge),
    _two("logical_and", torch.logical_and, "bool", "bool"), _two("bitwise_or", torch.bitwise_or, "index", "index"),
    _two("masked_fill", lambda x, m: x.masked_fill(m, 3.0), "normal", "bool"),
    Case("where", torch.where, (("bool", (33, 70)), _X, _X)), Case("lerp", lambda x, y: torch.lerp(x, y, 0.3), (_X, _X)),
    Case("addcmul", lambda x, y, z: torch.addcmul(x, y, z, value=0.5), (_X, _X, _X)),
    Case("addcdiv", lambda x, y, z: torch.addcdiv(x, y, z, value=0.5), (_X, _X, ("positive", (33, 70)))),
    _one("sum", torch.sum), _one("sum.dim_IntList", lambda x: x.sum(1)), _one("mean", torch.mean),
    _one("mean.dim", lambda x: x.mean(1)), _one("prod", torch.prod, "unit"), _one("amax", lambda x: x.amax(1)),
    _one("max", torch.max), _one("max.dim", lambda x: x.max(1)[0]), _one("min", torch.min), _one("argmax", lambda x: x.argmax(1)),
    _one("any", torch.any, "bool"), _one("all", torch.all, "bool"),
    _one("var_mean", lambda x: torch.var_mean(x, 1)), _one("cumsum", lambda x: x.cumsum(1)),
    _one("linalg_vector_norm", lambda x: torch.linalg.vector_norm(x, 2, 1)),
    _one("softmax", lambda x: x.softmax(1)), _one("log_softmax", lambda x: x.log_softmax(1)),
    Case("rms_norm", lambda x, w: F.rms_norm(x, (70,), w, 1e-6), (_X, _ROW)),
    Case("layer_norm", lambda x, w, b: F.layer_norm(x, (70,), w, b), (_X, _ROW, _ROW)),
    Case("group_norm", lambda x, w, b: F.group_norm(x, 4, w, b), (_IMAGE, ("normal", (8,)), ("normal", (8,)))),
    Case("mm", torch.mm, (_X, ("normal", (70, 40))), 2e-3), Case("linear", F.linear, (_X, ("normal", (40, 70)), ("normal", (40,))), 2e-3),
    Case("bmm", torch.bmm, (("normal", (3, 33, 70)), ("normal", (3, 70, 40))), 2e-3), Case("mv", torch.mv, (_X, _ROW), 2e-3),
    Case("dot", torch.dot, (_ROW, _ROW), 1e-4), Case("mse_loss", F.mse_loss, (_X, _X)),
    Case("embedding", F.embedding, (("index", (5, 7)), ("normal", (16, 24)))),
    Case("gather", lambda x, i: torch.gather(x, 1, i), (_X, ("index", (33, 20)))),
    Case("index_select", lambda x, i: torch.index_select(x, 0, i), (_X, ("index", (9,)))),
    Case("cat", lambda x, y: torch.cat((x, y), 1), (_X, _X)), Case("stack", lambda x, y: torch.stack((x, y)), (_X, _X)),
    _one("tril", torch.tril), _one("triu", torch.triu),
    _one("repeat", lambda x: x.repeat(2, 3)), _one("topk", lambda x: x.topk(5)[0]), _one("sort", lambda x: x.sort(1)[0]),
    _one("diag", torch.diag), _one("trace", torch.trace),
    Case("pad", lambda x: F.pad(x, (1, 2)), (_X,)),
    Case("avg_pool2d", lambda x: F.avg_pool2d(x, 2), (_IMAGE,)),
    Case("convolution", lambda x, w: F.conv2d(x, w, padding=1), (_IMAGE, ("normal", (4, 8, 3, 3))), 2e-3),
)  # fmt: skip
