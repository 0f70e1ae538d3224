# SPDX-License-Identifier: Apache-2.0
"""What the random graphs of tests/property have found, each cut down to what shows it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import straightline as sl
import torch
from policy import check
from torch import Tensor, nn
from torch.nn import functional as F


def test_a_part_in_two_concatenations() -> None:
    """A part that lies in place in one concatenation was taken to lie in the other, too."""

    def twice(x: Tensor) -> tuple[Tensor, ...]:
        y = x.log_softmax(0)
        return torch.cat([y, y], 0), torch.cat([y, x], 0)

    def other_way(x: Tensor) -> tuple[Tensor, ...]:
        y = x.log_softmax(0)
        return torch.cat([y, x], 0), torch.cat([y, y], 0), torch.cat([x, y, x * 2], 0)

    for x in (torch.randn(3), torch.randn(2, 5)):
        check(twice, (x,))
        check(other_way, (x,))


def test_more_reductions_than_one_kernel_does() -> None:
    """Softmax becomes two reductions after grouping; six of them went into a kernel that does four."""

    def chain(x: Tensor) -> tuple[Tensor, ...]:
        a = x.sum(-1, keepdim=True)
        b = (x + a).log_softmax(-1)
        c = b.abs().log1p().log_softmax(-1)
        return a, b, c, c.sum(-1), (c * b).amax(-1)

    check(chain, (torch.randn(4, 7),))
    check(lambda x: [x.softmax(-1).softmax(-1).softmax(-1), x.var(-1), x.amax(-1)], (torch.randn(3, 9),))


def test_kernels_whose_names_meet() -> None:
    """The second kernel `copy` is called copy_2, which a copy of two elements is called from the start."""

    def copies(x: Tensor, m: Tensor, k: Tensor) -> list[Tensor]:
        return [
            x.flip(0),
            m.flip(0),
            k.flip(0),
            x[:2].flip(0),
            m[:2].flip(0),
            x[0].clone(),
            m[0].clone(),
            k[0].clone(),
            k[:2].flip(0),
        ]

    for n in (1, 2, 3):
        check(copies, (torch.randn(n), torch.rand(n) > 0.5, torch.arange(n)))


@pytest.mark.parametrize("name", ["round", "floor", "ceil", "trunc"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_rounding_between_other_results(name: str, dtype: torch.dtype) -> None:
    """Clang 22 lost the rounding of bfloat16 on AVX-512 where several results of one kernel shared the conversion."""

    def several(x: Tensor) -> tuple[Tensor, ...]:
        y = -x
        z = y * y
        return y, z, getattr(torch, name)(x), z - y, torch.sin(x), torch.sin(x).float()

    for count in (6, 100):
        check(several, ((torch.rand(count) * 6 - 3).to(dtype),))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_to_bool(dtype: torch.dtype) -> None:
    x = torch.tensor([0.0, -0.0, 1.0, -2.5, float("nan"), float("inf"), 1e-7]).to(dtype)
    check(lambda x: (x.to(torch.bool), x.bool().to(torch.int64).sum()), (x,))


@pytest.mark.parametrize("shape", [(4, 4), (4, 4, 4), (1, 4), (4, 1)])
@pytest.mark.parametrize("keepdim", [False, True])
def test_rows_of_a_square_spread_along_the_other_dim(shape: tuple[int, ...], keepdim: bool) -> None:
    """A value a row without the reduced dim is repeated over rows by what follows, not along them; sizes do not tell."""

    def forward(x: Tensor, y: Tensor) -> list[Tensor]:
        last, first = x.sum(-1, keepdim=keepdim), x.amin(0, keepdim=keepdim)
        return [
            y / (last.abs() + 1),
            y / (first.abs() + 1),
            x - x.mean(-1),
            (x.exp() / x.exp().sum(0, keepdim=keepdim)) * y,
        ]

    check(forward, (torch.randn(shape), torch.randn(shape)))


def test_two_integers_become_floats_beside_a_reduction() -> None:
    """LLVM 22.1 took one of them for both with AVX-512: copied as 8 bytes, and what its SLP vectoriser made of rows."""

    def beside(x: Tensor, y: Tensor) -> list[Tensor]:
        row = torch.erf(x.float())
        change = torch.expm1(row)
        return [x - y, row.amax(0).abs() + 1, nn.functional.pad(change, (0, 2)) * change.abs().amax(0, keepdim=True)]

    check(beside, (torch.tensor([3, -6]), torch.tensor([0.5, -0.25])))

    def quotient(x: Tensor, y: Tensor) -> list[Tensor]:
        rest = torch.fmod(x, 4)
        return [rest / (y.abs() + 1), ~rest.amax(0, keepdim=True)]

    for count in (1, 2, 3, 4, 7, 9):
        check(quotient, (torch.arange(1, 1 + count), torch.tensor(2.0)))


def test_a_product_is_the_same_number_wherever_it_is_used() -> None:
    """The largest of a row less the largest is 0, which a multiply-add across the two ops does not give."""

    def twice(x: Tensor) -> Tensor:
        square = x * x
        return square - square.amax(1, keepdim=True)

    x = torch.randn(64, 6) * 20
    assert (sl.compile(twice, (x,), threads=1)(x).amax(1) == 0).all()


def test_a_value_a_row_is_not_written_over_its_operand() -> None:
    """Written once for each chunk of the row, it was read by the next one: in place, 2 * 2 became 2 * 4."""

    def scaled(x: Tensor) -> Tensor:
        total = x.sum(0)
        padded = nn.functional.pad(torch.minimum(total, total + x), (2, 0))
        return (padded.argmax(0) * total).expand(2) + 0

    check(scaled, (torch.tensor([True, False] * 20),))
    check(scaled, (torch.ones(30, dtype=torch.int64),))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_signs_copied_and_selected(dtype: torch.dtype) -> None:
    """LLVM's truth table of a masked VPTERNLOG was that of other operands: tanh(x) where x is a number, else x."""

    def where(x: Tensor, y: Tensor) -> list[Tensor]:
        number = x <= x
        a = torch.where(number, torch.tanh(x), x)
        return [torch.where(number, a, torch.cos(a)).sum(1), torch.where(number, torch.copysign(y, x), x),
                torch.where(number, torch.copysign(x, y), x), torch.where(number, torch.copysign(y, x), y),
                torch.where(x > y, x, torch.copysign(x, y)), torch.where(x > 0, torch.floor(x), x)]  # fmt: skip

    for shape in ((6, 3), (5, 33)):
        check(where, (torch.randn(shape, dtype=dtype), torch.randn(shape, dtype=dtype)))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
