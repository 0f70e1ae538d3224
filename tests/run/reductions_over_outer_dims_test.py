# SPDX-License-Identifier: Apache-2.0
"""Elementwise ops join the kernel of a reduction over dims that are not the last ones, on both targets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cuda_on_host import compare
from policy import check, launches
from torch import Tensor, nn
from torch.export import Dim

Case = tuple[Callable[..., Tensor], tuple[Tensor, ...]]


class _Model(nn.Module):
    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *args: Tensor) -> Tensor:
        return self._function(*args)


def _has_kernels(compiled: Any, count: int) -> bool:
    """Of the CPU: a device splits long reductions."""
    return torch.get_default_device().type != "cpu" or len(launches(compiled)) == count


def _row_of_products(x: Tensor) -> Tensor:
    """A round of a delta rule: a row plus its product with the rows before it."""
    row = x[..., 9, :9]
    return row + (row.unsqueeze(-1) * x[..., :9, :9]).sum(-2)


def _cases() -> dict[str, Case]:
    generator = torch.Generator(torch.get_default_device()).manual_seed(0)

    def x(*sizes: int) -> Tensor:
        return torch.randn(sizes, generator=generator)

    return {
        "product": (lambda a, b: (a * b).sum(0), (x(9, 33), x(9, 33))),
        "chain": (lambda a, b: ((a * a + 1).sqrt() * b).mean(1), (x(3, 17, 20), x(3, 17, 20))),
        "one a row": (lambda a, b: (a * b.unsqueeze(-1)).sum(1), (x(3, 17, 20), x(3, 17))),
        "vector": (lambda a, b: (a - b).amax(0), (x(9, 33), x(33))),
        "several dims": (lambda a: a.relu().mean((0, 2)), (x(4, 6, 21),)),
        "place": (lambda a: (-a).argmax(0), (x(9, 33),)),
        "delta rule": (_row_of_products, (x(2, 3, 12, 12),)),
        "bool": (lambda a: ((a > 0) & (a < 1)).sum(0), (x(9, 33),)),
    }


@pytest.mark.parametrize("name", _cases())
def test_one_kernel(name: str) -> None:
    function, inputs = _cases()[name]
    assert _has_kernels(check(_Model(function), inputs), 1)


@pytest.mark.parametrize("name", ["chain", "one a row", "several dims", "delta rule"])
def test_one_kernel_of_a_device(name: str, tmp_path: Path) -> None:
    function, inputs = _cases()[name]
    assert len(compare(_Model(function), inputs, tmp_path, {})) == 1


def test_named_sizes() -> None:
    function, (a, b) = _cases()["one a row"]
    sizes = {0: Dim("n", min=2, max=9), 1: Dim("m", min=2, max=40)}
    calls = [(torch.randn(n, m, 20), torch.randn(n, m)) for n, m in ((2, 40), (9, 2))]
    compiled = check(_Model(function), (a, b), calls=calls, dynamic_shapes=((sizes, sizes),))
    assert len(launches(compiled)) == 1


def test_a_reduction_of_several_stages_does_not_make_its_elements_twice() -> None:
    """A softmax reads each element for its maximum and for its sum."""
    for function in (lambda a: a.sin().softmax(1), lambda a: a.sin().var(1)):
        assert _has_kernels(check(_Model(function), (torch.randn(3, 17, 20),)), 2)


def test_an_operand_that_lies_across_has_a_pass_of_its_own() -> None:
    """The reduction would read a line of memory once for each of its elements."""
    compiled = check(_Model(lambda a, b: (a * b.t()).sum(0)), (torch.randn(40, 24), torch.randn(24, 40)))
    assert _has_kernels(compiled, 2)
