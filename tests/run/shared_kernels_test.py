# SPDX-License-Identifier: Apache-2.0
"""Kernels that differ in the sizes of their buffers alone are compiled once: in run by equal loops, in prepare by run-time sizes."""

from __future__ import annotations

import pytest
import straightline as sl
import torch
from torch import Tensor, nn


class Dense(nn.Module):
    """Each layer reads the concatenation of all before it, as DenseNet's do."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(8 + 4 * layer, 4, 3, padding=1) for layer in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        pieces = [x]
        for layer in self.layers:
            pieces.append(layer(torch.relu(torch.cat(pieces, 1))))
        return torch.cat(pieces, 1)


class Rows(nn.Module):
    """Products whose weights differ in their numbers of rows."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(k, n) for k, n in zip(sizes, sizes[1:], strict=False))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


class Scaled(nn.Module):
    """Parts that prepare computes, of numbers of rows that differ and may be 0."""

    def __init__(self, rows: tuple[int, ...]) -> None:
        super().__init__()
        self.parts = nn.ParameterList(torch.randn(n, 3) for n in rows)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, *(part * 2 + 1 for part in self.parts)])


class Concatenations(nn.Module):
    """Concatenations of 1 to `most` of the second input behind the first, all of them results."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return tuple(torch.cat([x] + [y] * count, 1) for count in range(1, self.most + 1))


def copies(most: int) -> list[str]:
    """Kernels that copy 8 x 6 x 6 and 4 x 6 x 6 elements."""
    inputs = (torch.randn(1, 8, 6, 6), torch.randn(1, 4, 6, 6))
    compiled = sl.compile(Concatenations(most).eval(), inputs, threads=1)
    for got, right in zip(compiled(*inputs), Concatenations(most)(*inputs), strict=True):
        assert torch.equal(got, right)
    return sorted(entry.name for entry in compiled.kernels.native)


def test_copies_into_concatenations_of_several_sizes_are_shared() -> None:
    assert copies(1) == ["copy_144", "copy_288"]
    assert copies(4) == ["copy_144", "copy_288"]


@pytest.mark.parametrize("emit", ["cpp", "python"])
def test_shared_kernels_compute_the_same(emit: str) -> None:
    torch.manual_seed(seed := torch.seed() % 2**31)
    for model, x in (
        (Dense(4).eval(), torch.randn(1, 8, 6, 6)),
        (Rows((24, 40, 56, 72, 31)).eval(), torch.randn(5, 24)),
        (Scaled((3, 0, 1, 5)).eval(), torch.randn(2, 3)),
    ):
        compiled = sl.compile(model, (x,), emit=emit, threads=2)
        names: list[str] = [entry.name for entry in compiled.kernels.native]
        assert any("_sized" in name for name in names), names
        torch.testing.assert_close(
            compiled(x), model(x), rtol=1e-4, atol=1e-5, msg=lambda text: f"{text} (seed {seed})"
        )
        with sl.fast_path(False):  # the interpreter takes the sizes from the table of statements
            torch.testing.assert_close(
                compiled(x), model(x), rtol=1e-4, atol=1e-5, msg=lambda text: f"{text} (seed {seed})"
            )


def test_packings_of_weights_are_one_kernel_of_run_time_sizes() -> None:
    compiled = sl.compile(Rows((24, 40, 56, 72, 31)).eval(), (torch.randn(5, 24),), emit="python", threads=1)
    packs = [entry for entry in compiled.kernels.native if entry.name.startswith("pack")]
    assert len(packs) == 1 and packs[0].name.endswith("_sized") and packs[0].scalars
    assert packs[0].arguments[0].shape is None and packs[0].arguments[0].strides is None
    assert packs[0].arguments[0].dtype == "float32"
    # Two are left as they are, with their sizes.
    compiled = sl.compile(Rows((24, 40, 56)).eval(), (torch.randn(5, 24),), emit="python", threads=1)
    packs = [entry for entry in compiled.kernels.native if entry.name.startswith("pack")]
    assert len(packs) == 2 and [entry.arguments[0].shape for entry in packs] == [(40, 24), (56, 40)]


class Triangle(nn.Module):
    """A loop that capture has unrolled: each round reads one row more."""

    def __init__(self, rounds: int) -> None:
        super().__init__()
        self._rounds = rounds

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        for i in range(1, self._rounds + 1):
            row = x[i, :i].clone()
            x[i, :i] = row + (row.unsqueeze(-1) * x[:i, :i].clone()).sum(-2)
        return x


@pytest.mark.parametrize("emit", ["cpp", "python"])
def test_many_copies_of_run_are_one_kernel(emit: str) -> None:
    """Those of 17 rounds but the first, whose size is 1; sums keep their sizes as constants. Of 12 rounds nothing is shared."""
    model, x = Triangle(17), torch.randn(18, 18) * 0.1
    compiled = sl.compile(model, (x,), emit=emit)
    names: list[str] = [entry.name for entry in compiled.kernels.native]
    assert sum("copy" in name for name in names) <= 3 and "copy_sized" in names, names
    assert sum(name.startswith("rows_sum") for name in names) >= 16, names
    torch.testing.assert_close(compiled(x), model(x))
    with sl.fast_path(False):
        torch.testing.assert_close(compiled(x), model(x))
    few = sl.compile(Triangle(12), (x,), emit=emit)
    assert not any("_sized" in entry.name for entry in few.kernels.native)
