# SPDX-License-Identifier: Apache-2.0
"""Arrays of JAX on a CUDA device in calls: right against JAX, as arguments that are still computed, and results that JAX goes on with."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest
import straightline as sl
import torch

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")

_ATOL = 1e-4


def _on_cuda() -> bool:
    try:
        return bool(jax.local_devices(backend="cuda"))
    except RuntimeError:
        return False


pytestmark = pytest.mark.skipif(not _on_cuda(), reason="JAX has no CUDA device")


def _f(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w) + x.sum(-1, keepdims=True), x * 2


def _arguments(rows: int = 33) -> tuple[Any, Any]:
    numbers = np.random.default_rng(torch.initial_seed() % 2**32)
    x, w = (numbers.standard_normal(shape).astype(np.float32) for shape in ((rows, 64), (64, 48)))
    device = jax.local_devices(backend="cuda")[0]
    return jax.device_put(x, device), jax.device_put(w, device)


def _wanted(x: Any, w: Any) -> tuple[np.ndarray, np.ndarray]:
    x, w = np.asarray(x, np.float64), np.asarray(w, np.float64)
    return np.tanh(x @ w) + x.sum(-1, keepdims=True), x * 2


def _check(got: Any, x: Any, w: Any) -> None:
    for result, right in zip(got, _wanted(x, w), strict=True):
        assert type(result).__name__ == "ArrayImpl" and result.devices() == x.devices()
        np.testing.assert_allclose(np.asarray(result), right, rtol=_ATOL, atol=_ATOL)


@pytest.mark.parametrize("launch", ["graph", "stream"])
def test_results_are_arrays_of_jax_on_the_device(launch: str) -> None:
    x, w = _arguments()
    fn = sl.compile(jax.jit(_f), (x, w), launch=launch)
    for _ in range(3):
        x, w = _arguments()
        _check(fn(x, w), x, w)
    with sl.fast_path(False):
        _check(fn(x, w), x, w)


def test_arguments_that_are_still_being_computed() -> None:
    x, w = _arguments()
    fn = sl.compile(jax.jit(_f), (x, w))
    large = jax.device_put(np.ones((4096, 4096), np.float32), jax.local_devices(backend="cuda")[0])
    slow = jax.jit(lambda x, a: x + (a @ a @ a @ a)[: x.shape[0], : x.shape[1]] * 1e-11)
    for _ in range(5):
        late = slow(x, large)
        _check(fn(late, w), late, w)


def test_jax_goes_on_with_results_and_drops_them() -> None:
    x, w = _arguments()
    fn = sl.compile(jax.jit(_f), (x, w))
    fn(x, w)
    torch.cuda.synchronize()
    further = jax.jit(lambda y, z: jnp.matmul(y, y.T, precision="highest").sum() + z.sum())
    sums = []
    for _ in range(50):
        y, z = fn(x, w)
        sums.append(further(y, z))
        del y, z
    gc.collect()
    y, z = _wanted(x, w)
    np.testing.assert_allclose(np.asarray(sums), (y @ y.T).sum() + z.sum(), rtol=1e-3)
    before = torch.cuda.memory_allocated()
    for _ in range(100):
        fn(x, w)
    assert torch.cuda.memory_allocated() - before <= 2 * (33 * 48 + 33 * 64) * 4 + 4096


def test_threads() -> None:
    x, w = _arguments()
    fn = sl.compile(jax.jit(_f), (x, w))
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(30):
                _check(fn(x, w), x, w)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


def test_tensors_of_torch_still_give_tensors() -> None:
    x, w = _arguments()
    fn = sl.compile(jax.jit(_f), (x, w))
    got = fn(torch.from_numpy(np.asarray(x).copy()).cuda(), torch.from_numpy(np.asarray(w).copy()).cuda())
    assert all(isinstance(result, torch.Tensor) and result.is_cuda for result in got)
    np.testing.assert_allclose(got[0].cpu().numpy(), _wanted(x, w)[0], rtol=_ATOL, atol=_ATOL)


def test_arrays_on_the_host_are_refused_with_both_places() -> None:
    x, w = _arguments()
    fn = sl.compile(jax.jit(_f), (x, w))
    host = jax.device_put(np.asarray(x), jax.devices("cpu")[0])
    with pytest.raises(sl.GuardError, match=r"(?s)cpu.*cuda|cuda.*cpu"):
        fn(host, w)
