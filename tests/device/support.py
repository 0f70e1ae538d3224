# SPDX-License-Identifier: Apache-2.0
"""What the tests of an NVIDIA device share: a small program, its judge, and what a call asks of the driver."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import straightline as sl
import torch
from straightline import _call
from torch import Tensor, nn


class Chain(nn.Module):
    """So many softmaxes over scaled rows, one behind the other; two of them make one kernel."""

    def __init__(self, length: int, columns: int = 256) -> None:
        super().__init__()
        self.scales = nn.ParameterList([torch.rand(columns) for _ in range(length)])

    def forward(self, x: Tensor) -> Tensor:
        """Row by row."""
        for scale in self.scales:
            x = torch.softmax(x * scale, -1)
        return x


def made(length: int, device: str = "cuda", **options: Any) -> tuple[nn.Module, Tensor, Any]:
    """A chain on a device, an input for it, and the chain compiled."""
    model, x = Chain(length).to(device).requires_grad_(False), torch.randn(16, 256, device=device)
    return model, x, sl.compile(model, (x,), **options)


def nodes(compiled: Any) -> int:
    """How many kernels and copies a call has."""
    count, reason = _call.graph_nodes(compiled._compilation.program)
    assert count >= 0, reason
    return count


def judge(model: nn.Module, x: Tensor, got: Tensor, what: str) -> None:
    """Compares with float64."""
    exact = copy.deepcopy(model).double()(x.double())
    allowed = 4 * (model(x).double() - exact).abs().max() + 8 * torch.finfo(x.dtype).eps * exact.abs().max()
    error = (got.double() - exact).abs().max()
    assert error <= allowed, f"{what}: error {error.item():.3g} but {allowed.item():.3g} is allowed"


def asked(work: Callable[[], object]) -> dict[str, int]:
    """What `work` asked of the driver, by kind, but for `others`."""
    before = _call.cuda_calls()
    work()
    after = _call.cuda_calls()
    return {kind: after[kind] - before[kind] for kind in before if kind != "others" and after[kind] != before[kind]}


def expect(got: dict[str, int], what: str, **wanted: int) -> None:
    """Fails unless exactly this was asked."""
    assert got == wanted, f"{what}: {got} but {wanted} was to be asked"


def refused(kind: type[BaseException], work: Callable[[], object], *words: str) -> None:
    """Fails unless it raises such an error with these words."""
    try:
        work()
    except kind as error:
        print(f"    {type(error).__name__}: {str(error)[:400]}")
        assert all(word in str(error) for word in words), f"{error} has not all of {words}"
        return
    raise AssertionError(f"nothing was raised, but {words} was expected")
