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


def test_what_is_refused() -> None:
    z = _complex(np.random.default_rng(0), 4)
    line = _rare.__code__.co_firstlineno + 1
    with pytest.raises(sl.UnsupportedError) as caught:
        sl.compile(_rare, (z,))
    for name in ("tanh", "cumprod"):
        words = f"{name} at <root> (complex_test.py:{line}): {name} of complex numbers; nearest supported form: sums, products"
        assert words in str(caught.value), caught.value


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


def _given(rng: np.random.Generator, *shape: int, dtype: str = "complex64") -> Any:
    return paddle.base.framework.EagerParamBase.from_tensor(_complex(rng, *shape, dtype=dtype))


class _Weights(nn.Layer):
    """Parameters and buffers of each rank and precision, one without elements."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__()
        self.matrix, self.one = _given(rng, 4, 6), _given(rng)
        self.bias = _given(rng, 6, dtype="complex128")
        self.register_buffer("rows", _complex(rng, 3, 1))
        self.register_buffer("empty", _complex(rng, 0, 6))
        self.register_buffer("shift", paddle.to_tensor(rng.standard_normal(6).astype("float32")))

    def forward(self, z: Any) -> Any:
        """Sums and products of them, and one as it is."""
        found = paddle.concat([z @ self.matrix * self.one, self.empty]) * self.rows + self.shift
        return found, z[:, :1].astype("complex128") + self.bias, self.matrix

    def change(self, rng: np.random.Generator) -> None:
        """Other values in the same memory."""
        for tensor in (self.matrix, self.one, self.bias, self.rows):
            tensor.set_value(_complex(rng, *tensor.shape, dtype=str(tensor.dtype).removeprefix("paddle.")))


def _check(fn: Any, layer: Any, z: Any) -> None:
    for got, want in zip(fn(z), layer(z), strict=True):
        assert_close(got, want.detach())


def test_parameters_are_loaded(tmp_path: Any) -> None:
    rng = np.random.default_rng(fresh_seed())
    layer, z = _Weights(rng), _complex(rng, 3, 4)
    layer.eval()
    fn = sl.compile(layer, (z,))
    _check(fn, layer, z)
    known = fn.parameters()
    assert {name: str(known[name].dtype) for name in ("matrix", "one", "bias")} == {
        "matrix": "paddle.complex64", "one": "paddle.complex64", "bias": "paddle.complex128"
    }  # fmt: skip
    before = [np.array(x) for x in fn(z)]
    layer.change(rng)
    for got, want in zip(fn(z), before, strict=True):
        np.testing.assert_array_equal(got.numpy(), want)  # a snapshot
    path = tmp_path / "model.sl"
    for given in (
        layer.state_dict(),
        {name: tensor.numpy() for name, tensor in layer.state_dict().items()},
        {tensor.name: tensor for tensor in layer.state_dict().values()},
    ):
        layer.change(rng)
        given = {name: layer.state_dict().get(name, tensor) for name, tensor in given.items()}
        given = {name: x.numpy() if i % 2 else x for i, (name, x) in enumerate(given.items())}
        fn.load_parameters(given)
        _check(fn, layer, z)
        fn.save(path)
        _check(sl.load(path), layer, z)
    loaded = sl.load(path)
    layer.change(rng)
    loaded.load_parameters(layer.state_dict())
    _check(loaded, layer, z)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda layer: layer.matrix.real(), r"'matrix' is float32\[4, 6\] but complex64\[4, 6\] was compiled"),
        (lambda layer: layer.matrix[:, :5], r"'matrix' is complex64\[4, 5\] but complex64\[4, 6\] was compiled"),
        (lambda layer: layer.matrix.astype("complex128"), r"'matrix' is complex128\[4, 6\] but complex64"),
        (lambda layer: layer.matrix.reshape([6, 4]).t(), "give a contiguous copy"),
    ],
)
def test_parameters_of_other_elements_or_shapes_are_refused(wrong: Any, words: str) -> None:
    rng = np.random.default_rng(fresh_seed())
    layer, z = _Weights(rng), _complex(rng, 3, 4)
    layer.eval()
    fn = sl.compile(layer, (z,))
    with pytest.raises(sl.UserError, match=words):
        fn.load_parameters({**layer.state_dict(), "matrix": wrong(layer).detach()})
    _check(fn, layer, z)


@pytest.mark.parametrize("emit", ["cpp", "python"])
def test_parameters_are_live(emit: str) -> None:
    rng = np.random.default_rng(fresh_seed())
    layer, z = _Weights(rng), _complex(rng, 3, 4)
    layer.eval()
    fn = sl.compile(layer, (z,), freeze=False, emit=emit)
    for _ in range(3):
        _check(fn, layer, z)
        layer.change(rng)
    _check(fn, layer, z)
    known = fn.parameters()
    assert known["matrix"] is layer.matrix and known["rows"] is layer.rows
    other = _Weights(rng)
    fn.load_parameters({**layer.state_dict(), "matrix": other.matrix})
    assert fn.parameters()["matrix"] is other.matrix
    layer.matrix = other.matrix
    other.matrix.set_value(_complex(rng, 4, 6))
    _check(fn, layer, z)


class _Sum(nn.Layer):
    """A buffer that calls overwrite."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__()
        self.register_buffer("total", _complex(rng, 4))

    def forward(self, z: Any) -> Any:
        """Twice the sum."""
        paddle.assign(self.total * 0.5 + z, self.total)
        return self.total * 2


@pytest.mark.parametrize("emit", ["cpp", "python"])
def test_a_buffer_is_overwritten(emit: str) -> None:
    rng = np.random.default_rng(fresh_seed())
    layer = _Sum(rng)
    layer.eval()
    want = layer.total.numpy()
    fn = sl.compile(layer, (_complex(rng, 4),), emit=emit)
    for _ in range(3):
        z = _complex(rng, 4)
        want = want * 0.5 + z.numpy()
        assert_close(fn(z), paddle.to_tensor(want * 2))
        assert_close(layer.total, paddle.to_tensor(want))
    assert fn.parameters()["total"] is layer.total


class _Transformed(nn.Layer):
    """A transform of a product, and constants of complex numbers."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__()
        self.weight = _given(rng, 4, 6)

    def forward(self, z: Any) -> Any:
        """Of named rows."""
        return paddle.fft.fft(z @ self.weight) * (1 - 2j), z + paddle.to_tensor([1j, 2, 3 - 1j, 4]).astype("complex64")


def test_a_file_and_named_rows(tmp_path: Any) -> None:
    rng = np.random.default_rng(fresh_seed())
    layer = _Transformed(rng)
    layer.eval()
    named = sl.compile(layer, (_complex(rng, 5, 4),), dynamic_shapes={"z": {0: "rows"}})
    spec = paddle.static.InputSpec([-1, 4], "complex64", "z")
    paddle.jit.save(paddle.jit.to_static(layer, full_graph=True, input_spec=[spec]), str(tmp_path / "model"))
    from_file = sl.compile(tmp_path / "model.json")
    for rows in (1, 7, 64):
        for fn in (named, from_file):
            _check(fn, layer, _complex(rng, rows, 4))
    (name,) = from_file.parameters()
    other = _complex(rng, 4, 6)
    from_file.load_parameters({name: other.numpy()})
    layer.weight.set_value(other)
    _check(from_file, layer, _complex(rng, 2, 4))
    with pytest.raises(sl.UserError, match=r"is complex64\[4, 5\] but complex64\[4, 6\] was compiled"):
        from_file.load_parameters({name: other.numpy()[:, :5]})