def test_bits_taken_from_two_and_selected(dtype: torch.dtype) -> None:
    """The same fault with bits that are not signs."""

    def where(x: Tensor, y: Tensor, m: Tensor) -> list[Tensor]:
        mixed, other = (x & 7) | (y & -8), (y & 7) | (x & -8)
        return [torch.where(m, mixed, x), torch.where(m, mixed, y), torch.where(m, x, mixed), torch.where(m, y, mixed),
                torch.where(m, other, x), torch.where(m, ((x ^ y) & 7) ^ y, x), torch.where(m, ((x ^ y) & 7) ^ x, x)]  # fmt: skip

    for n in (3, 70):
        check(
            where,
            (torch.randint(-100, 100, (n,)).to(dtype), torch.randint(-100, 100, (n,)).to(dtype), torch.rand(n) > 0.5),
        )


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.int64])
def test_a_maximum_of_integers_is_compared_with_its_row(dtype: torch.dtype) -> None:
    """In one kernel: reductions of integers are done in 64 bits, and what they handed on was not narrowed again."""
    x = torch.randint(0, 9, (3, 40)).to(dtype)
    check(lambda x: ((x == x.amax(-1, keepdim=True)).any(-1), x - x.amin(-1, keepdim=True)), (x,))


def test_a_result_of_which_more_is_prepared() -> None:
    """What the caller gets was made by each run; what is made of it, and of parameters alone, before the first: lowering crashed."""

    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Parameter(torch.randn(3, 6))

        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            gate = self.gate.sigmoid()
            best, places = (gate * 2).max(1)
            return gate, x * gate.sqrt(), gate.t(), best, x[:, :1] + best.exp()[:, None], places

    def literals(x: Tensor) -> tuple[Tensor, ...]:
        zeros = x.new_zeros(3, 3)
        both = torch.cat([zeros, zeros], 1).abs()
        return both.square(), torch.rsqrt(both.square() + 1) * x

    for freeze in (True, False):
        compiled = check(Gated(), (torch.randn(3, 6),), freeze=freeze)
        gate = compiled(torch.zeros(3, 6))[0]
        expected = gate.clone()
        gate.zero_()  # the caller's own
        assert torch.equal(compiled(torch.zeros(3, 6))[0], expected)
    check(literals, (torch.randn(3, 6),))


def test_weights_made_of_one_number() -> None:
    """They are made in run, so they are packed there too: this was an operand that does not dominate its use."""
    check(lambda x: F.conv2d(x, x.new_ones(3, 1, 2, 2)), (torch.randn(2, 1, 6, 5),))
    check(lambda x: F.linear(x, x.new_full((40, 24), 0.5)), (torch.randn(33, 24),))
    check(lambda x: x @ x.new_full((24, 1), 2.0).expand(24, 48), (torch.randn(33, 24),))


def test_a_bool_padded_by_two() -> None:
    """The lowest bit of the number was taken."""
    compiled = check(lambda x: F.pad(x, (1, 2), value=2), (torch.zeros(3, 4, dtype=torch.bool),))
    assert compiled(torch.zeros(3, 4, dtype=torch.bool)).sum() == 9


@pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax])
def test_softmax_of_integers(function: Callable[[Tensor, int], Tensor]) -> None:
    """Eager takes them without elements only; this was an internal error."""
    check(lambda x: function(x, 0), (torch.zeros(3, 0, dtype=torch.int64),))


def test_repeats_of_many_dims() -> None:
    """A dim of size 1, and one in front of the tensor's, took two dims of the eight that a kernel has."""
    check(lambda x: x.repeat(3, 2, 1, 2, 2), (torch.randn(5, 1, 3, 2),))
    check(lambda x: (x.repeat(2, 2, 0, 2, 2), x.repeat(1, 0, 1, 3)), (torch.randn(5, 3, 2, 2)[..., :1],))


def test_a_result_that_is_written_to_and_then_loses_a_dim() -> None:
    """`lerp_`, then `squeeze_`: the op that made the tensor was taken to have made the smaller one."""
    for dim in (0, 1):
        check(lambda x, dim=dim: torch.quantile(x, 0.3, dim=dim), (torch.randn(5, 8),))
