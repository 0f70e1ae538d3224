# SPDX-License-Identifier: Apache-2.0
"""Kernels of users in programs of JAX: `jax.ffi.ffi_call` under a registered name; with and without torch."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import straightline as sl
import tvm_ffi

from tests.frameworks.jax.compare import generator
from tests.own_kernels.libraries import HERE, build

Register = Callable[..., Any]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of tests/own_kernels/kernels.c."""
    return build(HERE / "kernels.c", tmp_path_factory.mktemp("own") / "libkernels.so")


@pytest.fixture
def register(library: Path) -> Iterator[Register]:
    """`c_kernel` of a function of kernels.c, which is unregistered when the test ends."""
    made: list[Any] = []

    def one(name: str, schema: str, **options: Any) -> Any:
        made.append(sl.c_kernel(library, name, schema, **options))
        return made[-1]

    yield one
    for kernel in made:
        kernel.unregister()


def _like(x: Any) -> Any:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def _scaled(x: Any) -> Any:
    return jax.ffi.ffi_call("own_jax::scale", _like(x))(x + 1, a=2.5) - 1


_SCALE = "own_jax::scale(Tensor x, float a) -> Tensor"


def _numbers(*shape: int) -> Any:
    return jnp.asarray(generator().standard_normal(shape, dtype=np.float32))


def test_a_call_is_the_kernel_of_its_name(register: Register) -> None:
    register("scale", _SCALE)
    x = _numbers(3, 5)
    fn = sl.compile(jax.jit(_scaled), (x,))
    np.testing.assert_allclose(fn(x), np.asarray(x + 1) * np.float32(2.5) - 1, rtol=1e-6)
    assert "sl_own_call(ctx, " in fn.code


def test_a_name_without_a_namespace_and_a_default(register: Register) -> None:
    register("scale", "jax::scale(Tensor x, float a=3.0) -> Tensor")
    x = _numbers(4)
    fn = sl.compile(jax.jit(lambda x: jax.ffi.ffi_call("scale", _like(x))(x)), (x,))
    np.testing.assert_allclose(fn(x), np.asarray(x) * 3, rtol=1e-6)


@pytest.mark.parametrize("rows", [1, 7, 64])
def test_named_sizes(register: Register, rows: int) -> None:
    register("scale", _SCALE)
    (batch,) = jax.export.symbolic_shape("batch")
    fn = sl.compile(jax.jit(_scaled), (jax.ShapeDtypeStruct((batch, 5), "float32"),))
    x = _numbers(rows, 5)
    np.testing.assert_allclose(fn(x), np.asarray(x + 1) * np.float32(2.5) - 1, rtol=1e-6)


def test_within_a_loop_of_a_named_size(register: Register) -> None:
    register("scale", _SCALE)
    (batch,) = jax.export.symbolic_shape("batch")

    def looped(x: Any) -> Any:
        call = jax.ffi.ffi_call("own_jax::scale", _like(x))
        return jax.lax.fori_loop(0, 700, lambda i, c: call(c, a=1.001), x)

    fn = sl.compile(jax.jit(looped), (jax.ShapeDtypeStruct((batch,), "float32"),))
    x = _numbers(6)
    np.testing.assert_allclose(fn(x), np.asarray(x) * 1.001**700, rtol=1e-4)


def test_an_argument_that_is_updated(register: Register) -> None:
    register("increment", "own_jax::increment(Tensor(a!) x, float by) -> ()")
    x = _numbers(3, 4)

    def f(x: Any) -> Any:
        y = jax.ffi.ffi_call("own_jax::increment", _like(x), input_output_aliases={0: 0})(x, by=0.5)
        return y, x * 2  # x is as it was

    got = sl.compile(jax.jit(f), (x,))(x)
    np.testing.assert_allclose(got[0], np.asarray(x) + 0.5, rtol=1e-6)
    np.testing.assert_allclose(got[1], np.asarray(x) * 2, rtol=1e-6)


def test_a_result_of_another_shape(register: Register) -> None:
    register("rows", "own_jax::rows(Tensor x, int n) -> Tensor")
    x = _numbers(3, 4)
    f = jax.jit(lambda x: jax.ffi.ffi_call("own_jax::rows", _like(x[:, 0]))(x, n=2))
    np.testing.assert_array_equal(sl.compile(f, (x,))(x), [2003.0] * 3)


def test_a_function_of_tvm_ffi() -> None:
    def add(out: Any, x: Any) -> None:
        np.from_dlpack(out)[...] += np.from_dlpack(x)

    kernels = sl.tvm_ffi_library(tvm_ffi.convert(add), {"add": "own_jax::add(Tensor(a!) out, Tensor x) -> ()"})
    try:
        x, y = _numbers(5), _numbers(5)
        f = jax.jit(lambda x, y: jax.ffi.ffi_call("own_jax::add", _like(x), input_output_aliases={0: 0})(x * 2, y))
        np.testing.assert_allclose(sl.compile(f, (x, y))(x, y), np.asarray(x) * 2 + np.asarray(y), rtol=1e-6)
    finally:
        kernels["add"].unregister()


