# SPDX-License-Identifier: Apache-2.0
"""Calls of programs from JAX: trees, numbers, static and donated arguments, arrays of each framework."""

from __future__ import annotations

import collections
import dataclasses
import gc
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import straightline as sl
import torch

X = jnp.arange(6, dtype="float32")


class Pair(NamedTuple):
    """A named tuple of arrays."""

    first: Any
    second: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Record:
    """A dataclass that JAX knows."""

    one: Any
    many: list[Any]


@jax.tree_util.register_pytree_node_class
class Scaled:
    """A node with something beside its arrays."""

    def __init__(self, array: Any, unit: str) -> None:
        self.array, self.unit = array, unit

    def tree_flatten(self) -> tuple[Any, str]:
        return (self.array,), self.unit

    @classmethod
    def tree_unflatten(cls, unit: str, children: Any) -> Scaled:
        return cls(children[0], unit)


def _tree(shift: float) -> Any:
    inner = Record(X + shift, [X[:1], collections.OrderedDict(z=X[:2], a=X[:3]), None])
    return Pair({"z": X[:4], "a": (X[:5],)}, [inner, Scaled(X * shift, "m"), collections.defaultdict(list, b=X)])


def test_trees_come_and_go_as_jax_has_them() -> None:
    jitted = jax.jit(lambda t: jax.tree_util.tree_map(lambda x: x + 1, t))
    fn = sl.compile(jitted, (_tree(1.0),))
    got, want = fn(_tree(2.0)), jitted(_tree(2.0))
    assert jax.tree_util.tree_structure(got) == jax.tree_util.tree_structure(want)
    for a, b in zip(jax.tree_util.tree_leaves(got), jax.tree_util.tree_leaves(want), strict=True):
        np.testing.assert_array_equal(a, b)
    assert got.second[1].unit == "m" and list(got.first) == list(want.first)
    with pytest.raises(sl.errors.GuardError, match="first"):
        fn(Pair({"z": X[:4]}, _tree(1.0).second))


def test_results_are_of_the_kind_of_the_arguments() -> None:
    fn = sl.compile(jax.jit(lambda a, b: a + b), (X, X))
    ours, theirs = fn(X, X), np.asarray(X)
    assert isinstance(ours, jax.Array) and ours.devices() == X.devices()
    assert type(fn(theirs, theirs)) is np.ndarray
    assert type(fn(torch.ones(6), torch.ones(6))) is torch.Tensor
    assert isinstance(fn(theirs, X), jax.Array) and isinstance(fn(X, theirs), jax.Array)
    with pytest.raises(sl.errors.GuardTypeError, match="give tensors of one kind"):
        fn(X, torch.ones(6))
    assert isinstance(sl.compile(jax.jit(lambda: jnp.arange(4) * 2), ())(), jax.Array)


def test_programs_of_torch_take_arrays_of_jax() -> None:
    layer = torch.nn.Linear(6, 3).eval()
    fn = sl.compile(layer, (torch.ones(2, 6),))
    got = fn(jnp.ones((2, 6)))
    assert isinstance(got, jax.Array)
    np.testing.assert_allclose(got, layer(torch.ones(2, 6)).detach().numpy(), rtol=1e-5, atol=1e-6)
    views = sl.compile(lambda x: (x.T, x, x + 1), (torch.ones(2, 3),))
    x = jnp.arange(6, dtype="float32").reshape(2, 3)
    turned, same, more = views(x)
    assert same is x
    np.testing.assert_array_equal(turned, x.T)
    np.testing.assert_array_equal(more, x + 1)
    writes = sl.compile(lambda x: x.add_(1), (torch.ones(2, 3),))
    with pytest.raises(sl.errors.GuardError, match="read-only"):
        writes(x)


def test_results_have_no_copy_and_outlive_the_program() -> None:
    fn = sl.compile(jax.jit(lambda a: a * 2), (X,))
    results = [fn(X + i) for i in range(50)]
    addresses = {r.unsafe_buffer_pointer() for r in results}
    assert len(addresses) == 50 and all(address % 64 == 0 for address in addresses)
    gone = weakref.ref(fn._own if hasattr(fn, "_own") else fn) if _is_weakly_referable(fn) else None
    del fn
    gc.collect()
    assert gone is None or gone() is None
    for i, result in enumerate(results):
        np.testing.assert_array_equal(result, (np.arange(6) + i) * 2)
        np.testing.assert_array_equal(jax.jit(jnp.negative)(result), -(np.arange(6) + i) * 2)


