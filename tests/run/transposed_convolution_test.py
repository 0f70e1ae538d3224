# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions of static sizes are ordinary ones over the phases of the stride; the others keep a kernel of their own."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
import torch
from policy import check
from torch import nn

import straightline as sl


def _transposed_kernels(model: nn.Module, *inputs: torch.Tensor, **options: Any) -> int:
    """How many launches do a transposed convolution as such."""
    code = sl.compile(model.eval(), inputs, **options).code
    return code.count(".transposed = 1")


def _random_layer(rng: random.Random) -> tuple[nn.Module, torch.Tensor]:
    dims = rng.choice([1, 2])
    kernel, stride = [rng.randint(1, 5) for _ in range(dims)], [rng.randint(1, 4) for _ in range(dims)]
    output_padding = [rng.randint(0, step - 1) for step in stride]
    size = [rng.randint(4, 9) for _ in range(dims)]
    # Padding takes from both ends of the result, and eager refuses an empty one.
    whole = [(x - 1) * step + k + more for x, step, k, more in zip(size, stride, kernel, output_padding, strict=True)]
    padding = [rng.randint(0, min(k - 1, (length - 1) // 2)) for k, length in zip(kernel, whole, strict=True)]
    inputs, outputs = rng.choice([1, 3, 16]), rng.choice([1, 5, 16])
    layer = nn.ConvTranspose1d if dims == 1 else nn.ConvTranspose2d
    model = layer(inputs, outputs, kernel, stride, padding, output_padding, bias=rng.random() < 0.7)  # type: ignore[arg-type]
    return model, torch.randn(rng.choice([1, 2]), inputs, *size)


def test_random_layers_match_eager() -> None:
    seed = random.SystemRandom().randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    torch.manual_seed(seed)
    for _ in range(12):
        model, x = _random_layer(rng)
        print(model, tuple(x.shape))
        check(model, (x,))


def test_a_signal_is_put_together_without_a_copy() -> None:
    class Back(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.back = nn.Conv1d(3, 16, 1), nn.ConvTranspose1d(16, 1, 8, 4, padding=2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(self.back(self.first(x)))

    model, x = Back().eval(), torch.randn(1, 3, 40)
    check(model, (x,))
    kernels = [row["kernel"] for row in sl.compile(model, (x,)).explain().statements if row["phase"] == "run"]
    assert re.match("convolution(_direct)?_1x16x1x40x4_1x2", kernels[-2]) and kernels[-1] == "pointwise_tanh_160", (
        kernels
    )


@pytest.mark.parametrize("shape", [(2, 4, 5, 6), (1, 4, 9, 3)], ids=str)
def test_static_sizes_need_no_kernel_of_their_own(shape: tuple[int, ...]) -> None:
    model = nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1)
    assert _transposed_kernels(model, torch.randn(shape)) == 0


@pytest.mark.parametrize("options", [{"groups": 2}, {"dilation": 2}, {"padding": 0, "output_padding": 1}], ids=str)
def test_others_have_one(options: dict[str, Any]) -> None:
    """Groups, dilations, and a result that ends beyond the last phase."""
    kernel = 2 if "output_padding" in options else 3
    model, x = nn.ConvTranspose2d(4, 6, kernel, stride=2, **options), torch.randn(2, 4, 5, 6)
    check(model, (x,))
    assert _transposed_kernels(model, x) == 1


def test_sizes_of_the_call() -> None:
    model = nn.ConvTranspose1d(4, 2, 4, stride=2, padding=1).eval()
    length = torch.export.Dim("length", min=3, max=20)
    compiled = sl.compile(model, (torch.randn(1, 4, 7),), dynamic_shapes=({2: length},))
    for size in (3, 7, 20):
        x = torch.randn(1, 4, size)
        torch.testing.assert_close(compiled(x), model(x))


def test_live_weights() -> None:
    model, x = nn.ConvTranspose1d(4, 2, 4, stride=2, padding=1).eval(), torch.randn(1, 4, 7)
    compiled = sl.compile(model, (x,), freeze=False)
    with torch.no_grad():
        model.weight.mul_(2)
        torch.testing.assert_close(compiled(x), model(x))
