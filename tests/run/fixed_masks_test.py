# SPDX-License-Identifier: Apache-2.0
"""Masks of attention that depend on no input are computed while capturing: what they keep is known, and answers stay right."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from policy import check
from torch import Tensor, nn
from torch.nn import functional as F


class Masked(nn.Module):
    def __init__(self, mask: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.mask = mask

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, self.mask(q @ k.transpose(-1, -2)))


def _transformers(scores: Tensor) -> Tensor:
    """As `transformers` writes one: positions, and that all belong to one sequence."""
    rows, keys = torch.arange(scores.shape[-2]), torch.arange(scores.shape[-1])
    sequence = (torch.diff(rows, prepend=rows[:1] - 1) != 1).cumsum(-1)
    same = sequence[rows][:, None] == torch.ones_like(keys).cumsum(-1)[None] * 0 + sequence[0]
    return ((keys[None, :] <= rows[:, None]) & same)[None, None]


def _added(scores: Tensor) -> Tensor:
    return torch.full(scores.shape[-2:], torch.finfo(scores.dtype).min, dtype=scores.dtype).triu(1)


def _written(scores: Tensor) -> Tensor:
    """A triangle of which one element is dropped afterwards: it is neither."""
    mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    mask[0, 0] = False
    return mask


_CASES: dict[str, tuple[Callable[[Tensor], Tensor], bool, bool]] = {  # the mask; whether one is left; whether it is causal
    "tril": (lambda s: torch.ones(s.shape[-2:], dtype=torch.bool).tril(), False, True),
    "infinity": (lambda s: torch.zeros(s.shape[-2:]).masked_fill(torch.ones(s.shape[-2:]).triu(1) != 0, -torch.inf), False, True),
    "least number": (_added, False, True),
    "transformers": (_transformers, False, True),
    "everything": (lambda s: torch.ones(s.shape[-2:], dtype=torch.bool), False, False),
    "everything, added": (lambda s: torch.zeros(s.shape[-2:]), False, False),
    "the other triangle": (lambda s: torch.ones(s.shape[-2:], dtype=torch.bool).triu(), True, False),
    "a bias": (lambda s: torch.full(s.shape[-2:], 0.5).tril(), True, False),
    "written": (_written, True, False),
    "of an input": (lambda s: (s == s).tril(), True, False),
    "random": (lambda s: (torch.arange(s.shape[-1]) * 7 % 3 != 0).expand(s.shape[-2:]), True, False),
}  # fmt: skip


@pytest.mark.parametrize("name", _CASES)
def test_what_a_mask_keeps(name: str) -> None:
    mask, is_left, is_causal = _CASES[name]
    seed = random.randrange(1 << 31)
    print(f"seed {seed}")
    torch.manual_seed(seed)
    sizes = random.Random(seed)
    s = sizes.choice([2, 7, 33])
    q, k, v = (torch.randn(2, 3, s, 16) for _ in "qkv")
    compiled = check(Masked(mask), (q, k, v))
    (line,) = [text for text in compiled.ir("op").splitlines() if "op.scaled_dot_product_attention" in text]
    assert ("is_causal = true" in line) == is_causal and (" mask " in line) == is_left, line