def _is_weakly_referable(value: object) -> bool:
    try:
        weakref.ref(value)
    except TypeError:
        return False
    return True


def test_an_array_that_is_still_computed_is_waited_for() -> None:
    slow = jax.jit(lambda a: jax.lax.fori_loop(0, 60, lambda i, t: jnp.tanh(t @ t), a))
    total = sl.compile(jax.jit(lambda a: a.sum(0)), (jnp.ones((300, 300)),))
    for _ in range(5):
        pending = slow(jnp.full((300, 300), 0.01))
        got = total(pending)  # before anything else waits
        np.testing.assert_allclose(got, np.asarray(pending).sum(0), rtol=1e-4, atol=1e-4)


def test_deleted_arrays_and_tracers_are_refused() -> None:
    fn = sl.compile(jax.jit(lambda a: a * 2), (X,))
    gone = X + 1
    fn(gone), fn(gone), fn(gone)
    gone.delete()
    with pytest.raises(sl.errors.GuardTypeError, match="'a' .*deleted"):
        fn(gone)
    with pytest.raises(sl.errors.GuardTypeError, match="tracer of JAX"):
        jax.jit(lambda a: fn(a))(X)
    with pytest.raises(sl.errors.GuardError, match="int32 but this program was compiled for float32"):
        fn(X.astype("int32"))


def test_donated_arguments_are_updated_in_place() -> None:
    jitted = jax.jit(lambda s, x: ({"sum": s["sum"] + x}, (s["sum"] * x).sum()), donate_argnums=0)
    fn = sl.compile(jitted, ({"sum": X}, X))
    state = {"sum": jnp.zeros(6)}
    place = state["sum"].unsafe_buffer_pointer()
    for step in range(1, 4):
        state, total = fn(state, X)
        assert state["sum"].unsafe_buffer_pointer() == place
        np.testing.assert_array_equal(state["sum"], np.arange(6) * step)
        assert float(total) == (step - 1) * 55
    ours = np.zeros(6, np.float32)
    fn({"sum": ours}, np.asarray(X))
    np.testing.assert_array_equal(ours, np.arange(6))
    with pytest.raises(sl.errors.GuardError, match="shares memory"):
        fn({"sum": ours}, ours)


def test_results_are_written_into_arrays_of_numpy_and_never_of_jax() -> None:
    fn = sl.compile(jax.jit(lambda a: a * 2), (X,), reuse_outputs=True)
    kept = fn(X)
    place = kept.unsafe_buffer_pointer()
    view = np.asarray(kept)
    del kept
    assert fn(X + 1).unsafe_buffer_pointer() != place
    np.testing.assert_array_equal(view, np.arange(6) * 2)
    out = np.empty(6, np.float32)
    assert fn(np.asarray(X), out=out) is out
    with pytest.raises(sl.errors.GuardError):
        fn(X, out=jnp.zeros(6))


def test_numbers_static_arguments_and_defaults() -> None:
    def scaled(x: Any, n: int, *, k: float = 2.0, flag: bool = True) -> Any:
        return x * n + k if flag else x

    jitted = jax.jit(scaled, static_argnames=("n", "flag"))
    fn = sl.compile(jitted, (X,), {"n": 3, "k": 1.5, "flag": True})
    np.testing.assert_array_equal(fn(X, n=3, k=2.5, flag=True), jitted(X, n=3, k=2.5, flag=True))
    with pytest.raises(sl.errors.GuardError, match="'n' was compiled for the value 3 but is 4"):
        fn(X, n=4, k=2.5, flag=True)
    times = sl.compile(jax.jit(lambda x, s: x * s), (X, 2.0))
    for s in (3.0, 3, np.float32(3), np.float64(3), jnp.float32(3), True):
        np.testing.assert_array_equal(times(X, s), np.arange(6) * float(s))
    np.testing.assert_array_equal(times(x=X, s=0.5), np.arange(6) * 0.5)
    whole = sl.compile(jax.jit(lambda x, s: x * s), (X, 2))
    with pytest.raises(sl.errors.GuardError, match="'s' is of float64 but was compiled for int32"):
        whole(X, 2.5)


def test_precision_is_what_jax_was_told() -> None:
    given = np.linspace(0, 1, 6)
    narrow = sl.compile(jax.jit(lambda x: x * 2), (given,))
    assert narrow(given).dtype == np.float32 and narrow(jnp.asarray(given)).dtype == jnp.float32
    with jax.enable_x64(True):
        wide = sl.compile(jax.jit(lambda x: jnp.cumsum(x) / 3), (jnp.asarray(given),))
        got = wide(jnp.asarray(given))
        assert got.dtype == jnp.float64
        np.testing.assert_allclose(got, np.cumsum(given) / 3, rtol=1e-15)
    assert wide(given).dtype == np.float64