def test_a_function_of_tvm_ffi_takes_arrays() -> None:
    """`fn.tvm_ffi()` of a program of JAX and of PyTorch."""
    import torch

    x = _numbers(8)
    of_jax = sl.compile(jax.jit(lambda x: jax.numpy.tanh(x) * 2), (x,)).tvm_ffi()
    of_torch = sl.compile(lambda x: torch.tanh(x) * 2, (torch.zeros(8),)).tvm_ffi()
    for function in (of_jax, of_torch):
        np.testing.assert_allclose(np.from_dlpack(function(x)), np.tanh(np.asarray(x)) * 2, rtol=1e-6)
        out = np.empty(8, np.float32)
        function(x, out)
        np.testing.assert_allclose(out, np.tanh(np.asarray(x)) * 2, rtol=1e-6)


def test_a_saved_program_has_the_library(register: Register, tmp_path: Path) -> None:
    register("scale", _SCALE)
    x = _numbers(3, 5)
    fn = sl.compile(jax.jit(_scaled), (x,))
    fn.save(tmp_path / "m.sl")
    np.testing.assert_array_equal(sl.load(tmp_path / "m.sl")(np.asarray(x)), np.asarray(fn(x)))


def test_without_torch(library: Path) -> None:
    """Registration, capture and calls need no torch; calling the kernel by itself does, and says so."""
    text = f"""
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name == "torch" or name.startswith("torch."):
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
sys.meta_path.insert(0, Blocked())
import jax, jax.numpy as jnp, straightline as sl
k = sl.c_kernel({str(library)!r}, "scale", {_SCALE!r})
x = jnp.ones(4)
fn = sl.compile(jax.jit(lambda x: jax.ffi.ffi_call(k.name, jax.ShapeDtypeStruct(x.shape, x.dtype))(x, a=3.0)), (x,))
print(fn(x).tolist(), "torch" in sys.modules)
try:
    k(x, 3.0)
except sl.UserError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[3.0, 3.0, 3.0, 3.0] False",
        "own_jax::scale is called by itself as an op of torch, which is not there: call it in a program, by "
        "jax.ffi.ffi_call('own_jax::scale', ..) or as a custom op of Paddle",
    ]


# What is refused ------------------------------------------------------------------------------------------------------

_X = jnp.ones((3, 4))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda x: jax.ffi.ffi_call("own_jax::nowhere", [_like(x)] * 2)(x, x, n=3, s="a", v=np.array([1, 2]), b=True),
         r'sl\.c_kernel\("LIBRARY\.so", "nowhere", "own_jax::nowhere\(Tensor x0, Tensor x1, bool b, int n, str s, int\[\] v\) '
         r'-> \(Tensor, Tensor\)"\)'),
        (lambda x: jax.ffi.ffi_call("nowhere", _like(x))(x), r"jax::nowhere\(Tensor x0\) -> Tensor"),
        (lambda x: jax.ffi.ffi_call("own_jax::scale", _like(x))(x, b=2.5), "the attribute 'b' of own_jax::scale"),
        (lambda x: jax.ffi.ffi_call("own_jax::scale", _like(x))(x), "without the attribute 'a'.*: a=, a float"),
        (lambda x: jax.ffi.ffi_call("own_jax::scale", _like(x))(x, x, a=2.0), "2 tensors for own_jax::scale.*: 1 tensor"),
        (lambda x: jax.ffi.ffi_call("own_jax::scale", _like(x))(x, a="2"), "'a' is '2', not a number"),
        (lambda x: jax.ffi.ffi_call("own_jax::scale", _like(x), input_layouts=[(1, 0)])(x, a=2.0), "row-major arrays"),
        (lambda x: jax.ffi.ffi_call("own_jax::scale", [_like(x)] * 2)(x, a=2.0), "2 results for own_jax::scale"),
        (lambda x: jax.ffi.ffi_call("own_jax::increment", _like(x))(x, by=2.0), r"input_output_aliases=\{0: RESULT\}"),
        (lambda x: jax.ffi.ffi_call("own_jax::scale", _like(x), custom_call_api_version=2,
                                    legacy_backend_config="a")(x), "an opaque text"),
    ],
)  # fmt: skip
def test_calls_that_do_not_fit(register: Register, call: Any, said: str) -> None:
    register("scale", _SCALE)
    register("increment", "own_jax::increment(Tensor(a!) x, float by) -> ()")
    with pytest.raises(sl.UnsupportedError, match=said) as error:
        sl.compile(jax.jit(call), (_X,))
    assert "own_kernels_test.py:" in str(error.value)
