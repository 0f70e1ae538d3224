# SPDX-License-Identifier: Apache-2.0
"""Complex tensors: as inputs, results, parameters and states. Ops of them are torch's, but for views of their parts."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from policy import check
from torch import Tensor, nn
from torch.export import Dim

import straightline as sl

DTYPES = [torch.complex64, torch.complex128]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 6), (3,), (), (0, 4), (2, 1, 3)])
def test_inputs_and_results(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    """Alone and in containers, beside real ones, whole and in parts."""
    z, x = torch.randn(shape, dtype=dtype), torch.randn(shape, dtype=dtype.to_real())
    check(lambda z, x: {"product": z * x, "parts": [z.real.exp(), z.imag, z.abs()], "both": (z.conj(), z)}, (z, x))


@pytest.mark.parametrize("function", [torch.fft.fft, torch.fft.rfft, torch.fft.ifft2, torch.linalg.eigvals])
def test_results_of_real_inputs(function: Callable[..., Any]) -> None:
    """A Fourier transform may be a result as it is."""
    check(
        lambda x: function(x),
        (torch.randn(6, 6, dtype=torch.float64),),
        calls=[(torch.randn(6, 6, dtype=torch.float64),)],
    )


def test_layouts_of_inputs() -> None:
    """Strides of a complex tensor are twice those of its parts."""
    z = torch.randn(4, 6, dtype=torch.complex64)
    check(lambda z: z * 2j, (z.t(),))
    check(lambda z: z.real * 2, (z[:, ::2],))
    check(lambda z: z + 1, (z[:, 1],))


class Filter(nn.Module):
    """A product with a complex parameter, and a complex state."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, dtype=torch.complex64))
        self.register_buffer("seen", torch.zeros(6, dtype=torch.complex64))

    def forward(self, z: Tensor) -> Tensor:
        self.seen.add_(z.sum(0))
        return z * self.weight + self.seen


def test_parameters_and_states() -> None:
    """They stay in their storage, and others can be loaded, as tensors or numpy arrays."""
    z = torch.randn(5, 6, dtype=torch.complex64)
    compiled = check(Filter(), (z,), calls=[(z * 1j,), (z + 1,)])
    other = Filter()
    states = [other.state_dict()]
    if not os.environ.get("STRAIGHTLINE_TEST_DEVICE"):
        states.append({name: value.numpy().copy() for name, value in other.state_dict().items()})
    for state in states:
        compiled.load_parameters(state)
        assert compiled.parameters()["weight"].dtype == torch.complex64
        torch.testing.assert_close(compiled(z), z * other.weight.detach() + z.sum(0))
    with pytest.raises(sl.UserError, match=r"'weight' is complex64\[5\] but complex64\[6\] was compiled"):
        compiled.load_parameters({**other.state_dict(), "weight": torch.zeros(5, dtype=torch.complex64)})


def test_an_input_that_is_overwritten() -> None:
    """In the caller's memory."""

    def model(z: Tensor) -> Tensor:
        z.mul_(2j)
        return z + 1

    check(model, (torch.randn(3, 4, dtype=torch.complex64),))


def test_named_sizes() -> None:
    """The dim of both parts is none of the model's."""
    z = torch.randn(5, 6, dtype=torch.complex64)
    calls = [(torch.randn(n, 6, dtype=torch.complex64),) for n in (1, 3, 9)]
    check(lambda z: (z.abs(), z * z), (z,), calls=calls, dynamic_shapes=({0: Dim("b", max=9)},))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (torch.randn(5, 6), "input 'z': dtype is float32 but this program was compiled for complex numbers"),
        (3, "'z' must be a Tensor as compiled but is a int"),
        (torch.randn(5, 6, dtype=torch.complex64).conj(), "input 'z' is a conj or neg view: pass x.resolve_conj()"),
        (
            torch.randn(5, 6, dtype=torch.complex128),
            "input 'z': dtype is float64 but this program was compiled for float32",
        ),
        (torch.randn(5, 5, dtype=torch.complex64), "input 'z': dim 1 is 5 but this program was compiled for 6"),
    ],
)
def test_calls_with_others(given: Any, words: str) -> None:
    """What a call refuses, in words."""
    compiled = sl.compile(lambda z: z * 2, (torch.randn(5, 6, dtype=torch.complex64),))
    with pytest.raises(sl.UserError, match=re.escape(words)):
        compiled(given)


def test_of_the_highest_rank() -> None:
    """Both parts are a dim of their own."""
    with pytest.raises(sl.UnsupportedError, match="complex numbers of rank 8 are not supported"):
        sl.compile(lambda z: z * 2, (torch.randn([1] * 8, dtype=torch.complex64),))
