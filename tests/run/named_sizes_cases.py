# SPDX-License-Identifier: Apache-2.0
"""Models with a named size, on which programs for all sizes and those for single ones are compared with eager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F


class Of(nn.Module):
    def __init__(self, function: Callable[..., Any], **layers: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(self, *inputs)


def _attention_by_hand(self: Any, x: Tensor, mask: Tensor) -> tuple[Tensor]:
    """Two heads whose keys, queries and values lie in one product, and a mask of keys."""
    rows, length, width = x.shape
    q, k, v = self.qkv(x).view(rows, length, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
    scores = (q @ k.transpose(-1, -2) / (width // 2) ** 0.5).masked_fill(~mask[:, None, None, :], float("-inf"))
    return (self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(rows, length, width)),)


def random_(*sizes: int) -> Tensor:
    return torch.randn(sizes)


def rows_of(least: int = 0) -> Dim:
    return Dim("n", min=least, max=200)


#: Model, inputs for a size, which dims of them have the name, the least size.
CASES: dict[str, tuple[nn.Module, Callable[[int], tuple[Tensor, ...]], Sequence[dict[int, None]], int]] = {
    "elements": (
        Of(lambda s, x, y: (x * 2 + y, torch.where(x > 0, x, y).exp(), torch.cat([x, y, x[:, :3]], 1), x.t().contiguous(), F.pad(y, (1, 2)))),
        lambda n: (random_(n, 9), random_(n, 9)), ({0: None}, {0: None}), 1,
    ),
    "nothing but elements": (
        Of(lambda s, x, y: (x * 2 + y, torch.cat([x, y], 0), torch.full_like(x, 2.0), x.to(torch.float64), x.expand(3, *x.shape) + y)),
        lambda n: (random_(n, 9), random_(n, 9)), ({0: None}, {0: None}), 0,
    ),
    "begins at a size": (
        Of(lambda s, x, y: (y[x.shape[0]:] * 2, y[x.shape[0] : 2 * x.shape[0]] + x, y[-x.shape[0]:] - x, y.slice_scatter(x, 0, x.shape[0], 2 * x.shape[0]))),
        lambda n: (random_(n, 5), random_(400, 5)), ({0: None}, {}), 1,
    ),
    "padded by a size": (
        Of(lambda s, x: (F.pad(x, (0, 0, 0, 200 - x.shape[0])), F.pad(x, (x.shape[0], 1, 2, 0), value=3.0), F.pad(x > 0, (0, x.shape[0]), value=True))),
        lambda n: (random_(n, 5),), ({0: None},), 1,
    ),
    "reductions along rows": (
        Of(lambda s, x, r: (x.sum(1) + r, x.amax(1), x.argmin(1), torch.softmax(x, 1), F.layer_norm(x, (70,)), x.var(1), (x > 0).any(1), x.cumsum(1))),
        lambda n: (random_(n, 70), random_(n)), ({0: None}, {0: None}), 0,
    ),
    "reductions of rows": (
        Of(lambda s, x, r: (x.sum(1) + r, x.sum(0), x.sum(), (x * x).sum((0, 1)), x.prod(1), (x > 0).any(1), x.cumsum(0))),
        lambda n: (random_(5, n), random_(5)), ({1: None}, {}), 0,
    ),
    "reductions of some": (
        Of(lambda s, x: (x.amax(1), x.argmax(1), torch.softmax(x, 1), x.mean(1, keepdim=True) * x, x.logsumexp(1), torch.softmax(x.t(), 0))),
        lambda n: (random_(5, n),), ({1: None},), 1,
    ),
    "linears": (
        Of(lambda s, x: (s.b(F.gelu(s.a(x))) + x, s.c(x)), a=nn.Linear(33, 70), b=nn.Linear(70, 33), c=nn.Linear(33, 1, bias=False)),
        lambda n: (random_(n, 33),), ({0: None},), 0,
    ),
    "products": (
        Of(lambda s, x, y: (x @ y, torch.bmm(x.expand(2, *x.shape), y.expand(2, *y.shape)))),
        lambda n: (random_(n, 20), random_(20, n)), ({0: None}, {1: None}), 0,
    ),
    "products over rows": (
        Of(lambda s, x, y, z: (x @ y, torch.relu(x @ y + 1), y.t() @ y, x @ y[:, 0], y[:, 0] @ y[:, 1], z @ y.expand(2, 3, *y.shape).permute(0, 1, 2, 3))),
        lambda n: (random_(3, n), random_(n, 20), random_(2, 3, n, n)), ({1: None}, {0: None}, {2: None, 3: None}), 0,
    ),
    "attention by hand": (
        Of(_attention_by_hand, qkv=nn.Linear(24, 72), out=nn.Linear(24, 24)),
        lambda n: (random_(2, n, 24), torch.arange(n).expand(2, n) < torch.tensor([[n], [n // 2 + 1]])), ({1: None}, {1: None}), 1,
    ),
    "attention": (
        Of(lambda s, q, k, v: (F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(k, k, v, is_causal=True))),
        lambda n: (random_(2, 3, 1, 16), random_(2, 3, n, 16), random_(2, 3, n, 16)), ({}, {2: None}, {2: None}), 1,
    ),
    "rows by index": (
        Of(lambda s, i, x: (s.a(i), x[i], torch.gather(x, 0, i.unsqueeze(1).expand(i.shape[0], 6)), x.index_add(0, i, s.a(i)[:, :6])), a=nn.Embedding(40, 12)),
        lambda n: (torch.randint(0, 30, (n,)), random_(30, 6)), ({0: None}, {}), 0,
    ),
    "images": (
        Of(lambda s, x: (F.max_pool2d(F.relu(s.a(x)), 2), s.b(x).mean((2, 3))), a=nn.Conv2d(3, 8, 3, padding=1), b=nn.Conv2d(3, 5, 1)),
        lambda n: (random_(n, 3, 10, 8),), ({0: None},), 0,
    ),
    "repeated elements": (
        Of(lambda s, x, r: tuple(y.contiguous() for y in (
            x[:, None, :, None].expand(3, 2, x.shape[1], 2), (x[:, :, None] * r[:, None, None]).expand(*x.shape, 4), x.t()[:, :, None].expand(x.shape[1], 3, 2),
            x.to(torch.int64)[:, :, None].expand(*x.shape, 3), (x > 0)[:, :, None].expand(*x.shape, 8), x.half()[:, :, None].expand(*x.shape, 2),
        ))),
        lambda n: (random_(3, n), random_(3)), ({1: None}, {}), 0,
    ),
    "signals": (
        Of(lambda s, x: (F.avg_pool1d(x, 2), s.a(x), s.b(x)), a=nn.GroupNorm(1, 3), b=nn.BatchNorm1d(3)),
        lambda n: (random_(1, 3, n),), ({2: None},), 4,
    ),
    "a cache": (
        Of(lambda s, q, new, k: (F.scaled_dot_product_attention(q, torch.cat([k, new], 2), torch.cat([k, new], 2), enable_gqa=True), torch.cat([k, new], 2))),
        lambda n: (random_(1, 6, 1, 32), random_(1, 2, 1, 32), random_(1, 2, n, 32)), ({}, {}, {2: None}), 0,
    ),
    "long rows": (
        Of(lambda s, x: (x.sum(1), x.amax(1), torch.softmax(x, 1), x.sum(0))),
        lambda n: (random_(n, 9001),), ({0: None},), 0,
    ),
    "slices by a size": (
        Of(lambda s, x, table: (x + table[:, : x.shape[1]], (x * 2)[:, 1 : x.shape[1] - 1], table[0, 3 : x.shape[1]].sum(0),
                                table.slice_scatter(x[:1] * 3, 1, 0, x.shape[1]))),
        lambda n: (random_(2, n, 9), random_(1, 200, 9)), ({1: None}, {}), 5,
    ),
}  # fmt: skip