def test_keys_come_and_go_as_keys() -> None:
    jitted = jax.jit(lambda key: (jax.random.split(key, 2), key))
    key = jax.random.key(7)
    got, want = sl.compile(jitted, (key,))(key), jitted(key)
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(jax.random.key_data(a), jax.random.key_data(b))


def test_programs_are_saved_and_loaded(tmp_path: Path) -> None:
    fn = sl.compile(jax.jit(lambda a, more: {"y": a * 2, "z": [more["b"] + 1]}), (X, {"b": X}))
    fn.save(tmp_path / "model.sl")
    got = sl.load(tmp_path / "model.sl")(X, {"b": X})
    assert isinstance(got["y"], jax.Array)
    np.testing.assert_array_equal(got["z"][0], X + 1)
    for args, function in (((X, 2.0), jnp.multiply), ((jax.random.key(0),), jax.random.normal)):
        with pytest.raises(sl.UnsupportedError, match="which a saved model has not"):
            sl.compile(jax.jit(function), args).save(tmp_path / "other.sl")


_LATE = """
import numpy as np, torch, straightline as sl
fn = sl.compile(torch.nn.Linear(4, 2).eval(), (torch.ones(1, 4),))
fn(torch.ones(1, 4)), fn(np.ones((1, 4), np.float32))
import jax, jax.numpy as jnp
print(isinstance(fn(jnp.ones((1, 4))), jax.Array))
"""


def test_jax_may_be_imported_after_the_first_call() -> None:
    found = subprocess.run([sys.executable, "-c", _LATE], capture_output=True, text=True, timeout=300)
    assert found.stdout.strip() == "True", found.stderr


def _complex(*shape: int) -> np.ndarray[Any, Any]:
    numbers = np.random.default_rng()
    return (numbers.standard_normal(shape) + 1j * numbers.standard_normal(shape)).astype(np.complex64)


def test_complex_arguments_and_results() -> None:
    def function(x: Any, y: Any) -> Any:
        carried = jax.lax.while_loop(lambda c: jnp.abs(c).sum() < 50, lambda c: c * (1.5 + 0.1j), x)
        chosen = jax.lax.cond(x.real.sum() > 0, lambda: (x, x.real), lambda: (-x, x.imag))
        scanned = jax.lax.scan(lambda c, v: (c * v, c + v), x[0], x)
        return (
            {"product": x @ y, "fft": jnp.fft.fft(x), "back": jnp.fft.irfft(x), "x": x},
            carried,
            chosen,
            scanned,
            y.conj().T,
        )

    x, y = _complex(4, 6), _complex(6, 3)
    jitted = jax.jit(function)
    fn = sl.compile(jitted, (jnp.asarray(x), jnp.asarray(y)))
    want = jitted(x, y)
    for kind, given in ((jax.Array, jnp.asarray), (np.ndarray, np.asarray), (torch.Tensor, torch.from_numpy)):
        got = fn(given(x), given(y))
        assert jax.tree_util.tree_structure(got) == jax.tree_util.tree_structure(want)
        for a, b in zip(jax.tree_util.tree_leaves(got), jax.tree_util.tree_leaves(want), strict=True):
            assert isinstance(a, kind)
            assert np.asarray(a).dtype == b.dtype
            np.testing.assert_allclose(np.asarray(a), b, 1e-4, 1e-4)
    with pytest.raises(sl.errors.GuardTypeError, match="dtype is float32 but this program was compiled for complex64"):
        fn(jnp.asarray(x.real), y)


def test_complex_results_that_a_call_writes_and_modules_by_themselves(tmp_path: Path) -> None:
    x = _complex(3, 2)
    twice = jax.jit(lambda x: (x * 2, x.real))
    out = np.empty_like(x), np.empty_like(x.real)
    sl.compile(twice, (x,))(x, out=out)
    np.testing.assert_allclose(out[0], 2 * x, 1e-6)
    path = tmp_path / "model.stablehlo"
    path.write_text(str(twice.lower(x).compiler_ir("stablehlo")))
    for got, want in zip(sl.compile(path)(x), (2 * x, x.real), strict=True):
        np.testing.assert_allclose(got, want, 1e-6)
    scaled = sl.compile(jax.jit(lambda c: c * 1j), (1 + 2j,))
    assert np.asarray(scaled(3 - 1j)) == 1 + 3j
