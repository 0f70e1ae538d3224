# SPDX-License-Identifier: Apache-2.0
"""Whole models of JAX, compiled, against JAX; and one transformer layer beside the same in torch."""

from __future__ import annotations

import collections
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import straightline as sl
import torch
from jax import export

from bench import jax_models as models
from tests.frameworks.jax.compare import check, generator


def test_a_perceptron() -> None:
    numbers = generator()
    check(models.mlp(numbers), models.weights(numbers, 7, 20))


def test_a_residual_net_of_images_with_channels_last() -> None:
    numbers = generator()
    fn = check(models.resnet(numbers), jnp.asarray(numbers.standard_normal((2, 16, 16, 3)).astype(np.float32)))
    ops = {row["op"] for row in fn.explain().statements if row["phase"] == "run"}
    assert not any("permute" in op for op in ops), ops


def test_a_transformer_layer_whose_weights_are_arguments() -> None:
    numbers = generator()
    x = models.weights(numbers, 2, models.STEPS, models.WIDTH)
    check(models.transformer_layer, models.transformer_weights(numbers), x)


def test_a_recurrent_layer_is_a_loop() -> None:
    numbers = generator()
    fn = check(models.gru(numbers), models.weights(numbers, 20, 1, models.HIDDEN), jnp.zeros((1, models.HIDDEN)))
    text = fn.ir("op")
    assert text.count("op.for") == 1 and text.count("op.sigmoid") == 2


def test_sampling() -> None:
    numbers = generator()
    check(models.sampling(numbers), jax.random.key(int(numbers.integers(2**31))), models.weights(numbers, 6, 16))


def test_batches_of_named_size() -> None:
    numbers = generator()
    (batch,) = export.symbolic_shape("b")
    run = models.mlp(numbers)
    fn = sl.compile(jax.jit(run), (jax.ShapeDtypeStruct((batch, 20), "float32"),))
    layer = models.transformer_weights(numbers)

    def transformer(x: Any) -> Any:
        return models.transformer_layer(layer, x)

    shape = (batch, models.STEPS, models.WIDTH)
    deep = sl.compile(jax.jit(transformer), (jax.ShapeDtypeStruct(shape, "float32"),))
    for size in (1, 7, 64):
        check(run, models.weights(numbers, size, 20), compiled=fn)
        check(transformer, models.weights(numbers, size, *shape[1:]), compiled=deep)


def _families(fn: Any, phase: str) -> collections.Counter[str]:
    """How many launches of each family a program has: a kernel's name begins with it."""
    rows = fn.explain().statements
    return collections.Counter(row["kernel"].partition("_")[0] for row in rows if row["phase"] == phase)


def test_a_transformer_layer_has_the_launches_of_torchs() -> None:
    numbers = generator()
    layer = models.transformer_weights(numbers)
    x = models.weights(numbers, 1, models.STEPS, models.WIDTH)
    fn = check(lambda x: models.transformer_layer(layer, x), x)
    twin = sl.compile(models.TorchLayer().eval(), (torch.zeros(1, models.STEPS, models.WIDTH),))
    for phase in ("prepare", "run"):
        assert _families(fn, phase) == _families(twin, phase)
    text = fn.ir("op")
    for op, count in {"layer_norm": 2, "softmax": 1, "gelu": 1, "linear": 4, "matmul": 2}.items():
        assert text.count(f"op.{op} ") == count, op
