# SPDX-License-Identifier: Apache-2.0
"""Answers of a CUDA device: inputs there, and the rules of the policy where products may round their factors to TF32."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from straightline.testing import policy


def has_convolutions(model: nn.Module) -> bool:
    """Whether TF32 makes a difference."""
    return any(isinstance(module, nn.Conv1d | nn.Conv2d | nn.ConvTranspose2d) for module in model.modules())


def converted(inputs: tuple[Tensor, ...], dtype: torch.dtype) -> tuple[Tensor, ...]:
    """On the device, floats of the type."""
    return tuple((x.to(dtype) if x.is_floating_point() else x).cuda() for x in inputs)


def errors_with_ten_bits(eager: nn.Module, inputs: tuple[Tensor, ...]) -> Callable[[], list[float]]:
    """Where products may round their factors to TF32: torch's error in float16, whose mantissa is as long."""

    def one() -> list[float]:
        got = copy.deepcopy(eager).half()(*converted(inputs, torch.float16))
        exact = policy.reference_of(eager)(*policy.in_float64(inputs))
        return [
            (a.double() - b.double()).abs().max().item() if isinstance(a, Tensor) and a.is_floating_point() else 0.0
            for a, b in zip(pytree.tree_leaves(got), pytree.tree_leaves(exact), strict=True)
        ]

    return one


def check(compiled: Any, eager: nn.Module, reference: nn.Module, inputs: tuple[Tensor, ...], tf32: bool) -> None:
    """One call by the rules of the policy; its bound for TF32 is `errors_with_ten_bits`."""
    if not tf32:
        policy.check_call(compiled, eager, reference, inputs)
        return
    before = copy.deepcopy(eager)
    got, torchs, exact = (function(*given) for function, given in (
        (compiled, policy.clone(inputs)), (eager, policy.clone(inputs)), (reference, policy.in_float64(inputs))
    ))  # fmt: skip
    policy.check_tree(got, torchs, exact, errors=errors_with_ten_bits(before, inputs))
