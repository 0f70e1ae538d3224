# SPDX-License-Identifier: Apache-2.0
"""Tensors of Paddle as arguments, parameters and results; layers called by `to_straightline`."""

from __future__ import annotations

import gc
import os
import pathlib
import threading
from typing import Any

import numpy as np
import paddle
import pytest
import straightline as sl
import torch
from paddle import nn

from tests.frameworks.paddle.comparison import assert_close, fresh_seed


def _sum(x: Any, y: Any) -> Any:
    return x + y


@pytest.fixture(autouse=True)
def _seed() -> None:
    paddle.seed(fresh_seed())


@pytest.fixture(scope="module")
def added() -> Any:
    """The sum of two [3, 4] tensors of floats, compiled."""
    return sl.compile(_sum, (paddle.ones([3, 4]), paddle.ones([3, 4])))


def test_results_are_of_the_arguments_kind(added: Any) -> None:
    kinds = {paddle.Tensor: paddle.ones([3, 4]), np.ndarray: np.ones((3, 4), "float32"), torch.Tensor: torch.ones(3, 4)}
    for kind, x in kinds.items():
        found = added(x, x)
        assert type(found) is kind
        assert float(found.sum()) == 24.0


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8"])
def test_element_types(dtype: str) -> None:
    x = (paddle.arange(6).astype("float32") - 2).abs().reshape([2, 3]).astype(dtype)

    def doubled(x: Any) -> Any:
        return paddle.scale(x, 2.0, 1.0) if dtype != "uint8" else x.astype("int32")

    found = sl.compile(doubled, (x,))(x)
    want = x.astype("float32") * 2 + 1 if dtype != "uint8" else x.astype("float32")
    assert str(found.dtype) == f"paddle.{dtype if dtype != 'uint8' else 'int32'}"
    np.testing.assert_array_equal(found.astype("float32").numpy(), want.numpy())


def _resident() -> int:
    """Bytes of memory that the process has."""
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_the_memory_of_results_goes_back() -> None:
    x = paddle.ones([512, 512])  # 1 MiB
    fn = sl.compile(_sum, (x, x))
    fn(x, x)
    before = _resident()
    for _ in range(200):
        fn(x, x)
    assert _resident() - before < 40 << 20


def test_scalars_and_empty_tensors() -> None:
    x = paddle.to_tensor(3.0)
    assert x.shape == []
    found = sl.compile(_sum, (x, x))(x, x)
    assert found.shape == [] and float(found) == 6.0
    empty = paddle.zeros([0, 4])
    assert sl.compile(_sum, (empty, empty))(empty, empty).shape == [0, 4]


def test_arguments_and_results_are_not_copied(added: Any) -> None:
    x, out = paddle.randn([3, 4]), paddle.zeros([3, 4])
    at = out.data_ptr()
    found = added(x, x, out=out)
    assert found is out and out.data_ptr() == at
    assert_close(out, x + x)
    reuse = sl.compile(_sum, (x, x), reuse_outputs=True)
    assert len({reuse(x, x).data_ptr() for _ in range(20)}) <= 4
    held = [reuse(x, x) for _ in range(3)]
    assert len({found.data_ptr() for found in held}) == 3
    fresh = added(x, x)
    assert fresh.data_ptr() != added(x, x).data_ptr()


def test_examples_that_are_views(added: Any) -> None:
    x, y = paddle.randn([4, 3]).T, paddle.randn([3, 4])
    with pytest.raises(sl.GuardError, match="strides are"):
        added(x, y)
    assert_close(added(x.contiguous(), y), x + y)
    assert_close(sl.compile(_sum, (x, y))(x, y), x + y)


def test_out_that_does_not_fit(added: Any) -> None:
    x = paddle.ones([3, 4])
    for out, words in ((paddle.ones([4, 4]), "size"), (paddle.ones([3, 4], "float64"), "dtype")):
        with pytest.raises(sl.GuardError, match=words):
            added(x, x, out=out)


