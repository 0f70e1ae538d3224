# SPDX-License-Identifier: Apache-2.0
"""Random reductions of operands that are turned, repeated, sliced or shared, cut into parts by split-reductions as for a device, run on the CPU against eager.

STRAIGHTLINE_PROPERTY_SEED as in graphs_test.py.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import straightline as sl

_OPT = Path(sl.__file__).parents[2] / "tools" / "straightline-opt"
_PROGRAMS = 20
_SEED = int(os.environ.get("STRAIGHTLINE_PROPERTY_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)
#: Elements of what is reduced: enough that it is worth a second kernel.
_ELEMENTS = (70_000, 140_000, 600_000)
_REDUCTIONS = ("sum", "sum", "amax", "amin", "mean", "var", "argmax", "any")

Operand = Callable[[Sequence[Tensor]], Tensor]


class _Reduced(nn.Module):
    """One reduction of a sum or product of operands."""

    def __init__(self, choice: random.Random) -> None:
        super().__init__()
        self.sizes = _sizes(choice)
        self.inputs: list[Tensor] = []
        self.operands = [self._operand(choice) for _ in range(choice.randrange(1, 4))]
        if len(self.sizes) == 2 and self.sizes[0] == self.sizes[1]:  # one that is read both ways
            self.inputs.append(torch.randn(self.sizes))
            place = len(self.inputs) - 1
            self.operands += [lambda given: given[place], lambda given: given[place].t()]
        dims = sorted(choice.sample(range(len(self.sizes)), choice.randrange(1, len(self.sizes) + 1)))
        self.name = choice.choice(_REDUCTIONS)
        self.dims = dims[0] if self.name in ("argmax", "any") else dims
        self.keepdim, self.is_product = choice.random() < 0.3, choice.random() < 0.5

    def _operand(self, choice: random.Random) -> Operand:
        sizes, rank, place = self.sizes, len(self.sizes), len(self.inputs)
        kind = choice.choice(("plain", "turned", "repeated", "sliced", "every other", "the same"))
        along = choice.randrange(rank)
        if kind == "the same" and self.inputs:
            return lambda given: torch.full(sizes, 0.5)
        if kind == "turned":
            order = choice.sample(range(rank), rank)
            self.inputs.append(torch.randn([sizes[order.index(dim)] for dim in range(rank)]))
            return lambda given: given[place].permute(order)
        if kind == "repeated":
            self.inputs.append(torch.randn([size if choice.random() < 0.5 else 1 for size in sizes]))
            return lambda given: given[place].expand(sizes)
        if kind == "sliced":
            self.inputs.append(torch.randn([size + 3 * (dim == along) for dim, size in enumerate(sizes)]))
            return lambda given: given[place].narrow(along, 1, sizes[along])
        if kind == "every other":
            self.inputs.append(torch.randn([size * (1 + (dim == along)) for dim, size in enumerate(sizes)]))
            return lambda given: given[place][tuple(slice(None, None, 1 + (dim == along)) for dim in range(rank))]
        self.inputs.append(torch.randn(sizes))
        return lambda given: given[place]

    def whole(self, *given: Tensor) -> Tensor:
        """What is reduced."""
        whole = self.operands[0](given)
        for operand in self.operands[1:]:
            whole = whole * operand(given) if self.is_product else whole + 2 * operand(given)
        return torch.tanh(whole).expand(self.sizes)

    def forward(self, *given: Tensor) -> Tensor:
        whole = self.whole(*given)
        if self.name in ("argmax", "any"):
            return getattr(whole > 0.9 if self.name == "any" else whole, self.name)(self.dims, keepdim=self.keepdim)
        return getattr(whole, self.name)(dim=self.dims, keepdim=self.keepdim)

    def __str__(self) -> str:
        return f"{self.name} of {self.sizes} over {self.dims}, inputs {[tuple(x.shape) for x in self.inputs]}"


def _sizes(choice: random.Random) -> list[int]:
    if choice.random() < 0.3:
        return [choice.choice((300, 600, 768, 1024))] * 2
    rest, sizes = choice.choice(_ELEMENTS), []
    for _ in range(choice.randrange(4)):
        sizes.append(min(choice.choice((1, 2, 3, 4, 6, 8, 16, 40, 128, 256, 300)), rest))
        rest = max(1, rest // sizes[-1])
    sizes.append(max(8, rest // 8 * 8) if choice.random() < 0.5 else rest)
    return choice.sample(sizes, len(sizes))


def _passes(text: str, *names: str) -> str:
    command = [str(_OPT), "-", *(f"--{name}" for name in names), "--canonicalize", "--cse"]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("batch", range(3))
def test_random_reductions(batch: int) -> None:
    seed = _SEED + batch
    print(f"STRAIGHTLINE_PROPERTY_SEED={seed}, batch 0")
    torch.manual_seed(seed)
    choice, split = random.Random(seed), 0
    for _ in range(_PROGRAMS):
        model = _Reduced(choice)
        inputs = tuple(model.inputs)
        whole = _passes(sl.compile(model, inputs).ir("op"), "decompose-ops")
        parts = _passes(whole, "split-reductions")
        if parts == whole:
            continue
        split += 1
        got, right, exact = sl.compile_mlir(parts)(*inputs), model(*inputs), model(*(x.double() for x in inputs))
        assert got.shape == right.shape, model
        if right.dtype.is_floating_point:
            allowed = 4 * (right.double() - exact).abs().max() + 1e-5 * exact.abs().max()
            if model.name == "var":  # of equal values up to 1, whose mean is rounded: the square of some last places
                allowed = allowed + (8 * torch.finfo(right.dtype).eps) ** 2
            assert (got.double() - exact).abs().max() <= allowed, model
        elif model.name == "argmax":  # of elements whose tanh rounds to one number any may be the largest
            whole = model.whole(*inputs)
            places = (t if model.keepdim else t.unsqueeze(model.dims) for t in (got, right))
            ours, theirs = (whole.gather(model.dims, t) for t in places)
            assert (ours - theirs).abs().max() <= 2.0**-23, model
        else:
            assert torch.equal(got, right), model
    assert split >= _PROGRAMS // 10, "hardly any is cut"
