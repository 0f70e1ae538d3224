# SPDX-License-Identifier: Apache-2.0
"""The models of the cases. What counts as eager is `module(*inputs)` in inference mode."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ReshapeMix(nn.Module):
    """Five small ops over rows."""

    def forward(self, x: Tensor, b: Tensor) -> Tensor:
        """Returns [n, elements of a row]."""
        flat = x.reshape(x.shape[0], -1)
        return F.relu(flat + b) * 2.0 + flat.mean(1, keepdim=True)


class Chain(nn.Module):
    """n x (linear 16 -> 16, relu)."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(n))

    def forward(self, x: Tensor) -> Tensor:
        """Takes and returns [m, 16]."""
        for layer in self.layers:
            x = F.relu(layer(x))
        return x


class Mlp(nn.Module):
    """Linear layers with relu between them, and after the last where `last_relu` says so."""

    def __init__(self, sizes: tuple[int, ...], last_relu: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(i, o) for i, o in zip(sizes, sizes[1:]))
        self.last_relu = last_relu

    def forward(self, x: Tensor) -> Tensor:
        """Returns [n, sizes[-1]]."""
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if self.last_relu or i + 1 < len(self.layers):
                x = F.relu(x)
        return x


class NormGelu(nn.Module):
    """Layer norm, GELU, residual."""

    def __init__(self, dim: int = 1024) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        with torch.no_grad():
            self.norm.weight.copy_(1 + 0.1 * torch.randn(dim))
            self.norm.bias.copy_(torch.randn(dim))

    def forward(self, x: Tensor) -> Tensor:
        """Returns what has the shape of x."""
        return x + F.gelu(self.norm(x))


class Gru(nn.Module):
    """One layer of nn.GRU over a sequence; its last state."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.gru = nn.GRU(features, hidden, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """Takes [n, steps, features], returns [n, hidden]."""
        return self.gru(x)[0][:, -1]


class EncoderLayer(nn.Module):
    """PyTorch's own transformer encoder layer, norm first, GELU."""

    def __init__(self, dim: int, heads: int, ffn: int) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(
            dim, heads, ffn, dropout=0.0, batch_first=True, norm_first=True, activation="gelu"
        )

    def forward(self, x: Tensor) -> Tensor:
        """Takes and returns [n, tokens, dim]."""
        return self.layer(x)


class RmsNorm(nn.Module):
    """Scales by the root mean square of the last dim."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        """Returns what has the shape of x."""
        return x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6).to(x.dtype) * self.weight


class DecodeStep(nn.Module):
    """Layers of the shape of Qwen3-0.6B at one token: norms on q and k, rotary, grouped queries, SwiGLU.

    The cache is shifted by concatenation, which every exporter takes.
    """

    def __init__(
        self, layers: int = 1, dim: int = 1024, heads: int = 16, kv_heads: int = 8, head_dim: int = 128, ffn: int = 3072,
        tokens: int = 512,
    ) -> None:  # fmt: skip
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, head_dim
        self.layers = nn.ModuleList()
        for _ in range(layers):
            layer = nn.Module()
            layer.norm1, layer.norm2 = RmsNorm(dim), RmsNorm(dim)
            layer.q_norm, layer.k_norm = RmsNorm(head_dim), RmsNorm(head_dim)
            layer.q = nn.Linear(dim, heads * head_dim, bias=False)
            layer.k = nn.Linear(dim, kv_heads * head_dim, bias=False)
            layer.v = nn.Linear(dim, kv_heads * head_dim, bias=False)
            layer.o = nn.Linear(heads * head_dim, dim, bias=False)
            layer.gate, layer.up = nn.Linear(dim, ffn, bias=False), nn.Linear(dim, ffn, bias=False)
            layer.down = nn.Linear(ffn, dim, bias=False)
            self.layers.append(layer)
        self.register_buffer("k_cache", torch.randn(layers, 1, kv_heads, tokens, head_dim))
        self.register_buffer("v_cache", torch.randn(layers, 1, kv_heads, tokens, head_dim))
        self.register_buffer("cos", torch.randn(1, 1, 1, head_dim))
        self.register_buffer("sin", torch.randn(1, 1, 1, head_dim))

    def _rotary(self, x: Tensor) -> Tensor:
        a, b = x.chunk(2, -1)
        return x * self.cos + torch.cat((-b, a), -1) * self.sin

    def forward(self, x: Tensor) -> Tensor:
        """Takes and returns [1, 1, dim]."""
        for i, m in enumerate(self.layers):
            y = m.norm1(x)
            q = self._rotary(m.q_norm(m.q(y).view(1, 1, self.heads, self.head_dim)).transpose(1, 2))
            k = self._rotary(m.k_norm(m.k(y).view(1, 1, self.kv_heads, self.head_dim)).transpose(1, 2))
            v = m.v(y).view(1, 1, self.kv_heads, self.head_dim).transpose(1, 2)
            keys = torch.cat((self.k_cache[i][:, :, :-1], k), 2)
            values = torch.cat((self.v_cache[i][:, :, :-1], v), 2)
            a = F.scaled_dot_product_attention(q, keys, values, enable_gqa=True).transpose(1, 2).reshape(1, 1, -1)
            x = x + m.o(a)
            y = m.norm2(x)
            x = x + m.down(F.silu(m.gate(y)) * m.up(y))
        return x


class Dlrm(nn.Module):
    """Dense features through a net, categories through tables, all pairs of products, a net on top."""

    def __init__(self, dim: int, rows: int, tables: int) -> None:
        super().__init__()
        self.bottom = Mlp((13, 64, dim), last_relu=True)
        self.tables = nn.ModuleList(nn.Embedding(rows, dim) for _ in range(tables))
        count = tables + 1
        first, second = torch.tril_indices(count, count, -1)
        self.register_buffer("pairs", first * count + second)
        self.top = Mlp((dim + count * (count - 1) // 2, 64, 32, 1))

    def forward(self, dense: Tensor, categories: Tensor) -> Tensor:
        """Takes [n, 13] and int64 [n, tables], returns probabilities [n, 1]."""
        x = self.bottom(dense)
        looked = [table(categories[:, i]) for i, table in enumerate(self.tables)]
        vectors = torch.stack([x, *looked], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1)
        return torch.sigmoid(self.top(torch.cat([x, products[:, self.pairs]], 1)))
