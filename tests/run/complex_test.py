# SPDX-License-Identifier: Apache-2.0
"""Complex tensors: as inputs, results, parameters and states; ops of them by their parts."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from policy import check, is_native
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


# Ops by the parts of complex numbers ----------------------------------------------------------------------------------

UNARY = (
    "abs angle exp log log2 log10 sqrt rsqrt reciprocal sin cos sinh cosh sigmoid neg isnan isinf logical_not square conj_physical sgn"
).split()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_functions(name: str, dtype: torch.dtype) -> None:
    z = torch.cat([torch.randn(20, dtype=dtype) * 3, torch.tensor([0, 1, -1, 1j, -1j], dtype=dtype)])
    if name in ("rsqrt", "reciprocal", "log", "log2", "log10"):
        z = z[z != 0]
    check(lambda z: getattr(torch, name)(z), (z,))
    assert is_native(lambda z: getattr(torch, name)(z), z)


ARITHMETIC: dict[str, Callable[..., Any]] = {
    "tensors": lambda z, w, x: (z + w, z - w, z * w, z / w, torch.add(z, w, alpha=2j), torch.rsub(z, w)),
    "real ones": lambda z, w, x: (z + x, x - z, x * z, z / (x.abs() + 1), x / z, torch.complex(x, -x), torch.polar(x.abs(), x)),
    "numbers": lambda z, w, x: (z + 1j, 2 - z, z * (1 - 2j), z / 3, (1 + 1j) / z, x * 1j, z**2),
    "conjugates": lambda z, w, x: (z * w.conj(), (z.conj() @ w.mT), torch.vdot(z[0], w[0]), z.mH.abs(), z.conj().imag * 1),
    "comparisons": lambda z, w, x: (z == w, z != z[:1], z == 0, (z != 0) & (x > 0), torch.where(x > 0, z, w), z.masked_fill(x > 0, 2j)),
    "reductions": lambda z, w, x: (z.sum(), z.sum(0), z.mean(-1, keepdim=True), z.norm(), z.var(0), (z * 0).any(), z.all(1), z.cumsum(0)),
    "products": lambda z, w, x: (z @ w.mT, torch.mv(z, w[0]), torch.bmm(z[None], w.mT[None]), torch.addmm(z[:, :4], z, w.mT, beta=2j), torch.einsum("ab,cb->ac", z, w)),
    "views": lambda z, w, x: (z[1:, ::2], z.T, z[..., None].squeeze(-1), z.reshape(-1, 2), z.unflatten(1, (2, 3)), z.expand(2, 4, 6) * 1),
    "choices": lambda z, w, x: (z[:, [0, 2]], z.index_select(0, torch.tensor([1, 1])), torch.cat([z, x]), torch.stack([z, w], 1), z.flip(1)),
    "more views": lambda z, w, x: (z.unfold(1, 3, 2) * 1, z.diagonal() + 0, z.tril(), z.roll(1), torch.nn.functional.pad(z, (1, 2)), z.repeat(2, 1)),
    "made": lambda z, w, x: (torch.zeros_like(z) + w, torch.full_like(z, 1 + 2j), x.to(z.dtype), z.to(torch.complex128), z.new_ones(3)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ARITHMETIC)
def test_ops_of_parts(name: str, dtype: torch.dtype) -> None:
    z, w, x = torch.randn(4, 6, dtype=dtype), torch.randn(4, 6, dtype=dtype), torch.randn(4, 6, dtype=dtype.to_real())
    check(ARITHMETIC[name], (z, w, x))
    assert is_native(ARITHMETIC[name], z, w, x)


@pytest.mark.parametrize("seed", range(20))
def test_chains_of_ops(seed: int) -> None:
    """Random chains: each step takes what an earlier one gave."""
    generator = torch.Generator(torch.get_default_device()).manual_seed(seed)
    steps: list[Callable[[Tensor, Tensor], Tensor]] = [
        lambda a, b: a * b, lambda a, b: a + b.conj(), lambda a, b: (a @ b.mH) @ a / 8, lambda a, b: a / (b.abs() + 1),
        lambda a, b: torch.exp(a * 0.1), lambda a, b: a - b.mean(0), lambda a, b: torch.cat([a[1:], b[:1]]), lambda a, b: a.flip(0).conj(),
        lambda a, b: torch.where(a.real > 0, a, b), lambda a, b: torch.polar(a.abs(), b.angle()), lambda a, b: a.T.reshape(a.shape),
    ]  # fmt: skip
    order = torch.randint(len(steps), (6,), generator=generator).tolist()

    def chain(a: Tensor, b: Tensor) -> Tensor:
        for step in order:
            a, b = steps[step](a, b), a
        return a

    check(chain, (torch.randn(4, 4, dtype=torch.complex128), torch.randn(4, 4, dtype=torch.complex128)))


def test_writes_to_parts() -> None:
    """What is written to a view of complex numbers, or to one of their parts, is in the whole."""

    def write(z: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        z = z.clone()
        z[1:, 0] = w[0, 0]
        z.real.mul_(2)
        z[0].imag[1:] = 7
        z.T.add_(w.T)
        y = z.conj()
        z.mul_(1j)
        return z, y * 1

    check(write, (torch.randn(3, 4, dtype=torch.complex64), torch.randn(3, 4, dtype=torch.complex64)))


def test_layers_with_complex_weights() -> None:
    conv, linear = nn.Conv1d(3, 4, 3, dtype=torch.complex64), nn.Linear(5, 2, dtype=torch.complex64)
    check(conv, (torch.randn(2, 3, 9, dtype=torch.complex64),))
    check(linear, (torch.randn(2, 3, 5, dtype=torch.complex64),))
    assert is_native(conv, torch.randn(2, 3, 9, dtype=torch.complex64))


def test_a_named_size_of_complex_rows() -> None:
    rows = Dim("rows", min=1, max=16)
    check(
        lambda z: (z * z.conj()).sum(-1).real, (torch.randn(3, 5, dtype=torch.complex64),), dynamic_shapes=({0: rows},),
        calls=[(torch.randn(7, 5, dtype=torch.complex64),)],
    )  # fmt: skip