def test_results_outlive_the_program() -> None:
    x = paddle.full([256, 256], 1.5)
    compiled = sl.compile(_sum, (x, x))
    held = [compiled(x, x) for _ in range(5)]
    del compiled
    gc.collect()
    _ = [paddle.randn([256, 256]) for _ in range(10)]
    for found in held:
        assert float(found.min()) == float(found.max()) == 3.0


def test_gradients_are_refused(added: Any) -> None:
    x, moving = paddle.ones([3, 4]), paddle.ones([3, 4])
    moving.stop_gradient = False
    words = (
        "'y' has stop_gradient=False while grad mode is on, but a compiled program records no gradient: give x.detach()"
    )
    with pytest.raises(sl.GuardError, match="stop_gradient=False while grad mode is on") as error:
        added(x, moving)
    assert words in str(error.value)
    added(x, moving.detach())
    with paddle.no_grad():
        assert added(x, moving).stop_gradient


def test_parameters_are_tensors_of_paddle() -> None:
    layer, x = nn.Linear(4, 3), paddle.randn([2, 4])
    fixed = sl.compile(layer, (x,))
    live = sl.compile(layer, (x,), freeze=False)
    with paddle.no_grad():
        before = layer(x)
        assert_close(fixed(x), before)
        layer.weight.set_value(layer.weight * 2)
        assert_close(live(x), layer(x))
        assert_close(fixed(x), before)
        fixed.load_parameters(layer.state_dict())
        assert_close(fixed(x), layer(x))
        layer.bias.set_value(paddle.ones([3]))
        fixed.load_parameters({tensor.name: tensor for tensor in layer.parameters()})
        assert_close(fixed(x), layer(x))
        other = fixed.with_parameters({"weight": np.zeros((4, 3), "float32"), "bias": np.zeros(3, "float32")})
        assert float(other(x).abs().max()) == 0.0
        assert_close(fixed(x), layer(x))


def test_names_of_buffers() -> None:
    layer = nn.Sequential(nn.Conv2D(2, 3, 3), nn.BatchNorm2D(3))
    layer.eval()
    x = paddle.randn([1, 2, 8, 8])
    compiled = sl.compile(layer, (x,))
    assert {"1._mean", "1._variance", "0.weight"} <= set(compiled.parameters())
    state = {name: tensor * 2 + 0.5 for name, tensor in layer.state_dict().items()}
    compiled.load_parameters(state)
    layer.set_state_dict(state)
    with paddle.no_grad():
        assert_close(compiled(x), layer(x), scale=4)


