# SPDX-License-Identifier: Apache-2.0
"""What a reader who had not written the code found by examples of his own, each cut down to what shows it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import straightline as sl
import torch
from policy import check
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F

X = torch.randn(2, 5, 16)


class _Heads(nn.Module):
    """Attention written by hand, with a bias for each distance."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)

    def forward(self, x: Tensor) -> Tensor:
        b, s, _ = x.shape
        q, k, v = self.qkv(x).reshape(b, s, 3, 4, 4).permute(2, 0, 3, 1, 4).unbind(0)
        places = torch.arange(s)
        scores = q @ k.transpose(-1, -2) - (places[:, None] - places).abs() * 0.1
        return (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, s, 16)


@pytest.mark.parametrize(
    ("model", "example", "named"),
    [
        (nn.MultiheadAttention(16, 4, batch_first=True), (X, X, X), ({1: "s"},) * 3),
        (_Heads(), (X,), ({0: "b", 1: "s"},)),
        (nn.GroupNorm(2, 6), (torch.randn(2, 6, 4),), ({0: "b", 2: "s"},)),
        (nn.LSTM(16, 8, batch_first=True, bidirectional=True), (X,), ({0: "b", 1: "s"},)),
        (nn.GRU(16, 8, num_layers=2, batch_first=True), (X,), ({0: "b", 1: "s"},)),
    ],
    ids=["multihead_attention", "heads", "group_norm", "lstm", "gru"],
)
@torch.no_grad()
def test_named_sizes_without_a_maximum(
    model: nn.Module, example: tuple[Tensor, ...], named: tuple[dict[int, str], ...]
) -> None:
    """Addresses at the largest values of the sizes exceed 64 bits, and slots seemed to overlap there."""
    dims = {name: Dim(name) for shape in named for name in shape.values()}
    shapes = tuple({d: dims[name] for d, name in shape.items()} for shape in named)

    def sized(size: int) -> tuple[Tensor, ...]:
        pads = [
            [size if d in shape else n for d, n in enumerate(x.shape)] for x, shape in zip(example, named, strict=True)
        ]
        return tuple(torch.randn(pad) for pad in pads)

    check(model.eval(), example, calls=[sized(n) for n in (2, 3, 7, 33)], dynamic_shapes=shapes)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_arange_of_16_bit_floats(dtype: torch.dtype) -> None:
    x = torch.randn(300).to(dtype)
    check(lambda x: x + torch.arange(300, dtype=dtype), (x,))
    check(lambda x: x[:20] * torch.arange(-3, 7, 0.5, dtype=dtype), (x,))
    shapes = ({0: Dim("n", max=400)},)
    calls = [(torch.randn(n).to(dtype),) for n in (2, 17, 299)]
    check(lambda x: x + torch.arange(x.shape[0], dtype=dtype), (x,), calls=calls, dynamic_shapes=shapes)


@pytest.mark.parametrize("value", [0, 1, 2, 256, -1, 0.5])
def test_numbers_put_into_bools(value: float) -> None:
    x = torch.rand(3, 4) > 0.5
    check(lambda x: x.masked_fill(~x, value), (x,))
    check(lambda x: x | torch.full((4,), value, dtype=torch.bool), (x,))
    check(lambda x: torch.full_like(x, value) ^ x, (x,))
    check(lambda x: F.pad(x, (1, 1), value=value), (x,))
    check(lambda x: x.clone().fill_(value), (x,))
    index = torch.tensor([0, 2])
    check(lambda x: x.index_fill(0, index, value), (x,))
    check(lambda x: x.scatter(0, torch.zeros(1, 4, dtype=torch.int64), value), (x,))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_attention_by_a_scale_of_zero(dtype: torch.dtype) -> None:
    """The kernels take a scale of 0 for the default. With is_causal eager gives NaN, as it scales -inf by 0."""
    q, k, v = (torch.randn(2, 3, rows, 32).to(dtype) for rows in (17, 19, 19))
    mask = torch.rand(17, 19) > 0.3
    check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.0), (q, k, v))
    check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, mask, scale=0.0), (q, k, v))


def test_flip_without_dims() -> None:
    check(lambda x: x.flip(0), (torch.tensor(1.5),))
    check(lambda x: x.flip(-1) + x, (torch.tensor(3),))


@pytest.mark.parametrize(
    "pool",
    [lambda x: F.avg_pool1d(x, 2), lambda x: F.avg_pool2d(x, 3, stride=1, padding=1)],
    ids=["avg_pool1d", "avg_pool2d"],
)
def test_averages_of_integers(pool: Callable[[Tensor], Tensor]) -> None:
    """Left to torch, which divides integers there."""
    check(pool, (torch.randint(-9, 9, (2, 6, 8)),))


def test_group_norm_of_a_named_number_of_channels() -> None:
    model = lambda x: F.group_norm(x, 1)  # noqa: E731
    calls = [(torch.randn(2, n, 4),) for n in (2, 9)]
    shapes = ({1: Dim("c", max=64)},)
    check(model, (torch.randn(2, 6, 4),), calls=calls, dynamic_shapes=shapes)
    with pytest.raises(sl.UnsupportedError, match="which only a call knows"):
        sl.compile(model, (torch.randn(2, 6, 4),), dynamic_shapes=shapes, allow=("native",))


@pytest.mark.parametrize("alpha", [False, True, 0, 1, 2])
def test_sums_of_bools_with_alpha(alpha: int) -> None:
    """A false alpha leaves the second operand out, but for its shape."""
    x, y = torch.rand(4) > 0.5, torch.rand(3, 4) > 0.5
    check(lambda x, y: (torch.add(x, y, alpha=alpha), torch.add(y, x, alpha=alpha), x.add(True, alpha=alpha)), (x, y))


@pytest.mark.parametrize("value", [1.5, float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("shape", [(), (1,), (3, 1), (2, 3)])
def test_softmax_of_what_is_not_finite(shape: tuple[int, ...], value: float) -> None:
    """Also of one element, whose softmax is 1 where it is finite alone."""
    check(lambda x: (x.softmax(-1), x.log_softmax(-1)), (torch.full(shape, value),))
