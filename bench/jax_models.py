# SPDX-License-Identifier: Apache-2.0
"""Small models in JAX, as their users write them: weights are closed over or given; and a layer of them in torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import lax

#: Sizes of the transformer layer.
WIDTH, HEADS, STEPS = 128, 4, 16
#: Features of the recurrent cell.
HIDDEN = 32


def weights(numbers: np.random.Generator, *shape: int) -> jax.Array:
    """Weights whose products keep their scale."""
    return jnp.asarray((numbers.standard_normal(shape) * shape[0] ** -0.5).astype(np.float32))


def vector(numbers: np.random.Generator, size: int, around: float = 0.0) -> jax.Array:
    """A bias, or the scale of a norm."""
    return jnp.asarray((around + 0.1 * numbers.standard_normal(size)).astype(np.float32))


def mlp(numbers: np.random.Generator) -> Callable[[Any], Any]:
    """Three linear layers with relu, silu and a log-softmax."""
    layers = [(weights(numbers, a, b), vector(numbers, b)) for a, b in ((20, 32), (32, 32), (32, 10))]

    def run(x: Any) -> Any:
        (w1, b1), (w2, b2), (w3, b3) = layers
        x = jax.nn.relu(x @ w1 + b1)
        x = jax.nn.silu(x @ w2 + b2)
        return jax.nn.log_softmax(x @ w3 + b3)

    return run


def resnet(numbers: np.random.Generator) -> Callable[[Any], Any]:
    """A stem, a residual block with batch norms in their inference form, a strided block, pools; images [n, h, w, c]."""

    def conv(channels: int, out: int, size: int) -> jax.Array:
        shape = (size, size, channels, out)
        return jnp.asarray((numbers.standard_normal(shape) * (size * size * channels) ** -0.5).astype(np.float32))

    def norm(channels: int) -> tuple[jax.Array, ...]:
        return (
            vector(numbers, channels, 1.0),
            vector(numbers, channels),
            vector(numbers, channels),
            vector(numbers, channels, 1.0),
        )

    stem, first, second, down, skip = conv(3, 16, 3), conv(16, 16, 3), conv(16, 16, 3), conv(16, 32, 3), conv(16, 32, 1)
    norms = [norm(16), norm(16), norm(16), norm(32)]
    head, bias = weights(numbers, 32, 10), vector(numbers, 10)

    def convolved(x: Any, w: Any, stride: int = 1) -> Any:
        return lax.conv_general_dilated(
            x, w.astype(x.dtype), (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    def normed(x: Any, p: tuple[jax.Array, ...]) -> Any:
        scale, shift, mean, variance = p
        return (x - mean) * (scale * lax.rsqrt(variance + 1e-5)) + shift

    def run(x: Any) -> Any:
        x = jax.nn.relu(normed(convolved(x, stem), norms[0]))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        y = jax.nn.relu(normed(convolved(x, first), norms[1]))
        x = jax.nn.relu(x + normed(convolved(y, second), norms[2]))
        x = jax.nn.relu(convolved(x, skip, 2) + normed(convolved(x, down, 2), norms[3]))
        return x.mean((1, 2)) @ head + bias

    return run


def transformer_weights(numbers: np.random.Generator) -> dict[str, Any]:
    """Weights of one layer."""
    d = WIDTH
    return {
        "norm1": (vector(numbers, d, 1.0), vector(numbers, d)), "norm2": (vector(numbers, d, 1.0), vector(numbers, d)),
        "qkv": (weights(numbers, d, 3 * d), vector(numbers, 3 * d)), "out": (weights(numbers, d, d), vector(numbers, d)),
        "up": (weights(numbers, d, 4 * d), vector(numbers, 4 * d)), "down": (weights(numbers, 4 * d, d), vector(numbers, d)),
    }  # fmt: skip


def transformer_layer(p: dict[str, Any], x: Any) -> Any:
    """A layer with norms first, of sequences [n, s, d]."""

    def norm(x: Any, w: tuple[Any, Any]) -> Any:
        mean = x.mean(-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) * lax.rsqrt(variance + 1e-5) * w[0] + w[1]

    n, s, d = x.shape
    hidden = norm(x, p["norm1"]) @ p["qkv"][0] + p["qkv"][1]
    q, k, v = (t.reshape(n, s, HEADS, d // HEADS).transpose(0, 2, 1, 3) for t in jnp.split(hidden, 3, -1))
    scores = jnp.einsum("bhsd,bhtd->bhst", q, k) / np.float32((d // HEADS) ** 0.5)
    mixed = jnp.einsum("bhst,bhtd->bhsd", jax.nn.softmax(scores, -1), v)
    x = x + (mixed.transpose(0, 2, 1, 3).reshape(n, s, d) @ p["out"][0] + p["out"][1])
    hidden = jax.nn.gelu(norm(x, p["norm2"]) @ p["up"][0] + p["up"][1], approximate=False)
    return x + (hidden @ p["down"][0] + p["down"][1])


def gru(numbers: np.random.Generator) -> Callable[[Any, Any], Any]:
    """A gated recurrent layer by lax.scan, of sequences [t, n, h]."""
    w, b = weights(numbers, HIDDEN, 3 * HIDDEN), vector(numbers, 3 * HIDDEN)
    u, c = weights(numbers, HIDDEN, 3 * HIDDEN), vector(numbers, 3 * HIDDEN)

    def step(h: Any, x: Any) -> Any:
        i, r = jnp.split(x @ w + b, 3, -1), jnp.split(h @ u + c, 3, -1)
        reset, update = jax.nn.sigmoid(i[0] + r[0]), jax.nn.sigmoid(i[1] + r[1])
        new = jnp.tanh(i[2] + reset * r[2])
        h = (1 - update) * new + update * h
        return h, h

    return lambda x, h: lax.scan(step, h, x)


def sampling(numbers: np.random.Generator) -> Callable[[Any, Any], Any]:
    """Logits of a linear layer, the five largest of them, and a draw among these; a normal draw beside it."""
    w = weights(numbers, 16, 40)

    def run(key: Any, x: Any) -> Any:
        first, second = jax.random.split(key)
        best, places = lax.top_k(x @ w, 5)
        drawn = jax.random.categorical(first, best)
        return jnp.take_along_axis(places, drawn[:, None], 1)[:, 0], jax.random.normal(second, (3,)) * 0.5

    return run


class TorchLayer(torch.nn.Module):
    """`transformer_layer` in torch."""

    def __init__(self) -> None:
        super().__init__()
        d = WIDTH
        self.norm1, self.norm2 = torch.nn.LayerNorm(d), torch.nn.LayerNorm(d)
        self.qkv, self.out = torch.nn.Linear(d, 3 * d), torch.nn.Linear(d, d)
        self.up, self.down = torch.nn.Linear(d, 4 * d), torch.nn.Linear(4 * d, d)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer of x [n, s, d]."""
        n, s, d = x.shape
        q, k, v = (t.reshape(n, s, HEADS, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(d, -1))
        scores = q @ k.transpose(-1, -2) / (d // HEADS) ** 0.5
        mixed = torch.softmax(scores, -1) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(n, s, d))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x))))
