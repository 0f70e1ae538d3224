# SPDX-License-Identifier: Apache-2.0
"""Complex tensors of Paddle as arguments, results, and what branches and loops carry; what is refused of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest
import straightline as sl
from paddle import nn

from tests.frameworks.paddle.comparison import assert_close, fresh_seed


def _complex(rng: np.random.Generator, *shape: int, dtype: str = "complex64") -> Any:
    return paddle.to_tensor((rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype))


class _Turned(nn.Layer):
    """Pairs of features turned by complex factors, as rotary embeddings are written."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: Any, factors: Any) -> Any:
        """Turned features, and the complex numbers that they are."""
        pairs = paddle.as_complex(self.fc(x).reshape([x.shape[0], 4, 2])) * factors
        return {"flat": paddle.as_real(pairs).flatten(1), "pairs": pairs}


@pytest.mark.parametrize("given", ["paddle", "numpy"])
def test_arguments_and_results(given: str) -> None:
    rng = np.random.default_rng(fresh_seed())
    layer = _Turned()
    layer.eval()
    x, factors = paddle.to_tensor(rng.standard_normal((3, 8)).astype("float32")), _complex(rng, 3, 4)
    fn = sl.compile(layer, (x, factors))
    with paddle.no_grad():
        for _ in range(3):
            x, factors = x * 0.5 + 0.25, factors * (1 - 1j)
            want = layer(x, factors)
            got = fn(x, factors) if given == "paddle" else fn(x.numpy(), factors.numpy())
            assert isinstance(got["pairs"], paddle.Tensor if given == "paddle" else np.ndarray)
            for name in want:
                assert_close(got[name], want[name], name)


def test_named_sizes() -> None:
    rng = np.random.default_rng(fresh_seed())
    fn = sl.compile(_spectrum, (_complex(rng, 4, 6),), dynamic_shapes={"z": {0: "rows"}})
    for rows in (1, 7, 64):
        z = _complex(rng, rows, 6)
        for got, want in zip(fn(z), _spectrum(z), strict=True):
            assert_close(got, want, f"{rows} rows")


def _spectrum(z: Any) -> Any:
    return paddle.fft.ifft(paddle.fft.fft(z) * z), z.abs(), z.conj()


def _powers(z: Any, count: Any) -> Any:
    found = z
    while count > 1:
        found = found * z
        count = count - 1
    if found.abs().sum() > 100:
        found = found * 0.5
    else:
        found = found + 1j
    return found


def test_branches_and_loops() -> None:
    rng = np.random.default_rng(fresh_seed())
    z = _complex(rng, 5, dtype="complex128")
    fn = sl.compile(paddle.jit.to_static(_powers, full_graph=True), (z, paddle.to_tensor(3)))
    for count in (1, 2, 5):
        for size in (0.1, 3.0):
            assert_close(fn(z * size, paddle.to_tensor(count)), _powers(z * size, paddle.to_tensor(count)), scale=100)


def test_other_elements_are_refused() -> None:
    rng = np.random.default_rng(fresh_seed())
    z = _complex(rng, 4, 6)
    fn = sl.compile(_spectrum, (z,))
    for wrong, words in (
        (z.real(), "dtype is float32"),
        (_complex(rng, 4, 6, dtype="complex128"), "dtype is complex128"),
    ):
        with pytest.raises(
            sl.errors.GuardError, match=f"input 'z': {words} but this program was compiled for complex64"
        ):
            fn(wrong)
    recorded = _complex(rng, 4, 6)
    recorded.stop_gradient = False
    with pytest.raises(sl.errors.GuardError, match=r"'z' has stop_gradient=False while grad mode is on"):
        fn(recorded)


def _rare(z: Any) -> Any:
    return paddle.tanh(z), paddle.cumprod(z, 0)


class _Buffer(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("factors", paddle.ones([4]).astype("complex64"))

    def forward(self, x: Any) -> Any:
        """A product with the buffer."""
        return x * self.factors


def test_what_is_refused() -> None:
    z = _complex(np.random.default_rng(0), 4)
    line = _rare.__code__.co_firstlineno + 1
    with pytest.raises(sl.UnsupportedError) as caught:
        sl.compile(_rare, (z,))
    for name in ("tanh", "cumprod"):
        words = f"{name} at <root> (complex_test.py:{line}): {name} of complex numbers; nearest supported form: sums, products"
        assert words in str(caught.value), caught.value
    with pytest.raises(
        sl.UnsupportedError, match=r"'factors' is of complex64; nearest supported form: its parts \(paddle.as_real\)"
    ):
        sl.compile(_Buffer(), (z,))


def test_a_saved_model_takes_and_gives_them(tmp_path: Any) -> None:
    z = _complex(np.random.default_rng(fresh_seed()), 4, 6)
    path = tmp_path / "model.sl"
    sl.compile(_spectrum, (z,)).save(path)
    loaded = sl.load(path)
    for got, want in zip(loaded(z), _spectrum(z), strict=True):
        assert_close(got, want)
    assert loaded(z.numpy())[0].dtype == np.complex64
    with pytest.raises(sl.errors.GuardError, match="dtype is float32 but this program was compiled for complex64"):
        loaded(z.real())
