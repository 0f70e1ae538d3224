# SPDX-License-Identifier: Apache-2.0
"""Random weights through which signals survive to the output.

What initialisers give is often no model: last norms of zero, layer scales of 1e-6, deviations of 0.02 that fade with depth. An
error in such a layer cannot be seen. Here constants vary, and each linear layer and convolution is scaled by what it gives for
the inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

_LEAST = 0.01  # constants below are layer scales, which would hide their branch
_SCALED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.Embedding)


@torch.no_grad()
def vary_constants(model: nn.Module, generator: torch.Generator) -> None:
    """Parameters and running statistics whose elements are all equal get values around that one."""
    for name, x in [*model.named_parameters(), *model.named_buffers()]:
        if not x.is_floating_point() or x.numel() < 2:
            continue
        is_state = name.rpartition(".")[2] in ("running_mean", "running_var")
        if not isinstance(x, nn.Parameter) and not is_state:
            continue
        value = x.flatten()[0].item()
        if not bool((x == value).all()):
            continue
        noise = torch.empty(x.shape, dtype=torch.float32).normal_(generator=generator).clamp_(-3, 3)
        if value == 0:
            x.copy_(0.1 * noise)
        elif abs(value) < _LEAST:
            x.copy_(0.5 + 0.1 * noise)
        else:
            x.copy_(value * (1 + 0.1 * noise))


def _scales(module: nn.Module) -> bool:
    weight = getattr(module, "weight", None)
    named = isinstance(module, _SCALED) or type(module).__name__ in ("Conv1D", "LinearNormGated")
    return named and isinstance(weight, nn.Parameter)


@torch.no_grad()
def rescale(model: nn.Module, call: Callable[[nn.Module], Any]) -> int:
    """Scales weights so that each layer's result has a deviation of one for this call; returns how many were scaled.

    A weight that several layers share is scaled for the first that runs. Batch norms get the statistics of what they see, as
    training gives them: with others a mean that all inputs have in common hides what differs.
    """
    done: set[int] = set()

    def seen(module: nn.Module, args: Any) -> None:
        x = args[0]
        dims = [d for d in range(x.dim()) if d != 1]
        if module.running_mean is not None and x.numel() > 8 * x.shape[1]:
            module.running_mean.copy_(x.float().mean(dims))
            module.running_var.copy_(x.float().var(dims).clamp_min(1e-6))

    def hook(module: nn.Module, args: Any, result: Any) -> Any:
        weight = module.weight
        if not isinstance(result, Tensor) or not result.is_floating_point() or id(weight) in done or result.numel() < 2:
            return None
        done.add(id(weight))
        deviation = result.float().std().item()
        if not 0 < deviation < float("inf"):
            return None
        for x in (weight, getattr(module, "bias", None)):
            if isinstance(x, nn.Parameter):
                x.div_(deviation)
        return result / deviation

    handles = [module.register_forward_hook(hook) for module in model.modules() if _scales(module)]
    norms = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
    handles += [module.register_forward_pre_hook(seen) for module in model.modules() if isinstance(module, norms)]
    try:
        call(model)
    finally:
        for handle in handles:
            handle.remove()
    return len(done)
