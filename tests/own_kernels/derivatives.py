# SPDX-License-Identifier: Apache-2.0
"""Derivatives that an op of ours does not have: ways to want one, and what is said. For ops of kernels and of programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad


def _dual(function: Callable[[Tensor], Tensor], x: Tensor) -> Any:
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(function(forward_ad.make_dual(x, torch.ones_like(x)))).tangent


_GRAD, _TANGENT = "an argument requires grad", "an argument has a tangent of forward mode"
#: Of a function and a tensor, and why it is refused. Torch itself would warn and give zeros, or drop the tangent.
WAYS: list[tuple[Callable[[Callable[[Tensor], Tensor], Tensor], Any], str]] = [
    (lambda f, x: torch.func.grad(lambda x: f(x).sum())(x), _GRAD),
    (lambda f, x: torch.func.vjp(f, x), _GRAD),
    (lambda f, x: torch.func.jacrev(f)(x), _GRAD),
    (lambda f, x: torch.vmap(torch.func.grad(lambda x: f(x).sum()))(x[None]), _GRAD),
    (lambda f, x: torch.func.jvp(f, (x,), (x,)), _TANGENT),
    (_dual, _TANGENT),
]


def words(name: str, said: str) -> str:
    """The pattern of the error."""
    return rf"{name}: {said}, and the op has no derivative: .*register_autograd\('{name}'.*setup_context or jvp"