class _Tied(nn.Layer):
    """A weight under two names, and parameters that no call reads."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.unread = nn.Embedding(7, 4), nn.Linear(3, 2)
        self.weight = self.words.weight
        self.register_buffer("hidden", paddle.ones([7]), persistable=False)

    def forward(self, words: Any) -> Any:
        return paddle.matmul(self.words(words), self.weight, transpose_y=True) + self.hidden


@pytest.mark.parametrize(
    ("make", "x"),
    [(lambda: nn.LSTM(4, 8, 2, "bidirect"), lambda: paddle.randn([2, 3, 4])), (_Tied, lambda: paddle.to_tensor([[1, 2]])),
     (lambda: nn.Sequential(nn.utils.weight_norm(nn.Linear(4, 4))), lambda: paddle.randn([2, 4]))],
    ids=["recurrent", "tied", "weight_norm"],
)  # fmt: skip
def test_whole_state_dicts_are_loaded(make: Any, x: Any, tmp_path: pathlib.Path) -> None:
    """Names of one tensor that Paddle gives twice, and tensors that the program does not read."""
    layer, other, given = make(), make(), x()
    layer.eval()
    other.eval()
    compiled = sl.compile(layer, (given,))
    compiled.save(tmp_path / "m.sl")
    with paddle.no_grad():
        for fn in (compiled, sl.load(tmp_path / "m.sl")):
            fn.load_parameters(other.state_dict())
            got, want = (f(given) for f in (fn, other))
            assert_close(*(y[0] if isinstance(y, (tuple, list)) else y for y in (got, want)))
            fn.load_parameters({tensor.name: tensor for tensor in layer.state_dict().values()})
            got, want = (f(given) for f in (fn, layer))
            assert_close(*(y[0] if isinstance(y, (tuple, list)) else y for y in (got, want)))


def test_parameters_that_do_not_fit() -> None:
    layer = nn.Linear(4, 3)
    compiled = sl.compile(layer, (paddle.ones([2, 4]),))
    with pytest.raises(sl.UserError) as error:
        compiled.load_parameters(
            {"weight": paddle.ones([3, 3]), "bias": paddle.ones([3], "float64"), "wieght": paddle.ones([1])}
        )
    words = str(error.value)
    assert "unknown: 'wieght' (the module has 'weight')" in words
    assert "'weight' is float32[3, 3] but float32[4, 3] was compiled" in words
    assert "'bias' is float64[3] but float32[3] was compiled" in words


class _Counts(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", paddle.zeros([1]))

    def forward(self, x: Any) -> Any:
        paddle.assign(self.calls + 1.0, self.calls)
        return x + self.calls


class _Written(_Counts):
    def forward(self, x: Any) -> Any:
        self.calls[0] = self.calls[0] + 1.0
        return x + self.calls


@pytest.mark.parametrize("made", [_Counts, _Written])
def test_buffers_that_are_overwritten_are_state(made: Any) -> None:
    layer, x = made(), paddle.zeros([2])
    compiled = sl.compile(layer, (x,))
    assert [float(compiled(x)[0]) for _ in range(3)] == [1.0, 2.0, 3.0]
    assert float(layer.calls[0]) == 3.0


def test_to_straightline() -> None:
    layer = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    layer.eval()
    called = sl.paddle.to_straightline(layer)
    with paddle.no_grad():
        for batch in (2, 5, 2):
            x = paddle.randn([batch, 4])
            assert_close(called(x), layer(x))
        assert len(called.programs) == 2
        layer[0].weight.set_value(layer[0].weight * 3)
        assert_close(called(x), layer(x))
    assert list(called.state_dict()) == list(layer.state_dict())
    with pytest.raises(sl.UserError, match="call it under paddle.no_grad"):
        called(x)
    dynamic = sl.paddle.to_straightline(layer, dynamic_shapes={"input": {0: "batch"}})
    with paddle.no_grad():
        for batch in (2, 5, 7):
            x = paddle.randn([batch, 4])
            assert_close(dynamic(x), layer(x))
    assert len(dynamic.programs) == 1
    layer.train()
    with paddle.no_grad():
        called(x)  # nothing of it differs in training


def test_to_straightline_of_a_function_with_constants() -> None:
    def scaled(x: Any, factor: float = 1.0, *, flag: bool = False) -> Any:
        return (x * factor, None) if flag else x * factor

    called = sl.paddle.to_straightline(scaled)
    x = paddle.ones([3])
    assert float(called(x, 2.0)[0]) == 2.0
    assert float(called(x, factor=4.0)[0]) == 4.0
    assert called(x, flag=True)[1] is None
    assert len(called.programs) == 3


def test_calls_from_threads(added: Any) -> None:
    wrong = []

    def call(seed: int) -> None:
        x = paddle.full([3, 4], float(seed))
        for _ in range(200):
            if float(added(x, x)[2, 3]) != 2.0 * seed:
                wrong.append(seed)

    threads = [threading.Thread(target=call, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_saved_and_loaded(tmp_path: Any) -> None:
    layer, x = nn.Linear(4, 3), paddle.randn([2, 4])
    compiled = sl.compile(layer, (x,))
    compiled.save(tmp_path / "model.sl", cpus=("host",))
    loaded = sl.load(tmp_path / "model.sl")
    with paddle.no_grad():
        assert_close(loaded(x), layer(x))


def test_emitted_python() -> None:
    x = paddle.randn([3, 4])
    compiled = sl.compile(_sum, (x, x), emit="python")
    assert_close(compiled(x, x), x + x)
    assert "def run" in compiled.code
