# SPDX-License-Identifier: Apache-2.0
"""Programs of JAX for a CUDA device that is not here: their text and their kernels, beside the same models in torch."""

from __future__ import annotations

import collections
import importlib.util
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import straightline as sl
import torch
from bench import jax_models as models
from jax import export, lax

from tests.frameworks.jax.compare import generator

TARGET = "cuda:sm_90"
_HAS_NVRTC = importlib.util.find_spec("nvidia") is not None


def _spec(*shape: Any, dtype: str = "float32") -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def _compiled(function: Any, *args: Any, **options: Any) -> Any:
    return sl.compile(jax.jit(function), args, target=TARGET, **options)


def _families(fn: Any, phase: str) -> collections.Counter[str]:
    """How many launches of each family a program has: a kernel's name begins with it."""
    rows = fn.explain().statements
    return collections.Counter(row["kernel"].partition("_")[0] for row in rows if row["phase"] == phase)


def _cases() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    numbers = np.random.default_rng(0)
    layer = models.transformer_weights(numbers)
    x = _spec(8)
    return {
        "perceptron": (models.mlp(numbers), (_spec(7, 20),)),
        "residual net": (models.resnet(numbers), (_spec(2, 16, 16, 3),)),
        "transformer": (lambda t: models.transformer_layer(layer, t), (_spec(1, models.STEPS, models.WIDTH),)),
        "GRU, a loop": (models.gru(numbers), (_spec(20, 1, models.HIDDEN), _spec(1, models.HIDDEN))),
        "sampling": (models.sampling(numbers), (jax.random.key(0), _spec(4, 16))),
        "cond": (lambda x: lax.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, x), (x,)),
        "while": (lambda x: lax.while_loop(lambda c: c[0].sum() < 9, lambda c: (c[0] * 2, c[1] + 1), (x, 0)), (x,)),
        "bfloat16": (lambda x, w: jax.nn.gelu(x @ w), (_spec(16, 64, dtype="bfloat16"), _spec(64, 32, dtype="bfloat16"))),
    }  # fmt: skip


@pytest.mark.parametrize("name", _cases())
def test_a_model_is_compiled_without_a_device(name: str) -> None:
    function, args = _cases()[name]
    fn = _compiled(function, *args)
    rows = [row for row in fn.explain().statements if row["phase"] == "run"]
    assert rows and all(row["backend"] in ("cuda", "runtime", "cublaslt", "cudnn") for row in rows)
    assert "SL_KERNEL(" in fn.code
    if _HAS_NVRTC:  # machine code, by NVIDIA's compiler
        assert all(row["registers"] for row in rows if row["backend"] == "cuda")
    with pytest.raises(sl.UnsupportedError, match=f"this program was compiled for {TARGET} and cannot run here"):
        fn(*(jnp.zeros(a.shape, a.dtype) if isinstance(a, jax.ShapeDtypeStruct) else a for a in args))


def test_a_transformer_layer_has_the_launches_of_torchs() -> None:
    layer = models.transformer_weights(generator())
    fn = _compiled(lambda t: models.transformer_layer(layer, t), _spec(1, models.STEPS, models.WIDTH))
    model, x = models.TorchLayer().eval(), torch.zeros(1, models.STEPS, models.WIDTH)
    twin = sl.compile(model, (x,), target=TARGET)
    assert _families(fn, "run") == _families(twin, "run")


@pytest.mark.parametrize("target", ["cpu", TARGET])
def test_attention_of_jax_is_two_products_and_a_softmax(target: str) -> None:
    q = _spec(2, 64, 4, 64)
    fn = sl.compile(jax.jit(lambda q, k, v: jax.nn.dot_product_attention(q, k, v)), (q, q, q), target=target)
    text = fn.ir("op")
    assert (text.count("op.matmul "), text.count("op.softmax "), text.count("op.amax ")) == (2, 1, 0)


def test_a_perceptron_has_the_launches_of_torchs() -> None:
    fn = _compiled(models.mlp(generator()), _spec(7, 20))
    net = torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.ReLU(), torch.nn.Linear(32, 32), torch.nn.SiLU(),
                              torch.nn.Linear(32, 10), torch.nn.LogSoftmax(-1)).eval()  # fmt: skip
    twin = sl.compile(net, (torch.zeros(7, 20),), target=TARGET)
    assert _families(fn, "run") == _families(twin, "run")


def test_named_sizes() -> None:
    (batch,) = export.symbolic_shape("b")
    fn = _compiled(models.mlp(generator()), _spec(batch, 20))
    assert any(row["op"] and "linear" in row["op"] for row in fn.explain().statements)


@pytest.mark.parametrize("platforms", [("cuda",), ("cpu", "cuda"), ("cpu",)])
def test_exports_for_cuda_and_for_the_cpu_are_taken(platforms: tuple[str, ...]) -> None:
    exported = export.export(jax.jit(lambda x: jnp.sin(x) @ x), platforms=platforms)(_spec(4, 4))
    fn = sl.compile(bytes(exported.serialize()), target=TARGET)
    assert "SL_KERNEL(" in fn.code


def test_a_branch_by_platform_is_that_of_the_target() -> None:
    def function(x: Any) -> Any:
        return lax.platform_dependent(x, cpu=lambda x: x + 1, cuda=lambda x: x * x * x)

    both = export.export(jax.jit(function), platforms=("cpu", "cuda"))(_spec(4))
    for model, args in ((jax.jit(function), (_spec(4),)), (both, ())):
        assert "op.add" in sl.compile(model, args).ir("op") and "op.mul" not in sl.compile(model, args).ir("op")
        text = sl.compile(model, args, target=TARGET).ir("op")
        assert "op.mul" in text or "op.pow" in text


def test_a_kernel_of_ones_own() -> None:
    source = """
    __global__ void scale(const float* x, double a, int64_t n, float* y) {
      const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
      if (i < n) y[i] = x[i] * float(a);
    }
    """
    seen: list[Any] = []

    def grid(x: Any, a: float, n: int) -> tuple[Any, int]:
        seen.append((x.shape, x.dtype, x.numel(), x.element_size()))
        return (n + 255) // 256, 256

    kernel = sl.cuda_kernel(source, "scale", "own_jax::gpu(Tensor x, float a, int n) -> Tensor", grid=grid)
    try:
        call = lambda x: jax.ffi.ffi_call("own_jax::gpu", _spec(300))(x, a=2.0, n=300)  # noqa: E731
        fn = _compiled(call, _spec(300))
        assert "// The kernel of a user: scale" in fn.code and seen == [((300,), "float32", 300, 4)]
        with pytest.raises(sl.UnsupportedError, match="is a CUDA kernel but the program runs on the host"):
            sl.compile(jax.jit(call), (_spec(300),))
    finally:
        kernel.unregister()


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("cuda:sm_9", "must be None, 'cpu', 'cuda' or 'cuda:sm_NN'"),
        ("cuda:sm_80a", "sm_80 has no form 'a'"),
        ("cuda", "torch finds no device"),
        ("tpu", "must be None, 'cpu', 'cuda'"),
    ],
)
def test_targets_that_are_none(target: str, words: str) -> None:
    with pytest.raises(sl.UserError, match=words):
        sl.compile(jax.jit(jnp.sin), (_spec(3),), target=target)


def test_measuring_needs_a_device() -> None:
    with pytest.raises(sl.UserError, match="tune=True measures on the device"):
        _compiled(jnp.sin, _spec(3), tune=True)
