# SPDX-License-Identifier: Apache-2.0
"""torch.cov and torch.corrcoef from ops that torch.export can trace: torch's own functions look at data while they are traced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


def _cov(x: Tensor, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Tensor:
    """[variables, observations] or [observations] -> [variables, variables], without dims of size 1, as ATen computes it."""
    assert fweights is None and aweights is None
    rows = x.reshape(1, -1) if x.dim() < 2 else x
    if not rows.is_floating_point() and not rows.is_complex():
        rows = rows.to(torch.get_default_dtype())
    count = rows.shape[1]
    rows = rows - (rows.sum(1) / count).unsqueeze(1)
    return ((rows @ rows.t().conj()) / max(count - correction, 0)).squeeze()


def _corrcoef(x: Tensor) -> Tensor:
    c = _cov(x)
    if c.dim() == 0:
        return c / c
    deviation = c.diagonal().real.sqrt()
    c = c / deviation.unsqueeze(1) / deviation.unsqueeze(0)
    return torch.complex(c.real.clamp(-1, 1), c.imag.clamp(-1, 1)) if c.is_complex() else c.clamp(-1, 1)


_FUNCTIONS = {torch.cov: _cov, Tensor.cov: _cov, torch.corrcoef: _corrcoef, Tensor.corrcoef: _corrcoef}


class Covariances(TorchFunctionMode):
    """While exporting: covariances without weights, of one or two dims and with observations, become sums and products."""

    def __torch_function__(
        self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        options = dict(kwargs or {})
        own = _FUNCTIONS.get(function)
        takes = own is not None and len(args) == 1 and isinstance(args[0], Tensor) and args[0].dtype != torch.bool
        if takes and own is not None and 1 <= args[0].dim() <= 2 and args[0].shape[-1] != 0:
            if all(options.get(name) is None for name in ("fweights", "aweights")):
                return own(args[0], **options)
        return function(*args, **options)
